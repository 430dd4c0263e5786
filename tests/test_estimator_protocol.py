"""What every estimator, ours or somebody's own, keeps with every policy that has an estimate."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import everyday, rounds

import fastcolst as fc
from fastcolst.estimation import protocol
from fastcolst.estimation.estimators import engine_of
from fastcolst.extend import FULL, LEARNED


class Kept(NamedTuple):
    """Rows that are kept until they are refitted; ``used`` of them are in use."""

    theta: Any
    rows: Any
    shares: Any
    used: Any
    fitted: Any


class Refitting(NamedTuple):
    """Least squares of everything, refitted when theta is wanted: it keeps, grows, is stale and has a word."""

    ridge: float = 1.0
    room: int = 4

    def memory(self, n_features):
        rows = np.zeros((int(self.room), n_features))
        return Kept(np.zeros(n_features), rows, np.zeros(len(rows)), np.zeros((), np.int64), np.zeros((), np.int64))

    def learn(self, model, memory, contrast, share, weight):
        used = memory.used[()]
        if used == memory.rows.shape[0]:
            return FULL
        for k in range(contrast.size):
            memory.rows[used, k] = contrast[k]
        memory.shares[used] = share
        memory.used[()] = used + 1
        return LEARNED

    def is_stale(self, memory, wanted):
        return wanted and memory.fitted[()] < memory.used[()]

    def refresh(self, model, memory):
        memory.theta[:] = self.solved(memory)
        memory.fitted[()] = memory.used[()]

    def grown(self, memory, n):
        lacking = int(memory.used) + n - len(memory.rows)
        if lacking <= 0:
            return memory
        rows = np.concatenate([memory.rows, np.zeros((lacking, memory.rows.shape[1]))])
        return memory._replace(rows=rows, shares=np.concatenate([memory.shares, np.zeros(lacking)]))

    def solved(self, memory):
        rows, shares = memory.rows[: int(memory.used)], memory.shares[: int(memory.used)]
        return np.linalg.solve(rows.T @ rows + self.ridge * np.eye(rows.shape[1]), rows.T @ (4.0 * shares - 2.0))

    def status(self, memory):
        return f"fitted to {int(memory.fitted)}"

    def audit(self, model, memory):
        return np.abs(memory.theta - self.solved(memory)).max()

    def information(self, memory):
        rows = memory.rows[: int(memory.used)]
        return rows.T @ rows + self.ridge * np.eye(rows.shape[1])


class Sated(NamedTuple):
    """It says that it is full, and does not grow."""

    most: float = 10.0

    def memory(self, n_features):
        return Kept(np.zeros(n_features), *np.zeros((2, 1)), np.zeros((), np.int64), np.zeros((), np.int64))

    def learn(self, model, memory, contrast, share, weight):
        if memory.used[()] >= self.most:
            return FULL
        memory.used[()] += 1
        return LEARNED


class Restless(NamedTuple):
    """It asks to be refreshed, and cannot be."""

    limit: float = 3.0
    memory = Sated.memory

    def learn(self, model, memory, contrast, share, weight):
        memory.used[()] += 1
        return LEARNED

    def is_stale(self, memory, wanted):
        return wanted and memory.used[()] > self.limit


ESTIMATORS = {
    "sgd": fc.SGD(),
    "mle": fc.MLE(),
    "online-newton": fc.OnlineNewton(history=30),
    "one's own": Refitting(),
}
POLICIES = {
    "CoLSTIM": fc.CoLSTIM,
    "MaxInP": fc.MaxInP,
    "MaxPairUCB": fc.MaxPairUCB,
    "SupCoLSTIM": fc.SupCoLSTIM,
    "StaD": fc.StaD,
}
ALIKE = ("MaxInP", "MaxPairUCB", "StaD")
"""Policies that call the same methods of an estimator as the others: compiled, they do without one's own."""
ONES_OWN = [pytest.param(policy, marks=everyday(policy not in ALIKE)) for policy in POLICIES]
EITHER = [
    pytest.param(policy, estimator, marks=everyday(not (policy in ALIKE and estimator == "one's own")))
    for policy in POLICIES
    for estimator in ESTIMATORS
]


