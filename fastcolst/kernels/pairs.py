"""Choosing both arms at once: the best of all pairs, exactly, without a look at most of them.

With whitened arms a_i = S x_i two rules have one form,

    maximise  w (u_i + u_j) + s |a_i - a_j|  over the pairs of arms that are in the running.

MaxInP wants the farthest pair (w = 0, s = 1) of the arms that no other arm dominates, MaxPairUCB the pair of highest
optimistic utility (w = 1, s = c) of all arms, where an arm may meet itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastcolst._compile import helper
from fastcolst.kernels.dominance import is_candidate, remove_dominated
from fastcolst.kernels.pool import (
    BLOCK,
    CANDIDATE,
    DOMINATED,
    N_EXTRA,
    pool_of,
    squared_distances,
    squared_radii,
    whole_blocks,
)
from fastcolst.kernels.selection import comes_first

__all__ = [
    "TIE",
    "are_equal",
    "in_order",
    "informative_pair",
    "optimistic_pair",
    "optimistic_pair_of",
    "pair_comes_first",
    "pair_work_shape",
    "pool_of_all",
]

N_SCRATCH = 2
"""Rows of scratch in a pool."""
TIE = 5e-13
"""Pairs whose values differ by less, relative to their terms, are equal: a random order of the arms decides."""
TILE = 512
"""So many arms are compared with all others before the next ones: with 10 features they fill the L1 cache. 2,000 arms
take 1.2 times as long without tiles."""


class PairObjective(NamedTuple):
    """What is maximised, w (u_i + u_j) + s |a_i - a_j| with ``weight`` w and ``scale`` s, and among whom.

    eta: arms that others dominate at this scale are no candidates; with_itself: whether i = j counts; size: how large
    the terms of utility can be, which is what their rounding errors are relative to; key: of the order in which equal
    arms come, see :func:`fastcolst.kernels.selection.tie_key`.
    """

    weight: float
    scale: float
    eta: float
    with_itself: bool
    size: float
    key: Any


@helper
def pair_work_shape(n_arms: int, n_features: int) -> tuple[int, int]:
    """Rows and columns of the scratch: two matrices of arms and two rows, their columns padded to whole blocks."""
    return 2 * (n_features + N_EXTRA) + N_SCRATCH, -(-n_arms // BLOCK) * BLOCK


# --- the two rules ------------------------------------------------------------------------------------------


@helper
def informative_pair(work: Any, n_arms: int, theta_norm: float, eta: float, key: Any) -> tuple[int, int]:
    """MaxInP's pair: of the arms that no other dominates, the two at the largest distance.

    Parameters
    ----------
    work : float64, of :func:`pair_work_shape`
        The first d rows hold the whitened arms, the next one their utilities. Everything is overwritten.
    n_arms : int
    theta_norm : float
        |theta|_M. Utilities differ by at most |theta|_M |a_i - a_j|, so that below ``eta`` nothing is dominated.
    eta : float
    key : uint64
        Of the order in which equal pairs come; see :func:`fastcolst.kernels.selection.tie_key`.

    Returns
    -------
    first, second : int
        first < second, but equal arms in the key's order; one arm twice when it is the only candidate.

    Notes
    -----
    O(n d) for each pass that removes dominated arms, a few in all; then the search of :func:`best_pair`. Where many
    arms are left it is the search that asks whether an arm is dominated, of those only that would be in a better pair
    than the best one known. At worst O(n^2 d). Allocates nothing.

    References
    ----------
    Saha (2021), Optimal algorithms for stochastic contextual preference bandits, MaxInP.
    """
    pool, other = pool_of_all(work, n_arms)
    if theta_norm < eta:
        pool.standing[:] = CANDIDATE
    else:
        pool = remove_dominated(pool, eta)
    objective = PairObjective(0.0, 1.0, eta, False, 0.0, key)
    return best_pair(_by_bound(pool, objective, other), objective)


@helper
def optimistic_pair(work: Any, n_arms: int, scale: float, key: Any) -> tuple[int, int]:
    """MaxPairUCB's pair, argmax u_i + u_j + c |a_i - a_j| over i <= j.

    Parameters
    ----------
    work : float64, of :func:`pair_work_shape`
        The first d rows hold the whitened arms, the next one their utilities. Everything is overwritten.
    n_arms : int
    scale : float
        c, in standard errors.
    key : uint64
        Of the order in which equal pairs come; see :func:`fastcolst.kernels.selection.tie_key`.

    Returns
    -------
    first, second : int
        first <= second, but equal arms in the key's order.

    Notes
    -----
    The search of :func:`best_pair`. Allocates nothing.
    """
    return optimistic_pair_of(work, n_arms, scale, True, key)


@helper
def optimistic_pair_of(work: Any, n_arms: int, scale: float, with_itself: bool, key: Any) -> tuple[int, int]:
    """As :func:`optimistic_pair`, over i < j alone unless an arm may meet itself; one arm alone meets itself."""
    pool, other = pool_of_all(work, n_arms)
    pool.standing[:] = CANDIDATE
    largest = 0.0
    for j in range(pool.size):
        largest = max(largest, abs(pool.utility[j]))
    unit = max(largest, scale, 1.0)  # no weight, and no utility times its weight, exceeds 1: squares stay finite
    objective = PairObjective(1.0 / unit, scale / unit, np.inf, with_itself, 2.0 * largest / unit, key)
    return best_pair(_by_bound(pool, objective, other), objective)


@helper
def pool_of_all(work: Any, n_arms: int) -> tuple[Any, Any]:
    """The pool of all arms, numbered, and a second matrix for it."""
    n_rows = (work.shape[0] - N_SCRATCH) // 2
    pool = pool_of(work[:n_rows], work[2 * n_rows :], n_arms)
    for j in range(pool.size):
        pool.label[j] = j
    return pool, work[n_rows : 2 * n_rows]


# --- the search ---------------------------------------------------------------------------------------------


@helper
def best_pair(pool: Any, objective: Any) -> tuple[int, int]:
    """The pair of candidates of largest value, the first in the key's order among equals; one candidate alone twice.

    Parameters
    ----------
    pool : Pool
        In order of its bounds, the largest first.
    objective : PairObjective

    Returns
    -------
    first, second : int
        Indices of arms, first <= second; two equal arms in the key's order.

    Notes
    -----
    Arms are taken in order, and a pair is looked at only while the sum of its bounds exceeds the best value known. In
    low dimension few pairs are left, in high dimension most of them: O(n^2 d) at worst.
    """
    pool.utility[pool.size :] = np.nan  # these columns fill blocks: no pair with them is better than another one
    best = _lone_arm(pool, objective)
    for tile in range(0, pool.size, TILE):
        end = min(tile + TILE, pool.size)
        for arm in range(end):
            start = max(arm + 1, tile)
            rest = best[0] - _slack(best[0], objective) - pool.bound[arm]
            while end > start and pool.bound[end - 1] < rest:
                end -= 1
            if start >= end:
                break
            squared_distances(pool.points, arm, start, end, pool.squares)
            floor = best[0] - _slack(best[0], objective) - objective.weight * pool.utility[arm]
            if _may_reach(pool.squares, pool.utility, floor, (objective.weight, objective.scale), (start, end)):
                best = _try_partners(pool, objective, arm, (start, end), best)
    first, second = int(pool.label[best[1]]), int(pool.label[best[2]])
    if are_equal(pool, best[1], best[2]):
        return (first, second) if comes_first(objective.key, first, second) else (second, first)
    return min(first, second), max(first, second)


@helper
def are_equal(pool: Any, one: int, other: int) -> bool:
    """Whether two columns are one point of one utility. O(d)."""
    n_other = pool.utility[one] != pool.utility[other]
    for k in range(pool.points.shape[0]):
        n_other += pool.points[k, one] != pool.points[k, other]
    return bool(n_other == 0)


@helper
def _lone_arm(pool: Any, objective: Any) -> tuple[float, int, int]:
    """The best pair of a known candidate with itself: value and twice the column.

    Where an arm may not meet itself the value is -3, below that of any pair, whose weighted utilities are at least -1
    each: any candidate will do.
    """
    value, arm = -np.inf, -1
    for j in range(pool.size):
        if pool.standing[j] == CANDIDATE:
            own = 2.0 * objective.weight * pool.utility[j] if objective.with_itself else -3.0
            slack = TIE * objective.size
            is_tie = objective.with_itself and arm >= 0 and value - slack <= own <= value + slack
            if arm < 0 or own > value + slack or (is_tie and labels_come_first(objective.key, pool.label, j, arm)):
                arm = j
            value = max(value, own)
    return value, arm, arm


@helper
def _try_partners(
    pool: Any, objective: Any, arm: int, columns: tuple[int, int], best: tuple[float, int, int]
) -> tuple[float, int, int]:
    """The better of the best pair so far and the best one of an arm with those in a range of columns.

    The squared distances are in place.
    """
    value, first, second = best
    slack = _slack(value, objective)
    while True:
        top, partner = _best_partner(pool, objective, arm, columns)
        if partner < 0 or top < value - slack or pool.standing[arm] == DOMINATED:
            return best
        if _are_candidates(pool, (arm, partner), objective.eta):
            break
    here, known = _labels(pool.label, arm, partner), _labels(pool.label, first, second)
    if top > value + slack or pair_comes_first(objective.key, here, known):
        first, second = arm, partner
    return max(value, top), first, second


@helper
def _may_reach(
    squares: Any, utility: Any, floor: float, factors: tuple[float, float], columns: tuple[int, int]
) -> bool:
    """Whether w u_j + s |a_i - a_j| reaches a floor for an arm in the blocks of a range of columns.

    The root is spared: s |a_i - a_j| >= r iff r <= 0 or s^2 |a_i - a_j|^2 >= r^2, in a quarter of the time.
    """
    weight, square_factor = factors[0], factors[1] * factors[1]
    start, stop = whole_blocks(columns[0], columns[1])
    hits = 0
    for j in range(start, stop):
        rest = floor - weight * utility[j]
        hits += (rest <= 0.0) | (square_factor * squares[j] >= rest * rest)
    return hits > 0


@helper
def _best_partner(pool: Any, objective: Any, arm: int, columns: tuple[int, int]) -> tuple[float, int]:
    """The column in a range, not known to be dominated, with which an arm's pair has the largest value; -1: none.

    Of equals the label that comes first in the key's order: with any arm its pair is then the one that comes first.
    """
    top, partner = -np.inf, -1
    own, slack = objective.weight * pool.utility[arm], 0.0
    for j in range(columns[0], columns[1]):
        if j != arm and pool.standing[j] != DOMINATED:
            value = own + objective.weight * pool.utility[j] + objective.scale * np.sqrt(pool.squares[j])
            is_larger = partner < 0 or value > top + slack
            if is_larger or (value >= top - slack and labels_come_first(objective.key, pool.label, j, partner)):
                partner = j
            if value > top:
                top, slack = value, _slack(value, objective)
    return top, partner


@helper
def _are_candidates(pool: Any, pair: tuple[int, int], eta: float) -> bool:
    """Whether no arm dominates one of a pair."""
    for k in range(2):  # one call, for the compiler's sake
        if not is_candidate(pool, pair[k], eta):
            return False
    return True


@helper
def _slack(value: float, objective: Any) -> float:
    """Differences from a value that are none."""
    return float(TIE * (abs(value) + objective.size))


@helper
def labels_come_first(key: Any, label: Any, one: int, other: int) -> bool:
    """Whether the arm of one column comes before that of another in the key's order."""
    return comes_first(key, int(label[one]), int(label[other]))


