"""Policies: the same choices as the reference, and what the objects promise to the people who hold them."""

from __future__ import annotations

import ast
import contextlib
import copy
import dataclasses
import functools
import inspect
import itertools
import math
import pickle
import pydoc
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from conftest import everyday, rounds
from inside import arrays, index_twin_of, interrupted, rule_of, snapshot
from twins import DEFAULTS, SCORES, STAGED

import fastcolst as fc
from fastcolst import reference, streams
from fastcolst.policies import REGISTRY, parameters
from fastcolst.policies.colstim import _coupling_probability

CoLSTIM = functools.partial(fc.CoLSTIM, estimator="sgd")
"""The exact estimator has tests of its own, and is slow as plain Python."""


@fc.register
class Cauchy(NamedTuple):
    """A model of a user's own, with the least that one needs."""

    width: float = 1.0

    def cdf(self, u):
        return 0.5 + np.arctan(u / self.width) / np.pi

    def pdf(self, u):
        return 1.0 / (np.pi * self.width * (1.0 + (u / self.width) ** 2))

    def raw(self, rng, size=None):
        return rng.standard_exponential(size)

    def perturb(self, value):
        return 0.5 * self.width * np.tan(np.pi * (np.exp(-value) - 0.5))


class Problem:
    """Contexts, answers and utilities of a small hard problem, the same for everyone who asks."""

    def __init__(self, d, n, model, seed=5):
        self.n_arms = n
        self.run = fc.Scenario.hard(n_arms=n, n_features=d, comparison=model).start(seed, 0)

    def chunk(self, n_rounds):
        chunk = self.run.next_chunk(n_rounds)
        return type(chunk)(*(array.copy() for array in chunk))


def contexts_of(chunk, r):
    return np.ascontiguousarray(chunk.contexts[r].T)


def first_wins(chunk, r, first, second):
    return bool(chunk.utilities[r, first] - chunk.utilities[r, second] + chunk.latent[r] > 0.0)


def follow(policy, twin, rng, chunk, *, delay=None):
    """Let a policy and its reference play a chunk; return the arms, which must agree in every round."""
    pairs, waiting = [], []
    n = chunk.contexts.shape[2]
    for r in range(len(chunk.best)):
        contexts = contexts_of(chunk, r)
        duel = policy.select(contexts)
        pair = twin.select(contexts, *twin.draw(rng, n))
        assert (duel.first, duel.second) == pair, f"round {policy.round}"
        pairs.append(pair)
        if not duel.is_self:
            waiting.append((duel, first_wins(chunk, r, *pair)))
        while waiting and (delay is None or len(waiting) > delay.integers(8)):
            answered, won = waiting.pop(0 if delay is None else delay.integers(len(waiting)))
            policy.update(answered, won)
            twin.update(answered.contrast, won)
    return np.array(pairs)


# --- the same choices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, pytest.param(10, marks=everyday(False)), 30])
@pytest.mark.parametrize("name", DEFAULTS)
def test_object_fused_loop_and_reference_choose_the_same_duels(name, d):
    n, horizon = 20, rounds(4_000, 200)
    model, plain = DEFAULTS[name]
    options = {"n_arms": n, "horizon": horizon, "exploration_rounds": rounds(n * d, 2 * d)}
    policy = CoLSTIM(d, comparison=model, rng=3, **options)
    fused = CoLSTIM(d, comparison=model, rng=3, **options)
    twin, rng = reference.CoLSTIM(d, comparison=plain, **options), streams.generator(3)
    problem = Problem(d, n, model)

    played, totals, trace = 0, np.zeros(3), np.zeros((1, 3))
    while played < horizon:
        chunk = problem.chunk(min(500, horizon - played))
        m = len(chunk.best)
        pairs = follow(policy, twin, rng, chunk)

        trace = np.vstack([trace[-1:], np.empty((m, 3))])
        assert fused.play(chunk, trace) == m
        for r, (first, second) in enumerate(pairs):
            average, weak = reference.regret(chunk.utilities[r], first, second)
            totals += average, weak, first == second
            np.testing.assert_allclose(trace[r + 1], totals, rtol=1e-11, atol=1e-11)
        played += m

    assert policy.status == "ready" and policy.round == horizon
    assert fused.theta.tobytes() == policy.theta.tobytes()
    assert fused.gram.tobytes() == policy.gram.tobytes()
    np.testing.assert_allclose(policy.theta, twin.theta, rtol=0, atol=1e-10)
    np.testing.assert_allclose(policy.gram, twin.gram, rtol=1e-12, atol=1e-12)


OPTIONS = {
    "ridge": {"ridge": 0.3},
    "ridge, no exploration": {"ridge": 1e-3, "exploration_rounds": 0},
    "anytime": {"horizon": None},
    "coupled": {"coupling": 0.0},
    "half coupled": {"coupling": 0.5},
    "uncoupled": {"coupling": 1.0},
    "theorem's coupling": {"coupling": "theorem", "width_scale": 0.1},
    "long after the exploration": {"exploration_rounds": 3, "coupling": None},
    "unclipped": {"clip": math.inf},
    "greedy first arm": {"clip": 0.0},
    "tight clip": {"clip": 0.3},
    "wide": {"width_scale": 10.0},
    "no widths": {"width_scale": 0.0},
    "no self-duels": {"allow_self_duel": False},
    "other noise": {"perturbation": "thurstone"},
    "small ridge": {"ridge": 1e-9, "exploration_rounds": 1},
    "decay": {"estimator": fc.SGD(0.7, decay=0.6)},
    "radius": {"estimator": fc.SGD(0.5, radius=0.8)},
}


