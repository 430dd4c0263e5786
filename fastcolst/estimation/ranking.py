"""Items in order: ratings, intervals that hold at once, quasi-variances, ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst._files import optional_import
from fastcolst._words import align, brief
from fastcolst.estimation.identification import Knowledge
from fastcolst.plotting.rankings import ranking_figure

__all__ = ["Ranking", "quasi_errors", "quasi_variances", "ranking_of", "sidak"]

Array = NDArray[np.float64]

MOST_STEPS = 200
"""Of Gauss and Newton, which take about five: the last has been halved out of sight by then."""


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """Items, best first.

    Attributes
    ----------
    items : n texts
    ratings : (n,) float64
        Utilities in the scale that was asked for; nan where comparisons do not tell them.
    standard_errors : (n,) float64
        Of the differences from the anchor, or else from the mean; inf where there is no finite estimate.
    intervals : (n, 2) float64
        They all hold at once with the probability ``level``, at least.
    quasi_standard_errors : (n,) float64
        See :attr:`Fit.quasi_standard_errors`, in the same scale.
    ranks : (n, 2) int64
        The best and the worst rank that an item can have, by the differences that are certain: with the probability
        ``level``, at least, no true rank is outside.
    level : float
    """

    items: tuple[str, ...]
    ratings: Array
    standard_errors: Array
    intervals: Array
    quasi_standard_errors: Array
    ranks: NDArray[np.int64]
    level: float

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Ranking({len(self)} items, best first: {brief(self.items)})"

    def __str__(self) -> str:
        positive = self.standard_errors[np.isfinite(self.standard_errors) & (self.standard_errors > 0.0)]
        digits = max(0, 1 - math.floor(math.log10(positive.min()))) if positive.size else 3  # two of the smallest error
        head = ["item", "rating", "standard error", f"{100 * self.level:g} % intervals", "quasi s.e.", "rank"]
        rows = [
            [
                name,
                f"{rating:.{digits}f}",
                f"{error:.{digits}f}",
                f"{low:.{digits}f} to {high:.{digits}f}",
                f"{quasi:.{digits}f}",
                f"{best}-{worst}" if worst > best else f"{best}",
            ]
            for name, rating, error, (low, high), quasi, (best, worst) in zip(
                self.items,
                self.ratings,
                self.standard_errors,
                self.intervals,
                self.quasi_standard_errors,
                self.ranks,
                strict=True,
            )
        ]
        return "\n".join(align([head, *rows]))

    def plot(self, ax: Any = None) -> Any:
        """Draw the ratings with their intervals, best at the top, into axes of matplotlib or a new figure."""
        return ranking_figure(self, ax)

    def to_pandas(self) -> Any:
        """The columns as a data frame by item: rating, standard_error, low, high, quasi_standard_error, ranks."""
        pandas = optional_import("pandas", "to_pandas")
        columns = {
            "rating": self.ratings,
            "standard_error": self.standard_errors,
            "low": self.intervals[:, 0],
            "high": self.intervals[:, 1],
            "quasi_standard_error": self.quasi_standard_errors,
            "best_rank": self.ranks[:, 0],
            "worst_rank": self.ranks[:, 1],
        }
        return pandas.DataFrame(columns, index=pandas.Index(self.items, name="item"))


def ranking_of(
    names: list[str],
    theta: Array,
    knowledge: Knowledge,
    scale: float,
    anchor: tuple[int, float] | None,
    level: float,
) -> Ranking:
    """Rank items with utilities theta (n,); an anchor is the number of an item, and its rating."""
    n = len(names)
    groups = knowledge.groups()
    centre = np.zeros(n)
    if anchor is None:
        centre[groups[0]] = 1.0 / len(groups[0])
    else:
        centre[anchor[0]] = 1.0
    contrasts = np.eye(n) - centre
    told = knowledge.is_identified(contrasts)
    ratings = np.where(told, scale * (contrasts @ theta) + (0.0 if anchor is None else anchor[1]), math.nan)
    errors = scale * np.sqrt(knowledge.variances(contrasts))
    if anchor is not None:
        errors[anchor[0]] = 0.0
    at_once = sidak(level, int(np.count_nonzero(np.isfinite(errors) & (errors > 0.0))))
    with np.errstate(invalid="ignore"):
        widths = np.where(errors > 0.0, at_once * errors, 0.0)
        intervals = np.column_stack([ratings - widths, ratings + widths])
    intervals[np.isinf(errors)] = -math.inf, math.inf
    ranks = _ranks(theta, knowledge, groups, level)
    order = np.lexsort((-np.nan_to_num(ratings), np.isnan(ratings)))
    return Ranking(
        tuple(names[k] for k in order),
        ratings[order],
        errors[order],
        intervals[order],
        scale * quasi_errors(knowledge)[order],
        ranks[order],
        level,
    )


def quasi_errors(knowledge: Knowledge) -> Array:
    """Roots of the quasi-variances of items, (n,), in each group with finite differences; inf for one alone."""
    variances = np.full(len(knowledge.units), math.inf)
    for group in knowledge.groups():
        if len(group) > 1:
            variances[group] = quasi_variances(knowledge.covariance[np.ix_(group, group)])
    with np.errstate(invalid="ignore"):
        errors: Array = np.sqrt(variances)
    return errors


def quasi_variances(covariance: Array) -> Array:
    """The q with q_i + q_j nearest the variance of a difference for all pairs, (n,): their logarithms are compared.

    q minimises sum_{i < j} (log (q_i + q_j) - log v_ij)^2, v_ij = C_ii + C_jj - 2 C_ij, by steps of Gauss and Newton
    from the least squares of q_i + q_j - v_ij, halved where a sum would not be positive or the error would grow. Of two
    items each has half. Of three the q are exact; one may be negative. nan where a difference has no error at all, as
    without comparisons in a sandwich with a ridge.

    References
    ----------
    Firth, de Menezes (2004), Quasi-variances, Biometrika 91, 65-80, section 3.
    """
    n = len(covariance)
    diagonal = np.diag(covariance)
    v = diagonal[:, None] + diagonal - 2.0 * covariance
    if n == 2:
        return np.full(2, v[0, 1] / 2.0)
    off = ~np.eye(n, dtype=bool)
    if not np.all(v[off] > 0.0):
        return np.full(n, math.nan)
    unit = float(np.exp(np.mean(np.log(v[off]))))
    v = np.where(off, v / unit, 1.0)
    totals = np.where(off, v, 0.0).sum(axis=1)
    q = (totals - totals.sum() / (2.0 * (n - 1))) / (n - 2)
    if np.any((q[:, None] + q)[off] <= 0.0):
        q = np.full(n, 0.5)

    def error(q: Array) -> float:
        sums = q[:, None] + q
        if np.any(sums[off] <= 0.0):
            return math.inf
        residuals = np.log(np.where(off, sums, 1.0)) - np.log(v)
        return float(np.sum(residuals**2))

    best = error(q)
    for _ in range(MOST_STEPS):
        sums = np.where(off, q[:, None] + q, 1.0)
        slopes = np.where(off, 1.0 / sums, 0.0)
        residuals = np.log(sums) - np.log(v)
        normal = slopes**2
        step = -np.linalg.solve(normal + np.diag(normal.sum(axis=1)), (slopes * residuals).sum(axis=1))
        while error(q + step) > best and np.abs(step).max() > 1e-14:
            step /= 2.0
        q, best = q + step, error(q + step)
        if np.abs(step).max() <= 1e-12:
            break
    found: Array = unit * q
    return found


def _ranks(theta: Array, knowledge: Knowledge, groups: list[list[int]], level: float) -> NDArray[np.int64]:
    """The best and the worst rank of each item that certain differences leave open, (n, 2)."""
    n = len(theta)
    n_pairs = sum(len(group) * (len(group) - 1) // 2 for group in groups)
    at_once = sidak(level, n_pairs)
    ranks = np.empty((n, 2), np.int64)
    ranks[:] = 1, n
    for group in groups:
        covariance = knowledge.covariance[np.ix_(group, group)]
        diagonal = np.diag(covariance)
        errors = np.sqrt(np.maximum(diagonal[:, None] + diagonal - 2.0 * covariance, 0.0))
        better = theta[group][:, None] - theta[group] > at_once * errors
        ranks[group, 0] += better.sum(axis=0)
        ranks[group, 1] -= better.sum(axis=1)
    return ranks


def sidak(level: float, n: int) -> float:
    """z with P(|N_1|, ..., |N_n| <= z) >= level for normal numbers however correlated (Sidak, 1967)."""
    from scipy.special import ndtri

    miss = -math.expm1(math.log(level) / max(n, 1))  # 1 - level^(1/n)
    return float(-ndtri(miss / 2.0))
