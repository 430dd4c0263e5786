"""The exact maximum-likelihood estimate, kept up with every comparison."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import plain_text
from fastcolst._compile import helper, plain, register
from fastcolst.estimation.fading import faded_history, scales_of
from fastcolst.estimation.history import History
from fastcolst.estimation.newton import distance, maximise, solve
from fastcolst.estimation.objective import Objective
from fastcolst.estimation.prediction import answers_are_few, pass_is_due
from fastcolst.estimation.protocol import FULL, KEPT, LEARNED
from fastcolst.estimation.push import keep, learn_by_push
from fastcolst.estimation.records import INTERIOR, NOT_CONVERGED, STATUSES, Evidence, Settings
from fastcolst.estimation.retraction import rows_of, without
from fastcolst.estimation.sets import note_choice
from fastcolst.estimation.words import SCORES, number_of, radius_of, ridge_of, score_of, stands_for

__all__ = ["AUTO_RADIUS", "MLE", "MLESteps"]

AUTO_RADIUS = 20.0
"""Wide enough that no honest maximum lies outside, and near enough for separated data: margins of 20 are certainty."""

FIRST_ROOM = 4096
"""Comparisons for which a new memory has room."""


FEW_ANSWERS = "few-answers"
"""The status in place of all others while there are too few answers for the tolerance to hold."""

EXACT = 1e-10
"""Standard errors to which an audit solves."""


@helper
def objective_of(steps: Any, model: Any) -> Objective:
    """What an MLE minimises; the radius is that which its number stands for."""
    radius = steps.radius
    is_auto = radius < 0.0
    bound = radius if not is_auto else AUTO_RADIUS if steps.ridge == 0.0 else np.inf
    return Objective(model, steps.score, steps.ridge, bound, is_auto or radius == np.inf)


@register
class MLESteps(NamedTuple):
    """What :class:`MLE` is in kernels: radius -inf for "auto" and inf for None, score 0 and 1 as for SGD."""

    tolerance: float
    ridge: float
    radius: float
    score: int
    settings: Any

    @staticmethod
    def words(given: Any) -> tuple[Any, ...]:
        """The fields of an MLE, checked."""
        tolerance, radius = number_of("MLE", "tolerance", given[0]), given[2]
        if not 1e-10 <= tolerance <= 0.1:
            raise ValueError(f"MLE: tolerance is {tolerance!r}; a number from 1e-10 to 0.1 is wanted")
        if plain_text(radius) != "auto":
            radius = radius_of("MLE", radius, "a positive number, 'auto' or None")
        return tolerance, ridge_of("MLE", given[1]), radius, score_of("MLE", given[3])

    @classmethod
    def of(cls, given: Any) -> MLESteps:
        """The numbers that the words stand for."""
        tolerance, ridge, radius, score = cls.words(given)
        number = {"auto": -math.inf, None: math.inf}.get(radius, radius)
        return cls(tolerance, 0.0 if ridge is None else ridge, number, SCORES.index(score), Settings())

    def memory(self, n_features: int) -> Evidence:
        """An empty memory: theta = 0, nothing learned, room for a few thousand comparisons."""
        memory = Evidence.new(History.new(n_features, FIRST_ROOM), self.settings)
        if self.ridge > 0.0:  # of nothing theta = 0 is the maximum, and the ridge all the information
            memory.factor[:] = np.eye(n_features) / math.sqrt(self.ridge)
            memory.progress["warm"] = 1
        return memory

    def grown(self, memory: Evidence, n: int) -> Evidence:
        """The memory with room for n more comparisons, or for one tie, which takes two rows."""
        history = memory.history.grown(n + 1)
        return memory if history is memory.history else memory._replace(history=history)

    def grown_stack(self, stack: Evidence, n: int) -> Evidence:
        """The same for a stack of memories, whose histories share one pool."""
        return self.grown(stack, n)

    def status(self, memory: Evidence) -> str:
        """How the estimate stands."""
        few = plain(answers_are_few)(self.ridge, memory.progress[()], len(memory.theta))
        return FEW_ANSWERS if few else STATUSES[memory.progress["status"]]

    def learn(self, model: Any, memory: Any, contrast: Any, share: float, weight: float) -> int:
        """Learn one comparison; see :func:`fastcolst.estimation.protocol.learn`."""
        if not keep(memory.history, contrast, share, weight):
            return FULL
        learn_by_push(objective_of(self, model), memory, contrast, share, weight)
        return LEARNED

    def learn_choice(self, model: Any, memory: Evidence, contrasts: NDArray[np.float64], weight: float) -> int:
        """Count which of several was chosen; the next solve looks at it."""
        note_choice(memory, contrasts)
        return KEPT

    def n_kept(self, memory: Evidence) -> NDArray[np.int64]:
        """How many rows the history holds, (1,)."""
        return memory.history.size

    def kept(self, memory: Evidence) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """All that was learned: signed contrasts and weights."""
        return rows_of(memory.history)

    def without(self, memory: Evidence, start: int, stop: int) -> Evidence:
        """The memory as if one comparison had never been learned; theta is then to be refreshed."""
        return without(self, memory, start, stop)

    def faded(self, memory: Evidence, share: float, n: int) -> Evidence:
        """The memory with weights a share of what they were, less rows that hardly count; theta is to be refreshed."""
        history = faded_history(memory.history, share, 2 * n + 2)  # ties take two rows
        features, progress = memory.features.copy(), memory.progress.copy()
        if history.size[0] < memory.history.size[0]:
            features["scale"] = scales_of(history)
        progress["learned"] = max(1, round(share * int(progress["learned"])))  # as many as weigh like that today
        progress["warm"] = progress["solved"] = 0
        theta, factor = memory.theta.copy(), memory.factor.copy()
        return memory._replace(theta=theta, factor=factor, features=features, progress=progress, history=history)

    def is_stale(self, memory: Any, wanted: bool) -> bool:
        """Whether theta is wanted and a pass is due; see :func:`fastcolst.estimation.prediction.pass_is_due`."""
        return wanted and pass_is_due(self.settings, memory, self.ridge, self.tolerance)

    def doubt(self, memory: Any) -> float:
        """1/(n + 2) after n comparisons unless the maximum lies inside: that few were all explained proves little.

        With a ridge there is a maximum always; inside is then where the ball of "auto" would be. O(d).
        """
        progress, features = memory.progress[()], memory.features
        square = 0.0
        if self.ridge > 0.0:
            for k in range(features.size):
                scaled = features[k].scale * memory.theta[k]
                square += scaled * scaled
        is_inside = progress.status == INTERIOR and square <= AUTO_RADIUS * AUTO_RADIUS
        return 0.0 if is_inside else 1.0 / (progress.learned + 2.0)

    def information_factor(self, memory: Any, otherwise: Any) -> Any:
        """S with S'S = H^-1, which pushes and passes keep."""
        return memory.factor

    def information(self, memory: Evidence) -> NDArray[np.float64]:
        """H, and the multiplier's part on the boundary of the ball, (d, d), once theta is up to date."""
        root = np.linalg.pinv(memory.factor)
        return root @ root.T

    def refresh(self, model: Any, memory: Evidence) -> None:
        """Bring theta within the tolerance of the maximum."""
        solve(plain(objective_of)(self, model), self.settings, memory, self.tolerance)

    def audit(self, model: Any, memory: Evidence) -> float:
        """Distance of theta from the exact maximum, in standard errors; nan if a solve from theta does not find it.

        O(n d^2) a pass.
        """
        exact = memory._replace(
            theta=memory.theta.copy(),
            factor=np.zeros_like(memory.factor),
            features=memory.features.copy(),
            progress=memory.progress.copy(),
        )
        # where features are huge rounding keeps a search from EXACT; a hundredth of the tolerance tells enough
        for wanted in sorted({EXACT, max(EXACT, 0.01 * self.tolerance)}):
            penalised = maximise(plain(objective_of)(self, model), self.settings, exact, wanted)
            if exact.progress["status"] != NOT_CONVERGED:
                return distance(memory.theta, exact.theta, penalised)
        return math.nan


