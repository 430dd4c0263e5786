"""How fastcolst compiles: the only module that talks to Numba's decorators and its cache.

Three decorators serve the whole package:

``helper``
    a function called by kernels; compiled into its callers, never cached by itself.
``kernel``
    a function called from Python; its machine code is cached on disk.
``generic``
    a function ``f(self, ...)`` that means ``self.f(...)``, in Python and in kernels alike. Models, estimators and
    rules are registered NamedTuples with ordinary methods, and kernels reach those methods through generic
    functions, so that one kernel source serves every combination.

The cache differs from Numba's own in what makes an entry valid. Numba stamps a kernel with the one file that defines
it, so that machine code survives a change of a helper in another file. Here the key holds a digest of every source of
the package, the flags and the boundscheck setting. Entries are single checksummed files named by their key, so that
processes which compile at the same time cannot mix theirs up, and code that involves a class from outside the package
is never written: it would go stale with the user's file, and would stop processes that cannot import that file.

Entries lie in the user's cache, not beside the sources: a folder for each version, ``<cache>/fastcolst/<digest>``. They
are pickles, which can run anything, and their checksum tells damage, not malice. So they are read only where nobody
but this user and root can have put or changed them.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import inspect
import os
import pickle
import pkgutil
import re
import shutil
import stat
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple, TypeVar

import numba
from llvmlite import ir
from numba import types
from numba.experimental import structref
from numba.extending import intrinsic, overload

__all__ = [
    "COMPILER_LOCK",
    "CacheContents",
    "cache_contents",
    "cache_info",
    "clear_cache",
    "generic",
    "helper",
    "in_kernels",
    "kernel",
    "make_agent",
    "register",
    "registered",
    "shared_fields",
    "slot",
    "times_power_of_two",
]

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

# Every flag is explicit: one left out would be inherited from whichever caller is compiled first. No "nnan" and no
# "ninf": kernels look for them. No "reassoc": it lets two specialisations of one formula round differently, and the
# loops run over arms, where it gains nothing.
FLAGS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nsz"},
    "boundscheck": False,  # NUMBA_BOUNDSCHECK=1 overrides
    "parallel": False,
    "forceinline": False,
}

INLINED = frozenset({"cdf", "pdf", "score", "curvature"})
"""Generic functions that kernels call once for each comparison of a history."""

KERNELS: list[Any] = []
"""Every dispatcher made by :func:`kernel`, in order of definition."""

_PACKAGE = __name__.partition(".")[0]
_REGISTERED: set[type] = set()
_GENERIC: set[str] = set()
"""Names of the methods that kernels call."""
_WARNINGS: list[str] = []


def _digest_of_sources() -> str | None:
    """Digest of what decides the machine code besides a kernel's signature; None where the sources cannot be seen."""
    # sets print in an order that changes from process to process
    flags = {name: sorted(value) if isinstance(value, set) else value for name, value in FLAGS.items()}
    python = (sys.implementation.cache_tag, getattr(sys, "abiflags", ""))
    digest = hashlib.sha256(repr((sorted(flags.items()), numba.__version__, python)).encode())
    seen = []
    try:
        for module in _modules(sys.modules[_PACKAGE].__spec__):
            seen.append(module.name)
            digest.update(module.name.encode())
            digest.update(_content(module))
    except (AttributeError, ImportError, OSError):
        return None
    return digest.hexdigest()[:12] if __name__ in seen else None


def _modules(module: Any) -> Iterator[ModuleSpec]:
    """A module and, of a package, all in it: they may be files in a folder or a zip, or frozen into a program."""
    yield module
    for info in sorted(pkgutil.iter_modules(module.submodule_search_locations or ()), key=lambda info: info.name):
        finder: Any = info.module_finder
        yield from _modules(finder.find_spec(f"{module.name}.{info.name}"))


def _content(module: Any) -> bytes:
    """The file of a module; its bytecode where it has none, as in a program that PyInstaller made."""
    try:
        return bytes(module.loader.get_data(module.origin))
    except OSError:
        return repr(_plain(module.loader.get_code(module.name))).encode()


