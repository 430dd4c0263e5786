"""Reading logs of comparisons: tables, outcomes, archives, and what is wrong with a file."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from conftest import CONTRASTS, STATED, TABLE
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fastcolst.data import Log, read_log

TABLE_COUNTS = {"rows": 8, "draws_in_file": 1, "selected": 8, "draws": 1, "missing": 2, "unknown": 2}


def counts(log: Log) -> dict[str, int]:
    return {name: getattr(log, name) for name in TABLE_COUNTS}


# --- tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extension", [".csv", ".csv.gz", ".CSV", ".parquet"])
def test_every_row_of_a_table_is_learned_or_counted(write_log, extension):
    log = read_log(write_log(TABLE, extension), first="a_*", second="b_*", **STATED)
    np.testing.assert_allclose(log.contrasts, CONTRASTS, rtol=1e-15)
    assert log.wins.tolist() == [True, False, True]
    assert log.features == ("speed", "price")
    assert counts(log) == TABLE_COUNTS
    assert len(log) == 3
    assert repr(log) == f"Log(3 comparisons of 2 features; {log.counts})"
    assert log.counts == "8 rows: 3 learned, 1 draws left out, 2 missing, 2 unknown outcomes"


def test_a_table_keeps_the_digits_of_its_numbers(write_log):
    values = np.random.default_rng(1).standard_normal(200)
    text = "z,y\n" + "".join(f"{value!r},1\n" for value in values.tolist())
    read = read_log(write_log(text), contrast="z").contrasts[:, 0]
    np.testing.assert_allclose(read, values, rtol=1e-15, atol=1e-15)


def test_outcomes_may_be_booleans_beside_missing_ones(write_log):
    log = read_log(write_log("z,outcome\n1,True\n2,\n3,False\n"), contrast="z")
    assert log.wins.tolist() == [True, False]
    assert log.missing == 1


@pytest.mark.parametrize("keep", [1, 2])
def test_an_infinite_feature_is_an_error_only_where_it_would_be_learned(write_log, keep):
    path = write_log("z_1,z_2,y,year\n0,1,1,1\n1,inf,1,2\n-inf,0,0.5,1\n")
    if keep == 1:
        assert len(read_log(path, contrast="z_*", where="year == 1")) == 1
    else:
        with pytest.raises(ValueError, match=r"column 'z_2' is inf in row 1 .*must be finite"):
            read_log(path, contrast="z_*")


def test_infinities_of_both_things_do_not_pass_as_missing(write_log):
    with pytest.raises(ValueError, match="column 'a' is inf in row 0"):
        read_log(write_log("a,b,y\ninf,inf,1\n"), first="a", second="b")


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
        (TABLE, {"contrast": "c*", **STATED}, "column 'city' is 'Oslo' in row 0 .*must be a number"),
        (TABLE, {"contrast": "a_*", "coding": "ternary"}, "coding is 'ternary'"),
        (
            "z,a_1,a_2,b_2,b_3,y\n1,1,1,1,1,1\n",
            {"first": "a_*", "second": "b_*"},
            r"a_1 \(first\), b_3 \(sec",
        ),
        ("z,won\n1,1\n", {"contrast": "z"}, "outcome: .* has no 'outcome' or 'y'"),
        ("z,y\n", {"contrast": "z"}, "no comparison to learn from: 0 rows"),
        ("z,y\n1,2\n2,0.5\n", {"contrast": "z", **STATED}, "2 selected, 1 draws, 0 missing, 1 unknown"),
        ("z,z,y\n1,2,1\n", {"contrast": "z"}, "two columns with the name 'z'"),
        ("z,y\n1,1,\n2,0,\n", {"contrast": "z"}, "cannot be read: .*Expected 2 fields"),
        ("", {"contrast": "z"}, "cannot be read"),
        ('z,y\n"1,1\n', {"contrast": "z"}, "cannot be read"),
    ],
)
def test_what_cannot_be_read_without_a_guess_is_refused(write_log, text, options, message):
    with pytest.raises(ValueError, match=message):
        read_log(write_log(text), **options)


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


def test_a_folder_named_like_a_partition_adds_no_column(write_log, tmp_path):
    folder = tmp_path / "z_2=5"
    folder.mkdir()
    path = write_log("z_1,y\n1,1\n", ".parquet").rename(folder / "log.parquet")
    assert read_log(path, contrast="z_*").features == ("z_1",)


# --- counts --------------------------------------------------------------------------------------------------


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
    coding = data.draw(st.sampled_from(["signed", "unit"]))
    loss, draw = (-1.0, 0.0) if coding == "signed" else (0.0, 0.5)
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
        log = read_log(path, where="year == 1", coding=coding, drop_unknown=True)
        assert counts(log) == expected
        assert log.wins.tolist() == wins
    else:
        with pytest.raises(ValueError, match="no comparison to learn from"):
            read_log(path, where="year == 1", coding=coding, drop_unknown=True)


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
        ({"Z": [[1.0]], "y": ["won"]}, {}, "outcomes in column 'y' are 'won' in 1 row"),
        ({"Z": [[1.0]], "y": [[1]]}, {}, r"array 'y' has shape \(1, 1\); one dimension is wanted"),
        ({"Z": [[1.0]], "y": [1]}, {"categorical": "Z"}, "in an .npz file features are numbers"),
        ({"Z": [[1.0]], "y": [1]}, {"sep": ";"}, "sep is ';', and .* is no .csv"),
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
def test_a_file_cut_short_is_refused(write_log, tmp_path, extension):
    path = tmp_path / "log.npz"
    if extension == ".npz":
        np.savez(path, Z=np.ones((50, 1)), y=np.ones(50))
    else:
        path = write_log("Z,y\n" + "1,1\n" * 50, extension)
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
def test_what_to_install_is_said(write_log, monkeypatch, extension, module):
    path = write_log(TABLE, extension)
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"needs {module}: pip install 'fastcolst\[study\]'"):
        read_log(path, first="a_*", second="b_*", **STATED)
