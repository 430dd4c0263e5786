"""Sup-CoLSTIM: CoLSTIM's duels where arms are known well, and random pairs of too wide a difference until then.

Bengs, Saha, Huellermeier (2022), Stochastic Contextual Dueling Bandits under Linear Stochastic Transitivity Models,
Algorithm 2. Line numbers below are that algorithm's; see :mod:`fastcolst.policies.stages` for the stages.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fastcolst._checks import count
from fastcolst._compile import helper
from fastcolst._registry import register
from fastcolst.kernels.pool import squared_distances
from fastcolst.kernels.selection import among_equals, optimistic_argmax, perturbed_argmax, tie_key
from fastcolst.kernels.splitmix import word
from fastcolst.policies.colstim import CoLSTIMRule, perturbed_fields, theorem_constants, unclipped_noise
from fastcolst.policies.parameters import Comparison, Coupling, Estimator, Exploration, Seed, Widths
from fastcolst.policies.protocol import NOT_FINITE, Choice
from fastcolst.policies.stages.descent import (
    LABEL,
    NOISE,
    PARTNERS,
    POINTS,
    SQUARE,
    UTILITY,
    VALUES,
    columns,
    descend,
    everyone,
    squared_limit,
    stage_work_shape,
    survey,
)
from fastcolst.policies.stages.policy import StagewisePolicy, stage_scale
from fastcolst.policies.stages.state import EXPLORATION, WIDTH, note, teach
from fastcolst.policies.state import confidence_scale, explore

__all__ = ["SupCoLSTIM", "SupCoLSTIMRule"]


@register
class SupCoLSTIMRule(NamedTuple):
    """Algorithm 2 as numbers.

    The fields are those of :class:`fastcolst.policies.colstim.CoLSTIMRule`; ``horizon`` is 0 in a template only.
    """

    perturbation: Any
    estimator: Any
    model: Any
    horizon: int
    width_scale: float
    clip: float
    coupling: int
    coupling_value: float
    allow_self_duel: bool
    by_information: bool

    n_raw = CoLSTIMRule.n_raw  # type: ignore[misc]
    draw = CoLSTIMRule.draw  # type: ignore[misc]

    def work_shape(self, n_arms: int, n_features: int) -> tuple[int, int]:
        """What the stages need."""
        return stage_work_shape(n_arms, n_features)

    def select(self, state: Any, contexts: Any, raw: Any, work: Any) -> Choice:
        """Lines 2 and 5 to 22. O(n d^2) for each stage, and O(n^2 d)."""
        if state.counters[()].exploration_end < 0:
            choice = explore(contexts, raw)  # line 2
            if choice.first >= 0:
                note(state, 0, EXPLORATION)
            return choice
        (stage, reason, size), _ = descend(self, state, contexts, work, tie_key(raw[1]))
        if stage == 0:
            return NOT_FINITE
        scale = confidence_scale(self, state)
        if reason == WIDTH:
            first, second = _random_wide_pair(work, size, squared_limit(2.0**-stage, scale), raw[0])
        else:
            first, second = _confident_pair(self, state, contexts, (stage, size), work, raw)
        return Choice(int(work[LABEL, first]), int(work[LABEL, second]), note(state, stage, reason))

    def update(self, state: Any, choice: Choice, contrast: Any, share: float, weight: float) -> int:
        """Lines 3, 8 and 9, 13, 20."""
        return teach(self, state, choice, contrast, share, weight)


@helper
def _random_wide_pair(arms: Any, size: int, limit: float, uniform: float) -> tuple[int, int]:
    """A uniformly random ordered pair of survivors whose squared distance exceeds a limit; line 21. O(size d).

    Pairs are numbered by the first arm, then by the second. ``PARTNERS`` says how many there are of each arm.
    """
    partners, values = arms[PARTNERS], arms[VALUES]
    total = 0.0
    for j in range(size):
        total += partners[j]
    left, first = float(int(uniform * total)), 0
    while left >= partners[first] and first < size - 1:
        left -= partners[first]
        first += 1
    squared_distances(columns(arms, POINTS, size), first, 0, size, values)
    second = -1
    while left >= 0.0 and second < size - 1:
        second += 1
        left -= 1.0 if values[second] > limit else 0.0
    return first, second


@helper
def _confident_pair(
    rule: Any, state: Any, contexts: Any, reached: tuple[int, int], arms: Any, raw: Any
) -> tuple[int, int]:
    """CoLSTIM's choice among the survivors; lines 12, 14 and 15. O(n d).

    A lone survivor that may not duel with itself meets its toughest rival among all arms.
    """
    n = contexts.shape[1]
    stage, size = reached
    scale = confidence_scale(rule, state)
    clip = rule.clip if rule.clip >= 0.0 else scale
    noise, label = arms[NOISE], arms[LABEL]
    unclipped_noise(rule, state, raw, scale, noise[:n])
    for j in range(size):
        noise[j] = noise[int(label[j])]
    key, values = tie_key(raw[1]), arms[VALUES][:size]
    first = perturbed_argmax(arms[UTILITY][:size], arms[SQUARE][:size], noise[:size], clip, values)
    first = among_equals(values, first, key)
    if size == 1 and not rule.allow_self_duel:
        first = int(label[0])
        size = everyone(arms, n)
        survey((rule, state), stage, contexts, size, arms)
    points = columns(arms, POINTS, size)
    for j in range(size, points.shape[1]):  # no arms: they never win
        arms[UTILITY][j] = -np.inf
        for k in range(points.shape[0]):
            points[k, j] = 0.0
    second = optimistic_argmax(
        arms[UTILITY], points, first, scale, rule.allow_self_duel, arms[VALUES][: points.shape[1]]
    )
    return first, among_equals(arms[VALUES][:size], second, word(key))


@register(name="SupCoLSTIM")
class SupCoLSTIM(StagewisePolicy):
    """CoLSTIM in stages (Algorithm 2), for which a smaller bound on the regret is proven.

    In tau rounds of exploration random pairs duel; they teach all of S = floor(log2 T) stages. Then a round goes
    through the stages with the arms that survive, at first all. With w_ij = c1 |x_i - x_j|_{M^-1}, M and theta those
    of the stage s: if all w_ij <= 1/sqrt(T), the arms duel that CoLSTIM would choose among the survivors; if all
    w_ij <= 2^-s, those survive whose utility is at most 2^-s below the best, and the next stage follows; otherwise a
    uniformly random pair with w_ij > 2^-s duels, and the answer teaches this stage alone.

    Parameters
    ----------
    n_features, n_arms
        As in :data:`fastcolst.policies.parameters.LINEAR`.
    horizon, comparison
        As in :data:`fastcolst.policies.parameters.STAGEWISE`.
    perturbation
        As in :data:`fastcolst.policies.parameters.PERTURBED`.
    estimator, ridge
        As in :data:`fastcolst.policies.parameters.STAGEWISE`.
    exploration_rounds, width_scale
        As in :data:`fastcolst.policies.parameters.LINEAR`.
    clip
        As in :data:`fastcolst.policies.parameters.PERTURBED`.
    coupling : float or "theorem", optional
        Probability p_t that every arm gets noise of its own; see :class:`CoLSTIM`.
    allow_self_duel
        As in :data:`fastcolst.policies.parameters.PERTURBED`.
    widths, position, count_pending, robust, features
        As in :data:`fastcolst.policies.parameters.LINEAR`.
    max_pending, rng
        As in :data:`fastcolst.policies.parameters.PERTURBED`.

    Raises
    ------
    ValueError
        For an argument outside its range, with its name.

    Notes
    -----
    The paper prints line 15 as argmax_i <z_{i,i_t}, theta> + w_{i_t,j}, where j occurs nowhere else: read w_{i_t,i},
    as in line 15 of Algorithm 1.

    ``stage_counts`` tells where rounds ended and why; ``stage(s)`` what a stage knows; ``theta`` and ``gram`` are stage
    1's. An answer counts for its round's stage, however late it comes; logs teach all stages. With the simplified
    constants of the experiments, which are the defaults, most rounds of the first tens of thousands end in the first
    stages.

    A choice costs O(n d^2) for each stage it goes through and O(n^2 d) where pairs must be looked at, an answer O(d^2).
    Memory: O(n d + S d^2), and what the estimator remembers. Threads may share a policy.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 2; the defaults are those of section 4. The stages are those of Auer
    (2002), Using confidence bounds for exploitation-exploration trade-offs.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> rng = np.random.default_rng(0)
    >>> policy = fc.SupCoLSTIM(n_features=2, horizon=1000, exploration_rounds=20, width_scale=1, rng=1)
    >>> for _ in range(100):
    ...     contexts = rng.normal(size=(5, 2))
    ...     duel = policy.select(contexts)
    ...     policy.update(duel, first_won=duel.contrast[0] > 0)
    >>> policy.n_stages, policy.stage_counts[0]
    (9, {'exploration': 20, 'width': 0, 'confident': 0})
    >>> policy.stage(1).count == 20 + policy.stage_counts[1]["width"]
    True
    """

    def __init__(
        self,
        n_features: int,
        *,
        n_arms: int | None = None,
        horizon: int | None = None,
        comparison: Comparison = "bradley-terry",
        perturbation: Comparison | None = None,
        estimator: Estimator = "mle",
        ridge: float = 0.0,
        exploration_rounds: Exploration = None,
        width_scale: float | None = None,
        clip: float | None = None,
        coupling: Coupling = None,
        allow_self_duel: bool = True,
        widths: Widths = "gram",
        position: bool = False,
        count_pending: bool = False,
        robust: float | None = None,
        features: Any = None,
        max_pending: int | None = None,
        rng: Seed = None,
    ) -> None:
        super().__init__(locals())
        self._start_linear(SupCoLSTIMRule(**perturbed_fields(self._parameters)), ridge, exploration_rounds)

    @classmethod
    def from_theorem(
        cls,
        n_features: int,
        *,
        n_arms: int,
        horizon: int,
        comparison: Comparison = "bradley-terry",
        rho: float,
        theta_norm: float = 1.0,
        **parameters: Any,
    ) -> SupCoLSTIM:
        """Sup-CoLSTIM with the constants for which the regret is bounded.

        ``width_scale`` c1 = 3/(2 mu) sqrt(2 log(3 n T^2)); mu, tau and p_t as in :meth:`CoLSTIM.from_theorem`, with
        c2 = c1 and ``clip`` the largest number below it.

        Parameters
        ----------
        n_features, n_arms, horizon, comparison
            As for the class. ``horizon`` at least ``n_features``.
        rho : float
            Positive; in every round d of the contexts b_j satisfy rho I <= sum b_j b_j' (assumption A1).
        theta_norm : float, default 1.0
            Bound on the norm of the true parameter.
        **parameters
            Further arguments of the class, passed on.

        Warns
        -----
        UserWarning
            When tau >= horizon: the policy would only explore.

        References
        ----------
        Bengs, Saha, Huellermeier (2022), Theorem 3.4, and assumptions (A1), (A2).

        Examples
        --------
        >>> import fastcolst as fc
        >>> policy = fc.SupCoLSTIM.from_theorem(2, n_arms=5, horizon=10**6, rho=0.5)
        >>> policy.get_params()["coupling"]
        'theorem'
        """
        _, T, mu, tau = theorem_constants(n_features, horizon, comparison, rho, theta_norm)
        c1 = stage_scale(mu, count("n_arms", n_arms), T)
        constants = {
            "exploration_rounds": tau,
            "width_scale": c1,
            "clip": math.nextafter(c1, 0.0),
            "coupling": "theorem",
        }
        return cls(n_features, n_arms=n_arms, horizon=T, comparison=comparison, **{**constants, **parameters})
