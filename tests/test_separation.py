"""Directions of recession: what is found is one, whatever a search begins with."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from fastcolst.estimation.history import History
from fastcolst.estimation.separation import recession_from, unmoved

pytestmark = pytest.mark.either_lane


def leads(signed, start):
    signed = np.array(signed, float)
    history = History.of(signed, np.ones(len(signed)))
    return recession_from(history, np.abs(signed).max(axis=0), np.array(start, float)) is not None


def are_separated(signed):
    """By a linear program: whether along some direction of theta some margins grow and none shrinks."""
    found = optimize.linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(signed)), bounds=(-1.0, 1.0))
    return found.fun < -1e-9


def test_answers_that_contradict_a_projection_join_those_that_contradicted_the_vector():
    """Against (1, 2, 1/2) is the third answer alone, but what it does not see of that contradicts the second."""
    answers = [[1, 0, 0], [-1, 1, 0], [0, -1, 0], [0, 0, 1]]
    assert leads(answers, [1, 2, 0.5])
    assert not leads(answers[:3], [1, 2, 0.5])  # which no direction but 0 explains
    assert leads(answers, [1, 2, -0.5]) is False  # the wrong way


def test_answers_that_no_direction_moves_are_told_from_those_that_one_moves_little():
    signed = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, -1.0]])
    history = History.of(signed, np.ones(4))
    gram = unmoved(history, np.array([1.0, 1.0, 2.0]), np.array([1e12, 1.0, 0.3]))
    np.testing.assert_array_equal(gram, np.diag([0.0, 0.0, 1.25]))


def test_what_a_projection_leaves_by_rounding_is_no_direction():
    """Of designs whose rank is one less than d: along what they do not know every margin is rounding."""
    n_separated = 0
    for seed in [331, 3959, *range(200)]:  # of the first two all margins are 0 or above
        rng = np.random.default_rng(seed)
        d = int(rng.integers(3, 7))
        n = int(rng.integers(d, 4 * d))
        basis = rng.normal(size=(d, d - 1))
        signed, start = np.round(rng.normal(size=(n, d - 1)), 1) @ basis.T, rng.normal(size=d)
        separated = are_separated(signed)
        assert separated or not leads(signed, start)
        n_separated += separated
    assert 20 < n_separated < 180
