"""The exact estimators with more features than BLAS works on by itself: few answers, sums by BLAS, audits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg.blas  # noqa: F401 - its BLAS as well
from threadpoolctl import threadpool_limits

import fastcolst as fc
from fastcolst._compile import so_far
from fastcolst.estimation import passes
from fastcolst.estimation.history import History
from fastcolst.estimation.objective import Objective
from fastcolst.policies.policy import STATUS_ROUNDS

pytestmark = pytest.mark.jit  # passes over so many features take minutes in plain Python


def a_stream(seed, m, d, norm=2.0):
    """Contrasts (m, d) of size 1 and their answers."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=d)
    theta *= norm / np.linalg.norm(theta)
    contrasts = rng.normal(size=(m, d))
    return contrasts, contrasts @ theta + rng.logistic(size=m) > 0.0


def solves_while_answers_are_few(seed, d, radius):
    """How many solves a stream takes whose answers are learned one by one, and looked at each time."""
    contrasts, wins = a_stream(seed, 6 * d, d)
    policy = fc.CoLSTIM(d, ridge=1.0, estimator=fc.MLE(ridge=0.0, radius=radius))
    progress, n_solves, n_explained = policy._state.memory.progress, 0, 0
    for n in range(1, 5 * d):
        solved = int(progress["solved"])
        policy.learn_and_predict(contrasts[n - 1 : n], wins[n - 1 : n])
        policy._refresh_estimate()
        n_solves += progress["solved"] != solved
        theta = policy._state.memory.theta
        assert np.all(np.isfinite(theta))
        n_explained += ((contrasts[:n] @ theta > 0.0) == wins[:n]).mean() > 0.8
        if radius is not None:
            metric = np.abs(contrasts[:n]).max(axis=0) if radius == "auto" else 1.0
            assert np.linalg.norm(metric * theta) <= (20.0 if radius == "auto" else radius) * (1.0 + 1e-9)
        assert policy.estimate_status == "few-answers"
    assert n_explained > 4.5 * d
    for k in range(5 * d - 1, 6 * d):
        policy.learn_and_predict(contrasts[k : k + 1], wins[k : k + 1])
        policy._refresh_estimate()
        assert policy.estimate_status != "few-answers"
        assert policy.estimate_status == "not-converged" or policy.audit() <= 1e-2
    return n_solves


@pytest.mark.parametrize("radius", ["auto", 5.0, None])
def test_few_answers_without_a_ridge_are_followed_by_pushes(radius):
    """Without a ball theta may grow until no pass settles; as a rule it does not, hence the median of some streams."""
    d, seeds = 60, (1, 2, 3) if radius is None else (1,)
    solves = [solves_while_answers_are_few(seed, d, radius) for seed in seeds]
    assert np.median(solves) < d  # by growth alone some 45; without pushes there are 5 d


@pytest.mark.parametrize(("d", "ridge"), [(48, 0.0), (60, 1.0)])
def test_no_answers_are_few_with_a_ridge_or_for_few_features(d, ridge):
    contrasts, wins = a_stream(2, d, d)
    policy = fc.CoLSTIM(d, ridge=1.0, estimator=fc.MLE(ridge=ridge))
    for n in range(0, d, 8):
        policy.learn_and_predict(contrasts[n : n + 8], wins[n : n + 8])
        policy._refresh_estimate()
        assert policy.estimate_status != "few-answers"
        assert policy.audit() <= 1e-2


@pytest.mark.parametrize("score", [0, 1])
def test_the_information_by_blas_is_the_kernels(score):
    d, n = passes.MANY + 3, 1300
    contrasts, _ = a_stream(3, n, d)
    history = History.of(contrasts, np.random.default_rng(0).random(n))
    objective = Objective(fc.Thurstone(), score, 0.0, np.inf, True)
    theta = np.random.default_rng(4).normal(size=d) / np.sqrt(d)
    found, expected = ([np.full(d, np.nan), np.full((d, d), np.nan)] for _ in range(2))
    n_wrong = passes.pass_over(history, objective, theta, *found)
    assert n_wrong == passes.gradient_and_information(objective.model, score, history, theta, *expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11 * np.abs(other).max())
    assert np.array_equal(found[1], found[1].T)


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_numbers_do_not_depend_on_how_many_threads_blas_has(ridge):
    d = passes.MANY + 10
    contrasts, wins = a_stream(5, 300, d)
    found = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            policy = fc.CoLSTIM(d, ridge=1.0, estimator=fc.MLE(ridge=ridge))
            predicted = policy.learn_and_predict(contrasts, wins)
            found.append((predicted.tobytes(), policy.theta.tobytes(), policy._state.memory.factor.tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("ridge", [0.1, 1.0])
def test_audits_of_many_features_stay_below_the_tolerance(ridge):
    d, audits = 128, []
    contrasts, wins = a_stream(6, 1500, d)
    policy = fc.CoLSTIM(d, ridge=ridge)
    rng, n = np.random.default_rng(1), 0
    while n < len(wins):
        m = int(rng.integers(1, 40))
        policy.learn_and_predict(contrasts[n : n + m], wins[n : n + m])
        policy._refresh_estimate()
        audits.append(policy.audit() / 1e-2)
        n += m
    assert len(audits) > 50
    assert 1e-4 < max(audits) <= 1.0


def test_online_newtons_status_is_looked_at_at_least_as_many_rounds_apart_as_there_are_features(monkeypatch):
    looked, d = [], 2 * STATUS_ROUNDS + STATUS_ROUNDS // 2
    policy = fc.CoLSTIM(d, ridge=1.0, exploration_rounds=0, estimator=fc.OnlineNewton(history=0), rng=1)
    monkeypatch.setattr(policy, "_note_estimate", lambda: looked.append(policy.round + 1))
    contexts = np.random.default_rng(1).normal(size=(4, d))
    for _ in range(6 * STATUS_ROUNDS):
        policy.select(contexts)
    assert looked == [3 * STATUS_ROUNDS, 6 * STATUS_ROUNDS]


def test_after_a_warmup_nothing_is_compiled():
    """Nor loaded: BLAS computes the information of so many features, which the first rounds do not ask for."""
    rng = np.random.default_rng(0)
    # A model that no other test in this module compiles.
    policy = fc.CoLSTIM.for_service(passes.MANY + 1, comparison="thurstone", rng=0)
    policy.warmup()
    before = so_far()
    contexts = rng.normal(size=(20, passes.MANY + 1))
    for _ in range(60):
        policy.update(policy.select(contexts), rng.random() < 0.5)
    assert policy.audit() <= 1e-2
    assert so_far() == before
