"""What a policy learned: its log, with who answered, and an answer taken out again."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from conftest import rounds
from hypothesis import given
from hypothesis import strategies as st
from inside import snapshot, state_of
from test_saving import held
from twins import INFORMED, LINEAR, taken_by

import fastcolst as fc
from fastcolst import reference
from fastcolst.data.answers import AnswerLog

D, N = 2, 4
POLICIES = {name: ours for name, (ours, _) in {**LINEAR, **INFORMED}.items()}


def a_policy(name="CoLSTIM", **given):
    options = {"n_arms": N, "exploration_rounds": 6, "horizon": 200, "rng": 1, **given}
    return POLICIES[name](D, **taken_by(POLICIES[name], options))


def duels_of(policy, n_duels, seed=0):
    rng, duels = np.random.default_rng(seed), []
    while len(duels) < n_duels:
        duel = policy.select(rng.normal(size=(N, D)))
        if not duel.is_self:
            duels.append(duel)
    return duels


def answered(policy, n_duels=12, seed=0):
    """Duels, with their answers and weights: wins of either side, ties, raters."""
    told = []
    for i, duel in enumerate(duels_of(policy, n_duels, seed)):
        answer, weight, rater = (True, 0.5, False)[i % 3], (1.0, 2.0, 0.5, 3.0)[i % 4], ("ann", 7, None)[i % 3 - 1]
        policy.update(duel, answer, weight, rater)
        told.append((duel, float(answer), weight, rater))
    return told


# --- the log ------------------------------------------------------------------------------------------------


def test_the_log_has_every_answer_as_it_was_given():
    policy = a_policy()
    told = answered(policy)
    log = policy.history()
    assert isinstance(log, fc.Log) and len(log) == 12
    np.testing.assert_array_equal(log.contrasts, [duel.contrast for duel, *_ in told])
    assert log.wins.tolist() == [answer for _, answer, *_ in told]
    assert log.weights.tolist() == [weight for _, _, weight, _ in told]
    assert log.raters == tuple(rater for *_, rater in told)
    assert log.tokens == tuple(duel.token for duel, *_ in told)


def test_comparisons_from_logs_stand_among_the_answers():
    policy = a_policy()
    (first, *_), *_ = answered(policy, 1)
    winners, losers = np.random.default_rng(4).normal(size=(2, 3, D))
    policy.learn(winners, losers, weights=[1.0, 2.0, 3.0])
    (last, *_), *_ = answered(policy, 1, seed=2)
    policy.learn(winners[:1], losers[:1], outcomes=[0.5])
    log = policy.history()
    assert log.tokens == (first.token, "", "", "", last.token, "", "")
    np.testing.assert_array_equal(log.contrasts[1:4], winners - losers)
    np.testing.assert_array_equal(log.contrasts[-2:], [winners[0] - losers[0], losers[0] - winners[0]])
    assert log.weights.tolist() == [1.0, 1.0, 2.0, 3.0, 1.0, 0.5, 0.5]
    assert log.wins.tolist() == [True] * 7 and log.raters == (None,) * 7


def test_a_policy_that_learns_the_log_of_another_knows_the_same():
    policy, other = a_policy(estimator=fc.MLE(1e-9, ridge=0.1)), a_policy(estimator=fc.MLE(1e-9, ridge=0.1))
    answered(policy)
    log = policy.history()
    other.learn_and_predict(log.contrasts, log.wins, log.weights)
    np.testing.assert_allclose(other.theta, policy.theta, rtol=0, atol=1e-8)
    np.testing.assert_allclose(other.gram, policy.gram, rtol=1e-14)
    counts = fc.fit(log.contrasts, log.wins * log.weights, log.weights, ridge=0.1)
    np.testing.assert_allclose(counts.theta, policy.theta, rtol=0, atol=1e-7)


def test_simulated_rounds_are_in_the_log_too():
    policy = a_policy()
    run = fc.Scenario.hard(n_arms=N, n_features=D).start(1, 0)
    chunk = run.next_chunk(30)
    trace = np.zeros((31, 3))
    policy.play(chunk, trace)
    told = answered(policy, 2)
    log = policy.history()
    assert len(log) == 30 - int(trace[-1, 2]) + 2
    assert log.tokens[-2:] == tuple(duel.token for duel, *_ in told) and not any(log.tokens[:-2])


def test_names_of_features_are_the_logs():
    pd = pytest.importorskip("pandas")
    policy = a_policy()
    policy.update(policy.select(pd.DataFrame(np.eye(N, D), columns=["price", "speed"])), True)
    assert policy.history().features == ("price", "speed")


def reloaded(policy, tmp_path):
    policy.save(tmp_path / "policy.npz")
    return fc.load_policy(tmp_path / "policy.npz")


DUPLICATES = {
    "copied": lambda policy, _: copy.deepcopy(policy),
    "pickled": lambda policy, _: pickle.loads(pickle.dumps(policy)),
    "saved": reloaded,
}


@pytest.mark.parametrize("how", DUPLICATES)
def test_a_copy_has_the_log(how, tmp_path):
    policy = a_policy()
    told = answered(policy)
    twin = DUPLICATES[how](policy, tmp_path)
    assert twin.history().tokens == policy.history().tokens
    answered(twin, 1, seed=3)
    assert len(policy.history()) == 12 and twin.history().raters[:12] == policy.history().raters
    twin.retract(told[0][0])
    assert len(policy.history()) == 12 == len(twin.history())


def test_a_fork_has_the_answers_and_not_the_tokens():
    policy = a_policy()
    answered(policy)
    twin = policy.fork("other")
    log = twin.history()
    assert len(log) == 12 and log.tokens == ("",) * 12 and log.raters == policy.history().raters


def test_an_answer_that_fails_and_a_batch_taken_back_leave_no_trace():
    policy = a_policy()
    answered(policy, 6)
    policy.learn(np.ones((2, D)), np.zeros((2, D)))  # of which nothing is noted yet
    duels = duels_of(policy, 3, seed=5)
    before, file = snapshot(policy), held(policy)
    with pytest.raises(ValueError, match="overflows"):
        policy.update_batch(duels, [True, False, True], [1.0, 1e308, 1e308], ["a", "b", "c"])
    assert snapshot(policy) == before and held(policy) == file
    policy.update(duels[0], True, rater="a")
    policy.update_batch(duels[1:], [False, 0.5], raters=["b", None])
    log = policy.history()
    assert log.tokens[-5:] == ("", "", *(duel.token for duel in duels))
    assert log.raters[-3:] == ("a", "b", None) and log.wins.tolist()[-3:] == [1.0, 0.0, 0.5]


@pytest.mark.parametrize("is_noted", [True, False])
def test_what_is_refused_changes_nothing_of_a_file(is_noted):
    policy = a_policy()
    answered(policy, 6)
    duels = duels_of(policy, 3, seed=5)
    if not is_noted:
        policy.learn(np.ones((2, D)), np.zeros((2, D)))
    before = held(policy)
    for call in (
        lambda: policy.update_batch(duels, [True, False, True], [1.0, 1e308, 1e308], ["a", "b", "c"]),
        lambda: policy.learn(np.full((1, D), 2.0), np.zeros((1, D)), [1e308]),
    ):
        with pytest.raises(ValueError, match="overflows"):
            call()
        assert held(policy) == before
    assert before["header"]["fields"]["noted"] is is_noted


def test_equal_arms_teach_nothing_and_are_in_no_log():
    policy = a_policy(allow_self_duel=False)
    contexts = np.ones((N, D))
    policy.update(policy.select(contexts), True, rater="ann")
    with pytest.raises(ValueError, match="history is empty"):
        policy.history()
    (told,) = answered(policy, 1)
    assert policy.history().tokens == (told[0].token,)


FORGETFUL = {
    "sgd": (lambda: a_policy(estimator="sgd"), "SGD has no history"),
    "one pass": (lambda: a_policy(estimator="online-newton"), "OnlineNewton has no history"),
    "stages": (lambda: fc.StaD(D, n_arms=N, horizon=64), "StaD with MLE has no history"),
    "indices": (fc.SelfSparring, "no history"),
}


@pytest.mark.parametrize("name", FORGETFUL)
def test_who_forgets_has_no_history_and_says_so(name):
    build, message = FORGETFUL[name]
    policy = build()
    duel = duels_of(policy, 1)[0]
    before = snapshot(policy)
    with pytest.raises(AttributeError, match=message):
        policy.history()
    with pytest.raises(AttributeError, match=message.replace("history", "retract")):
        policy.retract(duel)
    with pytest.raises(ValueError, match=r"^rater is 'ann'; .* keeps no history .* None is wanted"):
        policy.update(duel, True, rater="ann")
    with pytest.raises(ValueError, match=r"^rater is 'ann'"):
        policy.update_batch([duel], [True], raters=["ann"])
    assert snapshot(policy) == before
    policy.update(duel, True)


@pytest.mark.parametrize("rater", [1.5, b"ann", ["ann"], object()])
def test_a_rater_is_a_text_or_a_whole_number(rater):
    policy = a_policy()
    (duel,) = duels_of(policy, 1)
    before = snapshot(policy)
    with pytest.raises(ValueError, match=r"^rater is .*; a text, a whole number or None is wanted"):
        policy.update(duel, True, rater=rater)
    with pytest.raises(ValueError, match=r"^raters has 2 entries for 1 duels"):
        policy.update_batch([duel], [True], raters=["a", "b"])
    assert snapshot(policy) == before


@pytest.mark.parametrize("rater", [2**63, -(2**63) - 1, 2**70, 1e20, "\ud800", "ann \udfff"])
def test_a_rater_that_no_table_can_hold_is_refused_when_it_is_given(rater):
    """It was an OverflowError, or a UnicodeEncodeError, once the log was to be written."""
    policy = a_policy()
    (duel,) = duels_of(policy, 1)
    before = snapshot(policy)
    for give in (
        lambda: policy.update(duel, True, rater=rater),
        lambda: policy.update_batch([duel], [True], raters=[rater]),
    ):
        with pytest.raises(
            ValueError, match=r"^rater is .*(whole characters are|number from .*, or a text, is) wanted$"
        ):
            give()
    assert snapshot(policy) == before


@pytest.mark.parametrize("rater", [2**63 - 1, -(2**63), "\U0001f600", ""])
def test_every_other_rater_can_be_written(rater, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    policy = a_policy()
    (duel,) = duels_of(policy, 1)
    policy.update(duel, True, rater=rater)
    log = policy.history()
    log.to_parquet(tmp_path / "log.parquet")
    log.to_jsonl(tmp_path / "log.jsonl", [["p", "a", "b"]])
    assert pq.read_table(tmp_path / "log.parquet")["rater"].to_pylist() == [rater]
    assert json.loads((tmp_path / "log.jsonl").read_text("utf-8"))["rater"] == rater


def test_texts_that_cannot_be_written_are_refused(tmp_path):
    pytest.importorskip("pyarrow")
    policy = a_policy()
    (duel,) = duels_of(policy, 1)
    policy.update(duel, True)
    log = policy.history()
    for write in (log.to_jsonl, log.to_parquet):
        with pytest.raises(ValueError, match=r"^texts\[0\] has 'half \\ud83d', .*; whole characters are wanted$"):
            write(tmp_path / "log", [["p", "half \ud83d", "b"]])
    named = AnswerLog.of([[1.0]], [1.0], features=["\ud800"], weights=[1.0], raters=(None,), tokens=("",))
    with pytest.raises(ValueError, match=r"^features has '\\ud800', .*; whole characters are wanted$"):
        named.to_parquet(tmp_path / "log")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": np.array([99], np.int64)}, "learned.rounds are no rounds"),
        ({"rounds": np.array([-(2**63)], np.int64)}, "learned.rounds are no rounds"),
        ({"rounds": np.zeros(9, np.int64)}, "learned.rounds are no rounds"),
        ({"rounds": np.array([1, 2, 1], np.int64)}, "learned.rounds are no rounds"),
        ({"rounds": np.array([1.0])}, r"learned.rounds is float64 \(1,\)"),
        ({"rated": np.array([7], np.int64)}, "learned.rated are"),
        ({"raters": np.frombuffer(b'"ann"', np.uint8)}, "learned.rated are"),
        ({"raters": np.frombuffer(b"[1]\n[2]", np.uint8)}, "rater is"),
    ],
)
def test_what_a_file_says_of_answers_is_checked(change, message, tmp_path):
    policy = a_policy()
    answered(policy, 3)
    policy.save(tmp_path / "policy.npz")
    with np.load(tmp_path / "policy.npz") as archive:
        parts = dict(archive)
    parts |= {f"learned.{name}": value for name, value in change.items()}
    np.savez(tmp_path / "policy.npz", **parts)
    with pytest.raises(fc.FileFormatError, match=message):
        fc.load_policy(tmp_path / "policy.npz")


# --- files --------------------------------------------------------------------------------------------------


def texts_of(told):
    return {duel.token: (f"prompt {i}", f"first {i}", f"second {i}") for i, (duel, *_) in enumerate(told)}


def test_preferences_are_what_was_chosen_and_rejected(tmp_path):
    policy = a_policy()
    told = answered(policy, 3)
    texts = {**texts_of(told), "another": ("", "", "")}
    policy.history().to_jsonl(tmp_path / "log.jsonl", texts)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(row["prompt"], row["chosen"], row["rejected"], row["weight"]) for row in lines] == [
        ("prompt 0", "first 0", "second 0", 1.0),
        ("prompt 1", "first 1", "second 1", 1.0),  # a tie of weight 2
        ("prompt 1", "second 1", "first 1", 1.0),
        ("prompt 2", "second 2", "first 2", 0.5),
    ]
    assert [row["rater"] for row in lines] == [None, "ann", "ann", 7] and lines[3]["token"] == told[2][0].token
    in_order = policy.history().preferences(list(texts.values())[:3])
    assert in_order == lines
    pq = pytest.importorskip("pyarrow.parquet")
    policy.history().to_parquet(tmp_path / "log.parquet", texts)
    table = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert table == [{**row, "rater": row["rater"] and str(row["rater"])} for row in lines]


def test_a_table_of_contrasts_reads_back(tmp_path):
    pytest.importorskip("pyarrow")
    policy = a_policy()
    for duel in duels_of(policy, 9):
        policy.update(duel, duel.round % 2 == 0, rater=duel.round)
    log = policy.history()
    log.to_parquet(tmp_path / "log.parquet")
    back = fc.read_log(tmp_path / "log.parquet", contrast="z*", outcome="outcome", coding="unit")
    np.testing.assert_array_equal(back.contrasts, log.contrasts)
    np.testing.assert_array_equal(back.wins, log.wins)


WRONG_TEXTS = {
    "too few": ([("p", "a", "b")], r"texts has 1 entries for 2 comparisons"),
    "no triple": ([("p", "a", "b"), ("p", "a")], r"texts\[1\] is \('p', 'a'\); three texts are wanted"),
    "no texts": ([("p", "a", "b"), ("p", "a", 3)], r"texts\[1\] is .*; three texts are wanted"),
    "a text": ([("p", "a", "b"), "pab"], r"texts\[1\] is 'pab'; three texts are wanted"),
    "none": (None, r"texts has 0 entries"),
    "by name": ([{"prompt": "p", "first": "a", "second": "b"}] * 2, r"texts\[0\] is .*; three texts are wanted"),
    "without an order": ([{"p", "a", "b"}] * 2, r"texts\[0\] is .*; three texts are wanted"),
    "missing": ({}, r"texts has nothing for the duel [0-9a-f]{16}-1; prompt"),
}


@pytest.mark.parametrize("name", WRONG_TEXTS)
def test_wrong_texts_are_refused_and_nothing_is_written(name, tmp_path):
    texts, message = WRONG_TEXTS[name]
    policy = a_policy()
    answered(policy, 2)
    with pytest.raises(ValueError, match=message):
        policy.history().to_jsonl(tmp_path / "log.jsonl", texts)
    assert not list(tmp_path.iterdir())
    policy.learn(np.ones((1, D)), np.zeros((1, D)))
    with pytest.raises(ValueError, match="texts has nothing for comparisons from logs"):
        policy.history().preferences(dict.fromkeys(policy.history().tokens[:2], ("", "", "")))


def test_a_feature_named_as_another_column_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    log = AnswerLog.of([[1.0]], [1], features=["weight"], weights=[1.0], raters=(None,), tokens=("",))
    with pytest.raises(ValueError, match=r"^features has 'weight', .* other names are wanted"):
        log.to_parquet(tmp_path / "log.parquet")


# --- taken out again ----------------------------------------------------------------------------------------


def check_never_learned(policy, told, ridge, tolerance=1e-8):
    """Against the reference's fit of what is left, and M added up anew."""
    contrasts = np.array([duel.contrast for duel, *_ in told]).reshape(-1, D)
    shares, weights = (np.array([entry[k] for entry in told], float) for k in (1, 2))
    theta = np.zeros(D)
    if told:
        exact = reference.fit(contrasts, shares * weights, weights, comparison=reference.BradleyTerry(), ridge=0.2)
        assert exact.distance(policy.theta) <= tolerance
        theta = exact.theta
    np.testing.assert_allclose(policy.theta, theta, rtol=0, atol=1e-6)
    gram = (contrasts.T * weights) @ contrasts + ridge * np.eye(D)
    np.testing.assert_allclose(policy.gram, gram, rtol=1e-13, atol=1e-13)
    assert np.array_equal(policy.gram, policy.gram.T)
    rows = np.random.default_rng(1).normal(size=(5, D))
    if np.linalg.matrix_rank(gram) == D and policy.status != "exploring":
        widths = np.sqrt(np.einsum("ij,ij->i", rows @ np.linalg.inv(gram), rows))
        np.testing.assert_allclose(policy.widths(rows), widths, rtol=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 0.7])
