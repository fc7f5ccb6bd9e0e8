"""Molecular dynamics in LAMMPS beside our own predictor and a pair style of the same LAMMPS."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from ase import Atoms
from ase.build import bulk

from qml_lightning import Structures, structures_from_ase

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Headline, Options, succeeded
from ..harness.internals import lammps_build, lammps_head, lammps_potentials, lammps_run, lammps_structure, untrained
from ..harness.systems import liquid_water, single_precision
from ..harness.tables import table, thousands
from ..harness.timing import best_in_turn

WATER, SILICON = "water", "silicon"
PEERS = {WATER: "ReaxFF", SILICON: "SNAP"}
SKIN = 0.5  # Å, of our own predictor; LAMMPS has 2 Å
STEPS = {"quick": 3, "full": 20}


def cells(options: Options) -> list[Cell]:
    sizes = {WATER: (192,)} if options.quick else {WATER: (1_536, 12_288, 98_304), SILICON: (1_728,)}
    features, ways = (256, ((1, 1),)) if options.quick else (16384, ((1, 1), (2, 1), (1, 2)))
    return [
        {"system": name, "atoms": n, "ranks": ranks, "threads": threads, "n_features": features}
        for name, some in sizes.items() for n in some for ranks, threads in ways
    ]  # fmt: skip


def system(name: str, n_atoms: int) -> Structures:
    """Liquid water or a silicon crystal of that many atoms, each moved a little."""
    if name == WATER:
        return liquid_water(n_atoms)
    crystal = bulk("Si", cubic=True) * round((n_atoms / 8) ** (1 / 3))
    crystal.rattle(0.02, seed=0)
    return structures_from_ase(crystal)


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    import torch

    structures = system(cell["system"], cell["atoms"])
    n, steps = structures.n_atoms, STEPS["quick" if options.quick else "full"]
    potential = untrained(system(cell["system"], 600), single_precision(cell["n_features"]))
    before = torch.get_num_threads()
    torch.set_num_threads(cell["ranks"] * cell["threads"])
    try:
        predictor = potential.on(precision="float32", skin=SKIN)
        rounds = 1 if options.quick else 5
        own = best_in_turn({"own": lambda: predictor.predict(structures)}, rounds, 0.0)["own"]
    finally:
        torch.set_num_threads(before)
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        potential.save(str(where / "model.safetensors"))
        plugin = lammps_build(where / "plugin").parent
        atoms = Atoms(
            structures.numbers.numpy(), structures.positions.numpy(), cell=structures.cells[0].numpy(), pbc=True
        )
        symbols = lammps_structure(atoms, where / "structure.data")
        head = lammps_head(atoms, symbols, where / "model.safetensors", "precision float32")
        found = {"LAMMPS": _seconds(where, head, cell, steps, plugin), "own": own}
        if not options.quick:
            found["peer"] = _seconds(where, _peer(head, cell["system"], symbols), cell, steps, plugin)
    return {"atoms": n, "us_per_atom": {name: 1e6 * seconds / n for name, seconds in found.items()}}


def _peer(head: str, name: str, symbols: list[str]) -> str:
    """Input of LAMMPS with the pair style of a peer instead of ours."""
    lines, folder = [line for line in head.splitlines() if not line.startswith("pair_")], lammps_potentials()
    if name == WATER:
        lines = [line.replace("units metal", "units real").replace("atomic", "charge") for line in lines]
        # ReaxFF needs charges: the data file of atom_style charge has one more column
        lines += ["pair_style reaxff NULL", f"pair_coeff * * {folder}/ffield.reax.mattsson {' '.join(symbols)}",
                  "fix charges all qeq/reaxff 1 0.0 10.0 1.0e-6 reaxff"]  # fmt: skip
    else:
        files = " ".join(f"{folder}/Si_Zuo_JPCA2020.{kind}" for kind in ("snapcoeff", "snapparam"))
        lines += ["pair_style snap", f"pair_coeff * * {files} Si"]
    return "\n".join(lines) + "\n"


def _seconds(where: Path, head: str, cell: Cell, steps: int, plugin: Path) -> float:
    """Seconds of a step in a run that has been warmed up."""
    script = where / "in.lammps"
    if "atom_style charge" in head:
        data = (where / "structure.data").read_text()
        rows = re.sub(r"^(\s+\d+\s+\d+)(\s+-?\d)", r"\1 0.0\2", data.split("Atoms")[1], flags=re.MULTILINE)
        (where / "charged.data").write_text(data.split("Atoms")[0] + "Atoms" + rows.replace("atomic", "charge"))
        head = head.replace("structure.data", "charged.data")
    # weights are random: the atoms must not move far
    script.write_text(f"{head}timestep 1e-6\nfix nve all nve\nthermo 1000\nrun 2\nrun {steps}\n")
    log = lammps_run(script, cell["ranks"], cell["threads"], plugin)
    return float(re.findall(r"Loop time of (\S+) on", log)[-1]) / steps


def tables(entries: list[Entry]) -> str:
    rows = []
    for entry in succeeded(entries):
        cell, times = entry[CELL], entry["us_per_atom"]
        peer = f"{times['peer']:.1f} ({PEERS[cell['system']]})" if "peer" in times else ""
        rows.append([
            f"{cell['system']}, {thousands(entry['atoms'])} atoms", f"{cell['ranks']} × {cell['threads']}",
            f"{times['LAMMPS']:.1f}", f"{times['own']:.1f}", f"{times['LAMMPS'] / times['own']:.2f}", peer,
        ])  # fmt: skip
    return table(["µs per atom and step", "ranks × threads", "LAMMPS", "own predictor", "ratio", "peer"], rows)


def headline(entries: list[Entry]) -> list[Headline]:
    for entry in succeeded(entries):
        if entry[CELL]["system"] == WATER and entry[CELL]["ranks"] == 2 and 5_000 < entry["atoms"] < 20_000:
            times = entry["us_per_atom"]
            what = f"LAMMPS, {thousands(entry['atoms'])} atoms of water, 2 ranks"
            here = f"{times['LAMMPS']:.1f} µs per atom and step"
            return [Headline(what, here, f"our own predictor, 2 threads: {times['own']:.1f}", timing=True)]
    return []


LAMMPS = Benchmark(
    "lammps",
    "LAMMPS",
    "The pair style qml/lightning in a run at constant energy, float32, beside `predict` on the same structure with as "
    "many threads as ranks × threads, and beside a pair style of the same LAMMPS: ReaxFF for water, SNAP (Zuo 2020) "
    "for silicon.",
    cells, measure, tables, headline=headline, needs=("water/water_pbe0ts.npz",), packages=("lammps",), timing=True,
)  # fmt: skip
