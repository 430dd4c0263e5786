"""Estimates from finished comparisons: the maximum-likelihood fit with its standard errors."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst._checks import brief, choice, feature_rows, non_negative_numbers, number, plain_text
from fastcolst._compile import kernel
from fastcolst.comparison import cdf, comparison_model, log_cdf, pdf, weight
from fastcolst.estimation.history import History
from fastcolst.estimation.mle import AUTO_RADIUS
from fastcolst.estimation.newton import maximise
from fastcolst.estimation.objective import Objective
from fastcolst.estimation.records import NOT_CONVERGED, SEPARATED, STATUSES, Evidence, Settings
from fastcolst.estimation.words import SCORES, score_code

__all__ = ["Fit", "fit", "fitted", "warn_of"]

TOLERANCE = 1e-7
"""Standard errors to which Newton's method is asked for the maximum; its last step squares them."""

SETTINGS = Settings()
REST = 1e-9
"""Standard errors by which theta may move when the search starts again from where it ended."""

MOST_PASSES = 400
"""Passes over the data after which the search is given up."""

SMALLEST_SCALE = 1e-140
"""Features all below this have squares that underflow."""

LARGEST_RIDGE = 1e200
"""In units in which features have the size 1: beyond this, sums with it overflow."""

RANK_TOLERANCE = 1e-14
"""Times d: below this share of the largest, an eigenvalue of the features' Gram matrix is rounding error."""

FLAT = (1e-12, 1e-9, 1e-6)
"""Shares of what information is at theta = 0 from which on a direction is suspected of having run away. Below the first
it has as far as covariances are concerned; below the others it needs proof."""

_REMEDIES = {
    "separated": "in some direction theta explains the answers the better the longer it is, so that there is no finite "
    "estimate; theta is a point of high likelihood",
    "boundary": "the maximum lies on the ball that radius='auto' stands for, and would be far outside",
    "not-converged": "the maximum was not reached; theta is the last point",
}


@dataclass(frozen=True, eq=False)
class Fit:
    """What :func:`fit` found.

    Attributes
    ----------
    theta : (d,) float64
        The estimate.
    covariance : (d, d) float64
        Of the estimate, over answers drawn from the model: A^-1 B A^-1, where B is the variance of the score and A its
        expected slope plus the ridge. For the likelihood without a ridge both are the Fisher information. The variance
        of what the data do not determine is inf, its covariances are nan.
    log_likelihood : float
        sum w log F + (n - w) log(1 - F) at theta, without binomial coefficients and without the penalty.
    status : str
        "interior", the maximum; "boundary", the maximum on the ball, which a larger ball would move; "separated", there
        is no finite maximum; "not-converged".
    iterations : int
        Passes over the data.
    """

    theta: NDArray[np.float64]
    covariance: NDArray[np.float64] = field(repr=False)
    log_likelihood: float
    status: str
    iterations: int

    @property
    def standard_errors(self) -> NDArray[np.float64]:
        """Standard deviation of each coordinate of the estimate, (d,); inf where the data do not determine it."""
        deviations: NDArray[np.float64] = np.sqrt(np.diag(self.covariance))
        return deviations


def fit(
    contrasts: ArrayLike,
    wins: ArrayLike,
    trials: ArrayLike | None = None,
    *,
    comparison: Any = "bradley-terry",
    score: str = "likelihood",
    ridge: float = 0.0,
    radius: float | str | None = None,
) -> Fit:
    """Fit theta to finished comparisons.

    theta maximises sum_k w_k log F(z_k'theta) + (n_k - w_k) log F(-z_k'theta) - ridge/2 |theta|^2 on |theta| <= radius;
    with ``score="residual"`` it solves sum_k (w_k - n_k F(z_k'theta)) z_k = ridge theta there.

    Parameters
    ----------
    contrasts : (m, d) array_like of real numbers
        z_k = x_first - x_second.
    wins : (m,) array_like
        How often the first arm won; a tie counts one half.
    trials : (m,) array_like, optional
        Of how many comparisons. None: of one each.
    comparison : str or comparison model
        "bradley-terry", "thurstone", "exponential", or a model with its scale. (The coefficients of a probit regression
        are those of ``Thurstone(sigma=0.5**0.5)``.)
    score : {"likelihood", "residual"}
        Maximum likelihood, or the paper's equation. They agree for Bradley-Terry only.
    ridge : float, default 0.0
        Strength of the quadratic penalty.
    radius : float, "auto" or None
        Largest length of theta. "auto": 20 for the length sqrt(sum (max|z_k| theta_k)^2), which ignores the units of
        the features. None: no bound.

    Returns
    -------
    Fit

    Raises
    ------
    ValueError
        For an argument of the wrong shape or outside its range, with its name.

    Warns
    -----
    UserWarning
        When the answers are separated, so that there is no finite estimate, when only the automatic ball keeps it
        finite, or when the search did not converge.

    Notes
    -----
    Newton's method, O(m d^2) a pass, with usually fewer than 10 passes; separated answers take some 40. The estimate is
    good to 1e-9 of its standard errors. Where the contrasts do not span all directions, the shortest of the equally
    good estimates is returned. For an F of one's own that is not log-concave the maximum may be a local one.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), equations (9) and (10).

    Examples
    --------
    >>> import fastcolst as fc
    >>> found = fc.fit([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]], wins=[7, 6, 3], trials=[10, 10, 5])
    >>> found.theta.round(3), found.standard_errors.round(3), found.status
    (array([0.837, 0.414]), array([0.587, 0.563]), 'interior')
    """
    found = fitted(contrasts, wins, trials, comparison=comparison, score=score, ridge=ridge, radius=radius)
    warn_of(found, radius, stacklevel=3)
    return found


