"""The arguments of the command line: what each command takes, and the objects that they stand for."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import fastcolst as fc
from fastcolst._checks import looked_at
from fastcolst._registry import ESTIMATOR, MODEL, POLICY, find, known
from fastcolst.cli.outputs import REPLAY_WRITERS, RESULT_WRITERS, TUNING_WRITERS
from fastcolst.data import CODINGS, DRAWS
from fastcolst.estimation.estimators import engine_of, estimator_of
from fastcolst.estimation.protocol import knows_information
from fastcolst.estimation.words import SCORES
from fastcolst.experiments.players import PlainPolicy, is_plain
from fastcolst.experiments.tables import scenario_of
from fastcolst.experiments.tuning import REGRETS
from fastcolst.lapse import Lapse
from fastcolst.paper.parts import TARGETS, Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "COMPARISONS",
    "EXAMPLES",
    "PROFILE",
    "SWEEPS",
    "class_of",
    "coding",
    "columns",
    "grid",
    "mark",
    "models_of",
    "names_of",
    "new_policy",
    "new_scenario",
    "parser",
    "policy_names",
    "shows_progress",
    "suits",
]

COMPARISONS = tuple(known(MODEL))
PROFILE = "profile"
"""What --lapse takes in place of a rate."""

SWEEPS = {"sizes": "sweep", "width_scale": "width-scale"}
"""The targets of ``--sweep``."""

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
        "fastcolst reproduce table1 --sweep width_scale",
    ),
    "report": ("fastcolst report reproduction",),
    "replay": (
        "fastcolst replay matches.npz --where 'year >= 1990' --out replay.png",
        "fastcolst replay answers.csv --first 'a_*' --second 'b_*' --outcome winner --coding 'a=1,b=0,both=0.5'",
        "fastcolst replay battles.parquet --items model_a model_b --outcome winner",
        "fastcolst replay matches.npz --comparison bradley-terry --comparison thurstone",
    ),
    "tune": (
        "fastcolst tune --scenario hard --arms 20 --features 5 --horizon 3000 --out tune.png",
        "fastcolst tune matches.npz --arms 10 --grid width_scale=0.5,1,2",
    ),
    "warmup": ("fastcolst warmup --policies CoLSTIM --estimators mle,sgd --comparisons bradley-terry",),
    "cache": ("fastcolst cache", "fastcolst cache clear"),
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage: a wrong input is told in one line."""
        if message.startswith("unrecognized arguments: ") and " -" not in message:  # column names, as a rule
            message += "; several names want commas between them and no spaces: --first home_rating,home_rest"
        raise ValueError(f"{message} (see {self.prog} --help)")


def parser() -> argparse.ArgumentParser:
    """Build the parser of all commands; what it gives names its ``command``."""
    whole = _Parser(
        prog="fastcolst",
        description="Which two options should be compared next, and what do the answers say?",
        epilog=_listed(itertools.chain.from_iterable(EXAMPLES.values())),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"fastcolst {fc.__version__}")
    commands = whole.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    _add_simulate(commands)
    _add_study(commands)
    _add_reproduce(commands)
    _add_report(commands)
    _add_replay(commands)
    _add_tune(commands)
    _add_command(commands, "info", "tell versions, threads and the state of the kernel cache")
    _add_warmup(commands)
    _add_cache(commands)
    return whole


def _add_command(commands: Any, name: str, summary: str) -> argparse.ArgumentParser:
    examples = EXAMPLES.get(name)
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=_listed(examples) if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return command


def _listed(examples: Iterable[str]) -> str:
    return "\n  ".join(["examples:", *examples])


