"""The door: what users hand in, checked once and turned into what kernels take.

A refusal is a ValueError that names the argument, shows what was found and says what is wanted. Objects may do anything
when they are looked at: compare as arrays, raise in ``__array__`` or in ``__repr__``. Whatever comes out of that is
refused like any other bad value, in our words.
"""

from __future__ import annotations

import functools
import math
import numbers
import os
import re
import reprlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import kernel

__all__ = [
    "answer",
    "answers",
    "brief",
    "choice",
    "contexts_array",
    "count",
    "counts",
    "feature_rows",
    "fits",
    "margins",
    "number",
    "path_text",
    "plain_text",
    "real_number",
    "real_numbers",
    "texts",
    "whole_number",
]

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
_KINDS = {
    "c": "complex numbers",
    "M": "dates",
    "m": "durations",
    "S": "bytes",
    "T": "texts",
    "U": "texts",
    "V": "records",
}
"""What arrays hold that are not made of real numbers, by the kind of their dtype."""


# --- words --------------------------------------------------------------------------------------------------

_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxother = _SHORT.maxstring = _SHORT.maxlong = 120


def brief(value: Any) -> str:
    """A value as messages show it: its repr on one line, cut where it is long; its class where that fails."""
    try:
        return re.sub(r"\s*\n\s*", " ", _SHORT.repr(value))
    except Exception:  # noqa: BLE001 - a repr of the caller's own may do anything
        return f"a {type(value).__name__} without a repr"


# --- scalars ------------------------------------------------------------------------------------------------


def whole_number(value: Any) -> int | None:
    """The int that a value is, a float without a fraction as well; None for all others, and for True and False."""
    try:
        if isinstance(value, (bool, np.bool_, np.timedelta64)):  # which are integers to Python, or to NumPy
            return None
        if isinstance(value, numbers.Integral) or (isinstance(value, float) and float.is_integer(value)):
            return int(value)
    except Exception:  # noqa: BLE001 - see the module's docstring
        return None
    return None


def count(name: str, value: Any, lowest: int = 1) -> int:
    """A whole number of at least ``lowest``."""
    whole = whole_number(value)
    if whole is None or not lowest <= whole < 2**62:
        limit = " and below 2^62" if whole is not None and whole >= 2**62 else ""
        raise ValueError(f"{name} is {brief(value)}; a whole number of at least {lowest}{limit} is wanted")
    return whole


def real_number(value: Any) -> float:
    """A real number as float, inf where it is beyond the largest; TypeError, or whatever it raises, for all others."""
    if isinstance(value, (bool, np.bool_, np.timedelta64)) or not isinstance(value, numbers.Real):
        raise TypeError("no real number")
    real: Any = value
    try:
        return float(real)
    except OverflowError:  # an integer or a fraction beyond the largest float
        return math.inf if real > 0 else -math.inf


def number(name: str, value: Any, *, positive: bool = False, infinite: bool = False) -> float:
    """A number that is not negative; with ``positive`` not zero; finite unless ``infinite``."""
    try:
        result = real_number(value)
    except Exception:  # noqa: BLE001 - see the module's docstring
        result = math.nan
    if not (result > 0.0 if positive else result >= 0.0) or (math.isinf(result) and not infinite):
        wanted = "positive" if positive else "non-negative"
        wanted += " number (inf allowed)" if infinite else " finite number"
        raise ValueError(f"{name} is {brief(value)}; a {wanted} is wanted")
    return result


def answer(value: Any, name: str = "first_won") -> bool:
    """Yes or no: True or 1, False or 0."""
    if value is True or value is False:
        return value
    try:
        if isinstance(value, (np.bool_, numbers.Real)) and value in (0, 1):
            return bool(value)
    except Exception:  # noqa: BLE001, S110 - see the module's docstring
        pass
    raise ValueError(f"{name} is {brief(value)}; True, False, 1 or 0 is wanted")


def plain_text(value: Any) -> str | None:
    """The text that a value is, as a str and no subclass of it; None for all others."""
    return str.__str__(value) if isinstance(value, str) else None


def choice(name: str, value: Any, known: Iterable[str], others: str = "") -> str:
    """One of the texts that are known; ``others`` says what else the argument may be."""
    text = plain_text(value)
    if text is None or text not in known:
        raise ValueError(f"{name} is {brief(value)}; {', '.join(map(repr, known))}{others} is wanted")
    return text


