"""`qml-lightning properties`: a model of several properties from one pass over the structures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from ..errors import InputError
from ..machine.files import check_output, write_or_rescue
from .options import Data, DataOptions, Debug, Json, MachineOptions, MemoryOptions, NewModel, Overwrite, spread
from .portions import named_data, parts_of
from .recipe_options import RecipeOptions
from .screen import facts, progress, show, show_json, table, teaching, warnings_shown

if TYPE_CHECKING:
    from rich.console import Group

    from ..datasets import Dataset
    from ..model.properties import Kind, PropertyModel, PropertyPredictor

HELP = teaching(
    """Train a model of other properties than energies and forces: several at once, from one pass over the structures.

--property names keys of the file: numbers in the header of each frame of extended XYZ, or arrays of a .npz file. They
are learnt as sums over atoms (extensive: polarisability, heat capacity, an energy), or as means over atoms if they are
among --intensive (orbital energies, a gap). --dipole names vectors: charges that depend on the environment, times
positions, of neutral molecules. Every property keeps the unit that it has in the file, and gets a ridge of its own.

The recipe is chosen for the first property unless it is given, as in `train`. `predict` and `evaluate` take the model.

[bold]Examples[/bold]

  qml-lightning properties mine.extxyz -m mine.safetensors \\
      --property alpha,gap --intensive gap
  qml-lightning properties qm9:train_pool -m qm9.safetensors \\
      --property alpha,homo,lumo,Cv --intensive homo,lumo \\
      --train-size 4000 --valid qm9:test
  qml-lightning properties water.extxyz -m water.safetensors --dipole dipole
"""
)


@spread
def command(
    data: Data,
    model: NewModel,
    recipe: RecipeOptions,
    reading: DataOptions,
    machine: MachineOptions,
    memory: MemoryOptions,
    properties: Annotated[
        str, Option("--property", help="Keys of the properties in the file.", metavar="KEY,KEY…")
    ] = "",
    intensive: Annotated[
        str, Option(help="Those of them that are means over atoms, not sums.", metavar="KEY,KEY…")
    ] = "",
    dipole: Annotated[str, Option(help="Key of a dipole: three numbers for each frame.", metavar="KEY")] = "",
    train_size: Annotated[
        int | None, Option(min=1, help="Train on this many structures, drawn by the seed.", metavar="N")
    ] = None,
    valid: Annotated[
        str | None,
        Option(help="Structures for a test after the fit: like DATA, or a part to hold out (0.1), or a number (200).",
               metavar="DATA|PART"),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:  # fmt: skip
    from .. import api
    from ..exact import ExactRecipe

    check_output(model, overwrite)
    reading.refuse_as_output([*data, *named_data(valid)], model)
    if reading.baseline:
        raise InputError("--baseline is for energies. Subtract a baseline of a property in the file, as another key.")
    kinds = _kinds(_listed(properties), _listed(intensive), _listed(dipole))
    chosen = recipe.automatic(machine.precision)
    if isinstance(chosen, ExactRecipe):
        raise InputError("Properties are learnt with random features only. Leave out --method.")
    device = machine.prepare()
    options: dict[str, Any] = {"device": device, "kernels": machine.kernels, **_limit(memory)}
    if recipe.ridge is not None:
        options["ridge"] = recipe.ridge
    with progress() as tell, warnings_shown():
        tell("reading", 0, 1)

        def load(source: Any) -> Dataset:
            return reading.load(source, labels="ignored", columns=list(kinds))

        seed = chosen.seed if hasattr(chosen, "seed") else chosen.start.seed
        dataset, held_out = parts_of(load(data), train_size, valid, seed, load)
        made = api.fit_properties(dataset, list(kinds), kinds=kinds, recipe=chosen, progress=tell, **options)
        write_or_rescue(model, lambda path: made.save(str(path), overwrite=overwrite))
    errors = None if held_out is None else property_errors(made.on(device, None, machine.kernels), held_out)
    if as_json:
        show_json({"model": str(model), **property_header(made), "validation": errors})
        return
    show(facts("Trained", made.facts()))
    if errors is not None and held_out is not None:
        show(property_table(f"Errors on {len(held_out):,} structures", errors))
    show(f"The model is in {model}.")


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _kinds(names: list[str], intensive: list[str], dipoles: list[str]) -> dict[str, Kind]:
    """Kind of each property; an InputError if none is named, or a mean over atoms is no property."""
    if not names and not dipoles:
        raise InputError("Name the properties to learn: --property alpha,gap, or --dipole mu for vectors.")
    if strange := [name for name in intensive if name not in names]:
        raise InputError(f"--intensive names {', '.join(strange)}, which --property does not name. Add it there.")
    if twice := [name for name in dipoles if name in names]:
        raise InputError(f"{', '.join(twice)}: a property is named by --property or by --dipole, not by both.")
    sums: dict[str, Kind] = {name: "intensive" if name in intensive else "extensive" for name in names}
    return {**sums, **dict.fromkeys(dipoles, "dipole")}


def _limit(memory: MemoryOptions) -> dict[str, Any]:
    if memory.scratch is not None:
        raise InputError("Properties are learnt in memory. Leave out --scratch, and use fewer --features.")
    return {"memory_limit": memory.options()["memory_limit"]}


def property_header(made: PropertyModel) -> dict[str, Any]:
    """JSON header of the file of a model."""
    from ..model.property_file import header_of

    return header_of(made)


def property_errors(predictor: PropertyPredictor, data: Dataset) -> dict[str, dict[str, float]]:
    """MAE and RMSE of each property, of components of a dipole."""
    import torch

    found = predictor.predict(data.structures)
    past = {name: values - torch.from_numpy(data.columns[name]).reshape_as(values) for name, values in found.items()}
    return {
        name: {"mae": float(error.abs().mean()), "rmse": float(error.square().mean().sqrt())}
        for name, error in past.items()
    }


def property_table(title: str, errors: dict[str, dict[str, float]]) -> Group:
    """MAE and RMSE of each property, in the units of the file."""
    rows = [(name, f"{error['mae']:.4g}", f"{error['rmse']:.4g}") for name, error in errors.items()]
    return table(title, ("in the unit of the file", "MAE", "RMSE"), rows, right=(1, 2))
