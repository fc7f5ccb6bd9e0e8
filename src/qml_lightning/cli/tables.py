"""Tables that commands print: errors, models, equations, and the trials behind a chosen recipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ModelError
from ..machine.memory import GIB
from .screen import facts, show, show_json, table

if TYPE_CHECKING:
    from rich.console import Group

    from ..model.metrics import Metrics
    from ..training.plan import Plan

# Kind of label in the record of a choice → quantity of model/metrics.
QUANTITIES = {"energies": "energy", "forces": "forces", "stress": "stress"}

# Files that are named, of data from many.
PARTS = 4


def symbol(number: int) -> str:
    """Chemical symbol of an atomic number: 6 is C."""
    from ase.data import chemical_symbols

    return str(chemical_symbols[number])


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
    """Data, recipe and provenance of a model, from the header of its file.

    `explained`: for each element, the part of the squared norm that the projection keeps.
    """
    from ..model.representations import representation_from_dict

    recipe, provenance, data = header["recipe"], header["provenance"], header["provenance"].get("data", {})
    versions = provenance.get("versions", {})
    rows = provenance.get("targets", {})
    weights = {kind: recipe[f"{kind}_weight"] for kind in ("energy", "force", "stress")}
    lost = ", ".join(f"{max(0.0, 1.0 - part):.1g} of {name}" for name, part in (explained or {}).items())
    return facts(
        title,
        {
            "elements": ", ".join(symbol(z) for z in header["elements"]),
            "data": _data(data),
            "structures": f"{provenance.get('structures', 0):,} with {provenance.get('atoms', 0):,} atoms",
            "equations": ", ".join(f"{n:,} {kind}" for kind, n in rows.items()),
            **_method(recipe, provenance.get("solution", {}).get("ridges", [])),
            "representation": representation_from_dict(recipe["representation"]).describe(),
            "projection": "none"
            if recipe["rank"] is None
            else f"{recipe['rank']} axes" + (f"; unexplained variance {lost}" if lost else ""),
            "references": str(data.get("references", "")),
            "weights": ", ".join(f"{kind} {weight:g}" for kind, weight in weights.items()),
            "chosen": _chosen(provenance.get("choice")),
            "solver": _solver(provenance.get("solution", {})),
            "seed": str(recipe["seed"]),
            "trained": f"in {_seconds(provenance.get('seconds', 0.0))} with {provenance.get('kernels', '?')} kernels, "
            f"{recipe.get('precision', 'float64')}, {provenance.get('threads', '?')} threads "
            f"on {provenance.get('device', '?')}",
            "predictions": _predictions(header.get("prediction")),
            "versions": ", ".join(f"{name} {text}" for name, text in versions.items()),
            "checksum": str(header.get("checksum", "")),
            "citation": str(data.get("citation", "")),
        },
    )


def _method(recipe: dict[str, Any], ridges: list[dict[str, float]]) -> dict[str, str]:
    """Features and ridge of a recipe; of an exact one, kernels and ridge or threshold."""
    if "features" not in recipe:
        of_oqml = recipe["method"] == "oqml"
        limit = {"threshold": f"{recipe['threshold']:g}"} if of_oqml else {"ridge": f"{recipe['ridge']:g}"}
        return {"kernels": f"{recipe['method'].upper()}, Gaussian, σ = {recipe['sigma']:g}", **limit}
    from ..model.features import FeatureSettings

    words = FeatureSettings(**recipe["features"]).describe()
    compared = f", the best of {len(ridges)} on held-out structures" if len(ridges) > 1 else ""
    return {"features": words, "ridge": f"{recipe['ridge']:g}{compared}"}


def _predictions(prediction: dict[str, Any] | None) -> str:
    """Precision of predictions, and the random error of energies that float32 would leave."""
    if prediction is None:
        return ""
    noise = f"{prediction['energy_noise'] * 1e3:.1g} meV per √atom"
    if prediction["precision"] == "float64":
        return f"in float64; energies in float32 would have a random error of {noise}"
    return f"in {prediction['precision']}; random error of energies {noise}"


def _chosen(choice: dict[str, Any] | None) -> str:
    """Fields that were chosen from the data, and the errors to expect."""
    if choice is None:
        return ""
    from ..model.metrics import with_unit

    names = ", ".join({"sigma": "σ", "energy_weight": "energy weight"}.get(name, name) for name in choice["chosen"])
    spread = choice.get("uncertainties", {})  # older files have none
    expected = ", ".join(
        with_unit(QUANTITIES[kind], error, spread.get(kind)) for kind, error in choice["predicted"].items()
    )
    return f"{names}, in {_seconds(choice['seconds'])}; expected errors {expected}"


def choice_table(choice: dict[str, Any] | None) -> list[Group]:
    """One table of the trials behind a chosen recipe, each with its best ridge; an empty list if nothing was chosen."""
    if choice is None:
        return []
    from ..model.metrics import heading, shown

    size, judges, kinds = choice["best"]["size"], choice["judges"], choice["best"]["errors"]
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for trial in [*choice["trials"], choice["best"]]:
        if trial["size"] == size and (
            trial == choice["best"] or trial["score"] <= best.get(_key(trial), trial)["score"]
        ):
            best[_key(trial)] = trial
    rows = [
        (f"{sigma:g}", f"{rank}", f"{weight:g}", f"{trial['ridge']:.1e}",
         *(shown(QUANTITIES[kind], error) for kind, error in trial["errors"].items()),
         _verdict(trial, choice), name)
        for (name, rank, sigma, weight), trial in sorted(best.items())
    ]  # fmt: skip
    columns = ["σ", "rank", "weight", "ridge", *(heading(QUANTITIES[kind]) for kind in kinds), "", "representation"]
    if len({row[-1] for row in rows}) == 1:  # most often there is only one, and a screen is narrow
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    more = f" and {judges['more_energies']:,} energies" if judges["more_energies"] else ""
    more += ", apart by group" if choice.get("apart") else ""
    title = (
        f"Trials with {size['structures']:,} structures and {size['n_features']:,} features: "
        f"MAE on {judges['structures']:,} held-out structures{more}"
    )
    return [table(title, columns, rows, right=range(4 + len(kinds)))]


def _key(trial: dict[str, Any]) -> tuple[Any, ...]:
    """Settings of a trial besides the ridge."""
    return trial["representation"], trial["rank"], trial["sigma"], trial["energy_weight"]


def _verdict(trial: dict[str, Any], choice: dict[str, Any]) -> str:
    """`chosen`, or the reason why a trial that is better was not."""
    if trial == choice["best"]:
        return "chosen"
    gain, least = choice["best"]["score"] - trial["score"], choice.get("least_gain", 0.0)
    if gain <= 0:
        return ""
    return f"better by {gain:.1%}: chance below {least:.0%}" if gain < least else "ridge too small for the fit"


def _data(source: dict[str, Any]) -> str:
    draws = f" ({', '.join(source['draws'])})" if source.get("draws") else ""
    if parts := source.get("parts"):
        more = f" and {len(parts) - PARTS} more" if len(parts) > PARTS else ""
        return "; ".join(_data(part) for part in parts[:PARTS]) + more + draws
    split = f":{source['split']}" if source.get("split") else ""
    return f"{source.get('name', '')}{split}{draws}"


def _solver(solution: dict[str, Any]) -> str:
    disk = solution.get("out_of_core")
    if disk is not None:
        gib = {name: f"{disk[name] / GIB:.1f} GiB" for name in ("disk_bytes", "bytes_read", "bytes_written")}
        moved = f"{gib['bytes_read']} read, {gib['bytes_written']} written"
        return f"direct, out of core: {gib['disk_bytes']} on disk, {moved}"
    summed = ", compensated float32 products" if solution.get("accumulation") == "compensated" else ""
    if "ranks" in solution:
        return f"direct{summed}, equations by {solution['ranks']['size']} ranks"
    if solution.get("solver") != "iterative":
        return str(solution.get("solver", "")) + summed
    return f"iterative, {len(solution.get('history', []))} steps: {solution.get('converged', '')}"


def equations_facts(title: str, header: dict[str, Any]) -> Group:
    """Data, features and size of some equations, from the header of their file."""
    features, position = header["recipe"]["features"], header["position"]
    return facts(
        title,
        {
            "elements": ", ".join(symbol(z) for z in header["elements"]),
            "data": _data(header["data"]),
            "structures": f"{header['structures']:,} with {header['atoms']:,} atoms",
            "equations": ", ".join(f"{part['n']:,} {kind}" for kind, part in header["parts"].items()),
            "features": f"{features['n_features']:,} {features['method'].upper()}, σ = {features['sigma']:g}",
            "chosen": _chosen(header.get("choice")),
            "references": "as given" if header["given_reference_energies"] else "least squares",
            "checkpoint": "" if position is None else f"{position['done']:,} of {position['of']:,} structures are in",
            "checksum": str(header.get("checksum", "")),
        },
    )


def _seconds(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min" if seconds >= 3600 else f"{seconds / 60:.1f} min"


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
        "weights": f"{plan['n_weights']:,}",
        "rows": ", ".join(f"{n:,} of {kind}" for kind, n in plan["rows"].items()),
        "remark": plan["remark"],
    }
    rows = [
        (
            f"{'▸ ' if name == plan['solver'] else ''}{name}",
            f"{cost['operations']:.1e}",
            f"{cost['memory'] / GIB:.2f}",
            f"{cost['disk'] / GIB:.2f}" if cost["disk"] else "",
            plan["excluded"].get(name, ""),
        )
        for name, cost in plan["costs"].items()
    ]
    columns = ("solver", "operations", "memory (GiB)", "disk (GiB)", "cannot be used because")
    return [facts("Plan", told), table("Cost of each solver", columns, rows, right=(1, 2, 3))]
