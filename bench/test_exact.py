"""What the exact estimators promise: their price beside SGD, their error, and the regret they save.

``python bench/test_exact.py LINK D TOLERANCE AUDITS [RIDGE]`` audits one combination alone.
"""

from __future__ import annotations

import copy
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from test_speed import N

import fastcolst as fc

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from twins import MODELS

LINKS = {name: model.scores[-1] for name, model in MODELS.items()}
NORMS = (0.3, 0.95, 3.0)


def processor_seconds(policies, scenario, horizon, repeats):
    """Processor time of each policy's simulation, everything included, (repeats,); the policies take turns.

    The process's, since a simulation runs on a thread of its own.
    """
    seconds = {name: np.empty(repeats) for name in policies}
    for turn in range(-1, repeats):  # the first compiles
        for name, policy in policies.items():
            start = time.process_time()
            fc.simulate({name: policy}, scenario, horizon if turn >= 0 else 10, rng=1, threads=1)
            seconds[name][turn] = time.process_time() - start
    return seconds


@pytest.mark.parametrize(("d", "limit"), [(2, 1.15), (10, 1.15), (50, 1.25)])
@pytest.mark.parametrize("link", LINKS)
def test_price_of_the_exact_estimate(benchmark, report, link, d, limit):
    limit = 1.3 if link == "exponential" else limit  # whose curvature has a kink
    scenario = fc.Scenario.hard(n_arms=N, n_features=d, comparison=link)
    pair = {"SGD": fc.SGD(score=LINKS[link]), "MLE": fc.MLE(score=LINKS[link])}
    policies = {name: fc.CoLSTIM(d, comparison=link, estimator=estimator) for name, estimator in pair.items()}
    seconds = processor_seconds(policies, scenario, 100_000, repeats=5 if d == 50 else 15)
    # of neighbours in time: a shared machine has phases in which everything takes half as long again
    price = np.median(seconds["MLE"] / seconds["SGD"])
    benchmark.pedantic(fc.simulate, args=({"MLE": policies["MLE"]}, scenario, 100_000), rounds=1, iterations=1)
    report(f"fused loop, MLE over SGD, {link}, d={d}, T=100,000", price, limit, "times")


def test_rows_of_history_touched(benchmark, report):
    policy = fc.CoLSTIM(10, n_arms=N, horizon=20_000, rng=1)
    problem = fc.Scenario.hard(n_arms=N, n_features=10).start(1, 0)

    def play():
        for _ in range(100):
            policy.play(problem.next_chunk(200), np.zeros((201, 3)))

    benchmark.pedantic(play, rounds=1, iterations=1)
    report("rows of history a round, d=10, T=20,000", policy._state.memory.progress["rows_passed"] / 20_000, 20, "rows")


def test_ten_million_comparisons(benchmark, report):
    """The estimate alone, without a policy's Gram matrix; theta is wanted at each comparison."""
    script = Path(__file__).with_name("ten_million.py")
    done = benchmark.pedantic(
        subprocess.run,
        args=([sys.executable, str(script), "10000000"],),
        kwargs={"capture_output": True, "text": True, "check": True},
        rounds=1,
        iterations=1,
    )
    seconds, megabytes, error = map(float, done.stdout.split())
    report("a million comparisons of 10 million, d=10", seconds, 1.2, "s")
    report("the process's memory after 10 million comparisons, d=10", megabytes, 1000, "MB")
    report("audit after 10 million comparisons", error, 1e-2, "standard errors")


