"""Progress: how far a study is, on standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any, Self

from fastcolst._files import optional_import

__all__ = ["Progress", "clock", "tell"]


class Progress:
    """Cells done, rate and time left: a bar on a terminal, else a line now and then."""

    LINE_SECONDS = 10.0

    def __init__(self, total: int, missing: int, wanted: bool) -> None:
        self._total, self._before, self._done, self._wanted = total, total - missing, 0, wanted
        self._start = self._shown = time.monotonic()
        self._told = False
        self._bar: Any = None
        if wanted and sys.stderr is not None and sys.stderr.isatty():
            with contextlib.suppress(ImportError):
                tqdm = optional_import("tqdm", "a progress bar").tqdm
                self._bar = tqdm(total=total, initial=self._before, unit="cell", smoothing=0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._wanted:
            self._line()

    def say(self, what: str) -> None:
        """Tell what happens before the first cell; in lines, once."""
        if self._bar is not None:
            self._bar.set_description_str(what)
        elif self._wanted and not self._told:
            self._told = True
            tell(f"fastcolst: {what}")

    def start(self) -> None:
        """Let the clock begin here: rate and time left are those of the cells alone."""
        self._start = self._shown = time.monotonic()
        if self._bar is not None:
            self._bar.set_description_str("")
            self._bar.unpause()

    def advance(self) -> None:
        """Count a cell."""
        self._done += 1
        if self._bar is not None:
            self._bar.update()
        self.show()

    def show(self) -> None:
        """Print a line when it is time for one."""
        if self._wanted and self._bar is None and time.monotonic() - self._shown >= self.LINE_SECONDS:
            self._line()

    def _line(self) -> None:
        self._shown = time.monotonic()
        seconds = self._shown - self._start
        done = self._before + self._done
        text = f"fastcolst: {done:,} of {self._total:,} cells"
        if self._done:
            rate = self._done / seconds
            text += f", {rate:.3g} cells/s, {clock((self._total - done) / rate)} left"
        tell(text)


def tell(line: str) -> None:
    """Write a line to standard error, where there is one."""
    if sys.stderr is not None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def clock(seconds: float) -> str:
    """Seconds as 1:02:05, or 2:05."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
