"""The door: what users hand in, checked once and turned into what kernels take."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import kernel

__all__ = ["answer", "contexts_array", "count", "counts", "feature_rows", "number"]

LARGEST = 1e140
"""Features beyond this leave too little room for the sums of their squares times squared widths."""

_FLOAT64 = np.dtype(np.float64)
_SHAPES = {
    ("contexts", 2): "(n_arms, n_features)",
    ("scores", 2): "(m, n_arms)",
    ("", 1): "(n_features,)",
    ("", 2): "(m, n_features)",
    ("", 3): "(m, n_arms, n_features)",
}


@kernel
def all_moderate(rows: Any, largest: float) -> bool:
    """True when every entry is finite and below ``largest`` in size. (m, d) float64; a tenth of np.isfinite's time."""
    bad = 0
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            bad += not abs(rows[i, k]) < largest
    return bad == 0


def count(name: str, value: Any, lowest: int = 1) -> int:
    """A whole number of at least ``lowest``."""
    whole = isinstance(value, numbers.Integral) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, (bool, np.bool_)) or not whole or not lowest <= value < 2**62:
        limit = " and below 2^62" if whole and value >= 2**62 else ""
        raise ValueError(f"{name} is {value!r}; a whole number of at least {lowest}{limit} is wanted")
    return int(value)


def number(name: str, value: Any, *, positive: bool = False, infinite: bool = False) -> float:
    """A number that is not negative; with ``positive`` not zero; finite unless ``infinite``."""
    wanted = f"a {'positive' if positive else 'non-negative'} {'number (inf allowed)' if infinite else 'finite number'}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name} is {value!r}; {wanted} is wanted")
    try:
        result = float(value)
    except OverflowError:  # an integer beyond the largest float
        result = math.inf
    if not (result > 0.0 if positive else result >= 0.0) or (math.isinf(result) and not infinite):
        raise ValueError(f"{name} is {value!r}; {wanted} is wanted")
    return result


def answer(value: Any, name: str = "first_won") -> bool:
    """Yes or no: True or 1, False or 0."""
    if value is True or value is False:
        return value
    if isinstance(value, (np.bool_, numbers.Real)) and value in (0, 1):
        return bool(value)
    raise ValueError(f"{name} is {value!r}; True, False, 1 or 0 is wanted")


def feature_rows(
    name: str, value: Any, n_features: int | None, ndim: int = 2, largest: float = LARGEST
) -> NDArray[np.float64]:
    """A finite float64 array, features along its last axis, C-contiguous and writable: kernels see one type.

    The array is the caller's own when it is like that already; it is never modified.
    """
    if type(value) is not np.ndarray or value.dtype != _FLOAT64:
        value = _as_numbers(name, value)
    if value.ndim != ndim:
        shape = _SHAPES.get((name, ndim), _SHAPES["", ndim])
        raise ValueError(f"{name} has shape {value.shape}; {shape} is wanted")
    if 0 in value.shape:
        raise ValueError(f"{name} has shape {value.shape}; it must not be empty")
    if n_features is not None and value.shape[-1] != n_features:
        raise ValueError(f"{name} has {value.shape[-1]} features; this policy was built for n_features={n_features}")
    flags = value.flags
    if not (flags.c_contiguous and flags.aligned and flags.writeable):
        value = np.array(value, order="C")
    if not all_moderate(value if ndim == 2 else value.reshape(-1, value.shape[-1]), largest):
        _complain(name, value)
    return value


def counts(name: str, value: Any, size: int) -> NDArray[np.float64]:
    """Numbers that are finite and not negative, (size,) float64."""
    array = _as_numbers(name, value)
    if array.shape != (size,):
        raise ValueError(f"{name} has shape {array.shape}; ({size},) is wanted, one for each row")
    bad = ~((array >= 0.0) & (array < math.inf))
    if bad.any():
        k = int(np.argmax(bad))
        raise ValueError(f"{name}[{k}] is {array[k]}; a finite number that is not negative is wanted")
    return array


def contexts_array(
    value: Any, n_features: int | None, n_arms: int | None, largest: float = LARGEST
) -> NDArray[np.float64]:
    """Contexts as kernels take them, (n_arms, n_features)."""
    contexts = feature_rows("contexts", value, n_features, largest=largest)
    if n_arms is not None and contexts.shape[0] != n_arms:
        raise ValueError(f"contexts has {contexts.shape[0]} arms; this policy was built for n_arms={n_arms}")
    return contexts


def _as_numbers(name: str, value: Any) -> NDArray[np.float64]:
    """Convert lists, float32, pandas, polars, torch and the like; refuse what is not made of real numbers."""
    try:
        array = np.asarray(value.filled(np.nan) if isinstance(value, np.ma.MaskedArray) else value)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"dtype {array.dtype}")
        return np.array(array, dtype=np.float64, order="C")
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"{name} is not an array of real numbers: {error}") from None


def _complain(name: str, value: NDArray[np.float64]) -> None:
    bad = np.argwhere(~np.isfinite(value))
    if len(bad):
        index = tuple(int(i) for i in bad[0])
        what = "score" if name == "scores" else "feature"
        raise ValueError(f"{name}[{', '.join(map(str, index))}] is {value[index]}; every {what} must be finite")
    raise ValueError(f"{name} has entries up to {np.abs(value).max():.3g}; features so large overflow: scale them down")
