"""Simulations: the problem's laws, agreement with closed forms and the reference, and what must not matter."""

from __future__ import annotations

import functools
import math
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from conftest import JIT, rounds
from numpy.random import SeedSequence
from scipy import integrate, stats
from twins import OURS

import fastcolst as fc
from fastcolst import _compile, reference, streams
from fastcolst.experiments import laws, problems, simulation
from fastcolst.policies.protocol import Chunk

CoLSTIM = functools.partial(fc.CoLSTIM, estimator="sgd")
"""The exact estimator has tests of its own, and is slow as plain Python."""


def numbers(result, label):
    return [table[label].tobytes() for table in (result.average_regret, result.weak_regret, result.self_duels)]


SMALL = {"n_arms": 6, "n_features": 3}


# --- what must not matter -----------------------------------------------------------------------------------


def test_threads_chunks_and_company_do_not_matter(monkeypatch):
    scenario, horizon, runs = fc.Scenario.medium(**SMALL), rounds(3000, 60), rounds(4, 2)
    policy = CoLSTIM(3, exploration_rounds=10)
    alone = fc.simulate({"CoLSTIM": policy}, scenario, horizon, runs=runs, rng=7, threads=1)
    company = {
        "Random": fc.UniformPairs(),
        "CoLSTIM": policy,
        "wide": CoLSTIM(3, width_scale=9.0, ridge=1.0),
    }
    for threads in (1, 2):
        for chunk_bytes in (1, 1000, 2**20):
            monkeypatch.setattr(problems, "CHUNK_BYTES", chunk_bytes)
            together = fc.simulate(company, scenario, horizon, runs=runs, rng=7, threads=threads)
            assert numbers(together, "CoLSTIM") == numbers(alone, "CoLSTIM")
            assert together.thetas.tobytes() == alone.thetas.tobytes()
    assert numbers(together, "CoLSTIM") != numbers(together, "wide")
    renamed = fc.simulate({"another label": policy}, scenario, horizon, runs=runs, rng=7)
    assert numbers(renamed, "another label") != numbers(alone, "CoLSTIM")  # its own stream
    assert renamed.thetas.tobytes() == alone.thetas.tobytes()


def test_one_runs_contexts_are_drawn_once_for_all_policies(monkeypatch):
    starts, fills = [], []
    start, next_chunk = fc.Scenario.start, problems.Run.next_chunk
    monkeypatch.setattr(fc.Scenario, "start", lambda self, *key: starts.append(key) or start(self, *key))
    monkeypatch.setattr(problems.Run, "next_chunk", lambda self, n: fills.append(self) or next_chunk(self, n))
    monkeypatch.setattr(problems, "CHUNK_BYTES", 8 * 6 * 3 * 10)  # ten rounds a chunk
    scenario, horizon, runs = fc.Scenario.easy(**SMALL), rounds(95, 35), 3
    six = {f"CoLSTIM {scale}": CoLSTIM(3, width_scale=scale, exploration_rounds=5) for scale in (0.0, 0.5, 1.0, 2.0)}
    six |= {"Random": fc.UniformPairs(), "Random again": fc.UniformPairs()}
    together = fc.simulate(six, scenario, horizon, runs=runs, rng=1)
    assert len(starts) == runs
    assert sorted(Counter(fills).values()) == [math.ceil(horizon / 10)] * runs
    for label, policy in six.items():
        alone = fc.simulate({label: policy}, scenario, horizon, runs=runs, rng=1)
        assert numbers(alone, label) == numbers(together, label)


class Cut:
    """A problem whose chunks are what ``spoil`` makes of them."""

    n_arms, n_features = 6, 3

    def __init__(self, spoil, chunk_rounds=50):
        self.spoil, self.chunk_rounds = spoil, chunk_rounds

    def start(self, entropy, run):
        source = fc.Scenario.easy(**SMALL).start(entropy, run)
        return SimpleNamespace(
            theta=source.theta, chunk_rounds=self.chunk_rounds, next_chunk=lambda n: self.spoil(source.next_chunk(n))
        )


