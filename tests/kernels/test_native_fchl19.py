"""The native FCHL19 kernels, for every instruction set, against the formulas written out in numpy."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pytest
import torch

from qml_lightning.kernels import FCHL19Arguments, native, reference
from qml_lightning.model.representations.fchl19 import COSINE_SERIES, ENERGIES, ENERGIES_AND_FORCES

CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(
    (_why := native.why_not(CPU, torch.float32)) is not None, reason=f"native kernels: {_why}"
)

PAIR = ENERGIES_AND_FORCES.arguments(3)
SERIES = COSINE_SERIES.arguments(3)
PARAMETERS = {
    "pair": PAIR,
    "pair for energies": ENERGIES.arguments(3),
    "series": SERIES,
    "series of one": replace(SERIES, n_angular=1),
    "series of six, steep": replace(SERIES, n_angular=6, decay3=4.0),
    "series of seven": replace(SERIES, n_angular=7),
    "series of eight": replace(SERIES, n_angular=8),
    "no two-body part": replace(PAIR, n_radial2=0),
    "no three-body part": replace(PAIR, n_radial3=0),
    "fine grids": replace(PAIR, n_radial2=37, n_radial3=53),
    "coarse grids": replace(PAIR, n_radial2=1, n_radial3=3),
    "narrow Gaussians": replace(PAIR, eta3=20.0, cutoff=8.0),
    "smooth cutoff": replace(SERIES, cutoff_power=2),
}
# neighbours of each element around each centre: none, absent elements, rows shorter and longer than any vector
COUNTS = [(0, 0, 0), (1, 0, 0), (0, 0, 2), (0, 9, 0), (5, 6, 6), (16, 0, 1), (7, 20, 13), (3, 1, 4)]


@dataclass(frozen=True)
class Surroundings:
    """Neighbours of several centres, as the kernels want them."""

    n_atoms: int
    segments: torch.Tensor
    vectors: torch.Tensor
    centre_element: torch.Tensor

    def to(self, dtype: torch.dtype) -> Surroundings:
        return replace(self, vectors=self.vectors.to(dtype))

    def values(self, p: FCHL19Arguments, kernels=native) -> torch.Tensor:
        return kernels.environments(p, self.n_atoms, self.segments, self.vectors)

    def pullback(self, p: FCHL19Arguments, cotangent: torch.Tensor, kernels=native) -> torch.Tensor:
        cotangent = cotangent.to(self.vectors.dtype)
        return kernels.environments_pullback(p, self.n_atoms, self.segments, self.vectors, cotangent)

    def jacobian(self, p: FCHL19Arguments, projections: torch.Tensor, kernels=native) -> torch.Tensor:
        projections = projections.to(self.vectors.dtype)
        return kernels.environments_jacobian(
            p, self.n_atoms, self.segments, self.vectors, self.centre_element, projections
        )


def surroundings(counts=COUNTS, cutoff: float = 6.0) -> Surroundings:
    """Directions at random, distances from 0.9 Å to a little beyond the cutoff."""
    random = np.random.default_rng(5)
    n_pairs = int(np.sum(counts))
    vectors = random.normal(size=(n_pairs, 3))
    vectors *= random.uniform(0.9, 1.05 * cutoff, size=(n_pairs, 1)) / np.linalg.norm(vectors, axis=1, keepdims=True)
    segments = np.concatenate([[0], np.cumsum(np.ravel(counts))])
    centre_element = random.integers(0, len(counts[0]), len(counts))
    return Surroundings(len(counts), *(torch.from_numpy(a) for a in (segments, vectors, centre_element)))


def naive(p: FCHL19Arguments, s: Surroundings, real: type[np.floating] = np.float64) -> np.ndarray:
    """The formulas of docs/conventions.md, one pair of neighbours after the other."""
    vectors, segments, n = s.vectors.numpy().astype(real), s.segments.tolist(), p.n_elements
    grid2 = p.cutoff * np.arange(1, p.n_radial2 + 1, dtype=real) / max(p.n_radial2, 1)
    grid3 = p.cutoff * np.arange(1, p.n_radial3 + 1, dtype=real) / max(p.n_radial3, 1)
    two = np.zeros((s.n_atoms, n, p.n_radial2), real)
    three = np.zeros((s.n_atoms, n, n, p.n_radial3, p.n_angular), real)
    pi = real(np.pi) + real(1.2246467991473532e-16)  # what a double lacks of π

    def fc(r):
        return (0.5 * (np.cos(pi * r / p.cutoff) + 1)) ** p.cutoff_power

    def cosine_between(u, v):
        return np.dot(u, v) / (np.linalg.norm(u) * np.linalg.norm(v))

    for i in range(s.n_atoms):
        near = [
            (e, vectors[pair], np.linalg.norm(vectors[pair]))
            for e in range(n)
            for pair in range(segments[i * n + e], segments[i * n + e + 1])
            if np.linalg.norm(vectors[pair]) < p.cutoff
        ]
        for e, _, r in near:
            variance = np.log1p(p.eta2 / r**2)
            exponent = -((np.log(grid2) - np.log(r) + variance / 2) ** 2) / (2 * variance)
            two[i, e] += fc(r) * r**-p.decay2 * np.exp(exponent) / (grid2 * np.sqrt(2 * pi * variance))
        for (ej, vj, rj), (ek, vk, rk) in combinations(near, 2):
            rjk = np.linalg.norm(vk - vj)
            cosine, sine = cosine_between(vj, vk), np.linalg.norm(np.cross(vj, vk)) / (rj * rk)
            weight = 1 + 3 * cosine * cosine_between(-vj, vk - vj) * cosine_between(-vk, vj - vk)
            weight *= p.weight3 * (rj * rk * rjk) ** -p.decay3 * fc(rj) * fc(rk)
            radial = np.exp(-p.eta3 * (0.5 * (rj + rk) - grid3) ** 2)
            series = np.cos(np.arange(p.n_angular, dtype=real) * np.arctan2(sine, cosine))
            angular = np.array([cosine, sine]) if p.angular == "pair" else series
            three[i, ej, ek] += weight * radial[:, None] * angular
    blocks = [three[:, e, f].reshape(s.n_atoms, -1) for e in range(n) for f in range(e, n)]
    return np.concatenate([two.reshape(s.n_atoms, -1), *blocks], axis=1)


def error(found, exact) -> float:
    """Norm of the difference relative to that of the exact one."""
    found, exact = np.asarray(found, np.longdouble).ravel(), np.asarray(exact, np.longdouble).ravel()
    return float(np.linalg.norm(found - exact) / max(np.linalg.norm(exact), 1e-300))


def drawn(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(7).normal(size=shape))


FEW = surroundings([(2, 0, 1), (1, 3, 2)], cutoff=4.0)
MOVES = [(pair, centre, axis) for pair, centre in ((0, 0), (2, 0), (4, 1), (8, 1)) for axis in range(3)]


@functools.cache
def naive_values(name: str) -> np.ndarray:
    p = PARAMETERS[name]
    return naive(p, surroundings(cutoff=p.cutoff))


@functools.cache
def naive_slopes(name: str) -> list[np.ndarray]:
    """Central differences of the naive values of FEW, (atoms, size), by the pair vectors' components in MOVES."""
    step, slopes = 1e-4, []
    for pair, _, axis in MOVES:
        ends = []
        # two widths of step cancel the error of the second order
        for width in (step, -step, 2 * step, -2 * step):
            moved = FEW.vectors.clone()
            moved[pair, axis] += width
            ends.append(naive(PARAMETERS[name], replace(FEW, vectors=moved)))
        slopes.append((8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * step))
    return slopes


