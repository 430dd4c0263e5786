"""The cache of compiled kernels, and the habits that keep kernels few and alike.

Processes that must begin with nothing in memory run in a sandbox: a copy of the package (or ``tiny``, a
package of a few lines on the same ``_compile.py``) and a cache folder of its own.
"""

from __future__ import annotations

import ast
import compileall
import copy
import gc
import hashlib
import importlib
import inspect
import json
import os
import pickle
import pkgutil
import py_compile
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import _nrt_python as _nrt
from numba.core.runtime import rtsys

import fastcolst as fc
from fastcolst import _compile
from fastcolst.comparison import cdf, log_cdf, score
from fastcolst.policies.state import LinearState

PACKAGE = Path(_compile.__file__).parent

# Two seeds for which a set of two flags prints in a different order: what is kept must not depend on it.
HASH_SEEDS = ("1", "4")

CHILD = """
import importlib, json, sys, warnings
package, code = sys.argv[1:]
names = {}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    _compile = importlib.import_module(package + "._compile")
    exec(code, names)
print(json.dumps({
    "answer": names.get("answer"),
    "hits": {k.__name__: sum(k.stats.cache_hits.values()) for k in _compile.KERNELS},
    "misses": {k.__name__: sum(k.stats.cache_misses.values()) for k in _compile.KERNELS},
    "warnings": [str(one.message) for one in caught],
    "info": _compile.cache_info(),
}))
"""

TINY = {
    "__init__.py": "",
    "helpers.py": """
from tiny._compile import helper

@helper
def offset():
    return 1.0
""",
    "kernels.py": """
from typing import NamedTuple

from tiny._compile import generic, kernel, register
from tiny.helpers import offset

@generic
def height(self, x):
    return x

@register
class Hill(NamedTuple):
    scale: float = 1.0

    def height(self, x):
        return self.scale * x

@kernel
def climb(hill, x):
    return height(hill, x) + offset()

@kernel
def entry(values, index):
    return values[index]
""",
}

HASHED = py_compile.PycInvalidationMode.UNCHECKED_HASH

CLIMB = "from tiny.kernels import Hill, climb; answer = climb(Hill(2.0), 3.0)"


class Sandbox:
    """A folder of modules, a cache folder, and processes that use both."""

    def __init__(self, folder: Path) -> None:
        self.modules = folder / "modules"
        self.cache = folder / "cache"
        self.modules.mkdir()

    def install(self) -> Sandbox:
        """Copy the package."""
        shutil.copytree(PACKAGE, self.modules / "fastcolst", ignore=shutil.ignore_patterns("__pycache__"))
        return self

    def install_tiny(self) -> Sandbox:
        """Write the package of a few lines."""
        folder = self.modules / "tiny"
        folder.mkdir()
        shutil.copy(PACKAGE / "_compile.py", folder)
        for name, text in TINY.items():
            (folder / name).write_text(text)
        return self

    def edit(self, module: str, old: str, new: str) -> None:
        """Change a source such that neither its size nor its time tells."""
        path = self.modules / module
        text, before = path.read_text(), path.stat()
        assert text.count(old) == 1
        assert len(old) == len(new)
        path.write_text(text.replace(old, new))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (path.stat().st_mtime_ns, path.stat().st_size) == (before.st_mtime_ns, before.st_size)

    def start(self, package: str, code: str, *, hash_seed: str = HASH_SEEDS[0], **environment: str | None) -> Any:
        """Start a process that runs the code; an environment variable of None is unset."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "PYTHON", "COV_"))}
        settings: dict[str, str | None] = {
            "PYTHONPATH": str(self.modules),
            "PYTHONDONTWRITEBYTECODE": "1",  # bytecode goes by size and time, which edits here leave alone
            "PYTHONHASHSEED": hash_seed,
            "NUMBA_CACHE_DIR": str(self.cache),
            **environment,
        }
        return subprocess.Popen(
            [sys.executable, "-c", CHILD, package, code],
            env=inherited | {name: value for name, value in settings.items() if value is not None},
            cwd=self.modules.parent,  # a folder that is searched before all others
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, package: str, code: str, **settings: Any) -> dict[str, Any]:
        """Run the code in a process: its ``answer``, cache hits and misses by kernel, and every warning."""
        return report(self.start(package, code, **settings))

    def files(self) -> dict[str, bytes]:
        """The content of the cache folder."""
        return {path.name: path.read_bytes() for path in self.cache.rglob("*") if path.is_file()}


def report(process: subprocess.Popen[str], message: str = "") -> dict[str, Any]:
    out, err = process.communicate(message, timeout=300)
    assert process.returncode == 0, err
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


class Tiny:
    """The package ``tiny`` in this process. Each ``load`` imports it anew, as a new process would."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox.install_tiny()

    def forget(self) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "tiny"]:
            del sys.modules[name]
        importlib.invalidate_caches()

    def load(self) -> ModuleType:
        self.forget()
        return importlib.import_module("tiny.kernels")

    def climb(self) -> tuple[float, bool]:
        """What ``climb`` gives in a new import, and whether it had to be compiled."""
        module = self.load()
        value = module.climb(module.Hill(2.0), 3.0)
        return value, bool(module.climb.stats.cache_misses)

    def entries(self) -> list[Path]:
        return sorted(self.sandbox.cache.rglob("*.nbc"))


