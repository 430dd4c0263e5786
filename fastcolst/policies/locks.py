"""The lock of a policy: calls from several threads take turns, and a forked process finds every policy whole.

A fork copies what other threads were in the middle of, and locks that nobody is left to release. Here it waits for the
calls that are under way: the thread that forks holds all policies' locks meanwhile, and the compiler's, and releases
them on both sides. What a signal handler raises while it waits comes afterwards: Python ignores what is raised there,
and would fork without the locks.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import threading
from typing import Any
from weakref import WeakValueDictionary

from fastcolst._compile import COMPILER_LOCK

__all__ = ["new_lock"]

_LOCKS: WeakValueDictionary[int, Any] = WeakValueDictionary()
_LIST = threading.RLock()
"""Held while ``_LOCKS`` grows, by whoever waits for nothing meanwhile: a policy may be made while another is in use."""
_FORK = threading.RLock()
"""Held by the thread that forks: two would wait for each other's locks."""
_held: list[Any] = []
"""Locks that the thread which forks has taken, or is about to take."""
_late: list[BaseException] = []
"""What was raised while it waited."""


def new_lock() -> Any:
    """A lock that its holder may take again, and that is free in a forked process."""
    lock = threading.RLock()
    with _LIST:
        _LOCKS[id(lock)] = lock
    return lock


def _take(lock: Any) -> None:
    _held.append(lock)
    while True:
        try:
            lock.acquire()
        except BaseException as error:  # noqa: BLE001 - of a signal handler
            _late.append(error)
        else:
            return


def _take_all() -> None:
    _take(_FORK)
    taken: set[int] = set()
    while True:
        _take(_LIST)
        others = [lock for reference in _LOCKS.valuerefs() if (lock := reference()) is not None]
        others = [lock for lock in others if id(lock) not in taken]
        if not others:  # and there will be no more while the list is held
            _take(COMPILER_LOCK)
            return
        _held.remove(_LIST)
        _LIST.release()
        for lock in others:
            _take(lock)
            taken.add(id(lock))


def _release_all() -> None:
    while _held:
        with contextlib.suppress(RuntimeError):  # something was raised before it was taken
            _held.pop().release()


def _release_in_parent() -> None:
    _release_all()
    interrupted = any(isinstance(error, KeyboardInterrupt) for error in _late)
    others = [error for error in _late if not isinstance(error, KeyboardInterrupt)]
    _late.clear()
    if interrupted:  # here it would be ignored
        threading.Timer(0.01, _thread.interrupt_main).start()
    if others:
        raise others[0]


def _release_in_child() -> None:
    _late.clear()
    _release_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take_all, after_in_parent=_release_in_parent, after_in_child=_release_in_child)