def _plain(value: Any) -> Any:
    """Bytecode, or a constant of it, as something that prints alike in every process."""
    if isinstance(value, CodeType):
        names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
        return value.co_code, names, [_plain(constant) for constant in value.co_consts]
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value


SOURCES = _digest_of_sources()


# --- parts and kernels --------------------------------------------------------------------------------------

PART: dict[str, Any] = {}
"""Options for a function that is only ever linked into others."""

WHOLE: dict[str, Any] = {"no_cfunc_wrapper": True}
"""Options for a function that Python calls."""

try:
    from numba.core import ir as numba_ir
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler
    from numba.core.compiler_machinery import AnalysisPass, register_pass
    from numba.core.runtime.context import NRTContext
    from numba.core.typed_passes import AnnotateTypes

    class _Linked(JITCodeLibrary):  # type: ignore[misc]
        """The code of a part.

        Numba optimises every function by itself and turns it into machine code, and then does all of it again for each
        function into which that one is linked. A part is linked as it was written: kernels compile in half the time,
        and come out the same.
        """

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        def get_pointer_to_function(self, _: str) -> int:
            self._ensure_finalized()
            return 0  # there is none

        @property
        def codegen(self) -> type:
            return _NoEnvironment

    class _NoEnvironment:
        """Takes the address of a part's environment, which goes into the code of kernels instead."""

        @staticmethod
        def set_env(name: str, environment: Any) -> None:
            pass

    class _Uncounted(NRTContext):  # type: ignore[misc]
        """Counts no references."""

        def incref(self, builder: Any, type_: Any, value: Any) -> None:
            pass

        decref = incref

    _LENDERS = {
        "getattr": (types.Array, types.BaseTuple, types.StructRef, types.NumPyRandomGeneratorType),
        "getitem": (types.Array, types.BaseTuple),
        "static_getitem": (types.Array, types.BaseTuple),
        "exhaust_iter": (types.BaseTuple,),
    }
    """What may be looked into, and how, without getting anything new: a list or a string hands out what it makes."""

    _HARMLESS = (numba_ir.Del, numba_ir.Jump, numba_ir.Branch, numba_ir.StaticRaise)

    class _Holdings:
        """The arrays and handles that a part's variables name."""

        def __init__(self, state: Any) -> None:
            self.state = state

        def are_borrowed(self) -> bool:
            """Whether the part returns, makes and keeps none: all it holds lies in its arguments."""
            blocks = self.state.func_ir.blocks.values()
            return all(self._borrows(statement) for block in blocks for statement in block.body)

        def _borrows(self, statement: Any) -> bool:
            if isinstance(statement, numba_ir.Assign):
                return not self._is_counted(statement.target) or self._is_lent(statement.value)
            if isinstance(statement, numba_ir.Return):
                return not self._is_counted(statement.value)
            if isinstance(statement, (numba_ir.SetItem, numba_ir.StaticSetItem)):
                return isinstance(self._type(statement.target), types.Array)  # which holds numbers
            return isinstance(statement, _HARMLESS)

        def _is_lent(self, value: Any) -> bool:
            if not isinstance(value, numba_ir.Expr):
                return not isinstance(value, numba_ir.Yield)  # an argument, a constant or another variable
            if value.op == "call":
                return isinstance(self._type(value.func), types.NamedTupleClass)
            if value.op == "getitem" and self._is_counted(value.index):
                return False  # an array as index makes a copy
            if value.op in _LENDERS:
                return isinstance(self._type(value.value), _LENDERS[value.op])
            return value.op in {"cast", "build_tuple"}

        def _type(self, variable: Any) -> Any:
            return self.state.typemap[variable.name]

        def _is_counted(self, variable: Any) -> bool:
            return bool(self.state.targetctx.data_model_manager[self._type(variable)].contains_nrt_meminfo())

    @register_pass(mutates_CFG=False, analysis_only=True)
    class _Borrow(AnalysisPass):  # type: ignore[misc]
        """Leaves out the counts of references in a part of the package that only borrows.

        Numba counts, by an atomic instruction, whenever a variable begins or ceases to name an array. In parts of a few
        dozen operations that takes a quarter of the time.
        """

        _name = "fastcolst_borrow"

        def __init__(self) -> None:
            super().__init__()

        def run_pass(self, state: Any) -> bool:
            ours = str(state.func_id.func.__module__).partition(".")[0] == _PACKAGE
            if ours and _Holdings(state).are_borrowed():
                state.targetctx.nrt = _Uncounted(state.targetctx, True)
                state.targetctx.cached_internal_func = {}  # shared with code that counts
            return False

    class _PartCompiler(Compiler):  # type: ignore[misc]
        """Compiles a part into code to link."""

        def define_pipelines(self) -> Any:
            pipelines = super().define_pipelines()
            for pipeline in pipelines:
                pipeline.add_pass_after(_Borrow, AnnotateTypes)
                pipeline.finalize()
            return pipelines

        def compile_extra(self, function: Any) -> Any:
            self.state.library = _Linked(self.state.targetctx.codegen(), function.__qualname__)
            return super().compile_extra(function)

    class _KernelCompiler(Compiler):  # type: ignore[misc]
        """Compiles what Python calls, and gives its code the environments of the parts that were linked into it."""

        def compile_extra(self, function: Any) -> Any:
            compiled = super().compile_extra(function)
            for environment in compiled._find_referenced_environments():
                self.state.targetctx.codegen().set_env(environment.env_name, environment)
            return compiled

    PART["pipeline_class"] = _PartCompiler
    WHOLE["pipeline_class"] = _KernelCompiler
