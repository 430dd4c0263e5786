"""The README's Python blocks run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import fastcolst as fc

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def run(block, monkeypatch, folder):
    monkeypatch.chdir(folder)
    names = {"__name__": "readme"}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102 - the text under test
    return names


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[-1][:30])
@pytest.mark.long
def test_a_block_runs(block, monkeypatch, tmp_path, capsys):
    assert run(block, monkeypatch, tmp_path)
    capsys.readouterr()


@pytest.mark.long
def test_the_six_lines_learn_what_they_were_told(monkeypatch, tmp_path, capsys):
    names = run(BLOCKS[0], monkeypatch, tmp_path)
    theta = names["policy"].theta
    assert np.argmax(np.abs(theta)) == 0 and theta[0] > 1.0
    assert "[" in capsys.readouterr().out


@pytest.mark.long
def test_the_users_model_has_the_noise_that_its_cdf_needs(monkeypatch, tmp_path):
    """Kolmogorov-Smirnov over 20,000 differences of draws, level 1e-4, fixed seed."""
    from scipy import stats

    names = run(next(block for block in BLOCKS if "class Cauchy" in block), monkeypatch, tmp_path)
    model, rng = names["Cauchy"](0.5), np.random.default_rng(0)
    first, second = (model.perturb(model.raw(rng, 20_000)) for _ in range(2))
    assert stats.kstest(first - second, model.cdf).pvalue > 1e-4


def rows_of(section):
    """The first cells of a section's tables."""
    text = README.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]*)` \|", text, flags=re.MULTILINE)


def test_the_tables_name_every_policy_and_every_estimator():
    estimators = ["fc.SGD()", "fc.OnlineNewton()", "fc.MLE()"]
    assert sorted(set(rows_of("Algorithms")) - {"estimator"}) == sorted([*fc.policies.REGISTRY, *estimators])
