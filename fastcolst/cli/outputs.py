"""The files that the command line writes: pictures and tables, each by its extension."""

from __future__ import annotations

import csv
import importlib.util
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fastcolst.plotting import PICTURES, REPLAY_SIZE, new_figure, regret_figure, replay_figure, save_figure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import fastcolst as fc
    from fastcolst.data import ReplayResult

__all__ = ["REPLAY_WRITERS", "RESULT_WRITERS", "TUNING_WRITERS", "check_outputs", "write_outputs"]


class Writer(NamedTuple):
    """How a kind of file is written, and the module it takes."""

    write: Callable[[Any, Path], None]
    needs: str | None = None


def _write_regret_picture(result: fc.Result, path: Path) -> None:
    figure = new_figure()
    regret_figure(result, figure.add_subplot())
    save_figure(figure, path)


def _write_replay_picture(result: ReplayResult, path: Path) -> None:
    figure = new_figure(*REPLAY_SIZE)
    replay_figure(result, figure.subplots(1, 2))
    save_figure(figure, path)


def _write_tuning_picture(result: fc.Tuning, path: Path) -> None:
    figure = new_figure()
    result.plot(figure.add_subplot())
    save_figure(figure, path)


def _write_regret_table(result: fc.Result | fc.Tuning, path: Path) -> None:
    result.to_pandas().to_csv(path, index=False)


def _write_probabilities(result: ReplayResult, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("probability", "first_won"))
        wins = result.wins.astype(int) if result.wins.dtype.kind == "b" else result.wins
        rows.writerows(zip(result.probabilities.tolist(), wins.tolist(), strict=True))


RESULT_WRITERS = {
    **dict.fromkeys(PICTURES, Writer(_write_regret_picture, "matplotlib")),
    ".parquet": Writer(lambda result, path: result.save(path), "pyarrow"),
    ".csv": Writer(_write_regret_table, "pandas"),
}
TUNING_WRITERS = {
    **dict.fromkeys(PICTURES, Writer(_write_tuning_picture, "matplotlib")),
    ".csv": Writer(_write_regret_table, "pandas"),
}
REPLAY_WRITERS = {
    **dict.fromkeys(PICTURES, Writer(_write_replay_picture, "matplotlib")),
    ".csv": Writer(_write_probabilities),
}


def check_outputs(paths: Sequence[Path], writers: dict[str, Writer], inputs: Sequence[str] = ()) -> None:
    """Raise now what writing would raise after a long computation, and where it would overwrite what is read."""
    for path in paths:
        for read in inputs:
            if path.exists() and Path(read).exists() and path.samefile(read):
                raise ValueError(
                    f"argument --out: {str(path)!r} is the log {read!r}, which is read; another file is wanted"
                )
        if path.suffix.lower() not in writers:
            raise ValueError(f"argument --out: {str(path)!r} must end in one of {', '.join(writers)}")
        needs = writers[path.suffix.lower()].needs
        if needs is not None and importlib.util.find_spec(needs) is None:
            raise ImportError(f"argument --out: {str(path)!r} needs {needs}: pip install 'fastcolst[study]'")
        try:
            if path.exists():
                path.open("r+b").close()  # a folder or a read-only file fails here
            tempfile.TemporaryFile(dir=path.parent).close()
        except OSError as error:
            raise OSError(f"argument --out: cannot write {str(path)!r}: {error.strerror}") from error


def write_outputs(result: Any, paths: Sequence[Path], writers: dict[str, Writer]) -> None:
    """Write each file in the way of its extension, and tell of it."""
    for path in paths:
        writers[path.suffix.lower()].write(result, path)
        print(f"wrote {path}")
