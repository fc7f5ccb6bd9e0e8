"""Studies of accuracy beyond the paper: data sets, recipes, solvers, precision."""

from __future__ import annotations

from .ablation import ABLATION, DENSITY_ABLATION
from .accuracy import ACCURACY
from .choice import CHOICE
from .distributed import DISTRIBUTED
from .energy_noise import ENERGY_NOISE
from .exact import EXACT
from .feature_maps import FEATURE_MAPS
from .gram_precision import GRAM_PRECISION
from .iterative import ITERATIVE
from .monte_carlo import MONTE_CARLO
from .monte_carlo_errors import MONTE_CARLO_ERRORS
from .out_of_core import OUT_OF_CORE
from .outliers import OUTLIERS
from .precision import PRECISION
from .ranks import RANKS
from .real_work import REAL_WORK
from .ridges import RIDGES
from .smooth_cutoff import SMOOTH_CUTOFF
from .stability import STABILITY
from .uncertainty import UNCERTAINTY

BENCHMARKS = (
    ABLATION, ACCURACY, CHOICE, DENSITY_ABLATION, DISTRIBUTED, ENERGY_NOISE, EXACT, FEATURE_MAPS, GRAM_PRECISION,
    ITERATIVE, MONTE_CARLO, MONTE_CARLO_ERRORS, OUT_OF_CORE, OUTLIERS, PRECISION, RANKS, REAL_WORK, RIDGES,
    SMOOTH_CUTOFF, STABILITY, UNCERTAINTY,
)  # fmt: skip
