"""A set of arms that a policy wants to see the best of, or in their order; and those that wait for their answer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import LARGEST, brief, looked_at, plain_text
from fastcolst.policies.duel import MalformedDuelError, fill_again, parsed
from fastcolst.policies.labels import label_as_json, label_from_json

__all__ = ["AskedSet", "ShownSet", "packed_sets", "shown_again", "unpacked_sets"]


@dataclass(frozen=True, slots=True, eq=False)
class ShownSet:
    """Arms to choose the best of, or to rank, as a policy chose them.

    Two sets are equal when their tokens are: no other set or duel, of any policy, process or day, has this one's.

    Attributes
    ----------
    arms : tuple of int
        Rows of the contexts, all different, in the order in which they were chosen.
    keys : tuple of hashables, or None
        The arms' keys, where the contexts have some.
    features : (k, n_features) float64, read-only
        The arms' contexts.
    round : int
        The policy's round, from 1.
    epoch : str
        As of a :class:`Duel`.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> policy = fc.CoLSTIM(2, ridge=1.0, rng=1)
    >>> shown = policy.select_set(np.eye(4, 2), 3)
    >>> again = fc.ShownSet.from_json(shown.to_json())
    >>> again == shown, len(set(again.arms))
    (True, 3)
    >>> policy.update(again, winner=again.arms[0])
    """

    arms: tuple[int, ...]
    keys: tuple[Hashable, ...] | None
    features: NDArray[np.float64] = field(repr=False)
    round: int
    epoch: str

    def __setstate__(self, values: Sequence[Any]) -> None:
        """Fill a copy, or what comes out of a pickle."""
        fill_again(self, values)

    @property
    def token(self) -> str:
        """A text for this set alone, ``"epoch-round"``, by which it can be answered."""
        return f"{self.epoch}-{self.round}"

    def __len__(self) -> int:
        return len(self.arms)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShownSet):
            return NotImplemented
        return self.token == other.token

    def __hash__(self) -> int:
        return hash(self.token)

    def to_json(self) -> str:
        """The set as a JSON text, which :meth:`from_json` reads; to the last bit.

        Raises
        ------
        ValueError
            A key is no text, number or tuple of these.
        """
        keys = None if self.keys is None else [label_as_json("keys", key) for key in self.keys]
        table = {"token": self.token, "arms": list(self.arms), "keys": keys, "features": self.features.tolist()}
        return json.dumps(table)

    @classmethod
    def from_json(cls, text: str) -> ShownSet:
        """The set that :meth:`to_json` wrote.

        Raises
        ------
        MalformedDuelError
            The text is something else.
        """
        plain = plain_text(text)
        given = None if plain is None else looked_at(json.loads, plain)
        shown = looked_at(_from_table, given) if isinstance(given, dict) else None
        if shown is None:
            raise MalformedDuelError(
                f"text is {brief(text)}; token, arms, keys and features, as ShownSet.to_json wrote them, are wanted"
            )
        return shown


def _from_table(given: dict[str, Any]) -> ShownSet | None:
    """The set of a table that holds exactly the fields, each of its type; None, or whatever it raises, for others."""
    arms, place = given["arms"], parsed(given["token"])
    numbers = np.array(given["features"], np.float64)
    is_good = (
        set(given) == {"token", "arms", "keys", "features"}
        and place is not None
        and type(arms) is list
        and all(type(arm) is int and arm >= 0 for arm in arms)
        and len(set(arms)) == len(arms) > 1
        and all(type(z) is float and math.isfinite(z) for row in given["features"] for z in row)
        and numbers.ndim == 2
        and len(numbers) == len(arms)
    )
    if not is_good or place is None:
        return None
    keys = _keys(given["keys"], len(arms))
    return ShownSet(tuple(arms), keys, _read_only(numbers), place[1], place[0])


def _keys(given: Any, n_arms: int) -> tuple[Hashable, ...] | None:
    """The keys of so many arms, all different, of their JSON; None where they have none."""
    if given is None:
        return None
    keys = tuple(map(label_from_json, given)) if type(given) is list else ()
    if len(set(keys)) != len(keys) or len(keys) != n_arms:
        raise ValueError(f"keys are {brief(given)}; {n_arms} different ones are wanted")
    return keys


def _read_only(features: NDArray[np.float64]) -> NDArray[np.float64]:
    copy = features.copy()
    copy.setflags(write=False)
    return copy


class AskedSet(NamedTuple):
    """A set that waits for its answer.

    duel: what was shown. n_arms: among how many. features (k, d) float64: not those that the set shows, to which its
    holder can get.
    """

    duel: ShownSet
    n_arms: int
    features: NDArray[np.float64]

    @property
    def arms(self) -> tuple[int, ...]:
        """Rows of the contexts."""
        return self.duel.arms

    @property
    def keys(self) -> tuple[Hashable, ...]:
        """The arms' keys; None for each where the contexts had none."""
        return self.duel.keys or (None,) * len(self.duel.arms)

    @classmethod
    def of(
        cls,
        arms: Sequence[int],
        keys: tuple[Hashable, ...] | None,
        n_arms: int,
        features: NDArray[np.float64],
        place: tuple[int, str],
    ) -> AskedSet:
        """A set to show, at the place of a round and an epoch; the features are nobody else's from now on."""
        return cls(ShownSet(tuple(arms), keys, _read_only(features), *place), n_arms, features)

    def is_of(self, shown: ShownSet) -> bool:
        """Whether a set names the arms that were shown, to the last bit. Anybody can build one of anything."""
        return (
            type(shown.arms) is tuple
            and all(type(arm) is int for arm in shown.arms)
            and shown.arms == self.duel.arms
            and isinstance(shown.features, np.ndarray)
            and shown.features.tobytes() == self.features.tobytes()
        )


