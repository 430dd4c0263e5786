"""Plain Python objects that choose and learn: played on the same world as policies of ours, fresh in every run."""

from __future__ import annotations

import json
import sys
import textwrap
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from conftest import JIT

import fastcolst as fc
from fastcolst.cli import main
from fastcolst.experiments import simulation
from fastcolst.experiments.players import PlainPolicy, player_of

SCENARIO = fc.Scenario.hard(n_arms=4, n_features=2)


class Random:
    """A random pair; keeps what it is told."""

    def __init__(self, rng: Any = None, seen: Any = None) -> None:
        self.rng, self.seen = rng, [] if seen is None else seen

    def select(self, contexts: Any) -> tuple[int, int]:
        first, second = self.rng.integers(len(contexts), size=2)
        self.seen.append((contexts.copy(), first, second))
        contexts[:] = np.nan  # mine to destroy
        return first, second

    def update(self, duel: fc.Duel, first_won: bool) -> None:
        self.seen.append((duel, first_won))


class Sized:
    """Wants to know what it will see, and a number of its own."""

    def __init__(self, n_features: int, n_arms: int, horizon: int = 7, epsilon: float = 0.1) -> None:
        self.told = n_features, n_arms, horizon, epsilon

    def select(self, contexts: Any) -> list[int]:
        assert self.told[:2] == contexts.shape[::-1]
        return [0, int(self.told[2]) % 2]

    def update(self, duel: fc.Duel, first_won: bool) -> None:
        pass


class Says:
    """Returns what it was given."""

    def __init__(self, pair: Any) -> None:
        self.pair = pair

    def select(self, contexts: Any) -> Any:
        return self.pair

    def update(self, duel: fc.Duel, first_won: bool) -> None:
        raise KeyError("nothing can be learned")


def simulate(policies: Any, horizon: int = 50, **options: Any) -> fc.Result:
    return fc.simulate(policies, SCENARIO, horizon, rng=1, checkpoints=list(range(1, horizon + 1)), **options)


def test_it_meets_the_contexts_and_the_luck_of_the_others_and_their_regret():
    """What it saw, and its regret, recomputed from the rounds of the problem."""
    player = PlainPolicy(Random()).fresh_for(2, 4, 50, 3)
    chunk, trace = SCENARIO.start(1, 0).next_chunk(50), np.zeros((51, 3))
    before = chunk.contexts.copy()
    assert player.play(chunk, trace) == 50
    assert np.array_equal(chunk.contexts, before)
    told = iter(player._playing.seen)
    regret, self_duels = np.zeros(2), 0
    for r in range(50):
        contexts, first, second = next(told)
        assert np.array_equal(contexts, chunk.contexts[r].T)
        u = chunk.utilities[r]
        regret += chunk.best[r] - (u[first] + u[second]) / 2, chunk.best[r] - max(u[first], u[second])
        self_duels += first == second
        if first != second:
            duel, won = next(told)
            assert (duel.first, duel.second, duel.round, duel.is_self) == (first, second, r + 1, False)
            assert np.array_equal(duel.contrast, contexts[first] - contexts[second])
            assert won is bool(u[first] - u[second] + chunk.latent[r] > 0)
    assert not list(told) and self_duels > 5
    np.testing.assert_allclose(trace[-1], [*regret, self_duels], rtol=1e-12)


def test_a_policy_of_ours_played_as_a_plain_object_has_the_same_regret():
    class Wrapped:
        def __init__(self, rng: Any = None) -> None:
            self.policy = fc.CoLSTIM(2, n_arms=4, estimator="sgd", exploration_rounds=10, horizon=80, rng=5)

        def select(self, contexts: Any) -> tuple[int, int]:
            self.duel = self.policy.select(contexts)
            return self.duel.first, self.duel.second

        def update(self, duel: fc.Duel, first_won: bool) -> None:
            self.policy.update(self.duel, first_won)

    m = 80
    chunk, traces = SCENARIO.start(1, 0).next_chunk(m), np.zeros((2, m + 1, 3))
    assert PlainPolicy(Wrapped).fresh_for(2, 4, m, 0).play(chunk, traces[0]) == m
    assert Wrapped().policy.play(chunk, traces[1]) == m
    np.testing.assert_allclose(traces[0], traces[1], rtol=0, atol=0 if not JIT else 1e-12)


def test_runs_are_fresh_and_repeat_and_nobody_else_matters():
    template = Random(rng=0)
    alone = simulate({"own": template}, runs=4, threads=2)
    assert template.seen == [] and template.rng == 0
    beside = simulate({"CoLSTIM": fc.UniformPairs(), "own": Random, "other": template}, runs=4, threads=1)
    assert np.array_equal(alone.average_regret["own"], beside.average_regret["own"])
    assert not np.array_equal(beside.average_regret["own"], beside.average_regret["other"])
    assert len(np.unique(alone.average_regret["own"][:, -1])) == 4


def test_a_class_is_offered_what_its_constructor_names():
    for given, told in (
        (PlainPolicy(Sized), (2, 4, 50, 0.1)),
        (PlainPolicy(Sized, {"horizon": 9, "epsilon": 0.5}), (2, 4, 9, 0.5)),
    ):
        assert given.fresh_for(2, 4, 50, 0)._playing.told == told
    duels = simulate({"even": Sized, "odd": PlainPolicy(Sized, {"horizon": 9})}).self_duels
    assert duels["even"][0, -1] == 50 and duels["odd"][0, -1] == 0
    with pytest.raises(ValueError, match=r"has 'x', which does not fit .*Says\(\): missing a required argument"):
        simulate({"x": Says})


