"""Reports of a model in files: a page with links, or figures; and a one-page summary of a fit as a figure."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
import torch

from ..api import header_of
from ..exact import ExactRecipe
from ..machine.display import threads_words
from ..machine.files import check_output, write_atomically
from ..model.metrics import Metrics, compare, error_lines
from .figure_pages import NAMES, pages
from .figures import PRINT
from .model_page import model_page
from .points import MOST_POINTS, origin, zero_of
from .style import COLOURS, GREY, STYLE, check_figure, document, image

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..datasets import Dataset
    from ..exact import ExactPotential
    from ..model.baseline import Baseline
    from ..model.potential import Model, Potential
    from ..model.predictor import Prediction

FORMATS = (".html", ".png", ".pdf", ".svg")
# The usual colours of common elements, dark enough for print. Other elements take the colours of the style in turn.
ELEMENT_COLOURS = {1: "#7f7f7f", 6: "#222222", 7: "#0072b2", 8: "#d55e00", 9: "#009e73", 14: "#b07c00", 16: "#e69f00"}
FEW_POINTS = 200  # up to here points are drawn larger


def check_report(path: str | os.PathLike[str], *, overwrite: bool = False, further: bool = False) -> Path:
    """The path, or an InputError if a report cannot be written there. Called before the work begins.

    `further`: with the other figures that `write_report` writes beside a .png or .svg.
    """
    if Path(path).suffix.lower() == ".html":
        return check_output(path, overwrite)
    given = check_figure(path, overwrite=overwrite, name="A report", formats=FORMATS)
    if further and given.suffix.lower() != ".pdf":
        for name in filter(None, NAMES):
            check_output(_beside(given, name), overwrite)
    return given


class ReportOptions(TypedDict, total=False):
    """Keywords of `write_report`."""

    overwrite: bool
    curve: dict[str, Any] | None
    seconds: float | None


def write_report(
    path: str | os.PathLike[str],
    potential: Model,
    data: Dataset,
    prediction: Prediction,
    *,
    overwrite: bool = False,
    curve: dict[str, Any] | None = None,
    seconds: float | None = None,
) -> list[Path]:
    """Write `prediction` against the labels of `data`: .html as a page with links, others as figures for a paper.

    A page and figures also show `curve`, the content of a file of `learning-curve`, and a page `seconds`, the time of
    the prediction. Returns the files: figures are pages of one .pdf, or else `path` and others beside it
    (name-errors.png).
    """
    path, header = check_report(path, overwrite=overwrite, further=True), header_of(potential)
    ending = path.suffix[1:].lower()
    if ending == "html":
        made = {path: model_page(potential, data, prediction, header, curve=curve, seconds=seconds).encode()}
    else:
        figures = pages(data, prediction, potential.baseline, provenance=header["provenance"], curve=curve)
        if ending == "pdf":
            made = {path: document(list(figures.values()))}
        else:
            made = {_beside(path, name): image(figure, ending, PRINT) for name, figure in figures.items()}
    for one, content in made.items():
        write_atomically(one, content, overwrite=overwrite)
    return list(made)


def _beside(path: Path, name: str) -> Path:
    """Path of a further figure."""
    return path.with_stem(f"{path.stem}-{name}") if name else path


def write_summary(
    path: str | os.PathLike[str],
    potential: Potential | ExactPotential,
    data: Dataset,
    prediction: Prediction,
    **options: Unpack[ReportOptions],
) -> None:
    """Write the summary of a fit: .html as the page of `write_report`, others as one page with figure and tables."""
    if Path(path).suffix.lower() == ".html":
        write_report(path, potential, data, prediction, **options)
        return
    overwrite = options.get("overwrite", False)
    path = check_report(path, overwrite=overwrite)
    write_atomically(path, image(draw(potential, data, prediction), path.suffix[1:].lower()), overwrite=overwrite)


def draw(potential: Potential | ExactPotential, data: Dataset, prediction: Prediction) -> Figure:
    """The page as a matplotlib figure."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    metrics = compare(data.structures, data.labels, prediction)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.6, 7.4))
        # left, bottom, width and height, as fractions of the page
        panels = [
            (figure.add_axes((left, 0.54, 0.38, 0.39)), figure.add_axes((left, 0.40, 0.38, 0.115)))
            for left in (0.1, 0.6)
        ]
        figure.text(0.02, 0.965, _title(potential), fontsize=12, fontweight="bold")
        _energies(*panels[0], data, prediction, potential.baseline)
        _forces(*panels[1], data, prediction)
        _errors(figure.add_axes((0.02, 0.045, 0.44, 0.28)), metrics, origin(potential, data))
        _facts(figure.add_axes((0.52, 0.045, 0.46, 0.28)), potential)
        source = potential.provenance.data.get("citation", "").split("\n")[0]
        if source:
            figure.text(0.02, 0.012, textwrap.fill(f"Data: {source}", 150), fontsize=6.5, color=GREY)
    return figure


