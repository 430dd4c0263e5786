"""Informative: duel with the two arms whose comparison teaches most, for whoever wants the order and not the best.

Three readings of "most": the comparison that narrows the utilities' posterior most where it is in doubt, the one that
adds most to log det H, and the one that M knows least about.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import answer, brief, plain_text
from fastcolst._compile import helper, plain
from fastcolst._registry import register
from fastcolst.estimation.protocol import check_information, grown, information_factor, is_stale, refresh
from fastcolst.kernels.linalg import norm_by_inverse, utilities
from fastcolst.kernels.selection import argmax, tie_key
from fastcolst.policies.linear import LinearPolicy
from fastcolst.policies.parameters import Comparison, Estimator, Exploration, Seed, linear_fields, unless_ridge
from fastcolst.policies.protocol import NOT_FINITE, Choice, Chunk
from fastcolst.policies.soundness import check
from fastcolst.policies.state import assess_by, explore, linear_state, update_linear
from fastcolst.policies.teaching import (
    D_OPTIMAL,
    VARIANCE,
    WIDTH,
    Gain,
    gain,
    hash_arms,
    hash_of_pair,
    is_among,
    put_among,
    teaching_pair,
    teaching_work_shape,
)

__all__ = ["Informative", "InformativeRule"]

VALUES = {"width": WIDTH, "variance": VARIANCE, "d-optimal": D_OPTIMAL}
"""The numbers by which kernels know what is maximised."""

FIRST_PLACES = 64
"""Of the table of pairs that were shown, when nothing was."""

MOST_FALL = 100.0
"""Of g in a model's unit of utility; below the least margin that is looked at, a fall of no more can be overlooked."""

Value = Literal["variance", "d-optimal", "width"]


@register
class Shown(NamedTuple):
    """The pairs that were shown.

    table (m,) uint64, words of pairs, see :func:`fastcolst.policies.teaching.put_among`; n_pairs (1,) int64.
    """

    table: NDArray[np.uint64]
    n_pairs: NDArray[np.int64]

    @classmethod
    def new(cls) -> Shown:
        """Of a policy that has shown nothing."""
        return cls(np.zeros(FIRST_PLACES, np.uint64), np.zeros(1, np.int64))

    def with_room(self, n: int) -> Shown:
        """The same with room for n more, so that half of the table stays empty; itself, where there is room."""
        wanted = 2 * (int(self.n_pairs[0]) + n)
        if wanted <= len(self.table):
            return self
        table = np.zeros(1 << (wanted - 1).bit_length(), np.uint64)
        for hashed in self.table[self.table > 0]:
            put_among(table, hashed)
        return Shown(table, self.n_pairs)


@check.register
def _(part: Shown, name: str) -> None:
    size, n = len(part.table), int(np.count_nonzero(part.table))
    if size & (size - 1) or 2 * n > size or n != part.n_pairs[0]:
        raise ValueError(
            f"{name} has {n} pairs in {size} places and counts {part.n_pairs[0]}; as many as it counts are wanted, in "
            "a power of two of which they take half at most"
        )


@register
class InformativeState(NamedTuple):
    """What a linear policy knows, see :class:`fastcolst.policies.state.LinearState`, and the pairs that were shown."""

    counters: NDArray[Any]
    gram: NDArray[np.float64]
    factor: NDArray[np.float64]
    memory: Any
    scratch: NDArray[np.float64]
    shown: Shown

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

    def with_room(self, rule: Any, n: int) -> InformativeState:
        """The state with room for n more comparisons; itself, where there is room."""
        shown = self.shown if rule.repeats else self.shown.with_room(n)
        memory = grown(rule.estimator, self.memory, n)
        return self if memory is self.memory and shown is self.shown else self._replace(memory=memory, shown=shown)


