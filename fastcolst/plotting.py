"""Pictures of results: regret curves of a simulation, calibration and log loss of a replay.

Curves differ in colour and in line style, and where there are more than seven in markers too, so that they can be
told apart in grey print and by colour-blind eyes (the colours are Okabe and Ito's). Matplotlib is imported when a
picture is drawn, and pyplot only when no axes are given, so that drawing into axes of one's own works anywhere.

Of a result these functions know no more than the arrays that they draw (see the protocols), so that this module stands
below all results, which draw themselves by it.
"""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from fastcolst._checks import brief, looked_at
from fastcolst._files import optional_import

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = [
    "PICTURES",
    "Panel",
    "line_style",
    "log_curves",
    "new_figure",
    "panels_figure",
    "picture_bytes",
    "regret_curves",
    "regret_figure",
    "replay_figure",
    "save_figure",
    "study_figure",
]

PICTURES = (".png", ".svg", ".pdf")
"""Extensions that :func:`save_figure` writes."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":", (0, (7, 2)), (0, (4, 1.5, 1, 1.5, 1, 1.5)), (0, (1, 2.5)))
MARKERS = ("", "o", "s", "^", "D", "v", "P", "X")
MARKER_PLACES = (0.05, 0.1)  # the first marker and the distance of two, as shares of the axes' diagonal
GREY = "#767676"
PALE = "#D9DEE3"

REGRET_SIZE = (6.4, 4.0)
REPLAY_SIZE = (10.4, 4.2)
PANEL_SIZE = (4.3, 3.2)
MARGINS = (0.8, 0.3, 0.3, 0.5)  # of a panel, in inches: left, right, top, bottom
LEGEND_ROW = 0.2  # inches
LEGEND_COLUMNS = (7, 2)  # below several columns of panels, and below one
LEGEND_INSIDE = (8, 40)  # entries, and their letters, among the curves
LEGEND_BESIDE = 19  # entries in a column beside them
PANELS_IN_A_ROW = 3
STRIP = 0.2  # height, in units of frequency, of the strip for counts
SETTLED = 0.01  # share of a log after which the running log loss decides on the scale
MAX_POINTS = 1_500  # of one curve: more cannot be seen, and would swell vector files


class Regret(Protocol):
    """What :func:`regret_figure` draws of a result: regret by policy at checkpoints, (runs, k) each."""

    @property
    def rounds(self) -> NDArray[np.int64]: ...

    @property
    def average_regret(self) -> Mapping[str, NDArray[np.float64]]: ...

    @property
    def runs(self) -> int: ...


class Predictions(Protocol):
    """What :func:`replay_figure` draws of a replay: bins of probabilities, and the log loss after each comparison."""

    @property
    def calibration(self) -> NDArray[np.void]: ...

    def running_log_loss(self) -> NDArray[np.float64]: ...


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
    columns, beside = _legend_beside([*result.average_regret])
    own = REGRET_SIZE[0] + beside, REGRET_SIZE[1]
    ax = _own_axes(1, own)[0] if ax is None else _checked_axes("ax", [ax])[0]
    runs = "one run" if result.runs == 1 else f"mean of {result.runs:,} runs, band: ± 1 standard deviation"
    regret_curves(result.rounds, result.average_regret, ax, title=runs)
    beside_them = {"bbox_to_anchor": (1.02, 1.0), "ncols": columns, "fontsize": "small", "borderaxespad": 0.0}
    ax.legend(loc="upper left", frameon=False, handlelength=3.2, **(beside_them if beside else {}))
    return ax


def _legend_beside(labels: Sequence[str]) -> tuple[int, float]:
    """Columns of a legend that stands beside the curves, and its width in inches: 0 where there is room among them."""
    longest = max(map(len, labels))
    if len(labels) <= LEGEND_INSIDE[0] and longest <= LEGEND_INSIDE[1]:
        return 1, 0.0
    columns = math.ceil(len(labels) / LEGEND_BESIDE)
    return columns, columns * (0.8 + 0.07 * longest)


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
    _decorate(ax, title=title, xlabel="Round", ylabel=ylabel)
    ax.set_xlim(0, int(rounds[-1]))
    # No average regret is negative in our scenarios; a user's own scores may be anything.
    negative = any(bool((curves < 0).any()) for curves in regret.values())
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]) if negative else 0.0)
    ax.locator_params(axis="x", nbins=5)  # five-digit numbers of more rounds would touch
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.yaxis.set_major_formatter("{x:,.10g}")


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
    ax.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks], fontsize="small")
    ax.set_xticks([], minor=True)
    ticker = optional_import("matplotlib.ticker", "a picture")
    ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))  # two powers of ten are rare in a panel
    ax.yaxis.set_major_formatter("{x:,g}")
    ax.yaxis.set_minor_formatter(ticker.NullFormatter())
    if fitted:  # room for a legend
        low, high = ax.get_ylim()
        ax.set_ylim(low, high * (high / low) ** 0.4)
    _decorate(ax, title=title, xlabel=xlabel, ylabel=ylabel)
    return slopes


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


def picture_bytes(figure: Figure, extension: str) -> bytes:
    """A picture as :func:`save_figure` writes it, in memory.

    Raises
    ------
    ValueError
        The extension is none of ``PICTURES``.
    """
    if extension not in PICTURES:
        raise ValueError(f"extension {extension!r} must be one of {', '.join(PICTURES)}")
    undated = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[extension]
    buffer = io.BytesIO()
    with optional_import("matplotlib", "a picture").rc_context({"svg.hashsalt": "fastcolst"}):
        figure.savefig(buffer, format=extension[1:], dpi=200, metadata=undated)
    return buffer.getvalue()


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
    both = _own_axes(2, REPLAY_SIZE) if axes is None else _checked_axes("axes", axes)
    if both.size != 2:
        raise ValueError(f"axes holds {both.size} axes; two are wanted: calibration and log loss")
    _draw_calibration(result.calibration, both[0])
    _draw_log_loss(result.running_log_loss(), both[1])
    return both


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
    _, beside = _legend_beside(result.policies)
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
    Path(path).write_bytes(picture_bytes(figure, extension))


def _checked_axes(name: str, given: Any) -> NDArray[Any]:
    """Axes in a sequence or an array, (n,) object."""
    axes = optional_import("matplotlib.axes", "a figure").Axes
    found = looked_at(list, given.ravel() if isinstance(given, np.ndarray) else given, [None])
    if not all(isinstance(ax, axes) for ax in found):
        raise ValueError(f"{name} is {brief(given)}; matplotlib Axes are wanted")
    array = np.empty(len(found), dtype=object)
    array[:] = found
    return array


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
