"""Features of arms that only their index tells apart: what they span, what their columns are called."""

from __future__ import annotations

import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from conftest import rounds
from hypothesis import given

import fastcolst as fc

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(3)


@given(st.integers(2, 12))
def test_contrasts_are_orthonormal_sum_to_0_and_set_an_arm_against_those_before(n_arms):
    x = fc.arm_features(n_arms, [1.0], intercept=False)
    assert x.shape == (n_arms, n_arms - 1)
    np.testing.assert_allclose(x.T @ x, np.eye(n_arms - 1), atol=1e-14)
    np.testing.assert_allclose(x.sum(axis=0), 0.0, atol=1e-14)
    for k in range(1, n_arms):
        assert np.ptp(x[:k, k - 1]) == 0.0 and x[k, k - 1] > 0.0 and not x[k + 1 :, k - 1].any()


def test_a_round_is_a_row_of_the_whole_and_every_arm_has_a_linear_function_of_its_own():
    contexts = RNG.normal(size=(9, 3))
    x = fc.arm_features(4, contexts)
    assert x.shape == (9, 4, 12) and x.flags.c_contiguous
    np.testing.assert_array_equal(fc.arm_features(4, contexts[5]), x[5])
    slopes = RNG.normal(size=(4, 4))
    wanted = np.hstack([np.ones((9, 1)), contexts]) @ slopes.T
    differences = (x - x[:, :1]).reshape(36, -1)
    theta, *_ = np.linalg.lstsq(differences, (wanted - wanted[:, :1]).ravel(), rcond=None)
    np.testing.assert_allclose(differences @ theta, (wanted - wanted[:, :1]).ravel(), atol=1e-12)


def test_the_default_policy_explores_to_the_end_with_them_and_for_ever_with_one_hot_arms():
    def after(features, n_rounds):
        policy = fc.CoLSTIM(features.shape[2], n_arms=3, estimator="sgd", rng=1)
        for x in features[:n_rounds]:
            policy.update(policy.select(x), True)
        return policy

    contexts = RNG.normal(size=(rounds(100, 60), 1))
    assert after(fc.arm_features(3, contexts), 60).status != "exploring"
    one_hot = np.einsum("ik,rj->rikj", np.eye(3), np.hstack([np.ones_like(contexts), contexts]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert after(one_hot.reshape(len(contexts), 3, -1), 60).status == "exploring"
    assert len(caught) == 1 and "contrasts span 4 of 6 dimensions" in str(caught[0].message)


def test_columns_are_called_after_the_arm_and_the_feature():
    frame = pd.DataFrame(RNG.normal(size=(5, 2)), columns=["length", "age"], index=list("abcde"))
    one = fc.arm_features(3, frame.loc["c"])
    assert list(one.columns) == ["arm1", "arm1:length", "arm1:age", "arm2", "arm2:length", "arm2:age"]
    contrasts = fc.arm_features(3, [1.0], intercept=False)
    np.testing.assert_array_equal(one["arm2"], contrasts[:, 1])
    np.testing.assert_array_equal(one["arm2:age"], contrasts[:, 1] * frame.loc["c", "age"])
    many = fc.arm_features(3, frame)
    pd.testing.assert_frame_equal(many.loc["c"], one)
    np.testing.assert_array_equal(many.to_numpy().reshape(5, 3, -1), fc.arm_features(3, frame.to_numpy()))
    assert list(fc.arm_features(2, frame, intercept=False).columns) == ["arm1:length", "arm1:age"]
    policy = fc.CoLSTIM(6, ridge=1.0, rng=1)
    policy.select(one)
    assert policy.feature_names == tuple(one.columns)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, [1.0]), "n_arms is 1; a whole number of at least 2 is wanted"),
        ((3, [[[1.0]]]), r"context_features has shape \(1, 1, 1\); \(d,\) or \(m, d\) is wanted"),
        ((3, 1.0), r"context_features .*\(d,\) or \(m, d\) is wanted"),
        ((3, [1.0, np.nan]), r"context_features\[1\] is nan"),
        ((3, []), r"context_features has shape \(0,\); it must not be empty"),
        ((10**7, [1.0]), "n_arms is 10000000; that takes"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        fc.arm_features(*arguments)
