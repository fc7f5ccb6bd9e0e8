"""docs/results.md, from the result files under benchmarks/results: every table beside the published figures.

python benchmarks/results_page.py          # write it
python benchmarks/results_page.py --check  # exit code 1 if it says something else
"""

from __future__ import annotations

import sys
from typing import Any

from common import ROOT, digits, table
from reproduce import BENCHMARKS
from runner import FIGURES, Benchmark, Beside, Entry, entries

PAGE = ROOT / "docs" / "results.md"
HEAD = """# Results beside the paper's

Made by `python benchmarks/results_page.py` from the [result files](../benchmarks/results), which say when, with which
commit and on what machine each cell was measured. Published figures, with their sources, are in
[published.json](../benchmarks/published.json). The choices behind each model were made on training structures only.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, summary(), *(section(benchmark) for benchmark in BENCHMARKS)])


def summary() -> str:
    """How many of the paper's figures are reached, which are not, and why."""
    rows, notes = [], []
    for benchmark in BENCHMARKS:
        pairs = benchmark.beside(entries(benchmark))
        above = [pair for pair in pairs if not pair.reached]
        if pairs:
            chance = sum(pair.by_chance for pair in above)
            rows.append([benchmark.title, str(len(pairs)), str(len(pairs) - len(above)), str(chance or "")])
        if above or (benchmark.why and not pairs):
            told = "; ".join(f"{pair.what}: {_beside(pair)}" for pair in above)
            notes.append(f"* **{benchmark.title}.** " + ". ".join(filter(None, (told, benchmark.why))))
    head = ["", "figures of the paper", "as good or better here", "else within the ±"]
    notes = ["Not reached, as here (the paper), or not seen:", "", *notes] if notes else []
    return "\n".join(["## How many of the paper's figures are reached", "", table(head, rows), "", *notes, ""])


def _beside(pair: Beside) -> str:
    chance = f" ± {digits(pair.error)}" if pair.error else ""
    return f"{digits(pair.here)}{chance} ({digits(pair.paper)})"


def section(benchmark: Benchmark) -> str:
    """One table or figure of the paper: what was done, figures, picture, and how to do it again."""
    told = entries(benchmark)
    lines = [f"## {benchmark.title}", "", benchmark.text, ""]
    if told:
        lines += [benchmark.tables(told), ""]
        if (FIGURES / f"{benchmark.name}.png").is_file():
            lines += [f"![{benchmark.title}](../benchmarks/figures/{benchmark.name}.png)", ""]
        lines += [_circumstances(benchmark, told), ""]
    else:
        lines += ["Not measured yet.", ""]
    return "\n".join([*lines, f"Again: `python benchmarks/paper.py {benchmark.name}`.", ""])


def _circumstances(benchmark: Benchmark, told: list[Entry]) -> str:
    """When and how busy: what a reader needs to weigh times."""
    runs: list[dict[str, Any]] = [entry["run"] for entry in told]
    days = sorted({run["date"][:10] for run in runs})
    threads = sorted({run["threads"] for run in runs})
    text = f"Measured {days[0]}" + (f" to {days[-1]}" if len(days) > 1 else "")
    text += f", {' and '.join(map(str, threads))} threads"
    busy = [run["load_average"] for run in runs if run["load_average"] > run["threads"] + 1]
    if benchmark.timing and busy:
        text += (
            f"; in {len(busy)} of {len(runs)} cells others kept the machine busy (load up to {max(busy):.0f}): their "
            "times are upper bounds"
        )
    link = f"[{benchmark.name}.json](../benchmarks/results/{benchmark.name}.json)"
    return f"{text}. {link}."


def main() -> int:
    wanted = page()
    if "--check" in sys.argv[1:]:
        same = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == wanted
        if not same:
            print(f"{PAGE.name} differs from the result files. Run python benchmarks/results_page.py.")
        return int(not same)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
