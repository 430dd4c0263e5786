"""How far theta moved since the last pass, and how far it is from the maximum by that."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastcolst._compile import helper
from fastcolst.estimation.evidence import (
    ANCHOR,
    BEND,
    BEST_KNOWN,
    CURRENT,
    DRIFT,
    KAPPA,
    LAG,
    LEVERAGE,
    MU,
    N_LEARNED,
    OFFSET,
    PULL,
    RESIDUAL,
    REST,
    RETURNED,
    RIGHT,
    SCALES,
    SQUARES,
    TINY,
    UNIT,
    WALKED,
    WARM,
)
from fastcolst.kernels.linalg import squared_gram_norm, whiten_contrast

__all__ = ["Drift", "drift", "has_turned", "is_inexact", "predicted_error"]

MOST_RETURNED = 0.05
"""RETURNED over WALKED up to which what was learned holds. It is half the history's growth while comparisons are alike,
and grows much faster where they tell of directions that were little known at the last pass."""
WHOLE_PASS_FEATURES = 16
"""Up to so many features every pass rebuilds the information, which then costs little more than the gradient."""
LARGEST_THIRD = 0.1
"""The largest third derivative of the logistic loss, 0.096; half of it is the error, over sqrt(w) = 1/2."""
FEW = 30
"""Comparisons, as large as a feature's largest, whose third derivatives may all have the same sign."""
RARE_SHARE = 0.25
"""While theta follows the bend a feature is rare when fewer than this share of BEST_KNOWN tell of it."""
LOST_DIGITS = 1e-10
"""A sum that is so small beside its terms has lost so many digits that it is computed anew."""


class Drift(NamedTuple):
    """How theta moved since the last pass, by Delta = theta - anchor.

    errors: its length in standard errors, |Delta|_H, on the boundary with the multiplier's part. reach: its length in
    units of the margins, with the way from where the information was built to the anchor, the two taken for orthogonal.
    concentration: the sum of the squared shares that the features' H_kk Delta_k^2 have in their sum, 1/d for equal
    shares and 1 for a single feature. rare: the error of the gradient that features make of which few comparisons tell,
    in standard errors. lag: that which the multiplier makes that the factor does not know, in standard errors.
    """

    errors: float
    reach: float
    concentration: float
    rare: float
    lag: float


@helper
def farthest_margin(evidence: Any, errors: float) -> float:
    """How far a step of so many standard errors moves margins, |z'p| <= sqrt(z'(H + mu D^2)^-1 z) errors. O(1).

    The root is that of the largest leverage that a comparison had when it came, shrunk as information grows since.
    """
    leverage = evidence.numbers[LEVERAGE]
    return float(np.sqrt(leverage / evidence.codes[N_LEARNED]) * errors) if leverage > 0.0 else np.inf


@helper
def drift(evidence: Any) -> Drift:
    """How theta moved since the last pass. O(d), and O(d^2) on the boundary or where digits were lost.

    Kappa is learned from all features together, but the third derivatives of a feature of which few comparisons tell do
    not cancel as theirs do. Its gradient is off by up to 0.05 sum |z_k|^3 Delta_k^2, which is
    0.1 max |z_k| Delta_k^2 sqrt(sum z_k^2) in standard errors while curvatures are near 1/4. Of more than 30
    comparisons the signs differ, and the error stays what it is for 30. Where theta follows the bend features are much
    alike, and only those count of which much fewer comparisons tell than of another.

    The Delta_k of features that are nearly the same are large and cancel in every margin: neither the reach nor a
    z_k Delta_k counts for more than the :func:`farthest_margin`, unless the feature is a rare one, which the
    comparisons that told of this need not have had.

    Overwrites ``vectors[PULL]`` and ``vectors[RIGHT]``.
    """
    theta, vectors, numbers = evidence.theta, evidence.vectors, evidence.numbers
    moved, work, scales, squares = vectors[PULL], vectors[RIGHT], vectors[SCALES], vectors[SQUARES]
    square, terms, reach, total, concentration, rare = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(theta.size):
        moved[k] = theta[k] - vectors[ANCHOR, k]
        term = moved[k] * vectors[DRIFT, k]
        square += term
        terms += np.abs(term)
        reach += (scales[k] * moved[k]) ** 2
        share = evidence.information[k, k] * moved[k] * moved[k]
        total += share
        concentration += share * share
    # on the sphere theta takes a way that DRIFT knows nothing of
    if numbers[MU] > 0.0 or square < LOST_DIGITS * terms:
        for k in range(theta.size):
            work[k] = moved[k]
        square = squared_gram_norm(evidence.factor, work)
    few = RARE_SHARE * numbers[BEST_KNOWN]
    farthest = farthest_margin(evidence, np.sqrt(square))
    reach = min(reach, farthest * farthest)
    for k in range(theta.size):
        scale = scales[k] * scales[k]
        is_rare = squares[k] < few * scale
        if scale > 0.0 and (is_rare or numbers[BEND] == 0.0):
            way = scale * moved[k] * moved[k]
            if not is_rare:
                way = min(way, farthest * farthest)
            rare += min(squares[k] / scale, FEW) * way * way
    unit = numbers[UNIT]
    return Drift(
        float(np.sqrt(square)),
        float(unit * np.sqrt(reach + numbers[OFFSET] ** 2)),
        float(concentration / max(TINY, total * total)),
        float(LARGEST_THIRD * unit * unit * np.sqrt(rare)),
        float(np.sqrt(whiten_contrast(evidence.factor, vectors[LAG], work))) if numbers[MU] > 0.0 else 0.0,
    )


@helper
def has_turned(numbers: Any) -> bool:
    """Whether comparisons since the last pass are unlike those before, so that what was learned does not hold. O(1)."""
    return bool(numbers[RETURNED] > MOST_RETURNED * numbers[WALKED])


@helper
def predicted_error(evidence: Any, moved: Any) -> float:
    """Distance from the maximum in standard errors, as predicted from the :func:`drift`, with a margin. O(1).

    It is margin (residual + max(kappa errors reach, rare)); a pass is made when this exceeds the tolerance. Where theta
    follows the bend kappa is that of the rest, but at least its own by the concentration: a drift in one feature may
    have an error of another form. On the boundary the lag comes on top. Nothing is predicted, and the error infinite,
    when comparisons since the last pass are unlike those before.

    The margin, 1.5 + 1/d, is larger for few features: there one drift is a poorer guide to the next. Where passes leave
    the information out it is 1.5 + 13/d.
    """
    numbers, d = evidence.numbers, evidence.theta.size
    if has_turned(numbers):
        return float(np.inf)
    kappa = numbers[KAPPA]
    if numbers[BEND] != 0.0:
        kappa = max(numbers[REST], moved.concentration * kappa)
    total = numbers[RESIDUAL] + max(kappa * moved.errors * moved.reach, moved.rare) + moved.lag
    margin = 1.5 + (1.0 if d <= WHOLE_PASS_FEATURES else 13.0) / d
    return float(total * margin)


@helper
def is_inexact(evidence: Any, tolerance: float) -> bool:
    """Whether theta may be further from the maximum than the tolerance. O(d), and scratch, see :func:`drift`."""
    codes = evidence.codes
    if codes[CURRENT] == codes[N_LEARNED]:
        return False
    return codes[WARM] == 0 or not predicted_error(evidence, drift(evidence)) <= tolerance
