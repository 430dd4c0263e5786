"""Beta posteriors of win counts: how likely one lies above 1/2, and which of several is the largest.

After S wins and F losses under a uniform prior the chance to win has the law Beta(S + 1, F + 1), with the density

    f(x) = x^S (1 - x)^F / B(S + 1, F + 1),

which is log-concave. Counts need not be whole: a tie is half a win and half a loss, and answers have weights. Uniforms
are expanded from a SplitMix64 state, since how many it takes depends on the counts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastcolst._compile import helper
from fastcolst.kernels.splitmix import GOLDEN, uniform

__all__ = [
    "MOST_COUNTED",
    "beta_variate",
    "chance_above_half",
    "chance_after_win",
    "largest_beta",
    "leave_out",
    "likely_winner",
    "log_norm",
]

MOST_COUNTED = 1e12
"""Wins and losses together: where there are more, one win more is lost in rounding sooner or later."""
FEWEST = 1e-9
"""Fewer wins or losses than that count as none in a variate, which shifts its law by no more."""

_LOG2 = math.log(2.0)
_LOG4 = math.log(4.0)
_LOG_2PI = math.log(2.0 * math.pi)
_BELOW_ONE = math.nextafter(1.0, 0.0)
_HALF_ULP = 2.0**-54
"""Added to a uniform in [0, 1), multiples of 2^-53: no logarithm of 0."""

_SMALL = 16
_REMAINDERS = np.array(
    [0.0] + [math.lgamma(x) - ((x - 0.5) * math.log(x) - x + 0.5 * math.log(2.0 * math.pi)) for x in range(1, _SMALL)]
)
"""Stirling's remainder of log Gamma(x) for x < 16; the entry for 0 is not used."""

_E4 = math.exp(4.0)
_TINY = 1e-300
"""In place of 0 where the continued fraction divides by one of its parts."""
_EPSILON = 2.0**-51
"""The continued fraction ends with a term that changes it by less."""
_MOST_TERMS = 4_000_000
"""Of the continued fraction; with ``MOST_COUNTED`` wins and losses it needs of the order of a million."""


@helper
def _stirling_remainder(x: float) -> float:
    """log Gamma(x) - ((x - 1/2) log x - x + log(2 pi)/2) for x >= 1, to 1e-15.

    Below 16 that of x + 1 differs from that of x by 1 - (x + 1/2) log(1 + 1/x).
    """
    if x < _SMALL and x == np.floor(x):
        return float(_REMAINDERS[int(x)])
    below = 0.0
    while x < _SMALL:
        below += (x + 0.5) * np.log1p(1.0 / x) - 1.0
        x += 1.0
    y = 1.0 / (x * x)
    return float(below + (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)))) / x)


@helper
def _log_h(wins: float, losses: float) -> float:
    """log h, with h = 2^-(a+b) / B(a, b), a = wins + 1 and b = losses + 1: a quarter of the density at 1/2.

    Written in (a - b)/(a + b), so that the powers cancel before they are rounded: log Gamma(a + b) alone would cost
    nine digits at a million comparisons.
    """
    a, b = wins + 1.0, losses + 1.0
    total = a + b
    lead = (a - b) / total
    powers = a * np.log1p(lead) + b * np.log1p(-lead)
    remainders = _stirling_remainder(a) + _stirling_remainder(b) - _stirling_remainder(total)
    return float(0.5 * (np.log(a * b / total) - _LOG_2PI) - powers - remainders)


@helper
def log_norm(wins: float, losses: float) -> float:
    """-log B(wins + 1, losses + 1), the constant of the log-density. O(1)."""
    return _log_h(wins, losses) + (wins + losses + 2.0) * _LOG2


@helper
def chance_after_win(chance: float, wins: float, losses: float) -> float:
    """P(theta > 1/2) for Beta(wins + 2, losses + 1), given that for Beta(wins + 1, losses + 1).

    With a = wins + 1 and b = losses + 1 the chance is P(Bin(a+b-1, 1/2) <= a-1), and one more win adds h/a.

    Notes
    -----
    O(1). Each step rounds once, by 1e-16: after a million answers 1e-13 is left of that, absolutely, and the result is
    kept within [0, 1].
    """
    return float(min(1.0, chance + np.exp(_log_h(wins, losses)) / (wins + 1.0)))


