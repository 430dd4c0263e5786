"""discount=: answers that count the less the older they are, against references that keep every answer."""

from __future__ import annotations

import contextlib
import copy
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import everyday, rounds
from inside import arrays, information_of, interrupted, snapshot, state_of
from test_contract import a_chunk, check_fused, follow
from test_counting import check_late_answers
from test_interrupts import FILES
from twins import INFORMED, LINEAR, STAGED, taken_by

import fastcolst as fc
from fastcolst import reference, streams
from fastcolst.estimation.fading import FORGOTTEN, faded_factor, faded_history
from fastcolst.estimation.history import ROWS, History

D, N = 3, 8
POLICIES = {**LINEAR, **INFORMED}
ESTIMATORS = {
    "mle": (fc.MLE(1e-9), reference.MLE, 300, 40),
    "online-newton": (fc.OnlineNewton(history=0), lambda model: reference.OnlineNewton(model, history=0), 700, 90),
}
"""Ours, the reference's, and how many rounds are played, compiled and interpreted."""


def block_of(discount: float) -> int:
    return max(1, round(1.0 / (20.0 * (1.0 - discount))))


def weights_of_ages(n: int, discount: float) -> np.ndarray:
    """What is left of n weights of 1: ages are ends of blocks since an answer, that of its own among them."""
    block = block_of(discount)
    ages = n // block - np.arange(n) // block
    return discount ** (block * ages.astype(float))


def a_policy(name: str = "CoLSTIM", **given: Any) -> Any:
    options = {"n_arms": N, "horizon": 500, "exploration_rounds": 0, "ridge": 1.0, "discount": 0.9, "rng": 1, **given}
    return POLICIES[name][0](D, **taken_by(POLICIES[name][0], options))


def answers(n: int, seed: int = 0, theta: Any = (1.5, -1.0, 0.5)) -> tuple[np.ndarray, np.ndarray]:
    """Contrasts of n comparisons, and who won."""
    rng = np.random.default_rng(seed)
    contrasts = rng.normal(size=(n, D))
    return contrasts, (contrasts @ theta + rng.logistic(size=n) > 0.0).astype(float)


def learn(policy: Any, contrasts: np.ndarray, wins: np.ndarray, weights: Any = None) -> None:
    policy.learn(contrasts, np.zeros_like(contrasts), weights, wins)


def play(policy: Any, n: int, seed: int = 0) -> list[fc.Duel]:
    """Rounds that are answered, ties, weights and raters among them; their duels."""
    rng, duels = np.random.default_rng(seed), []
    while len(duels) < n:
        duel = policy.select(rng.normal(size=(N, D)))
        if not duel.is_self:
            i = len(duels)
            rater = ("ann", 7, None)[i % 3] if state_of(policy).memory._fields[-1] == "scratch" else None
            policy.update(duel, (True, 0.5, False)[i % 3], weight=(1.0, 2.0, 0.5)[i % 3], rater=rater)
            duels.append(duel)
    return duels


