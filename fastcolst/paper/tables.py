"""The tables of the report: texts in columns, as Markdown and as comma-separated values."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastcolst.paper.claims import SCENARIOS, Entry, Verdict
from fastcolst.paper.parts import MODELS, NAMES, SYMBOLS, timed_cells
from fastcolst.paper.timings import seconds_of
from fastcolst.paper.verdicts import by_what_decides, projected_verdicts, verdicts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fastcolst.paper.reproduction import Results

__all__ = ["Table", "claims_tables", "cost_tables", "horizons_table", "mean_sd", "regret_table", "time_table"]

PAPER_TABLE_1 = {
    "Random": ("0.19 (0.02)", "0.18 (0.01)", "0.18 (0.01)", "0.19 (0.02)", "0.18 (0.02)", "0.18 (0.02)"),
    "MaxInP": ("164.58 (6.58)", "155.54 (4.92)", "155.51 (3.49)", "159.33 (6.00)", "157.70 (8.54)", "156.56 (7.48)"),
    "CoLSTIM": ("7.44 (0.51)", "7.08 (0.41)", "6.98 (0.17)", "7.09 (0.38)", "7.05 (0.51)", "7.03 (0.48)"),
    "SS": ("9.92 (0.66)", "9.43 (0.56)", "9.39 (0.22)", "9.49 (0.50)", "9.47 (0.67)", "9.47 (0.60)"),
    "DTS": ("52.01 (2.63)", "49.73 (2.04)", "50.15 (1.08)", "50.94 (2.45)", "50.19 (2.99)", "49.93 (2.69)"),
}
PAPER_TABLE_2 = {
    "MaxInP": "158.00 (4.04)",
    "MaxInP-MLE": "910.13 (113.99)",
    "CoLSTIM": "7.01 (0.15)",
    "CoLSTIM-MLE": "747.04 (113.63)",
}
CLAIMS_HEAD = ("claim", "verdict", "shown when", "ratio of", "ratio", "effect", "p", "runs")


@dataclass(frozen=True)
class Table:
    """A table with a name, a title, a caption, and texts in columns."""

    name: str
    title: str
    caption: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def to_markdown(self) -> str:
        """As Markdown: the first column to the left, the others to the right."""
        rule = ["---", *(["--:"] * (len(self.head) - 1))]
        rows = [[text.replace("|", "\\|") for text in row] for row in self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in (self.head, rule, *rows))

    def to_csv(self) -> str:
        """As comma-separated values."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.head, *self.rows])
        return text.getvalue()


def cost_tables(results: Results) -> list[Table]:
    """The paper's tables 1 and 2, as far as they were timed."""
    s = results.settings
    runs = min(s.runs, s.timed_runs)
    about = (
        f"Seconds for {s.horizon:,} rounds, mean (standard deviation) over {runs} runs on one thread. Choosing and "
        "learning are timed call by call through the policy object: they include what a call from Python costs, a "
        "few microseconds a round and the same for all. The fused loop has no such calls; there choosing and "
        "learning are one. The paper's seconds are for a horizon it does not state: compare ratios."
    )
    tables = []
    cells = timed_cells("table1", s)
    if "table1" in results.targets:
        head = ("seconds", *(f"{SYMBOLS[scenario]}, {NAMES[problem]}" for problem, scenario, _ in cells.values()))
        rows = [
            (f"{label}, {what}", *(mean_sd(seconds_of(results.timings[name], label, column)) for name in cells))
            for what, column in (("choosing", "choosing"), ("learning", "learning"), ("fused, both", "fused"))
            for label in PAPER_TABLE_1
        ]
        rows += [(f"{label}, paper", *numbers) for label, numbers in PAPER_TABLE_1.items()]
        tables.append(Table("table1", "Table 1: seconds for choosing", about, head, rows))
    if "table2" in results.targets:
        (timing,) = (results.timings[name] for name in timed_cells("table2", s))
        rows = []
        for label, paper in PAPER_TABLE_2.items():
            by_kind = {kind: seconds_of(timing, label, kind) for kind in ("choosing", "learning", "fused")}
            both = by_kind["choosing"] + by_kind["learning"]
            numbers = (by_kind["choosing"], by_kind["learning"], both, by_kind["fused"])
            rows.append((label if "MLE" in label else f"{label}-SGD", *map(mean_sd, numbers), paper))
        head = ("seconds", "choosing", "learning", "both", "fused, both", "paper")
        title = "Table 2: SGD against full maximum likelihood, easy, Gumbel"
        tables.append(Table("table2", title, about, head, rows))
    return tables


