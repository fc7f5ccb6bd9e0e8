"""Options that several commands share, each declared once."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from typer import Argument, Option

from ..errors import InputError
from ..machine.files import check_output
from ..machine.memory import bytes_from
from .screen import warnings_shown

if TYPE_CHECKING:
    import torch

    from ..datasets import Dataset
    from ..exact import ExactPotential
    from ..model.potential import Model, Potential
    from ..model.predictor import Predictor
    from ..model.properties import PropertyModel
    from ..model.recipe import Precision
    from ..training.equations import Equations

Json = Annotated[bool, Option("--json", help="Print one JSON object instead of tables.")]
Debug = Annotated[bool, Option("--debug", help="On failure, show where in the code it happened.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace files that exist.")]

Report = Annotated[
    Path | None,
    Option("--report", help="Also write a report: a page (.html) or a figure (.png, .pdf).", metavar="FILE"),
]
Repeated = Annotated[bool, Option("--repeated", help="Let structures count twice that are in already.")]
LabelCheck = Annotated[bool, Option(help="Check that forces are the slope of the energies (seconds).")]

# First word of a baseline that is a calculator of ASE.
CALCULATOR = "calculator "
# Threads that one processor is given, at most: more of them only wait for each other.
THREADS_OF_EACH = 16

DATA, KEEP, MACHINE = "Data", "What to keep", "Machine"
DATA_HELP = (
    "PATH, PATH:SPLIT, PATH@SLICE, a folder, a pattern such as 'run*.xyz', or a name of `qml-lightning datasets`; "
    "several are read as one."
)

Data = Annotated[list[str], Argument(help=DATA_HELP, metavar="DATA", show_default=False)]
ModelFile = Annotated[Path, Argument(help="A model that `train` wrote.", metavar="MODEL", show_default=False)]
NewModel = Annotated[Path, Option("--model", "-m", help="File to write, such as model.safetensors.")]


@dataclass(frozen=True)
class DataOptions:
    """How a file of structures is to be read."""

    energy_unit: Annotated[
        str | None,
        Option(help="What energies are in, if the file does not say: eV, kcal/mol, Hartree, kJ/mol …",
               metavar="UNIT", rich_help_panel=DATA),
    ] = None  # fmt: skip
    length_unit: Annotated[
        str | None, Option(help="What coordinates are in: Å or Bohr.", metavar="UNIT", rich_help_panel=DATA)
    ] = None
    force_unit: Annotated[
        str | None,
        Option(help="What forces are in, if not energy over length, such as Hartree/Bohr.",
               metavar="UNIT", rich_help_panel=DATA),
    ] = None  # fmt: skip
    stress_unit: Annotated[
        str | None,
        Option(help="What stress is in, if not energy over volume: kbar, GPa; -kbar where compression is positive.",
               metavar="UNIT", rich_help_panel=DATA),
    ] = None  # fmt: skip
    energy_key: Annotated[
        str | None,
        Option(help='Name of the energies in the file; "" leaves them out.', metavar="KEY", rich_help_panel=DATA),
    ] = None
    forces_key: Annotated[
        str | None,
        Option(help='Name of the forces in the file; "" leaves them out.', metavar="KEY", rich_help_panel=DATA),
    ] = None
    stress_key: Annotated[
        str | None,
        Option(help='Name of the stress in the file; "" leaves it out.', metavar="KEY", rich_help_panel=DATA),
    ] = None
    baseline: Annotated[
        str | None,
        Option(help="Name of energies of a cheaper method in the file: the difference is learnt, and predictions are "
               'added to them. A model knows its own; "" leaves it out.', metavar="KEY", rich_help_panel=DATA),
    ] = None  # fmt: skip
    data_folder: Annotated[
        Path | None,
        Option(help="Where files of named data sets are, besides $QML_LIGHTNING_DATA.",
               metavar="FOLDER", rich_help_panel=DATA),
    ] = None  # fmt: skip

    def load(
        self,
        source: str | Sequence[str],
        *,
        labels: Literal["optional", "required", "ignored"] = "required",
        columns: Sequence[str] = (),
    ) -> Dataset:
        """The data set of one source or several. Warnings are printed."""
        from ..datasets import load

        with warnings_shown():
            return load(
                source,
                energy_unit=self.energy_unit,
                length_unit=self.length_unit,
                force_unit=self.force_unit,
                stress_unit=self.stress_unit,
                energy_key=self.energy_key,
                forces_key=self.forces_key,
                stress_key=self.stress_key,
                labels=labels,
                columns=columns,
                baseline=self.baseline,
                data_folder=self.data_folder,
            )

    def refuse_as_output(self, data: Sequence[str], *outputs: Path | None) -> None:
        """Raise an InputError if one of these files to write holds some of the data: labels would be lost."""
        from ..datasets.several import files_of

        inputs = files_of(data)
        for output in outputs:
            if output is not None:
                check_output(output, overwrite=True, inputs=inputs)

    def suited_to(self, model: Model) -> DataOptions:
        """These options with the baseline of a model, unless another is given."""
        if self.baseline and not model.corrects:
            raise InputError("The model was trained on whole energies and corrects nothing. Leave out --baseline.")
        if self.baseline is not None or not model.corrects:
            return self
        if model.corrects.startswith(CALCULATOR):
            raise InputError(
                f"The model corrects a {model.corrects}, which this command cannot run. In Python, "
                'potential.calculator(baseline=…) adds both; --baseline "" here gives the correction alone.'
            )
        return replace(self, baseline=model.corrects)


@dataclass(frozen=True)
class KeepOptions:
    """Files that a fit keeps besides the model, and files that it goes on from."""

    equations: Annotated[
        Path | None,
        Option(help="Also keep the equations, for `update` and `merge`.", metavar="FILE", rich_help_panel=KEEP),
    ] = None
    basis: Annotated[
        Path | None,
        Option(help="Use axes, features and recipe of this model, so that the equations of both can be merged.",
               metavar="MODEL", rich_help_panel=KEEP),
    ] = None  # fmt: skip
    checkpoint: Annotated[
        Path | None,
        Option(help="Where to write checkpoints; by default beside the model, MODEL.checkpoint. Removed at the end.",
               metavar="FILE", rich_help_panel=KEEP),
    ] = None  # fmt: skip
    checkpoint_seconds: Annotated[
        float, Option(min=0.0, help="Time between two checkpoints.", metavar="S", rich_help_panel=KEEP)
    ] = 180.0
    resume: Annotated[bool, Option(help="Go on from the checkpoint, if there is one.", rich_help_panel=KEEP)] = False

    def basis_model(self) -> Potential | None:
        """The model whose basis is to be used, if one is named."""
        return None if self.basis is None else load_features(self.basis)

    def options(self, model: Path | None, overwrite: bool, *, exact: bool) -> dict[str, Any]:
        """Options of `fit`. Checkpoints go beside the model by default; explicit kernels have none."""
        checkpoint = self.checkpoint
        if checkpoint is None and model is not None and (self.resume or not exact):
            checkpoint = model.with_name(model.name + ".checkpoint")
        return {
            "equations": self.equations,
            "checkpoint": checkpoint,
            "checkpoint_seconds": self.checkpoint_seconds,
            "resume": self.resume,
            "overwrite": overwrite,
        }


@dataclass(frozen=True)
class MachineOptions:
    """Threads, device, kernels and precision to compute with."""

    threads: Annotated[
        int | None, Option(min=1, help="Processor cores to use; by default all.", rich_help_panel=MACHINE)
    ] = None
    device: Annotated[str, Option(help="cpu, cuda, cuda:1 …", rich_help_panel=MACHINE)] = "cpu"
    kernels: Annotated[
        str | None,
        Option(help="Back-end, instead of the best one; `qml-lightning info` lists them.", metavar="NAME",
               rich_help_panel=MACHINE),
    ] = None  # fmt: skip
    precision: Annotated[
        str | None,
        Option(help="float32 or float64, of representation and features; by default that of recipe or model.",
               metavar="float32|float64", rich_help_panel=MACHINE),
    ] = None  # fmt: skip

    def prepare(self) -> torch.device:
        """The device, after setting the number of threads; an InputError if it is not there."""
        import torch

        most = THREADS_OF_EACH * (os.cpu_count() or 1)
        if self.threads is not None and self.threads > most:
            raise InputError(
                f"--threads {self.threads} is too many for {os.cpu_count()} processors. Use at most {most}; as many as "
                "there are processors are best."
            )
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        if self.device.partition(":")[0] == "cuda" and not torch.cuda.is_available():
            built = "" if torch.version.cuda else f" (torch {torch.__version__} is a build for the CPU)"
            raise InputError(
                f"--device {self.device} needs an NVIDIA GPU with its driver and a CUDA build of torch, and torch sees "
                f"none{built}. Use --device cpu, or see `qml-lightning info` for the devices."
            )
        try:
            device = torch.device(self.device)
            torch.zeros(
                1, dtype=torch.float64, device=device
            )  # energies are summed in float64, which MPS does not have
        except (RuntimeError, AssertionError, NotImplementedError, TypeError) as problem:
            reason = str(problem).strip().split("\n")[0].split(". ")[0]  # torch goes on with lists of back-ends
            raise InputError(f"The device {self.device!r} cannot be used ({reason}). Use --device cpu.") from problem
        return device

    def predictor(self, model: Path) -> Predictor:
        """Predictor of a model file, with this device, kernels and precision."""
        device = self.prepare()
        return load_potential(model).on(device, checked_precision(self.precision), self.kernels)


@dataclass(frozen=True)
class MemoryOptions:
    """How much of the machine a fit may take."""

    memory: Annotated[
        str | None,
        Option(help="Keep within this much memory, such as 4GiB; equations that do not fit go to --scratch.",
               metavar="SIZE", rich_help_panel=MACHINE),
    ] = None  # fmt: skip
    scratch: Annotated[
        Path | None,
        Option(help="Folder on a disk for equations that do not fit in memory; by default $TMPDIR or /var/tmp.",
               metavar="FOLDER", rich_help_panel=MACHINE),
    ] = None  # fmt: skip

    def options(self) -> dict[str, Any]:
        """Options of `fit`."""
        return {"memory_limit": None if self.memory is None else bytes_from(self.memory), "scratch": self.scratch}


def checked_precision(text: str | None) -> Precision | None:
    """`text`, if it names a precision or is None; else an InputError."""
    if text not in (None, "float32", "float64"):
        raise InputError(f"--precision is float32 or float64, got {text!r}.")
    return text  # type: ignore[return-value]  # one of the three


def load_potential(model: Path) -> Potential | ExactPotential:
    """The potential of a model file."""
    from ..api import load

    return load(model)


def load_properties(model: Path) -> PropertyModel | None:
    """The model of properties in a file; None if the file holds a potential."""
    from ..model import property_file
    from ..model.file import read_header

    return property_file.load(model) if read_header(model).get("kind") == property_file.KIND else None


def load_features(model: Path) -> Potential:
    """The potential of a model file, which must have random features."""
    from ..model.potential import Potential

    potential = load_potential(model)
    if not isinstance(potential, Potential):
        raise InputError(f"{model} has explicit kernels and no random features. Use a model that has.")
    return potential


def equations_of_model(equations: Path, model: Path, potential: Potential, device: torch.device | str) -> Equations:
    """Equations in a file; an InputError if they are not those of the model."""
    from ..training.equations_file import load_equations

    gathered = load_equations(equations, device=device)
    if difference := potential.basis.difference(gathered.basis):
        raise InputError(f"{equations} does not hold the equations of {model}: {difference}.")
    return gathered


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its dataclass parameters as parameters of their own, which typer can offer.

    typer has no notion of options that belong together; without this every command would repeat all of them.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        its_hints = get_type_hints(groups[name], include_extras=True)
        parameters += [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=its_hints[f.name])
            for f in fields(groups[name])
        ]

    @functools.wraps(command)
    def spread_command(**values: Any) -> None:
        made = {name: group(**{f.name: values.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
        command(**values, **made)

    spread_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spread_command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return spread_command
