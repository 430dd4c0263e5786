"""Reading a log of finished comparisons from a table or an archive, with every row accounted for."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from fastcolst._checks import brief, choice, path_text, plain_text, texts
from fastcolst._files import BLOCK, Arrays, FileFormatError, check_claim, decoding, opened, optional_import
from fastcolst.data.columns import Columns, Request, check_unique, named, table_groups
from fastcolst.data.conditions import parse_condition
from fastcolst.data.log import Log

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_log"]

MOST_COLUMNS = 20_000
"""Of a .csv file: pandas takes a second or two for so many, and hours for what a file of commas could claim."""
FEW = 10  # as many comparisons with the same winner may be chance
_LOSS_DRAW_WIN = {"signed": (-1.0, 0.0, 1.0), "unit": (0.0, 0.5, 1.0)}


def read_log(
    path: str | os.PathLike[str],
    *,
    first: Columns | None = None,
    second: Columns | None = None,
    contrast: Columns | None = None,
    outcome: str | None = None,
    coding: str | None = None,
    where: Columns | None = None,
) -> Log:
    """Read a log of finished comparisons: .csv, .csv.gz, .parquet or .npz.

    Parameters
    ----------
    path : path
        A table (.csv, .csv.gz, .parquet) or named arrays (.npz).
    first, second : shell pattern or list of column names, optional
        Features of the two things compared. Two patterns (``first="a_*", second="b_*"``) are matched by what
        their wildcards stand for, whatever the order in the file; two lists by position. In an .npz: names of
        two (m, d) arrays.
    contrast : shell pattern or list of column names, optional
        Features of the first minus those of the second, instead of the two groups. In an .npz: the name of an
        (m, d) array; "contrasts", or else "Z", if nothing is given.
    outcome : str, optional
        Column of the outcomes; "outcome", or else "y", if not given.
    coding : {"auto", "signed", "unit"}, optional
        "signed": -1, 0, 1 for loss, draw, win of the first; "unit": 0, 1/2, 1. "auto", the default, takes
        "signed" if there is any -1 in the file.
    where : str or list of str, optional
        Keep the rows that meet all these conditions, such as ``"year >= 1990"`` or ``"city != 'Oslo'"``: a
        column, one of ``== != < <= > >=``, a number or a quoted text. A row whose value is missing meets no
        condition. In an .npz the column is a one-dimensional array of length m.

    Returns
    -------
    Log
        The comparisons that are decisive and complete, in file order, and the counts of all others.

    Raises
    ------
    FileFormatError
        A ValueError: the file is damaged, no regular file, or claims more than its bytes can hold, or than a
        quarter of the machine's memory. Nothing in a file is executed.
    ValueError
        No or ambiguous columns, features that are infinite or no numbers, nothing left to learn from, or an
        unknown extension.
    OSError
        The file cannot be opened, for example because it is not there.
    ImportError
        A table needs pandas, a .parquet file pyarrow as well.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from fastcolst.data import read_log
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "log.npz"
    ...     np.savez(path, Z=[[1.0], [2.0], [3.0]], y=[1, 0, -1], year=[1989, 1990, 1991])
    ...     log = read_log(path, where="year >= 1990")
    >>> log.contrasts, log.wins, log.features
    (array([[3.]]), array([False]), ('Z[0]',))
    >>> log.counts
    '3 rows with 1 draws, 2 kept by year >= 1990: 1 learned, 1 draws left out, 0 missing, 0 unknown outcomes'
    """
    path = path_text("path", path)
    coding = None if coding is None else choice("coding", coding, ("auto", *_LOSS_DRAW_WIN))
    first, second, contrast, where = (
        columns if columns is None else plain_text(columns) or texts(name, columns)
        for name, columns in (("first", first), ("second", second), ("contrast", contrast), ("where", where))
    )
    if outcome is not None and not isinstance(outcome, str):
        raise ValueError(f"outcome is {brief(outcome)}; the name of a column is wanted")
    if contrast is not None and (first is not None or second is not None):
        raise ValueError("contrast and first/second exclude each other: give the contrast or both groups")
    if (first is None) != (second is None):
        raise ValueError(f"{'second' if second is None else 'first'} is missing: first and second go together")
    lines = () if where is None else (where,) if isinstance(where, str) else tuple(where)
    conditions = [parse_condition(text) for text in lines]
    request = Request(path, first, second, contrast, outcome, [c.column for c in conditions])
    raw = _read(request)

    selected = np.ones(len(raw.outcomes), dtype=np.bool_)
    for condition in conditions:
        selected &= condition.holds(raw.columns[condition.column])
    loss, draw, win = _LOSS_DRAW_WIN[_coding(coding, raw.outcomes)]
    decisive = selected & ((raw.outcomes == loss) | (raw.outcomes == win))
    no_outcome = selected & np.isnan(raw.outcomes)
    draws = raw.outcomes == draw
    unknown = selected & ~decisive & ~draws & ~no_outcome
    learnable = decisive & ~np.any([np.isnan(group.values).any(axis=1) for group in raw.groups], axis=0)
    counts = {
        "rows": len(selected),
        "draws_in_file": int(draws.sum()),
        "selected": int(selected.sum()),
        "draws": int((selected & draws).sum()),
        "missing": int(no_outcome.sum() + (decisive & ~learnable).sum()),
        "unknown": int(unknown.sum()),
    }
    if not learnable.any():
        listed = ", ".join(f"{count} {name}" for name, count in counts.items() if name != "draws_in_file")
        raise ValueError(f"{request.path!r} has no comparison to learn from: {listed}")
    _check_finite(raw.groups, learnable)
    wins = raw.outcomes[learnable] == win
    if unknown.any() and len(wins) >= FEW and wins.all() == wins.any():  # the same winner throughout
        values = ", ".join(f"{value:g}" for value in np.unique(raw.outcomes[unknown])[:3])
        raise ValueError(
            f"{request.path!r} has outcomes {values}, which are none of {loss:g}, {draw:g}, {win:g}, and "
            f"{'no loss' if wins[0] else 'no win'} among the others: the coding of the outcomes is another one"
        )
    return Log(
        contrasts=_contrasts(raw.groups, learnable),
        wins=wins,
        features=raw.features,
        where=lines,
        **counts,
    )


def _coding(coding: str | None, outcomes: NDArray[np.float64]) -> str:
    # The whole file decides, so that a condition never changes what an outcome means.
    if coding in (None, "auto"):
        return "signed" if np.any(outcomes == -1.0) else "unit"
    return str(coding)


def _check_finite(groups: Sequence[_Group], rows: NDArray[np.bool_]) -> None:
    for group in groups:
        infinite = np.argwhere(np.isinf(group.values) & rows[:, np.newaxis])
        if infinite.size:
            row, column = infinite[0]
            value = group.values[row, column]
            raise ValueError(
                f"column {group.names[column]!r} is {value} in row {row} (the first is 0); every feature must be finite"
            )


def _contrasts(groups: Sequence[_Group], rows: NDArray[np.bool_]) -> NDArray[np.float64]:
    if len(groups) == 1:
        return groups[0].values[rows]
    first, second = groups
    return first.values[rows] - second.values[rows]


class _Group(NamedTuple):
    """Feature columns as they stand in the file: their names, and the values (rows, d)."""

    names: list[str]
    values: NDArray[np.float64]


class _Raw(NamedTuple):
    """What was taken: one group of contrasts or two groups of features, outcomes (nan: missing), columns."""

    groups: list[_Group]
    features: tuple[str, ...]
    outcomes: NDArray[np.float64]
    columns: dict[str, NDArray[Any]]


# --- files --------------------------------------------------------------------------------------------------


def _read(request: Request) -> _Raw:
    """Open the file, here for all formats, so that only its content is left to blame for what follows."""
    path, name = request.path, request.path.lower()
    if not name.endswith((".csv", ".csv.gz", ".parquet", ".npz")):
        raise ValueError(f"path {brief(path)} must end in .csv, .csv.gz, .parquet or .npz")
    with opened(path) as file:
        if name.endswith(".npz"):
            return _from_archive(Arrays(file, path), request)
        if name.endswith(".parquet"):
            return _from_table(_read_parquet(file, path), request)
        return _from_table(_read_csv(file, path, "gzip" if name.endswith(".gz") else None), request)


def _read_csv(file: BinaryIO, path: str, compression: str | None) -> Any:
    pandas = optional_import("pandas", "reading a .csv file")
    with decoding(path):
        _check_text(file, path, compression)
        # Without a look at the first two lines pandas renames a column whose name is there twice, and takes
        # the first for an index, shifting all names by one, if rows have a field too many: without a word.
        file.seek(0)
        start = pandas.read_csv(file, compression=compression, header=None, nrows=2, dtype=str, keep_default_na=False)
        file.seek(0)
        table = pandas.read_csv(file, compression=compression, low_memory=False)
        names = list(start.iloc[0])
    check_unique(names, path)
    return table


def _check_text(file: BinaryIO, path: str, compression: str | None) -> None:
    """Look through a table for what would take too much memory: compressed text does not tell how long it is."""
    held = os.fstat(file.fileno()).st_size
    text = file if compression is None else gzip.GzipFile(fileobj=file)
    size = 0
    while block := text.read(BLOCK):
        size += len(block)
        check_claim(path, "the table", size, held)
    text.seek(0)
    lines = (line.decode("latin-1") for line in text)  # commas are commas in UTF-8 as well
    n_columns = len(next(filter(None, csv.reader(lines)), ()))
    if n_columns > MOST_COLUMNS:
        raise FileFormatError(f"{path!r} has {n_columns:,} columns; at most {MOST_COLUMNS:,} are wanted")


def _read_parquet(file: BinaryIO, path: str) -> Any:
    optional_import("pandas", "reading a .parquet file")
    parquet = optional_import("pyarrow.parquet", "reading a .parquet file")
    held = os.fstat(file.fileno()).st_size
    with decoding(path):
        # Lists and texts of the footer are no longer than the file.
        limits = {"thrift_string_size_limit": min(held, 10**8), "thrift_container_size_limit": min(held, 10**6)}
        source = parquet.ParquetFile(file, **limits)
        rows, n_columns = source.metadata.num_rows, source.metadata.num_columns
        check_claim(path, f"the table of {rows:,} rows and {n_columns:,} columns", 8 * rows * n_columns, held)
        table = source.read()
        table.validate(full=True)  # texts that are no UTF-8, places beyond the end
        names = table.column_names
    check_unique(names, path)
    with decoding(path):
        return table.to_pandas(ignore_metadata=True, date_as_object=False)


def _from_table(table: Any, request: Request) -> _Raw:
    names = [str(name) for name in table.columns]
    groups, features = table_groups(names, request)
    outcome = named(request.outcome, ("outcome", "y"), names, "outcome", request.path)
    for group in groups:
        if outcome in group:
            raise ValueError(f"column {outcome!r} is the outcome and a feature too; choose the features more narrowly")
    outcomes, text = _numbers(table[outcome])
    outcomes[text] = np.inf  # not missing, and no value of any coding
    return _Raw(
        [_Group(group, _table_values(table, group)) for group in groups],
        features,
        outcomes,
        {name: _plain(table[named(name, (), names, "where", request.path)]) for name in request.columns},
    )


def _table_values(table: Any, columns: list[str]) -> NDArray[np.float64]:
    values = np.empty((len(table), len(columns)))
    for k, column in enumerate(columns):
        values[:, k], text = _numbers(table[column])
        if text.any():
            row = int(np.argmax(text))
            raise ValueError(
                f"column {column!r} is {table[column].iloc[row]!r} in row {row} (the first is 0); "
                "every feature must be a number"
            )
    return values


def _numbers(column: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return a column as float64, nan where it is missing or no number, and where it is no number."""
    pandas = optional_import("pandas", "reading a table")
    if not pandas.api.types.is_numeric_dtype(column):
        present = column.notna().to_numpy(dtype=np.bool_)
        values = np.array([_number(value) for value in column.astype(object)], dtype=np.float64)
        return values, present & np.isnan(values)
    if column.dtype.kind == "c":
        raise ValueError(f"column {column.name!r} holds complex numbers; real ones are wanted")
    values = column.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    return values, np.zeros(len(values), dtype=np.bool_)


