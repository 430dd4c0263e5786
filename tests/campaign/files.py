"""Files that are not what they say: an error that is documented, or what the file holds, and little memory.

A child process reads thousands of files of each kind, each mutated by a stream of its own, so that kind, trial and seed
repeat any of them: `python -m campaign.files SEED 5000 FOLDER csv --only 17`. Arrays in an .npz carry checksums: there
a damaged file is an error or the very same arrays.
"""

from __future__ import annotations

import argparse
import faulthandler
import gzip
import io
import itertools
import json
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import fastcolst as fc
from campaign import policies
from campaign.tally import Campaign, Tally

TRIALS = 5_000  # of each kind
MEGABYTES = 200  # that reading a small file may take, at most
SECONDS = 20  # after which reading a small file counts as endless
BACKSTOP = 4 << 30  # bytes of address space: a fault shall not take the machine with it

TOML = b"""horizon = 30
runs = 2
seed = 7

[[policy]]
name = "CoLSTIM"
estimator = ["sgd", {name = "sgd", learning_rate = 0.1}]
width_scale = [0.5, 5.0]

[[policy]]
name = "UniformPairs"
label = "Random"

[[scenario]]
name = ["easy", "hard"]
n_arms = [3, 5]
n_features = 2

[[scenario]]
label = "mine"
theta = [1.0, 0.5]
contexts = [[1.0, 0.0], [0.5, 0.2], [0.0, 1.0]]
horizon = 12
checkpoints = [5, 10]
comparison = {name = "thurstone", sigma = 2.0}
"""


