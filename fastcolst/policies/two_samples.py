"""TwoSamples: posterior sampling, twice: each arm of the duel is the best one for a theta drawn from what is known.

The posterior is Laplace's: normal, with the estimate for its mean and the inverse of the estimator's information H for
its covariance. It is what FGTS.CDB samples from without the term that it adds for optimism, feel-good exploration.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastcolst._checks import answer, number
from fastcolst._compile import fill_normal, fill_uniform, helper
from fastcolst._registry import register
from fastcolst.estimation.protocol import check_information, information_factor
from fastcolst.kernels.linalg import unwhiten
from fastcolst.kernels.selection import all_finite, among_equals, argmax, tie_key
from fastcolst.kernels.splitmix import word
from fastcolst.policies.linear import LinearPolicy
from fastcolst.policies.parameters import Comparison, Estimator, Exploration, Seed, linear_fields, unless_ridge
from fastcolst.policies.protocol import NOT_FINITE, Choice
from fastcolst.policies.state import explore, update_linear

__all__ = ["TwoSamples", "TwoSamplesRule"]


@register
class TwoSamplesRule(NamedTuple):
    """TwoSamples as numbers.

    estimator, model: the registered instances; spread: sqrt(temperature); n_coordinates: of theta, position's among
    them; allow_self_duel: whether both samples may name one arm.
    """

    estimator: Any
    model: Any
    spread: float
    n_coordinates: int
    allow_self_duel: bool

    def n_raw(self, n_arms: int) -> int:
        """Two uniforms, for the pair of an exploration round, of which the second breaks ties; two samples' normals."""
        return 2 + 2 * self.n_coordinates

    def work_shape(self, n_arms: int, n_features: int) -> tuple[int, int]:
        """For each sample a row of utilities, and one for the sample itself."""
        return 4, max(n_arms, n_features)

    def draw(self, rng: Any, raw: Any) -> None:
        """Draw one round's numbers."""
        fill_uniform(rng, raw[:2])
        fill_normal(rng, raw[2:])

    def select(self, state: Any, contexts: Any, raw: Any, work: Any) -> Choice:
        """The best arm of each of two samples. O(d^2 + n d)."""
        if state.counters[()].exploration_end < 0:
            return explore(contexts, raw)
        d, n = contexts.shape
        factor = information_factor(self.estimator, state.memory, state.factor)
        values, others, one, other = work[0][:n], work[1][:n], work[2][:d], work[3][:d]
        posterior_sample(state.memory.theta, factor, self.spread, raw[2 : 2 + d], one)
        posterior_sample(state.memory.theta, factor, self.spread, raw[2 + d :], other)
        both_utilities((one, other), contexts, values, others)
        if not (all_finite(values) and all_finite(others)):
            return NOT_FINITE
        key = tie_key(raw[1])
        first = among_equals(values, argmax(values), key)
        if not self.allow_self_duel:
            others[first] = -np.inf
        return Choice(first, among_equals(others, argmax(others), word(key)), 0)

    def update(self, state: Any, choice: Choice, contrast: Any, share: float, weight: float) -> int:
        """One comparison more for theta, H and M."""
        return update_linear(state, self.estimator, self.model, contrast, share, weight)


@helper
def posterior_sample(theta: Any, factor: Any, spread: float, normals: Any, out: Any) -> None:
    """A draw from N(theta, spread^2 H^-1), theta + spread S'g with S'S = H^-1 and g standard normal. d^2/2.

    Parameters
    ----------
    theta, normals : (d,) float64
        The mean, and g.
    factor : (d, d) float64, lower triangular
        S.
    spread : float
    out : (d,) float64
        Overwritten.
    """
    unwhiten(factor, normals, out)
    for k in range(out.size):
        out[k] = theta[k] + spread * out[k]


@helper
def both_utilities(samples: Any, contexts: Any, values: Any, others: Any) -> None:
    """Utilities of all arms by two thetas, values = X'theta_1 and others = X'theta_2, in one walk over X. O(n d).

    ``samples`` are both (d,) float64, ``contexts`` (d, n); ``values`` and ``others`` (n,) float64 are overwritten.
    """
    one, other = samples
    d, n = contexts.shape
    for j in range(n):
        values[j] = one[0] * contexts[0, j]
        others[j] = other[0] * contexts[0, j]
    for k in range(1, d):
        a, b = one[k], other[k]
        for j in range(n):
            values[j] += a * contexts[k, j]
            others[j] += b * contexts[k, j]


