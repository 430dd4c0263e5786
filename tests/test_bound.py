"""Arms that are bound to a policy: it chooses exactly what it would choose without."""

from __future__ import annotations

import copy
import itertools
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from conftest import JIT, rounds
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from inside import arrays, snapshot, state_of, stream_of
from twins import LINEAR, STAGED, Cauchy

import fastcolst as fc
from fastcolst.kernels import bound as kernels
from fastcolst.policies import bound
from fastcolst.policies.bound_rows import Rows
from fastcolst.policies.bound_values import Values

SEEING = {name: ours for name, (ours, _) in {**LINEAR, **STAGED}.items()}
ROOM = frozenset({"blocks"})
"""Of a history there is room that was never written to; what was, theta and the counters are the witness of."""
SAFE: dict[str, Any] = {"estimator": "sgd", "ridge": 1.0, "exploration_rounds": 0}


@pytest.fixture(autouse=True)
def from_the_first_arm_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds are used for a few arms too."""
    monkeypatch.setattr(bound, "FEW", 0)


def a_catalogue(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Arms of which some are equal, some zero and some close together."""
    rows = np.random.default_rng(seed).normal(size=(n, d))
    if n > 6:
        rows[1] = rows[0]
        rows[3] = rows[5] = rows[2]
        rows[4] = 0.0
        rows[6] = rows[0] * (1.0 + 2.0**-40)
    return rows


def shown(duel: fc.Duel) -> tuple[Any, ...]:
    """What a duel shows, to the last bit."""
    return duel.first, duel.second, duel.first_key, duel.second_key, duel.round, duel.contrast.tobytes()


def assert_same(one: fc.Policy, other: fc.Policy) -> None:
    """The twins know, wait for and will draw the same."""
    assert arrays(one, ROOM) == arrays(other, ROOM)
    assert stream_of(one) == stream_of(other)
    mine, theirs = snapshot(one)["_pending"], snapshot(other)["_pending"]
    assert mine == theirs


class Holes(NamedTuple):
    """A model of a user's own whose noise is no number now and then."""

    scale: float = 1.0

    def cdf(self, u: Any) -> Any:
        return 1.0 / (1.0 + np.exp(-u / self.scale))

    def pdf(self, u: Any) -> Any:
        return self.cdf(u) * self.cdf(-u) / self.scale

    def raw(self, rng: Any, size: Any = None) -> Any:
        return rng.standard_exponential(size)

    def perturb(self, value: Any) -> Any:
        return value if value > 0.1 else np.nan


OPTIONS: list[dict[str, Any]] = [
    SAFE,
    {"estimator": fc.MLE(), "ridge": 1.0, "exploration_rounds": "auto"},
    {"estimator": "sgd", "exploration_rounds": 12, "comparison": "thurstone", "horizon": 200},
    {"estimator": "online-newton", "ridge": 0.5, "exploration_rounds": 3, "allow_self_duel": False},
    {**SAFE, "coupling": 0.0, "clip": 0.5, "perturbation": "exponential"},
    {**SAFE, "coupling": 0.5, "clip": np.inf, "position": True},
    {**SAFE, "coupling": 1.0, "clip": 0.0, "width_scale": 0.0},
    {**SAFE, "width_scale": 1e150, "exploration_rounds": 3},
    {**SAFE, "perturbation": Cauchy(), "clip": np.inf},
    {**SAFE, "perturbation": Holes(), "coupling": 1.0},
    {**SAFE, "estimator": fc.MLE(), "widths": "information"},
]

INTERPRETED = (2, 4, 8)
"""Numbers of options that take another compilation of the same code: with compiled kernels they are left out."""


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_bound_arms_are_chosen_as_if_they_were_not(number: int) -> None:
    if JIT and number in INTERPRETED:
        pytest.skip("compiled, the same code need not be compiled again")
    contexts = a_catalogue(rounds(150, 70), 5)
    policy, twin = (fc.CoLSTIM(5, rng=1, **OPTIONS[number]) for _ in range(2))
    arms = policy.bind(contexts)
    rng = np.random.default_rng(2)
    for t in range(rounds(300, 40)):
        available = rng.random(len(contexts)) < 0.6 if t % 4 == 3 else None
        duel, same = arms.select(available), twin.select(contexts, available)
        assert shown(duel) == shown(same)
        if t % 3 and not duel.is_self:
            won = bool(rng.random() < 0.5)
            policy.update(duel, won), twin.update(same, won)
        assert_same(policy, twin)


