"""Ratings: what is identified and with which error, rankings, clusters, weights, position; published tables."""

import itertools
import json
import math
import os
import subprocess
import sys
import textwrap
import warnings
from itertools import permutations, product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import JIT, comparison_counts, rounds
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from twins import OURS, SCORES

import fastcolst as fc
from fastcolst.estimation.ranking import quasi_variances
from fastcolst.plotting import new_figure

pytestmark = pytest.mark.either_lane

ELO = 400.0 / math.log(10.0)
JOURNALS = ("Biometrika", "Comm Statist", "JASA", "JRSS-B")
CITATIONS = [(a, b) for a, b in itertools.combinations(JOURNALS, 2)], [730, 498, 221, 68, 17, 142]
PAIRS = [["a", "b"], ["b", "c"], ["c", "a"]]
CITED = [763, 818, 505, 881, 293, 467]


def one_hot(pairs, names):
    """A column for each item: 1 where it is the first, -1 where it is the second."""
    contrasts = np.zeros((len(pairs), len(names)))
    for row, (first, second) in enumerate(pairs):
        contrasts[row, names.index(first)] += 1.0
        contrasts[row, names.index(second)] -= 1.0
    return contrasts


def battles(seed, m=200, n=6, home=0.0):
    """Names of items, pairs of them, outcomes by Bradley-Terry with an advantage of the first."""
    rng = np.random.default_rng(seed)
    names = [f"m{k}" for k in range(n)]
    first = rng.integers(n, size=m)
    second = (first + rng.integers(1, n, size=m)) % n
    utilities = rng.normal(size=n)
    won = rng.random(m) < 1.0 / (1.0 + np.exp(utilities[second] - utilities[first] - home))
    return names, [[names[a], names[b]] for a, b in zip(first, second, strict=True)], won


def of_differences(covariance):
    """Variances of all differences, (n, n)."""
    return np.diag(covariance)[:, None] + np.diag(covariance) - 2.0 * covariance


# --- what is identified -------------------------------------------------------------------------------------


def test_three_items_have_differences_with_errors():
    """Every error used to be inf. With item "a" as the reference, 2 coefficients are identified the usual way."""
    pairs, wins, trials = [["a", "b"], ["b", "c"], ["a", "c"]], [7, 6, 7], [10, 10, 10]
    contrasts = one_hot(pairs, ["a", "b", "c"])
    known = fc.fit(contrasts[:, 1:], wins, trials)
    for found in (fc.fit(contrasts, wins, trials), fc.fit(pairs, wins, trials)):
        difference = found.difference(0, 1)
        assert f"{difference.standard_error:.3f}" == "0.550"
        assert difference.estimate == pytest.approx(-known.theta[0], rel=1e-9)
        assert difference.standard_error == pytest.approx(known.standard_errors[0], rel=1e-9)
        low, high = difference.interval
        assert (high - low) / 2.0 == pytest.approx(1.959963984540054 * difference.standard_error, rel=1e-12)
        assert (high + low) / 2.0 == pytest.approx(difference.estimate, rel=1e-12)
        assert np.isfinite(found.covariance).all() and found.theta.sum() == pytest.approx(0.0, abs=1e-12)
        np.testing.assert_allclose(found.unidentified, np.full((3, 1), 3.0**-0.5), rtol=1e-12)
        assert "1 direction is not identified" in found.summary()


def test_the_least_known_feature_does_not_look_the_surest():
    contrasts, wins = [[1.0, 0.0]] * 10, [1] * 6 + [0] * 4
    found = fc.fit(contrasts, wins, ridge=1.0)
    p = 1.0 / (1.0 + math.exp(-found.theta[0]))
    np.testing.assert_allclose(found.standard_errors, [(10.0 * p * (1.0 - p) + 1.0) ** -0.5, 1.0], rtol=1e-12)
    sandwich = fc.fit(contrasts, wins, ridge=1.0, covariance="sandwich")
    assert sandwich.standard_errors.round(2).tolist() == [0.45, 0.0]
    assert fc.fit(contrasts, wins).standard_errors[1] == math.inf
    unseen = fc.fit([[1.0, 0.0, 0.0]] * 10, wins, ridge=1.0, covariance="sandwich")
    ranking = unseen.ranking(items=unseen.names)
    assert unseen.difference(1, 2).standard_error == 0.0 and np.isnan(ranking.quasi_standard_errors).all()
    assert np.isfinite(ranking.intervals).all()


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("model", OURS, ids=repr)
def test_the_posterior_covariance(model, score):
    """A^-1 (B + ridge) A^-1, which for the likelihood is A^-1, where A and B come from the model's own functions."""
    names, pairs, won = battles(2)
    contrasts = one_hot(pairs, names)
    found = fc.fit(contrasts, won, comparison=model, score=score, ridge=0.7)
    margins = contrasts @ found.theta
    F, f = model.cdf(margins), model.pdf(margins)
    A = (contrasts.T * (f if score == "residual" else f * f / (F * (1.0 - F)))) @ contrasts + 0.7 * np.eye(6)
    B = (contrasts.T * (F * (1.0 - F) if score == "residual" else f * f / (F * (1.0 - F)))) @ contrasts
    inverse = np.linalg.inv(A)
    np.testing.assert_allclose(found.covariance, inverse @ (B + 0.7 * np.eye(6)) @ inverse, rtol=1e-8, atol=1e-12)
    if score == "likelihood":
        np.testing.assert_allclose(found.covariance, inverse, rtol=1e-8, atol=1e-12)
    sandwich = fc.fit(contrasts, won, comparison=model, score=score, ridge=0.7, covariance="sandwich")
    np.testing.assert_array_equal(sandwich.theta, found.theta)
    np.testing.assert_allclose(sandwich.covariance, inverse @ B @ inverse, rtol=1e-8, atol=1e-12)
    assert found.unidentified.shape == (6, 0)


