"""The programs of examples/: each runs in a process of its own, in under 20 s, and what it prints is what is said."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fastcolst as fc

ROOT = Path(__file__).resolve().parents[1]
MOST_SECONDS = 20.0
"""Of processor time, compiling included: the clock on the wall also counts whoever else is at work."""

pytestmark = [pytest.mark.long, pytest.mark.slow]


@pytest.fixture
def run(tmp_path) -> Callable[..., str]:
    def run(name: str, *arguments: str) -> str:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-W", "error", str(ROOT / "examples" / name), *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=10 * MOST_SECONDS,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MOST_SECONDS
        return done.stdout

    return run


def test_every_example_is_run_here_and_named_in_the_readme():
    names = {path.name for path in (ROOT / "examples").glob("*.py")}
    here, readme = Path(__file__).read_text(), (ROOT / "README.md").read_text()
    assert names and not [name for name in names if f'run("{name}"' not in here or f"examples/{name}" not in readme]


# --- solvers for instances ----------------------------------------------------------------------------------


def aslib(shared: Path, name: str) -> Path:
    folder = shared / "data" / "aslib" / name
    if not folder.is_dir():
        pytest.skip("real data is not here: no folder data/aslib")
    return folder


def means(markdown: str) -> dict[str, dict[str, float]]:
    """Of each scenario's table the means by what stands before them."""
    tables: dict[str, dict[str, float]] = {}
    for line in markdown.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if found := re.match(r"(\S+): \d+ instances", cells[0]):
            rows = tables[found[1]] = {}
        elif line.startswith("|") and re.fullmatch(r"[\d,]+", cells[1]):
            rows[cells[0].partition(" solver, ")[0].partition(" in parallel, ")[0]] = float(cells[1].replace(",", ""))
    return tables


PAGE = ROOT / "docs" / "aslib.md"


def holds(rows: dict[str, float]) -> None:
    """What the page says of a scenario."""
    single, virtual, pair = rows["single best"], rows["virtual best solver"], rows["best fixed pair"]
    greedy, first, parallel = (rows[f"CoLSTIM, {what}"] for what in ("greedy arm", "first arm", "pair in parallel"))
    assert virtual < parallel < greedy < first < single < rows["random pairs, first arm"]
    assert virtual < pair < parallel * 1.02
    plain, weighted = rows["offline fit, cross-validated"], rows["the same, wins weighted by the difference"]
    assert weighted < plain < greedy
    assert single - weighted > 1.5 * (single - plain)
    assert virtual < rows["CoLSTIM, greedy arm, wins weighted"] < greedy


def test_solver_portfolio_prints_the_page_and_beats_the_single_best_solver(run, shared):
    folder = aslib(shared, "CPMP-2015")
    page = means(PAGE.read_text())
    assert set(page) == {"CPMP-2015", "SAT11-RAND-ALGO"}
    for rows in page.values():
        holds(rows)
    rows = page["SAT11-RAND-ALGO"]
    assert rows["CoLSTIM, greedy arm, wins weighted"] < rows["offline fit, cross-validated"]
    (found,) = means(run("solver_portfolio.py", str(folder))).values()
    holds(found)
    for what, mean in found.items():  # another linear algebra turns the last bits of the components, and some duels
        tolerance = 0.15 if "CoLSTIM" in what else 1e-3
        assert mean == pytest.approx(page["CPMP-2015"][what], rel=tolerance), what


@pytest.mark.parametrize("name", ["CPMP-2015", "SAT11-RAND-ALGO"])
def test_duels_alone_beat_the_single_best_solver(shared, name):
    """Ten orders of all instances. First and greedy arm are 1.6 standard errors or more below it; 1.5 are asked for."""
    problem = fc.load_aslib(aslib(shared, name))
    policy = fc.CoLSTIM(
        problem.n_features, ridge=1.0, estimator=fc.MLE(ridge=10.0), exploration_rounds=0, allow_self_duel=False
    )
    m = len(problem.instances)
    result = fc.simulate({"CoLSTIM": policy}, problem, m, runs=10, rng=1, single_arms=True)
    for regret in (result.first_regret, result.greedy_regret):
        scores = problem.virtual_best + regret["CoLSTIM"][:, -1] / m
        assert scores.mean() + 1.5 * scores.std(ddof=1) / np.sqrt(10) < problem.single_best[1]


