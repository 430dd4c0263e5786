"""What simulations ask of a policy: a fresh one of the sizes of a problem, and rounds played in one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fastcolst._compile import make_agent
from fastcolst.features import FeatureMap
from fastcolst.policies.duel import no_pair
from fastcolst.policies.kernels import Buffers, agent_is_stale, play
from fastcolst.policies.protocol import Chunk
from fastcolst.policies.robust import trusting

__all__ = ["Simulated"]


class Simulated:
    """A policy's face towards simulations.

    They ask of it, besides its parameters, :meth:`fresh_for`, :meth:`play`, :meth:`warm_play`, :meth:`trouble`,
    :meth:`Policy.warmup`, ``kind``, ``has_estimate``, ``choice_cost`` and ``rounds_at_once``.

    Attributes
    ----------
    has_estimate : bool
        Of a class: whether it has ``theta`` and what follows from it, and learns from logs.
    needs_information : bool
        Of a class: whether its rule chooses by the estimator's information, which SGD does not know.
    choice_cost : float
        Of a class: what a choice takes as a multiple of CoLSTIM's, roughly, by which studies are cut into cells.
    rounds_at_once : int
        Of a class: how many rounds a simulation may let it play before it answers Ctrl-C.
    """

    has_estimate: ClassVar[bool] = False
    needs_information: ClassVar[bool] = False
    choice_cost: ClassVar[float] = 1.0
    rounds_at_once: ClassVar[int] = 2**62

    _parameters: dict[str, Any]
    _n_features: int | None
    _n_arms: int | None
    _lock: Any
    _rng: Any
    _rule: Any
    _state: Any
    _agent: Any
    _at_once: Any
    """The agent where comparisons are learned as soon as they are known: in simulations, and from logs."""
    _counted_state: Any
    """What chooses while pairs that wait count; None until it is needed. See :mod:`fastcolst.policies.counting`."""
    _direct_choose: Callable[..., int] | None
    _direct_learn: Callable[..., int] | None
    _answered: NDArray[np.int64]
    _chosen: NDArray[np.int64]
    _is_settled: bool
    _map: FeatureMap | None = None
    """What features go through first."""
    _position: bool = False
    """Whether the advantage of being shown first is estimated, as a coordinate more."""
    _alpha: float | None = None
    """By which answers to pairs that M knows little of are trusted less; see :mod:`fastcolst.policies.robust`."""
    _counts_pending: bool = False
    """Whether pairs that wait count in M; see :mod:`fastcolst.policies.counting`."""
    _is_plain: bool = True
    """Whether every answer has the weight that it is given, and a pair counts when it is answered: with neither."""
    _is_exploring: bool = False
    """Whether pairs are still random for the sake of M: a copy of what the counters say, which is read faster."""

    def _start(self, rule: Any, state: Any) -> None:
        """Go on with a state, which kernels know by a handle. Ctrl-C comes before all of it, or after.

        All that may raise comes first: Python looks for signals at calls and in loops, not between plain assignments.
        """
        agent = at_once = self._agent_with(rule, state)
        if self._alpha is not None:
            at_once = make_agent(trusting(rule, self._alpha), state, self._rng)
        answered = state.counters["answered"]
        chosen = state.counters["chosen"]  # views: looking a field up takes longer than the round's arithmetic
        self._rule, self._state = rule, state
        self._agent, self._at_once, self._counted_state = agent, at_once, None
        self._direct_choose = self._direct_learn = None  # made anew for the types of a new agent
        self._answered, self._chosen = answered, chosen

    def _agent_with(self, rule: Any, state: Any) -> Any:
        """What chooses with a state, and learns comparisons whose weight is known."""
        return make_agent(rule if self._alpha is None else trusting(rule, np.inf), state, self._rng)

    @property
    def _n_inputs(self) -> int | None:
        """How many features arms have, before any map."""
        return self._n_features if self._map is None else self._map.n_inputs

    def _mapped(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Features as they come out of the map, where there is one."""
        return rows

    def _fresh(self, **changes: Any) -> Self:
        """A policy with the same parameters, apart from the changes, that has seen nothing."""
        return type(self)(**{**self._parameters, **changes})

    def fresh_for(self, n_features: int, n_arms: int, horizon: int, rng: Any) -> Self:
        """A fresh policy for a simulation, with the same parameters: what they leave open is filled in.

        Raises
        ------
        ValueError
            When the parameters say other sizes.
        """
        if self._n_inputs not in (None, n_features):
            raise ValueError(f"{self!r} has n_features={self._n_inputs}; the problem has {n_features}")
        given = self._parameters["n_arms"]  # not the number that the first round of a template settled
        if given not in (None, n_arms):
            raise ValueError(f"{self!r} has n_arms={given}; the problem has {n_arms}")
        changes = {"n_features": n_features, "n_arms": n_arms, "rng": rng}
        if "horizon" in self._parameters and self._parameters["horizon"] is None:
            changes["horizon"] = horizon
        return self._fresh(**changes)

    def play(self, chunk: Chunk, trace: NDArray[np.float64]) -> int:
        """Play simulated rounds in one loop: choose, duel, learn, add up regret.

        Parameters
        ----------
        chunk : Chunk
            m rounds of a problem, of the sizes that this policy has.
        trace : (m + 1, 3) or (m + 1, 5) float64
            Running totals, see :func:`fastcolst.policies.kernels.play`. Row 0 is read, the others are overwritten.

        Returns
        -------
        int
            m; less when numbers stopped being finite in the round after so many.

        Raises
        ------
        ValueError
            When shapes do not fit, which kernels would not notice.
        """
        played, m = 0, len(chunk.best)
        with self._lock:
            _, d, n = shape = chunk.contexts.shape
            wanted = (m, self._n_features or d, self._n_arms or n)
            traces = (m + 1, 3), (m + 1, 5)
            if (
                shape != wanted
                or chunk.utilities.shape != (m, n)
                or len(chunk.latent) != m
                or trace.shape not in traces
            ):
                found = f"contexts of shape {shape}, utilities {chunk.utilities.shape}, a trace {trace.shape}"
                raise ValueError(
                    f"chunk has {found}; {wanted}, {wanted[::2]} and {traces[0]} or {traces[1]} are wanted"
                )
            if not self._is_settled:
                self._settle(n, d)
                self._is_settled = True
            self._learn_unasked()
            if self._position:
                chunk = chunk._replace(contexts=np.pad(chunk.contexts, ((0, 0), (0, 1), (0, 0))))
            buffers = Buffers.new(self._rule, n, chunk.contexts.shape[1])
            end = 0
            while played < m:
                if played == end:
                    end = played + self._answers_at_once(m - played)
                    self._make_room(end - played)
                rest = Chunk(*(array[played:end] for array in chunk)) if end - played < m else chunk
                more = play(self._at_once, rest, trace[played:], buffers)
                if more < 0:
                    raise no_pair(self._rule, self._chosen.item() + 1, n)
                played += more
                if played < end and not (self._end_exploration() or self._refresh_estimate()):
                    return played
            self._forget_if_due()
            return played

    @property
    def kind(self) -> tuple[type, ...]:
        """The types that its kernels are compiled for: policies of one kind share their machine code."""
        return type(self), type(self._alpha), *map(type, self._rule)

    def trouble(self) -> str:
        """What a simulation tells of this policy at its end, or nothing: an exploration that does not end."""
        return ""

    def warm_play(self) -> None:
        """Compile what :meth:`play` needs, or load it from the cache, now. Changes nothing."""
        n_features = self._n_inputs or 1
        twin = self._fresh(n_features=n_features, n_arms=2, rng=0)
        contexts = np.eye(n_features, 2)[np.newaxis]
        twin.play(Chunk(contexts, np.zeros((1, 2)), np.zeros(1), np.zeros(1)), np.zeros((2, 3)))
        twin._end_exploration()
        if self.has_estimate:
            twin._refresh_estimate()

    # --- what a policy does in between ------------------------------------------------------------------------

    def _refresh_estimate(self) -> bool:
        """Bring the estimate up to date if that is due; False when it was not."""
        if not agent_is_stale(self._agent):
            return False
        self._refresh(self._state)
        return True

    def _answers_at_once(self, n: int) -> int:
        """How many of n answers may come before what was learned has to fade."""
        return n

    def _look_at_choice(self, contexts: Any, code: int, agent: Any) -> None:
        """Look whether the choice that an agent made among these arms is one that what is known justifies."""

    def _forget_if_due(self) -> None:
        """Let what was learned fade, if that is due."""

    def _refresh(self, state: Any) -> None:
        """Bring a state's theta up to date."""
        state.refresh_estimate(self._rule)

    def _learn_unasked(self) -> None:
        """Note that what is learned next is no answer to a duel."""

    def _make_room(self, n_comparisons: int) -> None:
        """Make room for comparisons, where the estimator keeps them."""

    def _end_exploration(self) -> bool:
        """End the exploration if that is due; False when it was not. A policy that has none has nothing to end."""
        return False

    def _settle(self, n_arms: int, n_features: int) -> Any:
        """Let the first contexts decide what the parameters left open; returns what undoes it, or None for nothing."""
        return None

    def _unsettle(self, before: Any) -> None:
        """Take back what was settled: the choice failed."""
