"""count_pending=True: pairs that wait for their answer count in M, and in H, as if they were answered."""

from __future__ import annotations

import copy
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import JIT, everyday, rounds
from inside import snapshot, state_of
from test_contract import a_chunk, check_fused, follow
from twins import INFORMED, LINEAR, STAGED, taken_by

import fastcolst as fc
from fastcolst import reference, streams
from fastcolst.kernels.linalg import add_contrast, remove_contrast

D, N = 3, 8
POLICIES = {**LINEAR, **STAGED, **INFORMED}
BY_INFORMATION = {"CoLSTIM by information": ("CoLSTIM", {"widths": "information"}),
                  "StaD by information": ("StaD", {"widths": "information"}),
                  "Informative, d-optimal": ("Informative", {"value": "d-optimal"}),
                  "Informative, width": ("Informative", {"value": "width"})}  # fmt: skip
KINDS = {**{name: (name, {}) for name in POLICIES}, **BY_INFORMATION}
"""Every rule, and those that can choose by M or by H once more."""
SETTINGS = {"n_arms": N, "horizon": 200, "exploration_rounds": 5, "ridge": 0.5, "width_scale": 1.5}


def a_policy(kind: str, **more: Any) -> Any:
    name, options = KINDS[kind]
    ours = POLICIES[name][0]
    given = {**SETTINGS, "estimator": fc.OnlineNewton(history=0), "count_pending": True, "rng": 3, **options, **more}
    return ours(D, **taken_by(ours, given))


def a_twin(kind: str, **more: Any) -> Any:
    name, options = KINDS[kind]
    plain, model = POLICIES[name][1], reference.BradleyTerry()
    learner = reference.OnlineNewton(model, history=0)
    options = {**options, "by_information": options.get("widths") == "information", **more}
    given = {**SETTINGS, "comparison": model, "estimator": learner, "count_pending": True, **options}
    return plain(D, **taken_by(plain, given))


def beliefs(policy: Any) -> list[bytes]:
    """theta, M and its factor, to the last bit, and the counters."""
    state, later = state_of(policy), getattr(state_of(policy), "later", None)
    parts = [policy.theta, state.counters, state.gram, state.factor]
    return [part.tobytes() for part in parts + ([] if later is None else [later.gram, later.factor])]


class Waiting(NamedTuple):
    """A duel that was shown, with what the reference knows of it."""

    duel: fc.Duel
    shown: float
    asked_in: int


def told(kind: str, waiting: Waiting) -> dict[str, Any]:
    """What the reference wants to know of an answer."""
    staged = KINDS[kind][0] in STAGED
    return {"shown": waiting.shown, **({"asked_in": waiting.asked_in} if staged else {})}


def give_up(kind: str, twin: Any, waiting: Waiting) -> None:
    for one in twin._taught_by(waiting.asked_in) if KINDS[kind][0] in STAGED else [twin]:
        one.give_up(waiting.duel.contrast, waiting.shown)


@pytest.mark.parametrize("robust", [pytest.param(None, marks=everyday(False)), pytest.param(0.4, marks=everyday(True))])
@pytest.mark.parametrize("kind", KINDS)
def test_answers_that_come_late_or_never_give_the_duels_of_the_reference(kind: str, robust: float | None):
    check_late_answers(kind, robust=robust)


