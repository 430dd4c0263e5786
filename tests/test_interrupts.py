"""Ctrl-C wherever it may come in what a policy notes: a call was made, or it was not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from inside import interrupted, snapshot, state_of

import fastcolst as fc

pytestmark = pytest.mark.either_lane

FILES = ("answering.py", "batches.py", "counting.py", "forgetting.py", "informing.py", "kept_sets.py", "learned.py",
         "linear.py", "pending.py", "policy.py", "sets.py", "simulated.py")  # fmt: skip
"""Where things are noted; kernels are in others."""

CONTEXTS = np.random.default_rng(0).normal(size=(12, 3, 2))


def a_policy(**options: Any) -> tuple[fc.CoLSTIM, list[fc.Duel]]:
    """A policy with four answers learned, and its duels: the last four wait."""
    policy = fc.CoLSTIM(2, exploration_rounds=0, allow_self_duel=False, **{"ridge": 1.0, "rng": 1, **options})
    duels = [policy.select(contexts) for contexts in CONTEXTS[:8]]
    for i, duel in enumerate(duels[:4]):
        policy.update(duel, (1, 0, 0.5, 1)[i], weight=1.0 + i, rater=f"r{i}")
    return policy, duels


def state(policy: fc.CoLSTIM) -> dict[str, Any]:
    """Every byte of a policy, apart from the room in its history that was never written to."""
    found, memory = snapshot(policy), state_of(policy).memory
    if "history" in memory._fields:
        found["_state"]["memory"]["history"]["blocks"] = memory.history.blocks[: memory.history.used[0]].tobytes()
    return found


def told(policy: fc.CoLSTIM, duels: list[fc.Duel]) -> list[Any]:
    """Who answered which duel what, from the first on: rounds, since tokens differ between twins."""
    log = policy.history()
    assert len({*log.tokens}) == len(log.tokens), "each answer once"
    rounds = [{duel.token: duel.round for duel in duels}[token] for token in log.tokens]
    return [
        rounds,
        log.contrasts.tolist(),
        log.wins.tolist(),
        log.weights.tolist(),
        log.raters,
    ]


def at_every_line(build: Callable[[], Any], check: Callable[[Any, str], None]) -> None:
    """Let ``check`` look at what is left of what ``build`` made, whose call was interrupted after 0, 1, ... lines."""
    after, came = 0, True
    while came:
        made, call = build()
        came = interrupted(call, after, FILES)
        check(made, f"after {after} lines")
        after += 1
    assert after > 10


@pytest.mark.parametrize("options", [{}, {"position": True, "ridge": 0.0}])
def test_an_answer_is_taken_out_with_all_that_was_noted_of_it_or_not_at_all(options: dict[str, Any]) -> None:
    policy, duels = a_policy(**options)
    states, logs = [state(policy)], [told(policy, duels)]
    policy.retract(duels[0])
    states, logs = [*states, state(policy)], [*logs, told(policy, duels)]

    def build() -> Any:
        made = a_policy(**options)
        return made, lambda: made[0].retract(made[1][0])

    seen = set()

    def check(made: Any, where: str) -> None:
        assert state(made[0]) in states, where
        which = states.index(state(made[0]))
        assert told(*made) == logs[which], where
        seen.add(which)

    at_every_line(build, check)
    assert seen == {0, 1}


@pytest.mark.parametrize("answer", [1, 0, 0.5])
@pytest.mark.parametrize("then", ["update", "update_batch", "discard", "retract", "save", "learn"])
def test_an_answer_is_noted_once_with_who_gave_it(answer: float, then: str, tmp_path: Any) -> None:
    """Whatever comes next, and if Ctrl-C comes once more while it does."""
    policy, duels = a_policy()
    policy.update(duels[4], answer, weight=2.0, rater="ann")
    expected, gram = told(policy, duels), policy.gram

    def build() -> Any:
        made = a_policy()
        return made, lambda: made[0].update(made[1][4], answer, weight=2.0, rater="ann")

    def next_call(policy: Any, duels: list[fc.Duel]) -> Callable[[], object]:
        duel = duels[4]
        calls: dict[str, Callable[[], object]] = {
            "update": lambda: policy.update(duel, answer, weight=2.0, rater="ann"),
            "update_batch": lambda: policy.update_batch([duel], [answer], [2.0], ["ann"]),
            "discard": lambda: policy.discard(duel),
            "retract": lambda: policy.retract(duel),
            "save": lambda: policy.save(tmp_path / "policy.npz"),
            "learn": lambda: policy.learn(np.zeros((1, 2)), np.zeros((1, 2))),
        }
        return calls[then]

    def check(made: Any, where: str) -> None:
        policy, duels = made
        for _ in range(2):  # of the calls that change something one is refused or does nothing
            try:
                next_call(policy, duels)()
            except ValueError:
                assert then not in ("save", "learn"), where
        if then == "save":
            policy = fc.load_policy(tmp_path / "policy.npz")
        log = policy.history()
        n = sum(token == duels[4].token for token in log.tokens)
        assert n <= 1, where
        if then in ("update", "update_batch"):
            assert told(policy, duels) == expected and policy.gram.tobytes() == gram.tobytes(), where
        elif n:
            assert told(policy, duels) == expected, where
            with pytest.raises(fc.AlreadyAnsweredError):
                policy.discard(duels[4].token)

    at_every_line(build, check)


def test_what_waits_after_an_interrupt_can_be_discarded() -> None:
    def build() -> Any:
        policy, duels = a_policy()
        return policy, lambda: policy.update(duels[4], 0.5, rater="ann")

    def check(policy: fc.CoLSTIM, where: str) -> None:
        n_waiting, n_learned = policy.pending, len(policy.history())
        assert policy.summary().pending == n_waiting == len(policy.pending_duels()), where
        assert n_waiting + n_learned == 8, where
        for waiting in policy.pending_duels():
            policy.discard(waiting.token)

    at_every_line(build, check)


def test_an_answer_that_is_interrupted_twice_is_noted_once() -> None:
    policy, duels = a_policy()
    policy.update(duels[4], 0.5, rater="ann")
    expected = told(policy, duels)
    first = 0
    while True:
        made, others = a_policy()
        if not interrupted(lambda m=made, o=others: m.update(o[4], 0.5, rater="ann"), first, FILES):
            break
        second = 0
        while True:
            twin, duels = a_policy()
            interrupted(lambda m=twin, o=duels: m.update(o[4], 0.5, rater="ann"), first, FILES)
            came = False
            with contextlib.suppress(fc.AlreadyAnsweredError):
                came = interrupted(lambda m=twin, o=duels: m.update_batch([o[4]], [0.5], raters=["ann"]), second, FILES)
            with contextlib.suppress(fc.AlreadyAnsweredError):
                twin.update(duels[4], 0.5, rater="ann")
            assert told(twin, duels) == expected, f"after {first} and {second} lines"
            if not came:
                break
            second += 5
        first += 1


@pytest.mark.parametrize(
    "options",
    [
        {"max_pending": 5},
        {"count_pending": True},
        *(pytest.param(more, marks=pytest.mark.slow) for more in ({}, {"allow_self_duel": True, "estimator": "sgd"})),
    ],
)
def test_duels_of_a_batch_wait_all_or_none(options: dict[str, Any]) -> None:
    def prepared() -> fc.CoLSTIM:
        policy = fc.CoLSTIM(2, **{"ridge": 1.0, "exploration_rounds": 0, "allow_self_duel": False, "rng": 1, **options})
        for contexts in CONTEXTS[:3]:
            policy.select(contexts)
        return policy

    policy = prepared()
    states = [state(policy)]
    policy.select_batch(CONTEXTS[4], size=4)
    states.append(state(policy))
    seen = set()

    def build() -> Any:
        made = prepared()
        return made, lambda: made.select_batch(CONTEXTS[4], size=4)

    def check(made: fc.CoLSTIM, where: str) -> None:
        assert state(made) in states, where
        seen.add(states.index(state(made)))
        assert made.pending == len(made.pending_duels())

    at_every_line(build, check)
    assert seen == {0, 1}


def test_no_more_wait_than_may_although_one_was_not_given_up_in_time() -> None:
    def build() -> Any:
        made, _ = a_policy(max_pending=8)
        made.select_batch(CONTEXTS[8], size=4)
        return made, lambda: made.select(CONTEXTS[9])

    def check(made: fc.CoLSTIM, where: str) -> None:
        made.select(CONTEXTS[10])
        assert made.pending == 8, where

    at_every_line(build, check)


@pytest.mark.parametrize("name", ["winner", "ranking"])
def test_an_answer_to_a_set_is_learned_or_not(name: str) -> None:
    """With what is kept of it: choices go with their sizes, weights, rounds and raters."""

    def prepared() -> tuple[fc.CoLSTIM, fc.ShownSet]:
        policy = fc.CoLSTIM(2, ridge=1.0, rng=1)
        contexts = np.random.default_rng(1).normal(size=(5, 2))
        first = policy.select_set(contexts, 4)
        policy.update(first, ranking=first.arms, weight=2.0, rater="ann")
        return policy, policy.select_set(contexts, 4)

    def answer(policy: fc.CoLSTIM, shown: fc.ShownSet) -> None:
        given = {"winner": shown.arms[1]} if name == "winner" else {"ranking": shown.arms[::-1]}
        policy.update(shown, weight=3.0, rater="bob", **given)

    def all_of(policy: fc.CoLSTIM) -> list[Any]:
        told = policy.choices()
        kept = [rows.tolist() for rows in told.features], told.weights.tolist(), told.raters
        return [*kept, policy.theta.tolist(), policy.gram.tolist(), policy.pending]

    policy, shown = prepared()
    found = [all_of(policy)]
    answer(policy, shown)
    found.append(all_of(policy))
    seen = set()

    def build() -> Any:
        made = prepared()
        return made, lambda: answer(*made)

    def check(made: Any, where: str) -> None:
        policy, shown = made
        assert all_of(policy) in found, where
        seen.add(found.index(all_of(policy)))
        if policy.pending:
            answer(policy, shown)
        assert all_of(policy) == found[1], where

    at_every_line(build, check)
    assert seen == {0, 1}


def of_all(duels: list[fc.Duel]) -> np.ndarray:
    """M where all duels were answered with a weight of 1, or wait and count as if they were."""
    return np.eye(2) + sum(np.outer(duel.contrast, duel.contrast) for duel in duels)


@pytest.mark.parametrize("widths", ["gram", "information"])
@pytest.mark.parametrize("call", ["update", "select", "discard"])
def test_a_pair_that_waited_counts_once_whatever_ctrl_c_interrupts(call: str, widths: str) -> None:
    """In the M that choices are made by; and what was learned is in the policy's own M, with no pair that waits."""

    def build() -> Any:
        policy = fc.CoLSTIM(
            2, ridge=1.0, exploration_rounds=0, allow_self_duel=False, count_pending=True, widths=widths, rng=1
        )
        duels = [policy.select(contexts) for contexts in CONTEXTS[:4]]
        policy.update(duels[0], True)  # others wait, and are counted already
        calls: dict[str, Callable[[], object]] = {
            "update": lambda: policy.update(duels[1], True),
            "select": lambda: duels.append(policy.select(CONTEXTS[4])),
            "discard": lambda: policy.discard(duels[1]),
        }
        return (policy, duels), calls[call]

    def check(made: Any, where: str) -> None:
        policy, duels = made
        duels.append(policy.select(CONTEXTS[5]))
        policy.update(duels[2], False)
        waiting = {entry.token for entry in policy.pending_duels()}
        learned = set(policy.history().tokens)
        assert not waiting & learned, where
        here = [duel for duel in duels if duel.token in waiting | learned]
        assert len(here) + (call == "discard") >= len(duels) - 1, where
        if call != "select" or len(here) == len(waiting | learned):  # else its duel was shown, and nobody has it
            np.testing.assert_allclose(policy.gram, of_all(here), rtol=1e-12, err_msg=where)
        own = of_all([duel for duel in duels if duel.token in learned])
        np.testing.assert_allclose(state_of(policy).gram, own, rtol=1e-12, err_msg=where)

    at_every_line(build, check)


def test_reading_after_ctrl_c_counts_an_answer_that_was_learned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it comes when the kernel has learned and nothing of that is noted."""
    policy = fc.CoLSTIM(2, ridge=1.0, exploration_rounds=0, allow_self_duel=False, count_pending=True, rng=1)
    duels = [policy.select(contexts) for contexts in CONTEXTS[:3]]
    policy.update(duels[0], True)
    learn = policy._direct_learn

    def late(*given: Any) -> int:
        learn(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(policy, "_direct_learn", late)
        with pytest.raises(KeyboardInterrupt):
            policy.update(duels[1], True)
    np.testing.assert_allclose(policy.gram, of_all(duels), rtol=1e-12)
    duels.append(policy.select(CONTEXTS[3]))
    np.testing.assert_allclose(policy.gram, of_all(duels), rtol=1e-12)
    assert policy.pending == 2
