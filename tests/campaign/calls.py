"""Hostile calls: what the public API cannot use it refuses in words that name the argument, and nothing has changed.

A call takes arguments with which it works and replaces one to three of them by something from the catalogue in
`campaign.hostile`. It may succeed, or raise ValueError (or what its docstring names). Then the object, the streams and
the inputs must be as they were, byte by byte, and the next valid call must do what it does to a twin of the object that
never saw the hostile one.

``from campaign.calls import tell; tell(SEED, NUMBER)`` makes one call of the campaign again and lets its error through.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import pickle
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.random import Generator
from test_aslib import FILES as ASLIB
from twins import CLASSES

import fastcolst as fc
from campaign.hostile import hostile
from campaign.tally import Campaign, Tally
from fastcolst.estimation.history import History
from fastcolst.policies import REGISTRY, LinearPolicy, Policy

CALLS = 20_000
SECONDS, MEGABYTES = 5.0, 400
"""What a call may take at most: whoever asks for the absurd must hear at once that there is no such thing."""

PATIENCE = 60.0
"""Seconds, of a wall clock, after which a call is ended, where the system has alarms."""

N, D, HORIZON = 4, 2, 60
_SIZES = frozenset({"n_arms", "n_features", "runs", "checkpoints", "threads", "history", "exploration_rounds"})
"""Arguments that tell how large something is, and not how long it takes."""


class Case(NamedTuple):
    """A call that works.

    subject : the object whose state it may change, or None
    follow : what to do with a subject next, and what that gives; None: the call again
    """

    function: Callable[..., Any]
    arguments: dict[str, Any]
    subject: Any = None
    follow: Callable[[Any, Generator], Any] | None = None


class Point(NamedTuple):
    """An entry point of the public API: its name, how often it is called, what else than ValueError it may raise."""

    name: str
    case: Callable[[World, Generator], Case]
    weight: float = 1.0
    raises: tuple[type[Exception], ...] = ()
    names: tuple[str, ...] = ()  # by which its messages may call what is wrong, besides its arguments


# --- what there is to call -------------------------------------------------------------------------------------

CALLED_BY_KERNELS = frozenset(
    f"{cls}.{method}"
    for cls, methods in {
        **dict.fromkeys((cls.__name__ for cls in CLASSES), ("raw", "fill_raw", "perturb", "perturb_at_most")),
        "Lapse": ("raw", "fill_raw", "perturb", "latent"),
        "SGD": ("memory", "learn"),
        "MLE": ("memory", "learn", "grown", "is_stale", "doubt", "refresh", "status"),
        "OnlineNewton": ("memory", "learn", "grown", "is_stale", "doubt", "refresh", "status"),
        "Scenario": ("start",),
        "ScoredArms": ("start",),
        **dict.fromkeys(REGISTRY, ("fresh_for", "play", "retract", "select_set")),
        "MaxPairUCB": ("fresh_for", "play", "retract"),
        "CoLSTIM": ("fresh_for", "play"),
    }.items()
    for method in methods
)
"""What a model, an estimator, a problem and a policy must have for ours, for people who write one and not for callers;
and what those of the policies here refuse that keep no history, or do not choose by utility plus width."""

MADE_BY_OURS = frozenset(
    {
        "BoundArms",
        "Duel",
        "Fit",
        "PendingDuel",
        "SetAnswers",
        "ShownSet",
        "StudyResult",
        "Summary",
        "Tuning",
        *(name for name in fc.__all__ if name.endswith("Error")),
    }
)
"""Records and exceptions that our functions hand out; whoever builds one may put in anything."""

BASES = frozenset({"Policy"})
"""Classes of which only subclasses are built; their methods are called there."""


def public() -> set[str]:
    """Every public name that can be called with arguments: functions, constructors, methods."""
    found = set()
    for name in sorted(set(fc.__all__) - BASES):
        value = getattr(fc, name)
        if not isinstance(value, type):
            found.add(name)
            continue
        if name not in MADE_BY_OURS:
            found.add(name)
        for method, _ in inspect.getmembers(value, callable):
            owner = next((cls for cls in value.__mro__ if method in vars(cls)), object)
            if method.startswith("_") or not owner.__module__.startswith("fastcolst"):
                continue
            parameters = [p for p in inspect.signature(getattr(value, method)).parameters if p != "self"]
            if parameters:
                found.add(f"{name}.{method}")
    return found - CALLED_BY_KERNELS


# --- the world -------------------------------------------------------------------------------------------------

PLAYERS: dict[str, tuple[type[Policy], dict[str, Any]]] = {
    "CoLSTIM mle": (fc.CoLSTIM, {"exploration_rounds": 5}),
    "CoLSTIM sgd": (fc.CoLSTIM, {"estimator": "sgd", "ridge": 1.0}),
    "SupCoLSTIM": (fc.SupCoLSTIM, {"horizon": HORIZON, "ridge": 1.0, "exploration_rounds": 5}),
    "MaxInP": (
        fc.MaxInP,
        {"estimator": "online-newton", "comparison": "exponential", "ridge": 1.0, "exploration_rounds": 5},
    ),
    "StaD": (fc.StaD, {"estimator": "sgd", "horizon": HORIZON, "exploration_rounds": 5}),
    "MaxPairUCB": (fc.MaxPairUCB, {"estimator": "sgd", "comparison": "exponential"}),
    "counting": (
        fc.MaxInP,
        {
            "estimator": "online-newton",
            "comparison": "exponential",
            "ridge": 1.0,
            "exploration_rounds": 5,
            "count_pending": True,
            "robust": 0.5,
            "max_pending": 4,
        },
    ),
    "TwoSamples": (fc.TwoSamples, {"estimator": "online-newton"}),
    "Informative": (fc.Informative, {"estimator": "online-newton"}),
    "DoubleThompson": (fc.DoubleThompson, {}),
    "SelfSparring": (fc.SelfSparring, {}),
    "UniformPairs": (fc.UniformPairs, {}),
}
"""All classes of policies, with all estimators, and no kernels but those that tests compile anyway."""


class World:
    """Objects that work, of which each call gets copies."""

    def __init__(self, seed: int, folder: Path) -> None:
        rng = np.random.default_rng([seed, 7])
        self.folder = folder
        self.players: dict[str, list[bytes]] = {}
        for label, (cls, parameters) in PLAYERS.items():
            policy = cls(D, n_arms=N, rng=seed, **parameters)
            stages = [_kept(policy)]
            for rounds in (6, 30):
                play(policy, rng, rounds)
                stages.append(_kept(policy))
            self.players[label] = stages
        self.log = fc.Log.from_arrays(rng.normal(size=(12, D)), rng.random(12) < 0.5)
        self.scored = fc.ScoredArms(rng.normal(size=(5, N, D)), rng.normal(size=(5, N)))
        self.tuning = fc.tune(fc.CoLSTIM(D, estimator="sgd"), PROBLEM, 20, 2, 1, grid={"ridge": [0.5, 1.0]})
        self.result = fc.simulate({"a": fc.UniformPairs()}, fc.Scenario.easy(n_arms=N, n_features=D), 20, 2, rng=1)
        self.replayed = fc.replay(self.player("CoLSTIM sgd", 0), self.log)
        self.result.save(folder / "result.parquet")
        self.player("CoLSTIM sgd", 1).save(folder / "policy.npz")
        for name, text in ASLIB.items():
            (folder / name).write_text(text)
        np.savez(folder / "log.npz", Z=rng.normal(size=(12, D)), y=rng.integers(2, size=12), year=np.arange(12))
        np.savez(folder / "pairs.npz", a=rng.normal(size=(9, D)), b=rng.normal(size=(9, D)), won=np.arange(9) % 2)
        self.table = {
            "horizon": 20,
            "runs": 2,
            "seed": 3,
            "checkpoints": 4,
            "policy": [{"name": "UniformPairs"}, {"name": "CoLSTIM", "estimator": "sgd", "ridge": [0.5, 1.0]}],
            "scenario": [{"name": "easy", "n_arms": N, "n_features": D}, {"theta": [1.0, 0.0], "n_arms": 3}],
        }
        (folder / "s.toml").write_text(
            'horizon = 20\nruns = 2\n[[policy]]\nname = "UniformPairs"\n[[scenario]]\nname = "hard"\nn_arms = 4\n'
        )
        for model in ("bradley-terry", "thurstone"):  # the hostile calls that are taken find their kernels compiled
            fc.PreferenceRegression(comparison=model, ridge=1.0).fit([[1.0], [2.0]], [0, 1]).predict_proba([[1.0]])
        self.study = fc.Study({"a": fc.UniformPairs()}, {"easy": {"name": "easy", "n_arms": N}}, 20, 2)
        self.studied = self.study.run(folder / "study", progress=False)

    def player(self, label: str, stage: int) -> Any:
        """A policy of one's own that has seen what that stage has."""
        return _again(self.players[label][stage])


