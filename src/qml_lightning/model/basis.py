"""The basis of a model: axes and feature maps of each element, drawn once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from ..atoms.bonds import bonding_classes
from ..atoms.neighbours import element_indices, pairs_within
from ..atoms.structures import Structures, batches
from ..kernels import FeatureMap, Kernels, RepresentationArguments, kernels_for
from ..machine.compute import Compute
from ..machine.transfers import sent
from .features import columns_of, draw_maps
from .projection import Directions, Projection, directions, principal_axes
from .recipe import Recipe
from .representations import Representation

# Atoms whose environments are in memory at once while the axes are sought.
ATOMS_AT_ONCE = 2048
# Environments of each element from which a representation chooses what to keep of what it drew.
SAMPLES_TO_CHOOSE = 400
# Recipe fields that decide the rows. The seed and the sample of environments do so only through what was drawn.
BASIS_FIELDS = ("representation", "rank", "class_spread", "features", "size_exponent", "precision")


@dataclass(frozen=True)
class Basis:
    """Elements, recipe, axes and feature maps. Only equations in the same basis can be added."""

    elements: tuple[int, ...]  # atomic numbers, ascending
    recipe: Recipe
    projection: Projection
    maps: tuple[FeatureMap, ...]  # one for each element, float64 on the CPU
    drawn: Mapping[str, Tensor] = field(default_factory=dict)  # random tensors of the representation

    @classmethod
    def draw(cls, structures: Structures, recipe: Recipe, drawn: Mapping[str, Tensor] | None = None) -> Basis:
        """Axes from a sample of the environments of each element, and feature maps drawn at random.

        `drawn`: tensors of the representation, if it is not to draw them.
        """
        if drawn is None:
            drawn = draw_representation(structures, recipe)
        random = np.random.default_rng(recipe.seed)
        found = sample_directions(structures, recipe, drawn, random)
        axes = principal_axes(found, recipe.rank, recipe.class_spread)
        maps = draw_maps(recipe.features, len(structures.elements), recipe.rank, random)
        return cls(structures.elements, recipe, axes, maps, drawn)

    @property
    def n_weights(self) -> int:
        return self.recipe.features.n_weights(len(self.elements))

    def with_recipe(self, recipe: Recipe) -> Basis:
        """This basis under a recipe with another ridge, other weights or another solver."""
        return replace(self, recipe=recipe)

    def ready(self, compute: Compute) -> ReadyBasis:
        """Axes and maps on the device of `compute`, in the precision of the recipe, with kernels that serve them."""
        device, dtype = compute.device, self.recipe.dtype
        return ReadyBasis(
            kernels_for(device, dtype, compute.kernels, self.recipe.representation.kind),
            self.elements,
            self.recipe.representation.arguments(len(self.elements), self.drawn).to(device, dtype),
            self.projection.matrices.to(device, dtype),
            tuple(feature_map.to(device, dtype) for feature_map in self.maps),
            self.recipe.features.blocks,
        )

    def difference(self, other: Basis) -> str:
        """First difference between two bases, in words; empty if they are equal to the last bit."""
        if self.elements != other.elements:
            return f"the elements are {list(self.elements)} in one and {list(other.elements)} in the other"
        if found := recipe_difference(self.recipe, other.recipe):
            return found
        if not torch.equal(self.projection.matrices, other.projection.matrices):
            return "the axes of the projection, which each fit finds from its own data unless it is given a basis"
        drawn = [(self.drawn, other.drawn)]
        drawn += [(tensors_of_map(a), tensors_of_map(b)) for a, b in zip(self.maps, other.maps, strict=True)]
        for mine, theirs in drawn:
            for name, tensor in mine.items():
                if not torch.equal(tensor, theirs[name]):
                    return f"the {name} that were drawn at random (seeds {self.recipe.seed} and {other.recipe.seed})"
        return ""


def tensors_of_map(feature_map: FeatureMap) -> dict[str, Tensor]:
    """Tensors of a feature map, by name."""
    found = {name: getattr(feature_map, name) for name in ("phases", "signs", "row_scale", "matrix")}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def recipe_difference(one: Recipe, other: Recipe) -> str:
    """First field that gives the two recipes different rows, in words; empty if there is none."""
    for name in BASIS_FIELDS:
        if getattr(one, name) != getattr(other, name):
            return f"{name} is {getattr(one, name)} in one and {getattr(other, name)} in the other"
    return ""


@dataclass(frozen=True)
class ReadyBasis:
    """Representation, axes and feature maps on one device, in one precision, with the kernels that serve them."""

    kernels: Kernels
    elements: tuple[int, ...]
    arguments: RepresentationArguments
    projections: Tensor  # (elements, size, rank)
    maps: tuple[FeatureMap, ...]
    blocks: bool  # every element has weights of its own

    @property
    def n_weights(self) -> int:
        return int(self.columns(len(self.maps) - 1).stop)

    @property
    def device(self) -> torch.device:
        return self.projections.device

    def columns(self, element: int) -> slice:
        """Range of the weights of `element`."""
        return columns_of(self.maps, element, self.blocks)

    def part(self, first: int, last: int) -> ReadyBasis:
        """Basis with the features from `first` to `last` of each map."""
        return replace(self, maps=tuple(feature_map.part(first, last) for feature_map in self.maps))

    def like(self, tensor: Tensor) -> Tensor:
        """`tensor` on the device and in the precision of the basis."""
        return sent(tensor, self.device).to(self.projections.dtype)


def draw_representation(structures: Structures, recipe: Recipe) -> dict[str, Tensor]:
    """Tensors of the representation, drawn at random and chosen by a sample of the environments."""

    def sample(representation: Representation, drawn: Mapping[str, Tensor]) -> list[Tensor]:
        few = replace(recipe, representation=representation, projection_samples=SAMPLES_TO_CHOOSE)
        return sample_environments(structures, few, drawn, np.random.default_rng([recipe.seed, 2]))

    return recipe.representation.draw(len(structures.elements), recipe.seed, sample)


def sample_environments(
    structures: Structures, recipe: Recipe, drawn: Mapping[str, Tensor], random: np.random.Generator
) -> list[Tensor]:
    """Up to `projection_samples` representations of each element, (environments, size) in float64 on the CPU."""
    return _environments_of(structures, recipe, drawn, _chosen_atoms(structures, recipe, random))


def sample_directions(
    structures: Structures, recipe: Recipe, drawn: Mapping[str, Tensor], random: np.random.Generator
) -> list[Directions]:
    """Directions of a sample of the environments of each element, with the bonding classes of the sample."""
    chosen = _chosen_atoms(structures, recipe, random)
    samples = _environments_of(structures, recipe, drawn, chosen)
    sampled = structures.structure_of_atom[chosen].unique()
    part, here = structures.select(sampled), chosen[torch.isin(structures.structure_of_atom, sampled)]
    element, classes = element_indices(part.numbers, structures.elements), bonding_classes(part, structures.elements)
    return directions(samples, [classes[here & (element == e)] for e in range(len(structures.elements))])


def _chosen_atoms(structures: Structures, recipe: Recipe, random: np.random.Generator) -> Tensor:
    """Up to `projection_samples` atoms of each element, chosen at random, (atoms,) bool."""
    element = element_indices(structures.numbers, structures.elements)
    chosen = torch.zeros(structures.n_atoms, dtype=torch.bool)
    for e in range(len(structures.elements)):
        atoms = (element == e).nonzero()[:, 0]
        chosen[atoms[torch.from_numpy(random.permutation(len(atoms))[: recipe.projection_samples])]] = True
    return chosen


def _environments_of(
    structures: Structures, recipe: Recipe, drawn: Mapping[str, Tensor], chosen: Tensor
) -> list[Tensor]:
    """Representations of the chosen atoms of each element, (environments, size) in float64 on the CPU."""
    elements = structures.elements
    table = kernels_for("cpu", torch.float64, kind=recipe.representation.kind)
    arguments = recipe.representation.arguments(len(elements), drawn)
    samples: list[list[Tensor]] = [[] for _ in elements]
    sampled = structures.structure_of_atom[chosen].unique()
    for index in batches(structures.counts[sampled], ATOMS_AT_ONCE):
        part = structures.select(sampled[index])
        here = chosen[torch.isin(structures.structure_of_atom, sampled[index])]
        pairs = pairs_within(part, arguments.cutoff, elements)
        values = table.environments(arguments, part.n_atoms, pairs.segments, pairs.vector)
        part_element = element_indices(part.numbers, elements)
        for e, sample in enumerate(samples):
            sample.append(values[here & (part_element == e)])
    return [torch.cat(sample) for sample in samples]
