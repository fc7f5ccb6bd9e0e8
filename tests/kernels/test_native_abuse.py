"""The predictor of the C interface survives misuse: destroyed handles, threads, extremes, and memory that runs out."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk

from kernel_tables import ON_CPU
from qml_lightning.atoms.neighbours import element_indices
from qml_lightning.atoms.structures import Structures, structures_from_ase
from qml_lightning.errors import InputError, QMLError
from qml_lightning.kernels.native.library import library
from qml_lightning.model.baseline import Baseline
from qml_lightning.model.basis import Basis
from qml_lightning.model.potential import Potential
from small_models import recipe
from structures_for_tests import rattled

pytestmark = pytest.mark.skipif("native" not in ON_CPU, reason="the native kernels are not built")

COPPER = [rattled(bulk("Cu", cubic=True) * n, n, 0.05) for n in (1, 2, 3)]


def predictor(precision: str = "float64", skin: float = 0.0):
    """The native predictor of a potential for copper with random weights."""
    basis = Basis.draw(structures_from_ase(COPPER), recipe())
    weights = torch.from_numpy(np.random.default_rng(1).standard_normal(basis.n_weights))
    potential = Potential(basis, weights, Baseline(basis.elements, torch.zeros(1, dtype=torch.float64)))
    return potential.on(precision=precision, kernels="native", skin=skin)._whole_path


def run(path, structures: Structures):
    """Energies and forces, without any check of Python."""
    element = element_indices(structures.numbers, (29,))
    arrays = (structures.positions, structures.cells, structures.periodic)
    return path.predict(structures.offsets, element, *arrays, forces=True, virial=True)


def test_a_destroyed_predictor_is_refused():
    path, one = predictor(), structures_from_ase(COPPER)
    run(path, one)
    library().qml_predictor_destroy(path._handle)
    with pytest.raises(InputError, match="no such predictor"):
        run(path, one)
    assert path.lists_made == 0
    library().qml_predictor_destroy(path._handle)  # once more


def test_a_handle_that_was_never_made_is_refused():
    path = predictor()
    path._handle = ctypes.c_void_p(0x1234)
    with pytest.raises(InputError, match="no such predictor"):
        run(path, structures_from_ase(COPPER))


@pytest.mark.parametrize("skin", [0.0, 0.5])
def test_threads_that_share_a_predictor_get_their_own_results(skin):
    path, given = predictor(skin=skin), [structures_from_ase(atoms) for atoms in COPPER]
    wanted, wrong = [run(path, one)[0] for one in given], []

    def repeat(k: int) -> None:
        for _ in range(20):
            if not torch.allclose(run(path, given[k])[0], wanted[k], rtol=1e-12):
                wrong.append(k)

    threads = [threading.Thread(target=repeat, args=(k % 3,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_predictor_that_is_destroyed_in_use_ends_its_calls_well():
    path, large = predictor(), structures_from_ase(COPPER[2] * (2, 2, 2))
    wanted, seen = run(path, large)[0], []

    def repeat() -> None:
        try:
            while True:
                seen.append(bool(torch.allclose(run(path, large)[0], wanted, rtol=1e-12)))
        except InputError as error:
            assert "no such predictor" in str(error)  # noqa: PT017 (a thread)
            seen.append(True)

    threads = [threading.Thread(target=repeat) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(seen) < 4:
        pass
    library().qml_predictor_destroy(path._handle)
    for thread in threads:
        thread.join()
    assert all(seen)


EXTREMES = (5e-324, 1e-300, 1e-30, 1e-3, 0.3, 1e4, 1e15, 1e30, 1e300, 1.7e308)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_finite_extremes_give_finite_numbers_or_a_sentence(precision):
    path, random = predictor(precision), np.random.default_rng(3)
    base, told = structures_from_ase(COPPER[0]), 0
    for size in EXTREMES:
        for sign in (1.0, -1.0):
            positions, cells = base.positions.clone(), base.cells.clone()
            positions[int(random.integers(len(positions))), int(random.integers(3))] = sign * size
            cells[0, int(random.integers(3)), int(random.integers(3))] = sign * size
            for changed in (
                Structures(base.numbers, positions, base.offsets, base.cells, base.periodic),
                Structures(base.numbers, base.positions, base.offsets, cells, base.periodic),
                Structures(base.numbers, base.positions * size, base.offsets, base.cells * size, base.periodic),
            ):
                try:
                    found = run(path, changed)
                except QMLError as error:
                    told += len(str(error)) > 20
                else:
                    assert all(bool(torch.isfinite(one).all()) for one in found)
    assert told > 20


@pytest.mark.parametrize(("n", "edge"), [(400, 40.0), (400, 15.0), (250, 6.4), (300, 2.0)])
def test_hundreds_of_atoms_and_dense_cells_end_in_numbers_or_a_sentence(n, edge):
    positions = np.random.default_rng(n).uniform(0, edge, (n, 3))
    try:
        energies, _, forces, _ = run(
            predictor(), structures_from_ase(Atoms("Cu" * n, positions, cell=[edge] * 3, pbc=True))
        )
    except InputError as error:
        assert "apart" in str(error) or "dense" in str(error)  # noqa: PT017
    else:
        assert torch.isfinite(energies).all()
        assert torch.isfinite(forces).all()


def test_a_cell_that_is_denser_than_matter_is_refused_by_the_library_itself():
    with pytest.raises(InputError, match="No matter is so dense"):
        run(predictor(), structures_from_ase(Atoms("Cu", cell=[0.2] * 3, pbc=True)))


SHORT_OF_MEMORY = """
import resource, sys
sys.path[:0] = [{helpers!r}, {tests!r}]
import torch
import test_native_abuse as abuse
from qml_lightning.errors import ResourceError
torch.set_num_threads(1)
path, large = abuse.predictor(), abuse.structures_from_ase(abuse.COPPER[2] * (14, 14, 14))
abuse.run(path, abuse.structures_from_ase(abuse.COPPER))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 60 * 2**20, -1))
try:
    abuse.run(path, large)
except ResourceError as error:
    print("told:", error)
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
print("after:", bool(torch.isfinite(abuse.run(path, abuse.structures_from_ase(abuse.COPPER))[0]).all()))
"""


def test_memory_that_runs_out_is_told_and_the_predictor_serves_on():
    from places import HELPERS

    code = SHORT_OF_MEMORY.format(helpers=str(HELPERS), tests=str(HELPERS.parent / "kernels"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "told:" in done.stdout, done.stderr[-2000:]
    assert "after: True" in done.stdout