# --- against the reference ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.* showed an arm against itself:UserWarning")
@pytest.mark.parametrize(
    ("name", "estimator"),
    [
        # compiled, each estimator once: their pairs with policies are in test_contract.py
        pytest.param(name, estimator, marks=everyday(i == j))
        for i, name in enumerate(POLICIES)
        for j, estimator in enumerate(ESTIMATORS)
    ],
)
def test_the_same_duels_as_the_reference_however_played(name: str, estimator: str):
    ours, theirs, *horizons = ESTIMATORS[estimator]
    kind, plain = POLICIES[name]
    horizon, discount = rounds(*horizons), 0.97
    options = taken_by(kind, {"n_arms": N, "horizon": horizon, "exploration_rounds": 9, "width_scale": 1.0})
    options |= {"ridge": 0.5, "discount": discount}
    model, learner = reference.BradleyTerry(0.8), theirs(reference.BradleyTerry(0.8))
    policy, fused = (kind(D, comparison=fc.BradleyTerry(0.8), estimator=ours, rng=3, **options) for _ in range(2))
    twin = plain(D, comparison=model, estimator=learner, **options)
    noise, chunk, told = streams.generator(3), a_chunk(fc.BradleyTerry(0.8), horizon, D, N), []

    times = []  # of the answers, among answers and self-duels

    def choose(contexts: np.ndarray) -> Any:
        duel, pair = policy.select(contexts), twin.select(contexts, *twin.draw(noise, N))
        if duel.is_self:
            twin.grow_older()
        return duel, pair

    def teach(contrast: np.ndarray, won: bool) -> None:
        twin.update(contrast, won)
        told.append((contrast, won))
        times.append(policy.round - 1)

    totals = follow(policy, chunk, choose, teach)
    check_fused(fused, chunk, totals)
    assert fused.theta.tobytes() == policy.theta.tobytes() and fused.gram.tobytes() == policy.gram.tobytes()
    off = policy.theta - twin.theta
    assert math.sqrt(off @ learner.information(D) @ off) <= 2e-9
    contrasts, wins = (np.array(column) for column in zip(*told, strict=True))
    left = weights_of_ages(policy.round, discount)[times]
    np.testing.assert_allclose(policy.gram, 0.5 * np.eye(D) + (contrasts.T * left) @ contrasts, rtol=1e-12, atol=1e-12)
    reader = kind(D, comparison=fc.BradleyTerry(0.8), estimator=ours, rng=3, **options)
    predicted = reader.learn_and_predict(contrasts, wins)
    left = weights_of_ages(len(wins), discount)  # a log has no self-duels
    np.testing.assert_allclose(reader.gram, 0.5 * np.eye(D) + (contrasts.T * left) @ contrasts, rtol=1e-12, atol=1e-12)
    if len(wins) == policy.round:
        assert reader.gram.tobytes() == policy.gram.tobytes()
        assert reader.probability(contrasts[0], np.zeros(D)) == pytest.approx(
            policy.probability(contrasts[0], np.zeros(D)), abs=1e-8
        )
    assert predicted.shape == wins.shape


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.98, 0.999])
@pytest.mark.parametrize("model", ["bradley-terry", "thurstone"])
def test_theta_minimises_the_loss_with_the_weights_of_ages(model: str, discount: float):
    n = {0.5: 60, 0.9: 150, 0.98: 400, 0.999: 487}[discount]
    contrasts, wins = answers(n)
    counted = np.random.default_rng(1).uniform(0.5, 3.0, n)
    policy = fc.MaxPairUCB(D, comparison=model, estimator=fc.MLE(1e-9), ridge=0.7, discount=discount)
    learn(policy, contrasts, wins, counted)
    left = counted * weights_of_ages(n, discount)
    plain = {"bradley-terry": reference.BradleyTerry(), "thurstone": reference.Thurstone()}[model]
    exact = reference.fit(contrasts, wins * left, left, comparison=plain, ridge=0.7)
    assert exact.distance(policy.theta) <= 2e-9 and policy.audit() <= 2e-9
    np.testing.assert_allclose(policy.gram, 0.7 * np.eye(D) + (contrasts.T * left) @ contrasts, rtol=1e-12)
    widths = np.sqrt(np.diag(contrasts @ np.linalg.inv(policy.gram) @ contrasts.T))
    np.testing.assert_allclose(policy.widths(contrasts), widths, rtol=1e-10)


@pytest.mark.parametrize("changes", [False, True])
def test_what_is_let_go_would_not_have_counted(changes: bool):
    """A hundredth of a standard error is the estimate's tolerance."""
    discount, n = 0.98, 6 * ROWS
    contrasts, wins = answers(n)
    if changes:
        contrasts[-600:], wins[-600:] = answers(600, 1, (-2.0, 2.0, 1.0))
    policy = a_policy("MaxPairUCB", discount=discount, estimator=fc.MLE(1e-9))
    kept = []
    for start in range(0, n, 100):
        learn(policy, contrasts[start : start + 100], wins[start : start + 100])
        kept.append(len(policy.history()))
    left = weights_of_ages(n, discount)
    exact = reference.fit(contrasts, wins * left, left, comparison=reference.BradleyTerry(), ridge=1.0)
    assert exact.distance(policy.theta) <= 1e-3 and policy.audit() <= 2e-9
    assert max(kept) <= 13.0 / (1.0 - discount) + ROWS and min(kept[-9:]) < max(kept) - 300
    np.testing.assert_allclose(policy.history().weights, left[-kept[-1] :], rtol=1e-12)
    np.testing.assert_allclose(policy.gram, np.eye(D) + (contrasts.T * left) @ contrasts, rtol=1e-12)


