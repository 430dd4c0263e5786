"""How a pair becomes a set: arm by arm, the one that is best when doubt about all that are there speaks for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastcolst._compile import kernel
from fastcolst.kernels.selection import among_equals, argmax, tie_key
from fastcolst.kernels.splitmix import word
from fastcolst.policies.state import assess_by, confidence_scale, factor_of_widths

__all__ = ["fill_set", "scale_of"]


@kernel
def scale_of(agent: Any) -> float:
    """Width scale of the round to come."""
    return confidence_scale(agent.rule, agent.state)


@kernel
def fill_set(agent: Any, contexts: Any, raw: Any, scale: float, out: Any) -> None:
    """Add arms to a pair, each argmax_j u_j + c min_i |x_j - x_i|_{M^-1} over the arms i that are there.

    Parameters
    ----------
    agent : the policy's rule, state and generator
        Of a rule with widths; utilities and widths of these contexts are finite.
    contexts : (d, n) float64
        Arms as columns.
    raw : (n_raw,) float64
        The numbers of the round; the second breaks ties.
    scale : float
        c.
    out : (k,) int64
        The pair in the first two places; the others are overwritten by the arms that join it, k <= n.

    Notes
    -----
    O(n d (d + k)). In a round of exploration all arms are worth the same, and the set is a random one. The random
    orders by which the rule breaks its ties, of the keys ``key`` and ``word(key)``, are not used again.
    """
    rule, state = agent.rule, agent.state
    d, n = contexts.shape
    whitened, utility, nearest, values = np.zeros((d, n)), np.zeros(n), np.zeros(n), np.empty(n)
    is_exploring = state.counters[()].exploration_end < 0
    if not is_exploring:
        assess_by(factor_of_widths(rule, state), state.memory.theta, contexts, whitened, utility, values)
    key = word(tie_key(raw[1]))
    for m in range(1, out.size):
        last = out[m - 1]
        for j in range(n):
            square = 0.0
            for k in range(d):
                square += (whitened[k, j] - whitened[k, last]) * (whitened[k, j] - whitened[k, last])
            nearest[j] = square if m == 1 else min(nearest[j], square)
        utility[last] = -np.inf
        if m == 1:
            continue  # the rule chose the second
        for j in range(n):
            values[j] = utility[j] + scale * np.sqrt(nearest[j])
        key = word(key)
        out[m] = among_equals(values, argmax(values), key)
