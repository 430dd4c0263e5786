"""Policies on disk: what is loaded goes on as if it had never stopped, and a file that is no policy is one error."""

from __future__ import annotations

import importlib
import io
import json
import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inside import failing_choices, interrupted, snapshot
from twins import LINEAR, SAMPLERS

import fastcolst as fc
from fastcolst.policies.saved import FORMAT_VERSION

pytestmark = pytest.mark.either_lane

D, N, HORIZON = 3, 4, 64
CONTEXTS = np.random.default_rng(5).normal(size=(400, N, D))


def play(policy: Any, rounds: int, waiting: list[Any]) -> list[Any]:
    """Rounds in which answers come late, some duels are given up and a log comes between; what was chosen."""
    told = []
    for _ in range(rounds):
        t = policy.round
        duel = policy.select(CONTEXTS[t])
        told.append((duel.first, duel.second, duel.contrast.tobytes()))
        if not duel.is_self:
            waiting.append(duel.token)
        if t % 3 == 2:
            for token in waiting[: t % 5]:
                policy.update(token, (t * 7 + len(waiting)) % 3 > 0)
                waiting.remove(token)
        if t % 11 == 10 and waiting:
            policy.discard(waiting.pop())
        if t % 13 == 12 and policy.has_estimate:
            policy.learn(CONTEXTS[t, :2], CONTEXTS[t, 2:])
    return told


def held(policy: Any) -> dict[str, Any]:
    """What a file of the policy holds, apart from tokens and the room that is left."""
    file = io.BytesIO()
    file.write(policy._packed())
    file.seek(0)
    with np.load(file) as archive:
        arrays = {name: (archive[name].dtype.str, archive[name].shape, archive[name].tobytes()) for name in archive}
        header = json.loads(archive["header"].tobytes())
    del arrays["header"], header["pending"]["epochs"], header["pending"]["first_rounds"]
    return {**arrays, "header": header}


def saved(policy: Any, folder: Path, **options: Any) -> Any:
    policy.save(folder / "policy.npz")
    return fc.load_policy(folder / "policy.npz", **options)


def test_tokens_of_a_loaded_policy_are_new_and_those_that_waited_stay_valid(tmp_path):
    policy = fc.CoLSTIM(D, ridge=1.0, rng=1, max_pending=3)
    answered, _, expired, *waiting = (policy.select(CONTEXTS[t]) for t in range(6))
    with pytest.raises(fc.DiscardedError):
        policy.update(answered, True)
    policy.discard(waiting.pop(0))
    policy.update(waiting[0], True)
    again = saved(policy, tmp_path)
    assert (again.pending, again.expired, again.round) == (1, 3, 6)
    policy.update(waiting[1], False)
    again.update(waiting[1], False)
    duels = policy.select(CONTEXTS[7]), again.select(CONTEXTS[7])
    assert duels[0] != duels[1] and len({*duels}) == 2
    for one, other in ((policy, duels[1]), (again, duels[0])):
        with pytest.raises(fc.ForeignDuelError):
            one.update(other, True)
        with pytest.raises(fc.AlreadyAnsweredError):
            one.update(waiting[0].token, True)
        with pytest.raises(fc.DiscardedError, match="max_pending=3"):
            one.update(expired.token, True)


def test_many_restarts_keep_one_epoch_for_each_that_showed_something(tmp_path):
    policy = fc.UniformPairs(rng=1)
    tokens = []
    for t in range(40):
        if t % 4 == 0:
            tokens.append(policy.select(CONTEXTS[t]).token)
        policy = saved(policy, tmp_path)
    assert len(policy._pending.packed()["epochs"]) == 11  # the last of them has shown nothing yet
    for token in tokens:
        policy.update(token, True)
    assert policy.pending == 0


def test_numbers_drawn_and_not_used_are_used_after_a_restart(tmp_path):
    """A choice that failed has drawn its round's numbers: the stream goes neither back nor on."""
    policies = [fc.CoLSTIM(D, ridge=1.0, estimator="sgd", rng=1) for _ in range(3)]
    for restarts, policy in enumerate(policies):
        play(policy, 30, [])
        with failing_choices(policy), pytest.raises(ValueError, match="overflows"):
            policy.select(CONTEXTS[0])
        for _ in range(restarts):
            policies[restarts] = saved(policies[restarts], tmp_path)
        assert held(policies[restarts]) == held(policies[0]) and held(policy)["header"]["drawn_for"] == [N, D]
    told = [play(policy, 5, []) for policy in policies]
    assert told[0] == told[1] == told[2] and held(policies[0]) == held(policies[1]) == held(policies[2])


