"""Random parameters of the density for calls of the C interface."""

from __future__ import annotations

import numpy as np
import torch

from qml_lightning.kernels import DensityArguments, native
from qml_lightning.kernels.native.library import DensityStruct
from qml_lightning.model.representations.density import Density

# A wrong number of one of these cannot be noticed: it only means longer arrays than there are.
LENGTHS = ("n_pair", "n_radial", "n_channels", "n_intervals")
WORDS = {"cutoff": (0.0, -1.0, 1e200), "pair_cutoff": (0.0, 0.5), "l_max": (4, -1), "n_invariants": (0, 99),
         "n_channels": (0, 17), "n_elements": (0, 119), "threads": (0,), "kind": (2, -1)}  # fmt: skip


def drawn_density(random: np.random.Generator, real: type) -> tuple[dict[str, object], DensityArguments]:
    """The representation as the C interface takes it, its arrays of type `real`, and as Python takes it, in float64."""
    n_elements, reach = int(random.integers(1, 4)), float(random.uniform(3, 5))
    parameters = Density(
        cutoff=reach, density_cutoff=reach * float(random.choice([0.7, 1.0])), n_pair=int(random.integers(0, 20)),
        n_radial=int(random.integers(1, 20)), l_max=int(random.integers(0, 4)),
        n_channels=16 * int(random.integers(1, 4)), weight3=float(random.choice([0.0, 0.06])),
    )  # fmt: skip
    p = parameters.arguments(n_elements, parameters.draw(n_elements, 1))
    double = torch.float64 if real is np.float64 else torch.float32
    rounded = p.to("cpu", double)
    struct = native.functions.representation_struct(rounded).kept
    tables = dict(zip(("pair_table", "radial_table", "mixing", "weights"), struct.kept, strict=True))
    given: dict[str, object] = {
        name: tables[name].numpy() if name in tables else getattr(struct, name) for name, _ in DensityStruct._fields_
    }
    return {"kind": 1, "reserved": 0, "parameters": given}, rounded.to("cpu", torch.float64)
