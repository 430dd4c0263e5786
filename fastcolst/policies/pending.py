"""The book of the duels that wait for their answer, and of what became of the others.

A token is an epoch and a round. Epochs are 64 bits from the operating system: a policy that is constructed, loaded,
copied or forked begins a new one, and so does each policy of a process that was forked, so that no two policies ever
show duels with one token. The book keeps the epochs that it went through, each with its first round; what waited when
a policy was saved or copied may be answered to either.
"""

from __future__ import annotations

import bisect
import json
import os
import re
import secrets
from collections.abc import Collection, Hashable, Mapping, Sequence
from operator import attrgetter, lt
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import LARGEST, brief, looked_at, plain_text
from fastcolst._compile import plain
from fastcolst.policies.duel import (
    AlreadyAnsweredError,
    Asked,
    DiscardedError,
    Draft,
    Duel,
    ForeignDuelError,
    MalformedDuelError,
    PendingDuel,
    name_the_same,
    parsed,
)
from fastcolst.policies.kernels import decoded
from fastcolst.policies.labels import label_as_json, label_from_json
from fastcolst.policies.shown import AskedSet, ShownSet, packed_sets, shown_again, unpacked_sets

__all__ = ["Pending", "Rounds"]


_new_tuple = tuple.__new__


class Rounds:
    """A set of rounds: a bit for each."""

    def __init__(self, bits: bytes = b"") -> None:
        self._bits = bytearray(bits)

    def __contains__(self, round_: int) -> bool:
        byte, bit = divmod(round_, 8)
        return byte < len(self._bits) and bool(self._bits[byte] >> bit & 1)

    def add(self, round_: int) -> None:
        """Add a round. The room doubles where there is none."""
        byte = round_ >> 3
        if byte >= len(self._bits):
            self._bits.extend(bytes(byte + 1))
        self._bits[byte] |= 1 << (round_ & 7)

    def __bytes__(self) -> bytes:
        return bytes(self._bits).rstrip(b"\0")


