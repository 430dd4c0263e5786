"""Double Thompson sampling and Self-Sparring: the law of their draws, the choices that follow, and their regret."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from bisect import bisect_left
from collections import Counter

import numba
import numpy as np
import pytest
from conftest import rounds
from inside import arrays, choice_and_draws, index_twin_of, snapshot, state_of
from scipy import special, stats
from twins import SAMPLERS

import fastcolst as fc
from fastcolst import reference
from fastcolst._compile import plain
from fastcolst.kernels import beta
from fastcolst.policies import double_thompson
from fastcolst.policies.protocol import Choice

POLICIES = [ours for ours, _ in SAMPLERS.values()]
THETA = np.linspace(0.0, 2.0, 10)
LADDER = fc.Scenario(theta=THETA, contexts=np.eye(10))
"""Ten Bradley-Terry arms, each a step better than the one before."""


def play(policy, n_rounds, seed=3):
    """Let a policy play the ladder."""
    run = LADDER.start(seed, 0)
    while n_rounds > 0:
        m = min(n_rounds, run.chunk_rounds)
        assert policy.play(run.next_chunk(m), np.zeros((m + 1, 3))) == m
        n_rounds -= m
    return policy


# --- the law of the draws -----------------------------------------------------------------------------------

N_DRAWS = rounds(20_000, 1500)


@numba.njit
def many_variates(wins, losses, state, out):
    for r in range(out.size):
        state, out[r] = beta.beta_variate(wins, losses, state)


@pytest.mark.parametrize(
    ("wins", "losses"),
    [
        *((0, 0), (0, 7), (3, 0), (1, 1), (1, 9), (30, 12), (900, 1100), (10**6, 3), (10**6, 10**6)),
        *((0.5, 0.5), (1e-300, 1e-300), (1e-8, 2e-9), (3.5, 0.0), (0.3, 40.2)),
    ],
)
def test_beta_variates_have_their_law(wins, losses):
    """False alarm: 1e-4 for each."""
    out = np.empty(N_DRAWS)
    many_variates(float(wins), float(losses), np.uint64(int(wins + 17 * losses)), out)
    assert stats.kstest(out, stats.beta(wins + 1, losses + 1).cdf).pvalue > 1e-4


LAWS = {
    "no answers": ([0] * 8, [0] * 8, 2),
    "few answers": ([0, 1, 2, 0, 3, 1, 0, 5], [0, 0, 1, 2, 3, 4, 1, 2], 1),
    "one favourite": ([90, 40, 50, 60, 70, 3, 1, 0], [10, 60, 50, 40, 30, 4, 2, 0], 0),
    "the weakest known": ([90, 40, 50, 60, 70, 3, 1, 0], [10, 60, 50, 40, 30, 4, 2, 9], 7),
    "ties and weights": ([0.5, 3.5, 12.25, 7.5, 0.0, 1.5], [0.5, 2.5, 11.5, 8.75, 0.5, 0.0], 2),
    "close rivals": ([1000, 1010, 990, 1005, 995, 1, 40, 2000], [1000] * 5 + [0, 55, 2050], 3),
}


@numba.njit
def many_largest(laws, leader, state, out, place):
    samples = np.empty(laws.shape[1])
    for r in range(out.size):
        state, value = beta.beta_variate(laws[0, leader], laws[1, leader], state)
        state = beta.largest_beta(laws, leader, value, state, samples)
        place[r] = np.argmax(samples)
        out[r] = samples[place[r]]


def laws_of(wins, losses):
    wins, losses = np.array(wins, float), np.array(losses, float)
    return np.array([wins, losses, -special.betaln(wins + 1, losses + 1)])


@pytest.mark.parametrize("name", LAWS)
def test_thinning_leaves_the_law_of_the_largest_and_of_its_place(name):
    """The value against the product of the distribution functions, the place against full draws.

    False alarm: 1e-4 for each of two tests.
    """
    wins, losses, leader = LAWS[name]
    laws, out, place = laws_of(wins, losses), np.empty(N_DRAWS), np.empty(N_DRAWS, np.int64)
    many_largest(laws, leader, np.uint64(5), out, place)
    assert stats.kstest(out, lambda x: np.prod(special.betainc(laws[0] + 1, laws[1] + 1, x[:, None]), 1)).pvalue > 1e-4
    full = np.random.default_rng(1).beta(laws[0] + 1, laws[1] + 1, (N_DRAWS, len(wins))).argmax(1)
    table = np.array([np.bincount(p, minlength=len(wins)) for p in (place, full)])
    table = table[:, table.sum(0) >= 10]
    assert stats.chi2_contingency(table).pvalue > 1e-4


@numba.njit
def largest_over_a_fixed_rival(laws, state, n_left_out, place):
    samples = np.empty(laws.shape[1])
    for r in range(place.size):
        state = beta.largest_beta(laws, 0, 0.5, state, samples)
        place[r] = np.argmax(samples)
        n_left_out[0] += samples[1] != 0.0


def test_what_is_called_hopeless_is_as_unlikely_as_that():
    """The chance to lie above a floor is never larger than the least uniform that rules it out, mostly below 1/2."""
    rng = np.random.default_rng(4)
    wins, losses = rng.integers(0, 10 ** rng.integers(1, 6, 3_000), (2, 3_000)).astype(float)
    floors = special.betaincinv(wins + 1, losses + 1, 1.0 - 10.0 ** rng.uniform(-6, 0, 3_000))
    is_hopeless, uniforms, n_ruled_out = plain(beta._is_hopeless), np.geomspace(1e-12, 1.0 - 1e-9, 400), 0
    for law, m in zip(laws_of(wins, losses).T, floors, strict=True):
        floor = m, np.log(m), np.log1p(-m)
        first = bisect_left(uniforms, True, key=lambda u: is_hopeless(tuple(law), floor, u))
        if first < len(uniforms):
            assert special.betaincc(law[0] + 1, law[1] + 1, m) <= uniforms[first] * (1 + 1e-9)
            n_ruled_out += uniforms[first] < 0.5
    assert n_ruled_out > 1_500


def test_a_fixed_rival_and_one_left_out():
    """As in the second stage of D-TS. False alarm: 1e-4."""
    laws = laws_of([0, 0, 3, 10, 1], [0, 1, 5, 14, 2])
    laws[2, 1] = -np.inf
    n_left_out, place = np.zeros(1), np.empty(N_DRAWS, np.int64)
    largest_over_a_fixed_rival(laws, np.uint64(9), n_left_out, place)
    assert n_left_out[0] == 0
    theta = np.random.default_rng(2).beta(laws[0] + 1, laws[1] + 1, (N_DRAWS, 5))
    theta[:, 0], theta[:, 1] = 0.5, -1.0
    table = np.array([np.bincount(p, minlength=5) for p in (place, theta.argmax(1))])
    assert stats.chi2_contingency(table[:, table.sum(0) > 0]).pvalue > 1e-4


@pytest.mark.parametrize("wins", [0.0, 1.0, 14.0, 15.0, 16.0, 17.0, 300.0, 1e6, 1e-12, 0.5, 1.75, 14.9, 15.5])
@pytest.mark.parametrize("losses", [0.0, 2.0, 15.0, 280.0, 1e6, 0.25, 7.5])
def test_the_constant_of_the_density(wins, losses):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(30):
        exact = float(-mpmath.log(mpmath.beta(wins + 1, losses + 1)))
    assert beta.log_norm(wins, losses) == pytest.approx(exact, rel=1e-15, abs=4e-15 + 4e-16 * (wins + losses))


COUNTS = (0.0, 1e-12, 0.5, 1.0, 2.25, 14.5, 300.0, 310.5, 1e5, 1.003e5)


@pytest.mark.parametrize(("wins", "losses"), list(itertools.product(COUNTS, COUNTS)))
def test_the_chance_for_any_counts_at_once(wins, losses):
    chance = beta.chance_above_half(wins, losses)
    assert chance == pytest.approx(special.betainc(losses + 1, wins + 1, 0.5), abs=1e-12)
    assert 0.0 <= chance <= 1.0 and chance + beta.chance_above_half(losses, wins) == pytest.approx(1.0, abs=1e-12)
    after = beta.chance_above_half(wins + 1.0, losses)  # a whole win on top, which takes no fraction
    assert beta.chance_after_win(chance, wins, losses) == pytest.approx(after, abs=1e-12)


@numba.njit
def answers(probabilities, uniforms, counts):
    chance, worst = 0.5, 0.0
    for r in range(uniforms.size):
        if uniforms[r] < probabilities[r]:
            chance = beta.chance_after_win(chance, counts[0], counts[1])
            counts[0] += 1.0
        else:
            chance = 1.0 - beta.chance_after_win(1.0 - chance, counts[1], counts[0])
            counts[1] += 1.0
        worst = max(worst, -chance, chance - 1.0)
    return chance, worst


@pytest.mark.parametrize("name", ["even", "tilted", "ahead and back again", "far apart"])
def test_the_chance_follows_a_million_answers(name):
    m = rounds(1_000_000, 2000)
    uniforms, half = np.random.default_rng(4).random(m), np.arange(m) < m // 2
    probabilities = {
        "even": np.full(m, 0.5),
        "tilted": np.full(m, 0.5005),
        "ahead and back again": np.where(half, 1.0, 0.0),
        "far apart": np.full(m, 0.9),
    }[name]
    counts = np.zeros(2)
    chance, worst = answers(probabilities, uniforms, counts)
    assert worst <= 0.0
    assert chance == pytest.approx(special.betainc(counts[1] + 1, counts[0] + 1, 0.5), abs=1e-11)


def test_coins_and_thresholds_follow_from_the_counts():
    policy = play(fc.DoubleThompson(n_arms=10, rng=1), rounds(20_000, 300))
    state, twin = state_of(policy), index_twin_of(policy)
    off = ~np.eye(10, dtype=bool)
    expected = special.betainc(state.wins.T + 1, state.wins + 1, 0.5)
    np.testing.assert_allclose(state.chances[off], expected[off], rtol=0, atol=1e-12)
    assert np.all(np.abs(state.bars[off] - state.chances[off] * 2.0**53) < 1)
    np.testing.assert_allclose(state.constants[off], -special.betaln(state.wins + 1, state.wins.T + 1)[off], rtol=1e-11)
    for twin.round in (2, 100, 10**4, 10**6, 10**9):
        upper, lower = twin.bounds()
        np.testing.assert_array_equal((upper > 0.5)[off], (state.thresholds < math.log(twin.round))[off])
        np.testing.assert_array_equal((lower <= 0.5)[off], (math.log(twin.round) >= state.thresholds.T)[off])


# --- the choices --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize(("n", "allows"), [(1, True), (2, True), (2, False), (6, False)])
def test_the_same_choice_as_the_reference_for_the_same_draws(kind, n, allows):
    policy, contexts = kind(n_arms=n, allow_self_duel=allows, rng=7), np.zeros((n, 2))
    rng, twin = np.random.default_rng(0), index_twin_of(policy)
    for t in range(rounds(3000, 150)):
        duel, draws = choice_and_draws(policy, contexts)
        assert (duel.first, duel.second) == twin.select(contexts, *draws), f"round {t + 1}"
        assert allows or not duel.is_self
        if not duel.is_self:
            won = bool(rng.random() < special.expit((duel.second - duel.first) / 2.0))
            policy.update(duel, won)
            twin.update(duel.contrast, won)
    expected = index_twin_of(policy)
    np.testing.assert_array_equal(twin.wins, expected.wins)
    if kind is fc.SelfSparring:
        np.testing.assert_array_equal(twin.losses, expected.losses)
    assert twin.wins.sum() > 0 or n == 1


def pairs_in(policy, m, choose=None):
    """How often each pair is chosen in m rounds without an answer, by the kernel or by the reference's full draws."""
    contexts = np.zeros((index_twin_of(policy).n_arms, 1))
    if choose is None:
        policy = copy.copy(policy)
        return Counter((d.first, d.second) for d in (policy.select(contexts) for _ in range(m)))
    twin, rng = index_twin_of(policy), np.random.default_rng(11)
    counts = Counter()
    for _ in range(m):
        counts[twin.select(contexts, *twin.draw(rng, len(contexts)))] += 1
    return counts