def regret_table(results: Results) -> Table:
    """Regret at the end of every cell of the paper's figures."""
    s = results.settings
    rows = []
    for horizon in s.horizons:
        finals = results.final_regret(horizon)
        keys = dict.fromkeys((cell.problem, cell.policy) for cell in finals if cell.problem in MODELS)
        for problem, policy in keys:
            numbers = [finals.get(Entry(problem, scenario, policy)) for scenario in SCENARIOS]
            texts = ["" if y is None else mean_sd(y, 1) for y in numbers]
            rows.append((f"{policy}, {NAMES[problem]}", f"{horizon:,}", *texts))
    text = f"Cumulative average regret after T rounds, mean (standard deviation) over {s.runs} runs."
    return Table("regret", "Regret in numbers", text, ("policy, problem", "T", *SCENARIOS), rows)


def mean_sd(numbers: NDArray[np.float64], digits: int = 3) -> str:
    """Mean and, in brackets, standard deviation."""
    deviation = f"{numbers.std(ddof=1):,.{digits}f}" if numbers.size > 1 else "-"
    return f"{numbers.mean():,.{digits}f} ({deviation})"


def claims_tables(found: Sequence[Verdict]) -> list[Table]:
    """Verdicts with what they rest on: on regret, and apart from them on seconds."""
    text = (
        "Each claim is judged by paired t-tests over runs that share contexts and luck; a claim of several parts "
        "holds if all of them are shown, and does not hold if the opposite of one is. 'Like' and 'about as good' "
        "are two one-sided tests with the margin stated. The ratio of means (Fieller's 95 % interval) and the "
        "effect (mean over standard deviation of the paired contrast, positive in favour) are those of the part "
        "that decides; the p-value is after Holm's correction over both sides of all claims of this table, so the "
        "chance that any of its verdicts is wrong is at most 5 %."
    )
    on_regret, on_seconds = by_what_decides(found)
    tables = []
    if on_regret:
        tables.append(Table("claims", "The paper's claims about regret", text, CLAIMS_HEAD, _claim_rows(on_regret)))
    if on_seconds:
        text = (
            "Judged in the same way, as a family of their own, on the seconds of this machine and this run: another "
            "machine, or a busy one, may decide otherwise."
        )
        title = "The paper's claims about seconds"
        tables.append(Table("claims-on-seconds", title, text, CLAIMS_HEAD, _claim_rows(on_seconds)))
    return tables


def _claim_rows(found: Sequence[Verdict]) -> list[tuple[str, ...]]:
    return [
        (
            f"{v.claim.text} [{v.claim.variant}]" if v.claim.variant else v.claim.text,
            v.outcome,
            v.claim.criterion,
            _ratio_text(v),
            f"{v.ratio:.3g} ({v.low:.3g} to {v.high:.3g})",
            f"{v.effect:+.2f}",
            f"{v.p_value:.1e}",
            str(v.runs),
        )
        for v in found
    ]


def horizons_table(results: Results) -> Table:
    """Verdicts on the first figure at every horizon."""
    horizons = results.settings.horizons
    columns = [verdicts(results, horizon) for horizon in horizons]
    projected = {v.claim.text: v for v in projected_verdicts(results)}
    rows = []
    for row in zip(*columns, strict=True):
        cells = [*row, projected.get(row[0].claim.text)]
        rows.append((row[0].claim.text, *("" if v is None else f"{v.outcome}, ratio {v.ratio:.3g}" for v in cells)))
    text = (
        "The paper states no horizon. Each column is a study of its own, whose policies are told that T: the constants "
        "depend on it, so the first rounds of a long run are not a short run. SGD(0.5); in the last column every step "
        "is projected onto the unit ball. One family of tests a column; ratios are those of the part that decides."
    )
    head = ("claim", *(f"T = {T:,}" for T in horizons), f"T = {horizons[-1]:,}, |theta| <= 1")
    title = "The first figure's claims by horizon, and with projection"
    return Table("claims-by-horizon", title, text, head, rows)


def _ratio_text(verdict: Verdict) -> str:
    one, other = verdict.bound.one, verdict.bound.other
    what = {"regret": "", "spread": "spread of ", "choosing": "seconds of ", "fused": "seconds of "}[verdict.claim.of]
    return f"{what}{one.policy} to {other.policy}, {one.scenario}, {NAMES[one.problem]}"


def time_table(results: Results) -> Table:
    """Where the time went: what computing each part took, and the policies' share of it."""
    rows = []
    for name, wall in sorted(results.walls.items(), key=lambda item: -item[1]):
        share = ""
        if name in results.seconds:
            frame = results.seconds[name].groupby("policy", sort=False)["seconds"].sum().sort_values(ascending=False)
            share = ", ".join(f"{policy} {seconds:.1f}" for policy, seconds in frame.items())
        rows.append((name, f"{wall:.1f}", share))
    total = sum(results.walls.values())
    text = f"Seconds of each part; {total:.0f} in all. Beside it the policies' own processor seconds, over all threads."
    return Table("time", "Where the time went", text, ("part", "seconds", "policies, processor seconds"), rows)
