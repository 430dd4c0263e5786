"""Policies: the objects that people hold. They check what comes in, own the random stream and call a kernel."""

from __future__ import annotations

import inspect
import uuid
import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst._compile import make_agent
from fastcolst.comparison import comparison_model
from fastcolst.estimation import FULL, LEARNED, OVERFLOW, estimator_of
from fastcolst.likelihood import N_LEARNED, WARM, WARM_AFTER, WARM_AFTER_PER_FEATURE, distance
from fastcolst.policies.checks import LARGEST, all_moderate, answer, contexts_array, count, feature_rows, number
from fastcolst.policies.columns import Names, order_of
from fastcolst.policies.locks import new_lock
from fastcolst.policies.rounds import (
    ESTIMATE_DUE,
    EXPLORATION_END,
    EXPLORATION_ROUNDS,
    FACTORED,
    LESSON,
    LOGGED,
    ROUND,
    Chunk,
    LinearState,
    choose,
    draw_block,
    end_exploration,
    estimate_is_old,
    learn_answer,
    learn_log,
    linear_state,
    play,
    probabilities,
)
from fastcolst.streams import entropy_of, generator

__all__ = ["Duel", "IndexPolicy", "LinearPolicy", "Policy"]

SMALLEST_RIDGE = 1e-200
LARGEST_WIDTH = 1e150
"""Widths beyond this have squares that leave no room for their sums."""

STATUS_ROUNDS = 64
"""How often a policy looks whether its estimate is the maximum it should be."""

UNKNOWN = 2**62
"""tau as long as the number of arms is not known."""


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


class _Buffers(NamedTuple):
    """Scratch of a choice, for contexts of one shape; see :func:`fastcolst.policies.rounds.choose`."""

    shape: tuple[int, int] | None
    raw: NDArray[np.float64]
    by_coordinate: NDArray[np.float64]
    work: NDArray[np.float64]
    contrast: NDArray[np.float64]


