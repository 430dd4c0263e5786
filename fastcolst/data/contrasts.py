"""Contrasts of which most entries are zero, kept as places: those of battles between named things.

A comparison of item a with item b has the contrast e_a - e_b. A million of them among 300 items are 2.4 GB of numbers,
nearly all of them 0, and 8 MB of places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fastcolst._checks import brief, feature_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PLACE", "IndexedContrasts"]

PLACE = np.int32
"""Type of places in a list of levels, or of columns."""


@dataclass(frozen=True, eq=False, repr=False)
class IndexedContrasts:
    """Contrasts z = x_first - x_second, (m, d), of which one-hot columns are kept as places.

    The columns of each block of one-hot features come first, in the order of the blocks, then those of `others`. It
    reads as an array does, with `len` and `shape`; ``contrasts[100:200]`` and ``np.asarray(contrasts)`` are dense.

    Parameters
    ----------
    first, second : (m, n_blocks) int32
        In which column of each block the first has its 1, and the second; -1 for none, the reference level.
    sizes : n_blocks ints
        How many columns each block has.
    others : (m, k) float64, optional
        Contrasts of the features that are numbers.

    Raises
    ------
    ValueError
        Shapes do not fit, or a place lies outside its block.

    Examples
    --------
    >>> import numpy as np
    >>> from fastcolst.data import IndexedContrasts
    >>> battles = IndexedContrasts(np.array([[0], [2]]), np.array([[1], [0]]), (3,))
    >>> battles.shape, battles[:1], np.asarray(battles)
    ((2, 3), array([[ 1., -1.,  0.]]), array([[ 1., -1.,  0.],
           [-1.,  0.,  1.]]))
    """

    first: NDArray[np.int32]
    second: NDArray[np.int32]
    sizes: tuple[int, ...]
    others: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        sizes = tuple(int(size) for size in self.sizes)
        object.__setattr__(self, "sizes", sizes)
        for name in ("first", "second"):
            object.__setattr__(self, name, _places(name, getattr(self, name), sizes))
        if self.others is not None:
            others = feature_rows("others", self.others, None, largest=np.inf).copy()
            others.setflags(write=False)
            object.__setattr__(self, "others", others)
        rows = [len(part) for part in (self.first, self.second, self.others) if part is not None]
        if len(set(rows)) != 1 or not rows[0] or not self.shape[1]:
            raise ValueError(f"first, second and others have {rows} rows, sizes is {sizes}; as many rows are wanted")

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return len(self.first), sum(self.sizes) + (0 if self.others is None else self.others.shape[1])

    @property
    def ndim(self) -> int:
        """2."""
        return 2

    @property
    def dtype(self) -> np.dtype[np.float64]:
        """float64."""
        return np.dtype(np.float64)

    def __len__(self) -> int:
        return len(self.first)

    def __repr__(self) -> str:
        return f"IndexedContrasts(shape={self.shape}, sizes={self.sizes})"

    def __getitem__(self, rows: Any) -> NDArray[np.float64]:
        if isinstance(rows, tuple):  # entries, of which there are too many kinds to follow here
            return self._dense(slice(None))[rows]
        return self._dense([rows])[0] if isinstance(rows, int | np.integer) else self._dense(rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(
                "copy is False; None or True is wanted, since what is kept as places has to be written out"
            )
        return self._dense(slice(None)).astype(np.float64 if dtype is None else dtype, copy=False)

    def _dense(self, rows: Any) -> NDArray[np.float64]:
        """Rows written out. O(n d) for n of them."""
        first, second = self.first[rows], self.second[rows]
        dense = np.zeros((len(first), self.shape[1]))
        for there, columns, one in self._entries(first, second):
            dense[there, columns] += one  # one column a row: no entry is there twice
        if self.others is not None:
            dense[:, sum(self.sizes) :] = self.others[rows]
        return dense

    def _entries(
        self, first: NDArray[np.int32], second: NDArray[np.int32]
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], float]]:
        """Rows and columns of the entries 1 and -1, for one block and side after the other."""
        start = 0
        for block, size in enumerate(self.sizes):
            for places, one in ((first[:, block], 1.0), (second[:, block], -1.0)):
                there = np.flatnonzero(places >= 0).astype(PLACE)
                yield there, start + places[there], one
            start += size

    def mean_squares(self) -> NDArray[np.float64]:
        """The mean of z_k^2 for each column, (d,) float64. O(m) for each block."""
        means = []
        for block, size in enumerate(self.sizes):
            first, second = self.first[:, block], self.second[:, block]
            differ = first != second  # of a thing and itself the contrast is 0
            sums = [np.bincount(places[differ & (places >= 0)], minlength=size) for places in (first, second)]
            means.append((sums[0] + sums[1]) / len(self))
        if self.others is not None:
            means.append(np.mean(self.others**2, axis=0))
        return np.concatenate(means)

    def tocsr(self) -> Any:
        """All of it as a SciPy matrix of compressed rows, as :func:`fastcolst.fit` takes it. O(m) for each block."""
        from scipy import sparse

        rows, columns, ones = zip(*self._entries(self.first, self.second), strict=True)
        values = np.repeat(ones, [len(there) for there in rows])
        places = np.concatenate(rows), np.concatenate(columns)
        matrix = sparse.csr_matrix((values, places), shape=(len(self), sum(self.sizes)))
        matrix.eliminate_zeros()  # of a thing and itself the entries add up to 0
        return matrix if self.others is None else sparse.csr_matrix(sparse.hstack([matrix, self.others]))


def _places(name: str, value: Any, sizes: tuple[int, ...]) -> NDArray[np.int32]:
    places = np.asarray(value)
    if places.ndim != 2 or places.shape[1] != len(sizes) or places.dtype.kind not in "iu":
        raise ValueError(f"{name} is {brief(value)}; whole numbers of shape (m, {len(sizes)}) are wanted")
    if places.size and not (np.all(places >= -1) and np.all(places < np.array(sizes, np.int64))):
        raise ValueError(f"{name} has places up to {places.max()}; -1 or places below {sizes} are wanted")
    own: NDArray[np.int32] = np.array(places, PLACE, order="C")
    own.setflags(write=False)
    return own
