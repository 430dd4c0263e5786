"""The disk cache as a Numba dispatcher uses it.

``_Cache``, and the parts of a ``CompileResult``, are internals of Numba.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numba
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys

from fastcolst._compile import cache
from fastcolst._compile.digest import PACKAGE, users_code

__all__ = ["attach_cache"]


def attach_cache(dispatcher: Any) -> None:
    """Let a dispatcher keep its machine code on disk."""
    if dispatcher.py_func.__module__.partition(".")[0] == PACKAGE:  # or the digest of sources does not see it
        dispatcher._cache = KernelCache(dispatcher.py_func)


class KernelCache(_Cache):  # type: ignore[misc]
    """The entries of one kernel."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = f"{function.__module__}.{function.__qualname__}"
        self._enabled = True

    @property
    def cache_path(self) -> str | None:
        folder = cache.usable_folder()
        return None if folder is None else str(folder)

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        cache.remove(self._function)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        users = users_code(sig)
        if not self._enabled or users is None:
            return None
        rtsys.initialize(target_context)  # all that machine code needs: to learn what can be compiled takes 0.25 s
        data = cache.load(*self._entry(sig, target_context.codegen(), users))
        return None if data is None else CompileResult._rebuild(target_context, *data)

    def save_overload(self, sig: Any, data: Any) -> None:
        users = users_code(sig, anew=True)
        if self._enabled and users is not None and not data.library.has_dynamic_globals:  # addresses of this process
            cache.save(*self._entry(sig, data.codegen, users), data._reduce)

    def _entry(self, sig: Any, codegen: Any, users: Any) -> tuple[str, str]:
        """The name of a signature's file, and the key that it must hold."""
        key = repr((self._function, str(sig), users, codegen.magic_tuple(), numba.config.BOUNDSCHECK, cache.SOURCES))
        kind = cache.USERS if users else ""
        return f"{self._function}{kind}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.nbc", key
