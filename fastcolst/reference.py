"""CoLSTIM, its rivals and their estimate of theta in plain NumPy, to be read beside the paper's Algorithm 1.

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
import copy
import math
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr
from scipy.optimize import brentq, linprog
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

    @abc.abstractmethod
    def log_pdf_slope(self, u: ArrayLike) -> Floats:
        """Return f'(u) / f(u), the derivative of log f."""

    def pdf(self, u: ArrayLike) -> Floats:
        """Return f(u) = F'(u)."""
        return self.cdf(u) * self.score(u)

    def curvature(self, u: ArrayLike) -> Floats:
        """Return -(log F)''(u) = (f/F)^2 - f'/F, the observed information of a win at margin u."""
        return self.score(u) * (self.score(u) - self.log_pdf_slope(u))

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

    def log_pdf_slope(self, u: ArrayLike) -> Floats:
        """Return (1 - 2F) / scale."""
        return _floats(np.tanh(-_floats(u) / (2.0 * self.scale)) / self.scale)

    def curvature(self, u: ArrayLike) -> Floats:
        """Return f / scale, the same for a win and a loss."""
        return self.pdf(u) / self.scale

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

    def log_pdf_slope(self, u: ArrayLike) -> Floats:
        """Return -w / sigma."""
        return -self._w(u) / self.sigma

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

    def log_pdf_slope(self, u: ArrayLike) -> Floats:
        """Return -sgn(u) rate, at the kink u = 0 the slope to its right."""
        return np.where(_floats(u) < 0.0, self.rate, -self.rate)

    def perturb(self, raw: ArrayLike) -> Floats:
        """Return E / rate."""
        return _floats(raw) / self.rate

    def _tail(self, u: ArrayLike) -> Floats:
        return np.exp(-self.rate * np.abs(_floats(u))) / 2.0  # F(-|u|)


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
    ridge: float = 0.0  # M starts as ridge * I; 0 in the paper
    exploration_rounds: int | None = None  # tau; None: d * n
    width_scale: float | None = None  # c1, eta or c; None: sqrt(d log T)
    estimator: MLE | OnlineNewton | None = None  # how theta is learned; None: by gradient steps with the four below
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
        learn = self._step if self.estimator is None else self.estimator.learn
        self.theta = learn(contrast, first_won)
        self.gram = self.gram + np.outer(contrast, contrast)  # lines 3 and 17

    def _step(self, contrast: Floats, first_won: bool) -> Floats:
        """Return theta after one comparison more, by a step of stochastic gradient ascent."""
        self._n_steps += 1
        margin = float(contrast @ self.theta)
        rate = self.learning_rate * self._n_steps**-self.decay
        # section 3.2.3: a gradient step stands for line 6
        theta = self.theta + rate * self._slope(margin, first_won) * contrast
        norm = float(np.linalg.norm(theta))
        return _floats(theta if self.radius is None or norm <= self.radius else theta * (self.radius / norm))

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
    """Algorithm 1, one NumPy line per line of the paper.

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
        self.ends.setdefault(self.round, (0, "exploration"))
        return pair

    def update(self, contrast: Floats, first_won: bool, asked_in: int | None = None) -> None:
        """Learn the answer to the duel of a round, by default the latest, where that round counts."""
        stage, reason = self.ends[self.round if asked_in is None else asked_in]
        if reason == "exploration":
            self._teach(self.stages, contrast, first_won)  # line 3
        elif reason == "width":
            self._teach([self.stages[stage - 1]], contrast, first_won)  # line 20

    def learn(self, contrasts: Floats, wins: ArrayLike) -> None:
        """Learn finished comparisons, contrasts (m, d) and wins (m,), in every stage; they count towards tau."""
        for contrast, first_won in zip(contrasts, np.asarray(wins), strict=True):
            self._teach(self.stages, contrast, bool(first_won))
            self._n_logged += 1

    def _teach(self, stages: list[LinearPolicy], contrast: Floats, first_won: bool) -> None:
        for stage in stages:
            LinearPolicy.update(stage, contrast, first_won)  # lines 8 and 9
        self.theta, self.gram = self.stages[0].theta, self.stages[0].gram

    def _choose(self, contexts: Floats, uniforms: Floats, raw: Floats) -> tuple[int, int]:
        finest = 1.0 / math.sqrt(self._horizon())
        arms = list(range(len(contexts)))  # line 6
        for s, stage in enumerate(self.stages, start=1):
            utilities = stage.utilities(contexts)
            gram_inv = inverse(stage.gram)
            w = self.confidence_scale() * pair_distances(contexts, gram_inv)  # line 10
            pairs = [(i, j) for i in arms for j in arms if i != j]
            if all(w[pair] <= finest for pair in pairs):  # line 11
                self.ends[self.round] = s, "confident"
                noise = self._clipped_noise(uniforms, raw) * norms(contexts, gram_inv)  # line 12
                return self._confident(arms, utilities, noise, w)
            wide = [pair for pair in pairs if w[pair] > 2.0**-s]
            if wide:
                self.ends[self.round] = s, "width"  # line 20
                return self._uncertain(wide, w, uniforms)
            best = max(utilities[j] for j in arms)
            arms = [i for i in arms if utilities[i] + 2.0**-s >= best]  # line 17
        raise AssertionError("2^-S < 1/sqrt(T): no round leaves the last stage")

    def _clipped_noise(self, uniforms: Floats, raw: Floats) -> Floats | float:
        return 0.0

    @abc.abstractmethod
    def _confident(self, arms: list[int], utilities: Floats, noise: Floats, w: Floats) -> tuple[int, int]:
        """Choose among the surviving arms when all of their differences are known well."""

    @abc.abstractmethod
    def _uncertain(self, wide: list[tuple[int, int]], w: Floats, uniforms: Floats) -> tuple[int, int]:
        """Choose among the ordered pairs of survivors that are too wide."""


@dataclass(eq=False)
class SupCoLSTIM(StagewisePolicy, CoLSTIM):
    """Algorithm 2. Line 15 is printed with w_{i_t,j} for an undefined j; the index of the maximum is meant.

    Examples
    --------
    >>> policy = SupCoLSTIM(1, comparison=BradleyTerry(), n_arms=3, horizon=100, ridge=1.0, exploration_rounds=0)
    >>> contexts = np.array([[1.0], [0.0], [2.0]])
    >>> policy.select(contexts, *policy.draw(np.random.default_rng(1), 3)), policy.ends
    ((1, 2), {1: (1, 'width')})
    """

    def _clipped_noise(self, uniforms: Floats, raw: Floats) -> Floats | float:
        return self._noise(uniforms, raw)

    def _confident(self, arms: list[int], utilities: Floats, noise: Floats, w: Floats) -> tuple[int, int]:
        first = arms[int(np.argmax((utilities + noise)[arms]))]  # line 14
        rivals = arms
        if not self.allow_self_duel and len(utilities) > 1:
            rivals = [i for i in arms if i != first] or [i for i in range(len(utilities)) if i != first]
        return first, rivals[int(np.argmax((utilities - utilities[first] + w[first])[rivals]))]  # line 15

    def _uncertain(self, wide: list[tuple[int, int]], w: Floats, uniforms: Floats) -> tuple[int, int]:
        return wide[int(uniforms[0] * len(wide))]  # line 21


@dataclass(eq=False)
class StaD(StagewisePolicy):
    """Sta'D (Saha, 2021): the widest pair until all are known well, then the two survivors of highest utility.

    Examples
    --------
    >>> policy = StaD(1, comparison=BradleyTerry(), n_arms=3, horizon=100, ridge=1.0, exploration_rounds=0)
    >>> contexts = np.array([[1.0], [0.0], [2.0]])
    >>> policy.select(contexts, *policy.draw(np.random.default_rng(1), 3)), policy.ends
    ((1, 2), {1: (1, 'width')})
    """

    def _confident(self, arms: list[int], utilities: Floats, noise: Floats, w: Floats) -> tuple[int, int]:
        order = sorted(arms, key=lambda i: -utilities[i])  # stable
        return (order[0], order[1]) if len(order) > 1 else (order[0], order[0])

    def _uncertain(self, wide: list[tuple[int, int]], w: Floats, uniforms: Floats) -> tuple[int, int]:
        return first_of_the_largest(wide, np.array([w[pair] for pair in wide]), 0.0)


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


# --- the estimate of theta ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Estimate:
    """What `fit` found. Standard errors and log-likelihood leave the ridge's prior out."""

    theta: Floats  # (d,); with infinite entries where no finite estimate exists
    information: Floats  # (d, d), the curvature of the loss at theta, ridge included
    covariance: Floats  # (d, d), of the estimate's sampling distribution; inf on the diagonal where not estimable
    log_likelihood: float
    status: str  # "interior", "boundary" of the ball, "separated": theta explains every answer, or has no finite value
    multiplier: float  # mu of the ball, 0 inside
    decrement: float  # |gradient| in standard errors: how far from exact

    @property
    def standard_errors(self) -> Floats:
        """Square roots of the covariance's diagonal, (d,)."""
        return _floats(np.sqrt(np.diag(self.covariance)))

    def distance(self, theta: Floats) -> float:
        """Return how far another estimate is from this one, in standard errors."""
        difference = theta - self.theta
        return math.sqrt(max(0.0, float(difference @ self.information @ difference)))


