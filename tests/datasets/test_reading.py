"""Reading .npz files: layouts, splits, units, and errors that say what to do."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from qml_lightning.atoms.units import ENERGY_IN_EV
from qml_lightning.datasets import load
from qml_lightning.datasets.readers import Address, address
from qml_lightning.errors import InputError

KCAL = ENERGY_IN_EV["kcal/mol"]
HARTREE = ENERGY_IN_EV["Hartree"]
BOHR = 0.5291772105638411
NUMBERS = np.array([8, 1, 1], np.uint8)


def molecules(n=6, seed=0) -> dict[str, np.ndarray]:
    """Rattled waters in the layout of rMD17, harmonic along their bonds, in kcal/mol and Å."""
    rng = np.random.default_rng(seed)
    rest = np.array([[0, 0, 0.1173], [0, 0.7572, -0.4692], [0, -0.7572, -0.4692]])
    coords = rest + rng.normal(scale=0.05, size=(n, 3, 3))
    forces, energies = np.zeros_like(coords), np.full(n, -47900.0)
    for h in (1, 2):
        bond = coords[:, h] - coords[:, 0]
        length = np.linalg.norm(bond, axis=1, keepdims=True)
        pull = -750 * (length - 0.96) * bond / length
        forces[:, h] += pull
        forces[:, 0] -= pull
        energies += 375 * (length[:, 0] - 0.96) ** 2
    return {"nuclear_charges": NUMBERS, "coords": coords, "energies": energies, "forces": forces}


def flat(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same frames laid end to end; the second has lost its last hydrogen."""
    n = len(arrays["coords"])
    keep = np.ones((n, 3), bool)
    keep[1, 2] = False
    return {
        "natoms": keep.sum(1).astype(np.uint8),
        "charges": np.tile(NUMBERS, n)[keep.ravel()],
        "coords": arrays["coords"][keep],
        "forces": arrays["forces"][keep],
        "energies": arrays["energies"],
    }


@pytest.fixture
def save(tmp_path):
    def save(arrays, name="set.npz"):
        np.savez_compressed(tmp_path / name, **arrays)
        return tmp_path / name

    return save


# layouts


@pytest.mark.parametrize("names", [("nuclear_charges", "coords", "energies", "forces"), ("z", "R", "E", "F")])
def test_one_molecule_per_file_is_read_under_both_names(save, names):
    raw = molecules()
    arrays = dict(zip(names, raw.values()))
    if names[2] == "E":
        arrays["E"] = arrays["E"][:, None]  # as MD17 has it
    data = load(save(arrays), energy_unit="kcal/mol")
    assert torch.equal(data.structures.positions.reshape(6, 3, 3), torch.from_numpy(raw["coords"]))
    assert torch.equal(data.structures.numbers.reshape(6, 3), torch.tensor([[8, 1, 1]] * 6))
    assert np.allclose(data.labels.energies, raw["energies"] * KCAL, rtol=1e-14)
    assert np.allclose(data.labels.forces, raw["forces"].reshape(-1, 3) * KCAL, rtol=1e-14)
    assert not data.structures.periodic.any()
    assert data.source.keys == {"energies": names[2], "forces": names[3]}


def test_frames_end_to_end_own_the_rows_that_natoms_says(save):
    raw = molecules()
    data = load(save(flat(raw)), energy_unit="kcal/mol")
    assert data.structures.counts.tolist() == [3, 2, 3, 3, 3, 3]
    third = data.select([2])
    assert np.allclose(third.structures.positions, raw["coords"][2])
    assert np.allclose(third.labels.forces, raw["forces"][2] * KCAL)


def test_counts_in_eight_bits_do_not_wrap_around(save):
    n = 200  # 600 atoms: more than a byte counts
    data = load(save(flat(molecules(n))), energy_unit="eV")
    assert data.structures.n_atoms == 3 * n - 1


def test_zeros_that_pad_the_smaller_molecules_are_no_atoms(save):
    raw = molecules(3)
    numbers = np.tile(NUMBERS, (3, 1))
    numbers[1, 2] = raw["coords"][1, 2] = raw["forces"][1, 2] = 0
    data = load(save(raw | {"nuclear_charges": numbers}), energy_unit="eV")
    assert data.structures.counts.tolist() == [3, 2, 3]
    assert np.allclose(data.select([1]).labels.forces, raw["forces"][1, :2])
    assert np.allclose(data.select([2]).structures.positions, raw["coords"][2])


