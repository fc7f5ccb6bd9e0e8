"""`qml-lightning tune`: the thorough search for a recipe."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..errors import InputError
from ..machine.files import check_output
from .options import DATA_HELP, DataOptions, Debug, Json, LabelCheck, MachineOptions, Overwrite, spread
from .portions import check_labels
from .recipe_options import RecipeOptions
from .screen import finite, progress, show, show_json, table, teaching, warnings_shown
from .tables import MILLI, number

if TYPE_CHECKING:
    from rich.console import Group

    from ..model.recipe import Recipe
    from ..study.tuning import Trial, Tuning

HELP = teaching(
    """Try every combination of some fields of a recipe, and write the best recipe for `train --recipe FILE`.

`train` chooses width, ridge, energy weight and rank by itself in a fraction of a fit. This is for what it does not
choose, and to be sure: each combination is a whole fit to a part of DATA, judged by the rest, or with --folds by each
part in turn. Ridges and weights share one pass over the data.

A field is named as in `info --json`: features.sigma, representation.cutoff, ridge. Values are given with commas or as
LOW:HIGH:N, N of them evenly on a logarithmic scale. All that was tried is in a journal beside the recipe: a search that
was stopped goes on when the command is given again, and one with more values does only what is new.

[bold]Examples[/bold]

  qml-lightning tune ethanol:train -o best.json --features 2048
  qml-lightning tune mine.extxyz -o best.json --try representation.cutoff=4,5,6 --try ridge=1e-10:1e-6:5 --folds 5
  qml-lightning tune mine.extxyz -o best.json --try features.sigma=2:32:5 --try rank=64,128,256 --figure response.png
  qml-lightning train mine.extxyz -m mine.safetensors --recipe best.json