def shown_again(duel: object) -> str | None:
    """The token of a set that somebody hands back; None for anything else."""
    return looked_at(lambda shown: plain_text(shown.token), duel) if isinstance(duel, ShownSet) else None


# --- files ----------------------------------------------------------------------------------------------------


def packed_sets(waiting: Sequence[AskedSet]) -> dict[str, NDArray[Any]]:
    """Sets that wait as arrays, by name: a JSON text, and all features one after another.

    Raises
    ------
    ValueError
        A key cannot be written.
    """
    table = [
        {
            "round": asked.duel.round,
            "arms": asked.arms,
            "n_arms": asked.n_arms,
            "keys": None if asked.duel.keys is None else [label_as_json("keys", key) for key in asked.duel.keys],
        }
        for asked in waiting
    ]
    return {
        "sets": np.frombuffer(json.dumps(table).encode(), np.uint8),
        "set_features": np.concatenate([np.empty(0), *(asked.features.reshape(-1) for asked in waiting)]),
    }


def unpacked_sets(
    packed: Mapping[str, Any], last: int, n_arms: int | None, n_features: int | None, epoch_of: Callable[[int], str]
) -> Iterator[AskedSet]:
    """The sets of what :func:`packed_sets` gave, of a policy whose last round, arms and features are known.

    Raises
    ------
    ValueError
        They are no sets of such a policy.
    """
    table, numbers, d = json.loads(bytes(packed["sets"])), packed["set_features"], n_features or 0
    if type(table) is not list:
        raise ValueError(f"the sets that wait are {brief(table)}; a list is wanted")
    for entry in table:
        round_, arms, n = (entry[name] for name in ("round", "arms", "n_arms"))
        good = (
            type(round_) is type(n) is int
            and 1 <= round_ <= last
            and n_arms in (None, n)
            and n * n < 2**62  # of which a code is made
            and type(arms) is list
            and all(type(arm) is int and 0 <= arm < n for arm in arms)
            and len(set(arms)) == len(arms) > 1
        )
        if not good:
            raise ValueError(f"a set that waits is {brief(entry)}; a round, arms and keys of this policy are wanted")
    n_rows = sum(len(entry["arms"]) for entry in table)
    if numbers.dtype != np.float64 or numbers.shape != (n_rows * d,) or not np.all(np.abs(numbers) <= LARGEST):
        raise ValueError(
            f"features of the sets that wait are {numbers.dtype} {numbers.shape}; ({n_rows * d},) is wanted"
        )
    place = 0
    for entry in table:
        size = len(entry["arms"]) * d
        features = numbers[place : place + size].copy().reshape(-1, d)
        place += size
        keys = _keys(entry["keys"], len(entry["arms"]))
        yield AskedSet.of(entry["arms"], keys, entry["n_arms"], features, (entry["round"], epoch_of(entry["round"])))
