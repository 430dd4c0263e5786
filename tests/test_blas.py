"""BLAS keeps to one thread while large matrices are worked on, and then gets back what it had."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - its BLAS as well
from inside import handled_by, signalled
from threadpoolctl import OpenBLASController, threadpool_info, threadpool_limits

from fastcolst import _blas
from fastcolst._blas import SMALL, eigh, on_one_thread
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
    assert on_one_thread(SMALL, n_threads) == {2}
    assert on_one_thread(SMALL + 1, n_threads) == {1}
    assert on_one_thread(SMALL + 1, on_one_thread, SMALL + 1, n_threads) == {1}
    assert on_one_thread(SMALL + 1, lambda: (on_one_thread(SMALL + 1, n_threads), n_threads())) == ({1}, {1})
    assert n_threads() == {2}


def test_eigenvalues_are_found_by_one_thread(monkeypatch):
    found = []
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: found.append(n_threads()))
    for d in (SMALL, SMALL + 1):
        eigh(np.eye(d))
    assert found == [{2}, {1}] and n_threads() == {2}


def test_an_error_inside_gives_back_what_was():
    with pytest.raises(KeyError):
        on_one_thread(SMALL + 1, {}.pop, "missing")
    others_find(2)


def test_without_a_blas_to_be_found_nobody_is_inside(monkeypatch):
    def missing():
        raise ImportError

    with monkeypatch.context() as patch:
        patch.setattr(_blas._DOOR, "_blas", missing)
        with pytest.raises(ImportError):
            on_one_thread(SMALL + 1, n_threads)
    others_find(2)


@pytest.mark.parametrize("path", [_blas.__file__, interrupts.__file__])
def test_an_interrupt_leaves_the_door_as_it_was(path):
    last, came = -1, True
    while came:
        last += 1
        with handled_by(signal.SIGINT, signal.default_int_handler):
            try:
                came = signalled(lambda: on_one_thread(SMALL + 1, n_threads), signal.SIGINT, last, path)
            except KeyboardInterrupt:
                others_find(2)
            else:
                assert not came, "the interrupt was lost"
    assert last > 10


def others_find(n: int) -> None:
    """The door open, and so many threads outside."""
    found: list[set[int]] = []
    other = threading.Thread(target=lambda: found.append(on_one_thread(SMALL + 1, n_threads)), daemon=True)
    other.start()
    other.join(30)
    assert found == [{1}] and n_threads() == {n}


def test_threads_take_turns():
    inside, leave, order = threading.Event(), threading.Event(), []

    def stay():
        order.append(n_threads())
        inside.set()
        leave.wait(30)
        order.append("out")

    def follow():
        order.append(n_threads())

    first, second = (
        threading.Thread(target=on_one_thread, args=(SMALL + 1, work), daemon=True) for work in (stay, follow)
    )
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
        inside.set()
        leave.wait(30)

    thread = threading.Thread(target=on_one_thread, args=(SMALL + 1, stay))
    thread.start()
    assert inside.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(on_one_thread(SMALL + 1, int) or int(n_threads() != {2}))
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