def test_several_named_sets_in_one_file_are_chosen_by_name(save):
    a, b = molecules(4), molecules(3, seed=1)
    arrays = {"water_charges": NUMBERS, "isolated_charges": np.array([1, 8]), "isolated_energies": np.array([0.0, 1.0])}
    arrays |= {f"water_hot_{key}": a[key] for key in ("coords", "energies", "forces")}
    arrays |= {f"scan_{key}": b[key] for key in ("coords", "energies")}
    path = save(arrays)
    hot = load(f"{path}:water_hot", energy_unit="eV")
    assert np.array_equal(hot.labels.energies, a["energies"])
    scan = load(f"{path}:scan", energy_unit="eV")
    assert scan.structures.numbers[:3].tolist() == [8, 1, 1]
    assert scan.labels.kinds == ("energies",)
    with pytest.raises(InputError, match=r"holds several sets.*set\.npz:water_hot"):
        load(path, energy_unit="eV")


def periodic(n=4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    stress = rng.normal(size=(n, 3, 3))
    cell = 6 * np.eye(3) + rng.normal(scale=0.1, size=(n, 3, 3))
    return flat(molecules(n)) | {"cell": cell, "stress": stress + stress.transpose(0, 2, 1)}


def test_a_cell_makes_a_frame_periodic_and_a_zero_cell_does_not(save):
    arrays = periodic()
    arrays["cell"][2] = 0
    data = load(save(arrays), energy_unit="eV")
    assert data.structures.periodic.tolist() == [[True] * 3, [True] * 3, [False] * 3, [True] * 3]
    assert np.array_equal(data.structures.cells, arrays["cell"])
    assert data.labels.stress.isnan().all(2).all(1).tolist() == [False, False, True, False]
    assert "stress of 1 frames is ignored" in data.source.notes[-1]


def test_stress_in_voigt_order_and_virials_are_converted(save):
    arrays = periodic()
    stress = arrays.pop("stress")
    whole = load(save(arrays | {"stress": stress}), energy_unit="eV").labels.stress
    assert np.allclose(whole, stress)
    voigt = np.stack([stress[:, i, j] for i, j in ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))], axis=1)
    assert torch.equal(load(save(arrays | {"stress": voigt}), energy_unit="eV").labels.stress, whole)
    virial = -stress * np.abs(np.linalg.det(arrays["cell"]))[:, None, None]
    assert torch.allclose(load(save(arrays | {"virial": virial}), energy_unit="eV").labels.stress, whole)


# splits, slices and limits


def test_a_path_is_taken_apart_into_file_split_and_slice(tmp_path):
    there = tmp_path / "odd@1:2.npz"
    there.touch()
    assert address(there) == Address(str(there))
    assert address("a/set.npz:train") == Address("a/set.npz", "train")
    assert address("set.npz:train@:10") == Address("set.npz", "train", ":10")
    assert address("run.traj@-5:") == Address("run.traj", None, "-5:")
    assert address(r"C:\data\set.npz") == Address(r"C:\data\set.npz")
    assert address(r"C:\data\set.npz:train") == Address(r"C:\data\set.npz", "train")
    assert address("ethanol:test") == Address("ethanol", "test")
    assert address("me@home/set.npz") == Address("me@home/set.npz")
    assert [address(f"x@{text}").index for text in ("3", "-1", "1:9:2")] == [
        slice(3, 4),
        slice(-1, None),
        slice(1, 9, 2),
    ]


def test_a_split_gives_its_rows_in_its_order(save):
    raw = molecules()
    path = save(raw | {"train": np.array([4, 0, 2]), "mask_test": np.arange(6) == 5})
    assert np.array_equal(load(f"{path}:train", energy_unit="eV").labels.energies, raw["energies"][[4, 0, 2]])
    assert np.array_equal(load(path, split="train", energy_unit="eV").labels.energies, raw["energies"][[4, 0, 2]])
    assert len(load(f"{path}:mask_test", energy_unit="eV")) == 1
    assert np.array_equal(load(f"{path}:train@1:", energy_unit="eV").labels.energies, raw["energies"][[0, 2]])
    assert np.array_equal(load(f"{path}:train", limit=2, energy_unit="eV").labels.energies, raw["energies"][[4, 0]])


def test_an_unknown_split_is_answered_with_those_there_are(save):
    path = save(molecules() | {"train_01": np.arange(3), "test_01": np.arange(3, 6)})
    with pytest.raises(InputError, match=r"no split 'train'. It has train_01, test_01"):
        load(f"{path}:train", energy_unit="eV")


