"""The command line: what it prints and writes, and one line for whatever a person gets wrong."""

from __future__ import annotations

import contextlib
import csv
import importlib.metadata
import importlib.util
import logging
import os
import shlex
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from twins import INFORMED

import fastcolst as fc
from fastcolst._compile.cache import SOURCES
from fastcolst.cli import WRONG_INPUT, commands, main
from fastcolst.cli.arguments import EXAMPLES, parser
from fastcolst.data import Log
from fastcolst.experiments.results import load_result
from fastcolst.policies import REGISTRY

pytestmark = pytest.mark.either_lane

SMALL = ["simulate", "--arms", "5", "--features", "2", "--horizon", "60", "--runs", "2", "--seed", "7"]
SMALL += ["--estimator", "sgd"]


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    """300 comparisons with draws, two groups of columns and a year."""
    rng = np.random.default_rng(11)
    first, second = rng.normal(size=(2, 300, 2))
    outcomes = np.sign((first - second) @ [1.0, -2.0] + rng.logistic(size=300))
    outcomes[::10] = 0
    path = tmp_path / "log.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["a_x", "a_y", "b_y", "b_x", "result", "year"])
        for i in range(300):
            rows.writerow([*first[i], second[i][1], second[i][0], int(outcomes[i]), 1900 + i])
    return path


def replay_of(path: Path) -> list[str]:
    return ["replay", str(path), "--first", "a_*", "--second", "b_*", "--outcome", "result"]


def error_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The error's text, after checking exit code 2, one line, and nothing on standard output."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fastcolst: error: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    return err.removeprefix("fastcolst: error: ").rstrip()


# --- simulate -----------------------------------------------------------------------------------------------


def test_simulate_prints_the_summary_and_writes_by_extension(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = [tmp_path / name for name in ("r.png", "r.svg", "r.pdf", "r.parquet", "r.csv")]
    assert main([*SMALL, *(text for file in files for text in ("--out", str(file)))]) == 0
    out = capsys.readouterr().out
    result = load_result(files[3])
    lines = out.splitlines()
    assert lines[0] == "hard: 5 arms, 2 features, bradley-terry"
    assert lines[1] == "60 rounds, 2 runs, seed 7"
    assert [line.split()[0] for line in lines[3:5]] == ["CoLSTIM", "UniformPairs"]
    assert lines[5:] == [f"wrote {file}" for file in files]
    assert all(file.stat().st_size > 0 for file in files)
    with files[4].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * result.rounds.size
    assert float(rows[-1]["average_regret"]) == result.average_regret["UniformPairs"][-1, -1]


def test_the_same_seed_gives_the_same_numbers_and_another_does_not(tmp_path: Path):
    results = []
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        path = tmp_path / f"{name}.parquet"
        assert main([*SMALL, "--seed", seed, "--out", str(path)]) == 0
        results.append(load_result(path))
    assert results[0].same_numbers(results[1])
    assert not results[0].same_numbers(results[2])


class ReachedError(Exception):
    """Raised in place of a long computation."""


def caught(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, arguments: list[str]) -> dict[str, Any]:
    """Run the command until it calls `name`; what it was called with, positional arguments by number."""
    seen: dict[str, Any] = {}

    def record(*positional: Any, **named: Any) -> None:
        seen.update(enumerate(positional), **named)
        raise ReachedError

    monkeypatch.setattr(owner, name, record)
    with pytest.raises(ReachedError):
        main(arguments)
    return seen


def test_every_option_of_simulate_reaches_the_library(monkeypatch: pytest.MonkeyPatch):
    options = (
        "--scenario easy --arms 7 --features 3 --comparison thurstone --horizon 90 --runs 4 --seed 5 "
        "--threads 1 --checkpoints 6 --policies CoLSTIM --learning-rate 0.25 --score residual --no-progress "
        "--single-arms"
    )
    seen = caught(monkeypatch, fc, "simulate", ["simulate", *options.split()])
    estimator = fc.SGD(learning_rate=0.25, score="residual")
    expected = fc.CoLSTIM(3, n_arms=7, comparison="thurstone", estimator=estimator)
    assert repr(seen[0]) == repr({"CoLSTIM": expected})
    assert repr(seen[1]) == repr(fc.Scenario.easy(n_arms=7, n_features=3, comparison="thurstone"))
    rest = {key: value for key, value in seen.items() if key not in (0, 1)}
    asked = {"runs": 4, "rng": 5, "threads": 1, "checkpoints": 6, "progress": False, "single_arms": True}
    assert rest == {2: 90, **asked}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("all", [name for name in REGISTRY if name not in INFORMED]),  # SGD knows no information
        ("UniformPairs, CoLSTIM", ["UniformPairs", "CoLSTIM"]),
        ("CoLSTIM,CoLSTIM", ["CoLSTIM"]),
    ],
)
def test_policies_by_name(monkeypatch: pytest.MonkeyPatch, text: str, names: list[str]):
    assert list(caught(monkeypatch, fc, "simulate", [*SMALL, "--policies", text])[0]) == names