def _add_simulate(commands: Any) -> None:
    command = _add_command(commands, "simulate", "play policies against each other and report their regret")
    add = _add_problem(command, "problem")
    add("--horizon", type=int, default=10_000, metavar="T", help="rounds in a run [%(default)s]")
    add("--runs", type=int, default=10, help="independent repetitions [%(default)s]")
    add("--seed", type=int, help="same seed, same numbers [a fresh one, which is reported]")
    policies = command.add_argument_group("policies")
    names = f"with commas between them, or all: {', '.join(known(POLICY))}; module:Class for your own [%(default)s]"
    policies.add_argument("--policies", default="CoLSTIM,UniformPairs", metavar="NAMES", help=names)
    _add_learning(policies)
    running = command.add_argument_group("running")
    running.add_argument("--threads", type=int, metavar="N", help="runs played at a time [one per processor]")
    points = "points on a curve [%(default)s]"
    running.add_argument("--checkpoints", type=int, default=200, metavar="K", help=points)
    alone = "tell also the regret of each duel's first arm alone, and of the arm that the estimate prefers"
    running.add_argument("--single-arms", action="store_true", help=alone)
    _add_output(running, RESULT_WRITERS)


def _add_problem(command: Any, title: str) -> Any:
    """What says which problem is simulated; what adds more to it."""
    add = command.add_argument_group(title).add_argument
    norms = "easy, medium or hard: norm of the true parameter below 1/sqrt(D), up to 1, or up to sqrt(D)"
    add("--scenario", metavar="NAME", default="hard", help=f"{norms}; or module:Class [%(default)s]")
    add("--arms", type=int, metavar="N", help="arms in a round [the scenario's own default; 50 of ours]")
    add("--features", type=int, metavar="D", help="features of an arm [the scenario's own default; 10 of ours]")
    return add


def _add_study(commands: Any) -> None:
    command = _add_command(commands, "study", "compute a study that a TOML file describes, or go on with it")
    add = command.add_argument
    add("file", metavar="FILE", type=Path, help="TOML: horizon, runs, seed, [[policy]], [[scenario]]")
    add("--out", metavar="DIR", type=Path, required=True, help="the study's folder: results, and regret.png")
    add("--resume", action="store_true", help="go on with what is in the folder [refuse one that is not empty]")
    accept = "go on although the code of your own classes is not that of the cells in the folder"
    add("--accept-changed-code", action="store_true", help=accept)
    executor = "threads, processes, or dask:ADDRESS of a scheduler [%(default)s]"
    add("--executor", default="threads", metavar="KIND", help=executor)
    add("--threads", type=int, metavar="N", help="threads or processes at work [one per processor]")
    add("--no-progress", action="store_true", help="no progress, even on a terminal")


def _add_reproduce(commands: Any) -> None:
    command = _add_command(
        commands, "reproduce", "compute the paper's experiments, or go on with them, and write the report"
    )
    add = command.add_argument
    defaults = Settings()
    names = f"{', '.join(TARGETS)}; all stands for the paper's experiments [all]"
    add("targets", nargs="*", metavar="TARGET", help=names)
    sweep = "as well: regret and time against n, d, T (sizes), or regret against c (width_scale); repeat it for both"
    add("--sweep", nargs="?", const="sizes", action="append", default=[], choices=SWEEPS, help=f"{sweep} [sizes]")
    add("--runs", type=int, default=defaults.runs, metavar="R", help="repetitions [%(default)s]")
    horizon = "T; the paper does not state its own [%(default)s]"
    add("--horizon", type=int, default=defaults.horizon, metavar="T", help=horizon)
    add("--seed", type=int, default=defaults.seed, metavar="SEED", help="from which everything follows [%(default)s]")
    out = "its folder; what is there with the same settings is kept [%(default)s]"
    add("--out", metavar="DIR", type=Path, default=Path("reproduction"), help=out)
    add("--threads", type=int, metavar="N", help="threads at work [one per processor]")
    add("--no-progress", action="store_true", help="no progress, even on a terminal")


def _add_report(commands: Any) -> None:
    command = _add_command(
        commands, "report", "make figures, tables and report.html again from a folder of reproduce or study"
    )
    command.add_argument("folder", metavar="DIR", type=Path, help="what reproduce or study wrote to")


