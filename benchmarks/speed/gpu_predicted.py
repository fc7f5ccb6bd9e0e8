"""Times on three GPUs as predicted from compiled code, beside those that the paper measured: no GPU was there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from qml_lightning import Structures, recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.gpu import CARDS, Card, compiled_apart
from ..harness.internals import BLOCK, BLOCKS_OF_REST, SLICES, TILE, neighbours_by_element
from ..harness.places import PUBLISHED
from ..harness.systems import NEEDS, system
from ..harness.tables import digits, table

SYSTEMS = ("1000 ethanol", "1000 aspirin", "MOF", "water")
# Fits: the structures, and whether the equations are solved by the matrix-free iteration.
TRAINING = {
    "training on 1000 ethanol": ("1000 ethanol", False),
    "training on 1000 ethanol by iteration": ("1000 ethanol", True),
    "training on 1000 aspirin": ("1000 aspirin", False),
    "training on 1000 aspirin by iteration": ("1000 aspirin", True),
}
# Systems whose kernels the second table has: every kernel is in one of them.
ROOFS = ("1000 aspirin", "training on 1000 ethanol", "training on 1000 ethanol by iteration")
N_FEATURES, CUTOFF = 16384, 6.0  # paired features; Å
FCHL19, DENSITY = "FCHL19", "density"
REPRESENTATION = {FCHL19: recipes.PAPER.representation, DENSITY: recipes.DEFAULT.representation}
RANK = {FCHL19: 128, DENSITY: 256}
NEAR, ROWS = 32, 32  # neighbours of a block, rows of a tile of the projected Jacobian
GRAM_PRODUCTS = {True: 1, False: 6}  # float64 at once, or six products in float32 (linear/compensated)
# Steps of an iteration as they were for ethanol on a CPU (iteration_costs), and features of its small model.
STEPS, SMALL_FEATURES = 140, 8192
HALF = 0.5  # of the peak: assumed of real kernels and matrix products, and known of none

Turns = dict[str, list[float]]  # how often the code at each depth of loops is run in all, by kernel
Bytes = dict[str, float]  # that each kernel must move


def cells(options: Options) -> list[Cell]:
    cards, systems = (("RTX 3080",), ("1000 ethanol",)) if options.quick else (tuple(CARDS), (*SYSTEMS, *TRAINING))
    return [
        {"card": card, "system": name, "representation": representation, "n_features": N_FEATURES}
        for card in cards
        for name in systems
        for representation in ((FCHL19,) if options.quick else (FCHL19, DENSITY))
    ]


@lru_cache
def kernels(architecture: int, part: str, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Compiled kernels by name; of several with one name the longest, such as `_rows` of forces."""
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(compiled_apart(architecture, part, names), key=lambda one: sum(one["instructions"])):
        found[one["name"]] = one
    return found


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    card, representation = CARDS[cell["card"]], cell["representation"]
    name, iterated = TRAINING.get(cell["system"], (cell["system"], False))
    training = cell["system"] in TRAINING
    structures = system(name)
    environing = Environing.of(structures, representation)
    turns, n_bytes = environing.fit(SMALL_FEATURES if iterated else N_FEATURES) if training else environing.prediction()
    every = kernels(card.architecture, PARTS[representation, training], tuple(turns))
    used = {name: (every[name], turns[name], n_bytes[name]) for name in turns}
    if iterated:
        of_rows = turns["_rows"], n_bytes["_rows"]
        turns, n_bytes = environing.steps(in_pairs=not card.fast_float64)
        every = kernels(card.architecture, PARTS_OF_ITERATION[representation], ("_rows", *turns))
        used["_rows"] = (every["_rows"], *of_rows)  # with tangents of float64
        used |= {name: (every[name], turns[name], n_bytes[name]) for name in turns}
    roofs = {name: _roof(card, *one) for name, one in used.items()}
    seconds = {name: roof["seconds"] for name, roof in roofs.items()}
    seconds["projection"] = 4.0 * environing.atoms * environing.size * environing.rank / card.float32_flops
    if training:
        rows = 3 * structures.n_atoms + len(structures)
        seconds |= _algebra(card, rows, SMALL_FEATURES if iterated else N_FEATURES, STEPS if iterated else 1)
    return {
        "predicted": True,
        "seconds_at_the_peak": seconds,
        "atoms": structures.n_atoms,
        "kernels": roofs,
        "predicted_us_per_atom": sum(seconds.values()) / structures.n_atoms / HALF * 1e6,
        "predicted_seconds": sum(seconds.values()) / HALF,
    }


