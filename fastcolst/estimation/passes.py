"""One pass over all comparisons: the gradient and the information.

When a pass is made is decided in :mod:`fastcolst.estimation.prediction`; who makes it is
:mod:`fastcolst.estimation.newton`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fastcolst._compile import helper, kernel
from fastcolst.comparison import cdf, curvature, pdf, score
from fastcolst.estimation.history import ROWS, History
from fastcolst.estimation.objective import Objective

__all__ = ["gradient_and_information", "pass_over"]

MANY = 200
"""With more features the information is BLAS's to sum up."""
LANES = 64
"""Sums into which an inner product over a block is split: of eight products each, 512 = 8 * 64; and 64 = 4 * 4 * 4."""


@functools.singledispatch
def pass_over(history: Any, objective: Any, theta: Any, gradient: Any, information: Any) -> int:
    """Gradient and information in one pass over whatever comparisons are kept in.

    As :func:`gradient_and_information`, which is what passes over a :class:`fastcolst.estimation.history.History` are.
    """
    if information.shape[0] > MANY:
        return _pass_by_blas(history, objective, theta, gradient, information)
    return gradient_and_information(objective.model, objective.score, history, theta, gradient, information)


def _pass_by_blas(history: History, objective: Objective, theta: Any, gradient: Any, information: Any) -> int:
    """The same for many features, of 384 in half the time; without the information the kernel is as fast."""
    from scipy.linalg.blas import dsyrk  # a tenth of a second, which few features need not pay

    gradient[:] = information[:] = 0.0
    n_wrong = 0
    for block in history.filled():
        rows, weights = block[:-1], block[-1]
        margins = theta @ rows
        slopes, curvatures = np.empty((2, margins.size))
        slopes_and_curvatures(objective.model, objective.score, margins, slopes, curvatures)
        n_wrong += int(np.count_nonzero(margins <= 0.0))
        gradient += rows @ (slopes * weights)
        rooted = rows * np.sqrt(curvatures * weights)
        dsyrk(1.0, rooted.T, 1.0, information.T, trans=1, overwrite_c=1)  # of C order, its lower triangle
    information += np.tril(information, -1).T
    return n_wrong


@kernel
def slopes_and_curvatures(model: Any, kind: int, margins: Any, slopes: Any, curvatures: Any) -> None:
    """s and w of comparisons at their margins, (m,) each; see :mod:`fastcolst.estimation.objective`."""
    _slopes_and_curvatures(model, kind, margins, slopes, curvatures)


