"""Policies, scenarios, comparison models and estimators as tables of plain data, as TOML and JSON hold them.

A table's ``name`` says what is built, its other keys are the arguments. A list in place of a value stands for each of
its entries in turn: a grid. Where a table cannot be right, the message names it, the key, and what was known.
"""

from __future__ import annotations

import inspect
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fastcolst._checks import brief, entries, plain_text
from fastcolst._files import FileFormatError, open_arrays
from fastcolst._registry import ESTIMATOR, LAW, MODEL, POLICY, PROBLEM, add, find, is_ours, known, name_of, table_of
from fastcolst.comparison import comparison_model
from fastcolst.estimation.estimators import estimator_of, settled
from fastcolst.experiments.players import OFFERED, PlainPolicy, Player, is_plain
from fastcolst.experiments.problems import Problem, Scenario
from fastcolst.experiments.scored import ScoredArms
from fastcolst.policies.policy import Policy

__all__ = [
    "MOST_TABLES",
    "Recipe",
    "check_keys",
    "check_levels",
    "expand",
    "policy_name",
    "recipe_of",
    "scenario_name",
    "scenario_of",
    "scenario_table",
]

Table = Mapping[str, Any]

FROM_ELSEWHERE = ("n_features", "rng")
"""Arguments of a policy that its scenario and the study's seed decide."""

_NAMED: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "comparison": (MODEL, comparison_model),
    "perturbation": (MODEL, lambda value, key: None if value is None else comparison_model(value, key)),
    "estimator": (ESTIMATOR, lambda value, _: estimator_of(value)),
    "contexts": (LAW, lambda value, _: value),
}
"""Arguments that a name or an inline table may stand for: the kind that is meant, and what checks a value."""


class Recipe(NamedTuple):
    """What builds a policy: its class, and its arguments apart from those of :data:`FROM_ELSEWHERE`.

    ``given`` is a plain object with ``select`` and ``update`` in place of arguments, or None.
    """

    cls: type
    parameters: dict[str, Any]
    given: Any = None

    def build(self, n_features: int) -> Player:
        """Who plays contexts of so many features."""
        if self.given is not None:
            return PlainPolicy(self.given)
        if is_plain(self.cls):
            return PlainPolicy(self.cls, self.parameters)
        policy: Policy = self.cls(**{"n_features": n_features, **self.parameters})
        return policy

    @property
    def choice_cost(self) -> float:
        """What a choice takes as a multiple of CoLSTIM's; see :class:`fastcolst.Policy`."""
        return float(getattr(self.cls, "choice_cost", PlainPolicy.choice_cost))

    def table(self) -> dict[str, Any]:
        """Every argument, defaults included: what the policy's numbers depend on."""
        if self.given is not None:
            found: dict[str, Any] = table_of(self.given)
            return found
        checked = {key: _NAMED[key][1](v, key) if key in _NAMED else v for key, v in self.parameters.items()}
        if "estimator" in checked and "ridge" in checked:
            checked["estimator"] = settled(checked["estimator"], checked["ridge"])
        return {"name": name_of(self.cls), **{key: table_of(value) for key, value in checked.items()}}


def policy_name(table: Table, where: str) -> str:
    """The name of a policy's table, which must be one that is known."""
    return _choice(table, POLICY, where)[0]


def recipe_of(policy: Any, where: str) -> Recipe:
    """The recipe of a policy or a plain class or object, or of a table with its name and keyword arguments.

    Raises
    ------
    ValueError
        For an unknown name, key or model; opens with ``where``.
    """
    given: Mapping[str, Any] = {}
    if isinstance(policy, Policy):
        cls, given = type(policy), policy.get_params()
        wanted = _arguments(cls)
    elif isinstance(policy, type):
        cls, wanted = policy, _arguments(policy)
    elif not isinstance(policy, Mapping):
        return Recipe(type(policy), {}, policy)
    else:
        cls = _choice(policy, POLICY, where)[1]
        wanted = _arguments(cls)
        check_keys(policy, ("name", *wanted), where)
        given = {key: _built(key, value, where) for key, value in policy.items()}
    values = {key: given.get(key, default) for key, default in wanted.items()}
    left_out = inspect.Parameter.empty
    return Recipe(cls, {key: _carried(key, value) for key, value in values.items() if value is not left_out})


def _arguments(cls: type) -> dict[str, Any]:
    """A class's arguments with their defaults; empty where there is none, or a plain class is offered one in a run."""
    offered = OFFERED if is_plain(cls) else ()
    return {
        p.name: p.empty if p.name in offered else p.default
        for p in inspect.signature(cls).parameters.values()
        if p.name not in FROM_ELSEWHERE and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }


