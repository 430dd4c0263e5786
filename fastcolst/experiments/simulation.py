"""Simulation: policies play the same rounds of a problem, in chunks, with one thread for each run at work."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from fastcolst._checks import answer, as_array, brief, check_memory, count, entries, is_a, looked_at, whole_number
from fastcolst._compile import one_line, uninterrupted
from fastcolst._files import optional_import
from fastcolst._version import __version__
from fastcolst.experiments.players import Player, play_rounds, player_of
from fastcolst.experiments.problems import Problem, check_length
from fastcolst.experiments.results import SINGLE_ARMS, TABLES, Result
from fastcolst.policies.duel import ChoiceError
from fastcolst.policies.protocol import Chunk
from fastcolst.streams import POLICY, STREAM_VERSION, check_rng, entropy_of, label_key

__all__ = [
    "Plan",
    "Record",
    "RunError",
    "by_table",
    "checkpoint_rounds",
    "columns",
    "play_run",
    "processors",
    "simulate",
]

MOST_ROUNDS = 10**13
"""Rounds that can be played at all: the fastest policy takes a month for them."""

MOST_CHECKPOINTS = 10**7

RECORD_BYTES = 2_000
"""What a run takes while it waits for its turn, besides its regret."""

POLL_SECONDS = 0.1
"""How often the caller's thread looks up: for Ctrl-C, for the progress bar."""


def simulate(  # noqa: PLR0917 - the order of the problem: who, what, how long, how often
    policies: Mapping[str, Any],
    scenario: Problem,
    horizon: int,
    runs: int = 1,
    rng: Any = None,
    threads: int | None = None,
    checkpoints: int | Sequence[int] = 200,
    progress: bool = False,
    *,
    single_arms: bool = False,
) -> Result:
    """Let policies play the same rounds of a problem and record their regret.

    Parameters
    ----------
    policies : dict of label to policy
        Templates: each run gets a fresh copy with its own stream, in which an open ``horizon`` and ``n_arms`` are
        filled in. The templates stay as they are. A plain Python class or object with ``select(contexts)``, which
        returns two indices, and ``update(duel, first_won)`` plays as well, slowly; see Notes.
    scenario : Scenario
        The problem, or anything else with what :class:`fastcolst.experiments.problems.Problem` asks for. Each run's
        contexts and answers are drawn once and shared by all policies.
    horizon : int
        T, rounds in each run.
    runs : int, default 1
        Independent repetitions.
    rng : int, SeedSequence, Generator or None
        From which everything follows. A run's numbers depend on this, the run's index and, for a policy, its label: not
        on the other policies, the threads or the chunks.
    threads : int, optional
        Runs at work at once; None: one for each processor.
    checkpoints : int or increasing sequence of int, default 200
        The rounds after which regret is recorded: how many, evenly spaced and ending at the horizon, or which.
    progress : bool, default False
        Show a progress bar (needs tqdm).
    single_arms : bool, default False
        Record as well what it would have cost to play one arm in place of the pair: ``result.first_regret`` of the
        duel's first arm, ``result.greedy_regret`` of the arm with the highest estimated utility before the answer is
        learned (stage 1's, with stages). While a policy explores there is no estimate to go by, and its greedy arm is
        the first of the random pair; policies without an estimate, and plain Python ones, have nan. The pairs stay the
        same. O(n d) a round.

    Returns
    -------
    Result

    Raises
    ------
    ValueError
        For an argument outside its range, or when a policy's numbers stop being finite, or a plain one's ``select``
        returns what is no pair of indices.

    Notes
    -----
    Kernels release the GIL, so threads run side by side. Memory does not grow with the horizon, apart from the
    comparisons that ``MLE`` keeps, 8.1 (d + 1) bytes each. Ctrl-C is answered between two chunks, within a second;
    while a kernel is compiled, when that is done.

    A plain class is constructed for each run, with those of ``n_features``, ``n_arms``, ``horizon`` and ``rng`` (a
    NumPy Generator, the run's own) that its constructor names. A plain object is deep-copied for each run, and its
    attribute ``rng``, if any, is replaced by such a Generator. What draws from there alone repeats with the seed.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), section 3.1 for both regrets, section 4 for the experiments.

    Examples
    --------
    >>> import fastcolst as fc
    >>> policies = {"CoLSTIM": fc.CoLSTIM(3), "Random": fc.UniformPairs()}
    >>> result = fc.simulate(policies, fc.Scenario.hard(n_arms=10, n_features=3), horizon=500, rng=1)
    >>> bool(result.average_regret["CoLSTIM"][0, -1] < result.average_regret["Random"][0, -1])
    True
    """
    templates = _templates(policies)
    scenario = _problem(scenario)
    horizon, runs = count("horizon", horizon), count("runs", runs)
    if len(templates) * runs * horizon > MOST_ROUNDS:
        raise ValueError(
            f"horizon is {horizon:,}, for {runs:,} runs of {len(templates)} policies; at most {MOST_ROUNDS:,} rounds "
            "in all are possible"
        )
    rounds = checkpoint_rounds(checkpoints, horizon)
    single_arms = answer(single_arms, "single_arms")
    check_memory("runs", runs, runs * (RECORD_BYTES + 8 * columns(single_arms) * len(templates) * len(rounds)))
    workers = min(runs, processors() if threads is None else count("threads", threads))
    progress = answer(progress, "progress")
    check_rng(rng)
    _check_fit(templates, scenario, horizon)
    plan = Plan(templates, scenario, horizon, entropy_of(rng), rounds, single_arms)  # from here on nothing is refused
    records = [Record(plan) for _ in range(runs)]
    watching = _bar(plan.horizon * runs, progress)
    with one_line(), watching as bar:
        for label in templates:  # compile here: threads would queue for the compiler and count it as their own time
            if bar is not None:
                bar.set_description_str(f"preparing {label}")
            plan.policy(label, 0).warm_play()
        if bar is not None:
            bar.set_description_str("")
            bar.unpause()
        of_first_run = _play_on_threads(plan, records, workers, bar)
    for policy in of_first_run:
        if trouble := policy.trouble():
            warnings.warn(trouble, UserWarning, stacklevel=2)
    return _result(plan, records)