def test_names_of_features_and_keys_of_arms_come_back(tmp_path):
    pd = pytest.importorskip("pandas")
    policy = fc.CoLSTIM(D, ridge=1.0, rng=1)
    policy.select(pd.DataFrame(CONTEXTS[0], columns=["price", ("a", 1), 7]))
    again = saved(policy, tmp_path)
    assert again.feature_names == policy.feature_names == ("price", ("a", 1), 7)
    with pytest.raises(ValueError, match="lacks 'price'"):
        again.select(pd.DataFrame(CONTEXTS[1], columns=["prize", ("a", 1), 7]))
    policy = fc.CoLSTIM(D, ridge=1.0, rng=1)
    policy.select(pd.DataFrame(CONTEXTS[0], columns=pd.to_datetime(["2020", "2021", "2022"])))
    with pytest.raises(ValueError, match=r"_names is Timestamp.* a text, a number or a tuple is wanted"):
        policy.save(tmp_path / "policy.npz")


def test_a_policy_that_warned_does_not_warn_again(tmp_path):
    policy = fc.CoLSTIM(2, exploration_rounds=1, estimator="sgd", rng=1)
    same = [[1.0, 1.0], [2.0, 1.0]]
    for _ in range(4):
        policy.update(policy.select(same), True)
    with pytest.warns(UserWarning, match="still explores"):
        policy.select(same)
    again = saved(policy, tmp_path)
    for _ in range(20):
        again.update(again.select(same), True)


# --- the file -------------------------------------------------------------------------------------------------

AT_WORK = {"round": 1, "n_before": 0, "share": 1.0, "rater": None}
EVERY = ["n_arms", "feature_names", "largest", "entropy", "settled", "update_at_work", "noted"]
OF_LINEAR = [*EVERY, "looks", "unjustified", "warned_locked", "warned_concavity", "warned_long", "warned_singular",
             "warned_status"]  # fmt: skip
COUNTERS = ["chosen", "answered", "logged", "exploration_rounds", "enough", "known", "exploration_end", "factored",
            "untested", "position", "faded"]  # fmt: skip
PARTS = {
    "pending": ["discarded", "selves", "waiting", "contrasts", "keys", "sets", "set_features"],
    "learned": ["rounds", "rated", "raters"],
    "choices": ["features", "table"],
    "state": [*(f"counters.{name}" for name in COUNTERS), "gram", "factor"],
    "state.memory": ["theta", "learned", "squares", "extreme"],
}


KINDS = {cls: {} for cls, _ in (*LINEAR.values(), *SAMPLERS.values())}
KINDS |= {fc.SupCoLSTIM: {"horizon": HORIZON}, fc.StaD: {"horizon": HORIZON}, fc.UniformPairs: {}}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_has_the_names_that_are_declared_whatever_attributes_are_called(kind):
    """Typed here once more: to rename one is to change the format, and its number."""
    policy = kind(D, rng=1, **KINDS[kind])
    policy.select(CONTEXTS[0])
    header = held(policy)["header"]
    assert [*header] == [
        "fastcolst", "format", "policy", "code", "parameters", "fields", "own", "stream", "drawn_for", "pending"
    ]  # fmt: skip
    assert header["format"] == 2 and header["own"] == {}
    assert [*header["fields"]] == (OF_LINEAR if policy.has_estimate else EVERY)
    assert [*header["pending"]] == ["expired", "last"]  # tokens apart


def test_a_file_of_colstim_with_sgd_has_these_arrays(tmp_path):
    policy = fc.CoLSTIM(D, estimator="sgd", rng=1)
    policy.save(tmp_path / "policy.npz")
    with np.load(tmp_path / "policy.npz") as archive:
        assert archive.files == [
            "header",
            "drawn",
            *(f"{part}.{name}" for part, names in PARTS.items() for name in names),
        ]


