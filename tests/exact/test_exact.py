"""OQML and GPR are what other codes compute, obey their own derivatives, and behave like any other model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ase.io
import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import molecule

import qml_lightning
from altered_files import alter
from kernel_tables import ON_CPU
from qml_lightning import evaluate, fit
from qml_lightning.atoms.structures import Labels, structures_from_ase
from qml_lightning.cli import main
from qml_lightning.errors import InputError, ModelError, ResourceError, SolveError
from qml_lightning.exact import GPR, OQML, ExactPotential
from qml_lightning.exact.covariance import covariance, gaussians, operator_rows
from qml_lightning.exact.groups import gather, inner_motions, plan_rows
from qml_lightning.exact.potential import exact_basis, whole_representation
from qml_lightning.machine.compute import Compute
from qml_lightning.model.representations.fchl19 import ENERGIES_AND_FORCES
from qml_lightning.training.environments import environments
from small_models import SMALL, crystals, labelled, molecules, recipe
from structures_for_tests import WATER, rattled, strained

METHODS = {
    name: replace(method, sigma=4.0, representation=SMALL.representation)
    for name, method in (("gpr", GPR), ("oqml", OQML))
}
UNWEIGHTED = {"energy_weight": 1.0, "size_exponent": 0.0}
methods = pytest.mark.parametrize("method", METHODS)


def quiet(done: int, of: int) -> None:
    """No progress bar in a test."""


def _rows(data, settings):
    """The rows of GPR and OQML for a data set, and how forces were combined."""
    structures = data.structures
    targets = {"energies": data.labels.energies, "forces": data.labels.forces}
    basis = exact_basis(
        structures.elements, settings, whole_representation(len(structures.elements), settings), Compute()
    )
    plans = plan_rows(structures, targets, settings)
    values = environments(basis, structures).rho
    return gather(basis, structures, values, targets, plans, settings), plans, values


def _symmetric(lower: torch.Tensor) -> np.ndarray:
    return (lower.tril() + lower.tril(-1).T).numpy()


def _combination(groups, plans, structures) -> np.ndarray:
    """From our rows to all energies, then all forces, as other codes order them."""
    n = len(structures)
    out = np.zeros((n + 3 * structures.n_atoms, sum(group.targets.numel() for group in groups)))
    for group in groups:
        for row in range(len(group)):
            s = int(structures.structure_of_atom[min(int(atoms[row].min()) for atoms in group.atoms if atoms.numel())])
            first = group.start + row * group.n_rows
            out[s, first] = 1.0
            atoms = slice(n + 3 * int(structures.offsets[s]), n + 3 * int(structures.offsets[s + 1]))
            out[atoms, first + 1 : first + group.n_rows] = plans[s].combination[:-6].numpy()
    return out


def _mixed():
    """Molecules of several compositions, two of one kind, with atoms in different order."""
    frames = [rattled(molecule("CH3CH2OH"), k, 0.1) for k in range(2)]
    frames += [rattled(WATER, 3), rattled(molecule("CH3OH"), 4), rattled(WATER, 5)[[1, 0, 2]]]
    return labelled(frames)


def _padded(data, preset):
    """Representations and gradients of kernelforge, padded as it wants them."""
    fchl19_repr = pytest.importorskip("kernelforge").fchl19_repr
    structures, elements = data.structures, list(data.structures.elements)
    most, size = int(structures.counts.max()), preset.arguments(len(elements)).size
    n = len(structures)
    x, dx = np.zeros((n, most, size)), np.zeros((n, most, size, 3 * most))
    charges = np.zeros((n, most), np.int32)
    for s in range(n):
        run = slice(int(structures.offsets[s]), int(structures.offsets[s + 1]))
        z = structures.numbers[run].numpy().astype(np.int32)
        values, gradient = fchl19_repr.generate_fchl_acsf_and_gradients(
            structures.positions[run].numpy(), z, elements=elements, nRs2=preset.n_radial2, nRs3=preset.n_radial3,
            nFourier=1, eta2=preset.eta2, eta3=preset.eta3, zeta=preset.zeta, rcut=preset.cutoff, acut=preset.cutoff,
            two_body_decay=preset.decay2, three_body_decay=preset.decay3, three_body_weight=preset.weight3,
        )  # fmt: skip
        m = len(z)
        x[s, :m], charges[s, :m] = values, z
        dx[s, :m, :, : 3 * m] = np.asarray(gradient).reshape(m, size, 3 * m)
    return x, dx, charges, structures.counts.numpy().astype(np.int32)


def test_the_covariance_is_that_of_kernelforge():
    pytest.importorskip("kernelforge")
    from kernelforge import local_kernels

    data = _mixed()
    preset = replace(ENERGIES_AND_FORCES, cutoff=4.5, n_radial2=8, n_radial3=6)
    groups, plans, _ = _rows(data, replace(GPR, representation=preset, sigma=2.5, **UNWEIGHTED))
    assert len(groups) == 3
    ours = _symmetric(covariance(groups, quiet))
    theirs = local_kernels.kernel_gaussian_full_symm(*_padded(data, preset), 2.5)
    theirs = np.tril(theirs) + np.tril(theirs, -1).T
    theirs[len(data) :] *= -1  # its rows are gradients, ours are forces
    theirs[:, len(data) :] *= -1
    combination = _combination(groups, plans, data.structures)
    # rigid motions, which we leave out, have no covariance
    assert np.abs(combination.T @ theirs @ combination - ours).max() <= 1e-12 * np.abs(ours).max()
    assert np.linalg.matrix_rank(theirs, tol=1e-9 * np.abs(theirs).max()) <= len(ours)


def test_the_rows_of_oqml_are_those_of_qmllib():
    kernels = pytest.importorskip("qmllib.kernels")
    data = molecules(3)
    preset = replace(ENERGIES_AND_FORCES, cutoff=4.5, n_radial2=8, n_radial3=6)
    settings = replace(OQML, representation=preset, sigma=2.5, **UNWEIGHTED)
    groups, plans, values = _rows(data, settings)
    numbers = data.structures.numbers
    bases = [values[numbers == z] for z in data.structures.elements]
    ours = operator_rows(groups, bases, quiet).numpy()
    x, dx, padded, _ = _padded(data, preset)
    charges = [list(z) for z in padded]
    energies = kernels.get_atomic_local_kernel(x, x, charges, charges, 2.5)
    forces = kernels.get_atomic_local_gradient_kernel(x, x, dx.reshape(*dx.shape[:3], -1, 3), charges, charges, 2.5)
    theirs = np.concatenate([energies, forces])
    order = torch.cat([(numbers == z).nonzero()[:, 0] for z in data.structures.elements]).numpy()
    combined = _combination(groups, plans, data.structures).T @ theirs[:, order]
    assert np.abs(combined - ours).max() <= 1e-12 * np.abs(ours).max()


@pytest.mark.parametrize("missing", [False, True], ids=["all labels", "some labels missing"])
def test_gpr_predicts_what_kernelforge_matrices_predict(missing):
    pytest.importorskip("kernelforge")
    from kernelforge import local_kernels

    data, other = _mixed(), molecules(2, seed=50)
    energies, forces = data.labels.energies.clone(), data.labels.forces.clone()
    if missing:
        energies[1] = torch.nan
        forces[:9] = torch.nan
        forces[12, 1] = torch.nan
    data = replace(data, labels=Labels(energies, forces))
    preset = replace(ENERGIES_AND_FORCES, cutoff=4.5, n_radial2=8, n_radial3=6)
    settings = replace(GPR, representation=preset, sigma=2.5, ridge=1e-6, **UNWEIGHTED)
    zero = dict.fromkeys(data.structures.elements, 0.0)
    prediction = fit(data, settings, reference_energies=zero).predict(other.structures)

    train = _padded(data, preset)
    test = _padded(other, preset)
    y = np.concatenate([energies.numpy(), -forces.numpy().ravel()])
    known = np.isfinite(y)
    matrix = local_kernels.kernel_gaussian_full(*train[:2], *train[:2], train[2], train[2], train[3], train[3], 2.5)
    weights = np.linalg.solve(matrix[known][:, known] + 1e-6 * np.eye(known.sum()), y[known])
    across = local_kernels.kernel_gaussian_full(*test[:2], *train[:2], test[2], train[2], test[3], train[3], 2.5)
    theirs = across[:, known] @ weights
    assert np.abs(prediction.energies.numpy() - theirs[:2]).max() < 1e-7
    assert np.abs(prediction.forces.numpy().ravel() + theirs[2:]).max() < 1e-7


def _scalar_kernel(one: Atoms, other: Atoms, settings) -> float:
    """Σ k over pairs of atoms of one element, written out."""
    values = []
    elements = (1, 8)
    for atoms in (one, other):
        basis = exact_basis(elements, settings, whole_representation(2, settings), Compute(kernels="reference"))
        values.append(environments(basis, structures_from_ase(atoms)).rho.numpy())
    return sum(
        float(np.exp(-0.5 * np.sum((values[0][i] - values[1][j]) ** 2)))
        for i in range(len(one))
        for j in range(len(other))
        if one.numbers[i] == other.numbers[j]
    )


def test_covariances_are_finite_differences_of_the_scalar_kernel():
    one, other = rattled(WATER, 1, 0.1), rattled(WATER, 2, 0.1)
    data = labelled([one, other])
    settings = replace(GPR, representation=SMALL.representation, sigma=0.5, **UNWEIGHTED)
    groups, plans, _ = _rows(data, settings)
    ours = _symmetric(covariance(groups, quiet))
    step = 1e-4
    move = [p.combination[:9, 0].numpy().reshape(3, 3) for p in plans]  # the first inner motion of each

    def kernel(by, and_by):
        a, b = one.copy(), other.copy()
        a.positions += by * step * move[0]
        b.positions += and_by * step * move[1]
        return _scalar_kernel(a, b, settings)

    energy, force, energy2, force2 = 0, 1, 4, 5  # rows: an energy and three inner motions for each
    assert ours[energy, energy2] == pytest.approx(kernel(0, 0), rel=1e-12)
    # rows are forces: minus the derivative
    assert ours[energy, force2] == pytest.approx(-(kernel(0, 1) - kernel(0, -1)) / (2 * step), rel=1e-5)
    assert ours[force, energy2] == pytest.approx(-(kernel(1, 0) - kernel(-1, 0)) / (2 * step), rel=1e-5)
    second = (kernel(1, 1) - kernel(1, -1) - kernel(-1, 1) + kernel(-1, -1)) / (4 * step**2)
    assert ours[force, force2] == pytest.approx(second, rel=1e-4)


def test_gaussians_are_those_of_differences():
    x, y = (torch.from_numpy(np.random.default_rng(k).normal(size=(5 + k, 4))) for k in range(2))
    naive = torch.exp(-0.5 * (x[:, None] - y).square().sum(2))
    assert torch.allclose(gaussians(x, y), naive, rtol=1e-13)


@pytest.mark.parametrize(
    ("atoms", "rotations", "rigid"),
    [(WATER, True, 6), (WATER, False, 3), (molecule("CO2"), True, 5), (Atoms("H"), True, 3)],
    ids=["molecule", "crystal", "linear molecule", "atom"],
)
def test_inner_motions_are_orthonormal_and_without_rigid_ones(atoms, rotations, rigid):
    positions = torch.from_numpy(atoms.positions)
    motions = inner_motions(positions, rotations=rotations)
    n = 3 * len(atoms)
    assert motions.shape == (n, n - rigid)
    assert torch.allclose(motions.T @ motions, torch.eye(n - rigid, dtype=torch.float64), atol=1e-12)
    by_atom = motions.view(len(atoms), 3, -1)
    assert by_atom.sum(0).abs().max() < 1e-12 if motions.numel() else True
    if rotations and motions.numel():
        torque = torch.linalg.cross(positions[:, :, None].expand_as(by_atom), by_atom, dim=1).sum(0)
        assert torque.abs().max() < 1e-12


# ---- models ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=METHODS)
def molecular(request) -> ExactPotential:
    return fit(molecules(15), METHODS[request.param])


@pytest.fixture(scope="module", params=METHODS)
def crystalline(request) -> ExactPotential:
    return fit(crystals(8), METHODS[request.param])


def _ethanol(seed: int = 77) -> Atoms:
    return rattled(molecule("CH3CH2OH"), seed)


@pytest.mark.parametrize("name", ON_CPU)
def test_forces_are_minus_the_gradient_of_the_energy(molecular, name):
    potential, atoms, step = molecular.on(kernels=name), _ethanol(), 1e-3
    forces = potential.predict(atoms).forces.numpy()
    for index in ((0, 0), (2, 1), (8, 2)):
        frames = []
        for sign in (2, 1, -1, -2):
            moved = atoms.copy()
            moved.positions[index] += sign * step
            frames.append(moved)
        e = potential.predict(frames, forces=False).energies.numpy()
        numerical = (e[0] - 8 * e[1] + 8 * e[2] - e[3]) / (12 * step)
        assert forces[index] == pytest.approx(numerical, abs=1e-6 * np.abs(forces).max())


def test_stress_is_the_strain_derivative_of_the_energy(crystalline):
    data = crystals(1, seed=40).structures
    atoms = Atoms(data.numbers.numpy(), data.positions.numpy(), cell=data.cells[0].numpy(), pbc=True)
    stress, step = crystalline.predict(atoms).stress[0].numpy(), 1e-4
    for a, b in ((0, 0), (1, 1), (0, 2)):
        energies = [float(crystalline.predict(strained(atoms, a, b, by)).energies[0]) for by in (step, -step)]
        numerical = (energies[0] - energies[1]) / (2 * step) / atoms.get_volume()
        assert stress[a, b] == pytest.approx(numerical, abs=1e-5 * np.abs(stress).max())


def test_gpr_with_a_tiny_ridge_reproduces_energies_forces_and_stress():
    data = crystals(4)
    errors = evaluate(fit(data, replace(METHODS["gpr"], sigma=2.0, ridge=1e-12)), data)
    spread = data.labels.energies.std()
    assert errors.energy.mae < 1e-6 * spread
    assert errors.forces.mae < 1e-6
    assert errors.stress.mae < 1e-7


@methods
def test_molecules_of_several_compositions_are_learnt_together(method):
    data = _mixed()
    errors = evaluate(fit(data, replace(METHODS[method], sigma=1.0)), data)
    assert errors.forces.mae < (1e-4 if method == "gpr" else 0.5) * float(data.labels.forces.abs().mean())


def test_a_structure_without_labels_changes_nothing():
    data = _mixed()
    energies, forces = data.labels.energies.clone(), data.labels.forces.clone()
    energies[3], forces[data.structures.structure_of_atom == 3] = torch.nan, torch.nan
    unknown = replace(data, labels=Labels(energies, forces))
    references = dict.fromkeys(data.structures.elements, -1.0)
    one, two = (
        fit(part, replace(METHODS["gpr"], ridge=1e-6), reference_energies=references).predict(_ethanol())
        for part in (unknown, unknown.select([0, 1, 2, 4]))
    )
    assert torch.allclose(one.forces, two.forces, rtol=0, atol=1e-9)
    assert torch.allclose(one.energies, two.energies, rtol=0, atol=1e-9)


def test_labels_that_tell_nothing_are_refused():
    atoms = labelled([Atoms("H"), Atoms("H")])
    with pytest.raises(InputError, match="No label tells anything"):
        fit(atoms, GPR, targets=["forces"])


def test_oqml_of_energies_alone_reproduces_them():
    data = molecules(10)
    potential = fit(data, replace(METHODS["oqml"], threshold=1e-14), targets=["energies"])
    assert evaluate(potential, data).energy.mae < 1e-8


def test_oqml_solves_its_least_squares_problem():
    data = molecules(6)
    settings = replace(METHODS["oqml"], threshold=1e-9)
    potential = fit(data, settings)
    structures = data.structures
    targets = {"energies": data.labels.energies - potential.baseline.total(structures), "forces": data.labels.forces}
    basis = exact_basis(structures.elements, settings, potential.projection, Compute())
    values = environments(basis, structures).rho
    groups = gather(basis, structures, values, targets, plan_rows(structures, targets, settings), settings)
    bases = [values[structures.numbers == z] for z in structures.elements]
    matrix = operator_rows(groups, bases, quiet).numpy()
    y = torch.cat([group.targets.flatten() for group in groups]).numpy()
    u, s, _ = np.linalg.svd(matrix, full_matrices=False)
    kept = s > 1e-9 * s[0]
    assert potential.provenance.solution["singular_values_kept"] == kept.sum()
    best = u[:, kept] @ (u[:, kept].T @ y)
    assert np.abs(matrix @ potential.weights.numpy() - best).max() < 1e-6 * np.abs(y).max()


def test_random_features_tend_to_gpr_as_their_number_grows():
    data, other = molecules(8), molecules(3, seed=90)
    shared = {"ridge": 1e-3, "representation": SMALL.representation}
    exact = fit(data, replace(GPR, rank=32, sigma=4.0, **shared)).predict(other.structures).forces
    distance = [
        (fit(data, recipe(method="rff", n_features=n, **shared)).predict(other.structures).forces - exact).abs().mean()
        for n in (256, 8192)
    ]
    assert distance[1] < 0.4 * distance[0]  # √32 in expectation
    assert distance[1] < 0.1 * exact.abs().mean()


def test_a_projection_changes_less_the_more_axes_it_keeps():
    data, other = molecules(40), molecules(3, seed=90)
    whole, few, many = (
        fit(data, replace(METHODS["gpr"], ridge=1e-6, rank=rank)).predict(other.structures).forces
        for rank in (None, 8, 64)
    )
    assert (whole - many).abs().mean() < 0.3 * (whole - few).abs().mean()
    assert (whole - many).abs().mean() < 0.01 * whole.abs().mean()


@methods
@pytest.mark.parametrize("targets", [("energies",), ("forces",), ("energies", "forces")], ids="+".join)
def test_a_model_learns_from_whatever_labels_it_gets(method, targets):
    train, test = molecules(25), molecules(10, seed=100)
    errors = evaluate(fit(train, METHODS[method], targets=targets), test)
    if "energies" in targets:
        assert errors.energy.mae < 0.5 * float((test.labels.energies - test.labels.energies.median()).abs().mean())
    if "forces" in targets:
        assert errors.forces.mae < 0.3 * float(test.labels.forces.abs().mean())


@methods
@pytest.mark.parametrize("rank", [None, 32])
def test_a_model_comes_back_from_its_file_bit_for_bit(tmp_path, method, rank):
    potential = fit(molecules(4), replace(METHODS[method], rank=rank))
    path = str(tmp_path / "model.qml")
    potential.save(path)
    again = qml_lightning.load(path)
    assert isinstance(again, ExactPotential)
    assert again.recipe == potential.recipe
    one, two = potential.predict(_ethanol()), again.predict(_ethanol())
    assert torch.equal(one.energies, two.energies)
    assert torch.equal(one.forces, two.forces)


def test_a_model_whose_tensors_do_not_fit_is_refused(tmp_path):
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    path = str(tmp_path / "model.qml")
    fit(molecules(3), METHODS["gpr"]).save(path)
    tensors = load_file(path)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    save_file({**tensors, "environments": tensors["environments"][:, 1:].contiguous()}, path, metadata)
    alter(Path(path), lambda header: None, checksum="none")
    with pytest.raises(ModelError, match="environments of shape"):
        qml_lightning.load(path)


def test_the_same_data_gives_the_same_bits(molecular):
    again = fit(molecules(15), molecular.recipe)
    assert torch.equal(again.predict(_ethanol()).forces, molecular.predict(_ethanol()).forces)


def test_single_precision_prediction_stays_near_double(molecular):
    double, single = molecular.predict(_ethanol()), molecular.on(precision="float32").predict(_ethanol())
    assert (single.forces - double.forces).abs().max() < 2e-2 * double.forces.abs().max()


def test_the_ase_calculator_takes_an_exact_model(molecular, tmp_path):
    path = tmp_path / "model.qml"
    molecular.save(str(path))
    atoms = _ethanol()
    atoms.calc = qml_lightning.load(path).calculator()
    expected = molecular.predict(atoms)
    assert atoms.get_potential_energy() == pytest.approx(float(expected.energies), abs=1e-9)
    assert np.allclose(atoms.get_forces(), expected.forces.numpy(), atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"method": "krr"}, "oqml or gpr"),
        ({"sigma": 0.0}, "sigma"),
        ({"rank": 0}, "rank"),
        ({"ridge": -1.0}, "ridge"),
        ({"threshold": 2.0}, "threshold"),
        ({"force_weight": 0.0}, "force_weight"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_recipe_that_makes_no_sense_is_explained(changes, word):
    with pytest.raises(InputError, match=word):
        fit(molecules(2), replace(GPR, **changes))


@methods
def test_too_little_memory_is_told_before_anything_is_allocated(monkeypatch, method):
    monkeypatch.setattr("qml_lightning.machine.memory.available_memory", lambda: 1000)
    monkeypatch.setattr("qml_lightning.exact.fit.all_environments", None)  # not reached
    with pytest.raises(ResourceError, match=f"{method.upper()} with .* environments needs .* Use fewer structures"):
        fit(molecules(4), METHODS[method])


def test_no_ridge_and_twice_the_same_structure_says_which_ridge_would_do():
    data = molecules(3)
    with pytest.raises(SolveError, match=r"A ridge of .* would do"):
        fit(data.select([0, 1, 1, 2]), replace(METHODS["gpr"], ridge=0.0))


# ---- the command line ------------------------------------------------------------------------------------------------


@methods
def test_the_command_line_trains_evaluates_predicts_and_tells(method, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        code = main(list(arguments))
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    limit = ["--ridge", "1e-9"] if method == "gpr" else ["--threshold", "1e-9"]
    options = ["--method", method, "--train-size", "20", "--sigma", "5", *limit, "--no-label-check"]
    out = run("train", "ethanol:train", "-m", "m.safetensors", "--report", "m.png", *options)
    assert f"{method.upper()}, Gaussian, σ = 5" in out
    assert "1e-09" in out
    assert "meV/Å" in run("evaluate", "m.safetensors", "ethanol:test@0:10")
    assert method.upper() in run("info", "m.safetensors")
    run("predict", "m.safetensors", "ethanol:test@0:2", "-o", "p.extxyz")
    predicted = ase.io.read("p.extxyz", ":")
    expected = qml_lightning.load("m.safetensors").predict(predicted)
    assert np.allclose(predicted[0].get_forces(), expected.forces[:9].numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--method", "gpr", "--features", "512"], "--method gpr does not use --features"),
        (["--method", "oqml", "--ridge", "1e-8"], "--method oqml does not use --ridge"),
        (["--method", "gpr", "--precision", "float32"], "float64 only"),
        (["--threshold", "1e-8"], "--threshold is for --method oqml only"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_do_not_go_with_the_method_are_refused(options, word, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "ethanol:train", "-m", "m.safetensors", *options]) != 0
    assert word in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_what_only_random_features_have_is_refused(tmp_path, capsys):
    features, kernels = fit(molecules(3), recipe()), tmp_path / "gpr.safetensors"
    for options in ({"equations": tmp_path / "e"}, {"checkpoint": tmp_path / "c"}, {"memory_limit": 1 << 40}):
        with pytest.raises(InputError, match=r"(?i)explicit kernels"):
            fit(molecules(3), GPR, **options)
    with pytest.raises(InputError, match="cannot have the basis of another model, as they have no random features"):
        fit(molecules(3), GPR, basis=features)
    fit(molecules(3), GPR).save(kernels)
    assert main(["update", str(kernels), "--equations", "missing"]) == 2
    assert "has explicit kernels and no random features" in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == [kernels]
