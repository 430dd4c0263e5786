"""The examples of the README and of each page of docs, followed from top to bottom in one folder; tables and links."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastcolst as fc
from fastcolst._compile.flags import TESTED_NUMBA

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
ELSEWHERE = {"extending.md": "test_extending.py runs it", "aslib.md": "test_examples.py does, where the data is"}
RUN_HERE = [README, *(page for page in PAGES if page.name not in ELSEWHERE)]
BASH = shutil.which("bash")


def examples_of(page):
    """(language, text) of each fenced block."""
    return re.findall(r"```(python|bash|toml)\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


EXAMPLES = examples_of(README)

SCALED = {
    # What is installed is what runs the tests, and pytest is not started by pytest.
    'python -m venv .venv && .venv/bin/python -m pip install -q ".[study]" && .venv/bin/fastcolst': "fastcolst",
    'python -m venv .venv && .venv/bin/python -m pip install -q ".[test]" && '
    ".venv/bin/python -m pytest -n 2 --dist loadfile": "python -m pytest --version",
    # Fewer and shorter runs.
    "--runs 100 --seed 1": "--runs 2 --horizon 700 --seed 1",
    "horizon = 2000\nruns = 20\n": "horizon = 300\nruns = 2\n",
    "fastcolst reproduce   ": "fastcolst reproduce --runs 2 --horizon 200   ",
    "figure1 --runs 10 --horizon 3000": "figure1 --runs 2 --horizon 200",
    "table1 --sweep width_scale": "table1 --sweep width_scale --runs 2 --horizon 200",
    "lower-bound --sweep": "lower-bound --sweep --runs 2 --horizon 200",
}
"""All that is not run as it stands, and what is run instead."""


def run(block, monkeypatch, folder):
    monkeypatch.chdir(folder)
    names = {"__name__": "page"}
    exec(compile(block, "page", "exec"), names)  # noqa: S102 - the text under test
    return names


def scaled(text):
    for long, short in SCALED.items():
        text = text.replace(long, short)
    return text


def test_what_is_scaled_down_is_there_once():
    everything = "".join(text for _, text in EXAMPLES)
    assert {long: everything.count(long) for long in SCALED} == dict.fromkeys(SCALED, 1)


@pytest.mark.skipif(BASH is None, reason="no bash is installed")
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("page", RUN_HERE, ids=lambda page: page.stem)
def test_the_examples_run_one_after_the_other_in_one_folder(page, monkeypatch, tmp_path, capsys):
    """As a reader would follow them; `matches.csv` is the reader's own, and `study.toml` the ten lines shown."""
    commands, folder = tmp_path / "commands", tmp_path / "folder"
    for path in (commands, folder):
        path.mkdir()
    for name, start in (("python", ""), ("fastcolst", " -m fastcolst")):
        (commands / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{start} "$@"\n')
        (commands / name).chmod(0o755)
    search = os.pathsep.join([str(commands), os.environ["PATH"]])
    environment = {**os.environ, "PATH": search, "PYTHONPATH": str(ROOT)}
    rows = [f"{i % 3},{i % 5},{i % 4},{i % 7},{i * i % 2},{1980 + i % 40}" for i in range(200)]
    head = "home_a,home_b,away_a,away_b,result,year"
    (folder / "matches.csv").write_text("\n".join([head, *rows]) + "\n")
    for language, text in examples_of(page):
        if language == "toml":
            (folder / "study.toml").write_text(scaled(text))
        elif language == "python":
            assert run(text, monkeypatch, folder), text
        else:
            done = subprocess.run(
                [str(BASH), "-e", "-c", scaled(text)],
                cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=1_200,
            )  # fmt: skip
            assert done.returncode == 0, f"{text}\n{done.stderr[-2_000:]}"
    written = {"regret.png", "result.parquet", "replay.png", "results", "reproduction", "quick"}
    assert page != README or written <= {path.name for path in folder.iterdir()}
    capsys.readouterr()


@pytest.mark.long
def test_the_six_lines_learn_what_they_were_told(monkeypatch, tmp_path, capsys):
    names = run(next(text for language, text in EXAMPLES if language == "python"), monkeypatch, tmp_path)
    theta = names["policy"].theta
    assert np.argmax(np.abs(theta)) == 0 and theta[0] > 1.0
    assert "[" in capsys.readouterr().out


@pytest.mark.long
def test_the_users_model_has_the_noise_that_its_cdf_needs(monkeypatch, tmp_path):
    """Kolmogorov-Smirnov over 20,000 differences of draws, level 1e-4, fixed seed."""
    from scipy import stats

    (block,) = [text for _, text in examples_of(ROOT / "docs" / "models.md") if "class Cauchy" in text]
    names = run(block, monkeypatch, tmp_path)
    model, rng = names["Cauchy"](0.5), np.random.default_rng(0)
    first, second = (model.perturb(model.raw(rng, 20_000)) for _ in range(2))
    assert stats.kstest(first - second, model.cdf).pvalue > 1e-4


def test_the_versions_of_numba_are_those_that_are_tested():
    (found,) = re.findall(r"tested \((\S+) to (\S+)\)", (ROOT / "docs" / "speed.md").read_text(encoding="utf-8"))
    assert found == (TESTED_NUMBA[0], TESTED_NUMBA[-1])


def rows_of(section):
    """The first cells of a section's tables."""
    text = README.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]*)` \|", text, flags=re.MULTILINE)


def test_the_tables_name_every_policy_and_every_estimator():
    estimators = ["fc.SGD()", "fc.OnlineNewton()", "fc.MLE()"]
    assert sorted(set(rows_of("Algorithms")) - {"estimator"}) == sorted([*fc.policies.REGISTRY, *estimators])


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_every_link_leads_to_a_file_and_a_heading(page):
    """Inside the tree; what lies outside is not asked."""
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.is_relative_to(ROOT) and there.is_file(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), flags=re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, target


def test_every_page_is_linked_from_the_readme():
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)", README.read_text(encoding="utf-8")))
    assert linked == {page.name for page in PAGES}
