"""How fastcolst compiles: the only modules that talk to Numba's decorators, its internals and its cache.

Eight decorators serve the whole package:

``helper``
    a function called by kernels; compiled into its callers, never cached by itself.
``formula``
    a helper of arithmetic alone; Python calls it as it is, with numbers or whole arrays.
``as_written``
    a helper whose every operation rounds as it is written: the same bits on every machine and without the JIT.
``in_loops``
    such a helper in two forms, loops for kernels and whole arrays for Python.
``in_kernels``
    a function of which kernels call another version where they have a scalar.
``summation``
    a helper of one kernel alone, whose sums may be reordered.
``kernel``
    a function called from Python; its machine code is cached on disk.
``generic``
    a function ``f(self, ...)`` that means ``self.f(...)``, in Python and in kernels alike. Models, estimators and
    rules are registered NamedTuples with ordinary methods, and kernels reach those methods through generic
    functions, so that one kernel source serves every combination.

``flags`` holds the options of all compiled functions, ``cache`` keeps machine code on disk, ``digest`` tells whether a
user's code is what it was, ``compile_log`` what was compiled, ``handles`` pass a policy's rule and state, ``fills``
fill vectors with random numbers, and ``interrupts`` holds Ctrl-C back until machine code is made.
``parts``, how functions that kernels call are linked into them, and ``entries``, the cache as Numba asks for it, use
Numba's internals: they are imported only where its version was tested, and not at all with ``FASTCOLST_PLAIN_NUMBA=1``.
"""

from __future__ import annotations

from fastcolst._compile.cache import CacheContents, cache_contents, cache_info, clear_cache
from fastcolst._compile.compile_log import Compiled, one_line, so_far
from fastcolst._compile.decorators import (
    COMPILER_LOCK,
    KERNELS,
    as_written,
    direct,
    formula,
    generic,
    helper,
    in_kernels,
    in_loops,
    is_registered,
    kernel,
    plain,
    register,
    registered,
    summation,
)
from fastcolst._compile.digest import PACKAGE, code_digest, is_versioned
from fastcolst._compile.fills import fill_exponential, fill_normal, fill_uniform
from fastcolst._compile.flags import PLAIN
from fastcolst._compile.handles import handle, make_agent, shared_fields, slot
from fastcolst._compile.interrupts import uninterrupted
from fastcolst._compile.intrinsics import leading_bits, times_power_of_two

__all__ = [
    "COMPILER_LOCK",
    "KERNELS",
    "PACKAGE",
    "PLAIN",
    "CacheContents",
    "Compiled",
    "as_written",
    "cache_contents",
    "cache_info",
    "clear_cache",
    "code_digest",
    "direct",
    "fill_exponential",
    "fill_normal",
    "fill_uniform",
    "formula",
    "generic",
    "handle",
    "helper",
    "in_kernels",
    "in_loops",
    "is_registered",
    "is_versioned",
    "kernel",
    "leading_bits",
    "make_agent",
    "one_line",
    "plain",
    "register",
    "registered",
    "shared_fields",
    "slot",
    "so_far",
    "summation",
    "times_power_of_two",
    "uninterrupted",
]
