"""What outcomes mean: codings that are stated, those that are found, and all that is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastcolst as fc
from fastcolst.cli import main

pytestmark = pytest.mark.either_lane


def table(outcomes, **columns):
    return pd.DataFrame({"z": np.ones(len(outcomes)), "y": outcomes, **columns})


def theta_of(outcomes, **options):
    log = fc.read_log(table(outcomes), contrast="z", **options)
    return fc.fit(log.contrasts, log.wins).theta[0]


FIRST, EQUAL, SECOND = 617, 248, 100
"""How often the first won, neither, and the second: log(617 / 100) = 1.82, log(248 / 617) = -0.91."""


@pytest.mark.parametrize(
    ("first", "equal", "second"), [(0, 1, 2), (1, 0, 2), (2, 1, 0), ("left", "both", "right"), (1, 2, 3)]
)
def test_outcomes_that_may_be_misread_are_refused_and_right_once_they_are_stated(first, equal, second):
    """0 first, 1 equal, 2 second gave -0.91, and 1 first, 2 second, 0 tie gave 0.91, where 1.82 is right."""
    outcomes = [first] * FIRST + [equal] * EQUAL + [second] * SECOND
    with pytest.raises(ValueError, match="may be read in more than one way") as refused:
        theta_of(outcomes)
    for value, n in ((first, FIRST), (equal, EQUAL), (second, SECOND)):
        assert f"{value!r} in {n} rows" in str(refused.value)
        assert f"{value!r}: ..." in str(refused.value) and f"{value}=..." in str(refused.value)
    coding = {first: 1, equal: 0.5, second: 0}
    assert theta_of(outcomes, coding=coding) == pytest.approx(1.82, abs=0.001)
    halves = np.log((FIRST + EQUAL / 2) / (SECOND + EQUAL / 2))
    assert theta_of(outcomes, coding=coding, draws="half") == pytest.approx(halves, rel=1e-6)
    assert theta_of(outcomes, coding={str(key): share for key, share in coding.items()}) == pytest.approx(
        1.82, abs=0.001
    )


def test_misspelled_winners_are_named():
    sides = {"a": ["tea", "tea", "water", "coffee"], "b": ["coffee", "water", "coffee", "tea"]}
    frame = pd.DataFrame({**sides, "winner": ["tea", "watre", "coffee", "tie"]})
    with pytest.raises(
        ValueError, match=r"; no item is called 'watre'\. Names .*\(--coding watre=0\.5,tie=0\.5\).*--drop-unknown"
    ):
        fc.read_log(frame, items=["a", "b"], outcome="winner")
    log = fc.read_log(frame, items=["a", "b"], outcome="winner", coding="names", drop_unknown=True)
    assert log.wins.tolist() == [True, False]
    winners = ["tea", "both bad", "cofee", "tie", "3", "3", "3"]  # a name that looks like a number
    frame = pd.DataFrame({"a": [*sides["a"], *"333"], "b": [*sides["b"], *["tea"] * 3], "winner": winners})
    with pytest.raises(ValueError, match=r"; no item is called 'both bad' or 'cofee'\."):
        fc.read_log(frame, items=["a", "b"], outcome="winner")


@pytest.mark.parametrize("name", ["winner", "winnerIdx", "Preferred", "human choice", "VOTE", "better-id"])
def test_0_and_1_in_a_column_called_after_the_winner_may_be_places(name):
    def wins_of(values, **options):
        return fc.read_log(pd.DataFrame({"z": 1.0, name: values}), contrast="z", outcome=name, **options).wins.tolist()

    places = [0, 1, 1]
    for values in (places, [*map(str, places)], [0, 0, 0], pd.Categorical(places)):
        with pytest.raises(
            ValueError, match=rf"column {name!r} are .* more than one way. Wanted is coding={{[01]: \.\.\."
        ):
            wins_of(values)
    assert wins_of(places, coding={0: 1, 1: 0}) == [1.0, 0.0, 0.0]
    assert wins_of(places, coding="unit") == [0.0, 1.0, 1.0]
    for values in ([False, True, True], ["false", "true", "true"]):  # which are no places
        assert wins_of(values) == [0.0, 1.0, 1.0]
    assert wins_of([0.0, 0.25, 1.0]) == [0.0, 0.25, 1.0]
    assert wins_of(pd.array([None, True, False], dtype="boolean")) == [1.0, 0.0]
    with pytest.raises(ValueError, match="more than one way"):
        wins_of(pd.Categorical(["0", "1", "1"], ["0", "1", "true"]))  # a level that no row has


def test_places_beside_other_codings_are_refused():
    tables = [pd.DataFrame({"z": np.arange(6.0), "winner": values}) for values in ([-1, 0, 1] * 2, [0, 1] * 3)]
    for pair in (tables, tables[::-1]):
        with pytest.raises(ValueError, match="may not mean the same in all that is read together"):
            fc.read_log(pair, contrast="z", outcome="winner")
    assert len(fc.read_log(tables, contrast="z", outcome="winner", coding="signed")) == 7


def test_the_command_line_takes_what_the_refusal_asks_for(tmp_path, capsys):
    path = tmp_path / "answers.csv"
    table([0] * 30 + [1] * 20 + [2] * 10).to_csv(path, index=False)
    asked = ["replay", str(path), "--contrast", "z"]
    assert main(asked) == 2
    assert "--coding '0=...,1=...,2=...'" in capsys.readouterr().err
    assert main([*asked, "--coding", "0=1,1=0.5,2=0", "--draws", "half"]) == 0
    assert "60 rows: 60 learned, 0 draws left out" in capsys.readouterr().out
    assert main([*asked, "--coding", "0=1,1,2=0"]) == 2
    assert "argument --coding: '1'; a value, =, and a share from 0 to 1 are wanted" in capsys.readouterr().err


def test_shares_are_learned_all_of_them():
    """7 of 600 rows were before: those that happened to be 0 or 1."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=600)
    wins = np.round(1.0 / (1.0 + np.exp(-1.5 * z)), 2)
    assert 5 < np.isin(wins, (0.0, 0.5, 1.0)).sum() < 100
    log = fc.read_log(pd.DataFrame({"z": z, "y": wins}), contrast="z")
    assert len(log) == 600 and log.wins.tolist() == wins.tolist() and log.draws == 0
    assert fc.fit(log.contrasts, log.wins).theta[0] == pytest.approx(1.5, abs=0.02)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([-1, 1, 0, -1], [False, True, False]),
        ([0, 1, 1, 0], [False, True, True, False]),
        ([0.0, 0.5, 1.0], [False, True]),
        ([True, False, None], [True, False]),
        (["1", "0"], [True, False]),
        (["True", "false"], [True, False]),
        ([1, 1, 1], [True, True, True]),
        (["model_a", "model_b", "tie", "tie (bothbad)"], [True, False]),
        (["model_b", "model_b"], [False, False]),
        (["left", "right", "Tie"], [True, False]),
        (["First", "second"], [True, False]),
        (pd.Categorical(["left", "right"], ["left", "right", "skip"]), [True, False]),
        (["away", "home", "draw"], [False, True]),
        ([0.25, 0.5, 1.0], [0.25, 0.5, 1.0]),
    ],
)
def test_codings_that_cannot_be_misread_are_found(outcomes, expected):
    assert fc.read_log(table(outcomes), contrast="z").wins.tolist() == expected


