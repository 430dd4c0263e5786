"""SGD against the derivative of the likelihood and against the reference; what it refuses and survives."""

import math
import pickle
import warnings
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
from conftest import rounds
from hypothesis import example, given
from hypothesis import strategies as st

import fastcolst as fc
from fastcolst import reference as ref
from fastcolst._compile import helper
from fastcolst.comparison import BradleyTerry, ExponentialNoise, Thurstone
from fastcolst.estimation.estimators import engine_of, estimator_of
from fastcolst.estimation.memory import snapshot
from fastcolst.estimation.objective import Objective
from fastcolst.estimation.protocol import LEARNED, OVERFLOW, learn
from fastcolst.estimation.push import implicit_slope
from fastcolst.estimation.sgd import SGD

MODELS = [BradleyTerry(1.5), Thurstone(0.7), ExponentialNoise(2.0)]
SCORES = ["likelihood", "residual"]


@helper
def learn_all(estimator, model, memory, contrasts, wins, out):
    """Learn row after row; theta after each goes to out."""
    for i in range(contrasts.shape[0]):
        learn(estimator, model, memory, contrasts[i], 1.0 if wins[i] else 0.0, 1.0)
        for k in range(out.shape[1]):
            out[i, k] = memory.theta[k]


def log_likelihood(model, margin):
    """log F in mpmath, from the textbook formulas."""
    scale = mpmath.mpf(model[0])
    if isinstance(model, BradleyTerry):
        return -mpmath.log1p(mpmath.exp(-margin / scale))
    if isinstance(model, Thurstone):
        return mpmath.log(mpmath.erfc(-margin / (2 * scale)) / 2)
    tail = mpmath.exp(-scale * abs(margin)) / 2
    return mpmath.log(tail if margin < 0 else 1 - tail)


def data(seed, n, d):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.random(n) < 0.5


# --- one step -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("won", [True, False])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_likelihood_step_follows_the_gradient(model, won):
    """The derivative of the log-likelihood at theta, found by mpmath with 40 digits, times the rate."""
    rng = np.random.default_rng(3)
    for spread in (0.1, 1.0, 10.0):
        contrast = rng.standard_normal(4)
        memory = engine_of(SGD()).memory(4)
        memory.theta[:] = spread * rng.standard_normal(4)
        before = memory.theta.copy()
        assert learn(engine_of(SGD(0.25)), model, memory, contrast, float(won), 1.0) == LEARNED
        with mpmath.workdps(40):
            margin = mpmath.fdot(before.tolist(), contrast.tolist())
            sign = 1 if won else -1
            slope = mpmath.diff(lambda m, sign=sign: log_likelihood(model, sign * m), margin)
        np.testing.assert_allclose(memory.theta - before, 0.25 * float(slope) * contrast, rtol=1e-9, atol=1e-13)
        assert memory.learned == 1


@pytest.mark.parametrize("won", [True, False])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_residual_step_follows_the_answer_less_its_probability(model, won):
    contrast = np.array([0.5, -2.0, 1.0])
    memory = engine_of(SGD()).memory(3)
    memory.theta[:] = 1.0, 0.3, -0.2
    before = memory.theta.copy()
    assert learn(engine_of(SGD(0.25, score="residual")), model, memory, contrast, float(won), 1.0) == LEARNED
    residual = won - float(model.cdf(float(before @ contrast)))
    np.testing.assert_allclose(memory.theta - before, 0.25 * residual * contrast, rtol=1e-12)


def test_scores_agree_for_the_standard_logistic_model_only():
    contrasts, wins = data(5, 30, 3)
    for model in (BradleyTerry(), *MODELS):
        thetas = []
        for score in SCORES:
            memory = engine_of(SGD()).memory(3)
            learn_all(engine_of(SGD(score=score)), model, memory, contrasts, wins, np.empty((30, 3)))
            thetas.append(memory.theta)
        assert np.allclose(*thetas, rtol=1e-12) == (model == BradleyTerry() and isinstance(model, BradleyTerry))


