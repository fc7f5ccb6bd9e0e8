"""Prediction of energies and forces beside kernelforge's random-feature model: the same features, the same molecules.

    python benchmarks/rivals.py            # N_F = 16384, aspirin
    python benchmarks/rivals.py --quick    # fewer features; writes nothing

Both are fitted to a handful of structures: the time of a prediction does not depend on what was learnt.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
from common import SHARED_DATA, Headline, best_of, table, write

from qml_lightning import Dataset, fit, load_dataset, recipes

OURS, THEIRS = 500, 5  # molecules predicted at once


def kernelforge(data: Dataset, n_features: int) -> float:
    """µs per atom of its prediction."""
    from kernelforge import LocalRFFModel

    n = int(data.structures.counts[0])
    frames = list(data.structures.positions.view(-1, n, 3).numpy()[:THEIRS])
    numbers = [data.structures.numbers[:n].numpy().astype(np.int32)] * THEIRS
    assert data.labels.energies is not None
    model = LocalRFFModel(d_rff=n_features, elements=list(data.structures.elements), repr_params={"rcut": 6, "acut": 6})
    model.fit(frames, numbers, energies=data.labels.energies[:THEIRS].numpy())
    return best_of(lambda: model.predict(frames, numbers), 3) / (n * THEIRS) * 1e6


def ours(data: Dataset, n_features: int) -> float:
    """µs per atom of ours."""
    features = replace(recipes.DEFAULT.features, n_features=n_features)
    potential = fit(data.select(np.arange(THEIRS)), replace(recipes.DEFAULT, features=features))
    return best_of(lambda: potential.predict(data.structures), 5) / data.structures.n_atoms * 1e6


def headline(results: dict[str, Any]) -> list[Headline]:
    """The row of the README, with what is unlike: precision, batch and dimension."""
    times = results["us_per_atom"]
    return [
        Headline(
            f"energies and forces of aspirin, {results['n_features']} features",
            f"{times['qml-lightning']:.1f} µs per atom (float32, {OURS} at once, projected to rank 128)",
            f"kernelforge {times['kernelforge']:.0f} µs per atom (float64, {THEIRS} at once, no projection)",
            timing=True,
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    n_features = 1024 if quick else 16384
    data = load_dataset(f"rmd17_aspirin:test_01@0:{OURS}", data_folder=SHARED_DATA)
    times = {"qml-lightning": ours(data, n_features), "kernelforge": kernelforge(data, n_features)}
    ratio = times["kernelforge"] / times["qml-lightning"]
    rows = [[name, f"{time:.1f}", f"{time / times['qml-lightning']:.0f}"] for name, time in times.items()]
    print(table([f"energies and forces of aspirin, {n_features} features", "µs per atom", "times ours"], rows))
    if not quick:
        results = {
            "n_features": n_features,
            "us_per_atom": times,
            "ratio": ratio,
            "kernelforge": version("kernelforge"),
        }
        write("rivals", results, headline(results))


if __name__ == "__main__":
    main()
