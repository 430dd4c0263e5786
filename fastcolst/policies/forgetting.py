"""Tastes that drift: answers count the less the older they are.

Counted in answers and self-duels, an answer of time s should at time t have gamma^(t - s) of its weight, gamma the
``discount``. Ages are counted in blocks of B: at the end of each all that was learned before fades by g = gamma^B,

    theta   minimises  sum g^a w psi(z~'theta) + ridge/2 |theta|^2,   a the ends of blocks since the answer,
    M       = ridge I + sum g^a w z z',

with B a twentieth of 1/(1 - gamma), the number of answers that count: weights are off by about 5 % with discounts
from 0.95 on. Blocks, because each fading costs a new theta. The ridge does not fade: widths of what nobody asks about
any more grow towards those of the prior, and not beyond.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import brief, looked_at, real_number
from fastcolst.estimation.fading import faded_factor
from fastcolst.estimation.protocol import can_fade, faded, n_kept
from fastcolst.estimation.words import name_of
from fastcolst.kernels.linalg import inverse_factor
from fastcolst.policies.learned import Learned
from fastcolst.policies.simulated import Simulated

__all__ = ["Fading", "Forgetting", "fading_of"]

BLOCKS = 20
"""So many blocks hold the number of answers that count."""


NOTHING = 1e-200
"""What is left in M, without a ridge, of a feature in which no pair differed for hundreds of 1/(1 - gamma) answers.
With less widths would overflow, and it counts as one that nobody ever asked about."""
LEAST = 0.5
"""Of a discount: with less not even two answers count."""


class Fading(NamedTuple):
    """How a policy forgets.

    block: B, answers after which all that was learned fades. discount: gamma. effective: the
    sum of all weights gamma^(t - s), 1/(1 - gamma), of how many answers counts what a long stream has taught.
    """

    block: int
    discount: float
    effective: float


def fading_of(discount: Any, estimator: Any) -> Fading | None:
    """How a policy with a ``discount`` and an estimator forgets; None where it does not.

    Raises
    ------
    ValueError
        The discount is no number from 1/2 to 1, or the estimator cannot forget.
    """
    gamma = looked_at(real_number, discount, math.nan)
    if not LEAST <= gamma <= 1.0:
        raise ValueError(f"discount is {brief(discount)}; a number from {LEAST} to 1 is wanted")
    if gamma == 1.0:
        return None
    if not can_fade(estimator):
        raise ValueError(
            f"discount is {brief(discount)} and estimator {name_of(estimator)}, which cannot forget at a rate that it "
            "is told: 'mle', 'online-newton', or one of your own with faded(memory, share, n) is wanted"
        )
    effective = 1.0 / (1.0 - gamma)
    block = max(1, round(effective / BLOCKS))
    return Fading(block, gamma, effective)


class Forgetting(Simulated):
    """What a policy with a linear estimate does so that old answers count less."""

    _fading: Fading | None = None
    _learned: Learned
    _n_kept: NDArray[np.int64] | None
    _ridge: float
    _counted: Any

    def _answers_at_once(self, n: int) -> int:
        if self._fading is None:
            return n
        self._forget_if_due()
        return min(n, self._fading.block - self._age())

    def _n_counting(self, n_learned: int) -> int:
        """As how many answers of today those that were learned count at most."""
        return n_learned if self._fading is None else min(n_learned, round(self._fading.effective))

    def _age(self) -> int:
        """Comparisons, also those that were retracted, and self-duels since the last block ended."""
        counters = self._state.counters
        return int(counters["answered"] + counters["logged"] - counters["faded"])

    def _forget_if_due(self) -> None:
        """Let all that was learned fade, if a block has ended.

        Nothing changes in place: who kept the state before can go back to it, and after Ctrl-C it is due still.
        """
        if self._fading is None or self._age() < self._fading.block:
            return
        state, rule, share = self._state, self._rule, self._fading.discount ** self._age()
        memory = faded(rule.estimator, state.memory, share, self._fading.block)
        gram = _faded_gram(state.gram, share, self._ridge)
        factor = _faded_widths(state.factor, gram, share, self._ridge) if state.counters["factored"] else state.factor
        changed = state._replace(counters=state.counters.copy(), memory=memory, gram=gram, factor=factor)
        changed.counters["faded"] += self._age()
        before = vars(self).copy()
        try:
            if self._n_kept is not None and (n_left := n_kept(rule.estimator, memory)) is not None:
                self._learned = self._learned.without_first(self._n_kept.item() - n_left.item())
            self._start(rule, changed)
            self._counted = None  # pairs that wait are counted anew beside what is left
            self._note_what_is_known()
        except BaseException:  # Ctrl-C: of what was before nothing has changed in place
            vars(self).update(before)
            raise

    if TYPE_CHECKING:  # what a policy has besides

        def _note_what_is_known(self) -> None: ...


def _faded_gram(gram: NDArray[np.float64], share: float, ridge: float) -> NDArray[np.float64]:
    """M after fading, in which next to nothing is nothing."""
    faded_sum = share * gram
    diagonal = faded_sum.reshape(-1)[:: len(gram) + 1]
    diagonal += (1.0 - share) * ridge
    gone = diagonal < NOTHING
    faded_sum[gone], faded_sum[:, gone] = 0.0, 0.0
    return faded_sum


def _faded_widths(
    factor: NDArray[np.float64], gram: NDArray[np.float64], share: float, ridge: float
) -> NDArray[np.float64]:
    """S of the faded M: zeros where, without a ridge, so much was forgotten that it is not invertible any longer."""
    if ridge > 0.0:
        return faded_factor(factor, share, ridge)
    found = inverse_factor(gram)
    return np.zeros_like(gram) if found is None else found
