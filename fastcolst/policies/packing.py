"""A policy's parameters and state as plain data and plain arrays, and back; nothing of it is a pickle.

Parameters are JSON: texts, numbers, lists and tables of these, and NamedTuples, such as models and estimators, by the
name of their class. A state is its arrays by name, "memory.theta"; of records each field is one; of a history what is
used. What comes back goes into the places of a state that the constructor made of the same parameters, array by array
of the same type and shape: of a file nothing is taken on trust.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import brief
from fastcolst._registry import ESTIMATOR, MODEL, POLICY, is_ours, known, name_of
from fastcolst.estimation.history import History
from fastcolst.policies.labels import label_as_json, label_from_json

__all__ = ["arrays_of", "class_of", "fitting", "parameter_as_json", "parameter_from_json", "reference_of", "restored"]

MEANINGLESS = "scratch"
"""The field whose content means nothing between calls."""
NAMED_BY_TEXT = frozenset({"comparison", "estimator", "perturbation"})
"""Parameters in which a text may be the name of a class."""
_NUMBERS = re.compile(r"[<>|][biuf][1248]")
"""Types of a parameter's array."""


# --- classes ------------------------------------------------------------------------------------------------


def reference_of(cls: type) -> str:
    """The name by which a file knows a class: one of ours, or "package.module:Class".

    Raises
    ------
    ValueError
        Another process would not find it by that name.
    """
    name = name_of(cls)
    module = "__main__" if ":" not in name else name.partition(":")[0]
    if not is_ours(cls) and (module in {"__main__", "__mp_main__"} or _imported(name) is not cls):
        raise ValueError(
            f"the class {name} is not found by this name in a module that can be imported, so that no other process "
            "could load the policy; a class at the top of a module of its own is wanted"
        )
    return name


def class_of(name: Any) -> Any:
    """The class that :func:`reference_of` named, in a module that is imported already: a file must not run code."""
    if type(name) is not str:
        raise ValueError(f"the name of a class is {brief(name)}; a text is wanted")
    if ":" not in name:
        found = next((known(kind)[name] for kind in (POLICY, MODEL, ESTIMATOR) if name in known(kind)), None)
        if not isinstance(found, type):
            raise ValueError(f"the class {name!r} is not known; a newer fastcolst, or the class registered, is wanted")
        return found
    module = name.partition(":")[0]
    if module not in sys.modules:
        raise ValueError(
            f"the class {name} is in no module that was imported, and a file does not have one imported; importing "
            f"{module} before is wanted"
        )
    found = _imported(name)
    if not isinstance(found, type):
        raise ValueError(f"{name} is not in its module, or no class, as is wanted")
    return found


def _imported(reference: str) -> Any:
    module, _, names = reference.partition(":")
    try:
        return reduce(getattr, names.split("."), sys.modules[module])
    except (AttributeError, KeyError):
        return None


# --- parameters ---------------------------------------------------------------------------------------------


def parameter_as_json(name: str, value: Any) -> Any:
    """An argument of a constructor as plain data.

    Raises
    ------
    ValueError
        It is something that a file cannot hold; opens with the name.
    """
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = {field: parameter_as_json(name, part) for field, part in zip(value._fields, value, strict=True)}
        return {"class": reference_of(type(value)), "fields": fields}
    if type(value) is list:
        return {"list": [parameter_as_json(name, part) for part in value]}
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": {key: parameter_as_json(name, part) for key, part in value.items()}}
    if type(value) is np.ndarray and value.dtype.kind in "biuf":
        return {"array": value.tolist(), "dtype": value.dtype.str}
    return label_as_json(name, value)


def parameter_from_json(name: str, data: Any) -> Any:
    """The argument of what :func:`parameter_as_json` gave.

    Raises
    ------
    ValueError
        It gave no such thing, or a class that it names is not found; see :func:`class_of`.
    """
    tags = data.keys() if type(data) is dict else {}
    if tags == {"class", "fields"}:
        cls = class_of(data["class"])
        if not (issubclass(cls, tuple) and hasattr(cls, "_fields")):
            raise ValueError(f"{name} is of class {data['class']!r}; a NamedTuple is wanted")
        return cls(**{field: parameter_from_json(name, part) for field, part in data["fields"].items()})
    if tags == {"list"}:
        return [parameter_from_json(name, part) for part in data["list"]]
    if tags == {"dict"}:
        return {key: parameter_from_json(name, part) for key, part in data["dict"].items()}
    if tags == {"array", "dtype"} and _NUMBERS.fullmatch(data["dtype"]):
        return np.array(data["array"], dtype=data["dtype"])
    label = label_from_json(data)
    if name in NAMED_BY_TEXT and type(label) is str and ":" in label:
        class_of(label)
    return label