def test_all_policies_are_those_that_the_estimator_suits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    every = ["simulate", "--policies", "all"]
    for options in ([], ["--estimator", "online-newton"]):
        assert list(caught(monkeypatch, fc, "simulate", [*every, *options])[0]) == list(REGISTRY)
    for name in INFORMED:  # asked for by name it is an error
        assert main(["simulate", "--policies", name, "--learning-rate", "0.5"]) == 2
        assert "estimator is SGD, which knows no information" in capsys.readouterr().err


@pytest.mark.parametrize(("on_terminal", "extra"), [(True, []), (True, ["--no-progress"]), (False, [])])
def test_a_progress_bar_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, on_terminal: bool, extra: list[str]):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: on_terminal, raising=False)
    seen = caught(monkeypatch, fc, "simulate", [*SMALL, *extra])
    assert seen["progress"] is (on_terminal and not extra)


# --- replay -------------------------------------------------------------------------------------------------


def test_replay_prints_scores_and_writes_by_extension(
    tmp_path: Path, log_file: Path, capsys: pytest.CaptureFixture[str]
):
    files = [tmp_path / "p.png", tmp_path / "p.csv"]
    outs = [text for file in files for text in ("--out", str(file))]
    options = ["--estimator", "sgd", "--where", "year >= 1950", "--where", "year < 2150", *outs]
    assert main([*replay_of(log_file), *options]) == 0
    out = capsys.readouterr().out
    assert "200 kept by year >= 1950 and year < 2150: 180 learned, 20 draws left out" in out
    for word in ("log loss", "accuracy", "Brier score", "predicted", "coefficient"):
        assert word in out
    assert out.splitlines()[-2:] == [f"wrote {file}" for file in files]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    table = np.loadtxt(files[1], delimiter=",", skiprows=1)
    assert table.shape == (180, 2)
    assert table[0, 0] == 0.5  # nothing was known before the first comparison
    loss = -np.log(np.where(table[:, 1] == 1, table[:, 0], 1 - table[:, 0])).mean()
    assert f"log loss     {loss:.4f}" in out


def test_every_option_of_replay_reaches_the_library(monkeypatch: pytest.MonkeyPatch, log_file: Path):
    options = "--coding signed --comparison exponential --learning-rate 0.125 --score residual --standardize"
    seen = caught(monkeypatch, commands, "replay", [*replay_of(log_file), *options.split(), "--no-progress"])
    estimator = fc.SGD(learning_rate=0.125, score="residual", standardize=True)
    assert repr(seen[0]) == repr(fc.CoLSTIM(2, comparison="exponential", estimator=estimator))
    assert isinstance(seen[1], Log)
    assert (seen["label"], seen["progress"]) == ("CoLSTIM", False)


def test_the_ridge_of_replay_is_the_estimate_s(monkeypatch: pytest.MonkeyPatch, log_file: Path, capsys: Any):
    for name, estimator in (("mle", fc.MLE), ("online-newton", fc.OnlineNewton)):
        seen = caught(monkeypatch, commands, "replay", [*replay_of(log_file), "--estimator", name, "--ridge", "2"])
        assert repr(seen[0]) == repr(fc.CoLSTIM(2, estimator=estimator(ridge=2.0)))
    assert main([*replay_of(log_file), "--estimator", "sgd", "--ridge", "2"]) == WRONG_INPUT
    assert "argument --ridge: sgd has no ridge" in capsys.readouterr().err
    assert main([*replay_of(log_file), "--ridge", "-1"]) == WRONG_INPUT
    assert "MLE: ridge is -1.0; a finite number of at least 0 is wanted" in capsys.readouterr().err


