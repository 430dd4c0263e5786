"""What compiled code takes for granted of a policy's arrays, checked where they come from a file.

Kernels do not compare indices with bounds. A class of arrays in which there are some, or numbers that a loop would not
end with, registers a check of its own, as :mod:`fastcolst.policies.double_thompson` does; theta, counters and a history
are known here.
"""

from __future__ import annotations

import re
from functools import singledispatch
from typing import Any

import numpy as np

from fastcolst.estimation.history import ROWS, History
from fastcolst.estimation.records import PROGRESS_RECORD, STATUSES
from fastcolst.policies.state import COUNTERS

__all__ = ["MOST_WINS", "check", "check_range"]

MOST_WINS = 1e100
"""With more, and with less than none, the loop that draws a Beta variate need not end."""

FINITE = re.compile(r"\.theta$|^(?!.*\.memory\.).*\.(gram|factor)$")
"""Names of arrays of finite numbers: the factor in an estimator's memory need not mean anything."""


@singledispatch
def check(part: Any, name: str) -> None:
    """Check a state, or a part of one, and all that it holds.

    Raises
    ------
    ValueError
        It cannot be; opens with the name.
    """
    if isinstance(part, tuple):
        fields: tuple[str, ...] = part._fields  # type: ignore[attr-defined]
        for field, value in zip(fields, part, strict=True):
            check(value, f"{name}.{field}")
    elif part.dtype == COUNTERS:
        for field in COUNTERS.names or ():
            lowest, highest = {"exploration_end": -1, "faded": -(2**62)}.get(field, 0), 2**62
            check_range(
                part[field], f"{name}.{field}", lowest, 1 if field in ("factored", "untested", "position") else highest
            )
    elif part.dtype == PROGRESS_RECORD:
        check_range(part["status"], f"{name}.status", 0, len(STATUSES) - 1)
        for field in ("learned", "solved", "passes", "rows_passed", "since_renewal"):
            check_range(part[field], f"{name}.{field}", 0, 2**62)
    elif FINITE.search(name) and not np.isfinite(part).all():
        raise ValueError(f"{name} has a number that is not finite; finite ones are wanted")


def check_range(values: Any, name: str, lowest: float, highest: float) -> None:
    """Refuse numbers outside a range, nan among them."""
    if not np.all((values >= lowest) & (values <= highest)):
        raise ValueError(f"{name} has a number outside {lowest} to {highest}, which are wanted")


@check.register
def _(part: History, name: str) -> None:
    n = len(part.blocks)
    check_range(part.used, f"{name}.used", 0, n)
    check_range(part.size, f"{name}.size", 0, n * ROWS)
    for owned, size in zip(np.atleast_2d(part.owned), np.atleast_2d(part.size)[:, 0], strict=True):
        check_range(owned[: -(-int(size) // ROWS)], f"{name}.owned", 0, int(part.used[0]) - 1)
    if not np.isfinite(part.blocks[: int(part.used[0])]).all():
        raise ValueError(f"{name}.blocks has a number that is not finite; finite ones are wanted")
