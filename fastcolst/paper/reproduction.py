"""The paper's experiments as studies: which policies meet which problems, and the seconds that choosing takes.

A target of ``fastcolst reproduce`` is a list of parts. A part is one study in a folder of its own; targets share parts,
and all parts share the seed, so that equal scenarios have equal parameters, contexts and luck, run by run.

The paper names no horizon. Its constants depend on it (c_1 = C_thresh = sqrt(d log T), p_t), so what a policy does
after 1,000 of 10,000 rounds is not what it does when it is told T = 1,000: each horizon is a study of its own.

References
----------
Bengs, Saha, Huellermeier (2022), section 4, the appendix "SGD vs. Full Maximum-Likelihood-Estimation", Theorem 3.1.
"""

from __future__ import annotations

import errno
import itertools
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
from numpy.random import SeedSequence

from fastcolst._checks import count
from fastcolst._files import FileFormatError, read_json, write_atomically
from fastcolst._version import __version__
from fastcolst.comparison import BradleyTerry, Thurstone
from fastcolst.estimation.mle import MLE
from fastcolst.estimation.sgd import SGD
from fastcolst.experiments.problems import Scenario
from fastcolst.experiments.simulation import processors, simulate
from fastcolst.experiments.store import LOCK, locked
from fastcolst.experiments.studies import Study, load_study
from fastcolst.paper.claims import SCENARIOS, Entry
from fastcolst.policies import CoLSTIM, DoubleThompson, MaxInP, SelfSparring, UniformPairs
from fastcolst.streams import POLICY, label_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["PAPER", "TARGETS", "Part", "Results", "Settings", "choosing_seconds", "load_results", "parts", "reproduce"]

PAPER = ("figure1", "misspecification", "sgd-vs-mle", "table1", "table2")
"""What "all" stands for: the experiments of the paper."""
TARGETS = (*PAPER, "lower-bound", "sweep")

MODELS = {"gumbel": BradleyTerry(), "gaussian": Thurstone(), "gaussian5": Thurstone(sigma=math.sqrt(5.0))}
"""G* of the problems, by the names of :class:`fastcolst.paper.claims.Entry`."""
SHORT_HORIZONS = (1_000, 3_000)
"""Shown beside the settings' own, for the first figure."""
MANIFEST = "reproduction.json"

CHECKPOINTS = 100
SGD_RATE = 0.5
CUBES = (2, 4, 6)
CUBE_HORIZONS = (0.1, 0.3, 1.0)  # in units of the settings' horizon
CUBE_RUNS = 30
SWEEP_ARMS = (10, 20, 50, 100, 200)
SWEEP_FEATURES = (3, 5, 10, 20, 40)
SWEEP_HORIZONS = (0.1, 0.3, 1.0, 3.0, 10.0)
SWEEP_RUNS = 20


@dataclass(frozen=True)
class Settings:
    """What the paper fixes, and what it leaves open.

    Parameters
    ----------
    horizon : int
        T of the figures and the claims; the paper does not state its own.
    runs : int
        Repetitions; the paper's 100.
    seed : int
    n_arms, n_features : int
        n and d; the paper's 50 and 10.
    timed_runs : int
        Repetitions in which choosing is timed call by call (of `runs`, if these are fewer).
    """

    horizon: int = 10_000
    runs: int = 100
    seed: int = 2022
    n_arms: int = 50
    n_features: int = 10
    timed_runs: int = 5

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            count(name, value, lowest=0 if name == "seed" else 1)

    @property
    def horizons(self) -> list[int]:
        """The horizons of the first figure, the settings' own last."""
        return [*(T for T in SHORT_HORIZONS if self.horizon > T), self.horizon]


@dataclass(frozen=True)
class Part:
    """One study: every policy on every scenario.

    Parameters
    ----------
    name : str
        Its folder.
    problem : str
        What its scenarios are called in a :class:`fastcolst.paper.claims.Entry`; parts of one problem share their
        contexts.
    horizon : int, or dict of scenario's label to int
    runs : int
    scenarios : dict of label to scenario
    policies : dict of label to policy or table
    """

    name: str
    problem: str
    horizon: int | Mapping[str, int]
    runs: int
    scenarios: Mapping[str, Scenario]
    policies: Mapping[str, Any]

    def horizon_of(self, scenario: str) -> int:
        """T of one of its scenarios."""
        return self.horizon if isinstance(self.horizon, int) else self.horizon[scenario]

    def study(self, seed: int) -> Study:
        """The part as a study."""
        return Study(
            policies=dict(self.policies),
            scenarios=dict(self.scenarios),
            horizon=self.horizon,
            runs=self.runs,
            seed=seed,
            checkpoints=CHECKPOINTS,
        )


