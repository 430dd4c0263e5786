"""How policies and kernels speak to an estimator, whichever it is.

An estimator is a registered NamedTuple of numbers; what it remembers is a NamedTuple of arrays that holds at least
``theta``. It must have the methods ``memory(n_features)`` and ``learn(model, memory, contrast, share, weight)``. The
others are optional, and the functions of this module, through which all go, know what one without them stands for:

- in kernels ``is_stale(memory, wanted)``, whether theta must be refreshed first, ``doubt(memory)``, and
  ``information_factor(memory, otherwise)``, without which rules that choose by the information refuse the estimator;
  and ``weigh(factor, contrast, weight, work)``, how much a comparison counts;
- in Python ``refresh(model, memory)``, which brings theta up to date; ``grown(memory, n)``, the memory with room for n
  more comparisons, for an estimator that keeps them; ``status(memory)``, how the estimate stands, in a word;
  ``audit(model, memory)``, the distance of theta from what it approximates, in standard errors; and
  ``information(memory)``, the (d, d) Fisher information of what was learned, when theta is up to date;
- for sets of more than two, in Python: ``learn_choice(model, memory, contrasts, weight)``, see :func:`learn_choice`;
- of an estimator that keeps all that it learns, in Python, and all three: ``n_kept(memory)``, a (1,) int64 of the
  memory, how many rows it keeps; ``kept(memory)``, these rows; and ``without(memory, start, stop)``, a memory without
  some of them;
- of an estimator that can forget, in Python, ``faded(memory, share, n)``, a memory in which all that was learned counts
  ``share`` times as much, without which policies refuse the estimator where ``discount`` is below 1.

An estimator that puts work off until theta is wanted does it in ``refresh``: what needs a whole history is rare, and
would cost all other kernels too much compilation.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import brief
from fastcolst._compile import generic
from fastcolst.estimation.memory import restacked, unstacked
from fastcolst.estimation.words import name_of
from fastcolst.kernels.linalg import whiten_contrast

__all__ = [
    "FULL",
    "KEPT",
    "LEARNED",
    "OVERFLOW",
    "STALE",
    "audit",
    "can_fade",
    "check_information",
    "doubt",
    "faded",
    "grown",
    "grown_stack",
    "grows",
    "has_audit",
    "information",
    "information_factor",
    "is_refreshed",
    "is_stale",
    "kept",
    "knows_choices",
    "knows_information",
    "learn",
    "learn_choice",
    "n_kept",
    "new_memory",
    "refresh",
    "status",
    "weigh",
    "without",
]

LEARNED = 0
OVERFLOW = 1
FULL = 2
STALE = 3
KEPT = 4


@generic
def learn(self: Any, model: Any, memory: Any, contrast: Any, share: float, weight: float) -> int:
    """Learn one comparison.

    Parameters
    ----------
    model : comparison model
    memory : NamedTuple of arrays
        What ``self.memory(n_features)`` made; changed in place.
    contrast : (d,) float64
        z = x_first - x_second, not all zero.
    share : float
        The first arm's share of the win, in [0, 1]: 1 when it won, 0 when the second did, 0.5 for a tie.
    weight : float
        How much the comparison counts; 1 for an ordinary one, positive.

    Returns
    -------
    int
        ``LEARNED``. In all other cases nothing was changed. ``OVERFLOW``: theta would overflow. ``FULL``: the method
        ``grown`` must come first. ``STALE``: the method ``refresh`` must.
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


@generic
def information_factor(self: Any, memory: Any, otherwise: Any) -> Any:
    """S (d, d), lower triangular with S'S = H^-1, of the information H = ridge I + J of what was learned.

    It is the memory's own array, and holds when theta is not stale. ``otherwise``, an array of the same kind, is what
    an estimator without this method gets: kernels are compiled for it too where a rule asks for H only sometimes.
    """
    return otherwise


@generic
def weigh(self: Any, factor: Any, contrast: Any, weight: float, work: Any) -> tuple[float, float]:
    """How much a comparison of this weight counts, w, and w z'M^-1 z, from S with S'S = M^-1 before it.

    ``contrast`` (d,) is z; ``work`` (2, d) is overwritten by sqrt(w) S z and sqrt(w) z. Without this method w is the
    weight. To M a comparison of weight w is one of sqrt(w) z: of products of two such coordinates M stays symmetric to
    the last bit, which (w z_i) z_j would not leave it.
    """
    root = np.sqrt(weight)
    for k in range(contrast.size):
        work[1, k] = root * contrast[k]
    return weight, whiten_contrast(factor, work[1], work[0])


# --- asked by Python alone --------------------------------------------------------------------------------------


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
            f"estimator: {type(estimator).__name__}.memory({n_features}) is {brief(memory)}; a NamedTuple of writable "
            f"arrays with theta, float64 of shape ({n_features},), is wanted: they are changed in place"
        )
    return memory


def _holds_arrays_alone(value: Any) -> bool:
    if isinstance(value, tuple):
        return hasattr(value, "_fields") and all(map(_holds_arrays_alone, value))
    return type(value) is np.ndarray and value.flags.carray


def _method(estimator: Any, name: str) -> Any:
    """A method of the estimator's class, or None."""
    return getattr(type(estimator), name, None)


def is_refreshed(estimator: Any) -> bool:
    """Whether theta lags behind what was learned until :func:`refresh` brings it up to date."""
    return _method(estimator, "refresh") is not None


