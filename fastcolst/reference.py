"""CoLSTIM and its rivals in plain NumPy, to be read beside the paper's Algorithm 1.

Bengs, Saha and Huellermeier (2022), "Stochastic Contextual Dueling Bandits under Linear Stochastic
Transitivity Models". In round t the learner sees one context vector per arm, the rows of `contexts`, and
picks

    first  = argmax_i  x_i.theta + eps_i |x_i|_{M^-1}                           (line 14)
    second = argmax_i  (x_i - x_first).theta + c1 |x_i - x_first|_{M^-1}        (line 15)

with M the Gram matrix of the contrasts seen so far and eps_i clipped noise. Everything here is slow and
obvious on purpose: inverses are formed anew whenever they are needed. The module imports nothing of this
package, so that it is independent evidence for the compiled code, and it consumes the same random numbers in
the same order (`draw`), so that the two can be compared duel by duel.
"""

from __future__ import annotations

import abc
import math
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfc, erfcx, expit, log_expit

if TYPE_CHECKING:
    from collections.abc import Callable

Floats = NDArray[np.float64]

PIVOT_TOLERANCE = 1e-12  # times d: smallest pivot, of the unit-diagonal M, that counts as invertible


class ComparisonModel(abc.ABC):
    """What the three models share: G, and the law F of the difference of two independent draws of G."""

    @abc.abstractmethod
    def cdf(self, u: ArrayLike) -> Floats:
        """Return F(u), the probability that the arm whose utility is higher by u wins."""

    @abc.abstractmethod
    def log_cdf(self, u: ArrayLike) -> Floats:
        """Return log F(u)."""

    @abc.abstractmethod
    def score(self, u: ArrayLike) -> Floats:
        """Return f(u) / F(u), the derivative of log F."""

    def pdf(self, u: ArrayLike) -> Floats:
        """Return f(u) = F'(u)."""
        return self.cdf(u) * self.score(u)

    def weight(self, u: ArrayLike) -> Floats:
        """Return f(u)^2 / (F(u) (1 - F(u))), the Fisher information of one comparison."""
        # F is symmetric, so 1 - F(u) = F(-u) and f(u) = f(-u): no subtraction from 1 is needed
        return self.score(u) * self.score(-_floats(u))

    def raw(self, rng: np.random.Generator, n: int) -> Floats:
        """Return n standard variates (exponential unless a model says otherwise) for `perturb`."""
        return rng.standard_exponential(n)

    @abc.abstractmethod
    def perturb(self, raw: ArrayLike) -> Floats:
        """Turn raw variates into draws of G, one for one."""


