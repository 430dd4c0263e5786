"""fc.tune: variants that are paired, a recommendation from fresh runs, and problems like a log's."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import fastcolst as fc
from fastcolst import cli
from fastcolst.experiments.resampled import ResampledLog
from fastcolst.experiments.tuning import AS_GIVEN, REGRETS

pytestmark = pytest.mark.either_lane

PROBLEM = fc.Scenario.hard(n_arms=6, n_features=2)


def log_of(m=400, d=3, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    contrasts = rng.normal(size=(m, d)) * scale + 0.3 * scale
    return fc.Log.from_arrays(contrasts, 2.0 / scale * contrasts[:, 0] + rng.logistic(size=m) > 0)


def colstim(**options):
    return fc.CoLSTIM(2, estimator="sgd", **options)


def test_what_is_recommended_is_told_from_fresh_runs():
    """Without exploration, and with widths that drown every utility, against widths of a usual size."""
    policy = colstim(width_scale=500.0, exploration_rounds=12)
    found = fc.tune(policy, PROBLEM, 300, runs=6, rng=1, grid={"width_scale": [1.0, 400.0]})
    assert found.parameters == {"width_scale": 1.0}
    assert found.policy.get_params() == {**policy.get_params(), "width_scale": 1.0}
    assert policy.round == found.policy.round == 0
    assert found.confirmation.seed != found.result.seed
    assert found.confirmation.policies == [AS_GIVEN, "width_scale=1.0"]
    ours, theirs = (found.confirmation.average_regret[label][:, -1] for label in ("width_scale=1.0", AS_GIVEN))
    error = (ours - theirs).std(ddof=1) / math.sqrt(6)
    assert f"{ours.mean():,.1f}, as given {theirs.mean():,.1f}" in found.recommendation
    assert f"{(ours - theirs).mean():+,.1f} with standard error {error:,.1f}" in found.recommendation
    assert found.recommendation.startswith("Take width_scale=1.0: ") and found.recommendation in str(found)


def test_a_best_that_fresh_runs_do_not_confirm_is_not_recommended():
    """Variants without any effect: a policy's label draws its stream, so that one of them is the best by chance."""
    policy = colstim(width_scale=1.0, clip=math.inf)
    grid = {"clip": [1e3, 1e4, 1e5, 1e6, 1e7, 1e8]}
    found = [fc.tune(policy, PROBLEM, 60, runs=8, rng=seed, grid=grid) for seed in range(6)]
    assert all(each.parameters == {} and each.policy.get_params() == policy.get_params() for each in found)
    kept = [each for each in found if each.confirmation is not None]
    assert kept and all("Keep the policy as given: clip=" in each.recommendation for each in kept)


def test_where_none_is_better_no_fresh_runs_are_played():
    found = fc.tune(colstim(width_scale=1.0), PROBLEM, 300, runs=4, rng=1, grid={"width_scale": [300.0, 1.0]})
    assert found.confirmation is None and found.variants == {AS_GIVEN: {}, "width_scale=300.0": {"width_scale": 300.0}}
    assert "none has less regret" in found.summary()


def test_the_usual_grid_is_of_width_scale_and_ridge():
    found = fc.tune(colstim(), PROBLEM, 30, runs=2, rng=1)
    c = math.sqrt(2 * math.log(30))
    assert {variant["ridge"] for variant in found.variants.values() if variant} == {0.0, 1.0}
    scales = sorted({variant["width_scale"] for variant in found.variants.values() if variant})
    np.testing.assert_allclose(scales, c * np.array([1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2]), rtol=0.05)


@pytest.mark.parametrize("regret", REGRETS)
def test_each_regret_is_the_results_own(regret):
    found = fc.tune(colstim(), PROBLEM, 60, runs=3, rng=1, grid={"ridge": [1.0]}, regret=regret)
    table = found.to_pandas()
    for label in (AS_GIVEN, "ridge=1.0"):
        final = getattr(found.result, REGRETS[regret])[label][:, -1]
        assert table[table.variant == label].regret.tolist() == final.tolist()
    assert f"{regret} regret" in found.summary()


def test_the_seed_repeats_everything_whatever_the_threads():
    one, two = (fc.tune(colstim(), PROBLEM, 60, runs=4, rng=3, threads=threads) for threads in (1, 2))
    assert one.result.same_numbers(two.result) and one.summary() == two.summary()


