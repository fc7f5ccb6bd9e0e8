"""Measured rules of the automatic choice: every constant with its meaning and the benchmark that set it.

Scripts are under benchmarks/studies, their figures under benchmarks/results. The choice as a whole (choice.py): errors
are within 3 % of the best of a grid on the test set, for eight molecules of rMD17, 250 structures, 4096 features.
"""

from __future__ import annotations

from ...linear.ridge import Refinement
from ...model.representations import Representation
from ...model.representations.density import DENSITY, SHORT_DENSITY
from ...model.representations.fchl19 import COSINE_SERIES, ENERGIES_SERIES

# ---- solver ---------------------------------------------------------------------------------------------------------

# The iteration is taken if it saves this factor of the operations: their number is known only roughly. Ethanol with
# 16384 features: a factor of 1.9, and 52 instead of 81 s.
SAVES = 1.5

# ---- fields that are chosen ------------------------------------------------------------------------------------------

# The search goes from field to field in this order.
ORDER = ("representation", "class_spread", "energy_weight", "sigma")
# Representations that are tried: with forces, and with energies alone; and those of them that see less far.
WITH_FORCES: tuple[Representation, ...] = (DENSITY, SHORT_DENSITY, COSINE_SERIES)
ENERGIES_ALONE: tuple[Representation, ...] = (DENSITY, COSINE_SERIES, ENERGIES_SERIES)
SHORT_RANGE: tuple[Representation, ...] = (SHORT_DENSITY,)
FEWEST_STRUCTURES = 30  # with fewer only the ridge is chosen, and nothing if there are fewer rows than weights
ENERGY_WEIGHTS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # 30 is best for seven of eight molecules (choice.py)
WIDTH_FACTORS = (0.5, 2.0)
# Spread of the means of bonding classes, where they are told apart: 4 is worse for forces, 1 gains less (ablation.py).
CLASS_SPREAD = 2.0
# Gain in the mean logarithm of the errors that another width, weight or representation must bring: the larger of both
# values. A smaller gain is chance.
LEAST_GAIN = 0.02
# Another width must bring more, as the best one depends on the size of a fit. In trials with 125 structures of ethanol
# a kernel twice as wide is better by 0.03, with 900 structures it is worse by 0.07. In trials of aspirin one a quarter
# as wide is better by 0.05; with 400 structures of train_01 forces are 3 % worse already with half of the width.
LEAST_GAIN_OF_WIDTH = 0.05
# A shorter range must bring so much more for each doubling of the size from a trial to the fit: small trials have too
# few structures and features for what is far. In trials of malonaldehyde 5 Å are better than 6 Å by 0.06; with 150
# structures and 8192 features they are worse by 0.06, with 800 by 0.13. In trials of aspirin they are better by 0.13;
# with 800 structures and 16384 features they are worse by 0.10 (density_range.py).
MORE_FOR_SHORT_RANGE = 0.05
LEAST_GAIN_WITH_ONE_ENERGY = 0.3  # divided by the square root of the number of validation energies
# Rank: it is doubled if the axes lose more than the representation says they may (`norm_to_lose`): trials are too small
# to show what more axes bring.
FEWEST_BLOCKS = 8  # SORF blocks that must be left when the rank is doubled

# ---- best ridge as a fit grows ---------------------------------------------------------------------------------------

# The best ridge falls with this power of the error if rows and features grow alike, over a factor of 16 in size
# (ridges.py). Forces: 4.6 for ethanol, 4.5 for benzene, 4.2 for uracil, 4.0 for aspirin. Energies alone: 5.2 for QM9.
# Errors are known much better than the bottom of a flat valley. Forces are asked first: they tell it best.
RIDGE_POWER_OF_ERROR = {"forces": 4.5, "energies": 5.5}
RIDGE_POWER = 2.7  # power of the number of features if no error is known; 1.7 to 3 was measured
RIDGE_POWER_BOUNDS = (1.5, 3.5)  # for the power that follows from the errors
RIDGE_POWER_OF_WIDTH = 5.0  # power of the kernel width; it only tells where to look first
USUAL_GAIN = 2 ** (-RIDGE_POWER / RIDGE_POWER_OF_ERROR["forces"])  # factor of the errors at twice the size: 0.66
# Standard error of the logarithm of the gain at twice the size. After three doublings, expected errors of eight
# molecules are off by a factor of e^0.16 (forces) and e^0.28 (energies), root mean square (choice.py).
UNCERTAIN_GAIN = 0.07
HALF_TRUSTED_STRUCTURES = 100  # the gain that so many structures show counts as much as the usual one

