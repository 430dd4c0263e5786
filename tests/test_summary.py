"""What a policy says of itself, self-duels that nothing justifies, and the preset for services."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import rounds
from inside import snapshot, state_of
from twins import LINEAR, SAMPLERS, STAGED

import fastcolst as fc
from fastcolst.policies.lock_in import is_justified

POLICIES: dict[str, Any] = {name: ours for name, (ours, _) in {**LINEAR, **STAGED, **SAMPLERS}.items()}
NAMES = ["price", "size", "<age>"]


def play(policy: Any, contexts_of: Any, theta: Any, n: int, *, seed: int = 0) -> int:
    """Play rounds whose answers follow the Bradley-Terry model; the number of self-duels."""
    rng, n_self = np.random.default_rng(seed), 0
    for _ in range(n):
        duel = policy.select(contexts_of(rng))
        n_self += duel.is_self
        if not duel.is_self:
            policy.update(duel, bool(duel.contrast @ theta + rng.logistic() > 0.0))
    return n_self


# --- the summary --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_a_summary_counts_and_reading_it_changes_nothing(name: str) -> None:
    policy = POLICIES[name](
        3, rng=1, **({} if name in SAMPLERS else {"horizon": 200, "estimator": "sgd", "ridge": 1.0})
    )
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(4, 3)), columns=NAMES)
    n_self, n = play(policy, lambda rng: frame, np.array([1.0, 0.0, -1.0]), 40), 40
    last = policy.select(frame)
    n_self += last.is_self
    if name not in SAMPLERS:
        policy.learn(frame.iloc[[0, 1]], frame.iloc[[2, 3]])
    before = snapshot(policy)
    told = policy.summary()
    assert (told.rounds, told.duels, told.self_duels, told.pending) == (
        n + 1,
        n + 1 - n_self - told.pending,
        n_self,
        not last.is_self,
    )
    assert told.status == policy.status and told.policy == repr(policy)
    assert str(told).startswith(repr(policy)) and policy._repr_html_() == told._repr_html_()
    if name in SAMPLERS:
        assert told.names == () and told.best_known is told.least_known is None
        assert "no estimate" in str(told) and "<table>" not in told._repr_html_()
    else:
        assert told.logged == 2 and told.names == tuple(NAMES)
        np.testing.assert_array_equal(told.theta, policy.theta)
        np.testing.assert_allclose(told.standard_errors, 2.0 * np.sqrt(np.diag(np.linalg.inv(policy.gram))), rtol=1e-9)
        assert told.best_known == NAMES[told.standard_errors.argmin()]
        assert told.least_known == NAMES[told.standard_errors.argmax()]
        assert f"{told.theta[1]:+.4f}" in str(told) and "&lt;age&gt;" in told._repr_html_()
        assert "<age>" not in told._repr_html_()
        told.theta[:] = 9.0
    assert snapshot(policy) == before


def test_standard_errors_are_those_of_a_fit_where_arms_are_about_as_good() -> None:
    rng = np.random.default_rng(0)
    winners, losers = rng.normal(size=(2, 400, 3))
    for comparison in ("bradley-terry", fc.Thurstone(0.7)):
        policy = fc.CoLSTIM(3, exploration_rounds=0, comparison=comparison)
        assert np.all(np.isinf(policy.summary().standard_errors))
        policy.learn(winners, losers)
        fit = fc.fit(winners - losers, np.ones(400), comparison=comparison, ridge=1000.0)  # theta about 0
        information = np.linalg.inv(policy.gram)
        scale = {"bradley-terry": 2.0}.get(str(comparison), 0.7 * np.sqrt(np.pi))  # 1 / (2 f(0))
        np.testing.assert_allclose(policy.summary().standard_errors, scale * np.sqrt(np.diag(information)), rtol=1e-9)
        assert np.linalg.norm(fit.theta) < 0.5


@pytest.mark.parametrize(("exploration_rounds", "most"), [("auto", 15), (10, 10)])
def test_a_summary_says_for_how_long_pairs_are_random(exploration_rounds: Any, most: int) -> None:
    policy = fc.CoLSTIM(3, estimator="sgd", exploration_rounds=exploration_rounds, rng=1)
    contexts = np.random.default_rng(0).normal(size=(5, 3))
    for _ in range(2):
        policy.update(policy.select(contexts), True)
    assert policy.summary().exploring == most - 2
    assert f"random for {most - 2} rounds more" in str(policy.summary())
    while policy.status == "exploring":
        policy.update(policy.select(contexts), True)
    assert policy.summary().exploring == 0 and "random" not in str(policy.summary())


def test_features_without_names_are_numbers() -> None:
    policy = fc.CoLSTIM(2, estimator="sgd", ridge=1.0)
    assert policy.summary().names == (0, 1) and "1 round," not in str(policy.summary())


@pytest.mark.parametrize("name", [*LINEAR, *STAGED])
def test_a_log_is_known_before_the_exploration_has_ended(name: str) -> None:
    policy = POLICIES[name](2, n_arms=5, horizon=200, estimator="sgd", rng=1)
    told = policy.summary()
    assert np.all(np.isinf(told.standard_errors)) and told.best_known is told.least_known is None
    assert str(told).endswith("best known: None, least known: None")
    policy.learn(np.array([[1.0, 0.0], [2.0, 0.0]]), np.zeros((2, 2)))  # one direction of two
    assert np.all(np.isinf(policy.summary().standard_errors)) and policy.summary().best_known is None
    policy.learn(np.array([[0.0, 1.0]]), np.zeros((1, 2)))
    before = snapshot(policy)
    told = policy.summary()
    assert policy.status == "exploring" and snapshot(policy) == before
    np.testing.assert_allclose(told.standard_errors, [2.0 / np.sqrt(5.0), 2.0], rtol=1e-12)
    assert (told.best_known, told.least_known) == (0, 1) and "best known: 0, least known: 1" in told._repr_html_()


# --- locked in ----------------------------------------------------------------------------------------------


def test_the_rule_by_hand() -> None:
    """f(0) is 1/4: min(1, lead / 2) against two widths."""
    policy = fc.CoLSTIM(1, estimator="sgd", ridge=1.0, exploration_rounds=0)
    state, contexts = state_of(policy), np.array([[1.0], [0.0]])
    for theta, gram, justified in (
        (9.0, 3.9, False),  # one lead of 9: at most always, 2 / sqrt(3.9) = 1.013
        (9.0, 4.1, True),
        (1.0, 15.0, False),  # 0.5, 2 / sqrt(15) = 0.516
        (1.0, 17.0, True),
        (-1.0, 1e9, False),  # the other one is better
    ):
        state.memory.theta[0], state.factor[0, 0] = theta, gram**-0.5
        assert is_justified(state, policy._rule.model, contexts, 0) is justified
        assert is_justified(state, policy._rule.model, contexts[[0, 0]], 0)  # equal arms are no rivals


def in_ball(rng: np.random.Generator) -> Any:
    x = rng.normal(size=(10, 5))
    return x / np.sqrt(np.sum(x * x, axis=1, keepdims=True) + 2.0 * rng.exponential(size=(10, 1)))


def test_a_policy_that_locks_itself_in_says_so_once_with_the_cure() -> None:
    """A few answers that agree put theta far out, and fresh arms duel with themselves ever after."""
    policy = fc.CoLSTIM(5, ridge=1.0, exploration_rounds=0, width_scale=0.2, estimator=fc.SGD(20.0), rng=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play(policy, in_ball, np.full(5, 0.1), 460)
    told = [str(w.message) for w in caught if w.category is UserWarning]
    assert len(told) == 1 and policy._unjustified > 16
    for part in ("showed an arm against itself", "allow_self_duel=False", "for_service"):
        assert part in told[0]


def test_self_duels_that_are_justified_are_not_told_of() -> None:
    """Of a good arm among fixed ones, after an exploration that told them apart. Warnings are errors here."""
    arms = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    policy = fc.CoLSTIM(2, exploration_rounds=90, horizon=1000, estimator="sgd", coupling=0.0, rng=1)
    assert play(policy, lambda rng: arms, np.array([4.0, 0.0]), rounds(1500, 700)) > 200
    assert policy._looks > 30


def test_stages_and_policies_without_the_cure_are_not_looked_at() -> None:
    for policy in (
        fc.CoLSTIM(2, estimator="sgd", ridge=1.0, exploration_rounds=0, allow_self_duel=False),
        fc.SupCoLSTIM(2, horizon=100, estimator="sgd", ridge=1.0, exploration_rounds=0),
    ):
        play(policy, lambda rng: rng.normal(size=(3, 2)), np.ones(2), 64)
        assert policy._looks == 0


def test_of_very_many_features_those_of_the_largest_coefficients_are_shown():
    policy = fc.CoLSTIM.for_service(101, estimator="sgd", rng=1)
    contrasts = np.eye(101)[:3]
    policy.learn(contrasts[[2, 0, 0]], np.zeros((3, 101)))
    for told in (str(policy.summary()), policy.summary()._repr_html_()):
        assert "81 features more, of smaller coefficients; best known: 0, least known: 1" in told
    rows = [line.split()[0] for line in str(policy.summary()).splitlines()[3:-1]]
    assert rows[:3] == ["0", "1", "2"] and len(rows) == 20 and rows == sorted(rows, key=int)
    whole = fc.CoLSTIM.for_service(100, estimator="sgd", rng=1).summary()
    assert len(str(whole).splitlines()) == 104


# --- the preset ---------------------------------------------------------------------------------------------


def test_the_preset_has_what_is_safe_and_arguments_come_first() -> None:
    policy = fc.CoLSTIM.for_service(3, n_arms=4, width_scale=3.0, rng=1)
    told = policy.get_params()
    assert (told["ridge"], told["exploration_rounds"], told["allow_self_duel"]) == (1.0, "auto", False)
    assert told["estimator"] == "mle"  # whose ridge is the policy's
    assert (told["n_arms"], told["width_scale"]) == (4, 3.0)
    assert type(policy)(**told).get_params() == told
    assert fc.CoLSTIM.for_service(3, estimator="sgd", ridge=0.5).get_params()["estimator"] == "sgd"
    explored = [fc.CoLSTIM.for_service(d).get_params()["exploration_rounds"] for d in (48, 49, 768)]
    assert explored == ["auto", 0, 0]
    assert fc.CoLSTIM.for_service(768, exploration_rounds=100).get_params()["exploration_rounds"] == 100
    with pytest.raises(ValueError, match="n_features is '3'"):
        fc.CoLSTIM.for_service("3")


@pytest.mark.jit
def test_the_preset_is_nowhere_locked_in_where_others_are() -> None:
    """Fixed seed: mean at most half of uniform's regret and no run above three quarters of it."""
    theta = np.array([1.0, -0.5, 0.5])
    fixed = fc.Scenario(theta=theta, n_arms=12, contexts="fixed")
    policies = {"safe": fc.CoLSTIM.for_service(3), "Random": fc.UniformPairs()}
    regret = fc.simulate(policies, fixed, horizon=2000, runs=40, rng=1).average_regret
    ratio = regret["safe"][:, -1] / regret["Random"][:, -1]
    assert regret["safe"][:, -1].mean() < 0.5 * regret["Random"][:, -1].mean()
    assert ratio.max() < 0.75
