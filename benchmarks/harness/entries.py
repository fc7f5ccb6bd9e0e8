"""Entries in groups: means over seeds, their standard errors, and differences seed by seed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from .benchmark import CELL, Entry, succeeded


def grouped(entries: Sequence[Entry], *names: str) -> dict[tuple[Any, ...], list[Entry]]:
    """Entries that did not fail, by the values of their cells under these names, in the order in which they come."""
    out: dict[tuple[Any, ...], list[Entry]] = {}
    for entry in succeeded(entries):
        out.setdefault(tuple(entry[CELL].get(name) for name in names), []).append(entry)
    return out


def of_first_recipe(entries: Sequence[Entry]) -> list[Entry]:
    """Entries of the first recipe, for a picture that others would crowd."""
    return next(iter(grouped(entries, "recipe").values()), [])


def mean(entries: Sequence[Entry], name: str) -> float:
    """Mean over seeds or splits."""
    return statistics.fmean(entry[name] for entry in entries)


def spread(entries: Sequence[Entry], name: str) -> float:
    """Standard error of that mean; 0 for a single value."""
    return standard_error([entry[name] for entry in entries])


def standard_error(values: Sequence[float]) -> float:
    """Standard error of the mean; 0 for a single value."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def mean_and_error(entries: Sequence[Entry], name: str, digits: int) -> str:
    """Mean with its standard error where there is one, such as 6.20 ± 0.05."""
    error = spread(entries, name)
    return f"{mean(entries, name):.{digits}f}" + (f" ± {error:.{digits}f}" if error else "")


def percent_less(entries: Sequence[Entry], name: str, by: str, of: Any, than: Any) -> tuple[float, float] | None:
    """Mean difference of `of` from `than` in percent, seed by seed, and its standard error; None without a pair.

    `by`: the name of a cell's value that is `of` in one entry of a pair and `than` in the other.
    """
    value = {(entry[CELL][by], entry[CELL]["seed"]): entry[name] for entry in succeeded(entries)}
    found = [
        (value[which, seed] / value[than, seed] - 1) * 100
        for which, seed in value
        if which == of and (than, seed) in value
    ]
    return (statistics.fmean(found), standard_error(found)) if found else None


def percent(off: tuple[float, float] | None) -> str:
    """A difference in percent with its error, such as -2.7 ± 0.4 %; empty if there is none."""
    if off is None:
        return ""
    return f"{off[0]:+.1f} ± {off[1]:.1f} %" if off[1] else f"{off[0]:+.1f} %"
