"""The page of results, docs/results.md: every table of the paper beside the published figures."""

from __future__ import annotations

from typing import Any

from ..harness.benchmark import Benchmark, Comparison, Entry, entries
from ..harness.places import FIGURES, RESULTS, ROOT
from ..harness.results import quiet
from ..harness.tables import digits, table
from ..paper import BENCHMARKS
from .links import link

PAGE = ROOT / "docs" / "results.md"
HEAD = """# Results beside the paper's

Made by `python -m benchmarks.pages` from the [result files](../benchmarks/results), which say when, with which
commit and on what machine each cell was measured. Published figures, with their sources, are in
[published.json](../benchmarks/published.json). The choices behind each model were made on training structures only.
"""

NOT_REACHED = (
    "What is not as good here as in the paper, with the reasons. The first figure is ours, the one in brackets the "
    "paper's; smaller is better. Two entries have no figures: what the paper shows there was not seen here."
)


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, summary(), *(section(benchmark) for benchmark in BENCHMARKS)])


def summary() -> str:
    """Number of the paper's figures that are reached, those that are not, and why."""
    rows, notes = [], []
    for benchmark in BENCHMARKS:
        pairs = benchmark.compared(entries(benchmark.name))
        above = [pair for pair in pairs if not pair.reached]
        if pairs:
            chance = sum(pair.by_chance for pair in above)
            rows.append([benchmark.title, str(len(pairs)), str(len(pairs) - len(above)), str(chance or "")])
        if above or (benchmark.why and not pairs):
            told = "; ".join(f"{pair.what}: {_beside(pair)}" for pair in above)
            notes.append(f"* **{benchmark.title}.** " + ". ".join(filter(None, (told, benchmark.why))))
    head = ["", "figures of the paper", "as good or better here", "else within the ±"]
    notes = [NOT_REACHED, "", *notes] if notes else []
    return "\n".join(["## How many of the paper's figures are reached", "", table(head, rows), "", *notes, ""])


def _beside(pair: Comparison) -> str:
    chance = f" ± {digits(pair.error)}" if pair.error else ""
    return f"{digits(pair.here)}{chance} ({digits(pair.paper)})"


def section(benchmark: Benchmark) -> str:
    """One table or figure of the paper: method, figures, picture, and the command that makes it again."""
    told, picture = entries(benchmark.name), FIGURES / f"{benchmark.name}.png"
    lines = [f"## {benchmark.title}", "", benchmark.text, ""]
    if told:
        lines += [benchmark.tables(told), ""]
        if picture.is_file():
            lines += ["!" + link(PAGE, picture, benchmark.title), ""]
        lines += [_circumstances(benchmark, told), ""]
    else:
        lines += ["Not measured yet.", ""]
    return "\n".join([*lines, f"Again: `python -m benchmarks {benchmark.name}`.", ""])


def _circumstances(benchmark: Benchmark, told: list[Entry]) -> str:
    """Days, threads and load of the runs, by which a reader can weigh times."""
    runs: list[dict[str, Any]] = [entry["run"] for entry in told]
    days = sorted({run["date"][:10] for run in runs})
    threads = sorted({run["threads"] for run in runs})
    text = f"Measured {days[0]}" + (f" to {days[-1]}" if len(days) > 1 else "")
    text += f", {' and '.join(map(str, threads))} threads"
    busy = [entry["run"]["load_average"] for entry in told if not quiet(entry)]
    if benchmark.timing and busy:
        text += (
            f"; in {len(busy)} of {len(runs)} cells others kept the machine busy (load up to {max(busy):.0f}): their "
            "times are upper bounds"
        )
    file = RESULTS / f"{benchmark.name}.json"
    return f"{text}. {link(PAGE, file, file.name)}."
