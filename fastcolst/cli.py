"""The command line: simulate, study, reproduce, report, replay, info, warmup, cache.

Whatever a person can get wrong ends with exit code 2 and one line, ``fastcolst: error: ...``, and files to be
written are checked before anything long is computed. Ctrl-C ends with code 130; `fastcolst.__main__` sees to it while
this module is imported.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib.util
import inspect
import itertools
import multiprocessing
import os
import platform
import signal
import sys
import tempfile
import time
import warnings
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numba
import numpy as np
import scipy

import fastcolst as fc
from fastcolst._checks import count
from fastcolst._compile import CacheContents, cache_contents, cache_info, clear_cache
from fastcolst._files import optional_import
from fastcolst._interrupt import INTERRUPTED, TOLD
from fastcolst._words import align
from fastcolst.data import read_log, replay
from fastcolst.estimation.words import SCORES
from fastcolst.experiments.executors import leave_with_parent
from fastcolst.experiments.simulation import processors
from fastcolst.paper.report import outcome, verdicts, write_report
from fastcolst.paper.reproduction import TARGETS, Settings, reproduce
from fastcolst.plotting import (
    PICTURES,
    REPLAY_SIZE,
    new_figure,
    regret_figure,
    replay_figure,
    save_figure,
    study_figure,
)
from fastcolst.policies import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fastcolst.data import ReplayResult

__all__ = ["main"]

COMPARISONS = ("bradley-terry", "thurstone", "exponential")
SCENARIOS = {"easy": fc.Scenario.easy, "medium": fc.Scenario.medium, "hard": fc.Scenario.hard}
ESTIMATORS: dict[str, Callable[[argparse.Namespace], Any]] = {
    "mle": lambda arguments: fc.MLE(score=arguments.score),
    "online-newton": lambda arguments: fc.OnlineNewton(score=arguments.score),
    "sgd": lambda arguments: fc.SGD(
        learning_rate=0.5 if arguments.learning_rate is None else arguments.learning_rate, score=arguments.score
    ),
}
CODINGS = ("auto", "signed", "unit")
WRONG_INPUT, PIPE_CLOSED = 2, 141

EXAMPLES = {
    "simulate": (
        "fastcolst simulate --scenario hard --runs 10 --out regret.png",
        "fastcolst simulate --policies all --seed 7 --out regret.pdf --out regret.parquet",
    ),
    "study": (
        "fastcolst study study.toml --out results",
        "fastcolst study study.toml --out results --resume --executor processes",
    ),
    "reproduce": (
        "fastcolst reproduce --out reproduction",
        "fastcolst reproduce figure1 --runs 10 --horizon 3000 --out quick",
    ),
    "report": ("fastcolst report reproduction",),
    "replay": (
        "fastcolst replay matches.npz --where 'year >= 1990' --out replay.png",
        "fastcolst replay answers.csv --first 'a_*' --second 'b_*' --outcome winner",
    ),
    "warmup": ("fastcolst warmup --policies CoLSTIM --comparison bradley-terry",),
    "cache": ("fastcolst cache", "fastcolst cache clear"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : texts, optional
        The arguments; those of the process if not given.

    Returns
    -------
    int
        The exit code: 0, 2 for a wrong input, 130 after Ctrl-C, 141 when nobody reads the output any more.

    Examples
    --------
    >>> from fastcolst.cli import main
    >>> main(["simulate", "--horizon", "100", "--runs", "2", "--seed", "7", "--policies", "UniformPairs"])
    hard: 50 arms, 10 features, bradley-terry
    100 rounds, 2 runs, seed 7
    ...
    0
    """
    try:
        with _warnings_in_one_line():
            arguments = _parser().parse_args(argv)
            arguments.run(arguments)
            if sys.stdout is not None:
                sys.stdout.flush()
    except SystemExit as stop:  # argparse, after --help or --version
        return int(stop.code or 0)
    except KeyboardInterrupt as error:
        print(f"fastcolst: {error}" if str(error) else TOLD, file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit complains again
        return PIPE_CLOSED
    except (ValueError, OSError, ImportError, MemoryError, ArithmeticError, BrokenExecutor) as error:
        print(f"fastcolst: error: {_one_line(error)}", file=sys.stderr)
        return WRONG_INPUT
    return 0


# --- commands -----------------------------------------------------------------------------------------------


def _simulate(arguments: argparse.Namespace) -> None:
    _check_outputs(arguments.out, _RESULT_WRITERS)
    scenario = SCENARIOS[arguments.scenario](
        n_arms=arguments.arms, n_features=arguments.features, comparison=arguments.comparison
    )
    policies = {
        name: _policy(name, arguments, n_features=arguments.features, n_arms=arguments.arms)
        for name in _policy_names(arguments.policies)
    }
    result = fc.simulate(
        policies,
        scenario,
        arguments.horizon,
        runs=arguments.runs,
        rng=arguments.seed,
        threads=arguments.threads,
        checkpoints=arguments.checkpoints,
        progress=_shows_progress(arguments),
    )
    sizes = f"{arguments.arms} arms, {arguments.features} features"
    print(f"{arguments.scenario}: {sizes}, {arguments.comparison}")
    print(result.summary())
    exploration = arguments.arms * arguments.features
    if result.horizon <= exploration and any(hasattr(policy, "theta") for policy in policies.values()):
        _say(f"with n d = {exploration:,} rounds of exploration, policies with contexts only played random pairs")
    _write(result, arguments.out, _RESULT_WRITERS)


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
        )
    print(result.summary())
    picture = arguments.out / "regret.png"
    save_figure(study_figure(result), picture)
    print(f"wrote {picture}")


