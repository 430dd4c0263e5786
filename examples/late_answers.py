"""Answers that come late, never, or are lies: what they cost.

    python examples/late_answers.py

Ten options with five features each, other ones in every round, and 3,000 rounds. An answer comes after a hundred rounds
on average; one in twenty never comes, and is given up on after 1,000 rounds. Some people lie: they name the worse
option of the two. Regret is that of the first option of each pair against the best one, summed over the rounds, as a
share of what random options lose.
"""

from __future__ import annotations

import heapq

import numpy as np

import fastcolst as fc

ROUNDS, ARMS, FEATURES, PATIENCE = 3_000, 10, 5, 1_000
THETA = np.array([2.0, -1.5, 1.0, -0.5, 0.0])


def play(mean_delay=0.0, lost=0.0, lies=0.0, liars_until=ROUNDS):
    """Regret as a share of random options', answers learned, answers given up on, and what still waits."""
    rng = np.random.default_rng(1)
    policy = fc.CoLSTIM.for_service(FEATURES, rng=0)
    on_the_way, shown = [], {}
    regret, of_random, learned, given_up = 0.0, 0.0, 0, 0
    for t in range(ROUNDS):
        options = rng.normal(size=(ARMS, FEATURES)) / np.sqrt(FEATURES)
        utilities = options @ THETA
        duel = policy.select(options)
        gap = utilities[duel.first] - utilities[duel.second]
        first_won = gap + rng.logistic() > 0.0
        if t < liars_until and rng.random() < lies:
            first_won = gap < 0.0
        shown[t] = duel
        if rng.random() >= lost:
            heapq.heappush(on_the_way, (t + rng.exponential(mean_delay), t, bool(first_won)))
        while on_the_way and on_the_way[0][0] <= t:
            _, asked, answer = heapq.heappop(on_the_way)
            if asked in shown:  # not given up on
                policy.update(shown.pop(asked), answer)
                learned += 1
        for asked in [asked for asked in shown if asked < t - PATIENCE]:
            policy.discard(shown.pop(asked))
            given_up += 1
        regret += utilities.max() - utilities[duel.first]
        of_random += utilities.max() - utilities.mean()
    return regret / of_random, learned, given_up, policy.pending


def main():
    """Play each kind of people once, with the same options and the same chance."""
    late = {"mean_delay": 100.0, "lost": 0.05}
    cases = {
        "at once, honest": {},
        "late": late,
        "late, one in ten lies": {**late, "lies": 0.1},
        "late, one in three lies": {**late, "lies": 1 / 3},
        "late, all of the first 300 lie": {**late, "lies": 1.0, "liars_until": 300},
    }
    print(f"{'answers are':32}{'regret':>8}{'learned':>9}{'given up':>10}{'waiting':>9}")
    for name, case in cases.items():
        share, learned, given_up, waiting = play(**case)
        print(f"{name:32}{share:8.1%}{learned:9,}{given_up:10,}{waiting:9,}")


if __name__ == "__main__":
    main()