def refresh(estimator: Any, model: Any, memory: Any) -> None:
    """Bring theta up to date, which :func:`is_stale` or :func:`learn` asked for."""
    method = _method(estimator, "refresh")
    if method is None:
        raise TypeError(f"{name_of(estimator)} has no method refresh, which its is_stale or learn asks for")
    method(estimator, model, memory)


def grows(estimator: Any) -> bool:
    """Whether memories grow with what was learned; see :func:`grown`."""
    return _method(estimator, "grown") is not None


def grown(estimator: Any, memory: Any, n: int) -> Any:
    """The memory with room for n more comparisons: itself, where it is large enough or never grows."""
    method = _method(estimator, "grown")
    return memory if method is None else method(estimator, memory, n)


def grown_stack(estimator: Any, stack: Any, n_stacked: int, n: int) -> Any:
    """A stack of memories, each with room for n more comparisons: itself, where all are large enough.

    An estimator whose stacked memories share what grows has a method ``grown_stack(stack, n)`` of its own. Other
    memories grow one by one, and the stack becomes as large as the largest of them.
    """
    method = _method(estimator, "grown_stack")
    if method is not None:
        return method(estimator, stack, n)
    before = unstacked(stack, n_stacked)
    after = [grown(estimator, memory, n) for memory in before]
    return stack if all(map(operator.is_, before, after)) else restacked(after)


def status(estimator: Any, memory: Any) -> str:
    """How the estimate stands, in a word; "ready" for an estimator without this method."""
    method = _method(estimator, "status")
    return "ready" if method is None else str(method(estimator, memory))


def has_audit(estimator: Any) -> bool:
    """Whether :func:`audit` is possible: the estimator keeps a history from which it can be computed."""
    return _method(estimator, "audit") is not None


def audit(estimator: Any, model: Any, memory: Any) -> float:
    """Distance of theta from what the estimator approximates, in standard errors; the memory stays as it is.

    Raises
    ------
    AttributeError
        When the estimator has no such method, since it keeps no history.
    """
    method = _method(estimator, "audit")
    if method is None:
        raise AttributeError(f"{name_of(estimator)} keeps no history from which the exact estimate could be recomputed")
    return float(method(estimator, model, memory))


def information(estimator: Any, memory: Any) -> NDArray[np.float64] | None:
    """Fisher information of what was learned, (d, d) float64; None for an estimator that does not know it."""
    method = _method(estimator, "information")
    return None if method is None else np.asarray(method(estimator, memory), dtype=np.float64)


def knows_information(estimator: Any) -> bool:
    """Whether kernels can have an estimator's information."""
    return _method(estimator, "information_factor") is not None


def check_information(estimator: Any, wanted_by: str) -> None:
    """Refuse an estimator whose information kernels cannot have, for a rule that chooses by it.

    Raises
    ------
    ValueError
        The estimator has no method ``information_factor``, as SGD.
    """
    if not knows_information(estimator):
        raise ValueError(
            f"estimator is {name_of(estimator)}, which knows no information matrix; for {wanted_by} one that does is "
            "wanted: 'mle', 'online-newton', or one of your own with information_factor(memory, otherwise)"
        )


def can_fade(estimator: Any) -> bool:
    """Whether what an estimator learned can come to count less; see :func:`faded`."""
    return _method(estimator, "faded") is not None


def faded(estimator: Any, memory: Any, share: float, n: int) -> Any:
    """A memory in which each weight is a share of what it was, with room for n more comparisons; the old one stays.

    The ridge is what it was. An estimator that keeps its rows may let the oldest of them go. theta may be stale then.
    """
    return _method(estimator, "faded")(estimator, memory, share, n)


def knows_choices(estimator: Any) -> bool:
    """Whether an estimator learns which of several was chosen."""
    return _method(estimator, "learn_choice") is not None


def learn_choice(estimator: Any, model: Any, memory: Any, contrasts: NDArray[np.float64], weight: float) -> int:
    """Learn which of several was chosen.

    Parameters
    ----------
    estimator, model, memory
        As in :func:`learn`.
    contrasts : (m - 1, d) float64
        x_c - x_j of the chosen one and each of the others, not all zero.
    weight : float
        How much the choice counts, positive.

    Returns
    -------
    int
        ``LEARNED``: theta has moved, and the estimator needs the choice no longer. ``KEPT``: it is counted, and
        :func:`refresh` is to come, with a memory that holds it; see
        :func:`fastcolst.estimation.sets.with_choices`. ``OVERFLOW`` and ``STALE`` as for :func:`learn`.
    """
    return int(_method(estimator, "learn_choice")(estimator, model, memory, contrasts, weight))


def n_kept(estimator: Any, memory: Any) -> NDArray[np.int64] | None:
    """How many rows are kept of all that was learned, (1,) int64 that learning changes in place.

    None for an estimator that keeps nothing, or not all.
    """
    method = _method(estimator, "n_kept")
    return None if method is None else method(estimator, memory)


def kept(estimator: Any, memory: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The rows of an estimator that keeps all: contrasts (m, d), turned so that the first won, and weights (m,).

    A comparison is one row, and one whose win is shared two, z and -z, each with its share of the weight.
    """
    rows: tuple[NDArray[np.float64], NDArray[np.float64]] = _method(estimator, "kept")(estimator, memory)
    return rows


def without(estimator: Any, memory: Any, start: int, stop: int) -> Any:
    """A memory without the rows from ``start`` up to ``stop``, which are one comparison; the old one stays as it is."""
    return _method(estimator, "without")(estimator, memory, start, stop)
