"""The NumPy reference against high-precision arithmetic and against Algorithm 1 worked out by hand."""

import math
from collections import Counter

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest
from twins import LARGEST, PLAIN_CLASSES, SCALES, SCORES, textbook

from fastcolst import reference as ref
from fastcolst.reference import BradleyTerry, CoLSTIM, ExponentialNoise, Thurstone, UniformPairs

pytestmark = pytest.mark.either_lane

MODELS = [cls(scale) for cls in PLAIN_CLASSES for scale in SCALES]
ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


# comparison models


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_models_agree_with_high_precision_arithmetic(model):
    sizes = np.concatenate([[0.0, 0.3, 1.0, 3.0], np.geomspace(1e-8, LARGEST[type(model).__name__], 45)])
    compared = Counter()
    for u in np.concatenate([-sizes, sizes]):
        with mpmath.workdps(50):
            functions = textbook(model, u)
        for name, exact in functions.items():
            if not np.finfo(np.float64).tiny <= abs(exact) <= np.finfo(np.float64).max:
                continue
            found = float(getattr(model, name)(u))
            assert abs(found - exact) <= 1e-12 * abs(exact), (name, u, found, float(exact))
            compared[name] += 1
    assert min(compared.values()) > 40


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_cdf_is_symmetric_and_vectorised(model):
    u = np.concatenate([-np.geomspace(1e-6, 1e3, 40), [0.0], np.geomspace(1e-6, 1e3, 40)]).reshape(9, 9)
    np.testing.assert_allclose(model.cdf(u) + model.cdf(-u), 1.0, rtol=0, atol=3e-16)
    for name in ("cdf", "pdf", "log_cdf", "score", "weight"):
        values = getattr(model, name)(u)
        assert values.shape == (9, 9)
        assert values[2, 3] == getattr(model, name)(u[2, 3])


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_difference_of_two_draws_follows_the_cdf(model):
    """Fixed seed; false-alarm rate 1e-6 per model. A scale wrong by 10 % gives p < 1e-20 here."""
    rng = np.random.default_rng(20220217)
    first, second = model.perturb(model.raw(rng, 200_000)), model.perturb(model.raw(rng, 200_000))
    assert kstest(first - second, model.cdf).pvalue > 1e-6


def test_draws_of_g_are_the_named_distributions():
    raw = np.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(BradleyTerry(2.0).perturb(raw), -2.0 * np.log(raw))
    np.testing.assert_array_equal(Thurstone(3.0).perturb(raw), [1.5, 3.0, 6.0])
    np.testing.assert_array_equal(ExponentialNoise(4.0).perturb(raw), [0.125, 0.25, 0.5])


def test_scale_conventions():
    assert float(BradleyTerry(2.0).cdf(2.0 * math.log(3.0))) == pytest.approx(0.75)
    assert float(Thurstone(3.0).cdf(3.0 * math.sqrt(2.0))) == pytest.approx(0.8413447460685429)
    assert float(ExponentialNoise(3.0).cdf(math.log(2.0) / 3.0)) == pytest.approx(0.75)


@pytest.mark.parametrize("model", PLAIN_CLASSES)
@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_bad_scales_are_named(model, bad):
    with pytest.raises(ValueError, match=r"^(scale|sigma|rate) is .*; it must be positive and finite$"):
        model(bad)


# linear algebra


@given(st.integers(0, 2**32), st.integers(1, 6), st.floats(0.0, 6.0))
def test_inverse_and_norms_ignore_the_units_of_features(seed, d, spread):
    rng = np.random.default_rng(seed)
    contrasts = rng.standard_normal((5 * d, d))
    units = 10.0 ** rng.uniform(-spread, spread, d)
    gram = contrasts.T @ contrasts
    rows = rng.standard_normal((4, d))
    plain = ref.norms(rows, ref.inverse(gram))
    np.testing.assert_allclose(plain**2, np.sum(rows * np.linalg.solve(gram, rows.T).T, axis=1), rtol=1e-8)
    np.testing.assert_allclose(ref.norms(rows * units, ref.inverse(gram * np.outer(units, units))), plain, rtol=1e-8)


