"""fc.fit against published fits, SciPy and the reference; PreferenceRegression against scikit-learn's own checks."""

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import FITTED, comparison_counts, rounds
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import root
from scipy.special import xlogy
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_classifiers_predictions, parametrize_with_checks
from twins import LINKS, OURS, SCORES, Cauchy

import fastcolst as fc
from fastcolst import reference as ref

pytestmark = pytest.mark.either_lane

PUBLISHED = {**{link: ours for link, (ours, _) in LINKS.items()}, "cauchit": Cauchy()}


def of_reference(model):
    return getattr(ref, type(model).__name__)(*model)


def answers(seed, m, d, *, spread=0.0):
    """Contrasts in units up to 10^spread apart, wins and trials."""
    rng = np.random.default_rng(seed)
    contrasts = rng.standard_normal((m, d)) * 10.0 ** rng.uniform(-spread, spread, d)
    margins = (contrasts / np.abs(contrasts).max(axis=0)) @ rng.standard_normal(d)
    trials = rng.integers(1, 4, m)
    return contrasts, rng.binomial(trials, 1.0 / (1.0 + np.exp(-margins))).astype(float), trials.astype(float)


def read(shared, name, file):
    return json.loads((shared / "data" / name / file).read_text())


def decimals(values, n):
    """As a table prints them."""
    return [f"{value:.{n}f}" for value in values]


# --- published fits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FITTED)
def test_fits_made_with_forty_digits(shared, name):
    data = comparison_counts(shared / "data" / name)
    fits = read(shared, name, "reference_mp.json")["fits"]
    assert len(fits) == 5
    for key, published in fits.items():
        link, kind = key.split("_")
        score = {"mle": "likelihood", "ee": "residual"}[kind]
        found = fc.fit(*data, comparison=PUBLISHED[link], score=score)
        assert found.status == "interior"
        np.testing.assert_allclose(found.theta, np.array(published["coef"], dtype=float), rtol=1e-12, err_msg=key)
        assert found.log_likelihood == pytest.approx(float(published["loglik_kernel"]), rel=1e-12)
        errors = published["se_fisher"]
        if errors is None:  # of the residual score: the sandwich
            assert kind == "ee"
            errors = ref.fit(*data, comparison=of_reference(PUBLISHED[link]), score=score).standard_errors
        np.testing.assert_allclose(found.standard_errors, np.array(errors, dtype=float), rtol=1e-9, err_msg=key)


@pytest.mark.parametrize("link", ["logit", "probit", "cauchit"])
@pytest.mark.parametrize("name", FITTED)
def test_fits_made_with_r(shared, name, link):
    published = read(shared, name, "reference_fit.json")["fits"][link]
    found = fc.fit(*comparison_counts(shared / "data" / name), comparison=PUBLISHED[link])
    assert found.status == "interior"
    np.testing.assert_allclose(found.theta, published["coef"], rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, published["se_fisher"], rtol=1e-9)
    assert found.log_likelihood == pytest.approx(published["loglik_kernel"], rel=1e-12)


def deviance(found, wins, trials):
    saturated = np.sum(xlogy(wins, wins / trials) + xlogy(trials - wins, 1.0 - wins / trials))
    return 2.0 * (saturated - found.log_likelihood)


def test_the_printed_table_of_baseball_teams(shared):
    contrasts, wins, trials = comparison_counts(shared / "data" / "baseball")
    published = read(shared, "baseball", "reference_fit.json")["published"]
    coefficients, errors = np.array(list(published["logit_with_home"].values())).T
    found = fc.fit(contrasts, wins, trials)
    assert decimals(found.theta, 4) == decimals(coefficients, 4)
    assert decimals(found.standard_errors, 4) == decimals(errors, 4)
    assert f"{deviance(found, wins, trials):.3f}" == str(published["residual_deviance"])


def test_the_printed_table_of_citations(shared):
    contrasts, wins, trials = comparison_counts(shared / "data" / "citations")
    published = read(shared, "citations", "reference_fit.json")["published"]
    found = fc.fit(contrasts, wins, trials)
    assert decimals(found.theta, 4) == decimals(published["logit"].values(), 4)
    assert f"{deviance(found, wins, trials):.3f}" == str(published["residual_deviance"])


