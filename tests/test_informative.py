"""Informative: the pair that teaches most against brute force, the same duels as the reference, no pair twice."""

from __future__ import annotations

import itertools
import math
import traceback
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from conftest import everyday, rounds
from inside import arrays, information_factor_of, information_of, state_of
from test_contract import a_chunk, check_fused, follow
from test_pairs import KINDS, Instance, instances
from twins import MODELS, Cauchy

import fastcolst as fc
from fastcolst import reference, streams
from fastcolst.policies import teaching
from fastcolst.policies.informative import Shown, _gain_at, _shape
from fastcolst.policies.teaching import (
    D_OPTIMAL,
    VARIANCE,
    WIDTH,
    Gain,
    hash_arms,
    hash_of_pair,
    is_among,
    put_among,
    teaching_pair,
    teaching_work_shape,
)
from fastcolst.reference.pairs import first_of_the_largest, in_order

D, N = 3, 8
VALUES = {"variance": VARIANCE, "d-optimal": D_OPTIMAL, "width": WIDTH}
PAIRS = [
    pytest.param(value, model, marks=everyday(i == j))
    for i, value in enumerate(VALUES)
    for j, model in enumerate(MODELS)
]
"""Values with models; each value and each model once is in the cover."""
LEARNERS = {
    "mle": (fc.MLE(1e-9), lambda: reference.MLE(reference.BradleyTerry())),
    "online-newton": (fc.OnlineNewton(history=0), lambda: reference.OnlineNewton(reference.BradleyTerry(), history=0)),
}


# --- the kernel against brute force -------------------------------------------------------------------------


def searched(instance: Instance, model: Any, value: int, table: Any = None) -> tuple[int, int]:
    n, d = instance.points.shape
    work = np.full(teaching_work_shape(n, d), np.nan)
    work[:d, :n], work[d, :n] = instance.points.T, instance.utilities
    hash_arms(np.ascontiguousarray(instance.points.T), work[-1].view(np.uint64))
    repeats = table is None
    shown = np.zeros(2, np.uint64) if repeats else table
    return teaching_pair(
        work, n, instance.norm, Gain(model, value, *_shape(model, value), shown, repeats, instance.key)
    )


def by_brute_force(instance: Instance, model: Any, value: int, forbidden: Any = ()) -> tuple[int, int]:
    n = len(instance.points)
    pairs = [pair for pair in itertools.combinations(range(n), 2) if pair not in forbidden]
    margins = np.array([instance.utilities[i] - instance.utilities[j] for i, j in pairs])
    values = np.array([instance.distances[pair] for pair in pairs])
    if value == VARIANCE:
        values = values * model.pdf(margins)
    elif value == D_OPTIMAL:
        values = values**2 * model.weight(margins)
    pair = first_of_the_largest(pairs, values, 0.0, instance.order)
    return in_order(pair, instance.utilities, instance.distances, instance.order)


@pytest.mark.parametrize(("value", "model"), PAIRS)
def test_the_pair_is_that_of_brute_force(model: str, value: str):
    ours = MODELS[model].ours
    for instance, _ in instances(rounds(300, 150), range(2, 14), range(1, 7), (*KINDS, "middling theta")):
        assert searched(instance, ours, VALUES[value]) == by_brute_force(instance, ours, VALUES[value])


@pytest.mark.long
@pytest.mark.parametrize(("value", "model"), PAIRS)
def test_many_arms_are_ordered_and_pruned_without_a_loss(value: str, model: str):
    ours = MODELS[model].ours
    for instance, _ in instances(36, (127, 129, 250, 500), (2, 5, 10), (*KINDS, "middling theta")):
        assert searched(instance, ours, VALUES[value]) == by_brute_force(instance, ours, VALUES[value])


def test_bounds_exclude_most_pairs(monkeypatch: pytest.MonkeyPatch):
    """As they lie after 400 answers: in a ball once whitened, but much longer along the utilities."""
    rng, n, d = np.random.default_rng(3), rounds(700, 300), 10
    points = rng.normal(size=(n, d))
    points *= 0.16 * (rng.random(n) ** (1 / d) / np.linalg.norm(points, axis=1))[:, np.newaxis]
    points[:, 0] *= 2.5
    instance = Instance(rng, "generic", n, d)
    instance.points, instance.theta = points, np.eye(d)[0] * 6.0
    instance.utilities, instance.norm = points @ instance.theta, 6.0
    instance.distances = np.sqrt(np.sum((points[:, None] - points) ** 2, axis=2))
    if not numba.config.DISABLE_JIT:
        assert searched(instance, fc.BradleyTerry(), VARIANCE) == by_brute_force(instance, fc.BradleyTerry(), VARIANCE)
        return
    n_pairs, measured = [], teaching.squared_distances

    def counting(points: Any, arm: int, start: int, stop: int, out: Any) -> None:
        n_pairs.append(stop - start)
        measured(points, arm, start, stop, out)

    monkeypatch.setattr(teaching, "squared_distances", counting)
    for value, most in ((VARIANCE, 0.5), (D_OPTIMAL, 0.5)):
        n_pairs.clear()
        assert searched(instance, fc.BradleyTerry(), value) == by_brute_force(instance, fc.BradleyTerry(), value)
        assert sum(n_pairs) < most * n * (n - 1) / 2