def test_replay_estimates_what_being_the_first_is_worth(
    monkeypatch: pytest.MonkeyPatch, log_file: Path, capsys: pytest.CaptureFixture[str]
):
    seen = caught(monkeypatch, commands, "replay", [*replay_of(log_file), "--position"])
    assert repr(seen[0]) == repr(fc.CoLSTIM(2, estimator=fc.MLE(), position=True))
    monkeypatch.undo()
    for estimator in ("sgd", "mle"):
        assert main([*replay_of(log_file), "--position", "--estimator", estimator]) == 0
        (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("being the first is worth")]
        assert ("standard error" in line) == (estimator != "sgd")
    error = error_of([*replay_of(log_file), "--policy", "UniformPairs", "--position"], capsys)
    assert error == "argument --position: UniformPairs has no position; a policy that estimates it is wanted"


def test_every_option_of_the_log_reaches_the_reader(monkeypatch: pytest.MonkeyPatch):
    options = ["--first", "a_x, a_y", "--second", "b_*", "--outcome", "won", "--where", "k == 'a, b'"]
    options += ["--items", "a", "b", "--coding", "x=1,tie (both)=0.5, y =0", "--draws", "half", "--drop-unknown"]
    options += ["--weight", "n", "--categorical", "a_y,b_y", "--sep", r"\t", "--decimal", ","]
    seen = caught(monkeypatch, commands, "read_log", ["replay", "some.csv", "more.csv", *options])
    assert seen == {
        0: ["some.csv", "more.csv"],
        "first": ["a_x", "a_y"],
        "second": "b_*",
        "contrast": None,
        "items": ["a", "b"],
        "outcome": "won",
        "coding": {"x": 1.0, "tie (both)": 0.5, "y": 0.0},
        "draws": "half",
        "drop_unknown": True,
        "winner_first": False,
        "weight": "n",
        "categorical": ["a_y", "b_y"],
        "where": ["k == 'a, b'"],
        "sep": "\t",
        "decimal": ",",
    }
    seen = caught(
        monkeypatch, commands, "read_log", ["replay", "some.csv", "--winner-first", "--outcome-coding", "unit"]
    )
    given = {name: value for name, value in seen.items() if value not in (None, False)}
    assert given == {0: ["some.csv"], "coding": "unit", "draws": "leave-out", "winner_first": True}


@pytest.mark.parametrize(
    ("options", "loss"),
    [
        ("--estimator sgd", 0.5735),
        ("--learning-rate 0.02", 0.4825),
        ("--learning-rate 0.02 --standardize", 0.4791),
        pytest.param("--estimator mle", 0.4776, marks=pytest.mark.long),
        pytest.param("--estimator online-newton", 0.4774, marks=pytest.mark.long),
    ],
)
def test_football_matches_since_1990(shared: Path, capsys: pytest.CaptureFixture[str], options: str, loss: float):
    path = shared / "data" / "intl_football" / "pairs.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["replay", str(path), "--where", "year >= 1990", *options.split()]) == 0
    out, err = capsys.readouterr()
    assert ("--standardize" in err) == (options == "--estimator sgd")  # the paper's rate is too high for these
    assert "11,258 draws" in out
    assert "24,787 learned" in out
    (line,) = [line for line in out.splitlines() if line.startswith("log loss")]
    assert float(line.split()[2]) == pytest.approx(loss, abs=0.0005)


def test_the_exact_estimator_is_the_default_and_a_learning_rate_implies_sgd(
    monkeypatch: pytest.MonkeyPatch, log_file: Path, capsys: pytest.CaptureFixture[str]
):
    for options, estimator in (
        ([], fc.MLE()),
        (["--estimator", "sgd"], fc.SGD(0.5)),
        (["--learning-rate", "0.25"], fc.SGD(0.25)),
        (["--estimator", "online-newton", "--score", "residual"], fc.OnlineNewton(score="residual")),
    ):
        seen = caught(monkeypatch, commands, "replay", [*replay_of(log_file), *options])
        assert repr(seen[0]) == repr(fc.CoLSTIM(2, estimator=estimator))
    monkeypatch.undo()
    error = error_of([*replay_of(log_file), "--estimator", "mle", "--learning-rate", "0.1"], capsys)
    assert error == "argument --learning-rate: mle has no learning rate; it is an option of --estimator sgd"


OWN_ESTIMATORS = """
from typing import NamedTuple
import numpy as np
from fastcolst.extend import LEARNED

class Memory(NamedTuple):
    theta: np.ndarray

class Steps(NamedTuple):
    rate: float = 1.0

    def memory(self, n_features):
        return Memory(np.zeros(n_features))

    def learn(self, model, memory, contrast, share, weight):
        return LEARNED

    def score(self):
        return 1.0

    ridge = learning_rate = score

class Scored(NamedTuple):
    score: float = 2.0
    ridge: float = 3.0
    memory, learn = Steps.memory, Steps.learn
"""


