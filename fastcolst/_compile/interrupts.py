"""Ctrl-C in the middle of what an exception must not cut short."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes enumerations of all it is told, in 16 us
import contextlib
import os
from collections.abc import Callable
from signal import SIGINT
from types import FrameType
from typing import Any, ParamSpec, TypeVar

__all__ = ["uninterrupted"]

P = ParamSpec("P")
T = TypeVar("T")


def uninterrupted(call: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Call, and let what a Ctrl-C raises meanwhile, as a rule a KeyboardInterrupt, come up at the end.

    Numba, LLVM and locks that are written in Python do not outlive an exception at any line: kernels are left without
    code, whose call is a crash, and locks stay held. Nor does what passes a NumPy Generator to a kernel: it asks
    ``ctypes`` for the generator's functions, and does not look whether it answered.

    What the call did is done then; what it returned is lost.

    The signal's handler, whichever Python has, is called as the signal comes. A handler that C code has set in its
    place is lost, since Python does not see it. Nothing is held back in other threads than the main one, which are
    never interrupted, nor of other signals, nor once the handler was replaced during the call. It takes 2 us.
    """
    handler = _signal.getsignal(SIGINT)
    if not callable(handler):
        return call(*arguments, **options)
    holder = _Holder(handler)
    try:
        with contextlib.suppress(ValueError):  # not the main thread
            _signal.signal(SIGINT, holder)
        return call(*arguments, **options)
    finally:
        try:
            holder.end()
        finally:  # what another signal raises may have cut the first attempt short
            holder.end()
        holder.come_up()


class _Holder:
    """A handler that calls the one whose place it takes, and keeps what that raises."""

    __slots__ = ("handler", "is_over", "raised")

    def __init__(self, handler: Callable[[int, FrameType | None], Any]) -> None:
        self.handler = handler
        self.raised: BaseException | None = None
        self.is_over = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.is_over:  # somebody kept this handler, and has set it again
            self.handler(number, frame)
            return
        try:
            self.handler(number, frame)
        except BaseException as error:  # noqa: BLE001 - to be raised later, whatever it is
            self.raised = error

    def end(self) -> None:
        if _signal.getsignal(SIGINT) is self:
            _signal.signal(SIGINT, self.handler)
        self.is_over = True

    def come_up(self) -> None:
        error, self.raised = self.raised, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # else it would hold its own traceback, with all that was interrupted


def _let_go() -> None:
    """In a process that was forked meanwhile, as workers are: nobody there would come to the end."""
    while isinstance(holder := _signal.getsignal(SIGINT), _Holder):
        _signal.signal(SIGINT, holder.handler)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