class FirstTwo:
    """A plain policy."""

    def select(self, contexts):
        return 0, 1

    def update(self, duel, first_won):
        pass


@pytest.mark.parametrize("policy", [fc.UniformPairs(), FirstTwo])
@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda chunk: Chunk(*(a[:40] for a in chunk)), r"contexts of shape \(40, 3, 6\); \(50, 3, 6\) is wanted"),
        (lambda chunk: Chunk(*(np.repeat(a, 2, axis=0) for a in chunk)), r"contexts of shape \(100, 3, 6\); \(50, "),
        (lambda chunk: chunk._replace(latent=chunk.latent[:1]), r"latent of shape \(1,\); \(50,\) is wanted"),
        (lambda chunk: chunk._replace(utilities=chunk.utilities.T), r"utilities of shape \(6, 50\); \(50, 6\) is"),
        (lambda chunk: None, r"None; a Chunk is wanted"),
    ],
)
def test_a_chunk_that_is_not_what_was_asked_for_is_told(policy, spoil, found):
    with pytest.raises(ValueError, match=rf"^run 0, round 1: next_chunk\(50\) of the problem gave {found}"):
        fc.simulate({"x": policy}, Cut(spoil), 200, rng=1)


@pytest.mark.parametrize("chunk_rounds", [0, -1, 2.5, None])
def test_a_run_that_would_never_end_is_told(chunk_rounds):
    with pytest.raises(ValueError, match=r"chunk_rounds is .*wanted"):
        fc.simulate({"x": fc.UniformPairs()}, Cut(lambda chunk: chunk, chunk_rounds), 200, rng=1)


def test_a_run_is_what_an_object_would_have_played():
    scenario, horizon, seed = fc.Scenario.hard(**SMALL), rounds(1500, 80), 12
    template = CoLSTIM(3, exploration_rounds=12)
    result = fc.simulate({"mine": template}, scenario, horizon, runs=2, rng=seed, checkpoints=horizon)
    key = SeedSequence(seed, spawn_key=(streams.POLICY, 1, *streams.label_key("mine")))
    policy = CoLSTIM(3, n_arms=6, exploration_rounds=12, horizon=horizon, rng=key)
    source, average, total, t = scenario.start(seed, 1), [], 0.0, 0
    while t < horizon:
        chunk = source.next_chunk(min(source.chunk_rounds, horizon - t))
        for r in range(len(chunk.best)):
            duel = policy.select(chunk.contexts[r].T)
            total += reference.regret(chunk.utilities[r], duel.first, duel.second)[0]
            average.append(total)
            margin = chunk.utilities[r, duel.first] - chunk.utilities[r, duel.second]
            policy.update(duel, margin + chunk.latent[r] > 0)
        t += len(chunk.best)
    np.testing.assert_allclose(result.average_regret["mine"][1], average, rtol=1e-12)
    assert template.round == 0 and template.get_params()["horizon"] is None  # a template stays as it was


def test_the_seed_is_what_it_takes_to_repeat():
    arguments = ({"Random": fc.UniformPairs()}, fc.Scenario.easy(**SMALL), 20)
    for rng in (5, SeedSequence(5), np.random.default_rng(5), None):
        result = fc.simulate(*arguments, rng=rng)
        assert result.same_numbers(fc.simulate(*arguments, rng=result.seed))
    assert fc.simulate(*arguments, rng=5).same_numbers(fc.simulate(*arguments, rng=SeedSequence(5)))


# --- closed forms, the reference, the paper -----------------------------------------------------------------


def z_score(sample, expected, variance_of_expected=0.0):
    return (np.mean(sample) - expected) / math.sqrt(np.var(sample, ddof=1) / len(sample) + variance_of_expected)