@pytest.mark.parametrize(("changes", "message"), [
    ({"policy": "CoLSTIM"}, "policy is 'CoLSTIM'; a policy object is wanted"),
    ({"grid": {"width": [1.0]}}, "grid has the parameter 'width'; one of "),
    ({"grid": {"n_features": [2]}}, "grid has the parameter 'n_features'"),
    ({"grid": {"width_scale": []}}, r"grid\['width_scale'\] is \[\]; a list of at least one value is wanted"),
    ({"grid": {"width_scale": 1.0}}, r"grid\['width_scale'\] is 1.0; a list"),
    ({"grid": {"coupling": "theorem"}}, r"grid\['coupling'\] is 'theorem'; a list"),
    ({"grid": {}}, "grid is empty; at least one parameter is wanted"),
    ({"grid": [1]}, r"grid is \[1\]; a dict of parameters and their values is wanted"),
    ({"grid": {"width_scale": range(40), "ridge": range(40)}}, "grid has 1,600 combinations; at most 1,000"),
    ({"grid": {"width_scale": [-1.0]}}, "grid has width_scale=-1.0, which is refused: width_scale is -1.0"),
    ({"policy": fc.UniformPairs()}, "UniformPairs has neither width_scale nor ridge; a grid is wanted"),
    ({"policy": fc.UniformPairs(), "grid": {"max_pending": [3]}, "regret": "greedy"}, "regret is 'greedy', and U"),
    ({"regret": "best"}, "regret"),
    ({"problem": np.eye(2)}, "problem is .*; a Scenario or a Log is wanted"),
    ({"runs": 1}, "runs is 1"),
    ({"horizon": 0}, "horizon is 0"),
    ({"n_arms": 3}, "n_arms is 3 and the problem says its own; it is wanted with a log only"),
    ({"problem": log_of(d=2)}, "n_arms is missing; of a log the number of arms of a round is wanted"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        fc.tune(**{"policy": colstim(), "problem": PROBLEM, "horizon": 20, "runs": 2, "rng": 1, **changes})


# --- problems like a log's ----------------------------------------------------------------------------------


def test_differences_of_arms_have_the_moments_of_the_logs_contrasts():
    log = log_of(2_000)
    problem = ResampledLog(log, n_arms=4)
    run = problem.start(1, 0)
    contexts = run.next_chunk(20_000).contexts.transpose(0, 2, 1)
    differences = contexts[:, 0] - contexts[:, 1]
    z = np.asarray(log.contrasts)
    wanted = z.T @ z / len(z)
    np.testing.assert_allclose(differences.mean(axis=0), 0.0, atol=4 * np.sqrt(np.diag(wanted) / 20_000).max())
    np.testing.assert_allclose(differences.T @ differences / 20_000, wanted, atol=0.06)
    rows = {tuple(np.round(row, 9)) for row in np.concatenate([z, -z]) / math.sqrt(2.0)}
    assert all(tuple(np.round(row, 9)) in rows for row in contexts[0])


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_parameters_are_drawn_from_what_the_log_tells(scale):
    """Against a fit in units of each feature's size with ridge 1: 4,000 draws, five standard errors."""
    log = log_of(scale=scale)
    z = np.asarray(log.contrasts)
    sizes = np.sqrt((z * z).mean(axis=0))
    fit = fc.fit(z / sizes, log.wins, ridge=1.0)
    problem = ResampledLog(log, n_arms=3)
    thetas = np.array([problem.start(1, run).theta for run in range(4_000)]) * sizes
    errors = np.sqrt(np.diag(fit.covariance) / 4_000)
    assert np.all(np.abs(thetas.mean(axis=0) - fit.theta) < 5 * errors)
    np.testing.assert_allclose(np.cov(thetas.T), fit.covariance, atol=6 * fit.covariance.max() / math.sqrt(4_000))


def test_rounds_do_not_depend_on_how_they_are_cut():
    problem = ResampledLog(log_of(), n_arms=5)
    whole, cut = problem.start(7, 3), problem.start(7, 3)
    parts = [cut.next_chunk(m) for m in (1, 8, 2, 9)]
    for name, array in whole.next_chunk(20)._asdict().items():
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), array, err_msg=name)


def test_items_of_a_log_are_arms_of_which_no_two_are_the_same():
    battles = [["ada", "bob"], ["bob", "cyd"], ["cyd", "dan"], ["dan", "ada"]] * 30
    rng = np.random.default_rng(0)
    table = {"one": [pair[0] for pair in battles], "two": [pair[1] for pair in battles], "y": rng.integers(0, 2, 120)}
    import pandas as pd

    log = fc.read_log(pd.DataFrame(table), items=["one", "two"], outcome="y", coding={1: 1, 0: 0})
    problem = ResampledLog(log, n_arms=3)
    contexts = problem.start(1, 0).next_chunk(200).contexts.transpose(0, 2, 1)
    assert set(np.unique(contexts)) == {0.0, 1.0} and np.all(contexts.sum(axis=2) == 1.0)
    assert np.all(contexts.sum(axis=1) <= 1.0) and np.all(contexts.sum(axis=(0, 1)) > 100)
    with pytest.raises(ValueError, match="n_arms is 5; at most 4 are wanted, the log's items"):
        ResampledLog(log, n_arms=5)


def test_a_log_that_says_nothing_of_a_feature_is_refused():
    log = fc.Log.from_arrays([[1.0, 0.0], [-2.0, 0.0]], [True, False])
    with pytest.raises(ValueError, match=r"log has 0 in all contrasts for the feature 'z\[1\]'; features that vary"):
        ResampledLog(log, n_arms=2)
    with pytest.raises(ValueError, match="log is a list; a Log is wanted"):
        ResampledLog([], n_arms=2)


def test_values_may_hold_arrays():
    scenario = fc.Scenario(utility=lambda X: X[:, 0] ** 2, n_arms=4, n_features=1)
    maps = [fc.Nystroem(np.linspace(-1, 1, m)[:, np.newaxis], "rbf", 0.5) for m in (3, 4)]
    policy = fc.CoLSTIM(1, features=maps[0], ridge=1.0, exploration_rounds=0)
    assert len(fc.tune(policy, scenario, 20, runs=2, rng=1, grid={"features": maps}).variants) == 3 - 1


def test_a_horizon_within_the_exploration_is_told():
    short, long = (fc.tune(colstim(), PROBLEM, T, runs=2, rng=1, grid={"ridge": [1.0]}).summary() for T in (12, 13))
    told = "The horizon is no longer than n d = 12 rounds: "
    assert told in short and told not in long


def test_a_log_cannot_be_tuned_for_with_a_map():
    policy = fc.CoLSTIM(3, features=fc.RandomFeatures(4, "rbf", rng=1))
    with pytest.raises(ValueError, match=r"policy maps its features, .*; a scenario with utility= is wanted"):
        fc.tune(policy, log_of(), 60, runs=2, rng=1, n_arms=4)


def test_a_log_can_be_tuned_for():
    found = fc.tune(fc.CoLSTIM(3, estimator="sgd"), log_of(), 60, runs=2, rng=1, n_arms=4, grid={"ridge": [1.0]})
    assert "ResampledLog(<400 comparisons, 3 features>, n_arms=4" in found.result.settings["scenario"]


# --- pictures and the command line --------------------------------------------------------------------------


def test_the_picture_has_a_line_for_each_other_parameter():
    grid = {"width_scale": [1.0, 2.0, 4.0], "ridge": [0.0, 1.0]}
    ax = fc.tune(colstim(), PROBLEM, 40, runs=2, rng=1, grid=grid).plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [AS_GIVEN, "ridge=0.0", "ridge=1.0"]
    assert ax.get_xlabel() == "width_scale" and ax.get_xscale() == "log"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "4"]


