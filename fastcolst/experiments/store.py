"""A study's folder. What is on disk is all there is to resuming: cells that have their file are done.

    FOLDER/manifest.json    the study, the cells it is cut into, the version, the machine
    FOLDER/cells/*.parquet  results alone: the same bytes whoever computed them
    FOLDER/timings.jsonl    seconds, which never repeat

Each cell, each line of seconds and the manifest hold a digest of all their bytes, those of a cell or a line also of the
study and the cell that they belong to. What does not fit its digest is not believed: a cell is an error when it is read
and computed anew when the study is resumed, seconds count as unknown.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import math
import operator
import os
import platform
import re
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path
from typing import Any, NamedTuple, Self

import numba
import numpy as np
from numpy.typing import NDArray

from fastcolst._code import Code, changed_code, merged_code, own_code
from fastcolst._files import FileFormatError, is_sealed, optional_import, read_whole, seal, write_atomically
from fastcolst._version import __version__
from fastcolst.experiments.cells import Cell, Outcome, Work, check_amounts
from fastcolst.experiments.simulation import by_table, processors
from fastcolst.streams import STREAM_VERSION

__all__ = ["CELLS", "LOCK", "TIMINGS", "Manifest", "Store", "locked", "short", "timing"]

FORMAT_VERSION = 2
MANIFEST, CELLS, TIMINGS, LOCK = "manifest.json", "cells", "timings.jsonl", ".lock"

SHOWN_DIFFERENCES = 5


class Manifest(NamedTuple):
    """What the folder's manifest says: the study, how it is cut into cells, and where it was begun.

    ``streams`` is the version of the random streams; manifests that do not tell it are of the first.
    """

    format_version: int
    study: dict[str, Any]
    scenarios: list[dict[str, Any]]  # label, horizon, rounds
    policies: list[str]
    block_runs: list[list[int]]  # by scenario and policy
    fastcolst: str
    machine: dict[str, Any]
    code: Code = {}  # noqa: RUF012 - of a tuple; nobody changes it
    streams: int = 1

    @classmethod
    def of(cls, study: dict[str, Any], work: Work) -> Manifest:
        """The manifest of a study, given as a table, that is begun here and now."""
        return cls(
            FORMAT_VERSION,
            study,
            [{"label": label, "horizon": s.horizon, "rounds": s.rounds.tolist()} for label, s in work.settings],
            [label for label, _ in work.recipes],
            work.block_runs(),
            __version__,
            {
                "platform": platform.platform(),
                "processors": processors(),
                "python": platform.python_version(),
                "numpy": np.__version__,
                "numba": numba.__version__,
            },
            own_code([work.recipes, [setting.problem for _, setting in work.settings]]),
            STREAM_VERSION,
        )

    @classmethod
    def read(cls, folder: Path, earlier: bool = False) -> Manifest:
        """The manifest of a folder; with ``earlier`` also one of the first format, which has no digest."""
        path = folder / MANIFEST
        data = read_whole(path)
        try:
            content = json.loads(data)
            content.pop("digest", None)
            manifest = cls(content.pop("format_version"), **content)
            if manifest.format_version not in ((1, FORMAT_VERSION) if earlier else (FORMAT_VERSION,)):
                raise FileFormatError(
                    f"its format version is {manifest.format_version!r}, and {FORMAT_VERSION} is wanted; "
                    "a study of an earlier version is computed anew when it is resumed"
                )
            manifest._check()
            if manifest.format_version == FORMAT_VERSION and not is_sealed(data):
                raise FileFormatError("it is damaged or was changed, for its digest is that of other bytes")
            return manifest
        except Exception as error:  # damaged bytes can trip a decoder in any way it knows
            raise FileFormatError(f"{os.fspath(path)!r} is no manifest of a study: {error}") from error

    def _check(self) -> None:
        """Raise an error where something is not as it was written, or more than a study may ask for."""
        runs, rounds = self.study["runs"], [scenario["rounds"] for scenario in self.scenarios]
        horizons = [scenario["horizon"] for scenario in self.scenarios]
        labels = [[table["label"] for table in self.study[kind]] for kind in ("policy", "scenario")]
        shape = [len(self.policies)] * len(self.scenarios)
        if not (
            labels == [self.policies, [scenario["label"] for scenario in self.scenarios]]
            and all(isinstance(label, str) for label in itertools.chain(*labels))
            and all(type(number) is int and number > 0 for number in [runs, *itertools.chain(*self.block_runs)])
            and all(type(number) is int for number in [self.study["seed"], *horizons, *itertools.chain(*rounds)])
            and self.study["seed"] >= 0
            and type(self.streams) is int
            and all(
                r[:1] > [0] and r[-1] <= horizon < 2**62 and all(map(operator.lt, r, r[1:]))
                for horizon, r in zip(horizons, rounds, strict=True)
            )
            and min(shape, default=0) > 0
            and [len(sizes) for sizes in self.block_runs] == shape
            and all(len(digests) > 0 for digests in self.code.values())
            and all(digest is None or isinstance(digest, str) for digest in itertools.chain(*self.code.values()))
        ):
            raise ValueError("labels, rounds and runs do not fit together")
        check_amounts(runs, self.block_runs, rounds)

    def write(self, folder: Path) -> None:
        """Put it into a folder, with its digest."""
        text = json.dumps({**self._asdict(), "digest": "sha256:"}, indent=1)
        write_atomically(folder / MANIFEST, seal(text.encode()))

    def place(self) -> str:
        """What names the study in the digests of its cells: everything that their numbers depend on."""
        streams = [self.streams] if self.streams > 1 else []  # the digests of the first version's cells have none
        parts = self.fastcolst, _without_paths(self.study), self.scenarios, self.policies, self.block_runs, *streams
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def cells(self) -> list[Cell]:
        """All cells, so that whatever is done at any time is a fair share of every scenario and policy.

        Those of one scenario and the same runs stand together.
        """
        runs = self.study["runs"]
        cells = [
            Cell(s, p, block, first, min(size, runs - first))
            for s, sizes in enumerate(self.block_runs)
            for p, size in enumerate(sizes)
            for block, first in enumerate(range(0, runs, size))
        ]
        return sorted(cells, key=lambda cell: (cell.first_run / runs, cell.scenario, cell.n_runs, cell.policy))

    def differences(self, other: Manifest) -> list[str]:
        """Where the study or a version differ: "key: this one's, now the other's"."""
        mine, others = (
            {"fastcolst": m.fastcolst, "streams": m.streams, **_without_paths(m.study)} for m in (self, other)
        )
        return list(_differences(mine, others, ""))


def _without_paths(study: dict[str, Any]) -> dict[str, Any]:
    """The study with data named by what they are, not by where they lie."""
    scenarios = [{k: v for k, v in table.items() if k != "path"} for table in study["scenario"]]
    return {**study, "scenario": scenarios}


def _differences(mine: Any, other: Any, where: str) -> Iterator[str]:
    if isinstance(mine, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*mine, *other]):
            yield from _differences(mine.get(key), other.get(key), f"{where}.{key}" if where else key)
    elif isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other):
        for i, (a, b) in enumerate(zip(mine, other, strict=True)):
            named = isinstance(a, dict) and isinstance(b, dict) and a.get("label") == b.get("label") is not None
            yield from _differences(a, b, f"{where}[{a['label']!r}]" if named else f"{where}[{i}]")
    elif mine != other:
        yield f"{where}: {short(mine)}, now {short(other)}"


def short(value: Any) -> str:
    """A value, or the labels of tables, cut where that is long."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = [entry.get("label") for entry in value]
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _remove_unfinished(folder: Path, name: str) -> None:
    """Remove what a process that was killed left of files with such names, a pattern, half-written."""
    for entry in os.scandir(folder):
        if re.fullmatch(rf"\.{name}\.[0-9a-f]{{16}}\.tmp", entry.name):
            Path(entry.path).unlink()


