"""Print how many pairs of a pool are in the wrong order after so many answers: ``python bench/pool.py [runs [late]]``.

In each run theta and 50 items with 10 features are those of ``Scenario.hard``; one pool of items stays all the way, and
people answer by Bradley-Terry, each so many rounds after the question as ``late`` says; where it says more than 0 each
rule is also played with ``count_pending=True``. "expected" is what ``policy.expected_misordered`` says of it.
"""

from __future__ import annotations

import sys

import numpy as np

import fastcolst as fc

N, D = 50, 10
MARKS = (100, 300, 1000)

RULES = {
    "random pairs": None,
    "variance": fc.Informative(D, value="variance"),
    "d-optimal": fc.Informative(D, value="d-optimal"),
    "width": fc.Informative(D, value="width"),
    "variance, no repeats": fc.Informative(D, value="variance", repeats=False),
}


def misordered(items, utilities, theta):
    """Share of the pairs whose order by theta is not that of their utilities."""
    places = np.triu_indices(len(items), 1)
    guess, truth = (np.sign(np.subtract.outer(u, u)[places]) for u in (items @ theta, utilities))
    return np.mean(guess != truth)


def curve(rule, run, late=0):
    """After each mark of answers, so many rounds late: the share of misordered pairs, and the expected one."""
    chunk = fc.Scenario.hard(n_arms=N, n_features=D, comparison="bradley-terry").start(1, run).next_chunk(1)
    items, utilities = np.ascontiguousarray(chunk.contexts[0].T), chunk.utilities[0]
    rng, found = np.random.default_rng([2, run]), []
    policy = fc.Informative(D, rng=run) if rule is None else type(rule)(**{**rule.get_params(), "rng": run})
    pairs, asked = fc.UniformPairs(rng=run), []
    for t in range(1 - late, max(MARKS) + 1):
        duel = pairs.select(items) if rule is None else policy.select(items)
        won = bool(utilities[duel.first] - utilities[duel.second] + rng.logistic() > 0.0)
        asked.append((duel, won))
        if t <= 0:
            continue
        duel, won = asked.pop(0)
        if rule is None:
            policy.learn_and_predict(duel.contrast[np.newaxis], [won])
        elif not duel.is_self:
            policy.update(duel, won)
        if t in MARKS:
            found.append((misordered(items, utilities, policy.theta), policy.expected_misordered(items)))
    return found


def main():
    """Play and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    late = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    rules = dict(RULES)
    for name, rule in RULES.items():
        if late and rule is not None:
            rules[f"{name}, counted"] = type(rule)(**{**rule.get_params(), "count_pending": True})
    head = [f"{mark:,} answers | expected" for mark in MARKS]
    print(f"{runs} runs, answers {late} rounds late\n")
    print(f"| Pairs by | {' | '.join(head)} |\n|{'---|' * (1 + 2 * len(MARKS))}")
    for name, rule in rules.items():
        curves = np.array([curve(rule, run, late) for run in range(runs)])
        means, errors = curves.mean(axis=0), curves[..., 0].std(axis=0, ddof=1) / np.sqrt(runs)
        cells = [f"{a:.3f} ({e:.3f}) | {b:.3f}" for (a, b), e in zip(means, errors, strict=True)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
