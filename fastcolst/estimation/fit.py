"""Estimates from finished comparisons: the maximum-likelihood fit with its standard errors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst._blas import eigh, on_one_thread
from fastcolst._checks import answer, brief, choice, non_negative_numbers, number, plain_text
from fastcolst.comparison import comparison_model, pdf, weight
from fastcolst.estimation.concavity import is_log_concave
from fastcolst.estimation.designs import Contrasts, Design, check_labels, codes_of, contrasts_of, wins_of
from fastcolst.estimation.history import History
from fastcolst.estimation.identification import Knowledge, knowledge_of, known_directions, shortest
from fastcolst.estimation.lapses import profiled, rates_of, steps_to
from fastcolst.estimation.likelihood import informations, log_likelihood, pulls
from fastcolst.estimation.mle import AUTO_RADIUS
from fastcolst.estimation.newton import maximise
from fastcolst.estimation.objective import Objective
from fastcolst.estimation.rating import Estimate, Fit
from fastcolst.estimation.records import BOUNDARY, NOT_CONVERGED, SEPARATED, STATUSES, Evidence, Settings
from fastcolst.estimation.separation import CONTRADICTION, FLAT, of_no_information, receding_subspace, runaway
from fastcolst.estimation.words import SCORES, score_code
from fastcolst.lapse import Lapse

__all__ = ["COVARIANCES", "Fit", "Found", "apart", "fit", "fitted", "warn_of"]

Array = NDArray[np.float64]

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

SHORTEST_RADIUS = 1e-100
"""The square of a shorter one is 0."""

COVARIANCES = ("posterior", "sandwich")

MOST_NAMED = 5
"""Groups of items, and items of a group, that a warning names."""

_TROUBLES = {
    "separated": "in some direction theta explains the answers the better the longer it is, so that there is no finite "
    "estimate; theta is a point of high likelihood",
    "boundary": "the maximum lies on the ball that radius='auto' stands for, and would be far outside",
    "not-converged": "the maximum was not reached; theta is the last point",
}


def fit(
    contrasts: Any,
    wins: ArrayLike,
    trials: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    comparison: Any = "bradley-terry",
    score: str = "likelihood",
    ridge: float = 0.0,
    radius: float | str | None = None,
    position: bool = False,
    covariates: Any = None,
    names: Any = None,
    clusters: Any = None,
    covariance: str = "posterior",
    lapse: Any = None,
) -> Fit:
    """Fit theta to finished comparisons.

    theta maximises sum_k v_k (w_k log F(z_k'theta) + (n_k - w_k) log F(-z_k'theta)) - ridge/2 |theta|^2 on
    |theta| <= radius; with ``score="residual"`` it solves sum_k v_k (w_k - n_k F(z_k'theta)) z_k = ridge theta there.

    Parameters
    ----------
    contrasts : (m, d) array_like of real numbers, (m, d) SciPy sparse matrix, or (m, 2) texts
        z_k = x_first - x_second. Whatever has the method ``tocsr`` is taken as sparse. Texts are the names of two items
        each, the first one's first: a feature for every item, 1 where it is the first and -1 where it is the second.
        Two columns of integers, none negative, may be ids of items and are refused, of lists and arrays where they go
        beyond 1 and no row has an id twice: as texts they are names, as floats features.
    wins : (m,) array_like
        How often the first arm won; a tie counts one half, and shares between 0 and 1 are fine. With texts for
        contrasts also texts: the name of the one of the row's two items that won, or of its column, where the table
        has names (``battles[["model_a", "model_b"]]`` with "model_a" for the first), or "tie".
    trials : (m,) array_like, optional
        Of how many comparisons. None: of one each.
    weights : (m,) array_like, optional
        v_k, how much each row counts, positive: v = 2 is the row twice. None: 1.
    comparison : str or comparison model
        "bradley-terry", "thurstone", "exponential", or a model with its scale. (The coefficients of a probit regression
        are those of ``Thurstone(sigma=0.5**0.5)``.)
    score : {"likelihood", "residual"}
        Maximum likelihood, or the paper's equation. They agree for Bradley-Terry only.
    ridge : float, default 0.0
        Strength of the quadratic penalty, that of the position included.
    radius : float, "auto" or None
        Largest length of theta. "auto": 20 for the length sqrt(sum (max|z_k| theta_k)^2), which ignores the units of
        the features. None: no bound.
    position : bool, default False
        Estimate the advantage of being shown first, a constant 1 beside the contrasts. theta leaves it out; it is
        ``position`` of the result.
    covariates : (m, c) array_like or dict of (m,), optional
        Columns beside the contrasts, such as 1 where the first plays at home, -1 where the second does and 0 on neutral
        ground. Their coefficients stand behind the others in theta; rankings leave them out.
    names : texts, optional
        Of the features, covariates included. None: of items, and of the columns of data frames, their own.
    clusters : (m,) array_like or "pair", optional
        A label for each row, the judge for example: answers with one label may depend on each other. The covariance is
        then the clustered one, with the factor g/(g - 1) for g labels, of which there should be many more than
        features: a warning tells of fewer. "pair": equal or opposite contrasts.
    covariance : {"posterior", "sandwich"}
        Of an estimate with a ridge. "posterior": the ridge counts as knowledge of its own, so that a feature that no
        comparison tells anything of has its standard deviation, ridge^-1/2. "sandwich": that of the estimate over
        answers, which for such a feature is 0. Without a ridge they are the same.
    lapse : "profile" or (k,) array_like, optional
        Estimate the share e of careless answers, each right by chance: the likelihood of ``fc.Lapse(comparison, e)`` is
        profiled over these rates, from 0 to 1/2 for "profile", and theta is that of the likeliest. The result has the
        profile as ``lapse`` and the model as ``comparison``; errors of theta take the rate for known.

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
    good estimates is returned, with its covariance. For an F of one's own that is not log-concave the maximum may be a
    local one; of :class:`fastcolst.Lapse` it is that which grows out of the only one without lapses.

    Names of items and sparse matrices stay sparse, and rows that are equal or opposite become one with their wins and
    trials: 1,000,000 battles of 300 items are at most 44,850 rows (twice that with ``position``), and a pass over them
    costs four operations a row. The covariance is dense, (d, d).

    References
    ----------
    Bengs, Saha, Huellermeier (2022), equations (9) and (10).

    Examples
    --------
    >>> import fastcolst as fc
    >>> found = fc.fit([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]], wins=[7, 6, 3], trials=[10, 10, 5])
    >>> found.theta.round(3), found.standard_errors.round(3), found.status
    (array([0.837, 0.414]), array([0.587, 0.563]), 'interior')
    >>> found = fc.fit([["a", "b"], ["b", "c"], ["c", "a"]], wins=[6, 7, 2], trials=[10, 10, 10])
    >>> found.names, found.theta.round(3), found.standard_errors.round(3)
    (('a', 'b', 'c'), array([ 0.591,  0.149, -0.741]), array([0.334, 0.317, 0.346]))
    >>> fc.fit([["a", "b"], ["b", "a"], ["a", "b"]], wins=["a", "a", "b"]).theta.round(3)
    array([ 0.347, -0.347])
    """
    found = fitted(
        contrasts,
        wins,
        trials,
        weights=weights,
        comparison=comparison,
        score=score,
        ridge=ridge,
        radius=radius,
        position=position,
        covariates=covariates,
        names=names,
        clusters=clusters,
        covariance=covariance,
        lapse=lapse,
    )
    warn_of(found, radius, stacklevel=3)
    return found


def fitted(
    contrasts: Any,
    wins: ArrayLike,
    trials: ArrayLike | None,
    *,
    weights: ArrayLike | None,
    comparison: Any,
    score: str,
    ridge: float,
    radius: float | str | None,
    position: bool,
    covariates: Any = None,
    names: Any = None,
    clusters: Any = None,
    covariance: str = "posterior",
    lapse: Any = None,
    name: str = "contrasts",
) -> Fit:
    """As :func:`fit`, without a warning; ``name`` is what errors call the contrasts."""
    given = contrasts_of(name, contrasts, covariates, answer(position, "position"), names)
    answers, n_comparisons = _answers(given, wins_of(wins, trials, given), trials, weights, clusters)
    model = comparison_model(comparison)
    penalty = number("ridge", ridge)
    kind = score_code(choice("score", score, SCORES), "fit")
    rates = rates_of(lapse, model, score)
    is_auto = plain_text(radius) == "auto"
    bound = _radius(radius) if not is_auto else AUTO_RADIUS if penalty == 0.0 else math.inf
    is_posterior = choice("covariance", covariance, COVARIANCES) == "posterior"
    merged = answers.merged()
    scales = answers.design.scales()
    _check_sizes(name, scales, penalty)
    if answers.groups is not None:  # at last: what is refused does not warn
        check_labels(answers.groups, given.n_rated)

    objective = Objective(model, kind, penalty, bound, is_auto)
    evidence = Evidence.new(History.new(len(scales), 1), SETTINGS)
    evidence = evidence._replace(history=merged.design.history(merged.won, merged.lost))
    evidence.features["scale"] = scales
    profile = None
    if rates is None:
        for step in steps_to(model):
            _maximise(objective._replace(model=step), evidence)
    else:

        def solve(rate: float, start: Array | None) -> tuple[float, Array]:
            evidence.theta[:] = 0.0 if start is None else start
            for step in steps_to(Lapse(model, rate)) if start is None else [Lapse(model, rate)]:
                _maximise(objective._replace(model=step), evidence)
            return _penalised(step, merged, penalty, evidence.theta), evidence.theta.copy()

        profile, evidence.theta[:] = profiled(rates, solve)
        objective = objective._replace(model=Lapse(model, profile.rate))
    found = on_one_thread(len(evidence.theta), _learned, objective, evidence, answers, merged, is_posterior)
    theta, covariance_of_theta, position_found = apart(found, len(given.names))
    return Fit(
        theta,
        covariance_of_theta,
        found.log_likelihood,
        STATUSES[found.status],
        int(evidence.progress["passes"]),
        given.names,
        given.names[: given.n_items],
        position_found,
        n_comparisons,
        objective.model,
        found.knowledge.part(list(range(len(given.names)))),
        profile,
    )


class Answers(NamedTuple):
    """Rows of a design, how often the first won and lost each (with weights), and perhaps which cluster each is of."""

    design: Design
    won: Array
    lost: Array
    groups: NDArray[np.int64] | None

    def merged(self) -> Answers:
        """What tells of theta all the same: rows that say the same may be one, whatever their clusters."""
        return Answers(*self.design.merged(self.won, self.lost), None)

    def unmoved(self, directions: Array) -> Answers:
        """The same, as if those that some of these directions (d, s) move had not been given."""
        moves = np.abs(self.design.times(directions)).max(axis=1, initial=0.0)
        still = moves <= CONTRADICTION * moves.max(initial=0.0)
        return self._replace(won=self.won * still, lost=self.lost * still)


class Found(NamedTuple):
    """theta (D,), with the constant of the first place where there is one, and what is known of it."""

    theta: Array
    knowledge: Knowledge
    log_likelihood: float
    status: int


def _answers(given: Contrasts, wins: Any, trials: Any, weights: Any, clusters: Any) -> tuple[Answers, float]:
    """Answers, checked, without rows of which there are none, and how many there are, weights apart."""
    m = len(given.design)
    won = non_negative_numbers("wins", wins, m)
    tried = np.ones(m) if trials is None else non_negative_numbers("trials", trials, m)
    if np.any(won > tried):
        k = int(np.argmax(won > tried))
        raise ValueError(f"wins[{k}] is {won[k]:g} of {tried[k]:g} trials; at most as many wins as trials are wanted")
    used = tried > 0.0
    if not used.any():
        raise ValueError("trials is 0 everywhere; at least one comparison is wanted")
    lost, n_comparisons = tried - won, float(tried.sum())
    if weights is not None:
        counted = non_negative_numbers("weights", weights, m)
        if not np.all(counted > 0.0):
            raise ValueError(f"weights[{int(np.argmin(counted))}] is 0; a positive finite number is wanted")
        won, lost = counted * won, counted * lost
    groups = None if clusters is None else _groups(clusters, given)
    design = given.design
    if not used.all():
        design, won, lost = design.some(used), won[used], lost[used]
        groups = None if groups is None else np.unique(groups[used], return_inverse=True)[1]
    return Answers(design, won, lost, groups), n_comparisons


def _groups(clusters: Any, given: Contrasts) -> NDArray[np.int64]:
    """Numbers of the clusters that rows belong to, (m,)."""
    word = plain_text(clusters)
    if word is not None and word != "pair":
        raise ValueError(f"clusters is {brief(clusters)}; a label for each row, 'pair' or None is wanted")
    if word == "pair":
        return given.design.pairs(given.n_rated)
    return codes_of("clusters", clusters, len(given.design))


def _penalised(model: Any, answers: Answers, ridge: float, theta: Array) -> float:
    """What is maximised, at theta."""
    outcomes = np.column_stack([answers.won, answers.lost])
    return float(log_likelihood(model, answers.design.times(theta), outcomes)) - 0.5 * ridge * float(theta @ theta)


def _learned(objective: Objective, evidence: Evidence, answers: Answers, merged: Answers, is_posterior: bool) -> Found:
    """The shortest estimate, and its covariance.

    Features have the scale 1 here, so that ranks and flat directions do not depend on their units.
    """
    design, won, lost, _ = merged
    scales, status = evidence.features["scale"], int(evidence.progress["status"])
    units = np.where(scales > 0.0, scales, 1.0)
    metric = scales if objective.scaled else np.ones_like(scales)
    prior, scaled = np.diag(objective.ridge / units**2), design.over(units)
    gram = scaled.gram(won + lost) + prior
    known, unknown = known_directions(gram)
    theta = shortest(evidence.theta, unknown / units[:, None], metric)
    margins = scaled.times(theta * units)
    highest = float(log_likelihood(objective.model, margins, np.column_stack([won, lost])))
    at_zero = float(weight(objective.model, 0.0) if objective.score == 0 else pdf(objective.model, 0.0))
    slope, variance = _informations(objective, scaled, margins, won + lost)
    values, vectors = eigh(known.T @ (slope + prior) @ known)
    axes, shares = known @ vectors, values / at_zero
    # Where log F is not concave theta may run away though answers are not separated.
    flat = of_no_information(shares) if is_log_concave(objective.model) else shares <= FLAT[0]
    stays, leaves = known, np.empty((len(theta), 0))
    if objective.ridge == 0.0 and evidence.progress["multiplier"] > 0.0 and not objective.scaled:
        status = BOUNDARY  # of the caller's ball, on which the maximum is where it is
    elif objective.ridge == 0.0:
        receding = runaway(_margins_of(design, won, lost), theta, axes / units[:, None], shares)
        if not receding.any() and status == SEPARATED:
            stays, leaves = receding_subspace(evidence.history, scales, theta, gram)
        if receding.any():
            status, flat = SEPARATED, receding
        elif evidence.progress["multiplier"] > 0.0:
            status = BOUNDARY
        elif flat.any():
            status = NOT_CONVERGED
    away, axes, values = axes[:, flat], axes[:, ~flat], values[~flat]
    if leaves.shape[1] > 0:
        # The ball is so short that answers which become certain without it tell something still: they do not count.
        status, away = SEPARATED, leaves
        answers, merged = (each.unmoved(leaves / units[:, None]) for each in (answers, merged))
        slope, variance = _informations(objective, scaled, margins, merged.won + merged.lost)
        values, vectors = eigh(stays.T @ slope @ stays)
        axes = stays @ vectors
    if answers.groups is not None:
        variance = _clustered(objective, answers, answers.groups, theta, units)
    if is_posterior:
        variance = variance + prior
    knowledge = knowledge_of((axes / values) @ axes.T, away, variance, unknown, units, metric)
    return Found(theta, knowledge, highest, status)


def _informations(objective: Objective, scaled: Design, margins: Array, trials: Array) -> tuple[Array, Array]:
    """Minus the derivative of the score by theta, and the variance of the score, (d, d) each."""
    added = np.empty((2, len(margins)))
    informations(objective, margins, trials, added)
    return scaled.information(added[0]), scaled.information(added[1])


def _clustered(objective: Objective, answers: Answers, groups: NDArray[np.int64], theta: Array, units: Array) -> Array:
    """Variance of the score, estimated from the sums of scores over clusters, for features in units (d,)."""
    scaled, n_groups = answers.design.over(units), int(groups.max()) + 1
    pulled = np.empty(len(groups))
    pulls(objective, scaled.times(theta * units), answers.won, answers.lost, pulled)
    return scaled.scatter(pulled, groups) * (n_groups / (n_groups - 1.0))


def apart(found: Found, d: int) -> tuple[Array, Array, Estimate | None]:
    """theta (d,) and its covariance, read-only, and the advantage of the first place where there is one more."""
    position = None
    if len(found.theta) > d:
        first = np.eye(d + 1)[-1:]
        told = bool(found.knowledge.is_identified(first)[0])
        variance = float(found.knowledge.variances(first)[0])
        position = Estimate.of(float(found.theta[-1]) if told else math.nan, variance, 0.95)
    theta, covariance = found.theta[:d].copy(), found.knowledge.open_covariance()[:d, :d].copy()
    for array in (theta, covariance):
        array.flags.writeable = False
    return theta, covariance, position


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
    radius = number("radius", value, positive=True, infinite=True)
    if radius < SHORTEST_RADIUS:
        raise ValueError(f"radius is {brief(value)}; at least {SHORTEST_RADIUS:g}, 'auto' or None is wanted")
    return radius


def warn_of(
    found: Fit, radius: float | str | None, stacklevel: int, remedy: str = "A ridge > 0 or a smaller radius"
) -> None:
    """Warn of an estimate that is not a maximum, unless the caller chose the ball on which it is one."""
    if found.status == "interior" or (found.status == "boundary" and plain_text(radius) != "auto"):
        return
    groups = found.groups if found.status == "separated" else ()
    told = [", ".join(map(repr, group[:MOST_NAMED])) + ", ..." * (len(group) > MOST_NAMED) for group in groups[1:]]
    listed = ", ".join(f"{{{group}}}" for group in told[:MOST_NAMED]) + ", ..." * (len(told) > MOST_NAMED)
    without = f" Without a finite difference from the others: {listed}; see groups." if told else ""
    warnings.warn(
        f"status {found.status!r}: {_TROUBLES[found.status]}.{without} {remedy} makes it well defined.",
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
    most_passes = progress["passes"] + MOST_PASSES
    while progress["passes"] < most_passes:
        before = evidence.theta.copy()
        penalised = maximise(objective, SETTINGS, evidence, TOLERANCE)
        moved = evidence.theta - before
        if progress["status"] != NOT_CONVERGED and moved @ penalised @ moved <= REST**2:
            return
    progress["status"] = NOT_CONVERGED


def _margins_of(design: Design, won: Array, lost: Array) -> Callable[[Array], Array]:
    """Margins z~'v of answers, won ones first, for a vector or the columns of a matrix."""

    def margins_of(vectors: Array) -> Array:
        margins = design.times(vectors)
        return np.concatenate([margins[won > 0.0], -margins[lost > 0.0]])

    return margins_of
