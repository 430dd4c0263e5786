"""CoLSTIM: imitate the answers with perturbed utilities, then duel with the toughest rival.

Bengs, Saha, Huellermeier (2022), Stochastic Contextual Dueling Bandits under Linear Stochastic Transitivity Models,
Algorithm 1. Line numbers below are that algorithm's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fastcolst._checks import brief, count, number, plain_text, whole_number
from fastcolst._compile import fill_uniform, helper
from fastcolst._registry import register
from fastcolst.comparison import comparison_model, fill_raw, pdf, perturb
from fastcolst.estimation.prediction import FEW_FEATURES
from fastcolst.kernels.selection import among_equals, optimistic_argmax, perturbed_argmax, tie_key
from fastcolst.kernels.splitmix import word
from fastcolst.policies.linear import LinearPolicy
from fastcolst.policies.parameters import Comparison, Coupling, Estimator, Exploration, Seed, Widths, pair_fields
from fastcolst.policies.protocol import NOT_FINITE, Choice
from fastcolst.policies.state import assess_by, confidence_scale, explore, factor_of_widths, horizon_of, update_linear

__all__ = ["CoLSTIM", "CoLSTIMRule"]

# How p_t is found.
EXPERIMENTS = 0
THEOREM = 1
CONSTANT = 2


@register
class CoLSTIMRule(NamedTuple):
    """Algorithm 1 as numbers.

    perturbation, estimator, model: the registered instances; horizon: T, 0 for anytime; width_scale: c1, negative for
    sqrt(d log T); clip: C_thresh, negative for c1; coupling: how p_t is found (0 experiments, 1 theorem, 2 constant);
    coupling_value: the constant; allow_self_duel: whether the first arm may be its own rival; by_information: whether
    H's widths stand for M's.
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

    def n_raw(self, n_arms: int) -> int:
        """Two uniforms (the pair's, or the coin's and the tie-breaker), then one variate for each arm."""
        return 2 + n_arms

    def work_shape(self, n_arms: int, n_features: int) -> tuple[int, int]:
        """Whitened arms, utilities, squared widths, noise: one column for each arm."""
        return n_features + 3, n_arms

    def draw(self, rng: Any, raw: Any) -> None:
        """Draw one round's numbers."""
        fill_uniform(rng, raw[:2])
        fill_raw(self.perturbation, rng, raw[2:])

    def select(self, state: Any, contexts: Any, raw: Any, work: Any) -> Choice:
        """Lines 2 and 5 to 15. O(n d^2)."""
        d = contexts.shape[0]
        if state.counters[()].exploration_end < 0:
            return explore(contexts, raw)  # line 2

        whitened, utility, square, noise = work[:d], work[d], work[d + 1], work[d + 2]
        if not assess_by(factor_of_widths(self, state), state.memory.theta, contexts, whitened, utility, square):
            return NOT_FINITE

        scale = confidence_scale(self, state)
        clip = self.clip if self.clip >= 0.0 else scale
        unclipped_noise(self, state, raw, scale, noise)  # lines 7 to 12
        key = tie_key(raw[1])
        first = among_equals(noise, perturbed_argmax(utility, square, noise, clip, noise), key)  # line 13 clips
        second = optimistic_argmax(utility, whitened, first, scale, self.allow_self_duel, noise)  # line 15
        return Choice(first, among_equals(noise, second, word(key)), 0)

    def update(self, state: Any, choice: Choice, contrast: Any, share: float, weight: float) -> int:
        """Lines 6 and 17."""
        return update_linear(state, self.estimator, self.model, contrast, share, weight)


@helper
def unclipped_noise(rule: Any, state: Any, raw: Any, scale: float, out: Any) -> None:
    """Noise of every arm, not yet clipped: a variate of its own with probability p_t, otherwise one for all. O(n).

    ``raw`` and ``scale`` are the round's numbers and its c1; ``out`` (n,) float64 is overwritten.
    """
    if arms_differ(rule, state, raw, scale):
        for i in range(out.size):
            out[i] = perturb(rule.perturbation, raw[2 + i])
    else:
        shared = perturb(rule.perturbation, raw[2])
        for i in range(out.size):
            out[i] = shared


@helper
def arms_differ(rule: Any, state: Any, raw: Any, scale: float) -> bool:
    """Whether arms have noise of their own, B_t = 1 in lines 7 to 9, or one draw for all, B_t = 0 in lines 10 to 12."""
    counters = state.counters[()]
    since = counters.chosen + 1 - counters.exploration_end
    return bool(raw[0] < _coupling_probability(rule, state.gram.shape[0], since, horizon_of(rule, state), scale))


