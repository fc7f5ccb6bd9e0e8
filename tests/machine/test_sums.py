"""Sums into rows: all at once, or in two steps where a device would add up one long series."""

from __future__ import annotations

import pytest
import torch

from qml_lightning.machine.row_sums import SERIES, add_by_series, add_rows, add_sorted_rows


@pytest.mark.parametrize(
    "counts",
    [[], [0], [1], [3, 0, 5], [SERIES], [SERIES - 1, 1, 1], [SERIES + 1, 2 * SERIES, 0, 7], [1] * 600, [5, 3000]],
    ids=str,
)
def test_sums_in_two_steps_are_those_of_one(counts):
    index = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts, dtype=torch.int64))
    values = torch.randn(len(index), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    given = torch.ones(len(counts), 3, dtype=torch.float64)
    wanted = torch.stack([given[0] * 1 + part.sum(0) for part in values.split(counts)]) if counts else given
    for add in (add_by_series, add_sorted_rows, add_rows):
        torch.testing.assert_close(add(given.clone(), index, values), wanted, rtol=1e-13, atol=1e-12)


def test_no_place_takes_a_long_series_at_once(monkeypatch):
    longest, together = [], add_rows

    def watched(out, index, values):
        longest.append(int(torch.bincount(index).max()))
        return together(out, index, values)

    monkeypatch.setattr("qml_lightning.machine.row_sums.add_rows", watched)
    n = 40 * SERIES + 3
    found = add_by_series(torch.zeros(1), torch.zeros(n, dtype=torch.int64), torch.ones(n))
    assert found.tolist() == [n]
    assert max(longest) <= SERIES
