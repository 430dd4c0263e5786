"""What happens in a round: the functions through which kernels reach a rule, and the kernels themselves.

A rule is a registered NamedTuple of numbers (and of the model and estimator it uses). Its state is a NamedTuple of
arrays, changed in place, whose field ``counters`` starts with the number of rounds. There is one kernel to choose, one
to learn an answer, one to learn a log and one to play a chunk of simulated rounds; Numba specialises them for each
combination of rule, estimator and model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import generic, helper, kernel, register
from fastcolst.comparison import cdf
from fastcolst.estimation import LEARNED, OVERFLOW, STALE, doubt, is_stale, learn
from fastcolst.linalg import factorise, rank_one_inverse, squared_widths, utilities, whiten, whiten_contrast
from fastcolst.selection import all_finite, all_rows_finite, random_pair

__all__ = ["Chunk", "LinearState", "choose", "learn_answer", "learn_log", "play", "probabilities"]

# Places in `counters`, which holds int64.
ROUND = 0
"""Rounds in which arms were chosen."""
LOGGED = 1
"""Comparisons learned from logs; they count towards the exploration."""
EXPLORATION_ROUNDS = 2
"""tau."""
EXPLORATION_END = 3
"""Rounds chosen when the exploration ended; -1 before."""
FACTORED = 4
"""1 when the Gram matrix is invertible and `factor` holds."""
UNTESTED = 5
"""1 when the Gram matrix changed since it was last tested for invertibility."""
LESSON = 6
"""What the rule noted of a round as it chose, to be found here again when the round's answer is learned."""
N_COUNTERS = 7

LOGGED_PAIR = (-1, -1)
"""In place of the arms of a comparison from a log."""

# In place of a choice that was not made.
NOT_FINITE = -1
"""A utility or a width is nan or infinite."""
EXPLORATION_DUE = -2
"""The exploration must be ended first, or M be found singular once more: :func:`end_exploration`."""
ESTIMATE_DUE = -3
"""theta must be brought up to date first."""


class Chunk(NamedTuple):
    """Consecutive rounds of a problem.

    contexts (m, d, n) float64, arms as columns; utilities (m, n) float64, the true ones; best (m,) float64, the highest
    of each round; latent (m,) float64, the number D ~ F* that decides a duel: the first arm wins iff u_first - u_second
    + D > 0.
    """

    contexts: NDArray[np.float64]
    utilities: NDArray[np.float64]
    best: NDArray[np.float64]
    latent: NDArray[np.float64]


@register
class LinearState(NamedTuple):
    """What a policy with a linear model knows.

    counters (7,) int64; gram (d, d) float64, M with its ridge; factor (d, d) float64, the lower triangular S with
    S'S = M^-1 once M is invertible; memory, the estimator's arrays; scratch (2, d) float64, whose content means
    nothing between calls.
    """

    counters: NDArray[np.int64]
    gram: NDArray[np.float64]
    factor: NDArray[np.float64]
    memory: Any
    scratch: NDArray[np.float64]

    @classmethod
    def shared(cls) -> tuple[str, ...]:
        """Fields that several stacked states have in common."""
        return "counters", "scratch"

    def estimate_is_due(self, rule: Any, wanted: bool) -> bool:
        """Whether theta is out of date."""
        return is_stale(rule.estimator, self.memory, wanted)

    def refresh_estimate(self, rule: Any) -> None:
        """Bring theta up to date."""
        rule.estimator.refresh(rule.model, self.memory)


@register
class BlindState(NamedTuple):
    """What a policy without an estimate knows: counters (7,) int64, in which no exploration is ever due."""

    counters: NDArray[np.int64]

    @classmethod
    def new(cls) -> BlindState:
        """Of a policy that has seen nothing."""
        return cls(np.zeros(N_COUNTERS, np.int64))


# --- a state, as kernels see it -----------------------------------------------------------------------------


@generic
def estimate_is_due(self: Any, rule: Any, wanted: bool) -> bool:
    """Whether the state's Python method ``refresh_estimate(rule)`` must come next.

    ``wanted`` says whether theta is about to be used. A state without an estimate has no such method.
    """
    return False