def test_an_exact_start_fades_too_and_its_end_is_the_references():
    contrasts, wins = answers(44)
    for start, discount in ((20, 0.9), (21, 0.98), (40, 0.97)):
        policy = a_policy("MaxPairUCB", estimator=fc.OnlineNewton(history=start), discount=discount)
        twin = reference.MaxPairUCB(
            D, comparison=reference.BradleyTerry(), n_arms=N, ridge=1.0, discount=discount,
            estimator=reference.OnlineNewton(reference.BradleyTerry(), history=start),
        )  # fmt: skip
        for n, (contrast, won) in enumerate(zip(contrasts, wins, strict=True), 1):
            learn(policy, contrast[np.newaxis], won[np.newaxis])
            twin.update(contrast, float(won))
            off = policy.theta - twin.theta
            H = twin.estimator.information(D)
            assert math.sqrt(off @ H @ off) <= (0.011 if n <= start else 0.06), n
        np.testing.assert_allclose(policy.gram, twin.gram, rtol=1e-11)


def test_a_factor_fades_to_the_last_digit_whatever_the_scales():
    rng = np.random.default_rng(0)
    for ridge in (1e-100, 1e-8, 1.0, 1e6):
        scales = np.array([1e-6, 1.0, 1e5, 1.0])
        rows = rng.normal(size=(50, 4)) * scales
        rows[:, 3] = 2.0 * rows[:, 1]  # no comparison tells them apart
        H = np.diag(np.full(4, ridge)) + rows.T @ rows
        factor = np.linalg.inv(np.linalg.cholesky(H)) if ridge > 1e-9 else np.diag(ridge**-0.5 * np.ones(4))
        before = np.linalg.inv(factor)
        faded = faded_factor(factor, 0.95, ridge)
        assert faded.flags.c_contiguous and np.array_equal(faded, np.tril(faded))
        after = np.linalg.inv(faded)
        wanted = 0.95 * before @ before.T + 0.05 * ridge * np.eye(4)
        sizes = np.sqrt(np.diag(wanted))
        np.testing.assert_allclose(
            (after @ after.T) / sizes / sizes[:, None], wanted / sizes / sizes[:, None], atol=1e-9
        )


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=everyday(kind in {"CoLSTIM", "Informative"}))
        for kind in ("CoLSTIM", "MaxPairUCB", "CoLSTIM by information", "Informative", "TwoSamples")
    ],
)
def test_what_waits_counts_in_the_faded_m_and_lies_for_less(kind: str):
    check_late_answers(kind, discount=0.97, robust=0.4)


def test_weights_of_answers_that_lie_follow_from_the_faded_m_in_the_fused_loop_and_in_logs():
    options = {
        "n_arms": N,
        "exploration_rounds": 0,
        "ridge": 0.5,
        "discount": 0.97,
        "robust": 0.3,
        "width_scale": 1.0,
        "allow_self_duel": False,
    }
    policy, fused, reader = (fc.MaxPairUCB(D, estimator=fc.OnlineNewton(history=0), rng=3, **options) for _ in range(3))
    learner = reference.OnlineNewton(reference.BradleyTerry(), history=0)
    twin = reference.MaxPairUCB(D, comparison=reference.BradleyTerry(), estimator=learner, **options)
    noise, chunk, told = streams.generator(3), a_chunk(fc.BradleyTerry(), rounds(300, 80), D, N), []

    def teach(contrast: np.ndarray, won: bool) -> None:
        twin.update(contrast, won)
        told.append((contrast, won))

    def choose(contexts: np.ndarray) -> Any:
        duel, pair = policy.select(contexts), twin.select(contexts, *twin.draw(noise, N))
        if duel.is_self:
            twin.grow_older()
        return duel, pair

    check_fused(fused, chunk, follow(policy, chunk, choose, teach))
    contrasts, wins = (np.array(column) for column in zip(*told, strict=True))
    reader.learn_and_predict(contrasts, wins)
    for one in (policy, fused, reader):
        np.testing.assert_allclose(one.gram, twin.gram, rtol=1e-11)
        np.testing.assert_allclose(one.theta, twin.theta, rtol=1e-8, atol=1e-10)