class Plan(NamedTuple):
    """What all runs share."""

    templates: dict[str, Player]
    scenario: Problem
    horizon: int
    entropy: int
    checkpoints: NDArray[np.int64]
    single_arms: bool = False

    def policy(self, label: str, run: int) -> Player:
        """The policy of a run, fresh."""
        key = SeedSequence(self.entropy, spawn_key=(POLICY, run, *label_key(label)))
        return self.templates[label].fresh_for(self.scenario.n_features, self.scenario.n_arms, self.horizon, key)


def columns(single_arms: bool) -> int:
    """How many numbers are recorded at a checkpoint."""
    return len(TABLES) + len(SINGLE_ARMS) * single_arms


def by_table(totals: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """What results keep of each label's totals, (runs, k, columns): a dict by label for each of them."""
    width = next(iter(totals.values())).shape[-1]
    tables: dict[str, Any] = {
        name: {label: table[..., i] for label, table in totals.items()}
        for i, name in enumerate((*TABLES, *SINGLE_ARMS)[:width])
    }
    tables["self_duels"] = {label: table.astype(np.int64) for label, table in tables["self_duels"].items()}
    return tables


class RunError(ValueError):
    """A run cannot go on; the message says whose, and in which round."""


class Record:
    """What a run leaves behind: regret at the checkpoints, seconds, and how far it has come."""

    def __init__(self, plan: Plan) -> None:
        shape = len(plan.checkpoints), columns(plan.single_arms)
        self.totals = {label: np.empty(shape) for label in plan.templates}
        self.seconds = dict.fromkeys(plan.templates, 0.0)
        self.theta = np.empty(0)
        self.rounds_played = 0


def play_run(plan: Plan, run: int, record: Record, stop: threading.Event) -> dict[str, Player]:
    """Play one run with every policy, chunk by chunk, into its record; return early once ``stop`` is set.

    Returns the policies as they are then.

    Raises
    ------
    RunError
        Numbers stopped being finite, a plain policy chose what is no pair of arms, or the problem gave other rounds
        than it was asked for.
    """
    source = plan.scenario.start(plan.entropy, run)
    most = count("the problem's chunk_rounds", source.chunk_rounds)
    record.theta = source.theta
    policies = {label: plan.policy(label, run) for label in plan.templates}
    traces = {label: np.zeros((most + 1, columns(plan.single_arms))) for label in plan.templates}
    while record.rounds_played < plan.horizon and not stop.is_set():
        before = record.rounds_played
        n_rounds = min(most, plan.horizon - before)
        chunk = source.next_chunk(n_rounds)
        if found := _chunk_trouble(chunk, n_rounds, plan.scenario):
            raise RunError(f"run {run}, round {before + 1}: next_chunk({n_rounds}) of the problem gave {found}")
        reached = slice(*np.searchsorted(plan.checkpoints, [before + 1, before + n_rounds + 1]))
        for label, policy in policies.items():
            trace = traces[label][: n_rounds + 1]
            start = time.thread_time()
            try:
                played = play_rounds(policy, chunk, trace, stop)
            except ChoiceError as error:
                raise RunError(f"policy {label!r}, run {run}, {error}") from None
            except Exception as error:
                note_to(error, f"policy {label!r}, run {run}, in the rounds after {before:,}")
                raise
            record.seconds[label] += time.thread_time() - start
            if stop.is_set():
                return policies
            if played < n_rounds:
                raise RunError(
                    f"policy {label!r}, run {run}, round {before + played + 1}: a context, utility, width or estimate "
                    "is not finite; does the scenario draw finite contexts of moderate size?"
                )
            record.totals[label][reached] = trace[plan.checkpoints[reached] - before]
            trace[0] = trace[n_rounds]
        record.rounds_played += n_rounds
    return policies


def note_to(error: BaseException, text: str) -> None:
    """Add a note to an error, unless it takes none: frozen ones and those with notes of their own kind do not."""
    with contextlib.suppress(Exception):
        error.add_note(text)


def _chunk_trouble(chunk: Any, n_rounds: int, problem: Problem) -> str:
    """What a problem gave in place of a chunk of so many rounds, and what is wanted; "" where it gave one."""
    if not isinstance(chunk, Chunk):
        return f"{brief(chunk)}; a Chunk is wanted"
    m, d, n = n_rounds, problem.n_features, problem.n_arms
    for name, array, shape in zip(Chunk._fields, chunk, ((m, d, n), (m, n), (m,), (m,)), strict=True):
        if np.shape(array) != shape:
            return f"{name} of shape {np.shape(array)}; {shape} is wanted"
    return ""


def _bar(total: int, wanted: bool) -> AbstractContextManager[Any]:
    """A progress bar, or None."""
    if not wanted:
        return nullcontext()
    bar: AbstractContextManager[Any] = optional_import("tqdm", "progress=True").tqdm(
        total=total, unit="round", unit_scale=True
    )
    return bar


def _play_on_threads(plan: Plan, records: list[Record], workers: int, bar: Any) -> list[Player]:
    """Play all runs, into their records; return the policies of the first, which may remember every comparison."""
    waiting = iter(range(len(records)))  # under the GIL no two threads get the same of `next`
    stop = threading.Event()
    ended: SimpleQueue[Future[list[Player]]] = SimpleQueue()  # the futures' own `wait` would leave locks held at Ctrl-C

    def play() -> list[Player]:
        """Play runs until none waits; of the first run the policies are kept."""
        of_first_run: list[Player] = []
        while not stop.is_set() and (run := next(waiting, None)) is not None:
            policies = list(play_run(plan, run, records[run], stop).values())
            if run == 0:
                of_first_run = policies
            del policies  # before those of the next run, which may be as large
        return of_first_run

    def begin() -> list[Future[list[Player]]]:
        futures = [executor.submit(play) for _ in range(workers)]
        for future in futures:
            future.add_done_callback(ended.put)
        return futures

    executor = ThreadPoolExecutor(workers, "fastcolst")
    try:
        futures = uninterrupted(begin)  # else locks of the executor might stay held
        _watch(ended, workers, records, bar)
    finally:  # after Ctrl-C or an error: runs at work stop at their next chunk
        stop.set()
        executor.shutdown(wait=True)
    return list(itertools.chain.from_iterable([future.result() for future in futures]))


def _watch(ended: SimpleQueue[Future[list[Player]]], pending: int, records: list[Record], bar: Any) -> None:
    """Wait for so many threads to end, and raise the error of the first that fails."""
    while pending:
        try:
            future = ended.get(timeout=POLL_SECONDS)
        except Empty:
            pass
        else:  # errors may be of this class as well
            if (error := future.exception()) is not None:  # `result` overlooks errors whose truth value is false
                raise error
            pending -= 1
        if bar is not None:
            bar.update(sum(record.rounds_played for record in records) - bar.n)


def _result(plan: Plan, records: list[Record]) -> Result:
    totals = {label: np.stack([record.totals[label] for record in records]) for label in plan.templates}
    return Result(
        rounds=plan.checkpoints,
        **by_table(totals),
        seconds={label: np.array([record.seconds[label] for record in records]) for label in plan.templates},
        thetas=np.stack([record.theta for record in records]),
        seed=plan.entropy,
        horizon=plan.horizon,
        runs=len(records),
        settings={
            "scenario": repr(plan.scenario),
            **{f"policy {label}": repr(policy) for label, policy in plan.templates.items()},
            "versions": f"fastcolst {__version__}, numba {numba.__version__}, numpy {np.__version__}, "
            f"python {platform.python_version()}, streams {STREAM_VERSION}",
        },
    )


def _templates(policies: Any) -> dict[str, Player]:
    wanted = "a dict of labels and policies"
    given = entries("policies", policies, wanted) if is_a(Mapping, policies) else {}
    if not given:
        raise ValueError(f"policies is {brief(policies)}; {wanted} is wanted, such as {{'CoLSTIM': fc.CoLSTIM(10)}}")
    templates = {}
    for label, policy in given.items():
        player = player_of(policy)
        if not is_label(label) or player is None:
            raise ValueError(
                f"policies has {brief(label)}: {brief(policy)}; a label and a policy are wanted, such as 'CoLSTIM': "
                "fc.CoLSTIM(10)"
            )
        templates[label] = player
    return templates


def is_label(value: Any) -> bool:
    """Whether a value can name a policy or a scenario: a text that is not empty, and that UTF-8 can write."""
    return looked_at(lambda text: isinstance(text, str) and len(text.encode()) > 0, value, False)


def _problem(scenario: Any) -> Problem:
    if not is_a(Problem, scenario):
        raise ValueError(f"scenario is {brief(scenario)}; a Scenario is wanted")
    problem: Problem = scenario
    return problem


def _check_fit(templates: dict[str, Player], scenario: Problem, horizon: int) -> None:
    check_length(scenario, horizon)
    for label, policy in templates.items():
        try:
            policy.fresh_for(scenario.n_features, scenario.n_arms, horizon, 0)
        except ValueError as error:
            raise ValueError(f"policies has {label!r}, which does not fit the scenario: {error}") from None


def checkpoint_rounds(
    checkpoints: int | Sequence[int], horizon: int, most: int = MOST_CHECKPOINTS
) -> NDArray[np.int64]:
    """The rounds that an argument ``checkpoints`` names, checked: ValueError for others, and for more than ``most``."""
    wanted = f"increasing rounds from 1 to the horizon {horizon}"
    several = whole_number(checkpoints) is None
    number = looked_at(len, checkpoints, 0) if several else min(count("checkpoints", checkpoints), horizon)
    if number > most:  # before they are spread out: a range is short as long as it is one
        raise ValueError(f"checkpoints are {number:,}; at most {most:,} are possible")
    if not several:
        return np.unique(np.linspace(horizon / number, horizon, number).round().astype(np.int64))
    rounds = as_array("checkpoints", checkpoints, "neither a number nor an array of rounds", f"{wanted} are wanted")
    rounds = rounds.astype(np.int64) if rounds.dtype.kind == "u" else rounds
    whole = rounds.ndim == 1 and rounds.size > 0 and rounds.dtype.kind in "if" and np.all(rounds == np.floor(rounds))
    if not whole or rounds[0] < 1 or rounds[-1] > horizon or np.any(np.diff(rounds) <= 0):
        raise ValueError(f"checkpoints is {brief(checkpoints)}; {wanted} are wanted")
    return rounds.astype(np.int64)


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
