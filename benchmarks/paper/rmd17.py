"""rMD17: eight molecules, 1000 training structures, beside what others published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..harness.benchmark import Benchmark, Cell, Comparison, Entry, Headline, Options
from ..harness.drawing import BLUE, GREY, ORANGE, SKY, legend_above, log_axis, panels, title
from ..harness.entries import grouped, mean
from ..harness.models import (
    AUTO,
    ENERGY,
    FORCE,
    RMD17_MOLECULES,
    errors,
    fitted,
    load,
    recipe_for,
    recipe_words,
    rmd17_files,
)
from ..harness.places import CITED, PUBLISHED, SHORT
from ..harness.tables import table

SIZES = ((16384, "01"), (16384, "02"), (32768, "01"), (131072, "01"))
MODELS: dict[str, dict[str, list[float]]] = PUBLISHED["rmd17"]["models"]
PAPER, ACE = "paper, SORF-32768", "linear ACE"
BEST, SHOWN = "density", "aspirin"  # recipe and molecule of the README
# Parts of a line by which ours stand above it, and rows of published ones below it; powers of ten that two of a row are
# apart, so that none hides another.
ASIDE, ROW, APART = 0.15, 0.21, 0.1
LETTERS = {"FCHL19 GPR": "R", "sGDML": "S", "linear ACE": "A", "GAP": "G", "NequIP l=3": "N", "MACE": "M"}


def cells(options: Options) -> list[Cell]:
    if options.quick:
        return [
            {"molecule": m, "n_features": 256, "split": "01", "recipe": options.recipe} for m in RMD17_MOLECULES[1:3]
        ]
    return [
        {"molecule": molecule, "n_features": n, "split": split, "recipe": options.recipe}
        for n, split in SIZES
        for molecule in RMD17_MOLECULES
    ]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    name, split = f"rmd17_{cell['molecule']}", cell["split"]
    if options.quick:  # the test set is not looked at
        train, test = load(f"{name}:train_{split}").split((30, 20), seed=0)
    else:
        train, test = load(f"{name}:train_{split}"), load(f"{name}:test_{split}")
    potential, about = fitted(train, recipe_for(cell["recipe"], cell["n_features"]))
    return {**errors(potential, test), **about}


def _ours(entries: list[Entry]) -> dict[tuple[int, str], dict[str, list[Entry]]]:
    """Entries by (features, recipe), then by molecule; one for each split."""
    return {
        group: {molecule: there for (molecule,), there in grouped(members, "molecule").items()}
        for group, members in grouped(entries, "n_features", "recipe").items()
    }


def tables(entries: list[Entry]) -> str:
    ours = _ours(entries)
    head = ["energy meV / force meV/Å", *(f"here, {n}{recipe_words(recipe)}" for n, recipe in ours), *MODELS]
    return table(head, _rows(ours)) + "\n\n" + _verdict(ours)


def _rows(ours: dict[tuple[int, str], dict[str, list[Entry]]]) -> list[list[str]]:
    """Energy and force errors of each molecule: ours, means over splits, and published ones."""
    rows = []
    for molecule in RMD17_MOLECULES:
        row = [molecule]
        for there in ours.values():
            found = there.get(molecule)
            row.append(f"**{mean(found, ENERGY):.2f} / {mean(found, FORCE):.1f}**" if found else "–")
        for model in MODELS.values():
            row.append("{:g} / {:g}".format(*model[molecule]) if molecule in model else "–")
        rows.append(row)
    return rows


def _verdict(ours: dict[tuple[int, str], dict[str, list[Entry]]]) -> str:
    """Number of the paper's figures that are reached, in words."""
    lines = []
    for (n, recipe), there in ours.items():
        pairs = [(there[m], MODELS[PAPER][m]) for m in MODELS[PAPER] if m in there]
        energies = sum(mean(found, ENERGY) <= paper[0] for found, paper in pairs)
        forces = sum(mean(found, FORCE) <= paper[1] for found, paper in pairs)
        splits = max(len(found) for found in there.values())
        what = f"{n} features{recipe_words(recipe)}" + (f", mean of {splits} splits" if splits > 1 else "")
        lines.append(
            f"* {what}: at or below the paper's SORF-32768 in {energies} of {len(pairs)} energies and {forces} of "
            f"{len(pairs)} forces."
        )
    return "\n".join(lines)