@pytest.mark.parametrize(
    "outcomes",
    [
        [0, 0, 0],  # lost, drawn, or the first of those that are counted from 0
        [-1, 0, 0],  # -1 may stand for a missing answer
        [-1, -1],
        [1, 2],
        [0, 1, 2],
        [0, 1, 7],
        [0, 1, 100],
        [-1, 1, 0.5],
        [1, "abandoned"],
        ["yes", "no"],
        ["win", "loss"],
        ["A", "B"],  # variants, wherever they stood, as likely as sides
        ["tie", "draw"],
        ["left", "second"],
        ["left", "right", "skip"],
        [float("inf"), 1],
        ["oslo", "rome"],
    ],
)
def test_all_other_outcomes_are_refused(outcomes):
    with pytest.raises(ValueError, match=r"column 'y' are .* may be read in more than one way\. Wanted is"):
        fc.read_log(table(outcomes), contrast="z")


def test_many_values_are_counted_and_the_most_frequent_shown():
    outcomes = [f"answer {i % 30}" for i in range(299)]
    with pytest.raises(ValueError, match=r"'answer 0' in 10 rows, .* and 20 other values"):
        fc.read_log(table(outcomes), contrast="z")


# --- what the columns are called, and the items in them -----------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "one", "other"),
    [
        ("a_*", "b_*", "a", "b"),
        ("b_*", "a_*", "b", "a"),
        ("right_*", "left_*", "right", "left"),
        ("home.*", "away.*", "Home", "Away"),
        ("x_red_*", "x_blue_*", "red", "blue"),
        (["red_x", "red_y"], ["blue_x", "blue_y"], "red", "blue"),
    ],
)
def test_winners_called_as_the_columns_are(first, second, one, other):
    frame = pd.DataFrame({"y": [one, one, other]})
    for side, value in ((first, 1.0), (second, 0.0)):
        for name in side if isinstance(side, list) else [side.replace("*", "x")]:
            frame[name] = value
    log = fc.read_log(frame, first=first, second=second)
    assert log.wins.tolist() == [True, True, False]


