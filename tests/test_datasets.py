"""Reading logs of comparisons, and replaying them."""

from __future__ import annotations

import fnmatch
import gzip
import math
import pickle
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fastcolst import datasets
from fastcolst.datasets import Log, ReplayResult, read_log, replay

if TYPE_CHECKING:
    from pathlib import Path

TABLE = """a_speed,b_price,outcome,a_price,b_speed,city,year
1.0,2.0,1,3.0,0.5,Oslo,1990
2.0,1.0,0,1.0,1.5,Rome,1991
0.1,0.2,0.5,0.3,0.4,Rome,1992
4.0,1.0,1,,2.0,Oslo,1993
5.0,1.0,,2.0,2.0,,1994
6.0,1.0,7,2.0,2.0,Rome,1995
7.0,1.0,abandoned,2.0,2.0,Rome,1996
8.0,3.0,1,2.0,1.0,Rome,1997
"""
# In file order: speed, price of the rows that are decisive and complete.
CONTRASTS = [[0.5, 1.0], [0.5, 0.0], [7.0, -1.0]]
TABLE_COUNTS = {"rows": 8, "draws_in_file": 1, "selected": 8, "draws": 1, "missing": 2, "unknown": 2}


@pytest.fixture
def write(tmp_path):
    """Write a table as CSV text, in any of the formats for tables."""

    def write(text: str, extension: str = ".csv") -> Path:
        path = tmp_path / f"log{extension}"
        if extension == ".parquet":
            pandas = pytest.importorskip("pandas")
            pytest.importorskip("pyarrow")
            csv = tmp_path / "as_text.csv"
            csv.write_text(text)
            pandas.read_csv(csv).to_parquet(path)
        elif extension.endswith(".gz"):
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)
        return path

    return write


def counts(log: Log) -> dict[str, int]:
    return {name: getattr(log, name) for name in TABLE_COUNTS}


class Sgd:
    """Online logistic regression in plain NumPy: what a policy looks like to replay."""

    def __init__(self, n_features: int, rate: float) -> None:
        self.theta = np.zeros(n_features)
        self.rate = rate
        self.calls = 0

    def learn_and_predict(self, contrasts, wins):
        self.calls += 1
        probabilities = np.empty(len(contrasts))
        for t, z in enumerate(contrasts):
            probabilities[t] = 1.0 / (1.0 + np.exp(-z @ self.theta))
            self.theta += self.rate * (wins[t] - probabilities[t]) * z
        return probabilities


class Says:
    """Predicts what it is told to."""

    def __init__(self, probabilities, n_features: int = 1) -> None:
        self.probabilities = probabilities
        self.theta = np.zeros(n_features)

    def learn_and_predict(self, *_):
        return self.probabilities


def scored(probabilities, wins) -> ReplayResult:
    log = Log.from_arrays(np.ones((len(wins), 1)), wins)
    return ReplayResult(probabilities=probabilities, wins=log.wins, theta=[0.0], log=log, label="test")


# --- tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extension", [".csv", ".csv.gz", ".CSV", ".parquet"])
def test_every_row_of_a_table_is_learned_or_counted(write, extension):
    log = read_log(write(TABLE, extension), first="a_*", second="b_*")
    np.testing.assert_allclose(log.contrasts, CONTRASTS, rtol=1e-15)
    assert log.wins.tolist() == [True, False, True]
    assert log.features == ("speed", "price")
    assert counts(log) == TABLE_COUNTS
    assert len(log) == 3
    assert repr(log) == f"Log(3 comparisons of 2 features; {log.counts})"
    assert log.counts == "8 rows: 3 learned, 1 draws left out, 2 missing, 2 unknown outcomes"


def test_columns_named_one_by_one_are_paired_by_position(write):
    log = read_log(write(TABLE), first=["a_price", "a_speed"], second=["b_price", "b_speed"])
    np.testing.assert_allclose(log.contrasts, np.array(CONTRASTS)[:, ::-1], rtol=1e-15)
    assert log.features == ("a_price - b_price", "a_speed - b_speed")


