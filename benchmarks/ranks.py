"""What more axes gain, beside the part of the environments that fewer lose: the rule by which the rank is chosen.

    python benchmarks/ranks.py              # minutes; benchmarks/results/ranks.json
    python benchmarks/ranks.py --quick      # seconds; writes nothing

Training structures are learnt and others of them tell the error; each rank has its best half decade of the ridge.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import Any

from common import recipe_with, table, write
from ridges import best_ridge, judged, load

from qml_lightning import Dataset
from qml_lightning.equations import equations_of

N_FEATURES = 8192
LEARNT, TRIED = 400, 100
# Training structures, width, and the ridge to look near.
SETS = {
    "3BPA": ("3bpa:train_300K", 4.0, 1e-6),
    "aspirin": ("rmd17_aspirin:train_01", 4.0, 1e-6),
    "ethanol": ("rmd17_ethanol:train_01", 8.0, 1e-8),
    "uracil": ("rmd17_uracil:train_01", 8.0, 1e-8),
    "malonaldehyde": ("rmd17_malonaldehyde:train_01", 8.0, 1e-8),
}
RANKS = (128, 256, 512)
FORMS = {"rank": "d", "lost": ".0e", "energy_mae_mev": ".2f", "force_mae_mev_per_angstrom": ".2f"}


def measured(learnt: Dataset, tried: Dataset, rank: int, n_features: int, sigma: float, guess: float) -> dict[str, Any]:
    """The part of the environments that so many axes lose, and the errors with them."""
    recipe = recipe_with(n_features, rank=rank)
    recipe = replace(recipe, features=replace(recipe.features, sigma=sigma))
    equations = equations_of(learnt, recipe)
    ridge, (energy, force) = best_ridge(partial(judged, equations, recipe, tried), guess)
    lost = 1 - float(equations.projection.explained.min())
    return {
        "rank": rank,
        "lost": lost,
        "log10_ridge": ridge,
        "energy_mae_mev": energy,
        "force_mae_mev_per_angstrom": force,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    n_features, n = (1024, (40, 20)) if quick else (N_FEATURES, (LEARNT, TRIED))
    results: dict[str, list[dict[str, Any]]] = {}
    for name, (data, sigma, guess) in SETS.items():
        learnt, tried = load(data).split(n, seed=0)
        for rank in RANKS:
            if results.get(name) and results[name][-1]["lost"] < 1e-9:
                break  # all of the environments is there: nothing can be gained
            found = measured(learnt, tried, rank, n_features, sigma, guess * (16 if quick else 1))
            results.setdefault(name, []).append(found)
            print(f"  {name}: {found}", flush=True)
    rows = [
        [name, *(f"{one[key]:{form}}" for key, form in FORMS.items()), _gain(found, k)]
        for name, found in results.items()
        for k, one in enumerate(found)
    ]
    print(table(["", "axes", "lose", "energy MAE meV", "force MAE meV/Å", "forces, less 128 axes'"], rows))
    if not quick:
        print(write("ranks", results))


def _gain(found: list[dict[str, Any]], k: int) -> str:
    first, here = (one["force_mae_mev_per_angstrom"] for one in (found[0], found[k]))
    return f"{(here / first - 1) * 100:+.1f} %" if k else ""


if __name__ == "__main__":
    main()