@pytest.mark.parametrize(("n", "d"), [(50, 10), (13, 7), (7, 30)])
def test_equal_arms_have_utilities_and_widths_of_equal_bits(n, d):
    rng = np.random.default_rng(3)
    policy = CoLSTIM(d, comparison=BradleyTerry(), n_arms=n)
    policy.learn(rng.standard_normal((4 * d, d)), rng.random(4 * d) < 0.5)
    for _ in range(20):
        contexts = np.tile(rng.standard_normal(d), (n, 1))
        assert len(set(policy.utilities(contexts))) == len(set(policy.widths(contexts))) == 1


@pytest.mark.parametrize(
    ("pivot", "verdict"),
    [(0.0, False), (1.9e-12, False), (2.1e-12, True)],  # the limit is 1e-12 d = 2e-12
)
def test_invertible_looks_at_the_shares_that_features_keep(pivot, verdict):
    gram = np.array([[1.0, math.sqrt(1.0 - pivot)], [math.sqrt(1.0 - pivot), 1.0]])
    units = np.diag([1e-6, 1e4])
    assert ref.invertible(gram) is verdict
    assert ref.invertible(units @ gram @ units) is verdict


def test_a_zero_diagonal_is_singular():
    assert not ref.invertible(np.diag([1.0, 0.0]))
    assert not ref.invertible(np.zeros((1, 1)))
    assert ref.invertible(np.diag([1e-200, 1e200]))


# Algorithm 1 by hand: M = diag(4, 1), so |x|^2 = x_1^2 / 4 + x_2^2 and ARMS have widths 1/2, 1, sqrt(5/4)


def _after_exploration(**options):
    """A policy with M = diag(4, 1) and theta = (1, 0) that stops exploring at its first select."""
    settings = {"n_arms": 3, "exploration_rounds": 2, "width_scale": 1.0, "clip": math.inf, "coupling": 1.0}
    policy = CoLSTIM(2, comparison=Thurstone(), **(settings | options))
    policy.learn(np.array([[2.0, 0.0], [0.0, 1.0]]), [1, 0])
    policy.theta = np.array([1.0, 0.0])
    return policy