def _number(value: object) -> float:
    # Booleans beside missing values, decimals and numbers in quotes come as objects.
    try:
        return float(value) if isinstance(value, str | int | float | Decimal) else np.nan
    except (TypeError, ValueError):
        return np.nan
    except OverflowError:  # an integer beyond the largest float
        return np.inf


def _plain(column: Any) -> NDArray[Any]:
    """Return a column as numbers, dates, or objects with None where it is missing."""
    pandas = optional_import("pandas", "reading a table")
    values: NDArray[Any]
    if pandas.api.types.is_numeric_dtype(column):  # booleans too
        values = column.to_numpy(np.float64, na_value=np.nan) if column.hasnans else column.to_numpy()
        return values
    if column.dtype.kind == "M" and getattr(column.dtype, "tz", None) is None:
        values = column.to_numpy()
        return values
    objects = np.empty(len(column), dtype=object)
    objects[:] = [value if present else None for value, present in zip(column, column.notna(), strict=True)]
    return objects


def _from_archive(archive: Arrays, request: Request) -> _Raw:
    options = [("first", request.first), ("second", request.second)]
    if request.first is None:
        options = [("contrast", request.contrast)]
    groups = [_archive_group(archive, option, name) for option, name in options]
    rows = len(groups[0].values)
    if groups[-1].values.shape != groups[0].values.shape:
        shapes = " and ".join(str(group.values.shape) for group in groups)
        raise ValueError(f"first and second have the shapes {shapes}; they must be the same")
    outcome = named(request.outcome, ("outcome", "y"), archive.names, "outcome", archive.path)
    outcomes = _archive_column(archive, outcome, rows)
    if outcomes.dtype.kind not in "biuf":
        raise ValueError(f"array {outcome!r} has dtype {outcomes.dtype}; outcomes must be numbers")
    columns = {
        name: _archive_column(archive, named(name, (), archive.names, "where", archive.path), rows)
        for name in request.columns
    }
    features = groups[0].names
    if len(groups) == 2:
        features = [f"{a} - {b}" for a, b in zip(groups[0].names, groups[1].names, strict=True)]
    return _Raw(groups, tuple(features), outcomes.astype(np.float64), columns)


def _archive_group(archive: Arrays, option: str, asked: Columns | None) -> _Group:
    if asked is not None and not isinstance(asked, str):
        raise ValueError(f"{option} is a list; in an .npz file the name of one (m, d) array is wanted")
    name = named(asked, ("contrasts", "Z"), archive.names, option, archive.path)
    array = archive[name]
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(f"array {name!r} is {array.dtype}{list(array.shape)}; numbers (m, d) are wanted")
    if array.size == 0:  # before as many columns are named as it may claim
        raise ValueError(f"{archive.path!r} has no comparison to learn from: {name!r} has shape {array.shape}")
    return _Group([f"{name}[{k}]" for k in range(array.shape[1])], array.astype(np.float64))


def _archive_column(archive: Arrays, name: str, rows: int) -> NDArray[Any]:
    array = archive[name]
    if array.shape != (rows,):
        raise ValueError(f"array {name!r} has shape {array.shape}; ({rows},) is wanted")
    return array
