"""Feature maps: kernels as scikit-learn has them, estimates as an exact kernel fit, policies as those without a map."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import JIT, rounds
from scipy.optimize import minimize
from test_contract import a_chunk
from twins import INFORMED, LINEAR, STAGED, taken_by

import fastcolst as fc
from fastcolst import reference
from fastcolst.features import KERNELS, map_of
from fastcolst.policies import mapped

NU = {"matern-1/2": 0.5, "matern-3/2": 1.5, "matern-5/2": 2.5}
GRID = np.linspace(-1.0, 1.0, 5)[:, np.newaxis] * [1.0, 0.5]
"""Landmarks of two features."""
MAPS = {"nystroem": fc.Nystroem(GRID, "rbf", 0.7), "waves": fc.RandomFeatures(4, "matern-3/2", 3, 0.7)}


def sklearn_kernel(name: str, length: Any) -> Any:
    kernels = pytest.importorskip("sklearn.gaussian_process.kernels")
    return kernels.RBF(length) if name == "rbf" else kernels.Matern(length, nu=NU[name])


# --- maps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0.6, [0.3, 2.0, 1.0]])
@pytest.mark.parametrize("name", KERNELS)
def test_products_with_landmarks_are_scikit_learn_s_kernels(name, length):
    rng = np.random.default_rng(1)
    landmarks, others = rng.normal(size=(12, 3)), rng.normal(size=(7, 3))
    found = map_of(fc.Nystroem(landmarks, name, length), 3)
    kernel = sklearn_kernel(name, length)
    at_landmarks, elsewhere = found.transform(landmarks), found.transform(others)
    np.testing.assert_allclose(at_landmarks @ at_landmarks.T, kernel(landmarks), atol=1e-10)
    np.testing.assert_allclose(elsewhere @ at_landmarks.T, kernel(others, landmarks), atol=1e-10)
    # the kernel itself, handed in as a function, gives the same up to the sign of each feature
    own = map_of(fc.Nystroem(landmarks, kernel), 3).transform(others)
    np.testing.assert_allclose(own @ own.T, elsewhere @ elsewhere.T, atol=1e-10)


@pytest.mark.parametrize("name", KERNELS)
def test_products_of_random_features_are_the_kernel_on_average(name):
    """Within five standard deviations of at most 1/sqrt(n): false alarm below 1e-4 for all pairs."""
    n, rows = rounds(200_000, 20_000), np.random.default_rng(2).normal(size=(6, 2))
    found = map_of(fc.RandomFeatures(n, name, 5, [0.8, 2.0]), 2).transform(rows)
    expected = sklearn_kernel(name, [0.8, 2.0])(rows)
    np.testing.assert_allclose(found @ found.T, expected, atol=5.0 / math.sqrt(n))
    np.testing.assert_allclose(np.diag(found @ found.T), 1.0, rtol=1e-12)


def test_random_features_repeat_with_their_seed():
    waves = fc.RandomFeatures(10, "rbf", np.random.default_rng(1))
    again, other = fc.RandomFeatures(10, "rbf", waves.rng), fc.RandomFeatures(10, "rbf")
    rows = np.ones((1, 3))
    assert waves.mapping(3).transform(rows).tolist() == again.mapping(3).transform(rows).tolist()
    assert waves.mapping(3).transform(rows).tolist() != other.mapping(3).transform(rows).tolist()


def test_far_from_all_landmarks_every_feature_is_nought():
    found = map_of(MAPS["nystroem"], 2).transform(np.array([[40.0, 0.0], [0.0, 0.1]]))
    assert not found[0].any() and found[1].any()


def test_equal_landmarks_are_one():
    doubled = np.concatenate([GRID, GRID, GRID[:2]])
    found = map_of(fc.Nystroem(doubled, "rbf", 0.7), 2).transform(GRID)
    assert found.shape[1] <= 5
    once = map_of(MAPS["nystroem"], 2).transform(GRID)
    np.testing.assert_allclose(found @ found.T, once @ once.T, atol=1e-9)


# --- the estimate -------------------------------------------------------------------------------------------


def kernel_comparisons() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Forty arms of one feature, 200 pairs of them, and answers by a utility with two peaks."""
    rng = np.random.default_rng(4)
    arms = np.sort(rng.uniform(-1.0, 1.0, 40))[:, np.newaxis]
    pairs = np.array([rng.choice(40, 2, replace=False) for _ in range(200)])
    utilities = 3.0 * np.cos(6.0 * arms[:, 0])
    wins = utilities[pairs[:, 0]] - utilities[pairs[:, 1]] + rng.logistic(size=200) > 0.0
    return arms, pairs, wins


