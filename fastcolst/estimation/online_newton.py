"""Newton's method in one pass over the comparisons."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import brief, whole_number
from fastcolst._compile import register
from fastcolst.estimation.calibration import LEAST_ODDS, TestedEvidence, calibrate, odds
from fastcolst.estimation.fading import faded_factor, faded_history
from fastcolst.estimation.history import History
from fastcolst.estimation.memory import snapshot
from fastcolst.estimation.mle import AUTO_RADIUS
from fastcolst.estimation.newton import maximise, solve
from fastcolst.estimation.objective import Objective
from fastcolst.estimation.prediction import pass_is_due
from fastcolst.estimation.protocol import FULL, KEPT, LEARNED, OVERFLOW, STALE
from fastcolst.estimation.push import keep, learn_by_push, unlearn
from fastcolst.estimation.records import BOUNDARY, INTERIOR, NOT_CONVERGED, SEPARATED, Evidence, Settings
from fastcolst.estimation.sets import newton_step, note_choice
from fastcolst.estimation.sgd import CERTAIN
from fastcolst.estimation.words import SCORES, ridge_of, score_of, stands_for

__all__ = ["OnlineNewton", "OnlineNewtonSteps"]

SMALLEST_RIDGE = 1e-100
"""With less, a first step may overflow."""
DEFAULT_RIDGE = 1.0
"""Where neither the estimator nor its policy says one."""
MOST_REPEATED = 100
"""A comparison of weight w is learned as w of weight 1, but no more than so many; the rest goes in one step."""
START_TOLERANCE = 1e-2
"""Of the exact start, in standard errors: the steps after it add five times as much."""


@register
class OnlineNewtonSteps(NamedTuple):
    """What :class:`OnlineNewton` is in kernels: score 0 and 1 as for SGD."""

    history: int
    ridge: float
    score: int
    settings: Any

    @staticmethod
    def words(given: Any) -> tuple[Any, ...]:
        """The fields of an OnlineNewton, checked."""
        history = whole_number(given[0])
        if history is None or not 0 <= history < 2**40:
            raise ValueError(
                f"OnlineNewton: history is {brief(given[0])}; a whole number of at least 0 and below 2^40 is wanted"
            )
        ridge = ridge_of("OnlineNewton", given[1])
        if ridge is not None and ridge < SMALLEST_RIDGE:
            raise ValueError(
                f"OnlineNewton: ridge is {ridge!r}; a number of at least {SMALLEST_RIDGE:g} is wanted: without a ridge "
                "separable answers have no maximum, and one pass cannot go back"
            )
        return history, ridge, score_of("OnlineNewton", given[2])

    @classmethod
    def of(cls, given: Any) -> OnlineNewtonSteps:
        """The numbers that the words stand for."""
        history, ridge, score = cls.words(given)
        return cls(history, DEFAULT_RIDGE if ridge is None else ridge, SCORES.index(score), Settings())

    def memory(self, n_features: int) -> TestedEvidence:
        """An empty memory: theta = 0, nothing learned, and the ridge is all the information."""
        memory = TestedEvidence.of(Evidence.new(History.new(n_features, 2 * self.history), self.settings))
        memory.factor[:] = np.eye(n_features) / math.sqrt(self.ridge)
        memory.progress["warm"] = 1
        return memory

    def grown(self, memory: TestedEvidence, n: int) -> TestedEvidence:
        """The memory with room for n more comparisons, as far as the start still takes some."""
        if np.min(memory.progress["learned"]) >= self.history:
            return memory
        history = memory.history.grown(min(n + 1, 2 * self.history))
        return memory if history is memory.history else memory._replace(history=history)

    def grown_stack(self, stack: TestedEvidence, n: int) -> TestedEvidence:
        """The same for a stack of memories, whose histories share one pool."""
        return self.grown(stack, n)

    def learn(self, model: Any, memory: Any, contrast: Any, share: float, weight: float) -> int:
        """Learn one comparison; see :func:`fastcolst.estimation.protocol.learn`."""
        progress = memory.progress[()]
        is_start = progress.learned < self.history
        if not is_start and progress.solved < self.history:
            return STALE
        if is_start and not keep(memory.history, contrast, share, weight):
            return FULL
        objective = Objective(model, self.score, self.ridge, np.inf, True)
        calibrate(objective, memory, contrast, share, weight)
        if is_start:
            learn_by_push(objective, memory, contrast, share, weight)
            return LEARNED
        # One step of weight w is not w steps, unless the loss is quadratic. What is not a whole repetition comes first:
        # the longest step is then the first, and where that can be taken the others can.
        n_whole = int(min(weight, MOST_REPEATED))
        amount = weight - n_whole
        for _ in range(n_whole + 1):
            if amount > 0.0 and not learn_by_push(objective, memory, contrast, share, amount):
                unlearn(progress)
                return OVERFLOW
            amount = 1.0
        return LEARNED

    def learn_choice(self, model: Any, memory: TestedEvidence, contrasts: NDArray[np.float64], weight: float) -> int:
        """Count which of several was chosen during the start, and take one step on its loss afterwards.

        The running test of the predictions is of pairs alone.
        """
        progress = memory.progress
        if progress["learned"] < self.history:
            note_choice(memory, contrasts)
            return KEPT
        if progress["solved"] < self.history:
            return STALE
        if not newton_step(model, self.score, memory, contrasts, weight):
            return OVERFLOW
        progress["learned"] += 1
        return LEARNED

    def faded(self, memory: TestedEvidence, share: float, n: int) -> TestedEvidence:
        """The memory with each weight a share of what it was.

        Of the start the rows fade, and theta is to be refreshed. After it the loss is known as a quadratic around
        theta: its H fades to H' = g H + (1 - g) ridge I, and its minimum moves by -(1 - g) ridge H'^-1 theta, exactly.
        The test of the predictions, which takes all that H gained in a window for answers, begins anew.
        """
        fresh: TestedEvidence = snapshot(memory)
        fresh.calibration.sizes[:] = 0
        if memory.progress["solved"] < self.history:
            fresh.progress["warm"] = fresh.progress["solved"] = 0
            n_rows = min(2 * n + 2, 2 * self.history - int(memory.history.size[0]))
            return fresh._replace(history=faded_history(memory.history, share, n_rows, forgets=False))
        fresh.factor[:] = faded_factor(memory.factor, share, self.ridge)
        fresh.theta[:] -= (1.0 - share) * self.ridge * ((fresh.factor @ memory.theta) @ fresh.factor)
        return fresh

    def is_stale(self, memory: Any, wanted: bool) -> bool:
        """Whether the exact start is wanted and inexact, or is over and was not solved to its end."""
        progress = memory.progress[()]
        if progress.learned > self.history:
            return bool(progress.solved < self.history)
        is_over = progress.solved < self.history == progress.learned
        return is_over or (wanted and pass_is_due(self.settings, memory, self.ridge, START_TOLERANCE))

    def information_factor(self, memory: Any, otherwise: Any) -> Any:
        """S with S'S = H^-1, which pushes and passes keep."""
        return memory.factor

    def doubt(self, memory: Any) -> float:
        """1/(n + 2) after n comparisons of the start while the ridge alone keeps the maximum inside, as for MLE."""
        progress = memory.progress[()]
        if progress.status == INTERIOR or progress.learned > self.history:
            return 0.0
        return float(1.0 / (progress.learned + 2.0))

    def refresh(self, model: Any, memory: TestedEvidence) -> None:
        """Bring theta within a hundredth of a standard error of the maximum; for the start only.

        At its end the information is that of theta, which is kept; and the test of predictions begins.
        """
        objective = Objective(model, self.score, self.ridge, math.inf, True)
        solve(objective, self.settings, memory.evidence, START_TOLERANCE)
        if memory.progress["learned"] < self.history:
            _note_the_ridge(memory)
            return
        maximise(objective, self.settings, memory.evidence, START_TOLERANCE)  # from there, and with its information
        _note_the_ridge(memory)
        memory.calibration.sizes[:] = 0
        memory.calibration.least[:] = 0.5
        memory.progress["warm"] = 1

    def status(self, memory: TestedEvidence) -> str:
        """Whether predictions are what they should be; during the exact start, whether that was found."""
        if memory.progress["learned"] <= self.history:
            return "not-converged" if memory.progress["status"] == NOT_CONVERGED else "ready"
        if odds(memory) >= LEAST_ODDS:
            return "drifting"
        return "overshooting" if memory.calibration.least[0] < CERTAIN else "ready"


