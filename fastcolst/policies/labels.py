"""Labels that people give to arms and features, as JSON holds them: texts, numbers, and tuples of these."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from fastcolst._checks import brief

__all__ = ["label_as_json", "label_from_json"]

_PLAIN = (str, int, float, bool, type(None))


def label_as_json(name: str, label: Any) -> Any:
    """A label as plain data: itself, and {"tuple": [...]} for a tuple.

    Raises
    ------
    ValueError
        It is something else, and would not come back; opens with the name.
    """
    if isinstance(label, np.generic):
        label = label.item()
    if type(label) is tuple:
        return {"tuple": [label_as_json(name, part) for part in label]}
    if type(label) not in _PLAIN:
        raise ValueError(f"{name} is {brief(label)}, which no file can hold; a text, a number or a tuple is wanted")
    return label


def label_from_json(data: Any) -> Hashable:
    """The label of what :func:`label_as_json` gave.

    Raises
    ------
    ValueError
        It gave no such thing.
    """
    if type(data) in _PLAIN:
        plain: Hashable = data
        return plain
    if type(data) is dict and data.keys() == {"tuple"} and type(data["tuple"]) is list:
        return tuple(map(label_from_json, data["tuple"]))
    raise ValueError(f"a label is {brief(data)}; a text, a number or a tuple is wanted")