@pytest.fixture
def tiny(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tiny]:
    monkeypatch.syspath_prepend(sandbox.modules)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(sandbox.cache))
    package = Tiny(sandbox)
    yield package
    package.forget()


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
    assert unused == {"learn_log", "solve", "_log_likelihood", "_add_information"}
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
    sandbox.edit("fastcolst/selection.py", "return first, second\n", "return second, first\n")
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
import fastcolst as fc
import user_model
policy = fc.CoLSTIM(2, comparison=user_model.Straight(), estimator="sgd")
policy._state.memory.theta[0] = 1.0
answer = policy.probability([1.0, 0.0], [0.0, 0.0])
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

    ours = fc.CoLSTIM(2, estimator="sgd")
    rule, state = ours._rule, ours._state
    types = numba.typeof
    assert _compile._is_ours((types(rule), types(state), types(1.0)))
    assert _compile._is_ours(numba.types.void(types(rule)))
    for users in (
        Model(),
        rule._replace(model=Model()),
        rule._replace(perturbation=Model()),
        rule._replace(estimator=fc.SGD()._replace(score=(1.0, Model()))),
        state._replace(memory=Memory(np.zeros(2))),
        (Model(), Model()),
    ):
        assert not _compile._is_ours((types(state.gram), types(users)))
        assert not _compile._is_ours(numba.types.void(types(users)))
    assert isinstance(state, LinearState)


# --- where the cache is -------------------------------------------------------------------------------------

NOWHERE = dict.fromkeys(["NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"])


@pytest.mark.jit
@pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="the place on Linux")
def test_the_default_place_is_the_users_own_and_nothing_lies_beside_the_sources(sandbox):
    home = sandbox.modules.parent / "home"
    home.mkdir()
    before = sorted(sandbox.install_tiny().modules.rglob("*"))
    mask = os.umask(0)  # who shares everything by default does not share this
    try:
        first = sandbox.run("tiny", CLIMB, **NOWHERE, HOME=str(home))
    finally:
        os.umask(mask)
    assert sandbox.run("tiny", CLIMB, **NOWHERE, HOME=str(home))["misses"]["climb"] == 0
    assert sorted(sandbox.modules.rglob("*")) == before  # an uninstaller removes what it knows, and leaves the rest
    created = {path.relative_to(home).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in home.rglob("*")}
    version = Path(first["info"]["path"]).relative_to(home).as_posix()
    (entry,) = [name for name in created if name.endswith(".nbc")]
    assert created == {".cache": 0o700, ".cache/tiny": 0o700, version: 0o700, entry: 0o600}
    assert Path(entry).parent == Path(version)


@pytest.mark.parametrize(
    ("platform", "environment", "place"),
    [
        ("linux", {}, "home/.cache/fastcolst"),
        ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/fastcolst"),
        ("linux", {"XDG_CACHE_HOME": "not/absolute"}, "home/.cache/fastcolst"),
        ("darwin", {"XDG_CACHE_HOME": "/xdg"}, "home/Library/Caches/fastcolst"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/fastcolst/Cache"),
        ("win32", {}, "home/AppData/Local/fastcolst/Cache"),
    ],
)
def test_the_place_on_each_system(monkeypatch, platform, environment, place):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("home"))
    for name in NOWHERE:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    assert _compile._place() == Path(place)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "mine")
    assert _compile._place() == Path("mine/fastcolst")


@pytest.mark.jit
def test_a_read_only_home_works_with_one_warning(sandbox):
    sandbox.install()
    (sandbox.modules / "file").write_text("a file: nobody, not even root, makes a folder here")
    home = str(sandbox.modules / "file" / "home")
    before = sorted(sandbox.modules.rglob("*"))
    code = """
import numpy as np
import fastcolst as fc
duel = fc.UniformPairs(rng=1).select(np.eye(4))
answer = [duel.first != duel.second, fc.CoLSTIM(2, estimator="sgd").probability([1.0, 0.0], [0.0, 1.0])]
"""
    nowhere = {"NUMBA_CACHE_DIR": None, "HOME": home, "XDG_CACHE_HOME": home, "LOCALAPPDATA": home}
    result = sandbox.run("fastcolst", code, **nowhere)
    assert result["answer"] == [True, 0.5]
    assert len(result["warnings"]) == 1
    assert "every process compiles them again" in result["warnings"][0]
    assert "Set NUMBA_CACHE_DIR to a writable folder of your own." in result["warnings"][0]
    assert result["info"] == {"path": None, "entries": 0, "bytes": 0}
    assert sorted(sandbox.modules.rglob("*")) == before


@pytest.mark.jit
def test_without_a_home_there_is_one_warning(tiny, monkeypatch):
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", fail)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.warns(RuntimeWarning, match=r"Could not determine home directory.*a writable folder of your own"):
        assert tiny.climb() == (7.0, True)


@pytest.mark.jit
def test_a_file_in_the_folders_place_costs_one_warning(tiny):
    module = tiny.load()
    tiny.sandbox.cache.write_text("a file in the folder's place")
    with pytest.warns(RuntimeWarning, match="cannot keep its compiled kernels"):
        assert module.climb(module.Hill(2.0), 3.0) == 7.0
    assert module.entry(np.arange(3.0), 2) == 2.0  # a second warning would be an error here


@pytest.mark.jit
def test_a_numba_of_unknown_insides_costs_one_warning(monkeypatch):
    monkeypatch.setattr(_compile, "_PackageCache", None)
    monkeypatch.setattr(_compile, "_WARNINGS", [])
    plain = numba.njit(inspect.unwrap(_cdf))
    plain.py_func.__module__, before = "fastcolst.tests", plain.py_func.__module__
    try:
        with pytest.warns(RuntimeWarning, match="Use a version of Numba that fastcolst was tested with"):
            _compile._attach_cache(plain)
    finally:
        plain.py_func.__module__ = before
    assert isinstance(plain._cache, NullCache)  # Numba's own would believe any file
    assert _compile.cache_info() == {"path": None, "entries": 0, "bytes": 0}


def test_kernels_of_others_are_not_cached():
    """The digest does not see their sources."""

    @_compile.kernel
    def foreign(x: float) -> float:
        return x

    assert _compile.KERNELS.pop() is foreign
    assert numba.config.DISABLE_JIT or isinstance(foreign._cache, NullCache)


# --- whom the cache believes --------------------------------------------------------------------------------

NOBODY = 65_534
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes")
as_root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")


class Planted:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.folder,)


