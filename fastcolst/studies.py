"""Studies: policies x scenarios x runs, computed in cells on any executor, kept on disk, resumed where they stopped.

A cell is one policy on one scenario for a block of runs. Its numbers are those that :func:`fastcolst.simulate` gives
with the study's seed, so neither the cells' size nor who computes them matters. Workers compute and send back arrays;
the process that called :meth:`Study.run` alone writes, each finished cell as one Parquet file that appears whole or not
at all. What is on disk is all there is to resuming: cells that have their file are done.

    FOLDER/manifest.json    the study, the cells it is cut into, the version, the machine
    FOLDER/cells/*.parquet  results alone: the same bytes whoever computed them
    FOLDER/timings.jsonl    seconds, which never repeat

Each cell, each line of seconds and the manifest hold a digest of all their bytes, those of a cell or a line also of the
study and the cell that they belong to. What does not fit its digest is not believed: a cell is an error when it is read
and computed anew when the study is resumed, seconds count as unknown.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import hashlib
import itertools
import json
import math
import multiprocessing
import operator
import os
import platform
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import BrokenExecutor, CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from io import RawIOBase
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self

import numba
import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import answer, brief, count, entries, is_a, path_text, plain_text, whole_number
from fastcolst._files import FileFormatError, is_sealed, optional_import, read_toml, seal, write_atomically
from fastcolst._version import __version__
from fastcolst.estimation import MLE, estimator_of
from fastcolst.policies.policy import Policy
from fastcolst.problems import Problem
from fastcolst.results import Result
from fastcolst.simulation import (
    POLL_SECONDS,
    Plan,
    Record,
    checkpoint_rounds,
    is_label,
    play_run,
    processors,
)
from fastcolst.streams import LARGEST_SEED
from fastcolst.tables import (
    Recipe,
    check_grids,
    check_keys,
    check_levels,
    expand,
    policy_name,
    recipe_of,
    scenario_name,
    scenario_of,
    scenario_table,
)

__all__ = ["Study", "StudyResult", "load_study"]

FORMAT_VERSION = 2
MANIFEST, CELLS, TIMINGS, LOCK = "manifest.json", "cells", "timings.jsonl", ".lock"

TOP_KEYS = ("horizon", "runs", "seed", "checkpoints", "policy", "scenario")
SHOWN_DIFFERENCES = 5


@dataclass(frozen=True, eq=False)
class Study:
    """A study as data: which policies play which scenarios, how long, how often.

    Parameters
    ----------
    policies : dict of label to policy
        A policy object, as :func:`fastcolst.simulate` takes it, or a table: ``{"name": "CoLSTIM", "ridge": 1.0}``, the
        class's name and its keyword arguments. A table's policy plays scenarios of any number of features. A policy's
        random stream depends on its label.
    scenarios : dict of label to scenario
        A :class:`fastcolst.Scenario`, a :class:`fastcolst.ScoredArms` or another problem, or a table:
        ``{"name": "hard", "n_arms": 20}``, ``{"theta": [1.0, 0.5], "n_arms": 5}``, ``{"name": "file", "path": ...}``.
    horizon : int, or dict of scenario's label to int
        Rounds in each run.
    runs : int, default 1
        Independent repetitions.
    seed : int, default 0
        From which everything follows.
    checkpoints : int, sequence of int, or dict of scenario's label to such, default 200
        After which rounds regret is recorded: how many, evenly spaced, or which.

    Raises
    ------
    ValueError
        For an argument outside its range, a table with an unknown key, or a policy that does not fit a scenario.
    OSError
        A scenario's file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import fastcolst as fc
    >>> study = fc.Study(
    ...     policies={"Random": {"name": "UniformPairs"}},
    ...     scenarios={"easy": fc.Scenario.easy(n_arms=5, n_features=2), "hard": {"name": "hard", "n_arms": 5}},
    ...     horizon=100, runs=3, checkpoints=4,
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = study.run(folder, progress=False).to_pandas()
    >>> len(table)
    24
    """

    policies: Mapping[str, Policy | Mapping[str, Any]]
    scenarios: Mapping[str, Problem | Mapping[str, Any]]
    horizon: int | Mapping[str, int]
    runs: int = 1
    seed: int = 0
    checkpoints: int | Sequence[int] | Mapping[str, int | Sequence[int]] = 200
    _recipes: dict[str, Recipe] = field(init=False, repr=False)
    _settings: dict[str, _Setting] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("policies", "scenarios"):
            object.__setattr__(self, name, _labelled(name, getattr(self, name)))
        object.__setattr__(self, "runs", count("runs", self.runs))
        object.__setattr__(self, "seed", _seed(self.seed))
        recipes = {label: recipe_of(policy, f"policy {label!r}") for label, policy in self.policies.items()}
        object.__setattr__(self, "_recipes", recipes)
        object.__setattr__(self, "_settings", {label: self._setting(label) for label in self.scenarios})
        self._check_fit()
        _check_amounts(self.runs, _cut(self), [setting.rounds for setting in self._settings.values()])

    def _setting(self, label: str) -> _Setting:
        where = f"scenario {label!r}"
        scenario = self.scenarios[label]
        problem = scenario_of(scenario, where) if isinstance(scenario, Mapping) else scenario
        try:
            horizon = count("horizon", _of_scenario("horizon", self.horizon, label))
            checkpoints = _of_scenario("checkpoints", self.checkpoints, label)
            rounds = checkpoint_rounds(checkpoints, horizon, MOST_CHECKPOINTS)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        return _Setting(problem, horizon, rounds)

    def _check_fit(self) -> None:
        """Fit each policy to the scenarios: what can be wrong shows now, not in a worker.

        A policy is built, which takes a millisecond, once for a number of features; where only the number of arms
        differs, that is compared.
        """
        sizes: dict[int, dict[int, int]] = {}
        for setting in self._settings.values():
            sizes.setdefault(setting.problem.n_features, {})[setting.problem.n_arms] = setting.horizon
        for label, recipe in self._recipes.items():
            given = self.policies[label]
            for n_features, horizons in sizes.items():
                try:
                    template = given if isinstance(given, Policy) else recipe.build(n_features)
                    for i, (n_arms, horizon) in enumerate(horizons.items()):
                        if i == 0 or recipe.parameters["n_arms"] not in (None, n_arms):
                            template._fitted_to(n_features, n_arms, horizon, 0)
                except ValueError as error:
                    raise ValueError(f"policy {label!r}: {error}") from None

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Study) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    # --- as data --------------------------------------------------------------------------------------------

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Study:
        """Read a study from a TOML file.

        Top-level keys ``horizon``, ``runs``, ``seed``, ``checkpoints``. A table ``[[policy]]`` for each policy with its
        ``name``, perhaps a ``label``, and keyword arguments. A table ``[[scenario]]`` for each scenario with its
        ``name`` ("easy", "medium", "hard", or "file" with a ``path`` beside the TOML file; none with ``theta``),
        perhaps a ``label``, a ``horizon`` and ``checkpoints`` of its own, and keyword arguments. A list in place of a
        value is a grid: the study has each of its entries, and labels that name what varies.

        Raises
        ------
        FileFormatError
            A ValueError: the file is no TOML, no regular file, or larger than 1 MiB.
        ValueError
            A key is unknown, a value outside its range, or the grids stand for more than 10,000 policies or scenarios.
        OSError
            The file cannot be read.
        """
        path = path_text("path", path)
        return cls.from_dict(read_toml(path), Path(path).parent)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], folder: str | os.PathLike[str] = ".") -> Study:
        """Build a study from what a TOML file holds; ``folder`` is where relative paths begin.

        Raises
        ------
        ValueError
            A key is unknown, or a value outside its range.

        Examples
        --------
        >>> import fastcolst as fc
        >>> study = fc.Study.from_dict({
        ...     "horizon": 1000,
        ...     "policy": [{"name": "CoLSTIM", "estimator": "sgd", "width_scale": [0.5, 1.0]}],
        ...     "scenario": [{"name": "hard", "n_arms": 20}],
        ... })
        >>> list(study.policies)
        ['CoLSTIM width_scale=0.5', 'CoLSTIM width_scale=1.0']
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"data is {brief(data)}; a dict such as a TOML file holds is wanted")
        folder, data = path_text("folder", folder), entries("data", data)
        check_levels(data)
        check_keys(data, TOP_KEYS, "study")
        defaults = {key: data[key] for key in ("horizon", "checkpoints") if key in data}
        policies = _grids(data, "policy", {}, policy_name)
        scenarios = _grids(data, "scenario", defaults, _scenario_label)
        own: dict[str, dict[str, Any]] = {"horizon": {}, "checkpoints": {}}
        for label, table in scenarios.items():
            if isinstance(table.get("path"), str):
                table["path"] = str(Path(folder, table["path"]).resolve())
            if "horizon" not in table:
                raise ValueError(f"scenario {label!r}: horizon is missing, here and at the top of the study")
            own["horizon"][label] = table.pop("horizon")
            own["checkpoints"][label] = table.pop("checkpoints", 200)
        rest = {key: data[key] for key in ("runs", "seed") if key in data}
        return cls(policies, scenarios, **{key: _common(values) for key, values in own.items()}, **rest)

    def to_dict(self) -> dict[str, Any]:
        """Everything that the study's numbers depend on, as :meth:`from_dict` takes it: every argument spelled out.

        What a table cannot hold, such as a class of your own, is given by its repr, and does not come back.
        """
        return {
            "runs": self.runs,
            "seed": self.seed,
            "policy": [{"label": label, **recipe.table()} for label, recipe in self._recipes.items()],
            "scenario": [self._scenario_table(label) for label in self.scenarios],
        }

    def _scenario_table(self, label: str) -> dict[str, Any]:
        given, setting = self.scenarios[label], self._settings[label]
        checkpoints = _of_scenario("checkpoints", self.checkpoints, label)
        own = {
            "label": label,
            "horizon": setting.horizon,
            "checkpoints": int(checkpoints) if np.ndim(checkpoints) == 0 else setting.rounds.tolist(),
        }
        problem = setting.problem
        if isinstance(given, Mapping) and scenario_name(given, label) in ("file", "scored"):
            return {**own, **given, "maximize": problem.maximize, "sha256": problem.digest}  # type: ignore[attr-defined]
        return {**own, **scenario_table(problem)}

    # --- running --------------------------------------------------------------------------------------------

    def run(
        self,
        out: str | os.PathLike[str],
        executor: Any = None,
        threads: int | None = None,
        resume: bool = True,
        progress: bool = True,
    ) -> StudyResult:
        """Compute the study, or what is missing of it, into a folder.

        Parameters
        ----------
        out : path
            The study's folder; made when it is not there.
        executor : optional
            Anything with ``submit`` as in :mod:`concurrent.futures`: a ``ProcessPoolExecutor``, loky's,
            ``dask.distributed.Client(...).get_executor()``, ``mpi4py.futures.MPIPoolExecutor``. It stays open.
            None: threads.
        threads : int, optional
            Without an executor: cells at work at once; None: one for each processor.
        resume : bool, default True
            Continue what is in the folder; False: refuse a folder that is not empty.
        progress : bool, default True
            Report cells done, rate and time left to standard error.

        Returns
        -------
        StudyResult

        Raises
        ------
        ValueError
            The folder holds another study (the message shows where they differ), or numbers stopped being finite.
        TypeError
            ``executor`` is not an executor, such as a bare dask ``Client``.
        OSError
            The folder cannot be written, is in use, or is not empty although ``resume`` is False.
        BrokenExecutor
            A worker died. Finished cells stay, as they do after any error and after Ctrl-C.

        Notes
        -----
        The Parquet bytes depend on the study alone: not on the executor, nor on how often it was interrupted. Memory:
        that of the cells at work. Cells that are there are read, a tenth of a millisecond each; those that are
        damaged, or of an earlier version, are removed and computed anew, which one line on standard error tells.
        Workers that this process has started leave when it is gone.
        """
        out = path_text("out", out)
        resume, progress = answer(resume, "resume"), answer(progress, "progress")
        _check_executor(executor, threads)
        workers = processors() if threads is None else count("threads", threads)
        with _Store(Path(out), _Manifest.of(self), resume) as store:
            _tell_of_damaged(store.damaged)
            missing = store.missing()
            if missing:
                with _Progress(len(store.manifest.cells), len(missing), progress) as bar:
                    if executor is None:
                        _run_on_threads(self, store, missing, bar, workers)
                    else:
                        _run_on(executor, partial(compute_cell_for, os.getpid()), self, store, missing, bar)
        result = StudyResult(Path(out), store.manifest)
        result.__dict__["study"] = self
        return result