def _reproduce(arguments: argparse.Namespace) -> None:
    _need_study_modules("fastcolst reproduce")
    settings = Settings(horizon=arguments.horizon, runs=arguments.runs, seed=arguments.seed)
    targets = [*(arguments.targets or ["all"]), *(["sweep"] if arguments.sweep else [])]
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


def _replay(arguments: argparse.Namespace) -> None:
    _check_outputs(arguments.out, _REPLAY_WRITERS)
    log = read_log(
        arguments.log,
        first=_columns(arguments.first),
        second=_columns(arguments.second),
        contrast=_columns(arguments.contrast),
        outcome=arguments.outcome,
        coding=arguments.outcome_coding,
        where=arguments.where,
    )
    policy = _policy(arguments.policy, arguments, n_features=log.contrasts.shape[1])
    if not hasattr(policy, "theta"):
        raise ValueError(f"argument --policy: {arguments.policy} has no estimate to predict with")
    result = replay(policy, log, label=arguments.policy, progress=_shows_progress(arguments))
    print(result.summary())
    _write(result, arguments.out, _REPLAY_WRITERS)


def _info(_: argparse.Namespace) -> None:
    cache = cache_info()
    interpreted = " (NUMBA_DISABLE_JIT is set: nothing is compiled)" if numba.config.DISABLE_JIT else ""
    kept = _amount(CacheContents(cache["entries"], cache["bytes"]), " of this version")
    rows = {
        "fastcolst": fc.__version__,
        "Python": platform.python_version(),
        "Numba": numba.__version__ + interpreted,
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "threads": str(processors()),
        "cache": cache["path"] or "none: every process compiles its kernels anew",
        "cached": kept if cache["entries"] else "nothing yet: run fastcolst warmup",
    }
    print("\n".join(f"{name:<11}{value}" for name, value in rows.items()))


def _warmup(arguments: argparse.Namespace) -> None:
    rows = [("kernels of", "comparison", "seconds")]
    for comparison in arguments.comparison or COMPARISONS:
        # The problem's side is shared by all policies: a round of a simulation compiles it.
        scenario = fc.Scenario.hard(n_arms=2, n_features=2, comparison=comparison)
        play = partial(fc.simulate, {"UniformPairs": fc.UniformPairs()}, scenario, 1, rng=0)
        rows.append(("simulate", comparison, _seconds(play)))
        for name in _policy_names(arguments.policies):
            options = argparse.Namespace(**{**vars(arguments), "comparison": comparison})
            rows.append((name, comparison, _seconds(_policy(name, options, n_features=2).warmup)))
    print("\n".join(align(rows)))


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


