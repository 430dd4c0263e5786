"""The reference's estimate of theta: published fits, certificates, SciPy's optimiser, data that have no estimate."""

import json
import math

import mpmath
import numpy as np
import pytest
from conftest import FITTED, comparison_counts, rounds
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from twins import LINKS, PLAIN, SCORES, textbook

from fastcolst.reference import BradleyTerry, ExponentialNoise, fit

pytestmark = pytest.mark.either_lane

PUBLISHED = {link: plain for link, (_, plain) in LINKS.items()}


def answers(seed, m, d, *, model=None, theta=None, spread=0.0):
    """Contrasts, wins and trials; with a theta (|theta| = 1 unless given) drawn from the model."""
    rng = np.random.default_rng(seed)
    contrasts = rng.standard_normal((m, d)) * 10.0 ** rng.uniform(-spread, spread, d)
    scales = np.max(np.abs(contrasts), axis=0)
    theta = rng.standard_normal(d) / math.sqrt(d) / scales if theta is None else theta
    trials = rng.integers(1, 4, m).astype(float)
    model = model or BradleyTerry()
    return contrasts, rng.binomial(trials.astype(int), model.cdf(contrasts @ theta)).astype(float), trials


def loss_gradient(contrasts, wins, trials, theta, model, score, ridge):
    """Gradient of the loss, answer by answer."""
    gradient = ridge * theta
    for z, w, n in zip(contrasts, wins, trials, strict=True):
        for sign, count in ((1.0, w), (-1.0, n - w)):
            e = sign * float(z @ theta)
            pull = float(model.pdf(e) / model.cdf(e)) if score == "likelihood" else 1.0 - float(model.cdf(e))
            gradient = gradient - count * pull * sign * z
    return gradient


# --- published fits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FITTED)
def test_fits_made_with_forty_digits(shared, name):
    contrasts, wins, trials = comparison_counts(shared / "data" / name)
    fits = json.loads((shared / "data" / name / "reference_mp.json").read_text())["fits"]
    assert len(fits) == 5
    for key, published in fits.items():
        link, kind = key.split("_")
        score = {"mle": "likelihood", "ee": "residual"}[kind]
        found = fit(contrasts, wins, trials, comparison=PUBLISHED[link], score=score)
        assert found.status == "interior"
        np.testing.assert_allclose(found.theta, np.array(published["coef"], dtype=float), rtol=1e-12, err_msg=key)
        assert found.log_likelihood == pytest.approx(float(published["loglik_kernel"]), rel=1e-12)
        if published["se_fisher"]:
            exact = np.array(published["se_fisher"], dtype=float)
            np.testing.assert_allclose(found.standard_errors, exact, rtol=1e-11, err_msg=key)


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("name", FITTED)
def test_fits_made_with_r(shared, name, link):
    published = json.loads((shared / "data" / name / "reference_fit.json").read_text())["fits"][link]
    found = fit(*comparison_counts(shared / "data" / name), comparison=PUBLISHED[link])
    np.testing.assert_allclose(found.theta, published["coef"], rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, published["se_fisher"], rtol=1e-9)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_the_limit_of_a_separated_fit(shared, link):
    folder = shared / "data" / "flatlizards_separated"
    contrasts = np.genfromtxt(folder / "full_design_with_nuisance.csv", delimiter=",", skip_header=1)
    limit = np.array(json.loads((folder / "reference_fit.json").read_text())["ml_limit"][link], dtype=float)
    wins = np.ones(len(contrasts))
    found = fit(contrasts, wins, comparison=PUBLISHED[link])
    assert found.status == "separated"
    np.testing.assert_allclose(found.theta, limit, rtol=1e-9)  # inf among them
    assert np.isinf(found.standard_errors[0]) and np.all(np.isfinite(found.standard_errors[1:]))
    on_the_ball = fit(contrasts, wins, comparison=PUBLISHED[link], radius=5.0)
    assert on_the_ball.status == "boundary" and on_the_ball.multiplier > 0.0
    assert np.linalg.norm(on_the_ball.theta) == pytest.approx(5.0, rel=1e-12)


# --- certificates -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", PLAIN, ids=repr)
def test_the_curvature_is_the_second_derivative_of_log_f(model):
    with mpmath.workdps(40):
        for u in (-20.0, -3.0, -0.7, -1e-3, 1e-3, 0.7, 3.0, 20.0):
            exact = float(-mpmath.diff(lambda v: textbook(model, v)["log_cdf"], mpmath.mpf(u), 2))
            assert float(model.curvature(u)) == pytest.approx(exact, rel=1e-11, abs=1e-15)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("model", PLAIN, ids=repr)
