"""Studies of accuracy beyond the paper: data sets, recipes, solvers, precision."""

from __future__ import annotations

from .ablation import ABLATION, DENSITY_ABLATION
from .accuracy import ACCURACY
from .active_learning import ACTIVE_LEARNING
from .choice import CHOICE
from .delta import DELTA
from .density_range import DENSITY_RANGE
from .dipoles import DIPOLES
from .distributed import DISTRIBUTED
from .energy_noise import ENERGY_NOISE
from .exact import EXACT
from .feature_maps import FEATURE_MAPS
from .gram_precision import GRAM_PRECISION
from .iteration_costs import ITERATION_COSTS
from .iteration_sums import ITERATION_SUMS
from .iterative import ITERATIVE
from .lammps_runs import LAMMPS_RUNS
from .monte_carlo import MONTE_CARLO
from .monte_carlo_errors import MONTE_CARLO_ERRORS
from .out_of_core import OUT_OF_CORE
from .outliers import OUTLIERS
from .own_weights import OWN_WEIGHTS
from .precision import PRECISION
from .qm9_properties import QM9_PROPERTIES
from .ranks import RANKS
from .real_work import REAL_WORK
from .ridges import RIDGES
from .smooth_cutoff import SMOOTH_CUTOFF
from .stability import STABILITY
from .uncertainty import UNCERTAINTY

BENCHMARKS = (
    ABLATION, ACCURACY, ACTIVE_LEARNING, CHOICE, DELTA, DENSITY_ABLATION, DENSITY_RANGE, DIPOLES, DISTRIBUTED,
    ENERGY_NOISE, EXACT, FEATURE_MAPS, GRAM_PRECISION, ITERATION_COSTS, ITERATION_SUMS, ITERATIVE, LAMMPS_RUNS,
    MONTE_CARLO, MONTE_CARLO_ERRORS, OUTLIERS, OUT_OF_CORE, OWN_WEIGHTS, PRECISION, QM9_PROPERTIES, RANKS, REAL_WORK,
    RIDGES, SMOOTH_CUTOFF, STABILITY, UNCERTAINTY,
)  # fmt: skip