def twin_of(policy_options, d, **more):
    """The reference's version of a policy's options."""
    options = {**policy_options, **more}
    estimator = options.pop("estimator", fc.SGD())
    options.setdefault("comparison", "bradley-terry")
    for name in ("comparison", "perturbation"):
        if options.get(name) in DEFAULTS:
            options[name] = DEFAULTS[options[name]][1]
    return reference.CoLSTIM(
        d,
        learning_rate=estimator.learning_rate,
        decay=estimator.decay,
        radius=estimator.radius,
        score=estimator.score,
        **options,
    )


@pytest.mark.filterwarnings("ignore:.*showed an arm against itself")
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_agrees_with_the_reference(name):
    d, n, horizon = 3, 7, rounds(1500, 120)
    options = {"n_arms": n, "horizon": horizon, **OPTIONS[name]}
    policy, twin = CoLSTIM(d, rng=11, **options), twin_of(options, d)
    pairs = follow(policy, twin, streams.generator(11), Problem(d, n, fc.BradleyTerry()).chunk(horizon))
    assert policy.status == "ready"
    np.testing.assert_allclose(policy.theta, twin.theta, rtol=0, atol=1e-10)
    if name == "no self-duels":
        assert np.all(pairs[:, 0] != pairs[:, 1])
    contexts = np.random.default_rng(1).normal(size=(n, d))
    np.testing.assert_allclose(policy.widths(contexts), twin.widths(contexts), rtol=1e-9)
    np.testing.assert_allclose(policy.utilities(contexts), twin.utilities(contexts), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", ["thurstone", "exponential"])
def test_both_scores_agree_with_the_reference(name, score):
    d, n, horizon = 4, 6, rounds(1500, 100)
    options = {
        "n_arms": n,
        "horizon": horizon,
        "comparison": name,
        "exploration_rounds": 20,
        "estimator": fc.SGD(score=score),
    }
    policy, twin = CoLSTIM(d, rng=2, **options), twin_of(options, d)
    follow(policy, twin, streams.generator(2), Problem(d, n, DEFAULTS[name][0]).chunk(horizon))
    np.testing.assert_allclose(policy.theta, twin.theta, rtol=0, atol=1e-10)


def test_delayed_answers_in_any_order_agree_with_the_reference():
    d, n, horizon = 3, 6, rounds(2000, 100)
    policy = CoLSTIM(d, n_arms=n, horizon=horizon, rng=4)
    twin = twin_of({"n_arms": n, "horizon": horizon}, d)
    problem = Problem(d, n, fc.BradleyTerry())
    pairs = follow(policy, twin, streams.generator(4), problem.chunk(horizon), delay=np.random.default_rng(0))
    assert policy.round == len(pairs)
    np.testing.assert_allclose(policy.theta, twin.theta, rtol=0, atol=1e-10)


def test_a_log_counts_towards_the_exploration_and_agrees_with_the_reference():
    d, n = 3, 5
    rng = np.random.default_rng(8)
    winners, losers = rng.normal(size=(12, d)), rng.normal(size=(12, d))
    policy = CoLSTIM(d, n_arms=n, horizon=500, rng=6)
    twin = twin_of({"n_arms": n, "horizon": 500}, d)
    policy.learn(winners, losers)
    twin.learn(winners - losers, np.ones(12, bool))
    assert (policy.round, policy.pending, policy.status) == (0, 0, "exploring")
    follow(policy, twin, streams.generator(6), Problem(d, n, fc.BradleyTerry()).chunk(rounds(400, 60)))
    assert policy.status == "ready" and twin.exploration_end == 3
    np.testing.assert_allclose(policy.theta, twin.theta, rtol=0, atol=1e-10)


def test_the_number_of_arms_may_change_when_it_is_not_given():
    d, policy = 3, CoLSTIM(3, horizon=300, rng=9)
    twin, rng = twin_of({"n_arms": 6, "horizon": 300}, d), streams.generator(9)
    for t in range(rounds(200, 60)):
        chunk = Problem(d, 6 if t == 0 else 2 + t % 9, fc.BradleyTerry(), seed=t).chunk(1)
        follow(policy, twin, rng, chunk)
    assert policy.status == "ready"


def test_a_users_model_works_as_comparison_and_as_perturbation():
    model = Cauchy(1)  # an int where a float is meant
    assert model.width == 1.0 and type(model.width) is float
    problem = Problem(3, 6, model).chunk(rounds(1500, 1000))
    policies = [
        CoLSTIM(3, comparison=model, horizon=1500, rng=1),
        CoLSTIM(3, perturbation=model, horizon=1500, rng=1),
    ]
    for policy in policies:
        for r in range(len(problem.best)):
            duel = policy.select(contexts_of(problem, r))
            policy.update(duel, first_wins(problem, r, duel.first, duel.second))
        assert policy.status == "ready"
        assert np.corrcoef(policy.theta, problem_theta(3, model))[0, 1] > 0.9
    first = np.array([0.3, 0.1, -0.2])
    expected = model.cdf(first @ policies[0].theta)
    assert policies[0].probability(first, np.zeros(3)) == pytest.approx(float(expected), rel=1e-14)


def problem_theta(d, model):
    return Problem(d, 6, model).run.theta


# --- the theorem's constants --------------------------------------------------------------------------------


def test_the_theorems_constants():
    d, T, rho, norm = 3, 20_000_000, 0.25, 1.0
    policy = fc.CoLSTIM.from_theorem(d, n_arms=10, horizon=T, rho=rho, theta_norm=norm)
    got = policy.get_params()
    e = math.exp(-4.0)  # margins up to |x| |theta| <= 2 (1 + 1)
    mu = e / (1 + e) ** 2
    c1 = math.sqrt(d * math.log(T / d) + 2 * math.log(T)) / (2 * mu)
    assert got["width_scale"] == pytest.approx(c1, rel=1e-12)
    assert 0 < got["clip"] < got["width_scale"] and got["clip"] == pytest.approx(c1)
    assert got["exploration_rounds"] == math.ceil(d + max(d**2 * math.log(T) / (mu**2 * rho), d / rho))
    assert (got["coupling"], got["horizon"], got["n_arms"]) == ("theorem", T, 10)


def test_the_theorem_warns_when_it_would_only_explore():
    with pytest.warns(UserWarning, match=r"takes \d+ rounds and the horizon is 1000"):
        fc.CoLSTIM.from_theorem(5, n_arms=10, horizon=1000, rho=0.1)
    with pytest.raises(ValueError, match="rho"):
        fc.CoLSTIM.from_theorem(5, n_arms=10, horizon=1000, rho=0.0)
    for extreme in ({"rho": 1e-300}, {"rho": 1.0, "theta_norm": 100.0}):
        with pytest.raises(ValueError, match="longer than any horizon"):
            fc.CoLSTIM.from_theorem(5, n_arms=10, horizon=1000, **extreme)
    with pytest.raises(ValueError, match="horizon is 4"):
        fc.CoLSTIM.from_theorem(5, n_arms=10, horizon=4, rho=1.0)


@pytest.mark.parametrize("coupling", [None, "theorem", 0.3])
def test_the_probability_of_independent_noise(coupling):
    """p_t, which the experiments cut at 1 for thousands of rounds, is that of the reference."""
    for d, T, since in ((2, 100, 1), (2, 5000, 400), (10, 10**6, 10**5), (30, 20, 19)):
        options = {"n_arms": 3, "horizon": T, "coupling": coupling}
        twin = reference.CoLSTIM(d, comparison=reference.BradleyTerry(), **options)
        twin.exploration_end, twin.round = 7, 7 + since
        p = _coupling_probability(rule_of(fc.CoLSTIM(d, **options)), d, since, float(T), twin.confidence_scale())
        assert min(1.0, p) == pytest.approx(twin.coupling_probability(), rel=1e-14)
    if coupling is None:  # the reference by hand, at the second instance
        rule = rule_of(fc.CoLSTIM(2, n_arms=3, horizon=5000))
        assert _coupling_probability(rule, 2, 400, 5000.0, 0.0) == pytest.approx(0.1 * math.log(10_000.0))


# --- singular for ever --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contexts", "rank"),
    [
        (np.c_[np.random.default_rng(0).normal(size=(6, 2)), np.ones(6)], 2),  # a constant feature
        (np.eye(4), 3),  # one-hot arms
        (np.random.default_rng(1).normal(size=(3, 5)), 2),  # fewer arms than features
        (np.zeros((3, 2)), 0),
    ],
)
def test_a_gram_matrix_that_stays_singular_warns_once_and_goes_on_exploring(contexts, rank):
    n, d = contexts.shape
    policy = CoLSTIM(d, horizon=1000, rng=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3 * n * d):
            duel = policy.select(contexts)
            assert not duel.is_self
            policy.update(duel, True)
    assert len(caught) == 1
    assert f"span {rank} of {d} dimensions" in str(caught[0].message) and "ridge" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert policy.status == "exploring"
    assert np.all(np.isinf(policy.widths(contexts)))

    cured = CoLSTIM(d, horizon=1000, rng=0, ridge=1.0)
    for _ in range(n * d):
        cured.update(cured.select(contexts), True)
    assert cured.status == "ready" and np.all(np.isfinite(cured.widths(contexts)))


