"""The native kernels of the density, for every instruction set and precision, against their twins in plain torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from places import ROOT
from qml_lightning.errors import InputError
from qml_lightning.kernels import DensityArguments, native, reference
from qml_lightning.model.representations.density import Density

CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(
    (_why := native.why_not(CPU, torch.float32)) is not None, reason=f"native kernels: {_why}"
)

BASE = Density(cutoff=5.0, density_cutoff=4.0, n_pair=7, n_radial=6, n_channels=32)
PARAMETERS = {
    "base": BASE,
    "one cutoff": replace(BASE, density_cutoff=5.0),
    "no pair functions": replace(BASE, n_pair=0),
    "many radial functions": replace(BASE, n_pair=17, n_radial=33, n_channels=16),
    "no products of three": replace(BASE, weight3=0.0),
    "degree 2": replace(BASE, l_max=2),
    "degree 1": replace(BASE, l_max=1, n_channels=48),
    "degree 0": replace(BASE, l_max=0),
}
# neighbours of each element around each centre: none, absent elements, fewer and more than fill a vector
COUNTS = [(0, 0, 0), (1, 0, 0), (0, 0, 2), (0, 9, 0), (5, 6, 6), (16, 0, 1), (7, 40, 13), (3, 1, 4)]


def called(name: str, kernels, p: DensityArguments, dtype: torch.dtype, rank: int = 21) -> torch.Tensor:
    """Result of a kernel for random neighbours, some of them beyond the cutoffs."""
    random = np.random.default_rng(5)
    vectors = random.normal(size=(int(np.sum(COUNTS)), 3))
    vectors *= random.uniform(0.6, 5.5, size=(len(vectors), 1)) / np.linalg.norm(vectors, axis=1, keepdims=True)
    segments = torch.from_numpy(np.concatenate([[0], np.cumsum(np.ravel(COUNTS))]))
    element = torch.from_numpy(random.integers(0, 3, len(COUNTS)))
    matrices = torch.from_numpy(random.normal(size=(3, p.size, rank)))
    cotangent = torch.from_numpy(random.normal(size=(len(COUNTS), p.size)))
    more = {"environments": (), "environments_pullback": (cotangent,), "environments_jacobian": (element, matrices)}
    given = [one.to(dtype) if one.is_floating_point() else one for one in more[name]]
    place = torch.from_numpy(vectors).to(dtype)
    result: torch.Tensor = getattr(kernels, name)(p.to(CPU, dtype), len(COUNTS), segments, place, *given)
    return result


@pytest.mark.parametrize("name", ["environments", "environments_pullback", "environments_jacobian"])
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_kernels_are_as_exact_as_their_twins(isa, parameters, name):
    p = PARAMETERS[parameters].arguments(3, PARAMETERS[parameters].draw(3, 1))
    exact = called(name, reference, p, torch.float64)
    scale = exact.norm()
    assert (called(name, native, p, torch.float64) - exact).norm() <= 1e-13 * scale
    naive = (called(name, reference, p, torch.float32) - exact).norm()
    assert (called(name, native, p, torch.float32) - exact).norm() <= 2 * naive + 1e-6 * scale


@pytest.mark.parametrize("rank", [1, 8, 128, 130, 300])
def test_the_projected_jacobian_has_any_rank(rank):
    p = BASE.arguments(3, BASE.draw(3, 1))
    exact = called("environments_jacobian", reference, p, torch.float64, rank)
    found = called("environments_jacobian", native, p, torch.float64, rank)
    assert (found - exact).norm() <= 1e-13 * exact.norm()


@pytest.mark.parametrize("name", ["environments", "environments_pullback", "environments_jacobian"])
def test_results_do_not_depend_on_the_number_of_threads(name):
    p, threads = BASE.arguments(3, BASE.draw(3, 1)), torch.get_num_threads()
    try:
        found = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(called(name, native, p, torch.float32))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_tables_with_different_numbers_of_intervals_are_refused():
    p = BASE.arguments(3, BASE.draw(3, 1))
    with pytest.raises(InputError, match="as many intervals"):
        called("environments", native, replace(p, pair_table=p.pair_table[:-1]), torch.float64)


def test_the_header_of_couplings_is_what_the_formula_gives():
    written = (ROOT / "native" / "src" / "density" / "couplings.hpp").read_text()
    made = subprocess.run([sys.executable, str(ROOT / "native" / "couplings.py")], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    numbers = [[float(word) for word in text.replace("{", " ").replace("}", " ").replace(",", " ").split()
                if word.lstrip("-")[:1].isdigit()] for text in (written, made.stdout)]  # fmt: skip
    np.testing.assert_allclose(numbers[0], numbers[1], atol=1e-14)
