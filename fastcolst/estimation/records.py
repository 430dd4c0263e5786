"""What an exact estimator remembers, and the settings by which it works."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fastcolst.estimation.history import History

__all__ = ["STATUSES", "Evidence", "Progress", "Settings"]

INTERIOR = 0
BOUNDARY = 1
SEPARATED = 2
NOT_CONVERGED = 3
STATUSES = ("interior", "boundary", "separated", "not-converged")
"""interior: the maximum. boundary: the maximum on the ball; a larger ball would give a larger estimate, also of
separated answers where the ball is the caller's and the search reaches it. separated: theta explains every comparison,
or there is a direction that explains some the better the further one goes and none the worse, so that the likelihood
has no finite maximum; theta is its maximum on the ball, or merely a point of high likelihood. not-converged: passes ran
out, or the information or a step was not finite."""


class Settings(NamedTuple):
    """The numbers by which the exact estimate works.

    safety: predicted errors are taken so many times as large, and a little more where there is little to predict from;
    see :mod:`fastcolst.estimation.prediction`. first_kappa: the first factor of the prediction, which for the logistic
    loss is a bound. kappa_decay: the share of itself to which this factor may fall at a pass. smallest_kappa,
    largest_kappa: the range in which it stays. most_returned: share of the movement since the last pass that may come
    back as curvature, beyond what is usual, before the prediction counts for nothing. goal: the share of the tolerance
    to which a pass solves. longest_step: the trust region of a step of Newton's method, in units of the margins.
    most_turn: share of its first slope by which the loss may rise again along a step. renew_after: times d, passes
    after which the information is computed anew. most_passes: passes after which a search is given up.
    """

    safety: float = 1.75
    first_kappa: float = 0.5
    kappa_decay: float = 0.95
    smallest_kappa: float = 0.002
    largest_kappa: float = 2.0
    most_returned: float = 0.05
    goal: float = 0.1
    longest_step: float = 20.0
    most_turn: float = 0.25
    renew_after: float = 0.06
    most_passes: int = 60


FEATURE_RECORD = np.dtype((np.record, [(name, np.float64) for name in ("scale", "anchor", "built", "drift", "lag")]))
"""The record that an estimator keeps of each feature.

scale: the largest size in a comparison. anchor: theta after the last pass. built: theta at which the information was
last computed. drift: M (theta - anchor). lag: the error of the gradient since the factor holds the multiplier of the
last pass and not today's.
"""


class Progress(NamedTuple):
    """How the estimate stands.

    status: of the last solve, a place in ``STATUSES``. warm: 1 when factor and theta hold, so that single comparisons
    can be pushed. learned: comparisons. solved: how many there were at the last pass. passes, rows_passed: passes so
    far, and rows of the history that they touched. since_renewal: passes since the information was computed. unit:
    4 F'(0), by which margins are multiplied so that those of all models compare; 1 for the logistic one of scale 1.
    multiplier: mu, of the ball; 0 inside. multiplier_built: that in the factor. kappa, remaining, from_built, moved,
    reach, lag, walked, returned, leverage: see :mod:`fastcolst.estimation.prediction`.
    """

    status: int
    warm: int
    learned: int
    solved: int
    passes: int
    rows_passed: int
    since_renewal: int
    unit: float
    multiplier: float
    multiplier_built: float
    kappa: float
    remaining: float
    from_built: float
    moved: float
    reach: float
    lag: float
    walked: float
    returned: float
    leverage: float

    @classmethod
    def new(cls, settings: Settings) -> Self:
        """The progress of an estimate that has learned nothing."""
        return cls(*(0,) * 7, 1.0, 0.0, 0.0, settings.first_kappa, *(0.0,) * 8)


PROGRESS_RECORD = np.dtype(
    (
        np.record,
        np.dtype(
            [(name, np.dtype(type(value))) for name, value in Progress.new(Settings())._asdict().items()],
            align=True,
        ),
    )
)
"""A :class:`Progress` that kernels change in place."""


class Evidence(NamedTuple):
    """Comparisons and the estimate they give.

    theta (d,) float64; factor (d, d) float64, lower triangular, S'S = M^-1 with the M = H + mu D^2 that every push
    brings up to date, of no meaning unless warm; features (d,), records of :data:`FEATURE_RECORD`; progress (), a
    record of :data:`PROGRESS_RECORD`; history; scratch (5, d) float64, whose content means nothing between calls.
    """

    theta: NDArray[np.float64]
    factor: NDArray[np.float64]
    features: NDArray[Any]
    progress: NDArray[Any]
    history: History
    scratch: NDArray[np.float64]

    @classmethod
    def shared(cls) -> tuple[str, ...]:
        """Fields that several stacked estimates have in common."""
        return ("scratch",)

    @classmethod
    def new(cls, history: History, settings: Settings) -> Self:
        """At theta = 0, with nothing learned from the history yet."""
        d = history.blocks.shape[1] - 1
        return cls(
            np.zeros(d),
            np.zeros((d, d)),
            np.zeros(d, FEATURE_RECORD),
            np.array(tuple(Progress.new(settings)), PROGRESS_RECORD),
            history,
            np.zeros((5, d)),
        )
