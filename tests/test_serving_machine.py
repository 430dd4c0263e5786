"""A policy in a service, whatever comes in whatever order: beside it stand a naive book and a policy never stopped."""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Hashable
from pathlib import Path
from typing import Any, NamedTuple

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
from fastcolst import reference
from fastcolst.reference.linalg import invertible

pytestmark = pytest.mark.either_lane

D, RATE, TAU, MOST = 3, 0.2, 3, 4
TOLERANCE, PRIOR = 1e-3, 0.3
"""Of MLE, in standard errors; and the ridge on its theta."""

PENDING, ANSWERED, DISCARDED, ALONE, FOREIGN = "pending", "answered", "discarded", "alone", "foreign"
ERRORS = {ANSWERED: fc.AlreadyAnsweredError, DISCARDED: fc.DiscardedError, FOREIGN: fc.ForeignDuelError}

SHARES = (0.0, 0.5, 1.0)
"""Of a win, that the first arm may have."""
WEIGHTS = (1.0, 0.3, 2.0)
RATERS = (None, "ann", 7)
TOO_MUCH = 1e308
"""The weight of an answer with which M overflows, where |z|^2 > 2."""

HANDED_IN = {
    "duel": lambda duel: duel,
    "token": lambda duel: duel.token,
    "json": lambda duel: fc.Duel.from_json(duel.to_json()),
    "pickle": lambda duel: pickle.loads(pickle.dumps(duel)),
}
"""As what a duel comes back."""

SPOILT = ("twice", "too late", "overflow")
"""What is wrong with a batch of answers."""

numbers, some = st.integers(0, 2**32), st.integers(0, 1000)


class Told(NamedTuple):
    """A comparison that was learned; the token is of the duel that it answers, and empty for one from a log."""

    contrast: np.ndarray
    share: float
    weight: float = 1.0
    rater: str | int | None = None
    token: str = ""

    def rows(self) -> list[Told]:
        """As a history lists it: duels as they were shown, of a log winners first, and nothing without a contrast."""
        if not self.contrast.any():
            return []
        if self.token:
            return [self]
        halves = (self.contrast, self.share), (-self.contrast, 1.0 - self.share)
        return [Told(z, 1.0, self.weight * part) for z, part in halves if part]


class Naive:
    """What a service would write down by itself: each duel and what became of it, every comparison that was learned."""

    def __init__(self, ridge: float) -> None:
        self.ridge = ridge
        self.duels: dict[str, fc.Duel] = {}
        self.became: dict[str, str] = {}
        self.learned: list[Told] = []
        self.n_answered = self.n_logged = self.n_shown = self.n_expired = self.n_alone = 0
        self.explores = True

    def with_status(self, *statuses: str) -> list[str]:
        return [token for token, status in self.became.items() if status in statuses]

    def waiting(self) -> list[str]:
        return self.with_status(PENDING)

    def begin_round(self) -> None:
        """An exploration that is long enough ends before a choice, or after what was learned, once M is invertible."""
        if self.n_shown + self.n_logged >= TAU and self.is_invertible():
            self.explores = False

    def show(self, duel: fc.Duel) -> None:
        assert duel.token not in self.became, "a token was shown before"
        self.duels[duel.token] = duel
        self.became[duel.token] = ALONE if duel.is_self else PENDING
        self.n_shown += 1
        self.n_alone += duel.is_self
        if len(self.waiting()) > MOST:
            self.became[self.waiting()[0]] = DISCARDED
            self.n_expired += 1

    def answer(self, token: str, share: float, weight: float, rater: str | int | None) -> None:
        self.became[token] = ANSWERED
        self.n_answered += 1
        self.learned.append(Told(self.duels[token].contrast, share, weight, rater, token))
        self.begin_round()

    def log(self, told: list[Told]) -> None:
        self.learned += told
        self.n_logged += len(told)
        self.begin_round()

    def retract(self, token: str) -> None:
        self.learned = [told for told in self.learned if told.token != token]
        self.n_answered -= 1
        self.explores = self.explores or not self.is_invertible()

    def gram(self) -> np.ndarray:
        return sum((w * np.outer(z, z) for z, _, w, *_ in self.learned), self.ridge * np.eye(D))

    def is_invertible(self) -> bool:
        return self.ridge > 0.0 or invertible(self.gram())

    def theta(self) -> np.ndarray:
        """Gradient steps of the logistic likelihood, the paper's equation (10)."""
        theta = np.zeros(D)
        for z, share, weight, *_ in self.learned:
            theta = theta + weight * RATE * (share - 1.0 / (1.0 + np.exp(-theta @ z))) * z
        return theta

    def log_of_answers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Contrasts (m, d), first arms' shares (m,) and weights (m,) of what taught anything."""
        told = [one for one in self.learned if one.contrast.any()]
        columns = ([one[k] for one in told] for k in range(3))
        contrasts, shares, weights = (np.array(column, float) for column in columns)
        return contrasts.reshape(-1, D), shares, weights