def _as_link(entry: Path) -> None:
    entry.rename(entry.with_name("elsewhere"))
    entry.symlink_to(entry.with_name("elsewhere"))


UNTRUSTED: dict[str, Callable[[Path], None]] = {
    "file for all": lambda entry: entry.chmod(0o602),
    "file for the group": lambda entry: entry.chmod(0o620),
    "file, a link": _as_link,
    "folder for all": lambda entry: entry.parent.chmod(0o703),
    "folder for the group": lambda entry: entry.parent.chmod(0o770),
    "sticky folder for all": lambda entry: entry.parent.chmod(0o1777),
    "the versions' folder for all": lambda entry: entry.parents[1].chmod(0o777),
    "the folder that was named for all": lambda entry: entry.parents[2].chmod(0o777),
    "the folder that was named for the group": lambda entry: entry.parents[2].chmod(0o770),
}
GIVEN_AWAY: dict[str, Callable[[Path], None]] = {
    "file": lambda entry: os.chown(entry, NOBODY, NOBODY),
    "folder": lambda entry: os.chown(entry.parent, NOBODY, NOBODY),
    "the versions' folder": lambda entry: os.chown(entry.parents[1], NOBODY, NOBODY),
    "the folder that was named": lambda entry: os.chown(entry.parents[2], NOBODY, NOBODY),
}


@pytest.mark.jit
@pytest.mark.parametrize(
    "spoil",
    [
        *(pytest.param(spoil, id=name, marks=posix) for name, spoil in UNTRUSTED.items()),
        *(pytest.param(spoil, id=f"{name} of another user", marks=as_root) for name, spoil in GIVEN_AWAY.items()),
    ],
)
def test_what_others_may_have_planted_is_refused_with_one_warning(tiny, spoil: Callable[[Path], None]):
    assert tiny.climb() == (7.0, True)
    (entry,) = tiny.entries()
    ran = tiny.sandbox.modules / "ran"
    content = pickle.dumps(Planted(ran))
    entry.write_bytes(hashlib.sha256(content).digest() + content)
    spoil(entry)
    with pytest.warns(
        RuntimeWarning, match="cannot keep its compiled kernels .* a writable folder of your own"
    ) as caught:
        assert tiny.climb() == (7.0, True)
    assert len(caught) == 1
    assert not ran.exists()


@pytest.mark.jit
@posix
def test_folders_above_need_only_keep_others_from_renaming(tiny, monkeypatch):
    assert tiny.climb() == (7.0, True)
    tiny.sandbox.cache.chmod(0o1777)  # as /tmp
    assert tiny.climb() == (7.0, False)
    tiny.sandbox.cache.chmod(0o775)
    module = tiny.load()
    monkeypatch.setattr(sys.modules["tiny._compile"], "_is_private", lambda group: True)
    assert module.climb(module.Hill(2.0), 3.0) == 7.0
    assert not module.climb.stats.cache_misses
    # and nothing above the home is looked at
    tiny.sandbox.modules.parent.chmod(0o777)
    monkeypatch.setenv("HOME", str(tiny.sandbox.cache))
    tiny.sandbox.cache.chmod(0o700)
    assert tiny.climb() == (7.0, False)


@posix
@pytest.mark.parametrize(
    ("user", "group", "private"),
    [
        (("ada", 1000, 1000), ("ada", []), True),
        (("ada", 1000, 1000), ("ada", ["ada"]), True),
        (("ada", 1000, 1000), ("ada", ["bob"]), False),
        (("ada", 1000, 100), ("users", []), False),
        (("ada", 1000, 1001), ("ada", []), False),
        (("root", 0, 1000), ("root", []), False),
        (None, ("ada", []), False),
        (("ada", 1000, 1000), None, False),
    ],
)
def test_a_private_group_is_that_of_one_user(monkeypatch, user, group, private):
    import grp
    import pwd

    def found(names: list[str], values: Any) -> Any:
        if values is None:
            raise KeyError
        return SimpleNamespace(**dict(zip(names, values, strict=True)))

    monkeypatch.setattr(pwd, "getpwuid", lambda _: found(["pw_name", "pw_uid", "pw_gid"], user))
    monkeypatch.setattr(grp, "getgrgid", lambda _: found(["gr_name", "gr_mem"], group))
    assert _compile._is_private(1000) is private


@pytest.mark.jit
@posix
def test_what_root_made_may_be_read_and_what_another_user_made_may_not(tiny, monkeypatch):
    """An administrator fills a cache for everybody; here everybody is somebody with another number."""
    assert tiny.climb() == (7.0, True)
    of_root = os.geteuid() == 0
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    if of_root:
        assert tiny.climb() == (7.0, False)
    else:
        with pytest.warns(RuntimeWarning, match="belongs to another user"):
            assert tiny.climb() == (7.0, True)


@pytest.mark.jit
def test_a_full_disk_costs_one_warning_and_leaves_no_scraps(sandbox):
    pytest.importorskip("resource", reason="no limit on the size of files here")
    code = """
import resource
import numpy as np
from tiny.kernels import Hill, climb, entry
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
answer = [climb(Hill(2.0), 3.0), entry(np.arange(3.0), 2)]
"""
    result = sandbox.install_tiny().run("tiny", code)
    assert result["answer"] == [7.0, 2.0]
    assert len(result["warnings"]) == 1
    assert sandbox.files() == {}


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
    _compile._save_entry(path, "key", {"payload": 17})
    assert _compile._load_entry(path, "key") == {"payload": 17}
    content = path.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans(), label="truncate"):
        damaged = content[:place]
    else:
        damaged = content[:place] + bytes([content[place] ^ data.draw(st.integers(1, 255))]) + content[place + 1 :]
    path.write_bytes(damaged)
    assert _compile._load_entry(path, "key") is None


