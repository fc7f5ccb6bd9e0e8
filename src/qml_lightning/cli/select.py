"""`qml-lightning select`: the structures of a pool that are worth labelling."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..errors import InputError
from ..machine.files import check_output
from .options import (
    DATA_HELP,
    DataOptions,
    Debug,
    Json,
    MachineOptions,
    Overwrite,
    equations_of_model,
    load_features,
    spread,
)
from .screen import show, show_json, teaching, warnings_shown

HELP = teaching(
    """Choose the structures of a pool that would teach a model most, to label them and add them with `update`.

The choice is made with the posterior of the equations that the model was trained from (train --equations), one
structure after the other: each next one makes the forces of the whole pool most certain. So they are not merely the
most uncertain structures, and no two are alike. With --criterion determinant, each next one tells most about the
weights (D-optimal), wherever in the pool that is. Labels of the pool are ignored.

--model takes the equations from the file beside it that has its name and ends in .equations, if --equations names no
other one, and its ridge and energy weight. Equations of another model are refused.

[bold]Examples[/bold]

  qml-lightning train first.extxyz -m model.safetensors \\
      --equations model.equations
  qml-lightning select trajectory.extxyz -n 20 --model model.safetensors \\
      -o chosen.extxyz
"""
)


@spread
def command(
    pool: Annotated[str, Argument(help=DATA_HELP, metavar="POOL", show_default=False)],
    number: Annotated[int, Option("--number", "-n", min=1, help="Structures to choose.")],
    output: Annotated[Path, Option("--output", "-o", help="File to write: .extxyz or .xyz.")],
    reading: DataOptions,
    machine: MachineOptions,
    model: Annotated[Path | None, Option("--model", "-m", help="A model that `train` wrote.", metavar="FILE")] = None,
    equations: Annotated[
        Path | None,
        Option(
            help="Its equations (train --equations). By default the file MODEL.equations beside it.", metavar="FILE"
        ),
    ] = None,
    criterion: Annotated[
        str, Option(help="variance: make the forces of the pool certain; determinant: make the weights certain.")
    ] = "variance",
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    from ..datasets import writers
    from ..machine.compute import Compute
    from ..study.selection import select
    from ..training.equations_file import load_equations

    check_output(output, overwrite, [one for one in (model, equations) if one is not None])
    reading.refuse_as_output([pool], output)
    if writers.check_ending(output) != ".extxyz":
        raise InputError(f"{output.name}: structures without labels are written as .extxyz or .xyz.")
    device = machine.prepare()
    structures = reading.load(pool, labels="ignored").structures
    with warnings_shown():
        if model is not None:
            potential = load_features(model)
            known = equations_of_model(equations or model.with_suffix(".equations"), model, potential, "cpu")
            known = replace(known, basis=known.basis.with_recipe(potential.recipe))
        elif equations is not None:
            known = load_equations(equations)
        else:
            raise InputError("Name the model with --model, or its equations with --equations.")
        compute = Compute(device, machine.kernels)
        found = select(known, structures, number, criterion=criterion, compute=compute)  # type: ignore[arg-type]
    writers.write_extxyz(output, structures.select(list(found.index)), overwrite=overwrite)
    if as_json:
        show_json({"output": str(output), "index": list(found.index), "gains": list(found.gains)})
        return
    first, last = found.gains[0], found.gains[-1]
    told = f"{number} of {len(structures):,} structures are in {output}. "
    if criterion == "determinant":
        show(f"{told}The first tells {first:.3g} nats about the weights, the last one {last:.3g}.")
    else:
        show(
            f"{told}They take away {100 * sum(found.gains):.0f} % of the variance of the forces of the pool, the first "
            f"of them {100 * first:.2g} %, the last one {100 * last:.2g} %."
        )
