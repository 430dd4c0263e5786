"""What fastcolst promises about time and memory. Figures are the best of several; ratios are taken in one run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numba
import numpy as np
import numpy_colstim
import pytest

import fastcolst as fc
from fastcolst import reference
from fastcolst.policies.protocol import draw, select

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from inside import index_twin_of, rule_of, state_of

N, D = 50, 10
SCENARIO = fc.Scenario.hard(n_arms=N, n_features=D)


def best(function, repeats=5, clock=time.perf_counter):
    """Seconds of the fastest of several calls, after one that does not count."""
    function()
    seconds = []
    for _ in range(repeats):
        start = clock()
        function()
        seconds.append(clock() - start)
    return min(seconds)


def fused(horizon, runs=1, threads=1, estimator="sgd"):
    return fc.simulate(
        {"CoLSTIM": fc.CoLSTIM(D, estimator=estimator)}, SCENARIO, horizon, runs=runs, rng=1, threads=threads
    )


def in_new_process(code, **environment):
    """Run Python code in a process of its own and return the number it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return float(done.stdout.split()[-1])


def test_fused_round(benchmark, report):
    fused(100)
    benchmark.pedantic(fused, args=(100_000,), rounds=7, iterations=1)
    ours = benchmark.stats.stats.min / 100_000
    theta = SCENARIO.start(1, 0).theta
    rng = np.random.default_rng(1)
    numpy = best(lambda: numpy_colstim.simulate(theta, N, 10_000, rng), repeats=3) / 10_000
    report("NumPy loop over fused loop", numpy / ours, 12, "times", at_least=True)
    report("fused round, everything included, n=50, d=10, T=100,000", 1e6 * ours, 5.5, "us")


def test_fused_round_is_flat_in_the_horizon(benchmark, report):
    fused(100)
    short = best(lambda: fused(100_000), repeats=7) / 100_000
    benchmark.pedantic(fused, args=(1_000_000,), rounds=4, iterations=1)
    report(
        "a round at T=1,000,000 over one at T=100,000",
        benchmark.stats.stats.min / 1_000_000 / short,
        1.2,
        "times",
    )


def test_object_round(benchmark, report):
    policy = fc.CoLSTIM(D, n_arms=N, horizon=100_000, rng=1, estimator="sgd")
    policy.warmup()
    chunk = SCENARIO.start(1, 0).next_chunk(200)
    contexts = [np.ascontiguousarray(matrix.T) for matrix in chunk.contexts]

    def play():
        for matrix in contexts:
            duel = policy.select(matrix)
            policy.update(duel, True)

    for _ in range(5):
        play()  # past the exploration
    benchmark.pedantic(play, rounds=40, iterations=1)
    report(
        "select + update through the object, n=50, d=10",
        1e6 * benchmark.stats.stats.min / len(contexts),
        16,
        "us",
    )


@numba.njit
def choices(rule, state, chunk, raw, work):
    """One choice for each round of a chunk."""
    total = 0
    for r in range(chunk.contexts.shape[0]):
        choice = select(rule, state, chunk.contexts[r], raw[r], work)
        total += choice.first + choice.second
    return total


