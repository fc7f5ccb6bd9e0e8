"""Prediction: energies, forces and stress of structures, with a model that is ready on a device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..atoms.cells import check_cells
from ..atoms.neighbours import Pairs, SkinnedPairs, element_indices, pairs_within
from ..atoms.structures import Structures, batches, structures_from_ase
from ..errors import InputError
from ..kernels import WholePath
from ..machine.display import facts_html, one_line
from .basis import ReadyBasis
from .committee import NO_COMMITTEE
from .crowding import CrowdedAtoms
from .projection import atoms_of_elements, lift, project
from .repulsion import ClosePairs

if TYPE_CHECKING:
    from ase import Atoms

    from .potential import Model
    from .recipe import Precision

# Energies of projected environments of an element, (n,) float64, and their gradients, (n, rank).
LocalModel = Callable[[int, Tensor], tuple[Tensor, Tensor]]

# Atoms whose environments are in memory at once during prediction.
ATOMS_AT_ONCE = 4096


@dataclass(frozen=True)
class Prediction:
    """Energies, forces and stress of a batch of structures, in eV and Å, float64 on the CPU."""

    energies: Tensor  # (structures,)
    atom_energies: Tensor  # (atoms,)
    forces: Tensor | None = None  # (atoms, 3)
    stress: Tensor | None = None  # (structures, 3, 3), tension positive; NaN for a structure without a cell
    # standard deviations, if they are wanted
    energy_uncertainty: Tensor | None = None  # (structures,)
    atom_energy_uncertainty: Tensor | None = None  # (atoms,) of the learnt part
    force_uncertainty: Tensor | None = None  # (atoms,) of each component

    def __repr__(self) -> str:
        return one_line("Prediction", list(self._facts().values()))

    def _repr_html_(self) -> str:
        return facts_html("Prediction", self._facts())

    def _facts(self) -> dict[str, str]:
        n, energies, forces = len(self.energies), self.energies, self.forces
        span = f"{float(energies.min()):.3f} to {float(energies.max()):.3f} eV" if n > 1 else ""
        return {
            "structures": f"{n:,} structures",
            "atoms": f"{len(self.atom_energies):,} atoms",
            "energies": (span or f"{float(energies[0]):.3f} eV") if n else "",
            "forces": "" if forces is None or not n else f"forces up to {float(forces.norm(dim=1).max()):.3g} eV/Å",
            "stress": "" if self.stress is None else "stress",
        }

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

        `uncertainty`: their standard deviations as well, but that of the stress.
        """
        if uncertainty and self.potential.committee is None:
            raise InputError(NO_COMMITTEE)
        if not isinstance(structures, Structures):
            structures = structures_from_ase(structures)
        if stress is None:
            stress = structures.has_volume
        if self._process != os.getpid():
            self._begin_anew()
        if self._whole_path is not None:
            return self._predict_at_once(self._whole_path, structures, (forces, stress, uncertainty))
        wanted = {"forces": forces, "stress": stress, "uncertainty": uncertainty}
        if self.skin > 0:
            return self.predict_pairs(structures, self._kept_pairs(structures), **wanted)
        parts = []
        for index in batches(structures.counts, ATOMS_AT_ONCE):
            part = structures if len(index) == len(structures) else structures.select(index)
            pairs = pairs_within(part, self.cutoff, self.basis.elements)
            self._lists_made += 1
            parts.append(self.predict_pairs(part, pairs, **wanted))
        return Prediction.joined(parts)

    def environments(self, structures: Structures | Atoms | Sequence[Atoms]) -> Tensor:
        """Projected environment of each atom, (atoms, rank): the input of the feature maps."""
        parts = [rho for _, rho, _ in self._environments(structures)]
        return torch.cat(parts).double().cpu()

    def features(self, structures: Structures | Atoms | Sequence[Atoms]) -> Tensor:
        """Random features summed over the atoms of each structure, (structures, weights) float64.

        features @ weights is the energy past the reference energies (and past the repulsion of very close atoms).
        """
        basis, parts = self.basis, []
        for part, rho, atoms in self._environments(structures):
            rows = torch.zeros(len(part), basis.n_weights, dtype=torch.float64)
            for e, feature_map in enumerate(basis.maps):
                values = basis.kernels.features(feature_map, rho[atoms[e]].contiguous()).double().cpu()
                rows[:, basis.columns(e)].index_add_(0, part.structure_of_atom[atoms[e].cpu()], values)
            parts.append(rows)
        return torch.cat(parts)

    def _environments(
        self, structures: Structures | Atoms | Sequence[Atoms]
    ) -> Iterator[tuple[Structures, Tensor, list[Tensor]]]:
        """Structures, their projected environments and the atoms of each element, portion by portion."""
        if not isinstance(structures, Structures):
            structures = structures_from_ase(structures)
        for index in batches(structures.counts, ATOMS_AT_ONCE):
            part = structures.select(index)
            pairs = pairs_within(part, self.cutoff, self.basis.elements)
            element = element_indices(part.numbers, self.basis.elements)
            atoms = atoms_of_elements(element, len(self.basis.elements), self.basis.device)
            yield part, self._projected(atoms, *self._sent(pairs.segments, pairs.vector)), atoms

    def _sent(self, segments: Tensor, vectors: Tensor) -> tuple[int, Tensor, Tensor]:
        """Atoms, segments and vectors as the kernels take them, on their device."""
        n_atoms = (len(segments) - 1) // len(self.basis.elements)
        return n_atoms, segments.to(self.basis.device), self.basis.like(vectors)

    def _projected(self, atoms: list[Tensor], *pairs: Any) -> Tensor:
        basis = self.basis
        return project(basis.projections, basis.kernels.environments(basis.arguments, *pairs), atoms)

    def _begin_anew(self) -> None:
        """Leave to the parent process what is its own: one of its threads may have been at work during the fork."""
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
        if uncertainty:
            whole, members = path.predict_members(*given, forces=forces, virial=stress)
        else:
            whole, members = path.predict(*given, forces=forces, virial=stress), None
        energies, atom_energies, force, virial = whole
        per_volume = None if virial is None else virial / structures.volumes[:, None, None]
        made = Prediction(energies, atom_energies, force, per_volume)
        return made if members is None else self._uncertain(made, structures, *members)

    def _uncertain(
        self, made: Prediction, structures: Structures, energies: Tensor, forces: Tensor | None
    ) -> Prediction:
        """The prediction with standard deviations.

        `energies` (members, atoms) and `forces` (members, atoms, 3) are deviations by members of the committee.
        """
        committee = self.potential.committee
        assert committee is not None
        total = torch.zeros(len(energies), len(structures), dtype=torch.float64)
        total.index_add_(1, structures.structure_of_atom, energies)
        return replace(
            made,
            energy_uncertainty=committee.of_energies(total, structures.counts),
            atom_energy_uncertainty=committee.of_atom_energies(energies),
            force_uncertainty=None if forces is None else committee.of_forces(forces),
        )

    def _kept_pairs(self, structures: Structures) -> Pairs:
        if self._pairs is None or not self._pairs.serve(structures):
            self._pairs = SkinnedPairs.of(structures, self.cutoff, self.skin, self.basis.elements)
            self._lists_made += 1
        return self._pairs.now(structures)

    def predict_pairs(
        self, structures: Structures, pairs: Pairs, *, forces: bool, stress: bool, uncertainty: bool = False
    ) -> Prediction:
        """Prediction from pairs that are known already: molecular dynamics uses them again."""
        element, seen = element_indices(structures.numbers, self.basis.elements), pairs.vector
        close, crowded = self._beyond_the_data(element, pairs)
        seen = seen if close is None else close.held_apart(seen)
        committee = self.potential.committee if uncertainty else None
        n_forces = 0 if committee is None or not forces else committee.force_members
        locals_ = [self._local, *(self._members if uncertainty else ())]
        n_gradients = 1 + n_forces if forces or stress else 0
        learnt, gradients = self._learnt(element, pairs.segments, seen, locals_, n_gradients)
        gradients = [_by_vectors(one, learnt[k], close, crowded, k == 0) for k, one in enumerate(gradients)]
        energy, *of_members = learnt if crowded is None else [crowded.fade * one for one in learnt]
        atom_energies = energy + self.potential.baseline.per_atom(structures)
        if close is not None:
            atom_energies.index_add_(0, pairs.centre[close.which], close.energy)
        if crowded is not None:
            atom_energies += crowded.energy
        energies = torch.zeros(len(structures), dtype=torch.float64)
        energies.index_add_(0, structures.structure_of_atom, atom_energies)
        made = Prediction(energies, atom_energies)
        if gradients:
            made = replace(
                made,
                forces=forces_from(structures, pairs, gradients[0]) if forces else None,
                stress=stress_from(structures, pairs, gradients[0]) if stress else None,
            )
        if committee is None:
            return made
        of_forces = [forces_from(structures, pairs, gradient) for gradient in gradients[1:]] if forces else []
        return self._uncertain(made, structures, torch.stack(of_members), torch.stack(of_forces) if forces else None)

    def _beyond_the_data(self, element: Tensor, pairs: Pairs) -> tuple[ClosePairs | None, CrowdedAtoms | None]:
        """Pairs that are too close and atoms that are too crowded; None where there are none."""
        if (repulsion := self.potential.repulsion) is None:
            return None, None
        given = pairs.centre, pairs.neighbour, pairs.vector
        close = repulsion.close(element[pairs.centre], element[pairs.neighbour], pairs.vector)
        return close, None if repulsion.crowding is None else repulsion.crowding.crowded(element, *given)

    def _learnt(
        self, element: Tensor, segments: Tensor, vectors: Tensor, models: Sequence[LocalModel], n_gradients: int
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Energies of atoms by each model, and gradients by the pair vectors of the first ones, float64 on the CPU.

        Everything goes to the device at the beginning and comes back at the end.
        """
        basis = self.basis
        atoms = atoms_of_elements(element, len(basis.elements), basis.device)
        pairs = self._sent(segments, vectors)
        rho = self._projected(atoms, *pairs)
        inside = [rho[at].contiguous() for at in atoms]
        energies, gradients = [], []
        for k, local in enumerate(models):
            energy = torch.zeros(len(element), dtype=torch.float64, device=basis.device)
            slope = torch.zeros_like(rho)
            for e, at in enumerate(atoms):
                energy[at], slope[at] = local(e, inside[e])
            energies.append(energy)
            if k < n_gradients:
                lifted = lift(basis.projections, slope, atoms)
                found = basis.kernels.environments_pullback(basis.arguments, *pairs, lifted)
                gradients.append(found.double())
        return [energy.cpu() for energy in energies], [gradient.cpu() for gradient in gradients]


def _made_ready(potential: Model, device: str, precision: Precision, kernels: str, skin: float) -> Predictor:
    return potential.on(device, precision, kernels, skin=skin)


def _by_vectors(
    by_seen: Tensor, learnt: Tensor, close: ClosePairs | None, crowded: CrowdedAtoms | None, repelled: bool
) -> Tensor:
    """Gradient of the energy by the pair vectors as they are, from that of the learnt part by those that it saw."""
    gradient = by_seen if crowded is None else crowded.faded(by_seen)
    if close is not None:
        gradient = close.gradient(gradient) if repelled else close.seen_gradient(gradient)
    return gradient if crowded is None else gradient + crowded.gradient(learnt, repelled=repelled)


def forces_from(structures: Structures, pairs: Pairs, gradient: Tensor) -> Tensor:
    """Forces from the gradient of the energy by the pair vectors, (atoms, 3)."""
    out = torch.zeros(structures.n_atoms, 3, dtype=torch.float64)
    return out.index_add_(0, pairs.centre, gradient).index_add_(0, pairs.neighbour, gradient, alpha=-1)


def stress_from(structures: Structures, pairs: Pairs, gradient: Tensor) -> Tensor:
    """Derivative of the energy by strain over the volume, symmetric, (structures, 3, 3)."""
    outer = pairs.vector[:, :, None] * gradient[:, None, :]
    virial = torch.zeros(len(structures), 3, 3, dtype=torch.float64)
    virial.index_add_(0, structures.structure_of_atom[pairs.centre], outer)
    return 0.5 * (virial + virial.transpose(1, 2)) / structures.volumes[:, None, None]
