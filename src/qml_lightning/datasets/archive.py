"""Arrays of a .npz file: sizes are checked before anything is read, and nothing is unpickled."""

from __future__ import annotations

import contextlib
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import InputError
from ..machine.memory import GIB, available_memory, short_of_memory

NPY = b"\x93NUMPY"
PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
DEFLATE_MOST = 1040  # deflate cannot shrink bytes more than this
# Measured numbers shrink to a half at best. An array that is larger than this and shrinks more is no data.
LARGE, SHRINKS = GIB // 4, 200


@dataclass(frozen=True)
class Header:
    """Shape and kind of numbers of one array, as its header says."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize  # Python's integers do not overflow


class Archive:
    """Arrays of a .npz file, each read once. Errors say what is wrong with the file."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        with open(path, "rb") as file:
            _refuse_other_formats(file.read(8), self.name)
        with self._explained():
            self._file = zipfile.ZipFile(path)
            self._members = {info.filename.removesuffix(".npy"): info for info in self._file.infolist()}
        self.keys = tuple(self._members)
        self._headers: dict[str, Header] = {}
        self._read: dict[str, np.ndarray] = {}

    def __getitem__(self, key: str) -> np.ndarray:
        if key not in self._read:
            self._check_size(key)
            with self._explained(key), self._file.open(self._members[key]) as member:
                self._read[key] = np.lib.format.read_array(member, allow_pickle=False)
        return self._read[key]

    def header(self, key: str) -> Header:
        """Shape and kind of an array, without reading it."""
        if key not in self._headers:
            with self._explained(key), self._file.open(self._members[key]) as member:
                version = np.lib.format.read_magic(member)
                if version not in ((1, 0), (2, 0)):
                    raise ValueError(f"version {version} of its header is unknown")
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(member)
                header, start = Header(shape, dtype), member.tell()
            if dtype.hasobject:
                raise InputError(
                    f"The array {key!r} of {self.name} is pickled. Pickles could run code and are not read. Save plain "
                    "arrays instead."
                )
            declared = self._members[key].file_size
            if any(n < 0 for n in shape) or start + header.n_bytes != declared:
                raise InputError(
                    f"{self.name} is damaged: the header of {key!r} says {shape} of {dtype}, which is not the size of "
                    f"its data ({declared - start:,} bytes). Copy it again."
                )
            self._headers[key] = header
        return self._headers[key]

    def _check_size(self, key: str) -> None:
        """Refuse an array that cannot be data, or does not fit in memory."""
        needed, packed = self.header(key).n_bytes, self._members[key].compress_size
        if needed > DEFLATE_MOST * (packed + 1000) or (needed > LARGE and needed > SHRINKS * packed):
            raise InputError(
                f"{self.name}: {key!r} says {needed / GIB:.1f} GiB in {packed:,} bytes of the file. Measured numbers "
                "do not shrink like that: the file is damaged, or made to fill the memory."
            )
        free = available_memory()
        if 2 * needed > free:  # as it is, and in float64
            raise short_of_memory(2 * needed, free, f"Reading {key!r} of {self.name}", "Use a file with fewer frames.")

    def first(self, names: Iterable[str]) -> str | None:
        """First of these keys that the file has; None if it has none."""
        return next((name for name in names if name in self.keys), None)

    def text(self, names: Iterable[str]) -> str:
        """String under the first of these keys that the file has; empty if there is none."""
        key = self.first(names)
        if key is None or math.prod(self.header(key).shape) != 1 or self.header(key).dtype.kind not in "US":
            return ""
        value = self[key].item()
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def close(self) -> None:
        self._file.close()

    @contextlib.contextmanager
    def _explained(self, key: str = "") -> Iterator[None]:
        where = f"{self.name}, array {key!r}," if key else self.name
        try:
            yield
        except InputError:
            raise
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise InputError(f"{where} is incomplete or not a .npz file ({error}). Copy it again.") from error
        except (ValueError, TypeError, SyntaxError, tokenize.TokenError, struct.error, OverflowError) as error:
            reason = (str(error) or type(error).__name__).splitlines()[0][:200]
            raise InputError(f"{where} cannot be read ({reason}). Copy it again.") from error


def _refuse_other_formats(start: bytes, name: str) -> None:
    if start.startswith(NPY[: len(start)]) and start:
        raise InputError(f"{name} holds one array without a name. Save the data set with numpy.savez.")
    if start.startswith(PICKLES):
        raise InputError(f"{name} is a pickle. Pickles could run code and are not read. Save plain arrays instead.")
    if not start.startswith(b"PK"):
        raise InputError(f"{name} is incomplete or not a .npz file: it begins with {start!r}. Copy it again.")