def draw(entries: list[Entry]) -> Any:
    """One row for each molecule: ours and the paper's as dots, other methods as letters. The table has all models."""
    ours = {recipe: there for (n, recipe), there in _ours(entries).items() if PAPER.endswith(f"-{n}")} or {
        recipe: there for (_, recipe), there in _ours(entries).items()
    }
    figure, axes = panels(2, height=4.8, sharey=True)
    for column, axis in enumerate(axes):
        below = _rows_of_published(column)
        for name, model in MODELS.items():
            dot = name == PAPER
            at = [
                (values[column], RMD17_MOLECULES.index(molecule) + ASIDE + ROW * below[name, molecule])
                for molecule, values in model.items()
            ]
            letter = "" if dot else f"$\\mathrm{{{LETTERS[name]}}}$"
            axis.scatter(*zip(*at, strict=True), marker="o" if dot else letter, s=30 if dot else 24,
                         color=ORANGE if dot else GREY, label=name, linewidths=0, zorder=3 if dot else 2)  # fmt: skip
        for colour, (recipe, there) in zip((SKY, BLUE), ours.items(), strict=False):
            at = [
                (mean(found, (ENERGY, FORCE)[column]), RMD17_MOLECULES.index(molecule) - ASIDE)
                for molecule, found in there.items()
            ]
            axis.scatter(*zip(*at, strict=True), marker="o", s=34, color=colour, zorder=4, linewidths=0.6,
                         edgecolors="white", label=f"this work{recipe_words(recipe)}")  # fmt: skip
        log_axis(axis.xaxis)
        axis.set_xlabel(("MAE of the energy / meV", "MAE of the forces / meV Å$^{-1}$")[column])
        title(axis, ("Energies", "Forces")[column], "ab"[column])
    axes[0].set_yticks(range(len(RMD17_MOLECULES)), [m.replace("salicylic", "salicylic acid") for m in RMD17_MOLECULES])
    axes[0].invert_yaxis()
    legend_above(figure, axes, 5)
    return figure


def _rows_of_published(column: int) -> dict[tuple[str, str], int]:
    """Row of each published method and molecule: the first one where it is next to no other."""
    rows = {}
    for molecule in RMD17_MOLECULES:
        last: list[float] = []
        there = sorted((model[molecule][column], name) for name, model in MODELS.items() if molecule in model)
        for value, name in there:
            place = math.log10(value)
            row = next((row for row, before in enumerate(last) if place - before > APART), len(last))
            last[row:] = [place, *last[row + 1 :]]
            rows[name, molecule] = row
    return rows


def headline(entries: list[Entry]) -> list[Headline]:
    rows = []
    for (n, recipe), there in _ours(entries).items():
        if not set(MODELS[PAPER]) <= set(there):
            continue
        best = recipe == BEST and PAPER.endswith(f"-{n}")
        words = f"{n} features" + ("" if best else recipe_words(recipe))
        here = _ratios({molecule: _mean_errors(found) for molecule, found in there.items()})
        what = (
            f"Mean error for {len(MODELS[PAPER])} small molecules (rMD17, 1000 training structures each; {words}), "
            f"divided by that of {CITED} (1 = equal, smaller is better)"
        )
        rows.append(Headline(what, here, f"{ACE}: {_ratios(MODELS[ACE])}", first=best))
        if best:
            what = f"Mean error for {SHOWN} (rMD17, 1000 training structures; {words})"
            beside = "; ".join(f"{name} {_pair(MODELS[model][SHOWN])}" for name, model in ((SHORT, PAPER), (ACE, ACE)))
            rows.append(Headline(what, _pair(_mean_errors(there[SHOWN])), beside, first=True))
    return rows


def _mean_errors(found: list[Entry]) -> list[float]:
    """Energy in meV and force in meV/Å."""
    return [mean(found, ENERGY), mean(found, FORCE)]


def _ratios(errors: Mapping[str, Sequence[float]]) -> str:
    """Mean ratios of energy and force errors to the paper's, over its molecules."""
    pairs = [(errors[molecule], paper) for molecule, paper in MODELS[PAPER].items()]
    energies, forces = (sum(ours[c] / paper[c] for ours, paper in pairs) / len(pairs) for c in (0, 1))
    return f"energies {energies:.2f}, forces {forces:.2f}"


def _pair(errors: Sequence[float]) -> str:
    return f"{errors[0]:.2g} meV, {errors[1]:.1f} meV/Å"


def compared(entries: list[Entry]) -> list[Comparison]:
    return [
        Comparison(f"{molecule}, {what}", mean(found, name), MODELS[PAPER][molecule][column])
        for (n, recipe), there in _ours(entries).items()
        if PAPER.endswith(f"-{n}") and recipe == AUTO
        for molecule, found in there.items()
        if molecule in MODELS[PAPER]
        for column, (what, name) in enumerate((("energy", ENERGY), ("force", FORCE)))
    ]


RMD17 = Benchmark(
    "rmd17",
    "rMD17: mean absolute errors, 1000 training structures",
    "Official splits of 1000 training and 1000 test structures. Two splits with 16384 features are averaged.",
    cells, measure, tables, draw, headline, AUTO,
    compared=compared,
    needs=rmd17_files(*RMD17_MOLECULES),
)  # fmt: skip