@pytest.mark.parametrize("name", [*SEEING, "UniformPairs", "DoubleThompson", "SelfSparring"])
def test_every_policy_takes_bound_arms(name: str) -> None:
    contexts = a_catalogue(9, 3)
    options = {**SAFE, "horizon": 500} if name in SEEING else {}
    make = SEEING.get(name) or getattr(fc, name)
    policy, twin = (make(3, rng=1, **options) for _ in range(2))
    arms = policy.bind(contexts.astype(np.float32), keys=list("abcdefghi"))
    contexts = contexts.astype(np.float32).astype(np.float64)
    for t in range(rounds(60, 20)):
        available = np.arange(9) % 4 != 0 if t % 4 == 3 else None
        duel, same = arms.select(available), twin.select(contexts, available, keys=list("abcdefghi"))
        assert shown(duel) == shown(same)
        if not duel.is_self:
            policy.update(duel.token, t % 2), twin.update(same.token, t % 2)
        assert_same(policy, twin)


class Twins(RuleBasedStateMachine):
    """A policy with bound arms and one without, told the same in any order."""

    @initialize(
        number=st.sampled_from([0, 1, 3, 5]), seed=st.integers(0, 99), n=st.integers(2, 90), keyed=st.booleans()
    )
    def begin(self, number: int, seed: int, n: int, keyed: bool) -> None:
        self.rng = np.random.default_rng(seed)
        self.contexts = a_catalogue(n, 3, seed)
        self.keys: list[Any] | None = [f"k{i}" for i in range(n)] if keyed else None
        self.n_named = n
        self.policy, self.twin = (fc.CoLSTIM(3, rng=seed, **OPTIONS[number]) for _ in range(2))
        self.arms = self.policy.bind(self.contexts, self.keys)
        self.duels: list[tuple[fc.Duel, fc.Duel]] = []
        self.answered: list[tuple[str, str]] = []

    def note(self, duel: fc.Duel, same: fc.Duel) -> None:
        assert shown(duel) == shown(same)
        if not duel.is_self:
            self.duels.append((duel, same))

    @rule(masked=st.booleans())
    def select(self, masked: bool) -> None:
        available = self.rng.random(len(self.contexts)) < 0.7
        if not masked or available.sum() < 2:
            available = None
        self.note(self.arms.select(available), self.twin.select(self.contexts, available, self.keys))

    @rule(size=st.integers(1, 4))
    def select_batch(self, size: int) -> None:
        keyed = None if self.keys is None else dict(zip(self.keys, self.contexts, strict=True))
        same = self.twin.select_batch(self.contexts if keyed is None else keyed, size)
        for one, other in zip(self.arms.select_batch(size), same, strict=True):
            self.note(one, other)

    @rule(place=st.integers(0, 10**6), share=st.sampled_from([True, False, 0.5]), weight=st.sampled_from([1.0, 3.5]))
    def answer(self, place: int, share: float, weight: float) -> None:
        if self.duels:
            one, other = self.duels.pop(place % len(self.duels))
            self.policy.update(one, share, weight), self.twin.update(other, share, weight)
            if one.contrast.any():  # equal arms taught nothing that could be taken out
                self.answered.append((one.token, other.token))

    @rule()
    def answer_all(self) -> None:
        ours, theirs = zip(*self.duels, strict=True) if self.duels else ((), ())
        shares = [bool(i % 2) for i in range(len(ours))]
        self.policy.update_batch(ours, shares), self.twin.update_batch(theirs, shares)
        self.duels = []

    @rule(place=st.integers(0, 10**6))
    def discard(self, place: int) -> None:
        if self.duels:
            one, other = self.duels.pop(place % len(self.duels))
            self.policy.discard(one), self.twin.discard(other.token)

    @rule(place=st.integers(0, 10**6))
    def retract(self, place: int) -> None:
        if self.answered and isinstance(self.policy.get_params()["estimator"], fc.MLE):
            one, other = self.answered.pop(place % len(self.answered))
            self.policy.retract(one), self.twin.retract(other)

    @rule(m=st.integers(1, 20))
    def learn(self, m: int) -> None:
        won, lost = self.rng.normal(size=(2, m, 3))
        outcomes = self.rng.random(m)
        self.policy.learn(won, lost, outcomes=outcomes), self.twin.learn(won, lost, outcomes=outcomes)

    @rule(m=st.integers(1, 70), scale=st.sampled_from([1.0, 100.0]))
    def add(self, m: int, scale: float) -> None:
        more = scale * self.rng.normal(size=(m, 3))
        keys = None if self.keys is None else [f"k{self.n_named + i}" for i in range(m)]
        self.n_named += m
        self.arms.add(more, keys)
        self.contexts = np.concatenate([self.contexts, more])
        self.keys = None if keys is None or self.keys is None else self.keys + keys

    @rule(share=st.sampled_from([0.1, 0.9]))
    def remove(self, share: float) -> None:
        gone = self.rng.random(len(self.contexts)) < share
        gone[:2] = False
        self.arms.remove(np.flatnonzero(gone) if self.keys is None else [self.keys[i] for i in np.flatnonzero(gone)])
        self.contexts = self.contexts[~gone]
        self.keys = (
            None if self.keys is None else [key for key, is_gone in zip(self.keys, gone, strict=True) if not is_gone]
        )

    @rule()
    def look(self) -> None:
        assert (self.policy.utilities(self.contexts) == self.twin.utilities(self.contexts)).all()

    @invariant()
    def are_the_same(self) -> None:
        if hasattr(self, "policy"):
            assert_same(self.policy, self.twin)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_whatever_comes_between_bound_arms_are_chosen_as_if_they_were_not() -> None:
    settings = hypothesis.settings(max_examples=rounds(100, 5), stateful_step_count=rounds(40, 12))
    run_state_machine_as_test(Twins, settings=settings)


