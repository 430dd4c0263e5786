"""What policies' constructors take: the types of the arguments that they have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.random import BitGenerator, Generator, SeedSequence

from fastcolst._checks import count, number
from fastcolst.comparison import BradleyTerry, ExponentialNoise, Thurstone, comparison_model
from fastcolst.estimation.estimators import engine_of
from fastcolst.estimation.mle import MLE
from fastcolst.estimation.online_newton import OnlineNewton
from fastcolst.estimation.sgd import SGD

__all__ = ["Comparison", "Coupling", "Estimator", "Seed", "linear_fields"]


class OwnModel(Protocol):
    """A comparison model of one's own; see :func:`fastcolst.comparison.comparison_model`."""

    def cdf(self, u: Any, /) -> Any:
        """F(u)."""
        ...

    def pdf(self, u: Any, /) -> Any:
        """f(u)."""
        ...

    def raw(self, rng: Generator, /) -> Any:
        """One raw variate, or as many as ``size`` asks for."""
        ...

    def perturb(self, value: Any, /) -> Any:
        """The draw of G that a raw variate stands for."""
        ...


class OwnEstimator(Protocol):
    """An estimator of one's own; see :func:`fastcolst.estimation.protocol.learn`."""

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


def linear_fields(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that the rules of linear policies have in common, from a constructor's arguments.

    estimator and model, registered; horizon, 0 where T is not told; width_scale, negative for sqrt(d log T). The last
    two need not be among the arguments.

    Raises
    ------
    ValueError
        For a bad argument.
    """
    horizon, scale = parameters.get("horizon"), parameters.get("width_scale")
    return {
        "model": comparison_model(parameters["comparison"]),
        "estimator": engine_of(parameters["estimator"]),
        "horizon": 0 if horizon is None else count("horizon", horizon),
        "width_scale": -1.0 if scale is None else number("width_scale", scale),
    }
