"""What policies' constructors take: the types of the arguments that they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.random import BitGenerator, Generator, SeedSequence

from fastcolst.comparison import BradleyTerry, ExponentialNoise, Thurstone
from fastcolst.estimation import MLE, SGD, OnlineNewton

__all__ = ["Comparison", "Coupling", "Estimator", "Seed"]


class OwnModel(Protocol):
    """A comparison model of one's own; see :func:`fastcolst.comparison.comparison_model`."""

    def cdf(self, u: Any, /) -> Any:
        """F(u)."""
        ...

    def pdf(self, u: Any, /) -> Any:
        """f(u)."""
        ...

    def perturb(self, value: Any, /) -> Any:
        """The draw of G that a raw variate stands for."""
        ...


class OwnEstimator(Protocol):
    """An estimator of one's own; see :func:`fastcolst.estimation.learn`."""

    def memory(self, n_features: int, /) -> Any:
        """An empty memory."""
        ...

    def learn(self, model: Any, memory: Any, contrast: Any, won: Any, /) -> Any:
        """Learn one comparison."""
        ...


Comparison = (
    Literal["bradley-terry", "thurstone", "exponential"] | BradleyTerry | Thurstone | ExponentialNoise | OwnModel
)
Estimator = Literal["mle", "sgd", "online-newton"] | MLE | SGD | OnlineNewton | OwnEstimator
Coupling = float | Literal["theorem"] | None
Seed = int | np.integer[Any] | Sequence[int] | SeedSequence | BitGenerator | Generator | None