def some_arms(rng: np.random.Generator) -> np.ndarray:
    """Contexts of two to five arms, sometimes only of two kinds, so that some are equal."""
    n = int(rng.integers(2, 6))
    return rng.normal(size=(n, D)) if rng.random() < 0.7 else rng.normal(size=(2, D))[rng.integers(0, 2, n)]


def an_answer(rng: np.random.Generator) -> tuple[float, float]:
    return float(rng.choice(SHARES)), float(rng.choice(WEIGHTS))


def knowledge(policy: Any) -> tuple[bytes, ...]:
    """All that learning changes, to the last bit."""
    return policy.theta.tobytes(), policy.gram.tobytes(), policy.widths(np.eye(D)).tobytes()


class Service(RuleBasedStateMachine):
    """Steps that a service may take; ``stopped`` is saved, loaded, copied and forked, ``never`` is not."""

    estimator: Any = fc.SGD(RATE)
    keeps_history = False

    @initialize(seed=numbers, allow=st.booleans(), ridge=st.sampled_from([0.5, 0.0]))
    def begin(self, seed: int, allow: bool, ridge: float) -> None:
        parameters = {"ridge": ridge, "exploration_rounds": TAU, "max_pending": MOST, "allow_self_duel": allow}
        self.stopped, self.never = (
            fc.CoLSTIM(D, estimator=self.estimator, rng=seed % 7, **parameters) for _ in range(2)
        )
        self.allow, self.naive, self.others = allow, Naive(ridge), {}

    def both(self) -> tuple[Any, Any]:
        return self.stopped, self.never

    def waiting(self, which: int) -> str:
        return self.naive.waiting()[which % len(self.naive.waiting())]

    def has_waiting(self) -> bool:
        return hasattr(self, "naive") and bool(self.naive.waiting())

    def has_shown(self) -> bool:
        return hasattr(self, "naive") and bool(self.naive.became)

    def has_answered(self) -> bool:
        return hasattr(self, "naive") and bool(self.naive.with_status(ANSWERED))

    def other_of(self, token: str) -> str:
        """The token by which the policy that never stopped knows the duel."""
        return self.others[token]

    def show(self, duel: fc.Duel, other: fc.Duel, contexts: np.ndarray, names: list[Hashable] | None) -> None:
        """Note a duel of some arms, which both policies chose."""
        assert (duel.first, duel.second, duel.round) == (other.first, other.second, other.round)
        assert duel.contrast.tobytes() == (contexts[duel.first] - contexts[duel.second]).tobytes()
        keys = (None, None) if names is None else (names[duel.first], names[duel.second])
        assert (duel.first_key, duel.second_key) == (other.first_key, other.second_key) == keys
        self.naive.begin_round()
        self.naive.show(duel)
        self.others[duel.token] = other.token

    @rule(seed=numbers, named=st.sampled_from([None, "keys", "dict"]), masked=st.booleans())
    def select(self, seed: int, named: str | None, masked: bool) -> None:
        rng = np.random.default_rng(seed)
        contexts = some_arms(rng)
        n = len(contexts)
        names: list[Hashable] | None = None if named is None else [("item", k) if k % 2 else f"{k}" for k in range(n)]
        arms = dict(zip(names, contexts, strict=True)) if names and named == "dict" else contexts
        given: dict[str, Any] = {"keys": names} if named == "keys" else {}
        mask = np.ones(n, bool)
        if masked:
            given["available"] = mask = rng.permutation(np.arange(n) < rng.integers(1, n + 1))
        if mask.sum() == 1 and not self.allow:
            for policy in self.both():
                with pytest.raises(ValueError, match="available has 1 arm"):
                    policy.select(arms, **given)
            return
        duel, other = (policy.select(arms, **given) for policy in self.both())
        assert mask[duel.first] and mask[duel.second]
        assert not duel.is_self or self.allow
        self.show(duel, other, contexts, names)

    @rule(seed=numbers, size=st.integers(1, MOST + 1), deep=st.booleans(), named=st.booleans())
    def select_batch(self, seed: int, size: int, deep: bool, named: bool) -> None:
        contexts = some_arms(rng := np.random.default_rng(seed))
        pools = rng.normal(size=(size, *contexts.shape)) if deep else np.array([contexts] * size)
        names: list[Hashable] | None = [f"{k}" for k in range(len(contexts))] if named and not deep else None
        given = (pools,) if deep else (contexts if names is None else dict(zip(names, contexts, strict=True)), size)
        if size > MOST:
            for policy in self.both():
                with pytest.raises(ValueError, match="max_pending"):
                    policy.select_batch(*given)
            return
        before = [policy.gram.tobytes() for policy in self.both()]
        batches = [policy.select_batch(*given) for policy in self.both()]
        assert before == [policy.gram.tobytes() for policy in self.both()]
        for duel, other, pool in zip(*batches, pools, strict=True):
            self.show(duel, other, pool, names)

    @precondition(has_waiting)
    @rule(
        which=some,
        how=st.sampled_from(sorted(HANDED_IN)),
        share=st.sampled_from(SHARES),
        weight=st.sampled_from(WEIGHTS),
        rater=st.sampled_from(RATERS),
    )
    def answer(self, which: int, how: str, share: float, weight: float, rater: Any) -> None:
        token = self.waiting(which)
        given = {} if weight == 1.0 else {"weight": weight}
        if self.keeps_history:
            given["rater"] = rater
        self.stopped.update(HANDED_IN[how](self.naive.duels[token]), share, **given)
        self.never.update(self.other_of(token), share, **given)
        self.naive.answer(token, share, weight, given.get("rater"))

    @precondition(has_waiting)
    @rule(seed=numbers, how=st.sampled_from(sorted(HANDED_IN)), weighted=st.booleans())
    def answer_batch(self, seed: int, how: str, weighted: bool) -> None:
        """All at once, which is one after the other; self-duels may be among them."""
        rng = np.random.default_rng(seed)
        tokens = [str(token) for token in rng.permutation(self.naive.with_status(PENDING, ALONE))][: MOST + 1]
        shares, weights = zip(*(an_answer(rng) for _ in tokens), strict=True)
        weights = weights if weighted else (1.0,) * len(tokens)
        shown = [HANDED_IN[how](self.naive.duels[token]) for token in tokens]
        self.stopped.update_batch(shown, shares, *([weights] if weighted else []))
        for token, share, weight in zip(tokens, shares, weights, strict=True):
            self.never.update(self.other_of(token), share, weight)
            if self.naive.became[token] == PENDING:
                self.naive.answer(token, share, weight, None)

    @precondition(has_waiting)
    @rule(seed=numbers, how=st.sampled_from(SPOILT))
    def answer_batch_in_vain(self, seed: int, how: str) -> None:
        """One that is wrong comes last: nothing is learned of the others either."""
        rng, naive = np.random.default_rng(seed), self.naive
        tokens = [str(token) for token in rng.permutation(naive.waiting())]
        weights = [an_answer(rng)[1] for _ in tokens]
        if how == "overflow":
            tokens.sort(key=lambda token: np.sum(naive.duels[token].contrast ** 2))
            if np.sum(naive.duels[tokens[-1]].contrast ** 2) <= 2.0:
                return
            weights[-1] = TOO_MUCH
        else:
            wrong = naive.with_status(ANSWERED, DISCARDED, FOREIGN) if how == "too late" else tokens[:1]
            if not wrong:
                return
            tokens, weights = [*tokens, wrong[seed % len(wrong)]], [*weights, 1.0]
        with pytest.raises(ValueError, match="wanted"):
            self.stopped.update_batch(tokens, [1.0] * len(tokens), weights)

    @precondition(has_waiting)
    @rule(which=some, how=st.sampled_from(sorted(HANDED_IN)))
    def discard(self, which: int, how: str) -> None:
        token = self.waiting(which)
        self.stopped.discard(HANDED_IN[how](self.naive.duels[token]))
        self.never.discard(self.other_of(token))
        self.naive.became[token] = DISCARDED

    @precondition(has_shown)
    @rule(
        which=some,
        how=st.sampled_from(sorted(HANDED_IN)),
        share=st.sampled_from(SHARES),
        weight=st.sampled_from(WEIGHTS),
    )
    def answer_too_late(self, which: int, how: str, share: float, weight: float) -> None:
        gone = self.naive.with_status(ANSWERED, DISCARDED, ALONE, FOREIGN)
        if not gone:
            return
        token = gone[which % len(gone)]
        duel, status = self.naive.duels[token], self.naive.became[token]
        if status == ALONE:
            self.stopped.update(HANDED_IN[how](duel), share, weight)
            with pytest.raises(ValueError, match="self-duel"):
                self.stopped.discard(HANDED_IN[how](duel))
            return
        for call in (lambda given: self.stopped.update(given, share, weight), self.stopped.discard):
            with pytest.raises(ERRORS[status]):
                call(HANDED_IN[how](duel))

    @precondition(has_answered)
    @rule(seed=numbers, how=st.sampled_from(sorted(HANDED_IN)), n=st.integers(1, 5))
    def retract(self, seed: int, how: str, n: int) -> None:
        """Take out answers that were learned; those without a contrast were not."""
        naive = self.naive
        for token in map(str, np.random.default_rng(seed).permutation(naive.with_status(ANSWERED))[:n]):
            shown = HANDED_IN[how](naive.duels[token])
            if not self.keeps_history:
                with pytest.raises(AttributeError, match="has no retract"):
                    self.stopped.retract(shown)
            elif any(row.token == token for told in naive.learned for row in told.rows()):
                self.stopped.retract(shown)
                self.never.retract(self.other_of(token))
                naive.retract(token)
            else:
                with pytest.raises(ValueError, match="has taught nothing"):
                    self.stopped.retract(shown)

    @precondition(has_shown)
    @rule(which=some, how=st.sampled_from(sorted(HANDED_IN)))
    def retract_in_vain(self, which: int, how: str) -> None:
        unlearned = self.naive.with_status(PENDING, DISCARDED, ALONE, FOREIGN)
        if self.keeps_history and unlearned:
            token = unlearned[which % len(unlearned)]
            is_foreign = self.naive.became[token] == FOREIGN
            error, told = (fc.ForeignDuelError, "wanted") if is_foreign else (ValueError, "has taught nothing")
            with pytest.raises(error, match=told):
                self.stopped.retract(HANDED_IN[how](self.naive.duels[token]))

    @rule(seed=numbers, n=st.integers(1, 3), weighted=st.booleans(), stated=st.booleans())
    def learn(self, seed: int, n: int, weighted: bool, stated: bool) -> None:
        rng = np.random.default_rng(seed)
        winners, losers = rng.normal(size=(2, n, D))
        shares = rng.choice([*SHARES, 0.25], n) if stated else np.ones(n)
        weights = rng.choice(WEIGHTS, n) if weighted else np.ones(n)
        for policy in self.both():
            policy.learn(winners, losers, weights if weighted else None, shares if stated else None)
        rows = zip(winners - losers, shares.tolist(), weights.tolist(), strict=True)
        self.naive.log([Told(*row) for row in rows])

    @rule()
    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "policy.npz"
            self.stopped.save(path)
            left, self.stopped = self.stopped, fc.load_policy(path)
        self.show_foreign(left)

    @rule(how=st.sampled_from([copy.copy, copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))]))
    def go_on_with_a_copy(self, how: Any) -> None:
        left, self.stopped = self.stopped, how(self.stopped)
        self.show_foreign(left)

    def show_foreign(self, left: Any) -> None:
        """What was left behind shows a duel yet, as a worker does that is stopped after its last save."""
        duel = left.select(np.eye(D))
        assert duel.token not in self.naive.became, "a token was shown before"
        self.naive.duels[duel.token], self.naive.became[duel.token] = duel, FOREIGN

    @rule(seed=numbers, worker=st.integers(0, 3))
    def fork_and_bring_back(self, seed: int, worker: int) -> None:
        fork = self.stopped.fork(worker)
        summary = fork.summary()
        assert (fork.pending, fork.round, fork.expired, fork.pending_duels()) == (0, self.stopped.round, 0, [])
        assert (summary.pending, summary.self_duels, summary.duels) == (0, 0, self.naive.n_answered)
        assert knowledge(fork) == knowledge(self.stopped)
        for token in self.naive.waiting():
            for call in (lambda given: fork.update(given, True), fork.discard):
                with pytest.raises(fc.ForeignDuelError):
                    call(token)
        rng = np.random.default_rng(seed)
        contexts, (share, weight) = some_arms(rng), an_answer(rng)
        duel = fork.select(contexts)
        self.naive.duels[duel.token], self.naive.became[duel.token] = duel, FOREIGN
        if duel.is_self:
            return
        fork.update(duel, share, weight)
        for policy in self.both():
            policy.learn(contexts[[duel.first]], contexts[[duel.second]], [weight], [share])
        self.naive.log([Told(duel.contrast, share, weight)])
        assert fork.gram.tobytes() == self.stopped.gram.tobytes()

    @invariant()
    def it_stands_as_it_should(self) -> None:
        if hasattr(self, "naive"):
            summary = self.stopped.summary()  # which says all, and finds an exact estimate but once
            self.check_counts(summary)
            self.check_knowledge(summary.theta)

    def check_counts(self, summary: fc.Summary) -> None:
        naive = self.naive
        waiting = naive.waiting()
        assert (summary.rounds, summary.duels, summary.logged) == (naive.n_shown, naive.n_answered, naive.n_logged)
        assert (summary.self_duels, summary.pending) == (naive.n_alone, len(waiting))
        assert (summary.status == "exploring") == naive.explores
        for policy in self.both():
            assert (policy.round, policy.expired) == (naive.n_shown, naive.n_expired)
            assert policy.pending == len(policy.pending_duels()) == len(waiting) <= MOST
        listed = self.stopped.pending_duels()
        assert [one.token for one in listed] == waiting
        duels = [naive.duels[token] for token in waiting]
        assert [one.arms for one in listed] == [(duel.first, duel.second) for duel in duels]
        assert [one.keys for one in listed] == [(duel.first_key, duel.second_key) for duel in duels]
        assert [one.age for one in listed] == [naive.n_shown - duel.round for duel in duels]

    def check_knowledge(self, theta: np.ndarray) -> None:
        gram, exact = self.stopped.gram, self.naive.gram()
        np.testing.assert_allclose(gram, exact, rtol=1e-10, atol=1e-10)
        assert np.array_equal(gram, gram.T)
        least, *_, most = np.linalg.eigvalsh(gram)
        assert least > 0.0 if self.naive.is_invertible() else least >= -1e-14 * max(most, 1.0)
        widths = self.stopped.widths(np.eye(D))
        if np.isfinite(widths).all():
            condition = most / least
            np.testing.assert_allclose(widths**2, np.diag(np.linalg.inv(exact)), rtol=1e-13 * condition + 1e-10)
        else:
            assert self.naive.explores and self.naive.ridge == 0.0
        assert np.isfinite(theta).all()
        assert (theta.tobytes(), gram.tobytes(), widths.tobytes()) == knowledge(self.never)
        self.check_theta(theta)

    def check_theta(self, theta: np.ndarray) -> None:
        np.testing.assert_allclose(theta, self.naive.theta(), rtol=1e-9, atol=1e-9)


