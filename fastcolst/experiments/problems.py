"""Problems: where contexts, true utilities and answers come from in a simulation.

A problem fills chunks of rounds that any policy can play. The duel of a round is decided by one latent number D ~ F*,
the difference of two draws of the true perturbation G*: the first arm wins iff u_first - u_second + D > 0, which has
probability F*(u_first - u_second) whatever the arms. So all policies that are compared meet the same contexts and the
same outcomes.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst._checks import check_memory, choice, count, feature_rows, looked_at, real_numbers, whole_number
from fastcolst._compile import direct, registered, uninterrupted
from fastcolst._registry import table_of
from fastcolst.comparison import comparison_model
from fastcolst.experiments.laws import Contexts, GivenContexts, InBall, OwnLaw, RoundAfterRound, fill_chunk
from fastcolst.experiments.truths import GivenTheta, OwnUtility, ThetaInShell, ThetaOnCorners, Truth
from fastcolst.policies.protocol import Chunk
from fastcolst.streams import CONTEXTS, OUTCOMES, PROBLEM, generator

__all__ = ["Problem", "ProblemRun", "Run", "Scenario", "check_length"]

CHUNK_BYTES = 2**21
"""Size of a chunk's contexts. Kernels are called twice a chunk, which takes 50 us with Python's global lock held, and
larger chunks leave the cache: with half of it a round takes 2 to 6 % longer, with four times up to 4 %."""
LARGEST_CHUNK = 4096
LARGEST_CUBE = 12
"""Dimension of the largest cube whose corners are arms."""


class ProblemRun(Protocol):
    """What :func:`fastcolst.simulate` asks of one run of a problem."""

    @property
    def theta(self) -> NDArray[np.float64]:
        """The true parameter (d,), which results keep; (0,) where there is none."""
        ...

    @property
    def chunk_rounds(self) -> int:
        """The most rounds, at least 1, that are asked for at a time."""
        ...

    def next_chunk(self, n_rounds: int) -> Chunk:
        """The next rounds, exactly ``n_rounds`` of them; they may be overwritten by the next call."""
        ...


@runtime_checkable
class Problem(Protocol):
    """What :func:`fastcolst.simulate` asks of a problem: its sizes, and runs.

    A problem that ends says after how many rounds by an attribute ``n_rounds``.
    """

    n_arms: int
    n_features: int

    def start(self, entropy: int, run: int) -> ProblemRun:
        """Begin a run with streams of its own."""
        ...


class Run:
    """One run of a scenario: its true parameter and its streams, which fill chunk after chunk.

    ``theta`` (d,) is the true parameter, (0,) where there is none.
    """

    def __init__(
        self, scenario: Scenario, law: Any, theta: NDArray[np.float64], streams: tuple[Any, Any], truth: Truth
    ) -> None:
        self.theta = theta
        self._rounds = 0
        self._law, self._model, self._rngs, self._truth = law, scenario.comparison, streams, truth
        n, d = scenario.n_arms, scenario.n_features
        self._linear = theta if theta.size else np.zeros(d)
        self._left = math.inf if scenario.n_rounds is None else scenario.n_rounds
        m = min(LARGEST_CHUNK, max(1, CHUNK_BYTES // (8 * d * n)))
        self._chunk = Chunk(np.empty((m, d, n)), np.empty((m, n)), np.empty(m), np.empty(m))
        self._fill: Any = None

    @property
    def chunk_rounds(self) -> int:
        """Rounds in a full chunk."""
        return len(self._chunk.best)

    def next_chunk(self, n_rounds: int) -> Chunk:
        """The next rounds; valid until the next call. The sequence of rounds does not depend on how it is cut."""
        if n_rounds > self._left - self._rounds:
            raise ValueError(f"n_rounds is {n_rounds}; of {self._left} rounds {self._left - self._rounds} are left")
        chunk = self._chunk if n_rounds == self.chunk_rounds else Chunk(*(array[:n_rounds] for array in self._chunk))
        arguments = self._law, self._model, self._linear, *self._rngs, chunk
        if self._fill is None:
            self._fill = direct(fill_chunk, *arguments)  # the types of later chunks are those of this one
        before = self._rounds

        def fill() -> None:
            self._fill(*arguments)
            self._rounds += n_rounds

        uninterrupted(fill)  # for the generators' sake
        self._truth.evaluate(chunk, before)
        return chunk


class Scenario:
    """A contextual problem under a linear stochastic transitivity model, or with a utility of one's own.

    Parameters
    ----------
    theta : (n_features,) array_like, optional
        The true parameter: the utility of an arm is x'theta.
    n_arms : int, optional
        Arms of every round; may be left out when ``contexts`` is an array.
    comparison : str or model, default "bradley-terry"
        The model that answers: G* and F*.
    contexts : "ball", "fixed", array or NamedTuple with ``fill(rng, out)``
        "ball": uniform in the unit ball, afresh every round. "fixed": so drawn once a run, then kept. An array (n_arms,
        n_features): those. An array (T, n_arms, n_features): those of each round; the problem ends after T. A law of
        one's own draws a round's contexts into ``out``, (n_arms, n_features), from a NumPy Generator.
    utility : callable or "package.module:function", optional
        In place of ``theta``: maps contexts (n_arms, n_features) to utilities (n_arms,), or, which is faster, those of
        several rounds (m, n_arms, n_features) to (m, n_arms). Called from Python, once for many rounds where it may be.
    n_features : int, optional
        Of the contexts; may be left out where ``theta`` or an array of contexts tells it.

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
        theta: ArrayLike | None = None,
        n_arms: int | None = None,
        comparison: Any = "bradley-terry",
        contexts: Any = "ball",
        utility: Any = None,
        n_features: int | None = None,
    ) -> None:
        if (theta is None) == (utility is None):
            found = "theta is missing" if theta is None else "theta is given, and utility as well"
            raise ValueError(f"{found}; one of theta and utility is wanted")
        told = None if n_features is None else count("n_features", n_features)
        parameter = None if theta is None else feature_rows("theta", theta, None, ndim=1)
        if parameter is not None and told not in (None, parameter.size):
            raise ValueError(f"n_features is {told} and theta has {parameter.size}; equal numbers are wanted")
        self._setup(told if parameter is None else parameter.size, n_arms, comparison, contexts)
        self._truth: Truth
        self._named: dict[str, Any] = {}
        if parameter is not None:
            self._truth = GivenTheta(parameter.copy())
            self._text = f"Scenario(theta={parameter.tolist()}, {self._settings()})"
        else:
            check_memory("n_arms", self.n_arms, 8 * 3 * self.n_arms * self.n_features)
            rounds = np.empty((3, self.n_arms, self.n_features))
            self._contexts.show(generator(0, CONTEXTS), rounds)
            own = OwnUtility.of(utility, rounds)
            self._truth, self._text = own, f"Scenario(utility={table_of(own.function)!r}, {self._settings()})"

    @classmethod
    def _norm_between(
        cls, name: str, lowest: float, highest: float, n_arms: int, n_features: int, comparison: Any
    ) -> Scenario:
        scenario = cls.__new__(cls)
        scenario._setup(count("n_features", n_features), n_arms, comparison, "ball")
        scenario._truth = ThetaInShell(scenario.n_features, lowest, highest)
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
        scenario._truth = ThetaOnCorners(d, 1.0 / math.sqrt(T))
        scenario._named = {"name": "lower_bound", "rounds": T, "n_features": d, "ball": ball}
        sizes = f"rounds={T}, n_features={d}, ball={ball!r}"
        scenario._text = f"Scenario.lower_bound({sizes}, comparison={scenario.comparison!r})"
        return scenario

    def _setup(self, n_features: int | None, n_arms: int | None, comparison: Any, contexts: Any) -> None:
        self.comparison = comparison_model(comparison)
        self._contexts: Contexts
        self.n_rounds: int | None = None
        if n_arms is not None:
            n_arms = count("n_arms", n_arms)
        if isinstance(contexts, str):
            named = choice("contexts", contexts, ("ball", "fixed"), ", an array or a NamedTuple with fill")
            self._contexts = InBall(kept=named == "fixed")
        elif callable(getattr(type(contexts), "fill", None)) and not isinstance(contexts, np.ndarray):
            self._contexts = OwnLaw(registered(contexts, "contexts"))
        else:
            array = _given_contexts(contexts)
            *rounds, rows, features = array.shape
            if n_features not in (None, features):
                raise ValueError(f"contexts has {features} features and theta {n_features}; equal numbers are wanted")
            if n_arms not in (None, rows):
                raise ValueError(f"n_arms is {n_arms} and contexts has {rows} rows; equal numbers are wanted")
            n_arms, n_features, self.n_rounds = rows, features, rounds[0] if rounds else None
            self._contexts = RoundAfterRound(array) if rounds else GivenContexts(array)
        if n_arms is None:
            raise ValueError("n_arms is missing; only an array of contexts tells it")
        if n_features is None:
            raise ValueError("n_features is missing; only theta or an array of contexts tells it")
        check_memory("n_arms", n_arms, 8 * n_arms * n_features)
        self.n_arms, self.n_features = n_arms, n_features

    def _settings(self) -> str:
        contexts = self._contexts.argument()
        if isinstance(contexts, (list, np.ndarray)):
            contexts = table_of(np.asarray(contexts))
        return f"n_arms={self.n_arms}, comparison={self.comparison!r}, contexts={contexts!r}"

    def __repr__(self) -> str:
        return self._text

    def get_params(self) -> dict[str, Any]:
        """What builds the scenario again: ``name`` ("easy", ...) and its arguments, or the class's own arguments."""
        own = self._named or {**self._truth.params(), "n_arms": self.n_arms, "contexts": self._contexts.argument()}
        return {**own, "comparison": self.comparison}

    def start(self, entropy: int, run: int) -> Run:
        """Begin a run: draw its theta (and its fixed contexts) and open its random streams."""
        rng = generator(entropy, PROBLEM, run)
        theta = self._truth.draw(rng)
        law = self._contexts.start(rng, self.n_arms, self.n_features)
        streams = generator(entropy, CONTEXTS, run), generator(entropy, OUTCOMES, run)
        return Run(self, law, theta, streams, self._truth)


def _given_contexts(contexts: Any) -> NDArray[np.float64]:
    """Contexts of all rounds alike, (n_arms, n_features), or of each, (T, n_arms, n_features): a copy, checked."""
    shape = "(n_arms, n_features) or (T, n_arms, n_features)"
    rows = contexts if isinstance(contexts, np.ndarray) else real_numbers("contexts", contexts, shape)
    return feature_rows("contexts", rows, None, 3 if rows.ndim == 3 else 2, shape=shape).copy()


def check_length(problem: Problem, horizon: int) -> None:
    """Raise ValueError for a horizon beyond the rounds that a problem has, if it ends."""
    most = whole_number(looked_at(lambda ends: ends.n_rounds, problem))
    if most is not None and horizon > most:
        raise ValueError(f"horizon is {horizon:,}; the scenario has {most:,} rounds")
