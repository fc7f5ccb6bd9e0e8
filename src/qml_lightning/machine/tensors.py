"""Files of tensors: safetensors with one JSON header. Reading one executes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import InputError, ModelError
from .files import atomic

DTYPES = {torch.float64: "F64", torch.int64: "I64", torch.float32: "F32", torch.int8: "I8"}


def write_tensors(
    path: str | Path, name: str, header: Mapping[str, Any], tensors: Mapping[str, Tensor], *, overwrite: bool = False
) -> None:
    """Write `tensors`, atomically and one by one, with `header` as JSON under `name`."""
    # wide numbers first, so that each tensor begins at a multiple of its width
    order = sorted(tensors, key=lambda key: -tensors[key].element_size())
    # safetensors metadata maps text to text: one entry with one JSON document
    entries: dict[str, Any] = {"__metadata__": {name: json.dumps(header, ensure_ascii=False)}}
    end = 0
    for key in order:
        tensor = tensors[key]
        begin, end = end, end + tensor.numel() * tensor.element_size()
        entries[key] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(entries, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with atomic(path, overwrite=overwrite) as temporary, open(temporary, "wb", buffering=0) as file:
        _write(file, len(text).to_bytes(8, "little") + text)
        for key in order:
            _write(file, tensors[key].detach().cpu().contiguous().numpy().reshape(-1).view("u1").data)


def _write(file: Any, data: bytes | memoryview) -> None:
    """Write all of `data`: one call writes 2 GiB at most, and less when the disk is nearly full."""
    view = memoryview(data)
    while len(view):
        view = view[file.write(view) :]


@contextmanager
def open_tensors(path: str | Path, name: str, version: int, what: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Header under `name`, with its version checked, and the open safetensors file; `what` names the kind of file."""
    if not Path(path).is_file():
        raise InputError(f"There is no {what} file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if name not in metadata:
                holds = "; it holds " + ", ".join(metadata) if metadata else ""
                raise ModelError(f"{path} is a safetensors file, but not a qml-lightning {what} file{holds}.")
            header = json.loads(metadata[name])
            if (found := header.get("format_version", 0)) > version:
                raise ModelError(
                    f"{path} has format version {found}; this package reads up to {version}. "
                    "Update it: pip install -U qml-lightning."
                )
            yield header, file
    except InputError:
        raise
    except (SafetensorError, ValueError, OSError) as problem:
        raise ModelError(f"{path} is not a complete safetensors file ({problem}). Was it truncated?") from problem
    except (KeyError, TypeError, IndexError, AttributeError) as problem:
        raise ModelError(
            f"{path} is a qml-lightning {what} file with a part missing or altered ({problem})."
        ) from problem