@pytest.mark.parametrize("name", PARAMETERS)
def test_values_are_the_formulas(isa, name):
    p, exact = PARAMETERS[name], naive_values(name)
    found = surroundings(cutoff=p.cutoff).values(p).numpy()
    assert found.shape == exact.shape
    assert np.abs(found - exact).max() <= 2e-14 * np.abs(exact).max()


def kernel_arguments(p: FCHL19Arguments) -> dict[str, tuple[torch.Tensor, ...]]:
    return {"values": (), "pullback": (drawn(len(COUNTS), p.size),), "jacobian": (drawn(3, p.size, 40),)}


@functools.cache
def errors_of_plain_torch(name: str) -> dict[str, float]:
    """Of each kernel in float32."""
    p = PARAMETERS[name]
    s = surroundings(cutoff=p.cutoff)
    return {
        kernel: error(getattr(s.to(torch.float32), kernel)(p, *given, reference), getattr(s, kernel)(p, *given))
        for kernel, given in kernel_arguments(p).items()
    }


@pytest.mark.parametrize("name", PARAMETERS)
def test_float32_is_as_good_as_plain_torch(isa, name):
    p = PARAMETERS[name]
    s = surroundings(cutoff=p.cutoff)
    for kernel, given in kernel_arguments(p).items():
        found = error(getattr(s.to(torch.float32), kernel)(p, *given), getattr(s, kernel)(p, *given))
        assert found <= 2 * errors_of_plain_torch(name)[kernel]


