"""Outliers: kinds of damage to one frame of 200 that are found, and clean data sets without a false alarm."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np

from qml_lightning import Dataset

from ..harness.benchmark import CELL, Benchmark, Cell, Entry, Options
from ..harness.entries import grouped
from ..harness.internals import OutlierSearch, find_outliers, outlier_search
from ..harness.models import load
from ..harness.tables import table
from .damage import KINDS, OF_SEVERAL_ELEMENTS, PERIODIC, TO_STRUCTURES, WITH_STRESS, damaged

N = 200  # frames
CLEAN_MOST = 1000  # structures
DAMAGED = {
    "ethanol": "rmd17_ethanol:train_01",
    "aspirin": "rmd17_aspirin:train_01",
    "silicon": "zuo2020_Si:train",
    "water": "water_pbe0ts:train",
}
CLEAN = {
    **{name: f"rmd17_{name}:train_01" for name in ("ethanol", "aspirin", "benzene", "malonaldehyde", "naphthalene",
                                                  "salicylic", "toluene", "uracil")},
    **{f"MD17 {name}": f"md17_{name}_2k:train" for name in ("aspirin", "ethanol", "uracil")},
    "3BPA 300 K": "3bpa:train_300K", "3BPA mixed": "3bpa:test_mixedT", "QM7": "qm7:train",
    "small molecules": "small_mols:train",
    **{name: f"zuo2020_{name}:train" for name in ("Li", "Mo", "Si", "Cu")},
    "Ta": "snap_Ta:train", "InP": "snap_InP:train", "water": "water_pbe0ts:train",
}  # fmt: skip
NOTHING = "nothing"


def cells(options: Options) -> list[Cell]:
    damage = [
        {"data": name, "damage": kind}
        for name in (("ethanol",) if options.quick else DAMAGED)
        for kind in (*KINDS, *(PERIODIC if name in ("silicon", "water") else ()),
                     *(WITH_STRESS if name == "silicon" else ()))
        if name != "silicon" or kind not in OF_SEVERAL_ELEMENTS
    ]  # fmt: skip
    clean = [{"data": name, "damage": NOTHING} for name in (("ethanol",) if options.quick else CLEAN)]
    return clean[:1] + damage[:2] if options.quick else clean + damage


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    name, kind = cell["data"], cell["damage"]
    if kind == NOTHING:
        data = load(CLEAN[name])
        return _told(data if len(data) <= CLEAN_MOST else data.subsample(CLEAN_MOST, seed=0), None)
    n = 60 if options.quick else N
    data = _data(name, n)
    frame = int(np.random.RandomState(list(KINDS | PERIODIC | WITH_STRESS).index(kind)).choice(_moving(data)))
    bad = damaged(data, frame, kind)
    return _told(bad, frame, None if kind in TO_STRUCTURES else _search(name, n))


def _moving(data: Dataset) -> np.ndarray:
    """Frames with a force of 0.1 eV/Å or more: scaled forces, swapped atoms and the like mean nothing in others."""
    forces = data.labels.forces
    assert forces is not None
    largest = forces.new_zeros(len(data)).scatter_reduce_(
        0, data.structures.structure_of_atom, forces.norm(dim=1), "amax"
    )
    return (largest > 0.1).nonzero()[:, 0].numpy()


@lru_cache(1)
def _data(name: str, n: int) -> Dataset:
    data = load(DAMAGED[name])
    return data.subsample(min(len(data), n), seed=0)


@lru_cache(1)
def _search(name: str, n: int) -> OutlierSearch:
    """Rows of the small fit, which do not depend on labels."""
    return outlier_search(_data(name, n))


def _told(data: Dataset, frame: int | None, search: OutlierSearch | None = None) -> dict[str, Any]:
    started = time.perf_counter()
    found, lead = find_outliers(data, search, frame)
    named = [one for one in found.found if one.structure == frame]
    return {
        "structures": len(data),
        "frame": frame,
        "found": bool(named),
        "kind": named[0].kind if named else "",
        "finding": named[0].finding if named else "",
        "sigma": named[0].sigma if named else 0.0,
        "false": [one.structure for one in found.found if one.structure != frame],
        "ruinous": found.ruinous,
        "lead": lead,
        "seconds": round(time.perf_counter() - started, 2),
    }


def tables(entries: list[Entry]) -> str:
    kinds = grouped([entry for entry in entries if entry[CELL]["damage"] != NOTHING], "damage")
    names = [
        name for name in DAMAGED if any(entry[CELL]["data"] == name for there in kinds.values() for entry in there)
    ]
    rows = [[kind, *(_cell(there, name) for name in names)] for (kind,), there in kinds.items()]
    clean = [entry for entry in entries if entry[CELL]["damage"] == NOTHING]
    quiet = ", ".join(entry[CELL]["data"] for entry in clean if not entry["false"])
    loud = ", ".join(f"{entry[CELL]['data']} (frames {entry['false']})" for entry in clean if entry["false"])
    always = sum(all(entry["found"] for entry in there) for there in kinds.values())
    told = (
        f"Named in all of these sets where they can happen: {always} of {len(kinds)} kinds of damage.\n\n"
        f"No alarm on clean data: {quiet or 'none'}.\n\nAlarms on clean data: {loud or 'none'}."
    )
    return f"{table(['damage to one frame', *names], rows)}\n\n{told}"


def _cell(there: list[Entry], name: str) -> str:
    entry = next((entry for entry in there if entry[CELL]["data"] == name), None)
    if entry is None:
        return "–"
    others = f", and {len(entry['false'])} others" if entry["false"] else ""
    seen, lead = f"{entry['kind']}, {entry['sigma']:,.0f} σ", entry.get("lead")
    return (seen if entry["found"] else "not seen" + (f" ({lead:.2g})" if lead else "")) + others


OUTLIERS = Benchmark(
    "outliers",
    "Outliers: damage to one frame of 200",
    "One frame is damaged, and `find_outliers` names it with the kind of label and the size of the residual. Not seen: "
    "in brackets the largest statistic of the frame over the largest of all right frames. Clean data give no alarm.",
    cells, measure, tables,
    needs=("rmd17/rmd17_ethanol.npz", "rmd17/rmd17_aspirin.npz", "zuo2020/Si.npz", "water/water_pbe0ts.npz"),
)  # fmt: skip
