"""Which constants serve a problem best: a policy's variants on simulated rounds, paired run by run.

The best of many variants in some runs looks better there than it is. What is said of it comes from fresh runs, in which
it plays once more beside the policy as given.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import SeedSequence
from scipy.special import stdtrit

from fastcolst._checks import answer, brief, choice, count, entries, is_a, looked_at
from fastcolst._files import optional_import
from fastcolst._words import align
from fastcolst.data.log import Log
from fastcolst.experiments.problems import Problem
from fastcolst.experiments.resampled import ResampledLog
from fastcolst.experiments.results import Result
from fastcolst.experiments.simulation import simulate
from fastcolst.policies.policy import Policy
from fastcolst.streams import CONFIRMATION, check_rng, entropy_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AS_GIVEN", "Tuning", "tune"]

AS_GIVEN = "as given"
"""Label of the policy as it was given, among the variants."""

SHARES = (2.0, 1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16)
"""Default scales of the widths, in units of the paper's sqrt(d log T)."""
RIDGES = (0.0, 1.0)

REGRETS = {
    "average": "average_regret",
    "weak": "weak_regret",
    "first": "first_regret",
    "greedy": "greedy_regret",
}
"""What may be minimised, and the result's table of it."""

MOST_VARIANTS = 1_000

SIZES = ("self", "n_features", "n_arms", "horizon", "rng")
"""Of a policy's constructor: what the problem says and no variant does."""