def same_law(ours, theirs):
    """p-value of the hypothesis that two counters come from one law; pairs seen less than ten times are one class."""
    seen = ours + theirs
    often = [pair for pair in seen if seen[pair] >= 10]
    table = [[counts[pair] for pair in often] for counts in (ours, theirs)]
    rest = [sum(counts.values()) - sum(row) for counts, row in zip((ours, theirs), table, strict=True)]
    table = [[*row, left] for row, left in zip(table, rest, strict=True)]
    return stats.chi2_contingency(np.array(table)[:, np.sum(table, 0) > 0]).pvalue


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("n_rounds", [0, 60, 600])
@pytest.mark.parametrize("allows", [True, False])
def test_pairs_have_the_law_of_full_draws(kind, n_rounds, allows):
    """False alarm: 1e-4 for each. The round number moves on alike in both."""
    policy = play(kind(n_arms=10, allow_self_duel=allows, rng=2), n_rounds)
    m = rounds(6000, 500)
    assert same_law(pairs_in(policy, m), pairs_in(policy, m, "reference")) > 1e-4


RULE = double_thompson.DoubleThompsonRule(0.51, True)


def choices(table, m):
    """Both arms of m choices of D-TS, run as Python in round 400, after so many wins of row over column."""
    state = double_thompson.DoubleThompsonState.new(n := len(table))
    for i, row in enumerate(table):
        for j, wins in enumerate(row):
            for _ in range(wins):
                RULE.update(state, Choice(i, j, 0), np.zeros(1), 1.0, 1.0)
    state.counters["chosen"] = 400
    with np.errstate(over="ignore"):
        raws, work = np.random.default_rng(3).random((m, 3)), np.empty(RULE.work_shape(n, 1))
        return [RULE.select(state, np.zeros((1, n)), raw, work)[:2] for raw in raws]


