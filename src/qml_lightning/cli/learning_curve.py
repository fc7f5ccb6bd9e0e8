"""`qml-lightning learning-curve`: errors against the size of the training set and the number of features."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from typer import Option

from ..errors import InputError
from ..machine.files import check_output, write_atomically
from .options import Data, DataOptions, Debug, Json, LabelCheck, MachineOptions, Overwrite, spread
from .portions import check_labels
from .recipe_options import RECIPE, RecipeOptions
from .screen import finite, progress, show, show_json, table, teaching, warnings_shown

if TYPE_CHECKING:
    from rich.console import Group

    from ..study.trends import LearningCurve

HELP = teaching(
    """How the errors fall with more structures and with more features, and which of the two would help more.

One pass over the largest training set serves all sizes, because each smaller set is its beginning. Errors are measured
on --test, or on structures of DATA that are held out. The ridge of each size is the one of --ridges that is best on the
structures that follow next.

[bold]Examples[/bold]

  qml-lightning learning-curve ethanol:train --sizes 100,200,400,800 \\
      --features 1024,2048,4096
  qml-lightning learning-curve ethanol:train --test ethanol:test \\
      --figure curve.pdf -o curve.csv
  qml-lightning learning-curve mine.extxyz --held-out 200 --seeds 3 \\
      --figure curve.png

