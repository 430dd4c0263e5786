"""Every cell of the paper's figures at full size against the slow loop over the reference: minutes, not for CI.

Three runs of the same streams at T = 1,000 (stochastic gradients exactly, maximum likelihood within 2 %), and means
over independent runs, 100 of ours against ``FASTCOLST_REFERENCE_RUNS`` (20) of the reference's.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import fastcolst as fc
from fastcolst.paper.parts import Settings, parts

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from slow_loop import slow_regret

SETTINGS = Settings(horizon=1_000, runs=100)
REFERENCE_RUNS = int(os.environ.get("FASTCOLST_REFERENCE_RUNS", "20"))
CELLS = [
    pytest.param(part, scenario, label, id=f"{part.name}-{scenario}-{label}")
    for part in {p.name: p for t in ("figure1", "misspecification", "sgd-vs-mle") for p in parts(t, SETTINGS)}.values()
    for scenario in part.scenarios
    for label in part.policies
]


def ours(part, scenario, label, runs, seed):
    """Final average regret of a cell, run by run."""
    policies = {label: part.policies[label]}
    return fc.simulate(policies, part.scenarios[scenario], SETTINGS.horizon, runs=runs, rng=seed, checkpoints=1)


@pytest.mark.parametrize(("part", "scenario", "label"), CELLS)
def test_three_runs_equal_the_reference(part, scenario, label):
    found = ours(part, scenario, label, 3, SETTINGS.seed).average_regret[label][:, -1]
    arguments = (part.policies[label], label, part.scenarios[scenario], SETTINGS.horizon, SETTINGS.seed)
    expected = [slow_regret(*arguments, run) for run in range(3)]
    if label.endswith("MLE"):
        assert found.mean() == pytest.approx(np.mean(expected), rel=0.02)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(("part", "scenario", "label"), CELLS)
def test_means_agree_with_the_reference(part, scenario, label):
    """Independent runs: z below 4, a false alarm of about 1e-4 for each cell."""
    found = ours(part, scenario, label, SETTINGS.runs, SETTINGS.seed).average_regret[label][:, -1]
    arguments = (part.policies[label], label, part.scenarios[scenario], SETTINGS.horizon, SETTINGS.seed + 1)
    expected = np.array([slow_regret(*arguments, run) for run in range(REFERENCE_RUNS)])
    error = math.sqrt(found.var(ddof=1) / found.size + expected.var(ddof=1) / expected.size)
    assert abs(found.mean() - expected.mean()) < 4 * error
