"""robust=alpha: an answer counts min(1, alpha / |z|_{M^-1}) times, M from before the pair was shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import JIT, everyday, rounds
from inside import snapshot, state_of
from test_contract import a_chunk, check_fused, follow
from twins import INFORMED, LINEAR, MODELS, STAGED, taken_by

import fastcolst as fc
from fastcolst import reference, streams

D, N = 3, 8
POLICIES = {**LINEAR, **STAGED, **INFORMED}
MODEL = MODELS["bradley-terry" if JIT else "thurstone"]
"""Compiled, the model and the estimator of tests/test_counting.py; CoLSTIM has the other estimators too."""
SETTINGS = {"n_arms": N, "horizon": 400, "exploration_rounds": 9, "width_scale": 1.5, "robust": 0.3}
ESTIMATORS = {
    "sgd": (fc.SGD(), lambda model: None),
    "online-newton": (fc.OnlineNewton(history=0), lambda model: reference.OnlineNewton(model, history=0)),
    "mle": (fc.MLE(1e-9), reference.MLE),
}


def both(name: str, estimator: str = "sgd", n: int = 2, **more: Any) -> tuple[list[Any], Any]:
    """Several of ours, and the reference."""
    ours, plain = POLICIES[name]
    model, (mine, theirs) = MODEL, ESTIMATORS[estimator]
    options = {**SETTINGS, "ridge": 0.5, **more}
    policies = [
        ours(D, **taken_by(ours, {**options, "comparison": model.ours, "estimator": mine, "rng": 3})) for _ in range(n)
    ]
    twin = {**options, "comparison": model.plain, "estimator": theirs(model.plain)}
    return policies, plain(D, **taken_by(plain, twin))


COMPILED = ("CoLSTIM", "MaxInP", "SupCoLSTIM")
"""Policies that are played compiled every day; in tests/test_counting.py all are served."""


def cases() -> list[Any]:
    """Without a penalty an exact estimate is at first far out, where many are as good."""
    found = [(name, how) for name in POLICIES for how in ESTIMATORS if not (name in INFORMED and how == "sgd")]
    return [
        pytest.param(*case, ridge, marks=everyday(case[0] in COMPILED))
        for case in found
        for ridge in (0.5, 0.0)
        if (case[1], ridge) != ("mle", 0.0)
    ]


@pytest.mark.filterwarnings("ignore:.* showed an arm against itself:UserWarning")
@pytest.mark.parametrize(("name", "estimator", "ridge"), cases())
def test_object_fused_loop_and_log_agree_with_the_reference(name: str, estimator: str, ridge: float):
    if JIT and estimator != "online-newton" and name != "CoLSTIM":
        pytest.skip("compiled, one estimator is enough for each policy")
    horizon = {"mle": rounds(300, 25)}.get(estimator, rounds(600, 90))
    (policy, fused, reader), twin = both(name, estimator, 3, ridge=ridge)
    noise, chunk, log = streams.generator(3), a_chunk(MODEL.ours, horizon, D, N), []

    def choose(contexts: np.ndarray) -> Any:
        return policy.select(contexts), twin.select(contexts, *twin.draw(noise, N))

    def learn(contrast: np.ndarray, won: bool) -> None:
        twin.update(contrast, won)
        log.append((contrast, won))

    check_fused(fused, chunk, follow(policy, chunk, choose, learn))
    assert policy.status != "exploring"
    assert fused.theta.tobytes() == policy.theta.tobytes()
    assert fused.gram.tobytes() == policy.gram.tobytes()
    np.testing.assert_allclose(policy.gram, twin.gram, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(policy.theta, twin.theta, rtol=0, atol=1e-7)
    if name in STAGED:
        for s in range(1, policy.n_stages + 1):
            np.testing.assert_allclose(policy.stage(s).gram, twin.stages[s - 1].gram, rtol=1e-10, atol=1e-12)
        return  # a log teaches all stages
    if ridge > 0.0:  # otherwise M would be inverted at another time
        reader.learn_and_predict(*(np.array(column) for column in zip(*log, strict=True)))
        assert reader.gram.tobytes() == policy.gram.tobytes()
        np.testing.assert_allclose(reader.theta, policy.theta, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", STAGED)
def test_a_log_is_weighed_by_each_stages_own_m(name: str):
    (policy,), twin = both(name, "online-newton", 1, width_scale=0.3)
    rng, noise = np.random.default_rng(1), streams.generator(3)
    for t in range(60):
        contexts = rng.normal(size=(N, D))
        duel = policy.select(contexts)
        assert (duel.first, duel.second) == twin.select(contexts, *twin.draw(noise, N))
        if not duel.is_self:
            policy.update(duel, t % 3 > 0, weight=2.0)
            twin.update(duel.contrast, t % 3 > 0, 2.0)
    contrasts, weights = rng.normal(size=(20, D)), rng.uniform(0.5, 3.0, size=20)
    policy.learn_and_predict(contrasts, np.ones(20), weights=weights)
    twin.learn(contrasts, np.ones(20), weights)
    grams = [policy.stage(s).gram for s in range(1, policy.n_stages + 1)]
    assert not np.allclose(grams[0], grams[-1])
    for gram, stage in zip(grams, twin.stages, strict=True):
        np.testing.assert_allclose(gram, stage.gram, rtol=1e-10)


@pytest.mark.parametrize("name", [*LINEAR, *STAGED])
def test_the_weight_is_that_of_the_day_on_which_the_pair_was_shown(name: str):
    """However late the answer comes, and from whatever copy; an answer of weight w counts w times as much."""
    (policy,), _ = both(name, "online-newton", 1, exploration_rounds=0, allow_self_duel=False)
    rng = np.random.default_rng(2)
    duels, weights = [], []
    while len(duels) < 12:
        M = policy.gram
        duel = policy.select(rng.normal(size=(N, D)))
        weights.append(min(1.0, 0.3 / np.sqrt(duel.contrast @ np.linalg.solve(M, duel.contrast))))
        duels.append(duel)
        if len(duels) % 3 == 0:  # others are learned meanwhile
            policy.learn_and_predict(rng.normal(size=(1, D)), [1.0])
    before, times = policy.gram, rng.choice([0.5, 1.0, 4.0], size=12)
    for duel, weight in zip(duels, times, strict=True):
        policy.update(duel.token, True, weight=float(weight))
    gained = sum(
        w * t * np.outer(duel.contrast, duel.contrast) for w, t, duel in zip(weights, times, duels, strict=True)
    )
    assert min(weights) < 0.2
    if name in LINEAR:  # of stages a pair teaches one
        np.testing.assert_allclose(policy.gram - before, gained, rtol=1e-9, atol=1e-10)


def test_weights_go_with_files(tmp_path: Any):
    (policy,), _ = both("MaxPairUCB", n=1, exploration_rounds=0, allow_self_duel=False)
    rng = np.random.default_rng(2)
    duels = [policy.select(rng.normal(size=(N, D))) for _ in range(4)]
    policy.save(tmp_path / "policy.npz")
    other = fc.load_policy(tmp_path / "policy.npz")
    for duel in duels:
        for one in (policy, other):
            one.update(duel.token, True)
    assert snapshot(other)["_state"] == snapshot(policy)["_state"]
    held = dict(np.load(tmp_path / "policy.npz"))
    for weights in (np.full(4, 2.0), np.zeros(4), np.full(3, 0.5), np.full(4, np.nan)):
        np.savez(tmp_path / "other.npz", **{**held, "pending.weights": weights})
        with pytest.raises(fc.FileFormatError, match=r"weights that cannot be.*wanted"):
            fc.load_policy(tmp_path / "other.npz")


@pytest.mark.parametrize("count_pending", [False, True])
def test_a_weight_too_small_for_a_number_is_the_smallest_that_a_file_holds(count_pending: bool, tmp_path: Any):
    policy = fc.CoLSTIM(
        D, ridge=1.0, exploration_rounds=0, allow_self_duel=False, robust=1e-300, count_pending=count_pending, rng=1
    )
    contexts = np.array([[1e30, 0.0, 0.0], [0.0, 1e30, 0.0], [0.0, 0.0, 1e30]])
    duels = [policy.select(contexts) for _ in range(2)]
    policy.save(tmp_path / "policy.npz")
    other = fc.load_policy(tmp_path / "policy.npz")
    for duel in duels:
        for one in (policy, other):
            one.update(duel.token, True)
    log = policy.history()
    assert log.weights.tolist() == other.history().weights.tolist() == [1e-300, 1e-300]
    assert np.isfinite(policy.gram).all() and np.isfinite(policy.theta).all()


@pytest.mark.filterwarnings("ignore:.* showed an arm against itself:UserWarning")
@pytest.mark.parametrize("name", POLICIES)
def test_weights_of_one_are_the_bits_of_none(name: str):
    """Where alpha is so large that every weight is 1."""
    (one,), _ = both(name, "online-newton", 1, robust=None)
    (other,), _ = both(name, "online-newton", 1, robust=1e6)
    (fused,), _ = both(name, "online-newton", 1, robust=1e6)
    chunk = a_chunk(fc.BradleyTerry(), rounds(300, 60), D, N)
    waiting: list[fc.Duel] = []

    def choose(contexts: np.ndarray) -> Any:
        waiting.append(one.select(contexts))
        return other.select(contexts), (waiting[-1].first, waiting[-1].second)

    check_fused(fused, chunk, follow(other, chunk, choose, lambda contrast, won: one.update(waiting[-1], won)))
    for policy in (other, fused):
        assert policy.theta.tobytes() == one.theta.tobytes()
        assert state_of(policy).gram.tobytes() == state_of(one).gram.tobytes()
        assert state_of(policy).factor.tobytes() == state_of(one).factor.tobytes()


def test_the_exact_estimate_audit_and_history_count_the_weights():
    (policy,), _ = both("MaxPairUCB", "mle", 1, allow_self_duel=False)
    rng, theta = np.random.default_rng(4), np.array([1.0, -0.5, 0.3])
    for _ in range(60):
        duel = policy.select(rng.normal(size=(N, D)))
        policy.update(duel, bool(duel.contrast @ theta + rng.normal() > 0.0), weight=2.0)
    log = policy.history()
    fit = fc.fit(log.contrasts, log.wins * log.weights, log.weights, comparison=MODEL.ours, ridge=0.5)
    np.testing.assert_allclose(policy.theta, fit.theta, atol=1e-7)
    assert log.weights.min() < 1.5
    assert policy.audit() < 1e-7
    np.testing.assert_allclose(
        policy.gram, 0.5 * np.eye(D) + (log.contrasts.T * log.weights) @ log.contrasts, rtol=1e-10
    )


def test_a_simulation_is_played_robustly():
    """Fused, from a template; nothing but the option differs."""
    scenario = fc.Scenario.hard(n_arms=6, n_features=3)

    def regret(**options: Any) -> np.ndarray:
        policy = fc.MaxPairUCB(3, ridge=1.0, estimator="sgd", **options)
        return fc.simulate({"policy": policy}, scenario, rounds(500, 60), rng=1).average_regret["policy"]

    plain = regret()
    assert np.array_equal(plain, regret(robust=1e6, count_pending=True))
    assert not np.array_equal(plain, regret(robust=0.1))


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "some", True, [0.1]])
def test_robust_is_a_positive_number(value: Any):
    with pytest.raises(ValueError, match=r"robust is .*wanted"):
        fc.MaxPairUCB(D, robust=value)
