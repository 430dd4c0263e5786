"""Duels in a service: tokens, what waits, late and second answers, workers."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from inside import arrays, snapshot

import fastcolst as fc

pytestmark = pytest.mark.either_lane

RNG = np.random.default_rng(0)
CONTEXTS = RNG.normal(size=(200, 5, 3))


def policy_of(**parameters):
    return fc.CoLSTIM(3, estimator="sgd", ridge=1.0, allow_self_duel=False, **{"rng": 1, **parameters})


def shown(policy, n):
    return [policy.select(CONTEXTS[policy.round % len(CONTEXTS)]) for _ in range(n)]


def test_a_duel_keeps_its_contrast_whatever_becomes_of_the_contexts():
    """It is copied for whoever asks first, and nobody's writing to it teaches the policy anything else."""
    policy, twin = policy_of(), policy_of()
    contexts = CONTEXTS[0].copy()
    early, late = twin.select(contexts), policy.select(contexts)
    contrast = contexts[late.first] - contexts[late.second]
    contexts[:] = 7.0
    shown(policy, 3)
    assert late.contrast.tobytes() == contrast.tobytes() == early.contrast.tobytes()
    assert late.contrast is late.contrast and not late.contrast.flags.writeable
    late.contrast.setflags(write=True)
    late.contrast[:] = 9.0
    policy.update(late, True)
    twin.update(early, True)
    assert policy.theta.tobytes() == twin.theta.tobytes()


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda duel: pickle.loads(pickle.dumps(duel))])
def test_a_copy_of_a_duel_that_nobody_asked_for_its_contrast_has_it(again):
    policy = policy_of()
    duel = policy.select(CONTEXTS[0])
    twin = again(duel)
    assert twin == duel and twin.contrast.tobytes() == duel.contrast.tobytes()
    assert not twin.contrast.flags.writeable and not again(twin).contrast.flags.writeable
    policy.update(twin, True)
    with pytest.raises(AttributeError):
        duel.first = 3
    with pytest.raises(AttributeError):
        duel.contrast = np.zeros(3)
    assert not hasattr(duel, "anything")


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1e140, 1e145])
def test_a_request_that_is_refused_in_any_round_costs_nothing(wrong):
    """Rounds in which something is due beforehand, the first one, the sixty-fourth, look at the numbers themselves."""
    policy, twin = policy_of(exploration_rounds=5), policy_of(exploration_rounds=5)
    for contexts in CONTEXTS[:70]:
        bad = contexts.copy()
        bad[3, 1] = wrong
        before = snapshot(policy)
        with pytest.raises(ValueError, match=r"^contexts(\[3, 1\] is| has entries up to)"):
            policy.select(bad)
        assert snapshot(policy) == before
        duel, same = policy.select(contexts), twin.select(contexts)
        assert (duel.first, duel.second, duel.round) == (same.first, same.second, same.round)
        policy.update(duel, True)
        twin.update(same, True)


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda policy: pickle.loads(pickle.dumps(policy)),
    "fork": lambda policy: policy.fork(2),
}


def test_a_token_names_an_epoch_and_a_round():
    duels = shown(policy_of(), 3)
    assert all(re.fullmatch(r"[0-9a-f]{16}-[1-3]", duel.token) for duel in duels)
    assert [duel.token for duel in duels] == [f"{duels[0].epoch}-{duel.round}" for duel in duels]


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_no_two_policies_show_duels_with_one_token(duplicate):
    """Those of one seed, and a policy and its copy, show the same arms in the same round: they are different duels."""
    policies = [policy_of(), policy_of()]
    shown(policies[0], 2)
    policies += [duplicate(policies[0]), duplicate(policies[0])]
    policies.append(duplicate(policies[-1]))
    duels = [duel for policy in policies for duel in shown(policy, 4)]
    assert len({duel.token for duel in duels}) == len(set(duels)) == len(dict.fromkeys(duels)) == len(duels)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_shows_duels_under_tokens_of_its_own():
    policy = policy_of()
    before = shown(policy, 2)
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        there = pool.apply(_tokens_there, (policy, before[0].token))  # a copy, by pickle
    there += _in_child(policy, before[1].token)
    here = [duel.token for duel in shown(policy, 3)]
    assert len({*there, *here}) == 9
    policy.update(before[1].token, True)


