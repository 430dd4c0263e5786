"""Sup-CoLSTIM and Sta'D: the same duels as the reference, and what each stage learns from."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any, NamedTuple

import inside
import numpy as np
import pytest
from conftest import everyday, rounds
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import fastcolst as fc
from fastcolst import reference, streams
from fastcolst._checks import LARGEST
from fastcolst.extend import LEARNED, OVERFLOW
from fastcolst.policies.kernels import Buffers, choose, decoded

MODELS = {
    "bradley-terry": reference.BradleyTerry(),
    "thurstone": reference.Thurstone(),
    "exponential": reference.ExponentialNoise(),
}
POLICIES = {"SupCoLSTIM": (fc.SupCoLSTIM, reference.SupCoLSTIM), "StaD": (fc.StaD, reference.StaD)}
COMPILED = {"SupCoLSTIM": "exponential", "StaD": "thurstone"}
D, N = 3, 8


class Rounds:
    """Rounds of a problem: contexts as people hand them in, utilities, answers."""

    def __init__(self, n_rounds, d=D, n=N, theta=None, seed=5):
        scenario = fc.Scenario.hard(n_arms=n, n_features=d) if theta is None else fc.Scenario(theta=theta, n_arms=n)
        run, parts, left = scenario.start(seed, 0), [], n_rounds
        while left:
            chunk = run.next_chunk(min(left, run.chunk_rounds))
            parts.append([array.copy() for array in chunk])
            left -= len(chunk.best)
        self.chunk = type(chunk)(*map(np.concatenate, zip(*parts, strict=True)))

    def __iter__(self):
        for x, u, latent in zip(self.chunk.contexts, self.chunk.utilities, self.chunk.latent, strict=True):
            yield np.ascontiguousarray(x.T), u, lambda i, j, u=u, latent=latent: bool(u[i] - u[j] + latent > 0.0)

    def play(self, policy):
        """Let a policy play them in one kernel."""
        m = len(self.chunk.best)
        assert policy.play(self.chunk, np.zeros((m + 1, 3))) == m


def a_pair(name, horizon, estimator=None, d=D, n=N, model="bradley-terry", **options):
    """A policy and its reference, which learns by gradient steps unless somebody hands it theta."""
    ours, plain = POLICIES[name]
    options = {"n_arms": n, "horizon": horizon, "exploration_rounds": 15, "width_scale": 0.5, **options}
    estimator = fc.SGD(0.3, decay=0.5) if estimator is None else estimator
    twin = plain(d, comparison=MODELS[model], learning_rate=0.3, decay=0.5, **options)
    return ours(d, comparison=model, estimator=estimator, rng=3, **options), twin


def counts_of(twin):
    """The reference's ``stage_counts``."""
    found = {s: dict.fromkeys(("exploration", "width", "confident"), 0) for s in range(len(twin.stages) + 1)}
    for stage, reason in twin.ends.values():
        found[stage][reason] += 1
    return found


def follow(policy, twin, game, before=None, delay=None):
    """Let both play the rounds; the duels must agree. Answers come at once, or late and in any order."""
    noise, waiting = streams.generator(3), []
    for contexts, _, wins in game:
        if before is not None:
            before()
        duel = policy.select(contexts)
        pair = twin.select(contexts, *twin.draw(noise, len(contexts)))
        assert (duel.first, duel.second) == pair, f"round {policy.round}"
        if not duel.is_self:
            waiting.append((duel, wins(*pair)))
        while waiting and (delay is None or len(waiting) > delay.integers(30)):
            answered, won = waiting.pop(0 if delay is None else delay.integers(len(waiting)))
            policy.update(answered, won)
            twin.update(answered.contrast, won, asked_in=answered.round)
    assert policy.stage_counts == counts_of(twin)


def check_stages(policy, twin):
    for s, plain in enumerate(twin.stages, start=1):
        np.testing.assert_allclose(policy.stage(s).theta, plain.theta, rtol=0, atol=1e-10)
        np.testing.assert_allclose(policy.stage(s).gram, plain.gram, rtol=1e-12, atol=1e-12)