# --- a rule, as kernels see it ------------------------------------------------------------------------------


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
    """Fill ``raw`` with the numbers of one round, one by one from a generator.

    A rule without this method, and without :func:`draw_block`, gets uniforms.
    """
    for i in range(raw.size):
        raw[i] = rng.random()


@generic
def draw_block(self: Any, rng: Any, raw: Any) -> None:
    """Draw the same numbers in blocks, which is how Python does it fast; never called by kernels."""
    rng.random(out=raw)


@generic
def select(self: Any, state: Any, contexts: Any, raw: Any, work: Any) -> tuple[int, int]:
    """Choose two arms, without counting the round, when no exploration is due.

    ``contexts`` is (d, n) with arms as columns, ``raw`` what :func:`draw` gave, ``work`` scratch of the rule's
    :func:`work_shape`. Returns the arms, or ``NOT_FINITE`` twice. The state stays as it is, apart from what a rule
    notes of the round in ``counters[LESSON]`` and in tallies of its own.

    A rule with an estimate has the fields ``estimator`` and ``model``.
    """
    raise TypeError(f"{type(self).__name__} has no method select")


@generic
def update(self: Any, state: Any, pair: tuple[int, int], contrast: Any, won: bool) -> int:
    """Learn one answer.

    ``pair`` is what :func:`select` returned, or ``LOGGED_PAIR`` for a comparison from a log; ``contrast`` (d,) is
    x_first - x_second; ``won`` says whether the first won. Returns a code of :func:`fastcolst.estimation.learn`.
    """
    raise TypeError(f"{type(self).__name__} has no method update")


# --- the state of a linear policy ---------------------------------------------------------------------------


def linear_state(estimator: Any, n_features: int, ridge: float, exploration_rounds: int) -> LinearState:
    """The state of a policy that has seen nothing: M = ridge I, which is invertible at once when ridge > 0."""
    counters = np.zeros(N_COUNTERS, np.int64)
    counters[EXPLORATION_ROUNDS] = exploration_rounds
    counters[EXPLORATION_END] = -1
    counters[FACTORED] = ridge > 0.0
    identity = np.eye(n_features)
    factor = identity / np.sqrt(ridge) if ridge > 0.0 else np.zeros_like(identity)
    return LinearState(counters, ridge * identity, factor, estimator.memory(n_features), np.zeros((2, n_features)))


@helper
def explore(contexts: Any, raw: Any) -> tuple[int, int]:
    """The random pair of an exploration round, from two uniforms; ``NOT_FINITE`` twice when a context is not finite.

    O(n d), for that check: in these rounds nothing is computed in which it would show.
    """
    if not all_rows_finite(contexts):
        return NOT_FINITE, NOT_FINITE
    return random_pair(raw[0], raw[1], contexts.shape[1])


@helper
def assess(state: Any, contexts: Any, whitened: Any, utility: Any, square: Any) -> bool:
    """Whitened arms (d, n), their utilities (n,) and squared widths (n,); False when one of these is not finite.

    O(n d^2). The check is free of a look at the contexts: what is not finite there is not finite here.
    """
    whiten(state.factor, contexts, whitened)
    utilities(state.memory.theta, contexts, utility)
    squared_widths(whitened, square)
    return bool(all_finite(utility) and all_finite(square))


@helper
def horizon_of(rule: Any, state: Any) -> float:
    """T, for which the constants of the round to come are set: the rule's ``horizon``, or for 0 that round."""
    return float(rule.horizon if rule.horizon > 0 else state.counters[ROUND] + 1)


@helper
def confidence_scale(rule: Any, state: Any) -> float:
    """Width scale of the round to come: the rule's ``width_scale``, or for a negative one sqrt(d log T)."""
    if rule.width_scale >= 0.0:
        return float(rule.width_scale)
    return float(np.sqrt(state.gram.shape[0] * np.log(horizon_of(rule, state))))