@pytest.mark.parametrize("name", POLICIES)
def test_a_retracted_answer_was_never_learned(name, ridge):
    policy = a_policy(name, ridge=ridge, estimator=fc.MLE(1e-9, ridge=0.2))
    told = answered(policy, 20)
    for k, by_token in ((3, True), (0, False), (17, True), (8, False)):
        duel = told.pop(k)[0]
        policy.retract(duel.token if by_token else duel)
        check_never_learned(policy, told, ridge)
        assert state_of(policy).counters["answered"] == len(told) == len(policy.history())
        assert duel.token not in policy.history().tokens
    told += answered(policy, 4, seed=6)
    check_never_learned(policy, told, ridge)
    assert [duel.token for duel, *_ in told] == list(policy.history().tokens)


@given(st.permutations(range(8)), st.integers(1, 8))
def test_answers_are_taken_out_in_any_order(order, n):
    policy = a_policy(ridge=0.7, estimator=fc.MLE(1e-9, ridge=0.2))
    told = answered(policy, 8)
    for k in order[:n]:
        policy.retract(told[k][0])
    check_never_learned(policy, [told[k] for k in sorted(order[n:])], 0.7)


def test_the_last_answer_leaves_a_policy_that_knows_nothing():
    policy, fresh = (a_policy(ridge=1.0) for _ in range(2))
    (told,) = answered(policy, 1)
    policy.retract(told[0])
    assert policy.theta.tobytes() == fresh.theta.tobytes() and policy.gram.tobytes() == fresh.gram.tobytes()
    np.testing.assert_array_equal(policy.widths(np.eye(D)), fresh.widths(np.eye(D)))
    with pytest.raises(ValueError, match="history is empty"):
        policy.history()
    answered(policy, 3, seed=3)
    assert len(policy.history()) == 3


