"""Sets of more than two: a policy shows several arms, and somebody chooses the best of them or puts them in order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst._checks import brief, choice, count, looked_at, number, whole_number
from fastcolst._compile import make_agent, plain
from fastcolst.estimation.plackett_luce import TIES, stages_of
from fastcolst.estimation.protocol import KEPT, OVERFLOW, STALE, knows_choices, learn_choice, refresh
from fastcolst.estimation.sets import count_leverage, with_choices
from fastcolst.estimation.words import name_of
from fastcolst.policies.answering import listed
from fastcolst.policies.arms import Arms, arms_of
from fastcolst.policies.columns import Names
from fastcolst.policies.duel import Asked, Duel
from fastcolst.policies.filling import fill_set, scale_of
from fastcolst.policies.kept_sets import KeptChoices, SetAnswers
from fastcolst.policies.kernels import choose, count_contrast, decoded
from fastcolst.policies.pending import Pending
from fastcolst.policies.shown import AskedSet, ShownSet
from fastcolst.policies.simulated import Simulated

__all__ = ["Sets"]


OF_PAIRS: dict[str, tuple[Any, str]] = {
    "position": (False, "the advantage of the first of two"),
    "count_pending": (False, "which counts pairs that wait for their answer"),
    "robust": (None, "which weighs the answer to a pair by how much M knows of it"),
    "discount": (1.0, "which forgets answers to pairs"),
}
"""Arguments that are about duels alone: what they are where they are not used, and what they are."""


class Sets(Simulated):
    """A policy's choice of sets, and what it learns from them.

    Attributes
    ----------
    fills_sets : bool
        Of a class: whether its rule's second arm is argmax u_j + c |x_j - x_first|_{M^-1}, which goes on to sets.
    chooses : str
        Of a class: what its rule chooses instead.
    """

    fills_sets: ClassVar[bool] = False
    chooses: ClassVar[str] = "pairs by a rule of its own"

    _choices: KeptChoices
    _pending: Pending
    _names: Names | None
    _n_kept: NDArray[np.int64] | None

    def select_set(
        self,
        contexts: ArrayLike | Mapping[Any, ArrayLike],
        k: int,
        available: ArrayLike | None = None,
        keys: Sequence[Hashable] | None = None,
    ) -> ShownSet:
        """Choose the next k arms, of which somebody is to choose the best, or which somebody is to put in order.

        The first two are the pair that :meth:`select` would show with ``allow_self_duel=False``. Each further arm is
        argmax u_j + c min_i |x_j - x_i|_{M^-1} over the arms i that are in the set, with the c of the round. In a round
        of exploration the set is a random one.

        Parameters
        ----------
        contexts, available, keys
            As :meth:`select` takes them.
        k : int
            How many, at least 2 and at most as many as there are.

        Returns
        -------
        ShownSet
            To be answered with ``update(shown, winner=...)`` or ``update(shown, ranking=...)``, or given up with
            :meth:`discard`; it is listed by :meth:`pending_duels`.

        Raises
        ------
        ValueError
            As :meth:`select`; for a ``k`` out of range; and for a policy that does not choose by utility plus width, as
            :class:`fastcolst.CoLSTIM` and :class:`fastcolst.MaxPairUCB` do, has ``position``, ``count_pending``,
            ``robust`` or ``discount``, or an estimator of one's own without a method ``learn_choice``. The policy is
            then as it was.

        Notes
        -----
        A round like those of :meth:`select`, besides O(n d (d + k)) for n arms; some milliseconds more for an answer.

        What an answer teaches: with Gumbel noise, ``comparison="bradley-terry"``, the Plackett-Luce likelihood of the
        choice, exactly, score x_c - xbar and information sum_j p_j (x_j - xbar)(x_j - xbar)'; of other noise the m - 1
        pairs that the chosen one won, with weights 1/(m - 1), a pseudo-likelihood. :class:`fastcolst.MLE` keeps the
        choices and finds theta anew, O(n d^2) for all that was learned, when it is next wanted;
        :class:`fastcolst.OnlineNewton` does so during its exact start, and takes one implicit step afterwards;
        :class:`fastcolst.SGD` takes one step.

        M gains, for a choice out of m and of weight w, 4 w/m sum_j (x_j - xbar)(x_j - xbar)' whoever is chosen. It is
        z z' of two, and with Gumbel noise what such a choice tells when all are alike in units of what a pair then
        tells; the same is used with other noise.

        Examples
        --------
        >>> import numpy as np, fastcolst as fc
        >>> images = np.random.default_rng(0).normal(size=(50, 3))
        >>> policy = fc.CoLSTIM(3, ridge=1.0, rng=1)
        >>> for _ in range(40):
        ...     shown = policy.select_set(images, 4)
        ...     policy.update(shown, winner=max(shown.arms, key=lambda arm: images[arm, 0]))
        >>> bool(policy.probability([1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]) > 0.9)
        True
        >>> policy.update(policy.select_set(images, 3), ranking=[])
        Traceback (most recent call last):
        ValueError: ranking is []; some of the arms that were shown, best first, are wanted
        """
        size = count("k", k, 2)
        self._refuse_sets()
        arms = arms_of(contexts, available, keys)
        with self._lock:
            return self._select_set(arms, size)

    def choices(self) -> SetAnswers:
        """What was learned from sets of more than two, for :func:`fastcolst.fit_rankings`; copies.

        Answers to sets of two are those of duels, and stand in :meth:`LinearPolicy.history`.

        Raises
        ------
        AttributeError
            The estimator forgets what it learned: SGD at once, OnlineNewton all but its first ``history`` comparisons.

        Examples
        --------
        >>> import numpy as np, fastcolst as fc
        >>> policy = fc.CoLSTIM(2, ridge=1.0, rng=1)
        >>> for _ in range(20):
        ...     shown = policy.select_set(np.eye(4, 2), 3)
        ...     policy.update(shown, ranking=shown.arms)
        >>> told = policy.choices()
        >>> found = fc.fit_rankings(told.rankings, told.features, weights=told.weights, ridge=1.0)
        >>> bool(np.allclose(found.theta, policy.theta, atol=1e-2))
        True
        """
        if self._n_kept is None:
            raise AttributeError(
                f"{type(self).__name__} has no choices: its estimator does not keep all that it learns; a policy with "
                "estimator=fc.MLE() is wanted"
            )
        with self._lock:
            kept = list(self._choices)
            return SetAnswers(
                [[0] for _ in kept],
                [one.rows.copy() for one in kept],
                np.array([one.weight for one in kept]),
                tuple(one.rater for one in kept),
                tuple(self._pending.token_of(one.round) or f"before-{one.round}" for one in kept),
            )

    # --- a choice -------------------------------------------------------------------------------------------

    def _refuse_sets(self) -> None:
        """Refuse to show sets where the rule does not go on to them, or what is learned would be only of pairs."""
        name = type(self).__name__
        if not self.fills_sets:
            raise ValueError(
                f"the policy is {name}, which chooses {self.chooses}, and sets are filled by utility plus width; "
                "fc.CoLSTIM or fc.MaxPairUCB is wanted"
            )
        for argument, (off, what) in OF_PAIRS.items():
            value = self._parameters.get(argument, off)
            if value != off:
                raise ValueError(f"{argument} is {brief(value)}, {what}; a policy without it is wanted for sets")
        if not knows_choices(self._rule.estimator):
            raise ValueError(
                f"estimator is {name_of(self._rule.estimator)}, which has no method learn_choice; 'mle', 'sgd' or "
                "'online-newton' is wanted"
            )

    def _select_set(self, arms: Arms, size: int) -> ShownSet:
        what, rows = ("contexts", arms.contexts) if arms.rows is None else ("available", arms.rows)
        if arms.contexts.ndim == 2 and 0 < len(rows) < size:  # before the buffers are of other sizes
            raise ValueError(f"k is {size} and {what} has {len(rows)} arms; at most as many are wanted")
        contexts, names = self._look_closely(arms)
        out = np.zeros(size, np.int64)
        self._choose_with_care(contexts, len(arms.contexts), arms.rows, partial(self._choose_set, out))
        self._names = names
        features = contexts[out]
        chosen = (out if arms.rows is None else arms.rows[out]).tolist()
        keys = None if arms.keys is None else tuple(arms.keys[arm] for arm in chosen)
        return self._pending.show_set(chosen, keys, len(arms.contexts), features, self._chosen.item()).duel

    def _choose_set(self, out: NDArray[np.int64], agent: Any, contexts: Any, largest: float, buffers: Any) -> int:
        """As :func:`choose`, of two different arms, and what joins them; ``out`` (k,) is overwritten."""
        of_two = make_agent(self._rule._replace(allow_self_duel=False), self._state, self._rng)
        scale = scale_of(agent)  # before the round is counted
        code: int = choose(of_two, contexts, largest, buffers)
        if code >= 0:
            out[:2] = plain(decoded)(code, len(contexts))[:2]
            fill_set(agent, buffers.by_coordinate, buffers.raw, scale, out)
        return code

    # --- an answer ------------------------------------------------------------------------------------------

    def _update_set(self, duel: Any, first_won: Any, answer: tuple[Any, Any, Any], weight: Any, rater: Any) -> None:
        """Learn the answer to a set: ``answer`` is the winner, or the ranking, and what becomes of its ties."""
        weight = number("weight", weight, positive=True)
        rater = self._kept_rater(rater)
        with self._lock:
            self._end_interrupted()
            asked = self._pending.find_shown(duel)
            if not isinstance(asked, AskedSet):
                _refuse_of_a_duel(first_won, *answer)
            if first_won is not None:
                raise ValueError(f"first_won is {brief(first_won)}; of a set winner or ranking alone is wanted")
            stages = _stages(asked, *answer)
            kept, book, n_choices = self._kept(), self._pending.kept(), len(self._choices)
            if not self._is_noted:
                self._catch_up()
            try:
                self._learn_stages(asked, stages, weight, rater)
                if self._is_exploring:
                    self._end_exploration()
                self._pending.drop_all({asked.duel.round})
            except BaseException:
                self._pending.go_back(book)
                self._choices.rewind(n_choices)
                self._go_back(kept)
                raise

    def _learn_stages(self, asked: AskedSet, stages: list[tuple[int, list[int]]], weight: float, rater: Any) -> None:
        """Learn the choices that an answer is made of, and count one answer. Of a set of two they are duels."""
        answered = self._state.counters["answered"].item()
        for chosen, left in stages:
            if len(asked.duel) == 2:
                self._learn(_as_duel(asked), 1.0 if chosen == 0 else 0.0, weight, rater)
                continue
            others = [place for place in left if place != chosen]
            contrasts = asked.features[chosen] - asked.features[others]
            if contrasts.any():
                self._learn_choice(contrasts, weight, asked.duel.round, rater)
        self._state.counters["answered"] = answered + 1

    def _learn_choice(
        self, contrasts: NDArray[np.float64], weight: float, round_: int, rater: str | int | None
    ) -> None:
        """Learn which of several was chosen: theta, M and its factor, as :func:`update_linear` does of two."""
        rule, state = self._rule, self._state
        counters, gram, factor = state.counters, state.gram, state.factor
        added = set_contrasts(contrasts, weight)
        with np.errstate(all="ignore"):
            whitened = np.vstack([np.zeros(len(gram)), contrasts]) @ factor.T
            size = np.trace(gram) + (added**2).sum() + ((added @ factor.T) ** 2).sum()
            code = STALE
            while code == STALE and size < np.inf:
                code = learn_choice(rule.estimator, rule.model, state.memory, contrasts, weight)
                if code == STALE:
                    self._refresh(state)
        if not size < np.inf or code == OVERFLOW:
            raise ValueError(
                f"duel of round {round_}: with its features and weight {weight:g} the estimate overflows; smaller "
                "features or a smaller weight are wanted"
            )
        if code == KEPT:
            self._choices.append(contrasts, weight, round_, rater)
        if counters["factored"]:  # see exploration_end_is_due
            widest = max(float(((whitened - row) ** 2).sum(axis=1).max()) for row in whitened)
            counters["known"] = counters["known"] + 1 if widest <= 1.0 else 0
        else:
            counters["untested"] = 1
        work = np.zeros((2, len(gram)))
        for contrast in added:
            count_contrast(gram, factor, contrast, work)

    # --- the estimate ---------------------------------------------------------------------------------------

    def _refresh(self, state: Any, kept: KeptChoices | None = None) -> None:
        """Bring a state's theta up to date, with the choices that are kept, which are this policy's unless told."""
        choices = self._choices if kept is None else kept
        if not len(choices):
            state.refresh_estimate(self._rule)
            return
        told = choices.choices()
        refresh(self._rule.estimator, self._rule.model, with_choices(self._rule.model, state.memory, told))
        count_leverage(state.memory, told)

    def _with_choices(self, memory: Any) -> Any:
        """An estimator's memory, with the choices that are kept besides."""
        return with_choices(self._rule.model, memory, self._choices.choices()) if len(self._choices) else memory

    def _recount(self, memory: Any, rest: KeptChoices, n_gone: int) -> None:
        """Let a memory of which an answer was taken out hold what is left of the choices, of which so many are gone."""
        if not len(self._choices):
            return
        before = self._state.memory
        memory.theta[:] = before.theta
        memory.progress["learned"] = before.progress["learned"] - (n_gone or 1)
        memory.progress["warm"] = 0
        for contrasts, _ in rest.contrasts():
            memory.features["scale"] = np.maximum(memory.features["scale"], np.abs(contrasts).max(axis=0))

    def _with_sets(
        self, rest: KeptChoices, rows: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The rows and weights that M is the sum of, for pairs and the rest of the choices."""
        more = [set_contrasts(contrasts, weight) for contrasts, weight in rest.contrasts()]
        all_rows = np.concatenate([rows, *more])
        return all_rows, np.append(weights, np.ones(len(all_rows) - len(rows)))

    if TYPE_CHECKING:  # what a policy has besides
        _is_noted: bool

        def _look_closely(self, arms: Arms) -> tuple[NDArray[np.float64], Names | None]: ...

        def _choose_with_care(
            self, contexts: Any, n_arms: int, rows: NDArray[np.int64] | None = None, chooser: Any = None
        ) -> int: ...

        def _learn(self, asked: Asked, share: float, weight: float, rater: str | int | None) -> None: ...

        def _end_interrupted(self) -> int: ...

        def _catch_up(self) -> None: ...

        def _kept_rater(self, rater: Any) -> str | int | None: ...

        def _kept(self) -> Any: ...

        def _go_back(self, kept: Any) -> None: ...


def set_contrasts(contrasts: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
    """The contrasts (m - 1, d) whose squares M gains by a choice of one out of m.

    ``contrasts`` (m - 1, d) are those of the chosen row with the others. 4 w/m sum_j (x_j - xbar)(x_j - xbar)' is
    sum_h c_h c_h' with Helmert's contrasts c_h, the mean of the first h rows less the next, each times
    sqrt(4 w/m h/(h + 1)). Of two the only one is sqrt(w) z, to the last bit.
    """
    m = len(contrasts) + 1
    before = np.arange(1.0, m)
    rows = np.vstack([np.zeros(contrasts.shape[1]), -contrasts])
    means = np.cumsum(rows[:-1], axis=0) / before[:, np.newaxis]
    return np.sqrt(4.0 * weight / m * (before / (before + 1.0)))[:, np.newaxis] * (means - rows[1:])


def _as_duel(asked: AskedSet) -> Asked:
    """A set of two as the duel that it is."""
    first, second = asked.arms
    contrast = asked.features[0] - asked.features[1]
    duel = Duel(first, second, contrast, asked.duel.round, asked.duel.epoch, *asked.keys)
    return Asked(duel, first * asked.n_arms + second, asked.n_arms, contrast, 1.0)


def _refuse_of_a_duel(first_won: Any, winner: Any, ranking: Any, ties: Any) -> NoReturn:
    """Refuse the answer to a set that was given to a duel, or none at all."""
    for name, value in (("winner", winner), ("ranking", ranking), ("ties", ties)):
        if value is not None:
            raise ValueError(f"{name} is {brief(value)}; of a duel first_won alone is wanted")
    raise ValueError(f"first_won is {brief(first_won)}; True, False or 0.5 is wanted")


def _stages(asked: AskedSet, winner: Any, ranking: Any, ties: Any) -> list[tuple[int, list[int]]]:
    """The choices that an answer is made of, by places in the set."""
    settled = None if ties is None else choice("ties", ties, TIES, " or None")
    if ranking is None:
        if winner is None:
            raise ValueError("winner is None; the best of the arms that were shown, or a ranking, is wanted")
        levels, name = [[_place(asked, "winner", winner)]], "winner"
    else:
        if winner is not None:
            raise ValueError(f"winner is {brief(winner)} and ranking is given as well; one of the two is wanted")
        levels, name = _levels(asked, listed("ranking", ranking)), "ranking"
    named = [place for level in levels for place in level]
    if len(set(named)) < len(named):
        raise ValueError(f"ranking is {brief(ranking)}, with an arm twice; each at most once is wanted")
    rest = [place for place in range(len(asked.duel)) if place not in named]
    stages = stages_of([*levels, rest] if rest else levels, bool(rest), settled, name)
    if not stages:
        raise ValueError(f"ranking is {brief(ranking)}; some of the arms that were shown, best first, are wanted")
    return stages


def _levels(asked: AskedSet, ranking: Iterable[Any]) -> list[list[int]]:
    """The places of a ranking's arms, those of a tie together. A key that is a tuple is no tie."""
    levels = []
    for entry in ranking:
        is_tie = isinstance(entry, (list, tuple)) and _found(asked, entry) is None
        tied = listed("ranking", entry) if is_tie else [entry]
        levels.append([_place(asked, "ranking", arm) for arm in tied])
    if [] in levels:
        raise ValueError("ranking has a tie of no arms; an arm, or those of a tie, is wanted in each place")
    return levels


def _place(asked: AskedSet, name: str, arm: Any) -> int:
    """The place of an arm in a set, by its key, or by its row where arms have none."""
    place = _found(asked, arm)
    if place is None:
        labels, what = (asked.duel.keys, "keys") if asked.duel.keys else (asked.arms, "rows")
        raise ValueError(f"{name} is {brief(arm)}, which was not shown; one of the {what} {brief(labels)} is wanted")
    return place


def _found(asked: AskedSet, arm: Any) -> int | None:
    label, labels = (whole_number(arm), asked.arms) if asked.duel.keys is None else (arm, asked.duel.keys)
    places: dict[Any, int] = {own: place for place, own in enumerate(labels)}
    place = looked_at(places.get, label)
    # to a dict True is the key 1
    return None if place is None or _is_bool(label) != _is_bool(labels[place]) else place


def _is_bool(label: Any) -> bool:
    return isinstance(label, (bool, np.bool_))
