"""One signature for each kernel, whatever people hand in."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastcolst as fc
from fastcolst._compile import KERNELS

CONTEXTS = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]])  # whole numbers, which every dtype can hold
SMALL_MODELS: dict[str, Any] = {"comparison": fc.BradleyTerry(1.0), "estimator": fc.SGD(0.5, 0.0, 1.0)}
CONSTANTS = {
    "ridge": 1.0,
    "width_scale": 1.0,
    "clip": 2.0,
    "coupling": 0.5,
    "horizon": 100,
    "exploration_rounds": 2,
}


def _read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def _unaligned(array: np.ndarray) -> np.ndarray:
    out = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


MESSY_ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "plain": lambda a: a.copy(),
    "list": lambda a: a.tolist(),
    "list of int": lambda a: a.astype(int).tolist(),
    "tuple of arrays": tuple,
    "float32": lambda a: a.astype(np.float32),
    "int64": lambda a: a.astype(np.int64),
    "object": lambda a: a.astype(object),
    "big-endian": lambda a: a.astype(">f8"),
    "Fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "read-only": _read_only,
    "unaligned": _unaligned,
    "subclass": lambda a: a.copy().view(np.ma.MaskedArray),
}
MESSY_ANSWERS = [True, False, 1, 0, 1.0, np.True_, np.False_, np.float64(1.0), np.int64(0), np.float32(1.0)]
MESSY_SETTINGS: dict[str, dict[str, Any]] = {
    "ints": {"ridge": 1, "width_scale": 1, "clip": 3, "coupling": 1},
    "float64": {
        "ridge": np.float64(1),
        "width_scale": np.float64(2),
        "clip": np.float64(3),
        "coupling": np.float64(0.5),
    },
    "float32": {
        "ridge": np.float32(1),
        "width_scale": np.float32(2),
        "clip": np.float32(3),
        "coupling": np.float32(0.5),
    },
    "int64": {
        "horizon": np.int64(50),
        "exploration_rounds": np.int64(2),
        "n_arms": np.int64(3),
        "clip": np.int8(2),
    },
    "whole floats": {"horizon": 50.0, "exploration_rounds": 2.0, "n_arms": 3.0},
    "none": dict.fromkeys(["width_scale", "clip", "coupling", "horizon", "exploration_rounds"]),
    "text": {"coupling": "theorem", "comparison": "bradley-terry", "estimator": "sgd"},
    "numpy bool": {"allow_self_duel": np.False_},
    "model of int": {"comparison": fc.BradleyTerry(1), "perturbation": fc.BradleyTerry(scale=2)},
    "model of float32": {
        "comparison": fc.BradleyTerry(np.float32(1)),
        "perturbation": fc.BradleyTerry(np.float64(1)),
    },
    "estimator of ints": {"estimator": fc.SGD(1, 0, 1)},
    "estimator of numpy": {"estimator": fc.SGD(np.float32(1), np.int64(0), np.float64(1))},
    "estimator of names": {"estimator": fc.SGD(radius=None, score="residual")},
    "exact, of ints": {"estimator": fc.MLE(ridge=1, radius=2)},
    "exact, of numpy": {"estimator": fc.MLE(np.float32(0.01), np.int64(1), np.float64(2), score="residual")},
    "replaced by ints": {
        "comparison": fc.BradleyTerry()._replace(scale=1),
        "perturbation": fc.BradleyTerry()._replace(scale=2),
        "estimator": fc.SGD()._replace(learning_rate=1, radius=None),
    },
    "generator": {"rng": np.random.default_rng(3)},
    "seed sequence": {"rng": np.random.SeedSequence(3)},
}


OF_MANY = frozenset({"draw_numbers", "first_contenders", "first_of", "follow", "rival_contenders", "second_of",
                     "slopes_and_curvatures", "survey"})  # fmt: skip
"""Kernels of more arms or features than there are here."""


def signatures() -> dict[str, int]:
    """Of the package's kernels, apart from those of tests."""
    ours = (kernel for kernel in KERNELS if kernel.__module__.startswith("fastcolst."))
    return {kernel.__name__: len(kernel.signatures) for kernel in ours}


def use(policy: fc.CoLSTIM, mess: Callable[[np.ndarray], Any], answers: list[Any], scenario: fc.Scenario) -> None:
    """Let every kernel run."""
    asked = []
    for answer in answers:
        asked.append(policy.select(mess(CONTEXTS)))
        policy.update(asked[-1], answer, weight=2)
    if isinstance(policy.get_params()["estimator"], fc.MLE):
        policy.retract(asked[0])  # of the exploration, where no duel is a self-duel
    whole = np.array([1.0, 0.0, 1.0])
    policy.learn(mess(CONTEXTS), mess(CONTEXTS[::-1]), mess(whole + 1.0), mess(whole))
    policy.learn_and_predict(mess(CONTEXTS), answers[:3])
    policy.probability(mess(CONTEXTS), mess(CONTEXTS[::-1]))
    policy.probability(mess(CONTEXTS[0]), mess(CONTEXTS[1]))
    policy.select_batch(mess(CONTEXTS), size=2)
    shown = policy.select_set(mess(CONTEXTS), 3)
    policy.update(shown, ranking=shown.arms, weight=2)
    fc.simulate({"policy": policy}, scenario, 5, rng=1)


