"""The pictures of the report: panels that belong together, with what is to be said of them."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastcolst.paper.claims import FIGURE_1, SCENARIOS
from fastcolst.paper.parts import CUBE_RUNS, NAMES, SWEEP_RUNS, SYMBOLS, WIDTH_RUNS, cube_points, sweep_points
from fastcolst.paper.widths import width_panels
from fastcolst.plotting import Panel, log_curves, regret_curves

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from fastcolst.paper.reproduction import Curve, Results

__all__ = ["Picture", "draw_regret", "pictures"]

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


class Picture(NamedTuple):
    """Panels that belong together, and what is to be said of them."""

    name: str
    title: str
    caption: str
    panels: list[Panel]
    columns: int = 3


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
    if "width-scale" in results.targets:
        runs = min(results.settings.runs, WIDTH_RUNS)
        text = (
            f"Answers by Gumbel noise, mean of {runs} runs; bars are standard errors. All rules explore for n d rounds "
            "and learn by full maximum likelihood. The last but one c is the paper's."
        )
        made.append(Picture("width-scale", "The scale of the widths", text, width_panels(results)))
    return made


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
    draw = partial(draw_regret, shown, title)
    return Panel(f"{title}, T = {horizon:,}: cumulative average regret of {', '.join(shown)}", draw)


def draw_regret(curves: Mapping[str, Curve], title: str, ax: Any) -> None:
    """Draw the cumulative average regret of policies, each in its own style where all are the paper's."""
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