def test_an_option_is_a_field_of_the_estimator_and_no_method(
    monkeypatch: pytest.MonkeyPatch, log_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "own_options.py").write_text(OWN_ESTIMATORS)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, options, fields in (
        ("Steps", [], {"rate": 1.0}),
        ("Scored", ["--ridge", "5"], {"score": 2.0, "ridge": 5.0}),
    ):
        with monkeypatch.context() as patch:
            seen = caught(
                patch, commands, "replay", [*replay_of(log_file), "--estimator", f"own_options:{name}", *options]
            )
        assert seen[0].get_params()["estimator"]._asdict() == fields
    for option, value, words, having in (
        ("--ridge", "5", "ridge", "mle, online-newton"),
        ("--learning-rate", "5", "learning rate", "sgd"),
        ("--score", "residual", "score", "sgd, mle, online-newton"),
    ):
        error = error_of([*replay_of(log_file), "--estimator", "own_options:Steps", option, value], capsys)
        assert error == f"argument {option}: own_options:Steps has no {words}; it is an option of --estimator {having}"
    monkeypatch.delitem(sys.modules, "own_options")


# --- info and warmup ----------------------------------------------------------------------------------------


def test_info_tells_versions_and_the_cache(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(commands, "cache_info", lambda: {"path": "here", "entries": 3, "bytes": 2_500_000})
    assert main(["info"]) == 0
    told = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    for name in ("numba", "numpy", "scipy"):
        assert importlib.metadata.version(name) in {text.split()[0] for text in told.values()}
    assert told["fastcolst"] == fc.__version__
    assert told["cache"] == "here"
    assert told["cached"] == "3 compiled kernels of this version, 2.5 MB"


def test_info_without_a_cache(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(commands, "cache_info", lambda: {"path": None, "entries": 0, "bytes": 0})
    assert main(["info"]) == 0
    told = capsys.readouterr().out
    assert "none: every process compiles" in told
    assert "warmup" not in told


def test_info_tells_why_numba_compiles_plainly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    for reason in ("", "Numba 9.9 is none that fastcolst was tested with"):
        monkeypatch.setattr(commands, "PLAIN", reason)
        monkeypatch.setattr(commands.numba.config, "DISABLE_JIT", 0)
        assert main(["info"]) == 0
        told = capsys.readouterr().out
        assert ("internals are not used" in told) is bool(reason) and reason in told


def test_warmup_tells_what_it_compiled_and_what_was_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    warmed = []
    for policy in REGISTRY.values():  # some twenty seconds each with the exact estimator
        if policy is not fc.UniformPairs:
            monkeypatch.setattr(policy, "warmup", lambda self: warmed.append(repr(self)))
    options = ["--policies", "all", "--estimators", "sgd, mle", "--comparisons", "thurstone,bradley-terry"]
    assert main(["warmup", *options]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    learners = [name for name in REGISTRY if name not in {"DoubleThompson", "SelfSparring", "UniformPairs"}]
    combinations = [
        [name, *([estimator] if name in learners else []), model]
        for model in ("thurstone", "bradley-terry")
        for name in ("simulate", *REGISTRY)
        for estimator in (("mle",) if name in INFORMED else ("sgd", "mle") if name in learners else ("",))
    ]
    rows = [line.split() for line in lines[1:]]
    assert [row[:-3] for row in rows] == combinations
    assert all(float(row[-1]) >= 0 for row in rows)
    assert len(warmed) == 2 * (2 * len(learners) - len(INFORMED) + 2)
    assert all(any(word in one.lower() for one in warmed) for word in ("thurstone", "sgd", "mle"))
    compiled, loaded = (sum(int(row[place]) for row in rows) for place in (-3, -2))
    assert last.startswith(f"{compiled} kernels compiled") and last.endswith(f", {loaded} in the cache already")


@pytest.mark.parametrize("terminal", [True, False])
def test_what_was_compiled_is_told_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
):
    logger = logging.getLogger("fastcolst")
    before = (logger.level, list(logger.handlers))
    monkeypatch.setitem(commands.COMMANDS, "info", lambda _: logger.info("compiled 2 kernels in 3.0 s; what else"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert main(["info"]) == 0
    assert capsys.readouterr().err == "fastcolst: compiled 2 kernels in 3.0 s; what else\n" * terminal
    assert (logger.level, logger.handlers) == before


@pytest.mark.parametrize("option", ["--policies", "--estimators", "--comparisons"])
def test_warmup_refuses_names_that_mean_nothing(capsys: pytest.CaptureFixture[str], option: str):
    assert main(["warmup", option, "all,nobody"]) == 2
    noun = {"--policies": "policy", "--estimators": "estimator", "--comparisons": "comparison model"}[option]
    assert f"argument {option}: no {noun} 'all'; there are" in capsys.readouterr().err


# --- what can go wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "the following arguments are required: COMMAND (see fastcolst --help)"),
        (
            ["simulate", "--arms", "many"],
            "argument --arms: invalid int value: 'many' (see fastcolst simulate --help)",
        ),
        (["simulate", "--horizon", "0"], "horizon is 0; "),
        (["simulate", "--runs", "0"], "runs is 0; "),
        (["simulate", "--arms", "0"], "argument --scenario: n_arms is 0; "),
        (
            ["simulate", "--policies", "Clostim"],
            "argument --policies: no policy 'Clostim'; there are CoLSTIM, ",
        ),
        (["simulate", "--learning-rate", "-1"], "SGD: learning_rate is -1.0; "),
        (["simulate", "--seed", "-1"], "rng is -1; "),
        (["replay", "absent.npz"], "absent.npz: No such file or directory"),
        (["replay", "log.txt"], "path 'log.txt' must end in .csv"),
        (["replay", "log.csv", "--first", "a_*"], "second is missing"),
        (["replay", "log.csv", "--where", "year"], "where='year' is not "),
        (
            ["replay", "log.csv", "--first", "home_rating", "home_rest", "--second", "away_rating", "away_rest"],
            "unrecognized arguments: home_rest away_rest; several names want commas between them",
        ),
    ],
)
def test_a_wrong_input_is_told_in_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str):
    assert error_of(arguments, capsys).startswith(text)


def test_several_comparisons_are_compared(monkeypatch: pytest.MonkeyPatch, log_file: Path, capsys: Any):
    several = [*replay_of(log_file), "--comparison", "bradley-terry", "--comparison", "exponential"]
    seen = caught(monkeypatch, commands, "compare_models", [*several, "--policy", "MaxInP", "--estimator", "sgd"])
    assert seen[1] == {"bradley-terry": "bradley-terry", "exponential": "exponential"}
    assert repr(seen["policy"]).startswith("MaxInP(n_features=2, ")
    assert seen["policy"].get_params()["estimator"] == fc.SGD()
    monkeypatch.undo()
    assert main([*several, "--estimator", "sgd", "--no-progress"]) == 0
    out = capsys.readouterr().out
    assert "300 rows: 270 learned" in out and "outcomes: " in out
    assert "250 comparisons, each predicted before it was learned, after the first 20" in out
    assert "cannot be told apart with 250 answers; about " in out or " predicts better than " in out
    error = error_of([*several, "--out", "replay.png"], capsys)
    assert error == "argument --out: 2 comparisons have no one picture; one --comparison is wanted"


def test_lapses_are_models_to_compare_and_their_rate_is_told(
    monkeypatch: pytest.MonkeyPatch, log_file: Path, capsys: Any
):
    command = [*replay_of(log_file), "--estimator", "sgd"]
    seen = caught(monkeypatch, commands, "compare_models", [*command, "--lapse", "0", "--lapse", "0.1"])
    base = fc.BradleyTerry()
    expected = {"bradley-terry, lapse 0": fc.Lapse(base, 0.0), "bradley-terry, lapse 0.1": fc.Lapse(base, 0.1)}
    assert seen[1] == expected
    monkeypatch.undo()
    seen = caught(monkeypatch, commands, "replay", [*command, "--comparison", "thurstone", "--lapse", "0.1"])
    assert seen[0].get_params()["comparison"] == fc.Lapse("thurstone", 0.1)
    monkeypatch.undo()
    monkeypatch.setattr("fastcolst.estimation.lapses.RATES", (0.0, 0.2))
    assert main([*command, "--lapse", "profile", "--where", "year < 1960"]) == 0
    assert "\nbradley-terry: lapse rate 0" in capsys.readouterr().out
    assert error_of([*command, "--lapse", "many"], capsys).startswith("argument --lapse: 'many'; a rate from 0")
    assert "rate is 1.0; a number from 0 to below 1" in error_of([*command, "--lapse", "1"], capsys)
    error = error_of([*command, "--comparison", "thurstone", "--comparison", "thurstone"], capsys)
    assert error == "argument --comparison: thurstone twice; each once is wanted"


def test_a_policy_without_an_estimate_cannot_replay(log_file: Path, capsys: pytest.CaptureFixture[str]):
    error = error_of([*replay_of(log_file), "--policy", "UniformPairs"], capsys)
    assert error == "argument --policy: UniformPairs has no estimate to predict with"
    assert error_of([*replay_of(log_file), "--policy", "Nobody"], capsys).startswith("argument --policy: no policy")


def test_a_horizon_that_only_explores_is_pointed_out(capsys: pytest.CaptureFixture[str]):
    short = ["simulate", "--arms", "5", "--features", "2", "--horizon", "10", "--estimator", "sgd", "--runs", "1"]
    assert main([*short, "--policies", "CoLSTIM"]) == 0
    assert "with n d = 10 rounds of exploration" in capsys.readouterr().err
    assert main([*short, "--policies", "UniformPairs"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", [SMALL, ["replay", "absent.npz"]])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("picture.gif", "must end in one of .png"),
        ("file/below.png", "Not a directory"),  # below a regular file, where root cannot write either
        ("absent/picture.png", "No such file or directory"),
        ("folder.png", "Is a directory"),
    ],
)
def test_outputs_are_checked_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    name: str,
    text: str,
):
    monkeypatch.setattr(fc, "simulate", None)  # calling it would be a TypeError
    monkeypatch.setattr(commands, "read_log", None)
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    error = error_of([*command, "--out", str(tmp_path / name)], capsys)
    assert error.startswith("argument --out: ")
    assert text in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.png"]