def test_random_choice_has_the_regret_of_its_closed_form():
    """Contexts uniform in the ball: a utility is |theta| times a coordinate, and random arms have mean utility 0.

    So the mean regret of a round is |theta| E[max of n coordinates]. |z| < 4: false alarm 6e-5.
    """
    n, d, horizon = 6, 3, rounds(400, 50)
    theta = np.array([0.6, -0.3, 0.5])
    scenario = fc.Scenario(theta=theta, n_arms=n)
    result = fc.simulate({"Random": fc.UniformPairs()}, scenario, horizon, runs=rounds(200, 20), rng=3)
    coordinate = stats.beta((d + 1) / 2, (d + 1) / 2, loc=-1, scale=2)
    expected_max, _ = integrate.quad(lambda x: x * n * coordinate.cdf(x) ** (n - 1) * coordinate.pdf(x), -1, 1)
    expected = horizon * np.linalg.norm(theta) * expected_max
    assert abs(z_score(result.average_regret["Random"][:, -1], expected)) < 4
    assert not result.self_duels["Random"].any()


def test_random_choice_among_fixed_arms():
    contexts = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 0.2]])
    theta = np.array([1.0, 0.4])
    utilities = contexts @ theta
    horizon = rounds(2000, 200)
    result = fc.simulate(
        {"Random": fc.UniformPairs()},
        fc.Scenario(theta=theta, contexts=contexts),
        horizon,
        runs=rounds(100, 20),
        rng=1,
    )
    expected = horizon * (utilities.max() - utilities.mean())
    assert abs(z_score(result.average_regret["Random"][:, -1], expected)) < 4  # false alarm 6e-5
    weak = np.mean([utilities.max() - max(a, b) for i, a in enumerate(utilities) for b in np.delete(utilities, i)])
    assert abs(z_score(result.weak_regret["Random"][:, -1], horizon * weak)) < 4


@pytest.mark.slow
def test_colstims_regret_agrees_with_the_reference_run_independently():
    """Two implementations, different random numbers: mean regret over 200 runs, |z| < 4 (false alarm 6e-5)."""
    n, d, horizon, runs = 5, 2, 300, 200
    theta = np.array([1.5, -1.0])
    options = {"n_arms": n, "horizon": horizon}
    scenario = fc.Scenario(theta=theta, n_arms=n, comparison="thurstone")
    policy = CoLSTIM(d, comparison="thurstone", **options)
    ours = fc.simulate({"CoLSTIM": policy}, scenario, horizon, runs=runs, rng=11)
    theirs, their_weak = [], []
    for run in range(runs):
        rng = np.random.default_rng([77, run])

        def ball(t, rng=rng):
            direction = rng.normal(size=(n, d))
            return direction * (np.sqrt(rng.random(n)) / np.linalg.norm(direction, axis=1))[:, None]

        twin = reference.CoLSTIM(d, comparison=reference.Thurstone(), **options)
        average, weak, _ = reference.simulate(twin, ball, theta, reference.Thurstone(), horizon, rng)
        theirs.append(average[-1])
        their_weak.append(weak[-1])
    for mine, other in ((ours.average_regret, theirs), (ours.weak_regret, their_weak)):
        assert abs(z_score(mine["CoLSTIM"][:, -1], np.mean(other), np.var(other, ddof=1) / runs)) < 4


@pytest.mark.long
def test_hard_scenario_regret_is_below_12_percent_of_random_choices():
    policies = {"CoLSTIM": CoLSTIM(10), "Random": fc.UniformPairs()}
    result = fc.simulate(policies, fc.Scenario.hard(), 10_000, runs=100, rng=1)
    colstim, random = (result.average_regret[label][:, -1].mean() for label in policies)
    assert colstim < 0.12 * random


def test_answers_follow_the_comparison_function():
    """The latent number D gives P(u + D > 0) = F(u). Kolmogorov-Smirnov with level 1e-4."""
    for model in OURS:
        run = fc.Scenario.easy(n_arms=2, n_features=1, comparison=model).start(4, 0)
        latent = np.concatenate([run.next_chunk(500).latent.copy() for _ in range(rounds(40, 4))])
        assert stats.kstest(latent, model.cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    ("name", "lowest", "highest"), [("easy", 0.0, 3**-0.5), ("medium", 3**-0.5, 1.0), ("hard", 1.0, 3**0.5)]
)
def test_scenarios_draw_theta_uniformly_between_their_norms(name, lowest, highest):
    scenario = getattr(fc.Scenario, name)(n_arms=2, n_features=3)
    thetas = np.array([scenario.start(9, run).theta for run in range(rounds(2000, 300))])
    norms = np.linalg.norm(thetas, axis=1)
    assert norms.min() >= lowest and norms.max() <= highest
    volume = (norms**3 - lowest**3) / (highest**3 - lowest**3)
    assert stats.kstest(volume, "uniform").pvalue > 1e-4  # false alarm 1e-4
    assert stats.kstest(thetas[:, 0] / norms, stats.uniform(-1, 2).cdf).pvalue > 1e-4  # Archimedes


