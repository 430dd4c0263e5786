"""Sta'D: in stages, duel with the two survivors that are least well told apart, and with the best two once all are.

Saha (2021), Optimal algorithms for stochastic contextual preference bandits, algorithm Stagewise-Adaptive-Duel; see
:mod:`fastcolst.policies.stages` for the stages.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastcolst._checks import count
from fastcolst._compile import helper
from fastcolst._registry import register
from fastcolst.kernels.selection import among_equals, argmax, tie_key
from fastcolst.policies.colstim import theorem_constants
from fastcolst.policies.parameters import Comparison, Estimator, Exploration, Seed, Widths, pair_fields
from fastcolst.policies.protocol import NOT_FINITE, Choice
from fastcolst.policies.stages.descent import LABEL, UTILITY, descend, everyone, stage_work_shape, survey
from fastcolst.policies.stages.policy import StagewisePolicy, stage_scale
from fastcolst.policies.stages.state import CONFIDENT, EXPLORATION, note, teach
from fastcolst.policies.state import explore

__all__ = ["StaD", "StaDRule"]


@register
class StaDRule(NamedTuple):
    """Sta'D as numbers.

    estimator, model: the registered instances; horizon: T, 0 in a template only; width_scale: eta, negative for
    sqrt(d log T); allow_self_duel: whether a single survivor duels with itself; by_information: whether H's widths
    stand for M's.
    """

    estimator: Any
    model: Any
    horizon: int
    width_scale: float
    allow_self_duel: bool
    by_information: bool

    def n_raw(self, n_arms: int) -> int:
        """Two uniforms, for the pair of an exploration round; the second breaks ties in the others."""
        return 2

    def work_shape(self, n_arms: int, n_features: int) -> tuple[int, int]:
        """What the stages need."""
        return stage_work_shape(n_arms, n_features)

    def select(self, state: Any, contexts: Any, raw: Any, work: Any) -> Choice:
        """The widest pair of survivors, or the best two. O(n d^2) for each stage, and O(n^2 d)."""
        if state.counters[()].exploration_end < 0:
            choice = explore(contexts, raw)
            if choice.first >= 0:
                note(state, 0, EXPLORATION)
            return choice
        key = tie_key(raw[1])
        (stage, reason, size), (first, second) = descend(self, state, contexts, work, key)
        if stage == 0:
            return NOT_FINITE
        if reason == CONFIDENT:
            first, second = _best_two(work[UTILITY][:size], key)
            if first == second and not self.allow_self_duel:  # the best other arm of all
                first = int(work[LABEL, first])
                size = everyone(work, contexts.shape[1])
                survey((self, state), stage, contexts, size, work)
                if size > 1:
                    work[UTILITY, first] = -np.inf
                second = among_equals(work[UTILITY][:size], argmax(work[UTILITY][:size]), key)
        return Choice(int(work[LABEL, first]), int(work[LABEL, second]), note(state, stage, reason))

    def update(self, state: Any, choice: Choice, contrast: Any, share: float, weight: float) -> int:
        """One comparison more for the stage of the round, or for all."""
        return teach(self, state, choice, contrast, share, weight)


@helper
def _best_two(utility: Any, key: Any) -> tuple[int, int]:
    """The arms of highest and second highest utility, equals in the key's order; one alone twice. O(size)."""
    first = among_equals(utility, argmax(utility), key)
    if utility.size > 1:
        utility[first] = -np.inf
    return first, among_equals(utility, argmax(utility), key)


@register(name="StaD")
class StaD(StagewisePolicy):
    """Stagewise-Adaptive-Duel.

    In t_0 rounds of exploration random pairs duel; they teach all of S = floor(log2 T) stages. Then a round goes
    through the stages with the arms that survive, at first all. With w_ij = eta |x_i - x_j|_{M^-1}, M and theta those
    of the stage s: if all w_ij <= 1/sqrt(T), the two survivors of highest utility duel; if all w_ij <= 2^-s, those
    survive whose utility is at most 2^-s below the best, and the next stage follows; otherwise the pair of largest w_ij
    duels, and the answer teaches this stage alone.

    Parameters
    ----------
    n_features, n_arms
        As in :data:`fastcolst.policies.parameters.LINEAR`.
    horizon, comparison, estimator, ridge
        As in :data:`fastcolst.policies.parameters.STAGEWISE`.
    exploration_rounds, width_scale
        As in :data:`fastcolst.policies.parameters.LINEAR`.
    allow_self_duel : bool, default True
        Whether a single survivor duels with itself. False: with the best of the arms that were eliminated.
    widths, position, count_pending, robust, features, max_pending, rng
        As in :data:`fastcolst.policies.parameters.LINEAR`.

    Raises
    ------
    ValueError
        For an argument outside its range, with its name.

    Notes
    -----
    Ties are broken at random, see :func:`fastcolst.kernels.selection.tie_key`; of the widest pair the arm of lower
    index is the first. Saha leaves open which of the pairs that are too wide duels: here it is the widest.

    ``stage_counts`` tells where rounds ended and why; ``stage(s)`` what a stage knows; ``theta`` and ``gram`` are stage
    1's. An answer counts for its round's stage, however late it comes; logs teach all stages.

    A choice costs O(n d^2) for each stage it goes through and O(n^2 d) where pairs must be looked at, an answer O(d^2).
    Memory: O(n d + S d^2), and what the estimator remembers. Threads may share a policy.

    References
    ----------
    Saha (2021), Optimal algorithms for stochastic contextual preference bandits. The defaults are those of Bengs, Saha,
    Huellermeier (2022), section 4.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> rng = np.random.default_rng(0)
    >>> policy = fc.StaD(n_features=2, horizon=1000, exploration_rounds=20, width_scale=1, rng=1)
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
        estimator: Estimator = "mle",
        ridge: float = 0.0,
        exploration_rounds: Exploration = None,
        width_scale: float | None = None,
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
        self._start_linear(StaDRule(**pair_fields(self._parameters)), ridge, exploration_rounds)

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
    ) -> StaD:
        """Sta'D with the constants for which the regret of such stages is bounded.

        ``width_scale`` eta = 3/(2 mu) sqrt(2 log(3 n T^2)) and ``exploration_rounds`` as in
        :meth:`SupCoLSTIM.from_theorem`, whose proof takes the stages over from Sta'D.

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
        >>> policy = fc.StaD.from_theorem(2, n_arms=5, horizon=10**6, rho=0.5)
        >>> policy.get_params()["width_scale"] > 10
        True
        """
        _, T, mu, tau = theorem_constants(n_features, horizon, comparison, rho, theta_norm)
        constants = {"exploration_rounds": tau, "width_scale": stage_scale(mu, count("n_arms", n_arms), T)}
        return cls(n_features, n_arms=n_arms, horizon=T, comparison=comparison, **{**constants, **parameters})
