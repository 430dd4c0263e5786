"""One more comparison, learned by an implicit step of Newton's method."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastcolst._compile import helper
from fastcolst.estimation.history import append, has_room
from fastcolst.estimation.objective import slope_and_curvature
from fastcolst.estimation.prediction import answers_are_few
from fastcolst.kernels.linalg import dot, rank_one_inverse, unwhiten, whiten_contrast

__all__ = ["implicit_slope", "keep", "learn_by_push", "push", "unlearn"]

LONGEST_PUSH = 1.0
"""Standard errors. How far off a longer step is nobody knows: a pass is due."""
FARTHEST_PUSH = 10.0
"""Units of margins. On its way over so many the curvature of the logistic loss changes by a factor of e^10, so that the
information from before says nothing of how long a push is in standard errors. Beyond it a pass is due."""
SMALLEST = 1e-300
"""The least slope that is tried while the bracket still begins at 0, of which there is no geometric mean."""


@helper
def keep(history: Any, contrast: Any, share: float, weight: float) -> bool:
    """Append a comparison to the history; False, and nothing is changed, when that is full. O(d).

    A tie, or any ``share`` of a win strictly between 0 and 1, is kept as a win and a loss of less weight.
    """
    if not has_room(history, 2 if 0.0 < share < 1.0 else 1):
        return False
    if share > 0.0:
        append(history, contrast, 1.0, weight * share)
    if share < 1.0:
        append(history, contrast, -1.0, weight * (1.0 - share))
    return True


@helper
def learn_by_push(objective: Any, evidence: Any, contrast: Any, share: float, weight: float) -> bool:
    """Learn one comparison, which the history holds already if it keeps it at all, by a push where one will do.

    Returns whether one did. Where none will, ``warm`` is cleared, by which a pass is due before theta is wanted: when
    theta was not warm before; when a push would leave the ball or its boundary; for a new feature, of which a factor
    without a ridge knows nothing; and for a new scale of a feature on the boundary of the ball that changes with it,
    unless answers are few.

    O(d^2).
    """
    features, progress = evidence.features, evidence.progress[()]
    has_new_scale, has_new_feature = False, False
    for k in range(contrast.size):
        size = np.abs(contrast[k])
        if size > features[k].scale:
            has_new_feature = has_new_feature or features[k].scale == 0.0
            features[k].scale = size
            has_new_scale = True
    progress.learned += 1
    if progress.warm == 0:
        return False
    is_new_ball = has_new_scale and objective.scaled and progress.multiplier > 0.0
    if (has_new_feature and objective.ridge == 0.0) or (
        is_new_ball and not answers_are_few(objective.ridge, progress, contrast.size)
    ):
        progress.warm = 0
    else:
        progress.warm = 1 if push(objective, evidence, contrast, share, weight) else 0
    return bool(progress.warm == 1)


@helper
def unlearn(progress: Any) -> None:
    """Take back a comparison whose push was refused, where no solve can come next. O(1)."""
    progress.learned -= 1
    progress.warm = 1


@helper
def push(  # noqa: C901 - one step, in the order of its formulas
    objective: Any, evidence: Any, contrast: Any, share: float, weight: float
) -> bool:
    """Move theta by an implicit Newton step: exact if all earlier terms of the loss were quadratic.

    S(e) = -psi'(e) is the slope of one comparison of weight 1 at the margin e = z~'theta, and that of a tie is of both
    its halves: two steps would walk to and fro, and the way back would not show how far the first was off. With
    v = M^-1 z~ and q = z~'v, the slope s at the new theta + s v solves s = weight S(e + q s). Then theta += s v, and
    the curvature at the new margin enters M. On the boundary v is made tangent to the ball. Returns False, and leaves
    theta and the multiplier as they are, when a number overflows or the step would lead out of the ball or off its
    boundary. The factor may hold the comparison already, so that a solve must come next.

    O(d^2).
    """
    theta, factor, features, scratch = evidence.theta, evidence.factor, evidence.features, evidence.scratch
    progress = evidence.progress[()]
    whitened, v, work = scratch[0], scratch[1], scratch[4]
    on_ball = progress.multiplier > 0.0
    own = whiten_contrast(factor, contrast, whitened)  # z'M^-1 z
    if not own < np.inf:
        return False
    margin = dot(theta, contrast)
    sign = 1.0 if share == 1.0 or (share > 0.0 and pull(objective, margin, share)[0] >= 0.0) else -1.0
    q, change = own, 0.0  # the latter of the multiplier, for a slope of 1
    if on_ball:
        unwhiten(factor, whitened, v)
        change = sign * _make_tangent(objective, evidence)
        q = max(0.0, dot(v, contrast))
    s, w = implicit_slope(objective, sign * margin, weight * q, share if sign > 0.0 else 1.0 - share)
    s, w = weight * s, weight * w
    size = s * np.sqrt(q)
    if not size < np.inf or not progress.multiplier + s * change >= 0.0:
        return False
    root, length = np.sqrt(w), sign * s
    if root > 0.0:
        for k in range(theta.size):
            whitened[k] *= root
        rank_one_inverse(factor, whitened, work)  # leaves root M^-1 z in its work
    direction = v
    if not on_ball and root > 0.0:
        direction, length = work, length / root
    elif not on_ball:
        unwhiten(factor, whitened, v)
    square = 0.0
    for k in range(theta.size):
        v[k] = theta[k] + length * direction[k]
        scaled = _metric(objective, features, k) * v[k]
        square += scaled * scaled
    if on_ball:
        if not _return_to_ball(objective, evidence, square, s * change):
            return False
    elif not square <= objective.radius * objective.radius:
        return False
    progress.leverage = max(progress.leverage, progress.learned * own / (1.0 + w * own))
    progress.walked += size * size
    if size > LONGEST_PUSH or progress.unit * s * q > FARTHEST_PUSH:
        progress.remaining = np.inf
    way = _move(theta, features, v, contrast)
    progress.returned += w * way * way
    square, widest = _drift_by(theta, features, contrast, sign * s + w * way)
    progress.moved = np.sqrt(square)
    progress.reach = progress.unit * np.sqrt(min(widest, progress.leverage / progress.learned * square))
    return True


@helper
def _move(theta: Any, features: Any, trial: Any, contrast: Any) -> float:
    """Move theta to the trial; returns z'(theta - anchor). O(d)."""
    margin = 0.0
    for k in range(theta.size):
        theta[k] = trial[k]
        margin += contrast[k] * (theta[k] - features[k].anchor)
    return margin


