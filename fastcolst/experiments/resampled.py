"""A problem like the one that a log was recorded in: its differences between arms, and what it says is preferred."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fastcolst._checks import check_memory, count
from fastcolst._compile import uninterrupted
from fastcolst.comparison import comparison_model
from fastcolst.data.log import Log, check_log
from fastcolst.estimation.fit import fit
from fastcolst.experiments.laws import fill_latent
from fastcolst.experiments.problems import CHUNK_BYTES, LARGEST_CHUNK
from fastcolst.policies.protocol import Chunk
from fastcolst.streams import CONTEXTS, OUTCOMES, PROBLEM, generator

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

__all__ = ["ResampledLog"]


class ResampledRun:
    """One run of :class:`ResampledLog`: its parameter, (d,), its rounds and its answers."""

    def __init__(self, problem: ResampledLog, entropy: int, run: int) -> None:
        self._problem = problem
        self.theta = problem.draw(generator(entropy, PROBLEM, run))
        self._arms_rng, self._outcomes_rng = generator(entropy, CONTEXTS, run), generator(entropy, OUTCOMES, run)
        self.chunk_rounds = min(LARGEST_CHUNK, max(1, CHUNK_BYTES // (8 * problem.n_features * problem.n_arms)))

    def next_chunk(self, n_rounds: int) -> Chunk:
        """The next rounds. The sequence of rounds does not depend on how it is cut."""
        contexts = self._problem.arms(self._arms_rng, n_rounds)
        utilities = np.einsum("mnd,d->mn", contexts, self.theta)  # not BLAS, whose sums depend on its threads
        latent = np.empty(n_rounds)
        with np.errstate(over="ignore"):  # of which only interpreted code warns
            uninterrupted(fill_latent, self._problem.comparison, self._outcomes_rng, latent)  # for the generator's sake
        packed = np.ascontiguousarray(contexts.transpose(0, 2, 1))
        return Chunk(packed, utilities, utilities.max(axis=1), latent)


class ResampledLog:
    """A problem like the one that a log was recorded in.

    Where all features are items, the arms of a round are so many of them, drawn without replacement. Else an arm is a
    contrast of the log, drawn with replacement, with a random sign and divided by sqrt(2): differences between two arms
    then have the mean and the covariance that the log's contrasts in both orders have.

    The true parameter of a run is drawn from what the log tells of it: the normal distribution around the
    maximum-likelihood estimate with its covariance, under a prior by which a feature's typical difference in the log,
    the root of its mean square, is worth one unit of utility. So a log of few answers stands for many problems, and one
    of many answers for one.

    Parameters
    ----------
    log : Log
        Finished comparisons.
    n_arms : int
        Arms of every round; at least 2, and at most the number of items where all features are items.
    comparison : str or model, default "bradley-terry"
        The model that answers.

    Raises
    ------
    ValueError
        An argument outside its range, or a feature that is 0 in all contrasts.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> from fastcolst.experiments.resampled import ResampledLog
    >>> rng = np.random.default_rng(0)
    >>> contrasts = rng.normal(size=(500, 3))
    >>> problem = ResampledLog(fc.Log.from_arrays(contrasts, contrasts[:, 0] + rng.logistic(size=500) > 0), n_arms=10)
    >>> problem.n_features
    3
    >>> result = fc.simulate({"Random": fc.UniformPairs()}, problem, horizon=100, rng=1)
    >>> bool(result.average_regret["Random"][0, -1] > 0)
    True
    """

    def __init__(self, log: Log, n_arms: int, comparison: Any = "bradley-terry") -> None:
        check_log(log)
        self.comparison = comparison_model(comparison)
        self.n_arms, self.n_features = count("n_arms", n_arms, lowest=2), log.contrasts.shape[1]
        # features, and three numbers to draw an arm
        check_memory("n_arms", self.n_arms, 8 * self.n_arms * (self.n_features + 3))
        self._has_items = len(log.items) == self.n_features
        if self._has_items and self.n_arms > self.n_features:
            raise ValueError(f"n_arms is {self.n_arms}; at most {self.n_features} are wanted, the log's items")
        contrasts = np.asarray(log.contrasts)
        sizes = np.sqrt(np.mean(contrasts * contrasts, axis=0))
        if not sizes.all():
            name = log.features[int(np.argmin(sizes))]
            raise ValueError(f"log has 0 in all contrasts for the feature {name!r}; features that vary are wanted")
        found = fit(contrasts / sizes, log.wins, weights=log.weights, comparison=self.comparison, ridge=1.0)
        self._centre = found.theta / sizes
        self._root = np.linalg.cholesky(found.covariance) / sizes[:, np.newaxis]
        self._arms = np.eye(self.n_features) if self._has_items else contrasts / math.sqrt(2.0)
        self._size = len(log)

    def draw(self, rng: Generator) -> NDArray[np.float64]:
        """A true parameter, (d,)."""
        theta: NDArray[np.float64] = self._centre + self._root @ rng.standard_normal(self.n_features)
        return theta

    def arms(self, rng: Generator, n_rounds: int) -> NDArray[np.float64]:
        """Arms of so many rounds, (n_rounds, n_arms, n_features)."""
        if self._has_items:
            chosen = [rng.permutation(self.n_features)[: self.n_arms] for _ in range(n_rounds)]
            return self._arms[np.reshape(chosen, (n_rounds, self.n_arms))]
        place, is_turned = np.divmod(rng.integers(2 * len(self._arms), size=(n_rounds, self.n_arms)), 2)
        return self._arms[place] * (1.0 - 2.0 * is_turned)[..., np.newaxis]

    def __repr__(self) -> str:
        what = "items" if self._has_items else "features"
        sizes = f"{self._size:,} comparisons, {self.n_features} {what}"
        return f"ResampledLog(<{sizes}>, n_arms={self.n_arms}, comparison={self.comparison!r})"

    def start(self, entropy: int, run: int) -> ResampledRun:
        """Begin a run: draw its parameter and open its random streams."""
        return ResampledRun(self, entropy, run)