# --- wrong input --------------------------------------------------------------------------------------------

X = np.random.default_rng(0).normal(size=(4, 3))


def with_entry(value):
    contexts = X.copy()
    contexts[1, 2] = value
    return contexts


def trained():
    policy = CoLSTIM(3, n_arms=4, horizon=100, exploration_rounds=4, rng=1, ridge=0.1)
    for _ in range(10):
        duel = policy.select(X)
        policy.update(duel, True)
    while True:
        duel = policy.select(X + np.random.default_rng(policy.round).normal(size=X.shape))
        if not duel.is_self:
            return policy, duel


WRONG_CALLS = {
    "nan": (lambda p, d: p.select(with_entry(np.nan)), r"contexts\[1, 2\] is nan"),
    "inf": (lambda p, d: p.select(with_entry(-np.inf)), r"contexts\[1, 2\] is -inf"),
    "overflow": (lambda p, d: p.select(with_entry(1e200)), "overflow"),
    "features": (lambda p, d: p.select(X[:, :2]), "contexts has 2 features.*n_features=3"),
    "arms": (lambda p, d: p.select(X[:3]), "contexts has 3 arms.*n_arms=4"),
    "vector": (lambda p, d: p.select(X[0]), r"contexts has shape \(3,\)"),
    "cube": (lambda p, d: p.select(X[np.newaxis]), r"contexts has shape \(1, 4, 3\)"),
    "no arms": (lambda p, d: p.select(np.empty((0, 3))), "empty"),
    "no features": (lambda p, d: p.select(np.empty((4, 0))), "empty"),
    "text": (lambda p, d: p.select([["a", "b", "c"]]), "not an array of real numbers"),
    "complex": (lambda p, d: p.select(X + 1j), "not an array of real numbers"),
    "ragged": (lambda p, d: p.select([[1.0, 2.0, 3.0], [1.0]]), "not an array of real numbers"),
    "masked": (lambda p, d: p.select(np.ma.masked_greater(X, X.max() - 1e-9)), "is nan"),
    "None": (lambda p, d: p.select(None), "contexts"),
    "answer 2": (lambda p, d: p.update(d, 2), "first_won is 2"),
    "answer 0.3": (lambda p, d: p.update(d, 0.3), r"first_won is 0\.3"),
    "answer nan": (lambda p, d: p.update(d, math.nan), "first_won is nan"),
    "answer yes": (lambda p, d: p.update(d, "yes"), "first_won is 'yes'"),
    "answer None": (lambda p, d: p.update(d, None), "first_won is None"),
    "answer array": (lambda p, d: p.update(d, np.array([1, 0])), "first_won"),
    "not a duel": (lambda p, d: p.update((0, 1), True), "duel is"),
    "another policy's": (lambda p, d: p.update(trained()[1], True), "another policy"),
    "log shapes": (lambda p, d: p.learn(X, X[:2]), r"winners has shape \(4, 3\) and losers \(2, 3\)"),
    "log nan": (lambda p, d: p.learn(X, with_entry(np.nan)), r"losers\[1, 2\] is nan"),
    "log empty": (lambda p, d: p.learn(X[:0], X[:0]), "empty"),
    "log features": (lambda p, d: p.learn(X[:, :1], X[:, :1]), "winners has 1 features"),
    "log answers": (lambda p, d: p.learn_and_predict(X, [1, 0, 2, 0]), r"wins\[2\] is 2"),
    "log answers' number": (lambda p, d: p.learn_and_predict(X, [1, 0]), "wins has shape"),
    "probability shapes": (lambda p, d: p.probability(X, X[0]), "second has shape"),
    "probability nan": (lambda p, d: p.probability([1.0, np.nan, 0.0], X[0]), r"first\[1\] is nan"),
    "utilities": (lambda p, d: p.utilities(X[:, :1]), "contexts has 1 features"),
    "widths": (lambda p, d: p.widths(with_entry(np.nan)), "is nan"),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_wrong_call_raises_one_clear_error_and_changes_nothing(name):
    call, message = WRONG_CALLS[name]
    policy, duel = trained()
    before = snapshot(policy)
    with pytest.raises(ValueError, match=message):
        call(policy, duel)
    assert snapshot(policy) == before
    policy.update(duel, True)  # and life goes on


def test_a_duel_is_answered_once():
    policy, duel = trained()
    policy.update(duel, True)
    before = snapshot(policy)
    with pytest.raises(ValueError, match="answered already"):
        policy.update(duel, True)
    assert snapshot(policy) == before


def test_contexts_that_would_overflow_a_width_are_refused_at_the_door():
    """With a small ridge, or after small contexts, the inverse is huge: the door takes that into account."""
    small = CoLSTIM(2, n_arms=3, horizon=100, exploration_rounds=6, rng=3)
    for t in range(10):
        duel = small.select(1e-30 * with_round(t)[:3, :2])
        small.update(duel, True)
    assert small.status == "ready"
    for policy, size in ((small, 1e135), (CoLSTIM(2, exploration_rounds=0, ridge=1e-190, rng=3), 1e70)):
        before = snapshot(policy)
        with pytest.raises(ValueError, match="scale them down"):
            policy.select([[size, 0.0], [0.0, 1.0], [1.0, 1.0]])
        assert snapshot(policy) == before
        assert policy.select(1e-30 * X[:3, :2]).round == policy.round


def test_an_old_duel_is_no_answer_to_another_one_of_the_same_round():
    """After going back to an earlier copy, the rounds meet new contexts."""
    policy, _ = trained()
    earlier = copy.copy(policy)
    lost = policy.select(X)
    while lost.is_self:
        lost = policy.select(with_round(policy.round))
    while earlier.round < lost.round - 1:
        earlier.select(with_round(1000 + earlier.round))
    for seed in itertools.count(2000):  # another duel in the round of the lost one
        other = copy.copy(earlier)
        if not other.select(with_round(seed)).is_self:
            break
    before = snapshot(other)
    with pytest.raises(fc.ForeignDuelError, match="another copy of it may have"):
        other.update(lost, True)
    assert snapshot(other) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"first": -1, "second": 99}, "not the one that this policy showed"),
        ({"contrast": None}, "not the one that this policy showed"),
        ({"contrast": [0.0, 1.0]}, "not the one that this policy showed"),
        ({"round": [1]}, "never showed"),
    ],
)
def test_a_duel_that_was_tampered_with_is_refused(changes, message):
    policy, duel = trained()
    before = snapshot(policy)
    with pytest.raises(ValueError, match=message):
        policy.update(dataclasses.replace(duel, **changes), True)
    assert snapshot(policy) == before
    policy.update(duel, True)


