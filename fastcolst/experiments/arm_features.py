"""Features for arms that are known by their index alone: what the round looks like, crossed with which arm it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import answer, check_memory, count, feature_rows
from fastcolst._files import optional_import
from fastcolst.policies.columns import features_of

__all__ = ["arm_features", "helmert_contrasts"]


def helmert_contrasts(n_arms: int) -> NDArray[np.float64]:
    """A row for each arm, (n_arms, n_arms - 1): orthonormal columns that sum to 0.

    Column k - 1 sets arm k against the mean of arms 0 to k - 1.
    """
    k = np.arange(1, n_arms)
    below = np.where(np.arange(n_arms)[:, np.newaxis] < k, -1.0, 0.0)
    below[k, k - 1] = k
    contrasts: NDArray[np.float64] = below / np.sqrt(k * (k + 1.0))
    return contrasts


def arm_features(n_arms: int, context_features: Any, *, intercept: bool = True) -> Any:
    """Features of arms that only their index tells apart, in rounds that have features: solvers for an instance, say.

    x_i = c_i (x) (1, s): every product of a contrast of arm i with 1 or with a feature of the round, s. The contrasts
    are orthonormal and sum to 0 (Helmert's, normalised): the k-th, k = 1 to n_arms - 1, is arm k against the mean of
    arms 0 to k - 1. A linear utility x_i'theta is then one linear function of s for each arm, of which only the
    differences count, and all of them can be learned from duels.

    Parameters
    ----------
    n_arms : int
        At least 2.
    context_features : (d,) or (m, d) array_like, or a data frame
        s of one round, or of each of m; best of about unit size. A pandas Series is one round, a data frame m.
    intercept : bool, default True
        Whether to put a constant 1 before s, for what an arm is worth whatever the round. s then has no constant of its
        own.

    Returns
    -------
    (n_arms, q) or (m, n_arms, q) float64, q = (n_arms - 1) (d + 1), or (n_arms - 1) d without the constant
        The second is what :class:`fastcolst.ScoredArms` takes. Columns go by contrast, then by feature. Where s has
        names, the columns do: a pandas DataFrame with "arm1", "arm1:length", ..., whose rows are arms, or rounds and
        arms, so that ``frame.loc[round]`` are the contexts of one.

    Raises
    ------
    ValueError
        For an argument of the wrong shape or outside its range, with its name.

    Notes
    -----
    Why not a column for each arm: the n one-hot columns sum to 1 for every arm, so that no contrast has anything along
    (1, ..., 1), and M = sum z z' is singular however many duels there are. A policy with ``ridge=0``, the default, then
    explores for ever: it plays random pairs, as :class:`fastcolst.UniformPairs` does, and warns once which rank M has.
    The contrasts here say the same with a column less, and M gets full rank.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> contexts = fc.arm_features(3, [[0.2, 1.5], [0.7, -0.3]])   # two rounds with two features
    >>> contexts.shape
    (2, 3, 6)
    >>> x = fc.arm_features(3, [1.0], intercept=False)             # the contrasts themselves
    >>> np.allclose(x.T @ x, np.eye(2)), np.allclose(x.sum(axis=0), 0.0)
    (True, True)
    """
    n_arms, intercept = count("n_arms", n_arms, lowest=2), answer(intercept, "intercept")
    given, labels = features_of("context_features", context_features, "(d,) or (m, d)")
    ndim = 1 if given.ndim == 1 else 2
    rows = feature_rows("context_features", given, None, ndim, shape="(d,) or (m, d)")
    rounds = np.atleast_2d(rows)
    m, d = rounds.shape
    check_memory("n_arms", n_arms, 8 * m * n_arms * (n_arms - 1) * (d + intercept))
    if intercept:
        rounds = np.hstack([np.ones((m, 1)), rounds])
    products = np.einsum("ik,rj->rikj", helmert_contrasts(n_arms), rounds)
    features = np.ascontiguousarray(products).reshape(m, n_arms, -1)
    if labels is None:
        return features[0] if ndim == 1 else features
    pandas = optional_import("pandas", "arm_features of named features")
    columns = [f"arm{k}{of}" for k in range(1, n_arms) for of in [""] * intercept + [f":{label}" for label in labels]]
    if ndim == 1:
        return pandas.DataFrame(features[0], columns=columns, index=pandas.RangeIndex(n_arms, name="arm"))
    index = pandas.MultiIndex.from_product(
        [getattr(context_features, "index", range(m)), range(n_arms)], names=["round", "arm"]
    )
    return pandas.DataFrame(features.reshape(m * n_arms, -1), columns=columns, index=index)
