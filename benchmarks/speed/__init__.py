"""Timings beside floors and rivals that are measured in the same run."""

from __future__ import annotations

from .gpu_kernels import GPU_KERNELS
from .gpu_predicted import GPU_PREDICTED
from .lammps import LAMMPS
from .native_features import NATIVE_FEATURES
from .prediction import PREDICTION
from .replicas import REPLICAS_TOGETHER
from .representation import REPRESENTATION
from .repulsion import REPULSION
from .rivals import RIVALS
from .training import TRAINING
from .uncertainty_times import UNCERTAINTY_TIMES

BENCHMARKS = (
    GPU_KERNELS, GPU_PREDICTED, LAMMPS, NATIVE_FEATURES, PREDICTION, REPLICAS_TOGETHER, REPRESENTATION, REPULSION,
    RIVALS, TRAINING, UNCERTAINTY_TIMES,
)  # fmt: skip
