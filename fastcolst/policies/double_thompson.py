"""Double Thompson sampling: confidence bounds say which arms are worth a duel, Beta samples choose among them.

Wu and Liu (2016), Double Thompson Sampling for Dueling Bandits, Algorithm 1 (D-TS). B_ij counts the duels in which arm
i beat arm j; a tie is half a win for both, and an answer of weight w counts w. With B_ij + B_ji = N and t the round,

    u_ij = B_ij/N + sqrt(alpha log t / N),    l_ij = B_ij/N - sqrt(alpha log t / N),    u_ii = l_ii = 1/2,    x/0 = 1.

First arm: among the arms with the most u_ij > 1/2 (the optimistic Copeland winners) the one with the most
theta_ij > 1/2, where theta_ij ~ Beta(B_ij + 1, B_ji + 1) and theta_ji = 1 - theta_ij; ties are broken at random. Second
arm: the largest of fresh theta_i,first over the arms i with l_i,first <= 1/2, where theta_first,first = 1/2.

Two changes spare the work without touching the law of the duels. Only whether theta_ij > 1/2 matters in the first
stage: a coin with P(theta_ij > 1/2), which one answer changes in O(1). And neither bound needs a root: u_ij > 1/2 means
log t > tau_ij, where tau_ij = (B_ij - B_ji)^2 / (4 alpha N) if B_ij < B_ji and -1 (always) otherwise; and l_ij <= 1/2
means log t >= tau_ji, since l_ij = 1 - u_ji.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import answer, check_memory, number
from fastcolst._compile import helper
from fastcolst._registry import register
from fastcolst.estimation.protocol import LEARNED, OVERFLOW
from fastcolst.kernels.beta import (
    MOST_COUNTED,
    beta_variate,
    chance_above_half,
    chance_after_win,
    largest_beta,
    likely_winner,
    log_norm,
)
from fastcolst.kernels.selection import all_rows_finite, argmax
from fastcolst.kernels.splitmix import GOLDEN, key_from, word53
from fastcolst.policies.blind import IndexPolicy
from fastcolst.policies.parameters import Seed
from fastcolst.policies.protocol import NOT_FINITE, Choice
from fastcolst.policies.soundness import MOST_WINS, check, check_range
from fastcolst.policies.state import new_counters

__all__ = ["DoubleThompson", "DoubleThompsonRule"]

_BITS53 = 2.0**53


@register
class DoubleThompsonState(NamedTuple):
    """What the answers said about each pair of arms.

    counters, see :data:`fastcolst.policies.state.COUNTERS`; (n, n) float64: wins, B_ij; chances,
    P(theta_ij > 1/2); thresholds, tau_ij, with inf on the diagonal; constants, -log B(B_ij + 1, B_ji + 1); and bars
    (n, n) int64, the chances times 2^53, rounded up.
    """

    counters: NDArray[Any]
    wins: NDArray[np.float64]
    chances: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    constants: NDArray[np.float64]
    bars: NDArray[np.int64]

    @classmethod
    def new(cls, n_arms: int) -> DoubleThompsonState:
        """Of a policy that has seen nothing."""
        check_memory("n_arms", n_arms, 8 * 5 * n_arms**2)
        shape = n_arms, n_arms
        thresholds = np.full(shape, -1.0)
        np.fill_diagonal(thresholds, np.inf)
        return cls(
            counters=new_counters(),
            wins=np.zeros(shape),
            chances=np.full(shape, 0.5),
            thresholds=thresholds,
            constants=np.zeros(shape),
            bars=np.full(shape, 2**52),
        )

    def only(self, rows: NDArray[np.int64]) -> DoubleThompsonState:
        """What is known of some of the arms, to choose among them; rounds are counted in this state."""
        pairs = np.ix_(rows, rows)
        return self._replace(**{name: getattr(self, name)[pairs] for name in self._fields if name != "counters"})


@check.register
def _(state: DoubleThompsonState, name: str) -> None:
    check.dispatch(object)(state, name)
    check_range(state.wins, f"{name}.wins", 0.0, MOST_WINS)
    check_range(state.chances, f"{name}.chances", 0.0, 1.0)
    check_range(state.thresholds, f"{name}.thresholds", -1.0, np.inf)
    check_range(state.constants, f"{name}.constants", -MOST_WINS, MOST_WINS)
    check_range(state.bars, f"{name}.bars", 0, 2**53)


@register
class DoubleThompsonRule(NamedTuple):
    """Algorithm 1 as numbers: alpha, the width of the confidence bounds, and whether an arm may be its own rival."""

    alpha: float
    allow_self_duel: bool

    def n_raw(self, n_arms: int) -> int:
        """Two uniforms for the key of the round's samples, one for ties."""
        return 3

    def work_shape(self, n_arms: int, n_features: int) -> tuple[int, int]:
        """Three rows of Beta parameters, then samples of theta_i,first, candidates, a row of coins, and scores."""
        return 7, n_arms

    def select(self, state: Any, contexts: Any, raw: Any, work: Any) -> Choice:
        """Both stages. O(n^2) comparisons, a coin for each pair with a candidate and a Beta variate for few arms."""
        if not all_rows_finite(contexts):
            return NOT_FINITE
        n = contexts.shape[1]
        laws, samples, candidates = work, work[3], work[4]  # laws are the first three rows
        key = np.uint64(key_from(raw[0], raw[1]))
        log_t = np.log(state.counters[()].chosen + 1.0)

        n_candidates = optimistic_winners(state.thresholds, log_t, candidates)
        count_wins(state.bars, candidates, n_candidates, key, work)
        first = best_of(candidates, n_candidates, work[6], raw[2])
        rivals(state, first, log_t, laws)
        leader, value, key = first, 0.5, key + np.uint64(n * n) * GOLDEN
        if not self.allow_self_duel and n > 1:
            leader = likely_winner(laws)  # there is one: a Copeland winner is not beaten for certain by all others
            key, value = beta_variate(laws[0, leader], laws[1, leader], key)
        largest_beta(laws, leader, value, key, samples)
        return Choice(first, argmax(samples), 0)

    def update(self, state: Any, choice: Choice, contrast: Any, share: float, weight: float) -> int:
        """Count the answer, and carry what follows from the counts of this pair; see :func:`_count_win`."""
        first, second = choice.first, choice.second
        if not state.wins[first, second] + state.wins[second, first] + weight <= MOST_COUNTED:
            return OVERFLOW
        if share > 0.0:
            _count_win(self.alpha, state, first, second, weight * share)
        if share < 1.0:
            _count_win(self.alpha, state, second, first, weight * (1.0 - share))
        return LEARNED


