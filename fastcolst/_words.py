"""Values that people hand in: what they are, and how messages and tables put them into words.

Everything else may import this module, the compiler's included: it imports nothing of ours.
"""

from __future__ import annotations

import math
import numbers
import re
import reprlib
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["align", "brief", "is_tie", "looked_at", "names_the_winner", "plain_text", "real_number", "whole_number"]

T = TypeVar("T")

TIES = frozenset({"tie", "draw", "drawn", "equal", "tie (bothbad)", "both_bad", "bothbad"})
"""Words for a tie, in small letters."""

WINNER = re.compile(
    "winners?|winning|preferred|preference|prefers|chosen|choice|selected|selection|pick|picked|vote|voted|better|best"
    "|which|verdict|judge?ment|answer|position|index|idx|id"
)
"""Words in the names of columns that say who won, in small letters."""


@overload
def looked_at(look: Callable[[Any], T], value: Any) -> T | None: ...
@overload
def looked_at(look: Callable[[Any], T], value: Any, default: T) -> T: ...
def looked_at(look: Callable[[Any], T], value: Any, default: T | None = None) -> T | None:
    """What a look at a value gives, and the default where the value does not bear it.

    Objects of the caller's own may do anything when they are looked at: compare as arrays, raise in ``__array__`` or in
    ``__repr__``. This is the one place that takes whatever comes out of that.
    """
    try:
        return look(value)
    except Exception:  # noqa: BLE001 - see above
        return default


def whole_number(value: Any) -> int | None:
    """The int that a value is, a float without a fraction as well; None for all others, and for True and False."""
    return looked_at(_whole_number, value)


def _whole_number(value: Any) -> int | None:
    if isinstance(value, (bool, np.bool_, np.timedelta64)):  # which are integers to Python, or to NumPy
        return None
    is_whole = isinstance(value, numbers.Integral) or (isinstance(value, float) and float.is_integer(value))
    return int(value) if is_whole else None


def real_number(value: Any) -> float:
    """A real number as float, inf where it is beyond the largest; TypeError, or whatever it raises, for all others."""
    if isinstance(value, (bool, np.bool_, np.timedelta64)) or not isinstance(value, numbers.Real):
        raise TypeError("no real number")
    real: Any = value
    try:
        return float(real)
    except OverflowError:  # an integer or a fraction beyond the largest float
        return math.inf if real > 0 else -math.inf


def plain_text(value: Any) -> str | None:
    """The text that a value is, as a str and no subclass of it; None for all others."""
    return str.__str__(value) if isinstance(value, str) else None


_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxother = _SHORT.maxstring = _SHORT.maxlong = 120


def brief(value: Any) -> str:
    """A value as messages show it: its repr on one line, cut where it is long; its class where that fails."""
    text = looked_at(_SHORT.repr, value)
    return f"a {type(value).__name__} without a repr" if text is None else re.sub(r"\s*\n\s*", " ", text)


def is_tie(value: object) -> bool:
    """Whether it is a word for a tie."""
    return isinstance(value, str) and value.casefold() in TIES


def names_the_winner(name: object) -> bool:
    """Whether a column is called after the winner, so that its 0 and 1 may be places as well as the first's shares."""
    words = re.findall(r"[A-Z]?[^\WA-Z\d_]+|[A-Z]+", name) if isinstance(name, str) else []
    return any(WINNER.fullmatch(word.casefold()) for word in words)


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
