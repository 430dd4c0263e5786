"""Learning from a log in its order, and the scores of what was predicted."""

from __future__ import annotations

import math
import sys

import numpy as np
import pandas as pd
import pytest
from conftest import STATED, TABLE
from hypothesis import given
from hypothesis import strategies as st

import fastcolst as fc
from fastcolst.data import Log, ReplayResult, read_log, replay

pytestmark = pytest.mark.either_lane


class Sgd:
    """Online logistic regression in plain NumPy: what a policy looks like to replay."""

    def __init__(self, n_features: int, rate: float) -> None:
        self.theta = np.zeros(n_features)
        self.rate = rate
        self.calls = 0

    def learn_and_predict(self, contrasts, wins):
        self.calls += 1
        probabilities = np.empty(len(contrasts))
        for t, z in enumerate(contrasts):
            probabilities[t] = 1.0 / (1.0 + np.exp(-z @ self.theta))
            self.theta += self.rate * (wins[t] - probabilities[t]) * z
        return probabilities


class Says:
    """Predicts what it is told to."""

    def __init__(self, probabilities, n_features: int = 1) -> None:
        self.probabilities = probabilities
        self.theta = np.zeros(n_features)

    def learn_and_predict(self, *_):
        return self.probabilities


def scored(probabilities, wins) -> ReplayResult:
    log = Log.from_arrays(np.ones((len(wins), 1)), wins)
    return ReplayResult(probabilities=probabilities, wins=log.wins, theta=[0.0], log=log, label="test")


def test_football_matches_since_1990(shared):
    path = shared / "data" / "intl_football" / "pairs.npz"
    log = read_log(path, where="year >= 1990")
    assert (log.rows, log.draws_in_file, len(log)) == (49_520, 11_258, 24_787)
    assert read_log(path).draws == 11_258
    assert "49,520 rows with 11,258 draws" in log.counts
    for rate, expected in ((0.5, 0.5735), (0.02, 0.4825)):
        assert replay(Sgd(5, rate), log).log_loss == pytest.approx(expected, abs=0.0005)


def random_log(m: int, d: int) -> Log:
    rng = np.random.default_rng(7)
    return Log.from_arrays(rng.standard_normal((m, d)), rng.random(m) < 0.7)


def test_blocks_and_a_progress_bar_change_nothing(monkeypatch, capsys):
    log, alone, in_blocks = random_log(100, 3), Sgd(3, 0.1), Sgd(3, 0.1)
    expected = alone.learn_and_predict(log.contrasts, log.wins)
    monkeypatch.setattr(sys.modules["fastcolst.data.replay"], "BLOCK", 7)
    result = replay(in_blocks, log, progress=True, label="small blocks")
    assert in_blocks.calls == 15
    assert result.probabilities.tolist() == expected.tolist()
    assert result.theta.tolist() == alone.theta.tolist()
    assert "small blocks: 100%" in capsys.readouterr().err


def test_a_result_keeps_the_estimate_it_ended_with():
    policy, log = Sgd(2, 0.1), random_log(10, 2)
    result = replay(policy, log)
    before = result.theta.copy()
    replay(policy, log)
    assert result.theta.tolist() == before.tolist() != policy.theta.tolist()
    assert result.label == "Sgd"
    assert result.probabilities[0] == 0.5
    assert result.log is log
    for array in (result.probabilities, result.wins, result.theta):
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ([0.5], r"predicted shape \(1,\); \(2,\) is wanted"),
        (0.5, r"predicted shape \(\)"),
        ([0.5, np.nan], r"probabilities\[1\] is nan; 0 to 1 is wanted"),
        ([0.5, 1.5], r"probabilities\[1\] is 1.5"),
    ],
)
def test_predictions_that_are_no_probabilities_are_refused(probabilities, message):
    with pytest.raises(ValueError, match=message):
        replay(Says(probabilities), Log.from_arrays([[1.0], [1.0]], [1, 0]))


def test_what_is_replayed_has_to_be_a_log_of_that_many_features():
    with pytest.raises(ValueError, match="log is a list; a Log is wanted"):
        replay(Says([0.5]), [[1.0]])
    with pytest.raises(ValueError, match=r"theta has shape \(3,\); \(1,\) is wanted"):
        replay(Says([0.5], n_features=3), Log.from_arrays([[1.0]], [1]))