def test_without_a_ridge_the_exploration_goes_on_where_m_is_no_longer_invertible():
    policy = a_policy(exploration_rounds=2, estimator=fc.MLE(1e-9, ridge=0.2))
    told = answered(policy, 2)
    policy.select(np.eye(N, D))
    assert policy.status != "exploring"
    policy.retract(told[0][0])
    assert policy.status == "exploring" and np.all(np.isinf(policy.widths(np.eye(D))))
    check_never_learned(policy, told[1:], 0.0)
    more = answered(policy, 3, seed=8)
    policy.select(np.eye(N, D))
    assert policy.status != "exploring"
    check_never_learned(policy, told[1:] + more, 0.0)


def test_separated_answers_are_found_again_after_one_was_taken_out():
    policy = a_policy(ridge=1.0, estimator=fc.MLE(ridge=0.0), allow_self_duel=False)
    duels = duels_of(policy, 8)
    for duel in duels:
        policy.update(duel, duel.contrast[0] > 0)
    policy.update(lie := duels_of(policy, 1, seed=3)[0], not lie.contrast[0] > 0)
    certain, after = policy.status, np.abs(policy.theta).max()
    policy.retract(lie)
    assert policy.status == "separated" and np.abs(policy.theta).max() > after and certain != "separated"


def test_a_long_history_loses_one_answer():
    """Of several blocks, at their borders as well."""
    n_rows = rounds(5000, 1100)
    policy = fc.CoLSTIM(D, exploration_rounds=0, ridge=1.0, estimator=fc.MLE(ridge=0.2), rng=1)
    rng = np.random.default_rng(0)
    contrasts = rng.normal(size=(n_rows, D))
    wins = contrasts[:, 0] + rng.logistic(size=n_rows) > 0.0
    policy.learn_and_predict(contrasts[:511], wins[:511])
    (told,) = answered(policy, 1)
    policy.learn_and_predict(contrasts[511:], wins[511:])
    assert len(policy.history()) == n_rows + 1
    policy.retract(told[0])
    log = policy.history()
    assert len(log) == n_rows and not any(log.tokens)
    np.testing.assert_array_equal(log.contrasts, np.where(wins[:, None], contrasts, -contrasts))
    exact = reference.fit(contrasts, wins, comparison=reference.BradleyTerry(), ridge=0.2)
    assert exact.distance(policy.theta) <= 0.01 and policy.audit() <= 0.01


