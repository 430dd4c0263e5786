"""Comparison models: how utilities become answers.

A model is a comparison function F, the probability that the first arm wins,

    P(first beats second) = F(u_first - u_second),

together with a perturbation distribution G such that the difference of two independent draws of G has the law F. Bengs,
Saha and Huellermeier (2022), section 2, call this a linear stochastic transitivity model.

The models here serve arrays in Python and scalars in kernels with the same branch-free formulas. A model of
one's own is a registered NamedTuple with ``cdf``, ``pdf``, ``raw`` and ``perturb``, in any file; see
:func:`comparison_model`. Where one of the package goes is told in ``docs/code.md``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.random import Generator

from fastcolst._checks import brief, check_generator, margins, plain_text, sample_size
from fastcolst._compile import fill_exponential, fill_normal, generic, kernel, registered
from fastcolst._registry import METHODS, MODEL, known, register, with_defaults
from fastcolst.kernels.special import erfcx, exp, log, log_at_least

__all__ = ["BradleyTerry", "ExponentialNoise", "Thurstone", "comparison_model"]

C = TypeVar("C", bound=type)

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
def curvature(self: Any, u: Any) -> Any:
    """-d score/du, the second derivative of -log F: observed information, which is not :func:`weight`.

    A model without this method gets a central difference, good to nine digits.
    """
    h = 1e-5 * (1.0 + np.abs(u))
    return np.maximum(score(self, u - h) - score(self, u + h), 0.0) / (2.0 * h)


@generic
def raw(self: Any, rng: Any) -> Any:
    """One raw variate, standard exponential or standard normal.

    Python draws the same numbers in a block, by the method itself: ``model.raw(rng, size)``.
    """
    raise TypeError(f"{type(self).__name__} has no method raw")


@generic
def fill_raw(self: Any, rng: Any, out: Any) -> None:
    """Fill a vector (n,) float64 with raw variates. A model without this method gets them one by one."""
    for i in range(out.size):
        out[i] = raw(self, rng)


@generic
def perturb(self: Any, value: Any) -> Any:
    """The draw of G that a raw variate stands for."""
    raise TypeError(f"{type(self).__name__} has no method perturb")


@generic
def latent(self: Any, rng: Any) -> Any:
    """A draw of F, by which a duel is decided: of a model without this method the difference of two draws of G."""
    first = perturb(self, raw(self, rng))
    return first - perturb(self, raw(self, rng))


@generic
def perturb_at_most(self: Any, value: Any) -> Any:
    """A number that :func:`perturb` of a raw variate does not exceed, in less time. A model without it gets inf."""
    return np.inf


# --- what people call ---------------------------------------------------------------------------------------


def people_may_call(*names: str) -> Callable[[C], C]:
    """Check the margins that people hand to these methods of a model; kernels, and the methods themselves, do not."""

    def decorate(cls: C) -> C:
        for name in names:
            setattr(cls, name, _checked(getattr(cls, name)))
        return cls

    return decorate


def _checked(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(method)
    def call(self: Any, u: Any) -> Any:
        with np.errstate(all="ignore"):  # far out in the tails numbers overflow on their way to the right limit
            return method(self, u if type(u) is float else margins(u))

    call.for_kernels = method  # type: ignore[attr-defined]
    return call


# --- the models ---------------------------------------------------------------------------------------------


@people_may_call("cdf", "pdf", "log_cdf", "score", "weight", "curvature")
@register(name="bradley-terry")
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
        e = exp(-np.abs(v))
        return ((v > 0.0) + (v <= 0.0) * e) / (1.0 + e)

    def pdf(self, u: Any) -> Any:
        """f(u) = F'(u)."""
        e = exp(-np.abs(u / self.scale))
        return e / ((1.0 + e) * (1.0 + e) * self.scale)

    def log_cdf(self, u: Any) -> Any:
        """log F(u), accurate where F underflows."""
        v = u / self.scale
        return np.minimum(v, 0.0) - np.log1p(exp(-np.abs(v)))

    def score(self, u: Any) -> Any:
        """f(u)/F(u) = (1 - F(u))/scale."""
        v = u / self.scale
        e = exp(-np.abs(v))
        return ((v > 0.0) * e + (v <= 0.0)) / ((1.0 + e) * self.scale)

    def weight(self, u: Any) -> Any:
        """f^2/(F(1-F)) = f(u)/scale."""
        e = exp(-np.abs(u / self.scale))
        return e / ((1.0 + e) * (1.0 + e) * (self.scale * self.scale))

    def curvature(self, u: Any) -> Any:
        """(log F)'' with its sign turned; for the logistic it is the Fisher information."""
        e = exp(-np.abs(u / self.scale))
        return e / ((1.0 + e) * (1.0 + e) * (self.scale * self.scale))

    def raw(self, rng: Generator, size: Any = None) -> Any:
        """Standard exponential variates."""
        return rng.standard_exponential(size)

    def fill_raw(self, rng: Any, out: Any) -> None:
        """The same variates into a vector."""
        fill_exponential(rng, out)

    def perturb(self, value: Any) -> Any:
        """Gumbel(0, scale) noise, -scale log(E) of a standard exponential E."""
        return -self.scale * log(np.maximum(value, _TINY))

    def perturb_at_most(self, value: Any) -> Any:
        """-scale log(E) by a bound of the logarithm: at most 0.06 scale too much, in a fifth of the time."""
        return -self.scale * log_at_least(np.maximum(value, _TINY))

    def sample(self, rng: Generator, size: Any = None) -> Any:
        """Draws of G: a float, or an array of the given size."""
        return self.perturb(self.raw(check_generator(rng), sample_size(size)))


