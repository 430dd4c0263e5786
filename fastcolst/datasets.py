"""Comparisons that were really made: reading a log of them, and learning from it in order.

A log has one row per comparison: the features of the two things compared (or their contrast
z = x_first - x_second) and the outcome. :func:`read_log` reads it and accounts for every row; :func:`replay`
predicts each comparison before it is learned, so that the scores are honest without a test set:

    log loss = mean of -log(probability given to what happened)
"""

from __future__ import annotations

import csv
import fnmatch
import gzip
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fastcolst._checks import (
    answer,
    answers,
    brief,
    choice,
    count,
    feature_rows,
    is_a,
    path_text,
    plain_text,
    real_numbers,
    texts,
)
from fastcolst._files import BLOCK as FILE_BLOCK
from fastcolst._files import Arrays, FileFormatError, check_claim, decoding, opened, optional_import
from fastcolst._words import align

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Log", "ReplayResult", "read_log", "replay"]

BLOCK = 1_000  # rows learned per call of the policy: Ctrl-C is answered between calls
N_BINS = 10
MOST_COLUMNS = 20_000
"""Of a .csv file: pandas takes a second or two for so many, and hours for what a file of commas could claim."""
FEW = 10  # as many comparisons with the same winner may be chance
_LOSS_DRAW_WIN = {"signed": (-1.0, 0.0, 1.0), "unit": (0.0, 0.5, 1.0)}
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION = re.compile(r"\s*(?P<column>\S.*?)\s*(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>.*?)\s*", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d+(?P<fraction>\.\d*)?|(?P<point>\.\d+))(?P<exponent>[eE][+-]?\d+)?")
_ONE = re.compile(r"\?|\[!?\]?[^\]]*\]")

Columns = str | Sequence[str]


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
        object.__setattr__(self, "wins", _checked_wins(self.wins, len(contrasts)))
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
        >>> from fastcolst.datasets import Log
        >>> log = Log.from_arrays([[0.5, -1.0], [0.0, 2.0]], [True, False], features=["price", "speed"])
        >>> log
        Log(2 comparisons of 2 features; 2 rows: 2 learned, 0 draws left out, 0 missing, 0 unknown outcomes)
        """
        checked = _checked_contrasts(contrasts)
        m, d = checked.shape
        names = [f"z[{k}]" for k in range(d)] if features is None else texts("features", features)
        return cls(
            contrasts=checked,
            wins=_checked_wins(wins, m),
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
    >>> from fastcolst.datasets import read_log
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
    conditions = [_parse_condition(text) for text in lines]
    request = _Request(path, first, second, contrast, outcome, [c.column for c in conditions])
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


class _Request(NamedTuple):
    """What to take from a file; `columns` are those that conditions look at."""

    path: str
    first: Columns | None
    second: Columns | None
    contrast: Columns | None
    outcome: str | None
    columns: list[str]


class _Raw(NamedTuple):
    """What was taken: one group of contrasts or two groups of features, outcomes (nan: missing), columns."""

    groups: list[_Group]
    features: tuple[str, ...]
    outcomes: NDArray[np.float64]
    columns: dict[str, NDArray[Any]]


# --- conditions ---------------------------------------------------------------------------------------------


class _Condition(NamedTuple):
    text: str
    column: str
    operator: str
    value: int | float | str

    def holds(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return where it is met; values are numbers, dates, or texts with None for a missing one."""
        present, other = self._operands(values)
        met = np.zeros(len(values), dtype=np.bool_)
        met[present] = _OPERATORS[self.operator](values[present], other)
        return met

    def _operands(self, values: NDArray[Any]) -> tuple[NDArray[np.bool_], Any]:
        kind, text = values.dtype.kind, isinstance(self.value, str)
        if kind in "biuf" and not text:
            return ~np.isnan(values), self.value
        if kind == "M" and text:
            return ~np.isnat(values), self._date()
        if kind == "U" and text:
            return np.ones(len(values), dtype=np.bool_), self.value
        if kind == "O" and text and all(value is None or isinstance(value, str) for value in values):
            return np.array([value is not None for value in values], dtype=np.bool_), self.value
        held = "numbers" if kind in "biuf" else "texts" if kind in "UO" else f"values of type {values.dtype}"
        wanted = "a text" if text else "a number"
        raise ValueError(f"where={self.text!r} compares column {self.column!r}, which holds {held}, with {wanted}")

    def _date(self) -> np.datetime64:
        try:
            return np.datetime64(str(self.value))
        except ValueError:
            raise ValueError(f"where={self.text!r}: column {self.column!r} holds dates, wants '2026-01-31'") from None