@pytest.mark.parametrize("row", [6, -1])
def test_a_split_that_points_outside_the_file_is_refused(save, row):
    path = save(molecules() | {"train": np.array([0, row])})
    with pytest.raises(InputError, match=f"row {row} is out of range, there are 6 frames"):
        load(f"{path}:train", energy_unit="eV")


def test_two_different_splits_or_an_empty_slice_are_refused(save):
    path = save(molecules() | {"train": np.arange(3), "test": np.arange(3, 6)})
    with pytest.raises(InputError, match=r"'train'.*'test'"):
        load(f"{path}:train", split="test", energy_unit="eV")
    with pytest.raises(InputError, match=r"no frames"):
        load(f"{path}:train@7:", energy_unit="eV")
    with pytest.raises(InputError, match=r"limit"):
        load(path, limit=0, energy_unit="eV")


# units


def test_a_file_without_units_is_refused_with_the_remedy_and_a_hint(save):
    with pytest.raises(InputError, match=r"set\.npz does not say its units\. Add --energy-unit kcal/mol") as error:
        load(save(molecules(200)))
    assert "forces in kcal/mol/Å" in str(error.value)
    arrays = molecules(200)
    arrays["forces"] *= KCAL / HARTREE
    arrays["energies"] *= KCAL / HARTREE
    with pytest.raises(InputError, match=r"forces in Hartree/Å"):
        load(save(arrays))
    del arrays["forces"]
    with pytest.raises(InputError, match=r"total energies in Hartree"):
        load(save(arrays))


def test_units_are_converted_at_the_door(save):
    arrays = periodic()
    data = load(save(arrays | {"coords": arrays["coords"] / BOHR}), energy_unit="hartree", length_unit="bohr")
    assert np.allclose(data.structures.positions, arrays["coords"])
    assert np.allclose(data.structures.cells, arrays["cell"] * BOHR)
    assert np.allclose(data.labels.energies, arrays["energies"] * HARTREE)
    assert np.allclose(data.labels.forces, arrays["forces"] * HARTREE / BOHR)
    assert np.allclose(data.labels.stress, arrays["stress"] * HARTREE / BOHR**3)


def test_forces_may_have_a_unit_of_their_own(save):
    arrays = molecules()
    data = load(save(arrays), energy_unit="Hartree", force_unit="Hartree/Bohr")
    assert np.allclose(data.structures.positions, arrays["coords"].reshape(-1, 3))
    assert np.allclose(data.labels.forces, arrays["forces"].reshape(-1, 3) * HARTREE / BOHR)


@pytest.mark.parametrize(
    "stated",
    [
        {"energy_unit": "kcal/mol", "length_unit": "Å"},
        {"e_unit": b"kcal/mol", "r_unit": b"Ang"},
        {"units": "kcal/mol, angstrom"},
    ],
)
def test_units_stored_in_the_file_are_used(save, stated):
    arrays = molecules() | {key: np.array(text) for key, text in stated.items()}
    data = load(save(arrays))
    assert np.allclose(data.labels.energies, arrays["energies"] * KCAL)
    assert data.source.notes == ()


def test_a_unit_that_contradicts_the_file_is_refused(save):
    path = save(molecules() | {"energy_unit": np.array("kcal/mol")})
    with pytest.raises(InputError, match=r"Mixed units: --energy-unit says eV, but set.npz is known to be in kcal/mol"):
        load(path, energy_unit="eV")
    with pytest.raises(InputError, match=r"Mixed units"):
        load("ethanol", energy_unit="eV")
    assert len(load("ethanol", energy_unit="kcal/mol", limit=1)) == 1


def test_coordinates_that_do_not_look_like_angstrom_are_not_taken_for_it(save):
    arrays = molecules()
    path = save(arrays | {"coords": arrays["coords"] / BOHR})
    with pytest.raises(InputError, match=r"bonds of hydrogen are 1.8.* Bohr would be usual.*--length-unit"):
        load(path, energy_unit="kcal/mol")
    assert np.allclose(
        load(path, energy_unit="kcal/mol", length_unit="Å").structures.positions, arrays["coords"].reshape(-1, 3) / BOHR
    )


def test_angstrom_that_was_not_stated_is_noted(save):
    assert "Å is assumed" in load(save(molecules()), energy_unit="eV").source.notes[0]


