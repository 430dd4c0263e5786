"""Which comparison model a log speaks for: paired losses by hand, and how many answers would do by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import rounds
from scipy.optimize import minimize_scalar
from scipy.special import expit, ndtr, ndtri

import fastcolst as fc
from fastcolst.experiments import model_choice

pytestmark = pytest.mark.either_lane

TWO = ["bradley-terry", "thurstone"]


def a_log(m: int, d: int = 2, seed: int = 0, weights: bool = False) -> fc.Log:
    rng = np.random.default_rng(seed)
    contrasts = rng.normal(size=(m, d))
    wins = contrasts @ np.linspace(2.0, -1.0, d) + rng.logistic(size=m) > 0.0
    return fc.Log.from_arrays(contrasts, wins, weights=rng.uniform(0.5, 3.0, m) if weights else None)


def careless_log(m: int) -> fc.Log:
    """One answer in seven is wrong, however clear the question: thin tails cannot explain that."""
    rng = np.random.default_rng(5)
    contrasts = rng.normal(size=(m, 1))
    return fc.Log.from_arrays(contrasts, (contrasts[:, 0] > 0.0) ^ (rng.random(m) < 1.0 / 7.0))


@pytest.mark.parametrize("weights", [False, True])
def test_differences_and_errors_are_those_of_two_replays(weights: bool):
    log = a_log(rounds(400, 150), weights=weights)
    found = fc.compare_models(log, TWO, skip=30)
    w = np.ones(len(log))[30:] if log.weights is None else np.array(log.weights)[30:]
    losses = {}
    for name in TWO:
        p = fc.replay(fc.CoLSTIM(2, comparison=name), log).probabilities
        losses[name] = -np.log(np.where(log.wins, p, 1.0 - p))[30:]
        assert found.log_losses[name] == pytest.approx(w @ losses[name] / w.sum(), rel=1e-12)
    (pair,) = found.differences
    d = losses[pair.second] - losses[pair.first]
    assert pair.difference == pytest.approx(w @ d / w.sum(), rel=1e-9)
    assert pair.difference >= 0.0 and found.best == pair.first
    # the variance of a weighted mean by leaving out one comparison at a time, but for terms of second order
    left_out = (w @ d - w * d) / (w.sum() - w)
    jackknife = math.sqrt((len(d) - 1) / len(d) * np.sum((left_out - left_out.mean()) ** 2))
    assert pair.standard_error == pytest.approx(jackknife, rel=0.02 if weights else 1e-9)
    assert found.n_answers == len(log) - 30
    assert found.replays["thurstone"].probabilities.shape == (len(log),)


def test_as_many_answers_as_are_said_to_do_tell_models_apart_four_times_in_five():
    """Answers drawn from one of two models whose predictions are known; 600 experiments, false alarm below 1e-4."""
    rng = np.random.default_rng(3)
    margins = rng.normal(size=200_000) * 2.0
    p, q = expit(margins), ndtr(margins * 0.8)
    z = float(-ndtri(0.025))
    needed = model_choice._needed(p, q, np.ones(len(p)), z)
    m = round(needed)
    assert 200 < m < 5_000
    n_apart = 0
    for _ in range(600):
        k = rng.integers(len(p), size=m)
        won = rng.random(m) < p[k]
        d = np.where(won, np.log(p[k] / q[k]), np.log((1.0 - p[k]) / (1.0 - q[k])))
        n_apart += d.mean() > z * d.std(ddof=1) / math.sqrt(m)
    assert 0.73 < n_apart / 600 < 0.87


def test_logit_and_probit_take_tens_of_thousands_of_answers():
    """As the nearest normal law to a logistic one says, margins being as they are here."""
    log = a_log(rounds(20_000, 1_500))
    (pair,) = fc.compare_models(log, TWO).differences
    margins = np.random.default_rng(1).normal(size=300_000) * math.sqrt(5.0)

    def figures(scale: float) -> tuple[float, float]:
        p, q = expit(margins), ndtr(scale * margins)
        won, lost = np.log(p / q), np.log((1.0 - p) / (1.0 - q))
        mean = p * won + (1.0 - p) * lost
        return float(mean.mean()), float((p * won**2 + (1.0 - p) * lost**2).mean() - mean.mean() ** 2)

    nearest = minimize_scalar(lambda scale: figures(scale)[0], bounds=(0.3, 1.0), method="bounded").x
    mean, variance = figures(nearest)
    expected = (ndtri(0.975) + ndtri(0.8)) ** 2 * variance / mean**2
    assert 1e4 < expected < 1e5
    assert expected / 1.7 < pair.needed < 1.7 * expected


def test_careless_answers_tell_thin_tails_from_thick_ones_in_words():
    log = careless_log(rounds(1_500, 500))
    found = fc.compare_models(log, {"thin": "thurstone", "thick": fc.ExponentialNoise(0.5)})
    (pair,) = found.differences
    assert (pair.first, pair.second, pair.is_told_apart) == ("thick", "thin", True)
    assert found.verdicts[0].startswith("thick predicts better than thin: by 0.0")
    assert "after the first 10" in found.summary() and found.verdicts[0] in found.summary()
    assert list(found.to_pandas().columns) == list(model_choice.Difference._fields)
    assert "thick predicts better" in repr(found)


def test_what_cannot_be_told_apart_is_said_with_how_many_answers_would_do():
    found = fc.compare_models(a_log(120), [*TWO, fc.BradleyTerry(2.0)], level=0.9)
    assert len(found.differences) == 3
    words = {frozenset(pair[:2]): text for pair, text in zip(found.differences, found.verdicts, strict=True)}
    text = words[frozenset(TWO)]
    assert "cannot be told apart with 100 answers; about " in text and text.endswith(" would do")
    assert int(text.split("about ")[1].split()[0].replace(",", "")) > 1_000
    # another scale is another unit of theta, and the same predictions but for the tolerance of the estimate
    same = next(p for p in found.differences if "BradleyTerry(scale=2.0)" in p[:2] and "bradley-terry" in p[:2])
    assert abs(same.difference) < 1e-3


def test_models_that_predict_the_same_are_never_told_apart():
    found = fc.compare_models(a_log(40), {"one": "bradley-terry", "other": fc.BradleyTerry()})
    assert found.differences[0][2:] == (0.0, 0.0, False, math.inf)
    assert found.verdicts == ["one and other cannot be told apart with 20 answers; they predict the same"]


def test_a_policy_lends_its_parameters_and_stays_as_it_is():
    policy, log = fc.MaxInP(2, ridge=5.0, estimator="sgd", rng=1), a_log(60)
    found = fc.compare_models(log, TWO, policy=policy, skip=0)
    assert not policy.theta.any()
    for name in TWO:
        mine = fc.replay(fc.MaxInP(2, ridge=5.0, estimator="sgd", comparison=name), log)
        assert found.replays[name].probabilities.tobytes() == mine.probabilities.tobytes()


@pytest.mark.filterwarnings("ignore:.*within 1e-13 of certain:UserWarning")
def test_an_impossible_answer_is_said_to_have_been_one():
    """SGD with enormous steps gives what happens next a probability of 0."""
    log = fc.Log.from_arrays([[1.0], [1.0], [1.0], [1.0]], [1, 0, 0, 1])
    policy = fc.CoLSTIM(1, estimator=fc.SGD(5_000.0))
    found = fc.compare_models(log, TWO, policy=policy, skip=0)
    assert "a probability of 0 was given to what happened" in found.verdicts[0]
    assert not found.differences[0].is_told_apart


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"log": [[1.0]]}, "log is a list; a Log is wanted"),
        ({"models": ["thurstone"]}, "models has 1 comparison models; two or more are wanted"),
        ({"models": "thurstone"}, "models is 'thurstone'; a list of two or more"),
        ({"models": fc.Thurstone()}, r"models\[0\] is 1.0; wanted one of"),
        ({"models": ["thurstone", "thurstone"]}, "models has 'thurstone' twice; a dict"),
        ({"models": ["thurstone", "cauchy"]}, r"models\[1\] is 'cauchy'; wanted one of"),
        ({"models": {"a": "thurstone", "b": 3}}, r"models\['b'\] is 3; wanted one of"),
        ({"models": {1: "thurstone", 2: "bradley-terry"}}, "a list of texts is wanted"),
        ({"policy": fc.UniformPairs()}, r"policy is UniformPairs\(\); a policy with a comparison model"),
        ({"policy": fc.CoLSTIM}, "a policy with a comparison model"),
        ({"policy": fc.CoLSTIM(3)}, "2 features"),
        ({"skip": 12}, "skip is 12 of 12 comparisons; two or more that count are wanted"),
        ({"skip": 11}, "skip is 11 of 12 comparisons; two or more that count are wanted"),
        ({"skip": -1}, "skip is -1; a whole number"),
        ({"level": 1.0}, "level is 1.0; a number between 0 and 1 is wanted"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        fc.compare_models(**{"log": a_log(12), "models": TWO, **arguments})
