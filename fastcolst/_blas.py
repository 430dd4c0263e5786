"""BLAS on one thread, while large matrices are worked on."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

__all__ = ["SMALL", "one_thread"]

SMALL = 48
"""Up to so many features BLAS keeps to one thread by itself."""


class _OneThread:
    """Keeps BLAS to one thread for as long as anybody is inside, whatever thread that is.

    With more, the last bits of a sum depend on how many there are; and where other processes are at work they wait for
    each other: a factorisation of 384 features that takes 6 ms took 30 to 900 on two busy processors.

    How many threads there are is the process's affair. So the first that comes in sets it, and the last that goes out
    sets it back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._controller: Any = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._n_inside += 1
            if self._n_inside == 1:
                if self._controller is None:
                    import scipy.linalg  # so that its BLAS is there when the controller looks for all that are
                    from threadpoolctl import ThreadpoolController

                    del scipy
                    self._controller = ThreadpoolController().select(user_api="blas")
                self._limit = self._controller.limit(limits=1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._limit.restore_original_limits()


class _AsItIs:
    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


_ONE, _MANY = _OneThread(), _AsItIs()


def one_thread(n_features: int) -> _OneThread | _AsItIs:
    """A context in which matrices of so many features are worked on by one thread.

    >>> import numpy as np
    >>> with one_thread(384):
    ...     product = np.ones((384, 384)) @ np.ones(384)
    """
    return _ONE if n_features > SMALL else _MANY
