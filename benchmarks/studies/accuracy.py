"""Errors on public data sets beside published figures: ethanol, six crystals, liquid water."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from qml_lightning import Dataset, evaluate, fit

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Headline, Options
from ..harness.entries import grouped
from ..harness.internals import facts
from ..harness.models import AUTO, load, recipe_for, recipe_words
from ..harness.places import PUBLISHED
from ..harness.tables import table
from ..harness.timing import best_of, cosine_floor

MEV, GPA = 1e3, 160.21766208  # of an eV, and of an eV/Å³


@dataclass(frozen=True)
class Column:
    """One error of a table: of which kind, mean absolute (mae) or root mean square (rmse), and its unit."""

    name: str
    kind: str
    statistic: str
    scale: float
    digits: int


@dataclass(frozen=True)
class Case:
    """A data set with its split, and the errors that are told of it."""

    title: str
    train: str
    test: str
    n_features: int
    quick: tuple[int, int]  # structures of the training set that are learnt and tried in a quick run
    columns: tuple[Column, ...]


CRYSTAL = (
    Column("energy / meV/atom", "energy_per_atom", "mae", MEV, 2),
    Column("force / meV/Å", "forces", "mae", MEV, 1),
    Column("stress / GPa", "stress", "mae", GPA, 3),
)
CASES = {
    "ethanol": Case(
        "rMD17 ethanol, 1000 structures: MAE", "rmd17_ethanol:train_01", "rmd17_ethanol:test_01", 8192, (40, 20),
        (Column("energy / meV", "energy", "mae", MEV, 2), Column("force / meV/Å", "forces", "mae", MEV, 2)),
    ),
    # crystals, strained and with point defects, of 8 to 217 atoms, split 80 : 20
    "inp": Case("InP: MAE", "snap_InP:train", "snap_InP:test", 4096, (20, 5), CRYSTAL),
    # crystals, surfaces, vacancies and molecular dynamics, official split
    "silicon": Case("Si, Zuo et al. split: MAE", "zuo2020_Si:train", "zuo2020_Si:test", 4096, (20, 5), CRYSTAL),
    # the other metals of that work, and tantalum with defects, surfaces and a liquid, split 80 : 20
    "lithium": Case("Li, Zuo et al. split: MAE", "zuo2020_Li:train", "zuo2020_Li:test", 4096, (20, 5), CRYSTAL),
    "molybdenum": Case("Mo, Zuo et al. split: MAE", "zuo2020_Mo:train", "zuo2020_Mo:test", 4096, (20, 5), CRYSTAL),
    "copper": Case("Cu, Zuo et al. split: MAE", "zuo2020_Cu:train", "zuo2020_Cu:test", 4096, (20, 5), CRYSTAL),
    "tantalum": Case("Ta: MAE", "snap_Ta:train", "snap_Ta:test", 4096, (20, 5), CRYSTAL),
    # 64 molecules, PBE0+TS
    "water": Case(
        "liquid water", "water_pbe0ts:train", "water_pbe0ts:test", 4096, (4, 2),
        (
            Column("energy MAE / meV/atom", "energy_per_atom", "mae", MEV, 3),
            Column("force MAE / meV/Å", "forces", "mae", MEV, 1),
            Column("energy RMSE", "energy_per_atom", "rmse", MEV, 3),
            Column("force RMSE", "forces", "rmse", MEV, 1),
        ),
    ),
}  # fmt: skip


def cells(options: Options) -> list[Cell]:
    if options.quick:
        return [{"data": name, "n_features": 256, "recipe": options.recipe} for name in ("ethanol", "silicon")]
    return [{"data": name, "n_features": case.n_features, "recipe": options.recipe} for name, case in CASES.items()]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    case = CASES[cell["data"]]
    train, test = load(case.train), load(case.test)
    if options.quick:
        train, test = train.split(case.quick, seed=0)
    start = time.perf_counter()
    potential = fit(train, recipe_for(cell["recipe"], cell["n_features"]))
    seconds = time.perf_counter() - start
    metrics = evaluate(potential, test)
    per_atom = best_of(lambda: potential.predict(test.structures, stress=False), 3) / test.structures.n_atoms
    known, n = facts(potential), min(test.structures.n_atoms, 4096)
    cosine = best_of(cosine_floor(n, cell["n_features"], potential.recipe.dtype), 3) / n
    return {
        "source": train.source.as_dict() | {"test_split": case.test.partition(":")[2]},
        "recipe": potential.recipe.as_dict(),
        "choice": {name: known["choice"][name] for name in ("chosen", "predicted", "seconds")},
        "structures": {"train": len(train), "test": len(test)},
        "rows": known["targets"],
        "errors": metrics.as_dict(),
        "know_nothing": know_nothing(train, test),
        "fit_seconds": round(seconds, 2),
        "prediction_us_per_atom": round(per_atom * 1e6, 3),
        "cosine_us_per_atom": round(cosine * 1e6, 3),
    }


def know_nothing(train: Dataset, test: Dataset) -> dict[str, Any]:
    """Errors of the mean energy per atom of the training set, no forces and no stress: how much there is to learn."""
    energies, forces, stress = test.labels.energies, test.labels.forces, test.labels.stress
    mean = (train.labels.energies / train.structures.counts).mean()
    return {
        "energy_per_atom": float((energies / test.structures.counts - mean).abs().mean()),
        "forces": float(forces.abs().mean()),
        "stress": None if stress is None else float(stress[stress.isfinite()].abs().mean()),
    }


def tables(entries: list[Entry]) -> str:
    return "\n\n".join(_table(name, there) for (name,), there in grouped(entries, "data").items())


def _table(name: str, there: list[Entry]) -> str:
    """Errors of one data set: here, by recipe, published, and those of no model."""
    columns, nothing = CASES[name].columns, there[0].get("know_nothing") or {}
    rows = [
        [f"this run{recipe_words(entry[CELL]['recipe'])}", *(_error(entry, column) for column in columns)]
        for entry in there
    ]
    for model, figures in PUBLISHED["accuracy"][name]["models"].items():
        rows.append([model, *("–" if figure is None else f"{figure:g}" for figure in figures)])
    if nothing:
        known = [nothing.get(column.kind) if column.statistic == "mae" else None for column in columns]
        rows.append(["mean energy, no forces", *(_scaled(value, c) for value, c in zip(known, columns, strict=True))])
    return table([CASES[name].title, *(column.name for column in columns)], rows)


def _error(entry: Entry, column: Column) -> str:
    error = entry["errors"][column.kind]
    return _scaled(None if error is None else error[column.statistic], column)


def _scaled(value: float | None, column: Column) -> str:
    return "–" if value is None else f"{value * column.scale:.{column.digits}f}"


def headline(entries: list[Entry]) -> list[Headline]:
    """Figures of each data set, with the recipe that was measured last: the default of the package, if it is there."""
    last = {name: there[-1] for (name,), there in grouped(entries, "data").items() if name in HEADLINES}
    return [row for name, entry in last.items() for row in HEADLINES[name](entry)]


def _ethanol(entry: Entry) -> list[Headline]:
    models, n = PUBLISHED["accuracy"]["ethanol"]["models"], entry["structures"]["train"]
    paper, sgdml = ("{} meV, {} meV/Å".format(*models[name]) for name in ("QML-Lightning paper, SORF-32768", "sGDML"))
    what = f"rMD17 ethanol, {n} structures, {entry[CELL]['n_features']} features{recipe_words(entry[CELL]['recipe'])}"
    energy, force = (entry["errors"][kind]["mae"] * MEV for kind in ("energy", "forces"))
    speed = f"{entry['fit_seconds']:.0f} s, {entry['prediction_us_per_atom']:.1f} µs/atom"
    floor = f"`torch.cos` of as many features {entry['cosine_us_per_atom']:.1f} µs/atom"
    beside = f"the paper with 32768 features {paper}; sGDML {sgdml}"
    return [
        Headline(f"{what}: MAE", f"{energy:.2f} meV, {force:.2f} meV/Å", beside),
        Headline(f"{what}: fit, prediction", speed, floor, timing=True),
    ]


def _silicon(entry: Entry) -> list[Headline]:
    gap, mtp, network = list(PUBLISHED["accuracy"]["silicon"]["models"].values())[:3]
    beside = f"GAP {gap[0]}, {gap[1]:.0f}; MTP {mtp[0]}, {mtp[1]:.0f}; a neural network {', '.join(map(str, network))}"
    n, words = entry["structures"]["train"], recipe_words(entry[CELL]["recipe"])
    what = f"silicon, split of Zuo et al., {n} structures{words}: MAE"
    return [Headline(what, _crystal(entry), beside)]


def _inp(entry: Entry) -> list[Headline]:
    energy, forces = (entry["know_nothing"][kind] * MEV for kind in ("energy_per_atom", "forces"))
    beside = f"mean energy and no forces: {energy:.0f} meV/atom, {forces:.0f} meV/Å"
    n, words = entry["structures"]["train"], recipe_words(entry[CELL]["recipe"])
    return [Headline(f"InP with defects, {n} structures{words}: MAE", _crystal(entry), beside)]


def _crystal(entry: Entry) -> str:
    energy, forces, stress = (entry["errors"][kind]["mae"] for kind in ("energy_per_atom", "forces", "stress"))
    return f"{energy * MEV:.2f} meV/atom, {forces * MEV:.1f} meV/Å, {stress * GPA:.2f} GPa"


def _water(entry: Entry) -> list[Headline]:
    energy, forces = (entry["errors"][kind]["rmse"] * MEV for kind in ("energy_per_atom", "forces"))
    (*_, peer_energy, peer_forces), *_ = PUBLISHED["accuracy"]["water"]["models"].values()
    n, words = entry["structures"]["train"], recipe_words(entry[CELL]["recipe"])
    what = f"liquid water, PBE0+TS, {n} structures{words}: RMSE"
    beside = f"DeePMD {peer_energy} meV/atom, {peer_forces} meV/Å"
    return [Headline(what, f"{energy:.2f} meV/atom, {forces:.1f} meV/Å", beside)]


HEADLINES = {"ethanol": _ethanol, "silicon": _silicon, "inp": _inp, "water": _water}

ACCURACY = Benchmark(
    "accuracy",
    "Errors on public data sets",
    "All by the same plain command: only the number of features is given, the rest is chosen from the training "
    "structures.",
    cells, measure, tables, None, headline, AUTO,
    needs=(
        "rmd17/rmd17_ethanol.npz", *(f"zuo2020/{metal}.npz" for metal in ("Si", "Li", "Mo", "Cu")), "snap/InP.npz",
        "snap/Ta.npz", "water/water_pbe0ts.npz",
    ),
)  # fmt: skip
