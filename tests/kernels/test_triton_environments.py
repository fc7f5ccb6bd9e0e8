"""Both representations in Triton, interpreted on the CPU, against their twins in plain torch."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk
from torch import Tensor

from few_and_all import few_and_all
from qml_lightning.atoms.neighbours import element_indices, pairs_within
from qml_lightning.atoms.structures import structures_from_ase
from qml_lightning.kernels import kernels_for, reference
from qml_lightning.model.representations.density import DENSITY as DEFAULT_DENSITY
from qml_lightning.model.representations.density import Density
from qml_lightning.model.representations.fchl19 import FCHL19
from structures_for_tests import WATER, kinds

pytest.importorskip("triton", reason="Triton is not installed")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled here: pytest -m gpu")

DENSITY = Density(cutoff=5.0, density_cutoff=4.0, n_pair=5, n_radial=4, n_channels=16)
PAIR = FCHL19(cutoff=5.0, n_radial2=6, n_radial3=5)
REPRESENTATIONS = {
    "density": DENSITY,
    "pair": PAIR,
    "series": replace(PAIR, angular="series", n_angular=4, weight3=0.2, cutoff_power=2),
    "density, one cutoff": replace(DENSITY, density_cutoff=5.0),
    "density, no pair functions": replace(DENSITY, n_pair=0),
    "density, many radial functions": replace(DENSITY, n_pair=17, n_radial=33),
    "density, no products of three": replace(DENSITY, weight3=0.0),
    "density, degree 2": replace(DENSITY, l_max=2),
    "density, degree 1, 48 channels": replace(DENSITY, l_max=1, n_channels=48),
    "density, degree 0": replace(DENSITY, l_max=0),
    "density, as it is by default": DEFAULT_DENSITY,
    "pair, as in the paper": FCHL19(),
    "pair, no two-body part": replace(PAIR, n_radial2=0),
    "pair, no three-body part": replace(PAIR, n_radial3=0),
    "series of one": replace(PAIR, angular="series", n_angular=1),
    "series of eight": replace(PAIR, angular="series", n_angular=8),
}
EPS_RATIO = torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps
FUNCTIONS = ("environments", "environments_pullback", "environments_jacobian")


@dataclass(frozen=True)
class Neighbours:
    """Arguments of the kernels besides the representation."""

    segments: Tensor
    vectors: Tensor
    centre_element: Tensor
    n_elements: int

    def call(self, kernels, name: str, representation, dtype: torch.dtype) -> Tensor:
        p = representation.arguments(self.n_elements, representation.draw(self.n_elements, 1)).to("cpu", dtype)
        n_atoms, g = len(self.centre_element), torch.Generator().manual_seed(3)
        cotangent = torch.randn(n_atoms, p.size, generator=g, dtype=torch.float64).to(dtype)
        matrices = torch.randn(self.n_elements, p.size, 9, generator=g, dtype=torch.float64).to(dtype)
        more = dict(zip(FUNCTIONS, ((), (cotangent,), (self.centre_element, matrices)), strict=True))
        return getattr(kernels, name)(p, n_atoms, self.segments, self.vectors.to(dtype), *more[name])


def drawn(*counts: tuple[int, ...]) -> Neighbours:
    """Neighbours at random, so many of each element around each centre, some of them beyond the cutoffs."""
    random = np.random.default_rng(5)
    vectors = random.normal(size=(int(np.sum(counts)), 3))
    vectors *= random.uniform(0.8, 5.3, size=(len(vectors), 1)) / np.linalg.norm(vectors, axis=1, keepdims=True)
    segments = np.concatenate([[0], np.cumsum(np.ravel(counts))]).astype(np.int64)
    element = random.integers(0, len(counts[0]), len(counts))
    return Neighbours(*(torch.from_numpy(one) for one in (segments, vectors, element)), len(counts[0]))


def around(*frames: Atoms, elements: tuple[int, ...] | None = None, cutoff: float = 5.0) -> Neighbours:
    """Neighbours of the atoms of structures; `elements` may name some that are missing."""
    structures = structures_from_ase(list(frames))
    elements = elements or structures.elements
    pairs = pairs_within(structures, cutoff, elements)
    return Neighbours(pairs.segments, pairs.vector, element_indices(structures.numbers, elements), len(elements))


ZOO = {
    "few neighbours": functools.partial(drawn, (0, 0), (2, 1), (0, 3)),
    "a lone atom and a dimer": lambda: around(Atoms("H"), Atoms("OH", [[0, 0, 0], [0, 0, 1.0]]), elements=(1, 6, 8)),
    "nothing": lambda: Neighbours(torch.zeros(1).long(), torch.zeros(0, 3).double(), torch.zeros(0).long(), 2),
    "random": functools.partial(drawn, (0, 0, 0), (1, 0, 0), (0, 9, 0), (5, 6, 6), (17, 0, 1)),
    "a hundred neighbours": functools.partial(drawn, (60, 45)),
    "elements missing": lambda: around(WATER, elements=(1, 6, 7, 8)),
    **{name: functools.partial(around, atoms, cutoff=4.0) for name, atoms in kinds().items()},
    "one atom in a small cell": lambda: around(bulk("Cu"), cutoff=4.0),
}  # fmt: skip
CASES = few_and_all(
    [("few neighbours", name) for name in ("density", "pair", "series")]
    + [("a lone atom and a dimer", "density"), ("nothing", "pair"), ("nothing", "density")],
    [("few neighbours", name) for name in list(REPRESENTATIONS)[3:]]
    + [(name, representation) for name in list(ZOO)[1:] for representation in ("density", "pair")],
)


@pytest.fixture(scope="module")
def triton():
    return kernels_for("cpu", torch.float64, "triton")


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("structure", "representation"), CASES)
def test_kernels_are_as_exact_as_their_twins(triton, structure, representation, name):
    here, chosen = ZOO[structure](), REPRESENTATIONS[representation]
    exact = here.call(reference, name, chosen, torch.float64)
    found = here.call(triton, name, chosen, torch.float64)
    assert found.shape == exact.shape
    naive = (here.call(reference, name, chosen, torch.float32) - exact).norm()
    single, double = (torch.finfo(one).eps * exact.norm() for one in (torch.float32, torch.float64))
    assert (here.call(triton, name, chosen, torch.float32) - exact).norm() <= 2 * naive + single
    # rounding errors scale with the unit; the twin in float64 has such an error too, hence three of them
    assert (found - exact).norm() <= 3 * EPS_RATIO * naive + double


@pytest.mark.parametrize("representation", few_and_all(["pair"], ["density", "series"]))
def test_gradients_are_finite_differences(triton, representation):
    here, chosen, step = drawn((1, 2)), REPRESENTATIONS[representation], 1e-4
    p = chosen.arguments(2, chosen.draw(2, 1))
    cotangent = torch.randn(1, p.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = triton.environments_pullback(p, 1, here.segments, here.vectors, cotangent)
    for pair, axis in ((0, 1), (2, 2)):
        ends = []
        for by in (-step, step):
            moved = here.vectors.clone()
            moved[pair, axis] += by
            ends.append((triton.environments(p, 1, here.segments, moved) * cotangent).sum())
        assert float(found[pair, axis]) == pytest.approx(float(ends[1] - ends[0]) / (2 * step), rel=1e-5, abs=1e-6)


def test_collinear_atoms_have_finite_gradients(triton):
    here = drawn((2, 0))
    for scale in (-1.0, 2.0):
        one = torch.tensor([0.8, 0.5, -0.3], dtype=torch.float64)
        line = replace(here, vectors=torch.stack([one, scale * one]))
        for dtype in (torch.float32, torch.float64):
            exact = line.call(reference, "environments_pullback", PAIR, torch.float64)
            found = line.call(triton, "environments_pullback", PAIR, dtype)
            assert (found - exact).norm() <= 50 * torch.finfo(dtype).eps * exact.norm()


def test_the_jacobian_does_not_depend_on_how_many_pairs_are_taken_at_once(triton, monkeypatch):
    from qml_lightning.kernels.triton import jacobian

    here = drawn((2, 1), (0, 2))
    whole = here.call(triton, "environments_jacobian", DENSITY, torch.float64)
    monkeypatch.setattr(jacobian, "DENSE_NUMBERS", 1)  # pair by pair
    torch.testing.assert_close(here.call(triton, "environments_jacobian", DENSITY, torch.float64), whole)


def test_one_element_has_moments_of_every_atom_and_no_more():
    from qml_lightning.kernels.triton import density

    here, p = drawn((2,), (3,)), DENSITY.arguments(1, DENSITY.draw(1, 1))
    assert len(density.prepared(p, here.segments, here.vectors)) == 2
