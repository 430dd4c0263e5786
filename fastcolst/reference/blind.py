"""The rivals that see the arms' numbers only: random pairs, Double Thompson and Self-Sparring."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fastcolst.reference.linalg import Floats
from fastcolst.reference.pairs import (
    distinct_pair,
)


@dataclass
class UniformPairs:
    """The paper's Random: a uniformly random pair of distinct arms in every round.

    Examples
    --------
    >>> policy = UniformPairs(3)
    >>> policy.select(np.zeros((3, 1)), *policy.draw(np.random.default_rng(1), 3))
    (1, 2)
    """

    n_arms: int
    round: int = field(init=False, default=0)

    # the unused arguments below are those of every policy

    def draw(self, rng: np.random.Generator, n_arms: int) -> tuple[Floats, Floats]:
        """Draw what one round consumes: two uniforms and no raw variates."""
        return rng.random(2), np.empty(0)

    def select(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        """Choose a pair of distinct rows of contexts (n, d)."""
        self.round += 1
        return distinct_pair(len(contexts), uniforms)

    def update(self, contrast: Floats, first_won: float, weight: float = 1.0) -> None:
        """Learn nothing."""


@dataclass
class DoubleThompson:
    """D-TS, Algorithm 1 of Wu and Liu (2016), Double Thompson Sampling for Dueling Bandits.

    `wins[i, j]` is B_ij, how often arm i beat arm j. Contexts count for their number only.

    Examples
    --------
    >>> policy = DoubleThompson(3)
    >>> first, second = policy.select(np.zeros((3, 1)), *policy.draw(np.random.default_rng(1), 3))
    >>> policy.update(np.zeros(1), first_won=True)
    >>> float(policy.wins[first, second])
    1.0
    """

    n_arms: int
    alpha: float = 0.51
    allow_self_duel: bool = True
    wins: Floats = field(init=False)
    round: int = field(init=False, default=0)
    _duel: tuple[int, int] = field(init=False, default=(0, 0))

    def __post_init__(self) -> None:
        self.wins = np.zeros((self.n_arms, self.n_arms))

    def draw(self, rng: np.random.Generator, n_arms: int) -> tuple[Floats, Floats]:
        """Draw a uniform for ties, and both stages' samples theta_ij as a (2, n, n) array."""
        theta = rng.beta(self.wins + 1.0, self.wins.T + 1.0, size=(2, n_arms, n_arms))
        for i in range(n_arms):
            theta[:, i, i] = 0.5
            theta[0, i, :i] = 1.0 - theta[0, :i, i]  # the first stage samples i < j only
        return rng.random(1), theta

    def bounds(self) -> tuple[Floats, Floats]:
        """Return u_ij and l_ij of the current round, (n, n) each."""
        duels = self.wins + self.wins.T
        played = duels > 0
        some = np.where(played, duels, 1.0)
        mean = np.where(played, self.wins / some, 1.0)  # x/0 = 1
        radius = np.where(played, np.sqrt(self.alpha * math.log(self.round) / some), 1.0)
        upper, lower = mean + radius, mean - radius
        np.fill_diagonal(upper, 0.5)
        np.fill_diagonal(lower, 0.5)
        return upper, lower

    def candidates(self) -> NDArray[np.int64]:
        """Return the optimistic Copeland winners of the current round: those with the most u_ij > 1/2."""
        scores = (self.bounds()[0] > 0.5).sum(axis=1)
        return np.flatnonzero(scores == scores.max())

    def select(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        """Choose a duel: uniforms (1,) and raw (2, n, n) as drawn by `draw`."""
        self.round += 1
        candidates = self.candidates()
        wins = (raw[0] > 0.5).sum(axis=1)[candidates]
        best = candidates[wins == wins.max()]
        first = int(best[int(uniforms[0] * len(best))])
        uncertain = self.bounds()[1][:, first] <= 0.5
        if not self.allow_self_duel and self.n_arms > 1:
            uncertain[first] = False  # others are left: a Copeland winner is not beaten for certain by all of them
        second = int(np.argmax(np.where(uncertain, raw[1][:, first], -math.inf)))
        self._duel = first, second
        return first, second

    def update(self, contrast: Floats, first_won: float, weight: float = 1.0) -> None:
        """Learn the answer to the latest duel: of a tie half a win for each."""
        first, second = self._duel
        self.wins[first, second] += weight * first_won
        self.wins[second, first] += weight * (1.0 - first_won)


@dataclass
class SelfSparring:
    """Self-Sparring with independent priors, Algorithm 2 of Sui et al. (2017), Multi-dueling Bandits, for m = 2.

    `wins` and `losses` (n,) are S and F. Contexts count for their number only.

    Examples
    --------
    >>> policy = SelfSparring(2)
    >>> policy.select(np.zeros((2, 1)), np.empty(0), np.array([[0.2, 0.3], [0.9, 0.4]]))
    (1, 0)
    >>> policy.update(np.zeros(1), first_won=True)
    >>> policy.wins, policy.losses
    (array([0., 1.]), array([1., 0.]))
    """

    n_arms: int
    allow_self_duel: bool = True
    wins: Floats = field(init=False)
    losses: Floats = field(init=False)
    round: int = field(init=False, default=0)
    _duel: tuple[int, int] = field(init=False, default=(0, 0))

    def __post_init__(self) -> None:
        self.wins, self.losses = np.zeros(self.n_arms), np.zeros(self.n_arms)

    def draw(self, rng: np.random.Generator, n_arms: int) -> tuple[Floats, Floats]:
        """Draw no uniforms, and two independent samples of every theta_i as a (2, n) array."""
        return np.empty(0), rng.beta(self.wins + 1.0, self.losses + 1.0, size=(2, n_arms))

    def select(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        """Choose a duel: raw (2, n) as drawn by `draw`."""
        self.round += 1
        first, others = int(np.argmax(raw[0])), raw[1].copy()
        if not self.allow_self_duel:
            others[first] = -math.inf  # still the largest where it is the only arm
        self._duel = first, int(np.argmax(others))
        return self._duel

    def update(self, contrast: Floats, first_won: float, weight: float = 1.0) -> None:
        """Learn the answer to the latest duel: of a tie half a win and half a loss for each."""
        for arm, share in zip(self._duel, (first_won, 1.0 - first_won), strict=True):
            self.wins[arm] += weight * share
            self.losses[arm] += weight * (1.0 - share)
