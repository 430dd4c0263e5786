"""Fits of rankings against forty digits, against choix, against pairs, and their errors against experiments."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from conftest import rounds

import fastcolst as fc

pytestmark = pytest.mark.either_lane

ITEMS = ["ant", "bee", "cat", "dog", "elk", "fox"]
UTILITIES = np.linspace(1.5, -1.5, 6)


def podiums(m: int, seed: int = 11) -> list[list[int]]:
    """Rankings of two to five of six items by utility and Gumbel noise."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(m):
        items = rng.permutation(6)[: int(rng.integers(2, 6))]
        noisy = UTILITIES[items] + rng.gumbel(size=len(items))
        found.append(items[np.argsort(-noisy)].tolist())
    return found


def named(rankings: list[list[int]]) -> list[list[str]]:
    return [[ITEMS[k] for k in ranking] for ranking in rankings]


def stages(ranking: list[Any], others: list[Any] = ()) -> list[tuple[Any, list[Any]]]:
    """Who was chosen from whom."""
    everybody = [*ranking, *others]
    return [(ranking[k], everybody[k:]) for k in range(len(ranking)) if len(everybody) - k > 1]


def forty_digits(choices: list[tuple[Any, list[Any], float]], vectors: dict[Any, Any], ridge: Any = 0) -> Any:
    """The maximum of the likelihood of weighted choices by Newton's method in mpmath, from the formulas."""
    with mpmath.workdps(50):
        d = len(next(iter(vectors.values())))
        x = {key: mpmath.matrix([mpmath.mpf(float(v)) for v in vector]) for key, vector in vectors.items()}
        theta = mpmath.zeros(d, 1)
        for _ in range(60):
            gradient, information = -ridge * theta, ridge * mpmath.eye(d)
            for chosen, out_of, weight in choices:
                masses = [mpmath.exp((x[j].T * theta)[0]) for j in out_of]
                total = mpmath.fsum(masses)
                mean = mpmath.zeros(d, 1)
                for mass, j in zip(masses, out_of, strict=True):
                    mean += mass / total * x[j]
                gradient += weight * (x[chosen] - mean)
                for mass, j in zip(masses, out_of, strict=True):
                    information += weight * mass / total * (x[j] - mean) * (x[j] - mean).T
            step = mpmath.lu_solve(information, gradient)
            theta += step
            if mpmath.norm(step) < mpmath.mpf(10) ** -45:
                rows = [[float(information[i, k]) for k in range(d)] for i in range(d)]
                return [float(v) for v in theta], rows
    raise AssertionError("no maximum")


def weighted(rankings: list[list[Any]], weights: Any = None) -> list[tuple[Any, list[Any], float]]:
    counts = np.ones(len(rankings)) if weights is None else weights
    return [(c, s, float(w)) for ranking, w in zip(rankings, counts, strict=True) for c, s in stages(ranking)]


@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_features_by_name_agree_with_forty_digits(ridge):
    rng = np.random.default_rng(2)
    vectors = {name: rng.normal(size=3) for name in ITEMS}
    rankings, weights = named(podiums(25)), rng.uniform(0.5, 2.0, 25)
    found = fc.fit_rankings(rankings, vectors, weights=weights, ridge=ridge)
    theta, information = forty_digits(weighted(rankings, weights), vectors, ridge)
    np.testing.assert_allclose(found.theta, theta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(information), rtol=1e-9)
    assert found.names == ("x[0]", "x[1]", "x[2]") and found.items == ()


def test_items_agree_with_forty_digits_of_differences_from_the_last():
    rankings = named(podiums(30))
    found = fc.fit_rankings(rankings)
    corner = {name: np.eye(6)[k][:-1] for k, name in enumerate(ITEMS)}
    theta, information = forty_digits(weighted(rankings), corner)
    np.testing.assert_allclose(found.theta[:-1] - found.theta[-1], theta, rtol=1e-9, atol=1e-9)
    assert found.theta.sum() == pytest.approx(0.0, abs=1e-9)
    errors = [found.difference(name, "fox").standard_error for name in ITEMS[:-1]]
    np.testing.assert_allclose(errors, np.sqrt(np.diag(np.linalg.inv(information))), rtol=1e-9)
    assert (found.names, found.items, found.status) == (tuple(ITEMS), tuple(ITEMS), "interior")
    by_hand = sum(
        found.theta[ITEMS.index(c)] - math.log(sum(math.exp(found.theta[ITEMS.index(j)]) for j in s))
        for c, s, _ in weighted(rankings)
    )
    assert found.log_likelihood == pytest.approx(by_hand, rel=1e-12)
    assert found.comparisons == len(weighted(rankings))


