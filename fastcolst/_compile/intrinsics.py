"""Instructions of the machine for which the subset of Python that Numba compiles has no word."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["times_power_of_two"]


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
