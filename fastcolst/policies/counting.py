"""Pairs that wait for their answer count in the widths as if they were answered: ``count_pending=True``.

Widths do not depend on who wins, so that the M of the future is known (GP-BUCB: Desautels, Krause, Burdick 2014).

The policy's own M is of what was learned, as it always is: exploration, answers, logs, retractions and files know
nothing of pairs that wait. Choices are made by a second M (and H, where the policy chooses by it) in which the pairs
that wait are counted as well. It is made where a choice comes while something waits, and no longer than that: with
answers at once there is none, and every bit is as without. In between a pair that is shown is added to it, an answer
leaves it as it is, and what is given up is taken out again, or all is added up anew where that would cost digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import answer, number
from fastcolst.kernels.selection import all_moderate
from fastcolst.policies.duel import Asked
from fastcolst.policies.packing import fitting
from fastcolst.policies.pending import Pending
from fastcolst.policies.position import shown_first
from fastcolst.policies.robust import trust_entry
from fastcolst.policies.shown import AskedSet
from fastcolst.policies.simulated import Simulated

__all__ = ["Counted", "Counting", "copies"]

Counted = list[NDArray[np.float64]]
"""M, its factor and perhaps that of H, see ``_matrices_of``, with all pairs that wait counted in; changed in place."""


def copies(matrices: Counted) -> Counted:
    """The same matrices in arrays of their own."""
    return [matrix.copy() for matrix in matrices]


class CountedState(NamedTuple):
    """The policy's state with the counted matrices in place of its own, kept until one of the two is another object.

    matrices, base: the counted matrices, and the policy's state. state, agent: what they make together, and what
    chooses by it.
    """

    matrices: Counted
    base: Any
    state: Any
    agent: Any


class Counting(Simulated):
    """What a policy chooses by while pairs wait for their answer."""

    _pending: Pending
    _counted: Counted | None = None
    _answering: Any
    _is_informed: Any = False

    def _pairs_count(self) -> bool:
        """Whether pairs that wait count in M: not as long as M itself says when the exploration ends."""
        if not (self._counts_pending and len(self._pending)):
            return False
        counters = self._state.counters
        return bool(counters["factored"] and (counters["exploration_end"] >= 0 or not counters["enough"]))

    def _begin_counting(self) -> None:
        """Read the parameters by which pairs count; nothing waits yet."""
        self._counts_pending = answer(self._parameters.get("count_pending", False), "count_pending")
        alpha = self._parameters.get("robust")
        self._alpha = None if alpha is None else number("robust", alpha, positive=True)
        self._is_plain = alpha is None and not self._counts_pending
        self._counted = None

    # --- choosing -------------------------------------------------------------------------------------------

    def _chosen_beside(self, contexts: Any, largest: float, round_: int, rows: Any, chooser: Any) -> int:
        """Choose by M with the pairs that wait; a failure leaves what was known of it as it was."""
        if self._answering is not None:
            self._end_interrupted()  # what was learned waits no longer, and would count twice
        counted = self._counted
        try:
            # what is refused must not have brought theta up to date
            is_sound = counted is not None or chooser is not None or all_moderate(contexts, largest)
            if counted is None and is_sound and self._pairs_count():
                if self._is_informed:
                    self._refresh_estimate()
                self._counted = self._with_waiting(self._state)
            # the policy's own agent stays where it is, whenever Ctrl-C may come
            agent = self._agent if self._counted is None else self._with_counted(self._counted).agent
            return self._chosen_among(contexts, largest, round_, rows, chooser, agent)
        except BaseException:
            self._counted = counted
            raise

    def _state_of(self, agent: Any) -> Any:
        """The state that an agent of this policy chooses by."""
        made = self._counted_state
        return self._state if made is None or made.agent is not agent else made.state

    def _with_waiting(self, state: Any) -> Counted:
        """The matrices of a state whose theta is up to date, copies in which the pairs that wait are counted."""
        own = self._matrices_of(state)
        matrices = copies(own)
        self._count_beside(_replaced(state, own, matrices), self._pending.waiting(), 1.0)
        return matrices

    def _with_counted(self, counted: Counted) -> CountedState:
        """The policy's state with the counted matrices in place of its own."""
        made = self._counted_state
        if made is None or made.matrices is not counted or made.base is not self._state:
            state = _replaced(self._state, self._matrices_of(self._state), counted)
            made = self._counted_state = CountedState(counted, self._state, state, self._agent_with(self._rule, state))
        return made

    # --- what happens to pairs ------------------------------------------------------------------------------

    def _show_and_count(self, *shown: Any) -> Asked:
        """Show a duel, see :meth:`Pending.show`, and count it in."""
        pending = self._pending
        counted = self._take_counted() if len(pending) else None
        if counted is None:
            self._counted = None  # of what waits no longer
            return pending.show(*shown)
        oldest, n_expired = pending.oldest_if_full(), pending.expired
        asked = pending.show(*shown)
        if oldest is not None and pending.expired > n_expired:
            counted = self._counted_after(counted, oldest, -1.0) if pending.expired == n_expired + 1 else None
        if asked.duel.first != asked.duel.second:
            counted = self._counted_after(counted, asked, 1.0)
        self._counted = counted
        return asked

    def _give_up(self, asked: Asked | AskedSet) -> None:
        """Give up what waits, and take a duel out that was counted in."""
        counted = self._take_counted()
        self._pending.discard(asked.duel.round)
        if counted is not None and isinstance(asked, Asked):
            self._counted = self._counted_after(counted, asked, -1.0)

    def _trust(self, alpha: float, code: int, n_arms: int, contrast: NDArray[np.float64]) -> float:
        """The weight of an ordinary answer to a pair; see :mod:`fastcolst.policies.robust`."""
        counted, state = self._counted if len(self._pending) else None, self._state
        if self._is_exploring and not state.counters["factored"]:
            return 1.0
        factor = self._factor_for(
            code // (n_arms * n_arms), state if counted is None else self._with_counted(counted).state
        )
        if factor is None:
            return 1.0
        z = shown_first(contrast) if self._position else contrast
        return trust_entry()(alpha, factor, z, state.scratch[0])

    def _take_counted(self) -> Counted | None:
        """What was counted, to be changed in place: until it is put back nothing is, so that Ctrl-C costs no more."""
        counted = self._counted
        if counted is not None:
            self._counted = None
        return counted

    def _counted_after(self, counted: Counted | None, asked: Asked, times: float) -> Counted | None:
        """What is counted when a pair counts so many times more (less, if negative); None: add all up anew."""
        if counted is None or times == 0.0:
            return counted
        if self._is_informed and times < 0.0:
            return None
        is_done = self._count_beside(self._with_counted(counted).state, [asked], times)
        return counted if is_done else None

    # --- files ----------------------------------------------------------------------------------------------

    def _counted_arrays(self) -> dict[str, NDArray[Any]]:
        """What a file holds of it, by name."""
        if self._counted is None or not len(self._pending):
            return {}
        return {f"counted.{place}": matrix for place, matrix in enumerate(self._counted)}

    def _restore_counted(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what :meth:`_counted_arrays` gave, if the file has it.

        Raises
        ------
        ValueError
            It is nothing of such a policy.
        """
        if "counted.0" not in set(arrays):
            return
        if not self._pairs_count():
            raise ValueError("it counts pairs that wait, and has none that count; count_pending=True is wanted")
        own = self._matrices_of(self._state)
        names = [f"counted.{place}" for place in range(len(own))]
        matrices = [
            fitting(arrays[name], name, np.float64, matrix.shape) for name, matrix in zip(names, own, strict=True)
        ]
        if not all(np.isfinite(matrix).all() for matrix in matrices):
            raise ValueError("its counted pairs have a number that cannot be; finite ones are wanted")
        self._counted = copies(matrices)

    # --- what policies with an estimate know ----------------------------------------------------------------

    def _matrices_of(self, state: Any) -> list[NDArray[np.float64]]:
        """M, its factor and, where the policy chooses by it, that of H: the state's own arrays."""
        return []

    def _factor_for(self, note: int, state: Any) -> NDArray[np.float64] | None:
        """The factor of the M that the answer to a choice with this note teaches; None where it teaches none."""
        return None

    def _count_beside(self, state: Any, duels: list[Asked], times: float) -> bool:
        """Add so many times each duel's z z' to a state's matrices.

        A negative number takes as much of a single duel out; False, and nothing is changed, where that costs digits.
        """
        return True

    if TYPE_CHECKING:  # what a policy has besides

        def _chosen_among(
            self, contexts: Any, largest: float, round_: int, rows: Any = None, chooser: Any = None, agent: Any = None
        ) -> int: ...

        def _end_interrupted(self) -> int: ...


def _replaced(part: Any, old: list[NDArray[Any]], new: list[NDArray[Any]]) -> Any:
    """A state with other arrays in the places of some.

    Raises
    ------
    TypeError
        One of them has no place in it.
    """
    places = {id(before): after for before, after in zip(old, new, strict=True)}
    found = set()

    def walk(part: Any) -> Any:
        if isinstance(part, tuple):
            return type(part)(*map(walk, part))
        if id(part) in places:
            found.add(id(part))
        return places.get(id(part), part)

    state = walk(part)
    if len(found) < len(places):
        raise TypeError(
            "information_factor of the estimator returns what is none of its memory's arrays; one of them is wanted "
            "with count_pending=True"
        )
    return state