def parts(target: str, settings: Settings) -> list[Part]:
    """The studies that a target takes; none for tables, whose seconds are measured apart.

    Raises
    ------
    ValueError
        No such target.

    Examples
    --------
    >>> from fastcolst.paper.reproduction import Settings, parts
    >>> [part.name for part in parts("sgd-vs-mle", Settings())]
    ['gumbel-10000', 'gumbel-mle-10000']
    """
    T = settings.horizon
    by_target: dict[str, Callable[[], list[Part]]] = {
        "figure1": lambda: [
            *(_five(problem, h, settings) for problem in ("gumbel", "gaussian") for h in settings.horizons),
            *(_projected(problem, settings) for problem in ("gumbel", "gaussian")),
        ],
        "misspecification": lambda: [_five("gumbel", T, settings), _wrong_g(settings), _wrong_variance(settings)],
        "sgd-vs-mle": lambda: [_five("gumbel", T, settings), _full_mle(settings)],
        "table1": list,
        "table2": list,
        "lower-bound": lambda: [_cubes(settings)],
        "sweep": lambda: [_sweep(settings)],
    }
    if target not in by_target:
        raise ValueError(f"no target {target!r}; there are {', '.join(TARGETS)} and all")
    return by_target[target]()


# --- the parts ----------------------------------------------------------------------------------------------


def _scenarios(problem: str, s: Settings, names: Iterable[str] = SCENARIOS) -> dict[str, Scenario]:
    sizes: dict[str, Any] = {"n_arms": s.n_arms, "n_features": s.n_features, "comparison": MODELS[problem]}
    return {name: getattr(Scenario, name)(**sizes) for name in names}


def _colstim(s: Settings, model: Any, estimator: Any = None) -> CoLSTIM:
    return CoLSTIM(s.n_features, comparison=model, estimator=estimator or SGD(SGD_RATE))


def _maxinp(s: Settings, model: Any, estimator: Any = None) -> MaxInP:
    return MaxInP(s.n_features, comparison=model, estimator=estimator or SGD(SGD_RATE))


def _all_policies(problem: str, s: Settings, model: Any) -> dict[str, Any]:
    """The five of the first figure; MaxInP is made for the logistic link, and has G*'s own beside it."""
    policies = {
        "Random": UniformPairs(),
        "MaxInP": _maxinp(s, BradleyTerry()),
        "CoLSTIM": _colstim(s, model),
        "SS": SelfSparring(),
        "DTS": DoubleThompson(),
    }
    if problem != "gumbel":
        policies["MaxInP, own link"] = _maxinp(s, MODELS[problem])
    return policies


def _five(problem: str, horizon: int, s: Settings) -> Part:
    policies = _all_policies(problem, s, MODELS[problem])
    return Part(f"{problem}-{horizon}", problem, horizon, s.runs, _scenarios(problem, s), policies)


def _projected(problem: str, s: Settings) -> Part:
    unit_ball = SGD(SGD_RATE, radius=1.0)
    policies = {
        "CoLSTIM, projected": _colstim(s, MODELS[problem], unit_ball),
        "MaxInP, projected": _maxinp(s, BradleyTerry(), unit_ball),
    }
    return Part(f"{problem}-projected-{s.horizon}", problem, s.horizon, s.runs, _scenarios(problem, s), policies)


def _wrong_g(s: Settings) -> Part:
    policies = {"CoLSTIM, normal G": _colstim(s, Thurstone())}
    return Part(f"gumbel-normal-g-{s.horizon}", "gumbel", s.horizon, s.runs, _scenarios("gumbel", s), policies)


def _wrong_variance(s: Settings) -> Part:
    policies = _all_policies("gaussian5", s, Thurstone())
    policies["CoLSTIM, own G"] = _colstim(s, MODELS["gaussian5"])
    return Part(f"gaussian5-{s.horizon}", "gaussian5", s.horizon, s.runs, _scenarios("gaussian5", s), policies)


