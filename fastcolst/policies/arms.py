"""Arms as people have them: rows with keys, of which some are not available now."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import as_array, brief, looked_at, plain_text
from fastcolst.policies.columns import Names, contexts_of

__all__ = ["Arms", "Keys", "arms_of", "available_rows", "checked_keys", "index_of", "keys_of_their_own"]

Keys = tuple[Hashable, ...]


class Arms(NamedTuple):
    """Arms as somebody handed them in.

    contexts: one row for each arm, not yet looked at; labels: the features' names; keys: the arms', or None; rows:
    indices of the available arms, int64, or None for all.
    """

    contexts: NDArray[np.float64]
    labels: Names | None = None
    keys: Keys | None = None
    rows: NDArray[np.int64] | None = None


def arms_of(contexts: Any, available: Any = None, keys: Any = None) -> Arms:
    """The arms that the caller handed in.

    It runs the caller's code and is therefore called before a policy takes its lock.

    Raises
    ------
    ValueError
        For what :meth:`fastcolst.Policy.select` refuses of ``available`` and ``keys``, or contexts without numbers.
    """
    if isinstance(contexts, Mapping) and keys is not None:
        raise ValueError("keys is given and contexts is a dict, which has keys of its own; one of the two is wanted")
    rows, labels = contexts_of(contexts)
    n_arms = len(rows) if rows.ndim else 0
    given = keys_of(contexts) if keys is None else checked_keys(keys, n_arms)
    index, keys_index, available_index = (looked_at(index_of, value) for value in (contexts, keys, available))
    _check_order("keys", keys_index, index)
    _check_order("available", available_index, index, keys_index, given)
    return Arms(rows, labels, given, None if available is None else available_rows(available, n_arms))


def keys_of(contexts: Any) -> Keys | None:
    """The keys of a dict of vectors, or the index of a pandas data frame unless it just counts the rows; else None."""
    if type(contexts) is np.ndarray:
        return None
    if isinstance(contexts, Mapping):
        keys = looked_at(tuple, contexts)
        if keys is None:
            raise ValueError(f"contexts is {brief(contexts)}, whose keys cannot be read; a dict of vectors is wanted")
        _refuse_unequal("list(contexts)", keys)
        return keys
    index = looked_at(index_of, contexts)
    if index is None or (type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)):
        return None
    return keys_of_their_own("contexts.index", list(index), " (contexts.reset_index(drop=True) has none)")


def index_of(value: Any) -> Any:
    """The index of a pandas data frame or Series; None where there is none, or where it is something else.

    Of a list it is a method, of an xarray it may be a coordinate.
    """
    index = getattr(value, "index", None)
    return index if hasattr(index, "get_indexer") else None


def _check_order(name: str, index: Any, *labels: Any) -> None:
    """Refuse what has an index of its own that is none of the arms' labels: by place it would be of other arms."""
    known = [list(own) for own in labels if own is not None]
    if index is not None and known and list(index) not in known:
        raise ValueError(
            f"{name} has another index than contexts; the same arms in the same order are wanted, or an array, which "
            "is taken as it stands"
        )


def checked_keys(value: Any, n_arms: int) -> Keys:
    """Keys that somebody handed in, one for each arm."""
    wanted = "a sequence of keys, one for each arm, is wanted"
    is_sequence = plain_text(value) is None and not isinstance(value, (bytes, Mapping, AbstractSet))
    listed = looked_at(lambda given: given.tolist() if hasattr(given, "tolist") else list(given), value)
    if not is_sequence or type(listed) is not list:
        raise ValueError(f"keys is {brief(value)}; {wanted}")
    if len(listed) != n_arms:
        raise ValueError(f"keys has {len(listed)} entries and contexts has {n_arms} arms; {wanted}")
    return keys_of_their_own("keys", listed)


def keys_of_their_own(name: str, listed: list[Any], cure: str = "") -> Keys:
    """The keys, of which no two are equal; opens with the name otherwise."""
    places: dict[Hashable, int] = {}
    for place, key in enumerate(listed):
        if looked_at(hash, key) is None:
            raise ValueError(
                f"{name}[{place}] is {brief(key)}, which cannot be hashed; a text, a number or a tuple is wanted"
            )
        if places.setdefault(key, place) != place:
            raise ValueError(
                f"{name}[{place}] is {brief(key)} as {name}[{places[key]}] is; a key of its own is wanted for "
                f"each{cure}"
            )
    _refuse_unequal(name, listed)
    return tuple(listed)


def _refuse_unequal(name: str, keys: Sequence[Any]) -> None:
    """Refuse keys that do not equal themselves, such as nan: they could not be found again, and would not be missed."""
    if looked_at(_equal_themselves, keys):
        return
    place, key = next((place, key) for place, key in enumerate(keys) if not looked_at(_equal_themselves, [key]))
    raise ValueError(
        f"{name}[{place}] is {brief(key)}, which does not equal itself; a text, a number or a tuple is wanted"
    )


def _equal_themselves(keys: Sequence[Any]) -> bool:
    """Whether all of some keys do; O(n), without a step of Python's for each."""
    return all(map(operator.eq, keys, keys))


def available_rows(value: Any, n_arms: int, labels: Sequence[Hashable] | None = None) -> NDArray[np.int64]:
    """The rows that a mask says are available; ``labels``, where there are some, are wanted of its index."""
    _check_order("available", looked_at(index_of, value), labels)
    wanted = f"True or False for each of the {n_arms} arms is wanted"
    mask = as_array("available", value, "no mask", wanted)
    if mask.dtype.kind == "O" and all(isinstance(entry, (bool, np.bool_)) for entry in mask.ravel().tolist()):
        mask = mask.astype(np.bool_)
    if mask.dtype.kind != "b":
        raise ValueError(f"available is {brief(value)}, of {mask.dtype.name}; {wanted}")
    if mask.shape != (n_arms,):
        raise ValueError(f"available has shape {mask.shape}; {wanted}")
    if not mask.any():
        raise ValueError("available has no arm; at least one True is wanted")
    return np.flatnonzero(mask)
