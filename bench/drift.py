"""Print what forgetting is worth when tastes change: regret after the change, beside a policy that begins with it.

``python bench/drift.py``: n = 20, d = 5; after 3,000 rounds another theta of the same scenario is drawn, and 3,000 more
rounds follow; 40 runs. docs/serving.md has the first and the third policy. The last two columns are regret with the
discount over that of a policy that begins with the change, without a discount and with the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import fastcolst as fc

D, N = 5, 20
RULES: dict[str, Callable[..., Any]] = {
    "`CoLSTIM(5)`, as in the paper": lambda **more: fc.CoLSTIM(D, **more),
    "... with a prior and c = 2": lambda **more: fc.CoLSTIM(
        D, ridge=1.0, exploration_rounds=0, width_scale=2.0, **more
    ),
    "`CoLSTIM.for_service(5)`": lambda **more: fc.CoLSTIM.for_service(D, **more),
    "`TwoSamples(5)`": lambda **more: fc.TwoSamples(D, **more),
}
SCENARIOS = {"easy": fc.Scenario.easy, "medium": fc.Scenario.medium, "hard": fc.Scenario.hard}


@dataclass
class Change:
    """A scenario whose theta is that of one run for some rounds, and then that of another; with 0 only the latter.

    Runs of the same number have the same rounds after the change, however many there were before.
    """

    scenario: fc.Scenario
    rounds: int

    @property
    def n_arms(self) -> int:
        """n."""
        return self.scenario.n_arms

    @property
    def n_features(self) -> int:
        """d."""
        return self.scenario.n_features

    def start(self, entropy: int, run: int) -> Changing:
        """Begin a run."""
        return Changing(self.scenario.start(entropy, 2 * run), self.scenario.start(entropy, 2 * run + 1), self.rounds)


class Changing:
    """A run, of which no chunk has rounds from before and after the change."""

    def __init__(self, before: Any, after: Any, rounds: int) -> None:
        self._before, self._after, self._left = before, after, rounds
        self.theta = after.theta
        self.chunk_rounds = next(size for size in range(after.chunk_rounds, 0, -1) if rounds % size == 0)

    def next_chunk(self, n_rounds: int) -> Any:
        """The next rounds."""
        source = self._before if self._left > 0 else self._after
        self._left -= n_rounds
        return source.next_chunk(n_rounds)


def regrets(scenario: fc.Scenario, rule: Callable[..., Any], given: argparse.Namespace) -> dict[str, Any]:
    """Regret after the change, (runs,) each: with and without the discount, and of those that begin with the change."""
    policies = {"none": rule(), "discount": rule(discount=given.discount)}
    T, options = given.rounds, {"runs": given.runs, "rng": 1}
    both = fc.simulate(policies, Change(scenario, T), 2 * T, checkpoints=[T, 2 * T], **options).average_regret
    fresh = fc.simulate(policies, Change(scenario, 0), T, checkpoints=1, **options).average_regret
    found = {label: totals[:, 1] - totals[:, 0] for label, totals in both.items()}
    return {**found, **{f"fresh {label}": totals[:, -1] for label, totals in fresh.items()}}


def main() -> None:
    """Print the table, line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3_000)
    parser.add_argument("--discount", type=float, default=0.999)
    parser.add_argument("--only", default=",".join(SCENARIOS))
    given = parser.parse_args()
    print(f"{given.runs} runs, {given.rounds} rounds before and after, discount {given.discount}\n")
    print(f"| | Policy | no discount | `discount={given.discount}` |", end="")
    print(" fresh | fresh, discount | over fresh | over fresh, discount |")
    print("|---" * 8 + "|")
    for name in given.only.split(","):
        for label, rule in RULES.items():
            found = regrets(SCENARIOS[name](n_arms=N, n_features=D), rule, given)
            means = {key: float(np.mean(values)) for key, values in found.items()}
            order = ("none", "discount", "fresh none", "fresh discount")
            cells = [f"{means[key]:,.0f}" for key in order]
            ratios = [f"{means['discount'] / means[fresh]:.2f}" for fresh in order[2:]]
            print(f"| {name} | {label} | {' | '.join(cells + ratios)} |", flush=True)


if __name__ == "__main__":
    main()
