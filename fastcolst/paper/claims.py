"""What the paper claims about its experiments, and whether data bear it out.

A claim is a conjunction of bounds on ratios of means,

    mean(one) < limit * mean(other)        or        mean(one) > limit * mean(other),

over runs that share their contexts and their luck. Each bound is a paired t-test of the contrast limit * other - one
(or its opposite), which needs no ratio run by run: the hard runs, whose regret is larger, weigh as they do in the
paper's curves. "Like" and "about as good" are two bounds, 1/f < ratio < f: two one-sided tests with a stated margin.

A claim holds when all its bounds are shown (the largest p-value counts) and does not hold when the opposite of one of
them is shown (the smallest, times their number). Both p-values of every claim go through Holm's correction together,
so the chance that any verdict of a family is wrong is at most ``LEVEL``; what neither side shows is not decided. Claims
about regret are one family, which the seed repeats on every machine; claims about seconds are another, or the machine
would have a say in the verdicts on regret.

References
----------
Bengs, Saha, Huellermeier (2022), sections 4.1 and 4.2 and the appendix "SGD vs. Full Maximum-Likelihood-Estimation".
Holm (1979), A simple sequentially rejective multiple test procedure. Schuirmann (1987) for two one-sided tests.
Fieller (1954) for the interval of a ratio.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from scipy.special import stdtr, stdtrit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["HOLDS", "OPEN", "REFUTED", "Bound", "Claim", "Entry", "Verdict", "above", "below", "holm", "judge"]

HOLDS, REFUTED, OPEN = "holds", "does not hold", "not decided"
LEVEL = 0.05
"""Chance that any verdict of one family is wrong, for data to which a t-test applies."""
CLOCKS = ("choosing", "fused")
"""What is compared in seconds."""


class Entry(NamedTuple):
    """Whose numbers: a problem's name, a scenario's and a policy's label."""

    problem: str
    scenario: str
    policy: str


Tables: TypeAlias = "Mapping[str, Mapping[Entry, ArrayLike]]"


class Bound(NamedTuple):
    """The mean of ``one`` is below (or above) ``limit`` times the mean of ``other``."""

    one: Entry
    other: Entry
    limit: float
    is_below: bool


def below(one: Entry, other: Entry, limit: float = 1.0) -> Bound:
    """The bound mean(one) < limit * mean(other)."""
    return Bound(one, other, limit, True)


