"""Sets of more than two: how a policy fills them, and what a choice out of one teaches."""

from __future__ import annotations

import math

import numpy as np

from fastcolst.reference.estimation import bend, pull
from fastcolst.reference.linalg import Floats, floats, norms
from fastcolst.reference.models import BradleyTerry, ComparisonModel
from fastcolst.reference.pairs import first_of_equals, tie_key, word
from fastcolst.reference.policies import CoLSTIM, MaxPairUCB


def select_set(policy: CoLSTIM | MaxPairUCB, contexts: Floats, k: int, uniforms: Floats, raw: Floats) -> list[int]:
    """Choose k arms: the pair of a policy without self-duels, then argmax u_j + c min_i |x_j - x_i| arm by arm.

    Rounds of exploration add random arms. Each arm breaks ties in a random order of its own.
    """
    chosen = list(policy.select(contexts, uniforms, raw))
    key = word(tie_key(uniforms[1]))
    while len(chosen) < k:
        key = word(key)
        values = np.zeros(len(contexts))
        if policy.exploration_end is not None:
            inverse = policy.width_inverse()
            nearest = np.min([norms(contexts - contexts[i], inverse) for i in chosen], axis=0)
            values = policy.utilities(contexts) + policy.confidence_scale() * nearest
        values[chosen] = -math.inf
        chosen.append(first_of_equals(values, key))
    return chosen


def gain_of_gram(rows: Floats, weight: float = 1.0) -> Floats:
    """Return what M gains by a choice out of rows (m, d): 4 w/m sum (x - xbar)(x - xbar)', whoever is chosen.

    >>> gain_of_gram(np.array([[3.0], [1.0]]))  # z z' of two
    array([[4.]])
    """
    off = rows - rows.mean(axis=0)
    return floats(4.0 * weight / len(rows) * off.T @ off)


def shares(utilities: Floats) -> Floats:
    """Return exp(u_j) / sum exp(u), the probability that each comes first under Gumbel noise of scale 1."""
    masses = np.exp(utilities - np.max(utilities))
    return floats(masses / masses.sum())


def score_and_information(
    model: ComparisonModel, rows: Floats, chosen: int, theta: Floats, score: str = "likelihood"
) -> tuple[Floats, Floats]:
    """Return the score (d,) and the information (d, d) of a choice out of rows (m, d).

    With Gumbel noise of scale s they are (x_c - xbar) / s and sum p (x - xbar)(x - xbar)' / s^2, with the probabilities
    p and their mean xbar; with other noise those of the m - 1 pairs that were won, each with weight 1/(m - 1).
    """
    if isinstance(model, BradleyTerry):
        p = shares(rows @ theta / model.scale)
        mean = p @ rows
        unit = 1.0 / model.scale if score == "likelihood" else 1.0
        off = rows - mean
        return unit * (rows[chosen] - mean), unit / model.scale * (off.T * p) @ off
    contrasts = rows[chosen] - np.delete(rows, chosen, axis=0)
    margins = contrasts @ theta
    slopes, bends = pull(model, score, margins) / len(contrasts), bend(model, score, margins) / len(contrasts)
    return slopes @ contrasts, (contrasts.T * bends) @ contrasts