def _full_mle(s: Settings) -> Part:
    policies = {
        "CoLSTIM-MLE": _colstim(s, BradleyTerry(), MLE()),
        "MaxInP-MLE": _maxinp(s, BradleyTerry(), MLE()),
    }
    scenarios = _scenarios("gumbel", s, ["easy"])
    return Part(f"gumbel-mle-{s.horizon}", "gumbel", s.horizon, s.runs, scenarios, policies)


def cube_points(settings: Settings) -> dict[str, tuple[str, int, int]]:
    """The instances of the lower bound, by their labels: the ball, d and T, which must exceed 16 and n = 2^d."""
    horizons = sorted({max(2 ** max(CUBES) + 1, round(share * settings.horizon)) for share in CUBE_HORIZONS})
    points = itertools.product(("max", "euclidean"), CUBES, horizons)
    return {f"{ball} d={d} T={T}": (ball, d, T) for ball, d, T in points}


def _cubes(s: Settings) -> Part:
    points = cube_points(s)
    scenarios = {
        label: Scenario.lower_bound(rounds=T, n_features=d, ball=ball) for label, (ball, d, T) in points.items()
    }
    horizons = {label: T for label, (_, _, T) in points.items()}
    policies = {  # tables, because the number of features varies
        "Random": UniformPairs(),
        "CoLSTIM-MLE": {"name": "CoLSTIM", "estimator": MLE()},
        "MaxInP-MLE": {"name": "MaxInP", "estimator": MLE()},
    }
    return Part(f"lower-bound-{s.horizon}", "cube", horizons, min(s.runs, CUBE_RUNS), scenarios, policies)


def sweep_points(settings: Settings) -> dict[str, tuple[int, int, int]]:
    """The (n, d, T) of the scaling study by their labels: one of the three is varied at a time."""
    n, d, T = settings.n_arms, settings.n_features, settings.horizon
    points = [(m, d, T) for m in SWEEP_ARMS] + [(n, m, T) for m in SWEEP_FEATURES]
    points += [(n, d, max(1, round(share * T))) for share in SWEEP_HORIZONS]
    return {f"n={point[0]} d={point[1]} T={point[2]}": point for point in points}


def _sweep(s: Settings) -> Part:
    points = sweep_points(s)
    scenarios = {label: Scenario.medium(n_arms=n, n_features=d) for label, (n, d, _) in points.items()}
    horizons = {label: T for label, (_, _, T) in points.items()}
    policies = {
        "Random": UniformPairs(),
        "CoLSTIM": {"name": "CoLSTIM", "estimator": SGD(SGD_RATE)},
        "CoLSTIM-MLE": {"name": "CoLSTIM", "estimator": MLE()},
    }
    return Part(f"sweep-{s.horizon}", "sweep", horizons, min(s.runs, SWEEP_RUNS), scenarios, policies)


# --- seconds for choosing -----------------------------------------------------------------------------------


def timed_cells(target: str, settings: Settings) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """What a table times: for each name of a file the problem, the scenario and the policies."""
    easy = {**_five("gumbel", settings.horizon, settings).policies, **_full_mle(settings).policies}
    if target == "table2":
        learners = ("MaxInP", "MaxInP-MLE", "CoLSTIM", "CoLSTIM-MLE")
        return {"table2-gumbel-easy": ("gumbel", "easy", {label: easy[label] for label in learners})}
    if target != "table1":
        return {}
    labels = ("Random", "MaxInP", "CoLSTIM", "SS", "DTS")
    cells = {}
    for problem in ("gumbel", "gaussian"):
        policies = _five(problem, settings.horizon, settings).policies
        for scenario in SCENARIOS:
            cells[f"table1-{problem}-{scenario}"] = (problem, scenario, {label: policies[label] for label in labels})
    return cells


