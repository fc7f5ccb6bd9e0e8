"""Page about a data set before training."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence

from ..machine.files import write_atomically
from ..study.statistics import Distribution, Extreme, Statistics
from .drawing import histogram
from .page import columns, facts, page, paragraph, section, table, tiles

# Rows of a table that are shown, of lists that may be long.
SHOWN = 15


def write_data_page(path: str | os.PathLike[str], statistics: Statistics, *, overwrite: bool = False) -> None:
    """Write the page of a data set as one .html file."""
    write_atomically(path, data_page(statistics).encode(), overwrite=overwrite)


def data_page(s: Statistics) -> str:
    """The page of a data set."""
    body = [
        *_header(s),
        section("Look at these first", *(paragraph(text, "warning") for text in (*s.repeated, *s.notes))),
        section(
            "Composition",
            columns(_counts("element", s.elements, "atoms"), _counts("composition", s.compositions),
                    _counts("group (config_type)", s.groups)),
        ),
        section(
            "Energies",
            columns(_drawn(s.energies, "energy per atom past the reference energies (eV)"),
                 _drawn(s.sizes, "atoms in a structure")),
            columns(_extremes("lowest", s.lowest_energies, "eV/atom"),
                 _extremes("highest", s.highest_energies, "eV/atom")),
            _references(s),
        ),
        section(
            "Forces",
            columns(_drawn(s.forces, "length of the force on an atom (eV/Å)", "--two"),
                 _extremes("largest", s.largest_forces, "eV/Å")),
            _net(s.net_forces),
        ),
        section(
            "Distances and cells",
            columns(_shortest(s), _drawn(s.volumes, "volume per atom (Å³)", "--three"),
                    _drawn(s.edges, "length of a lattice vector (Å)", "--three")),
        ),
        section("Numbers", _numbers(s)),
    ]  # fmt: skip
    return page(f"{s.name}: {s.structures:,} structures", body)


def _header(s: Statistics) -> list[str]:
    kinds = ", ".join(f"{kind} of {n:,}" for kind, n in s.labels.items()) or "none"
    return [
        f"<h1>{html.escape(s.name)}</h1>",
        paragraph(f"Labels: {kinds}. {', '.join(f'{n:,} {name}' for name, n in s.periodic.items())}.", "soft"),
        *(paragraph(text, "soft") for text in s.remarks),
        tiles(
            {
                "structures": f"{s.structures:,}",
                "atoms": f"{s.atoms:,}",
                "elements": " ".join(s.elements),
                "compositions": f"{len(s.compositions):,}",
                "repeated": "none" if not s.repeated else s.repeated[0].split(" ")[0],
            }
        ),
    ]


def _counts(name: str, counts: dict[str, int], of: str = "structures") -> str:
    rows = [(key, f"{n:,}") for key, n in list(counts.items())[:SHOWN]]
    more = paragraph(f"… and {len(counts) - SHOWN:,} more.", "soft") if len(counts) > SHOWN else ""
    return table((name, of), rows, right=(1,)) + more


def _drawn(values: Distribution | None, label: str, colour: str = "--one") -> str:
    return "" if values is None else histogram(values.values, label, colour=colour)


def _extremes(word: str, found: Sequence[Extreme], unit: str) -> str:
    rows = [(f"{one.value:.4g}".replace("-", "−"), one.where) for one in found]
    return table((f"{word} ({unit})", "where"), rows, right=(0,))


def _references(s: Statistics) -> str:
    if not s.references:
        return ""
    advice, _, option = references_advice(s).partition("--reference-energies=")
    rows = {symbol: f"{energy:.4f} eV".replace("-", "−") for symbol, energy in s.references.items()}
    return (
        f"<h3>Suggested reference energies</h3>{paragraph(s.references_from, 'soft')}{facts(rows)}"
        f"{paragraph(advice, 'soft')}{f'<pre class=scroll>--reference-energies={option}</pre>' if option else ''}"
    )


def references_advice(s: Statistics) -> str:
    """Advice about reference energies; empty if there are none."""
    if not s.references:
        return ""
    if not s.references_determined:
        return (
            "train finds them by itself. They serve for these compositions only: for others add free atoms to the "
            "data, or give their energies with --reference-energies."
        )
    option = ",".join(f"{symbol}={energy:.4f}" for symbol, energy in s.references.items())
    return f"train finds them by itself. To fix them: --reference-energies={option}"


def _net(net: Distribution | None) -> str:
    return "" if net is None else paragraph(net_force_text(net), "soft")


def net_force_text(net: Distribution) -> str:
    """Sentence about the sums of the forces of structures, which should be zero."""
    return (
        f"The sum of the forces of a structure, per atom: median {net.quantiles[2]:.2g}, largest "
        f"{net.quantiles[4]:.2g} eV/Å (0 for converged forces on isolated systems)."
    )


def _shortest(s: Statistics) -> str:
    rows = [(pair, f"{one.value:.3f}", one.where) for pair, one in list(s.shortest.items())[:SHOWN]]
    return table(("pair", "shortest (Å)", "where"), rows, right=(1,))


def _numbers(s: Statistics) -> str:
    return table(
        ("", "mean", "std. dev.", "smallest", "5 %", "median", "95 %", "largest", "unit"),
        [tuple(cell.replace("-", "−") for cell in row) for row in number_rows(s)],
        right=range(1, 8),
    )


def number_rows(s: Statistics) -> list[tuple[str, ...]]:
    """Rows of a table of distributions, as text."""
    named = {
        "atoms": s.sizes,
        "energy": s.energies,
        "force": s.forces,
        "net force": s.net_forces,
        "volume": s.volumes,
        "lattice vector": s.edges,
        "lattice angle": s.angles,
    }
    return [
        (name, *(_number(value, one.std) for value in (one.mean, one.std, *one.quantiles)), one.unit)
        for name, one in named.items()
        if one is not None
    ]


def _number(value: float, spread: float) -> str:
    """Three digits, or all of a number without a fraction; zero if the value is one but for rounding."""
    if abs(value) < 1e-9 * spread:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