@given(seed=st.integers(0, 2**32), n=st.integers(2, 6), extra=st.integers(0, 2))
@settings(max_examples=rounds(40, 10))
def test_the_covariance_is_the_pseudo_inverse_of_the_information(seed, n, extra):
    """Items and covariates, in designs of whatever rank; differences are those of any generalised inverse."""
    names, pairs, won = battles(seed, m=80, n=n)
    rng = np.random.default_rng(seed)
    contrasts = np.column_stack([one_hot(pairs, names), rng.standard_normal((80, extra))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fc.fit(contrasts, won)
    if found.status != "interior" or np.isinf(found.standard_errors).any():
        return
    margins = contrasts @ found.theta
    p = 1.0 / (1.0 + np.exp(-margins))
    inverse = np.linalg.pinv((contrasts.T * (p * (1.0 - p))) @ contrasts, rcond=1e-10)
    np.testing.assert_allclose(found.covariance, inverse, rtol=1e-7, atol=1e-9 * inverse.max())
    np.testing.assert_allclose(contrasts @ found.unidentified, 0.0, atol=1e-12)
    assert found.unidentified.shape[1] == n + extra - np.linalg.matrix_rank(contrasts)
    for one, other in itertools.permutations(range(n), 2):
        expected = inverse[one, one] + inverse[other, other] - 2.0 * inverse[one, other]
        assert found.difference(one, other).standard_error ** 2 == pytest.approx(expected, rel=1e-7)


def test_groups_that_were_never_compared():
    pairs = [["a", "b"], ["b", "c"], ["c", "a"], ["d", "e"]]
    found = fc.fit(pairs, [6, 7, 5, 3], [10, 10, 10, 5], names=["a", "b", "c", "d", "e"])
    alone, other = fc.fit(pairs[:3], [6, 7, 5], [10, 10, 10]), fc.fit(pairs[3:], [3], [5])
    assert found.status == "interior" and found.unidentified.shape == (5, 2)
    assert found.groups == (("a", "b", "c"), ("d", "e"))
    np.testing.assert_allclose(found.theta, [*alone.theta, *other.theta], rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, [*alone.standard_errors, *other.standard_errors], rtol=1e-9)
    assert found.difference("a", "b").standard_error == pytest.approx(alone.difference("a", "b").standard_error)
    across = found.difference("a", "d")
    assert math.isnan(across.estimate) and across.standard_error == math.inf
    assert across.interval == (-math.inf, math.inf)
    assert math.isnan(found.predict("a", "d")) and 0.5 < found.predict("a", "c") < 0.65
    assert "within {a, b, c}, {d, e} only" in found.summary()
    ranking = found.ranking()
    assert set(ranking.items[:3]) == {"a", "b", "c"} and np.isnan(ranking.ratings[3:]).all()
    assert ranking.standard_errors[3:].tolist() == [math.inf] * 2
    assert ranking.intervals[3:].tolist() == [[-math.inf, math.inf]] * 2
    assert found.ranking(anchor={"d": 0.0}).items[:2] == ("d", "e")
    tied = fc.fit(pairs, [6, 7, 5, 3], [10, 10, 10, 5], ridge=1e-3)
    assert np.isfinite(tied.difference("a", "d").standard_error) and tied.groups == (("a", "b", "c", "d", "e"),)


def test_an_item_without_comparisons_spoils_no_other():
    contrasts = np.insert(one_hot([["a", "b"], ["b", "c"], ["c", "a"]], ["a", "b", "c"]), 1, 0.0, axis=1)
    found = fc.fit(contrasts, [6, 7, 5], [10, 10, 10], names=["a", "new", "b", "c"])
    assert np.isinf(found.standard_errors).tolist() == [False, True, False, False]
    assert found.difference("a", "new").standard_error == math.inf
    assert math.isfinite(found.difference("a", "c").standard_error)
    ranking = found.ranking()
    assert ranking.items[3] == "new" and np.isfinite(ranking.standard_errors[:3]).all()
    assert np.isinf(found.quasi_standard_errors).tolist() == [False, True, False, False]


def test_an_item_that_never_lost_spoils_no_other():
    """Differences among the others are as if it were absent."""
    pairs = [["a", "b"], ["b", "c"], ["c", "a"], ["d", "a"], ["d", "c"]]
    with pytest.warns(UserWarning, match="status 'separated'"):
        found = fc.fit(pairs, [6, 7, 5, 4, 3], [10, 10, 10, 4, 3])
    rest = fc.fit(pairs[:3], [6, 7, 5], [10, 10, 10])
    for one, other in itertools.combinations("abc", 2):
        ours, theirs = found.difference(one, other), rest.difference(one, other)
        assert ours.estimate == pytest.approx(theirs.estimate, rel=1e-6)
        assert ours.standard_error == pytest.approx(theirs.standard_error, rel=1e-6)
    beaten = found.difference("d", "a")
    assert beaten.estimate > 10.0 and beaten.standard_error == math.inf
    assert found.groups == (("a", "b", "c"), ("d",))
    ranking = found.ranking()
    assert ranking.items[0] == "d" and ranking.standard_errors[0] == math.inf
    np.testing.assert_allclose(np.sort(ranking.standard_errors[1:]), np.sort(rest.ranking().standard_errors), rtol=1e-6)


def test_features_that_go_together_have_no_difference():
    rows = np.random.default_rng(0).standard_normal((60, 2))
    found = fc.fit(rows[:, [0, 0, 1]], np.random.default_rng(1).random(60) < 0.5)
    assert found.difference(0, 1).standard_error == math.inf and math.isnan(found.difference(0, 1).estimate)
    np.testing.assert_allclose(np.abs(found.unidentified[:, 0]), [0.5**0.5, 0.5**0.5, 0.0], atol=1e-12)
    both = found.difference([1.0, 1.0, 0.0], [0.0, 0.0, 0.0])
    assert both.standard_error == pytest.approx(2.0 * found.standard_errors[0], rel=1e-9)


# --- published tables ---------------------------------------------------------------------------------------


def test_the_printed_abilities_of_journals():
    """BradleyTerry2's tests/BTabilities.Rout.save: sum-to-zero contrasts, then two journals of reference."""
    found = fc.fit(*CITATIONS, CITED)
    assert found.names == found.items == JOURNALS
    assert [f"{x:.7f}" for x in found.theta] == ["0.7899221", "-2.1591504", "0.3103523", "1.0588761"]
    assert [f"{x:.8f}" for x in found.standard_errors] == ["0.04333047", "0.07257974", "0.04164102", "0.05304699"]
    printed = {
        "Biometrika": (["0.0000000", "-2.9490725", "-0.4795698", "0.2689541"], [0, 0.10254534, 0.06058873, 0.07082997]),
        "JASA": (["0.4795698", "-2.4695027", "0.0000000", "0.7485238"], [0.06058873, 0.09817049, 0, 0.07294356]),
    }
    for reference, (abilities, errors) in printed.items():
        differences = [found.difference(name, reference) for name in JOURNALS]
        assert [f"{d.estimate:.7f}" for d in differences] == abilities
        np.testing.assert_allclose([d.standard_error for d in differences], errors, atol=0.6e-8)


@pytest.mark.parametrize("with_position", [True, False], ids=["position", "covariate"])
def test_the_home_advantage_of_baseball_teams(shared, with_position):
    """BradleyTerry2's vignette: each row's first team is at home."""
    contrasts, wins, trials = comparison_counts(shared / "data" / "baseball")
    published = json.loads((shared / "data" / "baseball" / "reference_fit.json").read_text())
    names = ["Baltimore", *(name.removeprefix("team") for name in published["columns"][:6])]
    teams = np.column_stack([-contrasts[:, :6].sum(axis=1), contrasts[:, :6]])
    pairs = [[names[np.argmax(row)], names[np.argmin(row)]] for row in teams]
    if with_position:
        found = fc.fit(pairs, wins, trials, position=True)
        home, error = found.position.estimate, found.position.standard_error
        assert len(found.theta) == 7 and "shown first" in found.summary()
    else:
        found = fc.fit(pairs, wins, trials, covariates={"at home": np.ones(len(pairs))})
        home, error = found.theta[7], found.standard_errors[7]
        assert found.names[7] == "at home" and "at home" not in found.items + found.ranking().items
    exact = published["fits"]["logit"]
    differences = [found.difference(name, "Baltimore") for name in names[1:]]
    np.testing.assert_allclose([d.estimate for d in differences] + [home], exact["coef"], rtol=1e-8)
    np.testing.assert_allclose([d.standard_error for d in differences] + [error], exact["se_fisher"], rtol=1e-8)
    printed = [f"{d.estimate:.4f} {d.standard_error:.4f}" for d in differences]
    table = published["published"]["logit_with_home"]
    assert printed == [f"{a:.4f} {b:.4f}" for a, b in list(table.values())[:6]]
    assert f"{home:.4f} {error:.4f}" == "{:.4f} {:.4f}".format(*table["at.home"])
    assert found.log_likelihood == pytest.approx(exact["loglik_kernel"], rel=1e-12)


def test_the_table_of_train_choices_in_z_and_p(shared):
    """The columns of R's summary, from its coefficients and errors."""
    published = json.loads((shared / "data" / "train_choice" / "reference_fit.json").read_text())["fits"]["logit"]
    coefficients, errors = np.array(published["coef"]), np.array(published["se_fisher"])
    found = fc.fit(*comparison_counts(shared / "data" / "train_choice"), names=["price", "time", "change", "comfort"])
    np.testing.assert_allclose(found.z, coefficients / errors, rtol=1e-8)
    np.testing.assert_allclose(found.p, [math.erfc(abs(z) / 2.0**0.5) for z in coefficients / errors], rtol=1e-6)
    width = 1.6448536269514722 * errors
    bounds = np.column_stack([coefficients - width, coefficients + width])
    np.testing.assert_allclose(found.intervals(0.9), bounds, rtol=1e-8)
    table = found.to_pandas(0.9)
    assert table.index.tolist() == ["price", "time", "change", "comfort"]
    assert table.columns.tolist() == ["estimate", "standard_error", "z", "p", "low", "high"]
    np.testing.assert_allclose(table[["low", "high"]], bounds, rtol=1e-8)
    text = found.summary()
    assert "2,929 comparisons" in text and "-1724.15" in text and "comfort" in text and "not identified" not in text


# --- quasi-variances ----------------------------------------------------------------------------------------


def test_the_quasi_variances_of_ships():
    """The first example of Firth's QV Calculator: covariances of the types of ships printed to four decimals, and
    qvcalc's table of quasi standard errors, 0.2010, 0.1127, 0.3753, 0.3239, 0.2322."""
    covariance = np.zeros((5, 5))
    lower = {1: [0.0533], 2: [0.0428, 0.1824], 3: [0.0390, 0.0384, 0.1428], 4: [0.0404, 0.0412, 0.0387, 0.0941]}
    for i, row in lower.items():
        covariance[i, 1 : i + 1] = covariance[1 : i + 1, i] = row
    found = np.sqrt(quasi_variances(covariance))
    np.testing.assert_allclose(found, [0.2010, 0.1127, 0.3753, 0.3239, 0.2322], atol=1e-3)


def test_three_items_have_exact_quasi_variances_of_which_one_may_be_negative():
    """qvcalc's example of professions: 8.261952, 9.876793 and -1.022262."""
    exact = np.array([8.261952, 9.876793, -1.022262])
    v = exact[:, None] + exact
    assert [f"{math.sqrt(v[0, k]):.6f}" for k in (1, 2)] == ["4.258961", "2.690667"]  # the printed standard errors
    covariance = np.zeros((3, 3))
    covariance[1, 1], covariance[2, 2] = v[0, 1], v[0, 2]
    covariance[1, 2] = covariance[2, 1] = (v[0, 1] + v[0, 2] - v[1, 2]) / 2.0
    np.testing.assert_allclose(quasi_variances(covariance), exact, rtol=1e-9)
    np.testing.assert_allclose(quasi_variances(np.array([[2.0, 0.5], [0.5, 1.0]])), [1.0, 1.0])


@given(seed=st.integers(0, 2**32), n=st.integers(4, 8))
@settings(max_examples=rounds(60, 20))
def test_quasi_variances_minimise_errors_of_logarithms(seed, n):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, n + 2))
    covariance = root @ root.T / n
    v, (i, j) = of_differences(covariance), np.triu_indices(n, 1)

    def loss(q):
        sums = q[i] + q[j]
        return math.inf if sums.min() <= 0.0 else float(np.sum((np.log(sums) - np.log(v[i, j])) ** 2))

    found = quasi_variances(covariance)
    best = minimize(loss, np.full(n, v[i, j].mean() / 2.0), method="Nelder-Mead", options={"maxfev": 4000})
    assert loss(found) <= loss(best.x) + 1e-9
    gradient = np.zeros(n)
    residuals = (np.log(found[i] + found[j]) - np.log(v[i, j])) / (found[i] + found[j])
    np.add.at(gradient, i, residuals)
    np.add.at(gradient, j, residuals)
    # squares are told apart to 1e-16 of their size, and so their slopes to 1e-8
    np.testing.assert_allclose(gradient * np.abs(found).mean(), 0.0, atol=1e-7)


