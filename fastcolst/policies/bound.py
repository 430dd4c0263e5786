"""Arms that stay the same from round to round, bound to a policy: checked once, and worth the same until an answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst._checks import all_moderate, brief, contexts_array, count, looked_at
from fastcolst._compile import plain
from fastcolst.kernels.selection import random_pair
from fastcolst.policies.arms import Arms, Keys, arms_of, available_rows, checked_keys, index_of, keys_of_their_own
from fastcolst.policies.batches import Batches, batch_size
from fastcolst.policies.bound_rows import Rows
from fastcolst.policies.bound_search import Sight, draw_numbers, search_of
from fastcolst.policies.bound_values import CHUNK, Values
from fastcolst.policies.columns import Names, order_of
from fastcolst.policies.duel import Asked, Duel
from fastcolst.policies.kernels import ESTIMATE_STALE, NOT_FINITE_CODE, Buffers, agent_is_stale, choose

__all__ = ["Binding", "BoundArms"]

FEW = 1024
"""Up to so many arms a look at each of them takes less time than bounds that spare it."""


class Binding(Batches):
    """A policy's way to fixed arms."""

    _buffers: Buffers
    _is_exploring: bool
    _chosen: NDArray[np.int64]
    _largest: float
    _lock: Any
    _map: Any
    _n_arms: int | None
    _n_features: int | None
    _names: Names | None
    _rule: Any
    _state: Any
    _unused: tuple[tuple[int, int], NDArray[np.float64]] | None

    def bind(self, contexts: ArrayLike | Mapping[Any, ArrayLike], keys: Sequence[Hashable] | None = None) -> BoundArms:
        """Bind arms that stay the same from round to round: their choices take a fraction of the time.

        Parameters
        ----------
        contexts : (n_arms, n_features) array_like of real numbers, or a dict {key: (n_features,) array_like}
            As :meth:`select` takes them. A memory map (``np.load(path, mmap_mode="r")``) of float32 or float64 is read
            where it lies, and must not change while it is bound; anything else is copied, float32 as float32.
        keys : sequence of hashables, optional
            As :meth:`select` takes them.

        Returns
        -------
        BoundArms
            Which chooses exactly what :meth:`select` would choose among these arms.

        Raises
        ------
        ValueError
            As :meth:`select`, and for a policy with ``features=``. The policy is as it was.

        Examples
        --------
        >>> import numpy as np, fastcolst as fc
        >>> policy = fc.CoLSTIM(2, estimator="sgd", ridge=1.0, rng=1)
        >>> bound = policy.bind(np.eye(4, 2), keys=["a", "b", "c", "d"])
        >>> duel = bound.select(available=[True, True, False, True])
        >>> policy.update(duel, first_won=True)
        >>> policy.round, policy.pending
        (1, 0)
        """
        if self._map is not None:
            raise ValueError(
                "features is a map, by which arms go anew in every round; a policy without one is wanted, and arms as "
                "they come out of the map"
            )
        rows, labels, own_keys, index = _given(contexts, keys)
        with self._lock:
            return BoundArms(self, rows, labels, own_keys, index)

    if TYPE_CHECKING:  # what a policy has besides

        def _choose_with_care(
            self, contexts: Any, n_arms: int, rows: NDArray[np.int64] | None = None, chooser: Any = None
        ) -> int: ...

        def _look_closely(self, arms: Arms) -> Any: ...

        def _new_buffers(self, n_arms: int, n_features: int) -> Buffers: ...

        def _put_unused(self, buffers: Buffers) -> None: ...

        def _show(self, code: int, n_arms: int, arms: Arms | None) -> Asked: ...

        def _select_all(self, rounds: list[Callable[[], Asked]]) -> list[Duel]: ...

        def _tell_of_late(self, name: str, names: Names | None) -> None: ...


