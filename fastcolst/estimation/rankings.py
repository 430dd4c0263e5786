"""Estimates from rankings of more than two: whole ones, the best of a set, and what lies between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst._blas import eigh, on_one_thread
from fastcolst._checks import choice, number, positive_numbers
from fastcolst.comparison import BradleyTerry, comparison_model
from fastcolst.estimation.designs import check_labels, codes_of
from fastcolst.estimation.fit import COVARIANCES, Found, apart, fitted, warn_of
from fastcolst.estimation.identification import knowledge_of, known_directions, shortest
from fastcolst.estimation.plackett_luce import (
    TIES,
    Choices,
    information_at,
    likelihood_at,
    maximum,
    scores_of,
    stages_of,
)
from fastcolst.estimation.ranked import Ranked, ranked_of
from fastcolst.estimation.rating import Fit
from fastcolst.estimation.records import INTERIOR, NOT_CONVERGED, SEPARATED, STATUSES
from fastcolst.estimation.separation import of_no_information, runaway

__all__ = ["fit_rankings"]

Array = NDArray[np.float64]


def fit_rankings(
    rankings: Any,
    features: Any = None,
    *,
    shown: Any = None,
    ties: str | None = None,
    comparison: Any = "bradley-terry",
    weights: ArrayLike | None = None,
    ridge: float = 0.0,
    names: Any = None,
    clusters: Any = None,
    covariance: str = "posterior",
) -> Fit:
    """Fit theta to rankings, whole or partial.

    With Gumbel noise, ``"bradley-terry"``, the likelihood is that of the Plackett-Luce model: a ranking is a choice of
    the best from all that were shown, one from the rest, and so on; each item is chosen with probability
    exp(x_c'theta) / sum_j exp(x_j'theta). It is exact and concave. Of other noise a choice from k is broken into
    the k - 1 pairs in which the chosen one won, each with weight 1/(k - 1), and theta maximises what is then a
    pseudo-likelihood.

    Parameters
    ----------
    rankings : sequence of sequences
        The items of each ranking, best first. Names of items, which are texts; with a sequence of arrays for
        ``features`` numbers of rows. A list or a tuple of items in place of one is a tie.
    features : optional
        None: a feature for each item, 1 for it, whose coefficient is its utility. A dict {name: (d,) array_like} or a
        data frame by name: the features of items. A sequence of (k, d) array_likes, or an array (m, k, d): those of the
        items shown in each ranking, numbered from 0.
    shown : sequence of sequences of names, optional
        What was shown in each ranking: items that it does not name are worse than all it names, in no order. None:
        the named alone; of rankings of rows all rows were shown.
    ties : {"in-order", "breslow"}, optional
        What becomes of ties. None: they are refused. "in-order": tied items follow each other as they stand. "breslow":
        each of them was chosen from all that were left before the tie.
    comparison : str or comparison model
        As for :func:`fastcolst.fit`. ``fc.BradleyTerry(scale)`` has the exact likelihood.
    weights : (m,) array_like, optional
        How much each ranking counts, positive. None: 1.
    ridge : float, default 0.0
        Strength of the quadratic penalty.
    names : texts, optional
        Of the features, where these are given. None: the columns of a data frame, or "x[0]", "x[1]", ...
    clusters : (m,) array_like, optional
        A label for each ranking, the judge for example, whose rankings may depend on each other: the covariance is then
        the clustered one. Of a pseudo-likelihood None stands for a cluster for each ranking.
    covariance : {"posterior", "sandwich"}
        Of an estimate with a ridge, as for :func:`fastcolst.fit`.

    Returns
    -------
    Fit
        As that of pairs, with ``ranking()``, ``difference()`` and ``predict()``; ``comparisons`` counts choices, and
        ``is_pseudo`` tells whether ``log_likelihood`` is none.

    Raises
    ------
    ValueError
        For an argument of the wrong shape, an unknown or repeated item, a ranking of less than two, or a tie that
        ``ties`` does not settle.

    Warns
    -----
    UserWarning
        As :func:`fastcolst.fit`: no finite estimate exists where items can be parted so that those of one part always
        beat those of the other.

    Notes
    -----
    Newton's method, O(t + n d^2) a step for n items in all rankings and t the sum of the sizes of the sets that were
    chosen from, k^2/2 for a ranking of k. Rankings of two give what :func:`fastcolst.fit` gives for pairs. Standard
    errors of a pseudo-likelihood are those of the sandwich, since pairs of one ranking depend on each other; there
    should be many more rankings than features.

    References
    ----------
    Plackett (1975), The analysis of permutations, Applied Statistics 24, 193-202. Breslow (1974), Covariance analysis
    of censored survival data, Biometrics 30, 89-99, for ties. Khetan, Oh (2016), Data-driven rank breaking for
    efficient rank aggregation, JMLR 17, for weights of pairs.

    Examples
    --------
    >>> import fastcolst as fc
    >>> podiums = [["ann", "bob", "cyd"], ["bob", "ann"], ["ann", "cyd", "bob"], ["bob", "cyd", "ann"]]
    >>> found = fc.fit_rankings(podiums)
    >>> found.names, found.theta.round(2), found.comparisons
    (('ann', 'bob', 'cyd'), array([ 0.01,  0.22, -0.23]), 7.0)
    >>> best_of_three = fc.fit_rankings([["ann"], ["bob"], ["ann"], ["cyd"]], shown=[["ann", "bob", "cyd"]] * 4)
    >>> round(best_of_three.predict("ann", "bob"), 3)
    0.667
    """
    ranked = ranked_of(rankings, features, shown, names)
    settled = None if ties is None else choice("ties", ties, TIES, " or None")
    m = len(ranked.levels)
    counted = np.ones(m) if weights is None else positive_numbers("weights", weights, m)
    groups = None if clusters is None else codes_of("clusters", clusters, m)
    model, penalty = comparison_model(comparison), number("ridge", ridge)
    is_posterior = choice("covariance", covariance, COVARIANCES) == "posterior"
    choices = _choices(ranked, counted, settled)
    if groups is not None:  # at last: what is refused does not warn
        check_labels(groups, len(ranked.names))
    if isinstance(model, BradleyTerry):
        found = on_one_thread(len(ranked.names), _exact, ranked, choices, model, penalty, groups, is_posterior)
    else:
        labels = np.arange(m) if groups is None else groups
        if len(set(labels.tolist())) < 2:
            raise ValueError(f"rankings has 1 ranking; two or more are wanted, for the errors of {model!r}")
        found = _broken(ranked, choices, model, penalty, labels, is_posterior)
    warn_of(found, None, stacklevel=3, remedy="A ridge > 0")
    return found


# --- estimates ----------------------------------------------------------------------------------------------


def _exact(ranked: Ranked, choices: Choices, model: BradleyTerry, ridge: float, groups: Any, is_posterior: bool) -> Fit:
    """Plackett-Luce. Features are in units in which they have the size 1, and utilities in the scale of the noise."""
    design = choices.features
    scales = np.asarray(abs(design).max(axis=0).todense() if hasattr(design, "todense") else np.abs(design).max(axis=0))
    sizes = scales.reshape(-1) / model.scale
    units = np.where(sizes > 0.0, sizes, 1.0)
    by = 1.0 / (model.scale * units)
    scaled = choices._replace(features=design.multiply(by).tocsr() if hasattr(design, "multiply") else design * by)
    prior = ridge / units**2
    at_zero = information_at(scaled, likelihood_at(scaled, np.zeros(len(units))))
    known, unknown = known_directions(at_zero + np.diag(prior))
    theta, found, information, n_steps, is_settled = maximum(scaled, prior, known)
    values, vectors = eigh(known.T @ (information + np.diag(prior)) @ known)
    axes, status = known @ vectors, INTERIOR if is_settled else NOT_CONVERGED
    flat = of_no_information(values)
    if ridge == 0.0:
        receding = runaway(_margins_of(scaled), theta, axes, values)
        if receding.any():
            status, flat = SEPARATED, receding
        elif flat.any():
            status = NOT_CONVERGED
    variance = information
    if groups is not None:
        sums = np.zeros((int(groups.max()) + 1, len(units)))
        np.add.at(sums, groups[scaled.rankings], scores_of(scaled, found))
        variance = sums.T @ sums * (len(sums) / (len(sums) - 1.0))
    if is_posterior:
        variance = variance + np.diag(prior)
    ones = np.ones_like(units)
    inverse = (axes[:, ~flat] / values[~flat]) @ axes[:, ~flat].T
    knowledge = knowledge_of(inverse, axes[:, flat], variance, unknown, units, ones)
    estimate = shortest(theta / units, unknown / units[:, None], ones)
    coefficients, covariance_of_theta, _ = apart(Found(estimate, knowledge, found.value, status), len(units))
    return Fit(
        coefficients,
        covariance_of_theta,
        found.value,
        STATUSES[status],
        n_steps,
        ranked.names,
        ranked.names[: ranked.n_items],
        None,
        float(len(choices.chosen)),
        model,
        knowledge.part(list(range(len(units)))),
    )


def _margins_of(choices: Choices) -> Callable[[Array], Array]:
    """Margins of what was chosen over what was not, for a vector or the columns of a matrix."""
    winners, losers = _pairs(choices)

    def margins_of(vectors: Array) -> Array:
        utilities: Array = choices.features @ vectors
        return utilities[winners] - utilities[losers]

    return margins_of


def _pairs(choices: Choices) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that were chosen, each as often as there were others, and those others."""
    winners = np.repeat(choices.chosen, choices.sizes)
    others = winners != choices.rows
    return winners[others], choices.rows[others]


