"""The maximum on a ball, found by Newton's method in passes over the history.

What is frequent, the pass itself, is compiled; the steps between passes are NumPy's and LAPACK's.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._blas import on_one_thread
from fastcolst._compile import plain
from fastcolst.estimation.objective import Objective
from fastcolst.estimation.passes import pass_over
from fastcolst.estimation.prediction import answers_are_few, predicted_error
from fastcolst.estimation.records import BOUNDARY, INTERIOR, NOT_CONVERGED, SEPARATED, Evidence, Progress, Settings
from fastcolst.estimation.separation import recession_from
from fastcolst.kernels.linalg import SHARE_TOLERANCE, inverse_factor

__all__ = ["distance", "maximise", "solve"]

NOTHING = np.empty((0, 0))
"""In place of an information that is not wanted."""

SHORTEST_CUT = 0.1
"""The least share to which a step is cut back at once."""
LONGEST_LAST_STEP = 0.5
"""Standard errors: after a longer step nobody relies on a prediction instead of a pass."""
MOST_LEFT = 0.5
"""The share of a step's length that the next may have: where old information leaves more, it is computed anew."""
FEW_GOAL = 1.0
"""Standard errors to which theta is solved while answers are few."""
MOST_MULTIPLIERS = 100
"""Steps on the secular equation, which needs about five; where rounding keeps it from its end, the last is near."""

Array = NDArray[np.float64]


class Step(NamedTuple):
    """A step of Newton's method on the ball.

    step (d,); decrement, its length in standard errors; factor (d, d), S'S = M^-1, of M = H + mu D^2; multiplier, mu;
    penalised (d, d), M.
    """

    step: Array
    decrement: float
    factor: Array
    multiplier: float
    penalised: Array


def solve(objective: Objective, settings: Settings, evidence: Evidence, tolerance: float) -> None:
    """Minimise the loss on the ball by Newton's method, from ``evidence.theta``, and from 0 where that fails.

    Parameters
    ----------
    objective : Objective
    settings : Settings
    evidence : Evidence
        The history and the features' scales are read, all else is overwritten.
    tolerance : float
        Standard errors to which the minimum is wanted; it is found to ``goal`` times that, and while answers are few to
        one standard error.

    Notes
    -----
    A pass costs O(n d^2), and a search makes at most ``most_passes``. When pushes had kept theta near the maximum one
    pass is enough as a rule. Of many features, passes leave the information as it is and cost O(n d), the chord method,
    unless ``renew_after`` d of them have done so already, a step is long, or old information leaves more than half of
    the step before. What such steps leave is a geometric series, whose ratio two of them show. A search that begins far
    out, where answers led that were separated until now, may fail for want of information; hence the second one.

    A step minimises the quadratic model on the ball; it is cut back until the slope along it has not turned by more
    than a quarter, which needs no value of the loss and so serves scores that have none. The last step is not followed
    by a pass: its error is predicted, with kappa at least as large as at first when far away or after comparisons of a
    new kind. The first pass after pushes shows how large the error was, and kappa follows.

    References
    ----------
    Nocedal, Wright (2006), Numerical optimization, section 4.3, for the secular equation.
    """
    d = len(evidence.theta)
    is_rough = plain(answers_are_few)(objective.ridge, evidence.progress[()], d)
    goal, began_elsewhere = FEW_GOAL if is_rough else settings.goal * tolerance, bool(evidence.theta.any())
    with np.errstate(all="ignore"):
        on_one_thread(d, _solved, objective, settings, evidence, goal)
        if evidence.progress["status"] == NOT_CONVERGED and began_elsewhere:
            evidence.theta[:] = evidence.progress["warm"] = 0
            on_one_thread(d, _solved, objective, settings, evidence, goal)


def maximise(objective: Objective, settings: Settings, evidence: Evidence, tolerance: float) -> Array:
    """As :func:`solve` from theta alone, whatever is warm; returns M = H + mu D^2 before the last step, (d, d)."""
    evidence.progress["warm"] = 0
    cold, goal = settings._replace(renew_after=0.0), settings.goal * tolerance
    with np.errstate(all="ignore"):
        return on_one_thread(len(evidence.theta), _solved, objective, cold, evidence, goal)