# Names of tests/helpers/gpu_launches, by representation and whether it is a fit.
PARTS = {
    (FCHL19, False): "prediction", (FCHL19, True): "paper", (DENSITY, False): "density",
    (DENSITY, True): "density training",
}  # fmt: skip
PARTS_OF_ITERATION = {FCHL19: "iteration", DENSITY: "density iteration"}


@dataclass(frozen=True)
class Environing:
    """Numbers of atoms, of their neighbours and of entries: loops of the kernels turn as often."""

    representation: str
    counts: Tensor  # (atoms, elements) neighbours
    size: int
    rank: int

    @classmethod
    def of(cls, structures: Structures, representation: str) -> Environing:
        counts, chosen = neighbours_by_element(structures, CUTOFF).double(), REPRESENTATION[representation]
        size = chosen.arguments(3, chosen.draw(3, 0)).size  # of H, C and O, as the kernels are compiled
        return cls(representation, counts, size, RANK[representation])

    @property
    def atoms(self) -> int:
        return self.counts.shape[0]

    @property
    def pairs(self) -> float:
        return float(self.counts.sum())

    @property
    def tangents(self) -> float:
        return 3.0 * (self.pairs + self.atoms)

    @property
    def at_once(self) -> int:
        """Atoms or tangents of a program of the features."""
        return 1024 // self.rank

    def tiles(self, n_features: int) -> int:
        return n_features // 2 // self.rank

    @property
    def triples(self) -> float:
        """Neighbours times blocks of neighbours."""
        return float((self.counts.sum(1) * (self.counts / NEAR).ceil().sum(1)).sum())

    def values(self) -> tuple[Turns, Bytes]:
        """Representation of all atoms."""
        atoms, elements = self.counts.shape
        out, pairs = 4.0 * atoms * self.size, self.pairs
        if self.representation == DENSITY:
            return {"_values": [atoms, atoms * elements, pairs]}, {"_values": 12 * pairs + out}
        blocks = (self.counts / NEAR).ceil()
        # each neighbour meets those of later elements, and those of its own that come after it
        later = torch.stack([blocks[:, e + 1 :].sum(1) for e in range(elements)], 1)
        whole, rest = (self.counts - 1).clamp(min=0) // NEAR, (self.counts - 1).clamp(min=0) % NEAR
        own = NEAR * whole * (whole + 1) / 2 + rest * (whole + 1)
        three = [atoms * elements**2, pairs * (elements + 1) / 2, float((self.counts * later + own).sum())]
        turns = {"_values2": [atoms * elements, float(blocks.sum())], "_values3": three}
        return turns, {"_values2": 12 * pairs, "_values3": 12 * pairs + out}

    def prediction(self) -> tuple[Turns, Bytes]:
        """Energies and forces."""
        atoms, elements = self.counts.shape
        (turns, n_bytes), programs = self.values(), math.ceil(atoms / self.at_once)
        turns["_energy_and_slope"] = [programs, programs * self.tiles(N_FEATURES)]
        n_bytes["_energy_and_slope"] = 4.0 * (2 * atoms * self.rank + programs * N_FEATURES)
        of_pair = [self.pairs, self.pairs * elements, self.triples]
        turns["_pullback"] = [atoms, atoms * elements, self.pairs] if self.representation == DENSITY else of_pair
        n_bytes["_pullback"] = 24 * self.pairs + 4.0 * atoms * self.size
        return turns, n_bytes

    def fit(self, n_features: int) -> tuple[Turns, Bytes]:
        """Rows of energies and forces with so many features."""
        atoms, elements = self.counts.shape
        (turns, n_bytes), pairs, rows = self.values(), self.pairs, 3.0 * atoms
        if self.representation == DENSITY:
            turns["_moments"], n_bytes["_moments"] = [atoms, atoms * elements, pairs], 12 * pairs
            turns["_jacobian"] = [3 * pairs, 3 * pairs * elements]
        else:
            turns["_jacobian"] = [pairs, pairs * elements, self.triples]
        of_product = math.ceil(3 * pairs / ROWS) * self.rank / 64
        turns["_projected"] = [of_product, of_product * elements, of_product * self.size / 32]
        tiles = self.tiles(n_features)
        turns["_rows"] = [rows * tiles, math.ceil(self.tangents / self.at_once) * tiles]
        dense = 12 * pairs * self.size
        n_bytes |= {"_jacobian": 2 * dense, "_projected": dense + 12 * pairs * self.rank}  # zeros are written first
        return turns, n_bytes | {"_rows": 16 * rows * n_features}

    def steps(self, *, in_pairs: bool) -> tuple[Turns, Bytes]:
        """All steps of an iteration: a product and a transposed one with all features."""
        name = "_pair_{}" if in_pairs else "_{}"
        at_once, rows = (4, 1024 // self.rank) if in_pairs else (self.at_once, 2048 // self.rank)
        programs, tiles = math.ceil(self.atoms / at_once), self.tiles(N_FEATURES)
        of_atom = math.ceil(self.tangents / self.atoms / rows)
        turns = {
            "energy_and_slope": [programs, programs * tiles],
            "moment": [tiles, programs * tiles],
            "products": [math.ceil(self.tangents / rows)],
            "sums": [self.atoms, self.atoms * of_atom],
        }
        vectors = 4.0 * self.atoms * self.rank
        n_bytes = {
            "energy_and_slope": 3 * vectors + 8 * programs * N_FEATURES,
            "moment": tiles * 3 * vectors,
            "products": 4 * self.tangents * self.rank,
            "sums": 4 * self.tangents * self.rank,
        }
        return (
            {name.format(kernel): [STEPS * n for n in numbers] for kernel, numbers in turns.items()},
            {name.format(kernel): STEPS * n for kernel, n in n_bytes.items()},
        )


def _roof(card: Card, kernel: dict[str, Any], turns: list[float], n_bytes: float) -> dict[str, Any]:
    """Time of a kernel at the peaks: the longest of issuing all instructions, of each unit, and of the memory."""

    def total(counts: list[int]) -> float:
        return kernel["warps"] * sum(n * turns[min(depth, len(turns) - 1)] for depth, n in enumerate(counts))

    times = {unit: total(counts) / card.rate(unit) for unit, counts in kernel["units"].items()}
    times |= {"issue": total(kernel["instructions"]) / card.issue_rate, "bandwidth": n_bytes / (1e9 * card.bandwidth)}
    bound = max(times, key=lambda name: times[name])
    operations = 32 * total(kernel["operations"])
    return {
        "seconds": times[bound],
        "bound": bound,
        "operations_per_byte": operations / n_bytes,
        "part_of_float32_peak": operations / times[bound] / card.float32_flops,
        "occupancy": card.occupancy(kernel["registers"], kernel["warps"], kernel["shared_bytes"]),
    }


def _algebra(card: Card, rows: int, n_features: int, steps: int) -> dict[str, float]:
    """Gram matrix on half of its entries, Cholesky in float64, and a solution of each step, which reads the factor.

    Products in float32 are written, read, and added to the Gram matrix in float64: once for each slice of a block, and
    once for the rest of several blocks.
    """
    rate = card.float64_flops if card.fast_float64 else card.float32_flops
    sums = 0.0 if card.fast_float64 else rows / BLOCK * (SLICES + 1 / BLOCKS_OF_REST)
    return {
        "Gram sums": sums * 24 * n_features * (n_features + TILE) / 2 / (1e9 * card.bandwidth),
        "Gram matrix": GRAM_PRODUCTS[card.fast_float64] * rows * n_features**2 / rate,
        "Cholesky": n_features**3 / 3 / card.float64_flops,
        "substitution": steps * max(2 * n_features**2 / card.float64_flops, 8 * n_features**2 / (1e9 * card.bandwidth)),
    }


def tables(entries: list[Entry]) -> str:
    there = {
        tuple(entry[CELL][key] for key in ("card", "system", "representation")): entry for entry in succeeded(entries)
    }
    cards = [card for card in CARDS if any(key[0] == card for key in there)]
    rows = []
    for name, representation in dict.fromkeys(key[1:] for key in there):
        if name in TRAINING:
            figure, unit = "predicted_seconds", "s"
            molecule = TRAINING[name][0].removeprefix("1000 ")
            paper = PUBLISHED["training"]["models"]["paper, SORF-16384, RTX 3080, single"][molecule]
        else:
            figure, unit = "predicted_us_per_atom", "µs per atom"
            paper = PUBLISHED["prediction"]["systems"][name][str(N_FEATURES)]
        known = (there.get((card, name, representation)) for card in cards)
        values = ["–" if entry is None else digits(entry[figure]) for entry in known]
        rows.append([f"{name}, {representation}, {unit}", *values, f"{paper:g}"])
    times = table(["", *(f"**predicted**, {card}" for card in cards), "the paper, FCHL19, measured, RTX 3080"], rows)
    return f"{times}\n\n{roofs(there, cards)}"


def roofs(there: dict[tuple[str, ...], Entry], cards: list[str]) -> str:
    """Table of each kernel on each card: its limit, the part of the peak it can reach, how full the card is."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for (card, name, representation), entry in there.items():
        if name not in ROOFS:
            continue
        for kernel, roof in entry.get("kernels", {}).items():
            row = rows.setdefault((kernel.lstrip("_"), representation), {})
            row.setdefault("", digits(roof["operations_per_byte"]))
            peak, full = (f"{100 * roof[key]:.0f} %" for key in ("part_of_float32_peak", "occupancy"))
            row.setdefault(card, f"{roof['bound']}, {peak}, {full}")
    body = [
        [f"{kernel}, {representation}", *(row.get(key, "–") for key in ("", *cards))]
        for (kernel, representation), row in sorted(rows.items(), key=lambda one: one[0][::-1])
    ]
    head = (f"**predicted**, {card}: limit, part of the float32 peak, occupancy" for card in cards)
    return table(["kernel", "operations per byte", *head], body)


GPU_PREDICTED = Benchmark(
    name="gpu_predicted",
    title="Times on GPUs, predicted and not measured",
    text="**No GPU was there: every time of ours in this table is predicted.** Instructions are counted in compiled "
    "machine code, loop by loop, and multiplied by how often each loop turns for the neighbours of the system. A "
    "kernel takes the longest of several times: issuing its instructions, what each kind of unit takes (float32, "
    "float64, integer, special functions, shared memory with shuffles), and moving its data, each "
    f"at the peak that the maker states. The first table has twice the sum: {HALF:.0%} of the peaks is assumed. "
    "Lists of neighbours are not in it. FCHL19 with the paper's parameters and rank 128, the density of the default "
    "recipe (48 channels) with rank 256, 16384 paired features, float32. Weights shared or of each element: the "
    "kernels do the same. The second table has what limits each kernel. "
    f"Training solves the equations, or iterates {STEPS} steps with a small model of {SMALL_FEATURES} features; "
    "sums are float64, on the RTX 3080 slices and pairs of float32.",
    cells=cells,
    measure=measure,
    tables=tables,
    needs=NEEDS,
    packages=("triton",),
)  # fmt: skip