WRONG = {
    "pending": (lambda p, told: duels_of(p, 1, seed=5)[0], ValueError, r"has taught nothing: it waits"),
    "twice": (lambda p, told: p.retract(told[0][0]) or told[0][0], ValueError, r"taught nothing: .*retracted"),
    "a self-duel": (lambda p, told: self_duel(p), ValueError, r"taught nothing"),
    "another's": (lambda p, told: duels_of(a_policy(), 1)[0], fc.ForeignDuelError, "of another policy"),
    "a text": (lambda p, told: "duel 5", fc.MalformedDuelError, "duel is 'duel 5'"),
    "None": (lambda p, told: None, fc.MalformedDuelError, "duel is None"),
}


def self_duel(policy):
    while not (duel := policy.select(np.zeros((N, D)))).is_self:
        policy.discard(duel)
    return duel


@pytest.mark.parametrize("name", WRONG)
def test_what_was_not_answered_is_not_retracted(name):
    build, error, message = WRONG[name]
    policy = a_policy(ridge=1.0)
    told = answered(policy, 8)
    duel = build(policy, told)
    before = snapshot(policy)
    with pytest.raises(error, match=message):
        policy.retract(duel)
    assert snapshot(policy) == before


def test_a_retracted_duel_is_not_answered_again():
    policy = a_policy(ridge=1.0)
    ((duel, *_),) = answered(policy, 1)
    policy.retract(duel)
    with pytest.raises(fc.AlreadyAnsweredError):
        policy.update(duel, False)