def test_contrast_columns_are_taken_in_file_order(write):
    log = read_log(write("z_2,y,z_1\n1,-1,2\n3,1,4\n5,0,6\n"), contrast="z_*")
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
def test_patterns_pair_columns_by_what_their_wildcards_stand_for(write, first, second, features):
    log = read_log(write("q2_x,p1_x,q1_x,p2_x,y\n1,20,300,4000,1\n"), first=first, second=second)
    assert log.features == features
    assert log.contrasts.tolist() == [[20.0 - 4000.0, 300.0 - 1.0][: len(features)]]


def test_stars_stand_for_as_little_as_they_can_and_the_last_for_the_rest(write):
    log = read_log(write("a_x_y_z,b_x_y_z,y\n3,1,1\n"), first="a*_*", second="b*_*")
    assert log.features == ("_x_y_z",)
    expression = datasets._capturing("[*]*-?*[!a]*")
    assert expression.fullmatch("*one-two-three").groups() == ("*", "one", "t", "", "w", "o-three")


@given(pattern=st.text("ab*?[]!", max_size=8), name=st.text("ab*[", max_size=8))
def test_patterns_match_what_the_standard_library_says(pattern, name):
    assert (datasets._capturing(pattern).fullmatch(name) is not None) == fnmatch.fnmatchcase(name, pattern)


def test_many_stars_take_no_exponential_time(write):
    """Twenty stars took hours before: that this test ends is what it asserts."""
    name = "a" * 4_000
    with pytest.raises(ValueError, match="matches no column"):
        read_log(write(f"{name},y\n1,1\n"), contrast="*a" * 60 + "*b")
    assert read_log(write(f"{name},y\n1,1\n"), contrast="*a" * 60 + "*").features == (name,)


def test_characters_special_in_regular_expressions_are_plain_in_patterns(write):
    log = read_log(write("z.1,zx1,y\n1,2,1\n"), contrast="z.*")
    assert log.features == ("z.1",)


def test_a_table_keeps_the_digits_of_its_numbers(write):
    values = np.random.default_rng(1).standard_normal(200)
    text = "z,y\n" + "".join(f"{value!r},1\n" for value in values.tolist())
    read = read_log(write(text), contrast="z").contrasts[:, 0]
    np.testing.assert_allclose(read, values, rtol=1e-15, atol=1e-15)


def test_outcomes_may_be_booleans_beside_missing_ones(write):
    log = read_log(write("z,outcome\n1,True\n2,\n3,False\n"), contrast="z")
    assert log.wins.tolist() == [True, False]
    assert log.missing == 1


@pytest.mark.parametrize("keep", [1, 2])
def test_an_infinite_feature_is_an_error_only_where_it_would_be_learned(write, keep):
    path = write("z_1,z_2,y,year\n0,1,1,1\n1,inf,1,2\n-inf,0,0.5,1\n")
    if keep == 1:
        assert len(read_log(path, contrast="z_*", where="year == 1")) == 1
    else:
        with pytest.raises(ValueError, match=r"column 'z_2' is inf in row 1 .*must be finite"):
            read_log(path, contrast="z_*")


