"""How far theta is from the maximum, predicted without a pass over the history.

Delta = theta - anchor is the movement since the last pass, M the information with the multiplier's part, e = z'theta a
margin, and u = 4 F'(0) the unit of margins, with |psi'''| <= 2 kappa u psi''; kappa = 1/2 for the logistic loss of any
scale. A push takes the loss of all earlier comparisons for quadratic. What that leaves out of the gradient is of third
order; in standard errors, the norm of M^-1,

    | sum_k psi'''(e_k) (z_k'Delta)^2 z_k / 2 |  <=  kappa u max_k |z_k'Delta| |Delta|_M.

The fields of :class:`fastcolst.estimation.records.Progress` from which the error is predicted:

    moved       |Delta|_M
    reach       bound of u max_k |z_k'Delta|: u times the smaller of sqrt(leverage/n) |Delta|_M, with the largest
                n z'M^-1 z that a push has seen, and sqrt(sum (max|z_k| Delta_k)^2): leverages of days when answers were
                certain say nothing of others
    from_built  u |anchor - built|, where built is the theta at which the information was computed: curvatures are off
                by first order there, which counts twice
    remaining   what the last pass left
    lag         what the multiplier has changed that the factor does not know
    walked      sum of the squared lengths of the pushes, in squared standard errors
    returned    sum of w (z'Delta)^2 over the new comparisons, in squared standard errors

    error = (safety + 1/d) (remaining + kappa moved (reach + 2 from_built) + lag)

Contributions of many comparisons cancel, so that the first pass after pushes finds less than the bound, by a factor
that changes slowly. Kappa follows it: it rises at once and falls by a twentieth a pass at most. Of few features one
movement is a poorer guide to the next, hence 1/d.

All this holds for comparisons like those before. One of a new kind moves theta in a direction of which M knew little,
and then a large share of the movement comes back as curvature. While comparisons are alike returned/walked is half of
the history's growth. Beyond ``most_returned`` nothing is predicted, and a pass is due.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastcolst._compile import helper

__all__ = ["is_inexact", "predicted_error"]


@helper
def predicted_error(settings: Any, progress: Any, n_features: int) -> tuple[float, float]:
    """Distance from the maximum in standard errors, and the part of it that kappa is multiplied by. O(1)."""
    third = progress.moved * (progress.reach + 2.0 * progress.from_built)
    if progress.returned > settings.most_returned * progress.walked:
        return np.inf, float(third)
    error = progress.remaining + progress.kappa * third + progress.lag
    return float((settings.safety + 1.0 / n_features) * error), float(third)


@helper
def is_inexact(settings: Any, evidence: Any, tolerance: float) -> bool:
    """Whether a pass is due. O(1).

    It is when comparisons came since the last one, and theta is not warm or its predicted error exceeds the tolerance.
    """
    progress = evidence.progress[()]
    if progress.solved == progress.learned:
        return False
    return progress.warm == 0 or not predicted_error(settings, progress, evidence.theta.size)[0] <= tolerance
