"""Time of energies and forces: one molecule, a thousand, a framework, water, a protein; ours and the peers'."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..harness.benchmark import CELL, Benchmark, Cell, Comparison, Entry, Headline, Options
from ..harness.drawing import BLUE, GREEN, GREY, ORANGE, RED, log_axis, panels, title
from ..harness.entries import grouped
from ..harness.models import load
from ..harness.places import PUBLISHED, SHORT
from ..harness.systems import NEEDS, SYSTEMS, system, untrained
from ..harness.tables import digits, table
from ..harness.timing import best_of, product_rate
from ..peers.environments import ask
from .possible_work import Work, possible_work

PAPER: dict[str, dict[str, float]] = PUBLISHED["prediction"]["systems"]
OURS = "qml-lightning"
# Most frames that a peer is asked for at once, by how long it takes.
PEERS = {"kernelforge": 5, "sgdml": 1000, "quippy": 50, "torchani": 1000, "mace": 100}
SHOWN = "1000 aspirin"  # system of the README
TITLES = {"sgdml": "sGDML", "torchani": "TorchANI", "mace": "MACE"}  # peers that the README names
ONE_MOLECULE = ("kernelforge", "sgdml", "quippy")  # made for one molecule, or too slow for anything else
SECONDS = 300
TRAINED = 100  # structures behind the models of sGDML and GAP, which training_times left


def cells(options: Options) -> list[Cell]:
    if options.quick:
        return [{"system": name, "program": OURS, "n_features": 256} for name in ("ethanol", "aspirin")]
    ours = [{"system": name, "program": OURS, "n_features": n} for n in (16384, 32768) for name in SYSTEMS]
    theirs = [
        {"system": name, "program": peer, "n_features": 16384 if peer == "kernelforge" else None}
        for peer in PEERS
        for name in SYSTEMS
        if peer not in ONE_MOLECULE or name.endswith(("ethanol", "aspirin"))
    ]
    return ours + theirs


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    if cell["program"] == OURS:
        return _ours(cell["system"], cell["n_features"], quick=options.quick)
    return _theirs(cell)


def _ours(name: str, n_features: int, *, quick: bool) -> dict[str, Any]:
    structures, predictor = system(name), untrained(name, n_features).on(skin=0.5)
    n = structures.n_atoms
    repeats = max(2 if quick else 10, min(200, 20_000 // n))
    seconds = best_of(lambda: predictor.predict(structures, stress=False), repeats)
    u = torch.randn(min(n, 4096), n_features)
    floor = best_of(lambda: torch.cos(u, out=u), 3) / len(u)
    rate = product_rate(torch.float32, quick=quick)
    return {"us_per_atom": seconds / n * 1e6, "seconds": seconds, "atoms": n, "cosine_us_per_atom": floor * 1e6,
            "matrix_product_gflops_float32": rate}  # fmt: skip


def _theirs(cell: Cell) -> dict[str, Any]:
    name, peer = cell["system"], cell["program"]
    structures = system(name)
    structures = structures.select(np.arange(min(len(structures), PEERS[peer])))
    n = int(structures.counts[0])
    arrays = {"numbers": structures.numbers[:n].numpy(), "positions": structures.positions.view(-1, n, 3).numpy()}
    if structures.periodic.any():
        arrays["cell"] = structures.cells[0].numpy()
    molecule = name.removeprefix("1000 ")
    if peer == "kernelforge":  # its energies are fitted to five structures
        data = load(f"rmd17_{molecule}:train_01@0:5")
        arrays["energies"] = data.labels.energies.numpy()
        arrays["positions"] = np.resize(arrays["positions"], (5, n, 3)) if len(structures) < 5 else arrays["positions"]
    task = {"task": "predict", "molecule": molecule, "n_train": TRAINED, "method": "rff",
            "n_features": cell["n_features"], "threads": torch.get_num_threads()}  # fmt: skip
    return {**ask(peer, task, arrays, seconds=SECONDS), "atoms": n * len(arrays["positions"])}


def _rows(entries: list[Entry]) -> dict[str, dict[str, Entry]]:
    """Entries by program and features, then by system; failures as well."""
    out: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        cell = entry[CELL]
        name = cell["program"] + (f", {cell['n_features']} features" if cell["n_features"] else "")
        out.setdefault(name, {})[cell["system"]] = entry
    return out


def tables(entries: list[Entry]) -> str:
    rows = []
    for name, there in _rows(entries).items():
        row = [f"**{name}**" if name.startswith(OURS) else name]
        for one in SYSTEMS:
            entry = there.get(one)
            row.append("–" if entry is None else "failed" if "failed" in entry else digits(entry["us_per_atom"]))
        rows.append(row)
        if floor := {one: e["cosine_us_per_atom"] for one, e in there.items() if "cosine_us_per_atom" in e}:
            rows.append(
                ["as many cosines by torch.cos", *(digits(floor[one]) if one in floor else "–" for one in SYSTEMS)]
            )
    for n in ("16384", "32768"):
        row = [f"paper, RTX 3080, {n} features"]
        rows.append([*row, *(f"{PAPER[one][n]:g}" if one in PAPER else "–" for one in SYSTEMS)])
    failed = [
        f"* {entry[CELL]['program']}, {entry[CELL]['system']}: {entry['failed']}"
        for entry in entries
        if "failed" in entry
    ]
    text = table(["µs per atom", *SYSTEMS], rows)
    return text + _by_operations(entries) + ("\n\nWhat failed:\n\n" + "\n".join(failed) if failed else "")


def _by_operations(entries: list[Entry]) -> str:
    theirs: float = PUBLISHED["prediction"]["gflops_float32"]["rate"]
    return possible_work(
        "MFLOP per atom, in float32",
        [
            Work(one.what, one.here, entry["matrix_product_gflops_float32"], one.paper, theirs)
            for entry in entries
            if "matrix_product_gflops_float32" in entry
            for one in compared([entry])
        ],
        1e-3,
    )


def draw(entries: list[Entry]) -> Any:
    """A panel for each system and a row for each program: a dot with its number."""
    rows = _rows(entries)
    programs = [name for name in rows if any("failed" not in entry for entry in rows[name].values())]
    names = [name for name in SYSTEMS if any(name in rows[program] for program in programs)]
    paper = [f"paper, RTX 3080, {n}" for n in ("16384", "32768")]
    figure, axes = panels(len(names), width=7.0, height=1.9, columns=min(4, len(names)), sharex=True, sharey=True)
    for number, (axis, name) in enumerate(zip(axes, names, strict=True)):
        for at, program in enumerate([*programs, *paper]):
            published = program in paper
            entry = rows.get(program, {}).get(name, {})
            value = PAPER.get(name, {}).get(program[-5:]) if published else entry.get("us_per_atom")
            if value is None:
                if "failed" in entry:
                    axis.annotate("failed", (0.5, at), xycoords=("axes fraction", "data"), va="center", ha="center",
                                  fontsize=6, color=RED)  # fmt: skip
                continue
            colour = ORANGE if published else BLUE if program.startswith(OURS) else GREEN
            axis.scatter([value], [at], s=20, color=colour, zorder=3)
            beside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": 6, "color": GREY}
            axis.annotate(digits(value), (value, at), **beside)
        axis.tick_params(axis="y", length=0, labelsize=6.5)
        title(axis, name)
        if number >= len(names) - 4:
            axis.set_xlabel("µs per atom")
            axis.xaxis.set_tick_params(labelbottom=True)
    words = [program.replace(OURS, "this work").replace(" features", "") for program in programs]
    axes[0].set_yticks(range(len(words) + len(paper)), [TITLES.get(word, word) for word in words] + paper)
    axes[0].set_ylim(len(words) + len(paper) - 0.4, -0.9)
    axes[0].set_xlim(1, 200_000)
    log_axis(axes[0].xaxis, (1, 100, 10_000))
    return figure


def headline(entries: list[Entry]) -> list[Headline]:
    wanted = {"n_features": 16384, "program": OURS}
    there = {entry[CELL]["system"]: entry for (n, program), members in grouped(entries, *wanted).items()
             for entry in members if (n, program) == tuple(wanted.values())}  # fmt: skip
    if SHOWN not in there:
        return []
    peers = {entry[CELL]["program"]: f"{entry['us_per_atom']:.0f} µs" for entry in entries
             if entry[CELL]["system"] == SHOWN and "us_per_atom" in entry}  # fmt: skip
    beside = ", ".join(f"{title} {peers[name]}" for name, title in TITLES.items() if name in peers)
    what = "Prediction of energies and forces per atom (1000 aspirin molecules; 16384 features, FCHL19)"
    beside = f"{beside}; {SHORT}, on a GPU (RTX 3080), {PAPER[SHOWN]['16384']:g} µs"
    return [Headline(what, f"{there[SHOWN]['us_per_atom']:.1f} µs", beside, timing=True, first=True)]


def compared(entries: list[Entry]) -> list[Comparison]:
    return [
        Comparison(f"{entry[CELL]['system']}, {n} features", entry["us_per_atom"], PAPER[entry[CELL]["system"]][str(n)])
        for (program, n), members in grouped(entries, "program", "n_features").items()
        if program == OURS
        for entry in members
        if str(n) in PAPER.get(entry[CELL]["system"], {})
    ]


PREDICTION_TIMES = Benchmark(
    "prediction_times",
    "Time of a prediction: energies and forces",
    "Two threads. Weights are random where time does not depend on them. A peer that needs long is given fewer of the "
    "thousand frames; MACE and TorchANI are networks of the usual size with random weights; sGDML and GAP (quippy) "
    f"have learnt {TRAINED} structures: sGDML's time grows with their number, GAP's with its 1000 sparse points.",
    cells, measure, tables, draw, headline,
    compared=compared,
    why="Two CPU cores here, an RTX 3080 there, which can do over a hundred times as many operations in float32: "
    "a table of that section tells how many each had time for.",
    needs=NEEDS, timing=True,
)  # fmt: skip