def test_infinities_of_both_things_do_not_pass_as_missing(write):
    with pytest.raises(ValueError, match="column 'a' is inf in row 0"):
        read_log(write("a,b,y\ninf,inf,1\n"), first="a", second="b")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TABLE, {}, "say where the features are.*a_speed, b_price"),
        (TABLE, {"first": "a_*"}, "second is missing"),
        (TABLE, {"second": "a_*"}, "first is missing"),
        (TABLE, {"contrast": "z", "first": "a_*"}, "exclude each other"),
        (TABLE, {"contrast": "z_*"}, r"contrast='z_\*' matches no column.*a_speed"),
        (TABLE, {"first": "a_*", "second": ["b_speed"]}, "both be patterns"),
        (TABLE, {"first": ["a_speed"], "second": ["b_speed", "b_price"]}, "second has .*partner: b_price"),
        (TABLE, {"first": [], "second": []}, "first names nothing"),
        (TABLE, {"first": ["a_x"], "second": ["b_x"]}, "first names a_x"),
        (TABLE, {"first": "?_speed", "second": "b_*"}, "'b_speed' is in first and in second"),
        (TABLE, {"contrast": ["a_speed", "a_speed"]}, "two columns with the name 'a_speed'"),
        (TABLE, {"contrast": "*"}, "'outcome' is the outcome and a feature too"),
        (TABLE, {"contrast": "a_*", "outcome": "won"}, "outcome: .* has no 'won'"),
        (TABLE, {"contrast": "c*"}, "column 'city' is 'Oslo' in row 0 .*must be a number"),
        (TABLE, {"contrast": "a_*", "coding": "ternary"}, "coding is 'ternary'"),
        (
            "z,a_1,a_2,b_2,b_3,y\n1,1,1,1,1,1\n",
            {"first": "a_*", "second": "b_*"},
            r"a_1 \(first\), b_3 \(sec",
        ),
        ("z,won\n1,1\n", {"contrast": "z"}, "outcome: .* has no 'outcome' or 'y'"),
        ("z,y\n", {"contrast": "z"}, "no comparison to learn from: 0 rows"),
        ("z,y\n1,2\n2,0.5\n", {"contrast": "z"}, "2 selected, 1 draws, 0 missing, 1 unknown"),
        ("z,z,y\n1,2,1\n", {"contrast": "z"}, "two columns with the name 'z'"),
        ("z,y\n1,1,\n2,0,\n", {"contrast": "z"}, "cannot be read: .*Expected 2 fields"),
        ("", {"contrast": "z"}, "cannot be read"),
        ('z,y\n"1,1\n', {"contrast": "z"}, "cannot be read"),
    ],
)
def test_what_cannot_be_read_without_a_guess_is_refused(write, text, options, message):
    with pytest.raises(ValueError, match=message):
        read_log(write(text), **options)


def test_columns_of_parquet_that_are_no_numbers_are_refused(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path / "log.parquet"
    days = pandas.to_datetime(["2026-01-01", "2026-01-02"])
    table = {"z": [1.0, 2.0], "day": days, "many": [[1], [2]], "y": [True, False]}
    pandas.DataFrame(table).to_parquet(path)
    assert read_log(path, contrast="z", where="day >= '2026-01-02'").wins.tolist() == [False]
    for name in ("day", "many"):
        with pytest.raises(ValueError, match=f"column '{name}' is .* must be a number"):
            read_log(path, contrast=name)


def test_parquet_is_read_as_the_plain_table_that_it_holds(tmp_path):
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "log.parquet"
    frame = pandas.DataFrame({"z": [1.0, 2.0], "y": [0, 1]}, index=pandas.Index([5, 6], name="year"))
    frame.to_parquet(path)
    assert len(read_log(path, contrast="z", where="year > 5")) == 1
    days = pyarrow.array([1, 2], pyarrow.int32()).cast(pyarrow.date32())
    parquet.write_table(pyarrow.table({"z": [1.0, 2.0], "y": [0, 1], "day": days}), path)
    assert len(read_log(path, contrast="z", where="day == '1970-01-03'")) == 1
    decimals = pyarrow.array([1, None, 3], pyarrow.int64()).cast(pyarrow.decimal128(20, 1))
    parquet.write_table(pyarrow.table({"z": decimals, "y": [0, 1, 1]}), path)
    assert read_log(path, contrast="z").contrasts.tolist() == [[1.0], [3.0]]
    columns = [pyarrow.array([1.0]), pyarrow.array([2.0]), pyarrow.array([1])]
    parquet.write_table(pyarrow.Table.from_arrays(columns, names=["z", "z", "y"]), path)
    with pytest.raises(ValueError, match="two columns with the name 'z'"):
        read_log(path, contrast="z")


def test_a_folder_named_like_a_partition_adds_no_column(write, tmp_path):
    folder = tmp_path / "z_2=5"
    folder.mkdir()
    path = write("z_1,y\n1,1\n", ".parquet").rename(folder / "log.parquet")
    assert read_log(path, contrast="z_*").features == ("z_1",)


# --- outcomes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coding", "outcomes", "expected"),
    [
        (None, [-1, 0, 1, 0.5], ([False, True], 1, 1)),
        (None, [0, 0.5, 1, 2], ([False, True], 1, 1)),
        ("auto", [0, 1, 1, 0], ([False, True, True, False], 0, 0)),
        ("signed", [0, 1, 1, 0], ([True, True], 2, 0)),
        ("unit", [0, 1, -1, 0.5], ([False, True], 1, 1)),
        (None, [1, np.inf, -np.inf, 0.25], ([True], 0, 3)),
    ],
)
def test_codings_of_the_outcome(tmp_path, coding, outcomes, expected):
    path = tmp_path / "log.npz"
    np.savez(path, Z=np.ones((4, 1)), y=outcomes)
    log = read_log(path, coding=coding)
    assert (log.wins.tolist(), log.draws, log.unknown) == expected


