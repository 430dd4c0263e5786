"""What a simulation returns, on disk and back."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastcolst._files import write_atomically
from fastcolst.experiments.results import FileFormatError, Result, load_result

pytestmark = pytest.mark.either_lane

ROOT = Path(__file__).resolve().parents[1]
NUMBERS = ("average_regret", "weak_regret", "self_duels", "seconds")


def fields(runs: int = 3, rounds: tuple[int, ...] = (10, 40, 100), d: int = 2) -> dict:
    rng = np.random.default_rng(11)
    shape, labels = (runs, len(rounds)), ("CoLSTIM, c1=2", "UniformPairs")
    return {
        "rounds": list(rounds),
        "average_regret": {label: np.cumsum(rng.random(shape), axis=1) for label in labels},
        "weak_regret": {label: np.cumsum(rng.random(shape), axis=1) for label in labels},
        "self_duels": {label: np.sort(rng.integers(0, rounds[0] + 1, shape), axis=1) for label in labels},
        "seconds": {label: rng.random(runs) for label in labels},
        "thetas": rng.standard_normal((runs, d)),
        "seed": 2**128 - 5,
        "horizon": 100,
        "runs": runs,
        "settings": {"scenario": "Scenario.hard()", "fastcolst": "0.1.0", "Größe": "ü"},
    }


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def content(result: Result) -> dict:
    """Everything, to the last bit."""
    bits = {name: {k: v.tobytes() for k, v in getattr(result, name).items()} for name in NUMBERS}
    bits |= {name: getattr(result, name).tobytes() for name in ("rounds", "thetas")}
    bits |= {name: getattr(result, name) for name in ("seed", "horizon", "runs", "settings", "policies")}
    return bits | {"d": result.thetas.shape[1]}


# --- the object ---------------------------------------------------------------------------------------------


def test_arrays_are_read_only_copies_of_fixed_type():
    given = fields()
    result = Result(**given)
    label = result.policies[0]
    given["average_regret"][label][0, 0] = 1e9
    assert result.average_regret[label][0, 0] < 1.0
    assert result.rounds.dtype == result.self_duels[label].dtype == np.int64
    assert result.weak_regret[label].dtype == result.thetas.dtype == np.float64
    for array in (result.rounds, result.thetas, *(getattr(result, name)[label] for name in NUMBERS)):
        assert not array.flags.writeable
    assert content(pickle.loads(pickle.dumps(result))) == content(result)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": []}, "rounds is"),
        ({"rounds": [0, 40, 100]}, "rounds is"),
        ({"rounds": [40, 40, 100]}, "rounds is"),
        ({"rounds": [10, 40, 101]}, "from 1 to horizon=100"),
        ({"rounds": [10.0, 40.0, 100.0]}, "rounds has dtype float64"),
        ({"rounds": [10, 100]}, r"average_regret\['CoLSTIM, c1=2'\] has shape \(3, 3\); \(3, 2\) is wanted"),
        ({"runs": 2}, r"thetas has shape \(3, 2\); \(2, any\)"),
        ({"runs": 0}, "runs is 0; a whole number of at least 1"),
        ({"horizon": 100.0}, "horizon is 100.0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": True}, "seed is True"),
        ({"thetas": np.full((3, 2), np.nan)}, r"thetas\[0, 0\] is not finite"),
        ({"average_regret": {}}, "average_regret is empty"),
        ({"average_regret": [1.0]}, "average_regret is a list"),
        ({"weak_regret": {}}, r"weak_regret has the policies \[\]"),
        ({"seconds": {"A": [0.0] * 3}}, r"seconds has the policies \['A'\]"),
        ({"seconds": {"": [0.0] * 3}}, "seconds has the label ''"),
        ({"seconds": {"CoLSTIM, c1=2": [-1.0] * 3, "UniformPairs": [0.0] * 3}}, "has a negative number"),
        ({"settings": {"n": 3}}, r"settings\['n'\] is 3; texts are wanted"),
        ({"settings": None}, "settings is a NoneType"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Result(**(fields() | change))


@pytest.mark.parametrize(("name", "value"), [("self_duels", 11), ("self_duels", -1), ("weak_regret", np.inf)])
def test_numbers_that_cannot_be_are_refused(name, value):
    given = fields()
    given[name]["UniformPairs"][1, 0] = value
    with pytest.raises(ValueError, match=rf"{name}\['UniformPairs'\]"):
        Result(**given)


def test_seconds_that_are_not_known_stay_so(tmp_path):
    given = fields()
    given["seconds"]["UniformPairs"][1] = np.nan
    result = Result(**given)
    result.save(tmp_path / "result.parquet")
    loaded = load_result(tmp_path / "result.parquet")
    for label, seconds in result.seconds.items():
        assert loaded.seconds[label].tobytes() == seconds.tobytes()
    (line,) = [line for line in loaded.summary().splitlines() if line.startswith("UniformPairs")]
    assert line.endswith(" -")
    given["seconds"]["UniformPairs"][1] = np.inf
    with pytest.raises(ValueError, match=r"seconds\['UniformPairs'\]\[1\] is not finite"):
        Result(**given)


def test_same_numbers_sees_every_number_but_the_seconds():
    result = Result(**fields())
    other = fields()
    other["seconds"]["UniformPairs"] += 1.0
    other["settings"] = {}
    for name in NUMBERS:
        other[name] = dict(reversed(other[name].items()))
    assert result.same_numbers(Result(**other))
    for name in NUMBERS[:3]:
        other = fields()
        other[name]["UniformPairs"] = other[name]["UniformPairs"] * 0
        assert not result.same_numbers(Result(**other))
    for name, value in (
        ("seed", 1),
        ("horizon", 200),
        ("rounds", [10, 41, 100]),
        ("thetas", np.ones((3, 2))),
    ):
        assert not result.same_numbers(Result(**(fields() | {name: value})))


def test_a_summary_reports_mean_and_deviation_over_the_runs():
    given = fields()
    lines = Result(**given).summary().splitlines()
    assert lines[0] == f"100 rounds, 3 runs, seed {2**128 - 5}"
    for line, label in zip(lines[2:], given["average_regret"], strict=True):
        average, weak = given["average_regret"][label][:, -1], given["weak_regret"][label][:, -1]
        share, seconds = given["self_duels"][label][:, -1].mean(), given["seconds"][label].mean()
        assert line.startswith(label)
        assert line.removeprefix(label).split() == [
            f"{average.mean():.2f}",
            f"{np.sqrt(np.sum((average - average.mean()) ** 2) / 2):.2f}",
            f"{weak.mean():.2f}",
            f"{share:.1f}",
            "%",
            f"{1e6 * seconds / 100:.2f}",
        ]


def test_a_summary_of_one_run_has_no_deviation_and_says_where_it_stops():
    lines = Result(**fields(runs=1, rounds=(10, 40))).summary().splitlines()
    assert lines[0].startswith("100 rounds, 1 run, seed")
    assert lines[0].endswith("regret after 40")
    assert lines[2].removeprefix("CoLSTIM, c1=2").split()[1] == "-"


def test_a_data_frame_has_a_row_per_policy_run_and_checkpoint():
    pytest.importorskip("pandas")
    result = Result(**fields())
    frame = result.to_pandas()
    assert list(frame) == ["policy", "run", "round", "average_regret", "weak_regret", "self_duels"]
    assert len(frame) == 2 * 3 * 3
    for row in frame.itertuples():
        k = result.rounds.tolist().index(row.round)
        for name in NUMBERS[:3]:
            assert getattr(row, name) == getattr(result, name)[row.policy][row.run, k]
    assert not frame.duplicated(["policy", "run", "round"]).any()


def test_plotting_is_left_to_plotting(monkeypatch):
    plotting = pytest.importorskip("fastcolst.plotting")
    monkeypatch.setattr(plotting, "regret_figure", lambda result, ax: (result, ax))
    result = Result(**fields())
    assert result.plot("ax") == (result, "ax")


# --- on disk ------------------------------------------------------------------------------------------------

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "result.parquet"
    Result(**fields()).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("shape", [{}, {"runs": 1}, {"rounds": (100,)}, {"d": 0}, {"runs": 1, "d": 0}])
def test_every_bit_comes_back(tmp_path, shape):
    result = Result(**fields(**shape))
    result.save(tmp_path / "result.parquet")
    loaded = load_result(str(tmp_path / "result.parquet"))
    assert content(loaded) == content(result)
    assert loaded.same_numbers(result)
    assert names(tmp_path) == ["result.parquet"]


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(theta=st.lists(FLOATS, min_size=1, max_size=4), regret=FLOATS, seed=st.integers(0, 2**128 - 1))
@settings(max_examples=30)
def test_any_number_comes_back(tmp_path_factory, theta, regret, seed):
    change = {"thetas": [theta], "seed": seed}
    change["average_regret"] = {"A": [[regret]]}
    change["weak_regret"] = change["average_regret"]
    change |= {"self_duels": {"A": [[0]]}, "seconds": {"A": [abs(regret)]}, "rounds": [1]}
    result = Result(**(fields(runs=1) | change))
    path = tmp_path_factory.mktemp("any") / "result.parquet"
    result.save(path)
    assert content(load_result(path)) == content(result)


def test_any_tool_can_read_the_table(tmp_path):
    pandas = pytest.importorskip("pandas")
    result = Result(**fields())
    result.save(tmp_path / "result.parquet")
    table = parquet.read_table(tmp_path / "result.parquet")
    pandas.testing.assert_frame_equal(table.to_pandas(), result.to_pandas())
    header = json.loads(table.schema.metadata[b"fastcolst"])
    assert header["version"] == 1
    assert header["seed"] == result.seed
    assert header["settings"] == result.settings


def test_a_missing_file_and_a_folder_keep_their_own_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_result(tmp_path / "result.parquet")
    with pytest.raises(IsADirectoryError):
        load_result(tmp_path)


@pytest.mark.parametrize("bytes_", [b"", b"PAR1", b"PAR1" * 20, b"policy,run\nA,1\n"])
def test_files_of_something_else_are_refused(tmp_path, bytes_):
    path = tmp_path / "result.parquet"
    path.write_bytes(bytes_)
    with pytest.raises(FileFormatError, match=r"result\.parquet"):
        load_result(path)


def test_a_table_of_somebody_else_is_refused(tmp_path):
    path = tmp_path / "result.parquet"
    parquet.write_table(pyarrow.table({"policy": ["A"], "run": [1]}), path)
    with pytest.raises(FileFormatError, match="not a result of fastcolst"):
        load_result(path)


def rewritten(saved: bytes, path: Path, change_table=None, **change_header) -> Path:
    """A file whose header has a right digest, so that only its content is wrong."""
    table = parquet.read_table(pyarrow.BufferReader(saved))
    header = json.loads(table.schema.metadata[b"fastcolst"]) | change_header
    text = json.dumps(header).encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    table = table if change_table is None else change_table(table)
    parquet.write_table(table.replace_schema_metadata({b"fastcolst": text, b"fastcolst.sha256": digest}), path)
    return path


@pytest.mark.parametrize(
    ("header", "change"),
    [
        ({"version": 2}, None),
        ({"seed": 3}, None),
        ({"seed": "3"}, None),
        ({"runs": 2}, None),
        ({"rounds": [10, 40, 99]}, None),
        ({"policies": ["A"]}, None),
        ({"policies": None}, None),
        ({"thetas": [[1.0, 2.0], [3.0]]}, None),
        ({"settings": {"a": 1}}, None),
        ({}, lambda table: table.slice(0, 17)),
        ({}, lambda table: table.take([1, 0, *range(2, 18)])),
        ({}, lambda table: table.drop_columns(["weak_regret"])),
        ({}, lambda table: table.append_column("more", table["run"])),
        ({}, lambda table: table.set_column(1, "run", table["round"])),
        ({}, lambda table: table.set_column(5, "self_duels", table["run"])),
        ({}, lambda table: table.set_column(3, "average_regret", table["policy"])),
    ],
)
def test_content_that_does_not_fit_together_is_refused(tmp_path, saved, header, change):
    assert load_result(rewritten(saved, tmp_path / "same.parquet")).horizon == 100
    with pytest.raises(FileFormatError, match=r"result\.parquet"):
        load_result(rewritten(saved, tmp_path / "result.parquet", change, **header))


def test_a_header_that_was_edited_is_refused(tmp_path, saved):
    table = parquet.read_table(pyarrow.BufferReader(saved))
    metadata = dict(table.schema.metadata)
    metadata[b"fastcolst"] = metadata[b"fastcolst"].replace(b"hard", b"easy")
    parquet.write_table(table.replace_schema_metadata(metadata), tmp_path / "result.parquet")
    with pytest.raises(FileFormatError, match=r"result\.parquet.*the header is damaged"):
        load_result(tmp_path / "result.parquet")


@given(data=st.data())
@settings(max_examples=200)
def test_damaged_bytes_are_refused_or_harmless(tmp_path_factory, saved, data):
    """Whatever still loads holds the numbers that were saved: only bytes without a meaning may change."""
    place = st.integers(0, len(saved) - 1)
    damaged = bytearray(saved)
    for at, value in data.draw(st.lists(st.tuples(place, st.integers(0, 255)), min_size=1, max_size=3)):
        damaged[at] = value
    path = tmp_path_factory.mktemp("damaged") / "result.parquet"
    path.write_bytes(damaged)
    try:
        loaded = load_result(path)
    except FileFormatError:
        return
    assert content(loaded) == content(Result(**fields()))


@given(data=st.data())
def test_files_cut_short_are_refused(tmp_path_factory, saved, data):
    path = tmp_path_factory.mktemp("short") / "result.parquet"
    path.write_bytes(saved[: data.draw(st.integers(0, len(saved) - 1))])
    with pytest.raises(FileFormatError):
        load_result(path)


# --- writing ------------------------------------------------------------------------------------------------


def test_only_parquet_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.parquet"):
        Result(**fields()).save(tmp_path / "result.csv")
    assert names(tmp_path) == []


def test_a_new_file_has_the_permissions_of_any_new_file_and_replaces_the_old_one(tmp_path):
    path, plain = tmp_path / "result.parquet", tmp_path / "plain"
    plain.write_bytes(b"")
    path.write_bytes(b"old")
    Result(**fields()).save(path)
    assert load_result(path).runs == 3
    assert path.stat().st_mode == plain.stat().st_mode


def test_the_target_of_a_link_is_replaced_not_the_link(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to(folder / "target")
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert (folder / "target").read_bytes() == b"new"


def test_a_path_below_a_file_is_an_error_of_the_system(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(NotADirectoryError):
        Result(**fields()).save(tmp_path / "file" / "result.parquet")
    with pytest.raises(FileNotFoundError):
        Result(**fields()).save(tmp_path / "nowhere" / "result.parquet")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("step", ["fsync", "replace", "interrupt"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "result.parquet"
    path.write_bytes(b"old")
    raised = KeyboardInterrupt if step == "interrupt" else OSError

    def fail(*_):
        raise raised

    if step == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    else:
        monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(raised):
        Result(**fields()).save(path)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["result.parquet"]


FULL_DISK = """
import resource, sys
sys.path[:0] = [{tests!r}, {root!r}]
from test_results import Result, fields
path = {path!r}
result = Result(**fields())
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    result.save(path)
except OSError as error:
    print(type(error).__name__, error.errno)
