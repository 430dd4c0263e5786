"""Every compiled function has our flags, and one folder alone talks to the compiler."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

import numba
import pytest
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher
from sandbox import CLIMB, PACKAGE

import fastcolst as fc
from fastcolst._compile import KERNELS, PLAIN, as_written, helper
from fastcolst._compile.flags import EXACT, FLAGS, TESTED_NUMBA, WHOLE


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
        options = {option: value for option, value in WHOLE.items() if option != "pipeline_class"}
        assert one.targetoptions == {**FLAGS, "nopython": True, **options}, name


@as_written
def product_and_sum(a, b, c):
    return a * b + c


@helper
def fused_or_not(a, b, c):
    return a * b + c


@pytest.mark.jit
def test_what_is_rounded_as_written_is_never_fused():
    """It differs from other code in this alone, and the machine code tells: (1 + e)(1 - e) - 1 is 0 or -e^2."""

    @numba.njit
    def as_python(a, b, c):
        return product_and_sum(a, b, c)

    @numba.njit
    def as_fast(a, b, c):
        return fused_or_not(a, b, c)

    e = 2.0**-30
    assert as_python(1.0 + e, 1.0 - e, -1.0) == product_and_sum(1.0 + e, 1.0 - e, -1.0) == 0.0
    fused = "vfmadd" in "".join(as_fast.inspect_asm().values()) if as_fast(1.0, 1.0, 1.0) else False
    assert as_fast(1.0 + e, 1.0 - e, -1.0) == (-(e**2) if fused else 0.0)
    assert {**EXACT, "fastmath": FLAGS["fastmath"], "forceinline": False} == FLAGS


@pytest.mark.jit
def test_kernels_are_cached_and_helpers_are_not():
    found = dispatchers().values()
    ours = {id(kernel) for kernel in KERNELS if kernel.__module__.startswith("fastcolst.")}  # and not those of tests
    assert ours <= {id(one) for one in found}
    for one in found:
        is_kernel = any(one is kernel for kernel in KERNELS)
        kind = "KernelCache" if is_kernel and not PLAIN else NullCache.__name__
        assert type(one._cache).__name__ == kind, one.__name__


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


@pytest.mark.either_lane
def test_only_one_folder_talks_to_the_compiler_and_one_module_calls_it():
    harmless = {"numba.__version__", "numba.config"}
    used = {path.relative_to(PACKAGE).as_posix(): numba_names(path.read_text()) for path in PACKAGE.rglob("*.py")}
    assert [name for name, names in used.items() if "numba.njit" in names] == ["_compile/decorators.py"]
    assert {name for name, names in used.items() if names - harmless and not name.startswith("_compile/")} == set()


# --- Numba's internals --------------------------------------------------------------------------------------


@pytest.mark.either_lane
def test_numbas_internals_are_used_in_two_modules_that_others_import_where_it_was_tested():
    used = {path.relative_to(PACKAGE).as_posix(): numba_names(path.read_text()) for path in PACKAGE.rglob("*.py")}
    internal = {name for name, names in used.items() if any(one.startswith("numba.core") for one in names)}
    assert internal == {"_compile/parts.py", "_compile/entries.py"}


def test_every_version_of_numba_whose_internals_are_used_has_a_lane():
    lanes = (PACKAGE.parent / "tox.ini").read_text()
    assert {version for version in TESTED_NUMBA if f"numba=={version}." in lanes} == set(TESTED_NUMBA)


PLAY = """
import numpy as np
import fastcolst as fc

policy = fc.CoLSTIM(3, rng=1, estimator="ESTIMATOR")
for contexts in np.random.default_rng(1).normal(size=(60, 5, 3)):
    duel = policy.select(contexts)
    policy.update(duel, bool(duel.contrast[0] > 0))
result = fc.simulate({"policy": policy}, fc.Scenario.hard(n_arms=5, n_features=3), 200, rng=1)
answer = [policy.theta.tobytes().hex(), result.average_regret["policy"].tobytes().hex()]
"""
INSIDE = """
import sys
from PACKAGE import _compile
kinds = {type(one._cache).__name__ for one in _compile.KERNELS}
options = {name for one in _compile.KERNELS for name in one.targetoptions}
inside = [name for name in ("parts", "entries") if f"PACKAGE._compile.{name}" in sys.modules]
answer = [answer, sorted(kinds), "no_cfunc_wrapper" in options, inside]
"""


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["sgd", "mle"])
def test_numba_compiles_to_the_same_bits_with_and_without_its_internals(sandbox, estimator):
    sandbox.install()
    code = PLAY.replace("ESTIMATOR", estimator) + INSIDE.replace("PACKAGE", "fastcolst")
    runs = [sandbox.run("fastcolst", code, FASTCOLST_PLAIN_NUMBA=switch) for switch in ("0", "1")]
    (usual, *used), (plain, *unused) = (run["answer"] for run in runs)
    assert plain == usual
    assert used == [["KernelCache"], True, ["parts", "entries"]]
    assert unused == [["NullCache"], False, []]
    assert [run["warnings"] for run in runs] == [[], []]
    assert runs[1]["info"] == {"path": None, "entries": 0, "bytes": 0}


@pytest.mark.jit
@pytest.mark.parametrize(("version", "tested"), [("0.68.9", True), ("0.680.0", False), ("0.99.0rc1", False)])
def test_the_internals_of_a_numba_that_was_not_tested_are_left_alone(sandbox, version, tested):
    sandbox.install_tiny()
    (sandbox.modules / "sitecustomize.py").write_text(f"import numba\nnumba.__version__ = {version!r}\n")
    for _ in range(2):
        run = sandbox.run("tiny", CLIMB + INSIDE.replace("PACKAGE", "tiny"))
        value, kinds, _, inside = run["answer"]
        assert (value, kinds, bool(inside)) == (7.0, ["KernelCache" if tested else "NullCache"], tested)
        assert [("none that fastcolst was tested with" in text) for text in run["warnings"]] == [True] * (not tested)
    assert len(sandbox.files()) == tested
