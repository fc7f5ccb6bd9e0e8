"""`qml-lightning lammps`: the pair style for LAMMPS, compiled and compared with the predictions in Python."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..errors import InputError, SolveError
from .options import Debug, Json
from .screen import facts, show, show_json, teaching, warnings_shown

if TYPE_CHECKING:
    from ase import Atoms

HELP = teaching(
    """Compile the pair style qml/lightning for the installed LAMMPS, and check it.

  qml-lightning lammps build
  qml-lightning lammps check
  qml-lightning lammps check water.safetensors water.xyz --ranks 2

[bold]In an input of LAMMPS[/bold]

  units metal
  pair_style qml/lightning
  pair_coeff * * water.safetensors H O

The elements are those of the atom types 1, 2 … Threads in a rank follow OMP_NUM_THREADS, or: pair_style qml/lightning
threads 2. With precision float32 or float64 another precision than that of the model is taken.
"""
)
# Largest differences that rounding explains: relative energy, eV/Å, and eV (stress times volume, per atom).
ALLOWED = {"energy": 1e-10, "forces": 1e-9, "virial": 1e-6}


class Action(StrEnum):
    """Parts of the command."""

    build = "build"
    check = "check"


def command(
    action: Annotated[Action, Argument(help="build: compile the plugin. check: compare LAMMPS with Python.")],
    model: Annotated[Path | None, Argument(help="check: model file; without one, a small one is trained.")] = None,
    structure: Annotated[
        Path | None, Argument(help="check: file of structures, of which the first one counts.")
    ] = None,
    *,
    folder: Annotated[Path | None, Option(help="Folder of the plugin, if not the one LAMMPS looks into.")] = None,
    ranks: Annotated[int, Option(min=1, help="check: largest number of MPI processes.")] = 2,
    json: Json = False,
    debug: Debug = False,
) -> None:
    with warnings_shown():
        if action is Action.build:
            if model is not None:
                raise InputError("lammps build takes no model: the plugin serves all of them. Leave it out.")
            _build(folder, as_json=json)
        else:
            _check(model, structure, folder, ranks, as_json=json)


def _build(folder: Path | None, *, as_json: bool) -> None:
    from ..adapters.lammps.build import build, installed

    lammps, path = installed(), build(folder)
    if as_json:
        return show_json({"plugin": str(path), "lammps": lammps.version})
    by_hand = f"export LAMMPS_PLUGIN_PATH={path.parent}"
    show(
        facts(
            "Pair style qml/lightning",
            {
                "plugin": str(path),
                "for": f"LAMMPS {lammps.version}",
                "loaded": by_hand if folder else f"by itself, in lmp of this environment; elsewhere: {by_hand}",
                "in the input": "pair_style qml/lightning\npair_coeff * * model.safetensors H C O",
                "next": "qml-lightning lammps check",
            },
        )
    )


def _check(model: Path | None, structure: Path | None, folder: Path | None, ranks: int, *, as_json: bool) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="qml-lightning-check-") as scratch:
        path = model or _example(Path(scratch))
        atoms = _structure(path, structure)
        rows = {n: _differences(atoms, path, n, folder) for n in range(1, ranks + 1)}
    if as_json:
        show_json({"atoms": len(atoms), "differences": {str(n): row for n, row in rows.items()}})
    else:
        written = {
            f"{n} rank{'s' if n > 1 else ''}": ", ".join(f"{name} {value:.1e}" for name, value in row.items())
            for n, row in rows.items()
        }
        show(facts(f"LAMMPS beside Python, {len(atoms)} atoms", written))
    worst = {name: max(row[name] for row in rows.values()) for name in ALLOWED}
    if wrong := [f"{name} by {value:.1e}" for name, value in worst.items() if not value <= ALLOWED[name]]:
        raise SolveError(
            f"LAMMPS and Python differ in {', '.join(wrong)}. Build the plugin anew (qml-lightning lammps build); if "
            "that does not help, please send us the model and the structure."
        )


def _differences(atoms: Atoms, model: Path, ranks: int, folder: Path | None) -> dict[str, float]:
    """Largest differences between LAMMPS and Python in float64: relative energy, eV/Å, and eV per atom."""
    import numpy as np

    from ..adapters.lammps.run import Processes, single_point
    from ..model.potential import Potential

    found = single_point(atoms, model, Processes(ranks), style="precision float64", plugin=folder)
    wanted = Potential.load(str(model)).on(precision="float64").predict(atoms, forces=True)
    assert wanted.forces is not None
    energy, virial = wanted.energies.item(), 0.0
    if wanted.stress is not None:
        difference = np.abs(found.stress - wanted.stress[0].numpy()).max()
        virial = float(difference * atoms.get_volume() / len(atoms))
    return {
        "energy": abs(found.energy - energy) / max(abs(energy), 1.0),
        "forces": float(np.abs(found.forces - wanted.forces.numpy()).max()),
        "virial": virial,
    }


def _structure(model: Path, given: Path | None) -> Any:
    """First structure of a file, or atoms of all elements of the model on a distorted lattice."""
    import numpy as np
    from ase import Atoms
    from ase.build import make_supercell
    from ase.data import covalent_radii
    from ase.io import read

    from ..model.potential import Potential

    if given is not None:
        return read(given, index=0)
    elements = Potential.load(str(model)).elements
    side = 2.2 * max(float(covalent_radii[z]) for z in elements)
    atoms = make_supercell(Atoms(numbers=[elements[0]], cell=side * np.eye(3), pbc=True), 4 * np.eye(3))
    atoms.numbers = np.resize(elements, len(atoms))
    atoms.positions += np.random.default_rng(0).normal(scale=0.1, size=atoms.positions.shape)
    skew = np.array([[1.0, 0.1, 0.05], [0.0, 1.0, 0.15], [0.0, 0.0, 1.0]])
    atoms.set_cell(atoms.cell.array @ skew, scale_atoms=True)
    return atoms


def _example(folder: Path) -> Path:
    """A small model of copper, trained on ASE's EMT potential in a second."""
    from dataclasses import replace

    import numpy as np
    from ase.build import bulk
    from ase.calculators.emt import EMT

    from ..api import fit, save
    from ..model.recipe import DEFAULT

    frames = []
    for seed in range(10):
        atoms = bulk("Cu", cubic=True) * (2, 1, 1)
        atoms.positions += np.random.default_rng(seed).normal(scale=0.1, size=atoms.positions.shape)
        atoms.calc = EMT()
        atoms.get_forces()
        frames.append(atoms)
    recipe = replace(DEFAULT, rank=32, features=replace(DEFAULT.features, n_features=256))
    save(fit(frames, recipe), folder / "copper.safetensors")
    return folder / "copper.safetensors"