def _add_replay(commands: Any) -> None:
    command = _add_command(
        commands,
        "replay",
        "learn from a log of finished comparisons, predicting each before it is learned",
    )
    _add_log(command, "+")
    learning = command.add_argument_group("learning")
    learning.add_argument("--policy", default="CoLSTIM", metavar="NAME", help="who learns [%(default)s]")
    _add_learning(learning, several=True)
    ridge = "penalty R/2 |theta|^2 of the estimate [mle: 0, online-newton: 1]"
    learning.add_argument("--ridge", type=float, metavar="R", help=ridge)
    standardize = "steps of sgd in units of each feature's size, as far as it was learned"
    learning.add_argument("--standardize", action="store_const", const=True, help=standardize)
    position = "estimate also what it is worth to be the first, apart from all features"
    learning.add_argument("--position", action="store_true", help=position)
    _add_output(command.add_argument_group("running"), REPLAY_WRITERS)


def _add_tune(commands: Any) -> None:
    text = "find the constants with which a policy has the least regret, on simulated problems like yours"
    command = _add_command(commands, "tune", text)
    _add_log(command, "*")
    problem = _add_problem(command, "the problem, where there is no log")
    problem(
        "--horizon", type=int, default=2_000, metavar="T", help="rounds in a run: answers you will have [%(default)s]"
    )
    problem("--runs", type=int, default=20, help="independent repetitions, the same for all variants [%(default)s]")
    problem("--seed", type=int, help="same seed, same numbers [a fresh one, which is reported]")
    learning = command.add_argument_group("policy")
    learning.add_argument("--policy", default="CoLSTIM", metavar="NAME", help="whose constants [%(default)s]")
    grid = "a parameter and its values, such as width_scale=0.5,1,2; may be repeated [width_scale and ridge]"
    learning.add_argument("--grid", action="append", default=[], metavar="NAME=VALUES", help=grid)
    regret = "whose: of the pair, of its better or first arm, or of the arm that the estimate prefers [%(default)s]"
    learning.add_argument("--regret", choices=REGRETS, default="average", help=regret)
    _add_learning(learning)
    running = command.add_argument_group("running")
    running.add_argument("--threads", type=int, metavar="N", help="runs played at a time [one per processor]")
    _add_output(running, TUNING_WRITERS)


def _add_log(command: Any, nargs: str) -> None:
    """What says where finished comparisons are and how to read them."""
    add = command.add_argument_group("log").add_argument
    several = ".csv, .csv.gz, .parquet or .npz; a row for each comparison; several are read as one log"
    add("log", metavar="LOG", nargs=nargs, help=several)
    add("--first", metavar="COLUMNS", help="features of the first: a pattern such as 'a_*', or names")
    add("--second", metavar="COLUMNS", help="features of the second")
    add("--contrast", metavar="COLUMNS", help="instead of both: features of the first minus the second's")
    items = "columns with the names of the two things: each name becomes a feature"
    add("--items", metavar=("FIRST", "SECOND"), nargs=2, help=items)
    categorical = "features that are categories: each level but the first becomes a feature"
    add("--categorical", metavar="COLUMNS", help=categorical)
    add("--outcome", metavar="COLUMN", help="who won [outcome, or else y]")
    listed = f"{', '.join(CODINGS)}, or the first's share for each value: 'left=1,right=0,tie=0.5'"
    add("--coding", "--outcome-coding", metavar="CODING", default="auto", help=f"{listed} [auto: if it is certain]")
    add(
        "--draws", choices=DRAWS, default=DRAWS[0], help="what becomes of draws; half: half a win of each [%(default)s]"
    )
    add("--drop-unknown", action="store_true", help="leave out unknown outcomes, even more than one in twenty")
    add("--winner-first", action="store_true", help="the first always won: there is no column of outcomes")
    add("--weight", metavar="COLUMN", help="how much each comparison counts")
    where = "keep the rows for which this holds, such as 'year >= 1990'; repeat it, and all must hold"
    add("--where", action="append", metavar="CONDITION", help=where)
    add("--sep", metavar="MARK", help=r"what stands between columns of a .csv; '\t' is a tab [,]")
    add("--decimal", metavar="MARK", help="what stands before the fractions of its numbers [.]")


