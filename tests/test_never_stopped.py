"""Policies that were saved and loaded again, time after time, are what they would be had they never been stopped."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import JIT
from test_saving import HORIZON, D, N, held, play, saved
from twins import INFORMED, LINEAR, MODELS, SAMPLERS, taken_by

import fastcolst as fc

ESTIMATORS = {
    "sgd": fc.SGD(0.3, decay=0.1),
    "mle": fc.MLE(1e-4),
    "online-newton": fc.OnlineNewton(history=0),
    "online-newton, at its start": fc.OnlineNewton(history=1000),
    "online-newton, past its start": fc.OnlineNewton(history=20),
}
COMPILED = ("online-newton", "bradley-terry")
"""The estimator and the model with which other tests compile each policy too."""


def a_case(cls: Any, settings: dict[str, Any], name: str, is_compiled: bool) -> Any:
    """A case of the test below, which is either compiled or interpreted."""
    skip = pytest.mark.skipif(JIT and not is_compiled, reason="compiled, one of each policy is enough")
    return pytest.param(cls, settings, id=name, marks=pytest.mark.either_lane if is_compiled else skip)


def policies():
    """Every policy with every estimator, and those that see indices with and without n_arms.

    Of policies with one estimate every two of policy, estimator and model are together in some case. Compiled, each
    has one estimator and model: what a file holds does not depend on who computed it.
    """
    for i, (name, (cls, _)) in enumerate({**LINEAR, **INFORMED}.items()):
        for j, (estimator, ours) in enumerate(ESTIMATORS.items()):
            if name in INFORMED and estimator == "sgd":
                continue
            for k, (model, (comparison, _, _)) in enumerate(MODELS.items()):
                if (i + j - k) % len(MODELS) and (estimator, model) != COMPILED:
                    continue
                settings = {"horizon": HORIZON, "comparison": comparison, "estimator": ours, "exploration_rounds": 10}
                given = taken_by(cls, {"n_features": D, **settings})
                yield a_case(cls, given, f"{name}-{estimator}-{model}", (estimator, model) == COMPILED)
    stages = {"n_features": D, "horizon": HORIZON, "exploration_rounds": 10, "n_arms": N}
    for cls in (fc.SupCoLSTIM, fc.StaD):
        for estimator, ours in ESTIMATORS.items():
            yield a_case(cls, {**stages, "estimator": ours}, f"{cls.__name__}-{estimator}", estimator == COMPILED[0])
    for cls in (*(cls for cls, _ in SAMPLERS.values()), fc.UniformPairs):
        for settings in ({}, {"n_arms": N}, {"n_features": D}):
            yield a_case(cls, settings, f"{cls.__name__}-{'-'.join(settings)}", "n_arms" in settings)


@pytest.mark.filterwarnings("ignore:.*(drifting|comparisons):UserWarning")
@pytest.mark.parametrize(("cls", "settings"), [*policies()])
def test_a_policy_saved_and_loaded_on_the_way_ends_as_one_never_stopped(cls, settings, tmp_path):
    """During the exploration, after it, and many times on the way."""
    policy, stopped = cls(**settings, rng=3), cls(**settings, rng=3)
    waiting: list[str] = []
    others: list[str] = []
    for rounds in (0, 1, 6, 12, 12, 30):
        told = play(policy, rounds, waiting)
        assert play(stopped, rounds, others) == told
        assert held(stopped) == held(policy)
        again = saved(stopped, tmp_path)
        assert type(again) is cls and repr(again) == repr(policy) and again.get_params() == policy.get_params()
        assert held(again) == held(policy)
        assert [one.arms for one in again.pending_duels()] == [one.arms for one in policy.pending_duels()]
        assert [one.token for one in again.pending_duels()] == others  # they stay valid
        stopped = again
    if policy.has_estimate:
        assert stopped.theta.tobytes() == policy.theta.tobytes() and stopped.status == policy.status
