"""The contrasts of a log's rows: one-hot features of items and categories as places, numbers as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fastcolst._checks import looked_at
from fastcolst.data.contrasts import IndexedContrasts
from fastcolst.data.sources import Raw
from fastcolst.data.tables import Column, joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Design", "complete", "design", "weights"]


def complete(raw: Raw) -> NDArray[np.bool_]:
    """Rows in which no feature, item or weight is missing."""
    there = np.ones(raw.rows, np.bool_)
    for column in (*(column for group in raw.groups for column in group), *raw.items):
        there &= column.present
    return there if raw.weight is None else there & raw.weight.present


def weights(column: Column, rows: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The weights in a column, of these rows."""
    values, no_number = column.numbers()
    wrong = rows & (no_number | ~((values > 0.0) & (values < np.inf)))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"column {column.name!r} is {column.shown(row)} in row {row} (the first is 0); a weight that is positive "
            f"and finite is wanted{_perhaps(column, row) if no_number[row] else ''}"
        )
    return values[rows]


class Design(NamedTuple):
    """Contrasts, the names of their columns, which of these are items, and the levels that have no column."""

    contrasts: NDArray[np.float64] | IndexedContrasts
    features: tuple[str, ...]
    items: tuple[str, ...]
    references: tuple[str, ...]


def design(raw: Raw, rows: NDArray[np.bool_]) -> Design:
    """The contrasts of these rows: items first, then categories, then numbers."""
    blocks = [_block(raw.items, rows)] if raw.items else []
    items = blocks[0].levels if blocks else ()
    names, references = list(items), []
    numbers = []
    for k, feature in enumerate(raw.features):
        pair = [group[k] for group in raw.groups]
        if not any(column.is_category for column in pair):
            numbers.append((feature, pair))
            continue
        if len(pair) == 1:
            raise ValueError(
                f"column {pair[0].name!r} is a contrast and categorical; a contrast of numbers, or categories in "
                "first and second, are wanted"
            )
        block = _block(pair, rows)
        references.append(f"{feature}={block.levels[0]}")
        if len(block.levels) > 1:
            blocks.append(_Block(block.first - 1, block.second - 1, block.levels[1:]))
            names += [f"{feature}={level}" for level in block.levels[1:]]
    names += [feature for feature, _ in numbers]
    if not names:
        raise ValueError(f"{raw.path!r}: every category has a single level ({', '.join(references)}); two are wanted")
    _check_names(names, raw.path)
    others = np.empty((int(rows.sum()), len(numbers)))
    for k, (_, pair) in enumerate(numbers):
        others[:, k] = _difference(pair, rows)
    if not blocks:
        return Design(others, tuple(names), (), tuple(references))
    places = [np.column_stack([getattr(block, side) for block in blocks]) for side in ("first", "second")]
    sizes = tuple(len(block.levels) for block in blocks)
    return Design(
        IndexedContrasts(places[0], places[1], sizes, others if numbers else None),
        tuple(names),
        items,
        tuple(references),
    )


def _check_names(names: Sequence[str], path: str) -> None:
    """Refuse two features of one name: an item, a level of a category and a column may be called the same."""
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise ValueError(
            f"{path!r}: two features are called {twice[0]!r}, of the items, levels of categories and columns; a name "
            "of its own is wanted for each"
        )


class _Block(NamedTuple):
    """One-hot features: the place of the first's 1 and of the second's, and the names."""

    first: NDArray[np.int32]
    second: NDArray[np.int32]
    levels: tuple[str, ...]


def _block(pair: Sequence[Column], rows: NDArray[np.bool_]) -> _Block:
    """The names in a pair of columns, of those rows only: what is nowhere learned has no coefficient."""
    column = joined([Column(c.name, c.values[rows], c.levels, c.is_category) for c in pair])
    places, names = column.named()
    used = np.flatnonzero(np.bincount(places, minlength=len(names)))
    renamed = np.full(len(names), -1, np.int32)
    renamed[used] = np.arange(len(used))
    half = len(places) // 2
    return _Block(renamed[places[:half]], renamed[places[half:]], tuple(names[k] for k in used))


def _difference(pair: Sequence[Column], rows: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The contrasts of a feature, (m,)."""
    sides = []
    for column in pair:
        values, no_number = column.numbers()
        wrong = no_number | (np.isinf(values) & rows)
        if wrong.any():
            row = int(np.argmax(wrong))
            is_number = not no_number[row]
            or_category = ", or named by categorical (--categorical)" if column.levels is not None else ""
            wanted = "must be finite" if is_number else f"must be a number{_perhaps(column, row) or or_category}"
            found = values[row] if is_number else column.shown(row)
            raise ValueError(f"column {column.name!r} is {found} in row {row} (the first is 0); every feature {wanted}")
        sides.append(values[rows])
    contrast: NDArray[np.float64] = sides[0] - sides[1] if len(sides) == 2 else sides[0]
    return contrast


def _perhaps(column: Column, row: int) -> str:
    """How an entry that is no number would be one."""
    if column.decimal != ".":
        return f", with {column.decimal!r} before its fraction, as decimal (--decimal) says"
    text = column.shown(row)
    is_with_comma = looked_at(float, text.strip("'").replace(".", "").replace(",", ".")) is not None
    return "; numbers with a comma want decimal=',' (--decimal ,)" if is_with_comma else ""
