"""Which columns of a file are the features, by pattern or by name, and how those of two things are paired."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Columns", "Layout", "Request", "check_unique", "layout_of", "named"]

_ONE = re.compile(r"\?|\[!?\]?[^\]]*\]")

Columns = str | Sequence[str]


class Request(NamedTuple):
    """What to take from a log; `path` is what messages call it, `columns` are those that conditions look at.

    `outcome` is None for a default; `winner_first` says that there is none.
    """

    path: str
    first: Columns | None = None
    second: Columns | None = None
    contrast: Columns | None = None
    items: tuple[str, ...] = ()
    categorical: Columns = ()
    outcome: str | None = None
    winner_first: bool = False
    weight: str | None = None
    columns: tuple[str, ...] = ()


class Layout(NamedTuple):
    """Where things stand in a table: one group of columns, the contrasts, or two, or none; and the features' names."""

    groups: list[list[str]]
    features: tuple[str, ...]
    items: tuple[str, ...]
    categorical: frozenset[str]
    outcome: str | None
    weight: str | None


def layout_of(names: list[str], request: Request) -> Layout:
    """Find what was asked for among the names of a table's columns."""
    groups, features = _groups(names, request)
    of_features = [name for group in groups for name in group]
    items = tuple(named(name, (), names, "items", request.path) for name in request.items)
    outcome = None if request.winner_first else named(request.outcome, ("outcome", "y"), names, "outcome", request.path)
    weight = None if request.weight is None else named(request.weight, (), names, "weight", request.path)
    for column, what in ((outcome, "outcome"), (weight, "weight"), *((item, "name of an item") for item in items)):
        if column in of_features:
            raise ValueError(f"column {column!r} is the {what} and a feature too; choose the features more narrowly")
    if outcome is not None and (outcome in items or outcome == weight):
        raise ValueError(f"column {outcome!r} is the outcome and something else too; one column for each is wanted")
    return Layout(groups, features, items, _categorical(of_features, request), outcome, weight)


def _categorical(of_features: list[str], request: Request) -> frozenset[str]:
    patterns = [request.categorical] if isinstance(request.categorical, str) else request.categorical
    found: set[str] = set()
    for pattern in patterns:
        matched = [name for name in of_features if name == pattern or fnmatch.fnmatchcase(name, pattern)]
        if not matched:
            listed = _listed(of_features) or "none"
            raise ValueError(
                f"categorical={pattern!r} matches no column of the features; one of these is wanted: {listed}"
            )
        found.update(matched)
    return frozenset(found)


def _groups(names: list[str], request: Request) -> tuple[list[list[str]], tuple[str, ...]]:
    """The columns of each group in matching order, and what to call the features."""
    if request.contrast is not None:
        columns = list(_matching(request.contrast, names, "contrast", request.path))
        return [columns], tuple(columns)
    if request.first is None or request.second is None:
        if request.items:
            return [], ()
        raise ValueError(
            "say where the features are, with first and second (--first, --second), with contrast (--contrast), or "
            f"with items, the columns of two names (--items); {request.path!r} has the columns {_listed(names)}"
        )
    if isinstance(request.first, str) != isinstance(request.second, str):
        raise ValueError("first and second must both be patterns, or both be lists of columns")
    first = _matching(request.first, names, "first", request.path)
    second = _matching(request.second, names, "second", request.path)
    both = set(first) & set(second)
    if both:
        raise ValueError(f"column {min(both)!r} is in first and in second; each column belongs to one thing")
    if isinstance(request.first, str):
        return _paired_by_key(first, second)
    if len(first) != len(second):
        longer, name = (first, "first") if len(first) > len(second) else (second, "second")
        odd = list(longer)[min(len(first), len(second)) :]
        raise ValueError(f"{name} has columns without a partner: {_listed(odd)}")
    return [list(first), list(second)], tuple(f"{a} - {b}" for a, b in zip(first, second, strict=True))


def _paired_by_key(
    first: Mapping[str, tuple[str, ...]], second: Mapping[str, tuple[str, ...]]
) -> tuple[list[list[str]], tuple[str, ...]]:
    """Match the columns of two patterns by what the wildcards stand for."""
    partners = {key: column for column, key in second.items()}
    keys = set(first.values())
    odd = [("first", column) for column, key in first.items() if key not in partners]
    odd += [("second", column) for column, key in second.items() if key not in keys]
    if odd:
        listed = _listed([f"{column} ({name})" for name, column in odd])
        raise ValueError(f"first and second have columns without a partner: {listed}")
    columns = [list(first), [partners[key] for key in first.values()]]
    # Patterns without a wildcard name one column each: there the first's own name has to do.
    return columns, tuple("_".join(key) or column for column, key in first.items())


def _matching(wanted: Columns, names: list[str], option: str, path: str) -> dict[str, tuple[str, ...]]:
    """Return the columns of a pattern (in file order) or a list, each with what the wildcards stand for."""
    if not isinstance(wanted, str):
        columns = list(wanted)
        check_unique(columns, option)
        absent = [column for column in columns if column not in names]
        if absent or not columns:
            raise ValueError(
                f"{option} names {_listed(absent) or 'nothing'}; columns that {path!r} has are wanted: {_listed(names)}"
            )
        return dict.fromkeys(columns, ())
    expression = _capturing(wanted)
    found = {name: match.groups() for name in names if (match := expression.fullmatch(name))}
    if not found:
        raise ValueError(f"{option}={wanted!r} matches no column; one that {path!r} has is wanted: {_listed(names)}")
    return found


def _capturing(pattern: str) -> re.Pattern[str]:
    """Compile a shell pattern with one group for each wildcard.

    A star stands for as little as it can, the last one for the rest. Between two stars stands something of fixed
    length, and where that is found first is never wrong. So nothing is tried again, which atomic groups, (?>...),
    tell the engine: the time is at most pattern times name, not exponential in the number of stars.
    """
    start, *pieces = _split_at_stars(pattern)
    if not pieces:
        return re.compile(start, re.DOTALL)
    *middle, end = pieces
    return re.compile("".join([start, *(f"(?>(.*?){piece})" for piece in middle), "(.*)", end]), re.DOTALL)


def _split_at_stars(pattern: str) -> list[str]:
    """The expressions between a pattern's stars; a star in [...] is none."""
    pieces, place = [""], 0
    while place < len(pattern):
        one = _ONE.match(pattern, place)
        if one is not None:
            pieces[-1] += "(.)" if one[0] == "?" else f"({_class(one[0])})"
        elif pattern[place] == "*":
            pieces.append("")
        else:
            pieces[-1] += re.escape(pattern[place])
        place += len(one[0]) if one is not None else 1
    return pieces


def _class(wildcard: str) -> str:
    # The standard library knows the rules of [...]; what it returns has an anchor behind that we drop.
    return re.sub(r"\\[Zz]$", "", fnmatch.translate(wildcard))


def check_unique(names: Sequence[str], path: str) -> None:
    """ValueError where a name is there twice; `path` is the file, or the option, that has the names."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{path!r} has two columns with the name {name!r}")
        seen.add(name)


def named(name: str | None, defaults: tuple[str, ...], names: Iterable[str], option: str, path: str) -> str:
    """Return the name that was asked for, or the first default that is there."""
    available = list(names)
    for candidate in defaults if name is None else (name,):
        if candidate in available:
            return candidate
    asked = " or ".join(map(repr, defaults)) if name is None else repr(name)
    raise ValueError(f"{option}: {path!r} has no {asked}; it has {_listed(available)}")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:20])
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"