def _broken(ranked: Ranked, choices: Choices, model: Any, ridge: float, groups: Any, is_posterior: bool) -> Fit:
    """The maximum of the pseudo-likelihood of all pairs, with clustered errors."""
    winners, losers = _pairs(choices)
    n_others = np.repeat(choices.sizes, choices.sizes - 1) - 1
    of_choice = np.repeat(np.arange(len(choices.chosen)), choices.sizes - 1)
    found = fitted(
        choices.features[winners] - choices.features[losers],
        np.ones(len(winners)),
        None,
        weights=choices.weights[of_choice] / n_others,
        comparison=model,
        score="likelihood",
        ridge=ridge,
        radius=None,
        position=False,
        names=ranked.names,
        clusters=groups[choices.rankings[of_choice]],
        covariance="posterior" if is_posterior else "sandwich",
        name="features",
    )
    return replace(found, items=ranked.names[: ranked.n_items], comparisons=float(len(choices.chosen)), is_pseudo=True)


def _choices(ranked: Ranked, weights: Array, ties: str | None) -> Choices:
    """The choices that rankings are made of."""
    rows: list[int] = []
    starts, chosen, counts, of_ranking = [], [], [], []
    for r, (levels, is_open) in enumerate(zip(ranked.levels, ranked.is_open, strict=True)):
        for row, left in stages_of(levels, is_open, ties, f"rankings[{r}]"):
            starts.append(len(rows))
            rows.extend(left)
            chosen.append(row)
            counts.append(weights[r])
            of_ranking.append(r)
    return Choices(
        ranked.features,
        np.array(rows, np.int64),
        np.array(starts, np.int64),
        np.array(chosen, np.int64),
        np.array(counts, np.float64),
        np.array(of_ranking, np.int64),
    )