@dataclass(frozen=True)
class BradleyTerry(ComparisonModel):
    """Bradley-Terry-Luce: G is Gumbel(0, scale), F(u) = 1 / (1 + exp(-u/scale)).

    >>> float(BradleyTerry(scale=2.0).cdf(0.0))
    0.5
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("scale", self.scale)

    def cdf(self, u: ArrayLike) -> Floats:
        """Return 1 / (1 + exp(-u/scale))."""
        return _floats(expit(_floats(u) / self.scale))

    def log_cdf(self, u: ArrayLike) -> Floats:
        """Return -log(1 + exp(-u/scale))."""
        return _floats(log_expit(_floats(u) / self.scale))

    def score(self, u: ArrayLike) -> Floats:
        """Return F(-u) / scale, for f = F (1 - F) / scale."""
        return _floats(expit(-_floats(u) / self.scale) / self.scale)

    def perturb(self, raw: ArrayLike) -> Floats:
        """Return -scale log(E), Gumbel for a standard exponential E."""
        return -self.scale * np.log(_floats(raw))


@dataclass(frozen=True)
class Thurstone(ComparisonModel):
    """Thurstone-Mosteller: G is N(0, sigma^2), F(u) = Phi(u / (sigma sqrt 2)).

    Written in w = u / (2 sigma), where F = erfc(-w) / 2 and f = exp(-w^2) / (2 sigma sqrt pi). The scaled
    erfcx(x) = exp(x^2) erfc(x) carries the lower tail, in which erfc underflows.

    >>> float(Thurstone(sigma=2.0).cdf(0.0))
    0.5
    """

    sigma: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("sigma", self.sigma)

    def cdf(self, u: ArrayLike) -> Floats:
        """Return erfc(-w) / 2."""
        return _floats(erfc(-self._w(u)) / 2.0)

    def log_cdf(self, u: ArrayLike) -> Floats:
        """Return log F(u), about -w^2 far in the lower tail."""
        w = self._w(u)
        size = np.abs(w)
        return _floats(np.where(w < 0.0, np.log(erfcx(size) / 2.0) - w**2, np.log1p(-erfc(size) / 2.0)))

    def score(self, u: ArrayLike) -> Floats:
        """Return f(u) / F(u), about -w / sigma far in the lower tail."""
        w = self._w(u)
        size = np.abs(w)
        ratio = np.where(w < 0.0, 1.0 / erfcx(size), np.exp(-(w**2)) / erfc(-size))
        return _floats(ratio / (self.sigma * math.sqrt(math.pi)))

    def raw(self, rng: np.random.Generator, n: int) -> Floats:
        """Return n standard normals."""
        return rng.standard_normal(n)

    def perturb(self, raw: ArrayLike) -> Floats:
        """Return sigma N."""
        return self.sigma * _floats(raw)

    def _w(self, u: ArrayLike) -> Floats:
        return _floats(u) / (2.0 * self.sigma)


@dataclass(frozen=True)
class ExponentialNoise(ComparisonModel):
    """Exponential noise: G is Exp(rate), F is Laplace(0, 1/rate), 1/2 + sgn(u)/2 (1 - exp(-rate |u|)).

    The paper prints |u| / lambda, which is right only for rate 1.

    >>> float(ExponentialNoise(rate=2.0).cdf(0.0))
    0.5
    """

    rate: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("rate", self.rate)

    def cdf(self, u: ArrayLike) -> Floats:
        """Return exp(-rate |u|) / 2 for u < 0 and 1 minus that otherwise."""
        tail = self._tail(u)
        return np.where(_floats(u) < 0.0, tail, 1.0 - tail)

    def log_cdf(self, u: ArrayLike) -> Floats:
        """Return log F(u), a straight line for u < 0."""
        return np.where(_floats(u) < 0.0, self.rate * _floats(u) - math.log(2.0), np.log1p(-self._tail(u)))

    def score(self, u: ArrayLike) -> Floats:
        """Return f(u) / F(u), the constant rate for u < 0."""
        tail = self._tail(u)
        return self.rate * np.where(_floats(u) < 0.0, 1.0, tail / (1.0 - tail))  # f = rate * tail

    def perturb(self, raw: ArrayLike) -> Floats:
        """Return E / rate."""
        return _floats(raw) / self.rate

    def _tail(self, u: ArrayLike) -> Floats:
        return np.exp(-self.rate * np.abs(_floats(u))) / 2.0  # F(-|u|)


@dataclass(eq=False)
class LinearPolicy(abc.ABC):
    """What the algorithms with a linear model share: exploration, theta by stochastic gradients, the Gram matrix.

    The parameters are the first block of fields below, each with its symbol in the paper. `theta` (d,) starts
    at 0; `gram` (d, d) is M, the ridge included; `round` counts selections; `exploration_end` is the value of
    `round` when the exploration ended, None while it lasts. Lines are those of Algorithm 1.
    """

    n_features: int  # d
    _: KW_ONLY
    comparison: ComparisonModel  # F, the model theta is learned with
    n_arms: int  # n, for the default tau only
    horizon: int | None = None  # T; None: the current round stands in
    ridge: float = 0.0  # M starts as ridge * I; 0 in the paper
    exploration_rounds: int | None = None  # tau; None: d * n
    width_scale: float | None = None  # c1, eta or c; None: sqrt(d log T)
    learning_rate: float = 0.5  # step t of theta has the rate learning_rate * t^-decay
    decay: float = 0.0
    radius: float | None = None  # theta is projected onto |theta| <= radius
    score: str = "likelihood"  # gradient of the log-likelihood; "residual": (Y - F) z, equation (10)

    theta: Floats = field(init=False)
    gram: Floats = field(init=False)
    round: int = field(init=False, default=0)
    exploration_end: int | None = field(init=False, default=None)
    _n_logged: int = field(init=False, default=0)  # comparisons from learn(): they count towards tau
    _n_steps: int = field(init=False, default=0)  # comparisons theta has learned from

    def __post_init__(self) -> None:
        if self.score not in ("likelihood", "residual"):
            raise ValueError(f'score is {self.score!r}; it must be "likelihood" or "residual"')
        self.theta = np.zeros(self.n_features)
        self.gram = self.ridge * np.eye(self.n_features)

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

    def update(self, contrast: Floats, first_won: bool) -> None:
        """Learn one comparison; contrast (d,) is x_first - x_second. A zero contrast changes nothing."""
        if not np.any(contrast):
            return
        self._n_steps += 1
        margin = float(contrast @ self.theta)
        rate = self.learning_rate * self._n_steps**-self.decay
        # section 3.2.3: a gradient step stands for line 6
        self.theta = self.theta + rate * self._slope(margin, first_won) * contrast
        norm = float(np.linalg.norm(self.theta))
        if self.radius is not None and norm > self.radius:
            self.theta = self.theta * (self.radius / norm)
        self.gram = self.gram + np.outer(contrast, contrast)  # lines 3 and 17

    def learn(self, contrasts: Floats, wins: ArrayLike) -> None:
        """Learn finished comparisons, contrasts (m, d) and wins (m,), which count towards the exploration."""
        for contrast, first_won in zip(contrasts, np.asarray(wins), strict=True):
            self.update(contrast, bool(first_won))
            self._n_logged += 1

    def utilities(self, contexts: Floats) -> Floats:
        """Return x_i.theta, (n,)."""
        return _row_products(contexts, self.theta)

    def widths(self, contexts: Floats) -> Floats:
        """Return |x_i|_{M^-1}, (n,); inf as long as M cannot be inverted."""
        if self.exploration_end is None and self.ridge == 0.0 and not invertible(self.gram):
            return np.full(len(contexts), math.inf)
        return norms(contexts, inverse(self.gram))

    def confidence_scale(self) -> float:
        """Return c1 (eta of MaxInP, c of MaxPairUCB) of the current round."""
        if self.width_scale is not None:
            return self.width_scale
        return math.sqrt(self.n_features * math.log(self._horizon()))

    def _may_stop_exploring(self) -> bool:
        tau = self.n_features * self.n_arms if self.exploration_rounds is None else self.exploration_rounds
        return self.round + self._n_logged >= tau and (self.ridge > 0.0 or invertible(self.gram))

    def _horizon(self) -> int:
        return self.round if self.horizon is None else self.horizon

    def _slope(self, margin: float, first_won: bool) -> float:
        """Return the factor of z in a step: d/dm log P(Y) at m = z.theta, or the residual Y - F(m)."""
        if self.score == "residual":
            return float(first_won) - float(self.comparison.cdf(margin))
        sign = 1.0 if first_won else -1.0  # P(Y) = F(sign * m)
        return sign * float(self.comparison.score(sign * margin))


@dataclass(eq=False)
class CoLSTIM(LinearPolicy):
    """Algorithm 1 with the stochastic gradient estimator, one NumPy line per line of the paper.

    Examples
    --------
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
        first = self._first(contexts, self._noise(uniforms, raw))
        return first, self._second(contexts, first)

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

    def _first(self, contexts: Floats, noise: Floats) -> int:
        return int(np.argmax(self.utilities(contexts) + noise * self.widths(contexts)))  # line 14

    def _second(self, contexts: Floats, first: int) -> int:
        utilities = self.utilities(contexts)
        distances = norms(contexts - contexts[first], inverse(self.gram))
        optimism = utilities - utilities[first] + self.confidence_scale() * distances
        if not self.allow_self_duel:
            optimism[first] = -math.inf  # argmax still returns it where it is the only arm
        return int(np.argmax(optimism))  # line 15