def above(one: Entry, other: Entry, limit: float = 1.0) -> Bound:
    """The bound mean(one) > limit * mean(other)."""
    return Bound(one, other, limit, False)


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper in numbers.

    Parameters
    ----------
    text : str
        What is claimed.
    criterion : str
        What must be shown, in words, margins included.
    bounds : tuple of Bound
        The same as formulas; all of them.
    of : "regret", "spread", "choosing" or "fused"
        What is compared: the final regret, its distance from the median over the runs, the seconds for choosing, or
        those of the fused loop, in which choosing and learning are one.
    variant : str
        Under which estimator, where a claim is judged under several.
    """

    text: str
    criterion: str
    bounds: tuple[Bound, ...]
    of: str = "regret"
    variant: str = ""

    @property
    def is_on_seconds(self) -> bool:
        """Whether the machine decides: seconds never repeat, regret does."""
        return self.of in CLOCKS


@dataclass(frozen=True)
class Verdict:
    """What data say about a claim.

    Parameters
    ----------
    claim : Claim
    outcome : str
        "holds", "does not hold" or "not decided".
    p_value : float
        Of the side that the outcome is on (of the nearer side where nothing is decided), after Holm's correction.
    bound : Bound
        The bound that decided: the weakest where the claim holds, the most contradicted where it does not.
    ratio, low, high : float
        That bound's mean(one) / mean(other), and Fieller's 95 % interval (without correction).
    effect : float
        Mean of that bound's contrast in units of its standard deviation over runs (Cohen's d_z); positive when the
        bound is met.
    runs : int
        Pairs of runs behind it.
    """

    claim: Claim
    outcome: str
    p_value: float
    bound: Bound
    ratio: float
    low: float
    high: float
    effect: float
    runs: int


def judge(claims: Iterable[Claim], tables: Tables, level: float = LEVEL) -> list[Verdict]:
    """Judge those claims whose cells are all there.

    Parameters
    ----------
    claims : iterable of Claim
        One family: Holm's correction spans them.
    tables : dict of "regret", "choosing" and "fused" to dict of Entry to (runs,) array_like
        One number for each run, in the order of the runs; where a cell has more runs than another, those that both
        have are compared. Runs that are nan are left out.
    level : float
        Chance that any verdict is wrong.

    Returns
    -------
    list of Verdict
        In the order of the claims.

    Examples
    --------
    >>> from fastcolst.paper.claims import Entry, Claim, below, judge
    >>> mine, theirs = Entry("gumbel", "easy", "Mine"), Entry("gumbel", "easy", "Theirs")
    >>> claim = Claim("mine is better", "a ratio below 1", (below(mine, theirs),))
    >>> regret = {mine: [1.0, 2.0, 3.0, 4.0], theirs: [2.1, 2.9, 4.1, 5.0]}
    >>> judge([claim], {"regret": regret})[0].outcome
    'holds'
    """
    judged = [(claim, _evidence(claim, tables)) for claim in claims if _is_covered(claim, tables)]
    adjusted = holm([p for _, evidence in judged for p in (evidence.p_holds, evidence.p_refuted)])
    return [
        _verdict(claim, evidence, adjusted[2 * i], adjusted[2 * i + 1], level)
        for i, (claim, evidence) in enumerate(judged)
    ]


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values so that rejecting those at most alpha errs at all with probability at most alpha.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(2)
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.minimum(1.0, p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted


class _Test(NamedTuple):
    """A bound's numbers."""

    bound: Bound
    p_met: float
    p_broken: float
    effect: float
    one: NDArray[np.float64]
    other: NDArray[np.float64]


class _Evidence(NamedTuple):
    p_holds: float
    p_refuted: float
    weakest: _Test
    most_contradicted: _Test


def _is_covered(claim: Claim, tables: Tables) -> bool:
    source = tables.get("regret" if claim.of == "spread" else claim.of, {})
    return all(cell in source for bound in claim.bounds for cell in (bound.one, bound.other))


def _evidence(claim: Claim, tables: Tables) -> _Evidence:
    tests = [_test(bound, claim.of, tables) for bound in claim.bounds]
    weakest = max(tests, key=lambda test: test.p_met)
    most_contradicted = min(tests, key=lambda test: test.p_broken)
    return _Evidence(weakest.p_met, min(1.0, len(tests) * most_contradicted.p_broken), weakest, most_contradicted)


def _test(bound: Bound, of: str, tables: Tables) -> _Test:
    table = tables["regret" if of == "spread" else of]
    one, other = (np.asarray(table[cell], dtype=np.float64) for cell in (bound.one, bound.other))
    both = np.stack([one[: other.size], other[: one.size]])
    one, other = both[:, np.isfinite(both).all(axis=0)]
    if of == "spread":  # Brown and Forsythe's distances: their means compare spreads, robustly
        one, other = (np.abs(numbers - np.median(numbers)) if numbers.size else numbers for numbers in (one, other))
    contrast = (bound.limit * other - one) * (1.0 if bound.is_below else -1.0)
    t, effect = _t_statistic(contrast)
    # with fewer than two runs nothing can be shown
    p_met, p_broken = (1.0, 1.0) if contrast.size < 2 else (float(stdtr(contrast.size - 1, s * t)) for s in (-1.0, 1.0))
    return _Test(bound, p_met, p_broken, effect, one, other)


def _t_statistic(contrast: NDArray[np.float64]) -> tuple[float, float]:
    """The t statistic of a mean against 0, and Cohen's d."""
    if contrast.size < 2:
        return 0.0, math.nan
    mean, deviation = float(contrast.mean()), float(contrast.std(ddof=1))
    if deviation == 0.0:
        effect = math.copysign(math.inf, mean) if mean != 0.0 else 0.0
        return effect, effect
    return mean / deviation * math.sqrt(contrast.size), mean / deviation


