"""What bound arms are worth, carried along with the policy's theta and M; see :mod:`fastcolst.kernels.bound`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst.kernels.bound import BOUNDS, FOLLOWED, TILE, TOO_LARGE, Carried, follow, survey
from fastcolst.policies.bound_rows import Rows

__all__ = ["CHUNK", "Values"]

CHUNK = 128 * TILE
"""Rows that are converted at a time."""


class Values:
    """Utilities and squared widths of arms.

    Memory: 4 bytes for each feature of each arm, and 16 for each arm.

    Attributes
    ----------
    n_arms : int
    carried : Carried
    """

    def __init__(self, rows: Rows) -> None:
        self.n_arms, d = rows.shape
        sizes = np.zeros(d)
        for start in range(0, self.n_arms, CHUNK):
            sizes = np.maximum(sizes, np.abs(rows[start : start + CHUNK]).max(axis=0))
        most = max(2, d // 4)  # vectors: with more it takes less time to compute all anew
        self.carried = Carried(
            *_tiles(-(-self.n_arms // TILE), d),
            units=_powers_above(sizes),
            theta=np.zeros(d),
            inverse=np.zeros((d, d)),
            rest=np.zeros((d, d)),
            vectors=np.zeros((most, d)),
            signs=np.zeros(most),
            work=np.zeros((2, TILE)),
            direction=np.zeros(d),
            bounds=np.zeros((), BOUNDS),
        )
        self.carried.bounds["passes"] = -1
        self._fill(rows, 0)

    def _fill(self, rows: Rows, start: int) -> None:
        """Convert the coordinates of the arms from a tile on, of which nothing is known then."""
        self._unknown_from = start
        for first in range(start * TILE, self.n_arms, CHUNK):
            self._convert(rows[first : first + CHUNK] / self.carried.units, first)

    def _convert(self, part: NDArray[Any], first: int) -> None:
        """Lay rows out in tiles, from one that begins with an arm on; the last one is filled with zeros."""
        n_tiles = -(-len(part) // TILE)
        padded = np.zeros((n_tiles * TILE, part.shape[1]), np.float32)
        padded[: len(part)] = part
        tiles = padded.reshape(n_tiles, TILE, -1).transpose(0, 2, 1)
        self.carried.coordinates[first // TILE : first // TILE + n_tiles] = tiles

    def add(self, rows: Rows) -> bool:
        """Go on with more arms at the end; False, and nothing is changed, where one is too large for the units."""
        if not (np.abs(rows[self.n_arms :]).max(axis=0) <= self.carried.units).all():
            return False
        start, unknown = self.n_arms // TILE, self._unknown_from
        self.n_arms = len(rows)
        n_more = -(-self.n_arms // TILE) - len(self.carried.coordinates)
        more = _tiles(n_more, rows.shape[1])
        self.carried = self.carried._replace(
            coordinates=np.concatenate([self.carried.coordinates, more[0]]),
            utilities=np.concatenate([self.carried.utilities, more[1]]),
            squares=np.concatenate([self.carried.squares, more[2]]),
        )
        self._fill(rows, start)
        self._unknown_from = min(unknown, start)
        return True

    def remove(self, kept: NDArray[np.bool_]) -> None:
        """Go on with some of the arms only."""
        old, n, d = self.carried, self.n_arms, len(self.carried.units)
        self.n_arms = int(kept.sum())
        coordinates, utilities, squares = _tiles(-(-self.n_arms // TILE), d)
        utilities[: self.n_arms], squares[: self.n_arms] = old.utilities[:n][kept], old.squares[:n][kept]
        self.carried = old._replace(coordinates=coordinates, utilities=utilities, squares=squares)
        self._convert(old.coordinates.transpose(0, 2, 1).reshape(-1, d)[:n][kept], 0)
        if self._unknown_from < len(old.coordinates):  # some were added that nobody has looked at yet
            self.carried.bounds["passes"] = -1
        self._unknown_from = len(coordinates)

    def follow(self, factor: NDArray[np.float64], theta: NDArray[np.float64]) -> bool:
        """Bring what is carried up to date with the policy; False where numbers are too large for that.

        ``factor`` and ``theta`` as in :func:`fastcolst.kernels.bound.follow`.
        """
        code = follow(self.carried, factor, theta)
        start = self._unknown_from if code == FOLLOWED else 0
        if code == TOO_LARGE:
            self.carried.bounds["passes"] = -1
        elif start < len(self.carried.coordinates):
            survey(self.carried, start, factor, theta, np.empty((2 * len(theta), TILE)))
            self.carried.utilities[self.n_arms :] = -np.inf
            self._unknown_from = len(self.carried.coordinates)
        return bool(code != TOO_LARGE)


def _tiles(n_tiles: int, d: int) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
    """Coordinates, utilities and squares of so many tiles that hold no arm."""
    n = n_tiles * TILE
    return np.zeros((n_tiles, d, TILE), np.float32), np.full(n, -np.inf), np.zeros(n)


def _powers_above(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The smallest powers of two that exceed these; 1 for 0."""
    powers: NDArray[np.float64] = np.ldexp(1.0, np.frexp(np.where(sizes > 0.0, sizes, 1.0))[1])
    return powers
