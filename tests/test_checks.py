"""The door: what cannot be used is refused in words that name the argument, before anything has changed."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from twins import OURS

import fastcolst as fc
from fastcolst import _checks
from fastcolst._checks import brief, check_memory, real_numbers
from fastcolst.experiments.simulation import checkpoint_rounds

LOG = fc.Log.from_arrays([[1.0, 2.0], [0.5, -1.0]], [True, False])
EASY = fc.Scenario.easy(n_arms=3, n_features=2)
HUGE = np.full((3, 2), np.longdouble("1e400"))  # inf where long doubles are doubles
RAGGED = [[1.0, 2.0], [3.0]]


class Tensor:
    """What a tensor that tracks gradients tells of itself, and what it does when NumPy asks for its numbers."""

    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")


class Wordless:
    def __repr__(self) -> str:
        raise LookupError("no words")


class Classless:
    @property
    def __class__(self) -> type:
        raise LookupError("no class")


class LikeAnArray:
    """Its comparisons are arrays."""

    __hash__ = None

    def __eq__(self, other: object) -> np.ndarray:
        return np.array([True, False])


def policy() -> fc.CoLSTIM:
    return fc.CoLSTIM(2, n_arms=3, estimator="sgd", rng=1)


def simulate(**changes: object) -> object:
    return fc.simulate(**{"policies": {"a": fc.UniformPairs()}, "scenario": EASY, "horizon": 5, "rng": 1, **changes})


REFUSED = {
    "a policy without an estimate": (
        lambda: fc.replay(fc.UniformPairs(), LOG),
        r"^policy is UniformPairs\(.*\); a policy that learns from a log is wanted",
    ),
    "no policy": (lambda: fc.replay(3, LOG), "^policy is 3; a policy that learns from a log is wanted"),
    "the class of a policy": (lambda: fc.replay(fc.CoLSTIM, LOG), "^policy is <class .*; a policy that learns"),
    "a policy of another size": (
        lambda: fc.replay(fc.CoLSTIM(3), LOG),
        "^contrasts has 2 features; this policy was built for n_features=3",
    ),
    "a label that is none": (lambda: fc.replay(policy(), LOG, label=3), "^label is 3; a text is wanted"),
    "long doubles": (lambda: policy().select(HUGE), r"^contexts\[0, 0\] is inf; every feature must be finite"),
    "a long double": (lambda: fc.CoLSTIM(2, ridge=HUGE[0, 0]), "^ridge is .*; a non-negative finite number is wanted"),
    "long doubles in a log": (lambda: fc.Log.from_arrays(HUGE, [1, 0, 1]), r"^contrasts\[0, 0\] is inf"),
    "ragged": (lambda: policy().probability(RAGGED, RAGGED), r"^first is not an array .*\[3.0\]\]; .* is wanted$"),
    "ragged log": (lambda: fc.Log.from_arrays(RAGGED, [1, 0]), "^contrasts is not an array of real numbers: rows"),
    "ragged wins": (lambda: fc.Log.from_arrays(np.eye(2), [[1], [0, 1]]), "^wins is not an array of real num.*: rows"),
    "gradients": (
        lambda: policy().select(Tensor(requires_grad=True)),
        "^contexts is not an array of real numbers: a tensor that tracks gradients, whose method detach",
    ),
    "gradients in a log": (lambda: fc.Log.from_arrays(Tensor(requires_grad=True), [1]), "^contrasts .* tracks grad"),
    "no array today": (lambda: policy().utilities(Tensor()), "^contexts is not an array of real numbers: <.*Tensor"),
    "texts among objects": (
        lambda: policy().select(np.array([["1", 2.0]] * 3, object)),
        r"^contexts\[0, 0\] is '1'; a real number is wanted",
    ),
    "masked in a list": (lambda: policy().select([[np.ma.masked, 1.0]] * 3), "^contexts is not .*: masked entries"),
    "policies that are a list": (lambda: simulate(policies=[1]), r"^policies is \[1\]; a dict of labels and policies"),
    "policies that are an array": (lambda: simulate(policies=np.ones(2)), "^policies is array.*; a dict of labels and"),
    "policies that are classes": (lambda: simulate(policies={"a": fc.StaD}), "^policies has 'a': <class .*; a label"),
    "policies without words": (
        lambda: simulate(policies={"a": Wordless()}),
        "^policies has 'a': <Wordless instance at .*>; a label and a policy are wanted",
    ),
    "policies without a class": (lambda: simulate(policies=Classless()), "^policies is .*; a dict of labels and polic"),
    "a scenario without a class": (lambda: simulate(scenario=Classless()), "^scenario is .*; a Scenario is wanted"),
    "a study's policy without a class": (
        lambda: fc.Study({"a": Classless()}, {"easy": EASY}, 5),
        r"^policies has 'a': .*; a label and a policy, such as fc.CoLSTIM\(10\), or a table are wanted",
    ),
    "a study's policies without a class": (
        lambda: fc.Study(Classless(), {"easy": EASY}, 5),
        "^policies is .*; a dict of labels and policies is wanted",
    ),
    "a policy that does not fit": (
        lambda: simulate(policies={"a": fc.CoLSTIM(7)}),
        "^policies has 'a', which does not fit the scenario: .*n_features=7; the problem has 2",
    ),
    "a label for nobody": (lambda: simulate(policies={"\udcff": fc.UniformPairs()}), "^policies has .*; a label and"),
    "an unending horizon": (lambda: simulate(horizon=2**61), r"^horizon is 2,305,.*; at most 10,000,000,000,000"),
    "countless runs": (lambda: simulate(runs=10**11), r"^runs is 100000000000; that takes .* GB of memory"),
    "countless checkpoints": (lambda: checkpoint_rounds(2**61, 2**61), "^checkpoints are .*; at most 10,000,000 are"),
    "ragged checkpoints": (lambda: simulate(checkpoints=[1, [2]]), "^checkpoints is neither a number nor an array"),
    "progress": (lambda: simulate(progress=LikeAnArray()), "^progress is <.*LikeAnArray.*; True, False, 1 or 0"),
    "countless arms of SelfSparring": (
        lambda: fc.SelfSparring(n_arms=10**11),
        "^n_arms is 100000000000; that takes .* GB of memory",
    ),
    "countless arms with a utility": (
        lambda: fc.Scenario(utility=lambda arms: arms[..., 0], n_arms=10**11, n_features=2),
        "^n_arms is 100000000000; that takes .* GB of memory",
    ),
    "countless features": (lambda: fc.CoLSTIM(10**9), "^n_features is 1000000000; that takes .* GB of memory"),
    "countless arms": (lambda: fc.DoubleThompson(n_arms=10**12), "^n_arms is 1000000000000; that takes .* GB"),
    "countless arms in a ball": (lambda: fc.Scenario.easy(n_arms=10**15), "^n_arms is 1000000000000000; that takes"),
    "endless memory": (
        lambda: fc.CoLSTIM(2, estimator=fc.OnlineNewton(history=2**39)),
        r"^estimator is OnlineNewton\(history=549755813888, .*; there is no memory",
    ),
    "draws without end": (lambda: fc.Thurstone().sample(np.random.default_rng(1), 10**13), "^size is 10000000000000"),
    "no generator": (lambda: fc.Thurstone().sample(3), "^rng is 3; a numpy.random.Generator is wanted"),
    "a margin that is none": (lambda: fc.BradleyTerry().cdf("x"), "^u is not an array of real numbers: it holds texts"),
    "a huge seed": (lambda: fc.CoLSTIM(2, rng=10**5000), r"^rng is .*; a seed must be below 2\^4096"),
    "a ridge that overflows": (lambda: fc.fit(np.eye(2), [1, 0], ridge=np.float64(1e308)), "^ridge is .* is wanted$"),
    "a ridge that overflows for small features": (
        lambda: fc.fit(1e-120 * np.eye(2), [1, 0], ridge=1e10),
        "^ridge is 1e.10, for features of size 1e-120; at most 1e.200 times the square of their size is wanted",
    ),
    "a norm that overflows": (
        lambda: fc.CoLSTIM.from_theorem(2, n_arms=3, horizon=100, rho=1.0, theta_norm=1e308),
        "^theta_norm is 1e.308; the density .* vanishes within its margins",
    ),
    "duel of anything": (
        lambda: policy().update(fc.Duel(Wordless(), [], None, LikeAnArray(), LikeAnArray()), True),
        "^duel is <Duel .*which this policy never showed .*; one that it did is wanted",
    ),
    "discarded duel of anything": (
        lambda: policy().discard(fc.Duel(0, 1, None, 1, LikeAnArray())),
        "^duel is Duel.*which this policy never showed .*; one that it did is wanted",
    ),
    "radius like an array": (lambda: fc.fit(np.eye(2), [1, 0], radius=LikeAnArray()), "^radius is <.*; a positive"),
    "wins of a masked array": (
        lambda: policy().learn_and_predict(np.eye(2), np.ma.masked_array([True, False], [False, True])),
        r"^wins\[1\] is nan; True, False or a number from 0 to 1 is wanted",
    ),
    "counts of a log": (
        lambda: fc.Log(contrasts=[[1.0]], wins=[1], features="a", rows=1, draws_in_file=0, selected=1, draws=0,
                       missing=0, unknown=0),
        "^features is 'a'; a list of texts is wanted",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_refused_in_words_that_name_the_argument(name):
    call, message = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=message):
            call()


def test_answers_of_another_length_have_no_accuracy():
    model = fc.PreferenceRegression(ridge=1.0).fit(np.array([[1.0], [-1.0]]), [1, 0])
    for y in ("nonsense", [1], [1, 0, 1]):
        with pytest.raises(ValueError, match=r"^y has shape .*; \(2,\) is wanted"):
            model.score([[1.0], [-1.0]], y)


def test_masked_answers_are_not_answers():
    with pytest.raises(ValueError, match=r"^y contains NaN"):
        fc.PreferenceRegression().fit(np.ones((3, 1)), np.ma.masked_array([1, 0, 1], [0, 0, 1]))


@pytest.mark.parametrize(
    "refused",
    [
        lambda rng: fc.CoLSTIM(2, ridge=-1.0, rng=rng),
        lambda rng: fc.DoubleThompson(alpha=-1.0, rng=rng),
        lambda rng: fc.CoLSTIM(2, estimator="none", rng=rng),
        lambda rng: simulate(rng=rng, threads=0),
        lambda rng: simulate(rng=rng, checkpoints=0),
    ],
)
def test_a_refused_call_draws_nothing(refused):
    rng = np.random.default_rng(1)
    before = copy.deepcopy(rng.bit_generator.state)
    with pytest.raises(ValueError, match=r"is wanted|wanted 'sgd'"):
        refused(rng)
    assert rng.bit_generator.state == before


def test_numbers_of_every_kind_are_taken():
    given = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    own = given.view(type("Own", (np.ndarray,), {}))
    kinds = [given.astype(kind) for kind in (np.float16, np.longdouble, object, ">f8")]
    for value in [given.tolist(), *kinds, np.asfortranarray(given), np.ma.masked_array(given), own]:
        found = real_numbers("x", value)
        assert type(found) is np.ndarray and found.dtype == np.float64 and found.flags.carray
        np.testing.assert_array_equal(found, given)


def test_margins_of_every_kind_are_taken():
    model = fc.BradleyTerry()
    assert type(model.cdf(0.3)) is type(model.cdf(0)) is not np.ndarray
    np.testing.assert_array_equal(model.cdf([0.0, 1]), model.cdf(np.array([0.0, 1.0])))
    np.testing.assert_array_equal(fc.Thurstone().cdf([[1e308, -1e308]]), [[1.0, 0.0]])
    assert np.isnan(model.cdf(np.nan))


@pytest.mark.parametrize("model", OURS, ids=repr)
@pytest.mark.parametrize("method", ["cdf", "pdf", "log_cdf", "score", "weight", "curvature"])
def test_no_margin_is_so_far_out_that_it_gives_nan(model, method):
    for u in (-np.inf, -1e308, -1e155, -1e100, 1e100, 1e155, 1e308, np.inf):
        assert not np.isnan(getattr(model, method)(u)) and not np.isnan(getattr(model, method)([u])[0])


@pytest.mark.parametrize("u", [-1e5, -1e8, -1e12, -1e100, -np.inf])
def test_deep_in_the_tail_the_observed_information_of_the_normal_law_is_its_limit(u):
    np.testing.assert_allclose(fc.Thurstone(0.7).curvature(u), 1.0 / (2.0 * 0.7**2), rtol=1e-6)


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, list(range(10**5)), np.arange(10**5), 10**5000, Wordless(), [Wordless()], {1: "y" * 10**6}],
    ids=lambda value: type(value).__name__,
)
def test_what_was_found_is_shown_in_brief(value):
    assert 0 < len(brief(value)) < 300 and "\n" not in brief(value)


def test_an_overflow_names_what_was_handed_in():
    policy = fc.MaxPairUCB(2, estimator="sgd", comparison="thurstone", rng=1)
    losers = 1e120 * np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]])
    with pytest.raises(ValueError, match=r"^\(winners - losers\)\[\d\] is so large that the estimate overflows"):
        policy.learn(np.zeros((3, 2)), losers)


def test_parameters_are_set_together_or_not_at_all():
    model = fc.PreferenceRegression(ridge=1.0)
    with pytest.raises(ValueError, match=r"^'lambda' is no parameter"):
        model.set_params(ridge=2.0, **{"lambda": 3.0})
    assert model.get_params()["ridge"] == 1.0


def test_a_size_that_fits_is_taken():
    check_memory("size", 10, 80)


def test_a_size_that_does_not_fit_is_refused_with_the_bound_and_where_it_comes_from(monkeypatch):
    for total, message in (
        (
            8 * 10**9,
            r"^size is 3; that takes 5 GB of memory, and at most 4 GB, half of what this machine has, are wanted",
        ),
        (None, r"^size is 3; that takes 5,000 GB of memory, and at most 1,100 GB are wanted$"),
    ):
        monkeypatch.setattr(_checks, "machine_bytes", lambda total=total: total)
        with pytest.raises(ValueError, match=message):
            check_memory("size", 3, 5 * 10 ** (9 if total else 12))
