"""The pair of arms whose comparison teaches most, exactly, without a look at most of the pairs.

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
    in_order,
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
"""So many steps from an arm to its best partner come first, to have a good pair early: with one of them a search among
2,000 arms takes 1.3 times as long."""
GENEROUS = 1.0 - 1e-4
"""Squared distances that reach so much of what they must are looked at: for what rounds, and for what nobody looked at
when the shape of g was sought. Bounds only exclude, and who is not excluded is looked at exactly."""
ALONG = 1.0 - 1e-6
"""So much of the direction of the utilities is taken out of the distances at most, lest rounding takes more."""
SMALLEST = 1e-300
"""In place of a 0 that is divided by."""
SIGN = np.uint64(2**63)
"""The bits of -0.0."""


class Gain(NamedTuple):
    """What is maximised, and among which pairs.

    model: the comparison model; value: one of the above; most: g(0); second, fourth: k and l with which g(m) is at most
    g(0) / (1 + k m^2 + l m^4); shown: a table of pairs that are ruled out, see :func:`put_among`, unless repeats; key:
    of the order in which equal arms come.
    """

    model: Any
    value: int
    most: float
    second: float
    fourth: float
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
def teaching_pair(work: Any, n_arms: int, theta_norm: float, objective: Any) -> tuple[int, int]:
    """The pair of largest value, the first in the key's order among equals.

    Parameters
    ----------
    work : float64, of :func:`teaching_work_shape`
        The first d rows hold the whitened arms, the next one their utilities, and the last one their hashes, as
        uint64, where pairs are ruled out. All but these is overwritten.
    n_arms : int
    theta_norm : float
        |theta|_H, the norm of the w with which utilities are w'a_i; inf where they are no such function.
    objective : Gain

    Returns
    -------
    first, second : int
        first < second, but equal arms in the key's order; -1 twice where all pairs are ruled out; one arm alone twice.

    Notes
    -----
    From some arm to its best partner, to that one's best partner and so on gives a good pair in O(n d), of a value
    g(0) B^2. As g(m) <= g(0) / (1 + k m^2 + l m^4), a better pair has

        |a_i - a_j|^2 >= B^2 (1 + k m^2 + l m^4).

    Since m = w'(a_i - a_j), |a_i - a_j|^2 - s m^2 with s <= |w|^-2 is the square of a distance too, in which the
    direction of w counts less. By the triangle inequality that distance is at most r_i + r_j, where r are the distances
    from the centroid, and of a better pair it is at least

        T^2 = min over m of B^2 (1 + k m^2 + l m^4) - s m^2.

    So only pairs of r_i + r_j >= T are looked at, those of the largest r first, and g is asked for where the first
    inequality holds. That is worth a lot: the more H knows, the longer the cloud of whitened arms is along w, where it
    is margins that make the distance, and the rounder it is across. With 50 arms hardly a pair is left out by the
    bounds, of 2,000 nine in ten are. The term with l pays for the information alone, where a search among 2,000
    arms takes 2.7 times as long without it. At worst O(n^2 d). Allocates nothing.
    """
    if n_arms == 1:
        return 0, 0
    hashes = work[work.shape[0] - 1].view(np.uint64)
    arms, other = pool_of_all(work[: work.shape[0] - 1], n_arms)
    arms.utility[arms.size :] = np.nan  # these columns fill blocks: no pair with them reaches anything
    best, one = (-1.0, -1, -1), 0
    pool, end, share = arms, arms.size, 0.0
    for step in range(-SWEEPS, arms.size - 1):
        start = 0
        if step < 0:
            one = max(best[2], 0)
        else:
            if step == 0:
                share = _bound(arms, theta_norm, objective, best[0])
                pool = in_order(arms, other)
                pool.utility[pool.size :] = np.nan
            one, start = step, step + 1
            rest = np.sqrt(_least_square(objective, _floor(objective, best[0]), share)) - pool.bound[one]
            while end > start and pool.bound[end - 1] < rest:
                end -= 1
            if start >= end:
                break
        squared_distances(pool.points, one, start, end, pool.squares)
        if _may_reach(pool, one, (start, end), objective, _floor(objective, best[0])):
            best = _try_partners(pool, hashes, objective, one, (start, end), best)
    value, first, second = best
    if value < 0.0:
        return -1, -1
    if are_equal(arms, first, second):
        return (first, second) if comes_first(objective.key, first, second) else (second, first)
    return min(first, second), max(first, second)


@helper
def _slack(value: float) -> float:
    """Differences from a value that are none."""
    return float(TIE * abs(value))


@helper
def _floor(objective: Any, value: float) -> float:
    """B^2, a bit less: the squared distance that a pair without a margin needs for a value; 0 for none."""
    return max(value, 0.0) / objective.most * GENEROUS


@helper
def _bound(pool: Any, theta_norm: float, objective: Any, value: float) -> float:
    """Set the bounds of arms, r_i^2 = |a_i - c|^2 - s (u_i - w'c)^2 with the centroid c; return s. O(n d).

    ``value`` is g(0) B^2. From k B^2 on, s costs some of T and takes some of the bounds: of a few it is the one for
    which T^2 is the largest part of the mean square of these.
    """
    squared_radii(pool.points, pool.size, pool.bound)
    centre, square, spread = 0.0, 0.0, 0.0
    for j in range(pool.size):
        centre += pool.utility[j] / pool.size
    for j in range(pool.size):
        square += pool.bound[j]
        spread += (pool.utility[j] - centre) * (pool.utility[j] - centre)
    floor = _floor(objective, value)
    free = floor * objective.second
    whole = ALONG / max(theta_norm, 1e-150) ** 2
    share, most = 0.0, -1.0
    for step in range(5):
        given = min(free, whole) + max(whole - free, 0.0) * 0.25 * step
        part = _least_square(objective, floor, given) / max(square - given * spread, SMALLEST)
        if part > most:
            share, most = given, part
    for j in range(pool.size):
        margin = pool.utility[j] - centre
        square = pool.bound[j] - share * margin * margin
        pool.bound[j] = np.sqrt(max(square, 0.0)) if square < np.inf else np.inf
    return share


@helper
def _least_square(objective: Any, floor: float, share: float) -> float:
    """T^2 of B^2 and s, by its derivative; 0 where it is less."""
    excess = share - floor * objective.second
    if excess <= 0.0:
        return floor
    return max(floor - excess * excess / max(4.0 * floor * objective.fourth, SMALLEST), 0.0)


@helper
def _may_reach(pool: Any, arm: int, columns: tuple[int, int], objective: Any, floor: float) -> bool:
    """Whether a pair of an arm with one in the blocks of a range may reach a value, of which B^2 is ``floor``.

    In vectors. The squared distances are in place.
    """
    first, last = whole_blocks(columns[0], columns[1])
    squares, utility, own = pool.squares, pool.utility, pool.utility[arm]
    second, fourth = floor * objective.second, floor * objective.fourth
    hits = 0
    for j in range(first, last):
        square = (utility[j] - own) * (utility[j] - own)
        hits += squares[j] >= floor + square * (second + fourth * square)
    return hits > 0 or floor == 0.0


@helper
def _try_partners(
    pool: Any, hashes: Any, objective: Any, arm: int, columns: tuple[int, int], best: tuple[float, int, int]
) -> tuple[float, int, int]:
    """The better of the best pair so far, a value and two arms, and the best one of an arm in a range of columns.

    The squared distances are in place.
    """
    value, first, second = best
    slack, own, here = _slack(value), pool.utility[arm], int(pool.label[arm])
    least = _floor(objective, value)
    for j in range(columns[0], columns[1]):
        margin, other = own - pool.utility[j], int(pool.label[j])
        square = margin * margin
        if pool.squares[j] < least * (1.0 + square * (objective.second + objective.fourth * square)) or j == arm:
            continue
        found = gain(objective.model, objective.value, margin) * pool.squares[j]
        if found < value - slack:
            continue
        if objective.repeats or not is_among(objective.shown, hash_of_pair(hashes, here, other)):
            is_larger = found > value + slack
            if is_larger or pair_comes_first(objective.key, (here, other), (first, second)):
                first, second = here, other
            if found > value:
                value, slack = found, _slack(found)
                least = _floor(objective, value)
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