def test_scores_by_hand():
    result = scored([0.9, 0.5, 0.2, 0.6], [1, 1, 1, 0])
    assert result.log_loss == pytest.approx(-math.log(0.9 * 0.5 * 0.2 * 0.4) / 4, rel=1e-14)
    assert result.accuracy == 1.5 / 4
    assert result.brier == pytest.approx((0.01 + 0.25 + 0.64 + 0.36) / 4, rel=1e-14)
    running = result.running_log_loss()
    assert running[1] == pytest.approx(-math.log(0.45) / 2, rel=1e-14)
    assert running[-1] == pytest.approx(result.log_loss, rel=1e-14)


def test_a_certain_prediction_that_fails_costs_everything():
    assert scored([0.0, 0.5], [1, 1]).log_loss == np.inf
    assert scored([1.0, 0.5], [0, 1]).log_loss == np.inf
    assert scored([0.0, 1.0], [0, 1]).log_loss == 0.0
    assert scored([1e-20], [0]).log_loss == pytest.approx(1e-20, rel=1e-14, abs=0.0)


PROBABILITIES = st.one_of(st.floats(0.0, 1.0), st.sampled_from([k / 10 for k in range(11)]))


@given(predictions=st.lists(st.tuples(PROBABILITIES, st.booleans()), min_size=1, max_size=40))
def test_calibration_agrees_with_a_plain_loop(predictions):
    probabilities, wins = map(list, zip(*predictions, strict=True))
    table = scored(probabilities, wins).calibration
    if len(set(wins)) == 1:  # both orders
        predictions = [*predictions, *((1.0 - p, not won) for p, won in predictions)]
    assert table["count"].sum() == len(predictions)
    edges = np.linspace(0.0, 1.0, 11)
    for row in table:
        assert row["low"] in edges[:-1]
        assert row["high"] == edges[np.flatnonzero(edges == row["low"])[0] + 1]
        inside = [(p, won) for p, won in predictions if row["low"] <= p < row["high"] or p == row["high"] == 1.0]
        n = len(inside)
        assert row["count"] == n > 0
        assert row["predicted"] == pytest.approx(sum(p for p, _ in inside) / n, abs=1e-15)
        assert row["observed"] == sum(won for _, won in inside) / n
        certain = len(set(wins)) == 1  # of 1/2 in both orders one wins, always
        error = math.sqrt(sum(p * (1 - p) for p, _ in inside if p != 0.5 or not certain)) / n
        assert row["standard_error"] == pytest.approx(error, abs=2e-8)  # 1 - p is off by 1e-16, of which this is a root


def test_a_summary_has_counts_scores_bins_and_names(write_log):
    log = read_log(write_log(TABLE), first="a_*", second="b_*", where="year <= 1997", **STATED)
    result = replay(Sgd(2, 0.5), log, label="plain SGD")
    lines = result.summary().splitlines()
    assert lines[0].startswith("plain SGD")
    assert lines[1] == (
        "8 rows with 1 draws, 8 kept by year <= 1997: 3 learned, 1 draws left out, 2 missing, 2 unknown outcomes"
    )
    words = [line.split() for line in lines]
    assert ["log", "loss"] in [line[:2] for line in words]
    assert ["accuracy", "0.1667"] in words  # one draw of three: half a point
    assert ["Brier", "score"] in [line[:2] for line in words]
    assert ["0.5", "to", "0.6"] in [line[:3] for line in words]
    assert [line[0] for line in words[-2:]] == ["speed", "price"]
    assert words[-3] == ["feature", "coefficient", "typical", "difference", "effect"]
    for row, coefficient, size in zip(words[-2:], result.theta, log.sizes(), strict=True):
        np.testing.assert_allclose(
            [float(word) for word in row[1:]], [coefficient, size, coefficient * size], rtol=1e-3
        )


def test_plotting_is_left_to_plotting(monkeypatch):
    plotting = pytest.importorskip("fastcolst.plotting")
    monkeypatch.setattr(plotting, "replay_figure", lambda result, axes: (result, axes))
    result = scored([0.5], [1])
    assert result.plot("axes") == (result, "axes")


def test_a_replay_says_how_the_estimate_stands():
    log = random_log(60, 2)
    result = replay(fc.CoLSTIM(2, estimator=fc.SGD(0.1)), log)
    assert result.status == "ready" and "status of the estimate: ready" in result.summary()
    silent = replay(Sgd(2, 0.1), log)
    assert silent.status == "" and "status" not in silent.summary()