@pytest.mark.parametrize(
    "model", [*(model.ours for model in MODELS.values()), Cauchy(2.0), fc.Lapse(fc.BradleyTerry(), 0.1)]
)
@pytest.mark.parametrize("value", [VARIANCE, D_OPTIMAL])
def test_the_bound_of_what_an_answer_tells_is_one(model: Any, value: int):
    most, second, fourth = _shape(model, value)
    margins = np.concatenate([[0.0], np.geomspace(1e-5, 1e3, 2003)])
    values = np.array([_gain_at(model, value, float(sign * m)) for sign in (1.0, -1.0) for m in margins])
    square = np.tile(margins, 2) ** 2
    assert values[0] == most and np.all(values * (1.0 + second * square + fourth * square**2) <= most * (1.0 + 1e-9))
    assert second > 0.0 and fourth > 0.0


def test_the_bound_of_what_an_answer_tells_is_as_sharp_as_it_can_be():
    """With x = m/2s, 1/g of the logistic law is cosh^4 x = 1 + 2 x^2 + 5/3 x^4 .. and cosh^2 x = 1 + x^2 + x^4/3 .."""
    wanted = {VARIANCE: (1.0 / 2.0, 5.0 / 48.0), D_OPTIMAL: (1.0 / 4.0, 1.0 / 48.0), WIDTH: (0.0, 0.0)}
    for scale in (1e-4, 1.0, 1e4):
        for value, (second, fourth) in wanted.items():
            found = _shape(fc.BradleyTerry(scale), value)
            assert 0.97 * second <= found[1] * scale**2 <= second
            assert 0.98 * fourth <= found[2] * scale**4 <= 1.2 * fourth  # what the other lacks is its


