"""The contract of policies x estimators x comparison models: the same duels as the NumPy reference, however played.

A new policy or model joins by a line in ``twins``, a new estimator by a line in ``ESTIMATORS``. Interpreted, every
combination is played, those with a given theta in the cover alone. Compiled, where each costs seconds of compilation, a
cover is played: every policy with every estimator, every estimator with every model. With ``-m "slow or not slow"`` all
are, for 5,000 rounds each. Policies with stages have theirs in test_stages.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import JIT, everyday, rounds
from inside import arrays, choice_and_draws, index_twin_of, information_of, stream_of
from twins import INFORMED, LINEAR, MODELS, SAMPLERS, taken_by

import fastcolst as fc
from fastcolst import reference, streams
from fastcolst.estimation import online_newton

N_FEATURES, N_ARMS = 3, 8
FULL = 5000

SEEING = {**LINEAR, **INFORMED}
INDEX_ONLY = {
    **{name: (ours, index_twin_of) for name, (ours, _) in SAMPLERS.items()},
    "UniformPairs": (fc.UniformPairs, lambda policy: reference.UniformPairs(N_ARMS)),
}
"""Policies that see indices, each with what makes its reference."""


class Estimator(NamedTuple):
    """An estimator of ours, what the reference has for it (None: its gradient steps), and how they are compared.

    ``n_rounds`` are played compiled, and interpreted after a log of so many comparisons that many rounds: solving for
    theta takes long there. ``atol`` is how far theta may be from the reference's, in standard errors where the
    reference has such. With ``given`` the reference is handed our theta, and our information, before each choice.
    """

    ours: Callable[[str], Any]
    plain: Callable[[reference.ComparisonModel, str], Any] | None
    n_rounds: int
    nojit: tuple[int, int]
    atol: float = 1e-10
    given: bool = False


ESTIMATORS = {
    "sgd": Estimator(lambda score: fc.SGD(score=score), None, 2000, (0, 120)),
    "online-newton": Estimator(
        lambda score: fc.OnlineNewton(history=0, score=score),
        lambda model, score: reference.OnlineNewton(model, history=0, score=score),
        *(2000, (0, 120)),
    ),
    "mle": Estimator(
        lambda score: fc.MLE(1e-9, score=score),
        lambda model, score: reference.MLE(model, score=score),
        *(1000, (60, 10)),
        atol=2e-9,
    ),
    "mle, theta given": Estimator(lambda score: fc.MLE(1e-3, score=score), None, 1000, (60, 40), given=True),
    "online-newton, theta given": Estimator(
        lambda score: fc.OnlineNewton(history=60, score=score), None, 1000, (55, 40), given=True
    ),
}
COMPILED_ALIKE = {name: name.partition(",")[0] for name in ESTIMATORS}
"""Names of the estimators by the code that is compiled for them."""


def cover_model(policy, estimator):
    """Name of the model with which the cover has a policy and an estimator."""
    kinds = list(dict.fromkeys(COMPILED_ALIKE.values()))
    return list(MODELS)[(list(SEEING).index(policy) + kinds.index(COMPILED_ALIKE[estimator])) % len(MODELS)]


def combinations():
    """Names of policy, estimator, model and score; ``slow`` are those outside the cover that take a compiler's time."""
    found = []
    for policy, (name, how), (model, (_, _, scores)) in itertools.product(SEEING, ESTIMATORS.items(), MODELS.items()):
        if policy in INFORMED and name == "sgd":
            continue
        in_cover = model == cover_model(policy, name)
        marks = pytest.mark.slow if how.given and not in_cover else everyday(in_cover)
        found += [pytest.param(*(case := (policy, name, model, s)), id="-".join(case), marks=marks) for s in scores]
    return found