# More centres than elsewhere: the last bits of a few are a matter of luck.
MANY = surroundings(COUNTS * 3, cutoff=5.0)


@functools.cache
def exact_values(name: str) -> tuple[np.ndarray, float]:
    """Values of MANY in more digits than a double has, and the error of plain torch in float64."""
    exact = naive(PARAMETERS[name], MANY, np.longdouble)
    return exact, error(MANY.values(PARAMETERS[name], reference), exact)


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="a long double has no more digits than a double here")
@pytest.mark.parametrize("name", PARAMETERS)
def test_float64_values_are_as_good_as_plain_torch(isa, name):
    exact, error_of_plain_torch = exact_values(name)
    assert error(MANY.values(PARAMETERS[name]), exact) <= 2 * error_of_plain_torch


def test_many_elements_among_few_neighbours(isa):
    p = COSINE_SERIES.arguments(7)
    s = surroundings([(1, 2, 1, 1, 3, 1, 0), (0, 2, 1, 0, 1, 2, 1), (1, 1, 9, 1, 1, 1, 1)])
    cotangent = drawn(s.n_atoms, p.size)
    assert error(s.values(p), naive(p, s)) < 1e-14
    assert error(s.pullback(p, cotangent), s.pullback(p, cotangent, reference)) < 1e-13
    assert error(s.to(torch.float32).pullback(p, cotangent), s.pullback(p, cotangent)) < 2e-6


@pytest.mark.parametrize("name", PARAMETERS)
def test_gradients_are_finite_differences_of_the_formulas(isa, name):
    p = PARAMETERS[name]
    cotangent, projections = drawn(FEW.n_atoms, p.size), drawn(3, p.size, 19)
    pullback, jacobian = FEW.pullback(p, cotangent).numpy(), FEW.jacobian(p, projections).numpy()
    for (pair, centre, axis), slopes in zip(MOVES, naive_slopes(name)):
        assert not slopes[1 - centre].any()
        assert pullback[pair, axis] == pytest.approx((slopes * cotangent.numpy()).sum(), rel=1e-8, abs=1e-9)
        projected = slopes[centre] @ projections[FEW.centre_element[centre]].numpy()
        assert error(jacobian[pair, axis], projected) < 1e-8


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_pullback_is_the_transpose_of_the_jacobian(isa, name):
    p = PARAMETERS[name]
    s = surroundings(cutoff=p.cutoff)
    projections, cotangent = drawn(3, p.size, 33), drawn(s.n_atoms, 33)
    back = torch.einsum("asr,ar->as", projections[s.centre_element], cotangent)
    centre = torch.repeat_interleave(torch.arange(s.n_atoms), s.segments[::3].diff())
    expected = torch.einsum("pxr,pr->px", s.jacobian(p, projections), cotangent[centre])
    assert error(s.pullback(p, back), expected) < 1e-13


