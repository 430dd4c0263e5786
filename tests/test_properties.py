"""Symmetries of policies and estimators, and reading without a trace: what must hold whatever the numbers are.

They run over the cover of ``test_contract``, whose kernels are compiled there anyway.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from conftest import rounds
from hypothesis import given
from hypothesis import strategies as st
from inside import arrays, choice_for
from test_contract import ESTIMATORS, a_chunk, cover_model
from twins import LINEAR, MODELS, UNORDERED

import fastcolst as fc

COVER = [case for case in itertools.product(LINEAR, ESTIMATORS) if not ESTIMATORS[case[1]].given]
SEEDS = st.integers(0, 2**32)


def a_policy(kind, estimator, n_features, made=None, **options):
    """A policy of the cover; ``made`` is an estimator to use in place of the one of that name."""
    comparison = MODELS[cover_model(kind, estimator)][0]
    options = {"horizon": 1000, "rng": 1, "comparison": comparison, **options}
    return LINEAR[kind][0](n_features, estimator=made or ESTIMATORS[estimator].ours("likelihood"), **options)


def dyadic(rng, shape):
    """Numbers on a grid so coarse that adding some of them rounds nothing."""
    return np.round(rng.normal(size=shape) * 2.0**20) / 2.0**20


# --- permutations -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*are too long for features")  # random answers, a narrow model
@pytest.mark.parametrize("width_scale", [None, 0.3, 3.0])
@pytest.mark.parametrize("kind", LINEAR)
@given(seed=SEEDS, n=st.integers(2, 12), d=st.integers(1, 5))
def test_permuting_arms_and_their_noise_permutes_the_choice(kind, width_scale, seed, n, d):
    rng = np.random.default_rng(seed)
    policy = a_policy(kind, "sgd", d, exploration_rounds=0, ridge=0.5, width_scale=width_scale)
    policy.learn(*rng.normal(size=(2, 20, d)))
    contexts, order, noise = rng.normal(size=(n, d)), rng.permutation(n), rng.standard_exponential(n)
    choice = choice_for(policy, contexts, np.r_[0.0, 0.0, noise])
    permuted = tuple(order[list(choice_for(policy, contexts[order], np.r_[0.0, 0.0, noise[order]]))])
    if kind in UNORDERED:
        choice, permuted = sorted(choice), sorted(permuted)
    assert tuple(permuted) == tuple(choice)


# --- units --------------------------------------------------------------------------------------------------

RESCALED = {
    "sgd": lambda c: fc.SGD(0.5 / c**2),
    "online-newton": lambda c: fc.OnlineNewton(history=0, ridge=c**2),
    "mle": lambda c: fc.MLE(ridge=0.5 * c**2, radius=3.0 / c),
}
"""Estimators that do to features of another unit, c times as many, what they do with c = 1."""


@pytest.mark.parametrize("power", [-7, 12])
@pytest.mark.parametrize(("kind", "estimator"), COVER)
def test_the_scale_of_the_features_plays_no_role(kind, estimator, power):
    """Contexts times c, theta over c, constants to fit: with powers of two the same duels and theta, to the bit."""
    c, n_rounds = 2.0**power, rounds(300, 15 if estimator == "mle" else 80)
    plain, scaled = (
        a_policy(kind, estimator, 2, RESCALED[estimator](unit), n_arms=5, exploration_rounds=6, ridge=0.1 * unit**2)
        for unit in (1.0, c)
    )
    chunk = a_chunk(fc.BradleyTerry(), n_rounds, n_features=2, n_arms=5)
    for r in range(n_rounds):
        contexts = np.ascontiguousarray(chunk.contexts[r].T)
        a, b = plain.select(contexts), scaled.select(c * contexts)
        assert (a.first, a.second) == (b.first, b.second), f"round {r + 1}"
        won = chunk.utilities[r, a.first] - chunk.utilities[r, a.second] + chunk.latent[r] > 0.0
        plain.update(a, won)
        scaled.update(b, won)
    assert plain.theta.any()
    assert (scaled.theta * c).tobytes() == plain.theta.tobytes()


# --- shifts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", RESCALED)
def test_a_constant_vector_added_to_all_contexts_leaves_maxinp_alone(estimator):
    """It sees differences only; numbers are such that the shift rounds none of them."""
    rng, n_rounds = np.random.default_rng(3), rounds(300, 30 if estimator == "mle" else 80)
    plain, shifted = (
        a_policy("MaxInP", estimator, 3, n_arms=8, exploration_rounds=15, width_scale=1.0) for _ in range(2)
    )
    theta, shift, seen = np.array([1.0, -0.5, 0.3]), dyadic(rng, 3), set()
    for t in range(n_rounds):
        contexts = dyadic(rng, (8, 3))
        a, b = plain.select(contexts), shifted.select(contexts + shift)
        assert (a.first, a.second) == (b.first, b.second), f"round {t + 1}"
        won = rng.random() < 1.0 / (1.0 + np.exp(-(a.contrast @ theta)))
        plain.update(a, won)
        shifted.update(b, won)
        seen.add((a.first, a.second))
    assert len(seen) > 10
    assert shifted.theta.tobytes() == plain.theta.tobytes()
    assert shifted.gram.tobytes() == plain.gram.tobytes()


# --- reading ------------------------------------------------------------------------------------------------


def read_everything(policy, contexts):
    policy.theta[:] = 9.0  # copies
    policy.gram[:] = 9.0
    policy.utilities(contexts), policy.widths(contexts), policy.probability(contexts[:2], contexts[1:3])
    repr(policy), policy.get_params(), policy.status, policy.round, policy.pending
    if not isinstance(policy.get_params()["estimator"], (fc.SGD, fc.OnlineNewton)):
        policy.audit()
    else:
        with pytest.raises(AttributeError, match="keeps no history"):
            policy.audit()


@pytest.mark.parametrize(("kind", "estimator"), [*COVER, ("CoLSTIM", "online-newton, theta given")])
def test_reading_between_rounds_changes_no_later_duel(kind, estimator):
    """Seldom as well as often: an estimator that puts work off must not have it done by a look."""
    n_rounds = rounds(400, 120 if estimator in ("sgd", "online-newton") else 14)
    made = ESTIMATORS[estimator].ours("likelihood")
    options = {"n_arms": 6, "exploration_rounds": 9}
    quiet, curious = (a_policy(kind, estimator, 3, made, **options) for _ in range(2))
    chunk = a_chunk(quiet.get_params()["comparison"], n_rounds, n_features=3, n_arms=6)
    for r in range(n_rounds):
        contexts, u = np.ascontiguousarray(chunk.contexts[r].T), chunk.utilities[r]
        a, b = quiet.select(contexts), curious.select(contexts)
        assert (a.first, a.second) == (b.first, b.second), f"round {r + 1}"
        won = bool(u[a.first] - u[a.second] + chunk.latent[r] > 0.0)
        for policy, duel in ((quiet, a), (curious, b)):
            policy.update(duel, won)
        if r % 11 == 10 or r == 12:
            read_everything(curious, contexts)
    scratch = frozenset({"history", "vectors", "information", "penalised"})
    assert arrays(quiet, scratch) == arrays(curious, scratch)
