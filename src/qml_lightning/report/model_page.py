"""The report of a model on labelled structures: one page with linked plots, a 3D view, and the card of the model."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..model.metrics import WORDS, Metrics, compare, error_lines, heading, shown, with_unit
from .card import QUANTITIES, best_trials, model_card, settings_of, symbol, verdict
from .page import details, facts, histogram, lines, page, paragraph, section, static, table, tiles
from .points import Compared, compared, origin, plots, viewed, viewer_dataset, viewer_script

if TYPE_CHECKING:
    from ..datasets import Dataset
    from ..model.potential import Model
    from ..model.predictor import Prediction

BINS = 8  # of predicted uncertainties
WORST = 8  # structures in a table of the worst
WITHOUT_VIEWER = (
    "The 3D view was left out: chemiscope was not installed where this page was made "
    '(pip install "qml-lightning[report]").'
)


def model_page(potential: Model, data: Dataset, prediction: Prediction, header: dict[str, Any]) -> str:
    """The page; `header`: that of the model file, for the card."""
    errors, metrics = compared(data, prediction), compare(data.structures, data.labels, prediction)
    title = f"{header['provenance'].get('data', {}).get('name', '') or 'Model'}: errors of a QML-Lightning potential"
    worst = {kind: errors.worst(kind, WORST) for kind in ("energy", "force", "largest")}
    script = viewer_script()
    content = _content(data, prediction, errors, worst, title, with_viewer=script is not None)
    explained = {symbol(z): float(part) for z, part in zip(potential.elements, potential.projection.explained)}
    body = [
        f"<h1>{html.escape(title)}</h1>",
        paragraph(f"On {origin(potential, data)} of {data.source.name}.", "soft"),
        _tiles(metrics),
        _explorer(content["plots"], script is not None),
        section("Worst structures", _worst(data, errors, worst)),
        section("Errors", _columns(_errors(metrics), _by_group(data, errors))),
        section("Distributions of errors", _distributions(data, prediction, errors)),
        section("Uncertainty against error", _uncertainty(data, prediction)),
        section("Choice of the recipe", _choice(header["provenance"].get("choice")), _ridges(header["provenance"])),
        section("Model card", facts(model_card(header, explained)), _plan(header["provenance"].get("plan"))),
    ]
    payload = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    body.append(f'<script type="application/json" id="report-data">{payload}</script>')
    if script is not None:  # as a text, which the script of the page runs later
        text = script.replace("</script", "<\\/script")
        body.append(f'<script type="text/plain" id="chemiscope">{text}</script>')
    return page(title, body, [static("report.js")])


def _tiles(metrics: Metrics) -> str:
    known = {"energy_per_atom": metrics.energy_per_atom, "forces": metrics.forces, "stress": metrics.stress}
    values = {
        f"{WORDS[name]} MAE (RMSE {shown(name, one.rmse)})": with_unit(name, one.mae)
        for name, one in known.items()
        if one is not None
    }
    return tiles({**values, "structures": f"{metrics.structures:,}", "atoms": f"{metrics.atoms:,}"})


def _content(
    data: Dataset,
    prediction: Prediction,
    errors: Compared,
    worst: dict[str, list[int]],
    title: str,
    *,
    with_viewer: bool,
) -> dict[str, Any]:
    """All that the script of the page needs."""
    from ase.symbols import Symbols

    structures, labels, n = data.structures, data.labels, len(data)
    numbers = structures.numbers.numpy()
    bounds = structures.offsets.tolist()
    words: dict[str, list[str]] = {
        "structure": [data.name_of(s) for s in range(n)],
        "formula": [str(Symbols(numbers[a:b]).get_chemical_formula("hill")) for a, b in pairwise(bounds)],
        "group": [] if data.groups is None else [str(name) for name in data.groups],
        "energy error": [_unit("energy_per_atom", value) for value in errors.energy],
        "force MAE": [_unit("forces", value) for value in errors.force],
        "largest force error": [
            f"{_unit('forces', value)} on atom {atom} ({symbol(int(numbers[bounds[s] + atom]))})" if atom >= 0 else ""
            for s, (value, atom) in enumerate(zip(errors.largest, errors.atom.tolist()))
        ],
    }
    if labels.energies is not None:
        words["reference energy"] = [f"{float(e):.4f} eV" if e.isfinite() else "" for e in labels.energies]
    words["predicted energy"] = [f"{float(e):.4f} eV" for e in prediction.energies]
    first = next((found[0] for found in worst.values() if found), 0)
    which = viewed(data, [s for found in worst.values() for s in found]) if with_viewer else []
    return {
        "plots": plots(data, prediction),
        "structures": n,
        "first": first,
        "facts": {name: values for name, values in words.items() if any(values)},
        "viewed": which,
        "viewer": viewer_dataset(data, errors, which, title) if with_viewer else None,
    }


def _unit(quantity: str, value: float) -> str:
    return with_unit(quantity, float(value)).replace("-", "−") if np.isfinite(value) else ""


def _explorer(made: Sequence[dict[str, Any]], with_viewer: bool) -> str:
    names = {"energy": "Energies", "forces": "Forces", "stress": "Stress"}
    tabs = "".join(
        f'<button role="tab" data-plot="{at}" aria-selected="{str(at == 0).lower()}">{names[plot["name"]]}</button>'
        for at, plot in enumerate(made)
    )
    places = "".join(f'<div id="viewer{end}"></div>' for end in ("", "-info", "-meta"))
    note = "" if with_viewer else html.escape(WITHOUT_VIEWER)
    seen = f'{places if with_viewer else ""}<p id="viewer-note" class="soft">{note}</p>'
    return (
        '<section id="explorer"><h2>Predictions against references</h2>'
        f"{paragraph('Click a point, or move with the arrow keys, to see its structure.', 'soft')}"
        f'<div class="explorer"><div class="panel"><div class="tabs" role="tablist">{tabs}'
        '<button id="errors" role="tab" aria-selected="false">Show errors</button></div>'
        '<canvas id="plot" class="plot" tabindex="0" role="img" aria-label="Predictions against references"></canvas>'
        f'<div id="legend" class="legend"></div><div id="selected" aria-live="polite"></div></div>'
        f'<div class="panel">{seen}</div></div></section>'
    )


def _worst(data: Dataset, errors: Compared, worst: dict[str, list[int]]) -> str:
    names = ["structure", *(["group"] if data.groups is not None else []), "energy error", "force MAE"]
    kinds = {"energy error": " class=number", "force MAE": " class=number"}
    head = "".join(f"<th{kinds.get(name, '')}>{name}</th>" for name in names)
    parts = []
    for kind, title in {"energy": "By energy per atom", "force": "By mean force error"}.items():
        rows = "".join(_worst_row(data, errors, s) for s in worst[kind])
        made = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        parts.append(f"<h3>{title}</h3><div class=scroll>{made}</div>" if rows else "")
    return _columns(*parts)


def _worst_row(data: Dataset, errors: Compared, s: int) -> str:
    """Row of a table with a button that shows the structure."""
    group = "" if data.groups is None else f"<td>{html.escape(str(data.groups[s]))}</td>"
    name = html.escape(data.name_of(s))
    return (
        f'<tr><td><button data-structure="{s}" data-atom="{int(errors.atom[s])}">{name}</button></td>'
        f'{group}<td class="number">{_unit("energy_per_atom", errors.energy[s])}</td>'
        f'<td class="number">{_unit("forces", errors.force[s])}</td></tr>'
    )


def _columns(*parts: str) -> str:
    kept = "".join(f"<div>{part}</div>" for part in parts if part)
    return f"<div class=columns>{kept}</div>" if kept else ""


def _errors(metrics: Metrics) -> str:
    rows = [(line.name, line.mae, line.rmse, line.unit, f"{line.n:,}") for line in error_lines(metrics)]
    return "<h3>By label and element</h3>" + table(("", "MAE", "RMSE", "unit", "values"), rows, right=(1, 2, 4))


def _by_group(data: Dataset, errors: Compared) -> str:
    """Mean absolute errors of each group (config_type); nothing if there are none."""
    if data.groups is None or len(set(data.groups.tolist())) < 2:
        return ""
    counts, rows = data.structures.counts.numpy(), []
    for name in sorted(set(data.groups.tolist())):
        own = data.groups == name
        energy, force = (
            float(np.nanmean(np.abs(errors.energy[own]))),
            np.average(errors.force[own], weights=counts[own]),
        )
        numbers = _number("energy_per_atom", energy), _number("forces", float(force))
        rows.append((str(name) or "(none)", f"{int(own.sum()):,}", *numbers))
    columns = ("group", "structures", "energy MAE (meV/atom)", "force MAE (meV/Å)")
    return "<h3>By group (config_type)</h3>" + table(columns, rows, right=(1, 2, 3))


def _number(quantity: str, value: float) -> str:
    return shown(quantity, value) if np.isfinite(value) else ""


def _distributions(data: Dataset, prediction: Prediction, errors: Compared) -> str:
    parts = [histogram(1e3 * errors.energy, "energy error (meV/atom)", colour="--one")]
    if data.labels.forces is not None and prediction.forces is not None:
        wrong = 1e3 * (prediction.forces - data.labels.forces).norm(dim=1).numpy()
        numbers = data.structures.numbers.numpy()
        for at, z in enumerate(data.structures.elements):
            colour = ("--two", "--three", "--four", "--five", "--six")[at % 5]
            parts.append(
                histogram(wrong[numbers == z], f"length of the force error on {symbol(z)} (meV/Å)", colour=colour)
            )
    return _columns(*parts)


def _uncertainty(data: Dataset, prediction: Prediction) -> str:
    """Errors of forces in bins of equal size by their predicted standard deviation; nothing if there is none."""
    spread, labels = prediction.force_uncertainty, data.labels.forces
    if spread is None or labels is None or prediction.forces is None:
        return ""
    wrong, told = (prediction.forces - labels).numpy(), spread.numpy()
    known = np.isfinite(wrong).all(1) & np.isfinite(told)
    order = np.flatnonzero(known)[np.argsort(told[known], kind="stable")]
    rows = []
    for part in np.array_split(order, min(BINS, len(order)) or 1):
        rmse = float(np.sqrt(np.square(wrong[part]).mean()))
        within = float((np.abs(wrong[part]) <= told[part, None]).mean())
        rows.append(
            (f"{len(part):,}", shown("forces", float(told[part].mean())), shown("forces", rmse), f"{within:.0%}")
        )
    text = "Force components by predicted standard deviation: it should be the RMSE, and 68 % of the errors within it."
    columns = ("atoms", "predicted (meV/Å)", "RMSE (meV/Å)", "errors within")
    return paragraph(text, "soft") + table(columns, rows, right=range(4))


def _choice(choice: dict[str, Any] | None) -> str:
    """Trials behind a chosen recipe, each with its best ridge, and the response of the chosen one to the ridge."""
    if choice is None:
        return ""
    best, size, kinds = choice["best"], choice["best"]["size"], list(choice["best"]["errors"])
    rows = [
        (name, f"{sigma:g}", str(rank), f"{weight:g}", f"{trial['ridge']:.1e}",
         *(shown(QUANTITIES[kind], trial["errors"][kind]) for kind in kinds), verdict(trial, choice))
        for (name, rank, sigma, weight), trial in best_trials(choice).items()
    ]  # fmt: skip
    columns = (
        "representation",
        "σ",
        "rank",
        "energy weight",
        "ridge",
        *(heading(QUANTITIES[kind]) for kind in kinds),
        "",
    )
    text = f"Trials with {size['structures']:,} structures and {size['n_features']:,} features: MAE on those held out."
    same = [t for t in choice["trials"] if t["size"] == size and settings_of(t) == settings_of(best)]
    by_ridge = {trial["ridge"]: trial["errors"] for trial in [*same, best] if trial["ridge"] > 0}
    drawn = ""
    if len(by_ridge) > 2:
        series = {f"{kind} MAE": np.array([errors[kind] for errors in by_ridge.values()]) for kind in kinds}
        drawn = lines(
            np.array(list(by_ridge)), series, "ridge", "Error of the chosen settings relative to the best ridge."
        )
    return paragraph(text, "soft") + table(columns, rows, right=range(1, 5 + len(kinds))) + drawn


def _ridges(provenance: dict[str, Any]) -> str:
    """Errors on held-out structures with each ridge that was tried on the whole problem."""
    tried = provenance.get("solution", {}).get("ridges", [])
    rows = [(f"{one.get('ridge', 0):.1e}", *(f"{v:.4g}" for k, v in one.items() if k != "ridge")) for one in tried]
    if len(rows) < 2:
        return ""
    columns = ("ridge", *(key.replace("_", " ") for key in tried[0] if key != "ridge"))
    return "<h3>Response to the ridge</h3>" + table(columns, rows, right=range(len(columns)))


def _plan(plan: dict[str, Any] | None) -> str:
    if plan is None:
        return ""
    rows = [
        (name, f"{cost['operations']:.1e}", f"{cost['memory'] / 2**30:.2f}", plan["excluded"].get(name, ""))
        for name, cost in plan["costs"].items()
    ]
    told = paragraph(f"Solver: {plan['solver']}, because {plan['reason']}.")
    return details(
        "Plan of the fit",
        told + table(("solver", "operations", "memory (GiB)", "cannot be used because"), rows, right=(1, 2)),
    )