def _solved(  # noqa: C901, PLR0915 - one search, in the order of its steps
    objective: Objective, settings: Settings, evidence: Evidence, goal: float
) -> Array:
    """Make passes until theta is within the goal, in standard errors, of the maximum, and note how things stand.

    Returns M = H + mu D^2 as of the last pass that computed the information, (d, d); empty if none did.
    """
    radius, metric, unit = objective.radius, _metric(objective, evidence), _unit(objective.model)
    features, start = evidence.features, Progress(*evidence.progress.item())
    scales, built = features["scale"], features["built"].copy()
    near = start.warm == 1 and start.multiplier == 0.0  # so that the first pass tells how far off pushes were
    most_old = settings.renew_after * len(scales)
    predicted, third = plain(predicted_error)(settings, start, len(scales)) if near else (math.inf, math.inf)
    theta, gradient = _into_ball(evidence.theta, radius, metric), np.empty_like(evidence.theta)
    last = Step(np.zeros_like(theta), math.inf, evidence.factor, start.multiplier, NOTHING)
    kappa, since_renewal, n_passes = start.kappa, start.since_renewal, 0
    renew = not (near and since_renewal + 1 < most_old)
    fraction = slope_before = ratio = 0.0
    while True:
        trial = theta + fraction * last.step
        information = np.empty_like(last.factor) if renew else NOTHING
        n_wrong = _pass(objective, evidence, trial, gradient, information)
        n_passes += 1
        slope = float(gradient @ last.step)
        if slope_before > 0.0 and slope < -settings.most_turn * slope_before and n_passes < settings.most_passes:
            fraction *= max(SHORTEST_CUT, slope_before / (slope_before - slope))
            continue
        theta, before = trial, last.decrement
        if renew:
            built, since_renewal, ratio = theta, 0, 0.0
            last = _ball_step(radius, metric, theta, gradient, information, last.multiplier)
        else:
            since_renewal += 1
            last = _old_step(last, gradient)
            ratio = last.decrement / before if fraction == 1.0 else 0.0
        if near and n_passes == 1:
            kappa = _learned_kappa(settings, start, last.decrement, third)
            near = last.decrement <= 1.0 and predicted < math.inf
        reach = _length(last.step, scales)
        cautious_kappa = kappa if near else max(settings.first_kappa, kappa)
        remaining = cautious_kappa * last.decrement * unit * (reach + 0.5 * _length(theta - built, scales))
        if 0.0 < ratio < 1.0:
            remaining = min(remaining, last.decrement * ratio / (1.0 - ratio))
        inside = renew or _length(theta + last.step, metric) <= radius
        is_near = (renew and last.decrement <= goal) or (last.decrement <= LONGEST_LAST_STEP and remaining <= goal)
        settled = inside and is_near
        if settled or (inside and n_passes >= settings.most_passes):
            break
        slope_before = float(gradient @ last.step)
        if not (last.decrement < math.inf and reach < math.inf and inside):
            if renew:
                break
            last, slope_before = last._replace(step=np.zeros_like(theta)), 0.0  # the same point, with its information
        trust = max(settings.longest_step / unit, 2.0 * _length(theta, scales))
        fraction = trust / reach if reach > trust else 1.0
        must_renew = since_renewal + 1 >= most_old or last.multiplier > 0.0 or ratio > MOST_LEFT
        renew = must_renew or last.decrement > LONGEST_LAST_STEP or fraction < 1.0 or not slope_before > 0.0
    if last.factor is not evidence.factor:
        evidence.factor[:] = last.factor
    if settled:  # where H is nearly singular the step is not exact enough to stay on the ball
        theta = _into_ball(theta + last.step, radius, metric)
    evidence.theta[:] = features["anchor"] = theta
    features["built"] = built
    features["drift"] = features["lag"] = 0.0
    status = NOT_CONVERGED if not settled else BOUNDARY if last.multiplier > 0.0 else INTERIOR
    is_held = objective.ridge > 0.0 or (last.multiplier > 0.0 and not objective.scaled)  # by a ball of the caller's
    if not is_held and (n_wrong == 0 or _are_separated(evidence, last.step, unit)):
        status = SEPARATED
    evidence.progress[()] = start._replace(
        status=status,
        warm=settled,
        solved=start.learned,
        passes=start.passes + n_passes,
        rows_passed=start.rows_passed + n_passes * int(evidence.history.size[0]),
        since_renewal=since_renewal,
        unit=unit,
        multiplier=last.multiplier,
        multiplier_built=last.multiplier,
        kappa=kappa,
        remaining=remaining,
        from_built=unit * _length(theta - built, scales),
        leverage=max(start.leverage, 4.0 * len(theta) / unit**2 if objective.ridge == 0.0 else 0.0),
        moved=0.0,
        reach=0.0,
        lag=0.0,
        walked=0.0,
        returned=0.0,
    )
    return last.penalised


def _pass(objective: Objective, evidence: Evidence, theta: Array, gradient: Array, information: Array) -> int:
    """Overwrite the gradient of minus the loss at theta, and the information unless it is empty.

    Returns the number of comparisons that theta does not explain.
    """
    n_wrong = pass_over(evidence.history, objective, theta, gradient, information)
    if objective.ridge > 0.0:
        gradient -= objective.ridge * theta
        information.reshape(-1)[:: len(theta) + 1] += objective.ridge
    return n_wrong


