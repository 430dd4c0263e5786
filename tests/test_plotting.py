"""Pictures: what is drawn is what the result holds, and drawing leaves nothing behind."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes

from fastcolst.data import Log, ReplayResult
from fastcolst.experiments.results import Result
from fastcolst.plotting import line_style, misordered_figure, new_figure, regret_figure, replay_figure, save_figure
from fastcolst.policies import REGISTRY

mpl.use("agg")


@pytest.fixture(autouse=True)
def _no_figure_left():
    plt.close("all")
    yield
    plt.close("all")


def made_result(runs: int = 3, labels: tuple[str, ...] = ("low", "high")) -> Result:
    rng = np.random.default_rng(5)
    rounds = np.array([10, 20, 50, 100])
    regret = {label: np.cumsum((1 + i) * rng.random((runs, rounds.size)), axis=1) for i, label in enumerate(labels)}
    return Result(
        rounds=rounds,
        average_regret=regret,
        weak_regret=regret,
        self_duels={label: np.zeros((runs, rounds.size), np.int64) for label in labels},
        seconds={label: np.ones(runs) for label in labels},
        thetas=np.ones((runs, 2)),
        seed=7,
        horizon=100,
        runs=runs,
        settings={},
    )


def made_replay(probabilities: np.ndarray, wins: np.ndarray) -> ReplayResult:
    log = Log.from_arrays(np.ones((len(wins), 1)), wins)
    return ReplayResult(probabilities=probabilities, wins=log.wins, theta=np.ones(1), log=log, label="mine")


def legend_of(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def drawn(**where) -> Axes:
    return regret_figure(made_result(**where), new_figure().add_subplot())


def test_lines_are_means_over_runs_from_zero():
    result = made_result()
    ax = regret_figure(result, new_figure().add_subplot())
    for line in ax.get_lines():
        x, y = line.get_data()
        np.testing.assert_array_equal(x, [0, *result.rounds])
        np.testing.assert_allclose(y, [0, *result.average_regret[line.get_label()].mean(axis=0)], rtol=1e-15)


def test_the_band_is_one_standard_deviation_up_and_down():
    result = made_result(labels=("only",))
    ax = regret_figure(result, new_figure().add_subplot())
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    regret = result.average_regret["only"][:, -1]
    at_end = corners[corners[:, 0] == 100, 1]
    assert at_end.max() == pytest.approx(regret.mean() + regret.std(ddof=1), rel=1e-12)
    assert at_end.min() == pytest.approx(regret.mean() - regret.std(ddof=1), rel=1e-12)


def test_one_run_has_no_band_and_says_so():
    ax = drawn(runs=1)
    assert len(ax.collections) == 0
    assert ax.get_title(loc="left") == "one run"


def test_the_legend_lists_the_curves_from_the_top():
    assert legend_of(drawn()) == ["high", "low"]


def test_curves_differ_in_line_style_and_not_in_colour_alone():
    labels = tuple("abcdefg")
    lines = drawn(labels=labels).get_lines()
    assert len({line.get_color() for line in lines}) == len(labels)
    assert len({str(line._dash_pattern) for line in lines}) == len(labels)


def looks(ax: Axes) -> list[tuple[str, ...]]:
    """What tells lines apart in grey: dashes and markers."""
    return [(str(line._dash_pattern), str(line.get_marker())) for line in ax.get_lines()]


@pytest.mark.parametrize("n", [8, 24, 56])
def test_no_two_of_many_curves_look_alike_even_in_grey(n: int):
    ax = drawn(labels=tuple(f"policy {i}" for i in range(n)))
    assert len(set(looks(ax))) == n
    colours = [line_style(number)["color"] for number in range(n)]
    assert all(a != b for a, b in itertools.pairwise(colours))


@pytest.mark.parametrize("length", [5, 60])
@pytest.mark.parametrize("n", [8, 24])
def test_a_long_legend_leaves_room_for_the_curves(n: int, length: int):
    ax = made_result(labels=tuple(f"{i:0{length}d}" for i in range(n))).plot()
    figure = ax.figure
    figure.canvas.draw()
    width, height = ax.get_position().width * figure.get_figwidth(), ax.get_position().height * figure.get_figheight()
    assert width > 4.0 and height > 2.5
    legend, whole = ax.get_legend().get_window_extent(), figure.bbox
    assert whole.x0 <= legend.x0 and legend.x1 <= whole.x1 and whole.y0 <= legend.y0


def test_curves_without_number_differ_at_least_in_colour():
    styles = [line_style(number) for number in range(392)]
    assert len({tuple(map(str, style.values())) for style in styles}) == 392


def test_every_policy_there_is_has_a_look_of_its_own():
    assert len(set(looks(drawn(labels=tuple(REGISTRY))))) == len(REGISTRY) > 7


def test_a_policy_keeps_its_style_beside_others():
    alone, beside = drawn(labels=("low",)), drawn(labels=("low", "high"))
    styles = [
        {line.get_label(): (line.get_color(), line.get_linestyle()) for line in ax.get_lines()}
        for ax in (alone, beside)
    ]
    assert styles[0]["low"] == styles[1]["low"]


def test_drawing_into_given_axes_leaves_pyplot_alone():
    axes = new_figure().subplots(1, 2)
    assert regret_figure(made_result(), axes[0]) is axes[0]
    replay_figure(made_replay(np.array([0.4, 0.9]), np.array([True, True])), new_figure().subplots(2, 1))
    assert plt.get_fignums() == []


def test_without_axes_pyplot_has_the_figure():
    ax = made_result().plot()
    assert [plt.figure(number) for number in plt.get_fignums()] == [ax.figure]


def test_negative_regret_is_not_cut_off():
    result = made_result(labels=("odd",))
    shifted = Result(**{**vars(result), "average_regret": {"odd": result.average_regret["odd"] - 50.0}})
    assert regret_figure(shifted, new_figure().add_subplot()).get_ylim()[0] < -40
    assert drawn().get_ylim()[0] == 0


def test_calibration_draws_the_bins():
    rng = np.random.default_rng(3)
    p = rng.random(500)
    result = made_replay(p, rng.random(500) < p)
    left, _ = replay_figure(result, new_figure().subplots(1, 2))
    (container,) = [c for c in left.containers if c.get_label().startswith("observed")]
    points, _, (bars,) = container.lines
    np.testing.assert_array_equal(points.get_xdata(), result.calibration["predicted"])
    np.testing.assert_array_equal(points.get_ydata(), result.calibration["observed"])
    half = np.array([np.ptp(segment[:, 1]) / 2 for segment in bars.get_segments()])
    np.testing.assert_allclose(half, 1.96 * result.calibration["standard_error"], rtol=1e-9)
    assert [text.get_text() for text in left.texts] == [str(n) for n in result.calibration["count"]]


def test_large_counts_fit_their_bars():
    p = np.full(25_000, 0.45)
    left, _ = replay_figure(made_replay(p, np.arange(25_000) % 2 == 0), new_figure().subplots(1, 2))
    assert [text.get_text() for text in left.texts] == ["25k"]
    assert "both orders" not in left.get_title(loc="left")


def test_where_one_side_always_won_both_orders_are_drawn():
    p = np.full(25_000, 0.45)
    left, _ = replay_figure(made_replay(p, p > 1), new_figure().subplots(1, 2))
    assert [text.get_text() for text in left.texts] == ["25k", "25k"]
    assert left.get_title(loc="left") == "calibration, both orders; bars: how many predictions"


def test_running_log_loss_ends_at_the_log_loss():
    rng = np.random.default_rng(4)
    p = rng.random(5_000)
    result = made_replay(p, rng.random(5_000) < p)
    _, right = replay_figure(result, new_figure().subplots(1, 2))
    curve = right.get_lines()[1]
    assert curve.get_xdata()[[0, -1]].tolist() == [1, 5_000]
    assert curve.get_ydata()[-1] == pytest.approx(result.log_loss, rel=1e-12)
    assert len(curve.get_xdata()) <= 1_500
    assert legend_of(right) == ["fair coin: 0.6931", f"so far; at the end {result.log_loss:.4f}"]


def test_infinite_log_loss_is_shown_and_dated():
    result = made_replay(np.array([0.5, 0.6, 0.0, 0.7]), np.array([True, True, True, True]))
    _, right = replay_figure(result, new_figure().subplots(1, 2))
    assert legend_of(right)[1:] == ["so far; at the end inf", "infinite from comparison 3"]
    assert np.isfinite(right.get_ylim()).all()


@pytest.mark.parametrize("extension", [".png", ".svg", ".pdf"])
def test_a_picture_is_the_same_bytes_each_time(tmp_path: Path, extension: str):
    files = [tmp_path / f"{i}{extension}" for i in range(2)]
    for file in files:
        save_figure(drawn().figure, file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(files[0].read_bytes()) > 1_000


def test_wrong_arguments_are_named(tmp_path: Path):
    with pytest.raises(ValueError, match=r"axes holds 3 axes; two are wanted"):
        replay_figure(made_replay(np.array([0.5]), np.array([True])), new_figure().subplots(1, 3))
    with pytest.raises(ValueError, match=r"must end in one of \.png, \.svg, \.pdf"):
        save_figure(new_figure(), tmp_path / "picture.gif")


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    for draw in (new_figure, made_result().plot):
        with pytest.raises(ImportError, match=r"needs matplotlib: pip install 'fastcolst\[study\]'"):
            draw()


# --- orders ---------------------------------------------------------------------------------------------------


def test_the_curve_of_misordered_pairs_is_drawn_as_given_with_its_target():
    answers, shares = [0, 10, 30], {"variance": [0.5, 0.3, 0.1], "random": [0.5, 0.4, 0.2]}
    ax = misordered_figure(answers, shares, target=0.15, ax=new_figure().add_subplot())
    *curves, target = ax.get_lines()
    assert {line.get_label(): line.get_ydata().tolist() for line in curves} == shares
    assert all(line.get_xdata().tolist() == answers for line in curves)
    assert set(target.get_ydata()) == {0.15} and ax.get_ylim()[0] == 0.0
    assert legend_of(ax) == ["variance", "random", "target 0.15"]
    assert len(misordered_figure(answers, shares).get_lines()) == 2


@pytest.mark.parametrize(
    ("answers", "shares", "named"),
    [
        ([0, 1], {"mine": [0.5]}, r"shares\['mine'\] has shape \(1,\); wanted that of answers, \(2,\)"),
        ([[0, 1]], {"mine": [[0.5, 0.4]]}, r"answers has shape \(1, 2\)"),
        ([0, 1], {}, "at least one curve"),
    ],
)
def test_curves_of_other_lengths_are_refused(answers, shares, named):
    with pytest.raises(ValueError, match=named):
        misordered_figure(answers, shares)
    assert not plt.get_fignums()
