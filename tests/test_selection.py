"""Choosing arms: the argmaxes against NumPy, ties, equal arms, clipping, and the law of the random pair."""

import math

import numpy as np
import pytest
from conftest import rounds
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fastcolst import reference as ref
from fastcolst._compile import helper
from fastcolst.kernels.linalg import inverse_factor, utilities, whiten
from fastcolst.kernels.selection import (
    all_finite,
    all_rows_finite,
    argmax,
    optimistic_argmax,
    perturbed_argmax,
    random_pair,
)

LAST = 1.0 - 2.0**-53
"""The largest uniform a generator draws."""

seeds = st.integers(0, 2**32 - 1)
arms = st.integers(1, 20)
clips = st.sampled_from([0.0, 0.3, 2.0, math.inf])


def perturbed(values, squares, noise, clip):
    return perturbed_argmax(values, squares, noise, clip, np.full(len(values), np.nan))


class Arms:
    """Arms as kernels see them (`values`, `white`) and as the reference does (`rows`, `gram_inv`)."""

    def __init__(self, seed, n, d, equal=False):
        rng = np.random.default_rng(seed)
        contrasts = rng.standard_normal((3 * d, d))
        gram = contrasts.T @ contrasts
        self.theta = rng.standard_normal(d)
        self.rows = np.tile(rng.standard_normal(d), (n, 1)) if equal else rng.standard_normal((n, d))
        self.gram_inv = ref.inverse(gram)
        self.factor = inverse_factor(gram)
        self.values, self.white = self.seen_by_kernels(self.rows)

    def seen_by_kernels(self, rows):
        columns = np.ascontiguousarray(rows.T)
        values, white = np.empty(len(rows)), np.empty(columns.shape)
        utilities(self.theta, columns, values)
        whiten(self.factor, columns, white)
        return values, white

    def rival(self, first, scale, allow_first=True):
        """The rival and the optimistic values."""
        work = np.full(len(self.values), np.nan)
        return optimistic_argmax(self.values, self.white, first, scale, allow_first, work), work


# --- argmax -------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_argmax_takes_the_first_of_the_largest(values):
    assert argmax(np.array(values, dtype=float)) == values.index(max(values))


def test_argmax_of_infinities():
    assert argmax(np.array([-math.inf, -math.inf])) == 0
    assert argmax(np.array([-math.inf, 0.0, math.inf, math.inf])) == 2


# --- the first arm ------------------------------------------------------------------------------------------


@given(seeds, arms, clips)
def test_first_arm_maximises_the_perturbed_utility(seed, n, clip):
    rng = np.random.default_rng(seed)
    values, squares, noise = rng.standard_normal(n), rng.standard_exponential(n), 3.0 * rng.standard_normal(n)
    wanted = values + np.clip(noise, -clip, clip) * np.sqrt(squares)
    work = np.full(n, np.nan)
    assert perturbed_argmax(values, squares, noise, clip, work) == np.argmax(wanted)
    np.testing.assert_allclose(work, wanted, rtol=1e-14, atol=1e-14)


@given(seeds, arms, clips)
def test_first_arm_follows_a_permutation(seed, n, clip):
    rng = np.random.default_rng(seed)
    values, squares, noise = rng.standard_normal(n), rng.standard_exponential(n), 3.0 * rng.standard_normal(n)
    order = rng.permutation(n)
    permuted = perturbed(values[order], squares[order], noise[order], clip)
    assert order[permuted] == perturbed(values, squares, noise, clip)


@given(seeds, arms)
def test_clipping_at_zero_leaves_the_utilities(seed, n):
    rng = np.random.default_rng(seed)
    values, squares = rng.standard_normal(n), rng.standard_exponential(n)
    assert perturbed(values, squares, np.full(n, 1e300), 0.0) == np.argmax(values)


def test_clipping_bounds_the_noise_on_both_sides():
    values, squares = np.array([0.0, 0.0, 1.5]), np.array([1.0, 4.0, 0.0])
    assert perturbed(values, squares, np.array([9.0, 0.0, 0.0]), 1.0) == 2  # 1, 0, 1.5
    assert perturbed(values, squares, np.array([9.0, 0.0, 0.0]), math.inf) == 0  # 9, 0, 1.5
    assert perturbed(-values, squares, np.array([-9.0, -9.0, 0.0]), 0.5) == 0  # -0.5, -1, -1.5
    assert perturbed(-values, squares, np.array([-9.0, -9.0, 0.0]), math.inf) == 2  # -9, -18, -1.5


def test_first_arm_takes_the_lowest_index_of_a_tie():
    assert perturbed(np.zeros(9), np.ones(9), np.ones(9), 2.0) == 0
    assert perturbed(np.array([0.0, 1.0, 0.0]), np.zeros(3), np.array([5.0, 1.0, 5.0]), math.inf) == 1


# --- the second arm -----------------------------------------------------------------------------------------


@given(seeds, arms, st.integers(1, 8), st.floats(0.0, 5.0), st.booleans())
def test_second_arm_maximises_the_optimistic_advantage(seed, n, d, scale, allow_first):
    problem = Arms(seed, n, d)
    first = seed % n
    rows = problem.rows
    wanted = (rows - rows[first]) @ problem.theta + scale * ref.norms(rows - rows[first], problem.gram_inv)
    if not allow_first:
        wanted[first] = -math.inf
    rival, work = problem.rival(first, scale, allow_first)
    np.testing.assert_allclose(work, wanted, rtol=1e-8, atol=1e-8)
    assert wanted[rival] >= np.max(wanted) - 1e-8
    assert allow_first or n == 1 or rival != first


