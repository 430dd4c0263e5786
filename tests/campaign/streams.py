"""Ten hard streams of answers for each estimator: does what it says of itself hold?

The exact maximum is found by Newton's method in NumPy on the whole history, widths by a Cholesky factor in extended
precision; neither knows of the kernels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fastcolst as fc
from campaign.tally import Campaign, Tally

Array = NDArray[np.float64]

WHOLE = 200_000
"""Answers in a stream."""
LOOKS = 5
"""How often a stream is looked at, evenly in its logarithm."""
MOST_OFF = 5.0
"""Standard errors by which OnlineNewton may be off without saying so: less than its test can see is not promised."""
TOLERANCE = 1e-3
"""Of the exact estimate, in standard errors; tighter than the default."""
WIDTH_TOLERANCE = 1e-9
"""Relative; times the condition number of the Gram matrix scaled to a diagonal of ones, in units of 1e6."""


def _plain(rng: np.random.Generator, n: int, d: int) -> tuple[Array, Array]:
    theta = rng.normal(size=d)
    return rng.normal(size=(n, d)), theta / np.linalg.norm(theta)


def _answers(rng: np.random.Generator, margins: Array) -> NDArray[np.bool_]:
    return margins + rng.logistic(size=len(margins)) > 0.0


def ill_scaled(rng: np.random.Generator, n: int, d: int) -> tuple[Array, NDArray[np.bool_]]:
    z, theta = _plain(rng, n, d)
    wins = _answers(rng, z @ theta)
    return z * np.geomspace(1e-3, 1e3, d)[rng.permutation(d)], wins


def collinear(rng: np.random.Generator, n: int, d: int) -> tuple[Array, NDArray[np.bool_]]:
    z, theta = _plain(rng, n, d)
    z[:, 1] = z[:, 0] + 1e-4 * rng.normal(size=n)
    return z, _answers(rng, z @ theta)


def regime_change(rng: np.random.Generator, n: int, d: int) -> tuple[Array, NDArray[np.bool_]]:
    z, theta = _plain(rng, n, d)
    margins = z @ theta
    margins[n // 2 :] *= -1.0
    return z, _answers(rng, margins)


def one_hot(rng: np.random.Generator, n: int, d: int) -> tuple[Array, NDArray[np.bool_]]:
    first = rng.integers(d, size=n)
    z = np.eye(d)[first] - np.eye(d)[(first + rng.integers(1, d, size=n)) % d]
    return z, _answers(rng, z @ rng.normal(size=d))


def heavy_tailed(rng: np.random.Generator, n: int, d: int) -> tuple[Array, NDArray[np.bool_]]:
    _, theta = _plain(rng, 1, d)
    z = rng.standard_t(2.0, size=(n, d))
    return z, _answers(rng, z @ theta)


def separable(rng: np.random.Generator, n: int, d: int) -> tuple[Array, NDArray[np.bool_]]:
    z, theta = _plain(rng, n, d)
    return z, z @ theta > 0.0


def constant_feature(rng: np.random.Generator, n: int, d: int) -> tuple[Array, NDArray[np.bool_]]:
    z, theta = _plain(rng, n, d)
    z[:, 0] = 1.0
    return z, _answers(rng, z @ theta)


def odd_units(rng: np.random.Generator, n: int, d: int) -> tuple[Array, NDArray[np.bool_]]:
    z, theta = _plain(rng, n, d)
    wins = _answers(rng, z @ theta)
    return z * (1e50 if rng.random() < 0.5 else 1e-50), wins


def duplicates(rng: np.random.Generator, n: int, d: int) -> tuple[Array, NDArray[np.bool_]]:
    z, theta = _plain(rng, n, d)
    z = z[rng.integers(min(n, 3 * d), size=n)]
    return z, _answers(rng, z @ theta)


def sparse(rng: np.random.Generator, n: int, d: int) -> tuple[Array, NDArray[np.bool_]]:
    z, theta = _plain(rng, n, d)
    z *= rng.random((n, d)) < np.geomspace(1.0, 1e-3, d)
    return z, _answers(rng, z @ theta)


STREAMS: tuple[Callable[[np.random.Generator, int, int], tuple[Array, NDArray[np.bool_]]], ...] = (
    ill_scaled,
    collinear,
    regime_change,
    one_hot,
    heavy_tailed,
    separable,
    constant_feature,
    odd_units,
    duplicates,
    sparse,
)


def newton(z: Array, wins: NDArray[np.bool_], ridge: float, start: Array) -> tuple[Array, Array]:
    """Maximum of the logistic likelihood less ridge/2 |theta|^2 and the square root R of its information, R'R = H.

    Features are brought to one scale first; H = sum w z z' + ridge I.
    """
    scales = np.abs(z).max(axis=0)
    scales[scales == 0.0] = 1.0
    u, penalty = np.where(wins, 1.0, -1.0)[:, None] * (z / scales), ridge / scales / scales
    theta = start * scales
    for _ in range(100):
        slopes = 1.0 / (1.0 + np.exp(np.minimum(u @ theta, 700.0)))
        gradient = u.T @ slopes - penalty * theta
        information = (u * (slopes * (1.0 - slopes))[:, None]).T @ u + np.diag(penalty + 1e-14 * len(u))
        size = np.sqrt(np.diag(information))
        step = np.linalg.solve(information / np.outer(size, size), gradient / size) / size
        theta = theta + step * min(1.0, 5.0 / np.abs(u @ step).max())
        if gradient @ step < 1e-12:
            break
    values, axes = np.linalg.eigh(information)
    return theta / scales, np.sqrt(np.maximum(values, 0.0))[:, None] * axes.T * scales


def width_errors(policy: Any, z: Array, ridge: float, probes: Array) -> tuple[float, float]:
    """Largest relative error of widths, from a Cholesky factor in extended precision, and what is granted."""
    scales = np.sqrt(np.sum(z * z, axis=0) + ridge).astype(np.longdouble)
    u = z.astype(np.longdouble) / scales
    gram = u.T @ u + np.diag(ridge / scales / scales)
    lower, d = np.zeros_like(gram), len(gram)
    for k in range(d):
        lower[k, k] = np.sqrt(gram[k, k] - np.sum(lower[k, :k] ** 2))
        lower[k + 1 :, k] = (gram[k + 1 :, k] - lower[k + 1 :, :k] @ lower[k, :k]) / lower[k, k]
    whitened = (probes.astype(np.longdouble) / scales).T
    for k in range(d):
        whitened[k] = (whitened[k] - lower[k, :k] @ whitened[:k]) / lower[k, k]
    widths = np.sqrt(np.sum(whitened * whitened, axis=0))
    found = np.max(np.abs(policy.widths(probes) - widths) / widths)
    return float(found), WIDTH_TOLERANCE * max(1.0, float(np.linalg.cond(gram.astype(float))) / 1e6)


def run(campaign: Campaign) -> Iterator[Tally]:
    """Stream after stream for each estimator."""
    n = campaign.amount(WHOLE, 1000)
    near = Tally("MLE within its tolerance of the maximum, or on its ball")
    honest = Tally(f"OnlineNewton within {MOST_OFF:g} standard errors, or says that it drifts")
    kept = Tally("SGD finite, and kept in its ball")
    exact = Tally("widths against extended precision")
    learned = {name: Tally(f"answers learned by {name}") for name in ("SGD", "OnlineNewton", "MLE")}
    for number, stream in enumerate(STREAMS):
        rng = campaign.rng("streams", stream.__name__)
        d = 2 + (3 * number + int(rng.integers(3))) % 9
        z, wins = stream(rng, n, d)
        ridge = 1.0 if stream is not odd_units else float(np.abs(z).max()) ** 2
        where = f"{stream.__name__}, d={d}, n={n}, seed {campaign.seed}"
        estimators = {
            "SGD": fc.SGD(radius=1.0),
            "OnlineNewton": fc.OnlineNewton(history=min(2000, n // 10)),
            "MLE": fc.MLE(TOLERANCE, ridge=0.0),
        }
        for name, estimator in estimators.items():
            policy, done = fc.CoLSTIM(d, n_arms=2, exploration_rounds=0, estimator=estimator, ridge=ridge), 0
            for stop in np.unique(np.geomspace(n / 10, n, LOOKS).astype(int)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    policy.learn_and_predict(z[done:stop], wins[done:stop])
                done, theta = int(stop), policy.theta
                seen = f"{where}, at {done}"
                if name == "SGD":
                    kept.count(bool(np.linalg.norm(theta) <= 1.0 + 1e-12), f"{seen}: {theta}")
                elif name == "OnlineNewton":
                    maximum, root = newton(z[:done], wins[:done], ridge, theta)
                    off, status = float(np.linalg.norm(root @ (theta - maximum))), policy.status
                    honest.count(off <= MOST_OFF or status == "drifting", f"{seen}: off by {off:.2f}, {status}")
                elif policy.status == "interior":
                    maximum, root = newton(z[:done], wins[:done], 0.0, theta)
                    off = float(np.linalg.norm(root @ (theta - maximum)))
                    near.count(off <= TOLERANCE, f"{seen}: off by {off:.2g}")
                else:
                    length = float(np.linalg.norm(np.abs(z[:done]).max(axis=0) * theta))
                    near.count(
                        policy.status in {"boundary", "separated"} and abs(length - 20.0) <= 1e-6,
                        f"{seen}: {policy.status}, length {length}",
                    )
                if name == "MLE":
                    found, granted = width_errors(policy, z[:done], ridge, z[rng.integers(done, size=20)])
                    exact.count(found <= granted, f"{seen}: {found:.2g}, granted {granted:.2g}")
            learned[name].tried += done
    yield from (near, honest, kept, exact, *learned.values())