def test_widths_and_utilities_by_hand():
    policy = _after_exploration()
    np.testing.assert_array_equal(policy.gram, np.diag([4.0, 1.0]))
    np.testing.assert_allclose(policy.widths(ARMS), [0.5, 1.0, math.sqrt(1.25)], rtol=1e-15)
    np.testing.assert_array_equal(policy.utilities(ARMS), [1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("raw", "options", "duel"),
    [
        # perturbed 1, 0, 1, a tie of arms 0 and 2, of which 2 comes first. From arm 2: 0 + 1, -1 + 1/2, 0
        ([0.0, 0.0, 0.0], {}, (2, 0)),
        # perturbed 1.05, 0, 1. From arm 0: 0, -1 + sqrt(5/4) = 0.118, 0 + 1
        ([0.1, 0.0, 0.0], {}, (0, 2)),
        # perturbed 0, 2.5, 1. From arm 1: 1 + sqrt(5/4) = 2.118, 0, 1 + 1/2
        ([-2.0, 2.5, 0.0], {}, (1, 0)),
        # perturbed 1, 0, 2.118. From arm 2: 0 + 1, -1 + 1/2, 0
        ([0.0, 0.0, 1.0], {}, (2, 0)),
        # c1 = 0: from arm 2 a tie of arms 0 and 2 at 0, of which 0 comes first
        ([0.0, 0.0, 1.0], {"width_scale": 0.0}, (2, 0)),
        # c1 = 0: from arm 0 arms 0 and 2 tie at 0: a self-duel, unless the first arm is left out
        ([1.0, 0.0, 0.0], {"width_scale": 0.0}, (0, 0)),
        ([1.0, 0.0, 0.0], {"width_scale": 0.0, "allow_self_duel": False}, (0, 2)),
        # noise 9, 9, 1 clipped to 1 gives 1.5, 1, 2.118; unclipped 5.5, 9, 2.118
        ([9.0, 9.0, 1.0], {"clip": 1.0}, (2, 0)),
        ([9.0, 9.0, 1.0], {}, (1, 0)),
        # noise -9, 0, -9 clipped to -1: 0.5, 0, -0.118; unclipped -3.5, 0, ...
        ([-9.0, 0.0, -9.0], {"clip": 1.0}, (0, 2)),
        ([-9.0, 0.0, -9.0], {}, (1, 0)),
        # clip = None is c1 = 1
        ([9.0, 9.0, 1.0], {"clip": None}, (2, 0)),
        # shared noise 9: 5.5, 9, 11.06, whatever the other raws are; shared 0: 1, 0, 1, a tie
        ([9.0, 999.0, -9.0], {"coupling": 0.0}, (2, 0)),
        ([0.0, 999.0, -9.0], {"coupling": 0.0}, (2, 0)),
        # another perturbation: Exp(rate 2) halves the raws: 1, 1.3, 1 (unhalved 1, 2.6, 1)
        ([0.0, 2.6, 0.0], {"perturbation": ExponentialNoise(2.0)}, (1, 0)),
        ([0.0, 1.8, 0.0], {"perturbation": ExponentialNoise(2.0)}, (2, 0)),
    ],
)
def test_selection_by_hand(raw, options, duel):
    """The second uniform decides ties: for 0.5 the order of the first arm's is 2, 1, 0, of the second's 1, 0, 2."""
    policy = _after_exploration(**options)
    assert policy.select(ARMS, np.array([0.5, 0.5]), np.array(raw)) == duel
    assert (policy.round, policy.exploration_end) == (1, 0)


def test_duplicate_arms_tie_and_the_second_uniform_decides():
    policy = _after_exploration()
    policy.theta = np.array([0.1, 0.7])  # from (1, 1): 0.3 for (1, 0), 0.4 for (0, 1), 0 for (1, 1)
    arms = ARMS[[0, 2, 1, 2, 2, 1, 0]]
    assert policy.select(arms, np.zeros(2), np.full(7, 0.3)) == (3, 5)  # the order is 3, 0, 1, 5, 6, 4, 2
    rng = np.random.default_rng(0)
    shown = {policy.select(arms, np.array([0.0, rng.random()]), np.full(7, 0.3)) for _ in range(100)}
    assert shown == {(first, second) for first in (1, 3, 4) for second in (2, 5)}


def test_one_arm_duels_itself_exploring_or_not():
    for policy in (
        CoLSTIM(2, comparison=Thurstone(), n_arms=1),
        _after_exploration(),
        _after_exploration(allow_self_duel=False),
    ):
        assert policy.select(ARMS[:1], np.array([0.9, 0.9]), np.zeros(1)) == (0, 0)


def test_b_is_one_when_the_first_uniform_is_below_p():
    raw = np.array([-2.0, 2.5, 0.0])  # independent: (1, 0), shared -2: perturbed 0, -2, -1.24 and (0, 2)
    for uniform, duel in ((0.0, (1, 0)), (0.2999, (1, 0)), (0.3, (0, 2)), (0.9, (0, 2))):
        assert _after_exploration(coupling=0.3).select(ARMS, np.array([uniform, 0.0]), raw) == duel


def test_constants_of_the_experiments():
    policy = _after_exploration(width_scale=None, coupling=None, horizon=1000)
    policy.select(ARMS, np.zeros(2), np.zeros(3))
    assert policy.confidence_scale() == pytest.approx(math.sqrt(2.0 * math.log(1000.0)))
    assert policy.coupling_probability() == 1.0  # 2 / 1 * log 2000 > 1
    policy.round = 10_000  # t - tau = 10^4
    assert policy.coupling_probability() == pytest.approx(2.0 / 100.0 * math.log(2000.0))
    assert policy.coupling_probability() == pytest.approx(0.15201804919084162)


def test_constants_without_a_horizon_use_the_current_round():
    policy = _after_exploration(width_scale=None, coupling=None)
    policy.select(ARMS, np.zeros(2), np.zeros(3))
    assert policy.confidence_scale() == 0.0  # log 1
    policy.round, policy.exploration_end = 500, 100
    assert policy.confidence_scale() == pytest.approx(math.sqrt(2.0 * math.log(500.0)))
    assert policy.coupling_probability() == pytest.approx(2.0 / 20.0 * math.log(1000.0))


def test_coupling_of_the_theorem():
    policy = _after_exploration(coupling="theorem", width_scale=0.25, horizon=1000)
    with pytest.raises(ValueError, match="round 0 is exploration"):
        policy.coupling_probability()
    policy.round, policy.exploration_end = 460, 60
    # sqrt(2d) / (2 sqrt(t - tau)) (3 c1 + c2) sqrt(log(2T/d)) = 2 / 40 * 1 * sqrt(log 1000)
    assert policy.coupling_probability() == pytest.approx(0.05 * math.sqrt(math.log(1000.0)))
    policy.width_scale = 100.0
    assert policy.coupling_probability() == 1.0


# exploration


def test_distinct_pairs_by_hand():
    pairs = [ref.distinct_pair(3, np.array(u)) for u in ([0.0, 0.0], [0.4, 0.4], [0.4, 0.6], [0.99, 0.99])]
    assert pairs == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert ref.distinct_pair(1, np.array([0.9, 0.9])) == (0, 0)


def test_distinct_pairs_are_uniform():
    """Chi-squared over the 12 ordered pairs of 4 arms; fixed seed, false-alarm rate 1e-6."""
    rng = np.random.default_rng(5)
    counts = Counter(UniformPairs(4).select(np.zeros((4, 1)), rng.random(2), np.empty(0)) for _ in range(6000))
    assert sorted(counts) == [(i, j) for i in range(4) for j in range(4) if i != j]
    assert chisquare(list(counts.values())).pvalue > 1e-6


def test_exploration_lasts_tau_rounds_and_p_counts_from_its_end():
    policy = CoLSTIM(2, comparison=BradleyTerry(), n_arms=3)
    rng = np.random.default_rng(0)
    for t in range(1, 10):
        uniforms, raw = policy.draw(rng, 3)
        duel = policy.select(ARMS, uniforms, raw)
        assert policy.exploration_end == (None if t <= 6 else 6)  # tau = d n = 6
        if t <= 6:
            assert duel == ref.distinct_pair(3, uniforms)
        policy.update(ARMS[duel[0]] - ARMS[duel[1]], True)
    assert policy.round - policy.exploration_end == 3


def test_learned_comparisons_count_towards_the_exploration():
    policy = CoLSTIM(2, comparison=BradleyTerry(), n_arms=3, exploration_rounds=4)
    policy.learn(np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), [True, False, True])
    assert policy.round == 0
    ends = []
    for _ in range(3):
        policy.select(ARMS, np.zeros(2), np.ones(3))
        ends.append(policy.exploration_end)
    assert ends == [None, 1, 1]


