"""What a fit tells: coefficients and their errors, differences, probabilities, a ranking of items."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import answer, brief, feature_rows, looked_at, plain_text, real_number, texts, whole_number
from fastcolst._files import optional_import
from fastcolst._words import align
from fastcolst.comparison import probabilities
from fastcolst.estimation.identification import Knowledge
from fastcolst.estimation.lapses import LapseProfile
from fastcolst.estimation.ranking import Ranking, quasi_errors, ranking_of

__all__ = ["Estimate", "Fit"]

Array = NDArray[np.float64]

LISTED = 8
"""Groups, and names of a group, that a summary lists."""


@dataclass(frozen=True)
class Estimate:
    """One number that was estimated.

    Attributes
    ----------
    estimate : float
        nan where the comparisons do not determine it.
    standard_error : float
        inf where they do not, or where the likelihood grows for ever with it.
    interval : (low, high)
        estimate -+ z standard_error, for the level that was asked for.
    """

    estimate: float
    standard_error: float
    interval: tuple[float, float]

    @classmethod
    def of(cls, estimate: float, variance: float, level: float) -> Estimate:
        """With the interval for a level."""
        error = math.sqrt(variance)
        return cls(estimate, error, _interval(estimate, error, level))


@dataclass(frozen=True, eq=False)
class Fit:
    """What :func:`fit` found.

    Attributes
    ----------
    theta : (d,) float64
        The estimate; of equally good ones the shortest.
    covariance : (d, d) float64
        Of the estimate, A^-1 B A^-1, where A is the expected slope of the score plus the ridge, and B its variance over
        answers drawn from the model, plus the ridge as well unless ``covariance="sandwich"`` was asked for. For the
        likelihood without a ridge both are the Fisher information, and with one this is the posterior covariance. Where
        the comparisons do not determine all directions it is that of the shortest estimate, the pseudo-inverse of the
        information. The variance of a feature of which they tell nothing, and of one along which the likelihood grows
        for ever, is inf, and its covariances are nan. With ``clusters`` B is estimated from them.
    log_likelihood : float
        sum w log F + (n - w) log(1 - F) at theta, without binomial coefficients and without the penalty.
    status : str
        "interior", the maximum; "boundary", the maximum on the ball, which a larger ball would move; "separated", there
        is no finite maximum; "not-converged".
    iterations : int
        Passes over the data.
    names : d texts
        Of the features.
    items : texts
        Those of them that are compared: of contrasts in numbers all where each row is 1 for one, -1 for another and 0
        elsewhere, or else none. Covariates are not among them.
    position : Estimate or None
        The advantage of being shown first, where ``position=True``; theta and covariance leave it out.
    comparisons : float
        How many there were.
    comparison : comparison model
        With which it was fitted.
    lapse : LapseProfile or None
        The likelihood of lapse rates, where it was asked for: ``rate``, ``interval``, ``rates``, ``log_likelihoods``.
    is_pseudo : bool
        Whether the likelihood is a pseudo-likelihood, that of pairs into which rankings were broken.
    """

    theta: Array
    covariance: Array = field(repr=False)
    log_likelihood: float
    status: str
    iterations: int
    names: tuple[str, ...] = field(repr=False)
    items: tuple[str, ...] = field(repr=False)
    position: Estimate | None = field(repr=False)
    comparisons: float = field(repr=False)
    comparison: Any = field(repr=False)
    _knowledge: Knowledge = field(repr=False)
    lapse: LapseProfile | None = field(default=None, repr=False)
    is_pseudo: bool = field(default=False, repr=False)

    # --- coefficients ---------------------------------------------------------------------------------------

    @property
    def standard_errors(self) -> Array:
        """Standard deviation of each coordinate of theta, (d,); inf where the comparisons tell nothing of it."""
        deviations: Array = np.sqrt(np.diag(self.covariance))
        return deviations

    @property
    def z(self) -> Array:
        """theta in standard errors, (d,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.theta == 0.0, 0.0, self.theta / self.standard_errors)

    @property
    def p(self) -> Array:
        """Two-sided p-values of theta_k = 0 by the normal law, (d,)."""
        from scipy.special import ndtr

        values: Array = 2.0 * ndtr(-np.abs(self.z))
        return values

    def intervals(self, level: float = 0.95) -> Array:
        """Interval of each coordinate of theta for a level, (d, 2)."""
        width = _quantile(_level(level)) * self.standard_errors
        return np.column_stack([self.theta - width, self.theta + width])

    @property
    def unidentified(self) -> Array:
        """Orthonormal directions in which theta can move without any probability changing, (d, r).

        Of plain ratings it is the one of equal entries: comparisons tell differences, and no level. With a ridge there
        is none.
        """
        return self._knowledge.directions()

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Items among which every difference has a finite estimate, the largest group first."""
        if not self.items:
            return ()
        found = self._knowledge.part(self._rated()).groups()
        return tuple(tuple(self.items[k] for k in group) for group in found)

    # --- differences and probabilities ----------------------------------------------------------------------

    def difference(self, first: Any, second: Any, level: float = 0.95) -> Estimate:
        """How much the utility of the first exceeds that of the second.

        Parameters
        ----------
        first, second : str, int or (d,) array_like
            A name, the number of a feature, or features: both of one kind as a rule, of any kind in fact.
        level : float, default 0.95
            Of the interval, which is for this one difference.

        Returns
        -------
        Estimate
            ``estimate``, ``standard_error`` and ``interval``. Where the comparisons do not tell the difference the
            estimate is nan, and where it has no finite estimate the standard error is inf.

        Raises
        ------
        ValueError
            For a name, a number or features that are none of this fit's.

        Examples
        --------
        >>> import fastcolst as fc
        >>> found = fc.fit([["a", "b"], ["b", "c"], ["c", "a"]], wins=[6, 7, 2], trials=[10, 10, 10])
        >>> found.difference("a", "c")
        Estimate(estimate=1.332..., standard_error=0.602..., interval=(0.151..., 2.512...))
        """
        (one, _), (other, _) = self._features("first", first), self._features("second", second)
        if len(one) != 1 or len(other) != 1:
            raise ValueError(f"first has {len(one)} rows and second {len(other)}; one of each is wanted")
        contrast = one - other
        told = bool(self._knowledge.is_identified(contrast)[0])
        estimate = float(contrast[0] @ self.theta) if told else math.nan
        return Estimate.of(estimate, float(self._knowledge.variances(contrast)[0]), _level(level))

    def predict(self, first: Any, second: Any, position: bool = False) -> Any:
        """Probability that the first beats the second.

        Parameters
        ----------
        first, second : str, int, (d,) array_like, or many of them
            Names, numbers of features, or features, (m, d).
        position : bool, default False
            Whether the first is shown first, so that it has that advantage; the fit must have estimated it.

        Returns
        -------
        float or (m,) float64
            nan where the comparisons do not tell the difference.

        Raises
        ------
        ValueError
            For a name, a number or features that are none of this fit's, and a position that was not estimated.

        Examples
        --------
        >>> import fastcolst as fc
        >>> found = fc.fit([["a", "b"], ["b", "c"], ["c", "a"]], wins=[6, 7, 2], trials=[10, 10, 10])
        >>> round(found.predict("a", "c"), 3), found.predict(["a", "b"], "c").round(3)
        (0.791, array([0.791, 0.709]))
        """
        with_position = answer(position, "position")
        if with_position and self.position is None:
            raise ValueError("position is True; a fit with position=True is wanted")
        (one, is_one), (other, is_other) = self._features("first", first), self._features("second", second)
        if len(one) != len(other) and 1 not in (len(one), len(other)):
            raise ValueError(f"first has {len(one)} rows and second {len(other)}; as many, or one, are wanted")
        contrasts = one - other
        margins = contrasts @ self.theta + (self.position.estimate if with_position and self.position else 0.0)
        out = np.empty(len(margins))
        probabilities(self.comparison, margins, out)
        out[~self._knowledge.is_identified(contrasts)] = math.nan
        return float(out[0]) if is_one and is_other else out

    def _features(self, argument: str, value: Any) -> tuple[Array, bool]:
        """The features that a name, a number or an array stands for, (m, d), and whether it is one row."""
        d = len(self.theta)
        if plain_text(value) is not None or whole_number(value) is not None:
            return np.eye(d)[[self._place(argument, value)]], True
        names: list[Any] = [] if looked_at(lambda given: given.ndim, value, 1) > 1 else looked_at(list, value, [])
        if names and all(plain_text(name) is not None for name in names):
            return np.eye(d)[[self._place(argument, name) for name in names]], False
        is_one = bool(names) and all(looked_at(real_number, entry) is not None for entry in names)
        rows = feature_rows(argument, value, None, 1 if is_one else 2, shape=f"({d},) or (m, {d})")
        if rows.shape[-1] != d:
            raise ValueError(f"{argument} has {rows.shape[-1]} features; {d} are wanted")
        return rows.reshape(-1, d), is_one

    def _place(self, argument: str, value: Any) -> int:
        """The number of the feature that a name or a number stands for."""
        name, number = plain_text(value), whole_number(value)
        if name is not None and name in self.names:
            return self.names.index(name)
        if number is not None and 0 <= number < len(self.names):
            return number
        wanted = ", ".join(map(repr, self.names[:LISTED])) + ", ..." * (len(self.names) > LISTED)
        raise ValueError(f"{argument} is {brief(value)}; a name ({wanted}), its number, or features are wanted")

    # --- items ----------------------------------------------------------------------------------------------

    @property
    def quasi_standard_errors(self) -> Array:
        """Errors q_i of the items, (n_items,), with which sqrt(q_i^2 + q_j^2) is nearly that of a difference.

        One number for each item thus tells the errors of all differences, whichever item is the reference. A quasi
        variance may be negative, whose root is nan, where an item goes with others or with covariates; inf for an item
        that has no finite difference with any other.

        References
        ----------
        Firth, de Menezes (2004), Quasi-variances, Biometrika 91, 65-80.
        """
        return quasi_errors(self._knowledge.part(self._rated())) if self.items else np.empty(0)

    def ranking(
        self, scale: float = 1.0, anchor: dict[str, float] | None = None, *, items: Any = None, level: float = 0.95
    ) -> Ranking:
        """Order the items by their utilities, with intervals that hold for all of them at once.

        Parameters
        ----------
        scale : float, default 1.0
            Ratings are the utilities times this; 400 / ln 10 gives those of Elo, of a Bradley-Terry fit.
        anchor : dict, optional
            The name of one item, and its rating. Intervals are then those of differences from it. None: the mean of the
            items is 0.
        items : texts, optional
            Which names are ranked. None: :attr:`items`, where there are some.
        level : float, default 0.95
            Probability with which all intervals hold together, and that with which no rank is outside its range.

        Returns
        -------
        Ranking

        Raises
        ------
        ValueError
            For names that are none of this fit's, or fewer than two; for None where the fit has no :attr:`items`; for a
            number outside its range.

        Notes
        -----
        Items without a finite difference from the anchor, or from most of the others, have an infinite error, and stand
        where their estimate puts them, or last where there is none. Both the intervals and the ranks are Sidak's, which
        hold whatever the correlations.

        Examples
        --------
        >>> import math, fastcolst as fc
        >>> found = fc.fit([["a", "b"], ["b", "c"], ["c", "a"]], wins=[6, 7, 2], trials=[10, 10, 10])
        >>> print(found.ranking(scale=400 / math.log(10), anchor={"c": 1000}))
        item  rating  standard error  95 % intervals  quasi s.e.  rank
        a       1231             105     997 to 1465          71   1-3
        b       1155             100     932 to 1377          64   1-3
        c       1000               0    1000 to 1000          77   1-3
        """
        chosen = self.items if items is None else texts("items", items)
        if items is None and not chosen:
            raise ValueError(
                "items is None, and rows of the contrasts are not 1 for one item and -1 for another, so that items "
                "are not told from features; the names of those that are compared are wanted, two or more"
            )
        places = [self._place("items", name) for name in chosen]
        if len(set(places)) != len(places) or len(places) < 2:
            raise ValueError(f"items is {brief(items if items is not None else chosen)}; two or more names are wanted")
        size = looked_at(real_number, scale, math.nan)
        if not 0.0 < size < math.inf:
            raise ValueError(f"scale is {brief(scale)}; a positive finite number is wanted")
        return ranking_of(
            [self.names[k] for k in places],
            self.theta[places],
            self._knowledge.part(places),
            size,
            _anchor(anchor, [self.names[k] for k in places]),
            _level(level),
        )

    def _rated(self) -> list[int]:
        return list(range(len(self.items)))  # covariates stand behind the items

    # --- tables ---------------------------------------------------------------------------------------------

    def summary(self, level: float = 0.95) -> str:
        """Coefficients with standard errors, z, p and intervals, what is not identified, and how the fit went.

        Examples
        --------
        >>> import fastcolst as fc
        >>> found = fc.fit([["a", "b"], ["b", "c"], ["c", "a"]], wins=[6, 7, 2], trials=[10, 10, 10])
        >>> print(found.summary())
        BradleyTerry(scale=1.0), 30 comparisons, log-likelihood -17.8487, interior
           estimate  standard error      z      p      95 % interval
        a    0.5915          0.3337   1.77  0.076  -0.06264 to 1.246
        b    0.1491          0.3165   0.47   0.64  -0.4713 to 0.7695
        c   -0.7406          0.3464  -2.14  0.033  -1.42 to -0.06158
        1 direction is not identified: of equally good estimates this is the shortest
        """
        level = _level(level)
        head = ["", "estimate", "standard error", "z", "p", f"{100 * level:g} % interval"]
        rows = [
            [name, f"{theta:.4g}", f"{error:.4g}", f"{z:.2f}", f"{p:.2g}", f"{low:.4g} to {high:.4g}"]
            for name, theta, error, z, p, (low, high) in zip(
                self.names, self.theta, self.standard_errors, self.z, self.p, self.intervals(level), strict=True
            )
        ]
        if self.position is not None:
            found = self.position
            z = found.estimate / found.standard_error if found.estimate else 0.0
            p = math.erfc(abs(z) / math.sqrt(2.0))
            low, high = _interval(found.estimate, found.standard_error, level)
            numbers = f"{found.estimate:.4g}", f"{found.standard_error:.4g}", f"{z:.2f}", f"{p:.2g}"
            rows.append(["shown first", *numbers, f"{low:.4g} to {high:.4g}"])
        kind = "pseudo-log-likelihood" if self.is_pseudo else "log-likelihood"
        counts = f"{self.comparisons:,.10g} comparisons, {kind} {self.log_likelihood:.6g}, {self.status}"
        lapses = [] if self.lapse is None else [str(self.lapse)]
        lines = [*align([head, *rows]), *lapses, *self._unidentified_lines()]
        return "\n".join([f"{self.comparison!r}, {counts}", *lines])

    def _unidentified_lines(self) -> list[str]:
        """What the summary says of directions that are not identified, or have no finite estimate."""
        lines, groups, n_unknown = [], self.groups, self._knowledge.unknown.shape[1]
        if n_unknown > 0:
            kinds = "direction is" if n_unknown == 1 else "directions are"
            lines.append(f"{n_unknown} {kinds} not identified: of equally good estimates this is the shortest")
        if 1 < len(groups) and (n_unknown > 0 or self._knowledge.runaway.shape[1] > 0):
            shown = ["{" + ", ".join(group[:LISTED]) + ", ..." * (len(group) > LISTED) + "}" for group in groups]
            more = ", ..." * (len(shown) > LISTED)
            lines.append(f"differences have finite estimates within {', '.join(shown[:LISTED])}{more} only")
        return lines

    def to_pandas(self, level: float = 0.95) -> Any:
        """The coefficients as a data frame by name: estimate, standard_error, z, p, low, high."""
        low, high = self.intervals(level).T
        columns = {
            "estimate": self.theta,
            "standard_error": self.standard_errors,
            "z": self.z,
            "p": self.p,
            "low": low,
            "high": high,
        }
        pandas = optional_import("pandas", "to_pandas")
        return pandas.DataFrame(columns, index=pandas.Index(self.names, name="name"))


def _level(value: Any) -> float:
    """A probability strictly between 0 and 1."""
    level = looked_at(real_number, value, math.nan)
    if not 0.0 < level < 1.0:
        raise ValueError(f"level is {brief(value)}; a number between 0 and 1 is wanted")
    return level


def _interval(estimate: float, error: float, level: float) -> tuple[float, float]:
    """Estimate -+ z error; everything where the error is infinite."""
    if error == math.inf:
        return -math.inf, math.inf
    width = _quantile(level) * error
    return estimate - width, estimate + width


def _quantile(level: float) -> float:
    """The z with P(|N| <= z) = level, for a standard normal N."""
    from scipy.special import ndtri

    return float(-ndtri((1.0 - level) / 2.0))


def _anchor(value: Any, names: list[str]) -> tuple[int, float] | None:
    """Which item has a given rating, and that rating."""
    if value is None:
        return None
    entries = looked_at(lambda given: list(given.items()), value)
    if entries is None or len(entries) != 1 or looked_at(lambda pair: pair[0] in names, entries[0], False) is not True:
        raise ValueError(f"anchor is {brief(value)}; one name among {brief(names)} and its rating, or None, is wanted")
    name, given = entries[0]
    rating = looked_at(real_number, given, math.nan)
    if not math.isfinite(rating):
        raise ValueError(f"anchor is {brief(value)}; a finite rating is wanted")
    return names.index(name), rating
