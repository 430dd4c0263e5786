"""A policy in a service, whatever comes in whatever order: beside it stand a naive book and a policy never stopped."""

from __future__ import annotations

import copy
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import rounds
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import fastcolst as fc

pytestmark = pytest.mark.either_lane

D, RATE, RIDGE, MOST = 3, 0.2, 0.5, 4
PENDING, ANSWERED, DISCARDED, ALONE, FOREIGN = "pending", "answered", "discarded", "alone", "foreign"
ERRORS = {ANSWERED: fc.AlreadyAnsweredError, DISCARDED: fc.DiscardedError, FOREIGN: fc.ForeignDuelError}

SHARES = (0.0, 1.0)
"""Of a win, that the first arm may have."""

HANDED_IN = {
    "duel": lambda duel: duel,
    "token": lambda duel: duel.token,
    "json": lambda duel: fc.Duel.from_json(duel.to_json()),
    "pickle": lambda duel: pickle.loads(pickle.dumps(duel)),
}
"""As what a duel comes back."""

numbers, some = st.integers(0, 2**32), st.integers(0, 1000)


class Naive:
    """What a service would write down by itself: each duel and what became of it, every comparison that was learned."""

    def __init__(self) -> None:
        self.duels: dict[str, fc.Duel] = {}
        self.became: dict[str, str] = {}
        self.learned: list[tuple[np.ndarray, float, float]] = []
        self.n_answered = self.n_logged = self.n_shown = self.n_expired = 0

    def waiting(self) -> list[str]:
        return [token for token, status in self.became.items() if status == PENDING]

    def show(self, duel: fc.Duel) -> None:
        assert duel.token not in self.became, "a token was shown before"
        self.duels[duel.token] = duel
        self.became[duel.token] = ALONE if duel.is_self else PENDING
        self.n_shown += 1
        if len(self.waiting()) > MOST:
            self.became[self.waiting()[0]] = DISCARDED
            self.n_expired += 1

    def learn(self, contrast: np.ndarray, share: float, weight: float) -> None:
        self.learned.append((contrast, share, weight))

    def gram(self) -> np.ndarray:
        return RIDGE * np.eye(D) + sum((w * np.outer(z, z) for z, _, w in self.learned), np.zeros((D, D)))

    def theta(self) -> np.ndarray:
        """Gradient steps of the logistic likelihood, the paper's equation (10)."""
        theta = np.zeros(D)
        for z, share, weight in self.learned:
            theta = theta + weight * RATE * (share - 1.0 / (1.0 + np.exp(-theta @ z))) * z
        return theta