def _kept(policy: Policy) -> bytes:
    return pickle.dumps(policy)


def _again(kept: bytes) -> Any:
    return pickle.loads(kept)


def contexts(rng: Generator) -> np.ndarray:
    return rng.normal(size=(N, D))


def play(policy: Policy, rng: Generator, rounds: int) -> list[Any]:
    """Rounds of which every third is not answered."""
    duels = []
    for i in range(rounds):
        duel = policy.select(contexts(rng))
        if i % 3:
            policy.update(duel, bool(rng.random() < 0.5))
        duels.append((duel.first, duel.second))
    return duels


def _follow(policy: Any, rng: Generator) -> Any:
    """What a policy does next: choices, an answer, a log, an estimate."""
    told = [play(policy, rng, 3)]
    if isinstance(policy, LinearPolicy):
        told += [policy.learn_and_predict(rng.normal(size=(2, D)), [True, False]), policy.theta]
    return told


# --- entry points ----------------------------------------------------------------------------------------------


def _constructor(cls: type[Policy], parameters: dict[str, Any]) -> Callable[[World, Generator], Case]:
    def case(world: World, rng: Generator) -> Case:
        named = inspect.signature(cls).parameters
        arguments = {name: p.default for name, p in named.items() if p.default is not p.empty}
        seed = np.random.default_rng(int(rng.integers(100)))
        arguments |= {"n_features": D, "n_arms": N, "rng": seed, **parameters}
        return Case(cls, arguments)

    return case


def _theorem(cls: Any) -> Callable[[World, Generator], Case]:
    def case(world: World, rng: Generator) -> Case:
        arguments = {"n_features": D, "n_arms": N, "horizon": 10**7, "comparison": "bradley-terry", "rho": 0.5}
        return Case(cls.from_theorem, {**arguments, "theta_norm": 1.0, "rng": 1, "estimator": "sgd"})

    return case


def _for_service(world: World, rng: Generator) -> Case:
    return Case(fc.CoLSTIM.for_service, {"n_features": D, "n_arms": N, "estimator": "sgd", "rng": 1})


