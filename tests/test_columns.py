"""Named features: a policy keeps the columns of data frames in one order, and refuses what it cannot place."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from inside import snapshot

import fastcolst as fc

NAMES = ["price", "size", "age"]


def frame(rows: Any, kind: str, names: list[Any] = NAMES) -> Any:
    """Rows as a data frame with named columns."""
    table = pd.DataFrame(np.asarray(rows), columns=names)
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(table.to_dict("list"))
    return pytest.importorskip("pyarrow").Table.from_pandas(table) if kind == "pyarrow" else table


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_columns_in_another_order_are_put_right(kind: str) -> None:
    rng = np.random.default_rng(0)
    named, plain = (fc.CoLSTIM(3, ridge=1.0, exploration_rounds=2, estimator="sgd", rng=1) for _ in range(2))
    assert named.feature_names is None
    for k in range(30):
        rows = rng.normal(size=(4, 3))
        turned = rng.permutation(3) if k else np.arange(3)  # the first frame decides
        duel = named.select(frame(rows[:, turned], kind, [NAMES[i] for i in turned]))
        expected = plain.select(rows)
        assert (duel.first, duel.second) == (expected.first, expected.second)
        assert duel.contrast.tobytes() == expected.contrast.tobytes()
        won = bool(rng.random() < 0.5)
        named.update(duel, won)
        plain.update(expected, won)
    rows, order = rng.normal(size=(2, 5, 3)), [2, 0, 1]
    turned_rows = [frame(part[:, order], kind, [NAMES[i] for i in order]) for part in rows]
    np.testing.assert_array_equal(named.utilities(turned_rows[0]), plain.utilities(rows[0]))
    np.testing.assert_array_equal(named.widths(turned_rows[0]), plain.widths(rows[0]))
    np.testing.assert_array_equal(named.probability(*turned_rows), plain.probability(*rows))
    named.learn(*turned_rows)
    plain.learn(*rows)
    wins = [True, False, True, True, False]
    np.testing.assert_array_equal(named.learn_and_predict(turned_rows[0], wins), plain.learn_and_predict(rows[0], wins))
    np.testing.assert_array_equal(named.theta, plain.theta)
    assert named.feature_names == tuple(NAMES) == pickle.loads(pickle.dumps(named)).feature_names


def test_a_row_of_a_data_frame_has_its_names_too() -> None:
    policy = fc.CoLSTIM(3, estimator="sgd", rng=1)
    table = frame([[1.0, 2.0, 3.0], [0.0, 1.0, 5.0]], "pandas")
    policy.learn(table, table * 0.5)
    turned = table[["age", "price", "size"]]
    expected = policy.probability([1.0, 2.0, 3.0], [0.0, 1.0, 5.0])
    assert policy.probability(table.iloc[0], table.iloc[1]) == expected
    assert policy.probability(turned.iloc[0], table.iloc[1]) == expected


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["price", "size", "weight"], "contexts lacks 'age' and has also 'weight'; this policy's features are 'price'"),
        (["price", "size", "age", "weight"], "contexts has also 'weight'"),
        (["price", "size"], "contexts lacks 'age'"),
        (["price", "size", "size"], "contexts has the column 'size' twice"),
        ([0, 1, 2], "contexts lacks 'price', 'size', 'age' and has also 0, 1, 2"),
    ],
)
def test_missing_and_unknown_columns_are_refused(names: list[Any], told: str) -> None:
    policy = fc.CoLSTIM(3, estimator="sgd", rng=1)
    policy.select(frame(np.eye(3), "pandas"))
    before = snapshot(policy)
    for call in (policy.select, policy.utilities, policy.widths):
        with pytest.raises(ValueError, match=told):
            call(frame(np.ones((3, len(names))), "pandas", names))
    assert snapshot(policy) == before
    policy.utilities(np.eye(3))  # an array has no names


def test_unnamed_columns_of_pandas_are_told_apart_by_their_numbers() -> None:
    policy = fc.CoLSTIM(3, estimator="sgd", rng=1)
    rows = np.random.default_rng(0).normal(size=(3, 3))
    policy.learn(pd.DataFrame(rows), pd.DataFrame(rows[::-1]))
    turned = pd.DataFrame(rows)[[2, 0, 1]]
    np.testing.assert_array_equal(policy.utilities(turned), policy.utilities(rows))


def test_names_are_not_taken_from_a_call_that_failed() -> None:
    policy = fc.CoLSTIM(3, estimator="sgd", rng=1)
    table = frame(np.eye(3), "pandas")
    with pytest.raises(ValueError, match="winners has shape"):
        policy.learn(table, table.iloc[:2])
    with pytest.raises(ValueError, match="contexts"):
        policy.select(table * np.nan)
    assert policy.feature_names is None
    policy.utilities(table)
    assert policy.feature_names == tuple(NAMES)


def test_names_that_come_late_are_told_once() -> None:
    policy = fc.CoLSTIM(3, estimator="sgd", rng=1)
    policy.learn(np.eye(3), np.zeros((3, 3)))
    with pytest.warns(UserWarning, match="earlier ones had no names: price, size, age are taken for the features"):
        policy.utilities(frame(np.eye(3), "pandas"))
    policy.utilities(frame(np.eye(3), "pandas"))  # a second warning would be an error here
    by_place = fc.CoLSTIM(3, estimator="sgd", rng=1)
    by_place.learn(np.eye(3), np.zeros((3, 3)))
    by_place.utilities(pd.DataFrame(np.eye(3)))  # labelled 0, 1, 2


def test_rows_in_a_list_must_agree_on_their_order() -> None:
    policy = fc.CoLSTIM(3, estimator="sgd", rng=1)
    table = frame([[1.0, 2.0, 3.0], [0.0, 1.0, 5.0]], "pandas")
    policy.select([table.iloc[0], table.iloc[1]])
    assert policy.feature_names == tuple(NAMES)
    with pytest.raises(ValueError, match=r"contexts\[1\] has its features in another order than contexts\[0\]"):
        policy.select([table.iloc[0], table[["size", "age", "price"]].iloc[1]])


def test_coordinates_of_xarray_are_no_names() -> None:
    xarray = pytest.importorskip("xarray")
    policy = fc.CoLSTIM(3, estimator="sgd", rng=1)
    policy.select(xarray.DataArray(np.eye(3), dims=("index", "feature"), coords={"index": [0, 1, 2]}))
    assert policy.feature_names is None
