"""TwoSamples: its draws are the posterior's, its arms the best by them; it is refused where there is no posterior."""

import math

import numpy as np
import pytest
from conftest import rounds
from inside import arrays, information_factor_of, information_of
from scipy.stats import binomtest
from test_contract import a_chunk, check_fused, follow

import fastcolst as fc
from fastcolst import reference, streams
from fastcolst.policies.two_samples import posterior_sample


def taught(n_answers=200, n_features=4, seed=0, **options):
    """A policy that has learned answers to contrasts of sizes that differ between features."""
    rng = np.random.default_rng(seed)
    contrasts = rng.normal(size=(n_answers, n_features)) * np.geomspace(0.3, 3.0, n_features)
    policy = fc.TwoSamples(n_features, **options)
    policy.learn_and_predict(contrasts, contrasts[:, 0] + 0.3 * contrasts[:, -1] + rng.logistic(size=n_answers) > 0.0)
    return policy


# --- the draws ----------------------------------------------------------------------------------------------


def test_the_covariance_of_the_draws_is_the_inverse_information():
    """Of so many draws each entry, whitened, is within five standard errors of the identity's; so is the mean of 0."""
    n, policy = rounds(100_000, 20_000), taught(estimator=fc.MLE(1e-9))
    theta, d, log = policy.theta, len(policy.theta), policy.history()
    told = fc.BradleyTerry().weight(log.contrasts @ theta)
    H = np.eye(d) + (log.contrasts.T * told) @ log.contrasts
    factor, normals = information_factor_of(policy), np.random.default_rng(1).standard_normal((n, d))
    draws = np.empty((n, d))
    for row in range(n):
        posterior_sample(theta, factor, 1.5, normals[row], draws[row])
    np.testing.assert_allclose(factor.T @ factor @ H, np.eye(d), atol=1e-6)
    whitened = (draws - theta) @ np.linalg.cholesky(H)  # of covariance L'H^-1 L = 1, times the temperature
    assert np.abs(whitened.mean(axis=0)).max() < 5.0 * 1.5 / math.sqrt(n)
    off = whitened.T @ whitened / n / 1.5**2 - np.eye(d)
    assert np.abs(off).max() < 5.0 * math.sqrt(2.0 / n)


def test_both_arms_are_the_best_by_draws_of_their_own():
    """Two arms: each is shown as often as Phi says, and the two samples know nothing of each other.

    Fixed seed; false-alarm rate 1e-6 for each of nine counts.
    """
    n = rounds(20_000, 1_500)
    for temperature in (0.25, 1.0, 9.0):
        policy = taught(12, temperature=temperature, rng=5)
        rng, H = np.random.default_rng(2), information_of(policy)
        contexts = np.vstack([np.zeros(4), rng.normal(size=4)])
        margin = contexts[1] @ policy.theta / math.sqrt(temperature * contexts[1] @ np.linalg.inv(H) @ contexts[1])
        expected = 0.5 * math.erfc(-margin / math.sqrt(2.0))
        duels = [policy.select(contexts) for _ in range(n)]
        first, second = np.array([(duel.first, duel.second) for duel in duels]).T
        assert 0.05 < expected < 0.95
        for count, chance in ((first, expected), (second, expected), (first & second, expected**2)):
            assert binomtest(int(count.sum()), n, chance).pvalue > 1e-6


def test_a_round_takes_two_uniforms_and_two_normals_a_feature():
    policy, rng = taught(n_features=3, rng=7), streams.generator(7)
    for _ in range(5):
        contexts = np.random.default_rng(3).normal(size=(6, 3))
        uniforms, normals = rng.random(2), rng.standard_normal(6)
        twin = reference.TwoSamples(3, comparison=reference.BradleyTerry(), n_arms=6)
        twin.theta, H, twin.exploration_end = policy.theta, information_of(policy), 0
        twin.information = lambda H=H: H
        duel = policy.select(contexts)
        assert (duel.first, duel.second) == twin.select(contexts, uniforms, normals)


