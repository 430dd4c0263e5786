"""Each measure's ratio to its yardstick as what pytest-benchmark times, so that its comparison guards ratios.

``pytest bench/test_ratios.py --benchmark-autosave`` keeps a run, and later ``--benchmark-compare
--benchmark-compare-fail=median:20%`` fails where a ratio has grown by a fifth. What stands under seconds is the ratio.
"""

from __future__ import annotations

from itertools import chain

import measures
import pytest
from threadpoolctl import threadpool_limits

MEASURES = list(chain(measures.rounds(), measures.prices(), measures.many_features(), measures.refits()))


class Clock:
    """A clock that goes on by the ratio of each turn."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


@pytest.mark.benchmark(timer=CLOCK)
@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: f"{measure.what} over {measure.yardstick}")
def test_ratio(benchmark, report, measure):
    with threadpool_limits(1):
        ready = measures.Turns(measure)

        def turn():
            ours, theirs = ready.one()
            CLOCK.now += ours / theirs

        benchmark.pedantic(turn, rounds=9, iterations=1)
    if measure.limit is not None:
        ratio = benchmark.stats.stats.median
        report(f"{measure.what}, over {measure.yardstick}", ratio, measure.limit, "times")
