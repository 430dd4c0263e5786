"""The table of the preset for services: regret beside that of the paper's defaults, as shares of random pairs' regret.

    python bench/service.py                                    # everything: hours, of which d = 384 takes most
    python bench/service.py --runs 30 --only easy,medium,hard  # a minute for each

The mean over runs, and the worst run, of cumulative average regret over that of ``UniformPairs`` on the same rounds.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import fastcolst as fc


def fixed(norm: float) -> fc.Scenario:
    """Twelve arms with three features that are drawn once a run and never change."""
    direction = np.array([1.0, -0.5, 0.5])
    return fc.Scenario(theta=norm * direction / np.linalg.norm(direction), n_arms=12, contexts="fixed")


def many_features(norm: float) -> fc.Scenario:
    """Sixteen fresh arms a round with 384 features."""
    direction = np.random.default_rng(0).normal(size=384)
    return fc.Scenario(theta=norm * direction / np.linalg.norm(direction), n_arms=16)


PROBLEMS = {
    "easy": fc.Scenario.easy(),
    "medium": fc.Scenario.medium(),
    "hard": fc.Scenario.hard(),
    "fixed, easy": fixed(0.5),
    "fixed, medium": fixed(1.5),
    "fixed, hard": fixed(4.0),
    "d = 384": many_features(5.0),
}
"""By name; the first three are the paper's, with 50 arms and 10 features."""


def row(name: str, horizon: int, runs: int) -> str:
    """One line of the table."""
    d = PROBLEMS[name].n_features
    policies = {"paper": fc.CoLSTIM(d), "service": fc.CoLSTIM.for_service(d), "Random": fc.UniformPairs()}
    regret = fc.simulate(policies, PROBLEMS[name], horizon=horizon, runs=runs, rng=7).average_regret
    random = regret["Random"][:, -1]
    cells = []
    for policy in ("paper", "service"):
        own = regret[policy][:, -1]
        cells += [f"{own.mean() / random.mean():.2f}", f"{(own / random).max():.2f}"]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table, line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--horizon", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--only", default=",".join(name.replace(", ", "-") for name in PROBLEMS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{given.runs} runs of T = {given.horizon}\n")
    print("| Problem | paper, mean | worst run | `for_service`, mean | worst run |\n|---|---|---|---|---|")
    for name in given.only.split(","):
        print(row(name.replace("-", ", "), given.horizon, given.runs), flush=True)


if __name__ == "__main__":
    main()