def exact_utilities(arms: np.ndarray, pairs: np.ndarray, wins: np.ndarray, ridge: float) -> np.ndarray:
    """Kernel logistic regression by SciPy: f = K a, with the penalty ridge/2 a'K a, in whitened coordinates."""
    kernel = sklearn_kernel("matern-5/2", 0.3)(arms)
    root = np.linalg.cholesky(kernel + 1e-14 * np.eye(len(arms)))
    signs = np.where(wins, 1.0, -1.0)
    contrasts = signs[:, np.newaxis] * (root[pairs[:, 0]] - root[pairs[:, 1]])

    def loss(b: np.ndarray) -> tuple[float, np.ndarray]:
        margins = contrasts @ b
        slopes = -1.0 / (1.0 + np.exp(margins))
        return np.logaddexp(0.0, -margins).sum() + 0.5 * ridge * b @ b, contrasts.T @ slopes + ridge * b

    def curvature(b: np.ndarray) -> np.ndarray:
        p = 1.0 / (1.0 + np.exp(contrasts @ b))
        return (contrasts.T * (p * (1.0 - p))) @ contrasts + ridge * np.eye(len(b))

    options = {"gtol": 1e-12, "maxiter": 1_000}
    found = minimize(loss, np.zeros(len(arms)), jac=True, hess=curvature, method="trust-exact", options=options)
    utilities: np.ndarray = root @ found.x
    return utilities


def test_the_estimate_meets_exact_kernel_logistic_regression_as_landmarks_become_all():
    arms, pairs, wins = kernel_comparisons()
    ridge = 0.1
    exact = exact_utilities(arms, pairs, wins, ridge)
    errors = []
    for landmarks in (arms[::16], arms[::8], arms[::4], arms):
        phi = map_of(fc.Nystroem(landmarks, "matern-5/2", 0.3), 1).transform(arms)
        found = phi @ fc.fit(phi[pairs[:, 0]] - phi[pairs[:, 1]], wins, ridge=ridge).theta
        errors.append(np.abs((found - found[0]) - (exact - exact[0])).max())
    assert errors[0] > errors[1] > errors[2] > errors[3]
    assert errors[1] > 0.01 and errors[3] < 1e-6


def test_a_policy_learns_that_estimate():
    arms, pairs, wins = kernel_comparisons()
    exact = exact_utilities(arms, pairs, wins, 0.1)
    policy = fc.CoLSTIM(1, features=fc.Nystroem(arms, "matern-5/2", 0.3), ridge=0.1, estimator=fc.MLE(1e-9))
    some = slice(None, rounds(200, 40))
    if not JIT:
        exact = exact_utilities(arms, pairs[some], wins[some], 0.1)
    policy.learn(arms[pairs[some, 0]], arms[pairs[some, 1]], outcomes=wins[some])
    found = policy.utilities(arms)
    np.testing.assert_allclose(found - found[0], exact - exact[0], atol=1e-6)
    margin = exact[3] - exact[30]
    assert policy.probability(arms[3], arms[30]) == pytest.approx(1.0 / (1.0 + math.exp(-margin)), abs=1e-6)
    assert policy.status == "exploring" and policy.theta.shape == policy.gram.shape[:1]


def ackley(contexts: np.ndarray) -> np.ndarray:
    x = 5.0 * contexts[..., 0]
    return 20.0 * np.exp(-0.2 * np.abs(x)) + np.exp(np.cos(2.0 * np.pi * x)) - 20.0 - np.e


