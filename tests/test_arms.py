"""Arms as people have them: keys, arms that are not available now, and several duels at once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import rounds
from inside import snapshot, state_of
from twins import LINEAR, SAMPLERS, STAGED

import fastcolst as fc
from fastcolst.policies import informing

ROWS = np.random.default_rng(0).normal(size=(5, 3))
FEATURES = ["price", "size", "age"]
SEEING = {name: ours for name, (ours, _) in {**LINEAR, **STAGED}.items()}
POLICIES: dict[str, Any] = {**SEEING, **{name: ours for name, (ours, _) in SAMPLERS.items()}, "Random": fc.UniformPairs}


def a_policy(name: str, **options: Any) -> Any:
    """A policy of that name, whose exploration is over where it has one."""
    if name in SEEING:
        options = {"horizon": 500, "estimator": "sgd", "ridge": 1.0, "exploration_rounds": 0, **options}
    return POLICIES[name](3, rng=1, **options)


def play(policy: Any, n: int, **options: Any) -> list[Any]:
    """Duels of so many rounds, answered at once."""
    rng, duels = np.random.default_rng(3), []
    for _ in range(n):
        duels.append(policy.select(ROWS, **options))
        if not duels[-1].is_self:
            policy.update(duels[-1], bool(rng.random() < 0.5))
    return duels


# --- keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [["a", "b", "c", "d", "e"], np.array([10, 20, 30, 40, 50]), pd.Series(list("vwxyz"))])
def test_keys_name_the_arms(keys: Any) -> None:
    policy = a_policy("CoLSTIM")
    listed = list(keys)
    for _ in range(10):
        duel = policy.select(ROWS, keys=keys)
        assert (duel.first_key, duel.second_key) == (listed[duel.first], listed[duel.second])
        assert type(duel.first_key) in (str, int)
        assert fc.Duel.from_json(duel.to_json()).first_key == duel.first_key
    (waiting, *_) = policy.pending_duels()
    assert waiting.keys == tuple(listed[arm] for arm in waiting.arms)
    plain = policy.select(ROWS)
    assert plain.first_key is plain.second_key is None


def test_an_index_names_the_arms_unless_it_counts_the_rows() -> None:
    table = pd.DataFrame(ROWS, columns=FEATURES)
    named, two = table.set_axis(list("abcde")), table.set_axis(pd.MultiIndex.from_product([["x"], range(5)]))
    policy = a_policy("CoLSTIM")
    for frame, expected in (
        (table, [None] * 5),
        (named, list("abcde")),
        (two, [("x", i) for i in range(5)]),
        (table.iloc[[3, 1, 0, 4, 2]], [3, 1, 0, 4, 2]),
        (pd.concat([table, table])[3:8], [3, 4, 0, 1, 2]),
        (pd.concat([table, table], ignore_index=True)[5:], [5, 6, 7, 8, 9]),
    ):
        duel = policy.select(frame)
        assert (duel.first_key, duel.second_key) == (expected[duel.first], expected[duel.second])
    duel = policy.select(named, keys=range(100, 105))
    assert (duel.first_key, duel.second_key) == (100 + duel.first, 100 + duel.second)


def test_a_dict_of_vectors_names_the_arms() -> None:
    one, other = a_policy("CoLSTIM"), a_policy("CoLSTIM")
    arms = dict(zip("vwxyz", ROWS.tolist(), strict=True))
    for _ in range(10):
        duel, plain = one.select(arms), other.select(ROWS)
        assert (duel.first, duel.second) == (plain.first, plain.second)
        assert (duel.first_key, duel.second_key) == ("vwxyz"[duel.first], "vwxyz"[duel.second])
    series = {key: pd.Series(row, FEATURES) for key, row in arms.items()}
    assert one.select(series).first_key in arms and one.feature_names == tuple(FEATURES)


def test_what_a_policy_believes_of_a_dict_of_vectors_is_that_of_its_rows() -> None:
    policy = fc.TwoSamples(len(FEATURES), rng=1)
    policy.learn(ROWS[:2], ROWS[2:4])
    for believes in (policy.utilities, policy.widths, policy.expected_misordered):
        for arms in (dict(zip("vwxyz", ROWS.tolist(), strict=True)), dict(enumerate(ROWS))):
            assert np.array_equal(believes(arms), believes(ROWS))
        with pytest.raises(ValueError, match=r"contexts has shape \(3,\); .*wanted"):
            believes(dict.fromkeys(FEATURES, 1.0))
    named = {key: pd.Series(row, FEATURES)[::-1] for key, row in zip("vwxyz", ROWS, strict=True)}
    policy = fc.TwoSamples(len(FEATURES), rng=1)
    policy.learn(*(pd.DataFrame(rows, columns=FEATURES) for rows in (ROWS[:2], ROWS[2:4])))
    assert np.array_equal(policy.utilities(named), policy.utilities(ROWS))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["a", "b"], r"keys has 2 entries and contexts has 5 arms; .*wanted"),
        ("abcde", r"keys is 'abcde'; a sequence of keys.* is wanted"),
        (set("abcde"), r"keys is .*; a sequence of keys.* is wanted"),
        (dict.fromkeys("abcde"), r"keys is .*; a sequence of keys.* is wanted"),
        (7, r"keys is 7; a sequence of keys.* is wanted"),
        (["a", "b", [1], "d", "e"], r"keys\[2\] is \[1\], which cannot be hashed; .*wanted"),
        (["a", "b", "c", "b", "e"], r"keys\[3\] is 'b' as keys\[1\] is; .*wanted"),
        (["a", float("nan"), "c", float("nan"), "e"], r"keys\[1\] is nan, which does not equal itself; .*wanted"),
        (["a", "b", "c", "d", pd.NA], r"keys\[4\] is <NA>, which does not equal itself; .*wanted"),
    ],
)
def test_what_are_no_keys_is_refused(keys: Any, message: str) -> None:
    policy = a_policy("CoLSTIM")
    before = snapshot(policy)
    with pytest.raises(ValueError, match=message):
        policy.select(ROWS, keys=keys)
    with pytest.raises(ValueError, match=r"keys is given and contexts is a dict.*wanted"):
        policy.select(dict(zip("vwxyz", ROWS, strict=True)), keys=list("abcde"))
    with pytest.raises(ValueError, match=r"list\(contexts\)\[1\] is nan, which does not equal itself; .*wanted"):
        policy.select(dict(zip(["v", float("nan"), *"xyz"], ROWS, strict=True)))
    assert snapshot(policy) == before


def test_an_index_that_names_two_arms_alike_is_refused_as_keys_are() -> None:
    policy = a_policy("CoLSTIM")
    frame = pd.DataFrame(ROWS, list("abcbe"), FEATURES)
    before = snapshot(policy)
    message = (
        r"contexts\.index\[3\] is 'b' as contexts\.index\[1\] is; a key of its own is wanted for each \(contexts\."
    )
    for call in (
        lambda: policy.select(frame),
        lambda: policy.select_batch(frame, size=2),
        lambda: policy.select_batch([frame]),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert snapshot(policy) == before
    assert policy.select(frame, keys=list("vwxyz")).first_key in set("vwxyz")
    assert policy.select(frame.reset_index(drop=True)).first_key is None


# --- which arms are available -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_available_arms_alone_are_shown_by_their_rows_of_all(name: str) -> None:
    policy, learned = a_policy(name), a_policy(name)
    masks = np.random.default_rng(2).random((rounds(300, 60), 5)) < 0.5
    masks[masks.sum(axis=1) < 2] = True
    rng, shown = np.random.default_rng(3), np.zeros(5, int)
    for mask in masks:
        duel = policy.select(ROWS, available=mask.tolist(), keys=list("abcde"))
        assert mask[duel.first] and mask[duel.second]
        assert (duel.first_key, duel.second_key) == ("abcde"[duel.first], "abcde"[duel.second])
        np.testing.assert_array_equal(duel.contrast, ROWS[duel.first] - ROWS[duel.second])
        shown[[duel.first, duel.second]] += 1
        won = bool(rng.random() < 0.5)
        if not duel.is_self:
            policy.update(duel, won)
            if name in SEEING:
                winner, loser = (duel.first, duel.second) if won else (duel.second, duel.first)
                learned.learn(ROWS[[winner]], ROWS[[loser]])
    assert policy.round == len(masks) and shown.min() > 0
    if name in LINEAR:
        np.testing.assert_array_equal(policy.gram, learned.gram)
    if name in SAMPLERS:
        counted = state_of(policy).wins if name == "DoubleThompson" else state_of(policy).laws[:2]
        assert counted.sum() > 0


@pytest.mark.parametrize("name", POLICIES)
def test_all_available_is_none_given(name: str) -> None:
    one, other = a_policy(name), a_policy(name)
    given, plain = play(one, 30, available=[True] * 5), play(other, 30)
    assert [(d.first, d.second) for d in given] == [(d.first, d.second) for d in plain]


@pytest.mark.parametrize("name", SEEING)
def test_some_available_are_a_smaller_pool(name: str) -> None:
    """The exploration is the whole pool's."""
    one, other = a_policy(name, exploration_rounds=None), a_policy(name, exploration_rounds=None)
    mask = np.array([True, False, True, True, False])
    rows = np.flatnonzero(mask)
    first = one.select(ROWS)
    other.select(ROWS)
    assert state_of(one).counters["exploration_rounds"] == 15 and first.round == 1
    for _ in range(20):
        duel, plain = one.select(ROWS, available=mask), other.select(ROWS[mask])
        assert (duel.first, duel.second) == (rows[plain.first], rows[plain.second])
    assert (one.status == "exploring") is (other.status == "exploring") is False