# --- many steps ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize(
    ("rate", "decay", "radius"), [(0.5, 0.0, None), (0.5, 0.5, 1.0), (2.0, 1.0, None), (3.0, 0.0, 0.7)]
)
def test_theta_is_that_of_the_reference(model, score, rate, decay, radius):
    """Contrasts are short: steps longer than the likelihood's curvature allows amplify rounding errors."""
    contrasts, wins = data(11, rounds(2_000, 200), 5)
    contrasts *= 0.2
    thetas = np.empty_like(contrasts)
    estimator = engine_of(SGD(rate, decay, radius, score))
    memory = estimator.memory(5)
    learn_all(estimator, model, memory, contrasts, wins, thetas)
    settings = {"learning_rate": rate, "decay": decay, "radius": radius, "score": score}
    comparison = getattr(ref, type(model).__name__)(model[0])
    reference = ref.CoLSTIM(5, n_arms=3, comparison=comparison, **settings)
    for contrast, won, theta in zip(contrasts, wins, thetas, strict=True):
        reference.update(contrast, bool(won))
        np.testing.assert_allclose(theta, reference.theta, rtol=0, atol=1e-11)
    assert memory.learned == len(contrasts)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 0.5, 3.0]), st.sampled_from(SCORES))
def test_theta_stays_in_the_ball_and_keeps_its_direction(seed, radius, score):
    contrasts, wins = data(seed, 20, 4)
    free, bound = engine_of(SGD(1.0, score=score)), engine_of(SGD(1.0, radius=radius, score=score))
    memory = bound.memory(4)
    for contrast, won in zip(contrasts, wins, strict=True):
        unbound = snapshot(memory)
        learn(free, MODELS[0], unbound, contrast, float(won), 1.0)
        learn(bound, MODELS[0], memory, contrast, float(won), 1.0)
        norm = float(np.linalg.norm(unbound.theta))
        assert np.linalg.norm(memory.theta) <= radius * (1.0 + 1e-15 * 4)
        np.testing.assert_allclose(memory.theta, unbound.theta * min(1.0, radius / norm), rtol=1e-14)


def test_steps_shrink_with_the_number_learned():
    memory = engine_of(SGD()).memory(1)
    memory.learned[()] = 8
    learn(engine_of(SGD(1.0, decay=0.5)), BradleyTerry(), memory, np.ones(1), 1.0, 1.0)
    assert memory.theta[0] == pytest.approx(0.5 / 3.0, rel=1e-15)  # the ninth step
    assert memory.learned == 9


def test_steps_of_a_constant_rate_add_up_to_the_answers():
    """With z = 1, theta_n = rate * sum(y - F), so the mean F tends to the share of wins, like 1/n."""
    n = rounds(20_000, 2_000)
    wins = np.random.default_rng(2).random(n) < 0.7
    thetas = np.empty((n, 1))
    learn_all(
        engine_of(SGD(0.1, score="residual")), Thurstone(), engine_of(SGD()).memory(1), np.ones((n, 1)), wins, thetas
    )
    before = np.concatenate([[0.0], thetas[:-1, 0]])
    total = 0.1 * (np.sum(wins) - np.sum(Thurstone().cdf(before)))
    assert thetas[-1, 0] == pytest.approx(total, rel=1e-9)


# --- overflow -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("contrast", [[1e200, -1e200], [1e308, 1.0], [math.inf, 0.0], [0.0, math.nan]], ids=str)
def test_a_step_that_overflows_changes_no_bit(model, score, contrast):
    estimator = engine_of(SGD(score=score))
    memory = estimator.memory(2)
    memory.theta[:], memory.learned[()] = (0.25, -0.0), 7
    before = [field.tobytes() for field in memory]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        status = learn(estimator, model, memory, np.array(contrast), 0.0, 1.0)
    assert status == OVERFLOW
    assert [field.tobytes() for field in memory] == before


# --- the object ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [
        SGD(),
        SGD(0.1, 0.5, 2.0, "residual"),
        SGD(learning_rate=1, decay=1, radius=3),
        SGD(np.float32(0.1), radius=np.float64(2.0)),
        SGD(radius=math.inf),
        SGD(score=np.str_("residual")),
    ],
    ids=repr,
)
def test_repr_and_pickle_rebuild_the_estimator(estimator):
    for copy in (eval(repr(estimator)), pickle.loads(pickle.dumps(estimator))):  # noqa: S307
        assert type(copy) is SGD
        assert copy == estimator
        assert repr(copy) == repr(estimator)
        assert [type(field) for field in copy] == [float, float, type(estimator.radius), str, bool]


def test_repr_says_what_the_caller_said():
    assert repr(SGD()) == "SGD(learning_rate=0.5, decay=0.0, radius=None, score='likelihood', standardize=False)"
    residual = "SGD(learning_rate=1.0, decay=0.0, radius=2.0, score='residual', standardize=False)"
    assert repr(SGD(1, radius=2, score="residual")) == residual