@helper
def _coupling_probability(rule: Any, d: int, since: int, T: float, scale: float) -> float:
    """p_t, ``since`` = t - tau rounds after the exploration: section 4's, Theorem 3.2's with c2 = c1, or a constant.

    Numbers above 1 stand for 1.
    """
    if rule.coupling == CONSTANT:
        return float(rule.coupling_value)
    if rule.coupling == EXPERIMENTS:
        return d / np.sqrt(since) * np.log(d * T)
    # where 2 T < d the logarithm is negative and the theorem says nothing
    return np.sqrt(2.0 * d) / (2.0 * np.sqrt(since)) * 4.0 * scale * np.sqrt(max(np.log(2.0 * T / d), 0.0))


@register(name="CoLSTIM")
class CoLSTIM(LinearPolicy):
    """Contextual linear stochastic transitivity imitator (Algorithm 1).

    In tau rounds of exploration random pairs duel. Then the first arm maximises the utility that the estimate gives it
    plus clipped noise times its width, u_i + min(C, max(-C, eps_i)) |x_i|_{M^-1}, and the second is its toughest rival,
    argmax u_j - u_first + c1 |x_j - x_first|_{M^-1}.

    Parameters
    ----------
    n_features, n_arms, horizon, comparison
        As in :data:`fastcolst.policies.parameters.LINEAR`.
    perturbation
        As in :data:`fastcolst.policies.parameters.PERTURBED`.
    estimator, ridge, exploration_rounds, width_scale
        As in :data:`fastcolst.policies.parameters.LINEAR`.
    clip
        As in :data:`fastcolst.policies.parameters.PERTURBED`.
    coupling : float or "theorem", optional
        Probability p_t that every arm gets noise of its own rather than one shared draw. None: the experiments' min(1,
        d/sqrt(t - tau) log(d T)); a number in [0, 1]: that; "theorem": Theorem 3.2's with c2 = c1.
    allow_self_duel
        As in :data:`fastcolst.policies.parameters.PERTURBED`.
    widths, discount, position, count_pending, robust, features
        As in :data:`fastcolst.policies.parameters.LINEAR`.
    max_pending, rng
        As in :data:`fastcolst.policies.parameters.PERTURBED`.

    Raises
    ------
    ValueError
        For an argument outside its range, with its name.

    Notes
    -----
    Which of several equal arms is shown is random; see :func:`fastcolst.kernels.selection.tie_key`.

    A choice costs O(n d^2), an answer O(d^2). Memory: O(n d + d^2), what the estimator remembers, and O(d)
    for each duel that waits for its answer. Threads may share a policy.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 1; the defaults are those of section 4.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> rng = np.random.default_rng(0)
    >>> policy = fc.CoLSTIM(n_features=3, horizon=1000, rng=1)
    >>> for _ in range(100):
    ...     contexts = rng.normal(size=(5, 3))
    ...     duel = policy.select(contexts)
    ...     policy.update(duel, first_won=2 * duel.contrast[0] + rng.logistic() > 0)
    >>> policy.round, policy.status
    (100, 'interior')
    >>> bool(policy.probability([1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]) > 0.9)
    True
    """

    fills_sets = True

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
        discount: float = 1.0,
        position: bool = False,
        count_pending: bool = False,
        robust: float | None = None,
        features: Any = None,
        max_pending: int | None = None,
        rng: Seed = None,
    ) -> None:
        super().__init__(locals())
        self._start_linear(CoLSTIMRule(**perturbed_fields(self._parameters)), ridge, exploration_rounds)

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
    ) -> CoLSTIM:
        """CoLSTIM with the constants for which Theorem 3.2 bounds the regret.

        ``mu`` = min f(u) over |u| <= 2 (theta_norm + 1); ``width_scale`` c1 = sqrt(d log(T/d) + 2 log T)/(2 mu);
        ``exploration_rounds`` tau = d + max(d^2 log T/(mu^2 rho), d/rho), rounded up; ``coupling`` "theorem", where
        c2 = c1; ``clip`` C_thresh the largest number below c2, as near to the experiments as the theorem allows.

        Parameters
        ----------
        n_features, n_arms, horizon, comparison
            As for the class. ``horizon`` at least ``n_features``, so that log(T/d) is not negative.
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
        Bengs, Saha, Huellermeier (2022), Theorem 3.2 and assumptions (A1), (A2).

        Examples
        --------
        >>> import fastcolst as fc
        >>> policy = fc.CoLSTIM.from_theorem(2, n_arms=5, horizon=10**6, rho=0.5)
        >>> policy.get_params()["exploration_rounds"] > 10_000
        True
        """
        d, T, mu, tau = theorem_constants(n_features, horizon, comparison, rho, theta_norm)
        c1 = math.sqrt(d * math.log(T / d) + 2.0 * math.log(T)) / (2.0 * mu)
        constants = {
            "exploration_rounds": tau,
            "width_scale": c1,
            "clip": math.nextafter(c1, 0.0),
            "coupling": "theorem",
        }
        return cls(n_features, n_arms=n_arms, horizon=T, comparison=comparison, **{**constants, **parameters})

    @classmethod
    def for_service(cls, n_features: int, **parameters: Any) -> CoLSTIM:
        """CoLSTIM with what is safe where people are asked.

        - ``allow_self_duel=False``: a self-duel teaches nothing.
        - ``ridge=1.0``, on M and on theta: a few answers that agree do not put theta far out.
        - ``width_scale=5.0``, what the experiments' sqrt(d log T) is with 3 features, in place of 59 with 384. Much
          less would not do: with 2 a wrong favourite stayed in one of 30 runs of fixed arms.
        - ``exploration_rounds="auto"``, no longer than it takes to condition M, with up to 48 features. With more, 0:
          the ridge conditions M, and 2 d random pairs would take hundreds of answers.

        Parameters
        ----------
        n_features : int
        **parameters
            Further arguments of the class, which come before these. Features are best brought to a size of about 1.

        Examples
        --------
        >>> import numpy as np, fastcolst as fc
        >>> policy = fc.CoLSTIM.for_service(3, rng=1)
        >>> policy.get_params()["allow_self_duel"], policy.get_params()["exploration_rounds"]
        (False, 'auto')
        >>> policy.select(np.eye(4, 3)).is_self
        False
        """
        has_many = (whole_number(n_features) or 0) > FEW_FEATURES
        safe = {
            "ridge": 1.0,
            "exploration_rounds": 0 if has_many else "auto",
            "width_scale": 5.0,
            "allow_self_duel": False,
        }
        return cls(n_features, **{**safe, **parameters})


