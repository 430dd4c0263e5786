"""What an exact estimator remembers: comparisons, the estimate they give, and how that was found."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fastcolst.estimation.history import History

__all__ = ["STATUSES", "Calibration", "Evidence"]

FIRST_KAPPA = 0.5
TINY = 1e-300
"""Keeps quotients finite."""

INTERIOR = 0
BOUNDARY = 1
SEPARATED = 2
NOT_CONVERGED = 3
STATUSES = ("interior", "boundary", "separated", "not-converged")
"""interior: the maximum. boundary: the maximum on the ball; a larger ball would give a larger estimate. separated:
theta explains every comparison, or there is a direction that explains some the better the further one goes and none the
worse, so that the likelihood has no finite maximum; theta is its maximum on the ball, or merely a point of high
likelihood. not-converged: passes ran out."""

# Rows of `vectors`.
SCALES = 0
"""max |z_k| over the history: the scale of each feature."""
METRIC = 1
"""m: the scales for radius="auto" and where there is no ball, ones for a radius of one's own."""
ANCHOR = 2
"""theta after the last pass over the history."""
BUILT = 3
"""theta for which the information was last rebuilt."""
DRIFT = 4
"""H (theta - anchor), by the factor's H, as answers moved theta inside the ball: what the bend moves is left out."""
GRADIENT, STEP, TRIAL, RIGHT, WHITENED, PULL = 5, 6, 7, 8, 9, 10  # scratch
RECESSION = 11
"""A direction along which the likelihood was last seen to grow for ever; 0 when none was."""
SQUARES = 12
"""sum z_k^2 over the history."""
LEAD = 13
"""H (anchor - built), by the information on hand."""
BENT = 14
"""B at the anchor, see :func:`fastcolst.estimation.bend.bend_basis`."""
CORRECTION = 15
"""What the bend has moved theta by since the last pass."""
PULL_ALONG = 16  # scratch
LAG = 17
"""Sum of (mu - mu_built) D^2 p over the steps p on the ball since the last pass: the error that the gradient has since
the factor holds the multiplier of that pass. What is left of it is of second order, and kappa's."""
N_VECTORS = 18

# Places in `numbers`.
MU = 0
"""Multiplier of the ball; 0 inside."""
MU_BUILT = 1
"""The multiplier in the factor."""
KAPPA = 2
"""Error of the gradient, in standard errors, for a drift of 1 standard error that moves margins by a unit; learned."""
RESIDUAL = 3
"""Predicted distance from the maximum after the last pass, in standard errors; infinite where a pass is due."""
OFFSET = 4
"""How far the anchor lies from where the information was rebuilt, in the scales of the data."""
UNIT = 5
"""4 F'(0), by which margins are multiplied so that those of all models compare: 1 for the logistic one of scale 1."""
REST = 6
"""As kappa, for the error that remains when theta follows the bend; learned."""
BEND, BEND_ALONG = 7, 8
"""n tau / 2 and n upsilon / 2 for n comparisons, see :func:`fastcolst.estimation.bend.bend_basis`; 0
while theta does not follow the bend."""
BENT_ALONG = 9
"""The factor of the second form at the anchor."""
KNOWN, KNOWN_BOTH, KNOWN_ALONG, FOUND, FOUND_ALONG = 10, 11, 12, 13, 14
"""Sums of the least squares by which the two are learned: the matrix and the right side of the normal equations."""
BUILT_SQUARE = 15
"""built'H built."""
BEST_KNOWN = 16
"""Comparisons that tell of the best-known feature, each by its share of the largest: max_k sum z_k^2 / max z_k^2."""
WALKED = 17
"""Sum of the squared lengths of the steps since the last pass, in standard errors."""
RETURNED = 18
"""Sum of w (z'(theta - anchor))^2 over the comparisons since the last pass, as theta was after each of them."""
LEVERAGE = 19
"""The largest n z'(H + mu D^2)^-1 z at which a comparison z was the n-th: by it no margin moves far unseen."""
N_NUMBERS = 20

# Places in `codes`.
STATUS = 0
"""Of the last solve; see STATUSES."""
WARM = 1
"""1 when factor and theta hold, so that single answers can be pushed."""
N_LEARNED = 2
"""Comparisons learned."""
CURRENT = 3
"""Value of N_LEARNED at the last pass."""
PASSED_ROWS = 4
"""Rows of history touched by all passes so far."""
PASSES = 5
"""Passes so far."""
ROWS_SINCE = 6
"""Rows of history touched since the information was last renewed."""
LESSONS = 7
"""Passes from which kappa, rest and the bend were learned."""
N_CODES = 8


class Calibration(NamedTuple):
    """What a running test of predictions adds up, over the window under way (first index 0) and the last full one (1).

    scores (2, d) float64, g = sum s z~ with the slope s at the theta before the answer; starts (2, d, d) float64, the
    factor as it was when the window began; spreads (2, 2) float64, sum s^2 and sum w; sizes (3,) int64, comparisons in
    either, and those with which the window under way is full. Where nothing is tested, scores and starts are empty.
    """

    scores: NDArray[np.float64]
    starts: NDArray[np.float64]
    spreads: NDArray[np.float64]
    sizes: NDArray[np.int64]

    @classmethod
    def new(cls, n_features: int) -> Self:
        """With nothing added up yet."""
        d = n_features
        return cls(np.zeros((2, d)), np.zeros((2, d, d)), np.zeros((2, 2)), np.zeros(3, np.int64))


class Evidence(NamedTuple):
    """Comparisons and the estimate they give.

    theta (d,) float64; factor (d, d) float64, lower triangular, S'S = (H + mu D^2)^-1 with the H that every push brings
    up to date, and of no meaning unless warm; vectors (17, d) float64, numbers (20,) float64 and codes (8,) int64,
    whose places have names in this module; history; information (d, d) float64, H as it was when last renewed;
    penalised (d, d) float64, H + mu D^2 of the last step with such information, in a stack maybe another's;
    calibration.
    """

    theta: NDArray[np.float64]
    factor: NDArray[np.float64]
    vectors: NDArray[np.float64]
    numbers: NDArray[np.float64]
    codes: NDArray[np.int64]
    history: History
    information: NDArray[np.float64]
    penalised: NDArray[np.float64]
    calibration: Calibration

    @classmethod
    def shared(cls) -> tuple[str, ...]:
        """Fields that several stacked estimates have in common: scratch, but right after a solve."""
        return ("penalised",)

    @classmethod
    def new(cls, history: History, is_tested: bool = False) -> Self:
        """At theta = 0, with nothing learned from the history yet."""
        d = history.blocks.shape[1]
        evidence = cls(
            np.zeros(d),
            np.zeros((d, d)),
            np.zeros((N_VECTORS, d)),
            np.zeros(N_NUMBERS),
            np.zeros(N_CODES, np.int64),
            history,
            np.zeros((d, d)),
            np.empty((d, d)),
            Calibration.new(d if is_tested else 0),
        )
        evidence.numbers[KAPPA] = FIRST_KAPPA
        evidence.numbers[REST] = FIRST_KAPPA
        evidence.numbers[UNIT] = 1.0
        evidence.vectors[METRIC] = 1.0
        return evidence
