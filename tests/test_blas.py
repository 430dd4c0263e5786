"""BLAS keeps to one thread while large matrices are worked on, and then gets back what it had."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - its BLAS as well
from threadpoolctl import threadpool_info, threadpool_limits

from fastcolst._blas import SMALL, one_thread

pytestmark = pytest.mark.either_lane


def n_threads() -> set[int]:
    np.eye(2) @ np.eye(2)
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    limits = threadpool_limits(limits=2, user_api="blas")  # not as a context, in which this thread alone may change it
    if n_threads() != {2}:
        pytest.skip("this BLAS has one thread")
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


def test_the_last_of_several_threads_gives_back_what_was():
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with one_thread(SMALL + 1):
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=stay)
    thread.start()
    assert inside.wait(30)
    with one_thread(SMALL + 1):
        pass
    assert n_threads() == {1}
    leave.set()
    thread.join()
    assert n_threads() == {2}
