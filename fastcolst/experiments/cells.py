"""Cells: one policy on one scenario for a block of runs; how a study is cut into them, and how they are computed.

Policies that meet the same rounds play them together, so that these are drawn once: contexts, utilities and luck depend
on the scenario and the run, not on who plays. One by one the paper's figures take two thirds longer.
"""

from __future__ import annotations

import functools
import math
import os
import socket
import threading
from collections.abc import Callable, Sequence, Sized
from concurrent.futures import CancelledError
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst.estimation.estimators import estimator_of
from fastcolst.estimation.mle import MLE
from fastcolst.experiments.players import Player
from fastcolst.experiments.problems import Problem
from fastcolst.experiments.simulation import Plan, Record, RunError, columns, note_to, play_run
from fastcolst.experiments.tables import Recipe

__all__ = ["Cell", "Outcome", "Setting", "Task", "Work", "check_amounts", "compute_cells", "warm"]

MOST_CELLS = 1_000_000
MOST_CHECKPOINTS = 1_000_000
MOST_ROWS = 10_000_000_000
"""Rows of results: a run at a checkpoint. So many numbers are 240 GB."""
CELL_SECONDS = 1.0
"""A scenario's slowest policy takes about so long for a cell, or longer, on a slow processor."""
MOST_FINER = 8
"""Into at most so many times the cells that it would have by itself a policy is cut so that it can play with others."""
TOGETHER_SECONDS = 5.0
"""Cells are computed together while that takes no longer: they are finished together, and policies that keep every
comparison keep some 25 MB of them for each second that they play."""
TOGETHER_NUMBERS = 2**22
"""Cells are computed together while no more numbers are recorded: 32 MB."""


class Setting(NamedTuple):
    """A scenario as it is played: the problem, T, and the rounds after which regret is recorded."""

    problem: Problem
    horizon: int
    rounds: NDArray[np.int64]


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
    """All that a worker needs to compute cells of one scenario and the same runs, as plain data: recipes by label."""

    scenario: str
    problem: Problem
    recipes: dict[str, Recipe]
    horizon: int
    rounds: NDArray[np.int64]
    seed: int
    runs: range
    single_arms: bool