def _tell_of_damaged(cells: list[str]) -> None:
    """In a line, not by a warning: a filter might make that an error, and no resuming would ever get past it."""
    if cells:
        number = "1 cell is" if len(cells) == 1 else f"{len(cells):,} cells are"
        _write(f"fastcolst: {number} damaged or of an earlier version, and computed anew: {_short(cells)}")


class _Setting(NamedTuple):
    """A scenario as it is played: the problem, T, and the rounds after which regret is recorded."""

    problem: Problem
    horizon: int
    rounds: NDArray[np.int64]


def _labelled(name: str, table: Any) -> dict[str, Any]:
    if not isinstance(table, Mapping) or not table:
        raise ValueError(f"{name} is {brief(table)}; a dict of labels and {name} is wanted")
    wanted = Policy if name == "policies" else Problem
    for label, value in entries(name, table).items():
        if not is_label(label) or not (isinstance(value, Mapping) or is_a(wanted, value)):
            raise ValueError(
                f"{name} has {brief(label)}: {brief(value)}; a label and a {wanted.__name__.lower()} or a table are "
                "wanted"
            )
    return dict(table)


def _seed(value: Any) -> int:
    seed = whole_number(value)
    if seed is None or isinstance(value, float):
        raise ValueError(f"seed is {brief(value)}; a whole number is wanted, so that the study can be resumed")
    if not 0 <= seed < LARGEST_SEED:
        raise ValueError(f"seed is {brief(seed)}; it must not be negative, and below 2^{LARGEST_SEED.bit_length() - 1}")
    return seed