# --- the others ---------------------------------------------------------------------------------------------


def numbers(line: str) -> list[float]:
    """The numbers in a line, percent as shares."""
    found = re.findall(r"(-?[\d,]*\.?\d+)( ?%)?", line)
    return [float(text.replace(",", "")) / (100.0 if percent else 1.0) for text, percent in found]


def test_answers_of_a_language_model(run):
    """With more answers the best one is given more often, and little is left of what a random choice loses."""
    head, *rows, exact, chance = run("answer_preferences.py").splitlines()
    assert head.split()[0] == "answers" and exact.startswith("exact fit") and chance.startswith("by chance")
    answers, right, loss = np.array([numbers(row) for row in rows]).T
    assert answers.tolist() == [150, 500, 1500]
    assert numbers(chance) == [0.17, 1.0] and np.all(np.diff([0.17, *right]) > 0) and np.all(np.diff([1.0, *loss]) < 0)
    assert right[-1] > 0.75 and loss[-1] < 0.06
    assert numbers(exact)[0] == pytest.approx(right[-1], abs=0.1) and numbers(exact)[1] < 0.06


def test_late_and_wrong_answers(run):
    """Late ones cost little, and so do a tenth of lies; lies at the beginning cost most."""
    head, *rows = run("late_answers.py").splitlines()
    assert head.split() == ["answers", "are", "regret", "learned", "given", "up", "waiting"]
    found = {row[:32].strip(): numbers(row[32:]) for row in rows}
    at_once, late, tenth, third, first = (row[0] for row in found.values())
    assert [*found] == [
        "at once, honest", "late", "late, one in ten lies", "late, one in three lies", "late, all of the first 300 lie",
    ]  # fmt: skip
    assert at_once < late + 0.005 and late < 0.06 and tenth < 2 * late
    assert tenth < third < 0.5 and third < first < 1.0
    assert all(sum(row[1:]) == 3_000 for row in found.values()) and found["at once, honest"][1:] == [3_000, 0, 0]


def test_a_match_log(run):
    """What decides matches is found, and each was predicted better than by how often the home side wins."""
    counts, replayed, blind, *features, match = run("match_log.py").splitlines()
    assert re.match(r"720 rows with \d+ draws, 630 kept by season >= 2018: \d+ learned", counts)
    assert numbers(replayed)[0] < numbers(blind)[-1] - 0.1 and numbers(replayed)[1] > 0.7
    assert [line.split()[0] for line in features] == ["rating", "rest", "ground"]
    for line in features:
        estimate, truth = numbers(line)
        assert estimate == pytest.approx(truth, rel=0.5)
    assert 0.1 < numbers(match)[-1] < 0.4


def test_a_web_service_that_is_killed(run):
    """Every answer is in the journal once, and both workers have learned it. (Twenty kills: test_web_service.py.)"""
    shown, kills, learned, best = run("web_service.py", "demo").splitlines()
    n_shown, answered, never, twice = numbers(shown)
    assert answered == 380 and n_shown == answered + never >= 400 and twice > 0
    assert numbers(kills) == [2, 380] and numbers(learned) == [380, 380]
    assert "is number 1 of 12" in best or "is number 2 of 12" in best


def test_ratings_of_models(run):
    """All intervals hold the truth; the side is found; judges make a difference twice as uncertain as it looks."""
    head, *rows, inside, left, difference, independent, beats = run("model_ratings.py").splitlines()
    assert head.split()[:2] == ["item", "rating"] and [row.split()[0] for row in rows] == [
        "aurora", "breeze", "cobalt", "dune", "ember", "fjord", "grove",
    ]  # fmt: skip
    assert inside == "7 of 7 intervals hold the truth"
    found, truth = numbers(left)
    assert found == pytest.approx(truth, abs=10)
    (points, honest), (naive,) = numbers(difference), numbers(independent)
    assert abs(points - 60) < 2 * honest and honest > 1.5 * naive
    assert numbers(beats)[-1] == pytest.approx(1 / (1 + 10 ** (-points / 400)), abs=0.01)