def test_memory_starts_at_zero():
    memory = engine_of(SGD()).memory(3)
    assert memory.theta.tolist() == [0.0, 0.0, 0.0]
    assert memory.learned.shape == ()
    assert memory.learned == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": 0.0}, r"SGD: learning_rate is 0\.0; a positive finite number is wanted"),
        ({"learning_rate": -1}, r"SGD: learning_rate is -1\.0; "),
        ({"learning_rate": math.inf}, r"SGD: learning_rate is inf; "),
        ({"learning_rate": math.nan}, r"SGD: learning_rate is nan; "),
        ({"learning_rate": "fast"}, r"SGD: learning_rate is 'fast'; a number is wanted"),
        ({"decay": -0.1}, r"SGD: decay is -0\.1; a number in \[0, 1\] is wanted"),
        ({"decay": 1.5}, r"SGD: decay is 1\.5; "),
        ({"decay": math.nan}, r"SGD: decay is nan; "),
        ({"radius": 0}, r"SGD: radius is 0; a positive number or None is wanted"),
        ({"radius": -2.0}, r"SGD: radius is -2\.0; "),
        ({"radius": math.nan}, r"SGD: radius is nan; "),
        ({"radius": "auto"}, r"SGD: radius is 'auto'; "),
        ({"score": "loss"}, r"SGD: score is 'loss'; wanted one of 'likelihood', 'residual'"),
        ({"score": 1}, r"SGD: score is 1; "),
        ({"score": 2}, r"SGD: score is 2; "),
        ({"learning_rate": True}, r"SGD: learning_rate is True; a number is wanted"),
        ({"decay": np.True_}, r"SGD: decay is "),
        ({"radius": True}, r"SGD: radius is True; "),
        ({"radius": -math.inf}, r"SGD: radius is -inf; "),
        ({"score": True}, r"SGD: score is True; "),
        ({"score": None}, r"SGD: score is None; "),
    ],
)
def test_bad_parameters_are_named(settings, message):
    with pytest.raises(ValueError, match="^" + message):
        SGD(**settings)


# --- the door -----------------------------------------------------------------------------------------------


class Memory(NamedTuple):
    theta: np.ndarray
    learned: np.ndarray


class Stubborn(NamedTuple):
    """An estimator of one's own, which learns nothing."""

    value: float = 0.0

    def memory(self, n_features):
        return Memory(np.full(n_features, self.value), np.zeros((), np.int64))

    def learn(self, model, memory, contrast, share, weight):
        memory.learned[()] += 1
        return 0


def rebinds(memory, contrast):
    memory.theta = memory.theta + contrast


class Rebinding(NamedTuple):
    """Would compile, and never learn: kernels see the memory through a handle of their own."""

    value: float = 0.0

    def memory(self, n_features):
        return Memory(np.zeros(n_features), np.zeros((), np.int64))

    def learn(self, model, memory, contrast, share, weight):
        memory.theta = memory.theta + contrast
        return 0


class AddingTo(NamedTuple):
    value: float = 0.0
    memory = Rebinding.memory

    def learn(self, model, memory, contrast, share, weight):
        memory.theta += contrast
        return 0


class RebindingElsewhere(NamedTuple):
    value: float = 0.0
    memory = Rebinding.memory

    def learn(self, model, memory, contrast, share, weight):
        rebinds(memory, contrast)
        return 0


class Telling(NamedTuple):
    """An estimator of one's own with a word for how it stands, and a memory unlike ours."""

    value: float = 0.0
    memory = Rebinding.memory
    learn = Stubborn.learn

    def status(self, memory):
        return "tired" if memory.learned > 3 else "separated"


class Forgetful(NamedTuple):
    value: float = 0.0

    def learn(self, model, memory, contrast, share, weight):
        return 0


class NotATuple:
    memory, learn = Stubborn.memory, Stubborn.learn


def test_the_name_and_instances_stand_for_estimators():
    assert estimator_of("sgd") == SGD()
    estimator = SGD(0.1)
    assert estimator_of(estimator) == estimator


def test_an_estimator_of_ones_own_learns_in_a_kernel():
    estimator = estimator_of(Stubborn(2.0))
    memory = estimator.memory(3)
    contrasts, wins = data(1, 4, 3)
    thetas = np.empty((4, 3))
    learn_all(estimator, MODELS[0], memory, contrasts, wins, thetas)
    assert memory.learned == 4
    assert np.all(thetas == 2.0)