# --- what is carried ----------------------------------------------------------------------------------------


def carried_and_true(values: Values, contexts: np.ndarray, state: Any) -> Iterator[tuple[np.ndarray, float]]:
    """How far carried utilities and widths are from true ones, and how far they may be."""
    d, n = contexts.shape[1], len(contexts)
    utilities = contexts @ state.memory.theta[:d]
    widths = np.linalg.norm(contexts @ state.factor[:, :d].T, axis=1)
    bounds = values.carried.bounds
    yield np.abs(values.carried.utilities[:n] - utilities), float(bounds["utility"])
    yield np.abs(np.sqrt(np.maximum(values.carried.squares[:n], 0.0)) - widths), float(bounds["width"])


@pytest.mark.parametrize("scales", [[1.0, 1.0, 1.0, 1.0], [1e-30, 1e20, 1.0, 3e5], [0.0, 1.0, 1e-100, 7.0]])
def test_what_is_carried_is_as_near_to_the_truth_as_is_said(scales: list[float]) -> None:
    rng = np.random.default_rng(1)
    contexts = a_catalogue(130, 4) * scales
    sizes = np.where(np.array(scales) > 0.0, scales, 1.0)
    values = Values(Rows([contexts]))
    policy = fc.CoLSTIM(4, estimator=fc.SGD(standardize=True), ridge=1e-3)
    state, n_passes = state_of(policy), 0
    with np.errstate(all="ignore"):
        for t in range(rounds(3000, 60)):
            n_more = 3 if t % 10 == 9 else 1
            policy.learn(rng.normal(size=(n_more, 4)) * sizes, rng.normal(size=(n_more, 4)) * sizes)
            assert values.follow(state.factor, state.memory.theta)
            n_passes += int(values.carried.bounds["passes"]) > 0
            for error, bound_ in carried_and_true(values, contexts, state):
                assert error.max() <= bound_
            highest = np.abs(contexts) @ np.abs(state.memory.theta)
            assert bound_ <= 1e-5 * np.linalg.norm(np.abs(contexts).max(axis=0) @ np.abs(state.factor).T)
            assert values.carried.bounds["utility"] <= 1e-6 * max(4.0 * highest.max(), 1e-300)
    assert n_passes > 0.8 * t  # nearly all of them in one pass over the arms


