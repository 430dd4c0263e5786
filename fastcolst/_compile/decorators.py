"""What makes functions compiled, functions of methods generic, and the classes of those methods known to kernels."""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba import types
from numba.extending import overload

from fastcolst._compile.cache import warn_uncached
from fastcolst._compile.compile_log import watched
from fastcolst._compile.digest import PACKAGE
from fastcolst._compile.flags import EXACT, FLAGS, INLINED, PART, PLAIN, SWITCHED, WHOLE
from fastcolst._compile.interrupts import uninterrupted

__all__ = [
    "COMPILER_LOCK",
    "KERNELS",
    "as_written",
    "direct",
    "formula",
    "generic",
    "helper",
    "in_kernels",
    "in_loops",
    "is_registered",
    "kernel",
    "overload_in_kernels",
    "plain",
    "register",
    "registered",
    "summation",
]

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

KERNELS: list[Any] = []
"""Every dispatcher made by :func:`kernel`, in order of definition."""

# COMPILER_LOCK is held by whoever compiles, and in a forked process for ever if nobody waits for that before.
if not PLAIN:
    from fastcolst._compile.entries import attach_cache
    from fastcolst._compile.parts import COMPILER_LOCK
else:
    COMPILER_LOCK = threading.RLock()

    def attach_cache(dispatcher: Any) -> None:
        """Attach none: Numba's own would believe any file, and go stale."""
        if PLAIN != SWITCHED:
            warn_uncached(PLAIN, "Use a version of Numba that fastcolst was tested with.")


_NAMED: dict[str, type] = {}
_REGISTERED: set[type] = set()
_GENERIC: set[str] = set()
"""Names of the methods that kernels call."""


# --- functions ----------------------------------------------------------------------------------------------


def helper(function: F) -> F:
    """Compile a function that kernels call."""
    if numba.config.DISABLE_JIT:
        return function
    compiled = numba.njit(**FLAGS, **WHOLE)(function)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return uninterrupted(compiled, *arguments)  # which may compile, or pass a generator

    overload_in_kernels(call, lambda *_: function)
    return call  # type: ignore[return-value]


def formula(function: F) -> F:
    """Compile a function of arithmetic for kernels; Python evaluates it as it is, of numbers and of whole arrays.

    A :func:`helper` would be compiled for each number of dimensions, in every process.
    """
    return _in_kernels_as(function, function)


def _in_kernels_as(function: F, compiled: Callable[..., Any], **flags: Any) -> F:
    """``function`` for Python to call as it is, with ``compiled`` in its place in kernels."""

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return function(*arguments)

    overload_in_kernels(call, lambda *_: compiled, **flags)
    return call  # type: ignore[return-value]


def as_written(function: F) -> F:
    """Compile a function for kernels with every operation rounded as it is written; Python calls it as it is.

    Other code may fuse a product and a sum where the processor can, and Python cannot. What is to be the same bits on
    every machine and without the JIT consists of such functions, of +, -, *, / and square roots.
    """
    return in_loops(function)(function)


def in_loops(loops: Callable[..., Any]) -> Callable[[F], F]:
    """Let kernels call ``loops`` where Python calls the decorated function, which does the same with whole arrays.

    Both round every operation as it is written, and give the same bits.
    """
    return lambda function: _in_kernels_as(function, loops, **EXACT)


def summation(function: F) -> F:
    """A helper whose sums kernels may reorder, so that they vectorise: passes take a third to an eighth of the time.

    Use it only for what a single kernel calls: two could add up in different orders, and would round differently.
    """
    if numba.config.DISABLE_JIT:
        return function
    return _in_kernels_as(function, function, fastmath=FLAGS["fastmath"] | {"reassoc"})


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function behind a :func:`helper`, for Python to call where compiling would cost more than it saves.

    Helpers that it calls would be compiled all the same.
    """
    return getattr(function, "__wrapped__", function)


def kernel(function: F) -> F:
    """Compile a function that Python calls, and keep its machine code on disk."""
    compiled = numba.njit(**FLAGS, **WHOLE)(function)
    if not numba.config.DISABLE_JIT:
        attach_cache(compiled)
        compiled.compile = watched(compiled)
    KERNELS.append(compiled)
    return compiled  # type: ignore[no-any-return]


def direct(kernel: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """A kernel as a call for arguments of these types and no others, compiled or loaded now.

    Calls go to the machine code without a look at the arguments, which takes Numba 0.5 us for a handle: whoever calls
    vouches for their types, of arrays for number type, order, alignment and leave to write.
    """
    if PLAIN or numba.config.DISABLE_JIT:
        return kernel
    signature = tuple(map(numba.typeof, arguments))
    made = kernel.overloads.get(signature)  # type: ignore[attr-defined]
    entry: Callable[..., Any] = kernel.compile(signature) if made is None else made.entry_point  # type: ignore[attr-defined]
    return entry


def in_kernels(compiled: Callable[..., Any]) -> Callable[[F], F]:
    """Let kernels call ``compiled`` for a scalar where Python, and kernels for arrays, call the decorated function."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(x: Any) -> Any:
            return function(x)

        overload_in_kernels(call, lambda x: compiled if isinstance(x, types.Float) else function)
        return call  # type: ignore[return-value]

    return decorate


def generic(function: F) -> F:
    """Let ``function(self, ...)`` call the method of that name, in Python and in kernels.

    The body of ``function`` is what a registered class without such a method gets.
    """
    name = function.__name__
    _GENERIC.add(name)

    @functools.wraps(function)
    def call(self: Any, *arguments: Any) -> Any:
        return _for_kernels(getattr(type(self), name, function))(self, *arguments)

    def method(self: Any, *_: Any) -> Callable[..., Any] | None:
        cls = getattr(self, "instance_class", None)
        return _for_kernels(getattr(cls, name, function)) if cls in _REGISTERED else None

    # LLVM deems the normal law's tails too long to inline by itself, and without that a loop over them never vectorises
    # (a gradient of Thurstone's model takes 3 times as long)
    overload_in_kernels(call, method, forceinline=name in INLINED)
    return call  # type: ignore[return-value]


