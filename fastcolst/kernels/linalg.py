"""Linear algebra on the factor of an inverse Gram matrix.

The Gram matrix M = sum z z' of the contrasts enters every choice through M^-1. It is kept as a lower triangular S with
S'S = M^-1, and arms are whitened, a = S x. A width sqrt(x' M^-1 x) is then the length |a|, the distance of two arms in
M^-1 is |a_i - a_j| (exactly zero for equal arms), and no rounding error can make M^-1 indefinite.

Inside kernels contexts lie by coordinate, (n_features, n_arms), so that the innermost loop runs over arms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst._blas import on_one_thread
from fastcolst._compile import as_written, helper

__all__ = [
    "add_contrast",
    "dot",
    "gram_norm",
    "inverse_factor",
    "rank_one_inverse",
    "remove_contrast",
    "squared_widths",
    "unwhiten",
    "utilities",
    "whiten",
    "whiten_contrast",
]

SHARE_TOLERANCE = 1e-12
"""Times d: a feature of which the others leave no larger share unexplained depends on them linearly, up to rounding."""


@helper
def whiten(factor: Any, contexts: Any, out: Any) -> None:
    """Whiten all arms, out = S X.

    Parameters
    ----------
    factor : (d, d) float64, C-contiguous, lower triangular
        S, with zeros above its diagonal: they are read.
    contexts : (d, n) float64
        Arms as columns.
    out : (d, n) float64
        Whitened arms; overwritten.

    Notes
    -----
    n d (d + 4) / 2 multiply-adds. Four rows of the output are found together from four rows of X at a time, which
    quarters the loads of X; one to three rows that are left over are found one by one. With two rows of the output at a
    time this function took a fifth longer at d = 50, and half as long again at d = 384. The zeros of S beside its
    diagonal are multiplied like the rest, which saves a loop. Written with ``range`` instead of ``while`` it took 1.4
    times as long.
    The output must not share memory with the contexts.
    """
    d, n = contexts.shape
    k = 0
    while k + 4 <= d:
        for j in range(n):
            out[k, j] = out[k + 1, j] = out[k + 2, j] = out[k + 3, j] = 0.0
        i = 0
        while i < k + 4:
            r0, r1, r2, r3 = factor[k, i], factor[k, i + 1], factor[k, i + 2], factor[k, i + 3]
            s0, s1, s2, s3 = factor[k + 1, i], factor[k + 1, i + 1], factor[k + 1, i + 2], factor[k + 1, i + 3]
            t0, t1, t2, t3 = factor[k + 2, i], factor[k + 2, i + 1], factor[k + 2, i + 2], factor[k + 2, i + 3]
            u0, u1, u2, u3 = factor[k + 3, i], factor[k + 3, i + 1], factor[k + 3, i + 2], factor[k + 3, i + 3]
            for j in range(n):
                x0, x1, x2, x3 = contexts[i, j], contexts[i + 1, j], contexts[i + 2, j], contexts[i + 3, j]
                out[k, j] = out[k, j] + r0 * x0 + r1 * x1 + r2 * x2 + r3 * x3
                out[k + 1, j] = out[k + 1, j] + s0 * x0 + s1 * x1 + s2 * x2 + s3 * x3
                out[k + 2, j] = out[k + 2, j] + t0 * x0 + t1 * x1 + t2 * x2 + t3 * x3
                out[k + 3, j] = out[k + 3, j] + u0 * x0 + u1 * x1 + u2 * x2 + u3 * x3
            i += 4
        k += 4
    while k < d:
        s = factor[k, k]
        for j in range(n):
            out[k, j] = s * contexts[k, j]
        for i in range(k):
            s = factor[k, i]
            for j in range(n):
                out[k, j] += s * contexts[i, j]
        k += 1


@as_written
def utilities(theta: Any, contexts: Any, out: Any) -> None:
    """Utilities of all arms, out = X' theta, the same bits on every machine. O(n d).

    Parameters
    ----------
    theta : (d,) float64
    contexts : (d, n) float64
        Arms as columns.
    out : (n,) float64
        Overwritten.
    """
    d, n = contexts.shape
    value = theta[0]
    for j in range(n):
        out[j] = value * contexts[0, j]
    for k in range(1, d):
        value = theta[k]
        for j in range(n):
            out[j] += value * contexts[k, j]


@helper
def squared_widths(whitened: Any, out: Any) -> None:
    """Squared lengths of the whitened arms, out = |a|^2 = x' M^-1 x. O(n d).

    Parameters
    ----------
    whitened : (d, n) float64
        Columns beyond the size of ``out`` are left out.
    out : (n,) float64
        Overwritten.
    """
    d, n = whitened.shape[0], out.size
    for j in range(n):
        out[j] = whitened[0, j] * whitened[0, j]
    for k in range(1, d):
        for j in range(n):
            out[j] += whitened[k, j] * whitened[k, j]


@helper
def whiten_contrast(factor: Any, contrast: Any, out: Any) -> float:
    """Whiten one vector, out = S z, and return |out|^2 = z' M^-1 z. d^2/2 multiply-adds.

    Parameters
    ----------
    factor : (d, d) float64, lower triangular
        S, with zeros above its diagonal: they are read.
    contrast : (d,) float64
    out : (d,) float64
        Overwritten.
    """
    d = contrast.size
    k = 0
    # Four rows at once, with the zeros beside the diagonal: a sum waits for its last term, four sums do not wait for
    # each other. One by one takes 1.1 times as long with 10 features, 1.5 times with 50 and 3 times with 384.
    while k + 4 <= d:
        a, b, c, e = 0.0, 0.0, 0.0, 0.0
        for i in range(k + 4):
            z = contrast[i]
            a += factor[k, i] * z
            b += factor[k + 1, i] * z
            c += factor[k + 2, i] * z
            e += factor[k + 3, i] * z
        out[k], out[k + 1], out[k + 2], out[k + 3] = a, b, c, e
        k += 4
    while k < d:
        total = 0.0
        for i in range(k + 1):
            total += factor[k, i] * contrast[i]
        out[k] = total
        k += 1
    square = 0.0
    for k in range(d):
        square += out[k] * out[k]
    return square


@helper
def unwhiten(factor: Any, whitened: Any, out: Any) -> None:
    """The transposed product, out = S'p; with p = S z that is M^-1 z. d^2/2 multiply-adds.

    Parameters
    ----------
    factor : (d, d) float64, lower triangular
    whitened : (d,) float64
    out : (d,) float64
        Overwritten.
    """
    for i in range(out.size):
        out[i] = 0.0
    for k in range(out.size):
        value = whitened[k]
        for i in range(k + 1):
            out[i] += value * factor[k, i]


@helper
def norm_by_inverse(factor: Any, vector: Any, work: Any) -> float:
    """Norm of a vector in the matrix M of which S'S is the inverse: |v|_M = |w| with S'w = v. d^2/2 multiply-adds.

    Parameters
    ----------
    factor : (d, d) float64, lower triangular
        S, with no zero on its diagonal.
    vector : (d,) float64
    work : (d,) float64
        Overwritten by w.
    """
    square = 0.0
    for i in range(vector.size):
        work[i] = vector[i]
    for i in range(vector.size - 1, -1, -1):
        value = work[i] / factor[i, i]
        for k in range(i):
            work[k] -= value * factor[i, k]
        work[i] = value
        square += value * value
    return float(np.sqrt(square))


@helper
def dot(a: Any, b: Any) -> float:
    """Inner product of two vectors. O(d)."""
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@helper
def gram_norm(gram: Any, vector: Any) -> float:
    """Norm of a vector in a Gram matrix, |v|_M = sqrt(v' M v), not negative whatever rounding does. O(d^2).

    Parameters
    ----------
    gram : (d, d) float64
    vector : (d,) float64
    """
    total = 0.0
    for i in range(vector.size):
        row = 0.0
        for j in range(vector.size):
            row += gram[i, j] * vector[j]
        total += vector[i] * row
    return float(np.sqrt(max(total, 0.0)))


@helper
def rank_one_inverse(factor: Any, contrast: Any, work: Any) -> None:
    """Update the factor of an inverse Gram matrix after one duel.

    With S'S = M^-1 and p = S z, the factor of (M + z z')^-1 follows row by row (Carlson's recurrence), from t_0 = 1
    and w = 0: t_k = t_{k-1} + p_k^2,  S_k <- sqrt(t_{k-1}/t_k) (S_k - (p_k/t_{k-1}) w),  w <- w + p_k S_k(old).

    Parameters
    ----------
    factor : (d, d) float64, C-contiguous, lower triangular
        S; overwritten.
    contrast : (d,) float64
        Whitened contrast p = S (x_first - x_second), of finite length. Zero changes nothing.
    work : (d,) float64
        Overwritten by S'p of the S before, which is M^-1 z: a caller who wants that as well has it for nothing.

    Notes
    -----
    O(d^2), allocates nothing. M^-1 = S'S stays positive definite by construction, which the textbook
    Sherman-Morrison update does not.

    References
    ----------
    Bengs, Saha, Huellermeier (2022), Algorithm 1, line 17. Carlson (1973), Fast triangular formulation of the square
    root filter.
    """
    before = 1.0
    for k in range(contrast.size):
        p = contrast[k]
        after = before + p * p
        shrink = np.sqrt(before / after)
        share = p / before
        work[k] = 0.0
        for i in range(k + 1):
            s = factor[k, i]
            factor[k, i] = shrink * (s - share * work[i])
            work[i] += p * s
        before = after


@helper
def add_contrast(gram: Any, factor: Any, contrast: Any, work: Any) -> None:
    """Add z z' to a Gram matrix M and to the factor S of its inverse, S'S = M^-1.

    ``gram`` and ``factor`` (d, d) float64 are changed, ``contrast`` (d,) float64 is z; ``work`` (2, d) float64 is
    overwritten. A factor of zeros, where M is not invertible, stays so. O(d^2).
    """
    whiten_contrast(factor, contrast, work[0])
    for i in range(contrast.size):
        for j in range(contrast.size):
            gram[i, j] += contrast[i] * contrast[j]
    rank_one_inverse(factor, work[0], work[1])


@helper
def remove_contrast(gram: Any, factor: Any, contrast: Any, work: Any) -> bool:
    """Take z z' out of a Gram matrix M and of the factor S of its inverse, unless that would cost digits.

    Returns False, and only ``work`` is changed, where M would lose more than half of itself in some direction.

    The recurrence of :func:`rank_one_inverse` with the signs of a subtraction, from p = S z: t_k = t_{k-1} - p_k^2,
    S_k <- sqrt(t_{k-1}/t_k) (S_k + (p_k/t_{k-1}) w). What it ends with is t_d = 1 - z'M^-1 z, which must not be small.

    ``gram`` and ``factor`` (d, d) float64 are changed, ``contrast`` (d,) float64 is z; ``work`` (2, d) float64 is
    overwritten. O(d^2).
    """
    whitened, total = work[0], work[1]
    if not whiten_contrast(factor, contrast, whitened) <= 0.5:
        return False
    before = 1.0
    for k in range(contrast.size):
        for i in range(contrast.size):
            gram[k, i] -= contrast[k] * contrast[i]
        p = whitened[k]
        after = before - p * p
        stretch = np.sqrt(before / after)
        share = p / before
        total[k] = 0.0
        for i in range(k + 1):
            s = factor[k, i]
            factor[k, i] = stretch * (s + share * total[i])
            total[i] += p * s
        before = after
    return True


def inverse_factor(gram: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Factor the inverse of a Gram matrix: the lower triangular S with S'S = M^-1, by LAPACK.

    M is scaled to unit diagonal, D^-1 M D^-1 = L L', and S = L^-1 D^-1, so that the scale of a feature plays no role.

    Parameters
    ----------
    gram : (d, d) float64
        M, symmetric; only read.

    Returns
    -------
    (d, d) float64, C-contiguous, or None
        None when M is not numerically invertible, that is, when some feature keeps at most 1e-12 d of its own sum of
        squares given all others. This share is 1 / (C^-1)_jj, with C = D^-1 M D^-1. The squared pivots of L do not show
        it: they are shares given the earlier features alone, and two of 1e-8 may leave a share of 1e-16.

    Notes
    -----
    d^3/3 multiply-adds. Python calls it, once in a policy's life and at some passes: in kernels it would cost a second
    of compilation.
    """
    from scipy.linalg.lapack import dpotrf, dtrtri  # a tenth of a second, which blind policies need not pay

    squares = gram.diagonal()
    if not 0.0 < squares.min() <= squares.max() < np.inf:
        return None
    scale = np.sqrt(squares)
    correlations = gram / scale
    correlations /= scale[:, np.newaxis]

    def inverted() -> NDArray[np.float64] | None:  # in place, on the transpose, whose upper triangle is our lower one
        upper, info = dpotrf(correlations.T, lower=0, clean=1, overwrite_a=1)
        return dtrtri(upper, lower=0, overwrite_c=1)[0].T if info == 0 else None

    inverse = on_one_thread(len(gram), inverted)
    if inverse is None:
        return None
    if not np.square(inverse).sum(axis=0).max() < 1.0 / (SHARE_TOLERANCE * len(gram)):
        return None
    inverse /= scale
    return inverse
