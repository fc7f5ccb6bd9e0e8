"""Tables that commands print: errors, models, equations, and the trials behind a chosen recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ModelError
from ..machine.memory import GIB
from ..report.card import ARROW, CHOSEN, QUANTITIES, best_trials, chosen_words, data_words, model_card, verdict
from ..report.card import symbol as symbol
from .screen import facts, show, show_json, table

if TYPE_CHECKING:
    from rich.console import Group

    from ..model.metrics import Metrics
    from ..training.plan import Plan

SORT = "represen-\ntation"  # heading, which would make its column wider than most names
LONG = 13  # letters of a name of a representation in one line


def error_table(title: str, metrics: Metrics) -> Group:
    """MAE and RMSE, a line for each kind of label, and for the forces on each element."""
    from ..model.metrics import error_lines

    rows = [(line.name, line.mae, line.rmse, line.unit, f"{line.n:,}") for line in error_lines(metrics)]
    return table(title, ("", "MAE", "RMSE", "unit", "values"), rows, right=(1, 2, 4))


def metrics_as_json(metrics: Metrics) -> dict[str, Any]:
    """Errors for JSON, with elements by symbol. In eV, eV/Å and eV/Å³; None where there are no labels."""
    plain = metrics.as_dict()
    by_element = {symbol(int(z)): error for z, error in plain["forces_by_element"].items()}
    return {**plain, "forces_by_element": by_element}


@contextmanager
def of_file(path: Path) -> Iterator[None]:
    """Turn errors while the header of a file is put into words into a ModelError that names the file."""
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as problem:
        raise ModelError(
            f"{path} has a header with a part missing or altered ({type(problem).__name__}: {problem})."
        ) from problem


def model_facts(title: str, header: dict[str, Any], explained: dict[str, float] | None = None) -> Group:
    """The card of a model as a table."""
    return facts(title, model_card(header, explained))


def choice_table(choice: dict[str, Any] | None) -> list[Group | str]:
    """Table of the trials behind a chosen recipe, each with its best ridge, and notes; empty if nothing was chosen."""
    if choice is None:
        return []
    from ..model.metrics import heading, shown

    size, judges, kinds = choice["best"]["size"], choice["judges"], choice["best"]["errors"]
    marks = _marks([verdict(trial, choice) for trial in best_trials(choice).values()])
    rows = [
        (marks[verdict(trial, choice)], _halved(name), f"{apart:g}", f"{sigma:g}", f"{rank}", f"{weight:g}",
         f"{trial['ridge']:.1e}", *(shown(QUANTITIES[kind], error) for kind, error in trial["errors"].items()))
        for (name, rank, apart, sigma, weight), trial in best_trials(choice).items()
    ]  # fmt: skip
    heads = [heading(QUANTITIES[kind]).replace(" (", "\n(") for kind in kinds]
    columns = ["", SORT, "bonds\napart", "σ", "rank", "weight", "ridge", *heads]
    # a screen is narrow: what all trials share is told above, and words about a trial below
    shared = (SORT, "bonds\napart", "rank")
    kept = [at for at, name in enumerate(columns) if name not in shared or _varies(rows, at)]
    columns, rows = [columns[at] for at in kept], [tuple(row[at] for at in kept) for row in rows]
    numbers = [at for at, name in enumerate(columns) if name not in (SORT, "")]
    more = f" and {judges['more_energies']:,} energies" if judges["more_energies"] else ""
    more += ", apart by group" if choice.get("apart") else ""
    title = (
        f"Trials with {size['structures']:,} structures and {size['n_features']:,} features: "
        f"MAE on {judges['structures']:,} held-out structures{more}"
    )
    notes = [f"  {mark} {words}" for words, mark in marks.items() if words]
    return [table(title, columns, rows, right=numbers), "\n".join([*notes, ""])]


def _halved(name: str) -> str:
    """A long name in two lines, broken after the hyphen nearest to its middle."""
    breaks = [at + 1 for at, letter in enumerate(name) if letter == "-"]
    if len(name) <= LONG or not breaks:
        return name
    at = min(breaks, key=lambda at: abs(2 * at - len(name)))
    return f"{name[:at]}\n{name[at:]}"


def _marks(words: Sequence[str]) -> dict[str, str]:
    """A mark for each remark on a trial: an arrow for the chosen one, numbers for the others."""
    others = [one for one in dict.fromkeys(words) if one not in ("", CHOSEN)]
    return {"": "", CHOSEN: ARROW, **{one: f"{n})" for n, one in enumerate(others, start=1)}}


def _varies(rows: Sequence[Sequence[str]], at: int) -> bool:
    return len({row[at] for row in rows}) > 1


def equations_facts(title: str, header: dict[str, Any]) -> Group:
    """Data, features and size of some equations, from the header of their file."""
    features, position = header["recipe"]["features"], header["position"]
    return facts(
        title,
        {
            "elements": ", ".join(symbol(z) for z in header["elements"]),
            "data": data_words(header["data"]),
            "structures": f"{header['structures']:,} with {header['atoms']:,} atoms",
            "equations": ", ".join(f"{part['n']:,} {kind}" for kind, part in header["parts"].items()),
            "features": f"{features['n_features']:,} {features['method'].upper()}, σ = {features['sigma']:g}",
            "chosen": chosen_words(header.get("choice")),
            "references": "as given" if header["given_reference_energies"] else "least squares",
            "checkpoint": "" if position is None else f"{position['done']:,} of {position['of']:,} structures are in",
            "checksum": str(header.get("checksum", "")),
        },
    )


def show_plan(plan: Plan | None, as_json: bool) -> None:
    """Print the plan of a fit: its solver, the reason, and the cost of each solver."""
    if as_json:
        show_json({"plan": None if plan is None else plan.as_dict()})
    elif plan is None:
        show("Explicit kernels have one solver: a kernel matrix in memory.")
    else:
        show(*plan_tables(plan.as_dict()))


def plan_tables(plan: dict[str, Any]) -> list[Group]:
    """Two tables of a plan: the decision, and the cost of each solver."""
    told = {
        "solver": f"{plan['solver']}: {plan['reason']}",
        "weights": f"{plan['n_weights']:,}" + (", own ones for each element" if plan.get("own_weights") else ""),
        "rows": ", ".join(f"{n:,} of {kind}" for kind, n in plan["rows"].items()),
        "sums": plan.get("sums", ""),
        "remark": plan["remark"],
    }
    rows = [
        (
            f"{f'{ARROW} ' if name == plan['solver'] else ''}{name}",
            f"{cost['operations']:.1e}",
            f"{cost['memory'] / GIB:.2f}",
            f"{cost['disk'] / GIB:.2f}" if cost["disk"] else "",
            plan["excluded"].get(name, ""),
        )
        for name, cost in plan["costs"].items()
    ]
    columns = ("solver", "operations", "memory (GiB)", "disk (GiB)", "cannot be used because")
    return [facts("Plan", told), table("Cost of each solver", columns, rows, right=(1, 2, 3))]