@helper
def chance_above_half(wins: float, losses: float) -> float:
    """P(theta > 1/2) for Beta(wins + 1, losses + 1), whatever came before.

    With a = wins + 1 and b = losses + 1 the smaller of the two tails is h/a or h/b times a continued fraction, which
    Lentz's algorithm evaluates from the front.

    Notes
    -----
    O(sqrt(wins + losses)) at worst, where wins and losses are equal.

    References
    ----------
    DLMF 8.17.22, at x = 1/2.
    """
    a, b = max(wins, losses) + 1.0, min(wins, losses) + 1.0
    front, back = 1.0, 1.0 - (a + b) / (2.0 * (a + 1.0))
    back = 1.0 / (back if back != 0.0 else _TINY)
    fraction = back
    for m in range(1, _MOST_TERMS):
        double = 2.0 * m
        change = 1.0
        for term in (
            m * (b - m) / (2.0 * (a - 1.0 + double) * (a + double)),
            -(a + m) * (a + b + m) / (2.0 * (a + double) * (a + 1.0 + double)),
        ):
            back, front = 1.0 + term * back, 1.0 + term / front
            back = 1.0 / (back if back != 0.0 else _TINY)
            front = front if front != 0.0 else _TINY
            change = front * back
            fraction *= change
        if abs(change - 1.0) < _EPSILON:
            break
    tail = min(0.5, np.exp(_log_h(wins, losses)) / a * fraction)
    return float(1.0 - tail if wins >= losses else tail)


@helper
def _log_density(wins: float, losses: float, constant: float, x: float) -> float:
    """log f(x) for 0 < x < 1, with the constant -log B(wins + 1, losses + 1)."""
    return float(wins * np.log(x) + losses * np.log1p(-x) + constant)


@helper
def _next_uniform(state: Any) -> Any:
    """Next state and a uniform in (0, 1)."""
    state = state + GOLDEN
    return state, uniform(state) + _HALF_ULP


@helper
def beta_variate(wins: float, losses: float, state: Any) -> Any:
    """Next state and a variate of Beta(wins + 1, losses + 1), strictly between 0 and 1.

    Notes
    -----
    Exact. A power of a uniform where a count is 0, or below 1e-9; else Cheng's algorithm BB, which takes fewer than 1.5
    attempts on average.

    References
    ----------
    Cheng (1978), Generating beta variates with nonintegral shape parameters, algorithm BB.
    """
    if min(wins, losses) < FEWEST:  # where both are tiny the algorithm would divide 0 by 0
        state, u = _next_uniform(state)
        log_u = np.log(u) / (wins + losses + 1.0)
        x = np.exp(log_u) if losses <= wins else -np.expm1(log_u)
        return state, min(max(x, _HALF_ULP), _BELOW_ONE)
    a, b = min(wins, losses) + 1.0, max(wins, losses) + 1.0
    total = a + b
    beta = np.sqrt((total - 2.0) / (2.0 * a * b - total))
    gamma = a + 1.0 / beta
    while True:
        state, u = _next_uniform(state)
        state, v = _next_uniform(state)
        logit = beta * np.log(u / (1.0 - u))
        w = a * np.exp(logit)
        z = u * u * v
        r = gamma * logit - _LOG4
        s = a + r - w
        if s + 2.609437 >= 5.0 * z:  # less than 1 + log 5: accepted without a logarithm
            break
        if r + total * np.log(total / (b + w)) >= np.log(z):
            break
    x = (w if wins <= losses else b) / (b + w)
    return state, min(max(x, _HALF_ULP), _BELOW_ONE)


@helper
def _is_hopeless(law: Any, floor: Any, u: float) -> bool:
    """True when ``u`` says at once that a variate does not lie above a floor, given as (m, log m, log(1 - m)).

    Beyond the mode P(theta > m) <= f(m) min(1 - m, 1/r), by the tangent of :func:`_beta_above`, and f(m) = exp(4 - y)
    is at most e^4 over the first terms of exp(y), where y > 0. No branch, no exponential: a loop over it runs in
    vectors.
    What is hopeless remains so for every higher floor. With f(m) (1 - m) alone for a bound Self-Sparring takes half as
    long again among 50 arms that are as good as each other.
    """
    wins, losses, constant = law
    m, log_m, log_span = floor
    span = 1.0 - m
    y = 4.0 - (wins * log_m + losses * log_span + constant)
    rate = losses / span - wins / m
    least = 1.0 + y * (1.0 + y * (0.5 + y * (1.0 / 6.0 + y * (1.0 / 24.0))))
    beyond_mode = wins * span <= losses * m
    return bool(beyond_mode & (y > 0.0) & (u * max(rate, 1.0 / span) * least >= _E4))


