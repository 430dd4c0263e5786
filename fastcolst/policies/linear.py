"""Policies with a linear estimate: theta, the Gram matrix of contrasts and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst._callers import warn_caller
from fastcolst._checks import LARGEST, answer, check_memory, feature_rows, number, positive_numbers, shares
from fastcolst._compile import plain
from fastcolst.comparison import probabilities
from fastcolst.estimation.concavity import unkept_promise
from fastcolst.estimation.memory import snapshot
from fastcolst.estimation.protocol import LEARNED, OVERFLOW, audit, has_audit, information, is_refreshed, n_kept, status
from fastcolst.kernels.linalg import SHARE_TOLERANCE, inverse_factor
from fastcolst.policies.answering import is_tiny
from fastcolst.policies.columns import Features, Names, contexts_of, features_of, order_of
from fastcolst.policies.exploration import UNKNOWN, exploration_of, long_exploration
from fastcolst.policies.forgetting import Forgetting, fading_of
from fastcolst.policies.informing import Informing
from fastcolst.policies.kernels import Buffers, agent_is_stale, decoded, learn_log
from fastcolst.policies.learned import Remembering
from fastcolst.policies.lock_in import FEW_LOOKS, LATER_EVERY, LEAST_LOOKS, LOCKED_IN, is_justified
from fastcolst.policies.mapped import Mapped
from fastcolst.policies.policy import STATUS_ROUNDS
from fastcolst.policies.position import PositionAdvantage, advantage_of, shown_first
from fastcolst.policies.state import LinearState, end_exploration, linear_state
from fastcolst.policies.status import SEPARABLE_ANSWERS, SEPARABLE_PER_FEATURE, STATUS_WARNINGS
from fastcolst.policies.summary import standard_errors

__all__ = ["LinearPolicy"]

SMALLEST_RIDGE = 1e-200
LARGEST_WIDTH = 1e150
"""Widths beyond this have squares that leave no room for their sums."""

MATRICES = 4
"""Matrices (n_features, n_features) that a policy with a linear estimate has at least: M and its factor, as built."""


class LinearPolicy(Forgetting, Informing, Remembering, Mapped):
    """A policy with a linear estimate: theta, the Gram matrix of contrasts and what follows from them."""

    has_estimate: ClassVar[bool] = True

    _state: LinearState

    def _start_linear(self, rule: Any, ridge: Any, exploration_rounds: Any) -> None:
        if self._n_features is None:
            raise ValueError("n_features is None; a whole number of at least 1 is wanted")
        tau, enough = exploration_of(exploration_rounds, self._n_features, self._n_arms)
        ridge = number("ridge", ridge)
        if 0.0 < ridge < SMALLEST_RIDGE:
            raise ValueError(f"ridge is {ridge!r}; 0 or a number of at least {SMALLEST_RIDGE:g} is wanted")
        self._position = answer(self._parameters.get("position", False), "position")
        self._begin_counting()
        self._fading = fading_of(self._parameters.get("discount", 1.0), rule.estimator)
        self._is_plain = self._is_plain and self._fading is None
        d = self._n_features + self._position
        check_memory("n_features", self._n_features, 8 * MATRICES * d * d)
        try:
            state = self._new_state(rule, d, ridge, tau, enough)
        except MemoryError:
            raise ValueError(
                f"estimator is {self._parameters['estimator']!r}; there is no memory for what it remembers of "
                f"n_features={self._n_features}: less is wanted"
            ) from None
        state.counters["position"] = self._position
        self._begin(rule, state)
        self._ridge = ridge
        if ridge > 0.0:
            self._largest = min(LARGEST, LARGEST_WIDTH * ridge**0.5)
        self._looks = self._unjustified = 0  # choices since the exploration, and self-duels without reason among them
        self._warned_locked = False
        self._warned_long = False
        self._warned_singular = False
        self._warned_concavity = False
        self._warned_status = False

    def _start(self, rule: Any, state: Any) -> None:
        super()._start(rule, state)
        self._is_exploring = bool(state.counters["exploration_end"] < 0)
        self._n_kept = n_kept(rule.estimator, state.memory)

    def _new_buffers(self, n_arms: int, n_features: int) -> Buffers:
        return Buffers.new(self._rule, n_arms, n_features, int(self._position))

    def _of_features(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """What of a vector or the columns of a matrix belongs to the features; the last one may be position's."""
        return theta[..., : self._n_features]

    def _new_state(self, rule: Any, n_features: int, ridge: float, exploration_rounds: int, enough: int) -> Any:
        return linear_state(rule.estimator, n_features, ridge, exploration_rounds, enough)

    def learn(
        self,
        winners: ArrayLike,
        losers: ArrayLike,
        weights: ArrayLike | None = None,
        outcomes: ArrayLike | None = None,
    ) -> None:
        """Learn finished comparisons from a log, in their order.

        Parameters
        ----------
        winners, losers : (m, n_features) array_like of real numbers
            What won and what it beat, row by row; finite.
        weights : (m,) array_like of positive numbers, optional
            How much each comparison counts; see :meth:`update`. None: 1.
        outcomes : (m,) array_like of bool, or of numbers from 0 to 1, optional
            The share of the win that the row of ``winners`` had after all: 0.5 in a tie. None: all of it. With
            ``position=True`` the rows of ``winners`` are what was shown first, and outcomes must say what won.

        Raises
        ------
        ValueError
            For wrong shapes or entries; the policy is then as it was.

        Notes
        -----
        The rounds do not advance, but the comparisons count towards the exploration.
        """
        if self._position and outcomes is None:
            raise ValueError(
                "outcomes is None; with position=True rows of winners are what was shown first, and who won is wanted"
            )
        won, lost = features_of("winners", winners), features_of("losers", losers)
        with self._lock:
            contrasts, names = self._contrasts("winners", won, "losers", lost)
            m = len(contrasts)
            won_by = np.ones(m) if outcomes is None else shares("outcomes", outcomes, m)
            counted = None if weights is None else positive_numbers("weights", weights, m)
            self._learn_log(contrasts, won_by, np.empty(0), "(winners - losers)", counted)
            self._names = names

    def learn_and_predict(
        self, contrasts: ArrayLike, wins: ArrayLike, weights: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Learn finished comparisons in their order, predicting each before it is learned.

        Parameters
        ----------
        contrasts : (m, n_features) array_like of real numbers
            x_first - x_second; finite.
        wins : (m,) array_like of bool, or of numbers from 0 to 1
            Whether the first won, or its share of the win: 0.5 in a tie.
        weights : (m,) array_like of positive numbers, optional
            How much each comparison counts; see :meth:`update`. None: 1.

        Returns
        -------
        (m,) float64
            The probabilities that the first wins, each from the comparisons before it. With :class:`fastcolst.MLE`
            none is nearer to 0 or 1 than 1/(n + 2) after n comparisons whose likelihood has no maximum inside the ball;
            with :class:`fastcolst.OnlineNewton` so during its start.

        Raises
        ------
        ValueError
            For wrong shapes or entries; the policy is then as it was.
        """
        self._refuse_contrasts("contrasts")
        given = features_of("contrasts", contrasts)
        m = len(given.rows) if given.rows.ndim else 0
        won = shares("wins", wins, m)
        counted = None if weights is None else positive_numbers("weights", weights, m)
        with self._lock:
            rows, names = self._rows("contrasts", given, self._names)
            self._tell_of_late("contrasts", names)
            out = np.empty(len(rows))
            self._learn_log(rows, won, out, weights=counted)
            self._names = names
            return out

    def _learn_log(
        self,
        contrasts: NDArray[np.float64],
        won: NDArray[Any],
        out: NDArray[np.float64],
        name: str = "contrasts",
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        """Learn comparisons, all or none, with predictions where ``out`` is not empty; ``name`` is for messages."""
        kept = self._kept()
        self._learn_unasked()
        if self._position:
            contrasts = shown_first(contrasts)
        columns = contrasts, won.astype(np.float64), np.ones(len(won)) if weights is None else weights, out
        n_learned = end = 0
        try:
            while n_learned < len(contrasts):
                if n_learned == end:
                    end += self._answers_at_once(len(contrasts) - n_learned)
                    self._make_room(end - n_learned)
                code, n = learn_log(self._at_once, *(column[n_learned:end] for column in columns))
                n_learned += n
                if code == OVERFLOW:
                    size, way = ("small", "up") if is_tiny(contrasts[n_learned]) else ("large", "down")
                    raise ValueError(
                        f"{name}[{n_learned}] is so {size} that the estimate overflows: scale the features {way}"
                    )
                if code != LEARNED:
                    self._make_ready(code, end - n_learned)
            self._forget_if_due()
            self._end_exploration()
            self._note_exploration()
            self._note_concavity()
            if status(self._rule.estimator, self._state.memory) == "overshooting":  # of steps, not of how few there are
                self._note_estimate()
        except BaseException:  # Ctrl-C between two kernels, or a warning that was turned into an error, as well
            self._go_back(kept)
            raise

    def _rows(
        self, name: str, given: Features, names: Names | None, ndim: int = 2, shape: str | None = None
    ) -> tuple[NDArray[np.float64], Names | None]:
        """Checked features in the policy's order, and the names that are the policy's if all goes well."""
        order, names = order_of(name, given.labels, names)
        rows = feature_rows(name, given.rows, self._n_inputs, ndim, shape=shape)
        return self._mapped(rows if order is None else rows.take(order, axis=-1)), names

    def _named_rows(self, name: str, given: Features, shape: str) -> NDArray[np.float64]:
        """Checked features in the policy's order, whose names are the policy's from now on."""
        rows, names = self._rows(name, given, self._names, shape=shape)
        self._tell_of_late(name, names)
        self._names = names
        return rows

    def _contrasts(
        self, name: str, first: Features, other_name: str, second: Features, ndim: int = 2
    ) -> tuple[NDArray[np.float64], Names | None]:
        a, names = self._rows(name, first, self._names, ndim)
        b, names = self._rows(other_name, second, names, ndim)
        if a.shape != b.shape:
            raise ValueError(f"{name} has shape {a.shape} and {other_name} {b.shape}; equal shapes are wanted")
        self._tell_of_late(name, names)
        return a - b, names

    # --- what the policy believes ---------------------------------------------------------------------------

    @property
    def theta(self) -> NDArray[np.float64]:
        """The estimate, (n_features,) float64; a copy."""
        with self._lock:
            return self._of_features(self._estimate().theta).copy()

    @property
    def gram(self) -> NDArray[np.float64]:
        """M, the sum of w z z' over what was learned plus the ridge, (n_features, n_features) float64; a copy.

        With ``count_pending=True`` pairs that wait for their answer are in it.
        """
        with self._lock:
            return self._of_features(self._known_matrices()[0][: self._n_features]).copy()

    @property
    def position_advantage(self) -> PositionAdvantage:
        """What being shown first is worth, with its standard error where the estimator has an information matrix.

        Raises
        ------
        AttributeError
            The policy was built without ``position=True``.

        Examples
        --------
        >>> import numpy as np, fastcolst as fc
        >>> rng = np.random.default_rng(0)
        >>> contrasts = rng.normal(size=(2000, 2))
        >>> wins = contrasts[:, 0] + 0.5 + rng.logistic(size=2000) > 0
        >>> policy = fc.CoLSTIM(2, position=True)
        >>> predicted = policy.learn_and_predict(contrasts, wins)
        >>> advantage, error = policy.position_advantage
        >>> bool(abs(advantage - 0.5) < 3 * error), policy.theta.shape
        (True, (2,))
        """
        if not self._position:
            raise AttributeError("position_advantage is not estimated; a policy built with position=True is wanted")
        with self._lock:
            memory = self._estimate()
            return advantage_of(memory.theta, information(self._rule.estimator, memory))

    @property
    def status(self) -> str:
        """``"exploring"`` until tau comparisons were asked for or learned and M is invertible.

        Without ``n_arms`` and ``exploration_rounds`` tau is known from the first :meth:`select` on.

        Then how the estimate stands, as the estimator tells it (see :class:`fastcolst.MLE` and
        :class:`fastcolst.OnlineNewton`), or ``"ready"``.
        """
        with self._lock:
            return "exploring" if self._state.counters["exploration_end"] < 0 else self._status_of(self._estimate())

    @property
    def estimate_status(self) -> str:
        """How the estimate stands, whether or not the policy still explores: :attr:`status` says it afterwards."""
        with self._lock:
            return self._status_of(self._estimate())

    def _status_of(self, memory: Any) -> str:
        return status(self._rule.estimator, memory)

    def _estimate(self) -> Any:
        """The estimator's memory with theta up to date: a copy, if need be, since reading must change nothing."""
        if not agent_is_stale(self._agent):
            return self._state.memory
        state = snapshot(self._state)
        self._refresh(state)
        return state.memory

    def utilities(self, contexts: ArrayLike | Mapping[Any, ArrayLike]) -> NDArray[np.float64]:
        """Estimated utilities x'theta, (n_arms,) float64, of contexts (n_arms, n_features) or a dict of vectors."""
        given = contexts_of(contexts)
        with self._lock:
            rows = self._named_rows("contexts", given, "(n_arms, n_features)")
            utilities: NDArray[np.float64] = rows @ self._of_features(self._estimate().theta)
            return utilities

    def probability(self, first: ArrayLike, second: ArrayLike) -> Any:
        """P(first beats second) under the estimate, F((x_first - x_second)'theta), whichever of them is shown first.

        Parameters
        ----------
        first, second : (n_features,) or (m, n_features) array_like of real numbers

        Returns
        -------
        float or (m,) float64
        """
        either = "(n_features,) or (m, n_features)"
        one, other = features_of("first", first, either), features_of("second", second, either)
        ndim = 1 if one.rows.ndim == 1 else 2
        with self._lock:
            contrasts, self._names = self._contrasts("first", one, "second", other, ndim)
            margins = np.atleast_1d(contrasts @ self._of_features(self._estimate().theta))
        out = np.empty_like(margins)
        probabilities(self._rule.model, margins, out)
        return float(out[0]) if ndim == 1 else out

    def audit(self) -> float:
        """Distance of theta from the exact estimate, in standard errors; nan where that cannot be found.

        Raises
        ------
        AttributeError
            When the estimator keeps no history from which the exact estimate could be recomputed, as SGD and
            OnlineNewton.
        """
        with self._lock:
            return self._audit_of(self._estimate())

    def _audit_of(self, memory: Any) -> float:
        return audit(self._rule.estimator, self._rule.model, self._with_choices(memory))

    def _make_room(self, n_comparisons: int) -> None:
        state = self._state.with_room(self._rule, n_comparisons)
        if state is not self._state:
            self._start(self._rule, state)

    def _look_at_choice(self, contexts: Any, code: int, agent: Any) -> None:
        if self._looks >= FEW_LOOKS and self._chosen.item() % LATER_EVERY:
            return
        if self._is_exploring or not self._parameters.get("allow_self_duel", False):
            return
        choice = plain(decoded)(code, len(contexts))
        self._looks += 1
        if choice.first == choice.second:
            self._unjustified += not is_justified(self._state_of(agent), self._rule.model, contexts, choice.first)

    def _coefficients(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        theta, state = self._of_features(self._estimate().theta).copy(), self._state
        # while pairs are random nobody needs the factor, and M may be invertible all the same
        factor = state.factor if state.counters["factored"] else inverse_factor(state.gram)
        if factor is None:
            return theta, np.full(len(theta), np.inf)
        return theta, standard_errors(self._of_features(factor), self._rule.model)

    def _note_lock_in(self) -> None:
        """Warn once when most of the choices that were looked at are self-duels without reason."""
        if self._looks >= LEAST_LOOKS and 2 * self._unjustified > self._looks and not self._warned_locked:
            self._warned_locked = True
            message = LOCKED_IN.format(n=self._looks, bad=self._unjustified)
            warn_caller(f"{type(self).__name__}: {message}")

    def _note_concavity(self) -> None:
        """Warn once of an estimator that cannot keep its promise with a likelihood of several maxima."""
        if not self._warned_concavity:
            self._warned_concavity = True
            message = unkept_promise(self._rule.estimator, self._rule.model)
            if message:
                warn_caller(f"{type(self).__name__}: {message}")

    def _note_status(self) -> None:
        self._note_lock_in()
        self._note_concavity()
        d = len(self._state.memory.theta)
        # where features are many OnlineNewton's status takes as long as d rounds
        if d <= STATUS_ROUNDS or (self._chosen.item() + 1) % (-(-d // STATUS_ROUNDS) * STATUS_ROUNDS) == 0:
            self._note_estimate()

    def _note_estimate(self) -> None:
        """Warn once of an estimate that is not what it should be."""
        if self._warned_status:
            return
        word, n = status(self._rule.estimator, self._state.memory), self._n_counting(self._n_learned)
        few = max(SEPARABLE_ANSWERS, SEPARABLE_PER_FEATURE * len(self._state.memory.theta))
        # an estimator of one's own may have statuses of its own, whose meaning nobody here knows
        if word not in STATUS_WARNINGS or (word in {"boundary", "separated"} and n < few):
            return
        self._warned_status = True
        warn_caller(f"{type(self).__name__}: {STATUS_WARNINGS[word].format(n=n)}")

    def _has_learned(self) -> bool:
        return self._n_learned > 0

    @property
    def _n_learned(self) -> int:
        """Answers, and comparisons of a log."""
        counters = self._state.counters
        return int(counters["answered"] + counters["logged"])

    # --- exploration ----------------------------------------------------------------------------------------

    def _settle(self, n_arms: int, n_features: int) -> Any:
        counters = self._state.counters
        if counters["exploration_rounds"] != UNKNOWN:
            return None
        before = counters.copy(), self._largest
        counters["exploration_rounds"], _ = exploration_of(self._parameters["exploration_rounds"], n_features, n_arms)
        return before

    def _unsettle(self, before: Any) -> None:
        self._state.counters[...], self._largest = before
        if not self._state.counters["factored"]:
            self._state.factor[:] = 0.0
        self._is_exploring = True

    def _end_exploration(self) -> bool:
        due = bool(end_exploration(self._state))
        if due:
            self._counted = None  # pairs count from now on, or in more stages
        if due and self._state.counters["factored"]:
            self._largest = self._largest_allowed()
        self._is_exploring = bool(self._state.counters["exploration_end"] < 0)
        return due

    def _largest_allowed(self) -> float:
        """The largest number that a feature may be, by the factor of M as it is: from here on S only shrinks."""
        return float(min(LARGEST, LARGEST_WIDTH / (len(self._state.gram) * np.abs(self._state.factor).max())))

    def _note_exploration(self) -> None:
        if not self._is_exploring:
            return
        counters = self._state.counters
        message = "" if self._warned_long else long_exploration(self._parameters, counters)
        if message:
            self._warned_long = True
            warn_caller(f"{type(self).__name__}: {message}")
        trouble = "" if self._warned_singular else self.trouble()
        if trouble:
            self._warned_singular = True
            warn_caller(trouble)

    def trouble(self) -> str:
        """What there is to say when M is singular after twice the rounds planned for the exploration, or nothing."""
        counters = self._state.counters
        learned = self._n_learned
        patience = 2 * max(int(counters["exploration_rounds"]), len(self._state.gram))
        if counters["exploration_end"] >= 0 or counters["factored"] or learned < patience:
            return ""
        scale = np.sqrt(np.diag(self._state.gram))
        scale[scale == 0.0] = 1.0
        rank = np.linalg.matrix_rank(
            self._state.gram / np.outer(scale, scale), SHARE_TOLERANCE * len(scale), hermitian=True
        )
        span = "their contrasts span" if self._fading is None else "what is not forgotten of their contrasts spans"
        return (
            f"{type(self).__name__} still explores after {learned} comparisons: {span} "
            f"{rank} of {len(scale)} dimensions, so that the Gram matrix cannot be inverted (a constant feature, "
            "one-hot arms or fewer arms than features?). Remove the redundant features or set ridge > 0."
        )

    def _warm_object(self) -> None:
        super()._warm_object()
        row = np.zeros((1, self._n_features or 1))
        row[0, 0] = 1.0
        twin = self._fresh(rng=0)
        twin._learn_log(row, np.ones(1), np.empty(1))
        if is_refreshed(self._rule.estimator):  # whether or not it is due
            twin._refresh(twin._state)
            if has_audit(self._rule.estimator):
                twin.audit()  # which computes the information, as refreshing does now and then
        twin.probability(*np.zeros((2, 1, self._n_inputs or 1)))
        self._warm_counting(row)
