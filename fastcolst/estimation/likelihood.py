"""Sums over rows of comparisons that say the same, as a fit needs them: the likelihood and what rows add to errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastcolst._compile import kernel
from fastcolst.comparison import cdf, log_cdf, pdf, weight
from fastcolst.estimation.objective import slope_and_curvature

__all__ = ["informations", "log_likelihood", "pulls"]


@kernel
def log_likelihood(model: Any, margins: Any, outcomes: Any) -> float:
    """Sum of w log F(e) + (n - w) log F(-e) over margins e (m,), given wins and losses (m, 2). O(m)."""
    total = 0.0
    for i in range(margins.size):
        if outcomes[i, 0] > 0.0:
            total += outcomes[i, 0] * log_cdf(model, margins[i])
        if outcomes[i, 1] > 0.0:
            total += outcomes[i, 1] * log_cdf(model, -margins[i])
    return float(total)


@kernel
def informations(objective: Any, margins: Any, trials: Any, out: Any) -> None:
    """What each row adds to the covariance of an estimate: the weights of z z'.

    Parameters
    ----------
    objective : Objective
    margins, trials : (m,) float64
    out : (2, m) float64
        Overwritten by the expected slopes and the variances of the score.

    Notes
    -----
    O(m).
    """
    model = objective.model
    for i in range(margins.size):
        e = margins[i]
        if cdf(model, -np.abs(e)) == 0.0:
            out[0, i] = out[1, i] = 0.0  # certain as far as numbers tell, though a quotient of zeros would be nan
        elif objective.score == 0:
            out[0, i] = out[1, i] = trials[i] * weight(model, e)
        else:
            out[0, i] = trials[i] * pdf(model, e)
            out[1, i] = trials[i] * cdf(model, e) * cdf(model, -e)


@kernel
def pulls(objective: Any, margins: Any, won: Any, lost: Any, out: Any) -> None:
    """Derivative of each row's log-likelihood by its margin: its score is that times z; (m,) float64 each. O(m)."""
    for i in range(margins.size):
        pull = 0.0
        if won[i] > 0.0:
            pull += won[i] * slope_and_curvature(objective, margins[i])[0]
        if lost[i] > 0.0:
            pull -= lost[i] * slope_and_curvature(objective, -margins[i])[0]
        out[i] = pull