def check_late_answers(kind: str, **options: Any) -> None:
    """Answers that come late or never, with weights, give the duels of the reference."""
    more = {"allow_self_duel": False, **options}
    policy, twin, noise = a_policy(kind, **more), a_twin(kind, **more), streams.generator(3)
    rng, waiting = np.random.default_rng(1), []
    pool, n_given_up = rng.normal(size=(N, D)), 0
    for _ in range(rounds(150, 90)):
        duel = policy.select(pool)
        assert (duel.first, duel.second) == twin.select(pool, *twin.draw(noise, N)), f"round {policy.round}"
        if not duel.is_self:
            waiting.append(Waiting(duel, twin.show(duel.contrast), twin.round))
        while len(waiting) > 6 or (waiting and rng.random() < 0.3):
            one = waiting.pop(int(rng.integers(len(waiting))))
            if rng.random() < 0.25:
                policy.discard(one.duel)
                give_up(kind, twin, one)
                n_given_up += 1
            else:
                won, weight = bool(rng.random() < 0.5), float(rng.choice([1.0, 1.0, 0.5, 3.0]))
                policy.update(one.duel.token, won, weight)
                twin.update(one.duel.contrast, won, weight, **told(kind, one))
    assert n_given_up > 5
    first = twin.stages[0] if KINDS[kind][0] in STAGED else twin
    np.testing.assert_allclose(policy.gram, first.counted_gram(), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(policy.theta, first.theta, rtol=1e-8, atol=1e-10)
    if KINDS[kind][0] not in INFORMED:
        np.testing.assert_allclose(policy.widths(pool), first.widths(pool), rtol=1e-8)


@pytest.mark.parametrize("more", [{}, {"ridge": 0.0}, {"exploration_rounds": "auto"}], ids=str)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=everyday(kind in {"CoLSTIM", "MaxInP", "SupCoLSTIM"})) for kind in KINDS]
)
def test_with_answers_at_once_every_bit_is_as_without(kind: str, more: dict[str, Any]):
    one, other, fused = (a_policy(kind, count_pending=count, **more) for count in (False, True, True))
    chunk = a_chunk(fc.BradleyTerry(), rounds(300, 70), D, N)

    def choose(contexts: np.ndarray) -> Any:
        duel = one.select(contexts)
        return other.select(contexts), (duel.first, duel.second)

    def learn(contrast: np.ndarray, won: bool) -> None:
        one.update(f"{one.pending_duels()[0].token}", won)

    check_fused(fused, chunk, follow(other, chunk, choose, learn))
    assert beliefs(other) == beliefs(one) == beliefs(fused)


@pytest.mark.parametrize("kind", [*LINEAR, "Informative", "Informative, d-optimal"])
def test_twenty_raters_of_one_pool_are_shown_different_pairs(kind: str):
    """As long as little is known. Without counting they see one to three pairs, where noise does not part them."""
    rng = np.random.default_rng(0)
    pool = rng.normal(size=(50, 10))
    ours, options = POLICIES[KINDS[kind][0]][0], {**KINDS[kind][1], "allow_self_duel": False}
    found = []
    for counts in (True, False):
        given = {"ridge": 1.0, "exploration_rounds": 0, "count_pending": counts, "rng": 1, **options}
        policy = ours(10, **taken_by(ours, given))
        duels = [policy.select(pool) for _ in range(20)]
        assert policy.pending == 20
        found.append(len({frozenset((duel.first, duel.second)) for duel in duels}))
    assert found[0] >= 15
    assert found[1] <= 3 or kind == "CoLSTIM"


@pytest.mark.parametrize("kind", ["CoLSTIM", "StaD", "Informative, d-optimal"])
def test_a_batch_leaves_its_pairs_in_m(kind: str):
    one, other = a_policy(kind, exploration_rounds=0), a_policy(kind, exploration_rounds=0)
    pool = np.random.default_rng(2).normal(size=(N, D))
    duels = one.select_batch(pool, size=7)
    singles = [other.select(pool) for _ in duels]
    assert [(a.first, a.second) for a in duels] == [(b.first, b.second) for b in singles]
    shown = [duel.contrast for duel in duels if not duel.is_self]
    assert len(shown) > 3
    np.testing.assert_allclose(one.gram, 0.5 * np.eye(D) + np.transpose(shown) @ shown, rtol=1e-12)
    before = snapshot(one)
    with pytest.raises(ValueError, match="features"):
        one.select_batch([pool, pool[:, :2]])
    assert snapshot(one) == before


