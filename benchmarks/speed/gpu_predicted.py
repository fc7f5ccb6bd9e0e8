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
N_FEATURES, CUTOFF = 16384, 6.0  # paired features; Å
FCHL19, DENSITY = "FCHL19", "density"
RANK = {FCHL19: 128, DENSITY: 256}
SIZE = {FCHL19: 312, DENSITY: 798}  # entries of the representation of H, C and O
ATOMS = {FCHL19: 8, DENSITY: 4}  # of a program of the features
NEAR, ROWS = 16, 32  # neighbours of a block, rows of a tile of the projected Jacobian
GRAM_PRODUCTS = {True: 1, False: 6}  # float64 at once, or six products in float32 (linear/compensated)
TRAINING = "training on 1000 ethanol"
HALF = 0.5  # of the peak: assumed of real kernels and matrix products, and known of none


def cells(options: Options) -> list[Cell]:
    cards, systems = (("RTX 3080",), ("1000 ethanol",)) if options.quick else (tuple(CARDS), (*SYSTEMS, TRAINING))
    return [
        {"card": card, "system": name, "representation": representation, "n_features": N_FEATURES}
        for card in cards
        for name in systems
        for representation in ((FCHL19,) if options.quick or name == TRAINING else (FCHL19, DENSITY))
    ]


@lru_cache
def kernels(architecture: int, part: str) -> dict[str, dict[str, Any]]:
    """Compiled kernels of the paper's method by name; `_rows` of forces comes after that of energies."""
    return {one["name"]: one for one in compiled_apart(architecture, part)}


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    card, training, representation = CARDS[cell["card"]], cell["system"] == TRAINING, cell["representation"]
    structures = system("1000 ethanol" if training else cell["system"])
    turns, n_bytes = _turns(structures, representation, training=training)
    part = "paper" if training else "density" if representation == DENSITY else "prediction"
    every = kernels(card.architecture, part)
    used = {name: every[name] for name in turns}
    seconds = {name: _seconds(card, one, turns[name], n_bytes[name]) for name, one in used.items()}
    flops = 4.0 * structures.n_atoms * SIZE[representation] * RANK[representation]
    seconds["projection"] = flops / card.float32_flops
    if training:
        seconds |= _algebra(card, structures)
    return {
        "predicted": True,
        "seconds_at_the_peak": seconds,
        "atoms": structures.n_atoms,
        "occupancy": {kernel: card.occupancy(one["registers"], one["warps"]) for kernel, one in used.items()},
        "predicted_us_per_atom": sum(seconds.values()) / structures.n_atoms / HALF * 1e6,
        "predicted_seconds": sum(seconds.values()) / HALF,
    }  # fmt: skip


def _turns(
    structures: Structures, representation: str, *, training: bool
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """How often the code at each depth of loops is run in all, and the bytes that each kernel must move."""
    counts = neighbours_by_element(structures, CUTOFF).double()  # (atoms, elements)
    atoms, elements = counts.shape
    rank, size, at_once = RANK[representation], SIZE[representation], ATOMS[representation]
    pairs, programs, tiles = float(counts.sum()), math.ceil(atoms / at_once), N_FEATURES // 2 // rank
    turns: dict[str, list[float]] = {"_energy_and_slope": [programs, programs * tiles]}
    n_bytes = {"_energy_and_slope": 4.0 * (2 * atoms * rank + programs * N_FEATURES)}
    if representation == DENSITY:
        turns |= {name: [atoms, atoms * elements, pairs] for name in ("_values", "_pullback")}
        return turns, n_bytes | {"_values": 12 * pairs + 4 * atoms * size, "_pullback": 24 * pairs + 4 * atoms * size}
    blocks = (counts / NEAR).ceil()
    # each neighbour meets those of later elements, and half of its own
    later = torch.stack([blocks[:, e:].sum(1) - 0.5 * blocks[:, e] for e in range(elements)], 1)
    triples = float((counts.sum(1) * blocks.sum(1)).sum())
    turns["_values2"] = [atoms * elements, float(blocks.sum())]
    turns["_values3"] = [atoms * elements**2, pairs * (elements + 1) / 2, float((counts * later).sum())]
    n_bytes |= {"_values2": 12 * pairs, "_values3": 12 * pairs + 4 * atoms * size}
    if not training:
        turns["_pullback"] = [pairs, pairs * elements, triples]
        return turns, n_bytes | {"_pullback": 24 * pairs + 4 * atoms * size}
    del turns["_energy_and_slope"]
    rows, tangents = 3.0 * atoms, 3.0 * (pairs + atoms)
    of_product = math.ceil(3 * pairs / ROWS) * rank / 64
    turns["_jacobian"] = [pairs, pairs * elements, triples]
    turns["_projected"] = [of_product, of_product * elements, of_product * size / 32]
    turns["_rows"] = [rows * tiles, math.ceil(tangents / at_once) * tiles]
    n_bytes |= {"_jacobian": 12 * pairs * size, "_projected": 12 * pairs * (size + rank)}
    return turns, n_bytes | {"_rows": 16 * rows * N_FEATURES}


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
    there = {
        tuple(entry[CELL][key] for key in ("card", "system", "representation")): entry for entry in succeeded(entries)
    }
    cards = [card for card in CARDS if any(key[0] == card for key in there)]
    rows = []
    for name, representation in dict.fromkeys(key[1:] for key in there):
        if name == TRAINING:
            figure, unit = "predicted_seconds", "s"
            paper = PUBLISHED["training"]["models"]["paper, SORF-16384, RTX 3080, single"]["ethanol"]
        else:
            figure, unit = "predicted_us_per_atom", "µs per atom"
            paper = PUBLISHED["prediction"]["systems"][name][str(N_FEATURES)]
        known = (there.get((card, name, representation)) for card in cards)
        values = ["–" if entry is None else digits(entry[figure]) for entry in known]
        rows.append([f"{name}, {representation}, {unit}", *values, f"{paper:g}"])
    return table(["", *(f"**predicted**, {card}" for card in cards), "the paper, FCHL19, measured, RTX 3080"], rows)


GPU_PREDICTED = Benchmark(
    name="gpu_predicted",
    title="Times on GPUs, predicted and not measured",
    text="**No GPU was there: every time of ours in this table is predicted.** Instructions are counted in compiled "
    "machine code, loop by loop, and multiplied by how often each loop turns for the neighbours of the system. A "
    "kernel takes the longest of three times: issuing its instructions, its float64 units, and moving its data, each "
    f"at the peak that the maker states. The table has twice the sum: {HALF:.0%} of the peaks is assumed. Lists of "
    "neighbours are not in it. FCHL19 with the paper's parameters and rank 128, the density "
    "with its own and rank 256, 16384 paired features, float32.",
    cells=cells,
    measure=measure,
    tables=tables,
    needs=NEEDS,
    packages=("triton",),
)  # fmt: skip
