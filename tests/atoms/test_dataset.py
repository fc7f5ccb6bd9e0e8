"""Drawing from data sets and putting them together."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from qml_lightning.atoms.structures import Labels, structures_from_arrays
from qml_lightning.atoms.units import INTERNAL
from qml_lightning.datasets import Dataset, Source, concatenate, load
from qml_lightning.errors import InputError


def ragged(n=12, *, energies=True, forces=True, first=0) -> Dataset:
    """Structure s has s + 1 atoms, energy s, and s everywhere in its forces and positions."""
    rows = range(first, first + n)
    structures = structures_from_arrays(
        [np.ones(s + 1, int) for s in rows], [np.arange(3 * s + 3.0).reshape(-1, 3) + s for s in rows]
    )
    labels = Labels(
        torch.tensor([float(s) for s in rows], dtype=torch.float64) if energies else None,
        torch.cat([torch.full((s + 1, 3), float(s), dtype=torch.float64) for s in rows]) if forces else None,
    )
    return Dataset(structures, labels, Source("ragged", "", "", INTERNAL, n))


def assert_labels_belong_to_structures(dataset: Dataset) -> None:
    s = dataset.labels.energies
    assert torch.equal(dataset.structures.counts, s.long() + 1)
    assert torch.equal(dataset.labels.forces[:, 0], s[dataset.structures.structure_of_atom])
    assert torch.equal(dataset.structures.positions[dataset.structures.offsets[:-1], 0], s)


def test_a_selection_keeps_labels_with_their_structures():
    chosen = ragged().select([5, 0, 5])
    assert chosen.labels.energies.tolist() == [5, 0, 5]
    assert_labels_belong_to_structures(chosen)


def test_a_mask_selects_where_it_is_true():
    mask = np.arange(12) % 5 == 0
    assert ragged().select(mask).labels.energies.tolist() == [0, 5, 10]


@pytest.mark.parametrize("index", [[12], [-1], [0.5], [[0]]])
def test_rows_that_do_not_exist_are_refused(index):
    with pytest.raises(InputError, match=r"0 to 11"):
        ragged().select(index)


def test_a_subsample_has_no_row_twice_and_follows_its_seed():
    dataset = ragged()
    draw = dataset.subsample(8, seed=3)
    assert len(draw) == len(set(draw.labels.energies.tolist())) == 8
    assert_labels_belong_to_structures(draw)
    assert torch.equal(draw.labels.energies, dataset.subsample(8, seed=3).labels.energies)
    assert not torch.equal(draw.labels.energies, dataset.subsample(8, seed=4).labels.energies)


def test_a_smaller_subsample_is_the_start_of_a_larger_one():
    small, large = (ragged().subsample(n, seed=1).labels.energies for n in (3, 9))
    assert torch.equal(small, large[:3])


def test_a_split_is_disjoint_and_its_test_set_does_not_depend_on_the_training_size():
    dataset = ragged()
    train, test = dataset.split((7, 4), seed=0)
    assert len(train) == 7
    assert len(test) == 4
    assert not set(train.labels.energies.tolist()) & set(test.labels.energies.tolist())
    assert torch.equal(test.labels.energies, dataset.split((2, 4), seed=0)[1].labels.energies)


def test_more_than_there_is_cannot_be_drawn():
    with pytest.raises(InputError, match=r"Wanted 13 structures, ragged has 12"):
        ragged().subsample(13, seed=0)
    with pytest.raises(InputError, match=r"Wanted 7 \+ 6 structures"):
        ragged().split((7, 6), seed=0)
    with pytest.raises(InputError, match=r"at least one"):
        ragged().subsample(0, seed=0)


def test_draws_are_remembered_in_the_source():
    draw = ragged().subsample(8, seed=3).select([0, 1])
    assert draw.source.draws == ("subsample(8, seed=3)", "select(2 rows)")
    assert draw.source.n_structures == 2


def test_concatenation_fills_labels_that_some_lack_with_nan():
    both = concatenate([ragged(3), ragged(2, first=3, forces=False)])
    assert both.labels.energies.tolist() == [0, 1, 2, 3, 4]
    assert both.structures.counts.tolist() == [1, 2, 3, 4, 5]
    assert both.labels.forces[:6].isfinite().all()
    assert both.labels.forces[6:].isnan().all()
    assert both.labels.forces.shape == (15, 3)
    assert both.labels.stress is None


def test_concatenation_keeps_every_source():
    both = concatenate([ragged(3), ragged(2)])
    assert [part.n_structures for part in both.source.parts] == [3, 2]
    assert both.source.n_structures == len(both) == 5


def test_nothing_cannot_be_concatenated():
    with pytest.raises(InputError, match=r"at least one"):
        concatenate([])


def test_a_source_becomes_json_and_nothing_is_lost():
    source = concatenate([load("ethanol:train", limit=3), ragged(2).subsample(1, seed=0)]).source
    text = json.loads(json.dumps(source.as_dict()))
    assert text["n_structures"] == 4
    first, second = text["parts"]
    assert first["name"] == "ethanol"
    assert first["split"] == "train"
    assert first["units"]["energy"] == "kcal/mol"
    assert first["keys"] == {"energies": "energies", "forces": "forces"}
    assert len(first["sha256"]) == 64
    assert "Christensen" in first["citation"]
    assert second["draws"] == ["subsample(1, seed=0)"]
