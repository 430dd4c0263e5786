"""What a policy learned, where its estimator keeps it: a log of it, and an answer taken out again."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import LARGEST
from fastcolst._compile import kernel
from fastcolst.estimation.protocol import kept, without
from fastcolst.estimation.words import name_of
from fastcolst.kernels.linalg import add_contrast, inverse_factor
from fastcolst.policies.raters import checked_rater

if TYPE_CHECKING:
    from fastcolst.data.answers import AnswerLog
    from fastcolst.policies.duel import Duel
    from fastcolst.policies.kept_sets import KeptChoices
    from fastcolst.policies.pending import Pending
    from fastcolst.policies.shown import ShownSet

__all__ = ["Learned", "Remembering"]


Rows = NDArray[np.float64]


class Learned:
    """Which duels the rows of an estimator's history came from, and who answered them.

    Attributes
    ----------
    rounds : array of int64
        For each row the round of its duel, negative where the contrast was turned around since the second arm won; 0
        for a comparison from a log. It may be shorter than the history: rows at its end are then from logs, or of
        simulated rounds, for which nothing is noted before somebody asks.
    raters : dict of round to str or int
        Who answered, where that was told.
    """

    def __init__(self) -> None:
        self.rounds = array("q")
        self.raters: dict[int, str | int] = {}

    def cover(self, n_rows: int) -> None:
        """Note that the first so many rows, where nothing is noted of them yet, are no answers to duels."""
        missing = n_rows - len(self.rounds)
        if missing > 0:
            self.rounds.frombytes(bytes(8 * missing))

    def note(self, round_: int, share: float, rater: str | int | None, n_rows: int) -> None:
        """Note the answer to a duel, whose rows are those that a history of so many has beyond what is noted.

        There is none for a zero contrast, of which nothing is learned. Noted twice it is noted once: where Ctrl-C came
        in between, the second time tells the rest. Both rows of a tie are noted at once: one alone would be a win.
        """
        rounds = self.rounds
        n_new = n_rows - len(rounds)
        if n_new > 1:
            rounds.extend((round_, -round_))
        elif n_new > 0:
            rounds.append(round_ if share else -round_)
        if rater is not None and rounds and abs(rounds[-1]) == round_:
            self.raters[round_] = rater

    def rewind(self, n_rows: int) -> None:
        """Forget what was noted since there were so many rows."""
        for round_ in self.rounds[n_rows:]:
            self.raters.pop(abs(round_), None)
        del self.rounds[n_rows:]

    def rows_of(self, round_: int) -> tuple[int, int]:
        """The rows of a duel's answer, from the first up to the second number; none where these are equal."""
        places = np.flatnonzero(np.abs(np.frombuffer(self.rounds, np.int64)) == round_)
        return (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)

    def without(self, start: int, stop: int) -> Learned:
        """The same without the rows of an answer; this one stays as it is."""
        rest = Learned()
        rest.rounds = self.rounds[:start] + self.rounds[stop:]
        gone = abs(self.rounds[start])
        rest.raters = {round_: rater for round_, rater in self.raters.items() if round_ != gone}
        return rest

    def without_first(self, n_rows: int) -> Learned:
        """The same without so many rows at the beginning; this one stays as it is."""
        rest = Learned()
        rest.rounds = self.rounds[n_rows:]
        left = set(map(abs, rest.rounds))
        rest.raters = {round_: rater for round_, rater in self.raters.items() if round_ in left}
        return rest

    # --- files ----------------------------------------------------------------------------------------------

    ARRAYS = "rounds", "rated", "raters"

    def packed(self) -> dict[str, NDArray[Any]]:
        """The arrays that :meth:`unpack` takes: rounds, rounds with a rater, and these, a line of JSON for each."""
        lines = "\n".join(map(json.dumps, self.raters.values()))
        return {
            "rounds": np.array(self.rounds, np.int64),
            "rated": np.array(list(self.raters), np.int64),
            "raters": np.frombuffer(lines.encode(), np.uint8),
        }

    def unpack(self, packed: Mapping[str, NDArray[Any]], n_rows: int, n_rounds: int) -> None:
        """Become what was packed, of a policy with so many rows and rounds.

        Raises
        ------
        ValueError
            It is nothing of such a policy.
        """
        for name, kind in zip(self.ARRAYS, (np.int64, np.int64, np.uint8), strict=True):
            if packed[name].dtype != kind or packed[name].ndim != 1:
                raise ValueError(f"learned.{name} is {packed[name].dtype} {packed[name].shape}; {kind} (n,) is wanted")
        rounds, rated = packed["rounds"], packed["rated"]
        asked = np.abs(rounds[rounds != 0])
        is_new = np.append(True, asked[1:] != asked[:-1])[: len(asked)]
        if len(rounds) > n_rows or np.any((asked < 1) | (asked > n_rounds)) or len(set(asked)) < is_new.sum():
            raise ValueError(f"learned.rounds are no rounds of {n_rows} rows and {n_rounds} rounds, as is wanted")
        lines = bytes(packed["raters"]).split(b"\n") if len(rated) else []
        if len(lines) != len(rated) or len(set(rated.tolist()) - set(asked.tolist())) or len(set(rated)) < len(rated):
            raise ValueError(f"learned.rated are {len(rated)} rounds with {len(lines)} raters; as many are wanted")
        self.rounds = array("q", rounds.tobytes())
        self.raters = {int(round_): checked_rater(json.loads(line)) for round_, line in zip(rated, lines, strict=True)}


