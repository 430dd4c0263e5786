"""BLAS on one thread, while large matrices are worked on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile.interrupts import uninterrupted

__all__ = ["SMALL", "eigh", "on_one_thread"]

P = ParamSpec("P")
T = TypeVar("T")

SMALL = 25
"""Up to so many features BLAS keeps to one thread by itself. From 26 rows on LAPACK divides a matrix that it finds the
eigenvalues of, from 40 on products with 512 columns are shared, from 49 on factorisations."""


def on_one_thread(n_features: int, work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Call what works on matrices of so many features, with one thread for BLAS.

    With more, the last bits of a sum depend on how many there are; and where other processes are at work they wait for
    each other: a factorisation of 384 features that takes 6 ms took 30 to 900 on two busy processors. How many threads
    there are is the process's affair, hence one caller at a time: others wait, and Ctrl-C is raised when they enter.

    >>> import numpy as np
    >>> on_one_thread(384, np.dot, np.ones((384, 384)), np.ones(384)).shape
    (384,)
    """
    if n_features <= SMALL:
        return work(*arguments, **options)
    inside: list[None] = []
    try:
        uninterrupted(_DOOR.enter, inside)
        return work(*arguments, **options)
    finally:
        try:
            uninterrupted(_DOOR.leave, inside)
        finally:  # an interrupt may have come before the first attempt began
            uninterrupted(_DOOR.leave, inside)


def eigh(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues (d,), the smallest first, and eigenvectors (d, d) of a symmetric matrix, with one thread for BLAS.

    With several, a matrix of 40 rows took 16 ms beside a busy processor instead of 0.2. O(d^3).
    """
    return on_one_thread(len(matrix), np.linalg.eigh, matrix)


class _Door:
    """Behind it BLAS has one thread; whoever is inside may enter again."""

    def __init__(self) -> None:
        self._controller: Any = None
        self._limit: Any = None
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)  # whoever was inside is not there

    def _begin(self) -> None:
        self._lock, self._depth = threading.RLock(), 0
        limit, self._limit = self._limit, None
        if limit is not None:
            limit.__exit__(None, None, None)

    def enter(self, inside: list[None]) -> None:
        """Enter, and note that in a list, which was empty."""
        self._lock.acquire()
        inside.append(None)
        self._depth += 1
        if self._depth == 1:
            self._limit = self._blas().limit(limits=1).__enter__()

    def leave(self, inside: list[None]) -> None:
        """Leave, unless the list tells that this was done: after an interrupt callers try again."""
        if not inside:
            return
        inside.clear()
        self._depth -= 1
        try:
            if self._depth == 0 and self._limit is not None:
                self._limit.__exit__(None, None, None)
                self._limit = None
        finally:
            self._lock.release()

    def _blas(self) -> Any:
        """All BLAS libraries that there are, found once."""
        if self._controller is None:
            import scipy.linalg  # so that its BLAS is there when the controller looks for all that are
            from threadpoolctl import ThreadpoolController

            del scipy
            self._controller = ThreadpoolController().select(user_api="blas")
        return self._controller


_DOOR = _Door()
