"""Parts of kernels: linked as they were written."""

from __future__ import annotations

import gc
import operator
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core import event
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python as _nrt
from numba.core.runtime import rtsys
from numba.experimental import jitclass

import fastcolst as fc
from fastcolst._compile import helper, make_agent, plain, summation
from fastcolst._compile.flags import FLAGS, PART, PLAIN, WHOLE
from fastcolst.comparison import cdf
from fastcolst.kernels.linalg import dot
from fastcolst.policies import kernels, simulated


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
    return _part(x + y) + _part(y + x) + x + y + x + y + x + y


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
    assert numba.njit(**FLAGS, **WHOLE)(_sum_of_many)(1.0, 2.0) == 17.0
    assert searched[operator.add] == 1 and searched[_part] >= 2  # which is compiled, with the flags of its caller
    assert "resolve_function_type" not in vars(context)
    assert numba.njit(_sum_of_many)(1.0, 2.0) == 17.0
    assert searched[operator.add] > 2


class Holder(NamedTuple):
    """Two things."""

    values: Any
    more: Any


@helper
def _row_of(matrix: Any, i: int) -> Any:
    return matrix[i]


@helper
def _copied(matrix: Any, i: int) -> Any:
    return matrix[i].copy()


@numba.njit
def _users_rows(matrix: Any) -> Any:
    return matrix[1:]


def _looks(matrix: Any) -> float:
    held = Holder(matrix[1:], (matrix, 1.0))
    row = held.values[0] if held.more[1] > 0.0 else _row_of(held.more[0], 0)
    return row[1] + _row_of(matrix, 0)[0]


def _makes(matrix: Any) -> float:
    return (matrix[0] + 1.0)[1]


def _is_given_a_copy(matrix: Any) -> float:
    return _copied(matrix, 1)[1]


def _is_given_by_code_of_a_user(matrix: Any) -> float:
    return _users_rows(matrix)[0, 0]


def _lists(matrix: Any) -> float:
    rows = [matrix[0], matrix[1]]
    return rows[1][0]


def _returns(matrix: Any) -> Any:
    return matrix


def _returns_in_a_tuple(matrix: Any) -> Any:
    return 1.0, (matrix[1:], 2.0)


MATRIX = np.arange(6.0).reshape(2, 3)


@pytest.mark.jit
@pytest.mark.skipif(bool(PLAIN), reason=PLAIN)
@pytest.mark.parametrize("function", [_looks, _makes, _is_given_a_copy, _is_given_by_code_of_a_user, _lists])
@pytest.mark.parametrize("is_part", [False, True])
def test_only_kernels_that_own_nothing_go_without_counts_and_all_memory_is_given_back(function, is_part):
    @numba.njit(**FLAGS, **WHOLE)
    def of_parts(matrix: Any) -> float:
        return part(matrix)

    part = numba.njit(**FLAGS, **PART)(function)
    compiled = of_parts if is_part else numba.njit(**FLAGS, **WHOLE)(function)
    expected = function(MATRIX)
    assert compiled(MATRIX) == expected
    (signature,) = compiled.signatures
    library = compiled.overloads[signature].library
    assert library.owns == (function is not _looks)
    if not library.owns:
        assert "NRT_incref" not in library.get_llvm_str()
    with memory_in_use() as in_use:
        before, references = in_use(), sys.getrefcount(MATRIX)
        for _ in range(50):
            assert compiled(MATRIX) == expected
        assert in_use() == before
        assert sys.getrefcount(MATRIX) == references


@pytest.mark.jit
def test_parts_serve_functions_that_numba_compiles_for_users():
    looks = helper(_looks)

    @numba.njit
    def users(matrix: Any) -> Any:
        return _copied(matrix, 0), looks(matrix)

    users(MATRIX)
    with memory_in_use() as in_use:
        before = in_use()
        kept = [users(np.full((2, 3), float(i))) for i in range(50)]
        assert [(row.tolist(), total) for row, total in kept] == [([i] * 3, 2.0 * i) for i in range(50)]
        del kept
        assert in_use() == before


