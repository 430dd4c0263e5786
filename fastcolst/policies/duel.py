"""A duel: two arms that a policy wants to see compared; its token, and what is wrong with one that is handed back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import brief, looked_at, plain_text
from fastcolst.policies.labels import label_as_json, label_from_json

__all__ = [
    "AlreadyAnsweredError",
    "Asked",
    "ChoiceError",
    "DiscardedError",
    "Draft",
    "Duel",
    "ForeignDuelError",
    "MalformedDuelError",
    "PendingDuel",
    "fill_again",
    "name_the_same",
    "no_pair",
    "parsed",
]


class AlreadyAnsweredError(ValueError):
    """The duel was answered before; each is learned once."""


class DiscardedError(ValueError):
    """The duel was given up: it was discarded, or the oldest when more than ``max_pending`` waited."""


class ForeignDuelError(ValueError):
    """The duel is another policy's, or one that this policy never showed."""


class MalformedDuelError(ValueError):
    """What should be a duel, its token or its JSON text is none."""


class ChoiceError(ValueError):
    """A policy chose what is no pair of arms; the message opens with the round."""


def no_pair(rule: object, round_: int, n_arms: int) -> ChoiceError:
    """What there is to say of a rule that chose others than two of so many arms."""
    name = type(rule).__name__
    return ChoiceError(f"round {round_}: {name} chose arms that are not there; two of 0 to {n_arms - 1} are wanted")


_TOKEN = re.compile(r"([0-9a-f]{16})-([1-9][0-9]{0,18})")


def parsed(token: str) -> tuple[str, int] | None:
    """Epoch and round of a token; None for a text that is none."""
    found = _TOKEN.fullmatch(token)
    return None if found is None else (found[1], int(found[2]))


def fill_again(shown: Any, values: Sequence[Any]) -> None:
    """Fill the fields of a copy of what was shown: its arrays are new, and read-only as those before."""
    for one, value in zip(fields(shown), values, strict=True):
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        object.__setattr__(shown, one.name, value)


class Shown:
    """What the contrast of a duel is copied from once somebody asks for it; most never do."""

    __slots__ = ("_source",)
    _source: NDArray[np.float64]


class _CopiedLate:
    """The field ``contrast``: a copy, since who holds a duel can write to what it shows."""

    def __init__(self, slot: Any) -> None:
        self._slot = slot

    def __get__(self, duel: Any, owner: type | None = None) -> Any:
        if duel is None:
            return self._slot
        try:
            return self._slot.__get__(duel)
        except AttributeError:  # nobody has asked before
            contrast = duel._source.copy()
        contrast.setflags(write=False)
        self._slot.__set__(duel, contrast)
        return contrast

    def __set__(self, duel: Any, contrast: Any) -> None:
        self._slot.__set__(duel, contrast)


