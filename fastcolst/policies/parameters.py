"""What policies' constructors take: the arguments that they have in common, their types and their descriptions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.random import BitGenerator, Generator, SeedSequence

from fastcolst._checks import answer, brief, count, number, plain_text
from fastcolst.comparison import BradleyTerry, ExponentialNoise, Thurstone, comparison_model
from fastcolst.estimation.estimators import engine_of
from fastcolst.estimation.mle import MLE
from fastcolst.estimation.online_newton import OnlineNewton
from fastcolst.estimation.protocol import check_information
from fastcolst.estimation.sgd import SGD
from fastcolst.lapse import Lapse

__all__ = [
    "INDEX",
    "INFORMED",
    "LINEAR",
    "PERTURBED",
    "STAGEWISE",
    "Comparison",
    "Coupling",
    "Estimator",
    "Exploration",
    "Seed",
    "Widths",
    "described",
    "linear_fields",
    "pair_fields",
    "unless_ridge",
]


class OwnModel(Protocol):
    """A comparison model of one's own; see :func:`fastcolst.comparison.comparison_model`."""

    def cdf(self, u: Any, /) -> Any:
        """F(u)."""
        ...

    def pdf(self, u: Any, /) -> Any:
        """f(u)."""
        ...

    def raw(self, rng: Generator, size: Any = None, /) -> Any:
        """One raw variate, or an array of ``size`` of them: the same numbers, one by one or in a block."""
        ...

    def perturb(self, value: Any, /) -> Any:
        """The draw of G that a raw variate stands for."""
        ...


class OwnEstimator(Protocol):
    """An estimator of one's own; see :func:`fastcolst.estimation.protocol.learn`."""

    def memory(self, n_features: int, /) -> Any:
        """An empty memory."""
        ...

    def learn(self, model: Any, memory: Any, contrast: Any, share: Any, weight: Any, /) -> Any:
        """Learn one comparison."""
        ...


Named = Literal["bradley-terry", "thurstone", "exponential"]
Comparison = Named | BradleyTerry | Thurstone | ExponentialNoise | Lapse | OwnModel
Estimator = Literal["mle", "sgd", "online-newton"] | MLE | SGD | OnlineNewton | OwnEstimator
Coupling = float | Literal["theorem"] | None
Exploration = int | Literal["auto"] | None
Widths = Literal["gram", "information"]
WIDTHS = ("gram", "information")
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
        "estimator": engine_of(parameters["estimator"], number("ridge", parameters.get("ridge", 0.0))),
        "horizon": 0 if horizon is None else count("horizon", horizon),
        "width_scale": -1.0 if scale is None else number("width_scale", scale),
    }