@register
class InformativeRule(NamedTuple):
    """Informative as numbers.

    estimator, model: the registered instances; value: what is maximised, a number of ``VALUES``; most, second,
    fourth: the shape of g, see :class:`fastcolst.policies.teaching.Gain`; repeats: whether a pair may be shown again.
    """

    estimator: Any
    model: Any
    value: int
    most: float
    second: float
    fourth: float
    repeats: bool

    def n_raw(self, n_arms: int) -> int:
        """Two uniforms, for the pair of an exploration round; the second breaks ties in the others."""
        return 2

    def work_shape(self, n_arms: int, n_features: int) -> tuple[int, int]:
        """What the search for the pair needs."""
        return teaching_work_shape(n_arms, n_features)

    def select(self, state: Any, contexts: Any, raw: Any, work: Any) -> Choice:
        """The pair of largest value. O(n d^2), and the search's cost."""
        d, n = contexts.shape
        hashes = work[work.shape[0] - 1].view(np.uint64)
        if not self.repeats:
            hash_arms(contexts, hashes)
        choice = NOT_FINITE
        if state.counters[()].exploration_end < 0:
            choice = explore(contexts, raw)
        else:
            factor, theta = state.factor, state.memory.theta
            if self.value != WIDTH:
                factor = information_factor(self.estimator, state.memory, state.factor)
            if assess_by(factor, theta, contexts, work[:d], work[d][:n], work[d + 1][:n]):
                norm, key = norm_by_inverse(factor, theta, state.scratch[0]), tie_key(raw[1])
                shape = self.most, self.second, self.fourth
                objective = Gain(self.model, self.value, *shape, state.shown.table, self.repeats, key)
                first, second = teaching_pair(work, n, norm, objective)
                choice = Choice(first, second, 0)
        if not self.repeats and choice.first != choice.second:
            note_shown(state.shown, hash_of_pair(hashes, choice.first, choice.second))
        return choice

    def update(self, state: Any, choice: Choice, contrast: Any, share: float, weight: float) -> int:
        """One comparison more for theta, H and M."""
        return update_linear(state, self.estimator, self.model, contrast, share, weight)


@helper
def note_shown(shown: Any, hashed: Any) -> None:
    """Count a pair among those that were shown. There must be room."""
    if put_among(shown.table, hashed):
        shown.n_pairs[0] += 1