def test_the_printed_table_of_train_choices(shared):
    """Its optimiser stopped some 1e-6 standard errors before the maximum, hence six digits of its coefficients."""
    published = read(shared, "train_choice", "reference_fit.json")["published"]["logit"]
    coefficients, errors = np.array(list(published.values())).T
    found = fc.fit(*comparison_counts(shared / "data" / "train_choice"))
    np.testing.assert_allclose(found.theta, coefficients, rtol=5e-7)
    np.testing.assert_allclose(found.standard_errors, errors, rtol=0.0, atol=0.6e-9)
    assert f"{found.log_likelihood:.2f}" == "-1724.15"


# --- separated answers --------------------------------------------------------------------------------------


def separated_lizards(shared):
    path = shared / "data" / "flatlizards_separated" / "full_design_with_nuisance.csv"
    contrasts = np.genfromtxt(path, delimiter=",", skip_header=1)
    return contrasts, np.ones(len(contrasts))


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_a_separated_coordinate_is_told_and_spoils_no_other(shared, link):
    contrasts, wins = separated_lizards(shared)
    published = read(shared, "flatlizards_separated", "reference_fit.json")
    limit = np.array(published["ml_limit"][link], dtype=float)
    assert math.isinf(limit[0]) and np.isfinite(limit[1:]).all()
    with pytest.warns(UserWarning, match="no finite estimate") as caught:
        found = fc.fit(contrasts, wins, comparison=PUBLISHED[link])
    assert caught[0].filename == __file__  # the line that called
    assert found.status == "separated" and 5.0 < found.theta[0] < math.inf
    np.testing.assert_allclose(found.theta[1:], limit[1:], rtol=1e-9)
    exact = ref.fit(contrasts, wins, comparison=of_reference(PUBLISHED[link]))
    np.testing.assert_allclose(found.standard_errors, exact.standard_errors, rtol=1e-7)
    assert math.isinf(found.standard_errors[0])
    assert np.isnan(found.covariance[0, 1:]).all() and np.isfinite(found.covariance[1:, 1:]).all()
    if link == "logit":
        table = published["published"]
        assert decimals(found.theta[2:], 2) == decimals(table["coef_cols3to6"], 2)
        assert decimals(found.standard_errors[2:], 2) == decimals(table["se_cols3to6"], 2)


def test_answers_so_certain_that_their_chance_rounds_to_zero(shared):
    """With tails like 1/u the separated margin grows to 1e17, where 1 - F = 0; the others are as if it were absent."""
    contrasts, wins = separated_lizards(shared)
    with pytest.warns(UserWarning, match="status 'separated'"):
        found = fc.fit(contrasts, wins, comparison=Cauchy())
    others = contrasts[:, 0] == 0.0
    rest = fc.fit(contrasts[others, 1:], wins[others], comparison=Cauchy())
    assert rest.status == "interior" and math.isinf(found.standard_errors[0])
    np.testing.assert_allclose(found.theta[1:], rest.theta, rtol=1e-7)
    np.testing.assert_allclose(found.standard_errors[1:], rest.standard_errors, rtol=1e-7)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("link", list(PUBLISHED))
