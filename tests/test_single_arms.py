"""Regret of the first arm and of the greedy arm: in simulations, results, files, studies and on the command line."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from conftest import rounds

import fastcolst as fc
from fastcolst.cli import main
from fastcolst.experiments.players import player_of
from fastcolst.experiments.results import SINGLE_ARMS, TABLES
from fastcolst.experiments.simulation import Plan

SCENARIO = fc.Scenario.hard(n_arms=6, n_features=2)


class Plain:
    """The first two arms, for ever."""

    def select(self, contexts: Any) -> tuple[int, int]:
        return 1, 0

    def update(self, duel: fc.Duel, first_won: bool) -> None:
        pass


POLICIES = {
    "sgd": fc.CoLSTIM(2, estimator="sgd", exploration_rounds=5),
    "mle": fc.CoLSTIM(2, exploration_rounds=5),
    "at once": fc.CoLSTIM(2, estimator="sgd", exploration_rounds=0, ridge=1.0),
    "stages": fc.SupCoLSTIM(2, estimator="sgd", exploration_rounds=5, width_scale=0.5),
    "MaxInP": fc.MaxInP(2, estimator="sgd", exploration_rounds=5),
    "blind": fc.UniformPairs(),
    "index": fc.SelfSparring(),
    "plain": Plain(),
}


def by_hand(plan: Plan, label: str, run: int) -> np.ndarray:
    """First arm's and greedy arm's cumulative regret by a loop over the policy's public methods."""
    policy, chunk = plan.policy(label, run), plan.scenario.start(plan.entropy, run).next_chunk(plan.horizon)
    regret = []
    for r in range(plan.horizon):
        contexts, utilities = chunk.contexts[r].T.copy(), chunk.utilities[r]
        had_explored = policy.status != "exploring"
        duel = policy.select(contexts)
        exploring = not had_explored and policy.status == "exploring"
        greedy = duel.first if exploring else np.argmax(contexts @ policy.theta)
        regret.append(utilities.max() - utilities[[duel.first, greedy]])
        if not duel.is_self:
            policy.update(duel, utilities[duel.first] - utilities[duel.second] + chunk.latent[r] > 0.0)
    return np.cumsum(regret, axis=0)


def simulate(horizon: int, policies: Any = POLICIES, **options: Any) -> fc.Result:
    return fc.simulate(policies, SCENARIO, horizon, runs=2, rng=3, checkpoints=range(1, horizon + 1), **options)


@pytest.mark.filterwarnings("ignore:.* showed an arm against itself:UserWarning")  # which is no matter here
@pytest.mark.parametrize("label", ["sgd", "mle", "at once", "stages", "MaxInP"])
def test_they_are_what_a_loop_by_hand_adds_up(label):
    horizon = rounds(300, 60)
    policies = {label: POLICIES[label]}
    result = simulate(horizon, policies, single_arms=True)
    plan = Plan({label: player_of(POLICIES[label])}, SCENARIO, horizon, 3, np.arange(1, horizon + 1))
    for run in range(2):
        found = np.stack([result.first_regret[label][run], result.greedy_regret[label][run]], axis=1)
        np.testing.assert_allclose(found, by_hand(plan, label, run), rtol=1e-12, atol=1e-12)
    assert not np.array_equal(result.first_regret[label], result.greedy_regret[label])


def test_nothing_else_changes_when_they_are_asked_for():
    horizon = rounds(300, 40)
    without, found = simulate(horizon), simulate(horizon, single_arms=True)
    assert without.first_regret == without.greedy_regret == {} and without.tables == TABLES
    assert found.tables == (*TABLES, *SINGLE_ARMS)
    for label in POLICIES:
        for name in TABLES:
            assert getattr(found, name)[label].tobytes() == getattr(without, name)[label].tobytes()
        first, average, weak = (getattr(found, f"{name}_regret")[label] for name in ("first", "average", "weak"))
        assert np.all(first >= weak - 1e-9) and np.all(first <= 2 * average - weak + 1e-9)
        has_estimate = label not in ("blind", "index", "plain")
        assert np.isnan(found.greedy_regret[label]).any() != has_estimate
        assert np.isnan(found.greedy_regret[label]).all() != has_estimate
    assert not found.same_numbers(without)
    chunk = SCENARIO.start(3, 1).next_chunk(horizon)
    np.testing.assert_allclose(
        found.first_regret["plain"][1], np.cumsum(chunk.best - chunk.utilities[:, 1]), rtol=1e-12
    )