def built(policy, estimator):
    return POLICIES[policy](3, n_arms=5, horizon=4000, exploration_rounds=20, estimator=estimator, rng=1)


def answered(policy, rng, n_rounds):
    theta = np.array([1.0, -0.5, 0.0])
    for _ in range(n_rounds):
        duel = policy.select(rng.normal(size=(5, 3)))
        policy.update(duel, bool(duel.contrast @ theta + rng.logistic() > 0.0))


@pytest.mark.parametrize(("policy", "estimator"), EITHER)
def test_it_serves_rounds_logs_and_copies(policy, estimator):
    """More rounds than go by between two looks at the status, and more comparisons than a memory begins with."""
    rng, ours = np.random.default_rng(0), built(policy, ESTIMATORS[estimator])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answered(ours, rng, rounds(150, 70))
        winners, losers = rng.normal(size=(2, 400, 3))
        ours.learn(winners, losers)
        answered(ours, rng, rounds(100, 30))
    assert np.all(np.isfinite(ours.theta)) and isinstance(ours.status, str)
    contexts = rng.normal(size=(5, 3))
    for twin in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert twin.theta.tobytes() == ours.theta.tobytes() and twin.status == ours.status
        pair = twin.select(contexts)
        same = copy.deepcopy(ours).select(contexts)
        assert (pair.first, pair.second) == (same.first, same.second)


@pytest.mark.parametrize(("policy", "estimator"), EITHER)
def test_it_is_simulated_as_it_is_served(policy, estimator):
    fused, ours = built(policy, ESTIMATORS[estimator]), built(policy, ESTIMATORS[estimator])
    n_rounds = rounds(300, 80)
    chunk = fc.Scenario.hard(n_arms=5, n_features=3).start(1, 0).next_chunk(n_rounds)
    trace = np.zeros((n_rounds + 1, 3))
    assert fused.play(chunk, trace) == n_rounds
    for contexts, utilities, latent in zip(chunk.contexts, chunk.utilities, chunk.latent, strict=True):
        duel = ours.select(np.ascontiguousarray(contexts.T))
        ours.update(duel, bool(utilities[duel.first] - utilities[duel.second] + latent > 0.0))
    assert fused.theta.tobytes() == ours.theta.tobytes() and fused.status == ours.status


@pytest.mark.parametrize("policy", ONES_OWN)
def test_an_estimator_of_ones_own_that_grows_learns_a_log_to_its_end(policy):
    rng, ours = np.random.default_rng(0), built(policy, Refitting())
    contrasts = rng.normal(size=(700, 3))
    wins = contrasts[:, 0] + rng.logistic(size=700) > 0.0
    predicted = ours.learn_and_predict(contrasts, wins)
    wanted = np.linalg.solve(contrasts.T @ contrasts + np.eye(3), contrasts.T @ np.where(wins, 2.0, -2.0))
    np.testing.assert_allclose(ours.theta, wanted, rtol=1e-10)
    assert ours.status == "fitted to 700" and ours.audit() < 1e-12 and predicted[:100].std() > 0.0
    answered(ours, rng, 200)
    stages = [ours.stage(s) for s in range(1, ours.n_stages + 1)] if hasattr(ours, "stage") else []
    assert all(np.all(np.isfinite(stage.theta)) for stage in stages)


