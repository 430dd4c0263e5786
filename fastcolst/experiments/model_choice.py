"""Which comparison model a log speaks for: prequential log losses, paired, with what more answers would tell.

Each model predicts every comparison before it is learned. The models' losses at a comparison are paired, so that what
is hard to predict for all of them cancels: of the differences d_1, ..., d_m the mean is tested by its standard error.

How many answers would do follows from the predictions alone. If a model that says p were true, the mean difference from
one that says q would be the divergence of their predictions, and its variance known as well:

    K = mean of p log(p/q) + (1 - p) log((1 - p)/(1 - q))
    V = mean of p (1 - p) (logit p - logit q)^2, and the variance of what K is the mean of

and m' = (z_level + z_power)^2 V / K^2 answers tell the two apart with that power.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import brief, count, entries, looked_at, plain_text, real_number, texts
from fastcolst._files import optional_import
from fastcolst._words import align
from fastcolst.comparison import comparison_model
from fastcolst.data import Log, ReplayResult, replay
from fastcolst.data.log import check_log
from fastcolst.estimation.ranking import sidak
from fastcolst.policies import CoLSTIM, Policy

__all__ = ["Difference", "ModelComparison", "compare_models"]

Array = NDArray[np.float64]

POWER = 0.8
"""The probability with which as many answers as are said to do tell two models apart, if either is true."""

LEARNED_FIRST = 10
"""Comparisons for each feature that are learned before any counts."""

SETTLED = 0.5
"""The share of a log at whose end predictions are taken for those of more answers: before it, theta is still moving."""


class Difference(NamedTuple):
    """How much better one model predicts than another.

    Attributes
    ----------
    first, second : str
        Labels of the models.
    difference : float
        Log loss of the second minus that of the first, an answer: positive where the first predicts better.
    standard_error : float
        Of the difference, from the paired losses; nan where a loss is infinite.
    is_told_apart : bool
        Whether the difference is not 0, at the level that holds for all pairs at once.
    needed : float
        How many answers would tell the two apart four times in five, if either were true; inf where they predict the
        same.
    """

    first: str
    second: str
    difference: float
    standard_error: float
    is_told_apart: bool
    needed: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ModelComparison:
    """What :func:`compare_models` found.

    Attributes
    ----------
    replays : dict of label to ReplayResult
        The predictions of each model, in the order in which the models were given.
    differences : tuple of Difference
        Of all pairs of models, the one that predicts better first.
    log_losses : dict of label to float
        Mean losses of the models, the best one first, over the comparisons that count.
    skip : int
        Comparisons at the start that do not count.
    level : float
        Probability with which no two equally good models are told apart.
    """

    replays: dict[str, ReplayResult]
    differences: tuple[Difference, ...]
    log_losses: dict[str, float]
    skip: int
    level: float

    def __repr__(self) -> str:
        return f"ModelComparison({'; '.join(self.verdicts)})"

    @property
    def best(self) -> str:
        """Label of the model with the least log loss, which need not be told apart from others."""
        return next(iter(self.log_losses))

    @property
    def n_answers(self) -> int:
        """How many comparisons count."""
        return len(self.replays[self.best].log) - self.skip

    @property
    def verdicts(self) -> list[str]:
        """What can be said of each pair, in words."""
        return [_verdict(found, self.n_answers) for found in self.differences]

    def summary(self) -> str:
        """Log losses, differences from the best model, and the verdicts, as text."""
        from_best = {found.second: found for found in self.differences if found.first == self.best}
        rows = [("model", "log loss", "above the best", "standard error")]
        for label, loss in self.log_losses.items():
            rows.append((label, f"{loss:.5f}", *(_shown(from_best[label]) if label in from_best else ("", ""))))
        head = f"{self.n_answers:,} comparisons, each predicted before it was learned"
        if self.skip > 0:
            head += f", after the first {self.skip:,}"
        return "\n".join([head, *align(rows), "", *self.verdicts])

    def to_pandas(self) -> Any:
        """The differences as a data frame, a row for each pair of models."""
        return optional_import("pandas", "to_pandas").DataFrame(list(self.differences), columns=Difference._fields)


def compare_models(
    log: Log,
    models: Any,
    *,
    policy: Any = None,
    skip: int | None = None,
    level: float = 0.95,
    progress: bool = False,
) -> ModelComparison:
    """Ask a log which comparison model predicts its answers best, and whether the answers suffice to say so.

    The models' losses are those of :func:`fastcolst.replay`, each comparison predicted before it is learned. Their
    differences are paired by comparison; each has a standard error, and where that leaves open which model is better
    the predictions tell how many answers would not.

    Parameters
    ----------
    log : Log
        What :func:`fastcolst.read_log` or :meth:`fastcolst.Log.from_arrays` returned.
    models : list of str or comparison model, or dict {label: str or comparison model}
        Two or more, such as ``["bradley-terry", "thurstone"]``. Labels are the names, or what a model's repr is.
    policy : policy object, optional
        Whose estimator, ridge and other parameters every model is learned with; it stays as it is. None:
        ``fc.CoLSTIM(n_features)``, with the exact estimate.
    skip : int, optional
        How many comparisons at the start are learned and not counted. None: ten for each feature, or half of the log if
        that is less: with fewer answers theta may be anywhere, and one answer that it did not expect outweighs all that
        come later.
    level : float, default 0.95
        Probability with which no two of equally good models are told apart, for all pairs together (Sidak's).
    progress : bool
        Show progress bars (needs tqdm).

    Returns
    -------
    ModelComparison
        ``verdicts`` in words, ``summary()``, ``differences``, ``log_losses``, ``best`` and ``replays``.

    Raises
    ------
    ValueError
        Fewer than two models, two of one label, no comparison model, a policy that has none, or one that does not fit
        the log.

    Notes
    -----
    O(k) replays for k models. The number of answers that would do is for more answers like these, weights included. It
    takes the predictions of the log's second half for what a model would say once theta is known, and one of the two
    models for true: where neither is, fewer may do or more. Logistic and normal noise differ little: at usual margins
    it takes 10^4 to 10^5 answers to tell them apart.

    What is compared is how models predict with an estimate that is being learned. The scale of a model is no question
    of this kind, as theta is in its units, unless a ridge or a radius says how long theta may be.

    References
    ----------
    Dawid (1984), Statistical theory: the prequential approach, JRSS A 147, 278-292.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> rng = np.random.default_rng(0)
    >>> contrasts = rng.normal(size=(600, 2))
    >>> log = fc.Log.from_arrays(contrasts, contrasts @ [2.0, -1.0] + rng.logistic(size=600) > 0)
    >>> found = fc.compare_models(log, ["bradley-terry", "thurstone"])
    >>> print(found.verdicts[0])  # doctest: +ELLIPSIS
    bradley-terry and thurstone cannot be told apart with 580 answers; about ... would do
    """
    check_log(log)
    named = _named(models)
    share = looked_at(real_number, level, math.nan)
    if not 0.0 < share < 1.0:
        raise ValueError(f"level is {brief(level)}; a number between 0 and 1 is wanted")
    d, m = log.contrasts.shape[1], len(log)
    n_skipped = min(LEARNED_FIRST * d, m // 2) if skip is None else count("skip", skip, lowest=0)
    if n_skipped > m - 2:
        raise ValueError(f"skip is {n_skipped} of {m} comparisons; two or more that count are wanted, to have an error")
    template = CoLSTIM(d) if policy is None else policy
    learners = {label: _with_model(template, model) for label, model in named.items()}
    replays = {label: replay(each, log, label=label, progress=progress) for label, each in learners.items()}
    counted = slice(n_skipped, None)
    losses = {label: found.losses()[counted] for label, found in replays.items()}
    weights = np.ones(m - n_skipped) if log.weights is None else log.weights[counted]
    means = {label: float(np.average(each, weights=weights)) for label, each in losses.items()}
    means = dict(sorted(means.items(), key=lambda item: item[1]))
    z, differences = sidak(share, len(named) * (len(named) - 1) // 2), []
    for better, worse in combinations(means, 2):
        with np.errstate(invalid="ignore"):
            difference, error = _paired(losses[worse] - losses[better], weights)
        p, q = (replays[label].probabilities[counted] for label in (better, worse))
        needed = max(_needed(p, q, weights, z), _needed(q, p, weights, z))
        differences.append(Difference(better, worse, difference, error, bool(difference > z * error), needed))
    return ModelComparison(
        replays=replays, differences=tuple(differences), log_losses=means, skip=n_skipped, level=share
    )


def _named(models: Any) -> dict[str, Any]:
    """Comparison models by their labels."""
    if isinstance(models, Mapping):
        given = list(entries("models", models).items())
        labels = texts("models", [label for label, _ in given])
        found = [
            (label, comparison_model(model, f"models[{label!r}]"))
            for label, (_, model) in zip(labels, given, strict=True)
        ]
    else:
        listed = None if plain_text(models) is not None else looked_at(list, models)
        if listed is None:
            raise ValueError(f"models is {brief(models)}; a list of two or more comparison models is wanted")
        found = []
        for k, value in enumerate(listed):
            model = comparison_model(value, f"models[{k}]")
            found.append((plain_text(value) or repr(model), model))
    twice = next((label for k, (label, _) in enumerate(found) if label in dict(found[:k])), None)
    if twice is not None:
        raise ValueError(f"models has {twice!r} twice; a dict with a label of its own for each is wanted")
    if len(found) < 2:
        raise ValueError(f"models has {len(found)} comparison models; two or more are wanted")
    return dict(found)


def _with_model(template: Any, model: Any) -> Any:
    """A policy like another one, new, with a comparison model of its own."""
    parameters: dict[str, Any] = looked_at(lambda policy: policy.get_params(), template, {})
    if not isinstance(template, Policy) or "comparison" not in parameters:
        raise ValueError(f"policy is {brief(template)}; a policy with a comparison model, such as CoLSTIM, is wanted")
    return type(template)(**{**parameters, "comparison": model})


def _paired(differences: Array, weights: Array) -> tuple[float, float]:
    """Weighted mean of differences (m,), and its standard error; inf and nan where one is not finite."""
    m, total = len(differences), float(weights.sum())
    mean = float(np.average(differences, weights=weights))
    if m < 2 or not math.isfinite(mean):
        return mean, math.nan
    square = float(np.sum((weights * (differences - mean)) ** 2))
    return mean, math.sqrt(square * m / (m - 1)) / total


def _needed(truth: Array, other: Array, weights: Array, z: float) -> float:
    """Answers that tell two models apart with :data:`POWER` if the first is true; inf where they predict the same."""
    from scipy.special import logit, ndtri, rel_entr

    settled = slice(int(len(truth) * SETTLED), None)
    p, q, w = truth[settled], other[settled], weights[settled]
    with np.errstate(all="ignore"):
        divergences = w * (rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q))
        surprises = np.where((p == q) | (p == 0.0) | (p == 1.0), 0.0, p * (1.0 - p) * (w * (logit(p) - logit(q))) ** 2)
        mean, variance = float(np.mean(divergences)), float(np.mean(surprises) + np.var(divergences))
    if mean == 0.0:
        return math.inf
    if not math.isfinite(mean):
        return 1.0  # the other holds for impossible what the first does not: one such answer tells
    return (z + float(ndtri(POWER))) ** 2 * variance / mean**2


# --- in words -----------------------------------------------------------------------------------------------


def _shown(found: Difference) -> tuple[str, str]:
    return f"{found.difference:.5f}", f"{found.standard_error:.5f}"


def _verdict(found: Difference, n_answers: int) -> str:
    """Told apart, or how many answers would do."""
    difference, error = _shown(found)
    if found.is_told_apart:
        return f"{found.first} predicts better than {found.second}: by {difference} an answer, standard error {error}"
    if math.isnan(found.standard_error):
        return f"{found.first} and {found.second} cannot be compared: a probability of 0 was given to what happened"
    cannot = f"{found.first} and {found.second} cannot be told apart with {n_answers:,} answers"
    if found.needed == math.inf:
        return f"{cannot}; they predict the same"
    if found.needed <= n_answers:
        return f"{cannot}, although so many would do as a rule if either were true"
    return f"{cannot}; about {float(f'{found.needed:.2g}'):,.0f} would do"