def test_words_are_refused_where_the_columns_say_the_opposite():
    frame = pd.DataFrame({"r_x": [1.0, 2.0], "l_x": [0.0, 1.0], "y": ["left", "right"]})
    assert fc.read_log(frame, first="l_*", second="r_*").wins.tolist() == [True, False]
    with pytest.raises(ValueError, match="more than one way"):
        fc.read_log(frame, first="r_*", second="l_*")
    frame["y"] = ["model_a", "model_b"]
    with pytest.raises(ValueError, match="more than one way"):
        fc.read_log(frame.rename(columns={"r_x": "b_x", "l_x": "a_x"}), first="b_*", second="a_*")


BATTLES = {"model_a": ["x", "y", "z", "x"], "model_b": ["y", "z", "x", "z"]}


@pytest.mark.parametrize(
    ("winner", "expected"),
    [
        (["model_a", "model_b", "model_a", "model_b"], [True, False, True, False]),
        (["x", "z", "z", "z"], [True, False, True, False]),
        (["x", "tie", "z", "z"], [True, True, False]),
        (["a", "b", "a", "b"], [True, False, True, False]),
    ],
)
def test_winners_by_the_name_of_a_column_or_of_an_item(winner, expected):
    frame = pd.DataFrame({**BATTLES, "winner": winner})
    log = fc.read_log(frame, items=["model_a", "model_b"], outcome="winner")
    assert log.wins.tolist() == expected
    turned = fc.read_log(frame, items=["model_b", "model_a"], outcome="winner")
    assert turned.wins.tolist() == [not won for won in expected]


def test_names_that_are_of_neither_item_are_unknown():
    n = 25
    frame = pd.DataFrame({"p": ["x"] * n, "q": ["y"] * n, "y": ["x"] * (n - 1) + ["z"]})
    frame.loc[0, "q"] = "z"
    log = fc.read_log(frame, items=["p", "q"])
    assert (log.unknown, len(log)) == (1, n - 1)


def test_a_thing_against_itself_has_no_winner_by_name():
    frame = pd.DataFrame({"p": ["x", "x"], "q": ["x", "y"], "y": ["x", "x"]})
    log = fc.read_log(frame, items=["p", "q"], drop_unknown=True)
    assert (log.unknown, len(log)) == (1, 1)


def test_names_that_are_numbers_are_refused_where_they_may_be_shares():
    frame = pd.DataFrame({"p": [0, 1, 1], "q": [1, 0, 0], "y": [1, 1, 0]})
    with pytest.raises(ValueError, match="coding='names'"):
        fc.read_log(frame, items=["p", "q"])
    assert fc.read_log(frame, items=["p", "q"], coding="names").wins.tolist() == [False, True, False]
    assert fc.read_log(frame, items=["p", "q"], coding="unit").wins.tolist() == [True, True, False]
    frame = pd.DataFrame({"p": [7, 5, 7], "q": [5, 3, 3], "y": [7, 3, 7]})
    log = fc.read_log(frame, items=["p", "q"])
    assert log.wins.tolist() == [True, False, True] and log.features == ("3", "5", "7")


