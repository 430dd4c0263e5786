"""What a campaign hands to a function that asked for something else: a catalogue, each entry made afresh for a call."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import functools
import importlib
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

import fastcolst as fc


class Hostile(NamedTuple):
    """A kind of bad value: what it is called in a report, and what makes one from the value that was wanted."""

    name: str
    make: Callable[[Any, Generator], Any]


# --- objects that lie, raise or answer with something else -----------------------------------------------------


class Tensor:
    """What a tensor with gradients answers to NumPy."""

    shape, ndim, dtype, requires_grad = (3, 2), 2, "torch.float32", True

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")

    def __len__(self) -> int:
        return 3


class ArrayRaises:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("no array today")


class ArrayLies:
    def __array__(self, *_: Any, **__: Any) -> Any:
        return "no array"


class LengthLies:
    """A sequence of one entry that claims to have 2^40."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> float:
        raise KeyError(i)


class EqualityIsAnArray:
    __hash__ = None

    def __eq__(self, other: object) -> Any:
        return np.array([True, False])

    def __ne__(self, other: object) -> Any:
        return np.array([True, False])

    def __lt__(self, other: object) -> Any:
        return np.array([True, False])


class TruthRaises:
    def __bool__(self) -> bool:
        raise OSError("neither true nor false")


class ReprRaises:
    def __repr__(self) -> str:
        raise LookupError("no words")


class LongRepr:
    def __repr__(self) -> str:
        return "word " * 200_000


class AttributesRaise:
    def __getattr__(self, name: str) -> Any:
        raise OSError(f"no {name}")


class IndexIsHuge:
    def __index__(self) -> int:
        return 2**70

    def __float__(self) -> float:
        return math.inf

    def __int__(self) -> int:
        return 2**70


class IndexRaises:
    def __index__(self) -> int:
        raise IndexError("no index")

    def __float__(self) -> float:
        raise IndexError("no float")


class OddInt(int):
    """A whole number that cannot be compared."""

    def __le__(self, other: object) -> bool:
        raise ArithmeticError("incomparable")

    __lt__ = __ge__ = __gt__ = __eq__ = __le__  # type: ignore[assignment]

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        raise ArithmeticError("unspeakable")


class OddFloat(float):
    """A number that cannot be converted."""

    def __float__(self) -> float:
        raise ArithmeticError("no float")

    def __ge__(self, other: object) -> bool:
        raise ArithmeticError("incomparable")

    __lt__ = __le__ = __gt__ = __ge__

    def is_integer(self) -> bool:
        raise ArithmeticError("who knows")


