"""How long a policy explores, and what there is to say about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastcolst._checks import brief, count, plain_text

__all__ = ["UNKNOWN", "exploration_of", "long_exploration", "rounds_left"]

UNKNOWN = 2**62
"""tau as long as the number of arms is not known."""

AT_MOST = 10
"""Comparisons for each feature after which ``"auto"`` ends in any case, once M is invertible.

Isotropic contexts take 4. Where rare features keep turning up, or all contexts are much alike, more random pairs are no
cure: from here on widths say where to look.
"""

LONG = 1000
"""Rounds of random pairs of which people should know."""


def exploration_of(value: Any, n_features: int, n_arms: int | None) -> tuple[int, int]:
    """tau, and how many comparisons in a row of known differences end the exploration sooner, 0 for none.

    Raises
    ------
    ValueError
        ``value``, the argument ``exploration_rounds``, is neither None nor "auto" nor a whole number of at least 0.
    """
    if value is None:
        return UNKNOWN if n_arms is None else n_features * n_arms, 0
    if isinstance(value, str):
        if plain_text(value) != "auto":
            raise ValueError(f"exploration_rounds is {brief(value)}; wanted None, 'auto' or a whole number")
        return UNKNOWN if n_arms is None else n_features * min(n_arms, AT_MOST), n_features
    return count("exploration_rounds", value, lowest=0), 0


def long_exploration(parameters: Mapping[str, Any], counters: Any) -> str:
    """What to warn of before an exploration whose length nobody gave, or nothing.

    Comparisons from a log count towards it. ``counters`` as in :data:`fastcolst.policies.state.COUNTERS`.
    """
    given, horizon = parameters["exploration_rounds"], parameters.get("horizon")
    tau = 2 * int(counters["enough"]) if given == "auto" else int(counters["exploration_rounds"])
    left = tau - int(counters["logged"])
    if given not in {None, "auto"} or tau == UNKNOWN or left <= min(LONG, LONG if horizon is None else horizon):
        return ""
    than = f"{LONG}" if left > LONG else f"the horizon of {horizon}"
    if given == "auto":
        return (
            f"the exploration is at least 2 n_features = {tau} rounds of random pairs, more than {than}; with a "
            "ridge, exploration_rounds=0 lets choices use the estimate from the first answer on"
        )
    return (
        f"the exploration is n_features * n_arms = {tau} rounds of random pairs, more than {than}; "
        "exploration_rounds='auto' ends it as soon as the Gram matrix is well conditioned, a number after so many"
    )


def rounds_left(counters: Any) -> int:
    """Rounds of random pairs that are left at most, while a policy explores; 0 where nobody knows."""
    tau = int(counters["exploration_rounds"])
    return 0 if tau == UNKNOWN else max(tau - int(counters["chosen"]) - int(counters["logged"]), 0)
