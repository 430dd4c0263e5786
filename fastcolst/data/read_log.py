"""Reading a log of finished comparisons from files or tables, with every row accounted for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from fastcolst._checks import answer, brief, choice, plain_text, texts
from fastcolst.data.codings import Coding, Sides, checked_coding, shares
from fastcolst.data.columns import Columns, Request
from fastcolst.data.conditions import parse_condition
from fastcolst.data.design import complete, design, weights
from fastcolst.data.log import Log
from fastcolst.data.sources import pair_with_outcomes, read_raw

__all__ = ["DRAWS", "read_log"]

MOST_UNKNOWN = 0.05
"""Share of unknown outcomes from which on it has to be said that they are to be left out."""
DRAWS = ("leave-out", "half")


def read_log(
    path: Any,
    *,
    first: Columns | None = None,
    second: Columns | None = None,
    contrast: Columns | None = None,
    items: Sequence[str] | None = None,
    outcome: str | None = None,
    coding: Coding | None = None,
    draws: str = "leave-out",
    drop_unknown: bool = False,
    winner_first: bool = False,
    weight: str | None = None,
    categorical: Columns | None = None,
    where: Columns | None = None,
    sep: str | None = None,
    decimal: str | None = None,
) -> Log:
    """Read a log of finished comparisons: files (.csv, .csv.gz, .parquet, .npz), or tables in memory.

    Parameters
    ----------
    path : path, table, or a list of them
        A table in a file (.csv, .csv.gz, .parquet) or of pandas, polars or Arrow; or named arrays (.npz). Several are
        read one after the other, as one log: each needs the same columns.
    first, second : shell pattern or list of column names, optional
        Features of the two things compared. Two patterns (``first="a_*", second="b_*"``) are matched by what
        their wildcards stand for, whatever the order in the file; two lists by position. In an .npz: names of
        two (m, d) arrays.
    contrast : shell pattern or list of column names, optional
        Features of the first minus those of the second, instead of the two groups. In an .npz: the name of an
        (m, d) array; "contrasts", or else "Z", if nothing is given.
    items : two column names, optional
        Columns that name the two things compared: each name becomes a feature, 1 for the thing that bears it, so that
        its coefficient is the thing's utility. These features stand first, and are kept as places, not as numbers; see
        :class:`fastcolst.data.IndexedContrasts`.
    outcome : str, optional
        Column of the outcomes; "outcome", or else "y", if not given.
    coding : dict or {"auto", "signed", "unit", "names"}, optional
        The first's share of the win for each value of the outcome, such as ``{"model_a": 1, "model_b": 0, "tie": 0.5}``
        or ``{0: 1, 1: 0.5, 2: 0}``; names of the row's `items` need not be in it. "signed": -1, 0, 1 for lost, drawn,
        won; "unit": shares from 0 to 1; "names": names of the row's items, or a word for a tie that names no item.
        "auto", the default, takes one that cannot be misread (-1 and 1; numbers from 0 to 1; names of the items; words
        for two sides, such as "left" and "right", or those of which the columns' names are made) and refuses all else:
        words for a tie that name an item too, and sources that by themselves mean different things.
    draws : {"leave-out", "half"}
        What becomes of draws where outcomes are won, lost or drawn: they are left out and counted, or learned as half
        a win of each. Among other shares a half is one like all others.
    drop_unknown : bool
        Whether outcomes that the coding does not have may be more than one in twenty. They are always left out.
    winner_first : bool
        There is no column of outcomes: the first always won.
    weight : str, optional
        Column of weights, positive: how much each comparison counts.
    categorical : shell pattern or list of column names, optional
        Columns of `first` and `second` that are categories: each level but the first, in their order, becomes a
        feature, ``surface=grass``. Columns that pandas, polars or Arrow calls categorical are so without being named.
    where : str or list of str, optional
        Keep the rows that meet all these conditions, such as ``"year >= 1990"`` or ``"city != 'Oslo'"``: a
        column, one of ``== != < <= > >=``, a number or a quoted text. A row whose value is missing meets no
        condition. Dates are compared with texts like '2026-01-31' or '2026-01-31T12:00+02:00'; without a zone these
        are of the column's. In an .npz the column is a one-dimensional array of length m.
    sep, decimal : str, optional
        What stands between the columns of a .csv, and before the fractions of its numbers; "," and "." if not given.

    Returns
    -------
    Log
        The comparisons that are complete, and decided unless draws are learned, in their order, and the counts of all
        others.

    Raises
    ------
    FileFormatError
        A ValueError: the file is damaged, no regular file, or claims more than its bytes can hold, or than a
        quarter of the machine's memory. Nothing in a file is executed.
    ValueError
        No or ambiguous columns, outcomes that may be misread or are unknown, features that are infinite or no numbers,
        nothing left to learn from, or an unknown extension.
    OSError
        The file cannot be opened, for example because it is not there.
    ImportError
        A table needs pandas; a .parquet file and tables of polars and Arrow need pyarrow as well.

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

    Battles between named things, with words for outcomes:

    >>> import pandas
    >>> battles = pandas.DataFrame({"model_a": ["x", "y"], "model_b": ["y", "z"], "winner": ["model_b", "model_a"]})
    >>> log = read_log(battles, items=["model_a", "model_b"], outcome="winner")
    >>> log.features, np.asarray(log.contrasts), log.wins
    (('x', 'y', 'z'), array([[ 1., -1.,  0.],
           [ 0.,  1., -1.]]), array([False,  True]))
    """
    coding = checked_coding(coding)
    draws = choice("draws", draws, DRAWS)
    drop_unknown, winner_first = answer(drop_unknown, "drop_unknown"), answer(winner_first, "winner_first")
    lines = _lines(where)
    conditions = [parse_condition(text) for text in lines]
    features = _patterns(first=first, second=second, contrast=contrast, categorical=categorical)
    request = Request(
        "",
        **features,
        items=_pair(items),
        outcome=_column("outcome", outcome),
        winner_first=winner_first,
        weight=_column("weight", weight),
        columns=tuple(condition.column for condition in conditions),
    )
    if winner_first and (outcome is not None or coding is not None):
        raise ValueError("winner_first=True and outcome or coding exclude each other: the first always won")
    raw = read_raw(path, request, sep, decimal)

    selected = np.ones(raw.rows, dtype=np.bool_)
    for condition, column in zip(conditions, raw.columns, strict=True):
        selected &= condition.holds(column)
    share, seen, reading = np.ones(raw.rows), "", None
    if raw.outcome is not None:
        sides = Sides.of(request.first, request.second, raw.items)
        unsaid = partial(pair_with_outcomes, path, request, sep, decimal)
        reading = shares(raw.outcome, coding, sides, raw.sources, unsaid)
        share, seen = reading.shares, str(reading.seen)
    missing, unknown = np.isnan(share), np.isinf(share)
    known = share[~(missing | unknown)]
    drawn = (share == 0.5) & bool(np.isin(known, (0.0, 0.5, 1.0)).all())
    left_out = drawn & (draws == "leave-out")
    wanted = selected & ~(missing | unknown | left_out)
    learned = wanted & complete(raw)
    counts = {
        "rows": raw.rows,
        "draws_in_file": int(drawn.sum()),
        "selected": int(selected.sum()),
        "draws": int((selected & left_out).sum()),
        "missing": int((selected & missing).sum() + (wanted & ~learned).sum()),
        "unknown": int((selected & unknown).sum()),
    }
    if counts["unknown"] > MOST_UNKNOWN * counts["selected"] and not drop_unknown:
        raise ValueError(
            f"{raw.path!r}: the coding has no share for {counts['unknown']:,} of {counts['selected']:,} outcomes; in "
            f"column {raw.outcome.name if raw.outcome else ''!r} are {seen}. At most {MOST_UNKNOWN:.0%} unknown ones "
            "are wanted: give another coding (--coding), or drop_unknown=True (--drop-unknown)"
        )
    if not learned.any():
        listed = ", ".join(f"{count} {name}" for name, count in counts.items() if name != "draws_in_file")
        raise ValueError(f"{raw.path!r} has no comparison to learn from: {listed}")
    found = design(raw, learned)
    return Log(
        contrasts=found.contrasts,
        wins=share[learned],
        weights=None if raw.weight is None else weights(raw.weight, learned),
        features=found.features,
        items=found.items,
        references=found.references,
        where=lines,
        outcomes="" if reading is None else reading.told(selected),
        **counts,
    )


# --- what was asked for -------------------------------------------------------------------------------------


def _lines(where: Columns | None) -> tuple[str, ...]:
    text = plain_text(where)
    return () if where is None else (text,) if text is not None else texts("where", where)


def _patterns(**given: Any) -> dict[str, Any]:
    """Patterns and lists of columns, by option."""
    patterns = {
        name: columns if columns is None else plain_text(columns) or texts(name, columns)
        for name, columns in given.items()
    }
    if patterns["contrast"] is not None and (patterns["first"] is not None or patterns["second"] is not None):
        raise ValueError("contrast and first/second exclude each other: give the contrast or both groups")
    if (patterns["first"] is None) != (patterns["second"] is None):
        missing = "second" if patterns["second"] is None else "first"
        raise ValueError(f"{missing} is missing: first and second go together")
    return {**patterns, "categorical": patterns["categorical"] or ()}


def _pair(items: Any) -> tuple[str, ...]:
    pair = () if items is None else texts("items", items)
    if items is not None and (len(pair) != 2 or pair[0] == pair[1]):
        raise ValueError(f"items is {brief(items)}; the names of two columns are wanted")
    return pair


def _column(option: str, name: Any) -> str | None:
    if name is not None and plain_text(name) is None:
        raise ValueError(f"{option} is {brief(name)}; the name of a column is wanted")
    return plain_text(name)