@helper
def _drift_by(theta: Any, features: Any, contrast: Any, slope: float) -> tuple[float, float]:
    """Add the slope of a comparison, times z, to the drift; returns |Delta|_M^2 and sum (max|z_k| Delta_k)^2. O(d)."""
    square, widest = 0.0, 0.0
    for k in range(theta.size):
        way = theta[k] - features[k].anchor
        features[k].drift += slope * contrast[k]
        square += features[k].drift * way
        scaled = features[k].scale * way
        widest += scaled * scaled
    return square, widest


@helper
def _make_tangent(objective: Any, evidence: Any) -> float:
    """Make v in ``scratch[1]`` tangent to the ball, v -= (n'v / n'M^-1 n) M^-1 n with the normal n = D^2 theta. O(d^2).

    Returns n'v / n'M^-1 n, the change of the multiplier that goes with it; n and M^-1 n are left in ``scratch[2:4]``.
    """
    theta, factor, scratch = evidence.theta, evidence.factor, evidence.scratch
    v, normal, inward, work = scratch[1], scratch[2], scratch[3], scratch[4]
    for k in range(theta.size):
        metric = _metric(objective, evidence.features, k)
        normal[k] = metric * metric * theta[k]
    square = whiten_contrast(factor, normal, work)
    unwhiten(factor, work, inward)
    tilt = dot(v, normal) / square
    for k in range(theta.size):
        v[k] -= tilt * inward[k]
    return float(tilt)


