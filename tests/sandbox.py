"""Processes that must begin with nothing in memory, and packages that are imported anew.

They run in a sandbox: a copy of the package (or ``tiny``, a package of a few lines on the same ``_compile``) and a
cache folder of its own.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import fastcolst

PACKAGE = Path(fastcolst.__file__).parent

# Two seeds for which a set of two flags prints in a different order: what is kept must not depend on it.
HASH_SEEDS = ("1", "4")

CHILD = """
import importlib, json, sys, warnings
package, code = sys.argv[1:]
names = {}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    _compile = importlib.import_module(package + "._compile")
    exec(code, names)
print(json.dumps({
    "answer": names.get("answer"),
    "hits": {k.__name__: sum(k.stats.cache_hits.values()) for k in _compile.KERNELS},
    "misses": {k.__name__: sum(k.stats.cache_misses.values()) for k in _compile.KERNELS},
    "warnings": [str(one.message) for one in caught],
    "info": _compile.cache_info(),
}))
"""

TINY = {
    "__init__.py": "",
    "helpers.py": """
from tiny._compile import helper

@helper
def offset():
    return 1.0
""",
    "kernels.py": """
from typing import NamedTuple

from tiny._compile import generic, kernel, register
from tiny.helpers import offset

@generic
def height(self, x):
    return x

@register
class Hill(NamedTuple):
    scale: float = 1.0

    def height(self, x):
        return self.scale * x

@kernel
def climb(hill, x):
    return height(hill, x) + offset()

@kernel
def entry(values, index):
    return values[index]
""",
}

CLIMB = "from tiny.kernels import Hill, climb; answer = climb(Hill(2.0), 3.0)"


class Sandbox:
    """A folder of modules, a cache folder, and processes that use both."""

    def __init__(self, folder: Path) -> None:
        self.modules = folder / "modules"
        self.cache = folder / "cache"
        self.modules.mkdir()

    def install(self) -> Sandbox:
        """Copy the package."""
        shutil.copytree(PACKAGE, self.modules / "fastcolst", ignore=shutil.ignore_patterns("__pycache__"))
        return self

    def install_tiny(self) -> Sandbox:
        """Write the package of a few lines."""
        folder = self.modules / "tiny"
        folder.mkdir()
        shutil.copytree(PACKAGE / "_compile", folder / "_compile", ignore=shutil.ignore_patterns("__pycache__"))
        for path in (folder / "_compile").iterdir():
            path.write_text(path.read_text().replace("fastcolst._compile", "tiny._compile"))
        for name, text in TINY.items():
            (folder / name).write_text(text)
        return self

    def edit(self, module: str, old: str, new: str) -> None:
        """Change a source such that neither its size nor its time tells."""
        path = self.modules / module
        text, before = path.read_text(), path.stat()
        assert text.count(old) == 1
        assert len(old) == len(new)
        path.write_text(text.replace(old, new))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (path.stat().st_mtime_ns, path.stat().st_size) == (before.st_mtime_ns, before.st_size)

    def start(self, package: str, code: str, *, hash_seed: str = HASH_SEEDS[0], **environment: str | None) -> Any:
        """Start a process that runs the code; an environment variable of None is unset."""
        others = ("NUMBA_", "PYTHON", "COV_", "FASTCOLST_PLAIN_")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(others)}
        settings: dict[str, str | None] = {
            "PYTHONPATH": str(self.modules),
            "PYTHONDONTWRITEBYTECODE": "1",  # bytecode goes by size and time, which edits here leave alone
            "PYTHONHASHSEED": hash_seed,
            "NUMBA_CACHE_DIR": str(self.cache),
            **environment,
        }
        return subprocess.Popen(
            [sys.executable, "-c", CHILD, package, code],
            env=inherited | {name: value for name, value in settings.items() if value is not None},
            cwd=self.modules.parent,  # a folder that is searched before all others
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, package: str, code: str, **settings: Any) -> dict[str, Any]:
        """Run the code in a process: its ``answer``, cache hits and misses by kernel, and every warning."""
        return report(self.start(package, code, **settings))

    def files(self) -> dict[str, bytes]:
        """The content of the cache folder."""
        return {path.name: path.read_bytes() for path in self.cache.rglob("*") if path.is_file()}


def report(process: subprocess.Popen[str], message: str = "") -> dict[str, Any]:
    out, err = process.communicate(message, timeout=300)
    assert process.returncode == 0, err
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result


class Tiny:
    """The package ``tiny`` in this process. Each ``load`` imports it anew, as a new process would."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox.install_tiny()

    def forget(self) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "tiny"]:
            del sys.modules[name]
        importlib.invalidate_caches()

    def load(self) -> ModuleType:
        self.forget()
        return importlib.import_module("tiny.kernels")

    def climb(self) -> tuple[float, bool]:
        """What ``climb`` gives in a new import, and whether it had to be compiled."""
        module = self.load()
        value = module.climb(module.Hill(2.0), 3.0)
        return value, bool(module.climb.stats.cache_misses)

    def entries(self) -> list[Path]:
        return sorted(self.sandbox.cache.rglob("*.nbc"))


class Planted:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.folder,)
