"""`qml-lightning evaluate`: errors of a model on labelled structures."""

from __future__ import annotations

from ..errors import InputError
from .options import (
    Data,
    DataOptions,
    Debug,
    Json,
    MachineOptions,
    ModelFile,
    Overwrite,
    Report,
    checked_precision,
    load_properties,
    spread,
)
from .overlap import shared_note
from .portions import evaluate_all
from .properties import property_errors, property_table
from .screen import note, notes, show, show_json, teaching
from .tables import error_table, metrics_as_json

HELP = teaching(
    """Measure the errors of a model on structures with energies, forces or stress.

The output is MAE and RMSE of total energies, energies per atom, force components (of all atoms and of each element) and
stress. --report draws them as `qml-lightning report` does. The errors of a model of `properties` are those of its
properties, which DATA must have under the same keys.

[bold]Examples[/bold]

  qml-lightning evaluate ethanol.safetensors ethanol:test
  qml-lightning evaluate model.safetensors rmd17_ethanol.npz:test_01
  qml-lightning evaluate model.safetensors mine.npz --energy-unit Hartree
  qml-lightning evaluate model.safetensors "run.traj@::10" --json

--json prints an object with structures, atoms, energy, energy_per_atom, forces, stress (each {"mae", "rmse"} or null)
and forces_by_element, in eV, eV/Å and eV/Å³.
"""
)


@spread
def command(
    model: ModelFile,
    data: Data,
    reading: DataOptions,
    machine: MachineOptions,
    report: Report = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    if report is not None:
        from ..report.summary import check_report, write_report

        check_report(report, overwrite=overwrite)
    if (properties := load_properties(model)) is not None:
        if report is not None:
            raise InputError("A report shows energies and forces, which a model of properties has not. Leave it out.")
        precision = checked_precision(machine.precision)
        held_out = reading.load(data, labels="ignored", columns=properties.names)
        errors = property_errors(properties.on(machine.prepare(), precision, machine.kernels), held_out)
        if as_json:
            show_json({"structures": len(held_out), "properties": errors})
        else:
            show(property_table(f"{model.name} on {len(held_out):,} structures of {' '.join(data)}", errors))
        return
    predictor = machine.predictor(model)
    dataset = reading.suited_to(predictor.potential).load(data)
    metrics, prediction, seconds = evaluate_all(predictor, dataset, for_report=report is not None)
    if report is not None:
        write_report(report, predictor.potential, dataset, prediction, overwrite=overwrite, seconds=seconds)
    seen = shared_note(predictor.potential, dataset)
    if as_json:
        show_json({**metrics_as_json(metrics), "notes": [seen] if seen else []})
        return
    notes(dataset.source)
    if seen:
        note(seen)
    show(
        error_table(
            f"{model.name} on {metrics.structures:,} structures, {metrics.atoms:,} atoms of {' '.join(data)}", metrics
        )
    )
    if report is not None:
        show(f"The report is in {report}.")
