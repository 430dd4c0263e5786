"""Comparison models against high-precision arithmetic, in Python, on arrays and compiled."""

import json
import math
from functools import cache
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
from conftest import rounds
from scipy.stats import kstest, norm
from twins import CLASSES, DEFAULTS, LARGEST, SCALES, Cauchy, textbook

from fastcolst import reference as ref
from fastcolst._compile import helper
from fastcolst.comparison import (
    BradleyTerry,
    ExponentialNoise,
    Thurstone,
    cdf,
    comparison_model,
    log_cdf,
    pdf,
    perturb,
    perturb_at_most,
    raw,
    score,
    weight,
)

FUNCTIONS = {"cdf": cdf, "pdf": pdf, "log_cdf": log_cdf, "score": score, "weight": weight}
MODELS = [cls(scale) for cls in CLASSES for scale in SCALES]
TINY, HUGE = np.finfo(np.float64).tiny, np.finfo(np.float64).max


@helper
def evaluate(model, margins, out):
    """Rows of out: cdf, pdf, log_cdf, score, weight."""
    for j in range(margins.size):
        out[0, j] = cdf(model, margins[j])
        out[1, j] = pdf(model, margins[j])
        out[2, j] = log_cdf(model, margins[j])
        out[3, j] = score(model, margins[j])
        out[4, j] = weight(model, margins[j])


@helper
def draw_one_by_one(model, rng, raws, draws):
    for j in range(raws.size):
        raws[j] = raw(model, rng)
        draws[j] = perturb(model, raws[j])


@helper
def bound_noise(model, raws, bounds):
    for j in range(raws.size):
        bounds[j] = perturb_at_most(model, raws[j])


def compiled(model, margins):
    out = np.empty((5, margins.size))
    evaluate(model, margins, out)
    return dict(zip(FUNCTIONS, out, strict=True))


def margins_of(cls):
    sizes = np.concatenate([[0.0, 0.3, 1.0, 3.0], np.geomspace(1e-9, LARGEST[cls.__name__], 61)])
    return np.concatenate([-sizes, sizes])


def exact(model):
    return _exact(type(model), model[0])  # models are tuples: equal numbers are equal, whatever the class


@cache
def _exact(cls, parameter):
    """For each function, its value at each margin by the textbook formula with 60 digits."""
    with mpmath.workdps(60):
        values = [textbook(cls(parameter), margin) for margin in margins_of(cls)]
    return {name: [functions[name] for functions in values] for name in FUNCTIONS}


def worst_relative_error(found, wanted):
    errors = [abs(f - w) / abs(w) for f, w in zip(found, wanted, strict=True) if TINY <= abs(w) <= HUGE]
    assert len(errors) > 60
    return float(max(errors))


