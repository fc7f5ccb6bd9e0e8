"""The table of the README, from the rows that the result files under benchmarks/results bring.

python benchmarks/readme_table.py          # put it into README.md
python benchmarks/readme_table.py --check  # exit code 1 if README.md says something else
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


def generated() -> str:
    """The block between the marks: one row for each headline of each file, in the order of the file names.

    Result files without `headline`, of whatever form, are left alone.
    """
    lines = ["| | here | beside it | from |", "|---|---|---|---|"]
    machines: dict[str, list[str]] = {}
    for path in sorted(RESULTS.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if not record.get("headline"):
            continue
        # on a machine that was busy with other things a timing says nothing
        quiet = record["load_average"][0] <= record["threads"] + 1
        rows = [row for row in record["headline"] if quiet or not row["timing"]]
        if not rows:
            continue
        link = f"[{path.stem}]({path.relative_to(ROOT).as_posix()})"
        lines += [f"| {row['what']} | **{row['here']}** | {row['beside']} | {link} |" for row in rows]
        machine = f"{record['machine']['cpu']}, {record['threads']} threads"
        machines.setdefault(machine, []).append(path.stem)
    if not machines:
        lines.append("| no results yet | | | |")
    where = "; ".join(
        machine if len(machines) == 1 else f"{machine} ({', '.join(names)})" for machine, names in machines.items()
    )
    lines += ["", f"Measured on {where or 'nothing'}. Figures of others are as published, on other machines."]
    return "\n".join(lines)


def replaced(text: str) -> str:
    """`text` with the generated block between the marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{README.name} has no block {BEGIN} … {END}. Add the two marks where the table should be.")
    return f"{before}{BEGIN}\n{generated()}\n{END}{after}"


def main() -> int:
    text = README.read_text(encoding="utf-8")
    wanted = replaced(text)
    if "--check" in sys.argv[1:]:
        if text != wanted:
            print(f"{README.name} differs from the result files. Run python benchmarks/readme_table.py.")
        return int(text != wanted)
    README.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