class BoundArms:
    """Arms that stay the same from round to round, bound to a policy by :meth:`Policy.bind`.

    It chooses exactly what the policy's ``select`` would choose among these arms, bit for bit, and shares the policy's
    state, lock, random stream and duels that wait: answers go to the policy, and it does not matter who gives them.

    Attributes
    ----------
    n_arms : int
    keys : tuple of hashables, or None

    Notes
    -----
    For :class:`CoLSTIM` the arms' utilities and squared widths are carried from round to round: an answer changes M^-1
    by a matrix of rank one, which takes one pass over the arms, O(n_arms n_features), where a look at each of them
    takes O(n_arms n_features^2). What is carried, with a bound for all rounding, says which arms cannot be chosen; the
    others, a few, are computed by the very formulas of ``select``. All are computed anew after 1,024 passes, when more
    than a quarter as many answers as there are features came at once, and when rounding might have added up. The noise
    of all arms is drawn as ever, and transformed for those that it may bring to the top.

    Other policies, up to 1,024 arms, and rounds in which few of the arms are available are looked at as by ``select``,
    without its checks and conversions.

    Memory for CoLSTIM: 4 bytes for each feature of each arm, 40 for each arm, and the arms themselves unless they are
    a memory map's. Other policies: a float64 copy of the arms, and what ``select`` takes.

    Threads may share it. A policy's copies, and files, leave bound arms out: bind them again.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> rng = np.random.default_rng(0)
    >>> catalogue = rng.normal(size=(5000, 3)).astype(np.float32)
    >>> policy, twin = (fc.CoLSTIM(3, estimator="sgd", ridge=1.0, exploration_rounds=0, rng=1) for _ in range(2))
    >>> bound = policy.bind(catalogue)
    >>> for _ in range(20):
    ...     duel, same = bound.select(), twin.select(catalogue)
    ...     assert (duel.first, duel.second) == (same.first, same.second)
    ...     policy.update(duel, first_won=duel.contrast[0] > 0)
    ...     twin.update(same, first_won=duel.contrast[0] > 0)
    """

    def __init__(self, policy: Binding, rows: Rows, labels: Names | None, keys: Keys | None, index: Any) -> None:
        self._policy = policy
        self._rows, self._labels, self._keys, self._index = rows, labels, keys, index
        self._largest = self._checked(rows, 0)
        order, _ = order_of("contexts", labels, policy._names)
        self._order(order)

    def _order(self, order: list[int] | None) -> None:
        """Put the features into the policy's order; nothing is known of the arms then."""
        self._rows = self._rows.in_order(order)
        self._forget()

    _values: Values | None
    _all: NDArray[np.float64] | None
    _own: Buffers
    _full: Buffers

    def _forget(self) -> None:
        vars(self).update(_nothing_known())

    def __copy__(self) -> BoundArms:
        """The same arms of the same policy; what is carried of them is not shared, since it is changed in place."""
        twin = object.__new__(type(self))
        vars(twin).update({**vars(self), **_nothing_known()})
        return twin

    def _checked(self, rows: Rows, start: int) -> float:
        """The size of the largest feature from a row on; refuses what ``select`` would refuse."""
        policy, largest = self._policy, 0.0
        d, n = policy._n_features, policy._n_arms
        is_sound = 0 not in rows.shape and d in (None, rows.shape[1]) and n in (None, rows.shape[0])
        for place in range(start, rows.shape[0] if is_sound else 0, CHUNK):
            part = np.require(rows[place : place + CHUNK], np.float64, ["C", "W"])
            is_sound = is_sound and all_moderate(part, policy._largest)
            largest = max(largest, float(np.abs(part).max()))
        if not is_sound:
            contexts_array(rows.all(), d, n, policy._largest)
        return largest

    # --- what there is --------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return len(self._rows)

    @property
    def keys(self) -> Keys | None:
        """The arms' keys, or None."""
        return self._keys

    def __repr__(self) -> str:
        return f"BoundArms({self._policy!r}, n_arms={self.n_arms})"

    def add(self, contexts: ArrayLike | Mapping[Any, ArrayLike], keys: Sequence[Hashable] | None = None) -> None:
        """Add arms after the others.

        Parameters
        ----------
        contexts : (m, n_features) array_like of real numbers, or a dict {key: (n_features,) array_like}
            As for :meth:`Policy.bind`.
        keys : sequence of hashables, optional
            One for each where the arms have keys, and none where they have none; no two arms have the same.

        Raises
        ------
        ValueError
            As :meth:`Policy.bind`, and where the policy was built for another number of arms. Nothing was added.
        """
        more, labels, new_keys, _ = _given(contexts, keys)
        with self._policy._lock:
            if (new_keys is None) != (self._keys is None):
                raise ValueError(
                    f"keys is {'None' if new_keys is None else 'given'}; the bound arms have "
                    f"{'keys' if self._keys else 'none'}, and as much is wanted of those that are added"
                )
            if new_keys is not None and self._keys is not None:
                new_keys = keys_of_their_own("keys", [*self._keys, *new_keys])
            if len(more) == 0:
                raise ValueError("contexts has 0 arms; at least one is wanted")
            block = self._as_bound(more, labels)
            rows = self._rows.with_more(block)
            largest = max(self._largest, self._checked(rows, len(self._rows)))
            values = self._taken_values()
            values = values if values is not None and values.add(rows) else None
            self._become(values, _rows=rows, _keys=new_keys, _largest=largest)

    def _as_bound(self, more: Rows, labels: Names | None) -> NDArray[Any]:
        """Rows to add, their columns in the order of the blocks."""
        if more.shape[1] != self._rows.shape[1]:
            raise ValueError(f"contexts has {more.shape[1]} features; {self._rows.shape[1]}, as bound, are wanted")
        block: NDArray[Any] = more.blocks[0]
        if labels is None:  # in the policy's order
            return block if self._rows.columns is None else block.take(np.argsort(self._rows.columns), axis=1)
        order, _ = order_of("contexts", labels, self._labels or self._policy._names)
        return block if order is None else block.take(order, axis=1)

    def remove(self, arms: Sequence[Any]) -> None:
        """Remove arms; those after them move up.

        Parameters
        ----------
        arms : sequence of keys, or of indices where the arms have no keys
            Each once. One arm is left at least.

        Raises
        ------
        ValueError
            One of them is not there, or is named twice, or none would be left. Nothing was removed.
        """
        listed = looked_at(list, arms) if not isinstance(arms, (str, bytes)) else None
        if listed is None:
            raise ValueError(f"arms is {brief(arms)}; a list of keys, or of indices, is wanted")
        with self._policy._lock:
            n = len(self._rows)
            kept = np.ones(n, np.bool_)
            places = None if self._keys is None else {key: place for place, key in enumerate(self._keys)}
            for number, arm in enumerate(listed):
                found = arm if places is None else looked_at(places.get, arm)
                place = looked_at(lambda value: count("arms", value, lowest=0), found)
                if place is None or place >= n or not kept[place]:
                    why = "which is not bound" if place is None or place >= n else "which was named before"
                    wanted = "keys of bound arms" if self._keys else f"indices below {n}"
                    raise ValueError(f"arms[{number}] is {brief(arm)}, {why}; {wanted}, each once, are wanted")
                kept[place] = False
            rest = n - len(listed)
            if not listed:
                return
            if rest == 0:
                raise ValueError(f"arms are all {n}; at least one arm must be left, and fewer are wanted")
            if self._policy._n_arms is not None:
                raise ValueError(
                    f"contexts has {rest} arms; this policy was built for n_arms={self._policy._n_arms}, which are "
                    "wanted"
                )
            rows, keys = self._rows.only(np.flatnonzero(kept)), self._keys
            if keys is not None:
                keys = tuple(key for key, stays in zip(keys, kept.tolist(), strict=True) if stays)
            values = self._taken_values()
            if values is not None:
                values.remove(kept)
            self._become(values, _rows=rows, _keys=keys)

    def _taken_values(self) -> Values | None:
        """What is carried, to be changed in place: until it is put back nothing is, so that Ctrl-C costs no more."""
        values, self._values = self._values, None
        return values

    def _become(self, values: Values | None, **changes: Any) -> None:
        """Change the arms and what is carried of them, all in one step that no signal divides."""
        vars(self).update({**changes, "_index": None, **_nothing_known(), "_values": values})

    # --- choosing -------------------------------------------------------------------------------------------

    def select(self, available: ArrayLike | None = None) -> Duel:
        """Choose the next two arms, as :meth:`Policy.select`.

        Parameters
        ----------
        available : (n_arms,) array_like of bool, optional
            As in :meth:`Policy.select`.

        Returns
        -------
        Duel
            To be answered with the policy's ``update``.

        Raises
        ------
        ValueError
            As :meth:`Policy.select`.
        """
        n = len(self._rows)
        places = None if available is None else available_rows(available, n, self._keys or self._index)
        with self._policy._lock:
            if places is not None and len(self._rows) != n:
                raise ValueError(f"available has {n} entries; one for each of {len(self._rows)} arms is wanted")
            self._prepare(places)
            asked = self._ask(places)
            self._policy._forget_if_due()
            return asked.duel

    def select_batch(self, size: int) -> list[Duel]:
        """Choose several duels at once, as :meth:`Policy.select_batch` does from one pool of arms.

        Parameters
        ----------
        size : int

        Returns
        -------
        list of Duel

        Raises
        ------
        ValueError
            As :meth:`Policy.select_batch`.
        """
        n_duels = batch_size(size)
        with self._policy._lock:
            self._prepare(None)
            return self._policy._select_all([partial(self._ask, None)] * n_duels)

    def _prepare(self, places: NDArray[np.int64] | None) -> None:
        """Look at what may have changed since the arms were bound: what the policy allows, and its features' order."""
        policy, n = self._policy, len(self._rows)
        order, names = order_of("contexts", self._labels, policy._names)
        if order != self._rows.columns:
            self._order(order)
        n_chosen_among = n if places is None else len(places)
        if n_chosen_among == 1 or not self._largest < policy._largest or policy._n_arms not in (None, n):
            policy._look_closely(Arms(self._rows.in_order(None).all(), self._labels, self._keys, places))
        elif self._labels is not None:
            policy._tell_of_late("contexts", names)

    def _ask(self, places: NDArray[np.int64] | None) -> Asked:
        """A round among the arms in some places, None for all."""
        policy, n, contexts = self._policy, len(self._rows), self._rows.only(places)
        self._available = places
        self._lay_out(contexts.shape)
        try:
            code = policy._choose_with_care(contexts, n, places, self._code)
        except BaseException:
            own = self._own
            if policy._buffers is own and own.drawn_for[0] > policy._chosen.item():
                policy._unused = contexts.shape, own.raw.copy()  # for the round to come, whoever asks for it
                own.drawn_for[0] = 0
            raise
        policy._names = policy._names or self._labels
        arms: Any = Arms(self._rows, self._labels, self._keys, places)  # type: ignore[arg-type]
        return policy._show(code, n, arms)

    def _lay_out(self, shape: tuple[int, int]) -> None:
        """Give the policy room for the numbers of a round among so many arms, and what was drawn and not used."""
        policy, fitting_nobody = self._policy, (-shape[0], -shape[1])
        own, is_own = self._own, policy._buffers is self._own and self._own.shape == fitting_nobody
        if policy._buffers.shape == shape or (is_own and policy._unused is None):
            return
        if own.shape != fitting_nobody:
            own = Buffers(
                fitting_nobody,
                np.zeros(policy._rule.n_raw(shape[0])),
                np.zeros(1, np.int64),
                np.empty((0, 0)),
                np.empty((0, 0)),
                np.empty(shape[1]),
            )
        own.drawn_for[0] = 0
        policy._put_unused(own._replace(shape=shape))
        self._own = policy._buffers = own

    def _code(self, agent: Any, contexts: Rows, largest: float, buffers: Buffers) -> int:
        """What :func:`choose` returns, whose place this takes in a policy; ``contexts`` are the available arms."""
        policy, n, out = self._policy, len(contexts), buffers.contrast
        places = None if contexts is self._rows else self._available
        state = policy._state_of(agent)
        search = search_of(policy._rule)
        if search is None or n <= FEW or n * len(out) < len(self._rows):
            return self._look_at_all(agent, contexts, largest, buffers)
        raw = buffers.raw
        if policy._is_exploring:
            draw_numbers(agent, buffers)
            first, second = plain(random_pair)(raw[0], raw[1], n)
        else:
            if agent_is_stale(agent):
                return ESTIMATE_STALE
            if self._values is None:
                self._values = Values(self._rows)
                self._scratch = np.empty(0)
            values = self._values
            if not values.follow(state.factor, state.memory.theta):
                return self._look_at_all(agent, contexts, largest, buffers)
            draw_numbers(agent, buffers)
            carried = values.carried
            if len(self._scratch) != 2 * len(carried.utilities):
                self._scratch = np.empty(2 * len(carried.utilities))
            if places is not None:
                utilities = np.full(len(carried.utilities), -np.inf)
                utilities[places] = carried.utilities[places]
                carried = carried._replace(utilities=utilities)
            n_more = len(state.memory.theta) - len(out)
            sight = Sight(self._rows, places, carried, n_more, self._scratch)
            first, second = search(agent, raw, sight)
            if first < 0:
                return NOT_FINITE_CODE
        out[:] = contexts[first] - contexts[second]
        policy._chosen[...] = policy._chosen + 1
        if first == second:
            policy._state.counters["faded"] -= 1
        return first * n + second

    def _look_at_all(self, agent: Any, contexts: Rows, largest: float, buffers: Buffers) -> int:
        """Choose as the policy's ``select`` does."""
        if contexts is not self._rows:
            rows = contexts.all()
        else:
            self._all = rows = contexts.all() if self._all is None else self._all
        if self._full.shape != rows.shape:
            self._full = self._policy._new_buffers(*rows.shape)
        full = self._full._replace(raw=buffers.raw, drawn_for=buffers.drawn_for, contrast=buffers.contrast)
        return int(choose(agent, rows, largest, full))


