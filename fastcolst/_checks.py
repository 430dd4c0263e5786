"""The door: what users hand in, checked once and turned into what kernels take.

A refusal is a ValueError that names the argument, shows what was found and says what is wanted. What does not bear a
look (see :func:`fastcolst._words.looked_at`) is refused like any other bad value.
"""

from __future__ import annotations

import math
import numbers
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fastcolst._files import machine_bytes
from fastcolst._words import brief, looked_at, plain_text, real_number, whole_number

__all__ = [
    "LARGEST",
    "all_moderate",
    "answer",
    "array_or_none",
    "as_array",
    "brief",
    "can_be_written",
    "check_generator",
    "check_memory",
    "choice",
    "contexts_array",
    "count",
    "entries",
    "feature_rows",
    "is_a",
    "looked_at",
    "margins",
    "memory_bound",
    "non_negative_numbers",
    "number",
    "outcome",
    "path_text",
    "plain_text",
    "positive_numbers",
    "real_number",
    "real_numbers",
    "sample_size",
    "shares",
    "texts",
    "whole_number",
]

LARGEST = 1e140
"""Features beyond this leave too little room for the sums of their squares times squared widths."""

LARGEST_WEIGHT = 1e70
"""The largest weight or number of trials: the square of the product of two of them is still finite."""

SMALLEST = math.ulp(0.0)
"""The smallest positive number."""

_FLOAT64 = np.dtype(np.float64)
_SHAPES = {1: "(n_features,)", 2: "(m, n_features)", 3: "(m, n_arms, n_features)"}
"""What messages say of the shape of so many axes, unless they are told better."""
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


# --- scalars ------------------------------------------------------------------------------------------------


def count(name: str, value: Any, lowest: int = 1) -> int:
    """A whole number of at least ``lowest``."""
    whole = whole_number(value)
    if whole is None or not lowest <= whole < 2**62:
        limit = " and below 2^62" if whole is not None and whole >= 2**62 else ""
        raise ValueError(f"{name} is {brief(value)}; a whole number of at least {lowest}{limit} is wanted")
    return whole


def number(name: str, value: Any, *, positive: bool = False, infinite: bool = False) -> float:
    """A number that is not negative; with ``positive`` not zero; finite unless ``infinite``."""
    result = looked_at(real_number, value, math.nan)
    if not (result > 0.0 if positive else result >= 0.0) or (math.isinf(result) and not infinite):
        wanted = "positive" if positive else "non-negative"
        wanted += " number (inf allowed)" if infinite else " finite number"
        raise ValueError(f"{name} is {brief(value)}; a {wanted} is wanted")
    return result


def answer(value: Any, name: str = "first_won") -> bool:
    """Yes or no: True or 1, False or 0."""
    if value is True or value is False:
        return value
    found = looked_at(_yes_or_no, value)
    if found is None:
        raise ValueError(f"{name} is {brief(value)}; True, False, 1 or 0 is wanted")
    return found


def _yes_or_no(value: Any) -> bool | None:
    return bool(value) if isinstance(value, (np.bool_, numbers.Real)) and value in (0, 1) else None


def outcome(value: Any, name: str = "first_won") -> float:
    """Whose win it was: 1.0 the first's, 0.0 the second's, 0.5 nobody's, a tie."""
    found = looked_at(_outcome, value)
    if found is None:
        raise ValueError(f"{name} is {brief(value)}; True, False, 1 or 0, or 0.5 for a tie, is wanted")
    return found


def _outcome(value: Any) -> float | None:
    return float(value) if isinstance(value, (np.bool_, numbers.Real)) and value in (0, 0.5, 1) else None


def choice(name: str, value: Any, known: Iterable[str], others: str = "") -> str:
    """One of the texts that are known; ``others`` says what else the argument may be."""
    text = plain_text(value)
    if text is None or text not in known:
        raise ValueError(f"{name} is {brief(value)}; {', '.join(map(repr, known))}{others} is wanted")
    return text


def texts(name: str, value: Any) -> tuple[str, ...]:
    """A sequence of texts; a text alone is none."""
    found = None if isinstance(value, (str, bytes)) else looked_at(list, value)
    plain = [None] if found is None else [plain_text(entry) for entry in found]
    if None in plain:
        raise ValueError(f"{name} is {brief(value)}; a list of texts is wanted")
    return tuple(plain)  # type: ignore[arg-type]


