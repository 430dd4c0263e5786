"""Arms in the running as the columns of a matrix, and their distances.

The arms are the first columns of a matrix whose rows are their coordinates and four more: the utility, the arm's index,
whether it is known to be a candidate, and a bound r_i with which no pair is worth more than r_i + r_j.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import helper

__all__ = [
    "BLOCK",
    "CANDIDATE",
    "DOMINATED",
    "N_EXTRA",
    "OPEN",
    "STANDING",
    "Pool",
    "pool_of",
    "squared_distances",
    "squared_radii",
    "whole_blocks",
]

# Rows of the matrix after the d coordinates.
UTILITY, LABEL, STANDING, BOUND = 0, 1, 2, 3
N_EXTRA = 4

# What STANDING holds.
CANDIDATE = 1.0
OPEN = 0.0
DOMINATED = -1.0

BLOCK = 16
"""Loops over arms run over whole blocks: four registers of four numbers, with nothing left for a scalar loop."""


class Pool(NamedTuple):
    """The arms in the running, one for each column; ``size`` of the columns count.

    matrix (d + 4, n), whose rows are points (d, n), the whitened arms, then utility, label, standing and bound (n,);
    rows (2, n), which are squares and scratch (n,), overwritten at will. Here n is padded to whole blocks.
    """

    matrix: NDArray[np.float64]
    rows: NDArray[np.float64]
    points: NDArray[np.float64]
    utility: NDArray[np.float64]
    label: NDArray[np.float64]
    standing: NDArray[np.float64]
    bound: NDArray[np.float64]
    squares: NDArray[np.float64]
    scratch: NDArray[np.float64]
    size: int


@helper
def pool_of(matrix: Any, rows: Any, size: int) -> Any:
    """The pool of the first arms of a matrix, (d + 4, n), with two rows of scratch, (2, n)."""
    d = matrix.shape[0] - N_EXTRA
    return Pool(
        matrix,
        rows,
        matrix[:d],
        matrix[d + UTILITY],
        matrix[d + LABEL],
        matrix[d + STANDING],
        matrix[d + BOUND],
        rows[0],
        rows[1],
        size,
    )


# --- distances ----------------------------------------------------------------------------------------------


@helper
def whole_blocks(start: int, stop: int) -> tuple[Any, Any]:
    """A range of columns made wider to whole blocks; unsigned, which spares loops the test for negative columns.

    Without either, distances to one of 50 arms with 10 features take 3.7 times as long.
    """
    return np.uint64(start // BLOCK * BLOCK), np.uint64((stop + BLOCK - 1) // BLOCK * BLOCK)


@helper
def squared_distances(points: Any, arm: int, start: int, stop: int, out: Any) -> None:
    """Squared distances of one arm to those in a range of columns, out[j] = |a_j - a_arm|^2.

    Parameters
    ----------
    points : (d, n) float64
        Whitened arms as columns.
    arm, start, stop : int
    out : (n,) float64
        Overwritten from ``start`` to ``stop``, and whatever else is in the blocks of these.

    Notes
    -----
    O(d) for each. Exactly 0 for equal arms; |a_i|^2 - 2 a_i'a_j + |a_j|^2 would lose every digit where arms lie close
    together. Four coordinates are taken at a time, for a quarter of the loads and stores: of 50 arms one by one takes
    1.3 times as long with 10 features, and 1.7 times with 50.
    """
    first, last = whole_blocks(start, stop)
    d = points.shape[0]
    n_fours = d // 4
    for j in range(first, last):
        out[j] = 0.0
    for four in range(n_fours):
        k = 4 * four
        c0, c1, c2, c3 = points[k, arm], points[k + 1, arm], points[k + 2, arm], points[k + 3, arm]
        for j in range(first, last):
            d0, d1, d2, d3 = points[k, j] - c0, points[k + 1, j] - c1, points[k + 2, j] - c2, points[k + 3, j] - c3
            out[j] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
    for k in range(4 * n_fours, d):
        c0 = points[k, arm]
        for j in range(first, last):
            out[j] += (points[k, j] - c0) * (points[k, j] - c0)


@helper
def squared_radii(points: Any, size: int, out: Any) -> None:
    """Squared distances of the first arms to their centroid. O(n d).

    Eight sums need not wait for each other: with one it takes 1.7 times as long of 50 arms, and 2.6 times of 1,000.
    """
    n_eights = size // 8
    for j in range(size):
        out[j] = 0.0
    for k in range(points.shape[0]):
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for eight in range(n_eights):
            j = 8 * eight
            s0 += points[k, j]
            s1 += points[k, j + 1]
            s2 += points[k, j + 2]
            s3 += points[k, j + 3]
            s4 += points[k, j + 4]
            s5 += points[k, j + 5]
            s6 += points[k, j + 6]
            s7 += points[k, j + 7]
        for j in range(8 * n_eights, size):
            s0 += points[k, j]
        centre = (((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))) / size
        for j in range(size):
            out[j] += (points[k, j] - centre) * (points[k, j] - centre)
