"""Files: those of other people's making, read with care, our own, written whole and sealed; and optional packages.

Read is what is a file, and only as far as it can hold what it claims. Whatever is wrong with the bytes is one
:class:`FileFormatError` that names the file, however a decoder trips over it; nothing in a file is executed. Sizes are
compared with the file's own before memory is taken:

    claimed bytes <= 1,032 * bytes in the file (+ 16 MiB)        deflate's best, which honest tables keep far from
    claimed bytes <= a quarter of the machine's memory           reading makes copies
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import io
import json
import math
import os
import re
import secrets
import stat
import time
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = [
    "Arrays",
    "FileFormatError",
    "check_claim",
    "decoding",
    "is_sealed",
    "machine_bytes",
    "most_bytes",
    "open_arrays",
    "opened",
    "optional_import",
    "read_json",
    "read_toml",
    "read_whole",
    "remove_leftovers",
    "seal",
    "write_atomically",
]

DAY = 86_400.0
"""Seconds."""
EXPANSION = 1_032
"""Bytes that deflate can make of one."""
ALWAYS_GRANTED = 2**24
"""Bytes that a file may claim whatever its size."""
MOST_TOML = 2**20
"""Bytes of a TOML file."""
_LONG_KEY = re.compile(rb"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){33}""")
"""A key with so many dots that the parser would take quadratic time for it, or for what stands below it."""
MOST_HEADER = 10_012
"""Bytes before an array's numbers: NumPy's own limit for the text that describes it, and what stands before that."""
BLOCK = 2**20


class FileFormatError(ValueError):
    """A file is truncated, damaged, or was not written by fastcolst."""


# --- reading ------------------------------------------------------------------------------------------------


def machine_bytes() -> int | None:
    """Bytes of memory that the machine has; None where the system does not tell."""
    try:
        page, n_pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return page * n_pages if min(page, n_pages) > 0 else None


def most_bytes() -> int:
    """What a file may claim at most: a quarter of the machine's memory, or 4 GiB where that is not told."""
    return (machine_bytes() or 2**34) // 4