def test_shares_and_weights_are_scored_as_so_many_comparisons():
    """A comparison of weight 4 and share 3/4 is three wins and one loss."""
    p = [0.8, 0.3]
    log = Log.from_arrays(np.ones((2, 1)), [0.75, 0.0], weights=[4.0, 1.0])
    result = ReplayResult(probabilities=p, wins=log.wins, theta=[0.0], log=log, label="x")
    plain = scored([0.8, 0.8, 0.8, 0.8, 0.3], [1, 1, 1, 0, 0])
    for name in ("log_loss", "accuracy", "brier"):
        found, expected = getattr(result, name), getattr(plain, name)
        # a spread of shares is no part of (p - y)^2 for one share
        assert found == pytest.approx(expected - (0.15 if name == "brier" else 0.0), rel=1e-12)
    assert result.running_log_loss()[-1] == pytest.approx(result.log_loss, rel=1e-14)
    for name in ("predicted", "observed"):
        np.testing.assert_allclose(result.calibration[name], plain.calibration[name], rtol=1e-14)


def test_weights_reach_the_policy_block_by_block(monkeypatch):
    seen = []

    class Weighted(Sgd):
        def learn_and_predict(self, contrasts, wins, weights):
            seen.append((wins.tolist(), weights.tolist()))
            return super().learn_and_predict(contrasts, wins)

    monkeypatch.setattr(sys.modules["fastcolst.data.replay"], "BLOCK", 2)
    replay(Weighted(1, 0.1), Log.from_arrays(np.ones((3, 1)), [1, 0.5, 0], weights=[1.0, 2.0, 3.0]))
    assert seen == [([1.0, 0.5], [1.0, 2.0]), ([0.0], [3.0])]


def test_where_one_side_always_won_both_orders_are_in_the_table():
    """Every bin said observed 1.0 before, whatever was predicted."""
    rng = np.random.default_rng(5)
    p = rng.beta(2.0, 2.0, 20_000)  # of the first of a pair, who then wins or loses, and is put first if it won
    p = np.where(rng.random(p.size) < p, p, 1.0 - p)
    result = scored(p, np.ones(p.size))
    table = result.calibration
    assert result.is_one_sided and table["count"].sum() == 2 * p.size
    assert np.all(np.abs(table["observed"] - table["predicted"]) < 4.5 * table["standard_error"])
    assert table["observed"].min() < 0.1
    np.testing.assert_allclose(table["observed"] + table["observed"][::-1], 1.0, rtol=1e-12)
    assert "the first always won: the table below counts each comparison in both orders" in result.summary()
    lost = scored(1.0 - p, np.zeros(p.size))
    assert "the second always won" in lost.summary()
    np.testing.assert_allclose(lost.calibration["observed"], table["observed"], rtol=1e-12)
    assert not scored([0.5, 0.5], [1, 0]).is_one_sided
    (certain,) = scored([0.5, 0.5], [1, 1]).calibration  # both orders are in this bin, and add up to one win
    assert (certain["count"], certain["observed"], certain["standard_error"]) == (4, 0.5, 0.0)


def test_a_log_loss_stands_beside_a_coin_s_and_the_base_rate_s():
    result = scored([0.8, 0.8, 0.6, 0.4], [1, 1, 1, 0])
    (line,) = [line for line in result.summary().splitlines() if line.startswith("log loss")]
    base = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert line.endswith(f"  (a coin's 0.6931, the base rate's {base:.4f}: the first won 75.0%)")
    assert "outcomes: 1 = first won (3), 0 = second won (1)" in result.summary().splitlines()
    constant = scored([0.75] * 4, [1, 1, 1, 0])
    assert constant.log_loss == pytest.approx(base, rel=1e-14)
    weighted = Log.from_arrays(np.ones((3, 1)), [1.0, 0.5, 0.0], weights=[3.0, 2.0, 1.0])
    result = ReplayResult(probabilities=[4 / 6] * 3, wins=weighted.wins, theta=[0.0], log=weighted, label="x")
    assert f"the base rate's {result.log_loss:.4f}: the first won 66.7%" in result.summary()
    assert "outcomes: 1 = first won (1), 0 = second won (1), 0.5 = draw (1)" in result.summary()
    assert "base rate" not in scored([0.5, 0.6], [1, 1]).summary()  # its log loss is 0, and tells nothing


