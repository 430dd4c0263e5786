"""How well a policy predicted a log of comparisons: calibration, and log loss as it learned."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fastcolst.plotting.figures import checked_axes, own_axes
from fastcolst.plotting.styles import COLOURS, GREY, PALE, decorate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = ["REPLAY_SIZE", "replay_figure"]

REPLAY_SIZE = (10.4, 4.2)
STRIP = 0.2  # height, in units of frequency, of the strip for counts
SETTLED = 0.01  # share of a log after which the running log loss decides on the scale
MAX_POINTS = 1_500  # of one curve: more cannot be seen, and would swell vector files


class Predictions(Protocol):
    """What :func:`replay_figure` draws of a replay: bins of probabilities, and the log loss after each comparison.

    Where it is one-sided the bins hold each comparison in both orders.
    """

    @property
    def calibration(self) -> NDArray[np.void]: ...

    @property
    def is_one_sided(self) -> bool: ...

    def running_log_loss(self) -> NDArray[np.float64]: ...


def replay_figure(result: Predictions, axes: Sequence[Axes] | NDArray[Any] | None = None) -> NDArray[Any]:
    """Draw how well a policy predicted a log of comparisons: calibration, and log loss as it learned.

    Left: observed against predicted frequency per bin, with 1.96 standard errors up and down, and how many
    predictions the bin holds. Right: the mean log loss of the comparisons so far, against a fair coin's.

    Parameters
    ----------
    result : ReplayResult
        What :func:`fastcolst.replay` returned.
    axes : two matplotlib Axes, optional
        Where to draw; a new pyplot figure if not given.

    Returns
    -------
    (2,) array of Axes
        What was drawn on.

    Raises
    ------
    ValueError
        ``axes`` are not two.
    ImportError
        Matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from fastcolst.data import Log, ReplayResult
    >>> from fastcolst.plotting import new_figure, replay_figure
    >>> log = Log.from_arrays([[1.0], [-1.0]], [True, False])
    >>> result = ReplayResult(probabilities=np.array([0.5, 0.4]), wins=log.wins, theta=np.array([0.3]),
    ...                       log=log, label="Mine")
    >>> [ax.get_xlabel() for ax in replay_figure(result, new_figure().subplots(1, 2))]
    ['Predicted probability', 'Comparison']
    """
    both = own_axes(2, REPLAY_SIZE) if axes is None else checked_axes("axes", axes)
    if both.size != 2:
        raise ValueError(f"axes holds {both.size} axes; two are wanted: calibration and log loss")
    _draw_calibration(result.calibration, result.is_one_sided, both[0])
    _draw_log_loss(result.running_log_loss(), both[1])
    return both


def _draw_calibration(bins: NDArray[np.void], has_both_orders: bool, ax: Axes) -> None:
    _draw_counts(bins, ax)
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1.2, label="perfect calibration")
    ax.errorbar(
        bins["predicted"],
        bins["observed"],
        1.96 * bins["standard_error"],
        color=COLOURS[0],
        fmt="o",
        markersize=5.5,
        capsize=3,
        label="observed, ± 1.96 standard errors",
    )
    decorate(
        ax,
        title=f"calibration{', both orders' if has_both_orders else ''}; bars: how many predictions",
        xlabel="Predicted probability",
        ylabel="Observed frequency",
    )
    ax.set_xlim(0, 1)
    ax.set_ylim(-STRIP, 1.02)
    ax.set_yticks(np.linspace(0.0, 1.0, 6))
    ax.legend(loc="upper left", frameon=False)


def _draw_counts(bins: NDArray[np.void], ax: Axes) -> None:
    """Bars in a strip below frequency 0, where no point can be; the tallest leaves room for its number."""
    heights = 0.6 * STRIP * bins["count"] / bins["count"].max()
    width = bins["high"] - bins["low"]
    ax.bar(bins["low"], heights, width, -STRIP, align="edge", color=PALE, edgecolor="white")
    for low, size, height, count in zip(bins["low"], width, heights, bins["count"], strict=True):
        number = _short(int(count))
        ax.text(low + size / 2, height - STRIP + 0.01, number, fontsize=7, color=GREY, ha="center")


def _short(count: int) -> str:
    return f"{count:,}" if count < 10_000 else f"{count / 1_000:,.0f}k"


def _draw_log_loss(running: NDArray[np.float64], ax: Axes) -> None:
    m = running.size
    shown = np.unique(np.linspace(0, m - 1, min(m, MAX_POINTS)).astype(np.int64))
    final = f"so far; at the end {running[-1]:.4f}"
    coin = math.log(2)
    ax.axhline(coin, color=GREY, linestyle="--", linewidth=1.2, label=f"fair coin: {coin:.4f}")
    ax.plot(shown + 1, running[shown], color=COLOURS[0], linewidth=2.0, label=final)
    if math.isinf(running[-1]):
        ruined = int(np.argmax(np.isinf(running))) + 1
        ax.axvline(ruined, color=COLOURS[1], linestyle=":", label=f"infinite from comparison {ruined:,}")
    decorate(
        ax,
        title="log loss, each comparison predicted before it was learned",
        xlabel="Comparison",
        ylabel="Mean log loss so far",
    )
    # A handful of surprises at the start would hide everything after it.
    settled = running[int(SETTLED * m) :]
    finite = np.append(settled[np.isfinite(settled)], coin)
    margin = 0.12 * max(float(np.ptp(finite)), 0.05)
    ax.set_ylim(max(0.0, float(finite.min()) - margin), float(finite.max()) + margin)
    ax.set_xlim(0, m)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.legend(loc="best", frameon=False)
