"""`qml-lightning train`: from a file of structures to a potential."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ..machine.files import check_output, write_or_rescue
from .config import Config, path_beside, write_config
from .options import (
    DATA_HELP,
    DataOptions,
    Debug,
    Json,
    KeepOptions,
    LabelCheck,
    MachineOptions,
    MemoryOptions,
    Overwrite,
    Report,
    spread,
)
from .overlap import repeats_note, shared_note
from .portions import check_labels, evaluate_all, held_part, named_data, parts_of, refuse_useless, resumable
from .recipe_options import RecipeOptions
from .screen import note, notes, panel, progress, show, show_json, teaching, warnings_shown
from .tables import choice_table, error_table, metrics_as_json, model_facts, show_plan, symbol

if TYPE_CHECKING:
    from ..exact import ExactPotential
    from ..model.metrics import Metrics
    from ..model.potential import Potential
    from ..study.label_check import LabelReport
    from ..training.screening.decision import Screened

HELP = teaching(
    """Train a potential on structures with energies, forces or stress, and write it to a file.

DATA is a file (.npz, extended XYZ, or anything ASE reads), a stored split of it (PATH:SPLIT), a slice (PATH@0:1000), a
folder, a pattern, or a public set by name (`qml-lightning datasets`); several are read as one. Output, options and
labels are checked before the work begins.

The width of the kernel, the ridge and the energy weight are chosen from the data by smaller fits, and the rank from the
environments, unless they are given. The errors to expect are printed. --recipe default uses fixed values.

Before the fit, a warning names frames whose labels contradict all other frames. If they would ruin the fit, the command
stops: --outliers drop trains without them, --outliers keep trains on all frames.

A fit of many minutes keeps a checkpoint beside the model until it ends: if it is stopped, even by a power failure,
give the same command again with --resume. --equations keeps what `update` and `merge` need to add structures later.

[bold]Examples[/bold]

  qml-lightning train ethanol:train -m ethanol.safetensors \\
      --valid ethanol:test
  qml-lightning train mine.extxyz -m mine.safetensors --train-size 1000 \\
      --valid 0.1
  qml-lightning train "runs/*.extxyz" more/ -m mine.safetensors
  qml-lightning train --config run.toml
  qml-lightning train mine.npz:train -m mine.safetensors \\
      --energy-unit kcal/mol
  qml-lightning train crystal.traj -m crystal.safetensors --cutoff 5
  qml-lightning train large.npz -m large.safetensors \\
      --equations large.equations
  qml-lightning train large.npz -m large.safetensors --resume
  qml-lightning train mine.extxyz -m large.safetensors --features 32768 \\
      --memory 4GiB --scratch /disk
  torchrun --nproc-per-node 8 -m qml_lightning train mine.extxyz \\
      -m mine.safetensors --device cuda
