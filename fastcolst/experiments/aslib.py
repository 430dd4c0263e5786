"""Scenarios of ASlib, the algorithm selection library: which solver for which instance, as a problem for duels.

A scenario is a folder with the runtimes (or the quality) of every algorithm on every instance, and features of the
instances. Read are ``description.txt``, ``algorithm_runs.arff`` and ``feature_values.arff``.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from fastcolst._checks import brief, count, is_a, looked_at, path_text, real_number
from fastcolst._files import FileFormatError
from fastcolst._words import align
from fastcolst.data.arff import Arff, read_arff, read_text
from fastcolst.experiments.arm_features import arm_features
from fastcolst.experiments.results import Result
from fastcolst.experiments.scored import ScoredArms

__all__ = ["AslibArms", "load_aslib"]

PENALTY = 10.0
"""A run that found nothing counts as so many times the cutoff: PAR10."""
YES_OR_NO = {"true": True, "yes": True, "false": False, "no": False}
MISSING_FEATURE = -512.0
"""What many feature extractors write where they failed."""


class AslibArms(ScoredArms):
    """A scenario of ASlib as a problem: a round is an instance, its arms are the algorithms, the better run wins.

    :func:`fastcolst.load_aslib` makes it. The attributes are those of :class:`fastcolst.ScoredArms`, and these.

    Attributes
    ----------
    name : str
        The scenario's.
    measure : str
        What scores are: "PAR10" of runtimes, or the scenario's own measure.
    instances, algorithms : tuples of str
        Names, m and n of them, in the order of rows and columns.
    scores : (m, n) float64
        In the scenario's unit.
    instance_features : (m, n_components) float64
        What arms' features are made of: principal components, of mean 0 and variance 1.
    """

    def __init__(self, runs: Runs, instance_features: NDArray[np.float64]) -> None:
        super().__init__(arm_features(len(runs.algorithms), instance_features), runs.scores, runs.maximize)
        self.name, self.measure = runs.name, runs.measure
        self.instances, self.algorithms, self.scores = runs.instances, runs.algorithms, runs.scores
        self.instance_features = instance_features

    @property
    def single_best(self) -> tuple[str, float]:
        """The algorithm that is best on average, with its mean score: what there is to beat."""
        means = self.scores.mean(axis=0)
        best = int(means.argmax() if self.maximize else means.argmin())
        return self.algorithms[best], float(means[best])

    @property
    def virtual_best(self) -> float:
        """The mean of every instance's best score: what nobody can beat."""
        return float(_best(self.scores, self.maximize).mean())

    @property
    def best_pair(self) -> tuple[str, str, float]:
        """The two algorithms that are best on average when both run on every instance, with their mean best score."""
        pairs = itertools.combinations(range(self.n_arms), 2)
        sign = -1.0 if self.maximize else 1.0
        means = {pair: _best(self.scores[:, pair], self.maximize).mean() for pair in pairs}
        a, b = min(means, key=lambda pair: sign * means[pair])
        return self.algorithms[a], self.algorithms[b], float(means[a, b])

    def closed_gap(self, score: float) -> float:
        """The share of the way from single best to virtual best that a mean score goes; negative where it is worse.

        nan where there is no way to go: one algorithm is best on every instance.

        Raises
        ------
        ValueError
            ``score`` is no real number.
        """
        value = looked_at(real_number, score)
        if value is None:
            raise ValueError(f"score is {brief(score)}; a mean score, a real number, is wanted")
        name, single = self.single_best
        # of equal scores the means may differ by their last bits
        if np.array_equal(self.scores[:, self.algorithms.index(name)], _best(self.scores, self.maximize)):
            return math.nan
        return (single - value) / (single - self.virtual_best)

    def summary(self, result: Result | None = None) -> str:
        """Return a table of mean scores an instance, beside those of the single best and the virtual best algorithm.

        Parameters
        ----------
        result : Result, optional
            Of :func:`fastcolst.simulate` on this problem: what its policies' duels cost when both arms run in parallel
            (which takes two processors), and with ``single_arms=True``, which adds rows, what the first arm and the
            greedy arm alone do. The first line tells rounds and runs; means over both, exact where each instance was
            shown equally often.

        Raises
        ------
        ValueError
            ``result`` is no Result.
        """
        name, score = self.single_best
        first, second, both = self.best_pair
        lines = [
            (f"single best: {name}", score),
            ("virtual best", self.virtual_best),
            (f"best fixed pair in parallel: {first}, {second}", both),
        ]
        if result is not None:
            if not is_a(Result, result):
                raise ValueError(f"result is {brief(result)}; a Result of this problem is wanted")
            lines += self._of_policies(result)
        rows = [
            ("", f"mean {self.measure}", "gap closed"),
            *((what, f"{mean:,.4g}" if abs(mean) < 1000 else f"{mean:,.0f}", f"{self.closed_gap(mean):.2f}")
              for what, mean in lines),
        ]  # fmt: skip
        head = f"{self.name}: {len(self.instances):,} instances, {self.n_arms} algorithms"
        if result is not None:
            head += f"; policies: {result.horizon:,} rounds, {result.runs:,} run{'' if result.runs == 1 else 's'}"
            head += "" if result.first_regret else " (simulate(..., single_arms=True) adds rows)"
        return "\n".join([head, *align(rows)])

    def _of_policies(self, result: Result) -> list[tuple[str, float]]:
        """What each policy's choices score, in words and in the scenario's unit; what was not recorded is left out."""
        played = {
            "first arm": result.first_regret,
            "greedy arm": result.greedy_regret,
            "pair in parallel": result.weak_regret,
        }
        found = []
        for label, (what, tables) in itertools.product(result.policies, played.items()):
            regret = float(tables[label][:, -1].mean() / result.rounds[-1]) if label in tables else math.nan
            if not math.isnan(regret):
                found.append(
                    (f"{label}, {what}", self.virtual_best - regret if self.maximize else self.virtual_best + regret)
                )
        return found


