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


def first_of_the_largest(pairs: list[tuple[int, int]], values: Floats, size: float) -> tuple[int, int]:
    """Return the first pair whose value equals the largest one up to rounding, which is 5e-13 of the terms' size.

    >>> first_of_the_largest([(0, 1), (0, 2), (1, 2)], np.array([0.1, 0.3, 0.1 + 0.2]), 0.0)
    (0, 2)
    """
    largest = float(np.max(values))
    return pairs[int(np.argmax(values >= largest - 5e-13 * (abs(largest) + size)))]
