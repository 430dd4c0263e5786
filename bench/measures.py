"""What is measured, each beside a yardstick: the figures of ``python -m bench report`` and of ``test_ratios.py``.

A measure is two calls that do comparable work, ours and the yardstick's, and how many rounds each stands for. They are
taken in turns, in processor seconds, and to be taken with NumPy's linear algebra on one thread: a shared machine
changes its pace by half within minutes, of which the median ratio of neighbours in time keeps a few hundredths.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import c_colstim
import numpy as np
import numpy_colstim
from scipy.linalg import blas

import fastcolst as fc

N, D = 50, 10


class Measure(NamedTuple):
    """Ours beside a yardstick; either is made when it is measured, and then called in each turn."""

    what: str
    make_ours: Callable[[], Callable[[], Any]]
    rounds: int
    """Rounds of one call of ours."""
    yardstick: str
    make_theirs: Callable[[], Callable[[], Any]]
    their_rounds: int
    limit: float | None = None
    """The most, of ours over the yardstick, that is promised."""


class Turns:
    """A measure made ready: what compiles has compiled."""

    def __init__(self, measure: Measure) -> None:
        self.measure, self.ours, self.theirs = measure, measure.make_ours(), measure.make_theirs()
        self.one()

    def one(self) -> tuple[float, float]:
        """Processor seconds a round of ours and of the yardstick, one after the other."""
        start = time.process_time()
        self.ours()
        between = time.process_time()
        self.theirs()
        end = time.process_time()
        return (between - start) / self.measure.rounds, (end - between) / self.measure.their_rounds


class Taken(NamedTuple):
    """A measure's seconds a round, best of all turns, and the median ratio of neighbours."""

    ours: float
    theirs: float
    ratio: float


def take(measure: Measure, turns: int = 9) -> Taken:
    """Take a measure."""
    ready = Turns(measure)
    found = np.array([ready.one() for _ in range(turns)])
    return Taken(*found.min(axis=0).tolist(), float(np.median(found[:, 0] / found[:, 1])))


# --- what is played ------------------------------------------------------------------------------------------


def fused(estimator: Any = "sgd", horizon: int = 100_000, n: int = N, d: int = D) -> Callable[[], Any]:
    """A simulation of CoLSTIM on the paper's hard scenario, contexts, outcomes and regret included."""
    policies, problem = {"CoLSTIM": fc.CoLSTIM(d, estimator=estimator)}, fc.Scenario.hard(n_arms=n, n_features=d)
    return lambda: fc.simulate(policies, problem, horizon, rng=1, threads=1)


def numpy_loop(horizon: int) -> Callable[[], Any]:
    """The same algorithm as a vectorised loop."""
    theta, rng = fc.Scenario.hard(n_arms=N, n_features=D).start(1, 0).theta, np.random.default_rng(1)
    return lambda: numpy_colstim.simulate(theta, N, horizon, rng)


def c_loop(loop: Callable[[int, int, list[float]], float], horizon: int) -> Callable[[], Any]:
    """The same simulation in C, see :mod:`c_colstim`."""
    theta = fc.Scenario.hard(n_arms=N, n_features=D).start(1, 0).theta.tolist()
    return lambda: loop(horizon, 1, theta)


class BoundRounds:
    """A policy among bound arms past its exploration, which learns in every round; and one sum over their features."""

    def __init__(self, n: int, d: int) -> None:
        self.contexts = np.random.default_rng(0).normal(size=(n, d)) * (4.0 / d) ** 0.5
        self.policy = fc.CoLSTIM(
            d, estimator="sgd", ridge=1.0, exploration_rounds=20, horizon=100_000, allow_self_duel=False, rng=1
        )
        self.arms, self.theta, self.rng = self.policy.bind(self.contexts), np.ones(d) / d**0.5, np.random.default_rng(2)
        for _ in range(30):
            self.round()

    def round(self) -> None:
        """Choose and learn once."""
        duel = self.arms.select()
        self.policy.update(duel, bool(duel.contrast @ self.theta + self.rng.logistic() > 0.0))


def bound_round(n: int, d: int) -> Callable[[], Any]:
    """A round among bound arms."""
    return BoundRounds(n, d).round


