"""What a log is made from: the columns that were asked for, of files and tables, several of which are one log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from fastcolst._checks import brief, path_text, plain_text
from fastcolst._files import Arrays, opened
from fastcolst._words import is_tie
from fastcolst.data.columns import Columns, Request, layout_of, named
from fastcolst.data.tables import (
    Column,
    array_column,
    frame_of,
    joined,
    library_of,
    read_csv,
    read_parquet,
    table_column,
)

__all__ = ["Raw", "pair_with_outcomes", "read_raw"]


Taker = Callable[..., Any]


class Raw(NamedTuple):
    """What was taken, of one source or several: one group of contrasts or two groups of features, or none.

    `columns` are those of the conditions, in their order; `path` is what messages call it. `sources` has the name and
    the rows of each source, in their order.
    """

    path: str
    rows: int
    groups: list[list[Column]]
    features: tuple[str, ...]
    items: list[Column]
    outcome: Column | None
    weight: Column | None
    columns: list[Column]
    sources: tuple[tuple[str, int], ...] = ()

    def parts(self) -> list[Column]:
        """All columns, in one order."""
        single = [column for column in (self.outcome, self.weight) if column is not None]
        return [*(column for group in self.groups for column in group), *self.items, *single, *self.columns]


def read_raw(path: Any, request: Request, sep: str | None, decimal: str | None) -> Raw:
    """Take what was asked for from a file, a table, or a list of these, one below the other.

    Raises
    ------
    FileFormatError, ValueError, OSError, ImportError
        As :func:`fastcolst.read_log` does.
    """
    sources = list(path) if isinstance(path, list | tuple) else [path]
    if not sources:
        raise ValueError("path is an empty list; at least one file or table is wanted")
    return _joined([_read(source, request, sep, decimal) for source in sources])


def pair_with_outcomes(path: Any, request: Request, sep: str | None, decimal: str | None) -> tuple[str, ...]:
    """Two columns of a table, the first of several, of which one has each row's outcome; nothing where none have.

    The table is read once more: nobody asked for these columns.
    """
    source = path[0] if isinstance(path, list | tuple) else path
    found: tuple[str, ...] = _read(source, request, sep, decimal, (_pair_in_table, lambda archive, request: ()))
    return found


def _pair_in_table(table: Any, request: Request, decimal: str = ".") -> tuple[str, ...]:
    names = [str(name) for name in table.columns]
    outcome = named(request.outcome, ("outcome", "y"), names, "outcome", request.path)
    columns = [table.iloc[:, k].astype(object) for k in range(len(names))]
    plain = {name: column.where(column.notna(), None) for name, column in zip(names, columns, strict=True)}
    entries = plain.pop(outcome)
    settled = entries.isna().to_numpy() | entries.map(is_tie).to_numpy(bool)
    same = {name: (column == entries).to_numpy(bool) for name, column in plain.items()}
    some = [name for name, rows in same.items() if rows.any()]
    pairs = combinations(some, 2)
    return next((pair for pair in pairs if np.all(settled | same[pair[0]] | same[pair[1]])), ())


def _joined(raws: list[Raw]) -> Raw:
    """One below the other."""
    first = raws[0]
    sources = tuple((raw.path, raw.rows) for raw in raws)
    if len(raws) == 1:
        return first._replace(sources=sources)
    columns = iter([joined(parts) for parts in zip(*(_like(first, raw).parts() for raw in raws), strict=True)])
    return Raw(
        f"{first.path} and {len(raws) - 1} more",
        sum(raw.rows for raw in raws),
        [[next(columns) for _ in group] for group in first.groups],
        first.features,
        [next(columns) for _ in first.items],
        None if first.outcome is None else next(columns),
        None if first.weight is None else next(columns),
        list(columns),
        sources,
    )


def _like(first: Raw, raw: Raw) -> Raw:
    """The same with its features in the order of the first source's."""
    odd = sorted(set(raw.features) ^ set(first.features))
    if odd or len(raw.groups) != len(first.groups):
        kind = f"features {', '.join(odd[:5])}" if odd else "way in which features are given"
        raise ValueError(f"{raw.path!r} and {first.path!r} differ by the {kind}; the same ones in all are wanted")
    order = [raw.features.index(feature) for feature in first.features]
    return raw._replace(features=first.features, groups=[[group[k] for k in order] for group in raw.groups])


# --- files and tables ---------------------------------------------------------------------------------------