def test_exploration_goes_on_while_m_is_singular():
    policy = CoLSTIM(2, comparison=BradleyTerry(), n_arms=3, exploration_rounds=1)
    flat = np.array([[1.0, 5.0], [0.0, 5.0], [-2.0, 5.0]])  # a constant feature: contrasts span one dimension
    for _ in range(20):
        first, second = policy.select(flat, np.array([0.5, 0.5]), np.ones(3))
        policy.update(flat[first] - flat[second], True)
    assert policy.exploration_end is None
    assert np.all(np.isinf(policy.widths(flat)))
    policy.update(np.array([0.0, 0.1]), True)
    assert np.all(np.isfinite(policy.widths(flat)))
    policy.select(flat, np.array([0.5, 0.5]), np.ones(3))
    assert policy.exploration_end == 20


def test_ridge_makes_m_invertible_from_the_start():
    policy = CoLSTIM(2, comparison=Thurstone(), n_arms=3, ridge=4.0, exploration_rounds=0)
    np.testing.assert_array_equal(policy.gram, 4.0 * np.eye(2))
    np.testing.assert_allclose(policy.widths(ARMS), [0.5, 0.5, math.sqrt(0.5)], rtol=1e-15)
    policy.select(ARMS, np.zeros(2), np.zeros(3))
    assert policy.exploration_end == 0


