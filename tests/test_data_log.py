"""Logs of comparisons that are in memory."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from fastcolst.data import Log


def test_a_log_is_a_read_only_copy():
    contrasts, wins = np.float32([[1, 2], [3, 4]]), [1, 0]
    log = Log.from_arrays(contrasts, wins)
    contrasts[0, 0] = 9.0
    assert log.contrasts.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert log.wins.dtype == np.bool_
    assert log.features == ("z[0]", "z[1]")
    assert (log.rows, log.selected, log.draws, log.missing, log.unknown) == (2, 2, 0, 0, 0)
    with pytest.raises(ValueError, match="read-only"):
        log.contrasts[0, 0] = 1.0
    again = pickle.loads(pickle.dumps(log))
    assert again.counts == log.counts


@pytest.mark.parametrize(
    ("contrasts", "wins", "features", "message"),
    [
        ([1.0, 2.0], [1, 0], None, r"contrasts has shape \(2,\)"),
        (np.ones((0, 2)), [], None, r"contrasts has shape \(0, 2\)"),
        (np.ones((2, 0)), [1, 0], None, r"contrasts has shape \(2, 0\)"),
        ([[1.0, np.nan]], [1], None, r"contrasts\[0, 1\] is nan; every feature must be finite"),
        ([["1"]], [1], None, "contrasts is not an array of real numbers: it holds texts"),
        ([[1.0]], [1, 0], None, r"wins has shape \(2,\); \(1,\) is wanted"),
        ([[1.0]], [1.5], None, r"wins\[0\] is 1.5; True, False or a number from 0 to 1 is wanted"),
        ([[1.0]], [np.nan], None, r"wins\[0\] is nan"),
        ([[1.0]], ["yes"], None, "wins is not an array of real numbers: it holds texts"),
        ([[1.0]], [1], ["a", "b"], "features has 2 names; contrasts has 1 columns"),
    ],
)
def test_arrays_that_are_no_log_are_refused(contrasts, wins, features, message):
    with pytest.raises(ValueError, match=message):
        Log.from_arrays(contrasts, wins, features=features)


def test_counts_of_a_log_have_to_add_up():
    fields = {"contrasts": [[1.0]], "wins": [1], "features": ["z"], "rows": 3, "draws_in_file": 1}
    assert len(Log(**fields, selected=2, draws=1, missing=0, unknown=0)) == 1
    with pytest.raises(ValueError, match="do not add up"):
        Log(**fields, selected=3, draws=1, missing=0, unknown=0)


def test_a_log_keeps_shares_and_weights():
    log = Log.from_arrays(np.ones((3, 1)), [1, 0.5, 0.25], weights=[1, 2, 0.5])
    assert log.wins.tolist() == [1.0, 0.5, 0.25] and log.weights.tolist() == [1.0, 2.0, 0.5]
    assert not log.wins.flags.writeable and not log.weights.flags.writeable
    assert Log.from_arrays(np.ones((2, 1)), [1.0, 0.0]).wins.dtype == np.bool_
    for weights, message in ([[1.0], r"weights has shape \(1,\)"], [[1.0, 0.0], r"weights\[1\] is 0.0; a positive"]):
        with pytest.raises(ValueError, match=message):
            Log.from_arrays(np.ones((2, 1)), [1, 0], weights=weights)


@pytest.mark.parametrize(
    ("wins", "expected"), [([1, 1], True), ([0, 0, 0], True), ([1, 0], False), ([0.5, 0.5], False), ([1, 0.5], False)]
)
def test_a_log_is_one_sided_where_the_same_side_always_won(wins, expected):
    assert Log.from_arrays(np.ones((len(wins), 1)), wins).is_one_sided is expected


def test_sizes_of_features_are_roots_of_mean_squares_whatever_their_units():
    contrasts = np.array([[3.0, 0.0, 3e160], [4.0, 0.0, 4e160]])
    np.testing.assert_allclose(Log.from_arrays(contrasts, [1, 0]).sizes(), np.sqrt(12.5) * np.array([1.0, 0.0, 1e160]))


def test_items_are_the_first_features():
    fields = {
        "contrasts": [[1.0, 2.0]],
        "wins": [1],
        "features": ["x", "z"],
        "rows": 1,
        "draws_in_file": 0,
        "selected": 1,
    }
    left_out = {"draws": 0, "missing": 0, "unknown": 0}
    assert Log(**fields, **left_out, items=["x"]).items == ("x",)
    with pytest.raises(ValueError, match=r"items is \('z',\); the names of the first features are wanted"):
        Log(**fields, **left_out, items=["z"])
