"""Corrections to an ASE calculator: labels less its results to learn from, and the sum of both to compute with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from ase.calculators.calculator import Calculator
from ase.calculators.mixing import SumCalculator

from ..atoms.structures import Labels
from ..datasets.readers import from_ase
from ..errors import InputError
from ..model.potential import Model
from .ase import QMLLightning

if TYPE_CHECKING:
    from ase import Atoms

    from ..atoms.dataset import Dataset


def past_calculator(frames: Sequence[Atoms], calculator: Calculator, *, name: str = "") -> Dataset:
    """Structures of ASE with labels less the results of `calculator`, for `fit`: the model learns the difference.

    Energies, forces and stress are subtracted where the frames have them. `name`: of the calculator, kept in the model;
    by default that of its class.
    """
    data = from_ase(frames)
    kinds = {"energies": "energy", "forces": "forces", "stress": "stress"}
    missing = [kinds[kind] for kind in data.labels.kinds if kinds[kind] not in calculator.implemented_properties]
    if missing or not data.labels.kinds:
        has = ", ".join(data.labels.kinds) or "no labels"
        raise InputError(
            f"The calculator has no {' and '.join(missing) or 'labels to be subtracted from'}; the frames have {has}. "
            "Take another calculator, or leave these labels out of the frames."
        )
    results: dict[str, list[np.ndarray]] = {kind: [] for kind in data.labels.kinds}
    for atoms in frames:
        bare = atoms.copy()  # type: ignore[no-untyped-call]
        bare.calc = calculator
        for kind, found in results.items():
            if kind == "energies":
                found.append(np.array([bare.get_potential_energy()]))
            elif kind == "forces":
                found.append(bare.get_forces())
            else:
                # structures without a volume have no stress
                found.append(bare.get_stress(voigt=False)[None] if bare.pbc.all() else np.full((1, 3, 3), np.nan))
    cheaper = {kind: torch.from_numpy(np.concatenate(found)) for kind, found in results.items()}
    labels = Labels(**{kind: getattr(data.labels, kind) - values for kind, values in cheaper.items()})
    source = replace(data.source, baseline=f"calculator {name or type(calculator).__name__}")
    return replace(data, labels=labels, source=source, baseline=cheaper.get("energies"))


def corrected(model: Model, calculator: Calculator, **options: Any) -> SumCalculator:
    """ASE calculator with the sums of energies, forces and stress of `calculator` and of a model that corrects it."""
    if not model.corrects:
        raise InputError(
            "The model was trained on whole energies: added to another calculator they would count twice. Train it on "
            "differences, with data of past_calculator or with load_dataset(…, baseline=…)."
        )
    return SumCalculator([calculator, QMLLightning(model, correction=True, **options)])  # type: ignore[no-untyped-call]
