"""Policies: the objects that people hold. They check what comes in, own the random stream and call a kernel."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst._callers import warn_caller
from fastcolst._checks import (
    LARGEST,
    all_moderate,
    brief,
    contexts_array,
    count,
    number,
    outcome,
)
from fastcolst._compile import direct, one_line
from fastcolst.estimation.protocol import FULL
from fastcolst.policies.answering import Answering, AtWork
from fastcolst.policies.arms import Arms, arms_of
from fastcolst.policies.bound import Binding
from fastcolst.policies.columns import Names, order_of
from fastcolst.policies.copied import Copied
from fastcolst.policies.duel import Asked, Duel, PendingDuel, no_pair
from fastcolst.policies.kept_sets import KeptChoices
from fastcolst.policies.kernels import (
    ESTIMATE_STALE,
    NO_PAIR,
    NOT_MODERATE,
    Buffers,
    choose,
    code_of_all,
)
from fastcolst.policies.learned import Learned
from fastcolst.policies.lock_in import LOOK_EVERY
from fastcolst.policies.locks import new_lock
from fastcolst.policies.parameters import described
from fastcolst.policies.pending import Pending
from fastcolst.policies.protocol import check_rule
from fastcolst.policies.saved import Saved
from fastcolst.policies.sets import Sets
from fastcolst.policies.shown import ShownSet
from fastcolst.policies.summary import Summarised
from fastcolst.streams import check_rng, entropy_of, generator

__all__ = ["Policy"]

STATUS_ROUNDS = 64
"""How often a policy looks whether its estimate is the maximum it should be."""

FLOAT64 = np.dtype(np.float64)
"""The very object that ordinary arrays have; others are looked at more closely."""

ORDINARY = 1.0
"""The weight of an answer that says none: known again by being this very object, which takes no time."""


_new_tuple = tuple.__new__  # of a NamedTuple, in half the time of its own


class Policy(Answering, Binding, Copied, Saved, Sets, Summarised):
    """What every policy has: rounds, duels, a random stream, and parameters that rebuild it.

    Threads may share a policy: its calls take turns. Data frames name their columns: the first one's names and their
    order are the policy's, other orders are put right, missing and unknown names are refused; an array has no names
    and is taken as it stands.

    A subclass names its parameters in its constructor, ``n_features``, ``n_arms`` and ``rng`` among them, calls
    ``super().__init__(locals())`` first and then ``self._begin(rule, state)``; see :mod:`fastcolst.extend`.

    What simulations ask of a policy stands in :class:`fastcolst.policies.simulated.Simulated`.
    """

    def __init_subclass__(cls) -> None:
        if cls.__doc__ is not None:
            cls.__doc__ = described(cls.__doc__)

    def __init__(self, parameters: dict[str, Any]) -> None:
        signature = inspect.signature(type(self).__init__)
        given = {name: parameters[name] for name in signature.parameters if name != "self"}
        self._parameters = {k: v.item() if isinstance(v, np.generic) else v for k, v in given.items()}
        n_features, n_arms, rng = given["n_features"], given["n_arms"], given["rng"]
        self._n_features = None if n_features is None else count("n_features", n_features)
        self._n_arms = None if n_arms is None else count("n_arms", n_arms)
        check_rng(rng)
        most = given.get("max_pending")
        self._pending = Pending(None if most is None else count("max_pending", most))
        self._names: Names | None = None
        self._lock = new_lock()
        self._buffers = Buffers.none()
        self._largest = LARGEST
        self._answering: AtWork | None = None
        self._is_noted = True
        self._learned = Learned()
        self._choices = KeptChoices()
        self._is_settled = False  # whether a first choice has decided what the parameters left open

    def _begin(self, rule: Any, state: Any) -> None:
        """End the construction. The stream is drawn now: what was refused before has not moved the caller's.

        Raises
        ------
        TypeError
            The rule is not registered, or lacks a method that every rule must have.
        """
        check_rule(rule)
        self._begin_stream(entropy_of(self._parameters["rng"]))
        self._start(rule, state)

    def _begin_stream(self, entropy: int) -> None:
        """Draw from the beginning of a stream."""
        if self._parameters["rng"] is not None:
            self._parameters["rng"] = entropy
        self._entropy, self._rng, self._unused = entropy, generator(entropy), None
        self._buffers.drawn_for[0] = 0

    # --- the service loop -----------------------------------------------------------------------------------

    def select(
        self,
        contexts: ArrayLike | Mapping[Any, ArrayLike],
        available: ArrayLike | None = None,
        keys: Sequence[Hashable] | None = None,
    ) -> Duel:
        """Choose the next two arms.

        Parameters
        ----------
        contexts : (n_arms, n_features) array_like of real numbers, or a dict {key: (n_features,) array_like}
            One row for each arm; finite. Not modified.
        available : (n_arms,) array_like of bool, optional
            Which arms may be shown; None: all. ``first`` and ``second`` are rows of all. A pandas Series must have the
            arms' labels as its index, in their order: the keys, or the data frame's index.
        keys : sequence of hashables, optional
            Names of the arms, one for each; the duel has those of its two as ``first_key`` and ``second_key``. None:
            those of a dict, or the index of a pandas data frame unless it is the default one, which counts the rows. No
            two are equal.

        Returns
        -------
        Duel
            To be answered with :meth:`update`, at any time and in any order, unless it is a self-duel.

        Raises
        ------
        ValueError
            When ``contexts`` has the wrong shape, is not made of finite real numbers, or holds numbers so large that
            products overflow; when ``available`` or ``keys`` do not fit it, or leave one arm where
            ``allow_self_duel=False``. The policy is then as it was.

        Warns
        -----
        UserWarning
            Once each: before an exploration whose length nobody gave, of more than 1,000 rounds or than the horizon;
            when the exploration should be over but M is still singular, so that pairs stay random; when the estimate of
            some hundreds of answers is not what it should be (see ``status``); and when more than half of the choices
            are self-duels that what is known does not justify.
        """
        arms = None
        if (
            type(contexts) is np.ndarray
            and contexts.dtype is FLOAT64
            and available is None
            and keys is None
            and self._map is None
        ):
            rows: NDArray[np.float64] = contexts
        else:
            arms = arms_of(contexts, available, keys)
            rows = arms.contexts
        with self._lock:
            asked = self._show(self._choose(rows, arms), rows.shape[0], arms)
            if not self._is_plain:
                self._forget_if_due()  # after a self-duel
            return asked.duel

    def _choose(self, contexts: NDArray[np.float64], arms: Arms | None) -> int:
        """The code of a choice, see :func:`choose`, which begins a round. A failure leaves the policy as it was.

        ``arms`` is None for contexts that are all that is known of them.
        """
        is_like_before = arms is None and contexts.shape == self._buffers.shape and contexts.flags.carray
        round_ = self._chosen.item() + 1
        if is_like_before and self._is_settled and not self._is_exploring and round_ % STATUS_ROUNDS:
            # nothing comes before the choice, and the kernel looks at the numbers itself
            return self._chosen_among(contexts, self._largest, round_)
        given, names = contexts, self._names
        if not (is_like_before and all_moderate(contexts, self._largest)):
            contexts, names = self._look_closely(Arms(contexts) if arms is None else arms)
        code = self._choose_with_care(contexts, len(given), None if arms is None else arms.rows)
        self._names = names
        return code

    def _choose_with_care(
        self, contexts: Any, n_arms: int, rows: NDArray[np.int64] | None = None, chooser: Any = None
    ) -> int:
        """The code of a choice among good contexts, of the arms in some rows of so many or of all of them.

        Bound arms bring a ``chooser`` of their own in place of :func:`choose`.

        It is preceded by whatever may be due: what the first round settles, the end of the exploration, warnings.
        """
        before = None if self._is_settled else self._settle(n_arms, contexts.shape[1])
        try:
            if self._is_exploring:
                self._end_exploration()
                self._note_exploration()
            round_ = self._chosen.item() + 1
            if round_ % STATUS_ROUNDS == 0:  # before anything changes: a warning may be turned into an error
                self._note_status()
            code = self._chosen_among(contexts, LARGEST, round_, rows, chooser)
        except BaseException:
            if before is not None:
                self._unsettle(before)
            raise
        self._is_settled = True
        return code

    def _chosen_among(
        self, contexts: Any, largest: float, round_: int, rows: Any = None, chooser: Any = None, agent: Any = None
    ) -> int:
        """What :func:`choose` returns in a round for contexts of the buffers' shape, of the arms in some rows or all.

        All choices are made here, by whatever kernel and agent.
        """
        if agent is None:
            if self._counts_pending and len(self._pending):
                return self._chosen_beside(contexts, largest, round_, rows, chooser)
            agent = self._agent if rows is None else self._agent_for(rows)
        if rows is not None or chooser is not None:
            code = (chooser or choose)(agent, contexts, largest, self._buffers)
        else:
            if self._direct_choose is None:
                self._direct_choose = direct(choose, agent, contexts, largest, self._buffers)
            code = self._direct_choose(agent, contexts, largest, self._buffers)
        if code < 0:
            code = self._choose_after_all(code, contexts, largest, chooser or choose, agent)
        if round_ % LOOK_EVERY == 0:
            self._look_at_choice(contexts, code, agent)
        return code

    def _show(self, code: int, n_arms: int, arms: Arms | None) -> Asked:
        """Show the duel of the choice that was just made."""
        keys = None
        if arms is not None:
            keys = arms.keys
            code = code if arms.rows is None else code_of_all(code, arms.rows, n_arms)
        contrast = self._buffers.contrast.copy()
        if self._is_plain:
            return self._pending.show(code, n_arms, contrast, self._chosen.item(), keys)
        weight = 1.0 if self._alpha is None else self._trust(self._alpha, code, n_arms, contrast)
        shown = code, n_arms, contrast, self._chosen.item(), keys, weight
        return self._show_and_count(*shown) if self._counts_pending else self._pending.show(*shown)

    def _look_closely(self, arms: Arms) -> tuple[NDArray[np.float64], Names | None]:
        """Checked contexts of the available arms in the policy's order, and the names, if all goes well.

        The buffers have their shape.
        """
        order, names = order_of("contexts", arms.labels, self._names)
        contexts = contexts_array(arms.contexts, self._n_inputs, self._n_arms, self._largest)
        if arms.rows is not None:
            contexts = contexts[arms.rows]
        if len(contexts) == 1 and not self._parameters.get("allow_self_duel", True):
            what = "contexts has 1 arm" if arms.rows is None else "available has 1 arm"
            raise ValueError(f"{what}; at least two are wanted where allow_self_duel=False")
        self._tell_of_late("contexts", names)
        contexts = self._mapped(contexts if order is None else contexts.take(order, axis=1))
        if contexts.shape != self._buffers.shape:
            self._buffers = self._new_buffers(*contexts.shape)
            self._put_unused(self._buffers)
        return contexts, names

    def _agent_for(self, rows: NDArray[np.int64]) -> Any:
        """What chooses among the arms in some rows."""
        return self._agent

    def _tell_of_late(self, name: str, names: Names | None) -> None:
        """Warn of names that come after comparisons without any, unless they are the places themselves."""
        if self._names is None and names is not None and names != tuple(range(len(names))) and self._has_learned():
            warn_caller(
                f"{name} names its features, and earlier ones had no names: {', '.join(map(str, names))} are taken for "
                "the features in this order"
            )

    def _has_learned(self) -> bool:
        """Whether features have been learned from, which blind policies do not."""
        return False

    def _choose_after_all(self, code: int, contexts: Any, largest: float, chooser: Any, agent: Any) -> int:
        """Choose once more when the estimate had to come first; refuse contexts that are too large."""
        if code == NOT_MODERATE:
            contexts_array(contexts, self._n_features, self._n_arms, largest)
        if code == ESTIMATE_STALE:
            self._refresh(self._state_of(agent))
            self._note_status()
            code = chooser(agent, contexts, largest, self._buffers)
        if code == NO_PAIR:
            raise no_pair(self._rule, self._chosen.item() + 1, len(contexts))
        if code < 0:
            raise ValueError("contexts are so large that a utility or a width overflows: scale the features down")
        return code

    def update(
        self,
        duel: Duel | ShownSet | str,
        first_won: float | None = None,
        weight: float = ORDINARY,
        rater: str | int | None = None,
        *,
        winner: Any = None,
        ranking: Any = None,
        ties: str | None = None,
    ) -> None:
        """Learn the answer to a duel, or to a set.

        Parameters
        ----------
        duel : Duel, ShownSet or str
            From this policy's :meth:`select` or :meth:`select_set`, or its token; each is answered once, at any time
            and in any order.
        first_won : bool, or 1, 0 or 0.5
            Of a duel: whether the first arm won; 0.5 for a tie, of which half a win each way is learned. The answer to
            a self-duel is checked and changes nothing.
        weight : float, default 1.0
            How much the answer counts, positive: its loss is ``weight`` times that of an ordinary one, M gains so many
            times z z', :class:`fastcolst.SGD` goes so many times as far, and policies that count wins count so many.
            A whole weight is as many answers, but for SGD; of OnlineNewton see there. The exploration counts answers.
        rater : str or int, optional
            Who answered, for :meth:`LinearPolicy.history`; only where the estimator keeps what it learns. A number is
            from -2^63 to 2^63 - 1.
        winner : hashable
            Of a set: the best of its arms, by its key, or by its row where the contexts had no keys.
        ranking : sequence of these
            Of a set, in place of the winner: its arms, best first. Arms that it does not name are worse than all it
            names, in no order. A list of arms in place of one is a tie.
        ties : {"in-order", "breslow"}, optional
            What becomes of ties in a ranking, as for :func:`fastcolst.fit_rankings`. None: they are refused.

        Raises
        ------
        AlreadyAnsweredError, DiscardedError, ForeignDuelError, MalformedDuelError
            ValueErrors that say why no answer to the duel is awaited. The policy is as it was.
        ValueError
            When ``first_won``, ``weight``, ``rater``, ``winner``, ``ranking`` or ``ties`` is something else, or numbers
            would overflow. The policy is then as it was.
        """
        if first_won is None or winner is not None or ranking is not None or ties is not None:
            self._update_set(duel, first_won, (winner, ranking, ties), weight, rater)
            return
        with self._lock:
            asked = self._pending.known(duel)
            if asked is None and duel is not self._pending.last_self:  # not the object that was shown: look closely
                asked = self._pending.find(duel)
            share = outcome(first_won) if type(first_won) is not bool else 1.0 if first_won else 0.0
            if weight is not ORDINARY or rater is not None:
                weight, rater = number("weight", weight, positive=True), self._kept_rater(rater)
            # a self-duel never waits, and needs no answer
            if asked is None or (self._answering is not None and self._end_interrupted() == asked.duel.round):
                return
            round_ = asked.duel.round
            if not self._is_noted:
                self._catch_up()
            self._answering = _new_tuple(AtWork, (round_, self._answered.item(), share, rater))
            self._learn(asked, share, weight, rater)
            self._pending.drop(round_)
            self._answering = None
            if self._is_exploring:
                self._end_exploration()

    def discard(self, duel: Duel | ShownSet | str) -> None:
        """Give up waiting for an answer that nobody gave.

        Nothing is learned, and the round still counts. Whoever likes both arms alike answers 0.5.

        Parameters
        ----------
        duel : Duel or str
            A duel that is pending, or its token.

        Raises
        ------
        AlreadyAnsweredError, DiscardedError, ForeignDuelError, MalformedDuelError
            As for :meth:`update`.
        ValueError
            It is a self-duel, which is never pending.
        """
        with self._lock:
            self._end_interrupted()
            asked = self._pending.find_shown(duel)
            if asked is None:
                raise ValueError(f"duel is {brief(duel)}, a self-duel, which never waits; one that waits is wanted")
            self._give_up(asked)

    def pending_duels(self) -> list[PendingDuel]:
        """List the duels that wait for their answer, the oldest first.

        Returns
        -------
        list of PendingDuel
            Each with its token, arms, keys and age in rounds.

        Examples
        --------
        >>> import numpy as np, fastcolst as fc
        >>> policy = fc.UniformPairs(rng=1)
        >>> duels = [policy.select(np.eye(3)) for _ in range(5)]
        >>> for waiting in policy.pending_duels():
        ...     if waiting.age >= 3:
        ...         policy.discard(waiting.token)
        >>> policy.pending
        3
        """
        with self._lock:
            self._end_interrupted()
            return self._pending.listed(self._chosen.item())

    @property
    def round(self) -> int:
        """Number of rounds in which arms were chosen."""
        return self._chosen.item()

    @property
    def pending(self) -> int:
        """Number of duels that wait for their answer; :meth:`pending_duels` lists them."""
        if self._answering is not None:  # another thread learns an answer, or Ctrl-C stopped an update
            with self._lock:
                self._end_interrupted()
        return len(self._pending)

    @property
    def expired(self) -> int:
        """Number of duels that were given up because more than ``max_pending`` waited."""
        return self._pending.expired

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

    # --- what waits, and compilation ------------------------------------------------------------------------

    def _make_ready(self, code: int, n_comparisons: int) -> None:
        """Do what learning waits for: make room for comparisons, or bring the estimate up to date."""
        if code != FULL:
            self._refresh(self._state)
            return
        before = self._state
        self._make_room(n_comparisons)
        if self._state is before:
            raise TypeError(
                f"{type(self._rule.estimator).__name__}.learn says that its memory is full, and its method grown makes "
                f"no room for {n_comparisons} more; another memory is wanted"
            )

    def _note_status(self) -> None:
        """Warn once of an estimate that is not the maximum it should be."""

    def _note_exploration(self) -> None:
        """Warn once of an exploration that is long, and once of one that lasts for longer than it should."""

    def warmup(self) -> None:
        """Compile this policy's kernels, or load them from the cache, now and not at the first use. Changes nothing."""
        with one_line():
            self._warm_object()
            self.warm_play()

    def _warm_object(self) -> None:
        n_features = self._n_inputs or 1
        twin = self._fresh(n_features=n_features, n_arms=2, rng=0)
        twin.update(twin.select(np.eye(2, n_features)), True)

    def _new_buffers(self, n_arms: int, n_features: int) -> Buffers:
        return Buffers.new(self._rule, n_arms, n_features)
