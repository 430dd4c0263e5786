"""The advantage of being shown first: a coordinate more, which is 0 for every arm and 1 in every contrast.

Utilities, widths and all that is chosen by them do not know who is shown first; an answer does, so that

    P(the first wins) = F(z'theta + advantage).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst.kernels.linalg import inverse_factor

__all__ = ["PositionAdvantage", "advantage_of", "shown_first"]


class PositionAdvantage(NamedTuple):
    """What being shown first is worth, in units of utility.

    Attributes
    ----------
    estimate : float
        Added to the first arm's utility; negative where the second is preferred.
    standard_error : float or None
        inf where it is not known at all; None where the estimator has no information matrix.
    """

    estimate: float
    standard_error: float | None


def shown_first(contrasts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Contrasts x_first - x_second, (d,) or (m, d), with a coordinate of 1 more."""
    return np.concatenate([contrasts, np.ones((*contrasts.shape[:-1], 1))], axis=-1)


def advantage_of(theta: NDArray[np.float64], information: NDArray[Any] | None) -> PositionAdvantage:
    """The last coordinate of an estimate, and its standard error by the information of all coordinates."""
    if information is None:
        return PositionAdvantage(float(theta[-1]), None)
    factor = inverse_factor(information)
    error = math.inf if factor is None else float(np.linalg.norm(factor[:, -1]))
    return PositionAdvantage(float(theta[-1]), error)