def test_on_the_ackley_function_regret_is_below_a_fifth_of_the_linear_policy_s():
    scenario = fc.Scenario(utility=ackley, n_features=1, n_arms=30, contexts="fixed")
    landmarks = np.linspace(-1.0, 1.0, rounds(30, 12))[:, np.newaxis]
    common = {"ridge": 0.1, "exploration_rounds": 0, "estimator": "mle" if JIT else "sgd"}
    policies = {
        "linear": fc.MaxPairUCB(1, **common),
        "nystroem": fc.MaxPairUCB(1, features=fc.Nystroem(landmarks, "matern-5/2", 0.2), **common),
    }
    result = fc.simulate(policies, scenario, rounds(2_000, 400), rounds(4, 1), rng=1)
    regret = {name: result.average_regret[name][:, -1].mean() for name in policies}
    assert regret["nystroem"] < 0.2 * regret["linear"]


# --- policies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", MAPS)
@pytest.mark.parametrize("name", [*LINEAR, *STAGED, *INFORMED])
def test_a_policy_with_a_map_is_one_that_is_handed_what_comes_out_of_it(name, which):
    """Duels, theta, M, utilities, widths, probabilities, logs and batches, bit for bit, and the fused loop as well."""
    cls = {**LINEAR, **STAGED, **INFORMED}[name][0]
    given = map_of(MAPS[which], 2)
    estimator = "mle" if name in INFORMED else "sgd"
    options = {"horizon": 60, "ridge": 1.0, "exploration_rounds": 4, "estimator": estimator, "rng": 2}
    common = taken_by(cls, options)
    mine = cls(2, features=MAPS[which], **common)
    plain = cls(given.n_outputs, **common)
    rng = np.random.default_rng(6)
    winners, losers = rng.normal(size=(2, 5, 2))
    for policy, seen in ((mine, lambda rows: rows), (plain, given.transform)):
        policy.learn(seen(winners), seen(losers))
    for _ in range(rounds(40, 12)):
        contexts = rng.normal(size=(6, 2))
        duels = mine.select(contexts), plain.select(given.transform(contexts))
        assert duels[0].first == duels[1].first and duels[0].second == duels[1].second
        assert duels[0].contrast.tolist() == duels[1].contrast.tolist()
        won = bool(rng.random() < 0.5)
        for policy, duel in zip((mine, plain), duels, strict=True):
            policy.update(duel, won)
    batches = mine.select_batch(contexts, 3), plain.select_batch(given.transform(contexts), 3)
    assert [duel.first for duel in batches[0]] == [duel.first for duel in batches[1]]
    assert mine.theta.tobytes() == plain.theta.tobytes() and mine.gram.tobytes() == plain.gram.tobytes()
    for method in ("utilities", "widths"):
        found, expected = getattr(mine, method)(contexts), getattr(plain, method)(given.transform(contexts))
        np.testing.assert_array_equal(found, expected)
    if name in INFORMED:
        assert mine.expected_misordered(contexts) == plain.expected_misordered(given.transform(contexts))
    one, other = given.transform(contexts[:2])
    assert mine.probability(contexts[0], contexts[1]) == pytest.approx(plain.probability(one, other), rel=1e-12)
    assert mine.get_params()["n_features"] == 2 and mine.get_params()["features"] is MAPS[which]


