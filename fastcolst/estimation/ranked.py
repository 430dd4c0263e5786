"""Rankings in the forms in which people have them, checked: names of items, features by name, rows of features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import brief, entries, feature_rows, looked_at, plain_text, texts, whole_number
from fastcolst.estimation.designs import column_names

__all__ = ["Ranked", "ranked_of"]

Array = NDArray[np.float64]


class Ranked(NamedTuple):
    """Rankings as numbers of rows, which are items of rankings.

    features (n, d); levels: for each ranking the groups of tied rows from the best on, most of one row, those that were
    shown and not ranked as the last group, where ``is_open`` says that there are such; names of the features; how many
    of them are items.
    """

    features: Any
    levels: list[list[list[int]]]
    is_open: list[bool]
    names: tuple[str, ...]
    n_items: int


def ranked_of(rankings: Any, features: Any, shown: Any, names: Any) -> Ranked:
    """Rankings as a person handed them in, checked."""
    given = _listed("rankings", rankings, "a sequence of rankings, each with its best item first,")
    levels = [_levels(r, ranking) for r, ranking in enumerate(given)]
    table = _table(features)
    if features is None or table is not None:
        return _of_items(levels, shown, names, table, None if table is None else column_names(features))
    if shown is not None:
        raise ValueError(f"shown is {brief(shown)}; None is wanted where features has the rows that were shown")
    return _of_rows(levels, features, names)


def _levels(r: int, ranking: Any) -> list[list[Any]]:
    """The items of a ranking, a list for each level."""
    levels = []
    for entry in _listed(f"rankings[{r}]", ranking, "a sequence of items, best first"):
        tied = looked_at(list, entry, []) if isinstance(entry, (list, tuple)) else [entry]
        level = [_label(item) for item in tied]
        if None in level or not level:
            raise ValueError(f"rankings[{r}] holds {brief(entry)}; names of items, or numbers of rows, are wanted")
        levels.append(level)
    _refuse_twice(f"rankings[{r}]", [item for level in levels for item in level])
    return levels


def _label(item: Any) -> str | int | None:
    """The name of an item, or its number."""
    text = plain_text(item)
    return whole_number(item) if text is None else text


def _listed(name: str, value: Any, wanted: str) -> list[Any]:
    """What a sequence holds, which is no text and not empty."""
    found = None if plain_text(value) is not None or isinstance(value, Mapping) else looked_at(list, value)
    if not found:
        raise ValueError(f"{name} is {brief(value)}; {wanted} is wanted")
    return found


def _refuse_twice(name: str, items: list[Any]) -> None:
    if len(set(items)) < len(items):
        twice = next(item for k, item in enumerate(items) if item in items[:k])
        raise ValueError(f"{name} has {brief(twice)} twice; each item once is wanted")


def _table(features: Any) -> dict[Any, Any] | None:
    """Features by name, of a dict or a data frame with an index; None for anything else."""
    if isinstance(features, Mapping):
        given = list(entries("features", features).items())
    else:
        frame = looked_at(lambda it: (list(it.index), list(it.columns), list(it.to_numpy())), features)
        if frame is None:
            return None
        given = list(zip(frame[0], frame[2], strict=True))
    labels = [_label(name) for name, _ in given]
    if None in labels or not labels:
        raise ValueError(f"features is {brief(features)}; features by the names of items are wanted")
    _refuse_twice("features", labels)
    return dict(zip(labels, (row for _, row in given), strict=True))


def _of_items(levels: list[list[list[Any]]], shown: Any, names: Any, table: Any, columns: Any) -> Ranked:
    """Rankings of items that are known by name."""
    is_open = _with_unranked(levels, shown)
    for r, ranking in enumerate(levels):
        if sum(map(len, ranking)) < 2:
            raise ValueError(f"rankings[{r}] is {brief(ranking[0][0])} alone; two or more items, or shown, are wanted")
    listed = [item for ranking in levels for level in ranking for item in level]
    if table is None:
        wrong = next((item for item in listed if not isinstance(item, str)), None)
        if wrong is not None:
            raise ValueError(f"rankings holds {brief(wrong)}; names of items, which are texts, are wanted")
        if names is not None:
            raise ValueError(f"names is {brief(names)}; None is wanted where each item is a feature")
        items = tuple(sorted(set(listed)))
        return Ranked(_indicators(listed, items), _numbered(levels), is_open, items, len(items))
    wrong = next((item for item in listed if item not in table), None)
    if wrong is not None:
        raise ValueError(f"rankings holds {brief(wrong)}, which features has not; names among them are wanted")
    vectors = looked_at(lambda given: [np.asarray(row) for row in given.values()], table)
    rows = feature_rows("features", vectors, None, shape="a row of numbers for each item, all of one length,")
    places = {item: k for k, item in enumerate(table)}
    rows = rows[[places[item] for item in listed]]
    return Ranked(_centred(rows, levels), _numbered(levels), is_open, _feature_names(names, columns, rows), 0)


def _indicators(listed: list[str], items: tuple[str, ...]) -> Any:
    """1 for the item of each row, (n, n_items)."""
    from scipy import sparse

    places = {item: k for k, item in enumerate(items)}
    codes = [places[item] for item in listed]
    shape = len(codes), len(items)
    return sparse.csr_matrix((np.ones(len(codes)), codes, np.arange(len(codes) + 1)), shape=shape)


def _with_unranked(levels: list[list[list[Any]]], shown: Any) -> list[bool]:
    """Put what was shown and not ranked behind each ranking; whether there was some."""
    if shown is None:
        return [False] * len(levels)
    wanted = f"a sequence of items for each of {len(levels)} rankings"
    sets = _listed("shown", shown, wanted)
    if len(sets) != len(levels):
        raise ValueError(f"shown has {len(sets)} entries; {wanted} is wanted")
    others = [_unranked(r, items, levels[r]) for r, items in enumerate(sets)]
    levels[:] = [[*ranking, rest] if rest else ranking for ranking, rest in zip(levels, others, strict=True)]
    return [bool(rest) for rest in others]


def _unranked(r: int, items: Any, levels: list[list[Any]]) -> list[Any]:
    """Items that were shown and are not ranked."""
    listed = [_label(item) for item in _listed(f"shown[{r}]", items, "a sequence of items")]
    if None in listed:
        raise ValueError(f"shown[{r}] is {brief(items)}; names of items are wanted")
    _refuse_twice(f"shown[{r}]", listed)
    named = [item for level in levels for item in level]
    missing = next((item for item in named if item not in listed), None)
    if missing is not None:
        raise ValueError(f"shown[{r}] has no {brief(missing)}, which rankings[{r}] ranks; all items shown are wanted")
    return [item for item in listed if item not in named]


def _of_rows(levels: list[list[list[Any]]], features: Any, names: Any) -> Ranked:
    """Rankings of rows of features of their own."""
    wanted = f"None, features by name, or rows for each of {len(levels)} rankings"
    given = _listed("features", features, wanted)
    if len(given) != len(levels):
        raise ValueError(f"features has {len(given)} entries; {wanted} is wanted")
    parts: list[Array] = []
    is_open = []
    for r, rows in enumerate(given):
        part = feature_rows(f"features[{r}]", rows, parts[0].shape[1] if parts else None, shape="(k, n_features)")
        if len(part) < 2:
            raise ValueError(f"features[{r}] has 1 row; two or more are wanted")
        ranked = [row for level in levels[r] for row in level]
        wrong = next((row for row in ranked if isinstance(row, str) or not 0 <= row < len(part)), None)
        if wrong is not None:
            raise ValueError(f"rankings[{r}] holds {brief(wrong)}; a row from 0 to {len(part) - 1} is wanted")
        others = [row for row in range(len(part)) if row not in ranked]
        is_open.append(bool(others))
        if others:
            levels[r] = [*levels[r], others]
        parts.append(part[ranked + others])
    table = np.concatenate(parts)
    return Ranked(_centred(table, levels), _numbered(levels), is_open, _feature_names(names, None, table), 0)


def _numbered(levels: list[list[list[Any]]]) -> list[list[list[int]]]:
    """The same with the numbers of rows, which count on from ranking to ranking."""
    row, numbered = 0, []
    for ranking in levels:
        groups = []
        for level in ranking:
            groups.append(list(range(row, row + len(level))))
            row += len(level)
        numbered.append(groups)
    return numbered


def _centred(rows: Array, levels: list[list[list[Any]]]) -> Array:
    """Features less their mean over each ranking, which makes no difference but to rounding."""
    sizes = np.array([sum(map(len, ranking)) for ranking in levels])
    means = np.add.reduceat(rows, np.cumsum(sizes) - sizes, axis=0) / sizes[:, None]
    centred: Array = rows - np.repeat(means, sizes, axis=0)
    return centred


def _feature_names(names: Any, columns: Any, rows: Array) -> tuple[str, ...]:
    d = rows.shape[1]
    if names is None:
        return columns or tuple(f"x[{k}]" for k in range(d))
    labels = texts("names", names)
    if len(labels) != d or len(set(labels)) < d:
        raise ValueError(f"names is {brief(names)}; {d} different names are wanted, one for each feature")
    return labels
