"""Random streams: where every random number comes from.

A stream is named by what it is for: ``SeedSequence`` spawn keys hold (purpose, run, ...), so that no stream depends on
how many others there are, on threads or on the order of work.

Policies and outcomes draw from NumPy generators. The contexts of a simulation take hundreds of normal variates a round,
and a generator's call for one costs as much as the arithmetic of ten; they are therefore expanded from two uniforms of
the generator by SplitMix64, inside the kernel. So are the draws of a policy that takes more or fewer of them depending
on what it knows.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.random import BitGenerator, Generator, SeedSequence

from fastcolst._checks import brief, looked_at, whole_number
from fastcolst._compile import helper

__all__ = ["CONTEXTS", "FORK", "OUTCOMES", "POLICY", "PROBLEM", "check_rng", "entropy_of", "generator", "label_key"]

PROBLEM = 1
CONTEXTS = 2
OUTCOMES = 3
POLICY = 4
FORK = 5

LARGEST_SEED = 2**4096
"""Python does not write much longer numbers in decimals, and results and messages do."""


def entropy_of(rng: Any) -> int:
    """The number that repeats everything drawn under an ``rng`` argument.

    Parameters
    ----------
    rng : int, sequence of int, SeedSequence, Generator, BitGenerator or None
        A non-negative int stands for itself. From a Generator 128 bits are drawn, once. None gives fresh entropy.

    Raises
    ------
    ValueError
        For anything else, a bool, or a negative number.
    """
    check_rng(rng)
    if isinstance(rng, (int, np.integer)):
        return int(rng)
    if rng is None:
        rng = SeedSequence()
    if isinstance(rng, SeedSequence):
        if isinstance(rng.entropy, int) and not rng.spawn_key:
            return rng.entropy
        return int.from_bytes(rng.generate_state(4, np.uint32).tobytes(), "little")
    return int.from_bytes(np.random.default_rng(rng).bytes(16), "little")


def check_rng(rng: Any) -> None:
    """Refuse what is no ``rng`` argument, and draw nothing: a call that is refused later must not have moved a stream.

    Raises
    ------
    ValueError
        See :func:`entropy_of`.
    """
    is_int = isinstance(rng, (int, np.integer))  # bools and durations as well, which are no seeds
    whole = whole_number(rng) if is_int else None
    if whole is not None and whole < 0:
        raise ValueError(f"rng is {brief(whole)}; a seed must not be negative")
    if whole is not None and whole >= LARGEST_SEED:
        raise ValueError(f"rng is {brief(whole)}; a seed must be below 2^{LARGEST_SEED.bit_length() - 1}")
    known = whole is not None or rng is None or isinstance(rng, (SeedSequence, Generator, BitGenerator))
    if not known and not is_int and not isinstance(rng, np.bool_):
        known = looked_at(np.random.default_rng, rng) is not None  # sequences of int, RandomState, whatever NumPy will
    if not known:
        raise ValueError(f"rng is {brief(rng)}; wanted an int, a SeedSequence, a Generator or None")


def generator(entropy: int, *key: int) -> Generator:
    """The generator of the stream with this spawn key. SFC64 is NumPy's fastest, and passes every known test."""
    return Generator(np.random.SFC64(SeedSequence(entropy, spawn_key=key)))


def label_key(label: str) -> tuple[int, ...]:
    """A policy's label as part of a spawn key: 128 bits of its SHA-256."""
    digest = hashlib.sha256(label.encode()).digest()
    return tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))