@pytest.mark.parametrize("estimator", [Rebinding(), AddingTo(), RebindingElsewhere()], ids=lambda it: type(it).__name__)
def test_a_memory_that_is_rebound_is_refused(estimator):
    with pytest.raises(ValueError, match=r"^estimator: \w+: \w+ sets the attribute theta.*in place: \.theta\[:\] = "):
        fc.CoLSTIM(3, estimator=estimator)


class Scalars(NamedTuple):
    theta: Any
    n: Any = 0


@pytest.mark.parametrize(
    "memory",
    [
        {"theta": np.zeros(3)},
        Scalars(np.zeros(3)),
        Scalars(np.zeros(2), np.zeros(1)),
        Scalars(np.zeros(3, np.float32), np.zeros(1)),
        Scalars(np.zeros((3, 2))[:, 0], np.zeros(1)),
        Scalars([0.0, 0.0, 0.0], np.zeros(1)),
    ],
    ids=str,
)
def test_a_memory_that_kernels_would_copy_is_refused(memory, monkeypatch):
    monkeypatch.setattr(Stubborn, "memory", lambda self, n_features: memory)
    with pytest.raises(ValueError, match=r"^estimator: Stubborn\.memory\(3\) is .*NamedTuple of writable arrays"):
        fc.CoLSTIM(3, estimator=Stubborn())


def test_a_status_of_ones_own_is_told_whatever_the_memory():
    rng = np.random.default_rng(0)
    policy = fc.CoLSTIM(2, estimator=Telling(), exploration_rounds=2, ridge=1.0, rng=0, allow_self_duel=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for _ in range(130):
            policy.update(policy.select(rng.normal(size=(3, 2))), True)
    assert policy.status == "tired"


@pytest.mark.parametrize("estimator", [fc.MLE(), fc.SGD(), fc.OnlineNewton()], ids=lambda it: type(it).__name__)
def test_an_estimators_public_face_is_its_fields(estimator):
    public = {name for name in dir(estimator) if not name.startswith("_")}
    assert public == set(estimator._fields) | {"count", "index"}  # a tuple's own
    assert estimator_of(estimator) == estimator
    assert hash(estimator) == hash(type(estimator)(*estimator))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("adam", r"estimator is 'adam'; wanted 'sgd', 'mle', 'online-newton' or an estimator"),
        (
            None,
            r"estimator is None; wanted 'sgd', 'mle', 'online-newton' or a NamedTuple with the methods",
        ),
        (SGD, r"estimator is the class SGD; an instance is wanted: fc.SGD\(\)"),
        (Forgetful(), r"estimator is Forgetful"),
        (NotATuple(), r"estimator: register needs a class that derives from typing\.NamedTuple"),
    ],
)
def test_what_is_not_an_estimator_is_named(value, message):
    with pytest.raises(ValueError, match="^" + message):
        estimator_of(value)


# --- the implicit Newton step -------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [0, 1], ids=SCORES)
@pytest.mark.parametrize("model", MODELS, ids=repr)
@given(margin=st.floats(-30.0, 30.0), log_variance=st.floats(-6.0, 6.0))
@example(margin=-0.48, log_variance=0.2)  # of a model with a kink: Newton's method alone goes to and fro for ever
@example(margin=-30.0, log_variance=36.0)  # a slope of 1e-35, from a bracket up to 1 or 30
@example(margin=-1e6, log_variance=16.0)  # far away S is a step
def test_the_slope_of_an_implicit_step_solves_its_equation(model, score, margin, log_variance):
    """s = S(e + q s), and the curvature is that of this margin."""
    twin, q = getattr(ref, type(model).__name__)(model[0]), 10.0**log_variance
    objective = Objective(model, score, 0.0, math.inf, True)
    s, w = implicit_slope(objective, margin, q, 1.0)

    def excess(s):
        return s - float(ref.pull(twin, SCORES[score], margin + q * s))

    assert excess(s * (1.0 - 1e-9)) <= 0.0 <= excess(s * (1.0 + 1e-9))
    if abs(margin + q * s) > 1e-6:  # off the kink
        assert q * abs(w - float(ref.bend(twin, SCORES[score], margin + q * s))) <= 1e-8 * (1.0 + q * w)
