"""The tables of the documentation that come from result files.

python benchmarks/docs_tables.py          # put them into docs/*.md
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ablation
import distributed
import gram_precision
import monte_carlo
from common import ROOT, read
from readme_table import between

# Page, result file (the name of the marks too), and what makes the table of its results.
TABLES: tuple[tuple[str, str, Callable[[dict[str, Any]], str]], ...] = (
    ("docs/accuracy.md", "ablation", ablation.told),
    ("docs/accuracy.md", "monte_carlo", monte_carlo.told),
    ("docs/method.md", "gram_precision_ethanol_4096", gram_precision.told),
    ("docs/scaling.md", "distributed_ethanol_4096", distributed.told),
)


def replaced(page: str, text: str) -> str:
    """`text` of the page, with the tables of today's result files."""
    for where, name, told in TABLES:
        record = read(name)
        if where == page and record is not None:
            text = between(text, name, told(record["results"]))
    return text


def main() -> None:
    for page in dict.fromkeys(page for page, _, _ in TABLES):
        path = ROOT / page
        path.write_text(replaced(page, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