def fitted(
    contrasts: ArrayLike,
    wins: ArrayLike,
    trials: ArrayLike | None,
    *,
    comparison: Any,
    score: str,
    ridge: float,
    radius: float | str | None,
    name: str = "contrasts",
) -> Fit:
    """As :func:`fit`, without a warning; ``name`` is what errors call the contrasts."""
    rows = feature_rows(name, contrasts, None)
    won = non_negative_numbers("wins", wins, len(rows))
    tried = np.ones(len(rows)) if trials is None else non_negative_numbers("trials", trials, len(rows))
    if np.any(won > tried):
        k = int(np.argmax(won > tried))
        raise ValueError(f"wins[{k}] is {won[k]:g} of {tried[k]:g} trials; at most as many wins as trials are wanted")
    rows, won, tried = rows[tried > 0.0], won[tried > 0.0], tried[tried > 0.0]
    if len(rows) == 0:
        raise ValueError("trials is 0 everywhere; at least one comparison is wanted")
    model = comparison_model(comparison)
    penalty = number("ridge", ridge)
    kind = score_code(choice("score", score, SCORES), "fit")
    is_auto = plain_text(radius) == "auto"
    bound = AUTO_RADIUS if is_auto else _radius(radius)
    scales = np.abs(rows).max(axis=0)
    _check_sizes(name, scales, penalty)

    objective = Objective(model, kind, penalty, bound, is_auto)
    lost = tried - won
    signed = np.concatenate([rows[won > 0.0], -rows[lost > 0.0]])
    evidence = Evidence.new(History.of(signed, np.concatenate([won[won > 0.0], lost[lost > 0.0]])), SETTINGS)
    evidence.features["scale"] = scales
    _maximise(objective, evidence)
    theta, status = evidence.theta, int(evidence.progress["status"])

    # from here on features have the scale 1, so that ranks and flat directions do not depend on their units
    units = np.where(scales > 0.0, scales, 1.0)
    rows = rows / units
    known, unknown = _directions((rows.T * tried) @ rows + np.diag(penalty / units**2))
    if unknown.shape[1] > 0:
        theta -= _superfluous(theta, unknown / units[:, None], scales if is_auto else np.ones_like(scales))
    log_likelihood, slope, variance = _summary(objective, rows, np.column_stack([won, lost]), theta * units)
    slope += np.diag(penalty / units**2)
    values, vectors = np.linalg.eigh(known.T @ slope @ known)
    axes = known @ vectors
    at_zero = float(weight(model, 0.0) if objective.score == 0 else pdf(model, 0.0))
    values /= at_zero
    flat = values <= FLAT[0]
    if penalty == 0.0 and evidence.progress["multiplier"] == 0.0:
        for level in FLAT:
            if _separated(signed, theta, axes[:, values <= level] / units[:, None]):
                status, flat = SEPARATED, values <= level
                break
    inverse = (axes[:, ~flat] / (at_zero * values[~flat])) @ axes[:, ~flat].T
    loose = np.hstack([unknown, axes[:, flat] / np.linalg.norm(axes[:, flat], axis=0)])
    sandwich = inverse @ variance @ inverse
    covariance = _with_infinite((sandwich + sandwich.T) / 2.0, loose) / np.outer(units, units)
    for array in (theta, covariance):
        array.flags.writeable = False
    passes = int(evidence.progress["passes"])
    return Fit(theta, covariance, log_likelihood, STATUSES[status], passes)


def _check_sizes(name: str, scales: NDArray[np.float64], ridge: float) -> None:
    """Refuse features whose squares vanish, and a ridge that overflows in units in which features have the size 1."""
    tiny = (scales > 0.0) & (scales < SMALLEST_SCALE)
    if np.any(tiny):
        raise ValueError(f"{name}[:, {int(np.argmax(tiny))}] is so small that its squares vanish: scale it up")
    size = float(np.where(scales > 0.0, scales, 1.0).min())
    if ridge / size > LARGEST_RIDGE * size:
        raise ValueError(
            f"ridge is {ridge:g}, for features of size {size:g}; at most {LARGEST_RIDGE:g} times the square of their "
            "size is wanted"
        )


def _radius(value: float | str | None) -> float:
    if value is None:
        return math.inf
    if isinstance(value, str):
        raise ValueError(f"radius is {brief(value)}; a positive number, 'auto' or None is wanted")
    return number("radius", value, positive=True, infinite=True)


