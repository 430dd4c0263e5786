"""The kernels of a policy: choose, learn an answer, learn a log, play a chunk of simulated rounds.

There is one of each. Numba specialises them for every combination of rule, estimator and model, which they reach
through the functions of :mod:`fastcolst.policies.protocol`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import direct, helper, kernel
from fastcolst.comparison import cdf
from fastcolst.estimation.protocol import LEARNED, STALE, doubt
from fastcolst.kernels.linalg import add_contrast, remove_contrast
from fastcolst.kernels.selection import all_moderate
from fastcolst.policies.protocol import (
    LOGGED,
    Choice,
    draw,
    estimate_is_stale,
    greedy_arm,
    select,
    update,
)
from fastcolst.policies.state import exploration_end_is_due

__all__ = [
    "ESTIMATE_STALE",
    "NOT_MODERATE",
    "NO_PAIR",
    "Buffers",
    "add_regret",
    "add_single_arms",
    "agent_is_stale",
    "choose",
    "code_of_all",
    "count_contrast",
    "count_entries",
    "decoded",
    "first_wins",
    "learn_answer",
    "learn_log",
    "play",
    "uncount_contrast",
]


class Buffers(NamedTuple):
    """Scratch of a choice, or of :func:`play`, for contexts of one shape.

    shape: (n, d), negative where there is room for numbers only, as bound arms need. raw (n_raw,) float64, the numbers
    of a round; drawn_for (1,) int64, which round that is, 0 for none. by_coordinate (d or more, n) float64, the
    contexts with arms as columns; rows beyond d stay as they are. work (rows, columns) float64, of the rule's
    :func:`work_shape`. contrast (d,) float64, x_first - x_second.
    """

    shape: tuple[int, int]
    raw: NDArray[np.float64]
    drawn_for: NDArray[np.int64]
    by_coordinate: NDArray[np.float64]
    work: NDArray[np.float64]
    contrast: NDArray[np.float64]

    @classmethod
    def none(cls) -> Self:
        """Before the first contexts: of a shape that none has."""
        return cls((-1, -1), np.empty(0), np.zeros(1, np.int64), np.empty((0, 0)), np.empty((0, 0)), np.empty(0))

    @classmethod
    def new(cls, rule: Any, n_arms: int, n_features: int, n_more: int = 0) -> Self:
        """For a rule, contexts of this shape, and so many coordinates more, which are 0 in all contexts."""
        d = n_features + n_more
        return cls(
            (n_arms, n_features),
            np.zeros(rule.n_raw(n_arms)),
            np.zeros(1, np.int64),
            np.zeros((d, n_arms)),
            np.zeros(rule.work_shape(n_arms, d)),  # columns of padding stay so
            np.empty(n_features),
        )


# What `choose` returns in place of a choice.
NOT_FINITE_CODE = -1
"""A utility or a width is nan or infinite."""
EXPLORATION_END_DUE = -2
"""The exploration must be ended first, or M be found singular once more: `end_exploration`."""
ESTIMATE_STALE = -3
"""theta is stale, and must be refreshed first."""
NO_PAIR = -4
"""The rule chose what is no pair of arms."""
NOT_MODERATE = -5
"""A feature is nan, or too large in size."""


@helper
def decoded(code: int, n_arms: int) -> Choice:
    """The choice that :func:`choose` returned as one number."""
    rest, second = code // n_arms, code % n_arms
    return Choice(rest % n_arms, second, rest // n_arms)


def code_of_all(code: int, rows: NDArray[np.int64], n_arms: int) -> int:
    """What :func:`choose` would have returned for all arms, after it chose among those in some rows."""
    rest, second = divmod(code, len(rows))
    note, first = divmod(rest, len(rows))
    return (note * n_arms + int(rows[first])) * n_arms + int(rows[second])


@helper
def is_pair(choice: Any, n_arms: int) -> bool:
    """Whether a rule chose two of so many arms: of a wrong index compiled code would read other memory."""
    return bool(0 <= choice.first < n_arms and 0 <= choice.second < n_arms)


@kernel
def choose(agent: Any, contexts: Any, largest: float, buffers: Any) -> int:  # noqa: C901 - a round, step by step
    """One round's choice for a policy object.

    Parameters
    ----------
    agent : the policy's rule, state and generator
    contexts : (n, d) float64, C-contiguous
        Arms as rows.
    largest : float
        Features of this size and beyond are refused.
    buffers : Buffers
        Of these contexts' shape. The numbers of this round are drawn, unless they lie there already: a choice that
        failed costs the stream no round.

    Returns
    -------
    int
        (note n + first) n + second, see :func:`decoded`, the round is counted, and ``buffers.contrast`` holds x_first -
        x_second; or ``NOT_MODERATE``, ``EXPLORATION_END_DUE``, ``ESTIMATE_STALE``, ``NOT_FINITE_CODE`` or ``NO_PAIR``,
        and nothing but the buffers and the stream was changed. (To return a tuple takes a microsecond.)

    Notes
    -----
    The cost is the rule's, and O(n d) to lay the contexts out.
    """
    n, d = contexts.shape
    by_coordinate, out = buffers.by_coordinate, buffers.contrast
    for i in range(n):
        for k in range(d):
            by_coordinate[k, i] = contexts[i, k]
    if not all_moderate(by_coordinate, largest):  # whose rows are long enough to vectorise
        return NOT_MODERATE
    rule, state, raw = agent.rule, agent.state, buffers.raw
    counters = state.counters[()]
    if exploration_end_is_due(counters):
        return EXPLORATION_END_DUE
    if estimate_is_stale(state, rule, counters.exploration_end >= 0):
        return ESTIMATE_STALE
    if buffers.drawn_for[0] != counters.chosen + 1:
        draw(rule, agent.rng, raw)
        buffers.drawn_for[0] = counters.chosen + 1
    choice = select(rule, state, by_coordinate, raw, buffers.work)
    if choice.first < 0:
        return NOT_FINITE_CODE
    if not is_pair(choice, n):
        return NO_PAIR
    for k in range(d):
        out[k] = contexts[choice.first, k] - contexts[choice.second, k]
    counters.chosen += 1
    if choice.first == choice.second:
        counters.faded -= 1  # nothing is learned, and what was learned grows older
    return (choice.note * n + choice.first) * n + choice.second


@kernel
def count_contrast(gram: Any, factor: Any, contrast: Any, work: Any) -> None:
    """Count a contrast in M as one answer would; see :func:`fastcolst.kernels.linalg.add_contrast`. O(d^2)."""
    add_contrast(gram, factor, contrast, work)


@kernel
def uncount_contrast(gram: Any, factor: Any, contrast: Any, work: Any) -> bool:
    """Take a contrast out of M again; see :func:`fastcolst.kernels.linalg.remove_contrast`. O(d^2)."""
    return remove_contrast(gram, factor, contrast, work)


@cache
def count_entries() -> tuple[Callable[..., None], Callable[..., bool]]:
    """:func:`count_contrast` and :func:`uncount_contrast` as :func:`fastcolst._compile.direct` has them."""
    square = np.zeros((1, 1))
    arguments = square, square, square[0], np.zeros((2, 1))
    return direct(count_contrast, *arguments), direct(uncount_contrast, *arguments)


@kernel
def learn_answer(agent: Any, code: int, n_arms: int, contrast: Any, share: float, weight: float) -> int:
    """Learn the answer to one duel.

    ``code`` is what :func:`choose` returned for so many arms, ``contrast`` (d,) float64 is x_first - x_second; share
    and weight are those of :func:`fastcolst.policies.protocol.update`. Returns a code of
    :func:`fastcolst.estimation.protocol.learn`. O(d^2) for a linear policy, besides its estimator's cost.
    """
    status = update(agent.rule, agent.state, decoded(code, n_arms), contrast, share, weight)
    if status == LEARNED:
        agent.state.counters[()].answered += 1
    return status


@kernel
def learn_log(agent: Any, contrasts: Any, shares: Any, weights: Any, out: Any) -> tuple[int, int]:
    """Learn finished comparisons in their order, predicting each before it is learned if wanted.

    Parameters
    ----------
    agent : the policy's rule and state; the state must hold an estimate
    contrasts : (m, d) float64
        x_first - x_second, one row for each comparison.
    shares, weights : (m,) float64
        The first's share of each win, and how much the comparison counts.
    out : (m,) or (0,) float64
        Overwritten by the probabilities that the first wins, or no predictions are wanted.

    Returns
    -------
    code, learned : int
        A code of :func:`fastcolst.estimation.protocol.learn` and the number of comparisons learned, which is less than
        m when the code is not 0.

    Notes
    -----
    m times the cost of an answer.
    """
    rule, state = agent.rule, agent.state
    counters = state.counters[()]
    for row in range(contrasts.shape[0]):
        if out.size > 0:
            if estimate_is_stale(state, rule, True):
                return STALE, row
            margin = 0.0
            for k in range(contrasts.shape[1]):
                margin += state.memory.theta[k] * contrasts[row, k]
            least = doubt(rule.estimator, state.memory)
            out[row] = min(max(cdf(rule.model, margin), least), 1.0 - least)
        counters.logged += 1
        code = update(rule, state, LOGGED, contrasts[row], shares[row], weights[row])
        if code != LEARNED:
            counters.logged -= 1
            return code, row
    return LEARNED, contrasts.shape[0]


@kernel
def agent_is_stale(agent: Any) -> bool:
    """Whether theta is stale: O(1) for our estimators, and for each stage."""
    return estimate_is_stale(agent.state, agent.rule, True)


@helper
def add_regret(chunk: Any, r: int, first: int, second: int, trace: Any) -> None:
    """Add to the totals of a trace what the duel of a chunk's round r costs: row r + 1 from row r; see :func:`play`."""
    best, u_first, u_second = chunk.best[r], chunk.utilities[r, first], chunk.utilities[r, second]
    trace[r + 1, 0] = trace[r, 0] + (2.0 * best - u_first - u_second) / 2.0
    trace[r + 1, 1] = trace[r, 1] + (best - max(u_first, u_second))
    trace[r + 1, 2] = trace[r, 2] + (1.0 if first == second else 0.0)


