"""Stochastic gradient ascent, the paper's estimator in its experiments."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import answer
from fastcolst._compile import helper, register
from fastcolst.comparison import cdf, score
from fastcolst.estimation.protocol import LEARNED, OVERFLOW
from fastcolst.estimation.sets import pulls
from fastcolst.estimation.words import SCORES, number_of, radius_of, score_of, stands_for
from fastcolst.kernels.linalg import dot

__all__ = ["SGD", "SGDMemory", "SGDSteps"]


CERTAIN = 1.0 / (1.0 + math.exp(30.0))
"""The rule for steps that are too long: a margin passed 30, of Bradley-Terry with scale 1, or of another model where
F(-margin) is as small. No answers make predictions so certain; steps do that run over their aim, back and forth."""


LEAST_SQUARE = 2.2250738585072014e-308
"""Smaller mean squares have fewer digits, down to none: features of size 1.5e-154."""


class SGDMemory(NamedTuple):
    """What SGD remembers.

    theta (d,) float64; learned () int64, comparisons; squares (2, d) float64, for each feature the sum of its squares
    and the number of contrasts in which it was not 0; extreme (2,) float64, the largest |z'theta| of a comparison
    before it was learned, and F(-that).
    """

    theta: NDArray[np.float64]
    learned: NDArray[np.int64]
    squares: NDArray[np.float64]
    extreme: NDArray[np.float64]


@helper
def _mean_square(squares: Any, k: int, value: float) -> float:
    """Mean square of feature k where it is not 0, with one more value; 1 where there is none."""
    if value == 0.0:
        return float(squares[0, k] / squares[1, k] if squares[0, k] > 0.0 else 1.0)
    return float((squares[0, k] + value * value) / (squares[1, k] + 1.0))


@helper
def _add_squares(squares: Any, contrast: Any) -> None:
    """Count what is not 0 in a contrast, and its squares."""
    for k in range(contrast.size):
        if contrast[k] != 0.0:
            squares[0, k] += contrast[k] * contrast[k]
            squares[1, k] += 1.0


@helper
def _stepped(memory: Any, contrast: Any, k: int, step: float, is_standardized: bool) -> float:
    """theta_k after a step: in units of the feature's size s_k, if wanted, s_k theta_k <- s_k theta_k + step z_k / s_k.

    A size that changes leaves s_k theta_k as it is: what a first, small contrast taught would be monstrous in units of
    an ordinary one.
    """
    theta, value = memory.theta[k], contrast[k]
    if not is_standardized or value == 0.0:
        return float(theta + step * value)
    after = _mean_square(memory.squares, k, value)
    before = _mean_square(memory.squares, k, 0.0)
    return float(theta * np.sqrt(before / after) + step * (value / after))


@register
class SGDSteps(NamedTuple):
    """What :class:`SGD` is in kernels: radius inf for None, score 0 for "likelihood" and 1 for "residual"."""

    learning_rate: float
    decay: float
    radius: float
    score: int
    standardize: int

    @staticmethod
    def words(given: Any) -> tuple[Any, ...]:
        """The fields of an SGD, checked."""
        rate, decay = number_of("SGD", "learning_rate", given[0]), number_of("SGD", "decay", given[1])
        if not 0.0 < rate < math.inf:
            raise ValueError(f"SGD: learning_rate is {rate!r}; a positive finite number is wanted")
        if not 0.0 <= decay <= 1.0:
            raise ValueError(f"SGD: decay is {decay!r}; a number in [0, 1] is wanted")
        return rate, decay, radius_of("SGD", given[2]), score_of("SGD", given[3]), answer(given[4], "SGD: standardize")

    @classmethod
    def of(cls, given: Any) -> SGDSteps:
        """The numbers that the words stand for."""
        rate, decay, radius, score, standardize = cls.words(given)
        return cls(rate, decay, math.inf if radius is None else radius, SCORES.index(score), int(standardize))

    def memory(self, n_features: int) -> SGDMemory:
        """An empty memory: theta = 0, nothing learned."""
        return SGDMemory(np.zeros(n_features), np.zeros((), np.int64), np.zeros((2, n_features)), np.array([0.0, 0.5]))

    def status(self, memory: Any) -> str:
        """The word is "overshooting" where a margin passed 30, as :data:`CERTAIN` says it, and "ready" otherwise."""
        return "overshooting" if memory.extreme[1] < CERTAIN else "ready"

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
        is_standardized = self.standardize == 1
        square = 0.0
        for k in range(theta.size):
            # theta, in the features' units, would overflow, which is not seen where the square of a tiny number is 0
            if is_standardized and contrast[k] != 0.0 and _mean_square(memory.squares, k, contrast[k]) < LEAST_SQUARE:
                return OVERFLOW
            moved = _stepped(memory, contrast, k, step, is_standardized)
            square += moved * moved
        if not square < np.inf:
            return OVERFLOW
        shrink = 1.0 if square <= self.radius * self.radius else self.radius / np.sqrt(square)
        for k in range(theta.size):
            theta[k] = shrink * _stepped(memory, contrast, k, step, is_standardized)
        if is_standardized:
            _add_squares(memory.squares, contrast)
        if np.abs(margin) > memory.extreme[0]:
            memory.extreme[0], memory.extreme[1] = np.abs(margin), cdf(model, -np.abs(margin))
        memory.learned[()] += 1
        return LEARNED

    def learn_choice(self, model: Any, memory: SGDMemory, contrasts: NDArray[np.float64], weight: float) -> int:
        """Take one step on the loss of which of several was chosen.

        A feature's square is the mean of those of the contrasts in which it is not 0.
        """
        theta, squares = memory.theta, memory.squares
        margins = contrasts @ theta
        pull = pulls(model, self.score, margins)[0] @ contrasts
        step = weight * self.learning_rate * float(memory.learned[()] + 1) ** -self.decay
        n_other = np.count_nonzero(contrasts, axis=0)
        is_new = (n_other > 0).astype(np.float64)
        moved = theta + step * pull
        more = (contrasts**2).sum(axis=0) / np.maximum(n_other, 1)
        if self.standardize == 1:
            before = np.where(squares[0] > 0.0, squares[0] / np.maximum(squares[1], 1.0), 1.0)
            after = np.where(is_new > 0.0, (squares[0] + more) / (squares[1] + 1.0), before)
            if after.min() < LEAST_SQUARE:
                return OVERFLOW
            moved = theta * np.sqrt(before / after) + step * (pull / after)
        square = float(moved @ moved)
        if not square < np.inf:
            return OVERFLOW
        theta[:] = moved if square <= self.radius**2 else moved * (self.radius / math.sqrt(square))
        if self.standardize == 1:
            squares[0] += more
            squares[1] += is_new
        widest = float(np.abs(margins).max())
        if widest > memory.extreme[0]:
            memory.extreme[:] = widest, cdf(model, -widest)
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
        theta, in the features' own units, is projected onto the ball of this radius after each step. None: no
        projection.
    score : {"likelihood", "residual"}
        What g is: the derivative of the log-likelihood, (y - F) f/(F(1-F)), or the paper's residual y - F. They agree
        for the logistic model of scale 1 only.
    standardize : bool, default False
        Whether steps are taken in units of each feature's size, the root of the mean square of the contrasts learned so
        far in which it is not 0: predictions are then the same whatever units the features have, as long as there is no
        `radius` (theta, which is projected, is in the features' own units, as always) and sizes lie between 1e-150 and
        1e140. Features so small that their squares are lost are refused.

    Raises
    ------
    ValueError
        For a value outside these ranges.

    Notes
    -----
    O(d) a comparison. Steps in the units of large features run over their aim, back and forth: once the margin
    |z'theta| of a comparison passes 30 before it is learned, with Bradley-Terry of scale 1 (with another model, where
    F(-|margin|) is as small, 1e-13), ``policy.status`` says "overshooting", and the policy warns. At a constant rate
    theta does not converge to the true parameter: it keeps moving, and grows well past it.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), section 3.2.3, computational aspects; equation (10) for the residual.

    Examples
    --------
    >>> import fastcolst as fc
    >>> fc.SGD(learning_rate=0.1, radius=1)
    SGD(learning_rate=0.1, decay=0.0, radius=1.0, score='likelihood', standardize=False)
    """

    learning_rate: float = 0.5
    decay: float = 0.0
    radius: float | None = None
    score: str = "likelihood"
    standardize: bool = False