def test_a_ball_holds_a_separated_estimate(shared, link, score):
    contrasts, wins = separated_lizards(shared)
    options = {"comparison": PUBLISHED[link], "score": score}
    with pytest.warns(UserWarning, match=r"status '(boundary|separated)'.*A ridge > 0 or a smaller radius"):
        found = fc.fit(contrasts, wins, radius="auto", **options)
    scales = np.abs(contrasts).max(axis=0)
    assert found.status in ("boundary", "separated") and np.linalg.norm(scales * found.theta) <= 20.0 * (1.0 + 1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a ball of one's own is no accident
        chosen = fc.fit(contrasts, wins, radius=3.0, **options)
    assert chosen.status == "boundary" and np.linalg.norm(chosen.theta) == pytest.approx(3.0, rel=1e-9)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("model", [*OURS, Cauchy()], ids=repr)
def test_a_ridge_gives_the_solution_that_scipy_finds(shared, model, score):
    contrasts, wins = separated_lizards(shared)
    (s,) = model
    functions = {
        "BradleyTerry": lambda e: (1.0 / (1.0 + np.exp(-e / s)), 1.0 / (2.0 * np.cosh(e / (2.0 * s))) ** 2 / s),
        "Thurstone": lambda e: (norm.cdf(e, scale=math.sqrt(2.0) * s), norm.pdf(e, scale=math.sqrt(2.0) * s)),
        "ExponentialNoise": lambda e: (
            0.5 - 0.5 * np.sign(e) * np.expm1(-s * np.abs(e)),
            0.5 * s * np.exp(-s * np.abs(e)),
        ),
        "Cauchy": lambda e: (0.5 + np.arctan(e) / np.pi, 1.0 / (np.pi * (1.0 + e * e))),
    }

    def gradient(theta, ridge):  # of the penalised log-likelihood; each answer is a win
        F, f = functions[repr(model).partition("(")[0]](contrasts @ theta)
        return (f / F if score == "likelihood" else 1.0 - F) @ contrasts - ridge * theta

    for ridge in (0.1, 3.0):
        other = root(gradient, np.zeros(6), args=(ridge,), tol=1e-13)
        found = fc.fit(contrasts, wins, comparison=model, score=score, ridge=ridge)
        assert found.status == "interior" and np.isfinite(found.standard_errors).all()
        np.testing.assert_allclose(found.theta, other.x, rtol=1e-8)


@pytest.mark.parametrize("model", [*OURS, Cauchy()], ids=repr)
def test_complete_separation(model):
    """Every answer follows the first feature; with tails like 1/u, too, the estimate is finite in floating point."""
    contrasts = np.random.default_rng(4).standard_normal((20, 2))
    with pytest.warns(UserWarning, match="status 'separated'"):
        found = fc.fit(contrasts, contrasts[:, 0] > 0.0, comparison=model)
    assert found.status == "separated" and np.isfinite(found.theta).all()
    assert np.all((contrasts @ found.theta > 0.0) == (contrasts[:, 0] > 0.0))


# --- the reference ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("model", OURS, ids=repr)
@given(
    seed=st.integers(0, 2**32),
    d=st.integers(1, 4),
    ridge=st.sampled_from([0.0, 1e-3, 10.0]),
    radius=st.sampled_from([None, "auto", 0.5, 50.0]),
    spread=st.sampled_from([0.0, 2.0]),
)
@settings(max_examples=rounds(40, 5))
def test_the_reference_finds_the_same(model, score, seed, d, ridge, radius, spread):
    data = answers(seed, 30 * d, d, spread=spread)
    exact = ref.fit(*data, comparison=of_reference(model), score=score, ridge=ridge, radius=radius)
    found = fc.fit(*data, comparison=model, score=score, ridge=ridge, radius=radius, covariance="sandwich")
    assert found.status == exact.status
    errors = np.sqrt(np.diag(np.linalg.inv(exact.information)))
    np.testing.assert_allclose((found.theta - exact.theta) / errors, 0.0, atol=1e-8)
    np.testing.assert_allclose(found.standard_errors, exact.standard_errors, rtol=1e-7)
    np.testing.assert_allclose(found.covariance, found.covariance.T)
    assert found.log_likelihood == pytest.approx(exact.log_likelihood, rel=1e-10)


# --- symmetries ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("model", OURS, ids=repr)
def test_counts_are_repeated_rows(model, score):
    contrasts, wins, trials = answers(7, 25, 3)
    options = {"comparison": model, "score": score}
    found = fc.fit(contrasts, wins, trials, **options)
    rows = np.repeat(contrasts, trials.astype(int), axis=0)
    outcomes = np.concatenate([np.arange(n) < w for w, n in zip(wins, trials, strict=True)])
    never = np.vstack([contrasts, [[9.0, -9.0, 9.0]]])
    others = {
        "rows": fc.fit(rows, outcomes, **options),
        "lists": fc.fit(contrasts.tolist(), wins.tolist(), trials.tolist(), **options),
        "arms swapped": fc.fit(-contrasts, trials - wins, trials, **options),
        "rows shuffled": fc.fit(contrasts[::-1], wins[::-1], trials[::-1], **options),
        "a pair that was never compared": fc.fit(never, [*wins, 0.0], [*trials, 0.0], **options),
        "fractions": fc.fit(contrasts, wins / 2.0, trials / 2.0, **options),
    }
    for way, other in others.items():
        np.testing.assert_allclose(other.theta, found.theta, rtol=1e-10, err_msg=way)
        assert other.status == found.status == "interior"
        factor = 0.5 if way == "fractions" else 1.0
        np.testing.assert_allclose(other.covariance, found.covariance / factor, rtol=1e-10, err_msg=way)
        assert other.log_likelihood == pytest.approx(found.log_likelihood * factor, rel=1e-12)


def test_a_tie_is_half_a_win():
    contrasts, wins, trials = answers(8, 25, 3)
    tied = fc.fit(contrasts, wins + 0.5, trials + 1.0)
    doubled = [*(2.0 * wins), *np.ones(25), *np.zeros(25)]
    both = fc.fit(np.vstack([contrasts] * 3), doubled, [*(2.0 * trials), *np.ones(50)])
    np.testing.assert_allclose(tied.theta, both.theta, rtol=1e-10)
    np.testing.assert_allclose(tied.standard_errors, math.sqrt(2.0) * both.standard_errors, rtol=1e-10)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("radius", [None, "auto"])
@given(seed=st.integers(0, 2**32), power=st.floats(-60.0, 60.0))
@settings(max_examples=rounds(40, 5))
def test_the_units_of_features_do_not_matter(score, radius, seed, power):
    contrasts, wins, trials = answers(seed, 60, 3)
    units = 10.0 ** np.array([power, -power, 1.0])
    first = fc.fit(contrasts, wins, trials, score=score, radius=radius)
    second = fc.fit(contrasts * units, wins, trials, score=score, radius=radius)
    assert second.status == first.status == "interior"
    np.testing.assert_allclose(second.theta * units, first.theta, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(second.standard_errors * units, first.standard_errors, rtol=1e-8)


def test_the_automatic_ball_has_the_units_of_the_features():
    contrasts = np.random.default_rng(4).standard_normal((20, 2))
    units = np.array([1e-3, 1e5])
    found = []
    for rows in (contrasts, contrasts * units):
        with pytest.warns(UserWarning, match="status 'separated'"):
            found.append(fc.fit(rows, contrasts[:, 0] > 0.0, radius="auto"))
    np.testing.assert_allclose(found[1].theta * units, found[0].theta, rtol=1e-7)


# --- contrasts that do not span all directions --------------------------------------------------------------


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("model", OURS, ids=repr)
def test_of_equally_good_estimates_the_shortest_is_found(model, score):
    contrasts, wins, trials = answers(3, 40, 2)
    options = {"comparison": model, "score": score}
    full = fc.fit(contrasts, wins, trials, **options)
    mixing = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 1.0]])  # three features that span a plane
    thin = fc.fit(contrasts @ mixing, wins, trials, **options)
    assert thin.status == "interior"
    np.testing.assert_allclose(mixing @ thin.theta, full.theta, rtol=1e-9)
    projection = np.linalg.pinv(mixing)
    np.testing.assert_allclose(thin.covariance, projection @ full.covariance @ projection.T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.cross(*mixing) @ thin.theta, 0.0, atol=1e-10)
    assert thin.log_likelihood == pytest.approx(full.log_likelihood, rel=1e-12)
    constant = fc.fit(np.insert(contrasts, 1, 0.0, axis=1), wins, trials, **options)
    np.testing.assert_allclose(constant.theta, np.insert(full.theta, 1, 0.0), rtol=1e-9)
    np.testing.assert_allclose(constant.standard_errors, np.insert(full.standard_errors, 1, math.inf), rtol=1e-9)
    ridge = fc.fit(contrasts @ mixing, wins, trials, ridge=0.1, **options)
    assert np.all(np.isfinite(ridge.covariance))