# --- what does not change -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_a_discount_of_one_changes_no_bit(name: str):
    policies = [a_policy(name, discount=1), POLICIES[name][0](**without_discount(a_policy(name)))]
    for policy in policies:
        play(policy, 40)
    assert arrays(policies[0], frozenset({"blocks"})) == arrays(policies[1], frozenset({"blocks"}))


def without_discount(policy: Any) -> dict[str, Any]:
    return {name: value for name, value in policy.get_params().items() if name != "discount"}


@pytest.mark.parametrize("estimator", ["mle", "online-newton"])
def test_before_the_first_block_ends_nothing_is_forgotten(estimator: str):
    policy, twin = (a_policy(discount=discount, estimator=estimator) for discount in (0.99, 1.0))
    for one in (policy, twin):
        play(one, block_of(0.99) - 1)
    assert policy.theta.tobytes() == twin.theta.tobytes() and policy.gram.tobytes() == twin.gram.tobytes()
    for one in (policy, twin):
        play(one, 1, seed=1)
    assert not np.array_equal(policy.gram, twin.gram)


# --- widths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["mle", "online-newton"])
@pytest.mark.parametrize("widths", ["gram", "information"])
def test_what_nobody_asks_about_is_in_the_end_as_little_known_as_before_all_answers(widths: str, estimator: str):
    policy = a_policy("MaxPairUCB", widths=widths, estimator=estimator, ridge=4.0)
    contrasts, wins = answers(30)
    learn(policy, contrasts, wins)
    axis = np.eye(D)[2:]
    assert policy.widths(axis)[0] < 0.45
    contrasts, wins = answers(500, 1)
    contrasts[:, 2] = 0.0
    learn(policy, contrasts, wins)
    assert policy.widths(axis)[0] == pytest.approx(0.5, rel=1e-9)
    assert policy.widths(np.eye(D)[:1])[0] < 0.48
    assert abs(policy.theta[2]) < 1e-6


@pytest.mark.parametrize(("direction", "n"), [((1.0, 1.0), 50), ((1.0, 0.0), 700)])
def test_without_a_ridge_what_was_forgotten_is_explored_anew(direction: Any, n: int):
    policy = fc.CoLSTIM(2, n_arms=3, exploration_rounds=6, discount=0.5, rng=1)
    rows = np.random.default_rng(0).normal(size=(8, 2))
    policy.learn(rows, np.zeros((8, 2)))
    assert policy.status != "exploring" and np.isfinite(policy.widths(np.eye(2))).all()
    rows = np.random.default_rng(1).normal(size=(n, 1)) * direction
    with pytest.warns(UserWarning, match=r"still explores .* not forgotten of their contrasts spans 1 of 2 dim"):
        policy.learn(rows, np.zeros((n, 2)))
    assert policy.status == "exploring" and np.isinf(policy.widths(np.eye(2))).all()
    for contexts in np.random.default_rng(2).normal(size=(8, 3, 2)):
        duel = policy.select(contexts)
        if not duel.is_self:
            policy.update(duel, True)
    assert policy.status != "exploring" and np.isfinite(policy.widths(np.eye(2))).all()


