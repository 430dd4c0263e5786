"""Instructions of the machine for which the subset of Python that Numba compiles has no word."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["leading_bits", "times_power_of_two"]


@intrinsic  # type: ignore[untyped-decorator]
def times_power_of_two(typing_context: Any, value: Any, power: Any) -> Any:
    """value * 2^power, for kernels; ``power`` is a whole number as a float. The result must be a normal number.

    The power is added to the exponent's bits, which takes no table and no branch, so that loops over it vectorise.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, bits = arguments[0].type, ir.IntType(64)
        # adding 1.5 * 2^52 puts a whole number into the lowest bits of a double
        shifted = builder.fadd(arguments[1], ir.Constant(number, 6755399441055744.0))
        exponent = builder.shl(builder.bitcast(shifted, bits), ir.Constant(bits, 52))
        return builder.bitcast(builder.add(builder.bitcast(arguments[0], bits), exponent), number)

    return types.float64(types.float64, types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def leading_bits(typing_context: Any, value: Any) -> Any:
    """The upper 32 bits of a positive number, its exponent and 20 bits of its fraction, as a whole number, for kernels.

    Loops over it vectorise, which those over all 64 bits do not on every machine.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], ir.IntType(64))
        upper = builder.trunc(builder.lshr(bits, ir.Constant(ir.IntType(64), 32)), ir.IntType(32))
        return builder.sitofp(upper, arguments[0].type)

    return types.float64(types.float64), generate
