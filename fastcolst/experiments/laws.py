"""Laws of contexts: what a round's arms look like; and the kernel that fills chunks of rounds with them.

What a scenario is told of its contexts is one of :class:`Contexts`, which makes a law for each run.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fastcolst._compile import generic, kernel, register
from fastcolst.comparison import latent
from fastcolst.kernels.ball import fill_ball, scratch_of_ball
from fastcolst.kernels.linalg import utilities
from fastcolst.kernels.selection import largest
from fastcolst.kernels.splitmix import key_of

__all__ = [
    "Ball",
    "Contexts",
    "FixedContexts",
    "GivenContexts",
    "GivenRounds",
    "InBall",
    "OwnLaw",
    "RoundAfterRound",
    "fill",
    "fill_chunk",
    "fill_latent",
]


@generic
def fill(self: Any, rng: Any, out: Any) -> None:
    """Draw the contexts of one round into ``out``, (n_arms, n_features) float64."""
    raise TypeError(f"{type(self).__name__} has no method fill")


@register
class Ball(NamedTuple):
    """Contexts uniform in the unit ball, afresh every round: scratch of :func:`fastcolst.kernels.ball.fill_ball`."""

    uniforms: Any
    squares: Any
    network: Any

    @classmethod
    def of(cls, n_arms: int, n_features: int) -> Ball:
        """With its scratch; one for each run."""
        return cls(*scratch_of_ball(n_arms, n_features))

    def fill(self, rng: Any, out: Any) -> None:
        """Draw one round's contexts. O(n d log(d)^2)."""
        fill_ball(key_of(rng), self.uniforms, self.squares, self.network, out.T)


@register
class FixedContexts(NamedTuple):
    """The same contexts every round, (n_arms, n_features) float64."""

    contexts: Any

    def fill(self, rng: Any, out: Any) -> None:
        """Copy the contexts."""
        for i in range(out.shape[0]):
            for k in range(out.shape[1]):
                out[i, k] = self.contexts[i, k]


@register
class GivenRounds(NamedTuple):
    """Contexts of one round after the other.

    Parameters
    ----------
    contexts : (T, n_arms, n_features) float64
    next_round : (1,) int64
        Counted up; after T rounds there are no more.
    """

    contexts: Any
    next_round: Any

    def fill(self, rng: Any, out: Any) -> None:
        """Copy the next round's contexts."""
        t = self.next_round[0]
        for i in range(out.shape[0]):
            for k in range(out.shape[1]):
                out[i, k] = self.contexts[t, i, k]
        self.next_round[0] = t + 1


@kernel
def fill_chunk(law: Any, model: Any, theta: Any, contexts_rng: Any, outcomes_rng: Any, chunk: Any) -> None:
    """Fill a chunk of rounds.

    Parameters
    ----------
    law : what draws contexts
    model : the true comparison model, whose G* decides duels
    theta : (d,) float64, the true parameter
    contexts_rng, outcomes_rng : numpy.random.Generator
        One stream each, so that neither depends on the other.
    chunk : Chunk
        Overwritten.

    Notes
    -----
    O(n d) a round besides the law's cost.
    """
    for r in range(chunk.contexts.shape[0]):
        fill(law, contexts_rng, chunk.contexts[r].T)
        utilities(theta, chunk.contexts[r], chunk.utilities[r])
        chunk.best[r] = largest(chunk.utilities[r])  # nan stays, for whoever looks at the chunk
        chunk.latent[r] = latent(model, outcomes_rng)


@kernel
def fill_latent(model: Any, rng: Any, out: Any) -> None:
    """Draw what decides duels under a comparison model, D ~ F*, into ``out``, (m,) float64."""
    for r in range(out.size):
        out[r] = latent(model, rng)


# --- what makes a law for each run --------------------------------------------------------------------------


class Contexts(Protocol):
    """What the argument ``contexts`` of a scenario stands for."""

    def start(self, rng: Generator, n_arms: int, n_features: int) -> Any:
        """The law of a run, with scratch of its own; ``rng`` draws what the run keeps."""
        ...

    def show(self, rng: Generator, out: NDArray[np.float64]) -> None:
        """Fill rounds such as a run will have, (m, n_arms, n_features)."""
        ...

    def argument(self) -> Any:
        """The argument."""
        ...


class InBall(NamedTuple):
    """Contexts uniform in the unit ball: drawn once a run and kept, or afresh every round."""

    kept: bool

    def start(self, rng: Generator, n_arms: int, n_features: int) -> Ball | FixedContexts:
        """:class:`Ball`, or contexts that are drawn now."""
        return FixedContexts(_in_ball(rng, n_arms, n_features)) if self.kept else Ball.of(n_arms, n_features)

    def show(self, rng: Generator, out: NDArray[np.float64]) -> None:
        """Rounds in the ball."""
        for contexts in out:
            contexts[:] = _in_ball(rng, *contexts.shape)

    def argument(self) -> str:
        """The law's name."""
        return "fixed" if self.kept else "ball"


class GivenContexts(NamedTuple):
    """The same contexts in every round of every run, (n_arms, n_features) float64."""

    contexts: NDArray[np.float64]

    def start(self, rng: Generator, n_arms: int, n_features: int) -> FixedContexts:
        """Those contexts."""
        return FixedContexts(self.contexts)

    def show(self, rng: Generator, out: NDArray[np.float64]) -> None:
        """Arms change places from round to round, lest a utility that takes rows for columns be right by chance."""
        for r, contexts in enumerate(out):
            contexts[:] = np.roll(self.contexts, r, axis=0)

    def argument(self) -> list[list[float]]:
        """Nested lists."""
        lists: list[list[float]] = self.contexts.tolist()
        return lists


class RoundAfterRound(NamedTuple):
    """The contexts of each round, (T, n_arms, n_features) float64, in every run from the first on."""

    contexts: NDArray[np.float64]

    def start(self, rng: Generator, n_arms: int, n_features: int) -> GivenRounds:
        """The rounds from the first on."""
        return GivenRounds(self.contexts, np.zeros(1, np.int64))

    def show(self, rng: Generator, out: NDArray[np.float64]) -> None:
        """The first rounds, their arms in other places; see :meth:`GivenContexts.show`."""
        for r, contexts in enumerate(out):
            contexts[:] = np.roll(self.contexts[min(r, len(self.contexts) - 1)], r, axis=0)

    def argument(self) -> NDArray[np.float64]:
        """The array."""
        return self.contexts


class OwnLaw(NamedTuple):
    """A law of somebody's own, registered."""

    law: Any

    def start(self, rng: Generator, n_arms: int, n_features: int) -> Any:
        """A copy: it may hold scratch, which runs on other threads must not share."""
        return deepcopy(self.law)

    def show(self, rng: Generator, out: NDArray[np.float64]) -> None:
        """First rounds of it."""
        for contexts in out:
            fill(deepcopy(self.law), rng, contexts)

    def argument(self) -> Any:
        """The law."""
        return self.law


def _in_ball(rng: Generator, n: int, d: int) -> NDArray[np.float64]:
    """Points uniform in the unit ball, (n, d): NumPy's version of what :class:`Ball` does round by round."""
    normal = rng.standard_normal((n, d))
    square = (normal * normal).sum(axis=1) + 2.0 * rng.standard_exponential(n)
    return normal / np.sqrt(square)[:, np.newaxis]
