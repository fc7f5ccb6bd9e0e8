"""Standard deviation of errors of which a minority may be wild."""

from __future__ import annotations

from torch import Tensor


def deviation_by_median(sizes: Tensor) -> Tensor:
    """Standard deviation of normal errors whose absolute values have the median of these `sizes`."""
    return 1.4826 * sizes.median()  # half of a normal distribution lies within 1 / 1.4826 standard deviations
