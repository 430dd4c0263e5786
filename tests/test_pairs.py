"""MaxInP and MaxPairUCB: candidates and pairs against brute force, the same duels as the reference."""

import numpy as np
import pytest
from conftest import rounds
from test_contract import a_chunk, check_fused, follow
from twins import UNORDERED

import fastcolst as fc
from fastcolst import reference as ref
from fastcolst import streams
from fastcolst.kernels.dominance import is_candidate, remove_dominated
from fastcolst.kernels.pairs import informative_pair, optimistic_pair, optimistic_pair_of, pair_work_shape
from fastcolst.kernels.pool import pool_of
from fastcolst.kernels.selection import tie_key
from fastcolst.reference.pairs import in_order, random_order

ETAS = (0.0, 1e-9, 0.1, 0.5, 1.0, 2.0, 1e9)
KINDS = ("generic", "duplicates", "collinear", "widths of zero", "lattice", "small theta", "far from zero")
LENGTHS = {"small theta": 1e-3, "middling theta": 0.05}


class Instance:
    """Whitened arms in the rows of ``points`` and theta, with utilities and distances by NumPy."""

    def __init__(self, rng, kind, n, d):
        points = rng.standard_normal((n, d))
        if kind == "duplicates":
            points = points[rng.integers(max(n // 2, 1), size=n)]
        elif kind == "collinear":
            points = np.outer(rng.standard_normal(n), points[0])
        elif kind == "lattice":
            points = rng.integers(-1, 2, (n, d)).astype(float)
        elif kind == "far from zero":
            points = 1e-3 * points + 100.0
        self.theta = rng.standard_normal(d) * LENGTHS.get(kind, 1.0)
        self.utilities = np.einsum("ij,j->i", points, self.theta)
        self.points = 0.0 * points if kind == "widths of zero" else points
        self.norm = np.inf if kind == "widths of zero" else float(np.linalg.norm(self.theta))
        self.distances = np.sqrt(np.sum((self.points[:, None] - self.points) ** 2, axis=2))
        uniform = rng.random()
        self.key, self.order = tie_key(uniform), random_order(ref.tie_key(uniform), n)

    def work(self):
        n, d = self.points.shape
        work = np.full(pair_work_shape(n, d), np.nan)
        work[:d, :n], work[d, :n] = self.points.T, self.utilities
        return work

    def margins(self, eta):
        """Of each arm against its toughest rival, inf for none; where it is positive the arm is a candidate."""
        gaps = self.utilities[:, None] - self.utilities
        return np.min(np.where(gaps < 0.0, gaps + eta * self.distances, np.inf), axis=1)

    def candidates(self, eta):
        """By the kernels: passes first, then arm by arm."""
        n, d = self.points.shape
        work = self.work()
        pool = pool_of(work[: d + 4], work[-2:], n)
        pool.label[:n] = np.arange(n)
        pool = remove_dominated(pool, eta)
        verdicts = [is_candidate(pool, j, eta) for j in range(pool.size)]
        assert verdicts == [is_candidate(pool, j, eta) for j in range(pool.size)]
        return np.isin(np.arange(n), pool.label[: pool.size][verdicts])


def instances(number, sizes, dimensions, kinds=KINDS):
    rng = np.random.default_rng(77)
    for i in range(number):
        kind, eta = kinds[i % len(kinds)], ETAS[i // len(kinds) % len(ETAS)]
        instance = Instance(rng, kind, int(rng.choice(sizes)), int(rng.choice(dimensions)))
        yield instance, eta * (float(np.linalg.norm(instance.theta)) if eta < 1e9 else 1.0)


def first_pair(instance, values, rows, *, with_itself):
    """The first in the instance's order of the pairs of largest value among some arms, and that value."""
    allowed = np.triu(np.ones(values.shape, dtype=bool), 0 if with_itself else 1) & np.outer(rows, rows)
    largest = np.max(values[allowed])
    size = abs(largest) if values is instance.distances else np.max(np.abs(np.diag(values))) + abs(largest)
    equals = np.argwhere(allowed & (values >= largest - 5e-13 * size)).tolist()
    pair = max(equals, key=lambda pair: sorted((instance.order[i] for i in pair), reverse=True))
    return in_order(pair, instance.utilities, instance.distances, instance.order), largest


def check_informative(instance, eta):
    margins = instance.margins(eta)
    wanted = margins > 0.0
    got = instance.candidates(eta)
    clear = np.abs(margins) > 1e-12
    assert np.array_equal(got[clear], wanted[clear])
    first, second = informative_pair(instance.work(), len(instance.points), instance.norm, eta, instance.key)
    assert got[first] and got[second]
    if np.sum(got) == 1:
        assert first == second
        return
    pair, largest = first_pair(instance, instance.distances, got, with_itself=False)
    assert abs(instance.distances[first, second] - largest) <= 1e-12 * largest
    assert (first, second) == pair


def check_optimistic(instance, scale):
    values = instance.utilities[:, None] + instance.utilities + scale * instance.distances
    everyone, n = np.ones(len(values), dtype=bool), len(values)
    for with_itself in (True, False):
        pair, largest = first_pair(instance, values, everyone, with_itself=with_itself or n == 1)
        first, second = optimistic_pair_of(instance.work(), n, scale, with_itself, instance.key)
        assert abs(values[first, second] - largest) <= 1e-12 * np.max(np.abs(values))
        assert (first, second) == pair
        assert not with_itself or pair == optimistic_pair(instance.work(), n, scale, instance.key)


# --- kernels against brute force ----------------------------------------------------------------------------


def test_candidates_and_farthest_pair_are_those_of_brute_force():
    """Greedy choices fail here: a leader of highest utility with its farthest rival is another pair."""
    for instance, eta in instances(rounds(10_000, 300), range(1, 14), range(1, 7)):
        check_informative(instance, eta)


def test_optimistic_pair_is_that_of_brute_force():
    for instance, scale in instances(rounds(10_000, 300), range(1, 14), range(1, 7)):
        check_optimistic(instance, scale)


@pytest.mark.long
def test_many_arms_are_ordered_and_pruned_without_a_loss():
    """So many that they are sorted by their bounds, compared tile by tile, and left open by the passes."""
    for instance, eta in instances(196, (127, 129, 250, 700), (2, 5, 10)):
        check_informative(instance, eta)
        check_optimistic(instance, eta)


def test_the_kernels_agree_with_the_references_candidates():
    for instance, eta in instances(rounds(300, 30), range(1, 10), range(1, 5), ("generic", "duplicates")):
        mask = ref.undominated(instance.utilities, instance.distances, eta)
        assert np.array_equal(mask, instance.margins(eta) > 0.0)
        assert np.any(mask)


def test_exact_duplicates_do_not_eliminate_each_other():
    instance = Instance(np.random.default_rng(0), "generic", 4, 3)
    instance.points[:] = instance.points[0]
    instance.utilities[:] = instance.utilities[0]
    for eta in (0.0, 1.0):
        assert np.all(instance.candidates(eta))
        first, second, *_ = sorted(range(4), key=lambda i: -instance.order[i])
        assert informative_pair(instance.work(), 4, np.inf, eta, instance.key) == (first, second)


def test_terms_so_large_that_their_squares_overflow():
    instance = Instance(np.random.default_rng(4), "generic", 9, 3)
    instance.utilities *= 1e200
    instance.norm *= 1e200
    check_optimistic(instance, 1.0)
    check_optimistic(instance, 1e200)
    check_informative(instance, 1e200)


# --- policies against the reference -------------------------------------------------------------------------


def play_both(policy, fused, twin, seed, horizon):
    """Let an object, the fused loop and a reference play; assert that they choose the same duels. Their arms."""
    d, n, comparison = (policy.get_params()[name] for name in ("n_features", "n_arms", "comparison"))
    chunk, rng, pairs = a_chunk(comparison, horizon, d, n), streams.generator(seed), []

    def choose(contexts):
        pairs.append(twin.select(contexts, *twin.draw(rng, n)))
        return policy.select(contexts), pairs[-1]

    check_fused(fused, chunk, follow(policy, chunk, choose, twin.update))
    assert fused.theta.tobytes() == policy.theta.tobytes()
    np.testing.assert_allclose(policy.theta, twin.theta, rtol=0, atol=1e-10)
    return np.array(pairs)


def three(name, *, seed=3, estimator=None, **options):
    """An object, another one for the fused loop, and the reference."""
    d, n = 3, 10
    compiled, plain = UNORDERED[name]
    options = {"n_arms": n, "horizon": rounds(5000, 100), **options}
    mine = {**options, "estimator": estimator or fc.SGD()}
    radius = None if estimator is None else estimator.radius
    twin = plain(d, comparison=ref.BradleyTerry(), radius=radius, **options)
    return compiled(d, rng=seed, **mine), compiled(d, rng=seed, **mine), twin, seed


OPTIONS = {
    "small theta": {"estimator": fc.SGD(radius=0.2)},
    "small theta, small eta": {"estimator": fc.SGD(radius=0.2), "width_scale": 0.05},
    "tiny width scale": {"width_scale": 1e-3},
    "no widths": {"width_scale": 0.0},
    "ridge, no exploration, anytime": {"ridge": 0.1, "exploration_rounds": 0, "horizon": None},
}


@pytest.mark.filterwarnings("ignore:.* showed an arm against itself:UserWarning")
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", UNORDERED)
def test_every_option_agrees_with_the_reference(name, option):
    pairs = play_both(*three(name, **OPTIONS[option]), rounds(1000, 60))
    assert np.all(pairs[30:, 0] <= pairs[30:, 1])
    if name == "MaxInP" and option == "small theta":
        assert np.all(pairs[:, 0] != pairs[:, 1])


# --- objects ------------------------------------------------------------------------------------------------


def test_one_arm_or_one_candidate_duels_with_itself():
    for name in UNORDERED:
        policy = UNORDERED[name][0](4, exploration_rounds=0, estimator="sgd", horizon=1000, width_scale=1e-6, rng=1)
        policy.learn(*np.random.default_rng(0).normal(size=(2, 60, 4)))
        assert policy.select(np.ones((1, 4))).is_self
        contexts = np.outer([0.0, 2.0, 1.0], policy.theta)
        duel = policy.select(contexts)
        assert duel.is_self and duel.first == 1


@pytest.mark.parametrize("name", UNORDERED)
def test_wrong_arguments_are_named(name):
    for argument in ("horizon", "width_scale", "ridge", "exploration_rounds", "comparison", "estimator"):
        with pytest.raises(ValueError, match=argument):
            UNORDERED[name][0](3, **{argument: -1})
