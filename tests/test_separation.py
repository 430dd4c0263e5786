"""Directions of recession: what is found is one, whatever a search begins with."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy import optimize, sparse, special
from twins import OURS, Cauchy

import fastcolst as fc
from fastcolst.estimation.history import History
from fastcolst.estimation.separation import receding_subspace, recession_from

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


def test_answers_that_a_direction_moves_little_are_told_from_those_that_none_moves():
    signed = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0], [0.0, 0.0, -1.0, 0.0]])
    history, scales = History.of(signed, np.ones(4)), np.array([1.0, 1.0, 2.0, 0.0])
    gram = (signed / [1.0, 1.0, 2.0, 1.0]).T @ (signed / [1.0, 1.0, 2.0, 1.0])
    stays, leaves = receding_subspace(history, scales, np.array([1e12, 1.0, 0.3, 0.0]), gram)
    assert stays.shape == (4, 1) and leaves.shape == (4, 2)
    np.testing.assert_array_equal(stays[[0, 1, 3]], 0.0)
    np.testing.assert_array_equal(leaves[2:], 0.0)
    assert receding_subspace(history, scales, np.array([-1.0, -1.0, 0.3, 0.0]), gram)[1].shape == (4, 0)


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


# --- fits ---------------------------------------------------------------------------------------------------


def receding_axes(signed):
    """By linear programs: an orthonormal basis (d, s) of the directions along which the likelihood grows for ever."""
    n, d = signed.shape
    cost = np.concatenate([np.zeros(d), -np.ones(n)])  # as many margins as can be 1 at once
    limits = np.hstack([-signed, np.eye(n)])
    found = optimize.linprog(cost, A_ub=limits, b_ub=np.zeros(n), bounds=[(None, None)] * d + [(0.0, 1.0)] * n)
    seen = [
        np.linalg.svd(rows)[2][np.linalg.matrix_rank(rows, 1e-9) :].T for rows in (signed[found.x[d:] < 0.5], signed)
    ]
    known = seen[0] - seen[1] @ (seen[1].T @ seen[0])
    return np.linalg.svd(known)[0][:, : seen[0].shape[1] - seen[1].shape[1]]


APART = np.array([[1, -0.98, 0], [-1, 1, 0], [0, 0, 1], [0, 0, -1], [0, 0, 1]])
NARROW = {
    "apart": APART,
    "coupled": [[1, -0.98, 0.5], [-1, 1, 0.9], [-2, 2.01, 0.4], [0, 0, 1], [0, 0, -1], [0, 0, 1]],
    "of one direction": [[-0.3, 0.2], [0.9, -0.6], [0.8, -0.6]],
    "of deficient rank": [[1, -0.98, 0, 1], [-1, 1, 0, -1], [0, 0, 1, 0], [0, 0, -1, 0], [0, 0, 1, 0]],
    "rotated": APART @ [[1, 2, 2], [2, 1, -2], [2, -2, 1]],
}
"""Won contrasts with margins so narrow that on the ball of "auto" even those that become certain tell something."""


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("model", [*OURS, Cauchy()], ids=repr)
@pytest.mark.parametrize("name", NARROW)
def test_on_a_ball_too_short_for_certainty_what_others_tell_is_told(name, model, is_sparse):
    contrasts = np.array(NARROW[name], float)
    away = receding_axes(contrasts)
    with pytest.warns(UserWarning, match="status 'separated'"):
        found = fc.fit(
            sparse.csr_matrix(contrasts) if is_sparse else contrasts, np.ones(len(contrasts)), comparison=model
        )
    assert found.status == "separated"
    is_away = np.abs(away).max(axis=1) > 1e-9
    assert np.all(np.isinf(found.standard_errors[is_away]))
    if name != "of deficient rank":
        assert np.all(np.isfinite(found.standard_errors[~is_away]))
    if name == "coupled" and isinstance(model, fc.BradleyTerry):
        p = special.expit(found.theta[2] / model.scale)  # the information of the last three alone
        assert found.standard_errors[2] == pytest.approx(model.scale / math.sqrt(3.0 * p * (1.0 - p)), rel=1e-6)


def test_errors_are_infinite_where_linear_programs_say_so():
    """Of random separated answers with narrow margins: never elsewhere, and there if the status is "separated"."""
    n_separated = n_told = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(2, 5))
        signed = np.round(rng.normal(size=(int(rng.integers(d, 4 * d)), d)), 1)
        signed[: d + 1] = np.round(signed[:1] * rng.choice([-1.0, 1.0], (min(d + 1, len(signed)), 1)), 1) + np.round(
            0.02 * rng.normal(size=(min(d + 1, len(signed)), d)), 2
        )
        if np.linalg.matrix_rank(signed) < d or not are_separated(signed):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = fc.fit(signed, np.ones(len(signed)))
        n_separated += 1
        is_away = np.abs(receding_axes(signed)).max(axis=1) > 1e-7
        is_infinite = np.isinf(found.standard_errors)
        assert not np.any(is_infinite & ~is_away)
        assert found.status in ("separated", "boundary")
        assert is_infinite.any() == (found.status == "separated")
        n_told += np.array_equal(is_infinite, is_away)
    assert n_separated > 30 and n_told >= 0.95 * n_separated
