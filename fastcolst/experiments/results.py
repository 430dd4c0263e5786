"""What a simulation returns: cumulative regret per policy, run and checkpoint, and how to keep it.

    average regret of a round = u_best - (u_first + u_second) / 2
    weak regret of a round    = u_best - max(u_first, u_second)
    regret of the first arm   = u_best - u_first
    ... of the greedy arm     = u_best - u_i, where i has the highest estimated utility

A :class:`Result` holds the running sums of the first two, and of the others where wanted, at the checkpoints, with
everything it takes to check and to repeat them: the true parameters of each run, the seed, the settings. On disk it is
one Parquet file: a tidy table that any tool reads, and a JSON header in the schema's metadata.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastcolst._checks import as_array, brief, entries, is_a, path_text, whole_number
from fastcolst._files import FileFormatError, check_claim, optional_import, read_whole, write_atomically
from fastcolst._words import align

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["SINGLE_ARMS", "TABLES", "FileFormatError", "Result", "load_result"]

FORMAT_VERSIONS = (1, 2)
"""Of files without and with regret of single arms."""
_KEY = b"fastcolst"

LARGEST_WHOLE = 2**4096
"""Python does not write much longer numbers in decimals."""

TABLES = ("average_regret", "weak_regret", "self_duels")
"""What is recorded at the checkpoints."""
SINGLE_ARMS = ("first_regret", "greedy_regret")
"""What is recorded there as well, where it is wanted."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Result:
    """Regret of the policies of one simulation, at its checkpoints.

    Every array is a read-only copy; the dictionaries have the same labels in the same order.

    Parameters
    ----------
    rounds : (k,) int64
        The checkpoints: numbers of rounds played, increasing, from 1 to at most `horizon`.
    average_regret, weak_regret : dict of label to (runs, k) float64
        Cumulative regret after that many rounds, in units of utility.
    self_duels : dict of label to (runs, k) int64
        How many of these rounds compared an arm with itself.
    seconds : dict of label to (runs,) float64
        Time spent on the run by this policy; nan where it is not known.
    thetas : (runs, d) float64
        True parameters of each run; d = 0 where the problem has none.
    seed : int
        The entropy that repeats the simulation.
    horizon : int
        Rounds played in each run.
    runs : int
        How many independent repetitions.
    settings : dict of str to str
        What was simulated: scenario, policies, versions.
    first_regret, greedy_regret : dict of label to (runs, k) float64, optional
        Cumulative regret of playing, in place of the pair, its first arm alone, and the arm that the policy's estimate
        prefers; the latter nan for policies without an estimate. Empty where ``single_arms`` was not asked for.

    Raises
    ------
    ValueError
        A shape, a label or a number does not fit.

    Examples
    --------
    >>> from fastcolst.experiments.results import Result
    >>> result = Result(
    ...     rounds=[50, 100],
    ...     average_regret={"UniformPairs": [[20.0, 40.0], [22.0, 44.0]]},
    ...     weak_regret={"UniformPairs": [[10.0, 20.0], [11.0, 21.0]]},
    ...     self_duels={"UniformPairs": [[0, 0], [0, 0]]},
    ...     seconds={"UniformPairs": [0.0001, 0.0003]},
    ...     thetas=[[1.0, 0.0], [0.0, 1.0]],
    ...     seed=7, horizon=100, runs=2, settings={},
    ... )
    >>> result
    Result(policies=['UniformPairs'], horizon=100, runs=2, checkpoints=2, seed=7)
    >>> print(result.summary())
    100 rounds, 2 runs, seed 7
    policy        average regret    sd  weak regret  self-duels  us/round
    UniformPairs           42.00  2.83        20.50       0.0 %      2.00
    """

    rounds: NDArray[np.int64]
    average_regret: dict[str, NDArray[np.float64]]
    weak_regret: dict[str, NDArray[np.float64]]
    self_duels: dict[str, NDArray[np.int64]]
    seconds: dict[str, NDArray[np.float64]]
    thetas: NDArray[np.float64]
    seed: int
    horizon: int
    runs: int
    settings: dict[str, str]
    first_regret: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    greedy_regret: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("horizon", 1), ("runs", 1)):
            self._set(name, _whole(getattr(self, name), name, least))
        rounds = _array(self.rounds, "rounds", np.int64, (None,))
        if rounds.size == 0 or rounds[0] < 1 or rounds[-1] > self.horizon or np.any(np.diff(rounds) <= 0):
            raise ValueError(f"rounds is {brief(rounds)}; increasing, from 1 to horizon={self.horizon}, is wanted")
        self._set("rounds", rounds)
        self._set("thetas", _array(self.thetas, "thetas", np.float64, (self.runs, None)))
        shape = (self.runs, rounds.size)
        self._set("average_regret", _arrays(self.average_regret, "average_regret", np.float64, shape))
        self._set("weak_regret", _arrays(self.weak_regret, "weak_regret", np.float64, shape))
        self._set("self_duels", _arrays(self.self_duels, "self_duels", np.int64, shape))
        self._set("first_regret", _arrays(self.first_regret, "first_regret", np.float64, shape))
        self._set("greedy_regret", _arrays(self.greedy_regret, "greedy_regret", np.float64, shape, unknown=True))
        self._set("seconds", _arrays(self.seconds, "seconds", np.float64, (self.runs,), unknown=True))
        self._set("settings", _texts(self.settings))
        self._check_labels()
        self._check_ranges()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # frozen for everybody else

    def _check_labels(self) -> None:
        if not self.policies:
            raise ValueError("average_regret is empty; at least one policy is wanted")
        single_arms = SINGLE_ARMS if self.first_regret or self.greedy_regret else ()
        for name in ("weak_regret", "self_duels", "seconds", *single_arms):
            found = list(getattr(self, name))
            if found != self.policies:
                raise ValueError(
                    f"{name} has the policies {brief(found)}, average_regret has {brief(self.policies)}; the same are "
                    "wanted"
                )

    def _check_ranges(self) -> None:
        for label in self.policies:
            duels = self.self_duels[label]
            if np.any(duels < 0) or np.any(duels > self.rounds):
                raise ValueError(f"self_duels[{label!r}] must lie between 0 and the number of rounds")
            if np.any(self.seconds[label] < 0):
                raise ValueError(f"seconds[{label!r}] has a negative number")

    @property
    def policies(self) -> list[str]:
        """Labels of the policies, in the order in which they were given."""
        return list(self.average_regret)

    @property
    def tables(self) -> tuple[str, ...]:
        """What is recorded at the checkpoints."""
        return (*TABLES, *SINGLE_ARMS) if self.first_regret else TABLES

    def __repr__(self) -> str:
        return (
            f"Result(policies={self.policies}, horizon={self.horizon}, runs={self.runs}, "
            f"checkpoints={self.rounds.size}, seed={self.seed})"
        )

    def same_numbers(self, other: Result) -> bool:
        """Whether both hold exactly the same numbers.

        Compared are the seed, horizon, runs, checkpoints, parameters, labels (in any order), regrets and
        self-duels, to the last bit; not the seconds, which never repeat, nor the settings, which name
        versions.
        """
        if not isinstance(other, Result):
            raise ValueError(f"other is {brief(other)}; a Result is wanted")
        return _digest(self) == _digest(other)

    def summary(self) -> str:
        """Return a table of the policies at the last checkpoint, as the paper reports them.

        Mean and standard deviation over the runs of the cumulative average regret ("-" for one run), mean
        cumulative weak regret, where recorded that of the first and of the greedy arm alone, share of rounds that
        compared an arm with itself, microseconds per round.
        """
        single_arms = ("first arm", "greedy arm") if self.first_regret else ()
        head = ("policy", "average regret", "sd", "weak regret", *single_arms, "self-duels", "us/round")
        rows = [head, *(self._summary_row(label) for label in self.policies)]
        runs = "1 run" if self.runs == 1 else f"{self.runs:,} runs"
        last = int(self.rounds[-1])
        reported = "" if last == self.horizon else f", regret after {last:,}"
        title = f"{self.horizon:,} rounds, {runs}, seed {self.seed}{reported}"
        return "\n".join([title, *align(rows)])

    def _summary_row(self, label: str) -> tuple[str, ...]:
        average, weak = self.average_regret[label][:, -1], self.weak_regret[label][:, -1]
        deviation = f"{average.std(ddof=1):,.2f}" if self.runs > 1 else "-"
        single_arms = [getattr(self, name)[label][:, -1].mean() for name in self.tables[len(TABLES) :]]
        share = float(self.self_duels[label][:, -1].mean() / self.rounds[-1])
        microseconds = float(1e6 * self.seconds[label].mean() / self.horizon)  # nan when a run's are not known
        return (
            label,
            f"{average.mean():,.2f}",
            deviation,
            f"{weak.mean():,.2f}",
            *("-" if np.isnan(regret) else f"{regret:,.2f}" for regret in single_arms),
            f"{100 * share:.1f} %",
            "-" if np.isnan(microseconds) else f"{microseconds:.2f}",
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw rounds against cumulative average regret: see :func:`fastcolst.plotting.regret_figure`."""
        from fastcolst.plotting import regret_figure

        return regret_figure(self, ax)

    def to_pandas(self) -> Any:
        """Return a tidy pandas DataFrame, one row per policy, run and checkpoint.

        Its columns are policy, run (from 0), round, average_regret, weak_regret, self_duels, and where recorded
        first_regret and greedy_regret.
        """
        return optional_import("pandas", "Result.to_pandas").DataFrame(_columns(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one Parquet file, all or nothing.

        Parameters
        ----------
        path : path ending in .parquet
            A file that is there is replaced once the new one is safely on disk, and not before.

        Raises
        ------
        ValueError
            The path does not end in .parquet.
        OSError
            The file cannot be written; what was there is as it was.
        """
        path = path_text("path", path)
        if Path(path).suffix.lower() != ".parquet":
            raise ValueError(f"path {brief(path)} must end in .parquet")
        write_atomically(path, _to_bytes(self))


def load_result(path: str | os.PathLike[str]) -> Result:
    """Read a result that :meth:`Result.save` wrote; every number comes back to the last bit.

    Parameters
    ----------
    path : path
        The Parquet file.

    Raises
    ------
    FileFormatError
        The file is truncated, damaged, or not a result of fastcolst.
    OSError
        The file cannot be read, for example because it is not there.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from fastcolst.experiments.results import Result, load_result
    >>> result = Result(rounds=[10], average_regret={"A": [[1.5]]}, weak_regret={"A": [[0.5]]},
    ...                 self_duels={"A": [[2]]}, seconds={"A": [0.1]}, thetas=[[1.0]],
    ...                 seed=7, horizon=10, runs=1, settings={"scenario": "easy"})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "result.parquet"
    ...     result.save(path)
    ...     load_result(path).same_numbers(result)
    True
    """
    path = path_text("path", path)
    optional_import("pyarrow", "load_result")
    data = read_whole(path)
    try:
        return _from_bytes(path, data)
    except FileFormatError as error:
        raise FileFormatError(f"{os.fspath(path)!r}: {error}") from error.__cause__
    except Exception as error:  # damaged bytes can trip a decoder in any way it knows
        raise FileFormatError(
            f"path {os.fspath(path)!r} is no readable result: {error}; a file that Result.save wrote is wanted"
        ) from error


def _columns(result: Result) -> dict[str, Any]:
    """Return the tidy table: policies outermost, then runs, then rounds."""
    n_policies, runs, k = len(result.policies), result.runs, result.rounds.size
    columns: dict[str, Any] = {
        "policy": [label for label in result.policies for _ in range(runs * k)],
        "run": np.tile(np.repeat(np.arange(runs, dtype=np.int64), k), n_policies),
        "round": np.tile(result.rounds, n_policies * runs),
    }
    for name in result.tables:
        columns[name] = np.concatenate([table.ravel() for table in getattr(result, name).values()])
    return columns


def _digest(result: Result) -> str:
    """Return a digest of all numbers: what `same_numbers` compares, and what a file must still give."""
    labels = sorted(result.policies)
    shape = [labels, result.seed, result.horizon, list(result.thetas.shape), result.rounds.size]
    digest = hashlib.sha256(json.dumps(shape).encode())
    digest.update(result.rounds.tobytes())
    digest.update(result.thetas.tobytes())
    for name in result.tables:
        for label in labels:
            digest.update(getattr(result, name)[label].tobytes())
    return digest.hexdigest()


def _header(result: Result) -> dict[str, Any]:
    return {
        "version": FORMAT_VERSIONS[bool(result.first_regret)],
        "policies": result.policies,
        "rounds": result.rounds.tolist(),
        "runs": result.runs,
        "horizon": result.horizon,
        "seed": result.seed,
        "thetas": result.thetas.tolist(),  # JSON writes the shortest text that reads back as the same float64
        "seconds": {
            label: [None if np.isnan(number) else number for number in seconds.tolist()]
            for label, seconds in result.seconds.items()
        },
        "settings": result.settings,
        "sha256": _digest(result),
    }


def _to_bytes(result: Result) -> bytes:
    pa = optional_import("pyarrow", "Result.save")
    pq = optional_import("pyarrow.parquet", "Result.save")
    text = json.dumps(_header(result), allow_nan=False)
    # The digest inside covers the numbers; this text, which holds it, has a digest of its own beside it.
    metadata = {_KEY: text.encode(), _KEY + b".sha256": hashlib.sha256(text.encode()).hexdigest().encode()}
    table = pa.table(_columns(result)).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue().to_pybytes())