@dataclass(frozen=True, slots=True, eq=False)
class Duel(Shown):
    """Two arms to compare, as a policy chose them.

    Two duels are equal when their tokens are: no other duel, of any policy, process or day, has this one's.

    Attributes
    ----------
    first, second : int
        Rows of the contexts.
    contrast : (n_features,) float64, read-only
        x_first - x_second.
    round : int
        The policy's round, from 1.
    epoch : str
        16 hexadecimal digits from the operating system, drawn whenever a policy is constructed, loaded, copied or
        forked.
    first_key, second_key : hashable or None
        The arms' keys, where the contexts have some.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> policy = fc.CoLSTIM(2, rng=1)
    >>> duel = policy.select(np.eye(2))
    >>> again = fc.Duel.from_json(duel.to_json())
    >>> again == duel, again.token == duel.token
    (True, True)
    >>> policy.update(again, True)
    """

    first: int
    second: int
    contrast: NDArray[np.float64] = field(repr=False)
    round: int
    epoch: str
    first_key: Hashable = None
    second_key: Hashable = None

    def __setstate__(self, values: Sequence[Any]) -> None:
        """Fill a copy, or what comes out of a pickle."""
        fill_again(self, values)

    @property
    def token(self) -> str:
        """A text for this duel alone, ``"epoch-round"``, by which it can be answered."""
        return f"{self.epoch}-{self.round}"

    @property
    def is_self(self) -> bool:
        """Whether both arms are one; then there is nothing to ask."""
        return self.first == self.second

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Duel):
            return NotImplemented
        return self.token == other.token

    def __hash__(self) -> int:
        return hash(self.token)

    def to_json(self) -> str:
        """The duel as a JSON text, which :meth:`from_json` reads; to the last bit.

        Raises
        ------
        ValueError
            A key is no text, number or tuple of these.
        """
        return json.dumps(
            {
                "token": self.token,
                "first": self.first,
                "second": self.second,
                "first_key": label_as_json("first_key", self.first_key),
                "second_key": label_as_json("second_key", self.second_key),
                "contrast": self.contrast.tolist(),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Duel:
        """The duel that :meth:`to_json` wrote.

        Raises
        ------
        MalformedDuelError
            The text is something else.
        """
        plain = plain_text(text)
        given = None if plain is None else looked_at(json.loads, plain)
        fault, duel = "the JSON object that Duel.to_json wrote", None
        if isinstance(given, dict):
            duel = looked_at(_from_table, given)
            fault = f"{', '.join(_FIELDS)}, as Duel.to_json wrote them,"
        if duel is None:
            raise MalformedDuelError(f"text is {brief(text)}; {fault} is wanted")
        return duel


Duel.contrast = _CopiedLate(vars(Duel)["contrast"])  # type: ignore[assignment, misc]

_FIELDS = ("token", "first", "second", "first_key", "second_key", "contrast")


def _from_table(given: dict[str, Any]) -> Duel | None:
    """The duel of a table that holds exactly the fields, each of its type; None, or whatever it raises, for others."""
    first, second, numbers, place = given["first"], given["second"], given["contrast"], parsed(given["token"])
    is_whole = type(first) is type(second) is int and min(first, second) >= 0
    is_real = type(numbers) is list and all(type(z) is float and math.isfinite(z) for z in numbers)
    if set(given) != set(_FIELDS) or not (is_whole and is_real and numbers) or place is None:
        return None
    contrast = np.array(numbers)
    contrast.setflags(write=False)
    keys = label_from_json(given["first_key"]), label_from_json(given["second_key"])
    return Duel(first, second, contrast, place[1], place[0], *keys)


class Asked(NamedTuple):
    """A duel that waits for its answer.

    code: what :func:`fastcolst.policies.kernels.choose` returned for so many arms. contrast (d,) float64: not the one
    that the duel shows, to which its holder can write. weight: that of an ordinary answer, see ``robust``.
    """

    duel: Duel
    code: int
    n_arms: int
    contrast: NDArray[np.float64]
    weight: float

    @property
    def arms(self) -> tuple[int, int]:
        """Rows of the contexts."""
        return self.duel.first, self.duel.second

    @property
    def keys(self) -> tuple[Hashable, Hashable]:
        """The arms' keys, or None for both."""
        return self.duel.first_key, self.duel.second_key


class Draft(Shown):
    """A duel whose fields may be set still, before it is told that it is a :class:`Duel`.

    To construct a frozen one takes 0.5 us longer, a tenth of a round.
    """

    __slots__ = Duel.__slots__


class PendingDuel(NamedTuple):
    """A duel, or a set, that waits for its answer, as :meth:`Policy.pending_duels` lists it.

    Attributes
    ----------
    token : str
        By which it can be answered or discarded.
    arms : tuple of int
        Rows of the contexts, first and second; of a set all.
    keys : tuple of hashables
        The arms' keys; None where the contexts had none.
    age : int
        Rounds that came after it.
    """

    token: str
    arms: tuple[int, ...]
    keys: tuple[Hashable, ...]
    age: int


def name_the_same(one: Duel, other: Duel) -> bool:
    """Whether both name the same arms with the same contrast, to the last bit. Anybody can build a duel of anything."""
    return (
        type(one.first) is type(one.second) is int
        and (one.first, one.second) == (other.first, other.second)
        and isinstance(one.contrast, np.ndarray)
        and one.contrast.tobytes() == other.contrast.tobytes()
    )