def _read(
    source: Any, request: Request, sep: str | None, decimal: str | None, takers: tuple[Taker, Taker] | None = None
) -> Any:
    """Take what was asked for from a table or a file, which is opened here: past that its content is to blame.

    ``takers`` take it from a table and from named arrays.
    """
    from_table, from_archive = takers or (_from_table, _from_archive)
    marks = _marks(sep, decimal)
    library = library_of(source)
    if library:
        _refuse_marks(sep, decimal, "a table in memory")
        return from_table(frame_of(source, library), request._replace(path=f"table of {library}"))
    path = path_text("path", source)
    request, name = request._replace(path=path), path.lower()
    if not name.endswith((".csv", ".csv.gz", ".parquet", ".npz")):
        raise ValueError(f"path {brief(path)} must end in .csv, .csv.gz, .parquet or .npz")
    if not name.endswith((".csv", ".csv.gz")):
        _refuse_marks(sep, decimal, repr(path))
    with opened(path) as file:
        if name.endswith(".npz"):
            return from_archive(Arrays(file, path), request)
        if name.endswith(".parquet"):
            return from_table(read_parquet(file, path), request)
        table = read_csv(file, path, "gzip" if name.endswith(".gz") else None, *marks)
        return from_table(table, request, marks[1])


def _marks(sep: Any, decimal: Any) -> tuple[str, str]:
    """What stands between columns, and before fractions."""
    for name, mark in (("sep", sep), ("decimal", decimal)):
        if mark is not None and (plain_text(mark) is None or len(mark) != 1 or mark in '"\n\r'):
            raise ValueError(f"{name} is {brief(mark)}; a single character is wanted")
    marks = "," if sep is None else sep, "." if decimal is None else decimal
    if marks[0] == marks[1]:
        raise ValueError(f"sep and decimal are both {marks[0]!r}; two characters are wanted")
    return marks


def _refuse_marks(sep: str | None, decimal: str | None, what: str) -> None:
    for name, mark in (("sep", sep), ("decimal", decimal)):
        if mark is not None:
            raise ValueError(f"{name} is {mark!r}, and {what} is no .csv; it is wanted for .csv alone")


def _from_table(table: Any, request: Request, decimal: str = ".") -> Raw:
    names = [str(name) for name in table.columns]
    place = {name: k for k, name in enumerate(names)}
    layout = layout_of(names, request)

    def column(name: str) -> Column:
        found = replace(table_column(name, table.iloc[:, place[name]]), decimal=decimal)
        return found.as_category() if name in layout.categorical else found

    return Raw(
        request.path,
        len(table),
        [[column(name) for name in group] for group in layout.groups],
        layout.features,
        [column(name) for name in layout.items],
        None if layout.outcome is None else column(layout.outcome),
        None if layout.weight is None else column(layout.weight),
        [column(named(name, (), names, "where", request.path)) for name in request.columns],
    )


def _from_archive(archive: Arrays, request: Request) -> Raw:
    if request.categorical:
        raise ValueError(f"categorical is {brief(request.categorical)}; in an .npz file features are numbers")
    options = [("first", request.first), ("second", request.second)]
    if request.first is None:
        options = [("contrast", request.contrast)]
    if request.items and request.first is None and request.contrast is None:
        options = []

    def column(option: str, asked: str | None, *defaults: str) -> Column:
        return _archive_column(archive, named(asked, defaults, archive.names, option, archive.path))

    groups = [_archive_group(archive, option, name) for option, name in options]
    if groups and len(groups[-1]) != len(groups[0]):
        widths = " and ".join(str(len(group)) for group in groups)
        raise ValueError(f"first and second have {widths} columns; they must be the same")
    items = [column("items", name) for name in request.items]
    outcome = None if request.winner_first else column("outcome", request.outcome, "outcome", "y")
    weight = None if request.weight is None else column("weight", request.weight)
    columns = [column("where", name) for name in request.columns]
    features = [feature.name for feature in groups[0]] if groups else []
    if len(groups) == 2:
        features = [f"{a.name} - {b.name}" for a, b in zip(groups[0], groups[1], strict=True)]
    rows = len((groups[0] if groups else items)[0])
    raw = Raw(archive.path, rows, groups, tuple(features), items, outcome, weight, columns)
    for part in raw.parts():
        if len(part) != rows:
            raise ValueError(f"array {part.name!r} has shape ({len(part)},); ({rows},) is wanted")
    return raw


def _archive_group(archive: Arrays, option: str, asked: Columns | None) -> list[Column]:
    if asked is not None and not isinstance(asked, str):
        raise ValueError(f"{option} is a list; in an .npz file the name of one (m, d) array is wanted")
    name = named(asked, ("contrasts", "Z"), archive.names, option, archive.path)
    array = archive[name]
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(f"array {name!r} is {array.dtype}{list(array.shape)}; numbers (m, d) are wanted")
    if array.size == 0:  # before as many columns are named as it may claim
        raise ValueError(f"{archive.path!r} has no comparison to learn from: {name!r} has shape {array.shape}")
    return [Column(f"{name}[{k}]", array[:, k]) for k in range(array.shape[1])]


def _archive_column(archive: Arrays, name: str) -> Column:
    array = archive[name]
    if array.ndim != 1:
        raise ValueError(f"array {name!r} has shape {array.shape}; one dimension is wanted")
    return array_column(name, array)
