"""allow_self_duel=False: the best pair of two different arms, by every rule, and one arm alone is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import rounds
from test_contract import a_chunk, check_fused, follow
from twins import INFORMED, LINEAR, SAMPLERS, STAGED, taken_by

import fastcolst as fc
from fastcolst import reference, streams

D, N = 3, 8
SEEING = {**LINEAR, **STAGED, "TwoSamples": INFORMED["TwoSamples"]}  # Informative shows none in any case
POLICIES: dict[str, Any] = {name: ours for name, (ours, _) in {**SEEING, **SAMPLERS}.items()}

NARROW = {"n_arms": N, "exploration_rounds": 30, "width_scale": 0.02}
"""Widths so small that one arm is soon all that is left."""


def options_of(name: str, horizon: int) -> dict[str, Any]:
    kind = SEEING[name][0]
    scale = {"width_scale": 0.3} if name in STAGED else {}
    return taken_by(kind, {**NARROW, "horizon": horizon, **scale})


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("name", SEEING)
def test_the_same_duels_as_the_reference_and_none_with_oneself(name: str, twice: bool):
    """Object, fused loop and reference, all arms but one there once or twice; where it may, the rule shows self-duels.

    The one is alone when all others are struck out, and its rivals are then equal ones.
    """
    ours, plain = SEEING[name]
    horizon = rounds(800, 110)
    options = options_of(name, horizon)
    mine = {**options, "estimator": fc.OnlineNewton(history=0) if name in INFORMED else fc.SGD(), "rng": 3}
    policy, fused, free = (ours(D, allow_self_duel=allows, **mine) for allows in (False, False, True))
    learner = reference.OnlineNewton(reference.BradleyTerry(), history=0) if name in INFORMED else None
    twin = plain(D, comparison=reference.BradleyTerry(), estimator=learner, allow_self_duel=False, **options)
    noise, chunk = streams.generator(3), a_chunk(fc.BradleyTerry(), horizon, D, N)
    if twice:
        for array in (chunk.contexts, chunk.utilities):
            array[..., N // 2 :] = array[..., [1, 2, 3, 1]]
        chunk.best[:] = chunk.utilities.max(axis=1)

    def choose(contexts: np.ndarray) -> Any:
        return policy.select(contexts), twin.select(contexts, *twin.draw(noise, N))

    totals = follow(policy, chunk, choose, twin.update)
    check_fused(fused, chunk, totals)
    assert totals[-1, 2] == 0
    trace = np.zeros_like(totals)
    free.play(chunk, trace)
    assert trace[-1, 2] > 0


@pytest.mark.parametrize("name", POLICIES)
def test_one_arm_alone_is_an_error_that_changes_nothing(name: str):
    kind = POLICIES[name]
    options = taken_by(kind, {"horizon": 100, "ridge": 1.0, "exploration_rounds": 0, "rng": 1})
    policy = kind(n_features=2, allow_self_duel=False, **options)
    with pytest.raises(ValueError, match="contexts has 1 arm; at least two are wanted where allow_self_duel=False"):
        policy.select(np.ones((1, 2)))
    assert policy.round == 0
    available = np.array([True, False, False])
    with pytest.raises(ValueError, match="available has 1 arm"):
        policy.select(np.eye(3, 2), available)
    assert not policy.select(np.eye(3, 2)).is_self
    assert policy.round == 1


@pytest.mark.parametrize("name", POLICIES)
def test_neither_true_nor_false_is_named(name: str):
    with pytest.raises(ValueError, match="allow_self_duel"):
        POLICIES[name](2, allow_self_duel="no")


@pytest.mark.parametrize("name", POLICIES)
def test_a_simulation_of_one_arm_goes_on_with_it(name: str):
    """There is no other: the loop has nobody to tell."""
    policies = {name: POLICIES[name](**taken_by(POLICIES[name], {"n_features": 2, "allow_self_duel": False}))}
    result = fc.simulate(policies, fc.Scenario.easy(n_arms=1, n_features=2), 20, rng=1)
    assert result.self_duels[name][0, -1] == 20
