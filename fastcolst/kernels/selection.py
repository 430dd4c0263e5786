"""Choosing arms: the argmaxes of the paper, the uniformly random pair, and whether numbers are fit to choose by.

Utilities and widths come in, an index goes out. The argmaxes take the lowest index of several equal values; which of
the equals is shown is then decided by the round's random order of the arms, see :func:`tie_key`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastcolst._compile import helper, in_loops
from fastcolst.kernels.splitmix import GOLDEN, word

__all__ = [
    "all_finite",
    "all_moderate",
    "all_rows_finite",
    "among_equals",
    "argmax",
    "comes_first",
    "largest",
    "optimistic_argmax",
    "perturbed_argmax",
    "random_pair",
    "tie_key",
]


_LEAST = np.int64(-(2**63))
_SIGN, _BELOW_SIGN = np.int64(63), np.int64(2**63 - 1)


def _largest_in_loops(values: Any) -> float:
    top, n_nan = _LEAST, 0
    for j in range(values.size):
        bits = np.float64(values[j]).view(np.int64)
        top = max(top, bits ^ ((bits >> _SIGN) & _BELOW_SIGN))
        n_nan += values[j] != values[j]
    return np.nan if n_nan > 0 else np.int64(top ^ ((top >> _SIGN) & _BELOW_SIGN)).view(np.float64)


@in_loops(_largest_in_loops)
def largest(values: Any) -> float:
    """The largest of at least one value, nan where one is nan. O(n).

    With the bits behind the sign turned over where a double is negative, doubles are in the order of whole numbers,
    whose largest LLVM finds eight at a time: 9 ns for 50, against 58 one by one.
    """
    return float(np.max(values))


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
    """Clip the noise, and return the arm of highest perturbed utility, argmax_i u_i + min(C, max(-C, eps_i)) w_i.

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


# --- equal arms ---------------------------------------------------------------------------------------------


@helper
def tie_key(uniform: float) -> Any:
    """The key of a round's random order of the arms, by which ties are broken; from a uniform in [0, 1).

    Every rule that draws a pair for the exploration draws two uniforms in every round, ``raw[0]`` and ``raw[1]``, and
    needs the second for nothing else once the exploration is over. So that one is the tie-breaker: the key is its 53
    bits, k = 2^53 raw[1], and of arms whose values are equal the one comes first whose word SplitMix64(k + (i + 1)
    GOLDEN) is the largest, i being its place among those compared. Words of different places differ. Ties cost a round
    no number more than others, and rounds without a tie never look at the order.

    Notes
    -----
    A second choice of the same round that must not depend on the first has the key ``word(key)``.
    """
    return np.uint64(np.int64(uniform * 9007199254740992.0))


@helper
def comes_first(key: Any, one: int, other: int) -> bool:
    """Whether one of two places comes before the other in the order that a key stands for; see :func:`tie_key`."""
    key = np.uint64(key)  # a Python int where the caller is no kernel
    return word(key + np.uint64(one + 1) * GOLDEN) > word(key + np.uint64(other + 1) * GOLDEN)


@helper
def among_equals(values: Any, best: int, key: Any) -> int:
    """Of all places whose value equals that of ``best``, the one that comes first in a key's order. O(n).

    Counting comes first, which LLVM vectorises: the order is looked at only where there is a tie. 8 ns for 50 values,
    against 37 in one loop.
    """
    top, n_equal = values[best], 0
    for j in range(values.size):
        n_equal += values[j] == top
    if n_equal > 1:
        for j in range(values.size):
            if values[j] == top and comes_first(key, j, best):
                best = j
    return best


# --- the random pair ----------------------------------------------------------------------------------------


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


# --- finite or not ------------------------------------------------------------------------------------------


@helper
def all_finite(values: Any) -> bool:
    """True when no value of a vector is nan or infinite. O(n).

    Counting is what LLVM vectorises here: 11 ns for 50 values, against 28 for a loop that ends early.
    """
    bad = 0
    for j in range(values.size):
        bad += not abs(values[j]) < np.inf
    return bad == 0


@helper
def all_moderate(rows: Any, largest: float) -> bool:
    """True when every entry of a matrix is finite and below ``largest`` in size. O(m d).

    Counting vectorises along rows: of 64 rows of 384 it takes a sixth of the time of a loop that ends early.
    """
    bad = 0
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            bad += not abs(rows[i, k]) < largest
    return bad == 0


@helper
def all_rows_finite(values: Any) -> bool:
    """True when no value of a matrix is nan or infinite. O(n d)."""
    for k in range(values.shape[0]):
        if not all_finite(values[k]):
            return False
    return True