def _nothing_known() -> dict[str, Any]:
    """Attributes of bound arms of which nothing was computed yet."""
    nothing = Buffers.none()
    return {"_values": None, "_all": None, "_own": nothing, "_full": nothing}


def _given(contexts: Any, keys: Any) -> tuple[Rows, Names | None, Keys | None, Any]:
    """Arms as somebody handed them in: rows of one's own, unless they are a memory map's; labels, keys and index.

    It runs the caller's code and is therefore called before a policy takes its lock.
    """
    kind = type(contexts)
    if kind in (np.ndarray, np.memmap) and contexts.dtype in (np.float32, np.float64) and contexts.ndim == 2:
        own_keys = None if keys is None else checked_keys(keys, len(contexts))
        is_in_file = kind is np.memmap and contexts._mmap is not None  # a copy of a memory map is of its class
        return Rows([contexts if is_in_file else contexts.copy()]), None, own_keys, None
    arms = arms_of(contexts, None, keys)
    rows = arms.contexts.copy() if arms.contexts is contexts else arms.contexts
    if rows.ndim != 2:
        contexts_array(rows, None, None)
    index = arms.keys if arms.keys is not None else range(len(rows)) if index_of(contexts) is not None else None
    return Rows([rows]), arms.labels, arms.keys, index