except ImportError:  # Numba moved its internals
    pass


try:
    from numba.core.compiler_lock import global_compiler_lock

    COMPILER_LOCK: Any = global_compiler_lock._lock
except (ImportError, AttributeError):  # Numba moved its internals
    COMPILER_LOCK = threading.RLock()
"""Held by whoever compiles, and in a forked process for ever if nobody waits for that before."""


# --- registered classes and generic functions ---------------------------------------------------------------


def register(cls: C) -> C:
    """Make the methods of a NamedTuple callable from kernels. Use it as a class decorator.

    Fields annotated ``float`` are converted when an instance is built, so that ``Cauchy(1)`` and ``Cauchy(1.0)``
    share their machine code. A method ``checked(self)``, where there is one, is called then: it raises ``ValueError``
    for a bad field and returns the instance to use.

    Parameters
    ----------
    cls : type
        A class that derives from ``typing.NamedTuple`` directly, has at least one field, and whose fields are numbers,
        arrays or registered instances. Methods must be written in the subset of Python that Numba compiles; class
        attributes are invisible to them (use fields or module globals).

    Raises
    ------
    TypeError
        When ``cls`` is not a NamedTuple, has no field, or a method for kernels sets an attribute.

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
    return cls


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
        raise ValueError(f"{cls.__name__}: {name} is {brief(value)}; a number is wanted") from None


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
    _overload_in_kernels(call, method, forceinline=name in INLINED)
    return call  # type: ignore[return-value]


def _for_kernels(method: Callable[..., Any]) -> Callable[..., Any]:
    """What kernels call for a method: where people's calls are checked first, what comes after the checks."""
    unchecked: Callable[..., Any] = getattr(method, "for_kernels", method)
    return unchecked


def _overload_in_kernels(call: Callable[..., Any], choose: Callable[..., Any], **flags: Any) -> None:
    """Let kernels, where they call ``call``, run what ``choose`` returns for the types of the arguments."""
    names = ", ".join(inspect.signature(call).parameters)  # an overload that takes *args does not lower
    chooser = eval(f"lambda {names}: choose({names})", {"choose": choose})  # noqa: S307
    overload(call, jit_options={**FLAGS, **PART, **flags}, strict=False)(chooser)


# --- decorators ---------------------------------------------------------------------------------------------


def helper(function: F) -> F:
    """Compile a function that kernels call."""
    if numba.config.DISABLE_JIT:
        return function
    compiled = numba.njit(**FLAGS, **WHOLE)(function)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return compiled(*arguments)

    _overload_in_kernels(call, lambda *_: function)
    return call  # type: ignore[return-value]


