"""The method on one screen: reference energies, axes, features, equations, one linear solve."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version

import numpy as np
import torch

from .baseline import fit_baseline, given_baseline
from .basis import Basis, draw, make_basis
from .datasets.dataset import Dataset
from .design import labelled_rows, targets_of
from .errors import InputError
from .normal import Equations, equations_for, memory_for
from .potential import Potential
from .recipes import DEFAULT, Recipe
from .resources import require_memory
from .solve import solve
from .structures import Labels, checked

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
    projection, maps = draw(structures, recipe, random)
    basis = make_basis(elements, recipe, projection, maps, device, kernels)

    targets_by_kind = targets_of(structures, labels, baseline)
    equations = _equations(basis, {kind: int(y.isfinite().sum()) for kind, y in targets_by_kind.items()})
    for kind, rows, y, done in labelled_rows(basis, structures, targets_by_kind, recipe.size_exponent):
        equations[kind].add(rows, y)
        tell("equations", done, len(structures))
    tell("solving", 0, 1)
    weights = solve([(part, recipe.weight_of(kind)) for kind, part in equations.items()], recipe.ridge)
    tell("solving", 1, 1)
    return Potential(
        elements,
        recipe,
        projection,
        maps,
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
            "versions": {"qml-lightning": version("qml-lightning"), "torch": torch.__version__},
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


def _equations(basis: Basis, counts: Mapping[str, int]) -> dict[str, Equations]:
    """Room for the equations of each kind of label, apart; or an error before anything is allocated."""
    n = basis.n_weights
    require_memory(
        sum(memory_for(rows, n) for rows in counts.values()) + 8 * n * min(n, sum(counts.values())),
        f"Training {n} weights",
        f"Use fewer features (now {basis.maps[0].n_features}) or fewer structures.",
    )
    return {kind: equations_for(rows, n, basis.device) for kind, rows in counts.items()}
