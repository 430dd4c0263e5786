"""MaxPairUCB: duel with the pair of arms that is best when doubt speaks for it.

The rule is the simplest that treats both arms alike: the sum of their utilities plus the width of their contrast.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fastcolst._registry import register
from fastcolst.kernels.pairs import optimistic_pair_of, pair_work_shape
from fastcolst.kernels.selection import tie_key
from fastcolst.policies.linear import LinearPolicy
from fastcolst.policies.parameters import Comparison, Estimator, Exploration, Seed, Widths, pair_fields
from fastcolst.policies.protocol import NOT_FINITE, Choice
from fastcolst.policies.state import assess_by, confidence_scale, explore, factor_of_widths, update_linear

__all__ = ["MaxPairUCB", "MaxPairUCBRule"]


@register
class MaxPairUCBRule(NamedTuple):
    """MaxPairUCB as numbers.

    estimator, model: the registered instances; horizon: T, 0 for anytime; width_scale: c, negative for sqrt(d log T);
    allow_self_duel: whether an arm may meet itself; by_information: whether H's widths stand for M's.
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
        """What the search for the pair needs."""
        return pair_work_shape(n_arms, n_features)

    def select(self, state: Any, contexts: Any, raw: Any, work: Any) -> Choice:
        """The pair of highest optimistic utility. O(n d^2), and the search's cost."""
        if state.counters[()].exploration_end < 0:
            return explore(contexts, raw)
        d, n = contexts.shape
        if not assess_by(
            factor_of_widths(self, state), state.memory.theta, contexts, work[:d], work[d][:n], work[d + 1][:n]
        ):
            return NOT_FINITE
        scale, key = confidence_scale(self, state), tie_key(raw[1])
        first, second = optimistic_pair_of(work, n, scale, self.allow_self_duel, key)
        return Choice(first, second, 0)

    def update(self, state: Any, choice: Choice, contrast: Any, share: float, weight: float) -> int:
        """One comparison more for theta and M."""
        return update_linear(state, self.estimator, self.model, contrast, share, weight)


@register(name="MaxPairUCB")
class MaxPairUCB(LinearPolicy):
    """The pair of highest optimistic utility.

    In rounds of exploration random pairs duel. Then the pair is argmax x_i'theta + x_j'theta + c |x_i - x_j|_{M^-1}
    over i <= j: two good arms whose comparison still tells something.

    Parameters
    ----------
    n_features, n_arms, horizon, comparison, estimator, ridge, exploration_rounds, width_scale
        As in :data:`fastcolst.policies.parameters.LINEAR`.
    allow_self_duel : bool, default True
        Whether an arm may duel with itself. False: the best pair of two different arms, i < j.
    widths, discount, position, count_pending, robust, features, max_pending, rng
        As in :data:`fastcolst.policies.parameters.LINEAR`.

    Raises
    ------
    ValueError
        For an argument outside its range, with its name.

    Notes
    -----
    The pair is exact. It is found by branch and bound after the arms were whitened in O(n d^2), at worst in O(n^2 d);
    see :func:`fastcolst.kernels.pairs.optimistic_pair`. An answer costs O(d^2). Memory: O(n d + d^2), what the
    estimator remembers, and O(d) for each duel that waits for its answer.

    The first arm is the one of lower index. Which of several equal pairs duels, and which of two equal arms is the
    first, is random; see :func:`fastcolst.kernels.selection.tie_key`.

    Threads may share a policy.

    References
    ----------
    Di, Jin, Wu, Zhao, Farnoud, Gu (2024), Variance-aware regret bounds for stochastic contextual dueling bandits, where
    it is a rival. Defaults as for :class:`fastcolst.CoLSTIM`.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> rng = np.random.default_rng(0)
    >>> policy = fc.MaxPairUCB(n_features=3, horizon=1000, rng=1)
    >>> for _ in range(100):
    ...     contexts = rng.normal(size=(5, 3))
    ...     duel = policy.select(contexts)
    ...     policy.update(duel, first_won=2 * duel.contrast[0] + rng.logistic() > 0)
    >>> policy.round, policy.status
    (100, 'interior')
    >>> bool(policy.probability([1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]) > 0.9)
    True
    """

    choice_cost = 3.0
    fills_sets = True

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
        discount: float = 1.0,
        position: bool = False,
        count_pending: bool = False,
        robust: float | None = None,
        features: Any = None,
        max_pending: int | None = None,
        rng: Seed = None,
    ) -> None:
        super().__init__(locals())
        self._start_linear(MaxPairUCBRule(**pair_fields(self._parameters)), ridge, exploration_rounds)
