"""How many answers are careless: the profile likelihood of the lapse rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import brief, plain_text, real_numbers
from fastcolst.lapse import Lapse

__all__ = ["RATES", "LapseProfile", "profiled", "rates_of", "steps_to"]

Array = NDArray[np.float64]

RATES = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""The grid of "profile"; half of the answers being a coin's leaves little to fit."""

DROP = 1.920729410347062
"""Half the 95 % quantile of chi-square with one degree of freedom."""

FINENESS = 1e-5
"""To which the rate and its interval are found between the points of the grid."""


@dataclass(frozen=True, eq=False)
class LapseProfile:
    """The profile likelihood of the lapse rate: at each rate the maximum over theta.

    Attributes
    ----------
    rate : float
        The likeliest, between neighbours of the best rate of the grid.
    interval : (low, high)
        95 %, by the likelihood ratio: twice the log-likelihood is at most 3.84 below its maximum. Within the grid.
    rates : (k,) float64
        The grid.
    log_likelihoods : (k,) float64
        The profile at the grid's rates; of a fit with a ridge, less its penalty.
    """

    rate: float
    interval: tuple[float, float]
    rates: Array = field(repr=False)
    log_likelihoods: Array = field(repr=False)

    def __str__(self) -> str:
        low, high = self.interval
        return f"lapse rate {self.rate:.3g} (95 % interval {low:.3g} to {high:.3g})"


def rates_of(lapse: Any, model: Any, score: str) -> Array | None:
    """The grid that an argument ``lapse`` stands for; None for None."""
    if lapse is None:
        return None
    if score != "likelihood":
        raise ValueError(f"lapse is {brief(lapse)} and score {score!r}; a profile is of a likelihood, which is wanted")
    if isinstance(model, Lapse):
        raise ValueError(
            f"lapse is {brief(lapse)} and comparison {model!r}, which has a rate; its base {model.base!r} is wanted"
        )
    wanted = "'profile', two or more rates from 0 to below 1 in their order, or None, is wanted"
    if plain_text(lapse) is not None:
        if plain_text(lapse) != "profile":
            raise ValueError(f"lapse is {brief(lapse)}; {wanted}")
        return np.array(RATES)
    rates = real_numbers("lapse", lapse, "(k,)")
    if rates.ndim != 1 or len(rates) < 2 or not (rates[0] >= 0.0 and rates[-1] < 1.0 and np.all(np.diff(rates) > 0.0)):
        raise ValueError(f"lapse is {brief(lapse)}; {wanted}")
    return rates


def steps_to(model: Any) -> list[Any]:
    """Models whose maxima are to be found in turn, each from that of the one before; the last is the model itself.

    Without lapses there is one maximum; the one of the model is that which grows out of it.
    """
    if not isinstance(model, Lapse) or model.rate == 0.0:
        return [model]
    return [model.base, model._replace(rate=model.rate / 2.0), model]


def profiled(rates: Array, solve: Callable[[float, Array | None], tuple[float, Array]]) -> tuple[LapseProfile, Array]:
    """The profile over a grid, and the theta of its likeliest rate.

    ``solve(rate, start)`` gives the log-likelihood and theta of a rate, from a theta or, for None, from nothing.
    """
    from scipy.optimize import brentq, minimize_scalar

    values, thetas = np.empty(len(rates)), []
    theta: Array | None = None
    for k, rate in enumerate(rates):
        values[k], theta = solve(float(rate), theta)
        thetas.append(theta)
    best = int(np.argmax(values))
    near = thetas[best]

    def value(rate: float) -> float:
        return solve(rate, near)[0]

    low, high = float(rates[max(best - 1, 0)]), float(rates[min(best + 1, len(rates) - 1)])
    found = minimize_scalar(lambda rate: -value(rate), bounds=(low, high), options={"xatol": FINENESS})
    inner = float(found.x), -float(found.fun)
    rate, highest = inner if inner[1] > values[best] else (float(rates[best]), float(values[best]))

    def end(side: int) -> float:
        """Where the profile has dropped, towards the first or the last rate of the grid; that rate if it never does."""
        below = [k for k in range(len(rates)) if values[k] < highest - DROP and side * (rates[k] - rate) > 0.0]
        if not below:
            return float(rates[0] if side < 0 else rates[-1])
        outer = float(rates[below[-1] if side < 0 else below[0]])
        return float(brentq(lambda at: value(at) - highest + DROP, *sorted((rate, outer)), xtol=FINENESS))

    profile = LapseProfile(rate, (end(-1), end(1)), rates, values)
    return profile, solve(rate, near)[1]