def texts(name: str, value: Any) -> tuple[str, ...]:
    """A sequence of texts; a text alone is none."""
    try:
        found = None if isinstance(value, (str, bytes)) else [plain_text(entry) for entry in value]
    except Exception:  # noqa: BLE001 - see the module's docstring
        found = None
    if found is None or None in found:
        raise ValueError(f"{name} is {brief(value)}; a list of texts is wanted")
    return tuple(found)  # type: ignore[arg-type]


def path_text(name: str, value: Any) -> str:
    """A path as a text; of what it leads to nothing is asked."""
    try:
        text = plain_text(os.fspath(value))
    except Exception:  # noqa: BLE001 - see the module's docstring
        text = None
    if text is None or not text or "\0" in text:
        raise ValueError(f"{name} is {brief(value)}; a path is wanted, as a text or a pathlib.Path")
    return text


@functools.cache
def _memory() -> int:
    """Bytes of memory that the machine has, and a terabyte where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 2**40


def fits(name: str, value: int, n_bytes: int) -> None:
    """Refuse a size for which the machine has too little memory.

    Before it is asked for: systems grant more than there is, and end the process that then uses it.
    """
    if n_bytes > _memory():
        raise ValueError(
            f"{name} is {value}; that takes {n_bytes / 1e9:,.3g} GB of memory, and at most the {_memory() / 1e9:,.3g} "
            "GB of this machine are possible"
        )


# --- arrays -------------------------------------------------------------------------------------------------


@kernel
def all_moderate(rows: Any, largest: float) -> bool:
    """True when every entry is finite and below ``largest`` in size. (m, d) float64; a tenth of np.isfinite's time."""
    bad = 0
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            bad += not abs(rows[i, k]) < largest
    return bad == 0


def feature_rows(
    name: str, value: Any, n_features: int | None, ndim: int = 2, largest: float = LARGEST
) -> NDArray[np.float64]:
    """A finite float64 array, features along its last axis, C-contiguous and writable: kernels see one type.

    The array is the caller's own when it is like that already; it is never modified.
    """
    shape = _SHAPES.get((name, ndim)) or _SHAPES["", ndim]
    if type(value) is not np.ndarray or value.dtype != _FLOAT64:
        value = real_numbers(name, value, shape)
    if value.ndim != ndim:
        raise ValueError(f"{name} has shape {value.shape}; {shape} is wanted")
    if 0 in value.shape:
        raise ValueError(f"{name} has shape {value.shape}; it must not be empty")
    if n_features is not None and value.shape[-1] != n_features:
        raise ValueError(f"{name} has {value.shape[-1]} features; this policy was built for n_features={n_features}")
    flags = value.flags
    if not (flags.c_contiguous and flags.aligned and flags.writeable):
        value = np.array(value, order="C")
    rows: NDArray[np.float64] = value
    if not all_moderate(rows if ndim == 2 else rows.reshape(-1, rows.shape[-1]), largest):
        _complain(name, rows)
    return rows


def contexts_array(
    value: Any, n_features: int | None, n_arms: int | None, largest: float = LARGEST
) -> NDArray[np.float64]:
    """Contexts as kernels take them, (n_arms, n_features)."""
    contexts = feature_rows("contexts", value, n_features, largest=largest)
    if n_arms is not None and contexts.shape[0] != n_arms:
        raise ValueError(f"contexts has {contexts.shape[0]} arms; this policy was built for n_arms={n_arms}")
    return contexts


def counts(name: str, value: Any, size: int) -> NDArray[np.float64]:
    """Numbers that are finite and not negative, (size,) float64."""
    array = real_numbers(name, value, f"({size},)")
    if array.shape != (size,):
        raise ValueError(f"{name} has shape {array.shape}; ({size},) is wanted, one for each row")
    bad = ~((array >= 0.0) & (array < math.inf))
    if bad.any():
        k = int(np.argmax(bad))
        raise ValueError(f"{name}[{k}] is {array[k]}; a finite number that is not negative is wanted")
    return array


def answers(name: str, value: Any, size: int) -> NDArray[np.bool_]:
    """True and False, or 1 and 0, (size,) bool: a copy."""
    wanted = f"({size},) of True and False, or 1 and 0, is wanted, one for each row of contrasts"
    array = as_array(name, value, "no array of answers", wanted)
    if array.shape != (size,):
        raise ValueError(f"{name} has shape {array.shape}; ({size},) is wanted, one for each row of contrasts")
    if array.dtype.kind == "b":
        return array.copy()
    if array.dtype.kind not in "iufO":
        raise ValueError(f"{name} has dtype {brief(array.dtype.str)}; {wanted}")
    return np.array([answer(entry, f"{name}[{i}]") for i, entry in enumerate(array.tolist())], np.bool_)