@pytest.mark.parametrize(
    "pair", [(0, 4), (-1, 0), (0,), (0, 1, 2), 3, None, (0.5, 1), (True, False), "01", np.zeros((2, 2)), (np.nan, 0)]
)
def test_what_is_no_pair_of_arms_is_refused_with_what_was_seen(pair: Any):
    with pytest.raises(ValueError, match=r"policy 'x', run 0, round 1: select returned ") as caught:
        simulate({"x": Says(pair)})
    assert str(caught.value).endswith("; two indices from 0 to 3 are wanted")


@pytest.mark.parametrize("pair", [(3, 3), [2.0, 2], np.array([1, 1]), (np.int32(0), np.uint8(0))])
def test_two_indices_are_two_indices(pair: Any):
    assert simulate({"x": Says(pair)}).self_duels["x"][0, -1] == 50


def test_an_error_of_its_own_says_whose_it_is():
    with pytest.raises(KeyError, match="nothing can be learned") as caught:
        simulate({"x": Says((0, 1))})
    assert caught.value.__notes__ == ["policy 'x', run 0, in the rounds after 0"]


def test_in_a_study_it_says_in_which_scenario_as_well(tmp_path):
    pytest.importorskip("pyarrow")

    class Wrong(Says):
        def update(self, duel: fc.Duel, first_won: bool) -> None:
            raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^scenario 's', policy 'x', run 0, round 1: select returned \(0, 4\); two "):
        fc.Study({"x": Says((0, 4))}, {"s": SCENARIO}, 5).run(tmp_path / "a", progress=False)
    with pytest.raises(ValueError, match=r"^mine\n") as caught:
        fc.Study({"x": Wrong((0, 1))}, {"s": SCENARIO}, 5).run(tmp_path / "b", progress=False)
    assert caught.value.__notes__[:2] == ["policy 'x', run 0, in the rounds after 0", "scenario 's'"]
    assert caught.traceback[-1].name == "update"  # where it was raised


def test_it_is_stopped_between_two_rounds():
    class Slow(Says):
        def select(self, contexts: Any) -> Any:
            time.sleep(0.02)
            return 0, 0

    plan = simulation.Plan({"x": player_of(Slow(0))}, SCENARIO, 10**6, 1, np.array([10**6]))
    stop, record = threading.Event(), simulation.Record(plan)
    thread = threading.Thread(target=simulation.play_run, args=(plan, 0, record, stop))
    thread.start()
    stop.set()
    thread.join(timeout=5.0)
    assert not thread.is_alive()


def test_rules_and_other_things_are_no_players():
    for thing in (fc.Scenario, fc.SGD(), {"select": 1}, None, fc.CoLSTIM):
        assert player_of(thing) is None
        with pytest.raises(ValueError, match=r"policies has 'x': .*; a label and a policy are wanted"):
            fc.simulate({"x": thing}, SCENARIO, 5)


OWN = """
    class Alternating:
        def __init__(self, n_arms, shift=1):
            self.n_arms, self.shift, self.round = n_arms, shift, 0

        def select(self, contexts):
            self.round += 1
            return self.round % self.n_arms, (self.round + self.shift) % self.n_arms

        def update(self, duel, first_won):
            pass
"""


@pytest.fixture
def own(tmp_path, monkeypatch) -> Any:
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(OWN))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield __import__(name)
    sys.modules.pop(name, None)


def test_a_study_knows_it_by_its_class_and_arguments(own, tmp_path):
    pytest.importorskip("pyarrow")
    name = f"{own.__name__}:Alternating"

    def study(shift: int) -> fc.Study:
        policies = {
            "table": {"name": name, "shift": shift},
            "object": own.Alternating(4, shift),
            "class": own.Alternating,
        }
        return fc.Study(policies, {"s": SCENARIO}, horizon=60, runs=3, seed=2, checkpoints=3)

    tables = json.loads(json.dumps(study(2).to_dict()))["policy"]
    assert tables[0] == {"label": "table", "name": name, "shift": 2}
    assert tables[1]["attributes"] == {"n_arms": 4, "shift": 2, "round": 0}
    assert tables[2] == {"label": "class", "name": name, "shift": 1}
    result = study(2).run(tmp_path / "out", progress=False)
    regret = result.result("s").average_regret
    assert np.array_equal(regret["table"], regret["object"]) and not np.array_equal(regret["table"], regret["class"])
    with pytest.raises(ValueError, match=r"holds another study: .*shift: 2, now 3"):
        study(3).run(tmp_path / "out", progress=False)
    simulated = fc.simulate(study(2).policies | {"table": own.Alternating(4, 2)}, SCENARIO, 60, 3, 2, checkpoints=3)
    assert np.array_equal(simulated.average_regret["table"], regret["table"])


@pytest.mark.long
def test_worker_processes_play_it(own, tmp_path):
    pytest.importorskip("pyarrow")
    study = fc.Study({"own": own.Alternating, "too": own.Alternating(4)}, {"s": SCENARIO}, horizon=40, runs=2)
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        there = study.run(tmp_path / "there", executor=executor, progress=False)
    here = study.run(tmp_path / "here", progress=False)
    assert np.array_equal(there.result("s").average_regret["own"], here.result("s").average_regret["own"])


def test_the_command_line_plays_it(own, tmp_path, capsys):
    options = ["--arms", "3", "--features", "2", "--horizon", "20", "--runs", "1", "--seed", "1", "--no-progress"]
    assert main(["simulate", "--policies", f"{own.__name__}:Alternating,UniformPairs", *options]) == 0
    assert "Alternating" in capsys.readouterr().out
    assert main(["replay", "nothing.npz", "--policy", f"{own.__name__}:Alternating"]) == 2
