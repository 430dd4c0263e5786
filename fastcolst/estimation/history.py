"""Comparisons, kept for passes over all of them."""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import helper

__all__ = ["ROWS", "History", "append"]

ROWS = 512
"""Comparisons in a block: kernels run over whole blocks, which hold them by coordinate."""

PITCH = ROWS + 8
"""Numbers from one coordinate to the next in a block: a line of the cache more, or all would have one place there."""

LEAST_GROWTH = 2**26
MOST_GROWTH = LEAST_GROWTH if sys.platform == "win32" else 2**30
"""Bytes by which an outgrown pool grows at least, and where it is granted: Windows counts memory that is not used."""


class History(NamedTuple):
    """Signed contrasts, in blocks of 512 by coordinate.

    blocks (capacity, d, 520) float64, a pool that several histories may share, with eight columns of zeros;
    multiplicities (capacity, 512) float64, how often each counts, in histories that :meth:`of` made, which never grow,
    or (0, 512) when each counts once; owned (capacity,) int64, which blocks of the pool are this history's, in their
    order; size (1,) int64, comparisons; used (1,) int64, blocks of the pool that are taken.

    Several histories of one pool are stacked in ``owned`` and ``size`` only, (k, capacity) and (k, 1).
    """

    blocks: NDArray[np.float64]
    multiplicities: NDArray[np.float64]
    owned: NDArray[np.int64]
    size: NDArray[np.int64]
    used: NDArray[np.int64]

    @classmethod
    def shared(cls) -> tuple[str, ...]:
        """Fields that several stacked histories have in common."""
        return "blocks", "multiplicities", "used"

    @classmethod
    def new(cls, n_features: int, n_rows: int) -> Self:
        """An empty history with room for a number of comparisons; memory that is not written to costs nothing."""
        capacity = max(1, -(-n_rows // ROWS))
        return cls(
            _on_cache_lines((capacity, n_features, PITCH)),
            np.empty((0, ROWS)),
            np.zeros(capacity, np.int64),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
        )

    @classmethod
    def of(cls, contrasts: NDArray[np.float64], multiplicities: NDArray[np.float64]) -> Self:
        """A history that holds signed contrasts (m, d), each as often as its multiplicity (m,) says."""
        m, d = contrasts.shape
        history = cls.new(d, m)
        capacity = len(history.blocks)
        padded = np.zeros((capacity * ROWS, d))
        padded[:m] = contrasts
        history.blocks[:, :, :ROWS] = padded.reshape(capacity, ROWS, d).transpose(0, 2, 1)
        history.blocks[:, :, ROWS:] = 0.0
        counts = np.zeros(capacity * ROWS)
        counts[:m] = multiplicities
        history.owned[:] = np.arange(capacity)
        history.size[0] = m
        history.used[0] = capacity
        return history._replace(multiplicities=counts.reshape(capacity, ROWS))

    def room(self) -> int:
        """Comparisons that fit without growing, if no other history takes blocks of the pool."""
        free = len(self.blocks) - int(self.used[0])
        return free * ROWS + (-int(self.size[0])) % ROWS

    def grown(self, n_rows: int) -> Self:
        """The same history with room for more comparisons.

        What is in use is copied. A pool that was outgrown becomes four times as large, and 1 GB larger at least where
        pages count when they are written to: copies then come early, when they are short. Where so much is refused the
        pool grows by 64 MB, or by no more than what is asked for.
        """
        n, more = len(self.blocks), -(-n_rows // ROWS)
        if self.used[0] == 0:
            return self._resized(n + more)
        most, least = (growth // self.blocks[0].nbytes for growth in (MOST_GROWTH, LEAST_GROWTH))
        return self._resized(n + max(more, 3 * n, most), n + max(more, least), n + more)

    def snapshot(self) -> Self:
        """A copy for use before the original learns more, or to :meth:`rewind` to. O(1).

        The two share blocks, and passes run over the whole of the last one.
        """
        return self._replace(size=self.size.copy(), used=self.used.copy())

    def rewind(self) -> None:
        """Forget what was appended to the original since this :meth:`snapshot` of it, which then takes its place."""
        for owned, size in zip(np.atleast_2d(self.owned), np.atleast_2d(self.size)[:, 0], strict=True):
            n_full, rest = divmod(int(size), ROWS)
            if rest:
                self.blocks[owned[n_full], :, rest:] = 0.0  # sums run over whole blocks
                n_full += 1
            owned[n_full:] = 0

    def _resized(self, *capacities: int) -> Self:
        """A copy of the first of several capacities for which there is memory."""
        capacity, used = capacities[0], int(self.used[0])
        try:
            blocks = _on_cache_lines((capacity, *self.blocks.shape[1:]))
        except MemoryError:
            if len(capacities) == 1:
                raise
            return self._resized(*capacities[1:])
        blocks[:used] = self.blocks[:used]
        owned = np.zeros((*self.owned.shape[:-1], capacity), np.int64)
        owned[..., :used] = self.owned[..., :used]
        return self._replace(blocks=blocks, owned=owned, size=self.size.copy(), used=self.used.copy())

    def __deepcopy__(self, memo: Any) -> Self:
        return self._resized(len(self.blocks), max(1, int(self.used[0])))  # what was never written is not copied

    def __reduce__(self) -> Any:
        used = int(self.used[0])
        kept = self._replace(blocks=self.blocks[:used].copy(), owned=self.owned[..., :used])
        return _restored, (*kept, len(self.blocks))


def _on_cache_lines(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """An array, not initialised, that begins where a line of the cache does: no load then takes from two of them."""
    size = math.prod(shape)
    room = np.empty(size + 7)
    start = -(room.ctypes.data // 8) % 8
    return room[start : start + size].reshape(shape)


def _restored(*fields: Any) -> History:
    *kept, capacity = fields
    return History(*kept)._resized(capacity, max(1, len(kept[0])))


@helper
def append(history: Any, contrast: Any, sign: float) -> bool:
    """Append a comparison, sign * contrast. False, and nothing is changed, when the pool is full. O(d).

    A block is filled with zeros when it is begun: rows of zeros add nothing to any sum.
    """
    size = history.size[0]
    row = size % ROWS
    if row == 0:
        if history.used[0] == history.blocks.shape[0]:
            return False
        number = history.used[0]
        history.blocks[number] = 0.0
        history.owned[size // ROWS] = number
        history.used[0] = number + 1
    number = history.owned[size // ROWS]
    for k in range(contrast.size):
        history.blocks[number, k, row] = sign * contrast[k]
    history.size[0] = size + 1
    return True