class Store:
    """A study's folder, held by one process at a time, which alone writes."""

    def __init__(self, folder: Path, manifest: Manifest, resume: bool, accept_changed_code: bool = False) -> None:
        self.folder, self.manifest, self._resume = folder, manifest, resume
        self._accepts = accept_changed_code
        self.untold: list[str] = []
        self._place = manifest.place()
        self.damaged: list[str] = []
        self.done = 0

    def __enter__(self) -> Self:
        optional_import("pyarrow.parquet", "a study")
        with contextlib.ExitStack() as held:
            try:
                self._check_content()
                (self.folder / CELLS).mkdir(parents=True, exist_ok=True)
                held.enter_context(locked(self.folder / LOCK))
                _remove_unfinished(self.folder, re.escape(MANIFEST))
                _remove_unfinished(self.folder / CELLS, r"\d{5}-\d{5}-\d{5,}\.parquet")
                self._settle()
                self.damaged = self._remove_damaged()
                self._settle_timings()
                self._timings = held.enter_context((self.folder / TIMINGS).open("ab", buffering=0))
            except OSError as error:
                raise self._cannot_write(error) from error
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def _check_content(self) -> None:
        """Refuse a folder that is somebody else's, before anything is put into it."""
        content = {entry.name for entry in os.scandir(self.folder)} if self.folder.exists() else set()
        if not self._resume and content:
            raise FileExistsError(errno.EEXIST, "the folder is not empty; resume (--resume), or choose another one")
        begun = {name for name in content if name in (CELLS, LOCK) or name.startswith(f".{MANIFEST}.")}
        is_ours = content == begun and not (CELLS in content and any((self.folder / CELLS).iterdir()))
        if MANIFEST not in content and not is_ours:  # ours was killed before it had one
            raise FileExistsError(errno.EEXIST, "the folder holds something other than a study; choose another one")

    def _settle(self) -> None:
        """Compare with the manifest that is there, or write one."""
        if not (self.folder / MANIFEST).exists():
            self.manifest.write(self.folder)
            return
        there = Manifest.read(self.folder, earlier=True)
        differences = there.differences(self.manifest)
        if differences:
            shown = "; ".join(differences[:SHOWN_DIFFERENCES])
            more = f"; and {len(differences) - SHOWN_DIFFERENCES} more" if len(differences) > SHOWN_DIFFERENCES else ""
            raise ValueError(f"{os.fspath(self.folder)!r} holds another study: {shown}{more}")
        self.manifest = self.manifest._replace(block_runs=there.block_runs)  # however it would be cut today
        self._place = self.manifest.place()
        if any((self.folder / CELLS).iterdir()):
            self._settle_code(there)
        if there.format_version != FORMAT_VERSION or there.code != self.manifest.code:
            self.manifest.write(self.folder)

    def _settle_code(self, there: Manifest) -> None:
        """Compare the code of people's own with that of the cells that are there, and keep the digests of both."""
        changed = changed_code(there.code, self.manifest.code)
        if changed and not self._accepts:
            versions = [manifest.machine.get("python") for manifest in (there, self.manifest)]
            other = f", and Python {versions[0]}, now {versions[1]}" if versions[0] != versions[1] else ""
            shown = "; ".join(changed[:SHOWN_DIFFERENCES]) + other
            raise ValueError(
                f"{os.fspath(self.folder)!r} holds cells of other code: {shown}; choose another folder, or go on with "
                "accept_changed_code (--accept-changed-code)"
            )
        self.untold = [name for name, digests in self.manifest.code.items() if digests == [None]]
        self.manifest = self.manifest._replace(code=merged_code(there.code, self.manifest.code))

    def _settle_timings(self) -> None:
        """Keep one line for each cell that is there: no other line can be taken for one of them that is damaged."""
        path = self.folder / TIMINGS
        if not path.exists():
            return
        lines = read_whole(path).splitlines(keepends=True)
        there = {entry.name for entry in os.scandir(self.folder / CELLS)}
        by_cell = {found[0]: line for line in lines if (found := timing(line, self._place)) and found[0] in there}
        kept = list(by_cell.values())
        if kept != lines:
            write_atomically(path, b"".join(kept))

    def _remove_damaged(self) -> list[str]:
        """Remove the cells that are not what this study wrote there; their names."""
        names = {cell.name for cell in self.manifest.cells}
        damaged = []
        for entry in os.scandir(self.folder / CELLS):
            path = Path(entry.path)
            if entry.name in names and not self._is_whole(path):
                path.unlink()
                damaged.append(entry.name)
        return sorted(damaged)

    def _is_whole(self, path: Path) -> bool:
        try:
            return is_sealed(read_whole(path), self._place + path.name)
        except FileFormatError:  # a pipe, a device
            return False

    def missing(self) -> list[Cell]:
        """The cells without a file."""
        found = {entry.name for entry in os.scandir(self.folder / CELLS)}
        cells = self.manifest.cells
        missing = [cell for cell in cells if cell.name not in found]
        self.done = len(cells) - len(missing)
        return missing

    def add(self, cell: Cell, outcome: Outcome) -> None:
        """Keep a finished cell. Its seconds come first, so that no cell counts as done without them."""
        try:
            line = {"cell": cell.name, "seconds": outcome.seconds.tolist(), "worker": outcome.worker}
            text = json.dumps({**line, "digest": "sha256:"})
            _append(self._timings, seal(text.encode(), self._place) + b"\n")
            data = seal(_cell_bytes(self.manifest, cell, outcome.totals), self._place + cell.name)
            write_atomically(self.folder / CELLS / cell.name, data)
        except OSError as error:
            raise self._cannot_write(error) from error
        self.done += 1

    @property
    def state(self) -> str:
        """What there is to say of it when it ends early."""
        self.missing()  # an interrupt may have come between a cell's file and its count
        total = sum(math.ceil(self.manifest.study["runs"] / size) for row in self.manifest.block_runs for size in row)
        return (
            f"{self.done} of {total} cells are done and stay in {os.fspath(self.folder)!r}; resume (--resume) to go on"
        )

    def _cannot_write(self, error: OSError) -> OSError:
        text = error.strerror or str(error)
        return type(error)(error.errno, f"{text} ({self.state})" if self.done else text, os.fspath(self.folder))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock; the system releases it when the process ends, however that happens."""
    with path.open("ab") as file:
        try:
            import fcntl
        except ImportError:  # not POSIX: two processes in one folder would do the same work twice
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another process is computing here") from None
        yield


def timing(line: bytes, place: str) -> tuple[str, list[float]] | None:
    """A cell's name and the seconds of its runs; None when the line does not fit its digest."""
    if not line.endswith(b"\n") or not is_sealed(line[:-1], place):  # left unfinished by a killed process, say
        return None
    entry = json.loads(line)
    return entry["cell"], entry["seconds"]


