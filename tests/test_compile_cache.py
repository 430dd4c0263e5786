"""The cache of compiled kernels: what a second process finds there, entries and versions on disk."""

from __future__ import annotations

import importlib
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
from fastcolst._compile import cache, digest
from fastcolst.policies.state import LinearState

# --- what the cache must give -------------------------------------------------------------------------------

USE_EVERYTHING = """
import sys
import numpy as np
import fastcolst as fc
policy = fc.CoLSTIM(2, ridge=1.0, rng=1, estimator="sgd")
duel = policy.select(np.eye(2))
policy.update(duel, True)
scenario = fc.Scenario.hard(n_arms=3, n_features=2)
result = fc.simulate({"random": fc.UniformPairs()}, scenario, 50, rng=1)
answer = [duel.first, duel.second, policy.probability([1.0, 0.0], [0.0, 1.0]),
          result.average_regret["random"].tolist(), policy.theta.tolist(), "numba.np.linalg" in sys.modules]
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
    of_bound_arms = {
        "draw_numbers",
        "first_contenders",
        "first_of",
        "follow",
        "rival_contenders",
        "second_of",
        "survey",
    }
    rare = {
        "learn_log",
        "gradient_and_information",
        "add_rows",
        "count_contrast",
        "fill_set",
        "fill_latent",
        "scale_of",
        "slopes_and_curvatures",
        "trust_of",
        "uncount_contrast",
    }
    assert unused == rare | of_bound_arms
    assert first["misses"]["choose"] == first["misses"]["learn_answer"] == first["misses"]["play"] == 1
    assert set(first["hits"].values()) == {0}
    assert second["misses"] == first["hits"]
    assert second["hits"] == first["misses"]
    assert second["answer"][:-1] == first["answer"][:-1]
    assert (first["answer"][-1], second["answer"][-1]) == (True, False)  # what can be compiled is not even looked up
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


# --- code of users ------------------------------------------------------------------------------------------

USER_CODE = """
from typing import NamedTuple
import numpy as np
import fastcolst as fc
from fastcolst.kernels.selection import random_pair
from fastcolst.policies.blind import BlindPolicy
from fastcolst.policies.protocol import Choice
from fastcolst.policies.state import BlindState
from user_helpers import SLOPE, step

@fc.register
class Straight(NamedTuple):
    offset: float = 0.5

    def cdf(self, u):
        return min(1.0, max(0.0, self.offset + SLOPE * u * 1.0))

    def pdf(self, u):
        return SLOPE

    def raw(self, rng, size=None):
        return rng.standard_normal(size)

    def perturb(self, value):
        return value

class Memory(NamedTuple):
    theta: np.ndarray

@fc.register
class Counting(NamedTuple):
    size: float = 1.0

    def memory(self, n_features):
        return Memory(np.zeros(n_features))

    def learn(self, model, memory, contrast, share, weight):
        memory.theta[0] += step(self.size)  # a step
        return 0

@fc.register
class Fixed(NamedTuple):
    second: int = 1

    def n_raw(self, n_arms):
        return 1

    def work_shape(self, n_arms, n_features):
        return 0, 0

    def select(self, state, contexts, raw, work):
        return Choice(0, self.second + 1, 0)

    def update(self, state, choice, contrast, share, weight):
        return 0

class FixedPairs(BlindPolicy):
    def __init__(self, n_features=None, *, n_arms=None, rng=None):
        super().__init__(locals())
        self._begin(Fixed(), BlindState.new())
"""
USER_HELPERS = """
import numba

SLOPE = 0.125

@numba.njit
def step(x):
    return 2.0 * x