def test_a_state_of_ones_own_says_what_available_takes() -> None:
    class Own(fc.SelfSparring):
        def _settle(self, n_arms: int, n_features: int) -> Any:
            before = super()._settle(n_arms, n_features)
            self._state = fc.extend.BlindState(self._state.counters)
            return before

    with pytest.raises(TypeError, match=r"BlindState lacks the method only; one is wanted"):
        Own(rng=1).select(ROWS, available=[True, True, False, False, True])


def test_answers_to_some_of_the_arms_are_counted_for_these() -> None:
    for name in SAMPLERS:
        policy = a_policy(name)
        for _ in range(rounds(200, 40)):
            duel = policy.select(ROWS, available=[False, True, False, True, True])
            if not duel.is_self:
                policy.update(duel, duel.first > duel.second)
        if name == "DoubleThompson":
            wins = state_of(policy).wins
            assert not wins[[0, 2]].any() and not wins[:, [0, 2]].any()
            assert np.all(np.triu(wins) == 0.0) and wins.sum() > 0
        else:
            laws = state_of(policy).laws[:2]
            assert not laws[:, [0, 2]].any() and laws[0, 1] == laws[1, 4] == 0.0 and laws.sum() > 0


@pytest.mark.parametrize("name", ["CoLSTIM", "SupCoLSTIM"])
def test_one_available_arm_and_no_self_duels_is_an_error_that_changes_nothing(name: str) -> None:
    policy = a_policy(name, allow_self_duel=False)
    mask = [False, False, True, False, False]
    for settled in (False, True):
        before = snapshot(policy)
        with pytest.raises(ValueError, match=r"available has 1 arm; at least two are wanted"):
            policy.select(ROWS, available=mask)
        assert snapshot(policy) == before
        if not settled:
            policy.select(ROWS)
    alone = a_policy(name)
    duel = alone.select(ROWS, available=mask)
    assert (duel.first, duel.second) == (2, 2)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([True, False], r"available has shape \(2,\); True or False for each of the 5 arms is wanted"),
        ([[True] * 5], r"available has shape \(1, 5\); .*wanted"),
        ([0, 2], r"available is \[0, 2\], of int64; True or False for each of the 5 arms is wanted"),
        ([1.0, 0.0, 1.0, 1.0, 0.0], r"available is .*, of float64; .*wanted"),
        ([False] * 5, r"available has no arm; at least one True is wanted"),
        ([True, None, True, True, True], r"available is .*wanted"),
        (True, r"available has shape \(\).*wanted"),
    ],
)
def test_what_is_no_mask_is_refused(mask: Any, message: str) -> None:
    policy = a_policy("CoLSTIM")
    before = snapshot(policy)
    with pytest.raises(ValueError, match=message):
        policy.select(ROWS, available=mask)
    assert snapshot(policy) == before


