"""Careless answers: the model against many digits, in kernels, simulations and files, and its rate from a profile."""

from __future__ import annotations

import math
import warnings

import mpmath
import numpy as np
import pytest
from conftest import JIT, rounds
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import kstest
from test_comparison import compiled
from twins import CLASSES, OURS, Cauchy, textbook

import fastcolst as fc
from fastcolst._checks import looked_at
from fastcolst.comparison import comparison_model
from fastcolst.estimation.concavity import is_log_concave
from fastcolst.experiments import laws
from fastcolst.experiments.tables import scenario_of, scenario_table

pytestmark = pytest.mark.either_lane

MARGINS = np.concatenate([sign * np.geomspace(1e-6, 300.0, 41) for sign in (-1.0, 1.0)])
RATES = (0.003, 0.2, 0.9)
NOTED = pytest.mark.filterwarnings("ignore:.*is not concave, so that:UserWarning")


def exact(model, u):
    """The functions of a model with lapses, from those of its base, in mpmath's current precision."""
    e, base = mpmath.mpf(model.rate), textbook(model.base, u)
    win = e / 2 + (1 - e) * base["cdf"]
    density = (1 - e) * base["pdf"]
    return {
        "cdf": win,
        "pdf": density,
        "log_cdf": mpmath.log(win),
        "score": density / win,
        "weight": density**2 / (win * (1 - win)),
    }


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("base", OURS, ids=repr)
def test_functions_agree_with_sixty_digits_in_python_and_in_kernels(base, rate):
    model = comparison_model(fc.Lapse(base, rate))
    in_kernels = compiled(model, MARGINS)
    with mpmath.workdps(60):
        wanted = [exact(model, u) for u in MARGINS.tolist()]
    for name, values in in_kernels.items():
        expected = np.array([float(functions[name]) for functions in wanted])
        normal = np.abs(expected) > 1e-290
        for found in (values, getattr(model, name)(MARGINS)):
            np.testing.assert_allclose(found[normal], expected[normal], rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("base", OURS, ids=repr)
def test_curvature_is_the_second_derivative_where_that_is_concave(base, rate):
    model = fc.Lapse(base, rate)
    for u in (-9.0, -2.5, -0.7, 0.4, 1.9, 6.0):
        with mpmath.workdps(60):
            second = -mpmath.diff(lambda x: exact(model, x)["log_cdf"], u, 2)
        assert model.curvature(u) == pytest.approx(max(0.0, float(second)), rel=1e-8, abs=1e-12)
    assert np.isfinite(model.curvature(np.array([-1e300, -1e150, 1e150, 1e300]))).all()


@pytest.mark.parametrize("base", OURS, ids=repr)
def test_without_lapses_it_is_its_base(base):
    model = fc.Lapse(base, 0.0)
    for name in ("cdf", "pdf", "log_cdf", "score", "curvature"):
        assert getattr(model, name)(MARGINS).tolist() == getattr(base, name)(MARGINS).tolist(), name


@pytest.mark.parametrize("cls", CLASSES)
def test_answers_of_simulations_have_lapses(cls):
    """Kolmogorov-Smirnov over what decides duels, where it is no lapse, and the share of lapses: level 1e-4."""
    model, m = comparison_model(fc.Lapse(cls(0.7), 0.3)), rounds(100_000, 4_000)
    drawn = np.empty(m)
    laws.fill_latent(model, np.random.default_rng(2), drawn)
    is_lapse = np.abs(drawn) > 1e100
    assert abs(is_lapse.mean() - 0.3) < 4.0 * math.sqrt(0.3 * 0.7 / m)
    assert abs((drawn[is_lapse] > 0.0).mean() - 0.5) < 4.0 * 0.5 / math.sqrt(0.3 * m)
    assert kstest(drawn[~is_lapse], model.base.cdf).pvalue > 1e-4


def test_a_model_of_ones_own_may_say_what_decides_its_duels():
    """As before for those that do not: the difference of two draws, from the same stream."""
    found, rng = np.empty(5), np.random.default_rng(4)
    laws.fill_latent(fc.BradleyTerry(2.0), rng, found)
    gumbels = -2.0 * np.log(np.random.default_rng(4).standard_exponential(10))
    np.testing.assert_allclose(found, gumbels[::2] - gumbels[1::2], rtol=1e-12)


@NOTED
def test_simulated_with_lapses_everybody_has_more_regret_and_noise_is_the_base_s():
    policies = {"sgd": fc.CoLSTIM(2, estimator="sgd", comparison=fc.Lapse(rate=0.4), ridge=1.0)}
    horizon, runs = rounds(2_000, 150), rounds(8, 2)
    results = {
        rate: fc.simulate(
            policies, fc.Scenario.hard(n_arms=4, n_features=2, comparison=fc.Lapse(rate=rate)), horizon, runs, rng=3
        )
        for rate in (0.0, 0.9)
    }
    regret = {rate: result.average_regret["sgd"][:, -1].mean() for rate, result in results.items()}
    assert regret[0.9] > 1.2 * regret[0.0]
    assert fc.Lapse(fc.Thurstone(2.0)).perturb(1.5) == 3.0


# --- the rate -----------------------------------------------------------------------------------------------


def careless_answers(rate, n=2_500):
    rng = np.random.default_rng(round(1000 * rate))
    contrasts = rng.normal(size=(n, 2))
    wins = contrasts @ [3.0, -2.0] + rng.logistic(size=n) > 0.0
    is_lapse = rng.random(n) < rate
    wins[is_lapse] = rng.random(int(is_lapse.sum())) < 0.5
    return contrasts, wins


def loss(parameters, contrasts, wins, rate):
    """Minus the log-likelihood of theta, in plain NumPy."""
    won = rate / 2.0 + (1.0 - rate) * expit(np.where(wins, 1.0, -1.0) * (contrasts @ parameters))
    return -np.log(np.maximum(won, 1e-300)).sum()


@pytest.mark.jit
@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_the_profile_finds_the_joint_maximum_that_scipy_finds_from_many_starts(rate):
    contrasts, wins = careless_answers(rate)
    found = fc.fit(contrasts, wins, lapse="profile")
    rng = np.random.default_rng(0)
    best = min(
        (
            minimize(lambda p: loss(p[:2], contrasts, wins, expit(p[2])), start, method="BFGS", options={"gtol": 1e-7})
            for start in np.column_stack([4.0 * rng.normal(size=(6, 2)), np.full(6, -3.0)])
        ),
        key=lambda result: result.fun,
    )
    assert found.lapse.rate == pytest.approx(float(expit(best.x[2])), abs=2e-4)
    assert found.log_likelihood == pytest.approx(-best.fun, abs=1e-4)
    np.testing.assert_allclose(found.theta, best.x[:2], atol=5e-3)
    assert found.comparison == fc.Lapse("bradley-terry", found.lapse.rate)
    low, high = found.lapse.interval
    assert low < rate < high
    for end in (low, high):  # where scipy's profile has dropped by half the quantile of chi-square
        at_end = minimize(loss, best.x[:2], args=(contrasts, wins, end)).fun
        drop = 2.0 * (at_end - best.fun)
        assert drop == pytest.approx(3.8414588, abs=0.02) or (end == 0.0 and 0.0 < drop < 3.85)
    assert str(found.lapse) in found.summary()
    # without lapses theta is pulled to 0, and with the rate known it is what the profile found
    attenuated = fc.fit(contrasts, wins)
    assert np.all(np.abs(attenuated.theta) < 0.9 * np.abs(found.theta))
    again = fc.fit(contrasts, wins, comparison=found.comparison)
    np.testing.assert_allclose(again.theta, found.theta, rtol=1e-6)
    assert again.lapse is None and attenuated.lapse is None


def test_a_fit_with_a_known_rate_is_a_maximum():
    """The gradient by central differences of the plain loss is nought, and each step away from theta is uphill."""
    contrasts, wins = careless_answers(0.2, rounds(1_500, 300))
    theta = fc.fit(contrasts, wins, comparison=fc.Lapse(rate=0.2)).theta
    at_theta = loss(theta, contrasts, wins, 0.2)
    for k in range(2):
        step = np.eye(2)[k] * 1e-4
        up, down = (loss(theta + sign * step, contrasts, wins, 0.2) for sign in (1.0, -1.0))
        assert abs(up - down) / 2e-4 < 1e-4
        assert min(up, down) > at_theta


def test_no_lapse_is_found_where_there_is_none_and_a_grid_of_ones_own_is_kept_to():
    contrasts, wins = careless_answers(0.0, rounds(600, 100))
    found = fc.fit(contrasts, wins, lapse=[0.0, 0.02, 0.1], ridge=0.5, comparison="thurstone")
    assert found.lapse.rates.tolist() == [0.0, 0.02, 0.1]
    assert found.lapse.rate < rounds(0.02, 0.1) and found.lapse.interval[0] == 0.0
    plain = fc.fit(contrasts, wins, ridge=0.5, comparison="thurstone")
    penalised = plain.log_likelihood - 0.25 * plain.theta @ plain.theta
    assert found.lapse.log_likelihoods[0] == pytest.approx(penalised, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lapse": "grid"}, "lapse is 'grid'; 'profile', two or more rates"),
        ({"lapse": 0.1}, r"lapse is 0.1; .*or None, is wanted"),
        ({"lapse": [0.1]}, "two or more rates from 0 to below 1 in their order"),
        ({"lapse": [0.1, 0.0]}, "in their order"),
        ({"lapse": [0.0, 1.0]}, "below 1"),
        ({"lapse": "profile", "score": "residual"}, "score 'residual'; a profile is of a likelihood, which is wanted"),
        ({"lapse": "profile", "comparison": fc.Lapse()}, "its base BradleyTerry.* is wanted"),
    ],
)
def test_what_is_no_profile_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        fc.fit([[1.0], [1.0], [1.0]], [1, 0, 1], **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rate": 1.0}, "Lapse: rate is 1.0; a number from 0 to below 1 is wanted"),
        ({"rate": -0.1}, "Lapse: rate is -0.1"),
        ({"rate": math.nan}, "Lapse: rate is nan"),
        ({"base": "cauchy"}, "Lapse: base is 'cauchy'; wanted one of"),
        ({"base": 3}, "Lapse: base is 3; wanted one of"),
    ],
)
def test_what_is_no_lapse_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        fc.Lapse(**arguments)