@pytest.mark.parametrize("size", [1, 2**22])
def test_the_fused_loop_plays_mapped_contexts(size, monkeypatch):
    """In whatever pieces: as the object does, step by step."""
    monkeypatch.setattr(mapped, "LARGEST_CHUNK", size)
    common = {"features": MAPS["nystroem"], "ridge": 1.0, "exploration_rounds": 4, "estimator": "sgd", "rng": 2}
    fused, stepped = fc.CoLSTIM(2, n_arms=6, **common), fc.CoLSTIM(2, n_arms=6, **common)
    m = rounds(100, 30)
    chunk = a_chunk(fc.BradleyTerry(), m, 2, 6)
    trace = np.zeros((m + 1, 3))
    assert fused.play(chunk, trace) == m
    totals = np.zeros_like(trace)
    for r in range(m):
        duel, u = stepped.select(np.ascontiguousarray(chunk.contexts[r].T)), chunk.utilities[r]
        if not duel.is_self:
            stepped.update(duel, bool(u[duel.first] - u[duel.second] + chunk.latent[r] > 0.0))
        totals[r + 1] = totals[r] + (*reference.regret(u, duel.first, duel.second), duel.is_self)
    np.testing.assert_allclose(trace, totals, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(fused.theta, stepped.theta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fused.gram, stepped.gram, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="chunk has contexts of 3 features; 2 are wanted"):
        fused.play(a_chunk(fc.BradleyTerry(), 1, 3, 6), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="n_features=2; the problem has 3"):
        fused.fresh_for(3, 6, 100, 1)


@pytest.mark.parametrize("which", ["waves, as many as features", "nystroem", "waves"])
def test_saved_and_loaded_it_goes_on_bit_for_bit(which, tmp_path):
    """Where as many features come out as go in contexts look like those of the round before, and are mapped still."""
    features = fc.RandomFeatures(2, "rbf", 1) if "," in which else MAPS[which]
    policy = fc.CoLSTIM(2, features=features, ridge=1.0, exploration_rounds=2, estimator="sgd", rng=2)
    rng = np.random.default_rng(1)
    for _ in range(5):
        contexts = rng.normal(size=(4, 2))
        duel = policy.select(contexts)
        expected = map_of(features, 2).transform(contexts)
        np.testing.assert_allclose(duel.contrast, expected[duel.first] - expected[duel.second], atol=1e-12)
        policy.update(duel, True)
    policy.save(tmp_path / "policy.npz")
    again = fc.load_policy(tmp_path / "policy.npz")
    assert again.theta.tobytes() == policy.theta.tobytes()
    for _ in range(4):
        contexts = rng.normal(size=(4, 2))
        one, other = policy.select(contexts), again.select(contexts)
        assert (one.first, one.second, one.contrast.tolist()) == (other.first, other.second, other.contrast.tolist())
        policy.update(one, True)
        again.update(other, True)
    assert again.theta.tobytes() == policy.theta.tobytes()
    twin = policy.fork(1)
    assert twin.utilities(contexts).tolist() == policy.utilities(contexts).tolist()


def test_data_frames_name_what_goes_in():
    policy = fc.CoLSTIM(2, features=MAPS["nystroem"], ridge=1.0, exploration_rounds=0, rng=2)
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(4, 2)), columns=["price", "speed"])
    duel = policy.select(table)
    policy.update(duel, True)
    assert policy.feature_names == ("price", "speed")
    assert policy.utilities(table[["speed", "price"]]).tolist() == policy.utilities(table).tolist()
    again = fc.CoLSTIM(2, features=MAPS["nystroem"], ridge=1.0, exploration_rounds=0, rng=2)
    again.utilities(table)
    shown = again.select(table[["speed", "price"]])
    assert (shown.first, shown.contrast.tolist()) == (duel.first, duel.contrast.tolist())
    with pytest.raises(ValueError, match="contexts lacks 'speed'"):
        policy.select(table.rename(columns={"speed": "size"}))
    assert len(policy.summary().names) == len(policy.theta) and "price" not in policy.summary().names
    assert policy.history().features[0] == "z[0]"


