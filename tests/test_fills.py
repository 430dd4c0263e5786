"""Vectors of random numbers: kernels and Python draw the same ones, by NumPy's own loops or one by one."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import fastcolst as fc
from fastcolst._compile import PLAIN, fill_exponential, fill_normal, fill_uniform, fills, kernel

LAWS: dict[str, tuple[Any, str]] = {
    "uniform": (fill_uniform, "random"),
    "exponential": (fill_exponential, "standard_exponential"),
    "normal": (fill_normal, "standard_normal"),
}


@kernel
def uniform_twice(rng: Any, out: Any) -> None:
    """A part of a vector, and then the rest."""
    fill_uniform(rng, out[:2])
    fill_uniform(rng, out[2:])


@kernel
def exponential_twice(rng: Any, out: Any) -> None:
    """The same."""
    fill_exponential(rng, out[:2])
    fill_exponential(rng, out[2:])


@kernel
def normal_twice(rng: Any, out: Any) -> None:
    """The same."""
    fill_normal(rng, out[:2])
    fill_normal(rng, out[2:])


@kernel
def every_other(rng: Any, out: Any) -> None:
    """Numbers that do not lie side by side, which no loop of NumPy's may be given."""
    fill_exponential(rng, out[::2])


KERNELS = {"uniform": uniform_twice, "exponential": exponential_twice, "normal": normal_twice}


def generator() -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(1))


@pytest.mark.either_lane
@pytest.mark.parametrize("law", LAWS)
def test_kernels_and_python_draw_the_same_numbers_and_leave_the_same_stream(law: str) -> None:
    fill, method = LAWS[law]
    rngs, (theirs, ours, compiled) = [generator() for _ in range(3)], np.zeros((3, 5000))
    theirs[:] = getattr(rngs[0], method)(5000)  # rare branches of the tails as well
    fill(rngs[1], ours)
    KERNELS[law](rngs[2], compiled)
    assert theirs.tobytes() == ours.tobytes() == compiled.tobytes()
    assert len({repr(rng.bit_generator.state) for rng in rngs}) == 1


@pytest.mark.jit
def test_a_vector_with_gaps_is_filled_one_by_one() -> None:
    out = np.zeros(11)
    every_other(generator(), out)
    assert out[::2].tobytes() == generator().standard_exponential(6).tobytes() and not out[1::2].any()


@pytest.mark.skipif(bool(PLAIN), reason="Numba's internals are not used")
def test_where_numpy_exports_no_loops_kernels_draw_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fills._loop("normal") is not None
    monkeypatch.setattr(fills, "PLAIN", "a Numba that was not tested")
    assert fills._loop("normal") is None
    monkeypatch.undo()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert fills._loop("normal") is None


@pytest.mark.either_lane
@pytest.mark.parametrize("model", [fc.BradleyTerry(), fc.Thurstone(), fc.ExponentialNoise()])
def test_a_model_fills_a_vector_with_the_variates_that_it_draws_in_a_block(model: Any) -> None:
    out = np.zeros(50)
    model.fill_raw(generator(), out)
    assert out.tobytes() == model.raw(generator(), 50).tobytes()
