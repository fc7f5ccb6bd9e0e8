"""Forces that were probably not computed, or are those of constraints."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from qml_lightning.datasets import load
from qml_lightning.datasets.doubts import DataWarning
from qml_lightning.errors import InputError
from structures_for_tests import ethanols, written


def test_forces_that_are_all_zero_are_refused(tmp_path):
    frames = ethanols()
    for atoms in frames:
        atoms.calc.results["forces"] = np.zeros((9, 3))
    path = written(tmp_path / "set.extxyz", frames)
    with pytest.raises(InputError, match=r"All forces of set.extxyz are zero.*--forces-key \"\""):
        load(path)
    assert load(path, forces_key="").labels.kinds == ("energies",)


def test_atoms_that_were_held_fixed_are_told(tmp_path):
    frames = ethanols(6)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        load(written(tmp_path / "free.extxyz", frames))
    for atoms in frames:
        atoms.calc.results["forces"][2] = 0.0
    with pytest.warns(DataWarning, match=r"in 6 of 6 frames .* such as atom 2 of frame 0.*apply_constraint=False"):
        load(written(tmp_path / "held.extxyz", frames))
