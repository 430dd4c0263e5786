"""Careless answers: a share of all answers is given without a look."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from fastcolst._checks import brief, check_generator, sample_size
from fastcolst._registry import register
from fastcolst.comparison import (
    BradleyTerry,
    cdf,
    comparison_model,
    curvature,
    fill_raw,
    latent,
    log_cdf,
    pdf,
    people_may_call,
    perturb,
    score,
)

__all__ = ["Lapse"]

LARGEST = 1e150
"""The square of this, times 0, is 0."""

BEYOND = 1e200
"""What decides a duel whatever the utilities."""


@people_may_call("cdf", "pdf", "log_cdf", "score", "weight", "curvature")
@register
class Lapse(NamedTuple):
    """A comparison model with lapses: a share of the answers is a coin's, whatever the arms.

    F_e(u) = e/2 + (1 - e) F(u).

    Without them careless answers to clear questions pull theta towards 0, the more the clearer the questions are.

    Parameters
    ----------
    base : str or comparison model, default BradleyTerry()
        F, what the others answer by.
    rate : float, default 0.05
        e, the share of careless answers, in [0, 1). Half of them are right by chance.

    Raises
    ------
    ValueError
        When ``base`` is no comparison model, or ``rate`` is outside its range.

    Notes
    -----
    F_e is not log-concave: an answer against the odds is the likelier a lapse the higher these are, so that its loss
    flattens out, and the likelihood may have several maxima. ``fc.fit`` follows the one that grows out of the model
    without lapses, whose maximum is the only one. :class:`fastcolst.MLE` and :class:`fastcolst.OnlineNewton` follow the
    one that they are at, and were up to 0.03 to 0.3 standard errors off in streams with rates from 0.02 to 0.3, instead
    of the 0.01 that they keep to otherwise, and once, with 50 answers and 10 features, at another maximum; a policy
    says so once. The noise G, by which CoLSTIM perturbs utilities, is the base's, as a lapse is in the answer and not
    in the utility.

    How many answers are careless is what ``fc.fit(..., lapse="profile")`` tells.

    References
    ----------
    Wichmann, Hill (2001), The psychometric function: I. Fitting, sampling, and goodness of fit, Perception and
    Psychophysics 63, 1293-1313.

    Examples
    --------
    >>> import fastcolst as fc
    >>> model = fc.Lapse("bradley-terry", 0.1)
    >>> model
    Lapse(base=BradleyTerry(scale=1.0), rate=0.1)
    >>> round(float(model.cdf(100.0)), 3), float(model.cdf(0.0))
    (0.95, 0.5)
    """

    base: Any = BradleyTerry()
    rate: float = 0.05

    def checked(self) -> Lapse:
        """Itself, with a registered base, if its fields are in range."""
        if not 0.0 <= self.rate < 1.0:
            raise ValueError(f"Lapse: rate is {brief(self.rate)}; a number from 0 to below 1 is wanted")
        return self._replace(base=comparison_model(self.base, "Lapse: base"))

    def cdf(self, u: Any) -> Any:
        """F_e(u)."""
        return 0.5 * self.rate + (1.0 - self.rate) * cdf(self.base, u)

    def pdf(self, u: Any) -> Any:
        """The derivative of F_e."""
        return (1.0 - self.rate) * pdf(self.base, u)

    def log_cdf(self, u: Any) -> Any:
        """log F_e(u), to the last digits also where F_e is nearly 1."""
        if self.rate == 0.0:
            return log_cdf(self.base, u)
        low = 0.5 * self.rate + (1.0 - self.rate) * cdf(self.base, -np.abs(u))
        return (u > 0.0) * np.log1p(-low) + (u <= 0.0) * np.log(low)

    def score(self, u: Any) -> Any:
        """(1 - e) f/F_e: near that of the base where the answer is explained, and 0 far out on either side."""
        if self.rate == 0.0:
            return score(self.base, u)
        return (1.0 - self.rate) * pdf(self.base, u) / (0.5 * self.rate + (1.0 - self.rate) * cdf(self.base, u))

    def weight(self, u: Any) -> Any:
        """f_e^2/(F_e(1-F_e))."""
        return score(self, u) * score(self, -u)

    def curvature(self, u: Any) -> Any:
        """(log F_e)'' with its sign turned, or 0 where that is negative: Newton's method takes no such step.

        With the probability q = (1 - e) F/F_e that the answer was no lapse, and the base's curvature c and score s, it
        is q (c - (1 - q) s^2).
        """
        steep, kept = np.minimum(score(self.base, u), LARGEST), 1.0
        if self.rate > 0.0:
            kept = (1.0 - self.rate) * cdf(self.base, u)
            kept = kept / (0.5 * self.rate + kept)
        return np.maximum(kept * (curvature(self.base, u) - (1.0 - kept) * steep * steep), 0.0)

    def raw(self, rng: Generator, size: Any = None) -> Any:
        """Raw variates of the base's noise."""
        return self.base.raw(rng, size)

    def fill_raw(self, rng: Any, out: Any) -> None:
        """The same, as kernels draw them."""
        fill_raw(self.base, rng, out)

    def perturb(self, value: Any) -> Any:
        """The base's noise."""
        return perturb(self.base, value)

    def latent(self, rng: Generator) -> Any:
        """A draw of F_e: of F, or in a lapse a number beyond all utilities with the sign of one."""
        is_lapse = rng.random() < self.rate
        value = latent(self.base, rng)
        return np.copysign(BEYOND, value) if is_lapse else value

    def sample(self, rng: Generator, size: Any = None) -> Any:
        """Draws of the base's G: a float, or an array of the given size."""
        return self.perturb(self.raw(check_generator(rng), sample_size(size)))
