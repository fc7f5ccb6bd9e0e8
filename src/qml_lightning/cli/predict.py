"""`qml-lightning predict`: energies, forces and stress of structures, written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from ..errors import InputError
from ..machine.files import check_output
from .options import (
    Data,
    DataOptions,
    Debug,
    Json,
    MachineOptions,
    ModelFile,
    Overwrite,
    checked_precision,
    load_properties,
    spread,
)
from .portions import predict_all, refuse_not_finite
from .screen import show, show_json, teaching

if TYPE_CHECKING:
    from ..model.properties import PropertyModel

HELP = teaching(
    """Predict energies, forces and stress of structures, and write them in eV and Å.

The ending of the output names its format: .extxyz or .xyz (also with .xz, .gz, .bz2), .traj, .db, .json, .npz.

Each frame gets its energy, the energy of each atom, the forces, and the stress if it has a cell. Labels in the input
are ignored. ASE can read the output: ase.io.read("predicted.extxyz", ":").

With --uncertainty, a frame also gets the standard deviation of its energy (energy_uncertainty), and each atom those of
its energy (energies_uncertainty) and of a component of its force (forces_uncertainty). That needs a model with a
committee: train --committee 8.

A model that was trained with --baseline adds its predictions to the energies of that name in DATA, and writes the sums.

A model of `properties` writes these, under their names, instead of energies and forces.

[bold]Examples[/bold]

  qml-lightning predict ethanol.safetensors conformers.xyz -o predicted.extxyz
  qml-lightning predict model.safetensors "run.traj@-1" -o last.extxyz \\
      --overwrite
  qml-lightning predict model.safetensors crystal.extxyz -o predicted.traj
  qml-lightning predict model.safetensors pool.extxyz -o predicted.extxyz \\
      --uncertainty
"""
)


@spread
def command(
    model: ModelFile,
    data: Data,
    output: Annotated[Path, Option("--output", "-o", help="File to write: .extxyz, .xyz, .traj, .db, .json or .npz.")],
    reading: DataOptions,
    machine: MachineOptions,
    uncertainty: Annotated[
        bool, Option("--uncertainty", help="Also write standard deviations (of a model with a committee).")
    ] = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    from ..datasets import writers

    check_output(output, overwrite, [model])
    reading.refuse_as_output(data, output)
    writers.check_ending(output)
    if (properties := load_properties(model)) is not None:
        _properties(properties, data, output, reading, machine, uncertainty, overwrite, as_json)
        return
    predictor = machine.predictor(model)
    dataset = reading.suited_to(predictor.potential).load(data, labels="ignored")
    structures, added = dataset.structures, dataset.baseline is not None
    prediction = predict_all(predictor, structures, forces=True, stress=structures.has_volume, uncertainty=uncertainty)

    writers.write_predictions(
        output,
        structures,
        energies=prediction.energies if dataset.baseline is None else prediction.energies + dataset.baseline,
        # forces and energies of atoms of the baseline are not known
        forces=None if added else prediction.forces,
        stress=None if added else prediction.stress,
        atom_energies=None if added else prediction.atom_energies,
        more={
            "energy_uncertainty": prediction.energy_uncertainty,
            "energies_uncertainty": prediction.atom_energy_uncertainty,
            "forces_uncertainty": prediction.force_uncertainty,
        },
        overwrite=overwrite,
    )
    if as_json:
        show_json({"output": str(output), "structures": len(structures), "atoms": structures.n_atoms})
        return
    what = "energies, forces and stress" if structures.has_volume else "energies and forces"
    if corrects := predictor.potential.corrects:
        what = "energies" if added else f"corrections of {corrects}: {what}"
    n = len(structures)
    many = f"{n:,} structure{'' if n == 1 else 's'} ({structures.n_atoms:,} atoms)"
    show(f"{what.capitalize()} of {many} are in {output}.")


def _properties(
    model: PropertyModel,
    data: list[str],
    output: Path,
    reading: DataOptions,
    machine: MachineOptions,
    uncertainty: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Predict properties, and write them under their names."""
    from ..datasets import writers

    if uncertainty:
        raise InputError("A model of properties has no committee. Leave out --uncertainty.")
    predictor = model.on(machine.prepare(), checked_precision(machine.precision), machine.kernels)
    structures = reading.load(data, labels="ignored").structures
    found = predictor.predict(structures)
    refuse_not_finite(structures, found.values())
    writers.write_predictions(output, structures, more=found, overwrite=overwrite)
    if as_json:
        about = {"output": str(output), "structures": len(structures), "atoms": structures.n_atoms}
        show_json({**about, "properties": list(model.names)})
        return
    show(f"{', '.join(model.names)} of {len(structures):,} structures are in {output}.")
