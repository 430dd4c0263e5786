"""The paper's experiments in a folder: computed target by target, continued where they were left, and read back.

A study lies in a folder of its own, seconds for choosing in a file for each cell of a table, and a manifest says with
which settings, on which machine, and what is complete.
"""

from __future__ import annotations

import errno
import json
import math
import os
import platform
import time
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np

from fastcolst._checks import count
from fastcolst._files import FileFormatError, read_json, write_atomically
from fastcolst._version import __version__
from fastcolst.experiments.simulation import processors
from fastcolst.experiments.store import LOCK, locked
from fastcolst.experiments.studies import load_study
from fastcolst.paper.claims import Entry
from fastcolst.paper.parts import PAPER, TARGETS, Part, Settings, parts, scenarios_of, timed_cells
from fastcolst.paper.timings import choosing_seconds, read_timing, seconds_of
from fastcolst.streams import STREAM_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["Results", "curves_of", "load_results", "reproduce"]

MANIFEST = "reproduction.json"


@dataclass
class Results:
    """What a reproduction's folder holds.

    Parameters
    ----------
    settings : Settings
    targets : list of str
        What was asked for.
    parts : list of Part
        Those that are there, in order.
    frames : dict of a part's name to pandas DataFrame
        Tidy: scenario, policy, run, round, average_regret, weak_regret, self_duels.
    seconds : dict of a part's name to pandas DataFrame
        scenario, policy, run, seconds.
    timings : dict of a timing's name to list of rows
        As :func:`fastcolst.paper.timings.choosing_seconds` gives them.
    machine : dict of str to str
        What it ran on.
    walls : dict of str to float
        Seconds that each stage took when it was last computed.
    """

    settings: Settings
    targets: list[str]
    parts: list[Part]
    frames: dict[str, Any]
    seconds: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    walls: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._curves: dict[tuple[str, str, int], dict[str, Curve]] = {}
        for part in self.parts:
            for (scenario, policy), curve in curves_of(self.frames[part.name]).items():
                key = (part.problem, scenario, part.horizon_of(scenario))
                self._curves.setdefault(key, {})[policy] = curve

    def curves(self, problem: str, scenario: str, horizon: int) -> dict[str, Curve]:
        """What there is of a problem's scenario, by policy."""
        return self._curves.get((problem, scenario, horizon), {})

    def final_regret(self, horizon: int) -> dict[Entry, NDArray[np.float64]]:
        """Cumulative average regret at the horizon, run by run."""
        return {
            Entry(problem, scenario, policy): curve.average_regret[:, -1]
            for (problem, scenario, T), curves in self._curves.items()
            if horizon == T
            for policy, curve in curves.items()
        }

    def choosing(self, clock: str = "choosing") -> dict[Entry, NDArray[np.float64]]:
        """Seconds of the first table, run by run, by one of its clocks: "choosing", "learning" or "fused"."""
        return {
            Entry(problem, scenario, label): seconds_of(self.timings[name], label, clock)
            for name, (problem, scenario, policies) in timed_cells("table1", self.settings).items()
            if name in self.timings
            for label in policies
        }


class Curve(NamedTuple):
    """Checkpoints (k,) and cumulative regret there, (runs, k)."""

    rounds: NDArray[np.int64]
    average_regret: NDArray[np.float64]
    weak_regret: NDArray[np.float64]


def curves_of(frame: Any) -> dict[tuple[str, str], Curve]:
    """The curves in a tidy frame, by scenario and policy, in the order of their first rows."""
    curves = {}
    for key, rows in frame.groupby(["scenario", "policy"], sort=False, observed=True):
        ordered = rows.sort_values(["run", "round"])
        rounds = np.unique(ordered["round"].to_numpy(np.int64))
        tables = (ordered[name].to_numpy(np.float64).reshape(-1, rounds.size) for name in Curve._fields[1:])
        curves[key] = Curve(rounds, *tables)
    return curves


def reproduce(
    targets: Sequence[str],
    out: str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    threads: int | None = None,
    progress: bool = False,
    say: Callable[[str], object] = lambda _: None,
) -> Results:
    """Compute the paper's experiments into a folder, continuing what is there.

    Parameters
    ----------
    targets : list of str
        Of ``TARGETS``; "all" stands for the paper's experiments.
    out : path
        A folder; made if need be. It holds one set of settings.
    settings : Settings, optional
    threads : int, optional
        As for :func:`fastcolst.simulate`; seconds for choosing are always taken on one thread with nothing beside.
    progress : bool
        Whether studies show how far they are.
    say : callable
        Is told what begins.

    Returns
    -------
    Results
        All that the folder now holds. :func:`fastcolst.paper.page.write_report` makes pictures and the page of it.

    Raises
    ------
    ValueError
        No such target, or the folder holds other settings.
    OSError
        The folder cannot be written.
    """
    settings = Settings() if settings is None else settings
    wanted = list(dict.fromkeys(t for target in targets for t in (PAPER if target == "all" else (target,))))
    needed = {part.name: part for target in wanted for part in parts(target, settings)}
    if threads is not None:
        count("threads", threads)
    _Manifest.open(Path(out), settings)  # refuses before anything else is put there
    with locked(Path(out) / LOCK):
        manifest = _Manifest.open(Path(out), settings)
        for name, cell in ((n, c) for target in wanted for n, c in timed_cells(target, settings).items()):
            if not manifest.timing_path(name).exists():  # first, while nothing else keeps the processor busy
                say(f"{name}: seconds for choosing, {min(settings.runs, settings.timed_runs)} runs")
                manifest.stage(name, partial(_time_cell, cell, settings, manifest.timing_path(name)))
        for name, part in needed.items():
            say(f"{name}: {len(part.scenarios)} scenarios, {len(part.policies)} policies, {part.runs} runs")
            run = partial(part.study(settings.seed).run, threads=threads, resume=True, progress=progress)
            manifest.stage(name, partial(run, manifest.study_path(name)))
        manifest.add_targets(wanted)
    return load_results(out)