@given(seeds, arms, st.integers(1, 8), st.booleans())
def test_second_arm_follows_a_permutation(seed, n, d, allow_first):
    problem = Arms(seed, n, d)
    first, order = seed % n, np.random.default_rng(seed).permutation(n)
    rival, _ = problem.rival(first, 1.5, allow_first)
    problem.values, problem.white = problem.seen_by_kernels(problem.rows[order])
    permuted, _ = problem.rival(int(np.flatnonzero(order == first)[0]), 1.5, allow_first)
    assert order[permuted] == rival


@pytest.mark.parametrize("d", [1, 3, 4, 5, 10])
def test_equal_arms_are_at_distance_zero_exactly(d):
    """Whatever their place in the vectorised loops; a scale of 1e300 would show the smallest distance."""
    for n in range(1, rounds(40, 8)):
        problem = Arms(n, n, d, equal=True)
        for first in range(0, n, 3):
            rival, work = problem.rival(first, 1e300)
            assert not np.any(work)
            assert rival == 0


def test_distance_of_near_arms_keeps_its_digits():
    """Expanding the square would leave nothing of a distance of 1e-8."""
    problem = Arms(3, 2, 6)
    step = np.random.default_rng(8).standard_normal(6)
    problem.rows[1] = problem.rows[0] + 1e-8 * step
    problem.values, problem.white = problem.seen_by_kernels(problem.rows)
    problem.values[:] = 0.0
    _, work = problem.rival(0, 1.0)
    exact = ref.norms((problem.rows[1] - problem.rows[0])[None], problem.gram_inv)[0]
    assert work[1] == pytest.approx(exact, rel=1e-6)


def test_one_arm_is_its_own_rival():
    problem = Arms(1, 1, 4)
    for allow_first in (True, False):
        assert problem.rival(0, 2.0, allow_first)[0] == 0


def test_first_arm_competes_only_where_allowed():
    """Arm 1 is the best and nothing is uncertain: it is its own toughest rival, and arm 2 comes after it."""
    values, white = np.array([0.0, 3.0, 2.0]), np.zeros((2, 3))
    assert optimistic_argmax(values, white, 1, 1.0, True, np.empty(3)) == 1
    assert optimistic_argmax(values, white, 1, 1.0, False, np.empty(3)) == 2


def test_second_arm_takes_the_lowest_index_of_a_tie():
    assert optimistic_argmax(np.zeros(5), np.zeros((2, 5)), 3, 1.0, True, np.empty(5)) == 0
    assert optimistic_argmax(np.zeros(5), np.zeros((2, 5)), 0, 1.0, False, np.empty(5)) == 1


# --- the random pair ----------------------------------------------------------------------------------------


@helper
def count_pairs(uniforms, n_arms, out):
    for i in range(uniforms.shape[0]):
        first, second = random_pair(uniforms[i, 0], uniforms[i, 1], n_arms)
        out[first, second] += 1


@pytest.mark.parametrize("n_arms", [2, 3, 7])
def test_random_pair_is_uniform_over_ordered_pairs(n_arms):
    """Fixed seed; false-alarm rate 1e-6 each. A pair drawn 5 % too often gives p < 1e-7 for all three."""
    counts = np.zeros((n_arms, n_arms), dtype=np.int64)
    count_pairs(np.random.default_rng(40).random((rounds(2_000_000, 20_000), 2)), n_arms, counts)
    assert not np.any(np.diag(counts))
    assert chisquare(counts[~np.eye(n_arms, dtype=bool)]).pvalue > 1e-6


@pytest.mark.parametrize("n_arms", [*range(1, 70), 1000, 2**20 - 1, 2**20, 2**31 + 11])
def test_extreme_uniforms_give_arms_that_exist(n_arms):
    top = n_arms - 1
    below = max(top - 1, 0)
    assert random_pair(0.0, 0.0, n_arms) == (0, min(1, top))
    assert random_pair(0.0, LAST, n_arms) == (0, top)
    assert random_pair(LAST, 0.0, n_arms) == (top, 0)
    assert random_pair(LAST, LAST, n_arms) == (top, below)


uniforms_ = st.floats(0.0, LAST)


@given(uniforms_, uniforms_, st.integers(1, 60))
def test_random_pair_is_that_of_the_reference(first, second, n_arms):
    pair = random_pair(first, second, n_arms)
    assert pair == ref.distinct_pair(n_arms, np.array([first, second]))
    assert all(0 <= arm < n_arms for arm in pair)
    assert n_arms == 1 or pair[0] != pair[1]


# --- finite or not ------------------------------------------------------------------------------------------

FINITE = [0.0, -0.0, 5e-324, np.finfo(np.float64).max, -np.finfo(np.float64).max, 1e300]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_found_anywhere(bad):
    for n in range(1, 20):
        for place in range(n):
            values = np.resize(FINITE, n)
            values[place] = bad
            assert not all_finite(values)
            rows = np.resize(FINITE, (3, n))
            rows[place % 3, place] = bad
            assert not all_rows_finite(rows)


def test_huge_values_are_finite():
    for n in range(20):
        assert all_finite(np.resize(FINITE, n))
        assert all_rows_finite(np.resize(FINITE, (3, n)))