class ExactService(Service):
    """With an estimator that keeps its history."""

    estimator = fc.MLE(TOLERANCE, ridge=PRIOR)
    keeps_history = True

    def check_theta(self, theta: np.ndarray) -> None:
        contrasts, shares, weights = self.naive.log_of_answers()
        if not len(contrasts):
            assert not theta.any()
            return
        exact = reference.fit(contrasts, shares * weights, weights, comparison=reference.BradleyTerry(), ridge=PRIOR)
        assert exact.distance(theta) <= TOLERANCE

    @invariant()
    def the_history_is_what_was_learned(self) -> None:
        if not hasattr(self, "naive"):
            return
        rows = [row for told in self.naive.learned for row in told.rows()]
        if not rows:
            with pytest.raises(ValueError, match="history is empty"):
                self.stopped.history()
            return
        log, other = self.stopped.history(), self.never.history()
        contrasts, shares, weights, raters, tokens = zip(*rows, strict=True)
        assert log.contrasts.tobytes() == other.contrasts.tobytes()
        np.testing.assert_array_equal(log.contrasts, contrasts)
        assert log.wins.tolist() == other.wins.tolist() == list(shares)
        assert log.weights.tolist() == other.weights.tolist() == list(weights)
        assert log.raters == other.raters == raters and log.tokens == tokens

    @rule()
    def fit_anew(self) -> None:
        contrasts, shares, weights = self.naive.log_of_answers()
        if len(contrasts):
            found = fc.fit(contrasts, shares, weights=weights, ridge=PRIOR)
            difference = self.stopped.theta - found.theta
            assert difference @ np.linalg.solve(found.covariance, difference) <= (1.1 * TOLERANCE) ** 2


@pytest.mark.filterwarnings("ignore:CoLSTIM still explores:UserWarning")
@pytest.mark.parametrize(("machine", "examples"), [(Service, rounds(100, 80)), (ExactService, rounds(100, 12))])
def test_whatever_comes_in_whatever_order(machine: Any, examples: int) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=25, deadline=None))