@helper
def _labels(label: Any, one: int, other: int) -> tuple[int, int]:
    """The arms of two columns."""
    return int(label[one]), int(label[other])


@helper
def pair_comes_first(key: Any, pair: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether a pair comes before another in the key's order: by its earlier arm, then by the later one."""
    early, late = pair if comes_first(key, pair[0], pair[1]) else (pair[1], pair[0])
    early_other, late_other = other if comes_first(key, other[0], other[1]) else (other[1], other[0])
    if early != early_other:
        return comes_first(key, early, early_other)
    return comes_first(key, late, late_other)


# --- order --------------------------------------------------------------------------------------------------


@helper
def _by_bound(pool: Any, objective: Any, other: Any) -> Any:
    """The pool in order of the bounds r_i = w u_i + s |a_i - centroid|, in another matrix. O(n d)."""
    squared_radii(pool.points, pool.size, pool.bound)
    for j in range(pool.size):
        pool.bound[j] = objective.weight * pool.utility[j] + objective.scale * np.sqrt(pool.bound[j])
    return in_order(pool, other)


@helper
def in_order(pool: Any, other: Any) -> Any:
    """The pool in order of its bounds, the largest first, in another matrix.

    A bucket sort: arms of one bucket stay in their order, and each gets the largest bound of those after it where that
    is larger. Where a bound is so large that it overflows they stay where they are, with infinite bounds. O(n d).
    """
    size, bound, places, starts = pool.size, pool.bound, pool.squares, pool.scratch
    lowest, highest = np.inf, -np.inf
    for j in range(size):
        lowest, highest = min(lowest, bound[j]), max(highest, bound[j])
    if not highest < np.inf:
        bound[:size] = np.inf
        return pool
    spread = highest - lowest if highest > lowest else 1.0
    starts[:size] = 0.0
    for j in range(size):
        places[j] = np.floor((size - 1) * ((highest - bound[j]) / spread))
        starts[int(places[j])] += 1.0
    total = 0.0
    for bucket in range(size):
        total, starts[bucket] = total + starts[bucket], total
    for j in range(size):
        bucket = int(places[j])
        places[j] = starts[bucket]
        starts[bucket] += 1.0
    for row in range(other.shape[0]):
        for j in range(size):
            other[row, int(places[j])] = pool.matrix[row, j]
    ordered = pool_of(other, pool.rows, size)
    for j in range(size - 2, -1, -1):
        ordered.bound[j] = max(ordered.bound[j], ordered.bound[j + 1])
    return ordered
