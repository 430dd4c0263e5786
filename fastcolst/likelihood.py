"""The likelihood of comparisons: its score, its information and its maximum on a ball.

A comparison is kept with its sign, z~ = z if the first arm won and -z if not, so that theta explains it the better the
larger z~'theta is. The loss of n comparisons is

    sum_k psi(z~_k'theta) + ridge/2 |theta|^2        on        |D theta| <= radius,        D = diag(m),

convex, with slope s = -psi' >= 0 and curvature w = psi'' >= 0. The score is "likelihood", psi = -log F, or "residual",
the paper's sum (Y - F) z = 0, for which s(e) = F(-e) and w = f.

The distance of two estimates in standard errors is |H^{1/2} (theta - other)|, H = sum w z z' + ridge I.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import helper, kernel
from fastcolst.comparison import cdf, curvature, pdf, score
from fastcolst.kernels.linalg import (
    PIVOT_TOLERANCE,
    dot,
    factorise,
    rank_one_inverse,
    squared_gram_norm,
    unwhiten,
    whiten_contrast,
)

__all__ = [
    "STATUSES",
    "Calibration",
    "Evidence",
    "History",
    "Objective",
    "append",
    "distance",
    "is_inexact",
    "learn_exactly",
    "odds",
    "solve",
]

ROWS = 512
"""Comparisons in a block: kernels run over whole blocks, which hold them by coordinate."""

PITCH = ROWS + 8
"""Numbers from one coordinate to the next in a block: a line of the cache more, or all would have one place there."""

LANES = 64
"""Sums into which an inner product over a block is split: of eight products each, 512 = 8 * 64; and 64 = 4 * 4 * 4."""

LEAST_GROWTH = 2**26
MOST_GROWTH = LEAST_GROWTH if sys.platform == "win32" else 2**30
"""Bytes by which an outgrown pool grows at least, and where it is granted: Windows counts memory that is not used."""

WARM_AFTER = 50
WARM_AFTER_PER_FEATURE = 5
"""Comparisons before single answers are pushed, whichever is more: fewer leave the information far from its limit."""

MAX_PASSES = 60
FIRST_KAPPA = 0.5
SMALLEST_KAPPA = 0.002
LARGEST_KAPPA = 2.0
FIRST_DECAY = 0.7
KAPPA_DECAY = 0.99
FIRST_LESSONS = 10
"""Kappa and rest, the largest value found lately, are forgotten at the first rate ten times: they start as guesses."""
BEND_DECAY = 0.9
"""What a pass taught of the bend counts so much less at each later pass."""
FARTHEST_BEND = 1.0
"""Drift, in units of the margins, up to which its error is taken for one of third order."""
FOLLOW_BELOW = 0.5
"""Theta follows the bend when this leaves less than half of kappa."""
SECOND_RIDGE = 0.001
"""Ridge of the bend's second coefficient, in units of what is known of the first: it is of the first one's size."""
MOST_BENT = 0.2
"""The bend corrects theta by up to this share of its way from where the information was built."""
MOST_RETURNED = 0.05
"""RETURNED over WALKED up to which what was learned holds. It is half the history's growth while comparisons are alike,
and grows much faster where they tell of directions that were little known at the last pass."""
MOST_GROWN = 1.5
"""Growth of the history since a pass up to which theta follows the bend."""
WHOLE_PASS_FEATURES = 16
"""Up to so many features every pass rebuilds the information, which then costs little more than the gradient."""
RENEW_AFTER = 0.12
"""With more features the information is renewed after 0.12 d passes without it."""
LARGEST_THIRD = 0.1
"""The largest third derivative of the logistic loss, 0.096; half of it is the error, over sqrt(w) = 1/2."""
FEW = 30
"""Comparisons, as large as a feature's largest, whose third derivatives may all have the same sign."""
RARE_SHARE = 0.25
"""While theta follows the bend a feature is rare when fewer than this share of BEST_KNOWN tell of it."""
TINY = 1e-300
"""Keeps quotients finite."""
LOST_DIGITS = 1e-10
"""A sum that is so small beside its terms has lost so many digits that it is computed anew."""
LONGEST_STEP = 20.0
"""In units of the margins, where theta is smaller: far from the maximum H may vanish."""

INTERIOR = 0
BOUNDARY = 1
SEPARATED = 2
NOT_CONVERGED = 3
STATUSES = ("interior", "boundary", "separated", "not-converged")
"""interior: the maximum. boundary: the maximum on the ball; a larger ball would give a larger estimate. separated:
theta explains every comparison, or there is a direction that explains some the better the further one goes and none the
worse, so that the likelihood has no finite maximum; theta is its maximum on the ball, or merely a point of high
likelihood. not-converged: passes ran out."""


# --- the comparisons ----------------------------------------------------------------------------------------


