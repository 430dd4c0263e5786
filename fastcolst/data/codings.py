"""What an outcome means: the first's share of the win, 1 or 0, 0.5 for a tie, or whatever lies between.

A coding is stated, or found where it cannot be misread, and never guessed. Found are, if nothing else is in the column:

- -1 and 1, perhaps with 0: lost, won, drawn;
- numbers from 0 to 1, not all of them 0: shares of the win, with booleans and the like among them;
- the two names of which those of the columns are made, such as "home" and "away" for ``home_*`` and ``away_*``;
- the names of the two items of each row;
- words for two sides: first and second, left and right, home and away, model_a and model_b and the like.

With names and words there may be words for a tie, none of which is an item's name as well. Of several files and tables
each is looked at by itself too: all have to mean the same by their values.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastcolst._checks import brief, choice, entries, is_a, looked_at, plain_text, real_number
from fastcolst._words import is_tie, names_the_winner
from fastcolst.data.tables import Column, number_in, text_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CODINGS", "MEANINGS", "Coding", "Reading", "Sides", "checked_coding", "shares"]

CODINGS = ("auto", "signed", "unit", "names")
NOUNS = ("model", "response", "answer", "option", "assistant", "player", "item")
PAIRS = (("first", "second"), ("left", "right"), ("home", "away"), *((f"{noun}_a", f"{noun}_b") for noun in NOUNS))
"""Words for two sides. A and B alone are none: variants are called that, wherever they stand."""
MOST_SHOWN = 10
"""Values that a message lists."""
MEANINGS = {1.0: ("first won", "name of the first"), 0.0: ("second won", "name of the second"), 0.5: ("draw", "")}
"""What shares mean where all are won, lost or drawn, and what stands for it where winners are named."""
TRUTHS = {"true": 1.0, "false": 0.0}

Coding = str | Mapping[Any, float]
Value = float | str
"""What stands in a column: a number, whether it was written as one or as a text, or else a text."""
Unsaid = Callable[[], Sequence[str]]


class Sides(NamedTuple):
    """What the two sides of a comparison are called: the stems of the columns' names, and each row's two items."""

    stems: tuple[str, str] | None = None
    items: tuple[Column, Column] | None = None

    @classmethod
    def of(cls, first: Any, second: Any, items: Sequence[Column]) -> Sides:
        """Of the columns that were asked for, patterns or lists of names, and of those with the items."""
        names = [items[0].name, items[1].name] if items else [first, second]
        pair = (items[0], items[1]) if items else None
        return cls(None if names[0] is None else _stems(names[0], names[1]), pair)


def _stems(first: Any, second: Any) -> tuple[str, str] | None:
    """What tells the names of two columns, or of two groups of them, apart: "home" and "away" of home_* and away_*."""
    one, other = _words_of(first), _words_of(second)
    same = _n_alike([one, other])
    one, other = one[same:], other[same:]
    tail = _n_alike([one[::-1], other[::-1]])
    stems = ["_".join(words[: len(words) - tail]) for words in (one, other)]
    return (stems[0], stems[1]) if all(stems) else None


def _words_of(names: Any) -> list[str]:
    """The words with which a name, all names that a pattern matches, or all of a list begin."""
    if isinstance(names, str):
        return _plain(re.split(r"[*?\[]", names)[0]).split("_")
    words = [_plain(name).split("_") for name in names]
    return words[0][: _n_alike(words)]


def _n_alike(words: Sequence[Sequence[str]]) -> int:
    """With how many equal entries, or letters, all of them begin."""
    return sum(1 for _ in takewhile(lambda place: len(set(place)) == 1, zip(*words, strict=False)))


def _plain(word: str) -> str:
    """A word without case, and with one mark between its parts."""
    return re.sub(r"[ _\-.:/]+", "_", word).strip("_").casefold()


def checked_coding(coding: Any) -> Coding | None:
    """The coding that was asked for: None to find it, a word, or shares by value.

    Raises
    ------
    ValueError
        It is something else, or a share is no number from 0 to 1.
    """
    if coding is None or plain_text(coding) is not None:
        return None if coding in (None, "auto") else choice("coding", coding, CODINGS, ", or a dict of shares")
    if not is_a(Mapping, coding):
        listed = ", ".join(map(repr, CODINGS))
        raise ValueError(f"coding is {brief(coding)}; {listed}, or a dict such as {{'left': 1, 'right': 0}} is wanted")
    checked: dict[Value, float] = {}
    for key, value in entries("coding", coding).items():
        share = looked_at(real_number, value, np.nan)
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"coding[{brief(key)}] is {brief(value)}; a share of the first's win, 0 to 1, is wanted")
        if checked.setdefault(_value(key), share) != share:
            raise ValueError(
                f"coding has {brief(key)} twice, with the shares {checked[_value(key)]:g} and {share:g}; one is wanted"
            )
    if not checked:
        raise ValueError("coding is {}; a share for each value of the outcome is wanted")
    return checked


def _value(entry: object, decimal: str = ".") -> Value:
    """An entry of a column of outcomes. Numbers and truths in words are the same as themselves."""
    text = text_of(entry)
    if text.casefold() in TRUTHS:
        return TRUTHS[text.casefold()]
    number = float(entry) if isinstance(entry, np.number) else number_in(entry, decimal)
    return text if np.isnan(number) else number


class _Seen(NamedTuple):
    """The distinct values of a column, how often each is there, and which of them each row has (-1: missing)."""

    values: list[Value]
    counts: NDArray[np.int64]
    places: NDArray[np.int64]

    @classmethod
    def of(cls, column: Column) -> _Seen:
        if column.levels is None:
            there = column.present
            levels, inverse = np.unique(column.values[there], return_inverse=True)
            places = np.full(len(column), -1, np.int64)
            places[there] = inverse.reshape(-1)
            written: Sequence[Any] = levels.tolist()
        else:
            places, written = column.values.astype(np.int64), column.levels
        known: dict[Value, int] = {}
        renamed = np.array(
            [*(known.setdefault(_value(entry, column.decimal), len(known)) for entry in written), -1], np.int64
        )
        places = renamed[places]
        counts = np.bincount(places[places >= 0], minlength=len(known))
        return cls(list(known), counts, places)

    def shares(self, of_value: Callable[[Value], float]) -> NDArray[np.float64]:
        """A share for each row: nan where it is missing, inf where the value has none."""
        return np.array([*map(of_value, self.values), np.nan])[self.places]

    @property
    def present(self) -> list[Value]:
        """Those that are there at all; a categorical column may have levels that no row has."""
        return [value for value, n in zip(self.values, self.counts, strict=True) if n]

    def __str__(self) -> str:
        order = np.argsort(-self.counts, kind="stable")
        shown = [k for k in order if self.counts[k]]
        listed = ", ".join(f"{_shown(self.values[k])} in {_rows(self.counts[k])}" for k in shown[:MOST_SHOWN])
        return listed + (f" and {len(shown) - MOST_SHOWN:,} other values" if len(shown) > MOST_SHOWN else "")


def _rows(n: int) -> str:
    return f"{n:,} row{'' if n == 1 else 's'}"


def _shown(value: Value) -> str:
    return repr(value) if isinstance(value, str) else f"{value:g}"


class Reading(NamedTuple):
    """Outcomes as they were read: the first's share of each win, (rows,), and the values that stand for it.

    A share is nan where the outcome is missing, and inf where it is unknown.
    """

    shares: NDArray[np.float64]
    seen: _Seen

    def told(self, rows: NDArray[np.bool_]) -> str:
        """In a line, which of the values in these rows say what, and how often."""
        known = rows & np.isfinite(self.shares)
        levels = np.unique(self.shares[known]).tolist()
        if not set(levels) <= set(MEANINGS):
            return f"outcomes: the first's shares of {_rows(int(known.sum()))}, from {levels[0]:g} to {levels[-1]:g}"
        there = [known & (self.shares == share) for share in MEANINGS]
        places = [np.unique(self.seen.places[rows_]).tolist() for rows_ in there]
        # names of winners say one thing in one row and another in the next
        is_by_value = len({place for of_one in places for place in of_one}) == sum(map(len, places)) <= MOST_SHOWN
        parts = []
        for (share, (meaning, name)), rows_, of_one in zip(MEANINGS.items(), there, places, strict=True):
            values = " or ".join(_shown(self.seen.values[place]) for place in of_one)
            if of_one:
                parts.append(f"{values if is_by_value or share == 0.5 else name} = {meaning} ({int(rows_.sum()):,})")
        return f"outcomes: {', '.join(parts)}"


def shares(
    column: Column, coding: Coding | None, sides: Sides, sources: Sequence[tuple[str, int]], unsaid: Unsaid = tuple
) -> Reading:
    """The first's share of each win, and what was seen, for messages.

    `sources` has the name and the rows of each file or table, in their order. `unsaid` finds two columns in which the
    outcomes stand as names, where nobody said that these are the items'.

    Raises
    ------
    ValueError
        No coding was stated, and what stands in the column may be misread.
    """
    seen = _Seen.of(column)
    if isinstance(coding, Mapping):
        found = seen.shares(lambda value: coding.get(value, np.inf))
        return Reading(_with_names(found, column, sides.items) if sides.items else found, seen)
    if coding == "names":
        if sides.items is None:
            raise ValueError("coding is 'names', and items is None; the columns with the two items' names are wanted")
        names = _names_of(sides.items)
        found = seen.shares(lambda value: np.inf if value in names else _tie(value))
        return Reading(_with_names(found, column, sides.items), seen)
    if coding is not None:
        return Reading(seen.shares({"signed": _signed, "unit": _unit}[coding]), seen)
    if not seen.present:
        return Reading(seen.shares(_unit), seen)
    return Reading(_found(column, seen, sides, sources, unsaid), seen)


def _found(
    column: Column, seen: _Seen, sides: Sides, sources: Sequence[tuple[str, int]], unsaid: Unsaid
) -> NDArray[np.float64]:
    """The shares, (rows,), by the coding that cannot be misread; without one the outcomes are refused."""
    where = sources[0][0] if len(sources) == 1 else f"{sources[0][0]} and {len(sources) - 1} more"
    _check_ties(column, seen, sides, where)
    whole = _readings(column, seen, sides)
    if len(sources) > 1:
        _check_sources(column, whole[0] if _is_one(whole) else None, sides, sources)
    if _is_one(whole):
        return whole[0]
    told = f"{where!r}: the outcomes in column {column.name!r} are {seen}"
    pair = unsaid() if sides.items is None and not whole else ()
    if pair:
        raise ValueError(
            f"{told}; these are values of columns {pair[0]} and {pair[1]}: items={list(pair)} "
            f"(--items {shlex.join(pair)}) is wanted"
        )
    if strangers := _strangers(seen, sides):
        first, more = strangers[0], len(strangers) - MOST_SHOWN
        called = " or ".join(map(_shown, strangers[:MOST_SHOWN])) + (f" or {more:,} names more" if more > 0 else "")
        ties = [first, *(value for value in seen.present if _tie(value) == 0.5)]
        coding = ", ".join(f"{_shown(tie)}: 0.5" for tie in ties)
        option = ",".join(f"{tie if isinstance(tie, str) else _shown(tie)}=0.5" for tie in ties)
        raise ValueError(
            f"{told}; no item is called {called}. Names of items are wanted there; or, where it is a tie, "
            f"coding={{{coding}}} ({shlex.join(['--coding', option])}); or coding='names' with drop_unknown=True "
            "(--coding names --drop-unknown), which leaves such rows out"
        )
    may_be_names = _as_names(seen, column, sides) is not None
    wanted = _wanted(seen, " or coding='names', where they are items," if may_be_names else "")
    raise ValueError(f"{told}, which may be read in more than one way. {wanted}")


def _readings(column: Column, seen: _Seen, sides: Sides) -> list[NDArray[np.float64]]:
    """The shares, (rows,), for each way in which a column may be read."""
    possible = (_as_numbers(seen), _as_place(seen, column), _as_words(seen, sides), _as_names(seen, column, sides))
    return [found for found in possible if found is not None]


def _is_one(readings: list[NDArray[np.float64]]) -> bool:
    """Whether there is a reading, and no other."""
    return bool(readings) and all(np.array_equal(found, readings[0], equal_nan=True) for found in readings)


def _wanted(seen: _Seen, names: str = "") -> str:
    some = seen.present[:MOST_SHOWN]
    asked = ", ".join(f"{_shown(value)}: ..." for value in some)
    typed = ",".join(f"{value if isinstance(value, str) else _shown(value)}=..." for value in some)
    return (
        f"Wanted is coding={{{asked}}} with the first's share of the win for each (1 won, 0 lost, 0.5 tie),{names} on "
        f"the command line --coding '{typed}'"
    )


def _check_ties(column: Column, seen: _Seen, sides: Sides, where: str) -> None:
    """Refuse outcomes that name an item and are a word for a tie, too."""
    names = {str(name).casefold() for name in _names_of(sides.items)} if sides.items else set()
    for value in seen.present:
        if _tie(value) == 0.5 and str(value).casefold() in names:
            raise ValueError(
                f"{where!r}: the outcome {_shown(value)} in column {column.name!r} is the name of an item and a word "
                f"for a tie. Wanted is coding={{{_shown(value)}: 0.5, ...}} (--coding '{value}=0.5,...') where it is a "
                "tie, and coding='names' (--coding names) where it is the item"
            )


def _check_sources(
    column: Column, whole: NDArray[np.float64] | None, sides: Sides, sources: Sequence[tuple[str, int]]
) -> None:
    """Refuse sources of which one by itself means something else than all of them together, as far as that was found.

    One that cannot be read by itself is read as all are, where others that can be have all its values: a file with
    losses alone goes with files with losses and wins.
    """
    parts, start, known = [], 0, set[Value]()
    for name, rows in sources:
        place = slice(start, start := start + rows)
        items = None if sides.items is None else (sides.items[0].part(place), sides.items[1].part(place))
        part = column.part(place)
        seen = _Seen.of(part)
        own = _readings(part, seen, sides._replace(items=items))
        is_same = _is_one(own) and whole is not None and np.array_equal(own[0], whole[place], equal_nan=True)
        known.update(seen.present if is_same else ())
        parts.append((name, seen, is_same, own))
    odd = [
        k
        for k, (_, seen, is_same, own) in enumerate(parts)
        if not is_same and (own or not known.issuperset(seen.present))
    ]
    if odd and any(_is_one(own) for *_, own in parts):
        other = next((k for k, part in enumerate(parts) if part[2]), 1 if odd[0] == 0 else 0)
        listed = ", ".join(f"{parts[k][0]!r} (path[{k}]) holds {parts[k][1]}" for k in sorted({odd[0], other}))
        raise ValueError(
            f"the outcomes in column {column.name!r} may not mean the same in all that is read together: {listed}. "
            f"{_wanted(_Seen.of(column))}"
        )


# --- what each value is worth -------------------------------------------------------------------------------


def _signed(value: Value) -> float:
    return (1.0 + value) / 2.0 if not isinstance(value, str) and value in (-1.0, 0.0, 1.0) else np.inf


def _unit(value: Value) -> float:
    return value if not isinstance(value, str) and 0.0 <= value <= 1.0 else np.inf


def _tie(value: Value) -> float:
    return 0.5 if is_tie(value) else np.inf


def _as_numbers(seen: _Seen) -> NDArray[np.float64] | None:
    numbers = {value for value in seen.present if not isinstance(value, str)}
    if len(numbers) < len(seen.present):
        return None
    if {-1.0, 1.0} <= numbers <= {-1.0, 0.0, 1.0}:
        return seen.shares(_signed)
    # all of them 0 may be losses, draws, or the first of those that are counted from 0
    return seen.shares(_unit) if all(0.0 <= value <= 1.0 for value in numbers) and numbers != {0.0} else None


def _as_place(seen: _Seen, column: Column) -> NDArray[np.float64] | None:
    """By the place of the winner, 0 or 1, where the column is called after the winner. A truth is no place."""
    if not names_the_winner(column.name) or not {1.0} <= set(seen.present) <= {0.0, 1.0}:
        return None
    written = () if column.levels is None else [column.levels[k] for k in np.unique(column.values[column.present])]
    are_truths = len(written) > 0 and all(text_of(entry).casefold() in TRUTHS for entry in written)
    return None if column.are_truths or are_truths else 1.0 - seen.shares(_unit)


def _as_words(seen: _Seen, sides: Sides) -> NDArray[np.float64] | None:
    """By the columns' own names, or else by words for two sides."""
    if not all(isinstance(value, str) for value in seen.present):
        return None
    words = {_plain(str(value)) for value in seen.present if _tie(value) != 0.5}
    if not words:
        return None
    pairs = [sides.stems] if sides.stems is not None else []
    if sides.items is not None:
        pairs.append((_plain(sides.items[0].name), _plain(sides.items[1].name)))
    own = [pair for pair in pairs if words <= set(pair)]
    found = own[0] if own else _conventional(words, sides)
    if found is None:
        return None
    won = {found[0]: 1.0, found[1]: 0.0}
    return seen.shares(lambda value: won.get(_plain(str(value)), _tie(value)))


