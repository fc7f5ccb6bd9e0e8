"""Hashes of small fits with the reference kernels, to see that a change of the code changes no bit: `make bits`.

python tests/bits.py compares them with the table tests/data/bits.json; --write puts them into it. The last bits depend
on the processor (two of 17 fits differ between AVX2 and AVX-512) and on torch, so that the table has hashes for each
machine: on another machine, write them at the commit before the change. Hence this is a command, and no test.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS / "helpers"))

from qml_lightning import fit, load_dataset  # noqa: E402
from qml_lightning.atoms.dataset import Dataset  # noqa: E402
from qml_lightning.exact import GPR, OQML  # noqa: E402
from qml_lightning.machine.compute import Compute  # noqa: E402
from qml_lightning.model.potential import Model  # noqa: E402
from qml_lightning.model.recipe import DEFAULT, Automatic, Recipe  # noqa: E402
from qml_lightning.training.equations import extended  # noqa: E402
from qml_lightning.training.equations_file import load_equations  # noqa: E402
from qml_lightning.training.solvers.direct import solved  # noqa: E402
from small_models import crystals, recipe  # noqa: E402

TABLE = TESTS / "data" / "bits.json"
OPTIONS = {"kernels": "reference", "repulsion": False}
OLD = TESTS / "data" / "df681ca"  # tests/training/test_old_files.py


def ethanol(n: int = 24) -> Dataset:
    return load_dataset(f"ethanol:train@0:{n}")


def with_solver(method: str, **settings: object) -> Recipe:
    start = recipe()
    return replace(start, solver=replace(start.solver, method=method, **settings))


def fitted(settings: Recipe, n: int = 24, **options: object) -> Callable[[Path], Model]:
    """A fit to ethanol."""
    return lambda _: fit(ethanol(n), settings, **OPTIONS, **options)


def updated(folder: Path) -> Model:
    """A fit whose equations are kept, and to which structures are added later."""
    fit(ethanol(16), recipe(), equations=folder / "e", **OPTIONS)
    more = load_dataset("ethanol:train@16:24")
    return solved(extended(load_equations(folder / "e"), more, Compute(kernels="reference")), use_up=True)


def resumed(folder: Path) -> Model:
    """A fit that goes on from a checkpoint of an older version."""
    from qml_lightning import load

    old = load(OLD / "model.safetensors")
    path = folder / "c"
    path.write_bytes((OLD / "fit.checkpoint").read_bytes())
    settings = replace(old.recipe, solver=replace(old.recipe.solver, method="direct"))
    return fit(ethanol(20), settings, basis=old, checkpoint=path, resume=True, **OPTIONS)


density = replace(DEFAULT, rank=32, features=replace(DEFAULT.features, n_features=256))
FITS: dict[str, Callable[[Path], Model]] = {
    "SORF, direct": fitted(recipe()),
    "RFF": fitted(recipe(method="rff")),
    "ORF": fitted(recipe(method="orf")),
    "pairs of cos and sin, own weights": fitted(recipe(paired=True, blocks=True)),
    "float32": fitted(recipe(precision="float32")),
    "density": fitted(replace(density, precision="float64"), 8),
    "dual form": fitted(recipe(n_features=1024), 8),
    "iterative": fitted(with_solver("iterative", preconditioner_features=64)),
    "compensated": fitted(with_solver("direct", accumulation="compensated")),
    "chosen ridge and width": fitted(Automatic(recipe(), ("ridge", "sigma")), 40),  # type: ignore[arg-type]
    "energies alone": fitted(recipe(), targets=["energies"]),
    "stress": lambda _: fit(crystals(6), recipe(), **OPTIONS),
    "committee": fitted(recipe(), committee=3),
    "update": updated,
    "resumed": resumed,
    "OQML": lambda _: fit(ethanol(6), replace(OQML, representation=recipe().representation), **OPTIONS),
    "GPR": lambda _: fit(ethanol(6), replace(GPR, representation=recipe().representation), **OPTIONS),
}


def machine() -> str:
    """Facts that the last bits depend on."""
    processor = next((line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), "unknown")
    return f"{processor}, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def digest(name: str) -> str:
    """Hash of weights and predictions of a fit."""
    with tempfile.TemporaryDirectory() as folder:
        model = FITS[name](Path(folder))
    data = crystals(2) if name == "stress" else load_dataset("ethanol:test@0:4")
    found = model.on(kernels="reference").predict(data.structures, forces=True)
    numbers = [model.weights, found.energies, found.forces, found.stress, getattr(model.committee, "deviations", None)]
    tensors = [one for one in numbers if one is not None]
    return hashlib.sha256(b"".join(one.double().contiguous().numpy().tobytes() for one in tensors)).hexdigest()[:16]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", action="store_true", help="put the hashes into the table")
    given = options.parse_args()
    torch.set_num_threads(1)
    # no native kernels: axes of the projection are drawn with the best kernels, whatever the fit then uses
    os.environ["QML_LIGHTNING_LIBRARY"] = os.devnull
    warnings.filterwarnings("ignore", message="Plain torch takes the place")
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    here, found = machine(), {name: digest(name) for name in FITS}
    if given.write:
        TABLE.write_text(json.dumps(table | {here: found}, indent=1) + "\n")
        print(f"{len(found)} hashes are in {TABLE} for {here}.")
        return 0
    if here not in table:
        print(
            f"The table has no hashes for this machine ({here}). Write them at the commit before the change: --write."
        )
        return 2
    changed = [name for name, value in found.items() if table[here].get(name) != value]
    print(f"{len(found) - len(changed)} of {len(found)} fits have the same bits.", *changed, sep="\n  changed: ")
    return 1 if changed else 0


if __name__ == "__main__":
    raise SystemExit(main())