def choosing_seconds(
    policies: Mapping[str, Any], scenario: Scenario, horizon: int, runs: int, seed: int
) -> list[dict[str, Any]]:
    """Time what policies take to choose, apart from what they take to learn.

    Each policy plays as an object, round by round, on one thread: ``select`` is one clock, ``update`` another. Both
    include what a call from Python costs. Beside it stand the seconds of the fused loop, where choosing and learning
    cannot be told apart and nothing is called from Python.

    Parameters
    ----------
    policies : dict of label to policy
        Templates, as for :func:`fastcolst.simulate`.
    scenario : Scenario
    horizon, runs, seed : int

    Returns
    -------
    list of dict
        policy, run, and the seconds of all rounds: choosing, learning, fused.

    Examples
    --------
    >>> import fastcolst as fc
    >>> from fastcolst.paper.reproduction import choosing_seconds
    >>> scenario = fc.Scenario.easy(n_arms=4, n_features=2)
    >>> rows = choosing_seconds({"Random": fc.UniformPairs()}, scenario, horizon=50, runs=2, seed=1)
    >>> sorted(rows[0])
    ['choosing', 'fused', 'learning', 'policy', 'run']
    """
    fused = simulate(policies, scenario, horizon, runs=runs, rng=seed, threads=1, checkpoints=1).seconds
    rows = []
    for run in range(runs):
        for label, (choosing, learning) in _play_objects(policies, scenario, horizon, seed, run).items():
            seconds = {"choosing": choosing, "learning": learning, "fused": float(fused[label][run])}
            rows.append({"policy": label, "run": run, **seconds})
    return rows


def _play_objects(
    policies: Mapping[str, Any], scenario: Scenario, horizon: int, seed: int, run: int
) -> dict[str, NDArray[np.float64]]:
    """Seconds of one run, choosing and learning, for each policy."""
    source = scenario.start(seed, run)
    playing = {}
    for label, template in policies.items():
        key = SeedSequence(seed, spawn_key=(POLICY, run, *label_key(label)))
        playing[label] = template._fitted_to(scenario.n_features, scenario.n_arms, horizon, key)
        playing[label].warmup()
    seconds = {label: np.zeros(2) for label in policies}
    played = 0
    while played < horizon:
        chunk = source.next_chunk(min(source.chunk_rounds, horizon - played))
        contexts = [np.ascontiguousarray(matrix.T) for matrix in chunk.contexts]
        for label, policy in playing.items():
            seconds[label] += _play_chunk(policy, contexts, chunk)
        played += len(contexts)
    return seconds


def _play_chunk(policy: Any, contexts: Sequence[NDArray[np.float64]], chunk: Any) -> tuple[float, float]:
    clock = time.perf_counter
    choosing = learning = 0.0
    for r, matrix in enumerate(contexts):
        start = clock()
        duel = policy.select(matrix)
        choosing += clock() - start
        utilities = chunk.utilities[r]
        first_won = bool(utilities[duel.first] - utilities[duel.second] + chunk.latent[r] > 0.0)
        start = clock()
        policy.update(duel, first_won)
        learning += clock() - start
    return choosing, learning


# --- running and reading back -------------------------------------------------------------------------------


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
        As :func:`choosing_seconds` gives them.
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


def seconds_of(rows: Iterable[Mapping[str, Any]], label: str, column: str) -> NDArray[np.float64]:
    """One policy's seconds, run by run."""
    return np.array([row[column] for row in rows if row["policy"] == label])


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
        All that the folder now holds. :func:`fastcolst.paper.report.write_report` makes pictures and the page of it.

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
        timings={name: _read_timing(manifest.timing_path(name)) for name in timed},
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
            content = {"settings": asdict(settings), "targets": [], "walls": {}, "machine": _machine()}
            manifest = cls(folder, content)
            manifest.save()
            return manifest
        manifest = cls.read(folder)
        there, now = manifest.content["settings"], asdict(settings)
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
    where = _scenarios(problem, settings)[scenario]
    runs = min(settings.runs, settings.timed_runs)
    _write_json(path, choosing_seconds(policies, where, settings.horizon, runs, settings.seed))


def _read_timing(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_json(path)
    try:
        if not all(math.isfinite(row[clock]) for row in rows for clock in ("choosing", "learning", "fused")):
            raise ValueError("seconds that are no numbers")
        {row["policy"] for row in rows}
    except (ValueError, TypeError, KeyError) as error:
        text = f"{os.fspath(path)!r} is damaged; delete it, and the same command times again: {error!r}"
        raise FileFormatError(text) from None
    return rows


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
