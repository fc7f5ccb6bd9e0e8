"""A fit with its equations on disk beside the same fit in memory, or its floor: time, bytes moved, peak of the process.

python benchmarks/out_of_core.py --features 8192 --memory 0.5GiB     # in memory as well, in a process of its own
python benchmarks/out_of_core.py --features 32768 --memory 4GiB --only-disk
python benchmarks/out_of_core.py --quick                             # seconds; writes nothing
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from common import Headline, options_of_a_fit, recipe_with, rmd17, table, write
from training import rates

from qml_lightning import fit
from qml_lightning.resources import GIB, bytes_from


def peak() -> int:
    """Most bytes that this process had in memory: not getrusage, which also tells of the parent."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def one_fit(options: argparse.Namespace, limit: int | None) -> dict[str, Any]:
    """Fit, and tell; the weights are left in a file to be compared."""
    data = rmd17(options.molecule, options.structures)
    recipe = recipe_with(options.features, ridge=options.ridge)
    seconds: dict[str, float] = {}

    def tell(what: str, done: int, of: int, remark: str = "") -> None:
        seconds[what] = time.perf_counter() - start  # when it was last told of

    start, busy = time.perf_counter(), time.process_time()
    potential = fit(data, recipe, memory_limit=limit, scratch=options.scratch, progress=tell)
    total = time.perf_counter() - start
    torch.save(potential.weights, options.weights)
    return {
        "seconds": total,
        "processor_seconds": time.process_time() - busy,  # a machine that is shared does not change it much
        "equations_seconds": seconds["equations"],
        "solving_seconds": total - seconds["equations"],
        "peak_bytes": peak(),
        "rows": potential.provenance["targets"],
        **potential.provenance["solution"].get("out_of_core", {}),
    }


def floor(rows: int, features: int) -> float:
    """Seconds that half a matrix product and a Cholesky factorisation of the smaller form take, at the rates of now."""
    rate, small, large = rates(8192), min(rows, features), max(rows, features)
    return large * small**2 / rate["product"] / 1e9 + small**3 / 3 / rate["cholesky"] / 1e9


def elsewhere(options: argparse.Namespace, limit: int | None) -> tuple[dict[str, Any], torch.Tensor]:
    """`one_fit` in a process of its own, so that peaks do not mix."""
    arguments = [*sys.argv[1:], "--features", options.features, "--structures", options.structures]
    arguments += ["--weights", options.weights, "--child", 0 if limit is None else limit]
    command = [sys.executable, __file__, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    weights = torch.load(options.weights)
    Path(options.weights).unlink()
    print(done.stdout, file=sys.stderr, flush=True)  # hours may be lost before the other one is done
    return json.loads(done.stdout), weights


def main() -> None:
    parser = options_of_a_fit(__doc__)
    parser.add_argument("--memory", default="0.5GiB")
    parser.add_argument("--scratch")
    parser.add_argument("--only-disk", action="store_true", help="where the matrix would not fit in memory")
    parser.add_argument("--weights", default=f"weights_{time.time_ns()}.pt", help=argparse.SUPPRESS)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        print(json.dumps(one_fit(options, options.child or None)))
        return
    if options.quick:
        options.features, options.structures = 2048, 100
    limit = bytes_from(options.memory)
    disk, weights = elsewhere(options, limit)
    runs = {"on disk": disk}
    difference = None
    if not options.only_disk:
        runs["in memory"], other = elsewhere(options, None)
        difference = float((weights - other).norm() / other.norm())
    least = floor(sum(disk["rows"].values()), options.features)
    names = list(dict.fromkeys(name for run in runs.values() for name in run))
    print(table(["", *runs], [[name, *(_told(name, run.get(name)) for run in runs.values())] for name in names]))
    print(
        f"{disk['seconds'] / least:.2f} × the floor of {least:.0f} s. Weights differ by {difference}; "
        f"the peak is {disk['peak_bytes'] / limit:.2f} of the limit."
    )
    if not options.quick:
        beside = f"{disk['seconds'] / least:.2f} × half a matrix product and a Cholesky factorisation"
        if not options.only_disk:
            beside = f"{disk['seconds'] / runs['in memory']['seconds']:.2f} × the same in memory"
        what = f"fit of {options.structures} {options.molecule} structures, {options.features} features, on disk"
        taken = f"{what} within {options.memory}: peak of memory"
        headline = [
            Headline(taken, f"{disk['peak_bytes'] / GIB:.2f} GiB", f"{disk['disk_bytes'] / GIB:.1f} GiB on disk"),
            Headline(what, f"{disk['seconds']:.0f} s", beside, timing=True),
        ]
        results = {
            "memory_bytes": limit,
            "ridge": options.ridge,
            "structures": options.structures,
            "runs": runs,
            "floor_seconds": least,
            "weights_difference": difference,
        }
        write(f"out_of_core_{options.molecule}_{options.features}", results, headline)


def _told(name: str, value: Any) -> str:
    if "bytes" in name and value is not None:
        return f"{value / GIB:.2f} GiB"
    return f"{value:.1f}" if isinstance(value, float) else "" if value is None else str(value)


if __name__ == "__main__":
    main()