def sum_over_features(n: int, d: int) -> Callable[[], Any]:
    """One sum over the features of all arms."""
    return (np.random.default_rng(0).normal(size=(n, d)) * (4.0 / d) ** 0.5).sum


class Served:
    """A policy object past its exploration, and contexts to choose from in turn."""

    def __init__(self, n: int, d: int, estimator: Any = "sgd", **options: Any) -> None:
        self.policy = fc.CoLSTIM(d, estimator=estimator, allow_self_duel=False, rng=1, **options)
        rng = np.random.default_rng(1)
        self.contexts = rng.normal(size=(64, n, d)) / np.sqrt(d)
        self.answers = rng.random(64) < 0.5
        while self.policy.status == "exploring":
            self.rounds()

    def rounds(self) -> None:
        """Choose and learn 64 times."""
        for contexts, answer in zip(self.contexts, self.answers.tolist(), strict=True):
            self.policy.update(self.policy.select(contexts), answer)

    def batches(self) -> None:
        """The same in eight batches of eight."""
        for contexts, answers in zip(self.contexts[::8], self.answers.reshape(8, 8), strict=True):
            self.policy.update_batch(self.policy.select_batch(contexts, 8), answers)


def served_rounds(n: int, d: int, estimator: Any, **options: Any) -> Callable[[], Any]:
    """64 rounds of a policy object."""
    return Served(n, d, estimator, **options).rounds


def served_batches(n: int, d: int, estimator: Any) -> Callable[[], Any]:
    """64 rounds of a policy object in batches of eight."""
    return Served(n, d, estimator).batches


def product_and_update(n: int, d: int, repeats: int) -> Callable[[], Any]:
    """One product (n, d) by (d, d) and one rank-one update of (d, d) in place: what a policy with M^-1 itself needs."""
    rng = np.random.default_rng(1)
    contexts, inverse = np.asfortranarray(rng.normal(size=(n, d))), np.asfortranarray(np.eye(d))
    contrast, out = rng.normal(size=d) / d, np.zeros((n, d), order="F")

    def work() -> None:
        for _ in range(repeats):
            blas.dgemm(1.0, contexts, inverse, c=out, overwrite_c=1)
            blas.dger(1e-9, contrast, contrast, a=inverse, overwrite_a=1)

    return work


# --- the measures --------------------------------------------------------------------------------------------


def rounds() -> Iterator[Measure]:
    """A round of choosing, answering and learning."""
    loop = ("a NumPy loop, SGD", partial(numpy_loop, 10_000), 10_000)
    for estimator, limit in (("sgd", 1 / 12), ("online-newton", 1 / 8), ("mle", 1 / 8)):
        yield Measure(f"simulated, {estimator}, n = {N}, d = {D}", partial(fused, estimator), 100_000, *loop, limit)
    for told, sizes_known, limit in (("told its sizes", False, 1.5), ("with its sizes compiled in", True, 2.5)):
        made = c_colstim.compiled(N, D, sizes_known)
        if made is not None:
            in_c = (f"a C loop, {told}", partial(c_loop, made, 50_000), 50_000)
            yield Measure(f"simulated, sgd, n = {N}, d = {D}", partial(fused, "sgd", 50_000), 50_000, *in_c, limit)
    for n, d, estimator in ((N, D, "sgd"), (N, D, "mle"), (4, 5, "sgd")):
        make = partial(served_rounds, n, d, estimator)
        yield Measure(f"select and update, {estimator}, n = {n}, d = {d}", make, 64, *loop)
    make = partial(served_batches, N, D, "sgd")
    yield Measure(f"select_batch and update_batch of 8, sgd, n = {N}, d = {D}", make, 64, *loop)


def prices(horizon: int = 100_000) -> Iterator[Measure]:
    """Simulated rounds of the exact estimate beside SGD's."""
    for d, tolerance, limit in ((2, 1e-2, 1.15), (10, 1e-2, 1.15), (50, 1e-2, 1.25), (D, 1e-3, None)):
        what = f"simulated, mle, tolerance {tolerance:g}, n = {N}, d = {d}"
        exact, steps = (partial(fused, e, horizon, d=d) for e in (fc.MLE(tolerance), "sgd"))
        yield Measure(what, exact, horizon, "the same with SGD", steps, horizon, limit)