def test_a_condition_does_not_change_what_an_outcome_means(tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, Z=np.ones((3, 1)), y=[-1, 0, 1], year=[1, 2, 2])
    log = read_log(path, where="year == 2")
    assert (log.selected, log.draws, log.wins.tolist()) == (2, 1, [True])


VALUES = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, np.nan])
FEATURES = arrays(np.float64, st.tuples(st.integers(1, 12), st.just(2)), elements=st.sampled_from([1.0, np.nan]))


@given(features=FEATURES, data=st.data())
def test_counts_agree_with_a_plain_loop(tmp_path_factory, features, data):
    outcomes = data.draw(arrays(np.float64, len(features), elements=VALUES))
    years = data.draw(arrays(np.int8, len(features), elements=st.integers(0, 1)))
    loss, draw = (-1.0, 0.0) if -1.0 in outcomes else (0.0, 0.5)
    expected = dict.fromkeys(TABLE_COUNTS, 0)
    wins = []
    for row, outcome, year in zip(features, outcomes, years, strict=True):
        expected["rows"] += 1
        expected["draws_in_file"] += bool(outcome == draw)
        if year != 1:
            continue
        expected["selected"] += 1
        if math.isnan(outcome):
            expected["missing"] += 1
        elif outcome == draw:
            expected["draws"] += 1
        elif outcome not in (loss, 1.0):
            expected["unknown"] += 1
        elif any(math.isnan(value) for value in row):
            expected["missing"] += 1
        else:
            wins.append(outcome == 1.0)
    path = tmp_path_factory.mktemp("counts") / "log.npz"
    np.savez(path, contrasts=features, outcome=outcomes, year=years)
    if wins:
        log = read_log(path, where="year == 1")
        assert counts(log) == expected
        assert log.wins.tolist() == wins
    else:
        with pytest.raises(ValueError, match="no comparison to learn from"):
            read_log(path, where="year == 1")


# --- conditions ---------------------------------------------------------------------------------------------

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
def test_conditions_keep_the_rows_that_meet_them_all(write, extension, where, kept):
    log = read_log(write(CONDITIONED, extension), contrast=["row"], where=where)
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
def test_conditions_that_make_no_sense_are_refused(write, where, message):
    with pytest.raises(ValueError, match=message):
        read_log(write(CONDITIONED), contrast="z", where=where)


# --- archives -----------------------------------------------------------------------------------------------


