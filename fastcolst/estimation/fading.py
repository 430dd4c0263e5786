"""What was learned, after all of it has come to count less.

With J = sum w I(z'theta) z z' and H = ridge I + J, weights that become a share g of what they were make of it

    H <- ridge I + g J = g H + (1 - g) ridge I:

the prior does not fade, so that no direction is ever known less than before there was an answer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastcolst._blas import on_one_thread
from fastcolst.estimation.history import ROWS, History

__all__ = ["faded_factor", "faded_history", "scales_of"]

FORGOTTEN = 1e-4
"""The oldest comparisons are let go where that takes no more than this share of what fading takes anyway: so much of
all weights together is missing at most. Of a steady stream some 10/(1 - discount) are left, and up to 512 more."""


def faded_history(history: History, share: float, n_rows: int, forgets: bool = True) -> History:
    """A history with room for so many rows more, whose weights are a share of what they were; the old one stays.

    It begins with the block of 512 before which weights hardly count any more, see :data:`FORGOTTEN`, unless it
    ``forgets`` nothing. Both halves of a tie are kept, or neither. O(m d).
    """
    owned, d = history.owned[: -(-int(history.size[0]) // ROWS)], history.blocks.shape[1] - 1
    start = _first_that_counts(history.blocks, owned, share) if forgets else 0
    kept = owned[start:]
    fresh = History.new(d, len(kept) * ROWS + n_rows)
    for number, old in enumerate(kept):
        fresh.blocks[number] = history.blocks[old]
    fresh.blocks[: len(kept), d] *= share
    fresh.owned[: len(kept)] = np.arange(len(kept))
    fresh.size[0] = history.size[0] - start * ROWS
    fresh.used[0] = len(kept)
    return fresh


def _first_that_counts(blocks: NDArray[np.float64], owned: NDArray[np.int64], share: float) -> int:
    """The first of some blocks that is not let go; the last one never is."""
    weights = np.array([blocks[number, -1].sum() for number in owned])
    start = int(np.count_nonzero(np.cumsum(weights[:-1]) <= FORGOTTEN * (1.0 - share) * weights.sum()))
    while start > 0 and np.array_equal(blocks[owned[start - 1], :-1, ROWS - 1], -blocks[owned[start], :-1, 0]):
        start -= 1  # a tie lies on both sides
    return start


def scales_of(history: History) -> NDArray[np.float64]:
    """The largest size of each feature in a history, (d,)."""
    sizes: NDArray[np.float64] = np.max([np.abs(block[:-1]).max(axis=1) for block in history.filled()], axis=0)
    return sizes


def faded_factor(factor: NDArray[np.float64], share: float, ridge: float) -> NDArray[np.float64]:
    """The lower triangular S of g H + (1 - g) ridge I, S'S its inverse, from that of H.

    With S for that of H and L L' = g I + (1 - g) ridge S S' it is L^-1 S. Since H is at least ridge I that matrix lies
    between g I and I: no digit is lost, whatever the scales of the features. O(d^3).
    """
    from scipy.linalg.lapack import dtrtri  # a tenth of a second, which policies that never forget need not pay

    def faded() -> NDArray[np.float64]:
        inner = (1.0 - share) * ridge * (factor @ factor.T)
        inner.reshape(-1)[:: len(factor) + 1] += share
        inverse, _ = dtrtri(np.linalg.cholesky(inner), lower=1)
        return np.ascontiguousarray(np.tril(inverse @ factor))

    return on_one_thread(len(factor), faded)
