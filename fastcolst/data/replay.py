"""Learning from a log in its order, and scoring what was predicted of each comparison before it was learned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from fastcolst._checks import answer, brief, feature_rows, is_a, real_numbers
from fastcolst._files import optional_import
from fastcolst._words import align
from fastcolst.data.log import Log, checked_wins

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

    def learn_and_predict(self, contrasts: NDArray[np.float64], wins: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Learn (m, d) comparisons in order; return (m,) probabilities, each from before it is learned.

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
        The policy does not fit the log (another number of features), or its predictions are no probabilities.

    Examples
    --------
    >>> import fastcolst as fc
    >>> from fastcolst.data import Log
    >>> log = Log.from_arrays([[1.0, 0.0], [1.0, 0.0]], [True, True])
    >>> result = fc.replay(fc.CoLSTIM(2, estimator="sgd"), log)
    >>> float(result.probabilities[0]), bool(result.probabilities[1] > 0.5)
    (0.5, True)
    """
    if not isinstance(log, Log):
        raise ValueError(f"log is a {type(log).__name__}; a Log is wanted (read_log, Log.from_arrays)")
    if not is_a(Learner, policy):
        raise ValueError(
            f"policy is {brief(policy)}; a policy that learns from a log is wanted, which those that know arms by "
            "their index only do not"
        )
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
        predicted = np.asarray(policy.learn_and_predict(log.contrasts[block], log.wins[block]))
        if predicted.shape != log.wins[block].shape:
            raise ValueError(f"policy predicted shape {predicted.shape}; {log.wins[block].shape} is wanted")
        probabilities[block] = predicted
    return ReplayResult(
        probabilities=probabilities,
        wins=log.wins,
        theta=policy.theta,
        log=log,
        label=label,
    )


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

    Parameters
    ----------
    probabilities : (m,) float64
        Predicted probability that the first wins.
    wins : (m,) bool
        Whether it did.
    theta : (d,) float64
        The estimate after the last comparison.
    log : Log
        What was replayed; has the names of the features and the counts.
    label : str
        What to call the policy.

    Raises
    ------
    ValueError
        A shape does not fit, or a probability is none.
    """

    probabilities: NDArray[np.float64]
    wins: NDArray[np.bool_]
    theta: NDArray[np.float64]
    log: Log
    label: str

    def __post_init__(self) -> None:
        if not isinstance(self.log, Log):
            raise ValueError(f"log is a {type(self.log).__name__}; a Log is wanted (read_log, Log.from_arrays)")
        _checked_label(self.label)
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
    def log_loss(self) -> float:
        """Mean of -log(probability given to what happened); inf if that was ever 0."""
        return float(self._losses().mean())

    @property
    def accuracy(self) -> float:
        """Share of comparisons whose likelier side won; a probability of 1/2 counts half."""
        right = np.where(self.probabilities == 0.5, 0.5, (self.probabilities > 0.5) == self.wins)
        return float(right.mean())

    @property
    def brier(self) -> float:
        """Mean of (probability - outcome)^2."""
        return float(np.mean((self.probabilities - self.wins) ** 2))

    @property
    def calibration(self) -> NDArray[np.void]:
        """Predicted against observed frequency in bins of width 1/10; bins without a prediction are left out.

        A structured array with the fields low, high (edges, the upper one exclusive but for 1), count,
        predicted (mean probability), observed (share that the first won) and standard_error (of `observed`,
        were every probability right: sqrt(sum p (1 - p)) / count).
        """
        edges = np.linspace(0.0, 1.0, N_BINS + 1)
        p = self.probabilities
        bins = np.minimum(np.searchsorted(edges, p, side="right") - 1, N_BINS - 1)
        count = np.bincount(bins, minlength=N_BINS)
        used = count > 0
        table = np.empty(int(used.sum()), dtype=_CALIBRATION)
        table["low"], table["high"], table["count"] = edges[:-1][used], edges[1:][used], count[used]
        for name, values in (("predicted", p), ("observed", self.wins)):
            table[name] = np.bincount(bins, weights=values, minlength=N_BINS)[used] / count[used]
        variance = np.bincount(bins, weights=p * (1.0 - p), minlength=N_BINS)[used]
        table["standard_error"] = np.sqrt(variance) / count[used]
        return table

    def running_log_loss(self) -> NDArray[np.float64]:
        """Return the log loss of the first 1, 2, ..., m comparisons, (m,) float64."""
        losses = self._losses()
        running: NDArray[np.float64] = np.cumsum(losses) / np.arange(1, losses.size + 1)
        return running

    def _losses(self) -> NDArray[np.float64]:
        # log1p keeps the digits of 1 - p. A probability of 0 for what happened is an honest inf.
        with np.errstate(divide="ignore"):
            losses: NDArray[np.float64] = -np.where(
                self.wins, np.log(self.probabilities), np.log1p(-self.probabilities)
            )
        return losses

    def summary(self) -> str:
        """Return the counts, the scores, the calibration table and the coefficients as text."""
        bins = [("predicted", "count", "mean", "observed", "standard error")]
        bins += [
            (f"{low:.1f} to {high:.1f}", f"{n:,}", f"{mean:.4f}", f"{observed:.4f}", f"{error:.4f}")
            for low, high, n, mean, observed, error in self.calibration.tolist()
        ]
        coefficients = [("feature", "coefficient")]
        coefficients += [(name, f"{value:.6g}") for name, value in zip(self.log.features, self.theta, strict=True)]
        scores = [("log loss", self.log_loss), ("accuracy", self.accuracy), ("Brier score", self.brier)]
        score_rows = [(name, f"{value:.4f}") for name, value in scores]
        head = [f"{self.label}: each comparison predicted before it was learned", self.log.counts]
        return "\n".join([*head, "", *align(score_rows), "", *align(bins), "", *align(coefficients)])

    def plot(self, axes: Any = None) -> Any:
        """Draw calibration and running log loss: see :func:`fastcolst.plotting.replay_figure`."""
        from fastcolst.plotting import replay_figure

        return replay_figure(self, axes)


def _checked_label(label: Any) -> str:
    if not isinstance(label, str):
        raise ValueError(f"label is {brief(label)}; a text is wanted")
    return label