def test_an_update_that_was_interrupted_is_in_the_file_by_names(tmp_path):
    policy = fc.CoLSTIM(D, ridge=1.0, rng=1)
    duel = policy.select(CONTEXTS[0])
    for after in range(100):
        if not interrupted(lambda: policy.update(duel, True, rater="ann"), after, {"policy.py", "answering.py"}):
            break
        fields = held(policy)["header"]["fields"]
        if fields["update_at_work"] is not None:
            assert fields["update_at_work"] == {"round": 1, "n_before": 0, "share": 1.0, "rater": "ann"}
            again = saved(policy, tmp_path)
            again.update(duel.token, True, rater="ann")
            assert again.history().raters == ("ann",) and again.pending == 0
            return
    pytest.fail("Ctrl-C never left an update at work")


def written(path: Path, change: Any) -> None:
    """Write a file again with a changed header."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive}
    header = json.loads(arrays["header"].tobytes())
    change(header)
    np.savez(path, **{**arrays, "header": np.frombuffer(json.dumps(header).encode(), np.uint8)})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda h: h.update(format=FORMAT_VERSION + 1, fastcolst="9.9"),
            f"format {FORMAT_VERSION + 1}, written by fastcolst 9.9; this fa",
        ),
        (lambda h: h.update(format="2"), "format '2'; this fastcolst reads format 2"),
        (lambda h: h.update(format=1), "format 1; this fastcolst reads format 2"),
        (lambda h: h.pop("format"), "its header has no 'format'"),
        (lambda h: h.pop("stream"), "its header has no 'stream'"),
        (lambda h: h.update(policy="Nobody"), "the class 'Nobody' is not known"),
        (lambda h: h.update(policy="sgd"), "no policy"),
        (lambda h: h.update(policy="subprocess:Popen"), "no policy"),
        (lambda h: h.update(policy="antigravity:Policy"), "importing antigravity before is wanted"),
        (lambda h: h["parameters"].update(estimator="antigravity:SGD"), "importing antigravity before is wanted"),
        (lambda h: h["parameters"].update(n_features=0), "n_features is 0"),
        (lambda h: h["parameters"].update(n_features=4), r"state.gram is float64 \(3, 3\)"),
        (lambda h: h["parameters"].update(n_features=30_000), "at most .* are wanted"),
        (lambda h: h["parameters"].update(ridge={"list": [{"array": [1.0], "dtype": "O"}]}), "ridge|label"),
        (lambda h: h["fields"].update(more=1), "its fields are not .* more: 1"),
        (lambda h: h["own"].update(_looks=1), "its fields are not .* _looks: 1"),
        (lambda h: h["fields"].pop("looks"), "its fields are not .* looks: None"),
        (lambda h: h["fields"].update(largest=float("nan")), "its fields are not .* largest: nan"),
        (lambda h: h["fields"].update(update_at_work={"tuple": [1, 0, 1.0, None]}), "update_at_work"),
        (lambda h: h["fields"].update(update_at_work={**AT_WORK, "round": "1"}), "its update at work is"),
        (lambda h: h["fields"].update(looks="2"), "looks: .2"),
        (lambda h: h["fields"].update(n_arms=-3), "n_arms is -3"),
        (lambda h: h["fields"].update(feature_names={"tuple": ["a", "b"]}), r"names: \('a', 'b'\)"),
        (lambda h: h["stream"].update(state=[1, 2, 3]), "cannot be loaded"),
        (lambda h: h["pending"].update(last=10**6), "its book counts 1000000 rounds"),
        (lambda h: h["pending"].update(first_rounds=[0]), "its epochs are"),
    ],
)
def test_what_a_header_may_not_say_is_refused_in_words(change, told, tmp_path):
    policy = fc.CoLSTIM(D, ridge=1.0, rng=1)
    policy.select(CONTEXTS[0])
    path = tmp_path / "policy.npz"
    policy.save(path)
    written(path, change)
    with pytest.raises(fc.FileFormatError, match=told) as raised:
        fc.load_policy(path)
    assert path.name in str(raised.value) and "antigravity" not in sys.modules


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("state.gram", lambda a: a[:2, :2].copy()),
        ("state.gram", lambda a: a * np.nan),
        ("state.memory.theta", lambda a: a + np.inf),
        ("state.memory.theta", lambda a: a.astype(np.float32)),
        ("state.counters.chosen", lambda a: a * 0 - 1),
        ("state.counters.factored", lambda a: a * 0 + 2),
        ("state.memory.history.size", lambda a: a + 512),
        ("state.memory.history.used", lambda a: a + 1),
        ("state.memory.history.owned", lambda a: a + 1),
        ("state.memory.history.owned", lambda a: a - 1),
        ("state.memory.history.blocks", lambda a: a[:, :-1].copy()),
        ("state.memory.history.blocks", lambda a: a * np.nan),
        ("state.memory.progress.status", lambda a: a * 0 + 9),
        ("pending.waiting", lambda a: a * 0),
        ("pending.waiting", lambda a: a + 50),
        ("pending.waiting", lambda a: a[:, :4].copy()),
        ("pending.contrasts", lambda a: a[1:].copy()),
        ("pending.contrasts", lambda a: a * np.nan),
        ("pending.discarded", lambda a: np.zeros(100, np.uint8)),
        ("pending.keys", lambda a: np.frombuffer(b"[1, 2]\n[1, 2]", np.uint8)),
        ("drawn", None),
    ],
)
def test_arrays_that_cannot_be_are_refused(name, change, tmp_path):
    policy = fc.CoLSTIM(D, ridge=1.0, rng=1)
    waiting: list[str] = []
    play(policy, 9, waiting)
    path = tmp_path / "policy.npz"
    policy.save(path)
    with np.load(path) as archive:
        arrays = {key: archive[key] for key in archive}
    if change is None:
        del arrays[name]
    else:
        arrays[name] = change(arrays[name])
    np.savez(path, **arrays)
    with pytest.raises(fc.FileFormatError, match=r"policy\.npz"):
        fc.load_policy(path)


@pytest.mark.parametrize(
    ("cls", "name", "value"),
    [
        (fc.DoubleThompson, "state.wins", -1.0),
        (fc.DoubleThompson, "state.chances", 1.5),
        (fc.DoubleThompson, "state.bars", -1),
        (fc.SelfSparring, "state.laws", -1.0),
        (fc.SelfSparring, "state.laws", np.inf),
        (fc.SupCoLSTIM, "state.taught", -1),
        (fc.SupCoLSTIM, "state.stale", 2),
        (fc.SupCoLSTIM, "state.later.memory.history", -1),
        (fc.SupCoLSTIM, "state.later.memory.theta", np.nan),
    ],
)
def test_states_of_other_policies_are_checked_as_well(cls, name, value, tmp_path):
    policy = cls(D, n_arms=N, rng=1, **({"horizon": HORIZON} if cls is fc.SupCoLSTIM else {}))
    path = tmp_path / "policy.npz"
    policy.save(path)
    with np.load(path) as archive:
        arrays = {key: archive[key] for key in archive}
    arrays[name if name in arrays else f"{name}.size"].flat[0] = value
    np.savez(path, **arrays)
    with pytest.raises(fc.FileFormatError, match=name):
        fc.load_policy(path)


def test_a_file_that_is_deflated_is_refused_before_memory_is_taken(tmp_path):
    policy = fc.CoLSTIM(D, ridge=1.0, rng=1)
    path = tmp_path / "policy.npz"
    policy.save(path)
    with np.load(path) as archive:
        np.savez_compressed(path, **{key: archive[key] for key in archive.files})
    with pytest.raises(fc.FileFormatError, match="is not stored"):
        fc.load_policy(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no policy", b"\x93NUMPY"])
def test_what_is_no_policy_is_one_error(content, tmp_path):
    path = tmp_path / "policy.npz"
    path.write_bytes(content)
    with pytest.raises(fc.FileFormatError, match=r"policy\.npz"):
        fc.load_policy(path)
    np.savez(path, a=[1])
    with pytest.raises(fc.FileFormatError, match=r"policy\.npz' is no policy of fastcolst"):
        fc.load_policy(path)
    with pytest.raises(FileNotFoundError):
        fc.load_policy(tmp_path / "none.npz")


def test_a_save_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    policy = fc.CoLSTIM(D, ridge=1.0, rng=1)
    path = tmp_path / "policy.npz"
    policy.save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    policy.select(CONTEXTS[0])
    with pytest.raises(OSError, match="No space left"):
        policy.save(path)
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == ["policy.npz"]
    with pytest.raises(ValueError, match="path is 3; a path is wanted"):
        policy.save(3)


def test_what_killed_processes_left_is_removed_a_day_later(tmp_path):
    policy, path, now = fc.CoLSTIM(D, ridge=1.0, rng=1), tmp_path / "policy.npz", time.time()
    names = {  # and how many hours ago each was written
        ".policy.npz.0123456789abcdef.tmp": 25,
        ".policy.npz.fedcba9876543210.tmp": 23,
        ".other.npz.0123456789abcdef.tmp": 25,
        ".policy_npz.0123456789abcdef.tmp": 25,
        ".policy.npz.0123456789abcdef.tmp.txt": 25,
        "mine.tmp": 25,
    }
    for name, age in names.items():
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (now - 3600 * age,) * 2)
    (tmp_path / ".policy.npz.00000000000000ff.tmp").mkdir()  # which cannot be removed
    os.utime(tmp_path / ".policy.npz.00000000000000ff.tmp", (0, 0))
    policy.save(path)
    left = {file.name for file in tmp_path.iterdir()}
    assert left == names.keys() - {".policy.npz.0123456789abcdef.tmp"} | {path.name, ".policy.npz.00000000000000ff.tmp"}
    fc.load_policy(path)


# --- classes of one's own -------------------------------------------------------------------------------------

OWN = """
from typing import NamedTuple
import numpy as np
import fastcolst as fc
from fastcolst import extend as ex

