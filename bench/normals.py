"""Normal variates and points in the ball, a thousand million of them: are they what they should be?

    python bench/normals.py 1000000000

Prints p-values of chi-square tests: of the variates in cells of width 1/256, of the two of a pair in 64 x 64 cells, of
|x|^d of points in the ball, which is uniform. Then, in standard errors, the moments up to the eighth and sums of
products, of values and of squares: with neighbours at lags 1 to 8, and with the variates of another stream. A p-value
below 1e-6, or more than 5.2 standard errors, ends it with an error.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from scipy import stats

from fastcolst._compile import kernel
from fastcolst.kernels.ball import fill_ball, scratch_of_ball
from fastcolst.kernels.splitmix import fill_normal, word

BLOCK, LAGS, D, N = 100_000, 8, 10, 50
REACH, FINE, COARSE = 9, 256, 8
"""Cells lie in [-REACH, REACH), FINE or COARSE of them in a unit; the coarse ones beyond 4 count as the last."""
ALARM, MOST_ERRORS = 1e-6, 5.2
MOMENTS = {k: math.prod(range(1, k, 2)) if k % 2 == 0 else 0 for k in range(17)}


@kernel
def count(values: Any, cells: Any, pairs: Any) -> None:
    """Count variates into cells, and the two of each pair."""
    half = values.size // 2
    for i in range(values.size):
        cells[int((values[i] + REACH) * FINE)] += 1
    for i in range(half):
        one, other = min(max(values[i], -3.99), 3.99), min(max(values[half + i], -3.99), 3.99)
        pairs[int((one + 4.0) * COARSE), int((other + 4.0) * COARSE)] += 1


@kernel
def add_powers(values: Any, sums: Any) -> None:
    """Add up z, z^2, ... z^8."""
    for k in range(8):
        total = 0.0
        for i in range(values.size):
            power = values[i]
            for _ in range(k):
                power *= values[i]
            total += power
        sums[k] += total


@kernel
def add_products(ones: Any, others: Any, sums: Any) -> None:
    """Add up products of values and of squares less 1."""
    total, of_squares = 0.0, 0.0
    for i in range(ones.size):
        x, y = ones[i], others[i]
        total += x * y
        of_squares += (x * x - 1.0) * (y * y - 1.0)
    sums[0] += total
    sums[1] += of_squares


@kernel
def fill_both(first: Any, second: Any, values: Any, others: Any) -> tuple[Any, Any]:
    """The next variates of two streams, and where these stand now."""
    return fill_normal(np.uint64(first), values), fill_normal(np.uint64(second), others)


@kernel
def count_radii(key: Any, n_rounds: int, scratch: Any, points: Any, counts: Any) -> None:
    """Count |x|^d of points in the ball."""
    state = np.uint64(key)
    for _ in range(n_rounds):
        state = word(state)
        fill_ball(state, scratch[0], scratch[1], scratch[2], points)
        for i in range(points.shape[1]):
            square = 0.0
            for k in range(points.shape[0]):
                square += points[k, i] * points[k, i]
            counts[int(square ** (points.shape[0] / 2) * counts.size)] += 1


def chi_square(counts: Any, probabilities: Any) -> float:
    """The p-value; cells that expect fewer than ten count as one."""
    expected = counts.sum() * probabilities
    few = expected < 10
    counts, expected = (np.append(table[~few], table[few].sum()) for table in (counts, expected))
    told = expected > 0
    return float(stats.chisquare(counts[told], expected[told] * (counts.sum() / expected.sum())).pvalue)


def main(n: int) -> None:
    n_blocks = max(n // BLOCK, 1)
    cells, pairs = np.zeros(2 * REACH * FINE, np.int64), np.zeros((64, 64), np.int64)
    powers, products = np.zeros(8), np.zeros((LAGS + 1, 2))
    values, others, states = np.empty(BLOCK), np.empty(BLOCK), (np.uint64(20261129), np.uint64(20261130))
    for _ in range(n_blocks):
        states = fill_both(np.uint64(states[0]), np.uint64(states[1]), values, others)
        count(values, cells, pairs)
        add_powers(values, powers)
        add_products(values, others, products[0])
        for lag in range(1, LAGS + 1):
            add_products(values[lag:], values[:-lag], products[lag])
    radii, points = np.zeros(4096, np.int64), np.empty((D, N))
    count_radii(np.uint64(20261129), max(n // (D * N), 1), scratch_of_ball(N, D), points, radii)

    coarse = np.diff(stats.norm.cdf(np.append(np.insert(np.arange(-31, 32) / COARSE, 0, -np.inf), np.inf)))
    p_values = {
        "cells": chi_square(cells, np.diff(stats.norm.cdf(np.arange(-REACH * FINE, REACH * FINE + 1) / FINE))),
        "pairs": chi_square(pairs.ravel(), np.outer(coarse, coarse).ravel()),
        "radii": chi_square(radii, np.full(4096, 1 / 4096)),
    }
    total = n_blocks * BLOCK
    errors = {
        f"moment {k}": (powers[k - 1] / total - MOMENTS[k]) / math.sqrt((MOMENTS[2 * k] - MOMENTS[k] ** 2) / total)
        for k in range(1, 9)
    }
    for lag, (of_values, of_squares) in enumerate(products):
        deviation, name = math.sqrt(n_blocks * (BLOCK - lag)), f"lag {lag}" if lag else "another stream"
        errors |= {name: of_values / deviation, f"{name}, squares": of_squares / (2.0 * deviation)}
    print(f"{total:,} normal variates, {int(radii.sum()):,} points in {D} dimensions")
    for name, p in p_values.items():
        print(f"{name}: p = {p:.3g}")
    for name, error in errors.items():
        print(f"{name}: {error:+.2f} standard errors")
    if min(p_values.values()) < ALARM or max(map(abs, errors.values())) > MOST_ERRORS:
        raise SystemExit("these are not what they should be")


if __name__ == "__main__":
    main(int(sys.argv[1]))
