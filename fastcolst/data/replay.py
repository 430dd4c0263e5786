"""Learning from a log in its order, and scoring what was predicted of each comparison before it was learned."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from fastcolst._checks import answer, brief, feature_rows, is_a, looked_at, real_numbers
from fastcolst._files import optional_import
from fastcolst._words import align
from fastcolst.data.log import Log, check_log, checked_wins, is_one_sided

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Learner", "ReplayResult", "replay"]

BLOCK = 1_000  # rows learned per call of the policy: Ctrl-C is answered between calls
N_BINS = 10


@runtime_checkable
class Learner(Protocol):
    """What :func:`replay` asks of a policy."""

    @property
    def theta(self) -> NDArray[np.float64]:
        """(d,) estimate."""

    def learn_and_predict(self, contrasts: NDArray[np.float64], wins: Any) -> NDArray[np.float64]:
        """Learn (m, d) comparisons in order; return (m,) probabilities, each from before it is learned.

        ``wins`` are (m,) bool, or float64 where some comparisons are not decided; a log with weights hands these over
        as well, as ``weights=``, (m,) float64.

        ValueError where the policy was built for another number of features: nothing is learned then.
        """


def replay(policy: Learner, log: Log, *, label: str | None = None, progress: bool = False) -> ReplayResult:
    """Learn from a log in its order, predicting each comparison before it is learned.

    Parameters
    ----------
    policy : policy object
        Learns in place: give a copy to keep the original.
    log : Log
        What :func:`read_log` or :meth:`Log.from_arrays` returned.
    label : str, optional
        What to call the policy in tables and pictures; its class, if not given.
    progress : bool
        Show a progress bar (needs tqdm). It changes no number.

    Returns
    -------
    ReplayResult
        The predictions, their scores, and the final estimate.

    Raises
    ------
    ValueError
        The policy does not fit the log (another number of features, or others by name), or its predictions are no
        probabilities.

    Notes
    -----
    A policy that keeps names of its features takes those of the log, unless these are mere places such as "z[0]": its
    summary and its errors speak of them, and features that it knows in another order are put right.

    Examples
    --------
    >>> import fastcolst as fc
    >>> from fastcolst.data import Log
    >>> log = Log.from_arrays([[1.0, 0.0], [1.0, 0.0]], [True, True])
    >>> result = fc.replay(fc.CoLSTIM(2, estimator="sgd"), log)
    >>> float(result.probabilities[0]), bool(result.probabilities[1] > 0.5)
    (0.5, True)
    """
    check_log(log)
    if not is_a(Learner, policy):
        raise ValueError(
            f"policy is {brief(policy)}; a policy that learns from a log is wanted, which those that know arms by "
            "their index only do not"
        )
    if isinstance(log.contrasts, np.ndarray):
        feature_rows("log.contrasts", log.contrasts, None)  # none overflows, which a later block would show too late
    label = _checked_label(type(policy).__name__ if label is None else label)
    progress = answer(progress, "progress")
    probabilities = np.empty(len(log))
    # Blocks with and without a bar are the same, so that the bar cannot change a result.
    starts: Iterable[int] = range(0, len(log), BLOCK)
    if progress:
        tqdm = optional_import("tqdm", "progress=True").tqdm
        starts = tqdm(starts, desc=label, unit=" rows", unit_scale=BLOCK)
    for start in starts:
        block = slice(start, min(start + BLOCK, len(log)))
        weights = {} if log.weights is None else {"weights": log.weights[block]}
        contrasts = _named(log.contrasts[block], log.features)
        predicted = np.asarray(policy.learn_and_predict(contrasts, log.wins[block], **weights))
        if predicted.shape != log.wins[block].shape:
            raise ValueError(f"policy predicted shape {predicted.shape}; {log.wins[block].shape} is wanted")
        probabilities[block] = predicted
    return ReplayResult(
        probabilities=probabilities,
        wins=log.wins,
        theta=_theta_of(policy, log.features),
        log=log,
        label=label,
        status=looked_at(lambda learner: str(learner.estimate_status), policy, ""),
    )


class _Named(np.ndarray[Any, Any]):
    """An array whose columns have names, as an Arrow table's do; to a policy of one's own it is an array."""

    column_names: tuple[str, ...]


def _named(contrasts: Any, features: tuple[str, ...]) -> NDArray[np.float64]:
    """Contrasts with the names of their features, unless these are mere places, or not those of one feature each."""
    array: NDArray[np.float64] = np.asarray(contrasts)
    is_place = all(name.endswith(f"[{k}]") for k, name in enumerate(features))
    if is_place or len(set(features)) < len(features):
        return array
    named = array.view(_Named)
    named.column_names = features
    return named


def _theta_of(policy: Learner, features: tuple[str, ...]) -> NDArray[np.float64]:
    """The estimate in the order of the log's features, which need not be the policy's."""
    names: tuple[Any, ...] = looked_at(lambda learner: tuple(learner.feature_names), policy, ())
    theta = np.asarray(policy.theta)
    return theta[[names.index(name) for name in features]] if set(names) == set(features) else theta


_CALIBRATION = np.dtype(
    [
        ("low", np.float64),
        ("high", np.float64),
        ("count", np.int64),
        ("predicted", np.float64),
        ("observed", np.float64),
        ("standard_error", np.float64),
    ]
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReplayResult:
    """Predictions of a replay, each made before its comparison was learned, and their scores.

    A comparison that was not decided counts for both sides, by its shares, and one of weight w as w of them.

    Parameters
    ----------
    probabilities : (m,) float64
        Predicted probability that the first wins.
    wins : (m,) bool, or float64
        Whether it did, or its share of the win.
    theta : (d,) float64
        The estimate after the last comparison.
    log : Log
        What was replayed; has the names of the features and the counts.
    label : str
        What to call the policy.
    status : str
        How the estimate stands after the last comparison, as ``policy.status`` says it; empty where that is not told.

    Raises
    ------
    ValueError
        A shape does not fit, or a probability is none.
    """

    probabilities: NDArray[np.float64]
    wins: NDArray[np.bool_] | NDArray[np.float64]
    theta: NDArray[np.float64]
    log: Log
    label: str
    status: str = ""

    def __post_init__(self) -> None:
        check_log(self.log)
        _checked_label(self.label)
        if not isinstance(self.status, str):
            raise ValueError(f"status is {brief(self.status)}; a text is wanted")
        m, d = self.log.contrasts.shape
        object.__setattr__(self, "wins", checked_wins(self.wins, m))
        for name, n in (("probabilities", m), ("theta", d)):
            array = real_numbers(name, getattr(self, name), f"({n},)")
            if array.shape != (n,):
                raise ValueError(f"{name} has shape {array.shape}; ({n},) is wanted")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        wrong = np.flatnonzero(~((self.probabilities >= 0.0) & (self.probabilities <= 1.0)))
        if wrong.size:
            raise ValueError(f"probabilities[{wrong[0]}] is {self.probabilities[wrong[0]]}; 0 to 1 is wanted")

    def __repr__(self) -> str:
        return (
            f"ReplayResult({self.label!r}, {self.wins.size:,} comparisons, log_loss={self.log_loss:.4f}, "
            f"accuracy={self.accuracy:.4f}, brier={self.brier:.4f})"
        )

    @property
    def is_one_sided(self) -> bool:
        """Whether the same side always won, so that :attr:`calibration` holds each comparison in both orders."""
        return is_one_sided(self.wins)

    def _mean(self, values: NDArray[np.float64]) -> float:
        return float(np.average(values, weights=self.log.weights))

    @property
    def log_loss(self) -> float:
        """Mean of -log(probability given to what happened); inf if that was ever 0."""
        return self._mean(self.losses())

    @property
    def accuracy(self) -> float:
        """Share of comparisons whose likelier side won; a probability of 1/2 counts half."""
        likelier = np.where(self.probabilities > 0.5, self.wins, 1.0 - self.wins)
        return self._mean(np.where(self.probabilities == 0.5, 0.5, likelier))

    @property
    def brier(self) -> float:
        """Mean of (probability - outcome)^2."""
        return self._mean((self.probabilities - self.wins) ** 2)

    @property
    def calibration(self) -> NDArray[np.void]:
        """Predicted against observed frequency in bins of width 1/10; bins without a prediction are left out.

        Where one and the same side always won, which would make every observed frequency 0 or 1,
        each comparison is there in both orders: its probability with its outcome, and one minus either.

        A structured array with the fields low, high (edges, the upper one exclusive but for 1), count,
        predicted (mean probability), observed (share that the first won) and standard_error (of `observed`,
        were every probability right: sqrt(sum p (1 - p)) / count; sums and means are weighted as the log is).
        """
        p, won = self.probabilities, np.asarray(self.wins, np.float64)
        weights = np.ones(p.size) if self.log.weights is None else self.log.weights
        variances: NDArray[np.float64] = weights**2 * p * (1.0 - p)
        if self.is_one_sided:
            # of p = 1/2 both orders are in one bin, to which they always add one win
            variances = np.tile(np.where(p == 0.5, 0.0, variances), 2)
            p, won, weights = np.concatenate([p, 1.0 - p]), np.concatenate([won, 1.0 - won]), np.tile(weights, 2)
        edges = np.linspace(0.0, 1.0, N_BINS + 1)
        bins = np.minimum(np.searchsorted(edges, p, side="right") - 1, N_BINS - 1)
        counts: NDArray[np.int64] = np.bincount(bins, minlength=N_BINS)
        used = counts > 0

        def summed(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.bincount(bins, weights=values, minlength=N_BINS)[used].astype(np.float64)

        table = np.empty(int(used.sum()), dtype=_CALIBRATION)
        table["low"], table["high"], table["count"] = edges[:-1][used], edges[1:][used], counts[used]
        total = summed(weights)
        table["predicted"], table["observed"] = summed(weights * p) / total, summed(weights * won) / total
        table["standard_error"] = np.sqrt(summed(variances)) / total
        return table

    def running_log_loss(self) -> NDArray[np.float64]:
        """Return the log loss of the first 1, 2, ..., m comparisons, (m,) float64."""
        losses = self.losses()
        weights = np.ones(losses.size) if self.log.weights is None else self.log.weights
        running: NDArray[np.float64] = np.cumsum(weights * losses) / np.cumsum(weights)
        return running

    def losses(self) -> NDArray[np.float64]:
        """Return the loss of each comparison, -log(probability given to what happened), (m,) float64."""
        # log1p keeps the digits of 1 - p. A probability of 0 for what happened is an honest inf, and 0 log 0 is 0.
        won, lost = np.asarray(self.wins, np.float64), 1.0 - self.wins
        with np.errstate(divide="ignore", invalid="ignore"):
            losses: NDArray[np.float64] = np.where(won > 0.0, -won * np.log(self.probabilities), 0.0)
            losses += np.where(lost > 0.0, -lost * np.log1p(-self.probabilities), 0.0)
        return losses

    def summary(self) -> str:
        """Return counts, how outcomes were read, status, scores, calibration table and coefficients as text."""
        bins = [("predicted", "count", "mean", "observed", "standard error")]
        bins += [
            (f"{low:.1f} to {high:.1f}", f"{n:,}", f"{mean:.4f}", f"{observed:.4f}", f"{error:.4f}")
            for low, high, n, mean, observed, error in self.calibration.tolist()
        ]
        sizes = self.log.sizes()
        coefficients = [("feature", "coefficient", "typical difference", "effect")]
        coefficients += [
            (name, f"{value:.6g}", f"{size:.4g}", f"{value * size:.4g}")
            for name, value, size in zip(self.log.features, self.theta, sizes, strict=True)
        ]
        coefficients += [(f"{name} (reference)", "0", "", "") for name in self.log.references]
        scores = [("log loss", self.log_loss), ("accuracy", self.accuracy), ("Brier score", self.brier)]
        score_rows = [(name, f"{value:.4f}") for name, value in scores]
        score_lines = align(score_rows)
        score_lines[0] += f"  {self._measured()}"
        head = [f"{self.label}: each comparison predicted before it was learned", self.log.counts, self.log.outcomes]
        if self.status:
            head.append(f"status of the estimate: {self.status}")
        if self.is_one_sided:
            head.append(
                f"the {'first' if self.wins[0] else 'second'} always won: the table below counts each comparison in "
                "both orders"
            )
        units = "coefficient: utility for one unit of the feature; effect: for a typical difference (root mean square)"
        if self.log.items:
            units += "; of items only differences between coefficients are known"
        return "\n".join([*head, "", *score_lines, "", *align(bins), "", units, *align(coefficients)])

    def _measured(self) -> str:
        """What log losses of predictions that know nothing are: 1/2, and the first's share of all wins, each time."""
        coin = f"a coin's {math.log(2.0):.4f}"
        if self.is_one_sided:  # of a side that always won the base rate tells which side was put first
            return f"({coin})"
        rate = self._mean(np.asarray(self.wins, np.float64))
        loss = -rate * math.log(rate) - (1.0 - rate) * math.log1p(-rate)
        return f"({coin}, the base rate's {loss:.4f}: the first won {rate:.1%})"

    def plot(self, axes: Any = None) -> Any:
        """Draw calibration and running log loss: see :func:`fastcolst.plotting.replay_figure`."""
        from fastcolst.plotting import replay_figure

        return replay_figure(self, axes)


def _checked_label(label: Any) -> str:
    if not isinstance(label, str):
        raise ValueError(f"label is {brief(label)}; a text is wanted")
    return label