def test_a_stated_coding_goes_together_with_names():
    frame = pd.DataFrame({**BATTLES, "y": ["x", "z", "neither", "z"]})
    log = fc.read_log(frame, items=["model_a", "model_b"], coding={"neither": 0.5})
    assert (log.wins.tolist(), log.draws) == ([True, False, False], 1)


# --- stated codings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coding", "outcomes", "expected"),
    [
        ("auto", [0, 1, 1, 0], ([False, True, True, False], 0, 0)),
        ("signed", [0, 1, 1, 0], ([True, True], 2, 0)),
        ("unit", [0, 1, -1, 0.5], ([False, True], 1, 1)),
        ("unit", [0, 0, 0, 0], ([False] * 4, 0, 0)),
        ({1: 1, 2: 0}, [1, 2, 3, 1], ([True, False, True], 0, 1)),
        ({"1": 1, "2": 0.3}, [1, 2, 2, 1], ([1.0, 0.3, 0.3, 1.0], 0, 0)),
        ({True: 0, False: 1}, [1, 0, 0, 1], ([False, True, True, False], 0, 0)),
        ({" a ": 1, "b": 0}, ["a", "b ", None, "a"], ([True, False, True], 0, 0)),
    ],
)
def test_stated_codings(coding, outcomes, expected):
    log = fc.read_log(table(outcomes), contrast="z", coding=coding, drop_unknown=True)
    assert (log.wins.tolist(), log.draws, log.unknown) == expected


def test_more_than_one_unknown_outcome_in_twenty_must_be_said_to_be_left_out():
    outcomes = [1] * 950 + [9] * 50
    assert fc.read_log(table(outcomes), contrast="z", coding="unit").unknown == 50
    found = r"no share for 51 of 1,001 .*'y' are 1 in 950 rows, 9 in 51 rows.*--drop-unknown"
    with pytest.raises(ValueError, match=found):
        fc.read_log(table([*outcomes, 9]), contrast="z", coding="unit")
    assert fc.read_log(table([*outcomes, 9]), contrast="z", coding="unit", drop_unknown=True).unknown == 51


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"coding": "ternary"},
            "coding is 'ternary'; 'auto', 'signed', 'unit', 'names', or a dict of shares is wanted",
        ),
        ({"coding": 3}, "coding is 3; .* or a dict such as"),
        ({"coding": {}}, "coding is {}; a share for each"),
        ({"coding": {"a": 2}}, r"coding\['a'\] is 2; a share of the first's win, 0 to 1, is wanted"),
        ({"coding": {"a": "1"}}, r"coding\['a'\] is '1'"),
        ({"coding": {1: 1, "1": 0}}, "coding has '1' twice"),
        ({"coding": "names"}, "items is None; the columns"),
        ({"draws": "drop"}, "draws is 'drop'; 'leave-out', 'half' is wanted"),
        ({"drop_unknown": 2}, "drop_unknown is 2"),
        ({"winner_first": True, "outcome": "y"}, "winner_first=True and outcome or coding exclude each other"),
        ({"winner_first": True, "coding": "unit"}, "exclude each other"),
    ],
)
def test_codings_that_are_none_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fc.read_log(table([1, 0]), contrast="z", **options)


@given(shares=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20).filter(lambda shares: set(shares) != {0.0}))
def test_numbers_from_0_to_1_are_shares(shares):
    """Won, lost and drawn where there is nothing else, and then draws are left out."""
    is_plain = set(shares) <= {0.0, 0.5, 1.0}
    expected = [share for share in shares if not (is_plain and share == 0.5)]
    if expected:
        assert fc.read_log(table(shares), contrast="z").wins.tolist() == expected
    assert fc.read_log(table(shares), contrast="z", draws="half").wins.tolist() == shares


# --- no outcome ---------------------------------------------------------------------------------------------


def test_a_log_that_names_the_winner_first_needs_no_column_that_says_so(tmp_path, capsys):
    path = tmp_path / "matches.csv"
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"winner_rank": rng.normal(size=200), "loser_rank": rng.normal(size=200)})
    frame.to_csv(path, index=False)
    options = {"first": "winner_*", "second": "loser_*"}
    assert fc.read_log(path, **options, winner_first=True).wins.all()
    with pytest.raises(ValueError, match="has no 'outcome' or 'y'"):
        fc.read_log(path, **options)
    assert main(["replay", str(path), "--first", "winner_*", "--second", "loser_*", "--winner-first"]) == 0
    assert "the first always won: the table below counts each comparison in both orders" in capsys.readouterr().out


