"""Ties, weights and batches of answers, against the reference and against fits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from conftest import everyday, rounds
from hypothesis import given
from hypothesis import strategies as st
from inside import arrays, index_twin_of, snapshot, state_of
from scipy import special
from twins import LINEAR, MODELS, SAMPLERS, STAGED

import fastcolst as fc
from fastcolst import reference

D, N = 3, 5
POLICIES = {**{name: ours for name, (ours, _) in {**LINEAR, **STAGED, **SAMPLERS}.items()}, "Random": fc.UniformPairs}
ESTIMATORS = {
    "sgd": (fc.SGD(0.1), None),
    "online-newton": (
        fc.OnlineNewton(history=0),
        lambda model, score: reference.OnlineNewton(model, history=0, score=score),
    ),
    "mle": (fc.MLE(1e-9, ridge=0.5), lambda model, score: reference.MLE(model, ridge=0.5, score=score)),
}
TWICE = [(True, 2.0), (0.5, 1.0), (False, 0.25), (0.5, 3.0), (True, 1.0), (False, 7.5)]
"""Answers, with how much each counts."""


def a_policy(name, **given):
    options = {"n_features": D, "n_arms": N, "rng": 1, **given}
    if name in LINEAR or name in STAGED:
        options = {"exploration_rounds": 2 * N, "horizon": 100, "estimator": "sgd", **options}
    return POLICIES[name](**options)


def some_contexts(rng):
    return rng.normal(size=(N, D))


def shown(policy, rng, n_duels):
    """Duels that wait, no self-duels among them."""
    duels = []
    while len(duels) < n_duels:
        duel = policy.select(some_contexts(rng))
        if not duel.is_self:
            duels.append(duel)
    return duels


def known(policy):
    """Every byte of what was learned; room in a history that is not used yet holds anything."""
    return arrays(policy, frozenset({"blocks"}))


# --- against the reference ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "estimator", "model"),
    [
        # compiled, each policy, estimator and model once: their pairs are in test_contract.py
        pytest.param(name, estimator, model, marks=everyday(i == j == k))
        for i, name in enumerate(LINEAR)
        for j, estimator in enumerate(ESTIMATORS)
        for k, model in enumerate(MODELS)
    ],
)
def test_ties_and_weights_are_the_references(name, estimator, model):
    compiled, plain, scores = MODELS[model]
    ours, twin_of = LINEAR[name]
    mine, theirs = ESTIMATORS[estimator]
    mine, options = mine._replace(score=scores[-1]), {"n_arms": N, "horizon": 100, "exploration_rounds": 8}
    policy = ours(D, comparison=compiled, estimator=mine, rng=2, **options)
    learner = theirs and theirs(plain, scores[-1])
    twin = twin_of(D, comparison=plain, estimator=learner, score=scores[-1], learning_rate=0.1, **options)
    rng = np.random.default_rng(3)
    winners, losers = rng.normal(size=(2, 6, D))
    shares, weights = np.array([1.0, 0.5, 0.0, 0.25, 0.5, 1.0]), np.array([1.0, 2.0, 0.5, 3.0, 1.0, 4.0])
    policy.learn(winners, losers, weights=weights, outcomes=shares)
    twin.learn(winners - losers, shares, weights)
    predicted = policy.learn_and_predict(losers - winners, shares, weights=weights)
    assert predicted[0] == pytest.approx(float(plain.cdf((losers - winners)[0] @ twin.theta)), abs=1e-6)
    twin.learn(losers - winners, shares, weights)
    for duel, (share, weight) in zip(shown(policy, rng, 18), itertools.cycle(TWICE), strict=False):
        policy.update(duel, share, weight=weight)
        twin.update(duel.contrast, share, weight)
    np.testing.assert_allclose(policy.theta, twin.theta, rtol=0, atol=1e-8)
    np.testing.assert_allclose(policy.gram, twin.gram, rtol=1e-13)
    assert np.array_equal(policy.gram, policy.gram.T)


@pytest.mark.parametrize("name", STAGED)
def test_stages_learn_ties_and_weights_as_the_reference(name):
    ours, twin_of = STAGED[name]
    options = {"n_arms": N, "horizon": 64, "exploration_rounds": 6, "width_scale": 0.3}
    policy = ours(D, estimator=fc.SGD(), rng=2, **options)
    twin = twin_of(D, comparison=reference.BradleyTerry(), **options)
    rng, noise = np.random.default_rng(3), fc.streams.generator(2)
    for t, (share, weight) in zip(range(60), itertools.cycle(TWICE), strict=False):
        contexts = some_contexts(rng)
        duel = policy.select(contexts)
        assert (duel.first, duel.second) == twin.select(contexts, *twin.draw(noise, N)), t
        if not duel.is_self:
            policy.update(duel, share, weight)
            twin.update(duel.contrast, share, weight)
    for s in range(1, policy.n_stages + 1):
        np.testing.assert_allclose(policy.stage(s).theta, twin.stages[s - 1].theta, rtol=0, atol=1e-10)
        np.testing.assert_allclose(policy.stage(s).gram, twin.stages[s - 1].gram, rtol=1e-12)


@pytest.mark.parametrize("name", SAMPLERS)
def test_counts_of_wins_are_the_references(name):
    policy, rng = a_policy(name), np.random.default_rng(0)
    twin = index_twin_of(a_policy(name))
    for duel, (share, weight) in zip(shown(policy, rng, 60), itertools.cycle(TWICE), strict=False):
        policy.update(duel, share, weight)
        twin._duel = duel.first, duel.second
        twin.update(duel.contrast, share, weight)
    np.testing.assert_array_equal(index_twin_of(policy).wins, twin.wins)
    assert np.any(twin.wins % 1.0)
    if name == "SelfSparring":
        np.testing.assert_array_equal(index_twin_of(policy).losses, twin.losses)
        constants, wins, losses = state_of(policy).laws[2], twin.wins, twin.losses
    else:
        state, off = state_of(policy), ~np.eye(N, dtype=bool)
        constants, wins, losses = state.constants[off], twin.wins[off], twin.wins.T[off]
        np.testing.assert_allclose(state.chances[off], special.betainc(losses + 1, wins + 1, 0.5), rtol=0, atol=1e-13)
        for twin.round in (2, 100, 10**6):
            upper = twin.bounds()[0]
            np.testing.assert_array_equal((upper > 0.5)[off], (state.thresholds < math.log(twin.round))[off])
    np.testing.assert_allclose(constants, -special.betaln(wins + 1, losses + 1), rtol=1e-12, atol=1e-12)


# --- whole weights are repetitions --------------------------------------------------------------------------


def both_ways(policy_of, answers):
    """A policy with weighted answers, and one with each answer so many times."""
    rng = np.random.default_rng(7)
    contrasts = rng.normal(size=(len(answers), D))
    shares, weights = (np.array(column, float) for column in zip(*answers, strict=True))
    weighted, repeated = policy_of(), policy_of()
    weighted.learn(contrasts, np.zeros_like(contrasts), weights, shares)
    times = weights.astype(int)
    rows = np.repeat(contrasts, times, axis=0)
    repeated.learn(rows, np.zeros_like(rows), outcomes=np.repeat(shares, times))
    return weighted, repeated, (contrasts, shares, weights)


ANSWERS = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 4)), min_size=1, max_size=12)


@given(ANSWERS)
def test_whole_weights_repeat_an_answer_for_one_pass(answers):
    weighted, repeated, _ = both_ways(lambda: fc.CoLSTIM(D, estimator=fc.OnlineNewton(history=0)), answers)
    np.testing.assert_allclose(weighted.theta, repeated.theta, rtol=0, atol=1e-9)
    np.testing.assert_allclose(weighted.gram, repeated.gram, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("estimator", [fc.MLE(1e-9, ridge=0.3), fc.OnlineNewton(history=100, ridge=0.3)])
@given(ANSWERS)
def test_whole_weights_repeat_an_answer_for_exact_estimates_and_fits(estimator, answers):
    weighted, repeated, (contrasts, shares, weights) = both_ways(lambda: fc.CoLSTIM(D, estimator=estimator), answers)
    exact = reference.fit(contrasts, shares * weights, weights, comparison=reference.BradleyTerry(), ridge=0.3)
    tolerance = 2e-9 if isinstance(estimator, fc.MLE) else 2e-3
    assert exact.distance(weighted.theta) <= tolerance and exact.distance(repeated.theta) <= tolerance
    times = weights.astype(int)
    counts = fc.fit(contrasts, shares * weights, weights, ridge=0.3)
    rows = fc.fit(np.repeat(contrasts, times, 0), np.repeat(shares, times), np.ones(times.sum()), ridge=0.3)
    np.testing.assert_allclose(counts.theta, rows.theta, rtol=0, atol=1e-8)
    np.testing.assert_allclose(counts.theta, weighted.theta, rtol=0, atol=1e-2)


@pytest.mark.parametrize("start", [1, 3])
def test_whole_weights_past_the_start_repeat_an_answer_where_the_starts_are_equal(start):
    """`history` counts comparisons whatever their weights: with weights in it the estimates differ, if not by much."""
    rng = np.random.default_rng(11)
    answers = [(float(rng.integers(2)), start if i < 40 else int(rng.integers(1, 5))) for i in range(160)]
    estimator = fc.OnlineNewton(history=40, ridge=0.3)
    weighted, repeated, (contrasts, shares, weights) = both_ways(lambda: fc.CoLSTIM(D, estimator=estimator), answers)
    if start == 1:
        np.testing.assert_allclose(weighted.theta, repeated.theta, rtol=1e-12)
        return
    exact = reference.fit(contrasts, shares * weights, weights, comparison=reference.BradleyTerry(), ridge=0.3)
    apart = exact.distance(weighted.theta), exact.distance(repeated.theta)
    assert np.abs(weighted.theta - repeated.theta).max() > 1e-6 and max(apart) < 0.3


def test_for_gradient_steps_a_weight_is_one_long_step():
    weighted, repeated, (contrasts, _, _) = both_ways(lambda: fc.CoLSTIM(D, estimator="sgd"), [(1.0, 3)])
    np.testing.assert_allclose(weighted.theta, 3.0 * 0.5 * 0.5 * contrasts[0], rtol=1e-15)
    assert np.abs(weighted.theta - repeated.theta).max() > 1e-3


def test_more_than_a_hundred_repetitions_are_a_hundred_and_one_step():
    policy = fc.CoLSTIM(1, estimator=fc.OnlineNewton(history=0))
    twin = reference.OnlineNewton(reference.BradleyTerry(), history=0)
    policy.learn([[1.0], [1.0]], [[0.0], [3.0]], [250.75, 0.5])
    twin.learn(np.array([1.0]), 1.0, 250.75)
    np.testing.assert_allclose(policy.theta, twin.learn(np.array([-2.0]), 1.0, 0.5), rtol=0, atol=1e-9)
    one_step = fc.fit([[1.0], [-2.0]], [250.75, 0.5], [250.75, 0.5], ridge=1.0)
    assert abs(policy.theta[0] - one_step.theta[0]) < 0.3 and policy.theta[0] > 3.0


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_whole_weight_is_so_many_wins(name):
    policy, twin, rng = a_policy(name), a_policy(name), np.random.default_rng(1)
    for t in range(40):
        contexts = some_contexts(rng)
        duel, same = policy.select(contexts), twin.select(contexts)
        assert (duel.first, duel.second) == (same.first, same.second)
        if duel.is_self:
            continue
        policy.update(duel, t % 3 > 0, weight=3)
        for _ in range(2):  # once more each, and then for good
            lone = twin._pending.known(same)
            twin.update(same, t % 3 > 0)
            twin._pending._asked[same.round] = lone
        twin.update(same, t % 3 > 0)
    ours, theirs = index_twin_of(policy), index_twin_of(twin)
    np.testing.assert_array_equal(ours.wins, theirs.wins)


# --- a tie --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [fc.MLE(1e-9), fc.OnlineNewton(history=0), "sgd"])
def test_a_tie_is_half_a_win_each_way_and_one_comparison(estimator):
    tied, halves = (fc.CoLSTIM(2, exploration_rounds=100, estimator=estimator) for _ in range(2))
    for policy in (tied, halves):
        policy.learn([[1.0, 0.0]], [[0.0, 2.0]])
    tied.learn([[1.0, 1.0]], [[0.5, 0.0]], outcomes=[0.5])
    rows = [[1.0, 1.0], [0.5, 0.0]]
    halves.learn(rows, rows[::-1], weights=[0.5, 0.5])
    if estimator != "sgd":  # which takes two steps for two answers; so does one pass, where the loss is not quadratic
        np.testing.assert_allclose(
            tied.theta, halves.theta, rtol=0, atol=1e-7 if isinstance(estimator, fc.MLE) else 2e-4
        )
    np.testing.assert_allclose(tied.gram, halves.gram, rtol=1e-14)
    np.testing.assert_array_equal(tied.gram, [[1.25, -1.5], [-1.5, 5.0]])
    assert tied.status == "exploring"


def test_a_tie_pulls_probabilities_to_one_half():
    policy = fc.CoLSTIM(1, exploration_rounds=0, ridge=1.0, allow_self_duel=False, rng=1)
    policy.learn([[1.0]] * 5, [[0.0]] * 5)
    before = policy.probability([1.0], [0.0])
    policy.update(policy.select([[1.0], [0.0]]), 0.5, weight=20)
    assert 0.5 < policy.probability([1.0], [0.0]) < before - 0.1


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_tie_is_half_a_win_for_both(name):
    policy = a_policy(name, n_arms=2)
    policy.update(policy.select(np.eye(2, D)) if name == "DoubleThompson" else other_arms(policy), 0.5, weight=3)
    twin = index_twin_of(policy)
    if name == "DoubleThompson":
        np.testing.assert_array_equal(twin.wins, [[0.0, 1.5], [1.5, 0.0]])
    else:
        np.testing.assert_array_equal([twin.wins, twin.losses], np.full((2, 2), 1.5))


def other_arms(policy):
    while (duel := policy.select(np.eye(2, D))).is_self:
        pass
    return duel


# --- ordinary answers are what they were --------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_a_weight_of_one_and_a_whole_win_change_no_bit(name):
    policies = [a_policy(name) for _ in range(3)]
    rng = np.random.default_rng(2)
    for t in range(40):
        contexts, won = some_contexts(rng), t % 3 > 0
        for policy, answer, more in zip(
            policies, (won, float(won), int(won)), ({}, {"weight": 1.0}, {"weight": 1}), strict=True
        ):
            policy.update(policy.select(contexts), answer, **more)
    assert arrays(policies[0]) == arrays(policies[1]) == arrays(policies[2])


# --- batches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["sgd", "mle"])
@pytest.mark.parametrize("name", POLICIES)
def test_a_batch_is_the_same_as_one_after_another(name, estimator):
    given = {"estimator": estimator} if name in LINEAR or name in STAGED else {}
    policies = [a_policy(name, **given) for _ in range(2)]
    for seed in range(2):
        batches = [
            [policy.select(contexts) for contexts in np.random.default_rng(seed).normal(size=(9, N, D))]
            for policy in policies
        ]
        answers = [(True, False, 0.5)[i % 3] for i in range(9)]
        weights = np.linspace(0.5, 2.0, 9)
        for duel, answer, weight in zip(batches[0], answers, weights, strict=True):
            policies[0].update(duel, answer, float(weight))
        policies[1].update_batch(batches[1], answers, weights)
        assert known(policies[0]) == known(policies[1]) and policies[1].pending == 0
    following = [policy.select(some_contexts(np.random.default_rng(9))) for policy in policies]
    assert following[0].first == following[1].first and following[0].second == following[1].second


WRONG_BATCHES = {
    "a number missing": (lambda duels: (duels, [True] * 3), r"answers has 3 entries for 4 duels"),
    "an answer": (
        lambda duels: (duels, [True, False, 0.3, True]),
        r"answers\[2\] is 0\.3; .* 0\.5 for a tie, is wanted",
    ),
    "a weight": (lambda duels: (duels, [True] * 4, [1.0, 2.0, 0.0, 1.0]), r"weights\[2\] is 0\.0; .* positive"),
    "weights": (lambda duels: (duels, [True] * 4, [1.0, 2.0]), r"weights has shape \(2,\)"),
    "twice": (lambda duels: ([*duels[:3], duels[1]], [True] * 4), r"duels has that of round \d+ twice"),
    "no duel": (lambda duels: ([*duels[:3], (0, 1)], [True] * 4), "duel is"),
    "no list": (lambda duels: (3, [True] * 4), "duels is 3; a list is wanted"),
    "a text": (lambda duels: (duels, "1101"), "answers is '1101'; a list is wanted"),
    "another's": (
        lambda duels: ([*duels[:3], shown(a_policy("Random"), np.random.default_rng(0), 1)[0]], [1] * 4),
        "another policy",
    ),
}


@pytest.mark.parametrize("wrong", WRONG_BATCHES)
@pytest.mark.parametrize("name", ["CoLSTIM", "DoubleThompson"])
def test_a_wrong_batch_changes_nothing(name, wrong):
    build, message = WRONG_BATCHES[wrong]
    policy, rng = a_policy(name), np.random.default_rng(0)
    policy.update_batch(shown(policy, rng, 6), [True] * 6)
    duels = shown(policy, rng, 4)
    arguments, before = build(duels), snapshot(policy)
    with pytest.raises(ValueError, match=message):
        policy.update_batch(*arguments)
    assert snapshot(policy) == before
    policy.update_batch(duels, [True] * 4)
    assert policy.pending == 0


@pytest.mark.parametrize(
    ("name", "estimator"), [("CoLSTIM", "sgd"), ("CoLSTIM", "mle"), ("SupCoLSTIM", "mle"), ("SelfSparring", "")]
)
def test_a_batch_that_fails_half_way_is_taken_back(name, estimator):
    policy, rng = a_policy(name, **({"estimator": estimator} if estimator else {})), np.random.default_rng(0)
    policy.update_batch(shown(policy, rng, 2 * N), [True, False] * N)
    duels = shown(policy, rng, 4)
    before = snapshot(policy)
    with pytest.raises(ValueError, match=r"weight 1e\+308 the estimate overflows"):
        policy.update_batch(duels, [True, 0.5, True, True], [1.0, 2.0, 3.0, 1e308])
    assert snapshot(policy) == before and policy.pending == 4
    with pytest.raises(ValueError, match=r"weight 1e\+308 the estimate overflows"):
        policy.update(duels[0], True, 1e308)
    assert snapshot(policy) == before


def test_a_batch_ends_the_exploration_where_single_answers_would():
    one, other = (fc.CoLSTIM(2, n_arms=3, exploration_rounds=4, rng=5) for _ in range(2))
    contexts = np.random.default_rng(0).normal(size=(8, 3, 2))
    duels = [[policy.select(x) for x in contexts] for policy in (one, other)]
    for duel in duels[0]:
        one.update(duel, True)
    other.update_batch(duels[1], [True] * 8)
    assert known(one) == known(other) and one.status == other.status != "exploring"


def test_the_exploration_counts_answers_not_weights():
    policy = fc.CoLSTIM(2, exploration_rounds=6, rng=1)
    policy.learn(np.eye(2), -np.eye(2), weights=[100.0, 100.0])
    assert policy.status == "exploring"
    policy.learn(np.eye(2), -np.eye(2), weights=[0.1, 0.1], outcomes=[0.5, 0.5])
    policy.learn(np.eye(2), -np.eye(2))
    assert policy.status != "exploring"


# --- the door -----------------------------------------------------------------------------------------------

WRONG = {
    "share": (lambda p, d: p.update(d, 0.25), r"first_won is 0\.25; True, False, 1 or 0, or 0\.5 for a tie, is wanted"),
    "weight 0": (lambda p, d: p.update(d, True, weight=0), r"weight is 0; a positive finite number is wanted"),
    "weight -1": (lambda p, d: p.update(d, True, weight=-1.0), "weight is -1"),
    "weight nan": (lambda p, d: p.update(d, True, weight=math.nan), "weight is nan"),
    "weight inf": (lambda p, d: p.update(d, True, weight=math.inf), "weight is inf"),
    "weight text": (lambda p, d: p.update(d, True, weight="2"), "weight is '2'"),
    "weight True": (lambda p, d: p.update(d, True, weight=True), "weight is True"),
    "weights": (lambda p, d: p.learn(np.eye(D), -np.eye(D), [1.0, 0.0, 1.0]), r"weights\[1\] is 0\.0"),
    "weights' number": (lambda p, d: p.learn(np.eye(D), -np.eye(D), [1.0]), r"weights has shape \(1,\)"),
    "outcomes": (lambda p, d: p.learn(np.eye(D), -np.eye(D), outcomes=[1, 2, 0]), r"outcomes\[1\] is 2"),
    "outcomes nan": (lambda p, d: p.learn(np.eye(D), -np.eye(D), outcomes=[1, None, 0]), r"outcomes\[1\] is nan"),
    "wins": (lambda p, d: p.learn_and_predict(np.eye(D), [0, -0.5, 1]), r"wins\[1\] is -0\.5; .* 0 to 1"),
    "wins' weights": (lambda p, d: p.learn_and_predict(np.eye(D), [0, 1, 1], [1, 1]), "weights has shape"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_shares_and_weights_are_refused_and_change_nothing(name):
    call, message = WRONG[name]
    policy = a_policy("CoLSTIM")
    (duel,) = shown(policy, np.random.default_rng(0), 1)
    before = snapshot(policy)
    with pytest.raises(ValueError, match=message):
        call(policy, duel)
    assert snapshot(policy) == before
    policy.update(duel, np.float32(0.5), np.float64(2.0))
    assert policy.pending == 0


@pytest.mark.parametrize("weight", [5e-324, 1e-200, 1e-17])
@pytest.mark.parametrize("name", POLICIES)
def test_tiny_weights_leave_a_policy_that_goes_on(name, weight):
    policy, rng = a_policy(name), np.random.default_rng(0)
    for t in range(rounds(200, 60)):
        policy.update(policy.select(some_contexts(rng)), (True, 0.5, False)[t % 3], weight if t % 2 else 1.0)
    if name in LINEAR:
        assert np.all(np.isfinite(policy.theta)) and np.all(np.linalg.eigvalsh(policy.gram) > 0.0)
