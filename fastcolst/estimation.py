"""Estimators: how theta follows from comparisons.

An estimator is a registered NamedTuple of numbers; what it remembers is a NamedTuple of arrays that holds at least
``theta``. It takes one comparison at a time through the generic function :func:`learn`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import generic, register, registered
from fastcolst.comparison import cdf, score

__all__ = ["SGD", "estimator_of", "learn"]

LEARNED = 0
OVERFLOW = 1

SCORES = ("likelihood", "residual")


@generic
def learn(self: Any, model: Any, memory: Any, contrast: Any, won: bool) -> int:
    """Learn one comparison.

    Parameters
    ----------
    model : comparison model
    memory : NamedTuple of arrays
        What ``self.memory(n_features)`` made; changed in place.
    contrast : (d,) float64
        z = x_first - x_second, not all zero.
    won : bool
        Whether the first arm won.

    Returns
    -------
    int
        0: learned. 1: theta would overflow, nothing was changed.
    """
    raise TypeError(f"{type(self).__name__} has no method learn")


class SGDMemory(NamedTuple):
    """What SGD remembers: theta (d,) float64 and the number of comparisons learned, () int64."""

    theta: NDArray[np.float64]
    learned: NDArray[np.int64]


@register
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
    radius: Any = None  # kernels see a number: inf for None
    score: Any = "likelihood"  # kernels see 0 or 1

    def checked(self) -> SGD:
        """Itself, with radius and score as the numbers that kernels take."""
        if not 0.0 < self.learning_rate < math.inf:
            raise ValueError(f"SGD: learning_rate is {self.learning_rate!r}; a positive finite number is wanted")
        if not 0.0 <= self.decay <= 1.0:
            raise ValueError(f"SGD: decay is {self.decay!r}; a number in [0, 1] is wanted")
        return self._replace(radius=radius_number(self.radius, "SGD"), score=score_code(self.score, "SGD"))

    def __repr__(self) -> str:
        radius = None if self.radius == math.inf else self.radius
        return (
            f"SGD(learning_rate={self.learning_rate!r}, decay={self.decay!r}, radius={radius!r}, "
            f"score={SCORES[int(self.score)]!r})"
        )

    def memory(self, n_features: int) -> SGDMemory:
        """An empty memory: theta = 0, nothing learned."""
        return SGDMemory(np.zeros(n_features), np.zeros((), np.int64))

    def learn(self, model: Any, memory: Any, contrast: Any, won: bool) -> int:
        """Take one step; see :func:`learn`."""
        theta = memory.theta
        margin = 0.0
        for k in range(theta.size):
            margin += theta[k] * contrast[k]
        sign = 1.0 if won else -1.0
        gradient = score(model, sign * margin) if self.score == 0 else cdf(model, -sign * margin)
        step = sign * self.learning_rate * gradient
        if self.decay > 0.0:
            step *= float(memory.learned[()] + 1) ** -self.decay
        square = 0.0
        for k in range(theta.size):
            square += (theta[k] + step * contrast[k]) ** 2
        if not square < np.inf:
            return OVERFLOW
        shrink = 1.0 if square <= self.radius * self.radius else self.radius / np.sqrt(square)
        for k in range(theta.size):
            theta[k] = shrink * (theta[k] + step * contrast[k])
        memory.learned[()] += 1
        return LEARNED


_BY_NAME: dict[str, type] = {"sgd": SGD}


def estimator_of(value: Any) -> Any:
    """The estimator that a user's argument stands for: "sgd", or an instance.

    Raises
    ------
    ValueError
        For an unknown name or an object without the methods ``memory`` and ``learn``.
    """
    known = ", ".join(map(repr, _BY_NAME))
    if isinstance(value, str):
        if value not in _BY_NAME:
            raise ValueError(f"estimator is {value!r}; wanted {known} or an estimator")
        return _BY_NAME[value]()
    missing = [name for name in ("memory", "learn") if not callable(getattr(type(value), name, None))]
    if missing or isinstance(value, type):
        raise ValueError(f"estimator is {value!r}; wanted {known} or a NamedTuple with the methods memory and learn")
    return registered(value, "estimator")


def score_code(value: str | int, owner: str) -> int:
    """The number by which kernels know a score: 0 likelihood, 1 residual."""
    if value in SCORES:
        return SCORES.index(value)
    if type(value) is int and 0 <= value < len(SCORES):
        return value
    raise ValueError(f"{owner}: score is {value!r}; wanted one of {', '.join(map(repr, SCORES))}")


def radius_number(value: float | None, owner: str) -> float:
    """A radius as a number: None stands for infinity."""
    if value is None:
        return math.inf
    if isinstance(value, (int, float, np.floating)) and not isinstance(value, bool) and 0.0 < value < 2**1023:
        return float(value)
    if value == math.inf:
        return math.inf
    raise ValueError(f"{owner}: radius is {value!r}; a positive number or None is wanted")