def check_claim(path: str, what: str, claimed: int, held: int) -> None:
    """Check that a file with so many bytes, or a part of it, can hold what it claims, and that this machine can.

    Raises
    ------
    FileFormatError
        With both numbers.
    """
    if claimed > EXPANSION * held + ALWAYS_GRANTED:
        raise FileFormatError(f"{path!r}: {what} claims {claimed:,} bytes, which {held:,} bytes cannot hold")
    if claimed > most_bytes():
        raise FileFormatError(
            f"{path!r}: {what} claims {claimed:,} bytes; at most {most_bytes():,} are wanted, a quarter of the memory"
        )


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for reading, and nothing but a file: a pipe would be waited for, and a device has no end.

    Raises
    ------
    FileFormatError
        It is something else.
    OSError
        It cannot be opened: it is not there, or a folder.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise FileFormatError(f"{os.fspath(path)!r} is no regular file")
        yield file


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a file, which must be one and fit :func:`most_bytes`; raises as :func:`opened` does."""
    with opened(path) as file:
        check_claim(os.fspath(path), "the file", size := os.fstat(file.fileno()).st_size, size)
        return file.read()


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@contextlib.contextmanager
def decoding(path: str, what: str = "", fault: str = "cannot be read") -> Iterator[None]:
    """Turn whatever damaged bytes make a decoder raise into one error that names the file, and the fault.

    Raises
    ------
    FileFormatError
        For any exception but the system's own, such as a disk that cannot be read.
    """
    try:
        yield
    except FileFormatError:
        raise
    except Exception as error:
        # A decoder's own OSErrors have no number; a seek to before the beginning has EINVAL.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise FileFormatError(f"{what}{path!r} {fault}: {str(error) or type(error).__name__}") from error


class Arrays:
    """Named arrays in an .npz file, each read when it is asked for, and never unpickled.

    Parameters
    ----------
    file : binary file
    path : str
        What messages call it.
    stored : bool
        Whether members must be stored, not deflated: then all together hold no more bytes than the file.

    Attributes
    ----------
    path : str
    names : list of str
    size : int
        Bytes of the file.

    Raises
    ------
    FileFormatError
        It is no archive, or is damaged: a name in its directory must be the one that stands beside the data.

    Notes
    -----
    Understood is what ``numpy.savez`` and ``savez_compressed`` write: members stored or deflated, with a checksum each.
    An array is read after its header was compared with the member's size, to the byte, and that with the file's.
    """

    def __init__(self, file: BinaryIO, path: str, stored: bool = False) -> None:
        self.path = path
        self._members: dict[str, zipfile.ZipInfo] = {}
        with decoding(path):
            if file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
                raise FileFormatError(f"{path!r} holds one array; named arrays (.npz, by numpy.savez) are wanted")
            self._zip = zipfile.ZipFile(file)
            for member in self._zip.infolist():
                name = member.filename.removesuffix(".npy")
                if name in self._members:
                    raise FileFormatError(f"{path!r} has two arrays with the name {name!r}")
                if member.comment:  # a damaged length makes one of the members after this
                    raise FileFormatError(f"array {name!r} of {path!r} has a comment, as numpy.savez writes none")
                if stored and member.compress_type != zipfile.ZIP_STORED:
                    raise FileFormatError(f"array {name!r} of {path!r} is not stored, as is wanted")
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise FileFormatError(f"array {name!r} of {path!r} is neither stored nor deflated")
                self._zip.open(member).close()
                self._members[name] = member
        self.names = list(self._members)
        held = sum(member.file_size for member in self._members.values())
        self.size = file.seek(0, os.SEEK_END)
        if stored and held > self.size:
            raise FileFormatError(f"{path!r}: its arrays claim {held:,} bytes, which {self.size:,} bytes cannot hold")

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Read one of them.

        Raises
        ------
        FileFormatError
            It is damaged, holds objects or records, or claims more than there is.
        """
        member, what = self._members[name], f"array {name!r} of "
        with decoding(self.path, what), self._zip.open(member) as file:
            head = io.BytesIO(file.read(MOST_HEADER))
            shape, is_fortran, dtype = _header(head)
            if dtype.hasobject or dtype.names or dtype.subdtype or dtype.itemsize == 0 or min(shape, default=0) < 0:
                raise ValueError(f"it is {dtype}{list(shape)}; plain values are wanted")
            size, there = math.prod(shape) * dtype.itemsize, member.file_size - head.tell()
            if size != there:
                raise ValueError(f"{dtype}{list(shape)} takes {size:,} bytes, and {there:,} are there")
            check_claim(self.path, f"array {name!r}", math.prod(shape) * max(dtype.itemsize, 8), member.compress_size)
            data = np.empty(size, np.uint8)
            place = 0
            while place < size:  # the last byte makes the checksum be compared
                block = head.read() or file.read(BLOCK)
                if not block:
                    raise EOFError(f"{size - place:,} bytes are missing")
                data[place : place + len(block)] = np.frombuffer(block, np.uint8)
                place += len(block)
            values: NDArray[Any] = data.view(dtype)
            return values.reshape(shape[::-1]).transpose() if is_fortran else values.reshape(shape)


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array; the file then stands at its first number."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"its format has version {version}; 1.0 or 2.0 is wanted")


