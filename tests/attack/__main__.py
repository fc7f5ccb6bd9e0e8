"""The attack: thousands of damaged files and dozens of kills, counted in a table: make attack

Exit code 1 if anything crashed, hung, ended without an explanation, changed silently, or was lost. Every case follows
from the seed and its number: `--only 1234` repeats one of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from cases import KINDS, Case, Verdict, make_victims
from kills import kill_cases
from workers import run_cases

FAILURES = ("crash", "hang", "unexplained exit", "silent change", "lost")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="damaged files")
    parser.add_argument("--kills", type=int, default=40, help="commands that are killed by SIGKILL")
    parser.add_argument("--terms", type=int, default=20, help="commands that are stopped by SIGTERM")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--only", type=int, help="number of the one case to run")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        folder = Path(name)
        victims = make_victims(folder / "sound")
        numbers = range(options.cases) if options.only is None else [options.only]
        cases = [Case.of(options.seed, number) for number in numbers]
        verdicts = []
        for verdict in run_cases(cases, victims, folder, options.jobs):
            verdicts.append(verdict)
            if verdict.outcome in FAILURES:  # told at once: a long attack may be stopped
                print(f"  {verdict.kind} {verdict.name}: {verdict.outcome}", file=sys.stderr, flush=True)
        if options.only is None:
            verdicts += kill_cases(victims, folder, options.kills, options.terms, options.seed)
    return report(verdicts, time.monotonic() - began, verbose=options.only is not None)


def report(verdicts: list[Verdict], seconds: float, *, verbose: bool) -> int:
    """Print the table and all failures; 1 if there is any."""
    outcomes = ("refused in words", "unharmed", "had ended before", "works, other numbers", *FAILURES)
    counts = Counter((verdict.kind, verdict.outcome) for verdict in verdicts)
    print(f"{'':<30}{'cases':>7}" + "".join(f"{outcome:>22}" for outcome in outcomes))
    for kind in (*KINDS, *sorted({verdict.kind for verdict in verdicts} - {*KINDS})):
        row = [counts[kind, outcome] for outcome in outcomes]
        if sum(row):
            print(f"{kind:<30}{sum(row):>7}" + "".join(f"{n:>22}" for n in row))
    failed = [verdict for verdict in verdicts if verdict.outcome in FAILURES]
    for verdict in verdicts if verbose else failed:
        print(f"\n{verdict.kind} {verdict.name}: {verdict.outcome}\n  {verdict.said[:600]}")
    print(f"\n{len(verdicts)} cases, {len(failed)} failures, {seconds:.0f} s")
    return 1 if failed or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
