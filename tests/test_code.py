"""A study and the code of people's own: changed code is a changed study."""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import llvmlite.ir
import numpy as np
import pytest

import fastcolst as fc
from fastcolst._code import changed_code, merged_code, own_code
from fastcolst.cli import main

pytest.importorskip("pyarrow")

RULE = """
    STEP = 1

    def shifted(i, n):
        return (i + STEP) % n

    class Turn:
        def __init__(self, n_arms, fails=False):
            self.n_arms, self.round, self.fails = n_arms, 0, fails

        def select(self, contexts):
            self.round += 1
            if self.fails:
                raise KeyError("a fault of mine")
            return self.round % self.n_arms, shifted(self.round, self.n_arms)

        def update(self, duel, first_won):
            pass

    def ripple(contexts):
        return (contexts ** 3).sum(axis=-1)
"""


class Own:
    """A module of somebody's own, to be edited."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name, self.text = folder, name, textwrap.dedent(RULE)
        self.edit("", "")

    def edit(self, old: str, new: str) -> None:
        assert old in self.text
        self.text = self.text.replace(old, new)
        (self.folder / f"{self.name}.py").write_text(self.text)
        sys.modules.pop(self.name, None)
        importlib.invalidate_caches()
        for cache in self.folder.glob("__pycache__/*"):  # written within the second
            cache.unlink()

    def study(self, **arguments: Any) -> fc.Study:
        table = {"name": f"{self.name}:Turn", **arguments}
        scenarios = {"s": {"utility": f"{self.name}:ripple", "n_arms": 3, "n_features": 2}}
        return fc.Study({"turn": table, "Random": fc.UniformPairs()}, scenarios, horizon=20, checkpoints=2)


@pytest.fixture
def own(tmp_path, monkeypatch) -> Any:
    name = f"code_{tmp_path.name.replace('-', '_')}"
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Own(tmp_path, name)
    sys.modules.pop(name, None)


def digests(folder: Path) -> dict[str, list[str]]:
    code: dict[str, list[str]] = json.loads((folder / "manifest.json").read_text())["code"]
    return code


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("STEP = 1", "STEP = 2", ["Turn"]),
        ("(i + STEP)", "(i - STEP)", ["Turn"]),
        ("self.round += 1", "self.round += 2", ["Turn"]),
        ("** 3", "** 2", ["ripple"]),
    ],
)
def test_changed_code_is_refused_and_accepted_on_demand(own, tmp_path, old, new, changed):
    out = tmp_path / "out"
    before = own.study().run(out, progress=False).result("s")
    own.study().run(out, progress=False)  # nothing has changed
    kept = {path.name: path.read_bytes() for path in (out / "cells").iterdir()}
    own.edit(old, new)
    with pytest.raises(
        ValueError, match=rf"holds cells of other code: {own.name}:{changed[0]}: \w{{12}}, now \w{{12}}; "
    ):
        own.study().run(out, progress=False)
    assert {path.name: path.read_bytes() for path in (out / "cells").iterdir()} == kept
    after = own.study().run(out, progress=False, accept_changed_code=True).result("s")
    assert before.same_numbers(after)  # all cells were there
    assert {name.partition(":")[2]: len(found) for name, found in digests(out).items()} == {
        "Turn": 1 + ("Turn" in changed), "ripple": 1 + ("ripple" in changed),
    }  # fmt: skip
    own.study().run(out, progress=False)  # which was accepted for good
    fresh = own.study().run(tmp_path / "fresh", progress=False).result("s")
    assert not fresh.same_numbers(before)


def test_a_file_with_the_name_of_a_standard_module_is_peoples_and_what_numba_is_built_on_is_not(tmp_path, monkeypatch):
    (tmp_path / "colorsys.py").write_text("class Turn:\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    found = own_code([importlib.import_module("colorsys").Turn, llvmlite.ir.IntType, Path, np.ndarray, fc.SGD])
    assert list(found) == ["colorsys:Turn"] and found["colorsys:Turn"] != [None]
    monkeypatch.delitem(sys.modules, "colorsys")


def test_comments_places_and_docstrings_are_no_change(own, tmp_path):
    own.study().run(tmp_path / "out", progress=False)
    before = digests(tmp_path / "out")
    own.edit("STEP = 1", "# how far\n\n\nSTEP = 1")
    own.edit("def shifted(i, n):\n", 'def shifted(i, n):\n    """The next one."""\n')
    own.study().run(tmp_path / "out", progress=False)
    assert digests(tmp_path / "out") == before


def test_while_there_are_no_cells_code_may_change(own, tmp_path):
    """A class that failed at once is mended, and the study goes on where it began."""
    own.edit("fails=False", "fails=True")
    scenario = fc.Scenario.easy(n_arms=3, n_features=2)
    study = functools.partial(fc.Study, {"turn": {"name": f"{own.name}:Turn"}}, {"s": scenario}, horizon=20)
    with pytest.raises(KeyError, match="a fault of mine"):
        study().run(tmp_path / "out", progress=False)
    own.edit('raise KeyError("a fault of mine")', "pass")
    study().run(tmp_path / "out", progress=False)
    assert [len(found) for found in digests(tmp_path / "out").values()] == [1]


def test_a_manifest_that_says_nothing_of_code_is_not_believed(own, tmp_path):
    from fastcolst._files import seal

    out = tmp_path / "out"
    own.study().run(out, progress=False)
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["code"]
    (out / "manifest.json").write_bytes(seal(json.dumps({**manifest, "digest": "sha256:"}, indent=1).encode()))
    with pytest.raises(ValueError, match=r"cells of other code: .*:Turn: unknown, now \w{12}; "):
        own.study().run(out, progress=False)


@pytest.mark.either_lane
def test_of_what_has_no_file_one_line_says_so(tmp_path, capsys):
    script = tmp_path / "script.py"
    lines = "import fastcolst as fc\nif __name__ == '__main__':\n" + textwrap.indent(
        "study = fc.Study({'t': Turn}, {'s': fc.Scenario.easy(n_arms=3, n_features=2)}, horizon=20)\n"
        "study.run('out', progress=False)\n",
        "    ",
    )
    script.write_text(textwrap.dedent(RULE) + lines)
    root = str(Path(fc.__file__).parents[1])
    told = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "script.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": root},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        told.append(done.stderr)
    assert told[0] == ""
    assert told[1] == "fastcolst: no telling whether this is the code of the cells in the folder: ['__main__:Turn']\n"


def test_the_command_line_accepts_it_by_an_option(own, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sizes = 'name = "easy"\nn_arms = 3\nn_features = 2\n'
    Path("s.toml").write_text(f'horizon = 20\n[[policy]]\nname = "{own.name}:Turn"\n[[scenario]]\n{sizes}')
    command = ["study", "s.toml", "--out", "out", "--no-progress", "--resume"]
    assert main(command) == 0, capsys.readouterr().err
    own.edit("STEP = 1", "STEP = 2")
    assert main(command) == 2
    assert "other code" in capsys.readouterr().err
    assert main([*command, "--accept-changed-code"]) == 0


def test_code_is_found_wherever_it_is_held(own):
    module = importlib.import_module(own.name)
    name = f"{own.name}:"
    held = {
        "a class": module.Turn,
        "an object": module.Turn(3),
        "in a list": [{"x": (module.Turn(3),)}],
        "a method": module.Turn(3).select,
        "in a partial": functools.partial(len, module.Turn),
        "in an attribute": functools.partial(module.ripple),
    }
    for what, thing in held.items():
        assert f"{name}{'ripple' if what == 'in an attribute' else 'Turn'}" in own_code([thing]), what
    assert own_code([fc.CoLSTIM, fc.Scenario.easy(), np.ones(3), 3, "text", None, int, len]) == {}
    scenario = fc.Scenario(utility=module.ripple, n_arms=2, n_features=2)
    assert list(own_code([scenario])) == [f"{name}ripple"]
    assert all(found[0] and len(found[0]) == 64 for found in own_code([scenario]).values())


def test_digests_are_compared_with_the_last():
    there, now = {"a": ["1", "2"], "b": ["3"]}, {"a": ["1"], "b": ["3"], "c": [None]}
    assert changed_code(there, now) == ["a: 2, now 1", "c: unknown, now unknown"]
    assert merged_code(there, now) == {"a": ["1", "2", "1"], "b": ["3"], "c": [None]}
