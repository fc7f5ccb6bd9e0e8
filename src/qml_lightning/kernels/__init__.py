"""The one place where a back-end is chosen: `kernels_for(device, dtype, name)`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..errors import InputError
from .contract import (
    Angular,
    DensityArguments,
    FCHL19Arguments,
    FeatureMap,
    Kernels,
    PredictorModel,
    RepresentationArguments,
    Sums,
    WholePath,
)  # fmt: skip

__all__ = [
    "BACKENDS", "Angular", "DensityArguments", "FCHL19Arguments", "FeatureMap", "Kernels", "PredictorModel",
    "RepresentationArguments", "Sums", "WholePath", "kernels_for", "sums_in_pairs",
]  # fmt: skip

# Version of Triton whose compiler takes the kernels (3.3 stops with errors), and the compute capability that it serves.
OLDEST_TRITON, OLDEST_CAPABILITY = (3, 4), (7, 5)


@dataclass(frozen=True)
class Backend:
    """A row of the table: how to get the kernels, and why not on this machine."""

    name: str
    load: Callable[[], Kernels]
    why_not: Callable[[torch.device, torch.dtype], str | None]  # None: it serves


def _reference() -> Kernels:
    from . import reference

    return reference


def _native() -> Kernels:
    from . import native

    return native


def _why_not_native(device: torch.device, dtype: torch.dtype) -> str | None:
    from . import native

    return native.why_not(device, dtype)


def _triton() -> Kernels:
    from . import triton

    return triton


def _why_not_triton(device: torch.device, dtype: torch.dtype) -> str | None:
    # the room itself imports Triton, which an installation for the CPU does not have
    if dtype not in (torch.float32, torch.float64):
        return "they compute in float32 and float64."
    if device.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        return "they serve CUDA devices (TRITON_INTERPRET=1 runs them slowly on the CPU, for tests)."
    if device.type not in ("cpu", "cuda") or torch.version.hip is not None:
        return "they are compiled and tested for CUDA devices."
    if device.type == "cuda" and not torch.cuda.is_available():
        return "torch sees no CUDA device."
    if device.type == "cuda" and (there := torch.cuda.get_device_capability(device)) < OLDEST_CAPABILITY:
        return (
            f"Triton compiles for compute capability {_dotted(OLDEST_CAPABILITY)} and later, and this GPU has "
            f"{_dotted(there)}."
        )
    if importlib.util.find_spec("triton") is None:
        return 'Triton is not installed. Use pip install "qml-lightning[gpu]".'
    if (found := importlib.import_module("triton").__version__) and _numbers(found) < OLDEST_TRITON:
        return (
            f"they need Triton {_dotted(OLDEST_TRITON)} or later, and {found} is installed. Use pip install "
            '--upgrade "qml-lightning[gpu]".'
        )
    return None


def _numbers(version: str) -> tuple[int, ...]:
    """(3, 4) of "3.4.0+git1234"."""
    return tuple(int(one) for one in re.findall(r"\d+", version)[:2])


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _why_not_reference(device: torch.device, dtype: torch.dtype) -> str | None:
    return "sums are float64, which MPS does not have." if device.type == "mps" else None


# In order of preference: the first that serves is taken. Native kernels serve the CPU alone, those in Triton CUDA.
BACKENDS: tuple[Backend, ...] = (
    Backend("native", _native, _why_not_native),
    Backend("triton", _triton, _why_not_triton),
    Backend("reference", _reference, _why_not_reference),
)


def kernels_for(
    device: torch.device | str, dtype: torch.dtype, name: str | None = None, kind: str | None = None
) -> Kernels:
    """Kernels for tensors of `dtype` on `device`: those called `name`, or the fastest that can be used.

    A back-end asked for by name is honoured or refused with the reason. With `kind`, it also computes representations
    of that kind.
    """
    device = torch.device(device)
    known = {backend.name: backend for backend in BACKENDS}
    if name is not None and name not in known:
        raise InputError(f"There are no kernels called {name!r}. Known are {', '.join(known)}.")
    for backend in [known[name]] if name is not None else BACKENDS:
        reason = backend.why_not(device, dtype)
        if reason is None:
            kernels = backend.load()
            if kind is None or kind in kernels.KINDS:
                return kernels
            reason = f"they do not compute the representation {kind!r}."
        if name is not None:
            raise InputError(f"The {name} kernels do not serve {dtype} on {device}: {reason}")
    raise InputError(f"No kernels serve {dtype} on {device}: {reason} Use the CPU.")


def sums_in_pairs(kernels: Kernels) -> Sums:
    """Sums of an iteration as pairs of float32 that go with these kernels: in Triton, or in plain torch."""
    if kernels.NAME == "triton":
        from .triton import pairs

        return pairs
    from .reference import pairs as plain

    return plain
