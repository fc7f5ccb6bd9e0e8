"""`qml-lightning check`: whether a model is safe to run molecular dynamics with."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit

from ..errors import SolveError
from .md import first_structure
from .options import Debug, Json, MachineOptions, ModelFile, load_potential, spread
from .screen import show, show_json, table, teaching, warnings_shown

HELP = teaching(
    """Look for holes in a potential, and test its forces, before molecular dynamics.

Two atoms of each pair of elements are brought together down to 0.3 Å: the energy must rise. With a structure, it is
compressed and stretched, its forces and stress are compared with finite differences, and a short run at constant energy
tells the drift.

[bold]Examples[/bold]

  qml-lightning check silicon.safetensors
  qml-lightning check silicon.safetensors crystal.extxyz
"""
)
FAILED = 5  # exit code


@spread
def command(
    model: ModelFile,
    machine: MachineOptions,
    structure: Annotated[Path | None, Argument(help="File with a structure to test.", metavar="STRUCTURE")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    machine.prepare()
    from ..dynamics.checks import check_model

    with warnings_shown():
        found = check_model(load_potential(model), None if structure is None else first_structure(structure))
    failed = [one.name for one in found if not one.passed]
    if as_json:
        show_json({"passed": not failed, "findings": [asdict(one) for one in found]})
        raise Exit(FAILED if failed else 0)
    rows = [[one.name, "passed" if one.passed else "failed", one.words] for one in found]
    show(table(f"Checks of {model.name}", ["check", "", "found"], rows))
    if failed:
        raise SolveError(
            f"{len(failed)} of {len(found)} checks failed: {', '.join(failed)}. Train with repulsion (the default of "
            "`train`), or add structures of that kind to the training set."
        )
