"""Order of the structures in trials: the first ones are held out, and are not next to those that trials train on."""

from __future__ import annotations

import numpy as np

from . import rules


def order_of_trials(n: int, groups: np.ndarray | None, seed: int) -> np.ndarray:
    """Random order of `n` structures.

    Where there are several `groups` (a name for each structure), the first fifth of the order is whole groups, or the
    last part of each group. A random fifth would have neighbours in time among the others, and be predicted too well.
    """
    random = np.random.RandomState(seed)
    order = random.permutation(n)
    names, group = (None, None) if groups is None else np.unique(groups, return_inverse=True)
    if group is None or names is None or len(names) < 2:
        return order
    apart = np.zeros(n, bool)
    if len(names) >= rules.MANY_GROUPS:
        for name in random.permutation(len(names)):
            if (apart.sum() + (group == name).sum()) * rules.HELD_OUT_PART <= n:
                apart |= group == name
    else:
        for name in range(len(names)):
            own = (group == name).nonzero()[0]
            apart[own[len(own) - len(own) // rules.HELD_OUT_PART :]] = True
    return np.concatenate([order[apart[order]], order[~apart[order]]])
