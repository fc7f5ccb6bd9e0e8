"""FCHL19: atomic environments as vectors of two- and three-body functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar

from torch import Tensor

from ...errors import InputError
from ...kernels import Angular, FCHL19Arguments
from ..field_checks import check_fields, check_positive


@dataclass(frozen=True)
class FCHL19:
    """Parameters of the representation, as in the paper (docs/conventions.md)."""

    kind: ClassVar[str] = FCHL19Arguments.kind
    # 256 axes instead of 128 make the forces of 3BPA better by 5 % (128 axes lose 9e-6), those of aspirin by 3 %
    # (3e-6), of smaller molecules by 1 to 7 % (less than 1e-6), the energies of QM9 by 4 % (4e-6) (study ranks).
    norm_to_lose: ClassVar[float] = 1e-6
    most_axes: ClassVar[int] = 1024

    cutoff: float = 6.0  # Å, of both body orders
    n_radial2: int = 24
    n_radial3: int = 20
    eta2: float = 0.32
    eta3: float = 2.7  # Å⁻²
    decay2: float = 1.8
    decay3: float = 0.57
    weight3: float = 13.4  # c3 of the paper with "pair"; with "series" it also stands for 2 exp(−ζ²/2)
    zeta: float = math.pi
    angular: Angular = "pair"  # "pair": cos θ and sin θ; "series": cos nθ, n = 0..n_angular − 1
    n_angular: int = 2
    cutoff_power: int = 1  # 1: the paper's cosine; 2: its square, whose derivatives are continuous up to the third

    def __post_init__(self) -> None:
        check_fields(self)
        check_positive(self, "FCHL19", "cutoff", "eta2", "eta3", "zeta")
        if min(self.n_radial2, self.n_radial3) < 0 or self.n_radial2 + self.n_radial3 == 0:
            raise InputError(
                "FCHL19 needs at least one radial function and no negative number, got "
                f"n_radial2 = {self.n_radial2}, n_radial3 = {self.n_radial3}."
            )
        if self.angular not in ("pair", "series"):
            raise InputError(f'The angular part is "pair" or "series", got {self.angular!r}.')
        if self.angular == "pair" and self.n_angular != 2:
            raise InputError(f'The angular pair has 2 functions, got {self.n_angular}. Use angular="series" for more.')
        if self.cutoff_power not in (1, 2):
            raise InputError(f"The cutoff function has the power 1 or 2, got {self.cutoff_power}.")
        if self.n_angular < 1:
            raise InputError(f"The angular series needs at least one function, got {self.n_angular}.")

    def within(self, cutoff: float) -> FCHL19:
        """This representation with another cutoff, in Å; the grids of radial functions follow it."""
        return replace(self, cutoff=cutoff)

    def describe(self) -> str:
        """Parameters in words, for people."""
        radial = f"{self.n_radial2} + {self.n_radial3} radial functions"
        return f"FCHL19, cutoff {self.cutoff:g} Å, {radial}, angular {self.angular} of {self.n_angular}"

    def draw(self, n_elements: int, seed: int, sample: object = None) -> dict[str, Tensor]:
        """No tensors: nothing in FCHL19 is random."""
        return {}

    def shapes(self, n_elements: int) -> dict[str, tuple[int, ...]]:
        """No shapes: there are no tensors."""
        return {}

    def arguments(self, n_elements: int, drawn: Mapping[str, Tensor] = MappingProxyType({})) -> FCHL19Arguments:
        """Arguments of the kernels, for `n_elements` elements."""
        weight3 = self.weight3 * math.sqrt(self.eta3 / math.pi)
        if self.angular == "pair":
            weight3 *= 2.0 * math.exp(-(self.zeta**2) / 2.0)
        taken_over = {name: value for name, value in vars(self).items() if name not in ("weight3", "zeta")}
        return FCHL19Arguments(n_elements=n_elements, weight3=weight3, **taken_over)


# The paper's two parameter sets, and a cosine series, which is better with many features. The series for energies alone
# has the radial functions that a Monte Carlo search found (benchmarks, study monte_carlo).
ENERGIES = FCHL19(n_radial2=23, n_radial3=22, eta2=0.27, eta3=5.6, decay2=2.78, decay3=2.1, weight3=60.1)
ENERGIES_AND_FORCES = FCHL19()
COSINE_SERIES = FCHL19(weight3=0.2, angular="series", n_angular=4)
# Second derivatives, so frequencies of vibrations, do not jump at the cutoff. Forces of aspirin and water are better
# with it, those of ethanol, silicon and copper a tenth worse (benchmarks, study smooth_cutoff): it is not the default.
SMOOTH_SERIES = replace(COSINE_SERIES, cutoff_power=2)
ENERGIES_SERIES = FCHL19(
    n_radial2=23, n_radial3=23, eta2=0.267, eta3=7.07, decay2=2.78, decay3=2.12, weight3=0.462, angular="series",
    n_angular=4,
)  # fmt: skip
PRESETS = {
    "energies": ENERGIES,
    "energies-and-forces": ENERGIES_AND_FORCES,
    "cosine-series": COSINE_SERIES,
    "smooth-series": SMOOTH_SERIES,
    "energies-series": ENERGIES_SERIES,
}
# Short and quick, for checks of data.
SMALL_SERIES = FCHL19(cutoff=5.0, n_radial2=16, n_radial3=10, weight3=0.2, angular="series", n_angular=3)
