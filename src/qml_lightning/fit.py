"""The method on one screen: reference energies, axes, features, equations, one linear solve."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from .baseline import Baseline, fit_baseline, given_baseline
from .basis import draw, make_basis
from .datasets.dataset import Dataset
from .distributed import Ranks, weights_of_ranks
from .errors import InputError
from .kernels import FeatureMap
from .neighbours import check_distances
from .potential import Potential
from .projection import Projection
from .recipes import DEFAULT, Recipe
from .resources import Memory
from .structures import Labels, checked
from .training import Problem, Progress, direct_weights, iterative_weights


def fit(
    data: Dataset,
    recipe: Recipe = DEFAULT,
    *,
    targets: Sequence[str] | None = None,
    reference_energies: Mapping[int, float] | None = None,
    device: torch.device | str = "cpu",
    kernels: str | None = None,
    memory_limit: int | None = None,
    scratch: Path | str | None = None,
    ranks: Ranks | None = None,
    progress: Progress | None = None,
) -> Potential:
    """The potential that minimises the weighted squared error of the labels plus ridge · |weights|².

    `targets`: which labels to learn from, some of "energies", "forces", "stress"; by default all that there are.
    `reference_energies`: eV by atomic number; by default from least squares.
    `memory_limit`: bytes that the process may have in memory; equations that do not fit (without a limit: in the memory
    of the machine) are kept in a file in the folder `scratch`.
    `ranks`: the processes that share the work (`distributed.joined`), each of which is given the same data.
    """
    started = time.perf_counter()
    recipe.check()
    tell = progress or (lambda what, done, of: None)
    structures = checked(data.structures, data.labels)
    check_distances(structures)
    labels = _chosen(data.labels, targets)
    elements = structures.elements
    random = np.random.default_rng(recipe.seed)

    def prepared() -> tuple[Baseline, Projection, tuple[FeatureMap, ...]]:
        if reference_energies is None:
            baseline = fit_baseline(structures, labels.energies, elements)
        else:
            baseline = given_baseline(reference_energies, elements)
        return baseline, *draw(structures, recipe, random)

    # other ranks may have other processors, whose axes would differ in the last digits
    baseline, projection, maps = prepared() if ranks is None else ranks.first(prepared)
    problem = Problem(structures, labels, baseline)
    memory = Memory(memory_limit, None if scratch is None else Path(scratch))
    if (memory_limit is not None) + (ranks is not None) + (recipe.solver.method == "iterative") > 1:
        raise InputError("A limit of memory, several ranks and the iterative solver exclude each other. Choose one.")
    if recipe.solver.method == "iterative":
        # float64: the preconditioner divides by the ridge, and so would magnify the rounding of float32
        basis = make_basis(elements, replace(recipe, precision="float64"), projection, maps, device, kernels)
        weights, report = iterative_weights(basis, problem, recipe, tell)
    else:
        basis = make_basis(elements, recipe, projection, maps, device, kernels)
        if ranks is None:
            weights, report = direct_weights(basis, problem, recipe, tell, memory)
        else:
            weights, report = weights_of_ranks(basis, problem, recipe, tell, ranks)
    return Potential(
        elements,
        recipe,
        projection,
        maps,
        weights.cpu(),
        baseline,
        {
            "data": data.source.as_dict(),
            "targets": report.pop("rows"),
            "solution": report,
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