def test_numbers_are_computed_anew_as_often_as_is_said() -> None:
    values = Values(Rows([a_catalogue(5, 3)]))
    policy = fc.CoLSTIM(3, estimator="sgd", ridge=1.0)
    state, seen = state_of(policy), []
    for _ in range(rounds(kernels.RENEW_AFTER + 5, 30)):
        policy.learn(np.ones((1, 3)), np.zeros((1, 3)))
        values.follow(state.factor, state.memory.theta)
        seen.append(int(values.carried.bounds["passes"]))
    passes = np.arange(len(seen)) % (kernels.RENEW_AFTER + 1)
    assert seen == passes.tolist()


def test_an_answer_taken_out_is_followed_in_a_pass() -> None:
    contexts = a_catalogue(70, 3)
    policy = fc.CoLSTIM(3, estimator=fc.MLE(), ridge=1.0, exploration_rounds=0, rng=1, allow_self_duel=False)
    values = Values(Rows([contexts]))
    duels = [policy.select(contexts) for _ in range(5)]
    for duel in duels:
        policy.update(duel, True)
    values.follow(state_of(policy).factor, policy.theta)
    policy.retract(duels[2])
    assert values.follow(state_of(policy).factor, policy.theta)
    assert values.carried.bounds["passes"] == 1
    for error, bound_ in carried_and_true(values, contexts, state_of(policy)):
        assert error.max() <= bound_ < 1e-4


@pytest.mark.parametrize("looks", [True, False])
def test_arms_that_come_and_go_are_carried_as_the_others(looks: bool) -> None:
    """Also where several come, and some go, before anybody looks at them."""
    rng = np.random.default_rng(3)
    contexts = a_catalogue(100, 3)
    values, policy = Values(Rows([contexts])), fc.CoLSTIM(3, estimator="sgd", ridge=1.0)
    state = state_of(policy)
    for t in range(12):
        if looks or t in (0, 5, 11):
            policy.learn(rng.normal(size=(1, 3)), rng.normal(size=(1, 3)))
            assert values.follow(state.factor, state.memory.theta)
            for error, bound_ in carried_and_true(values, contexts, state):
                assert error.max() <= bound_ < 1e-4
            assert (values.carried.utilities[len(contexts) :] == -np.inf).all()
        if t % 4 == 1:
            kept = rng.random(len(contexts)) < 0.7
            values.remove(kept)
            contexts = contexts[kept]
        else:
            contexts = np.concatenate([contexts, rng.uniform(-1.0, 1.0, size=((1, 70)[t % 2], 3))])
            assert values.add(Rows([contexts]))
    before = values.carried
    assert not values.add(Rows([np.concatenate([contexts, np.full((1, 3), 1e3)])]))  # the units are too small for it
    assert values.carried is before and values.n_arms == len(contexts)


@pytest.mark.skipif(JIT, reason="kernels have the constant in their machine code")
def test_what_is_left_of_a_difference_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """As little as is left as a rule would not show."""
    monkeypatch.setattr(kernels, "LEFT", 0.02)
    contexts = a_catalogue(70, 3)
    values, policy = Values(Rows([contexts])), fc.CoLSTIM(3, estimator="sgd", ridge=1.0)
    state, passes = state_of(policy), []
    for _ in range(60):
        policy.learn(0.05 * np.ones((1, 3)), np.zeros((1, 3)))
        values.follow(state.factor, state.memory.theta)
        passes.append(values.carried.squares.copy())
        *_, (error, bound_) = carried_and_true(values, contexts, state)
        assert error.max() <= bound_
    unmoved = sum((one == other).all() for one, other in itertools.pairwise(passes))
    assert 10 < unmoved < 58


