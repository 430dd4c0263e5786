"""Tables: files and data frames as columns, whichever library made them.

A column is numbers, dates, or places in a list of levels: texts, and whatever else is neither a number nor a date, are
looked at once for each level and not once for each row.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from fastcolst._checks import brief, is_a
from fastcolst._files import BLOCK, FileFormatError, check_claim, decoding, optional_import
from fastcolst.data.columns import check_unique
from fastcolst.data.contrasts import PLACE

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "MOST_COLUMNS",
    "Column",
    "array_column",
    "frame_of",
    "joined",
    "library_of",
    "number_in",
    "read_csv",
    "read_parquet",
    "table_column",
    "text_of",
]

MOST_COLUMNS = 20_000
"""Of a .csv file: pandas takes a second or two for so many, and hours for what a file of commas could claim."""


@dataclass(frozen=True, eq=False)
class Column:
    """A column: its name, and numbers (nan: missing), dates (NaT), or places in a list of levels (-1).

    Parameters
    ----------
    name : str
    values : (rows,) numbers, datetime64, or int32 places
    levels : tuple, optional
        What the places stand for; None for numbers and dates.
    is_category : bool
        Whether its library calls it categorical: its levels then have its order.
    zone : tzinfo, optional
        Time zone in which its dates were written; they stand here in UTC. None where they had none.
    decimal : str
        What stands before the fractions of numbers in its texts.
    are_truths : bool
        Whether its numbers were True and False, beside missing values as well.
    """

    name: str
    values: NDArray[Any]
    levels: tuple[Any, ...] | None = None
    is_category: bool = False
    zone: Any = None
    decimal: str = "."
    are_truths: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Where it is not missing, (rows,)."""
        if self.levels is not None:
            return np.asarray(self.values >= 0, np.bool_)
        kind = self.values.dtype.kind
        gaps = np.isnat(self.values) if kind in "mM" else np.isnan(self.values) if kind in "fc" else False
        return np.asarray(np.broadcast_to(~np.asarray(gaps), len(self)))

    def by_level(self, of_levels: Sequence[Any] | NDArray[Any], missing: Any, dtype: Any) -> NDArray[Any]:
        """What belongs to the level of each row, (rows,)."""
        found: NDArray[Any] = np.array([*of_levels, missing], dtype)[self.values]
        return found

    def numbers(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """As float64, nan where it is missing or no number; and where it is there and no number."""
        if self.levels is not None:
            numbers = [number_in(level, self.decimal) for level in self.levels]
            return self.by_level(numbers, np.nan, np.float64), self.by_level(np.isnan(numbers), False, np.bool_)
        if self.values.dtype.kind in "mM":
            return np.full(len(self), np.nan), self.present
        if self.values.dtype.kind == "c":
            raise ValueError(f"column {self.name!r} holds complex numbers; real ones are wanted")
        return self.values.astype(np.float64), np.zeros(len(self), np.bool_)

    def named(self) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        """As places in a list of names (-1: missing). Texts are sorted, numbers and categories keep their order."""
        column = self if self.levels is not None else _by_value(self)
        names = [text_of(level) for level in column.levels or ()]
        is_sorted = self.levels is not None and not self.is_category
        known = sorted(set(names)) if is_sorted else list(dict.fromkeys(names))
        where = {name: place for place, name in enumerate(known)}
        return column.by_level([where[name] for name in names], -1, PLACE), tuple(known)

    def as_category(self) -> Column:
        """The same column as categories, in the order of their names, or of their numbers."""
        if self.is_category:
            return self
        places, names = self.named()
        return replace(self, values=places, levels=names, is_category=True)

    def part(self, rows: slice) -> Column:
        """Some of its rows."""
        return replace(self, values=self.values[rows])

    def shown(self, row: int) -> str:
        """An entry, for a message."""
        return brief(self.values[row].item() if self.levels is None else self.levels[self.values[row]])


def _by_value(column: Column) -> Column:
    """The same column with its values for levels, in their order."""
    there = column.present
    levels, places = np.unique(column.values[there], return_inverse=True)
    values = np.full(len(column), -1, PLACE)
    values[there] = places.reshape(-1)
    return replace(column, values=values, levels=tuple(levels.tolist()))


def number_in(value: object, decimal: str = ".") -> float:
    """The number that a value is, or says as a text; nan where it is none."""
    # Booleans beside missing values, decimals and numbers in quotes come as objects.
    if decimal != "." and isinstance(value, str):
        value = "" if "." in value else value.replace(decimal, ".")  # another mark may be one of thousands
    try:
        return float(value) if isinstance(value, str | int | float | Decimal) else np.nan
    except (TypeError, ValueError):
        return np.nan
    except OverflowError:  # an integer beyond the largest float
        return np.inf


def text_of(value: Any) -> str:
    """A value as a text. 3.0 is "3": whole numbers beside missing ones come as floats."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def array_column(name: str, array: NDArray[Any]) -> Column:
    """A column of a one-dimensional array."""
    column = Column(name, array, are_truths=array.dtype.kind == "b")
    return _by_value(column) if array.dtype.kind == "U" else column


def table_column(name: str, series: Any) -> Column:
    """A column of a pandas one."""
    pandas = optional_import("pandas", "reading a table")
    dtype = series.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        places = series.cat.codes.to_numpy().astype(PLACE)
        return Column(name, places, tuple(series.cat.categories.tolist()), is_category=True)
    if pandas.api.types.is_numeric_dtype(series):  # booleans too
        has_gaps = dtype.kind != "c" and bool(series.hasnans)
        values = series.to_numpy(np.float64, na_value=np.nan) if has_gaps else series.to_numpy()
        return Column(name, values, are_truths=pandas.api.types.is_bool_dtype(series))
    if dtype.kind == "M":
        zone = series.dt.tz
        dates = (series if zone is None else series.dt.tz_convert("UTC").dt.tz_localize(None)).to_numpy()
        return Column(name, dates if dates.dtype.kind == "M" else dates.astype("datetime64[us]"), zone=zone)
    objects = series.astype(object)
    try:
        places, levels = pandas.factorize(objects)
    except TypeError:  # lists and the like, which have no hash: what they look like
        places, levels = pandas.factorize(objects.where(series.isna(), objects.map(str)))
    return Column(name, places.astype(PLACE), tuple(levels))


def joined(columns: Sequence[Column]) -> Column:
    """The columns of several tables, one below the other."""
    first = columns[0]
    if len(columns) == 1:
        return first
    if any(column.levels is not None for column in columns):
        parts = [column if column.levels is not None else _by_value(column) for column in columns]
        levels = list(dict.fromkeys(level for part in parts for level in part.levels or ()))
        if any(part.levels != parts[0].levels for part in parts):  # no order is that of all
            levels.sort(key=text_of)
        where = {level: place for place, level in enumerate(levels)}
        places = [part.by_level([where[level] for level in part.levels or ()], -1, PLACE) for part in parts]
        is_category = all(column.is_category for column in columns)
        return Column(first.name, np.concatenate(places), tuple(levels), is_category, decimal=first.decimal)
    kinds = {"dates" if column.values.dtype.kind in "mM" else "numbers" for column in columns}
    zones = {column.zone is None for column in columns}
    if len(kinds) > 1 or len(zones) > 1:
        found = " and ".join(sorted(kinds)) if len(kinds) > 1 else "dates with a time zone and without one"
        raise ValueError(f"column {first.name!r} holds {found} in different files; one kind is wanted")
    are_truths = all(column.are_truths for column in columns)
    return replace(first, values=np.concatenate([column.values for column in columns]), are_truths=are_truths)


# --- what people hand in ------------------------------------------------------------------------------------


TABLES = (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch"))


def library_of(table: Any) -> str:
    """The library of a table, which has been imported by whoever made it; nothing for what is no table."""
    modules = ((name, sys.modules.get(name), cls) for name, cls in TABLES)
    return next((name for name, module, cls in modules if module and is_a(getattr(module, cls), table)), "")


def frame_of(table: Any, library: str) -> Any:
    """The pandas data frame of a table of that library."""
    if library == "pandas":
        check_unique([str(name) for name in table.columns], "the table")
        return table
    if library == "polars":
        optional_import("pyarrow", "reading a polars table")
        return _frame_of_arrow(table.to_arrow())
    return _frame_of_arrow(table)


def _frame_of_arrow(table: Any) -> Any:
    optional_import("pandas", "reading an Arrow table")
    check_unique(table.schema.names, "the table")
    return table.to_pandas(ignore_metadata=True, date_as_object=False)


def read_csv(file: BinaryIO, path: str, compression: str | None, sep: str, decimal: str) -> Any:
    """The pandas data frame of a .csv file, whose bytes are looked through first."""
    pandas = optional_import("pandas", "reading a .csv file")
    with decoding(path):
        _check_text(file, path, compression, sep)
        # Without a look at the first two lines pandas renames a column whose name is there twice, and takes
        # the first for an index, shifting all names by one, if rows have a field too many: without a word.
        file.seek(0)
        start = pandas.read_csv(
            file, compression=compression, header=None, nrows=2, dtype=str, keep_default_na=False, sep=sep
        )
        file.seek(0)
        table = pandas.read_csv(file, compression=compression, low_memory=False, sep=sep, decimal=decimal)
        names = list(start.iloc[0])
    check_unique(names, path)
    return table


def _check_text(file: BinaryIO, path: str, compression: str | None, sep: str) -> None:
    """Refuse a table that would take too much memory, or has another mark between its columns than was said.

    All of it is read for that: compressed text does not tell how long it is.
    """
    held = os.fstat(file.fileno()).st_size
    text = file if compression is None else gzip.GzipFile(fileobj=file)
    size = 0
    while block := text.read(BLOCK):
        size += len(block)
        check_claim(path, "the table", size, held)
    text.seek(0)
    lines = (line.decode("latin-1") for line in text)  # what is ASCII is the same in UTF-8
    head = next(filter(None, csv.reader(lines, delimiter=sep)), [])
    if len(head) > MOST_COLUMNS:
        raise FileFormatError(f"{path!r} has {len(head):,} columns; at most {MOST_COLUMNS:,} are wanted")
    mark = next((mark for mark in ";\t|," if len(head) == 1 and mark in head[0]), None)
    if mark is not None:
        raise FileFormatError(
            f"{path!r} has {sep!r} nowhere in its first line, {brief(head[0])}; sep={mark!r} (--sep {mark!r}) is wanted"
        )


def read_parquet(file: BinaryIO, path: str) -> Any:
    """The pandas data frame of a .parquet file."""
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