def test_a_mask_with_an_index_must_have_the_frames() -> None:
    frame = pd.DataFrame(ROWS, list("abcde"), FEATURES)
    policy = a_policy("CoLSTIM")
    mask = frame["price"] > frame["price"].median()
    duel = policy.select(frame, available=mask)
    assert mask[duel.first_key] and mask[duel.second_key]
    with pytest.raises(ValueError, match=r"available has another index than contexts; .*wanted"):
        policy.select(frame, available=mask.sort_values())
    assert policy.select(frame, available=mask.astype(object)).first_key != frame["price"].idxmin()


LABELLED: dict[str, tuple[Any, Any]] = {
    "a dict": (dict(zip("abcde", ROWS, strict=True)), None),
    "keys": (ROWS, list("abcde")),
    "an index and keys": (pd.DataFrame(ROWS), list("abcde")),
    "a frame": (pd.DataFrame(ROWS, list("abcde")), None),
    "tuples": (ROWS, [("x", key) for key in "abcde"]),
    "numbers": (ROWS, [3, 1, 0, 4, 2]),
}


@pytest.mark.parametrize("name", LABELLED)
def test_a_mask_is_never_taken_by_place_where_its_index_says_another(name: str) -> None:
    contexts, keys = LABELLED[name]
    policy = a_policy("CoLSTIM")
    labels = list(keys or contexts.keys() if isinstance(contexts, dict) else keys or contexts.index)
    index = pd.MultiIndex.from_tuples(labels) if name == "tuples" else pd.Index(labels)
    mask = pd.Series([True, False, True, True, False], index)
    for _ in range(10):
        duel = policy.select(contexts, available=mask, keys=keys)
        assert mask[duel.first_key] and mask[duel.second_key]
    before = snapshot(policy)
    for other in (mask[::-1], mask.iloc[[1, 0, 2, 3, 4]], mask.set_axis(list("vwxyz")), mask.astype(object)[::-1]):
        with pytest.raises(ValueError, match=r"available has another index than contexts.*wanted"):
            policy.select(contexts, available=other, keys=keys)
    assert snapshot(policy) == before
    duel = policy.select(contexts, available=mask[::-1].to_numpy(), keys=keys)  # without labels the place counts
    assert mask[::-1].to_numpy()[[duel.first, duel.second]].all()


