"""The digest of sources: an edit anywhere is noticed, however the package is packed."""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from sandbox import CLIMB, Sandbox

import fastcolst as fc
from fastcolst._compile import cache

HASHED = py_compile.PycInvalidationMode.UNCHECKED_HASH


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
            if os.path.isfile(os.path.join(self.folder, name, "__init__.pyc")):
                yield prefix + name, True
            elif name.endswith(".pyc") and name != "__init__.pyc":
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
@pytest.mark.parametrize(
    "pack", [_zip, _frozen, *(pytest.param(pack, marks=pytest.mark.slow) for pack in (_bytecode, _zip_of_bytecode))]
)
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
    sys.modules["tiny._compile.cache"].SOURCES = None
    with pytest.warns(RuntimeWarning, match="its sources cannot be seen"):
        assert module.climb(module.Hill(2.0), 3.0) == 7.0
    assert tiny.entries() == []


def test_modules_of_an_importer_that_hands_out_nothing_are_not_seen(monkeypatch):
    class Loader:
        def get_data(self, path: str) -> bytes:
            raise OSError

    spec = SimpleNamespace(name="fastcolst", loader=Loader(), origin=None, submodule_search_locations=[])
    monkeypatch.setattr(fc, "__spec__", spec)
    assert cache._digest_of_sources() is None
