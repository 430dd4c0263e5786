"""Ctrl-C at any moment: of the command's first second, and of what Numba and LLVM do for a program.

There a signal comes at a line that was chosen beforehand, in a copy of a process that has compiled and loaded nothing.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import fastcolst as fc
from campaign.tally import Campaign, Tally
from fastcolst.__main__ import main

ROOT = Path(fc.__file__).parents[1]
TESTS = Path(__file__).resolve().parents[1]


def run(campaign: Campaign) -> Iterator[Tally]:
    if os.name == "posix":
        yield _first_second(campaign)
        yield _lines(campaign, "lines at which Ctrl-C was not one line and 130", "command", campaign.amount(40, 4))
        lost = "at which Ctrl-C was lost, or left kernels that fail"
        yield _lines(campaign, f"lines of a program {lost}", "program", campaign.amount(40, 4))
        yield _lines(campaign, f"lines of compilation {lost}", "compilation", campaign.amount(20, 2))


# --- at a moment --------------------------------------------------------------------------------------------

# a job in the background ignores the signal
ENTRY = """
import os, signal, sys
from fastcolst.__main__ import main
signal.signal(signal.SIGINT, signal.default_int_handler)
os.write(1, b"here\\n")
sys.exit(main())
"""
LONG = ("simulate", "--policies", "UniformPairs", "--horizon", "1000000", "--runs", "1000")


def _first_second(campaign: Campaign) -> Tally:
    """One line and code 130, at any moment of the second that begins where the command does."""
    tally = Tally("moments of the first second at which Ctrl-C was not one line and 130")
    for trial in range(campaign.amount(30, 4)):
        seconds = campaign.rng("moments", trial).random()
        with subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", ENTRY, *LONG],  # which says where a crash was
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
            time.sleep(seconds)
            process.send_signal(signal.SIGINT)
            try:
                _, err = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                _, err = process.communicate()
        good = (process.returncode, err) == (130, "fastcolst: interrupted\n")
        tally.count(good, f"trial {trial}, after {seconds:.3f} s: code {process.returncode}, {err[-4000:]!r}")
    return tally


# --- at a line ----------------------------------------------------------------------------------------------

SHORT = ("fastcolst", "simulate", "--policies", "UniformPairs", "--horizon", "1000", "--runs", "20")
STRIKE = "import sys; sys.path[:0] = sys.argv[1:3]; from campaign.interrupts import strike; strike(*sys.argv[3:])"


def _lines(campaign: Campaign, figure: str, what: str, amount: int) -> Tally:
    tally = Tally(figure)
    moments = campaign.rng(what).random(amount).tolist()
    command = [sys.executable, "-c", STRIKE, str(ROOT), str(TESTS), what, json.dumps(moments), str(campaign.folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    wanted, *found = map(json.loads, done.stdout.splitlines())
    for moment, came in zip(moments, found, strict=True):
        if came[2]:  # else it had fewer lines than the first time
            tally.count(came[:2] == wanted, f"{moment!r} of the lines, {came[2]}: {came[:2]!r:.4000}; not {wanted}")
    return tally


def strike(what: str, moments: str, folder: str) -> None:
    """Print what is wanted, and for each moment the exit code, what was said, and at which line the signal came."""
    said, place = Path(folder) / "said", Path(folder) / "place"
    if what != "command":  # an import that an interrupt cut short is not for us to mend
        fc.CoLSTIM, fc.Scenario  # noqa: B018
    wanted = _copy(what, said, None)  # compiles
    assert wanted[0] == 0, wanted[1]
    counted = _copy(what, said, _Tracer(0, place))
    assert counted[0] == 0, counted[1]
    n_lines = int(place.read_text())
    print(json.dumps([130, "fastcolst: interrupted\n"] if what == "command" else wanted))
    for moment in json.loads(moments):
        place.write_text("")
        found = _copy(what, said, _Tracer(1 + int(moment * n_lines), place))
        print(json.dumps([*found, place.read_text()]), flush=True)


def _copy(what: str, said: Path, tracer: _Tracer | None) -> tuple[int, str]:
    """Do it in a copy of this process; its exit code and what it said."""
    process = os.fork()
    if process == 0:
        _become(said)
        try:
            sys.settrace(tracer and tracer.see)
            code = DEEDS[what]()
            sys.settrace(None)
            if tracer and not tracer.last:
                tracer.place.write_text(str(tracer.seen))
            sys.stdout.flush()
        except BaseException:  # noqa: BLE001 - of whatever kind: the copy must not go on as if it were the first
            sys.excepthook(*sys.exc_info())
            code = 98
        os._exit(code)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), said.read_text()


def _become(said: Path) -> None:
    """Write to a file all that is said, for ten minutes at most."""
    descriptor = os.open(said, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    faulthandler.enable()
    signal.alarm(600)
    signal.signal(signal.SIGINT, signal.default_int_handler)


class _Tracer:
    """Counts lines where a signal may come, calls and returns with them; sends it at one, and notes which it was."""

    def __init__(self, last: int, place: Path) -> None:
        self.seen, self.last, self.place = 0, last, place
        homes = [find_spec(name) for name in ("fastcolst", "numba", "llvmlite", "ctypes", "concurrent", "threading")]
        self.watched = tuple(str(home.origin).removesuffix("__init__.py") for home in homes if home)

    def see(self, frame: Any, event: str, _: Any) -> Any:
        path = frame.f_code.co_filename
        if not path.startswith(self.watched):
            return None
        self.seen += 1
        if self.seen == self.last:
            self.place.write_text(f"{path}:{frame.f_lineno}")
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
            return None
        return self.see


def _command() -> int:
    sys.argv = [*SHORT]
    return main()


def _program() -> int:
    """What is interrupted is done again, as in a notebook."""
    return _done_again(_session)


def _compilation() -> int:
    import numba  # by now it is there: the command's copies import it themselves

    with tempfile.TemporaryDirectory() as empty:
        numba.config.CACHE_DIR = empty
        return _done_again(_random_pair)


def _done_again(session: Callable[[], Any]) -> int:
    before = sys.gettrace()
    try:
        said = session()
        lost = sys.gettrace() is not before
    except KeyboardInterrupt:
        said, lost = session(), False
    print(said, "the interrupt was lost" if lost else "")
    return 0


def _random_pair() -> int:
    return fc.UniformPairs(rng=1).select(np.eye(3)).first


def _session() -> tuple[Any, ...]:
    contexts = np.random.default_rng(0).normal(size=(5, 3))
    policy = fc.CoLSTIM(3, rng=1)
    policy.update(policy.select(contexts), 1)
    chunk = fc.Scenario.hard(n_arms=5, n_features=3).start(1, 0).next_chunk(3)
    duel = policy.select(contexts)
    return duel.first, duel.second, chunk.latent


DEEDS: dict[str, Callable[[], int]] = {"command": _command, "program": _program, "compilation": _compilation}