def test_columns_of_one_table_fit_each_other() -> None:
    table = pd.DataFrame(ROWS, columns=FEATURES).assign(name=list("abcde"), stock=[True, False, True, True, False])
    policy = a_policy("CoLSTIM")
    for shuffled in (table, table.sample(frac=1.0, random_state=1)):
        for contexts in (shuffled[FEATURES], shuffled[FEATURES].to_numpy()):
            duel = policy.select(contexts, available=shuffled["stock"], keys=shuffled["name"])
            assert duel.first_key in "acd" and duel.second_key in "acd"
    with pytest.raises(ValueError, match=r"keys has another index than contexts; .*wanted"):
        policy.select(table[FEATURES], keys=table["name"][::-1])


# --- several duels at once ----------------------------------------------------------------------------------


def answered_at_once(policy: Any, contexts: Any, size: int) -> list[tuple[int, int]]:
    """The pairs of a policy that learns, between choices, only M: what a batch is to choose."""
    pairs = []
    for k in range(size):
        duel = policy.select(contexts[k] if contexts.ndim == 3 else contexts)
        pairs.append((duel.first, duel.second))
        state = state_of(policy)
        if policy.status != "exploring":
            gram = state.gram + np.outer(duel.contrast, duel.contrast)
            state.gram[:] = gram
            state.factor[:] = np.linalg.inv(np.linalg.cholesky(gram))
    return pairs


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("name", LINEAR)
def test_earlier_pairs_of_a_batch_count_in_the_gram_matrix_of_later_ones(name: str, deep: bool) -> None:
    options: dict[str, Any] = {"allow_self_duel": False} if name == "CoLSTIM" else {}
    one, other = a_policy(name, **options), a_policy(name, **options)
    contexts = np.random.default_rng(4).normal(size=(8, 6, 3)) if deep else np.random.default_rng(4).normal(size=(6, 3))
    kept = snapshot(one)["_state"]
    duels = one.select_batch(contexts) if deep else one.select_batch(contexts, size=8)
    assert [(d.first, d.second) for d in duels] == answered_at_once(other, contexts, 8)
    after = snapshot(one)["_state"]
    changed = [field for field in kept if after[field] != kept[field]]
    assert changed == ["counters"]
    assert [duel.round for duel in duels] == list(range(1, 9)) and len({duel.token for duel in duels}) == 8
    assert one.pending == sum(not duel.is_self for duel in duels) and one.round == 8
    for duel in reversed(duels):
        if not duel.is_self:
            one.update(duel, True)
    assert one.pending == 0


