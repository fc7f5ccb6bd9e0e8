"""Errors as people read them: words, units and digits come from one place."""

from __future__ import annotations

import math

import pytest
import torch

from qml_lightning import evaluate, fit
from qml_lightning.model.metrics import Error, Metrics, error_lines, heading, mean_and_spread, shown, with_unit
from small_models import crystals, recipe


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0123456, 3, "12.3"),
        (0.0123456, 4, "12.35"),
        (0.012, 3, "12.0"),
        (0.1234, 3, "123"),
        (0.9996, 3, "1,000"),
        (1.2345, 3, "1,234"),
        (12.3456, 4, "12,346"),
        (0.0, 3, "0.00"),
        (-0.0123, 3, "-12.3"),
        (math.nan, 3, "nan"),
        (math.inf, 3, "inf"),
    ],
)
def test_a_number_has_so_many_digits_and_never_a_power_of_ten_when_it_is_large(value, digits, text):
    assert shown("forces", value, digits) == text


def test_an_error_is_written_with_its_unit_and_several_with_their_spread():
    assert with_unit("forces", 0.0123) == "12.3 meV/Å"
    assert with_unit("stress", 0.01) == "1.60 GPa"
    assert heading("energy_per_atom") == "energy (meV/atom)"
    assert mean_and_spread("forces", [0.0123]) == "12.3"
    assert mean_and_spread("forces", [0.010, 0.014]) == "12.0 ± 2.8"


def test_each_kind_of_label_has_a_line_and_so_has_each_element_if_there_are_several():
    force = Error(0.02, 0.03, 9)
    metrics = Metrics(3, 9, None, Error(0.001, 0.002, 3), force, None, {8: force, 1: force})
    lines = [(line.name, line.mae, line.rmse, line.unit, line.n) for line in error_lines(metrics)]
    assert lines == [
        ("energy per atom", "1.000", "2.000", "meV/atom", 3),
        ("forces", "20.00", "30.00", "meV/Å", 9),
        ("  on H", "20.00", "30.00", "meV/Å", 9),
        ("  on O", "20.00", "30.00", "meV/Å", 9),
    ]
    alone = Metrics(3, 9, None, None, force, None, {18: force})
    assert [line.name for line in error_lines(alone)] == ["forces"]


def test_errors_of_stress_count_six_components_as_training_does():
    data = crystals(4)
    potential = fit(data, recipe(n_features=64))
    metrics = evaluate(potential, data)
    difference = (potential.predict(data.structures).stress - data.labels.stress).abs()
    upper = [difference[:, a, b] for a in range(3) for b in range(a, 3)]
    assert metrics.stress.n == 6 * len(data) == potential.provenance.targets["stress"]
    assert metrics.stress.mae == pytest.approx(float(torch.stack(upper).mean()))
