"""Comparisons that can be learned, and what became of the rows that cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fastcolst._checks import brief, count, feature_rows, plain_text, positive_numbers, shares, texts
from fastcolst.data.codings import MEANINGS
from fastcolst.data.contrasts import IndexedContrasts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Log", "check_log", "checked_wins", "is_one_sided"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Log:
    """Complete comparisons in their order, and what became of the other rows.

    Of the rows in the file, `selected` met the conditions; these are learnable, or counted in exactly one of
    `draws`, `missing`, `unknown`: ``selected == len(log) + draws + missing + unknown``.

    Parameters
    ----------
    contrasts : (m, d) float64, or IndexedContrasts
        z = x_first - x_second, finite; a read-only copy is kept. Contrasts of named things are kept as places, and read
        as an array does: see :class:`fastcolst.data.IndexedContrasts`.
    wins : (m,) bool, or float64
        Whether the first won; where some are not decided, the first's share of each win, in [0, 1]. A read-only copy is
        kept.
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
    weights : (m,) float64, optional
        How much each comparison counts, positive and finite; a read-only copy is kept. None: one each.
    items : texts
        The features, from the first on, that are items, each 1 for the thing of that name.
    references : texts
        Levels of categories that have no feature: coefficients of the other levels are differences from these.
    outcomes : str
        How the outcomes of the selected rows were read, with counts, in a line; of arrays, what `wins` say.

    Raises
    ------
    ValueError
        A shape, a number or a count does not fit, or no comparison is left.
    """

    contrasts: NDArray[np.float64] | IndexedContrasts
    wins: NDArray[np.bool_] | NDArray[np.float64]
    features: tuple[str, ...]
    rows: int
    draws_in_file: int
    selected: int
    draws: int
    missing: int
    unknown: int
    where: tuple[str, ...] = ()
    weights: NDArray[np.float64] | None = None
    items: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    outcomes: str = ""

    def __post_init__(self) -> None:
        contrasts = _checked_contrasts(self.contrasts)
        object.__setattr__(self, "contrasts", contrasts)
        object.__setattr__(self, "wins", checked_wins(self.wins, len(contrasts)))
        if self.weights is not None:
            object.__setattr__(self, "weights", _checked_weights(self.weights, len(contrasts)))
        for name in ("features", "where", "items", "references"):
            object.__setattr__(self, name, texts(name, getattr(self, name)))
        for name in ("rows", "draws_in_file", "selected", "draws", "missing", "unknown"):
            object.__setattr__(self, name, count(name, getattr(self, name), lowest=0))
        if len(self.features) != contrasts.shape[1]:
            raise ValueError(
                f"features has {len(self.features)} names; contrasts has {contrasts.shape[1]} columns, and a name for "
                "each is wanted"
            )
        if plain_text(self.outcomes) is None:
            raise ValueError(f"outcomes is {brief(self.outcomes)}; a text is wanted")
        object.__setattr__(self, "outcomes", self.outcomes or _outcomes(self.wins))
        if self.items != self.features[: len(self.items)]:
            raise ValueError(f"items is {brief(self.items)}; the names of the first features are wanted")
        left_out = (self.draws, self.missing, self.unknown)
        if self.selected != len(contrasts) + sum(left_out) or self.rows < self.selected:
            raise ValueError(f"rows={self.rows}, selected={self.selected} do not add up with {self.counts}")

    @classmethod
    def from_arrays(
        cls,
        contrasts: ArrayLike | IndexedContrasts,
        wins: ArrayLike,
        *,
        features: Sequence[str] | None = None,
        weights: ArrayLike | None = None,
    ) -> Log:
        """Return a log of comparisons that are in memory, all of them to be learned.

        Parameters
        ----------
        contrasts : (m, d) array, or IndexedContrasts
            x_first - x_second, finite.
        wins : (m,) array of bool, or of numbers from 0 to 1
            Whether the first won, or its share of the win: 0.5 for a tie.
        features : d names, optional
            Names of the columns; "z[0]", "z[1]", ... if not given.
        weights : (m,) array, optional
            How much each comparison counts, positive and finite.

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
            weights=weights,  # type: ignore[arg-type]
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

    @property
    def is_one_sided(self) -> bool:
        """Whether one and the same side won every comparison, as in a log that names the winner first."""
        return is_one_sided(self.wins)

    def sizes(self) -> NDArray[np.float64]:
        """The typical size of each feature's contrasts, the root of their mean square, (d,) float64."""
        contrasts = self.contrasts
        if isinstance(contrasts, IndexedContrasts):
            return np.sqrt(contrasts.mean_squares())
        largest = np.abs(contrasts).max(axis=0)
        units = np.where(largest > 0.0, largest, 1.0)  # squares of large numbers overflow
        sizes: NDArray[np.float64] = units * np.sqrt(np.mean((contrasts / units) ** 2, axis=0))
        return sizes


def _checked_contrasts(contrasts: Any) -> NDArray[np.float64] | IndexedContrasts:
    if isinstance(contrasts, IndexedContrasts):
        return contrasts
    array = feature_rows("contrasts", contrasts, None, largest=np.inf).copy()
    array.setflags(write=False)
    return array


def check_log(log: Any) -> None:
    """Refuse, with ValueError, what is no log."""
    if not isinstance(log, Log):
        raise ValueError(f"log is a {type(log).__name__}; a Log is wanted (read_log, Log.from_arrays)")


def checked_wins(wins: ArrayLike, m: int) -> NDArray[np.bool_] | NDArray[np.float64]:
    """Return a read-only copy of m outcomes: as booleans where all are decided, as shares otherwise."""
    array = shares("wins", wins, m)
    is_decided = bool(np.isin(array, (0.0, 1.0)).all())
    won: NDArray[np.bool_] | NDArray[np.float64] = array == 1.0 if is_decided else array.copy()
    won.setflags(write=False)
    return won


def _outcomes(wins: NDArray[np.bool_] | NDArray[np.float64]) -> str:
    """How often which side won, in a line."""
    levels, counts = np.unique(np.asarray(wins, np.float64), return_counts=True)
    if not set(levels.tolist()) <= set(MEANINGS):
        return f"outcomes: the first's shares of {len(wins):,} wins, from {levels[0]:g} to {levels[-1]:g}"
    seen = dict(zip(levels.tolist(), counts.tolist(), strict=True))
    parts = [f"{share:g} = {MEANINGS[share][0]} ({seen[share]:,})" for share in MEANINGS if share in seen]
    return f"outcomes: {', '.join(parts)}"


def is_one_sided(wins: NDArray[np.bool_] | NDArray[np.float64]) -> bool:
    """Whether one and the same side won all of it."""
    return bool(wins.min() == wins.max() and wins[0] in (0, 1))


def _checked_weights(weights: ArrayLike, m: int) -> NDArray[np.float64]:
    array = positive_numbers("weights", weights, m).copy()
    array.setflags(write=False)
    return array
