"""Whether a pass over the history is due: how far theta is from the maximum, predicted without one.

:func:`pass_is_due` decides, whenever theta is wanted. ``warm`` = 0 makes it due: after a push that failed, a choice
from a set, a retraction, and where weights have faded, or a feature or the ball is new. So does ``remaining`` = inf:
after a push too long to predict from.

Delta = theta - anchor is the movement since the last pass, M the information with the multiplier's part, e = z'theta a
margin, and u = 4 F'(0) the unit of margins, with |psi'''| <= 2 kappa u psi''; kappa = 1/2 for the logistic loss of any
scale. A push takes the loss of all earlier comparisons for quadratic. What that leaves out of the gradient is of third
order; in standard errors, the norm of M^-1,

    | sum_k psi'''(e_k) (z_k'Delta)^2 z_k / 2 |  <=  kappa u max_k |z_k'Delta| |Delta|_M.

The fields of :class:`fastcolst.estimation.records.Progress` from which the error is predicted:

    moved       |Delta|_M
    reach       bound of u max_k |z_k'Delta|: u times the smaller of sqrt(leverage/n) |Delta|_M and
                sqrt(sum (max|z_k| Delta_k)^2)
    leverage    the largest n z'M^-1 z that a push has seen. No push sees the comparisons that a cold start solves:
                without a ridge their w z'M^-1 z add up to d, and w is at most u^2/4, so that 4 d/u^2 is the least
    from_built  u |anchor - built|, where built is the theta at which the information was computed: curvatures are off
                by first order there. It bounds margins far more loosely than reach does, and counts for half
    remaining   what the last pass left; inf after a push that was longer than one standard error, or moved its own
                margin by more than ten units
    lag         what the multiplier has changed that the factor does not know
    walked      sum of the squared lengths of the pushes, in squared standard errors
    returned    sum of w (z'Delta)^2 over the new comparisons, in squared standard errors

    error = (safety + 2/d + d/n) (remaining + kappa moved (reach + from_built/2) + lag)

Contributions of many comparisons cancel, so that the first pass after pushes finds less than the bound, by a factor
that changes slowly. Kappa follows it: it rises at once and falls by a twentieth a pass at most. Of few features one
movement is a poorer guide to the next, hence 2/d. The same holds with more than 48 features
while comparisons n are few, hence d/n, which is left out up to 48.

All this holds for comparisons like those before. One of a new kind moves theta in a direction of which M knew little,
and then a large share of the movement comes back as curvature. While comparisons are alike returned/walked is d/n for
one of them, and half of the history's growth for many. Beyond ``most_returned`` nothing is predicted, and a
pass is due; with more than 48 features, where it takes long until d/n is small, beyond ``most_returned`` + 3 d/n.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastcolst._compile import helper

__all__ = ["FEW_FEATURES", "answers_are_few", "pass_is_due", "predicted_error"]

FEW_FEATURES = 48
"""With up to so many features answers never count as few."""
FEW_PER_FEATURE = 5
"""Answers for each of many features up to which the likelihood has no maximum of its own, or hardly one."""


@helper
def predicted_error(settings: Any, progress: Any, n_features: int) -> tuple[float, float]:
    """Distance from the maximum in standard errors, and the part of it that kappa is multiplied by. O(1)."""
    third = progress.moved * (progress.reach + 0.5 * progress.from_built)
    error = progress.remaining + progress.kappa * third + progress.lag
    scarcity = n_features / max(progress.learned, 1) if n_features > FEW_FEATURES else 0.0
    if progress.returned > (settings.most_returned + 3.0 * scarcity) * progress.walked:
        error = np.inf
    return float((settings.safety + 2.0 / n_features + scarcity) * error), float(third)


@helper
def answers_are_few(ridge: float, progress: Any, n_features: int) -> bool:
    """Whether answers are so few for many features that, without a ridge, theta is followed by pushes alone. O(1)."""
    return bool(ridge == 0.0 and n_features > FEW_FEATURES and progress.learned < FEW_PER_FEATURE * n_features)


@helper
def pass_is_due(settings: Any, evidence: Any, ridge: float, tolerance: float) -> bool:
    """Whether a pass is due. O(1).

    It is when comparisons came since the last one, and theta is not warm or its predicted error exceeds the tolerance;
    while answers are few, when they have grown by a twentieth. As a rule one pass is enough for the solve that follows.
    """
    progress, d = evidence.progress[()], evidence.theta.size
    if progress.solved == progress.learned:
        return False
    if progress.warm == 0:
        return True
    if answers_are_few(ridge, progress, d):
        return bool(20 * (progress.learned - progress.solved) >= max(progress.solved, d))
    return bool(not predicted_error(settings, progress, d)[0] <= tolerance)
