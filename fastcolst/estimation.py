"""Estimators: how theta follows from comparisons.

An estimator is a registered NamedTuple of numbers; what it remembers is a NamedTuple of arrays that holds at least
``theta``. It takes one comparison at a time through the generic function :func:`learn`. One that puts work off until
theta is wanted says so through :func:`is_stale` and does it in its Python method ``refresh(model, memory)``: what needs
a whole history is rare, and costs all other kernels too much compilation. All else that Python asks of an estimator
goes through functions of this module as well, which know what one without the method stands for.

What people build, :class:`MLE` and its like, are their words alone, checked: "auto", None, "likelihood". What works in
kernels is the NamedTuple of numbers that :func:`engine_of` makes of them, so that no number can be taken for a word.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import brief, looked_at, plain_text, real_number, whole_number
from fastcolst._compile import generic, helper, register, registered
from fastcolst.comparison import cdf, score
from fastcolst.likelihood import (
    INTERIOR,
    LEAST_ODDS,
    METRIC,
    N_LEARNED,
    NOT_CONVERGED,
    SCALES,
    STATUS,
    STATUSES,
    WARM,
    Evidence,
    History,
    Objective,
    distance,
    is_inexact,
    learn_exactly,
    odds,
    solve,
)

__all__ = [
    "MLE",
    "SGD",
    "OnlineNewton",
    "can_grow",
    "can_refresh",
    "doubt",
    "engine_of",
    "error_of",
    "estimator_of",
    "is_stale",
    "learn",
    "new_memory",
    "refresh",
    "status_of",
    "with_room",
]

LEARNED = 0
OVERFLOW = 1
FULL = 2
STALE = 3

SCORES = ("likelihood", "residual")
"""Kernels know them by their places."""

C = TypeVar("C", bound=type)


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


# --- what Python asks of an estimator -----------------------------------------------------------------------


def new_memory(estimator: Any, n_features: int) -> Any:
    """An empty memory, ``estimator.memory(n_features)``.

    Raises
    ------
    ValueError
        When it is not one that kernels can change in place: a NamedTuple of arrays, or of further such NamedTuples,
        with a theta (n_features,) float64.
    """
    memory = estimator.memory(n_features)
    theta = getattr(memory, "theta", None)
    if not (
        _holds_arrays_alone(memory)
        and isinstance(theta, np.ndarray)
        and theta.dtype == np.float64
        and theta.shape == (n_features,)
    ):
        raise ValueError(
            f"estimator: {type(estimator).__name__}.memory({n_features}) is {memory!r}; a NamedTuple of writable "
            f"arrays with theta, float64 of shape ({n_features},), is wanted: they are changed in place"
        )
    return memory


def _holds_arrays_alone(value: Any) -> bool:
    if isinstance(value, tuple):
        return hasattr(value, "_fields") and all(map(_holds_arrays_alone, value))
    return type(value) is np.ndarray and value.flags.carray


def with_room(estimator: Any, memory: Any, n: int) -> Any:
    """The memory with room for n more comparisons: itself, where the estimator cannot grow."""
    return estimator.grown(memory, n) if can_grow(estimator) else memory


def can_grow(estimator: Any) -> bool:
    """Whether the estimator has a method ``grown``: it keeps all comparisons, and learning one may need room."""
    return hasattr(estimator, "grown")


def can_refresh(estimator: Any) -> bool:
    """Whether the estimator has a method ``refresh``: theta is put off until it is wanted."""
    return hasattr(estimator, "refresh")


def refresh(estimator: Any, model: Any, memory: Any) -> None:
    """Bring theta up to date, which :func:`is_stale` asked for."""
    if not can_refresh(estimator):
        raise TypeError(f"{type(estimator).__name__} has no method refresh, which its is_stale or learn asks for")
    estimator.refresh(model, memory)


def status_of(estimator: Any, memory: Any) -> str:
    """How the estimate stands, in a word: what the method ``status(memory)`` says, and "ready" without one."""
    return str(estimator.status(memory)) if hasattr(estimator, "status") else "ready"


def error_of(estimator: Any, model: Any, memory: Any, copy: Any) -> float:
    """Distance of theta from what the estimator approximates, in standard errors; ``copy`` is a copy to work on.

    Raises
    ------
    AttributeError
        When that cannot be computed any more.
    """
    if not hasattr(estimator, "exact"):
        name = next((face.__name__ for face, steps in _ENGINES.items() if type(estimator) is steps), None)
        raise AttributeError(
            f"{name or type(estimator).__name__} keeps no history from which the exact estimate could be recomputed"
        )
    copy.codes[WARM] = 0
    estimator.exact().refresh(model, copy)
    return distance(memory, copy)


# --- words of people, checked -------------------------------------------------------------------------------

_ENGINES: dict[type, Any] = {}
"""What stands in kernels for each class that people build."""


def _stands_for(engine: Any) -> Callable[[C], C]:
    """Check a NamedTuple of people's words whenever one is built, as ``engine.words(it)`` does."""

    def decorate(cls: C) -> C:
        plain_new = cls.__new__

        def new(klass: type, *args: Any, **kwargs: Any) -> Any:
            return plain_new(klass, *engine.words(plain_new(klass, *args, **kwargs)))

        new.__signature__ = inspect.signature(plain_new)  # type: ignore[attr-defined]
        cls.__new__ = new  # type: ignore[method-assign, assignment]
        _ENGINES[cls] = engine
        return cls

    return decorate