def choice_seconds(policy, n_arms, n_rounds=2000):
    """Seconds of a choice for each of several policies that have played ``n_rounds`` of the same problem."""
    problem = fc.Scenario.hard(n_arms=n_arms, n_features=D).start(1, 0)
    played = 0
    while played < n_rounds:
        chunk = problem.next_chunk(min(200, n_rounds - played))
        played += policy.play(chunk, np.zeros((len(chunk.best) + 1, 3)))
    chunk = problem.next_chunk(max(10_000 // n_arms, 4))
    rule, state = rule_of(policy), state_of(policy)
    raw = np.empty((len(chunk.best), rule.n_raw(n_arms)))
    rng = np.random.default_rng(1)
    for row in raw:
        draw(rule, rng, row)
    work = np.empty(rule.work_shape(n_arms, D))
    return best(lambda: choices(rule, state, chunk, raw, work), repeats=15) / len(chunk.best)


def pair_policies(n_arms):
    """CoLSTIM, MaxInP as it is, with nothing dominated and with theta kept short, and MaxPairUCB."""
    options = {"n_features": D, "n_arms": n_arms, "horizon": 100_000, "exploration_rounds": 500, "estimator": "sgd"}
    return {
        "CoLSTIM": fc.CoLSTIM(**options),
        "MaxInP": fc.MaxInP(**options),
        "MaxInP, nothing dominated": fc.MaxInP(**options, width_scale=1e6),
        "MaxInP, |theta| <= 1": fc.MaxInP(**{**options, "estimator": fc.SGD(radius=1)}),
        "MaxPairUCB": fc.MaxPairUCB(**options),
    }


@pytest.mark.parametrize(("n_arms", "informative", "optimistic"), [(50, 3.5, 6), (1000, 10, 12)])
def test_choosing_a_pair(benchmark, report, n_arms, informative, optimistic):
    seconds = {name: choice_seconds(policy, n_arms) for name, policy in pair_policies(n_arms).items()}
    benchmark.pedantic(choice_seconds, args=(pair_policies(n_arms)["MaxInP"], n_arms), rounds=1, iterations=1)
    for name in list(seconds)[1:]:
        # the wide limit is for what learning by the defaults never comes to: nearly all arms remain candidates
        limit = {"MaxInP": informative, "MaxPairUCB": optimistic}.get(name, 12)
        report(f"choice of {name} over CoLSTIM's, n={n_arms}, d=10", seconds[name] / seconds["CoLSTIM"], limit, "times")


def test_choosing_a_pair_grows_slowly_with_the_arms(benchmark, report):
    sizes = [200, 1000, 5000]
    seconds = [{name: choice_seconds(policy, n) for name, policy in pair_policies(n).items()} for n in sizes]
    benchmark.pedantic(choice_seconds, args=(pair_policies(50)["MaxInP"], 50), rounds=1, iterations=1)
    for name in list(seconds[0])[1:]:
        slope = np.polyfit(np.log(sizes), np.log([each[name] for each in seconds]), 1)[0]
        report(f"growth of {name}'s choice with n, 200 to 5,000", slope, 1.5, "in the exponent")


def teaching_policies(n_arms):
    """Informative by each value, and MaxPairUCB, all with a prior and the exact estimate."""
    values = {value: fc.Informative(D, n_arms=n_arms, value=value) for value in ("variance", "d-optimal", "width")}
    optimistic = fc.MaxPairUCB(D, n_arms=n_arms, horizon=100_000, ridge=1.0, exploration_rounds=0)
    return {"MaxPairUCB": optimistic, **values}


def test_choosing_the_pair_that_teaches_most(benchmark, report):
    sizes = [50, 200, 500, 1000, 2000]
    seconds = []
    for n in sizes:
        rounds = [{name: choice_seconds(policy, n, 400) for name, policy in teaching_policies(n).items()}]
        rounds.append({name: choice_seconds(policy, n, 400) for name, policy in teaching_policies(n).items()})
        seconds.append({name: min(each[name] for each in rounds) for name in rounds[0]})
    benchmark.pedantic(choice_seconds, args=(teaching_policies(50)["variance"], 50, 400), rounds=1, iterations=1)
    for name in ("variance", "d-optimal", "width"):
        times = [each[name] / each["MaxPairUCB"] for each in seconds]
        report(f"choice of Informative, {name}, over MaxPairUCB's, n=50, d=10", times[0], 2, "times")
        report(f"choice of Informative, {name}, over MaxPairUCB's, n=2,000, d=10", times[-1], 8, "times")
        slope = np.polyfit(np.log(sizes), np.log([each[name] for each in seconds]), 1)[0]
        report(f"growth of Informative's choice, {name}, with n, 50 to 2,000", slope, 1.5, "in the exponent")


def test_two_threads(benchmark, report):
    fused(100)
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor")
    one, two = [], []
    for _ in range(5):
        for seconds, threads in ((one, 1), (two, 2)):
            start = time.perf_counter()
            fused(20_000, runs=8, threads=threads)
            seconds.append(time.perf_counter() - start)
    benchmark.pedantic(fused, args=(20_000, 8, 2), rounds=1, iterations=1)
    report("one thread over two, 8 runs", min(one) / min(two), 1.6, "times", at_least=True)


def test_memory_does_not_grow_with_the_horizon(benchmark, report):
    code = (
        "import re, fastcolst as fc\n"
        "fc.simulate({'CoLSTIM': fc.CoLSTIM(10, estimator='sgd')}, fc.Scenario.hard(), 10**7, rng=1)\n"
        # not ru_maxrss, which begins with what the process that started this one had
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) / 1024)\n"
    )
    megabytes = benchmark.pedantic(in_new_process, args=(code,), rounds=1, iterations=1)
    report("memory of 10,000,000 rounds in one call", megabytes, 300, "MB")


