"""The cache of compiled kernels: what a second process finds there, entries and versions on disk."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside import rule_of, state_of
from sandbox import CLIMB, HASH_SEEDS, Sandbox, report

import fastcolst as fc
from fastcolst._compile import cache
from fastcolst.policies.state import LinearState

# --- what the cache must give -------------------------------------------------------------------------------

USE_EVERYTHING = """
import numpy as np
import fastcolst as fc
policy = fc.CoLSTIM(2, ridge=1.0, rng=1, estimator="sgd")
duel = policy.select(np.eye(2))
policy.update(duel, True)
scenario = fc.Scenario.hard(n_arms=3, n_features=2)
result = fc.simulate({"random": fc.UniformPairs()}, scenario, 50, rng=1)
answer = [duel.first, duel.second, policy.probability([1.0, 0.0], [0.0, 1.0]),
          result.average_regret["random"].tolist(), policy.theta.tolist()]
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sandbox, dict[str, Any]]:
    """An installed package after its first use, and the report of that."""
    sandbox = Sandbox(tmp_path_factory.mktemp("warm")).install()
    return sandbox, sandbox.run("fastcolst", USE_EVERYTHING)


@pytest.mark.jit
def test_a_second_process_compiles_nothing(warm):
    sandbox, first = warm
    second = sandbox.run("fastcolst", USE_EVERYTHING, hash_seed=HASH_SEEDS[1])
    unused = {name for name, misses in first["misses"].items() if misses == 0}
    assert unused == {"learn_log", "solve"}
    assert first["misses"]["choose"] == first["misses"]["learn_answer"] == first["misses"]["play"] == 1
    assert set(first["hits"].values()) == {0}
    assert second["misses"] == first["hits"]
    assert second["hits"] == first["misses"]
    assert second["answer"] == first["answer"]
    assert first["warnings"] == second["warnings"] == []
    assert second["info"]["entries"] == sum(second["hits"].values()) == len(sandbox.files())
    assert second["info"]["bytes"] == sum(map(len, sandbox.files().values()))


@pytest.mark.jit
def test_editing_a_helper_elsewhere_recompiles_its_callers(sandbox):
    code = """
import numpy as np
import fastcolst as fc
duel = fc.UniformPairs(rng=1).select(np.eye(4))
answer = [duel.first, duel.second]
"""
    first = sandbox.install().run("fastcolst", code)
    # the kernel is in policies/rounds.py, the rule in policies/uniform.py; a line of a helper changes
    sandbox.edit("fastcolst/kernels/selection.py", "return first, second\n", "return second, first\n")
    edited = sandbox.run("fastcolst", code)
    assert edited["answer"] == first["answer"][::-1]
    assert edited["misses"] == first["misses"]
    assert set(edited["hits"].values()) == {0}


USER_MODEL = """
from typing import NamedTuple
import fastcolst as fc

@fc.register
class Straight(NamedTuple):
    slope: float = 0.125

    def cdf(self, u):
        return min(1.0, max(0.0, 0.5 + self.slope * u * 1.0))

    def pdf(self, u):
        return self.slope

    def raw(self, rng, size=None):
        return rng.standard_normal(size)

    def perturb(self, value):
        return value
"""

USE_MODEL = """
import numpy as np
import user_model
from fastcolst.comparison import probabilities
out = np.empty(1)
probabilities(user_model.Straight(), np.ones(1), out)
answer = float(out[0])
"""


@pytest.mark.jit
def test_a_users_model_is_never_stale_and_never_in_the_way(warm):
    sandbox, first = warm
    before = sandbox.files()
    path = sandbox.modules / "user_model.py"
    path.write_text(USER_MODEL)
    assert sandbox.run("fastcolst", USE_MODEL)["answer"] == 0.625
    sandbox.edit("user_model.py", "* u * 1.0", "* u * 2.0")
    edited = sandbox.run("fastcolst", USE_MODEL)
    assert edited["answer"] == 0.75
    assert edited["misses"]["probabilities"] == 1
    assert edited["warnings"] == []

    path.unlink()  # a process that cannot import the user's file
    without = sandbox.run("fastcolst", USE_EVERYTHING)
    assert without["answer"] == first["answer"]
    assert set(without["misses"].values()) == {0}
    assert sandbox.files() == before
    assert not any(b"user_model" in content for content in before.values())