def _from_bytes(path: str, data: bytes) -> Result:
    pa = optional_import("pyarrow", "load_result")
    pq = optional_import("pyarrow.parquet", "load_result")
    file = pq.ParquetFile(pa.BufferReader(data))
    metadata = file.schema_arrow.metadata or {}
    if _KEY not in metadata:
        raise FileFormatError("a Parquet file, but not a result of fastcolst")
    text = metadata[_KEY]
    if metadata.get(_KEY + b".sha256") != hashlib.sha256(text).hexdigest().encode():
        raise FileFormatError("the header is damaged")
    header = json.loads(text)
    if header["version"] not in FORMAT_VERSIONS:
        known = " and ".join(map(str, FORMAT_VERSIONS))
        raise FileFormatError(f"format version {header['version']!r}; this fastcolst reads {known}")
    rows, n_columns = file.metadata.num_rows, file.metadata.num_columns
    check_claim(path, f"the table of {rows:,} rows and {n_columns:,} columns", 8 * rows * n_columns, len(data))
    result = _assemble(header, file.read(use_threads=False))
    if _digest(result) != header["sha256"]:
        raise FileFormatError("the numbers are damaged")
    return result


def _assemble(header: dict[str, Any], table: Any) -> Result:
    policies, rounds, runs = header["policies"], header["rounds"], header["runs"]
    shape = (len(policies), runs, len(rounds))
    names = TABLES if header["version"] == FORMAT_VERSIONS[0] else (*TABLES, *SINGLE_ARMS)
    values = {name: table.column(name).to_numpy().reshape(shape) for name in names}
    result = Result(
        **{name: dict(zip(policies, values[name], strict=True)) for name in names},
        rounds=rounds,
        seconds={label: np.array(numbers, np.float64) for label, numbers in header["seconds"].items()},
        thetas=header["thetas"],
        seed=header["seed"],
        horizon=header["horizon"],
        runs=runs,
        settings=header["settings"],
    )
    # The columns that only label the rows are checked too: a file with its rows in another order is not ours.
    expected = _columns(result)
    if table.column_names != list(expected):
        raise FileFormatError(f"columns {table.column_names}; wanted {list(expected)}")
    for name in ("policy", "run", "round"):
        if table.column(name).to_pylist() != list(expected[name]):
            raise FileFormatError(f"column {name!r} does not fit the header")
    return result