def test_every_team_may_have_a_feature_of_its_own(shared):
    """Without a team of reference only differences are determined, and they are those of the published table."""
    contrasts, wins, trials = comparison_counts(shared / "data" / "baseball")
    teams = contrasts[:, :-1]
    full = np.column_stack([-teams.sum(axis=1), contrasts])
    found = fc.fit(full, wins, trials)
    known = fc.fit(contrasts, wins, trials)
    np.testing.assert_allclose(found.theta[1:7] - found.theta[0], known.theta[:6], rtol=1e-9)
    differences = [found.difference(k, 0).standard_error for k in range(1, 7)]
    np.testing.assert_allclose(differences, known.standard_errors[:6], rtol=1e-9)
    assert found.standard_errors[7] == pytest.approx(known.standard_errors[6], rel=1e-9)


def test_more_features_than_comparisons():
    contrasts = np.random.default_rng(6).standard_normal((3, 5))
    found = fc.fit(contrasts, [1.0, 2.0, 1.0], [2.0, 3.0, 4.0])
    assert found.status == "interior"
    margins = contrasts @ found.theta
    np.testing.assert_allclose(margins, np.log([1.0, 2.0, 1.0 / 3.0]), atol=1e-9)
    informations = [n * p * (1.0 - p) for n, p in zip([2.0, 3.0, 4.0], 1.0 / (1.0 + np.exp(-margins)), strict=True)]
    pseudo_inverse = np.linalg.pinv((contrasts.T * informations) @ contrasts)
    np.testing.assert_allclose(found.covariance, pseudo_inverse, rtol=1e-8, atol=1e-10)