The best is the one with the smallest product of the errors of energies, forces and stress.
"""
)
USUAL = ("features.sigma=4,8,16", "ridge=1e-10:1e-6:5", "energy_weight=3,10,30")
# Lines of the table.
SHOWN = 15


@spread
def command(
    data: Annotated[str, Argument(help=DATA_HELP, metavar="DATA", show_default=False)],
    output: Annotated[Path, Option("--output", "-o", help="Write the best recipe here, such as best.json.")],
    recipe: RecipeOptions,
    reading: DataOptions,
    machine: MachineOptions,
    tries: Annotated[
        list[str] | None,
        Option(
            "--try",
            help=f"Field and values, as often as wanted; by default {' '.join(USUAL)}.",
            metavar="FIELD=VALUES",
            show_default=False,
        ),
    ] = None,
    folds: Annotated[int, Option(min=1, help="Parts that judge in turn; with 1, --held-out do.", metavar="K")] = 1,
    held_out: Annotated[float, Option(help="Part of the structures that judge.", metavar="PART")] = 0.2,
    trials: Annotated[
        int | None, Option(min=1, help="Try only so many combinations, drawn by the seed.", metavar="N")
    ] = None,
    journal: Annotated[
        Path | None, Option(help="Where to note what was tried; by default OUTPUT.journal.", metavar="FILE")
    ] = None,
    jobs: Annotated[
        int | None,
        Option(
            min=1,
            help="Passes at once, which share the threads; by default as many as memory and threads allow.",
            metavar="N",
            show_default=False,
        ),
    ] = None,
    figure: Annotated[Path | None, Option(help="Also draw the response, .png, .pdf or .svg.", metavar="FILE")] = None,
    label_check: LabelCheck = True,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    # all that can fail early, fails now
    check_output(output, overwrite)
    noted = check_output(journal or output.with_name(output.name + ".journal"), overwrite=True)
    if figure is not None:
        from ..report.figure import check_figure

        check_figure(figure, overwrite=overwrite)
    targets, reference_energies = recipe.chosen_targets(), recipe.given_energies()
    device = machine.prepare()

    from ..machine.compute import Compute
    from ..model.recipe import Recipe
    from ..model.recipe_file import save_recipe
    from ..study.tuning import Search, tune
    from ..training.problem import Learn

    start = recipe.make(machine.precision)
    if not isinstance(start, Recipe):
        raise InputError(f"Recipes are tuned for random features: sorf, rff or orf, got --method {recipe.method}.")
    search = Search(dict(_field(start, text) for text in tries or USUAL), folds, held_out, trials)
    with progress() as tell, warnings_shown():
        tell("reading", 0, 1)
        dataset = reading.load(data)
        tell("label check", 0, 1)
        if label_check:
            check_labels(dataset, device)
        tuning = tune(
            dataset, search, start, journal=noted, jobs=jobs, learn=Learn(targets, reference_energies),
            compute=Compute(device, machine.kernels), progress=tell,
        )  # fmt: skip
    errors = finite(tuning.as_dict()["tried"][0])
    save_recipe(tuning.best, output, overwrite=overwrite, data=dataset.source.as_dict(), errors=errors)
    if figure is not None:
        from ..report.figure import write_figure
        from ..report.response import draw

        write_figure(figure, lambda: draw(tuning), overwrite=overwrite)
    if as_json:
        show_json({"output": str(output), "journal": str(noted), **tuning.as_dict()})
        return
    drawn = f" The response is in {figure}." if figure else ""
    show(
        _table(tuning, data),
        f"The best recipe is in {output}: qml-lightning train {data} --recipe {output} …{drawn}\n"
        f"What was tried is in {noted}.",
    )


def _field(recipe: Recipe, text: str) -> tuple[str, list[Any]]:
    """features.sigma=4,8,16 or ridge=1e-10:1e-6:5 as a name and values."""
    from ..model.recipe_file import field_of

    name, equals, values = (part.strip() for part in text.partition("="))
    now = field_of(recipe, name)
    found: list[Any] = []
    try:
        for part in values.split(","):
            found += _range(part, type(now)) if ":" in part else [_value(part.strip(), type(now))]
    except (ValueError, KeyError):
        found = []
    if not equals or not found:
        raise InputError(
            f"--try takes a field and values, such as features.sigma=4,8,16 or ridge=1e-10:1e-6:5, got {text!r}. "
            f"{name} is {now!r} now."
        )
    return name, list(dict.fromkeys(found))


def _value(text: str, kind: type) -> Any:
    if not text:
        raise ValueError("no value")
    if kind is bool:
        return {"true": True, "false": False}[text.lower()]
    return kind(text) if kind in (int, float) else text


def _range(text: str, kind: type) -> list[Any]:
    """LOW:HIGH:N, evenly on a logarithmic scale, in three digits."""
    low, high, n = text.split(":")
    first, last, steps = float(low), float(high), int(n)
    if kind not in (int, float) or min(first, last) <= 0 or steps < 2:
        raise ValueError(text)
    values = [float(f"{first * (last / first) ** (k / (steps - 1)):.3g}") for k in range(steps)]
    return [round(value) if kind is int else value for value in values]


def _table(tuning: Tuning, data: str) -> Group:
    kinds = {"energy": "energy / meV/atom", "forces": "forces / meV/Å", "stress": "stress / meV/Å³"}
    ranking = tuning.ranking
    told = {kind: head for kind, head in kinds.items() if getattr(ranking[0], kind)}
    rows = [
        (*(f"{value:g}" if isinstance(value, float) else str(value) for value in one.values.values()),
         *(_error(one, kind) for kind in told))
        for one in ranking[:SHOWN]
    ]  # fmt: skip
    heads = (*tuning.space, *told.values())
    more = f", the best {SHOWN}" if len(ranking) > SHOWN else ""
    return table(f"MAE on parts of {data}: {len(ranking)} recipes{more}", heads, rows, right=range(len(heads)))


def _error(one: Trial, kind: str) -> str:
    errors = [MILLI * error for error in getattr(one, kind)]
    if not errors:
        return "no solution"
    return number(statistics.fmean(errors)) + (f" ± {statistics.stdev(errors):.2g}" if len(errors) > 1 else "")
