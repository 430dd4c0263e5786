"""Damaged and hostile files: one error that names the file, before memory is taken, and nothing executed.

Thousands of mutations are the campaign's (`campaign.files`); here stands one of each kind of fault.
"""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest

import fastcolst as fc
from fastcolst import _files
from fastcolst.cli import main
from fastcolst.data.tables import MOST_COLUMNS
from fastcolst.experiments.tables import MOST_TABLES

pytestmark = pytest.mark.either_lane

RNG = np.random.default_rng(1)
SCORED = {"contexts": RNG.normal(size=(6, 3, 2)), "scores": RNG.normal(size=(6, 3)), "maximize": np.array(False)}
LOG = {"Z": RNG.normal(size=(6, 2)), "y": np.array([0, 1] * 3)}
STUDY = 'horizon = 20\n[[policy]]\nname = "UniformPairs"\n[[scenario]]\nname = "easy"\nn_arms = 3\nn_features = 2\n'


def as_npy(array, version=(1, 0), header=None):
    """An array as a member of an archive holds it, its header replaced by a text."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), version=version)
    made = buffer.getvalue()
    if header is None:
        return made
    start = 10 + int.from_bytes(made[8:10], "little")
    return made[:8] + struct.pack("<H", len(header)) + header.encode() + made[start:]


def described(descr, shape):
    return f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}\n"


def archive_of(members, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def read_log_of(data, folder):
    path = folder / "hostile.npz"
    path.write_bytes(data)
    return fc.read_log(path)


def scored_of(data, folder):
    path = folder / "hostile.npz"
    path.write_bytes(data)
    return fc.Study({"r": fc.UniformPairs()}, {"s": {"name": "file", "path": str(path)}}, horizon=5)


def changed(data, place_of, offset, number):
    """An archive with another number in the first record of its directory (PK 1 2) or of a member (PK 3 4)."""
    place = data.index(place_of) + offset
    return data[:place] + struct.pack("<H", number) + data[place + 2 :]


DIRECTORY, MEMBER = b"PK\x01\x02", b"PK\x03\x04"
FAULTS = {
    "cut": lambda f, m: f[: len(f) // 2],
    "empty": lambda f, m: b"",
    "a flipped bit": lambda f, m: f[:300] + bytes([f[300] ^ 4]) + f[301:],
    "no such compression": lambda f, m: changed(f, DIRECTORY, 10, 99),
    "bzip2": lambda f, m: archive_of(m, zipfile.ZIP_BZIP2),
    "encrypted": lambda f, m: changed(f, DIRECTORY, 8, 1),
    "a name that is not the member's": lambda f, m: changed(f, DIRECTORY, 46, 0x4141),
    "10^13 rows": lambda f, m: archive_of({**m, next(iter(m)): as_npy([], header=described("<f8", (10**13, 3)))}),
    "10^13 empty texts": lambda f, m: archive_of({**m, next(iter(m)): as_npy([], header=described("<U0", (10**13,)))}),
    "fewer rows than there are": lambda f, m: archive_of(
        {**m, next(iter(m)): as_npy(np.ones((9, 2)), header=described("<f8", (8, 2)))}
    ),
    "negative rows": lambda f, m: archive_of({**m, next(iter(m)): as_npy([], header=described("<f8", (-1, 2)))}),
    "a header without end": lambda f, m: archive_of({**m, next(iter(m)): as_npy([], header="(" * 60_000)}),
    "another version": lambda f, m: archive_of({**m, next(iter(m)): as_npy(np.ones(3), version=(3, 0))}),
    "records": lambda f, m: archive_of({**m, next(iter(m)): as_npy(np.zeros(3, [("a", "f8")]))}),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("arrays", "read"), [(LOG, read_log_of), (SCORED, scored_of)], ids=["log", "scores"])
def test_a_damaged_archive_is_one_error_that_names_it(arrays, read, fault, tmp_path):
    members = {name: as_npy(array) for name, array in arrays.items()}
    right = archive_of(members, zipfile.ZIP_DEFLATED)
    assert read(right, tmp_path)
    with pytest.raises(fc.FileFormatError, match=r"hostile\.npz"):
        read(FAULTS[fault](right, members), tmp_path)


def test_a_damaged_archive_is_one_line_at_the_command_line(tmp_path, capsys):
    (tmp_path / "data.npz").write_bytes(b"PK\x03\x04 nothing")
    (tmp_path / "study.toml").write_text(STUDY + '[[scenario]]\nname = "file"\npath = "data.npz"\n')
    assert main(["study", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "data.npz" in error and error.count("\n") == 1


def test_names_that_are_there_twice_are_refused(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("Z.npy", as_npy(np.ones((2, 1))))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("Z.npy", as_npy(np.zeros((2, 1))))
    with pytest.raises(fc.FileFormatError, match="two arrays with the name 'Z'"):
        read_log_of(buffer.getvalue(), tmp_path)


def test_what_is_damaged_does_not_fall_back_to_a_default(tmp_path):
    """With its name destroyed in the directory, "maximize" would be missing, and True instead of False."""
    data = archive_of({name: as_npy(array) for name, array in SCORED.items()})
    place = data.rindex(b"maximize")
    with pytest.raises(fc.FileFormatError, match=r"hostile\.npz"):
        scored_of(data[:place] + b"n" + data[place + 1 :], tmp_path)


def test_one_answer_is_wanted_for_maximize(tmp_path):
    members = {name: as_npy(array) for name, array in SCORED.items()}
    with pytest.raises(ValueError, match=r"maximize of .* has shape \(2,\)"):
        scored_of(archive_of({**members, "maximize": as_npy([True, False])}), tmp_path)
    with pytest.raises(ValueError, match="maximize is"):
        scored_of(archive_of({**members, "maximize": as_npy("False")}), tmp_path)


class Evil:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (self.mark,)


@pytest.mark.parametrize("read", [read_log_of, scored_of])
def test_nothing_is_unpickled(read, tmp_path):
    objects = np.empty(1, object)
    objects[0] = Evil(str(tmp_path / "executed"))
    names = {"Z", "y", "contexts", "scores", "maximize"}
    for data in (archive_of(dict.fromkeys(names, as_npy(objects))), pickle.dumps(objects[0])):
        with pytest.raises(fc.FileFormatError, match=r"hostile\.npz"):
            read(data, tmp_path)
    assert not (tmp_path / "executed").exists()


def test_memory_is_not_taken_for_what_is_not_there(tmp_path, monkeypatch):
    """Sizes are compared before: of a member that says 50 MB and is another array, nothing is read but the header."""
    read = []
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda *a, f=zipfile.ZipExtFile.read: read.append(a[1]) or f(*a))
    data = archive_of({"Z": as_npy(np.ones((6, 2))) + bytes(50_000_000), "y": as_npy(LOG["y"])}, zipfile.ZIP_DEFLATED)
    with pytest.raises(fc.FileFormatError, match=r"takes 96 bytes, and 50,000,096 are there"):
        read_log_of(data, tmp_path)
    assert sum(read) < 20_000


def test_more_than_the_machine_can_hold_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "most_bytes", lambda: 1_000)
    for name, content in {"log.npz": archive_of({k: as_npy(np.resize(v, (200, 1))) for k, v in LOG.items()}),
                          "log.csv": b"z,y\n" + b"1,1\n" * 300,
                          "log.csv.gz": gzip.compress(b"z,y\n" + b"1,1\n" * 300)}.items():  # fmt: skip
        (tmp_path / name).write_bytes(content)
        with pytest.raises(fc.FileFormatError, match=rf"{name}.*at most 1,000 are wanted"):
            fc.read_log(tmp_path / name, contrast="Z" if name.endswith("npz") else "z")
    _files.check_claim("f", "it", 1_000, 10)
    with pytest.raises(fc.FileFormatError, match=r"claims 16,787,537 bytes, which 10 bytes cannot hold"):
        _files.check_claim("f", "it", 16_787_537, 10)


def test_bytes_of_memory_are_told_or_guessed(monkeypatch):
    assert _files.most_bytes() > 2**26
    monkeypatch.setattr(os, "sysconf", lambda _: -1)
    assert _files.most_bytes() == 2**32


# --- tables -------------------------------------------------------------------------------------------------


def test_a_parquet_file_that_claims_too_many_rows_is_refused(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "log.parquet"
    rows = 20_000_000  # of one number: 320 MB of table in 160 kB of file
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array([1.0]))
    pq.write_table(pa.table({"z": column, "y": column}), path, row_group_size=rows)
    assert path.stat().st_size < 200_000
    with pytest.raises(fc.FileFormatError, match=r"log\.parquet.*20,000,000 rows and 2 columns claims 320,000,000 b"):
        fc.read_log(path, contrast="z")


def test_texts_that_are_no_texts_are_refused(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"z": [1.0, 2.0], "y": [0, 1], "city": ["Oslo", "Rome"]}), path, compression="none")
    path.write_bytes(path.read_bytes().replace(b"Oslo", b"\xff\xfe\xfd\xfc"))
    with pytest.raises(fc.FileFormatError, match=r"log\.parquet"):
        fc.read_log(path, contrast="z", where="city == 'Rome'")


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_a_table_of_commas_is_refused_before_its_columns_are_made(tmp_path, name, monkeypatch):
    content = b"z,y" + b"," * 300_000 + b"\n1,1\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    pandas = pytest.importorskip("pandas")
    monkeypatch.setattr(pandas, "read_csv", lambda *_, **__: pytest.fail("the table was parsed"))
    with pytest.raises(fc.FileFormatError, match=rf"{name}' has 300,002 columns; at most {MOST_COLUMNS:,}"):
        fc.read_log(tmp_path / name, contrast="z")


# --- what is no file ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("extension", [".csv", ".csv.gz", ".parquet", ".npz", ".toml"])
def test_a_pipe_or_a_device_is_refused_at_once(tmp_path, extension):
    pipe, device = tmp_path / f"pipe{extension}", tmp_path / f"device{extension}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(fc.FileFormatError, match=rf"{path.name}' is no regular file"):
            fc.Study.from_toml(path) if extension == ".toml" else fc.read_log(path, contrast="z")
        if extension == ".npz":
            with pytest.raises(ValueError, match=rf"{path.name}' is no regular file"):
                fc.Study({"r": fc.UniformPairs()}, {"s": {"name": "file", "path": str(path)}}, horizon=5)


def test_the_systems_own_errors_stay_what_they_are(tmp_path, monkeypatch):
    path = tmp_path / "log.npz"
    np.savez(path, **LOG)
    monkeypatch.setattr(_files, "Arrays", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(OSError, match="Input/output"), _files.open_arrays(path):
        pass
    with pytest.raises(OSError, match="Input/output"), _files.decoding("f"):
        raise OSError(5, "Input/output error")
    with pytest.raises(fc.FileFormatError, match="'f' cannot be read: MemoryError"), _files.decoding("f"):
        raise MemoryError


# --- TOML ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = " + b"[" * 5_000 + b"]" * 5_000, "is no TOML: "),
        (b"a = " + b"{b=" * 2_000 + b"1" + b"}" * 2_000, "is no TOML: "),
        (b"a = \xff", "is no TOML: "),
        (b"horizon = 1" + b"0" * 5_000, "is no TOML: "),
        (b"#" * (2**20 + 1), "is larger than 1,048,576 bytes"),
        (b"[" + b"a." * 40 + b"a]\n", "has a key of more than 32 parts"),
        (b'"a" . ' * 40 + b"a = 1\n", "has a key of more than 32 parts"),
    ],
)
def test_toml_that_no_parser_should_meet(tmp_path, content, message):
    path = tmp_path / "study.toml"
    path.write_bytes(content)
    with pytest.raises(fc.FileFormatError, match=rf"study\.toml' {message}"):
        fc.Study.from_toml(path)


def test_long_lists_of_numbers_are_no_long_keys(tmp_path):
    numbers = ", ".join(["0.1"] * 200)
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace('name = "easy"\nn_arms = 3\nn_features = 2', f"theta = [{numbers}]\nn_arms = 3"))
    assert fc.Study.from_toml(path)._settings["theta"].problem.n_features == 200


@pytest.mark.parametrize("key", ["policy", "scenario", "estimator"])
def test_levels_without_end_are_refused_before_anything_descends(key):
    deep = [1]
    for _ in range(3_000):
        deep = [deep] if key != "estimator" else {"name": deep}
    data = {
        "horizon": 5,
        "policy": [{"name": "CoLSTIM", "estimator": deep if key == "estimator" else "sgd"}],
        "scenario": [{"name": "easy", "n_arms": 3, "n_features": 2}],
    }
    if key != "estimator":
        data[key][0]["n_arms"] = deep
    with pytest.raises(ValueError, match="more than 16 levels deep"):
        fc.Study.from_dict(data)


def test_grids_are_counted_before_they_are_expanded(monkeypatch):
    numbers = list(range(1, 1_001))
    data = {
        "horizon": 5,
        "policy": [{"name": "CoLSTIM", "width_scale": numbers, "clip": numbers, "ridge": numbers}],
        "scenario": [{"name": "easy", "n_arms": 3, "n_features": 2}],
    }
    one = r"^policy table 1 \('CoLSTIM'\)"
    with pytest.raises(ValueError, match=rf"{one}: its grid has 1,000,000,000 points; at most 10,000 are wanted"):
        fc.Study.from_dict(data)
    inner = {"name": "sgd", "learning_rate": numbers, "decay": [numbers, numbers]}
    data["policy"] = [{"name": "CoLSTIM", "estimator": ["mle", inner]}]
    with pytest.raises(ValueError, match=rf"{one}, estimator: its grid has 2,000,000 points; at most 10,000 are"):
        fc.Study.from_dict(data)
    million = [numbers] * 1_000  # the same list, many times: a small study, and a billion tables
    data["policy"] = [{"name": "CoLSTIM", "width_scale": [million] * 1_000, "clip": numbers[:10]}]
    with pytest.raises(ValueError, match=rf"{one}: its grid has 100,010 points or more; at most 10,000 are wanted"):
        fc.Study.from_dict(data)
    data["policy"] = [{"name": "CoLSTIM", "estimator": [{"name": "sgd", "learning_rate": numbers}] * 1_000_000}]
    with pytest.raises(ValueError, match=rf"{one}: its grid has 10,001 points or more; at most 10,000 are wanted"):
        fc.Study.from_dict(data)
    data["policy"] = [{"name": "UniformPairs"}]
    data["scenario"] = [{"theta": [million] * 1_000, "n_arms": 3}]
    with pytest.raises(ValueError, match=r"^scenario table 1 \(None\): its grid has 10,001 points or more"):
        fc.Study.from_dict(data)
    data["scenario"] = [{"name": "easy", "n_arms": numbers, "label": str(i)} for i in range(11)]
    with pytest.raises(ValueError, match=r"^study: the scenario tables stand for more than the 10,000 that are"):
        fc.Study.from_dict(data)


def test_as_many_tables_as_are_wanted_are_made():
    from fastcolst.experiments.tables import expand

    table = {"name": ["a", "b"], "x": list(range(MOST_TABLES // 2)), "theta": [1.0, 2.0], "e": {"y": [1]}}
    assert MOST_TABLES == len(list(expand(table, "t")))
    with pytest.raises(ValueError, match=r"^t: its grid has 20,000 points"):
        next(expand({**table, "theta": [[1.0], [2.0]]}, "t"))


def test_a_member_that_a_damaged_length_hides_is_missed(tmp_path):
    """The directory's entry of b then has what follows for its comment."""
    path = tmp_path / "arrays.npz"
    np.savez(path, a=np.zeros(3), b=np.ones(2), maximize=False)
    data = bytearray(path.read_bytes())
    entry = data.index(b"b.npy", data.index(b"PK\x01\x02")) - 46
    assert data[entry : entry + 4] == b"PK\x01\x02"
    data[entry + 32] = 0x3A  # bytes of comment: those of the entry of maximize, 46 and its name
    path.write_bytes(data)
    with pytest.raises(fc.FileFormatError, match=r"array 'b' of '.*' has a comment"), _files.open_arrays(path):
        pass


def test_an_error_of_writing_names_the_file_that_was_asked_for(tmp_path):
    path = tmp_path / "missing" / "file.npz"
    for write in (lambda: _files.write_atomically(path, b"x"), lambda: fc.CoLSTIM(2).save(path)):
        with pytest.raises(FileNotFoundError, match=r"No such file or directory: .*missing.file\.npz'$"):
            write()
    assert not list(tmp_path.iterdir())