def _tokens_there(policy, token):
    policy.update(token, True)
    return [duel.token for duel in shown(policy, 3)]


def _in_child(policy, token):
    """The tokens of three duels that the very same policy shows in a forked process, which answers an earlier one."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps(_tokens_there(policy, token)).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        text = told.read()
    os.waitpid(child, 0)
    return json.loads(text)


# --- answers by token -----------------------------------------------------------------------------------------


def test_a_token_answers_as_the_duel_does():
    by_duel, by_token = policy_of(), policy_of()
    for t in range(60):
        won = bool(t % 3)
        by_duel.update(shown(by_duel, 1)[0], won)
        by_token.update(shown(by_token, 1)[0].token, won)
    assert snapshot(by_duel) == snapshot(by_token)


def test_each_way_in_which_no_answer_is_awaited_has_its_error():
    policy = policy_of(max_pending=4)
    answered, discarded, kept, *_ = shown(policy, 4)
    policy.update(answered, True)
    policy.discard(discarded.token)
    expired = policy.pending_duels()[0].token
    assert expired == kept.token
    shown(policy, 3)
    assert (policy.pending, policy.expired) == (4, 1)
    before = snapshot(policy)
    other = shown(policy_of(), 1)[0]
    for duel, error, told in (
        (answered, fc.AlreadyAnsweredError, "round 1 was answered already"),
        (discarded, fc.DiscardedError, "round 2 was given up .* it was discarded"),
        (kept, fc.DiscardedError, "round 3 was given up .* the oldest when more than max_pending=4 waited"),
        (other, fc.ForeignDuelError, "another policy"),
        (f"{answered.epoch}-99", fc.ForeignDuelError, "never showed"),
        (f"{answered.epoch}-0", fc.MalformedDuelError, "16 hexadecimal digits-round, is wanted"),
        (answered.token + " ", fc.MalformedDuelError, "16 hexadecimal digits-round, is wanted"),
        ("", fc.MalformedDuelError, "token"),
        (7, fc.MalformedDuelError, "duel is 7; a Duel returned by select, or its token, is wanted"),
        (None, fc.MalformedDuelError, "duel is None"),
    ):
        for given in [duel, duel.token] if isinstance(duel, fc.Duel) else [duel]:
            for call in (lambda given=given: policy.update(given, True), lambda given=given: policy.discard(given)):
                with pytest.raises(error, match=told) as raised:
                    call()
                assert isinstance(raised.value, ValueError) and "wanted" in str(raised.value)
    assert snapshot(policy) == before


def test_an_answer_to_a_self_duel_is_taken_by_token_as_well_and_changes_nothing():
    policy = fc.CoLSTIM(3, ridge=1.0, rng=1)
    duel = policy.select(CONTEXTS[0][:1])
    other = policy.select(CONTEXTS[0])
    before = snapshot(policy)
    for given in (duel, duel.token, pickle.loads(pickle.dumps(duel))):
        policy.update(given, True)
        with pytest.raises(ValueError, match="a self-duel, which never waits") as raised:
            policy.discard(given)
        assert type(raised.value) is ValueError
        with pytest.raises(ValueError, match="first_won is 'yes'"):
            policy.update(given, "yes")
    forged = fc.Duel(0, 0, other.contrast, other.round, other.epoch)
    with pytest.raises(fc.ForeignDuelError, match="not the one that this policy showed"):
        policy.update(forged, True)
    assert snapshot(policy) == before


@pytest.mark.parametrize("name", [name for name in COPIES if name != "fork"])
def test_what_waits_when_a_copy_is_made_may_be_answered_to_either_and_nothing_else_to_both(name):
    policy = policy_of()
    answered, discarded, waiting = shown(policy, 3)
    policy.update(answered, True)
    policy.discard(discarded)
    twin = COPIES[name](policy)
    own, others = shown(policy, 1)[0], shown(twin, 1)[0]
    for one in (policy, twin):
        one.update(waiting.token, True)
        for duel, error in (
            (waiting, fc.AlreadyAnsweredError),
            (answered, fc.AlreadyAnsweredError),
            (discarded, fc.DiscardedError),
            (others if one is policy else own, fc.ForeignDuelError),
        ):
            for given in (duel, duel.token):
                with pytest.raises(error):
                    one.update(given, True)
    policy.update(own, True)
    twin.update(others, True)


# --- what waits -----------------------------------------------------------------------------------------------


def test_pending_duels_are_listed_from_the_oldest():
    policy = policy_of()
    duels = shown(policy, 6)
    policy.update(duels[1], True)
    policy.discard(duels[4])
    listed = policy.pending_duels()
    assert [(one.token, one.age) for one in listed] == [(duels[i].token, 5 - i) for i in (0, 2, 3, 5)]
    assert all(one.arms == (duels[i].first, duels[i].second) for one, i in zip(listed, (0, 2, 3, 5), strict=True))
    assert {one.keys for one in listed} == {(None, None)} and policy.pending == len(listed) == 4


def test_max_pending_bounds_what_waits():
    policy = policy_of(max_pending=3)
    duels = shown(policy, 10)
    assert (policy.pending, policy.expired) == (3, 7)
    assert [one.token for one in policy.pending_duels()] == [duel.token for duel in duels[-3:]]
    policy.update(duels[-2], True)
    shown(policy, 1)
    assert (policy.pending, policy.expired) == (3, 7)
    assert policy.get_params()["max_pending"] == 3 and "max_pending=3" in repr(policy)
    twin = copy.deepcopy(policy)
    assert twin.expired == 7
    shown(twin, 1)
    assert (twin.expired, policy.expired) == (8, 7)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "three", True])
def test_max_pending_is_a_whole_number(wrong):
    with pytest.raises(ValueError, match="max_pending is"):
        policy_of(max_pending=wrong)


# --- a duel as text -------------------------------------------------------------------------------------------


def test_a_duel_goes_through_json_to_the_last_bit():
    policy = policy_of()
    for duel in shown(policy, 20):
        again = fc.Duel.from_json(duel.to_json())
        assert again == duel and hash(again) == hash(duel) and repr(again) == repr(duel)
        assert again.contrast.tobytes() == duel.contrast.tobytes() and not again.contrast.flags.writeable
        policy.update(again, True)
    assert policy.pending == 0
    duel = fc.Duel(0, 1, np.array([-0.0, 5e-324]), 3, "0123456789abcdef", ("a", 1, ("b", None)), np.int64(7))
    again = fc.Duel.from_json(duel.to_json())
    assert (again.first_key, again.second_key, again.token) == (("a", 1, ("b", None)), 7, "0123456789abcdef-3")
    assert again.contrast.tobytes() == duel.contrast.tobytes()


def test_keys_that_do_not_come_back_are_not_written():
    duel = fc.Duel(0, 1, np.ones(2), 3, "0123456789abcdef", frozenset("a"))
    with pytest.raises(ValueError, match=r"first_key is frozenset.*a text, a number or a tuple is wanted"):
        duel.to_json()


@pytest.mark.parametrize(
    "change",
    [
        lambda table: {**table, "token": "A" + table["token"][1:]},
        lambda table: {**table, "token": 5},
        lambda table: {**table, "first": True},
        lambda table: {**table, "first": -1},
        lambda table: {**table, "first": 0.0},
        lambda table: {**table, "contrast": []},
        lambda table: {**table, "contrast": [1]},
        lambda table: {**table, "contrast": [float("nan")]},
        lambda table: {**table, "contrast": "abc"},
        lambda table: {**table, "first_key": [1]},
        lambda table: {**table, "second_key": {"tuple": 1}},
        lambda table: {**table, "more": 1},
        lambda table: {key: value for key, value in table.items() if key != "second"},
        list,
        lambda table: None,
    ],
)
def test_a_text_that_is_no_duel_is_refused(change):
    text = json.dumps(change(json.loads(shown(policy_of(), 1)[0].to_json())))
    with pytest.raises(fc.MalformedDuelError, match=r"^text is .* wanted$"):
        fc.Duel.from_json(text)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"{}", 3, None])
def test_what_is_no_json_text_is_no_duel(text):
    with pytest.raises(fc.MalformedDuelError, match=r"^text is .* wanted$"):
        fc.Duel.from_json(text)


# --- workers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy", [policy_of(), fc.DoubleThompson(rng=3), fc.SupCoLSTIM(3, horizon=64, estimator="sgd", rng=2)]
)
def test_a_fork_knows_the_same_and_draws_from_a_stream_of_its_own(policy):
    policy = copy.deepcopy(policy)
    duels = shown(policy, 20)
    for duel in duels[:15]:
        policy.update(duel, duel.first < duel.second)
    before, waits = snapshot(policy), policy.pending
    one, same, other, text = (policy.fork(worker) for worker in (1, 1, 2, "1"))
    assert snapshot(policy) == before and waits > 0
    for fork in (one, same, other, text):
        assert arrays(fork) == arrays(policy) and (fork.pending, fork.round, fork.expired) == (0, 20, 0)
        for duel in (duels[0], duels[-1]):
            with pytest.raises(fc.ForeignDuelError):
                fork.update(duel.token, True)
    told = [[(duel.first, duel.second) for duel in shown(fork, 30)] for fork in (one, same, other, text, policy)]
    assert told[0] == told[1] and len({str(pairs) for pairs in told}) == 4
    later = policy.fork(1)
    assert later.get_params()["rng"] != one.get_params()["rng"] != policy.get_params()["rng"]


def test_answers_travel_between_forks_by_learn():
    policy = policy_of(exploration_rounds=0)
    forks = [policy.fork(worker) for worker in range(2)]
    for t in range(30):
        fork = forks[t % 2]
        duel = fork.select(CONTEXTS[t])
        fork.update(duel, True)
        winner, loser = CONTEXTS[t][[duel.first]], CONTEXTS[t][[duel.second]]
        for other in (policy, forks[1 - t % 2]):
            other.learn(winner, loser)
    assert policy.theta.tobytes() == forks[0].theta.tobytes() == forks[1].theta.tobytes()
    np.testing.assert_array_equal(policy.gram, forks[0].gram)


@pytest.mark.parametrize("wrong", [None, "", 1.5, True, b"a", ["a"], 2**63, pytest.param(10**5000, id="huge")])
def test_a_worker_is_a_number_or_a_text(wrong):
    with pytest.raises(ValueError, match=r"worker is .* a whole number from .* or a text is wanted"):
        policy_of().fork(wrong)


def test_eight_threads_answer_discard_list_and_fork_and_every_duel_counts_once():
    policy = policy_of(max_pending=50)
    told = {"answered": 0, "discarded": 0, "late": 0}

    def work(number):
        counts, mine = dict.fromkeys(told, 0), []
        rng = np.random.default_rng(number)
        for t in range(150):
            mine.append(policy.select(CONTEXTS[t]).token)
            action = rng.integers(8)
            try:
                if action < 4:
                    policy.update(mine.pop(rng.integers(len(mine))), bool(rng.integers(2)))
                    counts["answered"] += 1
                elif action == 4:
                    policy.discard(mine.pop(0))
                    counts["discarded"] += 1
                elif action == 5:
                    waiting = policy.pending_duels()
                    assert [one.age for one in waiting] == sorted((one.age for one in waiting), reverse=True)
                    assert len(waiting) <= 50
                elif action == 6:
                    fork = policy.fork(number)
                    assert fork.pending == 0
                    fork.update(fork.select(CONTEXTS[t]), True)
            except fc.DiscardedError:
                counts["late"] += 1
        return counts

    with ThreadPoolExecutor(8) as pool:
        for counts in pool.map(work, range(8)):
            for name, count in counts.items():
                told[name] += count
    assert policy.round == 8 * 150 and told["late"] > 0
    assert policy.round == told["answered"] + told["discarded"] + policy.expired + policy.pending
    assert policy.pending == len(policy.pending_duels()) <= 50