def _waiting(policy: Policy, rng: Generator) -> Any:
    """A duel that waits for its answer, or its token."""
    duel = policy.select(contexts(rng))
    while duel.is_self:
        duel = policy.select(contexts(rng))
    return duel if rng.random() < 0.5 else duel.token


def _answered(policy: Policy, rng: Generator) -> Any:
    duel = _waiting(policy, rng)
    policy.update(duel, True)
    return duel


def _method(label: str, method: str) -> Callable[[World, Generator], Case]:
    """A method of a policy that has seen nothing, is exploring or knows something."""

    def case(world: World, rng: Generator) -> Case:
        policy = world.player(label, int(rng.integers(3)))
        if method == "expected_misordered" and policy.get_params()["estimator"] == "sgd":  # which knows none
            policy = type(policy)(**{**policy.get_params(), "estimator": "mle", "rng": 1})
        arguments: dict[str, Any] = {}
        if method in ("select", "bind", "select_set"):
            arguments = {"contexts": contexts(rng), **({"k": 3} if method == "select_set" else {})}
        elif method in ("update", "discard"):
            arguments = {"duel": _waiting(policy, rng), **({} if method == "discard" else {"first_won": True})}
        elif method == "learn":
            arguments = {"winners": rng.normal(size=(3, D)), "losers": rng.normal(size=(3, D))}
        elif method == "learn_and_predict":
            arguments = {"contrasts": rng.normal(size=(3, D)), "wins": np.array([True, False, True])}
        elif method in ("utilities", "widths", "expected_misordered"):
            arguments = {"contexts": contexts(rng)}
        elif method == "probability":
            shape = [(D,), (3, D)][rng.integers(2)]
            arguments = {"first": rng.normal(size=shape), "second": rng.normal(size=shape)}
        else:
            arguments = {
                "fork": lambda: {"worker": 2 if rng.random() < 0.5 else "two"},
                "select_batch": lambda: {"contexts": contexts(rng), "size": 2},
                "update_batch": lambda: {
                    "duels": [_waiting(policy, rng), _waiting(policy, rng)],
                    "answers": [True, 0.5],
                    "weights": [2.0, 0.5],
                },
                "retract": lambda: {"duel": _answered(policy, rng)},
                "answer a set": lambda: _answer_to_a_set(policy, rng),
                "save": lambda: {"path": world.folder / "saved.npz"},
                "stage": lambda: {"number": 1},
            }[method]()
        return Case(getattr(policy, "update" if method == "answer a set" else method), arguments, policy, _follow)

    return case


def _answer_to_a_set(policy: Policy, rng: Generator) -> dict[str, Any]:
    """Arguments of an update that tells the best of three, or puts some of them in order."""
    shown = policy.select_set(contexts(rng), 3)
    given = shown if rng.random() < 0.5 else shown.token
    if rng.random() < 0.5:
        return {"duel": given, "winner": shown.arms[1], "weight": 2.0}
    return {"duel": given, "ranking": (shown.arms[0], [*shown.arms[1:]]), "ties": "breslow"}


def _set(world: World) -> fc.ShownSet:
    return world.player("CoLSTIM sgd", 1).select_set(np.eye(N, D), 3)


def _bound(method: str) -> Callable[[World, Generator], Case]:
    """A method of arms that are bound to a policy without a number of arms of its own."""

    def case(world: World, rng: Generator) -> Case:
        policy = fc.CoLSTIM(D, estimator="sgd", ridge=1.0, exploration_rounds=int(rng.integers(3)), rng=1)
        arms = policy.bind(contexts(rng), keys=[f"arm {i}" for i in range(N)])
        arms.select()
        arguments: dict[str, Any] = {
            "select": {"available": rng.random(N) < 0.9},
            "select_batch": {"size": 2},
            "add": {"contexts": contexts(rng), "keys": [f"new {i}" for i in range(N)]},
            "remove": {"arms": ["arm 1"]},
        }[method]
        return Case(getattr(arms, method), arguments, policy, _follow)

    return case


def _plain(function: Callable[..., Any], **arguments: Any) -> Callable[[World, Generator], Case]:
    return lambda world, rng: Case(function, dict(arguments))


def _fit(world: World, rng: Generator) -> Case:
    trials = rng.integers(1, 5, 6)
    arguments = {"contrasts": rng.normal(size=(6, D)), "wins": rng.binomial(trials, 0.5), "trials": trials}
    arguments |= {"comparison": "bradley-terry", "score": "likelihood", "ridge": 0.1, "radius": 5.0}
    if rng.random() < 0.5:
        arguments |= {"weights": rng.uniform(0.5, 2.0, 6), "clusters": ["x", "y", "x", "z", "y", "z"]}
        arguments |= {"covariates": rng.normal(size=(6, 1)), "names": [f"n{k}" for k in range(D + 1)]}
        arguments |= {"position": True, "covariance": "sandwich"}
    if rng.random() < 0.3:
        arguments["contrasts"] = [rng.permutation(["a", "b", "c"])[:2].tolist() for _ in range(6)]
        arguments.pop("names", None)
    if rng.random() < 0.1:
        arguments["lapse"] = [0.0, 0.1]
    return Case(fc.fit, arguments)