# --- estimators that keep up ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [*OURS, fc.Lapse(rate=0.0), fc.BradleyTerry(1e-3), fc.Thurstone(300.0)], ids=repr)
def test_models_of_one_maximum_are_known(model):
    assert is_log_concave(model)


@pytest.mark.parametrize("model", [fc.Lapse(base, 0.02) for base in OURS] + [Cauchy(), Cauchy(50.0)], ids=repr)
def test_models_of_perhaps_several_are_known(model):
    assert not is_log_concave(model)


def test_a_model_that_fails_far_out_is_not_accused():
    class Failing:
        def pdf(self, u):
            return 0.25

        def score(self, u):
            raise OverflowError

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert is_log_concave(Failing())


@pytest.mark.parametrize("estimator", ["mle", "online-newton"])
@pytest.mark.parametrize("how", ["log", "rounds"])
def test_an_estimator_that_cannot_keep_its_promise_says_so_once(estimator, how):
    contrasts, wins = careless_answers(0.1, 70)
    policy = fc.CoLSTIM(2, comparison=fc.Lapse(rate=0.1), estimator=estimator, ridge=1.0, rng=1)

    def go_on():
        if how == "log":
            policy.learn_and_predict(contrasts[:5], wins[:5])
            return
        for _ in range(64):
            policy.select(np.eye(2))

    with pytest.warns(UserWarning, match="may have several maxima: theta of .* follows one") as noted:
        go_on()
    assert noted[0].filename == __file__
    go_on()  # warnings are errors


