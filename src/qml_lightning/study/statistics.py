"""Statistics of a data set before training: compositions, energies, forces, distances, cells, repetitions."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..atoms.dataset import Dataset
from ..atoms.fingerprints import geometry_fingerprints, repeats_in
from ..atoms.neighbours import pairs_within
from ..atoms.structures import Structures, batches
from ..datasets.usage import is_plain
from ..errors import InputError
from ..model.baseline import found_baseline
from .contradictions import disagreement_note, split_energies

# Pairs beyond this distance do not tell of atoms that are too close.
NEAR = 3.0  # Å
# Atoms whose pairs are in memory at once.
ATOMS_AT_ONCE = 20_000
MOST = 5  # extreme values that are named


@dataclass(frozen=True)
class Extreme:
    """An extreme value, and where it is."""

    value: float
    where: str  # such as "frame 12, atom 3 (H)"


@dataclass(frozen=True)
class Distribution:
    """Values of one quantity: their spread and their extremes."""

    unit: str
    n: int
    mean: float
    std: float
    quantiles: tuple[float, ...]  # smallest, 5 %, median, 95 %, largest
    values: np.ndarray  # (n,) all of them, for a figure


@dataclass(frozen=True)
class Statistics:
    """Facts about a data set that one looks at before training."""

    name: str
    structures: int
    atoms: int
    elements: dict[str, int]  # atoms of each
    compositions: dict[str, int]  # structures of each, most frequent first
    labels: dict[str, int]  # structures that have each label
    groups: dict[str, int]  # structures of each (config_type)
    sizes: Distribution  # atoms in a structure
    energies: Distribution | None  # eV per atom, past the reference energies
    forces: Distribution | None  # lengths of force vectors, eV/Å
    net_forces: Distribution | None  # length of the sum over a structure, per atom, eV/Å
    volumes: Distribution | None  # Å³ per atom, of periodic structures
    edges: Distribution | None  # lengths of periodic lattice vectors, Å
    angles: Distribution | None  # between them, degrees
    periodic: dict[str, int]  # structures by number of periodic directions
    references: dict[str, float]  # suggested reference energies, eV
    references_from: str
    references_determined: bool  # whether single values have a meaning
    lowest_energies: tuple[Extreme, ...]
    highest_energies: tuple[Extreme, ...]
    largest_forces: tuple[Extreme, ...]  # one atom of a structure
    shortest: dict[str, Extreme]  # by pair of elements, shortest first
    repeated: tuple[str, ...]  # sentences about structures that occur twice
    notes: tuple[str, ...]  # of the reader, and warnings: a person should look at them
    remarks: tuple[str, ...]  # of the reader: what was read, where nothing of it looks wrong

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the single values of distributions."""
        plain = asdict(self)
        for name, value in plain.items():
            if isinstance(value, dict) and "values" in value:
                plain[name] = {key: part for key, part in value.items() if key != "values"}
        return plain


def statistics_of(data: Dataset) -> Statistics:
    """Statistics of the structures and labels of `data`."""
    if len(data) == 0:
        raise InputError("There is no structure to look at. Give at least one.")
    structures, labels = data.structures, data.labels
    symbols = _symbols()
    counted = Counter(structures.numbers.tolist())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = found_baseline(structures, labels.energies, structures.elements)
    energies = (
        None if labels.energies is None else (labels.energies - found.baseline.total(structures)) / structures.counts
    )
    forces = None if labels.forces is None else labels.forces.norm(dim=1)
    of_structure = data.name_of
    volumes = structures.volumes / structures.counts
    edges, angles = _lattices(structures)
    known = {"energies": labels.energies, "stress": labels.stress}
    counts = {kind: int(x.reshape(len(x), -1).isfinite().all(1).sum()) for kind, x in known.items() if x is not None}
    if labels.forces is not None:
        counts["forces"] = len(data) - len(structures.structure_of_atom[~labels.forces.isfinite().all(1)].unique())
    notes, (_, split) = _notes(data), split_energies(data)
    groups = Counter([] if data.groups is None else [str(name) for name in data.groups])
    return Statistics(
        name=data.source.name,
        structures=len(data),
        atoms=structures.n_atoms,
        elements={symbols[z]: n for z, n in sorted(counted.items())},
        compositions=dict(Counter(_formulas(structures)).most_common()),
        labels=counts,
        groups={name or "(none)": n for name, n in groups.most_common()} if set(groups) - {""} else {},
        sizes=_distribution(structures.counts.double(), "atoms") or _nothing("atoms"),
        energies=_distribution(energies, "eV/atom"),
        forces=_distribution(forces, "eV/Å"),
        net_forces=_distribution(_net_forces(structures, labels.forces), "eV/Å"),
        volumes=_distribution(volumes, "Å³/atom"),
        edges=_distribution(edges, "Å"),
        angles=_distribution(angles, "°"),
        periodic=_directions(structures),
        references=dict(zip((symbols[z] for z in structures.elements), found.baseline.energies.tolist()))
        if labels.energies is not None
        else {},
        references_from=found.words if labels.energies is not None else "",
        references_determined=found.determined,
        lowest_energies=_extremes(energies, of_structure, largest=False),
        highest_energies=_extremes(energies, of_structure),
        largest_forces=_largest_forces(data, forces),
        shortest=_shortest(data),
        repeated=_repeated(data),
        notes=(
            *(text for text in notes if not is_plain(text)),
            *(str(one.message) for one in told),
            *filter(None, [split]),
        ),
        remarks=tuple(filter(is_plain, notes)),
    )


