"""Back-ends that serve on this machine, for tests that hold for each of them.

Triton's interpreter is left out: it takes minutes where the others take seconds, and has tests of its own.
"""

import torch

from qml_lightning.kernels import BACKENDS

CPU = torch.device("cpu")
ON_CPU = [
    backend.name for backend in BACKENDS if backend.name != "triton" and backend.why_not(CPU, torch.float64) is None
]