@numba.njit
def index_choices(rule, state, contexts, raws, work):
    """Choices for given numbers, without the cost of leaving the compiler."""
    total = 0
    for r in range(raws.shape[0]):
        choice = select(rule, state, contexts, raws[r], work)
        total += choice.first + choice.second
    return total


def test_stages(benchmark, report):
    """Fused rounds with an estimate by maximum likelihood in every stage, taken in turns with CoLSTIM's."""
    names = ("CoLSTIM", "SupCoLSTIM", "StaD")
    policies = {name: getattr(fc, name)(D, estimator="mle") for name in names}
    fc.simulate(policies, SCENARIO, 100, rng=1)
    results = [fc.simulate(policies, SCENARIO, 100_000, rng=1, threads=1) for _ in range(5)]
    benchmark.pedantic(fc.simulate, args=({"SupCoLSTIM": policies["SupCoLSTIM"]}, SCENARIO, 10_000), rounds=1)
    seconds = {name: min(float(result.seconds[name][0]) for result in results) for name in names}
    for name in names[1:]:
        ratio = seconds[name] / seconds["CoLSTIM"]
        report(f"round of {name} over CoLSTIM's, exact estimates, n=50, d=10, T=100,000", ratio, 3, "times")


@pytest.mark.parametrize("n_rounds", [0, 1000, 20_000])
@pytest.mark.parametrize(("policy", "limit"), [(fc.DoubleThompson, 8), (fc.SelfSparring, 3)])
def test_choice_by_index(benchmark, report, policy, limit, n_rounds):
    arms = policy(n_arms=N, rng=1)
    run = fc.Scenario(theta=np.linspace(0.0, 2.0, N), contexts=np.eye(N)).start(1, 0)
    for _ in range(n_rounds // 100):
        arms.play(run.next_chunk(100), np.zeros((101, 3)))
    rng = np.random.default_rng(1)
    rule, twin = rule_of(arms), index_twin_of(arms)
    raws, work = rng.random((2000, rule.n_raw(N))), np.empty(rule.work_shape(N, D))
    arguments = (rule, state_of(arms), rng.normal(size=(D, N)), raws, work)
    if policy is fc.DoubleThompson:
        wins, losses, size = twin.wins, twin.wins.T, (N, N)
    else:
        wins, losses, size = twin.wins, twin.losses, (2, N)
    index_choices(*arguments)
    numpy = best(lambda: [rng.beta(wins + 1.0, losses + 1.0, size) for _ in range(50)], repeats=15) / 50
    benchmark.pedantic(index_choices, args=arguments, rounds=25, iterations=1)
    ours = benchmark.stats.stats.min / len(raws)
    what = f"{policy.__name__}, n={N}, after {n_rounds:,} rounds"
    report(f"choice of {what}", 1e6 * ours, limit, "us")
    report(f"NumPy's Beta draws over the choice of {what}", numpy / ours, 5, "times", at_least=True)


@pytest.mark.parametrize("name", ["DoubleThompson", "SelfSparring"])
def test_regret_by_index(benchmark, report, name):
    """100 runs of 20,000 rounds on ten Bradley-Terry arms, against as many of the reference; some minutes."""
    theta, horizon, runs = np.linspace(0.0, 2.0, 10), 20_000, 100
    scenario = fc.Scenario(theta=theta, contexts=np.eye(10))
    result = benchmark.pedantic(
        fc.simulate, args=({name: getattr(fc, name)()}, scenario, horizon, runs, 1), rounds=1, iterations=1
    )
    ours = result.average_regret[name][:, -1]
    rng, contexts = np.random.default_rng(1), np.eye(10)
    theirs = [
        reference.simulate(
            getattr(reference, name)(10), lambda t: contexts, theta, reference.BradleyTerry(), horizon, rng
        )[0][-1]
        for _ in range(runs)
    ]
    z = abs(ours.mean() - np.mean(theirs)) / np.sqrt((ours.var(ddof=1) + np.var(theirs, ddof=1)) / runs)
    report(f"regret of {name} against the reference, |z|", z, 4)


def test_import(benchmark, report):
    clock = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    ours, numba = [], []
    for _ in range(8):
        numba.append(in_new_process(clock.format("numba")))
        ours.append(in_new_process(clock.format("fastcolst; fastcolst.CoLSTIM")))  # the first name imports the rest
    benchmark.pedantic(in_new_process, args=(clock.format("fastcolst; fastcolst.CoLSTIM"),), rounds=1, iterations=1)
    report("import fastcolst over import numba", min(ours) / min(numba), 1.3, "times")


FIRST_SELECT = (
    "import time, numpy as np, fastcolst as fc\n"
    "fc.CoLSTIM(3, estimator='sgd').select(np.eye(3)); print(time.process_time())\n"
)


def test_first_select_from_a_warm_cache(benchmark, report):
    """Seconds of processor time from the start of the process, imports included."""
    fc.CoLSTIM(3, estimator="sgd").warmup()
    in_new_process(FIRST_SELECT)
    seconds = [in_new_process(FIRST_SELECT) for _ in range(5)]
    benchmark.pedantic(in_new_process, args=(FIRST_SELECT,), rounds=1, iterations=1)
    report("first select in a new process, warm cache", min(seconds), 0.6, "s")


SIX_LINES = """
import sys, time
import numpy as np, fastcolst as fc

def use(estimator, comparison="bradley-terry"):
    policy, rng = fc.CoLSTIM(3, comparison=comparison, estimator=estimator, rng=0), np.random.default_rng(0)
    for options in rng.normal(size=(500, 5, 3)):
        duel = policy.select(options)
        policy.update(duel, 2 * duel.contrast[0] + rng.logistic() > 0)
    policy.theta, policy.probability(options[0], options[1])

use(sys.argv[1])
first = time.process_time()
use(sys.argv[1], "thurstone")
print(first, time.process_time() - first)
"""
SIMULATION = """
import time, fastcolst as fc
scenario = fc.Scenario.hard(n_arms=10, n_features=5)
fc.simulate({"CoLSTIM": fc.CoLSTIM(5)}, scenario, 300, rng=1, threads=1)
print(time.process_time())
"""


def test_first_uses(benchmark, report, tmp_path):
    """Seconds of processor time from the start of the process, nothing in the cache; the least of two."""

    def cold(program, *arguments):
        environment = {**os.environ, "NUMBA_CACHE_DIR": tempfile.mkdtemp(dir=tmp_path)}
        command = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return [float(seconds) for seconds in done.stdout.split()]

    exact, steps, simulated = (
        np.min([cold(*call) for _ in range(2)], axis=0)
        for call in ((SIX_LINES, "mle"), (SIX_LINES, "sgd"), (SIMULATION,))
    )
    benchmark.pedantic(cold, args=(SIX_LINES, "sgd"), rounds=1, iterations=1)
    report("cold first use, the six lines of the README, exact estimate", exact[0], 7.5, "s")
    report('the same with `estimator="sgd"`', steps[0], 4, "s")
    report("cold simulation, exact estimate", simulated[0], 9, "s")
    report("a further combination, exact estimate", exact[1], 4, "s")