def test_a_transformer_of_scikit_learn_is_taken_and_not_saved(tmp_path):
    approximation = pytest.importorskip("sklearn.kernel_approximation")
    rows = np.random.default_rng(1).normal(size=(20, 2))
    transformer = approximation.Nystroem(gamma=1.0, n_components=20, random_state=0).fit(rows)
    policy = fc.CoLSTIM(2, features=transformer, ridge=1.0, exploration_rounds=0, rng=2)
    ours = fc.CoLSTIM(2, features=fc.Nystroem(rows, "rbf", math.sqrt(0.5)), ridge=1.0, exploration_rounds=0, rng=2)
    for each in (policy, ours):
        each.learn(rows[:9], rows[9:18])
    np.testing.assert_allclose(policy.utilities(rows), ours.utilities(rows), atol=0.02)  # of the estimate's tolerance
    with pytest.raises(ValueError, match=r"features is Nystroem.*, which no file can hold"):
        policy.save(tmp_path / "policy.npz")
    with pytest.raises(ValueError, match="features takes 2 features; 3, n_features, are wanted"):
        fc.CoLSTIM(3, features=transformer)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: fc.Nystroem([[np.nan]]), "landmarks"),
        (lambda: fc.Nystroem([1.0]), "landmarks has shape"),
        (lambda: fc.Nystroem([[1.0]], "cosine"), "kernel is 'cosine'; 'matern-1/2'.* or a callable is wanted"),
        (lambda: fc.Nystroem([[1.0]], length=0.0), "length is 0.0; positive finite numbers are wanted"),
        (lambda: fc.Nystroem([[1.0]], length=[1.0, 2.0]), "length has 2 entries; one, or 1, are wanted"),
        (lambda: fc.RandomFeatures(3), "n is 3; an even number is wanted"),
        (lambda: fc.RandomFeatures(0), "n is 0; a whole number of at least 2"),
        (lambda: fc.RandomFeatures(2, len), "kernel is .*; 'matern-1/2'.* is wanted"),
        (lambda: fc.RandomFeatures(2, rng=-1), "rng is -1; a seed must not be negative"),
        (
            lambda: fc.CoLSTIM(2, features=fc.RandomFeatures(2, length=[1.0, 1.0, 1.0])),
            "length has 3 entries; one, or 2",
        ),
        (lambda: fc.CoLSTIM(3, features=MAPS["nystroem"]), "landmarks has 2 features; 3, n_features, are wanted"),
        (lambda: MAPS["waves"].mapping(0), "n_features is 0; a whole number"),
        (lambda: MAPS["waves"].mapping(2).transform([[1.0, 2.0, 3.0]]), "rows has 3 features"),
        (lambda: MAPS["nystroem"].mapping(2).transform([1.0, 2.0]), "rows has shape"),
        (lambda: fc.CoLSTIM(2, features="rbf"), "features is 'rbf'; fc.Nystroem, fc.RandomFeatures, a fitted"),
        (lambda: fc.CoLSTIM(2, features=fc.Nystroem), "features is .*Nystroem.*; fc.Nystroem"),
        (lambda: fc.CoLSTIM(1, features=fc.Nystroem([[1.0]], lambda X, Y: [1.0])), "kernel gives .* for 1 and 1 rows"),
        (lambda: fc.CoLSTIM(1, features=fc.Nystroem([[1.0]], lambda X, Y: X * 0.0)), "matrix of the landmarks is 0"),
    ],
)
def test_what_is_no_map_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_differences_cannot_be_mapped():
    policy = fc.CoLSTIM(2, features=MAPS["waves"], ridge=1.0)
    with pytest.raises(ValueError, match=r"contrasts are differences of features.*learn\(winners, losers\) is wanted"):
        policy.learn_and_predict(np.ones((1, 2)), [True])
    with pytest.raises(ValueError, match="contexts has 3 features"):
        policy.select(np.ones((4, 3)))
    policy.warmup()
    assert not policy.theta.any() and policy.round == 0


def test_a_transformer_that_works_in_place_changes_no_argument():
    class InPlace:
        n_features_in_ = 2

        def transform(self, X):
            X += 1.0
            return X

    contexts = np.random.default_rng(0).normal(size=(5, 2))
    before = contexts.copy()
    policy = fc.CoLSTIM(2, features=InPlace(), ridge=1.0, rng=1)
    policy.select(contexts), policy.utilities(contexts), policy.learn(contexts, -contexts)
    np.testing.assert_array_equal(contexts, before)


def test_waves_that_overflow_are_refused():
    policy = fc.CoLSTIM(1, features=fc.RandomFeatures(4, "rbf", rng=1, length=1e-300), ridge=1.0, rng=1)
    with pytest.raises(ValueError, match="so large beside RandomFeatures' length that phases overflow: scale them"):
        policy.utilities([[1e20], [2e20]])
