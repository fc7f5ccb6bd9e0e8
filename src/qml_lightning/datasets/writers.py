"""Writing structures and predictions: extended XYZ, or another format by the ending of the name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

import numpy as np
from torch import Tensor

from ..atoms.structures import Structures
from ..errors import InputError
from ..machine.files import atomic
from .xyz_sizes import OPENERS

if TYPE_CHECKING:
    from ase import Atoms


# Endings of files that predictions can be written to, besides .extxyz and .xyz with .xz, .gz or .bz2 after them.
OTHERS = (".traj", ".db", ".json", ".npz")
# Labels, and how ASE calls them.
LABELS = {"energies": "energy", "forces": "forces", "stress": "stress", "atom_energies": "energies"}
# Further numbers of predictions that belong to atoms; others belong to structures.
PER_ATOM = ("energies_uncertainty", "forces_uncertainty")
ENDINGS = (".extxyz", ".xyz", *(f".extxyz{packed}" for packed in OPENERS), *OTHERS)


def check_ending(path: str | os.PathLike[str]) -> str:
    """Ending that names the format to write; an InputError with the list if it is unknown."""
    name = Path(path).name.lower()
    plain = next((name.removesuffix(packed) for packed in OPENERS if name.endswith(packed)), name)
    if plain.endswith((".extxyz", ".xyz")):
        return ".extxyz"
    if found := next((ending for ending in OTHERS if name.endswith(ending)), None):
        return found
    raise InputError(
        f"{Path(path).name}: cannot tell the format from this ending. Wanted {', '.join(ENDINGS)}; for others convert "
        "with ASE: ase convert predicted.extxyz OUTPUT."
    )


class Numbers(TypedDict, total=False):
    """Numbers to write with structures; what is None is left out."""

    energies: Tensor | None  # (structures,) eV
    forces: Tensor | None  # (atoms, 3) eV/Å
    stress: Tensor | None  # (structures, 3, 3) eV/Å³, tension positive
    atom_energies: Tensor | None  # (atoms,) eV
    more: Mapping[str, Tensor | None] | None  # further ones by name: (structures,), vectors, or (atoms,) of PER_ATOM


def write_predictions(
    path: str | os.PathLike[str], structures: Structures, *, overwrite: bool = False, **numbers: Unpack[Numbers]
) -> None:
    """Write structures with labels in the format of the ending (`check_ending`). `load` and ASE read them back."""
    ending = check_ending(path)
    if ending == ".extxyz":
        write_extxyz(path, structures, overwrite=overwrite, **numbers)
        return
    labels, more = _arrays(structures, numbers)
    arrays = labels | more
    with atomic(path, overwrite=overwrite) as temporary:
        temporary.unlink()  # databases append to a file that is there
        if ending == ".npz":
            _write_npz(temporary, structures, arrays)
        else:
            _write_ase(temporary, ending, structures, arrays)


def _arrays(structures: Structures, numbers: Numbers) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Labels and further numbers by name, in float64; an InputError if labels have not the shape of the structures."""
    n, atoms = len(structures), structures.n_atoms
    shapes = {"energies": (n,), "forces": (atoms, 3), "stress": (n, 3, 3), "atom_energies": (atoms,)}
    labels = _known({name: cast(dict[str, Any], numbers).get(name) for name in shapes})
    for name, values in labels.items():
        if values.shape != shapes[name]:
            raise InputError(f"Wanted {name} of shape {shapes[name]} to write, got {values.shape}.")
    return labels, _known(numbers.get("more") or {})


def _known(numbers: Mapping[str, Tensor | None]) -> dict[str, np.ndarray]:
    return {name: x.detach().cpu().double().numpy() for name, x in numbers.items() if x is not None}


def _write_npz(path: Path, structures: Structures, arrays: dict[str, np.ndarray]) -> None:
    content: dict[str, Any] = {
        "natoms": structures.counts.numpy(),
        "atomic_numbers": structures.numbers.numpy(),
        "positions": structures.positions.numpy(),
        "cell": structures.cells.numpy(),
        "pbc": structures.periodic.numpy(),
        "energy_unit": np.array("eV"),
        "length_unit": np.array("Å"),
        "stress_unit": np.array("eV/Å³"),
    }
    with open(path, "wb") as file:
        np.savez_compressed(file, **{**content, **arrays})