def fit(
    contrasts: ArrayLike,
    wins: ArrayLike,
    trials: ArrayLike | None = None,
    *,
    comparison: ComparisonModel,
    score: str = "likelihood",
    ridge: float = 0.0,
    radius: float | str | None = None,
) -> Estimate:
    """Minimise sum_k w_k psi(z_k.theta) + (n_k - w_k) psi(-z_k.theta) + ridge/2 |theta|^2 over a ball.

    psi' is -f/F (`score` "likelihood": psi = -log F) or -F(-u) ("residual", the root of the paper's equation (10)).

    Parameters
    ----------
    contrasts : (m, d)
        z_k = x_first - x_second.
    wins, trials : (m,)
        How often the first arm won, of how many comparisons; None: of one.
    radius : float, "auto" or None
        |theta| <= radius; "auto": sqrt(sum (max |z_k| theta_k)^2) <= 20; None: no bound.

    Notes
    -----
    Where several theta are equally good, because the contrasts do not span the space, the one with the smallest norm
    (that of the ball) is found.

    The answers are *separated* when some direction v has z~.v >= 0 for each signed contrast z~ (z where the first arm
    won, -z where it lost) and > 0 for one: then the loss falls for ever along v. A linear program decides that. Without
    a ball, coordinates that the other answers determine get the limit of their estimate, the others +-inf (nan where
    either sign would do). With a ball theta lies on its sphere, or at the point within from which on the loss is too
    flat for double precision.

    Examples
    --------
    >>> fit([[1.0]], [3.0], [4.0], comparison=BradleyTerry()).theta  # log(3)
    array([1.09861229])
    """
    Z, n = _floats(contrasts), np.ones(len(_floats(wins))) if trials is None else _floats(trials)
    observed = (n > 0.0) & np.any(Z != 0.0, axis=1)
    loss = _Loss(
        *(Z[observed], _floats(wins)[observed], n[observed]),
        model=comparison,
        score=score,
        ridge=ridge,
        scaled=radius == "auto",
    )
    bound = math.inf if radius is None else 20.0 if radius == "auto" else float(radius)

    beta, decrement = _minimise(loss, 0.0, np.zeros(loss.X.shape[1]))
    explained, direction = loss.separation(beta)
    if np.any(explained) and bound == math.inf:
        return _limit(loss, explained, direction)
    mu = 0.0
    if np.linalg.norm(beta) > bound or np.any(explained):
        mu, beta, decrement = _on_the_sphere(loss, bound)
    status = "boundary" if mu > 0.0 else "interior"
    if np.any(explained) and (mu == 0.0 or loss.explains_all(beta)):
        status = "separated"
    return loss.estimate(beta, status, mu, decrement)


