"""A duel: two arms that a policy wants to see compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Asked", "ChoiceError", "Duel", "name_the_same", "no_pair"]


class ChoiceError(ValueError):
    """A policy chose what is no pair of arms; the message opens with the round."""


def no_pair(rule: object, round_: int, n_arms: int) -> ChoiceError:
    """What there is to say of a rule that chose others than two of so many arms."""
    name = type(rule).__name__
    return ChoiceError(f"round {round_}: {name} chose arms that are not there; two of 0 to {n_arms - 1} are wanted")


@dataclass(frozen=True, slots=True, eq=False)
class Duel:
    """Two arms to compare, as a policy chose them.

    Attributes
    ----------
    first, second : int
        Rows of the contexts.
    contrast : (n_features,) float64, read-only
        x_first - x_second.
    round : int
        The policy's round, from 1.
    policy_id : str
        Whose duel it is.
    """

    first: int
    second: int
    contrast: NDArray[np.float64] = field(repr=False)
    round: int
    policy_id: str

    @property
    def is_self(self) -> bool:
        """Whether both arms are one; then there is nothing to ask."""
        return self.first == self.second

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Duel):
            return NotImplemented
        return (self.policy_id, self.round) == (other.policy_id, other.round)

    def __hash__(self) -> int:
        return hash((self.policy_id, self.round))


class Asked(NamedTuple):
    """A duel that waits for its answer.

    code: what :func:`fastcolst.policies.kernels.choose` returned for so many arms. contrast (d,) float64: a copy, since
    the duel's holder can write to its own.
    """

    duel: Duel
    code: int
    n_arms: int
    contrast: NDArray[np.float64]


def name_the_same(one: Duel, other: Duel) -> bool:
    """Whether both name the same arms with the same contrast, to the last bit. Anybody can build a duel of anything."""
    return (
        type(one.first) is type(one.second) is int
        and (one.first, one.second) == (other.first, other.second)
        and isinstance(one.contrast, np.ndarray)
        and one.contrast.tobytes() == other.contrast.tobytes()
    )
