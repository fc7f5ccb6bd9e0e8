"""Damage to files: flipped bits, cuts, strange numbers and strange headers, all drawn by a seed."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from altered_files import alter

Damage = Callable[[Path, random.Random], None]

STRANGE: list[Any] = [
    None, True, False, 0, -1, 1, 2, 10**6, 10**12, 2**63, 10**30, -0.5, 1e-300, 1e300, float("nan"), float("inf"), "",
    "x", "\x1b[31mred", "a" * 10000, "/etc/passwd", [], [0], [[]], {}, {"a": 1}, json.loads("[" * 300 + "]" * 300),
]  # fmt: skip
WORDS = [
    "nan", "inf", "-inf", "1e200", "1e-300", "-1", "0", "999999999999", "1e9", "", "x", "1.2.3", "é", "\x00", "9" * 400,
    "T", "H", "Xx", "forces:R:999999", "Lattice=\"1e-3 0 0 0 1e-3 0 0 0 1e-3\"", "Lattice=\"10 0 0 10 1e-5 0 0 0 10\"",
    "pbc=\"T T T\"", "\n", "\n\n", "\r", "1e200 0 0",
]  # fmt: skip


def flip_a_bit(path: Path, chance: random.Random) -> None:
    raw = bytearray(path.read_bytes())
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)


def flip_a_bit_near_the_start(path: Path, chance: random.Random) -> None:
    raw = bytearray(path.read_bytes())
    raw[chance.randrange(min(4096, len(raw)))] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)


def overwrite_a_run(path: Path, chance: random.Random) -> None:
    raw = bytearray(path.read_bytes())
    at, n = chance.randrange(len(raw)), chance.choice([1, 8, 64, 4096])
    raw[at : at + n] = bytes(n) if chance.random() < 0.5 else chance.randbytes(n)
    path.write_bytes(raw)


def cut_the_end(path: Path, chance: random.Random) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[: chance.randrange(len(raw))])


def cut_a_piece(path: Path, chance: random.Random) -> None:
    raw = path.read_bytes()
    at, n = chance.randrange(len(raw)), chance.choice([1, 8, 64, 4096])
    path.write_bytes(raw[:at] + raw[at + n :])


def repeat_a_piece(path: Path, chance: random.Random) -> None:
    raw = path.read_bytes()
    at, n = chance.randrange(len(raw)), chance.choice([1, 8, 64, 4096])
    path.write_bytes(raw[: at + n] + raw[at:])


def append_garbage(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes() + chance.randbytes(chance.choice([1, 8, 1000])))


def change_a_header_entry(path: Path, chance: random.Random) -> None:
    """Another value in our JSON header; other files have none and lose a bit instead."""
    if path.suffix not in (".safetensors", ".eq", ".checkpoint"):
        flip_a_bit(path, chance)
        return
    alter(path, lambda header: _change(header, chance), checksum="kept")


def _change(node: Any, chance: random.Random) -> None:
    keys = list(node) if isinstance(node, dict) else range(len(node))
    key = chance.choice(list(keys))
    if isinstance(node[key], (dict, list)) and node[key] and chance.random() < 0.8:
        _change(node[key], chance)
    elif isinstance(node, dict) and chance.random() < 0.1:
        del node[key]
    else:
        node[key] = chance.choice(STRANGE)


def change_a_word(path: Path, chance: random.Random) -> None:
    text = path.read_text()
    words = list(re.finditer(r"\S+", text))
    for word in sorted(chance.sample(words, chance.choice([1, 1, 1, 3])), key=lambda word: -word.start()):
        text = text[: word.start()] + chance.choice(WORDS) + text[word.end() :]
    path.write_text(text)


def change_the_first_lines(path: Path, chance: random.Random) -> None:
    """Counts, lattices and column names stand there."""
    lines = path.read_text().split("\n")
    at = chance.randrange(min(2, len(lines)))
    words = list(re.finditer(r'[^\s"=:]+', lines[at]))
    if words:
        word = chance.choice(words)
        lines[at] = lines[at][: word.start()] + chance.choice(WORDS) + lines[at][word.end() :]
    path.write_text("\n".join(lines))


def drop_a_line(path: Path, chance: random.Random) -> None:
    lines = path.read_text().split("\n")
    del lines[chance.randrange(len(lines))]
    path.write_text("\n".join(lines))


HEADERS: list[Damage] = [change_a_header_entry, cut_the_end, cut_a_piece]
BYTES: list[Damage] = [
    flip_a_bit, flip_a_bit, flip_a_bit_near_the_start, overwrite_a_run, cut_the_end, cut_a_piece, repeat_a_piece,
    append_garbage, change_a_header_entry, change_a_header_entry,
]  # fmt: skip
TEXT: list[Damage] = [
    flip_a_bit, overwrite_a_run, cut_the_end, cut_a_piece, repeat_a_piece, change_a_word, change_a_word,
    change_the_first_lines, change_the_first_lines, drop_a_line,
]  # fmt: skip