def test_bound_arms_are_chosen_as_by_select():
    items = np.random.default_rng(5).normal(size=(900, D))
    policy, twin = (a_policy(estimator="online-newton", allow_self_duel=False, n_arms=None) for _ in range(2))
    bound, rng = policy.bind(items), np.random.default_rng(6)
    for t in range(rounds(200, 40)):
        duel, same = bound.select(), twin.select(items)
        assert (duel.first, duel.second) == (same.first, same.second), t
        won = bool(rng.random() < 0.5)
        policy.update(duel, won)
        twin.update(same, won)


# --- a drifting taste ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.* showed an arm against itself:UserWarning")
@pytest.mark.parametrize("how", ["select", "bound", "batch", "fused"])
def test_what_made_a_favourite_fades_while_it_meets_itself(how: str):
    policy = a_policy("MaxPairUCB", n_arms=N, width_scale=1e-9)
    learn(policy, *answers(40))
    arms = np.random.default_rng(3).normal(size=(N, D))
    bound = policy.bind(arms)
    if how == "fused":
        policy.play(a_chunk(fc.BradleyTerry(), 100, D, N), np.zeros((101, 3)))
    ask = {"select": lambda: [policy.select(arms)], "bound": lambda: [bound.select()]}
    for _ in range({"fused": 0, "batch": 50}.get(how, 100)):
        duels = ask.get(how, lambda: policy.select_batch(arms, 2))()
        assert all(duel.is_self for duel in duels)
    assert policy.summary().duels == 0
    np.testing.assert_allclose(policy.gram, np.eye(D), rtol=0, atol=5e-3)


@pytest.mark.parametrize("estimator", ["mle", "online-newton"])
def test_a_taste_that_turned_around_is_followed(estimator: str):
    theta = np.array([1.5, -1.0, 0.5])
    found = {}
    for discount in (1.0, 0.99):
        policy = a_policy("MaxPairUCB", discount=discount, estimator=estimator)
        learn(policy, *answers(1500))
        learn(policy, *answers(500, 1, -theta))
        found[discount] = policy.theta
        assert discount == 1.0 or policy.status in ("interior", "ready")
    assert np.linalg.norm(found[1.0] - theta) < np.linalg.norm(found[1.0] + theta)
    assert np.linalg.norm(found[0.99] + theta) < 0.5


def test_one_pass_that_forgets_does_not_say_that_it_drifts_where_it_does_not():
    policy = a_policy("MaxPairUCB", discount=0.98, estimator=fc.OnlineNewton(history=0))
    for seed in range(40):
        learn(policy, *answers(50, seed))
        assert policy.status == "ready"


@pytest.mark.parametrize("estimator", [fc.MLE(), fc.OnlineNewton(history=30)])
def test_theta_and_its_information_keep_to_their_tolerance_between_the_ends_of_blocks(estimator: Any):
    discount = 0.99
    policy = a_policy("MaxPairUCB", discount=discount, estimator=estimator, widths="information")
    theta_off, information_off = (0.01, 0.03) if isinstance(estimator, fc.MLE) else (0.3, 0.15)  # of one pass
    contrasts, wins = answers(120)
    for n, (contrast, won) in enumerate(zip(contrasts, wins, strict=True), 1):
        learn(policy, contrast[np.newaxis], won[np.newaxis])
        policy.select(contrasts[:N])  # as in a service: theta is wanted after each answer
        if n % 7 == 0:
            left, rows = weights_of_ages(n, discount), contrasts[:n]
            exact = reference.fit(rows, wins[:n] * left, left, comparison=reference.BradleyTerry(), ridge=1.0)
            assert exact.distance(policy.theta) <= theta_off, n
            told = left * reference.BradleyTerry().weight(rows @ policy.theta)
            H = np.eye(D) + (rows.T * told) @ rows
            np.testing.assert_allclose(information_of(policy), H, rtol=0, atol=information_off * np.abs(H).max())


# --- history, retraction, rollback, files ---------------------------------------------------------------------


def long_past(**given: Any) -> tuple[Any, list[fc.Duel], np.ndarray]:
    """A policy whose log is about to be cut: old duels, a log, new duels; and what is left of all weights."""
    policy = a_policy(**{"estimator": fc.MLE(1e-9), "discount": 0.9, **given})
    duels = play(policy, 6)
    learn(policy, *answers(700))
    duels += play(policy, 9, seed=1)
    weights = np.concatenate([np.tile((1.0, 2.0, 0.5), 2), np.ones(700), np.tile((1.0, 2.0, 0.5), 3)])
    return policy, duels, weights * weights_of_ages(len(weights), 0.9)


