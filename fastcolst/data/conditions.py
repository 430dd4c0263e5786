"""Which rows of a log to keep: a column, an operator, and what it is compared with."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastcolst._checks import looked_at
from fastcolst._files import optional_import

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fastcolst.data.tables import Column

__all__ = ["Condition", "parse_condition"]

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION = re.compile(r"\s*(?P<column>\S.*?)\s*(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>.*?)\s*", re.DOTALL)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_ZONED = "dates with a time zone ('2026-01-31T12:00+00:00' is wanted)"
_NAIVE = "dates without a time zone ('2026-01-31T12:00' is wanted)"
_NUMBER = re.compile(r"[+-]?(\d+(?P<fraction>\.\d*)?|(?P<point>\.\d+))(?P<exponent>[eE][+-]?\d+)?")


class Condition(NamedTuple):
    """A column, an operator and the value it is compared with; `text` is how it was written."""

    text: str
    column: str
    operator: str
    value: int | float | str

    def holds(self, column: Column) -> NDArray[np.bool_]:
        """Where it is met, (rows,); a row without a value meets none."""
        if column.levels is not None:
            return column.by_level(self._of_levels(column), False, np.bool_)
        met, there, kind = np.zeros(len(column), dtype=np.bool_), column.present, column.values.dtype.kind
        if kind == "M" and isinstance(self.value, str):
            other: Any = self._moment(column)
        elif kind in "biuf" and not isinstance(self.value, str):
            other = self.value
        else:
            raise self._refused("numbers" if kind in "biuf" else f"values of type {column.values.dtype}")
        met[there] = _OPERATORS[self.operator](column.values[there], other)
        return met

    def _of_levels(self, column: Column) -> NDArray[np.bool_]:
        """Where it is met by the levels of a column."""
        levels, is_text = list(column.levels or ()), isinstance(self.value, str)
        if not all(isinstance(level, str if is_text else int | float) for level in levels):
            kinds = sorted({type(level).__name__ for level in levels})
            raise self._refused("texts" if kinds == ["str"] else f"values of type {', '.join(kinds)}")
        moments = self._moments(levels, str(self.value)) if is_text else None
        other, values = (self.value, levels) if moments is None else moments
        compare = _OPERATORS[self.operator]
        return np.array([compare(value, other) for value in values], np.bool_)

    def _moments(self, levels: list[str], value: str) -> tuple[datetime, list[datetime]] | None:
        """The value and the levels as dates, where all of them are; texts of several time zones have no order."""
        if not _DATE.match(value) or not all(map(_DATE.match, levels)):
            return None
        other = looked_at(datetime.fromisoformat, value)
        moments = [looked_at(datetime.fromisoformat, level) for level in levels]
        if other is None or None in moments:
            return None
        zoned = {moment.tzinfo is not None for moment in moments if moment is not None}
        if len(zoned) > 1:
            raise self._refused("dates of which some have a time zone and some have none")
        if zoned and zoned != {other.tzinfo is not None}:
            raise self._refused(_ZONED if True in zoned else _NAIVE)
        return other, moments  # type: ignore[return-value]

    def _moment(self, column: Column) -> Any:
        """The value as a date, in UTC where the column has a time zone; without one it is of the column's."""
        text = str(self.value)
        moment = looked_at(datetime.fromisoformat, text)
        if moment is not None and moment.tzinfo is not None:
            if column.zone is None:
                raise self._refused(_NAIVE)
            return np.datetime64(moment.astimezone(UTC).replace(tzinfo=None))
        try:
            naive = np.datetime64(text)
        except ValueError:
            raise ValueError(f"where={self.text!r}: column {self.column!r} holds dates, wants '2026-01-31'") from None
        if column.zone is None:
            return naive
        pandas = optional_import("pandas", "a time zone")
        there = looked_at(lambda date: pandas.Timestamp(date).tz_localize(column.zone), naive)
        if there is None:
            raise ValueError(
                f"where={self.text!r}: {text!r} is there twice or never in the time zone {column.zone} of column "
                f"{self.column!r}; a time with its zone is wanted, such as '2026-01-31T12:00+00:00'"
            )
        return there.tz_convert("UTC").tz_localize(None).to_datetime64()

    def _refused(self, held: str) -> ValueError:
        compared = "a text" if isinstance(self.value, str) else "a number"
        return ValueError(f"where={self.text!r} compares column {self.column!r}, which holds {held}, with {compared}")


def parse_condition(text: str) -> Condition:
    """Return what a text such as ``"year >= 1990"`` asks for; a ValueError quotes one that asks for nothing."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(f"where={text!r} is not a column, one of == != < <= > >=, and a number or a quoted text")
    return Condition(text, found["column"], found["operator"], _parse_value(found["value"], text))


def _parse_value(value: str, text: str) -> int | float | str:
    number = _NUMBER.fullmatch(value)
    if number is not None:
        is_whole = not any(number.groupdict().values()) and len(value) <= 20  # as long as a 64-bit integer
        return int(value) if is_whole else float(value)
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"" and value[0] not in value[1:-1]:
        return value[1:-1]
    raise ValueError(f"where={text!r} compares with {value!r}; a number or a 'quoted text' is wanted")
