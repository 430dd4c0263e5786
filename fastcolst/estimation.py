"""Estimators: how theta follows from comparisons.

An estimator is a registered NamedTuple of numbers; what it remembers is a NamedTuple of arrays that holds at least
``theta``. It takes one comparison at a time through the generic function :func:`learn`. One that puts work off until
theta is wanted says so through :func:`is_stale` and does it in its Python method ``refresh(model, memory)``: what needs
a whole history is rare, and costs all other kernels too much compilation.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import generic, helper, register, registered
from fastcolst.comparison import cdf, score
from fastcolst.likelihood import (
    INTERIOR,
    METRIC,
    N_LEARNED,
    SCALES,
    STATUS,
    STATUSES,
    WARM,
    Evidence,
    History,
    Objective,
    is_inexact,
    learn_exactly,
    solve,
)

__all__ = ["MLE", "SGD", "OnlineNewton", "doubt", "estimator_of", "is_stale", "learn"]

LEARNED = 0
OVERFLOW = 1
FULL = 2
STALE = 3

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
        ``LEARNED``. In all other cases nothing was changed. ``OVERFLOW``: theta would overflow. ``FULL``: an estimator
        with such a memory has the Python method ``grown(memory, n)``, which makes room for n more. ``STALE``:
        ``refresh`` must come first.
    """
    raise TypeError(f"{type(self).__name__} has no method learn")


@generic
def is_stale(self: Any, memory: Any, wanted: bool) -> bool:
    """Whether the estimator's Python method ``refresh(model, memory)`` must come next.

    ``wanted`` says whether theta is about to be used. An estimator without this method is always up to date.
    """
    return False


@generic
def doubt(self: Any, memory: Any) -> float:
    """The least probability that a prediction from the memory may give to either outcome.

    0 for an estimator without this method: predictions are then F of the margin, however certain.
    """
    return 0.0


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


# --- the exact estimators -----------------------------------------------------------------------------------

AUTO_RADIUS = 20.0
"""Wide enough that no honest maximum lies outside, and near enough for separated data: margins of 20 are certainty."""


@helper
def ball_radius(radius: float) -> float:
    """The radius that a number stands for: negative ones for "auto"."""
    return AUTO_RADIUS if radius < 0.0 else radius


@helper
def has_scaled_ball(radius: float) -> bool:
    """Whether theta is measured in the scales of the features: for "auto", and where there is no ball."""
    return not 0.0 < radius < math.inf


