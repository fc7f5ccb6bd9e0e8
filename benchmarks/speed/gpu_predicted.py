"""Times on three GPUs as predicted from compiled code, beside those that the paper measured: no GPU was there."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch

from qml_lightning import Structures

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.gpu import CARDS, Card, compiled_apart
from ..harness.internals import neighbours_by_element
from ..harness.places import PUBLISHED
from ..harness.systems import NEEDS, system
from ..harness.tables import digits, table

SYSTEMS = ("1000 ethanol", "1000 aspirin", "MOF", "water")
N_FEATURES, RANK, SIZE = 16384, 128, 312  # paired features; entries of the representation of H, C and O
CUTOFF = 6.0  # Å, of the paper
ATOMS, NEAR, ROWS = 8, 16, 32  # of a program of the features, neighbours of a block, rows of a projected tile
GRAM_PRODUCTS = {True: 1, False: 6}  # float64 at once, or six products in float32 (linear/compensated)
TRAINING = "training on 1000 ethanol"
HALF = 0.5  # of the peak: assumed of real kernels and matrix products, and known of none


def cells(options: Options) -> list[Cell]:
    cards, systems = (("RTX 3080",), ("1000 ethanol",)) if options.quick else (tuple(CARDS), (*SYSTEMS, TRAINING))
    return [{"card": card, "system": name, "n_features": N_FEATURES} for card in cards for name in systems]


@lru_cache
def kernels(architecture: int) -> dict[str, dict[str, Any]]:
    """Compiled kernels of the paper's method by name; `_rows` of forces comes after that of energies."""
    return {one["name"]: one for one in compiled_apart(architecture, "paper")}


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    card = CARDS[cell["card"]]
    name = "1000 ethanol" if cell["system"] == TRAINING else cell["system"]
    structures = system(name)
    turns, n_bytes = _turns(structures, training=cell["system"] == TRAINING)
    seconds = {
        kernel: _seconds(card, kernels(card.architecture)[kernel], turns[kernel], n_bytes[kernel]) for kernel in turns
    }
    flops = 4.0 * structures.n_atoms * SIZE * RANK
    seconds["projection"] = flops / card.float32_flops
    if cell["system"] == TRAINING:
        seconds |= _algebra(card, structures)
    used = {kernel: kernels(card.architecture)[kernel] for kernel in turns}
    return {
        "predicted": True,
        "seconds_at_the_peak": seconds,
        "atoms": structures.n_atoms,
        "occupancy": {kernel: card.occupancy(one["registers"], one["warps"]) for kernel, one in used.items()},
        "predicted_us_per_atom": sum(seconds.values()) / structures.n_atoms / HALF * 1e6,
        "predicted_seconds": sum(seconds.values()) / HALF,
    }  # fmt: skip


def _turns(structures: Structures, *, training: bool) -> tuple[dict[str, list[float]], dict[str, float]]:
    """How often the code at each depth of loops is run in all, and the bytes that each kernel must move."""
    counts = neighbours_by_element(structures, CUTOFF).double()  # (atoms, elements)
    atoms, elements = counts.shape
    pairs, blocks = float(counts.sum()), (counts / NEAR).ceil()
    programs = math.ceil(atoms / ATOMS)
    tiles = N_FEATURES // 2 // RANK
    # each neighbour meets those of later elements, and half of its own
    later = torch.stack([blocks[:, e:].sum(1) - 0.5 * blocks[:, e] for e in range(elements)], 1)
    turns = {
        "_values2": [atoms * elements, float(blocks.sum())],
        "_values3": [atoms * elements**2, pairs * (elements + 1) / 2, float((counts * later).sum())],
        "_pullback": [pairs, pairs * elements, float((counts.sum(1) * blocks.sum(1)).sum())],
        "_energy_and_slope": [programs, programs * tiles],
    }
    n_bytes = {
        "_values2": 12 * pairs, "_values3": 12 * pairs + 4 * atoms * SIZE, "_pullback": 24 * pairs + 4 * atoms * SIZE,
        "_energy_and_slope": 4.0 * (2 * atoms * RANK + programs * N_FEATURES),
    }  # fmt: skip
    if not training:
        return turns, n_bytes
    rows = 3.0 * atoms
    tangents = 3.0 * (pairs + atoms)
    del turns["_energy_and_slope"], turns["_pullback"]
    triples = float((counts.sum(1) * blocks.sum(1)).sum())
    tiles_of_rows = math.ceil(3 * pairs / ROWS) * RANK / 64
    turns["_jacobian"] = [pairs, pairs * elements, triples]
    turns["_projected"] = [tiles_of_rows, tiles_of_rows * elements, tiles_of_rows * SIZE / 32]
    turns["_rows"] = [rows * tiles, math.ceil(tangents / ATOMS) * tiles]
    n_bytes |= {
        "_jacobian": 12 * pairs * SIZE,
        "_projected": 12 * pairs * (SIZE + RANK),
        "_rows": 16 * rows * N_FEATURES,
    }
    return turns, n_bytes


