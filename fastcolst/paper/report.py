"""The report of a study: pictures, tables, and one HTML page that needs nothing but itself.

Pictures stand in the page as data, styles inside; there is no script and nothing to fetch. Each panel is a picture of
its own there, so that they stand side by side on a wide screen and below one another on a narrow one; the files in
``figures`` keep the arrangement of the paper.
"""

from __future__ import annotations

import base64
import csv
import html
import io
import itertools
import math
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastcolst._files import write_atomically
from fastcolst.experiments.studies import load_study
from fastcolst.paper.claims import (
    FIGURE_1,
    HOLDS,
    OPEN,
    REFUTED,
    SCENARIOS,
    Claim,
    Entry,
    Verdict,
    contextual_claims,
    cost_claims,
    estimator_claims,
    index_only_claims,
    judge,
    misspecification_claims,
)
from fastcolst.paper.reproduction import (
    CUBE_RUNS,
    MANIFEST,
    MODELS,
    SWEEP_RUNS,
    Curve,
    Results,
    Settings,
    cube_points,
    curves_of,
    load_results,
    seconds_of,
    sweep_points,
    timed_cells,
)
from fastcolst.plotting import Panel, log_curves, panels_figure, picture_bytes, regret_curves

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Picture", "Table", "outcome", "pictures", "verdicts", "write_report"]

STYLES = {
    name: number
    for number, names in enumerate(
        (
            ("CoLSTIM",),
            ("MaxInP",),
            ("Random",),
            ("SS",),
            ("DTS",),
            ("MaxInP, own link", "MaxInP, projected", "MaxInP-MLE"),
            ("CoLSTIM, own G", "CoLSTIM, projected", "CoLSTIM-MLE", "CoLSTIM, normal G"),
        )
    )
    for name in names
}
"""A policy has one colour and line in all pictures."""

SYMBOLS = {"easy": "E", "medium": "M", "hard": "H"}
PROJECTED = "SGD(0.5), |theta| <= 1"
NAMES = {**FIGURE_1, "gaussian5": "Gaussian of variance 5"}
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


class Picture(NamedTuple):
    """Panels that belong together, and what is to be said of them."""

    name: str
    title: str
    caption: str
    panels: list[Panel]
    columns: int = 3


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


def write_report(out: str | os.PathLike[str], found: Sequence[Verdict] | None = None) -> Path:
    """Make pictures, tables and ``report.html`` from a folder that holds a reproduction or a study of one's own.

    Parameters
    ----------
    out : path
        What :func:`fastcolst.paper.reproduction.reproduce` or ``Study.run`` wrote to. Older pictures and tables of the
        same names are replaced.
    found : list of Verdict, optional
        What :func:`verdicts` says of the reproduction, where that is known already.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    OSError
        The folder is not there, holds no study, or cannot be written.
    """
    folder = Path(out)
    if (folder / MANIFEST).exists():
        results = load_results(folder)
        page = _reproduction_page(results, verdicts(results) if found is None else found)
    else:
        page = _study_page(load_study(folder), folder.resolve().name)
    for picture in page.pictures:
        _write_picture(picture, folder / "figures")
    for table in page.tables:
        _write_text(folder / "tables" / f"{table.name}.md", table.to_markdown())
        _write_text(folder / "tables" / f"{table.name}.csv", table.to_csv())
    path = folder / "report.html"
    _write_text(path, page.to_html())
    return path


# --- what the paper shows -----------------------------------------------------------------------------------


