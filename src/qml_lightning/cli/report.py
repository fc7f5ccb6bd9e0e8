"""`qml-lightning report`: a page that shows how a model does on labelled structures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from ..errors import InputError
from .options import Data, DataOptions, Debug, Json, MachineOptions, ModelFile, Overwrite, spread
from .overlap import shared_note
from .portions import evaluate_all
from .screen import note, notes, show, show_json, teaching
from .tables import error_table, metrics_as_json

HELP = teaching(
    """Show how a model does on structures with energies, forces or stress, as one page that needs no network.

The page has the errors by label, element and group, plots of predictions against references that are linked with a 3D
view of the structures (with the package chemiscope: pip install "qml-lightning\\[report]"), the worst structures, the
trials behind the recipe, and the card of the model. --pdf writes figures of the same for a paper, one to a page; --png
writes each to a file of its own (figure.png, figure-errors.png, …).

[bold]Examples[/bold]

  qml-lightning report ethanol.safetensors ethanol:test -o report.html
  qml-lightning report model.safetensors mine.extxyz -o report.html \\
      --pdf figure.pdf
  qml-lightning report model.safetensors mine.extxyz -o report.html \\
      --curve curve.json
"""
)


@spread
def command(
    model: ModelFile,
    data: Data,
    reading: DataOptions,
    machine: MachineOptions,
    output: Annotated[Path | None, Option("--output", "-o", help="Page to write, .html.", metavar="FILE")] = None,
    png: Annotated[Path | None, Option(help="Figures for a paper as pixels, one to a file.", metavar="FILE")] = None,
    pdf: Annotated[Path | None, Option(help="Figures for a paper as lines, one to a page.", metavar="FILE")] = None,
    curve: Annotated[
        Path | None, Option(help="Show the learning curve that `learning-curve -o FILE` wrote, .json.", metavar="FILE")
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    from ..report.learning import read_curve
    from ..report.summary import check_report, write_report

    wanted = {".html": output, ".png": png, ".pdf": pdf}
    files = [path for path in wanted.values() if path is not None]
    if not files:
        raise InputError("Name a file to write: -o report.html, --png figure.png or --pdf figure.pdf.")
    for ending, path in wanted.items():
        if path is not None and path.suffix.lower() != ending:
            raise InputError(f"Wanted a name that ends in {ending}, got {path}.")
        if path is not None:
            check_report(path, overwrite=overwrite, further=True)
            reading.refuse_as_output([*data, str(model)], path)
    known = None if curve is None else read_curve(curve)
    predictor = machine.predictor(model)
    dataset = reading.suited_to(predictor.potential).load(data)
    metrics, prediction, seconds = evaluate_all(predictor, dataset, for_report=True)
    options: Any = {"overwrite": overwrite, "curve": known, "seconds": seconds}
    files = [one for path in files for one in write_report(path, predictor.potential, dataset, prediction, **options)]
    seen = shared_note(predictor.potential, dataset)
    if as_json:
        told = {**metrics_as_json(metrics), "files": [str(path) for path in files], "notes": [seen] if seen else []}
        show_json(told)
        return
    notes(dataset.source)
    if seen:
        note(seen)
    show(error_table(f"{model.name} on {metrics.structures:,} structures", metrics))
    show(f"Written: {', '.join(map(str, files))}.")
