"""The estimate of theta: of finished comparisons, and comparison by comparison."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr
from scipy.optimize import brentq, linprog

from fastcolst.reference.linalg import Floats, floats, inverse, invertible
from fastcolst.reference.models import ComparisonModel


@dataclass(frozen=True, eq=False)
class Estimate:
    """What `fit` found. Standard errors and log-likelihood leave the ridge's prior out."""

    theta: Floats  # (d,); with infinite entries where no finite estimate exists
    information: Floats  # (d, d), the curvature of the loss at theta, ridge included
    covariance: Floats  # (d, d), of the estimate's sampling distribution; inf on the diagonal where not estimable
    log_likelihood: float
    status: str  # "interior", "boundary" of the ball, "separated": theta explains every answer, or has no finite value
    multiplier: float  # mu of the ball, 0 inside
    decrement: float  # |gradient| in standard errors: how far from exact

    @property
    def standard_errors(self) -> Floats:
        """Square roots of the covariance's diagonal, (d,)."""
        return floats(np.sqrt(np.diag(self.covariance)))

    def distance(self, theta: Floats) -> float:
        """Return how far another estimate is from this one, in standard errors."""
        difference = theta - self.theta
        return math.sqrt(max(0.0, float(difference @ self.information @ difference)))


def fit(
    contrasts: ArrayLike,
    wins: ArrayLike,
    trials: ArrayLike | None = None,
    *,
    comparison: ComparisonModel,
    score: str = "likelihood",
    ridge: float = 0.0,
    radius: float | str | None = None,
) -> Estimate:
    """Minimise sum_k w_k psi(z_k.theta) + (n_k - w_k) psi(-z_k.theta) + ridge/2 |theta|^2 over a ball.

    psi' is -f/F (`score` "likelihood": psi = -log F) or -F(-u) ("residual", the root of the paper's equation (10)).

    Parameters
    ----------
    contrasts : (m, d)
        z_k = x_first - x_second.
    wins, trials : (m,)
        How often the first arm won, of how many comparisons; None: of one.
    radius : float, "auto" or None
        |theta| <= radius; "auto": sqrt(sum (max |z_k| theta_k)^2) <= 20 without a ridge, no bound with one; None: no
        bound.

    Notes
    -----
    Where several theta are equally good, because the contrasts do not span the space, the one with the smallest norm
    (that of the ball) is found.

    The answers are *separated* when some direction v has z~.v >= 0 for each signed contrast z~ (z where the first arm
    won, -z where it lost) and > 0 for one: then the loss falls for ever along v. A linear program decides that. Without
    a ball, coordinates that the other answers determine get the limit of their estimate, the others +-inf (nan where
    either sign would do). With a ball theta lies on its sphere, or at the point within from which on the loss is too
    flat for double precision.

    Examples
    --------
    >>> from fastcolst.reference import BradleyTerry, fit
    >>> fit([[1.0]], [3.0], [4.0], comparison=BradleyTerry()).theta  # log(3)
    array([1.09861229])
    """
    Z, n = floats(contrasts), np.ones(len(floats(wins))) if trials is None else floats(trials)
    observed = (n > 0.0) & np.any(Z != 0.0, axis=1)
    loss = _Loss(
        *(Z[observed], floats(wins)[observed], n[observed]),
        model=comparison,
        score=score,
        ridge=ridge,
        scaled=radius == "auto",
    )
    bound = _bound(radius, ridge)

    beta, decrement = _minimise(loss, 0.0, np.zeros(loss.X.shape[1]))
    explained, direction = loss.separation(beta)
    if np.any(explained) and bound == math.inf:
        return _limit(loss, explained, direction)
    mu = 0.0
    if np.linalg.norm(beta) > bound or np.any(explained):
        mu, beta, decrement = _on_the_sphere(loss, bound)
    status = "boundary" if mu > 0.0 else "interior"
    if np.any(explained) and (mu == 0.0 or loss.explains_all(beta)):
        status = "separated"
    return loss.estimate(beta, status, mu, decrement)


def _bound(radius: float | str | None, ridge: float) -> float:
    """Return the radius that a word stands for; a ridge keeps theta finite by itself."""
    if radius == "auto":
        return 20.0 if ridge == 0.0 else math.inf
    return math.inf if radius is None else float(radius)