def test_an_entry_answers_to_its_own_key_only(tmp_path):
    path = tmp_path / "entry.nbc"
    assert _compile._load_entry(path, "one") is None
    _compile._save_entry(path, "one", 1)
    assert (_compile._load_entry(path, "one"), _compile._load_entry(path, "two")) == (1, None)


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


@pytest.mark.jit
def test_two_versions_keep_their_files_side_by_side(tiny):
    for _ in range(2):
        tiny.climb()
        tiny.sandbox.edit("tiny/helpers.py", "return 1.0", "return 3.0")
        tiny.climb()
        tiny.sandbox.edit("tiny/helpers.py", "return 3.0", "return 1.0")
    assert tiny.climb() == (7.0, False)
    assert len(tiny.entries()) == 2


@pytest.mark.jit
def test_edits_are_noticed_whatever_size_and_time_say(tiny):
    assert tiny.climb() == (7.0, True)
    tiny.sandbox.edit("tiny/helpers.py", "return 1.0", "return 3.0")
    assert tiny.climb() == (9.0, True)
    tiny.sandbox.edit("tiny/kernels.py", "self.scale * x", "self.scale + x")
    assert tiny.climb() == (8.0, True)
    assert tiny.climb() == (8.0, False)


def _zip(sandbox: Sandbox) -> str:
    """A zip archive of the sources."""
    return str(shutil.make_archive(str(sandbox.modules.parent / "sources"), "zip", sandbox.modules))


def _bytecode(sandbox: Sandbox) -> str:
    """A folder of bytecode without sources."""
    folder = sandbox.modules.parent / "bytecode"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sandbox.modules, folder)
    assert compileall.compile_dir(folder, legacy=True, quiet=1, invalidation_mode=HASHED)
    for source in folder.rglob("*.py"):
        source.unlink()
    return str(folder)


def _zip_of_bytecode(sandbox: Sandbox) -> str:
    return str(shutil.make_archive(str(sandbox.modules.parent / "bytecode"), "zip", _bytecode(sandbox)))


# As PyInstaller's: an importer of its own on the path, and modules that are files nowhere.
FREEZER = """
import marshal, os, sys
from importlib.machinery import ModuleSpec

class Finder:
    def __init__(self, path):
        self.folder = path.removesuffix(".frozen").replace(".frozen" + os.sep, os.sep)
        if ".frozen" not in path or not os.path.isdir(self.folder):
            raise ImportError
        self.path = path

    def find_spec(self, name, target=None):
        last = name.rpartition(".")[2]
        file, inner = (os.path.join(self.folder, last, x) for x in ("__init__.pyc", ""))
        package = os.path.isfile(file)
        if not package:
            file = os.path.join(self.folder, last + ".pyc")
            if not os.path.isfile(file):
                return None
        spec = ModuleSpec(name, Loader(file), origin="/frozen/" + name + ".pyc", is_package=package)
        if package:
            spec.submodule_search_locations = [os.path.join(self.path, last)]
        return spec

    def iter_modules(self, prefix=""):
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".pyc") and name != "__init__.pyc":
                yield prefix + name[:-4], False

class Loader:
    def __init__(self, file):
        self.file = file

    def create_module(self, spec):
        return None

    def get_code(self, name):
        with open(self.file, "rb") as file:
            return marshal.loads(file.read()[16:])

    def exec_module(self, module):
        exec(self.get_code(module.__name__), vars(module))

    def get_data(self, path):
        raise FileNotFoundError(path)

sys.path_hooks.insert(0, Finder)
sys.path_importer_cache.clear()  # of those that found nothing there
"""


def _frozen(sandbox: Sandbox) -> str:
    hook = sandbox.modules.parent / "hook"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(FREEZER)
    return f"{hook}{os.pathsep}{_bytecode(sandbox)}.frozen"


@pytest.mark.jit
@pytest.mark.parametrize("pack", [_zip, _bytecode, _zip_of_bytecode, _frozen])
def test_a_package_without_source_files_is_cached_and_never_stale(sandbox, pack: Callable[[Sandbox], str]):
    sandbox.install_tiny()
    # a constant set, whose order changes from process to process
    (sandbox.modules / "tiny" / "words.py").write_text("def f(x): return x in {'one', 'two', 'three', 'four'}\n")
    seen = []
    for _ in range(2):
        for hash_seed in ("1", "2"):
            result = sandbox.run("tiny", CLIMB, PYTHONPATH=pack(sandbox), hash_seed=hash_seed)
            seen.append((result["answer"], result["misses"]["climb"], result["warnings"]))
        sandbox.edit("tiny/helpers.py", "return 1.0", "return 3.0") if len(seen) == 2 else None
    assert seen == [(7.0, 1, []), (7.0, 0, []), (9.0, 1, []), (9.0, 0, [])]


@pytest.mark.jit
def test_sources_that_cannot_be_seen_cost_one_warning(tiny):
    module = tiny.load()
    sys.modules["tiny._compile"].SOURCES = None
    with pytest.warns(RuntimeWarning, match="its sources cannot be seen"):
        assert module.climb(module.Hill(2.0), 3.0) == 7.0
    assert tiny.entries() == []


def test_modules_of_an_importer_that_hands_out_nothing_are_not_seen(monkeypatch):
    class Loader:
        def get_data(self, path: str) -> bytes:
            raise OSError

    spec = SimpleNamespace(name="fastcolst", loader=Loader(), origin=None, submodule_search_locations=[])
    monkeypatch.setattr(fc, "__spec__", spec)
    assert _compile._digest_of_sources() is None


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


# --- one signature for each kernel --------------------------------------------------------------------------

CONTEXTS = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]])  # whole numbers, which every dtype can hold
SMALL_MODELS: dict[str, Any] = {"comparison": fc.BradleyTerry(1.0), "estimator": fc.SGD(0.5, 0.0, 1.0)}
CONSTANTS = {
    "ridge": 1.0,
    "width_scale": 1.0,
    "clip": 2.0,
    "coupling": 0.5,
    "horizon": 100,
    "exploration_rounds": 2,
}