def test_few_arms_are_looked_at_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise all would be well but for the time."""
    from fastcolst.policies import bound_colstim

    looked_at: list[int] = []
    gathered = bound_colstim.gathered
    monkeypatch.setattr(
        bound_colstim, "gathered", lambda sight, arms: looked_at.append(len(arms)) or gathered(sight, arms)
    )
    contexts = np.random.default_rng(0).normal(size=(rounds(20_000, 500), 4))
    policy = fc.CoLSTIM(4, horizon=1000, rng=1, **SAFE, allow_self_duel=False)
    arms = policy.bind(contexts)
    n_rounds = rounds(200, 20)
    for _ in range(n_rounds):
        policy.update(arms.select(), True)
    assert sum(looked_at) <= n_rounds


# --- what may be bound --------------------------------------------------------------------------------------


def same_duels(
    arms: fc.BoundArms, policy: fc.Policy, twin: fc.Policy, contexts: Any, n: int = 12, **options: Any
) -> None:
    """Rounds, all answered, in which the twins show the same."""
    for t in range(n):
        duel, same = arms.select(), twin.select(contexts, **options)
        assert shown(duel) == shown(same)
        policy.update(duel, t % 3 == 0), twin.update(same, t % 3 == 0)
    assert_same(policy, twin)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, ">f8"])
def test_arrays_of_every_kind_are_bound(tmp_path: Path, dtype: Any) -> None:
    """Of what lies on disk no row is copied, and an array may be changed afterwards."""
    contexts = (8.0 * a_catalogue(90, 3)).astype(dtype)
    np.save(tmp_path / "arms.npy", contexts)
    mapped = np.load(tmp_path / "arms.npy", mmap_mode="r")
    policies = [fc.CoLSTIM(3, rng=1, **SAFE) for _ in range(4)]
    lying, own = policies[0].bind(mapped), policies[2].bind(contexts)
    assert np.shares_memory(lying._rows.blocks[0], mapped) == (dtype in (np.float32, np.float64))
    wanted = contexts.astype(np.float64)
    contexts[:] = 0
    same_duels(lying, policies[0], policies[1], wanted)
    same_duels(own, policies[2], policies[3], wanted)


def test_data_frames_and_dicts_are_bound_with_their_names() -> None:
    rows = a_catalogue(20, 3)
    frame = pd.DataFrame(rows, columns=["c", "a", "b"], index=[f"arm {i}" for i in range(20)])
    policy, twin = (fc.CoLSTIM(3, rng=1, **SAFE) for _ in range(2))
    arms = policy.bind(frame)
    same_duels(arms, policy, twin, frame)
    assert policy.feature_names == twin.feature_names == ("c", "a", "b")
    # of a policy that knows the features in another order
    first, second = (fc.CoLSTIM(3, rng=1, **SAFE) for _ in range(2))
    for one in (first, second):
        one.select(frame[["a", "b", "c"]].iloc[:5])
    turned = first.bind(frame)
    same_duels(turned, first, second, frame)
    turned.add(frame[["b", "c", "a"]].iloc[:2].set_axis(["x", "y"]))
    turned.add(rows[:1], keys=["z"])  # an array has its features in the policy's order
    longer = np.concatenate([frame[["a", "b", "c"]].to_numpy(), frame[["a", "b", "c"]].to_numpy()[:2], rows[:1]])
    same_duels(turned, first, second, longer, keys=[*frame.index, "x", "y", "z"])
    with pytest.raises(ValueError, match="lacks 'c'"):
        first.bind(frame[["a", "b"]].assign(d=1.0))
    with pytest.raises(ValueError, match="another index"):
        arms.select(pd.Series(np.ones(20, bool)))
    masked, plain = fc.CoLSTIM(3, rng=1, **SAFE), fc.CoLSTIM(3, rng=1, **SAFE)
    available = pd.Series(np.arange(20) < 15, index=frame.index)
    keyed = dict(zip(frame.index, rows, strict=True))
    assert shown(masked.bind(keyed).select(available)) == shown(plain.select(keyed, available))


def test_the_order_of_names_may_be_told_after_the_arms_were_bound() -> None:
    frame = pd.DataFrame(a_catalogue(20, 3), columns=["c", "a", "b"])
    policy, twin = (fc.CoLSTIM(3, rng=1, **SAFE) for _ in range(2))
    arms = policy.bind(frame)
    for one in (policy, twin):
        one.learn(frame[["a", "b", "c"]].iloc[:2], frame[["a", "b", "c"]].iloc[5:7])
    same_duels(arms, policy, twin, frame)


def test_a_policy_is_saved_without_its_bound_arms(tmp_path: Path) -> None:
    contexts = a_catalogue(3000, 3)
    policy, twin = (fc.CoLSTIM(3, rng=1, **SAFE) for _ in range(2))
    arms = policy.bind(contexts)
    same_duels(arms, policy, twin, contexts)
    waiting, same = arms.select(), twin.select(contexts)
    policy.save(tmp_path / "policy.npz")
    assert (tmp_path / "policy.npz").stat().st_size < contexts.nbytes / 2
    again = fc.load_policy(tmp_path / "policy.npz")
    again.update(waiting.token, True), twin.update(same, True)
    same_duels(again.bind(contexts), again, twin, contexts)
    fork, other = policy.fork(1), policy.fork(1)
    same_duels(fork.bind(contexts), fork, other, contexts)


@pytest.mark.parametrize("then", ["bound", "unbound", "of another shape", "saved"])
def test_numbers_of_a_choice_that_failed_are_used_in_the_next_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, then: str
) -> None:
    """A choice that fails costs the stream no round, and whoever chooses next among as many arms uses its numbers."""
    contexts = a_catalogue(30, 3)
    policy, twin = (fc.CoLSTIM(3, rng=1, **SAFE) for _ in range(2))
    arms = policy.bind(contexts)
    same_duels(arms, policy, twin, contexts)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fastcolst.policies.bound_colstim.first_contenders", interrupted)
        with pytest.raises(KeyboardInterrupt):
            arms.select()
    assert stream_of(policy) != stream_of(twin)
    if then == "saved":
        policy.save(tmp_path / "policy.npz")
        policy = fc.load_policy(tmp_path / "policy.npz")
        arms = policy.bind(contexts)
    if then == "unbound":
        assert shown(policy.select(contexts)) == shown(twin.select(contexts))
    if then == "of another shape":
        policy.select(contexts[:4]), twin.select(contexts[:4])
        assert stream_of(policy) != stream_of(twin)  # those numbers were for others
        return
    assert stream_of(policy) == stream_of(twin) or then in ("bound", "saved")
    same_duels(arms, policy, twin, contexts)


def test_threads_share_bound_arms() -> None:
    contexts = a_catalogue(200, 3)
    policy = fc.CoLSTIM(3, rng=1, **SAFE, allow_self_duel=False)
    arms = policy.bind(contexts)
    failed: list[BaseException] = []

    def serve() -> None:
        try:
            for t in range(rounds(60, 5)):
                policy.update(arms.select(), t % 2 == 0)
                if t % 10 == 9:
                    arms.add(a_catalogue(3, 3))
        except BaseException as error:  # noqa: BLE001 - told by the thread that asked
            failed.append(error)

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert policy.round == 4 * rounds(60, 5) and len(arms) == 200 + 3 * 4 * (rounds(60, 5) // 10)


def test_the_warning_of_unjustified_self_duels_comes_as_ever() -> None:
    contexts = a_catalogue(40, 3)
    told = []
    for is_bound in (True, False):
        policy = fc.CoLSTIM(3, rng=1, **{**SAFE, "width_scale": 0.0, "clip": 0.0})
        policy.learn(contexts[[0]], contexts[[2]])
        arms = policy.bind(contexts)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(700):
                arms.select() if is_bound else policy.select(contexts)
        told.append([str(warning.message) for warning in caught if warning.category is UserWarning])
    assert told[0] == told[1] and "showed an arm against itself" in told[0][0]


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        (np.full((5, 3), np.nan), r"contexts\[0, 0\] is nan"),
        (np.ones((5, 2)), "2 features"),
        (np.ones(5), "shape"),
        (np.ones((0, 3)), "must not be empty"),
        (np.full((5, 3), 1e150), "so large overflow"),
        (np.full((5, 3), np.float32(np.inf)), r"contexts\[0, 0\] is inf"),
        ([["a", "b", "c"]], "real number"),
    ],
)
def test_what_select_refuses_cannot_be_bound(contexts: Any, message: str) -> None:
    policy = fc.CoLSTIM(3, rng=1, **SAFE)
    with pytest.raises(ValueError, match=message) as refused:
        policy.select(contexts)
    with pytest.raises(ValueError, match=message) as bound_refused:
        policy.bind(contexts)
    assert str(bound_refused.value) == str(refused.value)


def test_refusals_name_what_is_wanted_and_change_nothing() -> None:
    policy = fc.CoLSTIM(3, rng=1, **SAFE, allow_self_duel=False, max_pending=2)
    arms, named = policy.bind(a_catalogue(6, 3)), policy.bind(np.eye(3), keys=["a", "b", "c"])
    before = snapshot(policy)
    refused = [
        (lambda: arms.select([True]), r"available has shape \(1,\)"),
        (lambda: arms.select(np.arange(6) < 1), "at least two are wanted"),
        (lambda: arms.select(np.zeros(6, bool)), "available has no arm"),
        (lambda: arms.select_batch(0), "size is 0"),
        (lambda: arms.select_batch(2**33), "size is 8,589,934,592; at most 1,000,000 duels"),
        (lambda: arms.select_batch(3), "at most max_pending=2"),
        (lambda: arms.add(np.full((1, 3), np.inf)), r"contexts\[6, 0\] is inf"),
        (lambda: arms.add(np.ones((2, 2))), "2 features"),
        (lambda: arms.add(np.eye(3), keys=["a", "b", "c"]), "keys is given"),
        (lambda: named.add(np.eye(3)), "keys is None"),
        (lambda: named.add(np.eye(3), keys=["x", "y", "b"]), r"keys\[5\] is 'b' as keys\[1\] is"),
        (lambda: named.remove(["d"]), r"arms\[0\] is 'd', which is not bound"),
        (lambda: named.remove(["a", "a"]), r"arms\[1\] is 'a', which was named before"),
        (lambda: named.remove(["a", "b", "c"]), "at least one arm"),
        (lambda: named.remove("a"), "a list of keys"),
        (lambda: arms.remove([6]), r"arms\[0\] is 6"),
        (lambda: arms.remove([-1]), r"arms\[0\] is -1"),
        (lambda: arms.remove([0.5]), r"arms\[0\] is 0.5"),
        (lambda: policy.bind(np.eye(3), keys=["a", "a", "b"]), r"keys\[1\] is 'a' as keys\[0\] is"),
    ]
    for call, message in refused:
        with pytest.raises(ValueError, match=message):
            call()
        assert snapshot(policy) == before
    assert len(arms) == 6 and named.keys == ("a", "b", "c")


def test_a_policy_of_a_number_of_arms_keeps_to_it() -> None:
    policy = fc.CoLSTIM(3, n_arms=4, rng=1, **SAFE)
    with pytest.raises(ValueError, match="built for n_arms=4"):
        policy.bind(np.eye(3))
    arms = policy.bind(np.eye(4, 3))
    with pytest.raises(ValueError, match="built for n_arms=4"):
        arms.add(np.eye(1, 3))
    with pytest.raises(ValueError, match="built for n_arms=4"):
        arms.remove([1])
    assert arms.select().round == 1 and len(arms) == 4
    counting = fc.SelfSparring(rng=1)
    few, many = counting.bind(np.eye(3)), counting.bind(np.eye(5))
    few.select()
    with pytest.raises(ValueError, match="built for n_arms=3"):
        many.select()


def test_arms_that_became_too_large_are_refused_as_ever() -> None:
    contexts = np.array([[1.0, 0.0], [0.0, 1e100], [0.0, 0.0]])
    policy, twin = (fc.CoLSTIM(2, rng=1, estimator="sgd", exploration_rounds=2) for _ in range(2))
    arms = policy.bind(contexts)
    for one in (policy, twin):
        one.learn(np.array([[1e-100, 0.0], [0.0, 1e-100]]), np.zeros((2, 2)))
        one._end_exploration()
    for choose in (arms.select, lambda: twin.select(contexts)):
        with pytest.raises(ValueError, match="so large overflow"):
            choose()
    assert_same(policy, twin)


@pytest.mark.parametrize("make", [partial(fc.Informative, repeats=False), fc.Informative, fc.TwoSamples])
def test_rules_of_the_information_take_bound_arms(make: Any) -> None:
    """More pairs are shown than the table of those had places for at first, until none is left."""
    contexts = np.random.default_rng(3).normal(size=(13, 2))
    policy, twin = (make(2, rng=1) for _ in range(2))
    arms = policy.bind(contexts)
    for t in range(78):
        duel, same = arms.select(), twin.select(contexts)
        assert shown(duel) == shown(same)
        if not duel.is_self:
            policy.update(duel.token, t % 2), twin.update(same.token, t % 2)
    if not policy.get_params().get("repeats", True):
        for select in (arms.select, lambda: twin.select(contexts)):
            with pytest.raises(ValueError, match="contexts has 13 arms of which each pair was shown"):
                select()
    assert_same(policy, twin)


def test_a_policy_with_a_map_binds_no_arms():
    landmarks = np.linspace(-1.0, 1.0, 5)[:, np.newaxis]
    policy = fc.CoLSTIM(1, features=fc.Nystroem(landmarks, "matern-5/2", 0.2), ridge=1.0, rng=1)
    with pytest.raises(ValueError, match=r"features is a map.*; a policy without one is wanted"):
        policy.bind(landmarks)


@pytest.mark.parametrize("change", ["add", "remove"])
def test_a_change_that_is_broken_off_costs_what_is_carried_and_no_more(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stops it half-way: the same arms are bound, and chosen as if nothing had been tried."""
    contexts = a_catalogue(70, 3)
    policy, twin = (fc.CoLSTIM(3, rng=1, **SAFE) for _ in range(2))
    arms = policy.bind(contexts)

    def same() -> None:
        duel, expected = arms.select(), twin.select(contexts)
        assert shown(duel) == shown(expected)
        policy.update(duel, True), twin.update(expected, True)

    for _ in range(3):
        same()
    change_of_values = getattr(Values, change)

    def broken(values: Values, *given: Any) -> None:
        change_of_values(values, *given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Values, change, broken)
    with pytest.raises(KeyboardInterrupt):
        arms.add(np.ones((90, 3))) if change == "add" else arms.remove([0, 5])
    assert len(arms) == 70
    for _ in range(5):
        same()


