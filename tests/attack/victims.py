"""Sound files that the attack damages: python victims.py FOLDER"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import ase.io
import numpy as np
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from cases import DATA, FAST, PROPERTIES

from qml_lightning import load, load_dataset
from qml_lightning.cli import main
from qml_lightning.model.recipe_file import save_recipe
from qml_lightning.training import checkpoint


def make(folder: Path) -> None:
    os.chdir(folder)
    data = load_dataset(DATA)
    n = len(data.structures)
    positions, numbers = data.structures.positions.reshape(n, 9, 3).numpy(), data.structures.numbers[:9].numpy()
    energies, forces = data.labels.energies.numpy(), data.labels.forces.reshape(n, 9, 3).numpy()
    np.savez("d.npz", R=positions, z=numbers, E=energies, F=forces)
    frames = [Atoms(numbers, r, cell=[12, 12, 12], pbc=k % 2 == 0) for k, r in enumerate(positions)]
    ase.io.write("d.xyz", frames, format="xyz")
    ase.io.write("in.extxyz", frames[:3])
    for frame, energy, force in zip(frames, energies, forces):
        frame.calc = SinglePointCalculator(frame, energy=energy, forces=force)
    ase.io.write("d.extxyz", frames)
    assert main(["train", DATA, "-m", "m.safetensors", "--equations", "m.eq", *FAST]) == 0
    shutil.copy("m.eq", "both.eq")  # merge would replace it
    assert main(["train", DATA, "-m", "u.safetensors", "--committee", "4", *FAST]) == 0
    np.savez("p.npz", R=positions, z=numbers, size=np.square(positions).mean((1, 2)))
    assert main([*PROPERTIES, "-m", "p.safetensors"]) == 0
    save_recipe(load("m.safetensors").recipe, "r.json")
    # the last checkpoint of a fit, before it is removed at the end
    whole = checkpoint.EquationsCheckpoint.after

    def keep(*arguments):
        whole(*arguments)
        shutil.copy("c", "c.checkpoint")

    checkpoint.EquationsCheckpoint.after = keep
    try:
        assert main(["train", DATA, "-m", "x", "--checkpoint", "c", "--checkpoint-seconds", "0", *FAST]) == 0
    finally:
        checkpoint.EquationsCheckpoint.after = whole
    Path("x").unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
