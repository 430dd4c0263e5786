"""Comparisons, kept for passes over all of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import helper
from fastcolst.estimation import memory

__all__ = ["ROWS", "History", "append", "has_room"]

ROWS = 512
"""Comparisons in a block: kernels run over whole blocks, which hold them by coordinate."""

PITCH = ROWS + 8
"""Numbers from one coordinate to the next in a block: a line of the cache more than the rows, since at a power of two
all coordinates of a comparison would fall into one set of the cache. To append one of 50 features then takes 5 times as
long."""

LEAST_GROWTH = 2**26
"""Bytes by which an outgrown pool grows at least where :data:`GROWTH` is refused."""
GROWTH = LEAST_GROWTH if sys.platform == "win32" else 2**30
"""Bytes by which an outgrown pool grows at least as a rule; fewer on Windows, which counts memory that is not used."""


class History(NamedTuple):
    """Signed contrasts and their weights, in blocks of 512 by coordinate.

    blocks (capacity, d + 1, 520) float64, a pool that several histories may share: d rows of coordinates and one of
    weights, with eight columns of zeros; owned (capacity,) int64, which blocks of the pool are this history's, in their
    order; size (1,) int64, comparisons; used (1,) int64, blocks of the pool that are taken.

    Several histories of one pool are stacked in ``owned`` and ``size`` only, (k, capacity) and (k, 1).
    """

    blocks: NDArray[np.float64]
    owned: NDArray[np.int64]
    size: NDArray[np.int64]
    used: NDArray[np.int64]

    @classmethod
    def shared(cls) -> tuple[str, ...]:
        """Fields that several stacked histories have in common."""
        return "blocks", "used"

    @classmethod
    def new(cls, n_features: int, n_rows: int) -> Self:
        """An empty history with room for a number of comparisons; memory that is not written to costs nothing."""
        capacity = max(1, -(-n_rows // ROWS))
        return cls(
            _on_cache_lines((capacity, n_features + 1, PITCH)),
            np.zeros(capacity, np.int64),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
        )

    @classmethod
    def of(cls, contrasts: NDArray[np.float64], weights: NDArray[np.float64]) -> Self:
        """A history that holds signed contrasts (m, d) with weights (m,)."""
        m, d = contrasts.shape
        history = cls.new(d, m)
        capacity = len(history.blocks)
        padded = np.zeros((capacity * ROWS, d + 1))
        padded[:m, :d] = contrasts
        padded[:m, d] = weights
        history.blocks[:, :, :ROWS] = padded.reshape(capacity, ROWS, d + 1).transpose(0, 2, 1)
        history.blocks[:, :, ROWS:] = 0.0
        history.owned[:] = np.arange(capacity)
        history.size[0] = m
        history.used[0] = capacity
        return history

    def filled(self) -> Iterator[NDArray[np.float64]]:
        """All comparisons, up to 512 at a time: views (d + 1, m), the last row the weights."""
        size = int(self.size[0])
        for b, number in enumerate(self.owned[: -(-size // ROWS)]):
            yield self.blocks[number, :, : min(ROWS, size - b * ROWS)]

    def margins(self, direction: NDArray[np.float64]) -> NDArray[np.float64]:
        """z~'direction of all comparisons, (n,). O(n d)."""
        of_blocks = [direction @ block[:-1] for block in self.filled()]
        margins: NDArray[np.float64] = np.concatenate([np.empty(0), *of_blocks])  # concatenate refuses an empty list
        return margins

    def gram_of(self, selected: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Z'Z of some of the comparisons, (d, d), without weights. O(n d^2)."""
        gram, start = np.zeros((self.blocks.shape[1] - 1,) * 2), 0
        for block in self.filled():
            end = start + block.shape[1]
            rows, start = block[:-1, selected[start:end]], end
            gram += rows @ rows.T
        return gram

    def grown(self, n_rows: int) -> Self:
        """The same history, or stack of histories, with room for so many comparisons more in each.

        It is itself where there is room. Otherwise what is in use is copied. A pool that was outgrown becomes four
        times as large, and 1 GB larger at least where pages count when they are written to: copies then come early,
        when they are short. Where so much is refused the pool grows by 64 MB, or by no more than what is asked for.
        """
        n = len(self.blocks)
        wanted = int(np.sum(-(-np.maximum(n_rows - -self.size % ROWS, 0) // ROWS)))
        more = wanted - (n - int(self.used[0]))
        if more <= 0:
            return self
        if self.used[0] == 0:
            return self._resized(n + more)
        usual, least = (growth // self.blocks[0].nbytes for growth in (GROWTH, LEAST_GROWTH))
        return self._resized(n + max(more, 3 * n, usual), n + max(more, least), n + more)

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

    def spread(self, stack: Self) -> None:
        """Let each of a stack of empty histories, whose pool has room, begin with this one; they share full blocks."""
        n_full, rest = divmod(int(self.size[0]), ROWS)
        n_stacked = len(stack.owned)
        wanted = n_full + (n_stacked if rest else 0)
        if wanted > len(stack.blocks):
            raise IndexError(f"the pool has {len(stack.blocks)} blocks; {wanted} are wanted")
        stack.blocks[:n_full] = self.blocks[self.owned[:n_full]]
        stack.owned[:, :n_full] = np.arange(n_full)
        stack.used[0] = n_full
        if rest:
            stack.blocks[n_full : n_full + n_stacked] = self.blocks[self.owned[n_full]]
            stack.owned[:, n_full] = n_full + np.arange(n_stacked)
            stack.used[0] += n_stacked
        stack.size[:] = self.size

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
    """An array, not initialised, that begins where a line of the cache does: no load then takes from two of them.

    Elsewhere a pass takes 1.03 to 1.1 times as long, and with the information of 50 features 1.2 times.
    """
    size = math.prod(shape)
    room = np.empty(size + 7)
    start = -(room.ctypes.data // 8) % 8
    return room[start : start + size].reshape(shape)


def _restored(*fields: Any) -> History:
    """A pickled history, with the room that it had."""
    *kept, capacity = fields
    return History(*kept)._resized(capacity, max(1, len(kept[0])))


@helper
def has_room(history: Any, n_rows: int) -> bool:
    """Whether a history can take so many comparisons more. O(1)."""
    free = (history.blocks.shape[0] - history.used[0]) * ROWS + -history.size[0] % ROWS
    return bool(free >= n_rows)


@helper
def append(history: Any, contrast: Any, sign: float, weight: float) -> None:
    """Append a comparison, sign * contrast, and its weight; there must be room. O(d).

    A block is filled with zeros when it is begun: rows of zeros add nothing to any sum.
    """
    blocks, owned = history.blocks, history.owned
    size = history.size[0]
    row = size % ROWS
    if row == 0:
        number = history.used[0]
        for k in range(blocks.shape[1]):  # a slice would take longer to compile
            for j in range(blocks.shape[2]):
                blocks[number, k, j] = 0.0
        owned[size // ROWS] = number
        history.used[0] = number + 1
    number = owned[size // ROWS]
    for k in range(contrast.size):
        blocks[number, k, row] = sign * contrast[k]
    blocks[number, contrast.size, row] = weight
    history.size[0] = size + 1


memory.snapshot.register(History)(History.snapshot)
memory.rewind.register(History)(History.rewind)
memory.spread.register(History)(History.spread)