def _metric(objective: Objective, evidence: Evidence) -> Array:
    """m of the ball |D theta| <= radius, D = diag(m)."""
    scales: Array = evidence.features["scale"]
    return scales if objective.scaled else np.ones_like(scales)


def _unit(model: Any) -> float:
    """4 F'(0), or 1 where that is no positive number."""
    unit = 4.0 * float(model.pdf(0.0))
    return unit if 0.0 < unit < math.inf else 1.0


def _length(vector: Array, metric: Array) -> float:
    """sqrt(sum (m_k v_k)^2)."""
    scaled = metric * vector
    return math.sqrt(scaled @ scaled)


def _into_ball(theta: Array, radius: float, metric: Array) -> Array:
    """Theta, shrunk to the radius if it is longer."""
    length = _length(theta, metric)
    return theta * (radius / length) if length > radius else theta.copy()


def _learned_kappa(settings: Settings, start: Progress, decrement: float, third: float) -> float:
    """Kappa after the first pass since pushes, which found an error of ``decrement``."""
    if not (0.0 < third < math.inf and max(start.remaining, decrement) < math.inf):
        return start.kappa
    found = (decrement - start.remaining) / third
    return min(settings.largest_kappa, max(settings.smallest_kappa, settings.kappa_decay * start.kappa, found))


def _old_step(last: Step, gradient: Array) -> Step:
    """Newton's step with the factor on hand."""
    whitened = last.factor @ gradient
    return last._replace(step=whitened @ last.factor, decrement=math.sqrt(whitened @ whitened))


def _ball_step(
    radius: float, metric: Array, theta: Array, gradient: Array, information: Array, multiplier: float
) -> Step:
    """Step that maximises g'p - p'Hp/2 while |D (theta + p)| <= radius.

    p = (H + mu D^2)^-1 (g - mu D^2 theta), with mu = 0 if that lies in the ball; otherwise Newton's method on the
    secular equation 1/|D (theta + p)| = 1/radius from a multiplier nearby, which converges from below, until rounding
    stops it. The decrement is nan when the information is not finite.

    O(d^3). To the diagonal of H a few trillionths are added, so that directions of which the data know nothing, in
    which the gradient is zero, get a step of zero.
    """
    squares, d, off = metric * metric, len(theta), math.inf
    found = Step(np.zeros(d), math.nan, np.zeros((d, d)), 0.0, information)
    for _ in range(MOST_MULTIPLIERS):
        penalised = information.copy()
        diagonal = penalised.reshape(-1)[:: d + 1]
        diagonal += multiplier * squares
        damped = penalised.copy()
        damped_diagonal = damped.reshape(-1)[:: d + 1]
        damped_diagonal *= 1.0 + 4.0 * SHARE_TOLERANCE * d
        damped_diagonal[diagonal == 0.0] = 1.0
        factor = inverse_factor(damped)
        if factor is None:
            return found._replace(decrement=math.nan)
        whitened = factor @ (gradient - multiplier * squares * theta)
        found = Step(whitened @ factor, math.sqrt(whitened @ whitened), factor, multiplier, penalised)
        size = _length(theta + found.step, metric)
        off, before = abs(size / radius - 1.0), off
        if (multiplier == 0.0 and not size > radius) or off <= 1e-12 or not size < math.inf or before <= off < 1e-3:
            break
        normal = factor @ (squares * (theta + found.step))
        square = float(normal @ normal)  # 0 where theta + p is
        change = size * size / square * (size - radius) / radius if square > 0.0 else -multiplier
        multiplier = max(0.0, multiplier + change)
    return found


def _are_separated(evidence: Evidence, step: Array, unit: float) -> bool:
    """Whether the answers are found to be separated, completely or quasi-completely, after a last step to theta.

    Newton's method goes along a recession direction until next to nothing is left to learn from the answers that it
    explains, and its last step still does: both theta and the step are asked.

    O(d^2) where every coefficient, times the largest size of its feature, is known to a unit of margins: then answers
    are not separated. See :func:`fastcolst.estimation.separation.recession_from` for the cost otherwise.

    References
    ----------
    Albert, Anderson (1984), On the existence of maximum likelihood estimates in logistic regression models.
    """
    scales = evidence.features["scale"]
    if unit * np.sqrt(np.square(evidence.factor * scales).sum(axis=0).max()) < 1.0:  # the largest standard error
        return False
    return any(recession_from(evidence.history, scales, start) is not None for start in (evidence.theta, step))


def distance(theta: Array, exact: Array, penalised: Array) -> float:
    """Distance of an estimate from the exact one, in standard errors, by M = H + mu D^2."""
    off = theta - exact
    return math.sqrt(max(float(off @ penalised @ off), 0.0))