def _read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def _unaligned(array: np.ndarray) -> np.ndarray:
    out = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


MESSY_ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "plain": lambda a: a.copy(),
    "list": lambda a: a.tolist(),
    "list of int": lambda a: a.astype(int).tolist(),
    "tuple of arrays": tuple,
    "float32": lambda a: a.astype(np.float32),
    "int64": lambda a: a.astype(np.int64),
    "object": lambda a: a.astype(object),
    "big-endian": lambda a: a.astype(">f8"),
    "Fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "read-only": _read_only,
    "unaligned": _unaligned,
    "subclass": lambda a: a.copy().view(np.ma.MaskedArray),
}
MESSY_ANSWERS = [True, False, 1, 0, 1.0, np.True_, np.False_, np.float64(1.0), np.int64(0), np.float32(1.0)]
MESSY_SETTINGS: dict[str, dict[str, Any]] = {
    "ints": {"ridge": 1, "width_scale": 1, "clip": 3, "coupling": 1},
    "float64": {
        "ridge": np.float64(1),
        "width_scale": np.float64(2),
        "clip": np.float64(3),
        "coupling": np.float64(0.5),
    },
    "float32": {
        "ridge": np.float32(1),
        "width_scale": np.float32(2),
        "clip": np.float32(3),
        "coupling": np.float32(0.5),
    },
    "int64": {
        "horizon": np.int64(50),
        "exploration_rounds": np.int64(2),
        "n_arms": np.int64(3),
        "clip": np.int8(2),
    },
    "whole floats": {"horizon": 50.0, "exploration_rounds": 2.0, "n_arms": 3.0},
    "none": dict.fromkeys(["width_scale", "clip", "coupling", "horizon", "exploration_rounds"]),
    "text": {"coupling": "theorem", "comparison": "bradley-terry", "estimator": "sgd"},
    "numpy bool": {"allow_self_duel": np.False_},
    "model of int": {"comparison": fc.BradleyTerry(1), "perturbation": fc.BradleyTerry(scale=2)},
    "model of float32": {
        "comparison": fc.BradleyTerry(np.float32(1)),
        "perturbation": fc.BradleyTerry(np.float64(1)),
    },
    "estimator of ints": {"estimator": fc.SGD(1, 0, 1)},
    "estimator of numpy": {"estimator": fc.SGD(np.float32(1), np.int64(0), np.float64(1))},
    "estimator of names": {"estimator": fc.SGD(radius=None, score="residual")},
    "exact, of ints": {"estimator": fc.MLE(ridge=1, radius=2)},
    "exact, of numpy": {"estimator": fc.MLE(np.float32(0.01), np.int64(1), np.float64(2), score="residual")},
    "replaced by ints": {
        "comparison": fc.BradleyTerry()._replace(scale=1),
        "perturbation": fc.BradleyTerry()._replace(scale=2),
        "estimator": fc.SGD()._replace(learning_rate=1, radius=None),
    },
    "generator": {"rng": np.random.default_rng(3)},
    "seed sequence": {"rng": np.random.SeedSequence(3)},
}


def signatures() -> dict[str, int]:
    return {kernel.__name__: len(kernel.signatures) for kernel in _compile.KERNELS}


def use(policy: fc.CoLSTIM, mess: Callable[[np.ndarray], Any], answers: list[Any], scenario: fc.Scenario) -> None:
    """Let every kernel run."""
    for answer in answers:
        duel = policy.select(mess(CONTEXTS))
        policy.update(duel, answer)
    policy.learn(mess(CONTEXTS), mess(CONTEXTS[::-1]))
    policy.learn_and_predict(mess(CONTEXTS), answers[:3])
    policy.probability(mess(CONTEXTS), mess(CONTEXTS[::-1]))
    policy.probability(mess(CONTEXTS[0]), mess(CONTEXTS[1]))
    fc.simulate({"policy": policy}, scenario, 5, rng=1)


@pytest.fixture(scope="module")
def used_cleanly() -> None:
    """Every kernel has run on clean input: contiguous float64 arrays, floats for floats."""
    array = fc.Scenario(theta=np.array([1.0, 0.5]), contexts=CONTEXTS, comparison=fc.BradleyTerry(1.0))
    ball = fc.Scenario(theta=np.array([1.0, 0.5]), n_arms=3, comparison=fc.BradleyTerry(1.0))
    for scenario in (array, ball):
        for estimator in (SMALL_MODELS["estimator"], fc.MLE()):
            models = {**SMALL_MODELS, "estimator": estimator}
            use(fc.CoLSTIM(2, n_arms=3, rng=1, **models, **CONSTANTS), np.copy, [True] * 3, scenario)
    fc.fit(np.array([[1.0, 0.5], [0.5, -1.0], [-1.0, 0.25]]), np.array([1.0, 0.0, 1.0]), ridge=1.0)
    assert min(signatures().values()) >= 1


@pytest.fixture
def clean(used_cleanly: None) -> dict[str, int]:
    """Signatures of each kernel before a test."""
    return signatures()


def scenario_of(mess: Callable[[np.ndarray], Any]) -> fc.Scenario:
    return fc.Scenario(theta=mess(CONTEXTS[2]), contexts=mess(CONTEXTS), comparison=fc.BradleyTerry(1))


@pytest.mark.jit
@pytest.mark.parametrize("mess", MESSY_ARRAYS.values(), ids=MESSY_ARRAYS.keys())
def test_messy_arrays_compile_nothing(clean, mess):
    policy = fc.CoLSTIM(2, n_arms=3, rng=1, **SMALL_MODELS, **CONSTANTS)
    use(policy, mess, [True] * 6, scenario_of(mess))
    use(copy.deepcopy(policy), mess, [True] * 3, scenario_of(mess))
    assert signatures() == clean


