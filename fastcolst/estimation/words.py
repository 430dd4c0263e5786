"""Words of people, checked: "auto", None, "likelihood".

What people build, an MLE and its like, are their words alone. What works in kernels is the NamedTuple of numbers that
:func:`stands_for` notes for it, so that no number can be taken for a word.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, TypeVar

from fastcolst._checks import brief, looked_at, plain_text, real_number

__all__ = ["ENGINES", "SCORES", "name_of", "number_of", "radius_of", "ridge_of", "score_code", "score_of", "stands_for"]

SCORES = ("likelihood", "residual")
"""Kernels know them by their places."""

C = TypeVar("C", bound=type)

ENGINES: dict[type, Any] = {}
"""What stands in kernels for each class that people build."""


def stands_for(engine: Any) -> Callable[[C], C]:
    """Check a NamedTuple of people's words whenever one is built, as ``engine.words(it)`` does."""

    def decorate(cls: C) -> C:
        plain_new = cls.__new__

        def new(klass: type, *args: Any, **kwargs: Any) -> Any:
            return plain_new(klass, *engine.words(plain_new(klass, *args, **kwargs)))

        new.__signature__ = inspect.signature(plain_new)  # type: ignore[attr-defined]
        cls.__new__ = new  # type: ignore[method-assign, assignment]
        ENGINES[cls] = engine
        return cls

    return decorate


def name_of(estimator: Any) -> str:
    """The name by which people know an estimator or what stands for it in kernels."""
    faces = (face.__name__ for face, engine in ENGINES.items() if type(estimator) is engine)
    return next(faces, type(estimator).__name__)


def number_of(owner: str, name: str, value: Any, wanted: str = "a number is wanted") -> float:
    """A real number as a float; True and False are none."""
    found = looked_at(real_number, value)
    if found is None:
        raise ValueError(f"{owner}: {name} is {brief(value)}; {wanted}")
    return found


def ridge_of(owner: str, value: Any) -> float | None:
    """A finite ridge of at least 0; None, for the policy's, as it is."""
    if value is None:
        return None
    ridge = number_of(owner, "ridge", value)
    if not 0.0 <= ridge < math.inf:
        raise ValueError(f"{owner}: ridge is {ridge!r}; a finite number of at least 0 is wanted")
    return ridge


def score_of(owner: str, value: Any) -> str:
    """A score by its name."""
    text = plain_text(value)
    if text in SCORES:
        return text
    raise ValueError(f"{owner}: score is {brief(value)}; wanted one of {', '.join(map(repr, SCORES))}")


def score_code(value: Any, owner: str) -> int:
    """The number by which kernels know a score: 0 likelihood, 1 residual."""
    return SCORES.index(score_of(owner, value))


def radius_of(owner: str, value: Any, wanted: str = "a positive number or None") -> float | None:
    """A positive radius; None, of which infinity is another name, for no bound."""
    if value is None:
        return None
    radius = number_of(owner, "radius", value, f"{wanted} is wanted")
    if radius == math.inf:
        return None
    if 1e-100 <= radius < 2.0**1023:  # of what is shorter or longer the square is 0 or infinite
        return radius
    raise ValueError(f"{owner}: radius is {brief(value)}; {wanted} is wanted")
