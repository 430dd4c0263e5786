"""Parts of kernels: linked as they were written, and no references counted to what they only borrow."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.runtime import _nrt_python as _nrt
from numba.core.runtime import rtsys

import fastcolst as fc
from fastcolst._compile import helper, parts
from fastcolst._compile.flags import FLAGS, PART
from fastcolst.comparison import cdf


def _cdf(model: Any, u: Any) -> Any:
    return cdf(model, u)


@pytest.mark.jit
def test_what_is_only_linked_into_kernels_has_no_machine_code_of_its_own():
    assert PART["pipeline_class"] is parts.PartCompiler
    part = numba.njit(**FLAGS, **PART)(_cdf)
    types = (numba.typeof(fc.BradleyTerry()), numba.float64)
    part.compile(types)
    library = part.overloads[types].library
    assert isinstance(library, parts._Linked)
    assert library.get_pointer_to_function(part.overloads[types].fndesc.llvm_func_name) == 0


@pytest.mark.jit
def test_a_numba_of_unknown_insides_compiles_parts_as_it_does(tiny, monkeypatch):
    with monkeypatch.context() as moved:
        moved.setitem(sys.modules, "numba.core.typed_passes", None)
        module = tiny.load()
    flags = sys.modules["tiny._compile.flags"]
    assert (flags.PART, flags.WHOLE) == ({}, {"no_cfunc_wrapper": True})
    assert module.climb(module.Hill(2.0), 3.0) == 7.0


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


look_inside, given_row = helper(look), helper(pick_row)


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
    part = numba.njit(**FLAGS, **PART)(function)
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