def many_features() -> Iterator[Measure]:
    """Embeddings, a prior, contexts new each round."""
    for d in (384, 768):
        work = ("one product and one rank-one update", partial(product_and_update, 64, d, 64), 64)
        for estimator, limit in (("sgd", 1.2), ("online-newton", 2.0), ("mle", 2.5)):
            make = partial(served_rounds, 64, d, estimator, ridge=1.0, exploration_rounds=10)
            yield Measure(f"select and update, {estimator}, ridge 1, n = 64, d = {d}", make, 64, *work, limit)


def bound_arms() -> Iterator[Measure]:
    """A round among fixed arms, numbers for the noise included; every round teaches something."""
    for n, d in ((100_000, 10), (100_000, 50), (1_000_000, 10)):
        one_sum = ("one sum over their features", partial(sum_over_features, n, d), 1)
        yield Measure(f"bound arms, sgd, n = {n:,}, d = {d}", partial(bound_round, n, d), 1, *one_sum, 6.0)


def refits(n: int = 2_000, d: int = D) -> Iterator[Measure]:
    """The estimate after each answer beside fitting it anew; packages that are not installed are left out."""
    rng = np.random.default_rng(1)
    theta = rng.normal(size=d) * 0.3
    contrasts = rng.normal(size=(n + 1_000, d)) * 0.5
    wins = contrasts @ theta + rng.logistic(size=n + 1_000) > 0

    def learning() -> Callable[[], Any]:
        policy = fc.CoLSTIM(d)
        policy.learn_and_predict(contrasts[:n], wins[:n])
        return lambda: policy.learn_and_predict(contrasts[n:], wins[n:])

    what = f"predict and learn, mle, after {n:,} answers, d = {d}"
    for name, module, fit in (
        ("scikit-learn's LogisticRegression", "sklearn", _by_scikit_learn),
        ("statsmodels' Logit", "statsmodels", _by_statsmodels),
        ("SciPy's minimize", "scipy", _by_scipy),
    ):
        if find_spec(module):
            refits = partial(partial, _repeat, 20, fit, contrasts[:n], wins[:n])
            yield Measure(what, learning, 1_000, f"{name}, fitted anew", refits, 20, 1 / 100)


def _repeat(times: int, fit: Callable[[Any, Any], Any], contrasts: Any, wins: Any) -> None:
    for _ in range(times):
        fit(contrasts, wins)


def _by_scikit_learn(contrasts: Any, wins: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=np.inf, fit_intercept=False, solver="newton-cholesky", tol=1e-6).fit(contrasts, wins)


def _by_statsmodels(contrasts: Any, wins: Any) -> Any:
    from statsmodels.api import Logit

    return Logit(wins, contrasts).fit(disp=0)


def _by_scipy(contrasts: Any, wins: Any) -> Any:
    from scipy.optimize import minimize

    signed = contrasts * np.where(wins, 1.0, -1.0)[:, None]

    def loss(theta: Any) -> Any:
        margin = signed @ theta
        return np.logaddexp(0.0, -margin).sum(), -signed.T @ (1.0 / (1.0 + np.exp(margin)))

    return minimize(loss, np.zeros(contrasts.shape[1]), jac=True, method="L-BFGS-B", tol=1e-8)


def scaling() -> Iterator[tuple[str, str, int, Measure]]:
    """What varies, the estimator, the value and the measure: n, d and T, each from n = 50, d = 10, T = 20,000."""
    for estimator in ("sgd", "mle"):
        for name, values in (
            ("n", (5, 20, 50, 200, 1_000)),
            ("d", (2, 5, 10, 20, 50)),
            ("T", (2_000, 20_000, 200_000)),
        ):
            for value in values:
                n, d, horizon = ({"n": N, "d": D, "T": 20_000} | {name: value}).values()
                make = partial(fused, estimator, horizon, n=n, d=d)
                yield name, estimator, value, Measure("", make, horizon, "", partial(numpy_loop, 200), 200)