def _of_scenario(name: str, value: Any, label: str) -> Any:
    if not isinstance(value, Mapping):
        return value
    by_label = entries(name, value)
    if label not in by_label:
        raise ValueError(f"{name} has no entry for it: {', '.join(map(brief, by_label))}")
    return by_label[label]


def _grids(
    data: Mapping[str, Any], kind: str, defaults: dict[str, Any], name: Callable[[dict[str, Any], str], str]
) -> dict[str, dict[str, Any]]:
    """The policies' or the scenarios' tables by label; those without one are called by their name."""
    tables = data.get(kind)
    if not isinstance(tables, list) or not tables or not all(isinstance(table, Mapping) for table in tables):
        raise ValueError(f"study: {kind} is {brief(tables)}; at least one table [[{kind}]] is wanted")
    check_grids(({**defaults, **table} for table in tables), kind)
    by_label: dict[str, dict[str, Any]] = {}
    for i, given in enumerate(tables, 1):
        table = {**defaults, **given}
        where = f"{kind} table {i} ({brief(table.get('label', table.get('name')))})"
        own = table.pop("label", None)
        if own is not None and (not isinstance(own, str) or not own):
            raise ValueError(f"{where}: label is {brief(own)}; a text that is not empty is wanted")
        for single, varied in expand(table, where):
            told = () if own else ("name", "path")  # by the name
            rest = ", ".join(f"{key}={text}" for key, text in varied.items() if key not in told)
            label = f"{own or name(single, where)} {rest}".rstrip()
            if label in by_label:
                raise ValueError(f"{where}: the label {label!r} is taken; another one is wanted")
            by_label[label] = single
    return by_label


def _scenario_label(table: dict[str, Any], where: str) -> str:
    name = scenario_name(table, where)
    return Path(table["path"]).stem if name == "file" and isinstance(table.get("path"), str) else name


def _common(by_label: dict[str, Any]) -> Any:
    """The value that all labels share, or the table by label."""
    first, *others = by_label.values()
    plain = all(type(value) in (int, list) for value in by_label.values())
    return first if plain and all(value == first for value in others) else by_label


# --- cells --------------------------------------------------------------------------------------------------

MOST_CELLS = 1_000_000
MOST_CHECKPOINTS = 1_000_000
MOST_ROWS = 10_000_000_000
"""Rows of results: a run at a checkpoint. So many numbers are 240 GB."""
CELL_SECONDS = 1.0
"""A cell takes about so long, or longer, on a slow processor."""


class Cell(NamedTuple):
    """Where a cell stands: numbers of its scenario, policy and block, and its runs."""

    scenario: int
    policy: int
    block: int
    first_run: int
    n_runs: int

    @property
    def name(self) -> str:
        """Its file's name; names sort as the cells do."""
        return f"{self.scenario:05d}-{self.policy:05d}-{self.block:05d}.parquet"


class Task(NamedTuple):
    """All that a worker needs to compute a cell, as plain data."""

    scenario: str
    policy: str
    problem: Problem
    recipe: Recipe
    horizon: int
    rounds: NDArray[np.int64]
    seed: int
    runs: range


class Outcome(NamedTuple):
    """What a cell gives.

    totals (n_runs, k, 3) float64, average regret, weak regret and self-duels at the checkpoints; seconds (n_runs,)
    float64; a policy's trouble in the first run, if any, in words; which worker it was.
    """

    totals: NDArray[np.float64]
    seconds: NDArray[np.float64]
    trouble: str
    worker: str


_WARM: set[tuple[type, ...]] = set()
"""Kinds of rules whose kernels this process has compiled or loaded."""


def compute_cell(task: Task, stop: threading.Event | None = None) -> Outcome:
    """Play the runs of a cell. The same task gives the same totals wherever and however often it is computed."""
    stop = threading.Event() if stop is None else stop
    template = task.recipe.build(task.problem.n_features)
    plan = Plan({task.policy: template}, task.problem, task.horizon, task.seed, task.rounds)
    _warm(template)
    totals, seconds = np.empty((len(task.runs), len(task.rounds), 3)), np.empty(len(task.runs))
    trouble = ""
    for i, run in enumerate(task.runs):
        record = Record(plan)
        try:
            policies = play_run(plan, run, record, stop)
        except ValueError as error:
            raise ValueError(f"scenario {task.scenario!r}, {error}") from None
        if stop.is_set():
            raise CancelledError
        totals[i], seconds[i] = record.totals[task.policy], record.seconds[task.policy]
        trouble = trouble if i else policies[task.policy]._exploration_trouble()
    return Outcome(totals, seconds, trouble, f"{socket.gethostname()}:{os.getpid()}")