PROJECTIONS = drawn(3, PAIR.size, 129)


@functools.cache
def jacobian_of_plain_torch() -> torch.Tensor:
    return surroundings().jacobian(PAIR, PROJECTIONS, reference)


@pytest.mark.parametrize("rank", [1, 15, 16, 64, 129])
def test_the_jacobian_projects_on_any_rank(isa, rank):
    found = surroundings().jacobian(PAIR, PROJECTIONS[:, :, :rank].contiguous())
    assert error(found, jacobian_of_plain_torch()[:, :, :rank]) < 1e-13


@pytest.mark.parametrize(
    ("cutoff", "total", "gradient_norm"), [(8.0, 15.90241011605, 13.73176895789), (6.0, 20.26766048646, 14.46149637006)]
)
def test_water_gives_the_golden_numbers(isa, cutoff, total, gradient_norm):
    o, h1, h2 = np.array([[0, 0, 0.1173], [0, 0.7572, -0.4692], [0, -0.7572, -0.4692]])
    p = replace(ENERGIES_AND_FORCES, cutoff=cutoff).arguments(2)  # H, O
    vectors = np.array([h1 - o, h2 - o, h2 - h1, o - h1, h1 - h2, o - h2])
    element, segments = torch.tensor([1, 0, 0]), torch.tensor([0, 2, 2, 3, 4, 5, 6])
    s = Surroundings(3, segments, torch.from_numpy(vectors), element)
    assert float(s.values(p).sum()) == pytest.approx(total, rel=1e-12)
    jacobian = s.jacobian(p, torch.eye(p.size, dtype=torch.float64).expand(2, -1, -1).contiguous())
    # the gradient by the centre is minus the sum of those by its neighbours
    square = jacobian.square().sum() + sum(jacobian[i : i + 2].sum(0).square().sum() for i in (0, 2, 4))
    assert float(square.sqrt()) == pytest.approx(gradient_norm, rel=1e-12)


def test_nobody_around_gives_zeros(isa):
    for dtype in (torch.float32, torch.float64):
        s = surroundings([(0, 0, 0), (0, 0, 0)]).to(dtype)
        assert torch.equal(s.values(PAIR), torch.zeros(2, PAIR.size, dtype=dtype))
        assert s.pullback(PAIR, drawn(2, PAIR.size)).shape == (0, 3)
        assert s.jacobian(PAIR, drawn(3, PAIR.size, 8)).shape == (0, 3, 8)
        nobody = replace(s, n_atoms=0, segments=s.segments[:1], centre_element=s.centre_element[:0])
        assert nobody.values(PAIR).shape == (0, PAIR.size)


def test_a_neighbour_at_the_cutoff_or_beyond_does_not_count(isa):
    s = surroundings([(2, 1, 0)])
    s.vectors[:] = torch.tensor([[1.0, 0.2, 0.0], [0.0, PAIR.cutoff, 0.0], [0.1, 0.3, 1.2]])
    alone = replace(s, segments=torch.tensor([0, 1, 2, 2]), vectors=s.vectors[[0, 2]].contiguous())
    cotangent, projections = drawn(1, PAIR.size), drawn(3, PAIR.size, 20)
    for beyond in (PAIR.cutoff, 7.3):
        s.vectors[1, 1] = beyond
        assert torch.equal(s.values(PAIR), alone.values(PAIR))
        for gradient, given in (("pullback", cotangent), ("jacobian", projections)):
            found = getattr(s, gradient)(PAIR, given)
            assert not found[1].any()
            assert torch.equal(found[[0, 2]], getattr(alone, gradient)(PAIR, given))


