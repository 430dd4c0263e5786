"""Ctrl-C while machine code is made, or called with a generator."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

__all__ = ["interrupt_held_back"]


@contextlib.contextmanager
def interrupt_held_back() -> Iterator[None]:
    """Raise the KeyboardInterrupt of a Ctrl-C that comes meanwhile at the end; other handlers of it are called at once.

    Where an exception cuts Numba or LLVM short, locks stay held and kernels without code, whose call is a crash. So is
    one in ``ctypes``, by which kernels that are given a NumPy Generator ask for its functions: they do not look whether
    it answered.
    """
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came: list[bool] = []
    signal.signal(signal.SIGINT, lambda *_: came.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if came:
            raise KeyboardInterrupt
