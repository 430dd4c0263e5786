"""What an exact estimator kept, as arrays; and its memory as if some of that had never been learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst.estimation.history import ROWS, History
from fastcolst.estimation.records import Evidence

__all__ = ["rows_of", "without"]


def rows_of(history: History) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Signed contrasts (m, d) and weights (m,) in their order; copies. O(m d)."""
    m, d = int(history.size[0]), history.blocks.shape[1] - 1
    blocks = history.blocks[history.owned[: -(-m // ROWS)], :, :ROWS]
    rows = blocks.transpose(0, 2, 1).reshape(-1, d + 1)[:m]
    return rows[:, :d].copy(), rows[:, d].copy()


def without(steps: Any, memory: Evidence, start: int, stop: int) -> Evidence:
    """The memory of an exact estimator without some rows, which are one comparison.

    ``start`` and ``stop`` are places in the history. Nothing is warm: theta is where it was, and the next refresh finds
    the maximum from there. The scales of the features are those of what is left. O(m d).
    """
    contrasts, weights = rows_of(memory.history)
    rest = np.r_[0:start, stop : len(weights)]
    fresh: Evidence = steps.memory(contrasts.shape[1])
    if not rest.size:
        return fresh
    contrasts = contrasts[rest]
    fresh.theta[:] = memory.theta
    fresh.features["scale"] = np.abs(contrasts).max(axis=0)
    fresh.progress["learned"] = max(1, memory.progress["learned"] - 1)
    fresh.progress["warm"] = 0
    return fresh._replace(history=History.of(contrasts, weights[rest]))
