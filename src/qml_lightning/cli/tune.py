"""`qml-lightning tune`: a thorough search for the best recipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from ..errors import InputError
from ..machine.files import check_output
from .options import Data, DataOptions, Debug, Json, LabelCheck, MachineOptions, Overwrite, spread
from .portions import check_labels
from .recipe_options import RecipeOptions
from .screen import finite, progress, show, show_json, table, teaching, warnings_shown

if TYPE_CHECKING:
    from rich.console import Group

    from ..model.recipe import Recipe
    from ..study.tuning import Search, Tuning

HELP = teaching(
    """Try every combination of some fields of a recipe, and write the best recipe for `train --recipe FILE`.

`train` already chooses the kernel width, the ridge, the energy weight and the rank, in a fraction of the time of a fit.
Use `tune` for the fields that `train` does not choose, or to be sure. Each trial is a whole fit to one part of DATA,
and its errors are measured on the rest; with --folds, on each fold in turn. Trials that differ only in ridges and
weights share one pass over the data.

Fields are named as in `info --json`: features.sigma, representation.cutoff, ridge. Values are separated by commas, or
given as LOW:HIGH:N for N values evenly spaced on a logarithmic scale. A journal beside the recipe keeps all trials. If
the search is stopped, give the same command again and it continues. If you add values, only the new ones are tried.

[bold]Examples[/bold]

  qml-lightning tune ethanol:train -o best.json --features 2048
  qml-lightning tune mine.extxyz -o best.json \\
      --try representation.cutoff=4,5,6 --try ridge=1e-10:1e-6:5 --folds 5
  qml-lightning tune mine.extxyz -o best.json --try features.sigma=2:32:5 \\
      --try rank=64,128,256 --figure response.png
  qml-lightning train mine.extxyz -m mine.safetensors --recipe best.json