COLUMNS = ("round", "first", "second", "note", "n_arms", "n_features")
"""Of the table in which a file holds the duels that wait."""
LONGEST_KEYS = 2**16
"""Characters of the keys of a duel in a file."""
_EPOCH = re.compile(r"[0-9a-f]{16}")


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
    last_self : Duel
        The self-duel that was shown last, known again without a closer look; before there was one, what nobody has.
    """

    ARRAYS = ("discarded", "selves", "waiting", "contrasts", "keys", "sets", "set_features")
    """What is packed as arrays; and ``weights`` where some are not 1."""

    def __init__(self, most: int | None = None, last: int = 0) -> None:
        self.most = most
        self.expired = 0
        self._last = last
        self._asked: dict[int, Asked | AskedSet] = {}
        self._discarded, self._selves = Rounds(), Rounds()
        self.last_self: object = object()
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

    @property
    def n_self_duels(self) -> int:
        """Rounds since this book began in which an arm was shown against itself."""
        return int.from_bytes(bytes(self._selves), "little").bit_count()

    def show(
        self,
        code: int,
        n_arms: int,
        contrast: NDArray[np.float64],
        round_: int,
        keys: Sequence[Hashable] | None = None,
        weight: float = 1.0,
    ) -> Asked:
        """Show the duel of a round's choice, and let it wait, unless it is a self-duel.

        Parameters
        ----------
        code : int
            What :func:`fastcolst.policies.kernels.choose` returned for so many arms.
        contrast : (d,) float64
            x_first - x_second; nobody else's from now on.
        keys : sequence of hashables, optional
            Those of all arms.
        weight : float, default 1.0
            That of an ordinary answer.
        """
        duel: Any = Draft()
        duel.first = first = code // n_arms % n_arms
        duel.second = second = code % n_arms
        duel.round = round_
        duel.epoch = self.epoch
        duel.first_key = duel.second_key = None
        if keys is not None:
            duel.first_key, duel.second_key = keys[first], keys[second]
        duel._source = contrast
        duel.__class__ = Duel
        asked = _new_tuple(Asked, (duel, code, n_arms, contrast, weight))  # in half the time of Asked(...)
        self._last = round_
        if first == second:
            self._selves.add(round_)
            self.last_self = duel
            return asked
        self._asked[round_] = asked
        if self.most is not None:
            self._expire(self.most)
        return asked

    def show_set(
        self,
        arms: Sequence[int],
        keys: tuple[Hashable, ...] | None,
        n_arms: int,
        features: NDArray[np.float64],
        round_: int,
    ) -> AskedSet:
        """Show a set of so many arms, those in some rows, and let it wait; see :meth:`AskedSet.of`."""
        asked = AskedSet.of(arms, keys, n_arms, features, (round_, self.epoch))
        self._last = round_
        self._asked[round_] = asked
        if self.most is not None:
            self._expire(self.most)
        return asked

    def _expire(self, most: int) -> None:
        """Give up the oldest that wait where there are more than so many."""
        while len(self._asked) > most:  # two more, where Ctrl-C came in between
            self.discard(next(iter(self._asked)))
            self.expired += 1

    def begin_copies(self) -> None:
        """Go on in copies: who :meth:`kept` the book can go back to it, whatever is shown meanwhile."""
        self._asked = self._asked.copy()
        self._discarded, self._selves = Rounds(bytes(self._discarded)), Rounds(bytes(self._selves))

    def drop(self, round_: int) -> bool:
        """Let the duel of a round, which was answered, wait no longer; False when none did."""
        return self._asked.pop(round_, None) is not None

    def drop_all(self, rounds: Collection[int]) -> None:
        """Let the duels of some rounds, which were answered, wait no longer: of all of them, or of none."""
        self._asked = {round_: asked for round_, asked in self._asked.items() if round_ not in rounds}

    def kept(self) -> dict[str, Any]:
        """The book, to :meth:`go_back` to: :meth:`drop_all` changes nothing of it in place."""
        return vars(self).copy()

    def go_back(self, kept: dict[str, Any]) -> None:
        """Become the book again that was :meth:`kept`."""
        vars(self).update(kept)

    def waiting(self) -> list[Asked]:
        """The duels that wait, the oldest first."""
        return [asked for asked in self._asked.values() if isinstance(asked, Asked)]

    def oldest_if_full(self) -> Asked | None:
        """The duel that is given up when one more is shown, or None."""
        oldest = next(iter(self._asked.values()), None)
        is_full = self.most is not None and len(self._asked) >= self.most
        return oldest if is_full and isinstance(oldest, Asked) else None

    def discard(self, round_: int) -> None:
        """Give up the duel of a round, which waits."""
        self._discarded.add(round_)
        del self._asked[round_]

    def listed(self, n_rounds: int) -> list[PendingDuel]:
        """What waits, the oldest first, when there were so many rounds."""
        return [
            PendingDuel(asked.duel.token, asked.arms, asked.keys, n_rounds - asked.duel.round)
            for asked in self._asked.values()
        ]

    # --- files ----------------------------------------------------------------------------------------------

    def packed(self) -> dict[str, Any]:
        """The book as arrays and plain data, by name.

        Raises
        ------
        ValueError
            A key of a duel that waits cannot be written.
        """
        waiting = self.waiting()
        sets = [asked for asked in self._asked.values() if isinstance(asked, AskedSet)]
        table = np.zeros((len(waiting), len(COLUMNS)), np.int64)
        for row, asked in zip(table, waiting, strict=True):
            duel = asked.duel
            note = plain(decoded)(asked.code, asked.n_arms).note
            row[:] = duel.round, duel.first, duel.second, note, asked.n_arms, asked.contrast.size
        keys = [
            [label_as_json("first_key", asked.duel.first_key), label_as_json("second_key", asked.duel.second_key)]
            for asked in waiting
        ]
        lines = "\n".join(map(json.dumps, keys)) if any(key != [None, None] for key in keys) else ""
        weights = np.array([asked.weight for asked in waiting])
        return {
            "expired": self.expired,
            "last": self._last,
            "epochs": self._epochs,
            "first_rounds": self._first_rounds,
            "discarded": np.frombuffer(bytes(self._discarded), np.uint8),
            "selves": np.frombuffer(bytes(self._selves), np.uint8),
            "waiting": table,
            "contrasts": np.concatenate([np.empty(0), *(asked.contrast for asked in waiting)]),
            "keys": np.frombuffer(lines.encode(), np.uint8),
            **({"weights": weights} if np.any(weights != 1.0) else {}),
            **packed_sets(sets),
        }

    def unpack(self, packed: Mapping[str, Any], n_rounds: int, n_arms: int | None, n_features: int | None) -> None:
        """Become the book of a policy with so many rounds, arms and features, and begin a new epoch.

        Raises
        ------
        ValueError
            It is no book of such a policy.
        """
        expired, last, epochs, firsts = (packed[name] for name in ("expired", "last", "epochs", "first_rounds"))
        places = [0, *firsts, last + 2]
        increases = all(type(place) is int for place in places) and all(map(lt, places, places[1:]))
        named = all(type(epoch) is str and _EPOCH.fullmatch(epoch) for epoch in epochs)
        if not (type(last) is type(expired) is int and 0 <= last <= n_rounds and 0 <= expired <= last):
            raise ValueError(f"its book counts {brief(last)} rounds and {brief(expired)} expired ones of {n_rounds}")
        if not (increases and named and len(set(epochs)) == len(epochs) == len(firsts) > 0):
            raise ValueError(
                f"its epochs are {brief(epochs)} from the rounds {brief(firsts)} on; one for each is wanted"
            )
        self.expired, self._last, self._epochs, self._first_rounds = expired, last, list(epochs), list(firsts)
        bits = [_bits(packed[name], name, last) for name in ("discarded", "selves")]
        self._discarded, self._selves = map(Rounds, bits)
        self._asked = {}
        table, contrasts, text = packed["waiting"], packed["contrasts"], packed["keys"]
        _check_waiting(table, contrasts, last, n_arms, n_features)
        weights = packed.get("weights", np.ones(len(table)))
        is_share = weights.dtype == np.float64 and weights.shape == (len(table),)
        if not (is_share and np.all((weights > 0.0) & (weights <= 1.0))):
            raise ValueError(
                "its waiting duels have weights that cannot be; numbers from 0 to 1, one for each, are wanted"
            )
        lines = bytes(text).split(b"\n") if len(text) else []
        if lines and len(lines) != len(table):
            raise ValueError(f"its book has keys for {len(lines)} duels and {len(table)} that wait; as many are wanted")
        place = 0
        for number, row in enumerate(table.tolist()):
            round_, first, second, note, n, d = row
            contrast = contrasts[place : place + d].copy()
            place += d
            shown = contrast.copy()
            shown.setflags(write=False)
            keys = _keys(lines[number]) if lines else (None, None)
            duel = Duel(first, second, shown, round_, self._epoch_of(round_), *keys)
            self._asked[round_] = Asked(duel, (note * n + first) * n + second, n, contrast, float(weights[number]))
        for asked in unpacked_sets(packed, last, n_arms, n_features, self._epoch_of):
            if self._asked.setdefault(asked.duel.round, asked) is not asked:
                raise ValueError(f"its round {asked.duel.round} shows a duel and a set; one of the two is wanted")
        self._asked = dict(sorted(self._asked.items()))
        self.begin()

    def _epoch_of(self, round_: int) -> str:
        """The epoch in which a round that was shown lies; an empty text for rounds before all of them."""
        number = bisect.bisect_right(self._first_rounds, round_) - 1
        return self._epochs[number] if number >= 0 else ""

    def token_of(self, round_: int) -> str:
        """The token of the duel that this book's policy showed in a round; an empty text for rounds before it."""
        epoch = self._epoch_of(round_)
        return f"{epoch}-{round_}" if epoch and round_ > 0 else ""

    # --- whose a duel is, and what became of it -------------------------------------------------------------

    def known(self, duel: object) -> Asked | None:
        """What is known of the very object that was shown, if it waits; None says to look closely."""
        if type(duel) is not Duel or type(duel.round) is not int:
            return None
        asked: Any = self._asked.get(duel.round)
        return asked if asked is not None and asked.duel is duel else None

    def find(self, duel: object) -> Asked | None:
        """As :meth:`find_shown`, of two arms; a ValueError for a set."""
        asked = self.find_shown(duel)
        if isinstance(asked, AskedSet):
            raise ValueError(
                f"duel is {brief(duel)}, a set of {len(asked.duel)}; update(shown, winner=...) or ranking=... is wanted"
            )
        return asked

    def find_shown(self, duel: object) -> Asked | AskedSet | None:
        """What is known of a duel or a set, or of a token's, that waits for its answer; None for a self-duel.

        Raises
        ------
        MalformedDuelError, ForeignDuelError, AlreadyAnsweredError, DiscardedError
            It is none of this policy's, or waits no longer.
        """
        round_ = self.round_of(duel)
        asked = self._asked.get(round_)
        if asked is not None:
            if not _is_of(asked, duel):
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
        text = plain_text(duel) or shown_again(duel)
        if text is None and not isinstance(duel, Duel):
            raise MalformedDuelError(f"duel is {brief(duel)}; a Duel returned by select, or its token, is wanted")
        place = parsed(looked_at(attrgetter("token"), duel, "") if text is None else text)
        if place is None and text is not None:
            raise MalformedDuelError(f"duel is {brief(text)}; a Duel's token, 16 hexadecimal digits-round, is wanted")
        if place is not None and place[0] not in self._epochs:
            raise ForeignDuelError(f"duel is {brief(duel)}, of another policy; one of this policy's own is wanted")
        epoch, round_ = place or ("", 0)
        if place is None or self._epoch_of(round_) != epoch or round_ > self._last:
            raise ForeignDuelError(
                f"duel is {brief(duel)}, which this policy never showed (another copy of it may have); one that it did "
                "is wanted"
            )
        return round_