def compute_cell_for(process: int, task: Task) -> Outcome:
    """Compute a cell in a worker, which does not outlive the process that hands out the cells and started it."""
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid == process:
        leave_with_parent(os.getpid())
    return compute_cell(task)


@cache
def leave_with_parent(_: int) -> None:
    """End this process, whose number is given, as soon as the one that started it has ended; told once, and for good.

    A worker waits for tasks on a pipe that its siblings and itself hold open: of a parent that was killed it never
    hears. With the workers goes the last who uses the tracker of their semaphores, and it leaves too.
    """
    threading.Thread(target=_end_with, args=(multiprocessing.parent_process(),), daemon=True).start()


def _end_with(parent: Any) -> None:
    if parent.sentinel is not None:
        parent.join()
    else:  # loky's workers have none
        while os.getppid() == parent.pid:
            time.sleep(POLL_SECONDS)
    os._exit(1)  # whatever the other threads are at: nobody wants it any more


def _warm(policy: Policy, bar: _Progress | None = None) -> None:
    """Compile a policy's kernels before its time is taken, and before threads would queue for the compiler."""
    kind = (type(policy), *map(type, policy._rule))
    if kind not in _WARM:
        if bar is not None:
            bar.say(f"preparing {type(policy).__name__}, which takes a while where it must be compiled first")
        policy._warm_play()
        _WARM.add(kind)


_RULE_COSTS = {"UniformPairs": 0.05, "SelfSparring": 2.0, "DoubleThompson": 4.0, "MaxInP": 3.0, "MaxPairUCB": 3.0}
"""How long a round's choice takes, as a multiple of CoLSTIM's; rough, and the same for every machine."""


def _round_seconds(recipe: Recipe, problem: Problem) -> float:
    """What a round takes, roughly, in seconds: contexts are drawn, a pair is chosen, an answer is learned."""
    n, d = problem.n_arms, problem.n_features
    contexts = 0.2 + 0.003 * n * d
    choice = 0.3 + 0.02 * n + 0.00005 * n * d * d
    exact = 0.5 + 0.3 * d if isinstance(estimator_of(recipe.parameters.get("estimator", "sgd")), MLE) else 0.0
    return 1e-6 * (contexts + _RULE_COSTS.get(recipe.cls.__name__, 1.0) * choice + exact)


def _block_runs(recipe: Recipe, setting: _Setting, runs: int) -> int:
    """Runs of a cell: as few as make about :data:`CELL_SECONDS`, and the blocks of about the same size."""
    total = runs * setting.horizon * _round_seconds(recipe, setting.problem)
    n_blocks = min(runs, max(1, int(total / CELL_SECONDS)))
    return math.ceil(runs / n_blocks)


def _cut(study: Study) -> list[list[int]]:
    """Runs of a cell, by scenario and policy."""
    recipes, settings = study._recipes.values(), study._settings.values()
    return [[_block_runs(recipe, setting, study.runs) for recipe in recipes] for setting in settings]


