"""What of ours stands beside what of the reference: comparison models and policies, each table once for all tests.

What joins, joins here by a line, and with it in every test that goes over all of its kind.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any, NamedTuple

import mpmath

import fastcolst as fc
from fastcolst import reference

SCORES = ("likelihood", "residual")
"""What an estimator may learn by."""


class Model(NamedTuple):
    """A comparison model, the same of the reference, and the scores to learn by, the last of them the usual one."""

    ours: Any
    plain: reference.ComparisonModel
    scores: tuple[str, ...]


MODELS = {
    "bradley-terry": Model(fc.BradleyTerry(0.8), reference.BradleyTerry(0.8), ("likelihood",)),
    "thurstone": Model(fc.Thurstone(0.7), reference.Thurstone(0.7), ("likelihood",)),
    "exponential": Model(fc.ExponentialNoise(1.3), reference.ExponentialNoise(1.3), SCORES),
}
"""By the names that stand for them at scale 1. These have others, at which a formula that forgets its scale is wrong.

(The scores of a model share their compiled code.)
"""

OURS = [model.ours for model in MODELS.values()]
PLAIN = [model.plain for model in MODELS.values()]
CLASSES = [type(model) for model in OURS]
PLAIN_CLASSES = [type(model) for model in PLAIN]
DEFAULTS = {name: (type(ours)(), type(plain)()) for name, (ours, plain, _) in MODELS.items()}
"""Ours and the reference's at scale 1."""

LINKS = {
    "logit": (fc.BradleyTerry(), reference.BradleyTerry()),
    "probit": (fc.Thurstone(math.sqrt(0.5)), reference.Thurstone(math.sqrt(0.5))),
    "laplace": (fc.ExponentialNoise(), reference.ExponentialNoise()),
}
"""By the links of R and of the fits with forty digits, which write F = Phi(u); ours is Phi(u / (sigma sqrt 2))."""

SCALES = (1.0, 2.5, 0.3)
LARGEST = {"BradleyTerry": 700.0, "Thurstone": 1e8, "ExponentialNoise": 700.0}
"""Margins, by the names of the classes, up to which the functions are compared with high-precision arithmetic."""


def textbook(model: Any, u: Any) -> dict[str, Any]:
    """The functions of a model, ours or the reference's, at a margin, in mpmath's current precision."""
    (scale,) = map(mpmath.mpf, dataclasses.astuple(model) if dataclasses.is_dataclass(model) else model)
    u = mpmath.mpf(u)
    if type(model).__name__ == "BradleyTerry":
        win, lose = 1 / (1 + mpmath.exp(-u / scale)), 1 / (1 + mpmath.exp(u / scale))
        density = win * lose / scale
    elif type(model).__name__ == "Thurstone":
        deviation = scale * mpmath.sqrt(2)  # of a difference of two draws
        win, lose = mpmath.erfc(-u / deviation / mpmath.sqrt(2)) / 2, mpmath.erfc(u / deviation / mpmath.sqrt(2)) / 2
        density = mpmath.exp(-((u / deviation) ** 2) / 2) / (deviation * mpmath.sqrt(2 * mpmath.pi))
    elif type(model).__name__ != "ExponentialNoise":
        raise TypeError(f"{type(model).__name__}: its functions are wanted here, as a textbook writes them")
    else:
        tail = mpmath.exp(-scale * abs(u)) / 2
        win, lose = (tail, 1 - tail) if u < 0 else (1 - tail, tail)
        density = scale * tail
    return {
        "cdf": win,
        "pdf": density,
        "log_cdf": mpmath.log(win) if win < 0.5 else mpmath.log1p(-lose),
        "score": density / win,
        "weight": density**2 / (win * lose),
    }


class Cauchy(NamedTuple):
    """A model of a user's own, R's cauchit, with nothing but what is asked for. It is not log-concave.

    G is Cauchy too, of half the scale.
    """

    scale: float = 1.0

    def cdf(self, u: Any) -> Any:
        return 0.5 + math.atan(u / self.scale) / math.pi

    def pdf(self, u: Any) -> Any:
        return 1.0 / (math.pi * self.scale * (1.0 + (u / self.scale) ** 2))

    def raw(self, rng: Any, size: Any = None) -> Any:
        return rng.standard_exponential(size)

    def perturb(self, value: Any) -> Any:
        return 0.5 * self.scale * math.tan(math.pi * (math.exp(-value) - 0.5))


LINEAR = {
    "CoLSTIM": (fc.CoLSTIM, reference.CoLSTIM),
    "MaxInP": (fc.MaxInP, reference.MaxInP),
    "MaxPairUCB": (fc.MaxPairUCB, reference.MaxPairUCB),
}
"""Policies with one estimate, each with its reference."""
INFORMED = {
    "TwoSamples": (fc.TwoSamples, reference.TwoSamples),
    "Informative": (fc.Informative, reference.Informative),
}
"""Policies that choose by the estimator's information, each with its reference: SGD, which has none, they refuse."""


def taken_by(kind: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Those of some arguments that a class has: not every rule has a horizon or a width."""
    return {name: value for name, value in options.items() if name in inspect.signature(kind).parameters}


UNORDERED = {name: LINEAR[name] for name in ("MaxInP", "MaxPairUCB")}
"""Those of them that name the arm of lower index first."""
STAGED = {"SupCoLSTIM": (fc.SupCoLSTIM, reference.SupCoLSTIM), "StaD": (fc.StaD, reference.StaD)}
"""Policies with an estimate in each stage; they need a horizon."""
SAMPLERS = {
    "DoubleThompson": (fc.DoubleThompson, reference.DoubleThompson),
    "SelfSparring": (fc.SelfSparring, reference.SelfSparring),
}
"""Policies that see indices and draw samples of what they know."""