# --- SplitMix64 (Steele, Lea, Flood 2014) and the ziggurat (Marsaglia, Tsang 2000) --------------------------

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""By which the states of SplitMix64 follow one another."""

_MIX1, _MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11, _S32 = (np.uint64(shift) for shift in (30, 27, 31, 11, 32))
_LAYER, _ONE = np.uint64(255), np.uint64(1)

_TAIL = 3.6541528853610088
"""Where the tail of the normal density begins when it is cut into 256 layers of equal area."""


def _ziggurat() -> tuple[Any, Any, Any]:
    """For 256 layers: width of a unit of the signed mantissa, mantissas accepted at once, density at the edges."""

    def density(x: float) -> float:
        return math.exp(-0.5 * x * x)

    tail_area = math.sqrt(math.pi / 2.0) * math.erfc(_TAIL / math.sqrt(2.0))
    area = _TAIL * density(_TAIL) + tail_area
    edges = [area / density(_TAIL), _TAIL]
    while len(edges) < 256:
        edges.append(math.sqrt(-2.0 * math.log(area / edges[-1] + density(edges[-1]))))
    edges.append(0.0)
    x = np.array(edges)
    return x[:-1] * 2.0**-51, (x[1:] / x[:-1] * 2.0**51).astype(np.int64), np.exp(-0.5 * x * x)


_WIDTH, _INSIDE, _DENSITY = _ziggurat()


@helper
def key_of(rng: Any) -> Any:
    """A 64-bit key from the next two uniforms of a generator."""
    high = rng.random()
    return key_from(high, rng.random())


@helper
def key_from(high: float, low: float) -> Any:
    """A 64-bit key from two uniforms in [0, 1)."""
    return (np.uint64(np.int64(high * 4294967296.0)) << _S32) | np.uint64(np.int64(low * 4294967296.0))


@helper
def word(state: Any) -> Any:
    """The 64 random bits of a SplitMix64 state. States follow one another by adding ``GOLDEN``."""
    z = (state ^ (state >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


@helper
def word53(state: Any) -> Any:
    """A uniform whole number in [0, 2^53) from a state, int64."""
    return np.int64(word(state) >> _S11)


@helper
def uniform(state: Any) -> float:
    """A uniform in [0, 1) from a state, a multiple of 2^-53."""
    return float(word53(state) * 1.1102230246251565e-16)


@helper
def fill_normal(state: Any, out: Any, rejected: Any) -> Any:
    """Fill a vector with standard normal variates.

    Parameters
    ----------
    state : uint64
        Where the stream stands.
    out : (n,) float64
        Overwritten.
    rejected : (n,) int64
        Scratch: the variates that fell outside their layer's rectangle, 1 in 80. Deciding these after the others keeps
        the first loop free of waits: 2.4 ns a variate against 4 with the decision inside, and 8 to 11 for a generator's
        call.

    Returns
    -------
    uint64
        Where the stream stands now.
    """
    start = np.uint64(state)
    n_rejected = 0
    for i in range(out.size):
        layer, mantissa = _layer_and_mantissa(start + np.uint64(i + 1) * GOLDEN)
        out[i] = mantissa * _WIDTH[layer]
        if abs(mantissa) >= _INSIDE[layer]:
            rejected[n_rejected] = i
            n_rejected += 1
    state = start + np.uint64(out.size) * GOLDEN
    for r in range(n_rejected):
        i = rejected[r]
        layer, mantissa = _layer_and_mantissa(start + np.uint64(i + 1) * GOLDEN)
        state, out[i] = _decide(state, layer, mantissa)
    return state


@helper
def _layer_and_mantissa(state: Any) -> Any:
    """A layer of the ziggurat and a signed 52-bit place in it; signed, so that no branch decides on the sign."""
    bits = word(state)
    return bits & _LAYER, np.int64(bits) >> 12


@helper
def _decide(state: Any, layer: Any, mantissa: Any) -> Any:
    """Next state and the variate that a layer and a mantissa lead to."""
    while abs(mantissa) >= _INSIDE[layer]:
        value = mantissa * _WIDTH[layer]
        if layer == 0:
            return _tail(state, value)
        state += GOLDEN
        height = _DENSITY[layer] + (_DENSITY[layer + _ONE] - _DENSITY[layer]) * uniform(state)
        if height < math.exp(-0.5 * value * value):
            return state, value
        state += GOLDEN
        layer, mantissa = _layer_and_mantissa(state)
    return state, mantissa * _WIDTH[layer]


@helper
def _tail(state: Any, side: float) -> Any:
    """Next state and a variate beyond ``_TAIL``, on the side that the sign tells (Marsaglia 1964)."""
    while True:
        state += GOLDEN
        beyond = -math.log1p(-uniform(state)) / _TAIL
        state += GOLDEN
        exponential = -math.log1p(-uniform(state))
        if exponential + exponential > beyond * beyond:
            return state, (_TAIL + beyond if side > 0.0 else -_TAIL - beyond)
