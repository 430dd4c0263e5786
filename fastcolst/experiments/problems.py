"""Problems: where contexts, true utilities and answers come from in a simulation.

A problem fills chunks of rounds that any policy can play. The duel of a round is decided by one latent number D ~ F*,
the difference of two draws of the true perturbation G*: the first arm wins iff u_first - u_second + D > 0, which has
probability F*(u_first - u_second) whatever the arms. So all policies that are compared meet the same contexts and the
same luck.
"""

from __future__ import annotations

import hashlib
import math
from copy import deepcopy
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fastcolst._checks import answer, check_memory, choice, count, feature_rows
from fastcolst._compile import generic, helper, kernel, register, registered
from fastcolst.comparison import comparison_model, perturb, raw
from fastcolst.kernels.linalg import utilities
from fastcolst.policies.protocol import Chunk
from fastcolst.streams import CONTEXTS, OUTCOMES, PROBLEM, fill_normal, generator, key_of

__all__ = ["Ball", "FixedContexts", "Scenario", "ScoredArms"]

CHUNK_BYTES = 2**20
"""Size of a chunk's contexts: so large that a kernel's call costs nothing, small enough for the processor's cache."""
LARGEST_CHUNK = 4096
LARGEST_CUBE = 12
"""Dimension of the largest cube whose corners are arms."""


@generic
def fill(self: Any, rng: Any, out: Any) -> None:
    """Draw the contexts of one round into ``out``, (n_arms, n_features) float64."""
    raise TypeError(f"{type(self).__name__} has no method fill")


@register
class Ball(NamedTuple):
    """Contexts uniform in the unit ball, afresh every round, for (n, d) = (n_arms, n_features).

    A point uniform on the sphere in d + 2 dimensions without two of its coordinates is uniform in the ball: normal
    variates g, h, and g / sqrt(|g|^2 + h_1^2 + h_2^2).

    Parameters
    ----------
    spare : (2, n) float64
        Scratch for h and then for the lengths.
    rejected : (n,) int64
        Scratch for :func:`fastcolst.streams.fill_normal`.
    """

    spare: Any
    rejected: Any

    @classmethod
    def of(cls, n_arms: int) -> Ball:
        """With its scratch; one for each run."""
        return cls(np.empty((2, n_arms)), np.empty(n_arms, np.int64))

    def fill(self, rng: Any, out: Any) -> None:
        """Draw one round's contexts. O(n d)."""
        n, d = out.shape
        length, other = self.spare[0], self.spare[1]
        state = fill_normal(key_of(rng), length, self.rejected)
        state = fill_normal(state, other, self.rejected)
        for i in range(n):
            length[i] = length[i] * length[i] + other[i] * other[i]
        for k in range(d):
            state = fill_normal(state, out[:, k], self.rejected)
            for i in range(n):
                length[i] += out[i, k] * out[i, k]
        for i in range(n):
            length[i] = 1.0 / np.sqrt(length[i])
        for k in range(d):
            for i in range(n):
                out[i, k] *= length[i]


@register
class FixedContexts(NamedTuple):
    """The same contexts every round, (n_arms, n_features) float64."""

    contexts: Any

    def fill(self, rng: Any, out: Any) -> None:
        """Copy the contexts."""
        for i in range(out.shape[0]):
            for k in range(out.shape[1]):
                out[i, k] = self.contexts[i, k]


@kernel
def fill_chunk(law: Any, model: Any, theta: Any, contexts_rng: Any, outcomes_rng: Any, chunk: Any) -> None:
    """Fill a chunk of rounds.

    Parameters
    ----------
    law : what draws contexts
    model : the true comparison model, whose G* decides duels
    theta : (d,) float64, the true parameter
    contexts_rng, outcomes_rng : numpy.random.Generator
        One stream each, so that neither depends on the other.
    chunk : Chunk
        Overwritten.

    Notes
    -----
    O(n d) a round besides the law's cost.
    """
    for r in range(chunk.contexts.shape[0]):
        fill(law, contexts_rng, chunk.contexts[r].T)
        utilities(theta, chunk.contexts[r], chunk.utilities[r])
        chunk.best[r] = chunk.utilities[r].max()
        chunk.latent[r] = _latent(model, outcomes_rng)