def _carried(key: str, value: Any) -> Any:
    """An argument as workers are handed it: a name that this process was told may mean nothing to them."""
    if key not in _NAMED or not isinstance(value, str):
        return value
    try:
        return value if is_ours(find(_NAMED[key][0], value)) else _NAMED[key][1](value, key)
    except ValueError:  # which whoever builds with it will tell, in its own words
        return value


# --- scenarios ----------------------------------------------------------------------------------------------


def scenario_name(table: Table, where: str) -> str:
    """The kind of a scenario's table: its name, or what its keys tell."""
    return _scenario_choice(table, where)[0]


def _scenario_choice(table: Table, where: str) -> tuple[str, Callable[..., Problem]]:
    if "name" not in table:
        for key, name in (("theta", "theta"), ("utility", "utility"), ("scores", "scored"), ("path", "file")):
            if key in table:
                return name, known(PROBLEM)[name]
    return _choice(table, PROBLEM, where)


def scenario_of(table: Table, where: str, options: Table | None = None) -> Problem:
    """Build the scenario of a table, with those ``options`` that it has for arguments.

    Raises
    ------
    ValueError
        For an unknown name or key, or an argument outside its range; opens with ``where``.
    FileFormatError
        The file of a "file" scenario is damaged, or none.
    OSError
        The file of a "file" scenario cannot be read.
    """
    _, builder = _scenario_choice(table, where)
    check_keys(table, ("name", *inspect.signature(builder).parameters), where)
    offered = {key: value for key, value in (options or {}).items() if key in inspect.signature(builder).parameters}
    arguments = {key: _built(key, value, where) for key, value in {**offered, **table}.items() if key != "name"}
    try:
        _check_complete(builder, arguments)
        return builder(**arguments)
    except FileFormatError as error:
        raise FileFormatError(f"{where}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def scenario_table(problem: Problem, given: Any = None) -> dict[str, Any]:
    """The table of a problem, all arguments spelled out; ``given`` is the table that it was built from, if any.

    What a table cannot hold, such as data, is named by its digest.
    """
    own: dict[str, Any] = table_of(problem)
    if not isinstance(given, Mapping) or isinstance(problem, Scenario):
        return own
    name, builder = _scenario_choice(given, "scenario")
    if isinstance(problem, ScoredArms):  # which tells all its arguments but the data, and where they lie
        return {**{key: table_of(value) for key, value in given.items()}, **own, "name": name}
    parameters = inspect.signature(builder).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    return {key: table_of(value) for key, value in {"name": name, **defaults, **given}.items()}


def _scored(
    contexts: Any,
    scores: Any,
    maximize: bool = True,
    sha256: str | None = None,
    comparison: Any = None,
    scale: float = 1.0,
) -> ScoredArms:
    data = ScoredArms(contexts, scores, maximize, comparison, scale)
    if sha256 not in (None, data.digest):
        raise ValueError("the data are not those that the study was made with: sha256 differs")
    return data


def _from_file(
    path: str,
    maximize: bool | None = None,
    sha256: str | None = None,
    comparison: Any = None,
    scale: float = 1.0,
) -> ScoredArms:
    """Scored arms from an .npz archive with ``contexts`` and ``scores`` (or ``X`` and ``score``), and ``maximize``."""
    with open_arrays(path) as archive:
        arrays = []
        for names in (("contexts", "X"), ("scores", "score")):
            found = next((name for name in names if name in archive), None)
            if found is None:
                listed = ", ".join(archive.names)
                raise ValueError(f"path {os.fspath(path)!r} has no array {' or '.join(names)}: {listed}")
            arrays.append(archive[found])
        if maximize is None and "maximize" in archive:
            kept: Any = archive["maximize"]
            if kept.shape != ():
                raise ValueError(f"maximize of {os.fspath(path)!r} has shape {kept.shape}; one answer is wanted")
            maximize = kept[()]
    return _scored(arrays[0], arrays[1], True if maximize is None else maximize, sha256, comparison, scale)


for _name, _builder in (
    ("easy", Scenario.easy),
    ("medium", Scenario.medium),
    ("hard", Scenario.hard),
    ("lower_bound", Scenario.lower_bound),
    ("theta", Scenario),
    ("utility", Scenario),
    ("scored", _scored),
    ("file", _from_file),
):
    add(PROBLEM, _name, _builder)


# --- grids --------------------------------------------------------------------------------------------------

_LISTS = {"theta": 1, "contexts": 2, "scores": 2, "checkpoints": 1}
"""Arguments that are lists themselves, and how deep; ``contexts`` of scored data are one deeper."""

MOST_TABLES = 10_000
"""Policies, and scenarios, of a study: as many as all its grids together may stand for."""
MOST_LEVELS = 16
"""How deep tables and lists may lie in one another; none of ours is deeper than 6."""


def check_levels(data: Any) -> None:
    """Check that tables and lists do not lie in one another without end, before anything descends into them.

    Raises
    ------
    ValueError
        They lie deeper than :data:`MOST_LEVELS`.
    """
    level = [data]
    for _ in range(MOST_LEVELS):
        holders = [value for value in level if isinstance(value, (Mapping, list, tuple))]
        inner = [v for holder in holders for v in (holder.values() if isinstance(holder, Mapping) else holder)]
        level = list({id(value): value for value in inner}.values())  # a list may hold itself, many times
        if not level:
            return
    raise ValueError(f"study: tables and lists lie in one another more than {MOST_LEVELS} levels deep")


def expand(table: Table, where: str) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """The tables that a table with lists stands for, each with the keys that vary and their values as text.

    Raises
    ------
    ValueError
        A list is empty, or there are more than :data:`MOST_TABLES`, which is known before any is made.
    """
    keyed = entries(where, table, "a table")
    scored = "scores" in keyed
    choices = {
        key: list(itertools.islice(_choices(key, value, scored, where), MOST_TABLES + 1))
        for key, value in keyed.items()
    }
    for key, found in choices.items():
        if not found:
            raise ValueError(f"{where}: {key} is an empty list; at least one value is wanted")
    number = math.prod(map(len, choices.values()))
    if number > MOST_TABLES:
        more = " or more" if any(len(found) > MOST_TABLES for found in choices.values()) else ""
        raise ValueError(f"{where}: its grid has {number:,} points{more}; at most {MOST_TABLES:,} are wanted")
    varied = [key for key, values in choices.items() if len(values) > 1]
    for values in itertools.product(*choices.values()):
        single = dict(zip(choices, values, strict=True))
        yield single, {key: _text(single[key]) for key in varied}


def _choices(key: str, value: Any, scored: bool, where: str) -> Iterator[Any]:
    """What an argument stands for, one by one: there may be more than anyone has memory for."""
    if isinstance(value, Mapping):
        yield from (single for single, _ in expand(value, f"{where}, {key}"))
    elif _is_grid(key, value, scored):
        for entry in value:
            yield from _choices(key, entry, scored, where)
    else:
        yield value


def _is_grid(key: str, value: Any, scored: bool) -> bool:
    """Whether a list stands for its entries rather than for itself."""
    return _is_deeper(value, _LISTS.get(key, 0) + (key == "contexts" and scored))


def _is_deeper(value: Any, depth: int) -> bool:
    """Whether lists lie in one another more than so many levels deep."""
    return isinstance(value, list) and (depth == 0 or any(_is_deeper(entry, depth - 1) for entry in value))


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        rest = ", ".join(f"{key}={_text(v)}" for key, v in value.items() if key != "name")
        return f"{value.get('name', '')}({rest})" if rest else str(value.get("name", ""))
    if isinstance(value, bool):
        return str(value).lower()
    return plain_text(value) or brief(value)


# --- checks and conversions ---------------------------------------------------------------------------------


def check_keys(table: Table, known: Iterable[str], where: str) -> None:
    """Check that a table has no other keys.

    Raises
    ------
    ValueError
        With the table, the keys it should not have, and those it may.
    """
    names: list[str | None] = [*known]
    unknown = [key for key in table if plain_text(key) not in names]
    if unknown:
        keys = f"key{'s' * (len(unknown) > 1)} {', '.join(map(brief, unknown))}"
        raise ValueError(f"{where}: unknown {keys}; known are {', '.join(known)}")


def _check_complete(builder: Callable[..., Any], arguments: Table) -> None:
    for parameter in inspect.signature(builder).parameters.values():
        if parameter.default is parameter.empty and parameter.name not in arguments:
            raise ValueError(f"{parameter.name} is missing")


def _choice(table: Table, kind: str, where: str) -> tuple[str, Any]:
    """A table's name, and the class of this kind that it names."""
    given = table.get("name")
    name = plain_text(given)
    try:
        found = None if name is None else find(kind, name)
    except ValueError as error:
        raise ValueError(f"{where}: name is {error}") from error
    if name is None or found is None:
        what = "name is missing" if given is None else f"name is {brief(given)}"
        raise ValueError(f"{where}: {what}; known are {', '.join(known(kind))}")
    return name, found


def _built(key: str, value: Any, where: str) -> Any:
    """An argument as its object: an inline table of a model, an estimator or a law is built."""
    if key not in _NAMED or not isinstance(value, Mapping):
        return value
    where = f"{where}, {key}"
    _, cls = _choice(value, _NAMED[key][0], where)
    fields: tuple[str, ...] = getattr(cls, "_fields", ())
    check_keys(value, ("name", *fields), where)
    if _NAMED[key][0] == MODEL:  # a table in a model's table is a model as well
        value = {field: _built(key, part, where) for field, part in value.items()}
    try:
        return cls(**{field: v for field, v in value.items() if field != "name"})
    except (TypeError, ValueError) as error:  # a field is missing, or outside its range
        raise ValueError(f"{where}: {error}") from None
