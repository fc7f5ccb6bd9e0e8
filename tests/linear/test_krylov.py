"""The iterative solver reaches the direct solution, and goes on where it stopped."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import torch

from qml_lightning.errors import SolveError
from qml_lightning.linear import preconditioner
from qml_lightning.linear.krylov import LATER_GAIN, LATER_PATIENCE, State, Stopping, least_residuals, look_at
from qml_lightning.linear.preconditioner import GuidedBySmallModel, Parted, trusted_factor

RIDGE = 1e-4


class Dense:
    """A matrix as an operator."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = torch.from_numpy(matrix)
        self.n_columns = matrix.shape[1]

    def times(self, weights):
        return self.matrix @ weights

    def transposed_times(self, residual):
        return self.matrix.T @ residual


def _problem():
    """Random cosine features of a smooth function: rows of quickly falling spectrum, as those of a potential."""
    random = np.random.default_rng(0)
    x = random.normal(size=(150, 4))
    w, b = 0.4 * random.normal(size=(4, 512)), random.uniform(0, 2 * np.pi, 512)
    z = np.sqrt(2 / 512) * np.cos(x @ w + b)
    return z, np.sin(x).sum(1)


class Plainly:
    """The equations with any P⁻¹, product by product: the naive twin of `GuidedBySmallModel`."""

    def __init__(self, z: np.ndarray, precondition) -> None:
        self.z, self.precondition = Dense(z), precondition
        self.n_columns = self.z.n_columns

    def step(self, v):
        direction = self.precondition(v)
        image = self.z.transposed_times(direction)
        return direction, image, self.z.times(image)


def _guided(z: np.ndarray, few: int, least: float = RIDGE) -> GuidedBySmallModel:
    n = z.shape[1]
    small, rest = z[:, :few] * np.sqrt(n / few), z[:, few:] * np.sqrt(n / max(n - few, 1))
    gram = torch.from_numpy(small.T @ small)
    parted = Parted(Dense(small), Dense(rest) if few < n else None, few / n, lambda one, other: torch.cat([one, other]))
    return GuidedBySmallModel(parted, gram, least)


def _direct(z, y, ridge=RIDGE):
    return np.linalg.solve(z.T @ z + ridge * np.eye(z.shape[1]), z.T @ y)


def _iterated(equations, y, stopping=Stopping(), window=300, **options) -> State:  # noqa: B008
    targets = torch.from_numpy(y)
    state = State.start(RIDGE, targets, equations.n_columns, window)
    return least_residuals(equations.step, targets, state, stopping, **options)


def test_the_iteration_reaches_the_direct_solution():
    z, y = _problem()
    state = _iterated(_guided(z, 128), y, Stopping(1e-10))
    assert np.abs(z @ state.weights.numpy() - z @ _direct(z, y)).max() < 1e-7
    assert state.history[-1].residual <= 1e-10


def test_more_features_in_the_preconditioner_need_fewer_iterations():
    z, y = _problem()
    steps = {few: _iterated(_guided(z, few), y, Stopping(1e-8)).number for few in (128, 384)}
    without = _iterated(Plainly(z, lambda v: v), y, Stopping(1e-8, 5000)).number
    assert 2 * steps[384] < steps[128] < without


def test_it_goes_on_from_a_state_as_if_it_had_never_stopped():
    z, y = _problem()
    saved: list[State] = []

    def keep(state: State) -> None:
        if state.number == 5:
            saved.append(copy.deepcopy(state))

    whole = _iterated(_guided(z, 64), y, tell=keep)
    again = least_residuals(_guided(z, 64).step, torch.from_numpy(y), saved[0], Stopping())
    assert again.number == whole.number
    torch.testing.assert_close(again.weights, whole.weights, rtol=1e-6, atol=1e-9)  # sums at other addresses


def test_another_ridge_is_solved_for_in_the_same_room_and_the_best_weights_are_kept():
    z, y = _problem()
    targets, guided = torch.from_numpy(y), _guided(z, 128)
    wanted = torch.from_numpy(_direct(z, y, 1e-3))
    # 1e-3 is best; it is looked at the end only
    settings = {"stopping": Stopping(1e-10, look_every=1000), "held_out": lambda w: float((w - wanted).norm())}
    state, found = least_residuals(guided.step, targets, State.start(1e-2, targets, 512), **settings), []
    for ridge in (1e-3, 1e-5):
        room = state.images.data_ptr()
        state = state.with_ridge(ridge, targets)
        look_at(state, targets, settings["held_out"])
        state.begin_window()
        state = least_residuals(guided.step, targets, state, **settings)
        assert state.images.data_ptr() == room
        assert np.abs(z @ state.weights.numpy() - z @ _direct(z, y, ridge)).max() < 1e-6
        found.append(state.weights)
    assert list(state.compared) == [1e-2, 1e-3, 1e-5]
    assert state.best_ridge == 1e-3
    assert torch.equal(state.of_best, found[0])


