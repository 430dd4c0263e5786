"""The pair of arms whose comparison teaches most, exactly, without a look at most of the pairs that are far from it.

With whitened arms a_i = S x_i and margins m = u_i - u_j

    maximise  g(m) |a_i - a_j|^2  over i < j,

where g is 1, F'(m)^2 or the information I(m) = F'(m)^2 / (F(m) (1 - F(m))) of an answer, which fall with |m|.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastcolst._compile import helper
from fastcolst.comparison import pdf, weight
from fastcolst.kernels.pairs import (
    TIE,
    are_equal,
    by_radius,
    by_utility,
    pair_comes_first,
    pair_work_shape,
    pool_of_all,
)
from fastcolst.kernels.pool import squared_distances, squared_radii, whole_blocks
from fastcolst.kernels.selection import comes_first
from fastcolst.kernels.splitmix import word

__all__ = [
    "D_OPTIMAL",
    "VARIANCE",
    "WIDTH",
    "Gain",
    "gain",
    "hash_arms",
    "hash_of_pair",
    "is_among",
    "put_among",
    "teaching_pair",
    "teaching_work_shape",
]

WIDTH, VARIANCE, D_OPTIMAL = 0, 1, 2
"""What is maximised: |z|_{M^-1}, F'(m) |z|_{H^-1}, or I(m) |z|_{H^-1}^2."""

SWEEPS = 4
"""So many steps from an arm to its best partner come first, to have a good pair early."""
HALVINGS = 6
"""Steps of the search for a margin that may matter: to a sixty-fourth of the range of utilities."""
SIGN = np.uint64(2**63)
"""The bits of -0.0."""
SMALLEST = 1e-300
"""In place of a squared distance of 0 that is divided by."""


class Gain(NamedTuple):
    """What is maximised, and among which pairs.

    model: the comparison model; value: one of the above; most: g(0), which g does not exceed; shown: a table of pairs
    that are ruled out, see :func:`put_among`, unless repeats; key: of the order in which equal arms come.
    """

    model: Any
    value: int
    most: float
    shown: Any
    repeats: bool
    key: Any


@helper
def gain(model: Any, value: int, margin: float) -> float:
    """g(m)."""
    if value == VARIANCE:
        density = pdf(model, margin)
        return float(density * density)
    return float(weight(model, margin)) if value == D_OPTIMAL else 1.0


@helper
def teaching_work_shape(n_arms: int, n_features: int) -> tuple[int, int]:
    """Rows and columns of the scratch: what a search for pairs needs, and a row for the arms' hashes."""
    rows, columns = pair_work_shape(n_arms, n_features)
    return rows + 1, columns


@helper
def teaching_pair(work: Any, n_arms: int, objective: Any) -> tuple[int, int]:
    """The pair of largest value, the first in the key's order among equals.

    Parameters
    ----------
    work : float64, of :func:`teaching_work_shape`
        The first d rows hold the whitened arms, the next one their utilities, and the last one their hashes, as
        uint64, where pairs are ruled out. All but these is overwritten.
    n_arms : int
    objective : Gain

    Returns
    -------
    first, second : int
        first < second, but equal arms in the key's order; -1 twice where all pairs are ruled out; one arm alone twice.

    Notes
    -----
    From some arm to its best partner, to that one's best partner and so on gives a good pair in O(n d). With R the
    largest distance from the centroid no pair of a margin m is worth more than g(m) (2 R)^2. So arms are taken in the
    order of their utilities, each with those after it whose utility is near enough; distances come next, and g only
    where a step function above it, times their square, reaches the best value known. Without a g, arms are taken in the
    order of their distances from the centroid, with those for which the sum of two of these is large enough. At worst
    O(n^2 d). Allocates nothing.
    """
    if n_arms == 1:
        return 0, 0
    hashes = work[work.shape[0] - 1].view(np.uint64)
    pool, other = pool_of_all(work[: work.shape[0] - 1], n_arms)
    by_width = objective.value == WIDTH
    pool = by_radius(pool, other) if by_width else by_utility(pool, other)
    reach = 2.0 * _largest_radius(pool)  # no two arms are further apart
    best, end = (-1.0, -1, -1), pool.size if by_width else 1
    widest = _range(pool.utility, pool.size)
    half = _margin_below(objective, widest, 0.5 * objective.most)
    eighth = _margin_below(objective, widest, 0.125 * objective.most)
    known, nearest = -1.0, np.inf
    for step in range(-SWEEPS, pool.size - 1):
        one, start, stop = step, step + 1, pool.size
        if step < 0:
            one, start = (best[2] if best[2] >= 0 else step + SWEEPS), 0
            if one >= pool.size:
                continue
        else:
            if best[0] > 1.1 * known:  # margins that are too large for a somewhat smaller value are so for this one
                known = best[0]
                nearest = _margin_below(objective, widest, (known - _slack(known)) / max(reach * reach, SMALLEST))
            stop = end = _last_partner(
                pool.bound, pool.utility[one], (one, end, pool.size), best[0], objective, nearest
            )
        if start >= stop:
            continue
        squared_distances(pool.points, one, start, stop, pool.squares)
        floor = (best[0] - _slack(best[0])) / objective.most
        if _may_reach(pool.squares, pool.utility, pool.utility[one], (start, stop), (floor, half, eighth)):
            rows = pool.squares, pool.utility, pool.label, hashes
            best = _try_partners(rows, objective, one, (start, stop), best, (half, eighth))
    if best[1] < 0:
        return -1, -1
    first, second = int(pool.label[best[1]]), int(pool.label[best[2]])
    if are_equal(pool, best[1], best[2]):
        return (first, second) if comes_first(objective.key, first, second) else (second, first)
    return min(first, second), max(first, second)


