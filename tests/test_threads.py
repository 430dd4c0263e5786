"""Threads that share a policy: calls take turns, whatever they are."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from conftest import rounds
from inside import index_twin_of

import fastcolst as fc

N_THREADS, N_ARMS = 8, 10

POLICIES: dict[str, Callable[..., fc.Policy]] = {
    "CoLSTIM": lambda **given: fc.CoLSTIM(3, ridge=1.0, estimator="sgd", **given),
    # kernels that test_contract compiles as well
    "MaxInP": lambda **given: fc.MaxInP(3, ridge=1.0, estimator="online-newton", comparison="exponential", **given),
    "SupCoLSTIM": lambda **given: fc.SupCoLSTIM(3, ridge=1.0, horizon=64, exploration_rounds=100, **given),
    "DoubleThompson": fc.DoubleThompson,
    "SelfSparring": fc.SelfSparring,
    "UniformPairs": fc.UniformPairs,
}


@pytest.fixture(autouse=True)
def eager_switches() -> Iterator[None]:
    """Let threads take turns as often as Python allows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def whole_numbers(seed: int) -> np.ndarray:
    """Contexts of small whole numbers, whose products sum to the same M in every order."""
    return np.random.default_rng(seed).integers(-2, 3, (N_ARMS, 3)).astype(float)


ROWS = np.vstack([np.eye(3), np.eye(3) + np.eye(3)[[1, 2, 0]]])
"""Contexts whose widths determine M."""


def widths_of(gram: np.ndarray) -> np.ndarray:
    """Those that `ROWS` have by M; a policy finds them by a factor, which may be neither ahead of M nor behind it."""
    return np.sqrt(np.diag(ROWS @ np.linalg.inv(gram) @ ROWS.T))


def in_threads(work: Callable[[int], Any]) -> list[Any]:
    """What ``work(0)`` to ``work(7)`` return, each in a thread of its own, begun together."""
    gate = threading.Barrier(N_THREADS)

    def begin(i: int) -> Any:
        gate.wait()
        return work(i)

    with ThreadPoolExecutor(N_THREADS) as executor:
        return [future.result() for future in [executor.submit(begin, i) for i in range(N_THREADS)]]


@pytest.mark.parametrize("n_arms", [None, N_ARMS])
@pytest.mark.parametrize("name", POLICIES)
def test_threads_share_a_policy_and_every_answer_counts_once(name: str, n_arms: int | None) -> None:
    policy = POLICIES[name](n_arms=n_arms, rng=1)
    n_rounds = rounds(400, 12)

    def serve(i: int) -> tuple[int, np.ndarray]:
        rng, asked, moments = np.random.default_rng(i), 0, np.zeros((3, 3))
        for k in range(n_rounds):
            duel = policy.select(whole_numbers(1000 * i + k))
            if not duel.is_self and rng.random() < 0.1:
                policy.discard(duel)
            elif not duel.is_self:
                policy.update(duel, bool(rng.random() < 0.6))
                asked += 1
                moments += np.outer(duel.contrast, duel.contrast)
        return asked, moments

    served = in_threads(serve)
    assert (policy.round, policy.pending) == (N_THREADS * n_rounds, 0)
    if hasattr(policy, "gram") and name != "SupCoLSTIM":  # there M holds the answers of one stage
        np.testing.assert_array_equal(policy.gram, np.eye(3) + sum(moments for _, moments in served))
    if name == "DoubleThompson":
        assert index_twin_of(policy).wins.sum() == sum(asked for asked, _ in served)


@pytest.mark.parametrize("name", ["CoLSTIM", "DoubleThompson"])
def test_copies_made_while_others_learn_are_whole(name: str) -> None:
    policy = POLICIES[name](rng=1)
    n_rounds = rounds(150, 10)

    def serve(i: int) -> list[fc.Policy]:
        copies = []
        for k in range(n_rounds):
            if i % 2 and k % 10 == 0:
                copies.append(deepcopy(policy) if i % 4 == 1 else pickle.loads(pickle.dumps(policy)))
            else:
                duel = policy.select(whole_numbers(1000 * i + k))
                policy.update(duel, True)
        return copies

    for twin in [twin for copies in in_threads(serve) for twin in copies]:
        n_learned = twin.round - twin.pending
        if name == "DoubleThompson":
            assert index_twin_of(twin).wins.sum() <= n_learned
        else:
            np.testing.assert_allclose(twin.widths(ROWS), widths_of(twin.gram), rtol=1e-9)
        duel = twin.select(whole_numbers(0))
        twin.update(duel, True)