@helper
def _count_win(alpha: float, state: Any, winner: int, loser: int, amount: float) -> None:
    """Add to B_winner,loser. O(1) for a whole win, O(sqrt(N)) for any other amount."""
    wins, losses = state.wins[winner, loser], state.wins[loser, winner]
    if amount == 1.0:
        chance = chance_after_win(state.chances[winner, loser], wins, losses)
    else:
        chance = chance_above_half(wins + amount, losses)
    state.chances[winner, loser] = chance
    state.chances[loser, winner] = 1.0 - chance
    state.bars[winner, loser] = int(np.ceil(chance * _BITS53))
    state.bars[loser, winner] = int(np.ceil((1.0 - chance) * _BITS53))
    wins += amount
    state.wins[winner, loser] = wins
    state.thresholds[winner, loser] = _threshold(alpha, wins, losses)
    state.thresholds[loser, winner] = _threshold(alpha, losses, wins)
    state.constants[winner, loser] = state.constants[loser, winner] = log_norm(wins, losses)


@helper
def _threshold(alpha: float, wins: float, losses: float) -> float:
    """tau_ij, above which log t makes u_ij > 1/2."""
    if wins >= losses:
        return -1.0
    return (losses - wins) * (losses - wins) / (4.0 * alpha * (wins + losses))


@helper
def optimistic_winners(thresholds: Any, log_t: float, out: Any) -> int:
    """List the arms with the most u_ij > 1/2, in their order, and return how many they are. O(n^2).

    ``thresholds`` is (n, n) float64, ``out`` (n,) float64: indices.
    """
    length, best = 0, -1
    for i in range(out.size):
        count = 0
        for j in range(out.size):
            count += thresholds[i, j] < log_t
        if count > best:
            length, best = 0, count
        if count == best:
            out[length] = i
            length += 1
    return length


@helper
def coin(bar: Any, key: Any, place: int) -> bool:
    """Whether theta_ij > 1/2, for i < j, place = i n + j and bar = 2^53 P(theta_ij > 1/2), int64.

    A pair's coin depends on its place in the round, not on the other pairs. Comparing whole numbers vectorises,
    converting them to floats does not.
    """
    return word53(key + np.uint64(place) * GOLDEN) < bar