def test_an_unknown_unit_is_answered_with_the_known_ones(save):
    with pytest.raises(InputError, match=r"Unknown energy unit 'furlong'. Known are eV"):
        load(save(molecules()), energy_unit="furlong")
    with pytest.raises(InputError, match=r"'parsec', which is unknown. Add --length-unit"):
        load(save(molecules() | {"length_unit": np.array("parsec")}), energy_unit="eV")


def test_structures_alone_need_no_energy_unit(save):
    arrays = molecules()
    assert load(save(arrays), labels="ignored").labels.kinds == ()
    del arrays["energies"], arrays["forces"]
    assert load(save(arrays)).labels.kinds == ()


# labels


def test_an_energy_under_another_name_is_asked_for(save):
    arrays = molecules()
    arrays |= {"U0": arrays.pop("energies"), "mu": np.ones(6)}
    del arrays["forces"]
    with pytest.raises(InputError, match=r"U0 may hold them. Add --energy-key U0"):
        load(save(arrays), energy_unit="eV")
    data = load(save(arrays), energy_unit="eV", energy_key="U0")
    assert np.array_equal(data.labels.energies, arrays["U0"])
    assert data.source.keys["energies"] == "U0"
    with pytest.raises(InputError, match=r"no key 'U1'. It has nuclear_charges"):
        load(save(arrays), energy_unit="eV", energy_key="U1")


def test_forces_alone_are_enough_and_a_label_can_be_left_out(save):
    arrays = molecules()
    assert load(save(arrays), energy_unit="eV", energy_key="").labels.kinds == ("forces",)
    arrays["dihedral"] = arrays.pop("energies")
    assert load(save(arrays), energy_unit="eV").labels.kinds == ("forces",)


def test_labels_that_are_required_must_be_there(save):
    arrays = molecules()
    del arrays["energies"], arrays["forces"]
    with pytest.raises(InputError, match=r"no energies, forces or stress"):
        load(save(arrays), labels="required")


# bad files


@pytest.mark.parametrize("kind", ["coords", "energies", "forces"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_number_that_is_none_is_refused_and_the_frame_named(save, kind, value):
    arrays = molecules() | {"train": np.array([0, 1, 4]), "clean": np.array([0, 1])}
    arrays[kind][4].flat[-1] = value if arrays[kind].ndim > 1 else 0
    if arrays[kind].ndim == 1:
        arrays[kind][4] = value
    path = save(arrays)
    with pytest.raises(InputError, match=r"set\.npz, frame 4 has"):
        load(f"{path}:train", energy_unit="eV", length_unit="Å")
    assert len(load(f"{path}:clean", energy_unit="eV")) == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"coords": np.zeros((6, 9))}, "wanted coords of shape"),
        ({"nuclear_charges": np.array([8, 1])}, r"nuclear_charges must have the shape \(3,\) or \(6, 3\), got \(2,\)"),
        ({"nuclear_charges": np.array([8.5, 1, 1])}, "wanted whole atomic numbers in nuclear_charges"),
        ({"nuclear_charges": np.array([8, 1, 119])}, "frame 0: 119 is no atomic number"),
        ({"energies": np.zeros(5)}, "wanted 6 energies"),
        ({"forces": np.zeros((6, 2, 3))}, r"wanted forces of shape \(6, 3, 3\) like the coordinates"),
        ({"forces": np.full((6, 3, 3), "x")}, "wanted numbers in forces"),
        ({"stress": np.zeros((6, 4))}, "wanted a stress of 3×3, 9 or 6"),
        ({"cell": np.zeros((5, 3, 3))}, "wanted cell of shape"),
        ({"cell": np.ones((6, 3, 3))}, r"frame 0 is periodic.*does not span"),
        ({"pbc": np.array([True, True, True])}, r"frame 0 is periodic.*Give a cell"),
        ({"coords": np.zeros((0, 3, 3))}, "no frames"),
    ],
)
def test_wrong_shapes_and_values_are_told(save, change, says):
    with pytest.raises(InputError, match=says):
        load(save(molecules() | change), energy_unit="eV", length_unit="Å")


def test_counts_that_do_not_add_up_are_told(save):
    arrays = flat(molecules())
    arrays["natoms"][0] = 2
    with pytest.raises(InputError, match=r"natoms add up to 16, but there are 17 charges and 17 coords"):
        load(save(arrays), energy_unit="eV")


def test_a_file_without_coordinates_is_told_which_keys_it_has(save):
    with pytest.raises(InputError, match=r"no coordinates.*got weights"):
        load(save({"weights": np.zeros(3)}), energy_unit="eV")
    with pytest.raises(InputError, match=r"no atomic numbers.*got coords"):
        load(save({"coords": np.zeros((2, 3, 3))}), energy_unit="eV")