@helper
def _return_to_ball(objective: Any, evidence: Any, square: float, change: float) -> bool:
    """Go back to the ball along M^-1 n, n = D^2 theta, and note what the multiplier becomes; False where it ends.

    ``square`` is |D trial|^2 for the trial in ``scratch[1]``, and ``change`` the change of the multiplier so far; n and
    M^-1 n are those before the step. To go back by c M^-1 n adds c to the multiplier and leaves the gradient otherwise
    as it is: to shrink theta would not. The multiplier's changes since the last pass, which the factor does not know,
    leave an error of the gradient, the lag. O(d^2).
    """
    theta, features, scratch, progress = evidence.theta, evidence.features, evidence.scratch, evidence.progress[()]
    trial, normal, inward, work = scratch[1], scratch[2], scratch[3], scratch[4]
    along, across = 0.0, 0.0
    for k in range(theta.size):
        metric = _metric(objective, features, k)
        weight = metric * metric * inward[k]
        along += weight * trial[k]
        across += weight * inward[k]
    excess = square - objective.radius * objective.radius
    back = excess / (along + np.sqrt(along * along - across * excess))
    multiplier = progress.multiplier + change + back
    if not multiplier > 0.0:
        return False
    lag = multiplier - progress.multiplier_built
    for k in range(theta.size):
        trial[k] -= back * inward[k]
        features[k].drift -= (change + back) * normal[k]
        metric = _metric(objective, features, k)
        features[k].lag += lag * metric * metric * (trial[k] - theta[k])
        normal[k] = features[k].lag
    progress.multiplier = multiplier
    progress.lag = np.sqrt(whiten_contrast(evidence.factor, normal, work))
    return True


@helper
def _metric(objective: Any, features: Any, k: int) -> float:
    """m_k of the ball |D theta| <= radius, D = diag(m)."""
    return float(features[k].scale if objective.scaled else 1.0)


@helper
def pull(objective: Any, e: float, share: float) -> tuple[float, float]:
    """Slope and curvature of one comparison at the margin e; of both halves where the win is shared."""
    s, w = slope_and_curvature(objective, e)
    if share < 1.0:
        back, bend = slope_and_curvature(objective, -e)
        s, w = share * s - (1.0 - share) * back, share * w + (1.0 - share) * bend
    return s, w


@helper
def implicit_slope(objective: Any, e: float, q: float, share: float) -> tuple[float, float]:
    """The s that solves s = S(e + q s), and the curvature there: Newton's method in 0 <= s <= S(e), since S falls.

    S(e) is the slope of :func:`pull`, which must not be negative.

    A step that does not end strictly inside the bracket, or is more than half as long as the last, gives way to the
    geometric mean of the bracket's ends: s may be tiny beside S(e), and where S has a kink Newton's method alone may
    oscillate for ever. A last step of Newton's is not followed by another look at the curvature when, as far as the
    last two tell, it would matter less than 1e-13 of the information: of 5,000 answers less than 1e-9.
    """
    low, shrinking = 0.0, 0.5
    high, w = pull(objective, e, share)
    s = high / (1.0 + q * w)
    last = s
    for _ in range(100):
        before = w
        f, w = pull(objective, e + q * s, share)
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
            settled = size <= 1e-3 * s and q * np.abs(w - before) * size <= 1e-13 * last
        elif low > 0.0:
            step = s - np.sqrt(low) * np.sqrt(high)
        else:  # the bracket begins at 0: a half of its end, then a quarter, a sixteenth, and so on
            step = s - max(SMALLEST, shrinking * high)
            shrinking *= shrinking
        s -= step
        if settled:
            break
        last = np.abs(step)
    return s, w
