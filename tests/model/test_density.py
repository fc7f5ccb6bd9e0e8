"""Invariants of the neighbour density: the formulas, symmetries, smoothness, and what three bodies cannot see."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
import torch
from ase import Atoms
from ase.build import bulk

from kernel_tables import CPU, ON_CPU
from qml_lightning.atoms.neighbours import element_indices, pairs_within
from qml_lightning.atoms.structures import structures_from_ase
from qml_lightning.errors import InputError
from qml_lightning.kernels import kernels_for
from qml_lightning.kernels.harmonics import coupling, harmonics, of_degree, paths
from qml_lightning.model.basis import Basis, draw_representation
from qml_lightning.model.recipe import Recipe
from qml_lightning.model.representations.density import Density, distinct_channels, hermite_table
from qml_lightning.model.representations.fchl19 import COSINE_SERIES
from structures_for_tests import kinds, rattled

SMALL = Density(cutoff=4.5, density_cutoff=4.0, n_pair=5, n_radial=4, n_channels=16)


@pytest.fixture(params=ON_CPU)
def kernels(request):
    return kernels_for(CPU, torch.float64, request.param)


def environments(kernels, atoms: Atoms, elements: tuple[int, ...], p=SMALL) -> np.ndarray:
    arguments = p.arguments(len(elements), p.draw(len(elements), 3))
    structures = structures_from_ase(atoms)
    pairs = pairs_within(structures, p.cutoff, elements)
    return kernels.environments(arguments, len(atoms), pairs.segments, pairs.vector).numpy()


def gradients(kernels, atoms: Atoms, elements: tuple[int, ...], p=SMALL) -> np.ndarray:
    """Derivatives (atoms, size, atoms, 3) of all environments by all positions."""
    arguments = p.arguments(len(elements), p.draw(len(elements), 3))
    structures = structures_from_ase(atoms)
    pairs = pairs_within(structures, p.cutoff, elements)
    n, identity = len(atoms), torch.eye(arguments.size, dtype=torch.float64).repeat(len(elements), 1, 1)
    element = element_indices(structures.numbers, elements)
    jacobian = kernels.environments_jacobian(arguments, n, pairs.segments, pairs.vector, element, identity).numpy()
    out = np.zeros((n, arguments.size, n, 3))
    for pair, (i, j) in enumerate(zip(pairs.centre.tolist(), pairs.neighbour.tolist())):
        out[i, :, j] += jacobian[pair].T
        out[i, :, i] -= jacobian[pair].T
    return out


# ---- formulas --------------------------------------------------------------------------------------------------------


def test_products_of_harmonics_of_one_degree_are_legendre_polynomials():
    u, v = torch.nn.functional.normalize(torch.randn(2, 50, 3, dtype=torch.float64), dim=-1)
    for degree in range(4):
        product = (harmonics(u, 3)[:, of_degree(degree)] * harmonics(v, 3)[:, of_degree(degree)]).sum(1)
        expected = np.polynomial.legendre.Legendre.basis(degree)((u * v).sum(1).numpy())
        np.testing.assert_allclose(product, expected, atol=1e-14)


def test_couplings_are_the_real_gaunt_coefficients_of_sympy():
    real_gaunt = pytest.importorskip("sympy.physics.wigner").real_gaunt
    for path in ((1, 1, 2), (2, 2, 2), (1, 2, 3)):
        found = coupling(*path)
        orders = [range(-degree, degree + 1) for degree in path]
        expected = np.array([[[float(real_gaunt(*path, a, b, c)) for c in orders[2]] for b in orders[1]]
                             for a in orders[0]])  # fmt: skip
        # sympy gives real harmonics of odd order another sign: compare up to the sign of each harmonic
        np.testing.assert_allclose(np.abs(found), np.abs(expected) / np.linalg.norm(expected), atol=1e-12)


def test_paths_of_a_smaller_degree_come_first():
    for degree in range(3):
        assert paths(degree + 1)[: len(paths(degree))] == paths(degree)
    assert len(paths(3)) == 8


def test_values_are_sums_over_pairs_and_triples_of_neighbours(kernels):
    """A naive twin: no density, no moments, but loops over neighbours, as three- and four-body terms are written."""
    p = replace(SMALL, n_channels=16, cutoff=4.0)
    random = np.random.default_rng(2)
    vectors = random.normal(size=(5, 3)) * 1.5
    element = [0, 0, 1, 1, 1]
    arguments = p.arguments(2, p.draw(2, 3))
    segments = torch.tensor([0, 2, 5])
    found = kernels.environments(arguments, 1, segments, torch.from_numpy(vectors))[0]
    r = np.linalg.norm(vectors, axis=1)
    u = vectors / r[:, None]
    centres = np.linspace(p.first_centre, 4.0, p.n_radial)
    fade = np.where(r < 4.0, (0.5 + 0.5 * np.cos(np.pi * r / 4.0)) ** 2, 0.0) * (r**2 + 0.25) ** (-0.5 * p.decay)
    radial = fade[:, None] * np.exp(-((r[:, None] - centres) ** 2) / (2 * p.width**2))
    each = np.einsum("jn,jnk->jk", radial, arguments.mixing[element].numpy())  # amplitude of each neighbour
    cosines = np.clip(u @ u.T, -1, 1)
    own = found[p.n_pair * 2 :].reshape(-1, p.n_channels).numpy()
    for degree in range(4):
        legendre = np.polynomial.legendre.Legendre.basis(degree)(cosines)
        expected = float(arguments.weights[degree]) * np.einsum("ij,ik,jk->k", legendre, each, each)
        np.testing.assert_allclose(own[degree], expected, rtol=1e-8, atol=1e-12)
    one_each = [harmonics(torch.from_numpy(u), 3)[:, of_degree(degree)].numpy() for degree in range(4)]
    for number, path in enumerate(paths(3)):
        triple = np.einsum("abc,ia,jb,lc->ijl", coupling(*path), *(one_each[degree] for degree in path))
        expected = float(arguments.weights[4 + number]) * np.einsum("ijl,ik,jk,lk->k", triple, each, each, each)
        np.testing.assert_allclose(own[4 + number], expected, rtol=1e-8, atol=1e-12)


def test_tables_are_the_functions_with_two_continuous_derivatives():
    def functions(r):
        return torch.stack([torch.exp(-((r - 1.3) ** 2) / 0.2), torch.cos(r)], 1)

    table = hermite_table(functions, 5.0)
    x = torch.rand(len(table), 1, dtype=torch.float64)
    r = (torch.arange(len(table))[:, None] + x)[:, 0] * 5.0 / len(table)
    found = sum(table[:, power] * x**power for power in range(6))
    assert (found - functions(r)).abs().max() < 1e-10
    powers = torch.arange(6, dtype=torch.float64)
    for factors in (torch.ones(6), powers, powers * (powers - 1)):  # values, first and second derivatives at the ends
        right = (table * factors[:, None]).sum(1)[:-1]
        first = int((factors != 0).nonzero()[0])
        left = table[1:, first] * factors[first]
        assert (right - left).abs().max() < 1e-12 * table.abs().max()


def test_making_the_tables_imports_no_compiler():
    program = """
