"""What policies know: counters, a Gram matrix and its factor, an estimator's memory; and how one comparison changes it.

What happens in every round of a linear policy stands here as well: the random pair of the exploration, the arms'
utilities and widths, the constants of the round, the end of the exploration.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import helper, plain, register
from fastcolst.estimation.protocol import (
    LEARNED,
    OVERFLOW,
    grown,
    information_factor,
    is_stale,
    learn,
    new_memory,
    refresh,
    weigh,
)
from fastcolst.kernels.linalg import (
    inverse_factor,
    rank_one_inverse,
    squared_widths,
    utilities,
    whiten,
)
from fastcolst.kernels.selection import all_finite, all_rows_finite, argmax, random_pair
from fastcolst.policies.protocol import NOT_FINITE, Choice

__all__ = [
    "COUNTERS",
    "BlindState",
    "LinearState",
    "assess",
    "assess_by",
    "confidence_scale",
    "end_exploration",
    "exploration_end_is_due",
    "explore",
    "factor_of_widths",
    "horizon_of",
    "linear_state",
    "new_counters",
    "update_linear",
]

COUNTERS = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("chosen", np.int64),
                ("answered", np.int64),
                ("logged", np.int64),
                ("exploration_rounds", np.int64),
                ("enough", np.int64),
                ("known", np.int64),
                ("exploration_end", np.int64),
                ("factored", np.int64),
                ("untested", np.int64),
                ("position", np.int64),
                ("faded", np.int64),
            ],
            align=True,
        ),
    )
)
"""The record that every state counts in.

chosen: rounds in which arms were chosen. answered: answers learned. logged: comparisons learned from logs, which count
towards the exploration. exploration_rounds: tau. enough: how many comparisons in a row of a difference that M knew
before end the exploration sooner, 0 for none (see :func:`exploration_end_is_due`); known: how many there were of late.
exploration_end: rounds chosen when the exploration ended; -1 before.
factored: 1 when the Gram matrix is invertible and ``factor`` holds. untested: 1 when the Gram matrix changed since it
was last tested for that. position: 1 where the last coordinate is that of the arm shown first, 0 in contexts and 1 in
contrasts. faded: how many comparisons were learned when all of them last came to count less, where they do;
self-duels since then are taken off, for which what was learned is older.
"""


def new_counters() -> NDArray[Any]:
    """Counters, a 0-d array of one record, of a policy that has seen nothing and is not exploring."""
    return np.zeros((), COUNTERS)


@register
class LinearState(NamedTuple):
    """What a policy with a linear model knows.

    counters, see :data:`COUNTERS`; gram (d, d) float64, M with its ridge; factor (d, d) float64, the lower triangular S
    with S'S = M^-1 once M is invertible; memory, the estimator's arrays; scratch (2, d) float64, whose content means
    nothing between calls.
    """

    counters: NDArray[Any]
    gram: NDArray[np.float64]
    factor: NDArray[np.float64]
    memory: Any
    scratch: NDArray[np.float64]

    @classmethod
    def shared(cls) -> tuple[str, ...]:
        """Fields that several stacked states have in common."""
        return "counters", "scratch"

    def with_room(self, rule: Any, n: int) -> LinearState:
        """The state with room for n more comparisons; itself, where there is room."""
        memory = grown(rule.estimator, self.memory, n)
        return self if memory is self.memory else self._replace(memory=memory)

    def estimate_is_stale(self, rule: Any, wanted: bool) -> bool:
        """Whether theta is out of date."""
        return is_stale(rule.estimator, self.memory, wanted)

    def refresh_estimate(self, rule: Any) -> None:
        """Bring theta up to date."""
        refresh(rule.estimator, rule.model, self.memory)

    def greedy_arm(self, contexts: Any, work: Any) -> int:
        """The arm of highest utility by theta."""
        utilities(self.memory.theta, contexts, work)
        return argmax(work)


@register
class BlindState(NamedTuple):
    """What a policy without an estimate knows: how many rounds there were."""

    counters: NDArray[Any]

    @classmethod
    def new(cls) -> BlindState:
        """Of a policy that has seen nothing."""
        return cls(new_counters())


def linear_state(estimator: Any, n_features: int, ridge: float, exploration_rounds: int, enough: int) -> LinearState:
    """The state of a policy that has seen nothing: M = ridge I, which is invertible at once when ridge > 0.

    ``exploration_rounds`` and ``enough`` as in :data:`COUNTERS`.
    """
    counters = new_counters()
    counters["exploration_rounds"], counters["enough"] = exploration_rounds, enough
    counters["exploration_end"] = -1
    counters["factored"] = ridge > 0.0
    identity = np.eye(n_features)
    factor = identity / np.sqrt(ridge) if ridge > 0.0 else np.zeros_like(identity)
    return LinearState(counters, ridge * identity, factor, new_memory(estimator, n_features), np.zeros((2, n_features)))


# --- a choice -----------------------------------------------------------------------------------------------


@helper
def explore(contexts: Any, raw: Any) -> Choice:
    """The random pair of an exploration round, from two uniforms.

    O(n d), for the check that contexts are finite: in these rounds nothing is computed in which it would show.
    """
    if not all_rows_finite(contexts):
        return NOT_FINITE
    first, second = random_pair(raw[0], raw[1], contexts.shape[1])
    return Choice(first, second, 0)


@helper
def assess(state: Any, contexts: Any, whitened: Any, utility: Any, square: Any) -> bool:
    """Whitened arms (d, n), their utilities (n,) and squared widths (n,); False when one of these is not finite.

    O(n d^2). The check is free of a look at the contexts: what is not finite there is not finite here.
    """
    return assess_by(state.factor, state.memory.theta, contexts, whitened, utility, square)


@helper
def factor_of_widths(rule: Any, state: Any) -> Any:
    """S, by which widths are measured: that of M^-1, or of H^-1 where the rule's ``by_information`` says so."""
    return information_factor(rule.estimator, state.memory, state.factor) if rule.by_information else state.factor


