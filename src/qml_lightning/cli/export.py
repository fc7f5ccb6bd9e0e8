"""`qml-lightning export`: a model as a file that other programs run through metatomic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from ..errors import InputError
from ..machine.files import check_output
from .options import Debug, Json, MachineOptions, ModelFile, Overwrite, checked_precision, load_potential, spread
from .screen import facts, show, show_json, teaching

IMPORT = "import qml_lightning.adapters.metatomic"
HELP = teaching(
    """Write a model as a file of metatomic, for programs that run such files.

ASE, i-PI and TorchSim can, from Python. The file calls our native library: a program that loads it must import
qml_lightning.adapters.metatomic before. Needs the package metatomic-torch: pip install "qml-lightning\\[metatomic]".

[bold]Examples[/bold]

  qml-lightning export ethanol.safetensors -o ethanol.pt
"""
)


@spread
def command(
    model: ModelFile,
    output: Annotated[Path, Option("--output", "-o", help="File to write, .pt.", metavar="FILE")],
    machine: MachineOptions,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    if output.suffix != ".pt":
        raise InputError(f"Wanted a name that ends in .pt, got {output}.")
    check_output(output, overwrite, [model])
    machine.prepare()
    potential = load_potential(model)
    try:
        from ..adapters.metatomic import export
    except ImportError as problem:
        raise InputError(
            'This needs metatomic-torch, which is not installed. Install it: pip install "qml-lightning[metatomic]"'
        ) from problem
    export(potential, output, precision=checked_precision(machine.precision), overwrite=overwrite)
    if as_json:
        return show_json({"file": str(output), "import": IMPORT})
    show(facts("Exported", {"file": str(output), "before it is loaded": IMPORT}))