@pytest.mark.jit
def test_a_users_class_is_found_at_any_depth():
    class Model(NamedTuple):
        scale: float = 1.0

    class Memory(NamedTuple):
        theta: np.ndarray

    entries = pytest.importorskip("fastcolst._compile.entries")
    ours = fc.CoLSTIM(2, estimator="sgd")
    rule, state = rule_of(ours), state_of(ours)
    types = numba.typeof
    assert entries._is_ours((types(rule), types(state), types(1.0)))
    assert entries._is_ours(numba.types.void(types(rule)))
    for users in (
        Model(),
        rule._replace(model=Model()),
        rule._replace(perturbation=Model()),
        rule._replace(estimator=fc.SGD()._replace(score=(1.0, Model()))),
        state._replace(memory=Memory(np.zeros(2))),
        (Model(), Model()),
    ):
        assert not entries._is_ours((types(state.gram), types(users)))
        assert not entries._is_ours(numba.types.void(types(users)))
    assert isinstance(state, LinearState)


# --- entries on disk ----------------------------------------------------------------------------------------


@pytest.mark.jit
def test_six_processes_may_start_on_an_empty_cache_at_once(sandbox):
    sandbox.install_tiny()
    code = "import tiny.kernels; print('ready', flush=True); input(); " + CLIMB
    processes = [sandbox.start("tiny", code) for _ in range(6)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:  # all are past their imports: now they compile and save at the same time
        process.stdin.write("\n")
        process.stdin.flush()
    reports = [report(process) for process in processes]
    assert [one["answer"] for one in reports] == [7.0] * 6
    assert all(one["warnings"] == [] for one in reports)
    assert [Path(name).suffix for name in sandbox.files()] == [".nbc"]
    seventh = sandbox.run("tiny", CLIMB)
    assert (seventh["answer"], seventh["misses"]["climb"]) == (7.0, 0)


def _with_flipped_byte(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.jit
@pytest.mark.parametrize(
    "damage",
    [lambda content: content[: len(content) // 2], _with_flipped_byte, lambda content: b""],
    ids=["truncated", "flipped", "empty"],
)
def test_a_damaged_entry_is_compiled_again_silently(tiny, damage: Callable[[bytes], bytes]):
    assert tiny.climb() == (7.0, True)
    assert tiny.climb() == (7.0, False)
    (path,) = tiny.entries()
    path.write_bytes(damage(path.read_bytes()))
    assert tiny.climb() == (7.0, True)
    assert tiny.climb() == (7.0, False)


@given(data=st.data())
def test_any_damage_to_an_entry_makes_it_absent(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("entries") / "entry.nbc"
    cache._save_entry(path, "key", {"payload": 17})
    assert cache._load_entry(path, "key") == {"payload": 17}
    content = path.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans(), label="truncate"):
        damaged = content[:place]
    else:
        damaged = content[:place] + bytes([content[place] ^ data.draw(st.integers(1, 255))]) + content[place + 1 :]
    path.write_bytes(damaged)
    assert cache._load_entry(path, "key") is None


def test_an_entry_answers_to_its_own_key_only(tmp_path):
    path = tmp_path / "entry.nbc"
    assert cache._load_entry(path, "one") is None
    cache._save_entry(path, "one", 1)
    assert (cache._load_entry(path, "one"), cache._load_entry(path, "two")) == (1, None)


@pytest.mark.jit
def test_versions_that_nobody_uses_are_removed(tiny):
    place = tiny.sandbox.cache / "tiny"
    place.mkdir(mode=0o700, parents=True)
    names = {"0123456789ab": 31, "0123456789ac": 29, "notes": 400, "0123456789ad": 400}
    for name, days in names.items():
        (place / name).write_bytes(b"") if name == "0123456789ad" else (place / name).mkdir()
        os.utime(place / name, (time.time() - days * 86_400,) * 2)
    assert tiny.climb() == (7.0, True)
    (entry,) = tiny.entries()
    kept = {entry.parent.name, "0123456789ac", "notes", "0123456789ad"}  # a file and a stranger's folder are not ours
    assert {path.name for path in place.iterdir()} == kept


@pytest.mark.jit
def test_so_many_versions_are_kept(tiny):
    place = tiny.sandbox.cache / "tiny"
    place.mkdir(mode=0o700, parents=True)
    for age in range(30):
        (place / f"0123456789{age:02}").mkdir()
        os.utime(place / f"0123456789{age:02}", (time.time() - 3600 * (1 + age),) * 2)
    assert tiny.climb() == (7.0, True)
    (entry,) = tiny.entries()
    assert {path.name for path in place.iterdir()} == {entry.parent.name, *(f"0123456789{age:02}" for age in range(19))}


@pytest.mark.jit
@pytest.mark.parametrize(("hours", "noted"), [(1, False), (23, False), (25, True)])
def test_a_versions_folder_tells_the_day_of_its_last_use(tiny, hours, noted):
    assert tiny.climb() == (7.0, True)
    folder = tiny.entries()[0].parent
    before = time.time() - hours * 3600
    os.utime(folder, (before, before))
    assert tiny.climb() == (7.0, False)
    assert (folder.stat().st_mtime - before > 3600) is noted


# --- what is kept -------------------------------------------------------------------------------------------


@pytest.mark.jit
def test_bounds_checking_has_entries_of_its_own(sandbox):
    sandbox.install_tiny()
    code = """
import numpy as np
from tiny.kernels import entry
try:
    answer = entry(np.arange(4.0)[:2], 3)  # outside the slice, inside the array
except IndexError:
    answer = "IndexError"
"""
    seen = []
    for boundscheck, hash_seed in ((None, HASH_SEEDS[0]), ("1", HASH_SEEDS[0]), (None, HASH_SEEDS[1])):
        result = sandbox.run("tiny", code, hash_seed=hash_seed, NUMBA_BOUNDSCHECK=boundscheck)
        seen.append((result["answer"], result["misses"]["entry"]))
    assert seen == [(3.0, 1), ("IndexError", 1), (3.0, 0)]


@pytest.mark.jit
def test_cache_info_counts_this_versions_entries(tiny):
    module = tiny.load()
    cache_info = sys.modules["tiny._compile"].cache_info
    assert cache_info()["entries"] == 0
    module.climb(module.Hill(2.0), 3.0)
    (path,) = tiny.entries()
    assert cache_info() == {"path": str(path.parent), "entries": 1, "bytes": path.stat().st_size}
    older = path.parent.with_name("0123456789ab")
    older.mkdir()
    (older / path.name).write_bytes(b"older")
    assert cache_info()["entries"] == 1


@pytest.mark.jit
def test_the_contents_of_the_cache_are_told_and_removed(tiny):
    module = tiny.load()
    _compile = sys.modules["tiny._compile"]
    place, nothing = str(tiny.sandbox.cache / "tiny"), (0, 0)
    assert _compile.cache_contents() == (place, nothing, nothing)
    assert _compile.clear_cache() == (place, nothing)
    module.climb(module.Hill(2.0), 3.0)
    (entry,) = tiny.entries()
    older, stranger = entry.parent.with_name("0123456789ab"), entry.parent.with_name("notes")
    older.mkdir()
    (older / entry.name).write_bytes(b"older")
    stranger.write_bytes(b"not ours")
    size = entry.stat().st_size
    assert _compile.cache_contents() == (place, (1, size), (1, 5))
    assert _compile.clear_cache() == (place, (2, size + 5))
    assert _compile.cache_contents() == (place, nothing, nothing)
    assert list(Path(place).iterdir()) == [stranger]
    assert tiny.climb() == (7.0, True)


@pytest.mark.jit
@pytest.mark.parametrize("way", ["clear", "age"])
def test_what_is_not_ours_is_never_removed(tiny, way):
    """Not even where a folder is called as one of ours would be: a commit of somebody's, say."""
    place = tiny.sandbox.cache / "tiny"
    theirs, linked, elsewhere = place / "0123456789ab", place / "0123456789ac", tiny.sandbox.cache / "elsewhere"
    theirs.mkdir(mode=0o700, parents=True)
    elsewhere.mkdir()
    for folder in (theirs, elsewhere):
        (folder / "thesis.txt").write_text("years of work")
        (folder / "tiny.kernels.entry-0123456789abcdef.nbc").write_bytes(b"ours")
    linked.symlink_to(elsewhere)
    os.utime(theirs, (time.time() - 60 * 86_400,) * 2)
    module = tiny.load()
    if way == "age":
        module.climb(module.Hill(2.0), 3.0)
    else:
        sys.modules["tiny._compile"].clear_cache()
    assert [path.name for path in theirs.iterdir()] == ["thesis.txt"]
    assert len(list(elsewhere.iterdir())) == 2


@pytest.mark.jit
def test_a_cache_that_is_cleared_meanwhile_is_no_reason_to_warn(tiny, monkeypatch):
    module = tiny.load()
    cache = sys.modules["tiny._compile.cache"]
    save = cache._save_entry

    def cleared(*arguments):
        cache.clear_cache()
        save(*arguments)

    monkeypatch.setattr(cache, "_save_entry", cleared)
    module.climb(module.Hill(2.0), 3.0)  # a warning would be an error
    assert tiny.entries() == []
