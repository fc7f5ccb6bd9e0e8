"""What is written as extended XYZ, ASE reads back."""

from __future__ import annotations

import ase.io
import numpy as np
import pytest
import torch

from qml_lightning.atoms.structures import structures_from_ase
from qml_lightning.datasets import load, write_extxyz, write_predictions
from qml_lightning.errors import InputError
from structures_for_tests import kinds


@pytest.fixture(scope="module")
def predicted():
    frames = list(kinds().values())
    structures = structures_from_ase(frames)
    generator = torch.Generator().manual_seed(0)
    n, atoms = len(structures), structures.n_atoms
    energies, forces, stress, atom_energies = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((n,), (atoms, 3), (n, 3, 3), (atoms,))
    )
    stress = stress + stress.transpose(1, 2)
    stress[~structures.periodic.all(1)] = torch.nan
    return frames, structures, dict(energies=energies, forces=forces, stress=stress, atom_energies=atom_energies)  # noqa: C408


@pytest.mark.parametrize("name", ["out.extxyz", "out.xyz", "out.extxyz.xz", "out.extxyz.gz"])
def test_ase_reads_back_what_was_written(tmp_path, predicted, name):
    frames, structures, labels = predicted
    write_extxyz(tmp_path / name, structures, **labels)
    back = ase.io.read(tmp_path / name, ":")
    assert len(back) == len(frames)
    for s, (atoms, original) in enumerate(zip(back, frames)):
        rows = slice(structures.offsets[s], structures.offsets[s + 1])
        assert np.array_equal(atoms.numbers, original.numbers)
        assert np.array_equal(atoms.pbc, original.pbc)
        assert np.allclose(atoms.positions, original.positions, atol=1e-10, rtol=0)
        assert np.array_equal(atoms.cell.array, original.cell.array)
        assert atoms.get_potential_energy() == labels["energies"][s].item()
        assert np.allclose(atoms.get_forces(), labels["forces"][rows], atol=1e-10, rtol=0)
        assert np.allclose(atoms.calc.results["energies"], labels["atom_energies"][rows], atol=1e-10, rtol=0)
        if original.pbc.all():
            assert np.array_equal(atoms.get_stress(voigt=False), labels["stress"][s].numpy())
        else:
            assert "stress" not in atoms.calc.results


def test_our_own_reader_gives_the_labels_back(tmp_path, predicted):
    _, structures, labels = predicted
    write_extxyz(tmp_path / "out.extxyz", structures, **labels)
    back = load(tmp_path / "out.extxyz")
    assert torch.equal(back.labels.energies, labels["energies"])
    assert torch.allclose(back.labels.forces, labels["forces"], atol=1e-10, rtol=0)
    assert torch.allclose(back.labels.stress, labels["stress"], equal_nan=True)
    assert torch.equal(back.structures.cells, structures.cells)
    assert torch.equal(back.structures.periodic, structures.periodic)


def test_a_label_that_is_nan_is_left_out_of_its_frame_only(tmp_path, predicted):
    _, structures, labels = predicted
    energies, forces = labels["energies"].clone(), labels["forces"].clone()
    energies[1] = torch.nan
    forces[: structures.offsets[1]] = torch.nan
    write_extxyz(tmp_path / "out.extxyz", structures, energies=energies, forces=forces)
    back = ase.io.read(tmp_path / "out.extxyz", ":")
    assert "energy" not in back[1].calc.results
    assert "forces" not in back[0].calc.results
    assert "forces" in back[1].calc.results


def test_an_existing_file_stays_unless_overwriting_is_asked_for(tmp_path, predicted):
    _, structures, labels = predicted
    path = tmp_path / "out.extxyz"
    path.write_text("precious")
    with pytest.raises(InputError, match=r"exists"):
        write_extxyz(path, structures, **labels)
    assert path.read_text() == "precious"
    write_extxyz(path, structures, overwrite=True)
    assert len(ase.io.read(path, ":")) == len(structures)


@pytest.mark.parametrize("ending", ["extxyz", "npz", "traj", "db"])
def test_labels_of_other_structures_are_refused_in_every_format(tmp_path, predicted, ending):
    _, structures, labels = predicted
    with pytest.raises(InputError, match=r"Wanted forces of shape"):
        write_predictions(tmp_path / f"out.{ending}", structures, forces=labels["forces"][1:])
    assert list(tmp_path.iterdir()) == []