TWO = 2.0

@fc.register
class Cauchy(NamedTuple):
    scale: float = 1.0
    def cdf(self, u): return 0.5 + np.arctan(u / self.scale) / np.pi
    def pdf(self, u): return self.scale / (np.pi * (self.scale**2 + u**2))
    def raw(self, rng, size=None): return rng.random(size) if size is not None else rng.random()
    def perturb(self, value): return self.scale * np.tan(np.pi * (value - 0.5)) / TWO

class Mean(NamedTuple):
    theta: np.ndarray
    seen: np.ndarray

@fc.register
class Growing(NamedTuple):
    rate: float = 0.1
    def memory(self, n_features): return Mean(np.zeros(n_features), np.zeros((1, n_features)))
    def grown(self, memory, n):
        return memory._replace(seen=np.concatenate([memory.seen, np.zeros((n, memory.seen.shape[1]))]))
    def learn(self, model, memory, contrast, share, weight):
        if memory.seen[-1, 0] != 0.0:
            return 2
        place = 0
        while memory.seen[place, 0] != 0.0:
            place += 1
        for k in range(contrast.size):
            memory.seen[place, k] = contrast[k]
            memory.theta[k] += self.rate * (share - 0.5) * contrast[k]
        return 0

class Careful(fc.CoLSTIM):
    pass
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of one's own that can be imported, and edited."""
    # bytecode is taken for current while the source's size and second stay the same, which would hide an edit
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "own_classes.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("own_classes")
    sys.modules.pop("own_classes", None)