# --- what is refused ----------------------------------------------------------------------------------------

ROWS = [[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"contrasts": [1.0, 2.0, 3.0]}, r"contrasts has shape \(3,\)"),
        ({"contrasts": np.empty((0, 2)), "wins": []}, r"contrasts has shape \(0, 2\)"),
        ({"contrasts": [[1.0, 0.0], [math.nan, 1.0], [1.0, 1.0]]}, r"contrasts\[1, 0\] is nan"),
        ({"contrasts": [[1e200, 0.0], [0.0, 1.0], [1.0, 1.0]]}, r"contrasts has entries up to 1e\+200"),
        ({"contrasts": [[1.0, 1e-200], [1.0, 0.0], [1.0, 0.0]]}, r"contrasts\[:, 1\] is so small"),
        ({"contrasts": [["a", "b", "c"]] * 3}, r"contrasts has shape \(3, 3\) and holds texts"),
        ({"wins": [1.0, 0.0]}, r"wins has shape \(2,\); \(3,\) is wanted"),
        ({"wins": [1.0, -1.0, 0.0]}, r"wins\[1\] is -1"),
        ({"wins": [1.0, math.nan, 0.0]}, r"wins\[1\] is nan"),
        ({"wins": [1.0, 2.0, 0.0]}, r"wins\[1\] is 2 of 1 trials"),
        ({"trials": [2.0, 1.0]}, r"trials has shape \(2,\); \(3,\) is wanted"),
        ({"trials": [1.0, math.inf, 1.0]}, r"trials\[1\] is inf"),
        ({"wins": [0.0, 0.0, 0.0], "trials": [0.0, 0.0, 0.0]}, "trials is 0 everywhere"),
        ({"comparison": "cauchit"}, "comparison is 'cauchit'"),
        ({"comparison": 3.0}, "comparison is 3.0"),
        ({"score": "brier"}, "score is 'brier'"),
        ({"ridge": -1.0}, "ridge is -1.0"),
        ({"ridge": "1"}, "ridge is '1'"),
        ({"ridge": math.inf}, "ridge is inf"),
        ({"radius": 0.0}, "radius is 0.0"),
        ({"radius": 1e-200}, "radius is 1e-200; at least 1e-100, .* wanted"),
        ({"radius": "large"}, "radius is 'large'"),
    ],
)
def test_what_is_wrong_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        fc.fit(**{"contrasts": ROWS, "wins": [1.0, 0.0, 1.0], **arguments})


