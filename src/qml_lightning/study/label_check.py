"""Whether energies and forces belong together: unit mix-ups, a wrong sign, shuffled frames, a wrong zero.

Two small fits, each on one kind of label, say what the other kind should be. Energies alone predict forces well
enough for any data set, forces alone predict energies very well for frames of one system.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import torch
from torch import Tensor

from ..api import fit
from ..atoms.dataset import Dataset
from ..atoms.structures import Labels, Structures
from ..atoms.units import ENERGY_IN_EV, LENGTH_IN_ANGSTROM
from ..errors import SolveError
from ..model.baseline import Baseline
from ..model.features import FeatureSettings
from ..model.predictor import Prediction
from ..model.recipe import Recipe
from ..model.representations.fchl19 import FCHL19

# Small and short-sighted: seconds, and good to a few per cent.
RECIPE = Recipe(
    FCHL19(cutoff=4.0, n_radial2=16, n_radial3=8, weight3=0.2, angular="series", n_angular=3),
    rank=64,
    features=FeatureSettings(n_features=1024),
    ridge=1e-6,
    projection_samples=500,
)
# Structures and atoms looked at: energies are cheap to learn from and to predict, forces are not.
MANY = (500, 8000)
FEW = (100, 1200)
FEWEST = 20  # with fewer structures nothing can be said
ENOUGH = 50  # and with fewer not that there is no relation
# Correlation of forces with those that the energies predict: 0.6 to 1 in healthy sets, below 0.4 in shuffled ones.
RELATED, UNRELATED = 0.5, 0.45
SURE = 0.9


@dataclass(frozen=True)
class LabelReport:
    """What the check found: sentences that say what is wrong and what to do."""

    ok: bool
    slope: float  # change of the energy labels over the change that the forces say: 1 for a healthy set
    correlation: float  # between labels of one kind and what the other kind predicts
    findings: tuple[str, ...] = ()
    refuse: bool = False  # clear-cut: training on these labels would be a waste


NOTHING = LabelReport(True, math.nan, math.nan)  # too little to say anything

WRONG_SIGN = (
    "The energy rises where the forces point: one of the two has the wrong sign. Forces are minus the gradient; a file "
    "with gradients needs its sign changed."
)
UNRELATED_LABELS = (
    "Energies and forces are unrelated (correlation {:.2f}, a healthy set has more than 0.6). They may belong to other "
    "frames (shuffled, or from another file), or some energies have another zero: look at how the set was put together."
)


@dataclass(frozen=True)
class _Evidence:
    """What labels of one kind say about those of the other."""

    slope: float
    correlation: float


def check_labels(data: Dataset, *, device: torch.device | str = "cpu", kernels: str | None = None) -> LabelReport:
    """Compare the energies with the forces of a sample of `data`; takes seconds."""
    known = _with_both(data)
    if len(known) < FEWEST:
        return NOTHING
    many = known[_sample(data, known, *MANY)]
    few = many[_sample(data, many, *FEW)]
    learn = _Learner(device, kernels)
    try:
        from_energies = learn.forces_from_energies(data.select(many), data.select(few))
        from_forces, suspects = learn.energies_from_forces(data.select(few), data.select(many))
        off = learn.guilty(data.select(many), data.select(few), suspects, from_energies)
    except SolveError:
        return NOTHING
    if not (math.isfinite(from_energies.correlation) and math.isfinite(from_forces.correlation)):
        return NOTHING  # all forces are zero or all energies equal: nothing to compare
    # few energies correlate with anything by chance
    related = max(RELATED, 4.0 / math.sqrt(len(many)))
    findings: list[str] = []
    refuse, best = False, from_energies
    if abs(from_energies.correlation) > related or abs(from_forces.correlation) > SURE:
        witnesses = [evidence for evidence in (from_energies, from_forces) if abs(evidence.correlation) > related]
        best, findings, refuse = _judged(witnesses, data.source.units.energy)
    elif len(many) >= ENOUGH and from_energies.correlation < UNRELATED:
        findings = [UNRELATED_LABELS.format(best.correlation)]
    if len(off):
        findings.append(_wrong_zero(many[off], len(many)))
    return LabelReport(not findings, best.slope, best.correlation, tuple(findings), refuse)


def _judged(witnesses: list[_Evidence], stated: str) -> tuple[_Evidence, list[str], bool]:
    """The evidence that counts, what it says of sign and units, and whether that is clear-cut."""
    best = max(witnesses, key=lambda evidence: abs(evidence.correlation))
    sure = abs(best.correlation) > SURE
    # one witness is enough to acquit: strained crystals have energies that their forces know nothing of
    mildest = min(witnesses, key=lambda evidence: (evidence.slope < 0, abs(math.log(abs(evidence.slope)))))
    factor = math.exp(abs(math.log(abs(mildest.slope))))
    if factor < (1.5 if sure else 3.0):
        return mildest, [WRONG_SIGN] if mildest.slope < 0 else [], mildest.slope < 0
    disagreement = abs(math.log(abs(witnesses[0].slope / witnesses[-1].slope)))
    mixed = _unit_mix_up(abs(best.slope), math.log(1.12 if sure else 1.6) + disagreement, stated)
    return best, [WRONG_SIGN, mixed] if best.slope < 0 else [mixed], True


def _with_both(data: Dataset) -> Tensor:
    """Structures that have an energy and all forces."""
    energies, forces = data.labels.energies, data.labels.forces
    if energies is None or forces is None:
        return torch.zeros(0, dtype=torch.int64)
    unknown = torch.zeros(len(data), dtype=torch.int64)
    unknown.index_add_(0, data.structures.structure_of_atom, (~forces.isfinite().all(1)).long())
    return (energies.isfinite() & (unknown == 0)).nonzero()[:, 0]


def _sample(data: Dataset, index: Tensor, n_structures: int, n_atoms: int) -> Tensor:
    """Places in `index` of a random part of it, within both limits but at least FEWEST."""
    order = torch.randperm(len(index), generator=torch.Generator().manual_seed(0))
    fits = data.structures.counts[index[order]].cumsum(0) <= n_atoms
    n = min(n_structures, max(FEWEST, int(fits.sum())))
    return order[:n].sort().values


@dataclass(frozen=True)
class _Learner:
    """Learns one kind of label and says what the other kind should be."""

    device: torch.device | str
    kernels: str | None

    def _predict(self, learn: Dataset, kind: str, compare: Structures) -> Prediction:
        labels = Labels(**{kind: getattr(learn.labels, kind)})
        potential = fit(replace(learn, labels=labels), RECIPE, device=self.device, kernels=self.kernels)
        predictor = potential.on(self.device, kernels=self.kernels)
        return predictor.predict(compare, forces=kind == "energies", stress=False)

    def forces_from_energies(self, learn: Dataset, compare: Dataset) -> _Evidence:
        predicted, labels = self._predict(learn, "energies", compare.structures).forces, compare.labels.forces
        assert predicted is not None
        assert labels is not None
        x, y = predicted.flatten(), labels.flatten()
        correlation = float(x @ y / (x.norm() * y.norm()))
        # the ratio of sizes: where the prediction is poor, a regression would give a slope that is too small
        return _Evidence(math.copysign(float(x.norm() / y.norm()), correlation), correlation)

    def energies_from_forces(self, learn: Dataset, compare: Dataset) -> tuple[_Evidence, Tensor]:
        """Also structures of `compare` that share an energy offset which others of their composition do not have."""
        structures, energies = compare.structures, compare.labels.energies
        assert energies is not None
        # forces do not tell the energies of the atoms: the composition is fitted beside the slope
        per_atom = structures.counts.double().rsqrt()
        counts = Baseline.composition(structures, structures.elements)
        composition = counts * per_atom[:, None]
        x, y = self._predict(learn, "forces", structures).energies * per_atom, energies * per_atom
        residual, slope = _least_absolute(x, y, composition)
        spread = y - composition @ _solve(composition, y, _robust_weights(y, composition))
        unexplained = min(1.0, float(_deviation(residual) / _deviation(spread)))
        correlation = math.copysign(math.sqrt(1.0 - unexplained**2), slope)
        suspects = _cluster(residual / _deviation(residual)) if correlation > SURE else torch.zeros(0).long()
        return _Evidence(slope, correlation), _minority(suspects, counts)

    def guilty(self, learn: Dataset, compare: Dataset, suspects: Tensor, before: _Evidence) -> Tensor:
        """The suspects, if energies without theirs predict the forces much better; else none."""
        if len(suspects) == 0:
            return suspects
        keep = torch.ones(len(learn), dtype=torch.bool)
        keep[suspects] = False
        without = self.forces_from_energies(learn.select(keep.nonzero()[:, 0]), compare)
        return suspects if 1.0 - without.correlation < 0.5 * (1.0 - before.correlation) else suspects[:0]


def _least_absolute(x: Tensor, y: Tensor, composition: Tensor) -> tuple[Tensor, float]:
    """Residual and slope of y against x and the composition, not led astray by a part of the frames."""
    columns = torch.cat([x[:, None], composition], 1)
    columns[:, 0] -= composition @ _solve(composition, x, torch.ones_like(x))
    solution = _solve(columns, y, _robust_weights(y, columns))
    return y - columns @ solution, float(solution[0])


def _robust_weights(y: Tensor, columns: Tensor) -> Tensor:
    """Weights under which least squares becomes least absolute deviations."""
    weights = torch.ones_like(y)
    for _ in range(50):
        residual = (y - columns @ _solve(columns, y, weights)).abs()
        weights = 1.0 / residual.clamp(min=1e-6 * float(residual.max()) + 1e-300)
    return weights


def _solve(columns: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    root = (weights / weights.max()).sqrt()
    left, right = columns * root[:, None], (y * root)[:, None]
    solution: Tensor = torch.linalg.lstsq(left, right, rcond=1e-12, driver="gelsd").solution
    return solution[:, 0]


def _deviation(x: Tensor) -> Tensor:
    """Standard deviation of the bulk, blind to outliers: from the median absolute deviation."""
    return 1.4826 * (x - x.median()).abs().median()


def _cluster(residual: Tensor) -> Tensor:
    """Numbers of at least three residuals far from zero that lie close together, in units of the deviation."""
    far = ((residual - residual.median()).abs() > 8.0).nonzero()[:, 0]
    if len(far) < 3:
        return far[:0]
    near = (residual[far, None] - residual[None, far]).abs() < 8.0
    densest = near[int(near.sum(1).argmax())]
    return far[densest] if int(densest.sum()) >= 3 else far[:0]


def _minority(suspects: Tensor, counts: Tensor) -> Tensor:
    """Those of the suspects that are outnumbered by other structures of the same composition."""
    alike = (counts[suspects][:, None] == counts[None]).all(2)
    among = torch.zeros(len(counts), dtype=torch.bool)
    among[suspects] = True
    return suspects[(alike & ~among).sum(1) > (alike & among).sum(1)]


@cache
def _mix_ups() -> tuple[tuple[str, str, str, float], ...]:
    """(unit of the energies, energy and length unit of the forces, slope that follows)."""
    energies = [unit for unit in ENERGY_IN_EV if unit != "meV"]
    lengths = ("Å", "Bohr")
    return tuple(
        (a, b, length, ENERGY_IN_EV[b] / LENGTH_IN_ANGSTROM[length] / ENERGY_IN_EV[a])
        for a, b, length in product(energies, energies, lengths)
        if (b, length) != (a, "Å")
    )


def _unit_mix_up(slope: float, tolerance: float, stated: str) -> str:
    """A sentence that names the units which, mixed, give a slope of this size."""
    # the likely ones first: one of the two is in the unit that the file is said to have
    order = sorted(_mix_ups(), key=lambda mix: (stated not in mix[:2], mix[0] != mix[1], abs(math.log(slope / mix[3]))))
    fitting: dict[str, str] = {}
    for a, b, length, factor in order:
        if abs(math.log(slope / factor)) < tolerance:
            fitting.setdefault(f"{factor:.4g}", f"energies in {a} and forces in {b}/{length}")
    known = f"The energies change {slope:.3g} times as much as the forces say"
    if not fitting:
        return f"{known}. Look at the units of both (energies were read as {stated})."
    names = " or ".join(list(fitting.values())[:2])
    return f"{known}, as for {names}. Say so with --energy-unit and --force-unit (energies were read as {stated})."


def _wrong_zero(frames: Tensor, n: int) -> str:
    first = ", ".join(map(str, frames[:5].tolist()))
    return (
        f"{len(frames)} of {n} frames that were looked at have energies with another zero than the rest; the first are "
        f"{first} (counted from 0). They may come from another program or setting: bring them to one zero, or leave "
        "them out."
    )
