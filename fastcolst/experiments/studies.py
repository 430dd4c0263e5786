"""Studies: policies x scenarios x runs, computed in cells on any executor, kept on disk, resumed where they stopped.

A cell is one policy on one scenario for a block of runs. Its numbers are those that :func:`fastcolst.simulate` gives
with the study's seed, so neither the cells' size nor who computes them matters. Workers compute and send back arrays;
the process that called :meth:`Study.run` alone writes, each finished cell as one Parquet file that appears whole or not
at all. What is on disk is all there is to resuming (see :mod:`fastcolst.experiments.store`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from fastcolst._checks import answer, brief, count, entries, is_a, path_text, whole_number
from fastcolst._files import read_toml
from fastcolst.experiments.cells import MOST_CHECKPOINTS, Setting, Work, check_amounts
from fastcolst.experiments.executors import check_executor, compute_cells_for, run_on, run_on_threads
from fastcolst.experiments.players import Player, player_of
from fastcolst.experiments.problems import Problem, check_length
from fastcolst.experiments.progress import Progress, tell
from fastcolst.experiments.simulation import checkpoint_rounds, is_label, processors
from fastcolst.experiments.store import Manifest, Store, short
from fastcolst.experiments.study_result import FinishedCells
from fastcolst.experiments.tables import (
    MOST_TABLES,
    Recipe,
    check_keys,
    check_levels,
    expand,
    policy_name,
    recipe_of,
    scenario_name,
    scenario_of,
    scenario_table,
)
from fastcolst.policies.policy import Policy
from fastcolst.streams import LARGEST_SEED

__all__ = ["Study", "StudyResult", "load_study"]

TOP_KEYS = ("horizon", "runs", "seed", "checkpoints", "single_arms", "policy", "scenario")


@dataclass(frozen=True, eq=False)
class Study:
    """A study as data: which policies play which scenarios, how long, how often.

    Parameters
    ----------
    policies : dict of label to policy
        A policy object, as :func:`fastcolst.simulate` takes it, or a table: ``{"name": "CoLSTIM", "ridge": 1.0}``, the
        class's name and its keyword arguments. A table's policy plays scenarios of any number of features. A policy's
        random stream depends on its label. Plain Python classes and objects as for :func:`fastcolst.simulate`.
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
    single_arms : bool, default False
        Record the regret of the duel's first arm and of the greedy arm as well, see :func:`fastcolst.simulate`.

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

    policies: Mapping[str, Any]
    scenarios: Mapping[str, Problem | Mapping[str, Any]]
    horizon: int | Mapping[str, int]
    runs: int = 1
    seed: int = 0
    checkpoints: int | Sequence[int] | Mapping[str, int | Sequence[int]] = 200
    single_arms: bool = False
    _recipes: dict[str, Recipe] = field(init=False, repr=False)
    _settings: dict[str, Setting] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("policies", "scenarios"):
            object.__setattr__(self, name, _labelled(name, getattr(self, name)))
        object.__setattr__(self, "runs", count("runs", self.runs))
        object.__setattr__(self, "seed", _seed(self.seed))
        object.__setattr__(self, "single_arms", answer(self.single_arms, "single_arms"))
        recipes = {label: recipe_of(policy, f"policy {label!r}") for label, policy in self.policies.items()}
        object.__setattr__(self, "_recipes", recipes)
        object.__setattr__(self, "_settings", {label: self._setting(label) for label in self.scenarios})
        self._check_fit()
        check_amounts(self.runs, self._work.block_runs(), [setting.rounds for setting in self._settings.values()])

    def _setting(self, label: str) -> Setting:
        where = f"scenario {label!r}"
        scenario = self.scenarios[label]
        problem = scenario_of(scenario, where) if isinstance(scenario, Mapping) else scenario
        try:
            horizon = count("horizon", _of_scenario("horizon", self.horizon, label))
            checkpoints = _of_scenario("checkpoints", self.checkpoints, label)
            rounds = checkpoint_rounds(checkpoints, horizon, MOST_CHECKPOINTS)
            check_length(problem, horizon)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        return Setting(problem, horizon, rounds)

    @property
    def _work(self) -> Work:
        return Work(list(self._recipes.items()), list(self._settings.items()), self.seed, self.runs, self.single_arms)

    @property
    def _manifest(self) -> Manifest:
        return Manifest.of(self.to_dict(), self._work)

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
                    template: Player = given if isinstance(given, Policy) else recipe.build(n_features)
                    for i, (n_arms, horizon) in enumerate(horizons.items()):
                        if i == 0 or recipe.parameters.get("n_arms") not in (None, n_arms):
                            template.fresh_for(n_features, n_arms, horizon, 0)
                except ValueError as error:
                    raise ValueError(f"policy {label!r}: {error}") from None

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Study) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    # --- as data --------------------------------------------------------------------------------------------

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Study:
        """Read a study from a TOML file.

        Top-level keys ``horizon``, ``runs``, ``seed``, ``checkpoints``, ``single_arms``. A table ``[[policy]]`` for
        each policy with its ``name``, perhaps a ``label``, and keyword arguments. A table ``[[scenario]]`` for each
        scenario with its ``name`` ("easy", "medium", "hard", or "file" with a ``path`` beside the TOML file; none with
        ``theta``), perhaps a ``label``, a ``horizon`` and ``checkpoints`` of its own, and keyword arguments. A list in
        place of a value is a grid: the study has each of its entries, and labels that name what varies.

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
        if not is_a(Mapping, data):
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
        rest = {key: data[key] for key in ("runs", "seed", "single_arms") if key in data}
        return cls(policies, scenarios, **{key: _common(values) for key, values in own.items()}, **rest)

    def to_dict(self) -> dict[str, Any]:
        """Everything that the study's numbers depend on, as :meth:`from_dict` takes it: every argument spelled out.

        What a table cannot hold, such as a class of your own, is given by its repr, and does not come back.
        """
        return {
            "runs": self.runs,
            "seed": self.seed,
            **({"single_arms": True} if self.single_arms else {}),  # without it the table is as it always was
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
        return {**own, **scenario_table(setting.problem, given)}

    # --- running --------------------------------------------------------------------------------------------

    def run(
        self,
        out: str | os.PathLike[str],
        executor: Any = None,
        threads: int | None = None,
        resume: bool = True,
        progress: bool = True,
        accept_changed_code: bool = False,
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
            Without an executor: threads at work; None: one for each processor.
        resume : bool, default True
            Continue what is in the folder; False: refuse a folder that is not empty.
        progress : bool, default True
            Report cells done, rate and time left to standard error.
        accept_changed_code : bool, default False
            Go on although the code of a class or function of your own, or of what it calls, is not that of the cells in
            the folder. The manifest then holds the digests of both.

        Returns
        -------
        StudyResult

        Raises
        ------
        ValueError
            The folder holds another study (the message shows where they differ) or cells of other code, or numbers
            stopped being finite.
        TypeError
            ``executor`` is not an executor, such as a bare dask ``Client``.
        OSError
            The folder cannot be written, is in use, or is not empty although ``resume`` is False.
        BrokenExecutor
            A worker died. Finished cells stay, as they do after any error and after Ctrl-C.

        Notes
        -----
        The Parquet bytes depend on the study alone: not on the executor, nor on how often it was interrupted. Policies
        play the same rounds together, which are drawn once, where there are cells enough for all workers, and as long
        as that takes five seconds or so. Memory: that of the policies at work. Cells that are there are read, a tenth
        of a millisecond each; those that are damaged, or of an earlier version, are removed and computed anew, which
        one line on standard error tells. Workers that this process has started leave when it is gone.
        """
        out = path_text("out", out)
        resume, progress = answer(resume, "resume"), answer(progress, "progress")
        accepts = answer(accept_changed_code, "accept_changed_code")
        check_executor(executor, threads)
        workers = processors() if threads is None else count("threads", threads)
        with Store(Path(out), self._manifest, resume, accepts) as store:
            _tell_of_damaged(store.damaged)
            if store.untold:
                tell(
                    f"fastcolst: no telling whether this is the code of the cells in the folder: {short(store.untold)}"
                )
            missing = store.missing()
            if missing:
                with Progress(len(store.manifest.cells), len(missing), progress) as bar:
                    if executor is None:
                        run_on_threads(self._work, store, missing, bar, workers)
                    else:
                        run_on(executor, partial(compute_cells_for, os.getpid()), self._work, store, missing, bar)
        result = StudyResult(Path(out), store.manifest)
        result.__dict__["study"] = self
        return result


