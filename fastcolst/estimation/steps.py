"""Steps of Newton's method on the ball."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastcolst._compile import helper
from fastcolst.estimation.evidence import GRADIENT, METRIC, MU, RIGHT, STEP, TINY, WHITENED
from fastcolst.kernels.linalg import PIVOT_TOLERANCE, factorise, unwhiten, whiten_contrast

__all__ = ["ball_step", "into_ball", "length", "newton_step", "stays_inside"]


@helper
def length(vector: Any, metric: Any) -> float:
    """sqrt(sum (m_k v_k)^2). O(d)."""
    square = 0.0
    for k in range(vector.size):
        square += (metric[k] * vector[k]) ** 2
    return float(np.sqrt(square))


@helper
def into_ball(radius: float, theta: Any, metric: Any) -> None:
    """Shrink theta to the radius if it is longer. O(d)."""
    shrink = min(1.0, radius / max(length(theta, metric), TINY))
    for k in range(theta.size):
        theta[k] *= shrink


@helper
def newton_step(evidence: Any) -> float:
    """Step p = H^-1 g with the information on hand; returns its length sqrt(g'H^-1 g) in standard errors. O(d^2)."""
    whitened = evidence.vectors[WHITENED]
    square = whiten_contrast(evidence.factor, evidence.vectors[GRADIENT], whitened)
    unwhiten(evidence.factor, whitened, evidence.vectors[STEP])
    return float(np.sqrt(square))


@helper
def stays_inside(radius: float, evidence: Any) -> bool:
    """Whether theta + step lies in the ball. O(d)."""
    theta, vectors = evidence.theta, evidence.vectors
    square = 0.0
    for k in range(theta.size):
        square += (vectors[METRIC, k] * (theta[k] + vectors[STEP, k])) ** 2
    return square <= radius * radius


@helper
def ball_step(radius: float, evidence: Any) -> float:
    """Step that maximises g'p - p'Hp/2 while |D (theta + p)| <= radius.

    p = (H + mu D^2)^-1 (g - mu D^2 theta), with mu = 0 if that lies in the ball; otherwise Newton's method on the
    secular equation 1/|D (theta + p)| = 1/radius, which converges from below.

    Parameters
    ----------
    radius : float
    evidence : Evidence
        theta, metric, gradient and information are read; step, factor, penalised, mu and scratch are overwritten.

    Returns
    -------
    float
        The decrement sqrt(p'(H + mu D^2) p): the length of the step in standard errors; nan when the information is not
        finite.

    Notes
    -----
    O(d^3). To the diagonal of H a few trillionths are added, so that directions of which the data know nothing, in
    which the gradient is zero, get a step of zero.
    """
    theta, vectors, factor, penalised = evidence.theta, evidence.vectors, evidence.factor, evidence.penalised
    metric, gradient, step = vectors[METRIC], vectors[GRADIENT], vectors[STEP]
    right, whitened = vectors[RIGHT], vectors[WHITENED]
    d = theta.size
    mu, decrement = 0.0, 0.0
    for _ in range(100):
        for k in range(d):
            right[k] = gradient[k] - mu * metric[k] * metric[k] * theta[k]
            for l in range(d):
                penalised[k, l] = evidence.information[k, l]
            penalised[k, k] = (penalised[k, k] + mu * metric[k] * metric[k]) * (1.0 + 4.0 * PIVOT_TOLERANCE * d)
            if penalised[k, k] == 0.0:
                penalised[k, k] = 1.0
        if not factorise(penalised, factor):
            return np.nan
        decrement = np.sqrt(whiten_contrast(factor, right, whitened))
        unwhiten(factor, whitened, step)
        square = 0.0
        for k in range(d):
            square += (metric[k] * (theta[k] + step[k])) ** 2
        size = np.sqrt(square)
        if (mu == 0.0 and not size > radius) or np.abs(size - radius) <= 1e-12 * radius or not size < np.inf:
            break
        for k in range(d):
            right[k] = metric[k] * metric[k] * (theta[k] + step[k])
        normal = whiten_contrast(factor, right, whitened)
        mu = max(0.0, mu + square / normal * (size - radius) / radius)
    evidence.numbers[MU] = mu
    return float(decrement)
