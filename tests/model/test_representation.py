"""FCHL19 is what the published codes compute, and smooth where it should be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from ase import Atoms

from kernel_tables import CPU, ON_CPU
from qml_lightning.atoms.neighbours import element_indices, pairs_within
from qml_lightning.atoms.structures import structures_from_ase
from qml_lightning.kernels import kernels_for
from qml_lightning.model.representations.fchl19 import COSINE_SERIES, ENERGIES, ENERGIES_AND_FORCES, FCHL19
from structures_for_tests import WATER, kinds, rattled

# docs/conventions.md: two independent codes agree on these to 1e-15
GOLDEN = {
    8.0: (15.90241011605, (6.459171770052, 4.721619172999), (2.948212145340, 1.580977718071), 13.73176895789,
          (1.429681054304, 0.7758230211039, 0.3991419927542), (-0.01564014502348, 0.06056386111697),
          (0.05469191501020, 0.04236239851226)),
    6.0: (20.26766048646, (8.293051021040, 5.987304732711), (3.326094377869, 1.772634144447), 14.46149637006,
          (1.942933416150, 1.390251621578, 0.8863888176569), (-0.01717253474090, 0.06649778550730),
          (0.03661846694219, 0.02836335296037)),
}  # fmt: skip


@pytest.fixture(params=ON_CPU)
def kernels(request):
    return kernels_for(CPU, torch.float64, request.param)


def _values_and_gradient(kernels, representation: FCHL19, atoms: Atoms, elements: tuple[int, ...]):
    """Values (atoms, size) and the full gradient (atoms, size, atoms, 3) by positions."""
    structures = structures_from_ase(atoms)
    p = representation.arguments(len(elements))
    pairs = pairs_within(structures, representation.cutoff, elements)
    n = len(atoms)
    values = kernels.environments(p, n, pairs.segments, pairs.vector)
    identity = torch.eye(p.size, dtype=torch.float64).expand(len(elements), -1, -1).contiguous()
    jacobian = kernels.environments_jacobian(
        p, n, pairs.segments, pairs.vector, element_indices(structures.numbers, elements), identity
    )
    gradient = np.zeros((n, p.size, n, 3))
    for pair, (i, j) in enumerate(zip(pairs.centre.tolist(), pairs.neighbour.tolist())):
        gradient[i, :, j] += jacobian[pair].numpy().T
        gradient[i, :, i] -= jacobian[pair].numpy().T
    return values.numpy(), gradient


@pytest.mark.parametrize("cutoff", GOLDEN)
def test_water_gives_the_golden_numbers(kernels, cutoff):
    total, sums, norms, gradient_norm, two, oxygen, hydrogen = GOLDEN[cutoff]
    values, gradient = _values_and_gradient(kernels, replace(ENERGIES_AND_FORCES, cutoff=cutoff), WATER, (1, 8))
    assert values.shape == (3, 168)
    assert values.sum() == pytest.approx(total, rel=1e-12)
    assert values.sum(1)[:2] == pytest.approx(sums, rel=1e-12)
    assert np.linalg.norm(values, axis=1)[:2] == pytest.approx(norms, rel=1e-12)
    assert np.linalg.norm(gradient) == pytest.approx(gradient_norm, rel=1e-12)
    assert values[0, 2:5] == pytest.approx(two, rel=1e-12)
    blocks = values[:, 48:].reshape(3, 3, 20, 2)  # HH, HO, OO
    assert blocks[0, 0, 2] == pytest.approx(oxygen, rel=1e-12)
    assert blocks[1, 1, 2] == pytest.approx(hydrogen, rel=1e-12)


def _real_molecules(shared_data):
    aspirin = np.load(shared_data / "rmd17" / "rmd17_aspirin.npz")
    small = np.load(shared_data / "small_mols" / "small_mols.npz")
    offsets = np.concatenate([[0], np.cumsum(small["natoms"].astype(int))])
    charges, coords = small["charges"], small["coords"]
    frames = [Atoms(aspirin["nuclear_charges"], aspirin["coords"][k]) for k in (0, 1000)]
    for k in (3, 500, 1500, 2500):
        run = slice(offsets[k], offsets[k + 1])
        frames.append(Atoms(charges[run].astype(int), coords[run]))
    return frames


@pytest.mark.parametrize("preset", [ENERGIES, ENERGIES_AND_FORCES], ids=["energies", "energies and forces"])
def test_values_and_gradients_are_those_of_qmllib(kernels, shared_data, preset):
    from qmllib.representations import generate_fchl19

    for atoms in _real_molecules(shared_data):
        values, gradient = _values_and_gradient(kernels, preset, atoms, (1, 6, 7, 8))
        oracle, oracle_gradient = generate_fchl19(
            atoms.numbers, atoms.positions, elements=[1, 6, 7, 8], nRs2=preset.n_radial2, nRs3=preset.n_radial3,
            nFourier=1, eta2=preset.eta2, eta3=preset.eta3, zeta=preset.zeta, rcut=preset.cutoff, acut=preset.cutoff,
            two_body_decay=preset.decay2, three_body_decay=preset.decay3, three_body_weight=preset.weight3,
            pad=len(atoms), gradients=True,
        )  # fmt: skip
        assert np.abs(values - oracle).max() <= 1e-10 * np.abs(oracle).max()
        oracle_gradient = np.asarray(oracle_gradient).reshape(gradient.shape)
        assert np.abs(gradient - oracle_gradient).max() <= 1e-8 * np.abs(oracle_gradient).max()


def test_values_and_gradients_are_those_of_kernelforge(kernels, shared_data):
    from kernelforge import fchl19_repr

    p = ENERGIES_AND_FORCES
    for atoms in _real_molecules(shared_data):
        values, gradient = _values_and_gradient(kernels, p, atoms, (1, 6, 7, 8))
        oracle, oracle_gradient = fchl19_repr.generate_fchl_acsf_and_gradients(
            atoms.positions, atoms.numbers.astype(np.int32), elements=[1, 6, 7, 8], nRs2=p.n_radial2,
            nRs3=p.n_radial3, nFourier=1, eta2=p.eta2, eta3=p.eta3, zeta=p.zeta, rcut=p.cutoff, acut=p.cutoff,
            two_body_decay=p.decay2, three_body_decay=p.decay3, three_body_weight=p.weight3,
        )  # fmt: skip
        assert np.abs(values - oracle).max() <= 1e-10 * np.abs(oracle).max()
        oracle_gradient = np.asarray(oracle_gradient).reshape(gradient.shape)
        assert np.abs(gradient - oracle_gradient).max() <= 1e-8 * np.abs(oracle_gradient).max()


@pytest.mark.parametrize("representation", [ENERGIES_AND_FORCES, COSINE_SERIES], ids=["pair", "series"])
@pytest.mark.parametrize("kind", kinds())
def test_the_jacobian_is_the_finite_difference_of_the_values(kernels, kind, representation):
    atoms = kinds()[kind]
    elements = tuple(sorted(set(atoms.numbers.tolist())))
    representation = replace(representation, cutoff=4.0)
    _, gradient = _values_and_gradient(kernels, representation, atoms, elements)
    step = 1e-5
    for atom, axis in ((0, 0), (len(atoms) - 1, 2)):
        shifted = []
        for sign in (1, -1):
            moved = atoms.copy()
            moved.positions[atom, axis] += sign * step
            shifted.append(_values_and_gradient(kernels, representation, moved, elements)[0])
        numerical = (shifted[0] - shifted[1]) / (2 * step)
        assert np.abs(gradient[:, :, atom, axis] - numerical).max() <= 1e-7 * np.abs(gradient).max()


@pytest.mark.parametrize("representation", [ENERGIES_AND_FORCES, COSINE_SERIES], ids=["pair", "series"])
def test_the_pullback_is_the_transpose_of_the_jacobian(kernels, representation):
    atoms = kinds()["skewed cell"]
    structures = structures_from_ase(atoms)
    p = replace(representation, cutoff=4.5).arguments(2)
    pairs = pairs_within(structures, 4.5, structures.elements)
    element = element_indices(structures.numbers, structures.elements)
    random = np.random.default_rng(0)
    matrices = torch.from_numpy(random.normal(size=(2, p.size, 5)))
    cotangent = torch.from_numpy(random.normal(size=(len(atoms), 5)))
    jacobian = kernels.environments_jacobian(p, len(atoms), pairs.segments, pairs.vector, element, matrices)
    lifted = torch.einsum("asr,ar->as", matrices[element], cotangent)
    pulled = kernels.environments_pullback(p, len(atoms), pairs.segments, pairs.vector, lifted)
    expected = torch.einsum("pcr,pr->pc", jacobian, cotangent[pairs.centre])
    assert (pulled - expected).abs().max() <= 1e-12 * expected.abs().max()


def test_single_precision_stays_near_double(kernels):
    atoms = kinds()["skewed cell"]
    structures = structures_from_ase(atoms)
    p = ENERGIES_AND_FORCES.arguments(2)
    pairs = pairs_within(structures, p.cutoff, structures.elements)
    double = kernels.environments(p, len(atoms), pairs.segments, pairs.vector)
    single = kernels.environments(p, len(atoms), pairs.segments, pairs.vector.float())
    assert single.dtype == torch.float32
    assert (single - double).abs().max() <= 1e-5 * double.abs().max()


@pytest.mark.parametrize("name", ON_CPU)
def test_the_series_is_smooth_for_collinear_atoms_and_the_pair_is_finite(name):
    kernels = kernels_for(CPU, torch.float64, name)
    line = Atoms("HCN", [[0, 0, -1.06], [0, 0, 0], [0, 0, 1.16]])
    for representation in (COSINE_SERIES, ENERGIES_AND_FORCES):
        _, gradient = _values_and_gradient(kernels, representation, line, (1, 6, 7))
        assert np.isfinite(gradient).all()
    bent = line.copy()
    bent.positions[0, 0] += 1e-4
    straight = _values_and_gradient(kernels, COSINE_SERIES, line, (1, 6, 7))[1]
    assert np.abs(_values_and_gradient(kernels, COSINE_SERIES, bent, (1, 6, 7))[1] - straight).max() < 1e-3


def test_a_neighbour_fades_at_the_cutoff(kernels):
    def values(distance: float):
        atoms = Atoms("HHO", [[0, 0, 0], [0, 0.8, 0.3], [0, 0, distance]])
        return _values_and_gradient(kernels, COSINE_SERIES, atoms, (1, 8))

    inside, gradient = values(6.0 - 1e-4)
    outside, _ = values(6.0 + 1e-4)
    assert np.abs(inside[0] - outside[0]).max() < 1e-9
    assert np.abs(gradient[0, :, 2]).max() < 1e-4


@pytest.mark.parametrize(("power", "smooth"), [(1, False), (2, True)])
def test_the_second_derivative_is_continuous_at_the_cutoff_with_the_power_of_two(kernels, power, smooth):
    representation = replace(COSINE_SERIES, cutoff_power=power)

    def gradient(distance: float):
        atoms = Atoms("HHO", [[0, 0, 0], [0, 0.8, 0.3], [0, 0, distance]])
        return _values_and_gradient(kernels, representation, atoms, (1, 8))[1][0, :, 2, 2]

    step = 1e-3
    # outside, the neighbour has no gradient at all: the slope of the gradient just inside is the jump of the Hessian
    jump = np.abs(gradient(6.0 - step) / step).max()
    near = np.abs((gradient(4.0 + step) - gradient(4.0)) / step).max()  # size of second derivatives elsewhere
    assert (jump < 1e-4 * near) == smooth


def test_permuted_and_rotated_atoms_have_the_same_environments(kernels):
    atoms = rattled(kinds()["molecule"], 5)
    elements = (1, 6, 8)
    values, _ = _values_and_gradient(kernels, ENERGIES_AND_FORCES, atoms, elements)
    order = np.random.default_rng(0).permutation(len(atoms))
    turned = atoms[order]
    turned.rotate(37, (1, 2, 3))
    again, _ = _values_and_gradient(kernels, ENERGIES_AND_FORCES, turned, elements)
    assert np.abs(again - values[order]).max() < 1e-12 * np.abs(values).max()
