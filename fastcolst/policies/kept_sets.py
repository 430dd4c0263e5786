"""The choices that sets of more than two taught, where the estimator keeps them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import LARGEST
from fastcolst.estimation.plackett_luce import Choices
from fastcolst.policies.raters import checked_rater

__all__ = ["KeptChoices", "SetAnswers"]


Array = NDArray[np.float64]


class SetAnswers(NamedTuple):
    """What a policy learned from sets of more than two, as :func:`fastcolst.fit_rankings` takes it.

    Attributes
    ----------
    rankings : list of list of int
        ``[0]`` for each choice: the first of its rows was chosen. A ranking is several choices.
    features : list of (m, n_features) float64
        Of each choice those from which was chosen, less the chosen one's: only differences tell anything.
    weights : (n,) float64
        How much each choice counts.
    raters : tuple of str, int or None
        Who made it.
    tokens : tuple of str
        Of the set that was shown; choices of one ranking have one token. ``"before-7"`` for those that a fork brought
        along from its parent's round 7, whose token it does not know.
    """

    rankings: list[list[int]]
    features: list[NDArray[np.float64]]
    weights: NDArray[np.float64]
    raters: tuple[str | int | None, ...]
    tokens: tuple[str, ...]


class Kept(NamedTuple):
    """A choice out of more than two.

    rows (m, d): those from which was chosen, less the chosen one's, which comes first. weight; round: of the set, one
    for all choices of a ranking. rater: who answered, where that was told.
    """

    rows: Array
    weight: float
    round: int
    rater: str | int | None


class KeptChoices:
    """Choices out of more than two that an estimator keeps, in their order.

    One list holds all that there is to each, so that Ctrl-C finds a choice kept or not.
    """

    def __init__(self) -> None:
        self._kept: list[Kept] = []

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Kept]:
        return iter(self._kept)

    def append(self, contrasts: Array, weight: float, round_: int, rater: str | int | None = None) -> None:
        """Keep a choice, of which these are the contrasts (m - 1, d) of the chosen row with the others."""
        rows = np.vstack([np.zeros((1, contrasts.shape[1])), -contrasts])
        self._kept.append(Kept(rows, weight, round_, rater))

    def contrasts(self) -> Iterator[tuple[Array, float]]:
        """The contrasts of each choice, as :meth:`append` took them, and its weight."""
        return ((-kept.rows[1:], kept.weight) for kept in self._kept)

    def rewind(self, n: int) -> None:
        """Forget what was kept since there were so many."""
        del self._kept[n:]

    def without(self, round_: int) -> KeptChoices:
        """The same without those of a round; this one stays as it is."""
        rest = KeptChoices()
        rest._kept = [kept for kept in self._kept if kept.round != round_]
        return rest

    def choices(self) -> Choices:
        """All of them, of which there must be some. O(n d)."""
        each, weights, rounds, _ = zip(*self._kept, strict=True)
        features, sizes = np.concatenate(each), np.array([*map(len, each)])
        starts = np.cumsum(sizes) - sizes
        return Choices(
            features, np.arange(len(features)), starts, starts, np.array(weights), np.array(rounds, np.int64)
        )

    # --- files ----------------------------------------------------------------------------------------------

    ARRAYS = "features", "table"

    def packed(self, n_features: int) -> dict[str, NDArray[Any]]:
        """The arrays that :meth:`unpack` takes: all rows, and a JSON text of the rest."""
        table = {
            "sizes": [len(kept.rows) for kept in self._kept],
            "weights": [kept.weight for kept in self._kept],
            "rounds": [kept.round for kept in self._kept],
            "raters": list({kept.round: kept.rater for kept in self._kept if kept.rater is not None}.items()),
        }
        each = [kept.rows for kept in self._kept]
        return {
            "features": np.concatenate(each) if each else np.empty((0, n_features)),
            "table": np.frombuffer(json.dumps(table).encode(), np.uint8),
        }

    def unpack(self, packed: Mapping[str, NDArray[Any]], n_features: int, n_rounds: int) -> None:
        """Become what was packed, of a policy with so many features and rounds.

        Raises
        ------
        ValueError
            It is nothing of such a policy.
        """
        features, table = packed["features"], json.loads(bytes(packed["table"]))
        sizes, weights, rounds, raters = (table[name] for name in ("sizes", "weights", "rounds", "raters"))
        good = (
            all(type(column) is list for column in (sizes, weights, rounds, raters))
            and len(sizes) == len(weights) == len(rounds)
            and all(type(size) is int and size >= 2 for size in sizes)
            and all(type(weight) is float and 0.0 < weight < math.inf for weight in weights)
            and all(type(round_) is int and 1 <= round_ <= n_rounds for round_ in rounds)
            and all(type(pair) is list and [*map(type, pair)] in ([int, str], [int, int]) for pair in raters)
            and features.dtype == np.float64
            and features.shape == (sum(sizes), n_features)
            and np.all(np.abs(features) <= 2.0 * LARGEST)
            and not features[np.cumsum([0, *sizes])[:-1]].any()
            and len({round_ for round_, _ in raters} & set(rounds)) == len(raters)
        )
        if not good:
            raise ValueError("its choices are those of no such policy; features, sizes and rounds that fit are wanted")
        by = {round_: checked_rater(rater) for round_, rater in raters}
        each = np.split(features.copy(), np.cumsum(sizes)[:-1]) if sizes else []
        self._kept = [Kept(*kept, by.get(kept[-1])) for kept in zip(each, weights, rounds, strict=True)]