@register(name="TwoSamples")
class TwoSamples(LinearPolicy):
    """Posterior sampling: each arm is the best one by a theta of its own that what is known leaves possible.

    The duel is argmax x_i'theta_1 against argmax x_j'theta_2, with theta_1 and theta_2 drawn independently from
    N(theta, temperature H^-1), where H = ridge I + sum w I(z'theta) z z' is the information of what was learned, and
    I = F'^2/(F(1 - F)) that of one answer. There is no scale of widths to set, and no arm is whitened: of many
    features a choice costs less than that of a rule with widths.

    Parameters
    ----------
    n_features, n_arms, comparison
        As in :data:`fastcolst.policies.parameters.LINEAR`.
    estimator : str or estimator, default "mle"
        How theta and H are estimated: "mle" or "online-newton". :class:`fastcolst.SGD` knows no H.
    ridge
        As in :data:`fastcolst.policies.parameters.INFORMED`.
    temperature : float, default 1.0
        Positive; by which the posterior's covariance is multiplied. 1 is the posterior itself.
    exploration_rounds
        As in :data:`fastcolst.policies.parameters.INFORMED`.
    allow_self_duel : bool, default True
        Whether both samples may name one arm, which then duels with itself. False: the second arm is the best of the
        others.
    discount, position, count_pending, robust, features, max_pending
        As in :data:`fastcolst.policies.parameters.LINEAR`.
    rng : int, SeedSequence, Generator or None
        Source of the samples; see :func:`fastcolst.streams.entropy_of`.

    Raises
    ------
    ValueError
        For an argument outside its range, with its name, and for an estimator that knows no information.

    Notes
    -----
    A round takes 2 n_features normal numbers. A choice costs O(d^2 + n d), an answer O(d^2). Memory: O(n d + d^2), what
    the estimator remembers, and O(d) for each duel that waits for its answer. Threads may share a policy.

    Which of several equal arms is shown is random; see :func:`fastcolst.kernels.selection.tie_key`.

    The feel-good term of FGTS.CDB, which favours a theta by which the other arm's best rival is strong, is left out:
    the posterior is then normal, and a sample costs one triangular product instead of a walk of Langevin's.

    References
    ----------
    Li, Zhao, Gu (2024), Feel-Good Thompson Sampling for Contextual Dueling Bandits (FGTS.CDB).

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> rng = np.random.default_rng(0)
    >>> policy = fc.TwoSamples(n_features=3, rng=1)
    >>> for _ in range(200):
    ...     contexts = rng.normal(size=(5, 3))
    ...     duel = policy.select(contexts)
    ...     policy.update(duel, first_won=2 * duel.contrast[0] + rng.logistic() > 0)
    >>> policy.round, policy.status
    (200, 'interior')
    >>> bool(policy.probability([1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]) > 0.9)
    True
    """

    choice_cost = 0.5
    needs_information = True
    chooses = "the best arms by two samples of theta"

    def __init__(
        self,
        n_features: int,
        *,
        n_arms: int | None = None,
        comparison: Comparison = "bradley-terry",
        estimator: Estimator = "mle",
        ridge: float = 1.0,
        temperature: float = 1.0,
        exploration_rounds: Exploration = None,
        allow_self_duel: bool = True,
        discount: float = 1.0,
        position: bool = False,
        count_pending: bool = False,
        robust: float | None = None,
        features: Any = None,
        max_pending: int | None = None,
        rng: Seed = None,
    ) -> None:
        super().__init__(locals())
        fields = linear_fields(self._parameters)
        check_information(fields["estimator"], type(self).__name__)
        rule = TwoSamplesRule(
            fields["estimator"],
            fields["model"],
            number("temperature", temperature, positive=True) ** 0.5,
            (self._n_features or 0) + answer(position, "position"),
            answer(allow_self_duel, "allow_self_duel"),
        )
        self._start_linear(rule, ridge, unless_ridge(exploration_rounds, ridge))

    def _look_at_choice(self, contexts: Any, code: int, agent: Any) -> None:
        """Self-duels are as frequent as what is known makes them, and no favourite stays that it leaves in doubt."""