def test_the_log_has_the_weights_that_are_left_and_gives_the_estimate():
    policy, duels, left = long_past()
    log = policy.history()
    assert 9 < len(log) < 700
    np.testing.assert_allclose(log.weights, left[-len(log) :], rtol=1e-12)
    assert log.wins[-9:].tolist() == [1.0, 0.5, 0.0] * 3
    assert log.tokens[-9:] == tuple(duel.token for duel in duels[-9:]) and set(log.tokens[:-9]) == {""}
    assert log.raters[-9:] == ("ann", 7, None) * 3 and set(log.raters[:-9]) == {None}
    np.testing.assert_array_equal(log.contrasts[-9:], [duel.contrast for duel in duels[-9:]])
    fit = fc.fit(log.contrasts, log.wins * log.weights, log.weights, ridge=1.0)
    np.testing.assert_allclose(policy.theta, fit.theta, rtol=0, atol=1e-7)


def test_the_log_leaves_out_what_has_the_weight_0():
    """Where a weight that was tiny when it was given is no number any more."""
    policy = a_policy(discount=0.5, allow_self_duel=False)
    contexts = np.random.default_rng(3).normal(size=(N, D))
    for answer in (True, 0.5, False):
        policy.update(policy.select(contexts), answer, weight=1e-300)
    answered = []
    for i in range(100):
        answered.append(policy.select(contexts))
        policy.update(answered[-1], (True, 0.5)[i % 2], rater=i)
    log = policy.history()
    kept = len(log)
    assert 0 < kept <= 100 and np.all(log.weights > 0.0)
    assert log.tokens == tuple(duel.token for duel in answered[-kept:])
    assert log.raters == tuple(range(100 - kept, 100))
    assert set(log.wins.tolist()) == {1.0, 0.5}


def test_a_log_of_nothing_but_weights_of_0_is_empty():
    policy = a_policy(discount=0.5, allow_self_duel=False)
    policy.update(policy.select(np.eye(N, D)), True, weight=5e-324)
    policy.update(policy.select(np.eye(N, D)), 0.5, weight=5e-324)
    with pytest.raises(ValueError, match=r"history is empty.*wanted"):
        policy.history()


def test_an_answer_is_taken_out_with_what_was_left_of_it_and_one_that_is_forgotten_is_refused():
    policy, duels, _ = long_past()
    before = policy.history()
    policy.retract(duels[-7])
    after = policy.history()
    assert after.tokens == (*before.tokens[:-7], *before.tokens[-6:])
    np.testing.assert_array_equal(after.weights, np.delete(before.weights, -7))
    gram = np.eye(D) + (after.contrasts.T * after.weights) @ after.contrasts
    np.testing.assert_allclose(policy.gram, gram, rtol=1e-12)
    held = snapshot(policy)
    with pytest.raises(ValueError, match=r"duel of round \d+ .*forgotten.* wanted"):
        policy.retract(duels[0])
    assert snapshot(policy) == held
    play(policy, 3, seed=3)
    np.testing.assert_allclose(policy.history().weights[:-3], 0.9**3 * after.weights, rtol=1e-12)


def test_theta_is_found_anew_where_no_more_than_two_answers_count():
    policy = a_policy(estimator=fc.MLE(1e-9), discount=0.5)
    learn(policy, *answers(5))
    (duel,) = duels_of(policy, 1)
    policy.update(duel, True)
    policy.retract(duel)
    log = policy.history()
    exact = reference.fit(
        log.contrasts, log.wins * log.weights, log.weights, comparison=reference.BradleyTerry(), ridge=1.0
    )
    assert exact.distance(policy.theta) <= 2e-9 and len(log) == 5


