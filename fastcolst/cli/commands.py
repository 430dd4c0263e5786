"""What the commands do, each with the arguments that were given to it."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import multiprocessing
import platform
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import scipy

import fastcolst as fc
from fastcolst._checks import count
from fastcolst._compile import PLAIN, CacheContents, cache_contents, cache_info, clear_cache, so_far
from fastcolst._files import optional_import
from fastcolst._registry import ESTIMATOR, MODEL, POLICY
from fastcolst._words import align
from fastcolst.cli.arguments import (
    PROFILE,
    SWEEPS,
    class_of,
    coding,
    columns,
    grid,
    mark,
    models_of,
    names_of,
    new_policy,
    new_scenario,
    policy_names,
    shows_progress,
    suits,
)
from fastcolst.cli.outputs import REPLAY_WRITERS, RESULT_WRITERS, TUNING_WRITERS, check_outputs, write_outputs
from fastcolst.data import Log, read_log, replay
from fastcolst.experiments.executors import leave_with_parent
from fastcolst.experiments.model_choice import compare_models
from fastcolst.experiments.resampled import ResampledLog
from fastcolst.experiments.simulation import processors
from fastcolst.paper.page import write_report
from fastcolst.paper.parts import Settings
from fastcolst.paper.reproduction import reproduce
from fastcolst.paper.verdicts import outcome, verdicts
from fastcolst.plotting import save_figure, study_figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["COMMANDS"]


def _simulate(arguments: argparse.Namespace) -> None:
    check_outputs(arguments.out, RESULT_WRITERS)
    scenario = new_scenario(arguments)
    n_arms, n_features = scenario.n_arms, scenario.n_features
    policies = {
        name: new_policy(name, arguments, n_features=n_features, n_arms=n_arms)
        for name in policy_names(arguments.policies)
        if arguments.policies != "all" or suits(name, arguments)
    }
    result = fc.simulate(
        policies,
        scenario,
        arguments.horizon,
        runs=arguments.runs,
        rng=arguments.seed,
        threads=arguments.threads,
        checkpoints=arguments.checkpoints,
        progress=shows_progress(arguments),
        single_arms=arguments.single_arms,
    )
    sizes = f"{n_arms} arms, {n_features} features"
    print(f"{arguments.scenario}: {sizes}, {arguments.comparison}")
    print(result.summary())
    exploration = n_arms * n_features
    if result.horizon <= exploration and any(policy.has_estimate for policy in policies.values()):
        _say(f"with n d = {exploration:,} rounds of exploration, policies with contexts only played random pairs")
    write_outputs(result, arguments.out, RESULT_WRITERS)


def _study(arguments: argparse.Namespace) -> None:
    _need_study_modules("fastcolst study")
    study = fc.Study.from_toml(arguments.file)
    with _executor(arguments.executor, arguments.threads) as executor:
        result = study.run(
            arguments.out,
            executor=executor,
            threads=arguments.threads if executor is None else None,
            resume=arguments.resume,
            progress=not arguments.no_progress,
            accept_changed_code=arguments.accept_changed_code,
        )
    print(result.summary())
    picture = arguments.out / "regret.png"
    save_figure(study_figure(result), picture)
    print(f"wrote {picture}")


def _reproduce(arguments: argparse.Namespace) -> None:
    _need_study_modules("fastcolst reproduce")
    settings = Settings(horizon=arguments.horizon, runs=arguments.runs, seed=arguments.seed)
    targets = [*(arguments.targets or ["all"]), *(SWEEPS[sweep] for sweep in arguments.sweep)]
    start = time.perf_counter()
    results = reproduce(
        targets,
        arguments.out,
        settings,
        threads=arguments.threads,
        progress=not arguments.no_progress,
        say=(lambda _: None) if arguments.no_progress else _say,
    )
    computed = time.perf_counter()
    found = verdicts(results)
    page = write_report(arguments.out, found)
    written = time.perf_counter()
    rows = [("seconds of", "wall"), *((name, f"{wall:.1f}") for name, wall in results.walls.items())]
    rows += [
        ("this command, computing", f"{computed - start:.1f}"),
        ("this command, report", f"{written - computed:.1f}"),
    ]
    print("\n".join([*align(rows), *outcome(results.settings, found)]))
    print(f"wrote {page}")


def _report(arguments: argparse.Namespace) -> None:
    _need_study_modules("fastcolst report")
    print(f"wrote {write_report(arguments.folder)}")


def _need_study_modules(command: str) -> None:
    for module in ("matplotlib", "pandas", "pyarrow"):
        optional_import(module, command)


def _say(text: str) -> None:
    print(f"fastcolst: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _executor(text: str, workers: int | None) -> Iterator[Any]:
    """The executor that an option names; None for threads."""
    kind, _, address = text.partition(":")
    if text == "threads":
        yield None
    elif text == "processes":
        # started anew, not forked: a fork copies locks that threads of ours may hold
        number = processors() if workers is None else count("argument --threads", workers)
        pool = ProcessPoolExecutor(number, multiprocessing.get_context("spawn"), _begin_worker)
        try:
            with _ctrl_c_blocked():  # in processes from their start on, before they can see to it themselves
                for _ in range(number):
                    pool.submit(int)  # a process is started for each task while none is idle
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
    elif kind == "dask" and address:
        if workers is not None:
            raise ValueError("argument --threads: a dask cluster has its own workers")
        with optional_import("distributed", "argument --executor: dask").Client(address) as client:
            yield client.get_executor()
    else:
        raise ValueError(f"argument --executor: {text!r}; threads, processes or dask:ADDRESS is wanted")


@contextlib.contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Put Ctrl-C off, here until the end and in processes that are started meanwhile for ever."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker() -> None:
    """Leave Ctrl-C, which a terminal sends to all processes, to the one that keeps what is finished; leave with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    leave_with_parent()


