"""Choices out of several, learned one by one: the best of a set that was shown, and the stages of a ranking.

With z_j = x_c - x_j for the chosen arm c and each of the m - 1 others, the loss of a choice is

    Gumbel noise of scale sigma     log(1 + sum_j exp(-z_j'theta / sigma)),    Plackett-Luce's, exact and convex
    any other noise                 sum_j psi(z_j'theta) / (m - 1),            psi = -log F: a pseudo-likelihood

Of a set of two both are the loss of a comparison. The slopes s_j are -d loss / d(z_j'theta), and the loss pulls theta
along sum_j s_j z_j; of Plackett-Luce s_j = p_j / sigma, p_j the probability of j, and the sum is (x_c - xbar) / sigma.

An exact estimator has choices solved together with its pairs: passes run over a history that holds both. All of this is
NumPy's: a choice from a set takes a person seconds, and choices of pairs pay nothing for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastcolst._blas import eigh, on_one_thread
from fastcolst.comparison import BradleyTerry, cdf, curvature, pdf, score
from fastcolst.estimation.history import History
from fastcolst.estimation.passes import pass_over
from fastcolst.estimation.plackett_luce import Choices, information_at, likelihood_at, scores_of, shares_of
from fastcolst.estimation.retraction import rows_of

__all__ = ["PairsAndChoices", "count_leverage", "newton_step", "note_choice", "pulls", "with_choices"]

Array = NDArray[np.float64]

MOST_STEPS = 100
"""Of Newton's method for one choice, which needs about five."""
REST = 1e-10
"""Standard errors of a step after which the next would be the square of that."""
MOST_TURN = 0.25
"""Share of its first slope by which the loss may rise again along a step."""


class PairsAndChoices(NamedTuple):
    """All that an exact estimator learned: pairs, and choices out of more, to be passed over like a history of pairs.

    Features of the choices are in the scale of the noise, less those of the chosen row, which comes first.
    """

    pairs: History
    choices: Choices
    scale: float

    @property
    def size(self) -> NDArray[np.int64]:
        """Rows that a pass touches, (1,)."""
        return self.pairs.size + len(self.choices.rows)

    def margins(self, direction: Array) -> Array:
        """z'direction of all pairs, and of each chosen row with all others, (n,). O(n d)."""
        return np.append(self.pairs.margins(direction), _others(self.choices) @ (-self.scale * direction))

    def gram_of(self, selected: NDArray[np.bool_]) -> Array:
        """Z'Z of some of these, (d, d). O(n d^2)."""
        n_pairs = int(self.pairs.size[0])
        rows = self.scale * _others(self.choices)[selected[n_pairs:]]
        gram = self.pairs.gram_of(selected[:n_pairs])
        gram += rows.T @ rows
        return gram


@pass_over.register(PairsAndChoices)
def _(history: PairsAndChoices, objective: Any, theta: Array, gradient: Array, information: Array) -> int:
    n_wrong = pass_over(history.pairs, objective, theta, gradient, information)
    choices = history.choices
    unit = _unit(objective.model, objective.score)

    def add() -> None:
        found = likelihood_at(choices, theta)
        gradient[:] += unit * scores_of(choices, found).sum(axis=0)
        if information.size:
            information[:] += unit * information_at(choices, found)

    on_one_thread(len(choices.rows), add)  # by which the products are long, whatever d is
    return n_wrong + int(np.count_nonzero(_others(choices) @ theta >= 0.0))


def _others(choices: Choices) -> Array:
    """The rows that were not chosen, less the chosen one each."""
    is_other = np.ones(len(choices.rows), np.bool_)
    is_other[choices.starts] = False
    others: Array = choices.features[is_other]
    return others


def _unit(model: BradleyTerry, kind: int) -> float:
    """By which likelihood's score is multiplied: the residual, Y - F for pairs, is as much larger as the scale is."""
    return model.scale if kind == 1 else 1.0


def with_choices(model: Any, memory: Any, choices: Choices) -> Any:
    """The memory of an estimator that keeps its comparisons, with choices besides; its other arrays are the same.

    Features of the choices are less those of the chosen row, which comes first. With Gumbel noise they stay choices,
    with other noise they are pairs of weight 1/(m - 1), rank-broken. O(n d).
    """
    if isinstance(model, BradleyTerry):
        scaled = choices._replace(features=choices.features / model.scale)
        return memory._replace(history=PairsAndChoices(memory.history, scaled, model.scale))
    sizes = choices.sizes
    broken = -np.delete(choices.features, choices.starts, axis=0)
    shared = np.repeat(choices.weights / (sizes - 1), sizes - 1)
    rows, weights = rows_of(memory.history)
    return memory._replace(history=History.of(np.vstack([rows, broken]), np.concatenate([weights, shared])))


