"""The pipeline follows its device: what the host asks of it in between is counted, with CPU tensors in its place.

Kernels are launched and not run: their outputs hold anything, and nothing may look at them before the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import ClassVar

import pytest
import torch
from ase import Atoms

from operators_for_tests import Waits
from qml_lightning import fit
from qml_lightning.atoms.structures import Structures, structures_from_ase
from qml_lightning.errors import InputError
from qml_lightning.kernels import kernels_for, sums_in_pairs
from qml_lightning.machine.compute import Compute
from qml_lightning.model.module import with_gradients
from qml_lightning.model.predictor import Predictor
from qml_lightning.model.representations.density import Density
from qml_lightning.training.environments import environments
from qml_lightning.training.problem import Problem
from qml_lightning.training.row_operator import matrix_free
from qml_lightning.training.rows import rows_of_kind
from small_models import SMALL, molecules, recipe
from structures_for_tests import WATER, rattled

pytest.importorskip("triton", reason="Triton is not installed")
# Numbers of pairs, then of those that are too close with that of crowded atoms: all that a batch waits for.
PAIRS_AND_THOSE_BEYOND = ["tolist", "tolist"]
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled here: pytest -m gpu")


class OnDevice(torch.Tensor):
    """A tensor that stands for one on a device; what waits for it is noted."""

    noted: ClassVar[list[str]] = []

    @staticmethod
    def __new__(cls, tensor: torch.Tensor) -> OnDevice:
        return tensor.as_subclass(cls)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in ("nonzero", "item", "tolist", "__bool__", "__int__", "cpu", "unique", "bincount", "numpy"):
            cls.noted.append(name)
        found = super().__torch_function__(function, types, args, kwargs or {})
        return found.as_subclass(torch.Tensor) if name == "cpu" else found  # what is on the host is its own

    @classmethod
    @contextmanager
    def waits(cls) -> Iterator[list[str]]:
        cls.noted = []
        yield cls.noted


# Representations, with the kernels that give their values and their Jacobian.
DENSITY = Density(cutoff=4.5, density_cutoff=4.0, n_pair=5, n_radial=4, n_channels=16)
KERNELS = {
    "FCHL19": (SMALL.representation, {"_values2", "_values3"}, {"_jacobian", "_projected"}),
    "density": (DENSITY, {"_values"}, {"_moments", "_jacobian", "_projected"}),
}


@pytest.fixture(scope="module", params=list(KERNELS))
def trained(request):
    data = molecules(8)
    return fit(data, recipe(n_features=64, representation=KERNELS[request.param][0])), data


@pytest.fixture(scope="module")
def with_everything():
    """A model with a committee, weights of its own for each element, repulsion and crowding."""
    data = molecules(8)
    potential = fit(data, recipe(n_features=64, representation=DENSITY, blocks=True), committee=4)
    assert potential.repulsion is not None
    assert potential.repulsion.crowding is not None
    return potential, data


def kernels_of(potential) -> tuple[set[str], set[str]]:
    """Names of the kernels of its representation: values, and Jacobian."""
    _, values, jacobian = KERNELS["density" if isinstance(potential.recipe.representation, Density) else "FCHL19"]
    return values, jacobian


def test_the_counter_counts():
    with Waits() as waits:
        x = torch.arange(5)
        int(x.sum())
        (x > 2).nonzero()
    assert waits.found == {"_local_scalar_dense": 1, "nonzero": 1}


def test_the_mark_notes_who_looks():
    with OnDevice.waits() as waits:
        x = OnDevice(torch.arange(5))
        (x[x.new_tensor([1, 2])] > 1).nonzero()
        x.cpu()
    assert waits == ["nonzero", "cpu"]


def test_a_prediction_waits_for_the_device_once_at_its_end(trained, monkeypatch):
    from qml_lightning.kernels.triton.launch import recorded

    potential, data = trained
    predictor = potential.on("cpu", kernels="triton")
    learnt, seen = Predictor._learnt, []

    def counted(self, element, *rest):
        # the atoms of each element are found on the host, before anything is sent
        monkeypatch.setattr("qml_lightning.model.batch_environments.atoms_of_elements", lambda *given: groups)
        groups = [(element == e).nonzero()[:, 0] for e in range(len(self.basis.elements))]
        with Waits() as waits, recorded() as launches:
            found = learnt(self, element, *rest)
        seen.append((waits.found, {one.kernel.__name__ for one in launches}))
        return found

    with recorded():
        predictor.predict(data.structures)  # the host computes constants of the kernels once
    monkeypatch.setattr(Predictor, "_learnt", counted)
    predictor.predict(data.structures)
    assert seen
    for waits, launches in seen:
        assert not waits
        assert kernels_of(potential)[0] | {"_energy_and_slope", "_pullback"} <= launches


@pytest.fixture
def on_device(monkeypatch):
    """Tensors that are sent to a device are marked there, and lists are made there; give what waits for it.

    A copy to a device for which the host would wait is noted as "to".
    """
    to, send = torch.Tensor.to, Structures.to

    def moved(tensor, *given, **options):
        to_device = "device" in options or isinstance(given[0], torch.device | str)
        if not to_device or isinstance(tensor, OnDevice):
            return to(tensor, *given, **options)
        if not options.get("non_blocking"):
            OnDevice.noted.append("to")
        return OnDevice(to(tensor, *given, **options).clone())

    def all_moved(structures, device):
        there = send(structures, device)
        return Structures(*(moved(getattr(there, one.name), device, non_blocking=True) for one in fields(there)))

    monkeypatch.setattr(torch.Tensor, "to", moved)
    monkeypatch.setattr(Structures, "to", all_moved)
    monkeypatch.setattr("qml_lightning.atoms.neighbours.VESIN_ON", ())
    with OnDevice.waits() as waits:
        yield waits


def compressed(structures: Structures) -> Structures:
    """Structures at half their length: every atom is too crowded, and many pairs are too close."""
    return replace(structures, positions=0.5 * structures.positions)


def before_the_results(waits: list[str]) -> list[str]:
    """Waits before results are taken to the host, which must come last."""
    end = waits.index("cpu")
    assert set(waits[end:]) == {"cpu"}
    return waits[:end]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("molecules", PAIRS_AND_THOSE_BEYOND),
        ("small cell", PAIRS_AND_THOSE_BEYOND),
        ("large cell", ["__int__", *PAIRS_AND_THOSE_BEYOND]),  # and first of candidates in its bins
    ],
)
def test_a_batch_waits_for_numbers_that_shapes_need_and_for_its_results(kind, wanted, trained, on_device):
    from qml_lightning.kernels.triton.launch import recorded

    potential, data = trained
    predictor = potential.on("cpu", kernels="triton")
    small = Atoms("OHH", WATER.positions, cell=[1.9, 2.1, 2.2], pbc=True)
    given = {"molecules": data.structures, "small cell": small, "large cell": small * (7, 7, 7)}[kind]
    del on_device[:]  # a predictor is made ready once
    with recorded():
        predictor.predict(given)
    assert before_the_results(on_device) == wanted


@pytest.mark.parametrize("kind", ["as learnt", "too close and too crowded"])
def test_uncertainties_wait_for_nothing_more(kind, with_everything, on_device):
    from qml_lightning.kernels.triton.launch import recorded

    potential, data = with_everything
    predictor = potential.on("cpu", kernels="triton")
    given = data.structures if kind == "as learnt" else compressed(data.structures)
    del on_device[:]
    with recorded():
        found = predictor.predict_there(given, forces=True, stress=False, uncertainty=True)
    assert on_device == PAIRS_AND_THOSE_BEYOND
    assert isinstance(found.energy_uncertainty, OnDevice)
    assert isinstance(found.force_uncertainty, OnDevice)


def test_a_step_with_a_kept_list_waits_for_its_numbers_and_results(trained, on_device):
    from qml_lightning.kernels.triton.launch import recorded

    potential, data = trained
    predictor = potential.on("cpu", kernels="triton", skin=0.5)
    with recorded():
        predictor.predict(data.structures)
        del on_device[:]
        predictor.predict(data.structures)
    assert before_the_results(on_device) == PAIRS_AND_THOSE_BEYOND


def test_environments_of_a_fit_wait_for_the_numbers_of_pairs_and_tangents(trained, on_device):
    from qml_lightning.kernels.triton.launch import recorded

    potential, data = trained
    basis = potential.basis.ready(Compute("cpu", "triton"))
    del on_device[:]
    with recorded():
        environments(basis, data.structures, ("forces",))
    # pairs, those of different atoms, different ones among these, and which they are
    assert on_device == ["tolist", "nonzero", "unique", "cpu"]


def test_lists_of_a_device_give_what_lists_of_the_host_give(trained, monkeypatch):
    potential, _ = trained
    crystal = Atoms("OHH", WATER.positions, cell=[4.0, 4.1, 4.2], pbc=True)
    frames = [WATER, crystal * (3, 3, 3), rattled(crystal, 1), WATER]
    wanted = potential.on("cpu", kernels="reference").predict(frames)
    monkeypatch.setattr("qml_lightning.atoms.neighbours.VESIN_ON", ())
    found = potential.on("cpu", kernels="reference").predict(frames)
    torch.testing.assert_close(found.energies, wanted.energies, rtol=1e-13, atol=0)
    torch.testing.assert_close(found.forces, wanted.forces, rtol=0, atol=1e-11)
    torch.testing.assert_close(found.stress[1:3], wanted.stress[1:3], rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", ["molecules", "cells"])
def test_a_module_waits_once_for_what_the_host_must_know_and_leaves_the_rest_there(kind, trained, on_device):
    from qml_lightning.kernels.triton.launch import recorded

    potential, data = trained
    crystal = Atoms("OHH", WATER.positions, cell=[1.9, 2.1, 2.2], pbc=True)
    given = data.structures if kind == "molecules" else structures_from_ase([crystal, rattled(crystal, 1)])
    inputs = (given.positions, given.cells, given.numbers, given.structure_of_atom, given.periodic)
    predictor = potential.on("cpu", kernels="triton")
    del on_device[:]
    with recorded():
        found = with_gradients(predictor, *(OnDevice(one.clone()) for one in inputs))
    assert on_device == ["cpu", *PAIRS_AND_THOSE_BEYOND]  # numbers, cells and so on in one copy; no results
    assert all(isinstance(one, OnDevice) for one in found)


def test_a_module_says_what_is_wrong_with_positions_that_are_on_a_device(trained, on_device):
    potential, data = trained
    given = data.structures
    positions = given.positions.clone()
    positions[-1, 1] = torch.nan
    inputs = (positions, given.cells, given.numbers, given.structure_of_atom, given.periodic)
    with pytest.raises(InputError, match=f"Structure {len(given) - 1} has a coordinate that is NaN"):
        with_gradients(potential.on("cpu", kernels="triton"), *(OnDevice(one) for one in inputs))


@pytest.mark.parametrize("in_pairs", [False, True], ids=["float64", "pairs of float32"])
def test_a_step_of_the_iterative_solver_waits_for_nothing(trained, in_pairs):
    from qml_lightning.kernels.triton.launch import recorded

    potential, data = trained
    basis = potential.basis.ready(Compute("cpu", "native" if _native() else "reference"))
    rows, targets = matrix_free(basis, Problem.of(data), potential.recipe)
    triton = kernels_for("cpu", torch.float64, "triton")
    on_gpu = replace(rows, sums=sums_in_pairs(triton) if in_pairs else triton)
    on_gpu._rho_by_element  # noqa: B018 (the atoms of each element are gathered once, before the iteration)
    with Waits() as waits, recorded() as launches:
        on_gpu.transposed_times(on_gpu.times(torch.zeros(basis.n_weights, dtype=torch.float64)))
    assert not waits.found
    of_pairs = "_pair" if in_pairs else ""
    wanted = {f"{of_pairs}{name}" for name in ("_energy_and_slope", "_products", "_sums", "_moment")}
    assert wanted == {one.kernel.__name__ for one in launches}
    assert len(targets) == sum(rows._rows_of_kinds)


def test_rows_of_a_fit_wait_for_nothing(trained):
    """Tensors of the device are marked: what the host does with its own is its own affair."""
    from qml_lightning.kernels.triton.launch import recorded

    potential, data = trained
    basis = potential.basis.ready(Compute("cpu", "triton"))
    with recorded() as launches, OnDevice.waits() as waits:
        at = environments(basis, data.structures.select([0, 1]), ("forces",))
        moving = at.tangents["forces"]
        marked = replace(
            at,
            rho=OnDevice(at.rho),
            element=OnDevice(at.element),
            structure=OnDevice(at.structure),
            tangents={
                "forces": replace(
                    moving, vector=OnDevice(moving.vector), owner=OnDevice(moving.owner), row=OnDevice(moving.row)
                )
            },
        )
        for kind in ("energies", "forces"):
            rows_of_kind(basis, marked, kind)
    assert not waits
    values, jacobian = kernels_of(potential)
    assert values | jacobian | {"_rows"} == {one.kernel.__name__ for one in launches}


def _native() -> bool:
    from kernel_tables import ON_CPU

    return "native" in ON_CPU


def test_the_kernels_of_a_gpu_predict_what_plain_torch_predicts(trained):
    potential, _ = trained
    found, wanted = (potential.on("cpu", kernels=name).predict(WATER) for name in ("triton", "reference"))
    torch.testing.assert_close(found.energies, wanted.energies, rtol=0, atol=1e-9)
    torch.testing.assert_close(found.forces, wanted.forces, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["as learnt", "too close and too crowded"])
def test_the_kernels_of_a_gpu_give_the_uncertainties_of_plain_torch(kind, with_everything):
    potential, data = with_everything
    some = data.structures.select([0])
    some = some if kind == "as learnt" else compressed(some)
    found, wanted = (
        potential.on("cpu", kernels=name).predict(some, uncertainty=True) for name in ("triton", "reference")
    )
    for name in ("energies", "forces", "energy_uncertainty", "atom_energy_uncertainty", "force_uncertainty"):
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name), rtol=1e-9, atol=1e-9)
