"""Warnings that point at the line of whoever called, however deep in the package they arise."""

from __future__ import annotations

import sys
import warnings

from fastcolst._compile import PACKAGE

__all__ = ["warn_caller"]


def warn_caller(message: str) -> None:
    """Warn with a UserWarning at the innermost line that is not the package's own."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)
