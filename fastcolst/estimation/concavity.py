"""Whether a comparison model's likelihood has one maximum, as those who look for it promise."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastcolst._checks import looked_at
from fastcolst.comparison import pdf, score
from fastcolst.estimation.protocol import is_refreshed
from fastcolst.estimation.words import ENGINES, name_of

__all__ = ["is_log_concave", "unkept_promise"]

MARGINS = np.arange(-120, 121) / 4.0
"""In units of 1/(4 F'(0)), the scale of a logistic F: where log F is looked at."""

SLACK = 1e-9
"""Share of the largest score by which one may grow: rounding, of quotients in the tails above all."""


def is_log_concave(model: Any) -> bool:
    """Whether log F is concave as far as can be seen: its derivative, the score f/F, never grows. O(1), Python.

    Where a method of somebody's own fails, so far out, nothing is seen.
    """
    at_zero = looked_at(lambda given: float(pdf(given, 0.0)), model, 0.0)
    unit = 0.25 / at_zero if 0.0 < at_zero < np.inf else 1.0
    with np.errstate(all="ignore"):
        scores = np.array([looked_at(lambda u: float(score(model, u)), unit * u, np.nan) for u in MARGINS.tolist()])
    growth = np.diff(scores[np.isfinite(scores)])
    return bool(np.all(growth <= SLACK * np.nanmax(scores, initial=0.0)))


def unkept_promise(estimator: Any, model: Any) -> str:
    """What there is to say of an estimator that keeps to a maximum where a model may have several, or nothing."""
    seeks_maximum = type(estimator) in ENGINES.values() and is_refreshed(estimator)  # unlike SGD
    if not seeks_maximum or is_log_concave(model):
        return ""
    return (
        f"log F of {model!r} is not concave, so that the likelihood may have several maxima: theta of "
        f"{name_of(estimator)} follows one of them, and may be off by tenths of a standard error instead of its "
        'tolerance. fc.fit finds it exactly, and estimator="sgd" promises no maximum'
    )
