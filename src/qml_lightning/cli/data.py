"""`qml-lightning data`: statistics of data before training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from ..errors import InputError
from ..machine.files import check_output
from .options import Data, DataOptions, Debug, Json, Overwrite, spread
from .screen import console, facts, panel, show, show_json, table, teaching

if TYPE_CHECKING:
    from rich.console import Group

    from ..study.statistics import Statistics

HELP = teaching(
    """Look at data before training: what is in it, and what may be wrong with it.

The output names compositions, labels, groups, energies per atom, forces, shortest distances and cells, with the frames
of the extreme values, structures that occur twice, and suggested reference energies. -o writes the same as a page with
figures.

[bold]Examples[/bold]

  qml-lightning data mine.extxyz
  qml-lightning data "runs/*.extxyz" -o data.html
  qml-lightning data ethanol:train --json
"""
)
# Rows of a table, of lists that may be long.
SHOWN = 12
# Characters of a line from which on means and deviations find room beside the quantiles.
WIDE = 100


@spread
def command(
    data: Data,
    reading: DataOptions,
    output: Annotated[Path | None, Option("--output", "-o", help="Also write a page, .html.", metavar="FILE")] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    if output is not None:
        if output.suffix.lower() != ".html":
            raise InputError(f"The page is written as .html, got {output}.")
        check_output(output, overwrite)
        reading.refuse_as_output(data, output)

    from ..study.statistics import statistics_of

    found = statistics_of(reading.load(data, labels="optional"))
    if output is not None:
        from ..report.data_page import write_data_page

        write_data_page(output, found, overwrite=overwrite)
    if as_json:
        show_json(found.as_dict())
        return
    show(*_tables(found, console().width))
    if found.repeated or found.notes:
        panel("Look at these", "\n".join([*found.repeated, *found.notes]), colour="yellow")
    if output is not None:
        show(f"The page is in {output}.")


def _tables(s: Statistics, width: int) -> list[Group]:
    from ..report.data_page import net_force_text, number_rows, references_advice

    told = {
        "structures": f"{s.structures:,} with {s.atoms:,} atoms",
        "labels": ", ".join(f"{kind} of {n:,}" for kind, n in s.labels.items()) or "none",
        "read": "; ".join(s.remarks),
        "kinds": ", ".join(f"{n:,} {name}" for name, n in s.periodic.items()),
        "elements": ", ".join(f"{symbol} {n:,}" for symbol, n in s.elements.items()),
        "compositions": _counted(s.compositions),
        "groups": _counted(s.groups),
        "net forces": "" if s.net_forces is None else net_force_text(s.net_forces),
        "references": ", ".join(f"{symbol} {energy:.4f} eV" for symbol, energy in s.references.items()),
        "from": s.references_from,
        "advice": references_advice(s),
    }
    columns = ["", "mean", "std. dev.", "smallest", "5 %", "median", "95 %", "largest"]
    numbers = [(f"{name} ({unit})", *values) for name, *values, unit in number_rows(s)]
    if width < WIDE:
        columns, numbers = [columns[0], *columns[3:]], [(row[0], *row[3:]) for row in numbers]
    extremes = {
        "lowest energy": s.lowest_energies,
        "highest energy": s.highest_energies,
        "largest force": s.largest_forces,
    }
    units = {"lowest energy": "eV/atom", "highest energy": "eV/atom", "largest force": "eV/Å"}
    rows = [(name, f"{one.value:.4g}", units[name], one.where) for name, found in extremes.items() for one in found[:3]]
    rows += [(f"shortest {pair}", f"{one.value:.3f}", "Å", one.where) for pair, one in list(s.shortest.items())[:SHOWN]]
    return [
        facts(s.name, told),
        table("Distributions (energies past the reference energies)", columns, numbers, right=range(1, len(columns))),
        table("Extremes (frames are counted from 0)", ("", "value", "unit", "where"), rows, right=(1,)),
    ]


def _counted(counts: dict[str, int]) -> str:
    words = ", ".join(f"{name} {n:,}" for name, n in list(counts.items())[:SHOWN])
    return words + (f" and {len(counts) - SHOWN:,} more" if len(counts) > SHOWN else "")
