"""Random streams: where every random number comes from.

A stream is named by what it is for: ``SeedSequence`` spawn keys hold (purpose, run, ...), so that no stream depends on
how many others there are, on threads or on the order of work.

Policies and outcomes draw from NumPy generators, one number after the other. The contexts of a simulation take hundreds
of numbers a round. They are expanded, inside the kernel, from two uniforms of the generator; see
:mod:`fastcolst.kernels.splitmix`. So are the draws of a policy that takes more or fewer of them depending on what it
knows.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.random import BitGenerator, Generator, SeedSequence

from fastcolst._checks import brief, looked_at, whole_number

__all__ = [
    "CONFIRMATION",
    "CONTEXTS",
    "FORK",
    "OUTCOMES",
    "POLICY",
    "PROBLEM",
    "STREAM_VERSION",
    "check_rng",
    "entropy_of",
    "generator",
    "label_key",
]

STREAM_VERSION = 2
"""Counted up when a seed comes to give other numbers.

1: contexts from normal variates by the ziggurat. 2: by :mod:`fastcolst.kernels.ball`.
"""

PROBLEM = 1
CONTEXTS = 2
OUTCOMES = 3
POLICY = 4
FORK = 5
CONFIRMATION = 7

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
