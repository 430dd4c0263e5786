"""Passes over comparisons whose contrasts are mostly zeros: what costs O(n d^2) then costs a few operations a row.

A rating of 300 items has two entries in a row of 300. Rows that are equal, or each other's opposite, are one row with
its wins and losses, so that a million battles are at most 44,850.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import kernel
from fastcolst.estimation.objective import slope_and_curvature
from fastcolst.estimation.passes import pass_over

__all__ = ["SparseHistory", "equal_rows"]


class SparseHistory(NamedTuple):
    """Contrasts in compressed rows, how often the first won each and how often it lost.

    starts (m + 1,) int64, columns (p,) int64 and values (p,) float64, as SciPy's indptr, indices and data; won, lost
    (m,) float64; size (1,) int64, rows; n_features, d, of which the last may have no entry.
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]
    won: NDArray[np.float64]
    lost: NDArray[np.float64]
    size: NDArray[np.int64]
    n_features: int

    @classmethod
    def of(cls, matrix: Any, won: NDArray[np.float64], lost: NDArray[np.float64]) -> Self:
        """Of a SciPy CSR matrix (m, d)."""
        starts, columns = (np.asarray(part, np.int64) for part in (matrix.indptr, matrix.indices))
        return cls(starts, columns, matrix.data, won, lost, np.array([len(won)]), matrix.shape[1])

    def margins(self, direction: NDArray[np.float64]) -> NDArray[np.float64]:
        """z~'direction of all comparisons: of those that the first won, then of those that it lost. O(p)."""
        rows = np.repeat(np.arange(len(self.won)), np.diff(self.starts))
        along = np.bincount(rows, self.values * direction[self.columns], len(self.won))
        return np.append(along[self.won > 0.0], -along[self.lost > 0.0])

    def gram_of(self, selected: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Z'Z of some of these, (d, d). O(sum p_k^2 + d^2) for rows with p_k entries."""
        from scipy.sparse import csr_matrix  # loaded where there is a sparse history

        counts = np.zeros((2, len(self.won)))
        n_won = int(np.count_nonzero(self.won > 0.0))
        counts[0, self.won > 0.0], counts[1, self.lost > 0.0] = selected[:n_won], selected[n_won:]
        rooted = self.values * np.repeat(np.sqrt(counts.sum(axis=0)), np.diff(self.starts))
        rows = csr_matrix((rooted, self.columns, self.starts), (len(self.won), self.n_features))
        gram: NDArray[np.float64] = (rows.T @ rows).toarray()
        return gram


@pass_over.register(SparseHistory)
@kernel
def _sparse_pass(history: Any, objective: Any, theta: Any, gradient: Any, information: Any) -> int:
    """See :func:`fastcolst.estimation.passes.pass_over`. O(sum p_k^2) for rows with p_k entries."""
    with_information = information.shape[0] > 0
    starts, columns, values = history.starts, history.columns, history.values
    gradient[:] = 0.0
    information[:] = 0.0
    n_wrong = 0
    for i in range(history.won.size):
        margin = 0.0
        for p in range(starts[i], starts[i + 1]):
            margin += values[p] * theta[columns[p]]
        won, lost = history.won[i], history.lost[i]
        slope, bend = slope_and_curvature(objective, margin)
        slope_lost, bend_lost = slope_and_curvature(objective, -margin)
        pull, weight = won * slope - lost * slope_lost, won * bend + lost * bend_lost
        n_wrong += (won > 0.0 and margin <= 0.0) + (lost > 0.0 and margin >= 0.0)
        for p in range(starts[i], starts[i + 1]):
            gradient[columns[p]] += pull * values[p]
            if with_information:
                for q in range(starts[i], starts[i + 1]):
                    information[columns[p], columns[q]] += weight * values[p] * values[q]
    return n_wrong


def equal_rows(matrix: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Number the rows of a CSR matrix (m, d) so that equal ones, and opposite ones, have one number.

    Parameters
    ----------
    matrix : (m, d) CSR matrix

    Returns
    -------
    numbers : (m,) int64
        From 0 on.
    signs : (m,) float64
        1 or -1, such that the rows of a number, times their signs, are equal.

    Notes
    -----
    O(p + m log m). Rows are compared by their products with two vectors drawn at random: equal rows have equal
    products, bit for bit, since a row's are summed in the order of its entries; of two others both agree by a chance
    of some 2^-100.
    """
    keys = matrix @ np.random.default_rng(0).standard_normal((matrix.shape[1], 2))
    signs = np.where(keys[:, 0] < 0.0, -1.0, 1.0)
    keys *= signs[:, None]
    order = np.lexsort(keys.T)
    is_new = np.any(keys[order][1:] != keys[order][:-1], axis=1)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.append(0, np.cumsum(is_new))
    return numbers, signs