class History(NamedTuple):
    """Signed contrasts, in blocks of 512 by coordinate.

    blocks (capacity, d, 520) float64, a pool that several histories may share, with eight columns of zeros;
    multiplicities (capacity, 512) float64, how often each counts, in histories that :meth:`of` made, which never grow,
    or (0, 512) when each counts once; owned (capacity,) int64, which blocks of the pool are this history's, in their
    order; size (1,) int64, comparisons; used (1,) int64, blocks of the pool that are taken.

    Several histories of one pool are stacked in ``owned`` and ``size`` only, (k, capacity) and (k, 1).
    """

    blocks: NDArray[np.float64]
    multiplicities: NDArray[np.float64]
    owned: NDArray[np.int64]
    size: NDArray[np.int64]
    used: NDArray[np.int64]

    @classmethod
    def shared(cls) -> tuple[str, ...]:
        """Fields that several stacked histories have in common."""
        return "blocks", "multiplicities", "used"

    @classmethod
    def new(cls, n_features: int, n_rows: int) -> Self:
        """An empty history with room for a number of comparisons; memory that is not written to costs nothing."""
        capacity = max(1, -(-n_rows // ROWS))
        return cls(
            _on_cache_lines((capacity, n_features, PITCH)),
            np.empty((0, ROWS)),
            np.zeros(capacity, np.int64),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
        )

    @classmethod
    def of(cls, contrasts: NDArray[np.float64], multiplicities: NDArray[np.float64]) -> Self:
        """A history that holds signed contrasts (m, d), each as often as its multiplicity (m,) says."""
        m, d = contrasts.shape
        history = cls.new(d, m)
        capacity = len(history.blocks)
        padded = np.zeros((capacity * ROWS, d))
        padded[:m] = contrasts
        history.blocks[:, :, :ROWS] = padded.reshape(capacity, ROWS, d).transpose(0, 2, 1)
        history.blocks[:, :, ROWS:] = 0.0
        counts = np.zeros(capacity * ROWS)
        counts[:m] = multiplicities
        history.owned[:] = np.arange(capacity)
        history.size[0] = m
        history.used[0] = capacity
        return history._replace(multiplicities=counts.reshape(capacity, ROWS))

    def room(self) -> int:
        """Comparisons that fit without growing, if no other history takes blocks of the pool."""
        free = len(self.blocks) - int(self.used[0])
        return free * ROWS + (-int(self.size[0])) % ROWS

    def grown(self, n_rows: int) -> Self:
        """The same history with room for more comparisons.

        What is in use is copied. A pool that was outgrown becomes four times as large, and 1 GB larger at least where
        pages count when they are written to: copies then come early, when they are short. Where so much is refused the
        pool grows by 64 MB, or by no more than what is asked for.
        """
        n, more = len(self.blocks), -(-n_rows // ROWS)
        if self.used[0] == 0:
            return self._resized(n + more)
        most, least = (growth // self.blocks[0].nbytes for growth in (MOST_GROWTH, LEAST_GROWTH))
        return self._resized(n + max(more, 3 * n, most), n + max(more, least), n + more)

    def snapshot(self) -> Self:
        """A copy for use before the original learns more, or to :meth:`rewind` to. O(1).

        The two share blocks, and passes run over the whole of the last one.
        """
        return self._replace(size=self.size.copy(), used=self.used.copy())

    def rewind(self) -> None:
        """Forget what was appended to the original since this :meth:`snapshot` of it, which then takes its place."""
        for owned, size in zip(np.atleast_2d(self.owned), np.atleast_2d(self.size)[:, 0], strict=True):
            n_full, rest = divmod(int(size), ROWS)
            if rest:
                self.blocks[owned[n_full], :, rest:] = 0.0  # sums run over whole blocks
                n_full += 1
            owned[n_full:] = 0

    def _resized(self, *capacities: int) -> Self:
        """A copy of the first of several capacities for which there is memory."""
        capacity, used = capacities[0], int(self.used[0])
        try:
            blocks = _on_cache_lines((capacity, *self.blocks.shape[1:]))
        except MemoryError:
            if len(capacities) == 1:
                raise
            return self._resized(*capacities[1:])
        blocks[:used] = self.blocks[:used]
        owned = np.zeros((*self.owned.shape[:-1], capacity), np.int64)
        owned[..., :used] = self.owned[..., :used]
        return self._replace(blocks=blocks, owned=owned, size=self.size.copy(), used=self.used.copy())

    def __deepcopy__(self, memo: Any) -> Self:
        return self._resized(len(self.blocks), max(1, int(self.used[0])))  # what was never written is not copied

    def __reduce__(self) -> Any:
        used = int(self.used[0])
        kept = self._replace(blocks=self.blocks[:used].copy(), owned=self.owned[..., :used])
        return _restored, (*kept, len(self.blocks))


def _on_cache_lines(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """An array, not initialised, that begins where a line of the cache does: no load then takes from two of them."""
    size = math.prod(shape)
    room = np.empty(size + 7)
    start = -(room.ctypes.data // 8) % 8
    return room[start : start + size].reshape(shape)


def _restored(*fields: Any) -> History:
    *kept, capacity = fields
    return History(*kept)._resized(capacity, max(1, len(kept[0])))


@helper
def append(history: Any, contrast: Any, sign: float) -> bool:
    """Append a comparison, sign * contrast. False, and nothing is changed, when the pool is full. O(d).

    A block is filled with zeros when it is begun: rows of zeros add nothing to any sum.
    """
    size = history.size[0]
    row = size % ROWS
    if row == 0:
        if history.used[0] == history.blocks.shape[0]:
            return False
        number = history.used[0]
        history.blocks[number] = 0.0
        history.owned[size // ROWS] = number
        history.used[0] = number + 1
    number = history.owned[size // ROWS]
    for k in range(contrast.size):
        history.blocks[number, k, row] = sign * contrast[k]
    history.size[0] = size + 1
    return True


# --- one comparison -----------------------------------------------------------------------------------------


class Objective(NamedTuple):
    """What is minimised: the model, which score (0 likelihood, 1 residual), the ridge, and the radius of the ball.

    ``scaled`` tells whether the ball is that of the features' scales, and so changes with them.
    """

    model: Any
    score: int
    ridge: float
    radius: float
    scaled: bool = True


@helper
def slope_and_curvature(objective: Any, e: float) -> tuple[float, float]:
    """s(e) = -psi'(e) and w(e) = psi''(e) of one comparison."""
    model = objective.model
    if objective.score == 0:
        return float(score(model, e)), float(curvature(model, e))
    return float(cdf(model, -e)), float(pdf(model, e))


# --- all comparisons ----------------------------------------------------------------------------------------


@helper
def score_information(objective: Any, evidence: Any, with_information: bool) -> int:
    """Gradient of minus the loss at a trial point, and its information if wanted, in one pass over the history.

    Parameters
    ----------
    objective : Objective
    evidence : Evidence
        ``vectors[TRIAL]`` is the point, ``vectors[GRADIENT]`` is overwritten by sum s z~ - ridge theta and, if wanted,
        ``information`` by H = sum w z z' + ridge I.
    with_information : bool

    Returns
    -------
    int
        The number of comparisons that the point does not explain, z~'theta <= 0, however often each counts.

    Notes
    -----
    O(n d), and O(n d^2 / 2) with the information; 31 kB of scratch, which lies better for vectors where it is made anew
    than in an array of NumPy's. Sums over a block are folded in halves: this vectorises without
    licence to reorder, so that every kernel rounds alike, and its error grows like log n within a block.
    """
    theta, gradient = evidence.vectors[TRIAL], evidence.vectors[GRADIENT]
    history, information = evidence.history, evidence.information
    margins, slopes, curvatures = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS)
    products, work = np.empty(4 * ROWS), np.empty(4 * LANES)
    d = theta.size
    for k in range(d):
        gradient[k] = -objective.ridge * theta[k]
    if with_information:
        for k in range(d):
            for l in range(d):
                information[k, l] = 0.0
            information[k, k] = objective.ridge
    size = history.size[0]
    n_wrong = 0
    for b in range((size + ROWS - 1) // ROWS):
        block = history.blocks[history.owned[b]]
        _margins(theta, block, margins)
        for j in range(min(ROWS, size - b * ROWS)):
            n_wrong += margins[j] <= 0.0
        _slopes_and_curvatures(objective, margins, slopes, curvatures)
        if history.multiplicities.shape[0] > 0:
            for j in range(ROWS):
                slopes[j] *= history.multiplicities[b, j]
                curvatures[j] *= history.multiplicities[b, j]
        _add_products(slopes, block, d, work, gradient)
        if with_information:
            _add_information(curvatures, block, products, work, information)
    if with_information:
        for k in range(d):
            for l in range(k):
                information[l, k] = information[k, l]
    return n_wrong


@helper
def _slopes_and_curvatures(objective: Any, margins: Any, slopes: Any, curvatures: Any) -> None:
    """As :func:`slope_and_curvature`, which a loop would not vectorise: a pass would take three times as long."""
    model = objective.model
    if objective.score == 0:
        for j in range(ROWS):
            slopes[j], curvatures[j] = score(model, margins[j]), curvature(model, margins[j])
    else:
        for j in range(ROWS):
            slopes[j], curvatures[j] = cdf(model, -margins[j]), pdf(model, margins[j])


@helper
def _margins(theta: Any, block: Any, out: Any) -> None:
    d = theta.size
    for j in range(ROWS):
        out[j] = theta[0] * block[0, j]
    k = 1
    while k + 4 <= d:  # four rows for each load and store of the output
        a, b, c, e = theta[k], theta[k + 1], theta[k + 2], theta[k + 3]
        for j in range(ROWS):
            out[j] += (a * block[k, j] + b * block[k + 1, j]) + (c * block[k + 2, j] + e * block[k + 3, j])
        k += 4
    while k < d:
        a = theta[k]
        for j in range(ROWS):
            out[j] += a * block[k, j]
        k += 1


@helper
def _add_information(curvatures: Any, block: Any, products: Any, work: Any, information: Any) -> None:
    """Add sum w z z' over a block, on and below the diagonal. O(512 d^2 / 2).

    Four rows w z_k meet each row z_l while this is in the first-level cache, which a block is too large for. Some of
    what is above the diagonal is written to as well, and ``products`` and ``work`` are overwritten.
    """
    d = information.shape[0]
    k = 0
    while k + 4 <= d:
        for q in range(4):
            for j in range(ROWS):
                products[q * ROWS + j] = curvatures[j] * block[k + q, j]
        for l in range(k + 4):
            _add_four_products(products, block[l], work, information[k : k + 4, l])
        k += 4
    while k < d:
        for j in range(ROWS):
            products[j] = curvatures[j] * block[k, j]
        _add_products(products, block, k + 1, work, information[k])
        k += 1


@helper
def _add_products(values: Any, block: Any, n: int, work: Any, out: Any) -> None:
    """Add to out[k] the inner product of 512 values with row k of a block, for k < n; ``work`` is overwritten."""
    for k in range(n):
        row = block[k]
        for j in range(LANES):
            work[j] = _lane_product(values, j, _lane(row, j))
        for j in range(16):
            work[j] = _sum_of_four(work, j, 16)
        for j in range(4):
            work[j] = _sum_of_four(work, j, 4)
        out[k] += _sum_of_four(work, 0, 1)


@helper
def _add_four_products(values: Any, row: Any, work: Any, out: Any) -> None:
    """Add to out[q] the inner product of 512 values, from number 512 q on, with a row; ``work`` is overwritten."""
    one, two, three = LANES, 2 * LANES, 3 * LANES
    for j in range(LANES):
        lane = _lane(row, j)
        work[j] = _lane_product(values, j, lane)
        work[one + j] = _lane_product(values, ROWS + j, lane)
        work[two + j] = _lane_product(values, 2 * ROWS + j, lane)
        work[three + j] = _lane_product(values, 3 * ROWS + j, lane)
    for j in range(16):
        work[j] = _sum_of_four(work, j, 16)
        work[one + j] = _sum_of_four(work, one + j, 16)
        work[two + j] = _sum_of_four(work, two + j, 16)
        work[three + j] = _sum_of_four(work, three + j, 16)
    for j in range(4):
        work[j] = _sum_of_four(work, j, 4)
        work[one + j] = _sum_of_four(work, one + j, 4)
        work[two + j] = _sum_of_four(work, two + j, 4)
        work[three + j] = _sum_of_four(work, three + j, 4)
    for q in range(4):
        out[q] += _sum_of_four(work, q * LANES, 1)


@helper
def _lane(row: Any, j: int) -> tuple[float, float, float, float, float, float, float, float]:
    """The eight numbers of a row of 512 that stand 64 apart from j on."""
    return row[j], row[j + 64], row[j + 128], row[j + 192], row[j + 256], row[j + 320], row[j + 384], row[j + 448]


@helper
def _lane_product(values: Any, j: int, lane: Any) -> float:
    """Inner product of a lane with the values that stand 64 apart from j on."""
    return float(
        ((values[j] * lane[0] + values[j + 64] * lane[1]) + (values[j + 128] * lane[2] + values[j + 192] * lane[3]))
        + (
            (values[j + 256] * lane[4] + values[j + 320] * lane[5])
            + (values[j + 384] * lane[6] + values[j + 448] * lane[7])
        )
    )


@helper
def _sum_of_four(values: Any, j: int, step: int) -> float:
    return float((values[j] + values[j + step]) + (values[j + 2 * step] + values[j + 3 * step]))


# --- the maximum on a ball ----------------------------------------------------------------------------------

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
"""B at the anchor, see :func:`bend_basis`."""
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
"""n tau / 2 and n upsilon / 2 for n comparisons, see :func:`bend_basis`; 0 while theta does not follow the bend."""
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


@helper
def length(vector: Any, metric: Any) -> float:
    """sqrt(sum (m_k v_k)^2). O(d)."""
    square = 0.0
    for k in range(vector.size):
        square += (metric[k] * vector[k]) ** 2
    return float(np.sqrt(square))


class Drift(NamedTuple):
    """How theta moved since the last pass, by Delta = theta - anchor.

    errors: its length in standard errors, |Delta|_H, on the boundary with the multiplier's part. reach: its length in
    units of the margins, with the way from where the information was built to the anchor, the two taken for orthogonal.
    concentration: the sum of the squared shares that the features' H_kk Delta_k^2 have in their sum, 1/d for equal
    shares and 1 for a single feature. rare: the error of the gradient that features make of which few comparisons tell,
    in standard errors. lag: that which the multiplier makes that the factor does not know, in standard errors.
    """

    errors: float
    reach: float
    concentration: float
    rare: float
    lag: float


@helper
def farthest_margin(evidence: Any, errors: float) -> float:
    """How far a step of so many standard errors moves margins, |z'p| <= sqrt(z'(H + mu D^2)^-1 z) errors. O(1).

    The root is that of the largest leverage that a comparison had when it came, shrunk as information grows since.
    """
    leverage = evidence.numbers[LEVERAGE]
    return float(np.sqrt(leverage / evidence.codes[N_LEARNED]) * errors) if leverage > 0.0 else np.inf


@helper
def drift(evidence: Any) -> Drift:
    """How theta moved since the last pass. O(d), and O(d^2) on the boundary or where digits were lost.

    Kappa is learned from all features together, but the third derivatives of a feature of which few comparisons tell do
    not cancel as theirs do. Its gradient is off by up to 0.05 sum |z_k|^3 Delta_k^2, which is
    0.1 max |z_k| Delta_k^2 sqrt(sum z_k^2) in standard errors while curvatures are near 1/4. Of more than 30
    comparisons the signs differ, and the error stays what it is for 30. Where theta follows the bend features are much
    alike, and only those count of which much fewer comparisons tell than of another.

    The Delta_k of features that are nearly the same are large and cancel in every margin: neither the reach nor a
    z_k Delta_k counts for more than the :func:`farthest_margin`, unless the feature is a rare one, which the
    comparisons that told of this need not have had.

    Overwrites ``vectors[PULL]`` and ``vectors[RIGHT]``.
    """
    theta, vectors, numbers = evidence.theta, evidence.vectors, evidence.numbers
    moved, work, scales, squares = vectors[PULL], vectors[RIGHT], vectors[SCALES], vectors[SQUARES]
    square, terms, reach, total, concentration, rare = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(theta.size):
        moved[k] = theta[k] - vectors[ANCHOR, k]
        term = moved[k] * vectors[DRIFT, k]
        square += term
        terms += np.abs(term)
        reach += (scales[k] * moved[k]) ** 2
        share = evidence.information[k, k] * moved[k] * moved[k]
        total += share
        concentration += share * share
    # on the sphere theta takes a way that DRIFT knows nothing of
    if numbers[MU] > 0.0 or square < LOST_DIGITS * terms:
        for k in range(theta.size):
            work[k] = moved[k]
        square = squared_gram_norm(evidence.factor, work)
    few = RARE_SHARE * numbers[BEST_KNOWN]
    farthest = farthest_margin(evidence, np.sqrt(square))
    reach = min(reach, farthest * farthest)
    for k in range(theta.size):
        scale = scales[k] * scales[k]
        is_rare = squares[k] < few * scale
        if scale > 0.0 and (is_rare or numbers[BEND] == 0.0):
            way = scale * moved[k] * moved[k]
            if not is_rare:
                way = min(way, farthest * farthest)
            rare += min(squares[k] / scale, FEW) * way * way
    unit = numbers[UNIT]
    return Drift(
        float(np.sqrt(square)),
        float(unit * np.sqrt(reach + numbers[OFFSET] ** 2)),
        float(concentration / max(TINY, total * total)),
        float(LARGEST_THIRD * unit * unit * np.sqrt(rare)),
        float(np.sqrt(whiten_contrast(evidence.factor, vectors[LAG], work))) if numbers[MU] > 0.0 else 0.0,
    )


@helper
def has_turned(numbers: Any) -> bool:
    """Whether comparisons since the last pass are unlike those before, so that what was learned does not hold. O(1)."""
    return bool(numbers[RETURNED] > MOST_RETURNED * numbers[WALKED])


@helper
def predicted_error(evidence: Any, moved: Any) -> float:
    """Distance from the maximum in standard errors, as predicted from the :func:`drift`, with a margin. O(1).

    It is margin (residual + max(kappa errors reach, rare)); a pass is made when this exceeds the tolerance. Where theta
    follows the bend kappa is that of the rest, but at least its own by the concentration: a drift in one feature may
    have an error of another form. On the boundary the lag comes on top. Nothing is predicted, and the error infinite,
    when comparisons since the last pass are unlike those before.

    The margin, 1.5 + 1/d, is larger for few features: there one drift is a poorer guide to the next. Where passes leave
    the information out it is 1.5 + 13/d.
    """
    numbers, d = evidence.numbers, evidence.theta.size
    if has_turned(numbers):
        return float(np.inf)
    kappa = numbers[KAPPA]
    if numbers[BEND] != 0.0:
        kappa = max(numbers[REST], moved.concentration * kappa)
    total = numbers[RESIDUAL] + max(kappa * moved.errors * moved.reach, moved.rare) + moved.lag
    margin = 1.5 + (1.0 if d <= WHOLE_PASS_FEATURES else 13.0) / d
    return float(total * margin)


@kernel
def solve(objective: Any, evidence: Any, tolerance: float) -> None:
    """Minimise the loss on the ball by Newton's method, from ``evidence.theta``.

    Parameters
    ----------
    objective : Objective
    evidence : Evidence
        The history, scales, squares and metric are read, all else is overwritten.
    tolerance : float
        Standard errors to which the minimum is wanted; it is found to a tenth of that.

    Notes
    -----
    A pass costs O(n d^2), and there are at most 60. When pushes had kept theta near the maximum one pass is enough as a
    rule. With more than 16 features that pass leaves the information as it is, and costs O(n d), unless this is old, or
    was built too far away for a step with it to reach the goal.

    A step minimises the quadratic model on the ball; it is cut back until the slope along it has not turned by more
    than a quarter, which needs no value of the loss and so serves scores that have none. The last step is not followed
    by a pass: its error is predicted as the decrement times kappa, at least 0.5 when far away or after comparisons of a
    new kind, times the length of the step in units of the margins, and of the way from where the information was built
    if that was left as it is. The first pass after pushes shows how large the error was, and so how well it had been
    predicted: kappa and the bend follow.
    """
    theta, vectors, numbers, codes = evidence.theta, evidence.vectors, evidence.numbers, evidence.codes
    gradient, step, trial = vectors[GRADIENT], vectors[STEP], vectors[TRIAL]
    d, size = theta.size, evidence.history.size[0]
    near, turned = codes[WARM] == 1 and numbers[MU] == 0.0, has_turned(numbers)
    goal = 0.1 * tolerance
    unit = 4.0 * pdf(objective.model, 0.0)
    numbers[UNIT] = unit if 0.0 < unit < np.inf else 1.0
    for k in range(d):
        step[k] = theta[k] - vectors[BUILT, k]
    stale = length(step, vectors[SCALES])
    drifted = drift(evidence)
    renew = (
        not near
        or d <= WHOLE_PASS_FEATURES
        or codes[ROWS_SINCE] >= RENEW_AFTER * d * size
        # what is predicted stands for the decrement that the pass will find
        or not predicted_error(evidence, drifted) * numbers[KAPPA] * numbers[UNIT] * stale <= goal
    )
    _, _, along_built = bend_basis(evidence, vectors[PULL])
    for k in range(d):
        vectors[PULL, k] -= vectors[BENT, k]
        vectors[PULL_ALONG, k] = (along_built - numbers[BENT_ALONG]) * vectors[BUILT, k]
    into_ball(objective.radius, theta, vectors[METRIC])
    for k in range(d):
        step[k] = 0.0
    expected, fraction, before, n_passes, n_wrong = 0.0, 0.0, 0.0, 0, 0
    settled = False
    while True:
        for k in range(d):
            trial[k] = theta[k] + fraction * step[k]
        n_wrong = score_information(objective, evidence, renew)
        n_passes += 1
        codes[PASSES] += 1
        codes[PASSED_ROWS] += size
        codes[ROWS_SINCE] += size
        after = dot(gradient, step)
        if after < -0.25 * before and n_passes < MAX_PASSES:
            fraction *= max(0.1, before / (before - after))
            continue
        for k in range(d):
            theta[k] = trial[k]
        if renew:
            stale = 0.0
            codes[ROWS_SINCE] = 0
            for k in range(d):
                vectors[BUILT, k] = theta[k]
            decrement = ball_step(objective.radius, evidence)
        else:
            decrement = newton_step(evidence)
        if near and n_passes == 1:
            learn_from_pass(evidence, decrement, drifted)
        near = near and decrement <= 1.0
        kappa = numbers[KAPPA] if near and not turned else max(FIRST_KAPPA, numbers[KAPPA])
        moved = length(step, vectors[SCALES])
        expected = decrement * kappa * numbers[UNIT] * (stale + moved)
        settled = decrement <= goal or (decrement <= 0.5 and expected <= goal)
        before = dot(gradient, step)
        fraction = min(1.0, max(LONGEST_STEP / numbers[UNIT], 2.0 * length(theta, vectors[SCALES])) / moved)
        inside = renew or stays_inside(objective.radius, evidence)
        if inside and (settled or n_passes >= MAX_PASSES):
            break
        if not (decrement < np.inf and moved < np.inf and inside):
            if renew:
                break
            for k in range(d):  # the same point again, with its information
                step[k] = 0.0
            before, settled = 0.0, False
        renew = True
    take_last_step(objective, evidence, settled, expected, n_wrong)


@helper
def into_ball(radius: float, theta: Any, metric: Any) -> None:
    """Shrink theta to the radius if it is longer. O(d)."""
    shrink = min(1.0, radius / max(length(theta, metric), TINY))
    for k in range(theta.size):
        theta[k] *= shrink


@helper
def take_last_step(objective: Any, evidence: Any, settled: bool, expected: float, n_wrong: int) -> None:
    """Take the last step if the search is settled, note how things stand, and let theta follow the bend from here.

    ``expected`` is the distance from the maximum, in standard errors, that is predicted after that step, and
    ``n_wrong`` the number of comparisons that were not explained before it.

    O(d^2), and O(n d) where :func:`_recedes` passes over the history.
    """
    theta, vectors, numbers, codes = evidence.theta, evidence.vectors, evidence.numbers, evidence.codes
    step, size = vectors[STEP], evidence.history.size[0]
    d = theta.size
    if not settled:
        codes[STATUS] = NOT_CONVERGED
    elif objective.ridge == 0.0 and (n_wrong == 0 or _recedes(evidence)):
        codes[STATUS] = SEPARATED
    elif numbers[MU] > 0.0:
        codes[STATUS] = BOUNDARY
    else:
        codes[STATUS] = INTERIOR
    if settled:
        for k in range(d):
            theta[k] += step[k]
        into_ball(objective.radius, theta, vectors[METRIC])  # where H is nearly singular the step is not that exact
    for k in range(d):
        vectors[ANCHOR, k] = theta[k]
        vectors[DRIFT, k] = vectors[LAG, k] = 0.0
        step[k] = theta[k] - vectors[BUILT, k]
    numbers[OFFSET] = length(step, vectors[SCALES])
    numbers[BUILT_SQUARE] = numbers[BEST_KNOWN] = numbers[WALKED] = numbers[RETURNED] = 0.0
    for k in range(d):
        if vectors[SCALES, k] > 0.0:
            numbers[BEST_KNOWN] = max(numbers[BEST_KNOWN], vectors[SQUARES, k] / vectors[SCALES, k] ** 2)
        vectors[LEAD, k] = dot(evidence.information[k], step)
        vectors[CORRECTION, k] = 0.0
        numbers[BUILT_SQUARE] += vectors[BUILT, k] * dot(evidence.information[k], vectors[BUILT])
    _, _, numbers[BENT_ALONG] = bend_basis(evidence, vectors[BENT])
    numbers[BEND], numbers[BEND_ALONG] = 0.0, 0.0
    if numbers[MU] == 0.0 and numbers[REST] < FOLLOW_BELOW * numbers[KAPPA]:
        numbers[BEND], numbers[BEND_ALONG] = learned_bend(numbers)
    numbers[MU_BUILT] = numbers[MU]
    numbers[RESIDUAL] = expected
    codes[WARM] = settled and size >= max(WARM_AFTER, WARM_AFTER_PER_FEATURE * d)
    codes[CURRENT] = codes[N_LEARNED]


# --- the bend -----------------------------------------------------------------------------------------------


@helper
def bend_basis(evidence: Any, out: Any) -> tuple[float, float, float]:
    """The two forms that the error of a quadratic model takes at x = theta - built.

    B(x) = (x'Hx) built + 2 (built'Hx) x,        C(x) = (built'Hx)^2 / (built'H built) built

    Where the gradient of the quadratic model vanishes the true one is T[x, x] / 2, T the third derivatives of minus the
    loss: sums of -psi'''(e) z z z. For centred Gaussian contrasts two numbers tell of all of them, since what z has
    across theta does not depend on the margin e: but for the ridge H^-1 T[x, x] = tau B(x) + upsilon C(x), and the
    maximum lies at half of this from that of the quadratic model. For small margins the mean of psi'''(e) over the two
    answers is proportional to e, and upsilon is 0; the logistic model then has tau / 2 = 1 / n. How well this does for
    other contrasts is learned, see :func:`learn_from_pass`.

    O(d). H x is taken for LEAD + DRIFT, which leaves out what the bend moved and what answers since the pass add to H
    on the way to the anchor. ``out`` becomes B(x). Returns x'Hx, built'Hx, and the factor of built in C(x).
    """
    theta, vectors, square_built = evidence.theta, evidence.vectors, evidence.numbers[BUILT_SQUARE]
    built = vectors[BUILT]
    square, along = 0.0, 0.0
    for k in range(built.size):
        pull = vectors[LEAD, k] + vectors[DRIFT, k]
        square += (theta[k] - built[k]) * pull
        along += built[k] * pull
    for k in range(built.size):
        out[k] = square * built[k] + 2.0 * along * (theta[k] - built[k])
    return square, along, along * along / square_built if square_built > 0.0 else 0.0


@helper
def per_comparison(codes: Any) -> float:
    """What tau / 2 is when n tau / 2 is 1, for n comparisons of which m came since the last pass: (1 - m/2n) / n. O(1).

    The others' errors count from the anchor. Those m were learned on the way from there, and have half as much.
    """
    n, m = float(codes[N_LEARNED]), float(codes[N_LEARNED] - codes[CURRENT])
    return (1.0 - 0.5 * m / n) / n


@helper
def follow_bend(radius: float, evidence: Any) -> None:
    """Correct theta by the bend since the anchor. O(d).

    Where that is too much for a correction, leads out of the ball, or the history has grown by half, theta stays and a
    pass is due; in the first case the coefficients are learned anew.
    """
    theta, vectors, numbers, codes = evidence.theta, evidence.vectors, evidence.numbers, evidence.codes
    step, correction = vectors[STEP], vectors[CORRECTION]
    each = per_comparison(codes)
    first, second = each * numbers[BEND], each * numbers[BEND_ALONG]
    square, along, along_built = bend_basis(evidence, step)
    on_built, on_way = first * square + second * along_built, 2.0 * first * along
    size = on_built * on_built * numbers[BUILT_SQUARE] + on_way * (2.0 * on_built * along + on_way * square)
    more = second * (along_built - numbers[BENT_ALONG])
    for k in range(theta.size):
        step[k] = first * (step[k] - vectors[BENT, k]) + more * vectors[BUILT, k] - correction[k]
    is_small = size <= MOST_BENT * MOST_BENT * square
    if not is_small:
        for place in range(KNOWN, FOUND_ALONG + 1):
            numbers[place] = 0.0
    if not is_small or codes[N_LEARNED] > MOST_GROWN * codes[CURRENT] or not stays_inside(radius, evidence):
        numbers[RESIDUAL] = np.inf
        return
    for k in range(theta.size):
        theta[k] += step[k]
        correction[k] += step[k]


@helper
def learn_from_pass(evidence: Any, decrement: float, drifted: Any) -> None:
    """Learn kappa, rest and the bend from the first pass since pushes, which shows an error of ``decrement``.

    ``vectors[PULL]`` and ``vectors[PULL_ALONG]`` are what B and C gained since the anchor; they are overwritten. The
    error that the pass would have found with other coefficients is what it found and what was corrected; the
    coefficients are fitted to that, in standard errors. Kappa is the error without the bend, less the residual, by the
    drift's errors and reach; rest is the same with the coefficients known so far; neither falls fast. Nothing is
    learned where the residual is infinite, since theta did not follow the bend to the end.

    O(d^2).
    """
    numbers, vectors, codes = evidence.numbers, evidence.vectors, evidence.codes
    b, c, measure, each = vectors[PULL], vectors[PULL_ALONG], drifted.errors * drifted.reach, per_comparison(codes)
    if not (0.0 < measure < np.inf and decrement < np.inf and numbers[RESIDUAL] < np.inf):
        return
    for k in range(b.size):
        b[k] *= each
        c[k] *= each
    gb, gc = dot(vectors[GRADIENT], b), dot(vectors[GRADIENT], c)
    bb, cc = squared_gram_norm(evidence.factor, b), squared_gram_norm(evidence.factor, c)
    bc = dot(b, c)  # in standard errors now
    codes[LESSONS] += 1
    known = learned_bend(numbers)
    for place, first, second in ((KAPPA, 0.0, 0.0), (REST, known[0], known[1])):
        p, q = numbers[BEND] - first, numbers[BEND_ALONG] - second
        square = decrement * decrement + p * (2.0 * gb + p * bb) + q * (2.0 * gc + q * cc) + 2.0 * p * q * bc
        found = np.sqrt(max(0.0, square)) - numbers[RESIDUAL]
        numbers[place] = learned_kappa(numbers[place], found / measure, codes[LESSONS])
    if drifted.reach <= FARTHEST_BEND and decrement <= 1.0 and bb < np.inf and cc < np.inf:
        p, q = numbers[BEND], numbers[BEND_ALONG]
        numbers[KNOWN] = BEND_DECAY * numbers[KNOWN] + bb
        numbers[KNOWN_BOTH] = BEND_DECAY * numbers[KNOWN_BOTH] + bc
        numbers[KNOWN_ALONG] = BEND_DECAY * numbers[KNOWN_ALONG] + cc
        numbers[FOUND] = BEND_DECAY * numbers[FOUND] + gb + p * bb + q * bc
        numbers[FOUND_ALONG] = BEND_DECAY * numbers[FOUND_ALONG] + gc + p * bc + q * cc


@helper
def learned_bend(numbers: Any) -> tuple[float, float]:
    """n tau / 2 and n upsilon / 2 as learned; 0 while nothing was. O(1)."""
    known, both = numbers[KNOWN], numbers[KNOWN_BOTH]
    along = numbers[KNOWN_ALONG] + SECOND_RIDGE * known
    determinant = known * along - both * both
    if not determinant > 0.0:
        return 0.0, 0.0
    first = (along * numbers[FOUND] - both * numbers[FOUND_ALONG]) / determinant
    return first, (known * numbers[FOUND_ALONG] - both * numbers[FOUND]) / determinant


@helper
def learned_kappa(before: float, found: float, lessons: int) -> float:
    """Kappa after it was found anew: it falls slowly. O(1)."""
    decay = FIRST_DECAY if lessons <= FIRST_LESSONS else KAPPA_DECAY
    return float(min(LARGEST_KAPPA, max(SMALLEST_KAPPA, found, decay * before)))


# --- steps --------------------------------------------------------------------------------------------------


@helper
def newton_step(evidence: Any) -> float:
    """Step p = H^-1 g with the information on hand; returns its length sqrt(g'H^-1 g) in standard errors. O(d^2)."""
    whitened = evidence.vectors[WHITENED]
    square = whiten_contrast(evidence.factor, evidence.vectors[GRADIENT], whitened)
    unwhiten(evidence.factor, whitened, evidence.vectors[STEP])
    return float(np.sqrt(square))


@helper
def stays_inside(radius: float, evidence: Any) -> bool:
    """Whether theta + step lies in the ball. O(d)."""
    theta, vectors = evidence.theta, evidence.vectors
    square = 0.0
    for k in range(theta.size):
        square += (vectors[METRIC, k] * (theta[k] + vectors[STEP, k])) ** 2
    return square <= radius * radius


@helper
def ball_step(radius: float, evidence: Any) -> float:
    """Step that maximises g'p - p'Hp/2 while |D (theta + p)| <= radius.

    p = (H + mu D^2)^-1 (g - mu D^2 theta), with mu = 0 if that lies in the ball; otherwise Newton's method on the
    secular equation 1/|D (theta + p)| = 1/radius, which converges from below.

    Parameters
    ----------
    radius : float
    evidence : Evidence
        theta, metric, gradient and information are read; step, factor, penalised, mu and scratch are overwritten.

    Returns
    -------
    float
        The decrement sqrt(p'(H + mu D^2) p): the length of the step in standard errors; nan when the information is not
        finite.

    Notes
    -----
    O(d^3). To the diagonal of H a few trillionths are added, so that directions of which the data know nothing, in
    which the gradient is zero, get a step of zero.
    """
    theta, vectors, factor, penalised = evidence.theta, evidence.vectors, evidence.factor, evidence.penalised
    metric, gradient, step = vectors[METRIC], vectors[GRADIENT], vectors[STEP]
    right, whitened = vectors[RIGHT], vectors[WHITENED]
    d = theta.size
    mu, decrement = 0.0, 0.0
    for _ in range(100):
        for k in range(d):
            right[k] = gradient[k] - mu * metric[k] * metric[k] * theta[k]
            for l in range(d):
                penalised[k, l] = evidence.information[k, l]
            penalised[k, k] = (penalised[k, k] + mu * metric[k] * metric[k]) * (1.0 + 4.0 * PIVOT_TOLERANCE * d)
            if penalised[k, k] == 0.0:
                penalised[k, k] = 1.0
        if not factorise(penalised, factor):
            return np.nan
        decrement = np.sqrt(whiten_contrast(factor, right, whitened))
        unwhiten(factor, whitened, step)
        square = 0.0
        for k in range(d):
            square += (metric[k] * (theta[k] + step[k])) ** 2
        size = np.sqrt(square)
        if (mu == 0.0 and not size > radius) or np.abs(size - radius) <= 1e-12 * radius or not size < np.inf:
            break
        for k in range(d):
            right[k] = metric[k] * metric[k] * (theta[k] + step[k])
        normal = whiten_contrast(factor, right, whitened)
        mu = max(0.0, mu + square / normal * (size - radius) / radius)
    evidence.numbers[MU] = mu
    return float(decrement)


@helper
def _recedes(evidence: Any) -> bool:
    """True when the last step, tiny in standard errors, still moves margins and makes none of them smaller.

    Such a direction shows that the likelihood grows for ever along it: some comparisons are separated. An inverse
    iteration first frees it of the step's share along directions that the data do know. It is kept, since steps along
    it die out once no information is left there, and tested again: an answer may have contradicted it.

    O(d^2), and one more pass, O(n d), where there is such a step or direction.
    """
    vectors, factor = evidence.vectors, evidence.factor
    step, kept, scales = vectors[STEP], vectors[RECESSION], vectors[SCALES]
    direction, right, whitened = vectors[PULL], vectors[RIGHT], vectors[WHITENED]
    d = step.size
    if length(step, scales) >= 1e-2:
        for k in range(d):
            right[k] = scales[k] * scales[k] * step[k]
        whiten_contrast(factor, right, whitened)
        unwhiten(factor, whitened, direction)
        size = length(direction, scales)
        for k in range(d):
            direction[k] /= size
        if size < np.inf and _explains_for_ever(direction, evidence):
            for k in range(d):
                kept[k] = direction[k]
            return True
    return length(kept, scales) > 0.0 and _explains_for_ever(kept, evidence)


@helper
def _explains_for_ever(direction: Any, evidence: Any) -> bool:
    """Whether going along a direction makes some margins larger and none smaller. O(n d)."""
    history, margins = evidence.history, np.empty(ROWS)
    size = history.size[0]
    smallest, largest = 0.0, 0.0
    for b in range((size + ROWS - 1) // ROWS):
        _margins(direction, history.blocks[history.owned[b]], margins)
        for j in range(ROWS):
            smallest = min(smallest, margins[j])
            largest = max(largest, margins[j])
    return largest > 1e-2 and smallest >= -1e-6 * largest


# --- one more comparison -----------------------------------------------------------------------


@helper
def push(objective: Any, evidence: Any, contrast: Any, sign: float, limit: float) -> bool:
    """Learn one comparison by an implicit Newton step: exact if all earlier terms of the loss were quadratic.

    With v = H^-1 z~ and q = z~'v, the slope s at the new theta + s v solves s = S(e + q s). Then theta += s v, and the
    curvature at the new margin enters H. On the boundary v is made tangent to the ball. Returns False, and leaves theta
    and the multiplier as they are, when the step would be longer than ``limit`` standard errors, or leads out of the
    ball or off its boundary. The factor may hold the comparison already, so that a solve must come next.

    O(d^2).
    """
    theta, vectors, numbers, factor = evidence.theta, evidence.vectors, evidence.numbers, evidence.factor
    whitened, v, anchor, drifted = vectors[WHITENED], vectors[STEP], vectors[ANCHOR], vectors[DRIFT]
    d = theta.size
    q = whiten_contrast(factor, contrast, whitened)
    numbers[LEVERAGE] = max(numbers[LEVERAGE], evidence.codes[N_LEARNED] * q)
    e = sign * dot(theta, contrast)
    on_ball = numbers[MU] > 0.0
    change = 0.0  # of the multiplier, for a slope of 1
    if on_ball:
        unwhiten(factor, whitened, v)
        change = sign * tangent(factor, vectors, theta)
        q = max(0.0, dot(v, contrast))
    first = slope_and_curvature(objective, e)
    s, w = implicit_slope(objective, e, q, first)
    if not s * np.sqrt(q) <= limit or (on_ball and not numbers[MU] + s * change > 0.0):
        return False
    if evidence.calibration.scores.shape[1] > 0:
        calibrate(evidence, contrast, sign * first[0], first[1])
    step, root, work = sign * s, np.sqrt(w), v
    if on_ball:
        work = vectors[GRADIENT]
    elif root > 0.0:
        step /= root  # rank_one_inverse leaves root v in its work
    else:
        unwhiten(factor, whitened, v)
    if root > 0.0:
        for k in range(d):
            whitened[k] *= root
        rank_one_inverse(factor, whitened, work)
    metric, square, trial = vectors[METRIC], 0.0, v
    for k in range(d):
        trial[k] = theta[k] + step * v[k]
        square += (metric[k] * trial[k]) ** 2
    back = 0.0
    if on_ball:
        back = way_back(objective.radius, vectors, trial, square)
        if not numbers[MU] + s * change + back > 0.0:
            return False
        numbers[MU] += s * change + back
    elif np.sqrt(square) > objective.radius:
        return False
    moved, lag = 0.0, numbers[MU] - numbers[MU_BUILT]
    for k in range(d):
        if on_ball:
            trial[k] -= back * vectors[PULL, k]
            vectors[LAG, k] += lag * metric[k] * metric[k] * (trial[k] - theta[k])
        theta[k] = trial[k]
        moved += contrast[k] * (theta[k] - anchor[k])
    numbers[WALKED] += s * s * q
    numbers[RETURNED] += w * moved * moved
    pull = sign * s + w * moved
    for k in range(d):
        drifted[k] += pull * contrast[k]
    return True


@helper
def way_back(radius: float, vectors: Any, trial: Any, square: float) -> float:
    """The c with which trial - c (H + mu D^2)^-1 n lies on the ball again; nan where none does. O(d).

    ``square`` is |D trial|^2, and ``vectors[PULL]`` holds that direction for the normal n before the step. To go back
    along it adds c to the multiplier and leaves the gradient otherwise as it is: to shrink theta would not.
    """
    metric, pull = vectors[METRIC], vectors[PULL]
    along, across = 0.0, 0.0
    for k in range(trial.size):
        weight = metric[k] * metric[k] * pull[k]
        along += weight * trial[k]
        across += weight * pull[k]
    excess = square - radius * radius
    return float(excess / (along + np.sqrt(along * along - across * excess)))


@helper
def is_far_inside(radius: float, evidence: Any) -> bool:
    """Whether theta is at most half as long as the ball is wide, in its metric and in the scales of the data. O(d)."""
    theta, vectors = evidence.theta, evidence.vectors
    return max(length(theta, vectors[METRIC]), length(theta, vectors[SCALES])) <= 0.5 * radius


@helper
def tangent(factor: Any, vectors: Any, theta: Any) -> float:
    """Make the step v tangent to the ball, v -= (n'v / n'H^-1 n) H^-1 n with the normal n = D^2 theta. O(d^2).

    Returns n'v / n'H^-1 n, the change of the multiplier that goes with it. Overwrites RIGHT, PULL and GRADIENT.
    """
    v, normal, pull, metric, work = vectors[STEP], vectors[RIGHT], vectors[PULL], vectors[METRIC], vectors[GRADIENT]
    for k in range(theta.size):
        normal[k] = metric[k] * metric[k] * theta[k]
    square = whiten_contrast(factor, normal, work)
    unwhiten(factor, work, pull)
    share = dot(v, normal) / square
    for k in range(theta.size):
        v[k] -= share * pull[k]
    return float(share)


@helper
def implicit_slope(objective: Any, e: float, q: float, first: tuple[float, float]) -> tuple[float, float]:
    """The s that solves s = S(e + q s), and the curvature there: Newton's method in 0 <= s <= S(e), since S falls.

    ``first`` is slope and curvature at e.

    A step that does not end strictly inside the bracket, or is not half as long as the last, gives way to a halving of
    the logarithms of the bracket: s may be tiny beside S(e), and where S has a kink Newton's method alone may go to and
    fro for ever. A last step of Newton's is not followed by another look at the curvature when, as far as the last two
    tell, it would matter less than 1e-12 of the information.
    """
    low, share = 0.0, 0.5
    high, w = first
    s = high / (1.0 + q * w)
    last = s
    for _ in range(100):
        before = w
        f, w = slope_and_curvature(objective, e + q * s)
        excess = s - f
        if excess > 0.0:
            high = s
        else:
            low = s
        step = excess / (1.0 + q * w)
        size = np.abs(step)
        if size <= 1e-12 * s:
            break
        settled = False
        if low < s - step < high and size <= 0.5 * last:
            settled = size <= 1e-3 * s and q * np.abs(w - before) * size <= 1e-12 * last
        elif low > 0.0:
            step = s - np.sqrt(low) * np.sqrt(high)
        else:  # of zero there is no logarithm
            step = s - max(TINY, share * high)
            share *= share
        s -= step
        if settled:
            break
        last = np.abs(step)
    return s, w


@helper
def learn_exactly(objective: Any, evidence: Any, contrast: Any, won: bool, keep: bool) -> bool:
    """Learn one comparison, and keep it in the history if wanted; False, and nothing is changed, when that is full.

    O(d^2).
    """
    sign = 1.0 if won else -1.0
    codes, scales, squares = evidence.codes, evidence.vectors[SCALES], evidence.vectors[SQUARES]
    if keep and not append(evidence.history, contrast, sign):
        return False
    new_scale, new_feature = False, False
    for k in range(contrast.size):
        squares[k] += contrast[k] * contrast[k]
        if np.abs(contrast[k]) > scales[k]:
            new_feature = new_feature or scales[k] == 0.0
            scales[k] = np.abs(contrast[k])
            new_scale = True
    codes[N_LEARNED] += 1
    if codes[WARM] == 1:
        limit = 1.0 if keep else np.inf  # without a history there is nothing to solve
        # on the ball, or near it, a new scale changes the ball; of a new feature the information knows nothing
        stays_warm = not (new_scale and objective.scaled) or (
            evidence.numbers[MU] == 0.0 and is_far_inside(objective.radius, evidence)
        )
        if keep and new_feature:
            stays_warm = False
        if not (stays_warm and push(objective, evidence, contrast, sign, limit)):
            codes[WARM] = 0
        elif keep and evidence.numbers[BEND] != 0.0:
            follow_bend(objective.radius, evidence)
    return True


# --- a test of the predictions ------------------------------------------------------------------------------

FIRST_WINDOW = 64
"""Comparisons in the first window at least. The others are as long as all that was learned before them."""
PRIOR = 0.125
"""Of the test: a bias of 1/sqrt(PRIOR) standard errors, as of the window's beginning, is what it looks for first."""
LEAST_ODDS = 2.0 * math.log(1e5)
"""The test fails here; by chance that happens in less than one of 100,000 windows."""


@helper
def calibrate(evidence: Any, contrast: Any, pull: float, curvature: float) -> None:
    """Add a comparison, not yet learned, to the test of the predictions; ``pull`` is s with the sign of the answer.

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
        sizes[0], sizes[1], sizes[2] = 0, sizes[0], max(FIRST_WINDOW, evidence.codes[N_LEARNED])
    sizes[0] += 1
    spreads[0, 0] += pull * pull
    spreads[0, 1] += curvature
    for k in range(d):
        scores[0, k] += pull * contrast[k]


def odds(evidence: Evidence) -> float:
    """Twice the logarithm of the odds against theta in the window that tells more of them.

    g'(A + V)^-1 g - log det(A + V)/det A

    V = phi (H - H_0), where H grew from H_0 within the window, is the variance of g: w has the mean of s^2 for the
    likelihood, and phi = sum s^2 / sum w, at least 1, makes up for it where not. A = PRIOR H_0. While theta is right
    exp(l'g - l'Vl/2) is a martingale for each l, up to third order, and so is its mean over l ~ N(0, A^-1), whose
    logarithm is half of this. By Ville's inequality it exceeds log(1/p) at any time of the window with a probability of
    at most p. That of an estimate which learns from the same answers has mean zero too, taken over all that the truth
    may be: the innovations of a linear model are as independent as its errors.

    O(d^3).

    References
    ----------
    Abbasi-Yadkori, Pal, Szepesvari (2011), Improved algorithms for linear stochastic bandits, theorem 1.
    """
    test, largest = evidence.calibration, 0.0
    for k, end in enumerate((evidence.factor, test.starts[0])):
        if test.sizes[k] > 0:
            start, (squares, curvatures) = test.starts[k], test.spreads[k]
            grown = np.linalg.solve(end.T, start.T)  # of which grown'grown = S_0 H S_0': no digit of H - H_0 is lost
            values, axes = np.linalg.eigh(grown.T @ grown)
            known = max(1.0, squares / max(curvatures, TINY)) * np.maximum(values - 1.0, 0.0)
            along = axes.T @ (start @ test.scores[k])
            largest = max(largest, float(np.sum(along**2 / (PRIOR + known) - np.log1p(known / PRIOR))))
    return largest


@helper
def is_inexact(evidence: Any, tolerance: float) -> bool:
    """Whether theta may be further from the maximum than the tolerance. O(d), and scratch, see :func:`drift`."""
    codes = evidence.codes
    if codes[CURRENT] == codes[N_LEARNED]:
        return False
    return codes[WARM] == 0 or not predicted_error(evidence, drift(evidence)) <= tolerance


def distance(evidence: Evidence, exact: Evidence) -> float:
    """Distance of an estimate from the exact one, in the standard errors of the latter."""
    off = evidence.theta - exact.theta
    penalised = exact.information + np.diag(exact.numbers[MU] * exact.vectors[METRIC] ** 2)
    return float(np.sqrt(np.maximum(off @ penalised @ off, 0.0)))
