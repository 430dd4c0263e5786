"""A policy's play on a problem, duel by duel, and its regret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastcolst.reference.blind import DoubleThompson, SelfSparring, UniformPairs
from fastcolst.reference.linalg import Floats, row_products
from fastcolst.reference.models import ComparisonModel
from fastcolst.reference.policies import LinearPolicy

if TYPE_CHECKING:
    from collections.abc import Callable


def simulate(
    policy: LinearPolicy | UniformPairs | DoubleThompson | SelfSparring,
    contexts_source: Callable[[int], Floats],
    theta: Floats,
    model: ComparisonModel,
    horizon: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Play rounds t = 1 ... horizon on a problem with the true parameter theta and the true model.

    A round takes from rng what `policy.draw` takes, then two perturbations of the true model, also where the
    duel is a self-duel, whose answer nobody learns from.

    Returns
    -------
    average, weak : (horizon,) float64
        Cumulative regret.
    duels : (horizon, 2) int64

    Examples
    --------
    >>> from fastcolst.reference import BradleyTerry, UniformPairs, simulate
    >>> contexts = np.array([[1.0], [0.0]])
    >>> rng = np.random.default_rng(1)
    >>> average, weak, _ = simulate(UniformPairs(2), lambda t: contexts, np.ones(1), BradleyTerry(), 3, rng)
    >>> average, weak
    (array([0.5, 1. , 1.5]), array([0., 0., 0.]))
    """
    regrets = np.zeros((horizon, 2))
    duels = np.zeros((horizon, 2), dtype=np.int64)
    for t in range(1, horizon + 1):
        contexts = contexts_source(t)  # line 5
        utilities = row_products(contexts, theta)
        first, second = policy.select(contexts, *policy.draw(rng, len(contexts)))
        noise = model.perturb(model.raw(rng, 2))
        first_won = bool(utilities[first] - utilities[second] + noise[0] - noise[1] > 0.0)  # line 16
        if first != second:
            policy.update(contexts[first] - contexts[second], first_won)
        regrets[t - 1] = regret(utilities, first, second)
        duels[t - 1] = first, second
    average, weak = np.cumsum(regrets, axis=0).T
    return average, weak, duels


def regret(utilities: Floats, first: int, second: int) -> tuple[float, float]:
    """Return one round's average and weak regret, the paper's r^a and r^w.

    Examples
    --------
    >>> regret(np.array([3.0, 1.0, 2.0]), 1, 2)
    (1.5, 1.0)
    """
    best, a, b = float(np.max(utilities)), float(utilities[first]), float(utilities[second])
    return (2.0 * best - a - b) / 2.0, best - max(a, b)
