"""Time of training: SORF, OQML and GPR of this package, and the peers, on the same structures and the same machine."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from qml_lightning import exact, fit

from ..harness.benchmark import CELL, Benchmark, Cell, Comparison, Entry, Headline, Options
from ..harness.drawing import BLUE, GREEN, GREY, ORANGE, RED, log_axis, panels, title
from ..harness.internals import facts
from ..harness.models import ENERGY, FORCE, errors, load, recipe_for
from ..harness.places import PUBLISHED
from ..harness.tables import digits, table
from ..harness.timing import product_rate
from ..peers.environments import ask
from .possible_work import Work, possible_work

# the paper's two of 1000, and as many of each as every method has memory and time for
CASES = (("ethanol", 100), ("ethanol", 1000), ("aspirin", 100), ("aspirin", 1000))
OURS = ("SORF-16384", "OQML", "GPR")
PEERS = {
    "sGDML": ("sgdml", {}),
    "kernelforge KRR": ("kernelforge", {"method": "krr"}),
    "kernelforge RFF-4096": ("kernelforge", {"method": "rff", "n_features": 4096}),
    "GAP": ("quippy", {"n_sparse": 1000}),
}
SECONDS = 300  # that a peer has
N_TEST = 100  # of the official test set: a peer's prediction may take long
PAPER: dict[str, dict[str, float]] = PUBLISHED["training"]["models"]
SAME = {  # ours → the paper's
    "SORF-16384": "paper, SORF-16384, RTX 3080, double",
    "OQML": "paper, OQML, two Xeon E5-2680",
    "GPR": "paper, GPR, two Xeon E5-2680",
}


def cells(options: Options) -> list[Cell]:
    if options.quick:
        return [{"molecule": "ethanol", "n_train": 20, "method": method} for method in ("SORF-256", *OURS[1:])]
    return [
        {"molecule": molecule, "n_train": n, "method": method}
        for molecule, n in CASES
        for method in (*OURS, *PEERS)
        # 100 times the time of 100 structures, which is known: not tried
        if not (method.startswith("kernelforge") and n > 100)
    ]


def measure(cell: Cell, options: Options) -> dict[str, Any]:
    name, method = f"rmd17_{cell['molecule']}", cell["method"]
    if options.quick:
        train, test = load(f"{name}:train_01").split((cell["n_train"], 10), seed=0)
    else:
        train = load(f"{name}:train_01").select(np.arange(cell["n_train"]))
        test = load(f"{name}:test_01").select(np.arange(N_TEST))
    if method not in PEERS:
        potential = fit(train, _recipe(method))
        seconds, rate = facts(potential)["seconds"], product_rate(torch.float64, quick=options.quick)
        return {"seconds": seconds, "matrix_product_gflops_float64": rate, **errors(potential, test)}
    peer, more = PEERS[method]
    n = int(train.structures.counts[0])
    arrays = {"numbers": train.structures.numbers[:n].numpy()}
    for prefix, part in (("", train), ("test_", test)):
        assert part.labels.energies is not None
        assert part.labels.forces is not None
        arrays[f"{prefix}positions"] = part.structures.positions.view(-1, n, 3).numpy()
        arrays[f"{prefix}energies"] = part.labels.energies.numpy()
        arrays[f"{prefix}forces"] = part.labels.forces.view(-1, n, 3).numpy()
    task = {"task": "train", "molecule": cell["molecule"], "n_train": cell["n_train"]}
    return ask(peer, {**task, "threads": torch.get_num_threads(), **more}, arrays, seconds=SECONDS)


def _recipe(method: str) -> Any:
    if method.startswith("SORF"):
        return recipe_for("default", int(method.partition("-")[2]))
    return {"OQML": exact.OQML, "GPR": replace(exact.GPR, rank=128)}[method]


def _by_case(entries: list[Entry]) -> dict[tuple[str, int], dict[str, Entry]]:
    out: dict[tuple[str, int], dict[str, Entry]] = {}
    for entry in entries:
        cell = entry[CELL]
        out.setdefault((cell["molecule"], cell["n_train"]), {})[cell["method"]] = entry
    return out


def tables(entries: list[Entry]) -> str:
    cases = _by_case(entries)
    methods = list(dict.fromkeys(method for there in cases.values() for method in there))
    rows = [[f"**{m}**" if m not in PEERS else m, *(_text(there.get(m)) for there in cases.values())] for m in methods]
    for name, seconds in PAPER.items():
        rows.append([name, *(f"{digits(seconds[molecule])} s" if n == 1000 else "–" for molecule, n in cases)])
    head = ["seconds; energy meV, force meV/Å", *(f"{n} {molecule}" for molecule, n in cases)]
    failed = [f"* {e[CELL]['method']}, {e[CELL]['n_train']} {e[CELL]['molecule']}: {e['failed']}"
              for e in entries if "failed" in e]  # fmt: skip
    return table(head, rows) + _by_operations(cases) + ("\n\nWhat failed:\n\n" + "\n".join(failed) if failed else "")


def _by_operations(cases: dict[tuple[str, int], dict[str, Entry]]) -> str:
    theirs: dict[str, float] = PUBLISHED["training"]["gflops_float64"]["models"]
    return possible_work(
        "TFLOP, in float64",
        [
            Work(f"{method}, {n} {molecule}", there[method]["seconds"], rate, PAPER[paper][molecule], theirs[paper])
            for (molecule, n), there in cases.items()
            for method, paper in SAME.items()
            if n == 1000 and (rate := there.get(method, {}).get("matrix_product_gflops_float64"))
        ],
        1e-3,
    )


def _text(entry: Entry | None) -> str:
    if entry is None:
        return "–"
    if "failed" in entry:
        return "failed"
    return f"{digits(entry['seconds'])} s; {entry[ENERGY]:.1f}, {entry[FORCE]:.1f}"


def draw(entries: list[Entry]) -> Any:
    cases = _by_case(entries)
    figure, axes = panels(len(cases), height=2.6, columns=min(2, len(cases)))
    for letter, axis, ((molecule, n), there) in zip("abcd", axes, cases.items(), strict=False):
        rows = [(m, e.get("seconds"), GREEN if m in PEERS else BLUE) for m, e in there.items()]
        if n == 1000:
            rows += [(m.removeprefix("paper, "), s[molecule], ORANGE) for m, s in PAPER.items()]
        seconds_of, colours = [s or math.nan for _, s, _ in rows], [c for *_, c in rows]
        axis.scatter(seconds_of, range(len(rows)), color=colours, s=22, zorder=3)
        for at, (name, seconds, _) in enumerate(rows):
            _beside_dot(axis, at, seconds, "" if seconds else _why_not(there[name]))
        axis.set_yticks(range(len(rows)), [name for name, *_ in rows], fontsize=6)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.tick_params(axis="y", length=0)
        axis.margins(x=0.18)
        log_axis(axis.xaxis)
        axis.set_xlabel("training / s")
        title(axis, f"{n} {molecule}", letter)
    marks = [("this work", BLUE), ("peers, same machine", GREEN), ("paper, its machines", ORANGE)]
    dots = [figure.axes[0].scatter([], [], color=colour, s=22) for _, colour in marks]
    figure.legend(dots, [name for name, _ in marks], loc="outside upper center", ncols=3)
    return figure


def _beside_dot(axis: Any, at: int, seconds: float | None, why_not: str) -> None:
    """Write the number beside a dot, or at the axis the reason why there is none."""
    place, across = ((0.0, at), ("axes fraction", "data")) if seconds is None else ((seconds, at), "data")
    beside = (2, 0) if seconds is None else (5, 0)
    axis.annotate(digits(seconds) if seconds else why_not, place, xycoords=across, xytext=beside, va="center",
                  textcoords="offset points", fontsize=6, color=RED if seconds is None else GREY)  # fmt: skip


def _why_not(entry: Entry) -> str:
    """The reason of a failure, in few words."""
    for sign, words in ((f"not done after {SECONDS} s", f"> {SECONDS}"), ("are free", "not enough memory")):
        if sign in entry["failed"]:
            return words
    return "failed"


def headline(entries: list[Entry]) -> list[Headline]:
    there = {m: e for m, e in _by_case(entries).get(("ethanol", 1000), {}).items() if "failed" not in e}
    if OURS[0] not in there:
        return []
    others = ", ".join(f"{entry['seconds']:.0f} s ({name})" for name, entry in there.items() if name in OURS[1:])
    what = "Training on energies and forces of 1000 ethanol structures (16384 features)"
    here = f"{there[OURS[0]]['seconds']:.0f} s"
    return [Headline(what, here, f"with full kernels, in this package: {others}", timing=True, first=True)]


def compared(entries: list[Entry]) -> list[Comparison]:
    return [
        Comparison(f"{molecule}, {method}", there[method]["seconds"], PAPER[paper][molecule])
        for (molecule, n), there in _by_case(entries).items()
        if n == 1000
        for method, paper in SAME.items()
        if "seconds" in there.get(method, {})
    ]


TRAINING_TIMES = Benchmark(
    "training_times",
    "Time of training on energies and forces",
    f"Two threads, the first structures of rMD17's train_01; errors on {N_TEST} structures of test_01. OQML and GPR "
    f"are this package's. Each peer has {SECONDS} s. GAP, sGDML and kernelforge as they come, without a search for "
    "their best parameters: the times are what is compared.",
    cells, measure, tables, draw, headline,
    compared=compared,
    why="Two CPU cores here; an RTX 3080 in double precision for SORF, two Xeons for OQML and GPR there: a table of "
    "that section tells what each machine had time for. For OQML and GPR of 1000 aspirin structures there is not "
    "enough memory here.",
    needs=("rmd17/rmd17_ethanol.npz", "rmd17/rmd17_aspirin.npz"), timing=True,
)  # fmt: skip