@pytest.mark.jit
def test_messy_answers_compile_nothing(clean):
    policy = fc.CoLSTIM(2, n_arms=3, rng=1, **SMALL_MODELS, **CONSTANTS)
    use(policy, np.copy, MESSY_ANSWERS, scenario_of(np.copy))
    assert signatures() == clean


@pytest.mark.jit
@pytest.mark.parametrize("settings", MESSY_SETTINGS.values(), ids=MESSY_SETTINGS.keys())
def test_messy_settings_compile_nothing(clean, settings):
    policy = fc.CoLSTIM(2, **{"rng": 1, **SMALL_MODELS, **CONSTANTS, **settings})
    use(policy, np.copy, [True] * 6, scenario_of(np.copy))
    assert signatures() == clean


@pytest.mark.jit
@pytest.mark.parametrize(("n_arms", "n_features"), [(1, 1), (1, 3), (3, 1)])
def test_axes_of_length_one_compile_nothing(clean, n_arms, n_features):
    """An axis of length 1 makes an array contiguous in both orders, and a transposed one too."""
    policy = fc.CoLSTIM(n_features, rng=1, **SMALL_MODELS, **CONSTANTS)
    contexts = np.asfortranarray(np.ones((n_arms, n_features)))
    policy.update(policy.select(contexts), True)
    policy.learn(contexts, np.zeros_like(contexts))
    policy.probability(contexts, contexts)
    fc.simulate({"policy": policy}, fc.Scenario(theta=np.ones(n_features), contexts=contexts), 3, rng=1)
    fc.simulate({"policy": policy}, fc.Scenario(theta=np.ones(n_features), n_arms=n_arms), 3, rng=1)
    assert signatures() == clean


# --- habits of the sources ----------------------------------------------------------------------------------


def modules_of_package() -> dict[str, ModuleType]:
    names = [info.name for info in pkgutil.walk_packages(fc.__path__, "fastcolst.")]
    return {name: importlib.import_module(name) for name in names if not name.endswith("__main__")}


def dispatchers() -> dict[str, Any]:
    """Every compiled function that the package's modules and classes hold, by name."""
    found = {}
    for module_name, module in modules_of_package().items():
        for name, value in vars(module).items():
            # a helper calls what it was compiled to
            one = inspect.getclosurevars(value).nonlocals.get("compiled") if inspect.isfunction(value) else value
            if isinstance(one, Dispatcher):
                found[f"{module_name}.{name}"] = one
            if isinstance(value, type) and value.__module__ == module_name:
                found |= {f"{module_name}.{name}.{k}": v for k, v in vars(value).items() if isinstance(v, Dispatcher)}
    return found


@pytest.mark.jit
def test_every_compiled_function_has_our_flags():
    found = dispatchers()
    assert len({id(one) for one in found.values()}) > 20
    for name, one in found.items():
        assert one.targetoptions == {**_compile.FLAGS, "nopython": True, "no_cfunc_wrapper": True}, name


@pytest.mark.jit
def test_what_is_only_linked_into_kernels_has_no_machine_code_of_its_own():
    assert _compile.PART["pipeline_class"] is _compile._PartCompiler
    part = numba.njit(**_compile.FLAGS, **_compile.PART)(inspect.unwrap(_cdf))
    types = (numba.typeof(fc.BradleyTerry()), numba.float64)
    part.compile(types)
    library = part.overloads[types].library
    assert isinstance(library, _compile._Linked)
    assert library.get_pointer_to_function(part.overloads[types].fndesc.llvm_func_name) == 0


def look(pair: Any, k: int) -> float:
    """Borrows: what it holds lies in its arguments."""
    total = 0.0
    for row in range(k):
        values = pair[0][row]
        both = (values, pair[1])
        total += values[k] + both[1][row, 0]
    return total


def fill(pair: Any, k: int) -> None:
    """Borrows: it stores numbers."""
    pair[0][k] = 1.0
    for j in range(k):
        pair[1][j, k] = look_inside(pair, k)


def pick_row(pair: Any, k: int) -> Any:
    """Returns an array."""
    return pair[0][k]


def copy_row(pair: Any, k: int) -> float:
    """Makes an array."""
    return pair[0][k].copy()[0]


def copy_rows(pair: Any, k: int) -> float:
    """Makes an array by an array of indices."""
    return pair[0][pair[1][:, 0] > k][0, 0]


def add_rows(pair: Any, k: int) -> float:
    """Makes an array by arithmetic."""
    return (pair[0][k] + pair[1][k])[0]


def keep_row(pair: Any, k: int) -> float:
    """Makes a list that holds an array."""
    rows = [pair[0][k]]
    return rows[0][0]


def ask_for_row(pair: Any, k: int) -> float:
    """Gets an array of a part that returns one."""
    return given_row(pair, k)[0]


look_inside, given_row = _compile.helper(look), _compile.helper(pick_row)


def count_letters(text: Any, k: int) -> int:
    """Makes strings: those of one letter."""
    n = 0
    for i in range(k):
        letter = text[i]
        n += letter == "a"
    return n


def half_of_list(rows: Any, k: int) -> float:
    """Makes a list."""
    half = rows[k:]
    return half[0][0, 0]


def put_into_list(rows: Any, k: int) -> None:
    """Keeps an array in a list."""
    rows[k] = rows[0]


MATRIX = numba.float64[:, ::1]
PAIR = numba.types.UniTuple(MATRIX, 2)


def counts_of_a_part(function: Callable[..., Any], module: str, holder: Any = PAIR) -> tuple[int, int]:
    """How often a function of the named module counts references up and down when it is linked into others."""
    function = FunctionType(function.__code__, function.__globals__)
    function.__module__ = module
    part = numba.njit(**_compile.FLAGS, **_compile.PART)(function)
    part.compile((holder, numba.int64))
    (compiled,) = part.overloads.values()
    code = compiled.library.get_llvm_str()
    return code.count("call void @NRT_incref"), code.count("call void @NRT_decref")


