"""Comparison models: how utilities become answers.

A model is a comparison function F, the probability that the first arm wins,

    P(first beats second) = F(u_first - u_second),

together with a perturbation distribution G such that the difference of two independent draws of G has the law F. Bengs,
Saha and Huellermeier (2022), section 2, call this a linear stochastic transitivity model.

The three models here serve arrays in Python and scalars in kernels with the same branch-free formulas. A model of one's
own is a registered NamedTuple with ``cdf``, ``pdf``, ``raw`` and ``perturb``; see :func:`comparison_model`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from fastcolst._compile import generic, helper, register, registered

__all__ = ["BradleyTerry", "ExponentialNoise", "Thurstone", "comparison_model"]

_SQRT2 = math.sqrt(2.0)
_SQRT2PI = math.sqrt(2.0 * math.pi)
_TINY = float(np.finfo(np.float64).tiny)


# --- what kernels call --------------------------------------------------------------------------------------


@generic
def cdf(self: Any, u: Any) -> Any:
    """F(u), the probability that an arm beats one whose utility is lower by u."""
    raise TypeError(f"{type(self).__name__} has no method cdf")


@generic
def pdf(self: Any, u: Any) -> Any:
    """f(u), the derivative of F."""
    raise TypeError(f"{type(self).__name__} has no method pdf")


@generic
def log_cdf(self: Any, u: Any) -> Any:
    """log F(u). A model without this method gets the logarithm of its cdf."""
    return np.log(cdf(self, u))


@generic
def score(self: Any, u: Any) -> Any:
    """f(u)/F(u), the derivative of log F. A model without this method gets the quotient."""
    return pdf(self, u) / cdf(self, u)


@generic
def weight(self: Any, u: Any) -> Any:
    """Fisher information f^2/(F(1-F)) of one answer at margin u; by symmetry score(u) * score(-u)."""
    return score(self, u) * score(self, -u)


@generic
def raw(self: Any, rng: Any) -> Any:
    """One raw variate, standard exponential or standard normal."""
    raise TypeError(f"{type(self).__name__} has no method raw")


@generic
def perturb(self: Any, value: Any) -> Any:
    """The draw of G that a raw variate stands for."""
    raise TypeError(f"{type(self).__name__} has no method perturb")


# --- the models ---------------------------------------------------------------------------------------------


@register
class BradleyTerry(NamedTuple):
    """Bradley-Terry-Luce model: Gumbel perturbations, logistic comparison function.

    F(u) = 1/(1 + exp(-u/scale)).

    Parameters
    ----------
    scale : float, default 1.0
        Scale of the Gumbel distribution G and of the logistic F, in units of utility; positive.

    Raises
    ------
    ValueError
        When ``scale`` is not positive and finite.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), section 2, BTL model.

    Examples
    --------
    >>> import fastcolst as fc
    >>> float(fc.BradleyTerry().cdf(0.0))
    0.5
    >>> float(fc.BradleyTerry(scale=2.0).log_cdf(-1400.0))
    -700.0
    """

    scale: float = 1.0

    def checked(self) -> BradleyTerry:
        """Itself, if its field is in range."""
        _check_positive("BradleyTerry", "scale", self.scale)
        return self

    def cdf(self, u: Any) -> Any:
        """F(u); relative error below 1e-12 in both tails."""
        v = u / self.scale
        return np.exp(np.minimum(v, 0.0)) / (1.0 + np.exp(-np.abs(v)))

    def pdf(self, u: Any) -> Any:
        """f(u) = F'(u)."""
        e = np.exp(-np.abs(u / self.scale))
        return e / ((1.0 + e) * (1.0 + e) * self.scale)

    def log_cdf(self, u: Any) -> Any:
        """log F(u), accurate where F underflows."""
        v = u / self.scale
        return np.minimum(v, 0.0) - np.log1p(np.exp(-np.abs(v)))

    def score(self, u: Any) -> Any:
        """f(u)/F(u) = (1 - F(u))/scale."""
        v = u / self.scale
        return np.exp(np.minimum(-v, 0.0)) / ((1.0 + np.exp(-np.abs(v))) * self.scale)

    def weight(self, u: Any) -> Any:
        """f^2/(F(1-F)) = f(u)/scale."""
        e = np.exp(-np.abs(u / self.scale))
        return e / ((1.0 + e) * (1.0 + e) * (self.scale * self.scale))

    def raw(self, rng: Generator, size: Any = None) -> Any:
        """Standard exponential variates."""
        return rng.standard_exponential(size)

    def perturb(self, value: Any) -> Any:
        """Gumbel(0, scale) noise, -scale log(E) of a standard exponential E."""
        return -self.scale * np.log(np.maximum(value, _TINY))

    def sample(self, rng: Generator, size: Any = None) -> Any:
        """Draws of G: a float, or an array of the given size."""
        return self.perturb(self.raw(rng, size))