def test_arrays_of_an_archive(tmp_path):
    path = tmp_path / "log.npz"
    first, second = np.float32([[1, 2], [3, 4], [5, 6]]), np.int8([[1, 0], [0, 0], [1, 1]])
    name = np.array(["a", "b", "a"])
    np.savez(
        path,
        A=first,
        B=second,
        contrasts=first,
        Z=second,
        won=[1, 0, 1],
        y=[0, 0, 0],
        outcome=[1, 1, 0],
        name=name,
    )
    log = read_log(path, first="A", second="B", outcome="won", where="name == 'a'")
    assert log.contrasts.tolist() == [[0.0, 2.0], [4.0, 5.0]]
    assert log.contrasts.dtype == np.float64
    assert log.wins.tolist() == [True, True]
    assert log.features == ("A[0] - B[0]", "A[1] - B[1]")
    default = read_log(path)
    assert default.features == ("contrasts[0]", "contrasts[1]")
    assert default.wins.tolist() == [True, True, False]
    assert read_log(path, contrast="Z").features == ("Z[0]", "Z[1]")


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ({"y": [1]}, {}, "contrast: .* has no 'contrasts' or 'Z'; it has y"),
        ({"Z": [[1.0]], "y": [1]}, {"contrast": ["Z"]}, "contrast is a list"),
        ({"Z": [1.0], "y": [1]}, {}, r"numbers \(m, d\) are wanted"),
        ({"Z": [["1"]], "y": [1]}, {}, r"numbers \(m, d\) are wanted"),
        ({"Z": [[1j]], "y": [1]}, {}, r"numbers \(m, d\) are wanted"),
        ({"Z": [[1.0]], "y": [1, 0]}, {}, r"array 'y' has shape \(2,\); \(1,\) is wanted"),
        ({"Z": [[1.0]], "y": ["1"]}, {}, "outcomes must be numbers"),
        ({"Z": [[1.0]], "y": [1], "t": [1, 2]}, {"where": "t == 1"}, r"array 't' has shape \(2,\)"),
        ({"A": [[1.0]], "B": [[1.0, 2.0]], "y": [1]}, {"first": "A", "second": "B"}, "they must be the same"),
        ({"Z": np.array([[{}]]), "y": [1]}, {}, "array 'Z' .* cannot be read"),
        ({"Z": [[1.0], [np.inf]], "y": [1, 0]}, {}, r"column 'Z\[0\]' is inf in row 1"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, content, options, message):
    path = tmp_path / "log.npz"
    np.savez(path, **content)
    with pytest.raises(ValueError, match=message):
        read_log(path, **options)


@pytest.mark.parametrize("extension", [".csv", ".csv.gz", ".parquet", ".npz"])
def test_a_file_that_is_not_there_or_damaged(tmp_path, extension):
    path = tmp_path / f"log{extension}"
    with pytest.raises(FileNotFoundError):
        read_log(path, contrast="z")
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        read_log(path, contrast="z")
    path.rmdir()
    path.write_bytes(b"\x00\xff\xfe no such format" * 50)
    with pytest.raises(ValueError, match="log"):
        read_log(path, contrast="z")


@pytest.mark.parametrize("extension", [".csv.gz", ".parquet", ".npz"])
def test_a_file_cut_short_is_refused(write, tmp_path, extension):
    path = tmp_path / "log.npz"
    if extension == ".npz":
        np.savez(path, Z=np.ones((50, 1)), y=np.ones(50))
    else:
        path = write("Z,y\n" + "1,1\n" * 50, extension)
    data = path.read_bytes()
    for size in range(0, len(data), 41):
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match="log"):
            read_log(path, contrast="Z")


def test_one_bare_array_and_other_extensions_are_refused(tmp_path):
    with (tmp_path / "log.npz").open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(ValueError, match="holds one array"):
        read_log(tmp_path / "log.npz")
    with pytest.raises(ValueError, match=r"must end in \.csv"):
        read_log(tmp_path / "log.xlsx")


@pytest.mark.parametrize(("extension", "module"), [(".csv", "pandas"), (".parquet", "pyarrow")])
def test_what_to_install_is_said(write, monkeypatch, extension, module):
    path = write(TABLE, extension)
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"needs {module}: pip install 'fastcolst\[study\]'"):
        read_log(path, first="a_*", second="b_*")


# --- logs in memory -----------------------------------------------------------------------------------------


def test_a_log_is_a_read_only_copy():
    contrasts, wins = np.float32([[1, 2], [3, 4]]), [1, 0]
    log = Log.from_arrays(contrasts, wins)
    contrasts[0, 0] = 9.0
    assert log.contrasts.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert log.wins.dtype == np.bool_
    assert log.features == ("z[0]", "z[1]")
    assert (log.rows, log.selected, log.draws, log.missing, log.unknown) == (2, 2, 0, 0, 0)
    with pytest.raises(ValueError, match="read-only"):
        log.contrasts[0, 0] = 1.0
    again = pickle.loads(pickle.dumps(log))
    assert again.counts == log.counts


