"""Every compiled function has our flags, and one folder alone talks to the compiler."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

import pytest
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher
from sandbox import PACKAGE

import fastcolst as fc
from fastcolst._compile import KERNELS, cache
from fastcolst._compile.flags import FLAGS


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
        assert one.targetoptions == {**FLAGS, "nopython": True, "no_cfunc_wrapper": True}, name


@pytest.mark.jit
def test_kernels_are_cached_and_helpers_are_not():
    found = dispatchers().values()
    assert {id(kernel) for kernel in KERNELS} <= {id(one) for one in found}
    for one in found:
        is_kernel = any(one is kernel for kernel in KERNELS)
        assert isinstance(one._cache, cache._PackageCache if is_kernel else NullCache), one.__name__


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


def test_only_one_folder_talks_to_the_compiler_and_one_module_calls_it():
    harmless = {"numba.__version__", "numba.config"}
    used = {path.relative_to(PACKAGE).as_posix(): numba_names(path.read_text()) for path in PACKAGE.rglob("*.py")}
    assert [name for name, names in used.items() if "numba.njit" in names] == ["_compile/decorators.py"]
    assert {name for name, names in used.items() if names - harmless and not name.startswith("_compile/")} == set()