def _add_warmup(commands: Any) -> None:
    command = _add_command(commands, "warmup", "compile the usual combinations now, so that later processes load them")
    add = command.add_argument
    names = "with commas between them, or all: {} [%(default)s]"
    add("--policies", default="all", metavar="NAMES", help=names.format(", ".join(known(POLICY))))
    add("--estimators", default="mle", metavar="NAMES", help=names.format(", ".join(known(ESTIMATOR))))
    add("--comparisons", default="all", metavar="NAMES", help=names.format(", ".join(COMPARISONS)))
    command.set_defaults(learning_rate=None, score=None)


def _add_cache(commands: Any) -> None:
    command = _add_command(commands, "cache", "tell where compiled kernels are kept and how large they are")
    action = "remove those of all versions; they are compiled again when they are used"
    command.add_argument("action", nargs="?", choices=["clear"], help=action)


def _add_learning(group: Any, several: bool = False) -> None:
    add = group.add_argument
    listed, estimators = (f"{', '.join(known(kind))}, or module:Class" for kind in (MODEL, ESTIMATOR))
    if several:
        comparison = f"how often the better one wins: {listed}; repeat it to ask which fits best [bradley-terry]"
        add("--comparison", metavar="NAME", action="append", help=comparison)
        lapse = "share of careless answers to allow for; repeat it as --comparison; profile: say which is likeliest"
        add("--lapse", metavar="RATE", action="append", default=[], help=lapse)
    else:
        comparison = f"how often the better arm wins, in the problem and to the policies: {listed} [%(default)s]"
        add("--comparison", metavar="NAME", default="bradley-terry", help=comparison)
    estimator = f"how preferences are estimated: {estimators} [mle, or sgd with --learning-rate]"
    add("--estimator", metavar="NAME", help=estimator)
    add("--learning-rate", type=float, metavar="RATE", help="step length of sgd, which it implies [0.5]")
    add("--score", choices=SCORES, help="which equation theta solves [likelihood]")


def _add_output(group: Any, extensions: Iterable[str]) -> None:
    out = f"a file to write, by its extension: {', '.join(extensions)}; may be repeated"
    group.add_argument("--out", action="append", type=Path, default=[], metavar="FILE", help=out)
    group.add_argument("--no-progress", action="store_true", help="no progress bar, even on a terminal")


# --- from arguments to objects ------------------------------------------------------------------------------


def new_scenario(arguments: argparse.Namespace) -> Any:
    """Build a scenario from those options that it has."""
    options = {"n_arms": arguments.arms, "n_features": arguments.features, "comparison": arguments.comparison}
    given = {name: value for name, value in options.items() if value is not None}
    return scenario_of({"name": arguments.scenario}, "argument --scenario", given)


def policy_names(text: str) -> list[str]:
    """The policies that a list of names, or "all", stands for."""
    return names_of("--policies", POLICY, text)


def suits(name: str, arguments: argparse.Namespace) -> bool:
    """Whether a policy can do with the estimator that is asked for: where "all" are, those that cannot are left out."""
    needs_information = getattr(class_of(POLICY, name, "--policies"), "needs_information", False)
    return not needs_information or knows_information(engine_of(_estimator(arguments)))


def names_of(option: str, kind: str, text: str) -> list[str]:
    """The names in a list with commas, or all for "all", each once and one that is known or can be imported."""
    names = list(known(kind)) if text == "all" else [name.strip() for name in text.split(",")]
    for name in names:
        class_of(kind, name, option)
    return list(dict.fromkeys(names))


def class_of(kind: str, name: str, option: str) -> Any:
    """The class of a name that an option gave."""
    try:
        cls = find(kind, name)
    except ValueError as error:
        raise ValueError(f"argument {option}: {error}") from error
    if cls is None:
        raise ValueError(f"argument {option}: no {kind} {name!r}; there are {', '.join(known(kind))}")
    return cls


