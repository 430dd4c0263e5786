"""Print what liars cost each rule, with and without ``robust``: ``python bench/lies.py [runs]``.

The scenario is the paper's hard one with 20 arms and 5 features, for 3,000 rounds; nobody explores, and M and theta
have a ridge of 1. Of the answers in which the better arm won the first 150 are turned around. Arms are fresh in every
round, or those of the first round all the way. "self" says how many of the rounds were self-duels, which
teach nothing: of fixed arms a favourite that is wrong then stays for ever.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

import fastcolst as fc

N, D, T, LIES, ALPHA = 20, 5, 3_000, 150, 0.1
SAFE = {"allow_self_duel": False}
PRIOR = {"ridge": 1.0, "exploration_rounds": 0}

RULES = {
    "CoLSTIM": (fc.CoLSTIM, {"horizon": T}),
    "CoLSTIM, two arms": (fc.CoLSTIM, {"horizon": T, **SAFE}),
    "MaxPairUCB": (fc.MaxPairUCB, {"horizon": T}),
    "MaxPairUCB, two arms": (fc.MaxPairUCB, {"horizon": T, **SAFE}),
    "MaxInP": (fc.MaxInP, {"horizon": T}),
    "MaxInP, two arms": (fc.MaxInP, {"horizon": T, **SAFE}),
    "SupCoLSTIM": (fc.SupCoLSTIM, {"horizon": T}),
    "StaD": (fc.StaD, {"horizon": T}),
    "TwoSamples": (fc.TwoSamples, {}),
    "TwoSamples, two arms": (fc.TwoSamples, SAFE),
    "Informative": (fc.Informative, {}),
    "random pairs": (fc.UniformPairs, {}),
}


def play(policy, run, n_lies, is_fixed):
    """The regret of the run, and the share of rounds in which an arm met itself."""
    problem, left, regret, n_self = fc.Scenario.hard(n_arms=N, n_features=D).start(1, run), n_lies, 0.0, 0
    arms = None
    for _ in range(T // 100):
        chunk = problem.next_chunk(100)
        for r in range(100):
            if arms is None or not is_fixed:
                arms = np.ascontiguousarray(chunk.contexts[r].T), chunk.utilities[r].copy()
            contexts, utilities = arms
            duel = policy.select(contexts)
            first, second = utilities[duel.first], utilities[duel.second]
            regret += utilities.max() - (first + second) / 2.0
            n_self += duel.is_self
            won = bool(first - second + chunk.latent[r] > 0.0)
            if left and not duel.is_self and won == (first > second):
                won, left = not won, left - 1
            policy.update(duel, won)
    return regret, n_self / T


def cell(kind, options, n_lies, is_fixed, runs):
    """Mean regret, its standard error, and the share of self-duels."""
    options = {**PRIOR, **options} if kind is not fc.UniformPairs else options
    found = np.array([play(kind(D, n_arms=N, rng=run, **options), run, n_lies, is_fixed) for run in range(runs)])
    mean, error = found[:, 0].mean(), found[:, 0].std(ddof=1) / np.sqrt(runs)
    return f"{mean:,.0f} ({error:.0f}) | {found[:, 1].mean():.0%}"


def main():
    """Play and print."""
    warnings.simplefilter("ignore")  # that self-duels are not justified, which the table says
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    heads = ["lies", "lies, robust", "no lies", "no lies, robust"]
    for is_fixed in (False, True):
        print(f"\n{runs} runs, {'fixed' if is_fixed else 'fresh'} arms, robust={ALPHA}\n")
        print(f"| Rule | {' | '.join(f'{head} | self' for head in heads)} |\n|{'---|' * (1 + 2 * len(heads))}")
        for name, (kind, options) in RULES.items():
            variants = [options] if kind is fc.UniformPairs else [options, {**options, "robust": ALPHA}]
            cells = [cell(kind, given, lies, is_fixed, runs) for lies in (LIES, 0) for given in variants]
            if len(variants) == 1:
                cells = [cells[0], "| ", cells[1], "| "]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
