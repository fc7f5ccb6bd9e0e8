"""Corrections to a cheaper method: a column of energies, or an ASE calculator."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from ase.calculators.calculator import Calculator, all_changes
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import read, write

import qml_lightning as qml
from places import SHARED_DATA
from qml_lightning.adapters.ase import QMLLightning
from qml_lightning.cli import main
from qml_lightning.errors import InputError
from qml_lightning.training.equations import extended
from qml_lightning.training.sweep import equations_of
from small_models import crystals, molecules, recipe
from structures_for_tests import rattled

COLUMN = "cheap"
QM7 = SHARED_DATA / "qm7" / "qm7.npz"


class Repelling(Calculator):
    """EMT and a smooth repulsion of all pairs, which a correction to EMT has to learn."""

    implemented_properties = ("energy", "forces")

    def calculate(self, atoms=None, properties=("energy",), system_changes=tuple(all_changes)):
        super().calculate(atoms, properties, system_changes)
        bare = atoms.copy()
        bare.calc = EMT()
        vectors = atoms.positions[:, None] - atoms.positions[None]
        lengths = np.linalg.norm(vectors, axis=2) + 1e3 * np.eye(len(atoms))
        push = 3.0 * np.exp(-lengths)
        self.results = {
            "energy": bare.get_potential_energy() + 0.5 * float(push.sum()),
            "forces": bare.get_forces() + ((push / lengths)[:, :, None] * vectors).sum(1),
        }


def frames_of(n: int, seed: int = 0) -> list:
    from ase.build import molecule

    frames = [rattled(molecule("CH3CH2OH"), seed + k, 0.05) for k in range(n)]
    for atoms in frames:
        found = atoms.copy()
        found.calc = Repelling()
        results = {"energy": found.get_potential_energy(), "forces": found.get_forces()}
        bare = atoms.copy()
        bare.calc = EMT()
        atoms.info[COLUMN] = bare.get_potential_energy()
        atoms.calc = SinglePointCalculator(atoms, **results)
    return frames


def without_forces(frames: list) -> list:
    for atoms in frames:
        atoms.calc = SinglePointCalculator(atoms, energy=atoms.get_potential_energy())
    return frames


# ---- a calculator ----------------------------------------------------------------------------------------------------


def test_the_sum_with_a_calculator_gives_energies_and_forces_of_the_better_method():
    potential = qml.fit(qml.past_calculator(frames_of(40), EMT()), recipe(n_features=512, rank=64))
    assert potential.corrects == "calculator EMT"
    assert potential.repulsion is None  # that of EMT is enough
    atoms = frames_of(1, seed=900)[0]
    wanted = atoms.get_potential_energy(), atoms.get_forces()
    atoms.calc = potential.calculator(baseline=EMT())
    assert atoms.get_potential_energy() == pytest.approx(wanted[0], abs=0.02)
    assert np.abs(atoms.get_forces() - wanted[1]).mean() < 0.1
    bare = atoms.copy()
    bare.calc = EMT()
    alone = atoms.copy()
    alone.calc = QMLLightning(potential, correction=True)
    both = bare.get_potential_energy() + alone.get_potential_energy()
    assert atoms.get_potential_energy() == pytest.approx(both, abs=1e-10)
    assert np.allclose(atoms.get_forces(), bare.get_forces() + alone.get_forces(), atol=1e-10)


def test_labels_less_those_of_the_calculator_itself_are_zero():
    frames = []
    data = crystals(3)
    for k in range(3):
        own = slice(int(data.structures.offsets[k]), int(data.structures.offsets[k + 1]))
        from ase import Atoms

        atoms = Atoms(
            data.structures.numbers[own].numpy(), data.structures.positions[own].numpy(),
            cell=data.structures.cells[k].numpy(), pbc=True,
        )  # fmt: skip
        atoms.calc = EMT()
        atoms.get_potential_energy(), atoms.get_forces(), atoms.get_stress()
        frames.append(atoms)
    past = qml.past_calculator(frames, EMT(), name="my EMT")
    assert past.source.baseline == "calculator my EMT"
    assert set(past.labels.kinds) == {"energies", "forces", "stress"}
    for kind in past.labels.kinds:
        assert float(getattr(past.labels, kind).abs().max()) < 1e-9


def test_a_correction_is_no_potential_by_itself_and_a_potential_no_correction(tmp_path, capsys):
    correction = qml.fit(qml.past_calculator(frames_of(10), EMT()), recipe(n_features=128))
    with pytest.raises(InputError, match="correction to calculator EMT"):
        correction.calculator()
    whole = qml.fit(molecules(6), recipe(n_features=128))
    with pytest.raises(InputError, match="count twice"):
        whole.calculator(baseline=EMT())
    path = tmp_path / "m.safetensors"
    correction.save(str(path))
    write(tmp_path / "one.xyz", frames_of(1)[0])
    assert main(["md", str(path), str(tmp_path / "one.xyz"), "-o", str(tmp_path / "run.extxyz"), "--steps", "2"]) == 2
    assert "no potential by itself" in capsys.readouterr().err
    assert main(["predict", str(path), str(tmp_path / "one.xyz"), "-o", str(tmp_path / "p.extxyz")]) == 2
    assert "cannot run" in capsys.readouterr().err
    given = ["predict", str(path), str(tmp_path / "one.xyz"), "-o", str(tmp_path / "p.extxyz"), "--baseline", ""]
    assert main(given) == 0


# ---- a column --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("delta")
    write(folder / "train.extxyz", without_forces(frames_of(40)))
    write(folder / "test.extxyz", without_forces(frames_of(8, seed=700)))
    return folder


def test_a_column_is_subtracted_from_the_labels_and_kept(files):
    data = qml.load_dataset(files / "train.extxyz", baseline=COLUMN)
    whole = qml.load_dataset(files / "train.extxyz")
    assert torch.allclose(data.labels.energies + data.baseline, whole.labels.energies, atol=1e-9)
    assert torch.allclose(data.select([3, 1]).baseline, data.baseline[[3, 1]])
    assert qml.fit(data, recipe(n_features=128)).corrects == COLUMN


def test_the_command_line_learns_the_difference_and_adds_the_column_again(files, tmp_path, capsys):
    model = str(tmp_path / "m.safetensors")
    fit = ["--features", "256", "--rank", "64", "--ridge", "1e-8", "--sigma", "8", "--outliers", "keep"]
    assert main(["train", str(files / "train.extxyz"), "-m", model, "--baseline", COLUMN, *fit, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["provenance"]["data"]["baseline"] == COLUMN
    assert main(["evaluate", model, str(files / "test.extxyz"), "--json"]) == 0
    error = json.loads(capsys.readouterr().out)["energy"]["mae"]
    assert main(["predict", model, str(files / "test.extxyz"), "-o", str(tmp_path / "p.extxyz")]) == 0
    found = [atoms.get_potential_energy() for atoms in read(tmp_path / "p.extxyz", ":")]
    wanted = [atoms.get_potential_energy() for atoms in read(files / "test.extxyz", ":")]
    assert np.abs(np.array(found) - wanted).mean() == pytest.approx(error, rel=1e-6)
    assert "forces" not in read(tmp_path / "p.extxyz").calc.results


def test_data_without_the_column_are_refused_with_its_name(files, tmp_path, capsys):
    model = str(tmp_path / "m.safetensors")
    qml.fit(qml.load_dataset(files / "train.extxyz", baseline=COLUMN), recipe(n_features=128)).save(model)
    bare = frames_of(1)[0]
    bare.info.clear()
    write(tmp_path / "bare.extxyz", bare)
    assert main(["predict", model, str(tmp_path / "bare.extxyz"), "-o", str(tmp_path / "p.extxyz")]) == 2
    assert COLUMN in capsys.readouterr().err


def test_forces_are_refused_beside_a_column_of_energies():
    from qml_lightning.datasets import from_ase

    with pytest.raises(InputError, match="forces as well"):
        from_ase(frames_of(3), baseline=COLUMN)


def test_equations_with_another_baseline_do_not_add(files):
    data = qml.load_dataset(files / "train.extxyz", baseline=COLUMN)
    equations = equations_of(data, recipe(n_features=64))
    with pytest.raises(InputError, match="Different baselines"):
        extended(equations, qml.load_dataset(files / "test.extxyz"))


@pytest.mark.skipif(not QM7.is_file(), reason=f"{QM7} is not here")
def test_on_qm7_the_difference_to_dftb_is_learnt_far_better_than_the_energies_themselves():
    errors = {}
    for key in (None, "dftb_energies"):
        train, test = (
            qml.load_dataset(f"qm7:{split}", baseline=key, data_folder=SHARED_DATA).subsample(300, seed=0)
            for split in ("train", "test")
        )
        given = {"n_features": 1024, "ridge": 1e-5, "projection_samples": 300, "repulsion": False}
        errors[key] = qml.evaluate(qml.fit(train, qml.recipes.FCHL19, **given), test).energy.mae
    assert errors["dftb_energies"] < 0.6 * errors[None], errors
