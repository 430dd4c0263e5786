"""Self-Sparring: Thompson sampling, twice, against itself.

Sui, Zhuang, Burdick, Yue (2017), Multi-dueling Bandits with Dependent Arms, Algorithm 2 (IndSelfSparring) with m = 2:
arm i has won S_i and lost F_i of its duels; each of the two arms is the largest of independent draws
theta_i ~ Beta(S_i + 1, F_i + 1). The winner of the duel gains a win, the loser a loss; a tie is half of each for both,
and an answer of weight w counts w.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import answer, check_memory
from fastcolst._compile import helper
from fastcolst._registry import register
from fastcolst.estimation.protocol import LEARNED, OVERFLOW
from fastcolst.kernels.beta import MOST_COUNTED, beta_variate, largest_beta, leave_out, likely_winner, log_norm
from fastcolst.kernels.selection import all_rows_finite, argmax
from fastcolst.kernels.splitmix import key_from
from fastcolst.policies.blind import IndexPolicy
from fastcolst.policies.parameters import Seed
from fastcolst.policies.protocol import NOT_FINITE, Choice
from fastcolst.policies.soundness import MOST_WINS, check, check_range
from fastcolst.policies.state import new_counters

__all__ = ["SelfSparring", "SelfSparringRule"]


@register
class SelfSparringState(NamedTuple):
    """What the answers said about each arm.

    counters, see :data:`fastcolst.policies.state.COUNTERS`; laws (3, n) float64: S_i, F_i and
    -log B(S_i + 1, F_i + 1), the laws of theta_i.
    """

    counters: NDArray[Any]
    laws: NDArray[np.float64]

    @classmethod
    def new(cls, n_arms: int) -> SelfSparringState:
        """Of a policy that has seen nothing."""
        check_memory("n_arms", n_arms, 8 * 3 * n_arms)
        return cls(new_counters(), np.zeros((3, n_arms)))

    def only(self, rows: NDArray[np.int64]) -> SelfSparringState:
        """What is known of some of the arms, to choose among them; rounds are counted in this state."""
        return self._replace(laws=np.ascontiguousarray(self.laws[:, rows]))


@check.register
def _(state: SelfSparringState, name: str) -> None:
    check.dispatch(object)(state, name)
    check_range(state.laws[:2], f"{name}.laws", 0.0, MOST_WINS)
    check_range(state.laws[2], f"{name}.laws", -MOST_WINS, MOST_WINS)


@register
class SelfSparringRule(NamedTuple):
    """Algorithm 2, and whether both draws may name one arm."""

    allow_self_duel: bool

    def n_raw(self, n_arms: int) -> int:
        """Two uniforms, which make the key of the samples."""
        return 2

    def work_shape(self, n_arms: int, n_features: int) -> tuple[int, int]:
        """The samples of the first and of the second arm, and the laws of the arms that the first leaves."""
        return 5, n_arms

    def select(self, state: Any, contexts: Any, raw: Any, work: Any) -> Choice:
        """The largest of n Beta variates, twice. O(n), a Beta variate for few arms."""
        if not all_rows_finite(contexts):
            return NOT_FINITE
        n, others = contexts.shape[1], work[2:5]
        key, first = highest_sample(state.laws, np.uint64(key_from(raw[0], raw[1])), work[0])
        for row in range(3):
            for i in range(n):
                others[row, i] = state.laws[row, i]
        if not self.allow_self_duel and n > 1:
            leave_out(others, first)
        key, second = highest_sample(others, key, work[1])
        return Choice(first, second, 0)

    def update(self, state: Any, choice: Choice, contrast: Any, share: float, weight: float) -> int:
        """A win for one, a loss for the other; of a tie half of each for both. O(1)."""
        first, second = choice.first, choice.second
        for arm in (first, second):
            if not state.laws[0, arm] + state.laws[1, arm] + weight <= MOST_COUNTED:
                return OVERFLOW
        won, lost = weight * share, weight * (1.0 - share)
        state.laws[0, first] += won
        state.laws[1, first] += lost
        state.laws[0, second] += lost
        state.laws[1, second] += won
        for arm in (first, second):
            state.laws[2, arm] = log_norm(state.laws[0, arm], state.laws[1, arm])
        return LEARNED


@helper
def highest_sample(laws: Any, key: Any, samples: Any) -> Any:
    """Next key, and the arm of the largest of independent draws from laws. O(n), a Beta variate for few arms."""
    favourite = likely_winner(laws)
    key, value = beta_variate(laws[0, favourite], laws[1, favourite], key)
    key = largest_beta(laws, favourite, value, key, samples)
    return key, argmax(samples)


@register(name="SelfSparring")
class SelfSparring(IndexPolicy):
    """Self-Sparring with independent Beta(1, 1) priors: it knows arms by their index and learns how often each wins.

    Both arms come from Thompson sampling on the arms' records, in two independent draws. When both draws name the same
    arm, it duels with itself; such a duel teaches nothing.

    Parameters
    ----------
    n_features
        As in :data:`fastcolst.policies.parameters.INDEX`.
    n_arms : int, optional
        Arms of every round; None: as many as in the first round.
    allow_self_duel : bool, default True
        Whether both draws may name one arm. False: the second is the largest of the draws of the others.
    max_pending, rng
        As in :data:`fastcolst.policies.parameters.INDEX`.

    Raises
    ------
    ValueError
        For an argument outside its range, with its name.

    Notes
    -----
    A choice costs O(n_arms), with Beta variates for the few arms that may win; an answer O(1). Memory: O(n_arms).
    Contexts are checked and not used: ``theta``, ``gram`` and what follows from them raise AttributeError.
    Threads may share a policy.

    References
    ----------
    Sui, Zhuang, Burdick, Yue (2017), Multi-dueling Bandits with Dependent Arms, Algorithm 2 with m = 2.
    Bengs, Saha, Huellermeier (2022), section 4 (SS).

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> policy = fc.SelfSparring(n_arms=3, rng=1)
    >>> for _ in range(1000):
    ...     duel = policy.select(np.eye(3))
    ...     policy.update(duel, first_won=duel.first < duel.second)  # arm 0 beats 1 and 2, 1 beats 2
    >>> duel = policy.select(np.eye(3))
    >>> duel.first, duel.second
    (0, 0)
    """

    choice_cost = 2.0

    def __init__(
        self,
        n_features: int | None = None,
        *,
        n_arms: int | None = None,
        allow_self_duel: bool = True,
        max_pending: int | None = None,
        rng: Seed = None,
    ) -> None:
        super().__init__(locals())
        self._start_index(SelfSparringRule(answer(allow_self_duel, "allow_self_duel")), SelfSparringState)