class _Loss:
    """The loss as a function of beta, coordinates of D theta within the span of the contrasts; |beta| = |D theta|.

    D holds the scales of the ball's norm. With a ridge the minimum is unique without leaving directions out.
    """

    def __init__(
        self,
        Z: Floats,
        wins: Floats,
        trials: Floats,
        *,
        model: ComparisonModel,
        score: str,
        ridge: float,
        scaled: bool,
    ) -> None:
        if score not in ("likelihood", "residual"):
            raise ValueError(f'score is {score!r}; it must be "likelihood" or "residual"')
        self.Z, self.wins, self.losses, self.model, self.score, self.ridge = Z, wins, trials - wins, model, score, ridge
        self.D = _scales(Z) if scaled else np.ones(Z.shape[1])
        self.basis = np.eye(Z.shape[1]) if ridge > 0.0 else _span(Z, self.D)
        self.X = (Z / self.D) @ self.basis
        self.prior = ridge * (self.basis.T / self.D**2) @ self.basis

    def gradient(self, beta: Floats, mu: float) -> Floats:
        e = self.X @ beta
        return self.prior @ beta + mu * beta - (self.wins * self._pull(e) - self.losses * self._pull(-e)) @ self.X

    def hessian(self, beta: Floats, mu: float) -> Floats:
        weights = self._weights(self.X @ beta)
        return floats((self.X.T * weights) @ self.X + self.prior + mu * np.eye(len(beta)))

    def separation(self, beta: Floats) -> tuple[NDArray[np.bool_], Floats]:
        """Tell which rows some v explains, contradicting no answer, and return one that explains them all."""
        e, won, lost = self.X @ beta, self.wins > 0.0, self.losses > 0.0
        pulls = np.concatenate([self._pull(e)[won], self._pull(-e)[lost]])
        if self.ridge > 0.0 or np.all(pulls > 1e-10):
            # with a ridge the minimum is finite; without one sum n s z~ = 0 at beta, so that all z~.v >= 0 means = 0
            return np.zeros(len(e), dtype=bool), np.zeros(self.Z.shape[1])
        rows = self.Z / _scales(self.Z)
        rows = rows / np.linalg.norm(rows, axis=1)[:, None]
        signed = np.concatenate([rows[won], -rows[lost]])
        owner = np.concatenate([np.flatnonzero(won), np.flatnonzero(lost)])
        # maximise sum t over z~.v >= t and 0 <= t <= 1; v may be very long, so that every t ends at 0 or 1
        m, d = signed.shape
        program = linprog(
            np.concatenate([np.zeros(d), -np.ones(m)]),
            A_ub=np.hstack([-signed, np.eye(m)]),
            b_ub=np.zeros(m),
            bounds=[(-1e6, 1e6)] * d + [(0.0, 1.0)] * m,
        )
        if program.status != 0:
            raise RuntimeError(f"the linear program that looks for separation failed: {program.message}")
        explained = np.zeros(len(e), dtype=bool)
        explained[owner[program.x[d:] > 0.5]] = True
        return explained, floats(program.x[:d] / _scales(self.Z))

    def explains_all(self, beta: Floats) -> bool:
        """Tell whether every answer was the likelier one."""
        e = self.X @ beta
        return bool(np.all(e[self.wins > 0.0] > 0.0) and np.all(e[self.losses > 0.0] < 0.0))

    def estimate(self, beta: Floats, status: str, mu: float, decrement: float) -> Estimate:
        theta = self.basis @ beta / self.D
        e = self.Z @ theta
        return Estimate(
            theta=theta,
            information=(self.Z.T * self._weights(e)) @ self.Z + self.ridge * np.eye(len(theta)),
            covariance=self._covariance(e),
            log_likelihood=float(self.wins @ self.model.log_cdf(e) + self.losses @ self.model.log_cdf(-e)),
            status=status if decrement < 1e-7 else "not-converged",
            multiplier=mu,
            decrement=decrement,
        )

    def _covariance(self, e: Floats) -> Floats:
        """A^-1 B A^-1: A the expected curvature with the ridge, B the variance of the score, both under the model."""
        n, f = self.wins + self.losses, self.model.pdf(e)
        curvature, variance = n * f, n * self.model.cdf(e) * self.model.cdf(-e)
        if self.score == "likelihood":
            curvature = variance = n * self.model.weight(e)
        D = _scales(self.Z)
        basis = np.eye(len(D)) if self.ridge > 0.0 else _span(self.Z, D)
        X = (self.Z / D) @ basis
        A = (X.T * curvature) @ X + self.ridge * (basis.T / D**2) @ basis
        if not invertible(A):  # so far out that no answer is uncertain
            return np.diag(np.full(len(D), math.inf))
        A_inv = inverse(A)
        covariance = basis @ A_inv @ ((X.T * variance) @ X) @ A_inv @ basis.T / np.outer(D, D)
        loose = ~_determined(basis)
        covariance[loose, loose] = math.inf
        return floats(covariance)

    def _pull(self, e: Floats) -> Floats:
        """Return -psi'(e)."""
        return pull(self.model, self.score, e)

    def _weights(self, e: Floats) -> Floats:
        """Return each row's psi''."""
        if self.score == "likelihood":
            return self.wins * self.model.curvature(e) + self.losses * self.model.curvature(-e)
        return (self.wins + self.losses) * self.model.pdf(e)


