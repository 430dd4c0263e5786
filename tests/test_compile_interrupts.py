"""Ctrl-C waits while machine code is made, or called with a generator."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
from inside import handled_by, signalled
from numba.core import compiler
from numba.experimental import structref

import fastcolst as fc
from fastcolst._compile import handles, interrupts, uninterrupted
from fastcolst.policies.kernels import agent_is_stale

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX signals")


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def _as_in_a_program():
    with handled_by(signal.SIGINT, signal.default_int_handler):
        yield


@pytest.mark.jit
def test_a_kernel_whose_compilation_is_interrupted_is_whole(tiny, monkeypatch):
    kernels, compile_extra = tiny.load(), compiler.compile_extra

    def interrupted(*arguments, **options):
        interrupt()
        return compile_extra(*arguments, **options)

    monkeypatch.setattr(compiler, "compile_extra", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kernels.climb(kernels.Hill(2.0), 3.0)
    monkeypatch.setattr(compiler, "compile_extra", None)
    assert kernels.climb(kernels.Hill(2.0), 3.0) == 7.0


@pytest.mark.jit
def test_a_policy_whose_history_grows_goes_on_after_an_interrupt(monkeypatch):
    make, interrupts_left = handles._agent, 1

    def interrupted(*parts):
        nonlocal interrupts_left
        if interrupts_left and policy.round > 100:
            interrupts_left -= 1
            interrupt()
        return make(*parts)

    policy = fc.CoLSTIM(2, ridge=1.0, exploration_rounds=0, allow_self_duel=False, rng=1)
    monkeypatch.setattr(handles, "_agent", interrupted)
    for _ in range(5000):
        duel = policy.select(np.eye(2))
        try:
            policy.update(duel, True)
        except KeyboardInterrupt:
            policy.update(duel, True)
    assert not interrupts_left and len(policy.history()) == policy.round == 5000


@pytest.mark.jit
def test_no_python_is_run_to_find_the_type_of_a_policys_handle():
    """For Numba drops what is raised there."""
    policy = fc.UniformPairs(rng=1)
    policy.select(np.eye(3))
    agent_is_stale(policy._agent)  # compiles
    assert not signalled(lambda: agent_is_stale(policy._agent), signal.SIGINT, 0, structref.__file__)


@pytest.mark.either_lane
@pytest.mark.parametrize("error", [None, RuntimeError("no code")])
def test_an_interrupt_comes_up_at_the_end_whatever_else_went_wrong(error):
    reached = []

    def twice():
        interrupt()
        interrupt()

    def work():
        uninterrupted(twice)
        reached.append(True)
        if error:
            raise error

    with pytest.raises(KeyboardInterrupt) as found:
        uninterrupted(work)
    assert reached and found.value.__context__ is error
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.either_lane
def test_what_was_interrupted_is_not_kept():
    class Large:
        """Something that a reference can look at."""

    kept = []

    def work():
        large = Large()
        kept.append(weakref.ref(large))
        interrupt()

    gc.collect()
    gc.disable()
    try:
        with pytest.raises(KeyboardInterrupt):
            uninterrupted(work)
        assert kept[0]() is None
    finally:
        gc.enable()


@pytest.mark.either_lane
def test_other_handlers_are_called_at_once_and_what_they_raise_comes_up_at_the_end():
    came = []

    def handler(number, frame):
        came.append((number, frame.f_code.co_name))
        raise SystemExit(3)

    def work():
        interrupt()
        came.append("the end")

    signal.signal(signal.SIGINT, handler)
    with pytest.raises(SystemExit, match="3"):
        uninterrupted(work)
    assert came == [(signal.SIGINT, "interrupt"), "the end"]
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.either_lane
def test_a_handler_that_is_set_meanwhile_stays_and_others_are_left_alone():
    uninterrupted(signal.signal, signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    uninterrupted(interrupt)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.either_lane
def test_a_handler_that_somebody_keeps_and_sets_again_interrupts_at_once():
    kept = uninterrupted(signal.getsignal, signal.SIGINT)
    signal.signal(signal.SIGINT, kept)
    with pytest.raises(KeyboardInterrupt):
        interrupt()


@pytest.mark.either_lane
def test_what_other_signals_raise_leaves_the_handler_as_it_was():
    def alarm(*_):
        raise TimeoutError

    last, came = -1, True
    while came:
        last += 1
        with handled_by(signal.SIGALRM, alarm):
            try:
                came = signalled(lambda: uninterrupted(int), signal.SIGALRM, last, interrupts.__file__)
            except TimeoutError:
                assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            else:
                assert not came, "the alarm was lost"
    assert last > 10


@pytest.mark.either_lane
def test_other_threads_leave_the_handler_alone():
    came = []
    thread = threading.Thread(target=lambda: came.append(uninterrupted(signal.getsignal, signal.SIGINT)))
    thread.start()
    thread.join()
    assert came == [signal.default_int_handler]


@pytest.mark.either_lane
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_is_forked_meanwhile_is_interrupted_at_once():
    def fork():
        child = os.fork()
        if child == 0:
            code = 1
            try:
                interrupt()
            except KeyboardInterrupt:
                code = 0
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert uninterrupted(uninterrupted, fork) == 0


IN_CTYPES = """
import ctypes, signal
import numpy as np
import fastcolst as fc
from fastcolst.experiments.resampled import ResampledLog
from fastcolst.extend import key_of

log = fc.Log.from_arrays(np.random.default_rng(0).normal(size=(9, 2)), [1, 0, 1, 1, 0, 1, 0, 0, 1])
problems = {
    "scenario": fc.Scenario.hard(n_arms=5, n_features=3),
    "scores": fc.ScoredArms(np.eye(3)[np.newaxis], [[1.0, 2.0, 3.0]], comparison="bradley-terry"),
    "log": ResampledLog(log, n_arms=2),
}
calls = {name: lambda p=problem: p.start(1, 0).next_chunk(3).latent for name, problem in problems.items()}
calls["helper"] = lambda: key_of(np.random.default_rng(1))
calls["policy"] = lambda: fc.UniformPairs(rng=1).select(np.eye(3)).first
cast, came = ctypes.cast, []

def interrupted(*arguments):
    signal.raise_signal(signal.SIGINT)
    came.append(True)
    return cast(*arguments)

signal.signal(signal.SIGINT, signal.default_int_handler)
for name, call in calls.items():
    wanted = call()
    ctypes.cast = interrupted
    try:
        call()
    except KeyboardInterrupt:
        print(name if came else "too soon")
    ctypes.cast = cast
    came.clear()
    assert np.array_equal(call(), wanted)
"""


@pytest.mark.jit
def test_a_generator_whose_functions_are_asked_for_is_no_crash():
    root = Path(fc.__file__).parents[1]
    command = [sys.executable, "-c", IN_CTYPES]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (0, "scenario\nscores\nlog\nhelper\npolicy\n"), done.stderr