def kernel(function: F) -> F:
    """Compile a function that Python calls, and keep its machine code on disk."""
    compiled = numba.njit(**FLAGS, **WHOLE)(function)
    if not numba.config.DISABLE_JIT:
        _attach_cache(compiled)
    KERNELS.append(compiled)
    return compiled  # type: ignore[no-any-return]


def in_kernels(compiled: Callable[..., Any]) -> Callable[[F], F]:
    """Let kernels call ``compiled`` for a scalar where Python, and kernels for arrays, call the decorated function."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(x: Any) -> Any:
            return function(x)

        _overload_in_kernels(call, lambda x: compiled if isinstance(x, types.Float) else function)
        return call  # type: ignore[return-value]

    return decorate


@intrinsic  # type: ignore[untyped-decorator]
def times_power_of_two(typing_context: Any, value: Any, power: Any) -> Any:
    """value * 2^power, for kernels; ``power`` is a whole number as a float. The result must be a normal number.

    The power is added to the exponent's bits, which takes no table and no branch, so that loops over it vectorise.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, bits = arguments[0].type, ir.IntType(64)
        # adding 1.5 * 2^52 puts a whole number into the lowest bits of a double
        shifted = builder.fadd(arguments[1], ir.Constant(number, 6755399441055744.0))
        exponent = builder.shl(builder.bitcast(shifted, bits), ir.Constant(bits, 52))
        return builder.bitcast(builder.add(builder.bitcast(arguments[0], bits), exponent), number)

    return types.float64(types.float64, types.float64), generate


# --- the cache on disk --------------------------------------------------------------------------------------


DAY = 86_400.0
UNUSED_DAYS = 30
KEPT_VERSIONS = 20
"""Versions that nobody used for so long are removed, and all but so many: who edits the sources makes dozens a day."""


class CacheContents(NamedTuple):
    """What is kept: how many kernels, and their size in bytes."""

    entries: int
    bytes: int


def _place() -> Path:
    """The folder in which each version has one of its own."""
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR) / _PACKAGE
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else _home() / "AppData" / "Local") / _PACKAGE / "Cache"
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches" / _PACKAGE
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else _home() / ".cache") / _PACKAGE


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise OSError(str(error)) from None


def _folder() -> Path:
    """Folder of this version, which need not be there yet.

    Raises
    ------
    OSError
        When there is no home, or when another user might plant files here: the folder or one above it, as far up as
        the home, belongs to somebody else or may be written to by others.
    """
    if SOURCES is None:
        raise OSError("its sources cannot be seen")
    folder = Path(os.path.realpath(_place() / SOURCES))
    if os.name == "posix":
        home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 (where there is none, this is no error)
        for path in (folder, *folder.parents):
            with contextlib.suppress(FileNotFoundError):
                _refuse_foreign(path, path.stat(), above=path not in {folder, folder.parent})
            if str(path) == home:
                break
    return folder


def _refuse_foreign(path: Path, status: os.stat_result, *, above: bool = False) -> None:
    """Raise unless only this user, or root, can have written what is there.

    In a folder above the cache it is enough that nobody else can rename what is ours.
    """
    if os.name != "posix":  # elsewhere the user's cache is the user's
        return
    if status.st_uid not in {0, os.geteuid()}:
        raise PermissionError(f"{str(path)!r} belongs to another user")
    writers = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    harmless = status.st_mode & stat.S_ISVTX or (writers == stat.S_IWGRP and _is_private(status.st_gid))
    if writers and not (above and harmless):
        raise PermissionError(f"others may write to {str(path)!r}")


def _is_private(group: int) -> bool:
    """Whether a group is this user's alone: many systems give everyone one, and let it write to what one creates."""
    import grp
    import pwd

    try:
        user, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    alone = set(members.gr_mem) <= {user.pw_name}
    return alone and user.pw_uid != 0 and (user.pw_gid, user.pw_name) == (group, members.gr_name)


