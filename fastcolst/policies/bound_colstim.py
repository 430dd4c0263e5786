"""CoLSTIM among bound arms: bounds say which can be first, which can be the rival, and Algorithm 1 chooses of those."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import helper, kernel
from fastcolst.comparison import perturb, perturb_at_most
from fastcolst.kernels.bound import TILE, among_equal_labels, any_reaches, kept_above, project
from fastcolst.kernels.selection import optimistic_argmax, perturbed_argmax, tie_key
from fastcolst.kernels.splitmix import word
from fastcolst.policies.bound_search import Search, Sight, gathered, search_of
from fastcolst.policies.colstim import CoLSTIMRule, arms_differ, unclipped_noise
from fastcolst.policies.state import assess, confidence_scale

__all__ = ["colstim_pair"]

MOST_SCALE = 1e100
"""With a larger c1 or C_thresh bounds might overflow where the numbers themselves do not."""


@search_of.register
def _(rule: CoLSTIMRule) -> Search | None:
    is_moderate = rule.width_scale <= MOST_SCALE and (rule.clip <= MOST_SCALE or rule.clip == np.inf)
    return colstim_pair if is_moderate and not rule.by_information else None  # what is carried is M's


def colstim_pair(agent: Any, raw: NDArray[np.float64], sight: Sight) -> tuple[int, int]:
    """The pair that :meth:`CoLSTIMRule.select` would choose among all available arms; -1 twice for what is not finite.

    Notes
    -----
    O(n) to find the first arm, and O(n d) at most to find its rival, of numbers that are carried; O(d^2) for each of
    the few arms that these leave.
    """
    anchor, places, out = sight.first_place, sight.places, sight.out
    by_arm = raw
    if places is not None:
        by_arm = np.ones(2 + sight.rows.shape[0])
        by_arm[:2], by_arm[2 + places] = raw[:2], raw[2:]
    n = first_contenders(agent, by_arm, sight.carried, anchor, out)
    first = int(out[0])
    if n > 1:
        arms = out[:n].astype(np.int64)
        arms = arms if arms[0] == anchor else np.concatenate([[anchor], arms])  # with which an argmax begins
        labels = sight.labels_of(arms)
        numbers = np.concatenate([raw[:2], raw[2 + labels]])
        contexts = gathered(sight, arms)
        place = first_of(agent, numbers, contexts, labels, np.empty((len(contexts) + 3, len(arms))))
        if place < 0:
            return -1, -1
        first = int(arms[place])
    n = rival_contenders(agent, first, sight.carried, out)
    second = int(out[0])
    if n > 1:
        arms = np.union1d(out[:n].astype(np.int64), first)
        contexts = gathered(sight, arms)
        place = int(np.searchsorted(arms, first))
        labels = sight.labels_of(arms)
        place = second_of(agent, raw, contexts, labels, place, np.empty((len(contexts) + 3, len(arms))))
        if place < 0:
            return -1, -1
        second = int(arms[place])
    if places is None:
        return first, second
    return int(np.searchsorted(places, first)), int(np.searchsorted(places, second))


@helper
def _clip(rule: Any, scale: float) -> float:
    """C_thresh."""
    return float(rule.clip if rule.clip >= 0.0 else scale)


class Spread(NamedTuple):
    """Whose noise arms have: whether one of their own, the shared one, and the clip, C_thresh."""

    differ: bool
    shared: float
    clip: float


@kernel
def first_contenders(agent: Any, raw: Any, carried: Any, anchor: int, out: Any) -> int:
    """List the arms that may have the highest perturbed utility, lines 7 to 14, and return how many they are.

    If it is only one it has it.

    Parameters
    ----------
    agent : the policy's rule and state
    raw : (2 + n,) float64
        The numbers of the round, with a variate for each arm, available or not.
    carried : Carried
        Whose scratch is overwritten.
    anchor : int
        An available arm, whose variate is the one for all where arms do not differ.
    out : (2 n,) float64
        Overwritten; begins with the arms in their order.

    Notes
    -----
    O(n). Noise is first bounded by what takes less time than itself, :func:`fastcolst.comparison.perturb_at_most`, and
    by the clip; it is computed where that may reach the best arm so far.
    """
    rule, state, bounds = agent.rule, agent.state, carried.bounds[()]
    scale = confidence_scale(rule, state)
    clip = _clip(rule, scale)
    shared = min(clip, max(-clip, perturb(rule.perturbation, raw[2 + anchor])))
    spread = Spread(arms_differ(rule, state, raw, scale), shared, clip)
    floor, size = -np.inf, 0
    for t in range(carried.coordinates.shape[0]):
        values = carried.work[0]
        _bound_tile(rule, spread, raw[2:], carried, t)
        if any_reaches(values, floor):
            for arm in range(t * TILE, min((t + 1) * TILE, raw.size - 2)):
                if not values[arm - t * TILE] < floor and carried.utilities[arm] > -np.inf:
                    lowest, highest = _value_within(rule, spread, raw, carried, arm)
                    out[2 * size], out[2 * size + 1] = arm, highest
                    size += 1
                    floor = max(floor, lowest - 2.0 * bounds.utility)
    return kept_above(floor, out, size)


@helper
def _bound_tile(rule: Any, spread: Any, variates: Any, carried: Any, t: int) -> None:
    """Bounds of the perturbed utilities of a tile's arms, apart from the slack of utilities, to ``carried.work[0]``."""
    base, values, slack = t * TILE, carried.work[0], carried.bounds[()].width
    utility, square = carried.utilities[base : base + TILE], carried.squares[base : base + TILE]
    stop = min(TILE, variates.size - base)
    if spread.differ:
        own = variates[base : base + stop]
        for j in range(stop):
            noise = min(spread.clip, max(-spread.clip, perturb_at_most(rule.perturbation, own[j])))
            values[j] = utility[j] + (noise * np.sqrt(max(square[j], 0.0)) + abs(noise) * slack)
    else:
        for j in range(stop):
            values[j] = utility[j] + (spread.shared * np.sqrt(max(square[j], 0.0)) + abs(spread.shared) * slack)
    for j in range(stop, TILE):
        values[j] = -np.inf