@dataclass(eq=False)
class MaxInP(LinearPolicy):
    """Maximum-Informative-Pair (Saha, 2021): the farthest pair of the arms that may still be the best.

    Examples
    --------
    >>> policy = MaxInP(1, comparison=BradleyTerry(), n_arms=3, ridge=1.0, exploration_rounds=0, width_scale=0.5)
    >>> contexts = np.array([[1.0], [0.0], [2.0]])
    >>> policy.select(contexts, *policy.draw(np.random.default_rng(1), 3))
    (1, 2)
    >>> policy.theta = np.array([0.6])  # the utilities are further apart than half the distances
    >>> policy.select(contexts, *policy.draw(np.random.default_rng(1), 3))
    (2, 2)
    """

    def _choose(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        distances = pair_distances(contexts, inverse(self.gram))
        candidates = np.flatnonzero(undominated(self.utilities(contexts), distances, self.confidence_scale()))
        if len(candidates) == 1:
            return int(candidates[0]), int(candidates[0])
        pairs = [(int(i), int(j)) for i in candidates for j in candidates if i < j]
        return first_of_the_largest(pairs, np.array([distances[pair] for pair in pairs]), 0.0)


@dataclass(eq=False)
class MaxPairUCB(LinearPolicy):
    """The pair of highest optimistic utility, x_i.theta + x_j.theta + c |x_i - x_j|_{M^-1}; i = j is allowed.

    Examples
    --------
    >>> policy = MaxPairUCB(1, comparison=BradleyTerry(), n_arms=3, ridge=1.0, exploration_rounds=0, width_scale=0.5)
    >>> contexts = np.array([[1.0], [0.0], [2.0]])
    >>> policy.select(contexts, *policy.draw(np.random.default_rng(1), 3))
    (1, 2)
    >>> policy.theta = np.array([0.6])
    >>> policy.select(contexts, *policy.draw(np.random.default_rng(1), 3))
    (2, 2)
    """

    def _choose(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        utilities = self.utilities(contexts)
        distances = pair_distances(contexts, inverse(self.gram))
        pairs = [(i, j) for i in range(len(contexts)) for j in range(i, len(contexts))]
        values = [utilities[i] + utilities[j] + self.confidence_scale() * distances[i, j] for i, j in pairs]
        return first_of_the_largest(pairs, np.array(values), 2.0 * float(np.max(np.abs(utilities))))


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

    def update(self, contrast: Floats, first_won: bool) -> None:
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
        second = int(np.argmax(np.where(uncertain, raw[1][:, first], -math.inf)))
        self._duel = first, second
        return first, second

    def update(self, contrast: Floats, first_won: bool) -> None:
        """Learn the answer to the latest duel."""
        first, second = self._duel
        self.wins[(first, second) if first_won else (second, first)] += 1.0


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
        self._duel = int(np.argmax(raw[0])), int(np.argmax(raw[1]))
        return self._duel

    def update(self, contrast: Floats, first_won: bool) -> None:
        """Learn the answer to the latest duel."""
        first, second = self._duel
        winner, loser = (first, second) if first_won else (second, first)
        self.wins[winner] += 1.0
        self.losses[loser] += 1.0


def simulate(
    policy: LinearPolicy | UniformPairs | DoubleThompson | SelfSparring,
    contexts_source: Callable[[int], Floats],
    theta: Floats,
    model: ComparisonModel,
    horizon: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Play rounds t = 1 ... horizon on a problem with the true parameter theta and the true model.

    A round takes from rng what `policy.draw` takes, then two perturbations of the true model, also where the
    duel is a self-duel, whose answer nobody learns from.

    Returns
    -------
    average, weak : (horizon,) float64
        Cumulative regret.
    duels : (horizon, 2) int64

    Examples
    --------
    >>> contexts = np.array([[1.0], [0.0]])
    >>> rng = np.random.default_rng(1)
    >>> average, weak, _ = simulate(UniformPairs(2), lambda t: contexts, np.ones(1), BradleyTerry(), 3, rng)
    >>> average, weak
    (array([0.5, 1. , 1.5]), array([0., 0., 0.]))
    """
    regrets = np.zeros((horizon, 2))
    duels = np.zeros((horizon, 2), dtype=np.int64)
    for t in range(1, horizon + 1):
        contexts = contexts_source(t)  # line 5
        utilities = _row_products(contexts, theta)
        first, second = policy.select(contexts, *policy.draw(rng, len(contexts)))
        noise = model.perturb(model.raw(rng, 2))
        first_won = bool(utilities[first] - utilities[second] + noise[0] - noise[1] > 0.0)  # line 16
        if first != second:
            policy.update(contexts[first] - contexts[second], first_won)
        regrets[t - 1] = regret(utilities, first, second)
        duels[t - 1] = first, second
    average, weak = np.cumsum(regrets, axis=0).T
    return average, weak, duels


def regret(utilities: Floats, first: int, second: int) -> tuple[float, float]:
    """Return one round's average and weak regret, the paper's r^a and r^w.

    Examples
    --------
    >>> regret(np.array([3.0, 1.0, 2.0]), 1, 2)
    (1.5, 1.0)
    """
    best, a, b = float(np.max(utilities)), float(utilities[first]), float(utilities[second])
    return (2.0 * best - a - b) / 2.0, best - max(a, b)


def distinct_pair(n_arms: int, uniforms: Floats) -> tuple[int, int]:
    """Map two uniforms to a uniformly random ordered pair of distinct arms; one arm alone gives (0, 0)."""
    if n_arms == 1:
        return 0, 0
    first = int(uniforms[0] * n_arms)
    second = int(uniforms[1] * (n_arms - 1))
    return first, second + (second >= first)


def undominated(utilities: Floats, distances: Floats, eta: float) -> NDArray[np.bool_]:
    """Return MaxInP's C_t as a mask, (n,): u_i - u_j + eta |x_i - x_j| > 0 for all j that are not i's equal.

    Equals are arms of equal utility: equal contexts, which must not strike each other out, and for eta > 0 no
    others would. For eta = 0 the formula strikes out every arm that ties with another, and might leave none.

    Examples
    --------
    >>> undominated(np.array([1.0, 0.0, 1.0]), np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), 0.9)
    array([ True, False,  True])
    """
    mask = np.ones(len(utilities), dtype=bool)
    for i, own in enumerate(utilities):
        holds = own - utilities + eta * distances[i] > 0.0
        mask[i] = np.all(holds | (utilities == own))
    return mask


def pair_distances(contexts: Floats, gram_inv: Floats) -> Floats:
    """Return |x_i - x_j|_{M^-1} of all pairs, (n, n)."""
    return np.array([norms(contexts - x, gram_inv) for x in contexts])


def first_of_the_largest(pairs: list[tuple[int, int]], values: Floats, size: float) -> tuple[int, int]:
    """Return the first pair whose value equals the largest one up to rounding, which is 5e-13 of the terms' size.

    >>> first_of_the_largest([(0, 1), (0, 2), (1, 2)], np.array([0.1, 0.3, 0.1 + 0.2]), 0.0)
    (0, 2)
    """
    largest = float(np.max(values))
    return pairs[int(np.argmax(values >= largest - 5e-13 * (abs(largest) + size)))]


def invertible(gram: Floats) -> bool:
    """Tell whether every pivot of the unit-diagonal-scaled matrix exceeds 1e-12 d."""
    d = len(gram)
    if np.any(np.diag(gram) <= 0.0):
        return False
    scale = np.sqrt(np.diag(gram))
    schur = gram / np.outer(scale, scale)
    for k in range(d):  # schur[k, k] is the square of the Cholesky factor's k-th diagonal entry
        if not schur[k, k] > PIVOT_TOLERANCE * d:
            return False
        schur = schur - np.outer(schur[:, k], schur[k, :]) / schur[k, k]
    return True


def inverse(gram: Floats) -> Floats:
    """Return M^-1 = D^-1 (D^-1 M D^-1)^-1 D^-1 with D^2 = diag M: the features' units do not matter."""
    scale = np.sqrt(np.diag(gram))
    return _floats(np.linalg.inv(gram / np.outer(scale, scale)) / np.outer(scale, scale))


def norms(rows: Floats, gram_inv: Floats) -> Floats:
    """Return |x|_{M^-1} of every row, (n,); FloatingPointError if rounding made a square negative."""
    products = np.einsum("ij,jk->ik", rows, gram_inv)
    with np.errstate(invalid="raise"):
        return _floats(np.sqrt(np.einsum("ij,ij->i", products, rows)))


def _row_products(rows: Floats, vector: Floats) -> Floats:
    # not rows @ vector: BLAS rounds equal rows differently (seen at 50 x 10), and equal arms must tie exactly
    return _floats(np.einsum("ij,j->i", rows, vector))


def _floats(u: ArrayLike) -> Floats:
    return np.asarray(u, dtype=np.float64)


def _check_positive(name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} is {value}; it must be positive and finite")