def theorem_constants(
    n_features: int, horizon: int, comparison: Comparison, rho: float, theta_norm: float
) -> tuple[int, int, float, int]:
    """d, T, mu and tau of Theorem 3.2, with a warning when tau >= T; see :meth:`CoLSTIM.from_theorem`."""
    d, T = count("n_features", n_features), count("horizon", horizon)
    if T < d:
        raise ValueError(f"horizon is {T}; the theorem needs at least n_features = {d}")
    rho, theta_norm = number("rho", rho, positive=True), number("theta_norm", theta_norm)
    model = comparison_model(comparison)
    with np.errstate(all="ignore"):  # far out the density is 0, or nan where the margins overflow
        margins = np.linspace(0.0, 2.0 * (theta_norm + 1.0), 1001)
        mu = min(float(pdf(model, u)) for u in margins)
    if not mu > 0.0:
        raise ValueError(
            f"theta_norm is {theta_norm}; the density of {model!r} vanishes within its margins: less is wanted"
        )
    if not mu * mu * rho > d * d * math.log(T + 1.0) * 2.0**-62:
        raise ValueError(
            f"rho is {rho} and theta_norm {theta_norm}: the theorem's exploration is longer than any horizon; "
            "a larger rho or a smaller theta_norm is wanted"
        )
    tau = math.ceil(d + max(d * d * math.log(T) / (mu * mu * rho), d / rho))
    if tau >= T:
        warnings.warn(
            f"the theorem's exploration takes {tau} rounds and the horizon is {T}: the policy will only explore",
            UserWarning,
            stacklevel=3,
        )
    return d, T, mu, tau


def perturbed_fields(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the rules with perturbations, from a constructor's arguments.

    Raises
    ------
    ValueError
        For a bad argument.
    """
    fields = pair_fields(parameters)
    perturbation, clip = parameters["perturbation"], parameters["clip"]
    kind, value = coupling_code(parameters["coupling"])
    return {
        **fields,
        "perturbation": fields["model"] if perturbation is None else comparison_model(perturbation, "perturbation"),
        "clip": -1.0 if clip is None else number("clip", clip, infinite=True),
        "coupling": kind,
        "coupling_value": value,
    }


def coupling_code(value: Any) -> tuple[int, float]:
    """How p_t is found, and the constant."""
    if value is None:
        return EXPERIMENTS, 0.0
    if isinstance(value, str):
        if plain_text(value) == "theorem":
            return THEOREM, 0.0
        raise ValueError(f"coupling is {brief(value)}; wanted None, 'theorem' or a number in [0, 1]")
    probability = number("coupling", value)
    if probability > 1.0:
        raise ValueError(f"coupling is {brief(value)}; wanted None, 'theorem' or a number in [0, 1]")
    return CONSTANT, probability