def test_quasi_standard_errors_tell_errors_of_differences():
    found = fc.fit(*CITATIONS, CITED)
    quasi = found.quasi_standard_errors
    for a, b in itertools.combinations(range(4), 2):
        assert math.hypot(quasi[a], quasi[b]) == pytest.approx(found.difference(a, b).standard_error, rel=0.04)


# --- rankings -----------------------------------------------------------------------------------------------


def test_ratings_in_units_of_elo():
    found = fc.fit(*CITATIONS, CITED)
    ranking = found.ranking(scale=ELO, anchor={"JASA": 1000})
    assert ranking.items == ("JRSS-B", "Biometrika", "JASA", "Comm Statist")
    assert ranking.ratings[2] == 1000.0 and ranking.standard_errors[2] == 0.0
    assert ranking.intervals[2].tolist() == [1000.0, 1000.0]
    for name, rating, error in zip(ranking.items, ranking.ratings, ranking.standard_errors, strict=True):
        difference = found.difference(name, "JASA")
        assert rating == pytest.approx(1000.0 + ELO * difference.estimate, rel=1e-12)
        assert error == pytest.approx(ELO * difference.standard_error, rel=1e-9)
        assert found.predict(name, "JASA") == pytest.approx(1.0 / (1.0 + 10.0 ** ((1000.0 - rating) / 400.0)))
    assert ranking.ranks.tolist() == [[1, 1], [2, 2], [3, 3], [4, 4]]
    sidak = 2.3877  # |N| <= z for three at once: 2 Phi(z) - 1 = 0.95^(1/3)
    np.testing.assert_allclose(
        (ranking.intervals[:, 1] - ranking.intervals[:, 0]) / 2.0, sidak * ranking.standard_errors, rtol=1e-4
    )
    centred = found.ranking()
    assert centred.ratings.mean() == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(np.sort(centred.standard_errors), np.sort(found.standard_errors), rtol=1e-9)
    assert "1000" in str(ranking) and repr(ranking).startswith("Ranking(4 items, best first: ('JRSS-B'")
    table = ranking.to_pandas()
    assert table.index.tolist() == list(ranking.items) and table.loc["JASA", "rating"] == 1000.0
    assert (table["best_rank"] == table["worst_rank"]).all()