# --- names of winners, and what is told of outcomes ---------------------------------------------------------

UNSAID = {"note": "played", "home team": ["x", "y", "z", "x", "y"], "away": ["y", "z", "x", "z", "x"]}


@pytest.mark.parametrize("kind", ["object", "category", "string", "string[pyarrow]"])
def test_names_of_winners_are_traced_to_the_columns_that_nobody_called_items(tmp_path, capsys, kind):
    """What was asked for before was a share of the win for each team."""
    frame = pd.DataFrame({**UNSAID, "h": 1.0, "a": [0.5] * 5, "won": ["x", "z", "Draw", None, "y"]})
    frame = frame.astype(dict.fromkeys(["note", "home team", "away", "won"], kind))
    message = (
        "the outcomes in column 'won' are .*; these are values of columns home team and away: "
        r"items=\['home team', 'away'\] \(--items 'home team' away\) is wanted"
    )
    options = {"first": "h", "second": "a", "outcome": "won"}
    for log in (frame, [frame, frame]):
        with pytest.raises(ValueError, match=message):
            fc.read_log(log, **options)
    with pytest.raises(ValueError, match="may not mean the same in all that is read together"):  # items are not enough
        fc.read_log([frame, frame.assign(won=[0, 1, 1, 0, 1])], **options)
    frame.to_csv(tmp_path / "log.csv", index=False)
    asked = ["replay", str(tmp_path / "log.csv"), "--first", "h", "--second", "a", "--outcome", "won"]
    assert main(asked) == 2
    assert "(--items 'home team' away) is wanted" in capsys.readouterr().err
    assert main([*asked, "--items", "home team", "away"]) == 0
    frame.loc[0, "won"] = "z" if kind != "category" else None  # neither of the row's two
    if kind != "category":
        with pytest.raises(ValueError, match="which may be read in more than one way"):
            fc.read_log(frame, **options)


@pytest.mark.parametrize(
    ("outcomes", "options", "told"),
    [
        ([1, 0, 1, -1, -1], {}, "1 = first won (2), -1 = second won (2), 0 = draw (1)"),
        ([1, 0, 1, 0, np.nan], {}, "1 = first won (2), 0 = second won (2)"),
        ([1, 0, 1, 0, 1], {"where": "k > 0"}, "1 = first won (2), 0 = second won (2)"),
        (
            ["h", "a", "d", "n", "h"],
            {"coding": {"h": 1, "a": 0, "d": 0.5, "n": 0.5}},
            "'h' = first won (2), 'a' = second won (1), 'd' or 'n' = draw (2)",
        ),
        (
            ["x", "y", "y", "tie", "y"],
            {"items": ["i", "j"]},
            "name of the first = first won (2), name of the second = second won (2), 'tie' = draw (1)",
        ),
        (
            ["x", "y", "q", "tie", "y"],
            {"items": ["i", "j"], "coding": "names", "drop_unknown": True},
            "'x' = first won (1), 'y' = second won (2), 'tie' = draw (1)",
        ),
        ([0.25, 1, 0, 0.75, 1], {}, "the first's shares of 5 rows, from 0 to 1"),
    ],
)
def test_how_outcomes_were_read_is_told(outcomes, options, told):
    frame = table(outcomes, i=["x", "x", "y", "x", "x"], j=["y", "y", "x", "y", "y"], k=range(5))
    log = fc.read_log(frame, contrast="z", **options)
    assert log.outcomes == f"outcomes: {told}"
    assert log.outcomes in fc.replay(fc.CoLSTIM(len(log.features), estimator="sgd"), log).summary().splitlines()


# --- several sources ----------------------------------------------------------------------------------------


