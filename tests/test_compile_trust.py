"""Where the cache is, whom it believes, and the one warning where there can be none."""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.caching import NullCache
from sandbox import CLIMB, Planted

from fastcolst._compile import cache
from fastcolst._compile.decorators import KERNELS, kernel

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
    assert cache._place() == Path(place)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "mine")
    assert cache._place() == Path("mine/fastcolst")


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


def test_kernels_of_others_are_not_cached():
    """The digest does not see their sources."""

    @kernel
    def foreign(x: float) -> float:
        return x

    assert KERNELS.pop() is foreign
    assert numba.config.DISABLE_JIT or isinstance(foreign._cache, NullCache)


# --- whom the cache believes --------------------------------------------------------------------------------

NOBODY = 65_534
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes")
as_root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")


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
    monkeypatch.setattr(sys.modules["tiny._compile.cache"], "_is_private", lambda group: True)
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
    assert cache._is_private(1000) is private


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