@pytest.mark.parametrize("other", ["log.csv", "linked.csv", "hard.csv", "folder/../log.csv"])
def test_what_is_read_is_not_overwritten(
    tmp_path: Path, log_file: Path, capsys: pytest.CaptureFixture[str], other: str
):
    """A log that was named as --out was replaced by probabilities, also under another name of the same file."""
    path, beside = log_file, tmp_path / "beside.csv"
    content = path.read_bytes()
    beside.write_bytes(content)
    (tmp_path / "folder").mkdir()
    (tmp_path / "linked.csv").symlink_to(path)
    (tmp_path / "hard.csv").hardlink_to(path)
    command, *rest = replay_of(beside)
    outs = ["--out", str(tmp_path / "new.png"), "--out", str(tmp_path / other)]
    error = error_of([command, rest[0], str(path), *rest[1:], *outs], capsys)
    assert error.startswith("argument --out: ") and f"is the log {str(path)!r}, which is read" in error
    assert path.read_bytes() == content and not (tmp_path / "new.png").exists()


def test_checking_an_output_leaves_an_existing_file_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "kept.csv"
    path.write_text("mine")
    error_of(["replay", "absent.npz", "--out", str(path)], capsys)
    assert path.read_text() == "mine"


def test_a_missing_package_is_told_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(fc, "simulate", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    error = error_of([*SMALL, "--out", str(tmp_path / "r.png")], capsys)
    assert error.endswith("needs matplotlib: pip install 'fastcolst[study]'")


@pytest.mark.parametrize("error", [ValueError, OSError, ImportError, MemoryError])
def test_errors_of_many_lines_become_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: type[Exception]
):
    def fail(*_: Any, **__: Any) -> None:
        raise error("one\n  two")

    monkeypatch.setattr(fc, "simulate", fail)
    assert error_of(SMALL, capsys) == "one two"