@helper
def assess_by(factor: Any, theta: Any, contexts: Any, whitened: Any, utility: Any, square: Any) -> bool:
    """As :func:`assess`, by a factor S and a theta that need not be the state's."""
    whiten(factor, contexts, whitened)
    utilities(theta, contexts, utility)
    squared_widths(whitened, square)
    return bool(all_finite(utility) and all_finite(square))


@helper
def horizon_of(rule: Any, state: Any) -> float:
    """T, for which the constants of the round to come are set: the rule's ``horizon``, or for 0 that round."""
    return float(rule.horizon if rule.horizon > 0 else state.counters[()].chosen + 1)


@helper
def confidence_scale(rule: Any, state: Any) -> float:
    """Width scale of the round to come: the rule's ``width_scale``, or for a negative one sqrt(d log T)."""
    if rule.width_scale >= 0.0:
        return float(rule.width_scale)
    return float(np.sqrt(state.gram.shape[0] * np.log(horizon_of(rule, state))))


# --- an answer ----------------------------------------------------------------------------------------------


@helper
def update_linear(state: Any, estimator: Any, model: Any, contrast: Any, share: float, weight: float) -> int:
    """Learn one comparison: theta, the Gram matrix and its factor. Returns a code of :func:`learn`.

    O(d^2) besides the estimator's cost. z = 0 changes nothing.
    """
    d = contrast.size
    counters, gram, factor = state.counters[()], state.gram, state.factor
    whitened, weighted = state.scratch[0], state.scratch[1]
    factored = counters.factored == 1
    leverage = np.inf  # w z' M^-1 z
    if factored:
        weight, leverage = weigh(estimator, factor, contrast, weight, state.scratch)
    else:
        root = np.sqrt(weight)
        for k in range(d):
            weighted[k] = root * contrast[k]
    trace, n_other = 0.0, 0  # of M with this comparison: no entry of M is larger
    for k in range(d):
        trace += gram[k, k] + weighted[k] * weighted[k]
        n_other += contrast[k] != 0.0  # the square of a tiny difference is 0 too
    if n_other == 0:
        return LEARNED
    if not trace < np.inf or (factored and not leverage < np.inf):
        return OVERFLOW
    code = learn(estimator, model, state.memory, contrast, share, weight)
    if code != LEARNED:
        return code
    for i in range(d):
        value = weighted[i]
        for j in range(d):
            gram[i, j] += value * weighted[j]
    if factored:
        rank_one_inverse(factor, whitened, weighted)  # which is scratch from here on
        counters.known = counters.known + 1 if leverage <= weight else 0
    else:
        counters.untested = 1
    return LEARNED


# --- the end of the exploration -----------------------------------------------------------------------------


@helper
def exploration_end_is_due(counters: Any) -> bool:
    """True when the exploration goes on only until somebody calls :func:`end_exploration`. ``counters`` is a record.

    It ends after tau rounds and comparisons from logs, or, with ``exploration_rounds="auto"``, as soon as M is well
    conditioned for every direction that is shown: when d comparisons in a row had z' M^-1 z <= 1, with M from before
    each of them. M then knew their differences at least as well as one comparison of just these two arms would have
    told them. The rule does not depend on the features' units, and asks nothing about directions that no pair has.

    M must be invertible for that, and to say how well it is conditioned: :func:`end_exploration` is called to factor it
    too.

    Notes
    -----
    O(1): an answer computes z' M^-1 z anyway.
    """
    if counters.exploration_end >= 0:
        return False
    seen = counters.chosen + counters.logged
    looks = counters.enough > 0
    is_due = seen >= counters.exploration_rounds or (looks and counters.known >= counters.enough)
    if counters.factored == 0:
        is_due = counters.untested == 1 and (is_due or (looks and seen >= counters.enough))
    return bool(is_due)


def end_exploration(state: Any) -> bool:
    """End the exploration if its end is due and M is invertible: factor M.

    Returns
    -------
    bool
        True when M was tested, even if the exploration goes on, since M is singular or not yet well conditioned; False
        when the end was not due and nothing was done.

    Notes
    -----
    O(d^3) when M is tested; as long as M stays singular, that is once for each comparison.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 1, lines 2 and 3.
    """
    counters = state.counters
    if counters["exploration_end"] >= 0 or not plain(exploration_end_is_due)(counters[()]):
        return False
    counters["untested"] = 0
    if not counters["factored"]:
        factor = inverse_factor(state.gram)
        if factor is None:
            return True
        state.factor[:] = factor
        counters["factored"] = 1
    if plain(exploration_end_is_due)(counters[()]):
        counters["exploration_end"] = counters["chosen"]
    return True
