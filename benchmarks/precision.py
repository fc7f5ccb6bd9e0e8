"""What float32 costs: errors, differences from float64, and the drift of energy in molecular dynamics.

python benchmarks/precision.py             # rMD17 ethanol, 1000 structures, 8192 features
python benchmarks/precision.py --quick     # small; writes nothing
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
from ase import Atoms, units
from ase.md.velocitydistribution import MaxwellBoltzmannDistribution
from ase.md.verlet import VelocityVerlet
from common import SHARED_DATA, table, write

from qml_lightning import Dataset, Potential, evaluate, fit, load_dataset, recipes


def drift(potential: Potential, data: Dataset, precision: str, steps: int) -> dict[str, float]:
    """Total energy along NVE dynamics of 0.5 fs steps from 300 K, in meV: slope per ps and scatter about the line."""
    n = int(data.structures.counts[0])
    atoms = Atoms(data.structures.numbers[:n].numpy(), data.structures.positions[:n].numpy())
    atoms.calc = potential.calculator(precision=precision)
    MaxwellBoltzmannDistribution(atoms, temperature_K=300, rng=np.random.default_rng(0))
    dynamics = VelocityVerlet(atoms, timestep=0.5 * units.fs)
    energies = []
    dynamics.attach(lambda: energies.append(atoms.get_total_energy()), interval=10)
    dynamics.run(steps)
    picoseconds = np.arange(len(energies)) * 0.005
    slope, start = np.polyfit(picoseconds, energies, 1)
    scatter = np.std(np.array(energies) - slope * picoseconds - start)
    return {"mev_per_ps": float(slope * 1e3), "scatter_mev": float(scatter * 1e3), "picoseconds": steps * 5e-4}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    n, n_features, steps = (100, 1024, 200) if quick else (1000, 8192, 20000)
    train = load_dataset(f"rmd17_ethanol:train_01@0:{n}", data_folder=SHARED_DATA)
    test = load_dataset("rmd17_ethanol:test_01", data_folder=SHARED_DATA)
    fitted: dict[str, Potential] = {}
    results: dict[str, Any] = {"structures": n, "n_features": n_features, "fits": {}, "predictions": {}}
    for precision in ("float64", "float32"):
        features = replace(recipes.DEFAULT.features, n_features=n_features)
        start = time.perf_counter()
        fitted[precision] = fit(train, replace(recipes.DEFAULT, precision=precision, features=features))
        seconds = time.perf_counter() - start
        results["fits"][precision] = {"seconds": seconds, **evaluate(fitted[precision], test).as_dict()}
    model = fitted["float64"]
    exact = model.predict(test.structures)
    for precision in ("float64", "float32"):
        found = model.on(precision=precision).predict(test.structures)
        results["predictions"][precision] = {
            "energy_difference_mev": float((found.energies - exact.energies).abs().max() * 1e3),
            "force_difference_mev_per_angstrom": float((found.forces - exact.forces).abs().max() * 1e3),
            "nve": drift(model, test, precision, steps),
        }
    fits, told = results["fits"], results["predictions"]
    print(table(["", "float64", "float32"], [
        ["fitted in: energy MAE / meV", *(f"{fits[p]['energy']['mae'] * 1e3:.3f}" for p in fits)],
        ["fitted in: force MAE / meV/Å", *(f"{fits[p]['forces']['mae'] * 1e3:.3f}" for p in fits)],
        ["predicted in: largest energy difference / meV", *(f"{told[p]['energy_difference_mev']:.2g}" for p in told)],
        ["predicted in: largest force difference / meV/Å",
         *(f"{told[p]['force_difference_mev_per_angstrom']:.2g}" for p in told)],
        ["NVE: drift / meV/ps", *(f"{told[p]['nve']['mev_per_ps']:.3g}" for p in told)],
        ["NVE: scatter / meV", *(f"{told[p]['nve']['scatter_mev']:.3g}" for p in told)],
    ]))  # fmt: skip
    if not quick:
        write("precision", results)


if __name__ == "__main__":
    main()
