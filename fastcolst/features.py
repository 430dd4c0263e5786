"""Feature maps: utilities that are not linear in the features, as linear ones of more features.

A kernel k says how alike two arms are. Utilities f with a small norm in the kernel's space are smooth at the kernel's
length, and both maps here turn them into linear functions of phi(x), so that phi(x)'phi(y) is k(x, y), or nearly, and a
ridge on theta is one on that norm. Whatever a linear policy or :func:`fastcolst.fit` does, it then does for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastcolst._blas import eigh
from fastcolst._checks import brief, check_memory, count, feature_rows, looked_at, plain_text, real_numbers
from fastcolst.streams import entropy_of, generator

__all__ = ["FeatureMap", "Nystroem", "RandomFeatures", "map_of"]

Array = NDArray[np.float64]
C = TypeVar("C", bound=type)

SMALLEST_SHARE = 1e-13
"""Of the landmarks' largest eigenvalue: directions below it are rounding."""


def _exponential(r: Array) -> Array:
    return np.exp(-r)


def _matern_3_2(r: Array) -> Array:
    s = math.sqrt(3.0) * r
    return (1.0 + s) * np.exp(-s)


def _matern_5_2(r: Array) -> Array:
    s = math.sqrt(5.0) * r
    return (1.0 + s + s * s / 3.0) * np.exp(-s)


def _gauss(r: Array) -> Array:
    return np.exp(-0.5 * r * r)


class Kernel(NamedTuple):
    """A kernel k(x, y) = value(|x - y| / length), and its nu: the law of its frequencies is Student's t with 2 nu."""

    value: Callable[[Array], Array]
    nu: float


KERNELS = {
    "matern-1/2": Kernel(_exponential, 0.5),
    "matern-3/2": Kernel(_matern_3_2, 1.5),
    "matern-5/2": Kernel(_matern_5_2, 2.5),
    "rbf": Kernel(_gauss, math.inf),
}


class FeatureMap(Protocol):
    """What features go through before a linear policy: of ``n_inputs`` numbers it makes ``n_outputs``."""

    @property
    def n_inputs(self) -> int:
        """How many features go in."""

    @property
    def n_outputs(self) -> int:
        """How many come out."""

    def transform(self, rows: Array) -> Array:
        """Rows (n, n_inputs) as (n, n_outputs)."""


def _checked(cls: C) -> C:
    """Check an instance whenever one is built, by its method ``checked``."""
    plain_new = cls.__new__

    def new(klass: type, *args: Any, **kwargs: Any) -> Any:
        return plain_new(klass, *args, **kwargs).checked()

    cls.__new__ = new  # type: ignore[method-assign, assignment]
    return cls


@_checked
class Nystroem(NamedTuple):
    """Features by likeness to landmarks: phi(x) = K^-1/2 (k(x, l_1), ..., k(x, l_m)), K the landmarks' own kernel.

    phi(x)'phi(y) is k(x, y) where x or y is a landmark, and the nearest to it elsewhere that landmarks allow. With all
    arms for landmarks a linear policy is exact kernel logistic regression.

    Parameters
    ----------
    landmarks : (m, n_features) array_like
        Arms that others are compared with, such as a sample of those that are met, or a grid.
    kernel : {"matern-5/2", "matern-3/2", "matern-1/2", "rbf"} or callable
        How alike two arms are, from rough, 1/2, to smooth, rbf. A callable k(X, Y) gives (n, m) for rows X and Y, as
        kernels of ``sklearn.gaussian_process`` do; a policy with one cannot be saved.
    length : float or (n_features,) array_like, default 1.0
        Distance at which arms stop being alike, of each feature if there are several.

    Raises
    ------
    ValueError
        For landmarks that are no finite matrix, an unknown kernel, or a length that is not positive.

    Notes
    -----
    O(m^3) once, and O(n m (n_features + m)) for n arms; up to m features, fewer where landmarks are nearly alike. Some
    lengths away from all landmarks every feature is 0: there utility is flat, at the value 0, nothing is learned, and a
    policy's widths are 0 as well, so that it takes for certain what it cannot know. Landmarks should cover what is met.

    References
    ----------
    Williams, Seeger (2001), Using the Nystroem method to speed up kernel machines, NIPS 13.

    Examples
    --------
    A utility with its peak in the middle, which no linear one has:

    >>> import numpy as np, fastcolst as fc
    >>> bumps = fc.Nystroem(np.linspace(-1, 1, 7)[:, None], "rbf", 0.5)
    >>> policy = fc.CoLSTIM(1, features=bumps, ridge=0.1, rng=0)
    >>> rng = np.random.default_rng(0)
    >>> sides = rng.choice([-1.0, 1.0], (99, 1))
    >>> policy.learn(rng.uniform(-0.3, 0.3, (99, 1)), sides * rng.uniform(0.6, 1.0, (99, 1)))
    >>> int(np.argmax(policy.utilities([[-0.9], [0.0], [0.9]])))
    1
    """

    landmarks: Any
    kernel: Any = "matern-5/2"
    length: Any = 1.0

    def checked(self) -> Nystroem:
        """Itself, with arrays of its own, if its fields are in range."""
        rows = feature_rows("landmarks", self.landmarks, None, shape="(m, n_features)").copy()
        rows.setflags(write=False)
        return self._replace(
            landmarks=rows, kernel=_kernel(self.kernel, True), length=_length(self.length, rows.shape[1])
        )

    def mapping(self, n_features: int) -> LandmarkMap:
        """The map of features; ValueError where the landmarks have another number of them."""
        d = count("n_features", n_features)
        if self.landmarks.shape[1] != d:
            raise ValueError(f"landmarks has {self.landmarks.shape[1]} features; {d}, n_features, are wanted")
        return LandmarkMap(self)


