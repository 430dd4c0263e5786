"""The columns of a log: by name, by pattern, and how those of two things are paired."""

from __future__ import annotations

import fnmatch

import numpy as np
import pytest
from conftest import CONTRASTS, STATED, TABLE
from hypothesis import given
from hypothesis import strategies as st

from fastcolst.data import columns, read_log


def test_columns_named_one_by_one_are_paired_by_position(write_log):
    log = read_log(write_log(TABLE), first=["a_price", "a_speed"], second=["b_price", "b_speed"], **STATED)
    np.testing.assert_allclose(log.contrasts, np.array(CONTRASTS)[:, ::-1], rtol=1e-15)
    assert log.features == ("a_price - b_price", "a_speed - b_speed")


def test_contrast_columns_are_taken_in_file_order(write_log):
    log = read_log(write_log("z_2,y,z_1\n1,-1,2\n3,1,4\n5,0,6\n"), contrast="z_*")
    assert log.features == ("z_2", "z_1")
    assert log.contrasts.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert log.wins.tolist() == [False, True]
    assert log.draws == 1


@pytest.mark.parametrize(
    ("first", "second", "features"),
    [
        ("?1_*", "?2_*", ("p_x", "q_x")),
        ("[pq]1_x", "[pq]2_x", ("p", "q")),
        ("[!r]1_x", "[!r]2_x", ("p", "q")),
        ("p1_x", "p2_x", ("p1_x",)),
    ],
)
def test_patterns_pair_columns_by_what_their_wildcards_stand_for(write_log, first, second, features):
    log = read_log(write_log("q2_x,p1_x,q1_x,p2_x,y\n1,20,300,4000,1\n"), first=first, second=second)
    assert log.features == features
    assert log.contrasts.tolist() == [[20.0 - 4000.0, 300.0 - 1.0][: len(features)]]


def test_stars_stand_for_as_little_as_they_can_and_the_last_for_the_rest(write_log):
    log = read_log(write_log("a_x_y_z,b_x_y_z,y\n3,1,1\n"), first="a*_*", second="b*_*")
    assert log.features == ("_x_y_z",)
    expression = columns._capturing("[*]*-?*[!a]*")
    assert expression.fullmatch("*one-two-three").groups() == ("*", "one", "t", "", "w", "o-three")


@given(pattern=st.text("ab*?[]!", max_size=8), name=st.text("ab*[", max_size=8))
def test_patterns_match_what_the_standard_library_says(pattern, name):
    assert (columns._capturing(pattern).fullmatch(name) is not None) == fnmatch.fnmatchcase(name, pattern)


def test_many_stars_take_no_exponential_time(write_log):
    """Twenty stars took hours before: that this test ends is what it asserts."""
    name = "a" * 4_000
    with pytest.raises(ValueError, match="matches no column"):
        read_log(write_log(f"{name},y\n1,1\n"), contrast="*a" * 60 + "*b")
    assert read_log(write_log(f"{name},y\n1,1\n"), contrast="*a" * 60 + "*").features == (name,)


def test_characters_special_in_regular_expressions_are_plain_in_patterns(write_log):
    log = read_log(write_log("z.1,zx1,y\n1,2,1\n"), contrast="z.*")
    assert log.features == ("z.1",)