def test_the_greedy_arm_of_an_exploring_policy_is_the_first_of_its_pair():
    result = simulate(20, {"all of it": fc.CoLSTIM(2, exploration_rounds=30)}, single_arms=True)
    np.testing.assert_array_equal(result.greedy_regret["all of it"], result.first_regret["all of it"])


def test_they_are_in_tables_and_files_and_files_without_them_stay_as_they_were(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    found, without = simulate(20, single_arms=True), simulate(20)
    for result, version in ((found, 2), (without, 1)):
        path = tmp_path / f"{version}.parquet"
        result.save(path)
        again = fc.load_result(path)
        assert again.same_numbers(result) and again.tables == result.tables
        assert list(result.to_pandas().columns) == ["policy", "run", "round", *result.tables]
        assert json.loads(pq.read_schema(path).metadata[b"fastcolst"])["version"] == version
    head, *rows = found.summary().splitlines()[1:]
    assert "first arm  greedy arm" in head and "first arm" not in without.summary()
    assert {row.split()[0] for row in rows if " - " in row} == {"blind", "index", "plain"}
    greedy = {label: table.copy() for label, table in found.greedy_regret.items()}
    greedy["sgd"][0, 3] += 1.0
    parts = {name: getattr(found, name) for name in (*TABLES, "first_regret", "seconds", "thetas", "rounds")}
    changed = fc.Result(**parts, greedy_regret=greedy, seed=3, horizon=20, runs=2, settings={})
    assert not changed.same_numbers(found)
    with pytest.raises(ValueError, match=r"first_regret has the policies \[\].*; the same are wanted"):
        fc.Result(**{**parts, "first_regret": {}}, greedy_regret=greedy, seed=3, horizon=20, runs=2, settings={})


def test_a_study_tells_them_as_simulate_does_and_goes_on_where_it_stopped(tmp_path):
    pytest.importorskip("pyarrow")
    policies = {label: POLICIES[label] for label in ("sgd", "blind", "plain")}
    study = fc.Study(policies, {"x": SCENARIO}, horizon=30, runs=2, seed=3, checkpoints=5, single_arms=True)
    result = study.run(tmp_path / "out", progress=False)
    wanted = fc.simulate(policies, SCENARIO, 30, runs=2, rng=3, checkpoints=5, single_arms=True)
    found = result.result("x")
    for name in wanted.tables:
        for label in policies:
            np.testing.assert_array_equal(getattr(found, name)[label], getattr(wanted, name)[label])
    cell = min((tmp_path / "out" / "cells").iterdir())
    whole = cell.read_bytes()
    cell.unlink()
    assert study.run(tmp_path / "out", progress=False).missing == 0 and cell.read_bytes() == whole
    assert [*result.to_pandas().columns[4:9]] == list(wanted.tables)
    with pytest.raises(ValueError, match="single_arms: True, now None"):
        fc.Study(policies, {"x": SCENARIO}, 30, 2, 3, 5).run(tmp_path / "out", progress=False)


def test_a_studys_table_tells_whether_they_are_wanted():
    table = {
        "horizon": 10,
        "policy": [{"name": "UniformPairs"}],
        "scenario": [{"name": "easy", "n_arms": 3, "n_features": 2}],
    }
    without = fc.Study.from_dict(table)
    wanted = fc.Study.from_dict({**table, "single_arms": True})
    assert "single_arms" not in without.to_dict() and fc.Study.from_dict(wanted.to_dict()) == wanted != without
    with pytest.raises(ValueError, match="single_arms is 'yes'; True, False, 1 or 0 is wanted"):
        fc.Study.from_dict({**table, "single_arms": "yes"})
    with pytest.raises(ValueError, match="single_arms is 2; True, False, 1 or 0 is wanted"):
        simulate(10, single_arms=2)


def test_the_command_line_tells_them(capsys):
    command = "simulate --arms 4 --features 2 --horizon 40 --runs 2 --seed 1 --estimator sgd --no-progress"
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert main([*command.split(), "--single-arms"]) in (None, 0)
    assert "first arm  greedy arm" in capsys.readouterr().out
