"""What a choice among bound arms takes, as a multiple of one sum over their features; both in one run."""

from __future__ import annotations

import statistics
import time

import numpy as np
import pytest

import fastcolst as fc


def bursts(contexts: np.ndarray, rounds: int) -> tuple[float, float, float]:
    """Seconds of a sum over the features, of select + update of bound arms, and of the noise's raw numbers in that.

    Every round teaches something. The three take turns, so that they find the same caches and the same neighbours.
    """
    n, d = contexts.shape
    policy = fc.CoLSTIM(
        d, estimator="sgd", ridge=1.0, exploration_rounds=20, horizon=100_000, allow_self_duel=False, rng=1
    )
    arms, theta, rng = policy.bind(contexts), np.ones(d) / d**0.5, np.random.default_rng(2)
    stream, sums, choices, draws = np.random.Generator(np.random.SFC64(1)), [], [], []
    for t in range(rounds + 30):
        begun = time.thread_time()
        contexts.sum()
        summed = time.thread_time()
        stream.standard_exponential(n)
        drawn = time.thread_time()
        duel = arms.select()
        policy.update(duel, bool(duel.contrast @ theta + rng.logistic() > 0.0))
        ended = time.thread_time()
        if t >= 30:  # the exploration is over, and what it taught is carried
            sums.append(summed - begun)
            draws.append(drawn - summed)
            choices.append(ended - drawn)
    return statistics.median(sums), statistics.median(choices), statistics.median(draws)


@pytest.mark.parametrize(("n", "d", "rounds"), [(100_000, 10, 300), (100_000, 50, 200), (1_000_000, 10, 100)])
def test_a_round_among_bound_arms_takes_a_few_sums_over_their_features(report, n, d, rounds):
    contexts = np.random.default_rng(0).normal(size=(n, d)) * (4.0 / d) ** 0.5
    one_sum, one_round, numbers = bursts(contexts, rounds)
    report(f"bound arms, n={n:,}, d={d}: select + update over contexts.sum()", one_round / one_sum, 6, "times")
    report(
        f"bound arms, n={n:,}, d={d}: the same without the numbers drawn", (one_round - numbers) / one_sum, 4, "times"
    )