def _number(owner: str, name: str, value: Any, wanted: str = "a number is wanted") -> float:
    """A real number as a float; True and False are none."""
    found = looked_at(real_number, value)
    if found is None:
        raise ValueError(f"{owner}: {name} is {brief(value)}; {wanted}")
    return found


def _ridge(owner: str, value: Any) -> float:
    ridge = _number(owner, "ridge", value)
    if not 0.0 <= ridge < math.inf:
        raise ValueError(f"{owner}: ridge is {ridge!r}; a finite number of at least 0 is wanted")
    return ridge


def _score(owner: str, value: Any) -> str:
    text = plain_text(value)
    if text in SCORES:
        return text
    raise ValueError(f"{owner}: score is {brief(value)}; wanted one of {', '.join(map(repr, SCORES))}")


def score_code(value: Any, owner: str) -> int:
    """The number by which kernels know a score: 0 likelihood, 1 residual."""
    return SCORES.index(_score(owner, value))


def _radius(owner: str, value: Any, wanted: str = "a positive number or None") -> float | None:
    """A positive radius; None, of which infinity is another name, for no bound."""
    if value is None:
        return None
    radius = _number(owner, "radius", value, f"{wanted} is wanted")
    if radius == math.inf:
        return None
    if 0.0 < radius < 2.0**1023:  # what is longer has no square root of the square
        return radius
    raise ValueError(f"{owner}: radius is {brief(value)}; {wanted} is wanted")


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
        rate, decay = _number("SGD", "learning_rate", given[0]), _number("SGD", "decay", given[1])
        if not 0.0 < rate < math.inf:
            raise ValueError(f"SGD: learning_rate is {rate!r}; a positive finite number is wanted")
        if not 0.0 <= decay <= 1.0:
            raise ValueError(f"SGD: decay is {decay!r}; a number in [0, 1] is wanted")
        return rate, decay, _radius("SGD", given[2]), _score("SGD", given[3])

    @classmethod
    def of(cls, given: Any) -> SGDSteps:
        """The numbers that the words stand for."""
        rate, decay, radius, score = cls.words(given)
        return cls(rate, decay, math.inf if radius is None else radius, SCORES.index(score))

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


@_stands_for(SGDSteps)
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
class MLESteps(NamedTuple):
    """What :class:`MLE` is in kernels: radius -inf for "auto" and inf for None, score 0 and 1 as for SGD."""

    tolerance: float
    ridge: float
    radius: float
    score: int

    @staticmethod
    def words(given: Any) -> tuple[Any, ...]:
        """The fields of an MLE, checked."""
        tolerance, radius = _number("MLE", "tolerance", given[0]), given[2]
        if not 1e-10 <= tolerance <= 0.1:
            raise ValueError(f"MLE: tolerance is {tolerance!r}; a number from 1e-10 to 0.1 is wanted")
        if plain_text(radius) != "auto":
            radius = _radius("MLE", radius, "a positive number, 'auto' or None")
        return tolerance, _ridge("MLE", given[1]), radius, _score("MLE", given[3])

    @classmethod
    def of(cls, given: Any) -> MLESteps:
        """The numbers that the words stand for."""
        tolerance, ridge, radius, score = cls.words(given)
        return cls(tolerance, ridge, {"auto": -math.inf, None: math.inf}.get(radius, radius), SCORES.index(score))

    def memory(self, n_features: int) -> Evidence:
        """An empty memory: theta = 0, nothing learned, room for a few thousand comparisons."""
        return Evidence.new(History.new(n_features, FIRST_ROOM))

    def grown(self, memory: Evidence, n: int) -> Evidence:
        """The memory with room for n more comparisons."""
        return memory if memory.history.room() >= n else memory._replace(history=memory.history.grown(n))

    def exact(self) -> MLESteps:
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