@pytest.fixture(scope="module")
def used_cleanly() -> None:
    """Every kernel has run on clean input: contiguous float64 arrays, floats for floats."""
    array = fc.Scenario(theta=np.array([1.0, 0.5]), contexts=CONTEXTS, comparison=fc.BradleyTerry(1.0))
    ball = fc.Scenario(theta=np.array([1.0, 0.5]), n_arms=3, comparison=fc.BradleyTerry(1.0))
    for scenario in (array, ball):
        for estimator in (SMALL_MODELS["estimator"], fc.MLE()):
            models = {**SMALL_MODELS, "estimator": estimator}
            use(fc.CoLSTIM(2, n_arms=3, rng=1, **models, **CONSTANTS), np.copy, [True] * 3, scenario)
    fc.fit(np.array([[1.0, 0.5], [0.5, -1.0], [-1.0, 0.25]]), np.array([1.0, 0.0, 1.0]), ridge=1.0)
    fc.fit([["a", "b"], ["b", "c"], ["c", "a"]], np.array([1.0, 0.0, 1.0]), ridge=1.0, clusters=[0, 1, 2])
    scored = fc.ScoredArms(CONTEXTS[np.newaxis], [[1.0, 2.0, 3.0]], comparison=fc.BradleyTerry(1.0))
    fc.simulate({"policy": fc.CoLSTIM(2, n_arms=3, rng=1, **SMALL_MODELS, **CONSTANTS)}, scored, 5, rng=1)
    safe = {**SMALL_MODELS, **CONSTANTS, "allow_self_duel": False}
    fc.CoLSTIM(2, n_arms=3, rng=1, **safe).select_batch(CONTEXTS, size=5)
    counting = fc.CoLSTIM(2, n_arms=3, rng=1, count_pending=True, robust=0.5, **safe)
    for duel in counting.select_batch(CONTEXTS, size=5)[1:]:
        counting.discard(duel)
    assert {name for name, n in signatures().items() if n == 0} <= OF_MANY


@pytest.fixture
def clean(used_cleanly: None) -> dict[str, int]:
    """Signatures of each kernel before a test."""
    return signatures()


def scenario_of(mess: Callable[[np.ndarray], Any]) -> fc.Scenario:
    return fc.Scenario(theta=mess(CONTEXTS[2]), contexts=mess(CONTEXTS), comparison=fc.BradleyTerry(1))


@pytest.mark.jit
@pytest.mark.parametrize("mess", MESSY_ARRAYS.values(), ids=MESSY_ARRAYS.keys())
def test_messy_arrays_compile_nothing(clean, mess):
    policy = fc.CoLSTIM(2, n_arms=3, rng=1, **SMALL_MODELS, **CONSTANTS)
    use(policy, mess, [True] * 6, scenario_of(mess))
    use(copy.deepcopy(policy), mess, [True] * 3, scenario_of(mess))
    assert signatures() == clean


@pytest.mark.jit
def test_messy_answers_compile_nothing(clean):
    policy = fc.CoLSTIM(2, n_arms=3, rng=1, **SMALL_MODELS, **CONSTANTS)
    use(policy, np.copy, MESSY_ANSWERS, scenario_of(np.copy))
    assert signatures() == clean


@pytest.mark.jit
@pytest.mark.parametrize("settings", MESSY_SETTINGS.values(), ids=MESSY_SETTINGS.keys())
def test_messy_settings_compile_nothing(clean, settings):
    policy = fc.CoLSTIM(2, **{"rng": 1, **SMALL_MODELS, **CONSTANTS, **settings})
    use(policy, np.copy, [True] * 6, scenario_of(np.copy))
    assert signatures() == clean


@pytest.mark.jit
@pytest.mark.parametrize(("n_arms", "n_features"), [(1, 1), (1, 3), (3, 1)])
def test_axes_of_length_one_compile_nothing(clean, n_arms, n_features):
    """An axis of length 1 makes an array contiguous in both orders, and a transposed one too."""
    policy = fc.CoLSTIM(n_features, rng=1, **SMALL_MODELS, **CONSTANTS)
    contexts = np.asfortranarray(np.ones((n_arms, n_features)))
    policy.update(policy.select(contexts), True)
    policy.learn(contexts, np.zeros_like(contexts))
    policy.probability(contexts, contexts)
    fc.simulate({"policy": policy}, fc.Scenario(theta=np.ones(n_features), contexts=contexts), 3, rng=1)
    fc.simulate({"policy": policy}, fc.Scenario(theta=np.ones(n_features), n_arms=n_arms), 3, rng=1)
    assert signatures() == clean
