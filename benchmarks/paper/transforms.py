"""QM9: errors with one, two and three Hadamard transforms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from qml_lightning import recipes

from ..harness.benchmark import Benchmark, Cell, Entry, Options
from ..harness.curves import both_logarithmic, draw_curve, row
from ..harness.drawing import panels, title
from ..harness.entries import grouped, mean, of_first_recipe
from ..harness.internals import representations
from ..harness.models import ENERGY, errors, fitted, recipe_for, recipe_words
from ..harness.places import PUBLISHED
from ..harness.tables import table
from .qm9 import ENERGIES_ONLY, LARGEST_RIDGE, SIZES, pool, sampled


def cells(options: Options) -> list[Cell]:
    sizes, n, seeds = ((50, 100), 256, 1) if options.quick else ((1000, 2000, 4000, 8000), 8192, 3)
    # axes as in every other fit; as in the learning curve; more. A cell names only what is not the default.
    axes = {recipes.DEFAULT.rank: sizes, ENERGIES_ONLY.rank: sizes, 2 * ENERGIES_ONLY.rank: sizes[:1]}
    return [
        {"n_transforms": transforms, "n_train": size, "n_features": n, "seed": seed, "recipe": options.recipe}
        | ({"rank": rank} if rank != recipes.DEFAULT.rank else {})
        for rank, some in axes.items()
        if 2 * rank <= n
        for seed in range(seeds)
        for size in some
        for transforms in (1, 2, 3)
    ]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    molecules, _, test = pool(options)
    ridge = LARGEST_RIDGE * (SIZES[0] / cell["n_train"]) ** 2  # as in the learning curve of qm9
    starts = {"default": replace(ENERGIES_ONLY, ridge=ridge),
              "paper": replace(recipes.PAPER, representation=representations.ENERGIES)}  # fmt: skip
    instead = {name: replace(sampled(start, options), rank=_axes(cell.get("rank"))) for name, start in starts.items()}
    recipe = recipe_for(
        cell["recipe"], cell["n_features"], seed=cell["seed"], instead=instead, n_transforms=cell["n_transforms"]
    )
    potential, about = fitted(molecules.subsample(cell["n_train"], seed=cell["seed"]), recipe)
    return {**errors(potential, test), **about}


def _axes(rank: int | None) -> int:
    """Axes of the projection; a cell names only a number that is not the default."""
    return rank or recipes.DEFAULT.rank


def _by_transforms(entries: list[Entry]) -> dict[int, dict[int, list[Entry]]]:
    return {
        transforms: {n: there for (n,), there in grouped(members, "n_train").items()}
        for (transforms,), members in sorted(grouped(entries, "n_transforms").items())
    }


def tables(entries: list[Entry]) -> str:
    rows, sizes = [], sorted({n for (n,) in grouped(entries, "n_train")})
    for (recipe, rank), members in grouped(entries, "recipe", "rank").items():
        curves, words = _by_transforms(members), f"{recipe_words(recipe)}, {_axes(rank)} axes"
        rows += [[f"{t}{words}", *row(curve, sizes, ENERGY, 1)] for t, curve in curves.items()]
        for t in sorted(curves.keys() & {before + 1 for before in curves}):
            both = [(curves[t].get(n), curves[t - 1].get(n)) for n in sizes]
            change = [f"{(mean(a, ENERGY) / mean(b, ENERGY) - 1) * 100:+.1f} %" if a and b else "–" for a, b in both]
            rows.append([f"{t - 1} → {t}{words}", *change, ""])
    head = ["transforms; MAE meV, training molecules:", *map(str, sizes), "slope"]
    return table(head, rows) + f"\n\nThe paper: {PUBLISHED['figures']['transforms']}."


def draw(entries: list[Entry]) -> Any:
    by_rank = {key: there for key, there in grouped(of_first_recipe(entries), "rank").items()
               if len(grouped(there, "n_train")) > 1}  # fmt: skip
    figure, axes = panels(len(by_rank), height=2.8)
    for letter, axis, ((rank,), members) in zip("ab", axes, by_rank.items(), strict=False):
        curves = _by_transforms(members)
        for number, (transforms, curve) in enumerate(curves.items()):
            label = f"{transforms} transform" + ("s" if transforms > 1 else "")
            draw_curve(axis, curve, ENERGY, label=label, number=number)
        both_logarithmic(axis, sorted({n for curve in curves.values() for n in curve}))
        axis.set_xlabel("training molecules")
        axis.set_ylabel("MAE of the atomisation energy / meV")
        title(axis, f"{_axes(rank)} axes", letter)
    axes[0].sharey(axes[-1])
    axes[0].legend()
    return figure


TRANSFORMS = Benchmark(
    "transforms",
    "QM9: number of Hadamard transforms",
    "8192 SORF features, energies only. Each seed draws other training molecules and other features; tested on the "
    "15 831 test molecules.",
    cells, measure, tables, draw,
    why="What a second transform gains depends on the axes of the projection that each block of signs has to mix: "
    "with 8192 features of the default recipe and 1000 molecules less than the paper says with 128 axes or the 512 of "
    "the curve above, and as much with 1024; with the paper's width, ridge and phases next to nothing. How many axes "
    "and features are behind the paper's figure is not known here. A third transform gains nothing, as it says.",
    needs=("qm9/qm9.npz",),
)  # fmt: skip
