"""A round's way through the stages; see :mod:`fastcolst.policies.stages`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastcolst._compile import helper
from fastcolst.kernels.linalg import squared_widths, utilities, whiten
from fastcolst.kernels.pairs import TIE, pair_comes_first
from fastcolst.kernels.pool import BLOCK, squared_distances, squared_radii
from fastcolst.kernels.selection import all_finite
from fastcolst.policies.stages.state import CONFIDENT, WIDTH
from fastcolst.policies.state import confidence_scale, factor_of_widths, horizon_of

__all__ = ["columns", "descend", "everyone", "squared_limit", "stage_work_shape", "survey"]

ELIMINATE = 3
"""A stage that is passed, beside the reasons for which a round ends in it."""

# Rows of the scratch, which holds one of the survivors in each of their first places. After these come two matrices.
UTILITY = 0
SQUARE = 1
"""Squared widths."""
LABEL = 2
"""Indices of the arms."""
PARTNERS = 3
"""In how many wide pairs an arm is."""
VALUES, NOISE = 4, 5  # scratch
N_ROWS = 6

# The matrices; see `columns`.
POINTS = 0
"""The arms, whitened by a stage's factor."""
SPARE = 1

FEW = 8
"""Survivors whose pairs are looked at right away: with 4 or 8 arms bounds first make a round a seventh longer."""
EQUAL = 1.0 - 2.0 * TIE
"""Squared distances whose ratio is at least this are equal."""
LESS = 1.0 - 1e-12
"""Bounds that spare work leave so much room for rounding."""