"""
USE_USER_CODE = """
import fastcolst as fc
import numpy as np
import user_code
policy = fc.CoLSTIM(2, comparison=user_code.Straight(), estimator=user_code.Counting())
policy.update(policy.select(np.eye(3, 2)), True)
answer = [policy.probability([1.0, 0.0], [0.0, 0.0]), policy.theta[0], user_code.FixedPairs().select(np.eye(4)).second]
"""


@pytest.mark.jit
@pytest.mark.slow
def test_a_users_code_is_kept_until_it_changes(warm):
    sandbox, first = warm
    before = sandbox.files()
    (sandbox.modules / "user_code.py").write_text(USER_CODE)
    (sandbox.modules / "user_helpers.py").write_text(USER_HELPERS)

    def run() -> tuple[list[float], int]:
        result = sandbox.run("fastcolst", USE_USER_CODE, hash_seed=HASH_SEEDS[len(seen) % 2])
        assert result["warnings"] == []
        seen.append(result)
        return result["answer"], sum(result["misses"].values())

    seen: list[dict[str, Any]] = []
    answer, compiled = run()
    assert answer == [0.75, 2.0, 2] and compiled >= 5
    assert run() == (answer, 0)  # nothing at all
    sandbox.edit("user_code.py", "# a step", "# a pace")
    assert run() == (answer, 0)
    for module, old, new, edited in (
        ("user_code.py", "u * 1.0", "u * 0.5", [0.625, 2.0, 2]),
        ("user_helpers.py", "2.0 * x", "1.0 * x", [0.5625, 1.0, 2]),
        ("user_helpers.py", "SLOPE = 0.125", "SLOPE = 0.250", [0.625, 1.0, 2]),
        ("user_code.py", "self.second + 1", "self.second + 2", [0.625, 1.0, 3]),
    ):
        sandbox.edit(module, old, new)
        now, compiled = run()
        assert now == edited and 0 < compiled
        assert run() == (edited, 0)
    assert seen[-1]["info"]["entries"] == len(sandbox.files())

    (sandbox.modules / "user_code.py").unlink()  # a process that cannot import the user's file
    without = sandbox.run("fastcolst", USE_EVERYTHING)
    assert without["answer"][:-1] == first["answer"][:-1]
    assert set(without["misses"].values()) == {0}
    after = sandbox.files()
    assert {name: after[name] for name in before} == before
    assert not any(b"user_code" in content for content in before.values())


NAMESAKE = """
from typing import NamedTuple
from tiny._compile import register

@register
class Hill(NamedTuple):
    scale: float = 1.0

    def height(self, x):
        return self.scale * x * FACTOR
"""


CLIMB_EACH = """
from importlib import import_module
answer = []
models = [import_module(name).Hill(2.0) for name in ORDER]
for model in models:
    answer += [import_module("tiny.kernels").climb(model, 3.0), repr(model)]
"""


@pytest.mark.jit
def test_classes_of_one_name_and_the_same_fields_do_not_meet(sandbox):
    """Neither in a process, nor in the cache, nor with a class of the package."""
    sandbox.install_tiny()
    values = {"one": 13.0, "two": 19.0, "tiny.kernels": 7.0}
    for module, factor in (("one", 2.0), ("two", 3.0)):
        (sandbox.modules / f"{module}.py").write_text(f"FACTOR = {factor}\n{NAMESAKE}")
    for order, compiled in ((["one"], 1), (["two"], 1), (["one", "two", "tiny.kernels"], 2), (["two", "one"], 1)):
        code = CLIMB_EACH.replace("ORDER", repr(order))
        run = sandbox.run("tiny", code)
        assert run["misses"]["climb"] == compiled
        assert run["answer"] == [text for name in order for text in (values[name], "Hill(scale=2.0)")]
        again = sandbox.run("tiny", code)
        assert (again["answer"], again["misses"]["climb"]) == (run["answer"], 0)


AGAIN = """
from tiny.kernels import climb
from tiny._compile import register
from typing import NamedTuple
answer = []
for factor in (2.0, 3.0):
    exec(CELL.replace("FACTOR", str(factor)), globals())
    answer.append(climb(Hill(2.0), 3.0))
