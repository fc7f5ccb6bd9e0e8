"""The one place where a back-end is chosen: `kernels_for(device, dtype, name)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor

from ..errors import InputError
from .arguments import Angular, FCHL19Arguments, FeatureMap

__all__ = ["BACKENDS", "Angular", "FCHL19Arguments", "FeatureMap", "Kernels", "WholePath", "kernels_for"]


class WholePath(Protocol):
    """From atoms to energies and forces in one call: what a back-end may offer besides its kernels."""

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
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]: ...


class Kernels(Protocol):
    """What every back-end offers; the reference says what each function means."""

    NAME: str
    predictor: Callable[..., WholePath] | None  # None: the path is walked kernel by kernel

    def fchl19(self, p: FCHL19Arguments, n_atoms: int, segments: Tensor, vectors: Tensor) -> Tensor: ...

    def fchl19_pullback(
        self, p: FCHL19Arguments, n_atoms: int, segments: Tensor, vectors: Tensor, cotangent: Tensor
    ) -> Tensor: ...

    def fchl19_jacobian(
        self,
        p: FCHL19Arguments,
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

    def energy_and_slope(self, f: FeatureMap, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]: ...

    def feature_moment(
        self, f: FeatureMap, x: Tensor, coefficients: Tensor | None, tangents: Tensor | None
    ) -> Tensor: ...

    def tangent_products(self, tangents: Tensor, owner: Tensor, x: Tensor) -> Tensor: ...

    def tangent_sums(
        self, tangents: Tensor, owner: Tensor, coefficients: Tensor, n_owners: int, dtype: torch.dtype | None = None
    ) -> Tensor: ...


@dataclass(frozen=True)
class Backend:
    """A row of the table: how to get the kernels, and why not on this machine."""

    name: str
    load: Callable[[], Kernels]
    why_not: Callable[[torch.device, torch.dtype], str | None]  # None: it serves


def _reference() -> Kernels:
    from . import reference

    return cast(Kernels, reference)


def _native() -> Kernels:
    from . import native

    return cast(Kernels, native)


def _why_not_native(device: torch.device, dtype: torch.dtype) -> str | None:
    from . import native

    return native.why_not(device, dtype)


# In order of preference: the first that serves is taken.
BACKENDS: tuple[Backend, ...] = (
    Backend("native", _native, _why_not_native),
    Backend("reference", _reference, lambda device, dtype: None),
)


def kernels_for(device: torch.device | str, dtype: torch.dtype, name: str | None = None) -> Kernels:
    """The kernels for tensors of `dtype` on `device`: those called `name`, or the best that serve.

    A back-end asked for by name is honoured or refused with the reason.
    """
    device = torch.device(device)
    known = {backend.name: backend for backend in BACKENDS}
    if name is not None and name not in known:
        raise InputError(f"There are no kernels called {name!r}. Known are {', '.join(known)}.")
    for backend in [known[name]] if name is not None else BACKENDS:
        reason = backend.why_not(device, dtype)
        if reason is None:
            return backend.load()
        if name is not None:
            raise InputError(f"The {name} kernels do not serve {dtype} on {device}: {reason}")
    raise InputError(f"No kernels serve {dtype} on {device}.")
