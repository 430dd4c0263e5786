"""The command ``fastcolst``, which is also ``python -m fastcolst``: Ctrl-C ends it with one line, whatever it is doing.

Imports take most of the first second. An interrupt that comes up in the middle of one is a traceback at best, and in a
compiled module often another error. So the signal ends the process at once until everything is imported, and again when
all is done. That is why this module imports nothing that is slow.
"""

import os
import signal
import sys

from fastcolst._interrupt import INTERRUPTED, TOLD

_lost: list[object] = []


def main() -> int:
    """Run the command line, and return its exit code."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # jobs in a shell's background ignore Ctrl-C
        from fastcolst.cli import main as run

        return run()
    code = INTERRUPTED
    try:
        signal.signal(signal.SIGINT, _stop)
        from fastcolst.cli import main as run

        sys.unraisablehook = _repeat_lost
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run()
        signal.signal(signal.SIGINT, _stop)
    except KeyboardInterrupt:  # between two lines of this function, or a second one while the first was dealt with
        signal.signal(signal.SIGINT, _stop)
        _tell()
        return INTERRUPTED
    except Exception:
        if not _lost:
            raise
        _stop()
    if code == INTERRUPTED:
        _leave()
    return code


def _tell() -> None:
    """Tell of the interrupt by means that work at any moment."""
    try:
        os.write(2, f"{TOLD}\n".encode())
    except OSError:  # nobody is there to read it
        return


def _stop(*_: object) -> None:
    """Tell of the interrupt and leave."""
    _tell()
    _leave()


def _leave() -> None:
    """Leave without taking the interpreter down: compilation that was interrupted has it crash."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, RuntimeError, ValueError):  # none, closed, or at work when the signal came
            continue
    os._exit(INTERRUPTED)


def _repeat_lost(unraisable: "sys.UnraisableHookArgs") -> None:
    """Repeat an interrupt that Python dropped: it does so with what callbacks raise, as LLVM's while Numba compiles."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    import threading

    _lost.append(unraisable.exc_value)
    repeat = threading.Timer(0.1, _interrupt_main_thread)
    repeat.daemon = True
    repeat.start()


def _interrupt_main_thread() -> None:
    import _thread
    import threading

    main_thread = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main_thread is not None:
        signal.pthread_kill(main_thread, signal.SIGINT)  # wakes it as well
    else:
        _thread.interrupt_main()


if __name__ == "__main__":
    sys.exit(main())
