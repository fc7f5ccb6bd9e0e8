"""Molecular dynamics in LAMMPS beside our own predictor and a pair style of the same LAMMPS."""

from __future__ import annotations

import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ase import Atoms
from ase.build import bulk

from qml_lightning import Potential, Structures, structures_from_ase

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Headline, Options, succeeded
from ..harness.internals import lammps_build, lammps_head, lammps_potentials, lammps_run, lammps_structure, untrained
from ..harness.results import quiet
from ..harness.systems import liquid_water, single_precision
from ..harness.tables import table, thousands

WATER, SILICON = "water", "silicon"
PEERS = {WATER: "ReaxFF", SILICON: "SNAP"}
SKIN = 0.5  # Å, of our own predictor; LAMMPS has 2 Å
NEW = ", new list"
NEW_LISTS = "neigh_modify every 1 delay 0 check no\n"
ROUNDS = 3  # of our own predictor and LAMMPS in turn
ATOM_STEPS = 150_000  # atoms times steps of a round, where that is more than one step


@dataclass(frozen=True)
class Seconds:
    """Time of a step: that passed, and of the processors that worked."""

    passed: float
    worked: float


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
    structures = system(cell["system"], cell["atoms"])
    n = structures.n_atoms
    potential = untrained(system(cell["system"], 600), single_precision(cell["n_features"]))
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        potential.save(str(where / "model.safetensors"))
        plugin = lammps_build(where / "plugin").parent
        atoms = Atoms(
            structures.numbers.numpy(), structures.positions.numpy(), cell=structures.cells[0].numpy(), pbc=True
        )
        symbols = lammps_structure(atoms, where / "structure.data")
        head = lammps_head(atoms, symbols, where / "model.safetensors", "precision float32")
        steps = 2 if options.quick else min(20, max(1, ATOM_STEPS // n))
        found: dict[str, list[Seconds]] = {}
        for _ in range(1 if options.quick else ROUNDS):
            for new, skin, lists in (("", SKIN, ""), (NEW, 0.0, NEW_LISTS)):
                found.setdefault("own" + new, []).extend(_own(potential, structures, cell, steps, skin))
                found.setdefault("LAMMPS" + new, []).extend(_in_lammps(where, head + lists, cell, steps, plugin))
        if not options.quick and cell["threads"] == 1:
            found["peer"] = _in_lammps(where, _peer(head, cell["system"], symbols), cell, steps, plugin)
    return {
        "atoms": n,
        "us_per_atom": {name: 1e6 * min(one.passed for one in times) / n for name, times in found.items()},
        # the median: other threads are charged at ticks of milliseconds, so the least is too little in short steps
        "cpu_us_per_atom": {name: 1e6 * median(one.worked for one in times) / n for name, times in found.items()},
    }


def _own(potential: Potential, structures: Structures, cell: Cell, steps: int, skin: float) -> list[Seconds]:
    """Seconds of predictions; without a skin each of them lists the neighbours."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(cell["ranks"] * cell["threads"])
    try:
        predictor = potential.on(precision="float32", skin=skin)
        predictor.predict(structures)
        out = []
        for _ in range(steps):
            passed, worked = time.perf_counter(), time.process_time()
            predictor.predict(structures)
            out.append(Seconds(time.perf_counter() - passed, time.process_time() - worked))
        return out
    finally:
        torch.set_num_threads(before)


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


def _in_lammps(where: Path, head: str, cell: Cell, steps: int, plugin: Path) -> list[Seconds]:
    """Seconds of steps in LAMMPS, after a run that has warmed up."""
    script = where / "in.lammps"
    if "atom_style charge" in head:
        data = (where / "structure.data").read_text()
        rows = re.sub(r"^(\s+\d+\s+\d+)(\s+-?\d)", r"\1 0.0\2", data.split("Atoms")[1], flags=re.MULTILINE)
        (where / "charged.data").write_text(data.split("Atoms")[0] + "Atoms" + rows.replace("atomic", "charge"))
        head = head.replace("structure.data", "charged.data")
    # weights are random: the atoms must not move far
    steady = "run 1 pre no\n" * steps
    script.write_text(f"{head}timestep 1e-6\nfix nve all nve\nthermo 1000\nrun 1\n{steady}")
    log = lammps_run(script, cell["ranks"], cell["threads"], plugin)
    passed = [float(seconds) for seconds in re.findall(r"Loop time of (\S+) on", log)[1:]]
    busy = [float(share) / 100 for share in re.findall(r"([\d.]+)% CPU use", log)[1:]]
    return [Seconds(one, one * share * cell["ranks"]) for one, share in zip(passed, busy, strict=True)]


def tables(entries: list[Entry]) -> str:
    rows = []
    for entry in succeeded(entries):
        cell, cpu, passed = entry[CELL], entry["cpu_us_per_atom"], entry["us_per_atom"]
        peer = f"{cpu['peer']:.1f} ({PEERS[cell['system']]})" if "peer" in cpu else ""
        new = f"{cpu['LAMMPS' + NEW] / cpu['own' + NEW]:.2f}" if "own" + NEW in cpu else ""
        rows.append([
            f"{cell['system']}, {thousands(entry['atoms'])} atoms", f"{cell['ranks']} × {cell['threads']}",
            f"{cpu['LAMMPS']:.1f}", f"{cpu['own']:.1f}", f"{cpu['LAMMPS'] / cpu['own']:.2f}", new, peer,
            f"{passed['LAMMPS'] / passed['own']:.2f}" if quiet(entry) else "machine busy",
        ])  # fmt: skip
    columns = ["LAMMPS", "own predictor", "ratio", "ratio with new lists", "peer", "ratio of the time that passed"]
    return table(["µs of all processors, per atom and step", "ranks × threads", *columns], rows)


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
    "for silicon. The median of the steps of each, in turns; of the time that passed "
    "the fastest. Neighbour lists are kept (LAMMPS with its skin of 2 Å, we with "
    "0.5 Å), or made anew in each step, ours then without a skin. Times are of the processors, summed over ranks and "
    "threads, which other programs disturb little, with OMP_WAIT_POLICY=passive, so that threads that wait "
    "do not count; ratios of the time that passed are told where the machine did nothing else.",
    cells, measure, tables, headline=headline, needs=("water/water_pbe0ts.npz",), packages=("lammps",), timing=True,
)  # fmt: skip
