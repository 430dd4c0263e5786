"""What is true in a scenario: a linear parameter, drawn once for a run, or a utility of somebody's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fastcolst._checks import brief, plain_text, real_numbers
from fastcolst._registry import imported
from fastcolst.policies.protocol import Chunk

__all__ = ["GivenTheta", "OwnUtility", "ThetaInShell", "ThetaOnCorners", "Truth"]


class Truth(Protocol):
    """What is true in a scenario."""

    def draw(self, rng: Generator) -> NDArray[np.float64]:
        """The true parameter of a run, (d,); (0,) where there is none."""
        ...

    def params(self) -> dict[str, Any]:
        """The arguments of a scenario that say so; none where a name does, such as that of ``Scenario.hard``."""
        return {}

    def evaluate(self, chunk: Chunk, rounds_before: int) -> None:
        """Put the true utilities, and the best of them, into a chunk that has x'theta there."""
        return  # x'theta is true


@dataclass(frozen=True, eq=False)
class GivenTheta(Truth):
    """One true parameter for all runs."""

    theta: NDArray[np.float64]

    def draw(self, rng: Generator) -> NDArray[np.float64]:
        """Return the parameter."""
        return self.theta.copy()

    def params(self) -> dict[str, Any]:
        """The parameter."""
        return {"theta": self.theta.tolist()}


@dataclass(frozen=True)
class ThetaInShell(Truth):
    """A parameter drawn for each run, uniform in the shell lowest <= |theta| <= highest."""

    n_features: int
    lowest: float
    highest: float

    def draw(self, rng: Generator) -> NDArray[np.float64]:
        """Return a parameter."""
        direction = rng.standard_normal(self.n_features)
        inner = (self.lowest / self.highest) ** self.n_features
        radius = self.highest * (inner + (1.0 - inner) * rng.random()) ** (1.0 / self.n_features)
        return direction * (radius / math.sqrt(math.fsum(direction * direction)))  # BLAS sums as the processor likes


@dataclass(frozen=True)
class ThetaOnCorners(Truth):
    """A parameter drawn for each run, uniform among the corners {-half_side, half_side}^d of a cube."""

    n_features: int
    half_side: float

    def draw(self, rng: Generator) -> NDArray[np.float64]:
        """Return a parameter."""
        return np.where(rng.random(self.n_features) < 0.5, self.half_side, -self.half_side).astype(np.float64)


@dataclass(frozen=True)
class OwnUtility(Truth):
    """A function of contexts in the place of x'theta.

    Parameters
    ----------
    function : callable
    n_features : int
    takes_round, takes_chunk : bool
        Whether it maps (n, d) to (n,), and (m, n, d) to (m, n).
    """

    function: Callable[[Any], Any]
    n_features: int
    takes_round: bool
    takes_chunk: bool

    @classmethod
    def of(cls, given: Any, contexts: NDArray[np.float64]) -> OwnUtility:
        """Try a function, or ``"package.module:function"``, on a few rounds of contexts, (m, n, d).

        Raises
        ------
        ValueError
            It cannot be called with a round or with several, or does not give a number for each arm.
        """
        reference = plain_text(given)
        try:
            function = given if reference is None else imported(reference)
        except ValueError as error:
            raise ValueError(f"utility is {error}") from error
        if not callable(function):
            raise ValueError(f"utility is {brief(given)}; a function of contexts is wanted")
        found = [_tried(function, contexts[0]), _tried(function, contexts)]
        if all(isinstance(result, str) for result in found):
            wanted = "utilities (n_arms,) of contexts (n_arms, n_features) are wanted, or (m, n_arms) of several rounds"
            raise ValueError(f"utility {found[0]}, and {found[1]}; {wanted}")
        takes_round, takes_chunk = (isinstance(result, np.ndarray) for result in found)
        if takes_round and takes_chunk:  # x[:, 0] of several rounds may have the right shape, and be something else
            takes_chunk = all(_agree(_tried(function, x), u) for x, u in zip(contexts, found[1], strict=True))
        return cls(function, contexts.shape[2], takes_round, takes_chunk)

    def draw(self, rng: Generator) -> NDArray[np.float64]:
        """No parameter."""
        return np.empty(0)

    def params(self) -> dict[str, Any]:
        """The function, and the contexts' features, of which it does not tell the number."""
        return {"name": "utility", "utility": self.function, "n_features": self.n_features}

    def evaluate(self, chunk: Chunk, rounds_before: int) -> None:
        """Put the function's utilities into a chunk.

        Raises
        ------
        ValueError
            The function fails, or gives something else than a finite number for each arm.
        """
        contexts, out = chunk.contexts.transpose(0, 2, 1), chunk.utilities
        rows = [contexts] if self.takes_chunk else contexts
        for r, x in enumerate(rows):
            found = _tried(self.function, x)
            if isinstance(found, str):
                raise ValueError(f"utility, round {rounds_before + r + 1}: it {found}")
            out[slice(None) if self.takes_chunk else r] = found
        if self.takes_round and self.takes_chunk and not _agree(_tried(self.function, contexts[-1]), out[-1]):
            raise ValueError(f"utility, round {rounds_before + len(out)}: alone it has other numbers than among others")
        if not np.isfinite(out).all():
            r, arm = np.argwhere(~np.isfinite(out))[0]
            raise ValueError(
                f"utility of arm {arm} is {out[r, arm]} in round {rounds_before + r + 1}; it must be finite"
            )
        out.max(axis=1, out=chunk.best)


def _tried(function: Callable[[Any], Any], contexts: NDArray[np.float64]) -> NDArray[np.float64] | str:
    """A function's utilities of contexts, or in words why there are none."""
    seen = contexts.view()
    seen.setflags(write=False)
    try:
        found = real_numbers("utility", function(seen))
    except Exception as error:  # noqa: BLE001 - a function of somebody's own may raise what it likes
        return f"fails on contexts of shape {contexts.shape} with {type(error).__name__}: {error}"
    if found.shape != contexts.shape[:-1]:
        return f"has shape {found.shape} for contexts of shape {contexts.shape}"
    return found


def _agree(one: NDArray[np.float64] | str, other: NDArray[np.float64]) -> bool:
    return not isinstance(one, str) and np.allclose(one, other, rtol=1e-9, atol=0.0, equal_nan=True)
