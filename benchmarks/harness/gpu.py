"""GPUs that are not here: their published peaks, and our kernels compiled for them in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .places import ROOT

# Triton interprets its kernels where TRITON_INTERPRET is set, and compiles them elsewhere: never both in one process.
PROGRAM = """
import json, sys
from gpu_launches import launches
from qml_lightning.kernels.triton.compile_ahead import OPERATIONS, compiled, distinct, within_limits

found = []
for launch in distinct(launches(sys.argv[2])):
    if sys.argv[3:] and launch.kernel.__name__ not in sys.argv[3:]:
        continue
    one = compiled(launch, int(sys.argv[1]))
    found.append({
        "name": one.name, "registers": one.registers, "shared_bytes": one.shared, "warps": one.warps,
        "instructions": one.by_depth(), "units": one.by_unit(), "operations": one.by_depth(OPERATIONS),
        "does_not_fit": list(within_limits(one)),
        "precision": [str(a.dtype).removeprefix("torch.") for a in launch.arguments if hasattr(a, "is_floating_point")
                      and a.is_floating_point()][0],
    })
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Card:
    """Peaks of a GPU as its maker states them."""

    architecture: int  # 86: compute capability 8.6
    processors: int  # streaming multiprocessors
    gigahertz: float  # boost clock
    bandwidth: float  # GB/s
    float64_lanes: int  # float64 operations of a processor in one cycle
    warps: int  # that a processor holds, in so many programs, with so many KiB of shared memory
    programs: int
    shared: int
    registers: int = 65536  # of a processor

    @property
    def issue_rate(self) -> float:
        """Instructions of warps in a second: four for each processor in each cycle."""
        return 4e9 * self.processors * self.gigahertz

    @property
    def float32_lanes(self) -> int:
        return 64 if self.architecture == 80 else 128

    def rate(self, unit: str) -> float:
        """Instructions of warps in a second that a kind of unit takes (CUDA programming guide, throughput)."""
        lanes = {"float64": self.float64_lanes, "float32": self.float32_lanes, "special": 16, "memory": 32}
        return 1e9 * self.processors * self.gigahertz * lanes.get(unit, 64) / 32

    @property
    def float32_flops(self) -> float:
        return 2e9 * self.processors * self.gigahertz * self.float32_lanes

    @property
    def fast_float64(self) -> bool:
        """At half the rate of float32, and not at a 64th of it."""
        return self.float64_lanes > 2

    @property
    def float64_flops(self) -> float:
        return 2e9 * self.processors * self.gigahertz * self.float64_lanes

    def occupancy(self, registers: int, warps: int, shared_bytes: int) -> float:
        """Part of the warps of a processor that are there at once, as programs have room in it."""
        of_warp = 32 * -(-registers // 8) * 8
        room = self.registers // of_warp // warps, self.warps // warps, self.programs
        of_shared = 1024 * self.shared // (shared_bytes + 1024)  # a KiB of each program is the driver's
        return min(*room, of_shared) * warps / self.warps


CARDS = {
    "RTX 3080": Card(86, 68, 1.71, 760, 2, 48, 16, 100),
    "A100": Card(80, 108, 1.41, 1555, 32, 64, 32, 164),
    "H100": Card(90, 132, 1.98, 3350, 64, 64, 32, 228),
}


def compiled_apart(architecture: int, which: str, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Kernels of `which` (see tests/helpers/gpu_launches) compiled for an architecture: all, or those of some names."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    helpers = str(ROOT / "tests" / "helpers")
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (helpers, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(architecture), which, *names],
        capture_output=True,
        text=True,
        env=environment,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
