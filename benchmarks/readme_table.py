"""The tables of the README, from the result files under benchmarks/results and the published figures.

python benchmarks/readme_table.py          # put them into README.md
python benchmarks/readme_table.py --check  # exit code 1 if README.md says something else
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
PUBLISHED = ROOT / "benchmarks" / "published.json"
FIRST = ("accuracy_ethanol", "qm9", "rivals", "rmd17", "training_times")  # files that the first screen tells of
OTHERS = (
    "Figures of others are as published, on other machines; kernelforge, OQML and GPR, where they stand beside a time "
    "of ours, ran on this one."
)


def first() -> str:
    """The rows of a few files, for who looks at one screen only."""
    return generated([path for path in sorted(RESULTS.glob("*.json")) if path.stem in FIRST])


def others() -> str:
    """The rows of all other files."""
    return generated([path for path in sorted(RESULTS.glob("*.json")) if path.stem not in FIRST])


def generated(paths: list[Path]) -> str:
    """One row for each headline of each file. Result files without `headline`, of whatever form, are left alone."""
    lines = ["| | here | beside it | from |", "|---|---|---|---|"]
    machines: dict[str, list[str]] = {}
    for path in paths:
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
    lines += ["", f"Measured on {where or 'nothing'}. {OTHERS}"]
    return "\n".join(lines)


def compared() -> str:
    """rMD17 beside what others published: MAE of energy / force, ours for each number of features that was tried."""
    models = json.loads(PUBLISHED.read_text(encoding="utf-8"))["rmd17"]["models"]
    path = RESULTS / "rmd17.json"
    cells = json.loads(path.read_text(encoding="utf-8"))["results"] if path.is_file() else []
    ours: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for cell in cells:
        if "failed" not in cell:
            how = "" if cell["cell"]["recipe"] == "auto" else f", {cell['cell']['recipe']} recipe"
            there = ours.setdefault(f"{cell['cell']['n_features']} features{how}", {})
            errors = (cell["energy_mae_mev"], cell["force_mae_mev_per_angstrom"])
            there.setdefault(cell["cell"]["molecule"], []).append(errors)
    head = ["molecule", *(f"**here, {name}**" for name in ours), *models]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for molecule in models["FCHL19 GPR"]:
        row = [molecule]
        for there in ours.values():
            found = there.get(molecule, [])
            means = [sum(values) / len(found) for values in zip(*found, strict=True)]
            row.append(f"**{means[0]:.2f} / {means[1]:.1f}**" if found else "–")
        row += ["{:g} / {:g}".format(*model[molecule]) if molecule in model else "–" for model in models.values()]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


BLOCKS = {"first": first, "results": others, "comparison": compared}


def between(text: str, name: str, block: str) -> str:
    """`text` with `block` between the marks of that name."""
    marks = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise SystemExit(f"The page has no block {' … '.join(marks)}. Add the two marks where the table should be.")
    return f"{before}{begin}\n{block}\n{end}{after}"


def replaced(text: str) -> str:
    """`text` with the generated blocks between their marks."""
    for name, block in BLOCKS.items():
        text = between(text, name, block())
    return text


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