def test_estimators_without_such_a_promise_and_models_of_one_maximum_say_nothing():
    contrasts, wins = careless_answers(0.1, 70)
    for arguments in ({"estimator": "sgd", "comparison": fc.Lapse(rate=0.1)}, {"comparison": fc.Lapse(rate=0.0)}):
        policy = fc.CoLSTIM(2, ridge=1.0, **arguments)
        policy.learn_and_predict(contrasts, wins)


@NOTED
@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_the_streaming_estimate_is_near_the_fit(rate):
    """Within half a standard error, as the warning has it: tenths."""
    contrasts, wins = careless_answers(rate, rounds(1_500, 150))
    policy = fc.CoLSTIM(2, comparison=fc.Lapse(rate=rate), rng=1)
    policy.learn_and_predict(contrasts, wins)
    found = fc.fit(contrasts, wins, comparison=fc.Lapse(rate=rate))
    off = policy.theta - found.theta
    assert off @ np.linalg.solve(found.covariance, off) < 0.5**2


# --- files and tables ---------------------------------------------------------------------------------------


@NOTED
def test_it_is_saved_and_stands_in_tables(tmp_path):
    model = fc.Lapse(fc.Thurstone(2.0), 0.1)
    contrasts, wins = careless_answers(0.1, 40)
    policy = fc.CoLSTIM(2, comparison=model, ridge=1.0, rng=1)
    policy.learn_and_predict(contrasts, wins)
    policy.save(tmp_path / "policy.npz")
    again = fc.load_policy(tmp_path / "policy.npz")
    assert again.get_params()["comparison"] == model and again.theta.tobytes() == policy.theta.tobytes()
    assert repr(model) == "Lapse(base=Thurstone(sigma=2.0), rate=0.1)"
    scenario = fc.Scenario.easy(n_arms=3, n_features=2, comparison=model)
    assert scenario_table(scenario_of(scenario_table(scenario), "there")) == scenario_table(scenario)
    table = {"name": "fastcolst.lapse:Lapse", "base": {"name": "thurstone", "sigma": 2.0}, "rate": 0.1}
    assert scenario_table(scenario)["comparison"] == table
    named = {**table, "base": "thurstone"}
    assert scenario_table(scenario_of({"name": "easy", "comparison": named}, "there"))["comparison"]["rate"] == 0.1
    with pytest.raises(ValueError, match=r"there, comparison, comparison: .*'laplace'"):
        scenario_of({"name": "easy", "comparison": {**table, "base": {"name": "laplace"}}}, "there")
    assert looked_at(comparison_model, "fastcolst.lapse:Lapse") == fc.Lapse()


@pytest.mark.skipif(not JIT, reason="there are no signatures without the JIT")
def test_bases_do_not_get_each_other_s_machine_code():
    models = [comparison_model(fc.Lapse(base, 0.2)) for base in OURS]
    values = [compiled(model, MARGINS)["cdf"] for model in models]
    for model, found in zip(models, values, strict=True):
        np.testing.assert_allclose(found, model.cdf(MARGINS), rtol=1e-12)