def _fit_rankings(world: World, rng: Generator) -> Case:
    rankings: Any = tuple(rng.permutation(["a", "b", "c"])[: 2 + k % 2].tolist() for k in range(6))
    arguments: dict[str, Any] = {"rankings": rankings, "ridge": 0.1, "weights": rng.uniform(0.5, 2.0, 6)}
    kind = rng.integers(3)
    if kind == 0:
        arguments |= {"shown": [["a", "b", "c"]] * 6, "clusters": ["x", "y", "x", "z", "y", "z"]}
    elif kind == 1:
        arguments |= {"features": {name: rng.normal(size=D) for name in "abc"}, "names": ["u", "v"]}
    else:
        arguments |= {"rankings": ([1, 0], [2], [0, 2], [1], [2, 1], [0]), "features": rng.normal(size=(6, 3, D))}
    return Case(fc.fit_rankings, {**arguments, "ties": "breslow", "comparison": "bradley-terry"})


def _of_fit(method: str, **arguments: Any) -> Callable[[World, Generator], Case]:
    found = fc.fit([["a", "b"], ["b", "c"], ["c", "a"]], [6, 7, 2], [10, 10, 10], ridge=0.1, position=True)
    return lambda world, rng: Case(getattr(found, method), dict(arguments), found)


def _classifier(method: str) -> Callable[[World, Generator], Case]:
    def case(world: World, rng: Generator) -> Case:
        model = fc.PreferenceRegression(ridge=1.0)
        Z, y = rng.normal(size=(6, D)), np.array([0, 1, 0, 1, 1, 0])
        if method == "fit" and rng.random() < 0.5:  # parameters are checked here
            parameters = {"comparison": "bradley-terry", "score": "likelihood", "ridge": 1.0, "radius": None}
            parameters |= {"position": True, "positive": 1}

            def fit(Z: Any, y: Any, **parameters: Any) -> Any:
                return fc.PreferenceRegression(**parameters).fit(Z, y)

            return Case(fit, {"Z": Z, "y": y, **parameters})
        if method != "fit":
            model.fit(Z, y)
        arguments = {"Z": Z, "y": y} if method in ("fit", "score") else {"Z": Z}
        if method == "fit":
            arguments["sample_weight"] = rng.uniform(0.5, 2.0, 6)
        if method == "set_params":
            arguments = {"ridge": 2.0, "radius": "auto"}
        elif method == "get_params":
            arguments = {"deep": True}
        return Case(getattr(model, method), arguments, model)

    return case


def _log(world: World, rng: Generator) -> Case:
    counts = {"rows": 9, "draws_in_file": 2, "selected": 6, "draws": 1, "missing": 1, "unknown": 0}
    arguments = {"contrasts": rng.normal(size=(4, D)), "wins": rng.random(4) < 0.5, "features": ["a", "b"]}
    return Case(fc.Log, {**arguments, **counts, "where": ("a > 1",)})


def _from_arrays(world: World, rng: Generator) -> Case:
    arguments = {"contrasts": rng.normal(size=(4, D)), "wins": rng.random(4) < 0.5, "features": ["a", "b"]}
    return Case(fc.Log.from_arrays, arguments)


def _read_log(world: World, rng: Generator) -> Case:
    if rng.random() < 0.5:
        arguments: dict[str, Any] = {"path": world.folder / "log.npz", "contrast": "Z", "outcome": "y"}
        return Case(fc.read_log, {**arguments, "coding": "unit", "where": ["year >= 3"]})
    arguments = {"path": str(world.folder / "pairs.npz"), "first": "a", "second": "b", "outcome": "won"}
    return Case(fc.read_log, {**arguments, "coding": "auto", "where": None})


def _replay(world: World, rng: Generator) -> Case:
    label = ["CoLSTIM mle", "StaD", "MaxInP"][rng.integers(3)]
    policy = world.player(label, int(rng.integers(3)))
    return Case(fc.replay, {"policy": policy, "log": world.log, "label": "x", "progress": False}, policy, _follow)


def _compare_models(world: World, rng: Generator) -> Case:
    policy = world.player("CoLSTIM sgd", 0) if rng.random() < 0.5 else None
    arguments = {"log": world.log, "models": ["bradley-terry", "thurstone"], "policy": policy}
    return Case(fc.compare_models, {**arguments, "level": 0.9, "progress": False})


def _replayed(world: World, rng: Generator) -> Case:
    found = world.replayed
    names = ("probabilities", "wins", "theta", "log", "label")
    return Case(fc.ReplayResult, {name: getattr(found, name) for name in names})


PROBLEM = fc.Scenario.easy(n_arms=N, n_features=D)


def _tune(world: World, rng: Generator) -> Case:
    policy = fc.CoLSTIM(D, estimator="sgd", exploration_rounds=5)
    arguments: dict[str, Any] = {"policy": policy, "problem": PROBLEM, "horizon": 20, "runs": 2}
    if rng.random() < 0.5:
        arguments |= {"problem": world.log, "n_arms": N}
    settings = {"grid": {"ridge": [1.0]}, "regret": "greedy", "progress": False, "threads": 1}
    return Case(fc.tune, {**arguments, "rng": 1, **settings})


def _simulate(world: World, rng: Generator) -> Case:
    policies = {"a": fc.CoLSTIM(D, estimator="sgd", ridge=1.0), "b": fc.UniformPairs()}
    scenarios = [fc.Scenario.easy(n_arms=N, n_features=D), fc.Scenario(theta=[1.0, 0.5], n_arms=3), world.scored]
    arguments = {"policies": policies, "scenario": scenarios[rng.integers(3)], "horizon": 20, "runs": 2, "threads": 1}
    seed = np.random.default_rng(int(rng.integers(100)))
    return Case(fc.simulate, {**arguments, "rng": seed, "checkpoints": [1, 10, 20], "progress": False})


