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
        Of the set that was shown; choices of one ranking have one token.
    """

    rankings: list[list[int]]
    features: list[NDArray[np.float64]]
    weights: NDArray[np.float64]
    raters: tuple[str | int | None, ...]
    tokens: tuple[str, ...]


class KeptChoices:
    """Choices out of more than two that an estimator keeps, in their order.

    Attributes
    ----------
    features : list of (n, d) float64
        Rows one after another, of each choice those from which was chosen, less the chosen one's, which comes first.
    sizes : list of int
        How many rows each choice has.
    weights : list of float
    rounds : list of int
        Of the sets; all choices of a ranking have one.
    raters : dict of round to str or int
        Who answered, where that was told.
    """

    def __init__(self) -> None:
        self.features: list[Array] = []
        self.sizes: list[int] = []
        self.weights: list[float] = []
        self.rounds: list[int] = []
        self.raters: dict[int, str | int] = {}

    def __len__(self) -> int:
        return len(self.rounds)

    def append(self, contrasts: Array, weight: float, round_: int) -> None:
        """Keep a choice, of which these are the contrasts (m - 1, d) of the chosen row with the others."""
        self.features.append(np.vstack([np.zeros((1, contrasts.shape[1])), -contrasts]))
        self.sizes.append(len(contrasts) + 1)
        self.weights.append(weight)
        self.rounds.append(round_)

    def each(self) -> list[Array]:
        """The rows of each choice, views."""
        return np.split(self._joined(), np.cumsum(self.sizes)[:-1]) if self.sizes else []

    def contrasts(self) -> Iterator[tuple[Array, float]]:
        """The contrasts of each choice, as :meth:`append` took them, and its weight."""
        return ((-rows[1:], weight) for rows, weight in zip(self.each(), self.weights, strict=True))

    def rewind(self, n: int) -> None:
        """Forget what was kept since there were so many."""
        self.features = self.each()[:n]
        for round_ in self.rounds[n:]:
            self.raters.pop(round_, None)
        del self.sizes[n:], self.weights[n:], self.rounds[n:]

    def without(self, round_: int) -> KeptChoices:
        """The same without those of a round; this one stays as it is."""
        rest = KeptChoices()
        for own, (contrasts, weight) in zip(self.rounds, self.contrasts(), strict=True):
            if own != round_:
                rest.append(contrasts, weight, own)
        rest.raters = {own: rater for own, rater in self.raters.items() if own != round_}
        return rest

    def choices(self) -> Choices:
        """All of them, of which there must be some. O(n d) where there are new ones."""
        features, sizes = self._joined(), np.array(self.sizes)
        starts = np.cumsum(sizes) - sizes
        weights, rounds = np.array(self.weights), np.array(self.rounds, np.int64)
        return Choices(features, np.arange(len(features)), starts, starts, weights, rounds)

    def _joined(self) -> Array:
        if len(self.features) > 1:
            self.features = [np.concatenate(self.features)]
        return self.features[0]

    # --- files ----------------------------------------------------------------------------------------------

    ARRAYS = "features", "table"

    def packed(self, n_features: int) -> dict[str, NDArray[Any]]:
        """The arrays that :meth:`unpack` takes: all rows, and a JSON text of the rest."""
        table = {
            "sizes": self.sizes,
            "weights": self.weights,
            "rounds": self.rounds,
            "raters": list(self.raters.items()),
        }
        return {
            "features": self._joined() if self.sizes else np.empty((0, n_features)),
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
            len(sizes) == len(weights) == len(rounds)
            and all(type(size) is int and size >= 2 for size in sizes)
            and all(type(weight) is float and 0.0 < weight < math.inf for weight in weights)
            and all(type(round_) is int and 1 <= round_ <= n_rounds for round_ in rounds)
            and features.dtype == np.float64
            and features.shape == (sum(sizes), n_features)
            and np.all(np.abs(features) <= 2.0 * LARGEST)
            and not features[np.cumsum([0, *sizes])[:-1]].any()
            and len({round_ for round_, _ in raters} & set(rounds)) == len(raters)
        )
        if not good:
            raise ValueError("its choices are those of no such policy; features, sizes and rounds that fit are wanted")
        self.features = [features.copy()] if sizes else []
        self.sizes, self.weights, self.rounds = sizes, weights, rounds
        self.raters = {round_: checked_rater(rater) for round_, rater in raters}