def pictures(results: Results) -> list[Picture]:
    """The pictures for which data are there, in the order of the paper."""
    T = results.settings.horizon
    made: list[Picture] = []
    if "figure1" in results.targets:
        for horizon in reversed(results.settings.horizons):
            name = "figure1" if horizon == T else f"figure1-{horizon}"
            text = (
                "Mean of the cumulative average regret over the runs; bands are one standard deviation. "
                f"CoLSTIM and MaxInP learn with SGD(0.5) and are told T = {horizon:,}. MaxInP has the logistic link."
            )
            panels = _grid(results, FIGURE_1, horizon, ("Random", "MaxInP", "CoLSTIM", "SS", "DTS"))
            made.append(Picture(name, f"Figure 1: all methods, T = {horizon:,}", text, panels))
        text = (
            "The same with each step of SGD(0.5) projected onto the unit ball, |theta| <= 1, beside it. In the hard "
            "scenario the true parameter lies outside that ball. The paper does not say which it used."
        )
        shown = ("Random", "MaxInP", "MaxInP, projected", "CoLSTIM", "CoLSTIM, projected")
        made.append(
            Picture("figure1-projection", "With and without projection", text, _grid(results, FIGURE_1, T, shown))
        )
    if "misspecification" in results.targets:
        top = ("Random", "MaxInP", "CoLSTIM, normal G", "CoLSTIM", "SS", "DTS")
        bottom = ("Random", "MaxInP", "MaxInP, own link", "CoLSTIM", "CoLSTIM, own G", "SS", "DTS")
        text = (
            "Top: answers by Gumbel noise; CoLSTIM has a normal G, and beside it the right one. MaxInP's logistic link "
            "is the right one here. Bottom: answers by normal noise of variance 5; CoLSTIM has variance 1, and beside "
            "it the right one; MaxInP has the logistic link, and beside it that of G*. CoLSTIM's G shapes both its "
            "noise and the link it learns by. CoLSTIM and MaxInP learn with SGD(0.5)."
        )
        panels = [*_grid(results, ("gumbel",), T, top), *_grid(results, ("gaussian5",), T, bottom)]
        made.append(Picture("misspecification", "Figure 2: a wrong perturbation distribution", text, panels))
    if "sgd-vs-mle" in results.targets:
        both = ("MaxInP", "MaxInP-MLE", "CoLSTIM", "CoLSTIM-MLE")
        text = "CoLSTIM and MaxInP learn with SGD(0.5), CoLSTIM-MLE and MaxInP-MLE by full maximum likelihood."
        panel = _regret_panel(results, "gumbel", "easy", T, both)
        made.append(Picture("sgd-vs-mle", "Figure 3: SGD against full maximum likelihood", text, [panel], 1))
    if "lower-bound" in results.targets:
        made.append(_lower_bound_picture(results))
    if "sweep" in results.targets:
        made.append(_sweep_picture(results))
    return made


def verdicts(results: Results, horizon: int | None = None) -> list[Verdict]:
    """The paper's claims as far as data are there: those about regret judged as one family, then those about seconds.

    Parameters
    ----------
    results : Results
    horizon : int, optional
        Which runs of the first figure; None: the settings' own, with all other claims.
    """
    claims = [*contextual_claims(variant="SGD(0.5)"), *index_only_claims()]
    if horizon is not None:
        return judge(claims, {"regret": results.final_regret(horizon)})
    others = [*estimator_claims(), *misspecification_claims()]
    tables = _tables(results)
    return [*judge([*claims, *_projected_claims(), *others], tables), *judge(cost_claims(), tables)]


def _projected_claims() -> list[Claim]:
    return contextual_claims("CoLSTIM, projected", "MaxInP, projected", PROJECTED)


def _tables(results: Results) -> dict[str, dict[Entry, NDArray[np.float64]]]:
    seconds = {"choosing": results.choosing("choosing"), "fused": results.choosing("fused")}
    return {"regret": results.final_regret(results.settings.horizon), **seconds}


def _grid(results: Results, problems: Iterable[str], horizon: int, labels: Sequence[str]) -> list[Panel]:
    return [
        _regret_panel(results, problem, scenario, horizon, labels)
        for problem, scenario in itertools.product(problems, SCENARIOS)
    ]


