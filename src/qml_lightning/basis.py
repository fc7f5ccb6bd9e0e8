"""From pair vectors to features: everything of a model but its weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .features import columns_of, draw_maps, n_weights
from .kernels import FCHL19Arguments, FeatureMap, Kernels, kernels_for
from .neighbours import element_indices, pairs_within
from .projection import Projection, principal_axes
from .recipes import Recipe
from .structures import Structures, batches

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
        return n_weights(self.maps, self.blocks)

    def columns(self, element: int) -> slice:
        """Where the weights of `element` stand."""
        return columns_of(self.maps, element, self.blocks)

    def like(self, tensor: Tensor) -> Tensor:
        """`tensor` on the device and in the precision of the basis."""
        return tensor.to(self.projections)

    @property
    def device(self) -> torch.device:
        return self.projections.device


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
        principal_axes(samples, recipe.rank),
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
