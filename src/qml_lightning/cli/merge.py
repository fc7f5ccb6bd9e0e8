"""`qml-lightning merge`: the sum of the equations of several fits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..errors import InputError
from ..machine.files import check_output
from .options import Debug, Json, Overwrite, Repeated
from .screen import progress, show, show_json, teaching
from .tables import equations_facts

HELP = teaching(
    """Add the equations of several fits. The sum is that of one fit to all their structures.

All fits must have the same basis: train the first one, then the others with --basis and the model of the first. The
fits may run on different machines. `update` makes a model from the sum.

[bold]Examples[/bold]

  qml-lightning train a.npz -m a.safetensors --equations a.equations
  qml-lightning train b.npz -m b.safetensors --equations b.equations \\
      --basis a.safetensors
  qml-lightning merge a.equations b.equations -o both.equations
  qml-lightning update a.safetensors --equations both.equations \\
      -o both.safetensors
"""
)


def command(
    equations: Annotated[
        list[Path], Argument(help="Files written by train --equations.", metavar="EQUATIONS…", show_default=False)
    ],
    output: Annotated[Path, Option("--output", "-o", help="File to write.")],
    repeated: Repeated = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    check_output(output, overwrite, equations)
    if len(equations) < 2:
        raise InputError("Give at least two files of equations to add.")

    from ..training.equations import merged
    from ..training.equations_file import header_of, load_equations, save_equations

    with progress() as tell:
        tell("merging", 0, len(equations))
        whole = load_equations(equations[0])
        for done, path in enumerate(equations[1:], 2):
            try:
                whole = merged(whole, load_equations(path), repeated=repeated)
            except InputError as problem:
                raise InputError(f"{path}: {problem}") from problem
            tell("merging", done, len(equations))
        save_equations(whole, output, overwrite=overwrite)
    header = header_of(whole)
    if as_json:
        show_json({"output": str(output), **header})
    else:
        show(equations_facts("Merged", header), f"The equations are in {output}.")
