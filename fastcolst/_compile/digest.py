"""Digests of the code of classes and functions from outside the package.

Machine code of a rule, an estimator or a model that a user wrote is good for as long as that code stays as it is: its
methods, and every function, class and constant that these reach in whichever file. The package's own files have a
digest of all their bytes instead (:data:`fastcolst._compile.cache.SOURCES`), and the versions of Python and Numba
stand for what kernels find there.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from operator import attrgetter
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numba
import numpy as np

__all__ = ["PACKAGE", "code_digest", "is_versioned", "plain", "users_code"]

PACKAGE = __name__.partition(".")[0]
"""The package's name."""
_VERSIONED = {PACKAGE, "numba", "llvmlite", "numpy", "scipy"}
_STANDARD = Path(os.__file__).resolve().parent
_EXTENDING = re.compile(r"^numba\.core|(^|\.)(extending|experimental)$")
"""What modules that extend Numba import."""
_ADDED_LATER = ("__slotnames__",)
"""What Python adds to a class by itself: this when an object is first copied or pickled."""
_HAS_DOCSTRING = 0x4000000
"""A flag of code since Python 3.13; before, a function's first constant is its docstring if it is a text."""


def code_digest(value: type | FunctionType) -> str | None:
    """Digest of a class's or a function's code, and of all functions, classes and constants that it reaches.

    Code reaches what it names: globals, attributes of modules, closures, defaults and decorated functions, at any depth
    and in any module but the package's own, NumPy's, SciPy's, Numba's and Python's. Comments, docstrings, line numbers
    and places of files do not count. Python compiles the same source differently from one minor version to the next,
    and the digest tells them apart.

    Parameters
    ----------
    value : type or function
        Of a registered class the fields' classes are not looked at.

    Returns
    -------
    str or None
        64 hexadecimal digits. None for what :func:`is_versioned`; for what another process does not find by its name
        in a file, such as a class of ``__main__``, of a notebook or of a function; and where the code reaches an
        object whose meaning cannot be read from it, or a module that extends Numba itself.
    """
    if is_versioned(value.__module__) or not _is_found_by_name(value):
        return None
    reader = _Reader()
    try:
        reader.read(value)
    except (_UnreadableError, RecursionError):  # the latter of a list that holds itself, say
        return None
    return reader.hash.hexdigest()


def users_code(signature: Any, *, anew: bool = False) -> list[str] | None:
    """Digests of the classes from outside the package in a kernel's signature; None where one has none.

    A process looks at a class once, before its first kernel is compiled. ``anew`` looks again, when one has been: if
    somebody has meanwhile given a global another value, which of both is in the machine code is anybody's guess, and
    there is no digest. Nor is there one for the second class of a name, as after a module was loaded again.
    """
    arguments = signature.args if hasattr(signature, "args") else signature
    digests = []
    for cls in dict.fromkeys(cls for argument in arguments for cls in _classes_in(argument)):
        if is_versioned(cls.__module__):
            continue
        name = (cls.__module__, cls.__qualname__)
        if name not in _SEEN:
            _SEEN[name] = (cls, code_digest(cls))
        first, digest = _SEEN[name]
        if digest is None or first is not cls or (anew and digest != code_digest(cls)):
            return None
        digests.append(digest)
    return digests


_SEEN: dict[tuple[str, str], tuple[type, str | None]] = {}


def _classes_in(type_: Any) -> Iterator[type]:
    """The NamedTuple classes that a signature's type holds, at any depth."""
    cls = getattr(type_, "instance_class", None)
    if cls is not None:
        yield cls
    for inner in (*getattr(type_, "types", ()), *getattr(type_, "field_dict", {}).values()):
        yield from _classes_in(inner)


def plain(value: Any) -> Any:
    """Bytecode, or a constant of it, as something that prints alike in every process."""
    if isinstance(value, CodeType):
        numbers = (value.co_flags, value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount)
        names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
        constants = [plain(constant) for constant in _constants(value)]
        return numbers, names, value.co_code, value.co_exceptiontable, constants
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value