def _scenario(world: World, rng: Generator) -> Case:
    given = ["ball", rng.normal(size=(N, D)), rng.normal(size=(5, N, D))][rng.integers(3)]
    truth: dict[str, Any] = {"theta": rng.normal(size=D)}
    if rng.random() < 0.5:
        truth = {"utility": lambda contexts: np.sin(contexts).sum(axis=-1), "n_features": D}
    return Case(fc.Scenario, {**truth, "n_arms": N, "comparison": "thurstone", "contexts": given})


def _scored(world: World, rng: Generator) -> Case:
    arguments = {"contexts": rng.normal(size=(5, N, D)), "scores": rng.normal(size=(5, N)), "maximize": True}
    return Case(fc.ScoredArms, arguments)


def _result(world: World, rng: Generator) -> Case:
    result = world.result
    return Case(fc.Result, {field.name: getattr(result, field.name) for field in dataclasses.fields(result)})


def _from_json(world: World, rng: Generator) -> Case:
    return Case(fc.Duel.from_json, {"text": world.player("UniformPairs", 0).select(contexts(rng)).to_json()})


def _load_policy(world: World, rng: Generator) -> Case:
    return Case(fc.load_policy, {"path": world.folder / "policy.npz", "accept_changed_code": False})


def _study(world: World, rng: Generator) -> Case:
    return Case(
        fc.Study,
        {
            "policies": {"a": fc.UniformPairs(), "b": {"name": "CoLSTIM", "estimator": "sgd"}},
            "scenarios": {"x": fc.Scenario.hard(n_arms=N, n_features=D), "y": {"theta": [1.0, 0.5], "n_arms": 3}},
            "horizon": 20 if rng.random() < 0.5 else {"x": 20, "y": 30},
            "runs": 2,
            "seed": 1,
            "checkpoints": 4 if rng.random() < 0.5 else {"x": 4, "y": [1, 20]},
        },
    )


def _from_dict(world: World, rng: Generator) -> Case:
    table = pickle.loads(pickle.dumps(world.table))
    if rng.random() < 0.7:  # the keys of the table are arguments as well

        def from_dict(**data: Any) -> Any:
            return fc.Study.from_dict(data)

        inner = [table, table["policy"][1], table["scenario"][1]][rng.integers(3)]
        if inner is table:
            return Case(from_dict, table)

        def from_table(**entries: Any) -> Any:
            inner.clear()
            inner.update(entries)
            return fc.Study.from_dict(table)

        return Case(from_table, dict(inner))
    return Case(fc.Study.from_dict, {"data": table, "folder": world.folder})


def _run(world: World, rng: Generator) -> Case:
    out = world.folder / f"study{rng.integers(10**9)}"
    arguments = {"out": out, "executor": None, "threads": 1, "resume": True, "progress": False}
    return Case(world.study.run, arguments)


def _register(world: World, rng: Generator) -> Case:
    class Own(NamedTuple):
        scale: float = 1.0

    return Case(fc.register, {"cls": Own})


def _of_model(cls: Any, method: str) -> Callable[[World, Generator], Case]:
    def case(world: World, rng: Generator) -> Case:
        model = cls(**{cls._fields[-1]: 0.1 + 0.8 * rng.random()})
        arguments: dict[str, Any] = {"u": rng.normal(size=3) if rng.random() < 0.5 else float(rng.normal())}
        if method == "sample":
            arguments = {"rng": np.random.default_rng(1), "size": 3}
        return Case(getattr(model, method), arguments)

    return case