def _title(potential: Potential | ExactPotential) -> str:
    name = potential.provenance.data.get("name", "")
    return f"QML-Lightning: {name}" if name else "QML-Lightning"


def _energies(parity: Axes, error: Axes, data: Dataset, prediction: Prediction, baseline: Baseline) -> None:
    if data.labels.energies is None:
        _absent(parity, error, "no energies to compare with")
        return
    per_atom = bool((data.structures.counts != data.structures.counts[0]).any())
    scale = data.structures.counts.double() if per_atom else torch.ones(len(data), dtype=torch.float64)
    zero, less = zero_of(data, baseline, scale)
    x, y = ((energies / scale - zero).numpy() for energies in (data.labels.energies, prediction.energies))
    _points(parity, error, x, y, COLOURS[0], "")
    _finish(parity, error, f"{'energy per atom' if per_atom else 'energy'} − {less}", "eV/atom" if per_atom else "eV")


def _forces(parity: Axes, error: Axes, data: Dataset, prediction: Prediction) -> None:
    if data.labels.forces is None or prediction.forces is None:
        _absent(parity, error, "no forces to compare with")
        return
    from ase.data import chemical_symbols

    numbers = data.structures.numbers
    # common elements are drawn first, so that rare ones stay visible on top of them
    elements = sorted(data.structures.elements, key=lambda z: -int((numbers == z).sum()))
    for at, z in enumerate(elements):
        x, y = (t[numbers == z].flatten().numpy() for t in (data.labels.forces, prediction.forces))
        _points(parity, error, x, y, ELEMENT_COLOURS.get(z, COLOURS[at % len(COLOURS)]), chemical_symbols[z])
    _finish(parity, error, "force component", "eV/Å")
    if len(elements) > 1:
        legend = parity.legend(loc="lower right", markerscale=3, handletextpad=0.1, fontsize=8)
        for handle in legend.legend_handles:
            if handle is not None:
                handle.set_alpha(1.0)


def _points(parity: Axes, error: Axes, x: np.ndarray, y: np.ndarray, colour: str, label: str) -> None:
    """Prediction against reference in the upper panel, the error in thousandths in the lower one."""
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(x) > MOST_POINTS:
        chosen = np.random.default_rng(0).permutation(len(x))[:MOST_POINTS]
        x, y = x[chosen], y[chosen]
    style: Any = {
        "markersize": 3 if len(x) > FEW_POINTS else 6,
        "markeredgewidth": 0,
        "color": colour,
        "label": label,
        "rasterized": True,
    }
    parity.plot(x, y, ".", alpha=0.6, **style)
    error.plot(x, 1000 * (y - x), ".", alpha=0.5, **style)