def test_ragged_answers_are_named():
    with pytest.raises(ValueError, match=r"^wins is not an array of real numbers: rows of different lengths"):
        CoLSTIM(2).learn_and_predict(np.eye(2), [[1], [0, 1]])


# Which thread sets n_arms, and so whether the warning comes, is a matter of chance.
@pytest.mark.filterwarnings("ignore:CoLSTIM. the exploration is n_features . n_arms:UserWarning")
def test_threads_may_hand_in_different_numbers_of_arms():
    policy, n_rounds = CoLSTIM(3, rng=0, horizon=1000), rounds(1000, 50)

    def work(n):
        for t in range(n_rounds):
            duel = policy.select(np.random.default_rng(t).normal(size=(n, 3)))
            assert max(duel.first, duel.second) < n
            policy.update(duel, True)

    with ThreadPoolExecutor() as executor:
        for future in [executor.submit(work, n) for n in (2, 500)]:
            future.result()
    assert (policy.round, policy.pending) == (2 * n_rounds, 0)


def test_differences_whose_squares_vanish_are_learned():
    policy = CoLSTIM(2, n_arms=2, rng=0)
    duel = policy.select([[1e-170, 0.0], [0.0, 1e-170]])
    policy.update(duel, True)
    np.testing.assert_allclose(policy.theta, 0.25 * duel.contrast)  # one step of length 1/2 from theta = 0


