"""Compression of training structures: from which crowding on atoms must repel each other, so that energies rise.

A few training structures are scaled down; in data of one element also the simple cubic, body-centred and face-centred
lattices, where silicon had holes although its training structures had none. Beyond the data, where an atom is more
crowded than any of its element in the training set, the energy must rise with every step. The onset of the repulsion is
put as far from the data as that allows, so that structures a little denser than the data keep their learnt energies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..atoms.neighbours import element_indices, pairs_within
from ..atoms.structures import Structures, structures_from_ase
from .crowding import WIDTH, Crowding
from .potential import Potential
from .repulsion import Repulsion

if TYPE_CHECKING:
    from ase import Atoms

# Onsets relative to the greatest crowding in the data, from the one that leaves most alone, and the greatest strength
# that is taken with each, in eV, if learnt energies can be trusted there. Test sets are up to 1.2 times as crowded as
# their training sets (3BPA at 1200 K after 300 K, tantalum): there, no pair of these adds more than 2 eV to an atom.
# Beyond 2, which is 12 % compression of copper, a scan of a few structures no longer speaks for all of them.
MARGINS = {2.0: 10000.0, 1.6: 10000.0, 1.3: 10000.0, 1.2: 10000.0, 1.1: 300.0, 1.01: 30.0}
STRENGTHS = (30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)
UNTOUCHED = 1.2  # margin from which such test sets are left alone: if no pair holds, one of these is taken
TRIED, CANDIDATES = 8, 64  # structures that are compressed, and from which that of lowest energy is taken
LATTICES = {"sc": 1, "bcc": 2, "fcc": 4}  # atoms of a cubic cell
MOST_ATOMS = 300  # of a structure to compress, where there are smaller ones
STEP, LAST = 0.02, 0.3  # scales
FALL = 0.01  # eV per atom that rounding and a coarse grid may explain


@dataclass(frozen=True)
class Path:
    """One structure that is compressed step by step, from the last step that is as crowded as the data."""

    learnt: list[Tensor]  # (atoms,) energies of each step
    rest: list[Tensor]  # reference energies and repulsion of close pairs
    crowding: list[Tensor]  # relative to the greatest of the data

    def fall(self, margin: float, strength: float) -> float:
        """Greatest fall of the energy, eV per atom."""
        highest, fall = -torch.inf, 0.0
        for learnt, rest, crowding in zip(self.learnt, self.rest, self.crowding, strict=True):
            y = ((crowding / margin - 1) / WIDTH).clamp(min=0)
            w = y.clamp(max=1)
            fade = 1 - w**3 * (10 - 15 * w + 6 * w**2)
            energy = float((fade * learnt + rest + strength * y**3 / (1 + y**2)).mean())
            fall, highest = max(fall, highest - energy), max(highest, energy)
        return fall


def with_crowding(potential: Potential, structures: Structures) -> Potential:
    """The potential with a repulsion of atoms that are more crowded than in its training structures."""
    repulsion = potential.repulsion
    if repulsion is None or not len(structures):
        return potential
    reaching = Crowding.reaching(repulsion.shortest, potential.recipe.representation.cutoff)
    most = reaching.most(structures, potential.elements)
    # nor with gaps, which atoms would fall through while everything is scaled
    plain = replace(potential, repulsion=replace(repulsion, crowding=None, gaps=None))
    paths = _paths(plain, structures, reaching, most)
    falls = {(m, s): max(path.fall(m, s) for path in paths) for m in MARGINS for s in STRENGTHS}
    return replace(potential, repulsion=replace(repulsion, crowding=reaching.at(most, *best_pair(falls))))


def best_pair(falls: Mapping[tuple[float, float], float]) -> tuple[float, float]:
    """The best margin and strength of the repulsion.

    `falls` has, for each pair (margin, strength), the greatest fall of the energy when structures are compressed, in eV
    per atom. A pair holds if this fall is very small. The first pair that holds is taken, if its margin allows its
    strength. If there is none, two candidates are compared: the pair with the smallest fall among those with a wide
    margin (`UNTOUCHED`), which do not change structures a little denser than the data; and, among the pairs that hold,
    the one that changes such structures least. The second is taken if it raises their energy by less than the energy
    falls with the first.
    """
    for (margin, strength), fall in falls.items():
        if fall < FALL and strength <= MARGINS[margin]:
            return margin, strength
    far = {pair: fall for pair, fall in falls.items() if pair[0] >= UNTOUCHED}
    least = min(far, key=far.__getitem__)
    raised = {pair: _raised(*pair) for pair, fall in falls.items() if fall < FALL}
    gentlest = min(raised, key=raised.__getitem__, default=least)
    return gentlest if raised.get(gentlest, 0.0) < far[least] else least


def _raised(margin: float, strength: float) -> float:
    """Repulsion of an atom that is UNTOUCHED times as crowded as any in the data, eV."""
    y = max(0.0, (UNTOUCHED / margin - 1) / WIDTH)
    return strength * y**3 / (1 + y**2)


def _paths(potential: Potential, structures: Structures, reaching: Crowding, most: Tensor) -> list[Path]:
    small = (structures.counts <= max(MOST_ATOMS, int(structures.counts.min()))).nonzero()[:, 0]
    candidates = small[torch.linspace(0, len(small) - 1, min(CANDIDATES, len(small))).round().long()]
    predictor = potential.on(precision="float64")
    part = structures.select(candidates)
    lowest = (predictor.predict(part, forces=False).energies / part.counts).argmin()
    spread = torch.linspace(0, len(candidates) - 1, min(TRIED - 1, len(candidates))).round().long()
    chosen = candidates[torch.cat([lowest[None], spread]).unique()]
    starts = [structures.select(one[None]) for one in chosen]
    starts += [structures_from_ase(one) for one in lattices(structures).values()]
    return [_path(potential, one, reaching, most) for one in starts]


def lattices(structures: Structures) -> dict[str, Atoms]:
    """Name → simple lattice, at the largest volume per atom of crystals of one element; none for other structures."""
    from ase.build import bulk
    from ase.data import chemical_symbols

    elements, whole = structures.numbers.unique(), structures.periodic.all(1)
    if len(elements) > 1 or not bool(whole.any()):
        return {}
    volume, symbol = float((structures.volumes / structures.counts)[whole].max()), chemical_symbols[int(elements[0])]
    return {name: bulk(symbol, name, a=(n * volume) ** (1 / 3)) for name, n in LATTICES.items()}


def _path(potential: Potential, structure: Structures, reaching: Crowding, most: Tensor) -> Path:
    """Energies of a structure at smaller and smaller scales, until its learnt energy has faded out."""
    repulsion, elements = potential.repulsion, potential.elements
    assert repulsion is not None
    predictor = potential.on(precision="float64")
    element = element_indices(structure.numbers, elements)
    path = Path([], [], [])
    for step in range(int((1 - LAST) / STEP)):
        scale = 1 - STEP * step
        scaled = replace(structure, positions=structure.positions * scale, cells=structure.cells * scale)
        pairs = pairs_within(scaled, float(repulsion.outer.max().maximum(reaching.reach.max())), elements)
        given = element, pairs.centre, pairs.neighbour, pairs.vector
        crowding = reaching.count(*given)[0] / most.clamp(min=1e-12)[element]
        rest = potential.baseline.per_atom(scaled) + _close(repulsion, *given)
        learnt = predictor.predict(scaled, forces=False).atom_energies - rest
        if path.crowding and bool((path.crowding[-1] <= 1).all()):  # still inside of the data: begin here
            for column in (path.learnt, path.rest, path.crowding):
                column.clear()
        path.learnt.append(learnt)
        path.rest.append(rest)
        path.crowding.append(crowding)
        if bool((crowding > max(MARGINS) * (1 + WIDTH)).all()):
            break
    return path


def _close(repulsion: Repulsion, element: Tensor, centre: Tensor, neighbour: Tensor, vectors: Tensor) -> Tensor:
    """Repulsion of close pairs, (atoms,)."""
    out = torch.zeros(len(element), dtype=torch.float64)
    close = repulsion.close(element[centre], element[neighbour], vectors)
    return out if close is None else out.index_add_(0, centre[close.which], close.energy)
