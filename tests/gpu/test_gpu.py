"""The Triton kernels on a real GPU: `pytest -m gpu`. Without one these tests fail: they are never skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from ase.build import bulk

from feature_inputs import Inputs, exact, fast, feature_map, naive, widened
from places import HELPERS_FOUND
from qml_lightning import Potential, fit
from qml_lightning.atoms.neighbours import pairs_within
from qml_lightning.atoms.structures import structures_from_ase
from qml_lightning.kernels import kernels_for, reference, sums_in_pairs
from qml_lightning.model.recipe import SolverSettings
from qml_lightning.model.representations.density import DENSITY as DEFAULT_DENSITY
from qml_lightning.model.representations.density import Density
from qml_lightning.model.representations.fchl19 import COSINE_SERIES, ENERGIES_AND_FORCES
from small_models import crystals, molecules, recipe
from structures_for_tests import kinds

pytestmark = pytest.mark.gpu
CUDA = torch.device("cuda")
DENSITY = Density(cutoff=4.5, density_cutoff=4.0, n_pair=5, n_radial=4, n_channels=16)
RECIPES = [
    pytest.param(recipe(), id="FCHL19"),
    pytest.param(recipe(representation=DENSITY), id="density"),
    pytest.param(recipe(representation=DENSITY, blocks=True), id="own weights"),
]


@pytest.fixture(autouse=True)
def _a_gpu_is_there():
    assert torch.cuda.is_available(), "pytest -m gpu needs an NVIDIA GPU with its driver and a CUDA build of torch."


@pytest.fixture
def second_gpu():
    """The name of a second GPU. With one GPU alone, tests of several say so and are left out."""
    if torch.cuda.device_count() < 2:
        pytest.skip("torch sees one GPU, and this needs two")
    return "cuda:1"


@pytest.fixture
def triton():
    kernels = kernels_for(CUDA, torch.float32)
    assert kernels.NAME == "triton"
    return kernels


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("transforms", "rank"), [(0, 100), (2, 128), (2, 256), (3, 16)])
def test_features_are_as_exact_as_plain_torch(triton, transforms, rank, dtype):
    f = feature_map(transforms, rank, True, dtype)
    inputs = Inputs.drawn(f, 37)
    truth, plain = exact(f, inputs), naive(f, inputs)
    moved = type(inputs)(*(getattr(inputs, name).to(CUDA) for name in list(vars(inputs)) if name != "n_rows"))
    found = fast(triton, f.to(CUDA, dtype), moved)
    for name, value in truth.items():
        # the largest of all errors scatters more than their norm, of which the interpreter allows twice
        error = abs(found[name].cpu().double().numpy() - value).max()
        allowed = abs(plain[name].double().numpy() - value).max()
        assert error <= 4 * allowed + 10 * torch.finfo(dtype).eps * abs(value).max(), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("representation", [DEFAULT_DENSITY, ENERGIES_AND_FORCES, COSINE_SERIES], ids=repr)
def test_environments_are_as_exact_as_plain_torch(triton, representation, dtype):
    p = representation.arguments(3, representation.draw(3, 1))
    g = torch.Generator().manual_seed(0)
    counts = torch.randint(0, 30, (60,), generator=g)
    segments = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    vectors = torch.randn(int(segments[-1]), 3, generator=g, dtype=torch.float64)
    vectors *= (0.9 + 4.5 * torch.rand(len(vectors), 1, generator=g)) / vectors.norm(dim=1, keepdim=True)
    cotangent = torch.randn(20, p.size, generator=g, dtype=torch.float64)
    matrices = torch.randn(3, p.size, 64, generator=g, dtype=torch.float64)
    element = torch.arange(20) % 3

    def called(kernels, name: str, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
        more = {"environments_pullback": (cotangent,), "environments_jacobian": (element, matrices)}.get(name, ())
        given = [one.to(device, dtype) if one.is_floating_point() else one.to(device) for one in (vectors, *more)]
        found = getattr(kernels, name)(p.to(device, dtype), 20, segments.to(device), *given)
        return found.cpu().double()

    for name in ("environments", "environments_pullback", "environments_jacobian"):
        truth = called(reference, name, torch.device("cpu"), torch.float64)
        plain = called(reference, name, torch.device("cpu"), dtype)
        # more than the interpreter's twice: a GPU divides and takes roots to two units of the last place
        error = (called(triton, name, CUDA, dtype) - truth).norm()
        assert error <= 3 * (plain - truth).norm() + 10 * torch.finfo(dtype).eps * truth.norm(), name


@pytest.mark.parametrize("given", RECIPES)
@pytest.mark.parametrize("data", [molecules(16), crystals(8)], ids=["molecules", "crystals"])
def test_training_and_prediction_on_the_gpu_give_what_the_cpu_gives(data, given):
    found = fit(data, given, device="cuda")
    wanted = fit(data, given)
    one = found.on("cuda").predict(data.structures)
    other = wanted.predict(data.structures)
    scale = other.forces.abs().max()
    assert (one.forces - other.forces).abs().max() < 1e-4 * scale
    again = found.on("cuda").predict(data.structures)
    assert torch.equal(one.forces, again.forces)


@pytest.mark.parametrize("given", RECIPES)
def test_the_module_differentiates_on_the_gpu(given):
    data = molecules(12)
    potential = fit(data, given)
    positions = data.structures.select([0]).positions.to(CUDA).requires_grad_()
    numbers = data.structures.select([0]).numbers.to(CUDA)
    potential.module("cuda")(positions, numbers).sum().backward()
    wanted = -potential.predict(data.structures.select([0])).forces
    torch.testing.assert_close(positions.grad.cpu(), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("closer", [1.0, 0.5], ids=["as learnt", "too close and too crowded"])
def test_the_gpu_gives_the_uncertainties_of_the_cpu(closer):
    data = molecules(12)
    potential = fit(data, recipe(representation=DENSITY, blocks=True), committee=4)
    some = replace(data.structures, positions=closer * data.structures.positions)
    one, other = (potential.on(device, "float64").predict(some, uncertainty=True) for device in ("cuda", "cpu"))
    for name in ("energies", "forces", "energy_uncertainty", "atom_energy_uncertainty", "force_uncertainty"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=1e-8, atol=1e-8)


def test_the_module_compiles_into_one_graph_on_the_gpu():
    data = molecules(12)
    module, some = fit(data, recipe()).module("cuda"), data.structures.select([0])
    slopes, numbers = [], some.numbers.to(CUDA)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return (module(x, numbers) ** 2).sum()

    for function in (loss, torch.compile(loss, fullgraph=True)):
        positions = some.positions.to(CUDA).requires_grad_()
        function(positions).backward()
        slopes.append(positions.grad)
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-9, atol=1e-9)


def test_cells_of_a_module_have_the_gradients_of_the_cpu():
    data = crystals(8)
    potential, some = fit(data, recipe()), data.structures.select([0, 1])
    slopes = []
    for device in (CUDA, torch.device("cpu")):
        given = [one.to(device).clone() for one in (some.positions, some.numbers, some.cells, some.structure_of_atom)]
        given[2].requires_grad_()
        potential.module(device)(*given, some.periodic.to(device)).sum().backward()
        slopes.append(given[2].grad.cpu())
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-6, atol=1e-6)


def test_the_gpu_lists_the_pairs_that_the_cpu_lists():
    frames = [*kinds().values(), kinds()["skewed cell"] * (4, 4, 4)]
    structures = structures_from_ase(frames)
    for cutoff in (2.5, 6.0):
        found, wanted = (pairs_within(structures, cutoff, structures.elements, device) for device in (CUDA, "cpu"))
        assert torch.equal(found.segments.cpu(), wanted.segments)
        one, other = (sorted(torch.column_stack([p.centre, p.neighbour, p.shift]).tolist()) for p in (found, wanted))
        assert one == other


def test_sums_in_pairs_of_float32_are_those_of_float64(triton):
    f = feature_map(2, 128, True, torch.float32)
    inputs = widened(Inputs.drawn(f, 37))
    x, weights, coefficients, tangents = (
        one.to(CUDA) for one in (inputs.x, inputs.weights, inputs.coefficients, inputs.tangents)
    )
    pairs, on_gpu = sums_in_pairs(triton), f.to(CUDA, torch.float32)
    size = float(f.amplitude * inputs.weights.norm()) * f.n_features * 2.0**-42
    for one, other in zip(
        pairs.energy_and_slope(on_gpu, x, weights), triton.energy_and_slope(on_gpu, x, weights), strict=True
    ):
        assert float((one - other).abs().max()) < size
    moments = (table.feature_moment(on_gpu, x, coefficients, tangents) for table in (pairs, triton))
    assert float(torch.stack(list(moments)).diff(dim=0).abs().max()) < size


def test_products_and_sums_of_tangents_in_pairs_are_those_of_float64(triton):
    f = feature_map(2, 128, True, torch.float32)
    inputs = widened(Inputs.drawn(f, 37))
    tangents, owner, x = inputs.many.float().to(CUDA), inputs.owner.to(CUDA), inputs.tangents.to(CUDA)
    coefficients, pairs = inputs.coefficients[inputs.owner].to(CUDA), sums_in_pairs(triton)
    products = (table.tangent_products(tangents, owner, x) for table in (pairs, triton))
    sums = (table.tangent_sums(tangents, owner, coefficients, 37, torch.float64) for table in (pairs, triton))
    for one, other in (products, sums):
        assert one.dtype == torch.float64
        assert float((one - other).abs().max()) < 2.0**-42 * 128 * float(other.abs().max())


def test_stress_and_energy_of_one_large_cell_are_those_of_the_cpu():
    data = crystals(8)
    potential, cell = fit(data, recipe(n_features=64)), bulk("Cu", cubic=True) * (12, 12, 12)
    cell.rattle(0.05, seed=1)
    one, other = (potential.on(device, "float64").predict(cell) for device in ("cuda", "cpu"))
    for name in ("energies", "forces", "stress"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9)


def test_the_second_gpu_gives_what_the_first_gives(second_gpu):
    data = molecules(12)
    potential = fit(data, recipe(), device=second_gpu)
    one, other = (potential.on(device).predict(data.structures).forces for device in (second_gpu, "cuda:0"))
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


TOGETHER = """
import sys
import torch
from qml_lightning import fit
from qml_lightning.machine.ranks import joined
from small_models import molecules, recipe