@pytest.mark.parametrize("value", VALUES)
def test_pairs_that_were_shown_are_left_out_until_none_is_left(value: str):
    ours = fc.Thurstone(0.7)
    for instance, _ in instances(rounds(100, 14), range(2, 12), (2, 4), ("generic", "small theta")):
        n, forbidden = len(instance.points), set()
        table, hashes = np.zeros(256, np.uint64), np.zeros(n, np.uint64)
        hash_arms(np.ascontiguousarray(instance.points.T), hashes)
        for _ in range(n * (n - 1) // 2):
            pair = searched(instance, ours, VALUES[value], table)
            assert pair == by_brute_force(instance, ours, VALUES[value], forbidden)
            assert put_among(table, np.uint64(hash_of_pair(hashes, pair[1], pair[0])))
            forbidden.add(pair)
        assert searched(instance, ours, VALUES[value], table) == (-1, -1)


def test_arms_are_known_by_their_features():
    contexts = np.array([[0.0, -0.0, 1.0, 2.0], [1.0, 1.0, 0.0, 1.0]])
    hashes, others = np.zeros(4, np.uint64), np.zeros(4, np.uint64)
    hash_arms(contexts, hashes)
    hash_arms(np.ascontiguousarray(contexts[::-1]), others)
    assert hashes[0] == hashes[1] and len({*hashes.tolist(), *others.tolist()}) == 4
    assert hash_of_pair(hashes, 0, 2) == hash_of_pair(hashes, 2, 1) != hash_of_pair(hashes, 0, 3)


def test_a_table_of_pairs_grows_and_forgets_none():
    shown, rng = Shown.new(), np.random.default_rng(0)
    words = rng.integers(1, 2**64, 500, dtype=np.uint64) | np.uint64(1)
    for hashed in words:
        shown = shown.with_room(1)
        assert put_among(shown.table, hashed) and not put_among(shown.table, hashed)
        shown.n_pairs[0] += 1
    assert len(shown.table) == 1024 and all(is_among(shown.table, hashed) for hashed in words)
    assert not any(is_among(shown.table, hashed) for hashed in rng.integers(1, 2**63, 100, dtype=np.uint64))


# --- the policy against the reference -----------------------------------------------------------------------


@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize("estimator", LEARNERS)
@pytest.mark.parametrize("value", VALUES)
def test_the_same_duels_as_the_reference(value: str, estimator: str, repeats: bool):
    """Object, fused loop and reference, on a pool of 8 items that stay, so that pairs come again where they may."""
    horizon, (learner, plain) = 27, LEARNERS[estimator]
    options = {"n_arms": N, "value": value, "repeats": repeats}
    policy, fused = (fc.Informative(D, estimator=learner, rng=4, **options) for _ in range(2))
    twin = reference.Informative(D, comparison=reference.BradleyTerry(), estimator=plain(), **options)
    noise, chunk, pairs = streams.generator(4), a_chunk(fc.BradleyTerry(), horizon, D, N), []
    for array in (chunk.contexts, chunk.utilities, chunk.best):
        array[:] = array[0]

    def choose(contexts: np.ndarray) -> Any:
        pairs.append(twin.select(contexts, *twin.draw(noise, N)))
        return policy.select(contexts), pairs[-1]

    totals = follow(policy, chunk, choose, twin.update)
    check_fused(fused, chunk, totals)
    assert arrays(fused, frozenset({"blocks", "theta"})) == arrays(policy, frozenset({"blocks", "theta"}))
    assert (len(set(pairs)) == horizon) == (not repeats) and all(i < j for i, j in pairs)


@pytest.mark.parametrize("played", [False, True])
def test_when_every_pair_was_shown_it_is_an_error_that_changes_nothing(played: bool):
    items = np.random.default_rng(0).normal(size=(4, 2))
    policy = fc.Informative(2, repeats=False, estimator=fc.OnlineNewton(history=0), rng=1)
    for _ in range(6):
        policy.update(policy.select(items), True)
    before = arrays(policy)
    chunk = a_chunk(fc.BradleyTerry(), 3, 2, 4)
    chunk.contexts[:] = items.T
    call = (lambda: policy.play(chunk, np.zeros((4, 3)))) if played else (lambda: policy.select(items))
    with pytest.raises(ValueError, match=r"contexts has 4 arms of which each pair was shown; .*wanted") as raised:
        call()
    shown = "".join(traceback.format_exception(raised.value))
    assert "so large" not in shown, "no utility overflows"
    assert arrays(policy) == before and policy.round == 6
    others = np.vstack([items, [[5.0, 5.0]]])
    assert 4 in {(duel := policy.select(others)).first, duel.second}
    with pytest.raises(ValueError, match="each pair was shown"):
        policy.select(items[:3])


def test_what_was_shown_is_saved_copied_and_kept_when_its_duel_is_discarded(tmp_path):
    items, policy = np.random.default_rng(0).normal(size=(20, 2)), fc.Informative(2, repeats=False, rng=1)
    seen = set()
    for t in range(120):
        duel = policy.select(items)
        seen.add((duel.first, duel.second))
        if t % 2:
            policy.discard(duel)
        if t == 60:
            policy.save(tmp_path / "policy.npz")
            policy = fc.load_policy(tmp_path / "policy.npz")
        elif t == 80:
            policy = policy.fork("other")
    seen |= {(duel.first, duel.second) for duel in policy.select_batch(items, size=70)}
    assert len(seen) == 190
    with pytest.raises(ValueError, match="each pair was shown"):
        policy.select(items)


def test_a_damaged_table_is_refused(tmp_path):
    policy = fc.Informative(2, repeats=False, rng=1)
    policy.select(np.eye(3, 2))
    for name, wrong in (("n_pairs", np.array([3])), ("table", np.ones(64, np.uint64)), ("table", np.zeros(65, "u8"))):
        policy.save(tmp_path / "policy.npz")
        with np.load(tmp_path / "policy.npz") as file:
            content = {**file, f"state.shown.{name}": wrong}
        np.savez(tmp_path / "wrong.npz", **content)
        with pytest.raises(fc.FileFormatError, match=r"state\.shown"):
            fc.load_policy(tmp_path / "wrong.npz")


def test_the_pairs_of_a_batch_count_in_the_information_of_the_later_ones():
    """A pool of which nothing is known is covered: with H as it was before, the same pair would be shown again."""
    items, policy = np.random.default_rng(1).normal(size=(10, D)), fc.Informative(D, value="d-optimal", rng=1)
    before = information_of(policy)
    twin = reference.Informative(D, comparison=reference.BradleyTerry(), n_arms=10, value="d-optimal")
    H, noise = before, streams.generator(1)
    twin.exploration_end, twin.information = 0, lambda: H
    duels = policy.select_batch(items, size=20)
    for duel in duels:
        assert (duel.first, duel.second) == twin.select(items, *twin.draw(noise, 10))
        H = H + 0.25 * np.outer(duel.contrast, duel.contrast)
    assert len({(duel.first, duel.second) for duel in duels}) >= 5
    assert information_of(policy).tobytes() == before.tobytes()


# --- what it learns -----------------------------------------------------------------------------------------


@pytest.mark.either_lane
def test_it_orders_a_pool_with_fewer_answers_than_random_pairs():
    """And says how many pairs it expects to be wrong, on the average over runs."""
    wrong, expected = {"variance": [], "random": []}, []
    n_runs, n_answers = rounds(12, 4), 120
    for run in range(n_runs):
        rng = np.random.default_rng(run)
        items, theta = rng.normal(size=(25, 5)), rng.normal(size=5)
        utilities = items @ theta
        truth = np.subtract.outer(utilities, utilities)[np.triu_indices(25, 1)]
        for label, shares in wrong.items():
            policy = fc.Informative(5, rng=run) if label == "variance" else fc.CoLSTIM(5, ridge=1.0, rng=run)
            random = fc.UniformPairs(rng=run)
            for _ in range(n_answers):
                duel = policy.select(items) if label == "variance" else random.select(items)
                won = bool(utilities[duel.first] - utilities[duel.second] + rng.logistic() > 0.0)
                if label == "variance":
                    policy.update(duel, won)
                else:
                    policy.learn_and_predict(duel.contrast[None], [won])
            guess = np.subtract.outer(items @ policy.theta, items @ policy.theta)[np.triu_indices(25, 1)]
            shares.append(np.mean(np.sign(guess) != np.sign(truth)))
            if label == "variance":
                expected.append(policy.expected_misordered(items))
    assert np.mean(wrong["variance"]) < 0.9 * np.mean(wrong["random"])
    assert 0.5 < np.mean(expected) / np.mean(wrong["variance"]) < 2.0


# --- what it is refused -------------------------------------------------------------------------------------


def test_estimators_without_information_are_refused_by_name_where_it_is_needed():
    for value in ("variance", "d-optimal"):
        with pytest.raises(ValueError, match=rf"estimator is SGD, .*Informative with value='{value}'"):
            fc.Informative(3, estimator="sgd", value=value)
    policy = fc.Informative(3, estimator="sgd", value="width", rng=1)
    for _ in range(5):
        policy.update(policy.select(np.random.default_rng(policy.round).normal(size=(4, 3))), True)
    assert np.trace(policy.gram) > 3.0


@pytest.mark.parametrize("argument", ["value", "repeats", "ridge", "exploration_rounds", "comparison"])
def test_wrong_arguments_are_named(argument: str):
    with pytest.raises(ValueError, match=argument):
        fc.Informative(3, **{argument: "median"})


class TwoHumps(NamedTuple):
    """A model whose density is largest beside 0: the mixture of two logistic laws."""

    apart: float = 4.0

    def cdf(self, u: Any) -> Any:
        return 0.5 / (1.0 + math.exp(-u - self.apart)) + 0.5 / (1.0 + math.exp(-u + self.apart))

    def pdf(self, u: Any) -> Any:
        low, high = math.exp(-abs(u + self.apart)), math.exp(-abs(u - self.apart))
        return 0.5 * low / (1.0 + low) ** 2 + 0.5 * high / (1.0 + high) ** 2

    def raw(self, rng: Any, size: Any = None) -> Any:
        return rng.standard_normal(size)

    def perturb(self, value: Any) -> Any:
        return value


def test_models_that_tell_more_of_unequal_arms_are_refused():
    for value in ("variance", "d-optimal"):
        with pytest.raises(ValueError, match=r"comparison is TwoHumps.*density falls from 0 on.*wanted"):
            fc.Informative(3, comparison=TwoHumps(), value=value)
    fc.Informative(3, comparison=TwoHumps(), value="width")
    fc.Informative(3, comparison=Cauchy())


def test_one_arm_alone_duels_with_itself():
    policy = fc.Informative(2, repeats=False, rng=1)
    assert policy.select(np.ones((1, 2))).is_self and policy.select(np.ones((1, 2))).is_self
    assert state_of(policy).shown.n_pairs[0] == 0


def test_it_explores_only_without_a_ridge():
    assert fc.Informative(2, n_arms=3).select(np.eye(3, 2)).round == 1
    for options, wanted in (({}, 0), ({"ridge": 0.0}, 6)):
        policy, n_exploring = fc.Informative(2, n_arms=3, rng=1, **options), 0
        for _ in range(30):
            duel = policy.select(np.random.default_rng(policy.round).normal(size=(3, 2)))
            n_exploring += policy.status == "exploring"
            policy.update(duel, bool(policy.round % 3))
        assert n_exploring == wanted
    assert np.all(np.isfinite(information_factor_of(policy)))