import sys
from qml_lightning.model.representations.density import DENSITY, hermite_table
hermite_table(DENSITY._functions(10, 0.6, 1.0, 6.0), 6.0)
print(*(name for name in ("torch._dynamo", "sympy") if name in sys.modules))
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert not said.strip()


# ---- derivatives and symmetries --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", kinds())
def test_the_jacobian_is_the_finite_difference_of_the_values(kernels, kind):
    atoms = kinds()[kind]
    elements, step = tuple(sorted(set(atoms.numbers.tolist()))), 1e-5
    gradient = gradients(kernels, atoms, elements)
    for atom, axis in ((0, 0), (len(atoms) - 1, 2)):
        shifted = []
        for sign in (1, -1):
            moved = atoms.copy()
            moved.positions[atom, axis] += sign * step
            shifted.append(environments(kernels, moved, elements))
        numerical = (shifted[0] - shifted[1]) / (2 * step)
        assert np.abs(gradient[:, :, atom, axis] - numerical).max() <= 1e-7 * np.abs(gradient).max()


def test_environments_do_not_change_when_atoms_turn_move_mirror_or_change_places(kernels):
    atoms, elements = rattled(kinds()["molecule"], 5), (1, 6, 8)
    values = environments(kernels, atoms, elements)
    order = np.random.default_rng(0).permutation(len(atoms))
    other = atoms[order]
    other.rotate(37, (1, 2, 3))
    other.positions = other.positions * [1, 1, -1] + [3.0, -2.0, 11.0]
    np.testing.assert_allclose(environments(kernels, other, elements), values[order], atol=1e-11)


def test_a_supercell_has_the_environments_of_its_cell(kernels):
    cell = rattled(bulk("Si"), 1, 0.05)
    values = environments(kernels, cell, (14,))
    np.testing.assert_allclose(environments(kernels, cell * (2, 1, 2), (14,)), np.tile(values, (4, 1)), atol=1e-10)


def test_atoms_in_line_lone_atoms_and_missing_elements_are_defined(kernels):
    line = Atoms("HCN", [[0, 0, -1.06], [0, 0, 0], [0, 0, 1.16]])
    assert np.isfinite(gradients(kernels, line, (1, 6, 7, 8))).all()
    assert np.abs(environments(kernels, line, (1, 6, 7, 8))).max() > 0
    assert not environments(kernels, Atoms("H"), (1, 8)).any()


@pytest.mark.parametrize("cutoff", ["density_cutoff", "cutoff"])
def test_second_derivatives_are_continuous_at_both_cutoffs(kernels, cutoff):
    def gradient(distance: float):
        atoms = Atoms("HHO", [[0, 0, 0], [0, 0.8, 0.3], [0, 0, distance]])
        return gradients(kernels, atoms, (1, 8))[0, :, 2, 2]

    at, step = getattr(SMALL, cutoff), 2e-4
    jump = (gradient(at + step) - 2 * gradient(at) + gradient(at - step)) / step  # of the second derivative
    size = np.abs((gradient(2.0 + step) - gradient(2.0)) / step).max()
    assert np.abs(jump).max() < 1e-4 * size