class Work(NamedTuple):
    """What a study computes: policies' recipes and scenarios' settings, each with its label, its seed, and the runs.

    ``single_arms``: whether regret of single arms is recorded as well.
    """

    recipes: list[tuple[str, Recipe]]
    settings: list[tuple[str, Setting]]
    seed: int
    runs: int
    single_arms: bool

    def block_runs(self) -> list[list[int]]:
        """Runs of a cell, by scenario and policy: the slowest policy's for all that are not much faster."""
        own = [[_block_runs(recipe, s, self.runs) for _, recipe in self.recipes] for _, s in self.settings]
        return [[min(row) if size <= MOST_FINER * min(row) else size for size in row] for row in own]

    def together(self, cells: list[Cell], n_tasks: int) -> list[list[Cell]]:
        """Cells in their order, in parts that are computed as one task: those of one scenario and the same runs.

        There are no fewer than ``n_tasks`` parts, if there are as many cells: an idle worker would cost more time than
        drawing rounds twice.
        """

        @functools.cache
        def run_seconds(scenario: int, policy: int) -> float:
            (_, setting), (_, recipe) = self.settings[scenario], self.recipes[policy]
            return setting.horizon * _round_seconds(recipe, setting.problem)

        parts: list[list[Cell]] = []
        before, total, recorded, most = None, 0.0, 0, max(1, len(cells) // n_tasks)
        for cell in cells:
            rounds = cell.scenario, cell.first_run, cell.n_runs
            seconds = cell.n_runs * run_seconds(cell.scenario, cell.policy)
            numbers = cell.n_runs * len(self.settings[cell.scenario][1].rounds) * columns(self.single_arms)
            total, recorded = total + seconds, recorded + numbers
            is_too_much = total > TOGETHER_SECONDS or recorded > TOGETHER_NUMBERS
            if rounds != before or is_too_much or len(parts[-1]) == most:
                parts.append([])
                before, total, recorded = rounds, seconds, numbers
            parts[-1].append(cell)
        return parts

    def task(self, cells: list[Cell]) -> Task:
        """What a worker computes for cells that :meth:`together` left together."""
        first = cells[0]
        label, setting = self.settings[first.scenario]
        recipes = dict(self.recipes[cell.policy] for cell in cells)
        runs = range(first.first_run, first.first_run + first.n_runs)
        plays = setting.horizon, setting.rounds, self.seed, runs
        return Task(label, setting.problem, recipes, *plays, self.single_arms)


class Outcome(NamedTuple):
    """What a cell gives.

    totals (n_runs, k, 3 or 5) float64, what is recorded at the checkpoints; seconds (n_runs,) float64; a policy's
    trouble in the first run, if any, in words; which worker it was.
    """

    totals: NDArray[np.float64]
    seconds: NDArray[np.float64]
    trouble: str
    worker: str


_WARM: set[tuple[Any, ...]] = set()
"""Kinds of rules whose kernels this process has compiled or loaded."""


def compute_cells(task: Task, stop: threading.Event | None = None) -> list[Outcome]:
    """Play the runs of cells, in the order of the task's recipes.

    A cell's totals are the same wherever, however often and with whichever others it is computed.
    """
    stop = threading.Event() if stop is None else stop
    templates = {label: recipe.build(task.problem.n_features) for label, recipe in task.recipes.items()}
    plan = Plan(templates, task.problem, task.horizon, task.seed, task.rounds, task.single_arms)
    for template in templates.values():
        warm(template)
    shape = len(task.runs), len(task.rounds), columns(task.single_arms)
    totals = {label: np.empty(shape) for label in templates}
    seconds = {label: np.empty(len(task.runs)) for label in templates}
    troubles: dict[str, str] = {}
    for i, run in enumerate(task.runs):
        record = Record(plan)
        try:
            policies = play_run(plan, run, record, stop)
        except RunError as error:
            raise ValueError(f"scenario {task.scenario!r}, {error}") from None
        except Exception as error:
            note_to(error, f"scenario {task.scenario!r}")
            raise
        if stop.is_set():
            raise CancelledError
        troubles = troubles or {label: policy.trouble() for label, policy in policies.items()}
        del policies  # they may keep every comparison, and the next run's are made before they would go
        for label in templates:
            totals[label][i], seconds[label][i] = record.totals[label], record.seconds[label]
    worker = f"{socket.gethostname()}:{os.getpid()}"
    return [Outcome(totals[label], seconds[label], troubles[label], worker) for label in templates]


def warm(policy: Player, say: Callable[[str], None] | None = None) -> None:
    """Compile a policy's kernels before its time is taken, and before threads would queue for the compiler."""
    if policy.kind not in _WARM:
        if say is not None:
            say(f"preparing {type(policy).__name__}, which takes a while where it must be compiled first")
        policy.warm_play()
        _WARM.add(policy.kind)


def _round_seconds(recipe: Recipe, problem: Problem) -> float:
    """What a round takes, roughly, in seconds: contexts are drawn, a pair is chosen, an answer is learned."""
    n, d = problem.n_arms, problem.n_features
    contexts = 0.2 + 0.003 * n * d
    choice = 0.3 + 0.02 * n + 0.00005 * n * d * d
    exact = 0.5 + 0.3 * d if isinstance(estimator_of(recipe.parameters.get("estimator", "sgd")), MLE) else 0.0
    return 1e-6 * (contexts + recipe.choice_cost * choice + exact)


def _block_runs(recipe: Recipe, setting: Setting, runs: int) -> int:
    """Runs that a policy plays in about :data:`CELL_SECONDS`, such that blocks are of about the same size."""
    total = runs * setting.horizon * _round_seconds(recipe, setting.problem)
    n_blocks = min(runs, max(1, int(total / CELL_SECONDS)))
    return math.ceil(runs / n_blocks)


def check_amounts(runs: int, block_runs: list[list[int]], rounds: Sequence[Sized]) -> None:
    """Raise ValueError for more than anyone can wait for or keep, before any of it is spread out."""
    n_cells = sum(-(-runs // size) for sizes in block_runs for size in sizes)
    n_rows = runs * sum(len(sizes) * len(r) for sizes, r in zip(block_runs, rounds, strict=True))
    for number, most, what in ((n_cells, MOST_CELLS, "cells"), (n_rows, MOST_ROWS, "rows of results")):
        if number > most:
            raise ValueError(f"runs is {runs}; that makes {number:,} {what}, and at most {most:,} are wanted")
