"""Choosing arms: the argmaxes of the paper, the uniformly random pair, and whether numbers are fit to choose by.

Utilities and widths come in, an index goes out. Ties go to the lowest index.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastcolst._compile import helper

__all__ = [
    "all_finite",
    "all_rows_finite",
    "argmax",
    "optimistic_argmax",
    "perturbed_argmax",
    "random_pair",
]


@helper
def argmax(values: Any) -> int:
    """Index of the largest value, the lowest index among equals. O(n)."""
    best = 0
    for j in range(1, values.size):
        if values[j] > values[best]:
            best = j
    return best


@helper
def perturbed_argmax(utilities: Any, squared_widths: Any, noise: Any, clip: float, work: Any) -> int:
    """The arm of highest perturbed utility, argmax_i u_i + min(C, max(-C, eps_i)) w_i.

    Parameters
    ----------
    utilities : (n,) float64
    squared_widths : (n,) float64
        w_i^2 = x_i' M^-1 x_i.
    noise : (n,) float64
        eps_i, not yet clipped.
    clip : float
        C_thresh; inf leaves the noise as it is.
    work : (n,) float64
        Overwritten by the perturbed utilities; may be ``noise`` itself.

    Notes
    -----
    O(n), allocates nothing.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 1, lines 13 and 14.
    """
    for j in range(utilities.size):
        work[j] = utilities[j] + min(clip, max(-clip, noise[j])) * np.sqrt(squared_widths[j])
    return argmax(work)


@helper
def optimistic_argmax(utilities: Any, whitened: Any, first: int, scale: float, allow_first: bool, work: Any) -> int:
    """The toughest rival of an arm, argmax_i u_i - u_first + c1 |x_i - x_first|_{M^-1}.

    Parameters
    ----------
    utilities : (n,) float64
    whitened : (d, n) float64
        Arms a_i = S x_i as columns.
    first : int
        The arm that needs a rival.
    scale : float
        c1, in standard errors.
    allow_first : bool
        Whether the first arm competes too (with the value 0). It is returned in any case when it is the only arm.
    work : (n,) float64
        Overwritten by the optimistic values.

    Notes
    -----
    O(n d), allocates nothing. The distance is |a_i - a_first|, exactly 0 for an equal arm; expanding the square would
    lose every digit for arms that lie close together.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 1, line 15.
    """
    d, n = whitened.shape
    for j in range(n):
        work[j] = 0.0
    for k in range(d):
        centre = whitened[k, first]
        for j in range(n):
            work[j] += (whitened[k, j] - centre) * (whitened[k, j] - centre)
    for j in range(n):
        work[j] = utilities[j] - utilities[first] + scale * np.sqrt(work[j])
    if not allow_first:
        work[first] = -np.inf
    return argmax(work)


@helper
def random_pair(uniform_first: float, uniform_second: float, n_arms: int) -> tuple[int, int]:
    """A uniformly random ordered pair of distinct arms from two uniforms in [0, 1); of one arm, that arm twice.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 1, line 2.
    """
    first = int(uniform_first * n_arms)
    second = int(uniform_second * (n_arms - 1))
    if n_arms > 1 and second >= first:
        second += 1
    return first, second


@helper
def all_finite(values: Any) -> bool:
    """True when no value of a vector is nan or infinite. O(n); counting is what LLVM vectorises here."""
    bad = 0
    for j in range(values.size):
        bad += not abs(values[j]) < np.inf
    return bad == 0


@helper
def all_rows_finite(values: Any) -> bool:
    """True when no value of a matrix is nan or infinite. O(n d)."""
    for k in range(values.shape[0]):
        if not all_finite(values[k]):
            return False
    return True
