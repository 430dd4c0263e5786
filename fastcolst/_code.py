"""What is remembered of the code of people's own classes and functions, so that a change does not go unnoticed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from fastcolst._compile import code_digest, is_versioned
from fastcolst._registry import name_of
from fastcolst._words import looked_at

__all__ = ["Code", "changed_code", "merged_code", "own_code"]

Code = dict[str, list[str | None]]
"""Digests by ``"module:name"``, in the order in which they were met; None where there is no telling."""


def own_code(things: Iterable[Any]) -> Code:
    """Digests of all classes and functions of people's own that things are made of."""
    found: Code = {}
    todo, seen = list(things), {}
    while todo:
        thing = todo.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing  # which keeps it, and its id, alive
        if isinstance(thing, (type, FunctionType)):
            if not is_versioned(thing.__module__):
                found[name_of(thing)] = [code_digest(thing)]
        else:
            todo += _inside(thing)
    return dict(sorted(found.items()))


def _inside(thing: Any) -> Iterator[Any]:
    yield type(thing)
    if isinstance(thing, MethodType):
        yield from (thing.__func__, thing.__self__)
    elif isinstance(thing, partial):
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif isinstance(thing, Mapping):
        yield from thing.values()
    elif isinstance(thing, (list, tuple, set, frozenset)):
        yield from thing
    else:
        yield from (looked_at(vars, thing) or {}).values()


def changed_code(there: Code, now: Code) -> list[str]:
    """What is not as it was when it was met last: "name: the digest then, now the other"."""
    return [
        f"{name}: {_short(there.get(name, [None]))}, now {_short(digests)}"
        for name, digests in now.items()
        if there.get(name, [])[-1:] != digests
    ]


def merged_code(there: Code, now: Code) -> Code:
    """All digests, those of now at the end."""
    found = {name: there.get(name, []) for name in now}
    return {name: [*found[name], *(digests if found[name][-1:] != digests else [])] for name, digests in now.items()}


def _short(digests: list[str | None]) -> str:
    return "unknown" if digests[-1] is None else digests[-1][:12]