def pair_fields(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of rules with widths: those of :func:`linear_fields`, whose widths, and whether one may meet itself.

    Raises
    ------
    ValueError
        For a bad argument.
    """
    fields, widths = linear_fields(parameters), parameters["widths"]
    if plain_text(widths) not in WIDTHS:
        raise ValueError(f"widths is {brief(widths)}; wanted 'gram' or 'information'")
    by_information = widths == "information"
    if by_information:
        check_information(fields["estimator"], "widths='information'")
    allows = answer(parameters["allow_self_duel"], "allow_self_duel")
    return {**fields, "allow_self_duel": allows, "by_information": by_information}


def unless_ridge(exploration_rounds: Any, ridge: Any) -> Any:
    """``exploration_rounds`` of a rule whose prior is all that it needs: where neither is said, none.

    With a ridge M and H are invertible from the start.
    """
    return 0 if exploration_rounds is None and number("ridge", ridge) > 0.0 else exploration_rounds


# --- descriptions -------------------------------------------------------------------------------------------

MAX_PENDING = """int, optional
        How many duels may wait for their answer; None: any number. When one more is shown the oldest is given up and
        counted in ``expired``; an answer to it comes too late, which its error says."""

LINEAR = {
    "n_features": """int
        d, columns of the contexts.""",
    "n_arms": """int, optional
        n. Given, every round must have so many arms; None: the number may change, and the first round's sets the
        default ``exploration_rounds``.""",
    "horizon": """int, optional
        T, number of rounds for which the constants are set; None: anytime, the current round stands in for T. Past T
        the constants stay.""",
    "comparison": """str or model, default "bradley-terry"
        The comparison function F by which the estimator learns.""",
    "estimator": """str or estimator, default "mle"
        How theta is estimated: "mle", the exact maximum-likelihood estimate; "sgd", the paper's; "online-newton".
        See :class:`fastcolst.MLE`, :class:`fastcolst.SGD`, :class:`fastcolst.OnlineNewton`.""",
    "ridge": """float, default 0.0
        Added to the diagonal of the Gram matrix M, and the estimator's penalty on theta unless that says one of its
        own. With 0 the exploration goes on until M is invertible.""",
    "discount": """float, default 1.0
        gamma, for tastes that drift, from 0.5 to 1: k answers later an answer has gamma^k of its weight, in theta and
        in M, so that about 1/(1 - gamma) answers count. Ages are counted in blocks of a twentieth of that number, at
        whose ends theta follows. :class:`fastcolst.SGD` cannot forget so.""",
    "position": """bool, default False
        Whether to estimate the advantage of being shown first, beside theta: ``position_advantage`` reports it, and
        utilities and choices leave it out. To M and to sqrt(d log T) it is a feature more.""",
    "features": """Nystroem, RandomFeatures or transformer, optional
        Map that features go through first, for utilities that are not linear in them: ``theta``, ``gram``, contrasts
        and the d of all constants are then of what comes out of it. See :class:`fastcolst.Nystroem`. A fitted
        transformer of scikit-learn will do as well, but a policy with one cannot be saved.""",
    "count_pending": """bool, default False
        Whether pairs that wait for their answer count in M, and in H, as if they were answered: raters who ask at the
        same time are then shown different pairs. Exploration, theta and its standard errors know answers only; as
        long as M itself decides when the exploration ends ("auto", or without a ridge) pairs that wait are left
        out.""",
    "robust": """float, optional
        alpha, by which answers to pairs that little was known of count for less: their weight is min(1, alpha /
        |z|_{M^-1}), M from before the pair was shown, and 1 until M was inverted. Early lies then do not decide for
        ever; sqrt(n_features) / C against C of them. None: all weights are 1.""",
    "exploration_rounds": """int or "auto", optional
        tau (t_0 in MaxInP and Sta'D), rounds of exploration; None: the paper's n_features * n_arms. "auto": until
        n_features comparisons in a row were of arms whose difference M knew before as well as one comparison of these
        two alone would tell it, z' M^-1 z <= 1; after n_features * min(n_arms, 10) rounds in any case.""",
    "width_scale": """float, optional
        c (c1 in CoLSTIM, eta in MaxInP and Sta'D), by which widths are scaled; None: sqrt(d log T).""",
    "widths": """{"gram", "information"}, default "gram"
        Whose inverse widths are measured in: the Gram matrix M's, as in the paper, or that of the estimator's
        information H = ridge I + sum w I(z'theta) z z' with I = F'^2/(F(1 - F)), for which answers that were easy to
        foresee tell less. Where none was they are 1/(2 F'(0)) times as wide. :class:`fastcolst.SGD` knows no H.""",
    "max_pending": MAX_PENDING,
    "rng": """int, SeedSequence, Generator or None
        Source of the pairs of the exploration; see :func:`fastcolst.streams.entropy_of`.""",
}
"""Parameters of policies with a linear estimate, as docstrings describe them."""

STAGEWISE = {
    "horizon": """int
        T, number of rounds, from which the number of stages follows. It may be left out of a template, which
        :func:`fastcolst.simulate` fills in, and of a policy that only learns from logs. Past T the constants stay.""",
    "comparison": """str or model, default "bradley-terry"
        The comparison function F by which the estimators learn.""",
    "estimator": """str or estimator, default "mle"
        How each stage's theta is estimated.""",
    "ridge": """float, default 0.0
        Added to the diagonal of each Gram matrix M, and the estimator's penalty on each theta unless that says one of
        its own. With 0 the exploration goes on until M is invertible.""",
}
"""Those that mean something else with stages."""

PERTURBED = {
    "perturbation": """str or model, optional
        Whose G perturbs the utilities; None: the comparison model's own.""",
    "clip": """float, optional
        C_thresh; None: c1; inf: no clipping.""",
    "allow_self_duel": """bool, default True
        Whether the first arm may be its own rival, as in the paper. False: two different arms (of at least two).""",
    "max_pending": MAX_PENDING,
    "rng": """int, SeedSequence, Generator or None
        Source of the noise; see :func:`fastcolst.streams.entropy_of`.""",
}
"""Those of perturbed utilities."""

INFORMED = {
    "ridge": """float, default 1.0
        The prior's precision: added to the diagonal of M, and the estimator's penalty on theta unless that says one of
        its own. With 0 random pairs duel until M is invertible.""",
    "exploration_rounds": """int or "auto", optional
        Rounds of random pairs before; None: none, and without a ridge n_features * n_arms. "auto" as in the other
        linear policies.""",
}
"""Those of rules that choose by the estimator's information."""

INDEX = {
    "n_features": """int, optional
        Columns of the contexts, checked when given; None: any number.""",
    "max_pending": MAX_PENDING,
    "rng": """int, SeedSequence, Generator or None
        Source of the samples; see :func:`fastcolst.streams.entropy_of`.""",
}
"""Those of policies that know arms by their index."""

_SHARED = re.compile(
    r"^( *)(\w+(?:, \w+)*)\n\1    "
    r"As in :data:`fastcolst\.policies\.parameters\.(LINEAR|STAGEWISE|PERTURBED|INFORMED|INDEX)`\.$",
    re.MULTILINE,
)


def described(docstring: str) -> str:
    """A policy's docstring with each line "As in :data:`...parameters.LINEAR`" replaced by what stands there.

    Where a class lists ``n_features, n_arms`` and that line below, both are described when it is defined: ``help`` and
    all who read ``__doc__`` see the descriptions, and who reads the source sees where they are.
    """

    def entries(found: re.Match[str]) -> str:
        indent, names, family = found.groups()  # none where Python takes it off
        texts: dict[str, str] = globals()[family]
        described = "\n".join(f"{indent}{name} : {texts[name]}" for name in names.split(", "))
        return described.replace("\n        ", f"\n{indent}    ")

    return _SHARED.sub(entries, docstring)
