"""Answers that count for less the less M knew of the pair: what liars say of new pairs does not outweigh the others.

An answer to the pair z has the weight w_0 = min(1, alpha / |z|_{M^-1}), M from before the pair was shown. What C lies
can do to theta is then bounded by alpha C; with alpha = sqrt(d) / C by what chance does anyhow.

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


@helper
def trust(alpha: float, factor: Any, contrast: Any, work: Any) -> float:
    """w_0 of an answer to z, from S with S'S = M^-1; 1 where |z| overflows, which learning says. O(d^2)."""
    square = whiten_contrast(factor, contrast, work)
    return float(alpha / np.sqrt(square)) if alpha * alpha < square < np.inf else 1.0


@kernel
def trust_of(alpha: float, factor: Any, contrast: Any, work: Any) -> float:
    """As :func:`trust`, of a pair that is shown: (d, d) and twice (d,) float64, the last one scratch."""
    return trust(alpha, factor, contrast, work)


@cache
def trust_entry() -> Callable[..., float]:
    """:func:`trust_of` as :func:`fastcolst._compile.direct` has it, for float64 arrays as a policy owns them."""
    square = np.zeros((1, 1))
    return direct(trust_of, 1.0, square, square[0], square[0])


@register
class Trusting(NamedTuple):
    """An estimator for comparisons that are learned as soon as they are known: their weight follows from M as it is.

    estimator: who learns; alpha: as above. In kernels alone: Python goes on asking the estimator itself.
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

    def weigh(self, factor: Any, contrast: Any, work: Any) -> float:
        """w_0."""
        return trust(self.alpha, factor, contrast, work)


def trusting(rule: Any, alpha: float) -> Any:
    """The rule, for kernels in which comparisons are learned at once: fused rounds and logs."""
    return rule._replace(estimator=Trusting(rule.estimator, alpha))