@helper
def count_wins(bars: Any, candidates: Any, n_candidates: int, key: Any, work: Any) -> None:
    """Draw theta_ij > 1/2 for every pair with a candidate, and count for how many j it holds. O(n) for each candidate.

    Overwrites two rows of ``work``: 5, a row of coins, and 6, the counts, right for candidates only.
    """
    coins, scores = work[5], work[6]
    n = scores.size
    for j in range(n):
        coins[j] = 0.0
        scores[j] = j  # a coin of a pair i < j counts for j where it does not count for i
    met = 0  # candidates up to row i
    for i in range(n - 1):
        coins[i] = 0.0
        if met == n_candidates or candidates[met] != i:  # no candidate
            for place in range(met, n_candidates):
                j = int(candidates[place])
                scores[j] -= coin(bars[i, j], key, i * n + j)
            continue
        met += 1
        for j in range(i + 1, n):
            coins[j] = 1.0 if coin(bars[i, j], key, i * n + j) else 0.0
        wins = 0
        for j in range(n):  # of one length for all rows, and whole numbers for a sum: in vectors
            wins += coins[j] > 0.5
        for j in range(n):
            scores[j] -= coins[j]
        scores[i] += wins


@helper
def best_of(candidates: Any, n_candidates: int, scores: Any, tie: float) -> int:
    """The candidate of the highest score; ``tie``, a uniform in [0, 1), decides among equals. O(n)."""
    best, n_best = -1.0, 0
    for place in range(n_candidates):
        score = scores[int(candidates[place])]
        if score > best:
            best, n_best = score, 0
        n_best += score == best
    chosen, skip = 0, int(tie * n_best)
    for place in range(n_candidates):
        if scores[int(candidates[place])] == best and skip >= 0:
            chosen, skip = int(candidates[place]), skip - 1
    return chosen


@helper
def rivals(state: Any, first: int, log_t: float, out: Any) -> None:
    """The laws of theta_i,first, as :func:`fastcolst.kernels.beta.largest_beta` takes them.

    Arms with l_i,first > 1/2 are left out. Column ``first`` of B holds the wins of the others over it, row ``first``
    their losses. They go to the first three rows of ``out``. O(n).
    """
    for i in range(out.shape[1]):
        uncertain = log_t >= state.thresholds[first, i]
        out[0, i] = state.wins[i, first] if uncertain else 0.0
        out[1, i] = state.wins[first, i] if uncertain else 1.0
        out[2, i] = state.constants[first, i] if uncertain else -np.inf


@register(name="DoubleThompson")
class DoubleThompson(IndexPolicy):
    """Double Thompson sampling, D-TS: it knows arms by their index and learns how often each beats each.

    The first arm is the best of a Thompson sample among the arms that might be Copeland winners, the second the most
    dangerous rival in another sample, among the rivals that the first does not beat for certain. When no rival's sample
    exceeds 1/2, the first arm is its own rival: once the winner is known, self-duels are what costs no regret.

    Parameters
    ----------
    n_features
        As in :data:`fastcolst.policies.parameters.INDEX`.
    n_arms : int, optional
        K, arms of every round; None: as many as in the first round.
    alpha : float, default 0.51
        Positive; a confidence bound is sqrt(alpha log t / N) wide. The regret bounds ask for more than 0.5.
    allow_self_duel : bool, default True
        Whether the first arm may be its own rival. False: the rival is the largest sample of the other arms.
    max_pending, rng
        As in :data:`fastcolst.policies.parameters.INDEX`.

    Raises
    ------
    ValueError
        For an argument outside its range, with its name.

    Notes
    -----
    A choice costs O(n_arms^2) comparisons of numbers, a coin for each pair that holds a candidate and Beta variates
    for the few rivals that may win; an answer O(1). Memory: O(n_arms^2). Contexts are checked and not used: ``theta``,
    ``gram`` and what follows from them raise AttributeError. A self-duel teaches nothing.
    Threads may share a policy.

    References
    ----------
    Wu, Liu (2016), Double Thompson Sampling for Dueling Bandits, Algorithm 1.
    Bengs, Saha, Huellermeier (2022), section 4 (DTS).

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> policy = fc.DoubleThompson(n_arms=3, rng=1)
    >>> for _ in range(300):
    ...     duel = policy.select(np.eye(3))
    ...     policy.update(duel, first_won=duel.first < duel.second)  # arm 0 beats 1 and 2, 1 beats 2
    >>> duel = policy.select(np.eye(3))
    >>> duel.first, duel.second
    (0, 0)
    """

    choice_cost = 4.0

    def __init__(
        self,
        n_features: int | None = None,
        *,
        n_arms: int | None = None,
        alpha: float = 0.51,
        allow_self_duel: bool = True,
        max_pending: int | None = None,
        rng: Seed = None,
    ) -> None:
        super().__init__(locals())
        allows = answer(allow_self_duel, "allow_self_duel")
        self._start_index(DoubleThompsonRule(number("alpha", alpha, positive=True), allows), DoubleThompsonState)