def _minimise(loss: _Loss, mu: float, beta: Floats) -> tuple[Floats, float]:
    """Minimise loss + mu/2 |beta|^2 by Newton steps with an exact line search; return the decrement as well."""
    best, smallest, stalled = beta, math.inf, 0
    for _ in range(1000):
        gradient = loss.gradient(beta, mu)
        step = -_solve(loss.hessian(beta, mu), gradient)
        decrement = math.sqrt(max(0.0, -float(step @ gradient)))
        stalled = 0 if decrement < 0.9 * smallest else stalled + 1
        if decrement < smallest:
            best, smallest = beta, decrement
        # with mu, the distance from the minimum is at most decrement / sqrt(mu)
        enough = 1e-14 * (math.sqrt(mu) * float(np.linalg.norm(beta)) if mu > 0.0 else 1.0)
        if decrement <= enough or stalled == 10:  # rounding errors are all that is left
            break
        beta = beta + _length(loss, mu, beta, step) * step
    return best, smallest


def _length(loss: _Loss, mu: float, beta: Floats, step: Floats) -> float:
    """Find how far to go along a direction of descent, by the slope there, which grows with the length."""

    def slope(length: float) -> float:
        return float(loss.gradient(beta + length * step, mu) @ step)

    start, length = slope(0.0), 1.0
    while slope(length) < 0.9 * start and length < 2.0**60:
        length *= 2.0
    if slope(length) <= 0.0 or start >= 0.0:
        return length
    return float(brentq(slope, 0.0, length, xtol=1e-13))


def _on_the_sphere(loss: _Loss, radius: float) -> tuple[float, Floats, float]:
    """Find the multiplier mu > 0 for which the minimum of loss + mu/2 |beta|^2 has the length of the radius."""
    beta = np.zeros(loss.X.shape[1])

    def excess(log_mu: float) -> float:
        nonlocal beta
        beta, _ = _minimise(loss, math.exp(log_mu), beta)
        return math.log(float(np.linalg.norm(beta)) / radius)

    # loss + mu/2 |beta|^2 is strongly convex, so that |beta(mu)| <= |gradient(0)| / mu, and |beta(mu)| falls with mu
    high = math.log(float(np.linalg.norm(loss.gradient(beta, 0.0))) / radius)
    low = high - 1.0
    while excess(low) < 0.0:
        low -= 2.0 * (high - low)
        if low < -700.0:  # exp(low) underflows
            return 0.0, *_minimise(loss, 0.0, beta)
    mu = math.exp(brentq(excess, low, high, xtol=1e-14, rtol=1e-14))
    return mu, *_minimise(loss, mu, beta)


def _limit(loss: _Loss, explained: NDArray[np.bool_], direction: Floats) -> Estimate:
    """Follow separated answers to infinity: the rows without them decide what stays finite."""
    rest = fit(
        loss.Z[~explained],
        loss.wins[~explained],
        (loss.wins + loss.losses)[~explained],
        comparison=loss.model,
        score=loss.score,
    )
    D = _scales(loss.Z)
    loose = ~_determined(_span(loss.Z[~explained] / D, np.ones(len(D))))
    clear = np.abs(direction * D) > 1e-9 * np.max(np.abs(direction * D))
    infinite = np.where(clear, np.copysign(math.inf, direction), math.nan)
    covariance = rest.covariance.copy()
    covariance[loose, loose] = math.inf
    theta = np.where(loose, infinite, rest.theta)
    return replace(rest, theta=theta, covariance=covariance, status="separated")


# --- theta, comparison by comparison --------------------------------------------------------------------------


