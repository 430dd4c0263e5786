"""Named features: the columns of data frames, put into the order in which a policy first saw them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

__all__ = ["Names", "labels_of", "order_of"]

Names = tuple[Hashable, ...]

SHOWN = 8
"""Names that a message lists."""


def labels_of(value: Any) -> Names | None:
    """The labels of a data frame's columns, or of the entries of a pandas Series; None for what has none.

    The numbers by which pandas labels unnamed columns are labels too: columns 2, 0, 1 stand in another order than
    0, 1, 2.
    """
    if type(value) in (np.ndarray, list, tuple):
        return None
    for attribute in ("column_names", "columns", "index"):  # pyarrow; pandas and polars; a pandas Series
        try:
            labels = getattr(value, attribute, None)
            if labels is not None and not callable(labels):
                names = tuple(labels)
                hash(names)
                return names
        except Exception:  # noqa: BLE001 - an object of the caller's may do anything when it is looked at
            return None
    return None


def order_of(name: str, value: Any, known: Names | None) -> tuple[list[int] | None, Names | None]:
    """Where the features stand that a policy knows by name.

    Parameters
    ----------
    name : str
        The argument.
    value : array_like or data frame
        What the user handed in.
    known : tuple of labels, or None
        The policy's features; None before it saw named ones.

    Returns
    -------
    order : list of int, or None
        Columns of ``value`` in the policy's order; None where they stand in it already, or have no names.
    names : tuple of labels, or None
        The policy's features, if all goes well.

    Raises
    ------
    ValueError
        When a name stands twice, is missing or unknown.
    """
    found = labels_of(value)
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
