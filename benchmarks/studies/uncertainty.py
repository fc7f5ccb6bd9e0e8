"""Uncertainties: coverage, ranking of errors beside five independent models, and structures unlike all known ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import rankdata, spearmanr

from qml_lightning import Dataset, Potential, Recipe, fit, recipes

from ..harness.benchmark import Benchmark, Cell, Entry, Options
from ..harness.entries import grouped, mean, spread
from ..harness.internals import calibrated_with
from ..harness.models import load, rmd17_files, with_features
from ..harness.tables import table

N_FEATURES, MEMBERS, RIVALS, SPLITS = 2048, 8, 5, 4
KINDS = {"energy": "energies", "force": "forces"}


@dataclass(frozen=True)
class Case:
    """Structures that are split at random into some to learn from and some like them, and structures unlike them."""

    pool: str
    n_train: int
    n_test: int
    ridge: float
    strange: tuple[str, ...] = ()  # data sets, or groups of the pool that are not learnt from
    group: str = ""  # the group of the pool that is learnt from


CASES = {
    "ethanol": Case("rmd17_ethanol:train_01", 300, 500, 1e-8,
                    ("ethanol_extra:H_removal", "ethanol_extra:norm_mode_874", "ethanol_extra:norm_mode_3005")),
    "aspirin": Case("rmd17_aspirin:train_01", 200, 500, 1e-7),
    "3BPA": Case("3bpa:train_300K", 200, 300, 1e-7, ("3bpa:test_mixedT@-76:", "3bpa:test_mixedT@0:-76")),
    "silicon": Case("zuo2020_Si:train", 120, 94, 1e-5),
    "silicon crystals": Case("zuo2020_Si:train", 30, 14, 1e-5, ("Elastic", "Surface", "hot"), "300 K"),
    "water": Case("water_pbe0ts:train", 60, 120, 1e-6),
}  # fmt: skip
# Groups of silicon that hold frames of 300 K and of up to two melting points, told apart by the RMS of their forces.
DYNAMICS, CALM = ("AIMD-NVT", "Vacancy"), 0.7  # eV/Å
NAMES = {
    "ethanol_extra:H_removal": "O-H removal",
    "ethanol_extra:norm_mode_874": "mode at 874 cm⁻¹",
    "ethanol_extra:norm_mode_3005": "mode at 3005 cm⁻¹",
    "3bpa:test_mixedT@-76:": "1200 K",
    "3bpa:test_mixedT@0:-76": "300 and 600 K",
    "Elastic": "strained",
    "Surface": "surfaces",
    "hot": "hot and molten",
}


def cells(options: Options) -> list[Cell]:
    splits = range(1 if options.quick else SPLITS)
    return [{"data": name, "split": split} for name in (("ethanol",) if options.quick else CASES) for split in splits]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    case, seed = CASES[cell["data"]], cell["split"]
    sizes, n_features = ((60, 30), 512) if options.quick else ((case.n_train, case.n_test), N_FEATURES)
    pool = load(case.pool)
    groups = _by_temperature(pool) if case.group else None
    known = pool if groups is None else pool.select(np.flatnonzero(groups == case.group))
    train, test = known.split(sizes, seed)
    recipe = replace(with_features(recipes.DEFAULT, n_features, sigma=8.0), ridge=case.ridge, seed=seed)
    potential = fit(train, recipe, committee=MEMBERS)
    rivals = _rivals(train, recipe) if seed == 0 else []
    out: dict[str, Any] = _on(potential, test, rivals)
    for name in case.strange[:1] if options.quick else case.strange:
        other = load(name) if groups is None else pool.select(np.flatnonzero(groups == name))
        out.setdefault("strange", {})[NAMES[name]] = _on(potential, other, []) | _separated(potential, test, other)
    return out


def _by_temperature(pool: Dataset) -> np.ndarray:
    """Groups of silicon, with those of dynamics in two: near 300 K, and hotter."""
    squares = pool.labels.forces.square().mean(1).numpy()
    of_frames = np.add.reduceat(squares, pool.structures.offsets.tolist()[:-1]) / pool.structures.counts.numpy()
    temperature = np.where(of_frames**0.5 < CALM, "300 K", "hot")
    return np.where(np.isin(pool.groups, DYNAMICS), temperature, pool.groups)


def _rivals(train: Dataset, recipe: Recipe) -> list[Potential]:
    """Models with other random features."""
    return [fit(train, replace(recipe, seed=seed)) for seed in range(1, RIVALS + 1)]


def _on(potential: Potential, test: Dataset, rivals: list[Potential]) -> dict[str, float]:
    """Figures of labels that there are: coverage of components; ranking of atoms by the length of the error."""
    found = potential.predict(test.structures, uncertainty=True)
    others = [rival.predict(test.structures) for rival in rivals]
    known = {"energy": (found.energies, test.labels.energies, found.energy_uncertainty),
             "force": (found.forces, test.labels.forces, found.force_uncertainty)}  # fmt: skip
    out = dict[str, float]()
    for kind, (predicted, labels, uncertainty) in known.items():
        if labels is None:
            continue
        told, errors = uncertainty.numpy(), (predicted - labels).numpy().reshape(len(uncertainty), -1)
        length = np.linalg.norm(errors, axis=1)
        out |= {f"{kind}_{name}": value for name, value in asdict(calibrated_with(errors, told)).items()}
        out[f"{kind}_rank"] = float(spearmanr(told, length).statistic)
        if others:
            values = [(other.energies[:, None] if kind == "energy" else other.forces).numpy() for other in others]
            apart = np.linalg.norm(np.std(values, axis=0), axis=1)
            out[f"{kind}_rank_of_rivals"] = float(spearmanr(apart, length).statistic)
    return out


def _separated(potential: Potential, test: Dataset, strange: Dataset) -> dict[str, float]:
    """Areas under the ROC curve: how well uncertainties tell strange structures from test structures."""
    known, other = (potential.predict(data.structures, uncertainty=True) for data in (test, strange))
    forces = [
        np.maximum.reduceat(one.force_uncertainty.numpy(), data.structures.offsets.tolist()[:-1])
        for one, data in ((known, test), (other, strange))
    ]
    energies = known.energy_uncertainty.numpy(), other.energy_uncertainty.numpy()
    return {"roc_energies": _roc(*energies), "roc_forces": _roc(*forces)}


def _roc(known: np.ndarray, strange: np.ndarray) -> float:
    """Area under the curve: the chance that a strange structure is more uncertain than a known one."""
    ranks = rankdata(np.concatenate([known, strange]))[len(known) :]
    return float((ranks.sum() - len(strange) * (len(strange) + 1) / 2) / (len(known) * len(strange)))


def tables(entries: list[Entry]) -> str:
    return "\n\n".join(filter(None, (_of_known(entries), _of_strange(entries))))


def _of_known(entries: list[Entry]) -> str:
    rows = []
    for (name,), there in grouped(entries, "data").items():
        for kind, word in KINDS.items():
            parts = [_percent(there, f"{kind}_within_{k}") for k in (1, 2)]
            rivals = [entry for entry in there if f"{kind}_rank_of_rivals" in entry]
            rows.append([
                f"{name}, {word}", *parts, f"{100 * mean(there, f'{kind}_miscalibration'):.1f}",
                f"{mean(there, f'{kind}_likelihood_gain'):+.2f}", f"{mean(there, f'{kind}_error_of_certain_half'):.2f}",
                f"{mean(there, f'{kind}_sparsification'):.2f}", f"{mean(there, f'{kind}_rank'):.2f}",
                f"{mean(rivals, f'{kind}_rank_of_rivals'):.2f}" if rivals else "",
            ])  # fmt: skip
    head = ["", "within 1σ (68 %)", "within 2σ (95 %)", "miscalibration, points", "log-likelihood",
            "error of the certain half", "sparsification", "rank correlation", f"… of {RIVALS} models"]  # fmt: skip
    return table(head, rows)


def _of_strange(entries: list[Entry]) -> str:
    rows = []
    for (name,), there in grouped(entries, "data").items():
        for strange in there[0].get("strange", {}):
            found = [entry["strange"][strange] for entry in there]
            for kind, word in KINDS.items():
                if f"{kind}_rank" not in found[0]:  # no such labels
                    rows.append([f"{name} → {strange}, {word}", *4 * [""], f"{mean(found, f'roc_{word}'):.2f}"])
                    continue
                parts = [_percent(found, f"{kind}_within_{k}") for k in (1, 2)]
                rows.append([
                    f"{name} → {strange}, {word}", *parts, f"{100 * mean(found, f'{kind}_miscalibration'):.1f}",
                    f"{mean(found, f'{kind}_rank'):.2f}", f"{mean(found, f'roc_{word}'):.2f}",
                ])  # fmt: skip
    head = ["", "within 1σ (68 %)", "within 2σ (95 %)", "miscalibration, points", "rank correlation", "area under ROC"]
    return table(head, rows) if rows else ""


def _percent(entries: list[Entry], name: str) -> str:
    error = f" ± {100 * spread(entries, name):.0f}" if len(entries) > 1 else ""
    return f"{100 * mean(entries, name):.0f}{error} %"


UNCERTAINTY = Benchmark(
    "uncertainty",
    "Uncertainties: coverage, ranking, unknown structures",
    f"{N_FEATURES} features, a committee of {MEMBERS}. Means over up to {SPLITS} random splits into training and "
    "test structures, each with its own features, ± the standard error. First table: test structures of the same kind "
    "as those learnt from; second: structures of another kind. Miscalibration: mean difference between the part of a "
    "normal distribution and the part of the errors within its interval. Log-likelihood: mean, less that of one fitted "
    "standard deviation for all. Error of the certain half of the test set as a part of the mean; sparsification: area "
    "between that curve, over all parts, and the curve of a perfect ranking, 0 at best. Rank correlation of "
    f"uncertainty and error (forces: of atoms), beside the spread of {RIVALS} models drawn with other seeds (one "
    "split). Area under the ROC curve that tells structures of another kind from test structures.",
    cells, measure, tables,
    needs=("3bpa/3bpa.npz", "ethanol_extra/ethanol_extra.npz", "zuo2020/Si.npz", "water/water_pbe0ts.npz",
           *rmd17_files("aspirin", "ethanol")),
)  # fmt: skip
