"""FCHL19 with its gradients: native kernels beside plain torch, kernelforge and qmllib, on the same aspirin molecules.

    python benchmarks/representation.py

Ours: values and the pullback of a cotangent, which is what forces need. The others have no pullback: values and the
full gradient. Each in its own number of threads as it comes; all in one run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from common import SHARED_DATA, best_of, table, write

from qml_lightning import load_dataset
from qml_lightning.kernels import kernels_for
from qml_lightning.neighbours import pairs_within
from qml_lightning.representation import ENERGIES_AND_FORCES

MOLECULES = {"native": 200, "reference": 20, "kernelforge": 5, "qmllib": 5}


def ours(name: str, dtype: torch.dtype) -> float:
    """µs per atom of values and pullback."""
    structures = load_dataset(f"rmd17_aspirin:test_01@0:{MOLECULES[name]}", data_folder=SHARED_DATA).structures
    p = ENERGIES_AND_FORCES.arguments(len(structures.elements))
    pairs = pairs_within(structures, p.cutoff, structures.elements)
    kernels, vectors, n = kernels_for("cpu", dtype, name), pairs.vector.to(dtype), structures.n_atoms
    cotangent = torch.randn(n, p.size, dtype=dtype)

    def run() -> None:
        kernels.fchl19(p, n, pairs.segments, vectors)
        kernels.fchl19_pullback(p, n, pairs.segments, vectors, cotangent)

    return best_of(run, 5) / n * 1e6


def rival(name: str) -> float:
    """µs per atom of values and gradients."""
    structures = load_dataset(f"rmd17_aspirin:test_01@0:{MOLECULES[name]}", data_folder=SHARED_DATA).structures
    numbers = structures.numbers[:21].numpy()
    frames = structures.positions.view(-1, 21, 3).numpy()
    p = ENERGIES_AND_FORCES
    options: dict[str, Any] = {
        "elements": list(structures.elements), "nRs2": p.n_radial2, "nRs3": p.n_radial3, "eta2": p.eta2, "eta3": p.eta3,
        "zeta": p.zeta, "rcut": p.cutoff, "acut": p.cutoff, "two_body_decay": p.decay2, "three_body_decay": p.decay3,
        "three_body_weight": p.weight3,
    }  # fmt: skip
    if name == "kernelforge":
        from kernelforge.fchl19_repr import generate_fchl_acsf_and_gradients

        def run() -> None:
            for positions in frames:
                generate_fchl_acsf_and_gradients(positions, numbers.astype(np.int32), **options)
    else:
        from qmllib.representations import generate_fchl19

        def run() -> None:
            for positions in frames:
                generate_fchl19(numbers, positions, gradients=True, **options)

    return best_of(run, 3) / structures.n_atoms * 1e6


def main() -> None:
    results = {
        "native, float32": ours("native", torch.float32),
        "native, float64": ours("native", torch.float64),
        "reference, float32": ours("reference", torch.float32),
        "reference, float64": ours("reference", torch.float64),
        "kernelforge": rival("kernelforge"),
        "qmllib": rival("qmllib"),
    }
    fastest = results["native, float32"]
    rows = [[name, f"{time:.1f}", f"{time / fastest:.1f}"] for name, time in results.items()]
    print(table(["FCHL19 and its gradients, aspirin", "µs per atom", "times native float32"], rows))
    write("representation", {"us_per_atom": results, "molecules": MOLECULES})


if __name__ == "__main__":
    main()