def test_the_exploration_counts_answers_alone():
    """Neither is M inverted earlier, nor known better, for what waits; afterwards it counts."""
    pool = np.random.default_rng(3).normal(size=(N, D))
    for more in ({"ridge": 0.0, "exploration_rounds": 4}, {"exploration_rounds": "auto"}):
        policy = a_policy("CoLSTIM", allow_self_duel=False, **more)
        duels = [policy.select(pool) for _ in range(6)]
        assert policy.status == "exploring"
        np.testing.assert_array_equal(policy.gram, policy.get_params()["ridge"] * np.eye(D))
        while policy.status == "exploring":
            duels.append(policy.select(pool))
            policy.update(duels.pop(0), True)
        shown = np.array([duel.contrast for duel in duels])
        assert len(shown) == 6
        policy.select(pool)
        answered = policy.gram - shown.T @ shown
        assert np.linalg.eigvalsh(answered).min() > 0.0


@pytest.mark.filterwarnings("ignore:.* what is predicted and what is answered differ:UserWarning")
@pytest.mark.filterwarnings("ignore:.* showed an arm against itself:UserWarning")
@pytest.mark.parametrize("most", [None, 4])
@pytest.mark.parametrize("kind", ["MaxPairUCB", "Informative, d-optimal"])
def test_shows_answers_discards_and_expiry_leave_in_m_what_counts(kind: str, most: int | None):
    """Of differences of many sizes, so that some are most of M and must not be subtracted from it."""
    policy = a_policy(kind, max_pending=most, n_arms=None, exploration_rounds=0, position=True)
    rng, waiting, answered, never = np.random.default_rng(5), {}, [], []
    for _ in range(rounds(20_000 if kind == "MaxPairUCB" else 1_000, 300)):
        pool = rng.normal(size=(3, D)) * 10.0 ** rng.integers(-3, 3)
        duel = policy.select(pool)
        if not duel.is_self:
            waiting[duel.token] = duel.contrast
        never += [token for token in waiting if token not in {shown.token for shown in policy.pending_duels()}]
        for token in never:
            waiting.pop(token, None)
        for token in rng.permutation(sorted(waiting))[: rng.integers(3)]:
            contrast = waiting.pop(str(token))
            if rng.random() < 0.5:
                policy.discard(str(token))
            else:
                weight = float(rng.choice([0.25, 1.0, 2.0]))
                policy.update(str(token), True, weight)
                answered.append((contrast, weight))
        del never[:]
    rows = [np.sqrt(w) * z for z, w in answered] + list(waiting.values())
    M = 0.5 * np.eye(D) + np.transpose(rows) @ rows
    np.testing.assert_allclose(policy.gram, M, rtol=1e-10, atol=1e-10)


