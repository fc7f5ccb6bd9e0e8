"""Gradients of representations by automatic differentiation, a run of centres at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import torch
from torch import Tensor


class Run(Protocol):
    """The pairs of the centres from `first` to `last`."""

    first: int
    last: int
    vectors: Tensor


AnyRun = TypeVar("AnyRun", bound=Run)


def pullback(values: Callable[[AnyRun], Tensor], runs: Iterable[AnyRun], like: Tensor, cotangent: Tensor) -> Tensor:
    """Gradient of Σ values · cotangent by the pair vectors of all runs, in the shape of `like`, (pairs, 3)."""
    gradients = []
    for run in runs:
        with torch.enable_grad():
            run.vectors = run.vectors.detach().requires_grad_()
            total = (values(run) * cotangent[run.first : run.last]).sum()
        gradients.append(
            torch.autograd.grad(total, run.vectors)[0] if len(run.vectors) else torch.zeros_like(run.vectors)
        )
    return torch.cat(gradients) if gradients else torch.zeros_like(like)