def _make_folder(folder: Path) -> None:
    """Create a folder, and what is missing above it, for this user alone."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _load_entry(path: Path, key: str) -> Any:
    """What was saved under the key, or None. A damaged file counts as absent.

    Raises
    ------
    OSError
        When the file is there and cannot be read, is a link, or is one that another user owns or may write to.
    """
    try:
        with open(path, "rb", opener=_open_no_link) as file:
            _refuse_foreign(path, os.fstat(file.fileno()))  # the open file: no other can take its place any more
            content = file.read()
    except FileNotFoundError:
        return None
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    saved_key, data = pickle.loads(content[32:])
    return data if saved_key == key else None


def _open_no_link(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0))


def _save_entry(path: Path, key: str, data: Any) -> None:
    """Write an entry: a checksum and a pickle, which appear whole or not at all."""
    content = pickle.dumps((key, data), protocol=-1)
    descriptor, temporary = tempfile.mkstemp(".tmp", f"{path.stem}.", path.parent)  # with mode 600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
        Path(temporary).replace(path)
    except BaseException as error:  # Ctrl-C as well
        Path(temporary).unlink(missing_ok=True)
        # Windows replaces no file that is open: another process reads what it just saved under the same key
        if not (os.name == "nt" and isinstance(error, PermissionError) and path.exists()):
            raise


def _versions(place: Path) -> list[Path]:
    """The folders of all versions."""
    if not place.is_dir():
        return []
    return [path for path in place.iterdir() if re.fullmatch("[0-9a-f]{12}", path.name) and path.is_dir()]


def _note_use(folder: Path) -> None:
    """Let the time of a version's folder tell the day of its last use."""
    if time.time() - folder.stat().st_mtime > DAY:
        with contextlib.suppress(OSError):  # one that root has filled for everybody is not ours to touch
            os.utime(folder)


def _remove_unused(place: Path) -> None:
    """Remove the folders of versions that are no longer used."""
    with contextlib.suppress(FileNotFoundError):  # another process tidies up as well
        used = sorted(((folder.stat().st_mtime, folder) for folder in _versions(place)), reverse=True)
        for rank, (last_use, folder) in enumerate(used):
            if rank >= KEPT_VERSIONS or time.time() - last_use > UNUSED_DAYS * DAY:
                shutil.rmtree(folder, ignore_errors=True)


def _classes_in(type_: types.Type) -> Iterator[type]:
    """The NamedTuple classes that a signature's type holds, at any depth."""
    cls = getattr(type_, "instance_class", None)
    if cls is not None:
        yield cls
    for inner in (*getattr(type_, "types", ()), *getattr(type_, "field_dict", {}).values()):
        yield from _classes_in(inner)


def _is_ours(signature: Any) -> bool:
    """True when machine code for this signature depends on no class from outside the package."""
    arguments = signature.args if hasattr(signature, "args") else signature
    return all(cls.__module__.partition(".")[0] == _PACKAGE for argument in arguments for cls in _classes_in(argument))


def _warn_uncached(reason: object, remedy: str = "Set NUMBA_CACHE_DIR to a writable folder of your own.") -> None:
    """Warn of it once in a process."""
    if not _WARNINGS:
        _WARNINGS.append(str(reason))
        warnings.warn(
            f"fastcolst cannot keep its compiled kernels ({reason}): every process compiles them again. {remedy}",
            RuntimeWarning,
            stacklevel=3,
        )


