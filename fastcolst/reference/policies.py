"""Algorithm 1, CoLSTIM, and its rivals with a linear model."""

from __future__ import annotations

import abc
import math
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from fastcolst.reference.estimation import MLE, OnlineNewton
from fastcolst.reference.linalg import Floats, floats, inverse, invertible, norms, row_products
from fastcolst.reference.models import ComparisonModel
from fastcolst.reference.pairs import (
    distinct_pair,
    first_of_equals,
    first_of_the_largest,
    in_order,
    pair_distances,
    random_order,
    tie_key,
    undominated,
    word,
)


def weights_of(wins: ArrayLike, weights: ArrayLike | None) -> Floats:
    """Return what was given, or a weight of 1 for each."""
    return np.ones(len(np.asarray(wins))) if weights is None else floats(weights)


@dataclass(eq=False)
class LinearPolicy(abc.ABC):
    """What the algorithms with a linear model share: exploration, theta, the Gram matrix.

    The parameters are the first block of fields below, each with its symbol in the paper. `theta` (d,) starts
    at 0; `gram` (d, d) is M, the ridge included; `round` counts selections; `exploration_end` is the value of
    `round` when the exploration ended, None while it lasts. Lines are those of Algorithm 1.
    """

    n_features: int  # d
    _: KW_ONLY
    comparison: ComparisonModel  # F, the model theta is learned with
    n_arms: int  # n, for the default tau only
    horizon: int | None = None  # T; None: the current round stands in
    ridge: float = 0.0  # M starts as ridge * I; 0 in the paper. Also the estimator's, unless that says one
    exploration_rounds: int | str | None = None  # tau; None: d * n; "auto": see _may_stop_exploring
    width_scale: float | None = None  # c1, eta or c; None: sqrt(d log T)
    estimator: MLE | OnlineNewton | None = None  # how theta is learned; None: by gradient steps with the four below
    learning_rate: float = 0.5  # step t of theta has the rate learning_rate * t^-decay
    decay: float = 0.0
    radius: float | None = None  # theta is projected onto |theta| <= radius
    by_information: bool = False  # widths by the estimator's information H, not by M
    robust: float | None = None  # alpha: the weight of an answer is min(1, alpha / |z|_{M^-1}); None: 1
    count_pending: bool = False  # whether pairs that `show` was told of count in M until they are answered
    score: str = "likelihood"  # gradient of the log-likelihood; "residual": (Y - F) z, equation (10)
    discount: float = 1.0  # gamma: after each block of 1/(20 (1 - gamma)) answers weights fade by gamma^block

    theta: Floats = field(init=False)
    gram: Floats = field(init=False)
    round: int = field(init=False, default=0)
    exploration_end: int | None = field(init=False, default=None)
    _n_logged: int = field(init=False, default=0)  # comparisons from learn(): they count towards tau
    _n_steps: int = field(init=False, default=0)  # comparisons theta has learned from
    _n_known: int = field(init=False, default=0)  # of late in a row, since M was found invertible, z'M^-1 z <= 1
    _n_aged: int = field(init=False, default=0)  # answers in the block of the discount
    _is_invertible: bool = field(init=False, default=False)  # M was found so when it was last looked at
    _waiting: list[tuple[Floats, float]] = field(init=False, default_factory=list)  # pairs with their weights

    def __post_init__(self) -> None:
        if self.score not in ("likelihood", "residual"):
            raise ValueError(f'score is {self.score!r}; it must be "likelihood" or "residual"')
        self.theta = np.zeros(self.n_features)
        self.gram = self.ridge * np.eye(self.n_features)
        self._is_invertible = self.ridge > 0.0
        if self.estimator is not None:
            self.estimator.settle(self.ridge)

    def draw(self, rng: np.random.Generator, n_arms: int) -> tuple[Floats, Floats]:
        """Draw what one round consumes, always as much: two uniforms and no raw variates."""
        return rng.random(2), np.empty(0)

    def select(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        """Choose a duel: contexts (n, d), uniforms (2,) and raw as drawn by `draw`."""
        if self.exploration_end is None and self._may_stop_exploring():
            self.exploration_end = self.round
        self.round += 1  # from here on it is the paper's t
        if self.exploration_end is None:
            return distinct_pair(len(contexts), uniforms)  # line 2
        return self._choose(contexts, uniforms, raw)

    @abc.abstractmethod
    def _choose(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        """Choose a duel after the exploration."""

    def show(self, contrast: Floats) -> float:
        """Let the duel wait that was just chosen; returns w_0, which `update` takes as `shown` with the answer."""
        shown = self.trust(contrast)
        self._waiting.append((contrast, shown))
        return shown

    def give_up(self, contrast: Floats, shown: float) -> None:
        """Wait no longer for the answer to a duel that was shown with this weight."""
        is_it = [w == shown and np.array_equal(z, contrast) for z, w in self._waiting]
        del self._waiting[is_it.index(True)]

    def trust(self, contrast: Floats) -> float:
        """Return w_0 = min(1, alpha / |z|_{M^-1}); 1 as long as M was not inverted."""
        if self.robust is None or not self._is_invertible or not np.any(contrast):
            return 1.0
        return min(1.0, self.robust / math.sqrt(contrast @ inverse(self.counted_gram()) @ contrast))

    def update(self, contrast: Floats, first_won: float, weight: float = 1.0, shown: float | None = None) -> None:
        """Learn one comparison; contrast (d,) is x_first - x_second. A zero contrast changes nothing.

        `first_won` is the first arm's share of the win, True or False as a rule and 0.5 for a tie; with a `weight` the
        comparison counts so many times. `shown` is what `show` returned, None where nothing waited.
        """
        if np.any(contrast):
            if shown is not None:
                self.give_up(contrast, shown)
            weight *= self.trust(contrast) if shown is None else shown
            self._note_known(contrast)
            learn = self._step if self.estimator is None else self.estimator.learn
            self.theta = learn(contrast, first_won, weight)
            self.gram = self.gram + weight * np.outer(contrast, contrast)  # lines 3 and 17
        self.grow_older()

    def grow_older(self) -> None:
        """Let what was learned be older by an answer or a self-duel, and fade where a block of the discount ends."""
        self._n_aged += 1
        if self.discount < 1.0 and self._n_aged >= round(0.05 / (1.0 - self.discount)):
            self._fade(self.discount**self._n_aged)
            self._n_aged = 0

    def _fade(self, share: float) -> None:
        """Let each weight be a share of what it was, in theta and in M; the ridge stays."""
        if self.estimator is None:
            raise ValueError("estimator is None: gradient steps cannot forget")
        self.theta = self.estimator.fade(share)
        prior = self.ridge * np.eye(self.n_features)
        self.gram = prior + share * (self.gram - prior)

    def _note_known(self, contrast: Floats) -> None:
        """Count the comparisons in a row of differences that M knew before."""
        if self._is_invertible:
            is_known = float(contrast @ inverse(self.gram) @ contrast) <= 1.0
            self._n_known = self._n_known + 1 if is_known else 0

    def _step(self, contrast: Floats, first_won: float, weight: float = 1.0) -> Floats:
        """Return theta after one comparison more, by a step of stochastic gradient ascent."""
        self._n_steps += 1
        margin = float(contrast @ self.theta)
        rate = self.learning_rate * self._n_steps**-self.decay
        # section 3.2.3: a gradient step stands for line 6
        theta = self.theta + rate * weight * self._slope(margin, first_won) * contrast
        norm = float(np.linalg.norm(theta))
        return floats(theta if self.radius is None or norm <= self.radius else theta * (self.radius / norm))

    def learn(self, contrasts: Floats, wins: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Learn finished comparisons, contrasts (m, d) and wins (m,), which count towards the exploration."""
        for contrast, first_won, weight in zip(contrasts, np.asarray(wins), weights_of(wins, weights), strict=True):
            self.update(contrast, float(first_won), float(weight))
            self._n_logged += 1

    def utilities(self, contexts: Floats) -> Floats:
        """Return x_i.theta, (n,)."""
        return row_products(contexts, self.theta)

    def widths(self, contexts: Floats) -> Floats:
        """Return |x_i|_{M^-1}, (n,); inf as long as M cannot be inverted."""
        if self.exploration_end is None and self.ridge == 0.0 and not invertible(self.gram):
            return np.full(len(contexts), math.inf)
        return norms(contexts, self.width_inverse())

    def information(self) -> Floats:
        """Return H, (d, d), the estimator's: of nothing it is the prior's alone."""
        if self.estimator is None:
            raise ValueError("estimator is None: gradient steps know no information")
        return self.estimator.information(self.n_features)

    def counted_gram(self) -> Floats:
        """Return M with the pairs that wait, unless M itself decides when the exploration ends, and has not yet."""
        return self.gram + sum((w * np.outer(z, z) for z, w in self._counted()), np.zeros_like(self.gram))

    def counted_information(self) -> Floats:
        """Return H with the pairs that wait, as if they were answered."""
        tells = [(z, w * float(self.comparison.weight(float(z @ self.theta)))) for z, w in self._counted()]
        return self.information() + sum((w * np.outer(z, z) for z, w in tells), 0.0 * self.gram)

    def _counted(self) -> list[tuple[Floats, float]]:
        is_settled = self.exploration_end is not None or (self.ridge > 0.0 and self.exploration_rounds != "auto")
        return self._waiting if self.count_pending and is_settled else []

    def width_inverse(self) -> Floats:
        """Return M^-1, or H^-1 where widths are by information."""
        return inverse(self.counted_information() if self.by_information else self.counted_gram())

    def confidence_scale(self) -> float:
        """Return c1 (eta of MaxInP, c of MaxPairUCB) of the current round."""
        if self.width_scale is not None:
            return self.width_scale
        return math.sqrt(self.n_features * math.log(self._horizon()))

    def _may_stop_exploring(self) -> bool:
        """Tell whether tau comparisons were asked for or learned and M is invertible.

        "auto" is min(n, 10) d comparisons, or sooner when d of them in a row told of differences that M knew before as
        well as one comparison of these two arms alone would have told them, z'M^-1 z <= 1.
        """
        d, n_seen, is_auto = self.n_features, self.round + self._n_logged, self.exploration_rounds == "auto"
        if isinstance(self.exploration_rounds, int):
            tau = self.exploration_rounds
        else:
            tau = d * min(self.n_arms, 10) if is_auto else d * self.n_arms
        if n_seen >= (d if is_auto else tau) and not self._is_invertible:
            self._is_invertible = invertible(self.gram)
        return self._is_invertible and (n_seen >= tau or (is_auto and self._n_known >= d))

    def _horizon(self) -> int:
        return self.round if self.horizon is None else self.horizon

    def _slope(self, margin: float, share: float) -> float:
        """Return the factor of z in a step: d/dm log P(Y) at m = z.theta, or the residual Y - F(m)."""
        if self.score == "residual":
            return float(share) - float(self.comparison.cdf(margin))
        won, lost = float(self.comparison.score(margin)), float(self.comparison.score(-margin))
        return share * won - (1.0 - share) * lost  # P(Y) is F(m) or F(-m)


@dataclass(eq=False)
class CoLSTIM(LinearPolicy):
    """Algorithm 1, one NumPy line per line of the paper.

    Examples
    --------
    >>> from fastcolst.reference import BradleyTerry, CoLSTIM
    >>> policy = CoLSTIM(2, comparison=BradleyTerry(), n_arms=3, horizon=100)
    >>> contexts = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 2.0]])
    >>> policy.select(contexts, *policy.draw(np.random.default_rng(1), 3))
    (1, 2)
    >>> policy.update(contexts[1] - contexts[2], first_won=True)
    >>> policy.theta
    array([-0.25, -0.25])
    """

    _: KW_ONLY
    perturbation: ComparisonModel | None = None  # its G is the law of the noise; None: the comparison's own
    clip: float | None = None  # C_thresh; None: c1; inf: no clipping
    coupling: float | str | None = None  # p_t; None: the experiments'; "theorem": Theorem 3.2's with c2 = c1
    allow_self_duel: bool = True  # False leaves the first arm out of line 15

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.coupling, str) and self.coupling != "theorem":
            raise ValueError(f'coupling is {self.coupling!r}; it must be None, a number or "theorem"')

    def draw(self, rng: np.random.Generator, n_arms: int) -> tuple[Floats, Floats]:
        """Draw what one round consumes, always as much and in this order: two uniforms, n raw variates."""
        return rng.random(2), self._perturbation().raw(rng, n_arms)

    def coupling_probability(self) -> float:
        """Return p_t of the current round, which is one past the exploration."""
        if self.exploration_end is None:
            raise ValueError(f"round {self.round} is exploration; p_t is defined after it")
        if self.coupling is None:  # section 4: d / sqrt(t - tau) * log(d T)
            p = self.n_features * math.log(self.n_features * self._horizon())
        elif self.coupling == "theorem":  # Theorem 3.2 with c2 = c1
            c1 = c2 = self.confidence_scale()
            # the logarithm is negative for T < d/2, where the theorem says nothing: p_t = 0 there
            log_term = max(0.0, math.log(2.0 * self._horizon() / self.n_features))
            p = math.sqrt(2.0 * self.n_features) / 2.0 * (3.0 * c1 + c2) * math.sqrt(log_term)
        else:
            return float(self.coupling)
        return min(1.0, p / math.sqrt(self.round - self.exploration_end))

    def _choose(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        key = tie_key(uniforms[1])
        first = self._first(contexts, self._noise(uniforms, raw), key)
        return first, self._second(contexts, first, word(key))

    def _perturbation(self) -> ComparisonModel:
        return self.comparison if self.perturbation is None else self.perturbation

    def _noise(self, uniforms: Floats, raw: Floats) -> Floats:
        independent = uniforms[0] < self.coupling_probability()  # line 7: B_t
        if independent:
            noise = self._perturbation().perturb(raw)  # line 9
        else:
            noise = self._perturbation().perturb(np.full(len(raw), raw[0]))  # line 11
        threshold = self.confidence_scale() if self.clip is None else self.clip
        return np.minimum(threshold, np.maximum(-threshold, noise))  # line 13

    def _first(self, contexts: Floats, noise: Floats, key: int) -> int:
        return first_of_equals(self.utilities(contexts) + noise * self.widths(contexts), key)  # line 14

    def _second(self, contexts: Floats, first: int, key: int) -> int:
        utilities = self.utilities(contexts)
        distances = norms(contexts - contexts[first], self.width_inverse())
        optimism = utilities - utilities[first] + self.confidence_scale() * distances
        if not self.allow_self_duel:
            optimism[first] = -math.inf  # still the largest where it is the only arm
        return first_of_equals(optimism, key)  # line 15


@dataclass(eq=False)
class MaxInP(LinearPolicy):
    """Maximum-Informative-Pair (Saha, 2021): the farthest pair of the arms that may still be the best.

    A single candidate duels with itself or, where it may not, with its toughest rival.

    Examples
    --------
    >>> from fastcolst.reference import BradleyTerry, MaxInP
    >>> policy = MaxInP(1, comparison=BradleyTerry(), n_arms=3, ridge=1.0, exploration_rounds=0, width_scale=0.5)
    >>> contexts = np.array([[1.0], [0.0], [2.0]])
    >>> policy.select(contexts, *policy.draw(np.random.default_rng(1), 3))
    (1, 2)
    >>> policy.theta = np.array([0.6])  # the utilities are further apart than half the distances
    >>> policy.select(contexts, *policy.draw(np.random.default_rng(1), 3))
    (2, 2)
    """

    _: KW_ONLY
    allow_self_duel: bool = True

    def _choose(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        utilities, distances = self.utilities(contexts), pair_distances(contexts, self.width_inverse())
        candidates = np.flatnonzero(undominated(utilities, distances, self.confidence_scale()))
        order = random_order(tie_key(uniforms[1]), len(contexts))
        if len(candidates) == 1:
            first = second = int(candidates[0])
            if not self.allow_self_duel:
                optimism = utilities - utilities[first] + self.confidence_scale() * distances[first]
                optimism[first] = -math.inf  # still the largest where it is the only arm
                second = first_of_equals(optimism, tie_key(uniforms[1]))
            return min(first, second), max(first, second)
        pairs = [(int(i), int(j)) for i in candidates for j in candidates if i < j]
        pair = first_of_the_largest(pairs, np.array([distances[pair] for pair in pairs]), 0.0, order)
        return in_order(pair, utilities, distances, order)


@dataclass(eq=False)
class MaxPairUCB(LinearPolicy):
    """The pair of highest optimistic utility, x_i.theta + x_j.theta + c |x_i - x_j|_{M^-1}; i = j may be allowed.

    Examples
    --------
    >>> from fastcolst.reference import BradleyTerry, MaxPairUCB
    >>> policy = MaxPairUCB(1, comparison=BradleyTerry(), n_arms=3, ridge=1.0, exploration_rounds=0, width_scale=0.5)
    >>> contexts = np.array([[1.0], [0.0], [2.0]])
    >>> policy.select(contexts, *policy.draw(np.random.default_rng(1), 3))
    (1, 2)
    >>> policy.theta = np.array([0.6])
    >>> policy.select(contexts, *policy.draw(np.random.default_rng(1), 3))
    (2, 2)
    """

    _: KW_ONLY
    allow_self_duel: bool = True

    def _choose(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        utilities, n = self.utilities(contexts), len(contexts)
        distances = pair_distances(contexts, self.width_inverse())
        with_itself = self.allow_self_duel or n == 1
        pairs = [(i, j) for i in range(n) for j in range(i if with_itself else i + 1, n)]
        values = [utilities[i] + utilities[j] + self.confidence_scale() * distances[i, j] for i, j in pairs]
        order = random_order(tie_key(uniforms[1]), len(contexts))
        pair = first_of_the_largest(pairs, np.array(values), 2.0 * float(np.max(np.abs(utilities))), order)
        return in_order(pair, utilities, distances, order)