def test_refit_by_scikit_learn(benchmark, report):
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng, d, n = np.random.default_rng(1), 10, 2000
    theta = rng.normal(size=d) * 0.3
    contrasts = rng.normal(size=(n + 1000, d)) * 0.5
    wins = contrasts @ theta + rng.logistic(size=n + 1000) > 0
    refit = linear_model.LogisticRegression(
        C=np.inf, fit_intercept=False, solver="newton-cholesky", warm_start=True, tol=1e-6
    )
    refit.fit(contrasts[:n], wins[:n])
    theirs = []  # seconds of this thread: the others of NumPy's linear algebra spin on after their work
    for k in range(n, n + 20):
        start = time.thread_time()
        refit.fit(contrasts[:k], wins[:k])
        theirs.append(time.thread_time() - start)
    ours = []
    for _ in range(5):
        policy = fc.CoLSTIM(d)
        policy.learn_and_predict(contrasts[:n], wins[:n])
        start = time.thread_time()
        policy.learn_and_predict(contrasts[n:], wins[n:])
        ours.append((time.thread_time() - start) / 1000)
    benchmark.pedantic(refit.fit, args=(contrasts[:n], wins[:n]), rounds=3, iterations=1)
    report("scikit-learn's refit over our round, t=2,000", min(theirs) / min(ours), 1000, "times", at_least=True)


