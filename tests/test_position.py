"""The advantage of being shown first: estimated beside theta, and kept out of utilities and choices."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from conftest import rounds
from inside import arrays, snapshot
from test_contract import a_chunk
from twins import INFORMED, LINEAR, STAGED, taken_by

import fastcolst as fc
from fastcolst import reference, streams

D, N = 2, 5
POLICIES = {name: ours for name, (ours, _) in {**LINEAR, **INFORMED, **STAGED}.items()}
ESTIMATORS = {"sgd": fc.SGD(), "mle": fc.MLE(1e-9, ridge=0.1), "online-newton": fc.OnlineNewton(history=0)}
LEARNERS = {
    "sgd": lambda model: None,
    "mle": lambda model: reference.MLE(model, ridge=0.1),
    "online-newton": lambda model: reference.OnlineNewton(model, history=0),
}


def a_policy(name="CoLSTIM", **given):
    options = {"n_arms": N, "horizon": 100, "exploration_rounds": 8, "position": True, "rng": 1, **given}
    return POLICIES[name](D, **taken_by(POLICIES[name], options))


def a_log(m, advantage=0.7, seed=0):
    rng = np.random.default_rng(seed)
    contrasts = rng.normal(size=(m, D))
    return contrasts, contrasts @ [1.0, -0.5] + advantage + rng.logistic(size=m) > 0.0


@pytest.mark.parametrize(
    ("name", "estimator"),
    [(name, one) for name in (*LINEAR, *INFORMED) for one in ESTIMATORS if name in LINEAR or one != "sgd"],
)
def test_the_same_duels_as_a_reference_with_a_coordinate_more(name, estimator):
    """Contexts have a zero there, contrasts a one."""
    model = reference.BradleyTerry()
    policy = a_policy(name, estimator=ESTIMATORS[estimator])
    options = {"comparison": model, "n_arms": N, "horizon": 100, "exploration_rounds": 8}
    twin = {**LINEAR, **INFORMED}[name][1](D + 1, estimator=LEARNERS[estimator](model), **options)
    rng, noise = np.random.default_rng(3), streams.generator(1)
    for t in range(40):
        contexts = rng.normal(size=(N, D))
        duel = policy.select(contexts)
        pair = twin.select(np.column_stack([contexts, np.zeros(N)]), *twin.draw(noise, N))
        assert (duel.first, duel.second) == pair, t
        if not duel.is_self:
            share = (1.0, 0.5, 0.0, 1.0)[t % 4]
            policy.update(duel, share)
            twin.update(np.append(duel.contrast, 1.0), share)
    np.testing.assert_allclose(policy.theta, twin.theta[:D], rtol=0, atol=1e-8)
    assert policy.position_advantage.estimate == pytest.approx(twin.theta[D], abs=1e-8)
    np.testing.assert_allclose(policy.gram, twin.gram[:D, :D], rtol=1e-12)
    contexts = rng.normal(size=(3, D))
    np.testing.assert_allclose(
        policy.widths(contexts), twin.widths(np.column_stack([contexts, np.zeros(3)])), rtol=1e-9
    )
    assert policy.theta.shape == (D,) and policy.gram.shape == (D, D) and duel.contrast.shape == (D,)


@pytest.mark.parametrize(
    ("name", "estimator"),
    [(name, one) for name in POLICIES for one in ("sgd", "mle") if not (name in INFORMED and one == "sgd")],
)
def test_the_fused_loop_plays_as_the_object_does(name, estimator):
    fused, stepped = (a_policy(name, estimator=estimator) for _ in range(2))
    chunk = a_chunk(fc.BradleyTerry(), m := rounds(90, 60), D, N)
    trace = np.zeros((m + 1, 3))
    assert fused.play(chunk, trace) == m
    for r in range(m):
        duel = stepped.select(np.ascontiguousarray(chunk.contexts[r].T))
        u = chunk.utilities[r]
        stepped.update(duel, bool(u[duel.first] - u[duel.second] + chunk.latent[r] > 0.0))
    without = frozenset({"blocks", "theta"}) if estimator == "mle" else frozenset()
    assert arrays(fused, without) == arrays(stepped, without)
    assert fused.theta.tobytes() == stepped.theta.tobytes()
    assert fused.position_advantage == stepped.position_advantage


def test_the_advantage_is_found_and_left_out_of_theta():
    contrasts, wins = a_log(rounds(20_000, 1500))
    knows, ignores = a_policy(), a_policy(position=False)
    for policy in (knows, ignores):
        policy.learn_and_predict(contrasts, wins)
    advantage, error = knows.position_advantage
    assert abs(advantage - 0.7) < 4.0 * error and error < 0.1
    fit = fc.fit(np.column_stack([contrasts, np.ones(len(wins))]), wins)
    np.testing.assert_allclose([*knows.theta, advantage], fit.theta, rtol=0, atol=0.02 * error)
    assert error == pytest.approx(fit.standard_errors[-1], rel=0.02)
    assert knows.probability(np.ones(D), np.ones(D)) == 0.5  # whoever is shown first
    np.testing.assert_allclose(knows.utilities(np.eye(D)), knows.theta)


def test_predictions_know_who_was_shown_first():
    contrasts, wins = a_log(1000, advantage=2.0)
    policy = a_policy()
    policy.learn_and_predict(contrasts, wins)
    theta, advantage = policy.theta, policy.position_advantage.estimate
    predicted = policy.learn_and_predict(contrasts[:1], wins[:1])
    assert predicted[0] == pytest.approx(fc.BradleyTerry().cdf(contrasts[0] @ theta + advantage), abs=1e-9)


def test_equal_arms_teach_the_advantage_alone():
    policy = a_policy(ridge=1.0, exploration_rounds=0)
    for _ in range(30):
        duel = policy.select(np.ones((N, D)))
        policy.update(duel, True)
    assert policy.position_advantage.estimate > 1.0 and not policy.theta.any()


@pytest.mark.parametrize("name", STAGED)
def test_stages_have_theta_and_gram_of_the_features(name):
    policy = a_policy(name, ridge=1.0)
    contrasts, wins = a_log(50)
    policy.learn_and_predict(contrasts, wins)
    stage = policy.stage(1)
    assert stage.theta.shape == (D,) and stage.gram.shape == (D, D)
    np.testing.assert_allclose(stage.gram, contrasts.T @ contrasts + np.eye(D), rtol=1e-12)


@pytest.mark.parametrize(("estimator", "known"), [("mle", True), ("sgd", False)])
def test_the_standard_error_where_there_is_information(estimator, known):
    policy = a_policy(estimator=estimator)
    nothing = policy.position_advantage
    assert nothing == (0.0, math.inf if known else None)
    contrasts, wins = a_log(300)
    policy.learn_and_predict(contrasts, wins)
    assert (policy.position_advantage.standard_error is not None) == known


def test_a_log_tells_who_was_shown_first():
    policy, other = (a_policy(estimator=fc.MLE(1e-9, ridge=0.1)) for _ in range(2))
    contrasts, wins = a_log(20)
    policy.learn_and_predict(contrasts, wins)
    duel = policy.select(np.random.default_rng(2).normal(size=(N, D)))
    policy.update(duel, False)
    log = policy.history()
    np.testing.assert_array_equal(log.contrasts, [*contrasts, duel.contrast])
    np.testing.assert_array_equal(log.wins, [*wins, False])
    other.learn(log.contrasts, np.zeros_like(log.contrasts), outcomes=log.wins)
    np.testing.assert_allclose(other.theta, policy.theta, rtol=0, atol=1e-8)
    assert other.position_advantage.estimate == pytest.approx(policy.position_advantage.estimate, abs=1e-8)
    policy.retract(duel)
    assert len(policy.history()) == 20


def test_saved_and_copied_it_goes_on(tmp_path):
    policy = a_policy()
    rng = np.random.default_rng(0)
    waiting = [policy.select(rng.normal(size=(N, D))) for _ in range(30)]
    policy.update_batch(waiting[:20], [True, 0.5] * 10)
    policy.save(tmp_path / "policy.npz")
    twins = [policy, fc.load_policy(tmp_path / "policy.npz"), copy.deepcopy(policy)]
    for twin in twins:
        for duel in waiting[20:]:
            twin.update(duel.token, duel.first < duel.second)
    assert len({(twin.position_advantage, twin.theta.tobytes()) for twin in twins}) == 1


def test_it_is_simulated_beside_the_others():
    policies = {"position": fc.CoLSTIM(D, position=True, estimator="sgd"), "none": fc.CoLSTIM(D, estimator="sgd")}
    result = fc.simulate(policies, fc.Scenario.hard(n_arms=N, n_features=D), 60, runs=2, rng=1)
    assert np.all(np.isfinite(result.average_regret["position"]))


def test_what_lacks_the_order_is_refused_and_changes_nothing():
    policy = a_policy()
    before = snapshot(policy)
    with pytest.raises(ValueError, match=r"^outcomes is None; with position=True .* is wanted"):
        policy.learn(np.eye(D), np.zeros((D, D)))
    assert snapshot(policy) == before
    for plain in (a_policy(position=False), fc.UniformPairs()):
        with pytest.raises(AttributeError, match="position"):
            plain.position_advantage  # noqa: B018
    with pytest.raises(ValueError, match=r"^position is 'yes'; True, False, 1 or 0 is wanted"):
        a_policy(position="yes")
