"""Timings beside floors and rivals that are measured in the same run."""

from __future__ import annotations

from .lammps import LAMMPS
from .native_features import NATIVE_FEATURES
from .prediction import PREDICTION
from .representation import REPRESENTATION
from .rivals import RIVALS
from .training import TRAINING

BENCHMARKS = (LAMMPS, NATIVE_FEATURES, PREDICTION, REPRESENTATION, RIVALS, TRAINING)
