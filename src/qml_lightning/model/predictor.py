"""Prediction: energies, forces and stress of structures, with a model that is ready on a device."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..atoms.cells import check_cells
from ..atoms.neighbours import Pairs, SkinnedPairs, element_indices, pairs_within
from ..atoms.structures import Structures, structures_from_ase
from ..errors import InputError
from ..kernels import WholePath
from ..machine.display import facts_html, one_line
from ..machine.row_sums import add_rows, add_sorted_rows
from ..machine.transfers import sent
from .basis import ReadyBasis
from .batch_environments import LocalModel, Surroundings
from .batching import portions
from .committee import NO_COMMITTEE
from .crowding import CrowdedAtoms
from .repulsion import ClosePairs

if TYPE_CHECKING:
    from ase import Atoms

    from .potential import Model
    from .recipe import Precision

# Atoms whose environments are in memory at once during prediction.
ATOMS_AT_ONCE = 4096


@dataclass(frozen=True)
class Prediction:
    """Energies, forces and stress of a batch of structures, in eV and Å, float64; on the CPU unless left elsewhere."""

    energies: Tensor  # (structures,)
    atom_energies: Tensor  # (atoms,)
    forces: Tensor | None = None  # (atoms, 3)
    stress: Tensor | None = None  # (structures, 3, 3), tension positive; NaN for a structure without a cell
    # standard deviations, if they are wanted
    energy_uncertainty: Tensor | None = None  # (structures,)
    atom_energy_uncertainty: Tensor | None = None  # (atoms,) of the learnt part
    force_uncertainty: Tensor | None = None  # (atoms,) of each component

    def __repr__(self) -> str:
        told = self._facts()
        words = {"structures": "{} structures", "atoms": "{} atoms", "forces": "forces {}"}
        return one_line("Prediction", [words.get(name, "{}").format(value) for name, value in told.items() if value])

    def _repr_html_(self) -> str:
        return facts_html("Prediction", self._facts())

    def _facts(self) -> dict[str, str]:
        n, energies, forces = len(self.energies), self.energies, self.forces
        span = f"{float(energies.min()):.3f} to {float(energies.max()):.3f} eV" if n > 1 else ""
        return {
            "structures": f"{n:,}",
            "atoms": f"{len(self.atom_energies):,}",
            "energies": (span or f"{float(energies[0]):.3f} eV") if n else "",
            "forces": "" if forces is None or not n else f"up to {float(forces.norm(dim=1).max()):.3g} eV/Å",
            "stress": "" if self.stress is None else "stress",
        }

    def on_host(self) -> Prediction:
        """Prediction on the CPU: here the host waits for the device."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return replace(self, **{name: value.cpu() for name, value in found.items() if value is not None})

    @classmethod
    def joined(cls, parts: Sequence[Prediction]) -> Prediction:
        """One prediction for the structures of all parts, in their order."""
        columns = {one.name: [getattr(part, one.name) for part in parts] for one in fields(cls)}
        return cls(**{name: torch.cat(values) for name, values in columns.items() if values[0] is not None})


