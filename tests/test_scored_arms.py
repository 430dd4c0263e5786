"""Real data as a problem: the order of rounds, who wins, the coins, and regret in the scores' unit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from conftest import rounds
from numpy.random import SFC64, Generator, SeedSequence

import fastcolst as fc
from fastcolst import streams
from fastcolst.experiments import scored

RNG = np.random.default_rng(5)
CONTEXTS = RNG.normal(size=(7, 4, 3))
SCORES = np.round(CONTEXTS @ [1.0, -2.0, 0.5], 0)  # whole numbers, so that some are equal


@pytest.mark.parametrize("maximize", [True, False])
def test_a_run_is_what_a_loop_by_hand_plays(maximize):
    horizon, seed, run = 23, 9, 1
    problem = fc.ScoredArms(CONTEXTS, SCORES, maximize=maximize)
    template = fc.CoLSTIM(3, exploration_rounds=3, ridge=1.0, estimator="sgd")
    result = fc.simulate({"mine": template}, problem, horizon, runs=2, rng=seed, checkpoints=horizon)

    def stream(*key):
        return Generator(SFC64(SeedSequence(seed, spawn_key=key)))

    order, coins = stream(streams.CONTEXTS, run), stream(streams.OUTCOMES, run)
    policy = fc.CoLSTIM(
        3, n_arms=4, horizon=horizon, exploration_rounds=3, ridge=1.0, estimator="sgd",
        rng=SeedSequence(seed, spawn_key=(streams.POLICY, run, *streams.label_key("mine"))),
    )  # fmt: skip
    average, weak, total, total_weak, waiting = [], [], 0.0, 0.0, []
    for _ in range(horizon):
        waiting = waiting or list(order.permutation(7))
        row = waiting.pop(0)
        heads = coins.random() < 0.5
        duel = policy.select(CONTEXTS[row])
        a, b = SCORES[row, duel.first], SCORES[row, duel.second]
        best, better = (max(SCORES[row]), max(a, b)) if maximize else (min(SCORES[row]), min(a, b))
        total += abs(best - (a + b) / 2)
        total_weak += abs(best - better)
        average.append(total)
        weak.append(total_weak)
        policy.update(duel, (a > b if maximize else a < b) if a != b else heads)
    np.testing.assert_allclose(result.average_regret["mine"][1], average, rtol=1e-12)
    np.testing.assert_allclose(result.weak_regret["mine"][1], weak, rtol=1e-12)
    assert result.thetas.shape == (2, 0)


def test_every_pass_shows_all_rows_in_another_order_however_it_is_cut():
    whole = fc.ScoredArms(CONTEXTS, SCORES).start(4, 2).next_chunk(35)
    rows = [next(i for i in range(7) if np.array_equal(c.T, CONTEXTS[i])) for c in whole.contexts]
    passes = [tuple(rows[i : i + 7]) for i in range(0, 35, 7)]
    assert all(sorted(one) == list(range(7)) for one in passes)
    assert len(set(passes)) > 1
    run = fc.ScoredArms(CONTEXTS, SCORES).start(4, 2)
    parts = [run.next_chunk(n) for n in (1, 3, 9, 22)]
    for field in whole._fields:
        pieces = np.concatenate([getattr(part, field) for part in parts])
        assert pieces.tobytes() == getattr(whole, field).tobytes()
    other = fc.ScoredArms(CONTEXTS, SCORES).start(4, 3).next_chunk(35)
    assert other.contexts.tobytes() != whole.contexts.tobytes()


def test_equal_scores_are_decided_by_a_fair_coin_and_different_ones_by_the_score():
    """5,000 coins; |heads - 2,500| < 4 sd: false alarm 6e-5."""
    latent = fc.ScoredArms(CONTEXTS, SCORES).start(1, 0).next_chunk(5_000).latent
    assert abs(np.sum(latent > 0) - 2_500) < 4 * np.sqrt(1_250) and np.all(latent != 0)
    smallest = scored.SMALLEST_SCORE
    for a, b in ((smallest, np.nextafter(smallest, 1.0)), (1e30, np.nextafter(1e30, 0.0)), (0.0, smallest)):
        assert np.all(np.sign(a - b + latent) == np.sign(a - b))


def test_threads_and_chunks_do_not_matter(monkeypatch):
    arguments = ({"Random": fc.UniformPairs()}, fc.ScoredArms(CONTEXTS, SCORES), rounds(300, 50))
    one = fc.simulate(*arguments, runs=3, rng=1, threads=1)
    monkeypatch.setattr(scored, "CHUNK_BYTES", 1)
    assert one.same_numbers(fc.simulate(*arguments, runs=3, rng=1, threads=3))


def test_data_are_copied_and_pickled():
    contexts, scores = CONTEXTS.copy(), SCORES.copy()
    problem = fc.ScoredArms(contexts, scores)
    before = problem.start(1, 0).next_chunk(7).utilities.copy()
    contexts[:], scores[:] = 0.0, 0.0
    assert problem.start(1, 0).next_chunk(7).utilities.tobytes() == before.tobytes()
    twin = pickle.loads(pickle.dumps(problem))
    assert repr(twin) == repr(problem) and "7 rounds, 4 arms, 3 features" in repr(problem)
    assert fc.ScoredArms(CONTEXTS, -SCORES).digest != problem.digest


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("model", [fc.BradleyTerry(), fc.Thurstone(0.5), fc.ExponentialNoise(2.0)])
def test_a_comparison_answers_by_the_difference_in_its_unit(model, maximize):
    """4,000 answers to one pair; |wins - expected| < 4 sd: false alarm 6e-5 each, six of them."""
    n = 4_000
    problem = fc.ScoredArms([[[0.0], [1.0]]], [[30.0, 0.0]], maximize, comparison=model, scale=60.0)
    chunk = problem.start(7, 0).next_chunk(n)
    wins = np.sum(chunk.utilities[:, 0] - chunk.utilities[:, 1] + chunk.latent > 0)
    p = model.cdf(0.5 if maximize else -0.5)
    assert abs(wins - n * p) < 4 * np.sqrt(n * p * (1 - p))
    assert set(chunk.best) == {30.0 if maximize else 0.0}  # regret stays in the scores' unit
    run = problem.start(7, 0)
    assert np.concatenate([run.next_chunk(k).latent for k in (1, 999, 3_000)]).tobytes() == chunk.latent.tobytes()


def test_how_answers_come_about_belongs_to_what_names_the_problem():
    plain = fc.ScoredArms(CONTEXTS, SCORES)
    noisy = fc.ScoredArms(CONTEXTS, SCORES, comparison="thurstone", scale=2.0)
    assert "comparison" not in repr(plain) and "comparison" not in plain.get_params()
    assert repr(noisy).endswith("comparison=Thurstone(sigma=1.0), scale=2.0)")
    assert noisy.get_params() == {**plain.get_params(), "comparison": fc.Thurstone(), "scale": 2.0}


@pytest.mark.parametrize(
    ("contexts", "scores", "message"),
    [
        (CONTEXTS[0], SCORES, r"contexts has shape \(4, 3\); \(m, n_arms, n_features\) is wanted"),
        (CONTEXTS, SCORES[0], r"scores has shape \(4,\); \(m, n_arms\) is wanted"),
        (CONTEXTS, SCORES[:, :3], r"scores has shape \(7, 3\) and contexts \(7, 4, 3\)"),
        (CONTEXTS, np.where(SCORES == SCORES[1, 2], np.nan, SCORES), r"scores\[\d, \d\] is nan; every score"),
        (CONTEXTS, np.full((7, 4), 1e-300), r"scores\[0, 0\] is 1e-300"),
        (np.full((7, 4, 3), np.inf), SCORES, r"contexts\[0, 0, 0\] is inf"),
    ],
)
def test_wrong_data_are_named(contexts, scores, message):
    with pytest.raises(ValueError, match=message):
        fc.ScoredArms(contexts, scores)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"comparison": "probit"}, "comparison is 'probit'; "),
        ({"comparison": "thurstone", "scale": 0.0}, "scale is 0.0; a positive finite number is wanted"),
        ({"scale": 2.0}, "scale is 2.0 and comparison None; a scale is wanted with a comparison only"),
    ],
)
def test_wrong_ways_to_answer_are_named(answers, message):
    with pytest.raises(ValueError, match=message):
        fc.ScoredArms(CONTEXTS, SCORES, **answers)


@pytest.mark.long
def test_solvers_are_chosen_by_what_the_instances_look_like(shared):
    """Algorithm selection: a contextual policy's runtimes come nearer to the best solver's than random pairs'.

    The difference of means is ten standard errors or more for other seeds as well; 4 are asked for.
    """
    folder = shared / "data" / "aslib"
    if not folder.is_dir():
        pytest.skip("real data is not here: no folder data/aslib")
    for archive in sorted(folder.glob("*/replay.npz")):
        data = np.load(archive)
        scores = data["score"].astype(float)
        cutoff = scores[scores < 1e29].max()
        problem = fc.ScoredArms(data["X"], np.minimum(scores, 10 * cutoff), maximize=bool(data["maximize"]))
        policy = fc.CoLSTIM(problem.n_features, ridge=1.0, estimator="sgd")
        result = fc.simulate({"CoLSTIM": policy, "Random": fc.UniformPairs()}, problem, 2_000, runs=8, rng=1)
        gain = (result.average_regret["Random"] - result.average_regret["CoLSTIM"])[:, -1] / 2_000
        assert gain.mean() > 4 * gain.std(ddof=1) / np.sqrt(8)
        assert np.all(result.average_regret["Random"][:, -1] < 2_000 * 10 * cutoff)  # in seconds
