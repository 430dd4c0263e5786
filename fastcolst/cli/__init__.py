"""The command line: simulate, study, reproduce, report, replay, info, warmup, cache.

Whatever a person can get wrong ends with exit code 2 and one line, ``fastcolst: error: ...``, and files to be
written are checked before anything long is computed. Ctrl-C ends with code 130; `fastcolst.__main__` sees to it while
this module is imported.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import traceback
import warnings
from concurrent.futures import BrokenExecutor
from typing import TYPE_CHECKING, Any

from fastcolst._compile import is_versioned, one_line
from fastcolst._interrupt import INTERRUPTED, TOLD
from fastcolst.cli.arguments import parser
from fastcolst.cli.commands import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["main"]

WRONG_INPUT, PIPE_CLOSED = 2, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : texts, optional
        The arguments; those of the process if not given.

    Returns
    -------
    int
        The exit code: 0, 2 for a wrong input, 130 after Ctrl-C, 141 when nobody reads the output any more.

    Examples
    --------
    >>> from fastcolst.cli import main
    >>> main(["simulate", "--horizon", "100", "--runs", "2", "--seed", "7", "--policies", "UniformPairs"])
    hard: 50 arms, 10 features, bradley-terry
    100 rounds, 2 runs, seed 7
    ...
    0
    """
    try:
        with _warnings_in_one_line(), _compiling_in_one_line():
            arguments = parser().parse_args(argv)
            with _modules_here():
                COMMANDS[arguments.command](arguments)
            if sys.stdout is not None:
                sys.stdout.flush()
    except SystemExit as stop:  # argparse, after --help or --version
        return int(stop.code or 0)
    except KeyboardInterrupt as error:
        print(f"fastcolst: {error}" if str(error) else TOLD, file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit complains again
        return PIPE_CLOSED
    except (ValueError, OSError, ImportError, MemoryError, ArithmeticError, BrokenExecutor) as error:
        if _is_of_users_code(error):  # which its author mends by the traceback
            raise
        print(f"fastcolst: error: {_one_line(error)}", file=sys.stderr)
        return WRONG_INPUT
    return 0


def _is_of_users_code(error: BaseException) -> bool:
    """Whether an error was raised in a run by people's own code, and not by that of an installed package."""
    if not getattr(error, "__notes__", ()):  # which say whose run it was
        return False
    *_, (innermost, _) = traceback.walk_tb(error.__traceback__)
    return not is_versioned(innermost.f_globals.get("__name__")) and "site-packages" not in innermost.f_code.co_filename


def _one_line(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    return " ".join(text.split()) or type(error).__name__


@contextlib.contextmanager
def _modules_here() -> Iterator[None]:
    """Let ``module:Class`` name a module in the current folder, here and in worker processes, after all others."""
    before = sys.path
    sys.path = [*before, ""]
    try:
        yield
    finally:
        sys.path = before


@contextlib.contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"fastcolst: warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def _compiling_in_one_line() -> Iterator[None]:
    """Tell on a terminal, at the end, what was compiled and how long that took: a person has waited for it."""
    logger, shows = logging.getLogger("fastcolst"), logging.StreamHandler()
    shows.setFormatter(logging.Formatter("fastcolst: %(message)s"))
    level = logger.level
    if sys.stderr is not None and sys.stderr.isatty():
        logger.addHandler(shows)
        logger.setLevel(logging.INFO)
    try:
        with one_line():
            yield
    finally:
        logger.removeHandler(shows)
        logger.setLevel(level)