def test_models_estimators_and_policies_of_ones_own_come_back(own, tmp_path):
    settings = {"comparison": own.Cauchy(0.7), "perturbation": "own_classes:Cauchy", "estimator": own.Growing(0.2)}
    policy, stopped = (own.Careful(D, ridge=1.0, rng=1, **settings) for _ in range(2))
    for rounds in (5, 20):
        told = play(policy, rounds, waiting := [one.token for one in policy.pending_duels()])
        others = [one.token for one in stopped.pending_duels()]
        assert play(stopped, rounds, others) == told and len(waiting) == len(others)
        stopped = saved(stopped, tmp_path)
        assert type(stopped) is own.Careful and held(stopped) == held(policy)
    assert stopped.get_params() == policy.get_params()


def test_code_that_changed_is_refused_unless_it_is_accepted(own, tmp_path):
    policy = fc.CoLSTIM(D, ridge=1.0, comparison=own.Cauchy(0.7), rng=1)
    path = tmp_path / "policy.npz"
    policy.save(path)
    (tmp_path / "own_classes.py").write_text(OWN.replace("TWO = 2.0", "TWO = 2.5"))
    del sys.modules["own_classes"]
    with pytest.raises(fc.FileFormatError, match="own_classes:Cauchy is in no module that was imported"):
        fc.load_policy(path)
    importlib.invalidate_caches()
    importlib.import_module("own_classes")
    with pytest.raises(fc.FileFormatError, match=r"own_classes:Cauchy: [0-9a-f]{12}, now .* accept_changed_code=True"):
        fc.load_policy(path)
    assert fc.load_policy(path, accept_changed_code=True).round == 0


