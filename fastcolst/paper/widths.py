"""The scale of the widths, swept: rules at an equal start, each with the paper's c and with a c of its own.

Which rule is the better one is asked of paired runs alone. The c of its own is the one with the least mean regret in
the first half of the runs; the second half, which had no say in it, is what the verdicts rest on.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastcolst.paper.claims import HOLDS, OPEN, SCENARIOS, Claim, Entry, Verdict, below, judge
from fastcolst.paper.parts import SWEPT, SYMBOLS, WIDTH_RULES, WIDTH_SHARES, swept_label, width_of
from fastcolst.paper.tables import Table, mean_sd
from fastcolst.plotting import Panel, log_curves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fastcolst.paper.reproduction import Results

__all__ = ["Swept", "swept_regret", "width_panels", "width_tables", "width_verdicts"]

OWN, PAPERS = "its own c", "the paper's c"


class Swept(NamedTuple):
    """A rule in a scenario: shares of the paper's c, (k,), and the final regret with each, (k, runs)."""

    shares: NDArray[np.float64]
    regret: NDArray[np.float64]

    @property
    def first_runs(self) -> int:
        """How many runs choose."""
        return int(self.regret.shape[1]) // 2

    @property
    def own(self) -> int:
        """Index of the share that has the least mean regret in the first half of the runs."""
        if self.first_runs == 0:
            return self.papers
        return int(np.argmin(self.regret[:, : self.first_runs].mean(axis=1)))

    @property
    def papers(self) -> int:
        """Index of the share 1."""
        return int(np.flatnonzero(self.shares == 1.0)[0])


def swept_regret(results: Results) -> dict[tuple[str, str], Swept]:
    """The final regret of each rule with each share of c, by scenario and rule."""
    T = results.settings.horizon
    found = {}
    for scenario, rule in itertools.product(SCENARIOS, WIDTH_RULES):
        curves = results.curves(SWEPT, scenario, T)
        final = [curves[swept_label(rule, share)].average_regret[:, -1] for share in WIDTH_SHARES]
        found[scenario, rule] = Swept(np.array(WIDTH_SHARES), np.array(final))
    return found


def width_verdicts(results: Results) -> list[Verdict]:
    """Each rival against CoLSTIM, with the paper's c and with their own: one family."""
    regret: dict[Entry, NDArray[np.float64]] = {}
    claims = []
    swept = swept_regret(results)
    for (scenario, rule), found in swept.items():
        for of, which in ((PAPERS, found.papers), (OWN, found.own)):
            regret[Entry(SWEPT, scenario, f"{rule}, {of}")] = found.regret[which, found.first_runs :]
    for scenario, rule, of in itertools.product(SCENARIOS, WIDTH_RULES[1:], (PAPERS, OWN)):
        one, other = (Entry(SWEPT, scenario, f"{name}, {of}") for name in (rule, WIDTH_RULES[0]))
        claims.append(Claim(f"{rule} beats {WIDTH_RULES[0]}", "less regret", (below(one, other),), variant=of))
    return judge(claims, {"regret": regret})


def width_tables(results: Results) -> list[Table]:
    """The regret of each rule, and what paired runs say of it beside CoLSTIM."""
    s, swept = results.settings, swept_regret(results)
    half = min(found.regret.shape[1] - found.first_runs for found in swept.values())
    rows: list[tuple[str, ...]] = []
    for (scenario, rule), found in swept.items():
        papers, own = (found.regret[i, found.first_runs :] for i in (found.papers, found.own))
        c = f"{width_of(s, float(found.shares[found.own])):.3g}"
        rows.append((f"{rule}, {scenario}", mean_sd(papers, 1), c, mean_sd(own, 1)))
    text = (
        f"Cumulative average regret after {s.horizon:,} rounds, mean (standard deviation) over the second half of the "
        f"runs, {half}. All rules explore for n d rounds and learn by full maximum likelihood. The paper's c is "
        f"sqrt(d log T) = {width_of(s, 1.0):.3g}; a rule's own c had the least regret in the first half of the runs."
    )
    head = ("rule, scenario", f"regret, {PAPERS}", OWN, f"regret, {OWN}")
    verdicts = width_verdicts(results)
    about = (
        "Paired t-tests over the second half of the runs, which had no say in the choice of c; p-values are after "
        "Holm's correction over this table. Nothing else here says that a rule is better than another."
    )
    return [
        Table("width-scale-regret", "Rules with the paper's scale of the widths, and with their own", text, head, rows),
        Table("width-scale-verdicts", "Which rule is the better one", about, VERDICT_HEAD, _rows(verdicts)),
    ]


VERDICT_HEAD = ("scenario, c", "verdict", "ratio", "p", "runs")


def _rows(verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for v in verdicts:
        rival = v.bound.one.policy.partition(",")[0]
        said = {HOLDS: f"{rival} beats CoLSTIM", OPEN: f"not decided between {rival} and CoLSTIM"}
        outcome = said.get(v.outcome, f"CoLSTIM beats {rival}")
        ratio = f"{v.ratio:.3g} ({v.low:.3g} to {v.high:.3g})"
        rows.append((f"{v.bound.one.scenario}, {v.claim.variant}", outcome, ratio, f"{v.p_value:.1e}", str(v.runs)))
    return rows


def width_panels(results: Results) -> list[Panel]:
    """Regret against c, a panel for each scenario and a curve for each rule."""
    swept, s = swept_regret(results), results.settings
    panels = []
    for scenario in SCENARIOS:
        x = {rule: np.array([width_of(s, share) for share in WIDTH_SHARES]) for rule in WIDTH_RULES}
        y = {rule: swept[scenario, rule].regret.T for rule in WIDTH_RULES}
        title = f"{SYMBOLS[scenario]}({s.n_features}, {s.n_arms}, Gumbel)"
        name = f"{title}: cumulative average regret of {', '.join(WIDTH_RULES)} against c"
        panels.append(Panel(name, partial(_draw, x=x, y=y, title=title)))
    return panels


def _draw(ax: Any, *, x: Any, y: Any, title: str) -> None:
    log_curves(x, y, ax, title=title, xlabel="c", ylabel="Cumulative average regret")
