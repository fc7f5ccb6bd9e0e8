"""XYZ files before ASE reads them: declared sizes, an end that was cut, numbers and letters written another way."""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import re
import sys
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ..errors import InputError
from ..machine.memory import GIB, available_memory, short_of_memory
from .archive import LARGE, SHRINKS

OPENERS: dict[str, Callable[..., IO[Any]]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
PROPERTIES = re.compile(rb'Properties\s*=\s*"?([^\s"]+)', re.IGNORECASE)
NUMBER = re.compile(rb"[-+]?\d*\.\d*")
# Bytes of memory that ASE needs for each byte of text, about.
ROOM = 4
TAIL = 16384  # bytes at the end of a file that tell whether it was cut
HEAD = 16384  # and at its beginning that tell how it is written
FORTRAN = re.compile(rb"(?<![\w.])[-+]?\d+\.\d*[dD][-+]?\d+\b")
COMMA = re.compile(rb"(?:^[ \t]*[A-Za-z]{1,2}[ \t]+|energy=\"?)([-+]?\d+,\d+)(?=\s|\"|$)", re.MULTILINE)
CUT = "{} may be cut: it ends without a new line, and its last number, {}, has fewer digits than the others."


def check_xyz(path: Path, frames: int | None = None) -> None:
    """Raise an InputError if a frame declares more atoms or columns than the file holds. Looks at so many frames."""
    opener = OPENERS.get(path.suffix.lower(), open)
    if opener is not open:
        _check_unpacked(path, opener)
    elif frames is None:
        _check_memory(path.stat().st_size, path.name)
        _check_end(path)
    try:
        with opener(path, "rb") as file:
            _check_writing(file.read(HEAD), path.name)
            file.seek(0)
            for frame in itertools.count() if frames is None else range(frames):
                if not _check_frame(file, f"{path.name} cannot be read: frame {frame}"):
                    return
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise InputError(f"{path.name} cannot be read ({error}). It may be incomplete: copy it again.") from error


def _check_frame(file: IO[Any], where: str) -> bool:
    """Whether there was a frame that ASE can read."""
    first = file.readline()
    if not first.strip() or not first.strip().isdigit():
        return False  # the end, or no XYZ file: ASE will say so
    n, comment = int(first), file.readline()
    columns = _columns(comment, where)
    row = file.readline() if n else b""
    if n and len(row.split()) < columns:
        raise InputError(
            f"{where} says {columns:,} columns of numbers (Properties=…), but its first atom has {len(row.split())}."
        )
    last = deque(zip(itertools.count(2), itertools.islice(file, min(max(n - 1, 0), sys.maxsize))), maxlen=1)
    found = last[0][0] if last else bool(row)  # counted by C
    if found < n:
        raise InputError(
            f"{where} says {n:,} atoms, and the file ends after {found:,} of them. It may be incomplete: copy it again."
        )
    return True


def _check_writing(head: bytes, name: str) -> None:
    """Refuse letters and numbers that ASE cannot read, with the command that mends them."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head:
        why, mend = "is written in UTF-16, or is no text", f"iconv -f UTF-16 -t UTF-8 {name} > new.xyz"
    elif head.startswith(b"\xef\xbb\xbf"):
        why, mend = "begins with a byte order mark", f"sed '1s/^\\xEF\\xBB\\xBF//' {name} > new.xyz"
    elif found := FORTRAN.search(head):
        why = f"has Fortran's exponents, such as {found[0].decode()}"
        mend = rf"sed -E 's/([0-9.])[dD]([-+]?[0-9])/\1E\2/g' {name} > new.xyz"
    elif found := COMMA.search(head):
        why = f"has decimal commas, such as {found[1].decode()}"
        mend = rf"sed -E 's/([0-9]),([0-9])/\1.\2/g' {name} > new.xyz"
    else:
        return
    raise InputError(f"{name} {why}, which ASE does not read. Mend it: {mend}")


def _columns(comment: bytes, where: str) -> int:
    """Number of columns that the comment line declares; 0 if it declares none."""
    found = PROPERTIES.search(comment)
    if found is None:
        return 0
    counts = found[1].split(b":")[2::3]
    if not counts or not all(count.isdigit() and int(count) > 0 for count in counts):
        raise InputError(
            f"{where} has Properties={found[1].decode(errors='replace')}. Wanted name:type:columns triples."
        )
    return sum(map(int, counts))


def _check_unpacked(path: Path, opener: Callable[..., IO[Any]]) -> None:
    """Refuse a small file that unpacks to a very large one, and one that does not fit in memory."""
    packed, size = path.stat().st_size, 0
    try:
        with opener(path, "rb") as file:
            while chunk := file.read(1 << 22):
                size += len(chunk)
                if size > LARGE and size > SHRINKS * packed:
                    raise InputError(
                        f"{path.name}: {packed:,} bytes unpack to more than {size / GIB:.1f} GiB. Measured numbers do "
                        "not shrink like that: the file is damaged, or made to fill the memory."
                    )
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise InputError(f"{path.name} cannot be read ({error}). It may be incomplete: copy it again.") from error
    _check_memory(size, path.name)


def _check_memory(size: int, name: str) -> None:
    if ROOM * size > (free := available_memory()):
        raise short_of_memory(ROOM * size, free, f"Reading {name}", "Read a part of it, such as PATH@0:1000.")


def _check_end(path: Path) -> None:
    """Refuse a file whose last number looks cut off, shorter than all others in its column; warn if digits vary."""
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        text = file.read()
    if not text or text.endswith(b"\n"):
        return
    rows = [line.split() for line in text.splitlines()]
    last = rows[-1]
    alike = [row[-1] for row in rows[:-1] if len(row) == len(last)] or last[1:-1]
    digits = [len(token.partition(b".")[2]) for token in alike if NUMBER.fullmatch(token)]
    if not last or not digits or len(digits) != len(alike):
        return
    shown = len(last[-1].partition(b".")[2])
    if shown < min(digits):
        told = CUT.format(path.name, last[-1].decode(errors="replace"))
        if min(digits) == max(digits):
            raise InputError(f"{told} Copy it again, or add the new line if it is whole.")
        warnings.warn(told, stacklevel=5)