def circle(places: tuple[int, ...]) -> Atoms:
    """A carbon atom with hydrogen atoms at multiples of an eighth of a turn, all at 1.1 Å."""
    angles = 2 * math.pi * np.array(places) / 8
    ring = 1.1 * np.stack([np.cos(angles), np.sin(angles), np.zeros(len(places))], 1)
    return Atoms("C" + "H" * len(places), np.concatenate([np.zeros((1, 3)), ring]))


def test_environments_that_share_all_distances_and_angles_are_told_apart(kernels):
    """Homometric sets on a circle: the differences of 0, 1, 3, 4 and of 0, 1, 2, 5 are the same, modulo 8."""
    one, other = circle((0, 1, 3, 4)), circle((0, 1, 2, 5))
    three_bodies = replace(SMALL, weight3=0.0)
    blind = environments(kernels, one, (1, 6), three_bodies)[0] - environments(kernels, other, (1, 6), three_bodies)[0]
    assert np.abs(blind).max() < 1e-10
    values = environments(kernels, one, (1, 6))[0]
    assert np.abs(values - environments(kernels, other, (1, 6))[0]).max() > 1e-2 * np.abs(values).max()

    p = replace(COSINE_SERIES, cutoff=4.0)  # the three-body representation sees no difference either
    fchl19 = []
    for atoms in (one, other):
        pairs = pairs_within(structures_from_ase(atoms), 4.0, (1, 6))
        fchl19.append(kernels.environments(p.arguments(2), 5, pairs.segments, pairs.vector)[0])
    assert (fchl19[0] - fchl19[1]).abs().max() < 1e-12


# ---- channels --------------------------------------------------------------------------------------------------------


def sample_of(p, n: int = 60) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal((n, p.size)) * np.linspace(1, 3, p.size))


def test_distinct_channels_are_the_pivots_of_a_qr_decomposition():
    p = SMALL.arguments(1, SMALL.draw(1, 0))
    sample = sample_of(p)
    rows = (sample - sample.mean(0))[:, p.pair_size :].reshape(-1, p.n_channels)
    pivots = scipy.linalg.qr(rows.numpy(), mode="r", pivoting=True)[1]
    assert distinct_channels(p, [sample], 10).tolist() == pivots[:10].tolist()


def test_a_copy_of_a_channel_is_taken_last():
    p = SMALL.arguments(1, SMALL.draw(1, 0))
    sample = sample_of(p)
    channels = sample[:, p.pair_size :].unflatten(1, (p.n_invariants, p.n_channels))
    channels[:, :, 5] = channels[:, :, 11]  # a view: the sample changes
    assert distinct_channels(p, [sample], p.n_channels)[-1] in (5, 11)


def test_environments_that_are_all_alike_keep_the_first_channels():
    p = SMALL.arguments(1, SMALL.draw(1, 0))
    assert distinct_channels(p, [sample_of(p, 1)], 4).tolist() == [0, 1, 2, 3]


def test_a_basis_keeps_some_of_the_candidates_and_the_same_seed_keeps_the_same():
    structures = structures_from_ase([rattled(atoms, seed) for seed, atoms in enumerate(kinds().values())])
    wide = replace(SMALL, n_candidates=64)
    n, recipe = len(structures.elements), Recipe(wide, rank=8)
    basis = Basis.draw(structures, recipe)
    candidates = replace(SMALL, n_channels=64).draw(n, recipe.seed)["mixing"]
    of_candidates = (basis.drawn["mixing"][..., None] == candidates[:, :, None]).all((0, 1))
    assert of_candidates.sum(1).tolist() == [1] * 16
    assert of_candidates.any(0)[16:].any()  # not just the first ones
    assert {name: tuple(one.shape) for name, one in basis.drawn.items()} == wide.shapes(n)
    assert torch.equal(basis.drawn["mixing"], draw_representation(structures, recipe)["mixing"])


# ---- parameters ------------------------------------------------------------------------------------------------------


def test_the_size_grows_in_proportion_to_the_number_of_elements():
    sizes = [SMALL.arguments(n, SMALL.draw(n, 0)).size for n in (1, 2, 10)]
    assert sizes[2] - sizes[1] == 8 * (sizes[1] - sizes[0]) == 8 * SMALL.n_pair


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"density_cutoff": 7.0}, "no further than pairs"),
        ({"l_max": 4}, "degree 3"),
        ({"n_channels": 20}, "multiple of 16"),
        ({"n_candidates": 8}, "at least as many as there are channels"),
        ({"n_candidates": 40}, "multiple of 16 candidates"),
        ({"width": 0.0}, "width > 0"),
    ],
)
def test_parameters_that_cannot_be_are_refused_in_words(change, words):
    with pytest.raises(InputError, match=words):
        replace(SMALL, **change)