def check_equal(policy, other):
    assert policy.stage_counts == other.stage_counts
    for s in range(1, policy.n_stages + 1):
        one, two = policy.stage(s), other.stage(s)
        assert (one.theta.tobytes(), one.gram.tobytes(), one.count, one.status) == (
            (two.theta.tobytes(), two.gram.tobytes(), two.count, two.status)
        )


# --- the same choices -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "model"),
    [
        # compiled, each policy with a model besides the one with which other tests compile it
        pytest.param(name, model, marks=everyday(COMPILED[name] == model))
        for name in POLICIES
        for model in MODELS
    ],
)
def test_object_fused_loop_and_reference_choose_the_same_duels(name, model):
    horizon = rounds(3000, 300)
    policy, twin = a_pair(name, horizon, model=model)
    fused, _ = a_pair(name, horizon, model=model)
    game = Rounds(horizon)
    follow(policy, twin, game)
    check_stages(policy, twin)
    game.play(fused)
    check_equal(policy, fused)
    ends = policy.stage_counts
    assert sum(ends[s]["width"] > 0 for s in ends) >= 3 and sum(ends[s]["confident"] > 0 for s in ends) >= 2


OPTIONS = {
    "defaults": {"width_scale": None, "exploration_rounds": None},
    "ridge, no exploration": {"ridge": 1e-2, "exploration_rounds": 0},
    "no widths": {"width_scale": 0.0},
    "tiny widths": {"width_scale": 0.01},
    "wide": {"width_scale": 5.0},
    "one stage": {"horizon": 3, "exploration_rounds": 4},
    "past the horizon": {"horizon": 60},
    "unclipped": {"clip": math.inf, "coupling": 1.0, "width_scale": 0.1},
    "tight clip": {"clip": 0.3, "coupling": 0.5, "width_scale": 0.1},
    "theorem's coupling": {"coupling": "theorem", "width_scale": 0.1},
    "no self-duels": {"allow_self_duel": False, "width_scale": 0.1},
}


@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("name", POLICIES)
def test_every_option_agrees_with_the_reference(name, case):
    options = dict(OPTIONS[case])
    if name == "StaD" and {"clip", "coupling", "allow_self_duel"} & set(options):
        pytest.skip("Sta'D has no such option")
    horizon = rounds(1200, 150)
    policy, twin = a_pair(name, **{"horizon": horizon, **options})
    follow(policy, twin, Rounds(horizon))
    check_stages(policy, twin)
    if case == "no self-duels":
        assert policy.pending == 0 and sum(policy.stage_counts[s]["confident"] for s in policy.stage_counts) > 20


def test_a_lone_survivor_that_may_not_meet_itself_meets_another_arm():
    settings = {"width_scale": 0.02, "exploration_rounds": 30}
    alone, company = a_pair("SupCoLSTIM", 300, **settings)[0], a_pair("SupCoLSTIM", 300, **settings)[0]
    company = company._fresh(allow_self_duel=False)
    n_alone, rng = 0, np.random.default_rng(1)
    better, worse = rng.normal(size=(2, 60, D)) + np.array([[[1.0]], [[-1.0]]])
    for policy in (alone, company):
        policy.learn(better, worse)
    for contexts, _, _ in Rounds(rounds(300, 120)):
        one, two = alone.select(contexts), company.select(contexts)
        assert one.first == two.first and not two.is_self
        n_alone += one.is_self
    assert n_alone > 20


@pytest.mark.parametrize("name", POLICIES)
def test_late_answers_in_any_order_teach_the_stage_of_their_round(name):
    horizon = rounds(1500, 200)
    policy, twin = a_pair(name, horizon)
    follow(policy, twin, Rounds(horizon), delay=np.random.default_rng(0))
    check_stages(policy, twin)
    assert {s for s, reasons in policy.stage_counts.items() if reasons["width"]} >= {2, 3}


@pytest.mark.parametrize("name", POLICIES)
def test_logs_teach_every_stage(name):
    rng = np.random.default_rng(8)
    winners, losers = rng.normal(size=(2, 20, D))
    policy, twin = a_pair(name, 400)
    game = list(Rounds(rounds(200, 60)))
    for part in (slice(0, 6), slice(6, 20)):  # during the exploration and after it
        policy.learn(winners[part], losers[part])
        twin.learn((winners - losers)[part], np.ones(20, bool)[part])
        check_stages(policy, twin)
        if part.start == 0:
            follow(policy, twin, game[:40])
            game = game[40:]
    assert policy.stage(5).count == policy.stage_counts[0]["exploration"] + 20 + policy.stage_counts[5]["width"]