def _write_ase(path: Path, ending: str, structures: Structures, arrays: dict[str, np.ndarray]) -> None:
    from ase.db import connect
    from ase.io.trajectory import TrajectoryWriter

    if ending == ".traj":
        with TrajectoryWriter(path, "w") as trajectory:
            for atoms in _labelled_atoms(structures, arrays):
                trajectory.write(atoms)
        return
    with connect(path, type=ending.removeprefix("."), append=False, use_lock_file=False) as database:
        for atoms in _labelled_atoms(structures, arrays):
            database.write(atoms, data=dict(atoms.info))


def _labelled_atoms(structures: Structures, arrays: dict[str, np.ndarray]) -> Iterator[Atoms]:
    """Structures as ASE has them, with labels in a calculator; NaN is left out."""
    from ase import Atoms
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.stress import full_3x3_to_voigt_6_stress

    offsets = structures.offsets.tolist()
    for s in range(len(structures)):
        own = slice(offsets[s], offsets[s + 1])
        atoms = Atoms(
            structures.numbers[own].numpy(),
            structures.positions[own].numpy(),
            cell=structures.cells[s].numpy(),
            pbc=structures.periodic[s].numpy(),
        )
        labels = {}
        for name, values in arrays.items():
            value = values[own] if name in ("forces", "atom_energies", *PER_ATOM) else values[s]
            if name not in LABELS:  # such files keep no further arrays of atoms
                atoms.info[name] = value if name in PER_ATOM or value.ndim else float(value)
            elif not np.isnan(value).any():
                labels[LABELS[name]] = full_3x3_to_voigt_6_stress(value) if name == "stress" else value
        if "energy" in labels:
            labels["energy"] = float(labels["energy"])
        atoms.calc = SinglePointCalculator(atoms, **labels)
        yield atoms


def write_extxyz(
    path: str | os.PathLike[str], structures: Structures, *, overwrite: bool = False, **numbers: Unpack[Numbers]
) -> None:
    """Write extended XYZ, which ASE reads back as energy, forces, stress and energies (of atoms).

    A path that ends in .xz, .gz or .bz2 is compressed. A label that is NaN is left out of its frame. The file appears
    only when it is complete.
    """
    frames = _frames(structures, *_arrays(structures, numbers))
    opener = OPENERS.get(os.path.splitext(os.fspath(path))[1].lower(), open)
    with atomic(path, overwrite=overwrite) as temporary, opener(temporary, "wt", encoding="utf-8") as file:
        file.writelines(frames)


def _frames(structures: Structures, labels: Mapping[str, np.ndarray], more: Mapping[str, np.ndarray]) -> Iterator[str]:
    from ase.data import chemical_symbols

    offsets, positions = structures.offsets.tolist(), structures.positions.numpy()
    cells, periodic = structures.cells.numpy(), structures.periodic.tolist()
    symbols = [chemical_symbols[z] for z in structures.numbers.tolist()]
    energies, stress = labels.get("energies"), labels.get("stress")
    of_atoms = {LABELS[name]: labels[name] for name in ("forces", "atom_energies") if name in labels}
    of_atoms |= {name: values for name, values in more.items() if name in PER_ATOM}
    for s in range(len(structures)):
        atoms = slice(offsets[s], offsets[s + 1])
        properties, columns, header = "species:S:1:pos:R:3", [positions[atoms]], []
        if cells[s].any():
            header.append(f'Lattice="{_numbers(cells[s])}"')
        for name, values in of_atoms.items():
            if not np.isnan(values[atoms]).any():
                block = values[atoms].reshape(len(positions[atoms]), -1)
                properties += f":{name}:R:{block.shape[1]}"
                columns.append(block)
        header.append(f"Properties={properties}")
        if energies is not None and not np.isnan(energies[s]):
            header.append(f"energy={float(energies[s])!r}")
        header += [f"{name}={_entry(values[s])}" for name, values in more.items() if name not in PER_ATOM]
        if stress is not None and not np.isnan(stress[s]).any():
            header.append(f'stress="{_numbers(stress[s])}"')
        header.append(f'pbc="{" ".join("T" if p else "F" for p in periodic[s])}"')
        table = np.concatenate(columns, axis=1)
        line = "%-2s" + " %17.10f" * table.shape[1] + "\n"
        yield f"{len(table)}\n{' '.join(header)}\n"
        yield "".join(line % (symbol, *row) for symbol, row in zip(symbols[atoms], table.tolist(), strict=True))


def _entry(value: np.ndarray) -> str:
    """A number, or a vector in quotation marks."""
    return f'"{_numbers(value)}"' if np.ndim(value) else repr(float(value))


def _numbers(values: np.ndarray) -> str:
    return " ".join(repr(x) for x in values.ravel().tolist())
