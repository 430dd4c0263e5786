"""Print what rules and constants are worth on the hard scenario, run by run beside the paper's CoLSTIM.

``python bench/constants.py``: n = 20, d = 5, T = 3,000, 40 runs; the table of docs/choosing.md.
"""

from __future__ import annotations

import numpy as np

import fastcolst as fc

D, RUNS, HORIZON = 5, 40, 3_000
PAPERS = "`CoLSTIM(5)`, as in the paper"
PRIOR = {"ridge": 1.0, "exploration_rounds": 0}
POLICIES = {
    PAPERS: fc.CoLSTIM(D),
    "the same with a prior in place of exploration": fc.CoLSTIM(D, **PRIOR),
    "... and c = 2": fc.CoLSTIM(D, width_scale=2.0, **PRIOR),
    "`MaxPairUCB` with a prior": fc.MaxPairUCB(D, **PRIOR),
    "... and c = 2 ": fc.MaxPairUCB(D, width_scale=2.0, **PRIOR),
    "`MaxInP` with a prior": fc.MaxInP(D, **PRIOR),
    "... and c = 2  ": fc.MaxInP(D, width_scale=2.0, **PRIOR),
    "`TwoSamples(5)`, nothing to set": fc.TwoSamples(D),
    "`CoLSTIM.for_service(5)`, no self-duels": fc.CoLSTIM.for_service(D),
    "random pairs": fc.UniformPairs(),
}


def main():
    """Play and print."""
    scenario = fc.Scenario.hard(n_arms=20, n_features=D)
    result = fc.simulate(POLICIES, scenario, HORIZON, RUNS, rng=1, checkpoints=1)
    final = {label: regret[:, -1] for label, regret in result.average_regret.items()}
    print("| Policy | Average regret | sd | worst run | beside the paper's (standard error) |\n|---|---|---|---|---|")
    for label, regret in final.items():
        gain = regret - final[PAPERS]
        beside = "" if label == PAPERS else f"{gain.mean():+,.0f} ({gain.std(ddof=1) / np.sqrt(RUNS):.0f})"
        print(f"| {label.strip()} | {regret.mean():,.0f} | {regret.std(ddof=1):.0f} | {regret.max():,.0f} | {beside} |")


if __name__ == "__main__":
    main()
