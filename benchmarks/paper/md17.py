"""MD17: learning curves of three molecules with the original, noisier labels."""

from __future__ import annotations

from typing import Any

from ..harness.benchmark import Benchmark, Cell, Entry, Options
from ..harness.curves import both_logarithmic, draw_curve, energies_and_forces, row
from ..harness.drawing import legend_above
from ..harness.entries import grouped
from ..harness.models import AUTO, ENERGY, FORCE, errors, fitted, load, recipe_for, recipe_words
from ..harness.tables import table

MOLECULES = ("aspirin", "ethanol", "uracil")
SIZES = (100, 200, 400, 700, 1000)
N_FEATURES = 32768  # fewer bend the curve of aspirin


def cells(options: Options) -> list[Cell]:
    full = (MOLECULES, SIZES, N_FEATURES, 2)
    molecules, sizes, n, seeds = full if not options.quick else (("ethanol",), (10, 20), 256, 2)
    return [
        {"molecule": molecule, "n_train": size, "n_features": n, "seed": seed, "recipe": options.recipe}
        for seed in range(seeds)
        for molecule in molecules
        for size in sizes
    ]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    name = f"md17_{cell['molecule']}_2k"
    pool, test = load(f"{name}:train"), load(f"{name}:test")
    if options.quick:
        pool, test = pool.split((60, 20), seed=0)
    train = pool.subsample(cell["n_train"], seed=cell["seed"])
    potential, about = fitted(train, recipe_for(cell["recipe"], cell["n_features"], seed=cell["seed"]))
    return {**errors(potential, test), **about}


def _curves(entries: list[Entry]) -> dict[str, dict[int, list[Entry]]]:
    return {
        f"{molecule}{recipe_words(recipe)}": {n: there for (n,), there in grouped(members, "n_train").items()}
        for (molecule, recipe), members in grouped(entries, "molecule", "recipe").items()
    }


def tables(entries: list[Entry]) -> str:
    curves = _curves(entries)
    sizes = sorted({n for curve in curves.values() for n in curve})
    rows = [
        [name, what, *row(curve, sizes, key, digits)]
        for name, curve in curves.items()
        for what, key, digits in (("energy meV", ENERGY, 1), ("force meV/Å", FORCE, 1))
    ]
    return table(["MAE", "structures", *map(str, sizes), "slope"], rows)


def draw(entries: list[Entry]) -> Any:
    figure, shown = energies_and_forces("training structures")
    curves = _curves(entries)
    sizes = sorted({n for curve in curves.values() for n in curve})
    for axis, key in shown:
        for number, (name, curve) in enumerate(curves.items()):
            draw_curve(axis, curve, key, label=name, number=number)
        both_logarithmic(axis, sizes)
    legend_above(figure, [axis for axis, _ in shown], 3)
    return figure


MD17 = Benchmark(
    "md17",
    "MD17: learning curves",
    f"{N_FEATURES} features. Each seed draws other training structures of the 1000 and other features; tested on 1000 "
    "others. The paper shows such curves for seven molecules, without a table. The labels of MD17 are noisy (hence "
    "rMD17): curves of energies end flatter than they begin.",
    cells, measure, tables, draw, recipe=AUTO,
    needs=tuple(f"md17/md17_{molecule}_2k.npz" for molecule in MOLECULES),
)  # fmt: skip
