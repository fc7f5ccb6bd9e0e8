"""The native library reads model files by itself: to the same bits as Python, and no damaged one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from altered_files import alter
from kernel_tables import ON_CPU
from places import HELPERS, ROOT
from qml_lightning import exact, fit, load, structures_from_ase
from qml_lightning.atoms.neighbours import element_indices
from qml_lightning.errors import InputError, ModelError
from qml_lightning.kernels.native.predictor import NativePredictor
from qml_lightning.model.representations.fchl19 import ENERGIES_AND_FORCES
from small_models import crystals, molecules, recipe

pytestmark = pytest.mark.skipif("native" not in ON_CPU, reason="the native kernels are not built")

PAIR = replace(ENERGIES_AND_FORCES, cutoff=4.0, n_radial2=7, n_radial3=5)
RECIPES = {
    "sorf": recipe(),
    "sorf, paired, scaled, three transforms": recipe(paired=True, chi_scaled=True, n_transforms=3),
    "rff, blocks": recipe(method="rff", blocks=True, n_features=96, rank=20),
    "orf, paired": recipe(method="orf", paired=True, n_features=96, rank=20),
    "angular pair, smoother cutoff": recipe(representation=replace(PAIR, cutoff_power=2)),
    "float32": recipe(precision="float32"),
}


def predicted(predictor: NativePredictor, structures, elements):
    numbers, s = element_indices(structures.numbers, elements), structures
    return predictor.predict(s.offsets, numbers, s.positions, s.cells, s.periodic, forces=True, virial=True)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("data", [molecules, crystals])
def test_a_file_gives_the_same_bits_as_the_model_that_python_read(name, data, tmp_path):
    path, structures = tmp_path / "model.safetensors", data().structures
    fit(data(), RECIPES[name]).save(path)
    model = load(path)
    read = NativePredictor.load(path)
    assert read.elements == model.elements
    assert read.cutoff == model.recipe.representation.cutoff
    assert f"float{read.precision}" == model.prediction_precision
    for found, wanted in zip(
        predicted(read, structures, model.elements),
        predicted(model.on(kernels="native")._whole_path, structures, model.elements),
        strict=True,
    ):
        assert torch.equal(found, wanted)


def test_a_file_of_the_first_version_is_read():
    path = ROOT / "tests" / "data" / "water.safetensors"
    read, model = NativePredictor.load(path), load(path)
    from structures_for_tests import WATER

    energies = predicted(read, structures_from_ase(WATER), model.elements)[0]
    assert energies.item() == model.on(precision="float64", kernels="native").predict(WATER).energies.item()


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "ethanol.safetensors"
    fit(molecules(), recipe(n_features=64, rank=16)).save(path)
    return path


def test_a_flipped_bit_anywhere_is_refused(model_file, tmp_path):
    raw, path = model_file.read_bytes(), tmp_path / "flipped.safetensors"
    random = np.random.default_rng(0)
    for at in random.integers(8, len(raw), 100):
        broken = bytearray(raw)
        broken[at] ^= 1 << int(random.integers(8))
        path.write_bytes(broken)
        with pytest.raises(ModelError):
            NativePredictor.load(path)


@pytest.mark.parametrize("seed", [int(os.environ.get("QML_FUZZ_SEED", "0"))])
def test_no_damaged_file_ends_the_process(model_file, seed):
    program = [sys.executable, str(HELPERS / "native_file_fuzz.py"), str(model_file), str(seed), "2000"]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    # some changes mean nothing: a word of the provenance, or a bit in the last digit of a weight
    assert int(done.stdout) > 1000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda header: header.update(format_version=99), "Update it"),
        (lambda header: header.update(elements=[8, 1]), "elements"),
        (lambda header: header["recipe"]["representation"].update(kind="soap"), 'a representation "soap"'),
        (lambda header: header["recipe"].update(rank=17), "projection of shape"),
        (lambda header: header["recipe"]["representation"].update(n_radial2=2**31 - 1), "projection of shape"),
        (lambda header: header["recipe"]["features"].update(n_features=2**31 - 1), "n_features"),
        (lambda header: header.pop("recipe"), "recipe"),
    ],
)
def test_a_header_that_does_not_fit_is_refused_in_words(model_file, tmp_path, change, words):
    path = tmp_path / "altered.safetensors"
    path.write_bytes(model_file.read_bytes())
    alter(path, change)
    with pytest.raises((ModelError, InputError), match=words):
        NativePredictor.load(path)


def test_a_model_with_explicit_kernels_is_refused_in_words(tmp_path):
    fit(molecules(4), exact.OQML, targets=["energies"]).save(tmp_path / "exact.safetensors")
    with pytest.raises(InputError, match="explicit kernels"):
        NativePredictor.load(tmp_path / "exact.safetensors")


def test_numbers_are_read_with_a_point_in_every_locale(model_file):
    code = (
        "import locale, sys\n"
        "for name in ('de_DE.UTF-8', 'fr_FR.UTF-8', 'C'):\n"
        "    try: locale.setlocale(locale.LC_ALL, name); break\n"
        "    except locale.Error: pass\n"
        "from qml_lightning.kernels.native.predictor import NativePredictor\n"
        "print(NativePredictor.load(sys.argv[1]).cutoff)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(model_file)], capture_output=True, text=True, check=True)
    assert float(done.stdout) == load(model_file).recipe.representation.cutoff
