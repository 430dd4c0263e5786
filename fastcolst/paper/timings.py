"""The seconds that choosing takes, apart from those that learning takes: what the paper's tables are about."""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import SeedSequence

from fastcolst._compile import plain
from fastcolst._files import FileFormatError, read_json
from fastcolst.experiments.simulation import simulate
from fastcolst.policies.kernels import first_wins
from fastcolst.streams import POLICY, label_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from fastcolst.experiments.problems import Scenario

__all__ = ["choosing_seconds", "read_timing", "seconds_of"]


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
    >>> from fastcolst.paper.timings import choosing_seconds
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
        playing[label] = template.fresh_for(scenario.n_features, scenario.n_arms, horizon, key)
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
        first_won = plain(first_wins)(chunk, r, duel.first, duel.second)
        start = clock()
        policy.update(duel, first_won)
        learning += clock() - start
    return choosing, learning


def read_timing(path: Path) -> list[dict[str, Any]]:
    """Read back what :func:`choosing_seconds` gave, from a file of its rows.

    Raises
    ------
    FileFormatError
        The file is damaged.
    """
    rows: list[dict[str, Any]] = read_json(path)
    try:
        if not all(math.isfinite(row[clock]) for row in rows for clock in ("choosing", "learning", "fused")):
            raise ValueError("seconds that are no numbers")
        {row["policy"] for row in rows}
    except (ValueError, TypeError, KeyError) as error:
        text = f"{os.fspath(path)!r} is damaged; delete it, and the same command times again: {error!r}"
        raise FileFormatError(text) from None
    return rows


def seconds_of(rows: Iterable[Mapping[str, Any]], label: str, column: str) -> NDArray[np.float64]:
    """One policy's seconds, run by run."""
    return np.array([row[column] for row in rows if row["policy"] == label])