@pytest.mark.jit
@pytest.mark.parametrize("function", [look, fill])
def test_parts_count_no_references_to_what_they_borrow(function):
    assert counts_of_a_part(function, "fastcolst.somewhere")[0] == 0


@pytest.mark.jit
def test_parts_from_outside_the_package_count_references():
    assert counts_of_a_part(fill, "elsewhere")[0] > 0


@pytest.mark.jit
@pytest.mark.parametrize("function", [pick_row, copy_row, copy_rows, add_rows, keep_row, ask_for_row])
def test_parts_that_own_an_array_count_references(function):
    assert counts_of_a_part(function, "fastcolst.somewhere")[0] > 0


@pytest.mark.jit
@pytest.mark.parametrize(
    ("function", "holder"),
    [
        (count_letters, numba.types.unicode_type),
        (half_of_list, numba.types.List(MATRIX)),
        (put_into_list, numba.types.List(MATRIX)),
    ],
)
def test_parts_that_look_into_what_makes_things_count_references(function, holder):
    assert counts_of_a_part(function, "fastcolst.somewhere", holder) == counts_of_a_part(function, "elsewhere", holder)


def choose_and_learn(n_rounds: int) -> None:
    """Let policies with each kind of state choose and learn, here and in simulations, then drop them."""
    rng = np.random.default_rng(0)
    for policy in (
        *(fc.CoLSTIM(3, rng=1, estimator=estimator) for estimator in ("mle", "sgd", "online-newton")),
        *(fc.MaxInP(3, rng=1), fc.SupCoLSTIM(3, rng=1, horizon=1000), fc.DoubleThompson(3, n_arms=4, rng=1)),
    ):
        contexts = rng.normal(size=(4, 3))
        for _ in range(n_rounds):
            policy.update(policy.select(contexts), first_won=rng.random() < 0.5)
        scenario = fc.Scenario.hard(n_arms=4, n_features=3)
        fc.simulate({"policy": policy}, scenario, horizon=n_rounds, rng=1, threads=1)
    many = fc.CoLSTIM(17, rng=1)  # whose passes allocate
    contrasts = rng.normal(size=(1000, 17))
    many.learn_and_predict(contrasts, rng.random(1000) < 0.5)


@pytest.mark.jit
def test_kernels_give_back_all_memory_and_no_more():
    def in_use() -> tuple[int, int]:
        gc.collect()
        stats = rtsys.get_allocation_stats()
        return stats.alloc - stats.free, stats.mi_alloc - stats.mi_free

    counted = _nrt.memsys_stats_enabled()
    _nrt.memsys_enable_stats()
    try:
        choose_and_learn(40)
        before = in_use()
        choose_and_learn(40)
        assert in_use() == before
    finally:
        if not counted:
            _nrt.memsys_disable_stats()


@pytest.mark.jit
def test_kernels_are_cached_and_helpers_are_not():
    found = dispatchers().values()
    assert {id(kernel) for kernel in _compile.KERNELS} <= {id(one) for one in found}
    for one in found:
        is_kernel = any(one is kernel for kernel in _compile.KERNELS)
        assert isinstance(one._cache, _compile._PackageCache if is_kernel else NullCache), one.__name__


def numba_names(source: str) -> set[str]:
    """What a module uses of Numba: dotted names for attributes, modules that it imports from."""
    tree = ast.parse(source)
    aliases, used = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name == "numba":
                    aliases[name.asname or "numba"] = "numba"
                elif name.name.startswith("numba."):
                    used.add(name.name)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "numba":
            used |= {f"{node.module}.{name.name}" for name in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            used.add(f"numba.{node.attr}")
    return used


@pytest.mark.parametrize(
    ("source", "used"),
    [
        ("import numba\n@numba.njit(cache=True)\ndef f(): pass", {"numba.njit"}),
        ("import numba as nb\n@nb.vectorize\ndef f(): pass", {"numba.vectorize"}),
        ("def f():\n  from numba import njit as compiled", {"numba.njit"}),
        ("from numba.extending import overload", {"numba.extending.overload"}),
        ("import numba.extending", {"numba.extending"}),
        ("import numba\nprint(numba.__version__)", {"numba.__version__"}),
        ("from numbagg import njit", set()),
    ],
)
def test_the_scan_sees_what_a_module_uses_of_numba(source, used):
    assert numba_names(source) == used


def test_only_one_module_talks_to_the_compiler():
    harmless = {"numba.__version__", "numba.config"}
    used = {path.relative_to(PACKAGE).as_posix(): numba_names(path.read_text()) for path in PACKAGE.rglob("*.py")}
    assert "numba.njit" in used.pop("_compile.py")
    assert {name: names - harmless for name, names in used.items() if names - harmless} == {}


# --- generic functions --------------------------------------------------------------------------------------


@fc.register
class Lopsided(NamedTuple):
    """A model with the least a model may have."""

    slope: float = 0.25

    def cdf(self, u: Any) -> Any:
        return 0.5 + self.slope * u

    def pdf(self, u: Any) -> Any:
        return self.slope + 0.0 * u


class Stranger(NamedTuple):
    """Not registered; its field happens to be called like a generic function."""

    cdf: float = 7.0


class LikeAModel(NamedTuple):
    """Not registered, though it has the method."""

    slope: float = 1.0

    def cdf(self, u: Any) -> Any:
        return self.slope * u


@_compile.helper
def _three(model: Any, u: Any) -> Any:
    return cdf(model, u), log_cdf(model, u), score(model, u)


@_compile.helper
def _cdf_field(stranger: Any) -> Any:
    return stranger.cdf


@_compile.helper
def _cdf(model: Any, u: Any) -> Any:
    return cdf(model, u)


@pytest.mark.parametrize("call", [_three, inspect.unwrap(_three)], ids=["kernel", "python"])
def test_generic_functions_call_the_method_or_their_own_body(call):
    model = Lopsided(0.25)
    assert call(model, 1.0) == pytest.approx((0.75, np.log(0.75), 0.25 / 0.75))
    # a method of its own is preferred to the body: F underflows here, and the body would give log 0
    assert call(fc.BradleyTerry(), -800.0)[1] == -800.0


def test_generic_functions_keep_name_and_documentation():
    assert cdf.__name__ == "cdf"
    assert "probability" in cdf.__doc__


@pytest.mark.parametrize("cls", [fc.BradleyTerry, fc.Thurstone, fc.ExponentialNoise])
def test_generic_functions_without_method_or_body_say_so(cls):
    from fastcolst.problems import fill

    with pytest.raises(TypeError, match=f"{cls.__name__} has no method fill"):
        fill(cls(), None, None)


@pytest.mark.jit
@pytest.mark.parametrize("stranger", [Stranger(), LikeAModel(), (1.0, 2.0)], ids=["field", "method", "tuple"])
def test_kernels_refuse_what_is_not_registered(stranger):
    with pytest.raises(numba.TypingError):
        _cdf(stranger, 1.0)


def test_fields_of_foreign_tuples_are_theirs():
    assert _cdf_field(Stranger()) == 7.0


def test_methods_stay_plain_functions():
    for cls in _compile._REGISTERED:
        methods = [
            getattr(cls, name) for name, value in vars(cls).items() if not name.startswith("_") and callable(value)
        ]
        assert all(isinstance(method, FunctionType) for method in methods), cls


# --- register -----------------------------------------------------------------------------------------------


def _no_tuple() -> Any:
    class Plain:
        scale: float = 1.0

    return Plain


def _no_field() -> Any:
    class Empty(NamedTuple):
        pass

    return Empty


def _subclass() -> Any:
    class Sub(fc.BradleyTerry):
        pass

    return Sub


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (_no_tuple(), "derives from typing.NamedTuple"),
        (_no_field(), "Empty has no field"),
        (_subclass(), "derives from typing.NamedTuple"),
        (tuple, "derives from typing.NamedTuple"),
        (fc.BradleyTerry(), "derives from typing.NamedTuple"),
        (3, "derives from typing.NamedTuple"),
        ([], "derives from typing.NamedTuple"),
    ],
    ids=["class", "no field", "subclass", "tuple", "instance", "number", "unhashable"],
)
def test_register_refuses_what_kernels_cannot_take(wrong, message):
    with pytest.raises(TypeError, match=message):
        fc.register(wrong)
    assert not any(wrong is cls for cls in _compile._REGISTERED)


