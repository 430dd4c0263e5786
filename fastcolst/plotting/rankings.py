"""A ranking as a picture: ratings with their intervals, the best at the top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fastcolst.plotting.figures import checked_axes, own_axes
from fastcolst.plotting.styles import COLOURS, GREY, decorate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = ["ranking_figure"]

WIDTH = 7.2
LINE = 0.28  # inches for each item


class Rated(Protocol):
    """What :func:`ranking_figure` draws: names in their order, ratings, and intervals that hold at once."""

    @property
    def items(self) -> Sequence[str]: ...

    @property
    def ratings(self) -> NDArray[np.float64]: ...

    @property
    def intervals(self) -> NDArray[np.float64]: ...

    @property
    def level(self) -> float: ...


def ranking_figure(ranking: Rated, ax: Any = None) -> Axes:
    """Draw ratings with their intervals, the best at the top.

    Parameters
    ----------
    ranking : Ranking
        What :meth:`fastcolst.Fit.ranking` returned.
    ax : matplotlib Axes, optional
        Where to draw; a new pyplot figure if not given.

    Returns
    -------
    Axes
        What was drawn on.

    Raises
    ------
    ValueError
        ``ax`` is no Axes.
    ImportError
        Matplotlib is not installed.

    Notes
    -----
    An item without a finite interval is a hollow point, which stands at the edge where it lies outside the others'
    intervals, or only its name where it has no rating.

    Examples
    --------
    >>> import fastcolst as fc
    >>> from fastcolst.plotting import new_figure, ranking_figure
    >>> ranking = fc.fit([["a", "b"], ["b", "c"], ["c", "a"]], [6, 7, 2], [10, 10, 10]).ranking()
    >>> [label.get_text() for label in ranking_figure(ranking, new_figure().subplots()).get_yticklabels()]
    ['a', 'b', 'c']
    """
    n = len(ranking.items)
    axes = own_axes(1, (WIDTH, 1.2 + LINE * n)) if ax is None else checked_axes("ax", [ax])
    (one,) = np.ravel(axes)
    low, high = ranking.intervals.T
    places = np.arange(n)
    bounded = np.isfinite(low) & np.isfinite(high)
    one.hlines(places[bounded], low[bounded], high[bounded], color=COLOURS[0], linewidth=1.6)
    one.plot(ranking.ratings[bounded], places[bounded], "o", color=COLOURS[0], markersize=5.0)
    shown = ranking.ratings
    if bounded.any():  # ratings without an end would leave no room for those with one
        shown = np.clip(shown, low[bounded].min(), high[bounded].max())
    one.plot(shown[~bounded], places[~bounded], "o", color=GREY, markersize=5.0, markerfacecolor="white")
    one.set_yticks(places, ranking.items)
    one.set_ylim(n - 0.4, -0.6)
    decorate(one, title=f"intervals that all hold at once: {100 * ranking.level:g} %", xlabel="Rating", ylabel="")
    drawn: Axes = one
    return drawn