@register
class MLE(NamedTuple):
    """The maximum-likelihood estimate of everything seen, at every moment, to a stated tolerance.

    theta minimises -sum log F(z~'theta) + ridge/2 |theta|^2 over |theta| <= radius, z~ = z for a win of the first and
    -z otherwise. A comparison is learned by an implicit Newton step, in O(d^2). The error that builds up is of third
    order; where it has the form that Gaussian contrasts give it most of it is corrected at once. The rest is predicted,
    and before it exceeds the tolerance one pass over the history removes it. The number of passes grows like log t.

    Parameters
    ----------
    tolerance : float, default 1e-3
        Distance from the exact maximum, in standard errors, that theta keeps to; in [1e-10, 0.1].
    ridge : float, default 0.0
        Penalty ridge/2 |theta|^2; at least 0.
    radius : float, "auto" or None
        theta is kept within |theta| <= radius. "auto": 20 in the norm sqrt(sum (max|z_k| theta_k)^2), which rescaling
        of features leaves alone, and which keeps theta finite while it explains every comparison. None: no bound.
    score : {"likelihood", "residual"}
        "likelihood": as above. "residual": the paper's sum (Y - F(z'theta)) z = 0, which is another estimate unless the
        model is logistic; to be preferred for exponential noise, whose likelihood is not smooth.

    Raises
    ------
    ValueError
        For a value outside these ranges.

    Notes
    -----
    A comparison costs O(d^2), and now and then a pass over all of them O(n d^2); with more than 16 features most passes
    cost O(n d). Memory: 8.1 d bytes for each comparison. The distance from the maximum is predicted, not computed.
    On streams like those of experiments one of 78,000 audits found it above the tolerance, by a third. In searches over
    odd ones (one-hot, heavy-tailed, clustered, changing abruptly) one in two thousand did, at a tolerance of 0.1 up to
    one in a hundred: by up to 5 tolerances after comparisons of a new kind began to arrive, and by 11 after single
    contrasts thirty times as large as the others.

    While the maximum is not inside, theta is as large as the ball allows, and so certain that the predictions of
    ``learn_and_predict`` are kept within 1/(n + 2) and 1 - 1/(n + 2) after n of them, by the rule of succession; those
    of ``probability`` are not. ``policy.status`` tells how the estimate stands: "interior", "boundary" (a larger ball
    would give a larger estimate), "separated" (every comparison is explained: no finite maximum) or "not-converged".

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 1, line 6; equation (10) for the residual.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> rng = np.random.default_rng(0)
    >>> winners, losers = rng.normal(size=(2, 500, 3))
    >>> policy = fc.CoLSTIM(3, estimator=fc.MLE(tolerance=1e-4))
    >>> policy.learn(winners, losers)
    >>> policy.audit() < 1e-4
    True
    """

    tolerance: float = 1e-3
    ridge: float = 0.0
    radius: Any = "auto"  # kernels see a number: -inf for auto, inf for None
    score: Any = "likelihood"  # kernels see 0 or 1

    def checked(self) -> MLE:
        """Itself, with radius and score as the numbers that kernels take."""
        if not 1e-10 <= self.tolerance <= 0.1:
            raise ValueError(f"MLE: tolerance is {self.tolerance!r}; a number from 1e-10 to 0.1 is wanted")
        _check_ridge(self.ridge, "MLE")
        if self.radius == "auto" or self.radius == -math.inf:  # noqa: PLR1714  an array would not be hashable
            radius = -math.inf
        else:
            radius = radius_number(self.radius, "MLE", "a positive number, 'auto' or None")
        return self._replace(radius=radius, score=score_code(self.score, "MLE"))

    def __repr__(self) -> str:
        radius = {-math.inf: "auto", math.inf: None}.get(self.radius, self.radius)
        return (
            f"MLE(tolerance={self.tolerance!r}, ridge={self.ridge!r}, radius={radius!r}, "
            f"score={SCORES[int(self.score)]!r})"
        )

    def memory(self, n_features: int) -> Evidence:
        """An empty memory: theta = 0, nothing learned, room for a few thousand comparisons."""
        return Evidence.new(History.new(n_features, FIRST_ROOM))

    def grown(self, memory: Evidence, n: int) -> Evidence:
        """The memory with room for n more comparisons."""
        return memory if memory.history.room() >= n else memory._replace(history=memory.history.grown(n))

    def exact(self) -> MLE:
        """The estimator that computes what this one approximates."""
        return self._replace(tolerance=1e-10)

    def status(self, memory: Evidence) -> str:
        """How the estimate stands."""
        return STATUSES[memory.codes[STATUS]]

    def learn(self, model: Any, memory: Any, contrast: Any, won: bool) -> int:
        """Learn one comparison; see :func:`learn`."""
        objective = Objective(model, self.score, self.ridge, ball_radius(self.radius), has_scaled_ball(self.radius))
        return LEARNED if learn_exactly(objective, memory, contrast, won, True) else FULL

    def is_stale(self, memory: Any, wanted: bool) -> bool:
        """Whether theta is wanted and the predicted error exceeds the tolerance."""
        return wanted and is_inexact(memory, self.tolerance)

    def doubt(self, memory: Any) -> float:
        """1/(n + 2) after n comparisons unless the maximum lies inside: that few were all explained proves little."""
        return 0.0 if memory.codes[STATUS] == INTERIOR else 1.0 / (memory.codes[N_LEARNED] + 2.0)

    def refresh(self, model: Any, memory: Any) -> None:
        """Bring theta within the tolerance of the maximum."""
        radius, scaled = ball_radius(self.radius), has_scaled_ball(self.radius)
        memory.vectors[METRIC] = memory.vectors[SCALES] if scaled else 1.0
        solve(Objective(model, self.score, self.ridge, radius, scaled), memory, self.tolerance)


FIRST_ROOM = 4096
"""Comparisons for which a new memory has room."""


START_TOLERANCE = 1e-3
"""Of the exact start, in standard errors: what comes after it adds fifty times as much."""


