"""A fit by several processes beside the same fit by one, and beside the model of docs/scaling.md.

python benchmarks/distributed.py --ranks 2 --features 8192     # one thread each; starts torchrun by itself
python benchmarks/distributed.py --quick                       # seconds; writes nothing
python benchmarks/distributed.py --model                       # the table of docs/scaling.md, no measurement
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import torch
from common import Headline, options_of_a_fit, recipe_with, rmd17, table, write

from qml_lightning import fit
from qml_lightning.distributed import joined

# What docs/scaling.md assumes of one GPU and its network: FLOP/s in float64 and bytes/s between ranks.
PRODUCT, CHOLESKY, NETWORK = 40e12, 20e12, 25e9


def one_fit(options: argparse.Namespace) -> dict[str, Any] | None:
    """What the first rank tells of the fit."""
    torch.set_num_threads(1)
    data = rmd17(options.molecule, options.structures)
    recipe = recipe_with(options.features, ridge=options.ridge)
    with joined(torch.device("cpu")) as ranks:
        start, busy = time.perf_counter(), time.process_time()
        begun: dict[str, float] = {}  # of each stage, in processor time: a machine that is shared changes it little
        tell = lambda what, *_: begun.setdefault(what, time.process_time())  # noqa: E731
        potential = fit(data, recipe, ranks=ranks, progress=tell)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
    about = potential.provenance["solution"].get("ranks", {})
    return {
        "seconds": seconds,
        "processor_seconds_of_first": busy,
        "equations_of_first": begun.get("adding up", begun["solving"]) - begun["equations"],
        "rows": sum(potential.provenance["targets"].values()),
        "bytes_sent_by_each": about.get("bytes_sent_by_each"),
        "stages": about.get("seconds"),
        "norm": float(potential.weights.norm()),
    } if ranks is None or ranks.rank == 0 else None  # fmt: skip


def elsewhere(options: argparse.Namespace, ranks: int) -> dict[str, Any]:
    """`one_fit` by so many processes."""
    own = ["--features", options.features, "--structures", options.structures, "--ridge", options.ridge]
    child = [__file__, "--child", "--molecule", options.molecule, *map(str, own)]
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    done = subprocess.run([sys.executable, *start, *child], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def model() -> str:
    """Seconds by the model: equations / P + 4 N² / network + N³ / 3, with the rates above."""
    lines = []
    for features, rows in ((32768, 1e6), (32768, 3e7), (65536, 1e6), (65536, 3e7)):
        equations = rows * features**2 / PRODUCT
        send, factor = 4 * features**2 / NETWORK, features**3 / 3 / CHOLESKY
        by_ranks = [equations / p + send + factor for p in (8, 64, 256, 1024)]
        alone = equations + factor
        even = equations / (send + factor)
        cells = [f"{t:.1f} ({alone / t:.0f}×)" for t in by_ranks]
        shown = [f"{alone:.0f}", f"{4 * features**2 / 1e9:.0f} GB, {send:.1f}", f"{factor:.1f}", *cells, f"{even:.0f}"]
        lines.append([f"{features}, {rows:.0e}".replace("e+0", "e"), *shown])
    head = ["N_F, rows", "one GPU", "sent", "Cholesky", "8", "64", "256", "1024", "half of it serial at"]
    return table(head, lines)


def headline(results: dict[str, Any]) -> list[Headline]:
    """In processor time, which others on the machine change little."""
    ranks, runs = results["ranks"], results["runs"]
    several, alone = runs[f"{ranks} ranks"], runs["one process"]
    shared, whole = alone["equations_of_first"], alone["processor_seconds_of_first"]
    return [
        Headline(
            f"fit of {results['features']} features by {ranks} ranks of one thread: processor time of the first",
            f"{several['processor_seconds_of_first']:.1f} s",
            f"the model {whole - shared + shared / ranks:.1f} s, one process {whole:.1f} s",
        )
    ]


def told(results: dict[str, Any]) -> str:
    """The measurement beside the model, for docs/scaling.md."""
    n, ranks, runs = results["features"], results["ranks"], results["runs"]
    several, alone = runs[f"{ranks} ranks"], runs["one process"]
    sent, shared = several["bytes_sent_by_each"], alone["equations_of_first"]
    adding = several["stages"]["adding_up"]
    rest = alone["processor_seconds_of_first"] - shared
    lines = [
        ["bytes that each rank sends", f"4·N_F² = {4 * n**2 / 1e6:.1f} MB", f"{sent / 1e6:.1f} MB"],
        ["adding up", "4·N_F² / b", f"{adding:.2f} s: b = {4 * n**2 / adding / 1e9:.2f} GB/s, waiting included"],
        ["processor time for the equations, each rank",
         f"{shared:.1f} s of one process / {ranks} = {shared / ranks:.1f} s", f"{several['equations_of_first']:.1f} s"],
        ["processor time of the first rank", f"{shared / ranks:.1f} s + {rest:.1f} s that are not shared = "
         f"{shared / ranks + rest:.1f} s", f"{several['processor_seconds_of_first']:.1f} s"],
        ["weights, relative difference of their norms", "rounding",
         f"{abs(several['norm'] / alone['norm'] - 1):.0e}"],
    ]  # fmt: skip
    return table(["", "model", "measured"], lines)


def main() -> None:
    parser = options_of_a_fit(__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.model:
        print(model())
        return
    if options.child:
        about = one_fit(options)
        if about is not None:
            print(json.dumps(about))
        return
    if options.quick:
        options.features, options.structures = 2048, 100
    several, alone = elsewhere(options, options.ranks), elsewhere(options, 1)
    runs = {f"{options.ranks} ranks": several, "one process": alone}
    print(table(["", *runs], [[name, *(str(run[name]) for run in runs.values())] for name in several]))
    results = {"ranks": options.ranks, "features": options.features, "runs": runs}
    print(told(results))
    if not options.quick:
        write(f"distributed_{options.molecule}_{options.features}", results, headline(results))


if __name__ == "__main__":
    main()
