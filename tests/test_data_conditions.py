"""Conditions on the rows of a log."""

from __future__ import annotations

import pytest

from fastcolst.data import read_log

CONDITIONED = """row,z,y,year,city,flag
0,1,1,1990,Oslo,True
1,1,1,1991,Rome,False
2,1,1,,,True
3,1,1,1993,Oslo,True
"""


@pytest.mark.parametrize("extension", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("year == 1990", [0]),
        ("year != 1990", [1, 3]),
        ("year < 1991", [0]),
        ("year <= 1991", [0, 1]),
        ("year > 1991", [3]),
        ("  year>=1991.0 ", [1, 3]),
        ("year > 1.9905e3", [1, 3]),
        ("year > -1", [0, 1, 3]),
        ("city == 'Oslo'", [0, 3]),
        ('city != "Oslo"', [1]),
        ("city >= 'P'", [1]),
        ("flag == 1", [0, 2, 3]),
        pytest.param(f"year < 1{'0' * 5_000}", [0, 1, 3], id="five thousand digits"),
        pytest.param(f"flag < 1{'0' * 30}", [0, 1, 2, 3], id="thirty digits"),
        (["year >= 1991", "city == 'Oslo'"], [3]),
        ([], [0, 1, 2, 3]),
    ],
)
def test_conditions_keep_the_rows_that_meet_them_all(write_log, extension, where, kept):
    log = read_log(write_log(CONDITIONED, extension), contrast=["row"], where=where)
    assert log.contrasts[:, 0].tolist() == kept
    assert (log.rows, log.selected) == (4, len(kept))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("year", "is not a column, one of"),
        ("year = 1990", "is not a column, one of"),
        (">= 3", "is not a column, one of"),
        ("year >= ", "compares with ''"),
        ("year >= nan", "compares with 'nan'"),
        ("year >= 1990 and 1", "compares with '1990 and 1'"),
        ("city == Oslo", "a number or a 'quoted text'"),
        ("city == 'a' or 'b'", "a number or a 'quoted text'"),
        ("year == __import__('os').getpid()", "a number or a 'quoted text'"),
        ("month == 1", "where: .* has no 'month'; it has row, z"),
        ("city == 1", "'city', which holds texts, with a number"),
        ("year == '1990'", "'year', which holds numbers, with a text"),
        ("year > 2000", "no comparison to learn from: 4 rows, 0 selected"),
    ],
)
def test_conditions_that_make_no_sense_are_refused(write_log, where, message):
    with pytest.raises(ValueError, match=message):
        read_log(write_log(CONDITIONED), contrast="z", where=where)
