"""Print the README's tables of algorithms and estimators, with all times from one run: ``python bench/tables.py``."""

from __future__ import annotations

import numpy as np

import fastcolst as fc

N, D = 50, 10

ALGORITHMS = {
    "CoLSTIM": (fc.CoLSTIM(D), "Bengs, Saha, Hüllermeier 2022, Algorithm 1", "n d²"),
    "SupCoLSTIM": (fc.SupCoLSTIM(D), "the same, Algorithm 2", "n d² log T + n² d"),
    "MaxInP": (fc.MaxInP(D), "Saha 2021", "n d², at worst n² d"),
    "StaD": (fc.StaD(D), "Saha 2021", "n d² log T + n² d"),
    "MaxPairUCB": (fc.MaxPairUCB(D), "Di et al. 2024, a rival there", "n d², at worst n² d"),
    "TwoSamples": (fc.TwoSamples(D), "Li, Zhao, Gu 2024, without the feel-good term", "d² + n d"),
    "Informative": (fc.Informative(D), "Bergström et al. 2024, to rank", "n d², at worst n² d"),
    "DoubleThompson": (fc.DoubleThompson(), "Wu, Liu 2016", "n²"),
    "SelfSparring": (fc.SelfSparring(), "Sui et al. 2017", "n"),
    "UniformPairs": (fc.UniformPairs(), "random pairs", "1"),
}

ESTIMATORS = {
    "fc.SGD()": (fc.SGD(), "a step of constant length, the paper's"),
    "fc.OnlineNewton()": (fc.OnlineNewton(), "one pass, bounded memory"),
    "fc.MLE()": (fc.MLE(), "the maximum-likelihood estimate within 0.01 standard errors, the default"),
    "fc.MLE(tolerance=1e-3)": (fc.MLE(tolerance=1e-3), "within 0.001 standard errors"),
}


def play(policies, scenario, horizon, runs):
    """Mean and standard deviation over runs of the average regret, and the least microseconds a round, of each."""
    result = fc.simulate(policies, scenario, horizon, runs, rng=1, threads=1)
    return {
        label: (
            result.average_regret[label][:, -1].mean(),
            result.average_regret[label][:, -1].std(ddof=1),
            1e6 * result.seconds[label].min() / horizon,
        )
        for label in policies
    }


def prices(horizon=100_000):
    """Seconds of a run with the exact estimate over those with SGD, by the number of features and the tolerance."""
    found = {}
    for d in (2, 10, 50):
        estimators = {"sgd": "sgd", 1e-2: fc.MLE(1e-2), 1e-3: fc.MLE(1e-3)}
        policies = {str(name): fc.CoLSTIM(d, estimator=estimator) for name, estimator in estimators.items()}
        result = fc.simulate(policies, fc.Scenario.hard(n_arms=N, n_features=d), horizon, 10, rng=1, threads=1)
        seconds = {name: result.seconds[str(name)] for name in estimators}
        found[d] = {name: np.median(seconds[name] / seconds["sgd"]) for name in (1e-2, 1e-3)}
    return found


def main():
    """Play and print."""
    scenarios = {
        name: getattr(fc.Scenario, name)(n_arms=N, n_features=D, comparison="bradley-terry")
        for name in ("easy", "medium", "hard")
    }
    policies = {name: policy for name, (policy, _, _) in ALGORITHMS.items()}
    found = {name: play(policies, scenario, 10_000, 20) for name, scenario in scenarios.items()}
    print("| Class | Source | A choice costs | Round | Easy | Medium | Hard |\n|---|---|---|---|---|---|---|")
    for name, (_, source, cost) in ALGORITHMS.items():
        regrets = " | ".join(f"{found[scenario][name][0]:,.0f}" for scenario in scenarios)
        print(f"| `{name}` | {source} | O({cost}) | {found['hard'][name][2]:.1f} us | {regrets} |")
    policies = {name: fc.CoLSTIM(D, estimator=estimator) for name, (estimator, _) in ESTIMATORS.items()}
    found = play(policies, scenarios["hard"], 20_000, 30)
    print("\n| `estimator` | Average regret | sd | Round | |\n|---|---|---|---|---|")
    for name, (_, what) in ESTIMATORS.items():
        regret, deviation, microseconds = found[name]
        print(f"| `{name}` | {regret:,.0f} | {deviation:.0f} | {microseconds:.1f} us | {what} |")
    found = prices()
    print(f"\n| `tolerance` | {' | '.join(f'd = {d}' for d in found)} |\n|{'---|' * (len(found) + 1)}")
    for tolerance in (1e-2, 1e-3):
        print(f"| {tolerance:g} | {' | '.join(f'{found[d][tolerance]:.2f}' for d in found)} |")


if __name__ == "__main__":
    main()