@helper
def stage_work_shape(n_arms: int, n_features: int) -> tuple[int, int]:
    """Rows and columns of the scratch of a choice, whatever the number of stages."""
    return N_ROWS + 2 * n_features, -(-n_arms // BLOCK) * BLOCK


@helper
def columns(arms: Any, which: int, size: int) -> Any:
    """A matrix of ``size`` arms as columns, (d, size padded to whole blocks), C-contiguous, in place of ``which``."""
    d, width = (arms.shape[0] - N_ROWS) // 2, -(-size // BLOCK) * BLOCK
    start = (N_ROWS + which * d) * arms.shape[1]
    return arms.reshape(-1)[start : start + d * width].reshape((d, width))


@helper
def descend(rule: Any, state: Any, contexts: Any, arms: Any, key: Any) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """Go through the stages until the round ends.

    Parameters
    ----------
    rule, state : the policy's
    contexts : (d, n) float64
        Arms as columns.
    arms : float64, of :func:`stage_work_shape`
        Scratch for the survivors; overwritten.
    key : uint64
        Of the order in which equal pairs come, by the places of survivors; see
        :func:`fastcolst.kernels.selection.tie_key`.

    Returns
    -------
    stage, reason, n_survivors : int
        Where the round ends, ``WIDTH`` or ``CONFIDENT``, and how many columns of ``arms`` survive; or stage 0 when a
        utility or a width is not finite.
    first, second : int
        Columns of the widest pair, when that is the reason.

    Notes
    -----
    O(n d^2) for each stage that is passed, and O(m^2 d) for pairs of m survivors in the last one and where it takes a
    look at pairs to tell whether one of them is too wide. Allocates nothing.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 2, lines 6 to 11, 16 to 19.
    """
    n = contexts.shape[1]
    scale, finest = confidence_scale(rule, state), 1.0 / np.sqrt(horizon_of(rule, state))
    size, stage = everyone(arms, n), 0  # line 6
    while True:  # 2^-S < 1/sqrt(T): stage S has only two ways out
        stage += 1
        if not survey((rule, state), stage, contexts, size, arms):
            return (0, 0, 0), (0, 0)
        verdict, first, second = judge(arms, size, (scale, 2.0**-stage, finest), key)
        if verdict != ELIMINATE:
            return (stage, verdict, size), (first, second)
        size = eliminate(arms, size, 2.0**-stage)


@helper
def everyone(arms: Any, n: int) -> int:
    """Let all n arms survive; returns n."""
    for j in range(n):
        arms[LABEL, j] = j
    return n


@helper
def survey(agent: tuple[Any, Any], stage: int, contexts: Any, size: int, arms: Any) -> bool:
    """Whiten the survivors and find utilities and squared widths in a stage; False when one is not finite. O(n d^2).

    ``agent`` is the rule and the state.
    """
    rule, state = agent
    factor, theta = factor_of_widths(rule, state), state.memory.theta
    if stage > 1:
        factor, theta = factor_of_widths(rule, state.later)[stage - 2], state.later.memory.theta[stage - 2]
    rows, points = contexts, columns(arms, POINTS, size)
    if size < contexts.shape[1]:
        rows, label = columns(arms, SPARE, size), arms[LABEL]
        for k in range(rows.shape[0]):
            for j in range(size):
                rows[k, j] = contexts[k, int(label[j])]
            for j in range(size, rows.shape[1]):
                rows[k, j] = 0.0
    n = rows.shape[1]
    whiten(factor, rows, points)
    utility, square = arms[UTILITY][:n], arms[SQUARE][:n]
    utilities(theta, rows, utility)
    squared_widths(points, square)
    return bool(all_finite(utility) and all_finite(square))


@helper
def judge(arms: Any, size: int, limits: tuple[float, float, float], key: Any) -> tuple[int, int, int]:
    """How a stage goes on: ``CONFIDENT``, ``ELIMINATE`` or ``WIDTH``, which goes with the widest pair.

    With r_i the distances from the centroid, the largest r_1 and r_2, two arms are at most r_i + r_j apart, and some
    are at least r_1. That spares a look at most pairs in most rounds: a stage learns only until its widest pairs are
    hardly too wide, and stays near that limit ever after. Pairs of a few arms are looked at right away.

    ``limits`` are the confidence scale, the width that is too wide and the finest one. O(size d), and O(size^2 d) at
    worst.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 2, lines 11 and 16.
    """
    scale, width, finest = limits
    if size > FEW:
        farthest, next_to_it = _radii(arms, size)
        reach, bound = scale * farthest * LESS, scale * (farthest + next_to_it)
        if bound <= finest * LESS:
            return CONFIDENT, 0, 0
        if finest < reach <= width and (bound <= width * LESS or not may_be_wide(arms, size, farthest, width / scale)):
            return ELIMINATE, 0, 0
    limit = squared_limit(width, scale)
    largest, first, second = survey_pairs(arms, size, limit, key)
    if largest <= squared_limit(finest, scale):
        return CONFIDENT, 0, 0
    return WIDTH if largest > limit else ELIMINATE, first, second


@helper
def _radii(arms: Any, size: int) -> tuple[float, float]:
    """Distances from the centroid, to be found in ``VALUES``; returns the two largest. O(size d)."""
    radii = arms[VALUES]
    squared_radii(columns(arms, POINTS, size), size, radii)
    farthest, next_to_it = 0.0, 0.0
    for j in range(size):
        radii[j] = np.sqrt(radii[j])
    for j in range(size):
        next_to_it = max(next_to_it, min(farthest, radii[j]))
        farthest = max(farthest, radii[j])
    return farthest, next_to_it


@helper
def may_be_wide(arms: Any, size: int, farthest: float, distance: float) -> bool:
    """Whether two survivors, whose radii are in ``VALUES``, may be further apart than a distance.

    ``farthest`` is the largest radius. O(size), and O(d) for each pair with radii that sum to more than the distance.
    """
    limit = distance * LESS
    n_outer = _gather_outer(arms, size, limit - farthest)
    radii, rows = arms[NOISE], columns(arms, SPARE, size).reshape(-1)
    # unsigned, which spares reads the test for negative places
    zero, four, d = np.uint64(0), np.uint64(4), np.uint64((arms.shape[0] - N_ROWS) // 2)
    rest = d % four
    for one in range(np.uint64(1), np.uint64(n_outer)):
        least = limit - radii[one]
        for other in range(zero, one):
            if not radii[other] > least:
                break
            a, b = one * d, other * d
            s0 = s1 = s2 = s3 = 0.0  # which need not wait for each other
            for _ in range(zero, d // four):
                d0, d1 = rows[a] - rows[b], rows[a + np.uint64(1)] - rows[b + np.uint64(1)]
                d2 = rows[a + np.uint64(2)] - rows[b + np.uint64(2)]
                d3 = rows[a + np.uint64(3)] - rows[b + np.uint64(3)]
                s0, s1, s2, s3 = s0 + d0 * d0, s1 + d1 * d1, s2 + d2 * d2, s3 + d3 * d3
                a, b = a + four, b + four
            for k in range(zero, rest):
                s0 += (rows[a + k] - rows[b + k]) ** 2
            if (s0 + s1) + (s2 + s3) > limit * limit:
                return True
    return False


@helper
def _gather_outer(arms: Any, size: int, least: float) -> int:
    """Sort the arms of more than a radius, the largest first: radii to ``NOISE``, points to ``SPARE``, arm by arm.

    Returns their number. O(size), and O(m^2) for m such arms.
    """
    radii, sorted_radii, outer = arms[VALUES], arms[NOISE], arms[PARTNERS]
    n_outer = 0
    for j in range(size):
        if radii[j] > least:
            place = n_outer
            while place > 0 and sorted_radii[place - 1] < radii[j]:
                outer[place], sorted_radii[place] = outer[place - 1], sorted_radii[place - 1]
                place -= 1
            outer[place], sorted_radii[place] = j, radii[j]
            n_outer += 1
    points, rows = columns(arms, POINTS, size), columns(arms, SPARE, size).reshape(-1)
    d = points.shape[0]
    for one in range(n_outer):
        for k in range(d):
            rows[one * d + k] = points[k, int(outer[one])]
    return n_outer


@helper
def squared_limit(width: float, scale: float) -> float:
    """Squared distance of two arms whose w_ij is ``width``; infinite for a scale of 0."""
    distance = width / scale if scale > 0.0 else np.inf
    return float(distance * distance)  # a power would overflow with an error where it is not compiled


@helper
def survey_pairs(arms: Any, size: int, limit: float, key: Any) -> tuple[float, int, int]:
    """The largest squared distance of two survivors and its pair, of equals the one that comes first in a key's order.

    ``PARTNERS`` is overwritten by the number of pairs, for each arm, whose squared distance exceeds the limit. O(size^2
    d / 2); counts are whole numbers since sums of those vectorise.
    """
    points, partners, values = columns(arms, POINTS, size), arms[PARTNERS], arms[VALUES]
    for j in range(size):
        partners[j] = 0.0
    largest, first, second = 0.0, 0, 0
    for i in range(size - 1):
        squared_distances(points, i, i + 1, size, values)
        n_wide, n_larger = 0, 0
        for j in range(np.uint64(i + 1), np.uint64(size)):
            is_wide = values[j] > limit
            partners[j] += is_wide
            n_wide += is_wide
            n_larger += values[j] > largest * EQUAL
        partners[i] += n_wide
        if n_larger > 0:
            for j in range(i + 1, size):
                if values[j] > largest * EQUAL:
                    if values[j] * EQUAL > largest or pair_comes_first(key, (i, j), (first, second)):
                        first, second = i, j
                    largest = max(largest, values[j])
    return largest, first, second


@helper
def eliminate(arms: Any, size: int, slack: float) -> int:
    """Keep the labels of those survivors whose utility is within ``slack`` of the best; returns their number. O(size).

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 2, line 17.
    """
    utility, label = arms[UTILITY], arms[LABEL]
    best = -np.inf
    for j in range(size):
        best = max(best, utility[j])
    kept = 0
    for j in range(size):
        label[kept] = label[j]
        kept += utility[j] + slack >= best
    return kept