@given(
    seed=st.integers(0, 2**32),
    d=st.integers(1, 4),
    ridge=st.sampled_from([0.0, 1e-3, 10.0]),
    radius=st.sampled_from([None, "auto", 0.05, 0.5, 5.0]),
    spread=st.sampled_from([0.0, 2.0]),
)
@settings(max_examples=rounds(40, 10))
def test_the_conditions_of_karush_kuhn_and_tucker_hold(model, score, seed, d, ridge, radius, spread):
    contrasts, wins, trials = answers(seed, 30 * d, d, model=model, spread=spread)
    found = fit(contrasts, wins, trials, comparison=model, score=score, ridge=ridge, radius=radius)
    D = np.max(np.abs(contrasts), axis=0) if radius == "auto" else np.ones(d)
    bound = {None: math.inf, "auto": 20.0}.get(radius, radius)
    assert found.status == ("boundary" if found.multiplier > 0.0 else "interior")
    length = np.linalg.norm(D * found.theta)
    assert length == pytest.approx(bound, rel=1e-12) if found.multiplier > 0.0 else length <= bound
    gradient = loss_gradient(contrasts, wins, trials, found.theta, model, score, ridge)
    pull_of_the_ball = found.multiplier * D**2 * found.theta
    largest = np.max(np.abs(contrasts), axis=0) * np.sum(trials)
    np.testing.assert_allclose((gradient + pull_of_the_ball) / largest, 0.0, atol=1e-14)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("model", PLAIN, ids=repr)
def test_the_information_is_the_derivative_of_the_gradient(model, score):
    data = answers(5, 40, 3, model=model)
    found = fit(*data, comparison=model, score=score, ridge=0.3)
    h = 1e-6
    for k, axis in enumerate(np.eye(3)):
        up, down = (loss_gradient(*data, found.theta + s * h * axis, model, score, 0.3) for s in (1.0, -1.0))
        np.testing.assert_allclose(found.information[k], (up - down) / (2.0 * h), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("radius", [None, 0.4])
@pytest.mark.parametrize("ridge", [0.0, 2.0])
@pytest.mark.parametrize("model", PLAIN, ids=repr)
def test_scipy_finds_the_same_maximum(model, ridge, radius):
    contrasts, wins, trials = answers(11, 60, 3, model=model)

    def loss(theta):
        e = contrasts @ theta
        return -(wins @ model.log_cdf(e) + (trials - wins) @ model.log_cdf(-e)) + 0.5 * ridge * theta @ theta

    found = fit(contrasts, wins, trials, comparison=model, ridge=ridge, radius=radius)
    ball = {"type": "ineq", "fun": lambda theta: radius**2 - theta @ theta}
    other = minimize(
        loss,
        np.full(3, 0.01),
        jac=lambda theta: loss_gradient(contrasts, wins, trials, theta, model, "likelihood", ridge),
        method="SLSQP",
        constraints=[] if radius is None else [ball],
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    np.testing.assert_allclose(found.theta, other.x, rtol=1e-5, atol=1e-6)
    assert loss(found.theta) <= other.fun + 1e-9


@pytest.mark.parametrize("model", PLAIN, ids=repr)
def test_standard_errors_are_those_of_simulated_data(model):
    """600 data sets, fixed seed; each ratio of deviations is within 15 % (five of its deviations): false alarm 1e-6."""
    rng = np.random.default_rng(2)
    theta = np.array([0.8, -0.5])
    contrasts = rng.standard_normal((150, 2))
    for score in SCORES:
        found = []
        for _ in range(600):
            wins = (rng.random(150) < model.cdf(contrasts @ theta)).astype(float)
            found.append(fit(contrasts, wins, comparison=model, score=score, ridge=2.0))
        spread = np.std([f.theta for f in found], axis=0)
        stated = np.mean([f.standard_errors for f in found], axis=0)
        np.testing.assert_allclose(spread / stated, 1.0, atol=0.15)


# --- symmetries ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("model", PLAIN, ids=repr)
def test_ways_of_writing_the_same_data(model, score):
    contrasts, wins, trials = answers(7, 25, 3, model=model)
    counts = fit(contrasts, wins, trials, comparison=model, score=score)
    rows = np.repeat(contrasts, trials.astype(int), axis=0)
    outcomes = np.concatenate([np.arange(n) < w for w, n in zip(wins, trials, strict=True)]).astype(float)
    flipped = fit(-contrasts, trials - wins, trials, comparison=model, score=score)
    for other in (fit(rows, outcomes, comparison=model, score=score), flipped):
        np.testing.assert_allclose(other.theta, counts.theta, rtol=1e-11)
        np.testing.assert_allclose(other.standard_errors, counts.standard_errors, rtol=1e-11)
        assert other.log_likelihood == pytest.approx(counts.log_likelihood, rel=1e-12)
    assert counts.distance(counts.theta) == 0.0
    one_error = counts.theta + np.linalg.inv(np.linalg.cholesky(counts.information)).T[:, 0]
    assert counts.distance(one_error) == pytest.approx(1.0)


@given(seed=st.integers(0, 2**32), power=st.floats(-3.0, 3.0))
@settings(max_examples=rounds(20, 10))
def test_the_automatic_ball_ignores_the_units_of_features(seed, power):
    contrasts, _, _ = answers(seed, 12, 3)
    wins = (contrasts[:, 0] > 0.0).astype(float)  # on the ball
    units = 10.0 ** np.array([power, -power, 1.0])
    first = fit(contrasts, wins, comparison=BradleyTerry(), radius="auto")
    second = fit(contrasts * units, wins, comparison=BradleyTerry(), radius="auto")
    assert first.status == second.status != "interior" and first.multiplier > 0.0
    np.testing.assert_allclose(second.theta * units, first.theta, rtol=1e-8)


# --- data that do not determine theta -----------------------------------------------------------------------


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("model", PLAIN, ids=repr)
def test_of_equally_good_estimates_the_shortest_is_found(model, score):
    contrasts, wins, trials = answers(3, 40, 2, model=model)
    full = fit(contrasts, wins, trials, comparison=model, score=score)
    mixing = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 1.0]])  # three features that span a plane
    thin = fit(contrasts @ mixing, wins, trials, comparison=model, score=score)
    assert thin.status == "interior" and np.all(np.isinf(thin.standard_errors))
    np.testing.assert_allclose(mixing @ thin.theta, full.theta, rtol=1e-10)
    np.testing.assert_allclose(np.cross(*mixing) @ thin.theta, 0.0, atol=1e-12)
    constant = fit(np.insert(contrasts, 1, 0.0, axis=1), wins, trials, comparison=model, score=score)
    np.testing.assert_allclose(constant.theta, np.insert(full.theta, 1, 0.0), rtol=1e-10)
    np.testing.assert_allclose(constant.standard_errors, np.insert(full.standard_errors, 1, math.inf), rtol=1e-10)