def _regret_panel(results: Results, problem: str, scenario: str, horizon: int, labels: Sequence[str]) -> Panel:
    n, d = results.settings.n_arms, results.settings.n_features
    title = f"{SYMBOLS[scenario]}({d}, {n}, {NAMES[problem]})"
    curves = results.curves(problem, scenario, horizon)
    shown = {label: curves[label] for label in labels if label in curves}
    draw = partial(_draw_regret, shown, title)
    return Panel(f"{title}, T = {horizon:,}: cumulative average regret of {', '.join(shown)}", draw)


def _draw_regret(curves: Mapping[str, Curve], title: str, ax: Any) -> None:
    styles = STYLES if all(label in STYLES for label in curves) else None
    rounds = next(iter(curves.values())).rounds
    regret = {label: curve.average_regret for label, curve in curves.items()}
    regret_curves(rounds, regret, ax, title=title, styles=styles)


def _lower_bound_picture(results: Results) -> Picture:
    points = cube_points(results.settings)
    panels = []
    for ball, unit in (("max", "d sqrt(T)"), ("euclidean", "sqrt(d T)")):
        for policy in ("CoLSTIM-MLE", "MaxInP-MLE", "Random"):
            x: dict[str, list[float]] = {}
            y: dict[str, list[NDArray[np.float64]]] = {}
            for label, (where, d, T) in points.items():
                if where == ball:
                    rate = d * math.sqrt(T) if ball == "max" else math.sqrt(d * T)
                    x.setdefault(f"d = {d}", []).append(T)
                    y.setdefault(f"d = {d}", []).append(
                        results.curves("cube", label, T)[policy].weak_regret[:, -1] / rate
                    )
            title = f"{policy}, {'max' if ball == 'max' else 'Euclidean'} unit ball"
            name = f"{title}: weak regret divided by {unit}, against T"
            panels.append(
                Panel(name, partial(_draw_log, x=x, y=y, title=title, xlabel="T", ylabel=f"Weak regret / ({unit})"))
            )
    runs = min(results.settings.runs, CUBE_RUNS)
    text = (
        f"Weak regret after T rounds on the instances of the proof, divided by the rate of the bound; mean of {runs} "
        "runs, bars are standard errors. Every T is a problem of its own: theta on {-1/sqrt(T), 1/sqrt(T)}^d afresh "
        "each run, the arms all corners of the cube. The theorem says that no policy's curve falls to 0; its "
        "constant is e^-12 / 8 = 7.7e-7. As the differences between arms shrink like 1/sqrt(T), Random keeps the "
        "rate too."
    )
    return Picture("lower-bound", "The lower bound of the weak regret (Theorem 3.1)", text, panels)


def _sweep_picture(results: Results) -> Picture:
    s = results.settings
    points = sweep_points(s)
    base = (s.n_arms, s.n_features, s.horizon)
    (frame,) = (results.seconds[part.name] for part in results.parts if part.problem == "sweep")
    seconds = {key: rows["seconds"].to_numpy(np.float64) for key, rows in frame.groupby(["scenario", "policy"])}
    panels: list[Panel] = []
    for axis, name in enumerate("ndT"):
        varied = sorted(
            (point[axis], label)
            for label, point in points.items()
            if all(point[k] == base[k] for k in range(3) if k != axis)
        )
        fixed = ", ".join(f"{k} = {v:,}" for k, v in zip("ndT", base, strict=True) if k != name)
        regret: dict[str, list[NDArray[np.float64]]] = {}
        time: dict[str, list[NDArray[np.float64]]] = {}
        for policy in ("Random", "CoLSTIM", "CoLSTIM-MLE"):
            for _, label in varied:
                T = points[label][2]
                curve = results.curves("sweep", label, T)[policy]
                regret.setdefault(policy, []).append(curve.average_regret[:, -1])
                time.setdefault(policy, []).append(seconds[label, policy] / T * 1e6)
        x = {policy: [value for value, _ in varied] for policy in regret}
        for i, (y, ylabel) in enumerate(((regret, "Cumulative average regret"), (time, "Microseconds a round"))):
            draw = partial(_draw_log, x=x, y=y, title=fixed, xlabel=name, ylabel=ylabel, fitted=True)
            panels.insert(axis + i * (axis + 1), Panel(f"{ylabel} against {name}, {fixed}", draw))
    text = (
        f"Scenario medium, Gumbel, mean of {min(s.runs, SWEEP_RUNS)} runs; bars are standard errors, lines are power "
        "laws fitted to the means. Top: cumulative average regret. Bottom: microseconds a round in the fused loop. "
        "CoLSTIM learns with SGD(0.5), CoLSTIM-MLE by full maximum likelihood. The first n d rounds explore, which "
        "counts at small T and at large n or d; the norm of theta is between 1/sqrt(d) and 1."
    )
    return Picture("sweep", "Scaling in n, d and T", text, panels)