def test_threads_that_meet_on_the_first_round_agree_on_the_number_of_arms() -> None:
    for seed in range(rounds(50, 5)):
        policy = fc.DoubleThompson(rng=seed)

        def serve(i: int, policy: fc.Policy = policy) -> str:
            try:
                policy.select(np.eye(3 + i))
            except ValueError as error:
                return str(error)
            return "chosen"

        told = in_threads(serve)
        assert told.count("chosen") == 1
        assert all("this policy was built for n_arms=" in text for text in told if text != "chosen")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_finds_the_policy_free_and_whole() -> None:
    policy = POLICIES["CoLSTIM"](rng=1)
    policy.update(policy.select(whole_numbers(0)), True)
    stop = threading.Event()

    def serve() -> None:
        k = 0
        while not stop.is_set():
            k += 1
            policy.update(policy.select(whole_numbers(k)), True)

    threads = [threading.Thread(target=serve) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(rounds(12, 3)):
            child = os.fork()
            if child == 0:
                good = np.allclose(policy.widths(ROWS), widths_of(policy.gram), rtol=1e-9)
                before = policy.round
                policy.update(policy.select(whole_numbers(1)), True)
                os._exit(0 if good and policy.round == before + 1 else 1)
            for _ in range(600):
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    break
                time.sleep(0.05)
            else:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                pytest.fail("the child waits for a lock that nobody holds")
            assert status == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_ctrl_c_while_a_fork_waits_comes_afterwards() -> None:
    policy = POLICIES["CoLSTIM"](rng=1)
    policy.select(whole_numbers(0))
    begun, done = threading.Event(), threading.Event()

    def hold() -> None:
        with policy._lock:
            begun.set()
            done.wait(10.0)

    def interrupt() -> None:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        done.set()

    threads = [threading.Thread(target=hold), threading.Thread(target=interrupt)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    children = []

    def fork_and_wait() -> None:
        children.append(os.fork())
        if children[0] == 0:
            os._exit(0 if policy.round == 1 and policy._lock.acquire(timeout=5.0) else 1)
        time.sleep(5.0)

    try:
        for thread in threads:
            thread.start()
        begun.wait()
        with pytest.raises(KeyboardInterrupt):
            fork_and_wait()
    finally:
        signal.signal(signal.SIGINT, before)
        for thread in threads:
            thread.join()
    assert os.waitpid(children[0], 0)[1] == 0
    again = os.fork()  # nothing is held any more
    if again == 0:
        os._exit(0)
    assert os.waitpid(again, 0)[1] == 0


def test_a_policy_may_ask_another_one_for_its_contexts() -> None:
    """What a caller's object does when it becomes an array is done before a policy takes its lock."""
    first, second = (POLICIES["CoLSTIM"](rng=seed) for seed in range(2))

    class Asks:
        def __init__(self, whom: fc.Policy) -> None:
            self.whom = whom

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return self.whom.utilities(whole_numbers(0))[:, None] + whole_numbers(1)

    def serve(i: int) -> int:
        policy, other = (first, second) if i % 2 else (second, first)
        for _ in range(rounds(100, 5)):
            policy.select(Asks(other))
        return policy.round

    in_threads(serve)
    assert first.round == second.round == N_THREADS // 2 * rounds(100, 5)


@pytest.mark.jit
@pytest.mark.parametrize("policy", [fc.CoLSTIM, fc.StaD])
def test_no_kernel_hands_python_a_tuple_of_ours(policy):
    """Numba builds one by a function in Python and does not look whether that failed: Ctrl-C there ends the process."""
    rng, built = np.random.default_rng(0), []
    ours = policy(3, horizon=1000, exploration_rounds=20, rng=1)

    def used():
        winners, losers = rng.normal(size=(2, 100, 3))
        ours.learn(winners, losers)
        for _ in range(60):
            duel = ours.select(rng.normal(size=(4, 3)))
            ours.update(duel, bool(duel.contrast[0] > 0))
        return ours.theta, ours.status, ours.audit(), ours.probability(winners, losers)

    def profile(frame, event, _):
        if event == "call" and frame.f_code.co_name == "_numba_unpickle":
            built.append(frame.f_back.f_code.co_name)

    used()
    sys.setprofile(profile)
    try:
        used()
    finally:
        sys.setprofile(None)
    assert built == []
