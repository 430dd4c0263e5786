"""Uniformly random pairs: the strategy that learns nothing, against which the others are measured."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastcolst._registry import register
from fastcolst.kernels.selection import all_rows_finite, random_pair
from fastcolst.policies.blind import BlindPolicy
from fastcolst.policies.parameters import Seed
from fastcolst.policies.protocol import NOT_FINITE, Choice
from fastcolst.policies.state import BlindState

__all__ = ["UniformPairs", "UniformPairsRule"]


@register
class UniformPairsRule(NamedTuple):
    """A random pair of distinct arms. Two uniforms make it; a registered NamedTuple needs a field."""

    n_uniforms: int = 2

    def n_raw(self, n_arms: int) -> int:
        """Two uniforms."""
        return self.n_uniforms

    def work_shape(self, n_arms: int, n_features: int) -> tuple[int, int]:
        """No scratch."""
        return 0, 0

    def select(self, state: Any, contexts: Any, raw: Any, work: Any) -> Choice:
        """A uniformly random ordered pair. O(n d), for the check that contexts are finite."""
        if not all_rows_finite(contexts):
            return NOT_FINITE
        first, second = random_pair(raw[0], raw[1], contexts.shape[1])
        return Choice(first, second, 0)

    def update(self, state: Any, choice: Choice, contrast: Any, share: float, weight: float) -> int:
        """Answers change nothing."""
        return 0


@register(name="UniformPairs")
class UniformPairs(BlindPolicy):
    """The strategy called Random in the paper: every round a uniformly random pair of distinct arms.

    Parameters
    ----------
    n_features
        As in :data:`fastcolst.policies.parameters.INDEX`.
    n_arms : int, optional
        Arms of every round, checked when given; None: any number.
    max_pending
        As in :data:`fastcolst.policies.parameters.INDEX`.
    rng : int, SeedSequence, Generator or None
        Source of the pairs; see :func:`fastcolst.streams.entropy_of`.

    Notes
    -----
    It sees indices only and has no estimate: ``theta``, ``gram`` and what follows from them raise AttributeError.
    Threads may share a policy.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), section 4 (Random).

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> policy = fc.UniformPairs(rng=7)
    >>> duel = policy.select(np.eye(4))
    >>> duel.first != duel.second
    True
    """

    choice_cost = 0.05
    chooses = "random pairs"

    def __init__(
        self,
        n_features: int | None = None,
        *,
        n_arms: int | None = None,
        max_pending: int | None = None,
        rng: Seed = None,
    ) -> None:
        super().__init__(locals())
        self._begin(UniformPairsRule(), BlindState.new())