def _parse_condition(text: str) -> _Condition:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(f"where={text!r} is not a column, one of == != < <= > >=, and a number or a quoted text")
    return _Condition(text, found["column"], found["operator"], _parse_value(found["value"], text))


def _parse_value(value: str, text: str) -> int | float | str:
    number = _NUMBER.fullmatch(value)
    if number is not None:
        is_whole = not any(number.groupdict().values()) and len(value) <= 20  # as long as a 64-bit integer
        return int(value) if is_whole else float(value)
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"" and value[0] not in value[1:-1]:
        return value[1:-1]
    raise ValueError(f"where={text!r} compares with {value!r}; a number or a 'quoted text' is wanted")


# --- files --------------------------------------------------------------------------------------------------


def _read(request: _Request) -> _Raw:
    """Open the file, here for all formats, so that only its content is left to blame for what follows."""
    path, name = request.path, request.path.lower()
    if not name.endswith((".csv", ".csv.gz", ".parquet", ".npz")):
        raise ValueError(f"path {path!r} must end in .csv, .csv.gz, .parquet or .npz")
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
    _check_unique(names, path)
    return table


def _check_text(file: BinaryIO, path: str, compression: str | None) -> None:
    """Look through a table for what would take too much memory: compressed text does not tell how long it is."""
    held = os.fstat(file.fileno()).st_size
    text = file if compression is None else gzip.GzipFile(fileobj=file)
    size = 0
    while block := text.read(FILE_BLOCK):
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
    _check_unique(names, path)
    with decoding(path):
        return table.to_pandas(ignore_metadata=True, date_as_object=False)


