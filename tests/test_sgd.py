"""Gradient steps: in units of the features' sizes, and what is said of steps that are too long."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from conftest import rounds
from hypothesis import given
from hypothesis import strategies as st

import fastcolst as fc
from fastcolst.cli import main
from fastcolst.data import Log


def logistic_log(seed, m, units, theta=(1.5, -1.0, 0.5)):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(m, len(theta)))
    return Log.from_arrays(z * units, rng.random(m) < 1.0 / (1.0 + np.exp(-z @ np.array(theta))))


def standardized_steps(contrasts, wins, rate):
    """In plain NumPy: ordinary steps for phi = s theta on z/s, where s is what was learned, and the row itself."""
    phi, squares, counts = np.zeros(contrasts.shape[1]), np.zeros(contrasts.shape[1]), np.zeros(contrasts.shape[1])
    probabilities = []
    for z, won in zip(contrasts, wins, strict=True):
        sizes = np.sqrt(np.where(squares > 0, squares, 1.0) / np.where(squares > 0, counts, 1.0))
        probability = 1.0 / (1.0 + np.exp(-(phi / sizes) @ z))
        probabilities.append(probability)
        squares += z**2
        counts += z != 0
        sizes = np.sqrt(np.where(squares > 0, squares, 1.0) / np.where(squares > 0, counts, 1.0))
        phi += rate * (won - probability) * z / sizes
    return np.array(probabilities), phi / sizes


def test_standardized_steps_are_ordinary_ones_in_units_of_what_was_learned():
    log = logistic_log(1, rounds(2_000, 200), [1.0, 30.0, 0.01])
    contrasts = log.contrasts.copy()
    contrasts[::3, 1] = 0.0
    contrasts[:5, 2] = 0.0
    policy = fc.CoLSTIM(3, estimator=fc.SGD(0.1, standardize=True))
    probabilities = policy.learn_and_predict(contrasts, log.wins)
    expected, theta = standardized_steps(contrasts, log.wins, 0.1)
    np.testing.assert_allclose(probabilities, expected, rtol=1e-9)
    np.testing.assert_allclose(policy.theta, theta, rtol=1e-9)


@pytest.mark.either_lane
@pytest.mark.parametrize("name", ["sgd", "mle"])
@given(power=st.integers(-20, 20))
def test_predictions_do_not_depend_on_the_units_of_features(name, power):
    estimator = fc.SGD(0.2, standardize=True) if name == "sgd" else "mle"
    log = logistic_log(2, 60, [1.0, 1.0, 1.0])
    first = fc.CoLSTIM(3, estimator=estimator)
    other = fc.CoLSTIM(3, estimator=estimator)
    units = 2.0 ** np.array([power, 0, -power])
    expected = first.learn_and_predict(log.contrasts, log.wins)
    np.testing.assert_allclose(other.learn_and_predict(log.contrasts * units, log.wins), expected, rtol=1e-6)
    np.testing.assert_allclose(other.theta * units, first.theta, rtol=1e-6)


def test_features_a_hundred_times_as_large():
    """SGD(1/2) had the log loss inf then, and no word; mle has the same in any unit."""
    log = logistic_log(3, rounds(4_000, 1_500), 100.0)
    with pytest.warns(UserWarning, match=r"\|z'theta\| passed 30.*standardize=True\) \(--standardize\)") as told:
        plain = fc.replay(fc.CoLSTIM(3, estimator="sgd"), log)
    assert len(told) == 1
    assert plain.log_loss == np.inf and plain.status == "overshooting"
    standardized = fc.replay(fc.CoLSTIM(3, estimator=fc.SGD(0.05, standardize=True)), log)
    original = logistic_log(3, len(log), 1.0)
    best = -np.log(
        np.where(log.wins, *(1 / (1 + np.exp(s * original.contrasts @ [1.5, -1, 0.5])) for s in (-1, 1)))
    ).mean()
    assert best < standardized.log_loss < best + 0.03 and standardized.status == "ready"


def ask_and_answer(policy, rounds, size):
    rng, theta = np.random.default_rng(4), np.array([1.0, -2.0, 3.0])
    for _ in range(rounds):
        duel = policy.select(size * rng.normal(size=(4, 3)))
        policy.update(duel, bool(duel.contrast @ theta / size + rng.logistic() > 0))


def test_a_policy_that_is_asked_warns_once():
    policy = fc.CoLSTIM(3, n_arms=4, exploration_rounds=12, estimator="sgd", rng=1)
    with pytest.warns(UserWarning, match="--standardize") as told:
        ask_and_answer(policy, 200, 100.0)
    assert len(told) == 1
    calm = fc.CoLSTIM(3, n_arms=4, exploration_rounds=12, estimator="sgd", rng=1)
    ask_and_answer(calm, 200, 0.5)
    assert calm.status == "ready"


def test_the_margin_at_which_steps_are_too_long():
    """One step from 0 makes theta 1/2 of a half; the next contrast's margin is then its quarter."""
    for size, word in ((4 * 29.9, "ready"), (4 * 30.1, "overshooting"), (-4 * 30.1, "overshooting")):
        policy = fc.CoLSTIM(1, estimator="sgd")
        policy.learn_and_predict([[1.0]], [True])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            policy.learn_and_predict([[size]], [size > 0])
        assert policy.estimate_status == word
    # of a wider model a margin of 30 is no more certain than one of 0.3
    policy = fc.CoLSTIM(1, estimator="sgd", comparison=fc.BradleyTerry(100.0))
    policy.learn_and_predict([[1.0]], [True])
    policy.learn_and_predict([[4e4]], [True])
    assert policy.theta[0] > 30 / 4e4 and policy.estimate_status == "ready"


