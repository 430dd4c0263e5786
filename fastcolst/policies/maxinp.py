"""MaxInP: of the arms that may still be the best, duel with the two whose comparison tells most.

Saha (2021), Optimal algorithms for stochastic contextual preference bandits, algorithm Maximum-Informative-Pair.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastcolst._compile import helper
from fastcolst._registry import register
from fastcolst.kernels.linalg import gram_norm
from fastcolst.kernels.pairs import informative_pair, pair_work_shape
from fastcolst.kernels.selection import among_equals, optimistic_argmax, tie_key
from fastcolst.policies.linear import LinearPolicy
from fastcolst.policies.parameters import Comparison, Estimator, Exploration, Seed, Widths, pair_fields
from fastcolst.policies.protocol import NOT_FINITE, Choice
from fastcolst.policies.state import assess_by, confidence_scale, explore, factor_of_widths, update_linear

__all__ = ["MaxInP", "MaxInPRule"]


@register
class MaxInPRule(NamedTuple):
    """MaxInP as numbers.

    estimator, model: the registered instances; horizon: T, 0 for anytime; width_scale: eta, negative for sqrt(d log T);
    allow_self_duel: whether a single candidate duels with itself; by_information: whether H's widths stand for M's.
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
        """The farthest pair of candidates. O(n d^2), and the search's cost."""
        if state.counters[()].exploration_end < 0:
            return explore(contexts, raw)
        d, n = contexts.shape
        if not assess_by(
            factor_of_widths(self, state), state.memory.theta, contexts, work[:d], work[d][:n], work[d + 1][:n]
        ):
            return NOT_FINITE
        eta = confidence_scale(self, state)
        # of H there is no more than its inverse's factor
        theta_norm = np.inf if self.by_information else gram_norm(state.gram, state.memory.theta)
        first, second = informative_pair(work, n, theta_norm, eta, tie_key(raw[1]))
        if first == second and not self.allow_self_duel:
            factor = factor_of_widths(self, state)
            rival = toughest_rival((factor, state.memory.theta), contexts, first, eta, work, tie_key(raw[1]))
            first, second = min(first, rival), max(first, rival)
        return Choice(first, second, 0)

    def update(self, state: Any, choice: Choice, contrast: Any, share: float, weight: float) -> int:
        """One comparison more for theta and M."""
        return update_linear(state, self.estimator, self.model, contrast, share, weight)


@helper
def toughest_rival(known: tuple[Any, Any], contexts: Any, arm: int, eta: float, work: Any, key: Any) -> int:
    """The other arm that one beats with least certainty, argmax u_j - u_i + eta |x_j - x_i|; where it is alone, itself.

    ``known`` are the factor of the widths, and theta. The scratch ``work``, of :func:`pair_work_shape`, is overwritten:
    the search for the pair has used what was there. O(n d^2).
    """
    d, n = contexts.shape
    whitened, utility, values = work[:d], work[d], work[d + 1]
    assess_by(known[0], known[1], contexts, whitened, utility[:n], values[:n])
    for j in range(n, utility.size):  # no arms: they never win
        utility[j] = -np.inf
        for k in range(d):
            whitened[k, j] = 0.0
    best = optimistic_argmax(utility, whitened, arm, eta, False, values)
    return among_equals(values[:n], best, key)


@register(name="MaxInP")
class MaxInP(LinearPolicy):
    """Maximum-Informative-Pair.

    In t_0 rounds of exploration random pairs duel. Then an arm is a candidate unless another one is better beyond
    doubt: C_t = {i : (x_i - x_j)'theta + eta |x_i - x_j|_{M^-1} > 0 for all x_j != x_i}. Of the candidates those two
    duel that are farthest apart, argmax |x_i - x_j|_{M^-1}; their answer tells most about theta.

    Parameters
    ----------
    n_features, n_arms, horizon, comparison, estimator, ridge, exploration_rounds, width_scale
        As in :data:`fastcolst.policies.parameters.LINEAR`.
    allow_self_duel : bool, default True
        Whether a single candidate duels with itself. False: with its toughest rival, the arm of the largest
        (x_j - x_i)'theta + eta |x_j - x_i|_{M^-1}.
    widths, discount, position, count_pending, robust, features, max_pending, rng
        As in :data:`fastcolst.policies.parameters.LINEAR`.

    Raises
    ------
    ValueError
        For an argument outside its range, with its name.

    Notes
    -----
    The pair is exact. In low dimension it costs O(n d) after the arms were whitened in O(n d^2), at worst O(n^2 d); see
    :func:`fastcolst.kernels.pairs.informative_pair`. An answer costs O(d^2). Memory: O(n d + d^2), what the
    estimator remembers, and O(d) for each duel that waits for its answer.

    The first arm is the one of lower index. Which of several equal pairs duels, and which of two equal arms is the
    first, is random; see :func:`fastcolst.kernels.selection.tie_key`. Different arms of equal utility leave each
    other in the running, also with ``width_scale=0``, where the formula would strike out both. SGD at a constant rate
    lets theta grow past the true parameter, which soon leaves one or two candidates; ``SGD(radius=1)`` does not.

    Threads may share a policy.

    References
    ----------
    Saha (2021), Optimal algorithms for stochastic contextual preference bandits. The defaults are those of Bengs, Saha,
    Huellermeier (2022), section 4.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> rng = np.random.default_rng(0)
    >>> policy = fc.MaxInP(n_features=3, horizon=1000, rng=1)
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
    chooses = "the two candidates that are farthest apart"

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
        self._start_linear(MaxInPRule(**pair_fields(self._parameters)), ridge, exploration_rounds)