def test_ranks_and_intervals_hold_at_once():
    """In 200 tables of 8 items, at most 5 % of which may fail: 18 and more have a chance of 1.2 % then."""
    utilities = np.linspace(-1.0, 1.0, 8)
    pairs = [[str(a), str(b)] for a, b in itertools.combinations(range(8), 2)]
    contrasts = one_hot(pairs, [str(k) for k in range(8)])
    rng = np.random.default_rng(7)
    n_tables, missed, misplaced, widths = rounds(200, 60), 0, 0, []
    for _ in range(n_tables):
        wins = rng.binomial(30, 1.0 / (1.0 + np.exp(-contrasts @ utilities)))
        ranking = fc.fit(pairs, wins, np.full(28, 30)).ranking()
        true = utilities[[int(name) for name in ranking.items]]
        missed += bool(np.any((true < ranking.intervals[:, 0]) | (true > ranking.intervals[:, 1])))
        places = 8 - np.array([int(name) for name in ranking.items])
        misplaced += bool(np.any((places < ranking.ranks[:, 0]) | (places > ranking.ranks[:, 1])))
        widths.append(np.mean(ranking.ranks[:, 1] - ranking.ranks[:, 0]))
    most = 17 if n_tables == 200 else 7
    assert missed <= most and misplaced <= most
    assert np.mean(widths) < 5.0  # and ranks are not all left open


def test_a_ranking_is_drawn():
    pairs = [["a", "b"], ["b", "c"], ["c", "a"], ["d", "e"]]
    ranking = fc.fit(pairs, [6, 7, 5, 3], [10, 10, 10, 5]).ranking()
    axes = new_figure().subplots()
    assert ranking.plot(axes) is axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(ranking.items)
    (lines,) = axes.collections
    drawn = np.array([segment[:, 0] for segment in lines.get_segments()])
    np.testing.assert_allclose(drawn, ranking.intervals[:3])
    assert axes.yaxis_inverted()  # the best at the top
    with pytest.warns(UserWarning, match="status 'separated'"):
        unbeaten = fc.fit([*PAIRS, ["d", "a"]], [6, 7, 5, 3], [10, 10, 10, 3]).ranking()
    other = unbeaten.plot(new_figure().subplots())
    assert unbeaten.ratings[0] > 10.0 > 2.0 * other.get_xlim()[1]  # what has no end leaves room for what has one
    with pytest.raises(ValueError, match=r"ax is \[3\]; .* wanted"):
        ranking.plot(3)


# --- predictions --------------------------------------------------------------------------------------------


def test_probabilities_of_names_and_of_features():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((100, 2))
    frame = pd.DataFrame(rows, columns=["price", "speed"])
    found = fc.fit(frame, rng.random(100) < 0.7, comparison="thurstone", position=True)
    assert found.names == ("price", "speed")
    model, advantage = fc.Thurstone(), found.position.estimate
    one, other = rows[:3], rows[3:6]
    margins = (one - other) @ found.theta
    np.testing.assert_allclose(found.predict(one, other), [model.cdf(e) for e in margins], rtol=1e-12)
    shown = found.predict(one, other, position=True)
    np.testing.assert_allclose(shown, [model.cdf(e + advantage) for e in margins], rtol=1e-12)
    assert found.predict(one[0], other[0]) == pytest.approx(model.cdf(margins[0]), rel=1e-12)
    assert found.predict(frame[:3], other).tolist() == found.predict(one, other).tolist()
    assert found.predict("price", "speed") == found.predict(0, 1) == found.predict([1.0, 0.0], [0.0, 1.0])
    assert found.predict(["price", "speed"], "price")[1] == found.predict("speed", 0)


# --- the constant of the first place, and weights -----------------------------------------------------------


@pytest.mark.parametrize("ridge", [0.0, 2.0])
def test_the_position_is_a_constant_that_theta_leaves_out(ridge):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((150, 2))
    won = rng.random(150) < 1.0 / (1.0 + np.exp(-rows @ [1.0, -1.0] - 0.6))
    found = fc.fit(rows, won, position=True, ridge=ridge)
    constant = fc.fit(np.column_stack([rows, np.ones(150)]), won, ridge=ridge)
    np.testing.assert_array_equal(found.theta, constant.theta[:2])
    np.testing.assert_array_equal(found.covariance, constant.covariance[:2, :2])
    assert found.position.estimate == constant.theta[2]
    assert found.position.standard_error == pytest.approx(constant.standard_errors[2], rel=1e-12)
    low, high = found.position.interval
    assert low < found.position.estimate < high
    assert fc.fit(rows, won).position is None


def test_a_position_that_nothing_tells():
    """Where the first of two is the same item always, its advantage and its strength are one."""
    found = fc.fit([["a", "b"]] * 3, [1, 1, 0], position=True)
    assert math.isnan(found.position.estimate) and found.position.standard_error == math.inf


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("model", OURS, ids=repr)
def test_whole_weights_are_repetitions(model, score):
    names, pairs, won = battles(4)
    contrasts = one_hot(pairs, names)[:, 1:]
    weights = np.random.default_rng(0).integers(1, 5, len(won))
    options = {"comparison": model, "score": score, "ridge": 0.3}
    weighted = fc.fit(contrasts, won, weights=weights, **options)
    repeated = fc.fit(np.repeat(contrasts, weights, axis=0), np.repeat(won, weights), **options)
    np.testing.assert_allclose(weighted.theta, repeated.theta, rtol=1e-9)
    np.testing.assert_allclose(weighted.covariance, repeated.covariance, rtol=1e-9, atol=1e-12)
    assert weighted.log_likelihood == pytest.approx(repeated.log_likelihood, rel=1e-12)
    assert (weighted.comparisons, repeated.comparisons) == (len(won), weights.sum())


def test_shares_ties_and_weights_say_the_same():
    _, pairs, _ = battles(5)
    rng = np.random.default_rng(5)
    shares = rng.integers(0, 5, 200) / 4.0
    found = fc.fit(pairs, shares)
    counted = fc.fit(pairs, 4.0 * shares, np.full(200, 4.0), weights=np.full(200, 0.25))
    split = fc.fit(pairs * 2, [1] * 200 + [0] * 200, weights=np.maximum([*shares, *(1.0 - shares)], 1e-300))
    for other in (counted, split):
        np.testing.assert_allclose(other.theta, found.theta, rtol=1e-9)
        np.testing.assert_allclose(other.covariance, found.covariance, rtol=1e-9)


