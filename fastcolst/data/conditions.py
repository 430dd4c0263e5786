"""Which rows of a log to keep: a column, an operator, and what it is compared with."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
_NUMBER = re.compile(r"[+-]?(\d+(?P<fraction>\.\d*)?|(?P<point>\.\d+))(?P<exponent>[eE][+-]?\d+)?")


class Condition(NamedTuple):
    """A column, an operator and the value it is compared with; `text` is how it was written."""

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
