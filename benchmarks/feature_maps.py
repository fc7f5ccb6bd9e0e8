"""The feature maps beside each other at the same number of features: SORF, ORF and RFF, over several seeds.

    python benchmarks/feature_maps.py            # writes benchmarks/results/feature_maps.json
    python benchmarks/feature_maps.py --quick    # small, on a part of the training set; writes nothing

A seed draws the environments behind the projection and the map. Differences are taken seed by seed, so that what two
maps share does not blur them; the error given with a difference is the standard error of its mean.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass, replace
from typing import Any

import torch
from common import SHARED_DATA, table, write

from qml_lightning import Dataset, evaluate, fit, load_dataset, recipes

METHODS = ("sorf", "rff", "orf")
QUANTITIES = {"energy_mev": "energy", "forces_mev_per_angstrom": "forces"}


@dataclass(frozen=True)
class Case:
    """One system and size."""

    molecule: str
    structures: int
    n_features: int
    seeds: int


FULL = (
    Case("ethanol", 300, 2048, 12),
    Case("ethanol", 1000, 4096, 8),
    Case("ethanol", 1000, 8192, 4),
    Case("aspirin", 400, 8192, 4),
)
QUICK = (Case("ethanol", 40, 256, 2),)


def load(case: Case, quick: bool) -> tuple[Dataset, Dataset]:
    """What is learnt, and what it is tried on."""

    def split(name: str) -> Dataset:
        return load_dataset(f"rmd17_{case.molecule}:{name}", data_folder=SHARED_DATA, labels="required")

    if quick:
        train, test = split("train_01").split((case.structures, 60), seed=0)
        return train, test
    return split("train_01").subsample(case.structures, seed=0), split("test_01")


def errors(case: Case, method: str, seed: int, train: Dataset, test: Dataset) -> dict[str, float]:
    """MAE of one model, in meV and meV/Å."""
    features = replace(recipes.DEFAULT.features, method=method, n_features=case.n_features)
    metrics = evaluate(fit(train, replace(recipes.DEFAULT, features=features, seed=seed)), test).as_dict()
    return {name: metrics[kind]["mae"] * 1e3 for name, kind in QUANTITIES.items()}


def mean_and_error(values: list[float]) -> dict[str, float]:
    """Mean, and the standard error of it."""
    return {"mean": statistics.fmean(values), "error": statistics.stdev(values) / len(values) ** 0.5}


def compared(case: Case, quick: bool) -> dict[str, Any]:
    """All maps of one case: each seed, the means, and the differences from RFF."""
    train, test = load(case, quick)
    runs: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
    for seed in range(case.seeds):
        for method in METHODS:
            runs[method].append(errors(case, method, seed, train, test))
            print(f"  {case} {method} seed {seed}: {runs[method][-1]}", flush=True)
    summary = {
        method: {
            name: mean_and_error([run[name] for run in runs[method]])
            | {"minus_rff": mean_and_error([a[name] - b[name] for a, b in zip(runs[method], runs["rff"], strict=True)])}
            for name in QUANTITIES
        }
        for method in METHODS
    }
    return {"case": vars(case), "runs": runs, "summary": summary}


def told(results: list[dict[str, Any]]) -> str:
    """The means as a table."""
    rows = []
    for result in results:
        case = Case(**result["case"])
        what = f"{case.molecule}, {case.structures} structures, {case.n_features} features, {case.seeds} seeds"
        for method in METHODS:
            row = [what if method == METHODS[0] else "", method]
            for quantity in result["summary"][method].values():
                off = quantity["minus_rff"]
                row += [
                    f"{quantity['mean']:.3f}",
                    f"{off['mean']:+.3f} ± {off['error']:.3f}" if method != "rff" else "",
                ]
            rows.append(row)
    return table(["", "map", "energy MAE / meV", "less RFF's", "force MAE / meV/Å", "less RFF's"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is written")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    results = [compared(case, given.quick) for case in (QUICK if given.quick else FULL)]
    print(told(results))
    if not given.quick:
        print(f"written: {write('feature_maps', results)}")


if __name__ == "__main__":
    main()