@pytest.mark.parametrize(
    ("contrasts", "wins", "features", "message"),
    [
        ([1.0, 2.0], [1, 0], None, r"contrasts has shape \(2,\)"),
        (np.ones((0, 2)), [], None, r"contrasts has shape \(0, 2\)"),
        (np.ones((2, 0)), [1, 0], None, r"contrasts has shape \(2, 0\)"),
        ([[1.0, np.nan]], [1], None, r"contrasts\[0, 1\] is nan; every feature must be finite"),
        ([["1"]], [1], None, "contrasts is not an array of real numbers: it holds texts"),
        ([[1.0]], [1, 0], None, r"wins has shape \(2,\); \(1,\) is wanted"),
        ([[1.0]], [0.5], None, r"wins\[0\] is 0.5"),
        ([[1.0]], [np.nan], None, r"wins\[0\] is nan"),
        ([[1.0]], ["yes"], None, "wins has dtype"),
        ([[1.0]], [1], ["a", "b"], "features has 2 names; contrasts has 1 columns"),
    ],
)
def test_arrays_that_are_no_log_are_refused(contrasts, wins, features, message):
    with pytest.raises(ValueError, match=message):
        Log.from_arrays(contrasts, wins, features=features)


def test_counts_of_a_log_have_to_add_up():
    fields = {"contrasts": [[1.0]], "wins": [1], "features": ["z"], "rows": 3, "draws_in_file": 1}
    assert len(Log(**fields, selected=2, draws=1, missing=0, unknown=0)) == 1
    with pytest.raises(ValueError, match="do not add up"):
        Log(**fields, selected=3, draws=1, missing=0, unknown=0)


# --- replay -------------------------------------------------------------------------------------------------


def test_football_matches_since_1990(shared):
    path = shared / "data" / "intl_football" / "pairs.npz"
    log = read_log(path, where="year >= 1990")
    assert (log.rows, log.draws_in_file, len(log)) == (49_520, 11_258, 24_787)
    assert read_log(path).draws == 11_258
    assert "49,520 rows with 11,258 draws" in log.counts
    for rate, expected in ((0.5, 0.5735), (0.02, 0.4825)):
        assert replay(Sgd(5, rate), log).log_loss == pytest.approx(expected, abs=0.0005)


def random_log(m: int, d: int) -> Log:
    rng = np.random.default_rng(7)
    return Log.from_arrays(rng.standard_normal((m, d)), rng.random(m) < 0.7)


def test_blocks_and_a_progress_bar_change_nothing(monkeypatch, capsys):
    log, alone, in_blocks = random_log(100, 3), Sgd(3, 0.1), Sgd(3, 0.1)
    expected = alone.learn_and_predict(log.contrasts, log.wins)
    monkeypatch.setattr(datasets, "BLOCK", 7)
    result = replay(in_blocks, log, progress=True, label="small blocks")
    assert in_blocks.calls == 15
    assert result.probabilities.tolist() == expected.tolist()
    assert result.theta.tolist() == alone.theta.tolist()
    assert "small blocks: 100%" in capsys.readouterr().err


def test_a_result_keeps_the_estimate_it_ended_with():
    policy, log = Sgd(2, 0.1), random_log(10, 2)
    result = replay(policy, log)
    before = result.theta.copy()
    replay(policy, log)
    assert result.theta.tolist() == before.tolist() != policy.theta.tolist()
    assert result.label == "Sgd"
    assert result.probabilities[0] == 0.5
    assert result.log is log
    for array in (result.probabilities, result.wins, result.theta):
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ([0.5], r"predicted shape \(1,\); \(2,\) is wanted"),
        (0.5, r"predicted shape \(\)"),
        ([0.5, np.nan], r"probabilities\[1\] is nan; 0 to 1 is wanted"),
        ([0.5, 1.5], r"probabilities\[1\] is 1.5"),
    ],
)
def test_predictions_that_are_no_probabilities_are_refused(probabilities, message):
    with pytest.raises(ValueError, match=message):
        replay(Says(probabilities), Log.from_arrays([[1.0], [1.0]], [1, 0]))


def test_what_is_replayed_has_to_be_a_log_of_that_many_features():
    with pytest.raises(ValueError, match="log is a list; a Log is wanted"):
        replay(Says([0.5]), [[1.0]])
    with pytest.raises(ValueError, match=r"theta has shape \(3,\); \(1,\) is wanted"):
        replay(Says([0.5], n_features=3), Log.from_arrays([[1.0]], [1]))