def test_our_own_mistakes_keep_their_traceback(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fc, "simulate", None)
    with pytest.raises(TypeError):
        main(SMALL)


def test_ctrl_c_is_one_line_and_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fc, "simulate", interrupt)
    assert main(SMALL) == 130
    assert capsys.readouterr() == ("", "fastcolst: interrupted\n")


@pytest.mark.filterwarnings("default:two")
def test_a_warning_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    simulate = fc.simulate

    def warn(*positional: Any, **named: Any) -> fc.Result:
        warnings.warn("two\nlines", UserWarning, stacklevel=1)
        return simulate(*positional, **named)

    monkeypatch.setattr(fc, "simulate", warn)
    assert main([*SMALL, "--policies", "UniformPairs"]) == 0
    assert capsys.readouterr().err == "fastcolst: warning: two lines\n"


@pytest.mark.parametrize(
    "command", [[], ["simulate"], ["study"], ["reproduce"], ["report"], ["replay"], ["info"], ["warmup"], ["cache"]]
)
def test_help_ends_well_and_shows_examples(command: list[str], capsys: pytest.CaptureFixture[str]):
    assert main([*command, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: {' '.join(['fastcolst', *command])}")
    assert ("examples:" in out) is (command != ["info"])


@pytest.mark.parametrize("example", [line for lines in EXAMPLES.values() for line in lines])
def test_the_examples_of_the_help_are_legal(example: str):
    program, *arguments = shlex.split(example)
    assert program == "fastcolst"
    assert callable(commands.COMMANDS[parser().parse_args(arguments).command])


# --- as a process -------------------------------------------------------------------------------------------


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fastcolst", *arguments]
    root = Path(fc.__file__).parents[1]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, **options)


def test_version_as_a_process():
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"fastcolst {fc.__version__}\n", "")