@people_may_call("cdf", "pdf", "log_cdf", "score", "weight", "curvature")
@register(name="thurstone")
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
        e = exp(-0.5 * v * v)
        tail = 0.5 * erfcx(np.abs(v) / _SQRT2) * e  # F(-|u|)
        return (v > 0.0) * (1.0 - tail) + (v <= 0.0) * tail

    def pdf(self, u: Any) -> Any:
        """f(u) = F'(u)."""
        v = u / (self.sigma * _SQRT2)
        return exp(-0.5 * v * v) / (_SQRT2PI * _SQRT2 * self.sigma)

    def log_cdf(self, u: Any) -> Any:
        """log F(u), accurate where F underflows or rounds to 1."""
        v = u / (self.sigma * _SQRT2)
        low = np.minimum(v, 0.0)
        tail = 0.5 * erfcx(np.abs(v) / _SQRT2)
        excess = (v > 0.0) * (-tail * exp(-0.5 * v * v)) + (v <= 0.0) * (tail - 1.0)
        return -0.5 * low * low + np.log1p(excess)

    def score(self, u: Any) -> Any:
        """f(u)/F(u); grows like |u|/(2 sigma^2) in the lower tail, without the quotient of two underflows."""
        v = u / (self.sigma * _SQRT2)
        e = exp(-0.5 * v * v)
        tail = 0.5 * erfcx(np.abs(v) / _SQRT2)  # F(-|u|)/e, which never underflows
        most = _SQRT2PI * _SQRT2 * self.sigma
        return ((v > 0.0) * e + (v <= 0.0)) / (most * ((v > 0.0) * (1.0 - tail * e) + (v <= 0.0) * tail))

    def weight(self, u: Any) -> Any:
        """f^2/(F(1-F)), 0 at both ends."""
        v = np.minimum(np.abs(u) / (self.sigma * _SQRT2), 1e9)  # 0/0 at infinity; exp underflows from 39 on
        e = exp(-0.5 * v * v)
        tail = 0.5 * erfcx(v / _SQRT2)  # F(-|u|) = tail e
        return e / (4.0 * math.pi * self.sigma * self.sigma * tail * (1.0 - tail * e))

    def curvature(self, u: Any) -> Any:
        """(log F)'' with its sign turned, s (s + u/(2 sigma^2)): from 1/(2 sigma^2) in the lower tail down to 0."""
        far = 1e4 * self.sigma  # beyond it the sum cancels to nothing, or is inf - inf, and both limits are reached
        u = np.minimum(np.maximum(u, -far), far)
        s = score(self, u)
        most = 1.0 / (2.0 * self.sigma * self.sigma)
        return np.minimum(np.maximum(s * (s + u * most), 0.0), most)  # deep in the tail the sum cancels

    def raw(self, rng: Generator, size: Any = None) -> Any:
        """Standard normal variates."""
        return rng.standard_normal(size)

    def fill_raw(self, rng: Any, out: Any) -> None:
        """The same variates into a vector."""
        fill_normal(rng, out)

    def perturb(self, value: Any) -> Any:
        """Noise N(0, sigma^2) of a standard normal value."""
        return self.sigma * value

    def perturb_at_most(self, value: Any) -> Any:
        """The noise itself, which takes one multiplication."""
        return self.sigma * value

    def sample(self, rng: Generator, size: Any = None) -> Any:
        """Draws of G: a float, or an array of the given size."""
        return self.perturb(self.raw(check_generator(rng), sample_size(size)))