@pytest.mark.parametrize("p", [PAIR, SERIES], ids=["pair", "series"])
def test_values_and_gradients_vanish_smoothly_at_the_cutoff(isa, p):
    s = surroundings([(2, 0, 0)])
    cotangent = drawn(1, p.size)
    distance = 1e-3 * np.array([4.0, 2.0, 1.0])
    slopes, parts = [], []
    for gap in distance:
        s.vectors[:] = torch.tensor([[1.0, 0.2, 0.0], [0.0, p.cutoff - gap, 0.0]])
        alone = replace(s, segments=torch.tensor([0, 1, 1, 1]), vectors=s.vectors[:1].contiguous())
        parts.append(float((s.values(p) - alone.values(p)).norm()))
        slopes.append(float(s.pullback(p, cotangent)[1].norm()))
    # fc falls with the square of the gap, its slope with the gap itself
    assert np.array(parts[:2]) / parts[1:] == pytest.approx([4.0, 4.0], rel=2e-2)
    assert np.array(slopes[:2]) / slopes[1:] == pytest.approx([2.0, 2.0], rel=2e-2)


def test_collinear_atoms_have_finite_gradients(isa):
    s = surroundings([(2, 0, 0)])
    for scale in (-1.0, 2.0):
        s.vectors[:] = torch.tensor([[0.8, 0.5, -0.3], [0.8 * scale, 0.5 * scale, -0.3 * scale]])
        for dtype in (torch.float32, torch.float64):
            single = s.to(dtype)
            cotangent = drawn(1, PAIR.size)
            expected = s.pullback(PAIR, cotangent, reference)
            assert error(single.pullback(PAIR, cotangent), expected) < 50 * torch.finfo(dtype).eps


def test_nearly_collinear_atoms_keep_the_precision_of_the_gradient(isa):
    s = surroundings([(2, 0, 0)])
    cotangent = drawn(1, PAIR.size)
    for bend in (1e-2, 1e-4):
        s.vectors[:] = torch.tensor([[1.0, 0.0, 0.0], [-1.5, bend, 0.0]])
        s.vectors[:] = s.vectors.float().double()
        assert error(s.to(torch.float32).pullback(PAIR, cotangent), s.pullback(PAIR, cotangent)) < 3e-6


def test_the_bits_do_not_depend_on_the_threads(isa):
    s = surroundings(COUNTS * 5).to(torch.float32)
    cotangent, projections = drawn(s.n_atoms, PAIR.size), drawn(3, PAIR.size, 32)
    before, results = torch.get_num_threads(), []
    for threads in (1, 2, 2, 5):
        torch.set_num_threads(threads)
        results.append((s.values(PAIR), s.pullback(PAIR, cotangent), s.jacobian(PAIR, projections)))
    torch.set_num_threads(before)
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(result, results[0]))


def test_real_molecules_are_those_of_qmllib(isa, shared_data):
    qmllib = pytest.importorskip("qmllib.representations")
    data = np.load(shared_data / "rmd17" / "rmd17_aspirin.npz")
    charges, elements, p = data["nuclear_charges"].astype(int), [1, 6, 8], ENERGIES_AND_FORCES.arguments(3)
    element = np.array([elements.index(z) for z in charges])
    order = np.argsort(element, kind="stable")
    for positions in data["coords"][[0, 4000]]:
        apart = positions[order] - positions[:, None]
        near = (np.linalg.norm(apart, axis=2) < p.cutoff) & (order != np.arange(len(charges))[:, None])
        counts = [[(near[i] & (element[order] == e)).sum() for e in range(3)] for i in range(len(charges))]
        segments = np.concatenate([[0], np.cumsum(np.ravel(counts))])
        s = Surroundings(len(charges), *(torch.from_numpy(a) for a in (segments, apart[near], element)))
        oracle, slopes = qmllib.generate_fchl19(
            charges, positions, elements=elements, rcut=p.cutoff, acut=p.cutoff, pad=len(charges), gradients=True
        )
        assert np.abs(s.values(p).numpy() - oracle).max() <= 1e-12 * np.abs(oracle).max()
        cotangent = drawn(s.n_atoms, p.size)
        slopes = np.einsum("as,asbx->abx", cotangent, np.reshape(slopes, (*oracle.shape, len(charges), 3)))
        centre, neighbour = np.nonzero(near)
        assert error(s.pullback(p, cotangent), slopes[centre, order[neighbour]]) < 1e-11