@register
class Thurstone(NamedTuple):
    """Thurstone-Mosteller model: normal perturbations, normal comparison function.

    F(u) = Phi(u / (sigma sqrt 2)), since the difference of two draws of N(0, sigma^2) has variance 2 sigma^2.

    Parameters
    ----------
    sigma : float, default 1.0
        Standard deviation of the perturbation G, in units of utility; positive. (The coefficients of a probit
        regression are those for sigma = 1/sqrt(2).)

    Raises
    ------
    ValueError
        When ``sigma`` is not positive and finite.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), section 2, Thurstone-Mosteller model.

    Examples
    --------
    >>> import fastcolst as fc
    >>> round(float(fc.Thurstone().cdf(1.0)), 6)
    0.76025
    """

    sigma: float = 1.0

    def checked(self) -> Thurstone:
        """Itself, if its field is in range."""
        _check_positive("Thurstone", "sigma", self.sigma)
        return self

    def cdf(self, u: Any) -> Any:
        """F(u); relative error below 1e-12 wherever F is a normal double."""
        v = u / (self.sigma * _SQRT2)
        low = np.minimum(v, 0.0)
        return np.exp(-0.5 * low * low) * _scaled_phi(v)

    def pdf(self, u: Any) -> Any:
        """f(u) = F'(u)."""
        v = u / (self.sigma * _SQRT2)
        return np.exp(-0.5 * v * v) / (_SQRT2PI * _SQRT2 * self.sigma)

    def log_cdf(self, u: Any) -> Any:
        """log F(u), accurate where F underflows or rounds to 1."""
        v = u / (self.sigma * _SQRT2)
        low = np.minimum(v, 0.0)
        tail = 0.5 * _erfcx(np.abs(v) / _SQRT2)
        excess = (v > 0.0) * (-tail * np.exp(-0.5 * v * v)) + (v <= 0.0) * (tail - 1.0)
        return -0.5 * low * low + np.log1p(excess)

    def score(self, u: Any) -> Any:
        """f(u)/F(u); grows like |u|/(2 sigma^2) in the lower tail, without the quotient of two underflows."""
        v = u / (self.sigma * _SQRT2)
        high = np.maximum(v, 0.0)
        return np.exp(-0.5 * high * high) / (_SQRT2PI * _SQRT2 * self.sigma * _scaled_phi(v))

    def weight(self, u: Any) -> Any:
        """f^2/(F(1-F)), 0 at both ends."""
        v = np.minimum(np.abs(u) / (self.sigma * _SQRT2), 1e9)  # 0/0 at infinity; exp underflows from 39 on
        e = np.exp(-0.5 * v * v)
        tail = 0.5 * _erfcx(v / _SQRT2)  # F(-|u|) = tail e
        return e / (4.0 * math.pi * self.sigma * self.sigma * tail * (1.0 - tail * e))

    def raw(self, rng: Generator, size: Any = None) -> Any:
        """Standard normal variates."""
        return rng.standard_normal(size)

    def perturb(self, value: Any) -> Any:
        """Noise N(0, sigma^2) of a standard normal value."""
        return self.sigma * value

    def sample(self, rng: Generator, size: Any = None) -> Any:
        """Draws of G: a float, or an array of the given size."""
        return self.perturb(self.raw(rng, size))


@register
class ExponentialNoise(NamedTuple):
    """Exponential perturbations, Laplace comparison function.

    F(u) = 1/2 + sgn(u)/2 (1 - exp(-rate |u|)).

    Parameters
    ----------
    rate : float, default 1.0
        Rate of the exponential distribution G, in 1/utility; positive.

    Raises
    ------
    ValueError
        When ``rate`` is not positive and finite.

    Notes
    -----
    The paper prints exp(-|u|/lambda); with a rate lambda that is the law of the difference only for lambda = 1.
    The likelihood has a kink at u = 0.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), section 2, exponential noise.

    Examples
    --------
    >>> import fastcolst as fc
    >>> float(fc.ExponentialNoise().pdf(0.0))
    0.5
    """

    rate: float = 1.0

    def checked(self) -> ExponentialNoise:
        """Itself, if its field is in range."""
        _check_positive("ExponentialNoise", "rate", self.rate)
        return self

    def cdf(self, u: Any) -> Any:
        """F(u)."""
        v = self.rate * u
        return np.exp(np.minimum(v, 0.0)) * (1.0 - 0.5 * np.exp(-np.maximum(v, 0.0)))

    def pdf(self, u: Any) -> Any:
        """f(u) = F'(u)."""
        return 0.5 * self.rate * np.exp(-np.abs(self.rate * u))

    def log_cdf(self, u: Any) -> Any:
        """log F(u)."""
        v = self.rate * u
        return np.minimum(v, 0.0) + np.log1p(-0.5 * np.exp(-np.maximum(v, 0.0)))

    def score(self, u: Any) -> Any:
        """f(u)/F(u), which is the rate itself for u <= 0."""
        e = 0.5 * np.exp(-np.maximum(self.rate * u, 0.0))
        return self.rate * e / (1.0 - e)

    def weight(self, u: Any) -> Any:
        """f^2/(F(1-F))."""
        return score(self, u) * score(self, -u)

    def raw(self, rng: Generator, size: Any = None) -> Any:
        """Standard exponential variates."""
        return rng.standard_exponential(size)

    def perturb(self, value: Any) -> Any:
        """Noise Exp(rate) of a standard exponential value."""
        return value / self.rate

    def sample(self, rng: Generator, size: Any = None) -> Any:
        """Draws of G: a float, or an array of the given size."""
        return self.perturb(self.raw(rng, size))