def test_where_the_loss_of_exponential_noise_is_flat():
    """With theta = (-t, y) two wins with margin -t +- y balance three of margin t for every |y| < t."""
    contrasts = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 0.0]])
    found = fit(contrasts, [1.0, 1.0, 3.0], [1.0, 1.0, 3.0], comparison=ExponentialNoise())
    t = math.log(0.5 / 0.4)  # score(t) = 2/3: tail/(1 - tail) = 2/3
    assert found.status == "interior"
    np.testing.assert_allclose(found.theta, [-t, 0.0], atol=1e-8)


@given(st.integers(1, 3), st.integers(1, 12), st.integers(0, 2**32), st.sampled_from(PLAIN))
@settings(max_examples=rounds(40, 10))
def test_separation_is_recognised(d, m, seed, model):
    """Answers that follow a direction are separated; adding each contrast's opposite answer ends that."""
    rng = np.random.default_rng(seed)
    contrasts = rng.integers(-3, 4, (m, d)).astype(float)
    contrasts[0, 0] = 1.0
    direction = rng.standard_normal(d)
    wins = (contrasts @ direction > 0.0).astype(float)
    moved = np.any(contrasts != 0.0, axis=1)
    found = fit(contrasts, wins, comparison=model)
    assert found.status == "separated" and np.any(np.isinf(found.theta))
    on_the_ball = fit(contrasts, wins, comparison=model, radius="auto")
    assert on_the_ball.status in ("separated", "boundary") and np.all(np.isfinite(on_the_ball.theta))
    margins = (contrasts @ on_the_ball.theta)[moved] * np.where(wins[moved] > 0.0, 1.0, -1.0)
    assert (on_the_ball.status == "boundary") == bool(on_the_ball.multiplier > 0.0 and np.any(margins <= 0.0))
    both = fit(contrasts, np.full(m, 0.5), comparison=model)
    assert both.status == "interior"
    np.testing.assert_allclose(both.theta, 0.0, atol=1e-12)


def test_no_answers_leave_theta_at_zero():
    found = fit(np.zeros((2, 3)), [1.0, 0.0], comparison=BradleyTerry())
    assert found.status == "interior" and found.log_likelihood == 0.0
    np.testing.assert_array_equal(found.theta, np.zeros(3))


def test_an_unknown_score_is_named():
    with pytest.raises(ValueError, match=r'^score is \'brier\'; it must be "likelihood" or "residual"$'):
        fit([[1.0]], [1.0], comparison=BradleyTerry(), score="brier")
