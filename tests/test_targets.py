"""What is the same on every machine, whatever processor is compiled for: contexts, utilities, what decides duels.

Numba compiles for the processor that it is told. That of the oldest x86-64 has neither wide registers nor fused
multiply-adds, of Haswell's it has the former by four and the latter. NumPy's linear algebra sums in other orders on
other processors, and is told one as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastcolst as fc

pytestmark = pytest.mark.jit

TARGETS = {
    "generic": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
    "AVX2": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+bmi,+bmi2,+sse4.2,+popcnt,+lzcnt"},
    "Python": {"NUMBA_DISABLE_JIT": "1", "OPENBLAS_CORETYPE": "Prescott"},
}


def chunks() -> list[list[str]]:
    """Digests of the parameters of many runs, and of the arrays of a chunk, for even and odd numbers of features."""
    thetas = [fc.Scenario.hard(n_arms=2, n_features=d).start(5, run).theta for d in (3, 10, 50) for run in range(50)]
    digests = [[hashlib.sha256(np.concatenate(thetas).tobytes()).hexdigest()]]
    for d, model in ((3, "bradley-terry"), (10, "exponential"), (10, "thurstone")):
        chunk = fc.Scenario.hard(n_arms=11, n_features=d, comparison=model).start(5, 0).next_chunk(30)
        digests.append([hashlib.sha256(array.tobytes()).hexdigest() for array in chunk])
    return digests


def regret() -> list[str]:
    """Regret of two policies, round by round."""
    policies = {"CoLSTIM": fc.CoLSTIM(4, estimator="sgd"), "MaxInP": fc.MaxInP(4, estimator="sgd")}
    result = fc.simulate(policies, fc.Scenario.hard(n_arms=11, n_features=4), 400, runs=2, rng=5, checkpoints=400)
    return [table.tobytes().hex() for table in (*result.average_regret.values(), *result.weak_regret.values())]


def elsewhere(target: str, function: str) -> object:
    """What a function of this file returns in a process that compiles for another target."""
    tests = Path(__file__).resolve().parent
    path = os.pathsep.join([str(tests), str(tests.parent), os.environ.get("PYTHONPATH", "")])
    code = f"import json, test_targets; print(json.dumps(test_targets.{function}()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **TARGETS[target]},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("target", TARGETS)
def test_rounds_are_the_same_bits(target):
    assert elsewhere(target, "chunks") == chunks()


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_simulations_are_the_same_bits(target):
    """Policies may round differently, which changes no choice: regret is made of true utilities alone."""
    assert elsewhere(target, "regret") == regret()