# Arm 0 beats all, and is most in doubt against arm 1; arm 3 is its weakest rival.
FOUR = [[0, 11, 16, 19], [9, 0, 12, 14], [4, 8, 0, 12], [1, 6, 8, 0]]


def test_the_second_arm_is_the_most_dangerous_rival():
    """D-TS's rival comes from the column of the first arm, theta_i,first: those who may beat it."""
    counts = Counter(second for first, second in choices(FOUR, 400) if first == 0)
    assert counts[1] > 5 * counts[2] and counts[3] <= 1
    assert counts[0] > counts[1]  # mostly no rival's sample exceeds 1/2


def test_the_first_arm_wins_most_duels():
    """D-TS's first arm comes from theta_ij > 1/2 summed over the columns j: how many it beats."""
    firsts = [first for first, _ in choices(FOUR, 100)]
    assert firsts.count(0) > 50 and firsts.count(3) < 10


def test_certain_losers_are_no_rivals_and_no_candidates():
    assert set(choices([[0, 300, 300], [0, 0, 1], [0, 1, 0]], 50)) == {(0, 0)}


@pytest.mark.parametrize("kind", POLICIES)
def test_ties_are_broken_at_random(kind):
    """Nothing is known: every arm is first alike. False alarm: 1e-4."""
    policy, m = kind(n_arms=5, rng=3), rounds(3000, 500)
    counts = Counter(policy.select(np.eye(5)).first for _ in range(m))
    assert stats.chisquare([counts[i] for i in range(5)]).pvalue > 1e-4