def _check_unique(names: Sequence[str], path: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{path!r} has two columns with the name {name!r}")
        seen.add(name)


def _from_table(table: Any, request: _Request) -> _Raw:
    names = [str(name) for name in table.columns]
    groups, features = _table_groups(names, request)
    outcome = _named(request.outcome, ("outcome", "y"), names, "outcome", request.path)
    for group in groups:
        if outcome in group:
            raise ValueError(f"column {outcome!r} is the outcome and a feature too; choose the features more narrowly")
    outcomes, text = _numbers(table[outcome])
    outcomes[text] = np.inf  # not missing, and no value of any coding
    return _Raw(
        [_Group(group, _table_values(table, group)) for group in groups],
        features,
        outcomes,
        {name: _plain(table[_named(name, (), names, "where", request.path)]) for name in request.columns},
    )


def _table_groups(names: list[str], request: _Request) -> tuple[list[list[str]], tuple[str, ...]]:
    """Return the columns of each group in matching order, and what to call the features."""
    if request.contrast is not None:
        columns = list(_matching(request.contrast, names, "contrast", request.path))
        return [columns], tuple(columns)
    if request.first is None or request.second is None:
        raise ValueError(
            f"say where the features are, with first and second or with contrast; {request.path!r} has "
            f"the columns {_listed(names)}"
        )
    if isinstance(request.first, str) != isinstance(request.second, str):
        raise ValueError("first and second must both be patterns, or both be lists of columns")
    first = _matching(request.first, names, "first", request.path)
    second = _matching(request.second, names, "second", request.path)
    both = set(first) & set(second)
    if both:
        raise ValueError(f"column {min(both)!r} is in first and in second; each column belongs to one thing")
    if isinstance(request.first, str):
        return _paired_by_key(first, second)
    if len(first) != len(second):
        longer, name = (first, "first") if len(first) > len(second) else (second, "second")
        odd = list(longer)[min(len(first), len(second)) :]
        raise ValueError(f"{name} has columns without a partner: {_listed(odd)}")
    return [list(first), list(second)], tuple(f"{a} - {b}" for a, b in zip(first, second, strict=True))


def _paired_by_key(
    first: Mapping[str, tuple[str, ...]], second: Mapping[str, tuple[str, ...]]
) -> tuple[list[list[str]], tuple[str, ...]]:
    """Match the columns of two patterns by what the wildcards stand for."""
    partners = {key: column for column, key in second.items()}
    keys = set(first.values())
    odd = [("first", column) for column, key in first.items() if key not in partners]
    odd += [("second", column) for column, key in second.items() if key not in keys]
    if odd:
        listed = _listed([f"{column} ({name})" for name, column in odd])
        raise ValueError(f"first and second have columns without a partner: {listed}")
    columns = [list(first), [partners[key] for key in first.values()]]
    # Patterns without a wildcard name one column each: there the first's own name has to do.
    return columns, tuple("_".join(key) or column for column, key in first.items())


def _matching(wanted: Columns, names: list[str], option: str, path: str) -> dict[str, tuple[str, ...]]:
    """Return the columns of a pattern (in file order) or a list, each with what the wildcards stand for."""
    if not isinstance(wanted, str):
        columns = list(wanted)
        _check_unique(columns, option)
        absent = [column for column in columns if column not in names]
        if absent or not columns:
            raise ValueError(f"{option} names {_listed(absent) or 'nothing'}; {path!r} has {_listed(names)}")
        return dict.fromkeys(columns, ())
    expression = _capturing(wanted)
    found = {name: match.groups() for name in names if (match := expression.fullmatch(name))}
    if not found:
        raise ValueError(f"{option}={wanted!r} matches no column; {path!r} has {_listed(names)}")
    return found


def _capturing(pattern: str) -> re.Pattern[str]:
    """Compile a shell pattern with one group for each wildcard.

    A star stands for as little as it can, the last one for the rest. Between two stars stands something of fixed
    length, and where that is found first is never wrong. So nothing is tried again, which atomic groups, (?>...),
    tell the engine: the time is at most pattern times name, not exponential in the number of stars.
    """
    start, *pieces = _split_at_stars(pattern)
    if not pieces:
        return re.compile(start, re.DOTALL)
    *middle, end = pieces
    return re.compile("".join([start, *(f"(?>(.*?){piece})" for piece in middle), "(.*)", end]), re.DOTALL)


def _split_at_stars(pattern: str) -> list[str]:
    """The expressions between a pattern's stars; a star in [...] is none."""
    pieces, place = [""], 0
    while place < len(pattern):
        one = _ONE.match(pattern, place)
        if one is not None:
            pieces[-1] += "(.)" if one[0] == "?" else f"({_class(one[0])})"
        elif pattern[place] == "*":
            pieces.append("")
        else:
            pieces[-1] += re.escape(pattern[place])
        place += len(one[0]) if one is not None else 1
    return pieces


def _class(wildcard: str) -> str:
    # The standard library knows the rules of [...]; what it returns has an anchor behind that we drop.
    return re.sub(r"\\[Zz]$", "", fnmatch.translate(wildcard))


def _named(name: str | None, defaults: tuple[str, ...], names: Iterable[str], option: str, path: str) -> str:
    """Return the name that was asked for, or the first default that is there."""
    available = list(names)
    for candidate in defaults if name is None else (name,):
        if candidate in available:
            return candidate
    asked = " or ".join(map(repr, defaults)) if name is None else repr(name)
    raise ValueError(f"{option}: {path!r} has no {asked}; it has {_listed(available)}")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:20])
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"


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


def _from_archive(archive: Arrays, request: _Request) -> _Raw:
    options = [("first", request.first), ("second", request.second)]
    if request.first is None:
        options = [("contrast", request.contrast)]
    groups = [_archive_group(archive, option, name) for option, name in options]
    rows = len(groups[0].values)
    if groups[-1].values.shape != groups[0].values.shape:
        shapes = " and ".join(str(group.values.shape) for group in groups)
        raise ValueError(f"first and second have the shapes {shapes}; they must be the same")
    outcome = _named(request.outcome, ("outcome", "y"), archive.names, "outcome", archive.path)
    outcomes = _archive_column(archive, outcome, rows)
    if outcomes.dtype.kind not in "biuf":
        raise ValueError(f"array {outcome!r} has dtype {outcomes.dtype}; outcomes must be numbers")
    columns = {
        name: _archive_column(archive, _named(name, (), archive.names, "where", archive.path), rows)
        for name in request.columns
    }
    features = groups[0].names
    if len(groups) == 2:
        features = [f"{a} - {b}" for a, b in zip(groups[0].names, groups[1].names, strict=True)]
    return _Raw(groups, tuple(features), outcomes.astype(np.float64), columns)


def _archive_group(archive: Arrays, option: str, asked: Columns | None) -> _Group:
    if asked is not None and not isinstance(asked, str):
        raise ValueError(f"{option} is a list; in an .npz file the name of one (m, d) array is wanted")
    name = _named(asked, ("contrasts", "Z"), archive.names, option, archive.path)
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


def _checked_contrasts(contrasts: ArrayLike) -> NDArray[np.float64]:
    array = feature_rows("contrasts", contrasts, None, largest=np.inf).copy()
    array.setflags(write=False)
    return array


