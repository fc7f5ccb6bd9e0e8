"""All uses of the package beyond its public names: a change inside the package is followed here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ase import Atoms
from torch import Tensor

from qml_lightning import Dataset, Potential, Recipe, Structures
from qml_lightning.adapters.lammps.build import build as lammps_build
from qml_lightning.adapters.lammps.build import installed as lammps_installed
from qml_lightning.adapters.lammps.run import Processes, run_lammps, script_head, write_structure
from qml_lightning.atoms.dataset import concatenate
from qml_lightning.atoms.neighbours import element_indices, pairs_within
from qml_lightning.atoms.structures import structures_from_arrays
from qml_lightning.atoms.units import ENERGY_IN_EV
from qml_lightning.errors import SolveError
from qml_lightning.kernels import FeatureMap, kernels_for, native
from qml_lightning.kernels.reference import density as density_kernels
from qml_lightning.linear.compensated import BLOCK, add_compensated
from qml_lightning.linear.normal_equations import Gram, Rows, add_product, append, lower_tiles
from qml_lightning.linear.posterior import Calibration
from qml_lightning.linear.ridge import Ridge
from qml_lightning.linear.solution import Solution
from qml_lightning.machine.compute import Compute
from qml_lightning.machine.files import atomic, write_atomically
from qml_lightning.machine.memory import bytes_from
from qml_lightning.machine.progress import silent
from qml_lightning.machine.ranks import Ranks, joined
from qml_lightning.model.baseline import Baseline
from qml_lightning.model.basis import Basis, sample_environments
from qml_lightning.model.committee import FORCE_MEMBERS, Committee, committee_features
from qml_lightning.model.potential import Model
from qml_lightning.model.predictor import Predictor, forces_from
from qml_lightning.model.projection import atoms_of_elements, lift, project
from qml_lightning.model.representations import fchl19 as representations
from qml_lightning.model.representations.density import SHORT_DENSITY
from qml_lightning.study.calibration import calibrated_with
from qml_lightning.study.infrared import infrared
from qml_lightning.study.selection import select
from qml_lightning.training.environments import environments
from qml_lightning.training.equations import Equations, empty, gather
from qml_lightning.training.equations import extended as extended_on
from qml_lightning.training.keep import Keep
from qml_lightning.training.problem import Problem
from qml_lightning.training.screening.judgement import Outliers
from qml_lightning.training.screening.search import OutlierSearch, named
from qml_lightning.training.solvers.direct import equations_of, solved
from qml_lightning.training.solvers.iterative import Iterative, prepared

__all__ = [
    "BLOCK",
    "ENERGY_IN_EV",
    "SHORT_DENSITY",
    "Basis",
    "Equations",
    "NativeFeatures",
    "OutlierSearch",
    "Representation",
    "SolveError",
    "add_compensated",
    "add_product",
    "atomic",
    "begin_iteration",
    "bytes_from",
    "calibrated_with",
    "concatenate",
    "density_gradients",
    "energy_gradients",
    "equations_of",
    "extended",
    "facts",
    "find_outliers",
    "gram_rate",
    "infrared",
    "instruction_set",
    "invariants_of",
    "iterate",
    "kept_rows",
    "kernels_in_use",
    "lammps_build",
    "lammps_head",
    "lammps_potentials",
    "lammps_run",
    "lammps_structure",
    "lost_by_projection",
    "lower_tiles",
    "neighbours_by_element",
    "outlier_search",
    "prediction_steps",
    "projected_environments",
    "ranks_of_torchrun",
    "representations",
    "represented",
    "rows_of",
    "select",
    "solution",
    "solutions",
    "structures_from_arrays",
    "untrained",
    "with_any_committee",
    "with_axes",
    "with_products",
    "write_atomically",
]

Representation = representations.FCHL19


def kernels_in_use() -> str:
    """Name of the kernels that float32 on a CPU gets."""
    return kernels_for("cpu", torch.float32).NAME


def facts(potential: Model) -> dict[str, Any]:
    """Provenance of a model: `targets` by kind, `seconds`, `solution`, and `choice` if the recipe was chosen."""
    known: dict[str, Any] = potential.provenance.as_dict()
    return known


def ranks_of_torchrun() -> AbstractContextManager[Ranks | None]:
    """The processes that torchrun started, connected; None where there is only one."""
    return joined(torch.device("cpu"))


def find_outliers(
    data: Dataset, search: OutlierSearch | None = None, frame: int | None = None
) -> tuple[Outliers, float | None]:
    """Structures of `data` whose labels contradict a fit to the others, and by how much a frame leads all others.

    `search`: made for the same structures.
    """
    problem = Problem.of(data)
    search = OutlierSearch.of(problem, Compute()) if search is None else search.with_labels(problem)
    judgements = search.judgements()
    return named(judgements), None if frame is None else max(judged.lead(frame) for judged in judgements)


def outlier_search(data: Dataset) -> OutlierSearch:
    """A search that serves for any labels of the structures of `data`."""
    return OutlierSearch.of(Problem.of(data), Compute())


# ---- LAMMPS ----------------------------------------------------------------------------------------------------------

lammps_head = script_head


def lammps_structure(atoms: Atoms, path: Path) -> list[str]:
    """Write a data file; symbols of its atom types."""
    return write_structure(atoms, path)[0]


def lammps_run(script: Path, ranks: int, threads: int, plugin: Path) -> str:
    """Output of LAMMPS for a script."""
    return run_lammps(script, Processes(ranks, threads), plugin=plugin)


def lammps_potentials() -> Path:
    """Folder of the potentials that came with LAMMPS."""
    return lammps_installed().headers.parents[1] / "share" / "lammps" / "potentials"


# ---- equations -------------------------------------------------------------------------------------------------------


def solution(equations: Equations, recipe: Recipe, ridge: float) -> Potential:
    """The potential with this ridge; a SolveError if it is lost in rounding."""
    return solved(equations, replace(recipe, ridge=ridge))


def solutions(equations: Equations, recipe: Recipe, ridges: Sequence[float]) -> Iterator[tuple[float, Potential]]:
    """The potential for each ridge; those that are lost in rounding are left out."""
    for ridge in ridges:
        with suppress(SolveError):
            yield ridge, solution(equations, recipe, ridge)


def extended(equations: Equations, data: Dataset) -> Equations:
    """The equations with the structures of `data` added; the old ones are used up."""
    return extended_on(equations, data, Compute())


def rows_of(data: Dataset, recipe: Recipe) -> Equations:
    """Equations of `data` that keep all of their rows, however many there are, and form no Gram matrix."""
    problem, basis = Problem.of(data), Basis.draw(data.structures, recipe)
    equations = empty(problem, basis)
    equations.parts = {
        kind: Rows(part.n_columns, problem.rows[kind], n_targets=part.n_targets)
        for kind, part in equations.parts.items()
    }
    gather(equations, basis.ready(Compute()), problem)
    return equations


def with_products(
    equations: Equations, kind: str, product: Callable[[Tensor, Tensor, float], None], n_at_once: int
) -> tuple[Equations, Tensor]:
    """Equations of `rows_of` with the Gram matrix of one kind instead of its rows, and that matrix.

    `product(gram, rows, weight)` adds the products of `n_at_once` rows at a time.
    """
    rows = equations.parts[kind]
    assert isinstance(rows, Rows)
    part = Gram(rows.n_columns, n_targets=rows.n_targets, n=rows.n)
    for some in rows.filled()[0].split(n_at_once):
        product(part.gram, some, 1.0)
    part.moment, part.square = rows.moments(), rows.squares()
    return replace(equations, parts={**equations.parts, kind: part}), part.gram


def kept_rows(equations: Equations, kind: str) -> Tensor:
    """The rows of one kind of equations of `rows_of`, (rows, weights)."""
    part = equations.parts[kind]
    assert isinstance(part, Rows)
    return part.filled()[0]


def gram_rate(n_features: int, n_rows: int) -> float:
    """GFLOP/s of the Gram products of the package by themselves, as if each were half a matrix product."""
    gram = Gram(n_features)
    append(gram, torch.randn(n_rows, n_features, dtype=torch.float64), torch.zeros(n_rows, dtype=torch.float64))
    gram.close()
    return gram.flops / gram.seconds / 1e9


def begin_iteration(data: Dataset, recipe: Recipe, committee: int = 0) -> Iterative:
    """Everything that an iterative fit makes before its first step; the basis is drawn before."""
    basis = Basis.draw(data.structures, recipe).ready(Compute())
    return prepared(basis, Problem.of(data), recipe, silent, Keep(committee=committee))


def iterate(work: Iterative, ridge: float, least: float | None = None) -> Solution:
    """Solution with this ridge; with others compared to it, not below `least`, if that is given."""
    return work.solve(Ridge(ridge, least))


# ---- bases and potentials --------------------------------------------------------------------------------------------


def with_axes(basis: Basis, axes: Tensor) -> Basis:
    """The basis with other axes, (elements, size, rank)."""
    return replace(basis, projection=replace(basis.projection, matrices=axes))


def lost_by_projection(basis: Basis) -> float:
    """Largest part of the squared norm of an element's environments that the axes lose."""
    return 1 - float(basis.projection.explained.min())