def _check_amounts(runs: int, block_runs: list[list[int]], rounds: Sequence[Sized]) -> None:
    """Raise ValueError for more than anyone can wait for or keep, before any of it is spread out."""
    n_cells = sum(-(-runs // size) for sizes in block_runs for size in sizes)
    n_rows = runs * sum(len(sizes) * len(r) for sizes, r in zip(block_runs, rounds, strict=True))
    for number, most, what in ((n_cells, MOST_CELLS, "cells"), (n_rows, MOST_ROWS, "rows of results")):
        if number > most:
            raise ValueError(f"runs is {runs}; that makes {number:,} {what}, and at most {most:,} are wanted")


# --- the folder ---------------------------------------------------------------------------------------------


class _Manifest(NamedTuple):
    """What the folder's manifest says: the study, how it is cut into cells, and where it was begun."""

    format_version: int
    study: dict[str, Any]
    scenarios: list[dict[str, Any]]  # label, horizon, rounds
    policies: list[str]
    block_runs: list[list[int]]  # by scenario and policy
    fastcolst: str
    machine: dict[str, Any]

    @classmethod
    def of(cls, study: Study) -> _Manifest:
        settings = study._settings
        return cls(
            FORMAT_VERSION,
            study.to_dict(),
            [{"label": k, "horizon": s.horizon, "rounds": s.rounds.tolist()} for k, s in settings.items()],
            list(study._recipes),
            _cut(study),
            __version__,
            {
                "platform": platform.platform(),
                "processors": processors(),
                "python": platform.python_version(),
                "numpy": np.__version__,
                "numba": numba.__version__,
            },
        )

    @classmethod
    def read(cls, folder: Path, earlier: bool = False) -> _Manifest:
        """The manifest of a folder; with ``earlier`` also one of the first format, which has no digest."""
        path = folder / MANIFEST
        data = path.read_bytes()
        try:
            content = json.loads(data)
            content.pop("digest", None)
            manifest = cls(content.pop("format_version"), **content)
            if manifest.format_version not in ((1, FORMAT_VERSION) if earlier else (FORMAT_VERSION,)):
                raise FileFormatError(
                    f"its format version is {manifest.format_version!r}, and {FORMAT_VERSION} is wanted; "
                    "a study of an earlier version is computed anew when it is resumed"
                )
            manifest._check()
            if manifest.format_version == FORMAT_VERSION and not is_sealed(data):
                raise FileFormatError("it is damaged or was changed, for its digest is that of other bytes")
            return manifest
        except Exception as error:  # damaged bytes can trip a decoder in any way it knows
            raise FileFormatError(f"{os.fspath(path)!r} is no manifest of a study: {error}") from error

    def _check(self) -> None:
        """Raise an error where something is not as it was written, or more than a study may ask for."""
        runs, rounds = self.study["runs"], [scenario["rounds"] for scenario in self.scenarios]
        horizons = [scenario["horizon"] for scenario in self.scenarios]
        labels = [[table["label"] for table in self.study[kind]] for kind in ("policy", "scenario")]
        shape = [len(self.policies)] * len(self.scenarios)
        if not (
            labels == [self.policies, [scenario["label"] for scenario in self.scenarios]]
            and all(isinstance(label, str) for label in itertools.chain(*labels))
            and all(type(number) is int and number > 0 for number in [runs, *itertools.chain(*self.block_runs)])
            and all(type(number) is int for number in [self.study["seed"], *horizons, *itertools.chain(*rounds)])
            and self.study["seed"] >= 0
            and all(
                r[:1] > [0] and r[-1] <= horizon < 2**62 and all(map(operator.lt, r, r[1:]))
                for horizon, r in zip(horizons, rounds, strict=True)
            )
            and min(shape, default=0) > 0
            and [len(sizes) for sizes in self.block_runs] == shape
        ):
            raise ValueError("labels, rounds and runs do not fit together")
        _check_amounts(runs, self.block_runs, rounds)

    def write(self, folder: Path) -> None:
        text = json.dumps({**self._asdict(), "digest": "sha256:"}, indent=1)
        write_atomically(folder / MANIFEST, seal(text.encode()))

    def place(self) -> str:
        """What names the study in the digests of its cells: everything that their numbers depend on."""
        parts = self.fastcolst, _without_paths(self.study), self.scenarios, self.policies, self.block_runs
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def cells(self) -> list[Cell]:
        """All cells, so that whatever is done at any time is a fair share of every scenario and policy."""
        runs = self.study["runs"]
        cells = [
            (first / runs, Cell(s, p, block, first, min(size, runs - first)))
            for s, sizes in enumerate(self.block_runs)
            for p, size in enumerate(sizes)
            for block, first in enumerate(range(0, runs, size))
        ]
        return [cell for _, cell in sorted(cells)]

    def differences(self, other: _Manifest) -> list[str]:
        """Where the study, the version or the cells differ: "key: this one's, now the other's"."""
        mine, others = ({"fastcolst": m.fastcolst, **_without_paths(m.study)} for m in (self, other))
        lines = list(_differences(mine, others, ""))
        return lines or list(_differences(self.block_runs, other.block_runs, "block_runs"))


def _without_paths(study: dict[str, Any]) -> dict[str, Any]:
    """The study with data named by what they are, not by where they lie."""
    scenarios = [{k: v for k, v in table.items() if k != "path"} for table in study["scenario"]]
    return {**study, "scenario": scenarios}


def _differences(mine: Any, other: Any, where: str) -> Iterator[str]:
    if isinstance(mine, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*mine, *other]):
            yield from _differences(mine.get(key), other.get(key), f"{where}.{key}" if where else key)
    elif isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other):
        for i, (a, b) in enumerate(zip(mine, other, strict=True)):
            named = isinstance(a, dict) and isinstance(b, dict) and a.get("label") == b.get("label") is not None
            yield from _differences(a, b, f"{where}[{a['label']!r}]" if named else f"{where}[{i}]")
    elif mine != other:
        yield f"{where}: {_short(mine)}, now {_short(other)}"