class _Loss:
    """The loss as a function of beta, coordinates of D theta within the span of the contrasts; |beta| = |D theta|.

    D holds the scales of the ball's norm. With a ridge the minimum is unique without leaving directions out.
    """

    def __init__(
        self,
        Z: Floats,
        wins: Floats,
        trials: Floats,
        *,
        model: ComparisonModel,
        score: str,
        ridge: float,
        scaled: bool,
    ) -> None:
        if score not in ("likelihood", "residual"):
            raise ValueError(f'score is {score!r}; it must be "likelihood" or "residual"')
        self.Z, self.wins, self.losses, self.model, self.score, self.ridge = Z, wins, trials - wins, model, score, ridge
        self.D = _scales(Z) if scaled else np.ones(Z.shape[1])
        self.basis = np.eye(Z.shape[1]) if ridge > 0.0 else _span(Z, self.D)
        self.X = (Z / self.D) @ self.basis
        self.prior = ridge * (self.basis.T / self.D**2) @ self.basis

    def gradient(self, beta: Floats, mu: float) -> Floats:
        e = self.X @ beta
        return self.prior @ beta + mu * beta - (self.wins * self._pull(e) - self.losses * self._pull(-e)) @ self.X

    def hessian(self, beta: Floats, mu: float) -> Floats:
        weights = self._weights(self.X @ beta)
        return _floats((self.X.T * weights) @ self.X + self.prior + mu * np.eye(len(beta)))

    def separation(self, beta: Floats) -> tuple[NDArray[np.bool_], Floats]:
        """Tell which rows some v explains, contradicting no answer, and return one that explains them all."""
        e, won, lost = self.X @ beta, self.wins > 0.0, self.losses > 0.0
        pulls = np.concatenate([self._pull(e)[won], self._pull(-e)[lost]])
        if self.ridge > 0.0 or np.all(pulls > 1e-10):
            # with a ridge the minimum is finite; without one sum n s z~ = 0 at beta, so that all z~.v >= 0 means = 0
            return np.zeros(len(e), dtype=bool), np.zeros(self.Z.shape[1])
        rows = self.Z / _scales(self.Z)
        rows = rows / np.linalg.norm(rows, axis=1)[:, None]
        signed = np.concatenate([rows[won], -rows[lost]])
        owner = np.concatenate([np.flatnonzero(won), np.flatnonzero(lost)])
        # maximise sum t over z~.v >= t and 0 <= t <= 1; v may be very long, so that every t ends at 0 or 1
        m, d = signed.shape
        program = linprog(
            np.concatenate([np.zeros(d), -np.ones(m)]),
            A_ub=np.hstack([-signed, np.eye(m)]),
            b_ub=np.zeros(m),
            bounds=[(-1e6, 1e6)] * d + [(0.0, 1.0)] * m,
        )
        if program.status != 0:
            raise RuntimeError(f"the linear program that looks for separation failed: {program.message}")
        explained = np.zeros(len(e), dtype=bool)
        explained[owner[program.x[d:] > 0.5]] = True
        return explained, _floats(program.x[:d] / _scales(self.Z))

    def explains_all(self, beta: Floats) -> bool:
        """Tell whether every answer was the likelier one."""
        e = self.X @ beta
        return bool(np.all(e[self.wins > 0.0] > 0.0) and np.all(e[self.losses > 0.0] < 0.0))

    def estimate(self, beta: Floats, status: str, mu: float, decrement: float) -> Estimate:
        theta = self.basis @ beta / self.D
        e = self.Z @ theta
        return Estimate(
            theta=theta,
            information=(self.Z.T * self._weights(e)) @ self.Z + self.ridge * np.eye(len(theta)),
            covariance=self._covariance(e),
            log_likelihood=float(self.wins @ self.model.log_cdf(e) + self.losses @ self.model.log_cdf(-e)),
            status=status if decrement < 1e-7 else "not-converged",
            multiplier=mu,
            decrement=decrement,
        )

    def _covariance(self, e: Floats) -> Floats:
        """A^-1 B A^-1: A the expected curvature with the ridge, B the variance of the score, both under the model."""
        n, f = self.wins + self.losses, self.model.pdf(e)
        curvature, variance = n * f, n * self.model.cdf(e) * self.model.cdf(-e)
        if self.score == "likelihood":
            curvature = variance = n * self.model.weight(e)
        D = _scales(self.Z)
        basis = np.eye(len(D)) if self.ridge > 0.0 else _span(self.Z, D)
        X = (self.Z / D) @ basis
        A = (X.T * curvature) @ X + self.ridge * (basis.T / D**2) @ basis
        if not invertible(A):  # so far out that no answer is uncertain
            return np.diag(np.full(len(D), math.inf))
        A_inv = inverse(A)
        covariance = basis @ A_inv @ ((X.T * variance) @ X) @ A_inv @ basis.T / np.outer(D, D)
        loose = ~_determined(basis)
        covariance[loose, loose] = math.inf
        return _floats(covariance)

    def _pull(self, e: Floats) -> Floats:
        """Return -psi'(e)."""
        return pull(self.model, self.score, e)

    def _weights(self, e: Floats) -> Floats:
        """Return each row's psi''."""
        if self.score == "likelihood":
            return self.wins * self.model.curvature(e) + self.losses * self.model.curvature(-e)
        return (self.wins + self.losses) * self.model.pdf(e)