def _seconds(card: Card, kernel: dict[str, Any], turns: list[float], n_bytes: float) -> float:
    """The longest of issuing all instructions, of the float64 units and of the memory, each at its peak."""

    def total(counts: list[int]) -> float:
        return kernel["warps"] * sum(n * turns[min(depth, len(turns) - 1)] for depth, n in enumerate(counts))

    return max(
        total(kernel["instructions"]) / card.issue_rate,
        total(kernel["float64_instructions"]) / card.float64_rate,
        n_bytes / (1e9 * card.bandwidth),
    )


def _algebra(card: Card, structures: Structures) -> dict[str, float]:
    """Gram matrix on half of its entries, and Cholesky in float64."""
    fast = card.float64_lanes > 2
    rate = card.float64_flops if fast else card.float32_flops
    rows = 3 * structures.n_atoms + len(structures)
    return {
        "Gram matrix": GRAM_PRODUCTS[fast] * rows * N_FEATURES**2 / rate,
        "Cholesky": N_FEATURES**3 / 3 / card.float64_flops,
    }


def tables(entries: list[Entry]) -> str:
    there = {(entry[CELL]["card"], entry[CELL]["system"]): entry for entry in succeeded(entries)}
    cards = [card for card in CARDS if any(key[0] == card for key in there)]
    rows = []
    for name in dict.fromkeys(key[1] for key in there):
        training = name == TRAINING
        figure = "predicted_seconds" if training else "predicted_us_per_atom"
        if training:
            paper = PUBLISHED["training"]["models"]["paper, SORF-16384, RTX 3080, single"]["ethanol"]
        else:
            paper = PUBLISHED["prediction"]["systems"][name][str(N_FEATURES)]
        unit = "s" if training else "µs per atom"
        values = [f"{digits(there[card, name][figure])}" if (card, name) in there else "–" for card in cards]
        rows.append([f"{name}, {unit}", *values, f"{paper:g}"])
    return table(["", *(f"**predicted**, {card}" for card in cards), "measured in the paper, RTX 3080"], rows)


GPU_PREDICTED = Benchmark(
    name="gpu_predicted",
    title="Times on GPUs, predicted and not measured",
    text="**No GPU was there: every time of ours in this table is predicted.** Instructions are counted in compiled "
    "machine code, loop by loop, and multiplied by how often each loop turns for the neighbours of the system. A "
    "kernel takes the longest of three times: issuing its instructions, its float64 units, and moving its data, each "
    f"at the peak that the maker states. The table has twice the sum: {HALF:.0%} of the peaks is assumed. Lists of "
    "neighbours are made on the host and are not in it. FCHL19 with the paper's parameters, 16384 paired features of "
    "rank 128, float32.",
    cells=cells,
    measure=measure,
    tables=tables,
    needs=NEEDS,
    packages=("triton",),
)  # fmt: skip
