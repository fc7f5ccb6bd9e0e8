"""Make the embedded data set: rMD17 ethanol, the 1000 rows of train_01 and the first 500 rows of test_01.

    python benchmarks/make_embedded_ethanol.py [FOLDER of the public sets] [OUTPUT]

The same input gives the same bytes; the SHA-256 it prints belongs in src/qml_lightning/datasets/entries.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from qml_lightning.datasets.catalogue import locate
from qml_lightning.datasets.entries import CHRISTENSEN_2020
from qml_lightning.machine.files import atomic, sha256

ROOT = Path(__file__).resolve().parents[1]


def main(folder: Path, output: Path) -> None:
    with np.load(locate("rmd17_ethanol", data_folder=folder)) as full:
        rows = np.concatenate([full["train_01"], full["test_01"][:500]])
        arrays = {
            "nuclear_charges": full["nuclear_charges"],
            "coords": full["coords"][rows],
            "energies": full["energies"][rows],
            "forces": full["forces"][rows],
            "train": np.arange(1000, dtype=np.int32),
            "test": np.arange(1000, 1500, dtype=np.int32),
            "energy_unit": np.array("kcal/mol"),
            "length_unit": np.array("Å"),
            "citation": np.array(CHRISTENSEN_2020),
        }
    with atomic(output, overwrite=True) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    print(f"{output}: {output.stat().st_size} bytes, SHA-256 {sha256(output)}")


if __name__ == "__main__":
    main(
        Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "shared" / "data",
        Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "src/qml_lightning/datasets/data/ethanol.npz",
    )