def _seconds(work: Callable[[], object]) -> str:
    start = time.perf_counter()
    work()
    return f"{time.perf_counter() - start:.2f}"


# --- from arguments to objects ------------------------------------------------------------------------------


def _policy_names(text: str) -> list[str]:
    """The policies that a list of names, or "all", stands for."""
    names = list(REGISTRY) if text == "all" else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in REGISTRY:
            raise ValueError(f"argument --policies: no policy {name!r}; there are {', '.join(REGISTRY)}")
    return list(dict.fromkeys(names))


def _policy(name: str, arguments: argparse.Namespace, **sizes: Any) -> Any:
    """Build a policy from those options that it has: one that learns nothing has no estimator, say."""
    if name not in REGISTRY:
        raise ValueError(f"argument --policy: no policy {name!r}; there are {', '.join(REGISTRY)}")
    options = {"comparison": arguments.comparison, "estimator": _estimator(arguments), **sizes}
    accepted = inspect.signature(REGISTRY[name]).parameters
    return REGISTRY[name](**{option: value for option, value in options.items() if option in accepted})


def _estimator(arguments: argparse.Namespace) -> Any:
    """The estimator asked for by name, or implied by an option that only one has; the exact one otherwise."""
    implied = "mle" if arguments.learning_rate is None else "sgd"
    name = arguments.estimator or implied
    if implied == "sgd" and name != "sgd":
        raise ValueError(f"argument --learning-rate: {name} has no learning rate; it is an option of --estimator sgd")
    estimator, ridge = ESTIMATORS[name](arguments), getattr(arguments, "ridge", None)
    if ridge is None:
        return estimator
    if not hasattr(estimator, "ridge"):
        raise ValueError(f"argument --ridge: {name} has no ridge; it is an option of --estimator mle and online-newton")
    return estimator._replace(ridge=ridge)


def _columns(text: str | None) -> str | list[str] | None:
    """A shell pattern or one name as it is, names with commas between them as a list."""
    return [name.strip() for name in text.split(",")] if text is not None and "," in text else text


def _shows_progress(arguments: argparse.Namespace) -> bool:
    installed = importlib.util.find_spec("tqdm") is not None
    return installed and not arguments.no_progress and sys.stderr.isatty()


# --- output -------------------------------------------------------------------------------------------------


class _Writer(NamedTuple):
    """How a kind of file is written, and the module it takes."""

    write: Callable[[Any, Path], None]
    needs: str | None = None


def _write_regret_picture(result: fc.Result, path: Path) -> None:
    figure = new_figure()
    regret_figure(result, figure.add_subplot())
    save_figure(figure, path)


def _write_replay_picture(result: ReplayResult, path: Path) -> None:
    figure = new_figure(*REPLAY_SIZE)
    replay_figure(result, figure.subplots(1, 2))
    save_figure(figure, path)


def _write_regret_table(result: fc.Result, path: Path) -> None:
    result.to_pandas().to_csv(path, index=False)


def _write_probabilities(result: ReplayResult, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("probability", "first_won"))
        rows.writerows(zip(result.probabilities.tolist(), result.wins.astype(int).tolist(), strict=True))


_RESULT_WRITERS = {
    **dict.fromkeys(PICTURES, _Writer(_write_regret_picture, "matplotlib")),
    ".parquet": _Writer(lambda result, path: result.save(path), "pyarrow"),
    ".csv": _Writer(_write_regret_table, "pandas"),
}
_REPLAY_WRITERS = {
    **dict.fromkeys(PICTURES, _Writer(_write_replay_picture, "matplotlib")),
    ".csv": _Writer(_write_probabilities),
}


def _check_outputs(paths: Sequence[Path], writers: dict[str, _Writer]) -> None:
    """Raise now what writing would raise after a long computation."""
    for path in paths:
        if path.suffix.lower() not in writers:
            raise ValueError(f"argument --out: {str(path)!r} must end in one of {', '.join(writers)}")
        needs = writers[path.suffix.lower()].needs
        if needs is not None and importlib.util.find_spec(needs) is None:
            raise ImportError(f"argument --out: {str(path)!r} needs {needs}: pip install 'fastcolst[study]'")
        try:
            if path.exists():
                path.open("r+b").close()  # a folder or a read-only file fails here
            tempfile.TemporaryFile(dir=path.parent).close()
        except OSError as error:
            raise OSError(f"argument --out: cannot write {str(path)!r}: {error.strerror}") from error


