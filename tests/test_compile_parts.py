"""Parts of kernels: linked as they were written."""

from __future__ import annotations

import gc
import operator
from collections import Counter
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import event
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python as _nrt
from numba.core.runtime import rtsys

import fastcolst as fc
from fastcolst._compile import helper, plain, summation
from fastcolst._compile.flags import FLAGS, PART, PLAIN, WHOLE
from fastcolst.comparison import cdf
from fastcolst.kernels.linalg import dot


def _cdf(model: Any, u: Any) -> Any:
    return cdf(model, u)


@pytest.mark.jit
@pytest.mark.skipif(bool(PLAIN), reason=PLAIN)
def test_what_is_only_linked_into_kernels_has_no_machine_code_of_its_own():
    from fastcolst._compile import parts

    assert PART["pipeline_class"] is parts.PartCompiler
    part = numba.njit(**FLAGS, **PART)(_cdf)
    types = (numba.typeof(fc.BradleyTerry()), numba.float64)
    part.compile(types)
    library = part.overloads[types].library
    assert isinstance(library, parts._Linked)
    name = part.overloads[types].fndesc.llvm_func_name
    assert library.get_pointer_to_function(name) == 0
    assert not part.targetctx.codegen()._engine.is_symbol_defined(name)  # no call in this process may come upon it


def _doubled(values: Any) -> None:
    for i in range(values.size):
        values[i] *= 2.0


@summation
def _dot(a: Any, b: Any) -> float:
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@helper
def _square(a: Any) -> float:
    return _dot(a, a)


@numba.njit(fastmath=True)
def _users_sum(total: float, a: float) -> float:
    return total + a


def _scaled_by_square(values: Any) -> None:
    scale = _square(values)
    for i in range(values.size):
        values[i] *= scale


def _scaled_by_sum(values: Any) -> None:
    scale = 0.0
    for i in range(values.size):
        scale = _users_sum(scale, values[i])
    for i in range(values.size):
        values[i] *= scale


@pytest.mark.jit
@pytest.mark.skipif(bool(PLAIN), reason=PLAIN)
def test_loops_fill_the_widest_vectors_where_no_sum_is_reordered():
    def fills_512_bits(function: Any, **options: Any) -> bool:
        compiled = numba.njit(**{**FLAGS, **options})(function)
        compiled(np.ones(3))
        return "%zmm" in str(*compiled.inspect_asm().values())

    if fills_512_bits(_doubled) or "+avx512vbmi2" not in cpu_target.target_context.codegen().magic_tuple()[-1]:
        pytest.skip("a processor whose widest vectors LLVM fills by itself")
    assert fills_512_bits(_doubled, **WHOLE)
    assert not fills_512_bits(_scaled_by_square, **WHOLE)
    assert not fills_512_bits(_scaled_by_sum, **WHOLE)
    assert not fills_512_bits(_doubled, **WHOLE, fastmath=True)


class Compilations(event.Listener):
    """Counts how often functions are compiled, by their names."""

    def __init__(self) -> None:
        self.names: Counter[str] = Counter()

    def on_start(self, event: Any) -> None:
        self.names[event.data["dispatcher"].py_func.__name__] += 1

    def on_end(self, event: Any) -> None:
        pass


@helper
def _part(x: float) -> float:
    return x + 1.0


@helper
def _part_of_parts(x: float) -> float:
    return _part(x)


def _whole(x: float) -> float:
    return _part(x) + _part_of_parts(x)


@pytest.mark.jit
@pytest.mark.skipif(bool(PLAIN), reason=PLAIN)
def test_a_part_is_compiled_once_for_a_kernel_and_for_its_parts():
    counted = Compilations()
    event.register("numba:compile", counted)
    try:
        assert numba.njit(**FLAGS, **WHOLE)(_whole)(1.0) == 4.0
    finally:
        event.unregister("numba:compile", counted)
    assert counted.names == {"_whole": 1, "_part": 1, "_part_of_parts": 1}


def _with_a_closure(x: float, more: Any = None) -> float:
    def twice(y: float) -> float:
        return 2.0 * y

    return twice(x) if more is None else more + twice(x)


@pytest.mark.jit
@pytest.mark.skipif(bool(PLAIN), reason=PLAIN)
def test_passes_that_find_nothing_in_the_package_are_left_to_the_functions_of_users():
    def passes(function: Any, *arguments: Any) -> set[str]:
        compiled = numba.njit(**FLAGS, **WHOLE)(function)
        assert compiled(*arguments) == function(*arguments)
        (signature,) = compiled.signatures
        (times,) = compiled.get_metadata(signature)["pipeline_times"].values()
        return {name.partition("_")[2] for name in times}

    ours, theirs = passes(plain(dot), np.arange(3.0), np.arange(3.0)), passes(_with_a_closure, 1.5)
    assert ours < theirs
    assert {"inline_closure_likes", "dead_branch_prune", "with_lifting"} <= theirs - ours
    assert {"nopython_type_inference", "inline_overloads", "native_lowering"} <= ours


def _sum_of_many(x: float, y: float) -> float:
    return min(x + y, x) + min(y + x, y) + x + y + x + y + x + y


@pytest.mark.jit
@pytest.mark.skipif(bool(PLAIN), reason=PLAIN)
def test_what_an_operator_does_with_two_types_is_found_once(monkeypatch):
    from fastcolst._compile import parts

    context, searched = cpu_target.typing_context, Counter()
    search = type(context).resolve_function_type

    def counted(self: Any, function: Any, arguments: Any, keywords: Any) -> Any:
        searched[getattr(function, "typing_key", None)] += 1
        return search(self, function, arguments, keywords)

    monkeypatch.setattr(parts, "_SIGNATURES", {})
    monkeypatch.setattr(type(context), "resolve_function_type", counted)
    assert numba.njit(**FLAGS, **WHOLE)(_sum_of_many)(1.0, 2.0) == 12.0
    assert searched[operator.add] == 1 and searched[min] >= 2  # which is compiled, with the flags of its caller
    assert "resolve_function_type" not in vars(context)
    assert numba.njit(_sum_of_many)(1.0, 2.0) == 12.0
    assert searched[operator.add] > 2


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