def projected_environments(basis: Basis, structures: Structures) -> list[Tensor]:
    """Projected environments ρ of each element, (atoms, rank) in float64."""
    at = environments(basis.ready(Compute()), structures)
    return [at.rho[at.element == e].double() for e in range(len(basis.elements))]


def energy_gradients(potential: Potential, structures: Structures) -> list[Tensor]:
    """Gradients of the atomic energies by ρ for each element, (atoms, rank) in float64."""
    basis = potential.on(precision="float64").basis
    at, gradients = environments(basis, structures), []
    for e, feature_map in enumerate(basis.maps):
        rho = at.rho[at.element == e].contiguous()
        _, slope = basis.kernels.energy_and_slope(feature_map, rho, potential.weights[basis.columns(e)])
        gradients.append(slope.double())
    return gradients


def density_gradients(potential: Potential, structures: Structures) -> Tensor:
    """Gradients of the atomic energies by the density of the neighbours, (atoms, harmonics, elements · radial)."""
    basis = potential.on(precision="float64", kernels="reference").basis
    p, element = basis.arguments, element_indices(structures.numbers, basis.elements)
    by_rho = torch.zeros(structures.n_atoms, potential.recipe.rank, dtype=torch.float64)
    for e, slopes in enumerate(energy_gradients(potential, structures)):
        by_rho[element == e] = slopes
    atoms = atoms_of_elements(element, len(basis.elements), by_rho.device)
    by_values = lift(basis.projections, by_rho, atoms)[:, p.pair_size :]
    pairs, found = pairs_within(structures, p.cutoff, basis.elements), []
    for part in density_kernels._Centres.chunks(p, structures.n_atoms, pairs.segments, pairs.vector):
        with torch.enable_grad():
            moments = density_kernels._moments(p, part).requires_grad_()
            values = density_kernels._invariants(p, moments).flatten(1)
            total = (values * by_values[part.first : part.last]).sum()
        found.append(torch.einsum("ahk,znk->ahzn", torch.autograd.grad(total, moments)[0], p.mixing).flatten(2))
    return torch.cat(found)