class LandmarkMap:
    """See :class:`Nystroem`."""

    def __init__(self, given: Nystroem) -> None:
        self._given = given
        whole = self._likeness(given.landmarks)
        values, vectors = eigh((whole + whole.T) / 2.0)
        firm = values > SMALLEST_SHARE * values[-1]
        if not firm.any():
            raise ValueError(f"kernel is {brief(given.kernel)}, whose matrix of the landmarks is 0; another is wanted")
        self._roots: Array = vectors[:, firm] / np.sqrt(values[firm])
        self.n_inputs, self.n_outputs = given.landmarks.shape[1], self._roots.shape[1]

    def transform(self, rows: Array) -> Array:
        """Rows (n, n_inputs) as (n, n_outputs)."""
        found: Array = self._likeness(feature_rows("rows", rows, self.n_inputs)) @ self._roots
        return found

    def _likeness(self, rows: Array) -> Array:
        from scipy.spatial.distance import cdist

        landmarks, kernel, length = self._given
        if isinstance(kernel, str):
            return KERNELS[kernel].value(cdist(rows / length, landmarks / length))
        likeness = real_numbers(
            "kernel(X, Y)", kernel(rows.copy(), landmarks.copy()), f"({len(rows)}, {len(landmarks)})"
        )
        if likeness.shape != (len(rows), len(landmarks)) or not np.isfinite(likeness).all():
            raise ValueError(
                f"kernel gives {brief(likeness)} for {len(rows)} and {len(landmarks)} rows; a finite number for each "
                "pair is wanted"
            )
        return likeness


@_checked
class RandomFeatures(NamedTuple):
    """Random Fourier features: phi(x) = sqrt(2/n) (cos w_1'x, sin w_1'x, cos w_2'x, ...), n of them.

    The frequencies w are drawn once from the kernel's spectrum, so that phi(x)'phi(y) is k(x, y) on average, with a
    standard deviation of at most 1/sqrt(n).

    Parameters
    ----------
    n : int
        Number of features, even.
    kernel : {"matern-5/2", "matern-3/2", "matern-1/2", "rbf"}
        As for :class:`Nystroem`.
    rng : int, SeedSequence, Generator or None
        Source of the frequencies; see :func:`fastcolst.streams.entropy_of`.
    length : float or (n_features,) array_like, default 1.0
        As for :class:`Nystroem`.

    Raises
    ------
    ValueError
        For a value outside these ranges.

    Notes
    -----
    O(n) a feature of an arm, and no landmarks are wanted. Waves go on for ever: utility is nowhere flat, and far from
    what was learned it is as arbitrary as the waves, where the policy knows by its widths that it does not know. At
    distances well below the length it is flat: differences of such arms take many answers.

    References
    ----------
    Rahimi, Recht (2007), Random features for large-scale kernel machines, NIPS 20.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> waves = fc.RandomFeatures(200, "rbf", rng=1).mapping(2)
    >>> x, y = waves.transform([[0.0, 0.0], [1.0, 0.0]])
    >>> round(float(x @ x), 6), bool(abs(x @ y - np.exp(-0.5)) < 0.1)
    (1.0, True)
    """

    n: int
    kernel: Any = "matern-5/2"
    rng: Any = None
    length: Any = 1.0

    def checked(self) -> RandomFeatures:
        """Itself, with a seed that repeats its draws, if its fields are in range."""
        n = count("n", self.n, lowest=2)
        if n % 2:
            raise ValueError(f"n is {n}; an even number is wanted, a cosine and a sine for each frequency")
        check_memory("n", n, 8 * n)
        given = self._replace(n=n, kernel=_kernel(self.kernel, False), length=_length(self.length, None))
        return given._replace(rng=entropy_of(self.rng))

    def mapping(self, n_features: int) -> WaveMap:
        """The map of features; ValueError where there are not as many lengths, and more than one."""
        d = count("n_features", n_features)
        _length(self.length, d)
        return WaveMap(self, d)


