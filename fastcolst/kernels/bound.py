"""Utilities and widths of arms that stay the same, carried from round to round, for what they exclude.

One answer changes M^-1 by a matrix of rank one, M^-1 - b b', and theta by some vector, so that

    u_i <- u_i + x_i'(theta_new - theta_old),    |x_i|^2 <- |x_i|^2 - (x_i'b)^2,

both in one pass over the arms, O(n d) in place of O(n d^2). What is carried so is not to the last bit what a choice
among these arms computes; it tells which of them cannot be chosen, and the others are computed as ever.

Nobody tells of an answer. Before a choice theta and M^-1 = S'S are compared with those that the carried numbers are of,
so that it does not matter what changed them: an answer, several, one taken out again, or a batch that counts pairs as
answered. The difference of the two M^-1 is taken apart into vectors b, the largest diagonal entry first; one answer
gives one. What is left of the difference is part of the slack.

Arms lie in tiles, coordinate by coordinate, as float32 and in units of the largest entry of each coordinate: half the
memory to read, which is what a pass takes its time for. As float64 100,000 arms take it 1.6 times as long.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import helper, kernel
from fastcolst.kernels.linalg import squared_widths, utilities, whiten
from fastcolst.kernels.selection import comes_first

__all__ = [
    "BOUNDS",
    "FOLLOWED",
    "RENEWAL_DUE",
    "TILE",
    "TOO_LARGE",
    "Carried",
    "among_equal_labels",
    "any_reaches",
    "follow",
    "kept_above",
    "project",
    "survey",
]

TILE = 64
"""Arms of a tile. So few, since memory is then read from one end to the other, however many features there are."""

RENEW_AFTER = 1024
"""Passes after which utilities and widths are computed anew."""
RENEW_AT = 1e-11
"""Share of the largest squared width that is possible: beyond this much rounding they are computed anew as well."""
LEFT = 1e-13
"""Share of the same: so much of the difference of two M^-1 may be left, and is counted as slack."""
FLOAT32 = 2.0**-24
"""Unit roundoff of float32: twice the error of a coordinate below 1, so that half is room for rounding in float64."""
EPS = 2.0**-53
"""Unit roundoff of float64."""
MOST = 1e280
"""Beyond this, bounds might overflow where the numbers themselves do not."""

# What `follow` returns.
FOLLOWED = 0
"""What is carried is up to date."""
RENEWAL_DUE = 1
"""Nothing was carried on: :func:`survey` must come first."""
TOO_LARGE = 2
"""Numbers are so large that bounds might overflow."""

BOUNDS = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("passes", np.int64),
                ("square", np.float64),
                ("rounding", np.float64),
                ("left", np.float64),
                ("utility", np.float64),
                ("width", np.float64),
            ],
            align=True,
        ),
    )
)
"""The record of how far off carried numbers may be.

