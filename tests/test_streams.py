"""Random streams: keys, SplitMix64 bit for bit, the laws of what is drawn from it, contexts in a ball.

Statistical tests have fixed seeds and false-alarm rates of 1e-6 a comparison unless they say otherwise.
"""

import math
from itertools import pairwise

import numpy as np
import pytest
from conftest import rounds
from numpy.random import PCG64, Generator, SeedSequence
from scipy import stats

from fastcolst import streams
from fastcolst.experiments.problems import Scenario
from fastcolst.streams import entropy_of, fill_normal, generator, key_of, label_key, uniform, word

ALARM = 1e-6
GOLDEN = 0x9E3779B97F4A7C15
STATES = [0, 1, 1234567, 2**32 - 1, 2**63 - 1, 2**63, GOLDEN, 2**64 - 1]
EDGES = np.append(streams._WIDTH * 2.0**51, 0.0)
"""Outer edges of the layers, the first of them the width that its rectangle would need."""


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


# --- SplitMix64 ---------------------------------------------------------------------------------------------


def filled(state, n):
    """A vector of n normals and the state after it."""
    out = np.full(n, np.nan)
    after = fill_normal(np.uint64(state), out, np.empty(n, np.int64))
    return out, int(after)


def splitmix(state):
    """The output function in integers without bound."""
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)


@pytest.mark.parametrize("state", STATES)
def test_words_are_those_of_integer_arithmetic(state):
    assert int(word(np.uint64(state))) == splitmix(state)
    assert float(uniform(np.uint64(state))) == (splitmix(state) >> 11) / 2**53


def test_a_key_is_made_of_two_uniforms():
    for seed in range(20):
        high, low = (int(u * 2**32) for u in np.random.default_rng(seed).random(2))
        assert int(key_of(np.random.default_rng(seed))) == high * 2**32 + low


def normals_in_integers(state, n):
    """The ziggurat by its description: the last state, the variates, how many fell outside their rectangles.

    Variate i comes from state i + 1; those outside their layer's rectangle are decided afterwards, in turn.
    """

    def following(state):
        return (state + GOLDEN) % 2**64

    def place(state):
        bits = splitmix(state)
        layer, mantissa = bits % 256, bits // 2**12
        return layer, (mantissa - 2**52 * (mantissa >= 2**51)) / 2**51 * EDGES[layer]

    def exponential(state):
        return -math.log1p(-(splitmix(state) >> 11) / 2**53)

    places = []
    for _ in range(n):
        state = following(state)
        places.append(place(state))
    n_outside, values = 0, []
    for first_layer, first_value in places:
        layer, value = first_layer, first_value
        n_outside += abs(value) >= EDGES[layer + 1]
        while abs(value) >= EDGES[layer + 1]:
            if layer == 0:
                beyond = twice = 0.0
                while twice <= beyond**2:
                    state = following(state)
                    beyond = exponential(state) / EDGES[1]
                    state = following(state)
                    twice = 2.0 * exponential(state)
                value = math.copysign(EDGES[1] + beyond, value)
                break
            state = following(state)
            share = (splitmix(state) >> 11) / 2**53
            bottom, top = np.exp(-0.5 * EDGES[layer : layer + 2] ** 2)
            if bottom + (top - bottom) * share < math.exp(-0.5 * value**2):
                break
            state = following(state)
            layer, value = place(state)
        values.append(value)
    return state, values, n_outside


def test_normals_are_those_of_integer_arithmetic():
    """20,000 of them, some 250 outside their rectangles and some in the tail."""
    for seed in range(20):
        state, values, n_outside = normals_in_integers(splitmix(seed), 1_000)
        found, after = filled(splitmix(seed), 1_000)
        np.testing.assert_allclose(found, values, rtol=1e-14)
        assert after == state
        assert n_outside > 0


