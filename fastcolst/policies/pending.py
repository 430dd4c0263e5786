"""The book of the duels that wait for their answer, and of what became of the others.

A token is an epoch and a round. Epochs are 64 bits from the operating system: a policy that is constructed, loaded,
copied or forked begins a new one, and so does each policy of a process that was forked, so that no two policies ever
show duels with one token. The book keeps the epochs that it went through, each with its first round; what waited when
a policy was saved or copied may be answered to either.
"""

from __future__ import annotations

import bisect
import os
import secrets
from collections.abc import Collection
from operator import attrgetter
from weakref import WeakSet

from fastcolst._checks import brief, looked_at, plain_text
from fastcolst.policies.duel import (
    AlreadyAnsweredError,
    Asked,
    DiscardedError,
    Duel,
    ForeignDuelError,
    MalformedDuelError,
    PendingDuel,
    name_the_same,
    parsed,
)

__all__ = ["Pending", "Rounds"]


class Rounds:
    """A set of rounds: a bit for each."""

    def __init__(self, bits: bytes = b"") -> None:
        self._bits = bytearray(bits)

    def __contains__(self, round_: int) -> bool:
        byte, bit = divmod(round_, 8)
        return byte < len(self._bits) and bool(self._bits[byte] >> bit & 1)

    def add(self, round_: int) -> None:
        """Add a round. The room doubles where there is none."""
        byte, bit = divmod(round_, 8)
        if byte >= len(self._bits):
            self._bits.extend(bytes(byte + 1))
        self._bits[byte] |= 1 << bit

    def __bytes__(self) -> bytes:
        return bytes(self._bits).rstrip(b"\0")


class Pending:
    """A policy's duels that wait for their answer, by round.

    Parameters
    ----------
    most : int or None
        How many may wait: the oldest is given up when there is one more.
    last : int
        The last round that was shown, before this book began.

    Attributes
    ----------
    epoch : str
        Of the duels to come.
    expired : int
        Duels that were given up because too many waited.
    """

    def __init__(self, most: int | None = None, last: int = 0) -> None:
        self.most = most
        self.expired = 0
        self._last = last
        self._asked: dict[int, Asked] = {}
        self._discarded, self._selves = Rounds(), Rounds()
        self._epochs: list[str] = []
        self._first_rounds: list[int] = []
        self.begin()

    def begin(self) -> None:
        """Begin a new epoch; one in which nothing was shown is forgotten."""
        if self._first_rounds and self._first_rounds[-1] > self._last:
            self._first_rounds.pop(), self._epochs.pop()
        self.epoch = secrets.token_hex(8)
        self._epochs.append(self.epoch)
        self._first_rounds.append(self._last + 1)
        _BOOKS.add(self)

    def __len__(self) -> int:
        return len(self._asked)

    def add(self, asked: Asked) -> None:
        """Note a duel that was shown, and let it wait."""
        self._last = asked.duel.round
        self._asked[self._last] = asked
        if self.most is not None and len(self._asked) > self.most:
            self.discard(next(iter(self._asked)))
            self.expired += 1

    def add_self(self, round_: int) -> None:
        """Note a self-duel, which waits for nothing."""
        self._last = round_
        self._selves.add(round_)

    def drop(self, round_: int) -> bool:
        """Let the duel of a round, which was answered, wait no longer; False when none did."""
        return self._asked.pop(round_, None) is not None

    def drop_all(self, rounds: Collection[int]) -> None:
        """Let the duels of some rounds, which were answered, wait no longer: of all of them, or of none."""
        self._asked = {round_: asked for round_, asked in self._asked.items() if round_ not in rounds}

    def discard(self, round_: int) -> None:
        """Give up the duel of a round, which waits."""
        self._discarded.add(round_)
        del self._asked[round_]

    def listed(self, n_rounds: int) -> list[PendingDuel]:
        """What waits, the oldest first, when there were so many rounds."""
        duels = [asked.duel for asked in self._asked.values()]
        return [
            PendingDuel(duel.token, (duel.first, duel.second), (duel.first_key, duel.second_key), n_rounds - duel.round)
            for duel in duels
        ]

    # --- whose a duel is, and what became of it -------------------------------------------------------------

    def known(self, duel: object) -> Asked | None:
        """What is known of the very object that was shown, if it waits; None says to look closely."""
        if type(duel) is not Duel or type(duel.round) is not int:
            return None
        asked = self._asked.get(duel.round)
        return asked if asked is not None and asked.duel is duel else None

    def find(self, duel: object) -> Asked | None:
        """What is known of a duel, or of a token's, that waits for its answer; None for a self-duel.

        Raises
        ------
        MalformedDuelError, ForeignDuelError, AlreadyAnsweredError, DiscardedError
            It is no duel of this policy's, or waits no longer.
        """
        round_ = self.round_of(duel)
        asked = self._asked.get(round_)
        if asked is not None:
            if isinstance(duel, Duel) and not name_the_same(duel, asked.duel):
                raise ForeignDuelError(
                    f"duel of round {round_} is not the one that this policy showed in that round; that one is wanted"
                )
            return asked
        if round_ in self._selves:
            return None
        if round_ in self._discarded:
            many = f", or the oldest when more than max_pending={self.most} waited" if self.expired else ""
            raise DiscardedError(
                f"duel of round {round_} was given up and does not wait for its answer: it was discarded{many}; one "
                "that waits is wanted"
            )
        raise AlreadyAnsweredError(
            f"duel of round {round_} was answered already and does not wait for its answer; one that waits is wanted"
        )

    def round_of(self, duel: object) -> int:
        """The round in which a policy showed a duel, or the duel of a token. Anybody can build one of anything.

        Raises
        ------
        MalformedDuelError, ForeignDuelError
            It is none, or this policy never showed it.
        """
        text = plain_text(duel)
        if text is None and not isinstance(duel, Duel):
            raise MalformedDuelError(f"duel is {brief(duel)}; a Duel returned by select, or its token, is wanted")
        place = parsed(looked_at(attrgetter("token"), duel, "") if text is None else text)
        if place is None and text is not None:
            raise MalformedDuelError(f"duel is {brief(text)}; a Duel's token, 16 hexadecimal digits-round, is wanted")
        if place is not None and place[0] not in self._epochs:
            raise ForeignDuelError(f"duel is {brief(duel)}, of another policy; one of this policy's own is wanted")
        epoch, round_ = place or ("", 0)
        number = bisect.bisect_right(self._first_rounds, round_) - 1
        if number < 0 or self._epochs[number] != epoch or round_ > self._last:
            raise ForeignDuelError(
                f"duel is {brief(duel)}, which this policy never showed (another copy of it may have); one that it did "
                "is wanted"
            )
        return round_


_BOOKS: WeakSet[Pending] = WeakSet()


def _begin_all() -> None:
    for book in list(_BOOKS):
        book.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)
