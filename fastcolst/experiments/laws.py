"""Laws of contexts: what a round's arms look like; and the kernel that fills chunks of rounds with them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fastcolst._compile import generic, helper, kernel, register
from fastcolst.comparison import perturb, raw
from fastcolst.kernels.linalg import utilities
from fastcolst.streams import fill_normal, key_of

__all__ = ["Ball", "FixedContexts", "GivenRounds", "fill", "fill_chunk", "in_ball"]


@generic
def fill(self: Any, rng: Any, out: Any) -> None:
    """Draw the contexts of one round into ``out``, (n_arms, n_features) float64."""
    raise TypeError(f"{type(self).__name__} has no method fill")


@register
class Ball(NamedTuple):
    """Contexts uniform in the unit ball, afresh every round, for (n, d) = (n_arms, n_features).

    A point uniform on the sphere in d + 2 dimensions without two of its coordinates is uniform in the ball: normal
    variates g, h, and g / sqrt(|g|^2 + h_1^2 + h_2^2).

    Parameters
    ----------
    spare : (2, n) float64
        Scratch for h and then for the lengths.
    rejected : (n,) int64
        Scratch for :func:`fastcolst.streams.fill_normal`.
    """

    spare: Any
    rejected: Any

    @classmethod
    def of(cls, n_arms: int) -> Ball:
        """With its scratch; one for each run."""
        return cls(np.empty((2, n_arms)), np.empty(n_arms, np.int64))

    def fill(self, rng: Any, out: Any) -> None:
        """Draw one round's contexts. O(n d)."""
        n, d = out.shape
        length, other = self.spare[0], self.spare[1]
        state = fill_normal(key_of(rng), length, self.rejected)
        state = fill_normal(state, other, self.rejected)
        for i in range(n):
            length[i] = length[i] * length[i] + other[i] * other[i]
        for k in range(d):
            state = fill_normal(state, out[:, k], self.rejected)
            for i in range(n):
                length[i] += out[i, k] * out[i, k]
        for i in range(n):
            length[i] = 1.0 / np.sqrt(length[i])
        for k in range(d):
            for i in range(n):
                out[i, k] *= length[i]


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
        chunk.best[r] = chunk.utilities[r].max()
        chunk.latent[r] = _latent(model, outcomes_rng)


@helper
def _latent(model: Any, rng: Any) -> float:
    first = perturb(model, raw(model, rng))
    return first - perturb(model, raw(model, rng))


def in_ball(rng: Generator, n: int, d: int) -> NDArray[np.float64]:
    """Points uniform in the unit ball, (n, d): NumPy's version of what :class:`Ball` does round by round."""
    normal = rng.standard_normal((n, d))
    square = (normal * normal).sum(axis=1) + 2.0 * rng.standard_exponential(n)
    return normal / np.sqrt(square)[:, np.newaxis]