def _constants(code: CodeType) -> tuple[Any, ...]:
    """The constants of code, without its docstring."""
    if sys.version_info >= (3, 13):
        documented = bool(code.co_flags & _HAS_DOCSTRING)
    else:
        documented = not code.co_name.startswith("<") and any(isinstance(first, str) for first in code.co_consts[:1])
    return (None, *code.co_consts[1:]) if documented else code.co_consts


def is_versioned(module: str | None) -> bool:
    """Whether a version stands for a module: it belongs to the package or to what that is built upon."""
    top = (module or "").partition(".")[0]
    if top not in sys.stdlib_module_names:
        return top in _VERSIONED
    file = getattr(sys.modules.get(top), "__file__", None)  # a user's file may have the name of a module of Python's
    return file is None or Path(file).resolve().is_relative_to(_STANDARD)


def _is_found_by_name(value: type | FunctionType) -> bool:
    module = sys.modules.get(value.__module__)
    if value.__module__ in {"__main__", "__mp_main__"} or getattr(module, "__file__", None) is None:
        return False
    try:
        return attrgetter(value.__qualname__)(module) is value
    except AttributeError:
        return False


class _UnreadableError(Exception):
    """What an object means to kernels cannot be read from it."""


class _Bare:
    field: int


class _BareTuple(NamedTuple):
    field: int