def test_the_pairs_of_a_batch_count_in_the_information_of_the_later_ones():
    """Each as an answer would at the theta that there is; afterwards the information is what it was."""
    policy, noise, d = taught(8, n_features=3, rng=1), streams.generator(1), 3
    H, theta, contexts = information_of(policy), policy.theta, np.random.default_rng(6).normal(size=(6, 3))
    gram, factor = policy.gram, information_factor_of(policy).copy()
    twin = reference.TwoSamples(d, comparison=reference.BradleyTerry(), n_arms=6)
    twin.theta, twin.exploration_end, twin.information = theta, 0, lambda: H
    for duel in policy.select_batch(contexts, size=30):
        assert (duel.first, duel.second) == twin.select(contexts, *twin.draw(noise, 6))
        H = H + fc.BradleyTerry().weight(duel.contrast @ theta) * np.outer(duel.contrast, duel.contrast)
    assert policy.gram.tobytes() == gram.tobytes()
    assert information_factor_of(policy).tobytes() == factor.tobytes()


@pytest.mark.parametrize("estimator", ["mle", "online-newton"])
def test_no_self_duels_where_they_are_ruled_out(estimator):
    """Object, fused loop and reference, with the second arm the best of the others."""
    horizon = rounds(2000, 60)
    options = {"n_arms": 6, "allow_self_duel": False, "temperature": 0.3}
    learner = {
        "mle": (fc.MLE(1e-9), reference.MLE(reference.BradleyTerry())),
        "online-newton": (fc.OnlineNewton(history=0), reference.OnlineNewton(reference.BradleyTerry(), history=0)),
    }[estimator]
    horizon = horizon if estimator == "online-newton" else rounds(300, 15)
    policy, fused = (fc.TwoSamples(3, estimator=learner[0], rng=4, **options) for _ in range(2))
    twin = reference.TwoSamples(3, comparison=reference.BradleyTerry(), estimator=learner[1], **options)
    noise = streams.generator(4)

    def choose(contexts):
        return policy.select(contexts), twin.select(contexts, *twin.draw(noise, 6))

    totals = follow(policy, a_chunk(fc.BradleyTerry(), horizon, 3, 6), choose, twin.update)
    assert totals[-1, 2] == 0
    check_fused(fused, a_chunk(fc.BradleyTerry(), horizon, 3, 6), totals)


def test_its_regret_is_that_of_the_twin():
    """Runs of its own against runs of the reference's with other noise: means within four standard errors."""
    horizon, n_runs = rounds(400, 60), rounds(40, 8)
    scenario = fc.Scenario.hard(n_arms=10, n_features=3)
    ours = fc.simulate({"it": fc.TwoSamples(3, estimator=fc.OnlineNewton(history=0))}, scenario, horizon, n_runs, rng=1)
    mine, theirs = ours.average_regret["it"][:, -1], []
    for run in range(n_runs):
        rng, played = np.random.default_rng(100 + run), scenario.start(2, run)
        estimator = reference.OnlineNewton(reference.BradleyTerry(), history=0)
        twin = reference.TwoSamples(3, comparison=reference.BradleyTerry(), n_arms=10, estimator=estimator)
        regret, left = 0.0, horizon
        while left > 0:
            chunk = played.next_chunk(min(left, played.chunk_rounds))
            for contexts, utilities, latent in zip(chunk.contexts, chunk.utilities, chunk.latent, strict=True):
                rows = contexts.T.copy()
                first, second = twin.select(rows, *twin.draw(rng, 10))
                if first != second:
                    twin.update(rows[first] - rows[second], utilities[first] - utilities[second] + latent > 0.0)
                regret += reference.regret(utilities, first, second)[0]
            left -= len(chunk.best)
        theirs.append(regret)
    error = math.sqrt((np.var(mine, ddof=1) + np.var(theirs, ddof=1)) / n_runs)
    assert abs(np.mean(mine) - np.mean(theirs)) < 4.0 * error


