"""The command ``fastcolst``, which is also ``python -m fastcolst``: Ctrl-C ends it with one line, whatever it is doing.

An exception in the middle of an import is a traceback at best, and in a compiled module often another error; in the
middle of compilation it leaves locks behind that are never let go, and kernels without code. There the signal ends the
process at once, and so it does before everything is imported and when all is done. That is why this module imports
nothing that is slow.
"""

import os
import signal
import sys
from types import FrameType

from fastcolst._interrupt import INTERRUPTED, TOLD

FRAGILE = {"importlib", "_frozen_importlib", "_frozen_importlib_external", "numba", "llvmlite"}
"""Packages whose work does not outlive an exception at any line."""


def main() -> int:
    """Run the command line, and return its exit code."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # jobs in a shell's background ignore Ctrl-C
        from fastcolst.cli import main as run

        return run()
    code = INTERRUPTED
    try:
        signal.signal(signal.SIGINT, _stop)
        from fastcolst.cli import main as run

        sys.unraisablehook = _stop_for_lost
        signal.signal(signal.SIGINT, _interrupt)
        code = run()
        signal.signal(signal.SIGINT, _stop)
    except KeyboardInterrupt:  # between two lines of this function, or a second one while the first was dealt with
        _stop()
    except Exception as error:
        if not _is_of_interrupt(error):
            raise
        _stop()
    if code == INTERRUPTED:
        _leave()
    return code


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, or leave at once in the middle of what does not outlive it."""
    while frame is not None and frame.f_code is not main.__code__:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in FRAGILE:
            _stop()
        frame = frame.f_back
    raise KeyboardInterrupt


def _is_of_interrupt(error: BaseException | None) -> bool:
    """Whether an interrupt became this error on its way, as it may in a lock of the standard library's."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # causes may go in a circle
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__context__ if error.__cause__ is None else error.__cause__
    return False


def _stop(*_: object) -> None:
    """Tell of the interrupt, in one write that waits for no lock, and leave."""
    _exit_at_next_interrupt()
    try:  # noqa: SIM105 - contextlib is slow to import
        os.write(2, f"{TOLD}\n".encode())
    except OSError:  # nobody is there to read it
        pass
    _leave()


def _leave() -> None:
    """Leave without taking the interpreter down, which would wait for other threads."""
    _exit_at_next_interrupt()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, RuntimeError, ValueError):  # none, closed, or at work when the signal came
            continue
    os._exit(INTERRUPTED)


def _exit_at_next_interrupt() -> None:
    """Let another Ctrl-C end the process without a word: a reader who has stopped reading may block what is left."""
    try:  # noqa: SIM105
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    except ValueError:  # not the main thread
        pass


def _stop_for_lost(unraisable: "sys.UnraisableHookArgs") -> None:
    """Leave for an interrupt that Python would drop: it does so with what is raised in callbacks and finalizers."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _stop()
    sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    sys.exit(main())
