"""Gram matrices from compensated float32 products are those of float64; the device decides when they are made so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import qml_lightning.linear.compensated as accumulation
import qml_lightning.linear.normal_equations as normal
from qml_lightning import fit
from qml_lightning.errors import InputError, ResourceError, SolveError
from qml_lightning.linear.compensated import BLOCK, BLOCKS_OF_REST, SLICE_BITS, SLICES, add_compensated
from qml_lightning.linear.direct import Term, solve
from qml_lightning.linear.normal_equations import Gram, add_product
from qml_lightning.linear.ridge import Ridge
from qml_lightning.model.recipe import Recipe
from small_models import SMALL, molecules


def _ill_conditioned(rows: int, columns: int) -> torch.Tensor:
    """Columns that nearly depend on each other, of sizes from 1e-6 to 1e6."""
    random = np.random.default_rng(rows + columns)
    few = random.normal(size=(rows, max(1, columns // 4))) @ random.normal(size=(max(1, columns // 4), columns))
    few += 1e-6 * random.normal(size=few.shape)
    return torch.from_numpy(few * np.logspace(-6, 6, columns))


def _summed(rows: torch.Tensor, add, weight: float = 1.0) -> torch.Tensor:
    gram = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64)
    add(gram, rows, weight)
    return gram.tril()


def _plain_float32(gram: torch.Tensor, rows: torch.Tensor, weight: float) -> None:
    rows = rows.float()
    gram += weight * (rows.T @ rows)


def _bound(rows: torch.Tensor) -> torch.Tensor:
    """Bound of rounding: the last product of some blocks has (slices + 1) terms for each row, below 2⁻⁸ of the
    largest ones for each slice, and float32 loses √terms times 2⁻²⁴ of the sum of their sizes."""
    at_once = min(len(rows), BLOCKS_OF_REST * BLOCK)
    terms = at_once * (SLICES + 1)
    largest = 2 * rows.abs().amax(0)  # at most: sizes are rounded up to powers of two
    lost = terms**1.5 * 2.0 ** (-24 - SLICES * SLICE_BITS - 1)
    return -(-len(rows) // at_once) * lost * largest * largest[:, None]


@pytest.mark.parametrize("precision", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 257), (255, 2), (257, 65), (1001, 131)], ids=str)
def test_compensated_products_lose_no_more_than_the_last_slice(shape, precision, monkeypatch):
    monkeypatch.setattr(accumulation, "TILE", 50)
    monkeypatch.setattr(accumulation, "CHUNK_BYTES", 2**20)  # several chunks, the last one short
    rows = _ill_conditioned(*shape).to(precision)
    exact = _summed(rows.double(), add_product, -2.0)
    bound = 2.0 * _bound(rows.double())
    assert bool(((_summed(rows, add_compensated, -2.0) - exact).abs() <= bound).all())
    if min(shape) > 1:
        assert bool(((_summed(rows, _plain_float32, -2.0) - exact).abs() > bound).any()), "the bound tells nothing"


def test_numbers_that_fit_in_the_slices_are_summed_without_rounding():
    random = np.random.default_rng(0)
    whole = random.integers(-(2**15), 2**15, (3 * BLOCK + 7, 33)).astype(float)
    whole[:BLOCK] = 2**15 - 1  # the largest sums that a block can have
    rows = torch.from_numpy(whole * 2.0 ** random.integers(-9, 9, 33))
    assert torch.equal(_summed(rows, add_compensated), _summed(rows, add_product))


def test_what_is_not_finite_is_still_told():
    rows = torch.randn(40, 5, dtype=torch.float64)
    rows[3, 2] = np.nan
    gram = Gram(5)
    add_compensated(gram.gram, rows, 1.0)
    with pytest.raises(SolveError, match="not finite"):
        solve([Term(gram)], Ridge(1.0))


def test_products_keep_their_bits_where_the_user_allows_less(monkeypatch):
    seen, product = [], torch.mm

    def watched(*arguments, **options):
        seen.append(torch.get_float32_matmul_precision())
        return product(*arguments, **options)

    monkeypatch.setattr(torch, "mm", watched)
    torch.set_float32_matmul_precision("high")
    try:
        _summed(torch.ones(3, 2), add_compensated)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert set(seen) == {"highest"}


def test_a_fit_gives_the_same_forces_where_plain_float32_does_not(monkeypatch):
    data = molecules(40)
    compensated = replace(SMALL, ridge=1e-9, solver=replace(SMALL.solver, accumulation="compensated"))
    found, wanted = fit(data, compensated), fit(data, replace(SMALL, ridge=1e-9))
    assert found.provenance.solution["accumulation"] == "compensated"
    assert wanted.provenance.solution["accumulation"] == "float64"
    forces = wanted.predict(data.structures).forces
    assert torch.allclose(found.predict(data.structures).forces, forces, rtol=0, atol=1e-6)
    assert not torch.equal(found.weights, wanted.weights)
    monkeypatch.setitem(normal.PRODUCTS, "compensated", _plain_float32)
    try:
        plain = fit(data, compensated).predict(data.structures).forces
    except SolveError:
        return
    assert not torch.allclose(plain, forces, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("device", "capability", "wanted"),
    [("cpu", None, "float64"), ("cuda", (7, 0), "float64"), ("cuda", (8, 0), "float64"), ("cuda", (9, 0), "float64"),
     ("cuda", (7, 5), "compensated"), ("cuda", (8, 6), "compensated"), ("cuda", (8, 9), "compensated"),
     ("cuda", (10, 3), "compensated"), ("cuda", (12, 0), "compensated")],
    ids=str,
)  # fmt: skip
def test_devices_with_slow_float64_are_spared_it(device, capability, wanted, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert accumulation.accumulation_on(device) == wanted
    assert accumulation.accumulation_on(device, "float64") == "float64"


def test_recipes_of_earlier_models_are_read():
    old = SMALL.as_dict()
    del old["solver"]["accumulation"]
    old["solver"]["shift"] = 1e-5
    assert Recipe.from_dict(old) == SMALL


def test_where_it_cannot_be_had_compensated_accumulation_is_refused(tmp_path):
    compensated = replace(SMALL.solver, accumulation="compensated")
    with pytest.raises(InputError, match="as pairs of float32 need precision float32 and SORF"):
        fit(molecules(5), replace(SMALL, solver=replace(compensated, method="iterative")))
    with pytest.raises(ResourceError, match="disk solver and compensated accumulation exclude each other"):
        fit(molecules(40), replace(SMALL, solver=compensated), memory_limit=1, scratch=tmp_path)
    with pytest.raises(InputError, match='"float64" or "compensated"'):
        fit(molecules(5), replace(SMALL, solver=replace(compensated, accumulation="abacus")))