@pytest.mark.parametrize("name", POLICIES)
def test_a_batch_leaves_the_matrices_of_every_policy_to_the_last_bit(name: str) -> None:
    options = {"exploration_rounds": 20, "ridge": 0.0, "width_scale": 0.3} if name in SEEING else {}
    policy, twin = a_policy(name, **options), a_policy(name, **options)
    play(policy, 60)
    play(twin, 60)
    before = snapshot(policy)["_state"]
    duels = policy.select_batch(ROWS, size=12)
    after = snapshot(policy)["_state"]
    assert {field for field in before if before[field] != after[field]} <= {"counters", "tallies"}
    assert {duel.round for duel in duels} == set(range(61, 73))
    alone = [twin.select(ROWS) for _ in range(12)]
    same = [(d.first, d.second) for d in duels] == [(d.first, d.second) for d in alone]
    assert same or name in SEEING
    for duel in duels:
        if not duel.is_self:
            policy.update(duel, True)


@pytest.mark.parametrize("name", SEEING)
def test_a_batch_counts_on_where_arms_are_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With position=True M has a coordinate more, 1 in each contrast."""
    counted = []
    monkeypatch.setattr(informing, "count_contrast", lambda gram, factor, z, work: counted.append((gram.shape, *z)))
    policy = a_policy(name, position=True)
    rng = np.random.default_rng(5)
    for _ in range(220):  # until choices come from later stages, where there are some
        policy.update(policy.select(rng.normal(size=(5, 3))), bool(rng.integers(2)))
    for _ in range(20):
        policy.select_batch(rng.normal(size=(2, 5, 3)))
    assert counted and all(shape == (4, 4) and len(z) == 4 and z[-1] == 1.0 for shape, *z in counted)


def test_a_batch_shows_more_pairs_than_as_many_choices() -> None:
    rows = np.random.default_rng(1).normal(size=(30, 3))
    policy, twin = (
        fc.MaxInP(3, horizon=500, estimator="sgd", ridge=1.0, exploration_rounds=0, rng=1) for _ in range(2)
    )
    batch = {(duel.first, duel.second) for duel in policy.select_batch(rows, size=15)}
    assert len({(duel.first, duel.second) for duel in (twin.select(rows) for _ in range(15))}) == 1
    assert len(batch) >= 4


@pytest.mark.parametrize("name", ["CoLSTIM", "SupCoLSTIM"])
def test_an_exploration_that_ends_within_a_batch_ends_as_it_would_in_single_choices(name: str) -> None:
    """Random pairs do not count before, all of the batch's count afterwards, and M is first inverted without them."""
    options = {"exploration_rounds": 10, "ridge": 0.0}
    policy, twin = a_policy(name, **options), a_policy(name, **options)
    play(policy, 8)
    play(twin, 8)
    gram = policy.gram
    duels = policy.select_batch(ROWS, size=6)
    single = [twin.select(ROWS) for _ in range(3)]
    assert [(d.first, d.second) for d in duels[:2]] == [(d.first, d.second) for d in single[:2]]
    assert state_of(policy).counters["exploration_end"] == 10
    assert policy.gram.tobytes() == gram.tobytes()
    np.testing.assert_array_equal(policy.widths(ROWS), twin.widths(ROWS))
    # the third saw the first two in M
    seen = gram + sum(np.outer(d.contrast, d.contrast) for d in duels[:2])
    other = a_policy(name, **options)
    play(other, 8)
    for _ in range(2):
        other.select(ROWS)
    if name == "CoLSTIM":
        other._end_exploration()
        state_of(other).gram[:] = seen
        state_of(other).factor[:] = np.linalg.inv(np.linalg.cholesky(seen))
        third = other.select(ROWS)
        assert (third.first, third.second) == (duels[2].first, duels[2].second)


