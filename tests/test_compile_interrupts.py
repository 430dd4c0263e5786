"""Ctrl-C waits while machine code is made, or called with a generator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from numba.core import compiler

import fastcolst as fc
from fastcolst._compile import interrupt_held_back

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX signals")


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def _as_in_a_program():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


@pytest.mark.parametrize("error", [None, RuntimeError("no code")])
def test_an_interrupt_comes_up_at_the_end_whatever_else_went_wrong(error):
    reached = []

    def held_back_twice():
        with interrupt_held_back():
            with interrupt_held_back():
                interrupt()
                interrupt()
            reached.append(True)
            if error:
                raise error

    with pytest.raises(KeyboardInterrupt):
        held_back_twice()
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_handlers_are_called_at_once_and_what_they_raise_comes_up_at_the_end():
    came = []

    def handler(number, frame):
        came.append((number, frame.f_code.co_name))
        raise SystemExit(3)

    def held_back():
        with interrupt_held_back():
            interrupt()
            came.append("the end")

    signal.signal(signal.SIGINT, handler)
    with pytest.raises(SystemExit, match="3"):
        held_back()
    assert came == [(signal.SIGINT, "interrupt"), "the end"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_handler_that_is_set_meanwhile_stays_and_others_are_left_alone():
    with interrupt_held_back():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    with interrupt_held_back():
        interrupt()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_are_never_interrupted():
    came = []

    def elsewhere():
        with interrupt_held_back():
            came.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert came == [signal.default_int_handler]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_is_forked_meanwhile_is_interrupted_at_once():
    with interrupt_held_back(), interrupt_held_back():
        child = os.fork()
        if child == 0:
            try:
                interrupt()
            except KeyboardInterrupt:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


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
    done = subprocess.run([sys.executable, "-c", IN_CTYPES], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "scenario\nscores\nlog\nhelper\npolicy\n"), done.stderr