def test_rows_of_features_of_their_own_and_the_best_of_a_set_agree_with_forty_digits():
    """Conditional logit: the best of five, and the best two of five, each with features of its own."""
    rng = np.random.default_rng(5)
    contexts = 100.0 + rng.normal(size=(20, 5, 2))
    rankings = [rng.permutation(5)[: 1 + r % 2].tolist() for r in range(20)]
    found = fc.fit_rankings(rankings, contexts, names=["price", "speed"])
    vectors = {(r, k): contexts[r, k] - 100.0 for r in range(20) for k in range(5)}
    choices = []
    for r, ranking in enumerate(rankings):
        others = [(r, k) for k in range(5) if k not in ranking]
        choices += [(c, s, 1.0) for c, s in stages([(r, k) for k in ranking], others)]
    theta, information = forty_digits(choices, vectors)
    np.testing.assert_allclose(found.theta, theta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(information), rtol=1e-8)
    assert found.names == ("price", "speed")
    again = fc.fit_rankings(rankings, list(contexts))
    assert again.theta.tobytes() == found.theta.tobytes()


CHOIX = {
    "rankings": [1.615097887277, 0.579978954913, 0.302653186894, -0.486969637764, -0.674472497677, -1.336287893644],
    "best": [1.823712405362, 0.568064152082, 0.219176304039, -0.291201951339, -0.765428979255, -1.554321930888],
    "ridge": [1.565703089, 0.562272453, 0.292997502, -0.473253864, -0.654722197, -1.292996983],
}
"""choix 0.4.1 of ``podiums(200)``: ilsr_rankings and ilsr_top1 with tol=1e-12, opt_rankings with alpha=0.5, BFGS."""


def test_choix_finds_the_same():
    rankings = named(podiums(200))
    np.testing.assert_allclose(fc.fit_rankings(rankings).theta, CHOIX["rankings"], atol=2e-12)
    best = fc.fit_rankings([ranking[:1] for ranking in rankings], shown=rankings)
    np.testing.assert_allclose(best.theta, CHOIX["best"], atol=2e-12)
    np.testing.assert_allclose(fc.fit_rankings(rankings, ridge=1.0).theta, CHOIX["ridge"], atol=1e-6)


@pytest.mark.parametrize("ridge", [0.0, 0.4])
@pytest.mark.parametrize("covariance", ["posterior", "sandwich"])
def test_rankings_of_two_are_pairs(ridge, covariance):
    pairs = [ranking[:2] for ranking in named(podiums(150))]
    rng = np.random.default_rng(3)
    weights, judges = rng.uniform(0.5, 2.0, 150), rng.integers(8, size=150).tolist()
    for clusters in (None, judges):
        common = {"weights": weights, "ridge": ridge, "clusters": clusters, "covariance": covariance}
        for scale in (1.0, 2.5):
            found = fc.fit_rankings(pairs, comparison=fc.BradleyTerry(scale), **common)
            expected = fc.fit(pairs, np.ones(150), comparison=fc.BradleyTerry(scale), **common)
            np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-8, atol=1e-9)
            np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-6, atol=1e-9)
            assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-9)


def test_units_of_features_and_where_they_start_make_no_difference():
    rng = np.random.default_rng(7)
    vectors = {name: rng.normal(size=2) for name in ITEMS}
    rankings, units = named(podiums(30)), np.array([1e6, 1e-4])
    found = fc.fit_rankings(rankings, vectors)
    scaled = fc.fit_rankings(rankings, {name: v * units + [1e9, 3.0] for name, v in vectors.items()})
    np.testing.assert_allclose(scaled.theta * units, found.theta, rtol=1e-7)
    np.testing.assert_allclose(scaled.standard_errors * units, found.standard_errors, rtol=1e-7)


def test_data_frames_name_items_and_features():
    rng = np.random.default_rng(7)
    table = pd.DataFrame(rng.normal(size=(6, 2)), index=ITEMS, columns=["price", "speed"])
    found = fc.fit_rankings(named(podiums(30)), table)
    expected = fc.fit_rankings(named(podiums(30)), {name: table.loc[name].to_numpy() for name in ITEMS})
    assert found.names == ("price", "speed") and found.theta.tobytes() == expected.theta.tobytes()
    numbered = fc.fit_rankings(podiums(30), table.reset_index(drop=True))
    assert numbered.theta.tobytes() == expected.theta.tobytes()


# --- ties ---------------------------------------------------------------------------------------------------


