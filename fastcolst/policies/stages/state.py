"""What stages know, and whom a round's answer teaches; see :mod:`fastcolst.policies.stages`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import handle, helper, register, slot
from fastcolst.estimation.memory import spread, stacked
from fastcolst.estimation.protocol import LEARNED, OVERFLOW, grown, grown_stack, is_stale, refresh
from fastcolst.kernels.linalg import utilities
from fastcolst.kernels.selection import argmax
from fastcolst.policies.protocol import Choice
from fastcolst.policies.soundness import check, check_range
from fastcolst.policies.state import LinearState, update_linear

__all__ = ["CONFIDENT", "EVERYONE", "EXPLORATION", "REASONS", "WIDTH", "StageState", "memory_of", "note", "teach"]

# Why a round ended where it did: columns of the tallies.
EXPLORATION = 0
WIDTH = 1
CONFIDENT = 2
REASONS = ("exploration", "width", "confident")
"""exploration: before all stages. width: a pair of survivors was too wide. confident: none was wider than 1/sqrt(T)."""

EVERYONE = 0
"""The note of a choice whose answer is for all stages. That for a single stage is its number, for none S + 1."""


@register
class StageState(NamedTuple):
    """What a policy with stages knows.

    counters, gram (d, d), factor (d, d), memory and scratch (2, d): those of :class:`LinearState`, for stage 1, which
    alone learns during the exploration. later: those of stages 2 to S, stacked along a first axis, from the end of the
    exploration on. stale (S,) int64: 1 where theta must be refreshed. learned (S,) int64: comparisons learned. taught
    () int64: stages that have learned the comparison which is for all of them and is not yet done with. tallies (S + 1,
    3) int64: rounds by the stage in which they ended, 0 for the exploration, and by ``REASONS``.
    """

    counters: NDArray[Any]
    gram: NDArray[np.float64]
    factor: NDArray[np.float64]
    memory: Any
    scratch: NDArray[np.float64]
    later: Any
    stale: NDArray[np.int64]
    learned: NDArray[np.int64]
    taught: NDArray[np.int64]
    tallies: NDArray[np.int64]

    @classmethod
    def of(cls, first: LinearState, other: LinearState, n_stages: int) -> StageState:
        """Stage 1 as given, later ones of its size, made of ``other``: a state like the first with its own arrays."""
        later = stacked(other, n_stages - 1)
        later.counters["factored"] = 1
        return cls(
            first.counters,
            first.gram,
            first.factor,
            first.memory,
            first.scratch,
            later,
            np.zeros(n_stages, np.int64),
            np.zeros(n_stages, np.int64),
            np.zeros((), np.int64),
            np.zeros((n_stages + 1, len(REASONS)), np.int64),
        )

    def estimate_is_stale(self, rule: Any, wanted: bool) -> bool:
        """Whether the theta of some stage is out of date; only that of stage 1 is looked at closely."""
        n_stale = 0
        for s in range(self.stale.size):
            n_stale += self.stale[s]
        return n_stale > 0 or is_stale(rule.estimator, self.memory, wanted)

    def refresh_estimate(self, rule: Any) -> None:
        """Bring up to date what is known to be stale, or else stage 1."""
        stale = [s for s, is_known in enumerate(self.stale.tolist(), start=1) if is_known]
        for s in stale or [1]:
            refresh(rule.estimator, rule.model, memory_of(self, s))
        self.stale[:] = 0

    def greedy_arm(self, contexts: Any, work: Any) -> int:
        """The arm of highest utility by theta of stage 1."""
        utilities(self.memory.theta, contexts, work)
        return argmax(work)

    def with_room(self, rule: Any, n: int) -> StageState:
        """The state with room for n more comparisons in every stage; itself, where there is room."""
        memory = grown(rule.estimator, self.memory, n)
        n_learned = 0 if self.learned[1:].any() else int(self.learned[0])  # they come when stages open
        later = grown_stack(rule.estimator, self.later.memory, len(self.stale) - 1, n + n_learned)
        if memory is self.memory and later is self.later.memory:
            return self
        return self._replace(memory=memory, later=self.later._replace(memory=later))

    def open_stages(self) -> None:
        """Let the later stages begin with what stage 1 has learned, for which they have room."""
        spread(self.gram, self.later.gram)
        spread(self.factor, self.later.factor)
        spread(self.memory, self.later.memory)
        self.learned[1:] = self.learned[0]


@check.register
def _(state: StageState, name: str) -> None:
    check.dispatch(object)(state, name)
    for field, highest in (("stale", 1), ("learned", 2**62), ("taught", len(state.stale)), ("tallies", 2**62)):
        check_range(getattr(state, field), f"{name}.{field}", 0, highest)


def memory_of(state: StageState, stage: int) -> Any:
    """The estimator's memory of a stage, 1 to S, as it is."""
    return state.memory if stage == 1 else slot(state.later.memory, stage - 2)


# --- a round --------------------------------------------------------------------------------------------------


@helper
def note(state: Any, stage: int, reason: int) -> int:
    """Count where and why a round ended; returns the choice's note, whom its answer will teach."""
    state.tallies[stage, reason] += 1
    nobody = state.stale.size + 1
    return EVERYONE if reason == EXPLORATION else stage if reason == WIDTH else nobody


# --- an answer ------------------------------------------------------------------------------------------------


@helper
def learner_of(state: Any, stage: int) -> Any:
    """The linear state of a stage."""
    if stage == 1:
        return handle(LinearState(state.counters, state.gram, state.factor, state.memory, state.scratch))
    return slot(state.later, stage - 2)


@helper
def teach(rule: Any, state: Any, choice: Choice, contrast: Any, share: float, weight: float) -> int:
    """Learn one comparison in the stages that it is for: that of its round, or all of them.

    For all are the rounds of the exploration and logged comparisons. Returns a code of
    :func:`fastcolst.estimation.protocol.learn`; after ``FULL`` and ``STALE`` the same comparison goes on where it
    stopped.

    O(d^2) for each of these stages, besides the estimator's cost.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 2, lines 3, 8, 9, 13, 20.
    """
    n_stages, taught = state.stale.size, state.taught
    if choice.note > n_stages:
        return LEARNED
    opened = state.counters[()].exploration_end >= 0
    first, last = choice.note, choice.note
    if choice.note == EVERYONE:
        first, last = 1, n_stages if opened else 1
    for stage in range(first + taught[()], last + 1):
        learner = learner_of(state, stage)
        code = update_linear(learner, rule.estimator, rule.model, contrast, share, weight)
        if code != LEARNED:
            taught[()] = 0 if code == OVERFLOW else stage - first
            return code
        state.learned[stage - 1] += 1
        state.stale[stage - 1] = is_stale(rule.estimator, learner.memory, opened)
    taught[()] = 0
    return LEARNED