def note_choice(memory: Any, contrasts: Array) -> None:
    """Count a choice in the memory of an exact estimator, which is solved anew before theta is wanted. O(m d)."""
    scales = memory.features["scale"]
    scales[:] = np.maximum(scales, np.abs(contrasts).max(axis=0))
    memory.progress["learned"] += 1
    memory.progress["warm"] = 0


def count_leverage(memory: Any, choices: Choices) -> None:
    """Let the leverages of choices, at a maximum just found, count in the prediction of how far pushes are off.

    The largest n z'H^-1 z bounds how margins move with theta; see :mod:`fastcolst.estimation.prediction`. O(n d^2).
    """
    whitened = on_one_thread(len(choices.rows), np.matmul, choices.features, memory.factor.T)
    largest = memory.progress["learned"] * float((whitened**2).sum(axis=1).max())
    memory.progress["leverage"] = max(float(memory.progress["leverage"]), largest)


# --- one choice at a time -------------------------------------------------------------------------------------


def pulls(model: Any, kind: int, margins: Array) -> tuple[Array, Array]:
    """Slopes (m - 1,) of a choice of weight 1 at its margins z_j'theta, and their negative derivatives by these.

    ``kind`` is the score's: 0 likelihood, 1 residual. The derivatives, (m - 1, m - 1), are positive semidefinite.
    """
    if isinstance(model, BradleyTerry):
        shares = shares_of(np.append(0.0, -margins / model.scale), np.zeros(1, np.int64))[0][1:]
        by = _unit(model, kind) / model.scale
        return by * shares, by / model.scale * (np.diag(shares) - np.outer(shares, shares))
    n = len(margins)
    if kind == 1:
        slopes, bends = [cdf(model, -e) for e in margins.tolist()], [pdf(model, e) for e in margins.tolist()]
    else:
        slopes, bends = [score(model, e) for e in margins.tolist()], [curvature(model, e) for e in margins.tolist()]
    return np.array(slopes) / n, np.diag(bends) / n


def newton_step(model: Any, kind: int, memory: Any, contrasts: Array, weight: float) -> bool:
    """Move theta by an implicit Newton step on the loss of one choice: exact if all earlier terms were quadratic.

    With q = Z H^-1 Z' for the contrasts Z, the slopes s solve s = weight S(Z theta + q s), as those of one pair do in
    :func:`fastcolst.estimation.push.push`. Then theta += H^-1 Z's, and the curvature at the new margins enters H.
    Returns False, and nothing has changed, where numbers overflow.

    O(d^3 + m d^2 + m^3).
    """
    return on_one_thread(len(memory.theta), _newton_step, model, kind, memory, contrasts, weight)


def _newton_step(model: Any, kind: int, memory: Any, contrasts: Array, weight: float) -> bool:
    from scipy.linalg import solve_triangular  # a tenth of a second, which pairs need not pay

    with np.errstate(all="ignore"):
        whitened = contrasts @ memory.factor.T
        q = whitened @ whitened.T
        found = implicit_slopes(model, kind, contrasts @ memory.theta, q, weight) if np.isfinite(q).all() else None
        if found is None:
            return False
        slopes, bends = found
        theta = memory.theta + (slopes @ whitened) @ memory.factor
        values, vectors = eigh(bends)
        added = np.sqrt(np.maximum(values, 0.0))[:, np.newaxis] * (vectors.T @ whitened)
        # S (H + U'U)^-1 S' = (R'R)^-1 with R of QR, which never squares what is large
        upper = np.linalg.qr(np.vstack([np.eye(len(theta)), added]), mode="r")
        upper *= np.sign(np.diag(upper))[:, np.newaxis]
        if not (np.isfinite(theta).all() and np.isfinite(upper).all()):
            return False
        memory.factor[:] = np.tril(solve_triangular(upper, memory.factor, trans="T"))
    memory.theta[:] = theta
    return True


def implicit_slopes(model: Any, kind: int, margins: Array, q: Array, weight: float) -> tuple[Array, Array] | None:
    """The slopes s that solve s = weight S(margins + q s), and the curvature there; None where there are none.

    Newton's method, each step cut back until the slope of s'q s / 2 + weight loss along it has not turned by more than
    a quarter, which needs no value of the loss.
    """
    s = np.zeros_like(margins)
    slopes, bends = (weight * part for part in pulls(model, kind, margins))
    for _ in range(MOST_STEPS):
        step = np.linalg.solve(np.eye(len(s)) + bends @ q, slopes - s)
        along = q @ step
        first, fraction = float(along @ (slopes - s)), 1.0
        if not abs(first) < np.inf:
            return None
        while True:
            trial = s + fraction * step
            slopes, bends = (weight * part for part in pulls(model, kind, margins + q @ trial))
            last = float(along @ (slopes - trial))
            if last >= -MOST_TURN * first or fraction < 2.0**-40:
                break
            fraction *= max(0.1, first / (first - last))
        s = trial
        if first <= REST**2:
            return s, bends
    return None
