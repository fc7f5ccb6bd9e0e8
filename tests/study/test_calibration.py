"""Figures of predicted uncertainties: what perfect, constant and wrong ones must give."""

from __future__ import annotations

import numpy as np
import pytest

from qml_lightning.study.calibration import calibrated_with, sparsified


def test_deviations_that_the_errors_were_drawn_with_are_calibrated():
    random = np.random.default_rng(0)
    told = random.gamma(2.0, size=20000)
    errors = told[:, None] * random.normal(size=(20000, 3))
    found = calibrated_with(errors, told)
    assert found.within_1 == pytest.approx(0.683, abs=0.01)
    assert found.within_2 == pytest.approx(0.954, abs=0.01)
    assert found.miscalibration < 0.01
    # ln of the root mean square of the deviations less the mean of their ln
    assert found.likelihood_gain == pytest.approx(
        np.log(np.sqrt(np.square(told).mean())) - np.log(told).mean(), abs=0.02
    )
    twice = calibrated_with(errors, 2 * told)
    assert twice.within_1 == pytest.approx(0.954, abs=0.01)
    assert twice.miscalibration > 0.15
    assert twice.likelihood_gain < found.likelihood_gain
    assert twice.sparsification == found.sparsification  # a ranking knows no unit


def test_the_curve_of_a_perfect_ranking_is_the_best_and_one_constant_says_nothing():
    errors = np.random.default_rng(1).permutation(np.arange(1.0, 1001.0))
    by_told, by_error = sparsified(errors, errors)
    assert np.array_equal(by_told, by_error)
    assert by_told[0] == pytest.approx(1 / 500.5)
    assert by_told[-1] == pytest.approx(1)
    constant = calibrated_with(errors[:, None], np.full(1000, np.sqrt(np.square(errors).mean())))
    assert constant.likelihood_gain == pytest.approx(0, abs=1e-12)
    assert constant.error_of_certain_half == pytest.approx(1, abs=0.1)
    assert calibrated_with(errors[:, None], errors).sparsification == 0