def _write(result: Any, paths: Sequence[Path], writers: dict[str, _Writer]) -> None:
    for path in paths:
        writers[path.suffix.lower()].write(result, path)
        print(f"wrote {path}")


def _one_line(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    return " ".join(text.split()) or type(error).__name__


@contextlib.contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"fastcolst: warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


# --- the parser ---------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage: a wrong input is told in one line."""
        raise ValueError(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fastcolst",
        description="Which two options should be compared next, and what do the answers say?",
        epilog=_listed(itertools.chain.from_iterable(EXAMPLES.values())),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fastcolst {fc.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_simulate(commands)
    _add_study(commands)
    _add_reproduce(commands)
    _add_report(commands)
    _add_replay(commands)
    _add_command(commands, "info", _info, "tell versions, threads and the state of the kernel cache")
    _add_warmup(commands)
    _add_cache(commands)
    return parser


def _add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], None], summary: str
) -> argparse.ArgumentParser:
    examples = EXAMPLES.get(name)
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=_listed(examples) if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run)
    return command


def _listed(examples: Iterable[str]) -> str:
    return "\n  ".join(["examples:", *examples])


def _add_simulate(commands: Any) -> None:
    command = _add_command(commands, "simulate", _simulate, "play policies against each other and report their regret")
    add = command.add_argument_group("problem").add_argument
    sizes = "norm of the true parameter: below 1/sqrt(D), up to 1, or up to sqrt(D) [%(default)s]"
    add("--scenario", choices=SCENARIOS, default="hard", help=sizes)
    add("--arms", type=int, default=50, metavar="N", help="arms in a round [%(default)s]")
    add("--features", type=int, default=10, metavar="D", help="features of an arm [%(default)s]")
    add("--horizon", type=int, default=10_000, metavar="T", help="rounds in a run [%(default)s]")
    add("--runs", type=int, default=10, help="independent repetitions [%(default)s]")
    add("--seed", type=int, help="same seed, same numbers [a fresh one, which is reported]")
    policies = command.add_argument_group("policies")
    names = f"with commas between them, or all: {', '.join(REGISTRY)} [%(default)s]"
    policies.add_argument("--policies", default="CoLSTIM,UniformPairs", metavar="NAMES", help=names)
    _add_learning(policies)
    running = command.add_argument_group("running")
    running.add_argument("--threads", type=int, metavar="N", help="runs played at a time [one per processor]")
    points = "points on a curve [%(default)s]"
    running.add_argument("--checkpoints", type=int, default=200, metavar="K", help=points)
    _add_output(running, _RESULT_WRITERS)


def _add_study(commands: Any) -> None:
    command = _add_command(commands, "study", _study, "compute a study that a TOML file describes, or go on with it")
    add = command.add_argument
    add("file", metavar="FILE", type=Path, help="TOML: horizon, runs, seed, [[policy]], [[scenario]]")
    add("--out", metavar="DIR", type=Path, required=True, help="the study's folder: results, and regret.png")
    add("--resume", action="store_true", help="go on with what is in the folder [refuse one that is not empty]")
    executor = "threads, processes, or dask:ADDRESS of a scheduler [%(default)s]"
    add("--executor", default="threads", metavar="KIND", help=executor)
    add("--threads", type=int, metavar="N", help="threads or processes at work [one per processor]")
    add("--no-progress", action="store_true", help="no progress, even on a terminal")


