"""Put the result files into docs/results.md and into the tables of the README and the other pages.

python -m benchmarks.pages          # write them
python -m benchmarks.pages --check  # exit code 1 if one says something else
"""

from __future__ import annotations

import argparse
import sys

from .blocks import filled, pages
from .results import PAGE, page


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pages", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing: exit code 1 if a page is out of date")
    check = parser.parse_args().check
    wanted = {path: filled(path) for path in pages()} | {PAGE: page()}
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if check:
            print(f"{path.name} differs from the result files. Run python -m benchmarks.pages.")
        else:
            path.write_text(wanted[path], encoding="utf-8")
            print(f"written: {path}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