def _checked_wins(wins: ArrayLike, m: int) -> NDArray[np.bool_]:
    array = answers("wins", wins, m)
    array.setflags(write=False)
    return array


# --- replay -------------------------------------------------------------------------------------------------


def _checked_label(label: Any) -> str:
    if not isinstance(label, str):
        raise ValueError(f"label is {brief(label)}; a text is wanted")
    return label


@runtime_checkable
class Learner(Protocol):
    """What :func:`replay` asks of a policy."""

    @property
    def theta(self) -> NDArray[np.float64]:
        """(d,) estimate."""

    def learn_and_predict(self, contrasts: NDArray[np.float64], wins: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Learn (m, d) comparisons in order; return (m,) probabilities, each from before it is learned.

        ValueError where the policy was built for another number of features: nothing is learned then.
        """


def replay(policy: Learner, log: Log, *, label: str | None = None, progress: bool = False) -> ReplayResult:
    """Learn from a log in its order, predicting each comparison before it is learned.

    Parameters
    ----------
    policy : policy object
        Learns in place: give a copy to keep the original.
    log : Log
        What :func:`read_log` or :meth:`Log.from_arrays` returned.
    label : str, optional
        What to call the policy in tables and pictures; its class, if not given.
    progress : bool
        Show a progress bar (needs tqdm). It changes no number.

    Returns
    -------
    ReplayResult
        The predictions, their scores, and the final estimate.

    Raises
    ------
    ValueError
        The policy does not fit the log (another number of features), or its predictions are no probabilities.

    Examples
    --------
    >>> import fastcolst as fc
    >>> from fastcolst.datasets import Log
    >>> log = Log.from_arrays([[1.0, 0.0], [1.0, 0.0]], [True, True])
    >>> result = fc.replay(fc.CoLSTIM(2, estimator="sgd"), log)
    >>> float(result.probabilities[0]), bool(result.probabilities[1] > 0.5)
    (0.5, True)
    """
    if not isinstance(log, Log):
        raise ValueError(f"log is a {type(log).__name__}; a Log is wanted (read_log, Log.from_arrays)")
    if not is_a(Learner, policy):
        raise ValueError(
            f"policy is {brief(policy)}; a policy that learns from a log is wanted, which those that know arms by "
            "their index only do not"
        )
    feature_rows("log.contrasts", log.contrasts, None)  # none overflows, which a later block would show too late
    label = _checked_label(type(policy).__name__ if label is None else label)
    progress = answer(progress, "progress")
    probabilities = np.empty(len(log))
    # Blocks with and without a bar are the same, so that the bar cannot change a result.
    starts: Iterable[int] = range(0, len(log), BLOCK)
    if progress:
        tqdm = optional_import("tqdm", "progress=True").tqdm
        starts = tqdm(starts, desc=label, unit=" rows", unit_scale=BLOCK)
    for start in starts:
        block = slice(start, min(start + BLOCK, len(log)))
        predicted = np.asarray(policy.learn_and_predict(log.contrasts[block], log.wins[block]))
        if predicted.shape != log.wins[block].shape:
            raise ValueError(f"policy predicted shape {predicted.shape}; {log.wins[block].shape} is wanted")
        probabilities[block] = predicted
    return ReplayResult(
        probabilities=probabilities,
        wins=log.wins,
        theta=policy.theta,
        log=log,
        label=label,
    )


_CALIBRATION = np.dtype(
    [
        ("low", np.float64),
        ("high", np.float64),
        ("count", np.int64),
        ("predicted", np.float64),
        ("observed", np.float64),
        ("standard_error", np.float64),
    ]
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReplayResult:
    """Predictions of a replay, each made before its comparison was learned, and their scores.

    Parameters
    ----------
    probabilities : (m,) float64
        Predicted probability that the first wins.
    wins : (m,) bool
        Whether it did.
    theta : (d,) float64
        The estimate after the last comparison.
    log : Log
        What was replayed; has the names of the features and the counts.
    label : str
        What to call the policy.

    Raises
    ------
    ValueError
        A shape does not fit, or a probability is none.
    """

    probabilities: NDArray[np.float64]
    wins: NDArray[np.bool_]
    theta: NDArray[np.float64]
    log: Log
    label: str

    def __post_init__(self) -> None:
        if not isinstance(self.log, Log):
            raise ValueError(f"log is a {type(self.log).__name__}; a Log is wanted (read_log, Log.from_arrays)")
        _checked_label(self.label)
        m, d = self.log.contrasts.shape
        object.__setattr__(self, "wins", _checked_wins(self.wins, m))
        for name, n in (("probabilities", m), ("theta", d)):
            array = real_numbers(name, getattr(self, name), f"({n},)")
            if array.shape != (n,):
                raise ValueError(f"{name} has shape {array.shape}; ({n},) is wanted")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        wrong = np.flatnonzero(~((self.probabilities >= 0.0) & (self.probabilities <= 1.0)))
        if wrong.size:
            raise ValueError(f"probabilities[{wrong[0]}] is {self.probabilities[wrong[0]]}; 0 to 1 is wanted")

    def __repr__(self) -> str:
        return (
            f"ReplayResult({self.label!r}, {self.wins.size:,} comparisons, log_loss={self.log_loss:.4f}, "
            f"accuracy={self.accuracy:.4f}, brier={self.brier:.4f})"
        )

    @property
    def log_loss(self) -> float:
        """Mean of -log(probability given to what happened); inf if that was ever 0."""
        return float(self._losses().mean())

    @property
    def accuracy(self) -> float:
        """Share of comparisons whose likelier side won; a probability of 1/2 counts half."""
        right = np.where(self.probabilities == 0.5, 0.5, (self.probabilities > 0.5) == self.wins)
        return float(right.mean())

    @property
    def brier(self) -> float:
        """Mean of (probability - outcome)^2."""
        return float(np.mean((self.probabilities - self.wins) ** 2))

    @property
    def calibration(self) -> NDArray[np.void]:
        """Predicted against observed frequency in bins of width 1/10; bins without a prediction are left out.

        A structured array with the fields low, high (edges, the upper one exclusive but for 1), count,
        predicted (mean probability), observed (share that the first won) and standard_error (of `observed`,
        were every probability right: sqrt(sum p (1 - p)) / count).
        """
        edges = np.linspace(0.0, 1.0, N_BINS + 1)
        p = self.probabilities
        bins = np.minimum(np.searchsorted(edges, p, side="right") - 1, N_BINS - 1)
        count = np.bincount(bins, minlength=N_BINS)
        used = count > 0
        table = np.empty(int(used.sum()), dtype=_CALIBRATION)
        table["low"], table["high"], table["count"] = edges[:-1][used], edges[1:][used], count[used]
        for name, values in (("predicted", p), ("observed", self.wins)):
            table[name] = np.bincount(bins, weights=values, minlength=N_BINS)[used] / count[used]
        variance = np.bincount(bins, weights=p * (1.0 - p), minlength=N_BINS)[used]
        table["standard_error"] = np.sqrt(variance) / count[used]
        return table

    def running_log_loss(self) -> NDArray[np.float64]:
        """Return the log loss of the first 1, 2, ..., m comparisons, (m,) float64."""
        losses = self._losses()
        running: NDArray[np.float64] = np.cumsum(losses) / np.arange(1, losses.size + 1)
        return running

    def _losses(self) -> NDArray[np.float64]:
        # log1p keeps the digits of 1 - p. A probability of 0 for what happened is an honest inf.
        with np.errstate(divide="ignore"):
            losses: NDArray[np.float64] = -np.where(
                self.wins, np.log(self.probabilities), np.log1p(-self.probabilities)
            )
        return losses

    def summary(self) -> str:
        """Return the counts, the scores, the calibration table and the coefficients as text."""
        bins = [("predicted", "count", "mean", "observed", "standard error")]
        bins += [
            (f"{low:.1f} to {high:.1f}", f"{n:,}", f"{mean:.4f}", f"{observed:.4f}", f"{error:.4f}")
            for low, high, n, mean, observed, error in self.calibration.tolist()
        ]
        coefficients = [("feature", "coefficient")]
        coefficients += [(name, f"{value:.6g}") for name, value in zip(self.log.features, self.theta, strict=True)]
        scores = [("log loss", self.log_loss), ("accuracy", self.accuracy), ("Brier score", self.brier)]
        score_rows = [(name, f"{value:.4f}") for name, value in scores]
        head = [f"{self.label}: each comparison predicted before it was learned", self.log.counts]
        return "\n".join([*head, "", *align(score_rows), "", *align(bins), "", *align(coefficients)])

    def plot(self, axes: Any = None) -> Any:
        """Draw calibration and running log loss: see :func:`fastcolst.plotting.replay_figure`."""
        from fastcolst.plotting import replay_figure

        return replay_figure(self, axes)