def points() -> list[Point]:
    """All entry points."""
    found = [
        *(Point(cls.__name__, _plain(cls, **cls._field_defaults), 2) for cls in (fc.SGD, fc.MLE, fc.OnlineNewton)),
        Point("fit", _fit, 6),
        Point("Fit.difference", _of_fit("difference", first="a", second="b", level=0.9), 2),
        Point("Fit.predict", _of_fit("predict", first=[[1.0, 0.0, 0.0]], second="b", position=True), 2),
        Point("Fit.ranking", _of_fit("ranking", scale=2.0, anchor={"a": 1000}, items=["a", "c"], level=0.9), 2),
        *(Point(f"Fit.{method}", _of_fit(method, level=0.9), 0.5) for method in ("intervals", "summary", "to_pandas")),
        Point("fit_rankings", _fit_rankings, 4, (), ("shown", "features")),
        Point("Nystroem", _plain(fc.Nystroem, landmarks=[[0.0], [1.0]], kernel="rbf", length=0.5), 2),
        Point("RandomFeatures", _plain(fc.RandomFeatures, n=4, kernel="rbf", rng=1, length=0.5), 2),
        Point("Nystroem.mapping", _plain(fc.Nystroem([[0.0], [1.0]]).mapping, n_features=1), 0.5),
        Point("RandomFeatures.mapping", _plain(fc.RandomFeatures(4).mapping, n_features=2), 0.5),
        Point("PreferenceRegression", _plain(fc.PreferenceRegression, comparison="thurstone", ridge=0.5), 0.5),
        Point("PreferenceRegression.fit", _classifier("fit"), 4, (TypeError,)),
        *(
            Point(f"PreferenceRegression.{method}", _classifier(method), 1, (TypeError,))
            for method in ("predict", "predict_proba", "decision_function", "score", "set_params", "get_params")
        ),
        Point("Log", _log, 3),
        Point("Log.from_arrays", _from_arrays, 4),
        Point("read_log", _read_log, 3, (OSError,)),
        Point("replay", _replay, 4),
        Point("compare_models", _compare_models, 2, (), ("contrasts",)),
        Point("ReplayResult", _replayed, 2),
        Point("ReplayResult.plot", lambda w, r: Case(w.replayed.plot, {"axes": None}), 0.2),
        Point("simulate", _simulate, 5),
        Point("tune", _tune, 3),
        Point("Tuning.plot", lambda w, r: Case(w.tuning.plot, {"ax": None}), 0.2),
        Point("Scenario", _scenario, 4),
        *(
            Point(
                f"Scenario.{name}", _plain(getattr(fc.Scenario, name), n_arms=N, n_features=D, comparison="thurstone")
            )
            for name in ("easy", "medium", "hard")
        ),
        Point("Scenario.lower_bound", _plain(fc.Scenario.lower_bound, rounds=100, n_features=3, ball="max"), 1.5),
        Point("ScoredArms", _scored, 3),
        Point("Result", _result, 3),
        Point("Result.save", lambda w, r: Case(w.result.save, {"path": w.folder / "again.parquet"}), 0.5, (OSError,)),
        Point("Result.plot", lambda w, r: Case(w.result.plot, {"ax": None}), 0.2),
        Point("Result.same_numbers", lambda w, r: Case(w.result.same_numbers, {"other": w.result}), 0.5),
        Point("load_result", lambda w, r: Case(fc.load_result, {"path": w.folder / "result.parquet"}), 1, (OSError,)),
        Point("Duel.from_json", _from_json, 2),
        Point("ShownSet.from_json", lambda w, r: Case(fc.ShownSet.from_json, {"text": _set(w).to_json()}), 2),
        Point(
            "arm_features", lambda w, r: Case(fc.arm_features, {"n_arms": 3, "context_features": r.normal(size=(4, 2))})
        ),
        Point("load_aslib", lambda w, r: Case(fc.load_aslib, {"folder": w.folder, "n_components": 1}), 1, (OSError,)),
        Point("CoLSTIM.for_service", _for_service),
        Point("load_policy", _load_policy, 1, (OSError,)),
        Point("Study", _study, 5),
        Point("Study.from_dict", _from_dict, 5, (), ("study",)),
        Point("Study.from_toml", lambda w, r: Case(fc.Study.from_toml, {"path": w.folder / "s.toml"}), 0.5, (OSError,)),
        Point("Study.run", _run, 1, (OSError, TypeError), ("folder",)),
        Point("StudyResult.result", lambda w, r: Case(w.studied.result, {"scenario": "easy"}), 0.5),
        Point("load_study", lambda w, r: Case(fc.load_study, {"out": w.folder / "study"}), 1, (OSError,)),
        Point("register", _register, 1, (TypeError,), ("register",)),
    ]
    for model in [*CLASSES, fc.Lapse]:
        field = model._fields[-1]
        given = {"base": "thurstone"} if model is fc.Lapse else {}
        found.append(Point(model.__name__, _plain(model, **given, **{field: 0.5})))
        methods = ["cdf", "pdf", "log_cdf", "score", "weight", "curvature", "sample"]
        found += [Point(f"{model.__name__}.{method}", _of_model(model, method), 0.3) for method in methods]
    found += [Point(f"BoundArms.{method}", _bound(method)) for method in ("select", "select_batch", "add", "remove")]
    for label, (cls, parameters) in PLAYERS.items():
        found.append(Point(f"{cls.__name__}", _constructor(cls, parameters), 3))
        methods = ["bind", "select", "select_batch", "update", "update_batch", "discard", "fork"]
        if issubclass(cls, LinearPolicy):
            methods += ["learn", "learn_and_predict", "utilities", "widths", "probability"]
        methods += [method for method in ("stage",) if hasattr(cls, method)]
        alone = {"update_batch": ("duel",)}  # what an entry of duels is called
        found += [
            Point(f"{cls.__name__}.{method}", _method(label, method), 2, (), alone.get(method, ()))
            for method in methods
        ]
        if issubclass(cls, LinearPolicy):  # of SGD it is an AttributeError
            name = f"{cls.__name__}.expected_misordered"
            found.append(Point(name, _method(label, "expected_misordered"), 1, (AttributeError,)))
        if cls.fills_sets:
            found.append(Point(f"{cls.__name__}.select_set", _method(label, "select_set"), 2))
            found.append(Point(f"{cls.__name__}.update", _method(label, "answer a set"), 2))
        if label == "CoLSTIM mle":
            found.append(Point(f"{cls.__name__}.retract", _method(label, "retract"), 1))
        found.append(Point(f"{cls.__name__}.save", _method(label, "save"), 0.2, (OSError,)))
        if hasattr(cls, "from_theorem"):
            found.append(Point(f"{cls.__name__}.from_theorem", _theorem(cls), 1))
    return found


# --- what may come of a call -----------------------------------------------------------------------------------

OURS = re.compile(
    r"after \d+ comparisons|the maximum of the likelihood of|still explores|^status '|column-vector|"
    r"theorem's exploration|the horizon is|scenario .*, policy"
)
"""Warnings of ours."""

WANTED = re.compile(
    r"\bwanted\b|built for|\bmust\b|\bneeds?\b|known are|there (are|is)\b|scale|is missing|answered already|"
    r"Reshape|features, but|required|supported|exclude|add up|has no|holds|more than|at most|is not a column"
)
"""What a message says besides what was found."""

FOREIGN = re.compile(
    r"setting an array element|could not convert|Can't call numpy|unsupported operand|ufunc|truth value|inhomogeneous|"
    r"not iterable|object of type|has no len|not subscriptable|cannot convert|Unable to allocate|embedded null|"
    r"no array today|neither true|incomparable|unspeakable|who knows|no float|no index|hands off|no words|expected "
)
"""Words of NumPy, of Python and of the objects in the catalogue."""