passes: since they were computed anew, -1 where there is nothing yet; square and rounding: what squared widths and
utilities may have been rounded by since then; left: what is left of the difference of the M^-1 carried and the true
one; utility, width: by how much carried utilities and the roots of carried squares may differ from what a choice
computes. The distance of two arms may by 2.5 times the latter.
"""


class Carried(NamedTuple):
    """What is carried of the arms.

    coordinates (n_tiles, d, TILE) float32, in units (d,) that are powers of two; utilities and squares, of the widths,
    (n_tiles TILE,); theta (d,) and inverse (d, d), M^-1, that these are of, in the same units; rest (d, d), vectors
    (m, d), signs (m,), work (2, TILE) and direction (d,), scratch; all float64. bounds, a 0-d array of :data:`BOUNDS`.

    Utilities beyond the last arm are -inf, and so are those of arms that are not available; the others are finite.
    """

    coordinates: NDArray[np.float32]
    utilities: NDArray[np.float64]
    squares: NDArray[np.float64]
    units: NDArray[np.float64]
    theta: NDArray[np.float64]
    inverse: NDArray[np.float64]
    rest: NDArray[np.float64]
    vectors: NDArray[np.float64]
    signs: NDArray[np.float64]
    work: NDArray[np.float64]
    direction: NDArray[np.float64]
    bounds: NDArray[Any]


# --- following theta and M ----------------------------------------------------------------------------------


@kernel
def follow(carried: Any, factor: Any, theta: Any) -> int:
    """Bring utilities and squared widths up to date, and say how far they may be from what is computed by S and theta.

    Parameters
    ----------
    carried : Carried
        Changed.
    factor : (d, d) float64, lower triangular
        S. It and theta may have a coordinate more than the arms, which is then 0 in all of them.
    theta : (d,) float64

    Returns
    -------
    int
        ``FOLLOWED``; ``RENEWAL_DUE`` or ``TOO_LARGE``, and nothing that is carried was changed.

    Notes
    -----
    O(n d) and O(d^3) after one answer; allocates nothing.

    With coordinates of at most 1, |x'b| <= |b|_1 and x'Ex <= sum |E_jk|, and no squared width exceeds W, the sum of the
    squared 1-norms of S's rows. An inner product of d terms rounds by d eps of the sum of its terms' sizes. Of a width
    sqrt(q) an error of q by s makes at most sqrt(s), and coordinates in float32 make ``FLOAT32`` sqrt(W).
    """
    d, bounds = carried.units.size, carried.bounds[()]
    widest, highest = _box(carried.units, factor, theta)
    if not (widest < MOST and highest < MOST):
        return TOO_LARGE
    if bounds.passes < 0 or bounds.passes >= RENEW_AFTER:
        return RENEWAL_DUE
    _difference(carried, factor)
    n_vectors = _take_apart(carried, LEFT * widest)
    if n_vectors < 0:
        return RENEWAL_DUE
    changes = 0.0
    for k in range(d):
        carried.direction[k] = theta[k] * carried.units[k] - carried.theta[k]
        changes += abs(carried.direction[k])
    if n_vectors > 0 or changes > 0.0:
        _note_rounding(carried, n_vectors, changes, widest, highest)
        if bounds.square > RENEW_AT * widest or bounds.rounding > FLOAT32 * highest:
            return RENEWAL_DUE
        _shift(carried, n_vectors)
        bounds.passes += 1
        _become(carried, factor, theta)
        for k in range(d):
            for j in range(d):
                carried.inverse[k, j] += carried.rest[k, j]
    _note_bounds(bounds, d, widest, highest)
    return FOLLOWED


@kernel
def survey(carried: Any, start: int, factor: Any, theta: Any, work: Any) -> None:
    """Compute utilities and squared widths of the arms from a tile on: O(n d^2). As :func:`follow`.

    ``work`` (2 d, TILE) float64 is overwritten. Where ``start`` is not 0, the others must be up to date.
    """
    d, own, bounds = theta.size, carried.units.size, carried.bounds[()]
    rows, whitened = work[:d], work[d:]
    for t in range(start, carried.coordinates.shape[0]):
        for k in range(own):
            for j in range(TILE):  # in units of their own the numbers are the same, but for the rounding to float32
                rows[k, j] = carried.coordinates[t, k, j] * carried.units[k]
        for k in range(own, d):
            for j in range(TILE):
                rows[k, j] = 0.0
        whiten(factor, rows, whitened)
        utilities(theta, rows, carried.utilities[t * TILE : (t + 1) * TILE])
        squared_widths(whitened, carried.squares[t * TILE : (t + 1) * TILE])
    widest, highest = _box(carried.units, factor, theta)
    bounds.square += bounds.left  # the widths of some are of the true M^-1, not of the one that is carried
    if start == 0:
        _become(carried, factor, theta)
        bounds.passes, bounds.square, bounds.rounding, bounds.left = 0, 0.0, 0.0, 0.0
    _note_bounds(bounds, own, widest, highest)


@helper
def _size(vector: Any) -> float:
    """The sum of the sizes of a vector's entries. O(d)."""
    total = 0.0
    for k in range(vector.size):
        total += abs(vector[k])
    return total


@helper
def _box(units: Any, factor: Any, theta: Any) -> tuple[float, float]:
    """What no squared width and no utility of an arm exceeds. O(d^2)."""
    widest, highest = 0.0, 0.0
    for k in range(factor.shape[0]):
        length = 0.0
        for j in range(min(k + 1, units.size)):
            length += abs(factor[k, j] * units[j])
        widest += length * length
    for k in range(units.size):
        highest += abs(theta[k] * units[k])
    return widest, highest


@helper
def _difference(carried: Any, factor: Any) -> None:
    """The M^-1 that is carried less the one of a factor, to ``rest``. O(d^3)."""
    d, rest, row = carried.units.size, carried.rest, carried.direction
    for i in range(d):
        for j in range(i + 1):
            rest[i, j] = carried.inverse[i, j]
    for k in range(factor.shape[0]):
        n = min(k + 1, d)
        for j in range(n):
            row[j] = factor[k, j] * carried.units[j]
        for i in range(n):
            value = row[i]
            for j in range(i + 1):
                rest[i, j] -= value * row[j]
    for i in range(d):
        for j in range(i):
            rest[j, i] = rest[i, j]


@helper
def _take_apart(carried: Any, enough: float) -> int:
    """Take vectors from ``rest`` until no more than enough is left of it; their number, or -1 where they are too many.

    O(d^2) for each vector and one more.
    """
    d, rest, vectors, bounds = carried.units.size, carried.rest, carried.vectors, carried.bounds[()]
    n_vectors = 0
    while True:
        bounds.left, place = 0.0, 0
        for i in range(d):
            bounds.left += _size(rest[i])
            place = i if abs(rest[i, i]) > abs(rest[place, place]) else place
        if bounds.left <= enough:
            return n_vectors
        pivot = rest[place, place]
        if n_vectors == vectors.shape[0] or not 0.0 < abs(pivot) < np.inf:
            return -1
        sign, root = (1.0 if pivot > 0.0 else -1.0), np.sqrt(abs(pivot))
        for j in range(d):
            vectors[n_vectors, j] = rest[place, j] / root
        for i in range(d):
            value = sign * vectors[n_vectors, i]
            for j in range(d):
                rest[i, j] -= value * vectors[n_vectors, j]
        carried.signs[n_vectors] = sign
        n_vectors += 1