def _verdict(claim: Claim, evidence: _Evidence, p_holds: float, p_refuted: float, level: float) -> Verdict:
    # Both at once would take p-values of at most `level` on both sides of one bound.
    outcome = HOLDS if p_holds <= level else REFUTED if p_refuted <= level else OPEN
    refuting = outcome == REFUTED or (outcome == OPEN and p_refuted < p_holds)
    test = evidence.most_contradicted if refuting else evidence.weakest
    low, high = fieller(test.one, test.other)
    return Verdict(
        claim=claim,
        outcome=outcome,
        p_value=float(p_refuted if refuting else p_holds),
        bound=test.bound,
        ratio=float(test.one.mean() / test.other.mean()) if test.other.any() else math.nan,
        low=low,
        high=high,
        effect=test.effect,
        runs=test.one.size,
    )


def fieller(one: NDArray[np.float64], other: NDArray[np.float64], level: float = 0.95) -> tuple[float, float]:
    """Interval of mean(one) / mean(other) over pairs: those r for which one - r * other could have mean 0.

    Returns
    -------
    (low, high)
        Infinite where the mean of ``other`` cannot be told from 0 or fewer than two pairs are there.
    """
    n = one.size
    if n < 2:
        return -math.inf, math.inf
    covariance = np.cov(one, other)
    k = float(stdtrit(n - 1, 0.5 + 0.5 * level)) ** 2 / n
    a = float(other.mean() ** 2 - k * covariance[1, 1])
    b = float(one.mean() * other.mean() - k * covariance[0, 1])
    c = float(one.mean() ** 2 - k * covariance[0, 0])
    if a <= 0.0:
        return -math.inf, math.inf
    root = math.sqrt(max(b * b - a * c, 0.0))
    return (b - root) / a, (b + root) / a


# --- the paper's claims -------------------------------------------------------------------------------------

RIVALS = ("Random", "MaxInP", "SS", "DTS")
SCENARIOS = ("easy", "medium", "hard")
FIGURE_1 = {"gumbel": "Gumbel", "gaussian": "Gaussian"}
"""The problems of the paper's first figure."""

LIKE = 1.05
"""'Hardly distinguishable': within this factor, either way."""
ABOUT = 1.2
"""'About as good': within this factor, either way."""
SLIGHTLY = 0.75
"""'Only slightly better': below 1 times the other's regret, above this times it."""
SAME_COST = 2.0
"""'Competitive': seconds within this factor, either way."""
TIMES = 20.0
"""How many times MaxInP's choosing costs CoLSTIM's, within ``SAME_COST`` (Table 1: 155 to 165 s, 7.0 to 7.4 s)."""


def contextual_claims(colstim: str = "CoLSTIM", maxinp: str = "MaxInP", variant: str = "") -> list[Claim]:
    """What section 4.1 says of the first figure, for these two labels of the policies that learn from contexts."""
    cells = list(itertools.product(FIGURE_1, SCENARIOS))
    rivals = [maxinp if name == "MaxInP" else name for name in RIVALS]
    best = [
        Claim(
            f"CoLSTIM is best: {scenario}, {FIGURE_1[problem]}",
            "less regret than each of the other four",
            _best(problem, (scenario,), colstim, rivals),
            variant=variant,
        )
        for problem, scenario in cells
    ]
    slightly = Claim(
        "MaxInP is only slightly better than Random",
        f"in all six cells between {SLIGHTLY:g} and 1 times Random's regret",
        tuple(
            make(Entry(problem, scenario, maxinp), Entry(problem, scenario, "Random"), limit)
            for problem, scenario in cells
            for make, limit in ((below, 1.0), (above, SLIGHTLY))
        ),
        variant=variant,
    )
    return [*best, slightly]


def index_only_claims() -> list[Claim]:
    """What section 4.1 says of the policies that do not look at contexts."""
    return [
        Claim(
            f"{name} is like Random",
            f"in all six cells within a factor of {LIKE:g} of Random's regret",
            tuple(
                bound
                for problem, scenario in itertools.product(FIGURE_1, SCENARIOS)
                for bound in _within(LIKE, Entry(problem, scenario, name), Entry(problem, scenario, "Random"))
            ),
        )
        for name in ("DTS", "SS")
    ]


