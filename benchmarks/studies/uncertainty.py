"""Uncertainties: coverage, ranking of errors beside five independent models, and structures unlike all known ones."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from scipy.stats import rankdata, spearmanr

from qml_lightning import Dataset, Potential, fit, recipes

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options, succeeded
from ..harness.models import load, rmd17_files, with_features
from ..harness.tables import table

N_FEATURES, MEMBERS, RIVALS = 2048, 8, 5
# Training structures, test structures of the same kind, σ and ridge; and structures of another kind, if there are any.
SETS: dict[str, tuple[str, str, float, float, tuple[str, str] | None]] = {
    "ethanol": ("rmd17_ethanol:train_01@0:300", "rmd17_ethanol:test_01@0:500", 8.0, 1e-8,
                ("O-H removal", "ethanol_extra:H_removal")),
    "aspirin": ("rmd17_aspirin:train_01@0:150", "rmd17_aspirin:test_01@0:200", 8.0, 1e-7, None),
    "3BPA": ("3bpa:train_300K@0:200", "3bpa:train_300K@200:500", 8.0, 1e-7, ("1200 K", "3bpa:test_mixedT@-76:")),
    "silicon": ("zuo2020_Si:train", "zuo2020_Si:test", 8.0, 1e-5, None),
    "water": ("water_pbe0ts:train@0:16", "water_pbe0ts:test@0:40", 8.0, 1e-6, None),
}  # fmt: skip
MOST = {"silicon": 80}  # training structures, drawn at random: the file has one group after the other
ONE, TWO = 0.6827, 0.9545


def cells(options: Options) -> list[Cell]:
    return [{"data": name} for name in (("ethanol",) if options.quick else SETS)]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    learnt, tried, sigma, ridge, strange = SETS[cell["data"]]
    train, test = load(learnt), load(tried)
    recipe = replace(with_features(recipes.DEFAULT, 512 if options.quick else N_FEATURES, sigma=sigma), ridge=ridge)
    if (most := MOST.get(cell["data"])) is not None:
        train = train.subsample(most, 0)
    if options.quick:
        train, test = train.subsample(60, 0), test.subsample(30, 0)
    potential = fit(train, recipe, committee=MEMBERS)
    rivals = [fit(train, replace(recipe, seed=seed)) for seed in range(1, RIVALS + 1)]
    out = {**_of_energies(potential, rivals, test), **_of_forces(potential, rivals, test), **_times(potential, test)}
    if strange is not None and not options.quick:
        known = potential.predict(test.structures, uncertainty=True)
        other = potential.predict(load(strange[1]).structures, uncertainty=True)
        out["strange"] = strange[0]
        out["roc_energies"] = _roc(known.energy_uncertainty.numpy(), other.energy_uncertainty.numpy())
        forces = [_most(one.force_uncertainty.numpy(), data.structures.offsets.tolist())
                  for one, data in ((known, test), (other, load(strange[1])))]  # fmt: skip
        out["roc_forces"] = _roc(*forces)
    return out


def _of_energies(potential: Potential, rivals: list[Potential], test: Dataset) -> dict[str, float]:
    found = potential.predict(test.structures, forces=False, uncertainty=True)
    error = np.abs((found.energies - test.labels.energies).numpy())
    sigma = found.energy_uncertainty.numpy()
    spread = np.std([rival.predict(test.structures, forces=False).energies.numpy() for rival in rivals], axis=0)
    return {f"energy_{name}": value for name, value in _figures(error, sigma, sigma, error, spread).items()}


def _of_forces(potential: Potential, rivals: list[Potential], test: Dataset) -> dict[str, float]:
    """Coverage of components; ranking of atoms by the length of the error."""
    found = potential.predict(test.structures, uncertainty=True)
    error = np.abs((found.forces - test.labels.forces).numpy())
    sigma = np.repeat(found.force_uncertainty.numpy()[:, None], 3, 1)
    of_rivals = np.std([rival.predict(test.structures).forces.numpy() for rival in rivals], axis=0)
    spread = np.sqrt((of_rivals**2).sum(1))
    length = np.linalg.norm(error, axis=1)
    figures = _figures(error.ravel(), sigma.ravel(), sigma[:, 0], length, spread)
    return {f"force_{name}": value for name, value in figures.items()}


def _figures(
    error: np.ndarray, sigma: np.ndarray, ranking: np.ndarray, ranked: np.ndarray, spread: np.ndarray
) -> dict[str, float]:
    normalised = error / sigma
    likelihood = -0.5 * normalised**2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
    constant = np.sqrt((error**2).mean())
    plain = -0.5 * (error / constant) ** 2 - np.log(constant) - 0.5 * np.log(2 * np.pi)
    certain = ranking <= np.median(ranking)
    return {
        "within_1": float((normalised < 1).mean()),
        "within_2": float((normalised < 2).mean()),
        "rank": float(spearmanr(ranking, ranked).statistic),
        "rank_of_rivals": float(spearmanr(spread, ranked).statistic),
        "likelihood_gain": float((likelihood - plain).mean()),  # over one deviation for all, fitted to the test
        "error_of_certain_half": float(ranked[certain].mean() / ranked.mean()),
    }


def _times(potential: Potential, test: Dataset) -> dict[str, float]:
    """Times of predictions with and without uncertainty, the best of several in turn."""
    with_it, without = [], []
    for _ in range(7):
        for times, wanted in ((without, False), (with_it, True)):
            started = perf_counter()
            potential.predict(test.structures, uncertainty=wanted)
            times.append(perf_counter() - started)
    return {"time_ratio": min(with_it) / min(without)}


def _most(values: np.ndarray, offsets: list[int]) -> np.ndarray:
    """Largest value in each structure."""
    return np.maximum.reduceat(values, offsets[:-1])


def _roc(known: np.ndarray, strange: np.ndarray) -> float:
    """Area under the curve: the chance that a strange structure is more uncertain than a known one."""
    ranks = rankdata(np.concatenate([known, strange]))[len(known) :]
    return float((ranks.sum() - len(strange) * (len(strange) + 1) / 2) / (len(known) * len(strange)))


def tables(entries: list[Entry]) -> str:
    rows = []
    for entry in succeeded(entries):
        for kind in ("energy", "force"):
            got = {name.removeprefix(f"{kind}_"): value for name, value in entry.items() if name.startswith(f"{kind}_")}
            roc = f"{entry[{'energy': 'roc_energies', 'force': 'roc_forces'}[kind]]:.2f}" if "strange" in entry else ""
            rows.append([
                f"{entry[CELL]['data']}, {'energies' if kind == 'energy' else 'forces'}",
                f"{100 * got['within_1']:.0f} %", f"{100 * got['within_2']:.0f} %", f"{got['rank']:.2f}",
                f"{got['rank_of_rivals']:.2f}", f"{got['likelihood_gain']:+.2f}", f"{got['error_of_certain_half']:.2f}",
                f"{entry['strange']}: {roc}" if roc else "", f"{entry['time_ratio']:.2f}",
            ])  # fmt: skip
    head = ["", "within 1σ (68 %)", "within 2σ (95 %)", "rank correlation", f"… of {RIVALS} models", "log-likelihood",
            "error of the certain half", "area under ROC", "times the prediction"]  # fmt: skip
    return table(head, rows)


UNCERTAINTY = Benchmark(
    "uncertainty",
    "Uncertainties: coverage, ranking, unknown structures",
    f"{N_FEATURES} features, a committee of {MEMBERS}, test structures of the same kind as those learnt from. Rank "
    f"correlation of uncertainty and error (forces: of atoms) beside the spread of {RIVALS} models drawn with other "
    "seeds; mean log-likelihood less that of one fitted standard deviation for all; error of the certain half of "
    "the test set as a part of the mean; area under the ROC curve for structures of another kind; time of a prediction "
    "with uncertainty as a multiple of one without.",
    cells, measure, tables,
    needs=("3bpa/3bpa.npz", "ethanol_extra/ethanol_extra.npz", "zuo2020/Si.npz", "water/water_pbe0ts.npz",
           *rmd17_files("aspirin", "ethanol")),
)  # fmt: skip