@people_may_call("cdf", "pdf", "log_cdf", "score", "weight", "curvature")
@register(name="exponential")
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
        tail = 0.5 * exp(-np.abs(v))
        return (v > 0.0) * (1.0 - tail) + (v <= 0.0) * tail

    def pdf(self, u: Any) -> Any:
        """f(u) = F'(u)."""
        return 0.5 * self.rate * exp(-np.abs(self.rate * u))

    def log_cdf(self, u: Any) -> Any:
        """log F(u)."""
        v = self.rate * u
        return np.minimum(v, 0.0) + np.log1p(-0.5 * exp(-np.maximum(v, 0.0)))

    def score(self, u: Any) -> Any:
        """f(u)/F(u), which is the rate itself for u <= 0."""
        e = 0.5 * exp(-np.maximum(self.rate * u, 0.0))
        return self.rate * e / (1.0 - e)

    def weight(self, u: Any) -> Any:
        """f^2/(F(1-F))."""
        return score(self, u) * score(self, -u)

    def curvature(self, u: Any) -> Any:
        """(log F)'' with its sign turned: 0 for u < 0, where log F is a straight line.

        At the kink the value from above: at theta = 0, where a search starts, every margin is 0.
        """
        e = 0.5 * exp(-np.maximum(self.rate * u, 0.0))
        return (u >= 0.0) * self.rate * self.rate * e / ((1.0 - e) * (1.0 - e))

    def raw(self, rng: Generator, size: Any = None) -> Any:
        """Standard exponential variates."""
        return rng.standard_exponential(size)

    def fill_raw(self, rng: Any, out: Any) -> None:
        """The same variates into a vector."""
        fill_exponential(rng, out)

    def perturb(self, value: Any) -> Any:
        """Noise Exp(rate) of a standard exponential value."""
        return value / self.rate

    def perturb_at_most(self, value: Any) -> Any:
        """The noise itself, which takes one division."""
        return value / self.rate

    def sample(self, rng: Generator, size: Any = None) -> Any:
        """Draws of G: a float, or an array of the given size."""
        return self.perturb(self.raw(check_generator(rng), sample_size(size)))


# --- many margins at once -----------------------------------------------------------------------------------


@kernel
def probabilities(model: Any, margins: Any, out: Any) -> None:
    """Probabilities that the first arm wins, F of each margin; (m,) float64 each. O(m)."""
    for row in range(margins.size):
        out[row] = cdf(model, margins[row])


# --- the door -----------------------------------------------------------------------------------------------


def comparison_model(value: Any, argument: str = "comparison") -> Any:
    """The model that a user's argument stands for, registered and checked.

    Parameters
    ----------
    value : str or NamedTuple
        "bradley-terry", "thurstone", "exponential", a name of one's own (see :func:`fastcolst.register`),
        "package.module:Class", or an instance of a model. A model of one's own is a NamedTuple
        with ``cdf(u)`` and ``pdf(u)`` (scalars in, scalars out, F(u) + F(-u) = 1), ``raw(rng, size=None)``, which
        returns ``rng.standard_exponential(size)`` or ``rng.standard_normal(size)``, and ``perturb(value)``, which turns
        such a number into a draw of G. It may add ``log_cdf``, ``score`` (f/F) and ``weight`` (f^2/(F(1-F))) where the
        quotients lose accuracy in the tails, ``curvature`` (otherwise a central difference), ``fill_raw``, ``latent``
        and ``perturb_at_most`` where there is a quicker way; :mod:`fastcolst.comparison` says what each returns.
    argument : str
        The name of the argument, for messages.

    Raises
    ------
    ValueError
        For an unknown name, a missing method, an F that is not symmetric, or a ``raw`` that takes no size.
    """
    names = f"{', '.join(map(repr, known(MODEL)))} or a"
    name = plain_text(value)
    if name is not None:
        named = with_defaults(MODEL, name, argument)
        if named is None:
            raise ValueError(f"{argument} is {brief(value)}; wanted one of {names} model")
        return comparison_model(named, argument)
    if any(value is model for model in known(MODEL).values()):
        raise ValueError(f"{argument} is the class {value.__name__}; an instance is wanted: fc.{value.__name__}()")
    cls = type(value)
    missing = [name for name in METHODS[MODEL] if not callable(getattr(cls, name, None))]
    if missing:
        raise ValueError(
            f"{argument} is {brief(value)}; wanted one of {names} NamedTuple with the methods cdf, pdf, raw and "
            f"perturb (without: {', '.join(missing)})"
        )
    value = registered(value, argument)
    shown = cls.__qualname__.rpartition(".")[2]  # its name, which `register` may have changed
    for u in (0.0, 0.5, 1.0, 3.0):
        total = float(cdf(value, u)) + float(cdf(value, -u))
        if not abs(total - 1.0) < 1e-9:
            raise ValueError(f"{argument}: {shown}.cdf({u}) + cdf({-u}) is {total}; a comparison function needs 1")
    found = _block_trouble(value)
    if found:
        raise ValueError(f"{argument}: {shown}.raw(rng, 3) {found}; 3 raw variates, (3,), are wanted")
    return value


def _block_trouble(model: Any) -> str:
    """Why a model's ``raw`` gives no block of numbers, which kernels never ask for; "" where it does."""
    try:
        shape = np.shape(model.raw(np.random.default_rng(0), 3))
    except Exception as error:  # noqa: BLE001 - a method of somebody's own may raise what it likes
        return f"fails with {type(error).__name__}: {error}"
    return "" if shape == (3,) else f"has shape {shape}"


def _check_positive(cls: str, name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise ValueError(f"{cls}: {name} is {value!r}; a positive finite number is wanted")