class Policy:
    """What every policy has: rounds, duels, a random stream, and parameters that rebuild it.

    Threads may share a policy: its calls take turns. Data frames name their columns: the first one's names and their
    order are the policy's, other orders are put right, missing and unknown names are refused; an array has no names
    and is taken as it stands.

    A subclass names its parameters in its constructor, calls ``super().__init__(locals())`` first and then
    ``self._start(rule, state)``.
    """

    def __init__(self, parameters: dict[str, Any]) -> None:
        signature = inspect.signature(type(self).__init__)
        given = {name: parameters[name] for name in signature.parameters if name != "self"}
        self._parameters = {k: v.item() if isinstance(v, np.generic) else v for k, v in given.items()}
        n_features, n_arms, rng = given["n_features"], given["n_arms"], given["rng"]
        self._n_features = None if n_features is None else count("n_features", n_features)
        self._n_arms = None if n_arms is None else count("n_arms", n_arms)
        entropy = entropy_of(rng)
        if rng is not None:
            self._parameters["rng"] = entropy
        self._rng = generator(entropy)
        self._id = uuid.uuid4().hex
        # round -> first, second, contrast, the read-only copy of it that the duel shows, the rule's note of the round
        self._pending: dict[int, tuple[int, int, NDArray[np.float64], NDArray[np.float64], int]] = {}
        self._names: Names | None = None
        self._lock = new_lock()
        self._buffers = _Buffers(None, *(np.empty(0),) * 4)
        self._largest = LARGEST
        self._drawn: _Buffers | None = None  # whose numbers are drawn and not yet used
        self._exploring = False

    def _start(self, rule: Any, state: Any) -> None:
        self._rule = rule
        self._state = state
        self._agent = make_agent(rule, state)

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
            return deepcopy({k: v for k, v in self.__dict__.items() if k not in ("_agent", "_lock")}, memo)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = new_lock()
        self._start(self._rule, self._state)

    # --- the service loop -----------------------------------------------------------------------------------

    def select(self, contexts: ArrayLike) -> Duel:
        """Choose the next two arms.

        Parameters
        ----------
        contexts : (n_arms, n_features) array_like of real numbers
            One row for each arm; finite. Not modified.

        Returns
        -------
        Duel
            To be answered with :meth:`update`, at any time and in any order, unless it is a self-duel.

        Raises
        ------
        ValueError
            When ``contexts`` has the wrong shape, is not made of finite real numbers, or holds numbers so large that
            products overflow. The policy is then as it was.

        Warns
        -----
        UserWarning
            Once each: when the exploration is over but M is still singular, so that pairs stay random, and when the
            estimate of some hundreds of answers is no maximum inside the ball (see ``status``).
        """
        with self._lock:
            buffers, names = self._buffers, self._names
            if not (
                type(contexts) is np.ndarray
                and contexts.shape == buffers.shape
                and contexts.dtype == np.float64
                and contexts.flags.carray
                and all_moderate(contexts, self._largest)
            ):  # not like the round before: look closely
                order, names = order_of("contexts", contexts, names)
                contexts = contexts_array(contexts, self._n_features, self._n_arms, self._largest)
                if order is not None:
                    contexts = contexts.take(order, axis=1)
                if contexts.shape != buffers.shape:
                    buffers = self._buffers = self._new_buffers(*contexts.shape)
            if self._exploring:
                self._end_exploration()
                self._note_exploration()
            round_ = self._state.counters.item(ROUND) + 1
            if round_ % STATUS_ROUNDS == 0:  # before anything changes: a warning may be turned into an error
                self._note_status()
            if self._drawn is not buffers:
                draw_block(self._rule, self._rng, buffers.raw)
                self._drawn = buffers  # until they are used: a choice that fails must not cost the stream a round
            pair = choose(self._agent, contexts, buffers.raw, buffers.by_coordinate, buffers.work, buffers.contrast)
            if pair == ESTIMATE_DUE:
                self._state.refresh_estimate(self._rule)
                self._note_status()
                pair = choose(self._agent, contexts, buffers.raw, buffers.by_coordinate, buffers.work, buffers.contrast)
            if pair < 0:
                raise ValueError("contexts are so large that a utility or a width overflows: scale the features down")
            self._drawn, self._names = None, names
            first, second = divmod(pair, len(contexts))
            shown = buffers.contrast.copy()
            shown.setflags(write=False)
            if first != second:
                lesson = self._state.counters.item(LESSON)
                self._pending[round_] = first, second, buffers.contrast.copy(), shown, lesson
            return Duel(first, second, shown, round_, self._id)

    def update(self, duel: Duel, first_won: bool) -> None:
        """Learn the answer to a duel.

        Parameters
        ----------
        duel : Duel
            From this policy's :meth:`select`; each is answered once.
        first_won : bool or 0 or 1
            Whether the first arm won. The answer to a self-duel is checked and changes nothing.

        Raises
        ------
        ValueError
            When the duel is another policy's or was answered already, when ``first_won`` is something else, or when
            numbers would overflow. The policy is then as it was.
        """
        if not isinstance(duel, Duel):
            raise ValueError(f"duel is {duel!r}; a Duel returned by select is wanted")
        if duel.policy_id != self._id:
            raise ValueError(f"duel is of round {duel.round} of another policy; wanted one of this policy's own")
        won = answer(first_won)
        if duel.is_self:
            return
        with self._lock:
            asked = self._pending.get(duel.round) if isinstance(duel.round, int) else None
            if asked is None:
                raise ValueError(
                    f"duel of round {duel.round} was answered already or discarded, or another copy of this policy "
                    "showed it; each duel is answered once, to the policy that showed it"
                )
            first, second, contrast, shown, lesson = asked
            same_contrast = duel.contrast is shown or (
                isinstance(duel.contrast, np.ndarray) and duel.contrast.tobytes() == shown.tobytes()
            )
            if duel.first != first or duel.second != second or not same_contrast:
                raise ValueError(f"duel of round {duel.round} is not the one that this policy showed in that round")
            self._state.counters[LESSON] = lesson
            while code := learn_answer(self._agent, first, second, contrast, won):
                if code == OVERFLOW:
                    raise ValueError(f"duel of round {duel.round} has a contrast so large that the estimate overflows")
                self._make_ready(code, 1)
            self._pending.pop(duel.round, None)
            if self._exploring:
                self._end_exploration()

    def discard(self, duel: Duel) -> None:
        """Give up waiting for the answer to a duel: nobody answered, or liked both alike.

        Nothing is learned, and the round still counts. A duel that is not pending raises ValueError.
        """
        known = isinstance(duel, Duel) and duel.policy_id == self._id and isinstance(duel.round, int)
        with self._lock:
            if not known or duel.round not in self._pending:
                raise ValueError(f"duel is {duel!r}; a duel of this policy that waits for its answer is wanted")
            del self._pending[duel.round]

    @property
    def round(self) -> int:
        """Number of rounds in which arms were chosen."""
        return int(self._state.counters[ROUND])

    @property
    def pending(self) -> int:
        """Number of duels that wait for their answer."""
        return len(self._pending)

    @property
    def feature_names(self) -> Names | None:
        """The columns' names in the policy's order, from the first data frame that it was given; None before."""
        return self._names

    @property
    def status(self) -> str:
        """``"ready"``: without an estimate there is no exploration."""
        return "ready"

    # --- parameters -----------------------------------------------------------------------------------------

    def get_params(self) -> dict[str, Any]:
        """The constructor's arguments, by name; ``type(policy)(**policy.get_params())`` builds the same policy."""
        return dict(self._parameters)

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = {
            name: value
            for name, value in self._parameters.items()
            if not (value is defaults[name].default or value == defaults[name].default)
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def _fresh(self, **changes: Any) -> Self:
        """A policy with the same parameters, apart from the changes, that has seen nothing."""
        return type(self)(**{**self._parameters, **changes})

    def _fitted_to(self, n_features: int, n_arms: int, horizon: int, rng: Any) -> Self:
        """A fresh policy for a simulation: what was left open is filled in."""
        if self._n_features not in (None, n_features):
            raise ValueError(f"{self!r} has n_features={self._n_features}; the problem has {n_features}")
        wanted = self._parameters["n_arms"]  # not the number that the first round of a template settled
        if wanted not in (None, n_arms):
            raise ValueError(f"{self!r} has n_arms={wanted}; the problem has {n_arms}")
        changes = {"n_features": n_features, "n_arms": n_arms, "rng": rng}
        if "horizon" in self._parameters and self._parameters["horizon"] is None:
            changes["horizon"] = horizon
        return self._fresh(**changes)

    # --- simulation and compilation -------------------------------------------------------------------------

    def _play(self, chunk: Chunk, trace: NDArray[np.float64]) -> int:
        """Play simulated rounds; see :func:`fastcolst.policies.rounds.play`."""
        played, m = 0, len(chunk.best)
        with self._lock:
            self._make_room(m)
            while True:
                rest = Chunk(*(array[played:] for array in chunk)) if played else chunk
                played += play(self._agent, self._rng, rest, trace[played:])
                if played == m or not (self._end_exploration() or self._refresh_estimate()):
                    return played

    def _refresh_estimate(self) -> bool:
        """Bring the estimate up to date if that is due; False when it was not."""
        if not estimate_is_old(self._agent):
            return False
        self._state.refresh_estimate(self._rule)
        return True

    def _make_ready(self, code: int, n_comparisons: int) -> None:
        """Do what learning waits for: make room for comparisons, or bring the estimate up to date."""
        if code == FULL:
            self._make_room(n_comparisons)
        else:
            self._state.refresh_estimate(self._rule)

    def _make_room(self, n_comparisons: int) -> None:
        """Make room for comparisons, where the estimator keeps them."""

    def _note_status(self) -> None:
        """Warn once of an estimate that is not the maximum it should be."""

    def _end_exploration(self) -> bool:
        """End the exploration if it is due; False when it was not. A policy without exploration has nothing to end."""
        return False

    def _note_exploration(self) -> None:
        """Notice that the exploration ended, or say so when it lasts for longer than it should."""

    def _exploration_trouble(self) -> str:
        """What there is to say of an exploration that lasts for longer than it should, or nothing."""
        return ""

    def warmup(self) -> None:
        """Compile this policy's kernels, or load them from the cache, now and not at the first use. Changes nothing."""
        self._warm_object()
        self._warm_play()

    def _warm_object(self) -> None:
        n_features = self._n_features or 1
        twin = self._fresh(n_features=n_features, n_arms=2, rng=0)
        contexts = np.zeros((2, n_features))
        contexts[0] = 1.0
        twin.update(twin.select(contexts), True)

    def _warm_play(self) -> None:
        n_features = self._n_features or 1
        twin = self._fresh(n_features=n_features, n_arms=2, rng=0)
        twin._play(Chunk(np.zeros((1, n_features, 2)), np.zeros((1, 2)), np.zeros(1), np.zeros(1)), np.zeros((2, 3)))
        twin._end_exploration()

    def _new_buffers(self, n_arms: int, n_features: int) -> _Buffers:
        return _Buffers(
            (n_arms, n_features),
            np.zeros(self._rule.n_raw(n_arms)),
            np.empty((n_features, n_arms)),
            np.zeros(self._rule.work_shape(n_arms, n_features)),  # columns of padding stay so
            np.empty(n_features),
        )

    if not TYPE_CHECKING:  # to a type checker every misspelt name would then be an attribute

        def __getattr__(self, name: str) -> Any:
            if name in _ESTIMATE_NAMES:
                raise AttributeError(f"{type(self).__name__} sees arms by index only and has no estimate: no {name}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class LinearPolicy(Policy):
    """A policy with a linear estimate: theta, the Gram matrix of contrasts and what follows from them."""

    _state: LinearState

    def _start_linear(self, rule: Any, ridge: Any, exploration_rounds: Any) -> None:
        if self._n_features is None:
            raise ValueError("n_features is None; a whole number of at least 1 is wanted")
        if exploration_rounds is not None:
            tau = count("exploration_rounds", exploration_rounds, lowest=0)
        else:
            tau = UNKNOWN if self._n_arms is None else self._n_features * self._n_arms
        ridge = number("ridge", ridge)
        if 0.0 < ridge < SMALLEST_RIDGE:
            raise ValueError(f"ridge is {ridge!r}; 0 or a number of at least {SMALLEST_RIDGE:g} is wanted")
        self._start(rule, self._new_state(rule, self._n_features, ridge, tau))
        if ridge > 0.0:
            self._largest = min(LARGEST, LARGEST_WIDTH * ridge**0.5)
        self._exploring = True
        self._warned_singular = False
        self._warned_status = False

    def _new_state(self, rule: Any, n_features: int, ridge: float, exploration_rounds: int) -> Any:
        return linear_state(rule.estimator, n_features, ridge, exploration_rounds)

    def learn(self, winners: ArrayLike, losers: ArrayLike) -> None:
        """Learn finished comparisons from a log, in their order.

        Parameters
        ----------
        winners, losers : (m, n_features) array_like of real numbers
            What won and what it beat, row by row; finite.

        Raises
        ------
        ValueError
            For wrong shapes or entries; the policy is then as it was.

        Notes
        -----
        The rounds do not advance, but the comparisons count towards the exploration.
        """
        with self._lock:
            contrasts, names = self._contrasts("winners", winners, "losers", losers)
            self._learn_log(contrasts, np.ones(len(contrasts), np.bool_), np.empty(0))
            self._names = names

    def learn_and_predict(self, contrasts: ArrayLike, wins: ArrayLike) -> NDArray[np.float64]:
        """Learn finished comparisons in their order, predicting each before it is learned.

        Parameters
        ----------
        contrasts : (m, n_features) array_like of real numbers
            x_first - x_second; finite.
        wins : (m,) array_like of bool
            Whether the first won.

        Returns
        -------
        (m,) float64
            The probabilities that the first wins, each from the comparisons before it. With :class:`fastcolst.MLE`
            none is nearer to 0 or 1 than 1/(n + 2) after n comparisons whose likelihood has no maximum inside the ball.

        Raises
        ------
        ValueError
            For wrong shapes or entries; the policy is then as it was.
        """
        with self._lock:
            rows, names = self._rows("contrasts", contrasts, self._names)
            try:
                won = np.array(wins)
            except ValueError as error:
                raise ValueError(f"wins is no array of answers: {error}") from None
            if won.shape != rows.shape[:1]:
                raise ValueError(
                    f"wins has shape {won.shape}; {rows.shape[:1]} is wanted, one for each row of contrasts"
                )
            if won.dtype != np.bool_:
                won = np.array([answer(value, f"wins[{i}]") for i, value in enumerate(won.tolist())], np.bool_)
            out = np.empty(len(rows))
            self._learn_log(rows, won, out)
            self._names = names
            return out

    def _learn_log(self, contrasts: NDArray[np.float64], wins: NDArray[np.bool_], out: NDArray[np.float64]) -> None:
        """Learn comparisons, all or none, with predictions where ``out`` is not empty."""
        before = snapshot(self._state)
        self._make_room(len(contrasts))
        n_learned = 0
        try:
            while n_learned < len(contrasts):
                code, n = learn_log(self._agent, contrasts[n_learned:], wins[n_learned:], out[n_learned:])
                n_learned += n
                if code == OVERFLOW:
                    raise ValueError(
                        f"contrasts[{n_learned}] is so large that the estimate overflows: scale the features down"
                    )
                if code != LEARNED:
                    self._make_ready(code, len(contrasts) - n_learned)
        except BaseException:  # Ctrl-C between two kernels as well
            rewind(before)
            self._start(self._rule, before)
            raise
        self._end_exploration()
        self._note_exploration()

    def _rows(
        self, name: str, value: ArrayLike, names: Names | None, ndim: int = 2
    ) -> tuple[NDArray[np.float64], Names | None]:
        """Checked features in the policy's order, and the names that are the policy's if all goes well."""
        order, names = order_of(name, value, names)
        rows = feature_rows(name, value, self._n_features, ndim)
        return (rows if order is None else rows.take(order, axis=-1)), names

    def _contrasts(
        self, name: str, first: ArrayLike, other_name: str, second: ArrayLike, ndim: int = 2
    ) -> tuple[NDArray[np.float64], Names | None]:
        a, names = self._rows(name, first, self._names, ndim)
        b, names = self._rows(other_name, second, names, ndim)
        if a.shape != b.shape:
            raise ValueError(f"{name} has shape {a.shape} and {other_name} {b.shape}; equal shapes are wanted")
        return a - b, names

    # --- what the policy believes ---------------------------------------------------------------------------

    @property
    def theta(self) -> NDArray[np.float64]:
        """The estimate, (n_features,) float64; a copy."""
        with self._lock:
            theta: NDArray[np.float64] = self._estimate().theta.copy()
            return theta

    @property
    def gram(self) -> NDArray[np.float64]:
        """M, the sum of z z' over what was learned plus the ridge, (n_features, n_features) float64; a copy."""
        with self._lock:
            return self._state.gram.copy()

    @property
    def status(self) -> str:
        """``"exploring"`` until tau comparisons were asked for or learned and M is invertible.

        Without ``n_arms`` and ``exploration_rounds`` tau is known from the first :meth:`select` on.

        Then how the estimate stands, as the estimator tells it (see :class:`fastcolst.MLE`), or ``"ready"``.
        """
        with self._lock:
            return "exploring" if self._state.counters[EXPLORATION_END] < 0 else self._status_of(self._estimate())

    def _status_of(self, memory: Any) -> str:
        estimator = self._rule.estimator
        return str(estimator.status(memory)) if hasattr(estimator, "status") else "ready"

    def _estimate(self) -> Any:
        """The estimator's memory with theta up to date: a copy, if need be, since reading must change nothing."""
        if not estimate_is_old(self._agent):
            return self._state.memory
        state = snapshot(self._state)
        state.refresh_estimate(self._rule)
        return state.memory

    def utilities(self, contexts: ArrayLike) -> NDArray[np.float64]:
        """Estimated utilities x'theta, (n_arms,) float64, of contexts (n_arms, n_features)."""
        with self._lock:
            rows, _ = self._rows("contexts", contexts, self._names)
            utilities: NDArray[np.float64] = rows @ self._estimate().theta
            return utilities

    def widths(self, contexts: ArrayLike) -> NDArray[np.float64]:
        """Widths sqrt(x' M^-1 x), (n_arms,) float64, of contexts (n_arms, n_features); inf until M was inverted.

        With ``ridge=0`` M is inverted for the first time when the exploration ends.
        """
        with self._lock:
            rows, _ = self._rows("contexts", contexts, self._names)
            if not self._state.counters[FACTORED]:
                return np.full(len(rows), np.inf)
            widths: NDArray[np.float64] = np.linalg.norm(rows @ self._state.factor.T, axis=1)
            return widths

    def probability(self, first: ArrayLike, second: ArrayLike) -> Any:
        """P(first beats second) under the estimate, F((x_first - x_second)'theta).

        Parameters
        ----------
        first, second : (n_features,) or (m, n_features) array_like of real numbers

        Returns
        -------
        float or (m,) float64
        """
        ndim = 1 if np.ndim(first) == 1 else 2
        with self._lock:
            contrasts, _ = self._contrasts("first", first, "second", second, ndim)
            margins = np.atleast_1d(contrasts @ self._estimate().theta)
        out = np.empty_like(margins)
        probabilities(self._rule.model, margins, out)
        return float(out[0]) if ndim == 1 else out

    def audit(self) -> float:
        """Distance of theta from the exact estimate, in standard errors.

        Raises
        ------
        AttributeError
            When the estimator keeps no history from which the exact estimate could be recomputed, as SGD and
            OnlineNewton.
        """
        with self._lock:
            return self._audit_of(self._estimate())

    def _audit_of(self, memory: Any) -> float:
        estimator = self._rule.estimator
        if not hasattr(estimator, "exact"):
            raise AttributeError(f"{estimator!r} keeps no history from which the exact estimate could be recomputed")
        exact = snapshot(memory)
        exact.codes[WARM] = 0
        estimator.exact().refresh(self._rule.model, exact)
        return distance(memory, exact)

    def _make_room(self, n_comparisons: int) -> None:
        estimator = self._rule.estimator
        if hasattr(estimator, "grown"):
            memory = estimator.grown(self._state.memory, n_comparisons)
            if memory is not self._state.memory:
                self._start(self._rule, self._state._replace(memory=memory))

    def _note_status(self) -> None:
        estimator = self._rule.estimator
        if self._warned_status or not hasattr(estimator, "status"):
            return
        memory = self._state.memory
        status = estimator.status(memory)
        n, d = int(memory.codes[N_LEARNED]), len(memory.theta)
        if status == "interior" or (status != "not-converged" and n < 10 * max(WARM_AFTER, WARM_AFTER_PER_FEATURE * d)):
            return  # few answers are separable as a rule
        self._warned_status = True
        warnings.warn(f"{type(self).__name__}: {STATUS_WARNINGS[status].format(n=n)}", UserWarning, stacklevel=3)

    # --- exploration ----------------------------------------------------------------------------------------

    def _new_buffers(self, n_arms: int, n_features: int) -> _Buffers:
        buffers = super()._new_buffers(n_arms, n_features)
        if self._state.counters[EXPLORATION_ROUNDS] == UNKNOWN:
            self._state.counters[EXPLORATION_ROUNDS] = n_features * n_arms
        return buffers

    def _end_exploration(self) -> bool:
        due = bool(end_exploration(self._state))
        if due and self._state.counters[FACTORED]:  # from here on S only shrinks
            self._largest = min(LARGEST, LARGEST_WIDTH / (len(self._state.gram) * np.abs(self._state.factor).max()))
        return due

    def _note_exploration(self) -> None:
        """Notice the end of the exploration; warn once when M stays singular for twice the rounds planned for it."""
        counters = self._state.counters
        if counters[EXPLORATION_END] >= 0:
            self._exploring = False
            return
        trouble = "" if self._warned_singular else self._exploration_trouble()
        if trouble:
            self._warned_singular = True
            warnings.warn(trouble, UserWarning, stacklevel=3)

    def _exploration_trouble(self) -> str:
        """What there is to say when M is singular after twice the rounds planned for the exploration, or nothing."""
        counters = self._state.counters
        learned = int(counters[ROUND] + counters[LOGGED]) - self.pending
        patience = 2 * max(int(counters[EXPLORATION_ROUNDS]), len(self._state.gram))
        if counters[EXPLORATION_END] >= 0 or counters[FACTORED] or learned < patience:
            return ""
        scale = np.sqrt(np.diag(self._state.gram))
        scale[scale == 0.0] = 1.0
        rank = np.linalg.matrix_rank(self._state.gram / np.outer(scale, scale), hermitian=True)
        return (
            f"{type(self).__name__} still explores after {learned} comparisons: their contrasts span "
            f"{rank} of {len(scale)} dimensions, so that the Gram matrix cannot be inverted (a constant feature, "
            "one-hot arms or fewer arms than features?). Remove the redundant features or set ridge > 0."
        )

    def _warm_play(self) -> None:
        super()._warm_play()
        if hasattr(self._rule.estimator, "refresh"):
            twin = self._fresh(rng=0)
            twin._state.refresh_estimate(twin._rule)

    def _warm_object(self) -> None:
        super()._warm_object()
        row = np.zeros((1, len(self._state.gram)))
        twin = self._fresh(rng=0)
        twin.learn_and_predict(row, [True])
        if hasattr(self._rule.estimator, "refresh"):
            twin._state.refresh_estimate(twin._rule)
        twin.probability(row, row)


class IndexPolicy(Policy):
    """A policy that knows arms by their index and learns from duels between them; every round has the same arms."""

    def _start_index(self, rule: Any, state_class: Any) -> None:
        """Begin with a fresh state, ``state_class.new(n_arms)``: now, or in the first round if n_arms is not given."""
        self._state_class = state_class
        self._start(rule, state_class.new(self._n_arms or 0))

    def _new_buffers(self, n_arms: int, n_features: int) -> _Buffers:
        buffers = super()._new_buffers(n_arms, n_features)
        if self._n_arms is None:
            self._start(self._rule, self._state_class.new(n_arms))
            self._n_arms = n_arms
        return buffers


def snapshot(state: Any) -> Any:
    """A copy of a state's arrays, except for those that comparisons are only ever appended to."""
    if hasattr(state, "snapshot"):
        return state.snapshot()
    if isinstance(state, tuple):
        return type(state)(*map(snapshot, state))
    return state.copy()


def linear_fields(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that the rules of linear policies have in common, from a constructor's arguments.

    estimator and model, registered; horizon, 0 where T is not told; width_scale, negative for sqrt(d log T).

    Raises
    ------
    ValueError
        For a bad argument.
    """
    horizon, scale = parameters["horizon"], parameters["width_scale"]
    return {
        "model": comparison_model(parameters["comparison"]),
        "estimator": estimator_of(parameters["estimator"]),
        "horizon": 0 if horizon is None else count("horizon", horizon),
        "width_scale": -1.0 if scale is None else number("width_scale", scale),
    }


def rewind(state: Any) -> None:
    """Make a :func:`snapshot` the state again: what was appended since is forgotten."""
    if hasattr(state, "rewind"):
        state.rewind()
    elif isinstance(state, tuple):
        for part in state:
            rewind(part)


STATUS_WARNINGS = {
    "boundary": "after {n} comparisons the maximum of the likelihood lies outside the ball that theta is kept in; a "
    "larger radius, or ridge > 0, moves it",
    "separated": "after {n} comparisons there are some that theta explains the better the larger it is: the likelihood "
    "has no finite maximum; ridge > 0 gives a finite one",
    "not-converged": "the maximum of the likelihood of {n} comparisons was not reached in 60 passes; theta is the best "
    "point found (features of very different or very large scales?)",
}

_ESTIMATE_NAMES = frozenset(
    {"theta", "gram", "utilities", "widths", "probability", "learn", "learn_and_predict", "audit"}
)