@pytest.mark.parametrize("ridge", [1e-5, 3e-4, 1e-2])
def test_the_directions_of_one_ridge_give_the_least_residual_with_another(ridge):
    z, y = _problem()
    guided, targets, directions = _guided(z, 64), torch.from_numpy(y), []
    whole = guided.step
    guided.step = lambda v: directions.append((found := whole(v))[0]) or found
    state = least_residuals(guided.step, targets, State.start(RIDGE, targets, 512), Stopping(1e-9, 12))
    other = state.with_ridge(ridge, targets)
    matrix = z @ z.T + ridge * np.eye(len(z))
    best = np.linalg.lstsq(matrix @ torch.stack(directions).numpy().T, y, rcond=None)[0]
    least = np.linalg.norm(y - matrix @ torch.stack(directions).numpy().T @ best)
    assert other.error == pytest.approx(least, rel=1e-6)
    assert other.steps == len(directions)
    assert other.number == 0


def test_it_stops_when_held_out_rows_gain_no_more():
    z, y = _problem()
    noisy = y + np.random.default_rng(1).normal(scale=0.3, size=len(y))
    learn, hold = slice(0, 120), slice(120, None)
    error = lambda w: float(np.sqrt(np.mean((z[hold] @ w.numpy() - noisy[hold]) ** 2)))  # noqa: E731
    state = _iterated(_guided(z[learn], 64), noisy[learn], Stopping(1e-14, look_every=1), held_out=error)
    errors = [step.held_out for step in state.history]
    assert state.history[-1].residual > 1e-14
    assert min(errors[-4:]) > 0.999 * min(errors[:-4])


def test_another_ridge_that_goes_on_ends_with_two_looks_of_little_gain():
    z, y = _problem()
    targets, guided = torch.from_numpy(y), _guided(z, 64)
    errors = iter([1.0, 0.95, 0.9, 0.895, 0.892, 0.5, 0.4])  # of the start, then after each step
    held_out = lambda w: next(errors) if bool(w.any()) else 9.0  # noqa: E731
    later = Stopping(1e-14, look_every=1, patience=LATER_PATIENCE, gain=LATER_GAIN)
    state = least_residuals(guided.step, targets, State.start(1e-2, targets, 512), Stopping(1e-9, 3))
    state = state.with_ridge(1e-3, targets)
    look_at(state, targets, held_out)
    state.begin_window()
    state = least_residuals(guided.step, targets, state, later, held_out=held_out)
    assert [step.held_out for step in state.history[3:]] == [1.0, 0.95, 0.9, 0.895, 0.892]


def test_a_window_that_is_full_starts_anew_and_still_arrives():
    z, y = _problem()
    state = _iterated(_guided(z, 128), y, Stopping(1e-8), window=7)
    assert state.number > 7
    assert np.abs(z @ state.weights.numpy() - z @ _direct(z, y)).max() < 1e-5


def test_the_residual_that_is_told_never_grows_and_is_that_of_the_equations():
    z, y = _problem()
    matrix = z @ z.T + RIDGE * np.eye(len(z))
    guided, directions = _guided(z, 64), []
    whole = guided.step
    guided.step = lambda v: directions.append((found := whole(v))[0]) or found
    state = _iterated(guided, y, Stopping(1e-9, 20))
    told = [step.residual for step in state.history]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(told))
    # β is made of the same directions as the weights, and its residual can be formed here
    beta = (state.coefficients @ torch.stack(directions)).numpy()
    assert told[-1] == pytest.approx(np.linalg.norm(y - matrix @ beta) / np.linalg.norm(y), rel=1e-6)
    assert np.abs(z.T @ beta - state.weights.numpy()).max() < 1e-6 * np.abs(state.weights.numpy()).max()


def test_numbers_that_are_not_finite_are_told():
    z, y = _problem()
    with pytest.raises(SolveError, match="broke down"):
        _iterated(Plainly(z, lambda v: v * float("inf")), y)


@pytest.mark.parametrize("few", [64, 300, 512])
def test_a_guided_step_is_that_of_the_preconditioner_written_out(few):
    z, _ = _problem()
    guided = _guided(z, few)
    small = z[:, :few] * np.sqrt(512 / few)
    inverse = torch.from_numpy(np.linalg.inv(small @ small.T + guided.shift * np.eye(len(z))))
    v = torch.from_numpy(np.random.default_rng(2).normal(size=len(z)))
    found, wanted = guided.step(v), Plainly(z, lambda v: inverse @ v).step(v)
    for mine, plain in zip(found, wanted, strict=True):
        assert float((mine - plain).norm()) < 1e-6 * float(plain.norm())


@pytest.mark.parametrize("fall", [0.5, 1.0, 4.0])
def test_the_shift_leaves_the_small_model_the_dimensions_that_it_is_trusted_with(fall):
    random = np.random.default_rng(3)
    axes = np.linalg.qr(random.normal(size=(400, 400)))[0]
    values = 1e3 * np.exp(-fall * np.arange(400) / 20)
    gram = torch.from_numpy((axes * values) @ axes.T)
    low, high = preconditioner.TRUSTED
    factor, shift = trusted_factor(gram.clone(), 0.0)
    dimensions = (values / (values + shift)).sum() / 400
    # where the spectrum ends in rounding, fewer are there
    assert (low - 0.05 < dimensions < high + 0.05) or shift == pytest.approx(1e-11 * values.mean())
    whole = torch.from_numpy((axes * (values + shift)) @ axes.T)
    torch.testing.assert_close(factor.triu().T @ factor.triu(), whole, rtol=1e-9, atol=1e-9 * float(whole.abs().max()))
    assert trusted_factor(gram.clone(), 50.0)[1] >= 50.0