def _minimise(loss: _Loss, mu: float, beta: Floats) -> tuple[Floats, float]:
    """Minimise loss + mu/2 |beta|^2 by Newton steps with an exact line search; return the decrement as well."""
    best, smallest, stalled = beta, math.inf, 0
    for _ in range(1000):
        gradient = loss.gradient(beta, mu)
        step = -_solve(loss.hessian(beta, mu), gradient)
        decrement = math.sqrt(max(0.0, -float(step @ gradient)))
        stalled = 0 if decrement < 0.9 * smallest else stalled + 1
        if decrement < smallest:
            best, smallest = beta, decrement
        # with mu, the distance from the minimum is at most decrement / sqrt(mu)
        enough = 1e-14 * (math.sqrt(mu) * float(np.linalg.norm(beta)) if mu > 0.0 else 1.0)
        if decrement <= enough or stalled == 10:  # rounding errors are all that is left
            break
        beta = beta + _length(loss, mu, beta, step) * step
    return best, smallest


def _length(loss: _Loss, mu: float, beta: Floats, step: Floats) -> float:
    """Find how far to go along a direction of descent, by the slope there, which grows with the length."""

    def slope(length: float) -> float:
        return float(loss.gradient(beta + length * step, mu) @ step)

    start, length = slope(0.0), 1.0
    while slope(length) < 0.9 * start and length < 2.0**60:
        length *= 2.0
    if slope(length) <= 0.0 or start >= 0.0:
        return length
    return float(brentq(slope, 0.0, length, xtol=1e-13))