def _log_of(arguments: argparse.Namespace) -> Log:
    """The finished comparisons that a command is given."""
    return read_log(
        arguments.log,
        first=columns(arguments.first),
        second=columns(arguments.second),
        contrast=columns(arguments.contrast),
        items=arguments.items,
        outcome=arguments.outcome,
        coding=coding(arguments.coding),
        draws=arguments.draws,
        drop_unknown=arguments.drop_unknown,
        winner_first=arguments.winner_first,
        weight=arguments.weight,
        categorical=columns(arguments.categorical),
        where=arguments.where,
        sep=mark(arguments.sep),
        decimal=mark(arguments.decimal),
    )


def _replay(arguments: argparse.Namespace) -> None:
    names, models = arguments.comparison or ["bradley-terry"], models_of(arguments)
    if len(models) > 1 and arguments.out:
        raise ValueError(f"argument --out: {len(models)} comparisons have no one picture; one --comparison is wanted")
    check_outputs(arguments.out, REPLAY_WRITERS, arguments.log)
    log = _log_of(arguments)
    arguments.comparison = next(iter(models.values()))
    policy = new_policy(arguments.policy, arguments, n_features=log.contrasts.shape[1])
    if not policy.has_estimate:
        raise ValueError(f"argument --policy: {arguments.policy} has no estimate to predict with")
    if len(models) > 1:
        found = compare_models(log, models, policy=policy, progress=shows_progress(arguments))
        print(f"{log.counts}\n{log.outcomes}\n{found.summary()}")
    else:
        result = replay(policy, log, label=arguments.policy, progress=shows_progress(arguments))
        print(result.summary())
        if arguments.position:
            advantage = policy.position_advantage
            error = "" if advantage.standard_error is None else f", standard error {advantage.standard_error:.4g}"
            print(f"being the first is worth {advantage.estimate:.6g}{error}")
        write_outputs(result, arguments.out, REPLAY_WRITERS)
    if PROFILE in arguments.lapse:
        given = {"weights": log.weights, "position": arguments.position, "lapse": PROFILE}
        for name in names:
            print(f"{name}: {fc.fit(log.contrasts, log.wins, comparison=name, **given).lapse}, of all answers at once")


def _tune(arguments: argparse.Namespace) -> None:
    check_outputs(arguments.out, TUNING_WRITERS, arguments.log)
    problem, sizes = _tuned_problem(arguments)
    policy = new_policy(arguments.policy, arguments, n_features=problem.n_features)
    result = fc.tune(
        policy,
        problem,
        arguments.horizon,
        arguments.runs,
        arguments.seed,
        arguments.threads,
        shows_progress(arguments),
        grid=grid(arguments.grid),
        regret=arguments.regret,
    )
    print(sizes)
    print(result.summary())
    write_outputs(result, arguments.out, TUNING_WRITERS)


