"""Answers that count for less the less M knew of the pair: what liars say of new pairs does not outweigh the others.

An answer to the pair z has the weight w_0 = min(1, alpha / |z|_{M^-1}), M from before the pair was shown. What C lies
can do to theta, in the norm of M, is then bounded by alpha C; with alpha = sqrt(d) / C by what chance does anyhow.

References
----------
Di, Jin, Farnoud, Gu (2024), Nearly optimal algorithms for contextual dueling bandits from adversarial feedback (RCDB).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fastcolst._compile import direct, helper, kernel, register
from fastcolst.estimation.protocol import doubt, information_factor, is_stale, learn
from fastcolst.kernels.linalg import whiten_contrast

__all__ = ["trust_entry", "trust_of", "trusting"]


LEAST = 1e-300
"""The smallest weight of an answer: less would be 0 before long, and an answer of no weight is none."""


@helper
def trust(alpha: float, square: float) -> float:
    """w_0 of an answer to z, from z'M^-1 z, at least ``LEAST``; 1 where that overflows, which learning says."""
    return float(max(alpha / np.sqrt(square), LEAST)) if alpha * alpha < square < np.inf else 1.0


@kernel
def trust_of(alpha: float, factor: Any, contrast: Any, work: Any) -> float:
    """w_0 of a pair that is shown, from S with S'S = M^-1; ``work`` (d,) is overwritten. O(d^2)."""
    return trust(alpha, whiten_contrast(factor, contrast, work))


@cache
def trust_entry() -> Callable[..., float]:
    """:func:`trust_of` as :func:`fastcolst._compile.direct` has it, for float64 arrays as a policy owns them."""
    square = np.zeros((1, 1))
    return direct(trust_of, 1.0, square, square[0], square[0])


@register
class Trusting(NamedTuple):
    """An estimator for comparisons whose weight follows from M as it is when they are learned.

    estimator: who learns; alpha: as above, inf where the weight follows from an earlier M and is known. In kernels
    alone: Python goes on asking the estimator itself.
    """

    estimator: Any
    alpha: float

    def learn(self, model: Any, memory: Any, contrast: Any, share: float, weight: float) -> int:
        """As the estimator does."""
        return learn(self.estimator, model, memory, contrast, share, weight)

    def is_stale(self, memory: Any, wanted: bool) -> bool:
        """As the estimator does."""
        return is_stale(self.estimator, memory, wanted)

    def doubt(self, memory: Any) -> float:
        """As the estimator does."""
        return doubt(self.estimator, memory)

    def information_factor(self, memory: Any, otherwise: Any) -> Any:
        """As the estimator does."""
        return information_factor(self.estimator, memory, otherwise)

    def weigh(self, factor: Any, contrast: Any, weight: float, work: Any) -> tuple[float, float]:
        """As :func:`fastcolst.estimation.protocol.weigh`, times w_0. S z is needed for that: it is whitened once."""
        for k in range(
            contrast.size
        ):  # whitened from scratch like others: of a row that may alias it takes a tenth more
            work[1, k] = contrast[k]
        square = whiten_contrast(factor, work[1], work[0])
        counts = weight * trust(self.alpha, square)
        root = np.sqrt(counts)
        for k in range(contrast.size):
            work[0, k] *= root
            work[1, k] *= root
        return counts, counts * square


def trusting(rule: Any, alpha: float) -> Any:
    """The rule of a robust policy, as kernels take it."""
    return rule._replace(estimator=Trusting(rule.estimator, alpha))