class Service(RuleBasedStateMachine):
    """Steps that a service may take; ``stopped`` is saved, loaded, copied and forked, ``never`` is not."""

    estimator: Any = fc.SGD(RATE)

    @initialize(seed=numbers, allow=st.booleans())
    def begin(self, seed: int, allow: bool) -> None:
        parameters = {"ridge": RIDGE, "exploration_rounds": 3, "max_pending": MOST, "allow_self_duel": allow}
        self.stopped, self.never = (
            fc.CoLSTIM(D, estimator=self.estimator, rng=seed % 7, **parameters) for _ in range(2)
        )
        self.naive, self.others = Naive(), {}

    def waiting(self, which: int) -> str:
        return self.naive.waiting()[which % len(self.naive.waiting())]

    def has_waiting(self) -> bool:
        return hasattr(self, "naive") and bool(self.naive.waiting())

    def other_of(self, token: str) -> str:
        """The token by which the policy that never stopped knows the duel."""
        return self.others[token]

    @rule(seed=numbers)
    def select(self, seed: int) -> None:
        contexts = np.random.default_rng(seed).normal(size=(4, D))
        duel, other = self.stopped.select(contexts), self.never.select(contexts)
        assert (duel.first, duel.second, duel.round) == (other.first, other.second, other.round)
        assert duel.contrast.tobytes() == other.contrast.tobytes()
        self.naive.show(duel)
        self.others[duel.token] = other.token

    @precondition(has_waiting)
    @rule(which=some, how=st.sampled_from(sorted(HANDED_IN)), share=st.sampled_from(SHARES))
    def answer(self, which: int, how: str, share: float) -> None:
        token = self.waiting(which)
        duel = self.naive.duels[token]
        self.stopped.update(HANDED_IN[how](duel), share)
        self.never.update(self.other_of(token), share)
        self.naive.became[token] = ANSWERED
        self.naive.n_answered += 1
        self.naive.learn(duel.contrast, share, 1.0)

    @precondition(has_waiting)
    @rule(which=some, how=st.sampled_from(sorted(HANDED_IN)))
    def discard(self, which: int, how: str) -> None:
        token = self.waiting(which)
        self.stopped.discard(HANDED_IN[how](self.naive.duels[token]))
        self.never.discard(self.other_of(token))
        self.naive.became[token] = DISCARDED

    @rule(which=some, how=st.sampled_from(sorted(HANDED_IN)))
    def answer_too_late(self, which: int, how: str) -> None:
        gone = [token for token, status in self.naive.became.items() if status != PENDING]
        if not gone:
            return
        token = gone[which % len(gone)]
        duel, status = self.naive.duels[token], self.naive.became[token]
        if status == ALONE:
            self.stopped.update(HANDED_IN[how](duel), True)
            return
        for call in (lambda given: self.stopped.update(given, True), self.stopped.discard):
            with pytest.raises(ERRORS[status]):
                call(HANDED_IN[how](duel))

    @rule(seed=numbers, n=st.integers(1, 3))
    def learn(self, seed: int, n: int) -> None:
        winners, losers = np.random.default_rng(seed).normal(size=(2, n, D))
        for policy in (self.stopped, self.never):
            policy.learn(winners, losers)
        for z in winners - losers:
            self.naive.learn(z, 1.0, 1.0)
        self.naive.n_logged += n

    @rule()
    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "policy.npz"
            self.stopped.save(path)
            self.stopped = fc.load_policy(path)

    @rule(how=st.sampled_from([copy.copy, copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))]))
    def go_on_with_a_copy(self, how: Any) -> None:
        left, self.stopped = self.stopped, how(self.stopped)
        duel = left.select(np.eye(D))
        self.naive.duels[duel.token], self.naive.became[duel.token] = duel, FOREIGN

    @rule(seed=numbers, worker=st.integers(0, 3))
    def fork_and_bring_back(self, seed: int, worker: int) -> None:
        fork = self.stopped.fork(worker)
        assert (fork.pending, fork.round, fork.expired) == (0, self.stopped.round, 0)
        assert fork.theta.tobytes() == self.stopped.theta.tobytes()
        for token, status in self.naive.became.items():
            if status == PENDING:
                with pytest.raises(fc.ForeignDuelError):
                    fork.update(token, True)
        contexts = np.random.default_rng(seed).normal(size=(4, D))
        duel = fork.select(contexts)
        self.naive.duels[duel.token], self.naive.became[duel.token] = duel, FOREIGN
        if duel.is_self:
            return
        fork.update(duel, True)
        for policy in (self.stopped, self.never):
            policy.learn(contexts[[duel.first]], contexts[[duel.second]])
        self.naive.learn(duel.contrast, 1.0, 1.0)
        self.naive.n_logged += 1

    @invariant()
    def the_counts_are_exact(self) -> None:
        if not hasattr(self, "naive"):
            return
        for policy in (self.stopped, self.never):
            assert (policy.round, policy.expired) == (self.naive.n_shown, self.naive.n_expired)
            assert policy.pending == len(policy.pending_duels()) == len(self.naive.waiting()) <= MOST
            counters = policy._state.counters
            assert (counters["answered"], counters["logged"]) == (self.naive.n_answered, self.naive.n_logged)
        listed = self.stopped.pending_duels()
        assert [one.token for one in listed] == self.naive.waiting()
        assert [one.age for one in listed] == [self.naive.n_shown - self.naive.duels[one.token].round for one in listed]

    @invariant()
    def what_is_known_is_what_was_learned(self) -> None:
        if not hasattr(self, "naive"):
            return
        gram, theta = self.stopped.gram, self.stopped.theta
        np.testing.assert_allclose(gram, self.naive.gram(), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(gram, gram.T, rtol=1e-14)
        assert np.linalg.eigvalsh(gram)[0] > 0.0
        assert np.isfinite(theta).all() and theta.tobytes() == self.never.theta.tobytes()
        assert gram.tobytes() == self.never.gram.tobytes()
        if isinstance(self.estimator, fc.SGD):
            np.testing.assert_allclose(theta, self.naive.theta(), rtol=1e-9, atol=1e-9)


class ExactService(Service):
    estimator = fc.MLE(1e-3)


@pytest.mark.parametrize(("machine", "examples"), [(Service, rounds(200, 50)), (ExactService, rounds(40, 3))])
def test_whatever_comes_in_whatever_order(machine: Any, examples: int) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=25, deadline=None))