@dataclass(eq=False)
class MLE:
    """Line 6: the minimum of `fit`'s loss over all comparisons so far, found anew after each of them.

    >>> from fastcolst.reference import BradleyTerry, MLE
    >>> estimator = MLE(BradleyTerry(), ridge=1.0)
    >>> estimator.learn(np.array([2.0]), first_won=True)
    array([0.52...])
    """

    comparison: ComparisonModel
    _: KW_ONLY
    score: str = "likelihood"
    ridge: float | None = None  # None: the policy's, 0 without one
    radius: float | str | None = "auto"
    theta: Floats = field(init=False, default_factory=lambda: np.empty(0))
    _signed: list[Floats] = field(init=False, default_factory=list)  # z where the first arm won, -z where it lost
    _weights: list[float] = field(init=False, default_factory=list)
    _penalty: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.settle(0.0)

    def settle(self, ridge: float) -> None:
        """Take a policy's ridge, unless there is one of its own."""
        self._penalty = ridge if self.ridge is None else self.ridge

    def learn(self, contrast: Floats, first_won: float, weight: float = 1.0) -> Floats:
        """Learn one comparison, contrast (d,), of which the first won a share, and return theta."""
        for signed, part in _parts(contrast, first_won, weight):
            self._signed.append(signed)
            self._weights.append(part)
        return self._found()

    def fade(self, share: float) -> Floats:
        """Let each weight be a share of what it was, and return theta."""
        self._weights = [share * weight for weight in self._weights]
        return self._found()

    def _found(self) -> Floats:
        self.theta = self._by_newton() if len(self._signed) > 1 else np.full(len(self._signed[0]), math.nan)
        if np.any(np.isnan(self.theta)):
            self.theta = fit(
                self._signed,
                self._weights,
                self._weights,
                comparison=self.comparison,
                score=self.score,
                ridge=self._penalty,
                radius=self.radius,
            ).theta
        return self.theta

    def information(self, n_features: int) -> Floats:
        """Return the loss's matrix of second derivatives at theta, (d, d); of nothing the ridge's alone."""
        prior = self._penalty * np.eye(n_features)
        if not self._signed:
            return prior
        Z = np.array(self._signed)
        curvatures = floats(self._weights) * bend(self.comparison, self.score, Z @ self.theta)
        return floats((Z.T * curvatures) @ Z + prior)

    def _by_newton(self) -> Floats:
        """Return the minimum, by Newton's method from the last one; nan unless it is found soon, inside the ball."""
        Z, weights, theta = np.array(self._signed), floats(self._weights), self.theta
        for _ in range(8):
            e = Z @ theta
            H = (Z.T * (weights * bend(self.comparison, self.score, e))) @ Z + self._penalty * np.eye(len(theta))
            if not np.all(np.isfinite(H)) or not invertible(H):
                break
            gradient = (weights * pull(self.comparison, self.score, e)) @ Z - self._penalty * theta
            step = inverse(H) @ gradient
            theta = theta + step
            if float(step @ gradient) < 1e-22:  # 1e-11 standard errors, and the next step is far shorter
                scales = _scales(Z) if self.radius == "auto" else np.ones(len(theta))
                bound = _bound(self.radius, self._penalty)
                certain = pull(self.comparison, self.score, e) < 1e-6  # separated, perhaps
                inside = np.linalg.norm(scales * theta) < bound and (self._penalty > 0.0 or not np.any(certain))
                return theta if inside else np.full(len(theta), math.nan)
        return np.full(len(theta), math.nan)


