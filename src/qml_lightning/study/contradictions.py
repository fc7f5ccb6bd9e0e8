"""Labels of one data set that cannot belong together: two units or zeros, a structure with two labels.

No fit is made. Two groups of energies are a contradiction if structures that look alike are in both, or if structures
of one composition differ by more than any chemistry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations

import torch
from torch import Tensor

from ..atoms.dataset import Dataset
from ..atoms.fingerprints import geometry_fingerprints, repeats_in
from ..atoms.neighbours import pairs_within
from ..atoms.structures import Structures
from ..atoms.units import ENERGY_IN_EV
from ..linear.robust_deviation import deviation_by_median
from ..model.baseline import Baseline

FEWEST_IN_ALL = 20  # structures: fewer look alike by chance
FEWEST = 5  # structures of the smaller group: crystals under pressure, say, are rarer
LEAST_PART = 0.07  # of the structures that are in the smaller group: fewer are outliers
GAP = 2.5  # between the groups, over the range of 90 % of the energies in each
# Smallest gap: eV/atom, as frames at 300 and 1200 K differ by 0.1; and of the logarithm, Hartree and Rydberg have 0.69.
LEAST_GAP, LEAST_LOG = 0.3, 0.6
BEYOND_CHEMISTRY = 15.0  # eV/atom between two structures of one composition: atomisation takes less than 10
LOOKED_AT = (400, 20_000)  # structures and atoms, at most, whose surroundings are compared
NEAR, BINS = 5.0, 20  # Å and number of distances by which structures look alike
BY_CHANCE = 0.3  # part of the structures that look alike across the groups, over the part if labels came by chance
UNIT = 1.03  # a unit is named if its factor is within this of the ratio of the energies
NAMED = 5
# Repeated structures whose labels differ by less are of two calculations, or rounded: eV/atom and eV/Å, and a part of
# the spread of all labels.
SAME_ENERGY, SAME_FORCE, SAME_PART = 5e-3, 0.1, 0.1


def split_energies(data: Dataset) -> tuple[Tensor, str]:
    """Mask of the structures in the smaller of two groups of energies, and a sentence about them; empty if all is well.

    Where charge or spin vary, energies differ by right.
    """
    energies, mask = data.labels.energies, torch.zeros(len(data), dtype=torch.bool)
    if energies is None or data.source.varies:
        return mask, ""
    known = (energies.isfinite() & (data.structures.counts > 1)).nonzero()[:, 0]  # free atoms have other energies
    if len(known) < FEWEST_IN_ALL:
        return mask, ""
    part, energies = data.structures.select(known), energies[known]
    per_atom = energies / part.counts
    composition = Baseline.composition(part, part.elements)
    fractions = composition / composition.sum(1, keepdim=True)
    kind = torch.unique(fractions.round(decimals=6), dim=0, return_inverse=True)[1]
    total = composition @ torch.tensor(part.elements).double().pow(2.4)  # total energies of free atoms go like this
    logarithms = ((_logarithm(per_atom), LEAST_LOG), (_logarithm(energies / total), LEAST_LOG))
    groups = (energies == 0, *(_two_groups(x, least) for x, least in ((per_atom, LEAST_GAP), *logarithms)))
    smaller = next((group for group in groups if _enough(group) and _mixed(part, fractions, group)), None)
    if smaller is None:
        smaller = _beyond_chemistry(per_atom, kind)
    if smaller is None:
        return mask, ""
    mask[known[smaller]] = True
    return mask, _split_sentence(data, mask, per_atom, kind, smaller)


def _enough(group: Tensor) -> bool:
    n = int(group.sum())
    return min(n, len(group) - n) >= max(FEWEST, LEAST_PART * len(group))


def _logarithm(per_atom: Tensor) -> Tensor:
    """log |x|: a unit is a factor, which many compositions share."""
    return per_atom.abs().clamp(min=1e-6).log()


def _two_groups(x: Tensor, least_gap: float) -> Tensor:
    """Mask of the smaller of two groups with a gap that is much wider than each; empty if there is none."""
    n, none = len(x), torch.zeros(len(x), dtype=torch.bool)
    least = math.ceil(max(FEWEST, LEAST_PART * n))
    if n < 2 * least:
        return none
    ranked = x.sort().values
    gap, at = ranked.diff()[least - 1 : n - least].max(0)
    cut = least + int(at)
    ends = torch.tensor([0.05, 0.95], dtype=x.dtype)
    width = max(float(_quantiles(side, ends).diff()) for side in (ranked[:cut], ranked[cut:]))
    if not float(gap) > max(GAP * width, least_gap):
        return none
    low = x < ranked[cut]
    return low if 2 * cut <= n else ~low


def _quantiles(ranked: Tensor, q: Tensor) -> Tensor:
    return ranked[(q * (len(ranked) - 1)).round().long()]


def _beyond_chemistry(per_atom: Tensor, kind: Tensor) -> Tensor | None:
    """Mask of the structures on the smaller side of gaps within compositions; None if they are few."""
    low, high = (torch.zeros(len(kind), dtype=torch.bool) for _ in range(2))
    for members in kind.argsort(stable=True).split(torch.bincount(kind).tolist()):
        ranked = per_atom[members].sort().values
        if len(ranked) < 2:
            continue
        gap, cut = ranked.diff().max(0)
        if float(gap) > BEYOND_CHEMISTRY:
            below = per_atom[members] <= ranked[cut]
            low[members], high[members] = below, ~below
    smaller = min(high, low, key=lambda side: int(side.sum()))
    return smaller if int(smaller.sum()) >= max(FEWEST, LEAST_PART * len(kind)) else None


def _mixed(structures: Structures, fractions: Tensor, group: Tensor) -> bool:
    """Whether structures that look most alike are in different groups about as often as by chance."""
    order = torch.randperm(len(structures), generator=torch.Generator().manual_seed(0))
    some = order[structures.counts[order].cumsum(0) <= LOOKED_AT[1]][: LOOKED_AT[0]]
    group = group[some]
    if int(group.sum()) < FEWEST or int((~group).sum()) < FEWEST:
        return False
    look = _look(structures.select(some), fractions[some])
    apart = torch.cdist(look, look, p=1.0)
    apart.fill_diagonal_(math.inf)
    nearest, part = group[apart.argmin(1)].double(), float(group.double().mean())
    # both ways: rare structures have no neighbours of their own kind, but then they are nobody's neighbours either
    from_group, to_group = 1.0 - float(nearest[group].mean()), float(nearest[~group].mean())
    return min(from_group / (1.0 - part), to_group / part) > BY_CHANCE


def _look(structures: Structures, fractions: Tensor) -> Tensor:
    """Numbers by which structures look alike: their composition first, then how many pairs have which distance."""
    pairs = pairs_within(structures, NEAR, structures.elements)
    place = (pairs.vector.norm(dim=1) / NEAR * BINS).long().clamp(max=BINS - 1)
    place += BINS * structures.structure_of_atom[pairs.centre]
    seen = torch.bincount(place, minlength=BINS * len(structures)).view(-1, BINS) / structures.counts[:, None]
    return torch.cat([1e3 * fractions, seen.double()], 1)


def _split_sentence(data: Dataset, mask: Tensor, per_atom: Tensor, kind: Tensor, smaller: Tensor) -> str:
    n, first = int(mask.sum()), _names(data, mask.nonzero()[:NAMED, 0])
    few, many = float(per_atom[smaller].median()), float(per_atom[~smaller].median())
    if not bool(per_atom[smaller].any()):
        size = "an energy of exactly zero"
        why = "It was probably not computed."
    else:
        size = f"energies about {few:.4g} eV per atom, and the others about {many:.4g}, with nothing between"
        why = _units_in(_ratio(per_atom, kind, smaller))
    return (
        f"{n:,} of {len(data):,} frames have {size}: {first} (counted from 0). {why} Bring all energies to one "
        "unit and one zero, or leave these frames out."
    )


def _ratio(per_atom: Tensor, kind: Tensor, smaller: Tensor) -> float:
    """Energies of the smaller group over those of the others, each composition by itself where it is in both."""
    ratios = [
        per_atom[smaller & (kind == one)].median() / per_atom[~smaller & (kind == one)].median()
        for one in kind[smaller].unique().tolist()
        if bool((~smaller & (kind == one)).any())
    ]
    whole = per_atom[smaller].median() / per_atom[~smaller].median()
    return float(torch.stack(ratios).median() if ratios else whole)


def _units_in(ratio: float) -> str:
    """Sentence about the units whose mixture would give this ratio."""
    for one, other in permutations(ENERGY_IN_EV, 2):
        if ratio > 0 and abs(math.log(ratio * ENERGY_IN_EV[one] / ENERGY_IN_EV[other])) < math.log(UNIT):
            return f"They differ as {one} and {other} do."
    return "They may belong to other frames, come from another program or setting, or be of another electronic state."


def _names(data: Dataset, some: Tensor) -> str:
    return ", ".join(data.name_of(s) for s in some.tolist())


@dataclass(frozen=True)
class Disagreement:
    """Labels of two equal structures that differ clearly."""

    first: int  # numbers of the structures
    again: int
    kind: str  # "energies" or "forces"
    away: float  # difference of energies, eV, or largest difference of a component of forces, eV/Å
    excess: float  # over what is no disagreement


def disagreements(data: Dataset) -> list[Disagreement]:
    """Structures that occur twice with clearly different energies, or else forces; the largest difference first."""
    found = repeats_in(geometry_fingerprints(data.structures))
    energies, forces, structures = data.labels.energies, data.labels.forces, data.structures
    if not len(found) or (energies is None and forces is None):
        return []
    least_energy, least_force = SAME_ENERGY, SAME_FORCE
    if energies is not None:
        per_atom = (energies / structures.counts)[energies.isfinite()]
        least_energy = max(SAME_ENERGY, SAME_PART * float(deviation_by_median((per_atom - per_atom.median()).abs())))
    if forces is not None:
        least_force = max(SAME_FORCE, SAME_PART * float(deviation_by_median(forces[forces.isfinite()].abs())))
    out = []
    for first, again in zip(found.first.tolist(), found.again.tolist()):
        here: list[tuple[str, float, float]] = []
        if energies is not None:
            away = abs(float(energies[again] - energies[first]))
            here.append(("energies", away, away / int(structures.counts[first]) / least_energy))
        if forces is not None:
            one, other = (forces[structures.offsets[s] : structures.offsets[s + 1]] for s in (first, again))
            away = float((one - other).abs().max())
            here.append(("forces", away, away / least_force))
        clear = next((one for one in here if one[2] > 1.0), None)
        if clear is not None:
            out.append(Disagreement(first, again, *clear))
    return sorted(out, key=lambda one: -one.excess)


def disagreement_note(data: Dataset) -> str:
    """Sentence about structures that occur twice with different labels; empty if there are none."""
    found, parts = disagreements(data), []
    for kind, unit in (("energies", "eV"), ("forces", "eV/Å")):
        these = [one for one in found if one.kind == kind]
        if these:
            pairs = ", ".join(f"{data.name_of(one.again)} and {data.name_of(one.first)}" for one in these[:NAMED])
            more = f", and {len(these) - NAMED:,} more pairs" if len(these) > NAMED else ""
            parts.append(f"{kind} differ by up to {max(one.away for one in these):.3g} {unit} ({pairs}{more})")
    if not parts:
        return ""
    return (
        f"Structures that are the same have different labels: {'; '.join(parts)}, counted from 0. A model learns their "
        "mean. Keep the right one of each pair."
    )