@pytest.mark.parametrize("kind", POLICIES)
def test_permuting_arms_permutes_the_law_of_the_choice(kind):
    """False alarm: 1e-4."""
    policy, m = play(kind(n_arms=10, rng=2), 200), rounds(4000, 400)
    order = np.random.default_rng(0).permutation(10)
    other = copy.copy(policy)
    for array in state_of(other)[1:]:
        if kind is fc.DoubleThompson:
            array[:] = array[np.ix_(order, order)]
        else:
            array[:] = array[:, order]
    other._rng = np.random.default_rng(99)
    permuted = Counter({(int(order[i]), int(order[j])): c for (i, j), c in pairs_in(other, m).items()})
    assert same_law(pairs_in(policy, m), permuted) > 1e-4


# --- as objects ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda p: pickle.loads(pickle.dumps(p))])
def test_a_copy_goes_on_by_itself(kind, duplicate):
    policy = play(kind(n_arms=10, rng=6), 100)
    duel = policy.select(np.eye(10))
    twin = duplicate(policy)
    before = snapshot(policy)
    for _ in range(5):
        asked = twin.select(np.eye(10))
        twin.update(asked, True)
    assert snapshot(policy) == before and arrays(twin) != arrays(policy)
    for _ in range(5):
        policy.update(policy.select(np.eye(10)), True)
    assert snapshot(policy) == snapshot(twin)
    if not duel.is_self:
        policy.update(duel, True)


