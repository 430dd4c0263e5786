"""Algorithm configuration: which solver for which instance, learned from duels as instances come in.

    python examples/solver_portfolio.py FOLDER... [--orders 10]

Each FOLDER is a scenario of ASlib (github.com/coseal/aslib_data). Instances come one by one, in a random order. On each
CoLSTIM runs two solvers against one another, told by features of the instance which are worth it, and learns who was
faster. What is counted is the mean score of an instance, PAR10 for runtimes (a timeout is ten times the cutoff), from
the first instance on:

- of the solver with the highest estimated utility (the greedy arm) and of the first of the duel, run alone;
- of the duel, when both run in parallel and the first to finish is taken, which takes two processors;
- of the greedy arm where a win counts the more the more it saves, relative to what wins have saved so far;
- beside them the solver that is best on average (single best), the best for each instance (virtual best), the two that
  are best together on all instances, and two offline fits that know every solver's time on nine tenths of the instances
  and choose for the last tenth. The second of these weighs a win by how much it saves.
"""

from __future__ import annotations

import argparse
from itertools import combinations

import numpy as np

import fastcolst as fc

FOLDS = 10


def table(folder, orders):
    """The lines of a scenario's Markdown table."""
    problem = fc.load_aslib(folder)
    policies = {"CoLSTIM": new_policy(problem), "random pairs": fc.UniformPairs()}
    m = len(problem.instances)
    result = fc.simulate(policies, problem, horizon=m, runs=orders, rng=1, checkpoints=1, single_arms=True)
    first, second, both = problem.best_pair
    rows = [
        (f"single best solver, {problem.single_best[0]}", [problem.single_best[1]]),
        ("virtual best solver", [problem.virtual_best]),
        (f"best fixed pair in parallel, {first} and {second}", [both]),
    ]
    played = {
        "greedy arm": result.greedy_regret,
        "first arm": result.first_regret,
        "pair in parallel": result.weak_regret,
    }
    sign = -1.0 if problem.maximize else 1.0
    for label in policies:
        for what, regret in played.items():
            scores = problem.virtual_best + sign * regret[label][:, -1] / m
            if not np.isnan(scores).any():  # random pairs have no estimate to be greedy with
                rows.append((f"{label}, {what}", scores))
    rows.append(("CoLSTIM, greedy arm, wins weighted", [online_weighted(problem, order) for order in range(orders)]))
    rows.append(("offline fit, cross-validated", [offline(problem, weighted=False)]))
    rows.append(("the same, wins weighted by the difference", [offline(problem, weighted=True)]))
    head = f"{problem.name}: {m} instances, {problem.n_arms} solvers, {orders} orders"
    lines = [f"| {head} | mean {problem.measure} | sd over orders | gap closed |", "|---|---|---|---|"]
    for what, scores in rows:
        mean, sd = np.mean(scores), f"{np.std(scores, ddof=1):,.0f}" if len(scores) > 1 else ""
        lines.append(f"| {what} | {mean:,.0f} | {sd} | {problem.closed_gap(mean):.2f} |")
    return lines


def new_policy(problem, **options):
    """CoLSTIM as it plays here: there are too few instances to explore, and a ridge makes up for that."""
    return fc.CoLSTIM(
        problem.n_features,
        ridge=1.0,
        estimator=fc.MLE(ridge=10.0),
        exploration_rounds=0,
        allow_self_duel=False,
        **options,
    )


def online_weighted(problem, order):
    """The mean score of the greedy arm over one order of the instances, where wins have weights."""
    policy = new_policy(problem, n_arms=problem.n_arms, horizon=len(problem.instances), rng=order)
    features, scores = fc.arm_features(problem.n_arms, problem.instance_features), problem.scores
    total, saved, wins = 0.0, 0.0, 0
    for i in np.random.default_rng(order).permutation(len(scores)):
        total += scores[i, np.argmax(policy.utilities(features[i]))]
        duel = policy.select(features[i])
        gap = scores[i, duel.first] - scores[i, duel.second]
        if gap == 0.0:  # two timeouts
            policy.discard(duel)
            continue
        saved, wins = saved + abs(gap), wins + 1
        policy.update(duel, (gap > 0.0) == problem.maximize, weight=abs(gap) * wins / saved)
    return total / len(scores)


def offline(problem, weighted):
    """The mean score of choosing by a fit to all pairs of solvers on the other instances, in ten folds."""
    features, scores = fc.arm_features(problem.n_arms, problem.instance_features), problem.scores
    utilities = scores if problem.maximize else -scores
    fold = np.random.default_rng(1).permutation(len(scores)) % FOLDS
    first, second = np.array(list(combinations(range(problem.n_arms), 2))).T
    contrasts = features[:, first] - features[:, second]
    gaps = utilities[:, first] - utilities[:, second]
    chosen = np.empty(len(scores))
    for k in range(FOLDS):
        seen = (fold != k)[:, np.newaxis] & (gaps != 0.0)  # two timeouts tell nothing
        weights = np.abs(gaps[seen]) / np.abs(gaps[seen]).mean() if weighted else np.ones(seen.sum())
        fit = fc.fit(contrasts[seen], wins=weights * (gaps[seen] > 0.0), trials=weights, ridge=10.0)
        last = np.flatnonzero(fold == k)
        chosen[last] = scores[last, np.argmax(features[last] @ fit.theta, axis=1)]
    return chosen.mean()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--orders", type=int, default=10, help="random orders of the instances [%(default)s]")
    arguments = parser.parse_args()
    print("\n\n".join("\n".join(table(folder, arguments.orders)) for folder in arguments.folders))
