"""A model of several properties in one basis: sums over atoms, means over atoms, and dipoles of atomic charges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from ..atoms.neighbours import Pairs, element_indices, pairs_within
from ..atoms.structures import Structures, batches, structures_from_ase
from ..errors import InputError
from ..machine.compute import Compute
from ..machine.display import facts_html, one_line, threads_words
from .basis import Basis, ReadyBasis
from .batch_environments import LocalModel, Surroundings
from .predictor import ATOMS_AT_ONCE, forces_from
from .provenance import Provenance
from .recipe import Precision, Recipe

if TYPE_CHECKING:
    from ase import Atoms

# A sum over atoms, a mean over atoms, or Σ charge · position with charges that depend on the environment.
Kind = Literal["extensive", "intensive", "dipole"]
KINDS: tuple[Kind, ...] = ("extensive", "intensive", "dipole")
# Atoms whose features are in memory at once.
ATOMS_OF_FEATURES = 256


@dataclass(frozen=True)
class Property:
    """Name and kind of a property, and the ridge of its weights."""

    name: str
    kind: Kind
    ridge: float
    left_out: float  # root mean square of the residuals of rows that were left out, in the unit of the rows

    def header(self) -> dict[str, Any]:
        """Entries of the JSON header of a file."""
        return {"name": self.name, "kind": self.kind, "ridge": self.ridge, "left_out": self.left_out}


def arms(structures: Structures) -> Tensor:
    """Position of each atom from the mean position of its structure, (atoms, 3) in Å.

    Σ q (r − mean r) = Σ (q − mean q) r: the dipole of charges whose sum is zero, the same wherever the molecule is.
    """
    if bool(structures.periodic.any()):
        which = int(structures.periodic.any(1).nonzero()[0, 0])
        raise InputError(
            f"Structure {which} is periodic: the dipole of a periodic structure depends on the choice of the cell. "
            "Learn dipoles of molecules, with pbc=False."
        )
    mean = torch.zeros(len(structures), 3, dtype=torch.float64)
    mean.index_add_(0, structures.structure_of_atom, structures.positions)
    return structures.positions - (mean / structures.counts[:, None])[structures.structure_of_atom]


@dataclass(frozen=True, repr=False)
class PropertyModel:
    """Basis, and weights and reference values of each property. `predict` gives them for any structure."""

    basis: Basis
    properties: tuple[Property, ...]
    weights: Tensor  # (n_weights, properties) float64
    baseline: Tensor  # (elements, properties) reference value of an atom of each element; of dipoles its charge
    provenance: Provenance = field(default_factory=Provenance)
    trained_on: Tensor | None = None  # (structures,) int64, `geometry_fingerprints` of the training structures

    @property
    def elements(self) -> tuple[int, ...]:
        return self.basis.elements

    @property
    def recipe(self) -> Recipe:
        return self.basis.recipe

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.properties)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_ready"}

    def __repr__(self) -> str:
        facts = self.facts()
        return one_line("PropertyModel", [facts["properties"], facts["elements"], facts["method"], facts["training"]])

    def _repr_html_(self) -> str:
        return facts_html("PropertyModel", self.facts())

    def facts(self) -> dict[str, str]:
        """Properties, method and origin in words, by name."""
        from ase.data import chemical_symbols

        made, recipe = self.provenance, self.recipe.facts()
        name = str(made.data.get("name", ""))
        return {
            "properties": ", ".join(f"{one.name} ({one.kind})" for one in self.properties),
            "elements": " ".join(chemical_symbols[z] for z in self.elements),
            "method": recipe["features"],
            "representation": recipe["representation"],
            "projection": recipe["projection"],
            "ridges": ", ".join(f"{one.name} {one.ridge:g}" for one in self.properties),
            "training": f"{made.structures:,} structures" + (f" of {name}" if name else ""),
            "time": "" if made.seconds is None else f"{made.seconds:.1f} s on {threads_words(made.threads)}",
        }

    def on(
        self, device: torch.device | str = "cpu", precision: Precision | None = None, kernels: str | None = None
    ) -> PropertyPredictor:
        """This model made ready on a device, in a precision, with the back-end of that name or the best one."""
        from dataclasses import replace

        recipe = replace(self.recipe, precision=precision or self.recipe.precision)
        recipe.check()
        return PropertyPredictor(self, self.basis.with_recipe(recipe).ready(Compute(device, kernels)))

    @cached_property
    def _ready(self) -> PropertyPredictor:
        return self.on()

    def predict(self, structures: Structures | Atoms | Sequence[Atoms]) -> dict[str, Tensor]:
        """Each property by name, float64: (structures,), dipoles (structures, 3)."""
        return self._ready.predict(structures)

    def of_atoms(self, structures: Structures | Atoms | Sequence[Atoms]) -> dict[str, Tensor]:
        """Share of each atom in each property, (atoms,): of sums and means the summand, of dipoles the charge."""
        return self._ready.of_atoms(structures)

    def dipole_derivatives(self, atoms: Atoms, name: str | None = None) -> Tensor:
        """Derivatives of a dipole by the positions, (3, atoms, 3): component of the dipole, atom, direction."""
        return self._ready.dipole_derivatives(atoms, name)

    def save(self, path: str, *, overwrite: bool = False) -> None:
        """Write the model as safetensors with a JSON header, atomically."""
        from .property_file import save

        save(self, path, overwrite=overwrite)

    @staticmethod
    def load(path: str) -> PropertyModel:
        """Read a model that `save` wrote; nothing in it is executed."""
        from .property_file import load

        return load(path)


@dataclass(frozen=True)
class PropertyPredictor:
    """A model of properties on one device, in one precision, with the kernels that serve it."""

    model: PropertyModel
    basis: ReadyBasis

    def predict(self, structures: Structures | Atoms | Sequence[Atoms]) -> dict[str, Tensor]:
        """Each property by name, a bounded number of atoms at a time."""
        parts = [self._whole(part, values) for part, values in self._portions(structures)]
        return {name: torch.cat([part[name] for part in parts]) for name in self.model.names}

    def of_atoms(self, structures: Structures | Atoms | Sequence[Atoms]) -> dict[str, Tensor]:
        """Share of each atom in each property; a mean over atoms is the mean of the shares."""
        parts = [self._shares(part, values) for part, values in self._portions(structures)]
        return dict(zip(self.model.names, torch.cat(parts, 1), strict=True))

    def dipole_derivatives(self, atoms: Atoms, name: str | None = None) -> Tensor:
        """Derivatives of a dipole by the positions, (3, atoms, 3).

        μ = Σ q (r − mean r), so ∂μ_a/∂r_jb = δ_ab (q_j − mean q) + Σ (r_a − mean r_a) ∂q/∂r_jb.
        """
        which = self._dipole(name)
        structures = structures_from_ase(atoms)
        away = arms(structures)
        pairs, around = self._around(structures)
        charge, slope = around.values(self._local(which))
        whole = charge.cpu() + self._reference(structures)[which]
        out = torch.zeros(3, structures.n_atoms, 3, dtype=torch.float64)
        for a in range(3):
            gradient = around.pulled_back(slope * self.basis.like(away[:, a, None]))
            out[a] = -forces_from(structures, pairs, gradient).cpu()
            out[a, :, a] += whole - whole.mean()
        return out

    def _dipole(self, name: str | None) -> int:
        """Number of the dipole of that name, or of the only one."""
        there = {one.name: k for k, one in enumerate(self.model.properties) if one.kind == "dipole"}
        if name is None and len(there) == 1:
            return next(iter(there.values()))
        if name not in there:
            have = ", ".join(there) or f"none, but {', '.join(self.model.names)}"
            raise InputError(f"Wanted a dipole of the model{f', got {name!r}' if name else ''}. It has {have}.")
        return there[name]

    def _portions(self, structures: Structures | Atoms | Sequence[Atoms]) -> Iterator[tuple[Structures, Tensor]]:
        """Structures and the learnt shares of their atoms, (properties, atoms) without reference values."""
        if not isinstance(structures, Structures):
            structures = structures_from_ase(structures)
        for index in batches(structures.counts, ATOMS_AT_ONCE):
            part = structures.select(index)
            yield part, self._values(self._around(part)[1]).T.cpu()

    def _values(self, around: Surroundings) -> Tensor:
        """Learnt share of each atom in each property, (atoms, properties): the features serve all of them."""
        basis, weights = self.basis, self.model.weights.to(self.basis.device)
        out = torch.zeros(len(around.rho), len(self.model.properties), dtype=torch.float64, device=basis.device)
        for e, rho in enumerate(around.of_elements):
            for at, some in zip(around.atoms[e].split(ATOMS_OF_FEATURES), rho.split(ATOMS_OF_FEATURES), strict=True):
                out[at] = basis.kernels.features(basis.maps[e], some).double() @ weights[basis.columns(e)]
        return out

    def _around(self, structures: Structures) -> tuple[Pairs, Surroundings]:
        pairs = pairs_within(structures, self.basis.arguments.cutoff, self.basis.elements, self.basis.device)
        element = element_indices(structures.numbers, self.basis.elements)
        return pairs, Surroundings.of(self.basis, element, pairs.segments, pairs.vector)

    def _local(self, which: int) -> LocalModel:
        weights = self.basis.like(self.model.weights[:, which]).contiguous()
        return lambda e, rho: self.basis.kernels.energy_and_slope(
            self.basis.maps[e], rho, weights[self.basis.columns(e)]
        )

    def _reference(self, structures: Structures) -> Tensor:
        """Reference value of each atom, (properties, atoms)."""
        return self.model.baseline.T[:, element_indices(structures.numbers, self.basis.elements)]

    def _shares(self, part: Structures, values: Tensor) -> Tensor:
        shares = values + self._reference(part)
        for k, one in enumerate(self.model.properties):
            if one.kind == "dipole":
                shares[k] -= (_sums(part, shares[k]) / part.counts)[part.structure_of_atom]
        return shares

    def _whole(self, part: Structures, values: Tensor) -> dict[str, Tensor]:
        found = {}
        for one, share in zip(self.model.properties, values + self._reference(part), strict=True):
            if one.kind == "dipole":
                found[one.name] = _sums(part, share[:, None] * arms(part))
            else:
                total = _sums(part, share)
                found[one.name] = total / part.counts if one.kind == "intensive" else total
        return found


def _sums(structures: Structures, values: Tensor) -> Tensor:
    """Sums over the atoms of each structure, (atoms, …) → (structures, …)."""
    out = torch.zeros(len(structures), *values.shape[1:], dtype=torch.float64)
    return out.index_add_(0, structures.structure_of_atom, values)
