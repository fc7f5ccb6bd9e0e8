"""Files of tensors with another header, as damage, an older version or a malicious hand would leave them."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

BLOCK = 4 * 1024**2


def alter(path: Path, change: Callable[[dict[str, Any]], object], *, checksum: str = "none") -> None:
    """Change our JSON header in a file. The checksum is left out ("none"), "right" again, or "kept" as it was."""

    def within(entries: dict[str, Any]) -> None:
        metadata = entries["__metadata__"]
        name = next(name for name in metadata if name != "sha256")
        header = json.loads(metadata[name])
        change(header)
        if checksum == "none":
            metadata.pop("sha256", None)
            header.pop("checksum", None)
        metadata[name] = json.dumps(header)

    alter_entries(path, within)
    if checksum == "right":
        write_checksum(path)


def alter_entries(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Rewrite the JSON header of a safetensors file."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    entries = json.loads(raw[8 : 8 + length])
    change(entries)
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])


def write_checksum(path: Path) -> None:
    """The checksum as docs/conventions.md defines it, by plain means."""
    raw = bytearray(path.read_bytes())
    at = raw.index(b'"sha256": "') + len(b'"sha256": "')
    raw[at : at + 64] = b"0" * 64
    parts = [hashlib.sha256(raw[begin : begin + BLOCK]).digest() for begin in range(0, len(raw), BLOCK)]
    raw[at : at + 64] = hashlib.sha256(b"".join(parts)).hexdigest().encode()
    path.write_bytes(raw)