def test_a_duel_that_nobody_answers_can_be_discarded():
    policy, duel = trained()
    theta, pending = policy.theta, policy.pending
    policy.discard(duel)
    assert policy.pending == pending - 1 and policy.theta.tobytes() == theta.tobytes()
    before = snapshot(policy)
    for again, told in ((duel, "it was discarded;"), (trained()[1], "another policy"), (3, "duel is 3;")):
        with pytest.raises(ValueError, match=told):
            policy.discard(again)
    with pytest.raises(fc.DiscardedError, match="it was discarded;"):
        policy.update(duel, True)
    assert snapshot(policy) == before


def test_answers_that_are_late_are_no_reason_to_blame_the_features():
    policy = CoLSTIM(3, n_arms=4, horizon=500, rng=0)
    waiting = [(policy.select(with_round(t)), t) for t in range(100)]
    assert policy.status == "exploring"
    for duel, t in waiting:
        policy.update(duel, t % 2 == 0)
    assert policy.status == "ready"


def with_round(t):
    return np.random.default_rng(t).normal(size=(4, 3))


WRONG_ARGUMENTS = {
    "n_features 0": ({"n_features": 0}, "n_features is 0"),
    "n_features None": ({"n_features": None}, "n_features is None"),
    "n_features 2.5": ({"n_features": 2.5}, r"n_features is 2\.5"),
    "n_arms": ({"n_arms": 0}, "n_arms is 0"),
    "horizon 0": ({"horizon": 0}, "horizon is 0"),
    "horizon nan": ({"horizon": math.nan}, "horizon is nan"),
    "ridge": ({"ridge": -1.0}, r"ridge is -1\.0"),
    "ridge nan": ({"ridge": math.nan}, "ridge is nan"),
    "ridge denormal": ({"ridge": 5e-324}, "ridge is 5e-324; 0 or a number of at least 1e-200"),
    "ridge huge": ({"ridge": 10**400}, "ridge is 1000"),
    "ridge text": ({"ridge": "1"}, "ridge is '1'"),
    "exploration_rounds": ({"exploration_rounds": -1}, "exploration_rounds is -1"),
    "width_scale": ({"width_scale": -0.5}, "width_scale is"),
    "width_scale inf": ({"width_scale": math.inf}, "width_scale is inf"),
    "clip": ({"clip": -1}, "clip is -1"),
    "coupling": ({"coupling": 1.5}, r"coupling is 1\.5"),
    "coupling text": ({"coupling": "paper"}, "coupling is 'paper'"),
    "comparison": ({"comparison": "probit"}, "comparison is 'probit'"),
    "perturbation": ({"perturbation": 3}, "perturbation is 3"),
    "estimator": ({"estimator": "adam"}, "estimator is 'adam'"),
    "estimator class": ({"estimator": fc.SGD}, "estimator is"),
    "allow_self_duel": ({"allow_self_duel": "no"}, "allow_self_duel is 'no'"),
    "rng": ({"rng": -1}, "rng is -1"),
    "rng text": ({"rng": "seed"}, "rng is 'seed'"),
}


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_a_wrong_argument_is_named(name):
    arguments, message = WRONG_ARGUMENTS[name]
    with pytest.raises(ValueError, match=message):
        CoLSTIM(**{"n_features": 3, **arguments})


# --- what people rely on ------------------------------------------------------------------------------------


def test_messy_input_means_the_same_and_is_not_modified():
    import pandas as pd

    read_only = X.copy()
    read_only.flags.writeable = False
    strided = np.zeros((8, 6))
    strided[::2, ::2] = X
    small = np.round(X * 8.0) / 8.0
    pairs = []
    for contexts in (X, X.tolist(), np.asfortranarray(X), read_only, strided[::2, ::2], pd.DataFrame(X)):
        policy = CoLSTIM(3, horizon=50, exploration_rounds=5, rng=0)
        for _ in range(20):
            duel = policy.select(contexts)
            policy.update(duel, np.bool_(True))
        pairs.append((duel.first, duel.second, policy.theta.tobytes()))
    assert len(set(pairs)) == 1
    assert read_only.tobytes() == X.tobytes()
    assert CoLSTIM(3, rng=0).select(small.astype(np.float32)).contrast.dtype == np.float64


@pytest.mark.parametrize("kind", [bool, int, float, np.bool_, np.int64, np.float32])
def test_an_answer_may_be_any_kind_of_one_or_zero(kind):
    thetas = []
    for answer in (True, kind(1), kind(0)):
        policy = CoLSTIM(3, rng=0)
        policy.update(policy.select(X), answer)
        thetas.append(policy.theta)
    np.testing.assert_array_equal(thetas[0], thetas[1])
    np.testing.assert_array_equal(thetas[0], -thetas[2])


