"""Every benchmark by one command; results and pictures go to benchmarks/results and benchmarks/figures.

    python -m benchmarks                                        # which there are
    python -m benchmarks rmd17                                  # one table; cells that are there are not repeated
    python -m benchmarks rmd17 --only ethanol uracil --only 16384   # a part of it
    python -m benchmarks studies --quick                        # a whole room, in seconds; into build/benchmarks
    python -m benchmarks --list                                 # every cell, and which are there
    python -m benchmarks rmd17 --draw                           # table and picture of the results that are there

`python -m benchmarks.pages` then puts the results into the README and the pages of docs/.
"""

from __future__ import annotations

from .harness.command import main
from .rooms import ROOMS

if __name__ == "__main__":
    main(ROOMS, __doc__)