def models_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The comparison models that replay is asked for, by what they are called."""
    models: dict[str, Any] = {}
    rates = [rate for rate in arguments.lapse if rate != PROFILE]
    for name, rate in itertools.product(arguments.comparison or ["bradley-terry"], rates or [None]):
        label, model = (name, name) if rate is None else (f"{name}, lapse {rate}", Lapse(name, _rate(rate)))
        if label in models:
            raise ValueError(f"argument --comparison: {label} twice; each once is wanted")
        models[label] = model
    return models


def _rate(text: str) -> float:
    rate = looked_at(float, text)
    if rate is None:
        raise ValueError(f"argument --lapse: {text!r}; a rate from 0 to below 1, or {PROFILE}, is wanted")
    return rate


def new_policy(name: str, arguments: argparse.Namespace, **sizes: Any) -> Any:
    """Build a policy from those options that it has: one that learns nothing has no estimator, say."""
    cls = class_of(POLICY, name, "--policy")
    options = {"comparison": arguments.comparison, "estimator": _estimator(arguments), **sizes}
    accepted = inspect.signature(cls).parameters
    if getattr(arguments, "position", False):
        if "position" not in accepted:
            raise ValueError(f"argument --position: {name} has no position; a policy that estimates it is wanted")
        options["position"] = True
    given = {option: value for option, value in options.items() if option in accepted}
    return PlainPolicy(cls, given) if is_plain(cls) else cls(**given)


def _estimator(arguments: argparse.Namespace) -> Any:
    """The estimator asked for by name, or implied by an option that only one has; the exact one otherwise."""
    implied = "mle" if arguments.learning_rate is None else "sgd"
    name = arguments.estimator or implied
    try:
        estimator = estimator_of(name)
    except ValueError as error:
        raise ValueError(f"argument --estimator: {error}") from error
    options = {field: getattr(arguments, field, None) for field in ("learning_rate", "ridge", "score", "standardize")}
    given = {field: value for field, value in options.items() if value is not None}
    for field in (field for field in given if field not in estimator._fields):
        having = [other for other, cls in known(ESTIMATOR).items() if field in getattr(cls, "_fields", ())]
        option, words = field.replace("_", "-"), field.replace("_", " ")
        found = f"{name} has no {words}; it is an option of --estimator {', '.join(having)}"
        raise ValueError(f"argument --{option}: {found}")
    return type(estimator)(**{**estimator._asdict(), **given})


def columns(text: str | None) -> str | list[str] | None:
    """A shell pattern or one name as it is, names with commas between them as a list."""
    return [name.strip() for name in text.split(",")] if text is not None and "," in text else text


def coding(text: str) -> str | dict[str, float]:
    """A coding by its name, or shares by value where there is an equals sign."""
    if "=" not in text:
        return text
    shares: dict[str, float] = {}
    for pair in text.split(","):
        value, equals, share = pair.rpartition("=")
        number = looked_at(float, share)
        if not equals or number is None:
            raise ValueError(f"argument --coding: {pair!r}; a value, =, and a share from 0 to 1 are wanted")
        if shares.setdefault(value.strip(), number) != number:
            found = f"{value.strip()!r} twice, with the shares {shares[value.strip()]:g} and {number:g}"
            raise ValueError(f"argument --coding: {found}; one is wanted")
    return shares


def grid(texts: Iterable[str]) -> dict[str, list[Any]] | None:
    """Parameters and their values: whole numbers, numbers, true and false, or texts; None where there are none."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise ValueError(
                f"argument --grid: {text!r}; a parameter, =, and values with commas between them are wanted"
            )
        found.setdefault(name.strip(), []).extend(map(_value, values.split(",")))
    return found or None


def _value(text: str) -> Any:
    """The number, or true or false, that a text writes, or else the text."""
    word = text.strip()
    known_words = {"true": True, "false": False, "none": None}
    if word.lower() in known_words:
        return known_words[word.lower()]
    whole = looked_at(int, word)
    number = looked_at(float, word) if whole is None else whole
    return word if number is None else number


def mark(text: str | None) -> str | None:
    r"""A character; a tab, which is hard to type, also as \t."""
    return "\t" if text == r"\t" else text


def shows_progress(arguments: argparse.Namespace) -> bool:
    """Whether a bar is drawn: on a terminal, unless it is unwanted or tqdm is not there."""
    installed = importlib.util.find_spec("tqdm") is not None
    return installed and not arguments.no_progress and sys.stderr.isatty()