def is_a(kind: Any, value: Any) -> bool:
    """Whether a value is of a kind, perhaps a protocol, or of one of several; a class with its attributes is not."""
    return looked_at(lambda thing: isinstance(thing, kind) and not isinstance(thing, type), value, False)


def entries(name: str, table: Mapping[Any, Any], wanted: str = "a dict") -> dict[Any, Any]:
    """What a mapping holds, as a dict."""
    found = looked_at(lambda mapping: dict(mapping.items()), table)
    if found is None:
        raise ValueError(f"{name} is {brief(table)}; {wanted} is wanted")
    return found


def can_be_written(text: str) -> bool:
    """Whether a text can stand in a file, as UTF-8: half a character (a lone surrogate) cannot."""
    return looked_at(str.encode, text) is not None


def path_text(name: str, value: Any) -> str:
    """A path as a text; of what it leads to nothing is asked."""
    text = plain_text(looked_at(os.fspath, value))
    if not text or "\0" in text:
        raise ValueError(f"{name} is {brief(value)}; a path is wanted, as a text or a pathlib.Path")
    return text


_bound: ContextVar[int | None] = ContextVar("bound", default=None)


@contextmanager
def memory_bound(n_bytes: int) -> Iterator[None]:
    """Let :func:`check_memory` grant this thread no more, while what other people's file claims is built."""
    token = _bound.set(n_bytes)
    try:
        yield
    finally:
        _bound.reset(token)


