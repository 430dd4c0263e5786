"""Algorithm 2 and Sta'D: CoLSTIM and the widest pair, in stages of independent comparisons."""

from __future__ import annotations

import abc
import copy
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from fastcolst.reference.linalg import Floats, norms
from fastcolst.reference.pairs import first_of_equals, first_of_the_largest, pair_distances, random_order, tie_key, word
from fastcolst.reference.policies import CoLSTIM, LinearPolicy, weights_of


@dataclass(eq=False)
class StagewisePolicy(LinearPolicy):
    """The stages of Algorithm 2, which are those of Sta'D: line numbers below are Algorithm 2's.

    `stages[s - 1]` holds theta and M of stage s, learned from the rounds in Psi^(s); `theta` and `gram` are stage 1's.
    `ends` tells for each round in which stage it ended and why: (0, "exploration"), (s, "width") or (s, "confident").
    """

    stages: list[LinearPolicy] = field(init=False)
    ends: dict[int, tuple[int, str]] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.horizon is None:
            raise ValueError("horizon is None; the number of stages follows from it")
        n_stages = max(1, math.floor(math.log2(self.horizon)))  # line 3
        self.stages = [copy.deepcopy(self) for _ in range(n_stages)]
        self.ends = {}

    def select(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        """Choose a duel: contexts (n, d), uniforms (2,) and raw as drawn by `draw`."""
        pair = super().select(contexts, uniforms, raw)
        for stage in self.stages:
            stage.exploration_end, stage._is_invertible = self.exploration_end, self._is_invertible
        self.ends.setdefault(self.round, (0, "exploration"))
        return pair

    def show(self, contrast: Floats) -> float:
        """Let the duel wait that was just chosen, in the stages that its answer teaches."""
        told = self._taught_by(self.round)
        shown = told[0].trust(contrast) if told else 1.0
        for stage in told:
            stage._waiting.append((contrast, shown))
        return shown

    def update(
        self,
        contrast: Floats,
        first_won: float,
        weight: float = 1.0,
        shown: float | None = None,
        asked_in: int | None = None,
    ) -> None:
        """Learn the answer to the duel of a round, by default the latest, where that round counts."""
        self._teach(self._taught_by(self.round if asked_in is None else asked_in), contrast, first_won, weight, shown)

    def _taught_by(self, asked_in: int) -> list[LinearPolicy]:
        stage, reason = self.ends[asked_in]
        if reason == "exploration":
            return self.stages  # line 3
        return [self.stages[stage - 1]] if reason == "width" else []  # line 20

    def learn(self, contrasts: Floats, wins: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Learn finished comparisons, contrasts (m, d) and wins (m,), in every stage; they count towards tau."""
        for contrast, first_won, weight in zip(contrasts, np.asarray(wins), weights_of(wins, weights), strict=True):
            self._teach(self.stages, contrast, float(first_won), float(weight))
            self._n_logged += 1

    def _teach(
        self, stages: list[LinearPolicy], contrast: Floats, first_won: float, weight: float, shown: float | None = None
    ) -> None:
        if np.any(contrast) and stages:
            self._note_known(contrast)
        for stage in stages:
            LinearPolicy.update(stage, contrast, first_won, weight, shown)  # lines 8 and 9
        self.theta, self.gram = self.stages[0].theta, self.stages[0].gram

    def _choose(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        finest = 1.0 / math.sqrt(self._horizon())
        arms = list(range(len(contexts)))  # line 6
        for s, stage in enumerate(self.stages, start=1):
            utilities = stage.utilities(contexts)
            gram_inv = stage.width_inverse()
            w = self.confidence_scale() * pair_distances(contexts, gram_inv)  # line 10
            pairs = [(i, j) for i in arms for j in arms if i != j]
            if all(w[pair] <= finest for pair in pairs):  # line 11
                self.ends[self.round] = s, "confident"
                noise = self._clipped_noise(uniforms, raw) * norms(contexts, gram_inv)  # line 12
                return self._confident(arms, utilities, noise, w, tie_key(uniforms[1]))
            wide = [pair for pair in pairs if w[pair] > 2.0**-s]
            if wide:
                self.ends[self.round] = s, "width"  # line 20
                return self._uncertain(arms, wide, w, uniforms)
            best = max(utilities[j] for j in arms)
            arms = [i for i in arms if utilities[i] + 2.0**-s >= best]  # line 17
        raise AssertionError("2^-S < 1/sqrt(T): no round leaves the last stage")

    def _clipped_noise(self, uniforms: Floats, raw: Floats) -> Floats | float:
        """The perturbation of each arm in this round; none unless a rule says otherwise."""
        return 0.0

    @abc.abstractmethod
    def _confident(self, arms: list[int], utilities: Floats, noise: Floats, w: Floats, key: int) -> tuple[int, int]:
        """Choose among the surviving arms when all of their differences are known well.

        Equals come in the key's order of the survivors' places.
        """

    @abc.abstractmethod
    def _uncertain(self, arms: list[int], wide: list[tuple[int, int]], w: Floats, uniforms: Floats) -> tuple[int, int]:
        """Choose among the ordered pairs of survivors that are too wide."""


@dataclass(eq=False)
class SupCoLSTIM(StagewisePolicy, CoLSTIM):
    """Algorithm 2. Line 15 is printed with w_{i_t,j} for an undefined j; the index of the maximum is meant.

    Examples
    --------
    >>> from fastcolst.reference import BradleyTerry, SupCoLSTIM
    >>> policy = SupCoLSTIM(1, comparison=BradleyTerry(), n_arms=3, horizon=100, ridge=1.0, exploration_rounds=0)
    >>> contexts = np.array([[1.0], [0.0], [2.0]])
    >>> policy.select(contexts, *policy.draw(np.random.default_rng(1), 3)), policy.ends
    ((1, 2), {1: (1, 'width')})
    """

    def _clipped_noise(self, uniforms: Floats, raw: Floats) -> Floats | float:
        return self._noise(uniforms, raw)

    def _confident(self, arms: list[int], utilities: Floats, noise: Floats, w: Floats, key: int) -> tuple[int, int]:
        first = arms[first_of_equals((utilities + noise)[arms], key)]  # line 14
        rivals, optimism = arms, utilities - utilities[first] + w[first]
        if not self.allow_self_duel:
            rivals = arms if len(arms) > 1 else list(range(len(utilities)))
            optimism[first] = -math.inf  # still the largest where it is the only arm
        return first, rivals[first_of_equals(optimism[rivals], word(key))]  # line 15

    def _uncertain(self, arms: list[int], wide: list[tuple[int, int]], w: Floats, uniforms: Floats) -> tuple[int, int]:
        return wide[int(uniforms[0] * len(wide))]  # line 21


@dataclass(eq=False)
class StaD(StagewisePolicy):
    """Sta'D (Saha, 2021): the widest pair until all are known well, then the two survivors of highest utility.

    Examples
    --------
    >>> from fastcolst.reference import BradleyTerry, StaD
    >>> policy = StaD(1, comparison=BradleyTerry(), n_arms=3, horizon=100, ridge=1.0, exploration_rounds=0)
    >>> contexts = np.array([[1.0], [0.0], [2.0]])
    >>> policy.select(contexts, *policy.draw(np.random.default_rng(1), 3)), policy.ends
    ((1, 2), {1: (1, 'width')})
    """

    allow_self_duel: bool = True  # False: a single survivor meets the best of the eliminated

    def _confident(self, arms: list[int], utilities: Floats, noise: Floats, w: Floats, key: int) -> tuple[int, int]:
        if len(arms) == 1 and not self.allow_self_duel:
            others = utilities.copy()
            others[arms[0]] = -math.inf  # still the largest where it is the only arm
            return arms[0], first_of_equals(others, key)
        words = dict(zip(arms, random_order(key, len(arms)), strict=True))
        best = sorted(arms, key=lambda i: (utilities[i], words[i]), reverse=True)
        return (best[0], best[1]) if len(best) > 1 else (best[0], best[0])

    def _uncertain(self, arms: list[int], wide: list[tuple[int, int]], w: Floats, uniforms: Floats) -> tuple[int, int]:
        words = random_order(tie_key(uniforms[1]), len(arms))
        order = [words[arms.index(i)] if i in arms else 0 for i in range(len(w))]
        wide = [(i, j) for i, j in wide if i < j]
        return first_of_the_largest(wide, np.array([w[pair] for pair in wide]), 0.0, order)