def test_ties_are_refused_until_they_are_settled():
    rankings = [["a", "b", "c"], ["c", ["b", "a"]], [["a", "c"], "b"], ["b", "c", "a"]]
    with pytest.raises(ValueError, match=r"rankings\[1\] has a tie of 2; ties='in-order' or 'breslow' is wanted"):
        fc.fit_rankings(rankings)
    in_order = fc.fit_rankings(rankings, ties="in-order")
    flat = fc.fit_rankings([["a", "b", "c"], ["c", "b", "a"], ["a", "c", "b"], ["b", "c", "a"]])
    assert in_order.theta.tobytes() == flat.theta.tobytes()
    breslow = fc.fit_rankings(rankings, ties="breslow")
    choices = [*stages(["a", "b", "c"]), ("c", list("cba")), ("b", list("ba")), ("a", list("ba"))]
    choices += [("a", list("acb")), ("c", list("acb")), *stages(["b", "c", "a"])]
    corner = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.0, 0.0]}
    theta, _ = forty_digits([(c, s, 1.0) for c, s in choices], corner)
    np.testing.assert_allclose(breslow.theta[:2] - breslow.theta[2], theta, atol=1e-9)
    assert breslow.comparisons == len(choices)


# --- what has no finite estimate ----------------------------------------------------------------------------


def test_items_that_always_win_have_no_finite_estimate():
    """Two groups, of which one always beats the other; within each all is well."""
    rankings = [["a", "b", "x", "y"], ["b", "a", "y", "x"], ["a", "y"], ["b", "x"]]
    with pytest.warns(UserWarning, match="status 'separated'.* A ridge > 0 makes it well defined") as noted:
        found = fc.fit_rankings(rankings)
    assert noted[0].filename == __file__
    assert found.status == "separated"
    assert sorted(map(sorted, found.groups)) == [["a", "b"], ["x", "y"]]
    assert math.isinf(found.difference("a", "x").standard_error)
    assert found.difference("a", "b").standard_error == pytest.approx(2.0**0.5, rel=1e-6)
    assert fc.fit_rankings(rankings, ridge=0.1).status == "interior"


def test_items_that_nobody_compared_are_not_compared():
    found = fc.fit_rankings([["a", "b"], ["b", "a"], ["x", "y", "z"], ["z", "y", "x"], ["y", "x", "z"]])
    assert math.isnan(found.difference("a", "x").estimate)
    assert [sorted(group) for group in found.groups] == [["x", "y", "z"], ["a", "b"]]


# --- other noise --------------------------------------------------------------------------------------------


def test_a_pseudo_likelihood_is_that_of_weighted_pairs():
    rankings, weights = named(podiums(40)), np.random.default_rng(1).uniform(0.5, 2.0, 40)
    found = fc.fit_rankings(rankings, comparison="thurstone", weights=weights)
    pairs, counts, of_ranking = [], [], []
    for r, ranking in enumerate(rankings):
        for chosen, out_of in stages(ranking):
            for other in out_of[1:]:
                pairs.append([chosen, other])
                counts.append(weights[r] / (len(out_of) - 1))
                of_ranking.append(r)
    expected = fc.fit(pairs, np.ones(len(pairs)), comparison="thurstone", weights=counts, clusters=of_ranking)
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-6, atol=1e-9)
    assert found.is_pseudo and "pseudo-log-likelihood" in found.summary()
    assert found.items == tuple(ITEMS) and found.comparisons == len(weighted(rankings))
    assert not fc.fit_rankings(rankings).is_pseudo


def test_errors_are_those_of_repeated_experiments():
    """Exact and pseudo-likelihood: theta over standard errors has variance 1, of 300 (100) experiments, level 1e-4.

    Pairs of one ranking depend on each other: without clusters the errors of the broken ones would be too small.
    """
    rng, n_runs, d = np.random.default_rng(8), rounds(300, 100), 2
    truth = np.array([1.0, -0.5])
    for comparison, noise in (("bradley-terry", rng.gumbel), ("thurstone", rng.normal)):
        z = []
        for _ in range(n_runs if comparison == "bradley-terry" else rounds(300, 20)):
            contexts = rng.normal(size=(rounds(120, 60), 4, d))
            noisy = contexts @ truth + noise(size=contexts.shape[:2])
            found = fc.fit_rankings(np.argsort(-noisy, axis=1).tolist(), contexts, comparison=comparison)
            z.append((found.theta - truth) / found.standard_errors)
        spread = np.square(z).mean()
        # small clusters leave the sandwich a little short; chi-square of 2 n numbers within 4.5 of its deviations
        assert abs(spread - 1.0) < 4.5 * math.sqrt(2.0 / np.size(z)) + 0.05, comparison


# --- the door -----------------------------------------------------------------------------------------------