def _on_the_sphere(loss: _Loss, radius: float) -> tuple[float, Floats, float]:
    """Find the multiplier mu > 0 for which the minimum of loss + mu/2 |beta|^2 has the length of the radius."""
    beta = np.zeros(loss.X.shape[1])

    def excess(log_mu: float) -> float:
        nonlocal beta
        beta, _ = _minimise(loss, math.exp(log_mu), beta)
        return math.log(float(np.linalg.norm(beta)) / radius)

    # loss + mu/2 |beta|^2 is strongly convex, so that |beta(mu)| <= |gradient(0)| / mu, and |beta(mu)| falls with mu
    high = math.log(float(np.linalg.norm(loss.gradient(beta, 0.0))) / radius)
    low = high - 1.0
    while excess(low) < 0.0:
        low -= 2.0 * (high - low)
        if low < -700.0:  # exp(low) underflows
            return 0.0, *_minimise(loss, 0.0, beta)
    mu = math.exp(brentq(excess, low, high, xtol=1e-14, rtol=1e-14))
    return mu, *_minimise(loss, mu, beta)


def _limit(loss: _Loss, explained: NDArray[np.bool_], direction: Floats) -> Estimate:
    """Follow separated answers to infinity: the rows without them decide what stays finite."""
    rest = fit(
        loss.Z[~explained],
        loss.wins[~explained],
        (loss.wins + loss.losses)[~explained],
        comparison=loss.model,
        score=loss.score,
    )
    D = _scales(loss.Z)
    loose = ~_determined(_span(loss.Z[~explained] / D, np.ones(len(D))))
    clear = np.abs(direction * D) > 1e-9 * np.max(np.abs(direction * D))
    infinite = np.where(clear, np.copysign(math.inf, direction), math.nan)
    covariance = rest.covariance.copy()
    covariance[loose, loose] = math.inf
    theta = np.where(loose, infinite, rest.theta)
    return replace(rest, theta=theta, covariance=covariance, status="separated")


