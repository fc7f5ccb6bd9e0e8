"""The method end to end on the data set that comes with the package: train, tell the errors, save, summarise.

python examples/demo.py [FOLDER]      # the results go to demo/ by default
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from qml_lightning import fit, load_dataset, recipes
from qml_lightning.cli.portions import evaluate_all
from qml_lightning.cli.screen import progress, show
from qml_lightning.cli.tables import error_table
from qml_lightning.report.summary import write_summary

N_FEATURES = 4096


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    training, test = load_dataset("ethanol:train"), load_dataset("ethanol:test")
    features = replace(recipes.DEFAULT.features, n_features=N_FEATURES)
    with progress() as tell:
        potential = fit(training, replace(recipes.DEFAULT, features=features), progress=tell)
    potential.save(str(folder / "ethanol.safetensors"), overwrite=True)

    metrics, prediction, seconds = evaluate_all(potential.on(), test)
    for name in ("summary.png", "summary.html"):
        write_summary(folder / name, potential, test, prediction, overwrite=True, seconds=seconds)
    show(error_table(f"Ethanol, {len(training):,} structures to learn from, {len(test):,} others to test", metrics))
    seconds, command = potential.provenance.seconds, Path(sys.executable).parent / "qml-lightning"
    show(
        f"Trained in {seconds:.1f} s with {N_FEATURES:,} features. In {folder}/: ethanol.safetensors, summary.png, "
        f"summary.html.\nNext: {command} info {folder / 'ethanol.safetensors'}"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo"))
