"""The command line `qml-lightning`: one module for each command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from . import (
    check,
    data,
    datasets,
    evaluate,
    export,
    info,
    lammps,
    learning_curve,
    md,
    merge,
    predict,
    properties,
    report,
    select,
    train,
    tune,
    update,
)
from .failures import explain, signals_raised
from .help import Command, Group
from .screen import teaching

HELP = teaching(
    """Learn quantum-mechanical energies and forces by one linear solve.

Input: a file of structures with energies and forces. Output: a potential for molecular dynamics.

[bold]First steps[/bold]

  qml-lightning train ethanol:train --model ethanol.safetensors
  qml-lightning evaluate ethanol.safetensors ethanol:test
  qml-lightning predict ethanol.safetensors mine.xyz -o predicted.extxyz
  qml-lightning md ethanol.safetensors mine.xyz -o run.extxyz --steps 10000

[bold]Exit codes[/bold]

0 success, 2 wrong input, 3 not enough memory or disk, 4 unusable model file, 5 equations without a solution,
128 + n stopped by signal n (130 by Ctrl-C, 143 by SIGTERM), 1 any other failure. With --json, standard output is one
JSON object; after a failure it is {"error": …, "kind": …}.
"""
)

app = typer.Typer(
    name="qml-lightning",
    cls=Group,
    help=HELP,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
FIRST = (train, evaluate, report, predict, data, datasets, info)
for module in (*FIRST, properties, learning_curve, tune, select, update, merge, md, check, lammps, export):
    name = module.__name__.rpartition(".")[2].replace("_", "-")
    app.command(name, cls=Command, help=module.HELP)(module.command)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version as version_of

        print(f"qml-lightning {version_of('qml-lightning')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot print Å must not stop a training run
    try:
        with signals_raised():
            code = typer.main.get_command(app).main(arguments, prog_name="qml-lightning", standalone_mode=False)
    except BaseException as problem:
        if "--debug" in arguments and isinstance(problem, Exception):
            raise
        return explain(problem, as_json="--json" in arguments)
    return explain(KeyboardInterrupt(), as_json="--json" in arguments) if code == 130 else int(code or 0)