def test_what_is_taken_out_of_m_is_out_of_it_after_100_000_times():
    rng = np.random.default_rng(6)
    gram, factor, work, waiting = np.eye(D), np.eye(D), np.empty((2, D)), []
    n_taken = 0
    for _ in range(rounds(100_000, 10_000)):
        if waiting and rng.random() < 0.5:
            z = waiting.pop(int(rng.integers(len(waiting))))
            before = gram.copy(), factor.copy()
            if remove_contrast(gram, factor, z, work):
                n_taken += 1
                continue
            assert gram.tobytes() == before[0].tobytes() and factor.tobytes() == before[1].tobytes()
            waiting.append(z)
        if len(waiting) < 30:
            waiting.append(0.3 * rng.normal(size=D))
            add_contrast(gram, factor, waiting[-1], work)
    M = np.eye(D) + np.transpose(waiting) @ waiting
    np.testing.assert_allclose(gram, M, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(factor.T @ factor, np.linalg.inv(M), rtol=1e-10, atol=1e-10)
    assert n_taken > 2000
    assert not remove_contrast(np.eye(D), np.eye(D), np.array([0.8, 0.0, 0.0]), work)


@pytest.mark.parametrize("kind", ["CoLSTIM", "SupCoLSTIM", "TwoSamples"])
def test_what_waits_goes_with_files_copies_and_pickles(kind: str, tmp_path: Any):
    policy, rng = a_policy(kind, robust=0.5), np.random.default_rng(9)
    pool = rng.normal(size=(N, D))
    duels = [duel for duel in (policy.select(pool) for _ in range(30)) if not duel.is_self]
    for duel in duels[:10]:
        policy.update(duel, bool(rng.random() < 0.5))
    duels = duels[10:] + [duel for duel in [policy.select(pool)] if not duel.is_self]
    policy.save(tmp_path / "policy.npz")
    others = [fc.load_policy(tmp_path / "policy.npz"), copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))]
    for other in others:
        assert other.gram.tobytes() == policy.gram.tobytes()
    for number in range(12):
        answers = [(duels[number].token, number % 2 == 0)]
        for one in (policy, *others):
            one.update(*answers[0])
        found = [(duel.first, duel.second) for duel in (one.select(pool) for one in (policy, *others))]
        assert len(set(found)) == 1
        assert len({one.gram.tobytes() for one in (policy, *others)}) == 1
    fork = policy.fork("other")
    assert fork.pending == 0
    assert fork.gram.tobytes() == state_of(policy).gram.tobytes()


def test_a_duel_that_went_through_json_is_answered_elsewhere(tmp_path: Any):
    policy, pool = a_policy("MaxPairUCB", exploration_rounds=0), np.random.default_rng(1).normal(size=(N, D))
    first, text = policy.select(pool), policy.select(pool).to_json()
    policy.save(tmp_path / "policy.npz")
    other = fc.load_policy(tmp_path / "policy.npz")
    other.update(fc.Duel.from_json(text), True)
    z = np.array([first.contrast, fc.Duel.from_json(text).contrast])
    np.testing.assert_allclose(other.gram, 0.5 * np.eye(D) + z.T @ z, rtol=1e-12)


@pytest.mark.parametrize("kind", ["CoLSTIM", "StaD", "Informative"])
def test_what_is_refused_leaves_what_waits_as_it_was(kind: str):
    policy, rng = a_policy(kind), np.random.default_rng(2)
    pool = rng.normal(size=(N, D))
    duels = [duel for duel in (policy.select(pool) for _ in range(25)) if not duel.is_self]
    policy.update(duels.pop(0), True)
    duels.sort(key=lambda duel: -np.linalg.norm(duel.contrast))  # with a weight of 1e308 one that is long overflows
    for _ in range(2):  # before and after a choice that counts what waits anew
        before = snapshot(policy)
        for refused in (
            lambda: policy.select(np.full((N, D), np.nan)),
            lambda: policy.select(np.where(np.eye(N, D), np.nan, pool)),
            lambda: policy.select(1e300 * pool),
            lambda: policy.select(pool[:, :2]),
            lambda: policy.update(duels[0], 2),
            lambda: policy.update(duels[0], True, weight=1e308),
            lambda: policy.update_batch(duels[:3], [True, False, 7]),
            lambda: policy.update_batch(duels[2::-1], [True, False, True], weights=[0.5, 2.0, 1e308]),
            lambda: policy.learn(pool, 1e160 * pool),
            lambda: policy.discard("0" * 16 + "-1"),
        ):
            with pytest.raises(ValueError, match=r"wanted|scale|overflow|finite|built for"):
                refused()
            assert snapshot(policy) == before
        policy.select(pool)


def test_a_log_and_a_retraction_keep_what_waits():
    policy, rng = a_policy("MaxPairUCB", estimator=fc.MLE(), exploration_rounds=0), np.random.default_rng(4)
    pool = rng.normal(size=(N, D))
    duels = policy.select_batch(pool, size=6)
    policy.update(duels[0], True)
    winners, losers = rng.normal(size=(2, 5, D))
    policy.learn(winners, losers)
    policy.retract(duels[0])
    policy.select(pool)
    shown = [*(winners - losers), *(duel.contrast for duel in duels[1:])]
    first, second = policy.pending_duels()[-1].arms
    rows = np.array([*shown, pool[first] - pool[second]])
    np.testing.assert_allclose(policy.gram, 0.5 * np.eye(D) + rows.T @ rows, rtol=1e-10)