The best recipe has the smallest product of the errors of energies, forces and stress.
"""
)
USUAL = ("features.sigma=4,8,16", "ridge=1e-10:1e-6:5", "energy_weight=3,10,30")
# Rows of the table.
MOST_ROWS = 15
# Kind of error of a trial → quantity of model/metrics. Energies are per atom: structures may differ in size.
QUANTITIES = {"energy": "energy_per_atom", "forces": "forces", "stress": "stress"}


@dataclass(frozen=True)
class SearchOptions:
    """The values to try, and the structures that measure the errors."""

    tries: Annotated[
        list[str] | None,
        Option(
            "--try",
            help=f"A field and its values. Give it once for each field; by default {' '.join(USUAL)}.",
            metavar="FIELD=VALUES",
            show_default=False,
        ),
    ] = None
    folds: Annotated[int, Option(min=1, help="Number of folds; 1: hold out one part, see --held-out.", metavar="K")] = 1
    held_out: Annotated[
        float, Option(help="Without folds: fraction of the structures to hold out.", metavar="FRACTION")
    ] = 0.2
    trials: Annotated[
        int | None, Option(min=1, help="Try only this many combinations, drawn at random by the seed.", metavar="N")
    ] = None
    journal: Annotated[
        Path | None, Option(help="File that keeps the trials; by default OUTPUT.journal.", metavar="FILE")
    ] = None
    jobs: Annotated[
        int | None,
        Option(
            min=1,
            help="Passes that run at the same time; by default as many as memory and threads allow.",
            metavar="N",
            show_default=False,
        ),
    ] = None

    def search(self, recipe: Recipe) -> Search:
        """Search through the values of fields of `recipe`."""
        from ..study.tuning import Search

        space = dict(_field(recipe, text) for text in self.tries or USUAL)
        return Search(space, self.folds, self.held_out, self.trials)


@spread
def command(
    data: Data,
    output: Annotated[Path, Option("--output", "-o", help="Write the best recipe here, such as best.json.")],
    recipe: RecipeOptions,
    reading: DataOptions,
    machine: MachineOptions,
    options: SearchOptions,
    figure: Annotated[
        Path | None, Option(help="Also draw the errors against each field, as .png, .pdf or .svg.", metavar="FILE")
    ] = None,
    label_check: LabelCheck = True,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    # check all inputs before the work begins
    check_output(output, overwrite)
    reading.refuse_as_output(data, output, options.journal, figure)
    journal = check_output(options.journal or output.with_name(output.name + ".journal"), overwrite=True)
    if figure is not None:
        from ..report.style import check_figure

        check_figure(figure, overwrite=overwrite)
    targets, reference_energies = recipe.chosen_targets(), recipe.given_energies()
    device = machine.prepare()

    from ..machine.compute import Compute
    from ..model.recipe_file import save_recipe
    from ..study.tuning import tune
    from ..training.problem import Learn

    start = recipe.random_features(machine.precision, "A search")
    search = options.search(start)
    with progress() as tell, warnings_shown():
        tell("reading", 0, 1)
        dataset = reading.load(data)
        tell("label check", 0, 1)
        if label_check:
            check_labels(dataset, device)
        tuning = tune(
            dataset, search, start, journal=journal, jobs=options.jobs, learn=Learn(targets, reference_energies),
            compute=Compute(device, machine.kernels), progress=tell,
        )  # fmt: skip
    errors = finite(tuning.as_dict()["tried"][0])
    save_recipe(tuning.best, output, overwrite=overwrite, data=dataset.source.as_dict(), errors=errors)
    if figure is not None:
        from ..report.response import draw
        from ..report.style import write_figure

        write_figure(figure, lambda: draw(tuning), overwrite=overwrite)
    if as_json:
        show_json({"output": str(output), "journal": str(journal), **tuning.as_dict()})
        return
    drawn = f" The figure is in {figure}." if figure else ""
    show(
        _table(tuning, " ".join(data)),
        f"The best recipe is in {output}: qml-lightning train {' '.join(data)} --recipe {output} …{drawn}\n"
        f"All trials are in {journal}.",
    )


def _field(recipe: Recipe, text: str) -> tuple[str, list[Any]]:
    """Name and values from a text such as `features.sigma=4,8,16` or `ridge=1e-10:1e-6:5`."""
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
            f"The value of {name} in the recipe is {now!r}."
        )
    return name, list(dict.fromkeys(found))


def _value(text: str, kind: type) -> Any:
    if not text:
        raise ValueError("no value")
    if kind is bool:
        return {"true": True, "false": False}[text.lower()]
    return kind(text) if kind in (int, float) else text


def _range(text: str, kind: type) -> list[Any]:
    """N values from LOW:HIGH:N, evenly spaced on a logarithmic scale and rounded to three digits."""
    low, high, n = text.split(":")
    first, last, steps = float(low), float(high), int(n)
    if kind not in (int, float) or min(first, last) <= 0 or steps < 2:
        raise ValueError(text)
    values = [float(f"{first * (last / first) ** (k / (steps - 1)):.3g}") for k in range(steps)]
    return [round(value) if kind is int else value for value in values]


def _table(tuning: Tuning, data: str) -> Group:
    from ..model.metrics import heading, mean_and_spread

    ranking = tuning.ranking
    kinds = [kind for kind in QUANTITIES if getattr(ranking[0], kind)]
    rows = []
    for trial in ranking[:MOST_ROWS]:
        values = [f"{value:g}" if isinstance(value, float) else str(value) for value in trial.values.values()]
        errors = [getattr(trial, kind) for kind in kinds]
        rows.append(
            [
                *values,
                *(
                    mean_and_spread(QUANTITIES[kind], each) if each else "no solution"
                    for kind, each in zip(kinds, errors, strict=True)
                ),
            ]
        )
    columns = (*tuning.space, *(heading(QUANTITIES[kind]) for kind in kinds))
    more = f", the best {MOST_ROWS}" if len(ranking) > MOST_ROWS else ""
    title = f"MAE on held-out parts of {data}: {len(ranking)} recipes{more}"
    return table(title, columns, rows, right=range(len(columns)))