class OddStr(str):
    """A text that is equal to nothing and has no hash."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ArithmeticError("incomparable")


class LoudArray(np.ndarray):
    """An array with which nobody may compute."""

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        raise ArithmeticError("hands off")


class PathRaises:
    def __fspath__(self) -> str:
        raise LookupError("no path")


class PathLies:
    def __fspath__(self) -> Any:
        return 3


class MappingRaises(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise LookupError("no items")

    def __iter__(self) -> Iterator[Any]:
        raise LookupError("no keys")


class Method:
    """A class with the methods of a model, of an estimator and of a law, and no NamedTuple."""

    def _nothing(self, *_: Any) -> Any:
        raise AssertionError("was called")

    cdf = pdf = raw = perturb = memory = learn = fill = _nothing


class Bare(NamedTuple):
    """A NamedTuple without the methods that are wanted."""

    x: float = 1.0


# --- the catalogue ---------------------------------------------------------------------------------------------


def _same(value: Any) -> Callable[[Any, Generator], Any]:
    return lambda _, __: value


def _recursive(_: Any, __: Generator) -> Any:
    entries: list[Any] = [1.0]
    entries.append(entries)
    return entries


def _nested(_: Any, __: Generator) -> Any:
    return functools.reduce(lambda inner, _: [inner], range(100), [1.0])


def _misaligned(_: Any, __: Generator) -> Any:
    return np.frombuffer(bytes(49), np.uint8)[1:].view(np.float64).reshape(3, 2)


def _optional(module: str, make: Callable[[Any], Any]) -> Callable[[Any, Generator], Any]:
    """Something of a package that may not be installed; None then."""

    def value(_: Any, __: Generator) -> Any:
        try:
            package = importlib.import_module(module)
        except ImportError:
            return None
        return make(package)

    return value


_PLAIN: dict[str, Any] = {
    "None": None,
    "True": True,
    "False": False,
    "-1": -1,
    "0": 0,
    "1": 1,
    "3": 3,
    "2**61": 2**61,
    "2**62": 2**62,
    "2**63": 2**63,
    "2**64": 2**64,
    "-2**63": -(2**63),
    "10**30": 10**30,
    "10**400": 10**400,
    "10**5000": 10**5000,
    "0.5": 0.5,
    "3.0": 3.0,
    "-0.0": -0.0,
    "-1e-3": -1e-3,
    "denormal": 5e-324,
    "1e308": 1e308,
    "1e200": 1e200,
    "1e-200": 1e-200,
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "1j": 1j,
    "np.True_": np.True_,
    "np.int8(3)": np.int8(3),
    "np.int64(-1)": np.int64(-1),
    "np.uint64(2**63)": np.uint64(2**63),
    "np.float16(3)": np.float16(3),
    "np.float32(0.5)": np.float32(0.5),
    "np.float64(nan)": np.float64("nan"),
    "np.float64(1e308)": np.float64(1e308),
    "np.longdouble(0.5)": np.longdouble(0.5),
    "np.longdouble(1e400)": np.longdouble("1e400"),
    "np.longdouble(1e-400)": np.longdouble("1e-400"),
    "np.complex64(1)": np.complex64(1),
    "np.datetime64": np.datetime64("2026-01-01"),
    "np.datetime64(NaT)": np.datetime64("NaT"),
    "np.timedelta64": np.timedelta64(3, "D"),
    "np.str_": np.str_("mle"),
    "np.bytes_": np.bytes_(b"x"),
    "np.void": np.void(b"abc"),
    "np.ma.masked": np.ma.masked,
    "Decimal": decimal.Decimal("0.5"),
    "Decimal(nan)": decimal.Decimal("nan"),
    "Decimal(sNaN)": decimal.Decimal("sNaN"),
    "Fraction": fractions.Fraction(1, 3),
    "Fraction beyond float": fractions.Fraction(10**400, 3),
    "date": dt.date(2026, 1, 1),
    "empty text": "",
    "text": "nonsense",
    "text of a number": "1",
    "auto": "auto",
    "sgd": "sgd",
    "thurstone": "thurstone",
    "fixed": "fixed",
    "text with a null": "a\0b",
    "long text": "a" * 1_000_000,
    "lone surrogate": "\udcff",
    "bytes": b"1",
    "bytearray": bytearray(b"1"),
    "[]": [],
    "[[]]": [[]],
    "()": (),
    "{}": {},
    "set": {1, 2},
    "dict": {0: 1},
    "dict of text": {"a": 1},
    "range(3)": range(3),
    "list of texts": ["a", "b"],
    "list of numbers in texts": [["1", "2"], ["3", "4"]],
    "list with None": [[1.0, None], [2.0, 3.0]],
    "list of dicts": [[{}, {}], [{}, {}]],
    "list of complex": [[1j, 2.0]],
    "list of a huge int": [[10**400, 1.0], [1.0, 1.0]],
    "ragged": [[1.0, 2.0], [3.0]],
    "ragged rows": [[1.0], 2.0],
    "ragged arrays": [np.ones(2), np.ones(3)],
    "ragged answers": [True, [False]],
    "list of a long text": [["a" * 100_000]],
    "object": object(),
    "Ellipsis": ...,
    "NotImplemented": NotImplemented,
    "function": len,
    "class": int,
    "class of a policy": fc.CoLSTIM,
    "class of a model": fc.BradleyTerry,
    "class of an estimator": fc.MLE,
    "module": math,
    "exception": ValueError("of the caller"),
    "model": fc.Thurstone(2.0),
    "estimator": fc.SGD(0.1),
    "estimator with a long memory": fc.OnlineNewton(history=2**39),
}

_ARRAYS: dict[str, Callable[[], Any]] = {
    "0-d array": lambda: np.array(1.0),
    "0-d object array": lambda: np.array(None),
    "empty array": lambda: np.array([]),
    "array (0, 2)": lambda: np.zeros((0, 2)),
    "array (3, 0)": lambda: np.zeros((3, 0)),
    "array (1,)": lambda: np.ones(1),
    "array (3, 2)": lambda: np.ones((3, 2)),
    "array (2, 2, 2, 2)": lambda: np.ones((2, 2, 2, 2)),
    "array of nan": lambda: np.full((3, 2), np.nan),
    "array of 1e308": lambda: np.full((3, 2), 1e308),
    "array of denormals": lambda: np.full((3, 2), 5e-324),
    "array of bool": lambda: np.array([[True, False], [False, True]]),
    "array of int8": lambda: np.array([[1, 2], [3, 4]], np.int8),
    "array of uint64": lambda: np.full((3, 2), 2**64 - 1, np.uint64),
    "array of longdouble beyond float64": lambda: np.full((3, 2), np.longdouble("1e400")),
    "array of complex": lambda: np.ones((3, 2), complex),
    "array of objects": lambda: np.array([[1, None], ["a", 2]], dtype=object),
    "array of numbers as objects": lambda: np.array([[1, 2.5], [True, 2]], dtype=object),
    "array of huge ints": lambda: np.array([[10**400, 1], [1, 1]], dtype=object),
    "array of arrays": lambda: np.array([np.ones(2), None], dtype=object),
    "array of texts": lambda: np.array([["1", "x"], ["2", "y"]]),
    "array of bytes": lambda: np.array([[b"1", b"x"]]),
    "array of dates": lambda: np.array([["2026-01-01", "NaT"]], "M8[D]"),
    "array of durations": lambda: np.array([[1, 2]], "m8[s]"),
    "array of voids": lambda: np.zeros((3, 2), "V8"),
    "structured array": lambda: np.zeros(3, [("a", float), ("b", int)]),
    "masked array": lambda: np.ma.masked_array(np.ones((3, 2)), mask=[[0, 1], [0, 0], [0, 0]]),
    "masked array of int": lambda: np.ma.masked_array(np.ones((3, 2), int), mask=[[0, 1], [0, 0], [0, 0]]),
    "array that is loud": lambda: np.ones((3, 2)).view(LoudArray),
    "generator": lambda: (float(i) for i in range(3)),
    "generator that raises": lambda: (1 // i for i in (1, 0)),
    "map": lambda: map(float, "12"),
    "memoryview": lambda: memoryview(bytes(8)),
    "Generator": lambda: np.random.default_rng(1),
    "SeedSequence": lambda: np.random.SeedSequence(1),
    "Tensor": Tensor,
    "raises as an array": ArrayRaises,
    "lies as an array": ArrayLies,
    "list of Tensor": lambda: [Tensor(), Tensor()],
    "list of what raises": lambda: [[IndexRaises(), 1.0], [1.0, 1.0]],
    "list of what is huge": lambda: [[IndexIsHuge(), 1.0], [1.0, 1.0]],
    "list of masked": lambda: [[np.ma.masked, 1.0], [1.0, 2.0]],
    "lies of its length": LengthLies,
    "equality is an array": EqualityIsAnArray,
    "truth raises": TruthRaises,
    "repr raises": ReprRaises,
    "list of what has no repr": lambda: [ReprRaises()],
    "long repr": LongRepr,
    "attributes raise": AttributesRaise,
    "index is huge": IndexIsHuge,
    "index raises": IndexRaises,
    "odd int": lambda: OddInt(3),
    "odd float": lambda: OddFloat(0.5),
    "odd text": lambda: OddStr("mle"),
    "path raises": PathRaises,
    "path lies": PathLies,
    "mapping raises": lambda: MappingRaises(a=1),
    "methods and no NamedTuple": Method,
    "NamedTuple without methods": Bare,
    "duel of nobody": lambda: fc.Duel(0, 1, np.ones(2), 1, "nobody"),
    "duel of anything": lambda: fc.Duel(ReprRaises(), [], None, EqualityIsAnArray(), EqualityIsAnArray()),  # type: ignore[arg-type]
    "policy": lambda: fc.UniformPairs(rng=1),
    "scenario": lambda: fc.Scenario(theta=[1.0, 0.0], n_arms=3),
    "log": lambda: fc.Log.from_arrays([[1.0, 2.0]], [True]),
}

_PACKAGES = {
    "sparse matrix": _optional("scipy.sparse", lambda m: m.csr_matrix(np.eye(3, 2))),
    "DataFrame with NA": _optional("pandas", lambda m: m.DataFrame({"a": [1, None, 3], "b": ["x", m.NA, 1.0]})),
    "DataFrame of Int64 with NA": _optional(
        "pandas", lambda m: m.DataFrame({"a": m.array([1, None, 3], "Int64"), "b": [1.0, 2.0, 3.0]})
    ),
    "DataFrame of dates": _optional("pandas", lambda m: m.DataFrame({"a": m.to_datetime(["2026-01-01", None])})),
    "Series with NA": _optional("pandas", lambda m: m.Series([1, m.NA, 0], dtype="Int64")),
    "Series of booleans with NA": _optional("pandas", lambda m: m.Series([True, m.NA, False], dtype="boolean")),
    "pd.NA": _optional("pandas", lambda m: m.NA),
    "pd.NaT": _optional("pandas", lambda m: m.NaT),
    "arrow table": _optional("pyarrow", lambda m: m.table({"a": [1.0, None, 3.0], "b": [1.0, 2.0, 3.0]})),
    "arrow array with null": _optional("pyarrow", lambda m: m.array([1, None, 0])),
    "arrow scalar": _optional("pyarrow", lambda m: m.scalar(3)),
    "polars frame": _optional("polars", lambda m: m.DataFrame({"a": [1.0, None, 3.0], "b": ["x", "y", "z"]})),
}

WHATEVER: tuple[Hostile, ...] = (
    *(Hostile(name, _same(value)) for name, value in _PLAIN.items()),
    *(Hostile(name, lambda _, __, make=make: make()) for name, make in _ARRAYS.items()),
    *(Hostile(name, make) for name, make in _PACKAGES.items()),
    Hostile("list in itself", _recursive),
    Hostile("list 100 deep", _nested),
    Hostile("misaligned", _misaligned),
)
"""Values that have nothing to do with what was wanted."""

SIZES: tuple[Hostile, ...] = (
    Hostile("10**9", _same(10**9)),
    Hostile("10**12", _same(10**12)),
)
"""Whole numbers that only memory forbids; for arguments that are no number of rounds to be played."""


def _with(entry: Any, dtype: Any = float) -> Callable[[Any, Generator], Any]:
    """An array with one entry that is something else."""

    def make(valid: Any, rng: Generator) -> Any:
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # a token like 6591e21691c33d0a-7
            array = np.array(valid, dtype)
        array[tuple(rng.integers(array.shape))] = entry
        return array

    return make


def _masked(valid: Any, rng: Generator) -> Any:
    array = np.ma.masked_array(np.array(valid, float))
    array[tuple(rng.integers(array.shape))] = np.ma.masked
    return array


def _ragged(valid: Any, rng: Generator) -> Any:
    rows = np.asarray(valid).tolist()
    rows[rng.integers(len(rows))] = [1.0] * int(rng.integers(4))
    return rows


def _strided(valid: Any, _: Generator) -> Any:
    array = np.asarray(valid)
    return np.repeat(array, 2, axis=0)[::2]


def _frame(valid: Any, rng: Generator) -> Any:
    pandas = importlib.import_module("pandas")
    array = np.asarray(valid)
    return pandas.DataFrame(array) if array.ndim == 2 else pandas.Series(array.ravel())


def _frame_with_na(valid: Any, rng: Generator) -> Any:
    frame = _frame(valid, rng).astype("Float64")
    place = tuple(rng.integers(frame.shape))
    frame.iloc[place[0] if len(place) == 1 else place] = None
    return frame


def _read_only(valid: Any, _: Generator) -> Any:
    array = np.array(valid)
    array.flags.writeable = False
    return array


OF_ARRAYS: tuple[Hostile, ...] = (
    *(
        Hostile(f"{entry!r} in it", _with(entry))
        for entry in (math.nan, math.inf, -math.inf, 1e308, -1e200, 1e141, 1e100, 5e-324, -0.0, 2.0, -1.0, 0.5)
    ),
    Hostile("longdouble 1e400 in it", _with(np.longdouble("1e400"), np.longdouble)),
    *(
        Hostile(f"{entry!r} as an object in it", _with(entry, object))
        for entry in (None, "x", "1", 10**400, {}, True, 1j, b"1")
    ),
    Hostile("something without a repr in it", _with(ReprRaises(), object)),
    Hostile("something that raises in it", _with(IndexRaises(), object)),
    Hostile("ragged like it", _ragged),
    Hostile("masked in it", _masked),
    Hostile("as list", lambda v, _: np.asarray(v).tolist()),
    Hostile("as tuple of arrays", lambda v, _: tuple(np.asarray(v))),
    Hostile("as texts", lambda v, _: np.asarray(v).astype(str)),
    Hostile("as objects", lambda v, _: np.asarray(v).astype(object)),
    Hostile("as float32", lambda v, _: np.asarray(v).astype(np.float32)),
    Hostile("as float16", lambda v, _: np.asarray(v).astype(np.float16)),
    Hostile("as longdouble", lambda v, _: np.asarray(v).astype(np.longdouble)),
    Hostile("as complex", lambda v, _: np.asarray(v).astype(complex)),
    Hostile("as big-endian", lambda v, _: np.asarray(v, float).astype(">f8")),
    Hostile("as Fortran", lambda v, _: np.asfortranarray(np.array(v))),
    Hostile("with strides", _strided),
    Hostile("backwards", lambda v, _: np.asarray(v)[::-1]),
    Hostile("read-only", _read_only),
    Hostile("as loud array", lambda v, _: np.array(v).view(LoudArray)),
    Hostile("as frame", _frame),
    Hostile("as frame with NA", _frame_with_na),
    Hostile("as iterator", lambda v, _: iter(np.asarray(v).tolist())),
    Hostile("a row fewer", lambda v, _: np.asarray(v)[1:]),
    Hostile("a row more", lambda v, _: np.concatenate([np.asarray(v), np.asarray(v)[:1]])),
    Hostile("a column fewer", lambda v, _: np.asarray(v)[..., 1:]),
    Hostile("a dimension more", lambda v, _: np.asarray(v)[np.newaxis]),
    Hostile("a dimension fewer", lambda v, _: np.asarray(v)[0]),
    Hostile("transposed", lambda v, _: np.asarray(v).T),
    Hostile("times 1e-310", lambda v, _: np.asarray(v) * 1e-310),
    Hostile("times 1e150", lambda v, _: np.asarray(v) * 1e150),
    Hostile("times 1e120", lambda v, _: np.asarray(v) * 1e120),
    Hostile("all zero", lambda v, _: np.asarray(v) * 0),
)
"""Values made of the array that was wanted."""


def _dict_with(key: Any, value: Any) -> Callable[[Any, Generator], Any]:
    return lambda valid, _: {**valid, key: value}


OF_DICTS: tuple[Hostile, ...] = (
    Hostile("a label that is no text", lambda v, _: {1: next(iter(v.values()), 0)}),
    Hostile("an empty label", lambda v, _: {"": next(iter(v.values()), 0)}),
    Hostile("a label that is a lone surrogate", lambda v, _: {"\udcff": next(iter(v.values()), 0)}),
    Hostile("another label", lambda v, _: {"another": next(iter(v.values()), 0)}),
    Hostile("None more", _dict_with("x", None)),
    Hostile("a list more", _dict_with("x", [[1.0], 2.0])),
    Hostile("nan more", _dict_with("x", math.nan)),
    Hostile("a class more", _dict_with("x", fc.CoLSTIM)),
    Hostile("something without a repr more", lambda v, _: {**v, "x": ReprRaises()}),
    Hostile("a label without a repr", lambda v, _: {**v, ReprRaises(): 1}),
    Hostile("something long more", lambda v, _: {**v, "x": LongRepr()}),
    Hostile("as pairs", lambda v, _: list(v.items())),
    Hostile("only its labels", lambda v, _: list(v)),
    Hostile("each value None", lambda v, _: dict.fromkeys(v)),
    Hostile("each value a list of it", lambda v, _: {key: [value] for key, value in v.items()}),
    Hostile("each value what equals an array", lambda v, _: dict.fromkeys(v, EqualityIsAnArray())),
    Hostile("each value a whole number", lambda v, _: dict.fromkeys(v, 3)),
)
"""Values made of the dictionary that was wanted."""


def hostile(name: str, valid: Any, rng: Generator, *, size: bool) -> tuple[str, Any]:
    """A bad value for the argument of that name, and what it is called."""
    is_array = isinstance(valid, (np.ndarray, list)) and np.ndim(valid) > 0
    special = OF_ARRAYS if is_array else OF_DICTS if isinstance(valid, dict) else SIZES if size else ()
    kinds = special if special and rng.random() < (0.2 if special is SIZES else 0.6) else WHATEVER
    kind = kinds[rng.integers(len(kinds))]
    try:
        return kind.name, kind.make(valid, rng)
    except (IndexError, TypeError, ValueError):  # no such thing can be made of this one
        return "object", object()