class Evil:
    """What makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, (str(self.mark),)


class Kind(NamedTuple):
    """A kind of file: its extension, files that are right, how one is read, and what it may claim."""

    extension: str
    right: Callable[[], list[bytes]]
    read: Callable[[Path], object]
    claim: Callable[[np.random.Generator, bytes, Path], bytes]
    errors: tuple[type[Exception], ...] = (ValueError,)
    checksums: bool = False


# --- files that are right -----------------------------------------------------------------------------------


def _table() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    m = 60
    columns = {f"{side}_{name}": rng.normal(size=m).round(3) for side in "ab" for name in ("speed", "price")}
    return {**columns, "outcome": rng.integers(0, 2, m), "year": rng.integers(1980, 2000, m)}


def _csv() -> list[bytes]:
    table = {**_table(), "city": np.resize(["Oslo", "Rome", ""], 60)}
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    return [("\n".join(lines) + "\n").encode()]


def _parquet() -> list[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({**_table(), "city": np.resize(["Oslo", "Rome", "Bergen"], 60)})
    files = []
    for compression in ("snappy", "zstd", "none"):
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression=compression)
        files.append(sink.getvalue().to_pybytes())
    return files


def _archives(arrays: dict[str, object]) -> list[bytes]:
    files = []
    for save in (np.savez, np.savez_compressed):
        buffer = io.BytesIO()
        save(buffer, **arrays)
        files.append(buffer.getvalue())
    return files


def _log_archives() -> list[bytes]:
    rng = np.random.default_rng(3)
    year, city = rng.integers(1980, 2000, 50), np.resize(["Oslo", "Rome"], 50)
    return _archives({"Z": rng.normal(size=(50, 3)), "y": rng.integers(0, 2, 50), "year": year, "city": city})


def _scored_archives() -> list[bytes]:
    rng = np.random.default_rng(4)
    contexts, scores = rng.normal(size=(6, 3, 2)), rng.normal(size=(6, 3))
    return _archives({"contexts": contexts, "scores": scores, "maximize": False})


# --- how they are read --------------------------------------------------------------------------------------


def _told(log: fc.Log) -> tuple[object, ...]:
    return log.contrasts.tobytes(), log.wins.tobytes(), log.features, log.counts


def _read_table(path: Path) -> object:
    return _told(fc.read_log(path, first="a_*", second="b_*", where=["year >= 1985", "city != 'Oslo'"]))


def _read_archive(path: Path) -> object:
    return _told(fc.read_log(path, where=["year >= 1985", "city != 'Oslo'"]))


def _read_scored(path: Path) -> object:
    scenario = {"name": "file", "path": str(path)}
    study = fc.Study({"Random": fc.UniformPairs()}, {"real": scenario}, horizon=5)
    return study._settings["real"].problem.digest, study._settings["real"].problem.maximize


def _read_toml(path: Path) -> object:
    return fc.Study.from_toml(path).to_dict()


# --- what they may claim ------------------------------------------------------------------------------------

SHAPES = (
    (10**13,), (10**13, 3), (3, 10**13), (0, 10**12), (10**12, 0), (-1, 3), (2**62, 2**62), (2**63,), (1,) * 500, (),
    (150,), (150, 1), (1, 150), (50, 3), (75, 2),
)  # fmt: skip
TYPES = ("<f8", ">f8", "|u1", "<U0", "|V0", "<U100000000", "|O", "<M8[ns]", "<c16", "<f4", "<i8", "|b1", "xyz")


def _claiming_archive(rng: np.random.Generator, data: bytes, mark: Path) -> bytes:
    """An archive whose checksums are right, and a header, a size or a content that is not."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = str(rng.choice(list(members)))
    old = members[name]
    start = 10 + int.from_bytes(old[8:10], "little")
    kind = rng.integers(8)
    if kind <= 3:
        shape, dtype = SHAPES[rng.integers(len(SHAPES))], TYPES[rng.integers(len(TYPES))]
        order = bool(rng.integers(2))
        text = f"{{'descr': {dtype!r}, 'fortran_order': {order}, 'shape': {shape!r}, }}".encode()
        if kind == 3:
            text = [b"(" * 9_000, b"[" * 90_000, b"{'descr': 9" + b"9" * 9_000, b"", text[:-4]][rng.integers(5)]
        version = int(rng.choice([1, 1, 1, 2, 3, 9]))
        length = struct.pack("<H" if version == 1 else "<I", min(len(text), 65_535))
        members[name] = b"\x93NUMPY" + bytes([version, 0]) + length + text + old[start:]
    elif kind == 4:  # sizes beyond what is there
        members[name] = old[:8] + struct.pack("<H", int(rng.integers(65_536))) + old[10:]
    elif kind == 5:
        members[name] = old[: rng.integers(len(old) + 1)] + rng.bytes(int(rng.integers(40)))
    elif kind == 6:
        objects = np.empty(50, object)
        objects[:] = [Evil(mark)] * 50
        buffer = io.BytesIO()
        np.save(buffer, objects, allow_pickle=True)
        members[name] = pickle.dumps(Evil(mark)) if rng.integers(2) else buffer.getvalue()
    buffer = io.BytesIO()
    methods = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names that are there twice
        with zipfile.ZipFile(buffer, "w", methods[rng.integers(2 if kind < 7 else 4)]) as archive:
            for member, content in members.items():
                archive.writestr(member, content)
            if kind == 7:
                archive.writestr(name, bytes(50_000_000) if rng.integers(20) == 0 else old[:-8] + bytes(8))
    made = bytearray(buffer.getvalue())
    if rng.integers(4) == 0:  # the directory's own numbers: sizes, method, flags, offset
        place = made.rindex(b"PK\x01\x02") + int(rng.choice([8, 10, 20, 24, 28, 42]))
        made[place : place + 4] = struct.pack("<I", int(rng.choice([0xFFFFFFFF, 0x7FFFFFFF, 1, 12, 14, 2**20])))
    return bytes(made)


def _claiming_csv(rng: np.random.Generator, data: bytes, _: Path) -> bytes:
    head, _, rest = data.partition(b"\n")
    cells = [b"1e999", b"-inf", b"nan", b"9" * 5_000, b"True", b'"', b"\x00", b"1979-05-27", b"1+2j", b"\xff", b"=1+1"]
    kind = rng.integers(6)
    if kind == 0:
        return head + b"," * int(rng.integers(1, 300_000)) + b"\n" + rest
    if kind == 1:
        return b'"' + b"\n," * 100_000 + data
    if kind == 2:
        return data + b'"' + b"x" * int(rng.integers(200_000))
    if kind == 3:
        return b"\xef\xbb\xbf" + data if rng.integers(2) else data.decode().encode("utf-16")
    lines = data.split(b"\n")
    for _ in range(int(rng.integers(1, 6))):
        line = int(rng.integers(len(lines) - 1))
        row = lines[line].split(b",")
        row[rng.integers(len(row))] = cells[rng.integers(len(cells))]
        lines[line] = b",".join(row)
    return b"\n".join(lines)


