"""`qml-lightning train`: from a file of structures to a potential."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from ..errors import InputError
from ..machine.files import check_output, write_or_rescue
from .config import Config, path_beside, write_config
from .options import (
    Data,
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
from .portions import (
    check_labels,
    evaluate_all,
    held_part,
    named_data,
    parts_of,
    refuse_two_kinds_of_energies,
    refuse_useless,
    resumable,
)
from .recipe_options import RecipeOptions
from .screen import note, notes, panel, progress, show, show_json, teaching, warnings_shown
from .tables import choice_table, error_table, metrics_as_json, model_facts, show_plan, symbol

if TYPE_CHECKING:
    import torch

    from ..api import AnyPotential, AnyRecipe, Request
    from ..datasets import Dataset
    from ..machine.progress import Progress
    from ..model.metrics import Metrics
    from ..model.predictor import Prediction
    from ..study.label_check import LabelReport
    from ..training.problem import Problem
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
    data: Data,
    recipe: RecipeOptions,
    reading: DataOptions,
    keep: KeepOptions,
    machine: MachineOptions,
    memory: MemoryOptions,
    model: Annotated[
        Path | None, Option("--model", "-m", help="File to write, such as model.safetensors; --plan needs none.")
    ] = None,
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
    from ..api import Request
    from ..kernels import kernels_for
    from ..machine.ranks import joined, own_rank

    first = own_rank() == 0  # of several processes only the first writes and speaks
    files = _Files(model, report, keep.equations, config, overwrite)
    files.check(plan, first)
    if first and not plan:
        reading.refuse_as_output([*data, *named_data(valid)], model, keep.equations, keep.checkpoint, report)
    device = machine.prepare()
    wanted, options = _wanted(files, recipe, keep, machine, memory)
    options |= {"outliers": outliers, "repulsion": repulsion, "committee": committee}
    with progress(shown=first) as tell, warnings_shown(), joined(device) as ranks:
        on = device if ranks is None else ranks.device
        # all that can fail without data, fails now
        request = Request.of(wanted, device=on, ranks=ranks, **options)
        kernels_for(device, request.start.dtype, machine.kernels)
        with resumable(request.keep.checkpoint):
            tell("reading", 0, 1)
            read = reading.load(data)
            if first and not as_json:
                notes(read.source)
            dataset, held_out = parts_of(read, train_size, valid, request.start.seed, reading.load)
            problem = _problem(request, dataset, held_out)
            if plan:
                show_plan(request.plan(problem), as_json)
                return
            fitted = _fitted(request, problem, dataset, device if label_check and first else None, tell)
            if first:
                refuse_useless(fitted.potential.on(on, None, machine.kernels), fitted.data.structures)
                files.write(fitted.potential, context)
        request.keep.remove_checkpoint()
    if first:
        shown = held_out or fitted.shown(request.start.seed)
        predictor = fitted.potential.on(device, None, machine.kernels)
        metrics, prediction, seconds = evaluate_all(predictor, shown, for_report=report is not None)
        files.write_report(fitted.potential, shown, prediction, seconds)
        _tell(_Told(files, fitted, metrics, valid, fitted.repeats(held_out)), as_json)


@dataclass(frozen=True)
class _Files:
    """Files that the command writes, besides checkpoints."""

    model: Path | None  # None: only the plan is told
    report: Path | None
    equations: Path | None
    config: Path | None  # file of options that was read
    overwrite: bool

    @property
    def options(self) -> Path | None:
        """File beside the model with the options that were given, if a file of options was read."""
        return None if self.config is None or self.model is None else path_beside(self.model)

    def check(self, plan: bool, first: bool) -> None:
        """Raise an InputError if one has no name, cannot be written or must not be replaced."""
        if self.model is None and not plan:
            raise InputError("Name the file to write: --model model.safetensors, or -m. Only --plan needs none.")
        if not first:
            return
        if self.model is not None:
            check_output(self.model, self.overwrite)
        if self.options is not None and self.config is not None:
            check_output(self.options, self.overwrite or self.options.resolve() == self.config.resolve())
        if self.report is not None:
            from ..report.summary import check_report

            check_report(self.report, overwrite=self.overwrite)

    def write(self, potential: AnyPotential, context: typer.Context) -> None:
        """Write the model, and the options beside it."""
        from ..api import save

        if self.model is not None:
            write_or_rescue(self.model, lambda path: save(potential, path, overwrite=self.overwrite))
        if self.options is not None:
            write_config(self.options, context, overwrite=True)

    def write_report(self, potential: AnyPotential, data: Dataset, prediction: Prediction, seconds: float) -> None:
        """Write the report, if one is wanted."""
        if self.report is not None:
            from ..report.summary import write_summary

            write_summary(self.report, potential, data, prediction, overwrite=self.overwrite, seconds=seconds)

    def told(self) -> str:
        """Sentences that name the files."""
        return (
            f"The model is in {self.model}."
            + (f" The report is in {self.report}." if self.report else "")
            + (f" The equations are in {self.equations}." if self.equations and self.equations.exists() else "")
            + (f" The options are in {self.options}." if self.options else "")
        )


def _wanted(
    files: _Files, recipe: RecipeOptions, keep: KeepOptions, machine: MachineOptions, memory: MemoryOptions
) -> tuple[AnyRecipe, dict[str, Any]]:
    """Recipe that the command line asks for, and the other options of `fit`."""
    from ..exact import ExactRecipe

    options = {**recipe.learning(), **memory.options(), "kernels": machine.kernels}
    basis = keep.basis_model()
    wanted = recipe.automatic(machine.precision, None if basis is None else basis.recipe)
    options |= keep.options(files.model, files.overwrite, exact=isinstance(wanted, ExactRecipe))
    return wanted, {**options, "basis": basis}


def _problem(request: Request, data: Dataset, held_out: Dataset | None) -> Problem:
    """The problem of learning from `data`; an InputError if held-out structures have an element that it lacks."""
    from ..atoms.neighbours import element_indices

    problem = request.problem(data)
    if held_out is not None:
        element_indices(held_out.structures.numbers, problem.elements)
    return problem


@dataclass(frozen=True)
class _Fitted:
    """A potential, the data that it was trained on, and the findings of the checks before."""

    potential: AnyPotential
    data: Dataset
    labels: LabelReport | None
    outliers: Screened | None

    def shown(self, seed: int) -> Dataset:
        """Training structures on which errors are told if none are held out."""
        return self.data if len(self.data) <= SHOWN else self.data.subsample(SHOWN, seed)

    def repeats(self, held_out: Dataset | None) -> tuple[str, ...]:
        """Sentences about structures that occur twice."""
        shared = "" if held_out is None else shared_note(self.potential, held_out)
        return tuple(text for text in (repeats_note(self.data), shared) if text)


def _fitted(request: Request, problem: Problem, data: Dataset, device: torch.device | None, tell: Progress) -> _Fitted:
    """Look for outliers, check the labels on `device` (None: do not), and fit."""
    if device is not None:
        refuse_two_kinds_of_energies(data)
    outliers = request.screened(data, tell)
    if outliers is not None and outliers.dropped:
        data = outliers.data
        problem = request.problem(data)
    tell("label check", 0, 1)
    healthy = data if outliers is None else outliers.healthy
    labels = None if device is None else check_labels(healthy, device)
    tell("axes", 0, 1)
    return _Fitted(request.fit(problem, tell), data, labels, outliers)


@dataclass(frozen=True)
class _Told:
    """Facts to tell at the end of a fit."""

    files: _Files
    fitted: _Fitted
    metrics: Metrics
    valid: str | None
    notes: tuple[str, ...]  # on structures that occur twice


def _tell(done: _Told, as_json: bool) -> None:
    from ..api import header_of

    potential, outliers = done.fitted.potential, done.fitted.outliers
    header = header_of(potential)
    explained = {symbol(z): float(part) for z, part in zip(potential.elements, potential.projection.explained)}
    if as_json:
        show_json(_as_json(done, header, explained))
        return
    for text in done.notes:
        note(text)
    if outliers is not None and outliers.text:
        panel("Warning", outliers.text, colour="yellow")
    where = (
        f"Errors on {'held-out structures' if held_part(done.valid) else done.valid}"
        if done.valid
        else "Errors on the training set"
    )
    n = f"{done.metrics.structures:,} structures"
    evidence = choice_table(header["provenance"].get("choice"))
    show(model_facts("Trained", header, explained), *evidence, error_table(f"{where} ({n})", done.metrics))
    show(done.files.told())


def _as_json(done: _Told, header: dict[str, Any], explained: dict[str, float]) -> dict[str, Any]:
    files, labels, outliers = done.files, done.fitted.labels, done.fitted.outliers
    return {
        "model": str(files.model),
        "report": None if files.report is None else str(files.report),
        "equations": None if files.equations is None else str(files.equations),
        **header,
        "explained_variance": explained,
        "label_check": None if labels is None else asdict(labels),
        "notes": list(done.notes),
        "outliers": None if outliers is None else outliers.as_dict(),
        "validation" if done.valid else "training": metrics_as_json(done.metrics),
    }