class _Reader:
    """Feeds a hash with what values are made of."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._read: dict[int, Any] = {}
        self._modules: set[str] = set()

    def read(self, value: Any) -> None:
        """One value; functions and classes, which may reach themselves, once."""
        for kinds, read in _KINDS:
            if isinstance(value, kinds):
                read(self, value)
                return
        if hasattr(value, "py_func"):
            self._read_compiled(value)
            return
        raise _UnreadableError(type(value))

    def _put(self, *words: object) -> None:
        self.hash.update(repr(words).encode())

    def _is_new(self, value: Any) -> bool:
        new = id(value) not in self._read
        self._read.setdefault(id(value), (len(self._read), value))  # which keeps it, and its id, alive
        self._put("new" if new else "known", self._read[id(value)][0])
        return new

    # --- constants ---

    def _read_member(self, member: Enum) -> None:
        self.read(type(member))
        self._put(member.name)

    def _read_scalar(self, value: Any) -> None:
        base = next(base for base in _SCALARS if isinstance(value, base))  # a class of one's own may print at will
        self._put(type(value).__qualname__, base.__repr__(value))

    def _read_items(self, items: Any) -> None:
        if type(items) not in {tuple, list}:
            self.read(type(items))
        self._put(type(items).__qualname__, len(items))
        for item in items:
            self.read(item)

    def _read_dict(self, items: dict[Any, Any]) -> None:
        self._read_items([*items, *items.values()])

    def _read_set(self, items: Any) -> None:
        if not all(isinstance(item, _SCALARS) for item in items):
            raise _UnreadableError(type(items))
        self._put("set", sorted(map(repr, items)))

    def _read_array(self, array: np.ndarray[Any, Any]) -> None:
        if array.dtype.hasobject or type(array) is not np.ndarray:
            raise _UnreadableError(array)
        layout = (array.flags.c_contiguous, array.flags.f_contiguous, array.flags.aligned)
        self._put(str(array.dtype.descr), array.shape, layout, hashlib.sha256(array.tobytes()).hexdigest())

    # --- code ---

    def _read_class(self, cls: type) -> None:
        self._put("class", cls.__module__, cls.__qualname__)
        if is_versioned(cls.__module__) or not self._is_new(cls):
            return
        self._refuse_extensions(cls.__module__)
        if issubclass(cls, Enum):
            self._read_dict({name: member.value for name, member in cls.__members__.items()})
            return
        self._read_items(cls.__bases__)
        fields = getattr(cls, "_fields", ())
        self.read(fields)
        self.read(getattr(cls, "_field_defaults", {}))
        generated = {*fields, *vars(_BareTuple if fields else _Bare), *_ADDED_LATER}
        self._read_named({name: value for name, value in vars(cls).items() if name not in generated})

    def _read_named(self, values: dict[str, Any]) -> None:
        for name in sorted(values):
            self._put("name", name)
            self.read(values[name])

    def _read_wrapping(self, method: Any) -> None:
        self._put(type(method).__qualname__)
        self.read(method.__wrapped__)

    def _read_property(self, found: property) -> None:
        self._read_items((found.fget, found.fset, found.fdel))

    def _read_compiled(self, compiled: Any) -> None:
        if "<" in compiled.py_func.__qualname__:  # in machine code it is known by its name
            raise _UnreadableError(compiled)
        self._put("compiled")
        self._read_dict({**compiled.targetoptions, "locals": compiled.locals})
        if not getattr(compiled, "_can_compile", True):  # signatures were stated: arguments are converted to them
            self.read([str(signature) for signature in compiled.signatures])
        self.read(compiled.py_func)

    def _read_function(self, function: FunctionType) -> None:
        if not self._is_new(function):
            return
        if hasattr(function, "__wrapped__"):
            self.read(function.__wrapped__)
        module = function.__globals__.get("__name__")
        if is_versioned(module):
            self._put("function", module, function.__qualname__)
            return
        self._refuse_extensions(module)
        self._put("code", plain(function.__code__))
        self.read(function.__defaults__)
        self.read(function.__kwdefaults__)
        self._read_named(_reached(function))

    def _read_by_name(self, value: Any) -> None:
        self._put(type(value).__qualname__, value.__name__)

    def _read_type(self, type_: Any) -> None:
        self._put("type", str(type_))

    def _refuse_extensions(self, name: str | None) -> None:
        """Refuse a module in which functions may mean to kernels what their own code does not say."""
        module = sys.modules.get(name or "")
        if module is None or module.__name__ in self._modules:
            return
        self._modules.add(module.__name__)
        code: CodeType | None
        try:
            code = compile(inspect.getsource(module), module.__name__, "exec", dont_inherit=True)
        except (OSError, TypeError, SyntaxError):
            code = getattr(module.__loader__, "get_code", lambda _: None)(module.__name__)
        if code is None or any(_EXTENDING.search(name) for name in _names(code)):
            raise _UnreadableError(module)


_SCALARS: tuple[Any, ...] = (bool, int, float, complex, str, bytes, type(None), type(...))
_KINDS: tuple[tuple[Any, Callable[[_Reader, Any], None]], ...] = (
    (Enum, _Reader._read_member),
    (_SCALARS, _Reader._read_scalar),
    ((tuple, list), _Reader._read_items),
    (dict, _Reader._read_dict),
    ((set, frozenset), _Reader._read_set),
    (np.ndarray, _Reader._read_array),
    (np.generic, lambda reader, value: reader._read_array(np.asarray(value))),
    ((np.dtype, numba.types.Type), _Reader._read_type),
    (type, _Reader._read_class),
    (FunctionType, _Reader._read_function),
    ((staticmethod, classmethod, type(functools.cache(len))), _Reader._read_wrapping),
    (property, _Reader._read_property),
    (
        (ModuleType, np.ufunc, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType),
        _Reader._read_by_name,
    ),
    ((types.GetSetDescriptorType, types.MemberDescriptorType), _Reader._read_by_name),
)
"""How a value is read, by the first of these that it is an instance of."""


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in code and the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _reached(function: FunctionType) -> dict[str, Any]:
    """What a function names: globals, variables of functions around it, and what it may take out of modules."""
    names = set(_names(function.__code__))
    scope = {name: function.__globals__[name] for name in names & function.__globals__.keys()}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # not yet bound
            raise _UnreadableError(name) from None
    modules = list(_modules(scope.values()))
    for module in modules:  # which grows meanwhile: names may lead from one to the next
        inside = {name: vars(module)[name] for name in sorted(names & vars(module).keys())}
        scope |= {f"{module.__name__}.{name}": value for name, value in inside.items()}
        modules += [inner for inner in _modules(inside.values()) if inner not in modules]
    return scope


def _modules(values: Iterable[Any]) -> Iterator[ModuleType]:
    return (value for value in values if isinstance(value, ModuleType) and not is_versioned(value.__name__))