def _claiming_gzip(rng: np.random.Generator, data: bytes, mark: Path) -> bytes:
    kind = rng.integers(4)
    if kind == 0:
        made = gzip.decompress(data) + bytes(int(rng.integers(2_000_000)))
        return gzip.compress(made, mtime=0)
    if kind == 1:
        return data + data[: rng.integers(len(data))]
    if kind == 2:
        return data[:-8] + rng.bytes(8)
    return gzip.compress(_claiming_csv(rng, gzip.decompress(data), mark), 1, mtime=0)


def _claiming_parquet(rng: np.random.Generator, data: bytes, _: Path) -> bytes:
    """Numbers of the footer or of a page's head made huge: they are written as varints."""
    made = bytearray(data)
    length = int.from_bytes(data[-8:-4], "little")
    first = len(data) - 8 - length if rng.integers(3) else 4
    for _ in range(int(rng.integers(1, 4))):
        place = first + int(rng.integers(min(length, len(data) - 8 - first)))
        huge = [b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x80\x08"]
        number = huge[rng.integers(len(huge))]
        made[place : place + len(number)] = number
    made[-8:] = data[-8:]
    if rng.integers(10) == 0:
        made[-8:-4] = struct.pack("<I", int(rng.integers(2**32)))
    return bytes(made)


def _claiming_toml(rng: np.random.Generator, data: bytes, _: Path) -> bytes:
    n = int(10 ** rng.uniform(0, 5))
    numbers = [b"9" * n, b"0x" + b"f" * min(n, 9_000), b"-1", b"1e999", b"nan", b"inf", b"true", b"1979-05-27", b'""']
    numbers += [b"10000000000", b"4611686018427387903", b"1_000_000", b"[" * n + b"1" + b"]" * n, b"{a=" * n, b"1" * 40]
    numbers += [b"[" + b"1," * n + b"]", b'"' + b"x" * n + b'"', b'"\\u0000"', b"{" + b"a." * n + b"b=1}"]
    lines = data.split(b"\n")
    kind = rng.integers(4)
    if kind == 0:
        grid = b"[" + b",".join(str(i).encode() for i in range(1, n % 12 + 2)) + b"]"
        keys = [b"ridge", b"clip", b"width_scale", b"coupling", b"horizon", b"exploration_rounds"]
        chosen = [key + b" = " + grid for key in keys[: rng.integers(1, 7)]]
        return data.replace(b"width_scale = [0.5, 5.0]", b"\n".join(chosen))
    if kind == 1:
        return data + b"[" + b"a." * n + b"a]\nb=1\n"
    if kind == 2:
        return data + b'[[policy]]\nname = "UniformPairs"\n' * min(n, 12_000)
    given = [i for i, line in enumerate(lines) if b"=" in line]
    for _ in range(int(rng.integers(1, 4))):
        i = given[rng.integers(len(given))]
        lines[i] = lines[i].partition(b"=")[0] + b"= " + numbers[rng.integers(len(numbers))]
    return b"\n".join(lines)


KINDS = {
    "npz log": Kind(".npz", _log_archives, _read_archive, _claiming_archive, checksums=True),
    "npz scores": Kind(".npz", _scored_archives, _read_scored, _claiming_archive, checksums=True),
    "policy": Kind(
        ".policy.npz", policies.right, policies.read, policies.claiming, errors=(fc.FileFormatError,), checksums=True
    ),
    "csv": Kind(".csv", _csv, _read_table, _claiming_csv),
    "csv.gz": Kind(".csv.gz", lambda: [gzip.compress(d, mtime=0) for d in _csv()], _read_table, _claiming_gzip),
    "parquet": Kind(".parquet", _parquet, _read_table, _claiming_parquet),
    # A path that leads nowhere is the system's error.
    "toml": Kind(".toml", lambda: [TOML], _read_toml, _claiming_toml, errors=(ValueError, OSError)),
}
WAYS = ("flip", "cut", "splice", "claim", "noise")


def mutated(way: str, kind: Kind, data: bytes, rng: np.random.Generator, mark: Path) -> bytes:
    """The file with some of it changed."""
    made = bytearray(data)
    if way == "flip":
        for place in rng.integers(0, 8 * len(data), int(rng.integers(1, 9))):
            made[place // 8] ^= 1 << int(place % 8)
    elif way == "cut":
        del made[rng.integers(len(data)) :]
    elif way == "splice":
        a, b, to, gone = (int(number) for number in rng.integers(0, len(data), 4))
        made[to : to + (gone % 50) * int(rng.integers(2))] = data[min(a, b) : min(max(a, b), min(a, b) + 200)]
    elif way == "claim":
        made[:] = kind.claim(rng, data, mark)
    else:
        kept = data[: rng.integers(0, 12)]
        made[:] = kept + rng.bytes(int(rng.integers(0, 600)))
    return bytes(made)


# --- the child, and who waits for it ------------------------------------------------------------------------


def run(campaign: Campaign) -> Iterator[Tally]:
    """Read mutated files of every kind."""
    n = campaign.amount(TRIALS, least=2 * len(WAYS))
    tallies = {name: Tally(f"{name}: an error that is documented or a result") for name in KINDS}
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-m", "campaign.files", str(campaign.seed), str(n), str(campaign.folder)]
    waiting = list(KINDS)
    while waiting:
        with subprocess.Popen(
            [*command, *waiting], stdout=subprocess.PIPE, text=True, env=environment, cwd=Path(__file__).parents[1]
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                name, trial, failure = json.loads(line)
                tallies[name].count(not failure, f"{name} {trial}: {failure}")
        ended = next((name for name in waiting if tallies[name].tried < n), None)
        if ended is not None:
            tallies[ended].count(False, f"{ended} {tallies[ended].tried}: the process ended with {child.returncode}")
        waiting = [name for name in waiting if not tallies[name].tried]  # what it did not come to
    yield from tallies.values()


def _trial(name: str, kind: Kind, campaign: Campaign, trial: int, right: dict[bytes, object]) -> str:
    """Read one mutated file; return what is wrong with that, if anything."""
    rng = campaign.rng("files", name, trial)
    data = list(right)[rng.integers(len(right))]
    way, mark = WAYS[trial % len(WAYS)], campaign.folder / "executed"
    path = campaign.folder / f"file{kind.extension}"
    path.write_bytes(mutated(way, kind, data, rng, mark))
    start = time.monotonic()
    expected = right[data] if kind.checksums and way != "claim" else None
    faults = [
        _reading_fault(kind, path, expected),
        f"{time.monotonic() - start:.0f} seconds" if time.monotonic() - start > SECONDS else "",
        "the file's code was executed" if mark.exists() else "",
    ]
    return next((f"{way}: {fault}" for fault in faults if fault), "")


def _reading_fault(kind: Kind, path: Path, expected: object) -> str:
    try:
        found = kind.read(path)
    except kind.errors as error:
        if isinstance(error, fc.FileFormatError) and path.name not in str(error):
            return f"the error does not name the file: {error}"
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
        return f"{type(error).__name__}: {str(error)[:200]}"
    else:
        return "other arrays, without a word" if expected is not None and found != expected else ""
    return ""


def _child() -> None:
    parser = argparse.ArgumentParser()
    for argument, of in (("seed", int), ("trials", int), ("folder", Path)):
        parser.add_argument(argument, type=of)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--only", type=int, help="the one trial to repeat")
    given = parser.parse_args()
    warnings.simplefilter("error")
    campaign = Campaign(given.seed, 1.0, given.folder)
    right: dict[str, dict[bytes, object]] = {name: {} for name in given.names}
    for name, _ in itertools.product(given.names, range(2)):  # twice: what is loaded once is loaded
        path = given.folder / f"file{KINDS[name].extension}"
        for data in KINDS[name].right():
            path.write_bytes(data)
            right[name][data] = KINDS[name].read(path)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BACKSTOP,) * 2)
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("no end")))
    base = _peak()
    for name, trial in itertools.product(given.names, range(given.trials) if given.only is None else [given.only]):
        faulthandler.dump_traceback_later(3 * SECONDS, exit=True)  # where a signal finds no ear
        signal.alarm(2 * SECONDS)
        failure = _trial(name, KINDS[name], campaign, trial, right[name])
        signal.alarm(0)
        if _peak() > base + MEGABYTES:
            failure = failure or f"{WAYS[trial % len(WAYS)]}: {_peak() - base:.0f} MB taken"
            base = _peak()
        sys.stdout.write(json.dumps([name, trial, failure]) + "\n")
        sys.stdout.flush()


def _peak() -> float:
    """The most memory that this process ever took, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)


if __name__ == "__main__":
    _child()