def _short(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = [entry.get("label") for entry in value]
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


class _Store:
    """A study's folder, held by one process at a time, which alone writes."""

    def __init__(self, folder: Path, manifest: _Manifest, resume: bool) -> None:
        self.folder, self.manifest, self._resume = folder, manifest, resume
        self._place = manifest.place()
        self.damaged: list[str] = []
        self.done = 0

    def __enter__(self) -> Self:
        optional_import("pyarrow.parquet", "a study")
        with contextlib.ExitStack() as held:
            try:
                self._check_content()
                (self.folder / CELLS).mkdir(parents=True, exist_ok=True)
                held.enter_context(locked(self.folder / LOCK))
                for entry in self.folder.glob(f".{MANIFEST}.*.tmp"):  # of a process that was killed
                    entry.unlink()
                self._settle()
                self.damaged = self._remove_damaged()
                self._settle_timings()
                self._timings = held.enter_context((self.folder / TIMINGS).open("ab", buffering=0))
            except OSError as error:
                raise self._cannot_write(error) from error
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def _check_content(self) -> None:
        """Refuse a folder that is somebody else's, before anything is put into it."""
        content = {entry.name for entry in os.scandir(self.folder)} if self.folder.exists() else set()
        if not self._resume and content:
            raise FileExistsError(errno.EEXIST, "the folder is not empty; resume (--resume), or choose another one")
        begun = {name for name in content if name in (CELLS, LOCK) or name.startswith(f".{MANIFEST}.")}
        if MANIFEST not in content and content != begun:  # killed before it had one
            raise FileExistsError(errno.EEXIST, "the folder holds something other than a study; choose another one")

    def _settle(self) -> None:
        """Compare with the manifest that is there, or write one."""
        if not (self.folder / MANIFEST).exists():
            self.manifest.write(self.folder)
            return
        there = _Manifest.read(self.folder, earlier=True)
        differences = there.differences(self.manifest)
        if differences:
            shown = "; ".join(differences[:SHOWN_DIFFERENCES])
            more = f"; and {len(differences) - SHOWN_DIFFERENCES} more" if len(differences) > SHOWN_DIFFERENCES else ""
            raise ValueError(f"{os.fspath(self.folder)!r} holds another study: {shown}{more}")
        if there.format_version != FORMAT_VERSION:
            self.manifest.write(self.folder)

    def _settle_timings(self) -> None:
        """Keep one line for each cell that is there: no other line can be taken for one of them that is damaged."""
        path = self.folder / TIMINGS
        if not path.exists():
            return
        lines = path.read_bytes().splitlines(keepends=True)
        there = {entry.name for entry in os.scandir(self.folder / CELLS)}
        kept = [line for line in lines if (_timing(line, self._place) or ("", []))[0] in there]
        if kept != lines:
            write_atomically(path, b"".join(kept))

    def _remove_damaged(self) -> list[str]:
        """Remove the cells that are not what this study wrote there; their names."""
        names = {cell.name for cell in self.manifest.cells}
        damaged = []
        for entry in os.scandir(self.folder / CELLS):
            path = Path(entry.path)
            if entry.name in names and not is_sealed(path.read_bytes(), self._place + entry.name):
                path.unlink()
                damaged.append(entry.name)
        return sorted(damaged)

    def missing(self) -> list[Cell]:
        """The cells without a file, after what a killed process left half-written is removed."""
        found = set()
        for entry in os.scandir(self.folder / CELLS):
            if entry.name.endswith(".tmp"):
                Path(entry.path).unlink()
            else:
                found.add(entry.name)
        cells = self.manifest.cells
        missing = [cell for cell in cells if cell.name not in found]
        self.done = len(cells) - len(missing)
        return missing

    def add(self, cell: Cell, outcome: Outcome) -> None:
        """Keep a finished cell. Its seconds come first, so that no cell counts as done without them."""
        try:
            line = {"cell": cell.name, "seconds": outcome.seconds.tolist(), "worker": outcome.worker}
            text = json.dumps({**line, "digest": "sha256:"})
            _append(self._timings, seal(text.encode(), self._place) + b"\n")
            data = seal(_cell_bytes(self.manifest, cell, outcome.totals), self._place + cell.name)
            write_atomically(self.folder / CELLS / cell.name, data)
        except OSError as error:
            raise self._cannot_write(error) from error
        self.done += 1

    @property
    def state(self) -> str:
        """What there is to say of it when it ends early."""
        self.missing()  # an interrupt may have come between a cell's file and its count
        total = sum(math.ceil(self.manifest.study["runs"] / size) for row in self.manifest.block_runs for size in row)
        return f"{self.done} of {total} cells are done and stay in {os.fspath(self.folder)!r}; resume to go on"

    def _cannot_write(self, error: OSError) -> OSError:
        text = error.strerror or str(error)
        return type(error)(error.errno, f"{text} ({self.state})" if self.done else text, os.fspath(self.folder))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock; the system releases it when the process ends, however that happens."""
    with path.open("ab") as file:
        try:
            import fcntl
        except ImportError:  # not POSIX: two processes in one folder would do the same work twice
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another process is computing here") from None
        yield


def _timing(line: bytes, place: str) -> tuple[str, list[float]] | None:
    """A cell's name and the seconds of its runs; None when the line does not fit its digest."""
    if not line.endswith(b"\n") or not is_sealed(line[:-1], place):  # left unfinished by a killed process, say
        return None
    entry = json.loads(line)
    return entry["cell"], entry["seconds"]


def _append(file: RawIOBase, line: bytes) -> None:
    if (file.write(line) or 0) < len(line):  # a file without a buffer writes as much as there is room for
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


_TABLES = ("average_regret", "weak_regret", "self_duels")


def _cell_bytes(manifest: _Manifest, cell: Cell, totals: NDArray[np.float64]) -> bytes:
    """A cell's Parquet file: tidy, and without anything but results in it, with a mark to be sealed.

    The digest stands before the footer, whose length the file ends with: there readers jump over it, and it covers the
    footer as well.
    """
    pa, pq = optional_import("pyarrow", "a study"), optional_import("pyarrow.parquet", "a study")
    rounds = manifest.scenarios[cell.scenario]["rounds"]
    n, k = cell.n_runs, len(rounds)
    columns = {
        "scenario": pa.repeat(manifest.scenarios[cell.scenario]["label"], n * k),
        "policy": pa.repeat(manifest.policies[cell.policy], n * k),
        "run": np.repeat(np.arange(cell.first_run, cell.first_run + n, dtype=np.int64), k),
        "round": np.tile(np.array(rounds, np.int64), n),
        "average_regret": totals[:, :, 0].ravel(),
        "weak_regret": totals[:, :, 1].ravel(),
        "self_duels": totals[:, :, 2].ravel().astype(np.int64),
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, version="2.6", compression="zstd", write_statistics=False)
    data = bytes(sink.getvalue().to_pybytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[:footer] + b"sha256:" + data[footer:]


# --- executors ----------------------------------------------------------------------------------------------

TASKS_AHEAD = 256
"""Tasks handed to an executor that does not say how many workers it has."""


def _check_executor(executor: Any, threads: int | None) -> None:
    if executor is None:
        return
    if threads is not None:
        raise ValueError(f"threads is {brief(threads)}; with an executor, whose own workers count, None is wanted")
    if callable(getattr(executor, "get_executor", None)):
        raise TypeError("executor is a dask Client, not an executor; pass client.get_executor()")
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor is {brief(executor)}; None or an executor as in concurrent.futures is wanted")


def _run_on_threads(study: Study, store: _Store, missing: list[Cell], bar: _Progress, workers: int) -> None:
    recipes, settings = list(study._recipes.values()), list(study._settings.values())
    for p, s in {cell.policy: cell.scenario for cell in missing}.items():
        _warm(recipes[p].build(settings[s].problem.n_features), bar)
    bar.start()
    stop = threading.Event()
    executor = ThreadPoolExecutor(workers, thread_name_prefix="fastcolst")
    try:
        _run_on(executor, partial(compute_cell, stop=stop), study, store, missing, bar)
    finally:  # after Ctrl-C or an error: cells at work stop at their next chunk
        stop.set()
        executor.shutdown(wait=True, cancel_futures=True)


def _run_on(
    executor: Any,
    compute: Callable[[Task], Outcome],
    study: Study,
    store: _Store,
    missing: list[Cell],
    bar: _Progress,
) -> None:
    """Hand out cells, a bounded number at a time, and keep them as they come back."""
    workers = getattr(executor, "_max_workers", None)
    ahead = 2 * workers if isinstance(workers, int) else TASKS_AHEAD
    cells = iter(missing)
    waiting: dict[Future[Outcome], Cell] = {}
    finished: SimpleQueue[Future[Outcome]] = SimpleQueue()
    warned: set[tuple[int, int]] = set()
    make = _task_maker(study)
    try:
        while True:
            for cell in islice(cells, ahead - len(waiting)):
                future = executor.submit(compute, make(cell))
                waiting[future] = cell
                future.add_done_callback(finished.put)
            if not waiting:
                return
            future = _next(finished, bar)
            outcome = future.result()
            cell = waiting.pop(future)
            store.add(cell, outcome)
            bar.advance()
            if outcome.trouble and (cell.scenario, cell.policy) not in warned:
                warned.add((cell.scenario, cell.policy))
                where = store.manifest.scenarios[cell.scenario]["label"], store.manifest.policies[cell.policy]
                warnings.warn(f"scenario {where[0]!r}, policy {where[1]!r}: {outcome.trouble}", stacklevel=4)
    except BaseException as error:
        _give_up(store, waiting)
        clearer = _clearer(error, store.state)
        if clearer is None:
            raise
        raise clearer from error


def _task_maker(study: Study) -> Callable[[Cell], Task]:
    policies, scenarios = list(study._recipes.items()), list(study._settings.items())

    def make(cell: Cell) -> Task:
        (label, setting), (policy, recipe) = scenarios[cell.scenario], policies[cell.policy]
        runs = range(cell.first_run, cell.first_run + cell.n_runs)
        return Task(label, policy, setting.problem, recipe, setting.horizon, setting.rounds, study.seed, runs)

    return make


def _next(finished: SimpleQueue[Future[Outcome]], bar: _Progress) -> Future[Outcome]:
    while True:
        try:
            return finished.get(timeout=POLL_SECONDS)  # a wait without end would not see Ctrl-C everywhere
        except Empty:
            bar.show()


def _give_up(store: _Store, waiting: Mapping[Future[Outcome], Cell]) -> None:
    """Call off what has not begun, and keep what was finished meanwhile."""
    for future in waiting:
        future.cancel()
    with contextlib.suppress(OSError):
        for future, cell in waiting.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                store.add(cell, future.result())


def _clearer(error: BaseException, state: str) -> BaseException | None:
    """An error that says better what happened and what is left, if there is one; else a note to this one."""
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt(f"interrupted: {state}")
    if isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker":  # dask's
        return BrokenExecutor(f"a worker died ({error}): {state}")
    if not isinstance(error, OSError):  # the folder's own, which says it
        error.add_note(state)
    return None


class _Progress:
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
            _write(f"fastcolst: {what}")

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
            text += f", {rate:.3g} cells/s, {_clock((self._total - done) / rate)} left"
        _write(text)


def _write(line: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


# --- results ------------------------------------------------------------------------------------------------


def load_study(out: str | os.PathLike[str]) -> StudyResult:
    """Read what a study has computed, finished or not.

    Parameters
    ----------
    out : path
        The folder that :meth:`Study.run` wrote.

    Raises
    ------
    FileFormatError
        The folder's manifest is damaged.
    OSError
        There is none.
    """
    out = path_text("out", out)
    return StudyResult(Path(out), _Manifest.read(Path(out)))


class StudyResult:
    """What a study has computed, read from its folder when it is asked for.

    Attributes
    ----------
    folder : Path
        Where it lies.
    """

    def __init__(self, folder: Path, manifest: _Manifest) -> None:
        self.folder = folder
        self._manifest = manifest
        self._place = manifest.place()

    def __repr__(self) -> str:
        return f"StudyResult({os.fspath(self.folder)!r}, scenarios={self.scenarios}, policies={self.policies})"

    @cached_property
    def study(self) -> Study:
        """The study. ValueError when a table could not hold it, such as one with classes or data of your own."""
        return Study.from_dict(self._manifest.study)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that the numbers depend on, as :meth:`Study.to_dict` gives it: a copy."""
        return copy.deepcopy(self._manifest.study)

    @property
    def scenarios(self) -> list[str]:
        """The scenarios' labels."""
        return [scenario["label"] for scenario in self._manifest.scenarios]

    @property
    def policies(self) -> list[str]:
        """The policies' labels."""
        return list(self._manifest.policies)

    @property
    def missing(self) -> int:
        """How many cells are not there yet."""
        return len(self._manifest.cells) - len(self._cells())

    def _cells(self) -> list[Cell]:
        """The finished cells, by scenario, policy and run."""
        with os.scandir(self.folder / CELLS) as entries:
            found = {entry.name for entry in entries}
        return sorted(cell for cell in self._manifest.cells if cell.name in found)

    def _table(self) -> Any:
        """Everything as one Arrow table."""
        pa = optional_import("pyarrow", "a study")
        cells = self._cells()
        if not cells:
            raise ValueError(f"{os.fspath(self.folder)!r} holds no finished cell yet")
        parts = [self._read(cell) for cell in cells]
        sizes = [len(part) for part in parts]
        numbers = pa.concat_tables(parts)
        labels, varied = {}, {}
        for name, known in (("scenario", self.scenarios), ("policy", self.policies)):
            places = pa.array(np.repeat([getattr(cell, name) for cell in cells], sizes))
            labels[name] = pa.array(known).take(places)
            for key, values in _varied(self._manifest.study[name]).items():
                varied[f"{name}_{key}"] = _column(values).take(places)
        return pa.table({**labels, **dict(zip(numbers.column_names, numbers.columns, strict=True)), **varied})

    def _read(self, cell: Cell) -> Any:
        """A cell's numbers as an Arrow table, from the very bytes that this study wrote for it."""
        pa, pq = optional_import("pyarrow", "a study"), optional_import("pyarrow.parquet", "a study")
        path = self.folder / CELLS / cell.name
        data = path.read_bytes()
        if not is_sealed(data, self._place + cell.name):
            raise FileFormatError(
                f"{os.fspath(path)!r} is damaged, or a cell of another study; resume the study to compute it anew"
            )
        return pq.ParquetFile(pa.BufferReader(data)).read(["run", "round", *_TABLES], use_threads=False)

    def to_pandas(self) -> Any:
        """Return a tidy pandas DataFrame, a row for each scenario, policy, run (from 0) and checkpoint that is there.

        Its columns are scenario, policy, run, round, average_regret, weak_regret, self_duels; then, for each argument
        that varies, ``scenario_...`` or ``policy_...`` with its value.
        """
        optional_import("pandas", "StudyResult.to_pandas")
        return self._table().to_pandas()

    def to_polars(self) -> Any:
        """Return the same table as a polars DataFrame."""
        return optional_import("polars", "StudyResult.to_polars").from_arrow(self._table())

    def to_xarray(self) -> Any:
        """Return an xarray Dataset with dims scenario, policy, run, round; nan where there is nothing."""
        xarray = optional_import("xarray", "StudyResult.to_xarray")
        rounds = np.unique(np.concatenate([scenario["rounds"] for scenario in self._manifest.scenarios]))
        runs = self._manifest.study["runs"]
        shape = (len(self.scenarios), len(self.policies), runs, len(rounds))
        arrays = {name: np.full(shape, np.nan) for name in _TABLES}
        for cell in self._cells():
            table = self._read(cell)
            places = np.searchsorted(rounds, self._manifest.scenarios[cell.scenario]["rounds"])
            block = np.arange(cell.first_run, cell.first_run + cell.n_runs)
            for name, array in arrays.items():
                values = table.column(name).to_numpy().reshape(cell.n_runs, -1)
                array[cell.scenario, cell.policy][np.ix_(block, places)] = values
        dims = ("scenario", "policy", "run", "round")
        return xarray.Dataset(
            {name: (dims, array) for name, array in arrays.items()},
            coords={"scenario": self.scenarios, "policy": self.policies, "run": np.arange(runs), "round": rounds},
        )

    def seconds(self) -> Any:
        """Return a pandas DataFrame of the processor seconds that a policy spent on each run.

        Its columns are scenario, policy, run, seconds; nan where no whole line of timings tells.
        """
        by_name = self._seconds_by_cell()
        rows = [
            (self.scenarios[cell.scenario], self.policies[cell.policy], cell.first_run + i, seconds)
            for cell in self._cells()
            for i, seconds in enumerate(by_name.get(cell.name, [math.nan] * cell.n_runs))
        ]
        pandas = optional_import("pandas", "StudyResult.seconds")
        return pandas.DataFrame(rows, columns=["scenario", "policy", "run", "seconds"])

    def _seconds_by_cell(self) -> dict[str, list[float]]:
        """Seconds of the runs by a cell's name."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.folder / TIMINGS).read_bytes().splitlines(keepends=True)
            return dict(timing for line in lines if (timing := _timing(line, self._place)))
        return {}

    def results(self) -> dict[str, Result | None]:
        """Return each scenario's :meth:`result`, None where no run is there yet that every policy has played."""
        cells: dict[int, list[Cell]] = {}
        for cell in self._cells():
            cells.setdefault(cell.scenario, []).append(cell)
        seconds = self._seconds_by_cell()
        return {label: self._result(s, cells.get(s, []), seconds) for s, label in enumerate(self.scenarios)}

    def result(self, scenario: str) -> Result:
        """Return one scenario's result, as :func:`fastcolst.simulate` would, of the runs that every policy has played.

        Without the true parameters: ``thetas`` is (runs, 0).

        Raises
        ------
        ValueError
            There is no such scenario, or no run that every policy has played.
        """
        if plain_text(scenario) not in self.scenarios:
            raise ValueError(f"scenario is {brief(scenario)}; there are {', '.join(map(repr, self.scenarios))}")
        s = self.scenarios.index(scenario)
        result = self._result(s, [cell for cell in self._cells() if cell.scenario == s], self._seconds_by_cell())
        if result is None:
            raise ValueError(f"scenario {scenario!r} has no run yet that every policy has played")
        return result

    def _result(self, s: int, cells: list[Cell], seconds_by_cell: dict[str, list[float]]) -> Result | None:
        scenario, study = self._manifest.scenarios[s], self._manifest.study
        shape = (len(self.policies), study["runs"], len(scenario["rounds"]))
        tables = {name: np.zeros(shape) for name in _TABLES}
        seconds, played = np.zeros(shape[:2]), np.zeros(shape[:2], bool)
        for cell in cells:
            where = cell.policy, slice(cell.first_run, cell.first_run + cell.n_runs)
            table = self._read(cell)
            for name in _TABLES:
                tables[name][where] = table.column(name).to_numpy().reshape(cell.n_runs, -1)
            seconds[where], played[where] = seconds_by_cell.get(cell.name, math.nan), True
        common = played.all(axis=0)
        if not common.any():
            return None

        def by_label(array: NDArray[Any]) -> dict[str, NDArray[Any]]:
            return {label: array[p, common] for p, label in enumerate(self.policies)}

        return Result(
            rounds=scenario["rounds"],
            average_regret=by_label(tables["average_regret"]),
            weak_regret=by_label(tables["weak_regret"]),
            self_duels=by_label(tables["self_duels"].astype(np.int64)),
            seconds=by_label(seconds),
            thetas=np.empty((int(common.sum()), 0)),
            seed=study["seed"],
            horizon=scenario["horizon"],
            runs=int(common.sum()),
            settings={"scenario": scenario["label"], "versions": f"fastcolst {self._manifest.fastcolst}"},
        )

    def summary(self) -> str:
        """Return a table for each scenario, see :meth:`Result.summary`, and how many cells are missing, if any."""
        parts = [
            f"{label}: {'no run yet that every policy has played' if result is None else result.summary()}"
            for label, result in self.results().items()
        ]
        if self.missing:
            parts.append(f"{self.missing:,} of {len(self._manifest.cells):,} cells are missing")
        return "\n\n".join(parts)


def _varied(tables: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The arguments whose values are not the same in all tables of one name that have them, with their values."""
    values: dict[str, list[Any]] = {}
    for key in dict.fromkeys(key for table in tables for key in table):
        by_name: dict[Any, list[Any]] = {}
        for table in tables:
            if key in table:
                by_name.setdefault(table.get("name"), []).append(table[key])
        if key not in ("label", "name") and any(v != group[0] for group in by_name.values() for v in group):
            values[key] = [table.get(key) for table in tables]
    return values


def _column(values: list[Any]) -> Any:
    """Numbers or texts as an Arrow array; what is neither, or a mixture, as texts."""
    pa = optional_import("pyarrow", "a study")
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values] if float in kinds else values)
    return pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in values])
