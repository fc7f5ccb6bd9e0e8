"""The tables and figures of the paper, one module each."""

from __future__ import annotations

from .bpa import BPA
from .components import COMPONENTS
from .maps import FEATURES
from .md17 import MD17
from .pareto import PARETO
from .prediction import PREDICTION
from .qm9 import QM9, TRANSFORMS
from .rmd17 import RMD17
from .training import TRAINING

BENCHMARKS = (RMD17, MD17, BPA, QM9, FEATURES, TRANSFORMS, TRAINING, PREDICTION, PARETO, COMPONENTS)
