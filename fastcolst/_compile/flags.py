"""The flags of every compiled function, in one place."""

from __future__ import annotations

import os
from typing import Any

import numba

__all__ = ["EXACT", "FLAGS", "INLINED", "PART", "PLAIN", "SWITCHED", "TESTED_NUMBA", "WHOLE"]

TESTED_NUMBA = ("0.60", "0.61", "0.62", "0.63", "0.64", "0.65", "0.66", "0.67", "0.68")
"""Minor versions of Numba whose internals are known: tox has a lane for each."""


SWITCHED = "FASTCOLST_PLAIN_NUMBA is set"
"""What :data:`PLAIN` says where somebody wants it so, and need not be warned."""


def _why_plain() -> str:
    if os.environ.get("FASTCOLST_PLAIN_NUMBA", "0") not in {"", "0"}:
        return SWITCHED
    minor = ".".join(numba.__version__.split(".")[:2])
    return "" if minor in TESTED_NUMBA else f"Numba {minor} is none that fastcolst was tested with"


PLAIN = _why_plain()
"""Why Numba's internals are not used, and kernels compile more slowly and are not cached; "" where they are used."""

# Every flag is explicit: one left out would be inherited from whichever caller is compiled first. No "nnan" and no
# "ninf": kernels look for them. No "reassoc": it lets two specialisations of one formula round differently, and the
# loops run over arms, where it gains nothing. Where one kernel alone sums over a history, `summation` has it.
FLAGS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nsz"},
    "boundscheck": False,  # NUMBA_BOUNDSCHECK=1 overrides
    "parallel": False,
    "forceinline": False,
}

EXACT: dict[str, Any] = {**FLAGS, "fastmath": False, "forceinline": True}
"""Those of functions whose every operation rounds as it is written, which gives the same bits on every machine."""

INLINED = frozenset({"cdf", "pdf", "score", "curvature", "perturb"})
"""Generic functions that kernels call once for each comparison of a history, or for each arm."""

PART: dict[str, Any] = {}
"""Options for a function that is only ever linked into others."""

WHOLE: dict[str, Any] = {}
"""Options for a function that Python calls."""

if not PLAIN:
    from fastcolst._compile.parts import KernelCompiler, PartCompiler

    PART.update(pipeline_class=PartCompiler, no_cfunc_wrapper=True, no_cpython_wrapper=True)
    WHOLE.update(pipeline_class=KernelCompiler, no_cfunc_wrapper=True)
