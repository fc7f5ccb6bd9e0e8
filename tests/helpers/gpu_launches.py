"""Launches of every Triton kernel at the sizes of real models, recorded and not run."""

from __future__ import annotations

from dataclasses import replace

import torch

from feature_inputs import Inputs, fast, feature_map, widened
from qml_lightning.kernels import triton
from qml_lightning.kernels.triton import pairs
from qml_lightning.kernels.triton.launch import Launch, recorded
from qml_lightning.model.representations.density import DENSITY
from qml_lightning.model.representations.fchl19 import COSINE_SERIES, ENERGIES_AND_FORCES

FLOAT, DOUBLE = torch.float32, torch.float64
PRECISIONS = ((FLOAT, False), (FLOAT, True), (DOUBLE, False))  # precision, and whether products are float64


def launches(which: str) -> list[Launch]:
    """Those of "features", "pairs" or "environments", or a few of both for "quick".

    Those of a prediction: for "prediction" with the paper's representation, for "density" with that of the default
    recipe. Those of training with these: for "paper" and "density training", by an iteration for "iteration" and
    "density iteration", whose sums are float64 or pairs of float32.
    """
    with recorded() as found:
        if which == "quick":
            f = feature_map(2, 128, False, FLOAT)
            triton.energy_and_slope(f, torch.zeros(37, 128), torch.zeros(f.n_features))
            _pullback(ENERGIES_AND_FORCES, FLOAT)
            _pullback(DENSITY, FLOAT)
        if which in ("prediction", "density"):
            representation, rank = (DENSITY, 256) if which == "density" else (ENERGIES_AND_FORCES, 128)
            f = feature_map(2, rank, True, FLOAT)
            triton.energy_and_slope(f, torch.zeros(37, rank), torch.zeros(f.n_features))
            p, segments, vectors = _pullback(representation, FLOAT)
            triton.environments(p, 2, segments, vectors)
        if which in ("paper", "density training"):
            representation, rank = (DENSITY, 256) if which != "paper" else (ENERGIES_AND_FORCES, 128)
            _features(2, rank, True, FLOAT, False)
            _environments(representation, FLOAT, rank)
        if which in ("iteration", "density iteration"):
            rank = 128 if which == "iteration" else 256
            _features(2, rank, True, FLOAT, True)
            _pairs(2, rank, True)
        if which == "features":
            for dtype, wide in PRECISIONS:
                for transforms, rank, paired in ((2, 128, True), (2, 256, False), (0, 100, False)):
                    _features(transforms, rank, paired, dtype, wide)
                _features(2, 128, True, dtype, wide, n_atoms=1)  # numbers that are 1 are part of the code
        if which == "pairs":
            for transforms, rank, paired in ((2, 128, True), (2, 256, False)):
                _pairs(transforms, rank, paired)
        if which == "environments":
            for dtype in (FLOAT, DOUBLE):
                for representation, rank in ((DENSITY, 256), (ENERGIES_AND_FORCES, 128), (COSINE_SERIES, 128)):
                    _environments(representation, dtype, rank)
                _environments(replace(COSINE_SERIES, n_angular=8), dtype, 128)
    return found


def _features(transforms: int, rank: int, paired: bool, dtype: torch.dtype, wide: bool, *, n_atoms: int = 37) -> None:
    f = feature_map(transforms, rank, paired, dtype)
    inputs = Inputs.drawn(f, n_atoms)
    inputs = widened(inputs) if wide else inputs
    fast(triton, f, inputs)
    triton.tangent_products(inputs.many.to(dtype), inputs.owner, inputs.tangents)
    triton.tangent_sums(
        inputs.many.to(dtype), inputs.owner, inputs.coefficients[inputs.owner], n_atoms, inputs.many.dtype
    )


def _pairs(transforms: int, rank: int, paired: bool) -> None:
    f = feature_map(transforms, rank, paired, FLOAT)
    inputs = widened(Inputs.drawn(f, 37))
    pairs.energy_and_slope(f, inputs.x, inputs.weights)
    for given in ((inputs.coefficients, inputs.tangents), (inputs.coefficients, None), (None, inputs.tangents)):
        pairs.feature_moment(f, inputs.x, *given)
    pairs.tangent_products(inputs.many.float(), inputs.owner, inputs.tangents)
    pairs.tangent_sums(inputs.many.float(), inputs.owner, inputs.coefficients[inputs.owner], 37)


def _pullback(representation, dtype: torch.dtype):
    """Launch of the gradient; arguments, segments and vectors of two centres with four neighbours of each element."""
    p = representation.arguments(3, representation.draw(3, 1)).to("cpu", dtype)
    segments = 4 * torch.arange(7)
    vectors = torch.ones(24, 3, dtype=dtype)
    triton.environments_pullback(p, 2, segments, vectors, torch.zeros(2, p.size, dtype=dtype))
    return p, segments, vectors


def _environments(representation, dtype: torch.dtype, rank: int) -> None:
    p, segments, vectors = _pullback(representation, dtype)
    triton.environments(p, 2, segments, vectors)
    matrices = torch.zeros(3, p.size, rank, dtype=dtype)
    triton.environments_jacobian(p, 2, segments, vectors, torch.tensor([0, 1]), matrices)