@helper
def add_single_arms(chunk: Any, r: int, first: int, greedy: int, trace: Any) -> None:
    """Add to a trace's further columns what the first and the greedy arm of a round cost; nan for a negative index."""
    trace[r + 1, 3] = trace[r, 3] + (chunk.best[r] - chunk.utilities[r, first])
    trace[r + 1, 4] = trace[r, 4] + (chunk.best[r] - chunk.utilities[r, greedy]) if greedy >= 0 else np.nan


@helper
def first_wins(chunk: Any, r: int, first: int, second: int) -> bool:
    """Who wins the duel of a chunk's round r: the first iff u_first - u_second + D > 0."""
    return bool(chunk.utilities[r, first] - chunk.utilities[r, second] + chunk.latent[r] > 0.0)


@kernel
def play(agent: Any, chunk: Any, trace: Any, buffers: Any) -> int:
    """Play a chunk of simulated rounds: draw, choose, duel, add up regret, learn.

    Parameters
    ----------
    agent : the policy's rule, state and generator
    chunk : Chunk
        m rounds of a problem.
    trace : (m + 1, 3) or (m + 1, 5) float64
        Running totals of average regret, weak regret and self-duels; and, where there are five columns, of the regret
        of the pair's first arm alone, and of the greedy arm. Row 0 is read, the others are overwritten.
    buffers : Buffers
        Of the contexts' shape; overwritten.

    Returns
    -------
    int
        The number of rounds played; less than m when numbers stopped being finite, the exploration is due to end or the
        estimate to be refreshed; -1 less that number when the rule chose what is no pair of arms. The estimator's
        memory must have room for m comparisons.

    Notes
    -----
    The cost of a round is the rule's: O(n d^2) for CoLSTIM. A round's result does not depend on where chunks begin.
    Unless the rule allocates, no references are counted, see :mod:`fastcolst._compile.parts`.

    The greedy arm is that of the highest estimated utility before the round's answer is learned. During the exploration
    theta is not kept up to date, and it is the first of the random pair; without an estimate its regret is nan.
    """
    rule, state = agent.rule, agent.state
    counters = state.counters[()]
    m, d, n = chunk.contexts.shape
    raw, work, contrast = buffers.raw, buffers.work, buffers.contrast
    estimated = buffers.by_coordinate[0]  # free, since a chunk's contexts lie by coordinate themselves
    tells_single_arms = trace.shape[1] > 3
    for r in range(m):
        # before a number is drawn
        if exploration_end_is_due(counters) or estimate_is_stale(state, rule, counters.exploration_end >= 0):
            return r
        contexts = chunk.contexts[r]
        draw(rule, agent.rng, raw)
        choice = select(rule, state, contexts, raw, work)
        first, second = choice.first, choice.second
        if first < 0:
            return r
        if not is_pair(choice, n):
            return -1 - r
        counters.chosen += 1
        add_regret(chunk, r, first, second, trace)
        if tells_single_arms:
            greedy = greedy_arm(state, contexts, estimated)
            exploring = greedy >= 0 and counters.exploration_end < 0
            add_single_arms(chunk, r, first, first if exploring else greedy, trace)
        if first == second:
            counters.faded -= 1
            continue
        for k in range(d):
            contrast[k] = contexts[k, first] - contexts[k, second]
        if counters.position == 1:
            contrast[d - 1] = 1.0
        share = 1.0 if first_wins(chunk, r, first, second) else 0.0
        if update(rule, state, choice, contrast, share, 1.0) != LEARNED:
            return r
        counters.answered += 1
    return m