@helper
def _become(carried: Any, factor: Any, theta: Any) -> None:
    """Note of which theta and M^-1 the carried numbers are. O(d^3)."""
    d, inverse, row = carried.units.size, carried.inverse, carried.direction
    for k in range(d):
        carried.theta[k] = theta[k] * carried.units[k]
        for j in range(d):
            inverse[k, j] = 0.0
    for k in range(factor.shape[0]):
        n = min(k + 1, d)
        for j in range(n):
            row[j] = factor[k, j] * carried.units[j]
        for i in range(n):
            value = row[i]
            for j in range(n):
                inverse[i, j] += value * row[j]


@helper
def _note_rounding(carried: Any, n_vectors: int, changes: float, widest: float, highest: float) -> None:
    """Add what a pass rounds to what was rounded before; see :func:`follow`. ``changes`` is |change of theta|_1."""
    d, bounds, lengths, size = carried.units.size, carried.bounds[()], 0.0, widest
    for row in range(n_vectors):
        length = _size(carried.vectors[row])
        lengths += length * length
    for k in range(d):
        size += _size(carried.inverse[k])
    bounds.square += EPS * (n_vectors + 1) * (2 * (d + 8) * lengths + 4.0 * size)
    bounds.rounding += EPS * ((d + 6) * changes + 2.0 * highest)


@helper
def _note_bounds(bounds: Any, d: int, widest: float, highest: float) -> None:
    """Note by how much carried utilities and widths may be off; see :func:`follow`."""
    square = bounds.left + bounds.square + 8.0 * (d + 4) * EPS * widest
    bounds.width = np.sqrt(square) + FLOAT32 * np.sqrt(widest)
    bounds.utility = bounds.rounding + (FLOAT32 + (d + 4) * EPS) * highest


# --- passes over the arms -----------------------------------------------------------------------------------


@helper
def _shift(carried: Any, n_vectors: int) -> None:
    """Carry on: u += X'direction, |x|^2 -= sign (x'b)^2 for each of the vectors. O((n_vectors + 1) n d), one pass."""
    for t in range(carried.coordinates.shape[0]):
        tile, one, other = carried.coordinates[t], carried.work[0], carried.work[1]
        utility = carried.utilities[t * TILE : (t + 1) * TILE]
        square = carried.squares[t * TILE : (t + 1) * TILE]
        project(tile, carried.direction, one)
        for j in range(TILE):
            utility[j] += one[j]
        for row in range(n_vectors):
            project(tile, carried.vectors[row], other)
            sign = carried.signs[row]
            for j in range(TILE):
                square[j] -= sign * (other[j] * other[j])


@helper
def project(tile: Any, vector: Any, out: Any) -> None:
    """Inner products of a tile's arms with a vector, out = X'v. ``tile`` is (d, TILE), ``out`` (TILE,). O(d TILE).

    Four coordinates are taken at a time, for a quarter of the loads and stores: one by one takes 1.2 to 1.4 times as
    long in the cache.
    """
    d = tile.shape[0]
    for j in range(TILE):
        out[j] = 0.0
    k = 0
    while k + 4 <= d:
        v0, v1, v2, v3 = vector[k], vector[k + 1], vector[k + 2], vector[k + 3]
        for j in range(TILE):
            out[j] += (v0 * tile[k, j] + v1 * tile[k + 1, j]) + (v2 * tile[k + 2, j] + v3 * tile[k + 3, j])
        k += 4
    while k < d:
        for j in range(TILE):
            out[j] += vector[k] * tile[k, j]
        k += 1


@helper
def any_reaches(values: Any, floor: float) -> bool:
    """Whether one of a tile's values is not below a floor.

    Most tiles have none. Counting vectorises: 7 ns a tile, against 29 for a look at one after the other.
    """
    below = 0
    for j in range(TILE):
        below += values[j] < floor
    return below < TILE


@helper
def kept_above(floor: float, out: Any, size: int) -> int:
    """Of so many pairs, arm and value, keep at the front the arms whose value is not below a floor; their number."""
    kept = 0
    for place in range(size):
        if not out[2 * place + 1] < floor:
            out[kept] = out[2 * place]
            kept += 1
    return kept


@helper
def among_equal_labels(values: Any, labels: Any, best: int, key: Any) -> int:
    """Of all places whose value equals that of ``best``, the one whose label comes first in a key's order. O(n).

    See :func:`fastcolst.kernels.selection.among_equals`, for which labels are places.
    """
    for j in range(values.size):
        if values[j] == values[best] and j != best and comes_first(key, labels[j], labels[best]):
            best = j
    return best