def test_a_class_that_no_other_process_would_find_is_refused_when_saved(tmp_path):
    class Local(fc.CoLSTIM):
        pass

    with pytest.raises(ValueError, match=r"Local is not found by this name .* a module of its own is wanted"):
        Local(D, rng=1).save(tmp_path / "policy.npz")
    code = """
        import fastcolst as fc
        class Mine(fc.CoLSTIM): pass
        try:
            Mine(3).save("policy.npz")
        except ValueError as error:
            print(error)
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(fc.__file__).parents[1])},
        check=False,
    )
    assert "the class __main__:Mine is not found" in process.stdout, process.stderr
    assert not list(tmp_path.iterdir())


def test_an_argument_that_no_file_can_hold_is_refused_when_saved(tmp_path):
    policy = fc.UniformPairs(rng=1)
    policy._parameters["n_arms"] = {1, 2}
    with pytest.raises(ValueError, match=r"n_arms is \{1, 2\}, which no file can hold"):
        policy.save(tmp_path / "policy.npz")


# --- without a file, and with threads ---------------------------------------------------------------------------


def test_contrasts_and_answers_that_were_kept_are_a_policy_as_well():
    """The recipe of the README: at the start, learn what was kept; the estimate is the same to its tolerance."""
    policy, rng = fc.CoLSTIM(D, ridge=1.0, rng=1), np.random.default_rng(2)
    kept = []
    for t in range(300):
        duel = policy.select(CONTEXTS[t])
        if not duel.is_self:
            won = bool(rng.random() < 0.5 + 0.4 * np.tanh(duel.contrast[0]))
            policy.update(duel, won)
            kept.append(duel.contrast if won else -duel.contrast)
    again = fc.CoLSTIM(D, ridge=1.0, rng=2)
    again.learn(kept, np.zeros((len(kept), D)))
    np.testing.assert_allclose(again.gram, policy.gram, rtol=1e-12)
    off = again.theta - policy.theta
    assert np.sqrt(off @ policy.gram @ off) < 0.02  # of a standard error and less: both keep to their tolerance


def test_eight_threads_save_while_others_answer(tmp_path):
    policy = fc.CoLSTIM(D, estimator="sgd", ridge=1.0, allow_self_duel=False, rng=1)

    def work(number):
        path = tmp_path / f"policy{number}.npz"
        for t in range(40):
            token = policy.select(CONTEXTS[t]).token
            if t % 4 == 0:
                policy.save(path)
                again = fc.load_policy(path)
                answered = int(again._state.counters["answered"])
                assert again.round == answered + again.pending
                again.update(token, True)
            policy.update(token, True)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert (policy.round, policy.pending) == (320, 0)
    before = snapshot(policy)
    assert snapshot(saved(policy, tmp_path)) == before


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        (fc.CoLSTIM, {"estimator": "mle"}, "state.memory.factor"),
        (fc.CoLSTIM, {"estimator": "mle"}, "state.memory.theta"),
        (fc.CoLSTIM, {"estimator": "online-newton"}, "state.memory.calibration.sizes"),
        (fc.Informative, {"repeats": False}, "state.shown.n_pairs"),
    ],
)
def test_an_array_that_does_not_grow_is_no_larger_in_a_file(kind, options, name, tmp_path):
    """Compiled code goes by the size of one array when it reads another."""
    policy = kind(D, rng=1, **options)
    policy.save(tmp_path / "policy.npz")
    with np.load(tmp_path / "policy.npz") as file:
        arrays = dict(file)
    found = next(full for full in arrays if full.endswith(name.removeprefix("state.")))
    arrays[found] = np.concatenate([arrays[found]] * 2)
    np.savez(tmp_path / "larger.npz", **arrays)
    with pytest.raises(fc.FileFormatError, match="is wanted"):
        fc.load_policy(tmp_path / "larger.npz")