class WaveMap:
    """See :class:`RandomFeatures`."""

    def __init__(self, given: RandomFeatures, n_features: int) -> None:
        self.n_inputs, self.n_outputs = n_features, given.n
        check_memory("n_features", n_features, 8 * given.n * n_features)
        rng, nu = generator(given.rng), KERNELS[given.kernel].nu
        waves = rng.standard_normal((given.n // 2, n_features))
        if nu < math.inf:
            waves /= np.sqrt(rng.chisquare(2.0 * nu, (given.n // 2, 1)) / (2.0 * nu))
        self._waves: Array = (waves / given.length).T

    def transform(self, rows: Array) -> Array:
        """Rows (n, n_inputs) as (n, n_outputs)."""
        with np.errstate(all="ignore"):  # of phases that overflow, which are refused below
            phases = feature_rows("rows", rows, self.n_inputs) @ self._waves
            found = np.empty((len(phases), self.n_outputs))
            np.cos(phases, out=found[:, ::2])
            np.sin(phases, out=found[:, 1::2])
        found *= math.sqrt(2.0 / self.n_outputs)
        if not np.isfinite(found).all():
            raise ValueError(
                "features are so large beside RandomFeatures' length that phases overflow: scale them down"
            )
        return found


class ForeignMap:
    """A fitted transformer of scikit-learn's kind: ``transform`` and ``n_features_in_``."""

    def __init__(self, transformer: Any) -> None:
        self._transformer = transformer
        self.n_inputs = count("features.n_features_in_", transformer.n_features_in_)
        self.n_outputs = 1
        self.n_outputs = self._transformed(np.zeros((1, self.n_inputs))).shape[1]

    def transform(self, rows: Array) -> Array:
        """Rows (n, n_inputs) as (n, n_outputs)."""
        found = self._transformed(rows)
        if found.shape != (len(rows), self.n_outputs):
            raise ValueError(f"features.transform gave shape {found.shape}; {(len(rows), self.n_outputs)} is wanted")
        return found

    def _transformed(self, rows: Array) -> Array:
        found = self._transformer.transform(rows.copy())  # some work in place
        dense = looked_at(lambda matrix: matrix.toarray(), found, found)
        return feature_rows("features.transform(X)", dense, None, shape="(n, n_outputs)")


def map_of(features: Any, n_features: int) -> FeatureMap:
    """The map that a policy's argument ``features`` stands for.

    Raises
    ------
    ValueError
        It is no map, or one of another number of features.
    """
    if isinstance(features, (Nystroem, RandomFeatures)):
        return features.mapping(n_features)
    is_transformer = looked_at(
        lambda given: callable(given.transform) and given.n_features_in_ is not None and not isinstance(given, type),
        features,
        False,
    )
    if not is_transformer:
        raise ValueError(
            f"features is {brief(features)}; fc.Nystroem, fc.RandomFeatures, a fitted transformer with transform and "
            "n_features_in_, or None is wanted"
        )
    found = ForeignMap(features)
    if found.n_inputs != n_features:
        raise ValueError(f"features takes {found.n_inputs} features; {n_features}, n_features, are wanted")
    return found


def _kernel(value: Any, callables: bool) -> Any:
    name = plain_text(value)
    if name in KERNELS:
        return name
    if callables and name is None and callable(value) and not isinstance(value, type):
        return value
    others = ", or a callable" if callables else ""
    raise ValueError(f"kernel is {brief(value)}; {', '.join(map(repr, KERNELS))}{others} is wanted")


def _length(value: Any, n_features: int | None) -> Any:
    """A positive number, or one for each feature."""
    array = real_numbers("length", value, "a number or (n_features,)")
    if array.ndim > 1 or not np.all((array > 0.0) & np.isfinite(array)) or array.size == 0:
        raise ValueError(f"length is {brief(value)}; positive finite numbers are wanted")
    if array.ndim == 0:
        return float(array)
    if n_features is not None and len(array) != n_features:
        raise ValueError(f"length has {len(array)} entries; one, or {n_features}, are wanted")
    array = array.copy()
    array.setflags(write=False)
    return array
