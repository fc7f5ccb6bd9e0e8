"""Measured rules of the automatic choice: every constant with its meaning and the benchmark that set it."""

# Rows on which a chosen ridge is compared with others, by leaving out one structure after the other: at most this
# fraction of all rows and at most this number, but those of at least so many structures. Twelve structures are too few
# (ethanol, 100 structures: forces a tenth worse than with all of them).
LEFT_OUT, MOST_LEFT_OUT, FEWEST_LEFT_OUT = 0.5, 3000, 20
