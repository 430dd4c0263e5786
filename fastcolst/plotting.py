"""Pictures of results: regret curves of a simulation, calibration and log loss of a replay.

Curves differ in colour and in line style, so that they can be told apart in grey print and by colour-blind
eyes (the colours are Okabe and Ito's). Matplotlib is imported when a picture is drawn, and pyplot only when
no axes are given, so that drawing into axes of one's own works anywhere.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastcolst.results import optional_import

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from fastcolst.datasets import ReplayResult
    from fastcolst.results import Result
    from fastcolst.studies import StudyResult

__all__ = ["PICTURES", "new_figure", "regret_figure", "replay_figure", "save_figure", "study_figure"]

PICTURES = (".png", ".svg", ".pdf")
"""Extensions that :func:`save_figure` writes."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":", (0, (7, 2)), (0, (4, 1.5, 1, 1.5, 1, 1.5)), (0, (1, 2.5)))
GREY = "#767676"
PALE = "#D9DEE3"

REGRET_SIZE = (6.4, 4.0)
REPLAY_SIZE = (10.4, 4.2)
PANELS_IN_A_ROW = 3
STRIP = 0.2  # height, in units of frequency, of the strip for counts
SETTLED = 0.01  # share of a log after which the running log loss decides on the scale
MAX_POINTS = 1_500  # of one curve: more cannot be seen, and would swell vector files


def regret_figure(result: Result, ax: Axes | None = None) -> Axes:
    """Draw rounds against cumulative average regret: mean over runs, and a band of one standard deviation.

    Parameters
    ----------
    result : Result
        What :func:`fastcolst.simulate` returned.
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
    >>> from fastcolst.results import Result
    >>> result = Result(rounds=[50, 100], average_regret={"Mine": [[20.0, 40.0], [22.0, 44.0]]},
    ...                 weak_regret={"Mine": [[10.0, 20.0], [11.0, 21.0]]},
    ...                 self_duels={"Mine": [[0, 0], [0, 0]]}, seconds={"Mine": [0.1, 0.3]},
    ...                 thetas=[[1.0], [2.0]], seed=7, horizon=100, runs=2, settings={})
    >>> ax = regret_figure(result, new_figure().add_subplot())
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('Round', 'Cumulative average regret')
    """
    ax = _own_axes(1, REGRET_SIZE)[0] if ax is None else ax
    # Regret is 0 before the first round, whatever the first checkpoint.
    rounds = np.concatenate(([0], result.rounds))
    highest_first = sorted(result.policies, key=lambda label: -result.average_regret[label][:, -1].mean())
    for label in highest_first:  # the legend then lists the curves as they stand at the right
        style = result.policies.index(label)
        regret = np.pad(result.average_regret[label], ((0, 0), (1, 0)))
        mean = regret.mean(axis=0)
        colour = COLOURS[style % len(COLOURS)]
        if result.runs > 1:
            deviation = regret.std(axis=0, ddof=1)
            ax.fill_between(rounds, mean - deviation, mean + deviation, color=colour, alpha=0.18, linewidth=0)
        ax.plot(rounds, mean, color=colour, linestyle=LINES[style % len(LINES)], linewidth=2.0, label=label)
    runs = "one run" if result.runs == 1 else f"mean of {result.runs:,} runs, band: ± 1 standard deviation"
    _decorate(ax, title=runs, xlabel="Round", ylabel="Cumulative average regret")
    ax.set_xlim(0, int(result.rounds[-1]))
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]) if _negative(result) else 0.0)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.yaxis.set_major_formatter("{x:,.10g}")
    ax.legend(loc="upper left", frameon=False, handlelength=3.2)
    return ax


def replay_figure(result: ReplayResult, axes: Sequence[Axes] | NDArray[Any] | None = None) -> NDArray[Any]:
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
    >>> from fastcolst.datasets import Log, ReplayResult
    >>> from fastcolst.plotting import new_figure, replay_figure
    >>> log = Log.from_arrays([[1.0], [-1.0]], [True, False])
    >>> result = ReplayResult(probabilities=np.array([0.5, 0.4]), wins=log.wins, theta=np.array([0.3]),
    ...                       log=log, label="Mine")
    >>> [ax.get_xlabel() for ax in replay_figure(result, new_figure().subplots(1, 2))]
    ['Predicted probability', 'Comparison']
    """
    both = np.asarray(_own_axes(2, REPLAY_SIZE) if axes is None else axes, dtype=object).ravel()
    if both.size != 2:
        raise ValueError(f"axes holds {both.size} axes; two are wanted: calibration and log loss")
    _draw_calibration(result.calibration, both[0])
    _draw_log_loss(result.running_log_loss(), both[1])
    return both


def study_figure(result: StudyResult) -> Figure:
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
    figure = new_figure(REGRET_SIZE[0] * (0.4 + 0.6 * columns), REGRET_SIZE[1] * rows)
    for place, (label, part) in enumerate(results.items(), 1):
        ax = regret_figure(part, figure.add_subplot(rows, columns, place))
        ax.set_title(f"{label}: {ax.get_title(loc='left')}", fontsize="medium", color=GREY, loc="left")
    return figure


def new_figure(width: float = REGRET_SIZE[0], height: float = REGRET_SIZE[1]) -> Figure:
    """Return an empty figure that no window and no global list knows of.

    Parameters
    ----------
    width, height : float
        In inches.

    Raises
    ------
    ImportError
        Matplotlib is not installed.
    """
    figure: Figure = optional_import("matplotlib.figure", "a picture").Figure(
        figsize=(width, height), layout="constrained"
    )
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a picture: .png, .svg or .pdf; the same picture gives the same bytes.

    Raises
    ------
    ValueError
        The extension is none of these.
    OSError
        The file cannot be written.
    """
    extension = Path(path).suffix.lower()
    if extension not in PICTURES:
        raise ValueError(f"path {os.fspath(path)!r} must end in one of {', '.join(PICTURES)}")
    undated = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[extension]
    with optional_import("matplotlib", "a picture").rc_context({"svg.hashsalt": "fastcolst"}):
        figure.savefig(path, dpi=200, metadata=undated)


def _own_axes(n: int, size: tuple[float, float]) -> NDArray[Any]:
    pyplot = optional_import("matplotlib.pyplot", "a picture")
    _, axes = pyplot.subplots(1, n, figsize=size, layout="constrained", squeeze=False)
    return np.asarray(axes, dtype=object).ravel()


def _decorate(ax: Axes, *, title: str, xlabel: str, ylabel: str) -> None:
    ax.set_title(title, fontsize="medium", color=GREY, loc="left")
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.grid(color=PALE, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _negative(result: Result) -> bool:
    # No average regret is negative in our scenarios; a user's own scores may be anything.
    return any(bool((regret < 0).any()) for regret in result.average_regret.values())


def _draw_calibration(bins: NDArray[np.void], ax: Axes) -> None:
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
    _decorate(
        ax,
        title="calibration; bars: how many predictions",
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
    _decorate(
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
