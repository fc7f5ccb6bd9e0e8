"""The native feature kernels against explicit matrices and cosines in float64."""

from __future__ import annotations

import ctypes
import functools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from feature_inputs import Inputs, exact, feature_map, naive, widened
from feature_inputs import fast as all_kernels
from qml_lightning.errors import InputError
from qml_lightning.kernels import FeatureMap, native
from qml_lightning.kernels.native import library as native_library
from qml_lightning.kernels.native.functions import map_struct

CPU = torch.device("cpu")
DTYPES = [torch.float32, torch.float64]
MAPS = [(0, 5), (0, 128)] + [(n, rank) for n in (1, 2, 3) for rank in (2, 16, 128, 256)] + [(2, 64), (2, 1024)]
N_ATOMS = [1, 3, 16, 17, 37]

pytestmark = pytest.mark.skipif(
    (_why := native.why_not(CPU, torch.float32)) is not None, reason=f"native kernels: {_why}"
)


fast = functools.partial(all_kernels, native)


@functools.cache
def twins(f: FeatureMap) -> list[tuple[Inputs, dict[str, np.ndarray], dict[str, Tensor]]]:
    """Inputs for several numbers of atoms with the truth and with what plain torch finds."""
    slow = f.phases.dtype == torch.float64 and f.rank > 256  # products of long doubles
    inputs = [Inputs.drawn(f, n_atoms) for n_atoms in ([3] if slow else N_ATOMS)]
    return [(i, exact(f, i), naive(f, i)) for i in inputs]


# Beyond twice the error of plain torch, in units of the last place. None in float32. In float64 torch's cosine is exact
# to half a unit, and where few terms make an angle there is little else; the series here is good to two units.
MARGIN = {torch.float32: 0.0, torch.float64: 2.0}


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="nothing here is more exact than float64")
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(("n_transforms", "rank"), MAPS)
@pytest.mark.parametrize(("dtype", "wide"), [*((dtype, False) for dtype in DTYPES), (torch.float32, True)])
def test_errors_are_at_most_twice_those_of_plain_torch(isa, dtype, wide, n_transforms, rank, paired):
    """In the root mean square over all outputs: the largest of a few errors is a matter of luck."""
    f = feature_map(n_transforms, rank, paired, dtype)
    squares: dict[str, np.ndarray] = {}
    for inputs, truth, plain in twins(f):
        found = fast(f, widened(inputs) if wide else inputs)
        for name, value in truth.items():
            # an energy cancels: its error is that of the sum of its terms
            size = value if name != "energy" else f.amplitude * inputs.weights.double().norm().numpy() + 0 * value
            parts = (found[name].numpy() - value, plain[name].numpy() - value, size)
            squares[name] = squares.get(name, np.zeros(3)) + [float((part**2).sum()) for part in parts]
    for name, (fast_square, plain_square, size_square) in squares.items():
        error, allowed = fast_square**0.5, 2 * plain_square**0.5
        allowed += MARGIN[dtype] * torch.finfo(dtype).eps * size_square**0.5
        assert error <= allowed, (name, error, allowed)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(("n_transforms", "rank"), MAPS)
