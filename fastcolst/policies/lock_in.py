"""Whether a policy that shows an arm against itself knows enough to do so.

A self-duel teaches nothing, so that with arms that never change a wrong favourite may be shown against itself for ever.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastcolst.comparison import pdf

__all__ = ["FEW_LOOKS", "LATER_EVERY", "LEAST_LOOKS", "LOCKED_IN", "LOOK_EVERY", "is_justified"]

LOOK_EVERY = 16
"""One choice in so many is looked at, up to ``FEW_LOOKS`` of them."""
LATER_EVERY = 512
"""One in so many after that: a look takes longer than a choice."""
FEW_LOOKS = 64
"""Looks after which they become rare."""
AT_ONCE = 8192
"""Arms that are compared with the first at a time: one rival that is not ruled out is enough."""
LEAST_LOOKS = 16
"""Looks since the exploration before a policy warns; it does when more than half found a self-duel without reason."""

LOCKED_IN = (
    "of {n} choices since the exploration that were looked at, {bad} showed an arm against itself though what is known "
    "does not rule out its rivals; such duels teach nothing, and a wrong favourite stays. allow_self_duel=False rules "
    "them out, as fc.CoLSTIM.for_service does"
)


def is_justified(state: Any, model: Any, contexts: Any, first: int) -> bool:
    """Whether no rival's upper bound reaches an arm that was shown against itself.

    That is when for every other arm j

        min(1, 2 f(0) (u_first - u_j)) >= 2 |x_first - x_j|_{M^-1}.

    On the left stands an upper bound of 2 F(u_first - u_j) - 1, by how much the arm is said to win more often than it
    loses: F is steepest at 0. On the right stand two standard errors of that difference from as many comparisons as M
    holds of the two, had a coin decided them. So a theta far out, which a few answers that agree can bring about,
    justifies nothing before there are four comparisons.

    Notes
    -----
    O(n d^2), in NumPy; a policy looks at one choice in ``LOOK_EVERY``, and later at one in ``LATER_EVERY``. Of
    ``contexts`` (n, d), an array or :class:`fastcolst.policies.bound_rows.Rows`, slices are taken.
    """
    d, own = contexts.shape[1], contexts[first]  # the place where an arm was shown is no feature
    for start in range(0, len(contexts), AT_ONCE):
        contrasts = own - contexts[start : start + AT_ONCE]
        ahead = np.minimum(1.0, 2.0 * float(pdf(model, 0.0)) * (contrasts @ state.memory.theta[:d]))
        if not np.all(ahead >= 2.0 * np.linalg.norm(contrasts @ state.factor[:, :d].T, axis=1)):
            return False
    return True
