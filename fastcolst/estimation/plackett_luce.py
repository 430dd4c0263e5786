"""The likelihood of rankings under Gumbel noise, and its maximum.

With Gumbel noise of scale s on the utilities x_j'theta, an item comes first of a set R with probability

    p_c = exp(x_c'theta / s) / sum_{j in R} exp(x_j'theta / s),

whatever the order of the others (Luce's choice axiom), so that a ranking is a choice from all, one from the rest, and
so on (Plackett). With those choices, weights v and xbar = sum p_j x_j, for s = 1:

    score           sum v (x_c - xbar)
    information     sum v sum_j p_j (x_j - xbar)(x_j - xbar)'

The log-likelihood is concave.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._blas import eigh

__all__ = ["TIES", "Choices", "information_at", "likelihood_at", "maximum", "scores_of", "shares_of", "stages_of"]

Array = NDArray[np.float64]
Places = NDArray[np.int64]

TIES = ("in-order", "breslow")

MOST_STEPS = 400
REST = 1e-11
"""Standard errors of a step after which the search ends: the step after it would be the square of that."""
ROUNDING = 1e-5
"""Standard errors of a step that may find no higher likelihood only because this is rounded."""
SUM_ROUNDING = 1e-11
"""Share of the log-likelihood by which rounding may lower it."""
SHORTEST = 2.0**-40
"""Of a step's length, below which a step is given up."""


class Choices(NamedTuple):
    """Choices of one row out of several, each.

    Attributes
    ----------
    features : (n, d) float64 or SciPy sparse matrix
        A row for each item of each ranking.
    rows : (t,) int64
        Numbers of the rows from which was chosen, choice by choice.
    starts : (m,) int64
        Where in ``rows`` those of each choice begin.
    chosen : (m,) int64
        Numbers of the rows that were chosen.
    weights : (m,) float64
        How much each choice counts.
    rankings : (m,) int64
        Of which ranking each choice is.
    """

    features: Any
    rows: Places
    starts: Places
    chosen: Places
    weights: Array
    rankings: Places

    @property
    def sizes(self) -> Places:
        """From how many rows each choice was made, (m,)."""
        return np.diff(self.starts, append=len(self.rows))


class Likelihood(NamedTuple):
    """The log-likelihood at a point, and the sparse matrix (m, n) of each choice's probabilities of the rows."""

    value: float
    probabilities: Any


def stages_of(levels: list[list[int]], is_open: bool, ties: str | None, name: str) -> list[tuple[int, list[int]]]:
    """The choices that a ranking is made of: the row that was chosen, and all rows from which it was.

    ``levels`` and ``is_open`` as in :class:`fastcolst.estimation.ranked.Ranked`, ``ties`` as in
    :func:`fastcolst.fit_rankings`.

    Raises
    ------
    ValueError
        There is a tie, and ``ties`` does not settle it; opens with the name.
    """
    stages = []
    left = [row for level in levels for row in level]
    for k, level in enumerate(levels):
        if is_open and k == len(levels) - 1:  # shown and not ranked
            break
        if len(level) > 1 and ties is None:
            raise ValueError(
                f"{name} has a tie of {len(level)}; ties='in-order' or 'breslow' is wanted, which settles it"
            )
        for row in level:
            if len(left) > 1:
                stages.append((row, left))
            if ties != "breslow" or len(level) == 1:
                left = left[1:]
        if ties == "breslow" and len(level) > 1:
            left = left[len(level) :]
    return stages


def shares_of(utilities: Array, starts: Places) -> tuple[Array, Array, Array]:
    """The probability of each row, of choices whose rows begin at ``starts``; utilities (t,) in the noise's scale.

    Besides, of each choice the largest utility, and the logarithm of the sum of exp(utility - largest). O(t).
    """
    stages = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(utilities)))
    largest = np.maximum.reduceat(utilities, starts)
    masses = np.exp(utilities - largest[stages])
    totals = np.add.reduceat(masses, starts)
    return masses / totals[stages], largest, np.log(totals)


