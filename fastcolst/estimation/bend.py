"""The bend: the third-order error of a quadratic model of the loss, as it is learned and corrected."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastcolst._compile import helper
from fastcolst.estimation.evidence import (
    BEND,
    BEND_ALONG,
    BENT,
    BENT_ALONG,
    BUILT,
    BUILT_SQUARE,
    CORRECTION,
    CURRENT,
    DRIFT,
    FOUND,
    FOUND_ALONG,
    GRADIENT,
    KAPPA,
    KNOWN,
    KNOWN_ALONG,
    KNOWN_BOTH,
    LEAD,
    LESSONS,
    N_LEARNED,
    PULL,
    PULL_ALONG,
    RESIDUAL,
    REST,
    STEP,
)
from fastcolst.estimation.steps import stays_inside
from fastcolst.kernels.linalg import dot, squared_gram_norm

__all__ = ["bend_basis", "follow_bend", "learn_from_pass", "learned_bend"]

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
SECOND_RIDGE = 0.001
"""Ridge of the bend's second coefficient, in units of what is known of the first: it is of the first one's size."""
MOST_BENT = 0.2
"""The bend corrects theta by up to this share of its way from where the information was built."""
MOST_GROWN = 1.5
"""Growth of the history since a pass up to which theta follows the bend."""


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