@pytest.mark.parametrize("n_atoms", [3, 45])
def test_products_in_double_with_features_in_float_are_those_of_one_matrix(isa, n_atoms, n_transforms, rank, paired):
    """Forward, transposed and as rows they agree to the last digits of double, which those of float do not."""
    f = feature_map(n_transforms, rank, paired, torch.float32)
    narrow = Inputs.drawn(f, n_atoms)
    i = widened(narrow)
    found = fast(f, i)
    along = native.tangent_products(narrow.many, i.owner, found["slope"])
    by_row = torch.zeros(i.n_rows, dtype=torch.float64).index_add_(0, i.row, along)
    energies = torch.zeros(i.n_rows, dtype=torch.float64).index_add_(0, i.row_of_atom, found["energy"])
    size = f.amplitude * f.n_features**0.5 * (1 + i.many.norm() * i.x.norm())
    assert (found["force rows"] @ i.weights - by_row).abs().max() < 1e-13 * size
    assert (found["energy rows"] @ i.weights - energies).abs().max() < 1e-13 * size
    one = found["energy"] @ i.coefficients + (found["slope"] * i.tangents).sum()
    assert (found["moment"] @ i.weights - one).abs() < 1e-13 * size * n_atoms
    coefficients = i.coefficients.repeat(len(i.owner) // n_atoms)[: len(i.owner)]
    sums = native.tangent_sums(narrow.many, i.owner, coefficients, n_atoms, torch.float64)
    assert sums.dtype == torch.float64
    assert ((sums * found["slope"]).sum() - coefficients @ along).abs() < 1e-13 * size * n_atoms


@pytest.mark.parametrize("n_transforms", [0, 2])
def test_no_atoms_give_nothing(isa, n_transforms):
    f = feature_map(n_transforms, 16, True, torch.float32)
    found = fast(f, Inputs.drawn(f, 0))
    assert found["features"].shape == (0, f.n_features)
    assert found["energy"].shape == (0,)
    assert found["slope"].shape == (0, 16)
    assert not found["moment"].any()
    assert not found["energy rows"].any()
    assert not found["force rows"].any()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n_atoms", [3, 21, 300])
def test_same_input_same_bits(isa, threads, n_atoms):
    f = feature_map(2, 128, False, torch.float32, n_blocks=32)
    inputs = Inputs.drawn(f, n_atoms)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        one, other = fast(f, inputs), fast(f, inputs)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_threads_change_nothing_but_rounding(isa):
    f = feature_map(2, 128, True, torch.float64, n_blocks=16)
    inputs = Inputs.drawn(f, 45)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(fast(f, inputs))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        for name, value in found[0].items():
            torch.testing.assert_close(other[name], value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_added_to_what_is_there_and_stay_within_their_columns(isa, dtype, paired):
    f = feature_map(2, 16, paired, dtype)
    i, n = Inputs.drawn(f, 5), f.n_features
    found = fast(f, i)
    for name, add in (
        ("energy rows", lambda out: native.energy_rows(f, i.x, i.row_of_atom, out)),
        ("force rows", lambda out: native.force_rows(f, i.x, i.many, i.owner, i.row, out)),
    ):
        wide = torch.ones(i.n_rows, n + 20, dtype=torch.float64)
        add(wide[:, 10 : n + 10])
        torch.testing.assert_close(wide[:, 10 : n + 10] - 1, found[name])
        assert (wide[:, :10] == 1).all()
        assert (wide[:, n + 10 :] == 1).all()


@pytest.mark.parametrize("which", ["coefficients", "tangents"])
def test_moment_of_values_alone_and_of_tangents_alone(isa, which):
    f = feature_map(2, 128, True, torch.float64)
    i = Inputs.drawn(f, 9)
    if which == "tangents":
        found = native.feature_moment(f, i.x, None, i.tangents)
        wanted = native.feature_moment(f, i.x, torch.zeros_like(i.coefficients), i.tangents)
    else:
        found = native.feature_moment(f, i.x, i.coefficients, None)
        wanted = native.feature_moment(f, i.x, i.coefficients, torch.zeros_like(i.tangents))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sine_and_cosine_are_good_up_to_ten_thousand_radians(isa, dtype):
    # One frequency, u = x: the only error is that of reduction and series.
    f = FeatureMap(torch.zeros(2, dtype=dtype), True, matrix=torch.eye(2, dtype=dtype))
    u = torch.cat([torch.linspace(-1e4, 1e4, 200_001), torch.linspace(-10, 10, 200_001)]).to(dtype)
    z = native.features(f, torch.stack([u, -u], 1).contiguous()).double() / f.amplitude
    # 2 units in the last place of 1, and half of one for the amplitude that a feature is multiplied by
    bound = 2.5 * torch.finfo(dtype).eps
    assert ((z[:, 0] - u.double().cos()).abs() <= bound).all()
    assert ((z[:, 2] - u.double().sin()).abs() <= bound).all()
    assert ((z[:, 3] + u.double().sin()).abs() <= bound).all()


def test_tangents_are_summed_with_coefficients_of_any_precision():
    """A converted copy of them must live as long as the call."""
    g = torch.Generator().manual_seed(2)
    tangents, coefficients = torch.randn(500, 32, generator=g), torch.randn(500, generator=g)
    owner = torch.randint(0, 9, (500,), generator=g).sort().values
    wanted = native.tangent_sums(tangents, owner, coefficients.double(), 9)
    for _ in range(20):
        assert torch.equal(native.tangent_sums(tangents, owner, coefficients, 9), wanted)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", DTYPES)
def test_undefined_numbers_are_refused_by_name(dtype, poison):
    f = feature_map(2, 16, False, dtype)
    i = Inputs.drawn(f, 5)
    for name in ("x", "weights", "coefficients", "tangents", "many"):
        getattr(i, name).view(-1)[-1] = poison
        with pytest.raises(InputError, match="infinite or undefined"):
            fast(f, i)
        getattr(i, name).view(-1)[-1] = 0.0


def test_rows_and_owners_out_of_range_are_refused():
    f = feature_map(2, 16, False, torch.float32)
    i = Inputs.drawn(f, 5)
    out = torch.zeros(i.n_rows, f.n_features, dtype=torch.float64)
    bad = [(i.owner.flip(0), i.row, "owner"), (i.owner + 5, i.row, "owner"), (i.owner, i.row - 7, "row")]
    for owner, row, said in bad:
        with pytest.raises(InputError, match=said):
            native.force_rows(f, i.x, i.many, owner, row, out)
    with pytest.raises(InputError, match=r"row must lie within 0 \.\.\. 6"):
        native.energy_rows(f, i.x, i.row_of_atom + 7, out)
    for wrong in (out.float(), out[:, 1:], out.T, out[0]):
        with pytest.raises(InputError, match=r"out must be torch.float64 rows of 48 adjacent columns on the CPU, got"):
            native.energy_rows(f, i.x, i.row_of_atom, wrong)
    assert not out.any()


BAD_MAPS = [
    ({"rank": 12}, "power of two"),
    ({"rank": 2048}, "1024"),
    ({"rank": 0}, "rank"),
    ({"rank": -16}, "rank"),
    ({"n_frequencies": 40}, "multiple"),
    ({"n_frequencies": -48}, "n_frequencies"),
    ({"n_transforms": -1}, "n_transforms"),
    ({"n_transforms": 0}, "matrix is null"),
    ({"paired": 3}, "paired"),
    ({"amplitude": math.nan}, "amplitude"),
    ({"signs": None}, "signs is null"),
]


@pytest.mark.parametrize(("change", "said"), BAD_MAPS)
def test_bad_maps_give_a_code_and_a_sentence(change, said):
    f = feature_map(2, 16, False, torch.float32)
    c_map = map_struct(f, torch.float32)
    for name, value in change.items():
        setattr(c_map, name, value)
    x, out = torch.zeros(1, 16), torch.zeros(1, f.n_features)
    library = native_library.library()
    assert library.qml_features_f32(ctypes.byref(c_map), 1, x.data_ptr(), out.data_ptr(), 1) in (1, 2, 4)
    assert said in library.qml_last_error().decode()
    assert not out.any()


def test_null_pointers_and_negative_sizes_give_a_code_and_a_sentence():
    f = feature_map(2, 16, False, torch.float32)
    library, good = native_library.library(), ctypes.byref(map_struct(f, torch.float32))
    values = torch.zeros(4, 16)  # kept alive: a pointer into freed memory holds anything, even what is not finite
    x, n = values.data_ptr(), f.n_frequencies
    calls = [
        (library.qml_features_f32, (None, 1, x, x, 1), "map is null"),
        (library.qml_features_f32, (good, 1, None, x, 1), "x is null"),
        (library.qml_features_f32, (good, 1, x, None, 1), "out is null"),
        (library.qml_features_f32, (good, -1, x, x, 1), "n_atoms"),
        (library.qml_features_f32, (good, 1, x, x, 0), "threads"),
        (library.qml_energy_and_slope_f32, (good, 1, x, None, x, x, 1), "weights is null"),
        (library.qml_energy_and_slope_f32, (good, 1, x, x, None, x, 1), "energy is null"),
        (library.qml_energy_and_slope_f32, (good, 1, x, x, x, None, 1), "slope is null"),
        (library.qml_feature_moment_f32, (good, 1, x, x, x, None, 1), "moment is null"),
        (library.qml_energy_rows_f32, (good, 1, x, None, 1, x, n, 1), "row is null"),
        (library.qml_energy_rows_f32, (good, 1, x, x, 1, x, n - 1, 1), "stride"),
        (library.qml_force_rows_f32, (good, 1, x, 1, None, x, x, 1, x, n, 1), "tangents is null"),
        (library.qml_force_rows_f32, (good, 1, x, 1, x, None, x, 1, x, n, 1), "owner is null"),
        (library.qml_force_rows_f32, (good, 1, x, -1, x, x, x, 1, x, n, 1), "n_tangents"),
        (library.qml_force_rows_f32, (good, 1, x, 1, x, x, x, 1, x, n - 1, 1), "stride"),
    ]
    for function, arguments, said in calls:
        assert function(*arguments) == 1, said
        assert said in library.qml_last_error().decode()


def test_unknown_instruction_sets_are_refused():
    with pytest.raises(InputError, match="neon9000"):
        native.use_instruction_set("neon9000")