def likelihood_at(choices: Choices, theta: Array) -> Likelihood:
    """The log-likelihood at theta, O(t)."""
    from scipy import sparse

    utilities = choices.features @ theta
    shares, largest, logs = shares_of(utilities[choices.rows], choices.starts)
    value = float(choices.weights @ (utilities[choices.chosen] - largest - logs))
    shape = len(choices.starts), choices.features.shape[0]
    indptr = np.append(choices.starts, len(choices.rows))
    return Likelihood(value, sparse.csr_matrix((shares, choices.rows, indptr), shape=shape))


def scores_of(choices: Choices, found: Likelihood) -> Array:
    """The score of each choice, x_c - xbar times its weight, (m, d)."""
    scores = choices.features[choices.chosen] - found.probabilities @ choices.features
    dense: Array = np.asarray(scores.todense() if hasattr(scores, "todense") else scores)
    return choices.weights[:, None] * dense


def information_at(choices: Choices, found: Likelihood) -> Array:
    """sum v sum_j p_j (x_j - xbar)(x_j - xbar)', (d, d)."""
    features, means = choices.features, found.probabilities @ choices.features
    counts = found.probabilities.T @ choices.weights
    if hasattr(features, "multiply"):
        both = features.T @ features.multiply(counts[:, None]) - means.T @ means.multiply(choices.weights[:, None])
        whole: Array = both.toarray()
        return whole
    whole = (features.T * counts) @ features - (means.T * choices.weights) @ means
    return (whole + whole.T) / 2.0


def maximum(choices: Choices, ridge: Array, known: Array) -> tuple[Array, Likelihood, Array, int, bool]:
    """The maximum of the likelihood less theta' diag(ridge) theta / 2, by Newton's method within the known directions.

    Parameters
    ----------
    choices : Choices
    ridge : (d,) float64
    known : (d, r) float64
        A basis of the directions that make a difference.

    Returns
    -------
    theta : (d,) float64
    found : Likelihood
        At theta.
    information : (d, d) float64
        At theta, without the ridge.
    n_steps : int
    settled : bool
        Whether the last step was as short as was asked for.

    Notes
    -----
    Of separated choices theta runs away, by a unit of utility a step, until no information is left: some 40 steps.
    """
    theta = np.zeros(len(ridge))
    found = likelihood_at(choices, theta)
    for n_steps in range(1, MOST_STEPS + 1):
        information = information_at(choices, found)
        gradient = known.T @ (scores_of(choices, found).sum(axis=0) - ridge * theta)
        values, vectors = eigh(known.T @ (information + np.diag(ridge)) @ known)
        along = vectors.T @ gradient
        with np.errstate(divide="ignore", invalid="ignore"):
            way = np.where(values > 0.0, along / values, 0.0)
        step, length = known @ (vectors @ way), float(np.sqrt(along @ way))
        if not length > REST:
            return theta, found, information, n_steps, True
        before, fraction = _penalised(found, ridge, theta), 1.0
        while True:
            trial = theta + fraction * step
            there = likelihood_at(choices, trial)
            if _penalised(there, ridge, trial) >= before + 1e-4 * fraction * length**2:
                break
            if length < ROUNDING:  # sums can no longer tell; but where no information is left theta may move far
                if _penalised(there, ridge, trial) < before - SUM_ROUNDING * (1.0 + abs(before)):
                    return theta, found, information, n_steps, True
                return trial, there, information_at(choices, there), n_steps, True
            fraction /= 2.0
            if fraction < SHORTEST:
                return theta, found, information, n_steps, False
        theta, found = trial, there
    return theta, found, information_at(choices, found), MOST_STEPS, False


def _penalised(found: Likelihood, ridge: Array, theta: Array) -> float:
    return found.value - 0.5 * float(theta @ (ridge * theta))