def check_memory(name: str, value: int, n_bytes: int) -> None:
    """Refuse a size that takes more than half of the machine's memory, or than 1 TiB where that is not known.

    The check comes before memory is asked for: systems grant more than they have, and kill the process that then uses
    it. Half of it, since snapshots copy arrays. Within :func:`memory_bound` that bound holds as well.
    """
    told = _bound.get()
    if told is not None and n_bytes > told:
        raise ValueError(f"{name} is {value}; that takes {n_bytes:,} bytes, and at most {told:,} are wanted")
    total = machine_bytes()
    most, why = (2**40, "") if total is None else (total // 2, ", half of what this machine has,")
    if n_bytes > most:
        sizes = [f"{n / 1e9:,.0f}" if n >= 1e11 else f"{n / 1e9:.3g}" for n in (n_bytes, most)]
        raise ValueError(
            f"{name} is {value}; that takes {sizes[0]} GB of memory, and at most {sizes[1]} GB{why} are wanted"
        )


def check_generator(rng: Any) -> Generator:
    """A NumPy Generator to draw from; ValueError otherwise."""
    if not isinstance(rng, Generator):
        raise ValueError(f"rng is {brief(rng)}; a numpy.random.Generator is wanted")
    return rng


def sample_size(size: Any) -> int | tuple[int, ...] | None:
    """How many draws: None, a number or a shape; ValueError otherwise, and when there is no memory for them."""
    if size is None:
        return None
    lengths = size if isinstance(size, (tuple, list)) else [size]
    shape = tuple(count("size", length, lowest=0) for length in lengths)
    check_memory("size", math.prod(shape), 8 * math.prod(shape))
    return shape


# --- arrays -------------------------------------------------------------------------------------------------


def all_moderate(rows: NDArray[np.float64], largest: float) -> bool:
    """Whether every entry is finite and below ``largest`` in size, of an array that is not empty."""
    return bool(-largest < rows.min() and rows.max() < largest)  # nan where one is nan


def feature_rows(
    name: str,
    value: Any,
    n_features: int | None,
    ndim: int = 2,
    largest: float = LARGEST,
    *,
    shape: str | None = None,
    entry: str = "feature",
) -> NDArray[np.float64]:
    """A finite float64 array, features along its last axis, C-contiguous and writable: kernels see one type.

    The array is the caller's own when it is like that already; it is never modified. ``shape`` and ``entry`` are what
    messages call the shape that is wanted and one number.
    """
    shape = _SHAPES[ndim] if shape is None else shape
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
    if not all_moderate(rows, largest):
        _complain(name, rows, entry)
    return rows


def contexts_array(
    value: Any, n_features: int | None, n_arms: int | None, largest: float = LARGEST
) -> NDArray[np.float64]:
    """Contexts as kernels take them, (n_arms, n_features)."""
    contexts = feature_rows("contexts", value, n_features, largest=largest, shape="(n_arms, n_features)")
    if n_arms is not None and contexts.shape[0] != n_arms:
        raise ValueError(f"contexts has {contexts.shape[0]} arms; this policy was built for n_arms={n_arms}")
    return contexts


def non_negative_numbers(name: str, value: Any, size: int) -> NDArray[np.float64]:
    """Numbers of which none is negative, and none so large that a sum of squares overflows, (size,) float64."""
    return _numbers_for_rows(name, value, size, 0.0, f"a number from 0 to {LARGEST_WEIGHT:g}", LARGEST_WEIGHT)


def positive_numbers(name: str, value: Any, size: int) -> NDArray[np.float64]:
    """Positive finite numbers, (size,) float64."""
    return _numbers_for_rows(name, value, size, SMALLEST, "a positive finite number")


def shares(name: str, value: Any, size: int) -> NDArray[np.float64]:
    """The first's shares of wins: True and False, or numbers from 0 to 1, (size,) float64."""
    return _numbers_for_rows(name, value, size, 0.0, "True, False or a number from 0 to 1", 1.0)


def _numbers_for_rows(
    name: str, value: Any, size: int, least: float, wanted: str, most: float = sys.float_info.max
) -> NDArray[np.float64]:
    array = real_numbers(name, value, f"({size},)")
    if array.shape != (size,):
        raise ValueError(f"{name} has shape {array.shape}; ({size},) is wanted, one for each row")
    bad = ~((array >= least) & (array <= most))
    if bad.any():
        k = int(np.argmax(bad))
        raise ValueError(f"{name}[{k}] is {array[k]}; {wanted} is wanted")
    return array


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
    single = looked_at(real_number, value)
    return real_numbers("u", value, "a number or an array of numbers")[()] if single is None else single


def as_array(name: str, value: Any, what: str, wanted: str) -> NDArray[Any]:
    """What NumPy makes of a value, whatever its entries are; messages say what the value is not, and what is wanted."""
    nothing: tuple[NDArray[Any] | None, str] = (None, "")
    array, found = looked_at(_read, value, nothing)
    if array is None or (array.dtype.kind == "O" and array.ndim == 0):  # a generator, a set, whatever
        raise ValueError(f"{name} is {what}: {found or brief(value)}; {wanted}")
    return array


def array_or_none(value: Any) -> NDArray[Any] | None:
    """What NumPy makes of a value without a warning; None where it makes nothing."""
    nothing: tuple[NDArray[Any] | None, str] = (None, "")
    return looked_at(_read, value, nothing)[0]


def _read(value: Any) -> tuple[NDArray[Any] | None, str]:
    """The array that NumPy makes of a value; None, and perhaps what kind of thing the value is, where it makes none."""
    found = _unreadable(value)
    if found:
        return None, found
    try:
        return np.asarray(value.astype(np.float64).filled(np.nan) if np.ma.is_masked(value) else value), ""
    except ValueError:
        return None, f"rows of different lengths in {brief(value)}" if isinstance(value, (list, tuple)) else ""


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
    """The numbers that the entries of an array of objects are; nan for None and NA, which are missing."""
    result = np.empty(array.shape)
    for index in np.ndindex(array.shape):
        entry = array[index]
        found = looked_at(_number_of_object, entry)
        if found is None:
            where = ", ".join(map(str, index))
            raise ValueError(f"{name}[{where}] is {brief(entry)}; a real number is wanted")
        result[index] = found
    return result


def _number_of_object(entry: Any) -> float:
    if entry is None or type(entry).__name__ == "NAType":  # pandas' NA, for which nobody has to import pandas
        return math.nan
    if isinstance(entry, (str, bytes, bytearray, np.ndarray)):
        raise TypeError("no number, though NumPy may read one in it")
    if isinstance(entry, np.generic) and entry.dtype.kind not in "biuf":
        raise TypeError("a date, a complex number")
    try:
        return float(entry)
    except OverflowError:
        return math.inf


def _complain(name: str, value: NDArray[np.float64], entry: str) -> None:
    bad = np.argwhere(~np.isfinite(value))
    if len(bad):
        index = tuple(int(i) for i in bad[0])
        raise ValueError(f"{name}[{', '.join(map(str, index))}] is {value[index]}; every {entry} must be finite")
    raise ValueError(f"{name} has entries up to {np.abs(value).max():.3g}; {entry}s so large overflow: scale them down")
