"""Tables inside pages: each stands between two marks, in whatever page has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..harness.benchmark import Benchmark, entries
from ..harness.places import ROOT
from ..speed import gpu_kernels, gpu_predicted, lammps, replicas, repulsion, uncertainty_times
from ..studies import (
    ablation,
    active_learning,
    delta,
    density_range,
    dipoles,
    distributed,
    energy_noise,
    gram_precision,
    iteration_costs,
    iteration_sums,
    lammps_runs,
    monte_carlo_errors,
    outliers,
    qm9_properties,
    real_work,
    smooth_cutoff,
    stability,
    uncertainty,
)
from . import headlines

Block = Callable[[Path], str]  # Markdown for a page


def tables_of(benchmark: Benchmark) -> Block:
    """The tables of a benchmark."""
    return lambda page: benchmark.tables(entries(benchmark.name))


BLOCKS: dict[str, Block] = {
    "first": headlines.first_screen,
    "results": headlines.others,
    "ablation": tables_of(ablation.ABLATION),
    "density_ablation": tables_of(ablation.DENSITY_ABLATION),
    "density_range": tables_of(density_range.DENSITY_RANGE),
    "monte_carlo": tables_of(monte_carlo_errors.MONTE_CARLO_ERRORS),
    "energy_noise": tables_of(energy_noise.ENERGY_NOISE),
    "gram_precision": tables_of(gram_precision.GRAM_PRECISION),
    "iteration_sums": tables_of(iteration_sums.ITERATION_SUMS),
    "outliers": tables_of(outliers.OUTLIERS),
    "smooth_cutoff": tables_of(smooth_cutoff.SMOOTH_CUTOFF),
    "uncertainty": tables_of(uncertainty.UNCERTAINTY),
    "uncertainty_times": tables_of(uncertainty_times.UNCERTAINTY_TIMES),
    "active_learning": tables_of(active_learning.ACTIVE_LEARNING),
    "iteration_costs": tables_of(iteration_costs.ITERATION_COSTS),
    "qm9_properties": tables_of(qm9_properties.QM9_PROPERTIES),
    "delta": tables_of(delta.DELTA),
    "dipoles": tables_of(dipoles.DIPOLES),
    "real_work": tables_of(real_work.REAL_WORK),
    "stability": tables_of(stability.STABILITY),
    "lammps": tables_of(lammps.LAMMPS),
    "lammps_runs": tables_of(lammps_runs.LAMMPS_RUNS),
    "repulsion": tables_of(repulsion.REPULSION),
    "replicas": tables_of(replicas.REPLICAS_TOGETHER),
    "gpu_kernels": tables_of(gpu_kernels.GPU_KERNELS),
    "gpu_predicted": tables_of(gpu_predicted.GPU_PREDICTED),
    "distributed": tables_of(distributed.DISTRIBUTED),
    "scaling_model": lambda page: distributed.model(),
}


def marks(name: str) -> tuple[str, str]:
    """The lines before and after a block."""
    return f"<!-- {name}:begin -->", f"<!-- {name}:end -->"


def pages() -> list[Path]:
    """Pages that may have blocks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def filled(page: Path) -> str:
    """The text of a page with its blocks as the result files have them."""
    text = page.read_text(encoding="utf-8")
    for name, block in BLOCKS.items():
        first, last = marks(name)
        before, begin, rest = text.partition(first)
        _, end, after = rest.partition(last)
        if bool(begin) != bool(end):
            raise SystemExit(f"{page.name} has only one of the marks {first} … {last}. Add the other one.")
        if begin:
            text = f"{before}{begin}\n{block(page)}\n{end}{after}"
    return text
