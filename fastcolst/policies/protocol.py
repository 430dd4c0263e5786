"""What a policy's rule and state offer to the kernels: the functions through which these reach them.

A rule is a registered NamedTuple of numbers, and of the model and the estimator that it uses. Its state is a registered
NamedTuple of arrays that are changed in place; the field ``counters`` is a record, see
:data:`fastcolst.policies.state.COUNTERS`. A rule must have the methods :func:`n_raw`, :func:`work_shape`,
:func:`select` and :func:`update`; the others have a default.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from fastcolst._compile import fill_uniform, generic, is_registered

__all__ = [
    "LOGGED",
    "NOT_FINITE",
    "Choice",
    "Chunk",
    "check_rule",
    "draw",
    "estimate_is_stale",
    "greedy_arm",
    "n_raw",
    "select",
    "update",
    "work_shape",
]


RULE_METHODS = ("n_raw", "work_shape", "select", "update")
"""What every rule must have."""


class Choice(NamedTuple):
    """Two arms to compare.

    first, second: columns of the contexts. note: a whole number of at least 0 that the rule sees again when it learns
    the answer, such as the stage that made the choice; 0 for rules that need none.
    """

    first: int
    second: int
    note: int


NOT_FINITE = Choice(-1, -1, 0)
"""In place of a choice: a utility or a width is nan or infinite."""
LOGGED = Choice(-2, -2, 0)
"""In place of the choice that led to a comparison from a log."""


class Chunk(NamedTuple):
    """Consecutive rounds of a problem.

    contexts (m, d, n) float64, arms as columns; utilities (m, n) float64, the true ones; best (m,) float64, the highest
    of each round; latent (m,) float64, the number D ~ F* that decides a duel: the first arm wins iff u_first - u_second
    + D > 0.
    """

    contexts: NDArray[Any]
    utilities: NDArray[Any]
    best: NDArray[Any]
    latent: NDArray[Any]


def check_rule(rule: Any) -> None:
    """Check what kernels take for granted of a rule, before they are compiled for it.

    Raises
    ------
    TypeError
        It is not registered, or lacks a method.
    """
    name = type(rule).__name__
    if not is_registered(type(rule)):
        raise TypeError(f"{name} is not registered; put @fc.register before the class")
    lacking = [method for method in RULE_METHODS if not callable(getattr(type(rule), method, None))]
    if lacking:
        raise TypeError(f"{name} lacks {', '.join(lacking)}; a rule has the methods {', '.join(RULE_METHODS)}")


@generic
def estimate_is_stale(self: Any, rule: Any, wanted: bool) -> bool:
    """Whether the state's Python method ``refresh_estimate(rule)`` must come next.

    ``wanted`` says whether theta is about to be used. A state without an estimate has no such method.
    """
    return False


@generic
def greedy_arm(self: Any, contexts: Any, work: Any) -> int:
    """The arm of highest utility by a state's theta, which must not be stale; -1 for a state without an estimate.

    ``contexts`` is (d, n) with arms as columns, ``work`` (n,) scratch. Of equal ones the first.
    """
    return -1


@generic
def n_raw(self: Any, n_arms: int) -> int:
    """How many numbers a round consumes, whatever the state."""
    raise TypeError(f"{type(self).__name__} has no method n_raw")


@generic
def work_shape(self: Any, n_arms: int, n_features: int) -> tuple[int, int]:
    """Rows and columns of the scratch that a choice needs."""
    raise TypeError(f"{type(self).__name__} has no method work_shape")


@generic
def draw(self: Any, rng: Any, raw: Any) -> None:
    """Fill ``raw`` with the numbers of one round from a generator. A rule without this method gets uniforms."""
    fill_uniform(rng, raw)


@generic
def select(self: Any, state: Any, contexts: Any, raw: Any, work: Any) -> Choice:
    """Choose two arms. The caller has made sure that the end of the exploration is not due, and counts the round.

    ``contexts`` is (d, n) with arms as columns, ``raw`` what :func:`draw` gave, ``work`` scratch of the rule's
    :func:`work_shape`. Returns the :class:`Choice`, or :data:`NOT_FINITE`. The state stays as it is, apart from
    tallies of the rule's own.

    A rule with an estimate has the fields ``estimator`` and ``model``.
    """
    raise TypeError(f"{type(self).__name__} has no method select")


@generic
def update(self: Any, state: Any, choice: Choice, contrast: Any, share: float, weight: float) -> int:
    """Learn one answer.

    ``choice`` is what :func:`select` returned, or :data:`LOGGED` for a comparison from a log; ``contrast`` (d,) is
    x_first - x_second. ``share`` is the first arm's share of the win, in [0, 1]: 1 when it won, 0 when the second did,
    0.5 for a tie; ``weight``, positive, is how much the answer counts, 1 for an ordinary one. Returns a code of
    :func:`fastcolst.estimation.protocol.learn`.
    """
    raise TypeError(f"{type(self).__name__} has no method update")
