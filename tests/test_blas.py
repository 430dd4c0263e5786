"""BLAS keeps to one thread while large matrices are worked on, and then gets back what it had."""

from __future__ import annotations

import os
import signal
import sys
import threading

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - its BLAS as well
from threadpoolctl import OpenBLASController, threadpool_info, threadpool_limits

from fastcolst import _blas
from fastcolst._blas import SMALL, one_thread
from fastcolst._compile import interrupts

pytestmark = pytest.mark.either_lane


def n_threads() -> set[int]:
    np.eye(2) @ np.eye(2)
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    limits = threadpool_limits(limits=2, user_api="blas")
    if n_threads() != {2}:
        pytest.skip("this BLAS has one thread")
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)  # or no other thread could change it
    yield
    limits.restore_original_limits()


def test_large_matrices_are_worked_on_by_one_thread():
    with one_thread(SMALL):
        assert n_threads() == {2}
    with one_thread(SMALL + 1):
        assert n_threads() == {1}
        with one_thread(SMALL + 1):
            assert n_threads() == {1}
        assert n_threads() == {1}
    assert n_threads() == {2}


def test_an_error_inside_gives_back_what_was():
    with pytest.raises(KeyError), one_thread(SMALL + 1):
        raise KeyError
    assert n_threads() == {2}


def test_without_a_blas_to_be_found_nobody_is_inside(monkeypatch):
    def missing():
        raise ImportError

    door = one_thread(SMALL + 1)
    monkeypatch.setattr(door, "_blas", missing)
    with pytest.raises(ImportError):
        door.__enter__()
    monkeypatch.undo()
    others_find(2)


def test_an_interrupt_of_whoever_enters_leaves_the_door_as_it_was():
    """Of entering: Python itself may drop the end of a `with` where a signal comes as it begins to leave."""
    files = {_blas.__file__, interrupts.__file__}
    last, came = 0, True

    def trace(frame, event, _):
        nonlocal seen
        if frame.f_code.co_filename not in files:
            return None
        seen += event in {"call", "line"}
        if seen == last and event in {"call", "line"}:
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return trace

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    while came:
        last, seen, came = last + 1, 0, False
        sys.settrace(trace)
        try:
            with one_thread(SMALL + 1):
                sys.settrace(None)
        except KeyboardInterrupt:
            came = True
        finally:
            sys.settrace(None)
        assert came == (seen >= last)
        others_find(2)
    signal.signal(signal.SIGINT, before)
    assert last > 10


def others_find(n: int) -> None:
    """The door open, and so many threads outside."""
    found = []

    def enter():
        with one_thread(SMALL + 1):
            found.append(n_threads())

    other = threading.Thread(target=enter)
    other.start()
    other.join(30)
    assert found == [{1}] and n_threads() == {n}


def test_threads_take_turns():
    inside, leave, order = threading.Event(), threading.Event(), []

    def stay():
        with one_thread(SMALL + 1):
            order.append(n_threads())
            inside.set()
            leave.wait(30)
            order.append("out")

    def follow():
        with one_thread(SMALL + 1):
            order.append(n_threads())

    first, second = threading.Thread(target=stay), threading.Thread(target=follow)
    first.start()
    assert inside.wait(30)
    second.start()
    second.join(0.05)
    assert second.is_alive()
    leave.set()
    first.join()
    second.join()
    assert order == [{1}, "out", {1}] and n_threads() == {2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_finds_the_door_open():
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with one_thread(SMALL + 1):
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=stay)
    thread.start()
    assert inside.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        with one_thread(SMALL + 1):
            os._exit(0)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
