"""A committee: weights drawn from the posterior of a model, which tell how uncertain its predictions are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..linear.posterior import Calibration
from ..machine.transfers import sent

NO_COMMITTEE = "This model has no committee, so its uncertainty is not known. Train it with --committee 8."
# Features of each map that members have, the first ones. Ethanol, 200 structures, 2048 features: the exact posterior
# variance of all features has a rank correlation with the errors of force components of 0.478, that of 1024 features
# 0.475, of 512 0.468, of 256 0.453.
COMMITTEE_FEATURES = 1024
# Models with up to so many features have fewer, or a prediction with uncertainties would take more than twice as long.
SMALL_MODEL, FEW_COMMITTEE_FEATURES = 2048, 512
# Members whose forces are computed: each takes a pullback through the representation. The three components of a force
# share one uncertainty, so that two members are six numbers.
FORCE_MEMBERS = 2


@dataclass(frozen=True)
class Committee:
    """Deviations of weights from those of the model, and the units of their variances."""

    deviations: Tensor  # (members, weights) of a map with the first `n_features` features, in its own amplitude
    n_features: int  # of each map
    force_members: int  # those whose forces are computed, the first ones
    size_exponent: float = 0.0  # the noise of an energy grows with the number of atoms to this power
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)  # of "energies" and "forces"
    of_elements: Mapping[int, Calibration] = field(default_factory=dict)  # of forces, by atomic number; some or none

    def __len__(self) -> int:
        return len(self.deviations)

    def header(self) -> dict[str, Any]:
        """Entries of the header of a model file."""
        of_kinds = {kind: asdict(calibration) for kind, calibration in self.calibrations.items()}
        about: dict[str, Any] = {
            "members": len(self),
            "force_members": self.force_members,
            "n_features": self.n_features,
        }
        about |= {"size_exponent": self.size_exponent, "calibrations": of_kinds}
        return {**about, "of_elements": {str(z): asdict(one) for z, one in self.of_elements.items()}}

    @classmethod
    def from_header(cls, header: Mapping[str, Any], deviations: Tensor) -> Committee:
        """The committee of a model file."""
        calibrations = {kind: _calibration(values) for kind, values in header["calibrations"].items()}
        # older files have one for all elements
        of_elements = {int(z): _calibration(values) for z, values in header.get("of_elements", {}).items()}
        exponent = float(header["size_exponent"])
        return cls(deviations, header["n_features"], header["force_members"], exponent, calibrations, of_elements)

    def of_energies(self, members: Tensor, counts: Tensor) -> Tensor:
        """Standard deviations of energies from those of members, (members, structures) → (structures,) in eV."""
        calibration, variance = self.calibrations["energies"], members.square().mean(0)
        if not self.size_exponent:
            return calibration.deviation(variance)
        size = counts.double() ** self.size_exponent
        return size * calibration.deviation(variance / size**2)

    def of_atom_energies(self, members: Tensor) -> Tensor:
        """Standard deviations of atomic energies, (members, atoms) → (atoms,) in eV, without noise of labels."""
        length: Tensor = torch.linalg.vector_norm(members, dim=0)
        return length * (self.calibrations["energies"].scale / math.sqrt(len(members)))

    def of_forces(self, members: Tensor, numbers: Tensor) -> Tensor:
        """Standard deviation of each component of a force, (members, atoms, 3) → (atoms,) in eV/Å.

        `numbers`: atomic numbers of the atoms. An element without a calibration of its own has that of all.
        """
        scale, noise, power = sent(self._of_numbers, members.device)[:, numbers]
        variance = members.square().mean((0, 2))
        return variance.pow_(power).mul_(scale.square()).add_(noise.square()).sqrt_()

    def calibration_of_energies(self) -> Tensor:
        """Scale, noise, power and exponent of size of energies, (4,)."""
        of = self.calibrations["energies"]
        return torch.tensor([of.scale, of.noise, of.power, self.size_exponent], dtype=torch.float64)

    def calibration_of_forces(self, numbers: Iterable[int]) -> Tensor:
        """Scale, noise and power of forces on the elements with these atomic numbers, (elements, 3)."""
        each = [self.of_elements.get(z, self.calibrations["forces"]) for z in numbers]
        return torch.tensor([[one.scale, one.noise, one.power] for one in each], dtype=torch.float64)

    @cached_property
    def _of_numbers(self) -> Tensor:
        """Scale, noise and power of forces by atomic number, (3, 119): few operations for few atoms."""
        return self.calibration_of_forces(range(119)).T.contiguous()


def _calibration(values: Mapping[str, Any]) -> Calibration:
    # older files have no power
    return Calibration(float(values["scale"]), float(values["noise"]), float(values.get("power", 1.0)))


def committee_features(n_features: int, rank: int) -> int:
    """Features of each map that members of a committee have; whole blocks of a map with that rank."""
    few = n_features <= SMALL_MODEL and 2 * rank <= FEW_COMMITTEE_FEATURES
    return min(n_features, FEW_COMMITTEE_FEATURES if few else COMMITTEE_FEATURES)


def committee_columns(n_features: int, of: int, n_weights: int, paired: bool) -> Tensor:
    """Indices of the weights that belong to the first `n_features` of `of` features of each map."""
    each = torch.arange(n_weights).view(-1, 1 + paired, of // (1 + paired))
    return each[:, :, : n_features // (1 + paired)].flatten()