@register
class OnlineNewton(NamedTuple):
    """Newton's method in one pass: every comparison is learned once and forgotten.

    The implicit Newton step of :class:`MLE` alone, after a start during which the exact maximum is kept.

    Parameters
    ----------
    history : int, default 2000
        Comparisons at the start that are remembered and solved exactly; at least 0.
    ridge : float, default 1.0
        Penalty ridge/2 |theta|^2; positive. With ``history=0`` it should be near 1: one pass with a small ridge takes
        far too long first steps, and never recovers.
    score : {"likelihood", "residual"}
        As for :class:`MLE`.

    Raises
    ------
    ValueError
        For a value outside these ranges.

    Notes
    -----
    O(d^2) a comparison, O(history d + d^2) memory whatever the horizon.

    Examples
    --------
    >>> import fastcolst as fc
    >>> fc.OnlineNewton(history=500)
    OnlineNewton(history=500, ridge=1.0, score='likelihood')
    """

    history: int = 2000
    ridge: float = 1.0
    score: Any = "likelihood"  # kernels see 0 or 1

    def checked(self) -> OnlineNewton:
        """Itself, with the score as the number that kernels take."""
        if type(self.history) is not int or not 0 <= self.history < 2**40:
            raise ValueError(
                f"OnlineNewton: history is {self.history!r}; a whole number of at least 0 and below 2^40 is wanted"
            )
        _check_ridge(self.ridge, "OnlineNewton")
        if self.ridge == 0.0:
            raise ValueError(
                "OnlineNewton: ridge is 0.0; a positive number is wanted: separable answers have no maximum"
            )
        return self._replace(score=score_code(self.score, "OnlineNewton"))

    def __repr__(self) -> str:
        return f"OnlineNewton(history={self.history!r}, ridge={self.ridge!r}, score={SCORES[int(self.score)]!r})"

    def memory(self, n_features: int) -> Evidence:
        """An empty memory: theta = 0, nothing learned."""
        memory = Evidence.new(History.new(n_features, self.history))
        memory.factor[:] = np.eye(n_features) / math.sqrt(self.ridge)
        memory.codes[WARM] = self.history == 0
        return memory

    def learn(self, model: Any, memory: Any, contrast: Any, won: bool) -> int:
        """Learn one comparison; see :func:`learn`."""
        remembered = memory.codes[N_LEARNED] < self.history
        if not remembered and memory.codes[WARM] == 0:
            return STALE
        objective = Objective(model, self.score, self.ridge, np.inf, True)
        return LEARNED if learn_exactly(objective, memory, contrast, won, remembered) else FULL

    def is_stale(self, memory: Any, wanted: bool) -> bool:
        """Whether the exact start is wanted and inexact, or is over and was never solved."""
        learned = memory.codes[N_LEARNED]
        return (wanted and learned <= self.history and is_inexact(memory, START_TOLERANCE)) or (
            learned == self.history and memory.codes[WARM] == 0
        )

    def refresh(self, model: Any, memory: Any) -> None:
        """Bring theta within a thousandth of a standard error of the maximum; for the start only."""
        memory.vectors[METRIC] = memory.vectors[SCALES]
        solve(Objective(model, self.score, self.ridge, math.inf), memory, START_TOLERANCE)
        if memory.codes[N_LEARNED] >= self.history:
            memory.codes[WARM] = 1


_BY_NAME: dict[str, type] = {"sgd": SGD, "mle": MLE, "online-newton": OnlineNewton}


def estimator_of(value: Any) -> Any:
    """The estimator that a user's argument stands for: "sgd", "mle", "online-newton", or an instance.

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
    if isinstance(value, type) and value in _BY_NAME.values():
        raise ValueError(f"estimator is the class {value.__name__}; an instance is wanted: fc.{value.__name__}()")
    missing = [name for name in ("memory", "learn") if not callable(getattr(type(value), name, None))]
    if missing or isinstance(value, type):
        raise ValueError(f"estimator is {value!r}; wanted {known} or a NamedTuple with the methods memory and learn")
    return registered(value, "estimator")


def _check_ridge(value: float, owner: str) -> None:
    if not 0.0 <= value < math.inf:
        raise ValueError(f"{owner}: ridge is {value!r}; a finite number of at least 0 is wanted")


def score_code(value: str | int, owner: str) -> int:
    """The number by which kernels know a score: 0 likelihood, 1 residual."""
    if value in SCORES:
        return SCORES.index(value)
    if type(value) is int and 0 <= value < len(SCORES):
        return value
    raise ValueError(f"{owner}: score is {value!r}; wanted one of {', '.join(map(repr, SCORES))}")


def radius_number(value: float | None, owner: str, wanted: str = "a positive number or None") -> float:
    """A radius as a number: None stands for infinity."""
    if value is None:
        return math.inf
    if isinstance(value, (int, float, np.floating)) and not isinstance(value, bool) and 0.0 < value < 2**1023:
        return float(value)
    if value == math.inf:
        return math.inf
    raise ValueError(f"{owner}: radius is {value!r}; {wanted} is wanted")
