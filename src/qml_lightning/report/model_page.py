"""The report of a model on labelled structures: one page with linked plots, a 3D view, and the card of the model."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.display import threads_words
from ..machine.memory import GIB
from ..model.metrics import WORDS, Metrics, compare, error_lines, heading, shown, with_unit
from .card import ARROW, QUANTITIES, best_trials, data_words, model_card, seconds_words, symbol, verdict
from .drawing import curves
from .learning import learning_part
from .page import columns, details, facts, page, paragraph, section, static, table, tiles
from .points import Compared, compared, origin, plots
from .reliability import uncertainty
from .series import ridge_curves
from .spread import by_group, distributions
from .viewer import arrows, viewed, viewer_dataset, viewer_script

if TYPE_CHECKING:
    from ..datasets import Dataset
    from ..model.potential import Model
    from ..model.predictor import Prediction

WORST = 8  # structures in a table of the worst
ARROWS = (
    '<div class="legend"><button id="arrows" aria-pressed="false">Show forces</button><span id="arrow-words" hidden>'
    '<i style="background:#0072b2"></i>reference <i style="background:#e69f00"></i>predicted</span></div>'
)
CLICK = "Click a point to see its structure, or go from one to the next with the arrow keys."
WITHOUT_VIEWER = (
    "The 3D view was left out: chemiscope was not installed where this page was made "
    '(pip install "qml-lightning[report]").'
)


def model_page(
    potential: Model,
    data: Dataset,
    prediction: Prediction,
    header: dict[str, Any],
    *,
    curve: dict[str, Any] | None = None,
    seconds: float | None = None,
) -> str:
    """The page; `header`: that of the model file, for the card.

    `curve`: content of a file of `learning-curve`. `seconds`: time of the prediction.
    """
    errors, metrics = compared(data, prediction), compare(data.structures, data.labels, prediction)
    split = f":{data.source.split}" if data.source.split else ""
    title = f"{data.source.name}{split}: errors of a QML-Lightning potential"
    worst = {kind: errors.worst(kind, WORST) for kind in ("energy", "force", "stress", "largest")}
    script = viewer_script()
    made = plots(data, prediction, baseline=potential.baseline)
    content = {"plots": made, **_content(data, prediction, errors, worst, title, with_viewer=script is not None)}
    explained = {symbol(z): float(part) for z, part in zip(potential.elements, potential.projection.explained)}
    body = [
        f"<h1>{html.escape(title)}</h1>",
        paragraph(f"{origin(potential, data)}; the model was trained on {_learnt(header['provenance'])}.", "soft"),
        _tiles(metrics),
        _explorer(made, script is not None, bool(content.get("arrows"))),
        section("Worst structures", _worst(data, errors, worst)),
        section("Errors", columns(_errors(metrics), by_group(data, errors))),
        section("Distributions of errors", distributions(data, prediction, errors)),
        section("Uncertainty against error", uncertainty(data, prediction)),
        section("Choice of the recipe", _choice(header["provenance"].get("choice"))),
        section("Response to the ridge", _ridges(header["provenance"])),
        section("Learning curve", learning_part(curve)),
        section("Timings", facts(_timings(header["provenance"], metrics, seconds))),
        section("Model card", facts(model_card(header, explained)), _plan(header["provenance"].get("plan"))),
    ]
    payload = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    body.append(f'<script type="application/json" id="report-data">{payload}</script>')
    if script is not None:  # as a text, which the script of the page runs later
        text = script.replace("</script", "<\\/script")
        body.append(f'<script type="text/plain" id="chemiscope">{text}</script>')
    return page(title, body, [static("view.js"), static("report.js")])


def _learnt(provenance: dict[str, Any]) -> str:
    """Name and number of the training structures."""
    n = provenance.get("structures", 0)
    return (
        f"{n:,} {'structure' if n == 1 else 'structures'} of {data_words(provenance.get('data', {})) or 'unknown data'}"
    )


def _timings(provenance: dict[str, Any], metrics: Metrics, seconds: float | None) -> dict[str, str]:
    """Times that are known, in words."""
    choice, fit = (provenance.get("choice") or {}).get("seconds"), provenance.get("seconds")
    each = "" if seconds is None else f"{1e6 * seconds / max(1, metrics.atoms):.3g} µs per atom"
    return {
        "choice of the recipe": "" if choice is None else seconds_words(choice),
        "fit": "" if fit is None else f"{seconds_words(fit)} with {threads_words(provenance.get('threads', '?'))}",
        "prediction": "" if seconds is None else f"{seconds_words(seconds)} for this page, {each}",
    }


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
        "stress MAE": [_unit("stress", value) for value in errors.stress],
        "largest force error": [
            f"{_unit('forces', value)} on atom {atom} ({symbol(int(numbers[bounds[s] + atom]))})" if atom >= 0 else ""
            for s, (value, atom) in enumerate(zip(errors.largest, errors.atom.tolist()))
        ],
    }
    if labels.energies is not None:
        words["reference energy"] = [
            f"{float(e):.4f} eV".replace("-", "−") if e.isfinite() else "" for e in labels.energies
        ]
    words["predicted energy"] = [f"{float(e):.4f} eV".replace("-", "−") for e in prediction.energies]
    first = next((found[0] for found in worst.values() if found), 0)
    which = viewed(data, [s for found in worst.values() for s in found]) if with_viewer else []
    return {
        "structures": n,
        "first": first,
        "facts": {name: values for name, values in words.items() if any(values)},
        "viewed": which,
        "viewer": viewer_dataset(data, errors, which, title) if with_viewer else None,
        "arrows": arrows(data, prediction, which) if with_viewer else None,
    }


def _unit(quantity: str, value: float) -> str:
    return with_unit(quantity, float(value)).replace("-", "−") if np.isfinite(value) else ""


def _explorer(made: Sequence[dict[str, Any]], with_viewer: bool, with_arrows: bool) -> str:
    names = {"energy": "Energies", "forces": "Forces", "stress": "Stress"}
    tabs = "".join(
        f'<button role="tab" data-plot="{at}" aria-selected="{str(at == 0).lower()}">{names[plot["name"]]}</button>'
        for at, plot in enumerate(made)
    )
    places = '<b id="viewer-name"></b>' + "".join(f'<div id="viewer{end}"></div>' for end in ("", "-info", "-meta"))
    zero = ""
    if made and made[0]["words"].endswith("elements"):
        zero = " Energies are shown less the reference energies of the elements, as compositions differ."
    note = "" if with_viewer else html.escape(WITHOUT_VIEWER)
    if with_arrows:
        places += ARROWS
    seen = f'{places if with_viewer else ""}<p id="viewer-note" class="soft">{note}</p>'
    return (
        '<section id="explorer"><h2>Predictions against references</h2>'
        f"{paragraph(CLICK + zero, 'soft')}"
        f'<div class="explorer"><div class="panel"><div class="tabs"><div role="tablist">{tabs}</div>'
        '<button id="errors" aria-pressed="false">Show errors</button></div>'
        '<canvas id="plot" class="plot" tabindex="0" role="img" aria-label="Predictions against references"></canvas>'
        f'<div id="legend" class="legend"></div></div><div class="panel">{seen}'
        '<div id="selected" aria-live="polite"></div></div></div></section>'
    )


def _worst(data: Dataset, errors: Compared, worst: dict[str, list[int]]) -> str:
    known = {
        "energy": ("energy error (meV/atom)", "energy_per_atom"),
        "force": ("force MAE (meV/Å)", "forces"),
        "stress": ("stress MAE (GPa)", "stress"),
    }
    known = {kind: words for kind, words in known.items() if worst[kind]}
    names = ("structure", *(("group",) if data.groups is not None else ()))
    parts = []
    for kind in known:
        # three tables beside each other have room for one error each; a click shows all of a structure
        listed = known if len(known) < 3 else {kind: known[kind]}
        head = "".join(f"<th>{name}</th>" for name in names)
        head += "".join(f"<th class=number>{name}</th>" for name, _ in listed.values())
        rows = "".join(
            _worst_row(data, errors, s, {quantity: getattr(errors, one)[s] for one, (_, quantity) in listed.items()})
            for s in worst[kind]
        )
        title = {"energy": "By energy per atom", "force": "By mean force error", "stress": "By mean stress error"}[kind]
        made = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        parts.append(f"<h3>{title}</h3><div class=scroll>{made}</div>")
    return columns(*parts)


def _worst_row(data: Dataset, errors: Compared, s: int, values: dict[str, float]) -> str:
    """Row of a table with a button that shows the structure."""
    group = "" if data.groups is None else f"<td class=group>{html.escape(str(data.groups[s]))}</td>"
    name = html.escape(data.name_of(s))
    numbers = "".join(
        f"<td class=number>{shown(quantity, float(value)).replace('-', '−') if np.isfinite(value) else ''}</td>"
        for quantity, value in values.items()
    )
    return (
        f'<tr><td><button data-structure="{s}" data-atom="{int(errors.atom[s])}">{name}</button></td>'
        f"{group}{numbers}</tr>"
    )


def _errors(metrics: Metrics) -> str:
    rows = [
        (line.name.replace("on ", "\u2003on "), line.mae, line.rmse, line.unit, f"{line.n:,}")
        for line in error_lines(metrics)
    ]
    return "<h3>By label and element</h3>" + table(("", "MAE", "RMSE", "unit", "values"), rows, right=(1, 2, 4))


def _choice(choice: dict[str, Any] | None) -> str:
    """Trials behind a chosen recipe, each with its best ridge."""
    if choice is None:
        return ""
    size, kinds, blank = choice["best"]["size"], list(choice["best"]["errors"]), "\u2003"
    # errors come before settings: on a phone they are seen without scrolling
    rows = [
        (f"{ARROW if trial == choice['best'] else blank} {name}",
         *(shown(QUANTITIES[kind], trial["errors"][kind]) for kind in kinds),
         f"{apart:g}", f"{sigma:g}", str(rank), f"{weight:g}", f"{trial['ridge']:.1e}", verdict(trial, choice))
        for (name, rank, apart, sigma, weight), trial in best_trials(choice).items()
    ]  # fmt: skip
    errors = [heading(QUANTITIES[kind]) for kind in kinds]
    heads = ("representation", *errors, "bonds apart", "σ", "rank", "energy weight", "ridge", "")
    text = f"Trials with {size['structures']:,} structures and {size['n_features']:,} features: MAE on those held out."
    return paragraph(text, "soft") + table(heads, rows, right=range(1, 6 + len(kinds)))


def _ridges(provenance: dict[str, Any]) -> str:
    """Errors with each ridge relative to the smallest: in the trials of the chosen settings, and in the fit itself."""
    return columns(*(curves(**vars(one)) for one in ridge_curves(provenance)))


def _plan(plan: dict[str, Any] | None) -> str:
    if plan is None:
        return ""
    rows = [
        (name, f"{cost['operations']:.1e}", f"{cost['memory'] / GIB:.2f}", plan["excluded"].get(name, ""))
        for name, cost in plan["costs"].items()
    ]
    told = paragraph(f"Solver: {plan['solver']}, because {plan['reason']}.")
    return details(
        "Plan of the fit",
        told + table(("solver", "operations", "memory (GiB)", "cannot be used because"), rows, right=(1, 2)),
    )
