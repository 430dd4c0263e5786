"""Ctrl-C in the middle of what an exception must not cut short."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes enumerations of all it is told, in 16 us
import contextlib
import os
from signal import SIGINT
from types import FrameType
from typing import Any

__all__ = ["interrupt_held_back"]


class interrupt_held_back:  # noqa: N801 - a context manager, read like a function
    """Let what a Ctrl-C raises, as a rule a KeyboardInterrupt, come up at the end.

    Numba, LLVM and locks that are written in Python do not outlive an exception at any line: kernels are left without
    code, whose call is a crash, and locks stay held. Nor does what passes a NumPy Generator to a kernel: it asks
    ``ctypes`` for the generator's functions, and does not look whether it answered.

    The handler of the signal, whichever it is, is called as the signal comes. In other threads than the main one, which
    are never interrupted, nothing is done.
    """

    __slots__ = ("handler", "raised")

    def __enter__(self) -> None:
        self.handler: Any = _signal.getsignal(SIGINT)
        self.raised: list[BaseException] = []
        if callable(self.handler):
            with contextlib.suppress(ValueError):  # not the main thread
                _signal.signal(SIGINT, self._call)

    def __exit__(self, *_: object) -> None:
        if _signal.getsignal(SIGINT) == self._call:
            _signal.signal(SIGINT, self.handler)
        if self.raised:
            raise self.raised[0]

    def _call(self, number: int, frame: FrameType | None) -> None:
        try:
            self.handler(number, frame)
        except BaseException as error:  # noqa: BLE001 - to be raised later, whatever it is
            self.raised.append(error)


def _let_go() -> None:
    """In a process that was forked meanwhile, as workers are: nobody there would come to the end."""
    while isinstance(holder := getattr(_signal.getsignal(SIGINT), "__self__", None), interrupt_held_back):
        _signal.signal(SIGINT, holder.handler)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