@register(name="Informative")
class Informative(LinearPolicy):
    """The comparison that teaches most, for a budget of labels: to rank items rather than to find and show the best.

    The pair is the argmax over i < j, with z = x_i - x_j, of

    - "variance": F'(z'theta) |z|_{H^-1}, the posterior's standard deviation of the chance that i wins;
    - "d-optimal": I(z'theta) z'H^-1 z, the gain of log det H;
    - "width": |z|_{M^-1}, which looks at no answer,

    where H = ridge I + sum w I(z'theta) z z' is the estimator's information and I = F'^2/(F(1 - F)) that of one answer.
    ``expected_misordered`` tells when to stop.

    Parameters
    ----------
    n_features, n_arms, comparison
        As in :data:`fastcolst.policies.parameters.LINEAR`.
    estimator : str or estimator, default "mle"
        How theta and H are estimated: "mle" or "online-newton". :class:`fastcolst.SGD` knows no H, and serves for
        "width" alone.
    ridge
        As in :data:`fastcolst.policies.parameters.INFORMED`.
    value : {"variance", "d-optimal", "width"}, default "variance"
        What is maximised.
    repeats : bool, default True
        Whether a pair that was shown may be shown again. False: never, whatever became of its duel; arms are known
        again by their features. (Random pairs, without a ridge, may repeat.)
    exploration_rounds
        As in :data:`fastcolst.policies.parameters.INFORMED`.
    discount, position, count_pending, robust, features, max_pending
        As in :data:`fastcolst.policies.parameters.LINEAR`.
    rng : int, SeedSequence, Generator or None
        Source of the order in which equal pairs come, and of random pairs; see :func:`fastcolst.streams.entropy_of`.

    Raises
    ------
    ValueError
        For an argument outside its range, with its name; for an estimator that knows no information where H is needed;
        and for a comparison model whose answers do not tell the less the further two arms are apart.

    Notes
    -----
    The pair is exact, of a model of one's own as far as the shape of its density shows at 200 margins. It is found by
    branch and bound after the arms were whitened in O(n d^2), at worst in O(n^2 d); see
    :func:`fastcolst.policies.teaching.teaching_pair`. Of ten features that takes 1.3 times as long as MaxPairUCB's
    choice with 50 arms, and some 3 times with 2,000. An answer costs O(d^2). Memory: O(n d + d^2), what the
    estimator remembers, O(d) for each duel that waits for its answer, and with ``repeats=False`` 16 to 32 bytes for
    each pair that was shown. Threads may share a policy.

    The first arm is the one of lower index. Which of several equal pairs duels, and which of two equal arms is the
    first, is random; see :func:`fastcolst.kernels.selection.tie_key`. Two different arms duel, unless there is one.

    A simulation's regret is not what this rule is for: it shows what it does not know, not what is good.

    References
    ----------
    "variance" is the criterion of GURO: Bergstroem, Carlsson, Dubhashi, Johansson (2024), Active preference learning
    for ordering items in- and out-of-sample. "width" is that of APO: Das, Chakraborty, Pacchiano, Chowdhury (2024),
    Active preference optimization for sample efficient RLHF.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> rng = np.random.default_rng(0)
    >>> items = rng.normal(size=(20, 3))
    >>> policy = fc.Informative(n_features=3, rng=1)
    >>> while policy.expected_misordered(items) > 0.1:
    ...     duel = policy.select(items)
    ...     policy.update(duel, first_won=2 * duel.contrast[0] + rng.logistic() > 0)
    >>> wrong = np.sign(np.subtract.outer(items @ policy.theta, items @ policy.theta)) != np.sign(
    ...     np.subtract.outer(items[:, 0], items[:, 0])
    ... )
    >>> policy.round < 150, bool(wrong.mean() < 0.2)
    (True, True)
    """

    choice_cost = 3.0
    needs_information = True
    chooses = "the pair whose answer tells most"

    def __init__(
        self,
        n_features: int,
        *,
        n_arms: int | None = None,
        comparison: Comparison = "bradley-terry",
        estimator: Estimator = "mle",
        ridge: float = 1.0,
        value: Value = "variance",
        repeats: bool = True,
        exploration_rounds: Exploration = None,
        discount: float = 1.0,
        position: bool = False,
        count_pending: bool = False,
        robust: float | None = None,
        features: Any = None,
        max_pending: int | None = None,
        rng: Seed = None,
    ) -> None:
        super().__init__(locals())
        if plain_text(value) not in VALUES:
            raise ValueError(f"value is {brief(value)}; wanted 'variance', 'd-optimal' or 'width'")
        fields, code = linear_fields(self._parameters), VALUES[str(value)]
        if code != WIDTH:
            check_information(fields["estimator"], f"{type(self).__name__} with value={value!r}")
        shape = _shape(fields["model"], code)
        rule = InformativeRule(fields["estimator"], fields["model"], code, *shape, answer(repeats, "repeats"))
        self._start_linear(rule, ridge, unless_ridge(exploration_rounds, ridge))

    @property
    def _is_informed(self) -> bool:
        return bool(self._rule.value != WIDTH)

    _state: Any

    def _new_state(self, rule: Any, n_features: int, ridge: float, exploration_rounds: int, enough: int) -> Any:
        state = linear_state(rule.estimator, n_features, ridge, exploration_rounds, enough)
        return InformativeState(**state._asdict(), shown=Shown.new())

    def _chosen_among(
        self, contexts: Any, largest: float, round_: int, rows: Any = None, chooser: Any = None, agent: Any = None
    ) -> int:
        if not self._rule.repeats:
            self._make_room(1)
        return super()._chosen_among(contexts, largest, round_, rows, chooser, agent)

    def _choose_after_all(self, code: int, contexts: Any, largest: float, chooser: Any, agent: Any) -> int:
        try:
            return super()._choose_after_all(code, contexts, largest, chooser, agent)
        except ValueError:
            self._check_left(contexts[:])  # of bound arms an array
            raise

    def play(self, chunk: Chunk, trace: NDArray[np.float64]) -> int:
        """Play simulated rounds in one loop; see :meth:`Policy.play`.

        Raises
        ------
        ValueError
            When shapes do not fit, or with ``repeats=False`` no pair is left that was not shown.
        """
        played = super().play(chunk, trace)
        if played < len(chunk.best):
            self._check_left(np.ascontiguousarray(chunk.contexts[played].T))
        return played

    def _check_left(self, contexts: NDArray[np.float64]) -> None:
        """Refuse contexts (n, d) of which every pair was shown, where that rules it out."""
        n = len(contexts)
        if self._rule.repeats or n == 1 or self._is_exploring:
            return
        hashes = np.zeros(n, np.uint64)
        by_coordinate = np.zeros((len(self._state.gram), n))  # position's is 0
        by_coordinate[: contexts.shape[1]] = contexts.T
        hash_arms(by_coordinate, hashes)
        pairs = ((i, j) for i in range(n) for j in range(i))
        if all(is_among(self._state.shown.table, np.uint64(hash_of_pair(hashes, i, j))) for i, j in pairs):
            raise ValueError(
                f"contexts has {n} arms of which each pair was shown; other arms, or repeats=True, are wanted"
            ) from None  # no utility overflows, as the kernel's code has it