# --- clusters -----------------------------------------------------------------------------------------------


def clustered(contrasts, won, theta, labels, ridge=0.0, middle=0.0):
    """The sandwich with sums of scores over clusters, cluster by cluster, of Bradley-Terry."""
    p = 1.0 / (1.0 + np.exp(-contrasts @ theta))
    d = contrasts.shape[1]
    A = (contrasts.T * (p * (1.0 - p))) @ contrasts + ridge * np.eye(d)
    kinds = sorted(set(labels))
    B = np.zeros((d, d))
    for kind in kinds:
        total = sum((won[k] - p[k]) * contrasts[k] for k in range(len(won)) if labels[k] == kind)
        B += np.outer(total, total)
    inverse = np.linalg.pinv(A, rcond=1e-10)
    return inverse @ (B * len(kinds) / (len(kinds) - 1.0) + middle * np.eye(d)) @ inverse


def test_clusters_of_judges_and_of_pairs():
    names, pairs, won = battles(6, m=300)
    contrasts = one_hot(pairs, names)
    judges = [f"judge {k % 11}" for k in range(300)]
    plain = fc.fit(pairs, won)
    for labels, given_labels in ((judges, judges), (["-".join(sorted(pair)) for pair in pairs], "pair")):
        for design in (pairs, contrasts, sparse.csr_array(contrasts)):
            found = fc.fit(design, won, clusters=given_labels)
            np.testing.assert_allclose(found.theta, plain.theta, rtol=1e-9)
            expected = clustered(contrasts, won, found.theta, labels)
            np.testing.assert_allclose(found.covariance, expected, rtol=1e-7, atol=1e-12)
    ridge = fc.fit(pairs, won, clusters=judges, ridge=0.5)
    expected = clustered(contrasts, won, ridge.theta, judges, 0.5, 0.5)
    np.testing.assert_allclose(ridge.covariance, expected, rtol=1e-7, atol=1e-12)


def test_judges_who_agree_with_themselves_leave_more_doubt():
    """Every judge answers 20 times alike: there are 30 answers in truth."""
    judges = np.repeat(np.arange(30), 20)
    won = np.repeat(np.arange(30) % 3 > 0, 20)
    contrasts = np.ones((600, 1))
    found = fc.fit(contrasts, won, clusters=judges)
    honest = fc.fit(contrasts[:30], won[::20])
    assert found.theta[0] == pytest.approx(honest.theta[0], rel=1e-9)
    assert found.standard_errors[0] == pytest.approx(math.sqrt(30 / 29) * honest.standard_errors[0], rel=1e-9)
    assert fc.fit(contrasts, won).standard_errors[0] < 0.25 * found.standard_errors[0]


def test_statsmodels_has_the_same_errors(shared):
    """Coefficients, errors and clustered errors of train choices."""
    api = pytest.importorskip("statsmodels.api", reason="statsmodels, which these errors are compared with, is absent")
    contrasts, wins, trials = comparison_counts(shared / "data" / "train_choice")
    assert np.all(trials == 1.0)
    model = api.Logit(wins, contrasts)
    labels = np.arange(len(wins)) % 235
    plain, ours = model.fit(disp=0, tol=1e-12), fc.fit(contrasts, wins)
    np.testing.assert_allclose(ours.theta, plain.params, rtol=1e-7)
    np.testing.assert_allclose(ours.covariance, plain.cov_params(), rtol=1e-6)
    np.testing.assert_allclose(ours.z, plain.tvalues, rtol=1e-6)
    np.testing.assert_allclose(ours.p, plain.pvalues, rtol=1e-5)
    np.testing.assert_allclose(ours.intervals(), plain.conf_int(), rtol=1e-6)
    options = {"groups": labels, "use_correction": False}
    theirs = model.fit(disp=0, tol=1e-12, cov_type="cluster", cov_kwds=options)
    found = fc.fit(contrasts, wins, clusters=labels)
    np.testing.assert_allclose(found.covariance, theirs.cov_params() * 235.0 / 234.0, rtol=1e-6)