def cost_claims() -> list[Claim]:
    """What section 4.1 says of the seconds for choosing (table 1)."""
    cells = list(itertools.product(FIGURE_1, SCENARIOS))
    clocks = {"choosing": "policy objects", "fused": "fused loop, learning included"}
    return [claim for clock, variant in clocks.items() for claim in _cost_claims(cells, clock, variant)]


def _cost_claims(cells: Sequence[tuple[str, str]], clock: str, variant: str) -> list[Claim]:
    return [
        Claim(
            "choosing costs CoLSTIM about what it costs SS",
            f"in all six cells within a factor of {SAME_COST:g}",
            tuple(b for p, s in cells for b in _within(SAME_COST, Entry(p, s, "CoLSTIM"), Entry(p, s, "SS"))),
            of=clock,
            variant=variant,
        ),
        Claim(
            f"choosing costs MaxInP about {TIMES:g} times what it costs CoLSTIM",
            f"in all six cells {TIMES / SAME_COST:g} to {TIMES * SAME_COST:g} times",
            tuple(
                make(Entry(p, s, "MaxInP"), Entry(p, s, "CoLSTIM"), limit)
                for p, s in cells
                for make, limit in ((below, TIMES * SAME_COST), (above, TIMES / SAME_COST))
            ),
            of=clock,
            variant=variant,
        ),
    ]


def estimator_claims() -> list[Claim]:
    """What the appendix says of stochastic gradients and full maximum likelihood: easy, Gumbel."""
    sgd, mle = (Entry("gumbel", "easy", label) for label in ("CoLSTIM", "CoLSTIM-MLE"))
    claims = [
        Claim(
            f"SGD is about as good as full MLE for {name}",
            f"regret within a factor of {ABOUT:g}",
            _within(ABOUT, Entry("gumbel", "easy", name), Entry("gumbel", "easy", f"{name}-MLE")),
        )
        for name in ("CoLSTIM", "MaxInP")
    ]
    spread = Claim(
        "full MLE has the smaller spread for CoLSTIM",
        "a smaller mean distance from the median over runs",
        (below(mle, sgd),),
        of="spread",
    )
    return [*claims, spread]


def misspecification_claims() -> list[Claim]:
    """What section 4.2 says of CoLSTIM with a wrong perturbation distribution."""
    wrong_g, wrong_variance = "CoLSTIM, normal G", "CoLSTIM"
    return [
        Claim(
            "robust to the wrong G: still best",
            "G normal, G* Gumbel: less regret than each of the other four in easy, medium and hard",
            _best("gumbel", SCENARIOS, wrong_g, RIVALS),
        ),
        Claim(
            "robust to the wrong G: a similar picture",
            f"G normal, G* Gumbel: within a factor of {ABOUT:g} of CoLSTIM with G = G* in easy, medium and hard",
            tuple(
                b for s in SCENARIOS for b in _within(ABOUT, Entry("gumbel", s, wrong_g), Entry("gumbel", s, "CoLSTIM"))
            ),
        ),
        Claim(
            "robust to variance 5: still best",
            "G* of variance 5, G of variance 1: less regret than each of the other four in easy, medium and hard",
            _best("gaussian5", SCENARIOS, wrong_variance, RIVALS),
        ),
        Claim(
            "robust to variance 5: only slightly worse",
            f"at most 1 / {SLIGHTLY:g} times the regret of CoLSTIM with G = G* in easy, medium and hard",
            tuple(
                below(Entry("gaussian5", s, wrong_variance), Entry("gaussian5", s, "CoLSTIM, own G"), 1.0 / SLIGHTLY)
                for s in SCENARIOS
            ),
        ),
    ]


def _best(problem: str, scenarios: Sequence[str], policy: str, rivals: Sequence[str]) -> tuple[Bound, ...]:
    return tuple(below(Entry(problem, s, policy), Entry(problem, s, rival)) for s in scenarios for rival in rivals)


def _within(factor: float, one: Entry, other: Entry) -> tuple[Bound, Bound]:
    return below(one, other, factor), above(one, other, 1.0 / factor)
