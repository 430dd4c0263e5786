"""The style of pictures: colours, lines and markers of curves, the places of legends, the look of axes.

Curves differ in colour and in line style, and where there are more than seven in markers too, so that they can be
told apart in grey print and by colour-blind eyes (the colours are Okabe and Ito's).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

__all__ = ["COLOURS", "GREY", "PALE", "decorate", "legend_beside", "line_style"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":", (0, (7, 2)), (0, (4, 1.5, 1, 1.5, 1, 1.5)), (0, (1, 2.5)))
MARKERS = ("", "o", "s", "^", "D", "v", "P", "X")
MARKER_PLACES = (0.05, 0.1)  # the first marker and the distance of two, as shares of the axes' diagonal
GREY = "#767676"
PALE = "#D9DEE3"

LEGEND_INSIDE = (8, 40)  # entries, and their letters, among the curves
LEGEND_BESIDE = 19  # entries in a column beside them


def line_style(number: int) -> dict[str, Any]:
    """Colour, line style and marker of the curve with this number, as keyword arguments of ``Axes.plot``.

    The first seven are plain lines, each with a colour and a line style of its own; every further seven have the same
    line styles with another marker, and the colours moved on by one. So the first 56 differ whatever colours look
    like, and the first 392 with them.
    """
    sevens, place = divmod(number, len(LINES))
    style: dict[str, Any] = {
        "color": COLOURS[(place + sevens + sevens // len(MARKERS)) % len(COLOURS)],
        "linestyle": LINES[place],
        "marker": MARKERS[sevens % len(MARKERS)],
    }
    if style["marker"]:
        style |= {"markevery": MARKER_PLACES, "markersize": 5.0, "markerfacecolor": "white"}
    return style


def legend_beside(labels: Sequence[str]) -> tuple[int, float]:
    """Columns of a legend that stands beside the curves, and its width in inches: 0 where there is room among them."""
    longest = max(map(len, labels))
    if len(labels) <= LEGEND_INSIDE[0] and longest <= LEGEND_INSIDE[1]:
        return 1, 0.0
    columns = math.ceil(len(labels) / LEGEND_BESIDE)
    return columns, columns * (0.8 + 0.07 * longest)


def decorate(ax: Axes, *, title: str, xlabel: str, ylabel: str) -> None:
    """Give axes a title at the left, names, a pale grid, and no frame above and at the right."""
    ax.set_title(title, fontsize="medium", color=GREY, loc="left")
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.grid(color=PALE, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
