"""Contrasts that are kept as places."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastcolst as fc
from fastcolst.data import IndexedContrasts, Log, read_log


@st.composite
def contrasts(draw):
    """Contrasts of some blocks and perhaps of numbers, and the same written out entry by entry."""
    m = draw(st.integers(1, 8))
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    places = [[[draw(st.integers(-1, size - 1)) for size in sizes] for _ in range(m)] for _ in range(2)]
    k = draw(st.integers(0, 2))
    others = np.arange(float(m * k)).reshape(m, k) if k else None
    dense = np.zeros((m, sum(sizes) + k))
    for row in range(m):
        for sign, side in ((1.0, places[0]), (-1.0, places[1])):
            for block, place in enumerate(side[row]):
                if place >= 0:
                    dense[row, sum(sizes[:block]) + place] += sign
        if others is not None:
            dense[row, sum(sizes) :] = others[row]
    return IndexedContrasts(np.array(places[0]), np.array(places[1]), sizes, others), dense


@given(contrasts())
def test_they_read_as_the_array_that_they_stand_for(pair):
    indexed, dense = pair
    assert indexed.shape == dense.shape and len(indexed) == len(dense)
    assert (indexed.ndim, indexed.dtype) == (2, np.float64)
    np.testing.assert_array_equal(np.asarray(indexed), dense)
    np.testing.assert_array_equal(indexed[1:3], dense[1:3])
    np.testing.assert_array_equal(indexed[-1], dense[-1])
    np.testing.assert_array_equal(indexed[:, 0], dense[:, 0])
    mask = np.arange(len(dense)) % 2 == 0
    np.testing.assert_array_equal(indexed[mask], dense[mask])
    np.testing.assert_allclose(indexed.mean_squares(), np.mean(dense**2, axis=0), rtol=1e-14)
    sparse = indexed.tocsr()
    np.testing.assert_array_equal(sparse.toarray(), dense)
    assert sparse.nnz == np.count_nonzero(dense)
    np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(indexed))), dense)


@pytest.mark.parametrize(
    ("first", "second", "sizes", "others", "message"),
    [
        ([0, 1], [1, 0], (2,), None, r"first is \[0, 1\]; whole numbers of shape \(m, 1\)"),
        ([[0.0]], [[1]], (2,), None, "first is .*; whole numbers"),
        ([[0]], [[2]], (2,), None, r"second has places up to 2; -1 or places below \(2,\)"),
        ([[-2]], [[0]], (2,), None, "first has places"),
        ([[0], [1]], [[1]], (2,), None, "as many rows are wanted"),
        ([[0]], [[1]], (2,), [[1.0], [2.0]], "as many rows are wanted"),
        ([[0]], [[1]], (2,), [[np.nan]], r"others\[0, 0\] is nan"),
        (np.empty((0, 1), int), np.empty((0, 1), int), (2,), None, "as many rows are wanted"),
    ],
)
def test_places_that_fit_nothing_are_refused(first, second, sizes, others, message):
    with pytest.raises(ValueError, match=message):
        IndexedContrasts(first, second, sizes, others)


def test_an_array_of_them_is_always_a_copy():
    indexed = IndexedContrasts(np.array([[0]]), np.array([[1]]), (2,))
    assert np.asarray(indexed, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        indexed.__array__(copy=False)
    with pytest.raises(ValueError, match="read-only"):
        indexed.first[0, 0] = 1


def test_many_battles_take_no_memory_of_all_their_contrasts():
    """100,000 battles of 300 models were 240 MB written out; a replay writes out a block at a time."""
    rng = np.random.default_rng(1)
    m, n = 100_000, 300
    names = np.array([f"model {k:03d}" for k in range(n)])
    first, second = rng.integers(n, size=m), rng.integers(n - 1, size=m)
    second += second >= first
    frame = pd.DataFrame(
        {"a": pd.Categorical(names[first]), "b": pd.Categorical(names[second]), "y": rng.integers(2, size=m)}
    )

    class Forgetful:
        theta = np.zeros(n)

        def learn_and_predict(self, contrasts, wins):
            assert contrasts.shape[1] == n and np.abs(contrasts).sum() == 2 * len(contrasts)
            return np.full(len(contrasts), 0.5)

    tracemalloc.start()
    try:
        log = read_log(frame, items=["a", "b"])
        fc.replay(Forgetful(), log).summary()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert log.contrasts.shape == (m, n) and peak < 40e6


def test_a_log_of_places_is_learned_as_one_of_numbers():
    rng = np.random.default_rng(3)
    first = rng.integers(5, size=(200, 1))
    indexed = IndexedContrasts(first, (first + 1 + rng.integers(4, size=(200, 1))) % 5, (5,))
    wins = rng.random(200) < 0.6
    logs = [Log.from_arrays(form, wins) for form in (indexed, np.asarray(indexed))]
    places, numbers = (fc.replay(fc.CoLSTIM(5, estimator=fc.SGD(0.1)), log) for log in logs)
    assert places.probabilities.tolist() == numbers.probabilities.tolist()
    assert places.theta.tolist() == numbers.theta.tolist()
    np.testing.assert_allclose(logs[0].sizes(), logs[1].sizes(), rtol=1e-14)