def test_arguments_are_left_alone_and_results_are_read_only():
    contrasts, wins, trials = answers(1, 30, 2)
    copies = contrasts.copy(), wins.copy(), trials.copy()
    for array in (contrasts, wins, trials):
        array.flags.writeable = False
    found = fc.fit(contrasts, wins, trials)
    for array, copy in zip((contrasts, wins, trials), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    for array in (found.theta, found.covariance):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    np.testing.assert_allclose(found.standard_errors**2, np.diag(found.covariance))


# --- the classifier -----------------------------------------------------------------------------------------

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message=".*does not inherit from `sklearn.base.BaseEstimator`")  # on purpose
    _all_checks = parametrize_with_checks(
        [
            fc.PreferenceRegression(),
            fc.PreferenceRegression(comparison=fc.Thurstone(0.5), score="residual", ridge=1.0, radius="auto"),
        ]
    )
    # one of them fits two texts without a word of which is a win; the next test makes its predictions with that word
    CONVENTIONS = [pair for pair in _all_checks.args[1] if "check_classifiers_classes" not in repr(pair)]


@pytest.mark.filterwarnings("ignore:status '")  # some of their data are separated
@pytest.mark.parametrize(_all_checks.args[0], CONVENTIONS, **_all_checks.kwargs)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", ["U", "O"])
def test_scikit_learns_check_of_classes_with_a_word_for_the_win(kind):
    X, y = make_blobs(n_samples=30, centers=2, random_state=0, cluster_std=0.1)
    for positive in ("one", "two"):
        estimator = fc.PreferenceRegression(ridge=1.0, positive=positive)
        check_classifiers_predictions(X, np.take(["one", "two"], y).astype(kind), "PreferenceRegression", estimator)


def preferences(seed=0, m=400):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((m, 3))
    first_won = rng.random(m) < norm.cdf(Z @ [1.0, -2.0, 0.5])
    return Z, np.where(first_won, "left", "right")


