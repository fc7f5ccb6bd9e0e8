"""The tables and figures of the paper, each by one command, beside the published figures.

    python benchmarks/paper.py rmd17                                  # benchmarks/results/rmd17.json, figures/rmd17.png
    python benchmarks/paper.py rmd17 --only ethanol uracil --only 16384   # a part of it; what is there is not repeated
    python benchmarks/paper.py 3bpa --quick                           # seconds; into build/benchmarks
    python benchmarks/paper.py --list                                 # every cell, and which are there
    python benchmarks/paper.py --draw                                 # tables and pictures of what is there

`python benchmarks/results_page.py` then makes docs/results.md from the result files, `readme_table.py` the tables of
the README.
"""

from __future__ import annotations

from reproduce import BENCHMARKS
from runner import main

if __name__ == "__main__":
    main(BENCHMARKS, text=__doc__)