def _add_reproduce(commands: Any) -> None:
    command = _add_command(
        commands, "reproduce", _reproduce, "compute the paper's experiments, or go on with them, and write the report"
    )
    add = command.add_argument
    defaults = Settings()
    names = f"{', '.join(TARGETS)}; all stands for the paper's experiments [all]"
    add("targets", nargs="*", metavar="TARGET", help=names)
    add("--sweep", action="store_true", help="the scaling study as well: regret and time against n, d, T")
    add("--runs", type=int, default=defaults.runs, metavar="R", help="repetitions [%(default)s]")
    horizon = "T; the paper does not state its own [%(default)s]"
    add("--horizon", type=int, default=defaults.horizon, metavar="T", help=horizon)
    add("--seed", type=int, default=defaults.seed, metavar="SEED", help="from which everything follows [%(default)s]")
    out = "its folder; what is there with the same settings is kept [%(default)s]"
    add("--out", metavar="DIR", type=Path, default=Path("reproduction"), help=out)
    add("--threads", type=int, metavar="N", help="cells at work at a time [one per processor]")
    add("--no-progress", action="store_true", help="no progress, even on a terminal")


def _add_report(commands: Any) -> None:
    command = _add_command(
        commands, "report", _report, "make figures, tables and report.html again from a folder of reproduce or study"
    )
    command.add_argument("folder", metavar="DIR", type=Path, help="what reproduce or study wrote to")


def _add_replay(commands: Any) -> None:
    command = _add_command(
        commands,
        "replay",
        _replay,
        "learn from a log of finished comparisons, predicting each before it is learned",
    )
    add = command.add_argument_group("log").add_argument
    add("log", metavar="LOG", help=".csv, .csv.gz, .parquet or .npz; a row for each comparison")
    add("--first", metavar="COLUMNS", help="features of the first: a pattern such as 'a_*', or names")
    add("--second", metavar="COLUMNS", help="features of the second")
    add("--contrast", metavar="COLUMNS", help="instead of both: features of the first minus the second's")
    add("--outcome", metavar="COLUMN", help="who won [outcome, or else y]")
    coding = "signed: -1, 0, 1 for loss, draw, win of the first; unit: 0, 1/2, 1; auto: signed if any is -1"
    add("--outcome-coding", choices=CODINGS, default="auto", help=f"{coding} [%(default)s]")
    where = "keep the rows for which this holds, such as 'year >= 1990'; repeat it, and all must hold"
    add("--where", action="append", metavar="CONDITION", help=where)
    learning = command.add_argument_group("learning")
    learning.add_argument("--policy", default="CoLSTIM", metavar="NAME", help="who learns [%(default)s]")
    _add_learning(learning)
    ridge = "penalty R/2 |theta|^2 of the estimate [mle: 0, online-newton: 1]"
    learning.add_argument("--ridge", type=float, metavar="R", help=ridge)
    _add_output(command.add_argument_group("running"), _REPLAY_WRITERS)


def _add_warmup(commands: Any) -> None:
    command = _add_command(
        commands, "warmup", _warmup, "compile the usual combinations now, so that later processes load them"
    )
    add = command.add_argument
    add("--policies", default="all", metavar="NAMES", help="names with commas between them [%(default)s]")
    add("--comparison", choices=COMPARISONS, action="append", help="may be repeated [all]")
    command.set_defaults(estimator=None, learning_rate=None, score="likelihood")


def _add_cache(commands: Any) -> None:
    command = _add_command(commands, "cache", _cache, "tell where compiled kernels are kept and how large they are")
    action = "remove those of all versions; they are compiled again when they are used"
    command.add_argument("action", nargs="?", choices=["clear"], help=action)


def _add_learning(group: Any) -> None:
    add = group.add_argument
    comparison = "how often the better arm wins, in the problem and to the policies [%(default)s]"
    add("--comparison", choices=COMPARISONS, default="bradley-terry", help=comparison)
    add("--estimator", choices=ESTIMATORS, help="how preferences are estimated [mle, or sgd with --learning-rate]")
    add("--learning-rate", type=float, metavar="RATE", help="step length of sgd, which it implies [0.5]")
    add("--score", choices=SCORES, default="likelihood", help="which equation theta solves [%(default)s]")


def _add_output(group: Any, writers: dict[str, _Writer]) -> None:
    out = f"a file to write, by its extension: {', '.join(writers)}; may be repeated"
    group.add_argument("--out", action="append", type=Path, default=[], metavar="FILE", help=out)
    group.add_argument("--no-progress", action="store_true", help="no progress bar, even on a terminal")
