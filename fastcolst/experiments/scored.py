"""Real data with known scores as a problem."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst._checks import answer, feature_rows, number
from fastcolst._compile import uninterrupted
from fastcolst.comparison import comparison_model
from fastcolst.experiments.laws import fill_latent
from fastcolst.experiments.problems import CHUNK_BYTES, LARGEST_CHUNK
from fastcolst.policies.protocol import Chunk
from fastcolst.streams import CONTEXTS, OUTCOMES, generator

__all__ = ["ScoredArms"]

COIN = float(np.finfo(np.float64).tiny)
"""Size of the latent number that decides equal scores: too small to turn a difference, and not subnormal, which some
processors are told to take for 0."""

SMALLEST_SCORE = 1e-290
"""Scores that are not 0 differ, if they do, by more than the coin when they are no smaller than this."""


class ScoredRun:
    """One run of :class:`ScoredArms`: its order of rounds and its answers. ``theta`` (0,): the problem has none."""

    def __init__(self, problem: ScoredArms, entropy: int, run: int) -> None:
        self._packed, self._utilities, self._best = problem.packed, problem.utilities, problem.utilities.max(axis=1)
        self._comparison, self._scale = problem.comparison, problem.scale
        _, d, n = self._packed.shape
        self.theta = np.empty(0)
        self._order_rng, self._outcome_rng = generator(entropy, CONTEXTS, run), generator(entropy, OUTCOMES, run)
        self._ahead = np.empty(0, np.intp)  # rounds of this pass that are still to come
        self.chunk_rounds = min(LARGEST_CHUNK, max(1, CHUNK_BYTES // (8 * d * n)))

    def next_chunk(self, n_rounds: int) -> Chunk:
        """The next rounds. The sequence of rounds does not depend on how it is cut."""
        m = len(self._packed)
        n_passes = math.ceil((n_rounds - len(self._ahead)) / m)
        rows = np.concatenate([self._ahead, *(self._order_rng.permutation(m) for _ in range(n_passes))])
        rows, self._ahead = rows[:n_rounds], rows[n_rounds:]
        return Chunk(self._packed[rows], self._utilities[rows], self._best[rows], self._latent(n_rounds))

    def _latent(self, n_rounds: int) -> NDArray[np.float64]:
        if self._comparison is None:
            return np.where(self._outcome_rng.random(n_rounds) < 0.5, COIN, -COIN)
        latent = np.empty(n_rounds)
        with np.errstate(over="ignore"):  # of which only interpreted code warns
            uninterrupted(fill_latent, self._comparison, self._outcome_rng, latent)  # for the generator's sake
        return self._scale * latent


class ScoredArms:
    """Real data as a problem: in every round each arm has a known score, and the arm with the better score wins.

    A run shows the rows of the data in a random order, all of them once, then all of them again in another order, and
    so on. A duel between equal scores is decided by a fair coin, the same for every policy. Where people answer, who
    err about small differences, a ``comparison`` says how: the arm with score s beats that with s' with probability
    F((s - s')/scale), and F((s' - s)/scale) where low scores are good. Regret is in the scores' unit: the best score of
    the round minus the mean (average regret), or the better one (weak regret), of the scores of the two arms shown, and
    the other way round when low scores are good.

    Parameters
    ----------
    contexts : (m, n_arms, n_features) array_like
        The arms' features in each of m rounds; finite.
    scores : (m, n_arms) array_like
        How good each arm is there: runtimes, qualities, ratings. Finite, and 0 or at least 1e-290 in size.
    maximize : bool, default True
        Whether high scores are good.
    comparison : str or model, optional
        The model that answers, F; None: the better score wins.
    scale : float, default 1.0
        The difference of scores that is one unit to the model; positive.

    Raises
    ------
    ValueError
        For an argument of the wrong shape or outside its range, with its name.

    Notes
    -----
    A timeout recorded as a huge number makes a huge regret; replace it by what it costs, ten times the cutoff, say.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> contexts = np.random.default_rng(0).normal(size=(20, 4, 2))
    >>> problem = fc.ScoredArms(contexts, scores=contexts[:, :, 0])
    >>> problem.n_arms, problem.n_features
    (4, 2)
    >>> result = fc.simulate({"Random": fc.UniformPairs()}, problem, horizon=100, rng=1)
    >>> bool(result.average_regret["Random"][0, -1] > 50)
    True
    """

    def __init__(
        self,
        contexts: ArrayLike,
        scores: ArrayLike,
        maximize: bool = True,
        comparison: Any = None,
        scale: float = 1.0,
    ) -> None:
        rows = feature_rows("contexts", contexts, None, ndim=3)
        values = feature_rows("scores", scores, None, shape="(m, n_arms)", entry="score")
        if rows.shape[:2] != values.shape:
            raise ValueError(
                f"scores has shape {values.shape} and contexts {rows.shape}; (m, n_arms) and (m, n_arms, n_features) "
                "are wanted"
            )
        small = (np.abs(values) < SMALLEST_SCORE) & (values != 0.0)
        if small.any():
            i, j = np.argwhere(small)[0]
            raise ValueError(f"scores[{i}, {j}] is {values[i, j]}; 0 or at least {SMALLEST_SCORE} in size is wanted")
        self.maximize = answer(maximize, "maximize")
        self.comparison = None if comparison is None else comparison_model(comparison)
        self.scale = number("scale", scale, positive=True)
        if comparison is None and self.scale != 1.0:
            raise ValueError(f"scale is {self.scale} and comparison None; a scale is wanted with a comparison only")
        _, self.n_arms, self.n_features = rows.shape
        self.packed = np.ascontiguousarray(rows.transpose(0, 2, 1))
        self.utilities = values.copy() if self.maximize else -values
        data = hashlib.sha256(repr(rows.shape).encode())
        for array in (self.packed, self.utilities):
            data.update(array.tobytes())
        self.digest = data.hexdigest()

    def get_params(self) -> dict[str, Any]:
        """What names the problem in tables: the data's digest in place of the data."""
        answers = {} if self.comparison is None else {"comparison": self.comparison, "scale": self.scale}
        return {"name": "scored", "maximize": self.maximize, "sha256": self.digest, **answers}

    def __repr__(self) -> str:
        """Sizes, and the beginning of the data's digest."""
        m, n, d = len(self.packed), self.n_arms, self.n_features
        answers = "" if self.comparison is None else f", comparison={self.comparison!r}, scale={self.scale!r}"
        data = f"<{m} rounds, {n} arms, {d} features, {self.digest[:16]}>"
        return f"ScoredArms({data}, maximize={self.maximize}{answers})"

    def start(self, entropy: int, run: int) -> ScoredRun:
        """Begin a run: open the random streams of its order and of its answers."""
        return ScoredRun(self, entropy, run)