def test_a_wrong_input_as_a_process():
    done = run("simulate", "--horizon", "-5")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("fastcolst: error: horizon is -5; ")
    assert done.stderr.count("\n") == 1


def test_a_closed_pipe_is_no_error():
    command = [sys.executable, "-m", "fastcolst", "info"]
    root = Path(fc.__file__).parents[1]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


# --- Ctrl-C from the first import on ------------------------------------------------------------------------

# Sends the signal when a module is about to be imported: the one moment, in a place where it cannot be caught.
INTERRUPTER = """
import os, signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
"""
AS_MODULE = [sys.executable, "-m", "fastcolst"]
AS_SCRIPT = [sys.executable, "-c", "import sys; from fastcolst.__main__ import main; sys.exit(main())"]


def interrupted_at(
    module: str, folder: Path, command: list[str], disposition: Any = signal.SIG_DFL
) -> subprocess.CompletedProcess[str]:
    (folder / "sitecustomize.py").write_text(INTERRUPTER)
    path = os.pathsep.join([str(folder), str(Path(fc.__file__).parents[1])])
    return subprocess.run(
        [*command, "--version"],
        env={**os.environ, "PYTHONPATH": path, "INTERRUPT_AT": module},
        preexec_fn=lambda: signal.signal(signal.SIGINT, disposition),
        capture_output=True,
        text=True,
        check=False,
    )


posix = pytest.mark.skipif(os.name != "posix", reason="POSIX signals")


@posix
@pytest.mark.parametrize("command", [AS_MODULE, AS_SCRIPT], ids=["module", "script"])
@pytest.mark.parametrize(
    "module", ["fastcolst.cli", "numba", "numba.core.types", "scipy", "fastcolst.experiments.studies"]
)
def test_ctrl_c_during_imports_is_one_line_and_130(tmp_path: Path, module: str, command: list[str]):
    done = interrupted_at(module, tmp_path, command)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "fastcolst: interrupted\n")


@posix
def test_a_job_that_ignores_ctrl_c_goes_on_ignoring_it(tmp_path: Path):
    done = interrupted_at("numba", tmp_path, AS_MODULE, signal.SIG_IGN)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"fastcolst {fc.__version__}\n", "")


NOTE_WHAT_IS_BLOCKED = """
import os, pathlib, signal, sys
if "--multiprocessing-fork" in sys.orig_argv:
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    pathlib.Path(os.environ["NOTES"], f"{os.getpid()} {blocked}").touch()
"""


