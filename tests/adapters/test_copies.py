"""Potentials and calculators are copied, pickled and used in other processes, and give the same numbers."""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.mep import NEB
from ase.optimize import BFGS

from qml_lightning import exact, fit, recipes
from qml_lightning.model.potential import Model
from small_models import argon, molecules, recipe

FRAMES = 1  # that each process predicts


KINDS = ["random features", "explicit kernels", "reference kernels", "density and committee"]


@pytest.fixture(scope="module", params=KINDS)
def calculator(request):
    if request.param == "explicit kernels":
        return fit(molecules(2), exact.OQML).calculator()
    if request.param == "density and committee":
        few = replace(recipes.DEFAULT, rank=32, features=replace(recipes.DEFAULT.features, n_features=64))
        return fit(molecules(6), few, committee=4).calculator(uncertainty=True)
    potential = fit(molecules(6), recipe(n_features=64))
    return potential.calculator(kernels="reference" if request.param == "reference kernels" else None)


def frames() -> list[Atoms]:
    structures = molecules(FRAMES, seed=50).structures
    cut = structures.positions.split(structures.counts.tolist())
    numbers = structures.numbers.split(structures.counts.tolist())
    return [Atoms(z.tolist(), r.numpy()) for z, r in zip(numbers, cut)]


def forces_of(calculator, atoms: Atoms) -> np.ndarray:
    """Forces, energy, and their uncertainties if the calculator has them, as one array."""
    atoms.calc = calculator
    numbers = np.append(atoms.get_forces(), atoms.get_potential_energy())
    if getattr(calculator, "uncertainty", False):
        uncertain = [calculator.get_property(name, atoms) for name in ("forces_uncertainty", "energy_uncertainty")]
        numbers = np.concatenate([numbers, *map(np.atleast_1d, uncertain)])
    return numbers


def forces(calculator) -> np.ndarray:
    return np.array([forces_of(calculator, atoms) for atoms in frames()])


def in_a_thread(work) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_copies_before_and_after_a_prediction_give_the_same_numbers(calculator):
    fresh = copy.deepcopy(calculator)
    wanted = forces(calculator)
    for one in (fresh, copy.deepcopy(calculator), copy.copy(calculator), pickle.loads(pickle.dumps(calculator))):
        assert np.array_equal(forces(one), wanted)
        assert one.predictor.basis.projections.dtype == calculator.predictor.basis.projections.dtype
        assert one.predictor.basis.kernels is calculator.predictor.basis.kernels


def test_atoms_with_a_calculator_are_copied_deeply(calculator):
    atoms = frames()[0]
    atoms.calc = calculator
    energy = atoms.get_potential_energy()
    other = copy.deepcopy(atoms)
    other.rattle(0.1, seed=1)
    assert other.calc is not atoms.calc
    assert other.get_potential_energy() != energy
    assert atoms.get_potential_energy() == energy


def test_a_potential_is_copied_and_pickled_before_and_after_a_prediction(calculator):
    potential: Model = calculator.potential
    structures = molecules(1, seed=9).structures
    unused = pickle.loads(pickle.dumps(potential))
    wanted = potential.predict(structures).forces
    for one in (unused, copy.deepcopy(potential), pickle.loads(pickle.dumps(potential))):
        assert torch.equal(one.predict(structures).forces, wanted)


def test_a_pickled_potential_takes_the_room_of_its_tensors(calculator):
    potential = calculator.potential
    before = len(pickle.dumps(potential))
    potential.predict(molecules(1).structures)
    assert len(pickle.dumps(potential)) == before


def test_images_of_a_band_have_copied_calculators():
    potential = fit(argon(6), recipe(n_features=64))
    start = Atoms("Ar4", [[0, 0, 0], [3.7, 0, 0], [0, 3.7, 0], [0, 0, 3.7]])
    start.calc = potential.calculator()
    images = [copy.deepcopy(start) for _ in range(3)]
    images[1].positions[3] += 0.1
    images[2].positions[3] += 0.2
    band = NEB(images, method="improvedtangent")
    assert BFGS(band, logfile=None).run(steps=2) in (True, False)
    assert np.isfinite(band.get_forces()).all()
    assert len({id(image.calc) for image in images}) == 3


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_give_the_same_numbers(calculator, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    if method == "spawn" and calculator.predictor._whole_path is None:
        pytest.skip("spawn pickles, which is tested for this model above")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        wanted = forces(calculator)  # starts the parent's threads
        torch.ones(1000, 1000) @ torch.ones(1000, 1000)
        others = set(multiprocessing.active_children())  # workers of other libraries, which are theirs to end
        with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
            try:
                # the timeout is for a child that hangs, which is the fault looked for
                found = [pool.submit(forces, calculator).result(timeout=120)]
                threads = pool.submit(torch.get_num_threads).result(timeout=120)
            except TimeoutError:
                for child in set(multiprocessing.active_children()) - others:
                    child.kill()
                raise
    finally:
        torch.set_num_threads(before)
    for one in found:
        np.testing.assert_allclose(one, wanted, rtol=1e-9, atol=1e-9)
    if method == "fork":
        assert threads == 1
    assert torch.get_num_threads() == before


def test_workers_of_joblib_give_the_same_numbers(calculator):
    joblib = pytest.importorskip("joblib", reason="joblib is not installed: pip install joblib")
    wanted = forces(calculator)
    for found in joblib.Parallel(n_jobs=2, timeout=120)(joblib.delayed(forces)(calculator) for _ in range(2)):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_threads_that_share_a_calculator_have_the_numbers_of_their_own_atoms(calculator, monkeypatch):
    atoms = [frames()[0] for _ in range(2)]
    atoms[1].rattle(0.1, seed=1)
    wanted = [forces_of(calculator, one) for one in atoms]
    alone, both = calculator.calculate, threading.Barrier(2)

    def calculate(*given) -> None:
        """The calculation, and then a wait for the other thread, which comes by only if it need not take its turn."""
        alone(*given)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(timeout=0.2)

    monkeypatch.setattr(calculator, "calculate", calculate)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda one: forces_of(calculator, one), atoms))
    for one, right in zip(found, wanted):
        np.testing.assert_allclose(one, right, rtol=1e-9, atol=1e-9)


def test_a_forked_process_does_not_wait_for_the_turn_of_its_parent(calculator):
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this system has no fork")
    wanted = forces(calculator)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    with calculator._turn:  # held by a thread that the child does not have
        child = context.Process(target=in_a_thread, args=(lambda: queue.put(forces(calculator)),))
        child.start()
        child.join(120)
    hung = child.is_alive()
    child.kill()
    assert not hung
    np.testing.assert_allclose(queue.get(), wanted, rtol=1e-9, atol=1e-9)


def test_a_forked_process_lists_its_own_neighbours(calculator):
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this system has no fork")
    wanted = forces(calculator)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=lambda: queue.put((forces(calculator), calculator.lists_made)))
    child.start()
    numbers, made = queue.get()
    child.join()
    np.testing.assert_allclose(numbers, wanted, rtol=1e-9, atol=1e-9)
    assert made > 0
