"""What of theta finished comparisons determine, and the covariance of what they do.

Probabilities depend on theta by the margins z'theta alone. Where the contrasts do not span all directions, as in plain
ratings of items, whose level no comparison tells, theta is determined up to the rest, and a linear function c'theta is
where c lies in their span: differences of items are. Of the equally good estimates the shortest has the pseudo-inverse
of the information for its covariance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._blas import eigh

__all__ = ["Knowledge", "knowledge_of", "known_directions", "shortest"]

RANK_TOLERANCE = 1e-14
"""Times d: below this share of the largest, an eigenvalue of the features' Gram matrix is rounding error."""

LOOSE = 1e-6
"""Share of a contrast along undetermined directions from which on it is undetermined itself."""

Array = NDArray[np.float64]


class Knowledge(NamedTuple):
    """Which directions are determined, in units (d,) in which features have the size 1.

    unknown (d, r), orthonormal: those of which no comparison tells. runaway (d, s): those along which the likelihood
    grows for ever. covariance (d, d): of the estimate, in the units of theta, with nothing along either.
    """

    units: Array
    unknown: Array
    runaway: Array
    covariance: Array

    def part(self, places: list[int]) -> Knowledge:
        """What is known of some features, for contrasts among them."""
        covariance = self.covariance[np.ix_(places, places)]
        return Knowledge(self.units[places], self.unknown[places], self.runaway[places], covariance)

    def is_identified(self, contrasts: Array) -> NDArray[np.bool_]:
        """Whether comparisons tell c'theta, for contrasts c (m, d); a contrast of zeros is told."""
        return self._misses(contrasts, self.unknown)

    def is_finite(self, contrasts: Array) -> NDArray[np.bool_]:
        """Whether c'theta is identified and has a finite estimate."""
        return self._misses(contrasts, self.unknown) & self._misses(contrasts, self.runaway)

    def _misses(self, contrasts: Array, directions: Array) -> NDArray[np.bool_]:
        scaled = contrasts / self.units
        along = np.abs(scaled @ directions).max(axis=1, initial=0.0)
        missed: NDArray[np.bool_] = along <= LOOSE * np.linalg.norm(scaled, axis=1)
        return missed

    def variances(self, contrasts: Array) -> Array:
        """Variances of c'theta for contrasts c (m, d), inf where it is not determined."""
        variances = np.maximum(np.einsum("ij,jk,ik->i", contrasts, self.covariance, contrasts, optimize=True), 0.0)
        return np.where(self.is_finite(contrasts), variances, math.inf)

    def directions(self) -> Array:
        """Orthonormal directions in which theta can move without any probability changing, (d, r); sums >= 0."""
        if self.unknown.shape[1] == 0:
            return np.zeros(self.unknown.shape)
        basis: Array = np.linalg.qr(self.unknown / self.units[:, None])[0]
        return np.where(basis.sum(axis=0) < 0.0, -basis, basis) + 0.0  # and no zero is negative

    def groups(self) -> list[list[int]]:
        """Features among which all differences are determined, the largest group first. O(d^2) for few groups."""
        groups: list[list[int]] = []
        left = np.arange(len(self.units))
        axes = np.eye(len(self.units))
        while left.size > 0:
            same = self.is_finite(axes[left] - axes[left[0]])
            groups.append(left[same].tolist())
            left = left[~same]
        return sorted(groups, key=lambda group: -len(group))

    def open_covariance(self) -> Array:
        """The covariance, with inf for variances, and nan for covariances, of features of which nothing is known.

        A feature of which something is known has the covariance of the shortest estimate.
        """
        blank = np.linalg.norm(self.unknown, axis=1) >= math.sqrt(1.0 - LOOSE**2)
        loose = np.any(np.abs(self.runaway) > LOOSE, axis=1) | blank
        covariance = self.covariance.copy()
        covariance[loose] = math.nan
        covariance[:, loose] = math.nan
        covariance[loose, loose] = math.inf
        return covariance


def known_directions(gram: Array) -> tuple[Array, Array]:
    """Bases of what a Gram matrix G knows and of what it does not, (d, r) and (d, d - r).

    The first has B'GB = I, the second is orthonormal.
    """
    values, vectors = eigh(gram)
    firm = values > RANK_TOLERANCE * len(values) * values[-1]
    return vectors[:, firm] / np.sqrt(values[firm]), vectors[:, ~firm]


def knowledge_of(
    inverse: Array, runaway: Array, variance: Array, unknown: Array, units: Array, metric: Array
) -> Knowledge:
    """What is known of an estimate, from its information and the variance of its score, both in the features' units.

    Parameters
    ----------
    inverse : (d, d) float64
        The generalised inverse of the information, with nothing along ``runaway`` and ``unknown``.
    runaway : (d, s) float64
        Along which the likelihood grows for ever.
    variance : (d, d) float64
    unknown : (d, r) float64
        Of which no comparison tells.
    units, metric : (d,) float64
        The features' units, and what :func:`shortest` measures theta by.
    """
    sandwich = inverse @ variance @ inverse
    sandwich = (sandwich + sandwich.T) / 2.0 / np.outer(units, units)
    if unknown.shape[1] > 0:
        loose = unknown / units[:, None]
        sandwich = shortest(shortest(sandwich, loose, metric).T, loose, metric)
        runaway = shortest(runaway / units[:, None], loose, metric) * units[:, None]
    return Knowledge(units, unknown, runaway / np.linalg.norm(runaway, axis=0), sandwich)


def shortest(vectors: Array, unknown: Array, metric: Array) -> Array:
    """Vectors (d,) or (d, k) without their part along unknown directions (d, r): shortest, by the metric (d,)."""
    if unknown.shape[1] == 0:
        return vectors
    weights = metric if vectors.ndim == 1 else metric[:, None]
    lengths = np.linalg.lstsq(metric[:, None] * unknown, weights * vectors, rcond=None)[0]
    part: Array = unknown @ lengths
    return vectors - part
