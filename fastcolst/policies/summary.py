"""What a policy says of itself."""

from __future__ import annotations

import html
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastcolst.comparison import pdf
from fastcolst.policies.exploration import rounds_left
from fastcolst.policies.pending import Pending
from fastcolst.policies.simulated import Simulated

__all__ = ["Summarised", "Summary", "standard_errors"]

MOST_FEATURES = 100
"""So many are shown all."""
SHOWN = 20
"""So many are shown of more."""


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What a policy says of itself; ``print`` it, or let a notebook show it.

    Attributes
    ----------
    policy : str
        As code.
    status : str
        See ``policy.status``.
    rounds, duels, self_duels, pending, logged : int
        Rounds in which arms were chosen, answers learned, rounds that showed an arm against itself (since the last
        fork, and in simulations not counted), duels that wait, comparisons from logs.
    exploring : int
        Rounds for which pairs are random yet at most, a number that is unknown as 0; ``exploration_rounds="auto"`` ends
        as soon as the Gram matrix is well conditioned.
    names : tuple of hashables
        The features', or 0, 1, ... where they have no names; empty for policies without an estimate.
    theta : (d,) float64
        The coefficients.
    standard_errors : (d,) float64
        Of the coefficients, as the Gram matrix has them: sqrt((M^-1)_kk) / (2 f(0)). That is for answers between arms
        that are about as good; answers that were easy to foresee tell less. inf while M is singular.
    effective_answers : float
        As how many answers of today those of all time count at most, 1/(1 - discount); inf where nothing is forgotten.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> policy = fc.CoLSTIM(2, estimator="sgd", ridge=1.0, exploration_rounds=0, rng=1)
    >>> policy.update(policy.select(np.eye(2)), True)
    >>> print(policy.summary())
    CoLSTIM(n_features=2, estimator='sgd', ridge=1.0, exploration_rounds=0, rng=1)
    status ready: 1 round, 1 duel, 0 self-duels, 0 pending, 0 logged
    feature  coefficient  standard error
    0            -0.2500          1.6330
    1            +0.2500          1.6330
    best known: 0, least known: 0
    """

    policy: str
    status: str
    rounds: int
    duels: int
    self_duels: int
    pending: int
    logged: int
    exploring: int
    names: tuple[Hashable, ...]
    theta: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    effective_answers: float

    @property
    def best_known(self) -> Hashable:
        """The feature of the smallest standard error; None where none is finite, or there is no estimate."""
        return self._name_at(np.argmin)

    @property
    def least_known(self) -> Hashable:
        """The feature of the largest standard error; None where none is finite, or there is no estimate."""
        return self._name_at(np.argmax)

    def _name_at(self, place_in: Callable[[NDArray[np.float64]], Any]) -> Hashable:
        errors = self.standard_errors
        return self.names[int(place_in(errors))] if np.isfinite(errors).any() else None

    def _counts(self) -> str:
        counts = {"round": self.rounds, "duel": self.duels, "self-duel": self.self_duels}
        told = [f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items()]
        left = f"; pairs are random for {self.exploring} rounds more at most" if self.exploring else ""
        effective = self.effective_answers
        fade = "" if effective == np.inf else f"; old ones fade, about {effective:,.0f} answers count"
        return f"status {self.status}: {', '.join(told)}, {self.pending} pending, {self.logged} logged{left}{fade}"

    def _table(self) -> list[tuple[str, str, str]]:
        """The features; where there are very many, those of the largest coefficients in their order."""
        largest = np.argsort(-np.abs(self.theta), kind="stable")[:SHOWN]
        places = range(len(self.names)) if len(self.names) <= MOST_FEATURES else np.sort(largest).tolist()
        return [(str(self.names[k]), f"{self.theta[k]:+.4f}", f"{self.standard_errors[k]:.4f}") for k in places]

    def _known(self) -> str:
        left = len(self.names) - len(self._table())
        others = f"{left} features more, of smaller coefficients; " if left else ""
        return f"{others}best known: {self.best_known}, least known: {self.least_known}"

    def __str__(self) -> str:
        lines = [self.policy, self._counts()]
        if not self.names:
            return "\n".join([*lines, "it sees arms by index only and has no estimate"])
        head = ("feature", "coefficient", "standard error")
        width = max(len(name) for name, *_ in (head, *self._table()))
        lines += [f"{a:<{width}}  {b:>11}  {c:>14}" for a, b, c in (head, *self._table())]
        return "\n".join([*lines, self._known()])

    def _repr_html_(self) -> str:
        """For notebooks."""
        told = [f"<code>{html.escape(self.policy)}</code>", html.escape(self._counts())]
        if self.names:
            head = "<tr><th>feature</th><th>coefficient</th><th>standard error</th></tr>"
            rows = "".join(
                f"<tr><td>{html.escape(name)}</td><td>{value}</td><td>{error}</td></tr>"
                for name, value, error in self._table()
            )
            told.append(f"<table>{head}{rows}</table>")
            told.append(html.escape(self._known()))
        return "<br>".join(told)


class Summarised(Simulated):
    """A policy that says what it is, has done and knows."""

    _names: Any
    _pending: Pending
    _fading: Any

    def summary(self) -> Summary:
        """Rounds, duels and status, and the coefficients with their standard errors; a copy, which changes no more."""
        with self._lock:
            self._end_interrupted()
            counters, theta, errors = self._state.counters, *self._coefficients()
            is_named = self._names is not None and len(theta) > 0 and self._map is None  # mapped features have no names
            return Summary(
                repr(self),
                self.status,
                int(counters["chosen"]),
                int(counters["answered"]),
                self._pending.n_self_duels,
                len(self._pending),
                int(counters["logged"]),
                rounds_left(counters) if self._is_exploring else 0,
                self._names if is_named else tuple(range(len(theta))),
                theta,
                errors,
                np.inf if self._fading is None else self._fading.effective,
            )

    def _coefficients(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """theta and its standard errors, copies; without entries where there is no estimate."""
        return np.empty(0), np.empty(0)

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    if TYPE_CHECKING:  # what a policy has besides

        def _end_interrupted(self) -> int: ...

        @property
        def status(self) -> str:
            """See :attr:`LinearPolicy.status`."""
            ...


def standard_errors(factor: NDArray[np.float64], model: Any) -> NDArray[np.float64]:
    """sqrt(diag M^-1) / (2 f(0)), from S with S'S = M^-1: a comparison of equals has the information 4 f(0)^2 z z'."""
    errors: NDArray[np.float64] = np.linalg.norm(factor, axis=0) / (2.0 * float(pdf(model, 0.0)))
    return errors
