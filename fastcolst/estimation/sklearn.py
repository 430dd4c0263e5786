"""Estimates from finished comparisons as a classifier that keeps scikit-learn's conventions."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst._checks import as_array, brief, feature_rows, looked_at, non_negative_numbers, real_numbers
from fastcolst.comparison import comparison_model, probabilities
from fastcolst.estimation.designs import column_names
from fastcolst.estimation.fit import fitted, warn_of

__all__ = ["PreferenceRegression"]


class PreferenceRegression:
    """Preference model as a scikit-learn classifier of contrasts, without an intercept.

    P(y = positive | z) = F(z'theta). It keeps scikit-learn's conventions (``clone``, pipelines, cross-validation, grid
    search) without importing it.

    Parameters
    ----------
    comparison, score, ridge, radius, position
        As for :func:`fastcolst.fit`.
    positive : optional
        The answer that is a win of the first arm: ``positive="left"``. None: True, or the larger of two numbers; of two
        texts none is larger in that sense, and one must be named.

    Attributes
    ----------
    coef_ : (1, n_features) float64
        theta, the utilities' coefficients, whichever answer ``positive`` is.
    classes_ : (2,) array
        The two answers in their sorted order, as scorers expect them.
    positive_ : one of them
        That which is a win of the first arm.
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
    Swapping the arms, (-z, not y), must mean the same; hence no intercept. The advantage of being shown first is
    ``position=True``: ``fit_.position``, which ``coef_`` leaves out, and predictions, whose first arm is shown first,
    have in them.

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
        position: bool = False,
        positive: Any = None,
    ) -> None:
        self.comparison = comparison
        self.score = score
        self.ridge = ridge
        self.radius = radius
        self.position = position
        self.positive = positive

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

    def fit(self, Z: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit theta.

        Parameters
        ----------
        Z : (m, n_features) array_like of real numbers
            Contrasts x_first - x_second.
        y : (m,) array_like
            Answers of two kinds.
        sample_weight : (m,) array_like, optional
            How much each answer counts, see ``weights`` of :func:`fastcolst.fit`; with 0 a row is left out, as
            scikit-learn wants it.

        Returns
        -------
        PreferenceRegression
            Itself.

        Raises
        ------
        ValueError
            When ``Z`` is not a finite matrix, ``y`` does not hold two kinds of answers, one for each row, or two texts
            of which ``positive`` names none, or a parameter is out of range.
        TypeError
            When an entry of ``Z`` is an object that is no number, or ``Z`` is sparse: so scikit-learn wants it.
        """
        rows = _matrix(Z)
        classes, index = _binary(y, len(rows))
        winner = _winner(self.positive, classes)
        used = _used(sample_weight, len(rows))
        parameters = self.get_params()
        del parameters["positive"]
        names = column_names(Z)
        self.fit_ = fitted(
            rows[used],
            (index == winner)[used].astype(np.float64),
            None,
            **parameters,
            weights=None if sample_weight is None else real_numbers("sample_weight", sample_weight)[used],
            names=names,
            name="Z",
        )
        warn_of(self.fit_, self.radius, stacklevel=3)
        self.coef_ = self.fit_.theta[None, :]
        self.classes_ = classes
        self.positive_ = classes[winner]
        self.n_features_in_ = rows.shape[1]
        self.comparison_ = comparison_model(self.comparison)
        self.n_iter_ = self.fit_.iterations
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def decision_function(self, Z: ArrayLike) -> NDArray[np.float64]:
        """Margins, (m,): z'theta, its negative where ``positive_`` is ``classes_[0]``.

        They are positive where ``classes_[1]`` is the likelier answer.
        """
        if not hasattr(self, "fit_"):
            raise _not_fitted(self)
        names = column_names(Z)
        if names is not None and hasattr(self, "feature_names_in_") and names != tuple(self.feature_names_in_):
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
        if self.fit_.position is not None:
            margins += self.fit_.position.estimate
        return margins if self.positive_ == self.classes_[1] else -margins

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


_PARAMETERS = ("comparison", "score", "ridge", "radius", "position", "positive")


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


def _binary(y: Any, size: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The two answers, sorted, and which of them was given in each row."""
    if y is None:
        raise ValueError("PreferenceRegression requires y to be passed, but the target y is None; answers are wanted")
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
    return classes, index


def _winner(positive: Any, classes: NDArray[Any]) -> int:
    """Which of the two answers is a win of the first arm."""
    first, second = classes.tolist()
    if positive is None:
        if isinstance(first, (str, bytes)) or isinstance(second, (str, bytes)):
            raise ValueError(
                f"y holds the classes {brief(first)} and {brief(second)}, and positive is None; the one of them that "
                "is a win of the first arm is wanted"
            )
        return 1
    for k in range(2):
        if np.isscalar(positive) and looked_at(lambda given, k=k: bool(given == classes[k]), positive, False):
            return k
    raise ValueError(f"positive is {brief(positive)}; one of the classes {brief(first)} and {brief(second)} is wanted")


def _used(weights: Any, size: int) -> NDArray[np.bool_]:
    """Rows whose weights are not 0."""
    if weights is None:
        return np.ones(size, np.bool_)
    used: NDArray[np.bool_] = non_negative_numbers("sample_weight", weights, size) > 0.0
    if not used.any():
        raise ValueError("sample_weight is zero everywhere; a positive weight is wanted")
    return used