TWO = [["a", "b"], ["b", "a"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rankings": "ab"}, "rankings is 'ab'; a sequence of rankings"),
        ({"rankings": []}, "rankings is "),
        ({"rankings": 3}, "rankings is 3; a sequence of rankings"),
        ({"rankings": ["ab", "ba"]}, r"rankings\[0\] is 'ab'; a sequence of items, best first is wanted"),
        ({"rankings": [["a"], ["b", "a"]]}, r"rankings\[0\] is 'a' alone; two or more items, or shown, are wanted"),
        ({"rankings": [["a", "b", "a"]]}, r"rankings\[0\] has 'a' twice; each item once is wanted"),
        ({"rankings": [["a", None]]}, r"rankings\[0\] holds None; names of items"),
        ({"rankings": [["a", []]]}, r"rankings\[0\] holds .*; names of items"),
        ({"rankings": [[1, 2]]}, "rankings holds 1; names of items, which are texts, are wanted"),
        ({"shown": [["a", "b"]]}, "shown has 1 entries; a sequence of items for each of 2 rankings is wanted"),
        ({"shown": [["a"], ["b", "a"]]}, r"shown\[0\] has no 'b', which rankings\[0\] ranks"),
        ({"shown": [["a", "b", "b"], ["b", "a"]]}, r"shown\[0\] has 'b' twice"),
        ({"features": {"a": [1.0]}}, "rankings holds 'b', which features has not"),
        ({"features": {"a": [1.0], "b": [1.0, 2.0]}}, "features"),
        ({"features": [[[1.0], [2.0]]]}, "features has 1 entries; None, features by name, or rows"),
        ({"features": [[[1.0], [2.0]]] * 2}, r"rankings\[0\] holds 'a'; a row from 0 to 1 is wanted"),
        ({"rankings": [[0, 2]], "features": [[[1.0], [2.0]]]}, r"rankings\[0\] holds 2; a row from 0 to 1"),
        ({"rankings": [[0]], "features": [[[1.0]]]}, r"features\[0\] has 1 row; two or more are wanted"),
        ({"rankings": [[0]], "features": [[[1.0], [2.0]]], "shown": [[0, 1]]}, "shown is .*; None is wanted where"),
        ({"features": [[[1.0], [np.nan]]] * 2, "rankings": [[0, 1], [1, 0]]}, r"features\[0\]\[1, 0\] is nan"),
        ({"names": ["a", "b"]}, "names is .*; None is wanted where each item is a feature"),
        ({"features": {"a": [1.0], "b": [2.0]}, "names": ["x", "y"]}, "1 different names are wanted"),
        ({"ties": "efron"}, "ties is 'efron'; 'in-order', 'breslow' or None is wanted"),
        ({"weights": [1.0]}, "weights"),
        ({"weights": [1.0, 0.0]}, "weights"),
        ({"clusters": ["x", "x"]}, "clusters has one label; two or more are wanted"),
        ({"ridge": -1.0}, "ridge is -1.0"),
        ({"covariance": "hessian"}, "covariance is 'hessian'"),
        ({"comparison": "gumbel"}, "comparison is 'gumbel'"),
        ({"rankings": [["a", "b"]], "comparison": "thurstone"}, "rankings has 1 ranking; two or more are wanted"),
    ],
)
def test_what_are_no_rankings_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        fc.fit_rankings(**{"rankings": TWO, **arguments})


def test_the_order_of_rankings_and_of_the_unranked_makes_no_difference():
    rankings = named(podiums(30))
    shown = [sorted(ITEMS, key=lambda name: hash((r, name)) % 7) for r in range(30)]
    found = fc.fit_rankings(rankings, shown=shown)
    for order in itertools.islice(itertools.permutations(range(3)), 1, 3):
        mixed = [rankings[10 * part + k] for part in order for k in range(10)]
        np.testing.assert_allclose(fc.fit_rankings(mixed, shown=[ITEMS] * 30).theta, found.theta, atol=1e-9)


@pytest.mark.filterwarnings("ignore:status 'separated'")
def test_rankings_without_a_contradiction_are_explained():
    """No step on the way to infinity is so long that theta explains less than before."""
    for seed in [692, 908, 3662, *range(100)]:  # of the first three the last step led too far
        rng = np.random.default_rng(seed)
        d = int(rng.integers(2, 5))
        features = [rng.normal(size=(int(rng.integers(2, 5)), d)) for _ in range(int(rng.integers(1, 4)))]
        utility = 20.0 * rng.normal(size=d)
        rankings = [np.argsort(-rows @ utility).tolist() for rows in features]
        found = fc.fit_rankings(rankings, features)
        assert found.status == "separated" and found.log_likelihood > -1e-3, seed
        for rows, ranking in zip(features, rankings, strict=True):
            assert np.all(np.diff((rows @ found.theta)[ranking]) < 0.0)