def _draw_log(ax: Any, *, x: Any, y: Any, fitted: bool = False, **texts: str) -> None:
    points = {label: np.array(values, dtype=np.float64) for label, values in x.items()}
    numbers = {label: np.stack(values, axis=1) for label, values in y.items()}
    log_curves(points, numbers, ax, fitted=fitted, **texts)
    if fitted:  # the slopes belong to this panel, not below all of them
        ax.legend(loc="upper left", frameon=False, fontsize="small", handlelength=1.2)


# --- tables -------------------------------------------------------------------------------------------------


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
            (f"{label}, {what}", *(_mean_sd(seconds_of(results.timings[name], label, column)) for name in cells))
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
            rows.append((label if "MLE" in label else f"{label}-SGD", *map(_mean_sd, numbers), paper))
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
            texts = ["" if y is None else _mean_sd(y, 1) for y in numbers]
            rows.append((f"{policy}, {NAMES[problem]}", f"{horizon:,}", *texts))
    text = f"Cumulative average regret after T rounds, mean (standard deviation) over {s.runs} runs."
    return Table("regret", "Regret in numbers", text, ("policy, problem", "T", *SCENARIOS), rows)


def _mean_sd(numbers: NDArray[np.float64], digits: int = 3) -> str:
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
    on_regret, on_seconds = _by_what_decides(found)
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


CLAIMS_HEAD = ("claim", "verdict", "shown when", "ratio of", "ratio", "effect", "p", "runs")


def _by_what_decides(found: Sequence[Verdict]) -> tuple[list[Verdict], list[Verdict]]:
    """Verdicts that the seed repeats, and verdicts that the machine decides."""
    return [v for v in found if not v.claim.is_on_seconds], [v for v in found if v.claim.is_on_seconds]


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
    projected = {v.claim.text: v for v in judge(_projected_claims(), _tables(results))}
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


# --- the page -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Page:
    title: str
    lead: list[str]
    facts: list[tuple[str, str]]
    tables: list[Table]
    pictures: list[Picture]
    order: list[str]  # names of tables and pictures, as they follow one another

    def to_html(self) -> str:
        sections = {table.name: _table_html(table) for table in self.tables}
        sections |= {picture.name: _picture_html(picture) for picture in self.pictures}
        lead = "\n".join(f"<p>{html.escape(text)}</p>" for text in self.lead)
        facts = "\n".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in self.facts)
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<link rel="icon" href="data:,">\n'  # or a browser asks for favicon.ico
            f"<title>{html.escape(self.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
            f"<h1>{html.escape(self.title)}</h1>\n{lead}\n"
            + "\n".join(sections[name] for name in self.order)
            + f'\n<section id="settings"><h2>Settings</h2>\n<dl>\n{facts}\n</dl></section>\n</main>\n</body>\n</html>\n'
        )