@pytest.mark.parametrize("name", POLICIES)
def test_replay_predicts_by_the_first_stage(name):
    rng = np.random.default_rng(2)
    log = fc.Log.from_arrays(rng.normal(size=(200, D)), rng.random(200) < 0.6)
    ours = fc.replay(POLICIES[name][0](D, estimator="sgd"), log)
    np.testing.assert_array_equal(ours.probabilities, fc.replay(fc.CoLSTIM(D, estimator="sgd"), log).probabilities)


# --- the exact estimators -------------------------------------------------------------------------------------


EVERY_MODEL = [
    pytest.param(model, marks=() if model == "bradley-terry" else pytest.mark.slow, id=model) for model in MODELS
]
"""Models beyond the first take seconds of compilation for each policy and estimator."""


@pytest.mark.jit
@pytest.mark.parametrize("model", EVERY_MODEL)
@pytest.mark.parametrize(
    "estimator", [fc.MLE(), pytest.param(fc.MLE(1e-9), marks=pytest.mark.slow), fc.OnlineNewton(history=40)]
)
@pytest.mark.parametrize("name", POLICIES)
def test_given_theta_the_exact_estimators_choose_the_reference_s_duels(name, estimator, model, full):
    horizon = 5000 if full else 1500
    policy, twin = a_pair(name, horizon, estimator, model=model)
    fused, _ = a_pair(name, horizon, estimator, model=model)

    def hand_over():
        for s, stage in enumerate(twin.stages, start=1):
            stage.theta = policy.stage(s).theta

    game = Rounds(horizon)
    follow(policy, twin, game, before=hand_over)
    for s, stage in enumerate(twin.stages, start=1):
        np.testing.assert_allclose(policy.stage(s).gram, stage.gram, rtol=1e-12, atol=1e-12)
    game.play(fused)
    check_equal(policy, fused)


@pytest.mark.jit
@pytest.mark.parametrize("model", EVERY_MODEL)
@pytest.mark.parametrize("name", POLICIES)
def test_in_one_pass_the_duels_are_those_of_the_reference_s_newton_steps(name, model, full):
    horizon = 5000 if full else 1000
    policy, twin = a_pair(name, horizon, fc.OnlineNewton(history=0), model=model)
    fused, _ = a_pair(name, horizon, fc.OnlineNewton(history=0), model=model)
    learners = {id(stage): reference.OnlineNewton(MODELS[model], history=0) for stage in twin.stages}
    teach = twin._teach

    def teach_and_step(stages, contrast, won, *counts):
        teach(stages, contrast, won, *counts)
        for stage in stages:
            stage.theta = learners[id(stage)].learn(contrast, won)

    twin._teach = teach_and_step
    game = Rounds(horizon)
    follow(policy, twin, game)
    for s, stage in enumerate(twin.stages, start=1):
        np.testing.assert_allclose(policy.stage(s).theta, stage.theta, rtol=0, atol=1e-10)
    game.play(fused)
    check_equal(policy, fused)


@pytest.mark.jit
@pytest.mark.parametrize("model", EVERY_MODEL)
@pytest.mark.parametrize("name", POLICIES)
def test_with_a_tight_tolerance_the_duels_are_those_of_the_reference_s_maximum(name, model):
    policy, twin = a_pair(name, 400, fc.MLE(1e-9), exploration_rounds=40, model=model)
    learned, taught, teach = {id(stage): [] for stage in twin.stages}, [], twin._teach

    def teach_and_note(stages, contrast, won, *counts):
        teach(stages, contrast, won, *counts)
        for stage in stages:
            learned[id(stage)].append(contrast if won else -contrast)
        taught.extend(stages)

    def maximise():
        if twin.round >= 40:
            for stage in dict.fromkeys(taught):
                rows = learned[id(stage)]
                stage.theta = reference.fit(rows, np.ones(len(rows)), comparison=twin.comparison, radius="auto").theta
            taught.clear()

    twin._teach = teach_and_note
    follow(policy, twin, Rounds(400), before=maximise)
    assert sum(policy.stage_counts[s]["width"] > 0 for s in policy.stage_counts) >= 2