with joined(torch.device("cuda")) as ranks:
    made = fit(molecules(16), recipe(n_features=128, ridge=1e-6), device=ranks.device, ranks=ranks, committee=4)
    assert made.weights.is_cpu
    made.save(f"{sys.argv[1]}/{ranks.rank}.safetensors")
"""


def test_two_gpus_under_torchrun_give_the_model_of_one(second_gpu, tmp_path):
    (tmp_path / "together.py").write_text(TOGETHER)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, str(tmp_path / "together.py"), str(tmp_path)], env={**os.environ, "PYTHONPATH": HELPERS_FOUND},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    data = molecules(16)
    alone = fit(data, recipe(n_features=128, ridge=1e-6), device="cuda").predict(data.structures).forces
    for rank in range(2):
        forces = Potential.load(tmp_path / f"{rank}.safetensors").predict(data.structures).forces
        assert (forces - alone).abs().max() < 1e-5 * alone.abs().max()


@pytest.mark.parametrize("accumulation", ["float64", "compensated"])
def test_an_iteration_on_the_gpu_gives_what_the_cpu_gives(accumulation):
    data, solver = molecules(24), SolverSettings("iterative", accumulation, preconditioner_features=64, held_out=0.2)
    given = recipe(precision="float32", ridge=1e-6, solver=solver)
    found, wanted = (fit(data, given, device=device).predict(data.structures) for device in ("cuda", "cpu"))
    assert (found.forces - wanted.forces).abs().max() < 1e-3 * wanted.forces.abs().max()


def test_equations_that_the_host_keeps_give_the_same_potential(monkeypatch):
    data, given = molecules(24), recipe(n_features=128, ridge=1e-6, solver=SolverSettings("direct"))
    wanted = fit(data, given, device="cuda").predict(data.structures)
    monkeypatch.setattr("qml_lightning.machine.compute.room_on", lambda device: 2**20)
    kept = fit(data, given, device="cuda")
    assert kept.provenance.plan["on_host"]
    assert (kept.predict(data.structures).forces - wanted.forces).abs().max() < 1e-6 * wanted.forces.abs().max()