def warn_of(found: Fit, radius: float | str | None, stacklevel: int) -> None:
    """Warn of an estimate that is not a maximum, unless the caller chose the ball on which it is one."""
    if found.status == "interior" or (found.status == "boundary" and plain_text(radius) != "auto"):
        return
    warnings.warn(
        f"status {found.status!r}: {_REMEDIES[found.status]}. A ridge > 0 or a smaller radius makes it well defined.",
        UserWarning,
        stacklevel=stacklevel,
    )


def _maximise(objective: Objective, evidence: Evidence) -> None:
    """Solve again and again from there until theta rests.

    Of a log-concave F the second time moves it by less than was asked for, and leaves the square of that. Newton's
    method is slower where F is not log-concave, since it takes no negative curvature, and where separated answers have
    narrow margins: both may take several times the passes that one solve makes.
    """
    progress = evidence.progress
    while progress["passes"] < MOST_PASSES:
        before = evidence.theta.copy()
        penalised = maximise(objective, SETTINGS, evidence, TOLERANCE)
        moved = evidence.theta - before
        if progress["status"] != NOT_CONVERGED and moved @ penalised @ moved <= REST**2:
            return
    progress["status"] = NOT_CONVERGED


@kernel
def _log_likelihood(model: Any, margins: Any, outcomes: Any) -> float:
    """Sum of w log F(e) + (n - w) log F(-e) over margins e (m,), given wins and losses (m, 2). O(m)."""
    total = 0.0
    for i in range(margins.size):
        if outcomes[i, 0] > 0.0:
            total += outcomes[i, 0] * log_cdf(model, margins[i])
        if outcomes[i, 1] > 0.0:
            total += outcomes[i, 1] * log_cdf(model, -margins[i])
    return float(total)


@kernel
def _add_information(objective: Any, contrasts: Any, margins: Any, trials: Any, slope: Any, variance: Any) -> None:
    """What the covariance of an estimate is made of.

    Parameters
    ----------
    objective : Objective
    contrasts : (m, d) float64
    margins, trials : (m,) float64
    slope, variance : (d, d) float64
        The expected slope and the variance of the score, without the ridge, are added to these.

    Notes
    -----
    O(m d^2).
    """
    d = contrasts.shape[1]
    model = objective.model
    for i in range(margins.size):
        e = margins[i]
        if cdf(model, -np.abs(e)) == 0.0:
            continue  # certain as far as numbers tell: no information, though a quotient of zeros would be nan
        if objective.score == 0:
            bent = spread = trials[i] * weight(model, e)
        else:
            bent = trials[i] * pdf(model, e)
            spread = trials[i] * cdf(model, e) * cdf(model, -e)
        for k in range(d):
            for j in range(d):
                product = contrasts[i, k] * contrasts[i, j]
                slope[k, j] += bent * product
                variance[k, j] += spread * product


def _summary(
    objective: Objective, rows: NDArray[np.float64], outcomes: NDArray[np.float64], theta: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Log-likelihood at theta, expected slope and variance of the score there."""
    margins, d = rows @ theta, len(theta)
    slope, variance = np.zeros((d, d)), np.zeros((d, d))
    log_likelihood = _log_likelihood(objective.model, margins, outcomes)
    _add_information(objective, rows, margins, outcomes.sum(axis=1), slope, variance)
    return float(log_likelihood), slope, variance


def _directions(gram: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bases of what a Gram matrix G knows and of what it does not, (d, r) and (d, d - r).

    The first has B'GB = I, the second is orthonormal.
    """
    values, vectors = np.linalg.eigh(gram)
    firm = values > RANK_TOLERANCE * len(values) * values[-1]
    return vectors[:, firm] / np.sqrt(values[firm]), vectors[:, ~firm]


def _superfluous(
    theta: NDArray[np.float64], unknown: NDArray[np.float64], metric: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The part of theta along directions of which the data know nothing, without which it is shortest."""
    lengths = np.linalg.lstsq(metric[:, None] * unknown, metric * theta, rcond=None)[0]
    part: NDArray[np.float64] = unknown @ lengths
    return part


def _separated(signed: NDArray[np.float64], theta: NDArray[np.float64], flat: NDArray[np.float64]) -> bool:
    """Whether theta, or its part along flat directions (d, r), explains answers and contradicts none."""
    if np.all(signed @ theta > 0.0):
        return True
    along = signed @ flat  # of size |z'theta| for the answers that pulled theta there, 0 for the others
    pulled = along @ np.linalg.lstsq(along, signed @ theta, rcond=None)[0] if flat.shape[1] > 0 else np.zeros(1)
    return bool(pulled.max() > 0.0 and pulled.min() >= -1e-5 * pulled.max())


def _with_infinite(covariance: NDArray[np.float64], loose: NDArray[np.float64]) -> NDArray[np.float64]:
    """A covariance in which the coordinates that take part in the directions ``loose`` (d, r) are unknown."""
    unknown = np.any(np.abs(loose) > 1e-6, axis=1)
    covariance[unknown] = math.nan
    covariance[:, unknown] = math.nan
    covariance[unknown, unknown] = math.inf
    return covariance