def _shape(model: Any, value: int) -> tuple[float, float, float]:
    """g(0), the largest g, and k and l of which g(m) <= g(0) / (1 + k m^2 + l m^4).

    As far as it was looked at, from a thousandth of the model's unit of utility, 1/F'(0), to a thousand of them, at
    margins 7 % apart. What lies between these is allowed for by a hundredth of what g(0)/g has beyond 1, and another
    one of k is left to l, which without it would be that of the margin at which k is sharp, 0.

    Raises
    ------
    ValueError
        Of the model g does not fall with the margin.
    """
    most, unit = _gain_at(model, value, 0.0), max(_gain_at(model, VARIANCE, 0.0), 1e-300) ** -0.5
    margins = unit * np.geomspace(1e-3, 1e3, 200)
    sides = [np.array([_gain_at(model, value, side * float(m)) for m in margins]) for side in (1.0, -1.0)]
    if not 0.0 < most < np.inf or not all(_falls(gains, most) for gains in sides):
        raise ValueError(
            f"comparison is {brief(model)}, whose answers do not tell the less the further arms are apart; one whose "
            "density falls from 0 on, on which the search for the pair relies, is wanted"
        )
    excess, square = 0.99 * (most / np.maximum(np.fmax(*sides), 1e-300) - 1.0), margins**2
    with np.errstate(over="ignore"):  # far out no g is left to divide by
        second = 0.99 * _least(excess / square, MOST_FALL / unit**2)
        fourth = _least((excess - second * square) / square**2, (MOST_FALL / unit**2) ** 2)
    return most, second, fourth


def _falls(gains: NDArray[np.float64], most: float) -> bool:
    """Whether gains, that are at most so large, never rise; nan, where a model's Python overflows, does not count."""
    gains = gains[~np.isnan(gains)]
    before = np.minimum.accumulate(np.append(most, gains))[:-1]
    return bool(np.all(gains <= before * (1.0 + 1e-9) + 1e-300))


def _least(values: NDArray[np.float64], most: float) -> float:
    """The least of some values that are not nan, at most a number; 0 where that is negative."""
    return float(max(min(np.nanmin(values), most), 0.0))


def _gain_at(model: Any, value: int, margin: float) -> float:
    """g at a margin; nan where a model's Python overflows, as kernels do not."""
    try:
        with np.errstate(all="ignore"):  # far out densities underflow
            return float(plain(gain)(model, value, margin))
    except ArithmeticError:
        return np.nan