def _for_kernels(method: Callable[..., Any]) -> Callable[..., Any]:
    """What kernels call for a method: where people's calls are checked first, what comes after the checks."""
    unchecked: Callable[..., Any] = getattr(method, "for_kernels", method)
    return unchecked


def overload_in_kernels(call: Callable[..., Any], choose: Callable[..., Any], **flags: Any) -> None:
    """Let kernels, where they call ``call``, run what ``choose`` returns for the types of the arguments."""
    names = ", ".join(inspect.signature(call).parameters)  # an overload that takes *args does not lower
    chooser = eval(f"lambda {names}: choose({names})", {"choose": choose})  # noqa: S307
    overload(call, jit_options={**FLAGS, **PART, **flags}, strict=False)(chooser)


# --- classes ------------------------------------------------------------------------------------------------


def register(cls: C) -> C:
    """Make the methods of a NamedTuple callable from kernels: what :func:`fastcolst.register` does for such a class.

    Raises
    ------
    TypeError
        When ``cls`` is not a NamedTuple, has no field, or a method for kernels sets an attribute.
    """
    if not (isinstance(cls, type) and cls.__bases__ == (tuple,) and hasattr(cls, "_fields")):
        from fastcolst._words import brief

        raise TypeError(f"register needs a class that derives from typing.NamedTuple, got {brief(cls)}")
    if cls in _REGISTERED:
        return cls
    fields: tuple[str, ...] = cls._fields
    if not fields:
        raise TypeError(f"{cls.__name__} has no field; a registered NamedTuple needs at least one")
    for name in sorted(_GENERIC & vars(cls).keys()):
        _refuse_rebinding(cls, vars(cls)[name])
    floats = [name for name in fields if _is_float(cls.__annotations__.get(name))]
    plain_new = cls.__new__

    def new(klass: type, *args: Any, **kwargs: Any) -> Any:
        self = plain_new(klass, *args, **kwargs)
        for name in floats:
            value = getattr(self, name)
            if type(value) is not float:
                self = self._replace(**{name: _as_float(klass, name, value)})
        return self.checked() if hasattr(klass, "checked") else self

    new.__signature__ = inspect.signature(plain_new)  # type: ignore[attr-defined]
    cls.__new__ = new  # type: ignore[method-assign, assignment]
    _REGISTERED.add(cls)
    _tell_apart(cls)
    return cls


def _tell_apart(cls: type) -> None:
    """Give a class whose name another has already one that nobody has; none of the package's is renamed.

    Numba's dispatchers know a NamedTuple by its name and its fields' names and types. Of two models that have these in
    common, in two modules or after a cell of a notebook has been run again, one would get the other's machine code.
    """
    name = cls.__name__
    first = _NAMED.setdefault(name, cls)
    if first is cls:
        return
    ours = cls.__module__.partition(".")[0] == PACKAGE
    _NAMED[name], renamed = (cls, first) if ours else (first, cls)
    shown: Any = renamed.__repr__
    renamed.__name__ = next(free for n in itertools.count(2) if (free := f"{name}_{n}") not in _NAMED)
    renamed.__repr__ = lambda self: shown(self).replace(renamed.__name__, name, 1)  # type: ignore[misc, assignment]
    _NAMED[renamed.__name__] = renamed


def is_registered(cls: type) -> bool:
    """Whether kernels know the methods of a class."""
    return cls in _REGISTERED


def _refuse_rebinding(cls: type, method: Any) -> None:
    """Refuse ``memory.theta = ...`` in a method that kernels call, or in a function of its module that this one calls.

    In Python a NamedTuple refuses it. In kernels it would compile, and rebind the field of a handle that nobody else
    holds: the caller would never see the new value.
    """
    todo, seen = [method], []
    while todo:
        function = todo.pop()
        function = getattr(function, "py_func", getattr(function, "__wrapped__", function))
        code = getattr(function, "__code__", None)
        if code is None or function.__module__ != cls.__module__ or function in seen:
            continue
        seen.append(function)
        for instruction in dis.get_instructions(code):
            if instruction.opname == "STORE_ATTR":
                name = instruction.argval
                raise TypeError(
                    f"{cls.__name__}: {function.__name__} sets the attribute {name}, which its caller would never see; "
                    f"arrays are changed in place: .{name}[:] = ..., or .{name}[()] = ... where there is one number"
                )
        todo += [function.__globals__[name] for name in code.co_names if name in function.__globals__]


def registered(value: Any, argument: str) -> Any:
    """A user's NamedTuple as an instance of a registered class, its fields converted and checked.

    Raises
    ------
    ValueError
        When its class cannot be registered; the message opens with the name of the argument.
    """
    try:
        cls = register(type(value))
    except TypeError as error:
        raise ValueError(f"{argument}: {error}") from None
    return cls(*value)


def _is_float(annotation: object) -> bool:
    return getattr(annotation, "__forward_arg__", annotation) in (float, "float")


def _as_float(cls: type, name: str, value: object) -> float:
    from fastcolst._words import brief, real_number

    try:
        return real_number(value)
    except Exception:  # noqa: BLE001 - numbers of the caller's own may raise what they like
        shown = cls.__qualname__.rpartition(".")[2]
        raise ValueError(f"{shown}: {name} is {brief(value)}; a number is wanted") from None