def test_registering_twice_changes_nothing():
    new = Lopsided.__new__
    assert fc.register(Lopsided) is Lopsided
    assert Lopsided.__new__ is new


@pytest.mark.parametrize("value", [1, True, np.float32(1), np.int8(1), np.array(1.0), "1"], ids=repr)
def test_float_fields_hold_floats(value):
    for instance in (Lopsided(value), Lopsided(slope=value), fc.BradleyTerry(value)):
        assert type(instance[0]) is float
        assert instance == (1.0,)


@pytest.mark.parametrize("value", ["one", None, [1.0], 1j], ids=repr)
def test_float_fields_refuse_what_is_no_number(value):
    with pytest.raises(ValueError, match=r"Lopsided: slope is .*; a number is wanted"):
        Lopsided(value)


def test_instances_are_converted_and_checked_again_at_the_door():
    """``_replace`` and a class that is registered only now went past the conversion."""

    class Late(NamedTuple):
        scale: float = 1.0

    late = _compile.registered(Late(2), "comparison")
    assert type(late) is Late
    assert type(late.scale) is float
    assert type(_compile.registered(fc.SGD()._replace(learning_rate=1), "estimator").learning_rate) is float
    with pytest.raises(ValueError, match=r"BradleyTerry: scale is -1.0"):
        _compile.registered(fc.BradleyTerry()._replace(scale=-1.0), "comparison")
    with pytest.raises(ValueError, match=r"estimator: register needs a class that derives from typing.NamedTuple"):
        _compile.registered(3.0, "estimator")


def test_a_plain_annotation_counts_too():
    """Without ``from __future__ import annotations`` the annotation is the class float itself."""
    Plain = NamedTuple("Plain", [("share", float), ("number", int)])  # noqa: UP014 (the class form hides float in text)
    plain = fc.register(Plain)(1, 2)
    assert [type(value) for value in plain] == [float, int]


def test_checked_is_called_for_every_way_to_build():
    @fc.register
    class Share(NamedTuple):
        value: float = 0.5
        doubled: float = 0.0

        def checked(self):
            if not 0.0 <= self.value <= 1.0:
                raise ValueError(f"Share: value is {self.value}")
            return self._replace(doubled=2.0 * self.value)

    assert Share() == (0.5, 1.0)
    assert Share(1) == (1.0, 2.0)
    for build in (lambda: Share(2), lambda: Share(value=-1), lambda: Share(*(2, 0))):
        with pytest.raises(ValueError, match="Share: value is"):
            build()


INSTANCES = [
    fc.SGD(),
    fc.SGD(0.1, 0.5, 2, "residual"),
    fc.BradleyTerry(2),
    fc.Thurstone(0.5),
    fc.ExponentialNoise(3),
]


@pytest.mark.parametrize("instance", INSTANCES, ids=repr)
def test_registered_tuples_survive_copies_and_pickles(instance):
    cls, fields = type(instance), instance._asdict()
    again = [copy.copy(instance), copy.deepcopy(instance), cls(*instance), cls(**fields)]
    again += [pickle.loads(pickle.dumps(instance, protocol)) for protocol in range(2, 6)]
    again += [instance._replace(), instance._replace(**fields)]
    again += [eval(repr(instance), vars(fc).copy())]  # noqa: S307 (our own repr)
    for other in again:
        assert other == instance
        assert type(other) is cls
        assert [type(value) for value in other] == [type(value) for value in instance]
        assert repr(other) == repr(instance)
        assert numba.typeof(other) == numba.typeof(instance)
