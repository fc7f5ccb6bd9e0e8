"""`qml-lightning learning-curve`: whether more data or more features would help."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from typer import Argument, Option

from ..errors import InputError
from ..machine.files import check_output, write_atomically
from .options import DATA_HELP, DataOptions, Debug, Json, LabelCheck, MachineOptions, Overwrite, spread
from .portions import check_labels
from .recipe_options import RECIPE, RecipeOptions
from .screen import finite, progress, show, show_json, table, teaching, warnings_shown

if TYPE_CHECKING:
    from rich.console import Group

    from ..study.trends import LearningCurve

HELP = teaching(
    """How errors fall with more structures and with more features, and which of the two would help more.

One pass over the largest training set serves all sizes: the smaller ones are its beginning. Errors are told on --test,
or on structures of DATA that are held out. The ridge of each size is the best of --ridges on the structures that come
next.

[bold]Examples[/bold]

  qml-lightning learning-curve ethanol:train --sizes 100,200,400,800 --features 1024,2048,4096
  qml-lightning learning-curve ethanol:train --test ethanol:test --figure curve.pdf -o curve.csv
  qml-lightning learning-curve mine.extxyz --held-out 200 --seeds 3 --figure curve.png

-o writes a row for each model as .csv, or all there is as .json; errors there are in eV and Å.
"""
)
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class CurveRecipe(RecipeOptions):
    """A recipe with several numbers of features; of what can be chosen from the data, only the ridge is."""

    recipe: Annotated[
        str, Option(help="Starting point; `qml-lightning info` lists them.", metavar="NAME", rich_help_panel=RECIPE)
    ] = "default"
    features: Annotated[
        str | None,
        Option(help="Numbers of random features, with commas; by default a quarter of the recipe's and all.",
               metavar="LIST", rich_help_panel=RECIPE),
    ] = None  # type: ignore[assignment]  # fmt: skip


@spread
def command(
    data: Annotated[str, Argument(help=DATA_HELP, metavar="DATA", show_default=False)],
    recipe: CurveRecipe,
    reading: DataOptions,
    machine: MachineOptions,
    sizes: Annotated[
        str | None,
        Option(help="Sizes of training sets, with commas; by default five, each half of the next.", metavar="LIST"),
    ] = None,
    test: Annotated[str | None, Option(help="Structures to tell the errors on, like DATA.", metavar="DATA")] = None,
    held_out: Annotated[
        int | None,
        Option(
            min=1, help="Without --test: how many of DATA; by default what --sizes leave, at most 1000.", metavar="N"
        ),
    ] = None,
    seeds: Annotated[int, Option(min=1, help="How many times to draw structures and features anew.", metavar="N")] = 1,
    ridges: Annotated[
        str, Option(help="Ridges to choose from for each size; with --ridge there is no choice.", metavar="LIST")
    ] = "1e-10,1e-9,1e-8,1e-7,1e-6,1e-5",
    output: Annotated[
        Path | None, Option("--output", "-o", help="Also write the numbers, .json or .csv.", metavar="FILE")
    ] = None,
    figure: Annotated[Path | None, Option(help="Also draw the figure, .png, .pdf or .svg.", metavar="FILE")] = None,
    label_check: LabelCheck = True,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    # all that can fail early, fails now
    if output is not None:
        if output.suffix.lower() not in WRITERS:
            raise InputError(f"The numbers are written as {' or '.join(WRITERS)}, got {output}.")
        check_output(output, overwrite)
    if figure is not None:
        from ..report.figure import check_figure

        check_figure(figure, overwrite=overwrite)
    features, chosen_sizes = (
        _numbers(name, text, int) for name, text in (("--features", recipe.features), ("--sizes", sizes))
    )
    choice = () if recipe.ridge is not None else _numbers("--ridges", ridges, float) or ()
    targets, reference_energies = recipe.chosen_targets(), recipe.given_energies()
    device = machine.prepare()

    from ..model.recipe import Recipe
    from ..study.learning_curve import learning_curve

    the_recipe = replace(recipe, features=None).make(machine.precision)
    if not isinstance(the_recipe, Recipe):
        raise InputError(f"A learning curve is of random features: sorf, rff or orf, got --method {recipe.method}.")
    with progress() as tell, warnings_shown():
        tell("reading", 0, 1)
        dataset = reading.load(data)
        other = None if test is None else reading.load(test)
        tell("label check", 0, 1)
        if label_check:
            check_labels(dataset, device)
        curve = learning_curve(
            dataset, chosen_sizes, features, recipe=the_recipe, test=other, held_out=held_out, seeds=seeds,
            ridges=choice, targets=targets, reference_energies=reference_energies, device=device,
            kernels=machine.kernels, progress=tell,
        )  # fmt: skip
    if output is not None:
        write_atomically(output, WRITERS[output.suffix.lower()](curve).encode(), overwrite=overwrite)
    if figure is not None:
        from ..report.curve import draw
        from ..report.figure import write_figure

        write_figure(figure, lambda: draw(curve), overwrite=overwrite)
    if as_json:
        show_json(curve.as_dict())
        return
    show(_errors(curve, data, test), _slopes(curve), curve.advice())
    if output or figure:
        show(
            " ".join(
                f"The {what} in {path}." for what, path in (("numbers are", output), ("figure is", figure)) if path
            )
        )


def _numbers(option: str, text: str | None, kind: Callable[[str], Number]) -> tuple[Number, ...] | None:
    """100,200,500 as numbers."""
    if text is None:
        return None
    try:
        numbers = tuple(kind(part) for part in text.split(",") if part.strip())
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) <= 0:
        example = "100,200,500" if kind is int else "1e-9,1e-8"
        raise InputError(f"{option} takes positive numbers with commas, such as {example}, got {text!r}.")
    return numbers


def _errors(curve: LearningCurve, data: str, test: str | None) -> Group:
    from ..study.trends import QUANTITIES, WORDS

    rows = []
    for features in curve.features:
        for structures in curve.sizes:
            entries = [e for e in curve.entries if (e.features, e.structures) == (features, structures)]
            ridges = sorted({entry.ridge for entry in entries})
            rows.append(
                [f"{features:,}" if structures == curve.sizes[0] else "", f"{structures:,}"]
                + [_mean(curve.errors(quantity, features, structures)) for quantity in curve.quantities]
                + [" … ".join(f"{ridge:g}" for ridge in dict.fromkeys((ridges[0], ridges[-1])))]
            )
    seeds = len({entry.seed for entry in curve.entries})
    where = test or f"structures of {data} that were held out"
    title = f"Mean absolute errors on {curve.entries[0].metrics.structures:,} {'of ' if test else ''}{where}"
    title += f", over {seeds} seeds" if seeds > 1 else ""
    head = ["features", "structures", *(f"{WORDS[q]} / {QUANTITIES[q]}" for q in curve.quantities), "ridge"]
    return table(title, head, rows, right=range(len(head)))


def _mean(errors: Sequence[float]) -> str:
    from ..study.trends import milli

    spread = f" ± {milli(statistics.stdev(errors))}" if len(errors) > 1 else ""
    return milli(statistics.fmean(errors)) + spread


def _slopes(curve: LearningCurve) -> Group:
    """How errors go with numbers, where there are several."""
    from ..study.trends import OTHER, WORDS

    rows = []
    for t in (*curve.trends("structures"), *curve.trends("features")):
        if t.along == "structures" or t.fixed == curve.sizes[-1]:
            slopes = (f"{slope:+.2f}".replace("-", "−") for slope in (t.slope, t.last_decade, t.end))
            rows.append((f"{WORDS[t.quantity]}, {t.fixed:,} {OTHER[t.along]}", t.along, *slopes))
    title, head = "Slopes: error ∝ number^slope", ("error", "with the number of", "all", "last decade", "last two")
    return table(title, head, rows, right=(2, 3, 4))


def _csv(curve: LearningCurve) -> str:
    text, rows = io.StringIO(), curve.rows()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _json(curve: LearningCurve) -> str:
    return json.dumps(finite(curve.as_dict()), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


WRITERS: dict[str, Callable[[Any], str]] = {".json": _json, ".csv": _csv}