@posix
def test_workers_never_see_ctrl_c(tmp_path: Path):
    """A terminal sends it to them as well, and while they import there is none of our code to ignore it."""
    (tmp_path / "sitecustomize.py").write_text(NOTE_WHAT_IS_BLOCKED)
    (tmp_path / "notes").mkdir()
    program = (
        "from fastcolst.cli.commands import _executor\n"
        "with _executor('processes', 2) as pool: pool.submit(int).result()"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(fc.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": path, "NOTES": str(tmp_path / "notes")}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=100)
    notes = [note.name.split() for note in (tmp_path / "notes").iterdir()]
    assert [blocked for _, blocked in notes] == ["True", "True"]


# Runs what stands for the command line, and sends itself the signal.
AROUND_MAIN = """
import ctypes, os, signal, sys, time
from fastcolst import __main__ as entry
from fastcolst import cli

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)  # where Python looks for signals

def lose():
    ctypes.CFUNCTYPE(None)(interrupt)()  # as in any callback of C's

def run():
{}

cli.main = run
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(entry.main())
"""


@posix
@pytest.mark.parametrize(
    "body",
    [
        "interrupt()",
        "try:\n interrupt()\nexcept KeyboardInterrupt:\n interrupt()",
        "lose(); time.sleep(60)",
        "import atexit; atexit.register(interrupt); return 0",
        "try:\n interrupt()\nexcept KeyboardInterrupt:\n raise RuntimeError('release unlocked lock')",
        "import threading\nthreading.Thread(target=entry._stop).start(); time.sleep(60)",
        "try:\n exec('call()', {'__name__': 'numba.core.compiler', 'call': interrupt})\nfinally:\n time.sleep(60)",
    ],
    ids=["in main", "twice", "lost", "at exit", "another error of it", "in a thread", "in Numba"],
)
def test_ctrl_c_around_the_command_is_one_line_and_130(body: str):
    program = AROUND_MAIN.format("\n".join(f" {line}" for line in body.splitlines()))
    root = Path(fc.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False, timeout=50
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "fastcolst: interrupted\n")


FULL_PIPE = """
 signal.alarm(90)
 os.set_blocking(1, False)
 try:
  while True:
   os.write(1, bytes(4096))
 except BlockingIOError:
  os.set_blocking(1, True)
 sys.stdout.write("what is to be flushed")
 os.write(2, b"here\\n")
 time.sleep(60)
"""


@posix
def test_a_second_ctrl_c_ends_what_waits_for_a_reader():
    program = AROUND_MAIN.format(FULL_PIPE)
    command = [sys.executable, "-c", program]
    root = Path(fc.__file__).parents[1]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, cwd=root, env=buffered, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr.readline() == b"here\n"
        for _ in range(30):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)
                break
        else:
            process.kill()
        said = process.stderr.read()
    assert (process.returncode, said) == (130, b"fastcolst: interrupted\n")


@posix
def test_other_errors_keep_their_traceback_and_other_codes_stay():
    root = Path(fc.__file__).parents[1]
    for body, code, text in (
        ("raise RuntimeError('ours')", 1, "RuntimeError: ours"),
        ("return 2", 2, ""),
        (
            "try:\n  interrupt()\n except KeyboardInterrupt:\n  pass\n raise RuntimeError('ours')",
            1,
            "RuntimeError: ours",
        ),
        ("ctypes.CFUNCTYPE(None)(lambda: 1 / 0)(); return 0", 0, "ZeroDivisionError"),
        ("a, b = ValueError('a'), KeyError('b'); a.__cause__, b.__cause__ = b, a\n raise a", 1, "ValueError: a"),
    ):
        program = AROUND_MAIN.format(f" {body}")
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=50)
        assert done.returncode == code
        assert text in done.stderr


# --- the cache ----------------------------------------------------------------------------------------------


def test_cache_tells_the_place_and_the_size_and_clear_empties_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    place = tmp_path / "fastcolst"
    for version, sizes in ((SOURCES, (1_500_000,)), ("0123456789ab", (200_000, 300_000))):
        assert version is not None
        (place / version).mkdir(parents=True)
        for number, size in enumerate(sizes):
            (place / version / f"fastcolst.kernel-{number:016x}.nbc").write_bytes(bytes(size))
    monkeypatch.setattr(commands, "cache_info", lambda: {"path": "here", "entries": 0, "bytes": 0})
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"place         {place}",
        "this version  1 compiled kernels, 1.5 MB",
        "others        2 compiled kernels, 0.5 MB",
    ]
    monkeypatch.setattr(commands, "cache_info", lambda: {"path": None, "entries": 0, "bytes": 0})
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"removed 3 compiled kernels, 2.0 MB from {place}\n"
    assert list(place.iterdir()) == []
    assert main(["cache"]) == 0
    assert f"{place} (not used: every process compiles its kernels anew)" in capsys.readouterr().out


def test_a_wrong_action_of_the_cache_is_told_in_one_line(capsys: pytest.CaptureFixture[str]):
    assert error_of(["cache", "empty"], capsys).startswith("argument action: invalid choice: 'empty'")


def test_an_error_in_code_of_ones_own_keeps_its_traceback(tmp_path, monkeypatch):
    """One line would not say where it is; what a person typed wrong is still one line."""
    (tmp_path / "own_idea.py").write_text(
        "class Idea:\n    def select(self, contexts):\n        return contexts @ [1.0, 2.0], 0\n"
        "    def update(self, duel, won):\n        pass\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="matmul") as caught:
        main(["simulate", "--policies", "own_idea:Idea", "--horizon", "10", "--runs", "1", "--features", "3"])
    assert caught.traceback[-1].path.name == "own_idea.py" and "run 0" in "".join(caught.value.__notes__)
    assert main(["simulate", "--policies", "own_idea:Other"]) == 2
    sys.modules.pop("own_idea")