@kernel
def gradient_and_information(model: Any, kind: int, history: Any, theta: Any, gradient: Any, information: Any) -> int:
    """Gradient of minus the loss without its ridge, and the information if wanted, in one pass over the history.

    Parameters
    ----------
    model : comparison model
    kind : int
        Of the score: 0 likelihood, 1 residual.
    history : History
    theta : (d,) float64
        The point.
    gradient : (d,) float64
        Overwritten by sum v s z~.
    information : (d, d) or (0, 0) float64
        Overwritten by sum v w z z', or not wanted.

    Returns
    -------
    int
        The number of comparisons that the point does not explain, z~'theta <= 0, whatever their weights.

    Notes
    -----
    O(n d), and O(n d^2 / 2) with the information; 31 kB of scratch, which vectorises better as local arrays than as
    arguments. Sums over a block are of eight products in each of 64 lanes, which are added up by fours: this vectorises
    without licence to reorder, so that every kernel rounds alike, and its error grows like log n within a block.
    """
    margins, slopes, curvatures = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS)
    products, work = np.empty(4 * ROWS), np.empty(4 * LANES)
    d = theta.size
    with_information = information.shape[0] > 0
    for k in range(d):
        gradient[k] = 0.0
    if with_information:
        for k in range(d):
            for l in range(d):
                information[k, l] = 0.0
    size = history.size[0]
    n_wrong = 0
    for b in range((size + ROWS - 1) // ROWS):
        block = history.blocks[history.owned[b]]
        _block_margins(theta, block, margins)
        for j in range(min(ROWS, size - b * ROWS)):
            n_wrong += margins[j] <= 0.0
        _slopes_and_curvatures(model, kind, margins, slopes, curvatures)
        for j in range(ROWS):
            slopes[j] *= block[d, j]
            curvatures[j] *= block[d, j]
        _add_products(slopes, block, d, work, gradient)
        if with_information:
            _add_information(curvatures, block, products, work, information)
    if with_information:
        for k in range(d):
            for l in range(k):
                information[l, k] = information[k, l]
    return n_wrong


@helper
def _slopes_and_curvatures(model: Any, kind: int, margins: Any, slopes: Any, curvatures: Any) -> None:
    """As :func:`slope_and_curvature`, which a loop would not vectorise: a pass would take three times as long."""
    if kind == 0:
        for j in range(margins.size):
            slopes[j], curvatures[j] = score(model, margins[j]), curvature(model, margins[j])
    else:
        for j in range(margins.size):
            slopes[j], curvatures[j] = cdf(model, -margins[j]), pdf(model, margins[j])


@helper
def _block_margins(theta: Any, block: Any, out: Any) -> None:
    """Margins z~'theta of a block. O(512 d)."""
    d = theta.size
    for j in range(ROWS):
        out[j] = theta[0] * block[0, j]
    k = 1
    while k + 4 <= d:  # four rows for each load and store of the output
        a, b, c, e = theta[k], theta[k + 1], theta[k + 2], theta[k + 3]
        for j in range(ROWS):
            out[j] += (a * block[k, j] + b * block[k + 1, j]) + (c * block[k + 2, j] + e * block[k + 3, j])
        k += 4
    while k < d:
        a = theta[k]
        for j in range(ROWS):
            out[j] += a * block[k, j]
        k += 1


@helper
def _add_information(curvatures: Any, block: Any, products: Any, work: Any, information: Any) -> None:
    """Add sum w z z' over a block, on and below the diagonal. O(512 d^2 / 2).

    Four rows w z_k meet each row z_l while this is in the first-level cache, which a block is too large for. Some of
    what is above the diagonal is written to as well, and ``products`` and ``work`` are overwritten.
    """
    d = information.shape[0]
    k = 0
    while k + 4 <= d:
        for q in range(4):
            for j in range(ROWS):
                products[q * ROWS + j] = curvatures[j] * block[k + q, j]
        for l in range(k + 4):
            _add_four_products(products, block[l], work, information[k : k + 4, l])
        k += 4
    while k < d:
        for j in range(ROWS):
            products[j] = curvatures[j] * block[k, j]
        _add_products(products, block, k + 1, work, information[k])
        k += 1


@helper
def _add_products(values: Any, block: Any, n: int, work: Any, out: Any) -> None:
    """Add to out[k] the inner product of 512 values with row k of a block, for k < n; ``work`` is overwritten."""
    for k in range(n):
        row = block[k]
        for j in range(LANES):
            work[j] = _lane_product(values, j, _lane(row, j))
        for j in range(16):
            work[j] = _sum_of_four(work, j, 16)
        for j in range(4):
            work[j] = _sum_of_four(work, j, 4)
        out[k] += _sum_of_four(work, 0, 1)


@helper
def _add_four_products(values: Any, row: Any, work: Any, out: Any) -> None:
    """Add to out[q] the inner product of 512 values, from number 512 q on, with a row; ``work`` is overwritten."""
    one, two, three = LANES, 2 * LANES, 3 * LANES
    for j in range(LANES):
        lane = _lane(row, j)
        work[j] = _lane_product(values, j, lane)
        work[one + j] = _lane_product(values, ROWS + j, lane)
        work[two + j] = _lane_product(values, 2 * ROWS + j, lane)
        work[three + j] = _lane_product(values, 3 * ROWS + j, lane)
    for j in range(16):
        work[j] = _sum_of_four(work, j, 16)
        work[one + j] = _sum_of_four(work, one + j, 16)
        work[two + j] = _sum_of_four(work, two + j, 16)
        work[three + j] = _sum_of_four(work, three + j, 16)
    for j in range(4):
        work[j] = _sum_of_four(work, j, 4)
        work[one + j] = _sum_of_four(work, one + j, 4)
        work[two + j] = _sum_of_four(work, two + j, 4)
        work[three + j] = _sum_of_four(work, three + j, 4)
    for q in range(4):
        out[q] += _sum_of_four(work, q * LANES, 1)


@helper
def _lane(row: Any, j: int) -> tuple[float, float, float, float, float, float, float, float]:
    """The eight numbers of a row of 512 that stand 64 apart from j on."""
    return row[j], row[j + 64], row[j + 128], row[j + 192], row[j + 256], row[j + 320], row[j + 384], row[j + 448]


@helper
def _lane_product(values: Any, j: int, lane: Any) -> float:
    """Inner product of a lane with the values that stand 64 apart from j on."""
    return float(
        ((values[j] * lane[0] + values[j + 64] * lane[1]) + (values[j + 128] * lane[2] + values[j + 192] * lane[3]))
        + (
            (values[j + 256] * lane[4] + values[j + 320] * lane[5])
            + (values[j + 384] * lane[6] + values[j + 448] * lane[7])
        )
    )


@helper
def _sum_of_four(values: Any, j: int, step: int) -> float:
    return float((values[j] + values[j + step]) + (values[j + 2 * step] + values[j + 3 * step]))
