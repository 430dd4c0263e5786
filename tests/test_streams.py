"""Random streams: keys, SplitMix64 bit for bit, variates against forty digits and their laws, contexts in a ball.

Statistical tests have fixed seeds and false-alarm rates of 1e-6 a comparison unless they say otherwise.
"""

import math
from itertools import pairwise

import mpmath
import numba
import numpy as np
import pytest
from conftest import rounds
from numpy.random import PCG64, Generator, SeedSequence
from scipy import stats

from fastcolst import streams
from fastcolst.experiments.problems import Scenario
from fastcolst.kernels import splitmix
from fastcolst.kernels.ball import fill_ball, scratch_of_ball, sorting_network
from fastcolst.kernels.splitmix import fill_normal, key_of, uniform, word
from fastcolst.streams import entropy_of, generator, label_key

ALARM = 1e-6
GOLDEN = 0x9E3779B97F4A7C15
STATES = [0, 1, 1234567, 2**32 - 1, 2**63 - 1, 2**63, GOLDEN, 2**64 - 1]


# --- seeds and keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 7, 2**200, np.int32(7), np.uint64(2**63 + 5)])
def test_an_int_is_its_own_entropy(seed):
    assert entropy_of(seed) == int(seed)
    assert type(entropy_of(seed)) is int


def test_a_seed_sequence_stands_for_its_entropy_and_its_place():
    assert entropy_of(SeedSequence(7)) == 7
    parent = SeedSequence(7)
    children = [entropy_of(child) for child in parent.spawn(2)]
    assert len({7, *children}) == 3
    assert entropy_of(SeedSequence(7, spawn_key=(0,))) == children[0]
    assert entropy_of(SeedSequence([1, 2])) == entropy_of(SeedSequence([1, 2])) != entropy_of(SeedSequence([2, 1]))


@pytest.mark.parametrize("make", [np.random.default_rng, PCG64])
def test_a_generator_gives_128_bits_once(make):
    rng, twin = make(3), Generator(PCG64(3))
    assert entropy_of(rng) == int.from_bytes(twin.bytes(16), "little")
    assert entropy_of(rng) == int.from_bytes(twin.bytes(16), "little")


def test_sequences_of_ints_are_keys():
    assert entropy_of([1, 2]) == entropy_of(np.array([1, 2])) != entropy_of([2, 1])


def test_none_is_fresh_every_time():
    fresh = [entropy_of(None) for _ in range(10)]
    assert len(set(fresh)) == 10
    assert max(fresh).bit_length() > 100


@pytest.mark.parametrize(
    "bad",
    [True, False, np.True_, 1.5, math.nan, "7", b"7", object(), {}, [1.5], [-1]],
    ids=lambda bad: type(bad).__name__,
)
def test_what_is_not_a_seed_is_named(bad):
    with pytest.raises(ValueError, match=r"^rng is .*; wanted an int, a SeedSequence, a Generator or None$"):
        entropy_of(bad)


@pytest.mark.parametrize("bad", [-1, np.int64(-3)])
def test_negative_seeds_are_named(bad):
    with pytest.raises(ValueError, match=rf"^rng is {int(bad)}; a seed must not be negative$"):
        entropy_of(bad)


def test_streams_of_different_keys_differ_and_equal_keys_agree():
    keys = [
        (),
        (1,),
        (2,),
        (1, 0),
        (1, 1),
        (2, 1),
        (1, 2),
        (1, 0, 0),
        (4, 0, *label_key("a")),
        (4, 0, *label_key("b")),
    ]
    firsts = [tuple(generator(entropy, *key).random(4)) for entropy in (0, 1, 2**100) for key in keys]
    assert len(set(firsts)) == len(firsts)
    assert tuple(generator(0, 1, 2).random(4)) == tuple(generator(0, 1, 2).random(4))


def test_labels_have_the_keys_of_their_published_digests():
    """SHA-256 of "" is e3b0c44298fc1c149afbf4c8996fb924..., of "abc" ba7816bf8f01cfea414140de5dae2223..."""
    assert label_key("") == (0x42C4B0E3, 0x141CFC98, 0xC8F4FB9A, 0x24B96F99)
    assert label_key("abc") == (0xBF1678BA, 0xEACF018F, 0xDE404141, 0x2322AE5D)
    assert label_key("Ä") != label_key("A")


# --- SplitMix64 and the variates of its words ---------------------------------------------------------------


def filled(state, n):
    """A vector of n normals and the state after it, by whole arrays."""
    out = np.full(n, np.nan)
    after = fill_normal(np.uint64(state), out)
    return out, int(after)


@numba.njit
def in_a_kernel(state, out):
    return fill_normal(state, out)


def output(state):
    """The output function in integers without bound."""
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)


