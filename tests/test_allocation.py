"""Kernels allocate nothing for a round: as many arrays for many rounds as for few, and they are given back."""

from __future__ import annotations

import numpy as np
import pytest

import fastcolst as fc
from fastcolst.policies import simulated
from fastcolst.policies.kernels import play
from fastcolst.policies.protocol import Chunk

pytestmark = pytest.mark.jit

D, N_ARMS = 3, 5
POLICIES = {
    "CoLSTIM": lambda: fc.CoLSTIM(D, estimator="sgd", exploration_rounds=10),
    "CoLSTIM, online-newton": lambda: fc.CoLSTIM(D, estimator="online-newton", exploration_rounds=10),
    "CoLSTIM, mle": lambda: fc.CoLSTIM(D, exploration_rounds=10),
    "DoubleThompson": fc.DoubleThompson,
    "UniformPairs": fc.UniformPairs,
}


@pytest.fixture
def allocations():
    """How many blocks of memory kernels have asked for so far, and how many of them are not given back."""
    from numba.core.runtime import _nrt_python, rtsys

    was_on = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()

    def count():
        stats = rtsys.get_allocation_stats()
        return stats.alloc, stats.alloc - stats.free

    yield count
    if not was_on:
        _nrt_python.memsys_disable_stats()


def rounds_of(n_rounds):
    """So many rounds as one chunk."""
    run = fc.Scenario.hard(n_arms=N_ARMS, n_features=D).start(1, 0)
    lengths = [min(run.chunk_rounds, n_rounds - begun) for begun in range(0, n_rounds, run.chunk_rounds)]
    parts = [[array.copy() for array in run.next_chunk(length)] for length in lengths]
    return Chunk(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


@pytest.mark.parametrize("name", POLICIES)
def test_rounds_allocate_nothing(name, allocations, monkeypatch):
    """Each call of the kernel takes the same blocks, and gives all back; estimates are refreshed between calls."""
    calls = []

    def counted(*arguments):
        asked, kept = allocations()
        played = play(*arguments)
        calls.append((played, allocations()[0] - asked, allocations()[1] - kept))
        return played

    monkeypatch.setattr(simulated, "play", counted)
    chunk = rounds_of(10_000)
    policy = POLICIES[name]().fresh_for(D, N_ARMS, 10_000, 1)
    assert policy.play(chunk, np.zeros((10_001, 3))) == 10_000
    policy.play(Chunk(*(array[:1] for array in chunk)), np.zeros((2, 3)))
    assert calls[-1][0] == 1 and max(played for played, _, _ in calls) > 1_000
    assert {asked for _, asked, _ in calls} == {calls[-1][1]} and calls[-1][1] < 20
    assert {kept for _, _, kept in calls} == {0}


@pytest.mark.parametrize("d", [2, 3])
def test_chunks_are_filled_without_allocation(d, allocations):
    run = fc.Scenario.hard(n_arms=2, n_features=d).start(1, 0)
    run.next_chunk(1)
    asked = []
    for n_calls, n_rounds in ((3, 10), (3, 4_000)):
        before = allocations()
        for _ in range(n_calls):
            run.next_chunk(n_rounds)
        asked.append(allocations()[0] - before[0])
    assert asked[0] == asked[1] <= 60