-o writes one row for each model as .csv, or everything as .json; errors in these files are in eV and Å.
"""
)
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class CurveRecipe(RecipeOptions):
    """A recipe with several numbers of features. Only the ridge is chosen from the data."""

    recipe: Annotated[
        str, Option(help="Recipe to start from; `qml-lightning info` lists them.", metavar="NAME",
                    rich_help_panel=RECIPE)
    ] = "default"  # fmt: skip
    features: Annotated[
        str | None,
        Option(help="Numbers of random features, separated by commas; by default a quarter of the recipe's and all.",
               metavar="LIST", rich_help_panel=RECIPE),
    ] = None  # type: ignore[assignment]  # fmt: skip


@dataclass(frozen=True)
class CurveOptions:
    """Sizes of training sets, and the structures that measure the errors."""

    sizes: Annotated[
        str | None,
        Option(
            help="Sizes of training sets, separated by commas; by default five, each half of the next.", metavar="LIST"
        ),
    ] = None
    test: Annotated[str | None, Option(help="Test set, given like DATA.", metavar="DATA")] = None
    held_out: Annotated[
        int | None,
        Option(
            min=1,
            help="Without --test: hold out so many structures of DATA; by default all that --sizes leave, up to 1000.",
            metavar="N",
        ),
    ] = None
    seeds: Annotated[
        int, Option(min=1, help="Number of repetitions with other random structures and features.", metavar="N")
    ] = 1
    ridges: Annotated[
        str, Option(help="Ridges to choose from at each size; not used if --ridge is given.", metavar="LIST")
    ] = "1e-10,1e-9,1e-8,1e-7,1e-6,1e-5"


@spread
def command(
    data: Data,
    recipe: CurveRecipe,
    reading: DataOptions,
    machine: MachineOptions,
    wanted: CurveOptions,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Also write the numbers, as .json or .csv.", metavar="FILE")
    ] = None,
    figure: Annotated[Path | None, Option(help="Also draw the figure, as .png, .pdf or .svg.", metavar="FILE")] = None,
    label_check: LabelCheck = True,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    # check all inputs before the work begins
    _check_files(output, figure, overwrite)
    reading.refuse_as_output([*data, *([wanted.test] if wanted.test else [])], output, figure)
    features, sizes = _numbers("--features", recipe.features, int), _numbers("--sizes", wanted.sizes, int)
    ridges = () if recipe.ridge is not None else _numbers("--ridges", wanted.ridges, float) or ()
    targets, reference_energies = recipe.chosen_targets(), recipe.given_energies()
    device = machine.prepare()
    start = replace(recipe, features=None).random_features(machine.precision, "A learning curve")

    from ..study.learning_curve import learning_curve

    with progress() as tell, warnings_shown():
        tell("reading", 0, 1)
        dataset = reading.load(data)
        test = None if wanted.test is None else reading.load(wanted.test)
        tell("label check", 0, 1)
        if label_check:
            check_labels(dataset, device)
        curve = learning_curve(
            dataset, sizes, features, recipe=start, test=test, held_out=wanted.held_out, seeds=wanted.seeds,
            ridges=ridges, targets=targets, reference_energies=reference_energies, device=device,
            kernels=machine.kernels, progress=tell,
        )  # fmt: skip
    _write_files(curve, output, figure, overwrite)
    if as_json:
        show_json(curve.as_dict())
        return
    show(_errors(curve, " ".join(data), wanted.test), _slopes(curve), curve.advice())
    written = {"numbers are": output, "figure is": figure}
    if any(written.values()):
        show(" ".join(f"The {what} in {path}." for what, path in written.items() if path))


def _check_files(output: Path | None, figure: Path | None, overwrite: bool) -> None:
    """Raise an InputError if one of the files cannot be written."""
    if output is not None:
        if output.suffix.lower() not in WRITERS:
            raise InputError(f"The numbers are written as {' or '.join(WRITERS)}, got {output}.")
        check_output(output, overwrite)
    if figure is not None:
        from ..report.style import check_figure

        check_figure(figure, overwrite=overwrite)


def _write_files(curve: LearningCurve, output: Path | None, figure: Path | None, overwrite: bool) -> None:
    if output is not None:
        write_atomically(output, WRITERS[output.suffix.lower()](curve).encode(), overwrite=overwrite)
    if figure is not None:
        from ..report.curve import draw
        from ..report.style import write_figure

        write_figure(figure, lambda: draw(curve), overwrite=overwrite)


def _numbers(option: str, text: str | None, kind: Callable[[str], Number]) -> tuple[Number, ...] | None:
    """Numbers from a text such as `100,200,500`; None if the option is not given."""
    if text is None:
        return None
    try:
        numbers = tuple(kind(part) for part in text.split(",") if part.strip())
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) <= 0:
        example = "100,200,500" if kind is int else "1e-9,1e-8"
        raise InputError(f"{option} takes positive numbers separated by commas, such as {example}, got {text!r}.")
    return numbers


def _errors(curve: LearningCurve, data: str, test: str | None) -> Group:
    from ..model.metrics import heading, mean_and_spread

    rows = []
    for features in curve.features:
        for structures in curve.sizes:
            entries = [e for e in curve.entries if (e.features, e.structures) == (features, structures)]
            ridges = sorted({entry.ridge for entry in entries})
            rows.append(
                [f"{features:,}" if structures == curve.sizes[0] else "", f"{structures:,}"]
                + [
                    mean_and_spread(quantity, curve.errors(quantity, features, structures))
                    for quantity in curve.quantities
                ]
                + [" … ".join(f"{ridge:g}" for ridge in dict.fromkeys((ridges[0], ridges[-1])))]
            )
    seeds = len({entry.seed for entry in curve.entries})
    where = f"structures of {test}" if test else f"held-out structures of {data}"
    title = f"Mean absolute errors on {curve.entries[0].metrics.structures:,} {where}"
    title += f", mean and standard deviation of {seeds} seeds" if seeds > 1 else ""
    columns = ["features", "structures", *map(heading, curve.quantities), "ridge"]
    return table(title, columns, rows, right=range(len(columns)))


def _slopes(curve: LearningCurve) -> Group:
    """Slopes of the errors along structures, and along features for the largest training set."""
    from ..model.metrics import WORDS
    from ..study.trends import OTHER

    rows = []
    for t in (*curve.trends("structures"), *curve.trends("features")):
        if t.along == "structures" or t.fixed == curve.sizes[-1]:
            slopes = (f"{slope:+.2f}".replace("-", "−") for slope in (t.slope, t.last_decade, t.end))
            rows.append((f"{WORDS[t.quantity]}, {t.fixed:,} {OTHER[t.along]}", t.along, *slopes))
    columns = ("error", "number of", "all", "last decade", "last two")
    return table("Slopes: error ∝ number^slope", columns, rows, right=(2, 3, 4))


def _csv(curve: LearningCurve) -> str:
    text, rows = io.StringIO(), curve.rows()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _json(curve: LearningCurve) -> str:
    return json.dumps(finite(curve.as_dict()), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


WRITERS: dict[str, Callable[[Any], str]] = {".json": _json, ".csv": _csv}
