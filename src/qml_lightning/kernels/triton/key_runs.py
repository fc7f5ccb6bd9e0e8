"""Runs of entries with the same key, so that one program adds up all that goes to one place."""

from __future__ import annotations

import torch
from torch import Tensor


def runs(key: Tensor, n_keys: int) -> tuple[Tensor, Tensor]:
    """Entries ordered by key, and the place where each key begins, (n_keys + 1,).

    The order among equal keys is kept, so sums do not change from run to run. Nothing waits for the device.
    """
    ordered, order = key.sort(stable=True)
    return order, torch.searchsorted(ordered, torch.arange(n_keys + 1, device=key.device, dtype=key.dtype))