class Case:
    """An object, another one for the fused loop and the reference, with the same settings and the same noise."""

    def __init__(self, policy, estimator, model, score, horizon):
        ours, plain = SEEING[policy]
        compiled, numpy_model, _ = MODELS[model]
        self.estimator, self.model, self.horizon = ESTIMATORS[estimator], compiled, horizon
        settings = taken_by(ours, {"n_arms": N_ARMS, "horizon": horizon, "exploration_rounds": 12})
        mine = {**settings, "comparison": compiled, "estimator": self.estimator.ours(score), "rng": 3}
        self.object, self.fused, self.reader = (ours(N_FEATURES, **mine) for _ in range(3))
        learner = self.estimator.plain and self.estimator.plain(numpy_model, score)
        self.twin = plain(N_FEATURES, comparison=numpy_model, estimator=learner, score=score, **settings)

    def learn_first(self, n_comparisons):
        """Learn a log before the first round; the rows of it, as pairs of contrast and answer."""
        rng = np.random.default_rng(1)
        winners, losers = rng.normal(size=(2, n_comparisons, N_FEATURES))
        flips = np.where(rng.random(n_comparisons) < 0.3, -1.0, 1.0) * np.sign((winners - losers)[:, 0])
        winners, losers = flips[:, np.newaxis] * winners, flips[:, np.newaxis] * losers
        for policy in (self.object, self.fused):
            policy.learn(winners, losers)
        self.twin.learn(winners - losers, np.ones(n_comparisons, bool))
        return [(contrast, True) for contrast in winners - losers]

    def chunk(self):
        return a_chunk(self.model, self.horizon)

    def check_theta(self, theta):
        """Against the reference's."""
        if self.estimator.given:
            return
        off = theta - self.twin.theta
        if hasattr(self.twin.estimator, "information"):
            assert math.sqrt(off @ self.twin.estimator.information(N_FEATURES) @ off) <= self.estimator.atol
        else:
            np.testing.assert_allclose(theta, self.twin.theta, rtol=0, atol=self.estimator.atol)


def a_chunk(model, horizon, n_features=N_FEATURES, n_arms=N_ARMS):
    """Rounds of a hard problem."""
    run = fc.Scenario.hard(n_arms=n_arms, n_features=n_features, comparison=model).start(5, 0)
    parts = []
    while horizon > 0:
        chunk = run.next_chunk(min(horizon, run.chunk_rounds))
        parts.append([array.copy() for array in chunk])
        horizon -= len(chunk.best)
    return type(chunk)(*map(np.concatenate, zip(*parts, strict=True)))


def follow(policy, chunk, choose, learn):
    """Let an object play a chunk beside a reference; the duels must agree. Running regrets and self-duels."""
    totals = np.zeros((len(chunk.best) + 1, 3))
    for r in range(len(chunk.best)):
        contexts, u = np.ascontiguousarray(chunk.contexts[r].T), chunk.utilities[r]
        duel, pair = choose(contexts)
        assert (duel.first, duel.second) == pair, f"round {policy.round}"
        won = bool(u[pair[0]] - u[pair[1]] + chunk.latent[r] > 0.0)
        if not duel.is_self:
            policy.update(duel, won)
            learn(duel.contrast, won)
        totals[r + 1] = totals[r] + (*reference.regret(u, *pair), duel.is_self)
    return totals


def check_fused(fused, chunk, totals):
    """The fused loop, in chunks of odd sizes, has the regret of these duels."""
    trace, played = np.zeros_like(totals), 0
    for size in (1, 7, 500, len(chunk.best)):
        m = min(size, len(chunk.best) - played)
        part = type(chunk)(*(array[played : played + m] for array in chunk))
        assert fused.play(part, trace[played : played + m + 1]) == m
        played += m
    np.testing.assert_allclose(trace, totals, rtol=1e-11, atol=1e-11)


