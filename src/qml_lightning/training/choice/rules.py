"""Measured rules of the automatic choice: every constant with its meaning and the benchmark that set it.

Scripts are under benchmarks/studies, their figures under benchmarks/results. The choice as a whole: studies/choice.py,
for which errors are within 3 % of the best of a grid on the test set (rMD17, 250 structures, 4096 features).
"""

# ---- fields that are chosen, and how far apart the trials lie -------------------------------------------------------

# With fewer structures only the ridge is chosen, and nothing if they have fewer rows than there are weights.
FEWEST_STRUCTURES = 30
# Energy weights, and factors of the kernel width. Seven of eight molecules want a weight of 30 (studies/choice.py).
ENERGY_WEIGHTS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
WIDTH_FACTORS = (0.5, 2.0)
# Gain in the mean logarithm of the error that another width, weight or representation must bring: the first value, or
# the second over the square root of the number of validation energies if that is more. A smaller gain is chance.
LEAST_GAIN, LEAST_GAIN_WITH_ONE_ENERGY = 0.02, 0.3
# The axes of each element may lose this part of the squared norm of its environments; else their number is doubled, as
# long as SORF has this number of blocks. 256 instead of 128 axes make forces better by 5 % for 3BPA (128 axes lose
# 9e-6), 3 % for aspirin (3e-6) and 1 to 7 % for smaller molecules (less than 1e-6), energies of QM9 by 4 % (4e-6); 512
# axes are no better (studies/ranks.py). Trials are too small to show this.
MOST_NORM_LOST, FEWEST_BLOCKS = 1e-6, 8

# ---- how the best ridge changes with the size of a fit ---------------------------------------------------------------

# At a fixed number of rows for each feature, the best ridge falls with this power of the error, over a factor of 16 in
# size (studies/ridges.py). Forces: 4.6 for ethanol, 4.5 for benzene, 4.2 for uracil, 4.0 for aspirin. Energies alone:
# 5.2 for QM9. Errors are known much better than the bottom of a flat valley. Forces first, as they tell it best.
RIDGE_POWER_OF_ERROR = {"forces": 4.5, "energies": 5.5}
# The power of the number of features that follows (measured: 1.7 to 3): its bounds, and its value if no error is known.
RIDGE_POWER_BOUNDS, RIDGE_POWER = (1.5, 3.5), 2.7
# Power of the kernel width with which the best ridge falls. It only says where to look first.
RIDGE_POWER_OF_WIDTH = 5.0
# Factor of the errors at twice the size that belongs to these powers, 0.66; and the number of structures in a trial at
# which the factor that was measured counts as much as this one.
USUAL_GAIN, HALF_TRUSTED_STRUCTURES = 2 ** (-RIDGE_POWER / RIDGE_POWER_OF_ERROR["forces"]), 100

# ---- ridges that are too small ---------------------------------------------------------------------------------------

# A ridge below this part of the trace of the Gram matrix, for each of its columns, is lost in rounding: 5e-21 for
# benzene, whose energies weigh most, with 2048 and with 4096 features.
LOST_IN_ROUNDING = 1e-20
# Rounding in float32 shows in energies below a ridge of 2 atoms (this · force MAE / energy MAE)². It is 3 · (3 ε / 2) ·
# 1.3: at most a third of the energy error, see `_float32_ridge`; ε = 6e-8; and an RMSE is 1.3 MAE. Without this rule
# energies of benzene are 1.4 times those of the best of a grid (studies/choice.py).
FLOAT32_SHOWS = 3.5e-7
# Rows on which the direct solver compares a chosen ridge with others, by leaving out one structure after the other: at
# most this part of all rows and at most this number, but those of at least so many structures. Twelve structures are
# too few (ethanol, 100 structures: forces a tenth worse than with all of them).
LEFT_OUT_PART, MOST_LEFT_OUT_ROWS, FEWEST_LEFT_OUT_STRUCTURES = 0.5, 3000, 20

# ---- budget of the trials --------------------------------------------------------------------------------------------

# Part of the operations of the fit that the trials may take, and operations that they always may: half a second. As
# measured they take an eighth to 0.28 of a fit that takes more than a few seconds.
SHARE_OF_FIT, ALWAYS_ALLOWED = 0.17, 2e10
# Passes over the data that are planned, those among them that compute the representation anew (for another size, rank
# or representation; it is remembered for another width), and solutions.
PLANNED_PASSES, PLANNED_REPRESENTATIONS, PLANNED_SOLUTIONS = 6, 3, 36
# Features of a trial, at most: with more the choice takes minutes and is no better.
MOST_FEATURES = 8192
# Rows for each weight with which a trial hardly overfits, and structures: more of both say the same.
ENOUGH_ROWS, ENOUGH_STRUCTURES = 8, 20
# Bytes of environments that are remembered, at most. Without any, the choice for silicon takes 0.65 of a fit instead of
# 0.3 (studies/accuracy.py).
MOST_REMEMBERED = 2 * 1024**3
# A kind of label stays as rows if it has fewer than one for this number of weights: they cost little. Otherwise all the
# solutions of a pass share one Gram matrix.
WEIGHTS_FOR_EACH_ROW = 16

# ---- validation set --------------------------------------------------------------------------------------------------

# Structures that are held out: at least, if there are as many, and at most; their rows, at most; and further structures
# of which only the energies are used, at most.
FEWEST_HELD_OUT, MOST_HELD_OUT, MOST_HELD_OUT_ROWS, MOST_MORE_ENERGIES = 10, 60, 6000, 300
# Their representations may take a third and a sixth of the budget. For silicon the choice then takes 0.25 of a fit, and
# 0.3 without this rule (studies/accuracy.py).
PART_FOR_HELD_OUT, PART_FOR_MORE_ENERGIES = 3, 6
# A kind of label with so many validation rows counts half as much as one with very many: the error of few is chance.
HALF_TRUSTED_ROWS = 50