@pytest.mark.parametrize("model", [cls() for cls in PLAIN_CLASSES], ids=repr)
def test_a_round_always_draws_the_same_numbers(model):
    policy = CoLSTIM(2, comparison=BradleyTerry(), perturbation=model, n_arms=3)
    uniforms, raw = policy.draw(np.random.default_rng(9), 5)
    rng = np.random.default_rng(9)
    np.testing.assert_array_equal(uniforms, rng.random(2))
    kind = rng.standard_normal if isinstance(model, Thurstone) else rng.standard_exponential
    np.testing.assert_array_equal(raw, kind(5))
    uniforms, raw = UniformPairs(3).draw(np.random.default_rng(9), 5)
    np.testing.assert_array_equal(uniforms, np.random.default_rng(9).random(2))
    assert raw.shape == (0,)


# the estimator


@pytest.mark.parametrize("first_won", [True, False])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_likelihood_step_is_the_gradient_of_the_log_likelihood(model, first_won):
    theta, contrast = np.array([0.3, -0.8, 0.5]), np.array([0.7, 0.4, -1.1])

    def log_likelihood(at):
        return float(model.log_cdf((1 if first_won else -1) * (contrast @ at)))

    steps = 1e-5 * np.eye(3)
    gradient = [(log_likelihood(theta + e) - log_likelihood(theta - e)) / 2e-5 for e in steps]
    policy = CoLSTIM(3, comparison=model, n_arms=3, learning_rate=0.25)
    policy.theta = theta
    policy.update(contrast, first_won)
    np.testing.assert_allclose(policy.theta - theta, 0.25 * np.array(gradient), rtol=1e-7)


@pytest.mark.parametrize("first_won", [True, False])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_residual_step_is_the_papers_equation(model, first_won):
    theta, contrast = np.array([0.3, -0.8]), np.array([0.7, 0.4])
    policy = CoLSTIM(2, comparison=model, n_arms=3, learning_rate=0.25, score="residual")
    policy.theta = theta
    policy.update(contrast, first_won)
    residual = float(first_won) - float(model.cdf(0.3 * 0.7 - 0.8 * 0.4))
    np.testing.assert_allclose(policy.theta, theta + 0.25 * residual * contrast, rtol=1e-14)


@pytest.mark.parametrize(("model", "same"), [(BradleyTerry(), True), (Thurstone(), False)], ids=repr)
def test_the_two_scores_coincide_for_the_standard_logistic_only(model, same):
    policies = [CoLSTIM(2, comparison=model, n_arms=3, score=score) for score in SCORES]
    for policy in policies:
        policy.learn(np.random.default_rng(1).standard_normal((10, 2)), [1, 0, 1, 1, 0, 0, 1, 0, 1, 1])
    assert np.allclose(policies[0].theta, policies[1].theta, rtol=1e-12) is same


def test_the_rate_decays_with_the_comparisons_learned():
    policy = CoLSTIM(1, comparison=BradleyTerry(), n_arms=2, learning_rate=0.6, decay=0.5)
    contrast, expected = np.array([1.0]), 0.0
    for t in (1, 2, 3):
        expected += 0.6 / math.sqrt(t) / (1.0 + math.exp(expected))
        policy.select(np.zeros((2, 1)), np.zeros(2), np.ones(2))
        policy.update(contrast, True)
        policy.update(np.zeros(1), True)  # teaches nothing, so it does not age the rate
        assert policy.theta[0] == pytest.approx(expected, rel=1e-14)
    expected += 0.6 / math.sqrt(4) / (1.0 + math.exp(expected))
    policy.learn(np.array([contrast]), [1])
    assert policy.theta[0] == pytest.approx(expected, rel=1e-14)


def test_theta_is_projected_onto_the_ball():
    policy = CoLSTIM(2, comparison=BradleyTerry(), n_arms=3, learning_rate=10.0, radius=2.0)
    policy.update(np.array([3.0, 4.0]), True)  # step 10 * 1/2 * (3, 4) = (15, 20)
    np.testing.assert_allclose(policy.theta, [1.2, 1.6], rtol=1e-15)
    inside = CoLSTIM(2, comparison=BradleyTerry(), n_arms=3, learning_rate=0.1, radius=2.0)
    inside.update(np.array([3.0, 4.0]), False)
    np.testing.assert_allclose(inside.theta, [-0.15, -0.2], rtol=1e-15)


def test_a_zero_contrast_changes_nothing():
    policy = _after_exploration()
    gram, theta = policy.gram.copy(), policy.theta.copy()
    policy.update(np.zeros(2), True)
    np.testing.assert_array_equal(policy.gram, gram)
    np.testing.assert_array_equal(policy.theta, theta)