@helper
def _latent(model: Any, rng: Any) -> float:
    first = perturb(model, raw(model, rng))
    return first - perturb(model, raw(model, rng))


@runtime_checkable
class Problem(Protocol):
    """What :func:`fastcolst.simulate` asks of a problem: its sizes, and runs.

    A run has ``theta`` (d,), ``chunk_rounds`` (int) and ``next_chunk(n_rounds)``, which fills a
    :class:`fastcolst.policies.protocol.Chunk` with at most that many rounds.
    """

    n_arms: int
    n_features: int

    def start(self, entropy: int, run: int) -> Any:
        """Begin a run with streams of its own."""


class GivenTheta(NamedTuple):
    """One true parameter for all runs."""

    theta: NDArray[np.float64]

    def draw(self, rng: Generator) -> NDArray[np.float64]:
        """Return the parameter."""
        return self.theta.copy()


class ThetaInShell(NamedTuple):
    """Afresh for each run, uniform among the parameters with a norm between two bounds."""

    n_features: int
    lowest: float
    highest: float

    def draw(self, rng: Generator) -> NDArray[np.float64]:
        """Return a parameter."""
        direction = rng.standard_normal(self.n_features)
        inner = (self.lowest / self.highest) ** self.n_features
        radius = self.highest * (inner + (1.0 - inner) * rng.random()) ** (1.0 / self.n_features)
        return direction * (radius / np.linalg.norm(direction))


class ThetaOnCorners(NamedTuple):
    """Afresh for each run, uniform among the corners of a cube."""

    n_features: int
    half_side: float

    def draw(self, rng: Generator) -> NDArray[np.float64]:
        """Return a parameter."""
        return np.where(rng.random(self.n_features) < 0.5, self.half_side, -self.half_side).astype(np.float64)


