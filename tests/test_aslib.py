"""Scenarios of ASlib: what is read of well-formed and of odd files, what is refused, what comes out as a problem."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from conftest import rounds
from hypothesis import HealthCheck, given, settings

import fastcolst as fc
from fastcolst.data.arff import read_arff

DESCRIPTION = """algorithm_cutoff_memory: '?'
algorithm_cutoff_time: 100
default_steps:
- one
feature_steps:
  one:
    provides:
    - size
maximize:
- false
performance_measures:
- runtime
performance_type:
- runtime
scenario_id: ODD
"""
RUNS = """% made by hand
@RELATION runs

@ATTRIBUTE instance_id STRING
@attribute 'repetition' numeric
@ATTRIBUTE "algorithm" STRING
@ATTRIBUTE runtime NUMERIC
@ATTRIBUTE runstatus {ok , timeout, 'memout'}

@DATA
'it, one.cnf',1,"slow 'n sure",20, ok
% a comment
'it, one.cnf',1,quick,3,ok
'it, one.cnf',2,"slow 'n sure",30,ok
'it, one.cnf',2,quick,?,timeout
two.cnf,1,'slow \\'n sure',100,timeout
two.cnf,1,quick,5,memout
"two.cnf",2,"slow 'n sure",150,ok
two.cnf,2,quick,99,timeout
three.cnf,1,"slow 'n sure",1e2,ok
three.cnf,1,quick,0,ok
"""
FEATURES = """@relation features
@attribute instance_id string
@attribute repetition numeric
@attribute size numeric
@attribute ratio real
@attribute constant INTEGER
@attribute failed numeric
@attribute 'its depth' numeric
@data
two.cnf,1,1e9,NaN,7,?,-512
three.cnf,1,-512,0.25,7,nan,3
three.cnf,2,4e8,0.75,7,?,5
'it, one.cnf',1,12,0.1,7,-512.0,1
unknown.cnf,1,12,0.1,7,-512.0,1
"""
FILES = {"description.txt": DESCRIPTION, "algorithm_runs.arff": RUNS, "feature_values.arff": FEATURES}


@pytest.fixture
def folder(tmp_path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def change(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    text = FILES[name]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / name).write_text(text)
    return folder


def test_quotes_gaps_timeouts_and_repetitions_are_read_as_they_are_meant(folder):
    problem = fc.load_aslib(folder, n_components=2)
    assert problem.name == "ODD" and problem.measure == "PAR10" and problem.maximize is False
    assert problem.instances == ("it, one.cnf", "three.cnf", "two.cnf")
    assert problem.algorithms == ("quick", "slow 'n sure")
    wanted = [[(3 + 1000) / 2, 25.0], [0.0, 100.0], [1000.0, 1000.0]]  # past the cutoff is a timeout, whatever it says
    np.testing.assert_array_equal(problem.scores, wanted)
    assert (problem.n_arms, problem.n_features) == (2, 3)
    table = read_arff(folder / "feature_values.arff")
    assert table.names[-1] == "its depth" and table.lines == [10, 11, 12, 13, 14]
    np.testing.assert_array_equal(table.numbers("size", -512.0), [1e9, np.nan, 4e8, 12, 12])
    for text in (RUNS.replace("\n", "\r\n"), "\ufeff" + RUNS):
        (folder / "algorithm_runs.arff").write_bytes(text.encode())
        assert fc.load_aslib(folder, n_components=2).digest == problem.digest


def test_components_are_those_of_logarithms_and_ranks(folder):
    """By eigenvectors of the correlations; missing values are medians, repetitions means, constant columns are out."""
    found = fc.load_aslib(folder, n_components=2).instance_features
    raw = np.array([[12.0, 0.1, 1.0], [4e8, 0.5, 4.0], [1e9, 0.3, 2.5]])  # by instance; the medians 0.3 and 2.5 put in
    ranks = np.array([[1.0, 1.0, 1.0], [2.0, 3.0, 3.0], [3.0, 2.0, 2.0]])
    both = np.hstack([np.log1p(raw), ranks])
    both = (both - both.mean(axis=0)) / both.std(axis=0)
    values, vectors = np.linalg.eigh(both.T @ both / 3)
    wanted = both @ vectors[:, ::-1][:, :2] / np.sqrt(values[::-1][:2])
    for k in range(2):
        signed = wanted[:, k] * np.sign(wanted[np.abs(wanted[:, k]).argmax(), k])
        np.testing.assert_allclose(found[:, k], signed, atol=1e-9)
    np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(found.T @ found / 3, np.eye(2), atol=1e-12)


def test_duels_go_to_the_faster_and_two_timeouts_to_a_coin(folder):
    problem = fc.load_aslib(folder, n_components=1)
    chunk = problem.start(1, 0).next_chunk(3_000)
    gaps = chunk.utilities[:, 0] - chunk.utilities[:, 1]
    wins = gaps + chunk.latent > 0
    assert set(gaps) == {-476.5, 100.0, 0.0} and np.all(wins[gaps != 0] == (gaps[gaps != 0] > 0))
    assert abs(wins[gaps == 0].sum() - 500) < 4 * np.sqrt(250)  # false alarm 6e-5


def test_a_quality_is_as_good_as_it_is_high_and_a_run_without_one_as_bad_as_the_worst(folder):
    change(
        folder,
        "description.txt",
        ("- runtime", "- accuracy"),
        ("- false", "- TRUE"),
        ("algorithm_cutoff_time: 100", ""),
    )
    text = (
        RUNS.replace("runtime NUMERIC", "accuracy NUMERIC").replace("150,ok", "0.5,ok").replace("5,memout", "?,memout")
    )
    (folder / "algorithm_runs.arff").write_text(text)
    problem = fc.load_aslib(folder, n_components=1)
    assert problem.maximize is True and problem.measure == "accuracy"
    np.testing.assert_array_equal(problem.scores, [[1.5, 25.0], [0.0, 100.0], [49.5, 50.25]])
    assert problem.single_best == ("slow 'n sure", 175.25 / 3) and problem.virtual_best == 175.25 / 3


@pytest.mark.parametrize("description", ["performance_measures: [PAR10]", "performance_measures: time", ""])
def test_other_spellings_of_the_same_are_read(folder, description):
    """A column of another name than the description has, where it is the only one; yes and no; values beside keys."""
    wanted = fc.load_aslib(folder, n_components=1)
    changes = [("maximize:\n- false", "maximize: no"), ("algorithm_cutoff_time: 100", "algorithm_cutoff_time: 1.0e+02")]
    if description:
        changes.append(("performance_measures:\n- runtime", description))
        (folder / "algorithm_runs.arff").write_text(RUNS.replace("runtime NUMERIC", "PAR10 NUMERIC"))
    found = fc.load_aslib(change(folder, "description.txt", *changes), n_components=1)
    assert found.digest == wanted.digest and found.maximize is False and found.measure == "PAR10"


def test_the_summary_is_in_the_scenarios_unit(folder):
    problem = fc.load_aslib(folder, n_components=1)
    assert problem.single_best == ("slow 'n sure", 375.0)
    assert problem.best_pair == ("quick", "slow 'n sure", problem.virtual_best)
    assert problem.virtual_best == pytest.approx(1025 / 3) and problem.closed_gap(358 + 1 / 3) == pytest.approx(0.5)
    policies = {"CoLSTIM": fc.CoLSTIM(2, ridge=1.0, exploration_rounds=0, estimator="sgd"), "Random": fc.UniformPairs()}
    result = fc.simulate(policies, problem, 30, runs=2, rng=1, single_arms=True)
    lines = problem.summary(result).splitlines()
    assert lines[0] == "ODD: 3 instances, 2 algorithms; policies: 30 rounds, 2 runs" and "mean PAR10" in lines[1]
    names = [line.split("  ")[0] for line in lines[2:]]
    assert names[3:] == [
        "CoLSTIM, first arm", "CoLSTIM, greedy arm", "CoLSTIM, pair in parallel", "Random, first arm",
        "Random, pair in parallel",
    ]  # fmt: skip
    score = problem.virtual_best + result.first_regret["Random"][:, -1].mean() / 30
    assert lines[-2].split()[-2:] == [f"{score:.4g}", f"{problem.closed_gap(score):.2f}"]
    assert lines[-1].split()[-2:] == [f"{problem.virtual_best:.4g}", "1.00"]  # both arms, always
    short = problem.summary(fc.simulate(policies, problem, 30, rng=1))
    head, _, rows = short.partition("\n")
    assert head.endswith("; policies: 30 rounds, 1 run (simulate(..., single_arms=True) adds rows)")
    assert "arm" not in rows and "CoLSTIM, pair in parallel" in rows
    with pytest.raises(ValueError, match="result is 3; a Result of this problem is wanted"):
        problem.summary(3)


def test_where_one_algorithm_is_always_best_there_is_no_gap_to_close(folder):
    """It was a division by zero. The means 0.1 + 0.2 + 0.3 of rows and columns may differ by their last bits."""
    problem = fc.load_aslib(folder, n_components=1)
    for scores in (np.full((3, 2), 1000.0), np.array([[0.1, 0.3], [0.2, 0.2], [0.3, 0.7]])):
        for maximize in (False, True):
            problem.scores, problem.maximize = np.where(maximize, -scores, scores), maximize
            assert math.isnan(problem.closed_gap(0.1))
            assert [line.split()[-1] for line in problem.summary().splitlines()[2:]] == ["nan"] * 3


@pytest.mark.parametrize("score", ["x", None, [1.0], 1j])
def test_a_score_that_is_no_number_is_refused(folder, score):
    with pytest.raises(ValueError, match=r"score is .*; a mean score, a real number, is wanted"):
        fc.load_aslib(folder, n_components=1).closed_gap(score)


def test_it_is_scored_arms_for_studies_and_for_other_processes(folder):
    problem = fc.load_aslib(folder, n_components=1)
    assert (
        problem.get_params()
        == fc.ScoredArms(fc.arm_features(2, problem.instance_features), problem.scores, maximize=False).get_params()
    )
    twin = pickle.loads(pickle.dumps(problem))
    assert twin.summary() == problem.summary() and repr(twin) == repr(problem)


RUNS_FILE, FEATURES_FILE, TEXT = "algorithm_runs.arff", "feature_values.arff", "description.txt"


@pytest.mark.parametrize(
    ("name", "change_of", "message"),
    [
        (RUNS_FILE, ("quick,3,ok", "quick,3"), r"algorithm_runs.arff', line 13: 4 values; 5 values with commas"),
        (RUNS_FILE, ("quick,3,ok", "quick,fast,ok"), r"line 13: runtime is 'fast'; a finite number below .* is w"),
        (RUNS_FILE, ("quick,3,ok", "quick,inf,ok"), r"line 13: runtime is 'inf'; a finite number"),
        (RUNS_FILE, ("quick,3,ok", "quick,1e200,ok"), r"line 13: runtime is '1e200'; a finite number below 1e\+140"),
        (RUNS_FILE, ("quick,3,ok", "quick,-3,ok"), r"line 13: runtime is -3; a number of at least 0"),
        (RUNS_FILE, ("quick,3,ok", "quick,?,ok"), r"line 13: a run that is ok has no runtime; a number is wanted"),
        (RUNS_FILE, ("quick,3,ok", "quick,3,okay"), r"line 13: runstatus is 'okay'; ok, timeout, memout or \? is w"),
        (RUNS_FILE, ("'it, one.cnf',2,quick", "'it, one.cnf,2,quick"), r"line 15: .* a quote that is not closed"),
        (RUNS_FILE, ("two.cnf,1,quick,5", "{0 two.cnf, 1 1}"), r"line 17: .* braces; 5 values"),
        (RUNS_FILE, ("two.cnf,2,quick", "two.cnf,1,quick"), r"line 19: the run of line 17 again; one of each repet"),
        (RUNS_FILE, ("three.cnf,1,quick,0,ok\n", ""), r"has no run of 'quick' on 'three.cnf'; every algorithm"),
        (RUNS_FILE, ("quick", "slow 'n sure"), r"line 13: "),
        (RUNS_FILE, ("memout'}", "memout'}\n@attribute x real"), r"line 12: 5 values; 6 values with commas"),
        (RUNS_FILE, ("runstatus {", "status {"), r"has no attribute 'runstatus', which is wanted; it has in"),
        (RUNS_FILE, ("runtime NUMERIC", "runtime COMPLEX"), r"line 7: '@ATTRIBUTE runtime COMPLEX'; @attribute, a"),
        (RUNS_FILE, ("runtime NUMERIC", "algorithm NUMERIC"), r"line 7: a second attribute 'algorithm'; other names"),
        (RUNS_FILE, ("@DATA", ""), r"line 11: .*@attribute, a name and numeric, real"),
        (FEATURES_FILE, ("two.cnf,1,1e9", "two.cnf,1,big"), r"feature_values.arff', line 10: size is 'big'; a finit"),
        (FEATURES_FILE, (".cnf", ".txt"), r"has no instance that has runs; those of 'it, one.cnf', ... are"),
        (TEXT, ("algorithm_cutoff_time: 100", ""), r"description.txt': algorithm_cutoff_time is '\?'; a positive"),
        (TEXT, ("_time: 100", "_time: soon"), r"algorithm_cutoff_time is 'soon'; a positive number is wanted"),
        (TEXT, ("- false", "- maybe"), r"maximize is 'maybe'; true or false, yes or no is wanted"),
        (TEXT, ("performance_measures:\n- runtime", ""), r"has no performance_measures; the name of a column"),
    ],
)
def test_what_is_malformed_is_named_with_its_file_and_line(folder, name, change_of, message):
    with pytest.raises(fc.FileFormatError, match=message):
        fc.load_aslib(change(folder, name, change_of))


def test_empty_binary_and_missing_files_are_named(folder):
    for text, message in (("", "no @data"), ("@data\n", "no row after @data")):
        (folder / FEATURES_FILE).write_text(text)
        with pytest.raises(
            fc.FileFormatError, match=rf"feature_values.arff' has {message}; attributes, @data and rows"
        ):
            fc.load_aslib(folder)
    (folder / FEATURES_FILE).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(fc.FileFormatError, match=r"feature_values.arff' cannot be read"):
        fc.load_aslib(folder)
    (folder / FEATURES_FILE).unlink()
    with pytest.raises(FileNotFoundError, match=r"feature_values.arff"):
        fc.load_aslib(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components is 0; a whole number of at least 1 is wanted"),
        ({"n_components": 3}, r"n_components is 3; the instances' features in .* have 2 components, and no more are w"),
    ],
)
def test_wrong_arguments_are_named(folder, options, message):
    with pytest.raises(ValueError, match=message):
        fc.load_aslib(folder, **options)
    with pytest.raises(ValueError, match="folder is 3; a path is wanted"):
        fc.load_aslib(3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=rounds(300, 60))
@given(st.data())
def test_damaged_files_are_read_or_refused_and_nothing_else(folder, data):
    name = data.draw(st.sampled_from(sorted(FILES)))
    text = bytearray(FILES[name].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text)))
        new = data.draw(
            st.sampled_from([b"", b"'", b'"', b",", b"\n", b"{", b"?", b"\xff", b"1e999", b"@data", b"\x00"])
        )
        text[place : place + data.draw(st.integers(0, 30))] = new
    refused = ""
    try:
        for other, whole in FILES.items():
            (folder / other).write_bytes(bytes(text) if other == name else whole.encode())
        problem = fc.load_aslib(folder, n_components=1)
    except fc.FileFormatError as error:
        refused = str(error)
    except ValueError as error:
        refused = str(error) if "n_components" in str(error) else "something else"
    if refused:
        assert "wanted" in refused or "cannot be read" in refused
    else:
        assert np.isfinite(problem.scores).all() and np.isfinite(problem.instance_features).all()


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "shape", "cutoff"), [("CPMP-2015", (527, 4), 3600), ("SAT11-RAND-ALGO", (600, 9), 5000)]
)
def test_real_scenarios_have_the_scores_that_others_read_in_them(shared, name, shape, cutoff):
    folder = shared / "data" / "aslib" / name
    if not folder.is_dir():
        pytest.skip("real data is not here: no folder data/aslib")
    problem = fc.load_aslib(folder)
    with np.load(folder / "replay.npz") as archive:
        theirs = archive["score"].astype(float)
    assert problem.name == name and problem.scores.shape == shape
    found = np.where(problem.scores == 10 * cutoff, 1e30, problem.scores)
    np.testing.assert_allclose(np.sort(found, axis=None), np.sort(theirs, axis=None), rtol=1e-6)
    assert problem.virtual_best < problem.best_pair[2] < problem.single_best[1]