@helper
def _value_within(rule: Any, spread: Any, raw: Any, carried: Any, arm: int) -> tuple[float, float]:
    """Between which numbers the perturbed utility of an arm lies, apart from the slack of its utility."""
    noise = spread.shared
    if spread.differ:
        noise = min(spread.clip, max(-spread.clip, perturb(rule.perturbation, raw[2 + arm])))
    value = carried.utilities[arm] + noise * np.sqrt(max(carried.squares[arm], 0.0))
    slack = abs(noise) * carried.bounds[()].width
    return value - slack, value + slack


@kernel
def first_of(agent: Any, raw: Any, contexts: Any, labels: Any, work: Any) -> int:
    """The place of the first arm among contenders, lines 7 to 14; -1 for what is not finite.

    ``raw`` (2 + m,) are the numbers of the round with the contenders' variates, ``contexts`` (d, m) has them as
    columns, ``labels`` (m,) int64 says where they stand among all. ``work`` (d + 3, m) is overwritten. O(m d^2).
    """
    rule, state = agent.rule, agent.state
    d = contexts.shape[0]
    utility, square, noise = work[d], work[d + 1], work[d + 2]
    if not assess(state, contexts, work[:d], utility, square):
        return -1
    scale = confidence_scale(rule, state)
    unclipped_noise(rule, state, raw, scale, noise)
    best = perturbed_argmax(utility, square, noise, _clip(rule, scale), noise)
    return among_equal_labels(noise, labels, best, tie_key(raw[1]))


@kernel
def rival_contenders(agent: Any, first: int, carried: Any, out: Any) -> int:
    """List the arms that may be the toughest rival of the first, line 15, and return how many they are.

    ``out`` (2 n,) is overwritten as by :func:`first_contenders`. If only one arm is listed it is the rival.

    With |a_i - a_first|^2 = |a_i|^2 + |a_first|^2 - 2 x_i'M^-1 x_first the cost is O(n d) and O(d^2).
    """
    rule, state, bounds, direction = agent.rule, agent.state, carried.bounds[()], carried.direction
    scale = confidence_scale(rule, state)
    for k in range(direction.size):
        direction[k] = 0.0
        for j in range(direction.size):
            direction[k] += carried.inverse[k, j] * carried.coordinates[first // TILE, j, first % TILE]
    own, own_square = carried.utilities[first], carried.squares[first]
    margin = 2.0 * (2.0 * bounds.utility + scale * 2.5 * bounds.width)
    squares, floor, size = carried.work[0], -np.inf, 0
    for t in range(carried.coordinates.shape[0]):
        utility, square = carried.utilities[t * TILE : (t + 1) * TILE], carried.squares[t * TILE : (t + 1) * TILE]
        project(carried.coordinates[t], direction, squares)
        for j in range(TILE):
            squares[j] = max(square[j] + own_square - 2.0 * squares[j], 0.0)
        if _may_reach(squares, utility, own + floor, scale):
            for j in range(TILE):
                value = utility[j] - own + scale * np.sqrt(squares[j])
                may_compete = t * TILE + j != first or rule.allow_self_duel
                if not value < floor and utility[j] > -np.inf and may_compete:
                    out[2 * size], out[2 * size + 1] = t * TILE + j, value
                    size += 1
                    floor = max(floor, value - margin)
    return kept_above(floor, out, size)


@helper
def _may_reach(squares: Any, utility: Any, floor: float, scale: float) -> bool:
    """Whether u + c1 d, with the squares of d, reaches a floor for an arm of a tile, or nearly so.

    The root is spared: c1 d >= r iff r <= 0 or c1^2 d^2 >= r^2. 17 ns a tile, against 67 with roots.
    """
    hits, square_scale = 0, scale * scale
    for j in range(TILE):
        rest = (floor - utility[j]) * (1.0 - 1e-12)
        hits += (rest <= 0.0) | (square_scale * squares[j] >= rest * rest)
    return hits > 0


@kernel
def second_of(agent: Any, raw: Any, contexts: Any, labels: Any, first: int, work: Any) -> int:
    """The place of the toughest rival among contenders of which one is the first arm, line 15; -1 if not finite.

    As :func:`first_of`.
    """
    rule, state = agent.rule, agent.state
    d = contexts.shape[0]
    utility, values = work[d], work[d + 2]
    if not assess(state, contexts, work[:d], utility, work[d + 1]):
        return -1
    scale = confidence_scale(rule, state)
    second = optimistic_argmax(utility, work[:d], first, scale, rule.allow_self_duel, values)
    return among_equal_labels(values, labels, second, word(tie_key(raw[1])))