def _notes(data: Dataset) -> list[str]:
    parts = data.source.parts or (data.source,)
    return [f"{part.name}: {text}" for part in parts for text in part.notes]


def _symbols() -> list[str]:
    from ase.data import chemical_symbols

    return list(chemical_symbols)


def _formulas(structures: Structures) -> list[str]:
    from ase.symbols import Symbols

    known: dict[bytes, str] = {}
    out = []
    for numbers in np.split(structures.numbers.numpy(), structures.offsets[1:-1].numpy()):
        key = np.sort(numbers).tobytes()
        if key not in known:
            known[key] = Symbols(np.sort(numbers)).get_chemical_formula("hill")
        out.append(known[key])
    return out


def _directions(structures: Structures) -> dict[str, int]:
    names = ("molecules", "wires", "slabs", "crystals and liquids")
    counts = Counter(structures.periodic.sum(1).tolist())
    return {names[n]: counts[n] for n in sorted(counts)}


def _nothing(unit: str) -> Distribution:
    return Distribution(unit, 0, 0.0, 0.0, (0.0,) * 5, np.zeros(0))


def _distribution(values: Tensor | None, unit: str) -> Distribution | None:
    if values is None or not bool(values.isfinite().any()):
        return None
    known = values[values.isfinite()].double().numpy()
    quantiles = tuple(float(q) for q in np.quantile(known, (0.0, 0.05, 0.5, 0.95, 1.0)))
    return Distribution(unit, len(known), float(known.mean()), float(known.std()), quantiles, known)


def _extremes(values: Tensor | None, name: Any, *, largest: bool = True) -> tuple[Extreme, ...]:
    if values is None:
        return ()
    ranked = torch.where(values.isfinite(), values if largest else -values, -torch.inf)
    order = ranked.topk(min(MOST, len(values))).indices.tolist()
    return tuple(Extreme(float(values[at]), name(at)) for at in order if bool(values[at].isfinite()))


def _largest_forces(data: Dataset, lengths: Tensor | None) -> tuple[Extreme, ...]:
    """Structures with the largest forces, each with the atom that has it."""
    if lengths is None:
        return ()
    atoms, first = [], 0
    for part in lengths.nan_to_num(-1.0).split(data.structures.counts.tolist()):
        atoms.append(first + int(part.argmax()))
        first += len(part)
    return _extremes(lengths[atoms], lambda s: _name_of_atom(data, atoms[s]))


def _name_of_atom(data: Dataset, atom: int) -> str:
    s = int(data.structures.structure_of_atom[atom])
    element = _symbols()[int(data.structures.numbers[atom])]
    return f"{data.name_of(s)}, atom {atom - int(data.structures.offsets[s])} ({element})"


def _lattices(structures: Structures) -> tuple[Tensor, Tensor]:
    """Lengths of the periodic lattice vectors of all structures in Å, and the angles between them in degrees."""
    lengths = structures.cells.norm(dim=2)
    pairs = [(1, 2), (0, 2), (0, 1)]
    cosines = torch.stack([(structures.cells[:, a] * structures.cells[:, b]).sum(1) for a, b in pairs], 1)
    cosines /= torch.stack([lengths[:, a] * lengths[:, b] for a, b in pairs], 1)
    both = torch.stack([structures.periodic[:, a] & structures.periodic[:, b] for a, b in pairs], 1)
    return lengths[structures.periodic], torch.rad2deg(cosines[both].clamp(-1.0, 1.0).arccos())


def _net_forces(structures: Structures, forces: Tensor | None) -> Tensor | None:
    """Length of the sum of the forces of each structure over its atoms: zero but for rounding and a poor grid."""
    if forces is None:
        return None
    total = torch.zeros(len(structures), 3, dtype=torch.float64).index_add_(0, structures.structure_of_atom, forces)
    lengths: Tensor = total.norm(dim=1) / structures.counts
    return lengths


def _shortest(data: Dataset) -> dict[str, Extreme]:
    """Shortest distance of each pair of elements closer than NEAR, and where it is."""
    structures, symbols = data.structures, _symbols()
    found: dict[str, Extreme] = {}
    for index in batches(structures.counts, ATOMS_AT_ONCE):
        part = structures.select(index)
        pairs = pairs_within(part, NEAR, structures.elements)
        if not len(pairs.centre):
            continue
        length = pairs.vector.norm(dim=1)
        ends = torch.stack([part.numbers[pairs.centre], part.numbers[pairs.neighbour]], 1)
        key = ends.min(1).values * 128 + ends.max(1).values
        for one in key.unique().tolist():
            here = (key == one).nonzero()[:, 0]
            at = here[length[here].argmin()]
            pair = f"{symbols[one // 128]}–{symbols[one % 128]}"
            if pair not in found or float(length[at]) < found[pair].value:
                s = int(index[part.structure_of_atom[pairs.centre[at]]])
                found[pair] = Extreme(float(length[at]), data.name_of(s))
    return dict(sorted(found.items(), key=lambda item: item[1].value))


def _repeated(data: Dataset) -> tuple[str, ...]:
    """Sentences about geometries that occur twice, and whether their labels agree."""
    found = repeats_in(geometry_fingerprints(data.structures))
    if not len(found):
        return ()
    first, again = int(found.first[0]), int(found.again[0])
    many = "One structure repeats" if len(found) == 1 else f"{len(found):,} structures repeat"
    lines = [f"{many} an earlier one: {data.name_of(again)} is the same as {data.name_of(first)}"]
    differ = disagreement_note(data)
    return (*lines, differ) if differ else tuple(lines)
