"""Back-ends that serve on this machine, for tests that hold for each of them."""

import torch

from qml_lightning.kernels import BACKENDS

CPU = torch.device("cpu")
ON_CPU = [backend.name for backend in BACKENDS if backend.why_not(CPU, torch.float64) is None]