def test_reading_changes_nothing():
    quiet, curious = CoLSTIM(3, horizon=100, rng=0), CoLSTIM(3, horizon=100, rng=0)
    for t in range(60):
        contexts = np.random.default_rng(t).normal(size=(4, 3))
        a, b = quiet.select(contexts), curious.select(contexts)
        assert (a.first, a.second) == (b.first, b.second)
        for policy, duel in ((quiet, a), (curious, b)):
            if not duel.is_self:
                policy.update(duel, contexts[duel.first, 0] > contexts[duel.second, 0])
        curious.theta[:] = 9.0  # a copy
        curious.gram[:] = 9.0
        curious.utilities(contexts), curious.widths(contexts), curious.probability(contexts, contexts)
        repr(curious), curious.get_params(), curious.status, curious.pending, curious.warmup()
        with pytest.raises(AttributeError, match="keeps no history"):
            curious.audit()
    assert snapshot(quiet) == snapshot(curious)


def test_self_duels_need_no_answer_and_take_none_in():
    policy = CoLSTIM(3, n_arms=1, horizon=100, rng=0)
    duel = policy.select(X[:1])
    assert duel.is_self and (duel.first, duel.second) == (0, 0) and not duel.contrast.any()
    assert (policy.round, policy.pending) == (1, 0)
    before = snapshot(policy)
    policy.update(duel, True)
    policy.update(duel, False)
    assert snapshot(policy) == before
    with pytest.raises(ValueError, match="first_won"):
        policy.update(duel, "yes")


def test_equal_arms_may_duel_and_teach_nothing():
    policy = CoLSTIM(3, rng=0)
    duel = policy.select(np.ones((2, 3)))
    assert not duel.is_self and policy.pending == 1
    policy.update(duel, True)
    assert policy.pending == 0 and not policy.theta.any() and not policy.gram.any()


def test_a_duel_is_frozen_and_compares_by_its_token():
    policy = CoLSTIM(3, rng=0)
    duel = policy.select(X)
    assert duel == copy.deepcopy(duel) and hash(duel) == hash(pickle.loads(pickle.dumps(duel)))
    assert duel != policy.select(X) and duel != (duel.first, duel.second)
    np.testing.assert_array_equal(duel.contrast, X[duel.first] - X[duel.second])
    assert duel.round == 1
    with pytest.raises(AttributeError):
        duel.first = 3
    with pytest.raises(ValueError, match="read-only"):
        duel.contrast[0] = 1.0


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_a_copy_goes_on_by_itself_and_takes_the_same_answers(duplicate):
    policy, duel = trained()
    twin = duplicate(policy)
    assert snapshot(twin) == snapshot(policy)
    before = snapshot(policy)
    twin.update(duel, False)  # the same identity: duels shown before the copy may be answered
    for _ in range(5):
        twin.select(X)
    assert snapshot(policy) == before
    policy.update(duel, False)
    for _ in range(5):
        policy.select(X)
    assert snapshot(twin) == snapshot(policy)


