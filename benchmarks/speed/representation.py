"""FCHL19 with its gradients: native kernels beside plain torch, kernelforge and qmllib, on the same molecules."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from qml_lightning import Structures

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.internals import representations, represented
from ..harness.models import load, rmd17_files
from ..harness.tables import table
from ..harness.timing import best_of

PARAMETERS = representations.ENERGIES_AND_FORCES
MOLECULES = {"native": 200, "reference": 20, "kernelforge": 5, "qmllib": 5}
RIVALS = ("kernelforge", "qmllib")


def cells(options: Options) -> list[Cell]:
    ours = [{"program": name, "precision": p} for name in ("native", "reference") for p in ("float32", "float64")]
    return [*ours, *({"program": name, "precision": "float64"} for name in RIVALS)]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    program = cell["program"]
    n = 1 if options.quick else MOLECULES[program]
    structures, dtype = load(f"rmd17_aspirin:train_01@0:{n}").structures, getattr(torch, cell["precision"])
    rival = program in RIVALS
    call = _rival(program, structures) if rival else represented(structures, PARAMETERS, program, dtype)
    seconds = best_of(call, 1 if options.quick else 3 if rival else 5)
    return {"us_per_atom": seconds / structures.n_atoms * 1e6, "molecules": n}


def _rival(name: str, structures: Structures) -> Any:
    """Values and the full gradient by another program: none of them has a pullback."""
    n, p = int(structures.counts[0]), PARAMETERS
    numbers = structures.numbers[:n].numpy()
    frames = structures.positions.view(-1, n, 3).numpy()
    options: dict[str, Any] = {
        "elements": list(structures.elements), "nRs2": p.n_radial2, "nRs3": p.n_radial3, "eta2": p.eta2, "eta3": p.eta3,
        "zeta": p.zeta, "rcut": p.cutoff, "acut": p.cutoff, "two_body_decay": p.decay2, "three_body_decay": p.decay3,
        "three_body_weight": p.weight3,
    }  # fmt: skip
    if name == "kernelforge":
        from kernelforge.fchl19_repr import generate_fchl_acsf_and_gradients

        return lambda: [generate_fchl_acsf_and_gradients(r, numbers.astype(np.int32), **options) for r in frames]
    from qmllib.representations import generate_fchl19

    return lambda: [generate_fchl19(numbers, r, gradients=True, **options) for r in frames]


def tables(entries: list[Entry]) -> str:
    times = {f"{e[CELL]['program']}, {e[CELL]['precision']}": e["us_per_atom"] for e in succeeded(entries)}
    fastest = times.get("native, float32")
    rows = [[name, f"{time:.1f}", f"{time / fastest:.1f}" if fastest else ""] for name, time in times.items()]
    return table(["FCHL19 and its gradients, aspirin", "µs per atom", "times native float32"], rows)


REPRESENTATION = Benchmark(
    "representation",
    "FCHL19 with its gradients",
    "Ours: values and the pullback of a cotangent, which is what forces need. The others have no pullback: values and "
    "the full gradient. Each in its own number of threads as it comes.",
    cells, measure, tables,
    needs=rmd17_files("aspirin"), packages=RIVALS, timing=True,
)  # fmt: skip