def _tell_of_damaged(cells: list[str]) -> None:
    """In a line, not by a warning: a filter might make that an error, and no resuming would ever get past it."""
    if cells:
        number = "1 cell is" if len(cells) == 1 else f"{len(cells):,} cells are"
        tell(f"fastcolst: {number} damaged or of an earlier version, and computed anew: {short(cells)}")


def _labelled(name: str, table: Any) -> dict[str, Any]:
    by_label = entries(name, table) if is_a(Mapping, table) else {}
    if not by_label:
        raise ValueError(f"{name} is {brief(table)}; a dict of labels and {name} is wanted")
    what, such = ("policy", "fc.CoLSTIM(10)") if name == "policies" else ("problem", "fc.Scenario.hard()")
    for label, value in by_label.items():
        known = player_of(value) is not None if name == "policies" else is_a(Problem, value)
        if not is_label(label) or not (known or is_a(Mapping, value)):
            raise ValueError(
                f"{name} has {brief(label)}: {brief(value)}; a label and a {what}, such as {such}, or a table are "
                "wanted"
            )
    return by_label


def _seed(value: Any) -> int:
    seed = whole_number(value)
    if seed is None or isinstance(value, float):
        raise ValueError(f"seed is {brief(value)}; a whole number is wanted, so that the study can be resumed")
    if not 0 <= seed < LARGEST_SEED:
        raise ValueError(f"seed is {brief(seed)}; it must not be negative, and below 2^{LARGEST_SEED.bit_length() - 1}")
    return seed


def _of_scenario(name: str, value: Any, label: str) -> Any:
    if not is_a(Mapping, value):
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
            if len(by_label) > MOST_TABLES:
                raise ValueError(f"study: the {kind} tables stand for more than the {MOST_TABLES:,} that are possible")
    return by_label


def _scenario_label(table: dict[str, Any], where: str) -> str:
    name = scenario_name(table, where)
    return Path(table["path"]).stem if name == "file" and isinstance(table.get("path"), str) else name


def _common(by_label: dict[str, Any]) -> Any:
    """The value that all labels share, or the table by label."""
    first, *others = by_label.values()
    plain = all(type(value) in (int, list) for value in by_label.values())
    return first if plain and all(value == first for value in others) else by_label


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
    return StudyResult(Path(out), Manifest.read(Path(out)))


class StudyResult(FinishedCells):
    """What a study has computed, read from its folder when it is asked for.

    Attributes
    ----------
    folder : Path
        Where it lies.
    """

    @cached_property
    def study(self) -> Study:
        """The study. ValueError when a table could not hold it, such as one with classes or data of your own."""
        return Study.from_dict(self._manifest.study)
