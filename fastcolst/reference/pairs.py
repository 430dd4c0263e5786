"""Choices of a pair of arms that several algorithms make."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastcolst.reference.linalg import Floats, norms


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


def tie_key(uniform: float) -> int:
    """Return the key of a round's random order of the arms: the 53 bits of the round's second uniform."""
    return int(uniform * 2.0**53)


def word(state: int) -> int:
    """Return the 64 random bits of a state of SplitMix64 (Steele, Lea, Flood 2014).

    >>> hex(word(0x9E3779B97F4A7C15))  # the first output for the seed 0
    '0xe220a8397b1dcdaf'
    """
    z = state % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def random_order(key: int, n_arms: int) -> list[int]:
    """Return a word for each arm; of arms with equal values the one with the largest word comes first."""
    return [word(key + (i + 1) * 0x9E3779B97F4A7C15) for i in range(n_arms)]


def first_of_equals(values: Floats, key: int) -> int:
    """Return the index of the largest value, among equals the one that comes first in the key's order.

    >>> [first_of_equals(np.array([1.0, 0.0, 1.0]), key) for key in range(6)]
    [0, 2, 2, 2, 2, 0]
    """
    order = random_order(key, len(values))
    return max((int(i) for i in np.flatnonzero(values == np.max(values))), key=lambda i: order[i])


def first_of_the_largest(
    pairs: list[tuple[int, int]], values: Floats, size: float, order: list[int]
) -> tuple[int, int]:
    """Return the pair of the largest value; values that differ by 5e-13 of the terms' size, or less, are equal.

    Of equal pairs the one comes first whose earlier arm does, and then the one whose later arm does; `order` holds
    the arms' words.

    >>> first_of_the_largest([(0, 1), (0, 2), (1, 2)], np.array([0.1, 0.3, 0.1 + 0.2]), 0.0, [1, 2, 3])
    (1, 2)
    """
    largest = float(np.max(values))
    equals = [p for p, value in zip(pairs, values, strict=True) if value >= largest - 5e-13 * (abs(largest) + size)]
    return max(equals, key=lambda pair: sorted((order[i] for i in pair), reverse=True))


def in_order(pair: tuple[int, int], utilities: Floats, distances: Floats, order: list[int]) -> tuple[int, int]:
    """Return a pair as it is shown: the lower index first, of two equal arms the one that comes first."""
    i, j = min(pair), max(pair)
    are_equal = utilities[i] == utilities[j] and distances[i, j] == 0.0
    return (j, i) if are_equal and order[j] > order[i] else (i, j)
