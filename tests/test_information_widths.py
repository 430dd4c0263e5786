"""widths="information": the estimator's information in the place of the Gram matrix, by every rule that has widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import rounds
from inside import information_of
from test_contract import a_chunk, check_fused, follow
from twins import LINEAR, STAGED

import fastcolst as fc
from fastcolst import reference, streams

D, N = 3, 8
POLICIES = {**LINEAR, **STAGED}


def both(name: str, horizon: int, **more: Any) -> tuple[Any, Any, Any]:
    """A policy, another one for the fused loop, and the reference. The model is so narrow that H exceeds M."""
    ours, plain = POLICIES[name]
    options = {"n_arms": N, "horizon": horizon, "exploration_rounds": 10, "width_scale": 0.5, "ridge": 0.5, **more}
    mine = {**options, "estimator": fc.OnlineNewton(history=0), "widths": "information", "rng": 3}
    mine["comparison"], model = fc.BradleyTerry(0.2), reference.BradleyTerry(0.2)
    learner = reference.OnlineNewton(model, history=0)
    learner.settle(0.5)
    twin = plain(D, comparison=model, estimator=learner, by_information=True, **options)
    return ours(D, **mine), ours(D, **mine), twin


@pytest.mark.filterwarnings("ignore:.* showed an arm against itself:UserWarning")
@pytest.mark.parametrize("allows", [True, False])
@pytest.mark.parametrize("name", POLICIES)
def test_the_same_duels_as_the_reference(name: str, allows: bool):
    horizon = rounds(700, 90)
    policy, fused, twin = both(name, horizon, allow_self_duel=allows)
    noise, chunk = streams.generator(3), a_chunk(fc.BradleyTerry(), horizon, D, N)

    def choose(contexts: np.ndarray) -> Any:
        return policy.select(contexts), twin.select(contexts, *twin.draw(noise, N))

    check_fused(fused, chunk, follow(policy, chunk, choose, twin.update))
    assert fused.theta.tobytes() == policy.theta.tobytes()
    contexts = np.random.default_rng(0).normal(size=(4, D))
    stage = twin.stages[0] if name in STAGED else twin
    np.testing.assert_allclose(policy.widths(contexts), stage.widths(contexts), rtol=1e-8)
    assert not np.allclose(
        policy.widths(contexts), np.linalg.norm(np.linalg.cholesky(np.linalg.inv(policy.gram)).T @ contexts.T, axis=0)
    )


@pytest.mark.parametrize("name", LINEAR)
def test_the_pairs_of_a_batch_count_in_the_information_of_the_later_ones(name: str):
    policy, _, twin = both(name, 100, ridge=1.0)
    rng, noise = np.random.default_rng(4), streams.generator(3)
    for _ in range(25):
        contexts = rng.normal(size=(N, D))
        duel = policy.select(contexts)
        assert (duel.first, duel.second) == twin.select(contexts, *twin.draw(noise, N))
        if not duel.is_self:
            won = bool(rng.random() < 0.5)
            policy.update(duel, won)
            twin.update(duel.contrast, won)
    before = H = information_of(policy)
    twin.information = lambda: H
    for duel in policy.select_batch(contexts, size=12):
        assert (duel.first, duel.second) == twin.select(contexts, *twin.draw(noise, N))
        z = duel.contrast
        H = H + fc.BradleyTerry(0.2).weight(z @ policy.theta) * np.outer(z, z)
    assert information_of(policy).tobytes() == before.tobytes()


def test_the_batches_of_stages_put_back_what_they_count():
    policy, *_ = both("StaD", 200, width_scale=2.0)
    rng = np.random.default_rng(1)
    for _ in range(60):
        duel = policy.select(rng.normal(size=(N, D)))
        policy.update(duel, bool(rng.random() < 0.5))
    contexts = rng.normal(size=(N, D))
    wide, stages = policy.widths(contexts), [policy.stage(s).gram for s in range(1, policy.n_stages + 1)]
    assert len(policy.select_batch(contexts, size=10)) == 10
    assert policy.widths(contexts).tobytes() == wide.tobytes()
    assert all(np.array_equal(policy.stage(s + 1).gram, gram) for s, gram in enumerate(stages))


@pytest.mark.parametrize("name", POLICIES)
def test_what_is_refused(name: str):
    kind = POLICIES[name][0]
    with pytest.raises(ValueError, match=r"estimator is SGD, .*widths='information'.*wanted"):
        kind(2, horizon=100, estimator="sgd", widths="information")
    with pytest.raises(ValueError, match="widths is 'both'; wanted 'gram' or 'information'"):
        kind(2, horizon=100, widths="both")
    policy = kind(2, horizon=100, widths="information")
    assert policy.get_params()["widths"] == "information" and "widths='information'" in repr(policy)
