"""The comparison models: G, the law of an arm's noise, and F, that of the difference of two draws of it."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfc, erfcx, expit, log_expit

from fastcolst.reference.linalg import Floats, floats


class ComparisonModel(abc.ABC):
    """What the models share: G, and the law F of the difference of two independent draws of G."""

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
        return self.score(u) * self.score(-floats(u))

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
        return floats(expit(floats(u) / self.scale))

    def log_cdf(self, u: ArrayLike) -> Floats:
        """Return -log(1 + exp(-u/scale))."""
        return floats(log_expit(floats(u) / self.scale))

    def score(self, u: ArrayLike) -> Floats:
        """Return F(-u) / scale, for f = F (1 - F) / scale."""
        return floats(expit(-floats(u) / self.scale) / self.scale)

    def log_pdf_slope(self, u: ArrayLike) -> Floats:
        """Return (1 - 2F) / scale."""
        return floats(np.tanh(-floats(u) / (2.0 * self.scale)) / self.scale)

    def curvature(self, u: ArrayLike) -> Floats:
        """Return f / scale, the same for a win and a loss."""
        return self.pdf(u) / self.scale

    def perturb(self, raw: ArrayLike) -> Floats:
        """Return -scale log(E), Gumbel for a standard exponential E."""
        return -self.scale * np.log(floats(raw))


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
        return floats(erfc(-self._w(u)) / 2.0)

    def log_cdf(self, u: ArrayLike) -> Floats:
        """Return log F(u), about -w^2 far in the lower tail."""
        w = self._w(u)
        size = np.abs(w)
        return floats(np.where(w < 0.0, np.log(erfcx(size) / 2.0) - w**2, np.log1p(-erfc(size) / 2.0)))

    def score(self, u: ArrayLike) -> Floats:
        """Return f(u) / F(u), about -w / sigma far in the lower tail."""
        w = self._w(u)
        size = np.abs(w)
        ratio = np.where(w < 0.0, 1.0 / erfcx(size), np.exp(-(w**2)) / erfc(-size))
        return floats(ratio / (self.sigma * math.sqrt(math.pi)))

    def log_pdf_slope(self, u: ArrayLike) -> Floats:
        """Return -w / sigma."""
        return -self._w(u) / self.sigma

    def raw(self, rng: np.random.Generator, n: int) -> Floats:
        """Return n standard normals."""
        return rng.standard_normal(n)

    def perturb(self, raw: ArrayLike) -> Floats:
        """Return sigma N."""
        return self.sigma * floats(raw)

    def _w(self, u: ArrayLike) -> Floats:
        return floats(u) / (2.0 * self.sigma)


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
        return np.where(floats(u) < 0.0, tail, 1.0 - tail)

    def log_cdf(self, u: ArrayLike) -> Floats:
        """Return log F(u), a straight line for u < 0."""
        return np.where(floats(u) < 0.0, self.rate * floats(u) - math.log(2.0), np.log1p(-self._tail(u)))

    def score(self, u: ArrayLike) -> Floats:
        """Return f(u) / F(u), the constant rate for u < 0."""
        tail = self._tail(u)
        return self.rate * np.where(floats(u) < 0.0, 1.0, tail / (1.0 - tail))  # f = rate * tail

    def log_pdf_slope(self, u: ArrayLike) -> Floats:
        """Return -sgn(u) rate, at the kink u = 0 the slope to its right."""
        return np.where(floats(u) < 0.0, self.rate, -self.rate)

    def perturb(self, raw: ArrayLike) -> Floats:
        """Return E / rate."""
        return floats(raw) / self.rate

    def _tail(self, u: ArrayLike) -> Floats:
        return np.exp(-self.rate * np.abs(floats(u))) / 2.0  # F(-|u|)


def _check_positive(name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} is {value}; it must be positive and finite")