@pytest.mark.jit
@pytest.mark.parametrize("function", [_returns, _returns_in_a_tuple])
def test_an_array_that_a_kernel_returns_lives_as_long_as_somebody_has_it(function):
    compiled = numba.njit(**FLAGS, **WHOLE)(function)
    with memory_in_use() as in_use:
        compiled(np.ones((2, 3)))
        before = in_use()
        kept = [compiled(np.full((2, 3), float(i))) for i in range(50)]
        rows = kept if function is _returns else [row for _, (row, _) in kept]
        assert [row[-1, 2] for row in rows] == list(range(50))
        del kept, rows
        assert in_use() == before


LONG = "total = 0.5 * total + np.arctan(total) + np.sinh(0.1 * total) - np.tanh(total)"
"""Arithmetic that LLVM does not copy to each of a dozen calls."""


def _calls(seen: str) -> str:
    return " + ".join(f"row_of({seen}, {i % 2})[{i % 3}]" for i in range(12))


@pytest.mark.jit
@pytest.mark.parametrize("first", ["looks", "makes"])
def test_kernels_that_count_and_kernels_that_do_not_have_a_part_of_their_own_each(first):
    lines = "\n".join(f"        {LONG}" for _ in range(40))
    scope: dict[str, Any] = {"np": np}
    source = f"def row_of(matrix, i):\n    total = matrix[0, 0]\n    for _ in range(2):\n{lines}\n"
    exec(f"{source}    return matrix[i if total < 1e300 else 0]", scope)  # noqa: S102
    scope["row_of"] = helper(scope["row_of"])
    exec(f"def looks(matrix):\n    return {_calls('matrix')}", scope)  # noqa: S102
    exec(f"def makes(matrix):\n    made = matrix.copy()\n    return {_calls('made')}", scope)  # noqa: S102
    made = {name: numba.njit(**FLAGS, **WHOLE)(scope[name]) for name in ("looks", "makes")}
    made[first](MATRIX)
    with memory_in_use() as in_use:
        before = in_use()
        for _ in range(20):
            assert {kernel(MATRIX) for kernel in made.values()} == {MATRIX.sum() * 2.0}
        assert in_use() == before


def _puts(holder: Any, state: Any) -> None:
    holder.state = state


def _jitclass() -> Any:
    class Holder:
        def __init__(self, state: Any) -> None:
            self.state = state

    return jitclass([("state", numba.float64[::1])])(Holder)


@pytest.mark.jit
@pytest.mark.parametrize("kind", ["handle", "jitclass"])
def test_an_array_that_a_kernel_puts_into_an_object_lives_as_long_as_that(kind):
    compiled = numba.njit(**FLAGS, **WHOLE)(_puts)
    read = numba.njit(lambda holder: holder.state[2])
    zeros = np.zeros(3)
    holder = make_agent((1.0,), zeros, np.random.default_rng(0)) if kind == "handle" else _jitclass()(zeros)
    with memory_in_use() as in_use:
        for i in range(50):
            compiled(holder, np.full(3, float(i)))
            assert read(holder) == i
        before = in_use()
        compiled(holder, np.full(3, 50.0))
        assert read(holder) == 50.0
        assert in_use() == before


@pytest.mark.jit
@pytest.mark.skipif(bool(PLAIN), reason=PLAIN)
def test_simulated_rounds_count_no_references(monkeypatch):
    fresh = numba.njit(**FLAGS, **WHOLE)(kernels.play.py_func)
    monkeypatch.setattr(simulated, "play", fresh)
    scenario = fc.Scenario.hard(n_arms=4, n_features=3)
    fc.simulate({"policy": fc.CoLSTIM(3, estimator="sgd")}, scenario, horizon=20, rng=1, threads=1)
    (compiled,) = fresh.overloads.values()
    assert not compiled.library.owns
    assert "NRT_incref" not in compiled.library.get_llvm_str()


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


@contextmanager
def memory_in_use() -> Iterator[Callable[[], tuple[int, int]]]:
    """How many blocks of memory Numba's arrays have, and how many of them are referred to."""

    def in_use() -> tuple[int, int]:
        gc.collect()
        stats = rtsys.get_allocation_stats()
        return stats.alloc - stats.free, stats.mi_alloc - stats.mi_free

    counted = _nrt.memsys_stats_enabled()
    _nrt.memsys_enable_stats()
    try:
        yield in_use
    finally:
        if not counted:
            _nrt.memsys_disable_stats()


@pytest.mark.jit
def test_kernels_give_back_all_memory_and_no_more():
    with memory_in_use() as in_use:
        choose_and_learn(40)
        before = in_use()
        choose_and_learn(40)
        assert in_use() == before
