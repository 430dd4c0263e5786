"""The maximum of the likelihood on a ball, found by passes over all comparisons and kept up with each new one.

The loss, its slope s and curvature w, and the distance of two estimates are those of `fastcolst.estimation.objective`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastcolst._compile import helper, kernel
from fastcolst.comparison import pdf
from fastcolst.estimation.bend import bend_basis, follow_bend, learn_from_pass, learned_bend
from fastcolst.estimation.calibration import calibrate
from fastcolst.estimation.drift import WHOLE_PASS_FEATURES, drift, has_turned, predicted_error
from fastcolst.estimation.evidence import (
    ANCHOR,
    BEND,
    BEND_ALONG,
    BENT,
    BENT_ALONG,
    BEST_KNOWN,
    BOUNDARY,
    BUILT,
    BUILT_SQUARE,
    CORRECTION,
    CURRENT,
    DRIFT,
    FIRST_KAPPA,
    GRADIENT,
    INTERIOR,
    KAPPA,
    LAG,
    LEAD,
    LEVERAGE,
    METRIC,
    MU,
    MU_BUILT,
    N_LEARNED,
    NOT_CONVERGED,
    OFFSET,
    PASSED_ROWS,
    PASSES,
    PULL,
    PULL_ALONG,
    RECESSION,
    RESIDUAL,
    REST,
    RETURNED,
    RIGHT,
    ROWS_SINCE,
    SCALES,
    SEPARATED,
    SQUARES,
    STATUS,
    STEP,
    TINY,
    TRIAL,
    UNIT,
    WALKED,
    WARM,
    WHITENED,
    Evidence,
)
from fastcolst.estimation.history import ROWS, append
from fastcolst.estimation.objective import slope_and_curvature
from fastcolst.estimation.passes import block_margins, score_information
from fastcolst.estimation.steps import ball_step, into_ball, length, newton_step, stays_inside
from fastcolst.kernels.linalg import dot, rank_one_inverse, unwhiten, whiten_contrast

__all__ = ["distance", "learn_exactly", "push", "solve"]

WARM_AFTER = 50
WARM_AFTER_PER_FEATURE = 5
"""Comparisons before single answers are pushed, whichever is more: fewer leave the information far from its limit."""
MAX_PASSES = 60
FOLLOW_BELOW = 0.5
"""Theta follows the bend when this leaves less than half of kappa."""
RENEW_AFTER = 0.12
"""With more features the information is renewed after 0.12 d passes without it."""
LONGEST_STEP = 20.0
"""In units of the margins, where theta is smaller: far from the maximum H may vanish."""


# --- the maximum on a ball ----------------------------------------------------------------------------------


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
        block_margins(direction, history.blocks[history.owned[b]], margins)
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


def distance(evidence: Evidence, exact: Evidence) -> float:
    """Distance of an estimate from the exact one, in the standard errors of the latter."""
    off = evidence.theta - exact.theta
    penalised = exact.information + np.diag(exact.numbers[MU] * exact.vectors[METRIC] ** 2)
    return float(np.sqrt(np.maximum(off @ penalised @ off, 0.0)))
