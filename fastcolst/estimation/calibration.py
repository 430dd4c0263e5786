"""A running test of the predictions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fastcolst._blas import on_one_thread
from fastcolst._compile import helper
from fastcolst.comparison import cdf
from fastcolst.estimation.history import History
from fastcolst.estimation.objective import slope_and_curvature
from fastcolst.estimation.records import Evidence
from fastcolst.kernels.linalg import SHARE_TOLERANCE, dot

__all__ = ["LEAST_ODDS", "TestedEvidence", "calibrate", "odds"]

FIRST_WINDOW = 64
"""Comparisons in the first window at least. The others are as long as all that was learned before them."""
PRIOR = 0.125
"""Of the test: a bias of 1/sqrt(PRIOR) standard errors, as of the window's beginning, is what it looks for first."""
LEAST_ODDS = 2.0 * math.log(1e5)
"""The test fails here; by chance that happens in less than one of 100,000 windows."""


class Calibration(NamedTuple):
    """What a running test of predictions adds up, over the window under way (first index 0) and the last full one (1).

    scores (2, d) float64, g = sum s z~ with the slope s at the theta before the answer; starts (2, d, d) float64, the
    factor as it was when the window began; spreads (2, 2) float64, sum s^2 and sum w; sizes (3,) int64, comparisons in
    either, and those with which the window under way is full. Besides least (1,) float64, the least probability that a
    prediction gave to either outcome.
    """

    scores: NDArray[np.float64]
    starts: NDArray[np.float64]
    spreads: NDArray[np.float64]
    sizes: NDArray[np.int64]
    least: NDArray[np.float64]

    @classmethod
    def new(cls, n_features: int) -> Self:
        """With nothing added up yet."""
        d = n_features
        return cls(np.zeros((2, d)), np.zeros((2, d, d)), np.zeros((2, 2)), np.zeros(3, np.int64), np.full(1, 0.5))


class TestedEvidence(NamedTuple):
    """An :class:`Evidence` whose predictions are tested: its fields, and what the test adds up."""

    theta: NDArray[np.float64]
    factor: NDArray[np.float64]
    features: NDArray[Any]
    progress: NDArray[Any]
    history: History
    scratch: NDArray[np.float64]
    calibration: Calibration

    @classmethod
    def shared(cls) -> tuple[str, ...]:
        """Fields that several stacked estimates have in common."""
        return ("scratch",)

    @classmethod
    def of(cls, evidence: Evidence) -> Self:
        """Evidence with a test of which nothing is added up yet."""
        return cls(*evidence, Calibration.new(len(evidence.theta)))

    @property
    def evidence(self) -> Evidence:
        """The same arrays without the test."""
        return Evidence(*self[:-1])


@helper
def calibrate(objective: Any, evidence: Any, contrast: Any, share: float, weight: float) -> None:
    """Add a comparison, not yet learned, to the test of the predictions.

    While theta is right the scores s z~ have mean zero given what came before, whatever this was.

    O(d), and O(d^2) where a window begins.
    """
    test, d = evidence.calibration, contrast.size
    scores, starts, spreads, sizes = test.scores, test.starts, test.spreads, test.sizes
    if sizes[0] == sizes[2]:
        for k in range(d):
            scores[1, k], scores[0, k] = scores[0, k], 0.0
            for l in range(d):
                starts[1, k, l], starts[0, k, l] = starts[0, k, l], evidence.factor[k, l]
        for k in range(2):
            spreads[1, k], spreads[0, k] = spreads[0, k], 0.0
        sizes[0], sizes[1], sizes[2] = 0, sizes[0], max(FIRST_WINDOW, evidence.progress[()].learned)
    sizes[0] += 1
    margin, pull = dot(evidence.theta, contrast), 0.0
    test.least[0] = min(test.least[0], cdf(objective.model, -np.abs(margin)))
    for sign, part in ((1.0, weight * share), (-1.0, weight * (1.0 - share))):
        if part > 0.0:
            slope, curvature = slope_and_curvature(objective, sign * margin)
            pull += part * sign * slope
            spreads[0, 1] += part * curvature
    spreads[0, 0] += pull * pull
    for k in range(d):
        scores[0, k] += pull * contrast[k]


def odds(evidence: TestedEvidence) -> float:
    """Twice the logarithm of the odds against theta in the window that tells more of them.

    g'(A + V)^-1 g - log det(A + V)/det A

    V = phi (H - H_0), where H grew from H_0 within the window, is the variance of g: w has the mean of s^2 for the
    likelihood, and phi = sum s^2 / sum w, at least 1, makes up for it where not. A = PRIOR H_0. While theta is right
    exp(l'g - l'Vl/2) is a martingale for each l, up to third order, and so is its mean over l ~ N(0, A^-1), whose
    logarithm is half of this. By Ville's inequality it exceeds log(1/p) at any time of the window with a probability of
    at most p. That of an estimate which learns from the same answers has mean zero too, taken over all that the truth
    may be: the innovations of a linear model are as independent as its errors.

    All this is computed in the coordinates of S_0, with S_0'S_0 = H_0^-1. O(d^3).

    References
    ----------
    Abbasi-Yadkori, Pal, Szepesvari (2011), Improved algorithms for linear stochastic bandits, theorem 1.
    """
    test, d, largest = evidence.calibration, len(evidence.theta), 0.0
    for k, end in enumerate((evidence.factor, test.starts[0])):
        if test.sizes[k] > 0:
            window = test.starts[k], end, test.spreads[k], test.scores[k]
            largest = max(largest, on_one_thread(d, _odds_of_window, *window))
    return largest


def _odds_of_window(start: Any, end: Any, spreads: Any, score: Any) -> float:
    """The same for one window, from S_0, S, the sums of s^2 and w, and g."""
    from scipy.linalg import solve_triangular  # a tenth of a second, which a short life need not pay

    d, (squares, curvatures) = len(score), spreads
    phi = max(1.0, squares / max(curvatures, 1e-300))
    grown = solve_triangular(end, start.T, trans=1, lower=True, check_finite=False)
    spread = phi * (grown.T @ grown)  # phi S_0 H S_0'
    diagonal = spread.reshape(-1)[:: d + 1]
    diagonal *= 1.0 + SHARE_TOLERANCE * d  # lest rounding make it indefinite for Cholesky
    diagonal += PRIOR - phi
    lower = np.linalg.cholesky(spread)
    along = solve_triangular(lower, start @ score, lower=True, check_finite=False)
    determinant = 2.0 * float(np.log(lower.diagonal()).sum()) - d * math.log(PRIOR)
    return float(along @ along) - determinant
