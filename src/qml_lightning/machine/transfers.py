"""Transfers between host and device that let the host wait as seldom as possible."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def sent(tensor: Tensor, device: torch.device | str) -> Tensor:
    """A tensor of the host on `device`. Without `non_blocking` the host would wait until the device is idle."""
    return tensor.to(device, non_blocking=True)


def on_host(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of a device on the host, as float64: one copy, and the host waits once for all."""
    flat = torch.cat([one.detach().reshape(-1).double() for one in tensors]).cpu()
    parts = flat.split([one.numel() for one in tensors])
    return [part.view(one.shape) for part, one in zip(parts, tensors, strict=True)]


def count_marks(*marks: Tensor) -> list[int]:
    """Number of true entries of each mask. The host waits once for all of them."""
    counts: list[int] = torch.stack([one.sum() for one in marks]).tolist()
    return counts


def places_of(mark: Tensor, n: int) -> Tensor:
    """Indices of the `n` true entries of a mask. `nonzero` would make the host wait for their number again."""
    out = mark.new_empty(n + 1, dtype=torch.int64)  # those that are not marked are written to the end, and dropped
    place = torch.where(mark, mark.cumsum(0) - 1, n)
    return out.scatter_(0, place, torch.arange(len(mark), device=mark.device))[:n]
