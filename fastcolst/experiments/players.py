"""Who plays a simulation: policies of ours, and plain Python objects that choose and learn.

What simulations ask of either is :class:`Player`. A plain object is played round by round in Python, on the same
chunks of rounds as everybody else.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from copy import deepcopy
from threading import Event
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import brief, is_a, looked_at, whole_number
from fastcolst._compile import plain
from fastcolst._registry import METHODS, POLICY
from fastcolst.policies.duel import ChoiceError, Duel
from fastcolst.policies.kernels import add_regret, add_single_arms, first_wins
from fastcolst.policies.policy import Policy
from fastcolst.policies.protocol import Chunk
from fastcolst.streams import entropy_of, generator

__all__ = ["OFFERED", "PlainPolicy", "Player", "is_plain", "play_rounds", "player_of"]


OFFERED = ("n_features", "n_arms", "horizon", "rng")
"""Arguments that a plain class is offered when one is constructed for a run."""


class Player(Protocol):
    """What a simulation asks of whoever plays; see :class:`fastcolst.policies.simulated.Simulated` for each."""

    has_estimate: ClassVar[bool]
    choice_cost: ClassVar[float]
    rounds_at_once: ClassVar[int]

    @property
    def kind(self) -> tuple[Any, ...]:
        """What its kernels are compiled for."""
        ...

    def fresh_for(self, n_features: int, n_arms: int, horizon: int, rng: Any) -> Self:
        """A fresh one for a run."""
        ...

    def play(self, chunk: Chunk, trace: NDArray[np.float64]) -> int:
        """Play simulated rounds."""
        ...

    def trouble(self) -> str:
        """What there is to tell at the end."""
        ...

    def warm_play(self) -> None:
        """Compile what :meth:`play` needs."""
        ...

    def warmup(self) -> None:
        """Compile all that it has."""
        ...


def is_plain(value: Any) -> bool:
    """Whether a value is a class with ``select`` and ``update`` that is none of ours, or an object of one."""
    cls = value if issubclass(type(value), type) else type(value)
    has_both = looked_at(lambda c: all(callable(getattr(c, name, None)) for name in METHODS[POLICY]), cls, False)
    return has_both and not issubclass(cls, (Policy, tuple))


def player_of(value: Any) -> Player | None:
    """A policy as it is, a plain object or class as a player; None for all else."""
    if is_a((Policy, PlainPolicy), value):
        return value  # type: ignore[no-any-return]
    return PlainPolicy(value) if is_plain(value) else None


def play_rounds(player: Player, chunk: Chunk, trace: NDArray[np.float64], stop: Event) -> int:
    """Let somebody play a chunk, as many rounds at once as may go by before ``stop`` is looked at; how many it were."""
    played, m = 0, len(chunk.best)
    while played < m and not stop.is_set():
        end = min(m, played + player.rounds_at_once)
        part = chunk if end - played == m else Chunk(*(array[played:end] for array in chunk))
        n = player.play(part, trace[played : end + 1])
        played += n
        if played < end:
            break
    return played


class PlainPolicy:
    """A Python class or object with ``select(contexts)`` and ``update(duel, first_won)`` as a player.

    ``select`` gets the round's contexts, (n_arms, n_features) float64, and returns two indices; ``update`` gets the
    :class:`fastcolst.Duel` and the answer. A self-duel needs no answer, and gets none.

    Every run plays its own instance. A class is constructed with ``arguments`` and those of ``n_features``, ``n_arms``,
    ``horizon`` and ``rng``, a NumPy Generator of the run's own, that its constructor names. An object is deep-copied,
    and its attribute ``rng``, if any, is replaced by the run's Generator. What draws from there alone repeats with the
    seed.

    Parameters
    ----------
    given : class or object
    arguments : dict, optional
        Keyword arguments of the class.
    """

    has_estimate: ClassVar[bool] = False
    choice_cost: ClassVar[float] = 30.0
    rounds_at_once: ClassVar[int] = 1  # whoever waits for a slow one must be able to stop it

    def __init__(self, given: Any, arguments: Mapping[str, Any] | None = None) -> None:
        self._given, self._arguments = given, dict(arguments or {})
        self._playing: Any = None
        self._round = 0

    @property
    def kind(self) -> tuple[Any, ...]:
        """Nothing is compiled."""
        return (PlainPolicy,)

    def fresh_for(self, n_features: int, n_arms: int, horizon: int, rng: Any) -> Self:
        """One for a run.

        Raises
        ------
        ValueError
            The class cannot be constructed with these arguments.
        """
        stream = generator(entropy_of(rng))
        fresh = type(self)(self._given, self._arguments)
        if isinstance(self._given, type):
            offered = dict(zip(OFFERED, (n_features, n_arms, horizon, stream), strict=True))
            signature = inspect.signature(self._given)
            own = {name: value for name, value in offered.items() if name in signature.parameters}
            try:
                bound = signature.bind(**{**own, **deepcopy(self._arguments)})
            except TypeError as error:
                raise ValueError(f"{self!r}: {error}") from None
            fresh._playing = self._given(*bound.args, **bound.kwargs)
        else:
            fresh._playing = deepcopy(self._given)
            if hasattr(fresh._playing, "rng"):
                fresh._playing.rng = stream
        return fresh

    def play(self, chunk: Chunk, trace: NDArray[np.float64]) -> int:
        """Play simulated rounds, as :func:`fastcolst.policies.kernels.play` does.

        Raises
        ------
        ChoiceError
            For what is no pair of arms.
        """
        for r, contexts in enumerate(chunk.contexts):
            own = contexts.T.copy()  # whatever becomes of it, the others have theirs
            self._round += 1
            first, second = self._choose(own)
            plain(add_regret)(chunk, r, first, second, trace)
            if trace.shape[1] > 3:
                plain(add_single_arms)(chunk, r, first, -1, trace)
            if first != second:
                contrast = contexts[:, first] - contexts[:, second]
                contrast.setflags(write=False)
                won = plain(first_wins)(chunk, r, first, second)
                self._playing.update(Duel(first, second, contrast, self._round, ""), won)
        return len(chunk.best)

    def _choose(self, contexts: NDArray[np.float64]) -> tuple[int, int]:
        n_arms = len(contexts)
        found = self._playing.select(contexts)
        first, second = (whole_number(i) for i in looked_at(_two, found, (None, None)))
        if first is None or second is None or not (0 <= first < n_arms and 0 <= second < n_arms):
            wanted = f"two indices from 0 to {n_arms - 1} are wanted"
            raise ChoiceError(f"round {self._round}: select returned {brief(found)}; {wanted}")
        return first, second

    def trouble(self) -> str:
        """Nothing is known of it."""
        return ""

    def warm_play(self) -> None:
        """Nothing is compiled."""

    def warmup(self) -> None:
        """Nothing is compiled."""

    def __repr__(self) -> str:
        if not isinstance(self._given, type):
            return brief(self._given)
        arguments = ", ".join(f"{key}={value!r}" for key, value in self._arguments.items())
        return f"{self._given.__name__}({arguments})"


def _two(pair: Any) -> tuple[Any, Any]:
    first, second = pair
    return first, second
