"""The exact estimate alone, without a policy: ten million comparisons, theta wanted at each of them.

Prints seconds of processor time for a million comparisons, the process's memory in MB, and the final distance from the
exact estimate in standard errors. The time is this thread's: the other threads of NumPy's linear algebra, which helped
with the margins, spin on afterwards, and a process's time counts them.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import numpy as np

import fastcolst as fc
from fastcolst._compile import kernel
from fastcolst.estimation.protocol import FULL, LEARNED, STALE, audit, grown, is_stale, learn, refresh

ROWS = 50_000


@kernel
def learn_all(estimator: Any, model: Any, memory: Any, contrasts: Any, wins: Any) -> tuple[int, int]:
    """Learn comparisons until the estimator asks for something: a code, and how many were learned."""
    for row in range(wins.size):
        if is_stale(estimator, memory, True):
            return STALE, row
        code = learn(estimator, model, memory, contrasts[row], 1.0 if wins[row] else 0.0, 1.0)
        if code != LEARNED:
            return code, row
    return LEARNED, wins.size


def main(n: int) -> None:
    if n <= 0 or n % ROWS:
        raise ValueError(f"n is {n}; a multiple of {ROWS:,} is wanted")
    policy, rng = fc.CoLSTIM(10), np.random.default_rng(1)
    estimator, model = policy._rule.estimator, policy._rule.model
    theta, memory, seconds = rng.normal(size=10) * 0.3, estimator.memory(10), 0.0
    for start in range(-ROWS, n, ROWS):  # the first block compiles
        if start == 0:
            memory = estimator.memory(10)
        contrasts = rng.normal(size=(ROWS, 10)) * 0.5
        wins = contrasts @ theta + rng.logistic(size=ROWS) > 0
        before, done = time.thread_time(), 0
        while done < ROWS:
            code, learned = learn_all(estimator, model, memory, contrasts[done:], wins[done:])
            done += learned
            if code == STALE:
                refresh(estimator, model, memory)
            elif code == FULL:
                memory = grown(estimator, memory, ROWS - done)
        seconds += (time.thread_time() - before) * (start >= 0)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if is_stale(estimator, memory, True):
        refresh(estimator, model, memory)
    print(1e6 * seconds / n, megabytes, audit(estimator, model, memory))


if __name__ == "__main__":
    main(int(sys.argv[1]))