@helper
def _beta_above(law: Any, floor: Any, u: float, state: Any) -> Any:
    """Next state and a variate of Beta(wins + 1, losses + 1) if it lies above the floor m, else 0.

    Where the density falls beyond m, it lies below its tangent in the log-scale, f(m) exp(-r (x - m)), and the area q
    under that curve bounds the chance to lie above m. So: with probability 1 - q (``u`` decides) the variate does not;
    else it is a draw from the curve, with probability density over curve, and otherwise below m after all.
    """
    wins, losses, constant = law
    m, log_m, log_span = floor
    span = 1.0 - m
    if wins * span <= losses * m:
        height = wins * log_m + losses * log_span + constant
        rate = losses / span - wins / m
        if rate * span < 1e-6:  # a flat curve, which the density does not exceed either
            rate, area = 0.0, span
        else:
            area = -np.expm1(-rate * span) / rate
        q = np.exp(height) * area
        if q < 1.0:
            if u >= q:
                return state, 0.0
            state, v = _next_uniform(state)
            state, w = _next_uniform(state)
            beyond = v * span if rate == 0.0 else -np.log1p(-v * rate * area) / rate
            x = min(m + beyond, _BELOW_ONE)
            accepted = np.log(w) < _log_density(wins, losses, constant, x) - height + rate * beyond
            return state, x if accepted else 0.0
    state, x = beta_variate(wins, losses, state)
    return state, x if x > m else 0.0


@helper
def largest_beta(laws: Any, leader: int, value: float, state: Any, samples: Any) -> Any:
    """Which of independent Beta variates is the largest, when one of them is known.

    Parameters
    ----------
    laws : (3 or more, n) float64
        In three rows wins, losses and their :func:`log_norm`; 0, 1 and -inf leave a variate out.
    leader : int
        The one that is known. A likely winner saves most of the work.
    value : float
        Its variate, between 0 and 1, both excluded.
    state : uint64
        Of SplitMix64.
    samples : (n,) float64
        Overwritten by the variates; by 0 in place of one that is below the largest before it.

    Returns
    -------
    uint64
        The next state.

    Notes
    -----
    The law of the largest and of its place is that of n full draws. O(n): a uniform and a few products for each, an
    exponential or more only for those that come near. Allocates nothing.
    """
    wins, losses, constants = laws[0], laws[1], laws[2]
    floor = (value, np.log(value), np.log1p(-value))
    for i in range(samples.size):
        u = uniform(state + np.uint64(i + 1) * GOLDEN) + _HALF_ULP
        samples[i] = 0.0 if _is_hopeless((wins[i], losses[i], constants[i]), floor, u) else u
    samples[leader] = 0.0
    state = state + np.uint64(samples.size) * GOLDEN
    for i in range(samples.size):
        u = samples[i]
        if u == 0.0:
            continue
        law = (wins[i], losses[i], constants[i])
        samples[i] = 0.0
        if not _is_hopeless(law, floor, u):
            state, x = _beta_above(law, floor, u, state)
            if x > 0.0:
                samples[i] = x
                floor = (x, np.log(x), np.log1p(-x))
    samples[leader] = value
    return state


@helper
def leave_out(laws: Any, place: int) -> None:
    """Make a law one whose variate :func:`largest_beta` leaves out."""
    laws[0, place], laws[1, place], laws[2, place] = 0.0, 1.0, -np.inf


@helper
def likely_winner(laws: Any) -> int:
    """The variate of the highest expectation, (wins + 1)/(wins + losses + 2), none that is left out. O(n).

    ``laws`` as in :func:`largest_beta`.
    """
    best, highest = 0, -1.0
    for i in range(laws.shape[1]):
        share = (laws[0, i] + 1.0) / (laws[0, i] + laws[1, i] + 2.0)
        if laws[2, i] > -np.inf and share > highest:
            best, highest = i, share
    return best
