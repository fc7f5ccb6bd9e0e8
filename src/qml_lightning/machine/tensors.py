"""Files of tensors: safetensors with one JSON header and a checksum. Reading one executes nothing.

The checksum covers every byte of the file: SHA-256 of the SHA-256 of blocks of 4 MiB, in which the digits of the
checksum itself count as zeros. Files of older versions have none and are read all the same.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import InputError, ModelError, ResourceError, SolveError
from .files import atomic, meant_by

DTYPES = {torch.float64: "F64", torch.int64: "I64", torch.float32: "F32", torch.int8: "I8"}
# Entry of the metadata with the digits, and entry of our header which says that they are there: a damaged name of the
# one must not make the file look older.
CHECKSUM = "sha256"
_UNKNOWN = "0" * 64
_OPENING = f'{{"__metadata__": {{"{CHECKSUM}": "'.encode()
_BLOCK = 4 * 1024**2
_MOST_THREADS = 8


def write_tensors(
    path: str | Path, name: str, header: Mapping[str, Any], tensors: Mapping[str, Tensor], *, overwrite: bool = False
) -> None:
    """Write `tensors`, atomically and one by one, with `header` as JSON under `name`.

    A SolveError if a number is not finite: nothing of that kind is ever written.
    """
    for key, tensor in tensors.items():
        if not all_finite(tensor):
            raise SolveError(f"{meant_by(path)} was not written: {key} has numbers that are not finite. {_NOT_FINITE}")
    # wide numbers first, so that each tensor begins at a multiple of its width
    order = sorted(tensors, key=lambda key: -tensors[key].element_size())
    # safetensors metadata maps text to text: one entry with one JSON document
    document = json.dumps({**header, "checksum": CHECKSUM}, ensure_ascii=False)
    entries: dict[str, Any] = {"__metadata__": {CHECKSUM: _UNKNOWN, name: document}}
    end = 0
    for key in order:
        tensor = tensors[key]
        begin, end = end, end + tensor.numel() * tensor.element_size()
        entries[key] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(entries, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with atomic(path, overwrite=overwrite) as temporary, open(temporary, "r+b", buffering=0) as file:
        _write(file, len(text).to_bytes(8, "little") + text)
        for key in order:
            _write(file, tensors[key].detach().cpu().contiguous().numpy().reshape(-1).view("u1").data)
        digits = checksum_of(temporary).encode()
        file.seek(8 + len(_OPENING))
        _write(file, digits)


_NOT_FINITE = "Look for labels that are too large or not a number in the data, or use a larger ridge."


def all_finite(tensor: Tensor) -> bool:
    """Whether no number is NaN or infinite. One sum tells, unless it overflows."""
    if not tensor.is_floating_point():
        return True
    return bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all())


def checksum_of(path: str | Path) -> str:
    """Checksum of a file, from its bytes, with several threads if it is large."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        size, at = len(content), 8 + len(_OPENING)
        first = bytearray(content[:_BLOCK])
        first[at : at + len(_UNKNOWN)] = _UNKNOWN.encode()

        def digest(begin: int) -> bytes:
            with memoryview(content) as view, view[begin : begin + _BLOCK] as block:
                return hashlib.sha256(block if begin else first).digest()

        begins = range(0, size, _BLOCK)
        with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1, len(begins))) as pool:
            parts = pool.map(digest, begins) if len(begins) > 1 else map(digest, begins)
            return hashlib.sha256(b"".join(parts)).hexdigest()


def _write(file: Any, data: bytes | memoryview) -> None:
    """Write all of `data`: one call writes 2 GiB at most, and less when the disk is nearly full."""
    view = memoryview(data)
    while len(view):
        view = view[file.write(view) :]


@contextmanager
def open_tensors(
    path: str | Path, name: str, version: int, what: str, *, checked: bool = True
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Header under `name`, with its version checked, and the open safetensors file; `what` names the kind of file.

    `checked`: compare the checksum with all bytes of the file, if it has one. An error while the file is read, inside
    the block, becomes a ModelError that names the file.
    """
    if not Path(path).is_file():
        raise InputError(f"There is no {what} file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if name not in metadata:
                others = [key for key in metadata if key != CHECKSUM]
                holds = "; it holds " + ", ".join(others) if others else ""
                raise ModelError(f"{path} is a safetensors file, but not a qml-lightning {what} file{holds}.")
            header = json.loads(metadata[name])
            if (found := header.get("format_version", 0)) > version:
                raise ModelError(
                    f"{path} has format version {found}; this package reads up to {version}. "
                    "Update it: pip install -U qml-lightning."
                )
            has_one = CHECKSUM in metadata or "checksum" in header
            if checked and has_one and metadata.get(CHECKSUM) != checksum_of(path):
                raise ModelError(
                    f"{path} is damaged: its content does not have the checksum that was written with it. Restore it "
                    "from a copy, or make it again."
                )
            yield header, file
    except (ModelError, ResourceError):
        raise
    except (SafetensorError, OSError) as problem:
        raise ModelError(
            f"{path} is not a complete safetensors file ({problem}). Was it truncated, or is it a file of data? "
            "Commands take the model first, then data: qml-lightning predict MODEL DATA."
        ) from problem
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError) as problem:
        raise ModelError(
            f"{path} is a qml-lightning {what} file with a part missing or altered ({_words(problem)})."
        ) from problem


def _words(problem: Exception) -> str:
    said = " ".join(str(problem).split())
    return said if len(said) < 300 else f"{said[:300]}…"
