"""docs/extending.md: its files, written as they stand there, used as it says."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import rounds

import fastcolst as fc
from fastcolst import extend

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, flags=re.DOTALL))
TOML, COMMANDS = (re.search(rf"```{kind}\n(.*?)```", PAGE, flags=re.DOTALL)[1] for kind in ("toml", "bash"))
CLASSES = ("idea.py", "greedy.py", "normalised.py", "sech.py", "seasons.py")
MOST_LINES = 40


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Any:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "study.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_every_block_is_a_file_of_moderate_length():
    assert set(CLASSES) <= set(FILES) and PAGE.count("```python") == len(FILES)
    assert {name: text.count("\n") for name, text in FILES.items() if text.count("\n") > MOST_LINES} == {}


def test_the_readme_links_the_page():
    assert "(docs/extending.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_all_of_them_together_learn_in_a_simulation(folder):
    """The rule with the estimator and the model beats random pairs by far, for as long as the season lasts."""
    from greedy import EpsilonGreedy
    from normalised import NormalisedSteps
    from seasons import Seasons
    from sech import Sech

    policy = EpsilonGreedy(3, comparison=Sech(), estimator=NormalisedSteps(0.5), epsilon=0.05)
    problem = Seasons(period=10**6)
    horizon = rounds(2000, 500)
    result = fc.simulate({"own": policy, "Random": fc.UniformPairs()}, problem, horizon, runs=2, rng=1, checkpoints=1)
    assert np.all(result.average_regret["own"] < 0.5 * result.average_regret["Random"])
    assert repr(policy) == "EpsilonGreedy(n_features=3, comparison=Sech(scale=1.0), estimator=NormalisedSteps(rate=0.5), epsilon=0.05)"  # fmt: skip # noqa: E501
    assert extend.table_of(policy)["estimator"] == {"name": "normalised:NormalisedSteps", "rate": 0.5}
    with pytest.raises(ValueError, match="Sech: scale is 0"):
        Sech(0)


def test_object_and_fused_loop_of_the_rule_agree(folder):
    from greedy import EpsilonGreedy

    m = rounds(400, 150)
    chunk = fc.Scenario.hard(n_arms=5, n_features=2).start(3, 0).next_chunk(m)
    settings = {"estimator": "sgd", "exploration_rounds": 20, "epsilon": 0.2, "rng": 1}
    one, fused, trace = EpsilonGreedy(2, **settings), EpsilonGreedy(2, n_arms=5, **settings), np.zeros((m + 1, 3))
    assert fused.play(chunk, trace) == m
    regret = 0.0
    for r in range(m):
        u = chunk.utilities[r]
        duel = one.select(np.ascontiguousarray(chunk.contexts[r].T))
        one.update(duel, bool(u[duel.first] - u[duel.second] + chunk.latent[r] > 0.0))
        regret += chunk.best[r] - 0.5 * (u[duel.first] + u[duel.second])
    assert trace[-1, 0] == pytest.approx(regret, rel=1e-12)
    assert np.array_equal(one.theta, fused.theta)


def test_a_study_sees_when_one_of_them_is_changed(folder):
    """The rule's class is not named in the study: the policy's constructor reaches it."""
    from fastcolst._code import own_code

    def digests() -> dict[str, Any]:
        for name in FILES:
            sys.modules.pop(name.removesuffix(".py"), None)
        importlib.invalidate_caches()
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        study = fc.Study.from_toml(folder / "study.toml")
        return own_code([*study._recipes.values(), *(setting.problem for setting in study._settings.values())])

    before = digests()
    names = ["greedy:EpsilonGreedy", "normalised:NormalisedSteps", "seasons:Seasons", "sech:Sech"]
    assert list(before) == names and all(isinstance(found[0], str) for found in before.values())
    for name, old, new in (
        (names[0], "return Choice(first, argmax(work[0]), 0)", "return Choice(argmax(work[0]), first, 0)"),
        (names[1], "1.0 + dot", "2.0 + dot"),
        (names[2], "np.where(seasons % 2", "np.where(seasons % 3"),
        (names[3], "1e-300", "1e-200"),
    ):
        file = f"{name.partition(':')[0]}.py"
        assert FILES[file].count(old) == 1
        (folder / file).write_text(FILES[file].replace(old, new))
        assert [key for key, found in digests().items() if found != before[key]] == [name]
        (folder / file).write_text(FILES[file])


def test_the_models_noise_has_differences_of_its_law(folder):
    """Kolmogorov-Smirnov over 20,000 differences of draws, level 1e-4, fixed seed."""
    from scipy import stats
    from sech import Sech

    model, rng = Sech(0.5), np.random.default_rng(0)
    first, second = (model.perturb(model.raw(rng, 20_000)) for _ in range(2))
    assert stats.kstest(first - second, model.cdf).pvalue > 1e-4
    h = 1e-5
    for u in (-3.0, -0.1, 0.4, 2.0):
        assert model.pdf(u) == pytest.approx((model.cdf(u + h) - model.cdf(u - h)) / (2 * h), rel=1e-6)


@pytest.mark.either_lane
@pytest.mark.parametrize(("file", "label"), [("use.py", "greedy"), ("idea.py", "idea")])
def test_the_files_that_are_run_run(folder, file, label):
    done = subprocess.run([sys.executable, file], env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert label in done.stdout and "Random" in done.stdout


def test_the_idea_is_better_than_random_pairs(folder):
    from idea import Idea

    policies = {"idea": Idea, "Random": fc.UniformPairs()}
    scenario = fc.Scenario.hard(n_arms=10, n_features=5)
    regret = fc.simulate(policies, scenario, 1000, runs=2, rng=1, checkpoints=1).weak_regret
    assert np.all(regret["idea"] < 0.7 * regret["Random"])


@pytest.mark.slow
def test_the_commands_run_and_processes_compute_what_threads_do(folder):
    """The study in worker processes, which import the classes; then the same in threads here, byte for byte."""
    pytest.importorskip("pyarrow")
    (folder / "study.toml").write_text(TOML.replace("1000", "120").replace("runs = 4", "runs = 2"))
    (folder / "fastcolst").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fastcolst "$@"\n')
    (folder / "fastcolst").chmod(0o755)
    short = COMMANDS.replace("--runs 2", "--runs 1 --horizon 60 --arms 5 --features 2 --no-progress")
    done = subprocess.run(
        [str(shutil.which("bash")), "-e", "-c", short],
        env={**environment(), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "EpsilonGreedy" in done.stdout
    study = fc.Study.from_toml(folder / "study.toml")
    assert study == fc.load_study(folder / "own").study
    study.run(folder / "here", progress=False)
    cells = [{path.name: path.read_bytes() for path in (folder / out / "cells").iterdir()} for out in ("own", "here")]
    assert cells[0] == cells[1] and len(cells[0]) == 4


def test_what_extend_lists_is_there_and_explained():
    for name in extend.__all__:
        value = getattr(extend, name)
        assert value.__doc__ if inspect.isfunction(value) or inspect.isclass(value) else value is not None, name
    assert fc.extend is extend


@pytest.mark.parametrize("second", ["n_arms", "-1", "10**9"])
def test_a_rule_that_chooses_arms_that_are_not_there_is_told(folder, second):
    """Compiled code would read other memory, and go on with what it finds there."""
    text = (folder / "greedy.py").read_text()
    right = "return Choice(first, argmax(work[0]), 0)"
    assert right in text
    wrong = "return Choice(first, contexts.shape[1], 0)" if second == "n_arms" else f"return Choice(first, {second}, 0)"
    (folder / "wrong.py").write_text(text.replace(right, wrong))
    wrong_class = importlib.import_module("wrong").EpsilonGreedy
    policy = wrong_class(2, estimator="sgd", ridge=1.0, exploration_rounds=0, epsilon=0.0, rng=1)
    message = r"^round 1: \w+ chose arms that are not there; two of 0 to 3 are wanted"
    with pytest.raises(ValueError, match=message):
        policy.select(np.eye(4, 2))
    assert policy.round == 0 and policy.pending == 0
    with pytest.raises(ValueError, match=r"round 1: \w+ chose arms that are not there"):
        fc.simulate({"w": policy}, fc.Scenario.easy(n_arms=4, n_features=2), horizon=20, rng=1)
    sys.modules.pop("wrong")


def test_a_rule_that_kernels_do_not_know_is_named_when_its_policy_is_built(folder):
    text = (folder / "greedy.py").read_text()
    for name, changed, message in (
        ("plainrule", text.replace("@fc.register\n", ""), r"GreedyRule is not registered; put @fc.register"),
        (
            "shortrule",
            text.replace("def n_raw(", "def n_row("),
            r"GreedyRule\w* lacks n_raw; a rule has the methods",
        ),
    ):
        (folder / f"{name}.py").write_text(changed)
        with pytest.raises(TypeError, match=message):
            importlib.import_module(name).EpsilonGreedy(2)
        sys.modules.pop(name)
