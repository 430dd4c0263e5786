"""Special functions that loops over them vectorise."""

from __future__ import annotations

from typing import Any

from fastcolst._compile import helper

__all__ = ["erfcx"]


@helper
def erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x) for x >= 0.

    (1 + 2x) erfcx(x) is a polynomial in (x - 3.75)/(x + 3.75), after Shepherd and Laframboise (1981): Chebyshev
    coefficients of degree 22 found with 60 digits, rewritten in powers. Relative error 3e-16 on [0, 1e8]. Written out,
    since a loop over coefficients would keep loops over it from vectorising.
    """
    y = 1.0 - 7.5 / (x + 3.75)  # not (x - 3.75)/(x + 3.75), which is nan at infinity
    p = -2.623107347133476e-09 * y - 1.9551358868985616e-09
    p = p * y + 3.197926671666804e-08
    p = p * y + 1.879082322370048e-08
    p = p * y - 2.4857126248016745e-07
    p = p * y - 5.084465378687302e-08
    p = p * y + 1.7419821586224816e-06
    p = p * y - 9.792625707303523e-07
    p = p * y - 1.1438048033346894e-05
    p = p * y + 2.2387565714911816e-05
    p = p * y + 5.164652974177416e-05
    p = p * y - 0.00029015535246077655
    p = p * y + 0.000293714378044958
    p = p * y + 0.0017556261651970652
    p = p * y - 0.009746579683265262
    p = p * y + 0.02836227737211114
    p = p * y - 0.05869339857664934
    p = p * y + 0.09230432116428125
    p = p * y - 0.10880393014244462
    p = p * y + 0.08227673848999506
    p = p * y + 0.0035854154854790257
    p = p * y - 0.14024059858554525
    p = p * y + 1.2375126308378275
    return p / (1.0 + 2.0 * x)