def test_answers_of_the_block_under_way_are_retracted_as_if_never_learned():
    policy, twin = (a_policy(estimator=fc.MLE(1e-9), discount=0.99) for _ in range(2))
    contrasts, wins = answers(block_of(0.99) * 3)
    for one in (policy, twin):
        learn(one, contrasts, wins)
    duel = policy.select(np.random.default_rng(0).normal(size=(N, D)))
    assert not duel.is_self
    policy.update(duel, True)
    policy.retract(duel)
    np.testing.assert_allclose(policy.theta, twin.theta, rtol=0, atol=1e-8)
    np.testing.assert_allclose(policy.gram, twin.gram, rtol=1e-12)
    learn(policy, *answers(block_of(0.99), 2))
    left = 0.99 ** (5.0 * np.repeat([4, 3, 2, 1, 0], [5, 5, 5, 4, 1]))  # its time went by
    np.testing.assert_allclose(policy.history().weights, left, rtol=1e-12)


def about_to_let_go(estimator: Any = "mle") -> Any:
    """A policy whose log begins with duels, and loses a block of them with the next answer but one."""
    policy, trial = (a_policy(estimator=estimator, discount=0.9) for _ in range(2))
    n = ROWS
    for one in (policy, trial):
        play(one, 4)
        learn(one, *answers(n))
    while estimator == "mle" and len(trial.history()) >= n:
        learn(trial, *answers(1))
        n += 1
    for _ in range(n - ROWS - 2):
        learn(policy, *answers(1))
    return policy


@pytest.mark.parametrize("estimator", ["mle", "online-newton"])
def test_a_batch_that_fails_after_the_end_of_a_block_is_taken_back(estimator: str):
    policy = about_to_let_go(estimator)
    twin, duels = copy.deepcopy(policy), duels_of(policy, 8)
    before = snapshot(policy)
    with pytest.raises(ValueError, match="overflows"):
        policy.update_batch(duels, [True] * 8, [*[1.0] * 7, 1e308])
    assert snapshot(policy) == before and policy.pending == 8
    with pytest.raises(ValueError, match=r"\[6\] is so large that the estimate overflows"):
        learn(policy, np.full((7, D), 100.0), np.ones(7), [*[1.0] * 6, 1e307])
    assert snapshot(policy) == before
    policy.update_batch(duels, [True] * 8)
    learn(twin, np.array([duel.contrast for duel in duels]), np.ones(8))
    np.testing.assert_allclose(policy.gram, twin.gram, rtol=1e-12)
    np.testing.assert_allclose(policy.theta, twin.theta, rtol=0, atol=1e-2)
    if estimator == "mle":
        assert len(policy.history()) == len(twin.history()) < ROWS
        assert policy.history().tokens[-8:] == tuple(duel.token for duel in duels)


@pytest.mark.parametrize("estimator", ["mle", "online-newton"])
def test_copies_and_files_go_on_bit_for_bit(estimator: str, tmp_path: Any):
    policy, *_ = long_past(estimator=estimator, discount=0.97)
    learn(policy, *answers(1, 4))  # within a block
    policy.save(tmp_path / "policy.npz")
    others = [fc.load_policy(tmp_path / "policy.npz"), copy.deepcopy(policy)]
    forked = policy.fork("worker")
    for one in (policy, *others):
        play(one, 9, seed=4)
    for other in others:
        assert arrays(other, frozenset({"blocks"})) == arrays(policy, frozenset({"blocks"}))
        assert other.theta.tobytes() == policy.theta.tobytes() and other.get_params()["discount"] == 0.97
        if estimator == "mle":
            assert other.history().weights.tobytes() == policy.history().weights.tobytes()
            assert other.history().raters == policy.history().raters
    play(forked, 9, seed=4)
    assert forked.gram.trace() == pytest.approx(policy.gram.trace(), rel=0.5)