"""


@pytest.mark.skipif(os.name != "posix", reason="a limit on the size of files needs POSIX")
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "result.parquet"
    path.write_bytes(b"old")
    script = FULL_DISK.format(tests=str(ROOT / "tests"), root=str(ROOT), path=str(path))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.split() == ["OSError", str(errno.EFBIG)]
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["result.parquet"]


def test_file_then_folder_are_flushed_around_the_renaming(tmp_path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, Path.replace

    def logged_fsync(descriptor):
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def logged_replace(self, target):
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(Path, "replace", logged_replace)
    write_atomically(tmp_path / "data", b"new")
    assert steps == ["file", "rename", "folder"]


@pytest.mark.parametrize("call", [lambda path: Result(**fields()).save(path), load_result])
def test_what_to_install_is_said(tmp_path, monkeypatch, call):
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install 'fastcolst\[study\]'"):
        call(tmp_path / "result.parquet")


def test_a_file_that_claims_more_than_it_can_hold_is_refused_unread(tmp_path):
    """Zeros by the million: a thousandth of their size in the file."""
    path, bomb, k = tmp_path / "result.parquet", tmp_path / "bomb.parquet", 20_000_000
    Result(**fields()).save(path)
    columns = {name: np.zeros(k) for name in ("a", "b")}
    table = pa.table(columns).replace_schema_metadata(pq.read_schema(path).metadata)
    pq.write_table(table, bomb, compression="zstd")
    assert bomb.stat().st_size < 2**18
    with pytest.raises(FileFormatError, match="claims 320,000,000 bytes"):
        load_result(bomb)