def load_aslib(folder: str | os.PathLike[str], *, n_components: int = 4) -> AslibArms:
    r"""Read a scenario of ASlib, the algorithm selection library.

    Instances are rounds and algorithms are arms: a duel runs two of them, and who was faster (or better) wins. A run
    that found nothing counts as ten times the cutoff; where both found nothing a coin decides.

    Parameters
    ----------
    folder : path
        With ``description.txt``, ``algorithm_runs.arff`` and ``feature_values.arff``.
    n_components : int, default 4
        Principal components of the instances' features to keep.

    Returns
    -------
    AslibArms
        A problem for :func:`fastcolst.simulate` and :class:`fastcolst.Study`. An arm's features are those of
        :func:`fastcolst.arm_features` of these components: (n - 1) (n_components + 1) of them.

    Raises
    ------
    FileFormatError
        A ValueError: a file is malformed, with its name, the line, what stands there and what is wanted.
    ValueError
        An argument is outside its range.
    OSError
        A file cannot be read, or is not there.

    Notes
    -----
    Scores. Of runtimes PAR10, in the unit in which the scenario has them: a run whose status is not ok, or which took
    longer than the cutoff, counts as 10 times that. Of other measures the value; a run without one counts as the worst
    run of the scenario. Repetitions are averaged.

    Features. Counts up to 1e9 stand beside ratios, so each feature comes twice: as its signed logarithm, sign(f)
    log(1 + |f|), and as its rank. Missing ones (``?``, ``NaN``, ``-512``) take the median, constant columns are left
    out, the others are standardised, and of their principal components the first few are kept, with variance 1. No
    score is looked at, but all instances are: what a new instance's features mean is known from the start.

    Quotes may be ' or ", or none. ASlib has the run of every algorithm on every instance, so that what a policy does
    can be compared with what it cannot know, the virtual best.

    References
    ----------
    Bischl et al. (2016), ASlib: a benchmark library for algorithm selection. Artificial Intelligence 237, 41-58.

    Examples
    --------
    >>> import tempfile, pathlib, fastcolst as fc
    >>> description = ["scenario_id: TINY", "performance_measures: runtime", "performance_type: runtime",
    ...                "algorithm_cutoff_time: 100"]
    >>> instances = ["@attribute instance_id string", "@attribute repetition numeric"]
    >>> runs = [*instances, "@attribute algorithm string", "@attribute runtime numeric",
    ...         "@attribute runstatus {ok, timeout}", "@data", "a,1,quick,3,ok", "b,1,quick,100,timeout",
    ...         "a,1,'slow, but sure',20,ok", "b,1,'slow, but sure',30,ok"]
    >>> features = [*instances, "@attribute size numeric", "@data", "a,1,10", "b,1,1e9"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder)
    ...     _ = (path / "description.txt").write_text("\n".join(description))
    ...     _ = (path / "algorithm_runs.arff").write_text("\n".join(runs))
    ...     _ = (path / "feature_values.arff").write_text("\n".join(features))
    ...     problem = fc.load_aslib(path, n_components=1)
    >>> print(problem.summary())
    TINY: 2 instances, 2 algorithms
                                                        mean PAR10  gap closed
    single best: slow, but sure                                 25        0.00
    virtual best                                              16.5        1.00
    best fixed pair in parallel: quick, slow, but sure        16.5        1.00
    """
    path = Path(path_text("folder", folder))
    n_components = count("n_components", n_components)
    runs = _runs(read_arff(path / "algorithm_runs.arff"), _description(path / "description.txt"))
    features = _features(read_arff(path / "feature_values.arff"), runs.instances)
    return AslibArms(runs, _components(features, n_components, path))


