"""What it takes to save a policy and to load it again."""

from __future__ import annotations

import time

import numpy as np

import fastcolst as fc

D, ANSWERS = 32, 100_000


def test_save_and_load(benchmark, report, tmp_path):
    rng = np.random.default_rng(1)
    winners, losers = rng.normal(size=(2, ANSWERS, D))
    upset = (winners - losers)[:, 0] + rng.logistic(size=ANSWERS) < 0
    winners[upset], losers[upset] = losers[upset], winners[upset]
    policy = fc.CoLSTIM(D, n_arms=10, ridge=1.0, rng=1)
    policy.learn(winners, losers)
    path = tmp_path / "policy.npz"
    seconds = []

    def load():
        start = time.perf_counter()
        again = fc.load_policy(path)
        seconds.append(time.perf_counter() - start)
        return again

    benchmark.pedantic(lambda: policy.save(path), rounds=10, iterations=1, warmup_rounds=2)
    again = [load() for _ in range(10)][-1]
    assert again.theta.tobytes() == policy.theta.tobytes()
    report("save 100,000 answers, d=32", 1e3 * benchmark.stats.stats.min, 100, "ms")
    report("load 100,000 answers, d=32", 1e3 * min(seconds), 100, "ms")
