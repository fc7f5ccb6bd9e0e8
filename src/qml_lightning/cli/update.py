"""`qml-lightning update`: structures added to an earlier fit, or taken out of it, without its data."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ..errors import InputError
from ..machine.files import check_output
from ..machine.journal import sweep_up_together, together
from .options import (
    DATA_HELP,
    DataOptions,
    Debug,
    Json,
    LabelCheck,
    MachineOptions,
    ModelFile,
    Overwrite,
    Repeated,
    equations_of_model,
    load_features,
    spread,
)
from .portions import check_labels
from .screen import progress, show, show_json, teaching
from .tables import equations_facts, model_facts, of_file

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ..datasets import Dataset
    from ..linear.ridge import Ridge
    from ..model.potential import Potential
    from ..model.recipe import Recipe
    from ..model.repulsion import Repulsion
    from ..training.equations import Equations

HELP = teaching(
    """Add structures to an earlier fit, or take them out again, without the data it was made from.

The model and the equations that train --equations kept are replaced by new ones, both or none; with -o the model goes
to another file. The result is that of training on all structures with the axes and features of MODEL. Without NEWDATA
the equations are solved again, with another ridge or energy weight if you like. The committee of MODEL is drawn
anew, and keeps its calibration.

[bold]Examples[/bold]

  qml-lightning update m.safetensors new.extxyz --equations m.equations
  qml-lightning update m.safetensors new.extxyz --equations m.equations \\
      -o m2.safetensors
  qml-lightning update m.safetensors bad.extxyz --equations m.equations \\
      --remove
  qml-lightning update m.safetensors --equations m.equations \\
      -o smooth.safetensors --ridge 1e-8
"""
)


@dataclass(frozen=True)
class _Change:
    """An earlier model, and what is to change."""

    earlier: Potential
    recipe: Recipe
    ridge: Ridge | None  # used as it is; None: that of the model, which is refined if it was chosen
    data: Dataset | None  # structures to add or remove; None: none
    remove: bool

    def solved(self, equations: Equations) -> Potential:
        """The potential of the changed equations, which are used up."""
        from ..training.solvers.direct import solved

        potential = solved(equations, self.recipe, self.ridge, use_up=True, committee=self.earlier.committee)
        return replace(potential, trained_on=self._trained_on(equations), repulsion=self._repulsion(equations))

    def _trained_on(self, equations: Equations) -> Tensor | None:
        """Fingerprints of all structures in the equations, which `merge` may have added; None if they are not known."""
        import torch

        from ..atoms.fingerprints import geometry_fingerprints

        known = self.earlier.trained_on
        if equations.geometries is not None or known is None:
            return equations.geometries
        # equations of an older version: the model knows its own structures
        if self.data is not None:
            new = geometry_fingerprints(self.data.structures)
            known = known[~torch.isin(known, new)] if self.remove else torch.cat([known, new])
        return known if len(known) == len(equations.structures) else None

    def _repulsion(self, equations: Equations) -> Repulsion | None:
        """Repulsion that does not act on new structures or on those in the equations, which `merge` may have added.

        It does not act on structures that are taken out, either.
        """
        repulsion = self.earlier.repulsion
        if repulsion is None:
            return None
        if self.data is not None and not self.remove:
            repulsion = repulsion.and_below(self.data.structures, self.earlier.recipe.representation.cutoff)
        return repulsion.and_of(equations.bounds)


def _changed(recipe: Recipe, ridge: float | None, energy_weight: float | None, precision: str | None) -> Recipe:
    """The recipe with another ridge or energy weight, checked."""
    changes = {"ridge": ridge, "energy_weight": energy_weight}
    recipe = replace(recipe, **{k: v for k, v in changes.items() if v is not None})  # type: ignore[arg-type]
    recipe.check()
    if precision not in (None, recipe.precision):
        raise InputError(f"The equations were made in {recipe.precision}; leave out --precision.")
    return recipe


def _equations_of(model: Path, earlier: Potential, path: Path, device: torch.device) -> Equations:
    """The equations in a file; an InputError if they are not those of the model."""
    from ..training.equations_file import header_of

    equations = equations_of_model(path, model, earlier, device)
    with of_file(path):  # what is told at the end: nothing is written if it cannot be told
        equations_facts("", header_of(equations))
    return equations


@spread
def command(
    model: ModelFile,
    equations: Annotated[Path, Option(help="The equations of the model.", metavar="FILE")],
    reading: DataOptions,
    machine: MachineOptions,
    data: Annotated[list[str] | None, Argument(help=DATA_HELP, metavar="NEWDATA", show_default=False)] = None,
    output: Annotated[Path | None, Option("--output", "-o", help="Write the model here instead.")] = None,
    remove: Annotated[bool, Option("--remove", help="Take the structures out instead of adding them.")] = False,
    repeated: Repeated = False,
    ridge: Annotated[float | None, Option(help="Another ridge than that of the model.")] = None,
    energy_weight: Annotated[float | None, Option(help="Another energy weight than that of the model.")] = None,
    label_check: LabelCheck = True,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    from ..api import header_of, save
    from ..kernels import kernels_for
    from ..linear.ridge import Ridge
    from ..machine.compute import Compute
    from ..training.equations import extended
    from ..training.equations_file import save_equations

    data = data or None  # typer gives an empty list
    target = output or model
    check_output(target, overwrite or output is None, [equations])
    if data is not None:
        reading.refuse_as_output(data, target, equations)
        check_output(equations, overwrite=equations.exists())
        sweep_up_together([equations, target])
    device, started = machine.prepare(), time.perf_counter()
    earlier = load_features(model)
    recipe = _changed(earlier.recipe, ridge, energy_weight, machine.precision)
    kernels = kernels_for(device, recipe.dtype, machine.kernels).NAME
    dataset = None if data is None else reading.load(data)
    if dataset is not None and label_check and not remove:
        check_labels(dataset, device)
    change = _Change(earlier, recipe, None if ridge is None else Ridge(ridge), dataset, remove)

    def solve_and_save(gathered: Equations, path: Path) -> Potential:
        potential = change.solved(gathered)
        about = {"kernels": kernels, "device": str(device), "seconds": round(time.perf_counter() - started, 3)}
        potential = replace(potential, provenance=replace(potential.provenance, **about))  # type: ignore[arg-type]
        save(potential, path, overwrite=True)
        return potential

    with progress() as tell:
        tell("reading", 0, 1)
        gathered = _equations_of(model, earlier, equations, device)
        if dataset is None:
            potential = solve_and_save(gathered, target)
        else:
            on = Compute(device, machine.kernels)
            gathered = extended(gathered, dataset, on, remove=remove, repeated=repeated, tell=tell)
            tell("solving", 0, 1)
            with together([equations, target]) as (new_equations, new_model):
                save_equations(gathered, new_equations, overwrite=True)  # before the solve, which uses them up
                potential = solve_and_save(gathered, new_model)
    header = header_of(potential)
    if as_json:
        show_json({"model": str(target), "equations": str(equations), **header})
    else:
        kept = "" if dataset is None else f" The equations in {equations} go with it."
        show(model_facts("Updated", header), f"The model is in {target}.{kept}")
