"""Order of the structures in trials: the first ones are held out, and are not next to those that trials train on."""

from __future__ import annotations

import numpy as np

# From this number of groups on, whole groups are held out: molecules by name, say. Fewer are kinds of a system (bulk,
# surface, liquid), all of which belong in the trials; of each the last part is held out, as its frames follow each
# other in time.
MANY_GROUPS = 20
HELD_OUT_PART = 5  # one structure in so many comes first


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
    if len(names) >= MANY_GROUPS:
        for name in random.permutation(len(names)):
            if (apart.sum() + (group == name).sum()) * HELD_OUT_PART <= n:
                apart |= group == name
    else:
        for name in range(len(names)):
            own = (group == name).nonzero()[0]
            apart[own[len(own) - len(own) // HELD_OUT_PART :]] = True
    return np.concatenate([order[apart[order]], order[~apart[order]]])