@pytest.mark.parametrize("policy", ONES_OWN)
def test_one_that_can_go_no_further_says_so_and_changes_nothing(policy):
    rng = np.random.default_rng(0)
    winners, losers = rng.normal(size=(2, 30, 3))
    for estimator, trouble in ((Sated(), "memory is full"), (Restless(), "no method refresh")):
        ours = built(policy, estimator)
        with pytest.raises(TypeError, match=f"{type(estimator).__name__}.*{trouble}"):
            ours.learn_and_predict(winners - losers, [True] * 30)
        assert ours.theta.tobytes() == bytes(24) and not ours.gram.any()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_python_asks_of_it(name):
    engine, model = engine_of(ESTIMATORS[name]), fc.BradleyTerry()
    memory = protocol.grown(engine, protocol.new_memory(engine, 2), 300)
    rng = np.random.default_rng(2)
    contrasts = rng.normal(size=(300, 2))
    for contrast in contrasts:
        share = 0.5 if rng.random() < 0.2 else float(contrast[0] + rng.logistic() > 0.0)
        while code := protocol.learn(engine, model, memory, contrast, share, 2.0):
            if code == FULL:
                memory = protocol.grown(engine, memory, 1)
            else:
                protocol.refresh(engine, model, memory)
    if protocol.is_stale(engine, memory, True):
        protocol.refresh(engine, model, memory)
    assert not protocol.is_stale(engine, memory, True) and isinstance(protocol.status(engine, memory), str)
    known = protocol.information(engine, memory)
    assert known is None or (known.shape == (2, 2) and np.all(np.linalg.eigvalsh(known) > 0.0))
    if name in {"mle", "one's own"}:
        assert protocol.audit(engine, model, memory) <= 0.01
    else:
        with pytest.raises(AttributeError, match="keeps no history"):
            protocol.audit(engine, model, memory)
    other = protocol.grown(engine, memory, 1000)
    assert other.theta.tobytes() == memory.theta.tobytes()


def test_one_pass_refuses_what_overflows_and_goes_on():
    """After its start there is no solve that could mend a factor."""
    engine, model, rng = engine_of(fc.OnlineNewton(history=20)), fc.BradleyTerry(), np.random.default_rng(1)
    memory = protocol.new_memory(engine, 2)

    def learned(contrast):
        while (code := protocol.learn(engine, model, memory, contrast, 1.0, 1.0)) == protocol.STALE:
            protocol.refresh(engine, model, memory)
        return code

    for contrast in rng.normal(size=(40, 2)):
        assert learned(contrast) == LEARNED
    before = memory.theta.copy(), memory.progress["learned"].item()
    assert learned(np.full(2, 1e200)) == protocol.OVERFLOW
    assert memory.theta.tobytes() == before[0].tobytes() and memory.progress["learned"] == before[1]
    assert learned(np.ones(2)) == LEARNED and memory.theta[0] > before[0][0]
    huge = fc.CoLSTIM(2, estimator=fc.OnlineNewton(history=0, ridge=1e-100), exploration_rounds=0, rng=0)
    with pytest.raises(ValueError, match="overflows"):
        huge.learn([[2e132, 0.0]], [[0.0, 3e132]])
    assert not huge.theta.any()


def test_ties_and_weights_are_those_of_the_reference():
    """A tie is half a win and half a loss, a weight so many equal answers."""
    rng = np.random.default_rng(3)
    contrasts, weights = rng.normal(size=(400, 3)), rng.integers(1, 4, size=400).astype(float)
    shares = np.where(rng.random(400) < 0.3, 0.5, contrasts[:, 0] + rng.logistic(size=400) > 0.0)
    found = fc.fit(contrasts, shares * weights, weights)
    for estimator, most in ((fc.MLE(1e-3), 1e-3), (fc.OnlineNewton(history=100, ridge=1e-6), 0.5)):
        engine, model = engine_of(estimator), fc.BradleyTerry()
        memory = protocol.grown(engine, protocol.new_memory(engine, 3), 1000)
        for contrast, share, weight in zip(contrasts, shares, weights, strict=True):
            while protocol.learn(engine, model, memory, contrast, share, weight) != LEARNED:
                protocol.refresh(engine, model, memory)
        if protocol.is_stale(engine, memory, True):
            protocol.refresh(engine, model, memory)
        assert np.abs((memory.theta - found.theta) / found.standard_errors).max() <= most