def words_after(state, n):
    """The next words of a stream."""
    return [output((state + (i + 1) * GOLDEN) % 2**64) for i in range(n)]


@pytest.mark.parametrize("state", STATES)
def test_words_are_those_of_integer_arithmetic(state):
    with np.errstate(over="ignore"):
        assert int(word(np.uint64(state))) == output(state)
        assert float(uniform(np.uint64(state))) == (output(state) >> 11) / 2**53


def test_a_key_is_made_of_two_uniforms():
    for seed in range(20):
        high, low = (int(u * 2**32) for u in np.random.default_rng(seed).random(2))
        assert int(key_of(np.random.default_rng(seed))) == high * 2**32 + low


EXTREME = [0, 1, 2**12 - 1, 2**12, 2**63 - 1, 2**63, 2**63 + 2**12, 2**64 - 2**12, 2**64 - 1]
"""The words of the longest and the shortest distance, and of both ends and the middle of either half circle."""


def radius_of(bits):
    """sqrt(-2 log u), u in (0, 1] by the upper 52 bits, with forty digits."""
    return mpmath.sqrt(-2 * mpmath.log(1 - mpmath.mpf(bits >> 12) / 2**52))


def direction_of(bits):
    """cos and sin of half a turn by the upper 52 bits, the left half where the lowest bit is set."""
    angle = mpmath.pi * (mpmath.mpf(bits >> 12) / 2**52 - mpmath.mpf(1) / 2)
    return (-1) ** (bits & 1) * mpmath.cos(angle), mpmath.sin(angle)


def test_every_word_has_its_fraction():
    found = splitmix.fraction(np.array(EXTREME, np.uint64))
    assert found.tolist() == [(bits >> 12) / 2**52 for bits in EXTREME]


def test_distances_and_directions_agree_with_forty_digits_out_to_the_last_word():
    words = EXTREME + words_after(5, 2_000)
    distances = splitmix._distance(np.array(words, np.uint64))
    x, y = splitmix.direction(np.array(words, np.uint64))
    with mpmath.workdps(40):
        for i, bits in enumerate(words):
            assert abs(mpmath.mpf(distances[i]) - radius_of(bits)) <= 3e-16 * radius_of(bits)
            cosine, sine = direction_of(bits)
            assert abs(mpmath.mpf(x[i]) - cosine) < 6e-16 and abs(mpmath.mpf(y[i]) - sine) < 6e-16
        assert distances.max() == float(mpmath.sqrt(104 * mpmath.log(2)))


@pytest.mark.parametrize("n", [0, 1, 2, 7, 1_000])
def test_normals_are_pairs_of_distances_and_directions(n):
    """The first half of the words are distances, the second directions; of an odd number one variate is left over."""
    half = (n + 1) // 2
    for seed in range(3):
        state = output(seed)
        words = words_after(state, 2 * half)
        with mpmath.workdps(40):
            radii, points = [radius_of(bits) for bits in words[:half]], [direction_of(bits) for bits in words[half:]]
            exact = [r * point[axis] for axis in (0, 1) for r, point in zip(radii, points, strict=True)]
            found, after = filled(state, n)
            error = [abs(mpmath.mpf(value) - wanted) for value, wanted in zip(found, exact, strict=False)]
            assert all(e <= 1e-15 * r for e, r in zip(error, radii + radii, strict=False))
        assert after == (state + 2 * half * GOLDEN) % 2**64


@pytest.mark.jit
@pytest.mark.parametrize("n", [0, 1, 2, 7, 64, 1_001])
def test_kernels_fill_in_loops_what_python_fills_at_once(n):
    for state in (*STATES, output(n)):
        compiled, (whole, after) = np.full(n, np.nan), filled(state, n)
        assert int(np.uint64(in_a_kernel(np.uint64(state), compiled))) == after
        assert compiled.tobytes() == whole.tobytes()


def test_a_stream_goes_on_where_it_stopped():
    """No state serves two vectors, also where one has no element."""
    states, state = [7], 7
    for n in (0, 1, 2, 300):
        _, state = filled(state, n)
        states.append(state)
    steps = [((b - a) * pow(GOLDEN, -1, 2**64)) % 2**64 for a, b in pairwise(states)]
    assert steps == [0, 2, 2, 300]


# --- laws ---------------------------------------------------------------------------------------------------


def normals(seed, n):
    return filled(output(seed), n)[0]