def test_contexts_kinds():
    fixed = fc.Scenario(theta=[1.0, 0.0], n_arms=4, contexts="fixed").start(1, 0).next_chunk(5)
    assert np.ptp(fixed.contexts, axis=0).max() == 0.0 and np.ptp(fixed.contexts) > 0.0
    other = fc.Scenario(theta=[1.0, 0.0], n_arms=4, contexts="fixed").start(1, 1).next_chunk(5)
    assert not np.array_equal(fixed.contexts, other.contexts)  # drawn once a run
    fresh = fc.Scenario(theta=[1.0, 0.0], n_arms=4).start(1, 0).next_chunk(5)
    assert len(np.unique(fresh.contexts)) == fresh.contexts.size
    given = np.arange(6.0).reshape(3, 2)
    chunk = fc.Scenario(theta=[1.0, 2.0], contexts=given).start(1, 0).next_chunk(2)
    np.testing.assert_array_equal(chunk.contexts[1].T, given)
    np.testing.assert_array_equal(chunk.utilities[1], given @ [1.0, 2.0])
    assert chunk.best[1] == (given @ [1.0, 2.0]).max()


class Corners(NamedTuple):
    """A law of contexts of a user's own, not registered: the corners of a cube."""

    half_edge: float = 1.0

    def fill(self, rng, out):
        for i in range(out.shape[0]):
            for k in range(out.shape[1]):
                out[i, k] = self.half_edge if rng.random() < 0.5 else -self.half_edge


def test_a_users_law_of_contexts():
    scenario = fc.Scenario(theta=[0.5, 0.2, 0.1], n_arms=4, contexts=Corners(2))
    chunk = scenario.start(3, 0).next_chunk(50)
    assert set(np.unique(chunk.contexts)) == {-2.0, 2.0}
    result = fc.simulate({"CoLSTIM": CoLSTIM(3)}, scenario, rounds(500, 40), rng=1)
    assert "Corners(half_edge=2.0)" in result.settings["scenario"]


# --- checkpoints, errors, interruption ----------------------------------------------------------------------


def test_checkpoints_are_a_number_or_the_rounds_themselves():
    policies, scenario = {"CoLSTIM": CoLSTIM(3, exploration_rounds=5)}, fc.Scenario.easy(**SMALL)
    every = fc.simulate(policies, scenario, 40, rng=1, checkpoints=40)
    np.testing.assert_array_equal(every.rounds, np.arange(1, 41))
    four = fc.simulate(policies, scenario, 40, rng=1, checkpoints=4)
    np.testing.assert_array_equal(four.rounds, [10, 20, 30, 40])
    some = fc.simulate(policies, scenario, 40, rng=1, checkpoints=[3, 17])
    for result in (four, some):
        np.testing.assert_array_equal(
            result.average_regret["CoLSTIM"], every.average_regret["CoLSTIM"][:, result.rounds - 1]
        )
    assert len(fc.simulate(policies, scenario, 7.0, rng=1).rounds) == 7  # no more checkpoints than rounds
    assert fc.simulate(policies, scenario, 1000, rng=1).rounds[[0, -1]].tolist() == [5, 1000]


class Scratchy(NamedTuple):
    """A law with scratch of its own, which two runs must not share."""

    work: np.ndarray

    def fill(self, rng, out):
        for k in range(out.shape[1]):
            for i in range(out.shape[0]):
                self.work[i] = rng.random()
            for i in range(out.shape[0]):
                out[i, k] = self.work[i] - 0.5


