"""Principal axes are those of numpy's SVD, and pad with zeros where there are none."""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import eigh

from qml_lightning.model.projection import (
    LEAST_SPREAD,
    atoms_of_elements,
    directions,
    lift,
    principal_axes,
    project,
)


def _samples() -> list[torch.Tensor]:
    random = np.random.default_rng(0)
    return [torch.from_numpy(random.normal(size=(n, 20)) * np.linspace(2, 0.01, 20)) for n in (50, 80)]


def test_axes_span_the_leading_right_singular_vectors():
    samples = _samples()
    projection = principal_axes(directions(samples), 4)
    for sample, matrix, explained in zip(samples, projection.matrices, projection.explained):
        _, values, axes = np.linalg.svd(sample.numpy())
        assert np.allclose(matrix @ matrix.T, axes[:4].T @ axes[:4])
        assert np.isclose(explained, (values[:4] ** 2).sum() / (values**2).sum())


def test_a_vector_shorter_than_the_rank_is_padded_with_zeros():
    projection = principal_axes(directions(_samples()), 32)
    assert projection.matrices.shape == (2, 20, 32)
    assert (projection.matrices[:, :, 20:] == 0).all()
    assert torch.allclose(projection.explained, torch.ones(2, dtype=torch.float64))
    x = _samples()[0]
    atoms = atoms_of_elements(torch.zeros(50, dtype=int), 2, torch.device("cpu"))
    assert torch.allclose(project(projection.matrices, x, atoms).norm(dim=1), x.norm(dim=1))


def test_an_element_without_a_sample_projects_to_zero():
    projection = principal_axes(directions([_samples()[0], torch.zeros(0, 20, dtype=torch.float64)]), 4)
    assert (projection.matrices[1] == 0).all()


def test_lifting_is_the_transpose_of_projecting():
    matrices = principal_axes(directions(_samples()), 4).matrices
    atoms = atoms_of_elements(torch.tensor([0, 1, 1, 0]), 2, torch.device("cpu"))
    random = np.random.default_rng(1)
    x, y = torch.from_numpy(random.normal(size=(4, 20))), torch.from_numpy(random.normal(size=(4, 4)))
    assert torch.allclose((project(matrices, x, atoms) * y).sum(), (x * lift(matrices, y, atoms)).sum())


def _classes() -> tuple[torch.Tensor, torch.Tensor]:
    """A sample of three classes whose means differ along directions of little spread."""
    random = np.random.default_rng(2)
    classes = random.integers(0, 3, 400)
    sample = random.normal(size=(400, 20)) * np.linspace(2, 0.01, 20)
    sample[:, 18] += np.array([0.0, 8.0, 8.0])[classes]
    sample[:, 17] += np.array([0.0, 0.0, 20.0])[classes]
    return torch.from_numpy(sample), torch.from_numpy(classes)


def test_the_last_axes_are_the_linear_discriminants_of_bonding_classes():
    sample, classes = _classes()
    plain = principal_axes(directions([sample]), 16).matrices[0]
    apart = principal_axes(directions([sample], [classes]), 16, class_spread=2.0).matrices[0]
    assert torch.equal(apart[:, :-2], plain[:, :-2])
    # oracle: the generalised eigenvalue problem of scatter between and within classes, of all 16 coordinates
    rho = (sample @ plain).numpy()
    means = np.stack([rho[classes == c].mean(0) for c in range(3)])
    share = np.bincount(classes) / len(classes)
    between = (means - share @ means).T @ np.diag(share) @ (means - share @ means)
    within = (rho - means[classes]).T @ (rho - means[classes]) / len(rho)
    within += LEAST_SPREAD * np.trace(within) / 16 * np.eye(16)
    vectors = eigh(between, within)[1][:, -2:]
    expected = plain.numpy() @ vectors
    for mine, its in zip(apart[:, -2:].T.numpy(), expected.T[::-1]):
        assert np.isclose(abs(mine @ its), np.linalg.norm(mine) * np.linalg.norm(its))


def test_means_of_bonding_classes_spread_by_what_was_asked_along_each_of_these_axes():
    sample, classes = _classes()
    axes = principal_axes(directions([sample], [classes]), 16, class_spread=2.0).matrices[0][:, -2:]
    means = torch.stack([(sample[classes == c] @ axes).mean(0) for c in range(3)])
    share = torch.bincount(classes).double() / len(classes)
    assert torch.allclose((share @ (means - share @ means).square()).sqrt(), torch.tensor(2.0, dtype=torch.float64))


def test_classes_that_do_not_stand_apart_change_no_axis():
    """In a melt bonds come and go."""
    sample, classes = _classes()
    mixed = classes[torch.from_numpy(np.random.default_rng(3).permutation(len(classes)))]
    plain = principal_axes(directions([sample]), 16)
    assert torch.equal(principal_axes(directions([sample], [mixed]), 16, class_spread=2.0).matrices, plain.matrices)
    one = principal_axes(directions([sample], [torch.zeros_like(classes)]), 16, class_spread=2.0)
    assert torch.equal(one.matrices, plain.matrices)
