"""Eight threads share a policy of each kind: 10,000 rounds each, with copies made and beliefs read in between."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import numpy as np
from inside import index_twin_of
from twins import SAMPLERS, STAGED

import fastcolst as fc
from campaign.tally import Campaign, Tally
from fastcolst.policies import REGISTRY, LinearPolicy

N_THREADS, N_ARMS = 8, 10
ESTIMATORS = ("sgd", "online-newton", "mle")


def run(campaign: Campaign) -> Iterator[Tally]:
    """A tally for each policy, of rounds, answers and copies."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for number, name in enumerate(sorted(REGISTRY)):
            yield _shared(campaign, name, ESTIMATORS[number % len(ESTIMATORS)])
    finally:
        sys.setswitchinterval(interval)


def _policy(name: str, estimator: str) -> fc.Policy:
    given: dict[str, Any] = {"rng": 1}
    if issubclass(REGISTRY[name], LinearPolicy):
        given |= {"n_features": 3, "estimator": estimator, "ridge": 1.0}
    if name in STAGED:
        given |= {"horizon": 1000, "width_scale": 0.5, "exploration_rounds": 100}
    return REGISTRY[name](**given)


def _shared(campaign: Campaign, name: str, estimator: str) -> Tally:
    policy, n_rounds = _policy(name, estimator), campaign.amount(10_000, least=50)
    tally = Tally(f"{name}: rounds in {N_THREADS} threads, exact counts, whole copies")
    gate = threading.Barrier(N_THREADS)

    def serve(i: int) -> tuple[int, int, Any]:
        rng, n_answers, moments = campaign.rng("threads", name, i), 0, np.zeros((3, 3))
        gate.wait()
        for k in range(n_rounds):
            # whole numbers, whose products sum to the same M in every order
            duel = policy.select(rng.integers(-2, 3, (N_ARMS, 3)).astype(float))
            if not duel.is_self and rng.random() < 0.05:
                policy.discard(duel)
            elif not duel.is_self:
                policy.update(duel, bool(rng.random() < 0.6))
                n_answers += 1
                moments += np.outer(duel.contrast, duel.contrast)
            if k % 500 == 50 * i:
                tally.count(*_is_whole(pickle.loads(pickle.dumps(policy)) if i % 2 else deepcopy(policy)))
        return n_rounds, n_answers, moments

    with ThreadPoolExecutor(N_THREADS) as executor:
        served = [future.result() for future in [executor.submit(serve, i) for i in range(N_THREADS)]]
    n_played, n_answers = sum(row[0] for row in served), sum(row[1] for row in served)
    for _ in range(n_played - 1):
        tally.count(True)
    tally.count((policy.round, policy.pending) == (n_played, 0), f"round {policy.round} of {n_played}")
    tally.count(*_is_whole(policy))
    if name in SAMPLERS:
        n_wins = index_twin_of(policy).wins.sum()
        tally.count(n_wins == n_answers, f"{n_wins} wins of {n_answers}")
    elif name not in ("UniformPairs", *STAGED):  # M of stages holds the answers of one stage each
        tally.count(bool(np.array_equal(policy.gram, np.eye(3) + sum(row[2] for row in served))), "M is not the sum")
    return tally


def _is_whole(policy: Any) -> tuple[bool, str]:
    """Whether a policy's parts fit together: nobody was in the middle of something."""
    if hasattr(policy, "gram"):
        rows = np.vstack([np.eye(3), np.eye(3) + np.eye(3)[[1, 2, 0]]])  # whose widths determine M
        error = float(np.abs(policy.widths(rows) ** 2 / np.diag(rows @ np.linalg.inv(policy.gram) @ rows.T) - 1).max())
        return error < 1e-8, f"the factor is not that of M: {error}"
    return policy.pending <= policy.round, f"{policy.pending} pending of {policy.round}"
