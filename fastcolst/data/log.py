"""Comparisons that can be learned, and what became of the rows that cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastcolst._checks import answers, count, feature_rows, texts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Log", "checked_wins"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Log:
    """Decisive, complete comparisons in their order, and what became of the other rows.

    Of the rows in the file, `selected` met the conditions; these are learnable, or counted in exactly one of
    `draws`, `missing`, `unknown`: ``selected == len(log) + draws + missing + unknown``.

    Parameters
    ----------
    contrasts : (m, d) float64
        z = x_first - x_second, finite; a read-only copy is kept.
    wins : (m,) bool
        Whether the first won; a read-only copy is kept.
    features : d names
        What the columns of `contrasts` are.
    rows : int
        Rows in the file.
    draws_in_file : int
        Draws among all of them.
    selected : int
        Rows that met the conditions.
    draws : int
        Draws among the selected.
    missing : int
        Selected rows without an outcome, and decisive ones that lack a feature.
    unknown : int
        Selected rows whose outcome is no value of the coding.
    where : texts
        The conditions.

    Raises
    ------
    ValueError
        A shape, a number or a count does not fit, or no comparison is left.
    """

    contrasts: NDArray[np.float64]
    wins: NDArray[np.bool_]
    features: tuple[str, ...]
    rows: int
    draws_in_file: int
    selected: int
    draws: int
    missing: int
    unknown: int
    where: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        contrasts = _checked_contrasts(self.contrasts)
        object.__setattr__(self, "contrasts", contrasts)
        object.__setattr__(self, "wins", checked_wins(self.wins, len(contrasts)))
        object.__setattr__(self, "features", texts("features", self.features))
        object.__setattr__(self, "where", texts("where", self.where))
        for name in ("rows", "draws_in_file", "selected", "draws", "missing", "unknown"):
            object.__setattr__(self, name, count(name, getattr(self, name), lowest=0))
        if len(self.features) != contrasts.shape[1]:
            raise ValueError(
                f"features has {len(self.features)} names; contrasts has {contrasts.shape[1]} columns, and a name for "
                "each is wanted"
            )
        left_out = (self.draws, self.missing, self.unknown)
        if self.selected != len(contrasts) + sum(left_out) or self.rows < self.selected:
            raise ValueError(f"rows={self.rows}, selected={self.selected} do not add up with {self.counts}")

    @classmethod
    def from_arrays(cls, contrasts: ArrayLike, wins: ArrayLike, *, features: Sequence[str] | None = None) -> Log:
        """Return a log of comparisons that are in memory, all of them decisive.

        Parameters
        ----------
        contrasts : (m, d) array
            x_first - x_second, finite.
        wins : (m,) array of bool, or of 0 and 1
            Whether the first won.
        features : d names, optional
            Names of the columns; "z[0]", "z[1]", ... if not given.

        Raises
        ------
        ValueError
            A shape or a number does not fit.

        Examples
        --------
        >>> from fastcolst.data import Log
        >>> log = Log.from_arrays([[0.5, -1.0], [0.0, 2.0]], [True, False], features=["price", "speed"])
        >>> log
        Log(2 comparisons of 2 features; 2 rows: 2 learned, 0 draws left out, 0 missing, 0 unknown outcomes)
        """
        checked = _checked_contrasts(contrasts)
        m, d = checked.shape
        names = [f"z[{k}]" for k in range(d)] if features is None else texts("features", features)
        return cls(
            contrasts=checked,
            wins=checked_wins(wins, m),
            features=tuple(names),
            rows=m,
            draws_in_file=0,
            selected=m,
            draws=0,
            missing=0,
            unknown=0,
        )

    def __len__(self) -> int:
        return len(self.wins)

    def __repr__(self) -> str:
        return f"Log({len(self):,} comparisons of {len(self.features)} features; {self.counts})"

    @property
    def counts(self) -> str:
        """What became of every row, in words."""
        rows = f"{self.rows:,} rows"
        if self.where:
            conditions = " and ".join(self.where)
            rows += f" with {self.draws_in_file:,} draws, {self.selected:,} kept by {conditions}"
        return (
            f"{rows}: {len(self):,} learned, {self.draws:,} draws left out, "
            f"{self.missing:,} missing, {self.unknown:,} unknown outcomes"
        )


def _checked_contrasts(contrasts: ArrayLike) -> NDArray[np.float64]:
    array = feature_rows("contrasts", contrasts, None, largest=np.inf).copy()
    array.setflags(write=False)
    return array


def checked_wins(wins: ArrayLike, m: int) -> NDArray[np.bool_]:
    """Return a read-only copy of m outcomes as booleans."""
    array = answers("wins", wins, m)
    array.setflags(write=False)
    return array
