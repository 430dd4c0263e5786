"""Vectors of random numbers for kernels: NumPy's own compiled loops, by which a Generator fills them for Python.

Kernels so draw the very numbers that Python draws, and nothing has to be compiled for it: Numba's
``rng.standard_exponential()`` takes 0.4 s, most of it for the text that names the method. The loops are functions of C
that NumPy's library exports for others to use (its manual, "Extending"). Where it does not, and with a Numba whose
internals are unknown, kernels draw one by one by the Generator's methods: the same numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fastcolst._compile.decorators import overload_in_kernels
from fastcolst._compile.flags import PLAIN

__all__ = ["fill_exponential", "fill_normal", "fill_uniform"]


def fill_uniform(rng: Any, out: Any) -> None:
    """Fill a vector (n,) float64 with uniforms in [0, 1)."""
    rng.random(out=out)


def fill_exponential(rng: Any, out: Any) -> None:
    """Fill a vector (n,) float64 with standard exponential variates."""
    rng.standard_exponential(out=out)


def fill_normal(rng: Any, out: Any) -> None:
    """Fill a vector (n,) float64 with standard normal variates."""
    rng.standard_normal(out=out)


def _one_by_one_uniform(rng: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = rng.random()


def _one_by_one_exponential(rng: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = rng.standard_exponential()


def _one_by_one_normal(rng: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = rng.standard_normal()


def _loop(name: str) -> Callable[[Any, Any], None] | None:
    """For kernels: NumPy's ``random_standard_<name>_fill(bit generator, n, out)``; None where nobody can call it."""
    if PLAIN:
        return None
    try:
        library = ctypes.CDLL(np.random._generator.__file__)
        function = getattr(library, f"random_standard_{name}_fill")
    except (AttributeError, OSError):
        return None
    symbol = f"fastcolst_fill_{name}"  # by which kernels of the cache find it in every process
    llvmlite.binding.add_symbol(symbol, ctypes.cast(function, ctypes.c_void_p).value)

    @intrinsic  # type: ignore[untyped-decorator]
    def fill(typing_context: Any, bit_generator: Any, out: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            held = context.make_helper(builder, bit_generator, arguments[0])
            word = held.state.type
            functions = held.fnptr_next_uint64, held.fnptr_next_uint32, held.fnptr_next_double
            fields = held.state, *functions, held.fnptr_next_uint64  # a `bitgen_t`, whose last is the raw word
            with builder.goto_entry_block():  # once, in loops as well
                generator = builder.alloca(ir.ArrayType(word, len(fields)))
            for i, field in enumerate(fields):
                builder.store(field, builder.gep(generator, [ir.Constant(word, 0), ir.Constant(word, i)]))
            vector = context.make_array(out)(context, builder, arguments[1])
            size = builder.extract_value(vector.shape, 0)
            kind = ir.FunctionType(ir.VoidType(), [generator.type, size.type, vector.data.type])
            function = builder.module.globals.get(symbol) or ir.Function(builder.module, kind, symbol)
            builder.call(function, [generator, size, vector.data])
            return context.get_dummy_value()

        return types.void(bit_generator, out), generate

    def loop(rng: Any, out: Any) -> None:
        fill(rng.bit_generator, out)

    return loop


def _draw_in_kernels(call: Callable[..., Any], name: str, one_by_one: Callable[..., Any]) -> None:
    loop = _loop(name)

    def chosen(rng: Any, out: Any) -> Callable[..., Any]:
        is_whole = out.dtype == types.float64 and out.ndim == 1 and out.layout == "C"
        return loop if loop is not None and is_whole else one_by_one

    overload_in_kernels(call, chosen)


_draw_in_kernels(fill_uniform, "uniform", _one_by_one_uniform)
_draw_in_kernels(fill_exponential, "exponential", _one_by_one_exponential)
_draw_in_kernels(fill_normal, "normal", _one_by_one_normal)