# --- values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_arrays_agree_with_sixty_digits(model, name):
    found = getattr(model, name)(margins_of(type(model)))
    assert worst_relative_error(found, exact(model)[name]) < 1e-12


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_compiled_code_agrees_with_sixty_digits(model):
    found = compiled(model, margins_of(type(model)))
    for name, values in found.items():
        assert worst_relative_error(values, exact(model)[name]) < 1e-12, name


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_scalars_arrays_and_compiled_code_agree(model):
    """Up to the last bits of three implementations of exp; an exponent of 700 may lose three digits more."""
    margins = margins_of(type(model))
    in_kernels = compiled(model, margins)
    for name, function in FUNCTIONS.items():
        on_array = getattr(model, name)(margins.reshape(-1, 5))
        assert on_array.shape == (len(margins) // 5, 5)
        one_by_one = np.array([getattr(model, name)(float(u)) for u in margins])
        through_generic = np.array([function(model, float(u)) for u in margins])
        np.testing.assert_array_equal(through_generic, one_by_one)
        normal = np.abs(one_by_one) >= TINY
        for other in (on_array.ravel(), in_kernels[name]):
            np.testing.assert_allclose(other[normal], one_by_one[normal], rtol=3e-13, err_msg=name)
            np.testing.assert_allclose(other[~normal], one_by_one[~normal], rtol=0, atol=TINY, err_msg=name)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_models_agree_with_the_reference(model):
    reference = getattr(ref, type(model).__name__)(model[0])
    margins = np.linspace(-30.0, 30.0, 241) / 5.0
    for name in FUNCTIONS:
        np.testing.assert_allclose(getattr(model, name)(margins), getattr(reference, name)(margins), rtol=1e-12)
    raws = np.array([1e-3, 0.5, 1.0, 2.0, 30.0])
    np.testing.assert_allclose(model.perturb(raws), reference.perturb(raws), rtol=1e-15)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_probabilities_of_both_outcomes_add_up_to_one(model):
    margins = margins_of(type(model))
    np.testing.assert_allclose(model.cdf(margins) + model.cdf(-margins), 1.0, rtol=0, atol=4e-16)
    assert model.cdf(0.0) == 0.5


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_pdf_and_score_are_derivatives(model):
    margins = np.concatenate([np.linspace(-8.0, -0.05, 60), np.linspace(0.05, 8.0, 60)])
    step = 1e-5
    slope = (model.cdf(margins + step) - model.cdf(margins - step)) / (2.0 * step)
    np.testing.assert_allclose(model.pdf(margins), slope, rtol=1e-6, atol=1e-10)
    slope = (model.log_cdf(margins + step) - model.log_cdf(margins - step)) / (2.0 * step)
    np.testing.assert_allclose(model.score(margins), slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_limits_and_nan(model):
    steepest = {BradleyTerry: 1.0 / model[0], Thurstone: math.inf, ExponentialNoise: model[0]}[type(model)]
    limits = {
        "cdf": (0, 1),
        "pdf": (0, 0),
        "log_cdf": (-math.inf, 0),
        "score": (steepest, 0),
        "weight": (0, 0),
    }
    margins = np.array([-math.inf, math.inf, math.nan])
    with np.errstate(divide="ignore"):  # -inf and inf are the values wanted
        in_kernels = compiled(model, margins)
        on_arrays = {name: getattr(model, name)(margins) for name in FUNCTIONS}
    for name, limit in limits.items():
        for found in (on_arrays[name], in_kernels[name]):
            np.testing.assert_allclose(found, [*limit, math.nan], rtol=1e-15, atol=0, err_msg=name)


# --- scales (one test for each convention) ------------------------------------------------------------------


def test_bradley_terry_scale_divides_the_margin():
    assert float(BradleyTerry(2.0).cdf(2.0 * math.log(3.0))) == pytest.approx(0.75, rel=1e-15)


def test_thurstone_theta_is_sqrt_two_times_the_probit_coefficient():
    margins = np.linspace(-4.0, 4.0, 41)
    np.testing.assert_allclose(Thurstone().cdf(math.sqrt(2.0) * margins), norm.cdf(margins), rtol=1e-13)
    np.testing.assert_allclose(Thurstone(1.0 / math.sqrt(2.0)).cdf(margins), norm.cdf(margins), rtol=1e-13)


def test_thurstone_sigma_is_the_deviation_of_one_perturbation():
    assert float(Thurstone(3.0).cdf(3.0 * math.sqrt(2.0))) == pytest.approx(norm.cdf(1.0), rel=1e-14)


def test_exponential_noise_multiplies_the_margin_by_its_rate():
    """The paper prints |u|/lambda, which would give 1 - exp(-1/4)/2 here."""
    assert float(ExponentialNoise(2.0).cdf(0.5)) == pytest.approx(1.0 - math.exp(-1.0) / 2.0, rel=1e-15)


def test_thurstone_likelihood_is_flat_at_the_probit_fit_of_r(shared):
    folder = shared / "data" / "baseball"
    wins, trials, *columns = np.loadtxt(folder / "difference_vectors.csv", delimiter=",", skiprows=1).T
    contrasts = np.column_stack(columns)
    fit = json.loads((folder / "reference_fit.json").read_text())["fits"]["probit"]
    theta = math.sqrt(2.0) * np.array(fit["coef"])
    margins = contrasts @ theta
    slopes = wins * Thurstone().score(margins) - (trials - wins) * Thurstone().score(-margins)
    assert np.max(np.abs(contrasts.T @ slopes)) < 1e-12


# --- draws --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_difference_of_two_samples_follows_the_cdf(model):
    """Fixed seed; false-alarm rate 1e-6 for each model. A scale wrong by 5 % gives p < 1e-13."""
    rng = np.random.default_rng(1902)
    difference = model.sample(rng, 200_000) - model.sample(rng, 200_000)
    assert kstest(difference, model.cdf).pvalue > 1e-6


@pytest.mark.parametrize("cls", CLASSES)
def test_sample_is_a_float_or_an_array_of_the_size_asked_for(cls):
    assert np.ndim(cls().sample(np.random.default_rng(1))) == 0
    assert cls().sample(np.random.default_rng(1), (3, 4)).shape == (3, 4)


@pytest.mark.parametrize("cls", [*CLASSES, Cauchy])
def test_one_by_one_in_a_kernel_and_a_block_in_python_are_the_same_bits(cls):
    model = comparison_model(cls(1.7))
    n = rounds(20_000, 2_000)
    raws, draws = np.empty(n), np.empty(n)
    rng_kernel, rng_python = np.random.default_rng(5), np.random.default_rng(5)
    draw_one_by_one(model, rng_kernel, raws, draws)
    block = model.raw(rng_python, n)
    np.testing.assert_array_equal(raws, block)
    assert rng_kernel.random() == rng_python.random()
    np.testing.assert_allclose(draws, [model.perturb(value) for value in block], rtol=1e-13)


def test_gumbel_noise_of_a_zero_exponential_is_finite():
    assert math.isfinite(BradleyTerry(2.0).perturb(0.0))


# --- a model of one's own -----------------------------------------------------------------------------------


def test_a_minimal_model_gets_the_quotients():
    model = comparison_model(Cauchy(2.0))
    margins = np.array([-7.0, -1.0, 0.0, 0.5, 30.0])
    in_kernels = compiled(model, margins)
    for j, u in enumerate(map(float, margins)):
        win, lose, density = model.cdf(u), model.cdf(-u), model.pdf(u)
        wanted = [win, density, math.log(win), density / win, density**2 / (win * lose)]
        for name, value in zip(FUNCTIONS, wanted, strict=True):
            assert float(FUNCTIONS[name](model, u)) == pytest.approx(value, rel=1e-13), (name, u)
            assert in_kernels[name][j] == pytest.approx(value, rel=1e-13), (name, u)


def test_a_model_of_integers_is_the_model_of_floats():
    assert comparison_model(BradleyTerry(2)) == BradleyTerry(2.0)
    assert type(Thurstone(np.float32(2))[0]) is float


# --- the door -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cls"),
    [(name, type(model)) for name, (model, _) in DEFAULTS.items()],
)
def test_names_stand_for_default_models(name, cls):
    assert comparison_model(name) == cls()
    assert type(comparison_model(name)) is cls


class Lopsided(NamedTuple):
    scale: float = 1.0

    def cdf(self, u):
        return 1.0 / (1.0 + math.exp(-u / self.scale)) ** 2

    def pdf(self, u):
        return u

    def raw(self, rng, size=None):
        return rng.standard_exponential(size)

    def perturb(self, value):
        return value


class OnlyCdf(NamedTuple):
    scale: float = 1.0

    def cdf(self, u):
        return u


class OneByOne(NamedTuple):
    """In blocks, as a policy outside of kernels draws, it cannot be drawn from."""

    scale: float = 1.0
    cdf, pdf, perturb = BradleyTerry.cdf, BradleyTerry.pdf, BradleyTerry.perturb

    def raw(self, rng):
        return rng.standard_exponential()


class OneOnly(NamedTuple):
    """It takes the number of draws, and does not hear it."""

    scale: float = 1.0
    cdf, pdf, perturb = BradleyTerry.cdf, BradleyTerry.pdf, BradleyTerry.perturb

    def raw(self, rng, size=None):
        return rng.standard_exponential()


class NotATuple:
    cdf, pdf, raw, perturb = Lopsided.cdf, Lopsided.pdf, Lopsided.raw, Lopsided.perturb


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "logit",
            r"comparison is 'logit'; wanted one of 'bradley-terry', 'thurstone', 'exponential' or a model",
        ),
        (OnlyCdf(), r"comparison is OnlyCdf.*\(without: pdf, raw, perturb\)"),
        (None, r"comparison is None; .*\(without: cdf, pdf, raw, perturb\)"),
        (1.0, r"comparison is 1\.0; "),
        (BradleyTerry, r"comparison is the class BradleyTerry; an instance is wanted"),
        (NotATuple(), r"comparison: register needs a class that derives from typing\.NamedTuple"),
        (
            Lopsided(),
            r"comparison: Lopsided\.cdf\(0\.0\) \+ cdf\(-0\.0\) is 0\.5; a comparison function needs 1",
        ),
        (
            OneByOne(),
            r"comparison: OneByOne\.raw\(rng, 3\) fails with TypeError: .*; 3 raw variates, \(3,\), are wanted",
        ),
        (OneOnly(), r"comparison: OneOnly\.raw\(rng, 3\) has shape \(\); 3 raw variates, \(3,\), are wanted"),
    ],
)
def test_what_is_not_a_model_is_named(value, message):
    with pytest.raises(ValueError, match="^" + message):
        comparison_model(value)


