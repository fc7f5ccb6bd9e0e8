"""The contract of the kernels: their arguments besides tensors, and the functions that each back-end offers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, Self

import torch
from torch import Tensor

Angular = Literal["pair", "series"]


class RepresentationArguments(Protocol):
    """Parameters of a representation for a number of elements, with all tensors that its kernels need."""

    kind: ClassVar[str]  # by which each back-end finds its kernels

    @property
    def n_elements(self) -> int: ...

    @property
    def size(self) -> int:
        """Length of the vector."""
        ...

    @property
    def cutoff(self) -> float:
        """Largest distance of a neighbour that counts, in Å."""
        ...

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Self:
        """These arguments with their tensors on `device` and in `dtype`."""
        ...


@dataclass(frozen=True)
class FCHL19Arguments:
    """Parameters of FCHL19 for a number of elements; the kernels need not know which elements.

    Vector: [two-body of element 0 | … | two-body of element n−1 | one block for each pair of elements p ≤ q],
    a pair block holds n_radial3 × n_angular entries, angular index fastest.
    """

    kind: ClassVar[str] = "fchl19"

    n_elements: int
    n_radial2: int
    n_radial3: int
    angular: Angular  # "pair": cos θ, sin θ; "series": cos nθ, n < n_angular
    n_angular: int
    cutoff: float  # Å
    eta2: float
    eta3: float  # Å⁻²
    decay2: float
    decay3: float
    weight3: float  # the whole constant factor of the three-body part
    cutoff_power: int = 1  # 1: the cosine cutoff; 2: its square, whose derivatives are continuous up to the third

    @property
    def n_element_pairs(self) -> int:
        return self.n_elements * (self.n_elements + 1) // 2

    @property
    def pair_block(self) -> int:
        """Entries of one pair of elements."""
        return self.n_radial3 * self.n_angular

    @property
    def size(self) -> int:
        return self.n_elements * self.n_radial2 + self.n_element_pairs * self.pair_block

    def to(self, device: torch.device | str, dtype: torch.dtype) -> FCHL19Arguments:
        """These arguments: there are no tensors to move."""
        return self


@dataclass(frozen=True)
class DensityArguments:
    """Invariants of the neighbour density for a number of elements.

    Density A[z, n, lm] = Σ_j R_n(r_j) Y_lm(r̂_j) over the neighbours j of element z; moments
    M[k, lm] = Σ_zn mixing[z, n, k] A[z, n, lm]. Invariants of each channel: Σ_m M_lm² of each degree l, then
    Σ G(l₁ l₂ l₃) M M M of each path of `harmonics.paths`, each times its weight.
    Vector: [pair functions of element 0 | … | invariant 0 of all channels | invariant 1 of all channels | …].
    Radial functions are piecewise polynomials of the fifth degree on even intervals from 0 to their cutoff.
    """

    kind: ClassVar[str] = "density"

    density_cutoff: float  # Å
    pair_cutoff: float  # Å, not below that of the density
    l_max: int  # degree of the spherical harmonics
    pair_table: Tensor  # (intervals, 6, n_pair) coefficients of ascending powers
    radial_table: Tensor  # (intervals, 6, n_radial)
    mixing: Tensor  # (elements, n_radial, channels)
    weights: Tensor  # (invariants,) of two moments, or of two and three

    @property
    def cutoff(self) -> float:
        return self.pair_cutoff

    @property
    def n_elements(self) -> int:
        return self.mixing.shape[0]

    @property
    def n_radial(self) -> int:
        return self.mixing.shape[1]

    @property
    def n_channels(self) -> int:
        return self.mixing.shape[2]

    @property
    def n_pair(self) -> int:
        return self.pair_table.shape[2]

    @property
    def n_harmonics(self) -> int:
        return (self.l_max + 1) ** 2

    @property
    def n_invariants(self) -> int:
        return len(self.weights)

    @property
    def pair_size(self) -> int:
        """Entries of the pair functions of all elements."""
        return self.n_elements * self.n_pair

    @property
    def size(self) -> int:
        return self.pair_size + self.n_invariants * self.n_channels

    def to(self, device: torch.device | str, dtype: torch.dtype) -> DensityArguments:
        """These arguments with their tensors on `device` and in `dtype`."""
        names = ("pair_table", "radial_table", "mixing", "weights")
        return replace(self, **{name: getattr(self, name).to(device, dtype) for name in names})


@dataclass(frozen=True)
class FeatureMap:
    """The features of one element: a linear map followed by a cosine.

    u = row_scale ⊙ (H D_n … H D_1 ρ) + phases with entries ±1 in H, or u = matrix ρ + phases;
    z = amplitude · cos u, or amplitude · [cos u | sin u] when paired.
    """

    phases: Tensor  # (frequencies,)
    paired: bool
    signs: Tensor | None = None  # (frequencies / rank, transforms, rank), ±1
    row_scale: Tensor | None = None  # (frequencies,), goes with signs
    matrix: Tensor | None = None  # (frequencies, rank)

    @property
    def rank(self) -> int:
        tensor = self.signs if self.matrix is None else self.matrix
        assert tensor is not None
        return tensor.shape[-1]

    @property
    def n_transforms(self) -> int:
        """Hadamard transforms in a row; 0 for a dense matrix."""
        return 0 if self.signs is None else self.signs.shape[1]

    @property
    def n_frequencies(self) -> int:
        return len(self.phases)

    @property
    def n_features(self) -> int:
        return self.n_frequencies * (1 + self.paired)

    @property
    def amplitude(self) -> float:
        """√(2/N_F), paired or not."""
        return math.sqrt(2.0 / self.n_features)

    def part(self, first: int, last: int) -> FeatureMap:
        """The map of the features from `first` to `last`, with the amplitude of a map of that many."""
        begin, end = first // (1 + self.paired), last // (1 + self.paired)
        return replace(
            self,
            phases=self.phases[begin:end],
            signs=None if self.signs is None else self.signs[begin // self.rank : end // self.rank],
            row_scale=None if self.row_scale is None else self.row_scale[begin:end],
            matrix=None if self.matrix is None else self.matrix[begin:end],
        )

    def to(self, device: torch.device | str, dtype: torch.dtype) -> FeatureMap:
        """This map with its tensors on `device` and in `dtype`."""

        def moved(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.to(device, dtype).contiguous()

        return replace(
            self,
            phases=self.phases.to(device, dtype),
            signs=moved(self.signs),
            row_scale=moved(self.row_scale),
            matrix=moved(self.matrix),
        )


# Energies (structures,), those of atoms (atoms,), forces (atoms, 3) and virials (structures, 3, 3).
Whole = tuple[Tensor, Tensor, Tensor | None, Tensor | None]
# Standard deviations of energies (structures,), of those of atoms (atoms,) and of the components of forces (atoms,).
Uncertainties = tuple[Tensor, Tensor, Tensor | None]


class WholePath(Protocol):
    """Prediction from atoms to energies and forces in one call, which a back-end may offer besides its kernels."""

    @property
    def lists_made(self) -> int: ...

    def predict(
        self,
        offsets: Tensor,
        element: Tensor,
        positions: Tensor,
        cells: Tensor,
        periodic: Tensor,
        *,
        forces: bool,
        virial: bool,
    ) -> Whole: ...

    def predict_uncertain(
        self,
        offsets: Tensor,
        element: Tensor,
        positions: Tensor,
        cells: Tensor,
        periodic: Tensor,
        *,
        forces: bool,
        virial: bool,
    ) -> tuple[Whole, Uncertainties]: ...


@dataclass(frozen=True)
class PredictorModel:
    """A trained potential as a back-end takes it to predict in one call; its tensors are float64 on the CPU."""

    representation: RepresentationArguments
    projections: Tensor  # (elements, size, rank)
    maps: Sequence[FeatureMap]  # of each element
    weights: Sequence[Tensor]  # of each element, (n_features,)
    baseline: Tensor  # (elements,) energies of the lone atoms
    # atomic numbers, and distances (elements, elements) between which the repulsion of close pairs is switched on
    repulsion: tuple[Sequence[int], Tensor, Tensor] | None = None
    # ends of the gaps between distances, (elements, elements) each; both are zero where there is none
    gaps: tuple[Tensor, Tensor] | None = None
    # crowding from which learnt energies fade out: reach (elements, elements), onset, full and strength (elements,)
    crowding: tuple[Tensor, Tensor, Tensor, Tensor] | None = None
    # a committee: deviations of weights (members, elements, first features of a map), members that have forces, and the
    # calibration: scale, noise, power, exponent of size of energies (4,); scale, noise, power of forces (elements, 3)
    committee: tuple[Tensor, int, Tensor, Tensor] | None = None


class Sums(Protocol):
    """Functions of an iteration, with products and sums in float64 or as good; float64 goes in and comes out."""

    def energy_and_slope(self, f: FeatureMap, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]: ...

    def feature_moment(
        self, f: FeatureMap, x: Tensor, coefficients: Tensor | None, tangents: Tensor | None
    ) -> Tensor: ...

    def tangent_products(self, tangents: Tensor, owner: Tensor, x: Tensor) -> Tensor: ...

    def tangent_sums(
        self, tangents: Tensor, owner: Tensor, coefficients: Tensor, n_owners: int, dtype: torch.dtype | None = None
    ) -> Tensor: ...


class Kernels(Sums, Protocol):
    """Functions that every back-end offers; the reference says what each of them means."""

    @property
    def NAME(self) -> str: ...

    @property
    def KINDS(self) -> Collection[str]:
        """Kinds of representation that it computes."""
        ...

    @property
    def predictor(self) -> Callable[[PredictorModel, torch.dtype, float], WholePath] | None:
        """Maker of a predictor from a model, a precision and a skin (Å); None: prediction goes kernel by kernel."""
        ...

    def environments(self, p: RepresentationArguments, n_atoms: int, segments: Tensor, vectors: Tensor) -> Tensor: ...

    def environments_pullback(
        self, p: RepresentationArguments, n_atoms: int, segments: Tensor, vectors: Tensor, cotangent: Tensor
    ) -> Tensor: ...

    def environments_jacobian(
        self,
        p: RepresentationArguments,
        n_atoms: int,
        segments: Tensor,
        vectors: Tensor,
        centre_element: Tensor,
        projections: Tensor,
    ) -> Tensor: ...

    def features(self, f: FeatureMap, x: Tensor) -> Tensor: ...

    def energy_rows(self, f: FeatureMap, x: Tensor, row: Tensor, out: Tensor) -> None: ...

    def force_rows(
        self, f: FeatureMap, x: Tensor, tangents: Tensor, owner: Tensor, row: Tensor, out: Tensor
    ) -> None: ...
