"""Writing structures and predictions as extended XYZ."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
from torch import Tensor

from ..atoms.structures import Structures
from ..errors import InputError
from ..machine.files import atomic
from .xyz_sizes import OPENERS


def write_extxyz(
    path: str | os.PathLike[str],
    structures: Structures,
    *,
    energies: Tensor | None = None,  # (structures,) eV
    forces: Tensor | None = None,  # (atoms, 3) eV/Å
    stress: Tensor | None = None,  # (structures, 3, 3) eV/Å³, tension positive
    atom_energies: Tensor | None = None,  # (atoms,) eV
    overwrite: bool = False,
) -> None:
    """Write extended XYZ, which ASE reads back as energy, forces, stress and energies (of atoms).

    A path that ends in .xz, .gz or .bz2 is compressed. A label that is NaN is left out of its frame. The file appears
    only when it is complete.
    """
    n, atoms = len(structures), structures.n_atoms
    for name, values, shape in (
        ("energies", energies, (n,)),
        ("forces", forces, (atoms, 3)),
        ("stress", stress, (n, 3, 3)),
        ("atom_energies", atom_energies, (atoms,)),
    ):
        if values is not None and tuple(values.shape) != shape:
            raise InputError(f"Wanted {name} of shape {shape} to write, got {tuple(values.shape)}.")
    opener = OPENERS.get(os.path.splitext(os.fspath(path))[1].lower(), open)
    frames = _frames(
        structures,
        *(None if x is None else x.detach().cpu().double().numpy() for x in (energies, forces, stress, atom_energies)),
    )
    with atomic(path, overwrite=overwrite) as temporary, opener(temporary, "wt", encoding="utf-8") as file:
        file.writelines(frames)


def _frames(
    structures: Structures,
    energies: np.ndarray | None,
    forces: np.ndarray | None,
    stress: np.ndarray | None,
    atom_energies: np.ndarray | None,
) -> Iterator[str]:
    from ase.data import chemical_symbols

    offsets, positions = structures.offsets.tolist(), structures.positions.numpy()
    cells, periodic = structures.cells.numpy(), structures.periodic.tolist()
    symbols = [chemical_symbols[z] for z in structures.numbers.tolist()]
    for s in range(len(structures)):
        atoms = slice(offsets[s], offsets[s + 1])
        properties, columns, header = "species:S:1:pos:R:3", [positions[atoms]], []
        if cells[s].any():
            header.append(f'Lattice="{_numbers(cells[s])}"')
        for name, values in (("forces", forces), ("energies", atom_energies)):
            if values is not None and not np.isnan(values[atoms]).any():
                block = values[atoms].reshape(len(positions[atoms]), -1)
                properties += f":{name}:R:{block.shape[1]}"
                columns.append(block)
        header.append(f"Properties={properties}")
        if energies is not None and not np.isnan(energies[s]):
            header.append(f"energy={float(energies[s])!r}")
        if stress is not None and not np.isnan(stress[s]).any():
            header.append(f'stress="{_numbers(stress[s])}"')
        header.append(f'pbc="{" ".join("T" if p else "F" for p in periodic[s])}"')
        table = np.concatenate(columns, axis=1)
        line = "%-2s" + " %17.10f" * table.shape[1] + "\n"
        yield f"{len(table)}\n{' '.join(header)}\n"
        yield "".join(line % (symbol, *row) for symbol, row in zip(symbols[atoms], table.tolist(), strict=True))


def _numbers(values: np.ndarray) -> str:
    return " ".join(repr(x) for x in values.ravel().tolist())
