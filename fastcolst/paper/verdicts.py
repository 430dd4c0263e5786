"""What a reproduction says of the paper's claims: verdict by verdict, and in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastcolst.paper.claims import (
    HOLDS,
    OPEN,
    REFUTED,
    Claim,
    Entry,
    Verdict,
    contextual_claims,
    cost_claims,
    estimator_claims,
    index_only_claims,
    judge,
    misspecification_claims,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fastcolst.paper.parts import Settings
    from fastcolst.paper.reproduction import Results

__all__ = ["PROJECTED", "by_what_decides", "outcome", "projected_verdicts", "verdicts"]

PROJECTED = "SGD(0.5), |theta| <= 1"


def verdicts(results: Results, horizon: int | None = None) -> list[Verdict]:
    """The paper's claims as far as data are there: those about regret judged as one family, then those about seconds.

    Parameters
    ----------
    results : Results
    horizon : int, optional
        Which runs of the first figure; None: the settings' own, with all other claims.
    """
    claims = [*contextual_claims(variant="SGD(0.5)"), *index_only_claims()]
    if horizon is not None:
        return judge(claims, {"regret": results.final_regret(horizon)})
    others = [*estimator_claims(), *misspecification_claims()]
    tables = _tables(results)
    return [*judge([*claims, *_projected_claims(), *others], tables), *judge(cost_claims(), tables)]


def projected_verdicts(results: Results) -> list[Verdict]:
    """Verdicts on the first figure with every step projected, as a family of their own."""
    return judge(_projected_claims(), _tables(results))


def _projected_claims() -> list[Claim]:
    return contextual_claims("CoLSTIM, projected", "MaxInP, projected", PROJECTED)


def _tables(results: Results) -> dict[str, dict[Entry, NDArray[np.float64]]]:
    seconds = {"choosing": results.choosing("choosing"), "fused": results.choosing("fused")}
    return {"regret": results.final_regret(results.settings.horizon), **seconds}


def by_what_decides(found: Sequence[Verdict]) -> tuple[list[Verdict], list[Verdict]]:
    """Verdicts that the seed repeats, and verdicts that the machine decides."""
    return [v for v in found if not v.claim.is_on_seconds], [v for v in found if v.claim.is_on_seconds]


def outcome(s: Settings, found: Sequence[Verdict]) -> list[str]:
    """What came out, in sentences; none where nothing was claimed."""
    on_regret, on_seconds = by_what_decides(found)
    printed = [v for v in on_regret if v.claim.variant != PROJECTED]
    projected = [v for v in on_regret if v.claim.variant == PROJECTED]
    lines = []
    if printed:
        lines.append(
            f"Of {len(printed)} claims about regret, {_counts(printed)} by {s.runs} runs of T = {s.horizon:,}. The "
            "paper states no horizon."
        )
    if projected:
        lines.append(
            f"Of {len(projected)} of them about figure 1, judged again with every step projected onto the unit "
            f"ball, {_counts(projected)}. The paper does not say whether it projects."
        )
    if on_seconds:
        lines.append(
            f"Of {len(on_seconds)} claims about seconds, {_counts(on_seconds)} on this machine by "
            f"{min(s.runs, s.timed_runs)} runs; another machine may decide otherwise."
        )
    if found and s.horizon <= s.n_arms * s.n_features:
        lines.append(
            f"T is no longer than the exploration, n d = {s.n_arms * s.n_features:,} rounds: all policies with "
            "contexts still play random pairs, so that nothing can be said of them."
        )
    return lines


def _counts(verdicts: Sequence[Verdict]) -> str:
    hold, fail, undecided = (sum(v.outcome == outcome for v in verdicts) for outcome in (HOLDS, REFUTED, OPEN))
    return (
        f"{hold} {'holds' if hold == 1 else 'hold'}, {fail} {'does' if fail == 1 else 'do'} not hold and "
        f"{undecided} {'is' if undecided == 1 else 'are'} not decided"
    )
