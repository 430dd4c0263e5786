"""Studies killed with kill -9 at random moments, resumed until they are finished: what is left running, and the bytes.

A round is a small study in cells of some ten milliseconds, computed by one kind of executor and killed again and again,
with progress between two kills, until it is finished; then another folder begins.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastcolst as fc
from campaign.tally import Campaign, Tally
from fastcolst.experiments import cells as cutting

KILLS = {"threads": 60, "processes": 30, "dask": 10}
STARTING_SECONDS = {"threads": 1.0, "processes": 3.0, "dask": 4.0}
"""From when a study is at hand to its first cell, or so: workers of other processes must import first."""
CELL_SECONDS = 0.1
MOST_CELLS = 6
LEAVING_SECONDS = 10.0
TESTS = Path(__file__).resolve().parents[1]

CHILD = """
import contextlib, sys
sys.path.insert(0, {tests!r})
from campaign.kills import cutting, killed_study
from fastcolst.cli.commands import _executor
cutting.CELL_SECONDS = 1e-12
study = killed_study()
with contextlib.ExitStack() as held:
    address = "threads"
    if {kind!r} == "dask":
        from distributed import LocalCluster
        cluster = held.enter_context(
            LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)
        )
        executor = held.enter_context(_executor("dask:" + cluster.scheduler_address, None))
    else:
        executor = held.enter_context(_executor({kind!r}, 2))
    print("ready", flush=True)
    study.run({folder!r}, executor=executor, progress=False)
"""


def killed_study() -> fc.Study:
    """Forty cells, and some seconds."""
    scenario = fc.Scenario.easy(n_arms=10, n_features=4)
    return fc.Study({"Random": fc.UniformPairs()}, {"easy": scenario}, horizon=100_000, runs=40, checkpoints=5)


def run(campaign: Campaign) -> Iterator[Tally]:
    """Executors that a small share would kill less than once are left out of it, but for threads and processes."""
    before, cutting.CELL_SECONDS = cutting.CELL_SECONDS, 1e-12
    try:
        whole = campaign.folder / "whole"
        killed_study().run(whole, progress=False)
        bytes_of_all = _cells(whole)
        for kind, whole_number in KILLS.items():
            kills = campaign.amount(whole_number, least=0 if kind == "dask" else 1)
            if kills:
                yield from _kill(campaign, kind, kills, bytes_of_all)
    finally:
        cutting.CELL_SECONDS = before


def _kill(campaign: Campaign, kind: str, kills: int, wanted: dict[str, bytes]) -> Iterator[Tally]:
    left = Tally(f"kill -9 of a study on {kind}: nothing is left running")
    same = Tally(f"studies on {kind} killed and resumed: the bytes of one that was not")
    moments = campaign.rng("kills", kind)
    folder = _folder(campaign)
    while left.tried < kills:
        n_more = int(moments.integers(MOST_CELLS))  # cells that are done before the kill; none: it is still starting
        seconds = moments.uniform(0.0, CELL_SECONDS if n_more else STARTING_SECONDS[kind])
        process = _start(kind, folder)
        _wait(process, folder, n_more, seconds)
        process.kill()
        code = process.wait()
        if code == -signal.SIGKILL:
            names = _left(process.pid)
            left.count(not names, f"{kind}, kill {left.tried + 1}, {n_more} cells and {seconds:.3f} s: {names}")
            if (folder / "manifest.json").exists():
                fc.load_study(folder).results()  # whatever has its name is whole
        else:  # it was finished before
            same.count(code == 0 and _cells(folder) == wanted, f"{kind}, after {left.tried} kills: exit code {code}")
            folder = _folder(campaign)
    killed_study().run(folder, progress=False)
    same.count(_cells(folder) == wanted, f"{kind}, after {left.tried} kills, resumed here")
    yield left
    yield same


def _wait(process: subprocess.Popen[bytes], folder: Path, n_more: int, seconds: float) -> None:
    """Until there are so many more cells, and then so long, or until the process ends."""
    enough = len(list(folder.glob("cells/*.parquet"))) + n_more
    while process.poll() is None and len(list(folder.glob("cells/*.parquet"))) < enough:
        time.sleep(0.002)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def _folder(campaign: Campaign) -> Path:
    return Path(tempfile.mkdtemp(dir=campaign.folder)) / "study"


def _cells(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "cells").iterdir()}


def _start(kind: str, folder: Path) -> subprocess.Popen[bytes]:
    """A process with a session of its own that computes the study, returned when it is about to."""
    path = os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(tests=str(TESTS), folder=str(folder), kind=kind)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
    return process


def alive_in_session(session: int) -> list[Any]:
    """The processes of a session, but for those that are gone and only not waited for."""
    import psutil

    alive = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):  # gone meanwhile
            continue
    return alive


def _left(session: int) -> list[str]:
    """What is left of a session when it has had time to leave; it is ended then."""
    deadline = time.monotonic() + LEAVING_SECONDS
    while (left := alive_in_session(session)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for process in left:
        process.kill()
    return [process.name() for process in left]