def test_an_answer_that_ctrl_c_interrupts_where_answers_are_let_go_fades_once():
    policy = about_to_let_go()
    duels = duels_of(policy, 2)
    assert len(policy.history()) > ROWS

    def after_all(made: Any) -> Any:
        with contextlib.suppress(fc.AlreadyAnsweredError):
            made.update(duels[0], 0.5, rater="bob")
        made.update(duels[1], False)
        found = made.history()
        return (
            found.contrasts.tobytes(),
            found.weights.tobytes(),
            found.wins.tobytes(),
            found.raters,
            made.gram.tobytes(),
        )

    expected, after, came = after_all(copy.deepcopy(policy)), 0, True
    assert len(expected[3]) < ROWS
    while came:
        made = copy.deepcopy(policy)
        came = interrupted(lambda m=made: m.update(duels[0], 0.5, rater="bob"), after, FILES)
        assert after_all(made) == expected, f"after {after} lines"
        after += 1
    assert after > 30


def duels_of(policy: Any, n: int) -> list[fc.Duel]:
    """Duels that wait."""
    rng, duels = np.random.default_rng(9), []
    while len(duels) < n:
        duel = policy.select(rng.normal(size=(N, D)))
        duels += [] if duel.is_self else [duel]
    return duels


def test_both_halves_of_a_tie_are_kept_or_neither():
    z, rows = np.ones((1, D)), np.random.default_rng(0).normal(size=(3 * ROWS, D))
    rows[ROWS - 1], rows[ROWS] = z, -z
    weights = np.repeat([1e-9, 1e-9, 1.0], ROWS)
    history = History.of(rows, weights)
    assert faded_history(history, 0.9, 10).size[0] == ROWS
    weights[ROWS:] = 1.0
    history = History.of(rows, weights)
    assert faded_history(history, 0.9, 10).size[0] == 3 * ROWS
    rows[ROWS] = z
    fresh = faded_history(History.of(rows, weights), 0.9, 10)
    assert fresh.size[0] == 2 * ROWS and history.size[0] == 3 * ROWS
    np.testing.assert_array_equal(next(fresh.filled())[-1], np.full(ROWS, 0.9))
    just_more = np.repeat([FORGOTTEN * 0.1 * 1.001, 1.0], [ROWS, ROWS]) / ROWS
    assert faded_history(History.of(rows[: 2 * ROWS], just_more), 0.9, 0).size[0] == 2 * ROWS


# --- what is refused, and what is told ------------------------------------------------------------------------


class Steps(NamedTuple):
    """An estimator of one's own that does not forget."""

    rate: float = 1.0

    def memory(self, n_features: int) -> Any:
        return fc.SGD  # never asked

    def learn(self, model: Any, memory: Any, contrast: Any, share: Any, weight: Any) -> Any:
        return 0


@pytest.mark.parametrize("discount", [0.0, -0.5, 0.4999, 1.0001, math.nan, math.inf, "0.9", None, True, [0.9]])
@pytest.mark.parametrize("name", POLICIES)
def test_a_discount_is_a_number_from_a_half_to_1(name: str, discount: Any):
    with pytest.raises(ValueError, match=r"discount is .*; a number from 0\.5 to 1 is wanted"):
        a_policy(name, discount=discount)


def test_estimators_that_cannot_forget_are_refused_by_name():
    for estimator, told in (("sgd", "SGD"), (Steps(), "Steps")):
        with pytest.raises(ValueError, match=rf"discount is 0\.9 and estimator {told}(_\d+)?, which .* is wanted"):
            fc.CoLSTIM(D, estimator=estimator, discount=0.9)
    assert fc.CoLSTIM(D, estimator="sgd", discount=1.0).status == "exploring"


@pytest.mark.parametrize("name", STAGED)
def test_stages_do_not_forget(name: str):
    with pytest.raises(TypeError, match="discount"):
        STAGED[name][0](D, horizon=100, discount=0.9)


def test_a_summary_tells_how_many_answers_count():
    policy = a_policy(discount=0.999)
    assert policy.summary().effective_answers == pytest.approx(1000.0)
    assert "about 1,000 answers count" in str(policy.summary())
    assert "about 1,000 answers count" in policy._repr_html_()
    plain = a_policy(discount=1.0).summary()
    assert plain.effective_answers == math.inf and "count" not in str(plain)
    assert "discount=0.999" in repr(policy)
