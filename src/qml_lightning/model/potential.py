"""A trained potential: energies, forces and stress of any structure of its elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from ..atoms.neighbours import Pairs, SkinnedPairs, element_indices, pairs_within, skinned_pairs
from ..atoms.structures import Structures, batches, structures_from_ase
from ..errors import InputError
from ..kernels import FeatureMap, WholePath
from .baseline import Baseline
from .basis import Basis, make_basis
from .projection import Projection, lift, project
from .recipe import Precision, Recipe

if TYPE_CHECKING:
    from ase import Atoms

    from ..adapters.ase import QMLLightning

# Energies of projected environments of an element, (n,) float64, and their gradients, (n, rank).
LocalModel = Callable[[int, Tensor], tuple[Tensor, Tensor]]

# Atoms whose environments are in memory at once during prediction.
ATOMS_AT_ONCE = 4096


@dataclass(frozen=True)
class Prediction:
    """What a potential says of a batch of structures, in eV and Å, float64 on the CPU."""

    energies: Tensor  # (structures,)
    atom_energies: Tensor  # (atoms,)
    forces: Tensor | None = None  # (atoms, 3)
    stress: Tensor | None = None  # (structures, 3, 3), tension positive; NaN for a structure without a cell

    @classmethod
    def joined(cls, parts: Sequence[Prediction]) -> Prediction:
        """Predictions of several batches as one; all have forces or none, and the same for stress."""
        columns = {one.name: [getattr(part, one.name) for part in parts] for one in fields(cls)}
        return cls(**{name: torch.cat(values) for name, values in columns.items() if values[0] is not None})


class Model(Protocol):
    """What every trained model offers, however its atomic energies come about."""

    elements: tuple[int, ...]
    projection: Projection
    baseline: Baseline
    provenance: dict[str, Any]

    def on(
        self,
        device: torch.device | str = "cpu",
        precision: Precision | None = None,
        kernels: str | None = None,
        *,
        skin: float = 0.0,
    ) -> Predictor:
        """This potential made ready on a device, in a precision, with the back-end of that name or the best one.

        With a skin (Å) it lists pairs that much beyond the cutoff, and keeps them while the same atoms move a little.
        """
        if not skin >= 0:
            raise InputError(f"The skin of a neighbour list is a length in Å and not negative, got {skin}.")
        basis = self._basis(device, precision, kernels)
        return Predictor(self, basis, skin, self._local(basis), self._whole_path(basis, skin))

    def _basis(self, device: torch.device | str, precision: Precision | None, kernels: str | None) -> Basis:
        """Representation and axes made ready, and feature maps if there are any."""
        ...

    def _local(self, basis: Basis) -> LocalModel:
        """Atomic energies in that basis."""
        ...

    def _whole_path(self, basis: Basis, skin: float) -> WholePath | None:
        """Prediction in one call, for kernels that have it."""
        return None

    @cached_property
    def _ready(self) -> Predictor:
        return self.on()

    def predict(
        self, structures: Structures | Atoms | Sequence[Atoms], *, forces: bool = True, stress: bool | None = None
    ) -> Prediction:
        """Energies, and forces and stress if wanted (stress: by default where there is a periodic structure)."""
        return self._ready.predict(structures, forces=forces, stress=stress)

    def calculator(self, **options: Any) -> QMLLightning:
        """This potential as an ASE calculator; the options are device, precision, kernels and skin."""
        from ..adapters.ase import QMLLightning

        return QMLLightning(self, **options)

    def save(self, path: str, *, overwrite: bool = False) -> None:
        """Write the model as safetensors with a JSON header, atomically."""
        from .file import save_model

        save_model(self, path, overwrite=overwrite)

    @staticmethod
    def load(path: str) -> Model:
        """Read a model that `save` wrote; nothing in it is executed."""
        from .file import load_model

        return load_model(path)


@dataclass(frozen=True)
class Potential(Model):
    """Elements, axes, feature maps and weights: what was drawn and what was learnt."""

    elements: tuple[int, ...]
    recipe: Recipe
    projection: Projection
    maps: tuple[FeatureMap, ...]
    weights: Tensor  # (n_weights,) float64
    baseline: Baseline
    provenance: dict[str, Any] = field(default_factory=dict)  # data, counts, time, versions: for people to read

    def _basis(self, device: torch.device | str, precision: Precision | None, kernels: str | None) -> Basis:
        recipe = self.recipe if precision is None else replace(self.recipe, precision=precision)
        recipe.check()
        return make_basis(self.elements, recipe, self.projection, self.maps, device, kernels)

    def _local(self, basis: Basis) -> LocalModel:
        weights = basis.like(self.weights)
        return lambda e, rho: basis.kernels.energy_and_slope(basis.maps[e], rho, weights[basis.columns(e)])

    def _whole_path(self, basis: Basis, skin: float) -> WholePath | None:
        if basis.kernels.predictor is None:
            return None
        return basis.kernels.predictor(
            basis.arguments,
            self.projection.matrices.contiguous(),
            self.maps,
            [self.weights[basis.columns(e)] for e in range(len(basis.elements))],
            self.baseline.energies,
            dtype=basis.projections.dtype,
            skin=skin,
        )


class Predictor:
    """A potential's tensors on a device, in a precision, with the kernels that serve them."""

    def __init__(
        self, potential: Model, basis: Basis, skin: float, local: LocalModel, whole_path: WholePath | None = None
    ) -> None:
        self.potential = potential
        self.basis = basis
        self.skin = skin
        self._local = local
        self._pairs: SkinnedPairs | None = None
        self._lists_made = 0
        self._whole_path = whole_path

    @property
    def cutoff(self) -> float:
        return self.basis.arguments.cutoff

    @property
    def lists_made(self) -> int:
        """How often pairs were listed."""
        return self._lists_made if self._whole_path is None else self._whole_path.lists_made

    def predict(
        self, structures: Structures | Atoms | Sequence[Atoms], *, forces: bool = True, stress: bool | None = None
    ) -> Prediction:
        """Energies, and forces and stress if wanted, a bounded number of atoms at a time."""
        if not isinstance(structures, Structures):
            structures = structures_from_ase(structures)
        if stress is None:
            stress = structures.has_volume
        if self._whole_path is not None:
            return self._predict_at_once(self._whole_path, structures, forces=forces, stress=stress)
        if self.skin > 0:
            return self.predict_pairs(structures, self._kept_pairs(structures), forces=forces, stress=stress)
        parts = []
        for part in _runs(structures):
            pairs = pairs_within(part, self.cutoff, self.basis.elements)
            self._lists_made += 1
            parts.append(self.predict_pairs(part, pairs, forces=forces, stress=stress))
        return Prediction.joined(parts)

    def _predict_at_once(self, path: WholePath, structures: Structures, *, forces: bool, stress: bool) -> Prediction:
        energies, atom_energies, force, virial = path.predict(
            structures.offsets.contiguous(),
            element_indices(structures.numbers, self.basis.elements),
            structures.positions.contiguous(),
            structures.cells.contiguous(),
            structures.periodic.contiguous(),
            forces=forces,
            virial=stress,
        )
        return Prediction(
            energies, atom_energies, force, None if virial is None else virial / structures.volumes[:, None, None]
        )

    def _kept_pairs(self, structures: Structures) -> Pairs:
        if self._pairs is None or not self._pairs.serve(structures):
            self._pairs = skinned_pairs(structures, self.cutoff, self.skin, self.basis.elements)
            self._lists_made += 1
        return self._pairs.now(structures)

    def predict_pairs(self, structures: Structures, pairs: Pairs, *, forces: bool, stress: bool) -> Prediction:
        """The same for pairs that are known already: molecular dynamics re-uses them."""
        basis = self.basis
        element = element_indices(structures.numbers, basis.elements).to(basis.device)
        segments, vectors = pairs.segments.to(basis.device), basis.like(pairs.vector)
        values = basis.kernels.fchl19(basis.arguments, structures.n_atoms, segments, vectors)
        rho = project(basis.projections, values, element)
        energy = torch.zeros(structures.n_atoms, dtype=torch.float64, device=basis.device)
        slope = torch.zeros_like(rho)
        for e in range(len(basis.elements)):
            atoms = (element == e).nonzero()[:, 0]
            energy[atoms], slope[atoms] = self._local(e, rho[atoms].contiguous())
        atom_energies = energy.cpu() + self.potential.baseline.per_atom(structures)
        energies = torch.zeros(len(structures), dtype=torch.float64).index_add_(
            0, structures.structure_of_atom, atom_energies
        )
        if not (forces or stress):
            return Prediction(energies, atom_energies)
        gradient = basis.kernels.fchl19_pullback(
            basis.arguments, structures.n_atoms, segments, vectors, lift(basis.projections, slope, element)
        )
        gradient = gradient.double().cpu()
        return Prediction(
            energies,
            atom_energies,
            _forces(structures, pairs, gradient) if forces else None,
            _stress(structures, pairs, gradient) if stress else None,
        )


def _forces(structures: Structures, pairs: Pairs, gradient: Tensor) -> Tensor:
    """Minus the derivative of the energy by the positions, from its gradient by the pair vectors."""
    out = torch.zeros(structures.n_atoms, 3, dtype=torch.float64)
    return out.index_add_(0, pairs.centre, gradient).index_add_(0, pairs.neighbour, gradient, alpha=-1)


def _stress(structures: Structures, pairs: Pairs, gradient: Tensor) -> Tensor:
    """Derivative of the energy by strain over the volume, symmetric."""
    outer = pairs.vector[:, :, None] * gradient[:, None, :]
    virial = torch.zeros(len(structures), 3, 3, dtype=torch.float64)
    virial.index_add_(0, structures.structure_of_atom[pairs.centre], outer)
    return 0.5 * (virial + virial.transpose(1, 2)) / structures.volumes[:, None, None]


def _runs(structures: Structures) -> Iterator[Structures]:
    """The structures, at most ATOMS_AT_ONCE atoms at a time."""
    for index in batches(structures.counts, ATOMS_AT_ONCE):
        yield structures if len(index) == len(structures) else structures.select(index)
