"""The book of the duels that wait for their answer."""

from __future__ import annotations

from fastcolst._checks import brief
from fastcolst.policies.duel import Asked, Duel, name_the_same

__all__ = ["Pending"]


class Pending:
    """A policy's duels that wait for their answer, by round."""

    def __init__(self, policy_id: str) -> None:
        self.policy_id = policy_id
        self._asked: dict[int, Asked] = {}

    def __len__(self) -> int:
        return len(self._asked)

    def add(self, asked: Asked) -> None:
        """Let a duel wait."""
        self._asked[asked.duel.round] = asked

    def drop(self, round_: int) -> bool:
        """Let the duel of a round wait no longer; False when none did."""
        return self._asked.pop(round_, None) is not None

    def known(self, duel: object) -> Asked | None:
        """What is known of the very object that was shown, if it waits; None says to look closely."""
        if type(duel) is not Duel or type(duel.round) is not int:
            return None
        asked = self._asked.get(duel.round)
        return asked if asked is not None and asked.duel is duel else None

    def check_own(self, duel: object, n_rounds: int) -> None:
        """Refuse what is no duel of this policy's, which has had so many rounds.

        Anybody can build a duel of anything, of all types.
        """
        if not isinstance(duel, Duel):
            raise ValueError(f"duel is {brief(duel)}; a Duel returned by select is wanted")
        if type(duel.policy_id) is not str or duel.policy_id != self.policy_id:
            raise ValueError(f"duel is of round {brief(duel.round)} of another policy; wanted one of this policy's own")
        is_shown = type(duel.round) is int and 1 <= duel.round <= n_rounds
        if not (is_shown and type(duel.first) is type(duel.second) is int):
            raise ValueError(f"duel is {brief(duel)}, which this policy never showed; one that it did is wanted")

    def find(self, duel: Duel) -> Asked:
        """What is known of a duel of one's own that waits for its answer."""
        asked = self._asked.get(duel.round)
        if asked is None:
            raise ValueError(
                f"duel of round {duel.round} does not wait for its answer: it was answered already or discarded, or "
                "another copy of this policy showed it; each duel is answered once, to the policy that showed it"
            )
        if duel is not asked.duel and not name_the_same(duel, asked.duel):
            raise ValueError(f"duel of round {duel.round} is not the one that this policy showed in that round")
        return asked