# --- forms of contrasts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("model", OURS, ids=repr)
@given(seed=st.integers(0, 2**32), radius=st.sampled_from([None, "auto", 0.7]), ridge=st.sampled_from([0.0, 0.5]))
@settings(max_examples=rounds(15, 3))
def test_names_matrices_and_sparse_matrices_are_one(model, score, seed, radius, ridge):
    names, pairs, won = battles(seed, m=120)
    rng = np.random.default_rng(seed)
    covariates, weights = rng.integers(-1, 2, (120, 2)).astype(float), rng.uniform(0.5, 2.0, 120)
    options = {"comparison": model, "score": score, "radius": radius, "ridge": ridge, "weights": weights}
    options |= {"covariates": covariates, "position": True}
    contrasts = one_hot(pairs, names)
    matrix = sparse.coo_array(contrasts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dense = fc.fit(contrasts, won, names=[*names, "c[0]", "c[1]"], **options)
        others = [fc.fit(pairs, won, **options), fc.fit(matrix, won, **options)]
    assert dense.names == others[0].names and others[1].names[:2] == ("z[0]", "z[1]")
    for other in others:
        assert other.status == dense.status
        if dense.status == "separated":  # theta is then any point of high likelihood
            continue
        scale = dense.standard_errors.max()
        np.testing.assert_allclose(other.theta, dense.theta, atol=1e-7 * scale)
        np.testing.assert_allclose(other.covariance, dense.covariance, rtol=1e-6, atol=1e-9 * scale**2)
        np.testing.assert_allclose(other.position.estimate, dense.position.estimate, atol=1e-7 * scale)
        assert other.log_likelihood == pytest.approx(dense.log_likelihood, rel=1e-9)


def test_sparse_features_that_are_no_items():
    rng = np.random.default_rng(1)
    matrix = sparse.csc_array(rng.standard_normal((300, 8)) * (rng.random((300, 8)) < 0.3))
    won = rng.random(300) < 1.0 / (1.0 + np.exp(-matrix @ rng.normal(size=8)))
    found, dense = fc.fit(matrix, won), fc.fit(matrix.toarray(), won)
    np.testing.assert_allclose(found.theta, dense.theta, rtol=1e-8)
    np.testing.assert_allclose(found.covariance, dense.covariance, rtol=1e-8, atol=1e-12)
    tried = 2.0 * (np.arange(300) > 9)
    counts = fc.fit(matrix, won * tried, tried, covariates=pd.DataFrame({"x": np.arange(300.0)}))
    assert counts.comparisons == 580 and counts.names[8:] == ("x",)


@pytest.mark.parametrize("odd", [math.nan, None, 3])
def test_a_list_of_names_of_which_one_is_none_is_refused(odd):
    with pytest.raises(ValueError, match=rf"^contrasts\[1, 1\] is {odd}; the name of an item, a text, is wanted"):
        fc.fit([["a", "b"], ["b", odd], ["a", "b"]], [1, 0, 0])


@pytest.mark.filterwarnings("ignore:CoLSTIM still explores")
def test_a_warning_says_who_is_separated_and_what_a_ball_decides_is_no_infinite_estimate():
    pairs = [["alpha", other] for other in "bcd"] + list(permutations("bcd", 2)) * 2 + [["Gamma ", "b"]]
    won = np.ones(len(pairs))
    for radius in ("auto", None):
        with pytest.warns(UserWarning, match="finite difference from the others: {'Gamma '}, {'alpha'}; see groups"):
            found = fc.fit(pairs, won, radius=radius)
        assert found.status == "separated" and np.isinf(found.difference("alpha", "b").standard_error)
    for radius, answers in product((0.5, 5.0, 15.0, 20.0, 40.0), (pairs, [["a", "b"], ["a", "c"], ["b", "c"]])):
        found = fc.fit(answers, np.ones(len(answers)), radius=radius)
        assert found.status == "boundary" and np.isfinite(found.standard_errors).all()
        policy = fc.CoLSTIM(len(found.names), estimator=fc.MLE(radius=radius), exploration_rounds=0)
        policy.learn(one_hot(answers, found.names), np.zeros((len(answers), len(found.names))))
        held = {"boundary"} if radius < 15.0 else {"boundary", "separated"}  # at the tolerance, before the ball
        assert policy.estimate_status in held


@pytest.mark.parametrize("radius", ["auto", None])
def test_a_comparison_of_equals_changes_no_status(radius):
    for rows in ([[2.0], [3.0]], [[0.0], [2.0], [3.0]]):
        with pytest.warns(UserWarning, match="status 'separated'"):
            found = fc.fit(rows, [1.0] * len(rows), radius=radius)
        assert found.status == "separated" and np.isinf(found.standard_errors[0])


def test_an_estimate_that_runs_away_without_separated_answers_is_none():
    """Where one answer in a hundred is a lapse at the least, the likeliest theta after 99 to 1 is infinite."""
    for lapse in (0.1, 0.2):
        with pytest.warns(UserWarning, match="not-converged"):
            found = fc.fit([[1.0]] * 100, [1.0] * 99 + [0.0], comparison=fc.Lapse(fc.BradleyTerry(), lapse))
        assert found.status == "not-converged" and np.isinf(found.standard_errors[0])


@pytest.mark.parametrize("weight", [1e3, 1e12, 1e13])
def test_certain_answers_that_are_not_separated_have_a_maximum(weight):
    found = fc.fit([[1, 0], [1, 0], [0, 1], [0, 1]], [1, 0, 1, 0], weights=[weight, 1, 1, 1])
    assert found.status == "interior"
    np.testing.assert_allclose(found.theta, [np.log(weight), 0.0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.standard_errors[0], 1.0, rtol=2e-2)


@pytest.mark.filterwarnings("ignore:status 'separated'")
def test_separated_answers_of_which_none_has_the_last_feature():
    names = ["a", "b", "c", "d"]
    pairs, won = [("a", "b"), ("b", "a"), ("a", "c"), ("b", "c")] * 3, [True] * 12
    found = fc.fit(one_hot(pairs, names), won, names=names, radius=None)
    other = fc.fit(sparse.csr_array(one_hot(pairs, names)), won, names=names, radius=None)
    assert found.status == other.status == "separated"


def test_whatever_becomes_compressed_rows_is_sparse():
    class Places:
        """Contrasts by the places of their entries, which would be too many numbers written out."""

        def __init__(self, contrasts):
            self.contrasts = contrasts

        def tocsr(self):
            return sparse.csr_matrix(self.contrasts)

        def __array__(self, dtype=None, copy=None):
            raise MemoryError("written out")

    names, pairs, won = battles(8)
    found = fc.fit(Places(one_hot(pairs, names)), won, names=names)
    np.testing.assert_array_equal(found.theta, fc.fit(pairs, won).theta)


def test_tables_of_pairs():
    _, pairs, won = battles(8)
    found = fc.fit(pairs, won)
    tables = [
        np.array(pairs),
        np.array(pairs, object),
        pd.DataFrame(pairs, columns=["first", "second"]),
        pd.DataFrame(pairs).astype("category"),
        pl.DataFrame(pairs, schema=["first", "second"], orient="row"),
        [tuple(pair) for pair in pairs],
    ]
    for table in tables:
        again = fc.fit(table, won)
        assert again.names == found.names
        np.testing.assert_array_equal(again.theta, found.theta)


ID_TABLES = [
    lambda ids: pd.DataFrame(ids, columns=["first", "second"]),
    lambda ids: pd.DataFrame(ids, columns=["first", "second"]).astype({"first": "Int64", "second": "uint8"}),
    lambda ids: pd.DataFrame(ids, columns=["first", "second"]).astype("int64[pyarrow]"),
    lambda ids: pl.DataFrame(ids, schema=["first", "second"], orient="row"),
    lambda ids: pa.table({"first": [row[0] for row in ids], "second": [row[1] for row in ids]}),
]


@pytest.mark.parametrize("table", ID_TABLES)
def test_ids_of_items_in_a_data_frame_are_not_taken_for_features(table):
    ids, won = [[0, 17], [17, 5], [5, 0], [0, 17]], [1.0, 0.0, 1.0, 0.0]
    message = (
        r"contrasts has two columns of whole numbers, 'first' and 'second', the first row being 0 and "
        r"17: .* ids of items.* Wanted are texts .*\.astype\(str\), or floats .*\.astype\(float\)"
    )
    with pytest.raises(ValueError, match=message):
        fc.fit(table(ids), won)
    if table is not ID_TABLES[1]:  # which has a column without signs
        below = fc.fit(table([[1, -1], [2, 0], [0, 1], [1, 3]]), won, ridge=1.0)
        assert len(below.theta) == 2  # no id is negative


@pytest.mark.parametrize("of", [list, np.array, lambda ids: np.array(ids, np.uint8), lambda ids: list(map(tuple, ids))])
def test_ids_of_items_in_a_list_or_an_array_are_not_taken_for_features(of):
    ids, won = [[0, 17], [17, 5], [5, 0], [0, 17]], [1.0, 0.0, 1.0, 0.0]
    with pytest.raises(ValueError, match=r"two columns of whole numbers, 0 and 1, .* 0 and 17: .*\.astype\(float\)"):
        fc.fit(of(ids), won)
    for contrasts in ([[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 2], [2, 2], [0, 1], [1, 3]], np.array(ids, float)):
        features = contrasts if isinstance(contrasts, np.ndarray) else of(contrasts)
        assert len(fc.fit(features, won, ridge=1.0).theta) == 2  # ids from 0 on reach 2, and no item meets itself


def test_a_type_settles_what_whole_numbers_are():
    ids, won = [[0, 17], [17, 5], [5, 0], [0, 17]], [1.0, 0.0, 1.0, 0.0]
    frame = pd.DataFrame(ids, columns=["first", "second"])
    assert fc.fit(frame.astype(str), won, ridge=1.0).names == ("0", "17", "5")
    arrow = pa.table({name: frame[name].astype(float) for name in frame})
    assert fc.fit(arrow, won, ridge=1.0).names == ("first", "second")
    assert fc.fit(frame.astype(float), won, ridge=1.0).names == ("first", "second")
    for features in (
        np.array(ids, float),
        np.array(ids) - 1,
        frame.astype({"first": float}),
        frame.assign(third=[0, 0, 1, 1]),
    ):
        assert len(fc.fit(features, won, ridge=1.0).theta) == np.shape(features)[1]


@pytest.mark.parametrize("of", [list, np.array, pd.Series, lambda texts: pd.Series(texts, dtype="category"), pl.Series])
def test_winners_by_name(of):
    names, pairs, won = battles(7)
    winners = [pair[0] if first_won else pair[1] for pair, first_won in zip(pairs, won, strict=True)]
    found, plain = fc.fit(pairs, of(winners), clusters="pair"), fc.fit(pairs, won, clusters="pair")
    assert found.names == plain.names == tuple(names)
    np.testing.assert_array_equal(found.theta, plain.theta)
    np.testing.assert_array_equal(found.covariance, plain.covariance)


def test_equal_battles_become_one_row_with_trials():
    """Whatever the order, and whoever is named first: a pass is over as many rows as there are pairs."""
    _, pairs, won = battles(9, m=2_000)
    found = fc.fit(pairs, won)
    tables = pd.DataFrame(pairs, columns=["one", "other"]).assign(won=won)
    swapped = tables["one"] > tables["other"]
    tables.loc[swapped, ["one", "other"]] = tables.loc[swapped, ["other", "one"]].to_numpy()
    tables.loc[swapped, "won"] = ~tables.loc[swapped, "won"]
    counts = tables.groupby(["one", "other"])["won"].agg(["sum", "count"]).reset_index()
    again = fc.fit(counts[["one", "other"]], counts["sum"], counts["count"])
    np.testing.assert_allclose(found.theta, again.theta, rtol=1e-9)
    np.testing.assert_allclose(found.covariance, again.covariance, rtol=1e-9)
    assert (found.comparisons, again.comparisons) == (2_000, 2_000)


@pytest.mark.long
def test_a_million_battles_take_less_than_a_gigabyte():
    code = textwrap.dedent(
        """
        import numpy as np, pandas as pd
        import fastcolst as fc
        rng = np.random.default_rng(0)
        first = rng.integers(300, size=1_000_000)
        second = (first + rng.integers(1, 300, size=1_000_000)) % 300
        utilities = rng.normal(size=300)
        won = rng.random(1_000_000) < 1.0 / (1.0 + np.exp(utilities[second] - utilities[first]))
        names = np.array([f"model {k:03d}" for k in range(300)])
        table = pd.DataFrame({"a": names[first], "b": names[second]})
        found = fc.fit(table, won, clusters=rng.integers(2_000, size=1_000_000), position=True)
        assert found.status == "interior" and np.corrcoef(found.theta, utilities)[0, 1] > 0.99
        ranking = found.ranking()
        errors = found.theta - utilities + utilities.mean()
        assert 0.8 < np.std(errors / found.standard_errors) < 1.2
        print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
        """
    )
    if sys.platform != "linux":
        pytest.skip("no other system tells it like this")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1_000_000  # kB
    assert JIT


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"contrasts": [["a", "b"], ["b", None], ["c", "a"]]}, r"contrasts\[1, 1\] is None; .* text, is wanted"),
        (
            {"contrasts": [["a", "b"], ["c", "c"], ["c", "a"]]},
            r"contrasts\[1\] is 'c' against itself; .* two .* wanted",
        ),
        (
            {"contrasts": ["a", "b", "c"]},
            r"contrasts has shape \(3,\) and holds texts, such as 'a'; .* exactly two .* wanted",
        ),
        (
            {"contrasts": [["a", "b", "c"]] * 3},
            r"contrasts has shape \(3, 3\) and holds texts.* exactly two columns is",
        ),
        ({"wins": ["a", "a", "c"]}, r"wins\[1\] is 'a'; 'b' or 'c' is wanted, who won"),
        ({"wins": ["a", None, "c"]}, r"wins\[1\] is None; 'b' or 'c' is wanted, who won"),
        ({"wins": ["a", "b"]}, r"wins .*wanted"),
        ({"wins": ["a", "b", "c"], "trials": [1, 1, 1]}, "wins has names of winners, such as 'a', .* without trials"),
        ({"contrasts": np.eye(3), "wins": ["a", "b", "c"]}, r"wins\[0\] is 'a'; a number of wins is wanted"),
        ({"contrasts": sparse.csr_array(np.array([[1.0, math.nan]] * 3))}, "contrasts has entries .* wanted"),
        ({"contrasts": sparse.csr_array((3, 0))}, r"contrasts has shape \(3, 0\)"),
        ({"weights": [1.0, 0.0, 1.0]}, r"weights\[1\] is 0; a positive finite number is wanted"),
        ({"weights": [1.0, -1.0, 1.0]}, r"weights\[1\] is -1"),
        ({"weights": [1.0, math.inf, 1.0]}, r"weights\[1\] is inf"),
        ({"weights": [1.0]}, r"weights has shape \(1,\); \(3,\) is wanted"),
        ({"position": "yes"}, "position is 'yes'; True, False, 1 or 0 is wanted"),
        ({"names": ["a", "b"]}, "names has 2 names; 3 are wanted"),
        ({"names": ["a", "b", "a"]}, "names has 'a' twice"),
        ({"names": "abc"}, "names is 'abc'; a list of texts is wanted"),
        ({"covariates": [[1.0], [2.0]]}, "covariates has 2 rows; 3 are wanted"),
        ({"covariates": {"home": [1.0, 2.0]}}, r"covariates\['home'\] has shape \(2,\); \(3,\) is wanted"),
        ({"covariates": {"home": [1.0, math.nan, 0.0]}}, r"covariates\[1, 0\] is nan"),
        ({"covariates": {"a": [1.0, 0.0, 0.0]}}, "names has 'a' twice"),
        ({"clusters": [1, 2]}, r"clusters has shape \(2,\); \(3,\) is wanted"),
        ({"clusters": ["x", "x", "x"]}, "clusters has one label; two or more are wanted"),
        ({"clusters": "judge"}, "clusters is 'judge'; .* is wanted"),
        ({"covariance": "fisher"}, "covariance is 'fisher'; 'posterior', 'sandwich' is wanted"),
    ],
)
def test_what_a_fit_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        fc.fit(**{"contrasts": PAIRS, "wins": [1.0, 0.0, 1.0], **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clusters": [1, 2, 1], "covariance": ...}, "covariance is Ellipsis"),
        ({"clusters": [1, 2, 1], "ridge": -1.0}, "ridge is -1.0"),
        ({"wins": [1.0, np.ma.masked, 1.0]}, "wins is .*masked entries in a list"),
        ({"wins": [0.0, 1.0, 1.0], "trials": [1.0, 1e308, 1.0]}, r"trials\[1\] is 1e\+308; a number from 0 to 1e\+70"),
        ({"weights": [1.0, 1e308, 1.0]}, r"weights\[1\] is 1e\+308; a number from 0 to 1e\+70 is wanted"),
    ],
)
def test_what_is_refused_does_not_warn(arguments, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=message):
            fc.fit(**{"contrasts": PAIRS, "wins": [1.0, 0.0, 1.0], **arguments})


