"""The lock of a policy: calls from several threads take turns, and a forked process finds every policy whole.

A fork copies what other threads were in the middle of, and locks that nobody is left to release. Here it waits for the
calls that are under way: the thread that forks holds all policies' locks meanwhile and releases them on both sides.
"""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet

__all__ = ["new_lock"]

_LOCKS: WeakSet[Any] = WeakSet()
_LIST = threading.Lock()
"""Guards ``_LOCKS``; whoever holds it waits for nothing, so that a policy may be made while another one is in use."""
_FORK = threading.Lock()
"""Held by the thread that forks: two would wait for each other's locks."""
_held: set[Any] = set()


def new_lock() -> Any:
    """A lock that its holder may take again, and that is free in a forked process."""
    lock = threading.RLock()
    with _LIST:
        _LOCKS.add(lock)
    return lock


def _take_all() -> None:
    _FORK.acquire()
    while True:
        _LIST.acquire()
        others = [lock for lock in _LOCKS if lock not in _held]
        if not others:  # and there will be no more while the list is held
            return
        _LIST.release()
        for lock in others:
            lock.acquire()
            _held.add(lock)


def _release_all() -> None:
    _LIST.release()
    while _held:
        _held.pop().release()
    _FORK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take_all, after_in_parent=_release_all, after_in_child=_release_all)
