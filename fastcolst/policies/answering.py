"""Answers to several duels at once, of which all are learned or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MappingView, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst._checks import brief, looked_at, outcome, positive_numbers
from fastcolst._compile import direct
from fastcolst.estimation.memory import rewind, snapshot
from fastcolst.estimation.protocol import LEARNED, OVERFLOW
from fastcolst.policies.counting import Counted, Counting, copies
from fastcolst.policies.duel import Asked, Duel
from fastcolst.policies.kernels import learn_answer
from fastcolst.policies.learned import Learned
from fastcolst.policies.pending import Pending
from fastcolst.policies.position import shown_first
from fastcolst.policies.raters import checked_rater

__all__ = ["Answering", "AtWork", "is_tiny", "overflow"]


class Answer(NamedTuple):
    """What a duel that waited is answered: the first arm's share of the win, how much that counts, and by whom."""

    asked: Asked
    share: float
    weight: float
    rater: str | int | None


class AtWork(NamedTuple):
    """An update at work, of which Ctrl-C may leave half to be noted.

    round: of the duel. n_before: how many answers were learned before it. share, rater: as in :class:`Answer`.
    """

    round: int
    n_before: int
    share: float
    rater: str | int | None


class Kept(NamedTuple):
    """All that learning changes, to go back to.

    state: a snapshot. largest, learned, counted: the policy's own, the last of which a copy takes the place of.
    n_noted: of how many rows it was known whose they are; is_noted: whether of all, as ``_is_noted`` said.
    """

    state: Any
    largest: float
    learned: Learned
    n_noted: int
    is_noted: bool
    counted: Counted | None


SMALLEST_SIZE = 1e-150
"""Of smaller numbers the squares have few digits or none: steps in units of features' sizes then overflow."""


def overflow(duel: Duel, weight: float) -> ValueError:
    """What there is to say where numbers would overflow."""
    wanted = "larger features" if is_tiny(duel.contrast) else "smaller features or a smaller weight"
    return ValueError(
        f"duel of round {duel.round}: with its contrast and weight {weight:g} the estimate overflows; {wanted} are "
        "wanted"
    )


def is_tiny(contrast: NDArray[np.float64]) -> bool:
    """Whether a feature so small that its square is lost is what makes an estimate overflow, as far as that shows."""
    sizes = np.abs(contrast[contrast != 0.0])
    return bool(sizes.min(initial=np.inf) < SMALLEST_SIZE and sizes.max(initial=0.0) < 1.0 / SMALLEST_SIZE)