def test_winners_may_be_named_by_their_columns_and_ties_by_a_word():
    table = pd.DataFrame({"model_a": ["x", "y", "z", "x", "y"], "model_b": ["y", "z", "x", "z", "x"]})
    known = fc.fit(table, [1.0, 0.0, 0.5, 1.0, 0.5])
    words = ["model_a", "model_b", "tie", "model_a", "tie (bothbad)"]
    for wins in (words, pd.Series(words), ["x", "z", "Draw", "x", "both_bad"]):
        found = fc.fit(table, wins)
        assert np.array_equal(found.theta, known.theta) and found.log_likelihood == known.log_likelihood
    with pytest.raises(ValueError, match=r"wins\[1\] is 'left'; 'y' or 'z' is wanted, .*'model_a', 'model_b',.*'tie'"):
        fc.fit(table, ["model_a", "left", "tie", "tie", "tie"])
    with pytest.raises(ValueError, match=r"wins\[0\] is 'model_a'; 'x' or 'y' is wanted"):
        fc.fit(table.to_numpy(), words)  # which has no names
    for item in ("tie", "model_a"):  # an item's name is nothing else
        named = table.replace("z", item)
        with pytest.raises(ValueError, match=rf"wins\[0\] is '{item}'; 'x' or 'y' is wanted"):
            fc.fit(named, [item, "y", item, "x", "y"])


