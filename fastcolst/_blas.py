"""BLAS on one thread, while large matrices are worked on."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any

from fastcolst._compile.interrupts import interrupt_held_back

__all__ = ["SMALL", "one_thread"]

SMALL = 48
"""Up to so many features BLAS keeps to one thread by itself."""


class _OneThread:
    """Keeps BLAS to one thread for whoever is inside; others wait at the door.

    With more, the last bits of a sum depend on how many there are; and where other processes are at work they wait for
    each other: a factorisation of 384 features that takes 6 ms took 30 to 900 on two busy processors. How many threads
    there are is the process's affair, hence the door.
    """

    def __init__(self) -> None:
        self._controller: Any = None
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)  # whoever was inside is not there

    def _begin(self) -> None:
        self._door, self._depth = threading.RLock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        inside = False
        try:
            with interrupt_held_back():
                self._door.acquire()
                self._depth += 1
                inside = True
                if self._depth == 1:
                    self._limit = self._blas().limit(limits=1).__enter__()
        except BaseException:  # an interrupt, or no BLAS to be found: `with` does not leave what was not entered
            if inside:
                self.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with interrupt_held_back():
            self._depth -= 1
            if self._depth == 0 and self._limit is not None:
                self._limit.__exit__(kind, error, trace)
                self._limit = None
            self._door.release()

    def _blas(self) -> Any:
        """All BLAS libraries that there are, found once."""
        if self._controller is None:
            import scipy.linalg  # so that its BLAS is there when the controller looks for all that are
            from threadpoolctl import ThreadpoolController

            del scipy
            self._controller = ThreadpoolController().select(user_api="blas")
        return self._controller


class _AsItIs:
    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


_ONE, _MANY = _OneThread(), _AsItIs()


def one_thread(n_features: int) -> _OneThread | _AsItIs:
    """A context in which matrices of so many features are worked on by one thread.

    The last thing in it that takes long is a call, not an operator: after a call Python looks for signals, after an
    operator only when it has begun to leave the context, and then an interrupt would leave the door closed.

    >>> import numpy as np
    >>> with one_thread(384):
    ...     product = np.ones((384, 384)) @ np.ones(384)
    """
    return _ONE if n_features > SMALL else _MANY