def _is_of(asked: Asked | AskedSet, duel: object) -> bool:
    """Whether what somebody handed back, if it is no token, is what was shown."""
    if isinstance(duel, ShownSet):
        return isinstance(asked, AskedSet) and asked.is_of(duel)
    return not isinstance(duel, Duel) or (isinstance(asked, Asked) and name_the_same(duel, asked.duel))


def _bits(array: NDArray[Any], name: str, last: int) -> bytes:
    if array.dtype != np.uint8 or array.ndim != 1 or array.size > last // 8 + 1:
        raise ValueError(f"its {name} rounds are {array.dtype} {array.shape}; a bit for each of {last} is wanted")
    return array.tobytes()


def _check_waiting(
    table: NDArray[Any], contrasts: NDArray[Any], last: int, n_arms: int | None, n_features: int | None
) -> None:
    """Check the duels that wait: compiled code takes their arms and contrasts as they stand."""
    if table.dtype != np.int64 or table.shape != (len(table), len(COLUMNS)):
        raise ValueError(f"its waiting duels are {table.dtype} {table.shape}; int64 (m, {len(COLUMNS)}) is wanted")
    rounds, first, second, note, n, d = table.T
    good = (
        np.all(np.diff(rounds, prepend=0) > 0)
        and np.all(rounds <= last)
        and np.all((first >= 0) & (second >= 0) & (first < n) & (second < n) & (first != second))
        and np.all((note >= 0) & ((note + 1.0) * n * n < 2.0**62))  # of which a code is made
        and (n_arms is None or np.all(n == n_arms))
        and (np.all(d >= 0) if n_features is None else np.all(d == n_features))
        and contrasts.dtype == np.float64
        and contrasts.shape == (int(d.sum()),)
        and np.all(np.abs(contrasts) <= 2.0 * LARGEST)
    )
    if not good:
        raise ValueError("its waiting duels name arms, rounds or contrasts that cannot be; those shown are wanted")


def _keys(line: bytes) -> tuple[Hashable, Hashable]:
    found = json.loads(line) if len(line) <= LONGEST_KEYS else None
    if type(found) is not list or len(found) != 2:
        raise ValueError(f"the keys of a waiting duel are {brief(line)}; two are wanted")
    return label_from_json(found[0]), label_from_json(found[1])


_BOOKS: WeakSet[Pending] = WeakSet()


def _begin_all() -> None:
    for book in list(_BOOKS):
        book.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)