LEVEL = 0.025
"""Chance that a variant that is no better is recommended, for differences to which a t-test applies."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Tuning:
    """What :func:`tune` found.

    Attributes
    ----------
    policy : policy
        Fresh, with the recommended constants: the best variant where fresh runs confirm that it is better than the
        policy as given, else that.
    parameters : dict
        What the recommended policy has that the given one has not; empty for the given one.
    variants : dict of label to dict
        The parameters of each variant.
    result : Result
        The runs in which the best variant was found.
    confirmation : Result or None
        The fresh runs of the best variant and the policy as given; None where that was the best.
    regret : str
        What was minimised: "average", "weak", "first" or "greedy".
    n_arms, n_features : int
        Of the problem.
    """

    policy: Any
    parameters: dict[str, Any]
    variants: dict[str, dict[str, Any]]
    result: Result
    confirmation: Result | None
    regret: str
    n_arms: int
    n_features: int

    def __repr__(self) -> str:
        return f"Tuning(policy={self.policy!r}, variants={len(self.variants)}, runs={self.result.runs})"

    def __str__(self) -> str:
        return self.summary()

    def summary(self) -> str:
        """A table of all variants, the best first, and the recommendation in words."""
        final = {label: self._final(self.result, label) for label in self.variants}
        order = sorted(final, key=lambda label: float(final[label].mean()))
        rows: list[Sequence[str]] = [("variant", f"{self.regret} regret", "beside as given", "standard error")]
        for label in order:
            mean, error = _paired(final[label], final[AS_GIVEN])
            beside = ("", "") if label == AS_GIVEN else (f"{mean:+,.1f}", f"{error:,.1f}")
            rows.append((label, f"{final[label].mean():,.1f}", *beside))
        runs = f"{self.result.horizon:,} rounds, {self.result.runs} runs, seed {self.result.seed}"
        return "\n".join([runs, *align(rows), *self._doubt(), self.recommendation])

    def _doubt(self) -> list[str]:
        """What there is to say of a horizon within the exploration, in which nothing of this matters."""
        exploration = self.n_arms * self.n_features
        if self.result.horizon > exploration:
            return []
        said = f"The horizon is no longer than n d = {exploration:,} rounds"
        return [f"{said}: variants that explore as long as the paper does played random pairs only."]

    @property
    def recommendation(self) -> str:
        """What to do, in a sentence, from fresh runs alone."""
        if self.confirmation is None:
            return "Of these none has less regret than the policy as given: keep it."
        (best,) = (label for label in self.confirmation.policies if label != AS_GIVEN)
        theirs, ours = (self._final(self.confirmation, label) for label in (AS_GIVEN, best))
        difference, error = _paired(ours, theirs)
        seen = (
            f"in {self.confirmation.runs} fresh runs its regret was {ours.mean():,.1f}, as given {theirs.mean():,.1f}, "
            f"a difference of {difference:+,.1f} with standard error {error:,.1f}"
        )
        if self.parameters:
            return f"Take {best}: {seen}."
        return f"Keep the policy as given: {best} was the best here, but {seen}, which may be chance."

    def to_pandas(self) -> Any:
        """A pandas DataFrame: one row for each variant and run, with the parameters that vary and the final regret."""
        pd = optional_import("pandas", "Tuning.to_pandas")
        names = list(dict.fromkeys(itertools.chain.from_iterable(self.variants.values())))
        rows = [
            {"variant": label, **{name: given.get(name) for name in names}, "run": run, "regret": regret}
            for label, given in self.variants.items()
            for run, regret in enumerate(self._final(self.result, label).tolist())
        ]
        return pd.DataFrame(rows)

    def plot(self, ax: Any = None) -> Any:
        """Draw the final regret of the variants: see :func:`fastcolst.plotting.tuning_figure`."""
        from fastcolst.plotting import tuning_figure

        final = {label: self._final(self.result, label) for label in self.variants}
        return tuning_figure(self.variants, final, AS_GIVEN, f"{self.regret} regret", ax)

    def _final(self, result: Result, label: str) -> NDArray[np.float64]:
        table: dict[str, NDArray[np.float64]] = getattr(result, REGRETS[self.regret])
        return table[label][:, -1]


def tune(  # noqa: PLR0917 - the order of simulate
    policy: Policy,
    problem: Any,
    horizon: int = 2_000,
    runs: int = 20,
    rng: Any = None,
    threads: int | None = None,
    progress: bool = False,
    *,
    grid: Mapping[str, Iterable[Any]] | None = None,
    regret: str = "average",
    n_arms: int | None = None,
) -> Tuning:
    """Find the constants with which a policy has the least regret on simulated problems like yours.

    All variants play the same rounds with the same answers, run by run. The best of them plays fresh runs beside the
    policy as given, and is recommended where these show that it is better, by a paired t-test of level 0.025.

    Parameters
    ----------
    policy : policy
        A template; stays as it is.
    problem : Scenario, another problem, or Log
        What is simulated. A log of finished comparisons stands for problems like the one that it was recorded in, see
        :class:`fastcolst.experiments.resampled.ResampledLog`.
    horizon : int, default 2000
        Rounds in each run: as many answers as you will have. What is best depends on it.
    runs : int, default 20
        At least 2.
    rng : int, SeedSequence, Generator or None
        From which everything follows.
    threads, progress
        As for :func:`fastcolst.simulate`.
    grid : dict of parameter to values, optional
        Every combination is a variant. None: six width scales, from 1/16 to 2 times the paper's sqrt(d log T), each
        with ridge 0 and 1, as far as the policy has these parameters.
    regret : "average", "weak", "first" or "greedy"
        Whose: of the pair, of its better arm, of its first arm alone, or of the arm that the estimate prefers.
    n_arms : int, optional
        Arms of a round, where the problem is a log, which does not tell.

    Returns
    -------
    Tuning
        ``policy`` with the recommended constants, ``summary()``, ``plot()``.

    Raises
    ------
    ValueError
        For an argument outside its range, or one that the policy refuses.

    Notes
    -----
    The time of variants * runs * horizon simulated rounds, and of two variants' more.

    Examples
    --------
    >>> import fastcolst as fc
    >>> policy, problem = fc.CoLSTIM(3, width_scale=100.0, estimator="sgd"), fc.Scenario.hard(n_arms=5, n_features=3)
    >>> found = fc.tune(policy, problem, horizon=500, runs=8, rng=1, grid={"width_scale": [1.0, 30.0]})
    >>> found.parameters
    {'width_scale': 1.0}
    >>> duel = found.policy.select([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    """
    if not is_a(Policy, policy):
        raise ValueError(f"policy is {brief(policy)}; a policy object is wanted")
    if isinstance(problem, Log):
        if policy.get_params().get("features") is not None:
            raise ValueError(
                "policy maps its features, of which a log tells differences only; a scenario with utility= is wanted"
            )
        if n_arms is None:
            raise ValueError("n_arms is missing; of a log the number of arms of a round is wanted")
        problem = ResampledLog(problem, n_arms, policy.get_params().get("comparison", "bradley-terry"))
    elif not is_a(Problem, problem):
        raise ValueError(f"problem is {brief(problem)}; a Scenario or a Log is wanted")
    elif n_arms is not None:
        raise ValueError(f"n_arms is {brief(n_arms)} and the problem says its own; it is wanted with a log only")
    horizon, runs = count("horizon", horizon), count("runs", runs, lowest=2)
    table, progress = REGRETS[choice("regret", regret, tuple(REGRETS))], answer(progress, "progress")
    check_rng(rng)
    variants = _variants(policy, grid, problem.n_features, horizon)
    policies = {label: _variant(policy, label, given) for label, given in variants.items()}
    entropy = entropy_of(rng)
    single_arms = regret in ("first", "greedy")

    def played(labels: Iterable[str], seed: Any) -> Result:
        players = {label: policies[label] for label in labels}
        return simulate(players, problem, horizon, runs, seed, threads, 1, progress, single_arms=single_arms)

    result, confirmation = played(policies, entropy), None
    final = {label: getattr(result, table)[label][:, -1] for label in policies}
    if np.isnan(final[AS_GIVEN]).any():
        raise ValueError(f"regret is {regret!r}, and {type(policy).__name__} has no estimate that prefers an arm")
    best = min(final, key=lambda label: (float(final[label].mean()), label != AS_GIVEN))
    if best != AS_GIVEN:
        confirmation = played((AS_GIVEN, best), SeedSequence(entropy, spawn_key=(CONFIRMATION,)))
        fresh = getattr(confirmation, table)
        difference, error = _paired(fresh[best][:, -1], fresh[AS_GIVEN][:, -1])
        best = best if difference < stdtrit(runs - 1, LEVEL) * error else AS_GIVEN
    return Tuning(
        policy=policies[best],
        parameters=variants[best],
        variants=variants,
        result=result,
        confirmation=confirmation,
        regret=regret,
        n_arms=problem.n_arms,
        n_features=problem.n_features,
    )


def _paired(one: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    """Mean difference over runs, and its standard error."""
    difference = one - other
    return float(difference.mean()), float(difference.std(ddof=1) / math.sqrt(difference.size))


def _variants(policy: Policy, grid: Any, n_features: int, horizon: int) -> dict[str, dict[str, Any]]:
    """The parameters of each variant, by its label; none of the policy as given."""
    accepted = [name for name in inspect.signature(type(policy).__init__).parameters if name not in SIZES]
    if grid is None:
        c = math.sqrt(n_features * math.log(max(horizon, 2)))
        usual = {"width_scale": [float(f"{share * c:.2g}") for share in SHARES], "ridge": list(RIDGES)}
        values = {name: given for name, given in usual.items() if name in accepted}
        if not values:
            name = type(policy).__name__
            raise ValueError(f"grid is None, and {name} has neither width_scale nor ridge; a grid is wanted")
    else:
        if not is_a(Mapping, grid):
            raise ValueError(f"grid is {brief(grid)}; a dict of parameters and their values is wanted")
        values = {name: _values(name, given, accepted) for name, given in entries("grid", grid, "a dict").items()}
        if not values:
            raise ValueError("grid is empty; at least one parameter is wanted")
    n_variants = math.prod(map(len, values.values()))
    if n_variants > MOST_VARIANTS:
        raise ValueError(f"grid has {n_variants:,} combinations; at most {MOST_VARIANTS:,} are wanted")
    found: dict[str, dict[str, Any]] = {AS_GIVEN: {}}
    given = policy.get_params()
    for combination in itertools.product(*values.values()):
        variant = dict(zip(values, combination, strict=True))
        if not all(_is_same(value, given[name]) for name, value in variant.items()):
            found[", ".join(f"{name}={value!r}" for name, value in variant.items())] = variant
    return found


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are equal, as far as they can say so: arrays cannot."""
    return one is other or looked_at(lambda value: bool(value == other), one, False)


def _variant(policy: Policy, label: str, given: dict[str, Any]) -> Policy:
    try:
        return type(policy)(**{**policy.get_params(), **given})
    except ValueError as error:
        raise ValueError(f"grid has {label}, which is refused: {error}") from None


def _values(name: Any, given: Any, accepted: Sequence[str]) -> list[Any]:
    if name not in accepted:
        raise ValueError(f"grid has the parameter {brief(name)}; one of {', '.join(accepted)} is wanted")
    values = None if isinstance(given, (str, bytes)) else looked_at(list, given)
    if not values:
        raise ValueError(f"grid[{name!r}] is {brief(given)}; a list of at least one value is wanted")
    return [value.item() if isinstance(value, np.generic) else value for value in values]
