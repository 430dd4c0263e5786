"""Policies in stages; see :mod:`fastcolst.policies.stages`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import count
from fastcolst._compile import plain, slot
from fastcolst.estimation.memory import rewind, snapshot
from fastcolst.estimation.protocol import refresh
from fastcolst.policies.duel import Asked
from fastcolst.policies.kernels import decoded
from fastcolst.policies.linear import LinearPolicy
from fastcolst.policies.stages.state import EVERYONE, REASONS, StageState, memory_of
from fastcolst.policies.state import linear_state

__all__ = ["Stage", "StagewisePolicy", "stage_scale"]


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

    chooses = "by the stage that a round ends in"

    _state: Any

    def _new_state(self, rule: Any, n_features: int, ridge: float, exploration_rounds: int, enough: int) -> Any:
        n_stages = max(1, rule.horizon.bit_length() - 1)
        states = [linear_state(rule.estimator, n_features, ridge, exploration_rounds, enough) for _ in range(2)]
        return StageState.of(states[0], states[1], n_stages)

    def _start(self, rule: Any, state: Any) -> None:
        super()._start(rule, state)
        self._n_kept = None  # each stage keeps its own

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
            opened = state.counters["exploration_end"] >= 0
            if not opened:
                s = 1  # all are alike
            memory, known = self._memory_of(s), self._known_matrices()
            gram = known[0] if s == 1 else known[len(known) // 2][s - 2]
            status = self._status_of(memory) if opened else "exploring"
            theta, gram = self._of_features(memory.theta), self._of_features(gram[: self._n_features])
            return Stage(theta.copy(), gram.copy(), int(state.learned[s - 1]), status)

    def audit(self) -> float:
        """The largest distance, over the stages, of theta from the exact estimate, in standard errors.

        Raises
        ------
        AttributeError
            When the estimator keeps no history from which the exact estimate could be recomputed, as SGD.
        """
        with self._lock:
            stages = range(1, 2 if self._state.counters["exploration_end"] < 0 else self.n_stages + 1)
            return max(self._audit_of(self._memory_of(s)) for s in stages)

    def _memory_of(self, stage: int) -> Any:
        """A stage's memory with theta up to date: a copy, if need be."""
        if stage == 1:
            return self._estimate()
        memory = memory_of(self._state, stage)
        if self._state.stale[stage - 1]:
            memory = snapshot(memory)
            refresh(self._rule.estimator, self._rule.model, memory)
        return memory

    def _new_buffers(self, n_arms: int, n_features: int) -> Any:
        if self._rule.horizon == 0:
            raise ValueError(
                "horizon is None; a policy with stages needs one to choose arms: their number depends on it"
            )
        return super()._new_buffers(n_arms, n_features)

    def _learn(self, asked: Asked, share: float, weight: float, rater: str | int | None) -> None:
        is_for_all = plain(decoded)(asked.code, asked.n_arms).note == EVERYONE
        before = snapshot(self._state) if is_for_all and self._state.counters["exploration_end"] >= 0 else None
        try:
            super()._learn(asked, share, weight, rater)
        except BaseException:
            if before is not None:  # some stages may have learned it
                rewind(before)
                self._start(self._rule, before)
            raise

    def _look_at_choice(self, contexts: NDArray[np.float64], code: int, agent: Any) -> None:
        """Each stage has its own estimate, and a pair that is too wide for it: nothing to look at."""

    def _matrices_of(self, state: Any) -> list[NDArray[np.float64]]:
        told = [self._information_factor(state.later.memory)] if self._is_informed else []
        return [*super()._matrices_of(state), state.later.gram, state.later.factor, *told]

    def _factor_for(self, note: int, state: Any) -> NDArray[np.float64] | None:
        if note in (1, EVERYONE):
            return super()._factor_for(note, state)
        return state.later.factor[note - 2] if note <= self.n_stages else None

    def _count_beside(self, state: Any, duels: list[Asked], times: float) -> bool:
        notes = [plain(decoded)(asked.code, asked.n_arms).note for asked in duels]
        is_done = True
        for stage in range(1, self.n_stages + 1):
            told = [asked for asked, note in zip(duels, notes, strict=True) if note in (stage, EVERYONE)]
            if not told:
                continue
            one = state if stage == 1 else slot(state.later, stage - 2)
            if len(told) == 1 and not self._is_informed:
                is_done = self._count_one(one, told[0], times) and is_done
            else:
                self._count_rows(one.gram, one.factor, one.memory, *self._rows_of(told, times))
        return is_done

    def _count_on(self, asked: Asked) -> None:
        note, later = plain(decoded)(asked.code, asked.n_arms).note, self._state.later
        for stage in range(1, self.n_stages + 1) if note == EVERYONE else (note,):
            if stage == 1:
                super()._count_on(asked)
            elif stage <= self.n_stages:
                self._count_in(later.gram[stage - 2], later.factor[stage - 2], memory_of(self._state, stage), asked)

    def _end_exploration(self) -> bool:
        if self._state.counters["exploration_end"] >= 0:
            self._is_exploring = False  # Ctrl-C may have come before that was noted
            return False
        due = super()._end_exploration()
        if due and not self._is_exploring:
            try:
                self._refresh_estimate()
                self._make_room(0)
                self._state.open_stages()
            except BaseException:  # no memory, or Ctrl-C: the next call tries again
                self._state.counters["exploration_end"] = -1
                self._is_exploring = True
                raise
        return due

    def warmup(self) -> None:
        """Compile this policy's kernels, or load them from the cache, now and not at the first use. Changes nothing."""
        if self._rule.horizon == 0:
            self._fresh(horizon=2, rng=0).warmup()
        else:
            super().warmup()


def stage_scale(mu: float, n_arms: int, horizon: int) -> float:
    """c1 of Theorem 3.4, 3/(2 mu) sqrt(2 log(3 n T^2)), with which all estimates hold together."""
    return 3.0 / (2.0 * mu) * math.sqrt(2.0 * (math.log(3.0 * n_arms) + 2.0 * math.log(horizon)))
