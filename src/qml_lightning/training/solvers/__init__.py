"""Solvers of a fit, behind one interface: a `Task` goes in, a `Fitted` solution comes out."""

from collections.abc import Callable

from ..plan import SolverName
from . import direct, disk, iterative
from .task import Fitted, Task

SOLVERS: dict[SolverName, Callable[[Task], Fitted]] = {
    "direct": direct.solve,
    "disk": disk.solve,
    "iterative": iterative.solve,
}

__all__ = ["SOLVERS", "Fitted", "Task"]