def _note_the_ridge(memory: TestedEvidence) -> None:
    """Note that theta explains all that was learned, or lies beyond MLE's automatic ball: what MLE would say of it.

    A maximum with a ridge is an interior one always, but of features of size 100 a ridge of 1 holds nothing back, and
    predictions from a few answers would be as certain as numbers can be.
    """
    progress, scaled = memory.progress, memory.features["scale"] * memory.theta
    if progress["status"] == NOT_CONVERGED:
        return
    margins = memory.history.margins(memory.theta)
    if margins.size > 0 and margins.min() > 0.0:
        progress["status"] = SEPARATED
    else:
        progress["status"] = BOUNDARY if math.sqrt(scaled @ scaled) >= AUTO_RADIUS else INTERIOR


@stands_for(OnlineNewtonSteps)
class OnlineNewton(NamedTuple):
    """Newton's method in one pass: every comparison is learned once and forgotten.

    The implicit Newton step of :class:`MLE` alone, after a start during which the exact maximum is kept.

    Parameters
    ----------
    history : int, default 2000
        Comparisons at the start, whatever their weights, that are remembered and solved exactly; at least 0.
    ridge : float, optional
        Penalty ridge/2 |theta|^2; positive. None: the policy's ``ridge``, or 1 where that is 0 or there is none. With
        ``history=0`` it should be near 1: one pass with a small ridge takes far too long first steps, and never
        recovers.
    score : {"likelihood", "residual"}
        As for :class:`MLE`.

    Raises
    ------
    ValueError
        For a value outside these ranges.

    Notes
    -----
    O(d^2) a comparison, O(history d + d^2) memory whatever the horizon.

    During the start a comparison of weight 3 is three of weight 1, to the tolerance of the start, and after it exactly:
    it is learned as three, up to a hundred; what is left goes in one step. But ``history`` counts comparisons, whatever
    their weights. Of weighted comparisons more is then solved exactly than of as many repetitions, whose start ends
    sooner, and from there on the two estimates differ as those with a longer and a shorter history do: by 0.03 to 0.3
    standard errors in eight tries with 1,500 comparisons of weights 1 to 4 and a history of 100 or 400.

    During the start predictions are no nearer to 0 and 1 than 1/(n + 2) after n comparisons, as those of :class:`MLE`,
    while theta explains all of them, or lies outside the ball that MLE's ``radius="auto"`` stands for: of large
    features a ridge of 1 holds nothing back. After it they are what theta says. Once one has come within 1e-13 of
    certain, as with a margin |z'theta| of 30 for Bradley-Terry of scale 1, ``policy.status`` says "overshooting", and
    the policy warns: the step before was too long, or the features are too large.

    One pass never looks again at the curvature that a comparison had when it came. While theta has a long way to go, or
    turns back, that leaves it several standard errors from the maximum: after a change of what people prefer, with
    features so small that the ridge holds theta back for millions of comparisons, or so large that nearly all answers
    are certain. ``policy.status`` says "drifting" then instead of "ready": over the last thousands of answers, what was
    predicted and what was answered differ by more than chance. This is tested as long as answers arrive, in windows
    that double; one window in 100,000 says so by chance. What helps is :class:`MLE`, or features of one scale.

    Examples
    --------
    >>> import fastcolst as fc
    >>> fc.OnlineNewton(history=500)
    OnlineNewton(history=500, ridge=None, score='likelihood')
    """

    history: int = 2000
    ridge: float | None = None
    score: str = "likelihood"