def test_a_copy_shares_nothing_that_is_changed_in_place() -> None:
    contexts = a_catalogue(70, 3)
    policy, twin = (fc.CoLSTIM(3, rng=1, **SAFE) for _ in range(2))
    arms = policy.bind(contexts)
    policy.update(arms.select(), True), twin.update(twin.select(contexts), True)
    other = copy.copy(arms)
    arms.add(np.ones((90, 3)))
    arms.remove([1, 2])
    for _ in range(3):
        assert len(other) == 70 and shown(other.select()) == shown(twin.select(contexts))


def test_a_copy_of_a_memory_map_is_no_file(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", a_catalogue(20, 3))
    contexts = np.load(tmp_path / "rows.npy", mmap_mode="r").copy()
    policy, twin = (fc.CoLSTIM(3, rng=1, **SAFE) for _ in range(2))
    arms, before = policy.bind(contexts), np.array(contexts)
    contexts *= 0.0
    assert shown(arms.select()) == shown(twin.select(before))


def test_no_arms_are_no_addition() -> None:
    arms = fc.CoLSTIM(3, rng=1, **SAFE).bind(a_catalogue(20, 3))
    with pytest.raises(ValueError, match="contexts has 0 arms; at least one is wanted"):
        arms.add(np.empty((0, 3)))