# --- the normal law's tails ---------------------------------------------------------------------------------

# (1 + 2x) erfcx(x) as a polynomial in (x - 3.75)/(x + 3.75), after Shepherd and Laframboise (1981): Chebyshev
# coefficients of degree 22 found with 60 digits, rewritten in powers. Relative error 3e-16 on [0, 1e8].
_ERFCX = np.array(
    [
        1.2375126308378275,
        -0.14024059858554525,
        0.0035854154854790257,
        0.08227673848999506,
        -0.10880393014244462,
        0.09230432116428125,
        -0.05869339857664934,
        0.02836227737211114,
        -0.009746579683265262,
        0.0017556261651970652,
        0.000293714378044958,
        -0.00029015535246077655,
        5.164652974177416e-05,
        2.2387565714911816e-05,
        -1.1438048033346894e-05,
        -9.792625707303523e-07,
        1.7419821586224816e-06,
        -5.084465378687302e-08,
        -2.4857126248016745e-07,
        1.879082322370048e-08,
        3.197926671666804e-08,
        -1.9551358868985616e-09,
        -2.623107347133476e-09,
    ]
)


@helper
def _erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x) for x >= 0."""
    y = 1.0 - 7.5 / (x + 3.75)  # not (x - 3.75)/(x + 3.75), which is nan at infinity
    value = _ERFCX[22] * y + _ERFCX[21]
    for k in range(20, -1, -1):
        value = value * y + _ERFCX[k]
    return value / (1.0 + 2.0 * x)


@helper
def _scaled_phi(v: Any) -> Any:
    """Phi(v) exp(min(v, 0)^2 / 2), which never underflows."""
    tail = 0.5 * _erfcx(np.abs(v) / _SQRT2)
    return (v > 0.0) * (1.0 - tail * np.exp(-0.5 * v * v)) + (v <= 0.0) * tail


# --- the door -----------------------------------------------------------------------------------------------

_BY_NAME: dict[str, type] = {
    "bradley-terry": BradleyTerry,
    "thurstone": Thurstone,
    "exponential": ExponentialNoise,
}


def comparison_model(value: Any, argument: str = "comparison") -> Any:
    """The model that a user's argument stands for, registered and checked.

    Parameters
    ----------
    value : str or NamedTuple
        "bradley-terry", "thurstone", "exponential", or an instance of a model. A model of one's own is a NamedTuple
        with ``cdf(u)`` and ``pdf(u)`` (scalars in, scalars out, F(u) + F(-u) = 1), ``raw(rng, size=None)``, which
        returns ``rng.standard_exponential(size)`` or ``rng.standard_normal(size)``, and ``perturb(value)``, which turns
        such a number into a draw of G. It may add ``log_cdf``, ``score`` (f/F) and ``weight`` (f^2/(F(1-F))) where the
        quotients lose accuracy in the tails.
    argument : str
        The name of the argument, for messages.

    Raises
    ------
    ValueError
        For an unknown name, a missing method, or an F that is not symmetric.
    """
    if isinstance(value, str):
        if value not in _BY_NAME:
            raise ValueError(f"{argument} is {value!r}; wanted one of {', '.join(map(repr, _BY_NAME))} or a model")
        return _BY_NAME[value]()
    cls = type(value)
    missing = [name for name in ("cdf", "pdf", "raw", "perturb") if not callable(getattr(cls, name, None))]
    if missing:
        raise ValueError(
            f"{argument} is {value!r}; wanted one of {', '.join(map(repr, _BY_NAME))} or a NamedTuple with the methods "
            f"cdf, pdf, raw and perturb (without: {', '.join(missing)})"
        )
    value = registered(value, argument)
    for u in (0.0, 0.5, 1.0, 3.0):
        total = float(cdf(value, u)) + float(cdf(value, -u))
        if not abs(total - 1.0) < 1e-9:
            raise ValueError(
                f"{argument}: {cls.__name__}.cdf({u}) + cdf({-u}) is {total}; a comparison function needs 1"
            )
    return value


def _check_positive(cls: str, name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise ValueError(f"{cls}: {name} is {value!r}; a positive finite number is wanted")