@dataclass(eq=False)
class OnlineNewton:
    """One pass: an implicit Newton step for each comparison, after a start in which theta is exact.

    With H the information collected so far and s, w the slope and the curvature of a comparison's loss at the *new*
    margin, theta moves by s H^-1 z~, and H by w z~ z~'. This is exact where the earlier losses are quadratic. After the
    start a comparison of weight 3 is three of weight 1; what is beyond a hundred of them, or a fraction, comes first,
    in one step.

    >>> from fastcolst.reference import BradleyTerry, OnlineNewton
    >>> estimator = OnlineNewton(BradleyTerry(), history=0)
    >>> estimator.learn(np.array([2.0]), first_won=True)
    array([0.52...])
    """

    comparison: ComparisonModel
    _: KW_ONLY
    history: int = 2000  # comparisons that the start remembers
    score: str = "likelihood"
    ridge: float | None = None  # None: the policy's, 1 where that is 0 or there is none
    theta: Floats = field(init=False, default_factory=lambda: np.empty(0))
    _H: Floats = field(init=False, default_factory=lambda: np.empty((0, 0)))
    _start: MLE = field(init=False)
    _n_learned: int = field(init=False, default=0)

    _penalty: float = field(init=False, default=1.0)

    def __post_init__(self) -> None:
        self.settle(0.0)

    def settle(self, ridge: float) -> None:
        """Take a policy's ridge, unless there is one of its own."""
        self._penalty = (ridge or 1.0) if self.ridge is None else self.ridge
        self._start = MLE(self.comparison, score=self.score, ridge=self._penalty, radius=None)

    def learn(self, contrast: Floats, first_won: float, weight: float = 1.0) -> Floats:
        """Learn one comparison, contrast (d,), of which the first won a share, and return theta."""
        if self._n_learned < self.history:
            self._n_learned += 1
            self.theta = self._start.learn(contrast, first_won, weight)
            self._H = self._start.information(len(contrast))
            return self.theta
        if self._n_learned == 0:
            self.theta, self._H = np.zeros(len(contrast)), self._penalty * np.eye(len(contrast))
        n_whole = min(math.floor(weight), 100)
        for amount in [weight - n_whole] * (weight > n_whole) + [1.0] * n_whole:
            self._n_learned += 1
            self._push(contrast, first_won, amount)
        return self.theta

    def fade(self, share: float) -> Floats:
        """As MLE's; after the start share/2 |t - theta|_H^2 + (1 - share) ridge/2 |t|^2 is what is left."""
        if self._n_learned <= self.history:
            self.theta = self._start.fade(share)
            self._H = self._start.information(len(self.theta))
            return self.theta
        faded = share * self._H
        self._H = faded + (1.0 - share) * self._penalty * np.eye(len(self.theta))
        self.theta = floats(np.linalg.solve(self._H, faded @ self.theta))
        return self.theta

    def information(self, n_features: int) -> Floats:
        """Return the information collected so far, (d, d); of nothing the ridge's alone."""
        return self._H if self._n_learned > 0 else self._penalty * np.eye(n_features)

    def _push(self, contrast: Floats, share: float, weight: float) -> None:
        direction = inverse(self._H) @ contrast
        e, q = float(contrast @ self.theta), float(contrast @ direction)

        def shared(f: Callable[..., Floats], sign: float, margin: float) -> float:
            halves = float(f(self.comparison, self.score, margin)), float(f(self.comparison, self.score, -margin))
            return weight * (share * halves[0] + sign * (1.0 - share) * halves[1])

        def excess(s: float) -> float:
            return s - shared(pull, -1.0, e + q * s)

        least = -weight * (1.0 - share) * float(pull(self.comparison, self.score, -e))
        most = weight * share * float(pull(self.comparison, self.score, e))  # the slope falls
        s = brentq(excess, least, most, xtol=1e-300, rtol=1e-15, maxiter=1000)
        self.theta = self.theta + s * direction
        self._H = self._H + shared(bend, 1.0, e + q * s) * np.outer(contrast, contrast)


def _parts(contrast: Floats, share: float, weight: float) -> list[tuple[Floats, float]]:
    """Return the signed contrasts of a win, a loss, or both of a tie, each with its weight."""
    parts = (contrast, weight * share), (-contrast, weight * (1.0 - share))
    return [(signed, part) for signed, part in parts if part > 0.0]


def pull(model: ComparisonModel, score: str, e: ArrayLike) -> Floats:
    """Return -psi'(e), how strongly a comparison of signed margin e pulls: f/F, or F(-e) for the residual score."""
    return model.score(e) if score == "likelihood" else model.cdf(-floats(e))


def bend(model: ComparisonModel, score: str, e: ArrayLike) -> Floats:
    """Return psi''(e)."""
    return model.curvature(e) if score == "likelihood" else model.pdf(e)


def _solve(hessian: Floats, gradient: Floats) -> Floats:
    """Solve H p = g where H may be singular (Laplace's loss has flat parts): small eigenvalues are raised."""
    diagonal = np.diag(hessian)
    if not np.any(diagonal > 0.0):
        return gradient
    scale = np.sqrt(np.maximum(diagonal, 1e-30 * np.max(diagonal)))
    values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
    return floats((vectors @ ((vectors.T @ (gradient / scale)) / np.maximum(values, 1e-14))) / scale)


def _span(Z: Floats, D: Floats) -> Floats:
    """Return an orthonormal basis (d, rank) of the span of the rows of Z / D; the identity where that is all."""
    rank = 0 if len(Z) == 0 else np.linalg.matrix_rank(Z / _scales(Z), tol=1e-11 * math.sqrt(Z.size))
    if rank == Z.shape[1]:
        return np.eye(rank)
    return floats(qr((Z / D).T, mode="economic", pivoting=True)[0][:, :rank])


def _determined(basis: Floats) -> NDArray[np.bool_]:
    """Tell which coordinates the span of an orthonormal basis holds."""
    return np.asarray(np.sum(basis**2, axis=1) > 1.0 - 1e-9)


def _scales(Z: Floats) -> Floats:
    """Return max |z_k| of every coordinate, 1 where that is 0."""
    largest = np.max(np.abs(Z), axis=0, initial=0.0)
    return np.where(largest > 0.0, largest, 1.0)
