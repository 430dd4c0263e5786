"""One ridge, said once: a policy's is the estimator's, unless that says one of its own."""

from __future__ import annotations

import numpy as np
import pytest
from inside import rule_of
from twins import INFORMED, LINEAR, STAGED, taken_by

import fastcolst as fc
from fastcolst import reference

POLICIES = {name: ours for name, (ours, _) in {**LINEAR, **INFORMED, **STAGED}.items()}
SAID = {
    "mle takes it": (fc.MLE(1e-9), 2.5, 2.5),
    "by its name": ("mle", 2.5, 2.5),
    "a number of its own": (fc.MLE(1e-9, ridge=0.25), 2.5, 0.25),
    "zero of its own": (fc.MLE(1e-9, ridge=0.0), 2.5, 0.0),
    "none at all": (fc.MLE(1e-9), 0.0, 0.0),
    "one pass takes it": (fc.OnlineNewton(), 2.5, 2.5),
    "one pass needs one": (fc.OnlineNewton(), 0.0, 1.0),
    "one pass by its name": ("online-newton", 0.0, 1.0),
    "one pass has its own": (fc.OnlineNewton(ridge=0.25), 2.5, 0.25),
}


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("name", POLICIES)
def test_the_policys_ridge_is_the_estimators_unless_it_says_one(name, said):
    estimator, ridge, wanted = SAID[said]
    policy = POLICIES[name](2, **taken_by(POLICIES[name], {"ridge": ridge, "estimator": estimator, "horizon": 64}))
    assert rule_of(policy).estimator.ridge == wanted
    assert policy.get_params()["estimator"] == estimator
    rng = np.random.default_rng(0)
    contrasts = rng.normal(size=(12, 2))
    wins = contrasts[:, 0] + rng.logistic(size=12) > 0.0
    policy.learn_and_predict(contrasts, wins)
    exact = reference.fit(contrasts, wins, comparison=reference.BradleyTerry(), ridge=wanted)
    assert exact.distance(policy.theta) <= 0.011
    np.testing.assert_allclose(policy.gram, contrasts.T @ contrasts + ridge * np.eye(2), rtol=1e-12)


def test_gradient_steps_have_no_ridge():
    one, other = (fc.CoLSTIM(2, ridge=ridge, estimator="sgd", rng=1) for ridge in (0.0, 5.0))
    for policy in (one, other):
        policy.learn(np.eye(2), -np.eye(2))
    assert one.theta.tobytes() == other.theta.tobytes()


def test_a_ridge_that_one_pass_cannot_use_is_refused():
    with pytest.raises(ValueError, match=r"^OnlineNewton: ridge is 1e-150; a number of at least 1e-100 is wanted"):
        fc.CoLSTIM(2, ridge=1e-150, estimator="online-newton")


@pytest.mark.parametrize("estimator", ["mle", fc.MLE(), {"name": "online-newton"}])
def test_a_manifest_holds_the_number_and_parameters_what_was_said(estimator):
    policies = {"a": {"name": "CoLSTIM", "estimator": estimator, "ridge": 2.0}}
    study = fc.Study(policies, {"easy": {"name": "easy", "n_arms": 3, "n_features": 2}}, horizon=5, runs=1, seed=1)
    assert study.to_dict()["policy"][0]["estimator"]["ridge"] == 2.0
    assert fc.CoLSTIM(2, ridge=2.0).get_params()["estimator"] == "mle" and fc.MLE().ridge is None
    assert repr(fc.CoLSTIM(2, ridge=2.0, estimator=fc.OnlineNewton(5))).count("ridge=None") == 1


@pytest.mark.parametrize("ridge", [0.0, 2.0])
def test_the_reference_reads_it_the_same(ridge):
    model = reference.BradleyTerry()
    for learner, ours in (
        (reference.MLE(model), "mle"),
        (reference.OnlineNewton(model, history=0), fc.OnlineNewton(0)),
    ):
        twin = reference.CoLSTIM(1, comparison=model, n_arms=2, ridge=ridge, estimator=learner)
        policy = fc.CoLSTIM(1, n_arms=2, ridge=ridge, estimator=ours)
        twin.learn(np.ones((3, 1)), [1, 0, 1])
        policy.learn_and_predict([[1.0]] * 3, [1, 0, 1])
        np.testing.assert_allclose(policy.theta, twin.theta, atol=0.01)