def outcome(s: Settings, found: Sequence[Verdict]) -> list[str]:
    """What came out, in sentences; none where nothing was claimed."""
    on_regret, on_seconds = _by_what_decides(found)
    printed = [v for v in on_regret if v.claim.variant != PROJECTED]
    projected = [v for v in on_regret if v.claim.variant == PROJECTED]
    lines = []
    if printed:
        lines.append(
            f"Of {len(printed)} claims about regret, {_counts(printed)} by {s.runs} runs of T = {s.horizon:,}. The "
            "paper states no horizon."
        )
    if projected:
        lines.append(
            f"Of {len(projected)} of them about figure 1, judged again with every step projected onto the unit "
            f"ball, {_counts(projected)}. The paper does not say whether it projects."
        )
    if on_seconds:
        lines.append(
            f"Of {len(on_seconds)} claims about seconds, {_counts(on_seconds)} on this machine by "
            f"{min(s.runs, s.timed_runs)} runs; another machine may decide otherwise."
        )
    if found and s.horizon <= s.n_arms * s.n_features:
        lines.append(
            f"T is no longer than the exploration, n d = {s.n_arms * s.n_features:,} rounds: all policies with "
            "contexts still play random pairs, so that nothing can be said of them."
        )
    return lines


def _counts(verdicts: Sequence[Verdict]) -> str:
    hold, fail, undecided = (sum(v.outcome == outcome for v in verdicts) for outcome in (HOLDS, REFUTED, OPEN))
    return (
        f"{hold} {'holds' if hold == 1 else 'hold'}, {fail} {'does' if fail == 1 else 'do'} not hold and "
        f"{undecided} {'is' if undecided == 1 else 'are'} not decided"
    )


def _reproduction_page(results: Results, found: Sequence[Verdict]) -> _Page:
    s = results.settings
    shown = pictures(results)
    tables = claims_tables(found)
    if "figure1" in results.targets and len(s.horizons) > 1:
        tables.append(horizons_table(results))
    tables += cost_tables(results)
    if any(part.problem in MODELS for part in results.parts):
        tables.append(regret_table(results))
    tables.append(time_table(results))
    first = [table.name for table in tables if table.name.startswith("claims")]
    rest = [table.name for table in tables if not table.name.startswith("claims")]
    paper = (
        "Bengs, Saha and Hüllermeier (2022), Stochastic Contextual Dueling Bandits under Linear Stochastic "
        "Transitivity Models: their experiments, computed anew."
    )
    lead = [paper, *outcome(s, found)]
    facts = [
        ("horizon", f"{s.horizon:,}"),
        ("runs", str(s.runs)),
        ("seed", str(s.seed)),
        ("arms, features", f"{s.n_arms}, {s.n_features}"),
        ("constants", "tau = t0 = d n, c1 = C_thresh = eta = sqrt(d log T), p_t = min(1, d log(d T) / sqrt(t - tau))"),
        ("machine", ", ".join(f"{k} {v}" for k, v in results.machine.items())),
    ]
    facts += [(part.name, "; ".join(f"{k} = {v!r}" for k, v in part.policies.items())) for part in results.parts]
    order = [*first, *(picture.name for picture in shown), *rest]
    return _Page("The paper's experiments, reproduced", lead, facts, tables, shown, order)


def _study_page(loaded: Any, name: str) -> _Page:
    """A study of one's own: regret in every scenario, and the numbers at the end."""
    curves = curves_of(loaded.to_pandas())
    panels, rows = [], []
    for scenario in dict.fromkeys(where for where, _ in curves):
        here = {policy: curve for (where, policy), curve in curves.items() if where == scenario}
        title = f"{scenario}: cumulative average regret of {', '.join(here)}"
        panels.append(Panel(title, partial(_draw_regret, here, scenario)))
        for policy, (rounds, average, weak) in here.items():
            numbers = (_mean_sd(average[:, -1], 2), _mean_sd(weak[:, -1], 2))
            rows.append((policy, scenario, f"{int(rounds[-1]):,}", str(len(average)), *numbers))
    head = ("policy", "scenario", "rounds", "runs", "average regret", "weak regret")
    table = Table("summary", "Regret at the end", "Mean (standard deviation) over the runs.", head, rows)
    caption = "Mean of the cumulative average regret over the runs; bands are one standard deviation."
    picture = Picture("regret", "Regret", caption, panels)
    facts = [
        *((key, str(loaded.settings[key])) for key in ("runs", "seed")),
        *((table["label"], _told(table)) for kind in ("policy", "scenario") for table in loaded.settings[kind]),
    ]
    return _Page(f"Study {name}", [], facts, [table], [picture], ["regret", "summary"])