# --- theta, comparison by comparison --------------------------------------------------------------------------


@dataclass(eq=False)
class MLE:
    """Line 6: the minimum of `fit`'s loss over all comparisons so far, found anew after each of them.

    >>> estimator = MLE(BradleyTerry(), ridge=1.0)
    >>> estimator.learn(np.array([2.0]), first_won=True)
    array([0.52...])
    """

    comparison: ComparisonModel
    _: KW_ONLY
    score: str = "likelihood"
    ridge: float = 0.0
    radius: float | str | None = "auto"
    theta: Floats = field(init=False, default_factory=lambda: np.empty(0))
    _signed: list[Floats] = field(init=False, default_factory=list)  # z where the first arm won, -z where it lost

    def learn(self, contrast: Floats, first_won: bool) -> Floats:
        """Learn one comparison, contrast (d,), and return theta."""
        self._signed.append(contrast if first_won else -contrast)
        self.theta = self._by_newton() if len(self._signed) > 1 else np.full(len(contrast), math.nan)
        if np.any(np.isnan(self.theta)):
            self.theta = fit(
                self._signed,
                np.ones(len(self._signed)),
                comparison=self.comparison,
                score=self.score,
                ridge=self.ridge,
                radius=self.radius,
            ).theta
        return self.theta

    def information(self) -> Floats:
        """Return the loss's matrix of second derivatives at theta, (d, d)."""
        Z = np.array(self._signed)
        return _floats((Z.T * bend(self.comparison, self.score, Z @ self.theta)) @ Z + self.ridge * np.eye(Z.shape[1]))

    def _by_newton(self) -> Floats:
        """Return the minimum, by Newton's method from the last one; nan unless it is found soon, inside the ball."""
        Z, theta = np.array(self._signed), self.theta
        for _ in range(8):
            e = Z @ theta
            H = (Z.T * bend(self.comparison, self.score, e)) @ Z + self.ridge * np.eye(len(theta))
            if not np.all(np.isfinite(H)) or not invertible(H):
                break
            gradient = pull(self.comparison, self.score, e) @ Z - self.ridge * theta
            step = inverse(H) @ gradient
            theta = theta + step
            if float(step @ gradient) < 1e-22:  # 1e-11 standard errors, and the next step is far shorter
                scales = _scales(Z) if self.radius == "auto" else np.ones(len(theta))
                bound = math.inf if self.radius is None else 20.0 if self.radius == "auto" else float(self.radius)
                certain = pull(self.comparison, self.score, e) < 1e-6  # separated, perhaps
                inside = np.linalg.norm(scales * theta) < bound and (self.ridge > 0.0 or not np.any(certain))
                return theta if inside else np.full(len(theta), math.nan)
        return np.full(len(theta), math.nan)


