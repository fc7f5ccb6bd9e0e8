"""The method on one screen: reference energies, axes, features, equations, one linear solve."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from .baseline import Baseline, fit_baseline, given_baseline
from .datasets.dataset import Dataset
from .design import VOIGT, Basis, batches, energy_rows, environments, tangent_rows
from .errors import InputError
from .features import draw_maps
from .kernels import kernels_for
from .neighbours import element_indices, pairs_within
from .normal import Equations, equations_for, memory_for
from .potential import Potential
from .projection import Projection, principal_axes
from .recipes import DEFAULT, Recipe
from .resources import require_memory
from .solve import solve
from .structures import Labels, Structures, checked

# Force rows in flight between the kernels and the equations, in numbers.
BATCH_NUMBERS = 32_000_000
# and atoms, which bound what the representation takes when there are only energies
BATCH_ATOMS = 2048

Progress = Callable[[str, int, int], None]  # what, done, of


def fit(
    data: Dataset,
    recipe: Recipe = DEFAULT,
    *,
    targets: Sequence[str] | None = None,
    reference_energies: Mapping[int, float] | None = None,
    device: torch.device | str = "cpu",
    kernels: str | None = None,
    progress: Progress | None = None,
) -> Potential:
    """The potential that minimises the weighted squared error of the labels plus ridge · |weights|².

    `targets`: which labels to learn from, some of "energies", "forces", "stress"; by default all that there are.
    `reference_energies`: eV by atomic number; by default from least squares.
    """
    started = time.perf_counter()
    recipe.check()
    tell = progress or (lambda what, done, of: None)
    structures = checked(data.structures, data.labels)
    labels = _chosen(data.labels, targets)
    elements = structures.elements
    random = np.random.default_rng(recipe.seed)

    if reference_energies is None:
        baseline = fit_baseline(structures, labels.energies, elements)
    else:
        baseline = given_baseline(reference_energies, elements)
    basis, projection = _basis(structures, elements, recipe, random, torch.device(device), kernels)
    equations = _accumulate(basis, structures, labels, baseline, recipe, tell)
    tell("solving", 0, 1)
    weights = solve(
        [(part, {"energies": recipe.energy_weight, "forces": recipe.force_weight, "stress": recipe.stress_weight}[kind])
         for kind, part in equations.items()],
        recipe.ridge,
    )  # fmt: skip
    tell("solving", 1, 1)
    return Potential(
        elements,
        recipe,
        projection,
        tuple(feature_map.to("cpu", torch.float64) for feature_map in basis.maps),
        weights.cpu(),
        baseline,
        {
            "data": data.source.as_dict(),
            "targets": {kind: part.n for kind, part in equations.items()},
            "structures": len(structures),
            "atoms": structures.n_atoms,
            "seconds": round(time.perf_counter() - started, 3),
            "threads": torch.get_num_threads(),
            "kernels": basis.kernels.NAME,
            "device": str(device),
            "versions": {name: version(name) for name in ("qml-lightning", "torch")} | {"python": platform.python_version()},
        },
    )


def _chosen(labels: Labels, targets: Sequence[str] | None) -> Labels:
    """Only the wanted labels, which must be there."""
    wanted = labels.kinds if targets is None else tuple(targets)
    missing = [kind for kind in wanted if kind not in labels.kinds]
    if missing or not wanted:
        have = ", ".join(labels.kinds) or "none"
        raise InputError(f"Wanted to train on {', '.join(wanted) or 'something'}; the labels that there are: {have}.")
    if "stress" in wanted and len(wanted) == 1:
        raise InputError("Stress alone does not determine a potential. Train on energies or forces as well.")
    return Labels(**{kind: getattr(labels, kind) for kind in wanted})


def _basis(
    structures: Structures,
    elements: tuple[int, ...],
    recipe: Recipe,
    random: np.random.Generator,
    device: torch.device,
    kernels: str | None,
) -> tuple[Basis, Projection]:
    """Axes from a sample of the training set, and feature maps drawn by the seed."""
    table = kernels_for(device, recipe.dtype, kernels)
    arguments = recipe.representation.arguments(len(elements))
    element = element_indices(structures.numbers, elements)
    chosen = torch.zeros(structures.n_atoms, dtype=torch.bool)
    for e in range(len(elements)):
        atoms = (element == e).nonzero()[:, 0]
        take = random.permutation(len(atoms))[: recipe.projection_samples]
        chosen[atoms[torch.from_numpy(np.sort(take))]] = True
    samples: list[list[Tensor]] = [[] for _ in elements]
    sampled = structures.structure_of_atom[chosen].unique()
    for index in batches(structures.counts[sampled], BATCH_ATOMS):
        part = structures.select(sampled[index])
        here = chosen[torch.isin(structures.structure_of_atom, sampled[index])]
        pairs = pairs_within(part, arguments.cutoff, elements)
        values = table.fchl19(arguments, part.n_atoms, pairs.segments.to(device), pairs.vector.to(device, recipe.dtype))
        part_element = element_indices(part.numbers, elements)
        for e, sample in enumerate(samples):
            sample.append(values[(here & (part_element == e)).nonzero()[:, 0].to(device)])
    projection = principal_axes([torch.cat(sample) for sample in samples], recipe.rank)
    maps = draw_maps(recipe.features, len(elements), recipe.rank, random)
    basis = Basis(
        table,
        elements,
        arguments,
        projection.matrices.to(device, recipe.dtype),
        tuple(feature_map.to(device, recipe.dtype) for feature_map in maps),
        recipe.features.blocks,
    )
    return basis, Projection(projection.matrices.cpu(), projection.explained)


def _accumulate(
    basis: Basis, structures: Structures, labels: Labels, baseline: Baseline, recipe: Recipe, tell: Progress
) -> dict[str, Equations]:
    """Equations of each kind of label, apart, so that their weights can be chosen later."""
    targets = _targets(structures, labels, baseline)
    counts = {kind: int(target.isfinite().sum()) for kind, target in targets.items()}
    n = basis.n_weights
    require_memory(
        sum(memory_for(rows, n) for rows in counts.values()) + 8 * n * min(n, sum(counts.values())),
        f"Training {n} weights",
        f"Use fewer features (now {recipe.features.n_features}) or fewer structures.",
    )
    equations = {kind: equations_for(rows, n, basis.device) for kind, rows in counts.items()}
    rows_of = {"energies": 1, "forces": 3 * structures.counts, "stress": 6}
    rows = sum(rows_of[kind] for kind in targets) * torch.ones(len(structures), dtype=torch.int64)
    cost = torch.maximum(rows / max(1, BATCH_NUMBERS // n), structures.counts / BATCH_ATOMS)
    done = 0
    for index in batches(cost, 1.0):
        part = structures.select(index)
        at = environments(basis, part, "forces" in targets, "stress" in targets)
        scale = part.counts.double() ** -recipe.size_exponent
        for kind, target in targets.items():
            if kind == "energies":
                z, y, factor = energy_rows(basis, at), target[index], scale
            elif kind == "forces":
                first, last = structures.offsets[index[0]], structures.offsets[index[-1] + 1]
                z, y, factor = tangent_rows(basis, at, at.forces), target[first:last].flatten(), None
            else:
                z, y = tangent_rows(basis, at, at.virial), target[index].flatten()
                factor = scale.repeat_interleave(len(VOIGT))
            _add(equations[kind], z, y, factor)
        done += len(index)
        tell("equations", done, len(structures))
    return equations


def _targets(structures: Structures, labels: Labels, baseline: Baseline) -> dict[str, Tensor]:
    """What the rows of each kind are to give: energies past the baseline, forces, virials (six components, eV)."""
    targets = {}
    if labels.energies is not None:
        targets["energies"] = labels.energies - baseline.total(structures)
    if labels.forces is not None:
        targets["forces"] = labels.forces
    if labels.stress is not None:
        virial = labels.stress * structures.volumes[:, None, None]
        targets["stress"] = torch.stack([virial[:, a, b] for a, b in VOIGT], 1)
    return targets


def _add(equations: Equations, rows: Tensor, targets: Tensor, factor: Tensor | None) -> None:
    """Add those rows whose label is there, scaled by `factor`."""
    if factor is not None:
        rows, targets = rows * factor[:, None].to(rows), targets * factor
    known = targets.isfinite()
    if not bool(known.all()):
        rows, targets = rows[known.to(rows.device)], targets[known]
    equations.add(rows, targets.to(rows.device, torch.float64))