def test_a_cut_or_damaged_file_is_an_input_error_wherever_it_is_cut(save, tmp_path):
    whole = save(molecules(50)).read_bytes()
    broken = tmp_path / "broken.npz"
    for end in np.linspace(1, len(whole) - 1, 40).astype(int):
        broken.write_bytes(whole[:end])
        with pytest.raises(InputError, match=r"broken\.npz"):
            load(broken, energy_unit="eV")
    for start in np.linspace(40, len(whole) // 2, 20).astype(int):
        broken.write_bytes(whole[:start] + bytes(64) + whole[start + 64 :])
        with pytest.raises(InputError, match=r"broken\.npz"):
            load(broken, energy_unit="eV")


def test_pickles_are_never_opened(save, tmp_path):
    class Trap:
        def __reduce__(self):
            return pytest.fail, ("a pickle was executed",)

    arrays = molecules()
    path = tmp_path / "trap.npz"
    np.savez(path, **arrays | {"energies": np.array([Trap()] * 6)})
    with pytest.raises(InputError, match=r"pickled.*could run code"):
        load(path, energy_unit="eV")
    (tmp_path / "other.npz").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InputError, match=r"other\.npz"):
        load(tmp_path / "other.npz", energy_unit="eV")
    np.save(tmp_path / "array.npy", arrays["coords"])
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    with pytest.raises(InputError, match=r"one array without a name"):
        load(tmp_path / "array.npz", energy_unit="eV")


def test_an_empty_or_missing_file_is_told_with_names_that_are_near(save, tmp_path):
    (tmp_path / "empty.npz").touch()
    with pytest.raises(InputError, match=r"is empty"):
        load(tmp_path / "empty.npz")
    save(molecules(), "training.npz")
    with pytest.raises(InputError, match=r"no file .*traning\.npz.*Did you mean .*training\.npz"):
        load(tmp_path / "traning.npz")
    with pytest.raises(InputError, match=r"Did you mean ethanol"):
        load("ethanl")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"The folder .* has no file that ends in"):
        load(tmp_path / "folder")


# the real sets


def test_rmd17_equals_numpy_on_the_raw_file(shared_data):
    path = shared_data / "rmd17" / "rmd17_ethanol.npz"
    data = load(f"{path}:train_02")  # units: known by checksum
    with np.load(path) as raw:
        rows = raw["train_02"]
        assert np.array_equal(data.structures.positions.reshape(-1, 9, 3), raw["coords"][rows])
        assert np.allclose(data.labels.energies, raw["energies"][rows] * 0.0433641039, rtol=1e-9)
        assert np.allclose(data.labels.forces.reshape(-1, 9, 3), raw["forces"][rows] * 0.0433641039, rtol=1e-9)
    assert data.source.name == "rmd17_ethanol"
    assert data.source.split == "train_02"


def test_a_periodic_set_equals_numpy_on_the_raw_file(shared_data):
    path = shared_data / "zuo2020" / "Si.npz"
    data = load(f"{path}:test")
    with np.load(path) as raw:
        offsets = np.concatenate([[0], np.cumsum(raw["natoms"].astype(int))])
        for s, row in enumerate(raw["test"]):
            one, atoms = data.select([s]), slice(offsets[row], offsets[row + 1])
            assert np.array_equal(one.structures.positions, raw["coords"][atoms])
            assert np.array_equal(one.labels.forces, raw["forces"][atoms])
            assert np.array_equal(one.structures.cells[0], raw["cell"][row])
            assert np.array_equal(one.labels.stress[0], raw["stress"][row])
            assert one.labels.energies[0] == raw["energies"][row]


def test_the_largest_set_is_read_whole(shared_data):
    data = load(shared_data / "qm9" / "qm9.npz")
    assert len(data) == 115831
    assert data.source.keys == {"energies": "U0"}
    free = torch.zeros(10, dtype=torch.float64)
    free[[1, 6, 7, 8, 9]] = torch.tensor(
        [-0.500273, -37.846772, -54.583861, -75.064579, -99.718730], dtype=torch.float64
    )
    atoms = torch.bincount(data.structures.structure_of_atom, free[data.structures.numbers])
    per_atom = (data.labels.energies / HARTREE - atoms) * HARTREE / data.structures.counts
    assert -6.5 < per_atom.min() < per_atom.max() < -3  # every molecule is bound by a few eV per atom