def _tuned_problem(arguments: argparse.Namespace) -> tuple[Any, str]:
    """A scenario, or a problem like that of a log, and what it is in a line."""
    if not arguments.log:
        scenario = new_scenario(arguments)
        return scenario, f"{arguments.scenario}: {scenario.n_arms} arms, {scenario.n_features} features"
    if arguments.arms is None:
        raise ValueError("argument --arms is missing; of a log the number of arms of a round is wanted")
    if arguments.features is not None:
        raise ValueError("argument --features: a log has its own; leave it out")
    problem = ResampledLog(_log_of(arguments), arguments.arms, arguments.comparison)
    return problem, f"like {', '.join(arguments.log)}: {problem.n_arms} arms, {problem.n_features} features"


def _info(_: argparse.Namespace) -> None:
    cache = cache_info()
    interpreted = " (NUMBA_DISABLE_JIT is set: nothing is compiled)" if numba.config.DISABLE_JIT else ""
    plain = f" ({PLAIN}: its internals are not used, and compiling takes longer)" if PLAIN else ""
    kept = _amount(CacheContents(cache["entries"], cache["bytes"]), " of this version")
    rows = {
        "fastcolst": fc.__version__,
        "Python": platform.python_version(),
        "Numba": numba.__version__ + (interpreted or plain),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "threads": str(processors()),
        "cache": cache["path"] or "none: every process compiles its kernels anew",
        "cached": kept if cache["entries"] else "nothing yet: run fastcolst warmup" if cache["path"] else "nothing",
    }
    print("\n".join(f"{name:<11}{value}" for name, value in rows.items()))


def _warmup(arguments: argparse.Namespace) -> None:
    policies = policy_names(arguments.policies)
    estimators = names_of("--estimators", ESTIMATOR, arguments.estimators)
    rows = [("kernels of", "estimator", "comparison", "compiled", "in the cache", "seconds")]
    start = so_far()
    for comparison in names_of("--comparisons", MODEL, arguments.comparisons):
        # The problem's side is shared by all policies: a round of a simulation compiles it.
        scenario = fc.Scenario.hard(n_arms=2, n_features=2, comparison=comparison)
        rows.append(("simulate", "", comparison, *_compiled(partial(_play_once, scenario))))
        for name in policies:
            learns = "estimator" in inspect.signature(class_of(POLICY, name, "--policies")).parameters
            for estimator in estimators if learns else [""]:
                given = {**vars(arguments), "comparison": comparison, "estimator": estimator or None}
                asked = argparse.Namespace(**given)
                if arguments.policies == "all" and not suits(name, asked):
                    continue
                warmup = partial(_warm, name, asked)
                rows.append((name, estimator, comparison, *_compiled(warmup)))
    print("\n".join(align(rows)))
    found = so_far().since(start)
    seconds = f" in {found.seconds:.1f} s" if found.compiled else ""
    print(f"{found.compiled:,} kernels compiled{seconds}, {found.loaded:,} in the cache already")


def _play_once(scenario: fc.Scenario) -> None:
    fc.simulate({"UniformPairs": fc.UniformPairs()}, scenario, 1, rng=0)


def _warm(name: str, arguments: argparse.Namespace) -> None:
    new_policy(name, arguments, n_features=2).warmup()


def _compiled(work: Callable[[], object]) -> tuple[str, str, str]:
    """How many kernels some work compiled and how many it found in the cache, and its seconds."""
    before, start = so_far(), time.perf_counter()
    work()
    found = so_far().since(before)
    return str(found.compiled), str(found.loaded), f"{time.perf_counter() - start:.2f}"


def _cache(arguments: argparse.Namespace) -> None:
    if arguments.action == "clear":
        place, removed = clear_cache()
        print(f"removed {_amount(removed)} from {place}")
        return
    place, ours, others = cache_contents()
    rows = {"place": place, "this version": _amount(ours), "others": _amount(others)}
    if cache_info()["path"] is None:
        rows["place"] += " (not used: every process compiles its kernels anew)"
    print("\n".join(f"{name:<14}{value}" for name, value in rows.items()))


def _amount(contents: CacheContents, of: str = "") -> str:
    return f"{contents.entries:,} compiled kernels{of}, {contents.bytes / 1e6:.1f} MB"


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "simulate": _simulate,
    "study": _study,
    "reproduce": _reproduce,
    "report": _report,
    "replay": _replay,
    "tune": _tune,
    "info": _info,
    "warmup": _warmup,
    "cache": _cache,
}
"""What is done for each command that :func:`fastcolst.cli.arguments.parser` knows."""