"""
)
# Structures on which training errors are told when there is no --valid.
SHOWN = 500


@spread
def command(
    context: typer.Context,
    data: Annotated[list[str], Argument(help=DATA_HELP, metavar="DATA", show_default=False)],
    model: Annotated[Path, Option("--model", "-m", help="File to write, such as model.safetensors.")],
    recipe: RecipeOptions,
    reading: DataOptions,
    keep: KeepOptions,
    machine: MachineOptions,
    memory: MemoryOptions,
    train_size: Annotated[
        int | None, Option(min=1, help="Train on this many structures, drawn by the seed.", metavar="N")
    ] = None,
    valid: Annotated[
        str | None,
        Option(
            help="Structures for a test after the fit: like DATA, or a part to hold out (0.1), or a number (200).",
            metavar="DATA|PART",
        ),
    ] = None,
    config: Config = None,
    report: Report = None,
    label_check: LabelCheck = True,
    outliers: Annotated[
        str,
        Option(
            help="Frames that contradict all the others: tell (and stop if they ruin the fit), drop, stop, or keep "
            "(do not look).",
            metavar="tell|drop|stop|keep",
        ),
    ] = "tell",
    repulsion: Annotated[
        bool, Option(help="Let atoms repel each other where they are closer than any in the data.")
    ] = True,
    committee: Annotated[
        int,
        Option(
            help="Members drawn from the posterior, for uncertainties of predictions: 8, say; 0 for none.", metavar="N"
        ),
    ] = 0,
    plan: Annotated[bool, Option("--plan", help="Only print the solver, the reason, and the cost of the fit.")] = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    from .. import api
    from ..atoms.neighbours import element_indices
    from ..exact import ExactRecipe
    from ..kernels import kernels_for
    from ..machine.ranks import joined, own_rank

    rank = own_rank()  # of several processes only the first writes and speaks
    if rank == 0:
        check_output(model, overwrite)
        read = [*data, *named_data(valid)]
        reading.refuse_as_output(read, model, keep.equations, keep.checkpoint, report)
        if config is not None:
            check_output(path_beside(model), overwrite or path_beside(model).resolve() == config.resolve())
    if report is not None and rank == 0:
        from ..report.summary import check_report

        check_report(report, overwrite=overwrite)
    learning, limits, device = recipe.learning(), memory.options(), machine.prepare()
    basis = keep.basis_model()
    wanted = recipe.automatic(machine.precision, None if basis is None else basis.recipe)
    keeping = keep.options(model, overwrite, exact=isinstance(wanted, ExactRecipe))
    with progress(shown=rank == 0) as tell, warnings_shown(), joined(device) as ranks:
        on = device if ranks is None else ranks.device
        how: dict[str, Any] = {"basis": basis, "device": on, "kernels": machine.kernels, "ranks": ranks}
        # all that can fail without data, fails now
        told = {"outliers": outliers, "repulsion": repulsion, "committee": committee}
        request = api.Request.of(wanted, **told, **learning, **limits, **keeping, **how)  # type: ignore[arg-type]
        kernels_for(device, request.start.dtype, machine.kernels)
        with resumable(request.keep.checkpoint):
            tell("reading", 0, 1)
            dataset = reading.load(data)
            if rank == 0 and not as_json:
                notes(dataset.source)
            dataset, held_out = parts_of(dataset, train_size, valid, request.start.seed, reading.load)
            problem = request.problem(dataset)
            if held_out is not None:
                element_indices(held_out.structures.numbers, problem.elements)
            if plan:
                show_plan(request.plan(problem), as_json)
                return
            looked_at = request.screened(dataset, tell)
            if looked_at is not None and looked_at.dropped:
                dataset = looked_at.data
                problem = request.problem(dataset)
            tell("label check", 0, 1)
            healthy = dataset if looked_at is None else looked_at.healthy
            checked = check_labels(healthy, device) if label_check and rank == 0 else None
            tell("axes", 0, 1)
            potential = request.fit(problem, tell)
            if rank == 0:
                refuse_useless(potential.on(on, None, machine.kernels), dataset.structures)
                write_or_rescue(model, lambda path: api.save(potential, path, overwrite=overwrite))
                if config is not None:
                    write_config(path_beside(model), context, overwrite=True)
        request.keep.remove_checkpoint()
    if rank > 0:
        return

    shown = held_out or (dataset if len(dataset) <= SHOWN else dataset.subsample(SHOWN, request.start.seed))
    predictor = potential.on(device, None, machine.kernels)
    metrics, prediction, seconds = evaluate_all(predictor, shown, for_report=report is not None)
    if report is not None:
        from ..report.summary import write_summary

        write_summary(report, potential, shown, prediction, overwrite=overwrite, seconds=seconds)
    written = None if config is None else path_beside(model)
    twice = (repeats_note(dataset), shared_note(potential, held_out) if held_out is not None else "")
    done = _Trained(model, report, keep.equations, written, potential, checked, looked_at, metrics, valid, twice)
    _tell(done, as_json)


@dataclass(frozen=True)
class _Trained:
    """Facts to tell at the end of a fit."""

    model: Path
    report: Path | None
    equations: Path | None
    options: Path | None  # written back
    potential: Potential | ExactPotential
    labels: LabelReport | None
    outliers: Screened | None
    metrics: Metrics
    valid: str | None
    notes: tuple[str, ...]  # on structures that occur twice


def _tell(done: _Trained, as_json: bool) -> None:
    from ..api import header_of

    header = header_of(done.potential)
    projection = done.potential.projection
    explained = {symbol(z): float(part) for z, part in zip(done.potential.elements, projection.explained)}
    if as_json:
        show_json(
            {
                "model": str(done.model),
                "report": None if done.report is None else str(done.report),
                "equations": None if done.equations is None else str(done.equations),
                **header,
                "explained_variance": explained,
                "label_check": None if done.labels is None else asdict(done.labels),
                "notes": [text for text in done.notes if text],
                "outliers": None if done.outliers is None else done.outliers.as_dict(),
                "validation" if done.valid else "training": metrics_as_json(done.metrics),
            }
        )
        return
    for text in filter(None, done.notes):
        note(text)
    if done.outliers is not None and done.outliers.text:
        panel("Warning", done.outliers.text, colour="yellow")
    where = (
        f"Errors on {'held-out structures' if held_part(done.valid) else done.valid}"
        if done.valid
        else "Errors on the training set"
    )
    n = f"{done.metrics.structures:,} structures"
    evidence = choice_table(header["provenance"].get("choice"))
    show(model_facts("Trained", header, explained), *evidence, error_table(f"{where} ({n})", done.metrics))
    show(
        f"The model is in {done.model}."
        + (f" The report is in {done.report}." if done.report else "")
        + (f" The equations are in {done.equations}." if done.equations and done.equations.exists() else "")
        + (f" The options are in {done.options}." if done.options else "")
    )