# --- what it is refused -------------------------------------------------------------------------------------


def test_estimators_without_information_are_refused_by_name():
    with pytest.raises(ValueError, match=r"estimator is SGD, which knows no information.*TwoSamples.*wanted"):
        fc.TwoSamples(3, estimator="sgd")
    with pytest.raises(AttributeError, match=r"estimator is SGD, .*expected_misordered"):
        fc.CoLSTIM(3, estimator="sgd").expected_misordered(np.eye(3))
    with pytest.raises(AttributeError, match="sees arms by index only"):
        _ = fc.UniformPairs().expected_misordered


@pytest.mark.parametrize("argument", ["temperature", "ridge", "exploration_rounds", "comparison", "allow_self_duel"])
def test_wrong_arguments_are_named(argument):
    with pytest.raises(ValueError, match=argument):
        fc.TwoSamples(3, **{argument: -1})
    with pytest.raises(ValueError, match="temperature"):
        fc.TwoSamples(3, temperature=0.0)


def test_samples_that_overflow_are_an_error_that_changes_nothing():
    policy = fc.TwoSamples(4, estimator=fc.MLE(ridge=1e-200), temperature=1e250, rng=3)
    policy.select(np.eye(4))
    before = arrays(policy)
    with pytest.raises(ValueError, match="scale the features down"):
        policy.select(1e90 * np.random.default_rng(0).normal(size=(3, 4)))
    assert policy.round == 1 and arrays(policy) == before


def test_it_explores_only_without_a_ridge():
    """As long as M is singular; a number of rounds that is given counts with a ridge too."""
    rng = np.random.default_rng(0)
    for options, wanted in (({}, 0), ({"ridge": 0.0}, 6), ({"exploration_rounds": 4}, 4)):
        policy, n_exploring = fc.TwoSamples(2, n_arms=3, rng=1, **options), 0
        for _ in range(40):
            duel = policy.select(rng.normal(size=(3, 2)))
            n_exploring += policy.status == "exploring"
            policy.update(duel, bool(policy.round % 3))
        assert n_exploring == wanted


# --- how much is out of order -------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [False, True])
def test_expected_misordered_is_the_mean_over_pairs(position):
    rng = np.random.default_rng(3)
    policy = fc.CoLSTIM(3, ridge=0.5, position=position, rng=1)
    policy.learn(*rng.normal(size=(2, 100, 3)), **({"outcomes": rng.random(100) < 0.6} if position else {}))
    contexts = rng.normal(size=(12, 3))
    covariance = np.linalg.inv(information_of(policy))[:3, :3]
    wrong = []
    for i in range(12):
        for j in range(i):
            z = contexts[i] - contexts[j]
            wrong.append(0.5 * math.erfc(abs(z @ policy.theta) / math.sqrt(2.0 * z @ covariance @ z)))
    assert math.isclose(policy.expected_misordered(contexts), np.mean(wrong), rel_tol=1e-9)


def test_expected_misordered_of_equal_arms_of_nothing_and_of_one():
    policy = fc.CoLSTIM(2)
    assert policy.expected_misordered(np.eye(2)) == 0.5
    policy = taught(n_features=2)
    with pytest.raises(ValueError, match="contexts has 1 arm; at least two"):
        policy.expected_misordered(np.eye(1, 2))
    one = policy.expected_misordered(np.eye(2))
    assert 0.0 < one < 0.5
    tripled = policy.expected_misordered(np.eye(2)[[0, 1, 1]])  # of three pairs one has no order
    assert math.isclose(tripled, 2.0 / 3.0 * one, rel_tol=1e-12)


def test_many_arms_are_taken_in_parts(monkeypatch):
    policy, contexts = taught(), np.random.default_rng(4).normal(size=(40, 4))
    whole = policy.expected_misordered(contexts)
    monkeypatch.setattr("fastcolst.policies.informing.MOST_AT_ONCE", 100)
    assert math.isclose(policy.expected_misordered(contexts), whole, rel_tol=1e-12)
