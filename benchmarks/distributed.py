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
        potential = fit(data, recipe, ranks=ranks)
        seconds = time.perf_counter() - start
    about = potential.provenance["solution"].get("ranks", {})
    return {
        "seconds": seconds,
        "processor_seconds_of_first": time.process_time() - busy,
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
        told = one_fit(options)
        if told is not None:
            print(json.dumps(told))
        return
    if options.quick:
        options.features, options.structures = 2048, 100
    several, alone = elsewhere(options, options.ranks), elsewhere(options, 1)
    runs = {f"{options.ranks} ranks": several, "one process": alone}
    print(table(["", *runs], [[name, *(str(run[name]) for run in runs.values())] for name in several]))
    sent = several["bytes_sent_by_each"]
    print(
        f"Sent: {sent / (4 * options.features**2):.3f} of 4 N_F² bytes, at "
        f"{sent / several['stages']['adding_up'] / 1e9:.2f} GB/s (waiting for the slowest rank counts). "
        f"{alone['seconds'] / several['seconds']:.2f} × one process."
    )
    if not options.quick:
        headline = Headline(
            f"fit of {options.features} features by {options.ranks} ranks of one thread",
            f"{several['seconds']:.0f} s",
            f"{alone['seconds'] / several['seconds']:.2f} × as fast as one",
            timing=True,
        )
        write(f"distributed_{options.molecule}_{options.features}", {"ranks": options.ranks, "runs": runs}, [headline])


if __name__ == "__main__":
    main()