def test_a_law_with_scratch_gives_the_same_numbers_on_any_number_of_threads():
    scenario = fc.Scenario(theta=[1.0, -1.0, 0.5], n_arms=40, contexts=Scratchy(np.empty(40)))
    arguments = ({"Random": fc.UniformPairs()}, scenario, rounds(5000, 50))
    results = [fc.simulate(*arguments, runs=4, rng=1, threads=threads) for threads in (1, 4)]
    assert results[0].same_numbers(results[1])


def test_a_scenario_can_be_pickled():
    for scenario in (fc.Scenario.hard(**SMALL), fc.Scenario(theta=[1.0, 2.0], n_arms=3, contexts="fixed")):
        twin = pickle.loads(pickle.dumps(scenario))
        assert repr(twin) == repr(scenario)
        assert twin.start(3, 1).theta.tobytes() == scenario.start(3, 1).theta.tobytes()


@pytest.mark.jit
def test_compilation_is_over_before_the_runs_begin(monkeypatch):
    """Or it would count as a policy's time."""

    def n_signatures():
        return sum(len(kernel.signatures) for kernel in _compile.KERNELS if kernel is not laws.fill_chunk)

    before, play_run = [], simulation.play_run

    def counted(*arguments):
        before.append(n_signatures())
        return play_run(*arguments)

    monkeypatch.setattr(simulation, "play_run", counted)
    policies = {"CoLSTIM": CoLSTIM(3, comparison=fc.Thurstone(), perturbation="exponential")}
    fc.simulate(policies, fc.Scenario.easy(**SMALL), 100, rng=1)
    assert before == [n_signatures()]


WRONG = {
    "a scenario's name": ({"scenario": "hard"}, "scenario is 'hard'"),
    "checkpoints text": ({"checkpoints": ["a"]}, "checkpoints is"),
    "no policies": ({"policies": {}}, "policies is"),
    "an empty label": ({"policies": {"": fc.UniformPairs()}}, "policies has ''"),
    "checkpoints unsigned": ({"checkpoints": np.array([5, 3], np.uint64)}, "checkpoints is"),
    "a list": ({"policies": [fc.UniformPairs()]}, "policies is"),
    "a class": ({"policies": {"x": fc.CoLSTIM}}, "policies has 'x'"),
    "horizon": ({"horizon": 0}, "horizon is 0"),
    "runs": ({"runs": 0}, "runs is 0"),
    "threads": ({"threads": 0}, "threads is 0"),
    "rng": ({"rng": -3}, "rng is -3"),
    "checkpoints": ({"checkpoints": [5, 3]}, "checkpoints is"),
    "checkpoints late": ({"checkpoints": [5, 200]}, "checkpoints is"),
    "checkpoints 0": ({"checkpoints": 0}, "checkpoints is 0"),
    "features": ({"policies": {"x": CoLSTIM(4)}}, "n_features=4; the problem has 3"),
    "arms": ({"policies": {"x": CoLSTIM(3, n_arms=9)}}, "n_arms=9; the problem has 6"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_named(name):
    changes, message = WRONG[name]
    arguments = {"policies": {"x": fc.UniformPairs()}, "scenario": fc.Scenario.easy(**SMALL), "horizon": 100}
    with pytest.raises(ValueError, match=message):
        fc.simulate(**{**arguments, **changes})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"theta": [[1.0]], "n_arms": 3}, r"theta has shape \(1, 1\)"),
        ({"theta": [np.nan], "n_arms": 3}, r"theta\[0\] is nan"),
        ({"theta": [1.0]}, "n_arms is missing"),
        ({"theta": [1.0], "n_arms": 0}, "n_arms is 0"),
        ({"theta": [1.0], "n_arms": 3, "contexts": "cube"}, "contexts is 'cube'"),
        ({"theta": [1.0], "contexts": [[1.0, 2.0]]}, "contexts has 2 features and theta 1"),
        ({"theta": [1.0], "n_arms": 3, "contexts": [[1.0], [2.0]]}, "n_arms is 3 and contexts has 2 rows"),
        ({"theta": [1.0], "n_arms": 3, "comparison": "probit"}, "comparison is 'probit'"),
    ],
)
def test_a_wrong_scenario_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        fc.Scenario(**arguments)


