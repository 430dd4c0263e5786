"""What is done with memories as a whole: NamedTuples of arrays, at any depth, that kernels change in place.

A class of arrays to which more applies than to plain arrays says so by registering its own function, as
:mod:`fastcolst.estimation.history` does.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from fastcolst._compile import shared_fields, slot

__all__ = ["restacked", "rewind", "snapshot", "spread", "stacked", "unstacked"]


@singledispatch
def snapshot(memory: Any) -> Any:
    """A copy of the arrays, except for those that comparisons are only ever appended to."""
    return type(memory)(*map(snapshot, memory)) if isinstance(memory, tuple) else memory.copy()


@singledispatch
def rewind(memory: Any) -> None:
    """Make a :func:`snapshot` the memory again: what was appended since is forgotten."""
    if isinstance(memory, tuple):
        for part in memory:
            rewind(part)


@singledispatch
def spread(memory: Any, stack: Any) -> None:
    """Copy a memory into each place of a stack of them."""
    if not isinstance(memory, tuple):
        stack[:] = memory
        return
    shared = shared_fields(type(memory))
    for name in memory._fields:  # type: ignore[attr-defined]
        if name not in shared:
            spread(getattr(memory, name), getattr(stack, name))


def stacked(memory: Any, n: int) -> Any:
    """Zeros for n memories like the given one, whose arrays have a first axis of n; see :func:`slot`.

    Fields that the class's ``shared()`` names are one for all.
    """
    if not isinstance(memory, tuple):
        return np.zeros((n, *memory.shape), memory.dtype)
    shared = shared_fields(type(memory))
    return type(memory)(
        *(
            field if name in shared else stacked(field, n)
            for name, field in zip(memory._fields, memory, strict=True)  # type: ignore[attr-defined]
        )
    )


def unstacked(stack: Any, n: int) -> list[Any]:
    """The n memories of a stack, as views."""
    return [slot(stack, index) for index in range(n)]


def restacked(memories: list[Any]) -> Any:
    """A stack of memories. Where their arrays differ in shape, the room of the smaller ones is zeros at the end."""
    first = memories[0]
    if isinstance(first, tuple):
        shared = shared_fields(type(first))
        fields = zip(first._fields, zip(*memories, strict=True), strict=True)  # type: ignore[attr-defined]
        return type(first)(*(parts[0] if name in shared else restacked(list(parts)) for name, parts in fields))
    shape = tuple(np.max([array.shape for array in memories], axis=0))
    stack = np.zeros((len(memories), *shape), first.dtype)
    for index, array in enumerate(memories):
        place: Any = (index, *map(slice, array.shape))
        stack[place] = array
    return stack
