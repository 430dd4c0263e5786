"""Stochastic gradient ascent, the paper's estimator in its experiments."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import register
from fastcolst.comparison import cdf, score
from fastcolst.estimation.protocol import LEARNED, OVERFLOW
from fastcolst.estimation.words import SCORES, number_of, radius_of, score_of, stands_for
from fastcolst.kernels.linalg import dot

__all__ = ["SGD", "SGDMemory", "SGDSteps"]


class SGDMemory(NamedTuple):
    """What SGD remembers: theta (d,) float64 and the number of comparisons learned, () int64."""

    theta: NDArray[np.float64]
    learned: NDArray[np.int64]


@register
class SGDSteps(NamedTuple):
    """What :class:`SGD` is in kernels: radius inf for None, score 0 for "likelihood" and 1 for "residual"."""

    learning_rate: float
    decay: float
    radius: float
    score: int

    @staticmethod
    def words(given: Any) -> tuple[Any, ...]:
        """The fields of an SGD, checked."""
        rate, decay = number_of("SGD", "learning_rate", given[0]), number_of("SGD", "decay", given[1])
        if not 0.0 < rate < math.inf:
            raise ValueError(f"SGD: learning_rate is {rate!r}; a positive finite number is wanted")
        if not 0.0 <= decay <= 1.0:
            raise ValueError(f"SGD: decay is {decay!r}; a number in [0, 1] is wanted")
        return rate, decay, radius_of("SGD", given[2]), score_of("SGD", given[3])

    @classmethod
    def of(cls, given: Any) -> SGDSteps:
        """The numbers that the words stand for."""
        rate, decay, radius, score = cls.words(given)
        return cls(rate, decay, math.inf if radius is None else radius, SCORES.index(score))

    def memory(self, n_features: int) -> SGDMemory:
        """An empty memory: theta = 0, nothing learned."""
        return SGDMemory(np.zeros(n_features), np.zeros((), np.int64))

    def learn(self, model: Any, memory: Any, contrast: Any, share: float, weight: float) -> int:
        """Take one step; see :func:`fastcolst.estimation.protocol.learn`."""
        theta = memory.theta
        margin = dot(theta, contrast)
        pull = 0.0
        if share > 0.0:
            pull += share * (score(model, margin) if self.score == 0 else cdf(model, -margin))
        if share < 1.0:
            pull -= (1.0 - share) * (score(model, -margin) if self.score == 0 else cdf(model, margin))
        step = weight * self.learning_rate * pull
        if self.decay > 0.0:
            step *= float(memory.learned[()] + 1) ** -self.decay
        square = 0.0
        for k in range(theta.size):
            moved = theta[k] + step * contrast[k]
            square += moved * moved
        if not square < np.inf:
            return OVERFLOW
        shrink = 1.0 if square <= self.radius * self.radius else self.radius / np.sqrt(square)
        for k in range(theta.size):
            theta[k] = shrink * (theta[k] + step * contrast[k])
        memory.learned[()] += 1
        return LEARNED


@stands_for(SGDSteps)
class SGD(NamedTuple):
    """Stochastic gradient ascent on the log-likelihood, one step for each comparison.

    theta <- theta + learning_rate t^-decay g(z'theta, y) z, for the t-th comparison.

    Parameters
    ----------
    learning_rate : float, default 0.5
        Length of a step; positive. The paper's experiments use 1/2.
    decay : float, default 0.0
        Power with which the steps shrink, in [0, 1]. 0 is the paper's constant rate.
    radius : float, optional
        theta is projected onto the ball of this radius after each step. None: no projection.
    score : {"likelihood", "residual"}
        What g is: the derivative of the log-likelihood, (y - F) f/(F(1-F)), or the paper's residual y - F. They agree
        for the logistic model of scale 1 only.

    Raises
    ------
    ValueError
        For a value outside these ranges.

    Notes
    -----
    O(d) a comparison. At a constant rate theta does not converge to the true parameter: it keeps moving, and grows well
    past it.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), section 3.2.3, computational aspects; equation (10) for the residual.

    Examples
    --------
    >>> import fastcolst as fc
    >>> fc.SGD(learning_rate=0.1, radius=1)
    SGD(learning_rate=0.1, decay=0.0, radius=1.0, score='likelihood')
    """

    learning_rate: float = 0.5
    decay: float = 0.0
    radius: float | None = None
    score: str = "likelihood"
