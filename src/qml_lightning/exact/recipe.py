"""Recipe of a fit with explicit kernels: all its settings as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch

from ..errors import InputError
from ..kernels import RepresentationArguments
from ..model.field_checks import check_fields
from ..model.recipe import DEFAULT, check_weights
from ..model.representations import DEFAULT as DEFAULT_REPRESENTATION
from ..model.representations import Representation, representation_as_dict, representation_from_dict

METHODS = ("oqml", "gpr")


@dataclass(frozen=True)
class ExactRecipe:
    """Settings of a fit with explicit kernels.

    k(q, q′) = exp(−|q − q′|² / 2σ²) between environments of one element, 0 between elements. A field with the name of
    a field of `Recipe` means the same: random features tend to GPR as their number grows.
    """

    method: Literal["oqml", "gpr"] = "gpr"
    representation: Representation = DEFAULT_REPRESENTATION
    rank: int | None = None  # axes kept of each element's environments; None: the representation as it is
    sigma: float = DEFAULT.features.sigma
    ridge: float = DEFAULT.ridge  # GPR: variance of the noise of a target of weight 1
    threshold: float = 1e-11  # OQML: singular values below this part of the largest one are left out
    energy_weight: float = 3.0  # as in benchmarks/studies/exact.py
    force_weight: float = DEFAULT.force_weight
    stress_weight: float = DEFAULT.stress_weight
    size_exponent: float = DEFAULT.size_exponent
    projection_samples: int = DEFAULT.projection_samples
    seed: int = 0  # of the sample of environments that determines the axes, and of a random representation

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64  # float32 has too few digits for a kernel matrix with a ridge of 1e-10

    def arguments(self, n_elements: int) -> RepresentationArguments:
        """Arguments of the representation's kernels; what is random in them is drawn from the seed each time."""
        return self.representation.arguments(n_elements, self.representation.draw(n_elements, self.seed))

    def check(self) -> None:
        """Raise an InputError if a field is out of range."""
        check_fields(self, projection_samples=1, seed=0)
        if self.method not in METHODS:
            raise InputError(f"An exact method is {' or '.join(METHODS)}, got {self.method!r}.")
        if not self.sigma > 0:
            raise InputError(f"The kernel width sigma must be positive, got {self.sigma}.")
        if self.rank is not None and self.rank < 1:
            raise InputError(f"The rank must be positive, got {self.rank}. Leave it out to keep the representation.")
        if not self.ridge >= 0:
            raise InputError(f"The ridge must not be negative, got {self.ridge}.")
        if not 0 <= self.threshold < 1:
            raise InputError(
                f"The threshold is a part of the largest singular value, from 0 to 1, got {self.threshold}. Use 1e-11."
            )
        check_weights(self.energy_weight, self.force_weight, self.stress_weight)

    def as_dict(self) -> dict[str, Any]:
        """All fields, for a JSON header."""
        return asdict(self) | {"representation": representation_as_dict(self.representation)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ExactRecipe:
        """The recipe that `as_dict` wrote."""
        return cls(**{**values, "representation": representation_from_dict(values["representation"])})


GPR = ExactRecipe("gpr")
OQML = replace(GPR, method="oqml")
