"""Errors on public data sets beside published figures: ethanol, silicon, liquid water, indium phosphide.

    python benchmarks/accuracy.py ethanol silicon water inp   # writes benchmarks/results/accuracy_NAME.json
    python benchmarks/accuracy.py ethanol --quick             # small, on a part of the training set; writes nothing

All by the same plain command: only the number of features is given, all else is chosen from the training structures.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from common import SHARED_DATA, Headline, best_of, read, recipe_with, retell, table, write

from qml_lightning import Dataset, Potential, evaluate, fit, load_dataset
from qml_lightning.recipes import Automatic

GPA_IN_EV_PER_A3 = 1 / 160.21766208


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    quick: bool
    kernels: str | None

    def size(self, full: int, small: int) -> int:
        return small if self.quick else full


def load(name: str) -> Dataset:
    """A public set from the folder beside the repository."""
    return load_dataset(name, data_folder=SHARED_DATA, labels="required")


def measured(train: Dataset, test: Dataset, n_features: int, options: Options) -> dict[str, Any]:
    """Fit, evaluate, time: one entry of the results."""
    start = time.perf_counter()
    potential = fit(train, Automatic(recipe_with(n_features)), kernels=options.kernels)
    seconds = time.perf_counter() - start
    metrics = evaluate(potential, test)
    per_atom = best_of(lambda: potential.predict(test.structures, stress=False), 3) / test.structures.n_atoms
    choice = potential.provenance["choice"]
    return {
        "recipe": potential.recipe.as_dict(),
        "choice": {name: choice[name] for name in ("chosen", "predicted", "seconds")},
        "structures": {"train": len(train), "test": len(test)},
        "rows": potential.provenance["targets"],
        "kernels": potential.provenance["kernels"],
        "errors": metrics.as_dict(),
        "fit_seconds": round(seconds, 2),
        "prediction_us_per_atom": round(per_atom * 1e6, 3),
        "cosine_us_per_atom": round(_floor(potential, test), 3),
    }


def _floor(potential: Potential, test: Dataset) -> float:
    """µs per atom of `torch.cos` over (atoms, features) in the precision of the model: features cost at least that."""
    n = min(test.structures.n_atoms, 4096)
    u = torch.randn(n, potential.recipe.features.n_features, dtype=potential.recipe.dtype)
    out = torch.empty_like(u)
    return best_of(lambda: torch.cos(u, out=out), 3) / n * 1e6


def know_nothing(train: Dataset, test: Dataset) -> dict[str, Any]:
    """Errors of the mean energy per atom of the training set, no forces and no stress: what there is to learn."""
    energies, forces, stress = test.labels.energies, test.labels.forces, test.labels.stress
    mean = (train.labels.energies / train.structures.counts).mean()
    return {
        "energy_per_atom": float((energies / test.structures.counts - mean).abs().mean()),
        "forces": float(forces.abs().mean()),
        "stress": None if stress is None else float(stress[stress.isfinite()].abs().mean()),
    }


# ---- ethanol ---------------------------------------------------------------------------------------------------------

BARS = {"energy_mev": 1.8, "forces_mev_per_angstrom": 10.0}
ETHANOL_PUBLISHED = [
    # MAE, 1000 training structures: total energy in meV, force components in meV/Å
    {"model": "QML-Lightning paper, SORF-32768", "energy_mev": 1.5, "forces_mev_per_angstrom": 7.5},
    {"model": "FCHL19 GPR", "energy_mev": 0.9, "forces_mev_per_angstrom": 6.2},
    {"model": "sGDML", "energy_mev": 2.4, "forces_mev_per_angstrom": 16.0},
    {"model": "linear ACE", "energy_mev": 1.2, "forces_mev_per_angstrom": 7.3},
    {"model": "GAP", "energy_mev": 3.5, "forces_mev_per_angstrom": 18.1},
    {"model": "NequIP l=3", "energy_mev": 0.4, "forces_mev_per_angstrom": 2.8},
    {"model": "MACE", "energy_mev": 0.4, "forces_mev_per_angstrom": 2.1},
]


def ethanol(options: Options) -> dict[str, Any]:
    """rMD17 ethanol, official split 1."""
    train, test = load("rmd17_ethanol:train_01"), load("rmd17_ethanol:test_01")
    if options.quick:
        train, test = train.split((60, 100), seed=0)
    main = measured(train, test, options.size(8192, 512), options)
    ours = {name: main["errors"][kind]["mae"] * 1e3 for name, kind in zip(BARS, ("energy", "forces"), strict=True)}
    rows = [["this run", f"{ours['energy_mev']:.2f}", f"{ours['forces_mev_per_angstrom']:.2f}"]]
    rows += [[p["model"], f"{p['energy_mev']:.1f}", f"{p['forces_mev_per_angstrom']:.1f}"] for p in ETHANOL_PUBLISHED]
    print(table([f"rMD17 ethanol, {len(train)} structures: MAE", "energy / meV", "force / meV/Å"], rows))
    return {
        "data": train.source.as_dict() | {"test_split": "test_01"},
        "main": main,
        "bars": BARS,
        "bars_met": all(ours[name] <= bar for name, bar in BARS.items()),
        "published": ETHANOL_PUBLISHED,
        "published_source": "rMD17 papers of each model, as collected for this project; other hardware, same task",
    }


# ---- silicon, indium phosphide ---------------------------------------------------------------------------------------

ZUO_TABLE = (
    "test MAE of Zuo et al., J. Phys. Chem. A 124, 731 (2020), as tabulated in ACEsuit/ACEworkflows "
    "Zuo2020Benchmark/ACEpotentials_paper.jl (commit a93972e)"
)
PYXTAL_FF = "MaterSim/PyXtal_FF examples/UCSD-Si-214-25/README.md (commit 32ef62a), after 4000 epochs"
SILICON_PUBLISHED = [
    {"model": "GAP", "energy": 2.91, "forces": 70.0, "stress": None, "source": ZUO_TABLE},
    {"model": "MTP", "energy": 2.21, "forces": 60.0, "stress": None, "source": ZUO_TABLE},
    {"model": "neural network, SO3 descriptor", "energy": 3.95, "forces": 82.6, "stress": 0.32, "source": PYXTAL_FF},
    {"model": "neural network, SO4 descriptor", "energy": 3.83, "forces": 89.4, "stress": 0.30, "source": PYXTAL_FF},
    {"model": "neural network, symmetry functions", "energy": 9.25, "forces": 120.0, "stress": 0.40,
     "source": PYXTAL_FF},
]  # fmt: skip


def silicon(options: Options) -> dict[str, Any]:
    """Silicon crystals, surfaces, vacancies and molecular dynamics: energies, forces and stress, official split."""
    return crystals("zuo2020_Si", "Si, Zuo et al. split: MAE", SILICON_PUBLISHED, options)


def inp(options: Options) -> dict[str, Any]:
    """InP crystals, strained and with point defects, of 8 to 217 atoms: energies, forces and stress, split 80 : 20."""
    return crystals("snap_InP", "InP: MAE", [], options)


def crystals(name: str, title: str, published: list[dict[str, Any]], options: Options) -> dict[str, Any]:
    """Errors of energies, forces and stress, beside published ones and those of no model."""
    train, test = load(f"{name}:train"), load(f"{name}:test")
    if options.quick:
        train, test = train.split((40, 10), seed=0)
    main, nothing = measured(train, test, options.size(4096, 256), options), know_nothing(train, test)
    rows = [_crystal("this run", {kind: main["errors"][kind]["mae"] for kind in nothing})]
    rows += [[p["model"], f"{p['energy']:.2f}", f"{p['forces']:.1f}", f"{p['stress']:.2f}" if p["stress"] else "–"]
             for p in published]  # fmt: skip
    rows += [_crystal("mean energy, no forces", nothing)]
    print(table([title, "energy / meV/atom", "force / meV/Å", "stress / GPa"], rows))
    return {
        "data": train.source.as_dict() | {"test_split": "test"},
        "main": main,
        "know_nothing": nothing,
        "published": published,
        "published_units": "meV/atom, meV/Å, GPa",
    }


def _crystal(name: str, mae: dict[str, float]) -> list[str]:
    stress = "–" if mae["stress"] is None else f"{mae['stress'] / GPA_IN_EV_PER_A3:.3f}"
    return [name, f"{mae['energy_per_atom'] * 1e3:.2f}", f"{mae['forces'] * 1e3:.1f}", stress]


# ---- water -----------------------------------------------------------------------------------------------------------

WATER_PUBLISHED = [
    {
        "model": "DeePMD se_a, a million steps",
        "energy_rmse_mev_per_atom": 0.25,
        "forces_rmse_mev_per_angstrom": 35.4,
        "source": "deepmodeling/deepmd-kit pull request 529, its water example; the frames of its test are not named",
    }
]


def water(options: Options) -> dict[str, Any]:
    """Liquid water, 64 molecules, PBE0+TS: energies and forces."""
    train, test = load("water_pbe0ts:train"), load("water_pbe0ts:test")
    if options.quick:
        train, test = train.split((8, 4), seed=0)
    main, nothing = measured(train, test, options.size(4096, 256), options), know_nothing(train, test)
    energy, forces = main["errors"]["energy_per_atom"], main["errors"]["forces"]
    rows = [["this run", *(f"{error[kind] * 1e3:.{digits}f}" for kind in ("mae", "rmse")
                           for error, digits in ((energy, 3), (forces, 1)))]]  # fmt: skip
    rows += [[p["model"], "–", "–", f"{p['energy_rmse_mev_per_atom']:.2f}", f"{p['forces_rmse_mev_per_angstrom']:.1f}"]
             for p in WATER_PUBLISHED]  # fmt: skip
    rows += [["mean energy, no forces", f"{nothing['energy_per_atom'] * 1e3:.3f}", f"{nothing['forces'] * 1e3:.1f}",
              "–", "–"]]  # fmt: skip
    print(table(["liquid water", "energy MAE / meV/atom", "force MAE / meV/Å", "energy RMSE", "force RMSE"], rows))
    return {
        "data": train.source.as_dict() | {"test_split": "test"},
        "main": main,
        "know_nothing": nothing,
        "published": WATER_PUBLISHED,
    }


# ---- rows of the README's table --------------------------------------------------------------------------------------


def ethanol_headline(results: dict[str, Any]) -> list[Headline]:
    errors, run = results["main"]["errors"], results["main"]
    paper, sgdml = (next(p for p in results["published"] if name in p["model"]) for name in ("paper", "sGDML"))
    beside = (
        f"the paper with 32768 features {paper['energy_mev']} meV, {paper['forces_mev_per_angstrom']} meV/Å; "
        f"sGDML {sgdml['energy_mev']} meV, {sgdml['forces_mev_per_angstrom']} meV/Å"
    )
    what = f"rMD17 ethanol, {run['structures']['train']} structures, {run['recipe']['features']['n_features']} features"
    return [
        Headline(
            f"{what}: MAE",
            f"{errors['energy']['mae'] * 1e3:.2f} meV, {errors['forces']['mae'] * 1e3:.2f} meV/Å",
            beside,
        ),
        _speed(what, run),
    ]


def silicon_headline(results: dict[str, Any]) -> list[Headline]:
    gap, mtp, network = results["published"][:3]
    beside = (
        f"GAP {gap['energy']}, {gap['forces']:.0f}; MTP {mtp['energy']}, {mtp['forces']:.0f}; "
        f"a neural network {network['energy']}, {network['forces']}, {network['stress']}"
    )
    n = results["main"]["structures"]["train"]
    return [Headline(f"silicon, split of Zuo et al., {n} structures: MAE", _told(results), beside)]


def inp_headline(results: dict[str, Any]) -> list[Headline]:
    n, nothing = results["main"]["structures"]["train"], results["know_nothing"]
    energy, forces = nothing["energy_per_atom"] * 1e3, nothing["forces"] * 1e3
    beside = f"mean energy and no forces: {energy:.0f} meV/atom, {forces:.0f} meV/Å"
    return [Headline(f"InP with defects, {n} structures: MAE", _told(results), beside)]


def _told(results: dict[str, Any]) -> str:
    errors = results["main"]["errors"]
    return (
        f"{errors['energy_per_atom']['mae'] * 1e3:.2f} meV/atom, {errors['forces']['mae'] * 1e3:.1f} meV/Å, "
        f"{errors['stress']['mae'] / GPA_IN_EV_PER_A3:.2f} GPa"
    )


def water_headline(results: dict[str, Any]) -> list[Headline]:
    errors, peer = results["main"]["errors"], results["published"][0]
    here = f"{errors['energy_per_atom']['rmse'] * 1e3:.2f} meV/atom, {errors['forces']['rmse'] * 1e3:.1f} meV/Å"
    beside = f"DeePMD {peer['energy_rmse_mev_per_atom']} meV/atom, {peer['forces_rmse_mev_per_angstrom']} meV/Å"
    n = results["main"]["structures"]["train"]
    return [Headline(f"liquid water, PBE0+TS, {n} structures: RMSE", here, beside)]


def _speed(what: str, run: dict[str, Any]) -> Headline:
    here = f"{run['fit_seconds']:.0f} s, {run['prediction_us_per_atom']:.1f} µs/atom"
    floor = f"`torch.cos` of as many features {run['cosine_us_per_atom']:.1f} µs/atom"
    return Headline(f"{what}: fit, prediction", here, floor, timing=True)


CASES: dict[str, tuple[Callable[[Options], dict[str, Any]], Callable[[dict[str, Any]], list[Headline]]]] = {
    "ethanol": (ethanol, ethanol_headline),
    "silicon": (silicon, silicon_headline),
    "water": (water, water_headline),
    "inp": (inp, inp_headline),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", choices=CASES)
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is written")
    parser.add_argument(
        "--retell", action="store_true", help="only write the README's rows of the recorded results anew"
    )
    parser.add_argument("--kernels", help="back-end: native, reference (default: the best that serves)")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for case in given.cases:
        run, headline = CASES[case]
        if given.retell:
            record = read(f"accuracy_{case}")
            print(f"written: {retell(f'accuracy_{case}', headline(record['results'] if record else {}))}")
            continue
        results = run(Options(given.quick, given.kernels))
        rows = headline(results)
        if given.quick:
            print(*rows, sep="\n")
        else:
            print(f"written: {write(f'accuracy_{case}', results, rows)}")


if __name__ == "__main__":
    main()