class Runs(NamedTuple):
    """What ran how well: scores (m, n) of algorithms on instances, and whether high ones are good."""

    name: str
    measure: str
    maximize: bool
    instances: tuple[str, ...]
    algorithms: tuple[str, ...]
    scores: NDArray[np.float64]


class Description(NamedTuple):
    """What a scenario says of itself."""

    name: str
    measure: str
    is_runtime: bool
    maximize: bool
    cutoff: float


def _description(path: Path) -> Description:
    """Read ``description.txt``: of its YAML the top level, where a value follows its key or stands in a list below."""
    values: dict[str, list[str]] = {}
    key = ""
    for line in read_text(path).splitlines():
        pair, item = re.fullmatch(r"(\w+):\s*(.*?)\s*", line), re.fullmatch(r"\s*-\s*(.*?)\s*", line)
        if pair:
            key = pair[1]
            values[key] = [_plain(text) for text in pair[2].strip("[]").split(",") if text.strip()]
        elif item and key:
            values[key].append(_plain(item[1]))
    where = repr(os.fspath(path))
    wanted = {
        "performance_measures": "the name of a column of algorithm_runs.arff",
        "performance_type": "runtime or another",
    }
    for name, what in wanted.items():
        if not values.get(name):
            raise FileFormatError(f"{where} has no {name}; {what} is wanted")
    is_runtime = values["performance_type"][0].lower() == "runtime"
    high = (values.get("maximize") or ["false"])[0].lower()
    if high not in YES_OR_NO:
        raise FileFormatError(f"{where}: maximize is {brief(high)}; true or false, yes or no is wanted")
    text = (values.get("algorithm_cutoff_time") or ["?"])[0]
    try:
        cutoff = float(text)
    except ValueError:
        cutoff = math.nan
    if is_runtime and not 0.0 < cutoff < math.inf:
        raise FileFormatError(f"{where}: algorithm_cutoff_time is {brief(text)}; a positive number is wanted")
    name = (values.get("scenario_id") or [path.parent.name])[0]
    return Description(name, values["performance_measures"][0], is_runtime, YES_OR_NO[high], cutoff)


def _plain(text: str) -> str:
    return text.strip().strip("'\"")


def _runs(table: Arff, description: Description) -> Runs:
    """Scores of all runs, averaged over repetitions."""
    measure, values = _scores(table, description)
    instances, rows = _numbered(table.column("instance_id"))
    algorithms, columns = _numbered(table.column("algorithm"))
    seen: dict[tuple[int, int, str], int] = {}
    for i, run in enumerate(zip(rows, columns, table.column("repetition"), strict=True)):
        if run in seen:
            table.refuse(i, f"the run of line {table.lines[seen[run]]} again; one of each repetition is wanted")
        seen[run] = i
    totals, n_runs = np.zeros((2, len(instances), len(algorithms)))
    np.add.at(totals, (rows, columns), values)
    np.add.at(n_runs, (rows, columns), 1.0)
    if len(algorithms) < 2:
        raise FileFormatError(f"{table.path!r} has runs of {algorithms[0]!r} alone; two algorithms are wanted")
    if not n_runs.all():
        i, j = np.argwhere(n_runs == 0.0)[0]
        raise FileFormatError(
            f"{table.path!r} has no run of {algorithms[j]!r} on {instances[i]!r}; every algorithm is wanted on every "
            "instance"
        )
    return Runs(description.name, measure, description.maximize, instances, algorithms, totals / n_runs)


