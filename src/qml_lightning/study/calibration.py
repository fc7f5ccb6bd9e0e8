"""How well predicted uncertainties fit errors: coverage, miscalibration, likelihood, ranking."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

# Parts of a normal distribution at which the errors within its intervals are counted.
LEVELS = np.linspace(0.05, 0.95, 19)


@dataclass(frozen=True)
class Calibrated:
    """Errors beside the standard deviations that were predicted for them."""

    within_1: float  # part of the errors within one deviation; 0.683 of normal errors
    within_2: float  # within two; 0.954 of normal errors
    miscalibration: float  # mean difference between the part of a normal distribution and the part of the errors
    likelihood_gain: float  # mean log-likelihood, less that of one fitted deviation for all
    error_of_certain_half: float  # as a part of the mean error
    sparsification: float  # area between the curves of `sparsified`, 0 at best


def calibrated_with(errors: np.ndarray, told: np.ndarray) -> Calibrated:
    """Figures of errors (n, components) with deviations (n,) that the components share.

    Rankings go by the length of an error.
    """
    normalised, length = np.abs(errors) / told[:, None], np.linalg.norm(errors, axis=1)
    limits = [NormalDist().inv_cdf(0.5 + 0.5 * level) for level in LEVELS]
    parts = np.array([(normalised < limit).mean() for limit in limits])
    constant = np.sqrt(np.square(errors).mean())
    likelihood = -0.5 * np.square(normalised).mean() - np.log(told).mean()
    by_told, by_error = sparsified(length, told)
    return Calibrated(
        within_1=float((normalised < 1).mean()),
        within_2=float((normalised < 2).mean()),
        miscalibration=float(np.abs(parts - LEVELS).mean()),
        likelihood_gain=float(likelihood + 0.5 + np.log(constant)),
        error_of_certain_half=float(by_told[len(length) // 2]),
        sparsification=float((by_told - by_error).mean()),
    )


def sparsified(length: np.ndarray, told: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean error of the first 1, 2, … as a part of that of all, the most certain first, and the smallest first."""
    orders = np.argsort(told, kind="stable"), np.argsort(length, kind="stable")
    by_told, by_error = (length[order].cumsum() / np.arange(1, 1 + len(length)) / length.mean() for order in orders)
    return by_told, by_error
