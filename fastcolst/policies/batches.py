"""Several duels at once, each of which counts on the answers to those before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst._checks import as_array, brief, count, looked_at
from fastcolst.estimation.memory import rewind, snapshot
from fastcolst.policies.arms import Arms, arms_of
from fastcolst.policies.counting import Counting, copies
from fastcolst.policies.duel import Asked, Duel
from fastcolst.policies.kernels import Buffers
from fastcolst.policies.pending import Pending

__all__ = ["Batches", "batch_size"]

MOST_DUELS = 1_000_000
"""The most that are chosen in one call: more would fill the memory before anybody could answer."""


class Batches(Counting):
    """A policy's choice of several duels at once."""

    _pending: Pending
    _buffers: Buffers

    def select_batch(
        self, contexts: ArrayLike | Mapping[Any, ArrayLike] | Sequence[Any], size: int | None = None
    ) -> list[Duel]:
        """Choose several duels at once, as for raters who ask at the same time.

        Each is a round with a token of its own, and is answered like any other. In the Gram matrix M of the later
        choices the pairs that were chosen before count as if they were answered, so that uncertainty leads each to
        something else; theta stays, and M is afterwards what it was, to the last bit, unless ``count_pending=True``
        leaves the pairs in it until they are answered. Policies that know arms by their index have no M.

        Parameters
        ----------
        contexts : (n_arms, n_features) or (m, n_arms, n_features) array_like of real numbers, or a list of m pools
            One pool of arms as in :meth:`Policy.select`, from which ``size`` duels are chosen; or the arms of m
            requests, one duel for each: an array, or a list of arrays, data frames or dicts, each as in ``select``.
        size : int, optional
            How many duels of one pool, 1,000,000 at most; not given for m requests.

        Returns
        -------
        list of Duel
            In the order in which they were chosen.

        Raises
        ------
        ValueError
            As :meth:`Policy.select`; when ``size`` is missing or too much, or is more than ``max_pending``. The policy
            is then as it was: all duels are shown, or none.

        Notes
        -----
        ``size`` times the cost of a choice, and O(d^2) for each.

        Examples
        --------
        >>> import numpy as np, fastcolst as fc
        >>> policy = fc.CoLSTIM(2, estimator="sgd", ridge=1.0, exploration_rounds=0, allow_self_duel=False, rng=1)
        >>> duels = policy.select_batch(np.eye(4, 2), size=3)
        >>> [duel.round for duel in duels], policy.pending
        ([1, 2, 3], 3)
        """
        pools = _pools_of(contexts, size)
        with self._lock:
            return self._select_all([partial(self._ask_among, arms) for arms in pools])

    def _ask_among(self, arms: Arms) -> Asked:
        """A round among some arms."""
        contexts = arms.contexts
        return self._show(self._choose(contexts, arms), len(contexts), arms)

    def _select_all(self, rounds: list[Callable[[], Asked]]) -> list[Duel]:
        """Several rounds at once, all or none, within the lock."""
        most = self._pending.most
        if most is not None and len(rounds) > most:
            raise ValueError(f"size is {len(rounds)}; at most max_pending={most} duels at once are wanted")
        # a warning that was given stays given: its flag is not taken back
        attributes = {k: v for k, v in vars(self).items() if not k.startswith("_warned")}
        before, noise = snapshot(self._state), self._rng.bit_generator.state
        drawn = self._buffers.drawn_for.copy(), self._buffers.raw.copy()
        book = self._pending.kept()
        if self._counted is not None:
            self._counted = copies(self._counted)  # the old ones stay as they are, to go back to
        try:
            self._pending.begin_copies()
            chosen = self._choose_all(rounds)
        except BaseException:
            rewind(before)
            vars(self).update(attributes)
            self._start(self._rule, before)
            self._rng.bit_generator.state = noise
            self._buffers.drawn_for[:], self._buffers.raw[:] = drawn
            self._pending.go_back(book)
            raise
        self._forget_if_due()
        return [asked.duel for asked in chosen]

    def _choose_all(self, rounds: list[Callable[[], Asked]]) -> list[Asked]:
        """What several rounds ask; M is afterwards what it was before."""
        chosen: list[Asked] = []
        kept: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
        n_counted = 0
        try:
            for ask in rounds:
                if chosen and self._is_exploring:
                    self._end_exploration()
                # random pairs need no M, and its first inverse must be of what was learned
                if not (self._is_exploring or self._counts_pending):
                    kept = kept or [(matrix, matrix.copy()) for matrix in self._matrices()]
                    for asked in chosen[n_counted:]:
                        if not asked.duel.is_self:  # whose answer would change nothing
                            self._count_on(asked)
                    n_counted = len(chosen)
                chosen.append(ask())
        finally:
            for matrix, copy in kept:
                matrix[...] = copy
        return chosen

    def _matrices(self) -> list[NDArray[np.float64]]:
        """What :meth:`_count_on` changes."""
        return []

    def _count_on(self, asked: Asked) -> None:
        """Add to M the contrast of a duel as if it was answered."""

    if TYPE_CHECKING:  # what a policy has besides

        def _choose(self, contexts: NDArray[np.float64], arms: Arms | None) -> int: ...

        def _show(self, code: int, n_arms: int, arms: Arms | None) -> Asked: ...

        def _start(self, rule: Any, state: Any) -> None: ...


def batch_size(size: Any) -> int:
    """How many duels to choose at once, checked."""
    n_duels = count("size", size)
    if n_duels > MOST_DUELS:
        raise ValueError(f"size is {n_duels:,}; at most {MOST_DUELS:,} duels at once are wanted")
    return n_duels


def _pools_of(contexts: Any, size: Any) -> list[Arms]:
    """The arms of each duel of a batch."""
    n_duels = None if size is None else batch_size(size)
    if not looked_at(_is_deep, contexts, False):
        arms = arms_of(contexts)
        if n_duels is None:
            raise ValueError(f"size is None; for one pool of arms, {brief(arms.contexts.shape)}, a number is wanted")
        return [arms] * n_duels
    if n_duels is not None:
        raise ValueError(f"size is {n_duels}; none is wanted where contexts has one pool of arms for each duel")
    if type(contexts) not in (list, tuple):
        contexts = as_array("contexts", contexts, "not (m, n_arms, n_features)", "that is wanted")
    return [arms_of(pool) for pool in contexts]  # one by one: names and keys are each pool's own


def _is_deep(contexts: Any) -> bool:
    """Whether these are pools rather than one: dicts or data frames in a list, or three dimensions."""
    depth = 0
    while type(contexts) in (list, tuple) and contexts and depth < 3:
        contexts, depth = contexts[0], depth + 1
    is_pool = isinstance(contexts, Mapping) or hasattr(contexts, "columns") or hasattr(contexts, "column_names")
    return depth + (2 if is_pool else getattr(contexts, "ndim", 0)) >= 3