def audits(link, d, tolerance, n_audits, ridge=0.0):
    """Distances from the exact estimate in tolerances, at random rounds of fresh runs.

    Without a ridge from 5 d answers on, of which the first are a random exploration; with one from the first on.
    """
    horizon, n_per_run, found = 3000, 50, np.empty(n_audits)
    for i in range(0, n_audits, n_per_run):
        seed = [int(1e6 * tolerance), d, i]
        rng = np.random.default_rng(seed)
        theta = rng.normal(size=d)
        theta *= NORMS[i // n_per_run % len(NORMS)] / np.linalg.norm(theta)
        estimator = fc.MLE(tolerance, score=LINKS[link])
        first = 10 if ridge > 0.0 else 5 * d
        options = {"ridge": ridge, "exploration_rounds": first, "n_arms": 20, "rng": i}
        policy = fc.CoLSTIM(d, comparison=link, estimator=estimator, **options)
        problem = fc.Scenario(theta=theta, n_arms=20, comparison=link).start(i, 0)
        stops = np.unique(np.exp(rng.uniform(np.log(first), np.log(horizon), n_per_run)).astype(int))
        stops = np.r_[stops, rng.integers(stops[-1] + 1, stops[-1] + 100, n_per_run - len(stops))]
        played = 0
        for k, stop in enumerate(np.sort(stops)[: n_audits - i]):
            while played < stop:
                m = min(problem.chunk_rounds, stop - played)
                played += policy.play(problem.next_chunk(m), np.zeros((m + 1, 3)))
            found[i + k] = policy.audit() / tolerance
    return found


@pytest.mark.parametrize(
    ("d", "tolerance", "n_audits"),
    [(2, 1e-3, 10_000), (10, 1e-3, 10_000), (50, 1e-3, 2000)]
    + [(d, tolerance, 1000) for d in (2, 10) for tolerance in (1e-2, 1e-5)]
    + [(50, 1e-2, 2000)],
)
@pytest.mark.parametrize("link", LINKS)
def test_audits(benchmark, report, link, d, tolerance, n_audits):
    found = benchmark.pedantic(audits, args=(link, d, tolerance, n_audits), rounds=1, iterations=1)
    what = f"{n_audits:,} audits, {link}, d={d}, tolerance {tolerance:g}"
    report(f"{what}: largest", found.max(), 1.5, "tolerances")
    report(f"{what}: above the tolerance", 100 * np.mean(found > 1.0), 0.1, "%")


@pytest.mark.parametrize(("d", "ridge"), [(d, ridge) for d in (128, 384) for ridge in (1.0, 0.1)])
def test_audits_of_many_features(benchmark, report, d, ridge):
    found = benchmark.pedantic(audits, args=("bradley-terry", d, 1e-2, 500, ridge), rounds=1, iterations=1)
    report(f"500 audits, d={d}, ridge {ridge:g}: largest", found.max(), 1.5, "tolerances")
    report(f"500 audits, d={d}, ridge {ridge:g}: above the tolerance", 100 * np.mean(found > 1.0), 0.1, "%")


def test_regret_of_many_features_beside_an_exact_refit_every_round(benchmark, report):
    """Tolerance 1e-10 asks for a full solve after every answer."""
    n_runs, d = 20, 128
    scenario = fc.Scenario.hard(n_arms=64, n_features=d)
    exact = fc.CoLSTIM(d, ridge=1.0, exploration_rounds=10, estimator=fc.MLE(tolerance=1e-10))
    policies = {"MLE": fc.CoLSTIM(d, ridge=1.0, exploration_rounds=10), "exact": exact}
    result = benchmark.pedantic(fc.simulate, args=(policies, scenario, 3000, n_runs, 1), rounds=1, iterations=1)
    ours, theirs = (result.average_regret[name][:, -1] for name in policies)
    print(f"exact {theirs.mean():.0f}; MLE less exact, run by run, {np.mean(ours - theirs):.1f}")
    report("regret of MLE() less exact, d=128, 20 runs", 100 * abs(np.mean(ours - theirs)) / theirs.mean(), 2, "%")


@pytest.mark.parametrize("link", ["bradley-terry"])
def test_regret_beside_an_exact_refit_every_round(benchmark, report, link):
    """Tolerance 1e-10 asks for a full solve after every answer but the first few."""
    scenario = fc.Scenario.hard(n_arms=N, n_features=10, comparison=link)
    policies = {"MLE": fc.CoLSTIM(10), "exact": fc.CoLSTIM(10, estimator=fc.MLE(tolerance=1e-10))}
    pair = [
        fc.simulate({"CoLSTIM": policy}, scenario, 5000, 30, 1).average_regret["CoLSTIM"][:, -1]
        for policy in policies.values()
    ]
    benchmark.pedantic(fc.simulate, args=({"x": policies["MLE"]}, scenario, 5000, 1, 1), rounds=1, iterations=1)
    report("regret of MLE() less exact, 30 runs", 100 * abs(np.mean(pair[0] - pair[1])) / np.mean(pair[1]), 2, "%")


def test_pairs_beside_an_exact_refit(benchmark, report):
    """With the same history and noise: how often MLE() chooses what the exact estimate chooses."""

    def play():
        same = []
        for seed in range(5):
            policy = fc.CoLSTIM(10, n_arms=N, horizon=2000, exploration_rounds=100, rng=seed)
            problem = fc.Scenario.hard(n_arms=N, n_features=10).start(seed, 0)
            rng = np.random.default_rng(seed)
            for t in range(2000):
                contexts = np.ascontiguousarray(problem.next_chunk(1).contexts[0].T)
                exact = copy.deepcopy(policy)
                duel = policy.select(contexts)
                if t >= 100:
                    exact._state.memory.progress["warm"] = 0
                    exact._rule.estimator._replace(tolerance=1e-10).refresh(exact._rule.model, exact._state.memory)
                    other = exact.select(contexts)
                    same.append((duel.first, duel.second) == (other.first, other.second))
                policy.update(duel, bool(duel.contrast @ problem.theta + rng.logistic() > 0))
        return np.mean(same)

    same = benchmark.pedantic(play, rounds=1, iterations=1)
    report("the same pair as the exact estimate's", 100 * same, 99.9, "%", at_least=True)


def test_regret_and_time_of_the_estimators(benchmark, report):
    """The README's table: T=20,000, hard scenario, n=50, d=10."""
    scenario = fc.Scenario.hard(n_arms=N, n_features=10)
    estimators = {"SGD": fc.SGD(), "OnlineNewton": fc.OnlineNewton(), "MLE": fc.MLE()}
    policies = {name: fc.CoLSTIM(10, estimator=estimator) for name, estimator in estimators.items()}
    result = benchmark.pedantic(fc.simulate, args=(policies, scenario, 20_000, 30, 1), rounds=1, iterations=1)
    for name, table in result.average_regret.items():
        seconds = result.seconds[name].min()
        print(f"{name}: regret {table[:, -1].mean():.0f} ({table[:, -1].std(ddof=1):.0f}), {seconds:.3f} s a run")
    report(
        "regret of MLE over SGD's",
        result.average_regret["MLE"][:, -1].mean() / result.average_regret["SGD"][:, -1].mean(),
        1,
        "times",
    )


if __name__ == "__main__":
    link, d, tolerance, n = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    errors = audits(link, d, tolerance, n, *map(float, sys.argv[5:6]))
    print(link, d, tolerance, n, f"largest {errors.max():.3f}, above 1: {np.mean(errors > 1):.5f}")
