"""The automatic choice: found on a part of the training data, carried to the full size, told, kept, and overridden."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from qml_lightning import evaluate, fit, load, load_dataset
from qml_lightning.atoms.structures import Labels
from qml_lightning.cli import main
from qml_lightning.errors import InputError
from qml_lightning.linear.ridge import Ridge
from qml_lightning.machine.compute import Compute
from qml_lightning.machine.memory import Memory
from qml_lightning.model.baseline import found_baseline
from qml_lightning.model.recipe import CHOOSABLE, DEFAULT, Automatic, Recipe
from qml_lightning.model.representations.density import ENERGIES_DENSITY
from qml_lightning.model.representations.fchl19 import ENERGIES_SERIES
from qml_lightning.training import environments as environments_module
from qml_lightning.training.choice import rules, search, trials
from qml_lightning.training.choice.budget import plan_trials
from qml_lightning.training.choice.rules import WORTH, refinement
from qml_lightning.training.choice.search import _trusted_gain, best_ridge, power_of_features
from qml_lightning.training.choice.trials import Size, TrialData, Trials, ValidationSet
from qml_lightning.training.chosen_recipe import Chosen
from qml_lightning.training.problem import Problem
from small_models import SMALL, argon, crystals, molecules, recipe


def problem_of(data, kinds=("energies", "forces", "stress")) -> Problem:
    labels = Labels(**{kind: getattr(data.labels, kind) for kind in kinds})
    return Problem(
        data.structures, labels, found_baseline(data.structures, labels.energies, data.structures.elements).baseline
    )


def choose(problem: Problem, automatic: Automatic, **options) -> Chosen:
    return search.choose(problem, automatic, Compute(), **options)


def trials_of(problem: Problem, start: Recipe, validation: ValidationSet, at_once: int | None = None) -> Trials:
    return Trials(TrialData(problem, start.seed), validation, Compute(), at_once)


@pytest.fixture(scope="module")
def ethanol():
    return load_dataset("ethanol:train@0:100")


def bad(**changes) -> Automatic:
    """A start that is far from good, as the fields of another system would be."""
    start = replace(recipe(n_features=256, sigma=64.0, paired=True), ridge=1.0, energy_weight=0.1)
    return Automatic(replace(start, **changes))


@pytest.fixture(scope="module")
def chosen(ethanol) -> Chosen:
    return choose(problem_of(ethanol), bad())


def test_a_bad_start_is_left_for_a_recipe_that_is_better_on_other_structures(ethanol, chosen):
    test = load_dataset("ethanol:test@0:60")
    before, after = (evaluate(fit(ethanol, settings), test) for settings in (bad().start, chosen.recipe))
    assert after.forces.mae < 0.5 * before.forces.mae
    assert after.energy.mae < 0.5 * before.energy.mae
    assert chosen.recipe.features.n_features == 256


def test_the_errors_that_are_predicted_are_those_of_the_fit(ethanol, chosen):
    found = evaluate(fit(ethanol, chosen.recipe), load_dataset("ethanol:test@0:60"))
    assert chosen.evidence["predicted"]["forces"] == pytest.approx(found.forces.mae, rel=0.35)
    assert chosen.evidence["predicted"]["energies"] == pytest.approx(found.energy.mae, rel=0.6)


def test_a_trial_is_a_fit_to_some_structures_and_its_errors_are_those_on_others(ethanol):
    problem = problem_of(ethanol)
    trials = trials_of(problem, SMALL, ValidationSet(20, 30))
    found = trials.trial(Size(40, 256), SMALL)
    order = trials.data.order
    assert len(torch.cat([order[-40:], order[:50]]).unique()) == 90  # none is trained on that is held out
    references = dict(zip(problem.baseline.elements, problem.baseline.energies.tolist()))
    training, held_out, energies = (
        ethanol.select(index.sort().values) for index in (order[-40:], order[:20], order[:50])
    )
    basis = trials._pass(Size(40, 256), SMALL).equations.basis
    alike = fit(training, SMALL, reference_energies=references, basis=basis)
    assert [len(part.structures) for part in trials.held_out] == [20, 30]
    assert found.errors["forces"] == pytest.approx(evaluate(alike, held_out).forces.mae, rel=1e-4)
    assert found.errors["energies"] == pytest.approx(evaluate(alike, energies).energy.mae, rel=1e-4)


def test_environments_are_computed_once_for_all_widths(ethanol, monkeypatch):
    made = []
    whole = environments_module.environments
    monkeypatch.setattr(environments_module, "environments", lambda *a: made.append(None) or whole(*a))
    problem, start, validation = problem_of(ethanol), recipe(n_features=64, paired=True), ValidationSet(10, 20)
    trials = trials_of(problem, start, validation)
    wider = replace(start, features=replace(start.features, sigma=16.0))
    trials.trial(Size(30, 64), start)
    once = len(made)
    again = trials.trial(Size(30, 64), wider)
    assert len(made) == once == 3  # of the training structures, those held out, and those held out for their energies
    assert again == trials_of(problem, start, validation).trial(Size(30, 64), wider)
    trials.trial(Size(15, 64), wider)
    assert len(made) == 2 * once + 1  # the validation set is the same for all sizes
    monkeypatch.setattr(rules, "MOST_REMEMBERED", 0)
    forgetful = trials_of(problem, start, validation)
    assert [forgetful.trial(Size(30, 64), one).score for one in (start, wider)][1] == again.score
    assert len(made) == 4 * once + 1


def test_remembered_environments_are_those_of_the_batch_if_another_size_has_other_batches(ethanol):
    problem, start, validation = problem_of(ethanol), recipe(n_features=64, paired=True), ValidationSet(10, 20)
    at_once = 9 * 3 * 64 * 4  # four molecules with 64 features, two with 128
    trials, fresh = (trials_of(problem, start, validation, at_once) for _ in range(2))
    trials.trial(Size(30, 64), start)
    few = {key for key in trials.cache.known if key[0] == "held out 0"}
    assert trials.trial(Size(30, 128), start) == fresh.trial(Size(30, 128), start)
    assert {key for key in trials.cache.known if key[0] == "held out 0"} > few


def test_axes_are_found_once_for_all_widths_sizes_and_ranks(ethanol, monkeypatch):
    found = []
    whole = trials.sample_directions
    monkeypatch.setattr(trials, "sample_directions", lambda *a: found.append(None) or whole(*a))
    start = recipe(n_features=64, paired=True)
    fits = trials_of(problem_of(ethanol), start, ValidationSet(10))
    for size, one in ((Size(30, 64), start), (Size(15, 128), start), (Size(30, 64), replace(start, rank=16))):
        fits.trial(size, one)
    fits.trial(Size(30, 64), replace(start, features=replace(start.features, sigma=16.0)))
    assert len(found) == 1
    fits.trial(Size(30, 64), replace(start, representation=ENERGIES_SERIES))
    assert len(found) == 2


def test_bonding_classes_are_told_apart_where_there_are_several(ethanol):
    start = recipe(n_features=128, paired=True)
    chosen = choose(problem_of(ethanol), Automatic(start, ("class_spread", "ridge")))
    done = [one for one in chosen.evidence["trials"] if one["size"] == chosen.evidence["best"]["size"]]
    assert {one["class_spread"] for one in done} == {0.0, rules.CLASS_SPREAD}  # CH₃ and CH₂
    assert chosen.recipe.class_spread == min(done, key=lambda one: one["score"])["class_spread"]
    several = choose(problem_of(argon(60)), Automatic(start, ("class_spread", "ridge")))
    assert {one["class_spread"] for one in several.evidence["trials"]} == {0.0}


def test_the_rank_grows_until_axes_lose_little_and_features_are_few(ethanol):
    problem, start = problem_of(ethanol), recipe(n_features=256, rank=2, paired=True)
    data = TrialData(problem, start.seed)
    directions = data.directions(start)
    found = choose(problem, Automatic(start, ("rank",))).recipe
    assert found.rank > start.rank
    assert 256 % (rules.FEWEST_BLOCKS * 2 * found.rank) == 0
    twice = 256 % (rules.FEWEST_BLOCKS * 4 * found.rank) == 0
    assert max(one.lost(found.rank) for one in directions) <= start.representation.norm_to_lose or not twice
    many = replace(start, features=replace(start.features, n_features=2**16))
    enough = search._with_enough_axes(many, data).rank
    lost = {rank: max(one.lost(rank) for one in directions) for rank in (enough, enough // 2)}
    assert lost[enough] <= start.representation.norm_to_lose < lost[enough // 2]


def test_labels_that_are_met_exactly_can_be_chosen_for(ethanol):
    flat = replace(ethanol, labels=replace(ethanol.labels, forces=torch.zeros_like(ethanol.labels.forces)))
    assert choose(problem_of(flat, ("forces",)), Automatic(recipe(n_features=128, paired=True))).recipe.ridge > 0


def test_the_same_seed_chooses_the_same(ethanol, chosen):
    again = choose(problem_of(ethanol), bad())
    assert again.recipe == chosen.recipe
    assert again.evidence | {"seconds": 0} == chosen.evidence | {"seconds": 0}


@pytest.mark.parametrize(("more", "short"), [(10.0, False), (-10.0, True)])
def test_a_short_range_is_chosen_if_it_is_better_by_enough_for_each_doubling(ethanol, monkeypatch, more, short):
    monkeypatch.setattr(rules, "MORE_FOR_SHORT_RANGE", more)
    recipe = replace(DEFAULT, features=replace(DEFAULT.features, n_features=1024))
    problem, start = problem_of(ethanol), Automatic(recipe, ("representation", "ridge"))
    found, growth = choose(problem, start), plan_trials(problem, start.start, Memory()).growth
    assert (found.recipe.representation in rules.SHORT_RANGE) == short
    assert found.evidence["more_for"]["density-short"] == pytest.approx(more * math.log2(growth))


@pytest.mark.parametrize("name", CHOOSABLE[1:])
def test_a_field_that_is_given_stays_as_it_is(ethanol, name):
    automatic = replace(bad(), free=tuple(other for other in CHOOSABLE if other != name))
    found = choose(problem_of(ethanol), automatic).recipe
    of_features = name in ("sigma", "blocks")
    of_start, of_found = (recipe.features if of_features else recipe for recipe in (automatic.start, found))
    assert getattr(of_found, name) == getattr(of_start, name)
    assert found != automatic.start


def test_the_ridge_is_as_if_targets_had_any_unit(ethanol):
    in_other_unit = replace(ethanol, labels=Labels(ethanol.labels.energies * 1e4, ethanol.labels.forces * 1e4))
    one, other = (choose(problem_of(data), bad(energy_weight=3.0)).recipe for data in (ethanol, in_other_unit))
    assert other == one


def test_a_poor_representation_is_replaced_by_the_best_that_is_tried():
    data = load_dataset("ethanol:train@0:60")
    start = recipe(n_features=256, paired=True)
    poor = replace(start, representation=replace(start.representation, n_radial2=1, n_radial3=0))
    found = choose(problem_of(data, ("energies",)), Automatic(poor))
    assert found.recipe.representation in (ENERGIES_DENSITY, ENERGIES_SERIES)
    with_forces = choose(problem_of(data, ("energies", "forces")), Automatic(poor))
    assert with_forces.recipe.representation in rules.WITH_FORCES
    given = choose(problem_of(data, ("energies",)), Automatic(poor, ("ridge",)))
    assert given.recipe.representation == poor.representation


def test_a_ridge_is_not_so_small_that_float32_would_show_in_energies(ethanol):
    start = replace(recipe(n_features=256, sigma=32.0, paired=True), precision="float32", ridge=1e-12)
    found = choose(problem_of(ethanol), Automatic(start, ("ridge",)))
    least = 2 * 9 * (3.5e-7 * found.evidence["predicted"]["forces"] / found.evidence["predicted"]["energies"]) ** 2
    assert found.recipe.ridge >= 0.99 * least


@pytest.mark.parametrize("kinds", [("energies",), ("forces",)])
def test_energies_alone_and_forces_alone_will_do(ethanol, kinds):
    found = choose(problem_of(ethanol, kinds), bad())
    assert set(found.evidence["predicted"]) == set(kinds)
    assert "energy_weight" not in found.evidence["chosen"]  # there is nothing to weigh against
    assert found.recipe.energy_weight == bad().start.energy_weight


def test_crystals_with_stress_and_several_elements_are_chosen_for():
    found = choose(problem_of(crystals(40)), Automatic(SMALL))
    assert set(found.evidence["predicted"]) == {"energies", "forces", "stress"}
    assert all(0 < error < 10 for error in found.evidence["predicted"].values())


def test_with_few_structures_only_the_ridge_is_chosen_and_with_fewer_rows_than_weights_nothing():
    data = argon(10)
    assert choose(problem_of(data), Automatic(recipe(n_features=64, rank=32))).evidence["chosen"] == ["ridge"]
    for few in (data, molecules(1), molecules(2)):
        start = recipe(n_features=4096)
        assert choose(problem_of(few), Automatic(start)) == Chosen.given(start)


def test_best_ridge_is_found_from_far_away():
    def score(settings):
        return (torch.tensor(settings.ridge).log10().item() + 6.3) ** 2

    assert best_ridge(lambda r: score(r) if r.ridge >= 2e-6 else math.inf, DEFAULT, 2e-6).ridge == pytest.approx(2.1e-6)
    for ridge in (1e-12, 1e-6, 1.0):
        assert best_ridge(score, replace(DEFAULT, ridge=ridge), 1e-16).ridge == pytest.approx(10**-6.3, rel=0.05)
    assert best_ridge(score, replace(DEFAULT, ridge=0.0), 1e-16).ridge == pytest.approx(10**-6.3, rel=0.05)


def test_the_ridge_is_carried_by_what_the_errors_gain():
    # half the error of forces for twice the size: more than the fourth power of it, and forces tell before energies do
    assert power_of_features({"energies": 0.3, "forces": 0.6}) == pytest.approx(3.3, abs=0.1)
    assert power_of_features({"energies": 0.7}) == pytest.approx(2.8, abs=0.1)
    assert power_of_features({"forces": 1.0}) == 1.5
    assert power_of_features({"forces": 0.01}) == 3.5
    assert power_of_features({}) == power_of_features({"stress": 0.5}) == 2.7


def test_the_gain_that_few_structures_show_is_half_trusted():
    assert _trusted_gain(0.9, 10**9) == pytest.approx(0.9)
    assert _trusted_gain(0.9, 100) == pytest.approx((0.9 * 0.66) ** 0.5, abs=5e-4)
    assert _trusted_gain(0.9, 0) == pytest.approx(0.66, abs=5e-4)


def test_energies_weigh_less_where_a_good_ridge_would_be_lost_in_rounding(ethanol, monkeypatch):
    start = replace(
        recipe(n_features=256, sigma=8.0, paired=True), ridge=1e-8, energy_weight=300.0, precision="float64"
    )
    automatic = Automatic(start, ("ridge", "energy_weight"))
    usual = choose(problem_of(ethanol), automatic).recipe
    monkeypatch.setattr("qml_lightning.training.choice.rules.LOST_IN_ROUNDING", 3e-13)
    coarse = choose(problem_of(ethanol), automatic).recipe
    assert coarse.energy_weight < usual.energy_weight
    iterated = choose(problem_of(ethanol), automatic, iterates=True).recipe  # sums up no squares
    assert iterated.energy_weight >= coarse.energy_weight
    given = choose(problem_of(ethanol), Automatic(replace(start, ridge=1e-12), ("energy_weight",))).recipe
    assert given.ridge == 1e-12


def test_the_plan_keeps_the_proportion_and_its_share_of_the_work():
    data = load_dataset("ethanol:train")
    for n_features in (2048, 8192, 32768):
        start = replace(DEFAULT, features=replace(DEFAULT.features, n_features=n_features))
        problem = problem_of(data, ("energies", "forces"))
        plan = plan_trials(problem, start, Memory())
        size, validation = plan.size, plan.validation
        rows = problem.n_rows
        in_proportion = len(data) * size.n_features / min(n_features, rows)
        # or less, where the fewest features cost too much: still many rows for each
        enough = rules.ENOUGH_ROWS * size.n_features * len(data) / rows
        wanted = min(in_proportion, enough) if n_features == 2048 else in_proportion
        assert size.structures == pytest.approx(wanted, rel=0.05)
        assert validation.energies + size.structures <= len(data)
        # of the matrix product alone, five times
        assert 5 * (size.n_features / n_features) ** 3 < rules.SHARE_OF_FIT
    less = plan_trials(problem_of(data, ("energies", "forces")), start, Memory(limit=10**9)).size
    assert less.n_features < size.n_features


def test_a_ridge_that_was_chosen_is_left_for_one_with_which_structures_are_met_better_that_are_left_out(monkeypatch):
    data = molecules(60)
    noise = torch.from_numpy(np.random.default_rng(5).normal(scale=2.0, size=data.labels.forces.shape))
    data = replace(data, labels=replace(data.labels, forces=data.labels.forces + noise))
    start = recipe(n_features=2048, ridge=1e-8)
    choice = Chosen(start, Ridge(start.ridge, refinement(0.0)), {})
    monkeypatch.setattr("qml_lightning.training.fit.choose", lambda *_, **__: choice)
    free, given = fit(data, Automatic(start, ("ridge",))), fit(data, start)
    assert given.recipe.ridge == start.ridge
    assert "ridges" not in given.provenance.solution
    tried = {point["ridge"]: point["left_out"] for point in free.provenance.solution["ridges"]}
    assert (1 - WORTH) * tried[free.recipe.ridge] <= min(tried.values()) < 0.9 * tried[start.ridge]
    alone = fit(data, free.recipe)
    one, two = (potential.predict(data.structures).forces for potential in (free, alone))
    assert (one - two).abs().max() < 1e-6 * one.abs().max()


def test_a_chosen_ridge_that_is_lost_in_rounding_is_told_in_the_dual_form_too(monkeypatch):
    data, start = molecules(40), recipe(n_features=2048, ridge=1e-30)
    twice = data.select(torch.arange(40).repeat(2))  # a matrix that is singular
    monkeypatch.setattr("qml_lightning.training.choice.rules.LARGER", (1e24,))
    choice = Chosen(start, Ridge(start.ridge, refinement(0.0)), {})
    monkeypatch.setattr("qml_lightning.training.fit.choose", lambda *_, **__: choice)
    with pytest.warns(UserWarning, match="lost in rounding"):
        assert fit(twice, Automatic(start, ("ridge",))).recipe.ridge > 1e-9


def test_each_row_knows_its_structure():
    data = crystals(3)
    labels = data.labels
    labels.energies[1] = labels.forces[0, 2] = labels.stress[2] = float("nan")
    counts = data.structures.counts.tolist()
    wanted = [0, 2]  # energies, then forces, then virials
    for s, n in enumerate(counts):
        wanted += [s] * (3 * n - (s == 0))
    wanted += [0] * 6 + [1] * 6
    assert problem_of(data).structure_of_rows.tolist() == wanted


def test_what_cannot_be_chosen_is_told():
    with pytest.raises(InputError, match=r"Cannot choose cutoff. What can be chosen: representation, sigma"):
        fit(molecules(3), Automatic(DEFAULT, ("cutoff",)))


# ---- in a fit --------------------------------------------------------------------------------------------------------


def test_a_fit_with_a_choice_is_the_fit_with_what_was_chosen_and_tells_why(ethanol, tmp_path):
    potential = fit(ethanol, bad())
    given = fit(ethanol, potential.recipe)
    assert torch.equal(potential.weights, given.weights)
    assert given.provenance.choice is None
    potential.save(tmp_path / "model.safetensors")
    choice = load(tmp_path / "model.safetensors").provenance.choice
    assert set(choice["chosen"]) == set(CHOOSABLE) - {"blocks"}  # own weights are for fits that iterate
    assert choice["best"] in choice["trials"]
    assert choice == json.loads(json.dumps(choice, allow_nan=False))


def test_a_fit_that_goes_on_keeps_to_its_choice(ethanol, tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"

    def stop(what, done, *_):
        if what == "solving":
            raise KeyboardInterrupt

    options = {"checkpoint": path, "checkpoint_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        fit(ethanol, bad(), progress=stop, **options)
    monkeypatch.setattr("qml_lightning.training.fit.choose", lambda *_, **__: pytest.fail("chosen anew"))
    again = fit(ethanol, bad(), resume=True, **options)
    monkeypatch.undo()
    whole = fit(ethanol, bad())
    assert again.recipe == whole.recipe
    assert torch.equal(again.weights, whole.weights)
    told, wanted = again.provenance.choice, whole.provenance.choice
    assert told | {"seconds": 0} == wanted | {"seconds": 0}


def test_equations_keep_the_choice_for_models_that_are_made_from_them(ethanol, tmp_path):
    from qml_lightning.training.equations_file import load_equations
    from qml_lightning.training.solvers.direct import solved

    potential = fit(ethanol, bad(), equations=tmp_path / "e")
    assert solved(load_equations(tmp_path / "e")).provenance.choice == potential.provenance.choice


def test_a_fit_in_the_basis_of_another_has_its_recipe(ethanol):
    potential = fit(ethanol, bad())
    assert fit(ethanol, basis=potential).recipe == potential.recipe


@pytest.mark.parametrize("way", ["iterative", "on disk"])
def test_other_ways_to_the_weights_choose_too(ethanol, way, tmp_path):
    automatic, options = bad(), {"memory_limit": 2 * 1024**3, "scratch": tmp_path}
    if way == "iterative":
        solver = replace(automatic.start.solver, method="iterative", preconditioner_features=128)
        automatic, options = replace(automatic, start=replace(automatic.start, solver=solver)), {}
    potential = fit(ethanol, automatic, **options)
    assert potential.provenance.choice["predicted"]["forces"] < 0.2


# ---- on the command line ---------------------------------------------------------------------------------------------


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run_(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run_


def test_train_shows_the_choice_and_so_does_info(run):
    train = ("train", "ethanol:train@0:60", "-m", "m.safetensors", "--features", 512, "--no-label-check")
    code, out, err = run(*train, "--sigma", 7)
    assert code == 0, err
    for text in (out, run("info", "m.safetensors")[1]):
        for word in ("energy weight, rank, bonds apart, ridge, in", "expected errors", "held-out", "σ = 7"):
            assert word in text
        assert text.count("chosen") == 2  # the fields, and the trial
    told = json.loads(run(*train, "--json", "--overwrite", "--ridge", 1e-7)[1])
    assert told["recipe"]["ridge"] == 1e-7
    chosen = ["representation", "sigma", "energy_weight", "rank", "class_spread"]
    assert told["provenance"]["choice"]["chosen"] == chosen


def test_a_named_recipe_is_taken_as_it_is(run):
    code, out, _ = run("train", "ethanol:train@0:40", "-m", "m.safetensors", "--recipe", "default", "--features", 512)
    assert code == 0
    assert "expected errors" not in out
    assert load(Path("m.safetensors")).recipe.ridge == DEFAULT.ridge