@pytest.mark.parametrize("kind", POLICIES)
def test_the_first_round_settles_the_number_of_arms(kind):
    policy, given = kind(rng=1), kind(n_arms=4, rng=1)
    for _ in range(20):
        a, b = policy.select(np.eye(4)), given.select(np.eye(4))
        assert (a.first, a.second) == (b.first, b.second)
        policy.update(a, True)
        given.update(b, True)
    before = snapshot(policy)
    for wrong in (np.eye(5), np.eye(3)):
        with pytest.raises(ValueError, match=r"contexts has \d arms.*n_arms=4"):
            policy.select(wrong)
    with pytest.raises(ValueError, match=r"contexts\[0, 0\] is nan"):
        policy.select(np.full((4, 4), np.nan))
    assert snapshot(policy) == before and arrays(policy) == arrays(given)
    policy.select(np.ones((4, 2)))  # features do not matter
    result = fc.simulate({"template": policy}, LADDER, 10, rng=1)  # its copies begin anew
    assert result.average_regret["template"].shape == (1, 10) and policy.round == 21


@pytest.mark.parametrize("kind", POLICIES)
def test_an_index_only_policy_learns_from_equal_arms_and_has_no_estimate(kind):
    policy = kind(rng=0)
    while (duel := policy.select(np.ones((3, 2)))).is_self:
        pass
    policy.update(duel, True)
    assert index_twin_of(policy).wins.sum() == 1
    with pytest.raises(AttributeError, match="sees arms by index only"):
        policy.theta  # noqa: B018
    alone = kind(n_arms=1, rng=0)
    duel = alone.select([[1.0]])
    before = snapshot(alone)
    alone.update(duel, True)
    assert duel.is_self and not index_twin_of(alone).wins.any() and snapshot(alone) == before


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan, math.inf, "0.5"])
def test_a_wrong_alpha_is_named(alpha):
    with pytest.raises(ValueError, match="alpha is"):
        fc.DoubleThompson(alpha=alpha)


# --- regret -------------------------------------------------------------------------------------------------


def regret_of_reference(kind, horizon, n_runs):
    rng = np.random.default_rng(8)
    contexts = np.eye(10)
    return [
        reference.simulate(kind(10), lambda t: contexts, THETA, reference.BradleyTerry(), horizon, rng)[0][-1]
        for _ in range(n_runs)
    ]


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("name", ["DoubleThompson", "SelfSparring"])
def test_regret_agrees_with_the_reference(name):
    """On the ladder. z below 4 of the difference in means, with the kernel's deviation: false alarm below 1e-3."""
    horizon, n_runs = 20_000, 2 if name == "DoubleThompson" else 4
    policies = {name: getattr(fc, name)(), "Random": fc.UniformPairs()}
    result = fc.simulate(policies, LADDER, horizon, runs=200, rng=2, checkpoints=[15_000, horizon])
    ours = result.average_regret[name][:, -1]
    theirs = regret_of_reference(getattr(reference, name), horizon, n_runs)
    z = (np.mean(theirs) - ours.mean()) / (ours.std(ddof=1) * math.sqrt(1 / n_runs + 1 / len(ours)))
    assert abs(z) < 4, (ours.mean(), np.mean(theirs))
    if name == "DoubleThompson":
        added = {label: np.diff(regret, axis=1).mean() for label, regret in result.average_regret.items()}
        assert added[name] < 0.03 * added["Random"]
