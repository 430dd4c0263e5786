"""The order of the modules: each imports what stands below it, at its top and inside functions alike."""

from __future__ import annotations

import ast
import graphlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastcolst

pytestmark = pytest.mark.either_lane

PACKAGE = Path(fastcolst.__file__).parent


def imports_of(package: Path) -> dict[str, set[str]]:
    """The modules of a package that each of them imports, wherever in its file the line stands.

    A name that is imported from a package counts as its module where there is one, else as the package itself. Left out
    is what the package's own ``__init__`` imports when it is asked for.
    """
    paths = [path.relative_to(package.parent).with_suffix("") for path in package.rglob("*.py")]
    modules = {".".join(path.parts).removesuffix(".__init__"): package.parent / f"{path}.py" for path in paths}
    return {name: {*_imported(path, modules)} - {name} for name, path in modules.items()}


def _imported(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None, f"{path} imports by dots, which this test does not read"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (inner_name for inner_name in inner if inner_name in modules)
            if node.module in modules and not all(inner_name in modules for inner_name in inner):
                yield node.module


def circle_of(imports: dict[str, set[str]]) -> list[str]:
    """Modules each of which imports the next, the last of them being the first again; none where there are no such."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_no_modules_import_one_another_in_a_circle():
    imports = imports_of(PACKAGE)
    assert len(imports) > 40 and "fastcolst._words" in imports["fastcolst._checks"]
    circle = circle_of(imports)
    assert not circle, f"a circle of imports: {' -> '.join(circle)}"


def test_no_wings_import_one_another_in_a_circle():
    """Folders, and files that lie in none, stand on floors of which none imports from one above it."""

    def wing(module: str) -> str:
        return ".".join(module.split(".")[:2])

    wings: dict[str, set[str]] = {}
    for module, imported in imports_of(PACKAGE).items():
        wings.setdefault(wing(module), set()).update(wing(other) for other in imported if wing(other) != wing(module))
    circle = circle_of(wings)
    assert not circle, f"a circle of wings: {' -> '.join(circle)}"


def test_the_reference_and_the_rest_of_the_package_import_nothing_from_one_another():
    """The reference is evidence for the compiled code, which it can be only where the two share nothing."""
    crossings = {
        f"{module} imports {other}"
        for module, imported in imports_of(PACKAGE).items()
        for other in imported
        if module.startswith("fastcolst.reference") != other.startswith("fastcolst.reference")
    }
    assert not crossings
    assert "fastcolst.reference.models" in imports_of(PACKAGE)["fastcolst.reference.policies"]


def test_no_file_has_more_than_500_lines():
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}
    assert not [path.name for path, n in lines.items() if n > 500]


@pytest.mark.parametrize(
    "line", ["import p.a", "from p.a import x", "from p import a", "def f():\n    from p.a import x"]
)
def test_a_circle_is_found_wherever_its_imports_stand(tmp_path: Path, line: str):
    package = tmp_path / "p"
    package.mkdir()
    for name, text in {"__init__": "", "a": "from p import b", "b": "import os, p.c", "c": line}.items():
        (package / f"{name}.py").write_text(text)
    circle = circle_of(imports_of(package))
    assert circle[0] == circle[-1] and len(circle) == 4
    assert all(other in imports_of(package)[one] for one, other in itertools.pairwise(circle))


MADE_OF_TUPLES = {"_asdict", "_fields", "_make", "_replace"}


def reach_ins(path: Path) -> list[str]:
    """Private attributes that a file asks of objects whose class is not its own: ``policy._rule``, say."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = {name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Name)) for name in _named(node)}
    own |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    asked = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)]
    return [
        f"{path.name}:{node.lineno} {ast.unparse(node)}"
        for node in asked
        if node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in own | MADE_OF_TUPLES
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "os"))
    ]


def _named(node: ast.FunctionDef | ast.Name) -> list[str]:
    return [node.name if isinstance(node, ast.FunctionDef) else node.id]


@pytest.mark.parametrize("wing", ["experiments", "paper", "cli", "data", "plotting"])
def test_nobody_reaches_into_the_objects_of_another_wing(wing: str):
    found = [line for path in sorted((PACKAGE / wing).glob("*.py")) for line in reach_ins(path)]
    assert not found


def test_a_reach_in_is_found(tmp_path: Path):
    path = tmp_path / "a.py"
    path.write_text(
        "class A:\n    def _own(self): return self._x\n\ndef f(a, p): return a._own() + p._rule, p._replace()\n"
    )
    assert reach_ins(path) == ["a.py:4 p._rule"]