def _append(file: RawIOBase, line: bytes) -> None:
    if (file.write(line) or 0) < len(line):  # a file without a buffer writes as much as there is room for
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _cell_bytes(manifest: Manifest, cell: Cell, totals: NDArray[np.float64]) -> bytes:
    """A cell's Parquet file: tidy, and without anything but results in it, with a mark to be sealed.

    The digest stands before the footer, whose length the file ends with: there readers jump over it, and it covers the
    footer as well.
    """
    pa, pq = optional_import("pyarrow", "a study"), optional_import("pyarrow.parquet", "a study")
    rounds = manifest.scenarios[cell.scenario]["rounds"]
    n, k = cell.n_runs, len(rounds)
    columns = {
        "scenario": pa.repeat(manifest.scenarios[cell.scenario]["label"], n * k),
        "policy": pa.repeat(manifest.policies[cell.policy], n * k),
        "run": np.repeat(np.arange(cell.first_run, cell.first_run + n, dtype=np.int64), k),
        "round": np.tile(np.array(rounds, np.int64), n),
        **{name: tables["cell"].ravel() for name, tables in by_table({"cell": totals}).items()},
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, version="2.6", compression="zstd", write_statistics=False)
    data = bytes(sink.getvalue().to_pybytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[:footer] + b"sha256:" + data[footer:]
