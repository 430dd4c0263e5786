"""The flags of every compiled function, in one place."""

from __future__ import annotations

from typing import Any

__all__ = ["FLAGS", "INLINED", "PART", "WHOLE"]

# Every flag is explicit: one left out would be inherited from whichever caller is compiled first. No "nnan" and no
# "ninf": kernels look for them. No "reassoc": it lets two specialisations of one formula round differently, and the
# loops run over arms, where it gains nothing.
FLAGS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nsz"},
    "boundscheck": False,  # NUMBA_BOUNDSCHECK=1 overrides
    "parallel": False,
    "forceinline": False,
}

INLINED = frozenset({"cdf", "pdf", "score", "curvature"})
"""Generic functions that kernels call once for each comparison of a history."""

PART: dict[str, Any] = {}
"""Options for a function that is only ever linked into others."""

WHOLE: dict[str, Any] = {"no_cfunc_wrapper": True}
"""Options for a function that Python calls."""

try:
    from fastcolst._compile.parts import KernelCompiler, PartCompiler
except ImportError:  # Numba moved its internals
    pass
else:
    PART["pipeline_class"] = PartCompiler
    WHOLE["pipeline_class"] = KernelCompiler
