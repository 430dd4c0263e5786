"""Copies of a policy: for whoever wants to try something out, for another process, for another worker."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self

from numpy.random import SeedSequence

from fastcolst._checks import brief, plain_text, whole_number
from fastcolst.policies.answering import AtWork
from fastcolst.policies.counting import Counting
from fastcolst.policies.locks import new_lock
from fastcolst.policies.pending import Pending
from fastcolst.streams import FORK, entropy_of, label_key

__all__ = ["Copied"]

MADE_ANEW = frozenset(
    {"_agent", "_answered", "_at_once", "_chosen", "_counted_state", "_direct_choose", "_direct_learn", "_lock",
     "_n_kept"}
)  # fmt: skip
"""Attributes that a copy has of its own."""


class Copied(Counting):
    """How a policy is copied: each copy has a lock, a kernels' handle and tokens of its own."""

    _pending: Pending
    _answering: AtWork | None
    _entropy: int

    def __copy__(self) -> Self:
        """A policy of its own: a shallow copy would share the state and the stream."""
        return deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__setstate__(self._copied(memo))
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """A copy of everything but the lock and the kernels' handle, which a policy makes anew.

        A copy, since whoever asks for it reads it when the lock is free again.
        """
        return self._copied({})

    def _copied(self, memo: dict[int, Any]) -> dict[str, Any]:
        with self._lock:
            return deepcopy({k: v for k, v in self.__dict__.items() if k not in MADE_ANEW}, memo)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = new_lock()
        self._start(self._rule, self._state)
        self._pending.begin()

    def fork(self, worker: int | str) -> Self:
        """A policy for another worker: it knows what this one knows, and goes on by itself.

        It draws from a stream of its own, shows duels under tokens of its own and waits for none of this policy's.
        What its duels teach comes back, and to other workers, by :meth:`LinearPolicy.learn`.

        Parameters
        ----------
        worker : int or str
            Names the stream: the same fork of the same policy draws the same numbers. A number is from
            -2^63 to 2^63 - 1.

        Raises
        ------
        ValueError
            ``worker`` is something else.

        Examples
        --------
        >>> import numpy as np, fastcolst as fc
        >>> policy = fc.CoLSTIM(2, estimator="sgd", ridge=1.0, rng=1)
        >>> other = policy.fork("worker 2")
        >>> contexts = np.eye(2)
        >>> duel = other.select(contexts)
        >>> other.update(duel, first_won=True)
        >>> policy.learn(contexts[[duel.first]], contexts[[duel.second]])
        >>> bool((policy.theta == other.theta).all())
        True
        """
        given = plain_text(worker)
        name: int | str | None = whole_number(worker) if given is None else given
        if name is None or name == "" or (isinstance(name, int) and not -(2**63) <= name < 2**63):
            raise ValueError(f"worker is {brief(worker)}; a whole number from -2^63 to 2^63 - 1 or a text is wanted")
        with self._lock:
            twin = deepcopy(self)
        last = twin._chosen.item()
        key = FORK, last, *label_key(repr(name))  # 1 is not "1"
        twin._begin_stream(entropy_of(SeedSequence(twin._entropy, spawn_key=key)))
        twin._start(twin._rule, twin._state)
        twin._pending, twin._answering = Pending(twin._pending.most, last), None
        twin._counted = None
        return twin

    if TYPE_CHECKING:  # what a policy has besides

        def _start(self, rule: Any, state: Any) -> None: ...

        def _begin_stream(self, entropy: int) -> None: ...