@pytest.mark.parametrize("library", [pd, pl])
def test_0_and_1_in_a_column_called_after_the_winner_may_be_places(library):
    names, places = [["x", "y"], ["y", "z"], ["z", "x"]], library.Series("winner", [0, 1, 1]) if library is pl else None
    places = pd.Series([0, 1, 1], name="winner") if places is None else places
    message = (
        r"^wins is column 'winner', whose 0 and 1 may be .*; winner == 0 is wanted where 0 says .* first won, .* 1$"
    )
    with pytest.raises(ValueError, match=message.replace(" 1$", " 1 does$")):
        fc.fit(names, places)
    found = fc.fit(names, places == 0, ridge=1.0)
    assert np.array_equal(found.theta, fc.fit(names, [1, 0, 0], ridge=1.0).theta)
    assert np.array_equal(found.theta, fc.fit(names, np.array([1, 0, 0]), ridge=1.0).theta)
    fc.fit(names, places, ridge=1.0, trials=[1, 1, 1])  # numbers of wins
    fc.fit(names, places.rename("first_won") if library is pd else places.alias("first_won"), ridge=1.0)
    with pytest.raises(ValueError, match=r"wins is 'winner'; .* such as table\['winner'\]"):
        fc.fit(names, "winner")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda fit: fit.difference("a", "x"), r"second is 'x'; a name \('a', 'b', 'c'\), its number, or .* wanted"),
        (lambda fit: fit.difference(3, "a"), "first is 3"),
        (lambda fit: fit.difference(-1, "a"), "first is -1"),
        (lambda fit: fit.difference([1.0, 0.0], "a"), "first has 2 features; 3 are wanted"),
        (lambda fit: fit.difference(["a", "b"], "a"), "first has 2 rows and second 1; one of each is wanted"),
        (lambda fit: fit.difference("a", "b", level=1.0), "level is 1.0; a number between 0 and 1 is wanted"),
        (lambda fit: fit.intervals("95 %"), "level is '95 %'"),
        (lambda fit: fit.predict(["a", "b"], ["a", "b", "c"]), "first has 2 rows and second 3"),
        (lambda fit: fit.predict("a", "b", position=True), "position is True; a fit with position=True is wanted"),
        (lambda fit: fit.predict(None, "b"), "first is .* wanted"),
        (lambda fit: fit.ranking(scale=0.0), "scale is 0.0; a positive finite number is wanted"),
        (lambda fit: fit.ranking(anchor={"x": 1.0}), "anchor is {'x': 1.0}; one name among .* is wanted"),
        (lambda fit: fit.ranking(anchor={"a": 1.0, "b": 2.0}), "anchor is .* one name"),
        (lambda fit: fit.ranking(anchor={"a": math.inf}), "anchor is .* a finite rating is wanted"),
        (lambda fit: fit.ranking(anchor="a"), "anchor is 'a'"),
        (lambda fit: fit.ranking(items=["a", "x"]), "items is 'x'"),
        (lambda fit: fit.ranking(items=["a"]), r"items is \['a'\]; two or more names are wanted"),
        (lambda fit: fit.ranking(items=[]), r"items is \[\]; two or more names are wanted"),
    ],
)
def test_what_a_rating_refuses(call, message):
    found = fc.fit(PAIRS, [6, 7, 5], [10, 10, 10])
    with pytest.raises(ValueError, match=message):
        call(found)


def test_features_are_no_items_until_somebody_names_some():
    rng = np.random.default_rng(1)
    pairs = np.array([rng.choice(4, 2, replace=False) for _ in range(400)])
    items = (np.eye(4)[pairs[:, 0]] - np.eye(4)[pairs[:, 1]])[:, :4]
    features = rng.normal(size=(400, 2))
    wins = items @ [0.5, 0.0, -0.5, 1.0] + features @ [1.0, -1.0] + rng.logistic(size=400) > 0
    names = ["a", "b", "c", "d"]
    apart = fc.fit(items, wins, covariates={"u": features[:, 0], "v": features[:, 1]}, names=[*names, "u", "v"])
    for rows in (np.hstack([items, features]), sparse.csr_matrix(np.hstack([items, features]))):
        found = fc.fit(rows, wins, names=[*names, "u", "v"])
        assert found.items == () and found.groups == () and found.quasi_standard_errors.size == 0
        with pytest.raises(
            ValueError, match=r"^items is None, and rows of the contrasts are not 1 for one item.*wanted"
        ):
            found.ranking()
        assert "within" not in found.summary()
        assert str(found.ranking(items=names)) == str(apart.ranking())
    with_zeros = sparse.csr_matrix(np.where(items == 0.0, 7.0, items))
    with_zeros.data[with_zeros.data == 7.0] = 0.0
    for rows in (items, sparse.csr_matrix(items), with_zeros):
        assert fc.fit(rows, wins).items == ("z[0]", "z[1]", "z[2]", "z[3]")
    assert fc.fit(np.where(items == 1.0, 2.0, items), wins).items == ()
