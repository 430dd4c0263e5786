"""What is told of compiling, through the logger ``fastcolst``: one line for each time that somebody waits for it."""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fastcolst._compile.cache import KEPT
from fastcolst._compile.interrupts import uninterrupted

__all__ = ["Compiled", "one_line", "so_far", "watched"]

_LOGGER = logging.getLogger("fastcolst")


class Compiled(NamedTuple):
    """What became of kernels: how many were compiled, kept and loaded from the cache, and the seconds of compiling."""

    compiled: int = 0
    kept: int = 0
    loaded: int = 0
    seconds: float = 0.0

    def since(self, before: Compiled) -> Compiled:
        """What has come since an earlier count."""
        counts = (self.compiled - before.compiled, self.kept - before.kept, self.loaded - before.loaded)
        return Compiled(*counts, self.seconds - before.seconds)

    def __str__(self) -> str:
        kernels = f"{self.compiled} kernel{'s' * (self.compiled != 1)}"
        anew = self.compiled - self.kept
        rest = f"every process compiles {anew} of them" if anew else "later processes load them from the cache"
        return f"compiled {kernels} in {self.seconds:.1f} s; {rest}"


class _Watch:
    """Counts for the whole process, in which one thread compiles at a time and others may wait for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seen: set[tuple[int, str]] = set()
        self.compiled, self.loaded, self.seconds = 0, 0, 0.0
        self.told = Compiled(kept=len(KEPT))
        self.at_work, self.since = 0, 0.0
        self.waiting_for: set[object] = set()  # who will tell of all that was compiled meanwhile
        self.collects = False  # whether garbage was collected before compiling began

    def forget(self) -> None:
        """Begin anew in a child process: whoever compiled, or held the lock, is not in it."""
        self._let_collect()
        self.__init__()  # type: ignore[misc]

    def total(self) -> Compiled:
        return Compiled(self.compiled, len(KEPT), self.loaded, self.seconds)

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """The time of a thread that compiles or waits for another one: what both take counts once.

        Meanwhile no garbage is collected: the compiler makes so many objects that looking for it again and again takes
        a tenth of its time. What it leaves is garbage for the most part, and let go at the end.
        """
        with self.lock:
            if self.at_work == 0:
                self.since = time.perf_counter()
                self.collects = gc.isenabled()
                gc.disable()
            self.at_work += 1
        try:
            yield
        finally:
            with self.lock:
                self.at_work -= 1
                if self.at_work == 0:
                    self.seconds += time.perf_counter() - self.since
                    self._let_collect()

    def _let_collect(self) -> None:
        """Let garbage be collected again, if it was."""
        if self.collects:
            gc.enable()
        self.collects = False

    def note(self, kernel: Any, signature: Any) -> None:
        """Count a kernel that was compiled or loaded, by whichever thread comes first."""
        with self.lock:
            key = (id(kernel), str(signature))
            if key not in self.seen:
                self.seen.add(key)
                loaded = kernel.get_metadata(signature) is None  # which the cache does not keep
                self.loaded += loaded
                self.compiled += not loaded
        self.tell()

    def wait_for(self, caller: object) -> None:
        """Tell nothing before this one is done."""
        with self.lock:
            self.waiting_for.add(caller)

    def wait_no_more(self, caller: object) -> None:
        """Take back :meth:`wait_for`."""
        with self.lock:
            self.waiting_for.discard(caller)

    def tell(self) -> None:
        with self.lock:
            news = self.total().since(self.told)
            if self.waiting_for or self.at_work:
                return
            self.told = self.total()
        if news.compiled:
            _LOGGER.info("%s", news)


_WATCH = _Watch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WATCH.forget)


def watched(kernel: Any) -> Callable[[Any], Any]:
    """A dispatcher's ``compile``, by which it compiles or loads what a signature needs: counted, and in one piece."""
    plain: Callable[[Any], Any] = kernel.compile

    def compile_or_load(signature: Any) -> Any:
        with _WATCH.compiling():
            made = plain(signature)
        _WATCH.note(kernel, signature)
        return made

    @functools.wraps(plain)
    def compile_uninterrupted(signature: Any) -> Any:
        return uninterrupted(compile_or_load, signature)

    return compile_uninterrupted


def so_far() -> Compiled:
    """What became of kernels in this process until now."""
    return _WATCH.total()


@contextlib.contextmanager
def one_line() -> Iterator[None]:
    """Tell of all that is compiled meanwhile, by whichever thread, in one line at the end."""
    caller = object()
    try:
        uninterrupted(_WATCH.wait_for, caller)
        yield
    finally:
        uninterrupted(_WATCH.wait_no_more, caller)
        _WATCH.tell()