AMOUNTS = [1_000_000, pytest.param(10_000_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("n", AMOUNTS)
def test_normals_follow_the_normal_law(n):
    """A standard deviation wrong by 1 % gives p < 1e-9."""
    values = normals(1, n)
    assert stats.kstest(values, "norm").pvalue > ALARM
    assert stats.kstest(values[: n // 10] ** 2, stats.chi2(1).cdf).pvalue > ALARM
    half = n // 2
    assert stats.kstest(values[:half] ** 2 + values[half:] ** 2, stats.chi2(2).cdf).pvalue > ALARM


@pytest.mark.parametrize("n", AMOUNTS)
def test_normals_fill_every_cell_as_they_should(n):
    """Chi-square over 1,024 cells of equal probability, and over 32 x 32 of the two variates of a pair."""
    cuts = stats.norm.ppf(np.arange(1, 1024) / 1024)
    values = normals(2, n)
    cells = np.searchsorted(cuts, values)
    assert stats.chisquare(np.bincount(cells, minlength=1024)).pvalue > ALARM
    pairs = cells[: n // 2] // 32 * 32 + cells[n // 2 :] // 32
    assert stats.chisquare(np.bincount(pairs, minlength=1024)).pvalue > ALARM


@pytest.mark.parametrize("n", AMOUNTS)
def test_moments_are_those_of_the_normal_law(n):
    """Up to the eighth; the mean of z^k has the variance E z^2k - (E z^k)^2, over n."""
    values = normals(4, n)
    moment = {k: math.prod(range(1, k, 2)) if k % 2 == 0 else 0 for k in range(17)}
    for k in range(1, 9):
        deviation = math.sqrt((moment[2 * k] - moment[k] ** 2) / n)
        assert abs(np.mean(values**k) - moment[k]) < 5.2 * deviation, k


@pytest.mark.parametrize("edge", [1.0, 2.0, 3.0, 4.0, 4.5])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_tails_hold_as_many_normals_as_they_should(edge, sign):
    n_blocks, size = rounds(40, 4), 250_000
    count = sum(int(np.sum(sign * normals(1_000 + i, size) > edge)) for i in range(n_blocks))
    assert stats.binomtest(count, n_blocks * size, stats.norm.sf(edge)).pvalue > ALARM


def test_normals_far_out_have_the_tail_of_the_normal_law():
    """Given that they are beyond 3.5; some 9,000 values."""
    edge = 3.5
    blocks = [np.abs(normals(1_000 + i, 250_000)) for i in range(rounds(80, 8))]
    beyond = np.concatenate([block[block > edge] for block in blocks])
    given = stats.norm.sf(edge)
    assert stats.kstest(beyond, lambda x: 1.0 - stats.norm.sf(x) / given).pvalue > ALARM


@pytest.mark.parametrize("n", AMOUNTS)
def test_normals_of_one_stream_are_uncorrelated(n):
    """At lags 1 to 8, and the two of a pair: sums of products have deviation sqrt(n), of their squares' 2 sqrt(n)."""
    values = normals(3, n)
    squares = values**2 - 1.0
    for lag in (*range(1, 9), n // 2):
        n_products = n - lag
        assert abs(values[lag:] @ values[:-lag]) < 5.2 * math.sqrt(n_products)
        assert abs(squares[lag:] @ squares[:-lag]) < 5.2 * 2.0 * math.sqrt(n_products)


@pytest.mark.parametrize("n", AMOUNTS)
@pytest.mark.parametrize("apart", [1, 2**32, 2**63])
def test_normals_of_streams_with_similar_keys_are_uncorrelated(apart, n):
    one, other = (filled(key, n)[0] for key in (12345, 12345 + apart))
    assert abs(one @ other) < 5.2 * math.sqrt(n)
    assert abs((one**2 - 1.0) @ (other**2 - 1.0)) < 5.2 * 2.0 * math.sqrt(n)


# --- contexts in a ball -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 8, 25, 64])
def test_the_network_sorts(n):
    """Whoever sorts all rows of zeros and ones sorts everything (Knuth, volume 3, 5.3.4)."""
    rng = np.random.default_rng(n)
    rows = (np.arange(2**n)[:, None] >> np.arange(n) & 1) if n < 9 else rng.integers(0, 2, (2_000, n))
    rows = rows.copy()
    for one, other in sorting_network(n):
        rows[:, [one, other]] = np.sort(rows[:, [one, other]], axis=1)
    assert (np.diff(rows, axis=1) >= 0).all()
    assert len(sorting_network(n)) <= n * (math.log2(n) + 1) ** 2 / 4


def contexts_from_words(state, d, n_arms):
    """A round's contexts (n_arms, d) by their description, arm by arm."""
    h = -(-d // 2)
    columns = -(-n_arms // 8) * 8
    words = words_after(state, h * columns + h * n_arms)
    rows = []
    for arm in range(n_arms):
        uniforms = sorted(mpmath.mpf(words[j * columns + arm] >> 12) / 2**52 for j in range(h))
        lengths = [mpmath.sqrt(b - a) for a, b in pairwise([0.0, *uniforms])]
        points = [direction_of(words[h * columns + j * n_arms + arm]) for j in range(h)]
        x = [length * point[0] for length, point in zip(lengths, points, strict=True)]
        y = [length * point[1] for length, point in zip(lengths, points, strict=True)]
        rest = mpmath.sqrt(1 - (lengths[-1] * points[-1][1]) ** 2) if d % 2 else 1
        rows.append([float(value / rest) for value in (x + y)[:d]])
    return np.array(rows)


@pytest.mark.parametrize("n_arms", [1, 8, 11])
@pytest.mark.parametrize("d", [1, 2, 3, 10, 11])
def test_contexts_are_those_of_their_description(d, n_arms):
    """Those of kernels, and by whole arrays, which are the same bits."""
    contexts = contexts_of(d, n_arms, 3, seed=8)
    rng = generator(8, streams.CONTEXTS, 0)
    scratch = scratch_of_ball(n_arms, d)
    for found in contexts:
        state = int(key_of(rng))
        with mpmath.workdps(40):
            exact = contexts_from_words(state, d, n_arms)
        np.testing.assert_allclose(found, exact, rtol=0.0, atol=2e-15)
        whole = np.full((d, n_arms), np.nan)
        fill_ball(state, *scratch, whole)
        assert whole.tobytes() == found.T.tobytes()


def contexts_of(d, n_arms, n_rounds, seed=4):
    """(n_rounds, n_arms, d), drawn chunk after chunk."""
    run = Scenario(theta=np.ones(d), n_arms=n_arms).start(seed, 0)
    drawn = []
    while n_rounds > 0:
        length = min(n_rounds, run.chunk_rounds)
        drawn.append(run.next_chunk(length).contexts.transpose(0, 2, 1).copy())
        n_rounds -= length
    return np.concatenate(drawn)


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_contexts_are_uniform_in_the_ball(d):
    """radius^d is uniform, a direction's squared coordinate is Beta(1/2, (d-1)/2) on any axis, and radius and
    direction know nothing of each other.
    """
    contexts = contexts_of(d, 10, rounds(20_000, 300)).reshape(-1, d)
    radii = np.linalg.norm(contexts, axis=1)
    assert np.max(radii) < 1.0
    assert stats.kstest(radii**d, "uniform").pvalue > ALARM
    directions = contexts / radii[:, None]
    axes = np.vstack([np.eye(d), np.ones(d) / math.sqrt(d), np.resize([1.0, -1.0], d) / math.sqrt(d)])
    for along in axes @ directions.T:
        assert stats.binomtest(int(np.sum(along > 0.0)), len(along)).pvalue > ALARM
        if d > 1:
            assert stats.kstest(along**2, stats.beta(0.5, (d - 1) / 2.0).cdf).pvalue > ALARM
            inner, outer = along[radii < np.median(radii)], along[radii > np.median(radii)]
            assert stats.ks_2samp(inner, outer).pvalue > ALARM
        else:
            np.testing.assert_array_equal(np.abs(along), 1.0)


def test_angles_are_uniform_in_the_plane():
    x, y = contexts_of(2, 10, rounds(20_000, 300)).reshape(-1, 2).T
    assert stats.kstest(np.arctan2(y, x) / (2.0 * math.pi) + 0.5, "uniform").pvalue > ALARM


def test_arms_and_rounds_are_uncorrelated():
    """Inner products have mean 0 and variance d/(d+2)^2, for arms of one round and of two rounds."""
    d = 5
    contexts = contexts_of(d, 4, rounds(50_000, 500))
    for left, right in [
        (contexts[:, 0], contexts[:, 1]),
        (contexts[:, 1], contexts[:, 3]),
        (contexts[1:, 0], contexts[:-1, 0]),
        (contexts[1:, 0], contexts[:-1, 3]),
    ]:
        total = float(np.sum(left * right))
        assert abs(total) < 5.2 * math.sqrt(len(left) * d) / (d + 2)


@pytest.mark.parametrize("lengths", [[40], [1] * 40, [7, 1, 30, 2]])
def test_rounds_do_not_depend_on_how_they_are_cut(lengths):
    scenario = Scenario(theta=[1.0, -0.5, 0.25], n_arms=6)
    whole = scenario.start(3, 1).next_chunk(40)
    run = scenario.start(3, 1)
    pieces = [[array.copy() for array in run.next_chunk(length)] for length in lengths]
    for name, array, parts in zip(whole._fields, whole, zip(*pieces, strict=True), strict=True):
        np.testing.assert_array_equal(np.concatenate(parts), array, err_msg=name)


def test_runs_and_seeds_have_their_own_contexts():
    firsts = {
        Scenario(theta=np.ones(3), n_arms=2).start(seed, run).next_chunk(1).contexts.tobytes()
        for seed in (0, 1)
        for run in (0, 1)
    }
    assert len(firsts) == 4
