"""Classes by name: policies, estimators, comparison models and problems, ours and those of people.

Tables, the command line and arguments that take a name read this registry alone. A name is one that was registered, or
``"package.module:Class"``, which is imported and need not be registered. :func:`table_of` is the way back: an object as
the table of plain data that builds it again.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import partial, reduce
from types import MappingProxyType, MethodType
from typing import Any, TypeVar, overload

import numpy as np
from numpy.random import Generator

from fastcolst import _compile
from fastcolst._words import brief, looked_at, plain_text

__all__ = [
    "ESTIMATOR",
    "LAW",
    "METHODS",
    "MODEL",
    "POLICY",
    "PROBLEM",
    "add",
    "find",
    "imported",
    "is_ours",
    "known",
    "name_of",
    "register",
    "table_of",
    "with_defaults",
]

C = TypeVar("C", bound=type)

MODEL, ESTIMATOR, LAW, PROBLEM, POLICY = "comparison model", "estimator", "law of contexts", "problem", "policy"

METHODS = {
    MODEL: ("cdf", "pdf", "raw", "perturb"),
    ESTIMATOR: ("memory", "learn"),
    LAW: ("fill",),
    PROBLEM: ("start",),
    POLICY: ("select", "update"),
}
"""The kinds, and the methods by which a class is known to be of one. The first three live in kernels: NamedTuples."""

_NAMED: dict[str, dict[str, Callable[..., Any]]] = {kind: {} for kind in METHODS}

MOST_LEVELS = 16
"""How deep objects and lists may lie in one another."""
LARGEST_LIST = 100_000
"""Numbers of an array that a table spells out; of a larger one, or of more than two axes, it holds the digest."""


# --- names --------------------------------------------------------------------------------------------------


@overload
def register(cls: C, *, name: str | None = None) -> C: ...
@overload
def register(cls: None = None, *, name: str) -> Callable[[C], C]: ...
def register(cls: C | None = None, *, name: str | None = None) -> Any:
    """Make a class known: its methods to kernels, where it is a NamedTuple, and itself by a name, where one is given.

    Use it as a class decorator, ``@fc.register`` or ``@fc.register(name="...")``. A policy, an estimator, a comparison
    model or a problem is then found by its name in tables and TOML files, on the command line and in arguments, as
    those of fastcolst are. ``"package.module:Class"`` finds any class that can be imported, registered or not.

    Fields of a NamedTuple that are annotated ``float`` are converted when an instance is built, so that ``Cauchy(1)``
    and ``Cauchy(1.0)`` share their machine code. A method ``checked(self)``, where there is one, is called then: it
    raises ``ValueError`` for a bad field and returns the instance to use.

    Parameters
    ----------
    cls : type
        For kernels, such as comparison models, estimators and rules: a class that derives from ``typing.NamedTuple``
        directly, has at least one field, and whose fields are numbers, arrays or registered instances. Methods must be
        written in the subset of Python that Numba compiles; class attributes are invisible to them (use fields or
        module globals). With a name also policies and problems, which are ordinary classes.
    name : str, optional
        None: no name; for NamedTuples only.

    Returns
    -------
    type
        The class itself.

    Raises
    ------
    TypeError
        When ``cls`` is not a NamedTuple and has no name, has no field, a method for kernels sets an attribute, or a
        class with a name is of no kind that is looked for by name.
    ValueError
        When the name is another class's, or no name.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> import fastcolst as fc
    >>> @fc.register
    ... class Box(NamedTuple):
    ...     side: float = 1.0
    ...     def fill(self, rng, out):
    ...         for i in range(out.shape[0]):
    ...             for k in range(out.shape[1]):
    ...                 out[i, k] = self.side * rng.random()
    >>> Box(2).side
    2.0
    """
    if name is None:
        return _compile.register(cls)  # type: ignore[type-var]
    if cls is None:
        return partial(register, name=name)
    kind = next((kind for kind in METHODS if _is_of(kind, cls)), None)
    if kind is None:
        listed = "; ".join(f"{kind}: {', '.join(methods)}" for kind, methods in METHODS.items())
        raise TypeError(f"register needs for a name a class with the methods of a kind, got {brief(cls)} ({listed})")
    _check_free(kind, name, cls)
    if kind in (MODEL, ESTIMATOR, LAW):
        _compile.register(cls)
    return add(kind, name, cls)


def add(kind: str, name: str, builder: Any) -> Any:
    """Give a class, or a function that builds what is wanted, a name."""
    _check_free(kind, name, builder)
    _NAMED[kind][name] = builder
    return builder


def _check_free(kind: str, name: Any, builder: Any) -> None:
    text = plain_text(name)
    if not text or ":" in text:
        raise ValueError(f"name is {brief(name)}; a text without a colon is wanted")
    taken = _NAMED[kind].get(text)
    if taken is not None and _reference(taken) != _reference(builder):  # a cell of a notebook may be run again
        raise ValueError(f"name is {text!r}, by which {_reference(taken)} is known; another one is wanted")


def known(kind: str) -> Mapping[str, Any]:
    """What is known by name, as it changes."""
    return MappingProxyType(_NAMED[kind])


def find(kind: str, name: str) -> Any:
    """The class of a name, or of ``"package.module:Class"``; None for a name that nobody has registered.

    Raises
    ------
    ValueError
        The module cannot be imported, or has no such class of this kind.
    """
    text = plain_text(name)
    if text is None or ":" not in text:
        return _NAMED[kind].get(text or "")
    found = imported(text)
    if not (_is_of(kind, found) or any(found is other for other in _NAMED[kind].values())):
        raise ValueError(f"{name!r}, which is no {kind}: a class with the methods {', '.join(METHODS[kind])} is wanted")
    return found


def with_defaults(kind: str, name: str, argument: str) -> Any:
    """An instance of what a name stands for, its parameters by default; None for a name that nobody has registered.

    Raises
    ------
    ValueError
        It cannot be imported, or built so; opens with the name of the argument.
    """
    try:
        cls = find(kind, name)
    except ValueError as error:
        raise ValueError(f"{argument} is {error}") from error
    try:
        return None if cls is None else cls()
    except (TypeError, ValueError) as error:  # a parameter without a default, or with a bad one
        raise ValueError(f"{argument} is {name!r}: {error}") from error


def imported(reference: str) -> Any:
    """What an object reference, ``"package.module:name"``, names.

    Raises
    ------
    ValueError
        There is no such thing, or the module fails while it is imported.
    """
    module, colon, names = reference.partition(":")
    if not (module and colon and names):  # nothing is imported for another word
        raise ValueError(f"{brief(reference)}, which is not of the form 'package.module:name', as is wanted")
    try:
        return reduce(getattr, names.split("."), importlib.import_module(module))
    except Exception as error:  # whatever a module of one's own may raise
        raise ValueError(f"{brief(reference)}, which cannot be imported: {type(error).__name__}: {error}") from error


def _is_of(kind: str, value: Any) -> bool:
    if not isinstance(value, type) or (kind == POLICY and issubclass(value, tuple)):  # a rule is no policy
        return False
    return all(callable(getattr(value, name, None)) for name in METHODS[kind])


def name_of(builder: Any) -> str:
    """The name in tables: of ours the one it has; of people's own ``"package.module:Class"``, which imports itself."""
    if is_ours(builder):
        for builders in _NAMED.values():
            for name, other in builders.items():
                if other is builder:
                    return name
    return _reference(builder)


