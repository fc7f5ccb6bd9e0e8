"""Check that labels belong together: finds mixed units, a wrong sign, shuffled frames, a wrong zero.

Two small fits, each to one kind of label, predict the other kind. Energies alone predict forces well enough for any
data set; forces alone predict energies very well for frames of one system.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from ..api import fit
from ..atoms.dataset import Dataset
from ..atoms.structures import Labels, Structures
from ..atoms.units import ENERGY_IN_EV, LENGTH_IN_ANGSTROM
from ..datasets.content import Content
from ..datasets.unit_hints import likely_units
from ..errors import SolveError
from ..linear.robust_deviation import deviation_by_median
from ..model.baseline import Baseline, least_absolute, least_squares
from ..model.features import FeatureSettings
from ..model.predictor import Prediction
from ..model.recipe import Recipe
from ..model.representations.fchl19 import FCHL19
from .contradictions import disagreement_note, split_energies

# Small, with a short cutoff: takes seconds, and is good to a few per cent.
RECIPE = Recipe(
    FCHL19(cutoff=4.0, n_radial2=16, n_radial3=8, weight3=0.2, angular="series", n_angular=3),
    rank=64,
    features=FeatureSettings(n_features=1024),
    ridge=1e-6,
    projection_samples=500,
)
# Structures and atoms, at most: many for energies, which are cheap to learn and to predict; few for forces.
MANY = (500, 8000)
FEW = (100, 1200)
FEWEST = 20  # structures: below this the check says nothing
ENOUGH, SURELY_ENOUGH = 50, 100  # structures: below these it does not say that labels are unrelated, or refuse them
# Correlation of forces with those that the energies predict: 0.6 to 1 in healthy sets (0.31 in 50
# structures of many molecules), below 0.4 in shuffled ones.
RELATED, UNRELATED, REFUSED = 0.5, 0.45, 0.3
SURE = 0.9
FAR = 8.0  # standard deviations: energies farther off are suspect, and closer ones have the same zero

WRONG_SIGN = (
    "The energy rises where the forces point: one of the two has the wrong sign. Forces are minus the gradient; a file "
    "with gradients needs its sign changed."
)
UNRELATED_LABELS = (
    "Energies and forces are unrelated (correlation {:.2f}, a healthy set has more than 0.6). They may belong to other "
    "frames (shuffled, or from another file), or some energies have another zero: look at how the set was put together."
)
WRONG_ZERO = (
    "{} of {} frames that were checked have energies with another zero than the rest; the first are {} (counted from "
    "0). They may come from another program or setting: bring them to one zero, or leave them out."
)


NOT_MODELLED = (
    "Energies and forces do not lie on one surface (correlation {:.2f}, a healthy set has more than 0.6), because the "
    "structures differ in {}, which is not modelled. Train on structures of one state."
)


@dataclass(frozen=True)
class LabelReport:
    """Result of the check."""

    ok: bool
    slope: float  # change of the energy labels over the change that the forces predict: 1 for a healthy set
    correlation: float  # between labels of one kind and their prediction from the other kind
    findings: tuple[str, ...] = ()  # sentences that say what is wrong and what to do
    refuse: bool = False  # the labels are clearly wrong: do not train on them


NOTHING = LabelReport(True, math.nan, math.nan)  # too few labels to judge


@dataclass(frozen=True)
class _Evidence:
    """Comparison of labels of one kind with their prediction from the other kind."""

    slope: float
    correlation: float

    @property
    def misfit(self) -> float:
        """|log |slope||: 0 for a healthy set."""
        return abs(math.log(abs(self.slope)))


def check_labels(data: Dataset, *, device: torch.device | str = "cpu", kernels: str | None = None) -> LabelReport:
    """Compare the labels of one kind with each other, and energies with forces of a sample of `data`; takes seconds."""
    strange, split = split_energies(data)
    report = _compared(data.select((~strange).nonzero()[:, 0]) if split else data, device, kernels)
    findings = [text for text in (split, disagreement_note(data)) if text]
    if not findings:
        return report
    refuse = report.refuse or bool(split)
    return replace(report, ok=False, findings=(*findings, *report.findings), refuse=refuse)


def _compared(data: Dataset, device: torch.device | str, kernels: str | None) -> LabelReport:
    """Comparison of the energies with the forces of a sample of `data`."""
    known = _with_both(data)
    if len(known) < FEWEST:
        return NOTHING
    many = known[small_sample(data, known, *MANY)]
    few = data.select(many[small_sample(data, many, *FEW)])
    learner, sample = _Learner(device, kernels), data.select(many)
    try:
        from_energies = learner.forces_from_energies(sample, few)
        from_forces, suspects = learner.energies_from_forces(few, sample)
        shifted = learner.confirmed(suspects, sample, few, from_energies)
    except SolveError:
        return NOTHING
    if not (math.isfinite(from_energies.correlation) and math.isfinite(from_forces.correlation)):
        return NOTHING  # all forces are zero or all energies are equal
    # few energies correlate with anything by chance
    related = max(RELATED, 4.0 / math.sqrt(len(many)))
    findings: list[str] = []
    refuse, best = False, from_energies
    if abs(from_energies.correlation) > related or abs(from_forces.correlation) > SURE:
        witnesses = [evidence for evidence in (from_energies, from_forces) if abs(evidence.correlation) > related]
        best, findings, refuse = _verdict(witnesses, data)
    elif len(many) >= ENOUGH and from_energies.correlation < UNRELATED:
        findings = [UNRELATED_LABELS.format(best.correlation)]
        refuse = len(many) >= SURELY_ENOUGH and best.correlation < REFUSED
    if data.source.varies and (len(shifted) or UNRELATED_LABELS.format(best.correlation) in findings):
        findings, shifted = [NOT_MODELLED.format(best.correlation, " and ".join(data.source.varies))], shifted[:0]
        refuse = False
    if len(shifted):
        first = ", ".join(map(str, many[shifted[:5]].tolist()))
        findings.append(WRONG_ZERO.format(len(shifted), len(many), first))
    return LabelReport(not findings, best.slope, best.correlation, tuple(findings), refuse)


def _with_both(data: Dataset) -> Tensor:
    """Numbers of the structures that have an energy and all forces."""
    energies, forces = data.labels.energies, data.labels.forces
    if energies is None or forces is None:
        return torch.zeros(0, dtype=torch.int64)
    unknown = torch.zeros(len(data), dtype=torch.int64)
    unknown.index_add_(0, data.structures.structure_of_atom, (~forces.isfinite().all(1)).long())
    return (energies.isfinite() & (unknown == 0)).nonzero()[:, 0]


def small_sample(data: Dataset, index: Tensor, n_structures: int, n_atoms: int) -> Tensor:
    """Places in `index` of a random part of it, within both limits but at least FEWEST."""
    order = torch.randperm(len(index), generator=torch.Generator().manual_seed(0))
    fits = data.structures.counts[index[order]].cumsum(0) <= n_atoms
    return order[: min(n_structures, max(FEWEST, int(fits.sum())))].sort().values


@dataclass(frozen=True)
class _Learner:
    """Learns one kind of label and compares the prediction of the other kind."""

    device: torch.device | str
    kernels: str | None

    def _predict(self, learn: Dataset, kind: str, structures: Structures) -> Prediction:
        labels = Labels(**{kind: getattr(learn.labels, kind)})
        potential = fit(replace(learn, labels=labels), RECIPE, device=self.device, kernels=self.kernels)
        predictor = potential.on(self.device, kernels=self.kernels)
        return predictor.predict(structures, forces=kind == "energies", stress=False)

    def forces_from_energies(self, learn: Dataset, compare: Dataset) -> _Evidence:
        predicted, labels = self._predict(learn, "energies", compare.structures).forces, compare.labels.forces
        assert predicted is not None
        assert labels is not None
        x, y = predicted.flatten(), labels.flatten()
        correlation = float(x @ y / (x.norm() * y.norm()))
        # the ratio of norms: where the prediction is poor, a regression would give a slope that is too small
        return _Evidence(math.copysign(float(x.norm() / y.norm()), correlation), correlation)

    def energies_from_forces(self, learn: Dataset, compare: Dataset) -> tuple[_Evidence, Tensor]:
        """Evidence, and structures of `compare` whose energies seem to have another zero than the rest."""
        structures, energies = compare.structures, compare.labels.energies
        assert energies is not None
        per_atom = structures.counts.double().rsqrt()
        x, y = self._predict(learn, "forces", structures).energies * per_atom, energies * per_atom
        # forces do not tell the energies of the atoms: the composition is fitted beside the slope
        counts = Baseline.composition(structures, structures.elements)
        composition = counts * per_atom[:, None]
        x = x - composition @ least_squares(composition, x, torch.ones_like(x))
        columns = torch.cat([x[:, None], composition], 1)
        solution = least_absolute(columns, y)
        residual, slope = y - columns @ solution, float(solution[0])
        spread = y - composition @ least_absolute(composition, y)
        unexplained = min(1.0, float(_deviation(residual) / _deviation(spread)))
        correlation = math.copysign(math.sqrt(1.0 - unexplained**2), slope)
        suspects = _cluster(residual / _deviation(residual)) if correlation > SURE else torch.zeros(0).long()
        # only if more structures of the same composition are not suspect
        alike = (counts[suspects][:, None] == counts[None]).all(2)
        suspect = alike[:, suspects].sum(1)
        return _Evidence(slope, correlation), suspects[alike.sum(1) - suspect > suspect]

    def confirmed(self, suspects: Tensor, learn: Dataset, compare: Dataset, before: _Evidence) -> Tensor:
        """The suspects, if the energies predict the forces much better without theirs; else none."""
        if len(suspects) == 0:
            return suspects
        keep = torch.ones(len(learn), dtype=torch.bool)
        keep[suspects] = False
        without = self.forces_from_energies(learn.select(keep), compare)
        return suspects if 1.0 - without.correlation < 0.5 * (1.0 - before.correlation) else suspects[:0]


def _deviation(x: Tensor) -> Tensor:
    """Standard deviation without outliers, from the median absolute deviation."""
    return deviation_by_median((x - x.median()).abs())


def _cluster(residual: Tensor) -> Tensor:
    """Numbers of at least three residuals, in standard deviations, that are far from the rest and close together."""
    far = ((residual - residual.median()).abs() > FAR).nonzero()[:, 0]
    if len(far) < 3:
        return far[:0]
    near = (residual[far, None] - residual[None, far]).abs() < FAR
    densest = near[int(near.sum(1).argmax())]
    return far[densest] if int(densest.sum()) >= 3 else far[:0]


def _verdict(witnesses: list[_Evidence], data: Dataset) -> tuple[_Evidence, list[str], bool]:
    """The evidence that counts, its findings on sign and units, and whether they are clear."""
    best = max(witnesses, key=lambda evidence: abs(evidence.correlation))
    sure = abs(best.correlation) > SURE
    # one good witness is enough: forces do not predict the energies of strained crystals
    mildest = min(witnesses, key=lambda evidence: (evidence.slope < 0, evidence.misfit))
    if math.exp(mildest.misfit) < (1.5 if sure else 3.0):
        return mildest, [WRONG_SIGN] if mildest.slope < 0 else [], mildest.slope < 0
    disagreement = abs(math.log(abs(witnesses[0].slope / witnesses[-1].slope)))
    mixed = _unit_mix_up(abs(best.slope), math.log(1.12 if sure else 1.6) + disagreement, data)
    return best, [WRONG_SIGN, mixed] if best.slope < 0 else [mixed], True


def _in_file_units(data: Dataset) -> Content:
    """The data set as its file has it."""
    structures, labels, units = data.structures, data.labels, data.source.units
    assert labels.energies is not None
    assert labels.forces is not None
    return Content(
        structures.numbers.numpy(),
        structures.positions.numpy(),
        structures.counts.numpy(),
        structures.cells.numpy(),
        structures.periodic.numpy(),
        np.arange(len(structures)),
        labels.energies.numpy() / units.energy_in_ev,
        labels.forces.numpy() / units.force_in_ev_per_angstrom,
    )


def _unit_mix_up(slope: float, tolerance: float, data: Dataset) -> str:
    """Sentence that names mixed units which give a slope of this size."""
    stated, likely = data.source.units.energy, likely_units(_in_file_units(data))
    units = [unit for unit in ENERGY_IN_EV if unit != "meV"]
    found = []
    for a, b, length in product(units, units, ("Å", "Bohr")):
        factor = ENERGY_IN_EV[b] / LENGTH_IN_ANGSTROM[length] / ENERGY_IN_EV[a]
        away = abs(math.log(slope / factor))
        if (b, length) != (a, "Å") and away < tolerance:
            # first those that the size of the numbers suggests, then those with the unit that the file is said to have
            unlike = (likely.energy not in ("", a)) + (likely.force not in ("", f"{b}/{length}"))
            order = (unlike, stated not in (a, b), a != b, away)
            found.append((order, f"{factor:.4g}", f"energies in {a} and forces in {b}/{length}"))
    first: dict[str, str] = {}  # of the units with the same slope
    for _, text, names in sorted(found, key=lambda one: one[0]):
        first.setdefault(text, names)
    known = f"The energies change {slope:.3g} times as much as the forces say"
    if not first:
        return f"{known}. Look at the units of both (energies were read as {stated})."
    names = " or ".join(list(first.values())[:2])
    return f"{known}, as for {names}. Say so with --energy-unit and --force-unit (energies were read as {stated})."
