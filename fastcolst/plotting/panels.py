"""Panels of a report's pictures: many plots with one legend, and curves on logarithmic axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastcolst._files import optional_import
from fastcolst.plotting.styles import decorate, line_style

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["Panel", "log_curves", "panels_figure"]

PANEL_SIZE = (4.3, 3.2)
MARGINS = (0.8, 0.3, 0.3, 0.5)  # of a panel, in inches: left, right, top, bottom
LEGEND_ROW = 0.2  # inches
LEGEND_COLUMNS = (7, 2)  # below several columns of panels, and below one


class Panel(NamedTuple):
    """One plot of a picture: a name to tell it by, and the function that draws it on axes."""

    name: str
    draw: Callable[[Axes], object]


def panels_figure(panels: Sequence[Panel], columns: int) -> Figure:
    """Draw panels in rows of so many, with one legend for all below.

    Examples
    --------
    >>> from fastcolst.plotting import Panel, panels_figure
    >>> panel = Panel("a line", lambda ax: ax.plot([1, 2], label="mine"))
    >>> len(panels_figure([panel] * 3, columns=2).axes)
    3
    """
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    # Laid out by hand: finding the margins would take as long as drawing everything three times.
    figure: Figure = optional_import("matplotlib.figure", "a picture").Figure()
    entries: dict[str, Any] = {}
    for panel in panels:
        ax = figure.add_axes((0, 0, 1, 1), label=str(len(figure.axes)))
        panel.draw(ax)
        if ax.get_legend() is None:
            handles, labels = ax.get_legend_handles_labels()
            entries.update(zip(labels, handles, strict=True))
    across = min(LEGEND_COLUMNS[columns == 1], max(1, len(entries)))
    legend_height = LEGEND_ROW * math.ceil(len(entries) / across)
    width, height = PANEL_SIZE[0] * columns, PANEL_SIZE[1] * rows + legend_height
    figure.set_size_inches(width, height)
    for i, ax in enumerate(figure.axes):
        left, top = PANEL_SIZE[0] * (i % columns), height - PANEL_SIZE[1] * (i // columns)
        inner = (PANEL_SIZE[0] - MARGINS[0] - MARGINS[1], PANEL_SIZE[1] - MARGINS[2] - MARGINS[3])
        bottom = top - PANEL_SIZE[1] + MARGINS[3]
        ax.set_position(((left + MARGINS[0]) / width, bottom / height, inner[0] / width, inner[1] / height))
    if entries:
        figure.legend(
            entries.values(), entries.keys(), loc="lower center", ncols=across, borderaxespad=0.1,
            frameon=False, handlelength=3.2, fontsize="small",
        )  # fmt: skip
    return figure


def log_curves(
    x: Mapping[str, NDArray[np.float64]],
    y: Mapping[str, NDArray[np.float64]],
    ax: Axes,
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    fitted: bool = False,
) -> dict[str, float]:
    """Draw means over runs on two logarithmic axes, with standard errors, and fit a power law to each curve.

    Parameters
    ----------
    x : dict of label to (k,) float64
        Positive, increasing.
    y : dict of label to (runs, k) float64
        Of positive means.
    ax : matplotlib Axes
        Where to draw; no legend is added.
    title, xlabel, ylabel : str
    fitted : bool
        Whether the fitted lines are drawn and their slopes put into the labels.

    Returns
    -------
    dict of label to float
        Slopes of log mean against log x, by least squares.
    """
    slopes = {}
    for number, (label, points) in enumerate(x.items()):
        mean = y[label].mean(axis=0)
        error = y[label].std(axis=0, ddof=1) / math.sqrt(len(y[label])) if len(y[label]) > 1 else None
        slope, intercept = np.polyfit(np.log(points), np.log(mean), 1) if len(points) > 1 else (math.nan, math.nan)
        slopes[label] = float(slope)
        style = line_style(number)
        text = f"{label}, slope {slope:.2f}" if fitted else label
        line, colour, marker = style["linestyle"], style["color"], style["marker"] or "o"
        ax.errorbar(points, mean, error, marker=marker, markersize=4.5, capsize=2.5, label=text, color=colour,
                    linestyle="none" if fitted else line)  # fmt: skip
        if fitted:
            ax.plot(points, np.exp(intercept) * points**slope, linestyle=line, linewidth=1.6, color=colour)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ticks = np.unique(np.concatenate(list(x.values())))
    ax.set_xticks(ticks, [f"{tick:,.0f}" if tick >= 100 else f"{tick:.3g}" for tick in ticks], fontsize="small")
    ax.set_xticks([], minor=True)
    ticker = optional_import("matplotlib.ticker", "a picture")
    ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))  # two powers of ten are rare in a panel
    ax.yaxis.set_major_formatter("{x:,g}")
    ax.yaxis.set_minor_formatter(ticker.NullFormatter())
    if fitted:  # room for a legend
        low, high = ax.get_ylim()
        ax.set_ylim(low, high * (high / low) ** 0.4)
    decorate(ax, title=title, xlabel=xlabel, ylabel=ylabel)
    return slopes