@kernel
def add_rows(contrasts: Any, weights: Any, gram: Any, factor: Any, work: Any) -> None:
    """Add comparisons to M and to its factor, in their order, as they were added when they were learned.

    contrasts (m, d), weights (m,); gram and factor (d, d) are changed, work (3, d) is overwritten. O(m d^2). The factor
    is of no use, and to be left zero, where M is not invertible from the start.
    """
    weighted = work[2]
    for row in range(contrasts.shape[0]):
        root = np.sqrt(weights[row])
        for k in range(contrasts.shape[1]):
            weighted[k] = root * contrasts[row, k]
        add_contrast(gram, factor, weighted, work[:2])


class Remembering:
    """What a policy does with all that it learned, where its estimator keeps it."""

    _lock: Any
    _rule: Any
    _state: Any
    _pending: Pending
    _learned: Learned
    _choices: KeptChoices
    _n_kept: NDArray[np.int64] | None
    _names: Any
    _is_exploring: bool
    _largest: float
    _ridge: float
    _position: bool
    _map: Any

    def history(self) -> AnswerLog:
        """The log of what was learned: each answer with its weight, its rater and its duel's token, in their order.

        Returns
        -------
        AnswerLog
            A :class:`fastcolst.Log`, a copy, of pairs: :meth:`choices` has the answers to sets of more than two. Duels
            stand as they were shown; of a comparison from a log the winner comes first, unless ``position=True``, and a
            tie from a log is a win and a loss of half the weight. Where the policy is ``robust`` the weights are those
            by which answers counted; with a ``discount`` they are what is left of them, and answers of which next to
            nothing is left are gone, as all are whose weight is 0 to the last digit: a fit of this log is the estimate.

        Raises
        ------
        AttributeError
            The estimator forgets what it learned: SGD at once, OnlineNewton all but its first ``history`` comparisons.
        ValueError
            Nothing was learned yet, or nothing that still has a weight.

        Examples
        --------
        >>> import numpy as np, fastcolst as fc
        >>> policy = fc.CoLSTIM(2, rng=1)
        >>> policy.update(policy.select(np.eye(2)), True, rater="ann")
        >>> policy.update(policy.select(np.eye(2)), 0.5, weight=2.0, rater="bob")
        >>> log = policy.history()
        >>> log.wins.tolist(), log.weights.tolist(), log.raters
        ([1.0, 0.5], [1.0, 2.0], ('ann', 'bob'))
        """
        from fastcolst.data.answers import AnswerLog  # most policies are never asked

        with self._lock:
            self._need_rows("history")
            rows, weights = kept(self._rule.estimator, self._state.memory)
            counts = weights > 0.0  # both halves of a tie have one weight
            rows, weights = rows[counts], weights[counts]
            if not len(rows):
                sets = f" of pairs, and choices has {len(self._choices)} of sets" if len(self._choices) else ""
                raise ValueError(f"history is empty{sets}; a policy that has learned some answers is wanted")
            rounds = np.array(self._learned.rounds, np.int64)[counts]
            raters, turned = dict(self._learned.raters), rounds < 0
            names = self._names if self._map is None else None  # mapped features have none
            if self._position:  # who was shown first is known of all
                rows, turned = rows[:, :-1], rows[:, -1] < 0.0
            tokens = {int(r): self._pending.token_of(int(r)) for r in np.unique(np.abs(rounds))}
        # of a tie the half that the second arm won comes right after the other
        is_tie = np.append((rounds[:-1] > 0) & (rounds[1:] == -rounds[:-1]), False)
        is_rest = np.append(False, is_tie[:-1])
        totals = weights + np.append(np.where(is_tie[:-1], weights[1:], 0.0), 0.0)
        wins = np.where(turned, 0.0, np.where(is_tie, weights / totals, 1.0))
        contrasts = np.where(turned[:, np.newaxis], -rows, rows)
        asked = np.abs(rounds[~is_rest]).tolist()
        return AnswerLog.of(
            contrasts[~is_rest],
            wins[~is_rest],
            features=None if names is None else [str(name) for name in names],
            weights=totals[~is_rest],
            raters=tuple(raters.get(round_) for round_ in asked),
            tokens=tuple(tokens[round_] for round_ in asked),
        )

    def retract(self, duel: Duel | ShownSet | str) -> None:
        """Take an answer out again: the estimate and M are as if it had never been learned.

        Parameters
        ----------
        duel : Duel, ShownSet or str
            One that was answered, or its token. It cannot be answered again.

        Raises
        ------
        AttributeError
            The estimator forgets what it learned, so that no answer can be taken out of it; see :meth:`history`.
        ForeignDuelError, MalformedDuelError
            As for :meth:`update`.
        ValueError
            No answer to the duel was learned: it still waits, was discarded or retracted, or had equal arms; or it is
            so old that with a ``discount`` it is forgotten. The policy is as it was.

        Notes
        -----
        O(m d^2) after m comparisons. theta is found anew, to the estimator's tolerance; M is added up anew, and where
        it is no longer invertible the exploration goes on. With a ``discount`` what was left of the answer is taken
        out, and the others keep their ages.

        Examples
        --------
        >>> import numpy as np, fastcolst as fc
        >>> policy = fc.CoLSTIM(2, ridge=1.0, rng=1)
        >>> duel = policy.select(np.eye(2))
        >>> policy.update(duel, True)
        >>> policy.retract(duel.token)
        >>> policy.theta.tolist(), policy.gram.tolist()
        ([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
        """
        with self._lock:
            self._need_rows("retract")
            round_ = self._pending.round_of(duel)
            start, stop = self._learned.rows_of(round_)
            choices = self._choices.without(round_)
            n_gone = len(self._choices) - len(choices)
            if start == stop and not n_gone:
                raise ValueError(
                    f"duel of round {round_} has taught nothing: it waits for its answer, was discarded, retracted or "
                    "forgotten, or had equal arms; one that was answered is wanted"
                )
            rule, state = self._rule, self._state
            memory = without(rule.estimator, state.memory, start, stop)
            self._recount(memory, choices, n_gone)
            gram, factor = self._added_up(*self._with_sets(choices, *kept(rule.estimator, memory)))
            changed = state._replace(counters=state.counters.copy(), memory=memory, gram=gram, factor=factor)
            changed.counters["answered"] -= 1
            changed.counters["faded"] -= 1  # the others' ages go on
            if changed.estimate_is_stale(rule, True):
                self._refresh(changed, choices)
            before = vars(self).copy()
            try:
                self._choices = choices
                if start < stop:
                    self._learned = self._learned.without(start, stop)
                self._start(rule, changed)
                self._note_what_is_known()
            except BaseException:  # Ctrl-C: of what was before nothing has changed in place
                vars(self).update(before)
                raise

    def _need_rows(self, name: str) -> None:
        """Refuse a method where the estimator keeps no rows of what it learns; note whose they are where it does."""
        if self._n_kept is None:
            estimator = name_of(self._rule.estimator)
            raise AttributeError(
                f"{type(self).__name__} with {estimator} has no {name}: it does not keep all that it learns; "
                "a policy with a single estimate and estimator=fc.MLE() is wanted"
            )
        self._catch_up()

    def _added_up(
        self, contrasts: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """M of some comparisons, and its factor: zeros where M is not invertible, or was not wanted to be yet."""
        d = len(self._state.gram)
        gram = self._ridge * np.eye(d)
        factor = np.eye(d) / np.sqrt(self._ridge) if self._ridge > 0.0 else np.zeros((d, d))
        add_rows(contrasts, weights, gram, factor, np.empty((3, d)))
        if self._ridge == 0.0:
            found = inverse_factor(gram) if self._state.counters["factored"] else None
            factor = np.zeros((d, d)) if found is None else found
        return gram, factor

    def _note_what_is_known(self) -> None:
        """Go on exploring where M, which lost something, is not invertible any longer."""
        state = self._state
        self._counted = None
        counters, is_known = state.counters, bool(state.factor.any())
        if counters["factored"] and not is_known:
            counters["exploration_end"] = -1
        counters["factored"] = is_known
        counters["untested"] = not is_known
        self._is_exploring = bool(counters["exploration_end"] < 0)
        self._largest = self._largest_allowed() if is_known else LARGEST

    if TYPE_CHECKING:  # what a policy has besides

        def _start(self, rule: Any, state: Any) -> None: ...

        def _catch_up(self) -> None: ...

        _counted: Any

        def _refresh(self, state: Any, kept: KeptChoices | None = None) -> None: ...

        def _recount(self, memory: Any, rest: KeptChoices, n_gone: int) -> None: ...

        def _with_sets(self, rest: KeptChoices, rows: Rows, weights: Rows) -> tuple[Rows, Rows]: ...

        def _largest_allowed(self) -> float: ...