@pytest.mark.parametrize("positive", ["left", "right"])
@pytest.mark.parametrize("model", [*OURS, Cauchy()], ids=repr)
def test_the_classifier_is_the_fit(model, positive):
    """Whichever of the two answers a win of the first is, theta is the utilities' and columns are the classes'."""
    Z, y = preferences()
    Z = Z if positive == "left" else -Z
    classifier = fc.PreferenceRegression(comparison=model, score="residual", ridge=2.0, positive=positive)
    assert classifier.fit(Z, y) is classifier
    found = fc.fit(Z, y == positive, comparison=model, score="residual", ridge=2.0)
    np.testing.assert_array_equal(classifier.coef_, found.theta[None, :])
    assert np.sign(classifier.coef_[0]).tolist() == [1.0, -1.0, 1.0]
    np.testing.assert_array_equal(classifier.fit_.covariance, found.covariance)
    assert classifier.classes_.tolist() == ["left", "right"] and classifier.positive_ == positive
    assert (classifier.n_features_in_, classifier.n_iter_) == (3, found.iterations)
    margins = classifier.decision_function(Z)
    np.testing.assert_allclose(margins, Z @ found.theta * (1.0 if positive == "right" else -1.0), rtol=1e-12)
    likely = classifier.predict_proba(Z)
    np.testing.assert_allclose(likely[:, 1], [model.cdf(e) for e in margins], rtol=1e-12)
    np.testing.assert_allclose(likely.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(classifier.predict_proba(-Z), likely[:, ::-1], rtol=1e-12)  # no intercept
    np.testing.assert_array_equal(classifier.predict(Z), np.where(margins > 0.0, "right", "left"))
    assert classifier.score(Z, y) == np.mean(classifier.predict(Z) == y) > 0.7


def test_two_texts_need_a_word_for_the_win():
    """Of "left" and "right" the alphabet's second used to win: the price of what people chose had the wrong sign."""
    rng = np.random.default_rng(5)
    price = rng.uniform(1.0, 100.0, (400, 2))
    contrasts = price[:, :1] - price[:, 1:]
    chosen = np.where(rng.random(400) < 1.0 / (1.0 + np.exp(0.055 * contrasts[:, 0])), "left", "right")
    for answers in (chosen, chosen.astype(object), pd.Series(chosen), chosen.tolist()):
        with pytest.raises(ValueError, match=r"classes 'left' and 'right', and positive is None; .* is wanted"):
            fc.PreferenceRegression().fit(contrasts, answers)
        found = fc.PreferenceRegression(positive="left").fit(contrasts, answers)
        assert -0.075 < found.coef_[0, 0] < -0.04
    for wrong, shown in (("first", "'first'"), (["left"], r"\['left'\]"), (1, "1")):
        with pytest.raises(ValueError, match=f"positive is {shown}; one of the classes 'left' and 'right' is wanted"):
            fc.PreferenceRegression(positive=wrong).fit(contrasts, chosen)
    for numbers in (chosen == "left", np.where(chosen == "left", 1, -1)):  # True, and the larger number, need no word
        same = fc.PreferenceRegression().fit(contrasts, numbers)
        np.testing.assert_array_equal(same.coef_, found.coef_)


@pytest.mark.parametrize(
    "column",
    [
        pd.array([1, None, 2, 4], dtype="Int64"),
        pd.array([1.5, None, 2.0, 4.0], dtype="Float64"),
        pd.array([True, None, False, True], dtype="boolean"),
        np.array([1, None, 2, 4], object),
        [1.0, math.nan, 2.0, 4.0],
        [1.0, pd.NA, 2.0, 4.0],
    ],
    ids=str,
)
def test_missing_values_are_the_documented_error(column):
    frame = pd.DataFrame({"a": column, "b": [1.0, 2.0, 4.0, 1.0]})
    with pytest.raises(ValueError, match="Z contains NaN or infinity; every feature must be finite"):
        fc.PreferenceRegression().fit(frame, [0, 1, 1, 0])
    with pytest.raises(ValueError, match=r"contrasts\[1, 0\] is nan"):
        fc.fit(frame, [0, 1, 1, 0])


def test_sample_weights_are_repetitions():
    Z, y = preferences()
    weights = np.random.default_rng(1).integers(0, 4, 400)
    weighted = fc.PreferenceRegression(positive="left").fit(Z, y, sample_weight=weights)
    repeated = fc.PreferenceRegression(positive="left").fit(np.repeat(Z, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-9)
    np.testing.assert_allclose(weighted.fit_.covariance, repeated.fit_.covariance, rtol=1e-9)
    with pytest.raises(ValueError, match=r"sample_weight\[3\] is -1"):
        fc.PreferenceRegression(positive="left").fit(Z, y, sample_weight=np.where(np.arange(400) == 3, -1, 1))


def test_the_classifier_estimates_the_place():
    """The constant is in predictions, and out of the utilities."""
    Z, _ = preferences()
    y = np.random.default_rng(2).random(400) < 1.0 / (1.0 + np.exp(-Z @ [1.0, -2.0, 0.5] - 0.8))
    model = fc.PreferenceRegression(position=True).fit(Z, y)
    constant = fc.fit(np.column_stack([Z, np.ones(400)]), y)
    np.testing.assert_allclose(model.coef_[0], constant.theta[:3], rtol=1e-12)
    assert model.fit_.position.estimate == pytest.approx(constant.theta[3], rel=1e-12)
    assert model.fit_.position.standard_error == pytest.approx(constant.standard_errors[3], rel=1e-12)
    np.testing.assert_allclose(model.decision_function(Z), Z @ constant.theta[:3] + constant.theta[3], rtol=1e-12)


def test_scikit_learns_logistic_regression_agrees():
    Z, y = preferences()
    ours = fc.PreferenceRegression(ridge=0.5, positive="right").fit(Z, y)
    theirs = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(Z, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(Z), theirs.predict_proba(Z), rtol=1e-5)


def test_small_probabilities_keep_their_digits():
    """1 - F would be 0 from margin 37 on."""
    classifier = fc.PreferenceRegression(ridge=0.1).fit([[1.0], [2.0], [-1.0], [0.5]], [1, 1, 0, 0])
    margin = classifier.decision_function([[100.0]])[0]
    assert margin > 37.0
    np.testing.assert_allclose(classifier.predict_proba([[100.0]])[0, 0], math.exp(-margin), rtol=1e-12)


def test_parameters_clones_and_repr():
    given = {"comparison": fc.Thurstone(2.0), "score": "residual", "ridge": 3.0, "radius": "auto", "positive": "left"}
    model, wanted = fc.PreferenceRegression(**given), {**given, "position": False}
    assert model.get_params() == clone(model).get_params() == wanted
    assert repr(model) == (
        "PreferenceRegression(comparison=Thurstone(sigma=2.0), score='residual', ridge=3.0, radius='auto', "
        "position=False, positive='left')"
    )
    assert model.set_params(score="likelihood", ridge=0.0) is model
    assert model.get_params() == {**wanted, "score": "likelihood", "ridge": 0.0}
    assert callable(model.score)
    with pytest.raises(ValueError, match="'C' is no parameter of PreferenceRegression; there are comparison, score"):
        model.set_params(C=1.0)


def test_pipelines_cross_validation_and_grid_search():
    Z, y = preferences()
    model = fc.PreferenceRegression(comparison="thurstone", positive="left")
    pipeline = make_pipeline(StandardScaler(with_mean=False), model)
    accuracies = cross_val_score(pipeline, Z, y, cv=4)
    assert accuracies.shape == (4,) and accuracies.min() > 0.7
    losses = cross_val_score(pipeline, Z, y, cv=4, scoring="neg_log_loss")
    assert losses.min() > -math.log(2.0)
    grid = {"preferenceregression__ridge": [1e-2, 1e4], "preferenceregression__score": list(SCORES)}
    search = GridSearchCV(pipeline, grid, scoring="neg_log_loss", cv=4).fit(Z, y)
    assert search.best_params_["preferenceregression__ridge"] == 1e-2
    assert search.predict_proba(Z).shape == (400, 2)


def test_names_of_columns():
    Z, y = preferences()
    frame = pd.DataFrame(Z, columns=["price", "time", "comfort"])
    model = fc.PreferenceRegression(positive="left").fit(frame, y)
    assert model.fit_.names == ("price", "time", "comfort")
    assert model.feature_names_in_.tolist() == ["price", "time", "comfort"]
    np.testing.assert_array_equal(model.predict(frame), model.predict(Z))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["time", "price", "comfort"]])
    assert not hasattr(model.fit(Z, y), "feature_names_in_")


