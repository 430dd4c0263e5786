"""How policies and kernels speak to an estimator, whichever it is.

An estimator is a registered NamedTuple of numbers; what it remembers is a NamedTuple of arrays that holds at least
``theta``. It takes one comparison at a time through the generic function :func:`learn`. One that puts work off until
theta is wanted says so through :func:`is_stale` and does it in its Python method ``refresh(model, memory)``: what needs
a whole history is rare, and costs all other kernels too much compilation. All else that Python asks of an estimator
goes through functions of this module as well, which know what one without the method stands for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastcolst._compile import generic

__all__ = [
    "FULL",
    "LEARNED",
    "OVERFLOW",
    "STALE",
    "can_grow",
    "can_refresh",
    "doubt",
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
