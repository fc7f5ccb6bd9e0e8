"""Principal axes are those of numpy's SVD, and pad with zeros where there are none."""

from __future__ import annotations

import numpy as np
import torch

from qml_lightning.model.projection import atoms_of_elements, directions, lift, principal_axes, project


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