def invariants_of(basis: Basis, structures: Structures) -> list[Tensor]:
    """Invariants of the density around the atoms of each element, (atoms, invariants, channels) in float64."""
    random = np.random.default_rng(0)
    arguments = basis.recipe.representation.arguments(len(basis.elements), basis.drawn)
    samples = sample_environments(structures, basis.recipe, basis.drawn, random)
    shape = arguments.n_invariants, arguments.n_channels
    return [sample[:, arguments.pair_size :].unflatten(1, shape) for sample in samples]


def untrained(structures: Structures, recipe: Recipe) -> Potential:
    """A potential with axes from the structures and random weights: the time of a prediction depends on neither."""
    basis = Basis.draw(structures, recipe)
    weights = torch.from_numpy(np.random.default_rng(0).standard_normal(basis.n_weights))
    zero = torch.zeros(len(basis.elements), dtype=torch.float64)
    return Potential(basis, weights, Baseline(basis.elements, zero))


def with_any_committee(structures: Structures, recipe: Recipe, members: int) -> Potential:
    """An untrained potential with random members of the usual size."""
    potential, n_few = untrained(structures, recipe), committee_features(recipe.features.n_features, recipe.rank)
    n_weights = len(potential.weights) // recipe.features.n_features * n_few
    deviations = torch.from_numpy(np.random.default_rng(1).standard_normal((members, n_weights)))
    calibrations = dict.fromkeys(("energies", "forces"), Calibration(1.0, 0.0))
    return replace(potential, committee=Committee(deviations, n_few, FORCE_MEMBERS, calibrations=calibrations))


def neighbours_by_element(structures: Structures, cutoff: float) -> Tensor:
    """Neighbours of each element around each atom, (atoms, elements)."""
    out = []
    for first in range(0, len(structures), 50):
        part = structures.select(np.arange(first, min(first + 50, len(structures))))
        pairs = pairs_within(part, cutoff, structures.elements)
        out.append(pairs.segments.diff().view(-1, len(structures.elements)))
    return torch.cat(out)


# ---- steps that are timed --------------------------------------------------------------------------------------------


