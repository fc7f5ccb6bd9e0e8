"""A device that is not there: CPU data in tensors that say they are on it; what mixes them with the host's raises."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from qml_lightning.kernels import Kernels, kernels_for, reference, sums_in_pairs
from qml_lightning.kernels.reference import pairs
from qml_lightning.machine.memory import room_on

NAME = "standin"
_setup_privateuseone_for_python_backend(NAME)
DEVICE = torch.device(NAME, 0)
ROOM = 2**33  # bytes that it has free
# Operators that go from one to the other, and those whose indices may be on the host
TRANSFERS = ("_to_copy", "copy_", "_local_scalar_dense")


class There(torch.Tensor):
    """A tensor on the device."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> There:
        layout = {"strides": inner.stride(), "storage_offset": inner.storage_offset(), "dtype": inner.dtype}
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, layout=inner.layout, device=DEVICE, **layout)

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    def tolist(self) -> Any:
        return self.inner.tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("numpy was asked for a tensor of the device")

    def __repr__(self) -> str:
        return f"There({tuple(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _run(function, args, kwargs or {})


class Device(TorchDispatchMode):
    """New tensors are where they are asked to be."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return _run(function, args, kwargs or {})


def _run(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = function.overloadpacket.__name__
    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    there = [one for one in tensors if isinstance(one, There)]
    if there and name not in TRANSFERS:
        # numbers without a dimension may be anywhere, as on CUDA
        mixed = [tuple(one.shape) for one in tensors if one.dim() > 0 and not isinstance(one, There)]
        if mixed:
            raise RuntimeError(f"{function} takes tensors of the host of shapes {mixed} beside those of the device")
    asked = kwargs.get("device")
    result_there = bool(there) if asked is None else torch.device(asked).type == NAME
    if name == "copy_":
        result_there = isinstance(args[0], There)
    if name == "_local_scalar_dense":
        result_there = False
    known: dict[int, torch.Tensor] = {}

    def plain(x: Any) -> Any:
        if isinstance(x, There):
            known[id(x.inner)] = x
            return x.inner
        return torch.device("cpu") if isinstance(x, torch.device) and x.type == NAME else x

    given, options = tree_map(plain, args), tree_map(plain, kwargs)
    if options.get("pin_memory"):
        options["pin_memory"] = False
    found = function(*given, **options)
    if name == "_to_copy" and any(found is one for one in given):
        found = found.clone()

    def returned(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or id(x) in known:  # in place: the tensor that was given
            return known.get(id(x), x)
        return There(x) if result_there else x

    return tree_map(returned, found)


def _with_tensors(x: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """`x` with its tensors changed, also those inside tuples and data classes."""
    if isinstance(x, torch.Tensor):
        return change(x)
    if isinstance(x, tuple | list):
        return type(x)(_with_tensors(one, change) for one in x)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        made = copy.copy(x)
        for field in dataclasses.fields(x):
            if isinstance(value := getattr(x, field.name), torch.Tensor):
                object.__setattr__(made, field.name, change(value))
        return made
    return x


class KernelsThere:
    """Kernels in plain torch that take tensors of the device alone, and give such tensors."""

    predictor = None

    def __init__(self, of: Any, name: str) -> None:
        self._of, self.NAME, self.KINDS = of, name, getattr(of, "KINDS", {})

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._of, name)

        def inner(tensor: torch.Tensor) -> torch.Tensor:
            if not isinstance(tensor, There):
                raise RuntimeError(f"The kernel {name} was given a tensor of the host, {tuple(tensor.shape)}")
            return tensor.inner

        def called(*given: Any, **options: Any) -> Any:
            with _disable_current_modes():
                found = function(
                    *_with_tensors(given, inner), **{k: _with_tensors(v, inner) for k, v in options.items()}
                )
            return _with_tensors(found, There)

        return called


def stand_in(monkeypatch: Any) -> Device:
    """The device, to be entered: the package finds kernels and memory on it."""

    def kernels_there(device: Any, dtype: torch.dtype, name: str | None = None, kind: str | None = None) -> Kernels:
        if torch.device(device).type == NAME:
            return KernelsThere(reference, "triton")  # type: ignore[return-value]
        return kernels_for(device, dtype, name, kind)

    replaced: dict[Any, Any] = {
        kernels_for: kernels_there,
        sums_in_pairs: lambda kernels: KernelsThere(pairs, "pairs") if isinstance(kernels, KernelsThere) else pairs,
        room_on: lambda device: ROOM if torch.device(device).type == NAME else room_on(device),
    }
    for module in [one for name, one in sys.modules.items() if name.startswith("qml_lightning")]:
        for name, value in list(vars(module).items()):
            if callable(value) and getattr(value, "__hash__", None) and value in replaced:
                monkeypatch.setattr(module, name, replaced[value])
    return Device()
