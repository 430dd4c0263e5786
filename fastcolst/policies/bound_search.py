"""What a rule offers to choose among bound arms without a look at most of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import kernel
from fastcolst.kernels.bound import Carried
from fastcolst.policies.bound_rows import Rows
from fastcolst.policies.protocol import draw

__all__ = ["Search", "Sight", "draw_numbers", "gathered", "search_of"]


class Sight(NamedTuple):
    """What a search sees of the arms that are available.

    rows: of all arms; places: which of them are available, or None for all; carried: what is carried of all of them;
    n_more: how many coordinates the policy's state has beyond the arms', which are 0 in all of them; out: scratch,
    twice the size of ``carried.utilities``.
    """

    rows: Rows
    places: NDArray[np.int64] | None
    carried: Carried
    n_more: int
    out: NDArray[np.float64]

    @property
    def first_place(self) -> int:
        """The first of the arms that are available."""
        return 0 if self.places is None else int(self.places[0])

    def labels_of(self, arms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which of the available arms these are."""
        return arms if self.places is None else np.searchsorted(self.places, arms)


Search = Callable[[Any, NDArray[np.float64], Sight], tuple[int, int]]
"""Of an agent and the numbers of a round: the arms that its rule would choose, or -1 twice for what is not finite."""


@singledispatch
def search_of(rule: Any) -> Search | None:
    """The search of a rule; None for a rule that looks at every arm.

    :mod:`fastcolst.policies.bound_colstim` registers one.
    """
    return None


def gathered(sight: Sight, arms: NDArray[np.int64]) -> NDArray[np.float64]:
    """The contexts of some arms as rules take them, (d, m) with arms as columns."""
    d = sight.rows.shape[1]
    contexts = np.zeros((d + sight.n_more, len(arms)))
    contexts[:d] = sight.rows[arms].T
    return contexts


@kernel
def draw_numbers(agent: Any, buffers: Any) -> None:
    """Draw the numbers of the round to come, unless they lie in the buffers already. O(n)."""
    next_round = agent.state.counters[()].chosen + 1
    if buffers.drawn_for[0] != next_round:
        draw(agent.rule, agent.rng, buffers.raw)
        buffers.drawn_for[0] = next_round