def _conventional(words: set[str], sides: Sides) -> tuple[str, str] | None:
    """The pair of words for two sides to which all these belong, unless the columns' names say the opposite."""
    for one, other in PAIRS:
        if words <= {one, other}:
            start = _n_alike([one, other])
            initials = one[start], other[start]
            crossed = sides.stems is not None and (sides.stems[1][0], sides.stems[0][0]) == initials
            return None if crossed else (one, other)
    return None


def _as_names(seen: _Seen, column: Column, sides: Sides) -> NDArray[np.float64] | None:
    """By each row's two items: all outcomes are names of items or words for a tie."""
    if sides.items is None:
        return None
    names = _names_of(sides.items)
    if not all(value in names or _tie(value) == 0.5 for value in seen.present):
        return None
    if all(_tie(value) == 0.5 for value in seen.present):
        return None
    found = _with_names(seen.shares(_tie), column, sides.items)
    is_number = not any(isinstance(value, str) for value in seen.present)
    return None if is_number and np.isinf(found).any() else found


def _strangers(seen: _Seen, sides: Sides) -> list[Value]:
    """The outcomes that are neither items nor ties, where items have most of the rows and are no mere numbers."""
    names = _names_of(sides.items) if sides.items is not None else set()
    counts = dict(zip(seen.values, seen.counts.tolist(), strict=True))
    named = {value: n for value, n in counts.items() if value in names}
    strange = {value: n for value, n in counts.items() if n and value not in named and _tie(value) != 0.5}
    if not any(isinstance(value, str) for value in named) or sum(strange.values()) >= sum(named.values()):
        return []
    return list(strange)


def _names_of(items: tuple[Column, Column]) -> set[Value]:
    """The names of all items, as outcomes are looked at."""
    return {_value(name, item.decimal) for item in items for name in item.named()[1]}


def _with_names(found: NDArray[np.float64], column: Column, items: tuple[Column, Column]) -> NDArray[np.float64]:
    """Shares with those of the rows filled in whose outcome is the name of one of their two items."""
    winner, known = column.named()
    where = {name: place for place, name in enumerate(known)}
    same = []
    for item in items:
        places, names = item.named()
        same.append((np.array([*(where.get(name, -2) for name in names), -2])[places] == winner) & (winner >= 0))
    is_told = np.isinf(found) & (same[0] != same[1])  # of a thing and itself no name tells who won
    return np.where(is_told, same[0].astype(np.float64), found)