def test_the_argument_is_named_as_the_caller_names_it():
    with pytest.raises(ValueError, match=r"^perturbation is 'x'"):
        comparison_model("x", "perturbation")


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan, "wide", None])
def test_bad_scales_are_named(cls, bad):
    with pytest.raises(ValueError, match=rf"^{cls.__name__}: (scale|sigma|rate) is .*number is wanted$"):
        cls(bad)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_noise_does_not_exceed_its_bound_which_is_near(model):
    """Right where the chord of the logarithm touches it too, and for numbers so small that they count as TINY."""
    powers = 2.0 ** np.arange(-1074.0, 11.0)
    raws = np.concatenate([[0.0], powers, np.nextafter(powers, 0.0), np.nextafter(powers, np.inf), 1.44 * powers])
    if isinstance(model, Thurstone):
        raws = np.concatenate([raws, -raws])
    bounds = np.empty(raws.size)
    bound_noise(model, raws, bounds)
    noise = np.array([perturb(model, value) for value in raws])
    assert (noise <= bounds).all()
    assert (bounds <= noise + 0.06 * (model[0] if isinstance(model, BradleyTerry) else 0.0) + 1e-12).all()


def test_a_model_that_bounds_no_noise_has_any():
    bounds = np.zeros(2)
    bound_noise(comparison_model(Cauchy()), np.ones(2), bounds)
    assert (bounds == np.inf).all()