class Predictor:
    """A model on one device, in one precision, with the kernels that serve it.

    A copy, a pickled one and one in a forked process are made anew from the model: they share no memory of the native
    library and no neighbour list.
    """

    def __init__(
        self,
        potential: Model,
        basis: ReadyBasis,
        skin: float,
        local: LocalModel,
        members: Sequence[LocalModel] = (),
        whole_path: WholePath | None = None,
    ) -> None:
        self.potential = potential
        self.basis = basis
        self.skin = skin
        self._local = local
        self._repulsion = None if potential.repulsion is None else potential.repulsion.to(basis.device)
        self._members = members
        self._pairs: SkinnedPairs | None = None
        self._lists_made = 0
        self._whole_path = whole_path
        self._checked_cells: Tensor | None = None
        self._process = os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        precision = str(self.basis.projections.dtype).removeprefix("torch.")
        device, kernels = str(self.basis.device), self.basis.kernels.NAME
        return _made_ready, (self.potential, device, precision, kernels, self.skin)

    @property
    def cutoff(self) -> float:
        return self.basis.arguments.cutoff

    @property
    def lists_made(self) -> int:
        """Number of neighbour lists made so far."""
        return self._lists_made if self._whole_path is None else self._whole_path.lists_made

    def predict(
        self,
        structures: Structures | Atoms | Sequence[Atoms],
        *,
        forces: bool = True,
        stress: bool | None = None,
        uncertainty: bool = False,
    ) -> Prediction:
        """Energies, and forces and stress if wanted, a bounded number of atoms at a time.

        `uncertainty`: standard deviations of energies and forces as well.
        """
        if not isinstance(structures, Structures):
            structures = structures_from_ase(structures)
        if stress is None:
            stress = structures.has_volume
        found = self.predict_there(structures, forces=forces, stress=stress, uncertainty=uncertainty)
        return found.on_host() if self._whole_path is None else found

    def predict_there(
        self, structures: Structures, *, forces: bool, stress: bool, uncertainty: bool = False
    ) -> Prediction:
        """Prediction that is left on the device. Positions may be there already, the rest is on the host."""
        if uncertainty and self.potential.committee is None:
            raise InputError(NO_COMMITTEE)
        if self._process != os.getpid():
            self._begin_anew()
        if self._whole_path is not None:
            return self._predict_at_once(self._whole_path, structures, (forces, stress, uncertainty))
        wanted = {"forces": forces, "stress": stress, "uncertainty": uncertainty}
        if self.skin > 0:
            return self.predict_pairs(structures, self._kept_pairs(structures), **wanted)
        parts = []
        for index in portions(self.basis, structures, ATOMS_AT_ONCE):
            part = structures if len(index) == len(structures) else structures.select(index)
            pairs = pairs_within(part, self.cutoff, self.basis.elements, self.basis.device)
            self._lists_made += 1
            parts.append(self.predict_pairs(part, pairs, **wanted))
        return Prediction.joined(parts)

    def environments(self, structures: Structures | Atoms | Sequence[Atoms]) -> Tensor:
        """Projected environment of each atom, (atoms, rank): the input of the feature maps."""
        parts = [around.rho for _, around in self._surroundings(structures)]
        return torch.cat(parts).double().cpu()

    def features(self, structures: Structures | Atoms | Sequence[Atoms]) -> Tensor:
        """Random features summed over the atoms of each structure, (structures, weights) float64.

        features @ weights is the energy past the reference energies (and past the repulsion of very close atoms).
        """
        basis, parts = self.basis, []
        for part, around in self._surroundings(structures):
            rows = torch.zeros(len(part), basis.n_weights, dtype=torch.float64)
            for e, feature_map in enumerate(basis.maps):
                values = basis.kernels.features(feature_map, around.of_elements[e]).double().cpu()
                rows[:, basis.columns(e)].index_add_(0, part.structure_of_atom[around.atoms[e].cpu()], values)
            parts.append(rows)
        return torch.cat(parts)

    def _surroundings(
        self, structures: Structures | Atoms | Sequence[Atoms]
    ) -> Iterator[tuple[Structures, Surroundings]]:
        """Structures and the surroundings of their atoms, portion by portion."""
        if not isinstance(structures, Structures):
            structures = structures_from_ase(structures)
        for index in portions(self.basis, structures, ATOMS_AT_ONCE, more=8 * self.basis.maps[0].n_features):
            part = structures.select(index)
            pairs = pairs_within(part, self.cutoff, self.basis.elements, self.basis.device)
            element = element_indices(part.numbers, self.basis.elements)
            yield part, Surroundings.of(self.basis, element, pairs.segments, pairs.vector)

    def _begin_anew(self) -> None:
        """Make a native predictor and a list of its own in a forked process: the parent may have been using its own."""
        self._left = self._whole_path  # kept, as freeing it would touch the parent's locks
        self._whole_path, self._pairs = self.potential._whole_path(self.basis, self.skin), None
        self._process = os.getpid()

    def _predict_at_once(self, path: WholePath, structures: Structures, wanted: tuple[bool, bool, bool]) -> Prediction:
        forces, stress, uncertainty = wanted
        if self._checked_cells is None or not torch.equal(self._checked_cells, structures.cells):
            check_cells(structures, self.cutoff)
            self._checked_cells = structures.cells
        given = (
            structures.offsets.contiguous(),
            element_indices(structures.numbers, self.basis.elements),
            structures.positions.contiguous(),
            structures.cells.contiguous(),
            structures.periodic.contiguous(),
        )
        told: tuple[Tensor | None, ...] = ()
        if uncertainty:
            whole, told = path.predict_uncertain(*given, forces=forces, virial=stress)
        else:
            whole = path.predict(*given, forces=forces, virial=stress)
        energies, atom_energies, force, virial = whole
        per_volume = None if virial is None else virial / structures.volumes[:, None, None]
        return Prediction(energies, atom_energies, force, per_volume, *told)

    def _uncertain(
        self, made: Prediction, structures: Structures, energies: Tensor, forces: Tensor | None
    ) -> Prediction:
        """The prediction with standard deviations.

        `energies` (members, atoms) and `forces` (members, atoms, 3) are deviations by members of the committee, on the
        device of the structures.
        """
        committee = self.potential.committee
        assert committee is not None
        if len(structures) == 1:  # as in dynamics: indices would take three times as long as the sum
            total = energies.sum(1, keepdim=True)
        else:
            rows = energies.new_zeros(len(structures), len(energies))
            add_sorted_rows(rows, structures.structure_of_atom, energies.T)
            total = rows.T
        of_forces = None if forces is None else committee.of_forces(forces, structures.numbers)
        told = committee.of_energies(total, structures.counts), committee.of_atom_energies(energies), of_forces
        return Prediction(made.energies, made.atom_energies, made.forces, made.stress, *told)

    def _kept_pairs(self, structures: Structures) -> Pairs:
        if self._pairs is None or not self._pairs.serve(structures):
            self._pairs = SkinnedPairs.of(structures, self.cutoff, self.skin, self.basis.elements, self.basis.device)
            self._lists_made += 1
        return self._pairs.now(structures)

    def predict_pairs(
        self, structures: Structures, pairs: Pairs, *, forces: bool, stress: bool, uncertainty: bool = False
    ) -> Prediction:
        """Prediction on the device from pairs that are known already: molecular dynamics uses them again."""
        listed, here = element_indices(structures.numbers, self.basis.elements), structures.to(self.basis.device)
        close, crowded = self._beyond_the_data(sent(listed, self.basis.device), pairs)
        seen = pairs.vector if close is None else close.held_apart(pairs.vector)
        committee = self.potential.committee if uncertainty else None
        n_forces = 0 if committee is None or not forces else committee.force_members
        locals_ = [self._local, *(self._members if uncertainty else ())]
        n_gradients = 1 + n_forces if forces or stress else 0
        learnt, gradients = self._learnt(listed, pairs.segments, seen, locals_, n_gradients)
        gradients = [_by_vectors(one, learnt[k], close, crowded, k == 0) for k, one in enumerate(gradients)]
        energy, *of_members = learnt if crowded is None else [crowded.fade * one for one in learnt]
        atom_energies = energy + sent(self.potential.baseline.per_atom(structures), self.basis.device)
        if close is not None:
            add_rows(atom_energies, pairs.centre[close.which], close.energy)
        if crowded is not None:
            atom_energies += crowded.energy
        energies = add_sorted_rows(atom_energies.new_zeros(len(structures)), here.structure_of_atom, atom_energies)
        made = Prediction(energies, atom_energies)
        if gradients:
            made = replace(
                made,
                forces=forces_from(here, pairs, gradients[0]) if forces else None,
                stress=stress_from(here, pairs, gradients[0]) if stress else None,
            )
        if committee is None:
            return made
        of_forces = [forces_from(here, pairs, gradient) for gradient in gradients[1:]] if forces else []
        return self._uncertain(made, here, torch.stack(of_members), torch.stack(of_forces) if forces else None)

    def _beyond_the_data(self, element: Tensor, pairs: Pairs) -> tuple[ClosePairs | None, CrowdedAtoms | None]:
        """Pairs that are too close and atoms that are too crowded; None where there are none."""
        if self._repulsion is None:
            return None, None
        return self._repulsion.beyond(element, pairs.centre, pairs.neighbour, pairs.vector)

    def _learnt(
        self, element: Tensor, segments: Tensor, vectors: Tensor, models: Sequence[LocalModel], n_gradients: int
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Energies of atoms by each model, and gradients by the pair vectors of the first ones, in float64.

        `element` is on the host, where the atoms of each one are found; the rest is on the device, and stays there.
        """
        around = Surroundings.of(self.basis, element, segments, vectors)
        found = [around.values(local) for local in models]
        gradients = [around.pulled_back(slope) for _, slope in found[:n_gradients]]
        return [energy for energy, _ in found], gradients


def _made_ready(potential: Model, device: str, precision: Precision, kernels: str, skin: float) -> Predictor:
    return potential.on(device, precision, kernels, skin=skin)


def _by_vectors(
    by_seen: Tensor, learnt: Tensor, close: ClosePairs | None, crowded: CrowdedAtoms | None, repelled: bool
) -> Tensor:
    """Gradient of the energy by the true pair vectors, from the gradient of the learnt part by the vectors it saw."""
    gradient = by_seen if crowded is None else crowded.faded(by_seen)
    if close is not None:
        gradient = close.gradient(gradient) if repelled else close.seen_gradient(gradient)
    return gradient if crowded is None else gradient + crowded.gradient(learnt, repelled=repelled)


def forces_from(structures: Structures, pairs: Pairs, gradient: Tensor) -> Tensor:
    """Forces from the gradient of the energy by the pair vectors, (atoms, 3)."""
    out = add_rows(gradient.new_zeros(structures.n_atoms, 3), pairs.centre, gradient)
    return add_rows(out, pairs.neighbour, -gradient)


def stress_from(structures: Structures, pairs: Pairs, gradient: Tensor) -> Tensor:
    """Derivative of the energy by strain over the volume, symmetric, (structures, 3, 3)."""
    outer = pairs.vector[:, :, None] * gradient[:, None, :]
    of_atoms = add_rows(gradient.new_zeros(structures.n_atoms, 3, 3), pairs.centre, outer)
    virial = add_sorted_rows(gradient.new_zeros(len(structures), 3, 3), structures.structure_of_atom, of_atoms)
    return 0.5 * (virial + virial.transpose(1, 2)) / structures.volumes[:, None, None]