class Spoiled(NamedTuple):
    """Contexts that are not finite from some round on."""

    probability: float

    def fill(self, rng, out):
        for i in range(out.shape[0]):
            for k in range(out.shape[1]):
                out[i, k] = rng.random()
        if rng.random() < self.probability:
            out[0, 0] = np.nan


@pytest.mark.parametrize("policy", [fc.UniformPairs(), CoLSTIM(2), CoLSTIM(2, ridge=1.0, exploration_rounds=0)])
def test_contexts_that_are_not_finite_stop_the_simulation(policy):
    scenario = fc.Scenario(theta=[1.0, 1.0], n_arms=3, contexts=Spoiled(0.1))
    with pytest.raises(ValueError, match=r"policy 'x', run \d, round \d+: a context"):
        fc.simulate({"x": policy}, scenario, 500, runs=3, rng=1)


def test_a_policy_that_only_explores_says_so():
    scenario = fc.Scenario(theta=[1.0, 1.0], contexts=[[1.0, 0.0], [1.0, 1.0]])
    with pytest.warns(UserWarning, match="still explores after 100 comparisons") as caught:
        fc.simulate({"CoLSTIM": CoLSTIM(2)}, scenario, 100, rng=1)
    assert len(caught) == 1  # once a label, not once a run or a round


def test_the_progress_bar_counts_every_round(capsys):
    fc.simulate({"Random": fc.UniformPairs()}, fc.Scenario.easy(**SMALL), 50, runs=3, rng=1, progress=True)
    assert "150/150" in capsys.readouterr().err


@pytest.mark.either_lane
@pytest.mark.skipif(not hasattr(signal, "SIGINT") or sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_is_answered_within_a_second():
    code = (
        "import fastcolst as fc, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "policies, scenario = {'Random': fc.UniformPairs()}, fc.Scenario.easy(n_arms=6, n_features=3)\n"
        "fc.simulate(policies, scenario, 10, rng=1)\n"
        "print('ready', flush=True)\n"
        "fc.simulate(policies, scenario, 10**9, runs=4, rng=1, threads=2)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    elapsed = time.monotonic() - start
    assert "KeyboardInterrupt" in errors and process.returncode != 0
    assert elapsed < (3.0 if JIT else 10.0)  # a second, and the interpreter's own end on a busy machine


class EmptyError(RuntimeError):
    def __len__(self):
        return 0


@pytest.mark.parametrize("error", [EmptyError, queue.Empty])
def test_an_error_that_counts_as_false_or_is_a_queues_own_stops_the_other_threads(error, monkeypatch):
    def play(plan, run, record, stop):
        if run == 0:
            raise error
        assert stop.wait(30)
        return {}

    monkeypatch.setattr(simulation, "play_run", play)
    with pytest.raises(error):
        fc.simulate({"Random": fc.UniformPairs()}, fc.Scenario.hard(n_arms=3, n_features=2), 10, runs=9, threads=2)


def test_an_interrupt_while_runs_are_handed_out_stops_those_at_work(monkeypatch):
    at_work, told = threading.Semaphore(0), []

    def wait_for(plan, run, record, stop):
        at_work.release()
        told.append(stop.wait(30))
        return {}

    class Interrupted(simulation.ThreadPoolExecutor):
        def submit(self, play):
            if len(self._threads) == 2:
                assert at_work.acquire(timeout=30) and at_work.acquire(timeout=30)
                raise KeyboardInterrupt
            return super().submit(play)

    monkeypatch.setattr(simulation, "play_run", wait_for)
    monkeypatch.setattr(simulation, "ThreadPoolExecutor", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        fc.simulate({"Random": fc.UniformPairs()}, fc.Scenario.hard(n_arms=3, n_features=2), 10, runs=4, threads=3)
    assert told == [True, True]
