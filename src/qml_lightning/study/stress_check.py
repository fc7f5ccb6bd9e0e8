"""Check that stress belongs to energies and forces: finds wrong signs, kbar, GPa and other units, another order.

A small fit to energies and forces, without the stress, predicts the stress.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import permutations

import torch
from torch import Tensor

from ..api import fit
from ..atoms.dataset import Dataset
from ..atoms.structures import Labels
from ..atoms.units import STRESS_IN_EV_PER_ANGSTROM3, Units
from ..errors import SolveError
from .label_check import RECIPE, small_sample

ENERGY_WEIGHT = 30.0  # energies of strained cells tell the stress better than forces do
SIZE = (150, 4000)  # structures and atoms, at most
FEWEST = 15  # structures: below this the check says nothing
RELATED = 0.6  # correlation from which on the slope counts; five public data sets have 0.91 and more
HEALTHY = (0.45, 1.9)  # slopes; the public data sets have 0.53 (60 structures of tantalum) to 1.04
CLOSE = 1.35  # a unit is named if its factor is within this of the slope


UNRELATED = 0.4  # correlation below which a person should look
ENOUGH = 50  # structures: below this nothing is said about stress that is unrelated
CERTAIN = 0.8  # correlation of a part of the components that tells their order or their sign
SHEAR = ((1, 2), (0, 2), (0, 1))  # in the order in which six numbers are read: yz, xz, xy
SHEAR_AT = [3 * a + b for a, b in SHEAR]

UNRELATED_STRESS = (
    "Stress is unrelated to energies and forces (correlation {:.2f}, a healthy set has more than 0.9). It may belong "
    "to other frames, or its components be in another order. --stress-key '' leaves it out."
)
OTHER_ORDER = (
    "Shear stress does not belong to energies and forces (correlation {:.2f}), but does in another order ({:.2f}): six "
    "numbers are read as xx yy zz yz xz xy, and these look like xx yy zz {}. Write them in the order that is read, or "
    "as matrices, or leave them out with --stress-key ''."
)
MIXED_SIGNS = (
    "Components of the stress have different signs: correlation with what energies and forces say {:.2f} on the "
    "diagonal, and {:.2f} beside it. Turn the sign of one of them, or leave the stress out with --stress-key ''."
)


@dataclass(frozen=True)
class StressReport:
    """Result of the check."""

    slope: float = math.nan  # stress labels over the stress that energies and forces predict: 1 for a healthy set
    correlation: float = math.nan  # between labels and prediction
    finding: str = ""  # sentence that says what is wrong and what to do; empty: nothing
    refuse: bool = True  # a finding is certain: do not train on this stress


def check_stress(data: Dataset, *, device: torch.device | str = "cpu", kernels: str | None = None) -> StressReport:
    """Compare the stress with energies and forces of a sample of `data`; takes seconds."""
    labels = data.labels
    if labels.stress is None or (labels.energies is None and labels.forces is None):
        return StressReport()
    known = labels.stress.isfinite().all(2).all(1).nonzero()[:, 0]
    if len(known) < FEWEST:
        return StressReport()
    some = data.select(known[small_sample(data, known, *SIZE)])
    others = Labels(energies=some.labels.energies, forces=some.labels.forces)
    try:
        potential = fit(
            replace(some, labels=others), replace(RECIPE, energy_weight=ENERGY_WEIGHT), device=device, kernels=kernels
        )
    except SolveError:
        return StressReport()
    predicted = potential.on(device, kernels=kernels).predict(some.structures, forces=False, stress=True).stress
    assert predicted is not None
    assert some.labels.stress is not None
    x, y = predicted.flatten(), some.labels.stress.flatten()
    if not bool(x.any()) or not bool(y.any()):
        return StressReport()
    slope, correlation = least_absolute_slope(x, y), _correlation(x, y)
    if turned := _mixed_signs(predicted, some.labels.stress):
        return StressReport(slope, correlation, turned)
    if moved := _other_order(predicted, some.labels.stress):  # as in molybdenum of a public set: told, not refused
        return StressReport(slope, correlation, moved, refuse=False)
    healthy = HEALTHY[0] <= slope <= HEALTHY[1] or abs(correlation) < RELATED
    if healthy and len(some) >= ENOUGH and abs(correlation) < UNRELATED:
        return StressReport(slope, correlation, UNRELATED_STRESS.format(correlation), refuse=False)
    return StressReport(slope, correlation, "" if healthy else _finding(slope, data.source.units))


def _correlation(x: Tensor, y: Tensor) -> float:
    norms = float(x.norm() * y.norm())
    return float((x * y).sum()) / norms if norms > 0 else 0.0


def _shear(stress: Tensor) -> Tensor:
    """yz, xz and xy, (structures, 3)."""
    return stress.flatten(1)[:, SHEAR_AT]


def _mixed_signs(predicted: Tensor, labels: Tensor) -> str:
    """Sentence about shear stress whose sign is not that of the diagonal; empty if all is well."""
    shear = _correlation(_shear(predicted), _shear(labels))
    diagonal = _correlation(*(s.diagonal(dim1=1, dim2=2) for s in (predicted, labels)))
    mixed = min(abs(shear), abs(diagonal)) > CERTAIN and shear * diagonal < 0
    return MIXED_SIGNS.format(diagonal, shear) if mixed else ""


def _other_order(predicted: Tensor, labels: Tensor) -> str:
    """Sentence about shear stress whose components are in another order; empty if all is well."""
    x, y = _shear(predicted), _shear(labels)
    by_order = {order: abs(_correlation(x[:, order], y)) for order in permutations(range(3))}
    best, as_read = max(by_order, key=by_order.__getitem__), by_order[0, 1, 2]
    if by_order[best] < CERTAIN or as_read > RELATED:
        return ""
    names = " ".join(f"{'xyz'[a]}{'xyz'[b]}" for a, b in (SHEAR[k] for k in best))
    return OTHER_ORDER.format(as_read, by_order[best], names)


def least_absolute_slope(x: Tensor, y: Tensor) -> float:
    """s that minimises Σ |y − s x|: the weighted median of y / x. A minority of wrong labels does not move it."""
    x, y = x[x != 0], y[x != 0]
    order = (y / x).argsort()
    weight = x[order].abs().cumsum(0)
    return float((y / x)[order][int((weight < 0.5 * weight[-1]).sum())])


def _finding(slope: float, units: Units) -> str:
    """Sentence that names the unit and sign which would give this slope."""
    stated = units.stress.removeprefix("-") or f"{units.energy}/{units.length}³"
    before = units.stress_in_ev_per_angstrom3
    factors = {name: abs(before) / size for name, size in STRESS_IN_EV_PER_ANGSTROM3.items()}
    near = [name for name, factor in factors.items() if abs(math.log(abs(slope) / factor)) < math.log(CLOSE)]
    known = f"The stress is {slope:.4g} times what energies and forces say"
    read_as = f"it was read as {units.stress or stated}"
    if not near:
        return f"{known}. Look at its unit and sign ({read_as}), or leave it out with --stress-key ''."
    name, turned = near[0], slope < 0
    unit = ("-" if turned == (before > 0) else "") + name
    why = "so it has the opposite sign" if name == stated else f"as if it were in {name}"
    why += " and had the opposite sign (compression positive)" if turned and name != stated else ""
    mend = math.copysign(1.0 / factors[name], slope)
    return f"{known}, {why}: multiply it by {mend:.4g}, or read it with --stress-unit={unit} ({read_as})."
