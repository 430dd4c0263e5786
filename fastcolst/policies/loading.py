"""Policies from files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from fastcolst._checks import answer, brief, memory_bound, path_text
from fastcolst._code import Code, changed_code, own_code
from fastcolst._files import ALWAYS_GRANTED, Arrays, FileFormatError, decoding, open_arrays
from fastcolst.policies.packing import class_of, parameter_from_json
from fastcolst.policies.policy import Policy
from fastcolst.policies.saved import FORMAT_VERSION, HEADER, MOST_HEADER

__all__ = ["load_policy"]

MOST_PER_BYTE = 8
"""Bytes that a policy may take for each byte of its file."""


def load_policy(path: str | os.PathLike[str], *, accept_changed_code: bool = False) -> Any:
    """Read a policy that :meth:`Policy.save` wrote; it goes on, bit for bit, as if it had never stopped.

    Duels that waited when it was saved are answered by the Duel or by its token. Those to come have tokens of a new
    epoch.

    Parameters
    ----------
    path : path
    accept_changed_code : bool, default False
        Whether to go on with classes of one's own whose code is not what it was when the policy was saved, or cannot
        be told.

    Returns
    -------
    Policy
        Of the class that was saved.

    Raises
    ------
    ValueError
        ``path`` is no path, or ``accept_changed_code`` neither True nor False.
    FileFormatError
        The file is truncated, damaged, no policy, or one of a newer format; or it names a class that was not imported,
        or whose code has changed.
    OSError
        The file cannot be read, for example because it is not there.

    Notes
    -----
    Nothing in a file is executed, unpickled or imported: what names a class of one's own finds it if its module was
    imported before. Arrays are checked before compiled code sees them, and take no more memory than the file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, fastcolst as fc
    >>> policy = fc.CoLSTIM(3, rng=1)
    >>> duel = policy.select(np.eye(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "policy.npz"
    ...     policy.save(path)
    ...     again = fc.load_policy(path)
    >>> again.update(duel.token, first_won=True)
    >>> again.round, again.pending
    (1, 0)
    """
    path, accepts = path_text("path", path), answer(accept_changed_code, "accept_changed_code")
    with open_arrays(path, stored=True) as arrays, decoding(path, "policy ", "cannot be loaded"):
        return _loaded(arrays, accepts)


def _loaded(file: Arrays, accepts: bool) -> Policy:
    header = _header(file)
    cls = class_of(header["policy"])
    if not issubclass(cls, Policy):
        raise ValueError(f"{brief(header['policy'])} is no policy; a class that derives from fc.Policy is wanted")
    there: Code = {name: [*digests] for name, digests in header["code"].items()}
    if not accepts:
        _check_code(there, {name: own_code([class_of(name)]).get(name, [None]) for name in there})
    parameters = {name: parameter_from_json(name, value) for name, value in header["parameters"].items()}
    with memory_bound(ALWAYS_GRANTED + MOST_PER_BYTE * file.size):
        policy = cls(**parameters)
        if not accepts:
            _check_code(there, policy._own_code())
        policy._restore(header, _Read(file))
    return policy


class _Read(Mapping[str, Any]):
    """A file's arrays, each read when it is asked for."""

    def __init__(self, file: Arrays) -> None:
        self._file = file

    def __getitem__(self, name: str) -> Any:
        if name not in self._file:
            raise ValueError(f"it has no array {name!r}, which is wanted")
        return self._file[name]

    def __iter__(self) -> Any:
        return iter(self._file.names)

    def __len__(self) -> int:
        return len(self._file.names)


def _header(file: Arrays) -> dict[str, Any]:
    if HEADER not in file:
        raise FileFormatError(f"{file.path!r} is no policy of fastcolst: it has no array {HEADER!r}")
    text = file[HEADER]
    if text.dtype != np.uint8 or text.ndim != 1 or text.size > MOST_HEADER:
        raise ValueError(f"its header is {text.dtype} {text.shape}; at most {MOST_HEADER:,} bytes are wanted")
    header = _Table(json.loads(text.tobytes()))
    version = header["format"]
    if type(version) is not int or version != FORMAT_VERSION:
        newer = type(version) is int and version > FORMAT_VERSION
        by = f", written by fastcolst {header['fastcolst']}" if newer else ""
        raise FileFormatError(
            f"{file.path!r} has format {brief(version)}{by}; this fastcolst reads format {FORMAT_VERSION}"
            + ("; a newer fastcolst is wanted" if newer else "")
        )
    return header


class _Table(dict[str, Any]):
    """A table of which a missing key is told in words."""

    def __missing__(self, key: str) -> Any:
        raise ValueError(f"its header has no {key!r}, which is wanted")


def _check_code(there: Code, now: Code) -> None:
    """Refuse classes of people's own whose code is not that of the file, or cannot be told."""
    changed = changed_code(there, now)
    changed += [f"{name}: unknown" for name, digests in now.items() if digests == [None] == there.get(name)]
    if changed:
        raise ValueError(
            f"the code of classes that it is made of has changed since it was saved ({'; '.join(changed)}); the same "
            "code is wanted, or accept_changed_code=True"
        )
