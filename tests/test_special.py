"""Special functions against forty digits, and in kernels the bits that they have in Python."""

from __future__ import annotations

import math

import mpmath
import numba
import numpy as np
import pytest

from fastcolst.kernels.special import erfcx, half_turn, log


@numba.njit
def logs(x, out):
    for i in range(x.size):
        out[i] = log(x[i])


@numba.njit
def half_turns(t, cosines, sines):
    for i in range(t.size):
        cosines[i], sines[i] = half_turn(t[i])


def positive():
    """Numbers of every size, many of them near 1, where the logarithm is small."""
    rng = np.random.default_rng(1)
    edges = [1.0, 2.0**-1022, np.finfo(float).max, math.sqrt(0.5), math.nextafter(math.sqrt(0.5), 0.0), math.sqrt(2.0)]
    near = 1.0 + np.concatenate([rng.uniform(-0.1, 0.1, 1_000), [2.0**-52, -(2.0**-53)]])
    return np.concatenate([edges, rng.random(3_000), 2.0 ** rng.uniform(-1022.0, 1023.0, 2_000), near])


def half_circle():
    rng = np.random.default_rng(2)
    return np.concatenate([[-0.5, 0.0, 0.5 - 2.0**-52, 2.0**-52], rng.uniform(-0.5, 0.5, 4_000)])


def test_the_logarithm_is_right_to_one_unit_in_the_last_place():
    x = positive()
    found = log(x)
    with mpmath.workdps(40):
        for value, result in zip(x, found, strict=True):
            exact = mpmath.log(mpmath.mpf(value))
            assert abs(mpmath.mpf(result) - exact) <= np.spacing(abs(float(exact)))
    assert log(1.0) == 0.0


def test_half_a_turn_is_right_to_sixteen_digits():
    t = half_circle()
    cosines, sines = half_turn(t)
    with mpmath.workdps(40):
        for value, cosine, sine in zip(t, cosines, sines, strict=True):
            angle = mpmath.pi * mpmath.mpf(value)
            assert abs(mpmath.mpf(cosine) - mpmath.cos(angle)) < 6e-16
            assert abs(mpmath.mpf(sine) - mpmath.sin(angle)) < 6e-16


@pytest.mark.jit
def test_kernels_have_the_bits_of_python():
    x, t = positive(), half_circle()
    out, cosines, sines = np.empty_like(x), np.empty_like(t), np.empty_like(t)
    logs(x, out)
    half_turns(t, cosines, sines)
    assert out.tobytes() == log(x).tobytes() == np.array([log(value) for value in x]).tobytes()
    assert [cosines.tobytes(), sines.tobytes()] == [part.tobytes() for part in half_turn(t)]


@pytest.mark.jit
def test_erfcx_of_arrays_compiles_nothing():
    with numba.core.event.install_recorder("numba:compile") as recorder:
        for shape in ((), (3,), (2, 3)):
            erfcx(np.ones(shape))
    assert not recorder.buffer
