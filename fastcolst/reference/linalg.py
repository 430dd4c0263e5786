"""Arrays of floats, and inverses of Gram matrices: formed anew whenever they are needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

SHARE_TOLERANCE = 1e-12  # times d: the least share of its own sum of squares that a feature keeps, given all others


def invertible(gram: Floats) -> bool:
    """Tell whether each feature keeps more than 1e-12 d of its own sum of squares, given all others.

    That share is the reciprocal of the feature's element on the diagonal of the inverse, of M scaled to unit diagonal.
    """
    d = len(gram)
    if not np.all(np.isfinite(gram)) or np.any(np.diag(gram) <= 0.0):
        return False
    scale = np.sqrt(np.diag(gram))
    values, axes = np.linalg.eigh(gram / np.outer(scale, scale))
    if np.any(values <= 0.0):
        return False
    shares = 1.0 / np.sum(axes**2 / values, axis=1)
    return bool(np.all(shares > SHARE_TOLERANCE * d))


def inverse(gram: Floats) -> Floats:
    """Return M^-1 = D^-1 (D^-1 M D^-1)^-1 D^-1 with D^2 = diag M: the features' units do not matter."""
    scale = np.sqrt(np.diag(gram))
    return floats(np.linalg.inv(gram / np.outer(scale, scale)) / np.outer(scale, scale))


def norms(rows: Floats, gram_inv: Floats) -> Floats:
    """Return |x|_{M^-1} of every row, (n,); FloatingPointError if rounding made a square negative."""
    products = np.einsum("ij,jk->ik", rows, gram_inv)
    with np.errstate(invalid="raise"):
        return floats(np.sqrt(np.einsum("ij,ij->i", products, rows)))


def row_products(rows: Floats, vector: Floats) -> Floats:
    """Return x.v of every row x, (n,)."""
    # not rows @ vector: BLAS rounds equal rows differently (seen at 50 x 10), and equal arms must tie exactly
    return floats(np.einsum("ij,j->i", rows, vector))


def floats(u: ArrayLike) -> Floats:
    """Return an array of float64."""
    return np.asarray(u, dtype=np.float64)
