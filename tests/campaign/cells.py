"""Files of studies and results with bits flipped, parts cut out and parts of other files put in.

Whatever is read from such a file is a `FileFormatError` or exactly the numbers that were written, and seconds are those
that were written or unknown. Resuming gives the numbers that were there before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fastcolst as fc
from campaign.tally import Campaign, Tally
from fastcolst.experiments import cells as cutting

MUTATIONS, FLIPS, RESUMED = 5000, 400, 400


def run(campaign: Campaign) -> Iterator[Tally]:
    """Each kind of mutation on each kind of file."""
    before, cutting.CELL_SECONDS = cutting.CELL_SECONDS, 1e-12
    try:
        study, other = _study(3), _study(4)
        folder = campaign.folder / "study"
        result = _repeatable(study.run(folder, progress=False).result("easy"))
        result.save(campaign.folder / "result.parquet")
        _repeatable(other.run(campaign.folder / "other", progress=False).result("easy")).save(
            campaign.folder / "other.parquet"
        )
        cells = sorted(path.relative_to(folder) for path in (folder / "cells").iterdir())
        for name, mutate in MUTATORS.items():
            for what, paths, reads in (
                ("cells", cells, lambda: fc.load_study(folder).result("easy")),
                ("manifests", [Path("manifest.json")], lambda: fc.load_study(folder).result("easy")),
                ("results", [Path("../result.parquet")], lambda: fc.load_result(campaign.folder / "result.parquet")),
            ):
                tally = Tally(f"{what} with {name}: refused, or the same numbers")
                for told, _ in _mutated(campaign, MUTATIONS, name, folder, paths, mutate):
                    seen = _read(reads)
                    same = isinstance(seen, fc.Result) and seen.same_numbers(result)
                    tally.count(same or isinstance(seen, fc.FileFormatError), f"{told}: {seen!r}")
                yield tally
            yield _timings(campaign, folder, name, mutate)
            yield from _resumed(campaign, study, folder, name, mutate, cells)
        tally = Tally("cells with a single bit flipped: refused")
        for told, _ in _mutated(campaign, FLIPS, "one bit", folder, cells, lambda rng, data, _: _flip(rng, data, 1)):
            seen = _read(lambda: fc.load_study(folder).result("easy"))
            tally.count(isinstance(seen, fc.FileFormatError), f"{told}: {seen!r}")
        yield tally
    finally:
        cutting.CELL_SECONDS = before


def _study(seed: int) -> fc.Study:
    policies = {"Random": fc.UniformPairs(), "again": fc.UniformPairs()}
    return fc.Study(policies, {"easy": fc.Scenario.easy(n_arms=4, n_features=2)}, 400, 2, seed, 20)


def _repeatable(result: fc.Result) -> fc.Result:
    """The same with seconds that do not vary."""
    return dataclasses.replace(result, seconds={label: [0.5] * result.runs for label in result.policies})


def _read(reads: Callable[[], Any]) -> Any:
    """What is read, or the error that it was instead."""
    try:
        return reads()
    except Exception as error:  # noqa: BLE001 - whichever it is, it is counted
        return error


def _timings(campaign: Campaign, folder: Path, name: str, mutate: Mutator) -> Tally:
    tally = Tally(f"timings with {name}: the same seconds, or unknown")
    whole = fc.load_study(folder).seconds().seconds
    for told, _ in _mutated(campaign, MUTATIONS, name, folder, [Path("timings.jsonl")], mutate):
        seen = _read(lambda: fc.load_study(folder).seconds().seconds)
        good = not isinstance(seen, Exception) and bool((seen.isna() | (seen == whole)).all())
        tally.count(good, f"{told}: {seen!r}")
    return tally


def _resumed(
    campaign: Campaign, study: fc.Study, folder: Path, name: str, mutate: Mutator, cells: list[Path]
) -> Iterator[Tally]:
    wanted = {path: (folder / path).read_bytes() for path in cells}
    tally = Tally(f"cells with {name}: computed anew, and told in one line")
    for told, path in _mutated(campaign, RESUMED // len(MUTATORS), f"{name} resumed", folder, cells, mutate):
        with contextlib.redirect_stderr(io.StringIO()) as lines:
            seen = _read(lambda: study.run(folder, progress=False))
        good = lines.getvalue().count("\n") == 1 and path.name in lines.getvalue()
        good &= {path: (folder / path).read_bytes() for path in cells} == wanted
        tally.count(good, f"{told}: {seen!r}, {lines.getvalue()!r}")
    yield tally
    tally = Tally(f"manifests with {name}: refused when resumed")
    manifest = Path("manifest.json")
    for told, _ in _mutated(campaign, RESUMED // len(MUTATORS), f"{name} resumed", folder, [manifest], mutate):
        before = (folder / manifest).read_bytes()
        seen = _read(lambda: study.run(folder, progress=False))
        good = isinstance(seen, fc.FileFormatError) and (folder / manifest).read_bytes() == before
        tally.count(good, f"{told}: {seen!r}")
    yield tally


def _mutated(
    campaign: Campaign, whole: int, name: str, folder: Path, paths: list[Path], mutate: Mutator
) -> Iterator[tuple[str, Path]]:
    """Put mutated files in the place of good ones, one at a time, and the good one back; what repeats it, and which."""
    for trial in range(campaign.amount(whole)):
        rng = campaign.rng("cells", name, paths[0].name, trial)
        path = paths[rng.integers(len(paths))]
        other = paths[rng.integers(len(paths))]
        good = (folder / path).read_bytes()
        donor = (_elsewhere(folder, other) if rng.random() < 0.5 else folder / other).read_bytes()
        # Another result as a whole is a good file; a cell or a manifest of another study is none in this one.
        fine = (good, donor) if path.name == "result.parquet" else (good,)
        while (bad := mutate(rng, good, donor)) in fine:
            pass
        (folder / path).write_bytes(bad)
        try:
            yield f"seed {campaign.seed}, {name}, trial {trial}, {path.name}", path
        finally:
            (folder / path).write_bytes(good)


def _elsewhere(folder: Path, path: Path) -> Path:
    return folder.parent / "other.parquet" if path.name == "result.parquet" else folder.parent / "other" / path


Mutator = Callable[[np.random.Generator, bytes, bytes], bytes]


def _flip(rng: np.random.Generator, data: bytes, number: int) -> bytes:
    bits = np.unpackbits(np.frombuffer(data, np.uint8))
    bits[rng.choice(bits.size, number, replace=False)] ^= 1
    return np.packbits(bits).tobytes()


def _flips(rng: np.random.Generator, data: bytes, _: bytes) -> bytes:
    """One bit, or some."""
    return _flip(rng, data, int(rng.choice([1, 1, 2, 8, 64])))


def _cut(rng: np.random.Generator, data: bytes, _: bytes) -> bytes:
    """Without its end, its beginning or a part between."""
    first, last = sorted(rng.integers(len(data) + 1, size=2))
    return [data[:first], data[last:], data[:first] + data[last:]][rng.integers(3)]


def _splice(rng: np.random.Generator, data: bytes, donor: bytes) -> bytes:
    """A part replaced by one of another file, or that put in between, or the file itself twice."""
    first, last = sorted(rng.integers(len(donor) + 1, size=2))
    part = donor[first:last]
    place = int(rng.integers(len(data) + 1))
    kind = rng.integers(4)
    if kind == 0:  # in the same place, so that what points to it still fits
        return data[:first] + part + data[last:]
    if kind == 1:
        return data[:place] + part + data[place:]
    if kind == 2:
        return donor[:first] + data[first:]
    return data + donor


MUTATORS: dict[str, Mutator] = {"bits flipped": _flips, "parts cut out": _cut, "parts put in": _splice}