def large_features(seed, size, m=300, d=5, truth=1.0):
    """Contrasts of that size and answers to them, whose margins are of size `truth`."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(d)
    contrasts = size * rng.standard_normal((m, d))
    return contrasts, rng.random(m) < 1.0 / (1.0 + np.exp(-contrasts @ theta * truth / size / np.linalg.norm(theta)))


@pytest.mark.parametrize("history", [50, 2_000])
@pytest.mark.parametrize("size", [1.0, 165.0, 1e6])
def test_a_start_is_no_more_certain_than_its_answers_are_many(size, history):
    """Of features of size 165 a ridge of 1 held nothing back: a few answers made predictions of 0 that failed."""
    contrasts, wins = large_features(3, size, 60)
    log, policy = Log.from_arrays(contrasts, wins), fc.CoLSTIM(5, estimator=fc.OnlineNewton(history))
    found, exact = replay(policy, log), replay(fc.CoLSTIM(5), log)
    n = np.arange(5)  # as many answers as features are separable, whatever they are
    assert np.all(np.abs(found.probabilities[:5] - 0.5) <= 0.5 - 1.0 / (n + 2.0) + 1e-12)
    assert found.log_loss < exact.log_loss + 0.05 and found.status == "ready"
    if size > 100.0:
        np.testing.assert_allclose(found.probabilities[2:], exact.probabilities[2:], atol=0.05)


def test_a_pass_that_becomes_certain_says_so():
    """With no start the first steps are far too long, and a pass does not come back from all of them."""
    contrasts, wins = large_features(2, 165.0)
    policy = fc.CoLSTIM(5, estimator=fc.OnlineNewton(0))
    with pytest.warns(UserWarning, match="within 1e-13 of certain.* OnlineNewton after its start"):
        predicted = policy.learn_and_predict(contrasts, wins)
    assert np.abs(predicted - 0.5).max() > 0.5 - 1e-13 and policy.estimate_status == "overshooting"
    sure = fc.CoLSTIM(5, estimator=fc.OnlineNewton(0, ridge=1e4))
    sure.learn_and_predict(contrasts, wins)
    assert sure.estimate_status == "ready"
    # what came before the end of the start was kept off, and does not count
    started = fc.CoLSTIM(5, estimator=fc.OnlineNewton(100))
    started.learn_and_predict(contrasts, wins)
    assert started.estimate_status == "ready"
    later = fc.CoLSTIM(5, estimator=fc.OnlineNewton(100))
    later.learn_and_predict(contrasts[:200], wins[:200])
    with pytest.warns(UserWarning, match="within 1e-13 of certain"):
        later.learn_and_predict(100.0 * contrasts[200:201], wins[200:201])
    assert later.estimate_status == "overshooting"


def test_a_policy_takes_the_names_of_a_log(write_log):
    log = read_log(write_log(TABLE), first="a_*", second="b_*", **STATED)
    policy = fc.CoLSTIM(2, estimator="sgd")
    result = replay(policy, log)
    assert policy.feature_names == policy.summary().names == log.features == ("speed", "price")
    with pytest.raises(ValueError, match=r"lacks 'speed' .* this policy's features are 'speed', 'price'"):
        policy.select(pd.DataFrame({"price": [1.0, 2.0], "spede": [0.0, 1.0]}))
    # what a policy knows in another order is put right, and told in the log's
    turned = fc.CoLSTIM(2, estimator="sgd")
    turned.learn_and_predict(pd.DataFrame({"price": [0.0], "speed": [0.0]}), [1])
    other = replay(turned, log)
    np.testing.assert_array_equal(other.theta, result.theta)
    np.testing.assert_array_equal(turned.theta, result.theta[::-1])
    np.testing.assert_array_equal(other.probabilities, result.probabilities)
    # mere places are no names: frames that come later have names of their own
    plain = fc.CoLSTIM(2, estimator="sgd")
    replay(plain, Log.from_arrays(np.asarray(log.contrasts), log.wins))
    assert plain.feature_names is None and plain.summary().names == (0, 1)
    battles = pd.DataFrame({"i": ["x", "y"], "j": ["y", "z"], "outcome": [1, 0]})
    rated = fc.CoLSTIM(3, estimator="sgd")
    replay(rated, read_log(battles, items=["i", "j"]))
    assert rated.summary().names == ("x", "y", "z")
