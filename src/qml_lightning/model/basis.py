"""From pair vectors to features: everything of a model but its weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ..atoms.neighbours import element_indices, pairs_within
from ..atoms.structures import Structures, batches
from ..kernels import FCHL19Arguments, FeatureMap, Kernels, kernels_for
from .features import columns_of, draw_maps
from .projection import Projection, directions, principal_axes
from .recipe import Recipe

# Atoms whose environments are in memory at once while the axes are sought.
ATOMS_AT_ONCE = 2048


@dataclass(frozen=True)
class Basis:
    """Representation, axes and feature maps on one device, in one precision, with the kernels that serve them."""

    kernels: Kernels
    elements: tuple[int, ...]
    arguments: FCHL19Arguments
    projections: Tensor  # (elements, size, rank)
    maps: tuple[FeatureMap, ...]
    blocks: bool  # every element its own weights

    @property
    def n_weights(self) -> int:
        return int(self.columns(len(self.maps) - 1).stop)

    def columns(self, element: int) -> slice:
        """Where the weights of `element` stand."""
        return columns_of(self.maps, element, self.blocks)

    def part(self, first: int, last: int) -> Basis:
        """The same with only the features from `first` to `last` of each map."""
        return replace(self, maps=tuple(feature_map.part(first, last) for feature_map in self.maps))

    def like(self, tensor: Tensor) -> Tensor:
        """`tensor` on the device and in the precision of the basis."""
        return tensor.to(self.projections)

    @property
    def device(self) -> torch.device:
        return self.projections.device


class Drawn(Protocol):
    """What has a basis that was drawn once, a model or equations: only equations in the same one can be added."""

    @property
    def elements(self) -> tuple[int, ...]: ...

    @property
    def recipe(self) -> Recipe: ...

    @property
    def projection(self) -> Projection: ...

    @property
    def maps(self) -> tuple[FeatureMap, ...]: ...


# What of a recipe decides the rows. The seed and the sample of environments do so only through what was drawn.
BASIS_FIELDS = ("representation", "rank", "features", "size_exponent", "precision")


def recipe_difference(one: Recipe, other: Recipe) -> str:
    """The first field that gives the two recipes different rows, in words; empty if there is none."""
    for name in BASIS_FIELDS:
        if getattr(one, name) != getattr(other, name):
            return f"{name} is {getattr(one, name)} in one and {getattr(other, name)} in the other"
    return ""


def basis_difference(one: Drawn, other: Drawn) -> str:
    """How the bases of the two differ, in words; empty if they are the same to the last bit."""
    if one.elements != other.elements:
        return f"the elements are {list(one.elements)} in one and {list(other.elements)} in the other"
    if difference := recipe_difference(one.recipe, other.recipe):
        return difference
    if not torch.equal(one.projection.matrices, other.projection.matrices):
        return "the axes of the projection, which each fit finds from its own data unless it is given a basis"
    for mine, theirs in zip(one.maps, other.maps, strict=True):
        for name in ("phases", "signs", "row_scale", "matrix"):
            a, b = getattr(mine, name), getattr(theirs, name)
            if a is not None and not torch.equal(a, b):
                return f"the {name} that were drawn at random (seeds {one.recipe.seed} and {other.recipe.seed})"
    return ""


def make_basis(
    elements: tuple[int, ...],
    recipe: Recipe,
    projection: Projection,
    maps: tuple[FeatureMap, ...],
    device: torch.device | str,
    kernels: str | None,
) -> Basis:
    """Axes and maps made ready on `device`, in the precision of the recipe."""
    return Basis(
        kernels_for(device, recipe.dtype, kernels),
        elements,
        recipe.representation.arguments(len(elements)),
        projection.matrices.to(device, recipe.dtype),
        tuple(feature_map.to(device, recipe.dtype) for feature_map in maps),
        recipe.features.blocks,
    )


def draw(
    structures: Structures, recipe: Recipe, random: np.random.Generator
) -> tuple[Projection, tuple[FeatureMap, ...]]:
    """Axes from a sample of the environments of each element, and feature maps drawn at random."""
    samples = sample_environments(structures, recipe, random)
    return (
        principal_axes(directions(samples), recipe.rank),
        draw_maps(recipe.features, len(structures.elements), recipe.rank, random),
    )


def sample_environments(structures: Structures, recipe: Recipe, random: np.random.Generator) -> list[Tensor]:
    """Up to `projection_samples` representations of each element, (environments, size) in float64 on the CPU."""
    elements = structures.elements
    table = kernels_for("cpu", torch.float64)
    arguments = recipe.representation.arguments(len(elements))
    element = element_indices(structures.numbers, elements)
    chosen = torch.zeros(structures.n_atoms, dtype=torch.bool)
    for e in range(len(elements)):
        atoms = (element == e).nonzero()[:, 0]
        chosen[atoms[torch.from_numpy(random.permutation(len(atoms))[: recipe.projection_samples])]] = True
    samples: list[list[Tensor]] = [[] for _ in elements]
    sampled = structures.structure_of_atom[chosen].unique()
    for index in batches(structures.counts[sampled], ATOMS_AT_ONCE):
        part = structures.select(sampled[index])
        here = chosen[torch.isin(structures.structure_of_atom, sampled[index])]
        pairs = pairs_within(part, arguments.cutoff, elements)
        values = table.fchl19(arguments, part.n_atoms, pairs.segments, pairs.vector)
        part_element = element_indices(part.numbers, elements)
        for e, sample in enumerate(samples):
            sample.append(values[here & (part_element == e)])
    return [torch.cat(sample) for sample in samples]
