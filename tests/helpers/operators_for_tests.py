"""A count of the operators for which the host would wait, if tensors of the CPU were on a device."""

from __future__ import annotations

from collections import Counter

from torch.utils._python_dispatch import TorchDispatchMode

# Operators whose result decides how much memory the next one takes, or which Python reads: the host waits for each.
WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "bincount", "unique", "item", "equal", "is_nonzero")


class Waits(TorchDispatchMode):
    """Counts operators for which the host would wait if the tensors were on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if any(name.startswith(one) for one in WAITING):
            self.found[name] += 1
        if name == "repeat_interleave" and not (kwargs or {}).get("output_size"):
            self.found[name] += 1
        return function(*args, **(kwargs or {}))