class Run:
    """One run of a scenario: its true parameter and its streams, which fill chunk after chunk.

    ``theta`` (d,) is the true parameter, ``fills`` counts the chunks filled.
    """

    def __init__(self, law: Any, model: Any, theta: NDArray[np.float64], n_arms: int, entropy: int, run: int) -> None:
        self.theta = theta
        self.fills = 0
        self._law, self._model = law, model
        self._rngs = generator(entropy, CONTEXTS, run), generator(entropy, OUTCOMES, run)
        d = len(theta)
        m = min(LARGEST_CHUNK, max(1, CHUNK_BYTES // (8 * d * n_arms)))
        self._chunk = Chunk(np.empty((m, d, n_arms)), np.empty((m, n_arms)), np.empty(m), np.empty(m))

    @property
    def chunk_rounds(self) -> int:
        """Rounds in a full chunk."""
        return len(self._chunk.best)

    def next_chunk(self, n_rounds: int) -> Chunk:
        """The next rounds; valid until the next call. The sequence of rounds does not depend on how it is cut."""
        chunk = self._chunk if n_rounds == self.chunk_rounds else Chunk(*(array[:n_rounds] for array in self._chunk))
        with np.errstate(over="ignore"):  # without the JIT, SplitMix64's wrap-around would warn
            fill_chunk(self._law, self._model, self.theta, *self._rngs, chunk)
        self.fills += 1
        return chunk


class Scenario:
    """A contextual problem under a linear stochastic transitivity model.

    Parameters
    ----------
    theta : (n_features,) array_like
        The true parameter.
    n_arms : int, optional
        Arms of every round; may be left out when ``contexts`` is an array.
    comparison : str or model, default "bradley-terry"
        The model that answers: G* and F*.
    contexts : "ball", "fixed", array or NamedTuple with ``fill(rng, out)``
        "ball": uniform in the unit ball, afresh every round. "fixed": so drawn once a run, then kept. An array (n_arms,
        n_features): those. A law of one's own draws a round's contexts into ``out``, (n_arms, n_features), from a NumPy
        Generator.

    Raises
    ------
    ValueError
        For an argument outside its range, with its name.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), section 3.1; section 4.1 for the three scenarios of the experiments.

    Examples
    --------
    >>> import fastcolst as fc
    >>> fc.Scenario(theta=[1.0, -0.5], n_arms=4, contexts="fixed")
    Scenario(theta=[1.0, -0.5], n_arms=4, comparison=BradleyTerry(scale=1.0), contexts='fixed')
    >>> fc.Scenario.hard(n_arms=20, n_features=5).n_features
    5
    """

    def __init__(
        self,
        *,
        theta: ArrayLike,
        n_arms: int | None = None,
        comparison: Any = "bradley-terry",
        contexts: Any = "ball",
    ) -> None:
        parameter = feature_rows("theta", theta, None, ndim=1)
        self._setup(parameter.size, n_arms, comparison, contexts)
        self._theta: GivenTheta | ThetaInShell | ThetaOnCorners = GivenTheta(parameter.copy())
        self._named: dict[str, Any] = {}
        self._text = f"Scenario(theta={parameter.tolist()}, {self._settings()})"

    @classmethod
    def _norm_between(
        cls, name: str, lowest: float, highest: float, n_arms: int, n_features: int, comparison: Any
    ) -> Scenario:
        scenario = cls.__new__(cls)
        scenario._setup(count("n_features", n_features), n_arms, comparison, "ball")
        scenario._theta = ThetaInShell(scenario.n_features, lowest, highest)
        scenario._named = {"name": name, "n_arms": scenario.n_arms, "n_features": scenario.n_features}
        sizes = f"n_arms={scenario.n_arms}, n_features={scenario.n_features}"
        scenario._text = f"Scenario.{name}({sizes}, comparison={scenario.comparison!r})"
        return scenario

    @classmethod
    def easy(cls, *, n_arms: int = 50, n_features: int = 10, comparison: Any = "bradley-terry") -> Scenario:
        """E(d, n, G*): theta uniform in the ball of radius 1/sqrt(d) once a run, contexts uniform in the unit ball."""
        d = count("n_features", n_features)
        return cls._norm_between("easy", 0.0, 1.0 / math.sqrt(d), n_arms, d, comparison)

    @classmethod
    def medium(cls, *, n_arms: int = 50, n_features: int = 10, comparison: Any = "bradley-terry") -> Scenario:
        """M(d, n, G*): the norm of theta between 1/sqrt(d) and 1."""
        d = count("n_features", n_features)
        return cls._norm_between("medium", 1.0 / math.sqrt(d), 1.0, n_arms, d, comparison)

    @classmethod
    def hard(cls, *, n_arms: int = 50, n_features: int = 10, comparison: Any = "bradley-terry") -> Scenario:
        """H(d, n, G*): the norm of theta between 1 and sqrt(d)."""
        d = count("n_features", n_features)
        return cls._norm_between("hard", 1.0, math.sqrt(d), n_arms, d, comparison)

    @classmethod
    def lower_bound(
        cls, *, rounds: int, n_features: int = 4, ball: str = "max", comparison: Any = "bradley-terry"
    ) -> Scenario:
        """The instance behind the lower bound of the weak regret: all corners of a cube, and hardly a difference.

        The arms are the 2^d corners of {-1, 1}^d, every round the same; theta is uniform on {-1/sqrt(T), 1/sqrt(T)}^d,
        once a run. One arm alone is best, the one with the signs of theta, and no T answers suffice to find it: over
        these theta the mean weak regret of any policy after T rounds is at least d sqrt(T) e^-12 / 8.

        Parameters
        ----------
        rounds : int
            T, for which the instance is hard; more than max(d, 16), as the theorem asks.
        n_features : int
            d, at most 12: there are 2^d arms.
        ball : "max" or "euclidean"
            In which unit ball the contexts lie: corners of {-1, 1}^d, or of {-1/sqrt(d), 1/sqrt(d)}^d, where the bound
            is sqrt(d T) e^-12 / 8.
        comparison : str or model
            The theorem's is "bradley-terry".

        Raises
        ------
        ValueError
            For an argument outside its range, with its name.

        References
        ----------
        Bengs, Saha, Huellermeier (2022), Theorem 3.1 and its proof in the appendix, cases 1 and 2. The proof's contexts
        need one arm with the signs of theta; the whole cube gives none of them away.

        Examples
        --------
        >>> import fastcolst as fc
        >>> fc.Scenario.lower_bound(rounds=10_000, n_features=4).n_arms
        16
        """
        d, T = count("n_features", n_features), count("rounds", rounds)
        if d > LARGEST_CUBE:
            raise ValueError(f"n_features is {d}; at most {LARGEST_CUBE} is wanted: there are 2^n_features arms")
        if max(d, 16) >= T:
            raise ValueError(f"rounds is {T}; more than max(n_features, 16) = {max(d, 16)} is wanted")
        ball = choice("ball", ball, ("max", "euclidean"))
        scenario = cls.__new__(cls)
        corners = 2.0 * (np.arange(2**d)[:, np.newaxis] >> np.arange(d) & 1) - 1.0
        scenario._setup(d, None, comparison, corners if ball == "max" else corners / math.sqrt(d))
        scenario._theta = ThetaOnCorners(d, 1.0 / math.sqrt(T))
        scenario._named = {"name": "lower_bound", "rounds": T, "n_features": d, "ball": ball}
        sizes = f"rounds={T}, n_features={d}, ball={ball!r}"
        scenario._text = f"Scenario.lower_bound({sizes}, comparison={scenario.comparison!r})"
        return scenario

    def _setup(self, n_features: int, n_arms: int | None, comparison: Any, contexts: Any) -> None:
        self.n_features = n_features
        self.comparison = comparison_model(comparison)
        self._contexts = contexts
        if n_arms is not None:
            n_arms = count("n_arms", n_arms)
        if isinstance(contexts, str):
            self._contexts = choice("contexts", contexts, ("ball", "fixed"), ", an array or a NamedTuple with fill")
        elif callable(getattr(type(contexts), "fill", None)) and not isinstance(contexts, np.ndarray):
            self._contexts = registered(contexts, "contexts")
        else:
            array = feature_rows("contexts", contexts, None, shape="(n_arms, n_features)").copy()
            if array.shape[1] != n_features:
                raise ValueError(
                    f"contexts has {array.shape[1]} features and theta {n_features}; equal numbers are wanted"
                )
            if n_arms not in (None, len(array)):
                raise ValueError(f"n_arms is {n_arms} and contexts has {len(array)} rows; equal numbers are wanted")
            n_arms, self._contexts = len(array), array
        if n_arms is None:
            raise ValueError("n_arms is missing; only an array of contexts tells it")
        check_memory("n_arms", n_arms, 8 * n_arms * n_features)
        self.n_arms = n_arms

    def _settings(self) -> str:
        contexts = self._contexts.tolist() if isinstance(self._contexts, np.ndarray) else self._contexts
        return f"n_arms={self.n_arms}, comparison={self.comparison!r}, contexts={contexts!r}"

    def __repr__(self) -> str:
        return self._text

    def get_params(self) -> dict[str, Any]:
        """What builds the scenario again: ``name`` ("easy", ...) and its arguments, or the class's own arguments."""
        if isinstance(self._theta, GivenTheta):
            kept = self._contexts.tolist() if isinstance(self._contexts, np.ndarray) else self._contexts
            own = {"theta": self._theta.theta.tolist(), "n_arms": self.n_arms, "contexts": kept}
        else:
            own = self._named
        return {**own, "comparison": self.comparison}

    def start(self, entropy: int, run: int) -> Run:
        """Begin a run: draw its theta (and its fixed contexts) and name its streams."""
        rng = generator(entropy, PROBLEM, run)
        theta = self._theta.draw(rng)
        law = deepcopy(self._contexts)  # a law may hold scratch, which runs on other threads must not share
        if isinstance(law, np.ndarray):
            law = FixedContexts(law)
        elif isinstance(law, str):
            law = Ball.of(self.n_arms) if law == "ball" else FixedContexts(_in_ball(rng, self.n_arms, self.n_features))
        return Run(law, self.comparison, theta, self.n_arms, entropy, run)


def _in_ball(rng: Generator, n: int, d: int) -> NDArray[np.float64]:
    """Points uniform in the unit ball, (n, d): NumPy's version of what :class:`Ball` does round by round."""
    normal = rng.standard_normal((n, d))
    square = (normal * normal).sum(axis=1) + 2.0 * rng.standard_exponential(n)
    return normal / np.sqrt(square)[:, np.newaxis]


# --- real data ----------------------------------------------------------------------------------------------

COIN = float(np.finfo(np.float64).tiny)
"""Size of the latent number that decides equal scores: too small to turn a difference, and not subnormal, which some
processors are told to take for 0."""

SMALLEST_SCORE = 1e-290
"""Scores that are not 0 differ, if they do, by more than the coin when they are no smaller than this."""


class ScoredRun:
    """One run of :class:`ScoredArms`: its order of rounds and its coins. ``theta`` (0,): the problem has none."""

    def __init__(self, packed: NDArray[np.float64], utilities: NDArray[np.float64], entropy: int, run: int) -> None:
        _, d, n = packed.shape
        self.theta = np.empty(0)
        self._packed, self._utilities, self._best = packed, utilities, utilities.max(axis=1)
        self._order_rng, self._coin_rng = generator(entropy, CONTEXTS, run), generator(entropy, OUTCOMES, run)
        self._ahead = np.empty(0, np.intp)  # rounds of this pass that are still to come
        self.chunk_rounds = min(LARGEST_CHUNK, max(1, CHUNK_BYTES // (8 * d * n)))

    def next_chunk(self, n_rounds: int) -> Chunk:
        """The next rounds. The sequence of rounds does not depend on how it is cut."""
        m = len(self._packed)
        n_passes = math.ceil((n_rounds - len(self._ahead)) / m)
        rows = np.concatenate([self._ahead, *(self._order_rng.permutation(m) for _ in range(n_passes))])
        rows, self._ahead = rows[:n_rounds], rows[n_rounds:]
        latent = np.where(self._coin_rng.random(n_rounds) < 0.5, COIN, -COIN)
        return Chunk(self._packed[rows], self._utilities[rows], self._best[rows], latent)


class ScoredArms:
    """Real data as a problem: in every round each arm has a known score, and the arm with the better score wins.

    A run shows the rows of the data in a random order, all of them once, then all of them again in another order, and
    so on. A duel between equal scores is decided by a fair coin, the same for every policy. Regret is in the scores'
    unit: the best score of the round minus the mean (average regret), or the better one (weak regret), of the scores of
    the two arms shown, and the other way round when low scores are good.

    Parameters
    ----------
    contexts : (m, n_arms, n_features) array_like
        The arms' features in each of m rounds; finite.
    scores : (m, n_arms) array_like
        How good each arm is there: runtimes, qualities, ratings. Finite, and 0 or at least 1e-290 in size.
    maximize : bool, default True
        Whether high scores are good.

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

    def __init__(self, contexts: ArrayLike, scores: ArrayLike, maximize: bool = True) -> None:
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
        _, self.n_arms, self.n_features = rows.shape
        self._packed = np.ascontiguousarray(rows.transpose(0, 2, 1))
        self._utilities = values.copy() if self.maximize else -values
        data = hashlib.sha256(repr(rows.shape).encode())
        for array in (self._packed, self._utilities):
            data.update(array.tobytes())
        self.digest = data.hexdigest()

    def get_params(self) -> dict[str, Any]:
        """What names the problem in tables: the data's digest in place of the data."""
        return {"name": "scored", "maximize": self.maximize, "sha256": self.digest}

    def __repr__(self) -> str:
        """Sizes, and the beginning of the data's digest."""
        m, n, d = len(self._packed), self.n_arms, self.n_features
        return f"ScoredArms(<{m} rounds, {n} arms, {d} features, {self.digest[:16]}>, maximize={self.maximize})"

    def start(self, entropy: int, run: int) -> ScoredRun:
        """Begin a run: name the streams of its order and of its coins."""
        return ScoredRun(self._packed, self._utilities, entropy, run)
