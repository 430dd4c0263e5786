"""The cache of machine code on disk.

It differs from Numba's own in what makes an entry valid. Numba stamps a kernel with the one file that defines it, so
that machine code survives a change of a helper in another file. Here the key holds a digest of every source of the
package, the flags and the boundscheck setting. Entries are single checksummed files named by their key, so that
processes which compile at the same time cannot mix theirs up. Where a kernel involves classes from outside the package
the key holds digests of their code as well (:mod:`fastcolst._compile.digest`): an entry goes with its user's code, and
no process meets it that has not imported that. What has no such digest is not kept.

Entries lie in the user's cache, not beside the sources: a folder for each version, ``<cache>/fastcolst/<digest>``. They
are pickles, which can run anything, and their checksum tells damage, not malice. So they are read only where nobody
but this user and root can have put or changed them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import pkgutil
import re
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NamedTuple

import numba

from fastcolst._compile.digest import PACKAGE, plain
from fastcolst._compile.flags import FLAGS, PLAIN

__all__ = [
    "KEPT",
    "SOURCES",
    "USERS",
    "CacheContents",
    "cache_contents",
    "cache_info",
    "clear_cache",
    "load",
    "remove",
    "save",
    "usable_folder",
    "warn_uncached",
]

DAY = 86_400.0
UNUSED_DAYS = 30
KEPT_VERSIONS = 20
"""Versions that nobody used for so long are removed, and all but so many: who edits the sources makes dozens a day."""

USERS = ".users"
"""In the name of an entry that depends on a user's code."""

_WARNINGS: list[str] = []

KEPT: list[str] = []
"""The names of the entries that this process has written."""


class CacheContents(NamedTuple):
    """What is kept: how many kernels, and their size in bytes."""

    entries: int
    bytes: int


# --- versions -----------------------------------------------------------------------------------------------


def _digest_of_sources() -> str | None:
    """Digest of what decides the machine code besides a kernel's signature; None where the sources cannot be seen."""
    # sets print in an order that changes from process to process
    flags = {name: sorted(value) if isinstance(value, set) else value for name, value in FLAGS.items()}
    python = (sys.implementation.cache_tag, getattr(sys, "abiflags", ""))
    digest = hashlib.sha256(repr((sorted(flags.items()), numba.__version__, python)).encode())
    seen = []
    try:
        for module in _modules(sys.modules[PACKAGE].__spec__):
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
        return repr(plain(module.loader.get_code(module.name))).encode()


SOURCES = _digest_of_sources()


# --- where it is, and whom it believes ----------------------------------------------------------------------


def _place() -> Path:
    """The folder in which each version has one of its own."""
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR) / PACKAGE
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else _home() / "AppData" / "Local") / PACKAGE / "Cache"
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches" / PACKAGE
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else _home() / ".cache") / PACKAGE


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


# --- entries ------------------------------------------------------------------------------------------------


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
    return [
        path
        for path in place.iterdir()
        if re.fullmatch("[0-9a-f]{12}", path.name) and path.is_dir() and not path.is_symlink()
    ]


def _entries(folder: Path) -> list[Path]:
    """The files of a version, those that a killed process left unfinished as well; by their names."""
    return [path for path in folder.iterdir() if re.fullmatch(r"[\w.<>]+-[0-9a-f]{16}\.(nbc|\w+\.tmp)", path.name)]


def _remove(folder: Path) -> None:
    """Remove the entries of a version, and its folder unless it holds something else, which is somebody's own."""
    for path in _entries(folder):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty, or another process was faster
        folder.rmdir()


def load(name: str, key: str) -> Any:
    """What this version keeps under a name and a key, or None; with one warning where it may not be believed."""
    try:
        folder = _folder()
        data = _load_entry(folder / name, key)
        if data is not None:
            _note_use(folder)
            _note_use(folder / name)
    except OSError as error:
        warn_uncached(error)
        return None
    return data


def save(name: str, key: str, make: Callable[[], Any]) -> None:
    """Keep what ``make`` returns, for this version; with one warning where that is impossible."""
    try:
        folder = _folder()
        if not folder.is_dir():
            _make_folder(folder)
            _remove_unused(folder.parent)
        _save_entry(_folder() / name, key, make())  # looked at again, now that it is there
        KEPT.append(name)
        if USERS in name:
            _remove_old_code(folder)
    except FileNotFoundError:  # another process has just cleared the cache: the next one keeps it
        return
    except OSError as error:
        warn_uncached(error)


def remove(function: str) -> None:
    """Remove what this version keeps for a function."""
    for path in _entries(_folder()):
        if path.name.startswith((f"{function}-", f"{function}{USERS}-")):
            path.unlink(missing_ok=True)


def _note_use(path: Path) -> None:
    """Let the time of a version's folder, or of an entry, tell the day of its last use."""
    with contextlib.suppress(OSError):  # one that root has filled for everybody is not ours to touch
        if time.time() - path.stat().st_mtime > DAY:
            os.utime(path)


def _remove_old_code(folder: Path) -> None:
    """Remove entries for code of users that nobody has used for long: each edit of it leaves one behind."""
    for path in _entries(folder):
        with contextlib.suppress(FileNotFoundError):
            if USERS in path.name and time.time() - path.stat().st_mtime > UNUSED_DAYS * DAY:
                path.unlink()


def _remove_unused(place: Path) -> None:
    """Remove the folders of versions that are no longer used."""
    with contextlib.suppress(FileNotFoundError):  # another process tidies up as well
        used = sorted(((folder.stat().st_mtime, folder) for folder in _versions(place)), reverse=True)
        for rank, (last_use, folder) in enumerate(used):
            if rank >= KEPT_VERSIONS or time.time() - last_use > UNUSED_DAYS * DAY:
                _remove(folder)


def warn_uncached(reason: object, remedy: str = "Set NUMBA_CACHE_DIR to a writable folder of your own.") -> None:
    """Warn of it once in a process."""
    if not _WARNINGS:
        _WARNINGS.append(str(reason))
        warnings.warn(
            f"fastcolst cannot keep its compiled kernels ({reason}): every process compiles them again. {remedy}",
            RuntimeWarning,
            stacklevel=3,
        )


# --- what is kept -------------------------------------------------------------------------------------------


def cache_info() -> dict[str, Any]:
    """Where compiled kernels are kept, how many there are and how large they are.

    Returns
    -------
    dict
        ``path`` (str, or None when kernels are not cached), ``entries`` (int) and ``bytes`` (int), of this version's
        files.
    """
    folder = usable_folder()
    if folder is None:
        return {"path": None, "entries": 0, "bytes": 0}
    return {"path": str(folder), **_contents([folder])._asdict()}


def usable_folder() -> Path | None:
    """Folder of this version; None where kernels are not cached."""
    if numba.config.DISABLE_JIT or PLAIN:
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
        _remove(folder)
    return str(_place()), removed


def _contents(folders: list[Path]) -> CacheContents:
    files = [file for folder in folders if folder.is_dir() for file in _entries(folder) if file.suffix == ".nbc"]
    sizes = [file.stat().st_size for file in files]
    return CacheContents(len(sizes), sum(sizes))