@pytest.mark.jit
@pytest.mark.parametrize("name", POLICIES)
def test_each_stage_has_the_maximum_of_its_own_comparisons(name):
    """Those of the exploration and of its own rounds, whenever their answers came, and of no other round."""
    horizon, rng = 1500, np.random.default_rng(1)
    policy, _ = a_pair(name, horizon, fc.MLE(1e-9))
    own = {s: [] for s in range(1, policy.n_stages + 1)}
    waiting = []
    for contexts, _, wins in Rounds(horizon):
        before = policy.stage_counts
        duel = policy.select(contexts)
        ((stage, reason),) = {(s, r) for s, row in policy.stage_counts.items() for r in row if row[r] > before[s][r]}
        taught = {"exploration": list(own), "width": [stage], "confident": []}[reason]
        if not duel.is_self:
            waiting.append((duel, wins(duel.first, duel.second), taught))
        while len(waiting) > rng.integers(100):
            duel, won, taught = waiting.pop(rng.integers(len(waiting)))
            policy.update(duel, won)
            for s in taught:
                own[s].append(duel.contrast if won else -duel.contrast)
    assert sum(len(own[s]) > len(own[10]) for s in own) >= 3
    for s, rows in own.items():
        stage, signed = policy.stage(s), np.array(rows)
        assert stage.count == len(rows)
        np.testing.assert_allclose(stage.gram, signed.T @ signed, rtol=1e-10, atol=1e-10)
        found = reference.fit(signed, np.ones(len(rows)), comparison=reference.BradleyTerry(), radius="auto")
        assert found.distance(stage.theta) <= 2e-9
    assert policy.audit() <= 1e-8


def survivors(policy, contexts, stage):
    """The arms that come into a stage, by the estimates of those before."""
    arms = np.arange(len(contexts))
    for s in range(1, stage):
        utilities = contexts[arms] @ policy.stage(s).theta
        arms = arms[utilities + 2.0**-s >= utilities.max()]
    return arms


