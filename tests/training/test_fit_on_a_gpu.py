"""A whole fit with the kernels of a GPU, interpreted on the CPU: all that stands around them is the same there."""

from __future__ import annotations

import pytest
import torch

from qml_lightning.machine.compute import Compute
from qml_lightning.model.recipe import SolverSettings
from qml_lightning.model.representations.density import Density
from qml_lightning.training.fit import fit
from qml_lightning.training.problem import Problem
from small_models import labelled, recipe
from structures_for_tests import WATER, rattled

pytest.importorskip("triton", reason="Triton is not installed")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled here: pytest -m gpu")

DENSITY = Density(cutoff=3.0, density_cutoff=3.0, n_pair=3, n_radial=3, n_channels=16, l_max=1)


def test_the_kernels_of_a_gpu_fit_what_plain_torch_fits():
    data = labelled([rattled(WATER, k, 0.1) for k in range(5)])
    given = recipe(representation=DENSITY, solver=SolverSettings("direct"), rank=4, n_features=16, ridge=1e-4)
    found, wanted = (
        fit(Problem.of(data), given, compute=Compute("cpu", kernels)).on("cpu", kernels="reference")
        for kernels in ("triton", "reference")
    )
    one, other = found.predict(data.structures), wanted.predict(data.structures)
    torch.testing.assert_close(one.forces, other.forces, rtol=0, atol=1e-8 * float(other.forces.abs().max()))
