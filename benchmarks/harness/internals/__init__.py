"""All uses of the package beyond its public names: a change inside the package is followed here and nowhere else."""

from __future__ import annotations

from qml_lightning.adapters.lammps.build import build as lammps_build
from qml_lightning.atoms.dataset import concatenate
from qml_lightning.atoms.structures import structures_from_arrays
from qml_lightning.atoms.units import ENERGY_IN_EV
from qml_lightning.errors import QMLError, SolveError
from qml_lightning.linear.compensated import BLOCK, BLOCKS_OF_REST, SLICES, TILE, add_compensated
from qml_lightning.linear.normal_equations import add_product, lower_tiles
from qml_lightning.machine.files import atomic, write_atomically
from qml_lightning.machine.memory import bytes_from
from qml_lightning.model.basis import Basis
from qml_lightning.model.representations import fchl19 as representations
from qml_lightning.model.representations.density import ENERGIES_DENSITY, SHORT_DENSITY
from qml_lightning.study.calibration import calibrated_with
from qml_lightning.study.infrared import infrared
from qml_lightning.study.selection import select
from qml_lightning.training.equations import Equations
from qml_lightning.training.screening.search import OutlierSearch
from qml_lightning.training.sweep import equations_of

from .kernels import NativeFeatures, Representation, instruction_set, kernels_in_use, represented
from .lammps import lammps_head, lammps_potentials, lammps_run, lammps_structure
from .model import (
    density_gradients,
    energy_gradients,
    invariants_of,
    lost_by_projection,
    neighbours_by_element,
    prediction_steps,
    projected_environments,
    untrained,
    with_any_committee,
    with_axes,
)
from .training import (
    begin_iteration,
    extended,
    facts,
    find_outliers,
    gram_rate,
    iterate,
    kept_rows,
    outlier_search,
    ranks_of_torchrun,
    rows_of,
    solution,
    solutions,
    with_products,
)

__all__ = [
    "BLOCK",
    "BLOCKS_OF_REST",
    "ENERGIES_DENSITY",
    "ENERGY_IN_EV",
    "SHORT_DENSITY",
    "SLICES",
    "TILE",
    "Basis",
    "Equations",
    "NativeFeatures",
    "OutlierSearch",
    "QMLError",
    "Representation",
    "SolveError",
    "add_compensated",
    "add_product",
    "atomic",
    "begin_iteration",
    "bytes_from",
    "calibrated_with",
    "concatenate",
    "density_gradients",
    "energy_gradients",
    "equations_of",
    "extended",
    "facts",
    "find_outliers",
    "gram_rate",
    "infrared",
    "instruction_set",
    "invariants_of",
    "iterate",
    "kept_rows",
    "kernels_in_use",
    "lammps_build",
    "lammps_head",
    "lammps_potentials",
    "lammps_run",
    "lammps_structure",
    "lost_by_projection",
    "lower_tiles",
    "neighbours_by_element",
    "outlier_search",
    "prediction_steps",
    "projected_environments",
    "ranks_of_torchrun",
    "representations",
    "represented",
    "rows_of",
    "select",
    "solution",
    "solutions",
    "structures_from_arrays",
    "untrained",
    "with_any_committee",
    "with_axes",
    "with_products",
    "write_atomically",
]