@helper
def _slack(value: float) -> float:
    """Differences from a value that are none."""
    return float(TIE * abs(value))


@helper
def _largest_radius(pool: Any) -> float:
    """The largest distance of an arm from the centroid, a hair more. O(n d)."""
    squared_radii(pool.points, pool.size, pool.squares)
    largest = 0.0
    for j in range(pool.size):
        largest = max(largest, pool.squares[j])
    return float(np.sqrt(largest) * (1.0 + TIE))


@helper
def _range(utility: Any, size: int) -> float:
    """The largest margin of two of the first so many arms. O(n)."""
    lowest, highest = utility[0], utility[0]
    for j in range(size):
        lowest, highest = min(lowest, utility[j]), max(highest, utility[j])
    return float(highest - lowest)


@helper
def _margin_below(objective: Any, widest: float, least: float) -> float:
    """A margin from which on g is below a number: by halving, from 0 to the widest there is; inf where it is not."""
    if objective.value == WIDTH or not gain(objective.model, objective.value, widest) < least:
        return np.inf
    low, high = 0.0, widest
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if gain(objective.model, objective.value, middle) < least:
            high = middle
        else:
            low = middle
    return float(high)


@helper
def _last_partner(
    bound: Any, utility: float, places: tuple[int, int, int], value: float, objective: Any, nearest: float
) -> int:
    """The end of the columns that may hold a partner of an arm, in the order of the bounds.

    ``places`` are the arm's column, the end for the arm before, and the number of arms.
    """
    one, end, size = places
    if objective.value == WIDTH:
        while end > one + 1 and (bound[one] + bound[end - 1]) ** 2 < value * (1.0 - 4.0 * TIE):
            end -= 1
        return end
    while end < size and not bound[end] < utility - nearest:
        end += 1
    return end


@helper
def _may_reach(
    squares: Any, utility: Any, own: float, columns: tuple[int, int], limits: tuple[float, float, float]
) -> bool:
    """Whether a pair of an arm of utility ``own`` with one in the blocks of a range may reach a value. In vectors.

    ``limits`` are the floor of the squared distance, where g is g(0), and the margins from which on it has to be twice
    and eight times that.
    """
    first, last = whole_blocks(columns[0], columns[1])
    floor, half, eighth = limits
    hits = 0
    for j in range(first, last):
        margin, square = np.abs(utility[j] - own), squares[j]
        near = (margin < half) | (square >= 2.0 * floor)
        hits += (square >= floor) & near & ((margin < eighth) | (square >= 8.0 * floor))
    return hits > 0


@helper
def _try_partners(
    rows: tuple[Any, Any, Any, Any],
    objective: Any,
    arm: int,
    columns: tuple[int, int],
    best: tuple[float, int, int],
    margins: tuple[float, float],
) -> tuple[float, int, int]:
    """The better of the best pair so far and the best one of an arm with those in a range of columns.

    ``rows`` are squared distances, utilities, labels and hashes; ``margins`` as in :func:`_may_reach`.
    """
    squares, utility, label, hashes = rows
    value, first, second = best
    slack, own = _slack(value), utility[arm]
    floor = (value - slack) / objective.most
    for j in range(columns[0], columns[1]):
        margin, square = np.abs(own - utility[j]), squares[j]
        times = 1.0 if margin < margins[0] else 2.0 if margin < margins[1] else 8.0
        if square < times * floor or j == arm:
            continue
        found = gain(objective.model, objective.value, own - utility[j]) * square
        if found < value - slack:
            continue
        here = int(label[arm]), int(label[j])
        if objective.repeats or not is_among(objective.shown, hash_of_pair(hashes, here[0], here[1])):
            is_larger = found > value + slack
            known = (0, 0) if is_larger else (int(label[first]), int(label[second]))
            if is_larger or pair_comes_first(objective.key, here, known):
                first, second = arm, j
            if found > value:
                value, slack = found, _slack(found)
                floor = (value - slack) / objective.most
    return value, first, second


# --- pairs that were shown ----------------------------------------------------------------------------------


@helper
def hash_arms(contexts: Any, out: Any) -> None:
    """A word for each arm, by its features alone. O(n d).

    ``contexts`` is (d, n) float64 with arms as columns; ``out`` (n or more,) uint64 is overwritten.
    """
    for j in range(contexts.shape[1]):
        out[j] = 0
    for k in range(contexts.shape[0]):
        bits = contexts[k].view(np.uint64)
        for j in range(contexts.shape[1]):
            out[j] = word(out[j] ^ (bits[j] if bits[j] != SIGN else np.uint64(0)))  # -0.0 is 0.0


@helper
def hash_of_pair(hashes: Any, one: int, other: int) -> Any:
    """The word of two arms, in either order; never 0."""
    return word(hashes[one] + hashes[other]) | np.uint64(1)


@helper
def is_among(table: Any, hashed: Any) -> bool:
    """Whether a word is in a table of :func:`put_among`. O(1) as long as half of the table is empty."""
    place, mask = hashed >> np.uint64(1), np.uint64(table.size - 1)
    while table[place & mask] != np.uint64(0):
        if table[place & mask] == hashed:
            return True
        place += np.uint64(1)
    return False


@helper
def put_among(table: Any, hashed: Any) -> bool:
    """Put a word into a table, of a power of two places that are 0 where they are empty; False where it was there."""
    place, mask = hashed >> np.uint64(1), np.uint64(table.size - 1)
    while table[place & mask] != np.uint64(0):
        if table[place & mask] == hashed:
            return False
        place += np.uint64(1)
    table[place & mask] = hashed
    return True
