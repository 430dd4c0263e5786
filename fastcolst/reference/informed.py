"""Policies that choose by the estimator's information H = ridge I + sum w I(z'theta) z z', not by the Gram matrix."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

from fastcolst.reference.linalg import Floats, floats, inverse, row_products
from fastcolst.reference.pairs import (
    first_of_equals,
    first_of_the_largest,
    in_order,
    pair_distances,
    random_order,
    tie_key,
    word,
)
from fastcolst.reference.policies import LinearPolicy


@dataclass(eq=False)
class InformedPolicy(LinearPolicy):
    """What they share: a prior, for which they need no exploration."""

    _: KW_ONLY
    ridge: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exploration_rounds is None and self.ridge > 0.0:
            self.exploration_rounds = 0


@dataclass(eq=False)
class TwoSamples(InformedPolicy):
    """Two draws theta^k = theta + sqrt(temperature) S'g_k, S'S = H^-1; each names the best arm by it.

    S is lower triangular. Without self-duels the second draw's best is sought among the arms that the first left.

    Examples
    --------
    >>> from fastcolst.reference import MLE, BradleyTerry, TwoSamples
    >>> policy = TwoSamples(1, comparison=BradleyTerry(), n_arms=3, estimator=MLE(BradleyTerry()))
    >>> policy.select(np.array([[1.0], [0.0], [2.0]]), np.zeros(2), np.array([0.1, -0.1]))
    (2, 1)
    """

    _: KW_ONLY
    temperature: float = 1.0
    allow_self_duel: bool = True

    def draw(self, rng: np.random.Generator, n_arms: int) -> tuple[Floats, Floats]:
        """Draw what one round consumes: two uniforms, then 2 d normals, g_1 before g_2."""
        return rng.random(2), rng.standard_normal(2 * self.n_features)

    def _choose(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        key, root = tie_key(uniforms[1]), inverse_root(self.counted_information())
        draws = [self.theta + math.sqrt(self.temperature) * root.T @ g for g in raw.reshape(2, -1)]
        values, others = (row_products(contexts, theta) for theta in draws)
        first = first_of_equals(values, key)
        if not self.allow_self_duel:
            others[first] = -math.inf  # still the largest where it is the only arm
        return first, first_of_equals(others, word(key))


def inverse_root(H: Floats) -> Floats:
    """Return the lower triangular S with S'S = H^-1: the inverse of H's Cholesky factor.

    >>> inverse_root(np.array([[4.0, 0.0], [0.0, 1.0]]))
    array([[0.5, 0. ],
           [0. , 1. ]])
    """
    return floats(np.linalg.inv(np.linalg.cholesky(H)))


@dataclass(eq=False)
class Informative(InformedPolicy):
    """The pair i < j of the largest value: what its comparison would teach.

    "variance": F'(z.theta) |z|_{H^-1}; "d-optimal": I(z.theta) z'H^-1 z; "width": |z|_{M^-1}. Without `repeats` a pair
    that was chosen, of arms with these features, is not chosen again.

    Examples
    --------
    >>> from fastcolst.reference import MLE, BradleyTerry, Informative
    >>> policy = Informative(1, comparison=BradleyTerry(), n_arms=3, estimator=MLE(BradleyTerry()), repeats=False)
    >>> contexts, uniforms = np.array([[1.0], [0.0], [2.5]]), np.zeros(2)
    >>> [policy.select(contexts, uniforms, np.empty(0)) for _ in range(3)]
    [(1, 2), (0, 2), (0, 1)]
    """

    _: KW_ONLY
    value: str = "variance"
    repeats: bool = True
    _shown: set[frozenset[tuple[float, ...]]] = field(init=False, default_factory=set)

    def select(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        """Choose a duel, and note it."""
        pair = super().select(contexts, uniforms, raw)
        self._shown.add(self._name(contexts, pair))
        return pair

    def _name(self, contexts: Floats, pair: tuple[int, int]) -> frozenset[tuple[float, ...]]:
        return frozenset(tuple(contexts[i]) for i in pair)

    def _choose(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        n, utilities = len(contexts), self.utilities(contexts)
        if n == 1:
            return 0, 0
        H = self.counted_gram() if self.value == "width" else self.counted_information()
        distances = pair_distances(contexts, inverse(H))
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        pairs = [pair for pair in pairs if self.repeats or self._name(contexts, pair) not in self._shown]
        values = [self._teaches(utilities[i] - utilities[j], distances[i, j]) for i, j in pairs]
        order = random_order(tie_key(uniforms[1]), n)
        return in_order(first_of_the_largest(pairs, np.array(values), 0.0, order), utilities, distances, order)

    def _teaches(self, margin: float, distance: float) -> float:
        if self.value == "width":
            return distance
        if self.value == "variance":
            return float(self.comparison.pdf(margin)) * distance
        return float(self.comparison.weight(margin)) * distance**2
