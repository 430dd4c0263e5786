"""A simulation by the reference, one round at a time, on the contexts, luck and draws that the library takes."""

from __future__ import annotations

import numpy as np
from inside import choice_and_draws
from numpy.random import SeedSequence

import fastcolst as fc
from fastcolst import reference, streams


class FullMLE:
    """Line 6 to the letter, for a policy of the reference: theta from all answers so far."""

    def update(self, contrast, first_won):
        super().update(contrast, first_won)
        self._seen = [*getattr(self, "_seen", []), (contrast, float(first_won))]

    def _choose(self, contexts, uniforms, raw):
        contrasts, wins = (np.array(column) for column in zip(*self._seen, strict=True))
        # the tiny ridge stands for the library's bound on theta, which is far outside what is met here
        self.theta = reference.fit(contrasts, wins, comparison=self.comparison, ridge=1e-9).theta
        return super()._choose(contexts, uniforms, raw)


class CoLSTIMByMLE(FullMLE, reference.CoLSTIM):
    """CoLSTIM as Algorithm 1 has it."""


class MaxInPByMLE(FullMLE, reference.MaxInP):
    """MaxInP with the full estimate."""


def twin_of(policy, n, d, horizon):
    """The reference for a policy of the figures."""
    given = policy.get_params()
    if isinstance(policy, fc.UniformPairs):
        return reference.UniformPairs(n)
    if isinstance(policy, (fc.SelfSparring, fc.DoubleThompson)):
        return getattr(reference, type(policy).__name__)(n)
    model = given["comparison"]
    plain = getattr(reference, type(model).__name__)(*model)
    options = {"comparison": plain, "n_arms": n, "horizon": horizon}
    if isinstance(given["estimator"], fc.MLE):
        return {fc.CoLSTIM: CoLSTIMByMLE, fc.MaxInP: MaxInPByMLE}[type(policy)](d, **options)
    rate = {"learning_rate": given["estimator"].learning_rate, "radius": given["estimator"].radius}
    return getattr(reference, type(policy).__name__)(d, **options, **rate)


def slow_regret(policy, label, scenario, horizon, seed, run):
    """Average regret of a run, one round at a time by the reference, with the draws that the library takes."""
    source = scenario.start(seed, run)
    key = SeedSequence(seed, spawn_key=(streams.POLICY, run, *streams.label_key(label)))
    rng = streams.generator(streams.entropy_of(key))
    twin = twin_of(policy, scenario.n_arms, scenario.n_features, horizon)
    index_only = isinstance(policy, (fc.SelfSparring, fc.DoubleThompson))
    drawing = policy.fresh_for(scenario.n_features, scenario.n_arms, horizon, key) if index_only else None
    total = 0.0
    for _ in range(horizon):
        chunk = source.next_chunk(1)
        contexts, utilities = chunk.contexts[0].T.copy(), chunk.utilities[0].copy()
        duel, draws = choice_and_draws(drawing, contexts) if index_only else (None, twin.draw(rng, scenario.n_arms))
        first, second = twin.select(contexts, *draws)
        first_won = bool(utilities[first] - utilities[second] + chunk.latent[0] > 0.0)
        if first != second:
            twin.update(contexts[first] - contexts[second], first_won)
        if index_only and first != second:
            drawing.update(duel, first_won)
        total += reference.regret(utilities, first, second)[0]
    return total
