"""What is minimised: the loss of comparisons.

A comparison is kept with its sign, z~ = z if the first arm won and -z if not, so that theta explains it the better the
larger z~'theta is. The loss of n comparisons with weights v is

    sum_k v_k psi(z~_k'theta) + ridge/2 |theta|^2        on        |D theta| <= radius,        D = diag(m),

convex, with slope s = -psi' >= 0 and curvature w = psi'' >= 0. The score is "likelihood", psi = -log F, or "residual",
the paper's sum (Y - F) z = 0, for which s(e) = F(-e) and w = f.

The distance of two estimates in standard errors is |H^{1/2} (theta - other)|, H = sum v w z z' + ridge I.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fastcolst._compile import helper
from fastcolst.comparison import cdf, curvature, pdf, score

__all__ = ["Objective", "slope_and_curvature"]


class Objective(NamedTuple):
    """What is minimised.

    The model; which score (0 likelihood, 1 residual); the ridge; the radius of the ball; and whether m, by which the
    ball measures theta, are the scales of the features, or all 1.
    """

    model: Any
    score: int
    ridge: float
    radius: float
    scaled: bool


@helper
def slope_and_curvature(objective: Any, e: float) -> tuple[float, float]:
    """s(e) = -psi'(e) and w(e) = psi''(e) of one comparison."""
    model = objective.model
    if objective.score == 0:
        return float(score(model, e)), float(curvature(model, e))
    return float(cdf(model, -e)), float(pdf(model, e))
