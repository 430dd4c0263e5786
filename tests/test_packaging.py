"""The package as a thing to install: metadata that cannot drift, light imports, the README's test command."""

from __future__ import annotations

import ast
import configparser
import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import fastcolst as fc

pytestmark = pytest.mark.either_lane

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def tox_section(name: str) -> configparser.SectionProxy:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    return tox[name]


def test_the_version_is_written_once_and_in_the_changelog():
    assert PROJECT["project"]["dynamic"] == ["version"]
    (path,) = (path for path in (ROOT / "fastcolst").rglob("*.py") if "\n__version__ = " in path.read_text("utf-8"))
    assert ROOT / PROJECT["tool"]["hatch"]["version"]["path"] == path
    assert re.fullmatch(r"\d+\.\d+\.\d+", fc.__version__)
    assert f"\n## {fc.__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_oldest_lane_installs_the_lower_bounds_to_the_letter():
    project = PROJECT["project"]
    bounds = {}
    extras = project["optional-dependencies"]
    for requirement in [*project["dependencies"], *extras["study"], *extras["dask"]]:
        name, _, version = requirement.partition(">=")
        bounds[name] = version
    pins = dict(line.split("==") for line in tox_section("testenv:oldest")["deps"].split())
    assert set(pins) == set(bounds)
    for name, version in bounds.items():
        assert pins[name] == version or pins[name] == f"{version}.0", name


def test_the_lint_lane_uses_the_ruff_of_the_dev_extra():
    (ruff,) = [line for line in PROJECT["project"]["optional-dependencies"]["dev"] if line.startswith("ruff")]
    assert tox_section("testenv:lint")["deps"].split() == [ruff]


def test_the_command_is_there():
    module, _, name = PROJECT["project"]["scripts"]["fastcolst"].partition(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_type_hints_are_announced():
    assert (Path(fc.__file__).parent / "py.typed").is_file()


def test_all_public_names_are_there_and_documented():
    for name in fc.__all__:
        assert getattr(fc, name).__doc__, name


def modules_after(statement: str) -> set[str]:
    program = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_importing_brings_in_no_optional_package():
    modules = modules_after("import fastcolst as fc, fastcolst.cli; fc.CoLSTIM")
    assert "numba" in modules
    assert modules & {"matplotlib", "pandas", "pyarrow", "tqdm"} == set()


def test_the_command_begins_with_nothing_that_is_slow():
    """Ctrl-C is dealt with from there on."""
    assert modules_after("import fastcolst.__main__") & {"numba", "numpy", "scipy", "typing"} == set()


def test_public_names_are_what_the_type_checker_sees():
    tree = ast.parse((Path(fc.__file__).parent / "__init__.pyi").read_text(encoding="utf-8"))
    names = [(name, node.module) for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names]
    seen = {name.asname: module for name, module in names if name.asname == name.name}  # others are not exported
    assert len(seen) == len(names)
    assert seen.pop("__version__") == "fastcolst._version"
    assert seen == {name: f"fastcolst.{home}" for name, home in fc._HOME.items()}
    assert sorted(seen) == sorted(fc.__all__)
    for name, module in seen.items():
        assert getattr(fc, name) is getattr(importlib.import_module(module), name)


@pytest.mark.parametrize(
    "statement",
    [
        "import fastcolst as fc; assert fc.policies.REGISTRY; assert fc.CoLSTIM is fc.policies.CoLSTIM",
        "from fastcolst import *; CoLSTIM, fit, simulate",
        "from fastcolst import CoLSTIM, policies; assert policies.CoLSTIM is CoLSTIM",
        "import fastcolst as fc; assert {'CoLSTIM', 'simulate', '__version__'} <= {*dir(fc)}",
        "import fastcolst as fc; assert not hasattr(fc, 'Clostim'); fc.Scenario",
    ],
)
def test_names_are_there_however_they_are_asked_for(statement: str):
    assert "fastcolst" in modules_after(statement)


@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        ("fc.BradleyTerry", {"fastcolst.policies", "fastcolst.experiments.studies", "fastcolst.data"}),
        ("fc.comparison", {"fastcolst.policies", "fastcolst.experiments.studies", "fastcolst.data"}),
        ("fc.FileFormatError", {"fastcolst.policies", "fastcolst.experiments.studies", "fastcolst.data"}),
        ("assert not hasattr(fc, '__wrapped__')", {"fastcolst.comparison", "numba", "numpy"}),
        ("assert not hasattr(fc, 'Clostim')", {"fastcolst.comparison", "numba", "numpy"}),
    ],
)
def test_a_name_brings_in_what_it_needs(statement: str, missing: set[str]):
    assert modules_after(f"import fastcolst as fc; {statement}") & missing == set()


@pytest.mark.slow
@pytest.mark.parametrize("home", sorted({*fc._HOME.values()}))
def test_any_name_may_be_the_first(home: str):
    name = next(name for name in fc.__all__ if fc._HOME[name] == home)
    assert f"fastcolst.{home}" in modules_after(f"import fastcolst as fc; fc.{name}; fc.{home}")


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'fastcolst' has no attribute 'Clostim'"):
        fc.Clostim  # noqa: B018


BLOCK = "<!-- test command -->\n```sh\nfirst\nsecond\n```\n"


@pytest.mark.parametrize(
    ("readme", "command"),
    [
        (f"# Title\n```\nnot this\n```\n{BLOCK}```\nnor this\n```\n", "first\nsecond\n"),
        ("# Title\n```sh\nunmarked\n```\n", None),
        (BLOCK + BLOCK, None),
    ],
)
def test_ci_takes_the_one_marked_block_of_the_readme(tmp_path: Path, readme: str, command: str | None):
    (tmp_path / "README.md").write_text(readme)
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (function,) = re.findall(r"^test_command\(\) \{\n.*?^\}\n", script, flags=re.DOTALL | re.MULTILINE)
    program = f"repository=$1\n{function}test_command\n"
    done = subprocess.run(["/bin/bash", "-c", program, "-", tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (command is not None)
    assert command is None or done.stdout == command


def test_the_readme_has_its_test_command():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.count("<!-- test command -->") == 1
    block = readme.partition("<!-- test command -->")[2].lstrip()
    assert block.startswith("```")
    # without options that leave tests out: what is marked either_lane runs here and not in .ci/run's other lane
    assert block.split("```")[1].rstrip().endswith("-m pytest -n 2 --dist loadfile")