@_stands_for(MLESteps)
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
    radius: float | str | None = "auto"
    score: str = "likelihood"


FIRST_ROOM = 4096
"""Comparisons for which a new memory has room."""


START_TOLERANCE = 1e-3
"""Of the exact start, in standard errors: what comes after it adds fifty times as much."""


@register
class OnlineNewtonSteps(NamedTuple):
    """What :class:`OnlineNewton` is in kernels: score 0 and 1 as for SGD."""

    history: int
    ridge: float
    score: int

    @staticmethod
    def words(given: Any) -> tuple[Any, ...]:
        """The fields of an OnlineNewton, checked."""
        history = whole_number(given[0])
        if history is None or not 0 <= history < 2**40:
            raise ValueError(
                f"OnlineNewton: history is {brief(given[0])}; a whole number of at least 0 and below 2^40 is wanted"
            )
        ridge = _ridge("OnlineNewton", given[1])
        if ridge == 0.0:
            raise ValueError(
                "OnlineNewton: ridge is 0.0; a positive number is wanted: separable answers have no maximum"
            )
        return history, ridge, _score("OnlineNewton", given[2])

    @classmethod
    def of(cls, given: Any) -> OnlineNewtonSteps:
        """The numbers that the words stand for."""
        history, ridge, score = cls.words(given)
        return cls(history, ridge, SCORES.index(score))

    def memory(self, n_features: int) -> Evidence:
        """An empty memory: theta = 0, nothing learned."""
        memory = Evidence.new(History.new(n_features, self.history), is_tested=True)
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
        memory.calibration.sizes[:] = 0  # what is solved needs no test, which begins after the start
        if memory.codes[N_LEARNED] >= self.history:
            memory.codes[WARM] = 1

    def status(self, memory: Evidence) -> str:
        """Whether predictions are what they should be; during the exact start, whether that was found."""
        if memory.codes[N_LEARNED] <= self.history:
            return "not-converged" if memory.codes[STATUS] == NOT_CONVERGED else "ready"
        return "ready" if odds(memory) < LEAST_ODDS else "drifting"


@_stands_for(OnlineNewtonSteps)
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

    One pass never looks again at the curvature that a comparison had when it came. While theta has a long way to go, or
    turns back, that leaves it several standard errors from the maximum: after a change of what people prefer, with
    features so small that the ridge holds theta back for millions of comparisons, or so large that nearly all answers
    are certain. ``policy.status`` says "drifting" then instead of "ready": over the last thousands of answers, what was
    predicted and what was answered differ by more than chance. This is tested as long as answers arrive, in windows
    that double; one window in 100,000 says so by chance. What helps is :class:`MLE`, or features of one scale.

    Examples
    --------
    >>> import fastcolst as fc
    >>> fc.OnlineNewton(history=500)
    OnlineNewton(history=500, ridge=1.0, score='likelihood')
    """

    history: int = 2000
    ridge: float = 1.0
    score: str = "likelihood"


_BY_NAME: dict[str, type] = {"sgd": SGD, "mle": MLE, "online-newton": OnlineNewton}


def estimator_of(value: Any) -> Any:
    """The estimator that a user's argument stands for: "sgd", "mle", "online-newton", or an instance, checked.

    Raises
    ------
    ValueError
        For an unknown name or an object without the methods ``memory`` and ``learn``.
    """
    known = ", ".join(map(repr, _BY_NAME))
    name = plain_text(value)
    if name is not None:
        if name not in _BY_NAME:
            raise ValueError(f"estimator is {brief(value)}; wanted {known} or an estimator")
        return _BY_NAME[name]()
    if any(value is estimator for estimator in _ENGINES):
        raise ValueError(f"estimator is the class {value.__name__}; an instance is wanted: fc.{value.__name__}()")
    if type(value) in _ENGINES:
        return type(value)(*value)
    missing = [name for name in ("memory", "learn") if not callable(getattr(type(value), name, None))]
    if missing or isinstance(value, type):
        raise ValueError(
            f"estimator is {brief(value)}; wanted {known} or a NamedTuple with the methods memory and learn"
        )
    return registered(value, "estimator")


def engine_of(value: Any) -> Any:
    """What stands in kernels for a user's argument: numbers of ours, or an estimator of one's own as it is."""
    estimator = estimator_of(value)
    engine = _ENGINES.get(type(estimator))
    return estimator if engine is None else engine.of(estimator)
