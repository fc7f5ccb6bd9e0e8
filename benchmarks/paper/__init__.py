"""Tables and figures of the paper, one module each, in the order of the page of results."""

from __future__ import annotations

from .bpa import BPA
from .components import COMPONENTS
from .features import FEATURES
from .md17 import MD17
from .pareto import PARETO
from .prediction_times import PREDICTION_TIMES
from .qm9 import QM9
from .rmd17 import RMD17
from .training_times import TRAINING_TIMES
from .transforms import TRANSFORMS

BENCHMARKS = (
    RMD17, MD17, BPA, QM9, FEATURES, TRANSFORMS, TRAINING_TIMES, PREDICTION_TIMES, PARETO, COMPONENTS,
)  # fmt: skip