def prediction_steps(structures: Structures, predictor: Predictor) -> dict[str, Callable[[], object]]:
    """Each step of `Predictor.predict_pairs` by itself, in the order of the steps there."""
    basis, n = predictor.basis, structures.n_atoms
    element = element_indices(structures.numbers, basis.elements)
    pairs = pairs_within(structures, predictor.cutoff, basis.elements)
    segments, vectors = pairs.segments, basis.like(pairs.vector)
    values = basis.kernels.environments(basis.arguments, n, segments, vectors)
    atoms = atoms_of_elements(element, len(basis.elements), basis.device)
    rho = project(basis.projections, values, atoms)
    slope = torch.randn_like(rho)
    cotangent = lift(basis.projections, slope, atoms)
    gradient = basis.kernels.environments_pullback(basis.arguments, n, segments, vectors, cotangent).double()

    def features() -> None:
        for e, of_element in enumerate(atoms):
            predictor._local(e, rho[of_element].contiguous())

    return {
        "neighbours": lambda: pairs_within(structures, predictor.cutoff, basis.elements),
        "FCHL19 values": lambda: basis.kernels.environments(basis.arguments, n, segments, vectors),
        "projection": lambda: (project(basis.projections, values, atoms), lift(basis.projections, slope, atoms)),
        "features": features,
        "pullback": lambda: basis.kernels.environments_pullback(basis.arguments, n, segments, vectors, cotangent),
        "forces": lambda: forces_from(structures, pairs, gradient),
    }


def represented(
    structures: Structures, representation: Representation, kernels: str, dtype: torch.dtype
) -> Callable[[], object]:
    """FCHL19 of all atoms and the pullback of a cotangent, which is what forces need, by these kernels."""
    p = representation.arguments(len(structures.elements))
    pairs = pairs_within(structures, p.cutoff, structures.elements)
    table, vectors, n = kernels_for("cpu", dtype, kernels), pairs.vector.to(dtype), structures.n_atoms
    cotangent = torch.randn(n, p.size, dtype=dtype)
    return lambda: (
        table.environments(p, n, pairs.segments, vectors),
        table.environments_pullback(p, n, pairs.segments, vectors, cotangent),
    )


@dataclass(frozen=True)
class NativeFeatures:
    """The native kernels of a SORF map with random signs, in float32, on random environments of a rank."""

    n_features: int
    rank: int
    n_transforms: int
    paired: bool

    @property
    def map(self) -> FeatureMap:
        generator = torch.Generator().manual_seed(0)
        n, rank = self.n_features // (1 + self.paired), self.rank
        return FeatureMap(
            phases=torch.rand(n, generator=generator) * 6.28,
            paired=self.paired,
            signs=torch.randint(0, 2, (n // rank, self.n_transforms, rank), generator=generator).float() * 2 - 1,
            row_scale=torch.full((n,), 0.01),
        )

    def calls(self, n_atoms: int, n_tangents_of_atom: int = 60) -> dict[str, tuple[Callable[[], object], int]]:
        """Kernel → call, and the atoms or tangents of it."""
        generator = torch.Generator().manual_seed(1)
        f, x = self.map, torch.randn(n_atoms, self.rank, generator=generator)
        weights = torch.randn(self.n_features, generator=generator)
        few, fewer = max(1, n_atoms // 5), max(21, n_atoms // 25 // 21 * 21)
        n = fewer * n_tangents_of_atom
        owner = torch.arange(n) // n_tangents_of_atom
        row = owner // 21 * 63 + torch.randint(0, 63, (n,), generator=generator)
        tangents = torch.randn(n, self.rank, generator=generator)
        rows = torch.zeros(int(row.max()) + 1, self.n_features, dtype=torch.float64)
        aspirin = (9, 8, 4)  # atoms of C, H and O
        return {
            "energy_and_slope": (lambda: native.energy_and_slope(f, x, weights), n_atoms),
            "energy_and_slope of 21 atoms": (lambda: native.energy_and_slope(f, x[:21], weights), 21),
            "energy_and_slope of 9 + 8 + 4 atoms": (
                lambda: [native.energy_and_slope(f, x[:m], weights) for m in aspirin], sum(aspirin),
            ),
            "force_rows, per tangent": (lambda: native.force_rows(f, x[:fewer], tangents, owner, row, rows), n),
            "feature_moment": (lambda: native.feature_moment(f, x, x[:, 0].contiguous(), x), n_atoms),
            "features": (lambda: native.features(f, x[:few]), few),
        }  # fmt: skip


def instruction_set() -> str:
    """Instruction set that the native kernels run with."""
    return native.instruction_set()