def test_sources_that_mean_different_things_by_a_value_are_refused(tmp_path, capsys):
    """-1 and 1 in one and 0 and 1 in another were read as -1, 0, 1, and losses became draws."""
    signed, unit = table([-1, 1, -1]), table([1, 0, 0])
    for sources, holdings in (
        (
            [signed, unit],
            (r"\(path\[0\]\) holds -1 in 2 rows, 1 in 1 row", r"\(path\[1\]\) holds 0 in 2 rows, 1 in 1 r"),
        ),
        ([unit, signed], (r"\(path\[0\]\) holds 0 in 2 rows", r"\(path\[1\]\) holds -1 in 2 rows")),
        (
            [table([-1, 0, 1]), unit],
            (r"\(path\[0\]\) holds -1 in 1 row, 0 in 1 row", r"\(path\[1\]\) holds 0 in 2 rows"),
        ),
        ([signed, signed, unit], (r"\(path\[0\]\) holds -1", r"\(path\[2\]\) holds 0")),
        ([signed, table([0, 0])], (r"\(path\[0\]\) holds -1", r"\(path\[1\]\) holds 0 in 2 rows")),
        ([unit, table(["left", "right"])], (r"\(path\[0\]\) holds 0", r"\(path\[1\]\) holds 'left' in 1 row")),
    ):
        with pytest.raises(ValueError, match=".*".join(holdings) + r".* Wanted is coding=\{"):
            fc.read_log(sources, contrast="z")
    log = fc.read_log([signed, unit], contrast="z", coding={-1: 0, 0: 0, 1: 1})
    assert log.wins.tolist() == [False, True, False, True, False, False]
    paths = [str(tmp_path / name) for name in ("old.csv", "new.csv")]
    for path, frame in zip(paths, (signed, unit), strict=True):
        frame.to_csv(path, index=False)
    assert main(["replay", *paths, "--contrast", "z"]) == 2
    said = capsys.readouterr().err
    assert "old.csv' (path[0]) holds" in said and "new.csv' (path[1]) holds" in said
    assert "--coding '-1=...,0=...,1=...'" in said


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([[-1, 0, 1], [1, 1]], [False, True, True, True]),
        ([[0, 1], [0, 0]], [False, True, False, False]),
        ([[0, 0], [0, 1]], [False, False, False, True]),
        ([[-1, 0, 1], [0, -1]], [False, True, False]),
        ([["left", "right", "tie"], ["tie", "left"]], [True, False, True]),
        ([[0, 1], ["1", "0"], [True, None]], [False, True, True, False, True]),
    ],
)
def test_sources_that_mean_the_same_are_read_as_one(sources, expected):
    """One that alone could be misread goes with another that has all its values and cannot."""
    assert fc.read_log([table(outcomes) for outcomes in sources], contrast="z").wins.tolist() == expected


def test_a_value_has_one_share(tmp_path, capsys):
    """Of "w=1,w=0,l=0" the last was taken."""
    path = tmp_path / "log.csv"
    table(["w", "l"]).to_csv(path, index=False)
    asked = ["replay", str(path), "--contrast", "z", "--coding"]
    for coding in ("w=1,w=0,l=0", "w=1, w =0,l=0"):
        assert main([*asked, coding]) == 2
        assert "argument --coding: 'w' twice, with the shares 1 and 0; one is wanted" in capsys.readouterr().err
    assert main([*asked, "1=1,1.0=0"]) == 2
    assert "twice, with the shares 1 and 0; one is wanted" in capsys.readouterr().err
    assert main([*asked, "w=1,l=0,w=1"]) == 0


# --- items that are called as ties are ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tie", "draw", "Equal"])
def test_an_item_that_is_called_as_a_tie_keeps_its_wins(name):
    """They were draws, with coding="names" as well."""
    frame = pd.DataFrame({"p": [name, "x", name, "x"], "q": ["x", name, "x", "y"], "y": [name, name, "x", "x"]})
    wanted = (
        rf"the outcome '{name}' in column 'y' is the name of an item.* Wanted is coding=\{{'{name}': 0.5, .*'names'"
    )
    with pytest.raises(ValueError, match=wanted):
        fc.read_log(frame, items=["p", "q"])
    assert fc.read_log(frame, items=["p", "q"], coding="names").wins.tolist() == [True, False, False, True]
    stated = fc.read_log(frame, items=["p", "q"], coding={name: 0.5})
    assert (stated.wins.tolist(), stated.draws) == ([False, True], 2)
    frame["y"] = [name, "drawn", "x", "x"]
    log = fc.read_log(frame, items=["p", "q"], coding="names")
    assert (log.wins.tolist(), log.draws) == ([True, False, True], 1)