@helper
def update_linear(state: Any, estimator: Any, model: Any, contrast: Any, won: bool) -> int:
    """Learn one comparison: theta, the Gram matrix and its factor. Returns a code of :func:`learn`.

    O(d^2) besides the estimator's cost. z = 0 changes nothing.
    """
    d = contrast.size
    square, n_other = 0.0, 0
    for k in range(d):
        square += contrast[k] * contrast[k]
        n_other += contrast[k] != 0.0  # the square of a tiny difference is 0 too
    if n_other == 0:
        return LEARNED
    counters, gram, factor = state.counters, state.gram, state.factor
    whitened = state.scratch[0]
    if not square < np.inf:
        return OVERFLOW
    factored = counters[FACTORED] == 1
    if factored and not whiten_contrast(factor, contrast, whitened) < np.inf:
        return OVERFLOW
    code = learn(estimator, model, state.memory, contrast, won)
    if code != LEARNED:
        return code
    for i in range(d):
        value = contrast[i]
        for j in range(d):
            gram[i, j] += value * contrast[j]
    if factored:
        rank_one_inverse(factor, whitened, state.scratch[1])
    else:
        counters[UNTESTED] = 1
    return LEARNED


@helper
def exploration_is_due(counters: Any) -> bool:
    """True when the exploration goes on only until somebody calls :func:`end_exploration`."""
    return (
        counters[EXPLORATION_END] < 0
        and counters[ROUND] + counters[LOGGED] >= counters[EXPLORATION_ROUNDS]
        and (counters[FACTORED] == 1 or counters[UNTESTED] == 1)
    )


@kernel
def end_exploration(state: Any) -> bool:
    """End the exploration if it is due and M is invertible: factor M.

    It is a kernel of its own, since factoring happens once in a policy's life and would cost every other kernel seconds
    of compilation.

    Returns
    -------
    bool
        False when the exploration was not due: nothing was done.

    Notes
    -----
    O(d^3) when M is tested; as long as M stays singular, that is once for each comparison.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 1, lines 2 and 3.
    """
    counters = state.counters
    if not exploration_is_due(counters):
        return False
    counters[UNTESTED] = 0
    if counters[FACTORED] == 1 or factorise(state.gram, state.factor):
        counters[FACTORED] = 1
        counters[EXPLORATION_END] = counters[ROUND]
    return True


# --- kernels ------------------------------------------------------------------------------------------------


@kernel
def choose(agent: Any, contexts: Any, raw: Any, by_coordinate: Any, work: Any, out: Any) -> int:
    """One round's choice for a policy object.

    Parameters
    ----------
    agent : the policy's rule and state
    contexts : (n, d) float64, C-contiguous
        Arms as rows.
    raw : (n_raw,) float64
        The numbers of this round.
    by_coordinate : (d, n) float64
        Scratch for the contexts with arms as columns.
    work : (rows, columns) float64, of the rule's :func:`work_shape`
        Scratch.
    out : (d,) float64
        Overwritten by the contrast x_first - x_second.

    Returns
    -------
    int
        first * n + second, and the round is counted; or ``NOT_FINITE``, ``EXPLORATION_DUE`` or ``ESTIMATE_DUE``, and
        nothing was changed.

    Notes
    -----
    The cost is the rule's, and O(n d) to lay the contexts out.
    """
    rule, state = agent.rule, agent.state
    if exploration_is_due(state.counters):
        return EXPLORATION_DUE
    if estimate_is_due(state, rule, state.counters[EXPLORATION_END] >= 0):
        return ESTIMATE_DUE
    n, d = contexts.shape
    for i in range(n):
        for k in range(d):
            by_coordinate[k, i] = contexts[i, k]
    first, second = select(rule, state, by_coordinate, raw, work)
    if first == NOT_FINITE:
        return NOT_FINITE
    for k in range(d):
        out[k] = contexts[first, k] - contexts[second, k]
    state.counters[ROUND] += 1
    return first * n + second


@kernel
def learn_answer(agent: Any, first: int, second: int, contrast: Any, won: bool) -> int:
    """Learn the answer to one duel, with contrast x_first - x_second, (d,) float64.

    Returns a code of :func:`fastcolst.estimation.learn`. O(d^2) for a linear policy, besides its estimator's cost.
    """
    return update(agent.rule, agent.state, (first, second), contrast, won)


