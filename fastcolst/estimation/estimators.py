"""The estimators by name, and what stands in kernels for what a user passes."""

from __future__ import annotations

from typing import Any

from fastcolst._checks import brief, plain_text
from fastcolst._compile import registered
from fastcolst._registry import ESTIMATOR, METHODS, add, known, with_defaults
from fastcolst.estimation.mle import MLE
from fastcolst.estimation.online_newton import OnlineNewton
from fastcolst.estimation.sgd import SGD
from fastcolst.estimation.words import ENGINES

__all__ = ["engine_of", "estimator_of", "settled"]

for _name, _words in (("sgd", SGD), ("mle", MLE), ("online-newton", OnlineNewton)):
    add(ESTIMATOR, _name, _words)


def estimator_of(value: Any) -> Any:
    """The estimator that a user's argument stands for: a name, "package.module:Class", or an instance, checked.

    Raises
    ------
    ValueError
        For an unknown name or an object without the methods ``memory`` and ``learn``.
    """
    names = ", ".join(map(repr, known(ESTIMATOR)))
    name = plain_text(value)
    if name is not None:
        named = with_defaults(ESTIMATOR, name, "estimator")
        if named is None:
            raise ValueError(f"estimator is {brief(value)}; wanted {names} or an estimator")
        return estimator_of(named)
    if any(value is estimator for estimator in known(ESTIMATOR).values()):
        raise ValueError(f"estimator is the class {value.__name__}; an instance is wanted: fc.{value.__name__}()")
    if type(value) in ENGINES:
        return type(value)(*value)
    missing = [name for name in METHODS[ESTIMATOR] if not callable(getattr(type(value), name, None))]
    if missing or isinstance(value, type):
        raise ValueError(
            f"estimator is {brief(value)}; wanted {names} or a NamedTuple with the methods memory and learn"
        )
    return registered(value, "estimator")


def settled(value: Any, ridge: float) -> Any:
    """The estimator that a user's argument stands for in a policy with this ridge, which is its own unless it says one.

    Raises
    ------
    ValueError
        As :func:`estimator_of`, and where the estimator cannot do with so small a ridge.
    """
    estimator = estimator_of(value)
    if type(estimator) not in ENGINES or getattr(estimator, "ridge", ridge) is not None:
        return estimator
    own = ENGINES[type(estimator)].of(estimator).ridge
    return type(estimator)(**{**estimator._asdict(), "ridge": ridge if ridge > 0.0 else own})


def engine_of(value: Any, ridge: float = 0.0) -> Any:
    """What stands in kernels for a user's argument: numbers of ours, or an estimator of one's own as it is.

    ``ridge`` is that of its policy; see :func:`settled`.
    """
    estimator = settled(value, ridge)
    engine = ENGINES.get(type(estimator))
    return estimator if engine is None else engine.of(estimator)