try:
    from numba.core.caching import _Cache
    from numba.core.compiler import CompileResult

    class _PackageCache(_Cache):  # type: ignore[misc]
        """The entries of one kernel, as Numba's dispatchers ask for them and hand them over."""

        def __init__(self, function: Callable[..., Any]) -> None:
            self._function = f"{function.__module__}.{function.__qualname__}"
            self._enabled = True

        @property
        def cache_path(self) -> str | None:
            folder = _usable_folder()
            return None if folder is None else str(folder)

        def enable(self) -> None:
            self._enabled = True

        def disable(self) -> None:
            self._enabled = False

        def flush(self) -> None:
            for path in _folder().glob(f"{self._function}-*.nbc"):
                path.unlink(missing_ok=True)

        def _entry(self, sig: Any, codegen: Any) -> tuple[str, str]:
            """The name of a signature's file, and the key that it must hold."""
            key = repr((self._function, str(sig), codegen.magic_tuple(), numba.config.BOUNDSCHECK, SOURCES))
            return f"{self._function}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.nbc", key

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            if not (self._enabled and _is_ours(sig)):
                return None
            target_context.refresh()  # or it does not know its own functions yet
            name, key = self._entry(sig, target_context.codegen())
            try:
                folder = _folder()
                data = _load_entry(folder / name, key)
                if data is None:
                    return None
                _note_use(folder)
            except OSError as error:
                _warn_uncached(error)
                return None
            return CompileResult._rebuild(target_context, *data)

        def save_overload(self, sig: Any, data: Any) -> None:
            if not (self._enabled and _is_ours(sig)) or data.library.has_dynamic_globals:  # addresses of this process
                return
            name, key = self._entry(sig, data.codegen)
            try:
                folder = _folder()
                if not folder.is_dir():
                    _make_folder(folder)
                    _remove_unused(folder.parent)
                _save_entry(_folder() / name, key, data._reduce())  # looked at again, now that it is there
            except OSError as error:
                _warn_uncached(error)

except ImportError:  # Numba moved its internals
    _PackageCache = None  # type: ignore[assignment, misc]


def _attach_cache(dispatcher: Any) -> None:
    """Attach our cache; none where Numba's internals have moved: its own would believe any file, and go stale."""
    if dispatcher.py_func.__module__.partition(".")[0] != _PACKAGE:
        return  # the digest of sources does not see it
    if _PackageCache is not None and hasattr(dispatcher, "_cache"):
        dispatcher._cache = _PackageCache(dispatcher.py_func)
    else:
        _warn_uncached(
            "the internals of this Numba are not known", "Use a version of Numba that fastcolst was tested with."
        )


def cache_info() -> dict[str, Any]:
    """Where compiled kernels are kept, how many there are and how large they are.

    Returns
    -------
    dict
        ``path`` (str, or None when kernels are not cached), ``entries`` (int) and ``bytes`` (int), of this version's
        files.
    """
    folder = _usable_folder()
    if folder is None:
        return {"path": None, "entries": 0, "bytes": 0}
    return {"path": str(folder), **_contents([folder])._asdict()}


def _usable_folder() -> Path | None:
    """Folder of this version; None where kernels are not cached."""
    if numba.config.DISABLE_JIT or _PackageCache is None:
        return None
    try:
        folder = _folder()
    except OSError:
        return None
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return folder if os.access(there, os.R_OK if there == folder else os.W_OK) else None


def cache_contents() -> tuple[str, CacheContents, CacheContents]:
    """The place of the cache, and what this version and all others keep there."""
    versions = _versions(_place())
    ours = [folder for folder in versions if folder.name == SOURCES]
    return str(_place()), _contents(ours), _contents([folder for folder in versions if folder not in ours])


def clear_cache() -> tuple[str, CacheContents]:
    """Remove the compiled kernels of all versions; returns the place, and what was removed."""
    versions = _versions(_place())
    removed = _contents(versions)
    for folder in versions:
        shutil.rmtree(folder)
    return str(_place()), removed


def _contents(folders: list[Path]) -> CacheContents:
    sizes = [file.stat().st_size for folder in folders for file in folder.glob("*.nbc")]
    return CacheContents(len(sizes), sum(sizes))


# --- an argument that costs nothing to pass -----------------------------------------------------------------


class AgentType(types.StructRef):  # type: ignore[misc]
    """The type of an :class:`Agent`, which holds the types of its rule and its state."""

    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, types.unliteral(type_)) for name, type_ in fields)


class Agent(structref.StructRefProxy):  # type: ignore[misc]
    """A rule and a state under one handle, for kernels.

    Numba works out the type of a NamedTuple at every call, a microsecond for each one that is nested in it: seven for a
    rule and a state. A handle knows its type. The arrays of the state are shared, not copied.
    """

    __slots__ = ()


structref.register(AgentType)
structref.define_proxy(Agent, AgentType, ["rule", "state"])


