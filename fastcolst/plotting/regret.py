"""Curves of regret: of one result, and of a study's scenarios side by side."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fastcolst.plotting.figures import REGRET_SIZE, checked_axes, new_figure, own_axes
from fastcolst.plotting.styles import GREY, decorate, legend_beside, line_style

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["regret_curves", "regret_figure", "study_figure"]

PANELS_IN_A_ROW = 3


class Regret(Protocol):
    """What :func:`regret_figure` draws of a result: regret by policy at checkpoints, (runs, k) each."""

    @property
    def rounds(self) -> NDArray[np.int64]: ...

    @property
    def average_regret(self) -> Mapping[str, NDArray[np.float64]]: ...

    @property
    def runs(self) -> int: ...


class Scenarios(Protocol):
    """What :func:`study_figure` draws of a study: the policies' regret in each scenario, as far as it is there."""

    @property
    def folder(self) -> Path: ...

    @property
    def policies(self) -> Sequence[str]: ...

    def results(self) -> Mapping[str, Regret | None]: ...


def regret_figure(result: Regret, ax: Axes | None = None) -> Axes:
    """Draw rounds against cumulative average regret: mean over runs, and a band of one standard deviation.

    Parameters
    ----------
    result : Result
        What :func:`fastcolst.simulate` returned, or anything with the same arrays.
    ax : matplotlib Axes, optional
        Where to draw; a new pyplot figure if not given.

    Returns
    -------
    Axes
        What was drawn on; its ``figure`` saves it.

    Raises
    ------
    ImportError
        Matplotlib is not installed.

    Examples
    --------
    >>> from fastcolst.plotting import new_figure, regret_figure
    >>> from fastcolst.experiments.results import Result
    >>> result = Result(rounds=[50, 100], average_regret={"Mine": [[20.0, 40.0], [22.0, 44.0]]},
    ...                 weak_regret={"Mine": [[10.0, 20.0], [11.0, 21.0]]},
    ...                 self_duels={"Mine": [[0, 0], [0, 0]]}, seconds={"Mine": [0.1, 0.3]},
    ...                 thetas=[[1.0], [2.0]], seed=7, horizon=100, runs=2, settings={})
    >>> ax = regret_figure(result, new_figure().add_subplot())
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('Round', 'Cumulative average regret')
    """
    columns, beside = legend_beside([*result.average_regret])
    own = REGRET_SIZE[0] + beside, REGRET_SIZE[1]
    ax = own_axes(1, own)[0] if ax is None else checked_axes("ax", [ax])[0]
    runs = "one run" if result.runs == 1 else f"mean of {result.runs:,} runs, band: ± 1 standard deviation"
    regret_curves(result.rounds, result.average_regret, ax, title=runs)
    beside_them = {"bbox_to_anchor": (1.02, 1.0), "ncols": columns, "fontsize": "small", "borderaxespad": 0.0}
    ax.legend(loc="upper left", frameon=False, handlelength=3.2, **(beside_them if beside else {}))
    return ax


def regret_curves(
    rounds: NDArray[np.int64],
    regret: Mapping[str, NDArray[np.float64]],
    ax: Axes,
    *,
    title: str,
    styles: Mapping[str, int] | None = None,
    ylabel: str = "Cumulative average regret",
) -> None:
    """Draw cumulative regret over rounds: for each policy the mean over runs and a band of one standard deviation.

    Parameters
    ----------
    rounds : (k,) int64
        Checkpoints.
    regret : dict of label to (runs, k) float64
        Cumulative regret there.
    ax : matplotlib Axes
        Where to draw; no legend is added.
    title, ylabel : str
    styles : dict of label to int, optional
        Number of a policy's colour and line style, so that several pictures agree; None: in the order of `regret`.
    """
    numbers = {label: i for i, label in enumerate(regret)} if styles is None else styles
    rounds = np.concatenate(([0], rounds))  # regret is 0 before the first round, whatever the first checkpoint
    highest_first = sorted(regret, key=lambda label: -regret[label][:, -1].mean())
    for label in highest_first:  # the legend then lists the curves as they stand at the right
        curves = np.pad(regret[label], ((0, 0), (1, 0)))
        mean = curves.mean(axis=0)
        style = line_style(numbers[label])
        if len(curves) > 1:
            deviation = curves.std(axis=0, ddof=1)
            ax.fill_between(rounds, mean - deviation, mean + deviation, color=style["color"], alpha=0.18, linewidth=0)
        ax.plot(rounds, mean, linewidth=2.0, label=label, **style)
    decorate(ax, title=title, xlabel="Round", ylabel=ylabel)
    ax.set_xlim(0, int(rounds[-1]))
    # No average regret is negative in our scenarios; a user's own scores may be anything.
    negative = any(bool((curves < 0).any()) for curves in regret.values())
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]) if negative else 0.0)
    ax.locator_params(axis="x", nbins=5)  # five-digit numbers of more rounds would touch
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.yaxis.set_major_formatter("{x:,.10g}")


def study_figure(result: Scenarios) -> Figure:
    """Draw a study's cumulative average regret, one panel for each scenario that has finished runs.

    Parameters
    ----------
    result : StudyResult
        What :meth:`fastcolst.Study.run` or :func:`fastcolst.load_study` returned.

    Returns
    -------
    Figure
        For :func:`save_figure`; no window shows it.

    Raises
    ------
    ValueError
        There are no finished runs.
    ImportError
        Matplotlib is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import fastcolst as fc
    >>> from fastcolst.plotting import study_figure
    >>> study = fc.Study({"Random": fc.UniformPairs()}, {"easy": fc.Scenario.easy(n_arms=3, n_features=2)}, 50)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     figure = study_figure(study.run(folder, progress=False))
    >>> [ax.get_title(loc="left") for ax in figure.axes]
    ['easy: one run']
    """
    results = {label: part for label, part in result.results().items() if part is not None}
    if not results:
        raise ValueError(f"{os.fspath(result.folder)!r} holds no run yet that every policy has played")
    columns = min(PANELS_IN_A_ROW, len(results))
    rows = math.ceil(len(results) / columns)
    _, beside = legend_beside(result.policies)
    figure = new_figure(REGRET_SIZE[0] * (0.4 + 0.6 * columns) + beside * columns, REGRET_SIZE[1] * rows)
    spreads = set()
    for place, (label, part) in enumerate(results.items(), 1):
        ax = regret_figure(part, figure.add_subplot(rows, columns, place))
        spread = ax.get_title(loc="left")
        ax.set_title(label if len(results) > 1 else f"{label}: {spread}", fontsize="medium", color=GREY, loc="left")
        spreads.add(spread)
    if len(results) > 1:
        figure.suptitle("; ".join(sorted(spreads)), fontsize="medium", color=GREY)
    return figure