def is_ours(builder: Any) -> bool:
    """Whether a class or a function is fastcolst's, or there is none."""
    return builder is None or builder.__module__.partition(".")[0] == _compile.PACKAGE


def _reference(builder: Any) -> str:
    return f"{builder.__module__}:{builder.__qualname__}"


# --- tables -------------------------------------------------------------------------------------------------


def table_of(value: Any) -> Any:
    """A policy, an estimator, a comparison model or a problem as a table of plain data, as TOML and JSON hold it.

    The table has the ``name`` of the class and its arguments: those that the method ``get_params()`` gives, or the
    fields of a NamedTuple. Plain data stand for themselves; functions and classes are named ``"module:name"``; a large
    array is given by its digest, and any other object by its class and attributes, which do not come back.

    Raises
    ------
    ValueError
        When objects lie in one another without end.

    Examples
    --------
    >>> import fastcolst as fc
    >>> from fastcolst.extend import table_of
    >>> table_of(fc.SGD(0.1))
    {'name': 'sgd', 'learning_rate': 0.1, 'decay': 0.0, 'radius': None, 'score': 'likelihood', 'standardize': False}
    >>> table_of(fc.UniformPairs(n_arms=3))
    {'name': 'UniformPairs', 'n_features': None, 'n_arms': 3, 'max_pending': None, 'rng': None}
    """
    return _table(value, MOST_LEVELS)


def _table(value: Any, levels: int) -> Any:
    if levels == 0:
        raise ValueError(
            f"{brief(value)} lies more than {MOST_LEVELS} levels deep in an object, which no table can hold; a method "
            "get_params of the object's class says what does belong in it"
        )
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (np.generic, np.ndarray)):
        return _plain_array(value)
    own = _parameters(value)
    if own is not None:
        return {"name": name_of(type(value)), **{key: _table(entry, levels - 1) for key, entry in own.items()}}
    if isinstance(value, (list, tuple)):
        return [_table(entry, levels - 1) for entry in value]
    return _table_of_other(value, levels)


def _parameters(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, type):
        return None
    give = getattr(value, "_asdict" if isinstance(value, tuple) else "get_params", None)
    return give() if callable(give) else None


def _table_of_other(value: Any, levels: int) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _table(entry, levels - 1) for key, entry in value.items()}
    if isinstance(value, MethodType) and not isinstance(value.__self__, type):
        return {"name": name_of(value), "self": _table(value.__self__, levels - 1)}
    if isinstance(value, type) or inspect.isroutine(value):
        return name_of(value)
    if isinstance(value, partial):
        return {
            "name": name_of(value.func),
            "args": _table(value.args, levels - 1),
            "keywords": _table(value.keywords, levels - 1),
        }
    if isinstance(value, Generator):
        return _table(value.bit_generator.state, levels - 1)
    attributes = looked_at(vars, value)
    seen = {"repr": brief(value)} if attributes is None else {"attributes": _table(attributes, levels - 1)}
    return {"name": name_of(type(value)), **seen}


def _plain_array(array: Any) -> Any:
    if array.ndim <= 2 and array.size <= LARGEST_LIST and array.dtype.kind in "biuf":
        return array.tolist()
    text = f"{array.dtype.str} {array.shape}".encode()
    data = array.tobytes() if array.dtype.kind != "O" else repr(array.tolist()).encode()
    return {"shape": list(array.shape), "sha256": hashlib.sha256(text + data).hexdigest()}