"""


@pytest.mark.jit
@pytest.mark.parametrize("name", ["__main__", "notebook"])
def test_a_class_of_a_notebook_is_compiled_for_each_run_of_its_cell_and_not_kept(sandbox, name):
    sandbox.install_tiny()
    code = f"__name__ = {name!r}\nCELL = {NAMESAKE!r}\n{AGAIN}"
    for _ in range(2):
        run = sandbox.run("tiny", code)
        assert (run["answer"], run["misses"]["climb"]) == ([13.0, 19.0], 2)
    assert sandbox.files() == {}


CLIMB_ONE = "import one; from tiny.kernels import climb; answer = climb(one.Hill(2.0), 3.0)"


@pytest.mark.jit
def test_a_module_that_is_loaded_again_or_changed_by_hand_is_not_kept(sandbox):
    sandbox.install_tiny()
    (sandbox.modules / "one.py").write_text(f"FACTOR = 2.0\n{NAMESAKE}")
    code = """
import importlib
from tiny.kernels import climb
import one
first = climb(one.Hill(2.0), 3.0)
one.FACTOR = 3.0
by_hand = climb(one.Hill(2.0), 3)
importlib.reload(one)
answer = [first, by_hand, climb(one.Hill(2.0), 3.0)]
"""
    run = sandbox.run("tiny", code)
    assert run["answer"] == [13.0, 19.0, 13.0]
    assert (run["misses"]["climb"], len(sandbox.files())) == (3, 1)
    assert (
        sandbox.run("tiny", "import one; from tiny.kernels import climb; answer = climb(one.Hill(2.0), 3.0)")["hits"][
            "climb"
        ]
        == 1
    )


@pytest.mark.jit
def test_old_code_of_users_is_removed_when_nobody_has_used_it_for_long(sandbox):
    sandbox.install_tiny()
    (sandbox.modules / "one.py").write_text(f"FACTOR = 2.0\n{NAMESAKE}")
    for factor, days in (("2.0", 31), ("3.0", 29), ("4.0", 29)):
        sandbox.run("tiny", CLIMB_ONE)
        for path in sandbox.cache.rglob("*.nbc"):
            if time.time() - path.stat().st_mtime < 86_400:
                os.utime(path, (time.time() - days * 86_400,) * 2)
        sandbox.edit("one.py", f"FACTOR = {factor}", f"FACTOR = {float(factor) + 1}")
    sandbox.run("tiny", CLIMB)
    assert len(sandbox.files()) == 3
    sandbox.edit("one.py", "FACTOR = 5.0", "FACTOR = 3.0")
    assert sandbox.run("tiny", CLIMB_ONE)["hits"]["climb"] == 1
    ages = [time.time() - path.stat().st_mtime for path in sandbox.cache.rglob("*.nbc")]
    assert sorted(age > 86_400 for age in ages) == [False, False, True]


@pytest.mark.jit
def test_a_users_class_is_found_at_any_depth(tmp_path, monkeypatch):
    (tmp_path / "some_classes.py").write_text(
        "from typing import NamedTuple\n"
        "class Model(NamedTuple):\n    scale: float = 1.0\n"
        "class Memory(NamedTuple):\n    theta: object\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    user = importlib.import_module("some_classes")
    users_code = digest.users_code
    ours = fc.CoLSTIM(2, estimator="sgd")
    rule, state = rule_of(ours), state_of(ours)
    types = numba.typeof
    assert users_code((types(rule), types(state), types(1.0))) == []
    assert users_code(numba.types.void(types(rule))) == []
    for users in (
        user.Model(),
        rule._replace(model=user.Model()),
        rule._replace(perturbation=user.Model()),
        rule._replace(estimator=fc.SGD()._replace(score=(1.0, user.Model()))),
        state._replace(memory=user.Memory(np.zeros(2))),
        (user.Model(), user.Model()),
    ):
        assert len(users_code((types(state.gram), types(users)))) == 1
        assert len(users_code(numba.types.void(types(users)))) == 1
    assert isinstance(state, LinearState)

    class Local(NamedTuple):
        scale: float = 1.0

    assert users_code((types(user.Model()), types(Local()))) is None


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