# ---- smallest ridge --------------------------------------------------------------------------------------------------

# A ridge is lost in rounding below this part of the trace of the Gram matrix, for each column of it. Measured for
# benzene, whose energies weigh most: 5e-21 with 2048 and with 4096 features.
LOST_IN_ROUNDING = 1e-20
# Rounding in float32 shows in energies if the ridge is below 2 atoms (this · force MAE / energy MAE)². Without this
# rule the energies of benzene are 1.4 times worse than the best of a grid (choice.py). The value is 3 · 3 ε / 2 · 1.3:
# a third of the energy error is allowed (`_float32_ridge` has the formula), ε = 6e-8, and an RMSE is 1.3 MAE.
FLOAT32_SHOWS = 3.5e-7

# ---- refinement of a chosen ridge by the error on left-out rows ---------------------------------------------------

# Factors by which a chosen ridge is made larger where it is lost in rounding.
LARGER = (3.0, 10.0, 30.0, 100.0)
# Ridges tried beside a chosen one lie apart by this factor. A larger one is always tried. A smaller one is tried where
# the next larger one is worse by more than this part: the minimum then seems to lie below. Uracil of MD17, 700
# structures, 32768 features, errors on held-out structures from 3.5e-10 on: 15.6, 14.5, 14.3, 14.8, 16.0 meV/Å.
APART, STEEP = 10**0.5, 0.03
# Relative gain that another ridge must bring: the error on few structures is uncertain by as much. Aspirin of MD17, 700
# structures: 21 of them found a ridge 0.5 % better whose forces are 3 % worse.
WORTH = 0.02


def refinement(least: float | None) -> Refinement | None:
    """These rules for a ridge that is not to fall below `least`; None for a ridge that was given."""
    return None if least is None else Refinement(least, LARGER, APART, STEEP, WORTH)


# ---- rows left out to refine a chosen ridge in the direct solver -----------------------------------------------------

# One structure after the other is left out. Twelve structures are too few: forces of ethanol, 100 structures, are a
# tenth worse than if all are left out in turn.
LEFT_OUT_PART = 0.5  # of all rows, at most
MOST_LEFT_OUT_ROWS = 3000
FEWEST_LEFT_OUT_STRUCTURES = 20  # even if they have more rows than that

# ---- budget of the trials --------------------------------------------------------------------------------------------

# As measured, the choice takes an eighth to 0.28 of a fit that lasts more than a few seconds.
SHARE_OF_FIT = 0.17  # part of the operations of the fit
ALWAYS_ALLOWED = 2e10  # operations: half a second
PLANNED_PASSES = 6  # over the data
PLANNED_REPRESENTATIONS = 3  # passes with another size, rank or representation; for another width it is remembered
PLANNED_SOLUTIONS = 36
MOST_FEATURES = 8192  # with more the choice takes minutes and is no better
ENOUGH_ROWS = 8  # for each weight: a trial then hardly overfits, and
ENOUGH_STRUCTURES = 20  # more structures than both ask for tell nothing new
MOST_REMEMBERED = 2 * 1024**3  # bytes of environments; without any, silicon takes 0.65 of a fit, not 0.3 (accuracy.py)
WEIGHTS_FOR_EACH_ROW = 16  # a kind of label with fewer rows gets no Gram matrix: its rows cost little

# ---- validation set --------------------------------------------------------------------------------------------------

HELD_OUT_PART = 5  # one structure in so many is held out
FEWEST_HELD_OUT = 10  # structures, if a third of all is as many
MOST_HELD_OUT = 60  # structures
MOST_HELD_OUT_ROWS = 6000
MOST_MORE_ENERGIES = 300  # further structures, of which only the energies are used
# One part in so many of the budget is for their representations: silicon then takes 0.25 of a fit, not 0.3.
PART_FOR_HELD_OUT = 3
PART_FOR_MORE_ENERGIES = 6
# From this number of groups on, whole groups are held out: molecules by name, say. Fewer are kinds of a system (bulk,
# surface, liquid), all of which belong in the trials; of each the last part is held out, as its frames follow each
# other in time.
MANY_GROUPS = 20
HALF_TRUSTED_ROWS = 50  # a kind with so many rows counts half as much as one with very many: few errors are chance
