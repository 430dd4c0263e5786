"""Policies without an estimate: they see arms by their index only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import make_agent
from fastcolst.policies.linear import LinearPolicy
from fastcolst.policies.policy import Policy

__all__ = ["BlindPolicy", "IndexPolicy"]


class BlindPolicy(Policy):
    """A policy that sees arms by their index only and has no estimate."""

    if not TYPE_CHECKING:  # to a type checker every misspelt name would then be an attribute

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and hasattr(LinearPolicy, name):
                raise AttributeError(f"{type(self).__name__} sees arms by index only and has no estimate: no {name}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class IndexPolicy(BlindPolicy):
    """A policy that knows arms by their index and learns from duels between them; every round has the same arms."""

    chooses = "arms by how often each has won"

    def _start_index(self, rule: Any, state_class: Any) -> None:
        """Begin with a fresh state, ``state_class.new(n_arms)``: now, or in the first round if n_arms is not given."""
        self._state_class = state_class
        self._begin(rule, state_class.new(self._n_arms or 0))

    def _agent_for(self, rows: NDArray[np.int64]) -> Any:
        only = getattr(self._state, "only", None)
        if only is None:
            raise TypeError(
                f"{type(self._state).__name__} lacks the method only; one is wanted where only some arms are available"
            )
        return make_agent(self._rule, only(rows), self._rng)

    def _settle(self, n_arms: int, n_features: int) -> Any:
        if self._n_arms is not None:
            return None
        before = self._state
        self._start(self._rule, self._state_class.new(n_arms))
        self._n_arms = n_arms
        return before

    def _unsettle(self, before: Any) -> None:
        self._n_arms = None
        self._start(self._rule, before)
