"""Estimates from finished comparisons: the maximum-likelihood fit with its standard errors, and a classifier of it."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst._checks import (
    as_array,
    brief,
    choice,
    feature_rows,
    looked_at,
    non_negative_numbers,
    number,
    plain_text,
    real_numbers,
)
from fastcolst._compile import kernel
from fastcolst.comparison import cdf, comparison_model, log_cdf, pdf, weight
from fastcolst.estimation import AUTO_RADIUS, SCORES, score_code
from fastcolst.likelihood import (
    METRIC,
    MU,
    NOT_CONVERGED,
    PASSES,
    SCALES,
    SEPARATED,
    STATUS,
    STATUSES,
    WARM,
    Evidence,
    History,
    Objective,
    solve,
)
from fastcolst.policies.kernels import probabilities

__all__ = ["Fit", "PreferenceRegression", "fit"]

TOLERANCE = 1e-7
"""Standard errors to which Newton's method is asked for the maximum; its last step squares them."""

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


# --- fit ----------------------------------------------------------------------------------------------------


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
    found = _fit(contrasts, wins, trials, comparison=comparison, score=score, ridge=ridge, radius=radius)
    _warn(found, radius, stacklevel=3)
    return found


def _fit(
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

    objective = Objective(model, kind, penalty, bound)
    lost = tried - won
    signed = np.concatenate([rows[won > 0.0], -rows[lost > 0.0]])
    evidence = Evidence.new(History.of(signed, np.concatenate([won[won > 0.0], lost[lost > 0.0]])))
    evidence.vectors[SCALES] = scales
    if is_auto:
        evidence.vectors[METRIC] = scales
    _maximise(objective, evidence)
    theta, status = evidence.theta, int(evidence.codes[STATUS])

    # from here on features have the scale 1, so that ranks and flat directions do not depend on their units
    units = np.where(scales > 0.0, scales, 1.0)
    rows = rows / units
    known, unknown = _directions((rows.T * tried) @ rows + np.diag(penalty / units**2))
    if unknown.shape[1] > 0:
        theta -= _superfluous(theta, unknown / units[:, None], evidence.vectors[METRIC])
    log_likelihood, slope, variance = _summary(objective, rows, np.column_stack([won, lost]), theta * units)
    slope += np.diag(penalty / units**2)
    values, vectors = np.linalg.eigh(known.T @ slope @ known)
    axes = known @ vectors
    at_zero = float(weight(model, 0.0) if objective.score == 0 else pdf(model, 0.0))
    values /= at_zero
    flat = values <= FLAT[0]
    if penalty == 0.0 and evidence.numbers[MU] == 0.0:
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
    passes = int(evidence.codes[PASSES])
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


def _warn(found: Fit, radius: float | str | None, stacklevel: int) -> None:
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
    codes = evidence.codes
    while codes[PASSES] < MOST_PASSES:
        before = evidence.theta.copy()
        _solve_anew(objective, evidence)
        moved = evidence.theta - before
        if codes[STATUS] != NOT_CONVERGED and moved @ evidence.penalised @ moved <= REST**2:
            return
    codes[STATUS] = NOT_CONVERGED


def _solve_anew(objective: Objective, evidence: Evidence) -> None:
    evidence.codes[WARM] = 0
    solve(objective, evidence, TOLERANCE)


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


# --- the classifier -----------------------------------------------------------------------------------------


class PreferenceRegression:
    """Preference model as a scikit-learn classifier of contrasts, without an intercept.

    P(y = classes_[1] | z) = F(z'theta). It keeps scikit-learn's conventions (``clone``, pipelines, cross-validation,
    grid search) without importing it.

    Parameters
    ----------
    comparison, score, ridge, radius
        As for :func:`fit`.

    Attributes
    ----------
    coef_ : (1, n_features) float64
        theta.
    classes_ : (2,) array
        The two answers in their sorted order; the second stands for a win of the first arm.
    n_features_in_ : int
    feature_names_in_ : (n_features,) array of str
        The columns of the data frame that was fitted, where it was one.
    comparison_ : comparison model
        With which it was fitted.
    n_iter_ : int
        Passes over the data.
    fit_ : Fit
        With standard errors, log-likelihood and status.

    Notes
    -----
    Swapping the arms, (-z, not y), must mean the same; hence no intercept. An advantage of the first place is a feature
    of its own, 1 in each contrast.

    The parameter ``score`` bears the name of the method ``score``: ``estimator.score`` is the method, and
    ``get_params()["score"]`` the parameter.

    Examples
    --------
    >>> import fastcolst as fc
    >>> model = fc.PreferenceRegression(ridge=1.0).fit([[1.0], [2.0], [-1.0], [0.5]], [1, 1, 0, 0])
    >>> model.predict([[3.0], [-3.0]]), model.score([[1.0]], [1])
    (array([1, 0]), 1.0)
    """

    def __init__(
        self,
        *,
        comparison: Any = "bradley-terry",
        score: str = "likelihood",
        ridge: float = 0.0,
        radius: float | str | None = None,
    ) -> None:
        self.comparison = comparison
        self.score = score
        self.ridge = ridge
        self.radius = radius

    @property
    def score(self) -> Callable[[Any, Any], float]:
        """Mean accuracy of :meth:`predict`, a method: ``score(Z, y)``, with an answer y for each row of Z."""
        return self._accuracy

    @score.setter
    def score(self, value: str) -> None:
        self.__dict__["score"] = value  # where scikit-learn looks for what the constructor was given

    def _accuracy(self, Z: Any, y: Any) -> float:
        likelier = self.predict(Z)
        answers = _labels(y, len(likelier))
        accuracy = looked_at(lambda given: float(np.mean(likelier == given)), answers)
        if accuracy is None:
            raise ValueError(f"y is {brief(y)}; answers that can be compared with classes_ are wanted")
        return accuracy

    # --- parameters -----------------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments, as they were given."""
        return {name: self.__dict__[name] for name in _PARAMETERS}

    def set_params(self, **parameters: Any) -> Self:
        """Change arguments of the constructor; they are checked by :meth:`fit`."""
        for name in parameters:  # all of them first: a refused call sets none
            if name not in _PARAMETERS:
                raise ValueError(
                    f"{name!r} is no parameter of PreferenceRegression; there are {', '.join(_PARAMETERS)}"
                )
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return f"PreferenceRegression({', '.join(f'{k}={v!r}' for k, v in self.get_params().items())})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags  # only scikit-learn calls this

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(multi_class=False),
            input_tags=InputTags(),
        )

    # --- learning and prediction ----------------------------------------------------------------------------

    def fit(self, Z: ArrayLike, y: ArrayLike) -> Self:
        """Fit theta.

        Parameters
        ----------
        Z : (m, n_features) array_like of real numbers
            Contrasts x_first - x_second.
        y : (m,) array_like
            Answers of two kinds.

        Returns
        -------
        PreferenceRegression
            Itself.

        Raises
        ------
        ValueError
            When ``Z`` is not a finite matrix, ``y`` does not hold two kinds of answers, one for each row, or a
            parameter is out of range.
        TypeError
            When an entry of ``Z`` is an object that is no number, or ``Z`` is sparse: so scikit-learn wants it.
        """
        rows = _matrix(Z)
        classes, second = _binary(y, len(rows))
        parameters = self.get_params()
        names = _column_names(Z)
        self.fit_ = _fit(rows, second, None, **parameters, name="Z")
        _warn(self.fit_, self.radius, stacklevel=3)
        self.coef_ = self.fit_.theta[None, :]
        self.classes_ = classes
        self.n_features_in_ = rows.shape[1]
        self.comparison_ = comparison_model(self.comparison)
        self.n_iter_ = self.fit_.iterations
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def decision_function(self, Z: ArrayLike) -> NDArray[np.float64]:
        """Margins z'theta, (m,); positive where ``classes_[1]`` is the likelier answer."""
        if not hasattr(self, "fit_"):
            raise _not_fitted(self)
        names = _column_names(Z)
        if (
            names is not None
            and hasattr(self, "feature_names_in_")
            and not np.array_equal(names, self.feature_names_in_)
        ):
            raise ValueError(
                f"The feature names should match those that were passed during fit: {list(self.feature_names_in_)}, "
                f"found {list(names)}"
            )
        rows = _matrix(Z)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"Z is not like what was fitted: X has {rows.shape[1]} features, but PreferenceRegression is expecting "
                f"{self.n_features_in_} features as input"
            )
        margins: NDArray[np.float64] = rows @ self.fit_.theta
        return margins

    def predict_proba(self, Z: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of the two answers, (m, 2)."""
        margins = self.decision_function(Z)
        model = self.comparison_
        out = np.empty((2, len(margins)))
        probabilities(model, -margins, out[0])
        probabilities(model, margins, out[1])
        return out.T

    def predict(self, Z: ArrayLike) -> NDArray[Any]:
        """The likelier answers, (m,)."""
        positive = self.decision_function(Z) > 0.0
        likelier: NDArray[Any] = self.classes_[positive.astype(int)]
        return likelier


_PARAMETERS = ("comparison", "score", "ridge", "radius")


# --- what scikit-learn expects to be told, in the words by which its checks know an error --------------------


def _not_fitted(estimator: PreferenceRegression) -> Exception:
    message = f"{estimator!r} is not fitted; call fit first"
    exceptions = sys.modules.get("sklearn.exceptions")  # its own class, where it is in use
    return ValueError(message) if exceptions is None else exceptions.NotFittedError(message)


def _matrix(Z: Any) -> NDArray[np.float64]:
    """Contrasts as a finite float64 matrix."""
    array = None if _is_sparse(Z) else as_array("Z", Z, "not an array of real numbers", "(m, n_features) is wanted")
    if array is None:
        raise TypeError(f"Z is {brief(Z)}; sparse input is not supported, Z.toarray() is wanted")
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: Z must be real")
    if array.dtype.kind == "O":
        try:
            array = real_numbers("Z", array)
        except ValueError as error:
            raise TypeError(f"{error}: an argument must be no string and no object but a number") from None
    if array.ndim != 2:
        raise ValueError(f"Z has shape {array.shape}; (m, n_features) is wanted. Reshape your data: Z.reshape(1, -1)")
    if array.shape[1] == 0:
        raise ValueError(f"Z has 0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError("Z contains NaN or infinity; every feature must be finite")
    return feature_rows("Z", array, None)


def _is_sparse(Z: Any) -> bool:
    return looked_at(lambda rows: hasattr(rows, "toarray"), Z, False)


def _labels(y: Any, size: int) -> NDArray[Any]:
    """Answers of whatever kind, one for each row; a column counts as a vector, with a warning."""
    answers = as_array("y", y, "no array of answers", f"({size},) is wanted, an answer for each row of Z")
    if answers.ndim == 2 and answers.shape[1] == 1:
        exceptions = sys.modules.get("sklearn.exceptions")
        category = UserWarning if exceptions is None else exceptions.DataConversionWarning
        warnings.warn("A column-vector y was passed when a 1d array was expected", category, stacklevel=4)
        answers = answers[:, 0]
    if answers.shape != (size,):
        raise ValueError(f"y has shape {answers.shape}; ({size},) is wanted, an answer for each row of Z")
    return answers


def _binary(y: Any, size: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The two answers, sorted, and where the second was given."""
    if y is None:
        raise ValueError("PreferenceRegression requires y to be passed, but the target y is None")
    answers = _labels(y, size)
    if answers.dtype.kind == "f":
        if not np.isfinite(answers).all():
            raise ValueError("y contains NaN or infinity; answers of two kinds are wanted")
        if np.any(answers != np.rint(answers)):
            raise ValueError("Unknown label type: y is continuous; answers of two kinds are wanted")
    ordered = looked_at(lambda given: np.unique(given, return_inverse=True), answers)
    if ordered is None:
        raise ValueError(f"y is {brief(y)}, which has no order; answers of two kinds are wanted")
    classes, index = ordered
    if len(classes) != 2:
        raise ValueError(
            f"Only binary classification is supported. y holds {len(classes)} class{'es' * (len(classes) != 1)}; "
            "answers of two kinds are wanted"
        )
    return classes, (index == 1).astype(np.float64)


def _column_names(Z: Any) -> NDArray[np.object_] | None:
    """The names of a data frame's columns, where all are strings."""
    names: list[Any] = looked_at(lambda rows: list(getattr(rows, "columns", ())), Z, [])
    return np.array(names, dtype=object) if names and all(isinstance(name, str) for name in names) else None