@pytest.mark.parametrize("name", POLICIES)
def test_a_batch_that_fails_shows_nothing(name: str) -> None:
    """Also where the number of arms was left open, and the random numbers of the later rounds are the same."""
    for n_before in (0, 30):
        options = {"exploration_rounds": None if n_before == 0 else 5} if name in SEEING else {}
        policy, twin = a_policy(name, **options), a_policy(name, **options)
        play(policy, n_before)
        play(twin, n_before)
        before = snapshot(policy)
        pools = np.repeat(ROWS[np.newaxis], 4, axis=0)
        pools[3, 2, 1] = np.nan
        with pytest.raises(ValueError, match=r"contexts\[2, 1\] is nan"):
            policy.select_batch(pools)
        assert snapshot(policy) == before
        after, alone = play(policy, 10), play(twin, 10)
        assert [(d.first, d.second) for d in after] == [(d.first, d.second) for d in alone]


def test_a_warning_that_is_an_error_shows_nothing_and_is_not_said_again() -> None:
    policy = fc.CoLSTIM(3, estimator="sgd", rng=1)
    before = snapshot(policy)
    many = np.random.default_rng(0).normal(size=(400, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="random pairs"):
            policy.select_batch(many, size=3)
        assert {**snapshot(policy), "_warned_long": False} == before
        assert len(policy.select_batch(many, size=3)) == 3


@pytest.mark.parametrize(
    ("contexts", "size", "message"),
    [
        (ROWS, None, r"size is None; for one pool of arms, \(5, 3\), a number is wanted"),
        (ROWS, 0, r"size is 0.*"),
        (ROWS, 2.5, r"size is 2.5.*"),
        (ROWS, 2**33, r"size is 8,589,934,592; at most 1,000,000 duels at once are wanted"),
        (np.zeros((2, 5, 3)), 2, r"size is 2; none is wanted"),
        (np.zeros((2, 5, 3)).tolist(), 2, r"size is 2; none is wanted"),
        (np.zeros((2, 5, 4)), None, r"contexts has .*4"),
        (np.zeros((1, 2, 5, 3)), None, r"contexts has .*"),
    ],
)
def test_what_is_no_batch_is_refused(contexts: Any, size: Any, message: str) -> None:
    policy = a_policy("CoLSTIM")
    before = snapshot(policy)
    with pytest.raises(ValueError, match=message):
        policy.select_batch(contexts, size)
    assert snapshot(policy) == before


def test_lists_dicts_and_frames_are_pools_and_keys_come_along() -> None:
    policy = a_policy("CoLSTIM")
    assert len(policy.select_batch(np.zeros((3, 5, 3)).tolist())) == 3
    assert policy.select_batch(np.zeros((0, 5, 3))) == []
    pools: list[Any] = [pd.DataFrame(ROWS, list("abcde")), dict(zip("abcde", ROWS, strict=True))]
    for pool in pools:
        for duel in policy.select_batch(pool, size=2):
            assert (duel.first_key, duel.second_key) == ("abcde"[duel.first], "abcde"[duel.second])
    assert isinstance(pools[1], Mapping)


def pools_of(name: str) -> list[Any]:
    """Two pools of one kind that name their features, the second in another order."""
    frames = [pd.DataFrame(ROWS, list("abcde"), FEATURES), pd.DataFrame(ROWS[:3] + 1.0, list("xyz"), FEATURES)]
    frames[1] = frames[1][FEATURES[::-1]]
    if name == "polars":
        polars = pytest.importorskip("polars")
        return [polars.from_pandas(frame) for frame in frames]
    if name == "arrow":
        arrow = pytest.importorskip("pyarrow")
        return [arrow.Table.from_pandas(frame, preserve_index=False) for frame in frames]
    return frames if name == "pandas" else [{key: frame.loc[key] for key in frame.index} for frame in frames]


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("name", ["pandas", "polars", "arrow", "dict"])
def test_each_pool_of_a_batch_is_looked_at_as_contexts_are(name: str, kind: Any) -> None:
    policy, twin = a_policy("CoLSTIM"), a_policy("CoLSTIM")
    pools = pools_of(name)
    duels = policy.select_batch(kind(pools))
    alone = twin.select(pools[0])
    assert policy.feature_names == twin.feature_names == tuple(FEATURES)
    assert (duels[0].first, duels[0].second) == (alone.first, alone.second)
    rows = [ROWS, ROWS[:3] + 1.0]
    for duel, pool, keys in zip(duels, rows, ["abcde", "xyz"], strict=True):
        np.testing.assert_array_equal(duel.contrast, pool[duel.first] - pool[duel.second])
        named = (keys[duel.first], keys[duel.second]) if name in ("pandas", "dict") else (None, None)
        assert (duel.first_key, duel.second_key) == named
    before = snapshot(policy)
    strange = pd.DataFrame(ROWS, columns=["price", "size", "weight"])
    with pytest.raises(ValueError, match=r"contexts lacks 'age' and has also 'weight'"):
        policy.select_batch([pools[0], strange])
    with pytest.raises(ValueError, match=r"size is 2; none is wanted"):
        policy.select_batch(kind(pools), size=2)
    assert snapshot(policy) == before


def test_a_list_of_named_rows_is_one_pool() -> None:
    rows = [pd.Series(row, FEATURES) for row in ROWS]
    policy = a_policy("CoLSTIM")
    assert len(policy.select_batch(rows, size=2)) == 2 and policy.feature_names == tuple(FEATURES)
    with pytest.raises(ValueError, match=r"contexts has .*"):
        policy.select_batch([dict(zip(FEATURES, row, strict=True)) for row in ROWS])  # records, not pools


def test_no_more_than_may_wait() -> None:
    policy = fc.CoLSTIM(3, estimator="sgd", ridge=1.0, max_pending=4, rng=1)
    with pytest.raises(ValueError, match=r"size is 5; at most max_pending=4 duels at once are wanted"):
        policy.select_batch(ROWS, size=5)
    assert policy.pending == 0 and len(policy.select_batch(ROWS, size=4)) == 4