def test_scores_by_hand():
    result = scored([0.9, 0.5, 0.2, 0.6], [1, 1, 1, 0])
    assert result.log_loss == pytest.approx(-math.log(0.9 * 0.5 * 0.2 * 0.4) / 4, rel=1e-14)
    assert result.accuracy == 1.5 / 4
    assert result.brier == pytest.approx((0.01 + 0.25 + 0.64 + 0.36) / 4, rel=1e-14)
    running = result.running_log_loss()
    assert running[1] == pytest.approx(-math.log(0.45) / 2, rel=1e-14)
    assert running[-1] == pytest.approx(result.log_loss, rel=1e-14)


def test_a_certain_prediction_that_fails_costs_everything():
    assert scored([0.0, 0.5], [1, 1]).log_loss == np.inf
    assert scored([1.0, 0.5], [0, 1]).log_loss == np.inf
    assert scored([0.0, 1.0], [0, 1]).log_loss == 0.0
    assert scored([1e-20], [0]).log_loss == pytest.approx(1e-20, rel=1e-14, abs=0.0)


PROBABILITIES = st.one_of(st.floats(0.0, 1.0), st.sampled_from([k / 10 for k in range(11)]))


@given(predictions=st.lists(st.tuples(PROBABILITIES, st.booleans()), min_size=1, max_size=40))
def test_calibration_agrees_with_a_plain_loop(predictions):
    probabilities, wins = map(list, zip(*predictions, strict=True))
    table = scored(probabilities, wins).calibration
    assert table["count"].sum() == len(predictions)
    edges = np.linspace(0.0, 1.0, 11)
    for row in table:
        assert row["low"] in edges[:-1]
        assert row["high"] == edges[np.flatnonzero(edges == row["low"])[0] + 1]
        inside = [(p, won) for p, won in predictions if row["low"] <= p < row["high"] or p == row["high"] == 1.0]
        n = len(inside)
        assert row["count"] == n > 0
        assert row["predicted"] == pytest.approx(sum(p for p, _ in inside) / n, abs=1e-15)
        assert row["observed"] == sum(won for _, won in inside) / n
        error = math.sqrt(sum(p * (1 - p) for p, _ in inside)) / n
        assert row["standard_error"] == pytest.approx(error, abs=1e-15)


def test_a_summary_has_counts_scores_bins_and_names(write):
    log = read_log(write(TABLE), first="a_*", second="b_*", where="year <= 1997")
    lines = replay(Sgd(2, 0.5), log, label="plain SGD").summary().splitlines()
    assert lines[0].startswith("plain SGD")
    assert lines[1] == (
        "8 rows with 1 draws, 8 kept by year <= 1997: 3 learned, 1 draws left out, 2 missing, 2 unknown outcomes"
    )
    words = [line.split() for line in lines]
    assert ["log", "loss"] in [line[:2] for line in words]
    assert ["accuracy", "0.1667"] in words  # one draw of three: half a point
    assert ["Brier", "score"] in [line[:2] for line in words]
    assert ["0.5", "to", "0.6"] in [line[:3] for line in words]
    assert [line[0] for line in words[-2:]] == ["speed", "price"]


def test_plotting_is_left_to_plotting(monkeypatch):
    plotting = pytest.importorskip("fastcolst.plotting")
    monkeypatch.setattr(plotting, "replay_figure", lambda result, axes: (result, axes))
    result = scored([0.5], [1])
    assert result.plot("axes") == (result, "axes")


@pytest.mark.parametrize(
    ("outcomes", "message"), [([1, 2, 1, 2], "has outcomes 2, .* no loss"), ([0, 3, 0, 2], "2, 3")]
)
def test_outcomes_of_another_coding_are_not_learned_from_one_side(tmp_path, outcomes, message):
    path = tmp_path / "log.npz"
    np.savez(path, Z=np.ones((40, 1)), y=10 * outcomes)
    with pytest.raises(ValueError, match=message):
        read_log(path)