class Answering(Counting):
    """What a policy does with a batch of answers."""

    _pending: Pending
    _learned: Learned
    _n_kept: NDArray[np.int64] | None = None
    """How many rows the estimator keeps of all that was learned; None where it does not keep all."""
    _answering: AtWork | None
    _is_noted: bool
    _largest: float
    _fading: Any = None
    """How what was learned comes to count less; None where it does not."""

    def update_batch(
        self,
        duels: Sequence[Duel | str],
        answers: Sequence[float],
        weights: ArrayLike | None = None,
        raters: Sequence[str | int | None] | None = None,
    ) -> None:
        """Learn the answers to several duels, in their order: all of them, or none.

        Parameters
        ----------
        duels : m of Duel or str
            As for :meth:`Policy.update`, no duel twice; self-duels may be among them, and teach nothing.
        answers : m of bool, or of 1, 0 and 0.5
            Whether the first arm won.
        weights : (m,) array_like of positive numbers, optional
            How much each answer counts; None: 1.
        raters : m of str, int or None, optional
            Who gave each answer; see :meth:`Policy.update`.

        Raises
        ------
        ValueError
            As for :meth:`Policy.update`, and for different numbers of duels and answers. The policy is then as it was.

        Examples
        --------
        >>> import numpy as np, fastcolst as fc
        >>> policy = fc.CoLSTIM(2, ridge=1.0, rng=1)
        >>> duels = [policy.select(np.eye(2)) for _ in range(3)]
        >>> policy.update_batch(duels, [True, 0.5, False])
        >>> policy.pending
        0
        """
        shown, told = listed("duels", duels), listed("answers", answers)
        shares = [outcome(value, f"answers[{i}]") for i, value in enumerate(told)]
        m = len(shown)
        if len(shares) != m:
            raise ValueError(f"answers has {len(shares)} entries for {m} duels; one for each is wanted")
        counted = [1.0] * m if weights is None else positive_numbers("weights", weights, m).tolist()
        by = [None] * m if raters is None else listed("raters", raters)
        if len(by) != m:
            raise ValueError(f"raters has {len(by)} entries for {m} duels; one for each is wanted")
        by = [self._kept_rater(rater) for rater in by]
        with self._lock:
            self._end_interrupted()  # what was learned waits no longer
            batch = self._waiting(zip(shown, shares, counted, by, strict=True))
            kept, book = self._kept(), self._pending.kept()
            self._catch_up()
            try:
                for answer in batch.values():
                    self._learn(*answer)
                    if self._is_exploring:  # it may have been the last answer that was wanted for that
                        self._end_exploration()
                self._pending.drop_all(batch)
            except BaseException:
                self._pending.go_back(book)
                self._go_back(kept)
                raise

    def _waiting(self, answers: Iterable[tuple[Duel | str, float, float, str | int | None]]) -> dict[int, Answer]:
        """Those of the answers for which a duel waits, by round; the others are to self-duels."""
        batch: dict[int, Answer] = {}
        for duel, share, weight, rater in answers:
            asked = self._pending.known(duel) or self._pending.find(duel)
            if asked is None:
                continue
            round_ = asked.duel.round
            if round_ in batch:
                raise ValueError(f"duels has that of round {round_} twice; each once is wanted")
            batch[round_] = Answer(asked, share, weight, rater)
        return batch

    def _learn(self, asked: Asked, share: float, weight: float, rater: str | int | None) -> None:
        """Learn one answer, and note who gave it."""
        contrast = shown_first(asked.contrast) if self._position else asked.contrast
        counts, counted = (weight, None) if self._is_plain else (asked.weight * weight, self._take_counted())
        try:
            while True:
                if self._direct_learn is None:
                    values = asked.code, asked.n_arms, contrast, share, counts
                    self._direct_learn = direct(learn_answer, self._agent, *values)
                code = self._direct_learn(self._agent, asked.code, asked.n_arms, contrast, share, counts)
                if code == LEARNED:
                    break
                if code == OVERFLOW:
                    self._answering = None
                    raise overflow(asked.duel, weight)
                self._make_ready(code, 1)
        except Exception:  # nothing was learned
            if counted is not None:
                self._counted = counted
            raise
        if self._n_kept is not None:
            self._learned.note(asked.duel.round, share, rater, self._n_kept.item())
        if counted is not None and not self._is_informed:  # every answer changes all of H
            self._counted = self._counted_after(counted, asked, weight - 1.0)
        if self._fading is not None:
            self._forget_if_due()

    def _end_interrupted(self) -> int:
        """End an update that Ctrl-C stopped: where the kernel had learned the answer, note that.

        Returns the round that waits no longer for its answer, or 0 where there is none.
        """
        interrupted, ended = self._answering, 0
        if interrupted is not None and self._answered.item() > interrupted.n_before:
            round_, share, rater = interrupted.round, interrupted.share, interrupted.rater
            if self._n_kept is not None:
                self._learned.note(round_, share, rater, self._n_kept.item())
            if self._fading is not None:
                self._forget_if_due()
            ended = round_ if self._pending.drop(round_) else 0
            self._counted = None  # where it was counted as one that waits
        self._answering = None  # at last: Ctrl-C may come here too
        return ended

    def _learn_unasked(self) -> None:
        self._end_interrupted()
        self._is_noted = False
        self._counted = None

    def _catch_up(self) -> None:
        """Note whose all rows of the history are: those of which nothing is noted are no answers to duels."""
        self._end_interrupted()
        if self._n_kept is not None:
            self._learned.cover(self._n_kept.item())
        self._is_noted = True

    def _kept_rater(self, rater: Any) -> str | int | None:
        """Who answered, checked; refused where it could not be kept."""
        name = None if rater is None else checked_rater(rater)
        if name is not None and self._n_kept is None:
            raise ValueError(
                f"rater is {brief(rater)}; {type(self).__name__} keeps no history that could tell who answered, and "
                "None is wanted: only a policy with a single estimate and estimator=fc.MLE() does"
            )
        return name

    def _kept(self) -> Kept:
        """All that learning changes, to go back to."""
        self._end_interrupted()
        counted = self._counted
        if counted is not None:
            self._counted = copies(counted)
        n_noted = len(self._learned.rounds)
        return Kept(snapshot(self._state), self._largest, self._learned, n_noted, self._is_noted, counted)

    def _go_back(self, kept: Kept) -> None:
        """Forget what was learned since."""
        self._largest, self._learned = kept.largest, kept.learned
        if self._counts_pending:
            self._counted = kept.counted
        self._is_noted = False  # until all is as it was: Ctrl-C may come here too
        self._learned.rewind(kept.n_noted)
        rewind(kept.state)
        self._start(self._rule, kept.state)
        self._is_noted = kept.is_noted

    if TYPE_CHECKING:  # what a policy has besides

        def _start(self, rule: Any, state: Any) -> None: ...

        def _make_ready(self, code: int, n_comparisons: int) -> None: ...


def listed(name: str, value: Any) -> list[Any]:
    """A sequence of anything, as a list; a set, which has no order, is none, and no more is a dict."""
    if isinstance(value, (Mapping, AbstractSet)) and not isinstance(value, MappingView):  # a dict's views
        raise ValueError(f"{name} is {brief(value)}, a {type(value).__name__}, not a sequence; a list is wanted")
    found = None if isinstance(value, (str, bytes)) else looked_at(list, value)
    if found is None:
        raise ValueError(f"{name} is {brief(value)}; a list is wanted")
    return found