def eliminations(name, width_scale, seed):
    """Shares of the rounds in which some arm was eliminated and in which the best survived, and the stages used."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=2)
    theta *= 0.6 / np.linalg.norm(theta)
    options = {"exploration_rounds": 100, "width_scale": width_scale}
    policy, _ = a_pair(name, 4000, fc.MLE(), d=2, n=5, **options)
    n_fewer, n_kept, n_rounds, stages = 0, 0, 0, set()
    for contexts, utilities, wins in Rounds(4000, d=2, n=5, theta=theta, seed=seed):
        counts = policy.stage_counts
        duel = policy.select(contexts)
        (stage,) = {s for s, row in policy.stage_counts.items() if row != counts[s]}
        if stage > 0:  # a choice changes no theta
            arms = survivors(policy, contexts, stage)
            n_rounds += 1
            n_fewer += len(arms) < 5
            n_kept += int(np.argmax(utilities)) in arms
            stages.add(stage)
        if not duel.is_self:
            policy.update(duel, wins(duel.first, duel.second))
    return n_fewer / n_rounds, n_kept / n_rounds, stages


@pytest.mark.jit
@pytest.mark.parametrize("name", POLICIES)
def test_stages_eliminate_arms_and_keep_the_best(name):
    """With a width scale of 0.5 the best arm survives in fewer than 97 % of the rounds: see the second half."""
    fewer, kept, stages = eliminations(name, 4.0, seed=1)
    assert fewer > 0.5 and kept >= 0.99 and stages >= {3, 4, 5}
    _, kept, _ = eliminations(name, 0.5, seed=1)
    assert kept < 0.97


# --- the object -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["sgd", pytest.param("mle", marks=pytest.mark.jit)])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
@pytest.mark.parametrize("name", POLICIES)
def test_a_copy_goes_on_by_itself_and_knows_the_stages_of_open_duels(name, duplicate, estimator):
    game, policy, duels = list(Rounds(rounds(600, 160))), a_pair(name, 600, estimator, width_scale=2.0)[0], []
    half = len(game) // 2
    for contexts, _, wins in game[:half]:
        duel = policy.select(contexts)
        if duel.is_self:
            continue
        if policy.round % 5 == 0:
            duels.append((duel, wins(duel.first, duel.second)))
        else:
            policy.update(duel, wins(duel.first, duel.second))
    assert len(duels) > 5
    twin = duplicate(policy)
    for one in (policy, twin):
        for duel, won in duels:
            one.update(duel, won)
    check_equal(policy, twin)
    for contexts, _, wins in game[half:]:
        duel, other = policy.select(contexts), twin.select(contexts)
        assert (duel.first, duel.second) == (other.first, other.second)
        if not duel.is_self:
            policy.update(duel, wins(duel.first, duel.second))
            twin.update(other, wins(duel.first, duel.second))
    check_equal(policy, twin)


@pytest.mark.parametrize("name", POLICIES)
def test_a_template_needs_no_horizon_and_a_choice_does(name):
    template = POLICIES[name][0](D, estimator="sgd", exploration_rounds=10)
    with pytest.raises(ValueError, match=r"^horizon is None"):
        template.select(np.eye(D))
    result = fc.simulate({"a": template}, fc.Scenario.hard(n_arms=N, n_features=D), rounds(300, 40), rng=1)
    assert result.average_regret["a"][0, -1] > 0.0 and template.n_stages == 1
    assert [a_pair(name, horizon)[0].n_stages for horizon in (1, 2, 3, 4, 1023, 1024)] == [1, 1, 1, 2, 9, 10]


@pytest.mark.parametrize("number", [0, 10, 1.5, "first"])
def test_a_stage_that_is_not_there_is_named(number):
    with pytest.raises(ValueError, match=r"^number is"):
        a_pair("StaD", 600)[0].stage(number)


@pytest.mark.parametrize("name", POLICIES)
def test_contexts_that_are_not_finite_change_nothing(name):
    policy = a_pair(name, 300)[0]
    for contexts, _, wins in Rounds(60):
        duel = policy.select(contexts)
        if not duel.is_self:
            policy.update(duel, wins(duel.first, duel.second))
    counts = policy.stage_counts
    contexts[2, 1] = math.nan
    with pytest.raises(ValueError, match=r"contexts\[2, 1\] is nan"):
        policy.select(contexts)
    assert policy.stage_counts == counts and sum(sum(row.values()) for row in counts.values()) == 60


def test_the_theorem_s_constants():
    d, n, horizon, rho, mu = 2, 5, 10**6, 0.5, float(reference.BradleyTerry().pdf(4.0))
    scale = 3.0 / (2.0 * mu) * math.sqrt(2.0 * math.log(3 * n * horizon**2))
    for policy in (fc.SupCoLSTIM, fc.StaD):
        made = policy.from_theorem(d, n_arms=n, horizon=horizon, rho=rho).get_params()
        assert made["width_scale"] == pytest.approx(scale, rel=1e-12)
        assert made["exploration_rounds"] == math.ceil(d + max(d**2 * math.log(horizon) / (mu**2 * rho), d / rho))
    made = fc.SupCoLSTIM.from_theorem(d, n_arms=n, horizon=horizon, rho=rho).get_params()
    assert made["coupling"] == "theorem" and 0.999 * scale < made["clip"] < made["width_scale"]
    with pytest.warns(UserWarning, match="will only explore"):
        fc.StaD.from_theorem(d, n_arms=n, horizon=100, rho=rho)


# --- symmetries -----------------------------------------------------------------------------------------------


def trained(name, n=N, **options):
    """A policy past its exploration."""
    policy = a_pair(name, 2000, n=n, **options)[0]
    Rounds(rounds(400, 60), n=n).play(policy)
    return policy


TRAINED = {}


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40))
@pytest.mark.parametrize("name", POLICIES)
def test_permuting_arms_and_their_noise_permutes_the_choice(name, seed, n):
    """Random pairs of a stage apart: of those only the stage stays."""
    if name not in TRAINED:
        TRAINED[name] = trained(name)
    policy, rng = TRAINED[name], np.random.default_rng(seed)
    contexts, order = rng.normal(size=(n, D)) * rng.choice([0.03, 0.3, 1.0]), rng.permutation(n)
    raw = np.concatenate([rng.random(2), rng.standard_exponential(policy._rule.n_raw(n) - 2)])
    permuted = np.concatenate([raw[:2], raw[2:][order]]) if len(raw) > 2 else raw
    ends = []
    for x, numbers in ((contexts, raw), (contexts[order], permuted)):
        twin = copy.deepcopy(policy)
        buffers = Buffers.new(policy._rule, n, D)
        buffers.raw[:], buffers.drawn_for[0] = numbers, twin.round + 1
        pair = decoded(choose(twin._agent, x, LARGEST, buffers), n)[:2]
        ends.append((pair, (twin._state.tallies - policy._state.tallies).tolist()))
    (pair, end), (other, same_end) = ends
    assert end == same_end
    if name == "StaD":
        assert {order[k] for k in other} == set(pair)
    elif sum(row[2] for row in end):
        assert tuple(order[k] for k in other) == pair


def test_random_wide_pairs_are_uniform():
    """Chi-square over the ordered pairs of one round; false alarm 1e-4."""
    policy, seen = trained("SupCoLSTIM", n=6, width_scale=3.0), np.zeros((6, 6))
    contexts = np.random.default_rng(0).normal(size=(6, D))
    n_draws = rounds(5000, 1500)
    for _ in range(n_draws):  # without answers every round is alike
        duel = policy.select(contexts)
        seen[duel.first, duel.second] += 1
    allowed = seen > 0
    assert allowed.sum() == allowed.T.sum() > 5 and np.array_equal(allowed, allowed.T)
    expected = n_draws / allowed.sum()
    statistic = float(np.sum((seen[allowed] - expected) ** 2) / expected)
    assert statistic < chi2.isf(1e-4, allowed.sum() - 1)


@pytest.mark.parametrize("estimator", ["mle", "online-newton", "sgd"])
@pytest.mark.parametrize("policy", [fc.SupCoLSTIM, fc.StaD])
def test_stages_open_after_a_long_exploration(policy, estimator):
    """What stage 1 has learned fills more than the blocks that a history begins with."""
    rng = np.random.default_rng(0)
    long = policy(2, horizon=10_000, exploration_rounds=1100, estimator=estimator, rng=1)
    for _ in range(1105):
        duel = long.select(rng.normal(size=(4, 2)))
        if not duel.is_self:
            long.update(duel, bool(duel.contrast[0] + rng.logistic() > 0))
    assert long.status != "exploring" and all(long.stage(s).count >= 1100 for s in range(1, long.n_stages + 1))


class Sum(NamedTuple):
    theta: Any
    learned: Any


class Refusing(NamedTuple):
    """Half steps, of which none may lead beyond a bound."""

    most: float

    def memory(self, n_features):
        return Sum(np.zeros(n_features), np.zeros((), np.int64))

    def learn(self, model, memory, contrast, share, weight):
        if abs(memory.theta[0] + (share - 0.5) * contrast[0]) > self.most:
            return OVERFLOW
        for k in range(contrast.size):
            memory.theta[k] += (share - 0.5) * contrast[k]
        memory.learned[()] += 1
        return LEARNED


def test_a_late_answer_that_one_stage_refuses_teaches_none():
    """Answers to the exploration teach all stages; here the first would take what a later one does not."""
    rng, late = np.random.default_rng(0), []
    policy = fc.StaD(2, horizon=64, estimator=Refusing(1e9), exploration_rounds=12, width_scale=1.0, rng=1)
    while policy.status == "exploring":
        duel = policy.select(rng.normal(size=(4, 2)))
        if len(late) < 4:
            late.append(duel)
        else:
            policy.update(duel, duel.contrast[0] > 0)
    for _ in range(3):
        duel = policy.select(rng.normal(size=(4, 2)))
        if not duel.is_self:
            policy.update(duel, duel.contrast[0] < 0)
    first, later = (abs(policy.stage(s).theta[0]) for s in (1, 2))
    assert first < later  # so that a bound lies between them
    policy = pickle.loads(pickle.dumps(policy))
    rule = inside.rule_of(policy)
    policy._start(rule._replace(estimator=Refusing(later)), inside.state_of(policy))
    before = inside.snapshot(policy)
    duel = max(late, key=lambda duel: abs(duel.contrast[0]))
    for _ in range(3):
        with pytest.raises(ValueError, match="overflows"):
            policy.update(duel, duel.contrast[0] > 0)
        assert inside.snapshot(policy) == before and policy.pending == len(late)