@stands_for(MLESteps)
class MLE(NamedTuple):
    """The maximum-likelihood estimate of everything seen, at every moment, to a stated tolerance.

    theta minimises -sum log F(z~'theta) + ridge/2 |theta|^2 over |theta| <= radius, z~ = z for a win of the first and
    -z otherwise. A comparison is learned by an implicit Newton step, in O(d^2). The error that builds up is of third
    order. It is predicted, and before it exceeds the tolerance a pass over the history, rarely more, removes it. The
    number of passes grows like log t.

    Parameters
    ----------
    tolerance : float, default 1e-2
        Distance from the exact maximum, in standard errors, that theta keeps to; in [1e-10, 0.1].
    ridge : float, optional
        Penalty ridge/2 |theta|^2; at least 0. None: the policy's ``ridge``, so that one prior is said once, or 0 where
        there is no policy.
    radius : float, "auto" or None
        theta is kept within |theta| <= radius. "auto": 20 in the norm sqrt(sum (max|z_k| theta_k)^2), which rescaling
        of features leaves alone, and which keeps theta finite while it explains every comparison; with a ridge, which
        does so by itself, no bound. None: no bound.
    score : {"likelihood", "residual"}
        "likelihood": as above. "residual": the paper's sum (Y - F(z'theta)) z = 0, which is another estimate unless the
        model is logistic; to be preferred for exponential noise, whose likelihood is not smooth.

    Raises
    ------
    ValueError
        For a value outside these ranges.

    Notes
    -----
    A comparison costs O(d^2), and now and then a pass over all of them O(n d^2); with more than 33 features most passes
    cost O(n d). Memory: 8.1 (d + 1) bytes for each comparison. The distance from the maximum is predicted, not
    computed.
    On streams like those of experiments none of 84,000 audits found it above the tolerance. In searches over odd ones
    (one-hot, heavy-tailed, clustered, rare features, single contrasts thirty times as large as the others, changing
    abruptly) 21 of 20,800 did, at most by three quarters.

    Of more than 48 features without a ridge the first 5 d answers have no maximum but the ball's, or hardly another:
    theta then follows by pushes on the ball, and is solved, to one standard error, when answers have grown by a
    twentieth. ``policy.status`` says "few-answers", and the tolerance holds from 5 d answers on. With a ridge it holds
    from the first.

    While the maximum is not inside, theta is as large as the ball allows, and so certain that the predictions of
    ``learn_and_predict`` are kept within 1/(n + 2) and 1 - 1/(n + 2) after n of them, by the rule of succession; those
    of ``probability`` are not. So they are where a ridge lets theta grow beyond the ball of "auto". ``policy.status``
    tells how the estimate stands: "interior", "boundary" (a larger ball would give a larger estimate), "separated"
    (some comparisons are explained the better the further theta goes, and none the worse: no finite maximum),
    "not-converged" or "few-answers".

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 1, line 6; equation (10) for the residual.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> rng = np.random.default_rng(0)
    >>> winners, losers = rng.normal(size=(2, 500, 3))
    >>> policy = fc.CoLSTIM(3, estimator=fc.MLE(tolerance=1e-4))
    >>> policy.learn(winners, losers)
    >>> policy.audit() < 1e-4
    True
    """

    tolerance: float = 1e-2
    ridge: float | None = None
    radius: float | str | None = "auto"
    score: str = "likelihood"