PYTHONS_OWN = re.compile(r"missing \d+ required|unexpected keyword argument|positional argument|multiple values")

_HERE = str(Path(fc.__file__).parent)
_NO_STATE = frozenset(
    {"_agent", "_at_once", "_buffers", "_direct_choose", "_direct_learn", "_drawn", "_counted_state", "scratch"}
)
"""Handles and scratch, whose content means nothing between calls."""


def content(value: Any, depth: int = 0) -> Any:
    """What an object holds, byte by byte, in a form that can be compared; of strange objects only their class."""
    kind = type(value)
    if kind is np.ndarray and not value.dtype.hasobject:
        return value.dtype.str, value.shape, value.tobytes()
    if kind is int:
        return "int", hex(value)  # as decimals, Python refuses to write some of the catalogue's
    if kind in (bool, float, str, bytes) or value is None:
        return kind.__name__, repr(value)
    if depth > 12:
        return "..."
    return kind.__name__, [(content(name), content(part, depth + 1)) for name, part in _parts(value)]


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """What an object is made of, by name or number."""
    kind = type(value)
    if kind is History:  # beyond what is used, blocks hold whatever was there
        value = value._replace(blocks=value.blocks[: int(value.used[0])])
    if kind is np.ndarray:
        yield from enumerate(value.ravel().tolist())
    elif kind is dict:
        yield from value.items()
    elif isinstance(value, np.random.Generator):
        yield "state", value.bit_generator.state
    elif hasattr(kind, "_asdict"):
        yield from ((name, part) for name, part in value._asdict().items() if name not in _NO_STATE)
    elif kind in (list, set, tuple):
        yield from enumerate(value)
    elif isinstance(value, Policy | fc.PreferenceRegression | fc.Scenario | fc.ScoredArms):
        yield from ((name, part) for name, part in sorted(vars(value).items()) if name not in _NO_STATE)
    elif dataclasses.is_dataclass(value) and kind.__module__.startswith("fastcolst"):
        yield from ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))


def _numbers(value: Any) -> Iterator[np.ndarray]:
    """The floating-point numbers in a result."""
    if isinstance(value, float | np.floating):
        yield np.asarray(value)
    elif type(value) is np.ndarray and value.dtype.kind == "f":
        yield value
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from _numbers(entry)
    elif isinstance(value, dict):
        yield from _numbers(list(value.values()))
    elif isinstance(value, fc.Fit):  # covariances of what the data do not determine are nan
        yield from _numbers((value.theta, value.log_likelihood))
    elif isinstance(value, LinearPolicy):
        yield from (value.theta, value.gram)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type | Policy):
        for field in dataclasses.fields(value):
            yield from _numbers(getattr(value, field.name))


def _nowhere_nan(value: Any) -> bool:
    return not any(np.isnan(array).any() for array in _numbers(value))


def _has_nan(value: Any) -> bool:
    """Whether nan was put in, or something masked: then it may come out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return bool(np.ma.is_masked(value) or np.isnan(np.asarray(value, float)).any())
        except Exception:  # noqa: BLE001 - whatever cannot be converted
            return True


class Trial(NamedTuple):
    """A call of the campaign: where, of what, and what was put in."""

    number: int
    point: Point
    case: Case
    arguments: dict[str, Any]
    put_in: dict[str, str]

    def __str__(self) -> str:
        put_in = ", ".join(f"{name}: {kind}" for name, kind in self.put_in.items())
        return f"call {self.number}, {self.point.name}({put_in or 'valid'})"


def trial(world: World, every: list[Point], campaign: Campaign, number: int) -> Trial:
    """The call of that number, whichever were made before."""
    rng = campaign.rng("calls", number)
    weights = np.array([point.weight for point in every])
    point = every[number] if number < len(every) else every[rng.choice(len(every), p=weights / weights.sum())]
    case = point.case(world, rng)
    n_hostile = 0 if number < len(every) else min(len(case.arguments), int(rng.choice([1, 2, 3], p=[0.7, 0.2, 0.1])))
    chosen = rng.permutation(list(case.arguments))[:n_hostile]
    arguments, put_in = dict(case.arguments), {}
    for name in map(str, chosen):
        put_in[name], arguments[name] = hostile(name, case.arguments[name], rng, size=name in _SIZES)
    if n_hostile and rng.random() < 0.01:
        put_in["unheard_of"], arguments["unheard_of"] = "an argument that there is not", 1
    return Trial(number, point, case, arguments, put_in)


class Outcome(NamedTuple):
    """What came of a call."""

    result: Any
    error: BaseException | None
    warned: list[warnings.WarningMessage]
    seconds: float
    megabytes: float


def call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Outcome:
    """Make a call, with an end to it where the system has alarms."""
    result, error = None, None
    before, start = _megabytes(), time.process_time()  # other processes must not make a call slow
    with _alarm(), warnings.catch_warnings(record=True) as warned, contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("always")
        try:
            result = function(**arguments)
        except Exception as raised:  # noqa: BLE001 - which kind it is, is the question
            error = raised
    return Outcome(result, error, list(warned), time.process_time() - start, _megabytes() - before)


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    """TimeoutError after a while."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: Any) -> None:
        raise TimeoutError("no end to it")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _megabytes() -> float:
    """The most memory that this process has had, where the system tells."""
    try:
        import resource
    except ImportError:
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def complaint(trial: Trial, error: BaseException) -> str:
    """What is wrong with an error, or nothing."""
    text = str(error)
    if isinstance(error, TypeError) and "unheard_of" in trial.put_in and PYTHONS_OWN.search(text):
        return ""
    if not isinstance(error, (ValueError, *trial.point.raises)):
        return "another kind of error"
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, OSError):
        return (
            "" if frames[-1].filename.startswith(_HERE) or error.filename is not None else "an OSError without a file"
        )
    if not frames[-1].filename.startswith(_HERE):
        return "somebody else's error"
    names = [*trial.arguments, *trial.point.names]
    faults = {
        "names no argument": not any(re.search(rf"\b{re.escape(name)}\b", text) for name in names),
        f"a text of {len(text)} characters": len(text) > 1500,
        "somebody else's words": FOREIGN.search(text),
        "says nothing of what is wanted": not WANTED.search(text),
    }
    return next((fault for fault, found in faults.items() if found), "")


