"""Whether answers are separated, completely or quasi-completely, so that the likelihood has no finite maximum.

They are when some v has z~'v > 0 for some answers and z~'v < 0 for none: a recession direction, along which the
likelihood grows for ever (Albert, Anderson 1984). A direction found is a proof up to rounding, since all answers are
asked. Finding none proves nothing: directions are looked for where a search has led (:func:`recession_from`, for the
solver), or where no information is left (:func:`runaway`, for fits). Where separated answers still tell something, as
on a ball, :func:`receding_subspace` finds what they would tell nothing of without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst.estimation.identification import known_directions
from fastcolst.kernels.linalg import inverse_factor

__all__ = ["CONTRADICTION", "FLAT", "of_no_information", "receding_subspace", "recession_from", "runaway"]

CONTRADICTION = 1e-9
"""Share of the largest margin: what an answer's own is negative by below it is rounding."""
NOISE = 1e-6
"""Share of the largest margin of a vector: if its projection leaves no more, that is rounding."""

FLAT = (1e-12, 1e-9, 1e-6)
"""Shares of the information at theta = 0. Along directions that keep less than the first of these theta may have run
away; the larger ones are tried in turn where no recession direction is found."""

EPS = float(np.finfo(np.float64).eps)

Array = NDArray[np.float64]


def recedes(margins: Array) -> bool:
    """Whether margins z~'v, (n,), of all answers show that v is a recession direction."""
    largest = margins.max(initial=0.0)
    return bool(largest > 0.0 and margins.min() >= -CONTRADICTION * largest)


def recession_from(history: Any, scales: Array, start: Array, ignored: NDArray[np.bool_] | None = None) -> Array | None:
    """A vector without all that the answers against it can see, if that is a recession direction.

    It is projected on the null space of Z'Z, the Gram matrix of the answers with z~'v < 0. While some answer
    contradicts what comes out it joins them, and the rank of Z'Z grows.

    Parameters
    ----------
    history : History, or whatever has its ``margins`` and ``gram_of``
    scales : (d,) float64
        The largest size of each feature.
    start : (d,) float64
    ignored : (n,) bool, optional
        Answers that are not asked.

    Returns
    -------
    (d,) float64 or None
        That one is found is a proof, that none is proves nothing.

    Notes
    -----
    O(n d), and O(n d^2 + d^3) for each projection: one or two as a rule, d at most. Where the contradicting answers
    know all directions, as they do as a rule where answers are not separated, no eigenvectors are computed: of 50
    features these take ten times as long as a factorisation.
    """

    def margins_of(vector: Array) -> Array:
        margins: Array = history.margins(vector)
        return margins if ignored is None else np.where(ignored, 0.0, margins)

    units, margins = np.where(scales > 0.0, scales, 1.0), margins_of(start)
    contradict, noise = margins < 0.0, NOISE * np.abs(margins).max(initial=0.0)
    while not contradict.all():
        gram = history.gram_of(contradict) / np.outer(units, units)
        if inverse_factor(gram) is not None:
            return None
        _, null_space = known_directions(gram)
        direction = (null_space @ (null_space.T @ (start * units))) / units
        margins = margins_of(direction)
        joining = ~contradict & (margins < -CONTRADICTION * margins.max())
        if not joining.any():
            return direction if margins.max() > noise and recedes(margins) else None
        contradict |= joining
    return None


def receding_subspace(history: Any, scales: Array, start: Array, gram: Array) -> tuple[Array, Array]:
    """Split the directions by whether the likelihood grows for ever along them, as far as a vector leads there.

    The answers that a recession direction moves become certain, and tell nothing more. Those moved by the direction
    that is found first are ignored when the next is looked for. What the other answers do not see, and all of them
    together do, is the subspace along which the likelihood grows for ever. Others may exist.

    Parameters
    ----------
    history : History, or whatever has its ``margins`` and ``gram_of``
    scales : (d,) float64
        The largest size of each feature, which is its unit in what follows.
    start : (d,) float64
        Where a search has ended, in the features' own units.
    gram : (d, d) float64
        Z'Z of all answers, of whatever weights.

    Returns
    -------
    stays : (d, r) float64
        A basis of what the answers see that no direction moves.
    leaves : (d, s) float64
        A basis of the subspace; without columns where no recession direction is found.

    Notes
    -----
    O(n d^2 + d^3) for each direction.
    """
    units, moved = np.where(scales > 0.0, scales, 1.0), None
    while (direction := recession_from(history, scales, start, moved)) is not None:
        margins = history.margins(direction)
        asked = margins if moved is None else np.where(moved, 0.0, margins)
        moving = asked > CONTRADICTION * asked.max()
        moved = moving if moved is None else moved | moving
    if moved is None:
        return known_directions(gram)[0], np.empty((len(scales), 0))
    stays, lost = known_directions(history.gram_of(~moved) / np.outer(units, units))
    if lost.shape[1] == 0:
        return stays, lost
    return stays, lost @ known_directions(lost.T @ gram @ lost)[0]


def of_no_information(shares: Array) -> NDArray[np.bool_]:
    """Which shares of the information, (r,), are below their rounding."""
    return shares <= len(shares) * EPS


def runaway(margins_of: Callable[[Array], Array], theta: Array, axes: Array, shares: Array) -> NDArray[np.bool_]:
    """Which axes theta has run away along, (r,): none where no recession direction is found.

    Parameters
    ----------
    margins_of : callable
        Margins z~'v of all answers, for a vector v (d,), or for the columns of a matrix.
    theta : (d,) float64
        Where a search has ended.
    axes : (d, r) float64
        Directions; what theta has along those of little information is the candidate.
    shares : (r,) float64
        Of the information at theta = 0 that they keep at theta.
    """
    margins = margins_of(theta)
    if margins.max(initial=0.0) > 0.0 and margins.min() >= 0.0:
        compares = np.abs(margins_of(axes)).max(axis=1, initial=0.0) > 0.0
        if np.all(margins[compares] > 0.0):  # completely separated, by all vectors around theta as well
            return np.ones(len(shares), np.bool_)
    for level in FLAT:
        flat = shares <= level
        along = margins_of(axes[:, flat])  # of size |z'theta| for the answers that pulled theta there, 0 for the others
        if flat.any() and recedes(along @ np.linalg.lstsq(along, margins, rcond=None)[0]):
            return flat
    return np.zeros(len(shares), np.bool_)
