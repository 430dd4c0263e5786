"""Rows of arms that are read where they lie, as float64: an array's, a memory map's, and those that were added."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rows"]


class Rows:
    """Arms as rows, (n, d), of which a few are read at a time.

    Parameters
    ----------
    blocks : list of (m, d) arrays of float32 or float64
        Read where they lie.
    index : (n,) int64, optional
        Rows of all blocks, one after the other, that are the arms; None: all of them.
    columns : list of int, optional
        Columns of the blocks in the order of the features; None: as they stand.
    """

    def __init__(
        self, blocks: list[NDArray[Any]], index: NDArray[np.int64] | None = None, columns: list[int] | None = None
    ) -> None:
        self.blocks, self.index, self.columns = blocks, index, columns
        self._starts = np.cumsum([0, *(len(block) for block in blocks)])
        self.shape = (int(self._starts[-1]) if index is None else len(index)), blocks[0].shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> NDArray[np.float64]:
        """Rows as float64: one, a slice of them, or those of an array of indices; perhaps not a copy."""
        if self.index is not None:
            key = self.index[key]
        elif isinstance(key, slice) and len(self.blocks) > 1:
            key = np.arange(len(self))[key]
        rows = self.blocks[0][key] if len(self.blocks) == 1 else self._of_several(np.asarray(key))
        rows = np.asarray(rows, np.float64)
        return rows if self.columns is None else rows.take(self.columns, axis=-1)

    def _of_several(self, places: NDArray[np.int64]) -> NDArray[Any]:
        block = np.searchsorted(self._starts, places, side="right") - 1
        rows = np.empty((*places.shape, self.shape[1]))
        for number in np.unique(block):
            of_it = block == number
            rows[of_it] = self.blocks[number][places[of_it] - self._starts[number]]
        return rows

    def all(self) -> NDArray[np.float64]:
        """All rows, as kernels take them."""
        return np.require(self[:], np.float64, ["C", "W", "ENSUREARRAY"])

    def only(self, rows: NDArray[np.int64] | None) -> Rows:
        """Some of the arms, in this order; None: all."""
        if rows is None:
            return self
        return Rows(self.blocks, rows if self.index is None else self.index[rows], self.columns)

    def with_more(self, block: NDArray[Any]) -> Rows:
        """These arms and then more, whose columns stand as those of the other blocks."""
        n = int(self._starts[-1])
        index = None if self.index is None else np.concatenate([self.index, np.arange(n, n + len(block))])
        return Rows([*self.blocks, block], index, self.columns)

    def in_order(self, columns: list[int] | None) -> Rows:
        """The same arms with their features in another order of the blocks' columns."""
        return Rows(self.blocks, self.index, columns)