def load_results(out: str | os.PathLike[str]) -> Results:
    """Read back what :func:`reproduce` computed.

    Raises
    ------
    OSError
        The folder is not there or is no reproduction's.
    FileFormatError
        Its manifest, a study's, or a file of seconds is damaged.
    ValueError
        Nothing in it is complete yet.
    """
    manifest = _Manifest.read(Path(out))
    if not manifest.content["targets"]:
        raise ValueError(
            f"{os.fspath(out)!r} holds no complete experiment yet; the same `fastcolst reproduce` goes on with it"
        )
    settings, targets = Settings(**manifest.content["settings"]), manifest.content["targets"]
    there = {part.name: part for target in targets for part in parts(target, settings)}
    studies = {name: load_study(manifest.study_path(name)) for name in there}
    timed = [name for target in targets for name in timed_cells(target, settings)]
    return Results(
        settings=settings,
        targets=targets,
        parts=list(there.values()),
        frames={name: study.to_pandas() for name, study in studies.items()},
        seconds={name: study.seconds() for name, study in studies.items()},
        timings={name: read_timing(manifest.timing_path(name)) for name in timed},
        machine=manifest.content["machine"],
        walls=manifest.content["walls"],
    )


class _Manifest:
    """What a reproduction's folder says about itself: settings, complete targets, seconds, machine."""

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        self.folder, self.content = folder, content

    @classmethod
    def read(cls, folder: Path) -> _Manifest:
        path = folder / MANIFEST
        content = read_json(path)
        try:
            Settings(**content["settings"])
            if not set(content["targets"]) <= set(TARGETS):
                raise ValueError(f"targets are {content['targets']}")
            if not all(math.isfinite(seconds) for seconds in content["walls"].values()):
                raise ValueError(f"walls are {content['walls']}")
            dict(**content["machine"])
            content.setdefault("streams", 1)  # the first version, which it does not tell
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FileFormatError(f"{os.fspath(path)!r} is damaged: {error}") from None
        return cls(folder, content)

    @classmethod
    def open(cls, folder: Path, settings: Settings) -> _Manifest:
        """The one that is there, if its settings agree, or a new one."""
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / MANIFEST).exists():
            if any(path.name != LOCK and not path.name.startswith(f".{MANIFEST}.") for path in folder.iterdir()):
                raise FileExistsError(
                    errno.EEXIST,
                    "the folder holds something other than a reproduction; choose another one",
                    str(folder),
                )
            content = {"settings": asdict(settings), "streams": STREAM_VERSION, "targets": [], "walls": {}}
            manifest = cls(folder, {**content, "machine": _machine()})
            manifest.save()
            return manifest
        manifest = cls.read(folder)
        there = {**manifest.content["settings"], "streams": manifest.content["streams"]}
        now = {**asdict(settings), "streams": STREAM_VERSION}
        differences = [
            f"{name} is {there.get(name)} there, {now[name]} here" for name in now if there.get(name) != now[name]
        ]
        if differences:
            raise ValueError(
                f"{os.fspath(folder)!r} holds a reproduction with other settings: {'; '.join(differences)}"
            )
        return manifest

    def save(self) -> None:
        _write_json(self.folder / MANIFEST, self.content)

    def stage(self, name: str, work: Callable[[], object]) -> None:
        """Do the work and note its seconds; where it was done before, the longest time is the one that counts."""
        start = time.perf_counter()
        work()
        seconds = time.perf_counter() - start
        self.content["walls"][name] = max(seconds, self.content["walls"].get(name, 0.0))
        self.save()

    def add_targets(self, targets: Iterable[str]) -> None:
        complete = {*self.content["targets"], *targets}
        self.content["targets"] = [target for target in TARGETS if target in complete]
        self.save()

    def study_path(self, name: str) -> Path:
        return self.folder / "studies" / name

    def timing_path(self, name: str) -> Path:
        return self.folder / "timings" / f"{name}.json"


def _time_cell(cell: tuple[str, str, dict[str, Any]], settings: Settings, path: Path) -> None:
    problem, scenario, policies = cell
    where = scenarios_of(problem, settings)[scenario]
    runs = min(settings.runs, settings.timed_runs)
    _write_json(path, choosing_seconds(policies, where, settings.horizon, runs, settings.seed))


def _write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())


def _machine() -> dict[str, str]:
    return {
        "fastcolst": __version__,
        "numba": numba.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processors": str(processors()),
        "processor": _processor_name(),
    }


def _processor_name() -> str:
    """What the processor calls itself, where that is told."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
