"""The plan of a fit: which solver, at what cost, and why. The decision is made here and nowhere else.

The direct solver gathers the equations in memory, the disk solver in scratch files, and the iterative solver never
forms them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ..errors import InputError
from ..linear.compensated import accumulation_and_reason
from ..machine.compute import Compute
from ..machine.memory import GIB, short_of_memory
from ..model.recipe import Automatic, Recipe
from .choice import rules
from .costs import (
    BYTES_IN_FLIGHT,
    batch_limit,
    direct_memory,
    direct_operations,
    disk_bytes,
    disk_memory,
    iteration_memory,
    iteration_operations,
)
from .outputs import Keep
from .problem import Problem
from .row_operator import summation

SolverName = Literal["direct", "disk", "iterative"]

# What a solver cannot honour, and the reason. Every other combination works; docs/scaling.md shows it.
EXCLUDES: dict[tuple[SolverName, str], str] = {
    ("iterative", "kept equations"): "it forms no equations",
    ("iterative", "several ranks"): "it runs in one process",
    ("iterative", "compensated sums of float64, RFF or ORF"): "pairs of float32 need precision float32 and SORF",
    ("disk", "kept equations"): "the factor overwrites the matrix",
    ("disk", "a committee"): "its members are drawn with the factor in memory",
    ("disk", "several ranks"): "the matrix belongs to one process",
    ("disk", "compensated accumulation"): "the matrix is summed in float64",
}
NO_CHECKPOINT = "The equations are on disk, without checkpoints: the matrix changes in place."


@dataclass(frozen=True)
class Cost:
    """Cost of a solver."""

    operations: float  # multiply-adds of a matrix product, or work that takes as long
    memory: int  # bytes, for each machine; with equations on disk the least
    disk: int = 0  # bytes


@dataclass(frozen=True)
class Plan:
    """Solver of a fit, its cost beside that of the others, and the reason for it."""

    solver: SolverName
    reason: str
    n_weights: int
    rows: dict[str, int]  # by kind of label
    costs: dict[str, Cost]  # by solver
    excluded: dict[str, str]  # by solver: why it cannot be used
    remark: str = ""  # for people, such as that there are no checkpoints
    on_host: bool = False  # the host keeps the equations: they do not fit into the device
    sums: str = ""  # how products are added up, and why
    own_weights: bool = False  # each element gets weights of its own, though the recipe to begin with shares them

    @property
    def dual(self) -> bool:
        """Fewer rows than weights: products of rows are factorised instead of a Gram matrix."""
        return sum(self.rows.values()) <= self.n_weights

    def as_dict(self) -> dict[str, Any]:
        """All fields, for the header of a model."""
        return asdict(self)


def wanted_of(recipe: Recipe, compute: Compute, keep: Keep) -> dict[str, bool]:
    """Wishes that a solver may have to refuse, as `EXCLUDES` names them."""
    return {
        "kept equations": keep.equations is not None,
        "a committee": keep.committee > 0,
        "several ranks": compute.ranks is not None,
        "compensated accumulation": recipe.solver.accumulation == "compensated",
        "compensated sums of float64, RFF or ORF": recipe.solver.accumulation == "compensated"
        and not recipe.pairs_serve,
    }


def refuse_impossible(recipe: Recipe, compute: Compute, keep: Keep) -> None:
    """Raise an InputError if the solver that the recipe names cannot do what is wanted. Needs no data."""
    if recipe.solver.method == "iterative" and (why := _exclusion("iterative", wanted_of(recipe, compute, keep))):
        raise InputError(f"{why[0].upper()}{why[1:]}. Leave out one of the two.")


def plan_fit(
    problem: Problem, recipe: Recipe | Automatic, compute: Compute | None = None, keep: Keep | None = None
) -> Plan:
    """Plan of a fit to `problem`: its solver, and whether each element gets weights of its own.

    A step of the iteration takes as long with own weights, and so does a prediction; there are more steps, and errors
    fall as with more features (benchmarks/results/own_weights.json). A direct solution would take elements³ times as
    long.
    """
    if not isinstance(recipe, Automatic):
        return _plan_of(problem, recipe, compute, keep)
    plan = _plan_of(problem, recipe.start, compute, keep)
    if plan.solver != "iterative" or "blocks" not in recipe.free or len(problem.elements) == 1:
        return plan
    own = _plan_of(problem, recipe.start.with_own_weights(), compute, keep)
    return replace(own, own_weights=True) if own.solver == "iterative" else plan


def _plan_of(problem: Problem, recipe: Recipe, compute: Compute | None, keep: Keep | None) -> Plan:
    """Plan for a recipe: the cheapest solver that can do what is wanted, within the memory.

    The iterative solver if the recipe names it, or if it is clearly cheaper; the direct one if its equations fit in
    memory; else the disk. A ResourceError or InputError tells if none of them can.
    """
    compute, keep = compute or Compute(), keep or Keep()
    refuse_impossible(recipe, compute, keep)
    n_weights, free = recipe.features.n_weights(len(problem.elements)), compute.room
    costs = _costs(problem, recipe, compute, n_weights)
    wanted, method = wanted_of(recipe, compute, keep), recipe.solver.method
    excluded = {name: why for name in costs if (why := _exclusion(name, wanted))}
    try:
        keep.held_out(len(problem.structures), recipe.solver.held_out)
    except InputError as few:
        if method == "iterative":
            raise
        excluded["iterative"] = str(few)
    own = compute.device_room is not None  # the device has a memory of its own
    memory = "the memory of the device" if own else f"memory{' within the limit' if compute.memory.limit else ''}"

    def planned(solver: SolverName, reason: str, remark: str = "", on_host: bool = False) -> Plan:
        sums = _sums(solver, recipe, compute)
        return Plan(solver, reason, n_weights, problem.rows, costs, excluded, remark, on_host, sums)  # type: ignore[arg-type]

    if method == "iterative":
        if (needed := costs["iterative"].memory) > free and (own or compute.memory.limit is not None):
            raise short_of_memory(needed, free, "The iterative solver", "Use fewer structures, or a higher limit.")
        return planned("iterative", "the recipe asks for it")
    saved = costs["direct"].operations / costs["iterative"].operations
    possible = "iterative" not in excluded and costs["iterative"].memory <= free
    if method == "automatic" and possible and saved > rules.SAVES:
        return planned("iterative", f"it takes {saved:.1f} times fewer operations than the direct solver")
    if costs["direct"].memory <= free:
        return planned("direct", f"its equations fit in {memory}")
    size = f"{costs['direct'].memory / GIB:.2f} GiB"
    if own and _on_host(problem, n_weights, compute) <= compute.memory.left:
        reason = f"equations of {size} do not fit in {memory}, {free / GIB:.2f} GiB, and the host keeps their tiles"
        return planned("direct", reason, on_host=True)
    if "disk" not in excluded:
        remark = "" if keep.checkpoint is None else NO_CHECKPOINT
        return planned("disk", f"equations of {size} do not fit in {memory}", remark)
    raise short_of_memory(
        costs["direct"].memory,
        free,
        f"Training {n_weights} weights",
        f"Use fewer features (now {recipe.features.n_features}) or structures, or make room for the disk: "
        f"{excluded['disk']}.",
    )


def _costs(problem: Problem, recipe: Recipe, compute: Compute, n_weights: int) -> dict[SolverName, Cost]:
    rows, n_rows = list(problem.rows.values()), problem.n_rows
    in_flight = BYTES_IN_FLIGHT * (batch_limit(n_weights, problem, compute) or 0)
    processes = compute.processes if compute.device_room is None else 1  # each has a device of its own
    operations = direct_operations(n_rows, n_weights)
    return {
        "direct": Cost(operations, direct_memory(rows, n_weights, processes) + in_flight),
        "disk": Cost(operations, disk_memory(problem, n_weights, compute.memory), disk_bytes(n_rows, n_weights)),
        "iterative": Cost(iteration_operations(problem, recipe), iteration_memory(problem, recipe)),
    }


def _sums(solver: SolverName, recipe: Recipe, compute: Compute) -> str:
    """How products are added up, and why, in words."""
    if solver == "disk":
        return "float64"
    if solver == "iterative":
        how, reason = summation(recipe, compute.device)
    else:
        how, reason = accumulation_and_reason(compute.device, recipe.solver.accumulation)
    words = {"float64": "float64", "compensated": "pairs of float32" if solver == "iterative" else "slices of float32"}
    return f"{words[how]}: {reason}"


def _on_host(problem: Problem, n_weights: int, compute: Compute) -> int:
    """Bytes of the host that keeps the equations of a device."""
    return direct_memory(list(problem.rows.values()), n_weights, compute.processes)


def _exclusion(solver: SolverName, wanted: dict[str, bool]) -> str:
    """Reason why a solver cannot do what is wanted; empty if it can."""
    excluding = {wish: why for (name, wish), why in EXCLUDES.items() if name == solver and wanted[wish]}
    return "; ".join(f"the {solver} solver and {wish} exclude each other, as {why}" for wish, why in excluding.items())
