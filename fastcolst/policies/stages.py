"""Stages: what Sup-CoLSTIM and Sta'D share.

Auer's technique: estimates that are trusted must come from answers that did not depend on them. There are S =
floor(log2 T) stages, each with a Gram matrix M^(s) and an estimate theta^(s) of its own. All of them hold the
exploration; later a round teaches at most one. A round goes through the stages with the arms that survive, at first all
of them. With w_ij = c1 |x_i - x_j| in the norm of M^(s)^-1, in stage s

    if w_ij <= 1/sqrt(T) for all pairs of survivors, the round ends: its duel is between good arms and teaches nobody;
    if w_ij <= 2^-s for all of them, those stay whose utility x_i'theta^(s) is within 2^-s of the best, and the next
        stage follows;
    otherwise the round ends with a duel of two survivors for which w_ij > 2^-s, which teaches this stage.

The last stage is never left, since 2^-S < 1/sqrt(T). Line numbers are those of Algorithm 2 in Bengs, Saha, Huellermeier
(2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import handle, helper, register, shared_fields, slot
from fastcolst.estimation import LEARNED, OVERFLOW, is_stale
from fastcolst.likelihood import ROWS, History
from fastcolst.linalg import squared_widths, utilities, whiten
from fastcolst.pairs import BLOCK, FEW, TIE, squared_distances, squared_radii
from fastcolst.policies.base import LinearPolicy, snapshot
from fastcolst.policies.checks import count
from fastcolst.policies.rounds import (
    EXPLORATION_END,
    FACTORED,
    LESSON,
    N_COUNTERS,
    LinearState,
    confidence_scale,
    horizon_of,
    linear_state,
    update_linear,
)
from fastcolst.selection import all_finite

__all__ = ["REASONS", "Stage", "StageState", "StagewisePolicy", "descend", "note", "stage_work_shape"]

# Why a round ended where it did: columns of the tallies.
EXPLORATION = 0
WIDTH = 1
CONFIDENT = 2
REASONS = ("exploration", "width", "confident")
"""exploration: before all stages. width: a pair of survivors was too wide. confident: none was wider than 1/sqrt(T)."""
ELIMINATE = 3

# Whom a round teaches, `counters[LESSON]`, unless it is the number of a stage.
EVERYONE = 0
NOBODY = -1

TAUGHT = N_COUNTERS
"""Place in `counters`: stages that have learned the comparison which is for everyone and is not yet done with."""


@register
class StageState(NamedTuple):
    """What a policy with stages knows.

    counters (8,) int64, gram (d, d), factor (d, d), memory and scratch (2, d): those of :class:`LinearState`, for stage
    1, which alone learns during the exploration. later: those of stages 2 to S, stacked along a first axis, from the
    end of the exploration on. stale (S,) int64: 1 where theta must be refreshed. learned (S,) int64: comparisons
    learned. tallies (S + 1, 3) int64: rounds by the stage in which they ended, 0 for the exploration, and by
    ``REASONS``.
    """

    counters: NDArray[np.int64]
    gram: NDArray[np.float64]
    factor: NDArray[np.float64]
    memory: Any
    scratch: NDArray[np.float64]
    later: Any
    stale: NDArray[np.int64]
    learned: NDArray[np.int64]
    tallies: NDArray[np.int64]

    @classmethod
    def of(cls, first: LinearState, other: LinearState, n_stages: int) -> StageState:
        """Stage 1 as given, later ones of its size, made of ``other``: a state like the first with its own arrays."""
        later = stacked(other, n_stages - 1)
        later.counters[FACTORED] = 1
        return cls(
            np.append(first.counters, 0),
            first.gram,
            first.factor,
            first.memory,
            first.scratch,
            later,
            np.zeros(n_stages, np.int64),
            np.zeros(n_stages, np.int64),
            np.zeros((n_stages + 1, len(REASONS)), np.int64),
        )

    def estimate_is_due(self, rule: Any, wanted: bool) -> bool:
        """Whether the theta of some stage is out of date; only that of stage 1 is looked at closely."""
        n_stale = 0
        for s in range(self.stale.size):
            n_stale += self.stale[s]
        return n_stale > 0 or is_stale(rule.estimator, self.memory, wanted)

    def refresh_estimate(self, rule: Any) -> None:
        """Bring up to date what is known to be stale, or else stage 1."""
        stale = [s for s, is_known in enumerate(self.stale.tolist(), start=1) if is_known]
        for s in stale or [1]:
            rule.estimator.refresh(rule.model, memory_of(self, s))
        self.stale[:] = 0

    def open_stages(self) -> None:
        """Let the later stages begin with what stage 1 has learned. Their pool has room for it."""
        spread(self.gram, self.later.gram)
        spread(self.factor, self.later.factor)
        spread(self.memory, self.later.memory)
        self.learned[1:] = self.learned[0]


# --- several memories in one ----------------------------------------------------------------------------------


def stacked(value: Any, n: int) -> Any:
    """Zeros for n NamedTuples like the given one, whose arrays have a first axis of n; see :func:`slot`."""
    if not isinstance(value, tuple):
        return np.zeros((n, *value.shape), value.dtype)
    shared = shared_fields(type(value))
    return type(value)(
        *(
            field if name in shared else stacked(field, n)
            for name, field in zip(value._fields, value, strict=True)  # type: ignore[attr-defined]
        )
    )


def spread(source: Any, target: Any) -> None:
    """Copy one NamedTuple into each place of a stack of them. Histories share the blocks that are full."""
    if not isinstance(source, tuple):
        target[:] = source
        return
    if isinstance(source, History):
        n_full, rest = divmod(int(source.size[0]), ROWS)
        target.blocks[:n_full] = source.blocks[source.owned[:n_full]]
        target.owned[:, :n_full] = np.arange(n_full)
        target.used[0] = n_full
        if rest:
            n = len(target.owned)
            target.blocks[n_full : n_full + n] = source.blocks[source.owned[n_full]]
            target.owned[:, n_full] = n_full + np.arange(n)
            target.used[0] += n
        target.size[:] = source.size
        return
    shared = shared_fields(type(source))
    for name in source._fields:  # type: ignore[attr-defined]
        if name not in shared:
            spread(getattr(source, name), getattr(target, name))


def memory_of(state: StageState, stage: int) -> Any:
    """The estimator's memory of a stage, 1 to S, as it is."""
    return state.memory if stage == 1 else slot(state.later.memory, stage - 2)


