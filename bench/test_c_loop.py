"""A fused round against the same loop in C, in turns; and what two threads gain, beside what they gain in C."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from c_colstim import compiled

import fastcolst as fc

N, D, ROUNDS = 50, 10, 50_000
SCENARIO = fc.Scenario.hard(n_arms=N, n_features=D)


def fused(rounds, runs=1, threads=1):
    policies = {"CoLSTIM": fc.CoLSTIM(D, estimator="sgd")}
    return fc.simulate(policies, SCENARIO, rounds, runs=runs, rng=1, threads=threads)


def loop_or_skip(sizes_known):
    loop = compiled(N, D, sizes_known)
    if loop is None:
        pytest.skip("no gcc")
    return loop


def test_the_c_loop_has_the_regret_of_the_fused_one(benchmark, report):
    """Means over runs with the same parameters."""
    result = benchmark.pedantic(fused, args=(5_000, 40), rounds=1, iterations=1)
    ours = result.average_regret["CoLSTIM"][:, -1]
    for sizes_known in (False, True):
        loop = loop_or_skip(sizes_known)
        theirs = np.array([loop(5_000, run, list(theta)) for run, theta in enumerate(result.thetas)])
        difference = ours - theirs
        errors = abs(difference.mean()) / (difference.std(ddof=1) / np.sqrt(len(difference)))
        report("regret of the C loop and ours, apart", errors, 5.0, "standard errors")


@pytest.mark.parametrize(("sizes_known", "limit"), [(False, 1.5), (True, 2.5)])
def test_fused_round_over_a_c_loop(benchmark, report, sizes_known, limit):
    loop, theta = loop_or_skip(sizes_known), list(SCENARIO.start(1, 0).theta)
    fused(100)
    ours, theirs = [], []
    for _ in range(15):
        for seconds, play in ((ours, lambda: fused(ROUNDS)), (theirs, lambda: loop(ROUNDS, 1, theta))):
            start = time.process_time()
            play()
            seconds.append(time.process_time() - start)
    benchmark.pedantic(fused, args=(ROUNDS,), rounds=1, iterations=1)
    told = "with its sizes compiled in" if sizes_known else "that is told its sizes"
    report(f"fused round over a C loop {told}, n=50, d=10", min(ours) / min(theirs), limit, "times")


def test_two_threads_gain_what_they_gain_in_c(benchmark, report):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor")
    loop, theta = loop_or_skip(True), list(SCENARIO.start(1, 0).theta)

    def in_c(threads):
        with ThreadPoolExecutor(threads) as executor:
            list(executor.map(lambda run: loop(ROUNDS, run, theta), range(8)))

    fused(100)
    walls = {name: {1: [], 2: []} for name in ("C", "fused")}
    for _ in range(7):
        for name, play in (("C", in_c), ("fused", lambda threads: fused(20_000, 8, threads))):
            for threads, seconds in walls[name].items():
                start = time.perf_counter()
                play(threads)
                seconds.append(time.perf_counter() - start)
    benchmark.pedantic(fused, args=(20_000, 8, 2), rounds=1, iterations=1)
    gain = {name: min(seconds[1]) / min(seconds[2]) for name, seconds in walls.items()}
    report("one thread over two, 8 runs", gain["fused"], min(1.85, 0.95 * gain["C"]), "times", at_least=True)