@contextlib.contextmanager
def open_arrays(path: str | os.PathLike[str], stored: bool = False) -> Iterator[Arrays]:
    """Open an .npz file of named arrays; ``stored``: see :class:`Arrays`.

    Raises
    ------
    FileFormatError
        The file is damaged, or none.
    OSError
        It cannot be opened.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from fastcolst._files import open_arrays
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "arrays.npz"
    ...     np.savez(path, a=[1, 2], b=[[0.5]])
    ...     with open_arrays(path) as arrays:
    ...         arrays.names, arrays["b"]
    (['a', 'b'], array([[0.5]]))
    """
    with opened(path) as file:
        yield Arrays(file, os.fspath(path), stored)


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a TOML file holds.

    Raises
    ------
    FileFormatError
        It is no TOML, not UTF-8, nested too deeply for the parser, or larger than 1 MiB, or has a key of more than 32
        parts.
    OSError
        It cannot be opened.
    """
    with opened(path) as file:
        text = file.read(MOST_TOML + 1)
    if len(text) > MOST_TOML:
        raise FileFormatError(f"{os.fspath(path)!r} is larger than {MOST_TOML:,} bytes, which no TOML of ours may be")
    if _LONG_KEY.search(text):
        raise FileFormatError(f"{os.fspath(path)!r} has a key of more than 32 parts")
    with decoding(os.fspath(path), fault="is no TOML"):  # nor UTF-8, or it has a number of thousands of digits
        return tomllib.loads(text.decode())


def read_json(path: str | os.PathLike[str]) -> Any:
    """What a JSON file holds.

    Raises
    ------
    FileFormatError
        It is no JSON, or nested too deeply for the parser.
    OSError
        It cannot be opened.
    """
    with opened(path) as file:
        text = file.read()
    with decoding(os.fspath(path), fault="is damaged"):
        return json.loads(text)


# --- writing ------------------------------------------------------------------------------------------------


def write_atomically(path: str | os.PathLike[str], data: bytes | memoryview) -> None:
    """Write a file so that after a crash either the old or the new content stands, whole.

    The bytes go to a temporary file in the same folder, which is flushed to disk and then renamed over
    `path`; the folder is flushed too, because the new name lives there. A symbolic link stays one: its target
    is replaced.

    Raises
    ------
    OSError
        Something failed: `path` is as it was, and the temporary file is gone.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException as error:  # Ctrl-C as well
        with contextlib.suppress(OSError):  # the first error is the one to report
            temporary.unlink()
        if isinstance(error, OSError) and error.filename == os.fspath(temporary):
            error.filename = os.fspath(path)  # the name that whoever called knows
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened
        _sync_folder(target.parent)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what :func:`write_atomically` left beside a file when it was killed, a day ago or earlier.

    By then no writer is at work; if one was asleep for so long, its renaming fails and `path` is as it was. What cannot
    be removed stays.
    """
    target, now = Path(os.path.realpath(path)), time.time()
    with contextlib.suppress(OSError):
        for entry in os.scandir(target.parent):
            if re.fullmatch(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.tmp", entry.name):
                with contextlib.suppress(OSError):
                    if now - entry.stat(follow_symlinks=False).st_mtime > DAY:
                        Path(entry.path).unlink()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_MARK, _DIGITS = b"sha256:", 64


def seal(data: bytes, about: str = "") -> bytes:
    """Put a digest of all bytes behind the last "sha256:" in them.

    Parameters
    ----------
    data : bytes
        Ready but for the digest; the mark stands where a reader of the format does not mind 64 more letters.
    about : str
        What else the digest covers: where these bytes belong.
    """
    before, mark, after = data.rpartition(_MARK)
    return before + mark + _seal_of(before, after, about) + after


def is_sealed(data: bytes, about: str = "") -> bool:
    """Whether these are the very bytes that :func:`seal` returned for that place."""
    before, mark, rest = data.rpartition(_MARK)
    return bool(mark) and rest[:_DIGITS] == _seal_of(before, rest[_DIGITS:], about)


def _seal_of(before: bytes, after: bytes, about: str) -> bytes:
    digest = hashlib.sha256(f"{about}\n".encode())
    digest.update(before)
    digest.update(_MARK)
    digest.update(after)
    return digest.hexdigest().encode()


# --- optional packages --------------------------------------------------------------------------------------

EXTRAS = {
    **dict.fromkeys(("matplotlib", "pandas", "pyarrow", "tqdm"), "'fastcolst[study]'"),
    "distributed": "'fastcolst[dask]'",
}
"""What to install for a distribution; others go by their own name."""


def optional_import(name: str, purpose: str) -> Any:
    """Import a module that only studies need, or say how to get it.

    Parameters
    ----------
    name : str
        The module; its distribution has the name of the top package.
    purpose : str
        What it is needed for; opens the message.

    Raises
    ------
    ImportError
        The module is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        distribution = name.partition(".")[0]
        extra = EXTRAS.get(distribution)
        raise ImportError(f"{purpose} needs {distribution}: pip install {extra or distribution}") from error