@pytest.mark.parametrize(
    "policy",
    [
        CoLSTIM(3),
        CoLSTIM(2, n_arms=np.int64(5), horizon=100, comparison=fc.Thurstone(2), perturbation="exponential", rng=7),
        fc.CoLSTIM(2, estimator=fc.SGD(0.1, radius=2, score="residual"), clip=math.inf, coupling="theorem"),
        fc.CoLSTIM.from_theorem(2, n_arms=5, horizon=10**6, rho=0.5, rng=np.random.default_rng(1)),
        fc.UniformPairs(rng=np.random.SeedSequence(5)),
        fc.UniformPairs(4, n_arms=3),
        fc.DoubleThompson(2, alpha=0.7, rng=3),
        fc.SelfSparring(n_arms=5, rng=3),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_repr_and_parameters_rebuild_the_policy(policy):
    names = {"inf": math.inf, **{name: getattr(fc, name) for name in fc.__all__}}
    rebuilt = eval(repr(policy), names)  # noqa: S307 - the promise under test
    assert repr(rebuilt) == repr(policy)
    again = type(policy)(**policy.get_params())
    assert again.get_params() == policy.get_params() == rebuilt.get_params()
    if policy.get_params()["rng"] is not None:
        contexts = np.random.default_rng(0).normal(size=(policy.get_params()["n_arms"] or 4, 2))
        if policy.get_params()["n_features"] == 2:
            pairs = {(d.first, d.second) for d in (p.select(contexts) for p in (rebuilt, again))}
            assert len(pairs) == 1


def test_randomness_follows_from_the_seed_alone():
    def pairs(rng):
        policy = CoLSTIM(3, rng=rng, horizon=30, exploration_rounds=10, ridge=1.0)
        return [(d.first, d.second) for d in (policy.select(X) for _ in range(20))]

    assert pairs(1) == pairs(np.random.SeedSequence(1)) == pairs(np.int64(1))
    assert pairs(1) != pairs(2)
    assert pairs(np.random.default_rng(1)) == pairs(np.random.default_rng(1))
    generator = np.random.default_rng(1)
    assert pairs(generator) != pairs(generator)  # bits are drawn from it
    assert pairs(None) != pairs(None)


@pytest.mark.parametrize("cls", REGISTRY.values())
def test_a_class_says_whether_it_estimates(cls):
    policy = cls(n_features=3, n_arms=4)
    assert cls.has_estimate is hasattr(policy, "theta") is hasattr(policy, "learn")


def test_index_only_policies_say_why_they_have_no_estimate():
    policy = fc.UniformPairs(3, n_arms=4, rng=0)
    for name in ("theta", "gram", "probability", "utilities", "widths", "learn", "audit"):
        with pytest.raises(AttributeError, match=f"sees arms by index only and has no estimate: no {name}"):
            getattr(policy, name)
    with pytest.raises(AttributeError, match="no attribute 'thetas'"):
        policy.thetas  # noqa: B018
    for contexts in (with_entry(np.nan), X[:3], X[:, :2]):
        with pytest.raises(ValueError, match="contexts"):
            policy.select(contexts)
    assert policy.status == "ready" and policy.round == 0


def test_probability_has_the_shape_of_its_arguments():
    policy, _ = trained()
    one = policy.probability(X[0], X[1])
    many = policy.probability(X[:2], X[1:3])
    assert isinstance(one, float) and many.shape == (2,)
    assert many[0] == pytest.approx(one, abs=1e-15)  # BLAS sums one row and several in orders of its own
    assert policy.probability(X[1], X[0]) == pytest.approx(1.0 - one, abs=1e-15)
    margin = (X[0] - X[1]) @ policy.theta
    assert one == pytest.approx(1.0 / (1.0 + math.exp(-margin)), rel=1e-13)


def test_learning_predicts_before_it_learns():
    contrasts = np.random.default_rng(3).normal(size=(30, 3))
    wins = contrasts[:, 0] > 0
    policy, slow = CoLSTIM(3, horizon=100), CoLSTIM(3, horizon=100)
    predicted = policy.learn_and_predict(contrasts, wins)
    for z, won, probability in zip(contrasts, wins, predicted, strict=True):
        assert slow.probability(z, np.zeros(3)) == pytest.approx(probability, rel=1e-13)
        slow.learn_and_predict(z[np.newaxis], [won])
    assert arrays(slow) == arrays(policy)


# --- what equals the state of a policy that has seen nothing ------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0,), ()])
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_first_request_without_candidates_is_refused(name: str, shape: tuple[int, ...]) -> None:
    given = {"horizon": 100} if name in STAGED else {}
    policy = REGISTRY[name](3, **given)
    before = snapshot(policy)
    with pytest.raises(ValueError, match=r"contexts has shape"):
        policy.select(np.empty(shape))
    assert snapshot(policy) == before


def test_a_warning_turned_into_an_error_costs_no_round() -> None:
    estimator = fc.MLE(ridge=0.0)  # theta has no finite maximum
    policy = fc.CoLSTIM(2, exploration_rounds=0, ridge=1.0, estimator=estimator, allow_self_duel=False, rng=1)
    contexts = np.array([[1.0, 0.0], [-1.0, 0.0]])
    for _ in range(1000):
        before = policy.round, policy.pending
        try:
            duel = policy.select(contexts)
        except UserWarning:
            break
        policy.update(duel, duel.contrast[0] > 0)  # separable
    else:
        pytest.fail("it never warned")
    assert (policy.round, policy.pending) == before
    policy.update(policy.select(contexts), True)


# --- what a refused call leaves behind ----------------------------------------------------------------------


def test_a_first_choice_that_fails_settles_nothing():
    """The number of arms, and with it tau, is that of the first contexts for which a choice was made."""
    policy, twin = CoLSTIM(2, rng=1), CoLSTIM(2, rng=1)
    for each in (policy, twin):
        each.learn(1e-60 * np.eye(2), np.zeros((2, 2)))
    for _ in range(2):
        with pytest.raises(ValueError, match="so large that a utility or a width overflows"):
            policy.select(np.full((1, 2), 9e110))
        assert arrays(policy) == arrays(twin) and policy.status == "exploring"
    policy.select(np.eye(2))
    twin.select(np.eye(2))
    assert arrays(policy) == arrays(twin) and policy.status == "exploring"  # tau is 4


@pytest.mark.parametrize("call", ["select", "select_batch", "data frame"])
def test_a_warning_points_at_the_line_that_called(call: str) -> None:
    """However deep in the policy it arises: here on account of a long exploration, and of a singular M after it."""
    pd = pytest.importorskip("pandas")
    policy = CoLSTIM(2, n_arms=600, rng=0)
    calls = {
        "select": lambda: policy.select(np.ones((600, 2))),
        "select_batch": lambda: policy.select_batch(np.ones((600, 2)), size=2),
        "data frame": lambda: policy.select(pd.DataFrame(np.ones((600, 2)))),
    }
    with pytest.warns(UserWarning, match="the exploration is") as caught:
        calls[call]()
    assert [one.filename for one in caught] == [__file__]


def test_duels_that_were_never_shown_are_refused():
    policy = CoLSTIM(2, rng=1)
    duel = policy.select(np.eye(2))
    before = snapshot(policy)
    forged = [
        fc.Duel(0, 0, duel.contrast, 12345, duel.epoch),
        fc.Duel(0, 0, duel.contrast, 0, duel.epoch),
        fc.Duel(0, 0, duel.contrast, True, duel.epoch),
        fc.Duel(np.arange(2), np.arange(2), duel.contrast, 1, duel.epoch),
        fc.Duel(7, 9, duel.contrast, 1, duel.epoch),
        fc.Duel(duel.second, duel.first, duel.contrast, 1, duel.epoch),
    ]
    for wrong in forged:
        for call in (lambda wrong=wrong: policy.update(wrong, True), lambda wrong=wrong: policy.discard(wrong)):
            with pytest.raises(ValueError, match=r"^duel (is|of round)"):
                call()
    assert snapshot(policy) == before
    policy.update(duel, True)


def test_only_policies_without_an_estimate_say_so():
    names = {name for name in dir(fc.CoLSTIM) if not name.startswith("_")} - {
        "from_theorem",
        "for_service",
        *dir(fc.UniformPairs),
    }
    assert {"theta", "audit", "learn_and_predict"} < names
    for name in names:
        with pytest.raises(AttributeError, match=f"no estimate: no {name}$"):
            getattr(fc.UniformPairs(), name)
    with pytest.raises(AttributeError, match="has no attribute '_warm_estimate'"):
        fc.UniformPairs()._warm_estimate  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'thetas'"):
        CoLSTIM(2).thetas  # noqa: B018


def test_an_option_alone_is_refused_where_it_must_not_meet_itself():
    policy = CoLSTIM(2, allow_self_duel=False, rng=1)
    before = snapshot(policy)
    with pytest.raises(ValueError, match="contexts has 1 arm; at least two are wanted where allow_self_duel=False"):
        policy.select([[1.0, 0.0]])
    assert snapshot(policy) == before
    assert CoLSTIM(2, rng=1).select([[1.0, 0.0]]).is_self


def test_a_warning_that_is_an_error_leaves_a_log_unlearned():
    policy = CoLSTIM(2, exploration_rounds=2, rng=1)
    before = snapshot(policy)
    log = np.array([[1.0, 0.0]] * 10), np.zeros((10, 2))  # one direction of two
    with pytest.raises(UserWarning, match="still explores"):
        policy.learn(*log)
    after = snapshot(policy)
    assert [name for name in before if after[name] != before[name]] == ["_warned_singular"]
    policy.learn(*log)  # it was told
    assert policy.gram[0, 0] == 10.0


@pytest.mark.jit  # a compiled kernel is not interrupted
@pytest.mark.parametrize("other_first", [False, True])
@pytest.mark.parametrize("name", ["CoLSTIM", "DoubleThompson"])
def test_an_answer_that_is_interrupted_counts_once(name, other_first):
    """Wherever Ctrl-C comes in update, the same answer given again is learned once in all."""
    after = 0
    while True:
        policy = CoLSTIM(2, ridge=1.0, rng=1) if name == "CoLSTIM" else fc.DoubleThompson(rng=1)
        duel, other = policy.select(np.eye(2)), policy.select(np.eye(2))
        came = interrupted(lambda policy=policy, duel=duel: policy.update(duel, True), after)
        if other_first:
            policy.update(other, True)
        with contextlib.suppress(ValueError):  # it was learned
            policy.update(duel, True)
        if not other_first:
            policy.update(other, True)
        learned = policy.gram.trace() - 2.0 == 4.0 if name == "CoLSTIM" else index_twin_of(policy).wins.sum() == 2.0
        assert learned and policy.pending == 0, f"after {after} lines"
        if not came:
            break
        after += 1
    assert after > 5


@pytest.mark.jit
def test_a_choice_that_is_interrupted_shares_its_noise_with_no_other():
    undisturbed = fc.UniformPairs(rng=1)
    pairs = [(duel.first, duel.second) for duel in (undisturbed.select(np.eye(6)) for _ in range(3))]
    assert pairs[1] != pairs[2]
    after = 0
    while True:
        policy = fc.UniformPairs(rng=1)
        first = policy.select(np.eye(6))
        came = interrupted(lambda policy=policy: policy.select(np.eye(6)), after)
        duel = policy.select(np.eye(6))
        if policy.round == 3:  # the interrupted one was counted
            assert (duel.first, duel.second) == pairs[2], f"after {after} lines"
        assert first.round == 1
        if not came:
            break
        after += 1
    assert after > 5


# --- descriptions of parameters ---------------------------------------------------------------------------------


def described_in(docstring: str) -> dict[str, str]:
    """Parameters and their descriptions, by a docstring's section of that name."""
    section = inspect.cleandoc(docstring).split("Parameters\n----------\n")[1].split("\n\n")[0]
    return dict(re.findall(r"^(\w+) : (.*(?:\n +.*)*)", section, flags=re.MULTILINE))


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_parameter_is_described_once_and_in_its_place(name: str) -> None:
    cls = REGISTRY[name]
    assert list(described_in(cls.__doc__ or "")) == list(inspect.signature(cls).parameters)
    assert "As in" not in pydoc.render_doc(cls)


def test_no_description_stands_in_two_policies_files() -> None:
    seen: dict[tuple[str, str], str] = {}
    for path in sorted(Path(fc.policies.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, ast.ClassDef) else None
            for described in described_in(text).items() if text and node.name in REGISTRY else ():
                assert described not in seen, (described, seen[described], path.name)
                seen[described] = path.name
    assert len(seen) > 5


@pytest.mark.parametrize("indent", ["", "    "])
def test_descriptions_of_shared_parameters_are_filled_in(indent: str) -> None:
    """Without the indentation, too, which Python 3.13 takes off docstrings."""
    shared = f"{indent}ridge, rng\n{indent}    As in :data:`fastcolst.policies.parameters.LINEAR`.\n{indent}other : int"
    ridge, _, _, rng, _, other = parameters.described(shared).split("\n")
    assert (ridge, other) == (f"{indent}ridge : float, default 0.0", f"{indent}other : int")
    assert rng.startswith(f"{indent}rng : int, SeedSequence")
    assert parameters.described("    ridge, rng\n    As in LINEAR.") == "    ridge, rng\n    As in LINEAR."