def test_theta_learns_during_the_exploration():
    policy = CoLSTIM(2, comparison=BradleyTerry(), n_arms=3)
    first, second = policy.select(ARMS, np.array([0.0, 0.0]), np.ones(3))
    policy.update(ARMS[first] - ARMS[second], True)
    np.testing.assert_array_equal(policy.theta, [0.25, -0.25])  # 1/2 * (1 - 1/2) * (1, -1)
    np.testing.assert_array_equal(policy.gram, [[1.0, -1.0], [-1.0, 1.0]])


@pytest.mark.parametrize("option", [{"score": "newton"}, {"coupling": "theory"}])
def test_bad_options_are_named(option):
    with pytest.raises(ValueError, match=f"^{next(iter(option))} is '.*'; it must be"):
        CoLSTIM(2, comparison=BradleyTerry(), n_arms=3, **option)


# problems


def test_regret_by_hand():
    utilities = np.array([0.0, 3.0, 1.0])
    assert ref.regret(utilities, 1, 1) == (0.0, 0.0)
    assert ref.regret(utilities, 1, 0) == (1.5, 0.0)
    assert ref.regret(utilities, 2, 0) == (2.5, 2.0)


def test_simulated_outcomes_follow_the_true_model():
    """Two arms 0.8 apart: wins of the better arm are binomial; fixed seed, |z| < 5 (false alarms 6e-7)."""
    wins = []

    class Recorder(UniformPairs):
        def update(self, contrast, first_won):
            wins.append(first_won == (contrast[0] > 0))

    model = Thurstone(0.7)
    ref.simulate(Recorder(2), lambda _t: np.array([[0.8], [0.0]]), np.ones(1), model, 4000, np.random.default_rng(11))
    p = float(model.cdf(0.8))
    assert abs(sum(wins) - 4000 * p) / math.sqrt(4000 * p * (1 - p)) < 5.0


def test_nobody_answers_a_self_duel_yet_its_noise_is_drawn():
    class Narcissus(UniformPairs):
        def select(self, *_):
            return 1, 1

        def update(self, *_):
            raise AssertionError("a self-duel was answered")

    rng, twin = np.random.default_rng(4), np.random.default_rng(4)
    ref.simulate(Narcissus(3), lambda _t: ARMS, np.ones(2), Thurstone(), 5, rng)
    for _ in range(5):
        twin.random(2), twin.standard_normal(2)
    assert rng.random() == twin.random()


def test_simulation_repeats_itself_and_adds_up():
    theta, seen = np.array([2.0, -1.0]), []

    def contexts_source(t):
        seen.append(t)
        return np.random.default_rng(t).uniform(-1.0, 1.0, (4, 2))

    def play():
        policy = CoLSTIM(2, comparison=BradleyTerry(), n_arms=4, horizon=60)
        return policy, *ref.simulate(policy, contexts_source, theta, BradleyTerry(), 60, np.random.default_rng(2))

    policy, average, weak, duels = play()
    assert seen == list(range(1, 61))
    assert policy.round == 60
    utilities = [contexts_source(t) @ theta for t in range(1, 61)]
    gaps = np.array([u.max() - u[duel] for duel, u in zip(duels, utilities, strict=True)])
    np.testing.assert_allclose(average, np.cumsum(gaps.mean(axis=1)))
    np.testing.assert_allclose(weak, np.cumsum(gaps.min(axis=1)))
    np.testing.assert_array_equal(play()[3], duels)


def test_colstim_beats_uniform_pairs():
    """A policy that learns has less than half of random choice's regret on a clear problem (fixed seed)."""
    theta = np.array([6.0, -3.0, 2.0])

    def regret_of(policy):
        contexts = np.random.default_rng(7).uniform(-1.0, 1.0, (600, 6, 3))
        rng = np.random.default_rng(8)
        return ref.simulate(policy, lambda t: contexts[t - 1], theta, BradleyTerry(), 600, rng)[0][-1]

    colstim = CoLSTIM(3, comparison=BradleyTerry(), n_arms=6, horizon=600)
    assert regret_of(colstim) < 0.5 * regret_of(UniformPairs(6))