class HandleType(types.StructRef):  # type: ignore[misc]
    """The type of a state behind a handle: that of a NamedTuple which holds arrays."""

    def __init__(self, fields: Any, instance_class: type) -> None:
        self.instance_class = instance_class
        super().__init__(fields)
        fields_name: str = self.name  # type: ignore[has-type]
        self.name = f"{instance_class.__module__}.{instance_class.__qualname__}: {fields_name}"


structref.register(HandleType)


def handle(value: Any) -> Any:
    """In kernels, a NamedTuple of arrays as a handle, at any depth; anything else as it is.

    A NamedTuple goes by value: every function that it passes through counts two references for each of its arrays,
    which for twenty arrays and six functions takes longer than the arithmetic. A handle counts one.
    """
    return value


def _handle_type(type_: Any) -> Any:
    if not isinstance(type_, types.BaseNamedTuple) or not any(map(_holds_arrays, type_.types)):
        return type_
    fields = [
        (name, _handle_type(field)) for name, field in zip(type_.instance_class._fields, type_.types, strict=True)
    ]
    return HandleType(fields, type_.instance_class)


def _holds_arrays(type_: Any) -> bool:
    return isinstance(type_, types.Array) or any(map(_holds_arrays, getattr(type_, "types", ())))


def _compiled_handle(value: Any) -> Any:
    handle_type = _handle_type(value)
    if handle_type is value:
        return lambda value: value
    lines = "\n".join(f"    made.{name} = handle(value.{name})" for name in value.instance_class._fields)
    scope = {"handle": handle, "handle_type": handle_type, "new": structref.new}
    source = f"def make(value):\n    made = new(handle_type)\n{lines}\n    return made"
    exec(source, scope)  # noqa: S102  the names of the fields are known here only
    return scope["make"]


_overload_in_kernels(handle, _compiled_handle)


def shared_fields(cls: type) -> tuple[str, ...]:
    """Names of the fields that stacked NamedTuples of a class have in common: what its ``shared()`` returns."""
    names: tuple[str, ...] = getattr(cls, "shared", tuple)()
    return names


def slot(stacked: Any, index: int) -> Any:
    """One of several equal NamedTuples whose arrays were stacked along a first axis: views of its arrays.

    The fields that are shared are passed on as they are. In kernels both sides are handles: one is allocated for each
    NamedTuple, and no array.
    """
    shared = shared_fields(type(stacked))
    return type(stacked)(
        *(
            field if name in shared else slot(field, index) if isinstance(field, tuple) else field[index, ...]
            for name, field in zip(stacked._fields, stacked, strict=True)
        )
    )


def _slot_type(type_: Any) -> Any:
    if isinstance(type_, types.Array):
        return type_.copy(ndim=type_.ndim - 1)
    shared = shared_fields(type_.instance_class)
    fields = [(name, field if name in shared else _slot_type(field)) for name, field in type_.field_dict.items()]
    return HandleType(fields, type_.instance_class)


def _compiled_slot(stacked: Any, index: Any) -> Any:
    shared = shared_fields(stacked.instance_class)
    lines = ["def take(stacked, index):", "    made = new(slot_type)"]
    for name, field in stacked.field_dict.items():
        if name in shared:
            lines.append(f"    made.{name} = stacked.{name}")
        elif isinstance(field, types.Array):  # in kernels [index, ...] of a vector is a number
            view = "[index]" if field.ndim > 1 else "[index : index + 1].reshape(())"
            lines.append(f"    made.{name} = stacked.{name}{view}")
        else:
            lines.append(f"    made.{name} = slot(stacked.{name}, index)")
    scope = {"slot": slot, "slot_type": _slot_type(stacked), "new": structref.new}
    exec("\n".join([*lines, "    return made"]), scope)  # noqa: S102  as above
    return scope["take"]


_overload_in_kernels(slot, _compiled_slot)


@kernel
def _agent(rule: Any, state: Any) -> Any:
    return Agent(rule, handle(state))


class _PlainAgent(NamedTuple):
    """The same without the JIT."""

    rule: Any
    state: Any


def make_agent(rule: Any, state: Any) -> Any:
    """The handle by which kernels know a rule and a state."""
    return _PlainAgent(rule, state) if numba.config.DISABLE_JIT else _agent(rule, state)