def test_separated_answers_warn_of_the_line_that_fitted():
    with pytest.warns(UserWarning, match="status 'separated'") as caught:
        model = fc.PreferenceRegression().fit([[1.0], [-2.0]], [1, 0])
    assert caught[0].filename == __file__ and model.fit_.status == "separated"


@pytest.mark.parametrize(
    ("Z", "y", "message"),
    [
        ([[1.0], [2.0]], [0, 0], "y holds 1 class;"),
        ([[1.0], [2.0], [3.0]], [0, 1, 2], "y holds 3 classes;"),
        ([[1.0], [2.0]], [0.2, 0.7], "y is continuous"),
        ([[1.0], [2.0]], [0, 1, 1], r"y has shape \(3,\); \(2,\) is wanted"),
        ([[1.0], [math.inf]], [0, 1], "Z contains NaN or infinity"),
        ([1.0, 2.0], [0, 1], r"Z has shape \(2,\)"),
    ],
)
def test_what_the_classifier_refuses(Z, y, message):
    with pytest.raises(ValueError, match=message):
        fc.PreferenceRegression().fit(Z, y)


def test_prediction_needs_a_fit_and_its_features():
    with pytest.raises(NotFittedError, match="is not fitted"):
        fc.PreferenceRegression().predict([[1.0]])
    with pytest.raises(ValueError, match="X has 2 features, but PreferenceRegression is expecting 3"):
        fc.PreferenceRegression(positive="left").fit(*preferences()).predict([[1.0, 2.0]])