# --- arrays -------------------------------------------------------------------------------------------------


def arrays_of(part: Any, name: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a state by name: plain ones, views of what is there."""
    if isinstance(part, History):
        used = int(part.used[0])
        part = part._replace(blocks=part.blocks[:used], owned=part.owned[..., :used])
    if isinstance(part, tuple):
        fields: tuple[str, ...] = part._fields  # type: ignore[attr-defined]
        for field, value in zip(fields, part, strict=True):
            if field != MEANINGLESS:
                yield from arrays_of(value, f"{name}.{field}")
    elif part.dtype.names:
        yield from ((f"{name}.{field}", part[field]) for field in part.dtype.names)
    else:
        yield name, part


def restored(template: Any, name: str, arrays: Mapping[str, NDArray[Any]], grows: bool) -> Any:
    """A state like the template with the content of a file's arrays.

    Parameters
    ----------
    template : NamedTuple of arrays
        As the constructor made it; its scratch is taken over.
    name : str
        What :func:`arrays_of` was told.
    arrays : mapping of name to array
    grows : bool
        Whether arrays of an estimator's memory may be longer than the template's.

    Raises
    ------
    ValueError
        An array is missing, or of another type or shape.
    """
    if isinstance(template, History):
        return _restored_history(template, name, arrays)
    if isinstance(template, tuple):
        fields: tuple[str, ...] = template._fields  # type: ignore[attr-defined]
        return template._replace(  # type: ignore[attr-defined]
            **{
                field: restored(value, f"{name}.{field}", arrays, grows)
                for field, value in zip(fields, template, strict=True)
                if field != MEANINGLESS
            }
        )
    can_grow = (grows and ".memory." in name) or name.endswith(".shown.table")
    if not template.dtype.names:
        return fitting(arrays[name], name, template.dtype, template.shape, at_least=can_grow)
    parts = {
        field: fitting(
            arrays[f"{name}.{field}"], f"{name}.{field}", template.dtype[field], template.shape, at_least=can_grow
        )
        for field in template.dtype.names
    }
    made = np.zeros(next(iter(parts.values())).shape, template.dtype)
    for field, values in parts.items():
        made[field] = values
    return made


def _restored_history(template: History, name: str, arrays: Mapping[str, NDArray[Any]]) -> History:
    """A history with no room but what is used; the template where nothing is."""
    found = History(*(arrays[f"{name}.{field}"] for field in History._fields))
    n = len(found.blocks) if found.blocks.ndim else 0
    wanted = (n, *template.blocks.shape[1:]), (*template.owned.shape[:-1], n), template.size.shape, template.used.shape
    for field, array, own, shape in zip(History._fields, found, template, wanted, strict=True):
        fitting(array, f"{name}.{field}", own.dtype, shape)
    if found.used[0] != n or (n == 0 and found.size.any()):
        raise ValueError(f"{name} has {n} blocks, used {found.used.tolist()}, size {found.size.tolist()}, which differ")
    return deepcopy(found) if n else template


def fitting(
    array: NDArray[Any], name: str, dtype: Any, shape: tuple[int, ...], *, at_least: bool = False
) -> NDArray[Any]:
    """An array of a file, if it is of this type and shape (or longer), and laid out as kernels take it."""
    fits = array.shape == shape
    if at_least and array.ndim == len(shape) > 0:
        fits = array.shape[0] >= shape[0] and array.shape[1:] == shape[1:]
    if array.dtype != dtype or not (fits and array.flags.carray):
        raise ValueError(f"{name} is {array.dtype} {array.shape}; {np.dtype(dtype)} {shape} is wanted")
    return array