# --- a round --------------------------------------------------------------------------------------------------

# Rows of the scratch, which holds one of the survivors in each of their first places. After these come two matrices.
UTILITY = 0
SQUARE = 1
"""Squared widths."""
LABEL = 2
"""Indices of the arms."""
PARTNERS = 3
"""In how many wide pairs an arm is."""
VALUES, NOISE = 4, 5  # scratch
N_ROWS = 6

# The matrices; see `columns`.
POINTS = 0
"""The arms, whitened by a stage's factor."""
SPARE = 1

LESS = 1.0 - 1e-12
"""Bounds that spare work leave so much room for rounding."""


@helper
def stage_work_shape(n_arms: int, n_features: int) -> tuple[int, int]:
    """Rows and columns of the scratch of a choice, whatever the number of stages."""
    return N_ROWS + 2 * n_features, -(-n_arms // BLOCK) * BLOCK


@helper
def columns(arms: Any, which: int, size: int) -> Any:
    """A matrix of ``size`` arms as columns, (d, size padded to whole blocks), C-contiguous, in place of ``which``."""
    d, width = (arms.shape[0] - N_ROWS) // 2, -(-size // BLOCK) * BLOCK
    start = (N_ROWS + which * d) * arms.shape[1]
    return arms.reshape(-1)[start : start + d * width].reshape((d, width))


@helper
def descend(rule: Any, state: Any, contexts: Any, arms: Any) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """Go through the stages until the round ends.

    Parameters
    ----------
    rule, state : the policy's
    contexts : (d, n) float64
        Arms as columns.
    arms : float64, of :func:`stage_work_shape`
        Scratch for the survivors; overwritten.

    Returns
    -------
    stage, reason, n_survivors : int
        Where the round ends, ``WIDTH`` or ``CONFIDENT``, and how many columns of ``arms`` survive; or stage 0 when a
        utility or a width is not finite.
    first, second : int
        Columns of the widest pair, when that is the reason.

    Notes
    -----
    O(n d^2) for each stage that is passed, and O(m^2 d) for pairs of m survivors in the last one and where it takes a
    look at pairs to tell whether one of them is too wide. Allocates nothing.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 2, lines 6 to 11, 16 to 19.
    """
    n = contexts.shape[1]
    scale, finest = confidence_scale(rule, state), 1.0 / np.sqrt(horizon_of(rule, state))
    size, stage = everyone(arms, n), 0  # line 6
    while True:  # 2^-S < 1/sqrt(T): stage S has only two ways out
        stage += 1
        if not survey(state, stage, contexts, size, arms):
            return (0, 0, 0), (0, 0)
        verdict, first, second = judge(arms, size, scale, 2.0**-stage, finest)
        if verdict != ELIMINATE:
            return (stage, verdict, size), (first, second)
        size = eliminate(arms, size, 2.0**-stage)


@helper
def everyone(arms: Any, n: int) -> int:
    """Let all n arms survive; returns n."""
    for j in range(n):
        arms[LABEL, j] = j
    return n


@helper
def survey(state: Any, stage: int, contexts: Any, size: int, arms: Any) -> bool:
    """Whiten the survivors and find utilities and squared widths in a stage; False when one is not finite. O(n d^2)."""
    factor, theta = state.factor, state.memory.theta
    if stage > 1:
        factor, theta = state.later.factor[stage - 2], state.later.memory.theta[stage - 2]
    rows, points = contexts, columns(arms, POINTS, size)
    if size < contexts.shape[1]:
        rows, label = columns(arms, SPARE, size), arms[LABEL]
        for k in range(rows.shape[0]):
            for j in range(size):
                rows[k, j] = contexts[k, int(label[j])]
            for j in range(size, rows.shape[1]):
                rows[k, j] = 0.0
    n = rows.shape[1]
    whiten(factor, rows, points)
    utility, square = arms[UTILITY][:n], arms[SQUARE][:n]
    utilities(theta, rows, utility)
    squared_widths(points, square)
    return bool(all_finite(utility) and all_finite(square))


@helper
def judge(arms: Any, size: int, scale: float, width: float, finest: float) -> tuple[int, int, int]:
    """How a stage goes on: ``CONFIDENT``, ``ELIMINATE`` or ``WIDTH``, which goes with the widest pair.

    With r_i the distances from the centroid, the largest r_1 and r_2, two arms are at most r_i + r_j apart, and some
    are at least r_1. That spares a look at most pairs in most rounds: a stage learns only until its widest pairs are
    hardly too wide, and stays near that limit ever after. Pairs of a few arms are looked at right away.

    O(size d), and O(size^2 d) at worst.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 2, lines 11 and 16.
    """
    if size > FEW:
        farthest, next_to_it = _radii(arms, size)
        reach, bound = scale * farthest * LESS, scale * (farthest + next_to_it)
        if bound <= finest * LESS:
            return CONFIDENT, 0, 0
        if finest < reach <= width and (bound <= width * LESS or not may_be_wide(arms, size, farthest, width / scale)):
            return ELIMINATE, 0, 0
    limit = squared_limit(width, scale)
    largest, first, second = survey_pairs(arms, size, limit)
    if largest <= squared_limit(finest, scale):
        return CONFIDENT, 0, 0
    return WIDTH if largest > limit else ELIMINATE, first, second


@helper
def _radii(arms: Any, size: int) -> tuple[float, float]:
    """Distances from the centroid, to be found in ``VALUES``; returns the two largest. O(size d)."""
    radii = arms[VALUES]
    squared_radii(columns(arms, POINTS, size), size, radii)
    farthest, next_to_it = 0.0, 0.0
    for j in range(size):
        radii[j] = np.sqrt(radii[j])
    for j in range(size):
        next_to_it = max(next_to_it, min(farthest, radii[j]))
        farthest = max(farthest, radii[j])
    return farthest, next_to_it


@helper
def may_be_wide(arms: Any, size: int, farthest: float, distance: float) -> bool:
    """Whether two survivors, whose radii are in ``VALUES``, may be further apart than a distance.

    ``farthest`` is the largest radius. O(size), and O(d) for each pair with radii that sum to more than the distance.
    """
    limit = distance * LESS
    n_outer = _gather_outer(arms, size, limit - farthest)
    radii, rows = arms[NOISE], columns(arms, SPARE, size).reshape(-1)
    # unsigned, which spares reads the test for negative places
    zero, four, d = np.uint64(0), np.uint64(4), np.uint64((arms.shape[0] - N_ROWS) // 2)
    rest = d % four
    for one in range(np.uint64(1), np.uint64(n_outer)):
        least = limit - radii[one]
        for other in range(zero, one):
            if not radii[other] > least:
                break
            a, b = one * d, other * d
            s0 = s1 = s2 = s3 = 0.0  # which need not wait for each other
            for _ in range(zero, d // four):
                d0, d1 = rows[a] - rows[b], rows[a + np.uint64(1)] - rows[b + np.uint64(1)]
                d2 = rows[a + np.uint64(2)] - rows[b + np.uint64(2)]
                d3 = rows[a + np.uint64(3)] - rows[b + np.uint64(3)]
                s0, s1, s2, s3 = s0 + d0 * d0, s1 + d1 * d1, s2 + d2 * d2, s3 + d3 * d3
                a, b = a + four, b + four
            for k in range(zero, rest):
                s0 += (rows[a + k] - rows[b + k]) ** 2
            if (s0 + s1) + (s2 + s3) > limit * limit:
                return True
    return False


@helper
def _gather_outer(arms: Any, size: int, least: float) -> int:
    """Sort the arms of more than a radius, the largest first: radii to ``NOISE``, points to ``SPARE``, arm by arm.

    Returns their number. O(size), and O(m^2) for m such arms.
    """
    radii, sorted_radii, outer = arms[VALUES], arms[NOISE], arms[PARTNERS]
    n_outer = 0
    for j in range(size):
        if radii[j] > least:
            place = n_outer
            while place > 0 and sorted_radii[place - 1] < radii[j]:
                outer[place], sorted_radii[place] = outer[place - 1], sorted_radii[place - 1]
                place -= 1
            outer[place], sorted_radii[place] = j, radii[j]
            n_outer += 1
    points, rows = columns(arms, POINTS, size), columns(arms, SPARE, size).reshape(-1)
    d = points.shape[0]
    for one in range(n_outer):
        for k in range(d):
            rows[one * d + k] = points[k, int(outer[one])]
    return n_outer


@helper
def squared_limit(width: float, scale: float) -> float:
    """Squared distance of two arms whose w_ij is ``width``; infinite for a scale of 0."""
    distance = width / scale if scale > 0.0 else np.inf
    return float(distance * distance)  # a power would overflow with an error where it is not compiled


@helper
def survey_pairs(arms: Any, size: int, limit: float) -> tuple[float, int, int]:
    """The largest squared distance of two survivors and its pair, the lowest indices among equals.

    ``PARTNERS`` is overwritten by the number of pairs, for each arm, whose squared distance exceeds the limit. O(size^2
    d / 2); counts are whole numbers since sums of those vectorise.
    """
    points, partners, values = columns(arms, POINTS, size), arms[PARTNERS], arms[VALUES]
    for j in range(size):
        partners[j] = 0.0
    largest, first, second = 0.0, 0, 0
    for i in range(size - 1):
        squared_distances(points, i, i + 1, size, values)
        n_wide, n_larger = 0, 0
        for j in range(np.uint64(i + 1), np.uint64(size)):
            is_wide = values[j] > limit
            partners[j] += is_wide
            n_wide += is_wide
            n_larger += values[j] > largest
        partners[i] += n_wide
        if n_larger > 0:
            for j in range(i + 1, size):
                if values[j] > largest:
                    if values[j] > largest * (1.0 + 2.0 * TIE):
                        first, second = i, j
                    largest = values[j]
    return largest, first, second


@helper
def eliminate(arms: Any, size: int, slack: float) -> int:
    """Keep the labels of those survivors whose utility is within ``slack`` of the best; returns their number. O(size).

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 2, line 17.
    """
    utility, label = arms[UTILITY], arms[LABEL]
    best = -np.inf
    for j in range(size):
        best = max(best, utility[j])
    kept = 0
    for j in range(size):
        label[kept] = label[j]
        kept += utility[j] + slack >= best
    return kept


@helper
def note(state: Any, stage: int, reason: int) -> None:
    """Remember where and why a round ended, and whom its answer will teach."""
    state.tallies[stage, reason] += 1
    state.counters[LESSON] = EVERYONE if reason == EXPLORATION else stage if reason == WIDTH else NOBODY


# --- an answer ------------------------------------------------------------------------------------------------


@helper
def learner_of(state: Any, stage: int) -> Any:
    """The linear state of a stage."""
    if stage == 1:
        return handle(LinearState(state.counters, state.gram, state.factor, state.memory, state.scratch))
    return slot(state.later, stage - 2)


@helper
def teach(rule: Any, state: Any, pair: tuple[int, int], contrast: Any, won: bool) -> int:
    """Learn one comparison in the stages that it is for: that of its round, or all of them.

    For all are the rounds of the exploration and logged comparisons. Returns a code of
    :func:`fastcolst.estimation.learn`; after ``FULL`` and ``STALE`` the same comparison goes on where it stopped.

    O(d^2) for each of these stages, besides the estimator's cost.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 2, lines 3, 8, 9, 13, 20.
    """
    counters = state.counters
    lesson = EVERYONE if pair[0] < 0 else counters[LESSON]
    if lesson == NOBODY:
        return LEARNED
    opened = counters[EXPLORATION_END] >= 0
    first, last = lesson, lesson
    if lesson == EVERYONE:
        first, last = 1, state.stale.size if opened else 1
    for stage in range(first + counters[TAUGHT], last + 1):
        learner = learner_of(state, stage)
        code = update_linear(learner, rule.estimator, rule.model, contrast, won)
        if code != LEARNED:
            counters[TAUGHT] = 0 if code == OVERFLOW else stage - first
            return code
        state.learned[stage - 1] += 1
        state.stale[stage - 1] = is_stale(rule.estimator, learner.memory, opened)
    counters[TAUGHT] = 0
    return LEARNED


# --- the object -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """What one stage of a policy knows.

    Attributes
    ----------
    theta : (n_features,) float64
        Its estimate, a copy.
    gram : (n_features, n_features) float64
        Its Gram matrix M^(s), a copy.
    count : int
        Comparisons it has learned: those of the exploration and of logs, and those of rounds that ended in it because
        a pair was too wide.
    status : str
        How its estimate stands; see :attr:`LinearPolicy.status`.
    """

    theta: NDArray[np.float64]
    gram: NDArray[np.float64]
    count: int
    status: str


class StagewisePolicy(LinearPolicy):
    """A policy with S = floor(log2 T) stages, each with its own estimate and Gram matrix.

    ``theta``, ``gram``, ``utilities``, ``widths``, ``probability`` and ``status`` are stage 1's.
    """

    _state: Any

    def _new_state(self, rule: Any, n_features: int, ridge: float, exploration_rounds: int) -> Any:
        n_stages = max(1, rule.horizon.bit_length() - 1)
        states = [linear_state(rule.estimator, n_features, ridge, exploration_rounds) for _ in range(2)]
        state = StageState.of(states[0], states[1], n_stages)
        history = _history_of(state.later.memory)
        if history is not None and n_stages > 1:  # room in the pool for as much as each would hold alone
            state = _with_history(state, history.grown((n_stages - 2) * len(history.blocks) * ROWS))
        return state

    @property
    def n_stages(self) -> int:
        """S, the number of stages."""
        return len(self._state.stale)

    @property
    def stage_counts(self) -> dict[int, dict[str, int]]:
        """How many rounds ended in which stage, and why: ``stage_counts[stage][reason]``.

        Stages are 0 for the exploration, which comes before all of them, and 1 to S. The reasons: "exploration";
        "width", a pair of surviving arms was too wide, and the answer teaches this stage; "confident", no pair was
        wider than 1/sqrt(T), and the answer teaches nobody. The sum of all is ``round``.
        """
        with self._lock:
            tallies = self._state.tallies.tolist()
        return {s: dict(zip(REASONS, row, strict=True)) for s, row in enumerate(tallies)}

    def stage(self, number: int) -> Stage:
        """What a stage knows; ``number`` is from 1 to ``n_stages``.

        Raises
        ------
        ValueError
            When there is no such stage.
        """
        s = count("number", number)
        if s > self.n_stages:
            raise ValueError(f"number is {number}; there are {self.n_stages} stages")
        with self._lock:
            state = self._state
            opened = state.counters[EXPLORATION_END] >= 0
            if not opened:
                s = 1  # all are alike
            memory, gram = self._memory_of(s), state.gram if s == 1 else state.later.gram[s - 2]
            status = self._status_of(memory) if opened else "exploring"
            return Stage(memory.theta.copy(), gram.copy(), int(state.learned[s - 1]), status)

    def audit(self) -> float:
        """The largest distance, over the stages, of theta from the exact estimate, in standard errors.

        Raises
        ------
        AttributeError
            When the estimator keeps no history from which the exact estimate could be recomputed, as SGD.
        """
        with self._lock:
            stages = range(1, 2 if self._state.counters[EXPLORATION_END] < 0 else self.n_stages + 1)
            return max(self._audit_of(self._memory_of(s)) for s in stages)

    def _memory_of(self, stage: int) -> Any:
        """A stage's memory with theta up to date: a copy, if need be."""
        if stage == 1:
            return self._estimate()
        memory = memory_of(self._state, stage)
        if self._state.stale[stage - 1]:
            memory = snapshot(memory)
            self._rule.estimator.refresh(self._rule.model, memory)
        return memory

    def _new_buffers(self, n_arms: int, n_features: int) -> Any:
        if self._rule.horizon == 0:
            raise ValueError(
                "horizon is None; a policy with stages needs one to choose arms: their number depends on it"
            )
        return super()._new_buffers(n_arms, n_features)

    def _end_exploration(self) -> bool:
        if self._state.counters[EXPLORATION_END] >= 0:
            return False
        due = super()._end_exploration()
        if due and self._state.counters[EXPLORATION_END] >= 0:
            try:
                if hasattr(self._rule.estimator, "refresh"):
                    self._refresh_estimate()
                self._make_room(0)
                self._state.open_stages()
            except BaseException:  # no memory, or Ctrl-C: the next call tries again
                self._state.counters[EXPLORATION_END] = -1
                raise
        return due

    def _make_room(self, n_comparisons: int) -> None:
        super()._make_room(n_comparisons)
        history = _history_of(self._state.later.memory)
        if history is None or not hasattr(self._rule.estimator, "grown"):
            return
        # each stage may learn all of them and begin a block; the exploration comes on top when stages open
        n_blocks = len(history.owned) * (-(-n_comparisons // ROWS) + 1) + int(_history_of(self._state.memory).used[0])
        if len(history.blocks) - int(history.used[0]) < n_blocks:
            self._start(self._rule, _with_history(self._state, history.grown(n_blocks * ROWS)))

    def warmup(self) -> None:
        """Compile this policy's kernels, or load them from the cache, now and not at the first use. Changes nothing."""
        if self._rule.horizon == 0:
            self._fresh(horizon=2, rng=0).warmup()
        else:
            super().warmup()


def stage_scale(mu: float, n_arms: int, horizon: int) -> float:
    """c1 of Theorem 3.4, 3/(2 mu) sqrt(2 log(3 n T^2)), with which all estimates hold together."""
    return 3.0 / (2.0 * mu) * math.sqrt(2.0 * (math.log(3.0 * n_arms) + 2.0 * math.log(horizon)))


def _history_of(memory: Any) -> Any:
    history = getattr(memory, "history", None)
    return history if isinstance(history, History) else None


def _with_history(state: StageState, history: History) -> StageState:
    memory = state.later.memory._replace(history=history)
    return state._replace(later=state.later._replace(memory=memory))