def _told(table: dict[str, Any]) -> str:
    """A policy's or scenario's table in one line."""
    return ", ".join(f"{key} = {value!r}" for key, value in table.items() if key not in ("label", "checkpoints"))


def _picture_html(picture: Picture) -> str:
    panels = "\n".join(_image(panel) for panel in picture.panels)
    return (
        f'<section id="{picture.name}"><h2>{html.escape(picture.title)}</h2>\n<figure>\n'
        f'<div class="panels">\n{panels}\n</div>\n<figcaption>{html.escape(picture.caption)}</figcaption>\n'
        "</figure></section>"
    )


def _image(panel: Panel) -> str:
    data = base64.b64encode(picture_bytes(panels_figure([panel], 1), ".svg")).decode()
    return f'<img alt="{html.escape(panel.name)}" src="data:image/svg+xml;base64,{data}">'


def _table_html(table: Table) -> str:
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.head)
    rows = "\n".join(_row_html(table.head, row) for row in table.rows)
    return (
        f'<section id="{table.name}"><h2>{html.escape(table.title)}</h2>\n<p>{html.escape(table.caption)}</p>\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></section>"
    )


def _row_html(head: Sequence[str], row: Sequence[str]) -> str:
    cells = [f'<th scope="row">{html.escape(row[0])}</th>']
    for name, text in zip(head[1:], row[1:], strict=True):
        mark = next((kind for kind in (REFUTED, OPEN, HOLDS) if text.startswith(kind)), None)
        kind = "" if mark is None else f' class="{mark.replace(" ", "-")}"'
        cells.append(f'<td data-name="{html.escape(name)}"{kind}>{html.escape(text)}</td>')
    return f"<tr>{''.join(cells)}</tr>"


STYLE = """
:root { color-scheme: light; }
body { margin: 0; background: #fff; color: #1d2329; font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 1rem; }
p, dd, figcaption { overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.25; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem; }
figure { margin: 0; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(340px, 100%), 1fr)); gap: .5rem; }
.panels img { width: 100%; max-width: 480px; height: auto; }
figcaption, section > p, dd { color: #4a545e; font-size: .92rem; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .5rem; border-bottom: 1px solid #d9dee3; text-align: left; vertical-align: top; }
tbody th { font-weight: 600; }
.holds, .does-not-hold, .not-decided { font-weight: 600; }
.holds { color: #00684a; }
.does-not-hold { color: #a33d00; }
.not-decided { color: #55606b; }
dl { display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: .3rem 1rem; }
dt { font-weight: 600; }
dd { margin: 0; }
@media (max-width: 760px) {
  table, tbody, tr, td, tbody th { display: block; }
  thead { display: none; }
  tr { padding: .5rem 0; border-bottom: 1px solid #d9dee3; }
  th, td { border: 0; padding: .1rem 0; }
  td::before { content: attr(data-name) ": "; color: #55606b; font-weight: 400; }
  dl { display: block; }
  dd { margin-bottom: .6rem; }
}
"""


def _write_picture(picture: Picture, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    figure = panels_figure(picture.panels, picture.columns)
    for extension in (".png", ".svg"):
        write_atomically(folder / f"{picture.name}{extension}", picture_bytes(figure, extension))


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