# --- the campaign ----------------------------------------------------------------------------------------------


def run(campaign: Campaign) -> Iterator[Tally]:
    """Call everything, hostilely."""
    every = points()
    names = Tally("public names: called, and taken with what works")
    covered = {point.name for point in every}
    for name in sorted(public() | covered):
        names.count(name in covered, f"{name} has no calls: campaign.calls.points")
    errors = Tally("hostile calls: taken, or refused in words that name the argument")
    warned = Tally("hostile calls: no warning but ours")
    prices = Tally(f"hostile calls: within {SECONDS:g} s and {MEGABYTES} MB")
    kept = Tally("refused calls: state, streams and inputs as before, byte by byte")
    twins = Tally("refused calls: the next valid call as if there had been none")
    clean = Tally("calls that succeed: no nan unless one was put in")
    with contextlib.chdir(campaign.folder):  # where a study whose path is a text of the catalogue ends up
        world = World(campaign.seed, campaign.folder)
        for number in range(len(every) + campaign.amount(CALLS)):
            tried = trial(world, every, campaign, number)
            subject, twin, given = tried.case.subject, _copy(tried.case.subject), dict(tried.arguments)
            before = content(subject), content(given)
            outcome = call(tried.case.function, tried.arguments)
            found = f"{tried}: {_told(outcome)}"
            if not tried.put_in:
                names.count(outcome.error is None, found)
            else:
                wrong = "" if outcome.error is None else complaint(tried, outcome.error)
                errors.count(not wrong, f"{found}: {wrong}")
                cheap = outcome.seconds < SECONDS and outcome.megabytes < MEGABYTES
                prices.count(cheap, f"{found}: {outcome.seconds:.1f} s, {outcome.megabytes:.0f} MB")
            foreign = [f"{w.category.__name__}: {w.message}" for w in outcome.warned if not _is_ours(w)]
            warned.count(not foreign, f"{found}: {foreign[:2]}")
            if outcome.error is None:
                nan_put_in = any(_has_nan(given[name]) for name in tried.put_in if name in given)
                clean.count(nan_put_in or _nowhere_nan((outcome.result, subject)), f"{found}: nan")
                continue
            after = content(subject), content(given)
            kept.count(after == before, f"{found}: {_difference(before, after)}")
            if subject is not None or number % 5 == 0:
                twins.count(*_same_next(tried, subject, twin, campaign))
    yield from (names, errors, warned, prices, kept, twins, clean)


def _is_ours(warning: warnings.WarningMessage) -> bool:
    if numba.config.DISABLE_JIT and " encountered in " in str(warning.message) and warning.filename.startswith(_HERE):
        return True  # kernels let numbers overflow and look at the outcome; as plain Python they also warn
    return issubclass(warning.category, UserWarning) and OURS.search(str(warning.message)) is not None


def _copy(subject: Any) -> Any:
    return pickle.loads(pickle.dumps(subject))


def _same_next(tried: Trial, subject: Any, twin: Any, campaign: Campaign) -> tuple[bool, str]:
    """Whether the next valid call does to the object what it does to its twin; without an object, whether it works."""
    case, found = tried.case, []
    for one in (subject, twin):
        function, arguments = case.function, case.arguments
        if case.follow is not None:
            function, arguments = case.follow, {"policy": one, "rng": campaign.rng("next", tried.number)}
        elif one is not None:
            function = getattr(one, function.__name__)
        outcome = call(function, arguments)
        if outcome.error is not None:
            return False, f"{tried}, then a valid call: {_told(outcome)}"
        found.append((content(outcome.result), content(one)))
        if one is None:
            return True, ""
    return found[0] == found[1], f"{tried}, then a valid call: {_difference(*found)}"


def _told(outcome: Outcome) -> str:
    if outcome.error is None:
        return "taken"
    frame = traceback.extract_tb(outcome.error.__traceback__)[-1]
    return f"{type(outcome.error).__name__} at {Path(frame.filename).name}:{frame.lineno}: {str(outcome.error)[:300]}"


def _difference(before: Any, after: Any, path: str = "") -> str:
    """Where two contents differ first."""
    if type(before) is type(after) and isinstance(before, list | tuple) and len(before) == len(after):
        for i, (b, a) in enumerate(zip(before, after, strict=True)):
            if b != a:
                return _difference(b, a, f"{path}/{i}")
    return f"{path}: {before!r:.80} became {after!r:.80}"


def tell(seed: int, number: int) -> Any:
    """Make one call of the campaign again, as it was made then."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        campaign = Campaign(seed, 1.0, Path(folder))
        again = trial(World(seed, campaign.folder), points(), campaign, number)
        return again, again.case.function(**again.arguments)