@kernel
def learn_log(agent: Any, contrasts: Any, wins: Any, out: Any) -> tuple[int, int]:
    """Learn finished comparisons in their order, predicting each before it is learned if wanted.

    Parameters
    ----------
    agent : the policy's rule and state; the state must hold an estimate
    contrasts : (m, d) float64
        x_first - x_second, one row for each comparison.
    wins : (m,) bool
        Whether the first won.
    out : (m,) or (0,) float64
        Overwritten by the probabilities that the first wins, or no predictions are wanted.

    Returns
    -------
    code, learned : int
        A code of :func:`fastcolst.estimation.learn` and the number of comparisons learned, which is less than m when
        the code is not 0.

    Notes
    -----
    m times the cost of an answer.
    """
    rule, state = agent.rule, agent.state
    for row in range(contrasts.shape[0]):
        if out.size > 0:
            if estimate_is_due(state, rule, True):
                return STALE, row
            margin = 0.0
            for k in range(contrasts.shape[1]):
                margin += state.memory.theta[k] * contrasts[row, k]
            least = doubt(rule.estimator, state.memory)
            out[row] = min(max(cdf(rule.model, margin), least), 1.0 - least)
        state.counters[LOGGED] += 1
        code = update(rule, state, LOGGED_PAIR, contrasts[row], wins[row])
        if code != LEARNED:
            state.counters[LOGGED] -= 1
            return code, row
    return LEARNED, contrasts.shape[0]


@kernel
def estimate_is_old(agent: Any) -> bool:
    """Whether theta is out of date. O(d)."""
    return estimate_is_due(agent.state, agent.rule, True)


@kernel
def probabilities(model: Any, margins: Any, out: Any) -> None:
    """Probabilities that the first arm wins, F of each margin; (m,) float64 each. O(m)."""
    for row in range(margins.size):
        out[row] = cdf(model, margins[row])


@kernel
def play(agent: Any, rng: Any, chunk: Any, trace: Any) -> int:
    """Play a chunk of simulated rounds: draw, choose, duel, add up regret, learn.

    Parameters
    ----------
    agent : the policy's rule and state
    rng : numpy.random.Generator
        The policy's own stream.
    chunk : Chunk
        m rounds of a problem.
    trace : (m + 1, 3) float64
        Running totals of average regret, weak regret and self-duels. Row 0 is read, the others are overwritten.

    Returns
    -------
    int
        The number of rounds played; less than m when numbers stopped being finite, the exploration is due to end or the
        estimate to be refreshed. The estimator's memory must have room for m comparisons.

    Notes
    -----
    The cost of a round is the rule's: O(n d^2) for CoLSTIM. Scratch is allocated once a call, and a round's result does
    not depend on where chunks begin.
    """
    rule, state = agent.rule, agent.state
    counters = state.counters
    m, d, n = chunk.contexts.shape
    raw = np.empty(n_raw(rule, n))
    work = np.zeros(work_shape(rule, n, d))
    contrast = np.empty(d)
    for r in range(m):
        # before a number is drawn
        if exploration_is_due(counters) or estimate_is_due(state, rule, counters[EXPLORATION_END] >= 0):
            return r
        contexts = chunk.contexts[r]
        draw(rule, rng, raw)
        first, second = select(rule, state, contexts, raw, work)
        if first == NOT_FINITE:
            return r
        counters[ROUND] += 1
        utility_first, utility_second = chunk.utilities[r, first], chunk.utilities[r, second]
        trace[r + 1, 0] = trace[r, 0] + (2.0 * chunk.best[r] - utility_first - utility_second) / 2.0
        trace[r + 1, 1] = trace[r, 1] + (chunk.best[r] - max(utility_first, utility_second))
        trace[r + 1, 2] = trace[r, 2]
        if first == second:
            trace[r + 1, 2] += 1.0
            continue
        for k in range(d):
            contrast[k] = contexts[k, first] - contexts[k, second]
        won = utility_first - utility_second + chunk.latent[r] > 0.0
        if update(rule, state, (first, second), contrast, won) != LEARNED:
            return r
    return m