def real_numbers(name: str, value: Any, shape: str = "") -> NDArray[np.float64]:
    """Real numbers as a C-contiguous float64 array of one's own: of lists, float32, pandas, polars, torch and the like.

    ``shape`` is what messages say of the shape that is wanted. What is beyond float64 becomes inf, and what is missing
    nan.
    """
    what, wanted = "not an array of real numbers", f"{shape} is wanted" if shape else "real numbers are wanted"
    array = as_array(name, value, what, wanted)
    kind = array.dtype.kind
    if kind == "O":
        return _numbers_of_objects(name, array)
    if kind not in "biuf":
        raise ValueError(f"{name} is {what}: it holds {_KINDS[kind]} ({brief(array.dtype.str)}); {wanted}")
    with np.errstate(all="ignore"):  # longdouble beyond float64
        result: NDArray[np.float64] = np.array(array, dtype=np.float64, order="C")
    return result


def margins(value: Any) -> Any:
    """Differences of utilities, u: a float, or an array of any shape; nan and inf are such as well."""
    try:
        return real_number(value)
    except Exception:  # noqa: BLE001 - see the module's docstring
        return real_numbers("u", value, "a number or an array of numbers")[()]


def as_array(name: str, value: Any, what: str, wanted: str) -> NDArray[Any]:
    """What NumPy makes of a value, whatever its entries are; messages say what the value is not, and what is wanted."""
    array = None
    try:
        found = _unreadable(value)
        if not found:
            array = np.asarray(value.astype(np.float64).filled(np.nan) if np.ma.is_masked(value) else value)
    except Exception as error:  # noqa: BLE001 - see the module's docstring
        ragged = isinstance(value, (list, tuple)) and isinstance(error, ValueError)
        found = f"rows of different lengths in {brief(value)}" if ragged else brief(value)
    if array is None or (array.dtype.kind == "O" and array.ndim == 0):  # a generator, a set, whatever
        raise ValueError(f"{name} is {what}: {found or brief(value)}; {wanted}")
    return array


def _unreadable(value: Any) -> str:
    """What kind of thing a value is that NumPy would misread or not read, or nothing."""
    if isinstance(value, np.ndarray):
        return ""
    if hasattr(value, "toarray") and hasattr(value, "nnz"):
        return f"a sparse matrix, {brief(value)}, whose method toarray makes an array"
    if getattr(value, "requires_grad", False) is True:
        return "a tensor that tracks gradients, whose method detach gives one that does not"
    return "masked entries in a list" if _has_masked(value) else ""


def _has_masked(value: Any, depth: int = 3) -> bool:
    """Whether a list has NumPy's ``masked`` among its entries: of that NumPy makes nan, with a warning of its own."""
    if value is np.ma.masked:
        return True
    return depth > 0 and type(value) in (list, tuple) and any(_has_masked(entry, depth - 1) for entry in value)


def _numbers_of_objects(name: str, array: NDArray[Any]) -> NDArray[np.float64]:
    """The numbers that the entries of an array of objects are; nan for None."""
    result = np.empty(array.shape)
    for index in np.ndindex(array.shape):
        entry = array[index]
        try:
            result[index] = _number_of_object(entry)
        except Exception:  # noqa: BLE001 - see the module's docstring
            where = ", ".join(map(str, index))
            raise ValueError(f"{name}[{where}] is {brief(entry)}; a real number is wanted") from None
    return result


def _number_of_object(entry: Any) -> float:
    if entry is None:
        return math.nan
    if isinstance(entry, (str, bytes, bytearray, np.ndarray)):
        raise TypeError("no number, though NumPy may read one in it")
    if isinstance(entry, np.generic) and entry.dtype.kind not in "biuf":
        raise TypeError("a date, a complex number")
    try:
        return float(entry)
    except OverflowError:
        return math.inf


def _complain(name: str, value: NDArray[np.float64]) -> None:
    bad = np.argwhere(~np.isfinite(value))
    if len(bad):
        index = tuple(int(i) for i in bad[0])
        what = "score" if name == "scores" else "feature"
        raise ValueError(f"{name}[{', '.join(map(str, index))}] is {value[index]}; every {what} must be finite")
    raise ValueError(f"{name} has entries up to {np.abs(value).max():.3g}; features so large overflow: scale them down")