@pytest.mark.filterwarnings("ignore:.* showed an arm against itself:UserWarning")
@pytest.mark.parametrize(("policy", "estimator", "model", "score"), combinations())
def test_object_fused_loop_and_replay_agree_with_the_reference(policy, estimator, model, score, full):
    how = ESTIMATORS[estimator]
    n_logged, n_rounds = (0, how.n_rounds if score == "likelihood" else 1000) if JIT else how.nojit
    if full:
        n_logged, n_rounds = 0, FULL
    case = Case(policy, estimator, model, score, n_rounds)
    noise, log = streams.generator(3), case.learn_first(n_logged) if n_logged else []
    expected = []

    def choose(contexts):
        if how.given:
            case.twin.theta = case.object.theta
            if policy in INFORMED:
                H = information_of(case.object)
                case.twin.information = lambda: H
        return case.object.select(contexts), case.twin.select(contexts, *case.twin.draw(noise, N_ARMS))

    def learn(contrast, won):
        expected.append(float(case.twin.comparison.cdf(contrast @ case.twin.theta)))
        case.twin.update(contrast, won)
        log.append((contrast, won))

    chunk = case.chunk()
    totals = follow(case.object, chunk, choose, learn)
    assert case.object.status != "exploring"
    case.check_theta(case.object.theta)
    np.testing.assert_allclose(case.object.gram, case.twin.gram, rtol=1e-12, atol=1e-12)

    check_fused(case.fused, chunk, totals)
    assert case.fused.theta.tobytes() == case.object.theta.tobytes()
    assert case.fused.gram.tobytes() == case.object.gram.tobytes()

    contrasts, wins = (np.array(column) for column in zip(*log, strict=True))
    if n_logged:
        case.reader.learn(np.where(wins[:, np.newaxis], contrasts, -contrasts), np.zeros_like(contrasts))
    else:
        predicted = case.reader.learn_and_predict(contrasts, wins)
        # as long as answers are separated an exact estimate leaves either outcome 1/(n + 2)
        least = 1.0 / (np.arange(len(expected)) + 2.0)
        off = np.minimum(abs(predicted - expected), abs(predicted - np.clip(expected, least, 1.0 - least)))
        # the first few are: far out the loss is flat, and many theta are as good
        assert off[10:].max() <= (0.01 if how.given else 1e-6)
    case.check_theta(case.reader.theta)
    assert case.reader.gram.tobytes() == case.object.gram.tobytes()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("policy", INDEX_ONLY)
def test_index_only_policies_agree_with_the_reference(policy, model):
    """Given the draws that the kernel took."""
    kind, twin_for = INDEX_ONLY[policy]
    fused, stepped = kind(n_arms=N_ARMS, rng=4), kind(n_arms=N_ARMS, rng=4)
    twin, noise = twin_for(stepped), streams.generator(4)

    def choose(contexts):
        if policy == "UniformPairs":
            return stepped.select(contexts), twin.select(contexts, *twin.draw(noise, N_ARMS))
        duel, draws = choice_and_draws(stepped, contexts)
        return duel, twin.select(contexts, *draws)

    chunk = a_chunk(MODELS[model][0], rounds(1500, 150))
    totals = follow(stepped, chunk, choose, twin.update)
    check_fused(fused, chunk, totals)
    assert arrays(fused) == arrays(stepped)
    if policy != "UniformPairs":
        expected = index_twin_of(stepped)
        np.testing.assert_array_equal(twin.wins, expected.wins)
        assert twin.wins.sum() > 0
    assert stream_of(stepped) == stream_of(fused)


@pytest.mark.skipif(JIT, reason="compiled code holds the tolerance of the start as a constant")
@pytest.mark.parametrize("model", MODELS)
def test_one_pass_after_an_exact_start_agrees_with_the_reference(model, monkeypatch):
    """With the start solved more exactly than it is by default."""
    monkeypatch.setattr(online_newton, "START_TOLERANCE", 1e-10)
    case = Case("CoLSTIM", "online-newton", model, score := MODELS[model][2][-1], 40)
    options = {"history": 60, "score": score}
    case.object = type(case.object)(**{**case.object.get_params(), "estimator": fc.OnlineNewton(**options)})
    case.twin.estimator = reference.OnlineNewton(MODELS[model][1], **options)
    case.learn_first(55)
    noise = streams.generator(3)

    def choose(contexts):
        return case.object.select(contexts), case.twin.select(contexts, *case.twin.draw(noise, N_ARMS))

    n_self_duels = follow(case.object, case.chunk(), choose, case.twin.update)[-1, 2]
    assert 55 + 40 - n_self_duels > options["history"]  # the pass had begun
    # the start's information is of its last pass and of the pushes since, the reference's of its last theta: 2e-8 seen
    np.testing.assert_allclose(case.object.theta, case.twin.theta, rtol=0, atol=5e-8)


def test_the_cover_has_every_pair():
    cases = [case.values for case in combinations() if all(mark.name != "slow" for mark in case.marks)]
    kinds = set(COMPILED_ALIKE.values())
    possible = {(policy, kind) for policy in SEEING for kind in kinds if not (policy in INFORMED and kind == "sgd")}
    assert {(policy, COMPILED_ALIKE[name]) for policy, name, _, _ in cases} == possible
    assert {(COMPILED_ALIKE[name], model) for _, name, model, _ in cases} == set(itertools.product(kinds, MODELS))