def test_a_stream_goes_on_where_it_stopped():
    """No state serves two vectors, also where one has no element."""
    states, state = [7], 7
    for n in (0, 1, 2, 300):
        _, state = filled(state, n)
        states.append(state)
    steps = [((b - a) * pow(GOLDEN, -1, 2**64)) % 2**64 for a, b in pairwise(states)]
    assert steps[0] == 0
    assert all(n <= step < n + 100 for n, step in zip((0, 1, 2, 300), steps, strict=True))


# --- laws ---------------------------------------------------------------------------------------------------


def normals(seed, n):
    return filled(splitmix(seed), n)[0]


def test_layers_have_equal_areas():
    """Rectangles between neighbouring edges; the lowest layer is one with the tail below it."""
    heights = np.exp(-0.5 * EDGES**2)
    areas = EDGES[1:-1] * np.diff(heights)[1:]
    base = EDGES[1] * heights[1] + math.sqrt(2.0 * math.pi) * stats.norm.sf(EDGES[1])
    assert len(EDGES) == 257
    assert np.all(np.diff(EDGES) < 0.0)
    np.testing.assert_allclose(areas, base, rtol=1e-9)  # the uppermost shows all errors of the base
    assert EDGES[0] * heights[1] == pytest.approx(base, rel=1e-12)


def test_normals_follow_the_normal_law():
    """A standard deviation wrong by 1 % gives p < 1e-9 with the JIT."""
    values = normals(1, rounds(2_000_000, 30_000))
    assert stats.kstest(values, "norm").pvalue > ALARM
    assert stats.kstest(values[: len(values) // 10] ** 2, stats.chi2(1).cdf).pvalue > ALARM


def test_normals_fill_every_layer_as_they_should():
    """Chi-square over the 512 intervals between the layers' edges, of both signs."""
    cuts = np.concatenate([-EDGES[1:-1], EDGES[:0:-1]])
    values = normals(2, rounds(4_000_000, 200_000))
    counts = np.bincount(np.searchsorted(cuts, values), minlength=len(cuts) + 1)
    wanted = len(values) * np.diff(np.concatenate([[0.0], stats.norm.cdf(cuts), [1.0]]))
    assert len(counts) == 512
    assert stats.chisquare(counts, wanted).pvalue > ALARM


@pytest.mark.parametrize("edge", [1.0, 2.0, 3.0, 3.5, 3.6541528853610088, 4.0])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_tails_hold_as_many_normals_as_they_should(edge, sign):
    n_blocks, size = rounds(40, 1), rounds(250_000, 50_000)
    count = sum(int(np.sum(sign * normals(1_000 + i, size) > edge)) for i in range(n_blocks))
    assert stats.binomtest(count, n_blocks * size, stats.norm.sf(edge)).pvalue > ALARM


def test_normals_beyond_the_base_edge_have_the_tail_of_the_normal_law():
    """Given that they are beyond it; some 5,000 values with the JIT."""
    edge = streams._TAIL
    blocks = [np.abs(normals(1_000 + i, rounds(250_000, 50_000))) for i in range(rounds(80, 2))]
    beyond = np.concatenate([block[block > edge] for block in blocks])
    given = stats.norm.sf(edge)
    assert stats.kstest(beyond, lambda x: 1.0 - stats.norm.sf(x) / given).pvalue > ALARM


def test_neighbouring_normals_are_uncorrelated():
    """At lags 1 to 8: sums of n products, with deviation sqrt(n), and of their squares', with 2 sqrt(n)."""
    values = normals(3, rounds(2_000_000, 30_000))
    squares = values**2 - 1.0
    for lag in range(1, 9):
        n = len(values) - lag
        assert abs(values[lag:] @ values[:-lag]) < 5.2 * math.sqrt(n)
        assert abs(squares[lag:] @ squares[:-lag]) < 5.2 * 2.0 * math.sqrt(n)


# --- contexts in a ball -------------------------------------------------------------------------------------


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