def test_a_warning_turned_into_an_error_leaves_the_policy_as_it_was():
    log = logistic_log(5, 300, 100.0)
    policy = fc.CoLSTIM(3, estimator="sgd")
    with pytest.raises(UserWarning, match="--standardize"):
        policy.learn_and_predict(log.contrasts, log.wins)
    assert not policy.theta.any() and not policy.gram.any() and policy.estimate_status == "ready"


def test_the_command_line_names_the_option_and_takes_it(tmp_path, capsys):
    log = logistic_log(6, 1_000, 100.0)
    path = tmp_path / "log.npz"
    np.savez(path, Z=log.contrasts, y=log.wins)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["replay", str(path), "--estimator", "sgd"]) == 0
        out, err = capsys.readouterr()
        assert err.startswith("fastcolst: warning: ") and "--standardize" in err and err.count("\n") == 1
        assert "status of the estimate: overshooting" in out
        assert main(["replay", str(path), "--learning-rate", "0.1", "--standardize"]) == 0
        out, err = capsys.readouterr()
        assert err == "" and "status of the estimate: ready" in out
    assert main(["replay", str(path), "--standardize"]) == 2
    error = capsys.readouterr().err
    assert "argument --standardize: mle has no standardize; it is an option of --estimator sgd" in error


def test_one_hot_features_are_of_size_one_however_rare():
    """Of 300 items each is in one comparison of 150: in units of all of them steps would be 150 times as long."""
    log = logistic_log(7, 200, 1.0, theta=[0.0] * 20)
    hot = np.zeros((200, 20))
    rng = np.random.default_rng(8)
    for row in hot:
        row[rng.choice(20, 2, replace=False)] = 1.0, -1.0
    plain, standardized = (fc.CoLSTIM(20, estimator=fc.SGD(0.3, standardize=flag)) for flag in (False, True))
    np.testing.assert_allclose(
        standardized.learn_and_predict(hot, log.wins), plain.learn_and_predict(hot, log.wins), rtol=1e-12
    )


def test_a_radius_is_in_the_features_own_units():
    """So that predictions depend on the units, as the docstring says."""
    log = logistic_log(4, 60, 1.0)
    policies = [fc.CoLSTIM(3, estimator=fc.SGD(0.2, radius=0.3, standardize=True)) for _ in range(2)]
    plain, large = (
        policy.learn_and_predict(log.contrasts * unit, log.wins)
        for policy, unit in zip(policies, (1.0, 100.0), strict=True)
    )
    assert all(np.linalg.norm(policy.theta) <= 0.3 * (1.0 + 1e-12) for policy in policies)
    assert np.abs(plain - large).max() > 0.1


def test_sizes_are_saved_with_the_policy(tmp_path):
    log = logistic_log(9, 60, [1.0, 100.0, 0.01])
    policy = fc.CoLSTIM(3, estimator=fc.SGD(0.1, standardize=True))
    policy.learn_and_predict(log.contrasts[:40], log.wins[:40])
    policy.save(tmp_path / "policy")
    loaded = fc.load_policy(tmp_path / "policy")
    rest = log.contrasts[40:], log.wins[40:]
    assert loaded.learn_and_predict(*rest).tolist() == policy.learn_and_predict(*rest).tolist()


def test_tiny_features_and_sums_that_overflow():
    policy = fc.CoLSTIM(2, estimator=fc.SGD(0.5, standardize=True), ridge=1.0)
    policy.learn_and_predict([[1e130, 0.5], [1e-170, 1.0], [1e-120, 1e-120]], [True, False, True])
    assert np.isfinite(policy.theta).all()


@pytest.mark.parametrize("size", [1e-170, 1e-163, 1e-158, 1e-154])
def test_features_whose_squares_are_lost_are_refused(size):
    """1e-163 gave 0.5 for everything, and 1e-158 was said to be too large."""
    log = logistic_log(3, 40, 1.0)
    for units in (size, np.array([1.0, size, 1.0])):
        policy = fc.CoLSTIM(3, estimator=fc.SGD(0.2, standardize=True), ridge=1.0)
        with pytest.raises(
            ValueError, match=r"^contrasts\[\d+\] is so small that .* overflows: scale the features up$"
        ):
            policy.learn_and_predict(log.contrasts * units, log.wins)
        assert not policy.theta.any()
    duel = policy.select(np.eye(3) * size)
    with pytest.raises(ValueError, match=r"^duel of round 1: .* the estimate overflows; larger features are wanted$"):
        policy.update(duel, True)
    assert policy.pending == 1


@pytest.mark.parametrize("size", [1e-150, 1e130])
def test_predictions_are_the_same_in_extreme_units(size):
    log = logistic_log(3, 40, 1.0)
    expected, found = (
        fc.CoLSTIM(3, estimator=fc.SGD(0.2, standardize=True)).learn_and_predict(log.contrasts * unit, log.wins)
        for unit in (1.0, size)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("value", [2, "yes", None])
def test_standardize_is_true_or_false(value):
    with pytest.raises(ValueError, match="SGD: standardize is"):
        fc.SGD(standardize=value)


@pytest.mark.parametrize("d", [3, 200])
def test_a_log_that_overshoots_is_told_at_once_of_however_many_features(d):
    policy = fc.CoLSTIM(d, estimator="sgd", ridge=1.0, exploration_rounds=0, allow_self_duel=False, rng=1)
    for _ in range(100):  # where no look at the estimate is due
        policy.select(np.eye(2, d))
    with pytest.warns(UserWarning, match="steps"):
        policy.learn(np.full((4, d), 100.0), np.zeros((4, d)), outcomes=[1, 0, 1, 0])
    assert policy.estimate_status == "overshooting"
