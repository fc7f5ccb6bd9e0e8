"""Prediction as one native call gives what the reference gives kernel by kernel, in every cell and precision."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk, molecule
from ase.neighborlist import neighbor_list

from kernel_tables import ON_CPU
from qml_lightning.atoms.neighbours import element_indices, pairs_within
from qml_lightning.atoms.structures import Structures, structures_from_ase
from qml_lightning.errors import InputError
from qml_lightning.model.baseline import Baseline
from qml_lightning.model.basis import Basis
from qml_lightning.model.potential import Potential
from small_models import recipe
from structures_for_tests import kinds, rattled

pytestmark = pytest.mark.skipif("native" not in ON_CPU, reason="the native kernels are not built")

VARIANTS = {
    "sorf": {},
    "paired": {"paired": True},
    "blocks": {"blocks": True},
    "chi-scaled": {"chi_scaled": True},
    "rff": {"method": "rff"},
    "orf": {"method": "orf", "rank": 24, "n_features": 200},
    "angular pair": {"representation": replace(recipe().representation, angular="pair", n_angular=2)},
}


def potential_for(frames, **changes) -> Potential:
    """Axes from the frames, random weights: the shape of a trained potential without the fit."""
    random = np.random.default_rng(7)
    settings = recipe(**changes)
    structures = structures_from_ase(frames)
    basis = Basis.draw(structures, settings)
    return Potential(
        basis,
        torch.from_numpy(random.standard_normal(basis.n_weights)),
        Baseline(basis.elements, torch.from_numpy(random.standard_normal(len(basis.elements)))),
    )


def all_kinds() -> list[Atoms]:
    far = rattled(bulk("Si", cubic=True), 5)
    far.positions += [40.0, -75.0, 300.0]  # outside its cell
    wire = Atoms("CHO", [[0, 0, 0.1], [0.9, 0.4, 1.0], [0.2, 1.3, 0.3]], cell=np.zeros((3, 3)))
    wire.cell[1] = [1.0, 3.0, 0.5]  # one lattice vector, askew, and no others
    wire.pbc = [False, True, False]
    large = rattled(Atoms("He125", np.stack(np.meshgrid(*[np.arange(5.0) * 2] * 3), -1).reshape(-1, 3)), 6)
    return [*kinds().values(), far, wire, large, Atoms("He"), rattled(bulk("Cu") * (5, 1, 1), 8)]


def errors(prediction, exact) -> list[float]:
    """Largest deviation of energies, forces and stress, relative to the largest value of each."""
    out = []
    for name in ("energies", "atom_energies", "forces", "stress"):
        value, wanted = getattr(prediction, name), getattr(exact, name)
        assert value.shape == wanted.shape
        assert torch.equal(value.isnan(), wanted.isnan())
        out.append(float((value - wanted).nan_to_num().abs().max() / wanted.nan_to_num().abs().max()))
    return out


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_agrees_with_the_reference_for_every_kind_of_structure_and_feature(variant):
    frames = all_kinds()
    potential = potential_for(frames, **VARIANTS[variant])
    exact = potential.on(kernels="reference", precision="float64").predict(frames, stress=True)
    one_call = potential.on(kernels="native", precision="float64").predict(frames, stress=True)
    assert max(errors(one_call, exact)) < 1e-10


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_every_instruction_set_is_as_exact_as_plain_torch_of_the_same_precision(isa, precision):
    from qml_lightning.kernels import native

    best = native.instruction_set()
    frames = all_kinds()
    potential = potential_for(frames)
    try:
        native.use_instruction_set(isa)
    except InputError as reason:
        pytest.skip(str(reason))
    try:
        one_call = potential.on(kernels="native", precision=precision).predict(frames, stress=True)
    finally:
        native.use_instruction_set(best)
    exact = potential.on(kernels="reference", precision="float64").predict(frames, stress=True)
    naive = potential.on(kernels="reference", precision=precision).predict(frames, stress=True)
    # two units: the largest of a dozen errors of about one is luck; in float64 the truth has errors of its own, and
    # the two were seen seven units apart
    margin = {"float32": 2, "float64": 16}[precision] * torch.finfo(getattr(torch, precision)).eps
    for fast, plain in zip(errors(one_call, exact), errors(naive, exact), strict=True):
        assert fast <= 2 * plain + margin


@pytest.mark.parametrize("cutoff", [2.5, 7.0])
def test_pairs_are_those_of_ase(cutoff):
    """A potential that counts neighbours: one radial function, one frequency, and the energies tell the list."""
    frames = all_kinds()
    structures = structures_from_ase(frames)
    pairs = pairs_within(structures, cutoff, structures.elements)
    assert [len(neighbor_list("i", atoms, cutoff)) for atoms in frames] == torch.bincount(
        structures.structure_of_atom[pairs.centre], minlength=len(frames)
    ).tolist()
    changes = {"representation": replace(recipe().representation, cutoff=cutoff, n_radial3=0), "rank": 8}
    potential = potential_for(frames, **changes)
    exact = potential.on(kernels="reference", precision="float64").predict(frames, stress=True)
    one_call = potential.on(kernels="native", precision="float64").predict(frames, stress=True)
    assert max(errors(one_call, exact)) < 1e-10


def test_energies_alone_are_those_with_forces():
    frames = all_kinds()
    predictor = potential_for(frames).on(kernels="native")
    alone, whole = predictor.predict(frames, forces=False, stress=False), predictor.predict(frames)
    assert alone.forces is None
    assert alone.stress is None
    assert torch.equal(alone.energies, whole.energies)


def test_a_large_batch_gives_what_its_structures_give_alone():
    frames = [rattled(molecule("CH3CH2OH"), k) for k in range(300)]  # more than one tile
    predictor = potential_for(frames[:3]).on(kernels="native", precision="float64")
    together = predictor.predict(frames)
    for k in (0, 150, 299):
        alone = predictor.predict(frames[k])
        assert torch.allclose(together.energies[k], alone.energies[0], rtol=1e-12, atol=1e-12)
        assert torch.allclose(together.forces[9 * k : 9 * k + 9], alone.forces, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kernels", ["native", "reference"])
@pytest.mark.parametrize("kind", ["molecule", "skewed cell", "cell smaller than the cutoff"])
def test_pairs_listed_with_a_skin_are_used_again_while_atoms_move_a_little(kind, kernels):
    atoms = kinds()[kind]
    potential = potential_for([atoms])
    with_skin, without = potential.on(kernels=kernels, skin=0.4), potential.on(kernels=kernels)
    random = np.random.default_rng(3)
    start = atoms.positions.copy()
    for step in range(6):
        atoms.positions = start + 0.1 * random.uniform(-1, 1, atoms.positions.shape)  # at most 0.18 Å
        kept, fresh = with_skin.predict(atoms), without.predict(atoms)
        assert torch.allclose(kept.forces, fresh.forces, rtol=1e-9, atol=1e-10)
        assert torch.allclose(kept.energies, fresh.energies, rtol=1e-12)
        if step == 0:
            start = atoms.positions.copy() - 0.05
            atoms.positions = start
            with_skin.predict(atoms)
    assert with_skin.lists_made == 1
    atoms.positions[0] += 0.5
    with_skin.predict(atoms)
    assert with_skin.lists_made == 2
    atoms.set_cell(atoms.cell.array * 1.001 if atoms.pbc.any() else np.eye(3) * 30)
    with_skin.predict(atoms)
    assert with_skin.lists_made == 3


def test_without_a_skin_every_call_lists_its_pairs():
    atoms = kinds()["molecule"]
    predictor = potential_for([atoms]).on(kernels="native")
    for _ in range(3):
        predictor.predict(atoms)
    assert predictor.lists_made == 3


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("threads", [1, 2])
def test_results_repeat_bit_for_bit(precision, threads):
    frames = [*all_kinds(), *[rattled(molecule("CH3CH2OH"), k) for k in range(30)]]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        potential = potential_for(all_kinds())
        first = potential.on(kernels="native", precision=precision).predict(frames, stress=True)
        predictor = potential.on(kernels="native", precision=precision)
        for _ in range(3):
            again = predictor.predict(frames, stress=True)
            for name in ("energies", "atom_energies", "forces", "stress"):
                assert torch.equal(getattr(first, name).nan_to_num(), getattr(again, name).nan_to_num())
    finally:
        torch.set_num_threads(before)


def test_pairs_of_an_engine_give_the_same():
    """Ghost atoms of an engine are atoms past the centres; the forces on them belong to their originals."""
    atoms = kinds()["skewed cell"]
    potential = potential_for([atoms])
    predictor = potential.on(kernels="native", precision="float64")
    structures = structures_from_ase(atoms)
    exact = predictor.predict(structures)
    pairs = pairs_within(structures, predictor.cutoff, potential.elements)
    ghost = (pairs.shift != 0).any(1)
    original = pairs.neighbour[ghost]  # a ghost for each pair that leaves the cell
    neighbour = pairs.neighbour.clone()
    neighbour[ghost] = structures.n_atoms + torch.arange(len(original))
    energies, forces, virial = predictor._whole_path.predict_pairs(
        element_indices(structures.numbers, potential.elements),
        structures.n_atoms + len(original),
        pairs.segments,
        neighbour.int(),
        pairs.vector,
        forces=True,
        virial=True,
    )
    folded = forces[: structures.n_atoms].clone().index_add_(0, original, forces[structures.n_atoms :])
    assert torch.allclose(energies, exact.atom_energies, rtol=1e-12)
    assert torch.allclose(folded, exact.forces, rtol=1e-10, atol=1e-11)
    assert torch.allclose(virial / structures.volumes[0], exact.stress[0], rtol=1e-10, atol=1e-12)


def test_segments_of_another_number_of_elements_are_refused():
    potential = potential_for([molecule("CH3CH2OH")])
    path = potential.on(kernels="native", precision="float64")._whole_path
    with pytest.raises(InputError, match=r"segments must have the shape \(7,\), got \(5,\)"):
        path.predict_pairs(
            torch.tensor([0, 1]), 2, torch.zeros(5, dtype=torch.int64), torch.zeros(0, dtype=torch.int32),
            torch.zeros(0, 3, dtype=torch.float64), forces=True, virial=True,
        )  # fmt: skip


def _molecule() -> Structures:
    return structures_from_ase([Atoms("He"), rattled(molecule("CH3CH2OH"))])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"positions": float("nan")}, "Structure 1 has a coordinate that is NaN"),
        ({"positions": float("inf")}, "Structure 1 has a coordinate that is NaN, infinite"),
        ({"offsets": torch.tensor([0, 11, 10])}, "offsets must ascend"),
        ({"offsets": torch.tensor([1, 1, 10])}, "offsets must begin with 0"),
        ({"periodic": torch.tensor([[0, 0, 0], [1, 0, 1]]).bool()}, r"Structure 1 is periodic along \[True, False"),
        ({"numbers": torch.full((10,), 92)}, "Elements U are not among those of the model"),
        ({"cells": torch.zeros(2, 2, 3)}, "cells must have the shape"),
        ({"offsets": torch.tensor([0, 1, 9])}, "offsets must end with the number of atoms, 10, got 9"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(change, text):
    structures = _molecule()
    if "positions" in change:
        positions = structures.positions.clone()
        positions[4, 1] = change["positions"]
        change = {"positions": positions}
    predictor = potential_for([Atoms("He"), molecule("CH3CH2OH")]).on(kernels="native")
    with pytest.raises(InputError, match=text):
        predictor.predict(replace(structures, **change), stress=False)


@pytest.mark.parametrize("skin", [0.0, 0.5])
def test_two_atoms_on_one_spot_are_refused_by_name(skin):
    structures = _molecule()
    predictor = potential_for([Atoms("He"), molecule("CH3CH2OH")]).on(kernels="native", skin=skin)
    if skin:
        near = structures.positions.clone()
        near[7] = near[4] + torch.tensor([0.0, 0.0, 0.2])
        predictor.predict(replace(structures, positions=near))
    positions = structures.positions.clone()
    positions[7] = positions[4] + torch.tensor([0.0, 0.0, 0.03])
    with pytest.raises(InputError, match=r"Structure 1: atoms 3 and 6 are 0\.03 Å apart, less than 0\.1 Å"):
        predictor.predict(replace(structures, positions=positions))
    assert predictor.lists_made == 1
    assert torch.isfinite(predictor.predict(structures).forces).all()


def test_an_atom_too_close_to_its_own_image_is_refused():
    predictor = potential_for([Atoms("He")]).on(kernels="native")
    with pytest.raises(InputError, match=r"Structure 0: atoms 0 and 0 are 0\.05 Å apart"):
        predictor.predict(Atoms("He", cell=[0.05, 0, 0], pbc=[True, False, False]))
    with pytest.raises(InputError, match="No matter is so dense"):
        predictor.predict(Atoms("He", cell=[1e-4, 1e-4, 1e-4], pbc=True))


def resident() -> int:
    """Pages of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for its memory")
def test_a_thousand_steps_take_no_more_memory_than_the_first_ones():
    atoms = rattled(bulk("Cu", cubic=True) * (2, 2, 2), 9)
    predictor = potential_for([atoms]).on(kernels="native", precision="float32", skin=0.3)
    structures = structures_from_ase(atoms)
    random = torch.Generator().manual_seed(0)
    before = 0
    for step in range(1000):
        noise = 0.1 * torch.rand(structures.positions.shape, generator=random, dtype=torch.float64)
        predictor.predict(replace(structures, positions=structures.positions + noise))
        if step == 100:
            before = resident()
    assert resident() - before < 256  # pages of 4 KiB
