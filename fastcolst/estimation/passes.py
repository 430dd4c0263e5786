"""One pass over all comparisons: the gradient and the information.

When an estimator makes a pass is decided by :func:`fastcolst.estimation.prediction.pass_is_due`; who makes it is
:mod:`fastcolst.estimation.newton`, for fits and audits as well, which do not ask.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fastcolst._compile import helper, kernel, summation
from fastcolst.comparison import cdf, curvature, pdf, score
from fastcolst.estimation.history import ROWS, History
from fastcolst.estimation.objective import Objective

__all__ = ["gradient_and_information", "pass_over"]

MANY = 160
"""Features beyond which BLAS sums up the information: of 200 that takes nine tenths of the time, of 100 1.3 times."""


@functools.singledispatch
def pass_over(history: Any, objective: Any, theta: Any, gradient: Any, information: Any) -> int:
    """Gradient and information in one pass over whatever comparisons are kept in.

    As :func:`gradient_and_information`, which is what passes over a :class:`fastcolst.estimation.history.History` are.
    """
    if information.shape[0] > MANY:
        return _pass_by_blas(history, objective, theta, gradient, information)
    return gradient_and_information(objective.model, objective.score, history, theta, gradient, information)


def _pass_by_blas(history: History, objective: Objective, theta: Any, gradient: Any, information: Any) -> int:
    """As :func:`gradient_and_information`; dsyrk sums up the information, n d^2 / 2 multiply-adds."""
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
    O(n d), and O(n d^2 / 2) with the information. Its scratch vectorises better as local arrays than as an argument.
    """
    margins, slopes, curvatures = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS)
    d = theta.size
    gradient[:] = 0.0
    information[:] = 0.0
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
        for k in range(d):
            gradient[k] += _block_product(slopes, block[k])
        if information.size > 0:
            _add_information(block, curvatures, information)
    for k in range(information.shape[0]):
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
    """Margins z~'theta of a block. O(512 d).

    Four coordinates for each load and store of the output: one by one takes 1.6 times as long with 10 features.
    """
    d = theta.size
    for j in range(ROWS):
        out[j] = 0.0
    k = 0
    while k + 4 <= d:
        a, b, c, e = theta[k], theta[k + 1], theta[k + 2], theta[k + 3]
        for j in range(ROWS):
            out[j] += (a * block[k, j] + b * block[k + 1, j]) + (c * block[k + 2, j] + e * block[k + 3, j])
        k += 4
    while k < d:
        for j in range(ROWS):
            out[j] += theta[k] * block[k, j]
        k += 1


@helper
def _add_information(block: Any, curvatures: Any, information: Any) -> None:
    """Add sum w z z' of a block to the lower triangle. O(512 d^2 / 2).

    Four products are summed up together, of two coordinates with two, so that every load serves twice: one by one takes
    1.7 times as long with 50 features, and as long with 10. A last coordinate without a partner is its own.
    """
    weighted, next_weighted = np.empty(ROWS), np.empty(ROWS)
    d = information.shape[0]
    for k in range(0, d, 2):
        next_k = min(k + 1, d - 1)
        for j in range(ROWS):
            weighted[j] = curvatures[j] * block[k, j]
            next_weighted[j] = curvatures[j] * block[next_k, j]
        for l in range(0, k + 1, 2):
            next_l = min(l + 1, d - 1)
            upper, right, lower, corner = _block_products(weighted, next_weighted, block[l], block[next_l])
            information[k, l] += upper
            if next_k > k:
                information[next_k, l] += lower
                information[next_k, next_l] += corner
            if l < k:
                information[k, next_l] += right


@summation
def _block_products(one: Any, other: Any, row: Any, next_row: Any) -> tuple[float, float, float, float]:
    """Inner products of 512 values with two coordinates of a block, then those of 512 others."""
    a, b, c, e = 0.0, 0.0, 0.0, 0.0
    for j in range(ROWS):
        a += one[j] * row[j]
        b += one[j] * next_row[j]
        c += other[j] * row[j]
        e += other[j] * next_row[j]
    return a, b, c, e


@summation
def _block_product(values: Any, row: Any) -> float:
    """Inner product of 512 values with a coordinate of a block."""
    total = 0.0
    for j in range(ROWS):
        total += values[j] * row[j]
    return total