@dataclass(eq=False)
class OnlineNewton:
    """One pass: an implicit Newton step for each comparison, after a start in which theta is exact.

    With H the information collected so far and s, w the slope and the curvature of a comparison's loss at the *new*
    margin, theta moves by s H^-1 z~, and H by w z~ z~'. This is exact where the earlier losses are quadratic.

    >>> estimator = OnlineNewton(BradleyTerry(), history=0)
    >>> estimator.learn(np.array([2.0]), first_won=True)
    array([0.52...])
    """

    comparison: ComparisonModel
    _: KW_ONLY
    history: int = 2000  # comparisons that the start remembers
    score: str = "likelihood"
    ridge: float = 1.0
    theta: Floats = field(init=False, default_factory=lambda: np.empty(0))
    _H: Floats = field(init=False, default_factory=lambda: np.empty((0, 0)))
    _start: MLE = field(init=False)
    _n_learned: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._start = MLE(self.comparison, score=self.score, ridge=self.ridge, radius=None)

    def learn(self, contrast: Floats, first_won: bool) -> Floats:
        """Learn one comparison, contrast (d,), and return theta."""
        self._n_learned += 1
        if self._n_learned <= self.history:
            self.theta = self._start.learn(contrast, first_won)
            self._H = self._start.information()
            return self.theta
        if self._n_learned == 1:
            self.theta, self._H = np.zeros(len(contrast)), self.ridge * np.eye(len(contrast))
        signed = contrast if first_won else -contrast
        direction = inverse(self._H) @ signed
        e, q = float(signed @ self.theta), float(signed @ direction)

        def excess(s: float) -> float:
            return s - float(pull(self.comparison, self.score, e + q * s))

        s = brentq(excess, 0.0, pull(self.comparison, self.score, e), xtol=1e-300, rtol=1e-15)  # the slope falls
        self.theta = self.theta + s * direction
        self._H = self._H + bend(self.comparison, self.score, e + q * s) * np.outer(signed, signed)
        return self.theta


def pull(model: ComparisonModel, score: str, e: ArrayLike) -> Floats:
    """Return -psi'(e), how strongly a comparison of signed margin e pulls: f/F, or F(-e) for the residual score."""
    return model.score(e) if score == "likelihood" else model.cdf(-_floats(e))


def bend(model: ComparisonModel, score: str, e: ArrayLike) -> Floats:
    """Return psi''(e)."""
    return model.curvature(e) if score == "likelihood" else model.pdf(e)


def _solve(hessian: Floats, gradient: Floats) -> Floats:
    """Solve H p = g where H may be singular (Laplace's loss has flat parts): small eigenvalues are raised."""
    diagonal = np.diag(hessian)
    if not np.any(diagonal > 0.0):
        return gradient
    scale = np.sqrt(np.maximum(diagonal, 1e-30 * np.max(diagonal)))
    values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
    return _floats((vectors @ ((vectors.T @ (gradient / scale)) / np.maximum(values, 1e-14))) / scale)


def _span(Z: Floats, D: Floats) -> Floats:
    """Return an orthonormal basis (d, rank) of the span of the rows of Z / D; the identity where that is all."""
    rank = 0 if len(Z) == 0 else np.linalg.matrix_rank(Z / _scales(Z), tol=1e-11 * math.sqrt(Z.size))
    if rank == Z.shape[1]:
        return np.eye(rank)
    return _floats(qr((Z / D).T, mode="economic", pivoting=True)[0][:, :rank])


def _determined(basis: Floats) -> NDArray[np.bool_]:
    """Tell which coordinates the span of an orthonormal basis holds."""
    return np.asarray(np.sum(basis**2, axis=1) > 1.0 - 1e-9)


def _scales(Z: Floats) -> Floats:
    """Return max |z_k| of every coordinate, 1 where that is 0."""
    largest = np.max(np.abs(Z), axis=0, initial=0.0)
    return np.where(largest > 0.0, largest, 1.0)


def _row_products(rows: Floats, vector: Floats) -> Floats:
    # not rows @ vector: BLAS rounds equal rows differently (seen at 50 x 10), and equal arms must tie exactly
    return _floats(np.einsum("ij,j->i", rows, vector))


def _floats(u: ArrayLike) -> Floats:
    return np.asarray(u, dtype=np.float64)


def _check_positive(name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} is {value}; it must be positive and finite")
