"""Named features: the columns of data frames, put into the order in which a policy first saw them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import looked_at, real_numbers

__all__ = ["Features", "Names", "contexts_of", "features_of", "order_of"]

Names = tuple[Hashable, ...]

SHOWN = 8
"""Names that a message lists."""


class Features(NamedTuple):
    """Features as somebody handed them in: numbers, not yet looked at, and the columns' labels."""

    rows: NDArray[np.float64]
    labels: Names | None


def features_of(name: str, value: Any, shape: str = "(m, n_features)") -> Features:
    """The numbers and labels of what the caller handed in.

    It runs the caller's code, such as ``__array__``, and is therefore called before a policy takes its lock.
    """
    if type(value) is np.ndarray and value.dtype == np.float64:
        return Features(value, None)
    labels = looked_at(labels_of, value)
    if type(value) in (list, tuple):
        for i, row in enumerate(value):
            if looked_at(labels_of, row) != labels:
                raise ValueError(f"{name}[{i}] has its features in another order than {name}[0]; hand in a data frame")
    return Features(real_numbers(name, value, shape), labels)


def contexts_of(contexts: Any) -> Features:
    """The features of arms that the caller handed in: rows (n_arms, n_features), or a dict of vectors in its order."""
    if isinstance(contexts, Mapping):
        return features_of("contexts", list(contexts.values()), "a dict of vectors (n_features,)")
    return features_of("contexts", contexts, "(n_arms, n_features)")


def labels_of(value: Any) -> Names | None:
    """The labels of a data frame's columns, or of the entries of a pandas Series; None for what has none.

    A list has those of its first row. The numbers by which pandas labels unnamed columns are labels too: columns
    2, 0, 1 stand in another order than 0, 1, 2.
    """
    if type(value) in (list, tuple):
        return labels_of(value[0]) if value and type(value[0]) not in (list, tuple) else None
    for attribute in ("column_names", "columns", "index"):  # pyarrow; pandas and polars; a pandas Series
        labels = getattr(value, attribute, None)
        if labels is not None and not callable(labels):
            names = tuple(labels)
            hash(names)
            return names
    return None


def order_of(name: str, found: Names | None, known: Names | None) -> tuple[list[int] | None, Names | None]:
    """Where the features stand that a policy knows by name.

    Parameters
    ----------
    name : str
        The argument.
    found : tuple of labels, or None
        The features' labels in the order in which they were handed in.
    known : tuple of labels, or None
        The policy's features; None before it saw named ones.

    Returns
    -------
    order : list of int, or None
        Columns in the policy's order; None where they stand in it already, or have no names.
    names : tuple of labels, or None
        The policy's features, if all goes well.

    Raises
    ------
    ValueError
        When a name stands twice, is missing or unknown.
    """
    if found is None:
        return None, known
    places = {label: place for place, label in enumerate(found)}
    if len(places) < len(found):
        twice = next(label for place, label in enumerate(found) if places[label] != place)
        raise ValueError(f"{name} has the column {twice!r} twice; every feature needs a name of its own")
    if known is None or found == known:
        return None, found
    missing = [label for label in known if label not in places]
    unknown = [label for label in found if label not in known]
    if missing or unknown:
        told = " and ".join(
            f"{verb} {_listed(labels)}" for verb, labels in (("lacks", missing), ("has also", unknown)) if labels
        )
        raise ValueError(f"{name} {told}; this policy's features are {_listed(known)} (an array is taken as it stands)")
    return [places[label] for label in known], known


def _listed(labels: Any) -> str:
    more = f", ... ({len(labels)} in all)" if len(labels) > SHOWN else ""
    return ", ".join(map(repr, labels[:SHOWN])) + more
