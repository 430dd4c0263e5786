"""What type checkers must see and refuse; `mypy` reads this file, nothing runs it.

An error that is no longer found leaves its comment unused, which mypy reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import fastcolst as fc

if TYPE_CHECKING:
    policy = fc.CoLSTIM(3, comparison="thurstone", estimator=fc.MLE(tolerance=1e-4), coupling="theorem", rng=1)
    any_policy: fc.Policy = fc.UniformPairs(n_arms=3)
    duel: fc.Duel = any_policy.select(np.eye(3))
    chance: float = policy.theta[0] + policy.widths([[1.0, 0.0, 0.0]])[0]

    policy.udpate(duel, True)  # type: ignore[attr-defined]
    fc.UniformPairs().theta  # type: ignore[attr-defined]  # noqa: B018  it has no estimate
    fc.CoLSTIM(3, estimator="mel")  # type: ignore[arg-type]
    fc.CoLSTIM(3, comparison="bradley terry")  # type: ignore[arg-type]
    fc.CoLSTIM(3, coupling="theory")  # type: ignore[arg-type]
    fc.SupCoLSTIM(3, horizon=9, perturbation="gumbel")  # type: ignore[arg-type]
    fc.MaxInP(3, rng="seed")  # type: ignore[arg-type]

    @fc.register(name="shifted")
    class Shifted(NamedTuple):
        by: float = 0.0

    shift: float = Shifted(1.0).by
    fc.register(Shifted).by_  # type: ignore[attr-defined]  # noqa: B018
    fc.register()  # type: ignore[call-overload]