def test_bound_arms_count_what_waits():
    rng = np.random.default_rng(5)
    arms = rng.normal(size=(1500, D))
    one, other = (a_policy("CoLSTIM", n_arms=None, allow_self_duel=False, estimator="sgd") for _ in range(2))
    bound, waiting = other.bind(arms), []
    for _ in range(rounds(60, 12)):
        a, b = one.select(arms), bound.select()
        assert (a.first, a.second) == (b.first, b.second)
        waiting.append((a, b))
        if len(waiting) > 5:
            for policy, duel in zip((one, other), waiting.pop(0), strict=True):
                policy.update(duel, duel.contrast[0] > 0)


def test_reading_changes_nothing_of_what_comes():
    one, other = (a_policy("CoLSTIM by information", estimator=fc.MLE()) for _ in range(2))
    rng = np.random.default_rng(6)
    pool = rng.normal(size=(N, D))
    for number in range(40):
        duels = [policy.select(pool) for policy in (one, other)]
        assert (duels[0].first, duels[0].second) == (duels[1].first, duels[1].second)
        other.gram, other.widths(pool), other.theta, other.summary()
        if number % 3 and not duels[0].is_self:
            for policy, duel in zip((one, other), duels, strict=True):
                policy.update(duel, number % 2 == 0)
                policy.widths(pool) if policy is other else None
    assert beliefs(one) == beliefs(other)


@pytest.mark.parametrize("options", [{"count_pending": 2}, {"count_pending": None}, {"count_pending": "yes"}])
def test_count_pending_is_true_or_false(options: dict[str, Any]):
    with pytest.raises(ValueError, match=r"count_pending is .*wanted"):
        fc.CoLSTIM(D, **options)


@pytest.mark.parametrize("damage", ["shape", "nan", "none wait"])
def test_a_file_with_counts_that_cannot_be_is_refused(damage: str, tmp_path: Any):
    policy, pool = a_policy("MaxPairUCB", exploration_rounds=0), np.random.default_rng(1).normal(size=(N, D))
    for _ in range(3):
        policy.select(pool)
    path = tmp_path / "policy.npz"
    policy.save(path)
    held = dict(np.load(path))
    assert "counted.1" in held
    if damage == "shape":
        held["counted.1"] = held["counted.1"][:2]
    elif damage == "nan":
        held["counted.0"] = np.full((D, D), np.nan)
    else:
        for name in ("waiting", "contrasts"):
            held[f"pending.{name}"] = held[f"pending.{name}"][:0]
    np.savez(path, **held)
    with pytest.raises(fc.FileFormatError, match="wanted"):
        fc.load_policy(path)


class Apart(NamedTuple):
    """An estimator whose information factor is made anew each time."""

    scale: float = 1.0

    class Memory(NamedTuple):
        theta: Any

    def memory(self, n_features: int) -> Any:
        return self.Memory(np.zeros(n_features))

    def learn(self, model: Any, memory: Any, contrast: Any, share: Any, weight: Any) -> int:
        memory.theta[:] += self.scale * weight * (share - 0.5) * contrast
        return 0

    def information_factor(self, memory: Any, otherwise: Any) -> Any:
        return otherwise.copy()


@pytest.mark.skipif(JIT, reason="compiled code wants a registered memory")
def test_an_information_factor_that_is_none_of_the_memorys_is_refused():
    policy = fc.TwoSamples(D, estimator=Apart(), count_pending=True, rng=1)
    while not policy.pending:
        policy.select(np.eye(D))
    with pytest.raises(TypeError, match="none of its memory's arrays"):
        policy.select(np.eye(D))