def test_the_command_line_tunes(tmp_path, capsys):
    out = [str(tmp_path / "tune.png"), str(tmp_path / "tune.csv")]
    sizes = ["--arms", "4", "--features", "2", "--horizon", "40", "--runs", "2", "--seed", "1", "--no-progress"]
    grid = ["--grid", "exploration_rounds=auto,8", "--grid", "width_scale=0.5"]
    assert cli.main(["tune", *sizes, *grid, "--estimator", "sgd", "--out", out[0], "--out", out[1]]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("hard: 4 arms, 2 features\n40 rounds, 2 runs, seed 1\n")
    assert "exploration_rounds='auto', width_scale=0.5" in printed and "exploration_rounds=8" in printed
    assert (tmp_path / "tune.csv").read_text().splitlines()[0] == "variant,exploration_rounds,width_scale,run,regret"
    assert (tmp_path / "tune.png").read_bytes()[:4] == b"\x89PNG"


def test_the_command_line_tunes_for_a_log(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = [",".join(map(str, [*rng.normal(size=4).round(2), int(rng.random() < 0.5)])) for _ in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(["a_x,a_y,b_x,b_y,winner", *rows]) + "\n")
    log = ["tune", str(tmp_path / "log.csv"), "--first", "a_*", "--second", "b_*", "--outcome", "winner"]
    log += ["--coding", "1=1,0=0", "--horizon", "30", "--runs", "2", "--estimator", "sgd", "--grid", "ridge=1"]
    assert cli.main([*log, "--arms", "3"]) == 0
    assert re.match(r"like .*log.csv: 3 arms, 2 features\n", capsys.readouterr().out)
    for wrong, message in (
        ([], "argument --arms is missing"),
        (["--arms", "3", "--features", "2"], "argument --features: a log has its own"),
        (["--arms", "3", "--grid", "ridge"], "argument --grid: 'ridge'; a parameter, =, and values"),
    ):
        assert cli.main([*log, *wrong]) == 2
        assert message in capsys.readouterr().err