def _whole(value: object, name: str, least: int) -> int:
    whole = whole_number(value)
    if whole is None or isinstance(value, float) or not least <= whole < LARGEST_WHOLE:
        raise ValueError(f"{name} is {brief(value)}; a whole number of at least {least} is wanted")
    return whole


def _array(
    value: ArrayLike, name: str, dtype: type, shape: tuple[int | None, ...], unknown: bool = False
) -> NDArray[Any]:
    """Return a read-only copy of finite numbers, or nan where `unknown`, in the wanted shape (None: any length)."""
    found = as_array(name, value, "not an array of numbers", "numbers are wanted")
    kinds = "iu" if dtype is np.int64 else "iuf"
    if found.dtype.kind not in kinds and found.size > 0:
        raise ValueError(f"{name} has dtype {found.dtype}; {np.dtype(dtype)} is wanted")
    if found.ndim != len(shape) or any(w not in (None, n) for n, w in zip(found.shape, shape, strict=True)):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{name} has shape {found.shape}; ({wanted}) is wanted")
    with np.errstate(all="ignore"):  # long doubles beyond float64
        array: NDArray[Any] = np.array(found, dtype=dtype, order="C")
    bad = np.isinf(array) if unknown else ~np.isfinite(array)
    if np.any(bad):
        where = ", ".join(map(str, np.argwhere(bad)[0]))
        raise ValueError(f"{name}[{where}] is not finite; every number must be")
    array.setflags(write=False)
    return array


def _arrays(
    tables: Any, name: str, dtype: type, shape: tuple[int, ...], unknown: bool = False
) -> dict[str, NDArray[Any]]:
    if not is_a(Mapping, tables):
        raise ValueError(f"{name} is a {type(tables).__name__}; a dictionary of label to array is wanted")
    tables = entries(name, tables, "a dictionary")
    for label in tables:
        if not isinstance(label, str) or not label:
            raise ValueError(f"{name} has the label {brief(label)}; a text that is not empty is wanted")
    return {label: _array(table, f"{name}[{label!r}]", dtype, shape, unknown) for label, table in tables.items()}


def _texts(settings: Any) -> dict[str, str]:
    if not is_a(Mapping, settings):
        raise ValueError(f"settings is a {type(settings).__name__}; a dictionary of text to text is wanted")
    found = entries("settings", settings, "a dictionary")
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ValueError(f"settings[{brief(key)}] is {brief(value)}; texts are wanted")
    return found
