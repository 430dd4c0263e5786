"""Logs from tables of any library, in any file, several of them, with categories, items and weights."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fastcolst as fc
from fastcolst.cli import main
from fastcolst.data import read_log

FRAME = pd.DataFrame(
    {
        "a_price": [3.0, 1.0, None, 2.0],
        "b_price": [2.0, 4.0, 1.0, 1.0],
        "a_kind": ["new", "old", "new", "used"],
        "b_kind": ["old", "new", "new", "new"],
        "winner": ["a", "b", "a", "a"],
        "n": [1.0, 2.0, 1.0, 0.5],
        "city": ["Oslo", "Rome", "Oslo", None],
    }
)
PAIRED = {"first": "a_*", "second": "b_*", "outcome": "winner"}
TABLES = {
    "pandas": pd.DataFrame,
    "pandas of Arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "pandas that knows gaps": pd.DataFrame.convert_dtypes,
    "polars": pl.from_pandas,
    "Arrow": pa.Table.from_pandas,
    "an Arrow batch": pa.RecordBatch.from_pandas,
}


def told(log):
    weights = None if log.weights is None else log.weights.tolist()
    return np.asarray(log.contrasts).tolist(), log.wins.tolist(), weights, log.features, log.references, log.counts


@pytest.mark.parametrize("library", TABLES)
def test_a_table_of_any_library_is_the_same_log(library):
    options = {**PAIRED, "categorical": "*_kind", "weight": "n", "where": "city == 'Oslo'"}
    table = TABLES[library](FRAME)
    log = read_log(table, **{**options, "where": None})
    assert told(log) == (
        [[-1.0, 0.0, 1.0], [1.0, 0.0, -3.0], [0.0, 1.0, 1.0]],
        [True, False, True],
        [1.0, 2.0, 0.5],
        ("kind=old", "kind=used", "price"),
        ("kind=new",),
        "4 rows: 3 learned, 0 draws left out, 1 missing, 0 unknown outcomes",
    )
    assert read_log(table, **options).selected == 2


@pytest.mark.parametrize("table", [pl.from_pandas(FRAME).lazy(), {"z": [1.0], "y": [1]}, 3, None, np.ones((3, 2))])
def test_what_is_no_table_is_no_path_either(table):
    with pytest.raises(ValueError, match=r"path is .*; a path is wanted"):
        read_log(table, **PAIRED)


@pytest.mark.parametrize(
    "kinds",
    [
        pd.Series(["old", "new", "used", "old"], dtype=pd.CategoricalDtype(["used", "old", "new"])),
        pl.Series(["old", "new", "used", "old"], dtype=pl.Enum(["used", "old", "new"])),
        pa.DictionaryArray.from_arrays(pa.array([1, 2, 0, 1]), pa.array(["used", "old", "new"])),
    ],
    ids=["pandas", "polars", "Arrow"],
)
def test_what_a_library_calls_categorical_is_so_and_keeps_its_order(kinds):
    other = (
        type(kinds).from_arrays(kinds.indices.take(pa.array([1, 2, 3, 0])), kinds.dictionary)
        if (isinstance(kinds, pa.DictionaryArray))
        else kinds[[1, 2, 3, 0]]
    )
    frame = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame, pa.DictionaryArray: pa.table}[type(kinds)]
    if isinstance(other, pd.Series):
        other = other.reset_index(drop=True)
    log = read_log(frame({"a_k": kinds, "b_k": other, "y": [1, 0, 1, 0]}), first="a_*", second="b_*")
    assert log.features == ("k=old", "k=new") and log.references == ("k=used",)
    assert np.asarray(log.contrasts).tolist() == [[1.0, -1.0], [0.0, 1.0], [-1.0, 0.0], [0.0, 0.0]]


def test_levels_that_nothing_is_learned_of_have_no_coefficient():
    frame = pd.DataFrame({"a": ["x", "y", "z"], "b": ["y", "x", "x"], "y": [1, 0, None]})
    assert read_log(frame, first="a", second="b", categorical=["a", "b"]).features == ("a=y",)
    assert read_log(frame, items=["a", "b"]).features == ("x", "y")
    with pytest.raises(ValueError, match=r"every category has a single level \(a=x\); two are wanted"):
        read_log(frame.assign(a="x", b="x"), first="a", second="b", categorical=["a", "b"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (PAIRED, r"'a_kind' is 'new' in row 0 .*must be a number, or named by categorical \(--categorical\)"),
        ({**PAIRED, "categorical": "c*"}, r"categorical='c\*' matches no column of the features; .*wanted: a_price"),
        (
            {"contrast": ["a_kind"], "outcome": "n", "coding": "unit", "drop_unknown": True, "categorical": "a_kind"},
            "'a_kind' is a contrast and categ",
        ),
        ({**PAIRED, "weight": "w"}, "weight: .* has no 'w'"),
        ({**PAIRED, "weight": "a_price"}, "'a_price' is the weight and a feature too"),
        ({**PAIRED, "weight": 3}, "weight is 3; the name of a column"),
        ({"items": ["a_kind"]}, r"items is \['a_kind'\]; the names of two columns"),
        ({"items": ["a_kind", "a_kind"]}, "the names of two columns are wanted"),
        ({"items": "ab"}, "items is 'ab'; a list of texts is wanted"),
        ({"items": ["a_kind", "b"], "outcome": "winner"}, "items: .* has no 'b'"),
        ({"items": ["a_kind", "winner"], "outcome": "winner"}, "'winner' is the outcome and something else too"),
    ],
)
def test_what_does_not_fit_a_table_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        read_log(FRAME, **options)


@pytest.mark.parametrize("weight", [0.0, -1.0, np.inf, "much"])
def test_weights_are_positive_numbers(weight):
    frame = pd.DataFrame({"z": [1.0, 2.0, 3.0], "y": [1, 0, None], "n": [1.0, weight, -5.0]})
    with pytest.raises(ValueError, match=r"column 'n' is .* in row 1 .*positive and finite is wanted"):
        read_log(frame, contrast="z", weight="n")


def test_weights_and_items_of_arrays(tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, p=["x", "y", "z"], q=["y", "z", "x"], y=["p", "z", "q"], n=[1, 2, 3], Z=[[1.0], [2.0], [3.0]])
    log = read_log(path, items=["p", "q"], weight="n", coding={"p": 1, "q": 0})
    assert log.features == log.items == ("x", "y", "z")
    assert log.wins.tolist() == [True, False, False] and log.weights.tolist() == [1.0, 2.0, 3.0]
    both = read_log(path, items=["p", "q"], contrast="Z", coding={"p": 1, "q": 0})
    assert np.asarray(both.contrasts)[:, 3].tolist() == [1.0, 2.0, 3.0]


# --- text files ---------------------------------------------------------------------------------------------


def test_columns_and_fractions_of_other_countries(tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_text("a_x;b_x;y\n1,5;0,25;1\n2,0;-1,5;0\n")
    log = read_log(path, first="a_*", second="b_*", sep=";", decimal=",")
    assert log.contrasts.tolist() == [[1.25], [3.5]]
    with pytest.raises(ValueError, match=r"has ',' nowhere in its first line, 'a_x;b_x;y'; sep=';' \(--sep ';'\)"):
        read_log(path, first="a_*", second="b_*")
    with pytest.raises(ValueError, match=r"'a_x' is '1,5' in row 0 .*want decimal=',' \(--decimal ,\)"):
        read_log(path, first="a_*", second="b_*", sep=";")
    path.write_text(path.read_text().replace(";", "\t"))
    asked = ["replay", str(path), "--first", "a_*", "--second", "b_*", "--estimator", "sgd"]
    assert main([*asked, "--sep", r"\t", "--decimal", ","]) == 0
    assert "2 rows: 2 learned" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"--sep '\\t'"):
        read_log(path, first="a_*", second="b_*")


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ({"sep": ""}, "sep is ''; a single character"),
        ({"sep": ", "}, "sep is ', '; a single character"),
        ({"decimal": 3}, "decimal is 3; a single character"),
        ({"sep": '"'}, "a single character is wanted"),
        ({"decimal": ","}, "sep and decimal are both ','"),
        ({"sep": "."}, r"sep and decimal are both '\.'"),
    ],
)
def test_marks_that_are_none_are_refused(write_log, marks, message):
    with pytest.raises(ValueError, match=message):
        read_log(write_log("z,y\n1,1\n"), contrast="z", **marks)
    if marks == {"sep": ", "}:
        with pytest.raises(ValueError, match=r"sep is ';', and a table in memory is no \.csv"):
            read_log(FRAME, **PAIRED, sep=";")


# --- several ------------------------------------------------------------------------------------------------


def test_several_files_and_tables_are_one_log(tmp_path, capsys):
    csv, parquet = tmp_path / "one.csv", tmp_path / "two.parquet"
    FRAME.to_csv(csv, index=False)
    FRAME[FRAME.columns[::-1]].to_parquet(parquet)
    options = {**PAIRED, "categorical": "*_kind", "weight": "n"}
    one, three = read_log(FRAME, **options), read_log([csv, parquet, pl.from_pandas(FRAME)], **options)
    assert np.array_equal(three.contrasts, np.tile(one.contrasts, (3, 1)))
    assert three.wins.tolist() == one.wins.tolist() * 3 and three.rows == 12
    words = ["--first", "a_*", "--second", "b_*", "--outcome", "winner", "--categorical", "*_kind"]
    assert main(["replay", str(csv), str(parquet), *words, "--estimator", "sgd"]) == 0
    assert "8 rows: 6 learned" in capsys.readouterr().out


def test_every_file_decides_what_an_outcome_means():
    """The first has shares of the win, and -1 and 0 of the second may be lost and drawn."""
    frames = [pd.DataFrame({"z": [1.0, 2.0], "y": y}) for y in ([0, 1], [-1, 0])]
    assert read_log(frames[0], contrast="z").wins.tolist() == [False, True]
    with pytest.raises(ValueError, match=r"'table of pandas' \(path\[0\]\) holds 0 in 1 row, 1 in 1 row, .* holds -1"):
        read_log(frames, contrast="z")
    log = read_log(frames, contrast="z", coding="signed")
    assert (log.wins.tolist(), log.draws) == ([True, False], 2)


def test_columns_of_numbers_in_one_file_and_of_texts_in_another():
    frames = [pd.DataFrame({"p": p, "q": q, "y": [1, 0]}) for p, q in (([1, 2], [2, 3]), (["2", "new"], ["1", "1"]))]
    log = read_log(frames, items=["p", "q"])
    assert log.features == ("1", "2", "3", "new")
    assert np.asarray(log.contrasts)[2:].tolist() == [[-1.0, 1.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 1.0]]
    with_gap = pd.DataFrame({"p": [1.0, None], "q": [2, 3], "y": [1, 0]})
    assert read_log([frames[0], with_gap], items=["p", "q"]).features == ("1", "2", "3")


@pytest.mark.parametrize(
    ("other", "options", "message"),
    [
        (
            FRAME.rename(columns={"a_price": "a_cost", "b_price": "b_cost"}),
            PAIRED,
            "differ by the features cost, price",
        ),
        (FRAME.drop(columns="winner"), PAIRED, "outcome: .* has no 'winner'"),
    ],
)
def test_files_of_different_columns_are_refused(other, options, message):
    with pytest.raises(ValueError, match=message):
        read_log([FRAME, other], **options, categorical="*_kind")
    with pytest.raises(ValueError, match="path is an empty list"):
        read_log([], **options)


def test_dates_and_numbers_in_one_column_are_refused():
    days = pd.DataFrame({"z": [1.0], "y": [1], "day": pd.to_datetime(["2026-01-01"])})
    for other, message in (
        (3, "dates and numbers"),
        (days["day"].dt.tz_localize("UTC")[0], "dates with a time zone and wit"),
    ):
        with pytest.raises(ValueError, match=f"column 'day' holds {message}"):
            read_log([days, days.assign(day=other)], contrast="z", where="day > '2025-01-01'")


# --- dates --------------------------------------------------------------------------------------------------

HOURS = pd.date_range("2026-03-29", periods=4, freq="h", tz="UTC")
"""In Berlin: 01:00, 03:00 (there is no 02:00 in that night), 04:00, 05:00."""


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("when >= '2026-03-29T03:00+02:00'", [1, 2, 3]),
        ("when >= '2026-03-29T03:00'", [1, 2, 3]),
        ("when > '2026-03-29 00:30Z'", [1, 2, 3]),
        ("when == '2026-03-29T00:00+00:00'", [0]),
        ("when < '2026-03-29T03:00'", [0]),
        ("when >= '2026-03'", [0, 1, 2, 3]),
        ("when != '2026-03-29T01:00Z'", [0, 2, 3]),
    ],
)
@pytest.mark.parametrize("library", ["pandas", "polars", "texts"])
def test_dates_with_time_zones(library, where, kept):
    frame = pd.DataFrame({"z": np.arange(4.0), "y": [1, 0, 1, 0], "when": HOURS.tz_convert("Europe/Berlin")})
    if library == "texts":
        frame["when"] = [hour.isoformat() for hour in frame["when"]]
        if where.endswith("T03:00'"):
            with pytest.raises(ValueError, match=r"which holds dates with a time zone"):
                read_log(frame, contrast="z", where=where)
            return
    table = pl.from_pandas(frame) if library == "polars" else frame
    assert read_log(table, contrast="z", where=where).contrasts[:, 0].tolist() == kept


def test_times_of_several_zones_are_in_the_order_in_which_they_were():
    """As texts the second came first."""
    frame = pd.DataFrame({"z": [0.0, 1.0], "y": [1, 0], "t": ["2026-01-01T12:00+02:00", "2026-01-01T11:00+00:00"]})
    assert read_log(frame, contrast="z", where="t < '2026-01-01T10:30Z'").contrasts.tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("when", "where", "message"),
    [
        (HOURS.tz_localize(None), "when > '2026-01-01T00:00Z'", "holds dates without a time zone"),
        (HOURS.tz_convert("Europe/Berlin"), "when > '2026-03-29T02:30'", "is there twice or never in the time zone"),
        (HOURS, "when > 'soon'", "holds dates, wants '2026-01-31'"),
        (["2026-01-01", "2026-01-01T00:00Z"] * 2, "when > '2026-01-01'", "some have a time zone and some have none"),
        (["2026-01-01"] * 4, "when > '2026-01-01T00:00Z'", "holds dates without a time zone"),
        (["2026-01-01T00:00Z"] * 4, "when > '2026-01-01'", "holds dates with a time zone"),
        (HOURS, "when > 3", "holds values of type datetime64"),
    ],
)
def test_dates_that_cannot_be_compared_are_refused(when, where, message):
    frame = pd.DataFrame({"z": np.ones(4), "y": [1, 0, 1, 0], "when": when})
    with pytest.raises(ValueError, match=message):
        read_log(frame, contrast="z", where=where)


def test_texts_that_are_no_dates_are_compared_as_texts():
    frame = pd.DataFrame({"z": [0.0, 1.0, 2.0], "y": [1, 0, 1], "t": ["2026-01-01", "2026-01-99", None]})
    assert read_log(frame, contrast="z", where="t > '2026-01-02'").contrasts.tolist() == [[1.0]]
    days = pd.DataFrame({"z": [0.0, 1.0], "y": [1, 0], "t": [dt.date(2026, 1, 1)] * 2})
    with pytest.raises(ValueError, match="which holds values of type date, with a text"):
        read_log(days, contrast="z", where="t > '2026-01-02'")


# --- items --------------------------------------------------------------------------------------------------


def test_items_by_name_are_rated(tmp_path, capsys):
    rng = np.random.default_rng(2)
    names, strength = np.array(["ant", "bee", "cat", "dog"]), np.array([0.0, 0.5, 1.0, 2.0])
    pairs = np.array([rng.choice(4, 2, replace=False) for _ in range(3_000)])
    won = rng.random(3_000) < 1 / (1 + np.exp(strength[pairs[:, 1]] - strength[pairs[:, 0]]))
    frame = pd.DataFrame(
        {"left": names[pairs[:, 0]], "right": names[pairs[:, 1]], "winner": np.where(won, "left", "right")}
    )
    log = read_log(frame, items=["left", "right"], outcome="winner")
    assert log.features == log.items == tuple(names)
    found = fc.fit(log.contrasts, log.wins)
    np.testing.assert_allclose(found.theta - found.theta[0], strength, atol=0.25)
    path = tmp_path / "battles.parquet"
    frame.to_parquet(path)
    asked = ["replay", str(path), "--items", "left", "right", "--outcome", "winner", "--estimator", "sgd"]
    assert main([*asked, "--learning-rate", "0.05"]) == 0
    out = capsys.readouterr().out
    assert "of items only differences between coefficients are known" in out
    rows = [line.split() for line in out.splitlines()]
    rated = {row[0]: float(row[1]) for row in rows if row and row[0] in names}
    assert sorted(rated, key=rated.get) == list(names)


@pytest.mark.parametrize(
    ("cells", "options", "found"),
    [
        (["1,5", "2.5", "2,5"], {}, r"column 'z' is '2\.5' in row 1 .*every feature must be a number, with ','"),
        (["1,5", "2,5", "x"], {}, r"column 'z' is 'x' in row 2 .*every feature must be a number, with ','"),
        (["1,5", "1.000,5", "2,5"], {}, r"column 'z' is '1\.000,5' in row 1 .*, with ',' before its fraction"),
        (["1", "2", "1.5"], {"weight": "z", "contrast": "one"}, r"column 'z' is '1\.5' in row 2 .*a weight .*with ','"),
        (["1,5", "2", "w"], {"weight": "z", "contrast": "one"}, r"column 'z' is 'w' in row 2 .*a weight .*with ','"),
    ],
)
def test_the_bad_cell_of_a_table_with_decimal_commas_is_named(tmp_path, cells, options, found):
    """One bad cell made texts of all, and the first good one was named, with advice that had been followed."""
    path = tmp_path / "log.csv"
    path.write_text("z;one;y\n" + "".join(f"{cell};1;{k % 2}\n" for k, cell in enumerate(cells)))
    with pytest.raises(ValueError, match=found):
        read_log(path, **{"contrast": "z", **options}, sep=";", decimal=",")
    path.write_text("z;one;y\n" + "".join(f"{cell};1;{k % 2}\n" for k, cell in enumerate(cells)).replace(".", ","))
    if cells[-1] == "2,5" and "1.000,5" not in cells:
        assert read_log(path, contrast="z", sep=";", decimal=",").contrasts[:, 0].tolist() == [1.5, 2.5, 2.5]


def test_shares_with_decimal_commas_beside_words(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("z;y\n1;0,5\n1;won\n1;0,25\n")
    log = read_log(path, contrast="z", coding={0.5: 0.5, "won": 1, 0.25: 0.25}, sep=";", decimal=",")
    assert log.wins.tolist() == [0.5, 1.0, 0.25]


def test_an_item_and_a_feature_of_one_name_are_refused():
    """Both became features, and nobody could tell which was which."""
    frame = pd.DataFrame({"p": ["x", "y"], "q": ["y", "x"], "a_x": [1, 2], "b_x": [0, 0], "y": [1, 0]})
    options = {"items": ["p", "q"], "first": "a_*", "second": "b_*"}
    with pytest.raises(ValueError, match=r"two features are called 'x', of .*; a name of its own is wanted for each"):
        read_log(frame, **options)
    renamed = frame.rename(columns={"a_x": "a_age", "b_x": "b_age"})
    assert read_log(renamed, **options).features == ("x", "y", "age")
    kinds = pd.DataFrame({"a_k": ["u", "v"], "b_k": ["v", "w"], "a_k=v": [1, 2], "b_k=v": [0, 0], "y": [1, 0]})
    with pytest.raises(ValueError, match="two features are called 'k=v'"):
        read_log(kinds, first="a_*", second="b_*", categorical="?_k")
