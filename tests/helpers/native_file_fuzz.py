"""Damaged model files for the reader in the native library; run as a program, it reads them one after the other.

`python native_file_fuzz.py model.safetensors seed count` prints how many files were refused, with the last one begun on
a line of its own if the reader ends the process.
"""

from __future__ import annotations

import json
import random
import struct
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from qml_lightning.errors import QMLError
from qml_lightning.kernels.native.predictor import NativePredictor

NASTY: list[Any] = [None, True, -1, 0, 1, 3, 2**31, 2**53, 2**63, 10**300, 1e308, float("nan"), float("inf"), "",
                    "é\u0000", [], {}, [[]], [-1, 2], [0, 2**62], "sorf", "F64", "F16", "fchl19"]  # fmt: skip
TOKENS = [
    b"[" * 200,
    b'{"a":' * 200,
    b"\xff",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"\\u12",
    b"1e999",
    b"-",
    b"00",
    b"NaN",
    b"\0",
    b"}",
]


def split(raw: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def joined(entries: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value inside."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in [(value, key), *places(value[key])]]


def change_one(draw: random.Random, value: Any) -> None:
    holder, key = draw.choice(places(value))
    if isinstance(holder, dict) and draw.random() < 0.2:
        del holder[key]
    else:
        holder[key] = draw.choice(NASTY)


def damaged(raw: bytes, draw: random.Random) -> bytes:
    """The file with one kind of damage. Half of them have no checksum: their content must be judged."""
    entries, data = split(raw)
    metadata = entries["__metadata__"]
    header = json.loads(metadata["qml-lightning"])
    if draw.random() < 0.8:
        metadata.pop("sha256", None)
        header.pop("checksum", None)
    kind = draw.randrange(6)
    if kind == 0:
        change_one(draw, header)
    elif kind == 1:
        change_one(draw, entries)
        if not isinstance(entries.get("__metadata__"), dict):
            return joined(entries, data)
        metadata = entries["__metadata__"]
    metadata["qml-lightning"] = json.dumps(header)
    out = bytearray(joined(entries, data))
    if kind == 2:
        return bytes(out[: draw.randrange(len(out))])
    if kind == 3:
        out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
    elif kind == 4:
        out[:8] = struct.pack("<Q", draw.choice([0, 1, len(out), 2**31, 2**62, 2**64 - 1]))
    elif kind == 5:
        at = draw.randrange(8, len(out) - len(data))
        out[at : at + draw.choice([0, 1, 5])] = draw.choice(TOKENS)
    return bytes(out)


def main() -> None:
    raw, draw, count = Path(sys.argv[1]).read_bytes(), random.Random(int(sys.argv[2])), int(sys.argv[3])
    refused = 0
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        for _ in range(count):
            path.write_bytes(damaged(raw, draw))
            try:
                NativePredictor.load(path)
            except QMLError as error:
                refused += bool(str(error))
    print(refused)


if __name__ == "__main__":
    main()
