"""CoLSTIM as a careful vectorised NumPy loop, the yardstick: Algorithm 1 with SGD, contexts from the ball."""

from __future__ import annotations

import math

import numpy as np


def simulate(theta, n_arms, horizon, rng):
    """Play and return the cumulative average regret. Arms are rows; M^-1 is updated by Sherman and Morrison."""
    d = len(theta)
    tau, gram, gram_inv, estimate = d * n_arms, np.zeros((d, d)), None, np.zeros(d)
    c1 = math.sqrt(d * math.log(horizon))
    regret = 0.0
    for t in range(1, horizon + 1):
        normal = rng.standard_normal((n_arms, d))
        length = np.sqrt(np.einsum("ij,ij->i", normal, normal) + 2.0 * rng.standard_exponential(n_arms))
        contexts = normal / length[:, None]
        true = contexts @ theta
        if t <= tau:
            first = int(rng.random() * n_arms)
            second = (first + 1 + int(rng.random() * (n_arms - 1))) % n_arms
        else:
            if gram_inv is None:
                gram_inv = np.linalg.inv(gram)
            utilities = contexts @ estimate
            widths = np.sqrt(np.einsum("ij,ij->i", contexts @ gram_inv, contexts))
            p = d / math.sqrt(t - tau) * math.log(d * horizon)
            size = n_arms if rng.random() < p else 1
            noise = np.clip(-np.log(rng.standard_exponential(size)), -c1, c1)
            first = int(np.argmax(utilities + noise * widths))
            contrasts = contexts - contexts[first]
            square = np.einsum("ij,ij->i", contrasts @ gram_inv, contrasts)
            second = int(np.argmax(utilities + c1 * np.sqrt(np.maximum(square, 0.0))))
        regret += true.max() - 0.5 * (true[first] + true[second])
        if first == second:
            continue
        contrast = contexts[first] - contexts[second]
        won = (
            true[first] - true[second] - math.log(rng.standard_exponential()) + math.log(rng.standard_exponential()) > 0
        )
        margin = contrast @ estimate
        estimate = estimate + 0.5 * (won - 1.0 / (1.0 + math.exp(-margin))) * contrast
        if gram_inv is None:
            gram += np.outer(contrast, contrast)
        else:
            v = gram_inv @ contrast
            gram_inv -= np.outer(v, v) / (1.0 + contrast @ v)
    return regret