def _finish(parity: Axes, error: Axes, quantity: str, unit: str) -> None:
    limits = [*parity.get_xlim(), *parity.get_ylim()]
    low, high = min(limits), max(limits)
    parity.plot([low, high], [low, high], color="black", linewidth=0.7, zorder=0)
    parity.set(xlim=(low, high), ylim=(low, high))
    parity.locator_params(nbins=5)
    ticks = [tick for tick in parity.get_yticks() if low <= tick <= high]
    parity.set(xticks=ticks, xticklabels=[], yticks=ticks, ylabel=f"predicted ({unit})")
    error.axhline(0.0, color="black", linewidth=0.7, zorder=0)
    error.set(xlim=(low, high), xticks=ticks, xlabel=f"reference {quantity} ({unit})", ylabel=f"error (m{unit})")
    error.locator_params(axis="y", nbins=4)


def _absent(parity: Axes, error: Axes, text: str) -> None:
    for axes in (parity, error):
        axes.set_axis_off()
    parity.text(0.5, 0.5, text, ha="center", va="center", color=GREY, transform=parity.transAxes)


def _errors(axes: Axes, metrics: Metrics, origin: str) -> None:
    rows = [(line.name, line.mae, line.rmse, line.unit) for line in error_lines(metrics)]
    title = f"Errors on {origin}"
    columns = (Column(0.0), Column(0.54, "MAE", right=True), Column(0.74, "RMSE", right=True), Column(0.79, grey=True))
    _table(axes, title, columns, rows)


def _facts(axes: Axes, potential: Potential | ExactPotential) -> None:
    recipe, made = potential.recipe, potential.provenance
    if isinstance(recipe, ExactRecipe):
        method = {"kernels": f"{recipe.method.upper()}, σ = {recipe.sigma:g}"}
        limit = ("ridge", recipe.ridge) if recipe.method == "gpr" else ("threshold", recipe.threshold)
    else:
        features = recipe.features
        method = {"features": f"{features.n_features:,} {features.method.upper()}, σ = {features.sigma:g}"}
        limit = ("ridge", recipe.ridge)
    lost = max(0.0, 1.0 - float(potential.projection.explained.min()))
    values = {
        "structures": f"{made.structures:,} ({made.atoms:,} atoms)",
        "equations": ", ".join(f"{n:,} {kind}" for kind, n in made.targets.items()),
        **method,
        # name and cutoff: the whole description is wider than the page
        "representation": ", ".join(recipe.representation.describe().split(", ")[:2]),
        "projection": "none" if recipe.rank is None else f"{recipe.rank} axes, unexplained variance {lost:.0e}",
        limit[0]: f"{limit[1]:g}",
        "time": f"{made.seconds or 0.0:.1f} s, {threads_words(made.threads)}, {made.kernels}",
    }
    _table(axes, "Training", (Column(0.0, grey=True), Column(0.3)), [(k, v) for k, v in values.items() if v])


@dataclass(frozen=True)
class Column:
    """Place of a column in a table, from 0 (left) to 1 (right), and its look."""

    place: float
    heading: str = ""
    right: bool = False
    grey: bool = False


def _table(axes: Axes, title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Draw rows of text under a title, between two horizontal rules. Many rows move closer together."""
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    step = min(0.105, 0.84 / (len(rows) + 1))
    y = 0.94
    axes.text(0.0, y, title, fontweight="bold")
    y -= step + 0.02
    for column in columns:
        axes.text(column.place, y, column.heading, ha="right" if column.right else "left", color=GREY)
    y -= 0.035 if any(column.heading for column in columns) else -step + 0.035
    rules = [y]
    for row in rows:
        y -= step
        for cell, column in zip(row, columns):
            align, colour = "right" if column.right else "left", GREY if column.grey else "black"
            axes.text(column.place, y + 0.015, cell, ha=align, color=colour)
    rules.append(y - 0.025)
    for rule in rules:
        axes.plot([0, 1], [rule, rule], color="black", linewidth=0.8, clip_on=False)