def _scores(table: Arff, description: Description) -> tuple[str, NDArray[np.float64]]:
    """What runs are scored by, and the score of each: PAR10 of runtimes, or the scenario's own measure."""
    others = [name for name in table.names if name not in ("instance_id", "repetition", "algorithm", "runstatus")]
    measure = others[0] if len(others) == 1 else description.measure  # some name it otherwise than the description
    values = table.numbers(measure)
    ok = np.array([status.lower() == "ok" for status in table.column("runstatus")])
    for i in np.flatnonzero(ok & np.isnan(values)):
        table.refuse(int(i), f"a run that is ok has no {measure}; a number is wanted")
    if not description.is_runtime:
        if not ok.any():
            raise FileFormatError(f"{table.path!r} has no run with the status ok; at least one is wanted")
        worst = np.nanmin(values) if description.maximize else np.nanmax(values)
        return measure, np.where(np.isnan(values), worst, values)
    for i in np.flatnonzero(values < 0.0):
        table.refuse(int(i), f"{measure} is {values[i]:g}; a number of at least 0 is wanted")
    return "PAR10", np.where(ok & (values <= description.cutoff), values, PENALTY * description.cutoff)


def _numbered(names: list[str]) -> tuple[tuple[str, ...], list[int]]:
    """The names that there are, in order, and of each entry which one it is."""
    known = sorted({*names})
    place = {name: k for k, name in enumerate(known)}
    return tuple(known), [place[name] for name in names]


def _features(table: Arff, instances: tuple[str, ...]) -> NDArray[np.float64]:
    """The features of instances, (m, k), averaged over repetitions; nan where they are missing."""
    names = [name for name in table.names if name not in ("instance_id", "repetition")]
    if not names:
        raise FileFormatError(f"{table.path!r} has no feature; attributes beside instance_id and repetition are wanted")
    values = np.stack([table.numbers(name, MISSING_FEATURE) for name in names], axis=1)
    place = {name: i for i, name in enumerate(instances)}
    kept = [(row, place[name]) for row, name in enumerate(table.column("instance_id")) if name in place]
    if not kept:
        raise FileFormatError(
            f"{table.path!r} has no instance that has runs; those of {instances[0]!r}, ... are wanted"
        )
    sources, rows = np.array(kept).T
    is_there = ~np.isnan(values[sources])
    totals, n_values = np.zeros((2, len(instances), len(names)))
    np.add.at(totals, rows, np.where(is_there, values[sources], 0.0))
    np.add.at(n_values, rows, is_there)
    return np.where(n_values > 0.0, totals / np.maximum(n_values, 1.0), np.nan)


def _components(features: NDArray[np.float64], n_components: int, path: Path) -> NDArray[np.float64]:
    """The first principal components of the features' logarithms and ranks, each of variance 1: (m, n_components)."""
    features = features[:, ~np.isnan(features).all(axis=0)]
    filled = np.where(np.isnan(features), np.nanmedian(features, axis=0), features)
    both = np.hstack([np.sign(filled) * np.log1p(np.abs(filled)), rankdata(filled, axis=0)])
    both -= both.mean(axis=0)
    sizes = both.std(axis=0)
    both = both[:, sizes > 1e-12 * np.maximum(1.0, np.abs(both).max(axis=0))]
    both /= both.std(axis=0)
    left, lengths, _ = np.linalg.svd(both, full_matrices=False)
    rank = int(np.sum(lengths > 1e-10 * lengths.max(initial=1.0)))
    if n_components > rank:
        raise ValueError(
            f"n_components is {n_components}; the instances' features in {os.fspath(path)!r} have {rank} components, "
            "and no more are wanted"
        )
    kept = left[:, :n_components]
    largest = np.abs(kept).argmax(axis=0)  # the decomposition leaves the sign open: there it is positive
    components: NDArray[np.float64] = kept * np.sign(kept[largest, range(n_components)]) * math.sqrt(len(kept))
    return components


def _best(scores: NDArray[np.float64], maximize: bool) -> NDArray[np.float64]:
    best: NDArray[np.float64] = scores.max(axis=1) if maximize else scores.min(axis=1)
    return best
