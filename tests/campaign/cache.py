"""The cache of compiled kernels: damaged entries, and entries that others may have planted."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import numba
import numpy as np
from sandbox import Planted

from campaign.tally import Campaign, Tally
from fastcolst._compile import cache

NOBODY = 65_534


def run(campaign: Campaign) -> Iterator[Tally]:
    yield _damaged_entries(campaign)
    if os.name == "posix":
        yield _planted_entries(campaign)


# --- damage -------------------------------------------------------------------------------------------------


def _flip_bits(rng: np.random.Generator, content: bytes, donor: bytes) -> bytes:
    damaged = bytearray(content)
    for place in rng.integers(len(content), size=rng.integers(1, 9)):
        damaged[place] ^= 1 << rng.integers(8)
    return bytes(damaged)


def _cut(rng: np.random.Generator, content: bytes, donor: bytes) -> bytes:
    return content[: rng.integers(len(content))]


def _cut_out(rng: np.random.Generator, content: bytes, donor: bytes) -> bytes:
    start, stop = np.sort(rng.integers(len(content) + 1, size=2))
    return content[:start] + content[stop:]


def _append(rng: np.random.Generator, content: bytes, donor: bytes) -> bytes:
    return content + rng.bytes(rng.integers(1, 100))


def _splice(rng: np.random.Generator, content: bytes, donor: bytes) -> bytes:
    return content[: rng.integers(len(content))] + donor[rng.integers(len(donor)) :]


def _checksum_of_another(rng: np.random.Generator, content: bytes, donor: bytes) -> bytes:
    return content[:32] + donor[32:]


def _overwrite(rng: np.random.Generator, content: bytes, donor: bytes) -> bytes:
    start = rng.integers(len(content))
    length = rng.integers(1, 1000)
    return content[:start] + bytes(length) + content[start + length :]


DAMAGES: tuple[Callable[[np.random.Generator, bytes, bytes], bytes], ...] = (
    _flip_bits,
    _cut,
    _cut_out,
    _append,
    _splice,
    _checksum_of_another,
    _overwrite,
)


def _damaged_entries(campaign: Campaign) -> Tally:
    """An entry gives what was saved, or nothing; what it was damaged with is a pickle that would leave a trace."""
    tally = Tally("damaged entries that gave wrong code or ran something")
    path, ran = campaign.folder / "entry.nbc", campaign.folder / "ran"
    sizes = campaign.rng("sizes")
    contents, saved = [], []
    for size in (10, 1_000, 40_000):
        saved.append({"code": sizes.bytes(size), "name": "play", "constants": (1.0, None)})
        cache._save_entry(path, f"key {size}", saved[-1])
        contents.append((f"key {size}", path.read_bytes()))
    body = pickle.dumps(("key 10", Planted(ran)))
    donor = bytes(32) + body * 3
    for trial in range(campaign.amount(5_000)):
        rng = campaign.rng("damage", trial)
        which = rng.integers(len(contents))
        key, content = contents[which]
        damage = DAMAGES[rng.integers(len(DAMAGES))]
        damaged = damage(rng, content, donor)
        path.write_bytes(damaged)
        try:
            loaded = cache._load_entry(path, key)
        except Exception as error:  # noqa: BLE001 - whatever comes out is the finding
            loaded = error
        good = loaded == (saved[which] if damaged == content else None) and not ran.exists()
        tally.count(good, f"trial {trial}, {damage.__name__} of {key!r}: {loaded!r:.80}, ran: {ran.exists()}")
    other = campaign.folder / "other.nbc"
    for (key, content), (another, _) in zip(contents, contents[1:] + contents[:1], strict=True):
        other.write_bytes(content)  # whole, in the place of another
        tally.count(cache._load_entry(other, another) is None, f"{key!r} in the place of {another!r}")
    return tally


# --- malice -------------------------------------------------------------------------------------------------


def _planted_entries(campaign: Campaign) -> Tally:
    """An entry runs what it holds if and only if nobody but this user and root can have put it there."""
    tally = Tally("planted entries that ran, and own ones that were refused")
    before = numba.config.CACHE_DIR
    try:
        for trial in range(campaign.amount(1_000)):
            named = campaign.folder / f"planted{trial}"
            numba.config.CACHE_DIR = str(named)
            tally.count(*_plant(campaign.rng("planted", trial), named, f"trial {trial}"))
    finally:
        numba.config.CACHE_DIR = before
    return tally


def _plant(rng: np.random.Generator, named: Path, trial: str) -> tuple[bool, str]:
    """Whether the entry ran when it may and only then, and what was done to it."""
    assert cache.SOURCES is not None
    folder, ran = named / "fastcolst" / cache.SOURCES, named.with_suffix(".ran")
    cache._make_folder(folder)
    entry = folder / "entry.nbc"
    body = pickle.dumps(("key", Planted(ran)))
    entry.write_bytes(hashlib.sha256(body).digest() + body)
    done, trusted = [], True
    if rng.random() < 0.1:
        entry.rename(folder / "elsewhere")
        entry.symlink_to(folder / "elsewhere")
        done, trusted = ["a link"], False
    else:
        # half of all trials leave everything as it is but for one or two levels
        for level in rng.choice(4, size=rng.integers(1, 3), replace=False):
            path = (entry, folder, folder.parent, named)[level]
            mode = 0o700 | int(rng.integers(0o100)) | (0o1000 if rng.random() < 0.3 else 0)
            if rng.random() < 0.5:
                mode &= ~0o022
            writers = mode & 0o022
            if path == named and writers == 0o020:  # which a group of the user's own may have
                mode, writers = mode | 0o002, 0o022
            path.chmod(mode)
            trusted &= not writers or (path == named and bool(mode & 0o1000))
            done.append(f"{path.name}: {mode:o}")
            if os.geteuid() == 0 and rng.random() < 0.2:
                os.chown(path, NOBODY, NOBODY)
                trusted = False
                done.append("of another user")
    try:
        cache._load_entry(cache._folder() / entry.name, "key")
        refused = False
    except OSError:
        refused = True
    return (ran.exists(), refused) == (trusted, not trusted), f"{trial}: {', '.join(done)}; ran: {ran.exists()}"
