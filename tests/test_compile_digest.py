"""The digest of a user's class: what it counts and what it does not."""

from __future__ import annotations

import copy
import importlib
import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import fastcolst as fc
from fastcolst._compile import code_digest

RULES = '''"""Rules."""
import enum
import functools
import math
from typing import NamedTuple

import numba
import numpy as np

import fastcolst as fc
import shop_helpers
import shop_helpers as alias
from shop_helpers import direct


class Stage(enum.Enum):
    FIRST = 1
    SECOND = 2


GAIN = 2.0
TABLE = np.array([1.0, 2.0, 3.0])
NAMES = ("one", "two")
CHOICES = {"left", "right", "middle"}
DEPTHS = {"shallow": [1, 2], "deep": (3,)}
UNUSED = 5.0


class Other(NamedTuple):
    weight: float = 1.0

    def weighed(self, x):
        return self.weight * x + 100.0


OTHER = Other(0.75)


def made(factor):
    def inner(x):
        return factor * x

    return inner


tripled = made(3.0)


@functools.cache
def remembered(x):
    return x + 11.0


@numba.njit(fastmath={"nsz"})
def compiled(x, step=0.5):
    return x + step


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


@fc.register
class Rule(NamedTuple):
    """A rule."""

    scale: float = 1.0
    tau = 17

    def cdf(self, u):
        """F(u)."""
        return self.scale * u + GAIN + TABLE[0] + math.pi + np.exp(u) + compiled(u)  # a comment

    def pdf(self, u):
        return shop_helpers.twice(u) + alias.LIMIT + direct(u) + tripled(u)

    def raw(self, rng):
        values = [shop_helpers.deeper.bottom(v) for v in (1.0, 2.0)]
        return len(NAMES) + len(CHOICES) + Stage.FIRST.value + DEPTHS["deep"][0] + values[0]

    @staticmethod
    def memory(n):
        return Other.weighed(OTHER, n) + remembered(n) + even(n)

    @property
    def wide(self):
        return 7.0
'''
HELPERS = """
import numba
import shop_deeper as deeper

LIMIT = 3.0
FACTOR = 2.0

def twice(x):
    return FACTOR * x

@numba.njit
def direct(x):
    return x - 1.0
"""
DEEPER = """
def bottom(x):
    return x + BASE

BASE = 4.0
"""


class Shop:
    """Modules of a user in a folder of their own, imported anew for each digest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name, text in {"shop_rules": RULES, "shop_helpers": HELPERS, "shop_deeper": DEEPER}.items():
            (folder / f"{name}.py").write_text(text)

    def edit(self, module: str, old: str, new: str) -> None:
        path = self.folder / f"{module}.py"
        assert path.read_text().count(old) == 1
        path.write_text(path.read_text().replace(old, new))

    def load(self, module: str = "shop_rules") -> Any:
        for name in [name for name in sys.modules if name.startswith("shop_")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        return importlib.import_module(module)

    def digest(self) -> str | None:
        return code_digest(self.load().Rule)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    shop = Shop(tmp_path / "shop")
    monkeypatch.syspath_prepend(shop.folder)
    yield shop
    for name in [name for name in sys.modules if name.startswith("shop_")]:
        del sys.modules[name]


CHANGES = [
    ("shop_rules", "self.scale * u", "self.scale - u"),
    ("shop_rules", "return 7.0", "return 8.0"),
    ("shop_rules", "    @property\n    def wide", "    def wide"),
    ("shop_rules", "tau = 17", "tau = 18"),
    ("shop_rules", "scale: float = 1.0", "scale: float = 2.0"),
    ("shop_rules", "GAIN = 2.0", "GAIN = 2"),
    ("shop_rules", "math.pi", "math.e"),
    ("shop_rules", "np.exp", "np.log"),
    ("shop_rules", "np.array([1.0, 2.0, 3.0])", "np.array([1.0, 2.0, 3.5])"),
    ("shop_rules", "np.array([1.0, 2.0, 3.0])", "np.array([1, 2, 3])"),
    ("shop_rules", '"one", "two"', '"one", "too"'),
    ("shop_rules", '"left", "right"', '"left"'),
    ("shop_rules", '"deep": (3,)', '"deep": (4,)'),
    ("shop_rules", "FIRST = 1", "FIRST = 3"),
    ("shop_rules", "x + 100.0", "x + 101.0"),
    ("shop_rules", "Other(0.75)", "Other(0.5)"),
    ("shop_rules", "made(3.0)", "made(4.0)"),
    ("shop_rules", "return factor * x", "return factor + x"),
    ("shop_rules", "x + 11.0", "x + 12.0"),
    ("shop_rules", "step=0.5", "step=0.25"),
    ("shop_rules", '{"nsz"}', '{"nsz", "contract"}'),
    ("shop_rules", "n != 0 and", "n != 1 and"),
    ("shop_helpers", "FACTOR = 2.0", "FACTOR = 2.5"),
    ("shop_helpers", "LIMIT = 3.0", "LIMIT = 3.5"),
    ("shop_helpers", "x - 1.0", "x - 2.0"),
    ("shop_deeper", "BASE = 4.0", "BASE = 4.5"),
    ("shop_deeper", "x + BASE", "x - BASE"),
]


@pytest.mark.parametrize(("module", "old", "new"), CHANGES, ids=[change[2].splitlines()[0] for change in CHANGES])
def test_every_change_of_what_a_class_reaches_changes_its_digest(shop, module, old, new):
    if "nsz" in old and not hasattr(shop.load().compiled, "targetoptions"):
        pytest.skip("flags of what is not compiled")
    before = shop.digest()
    assert isinstance(before, str) and len(before) == 64
    shop.edit(module, old, new)
    assert shop.digest() not in {None, before}
    shop.edit(module, new, old)
    assert shop.digest() == before


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("shop_rules", "  # a comment", "  # another\n        # longer one"),
        ("shop_rules", '"""F(u)."""', '"""The probability F(u)."""'),
        ("shop_rules", '"""A rule."""', '"""A better rule."""'),
        ("shop_rules", '"""Rules."""', "\n\n\n"),
        ("shop_rules", "UNUSED = 5.0", "UNUSED = 6.0"),
        ("shop_rules", "self.scale * u + GAIN", "(\n            self.scale * u + GAIN)"),
        ("shop_helpers", "\nLIMIT", "\n# about the limit\nLIMIT"),
    ],
)
def test_what_no_machine_code_depends_on_does_not_count(shop, module, old, new):
    before = shop.digest()
    shop.edit(module, old, new)
    assert shop.digest() == before is not None


@pytest.mark.either_lane
def test_neither_the_process_nor_the_folder_counts(shop, tmp_path):
    code = "import shop_rules; from fastcolst._compile import code_digest; print(code_digest(shop_rules.Rule))"
    elsewhere = Shop(tmp_path / "elsewhere").folder
    seen = {shop.digest()}
    for folder, seed in itertools.product((shop.folder, elsewhere), ("1", "4")):
        for _ in range(2):  # from the source, and then from the bytecode that was kept
            path = os.pathsep.join([str(folder), str(Path(fc.__file__).parents[1])])
            done = subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": ""},
                capture_output=True,
                text=True,
                check=True,
            )
            seen.add(done.stdout.strip())
    assert len(seen) == 1 and None not in seen
    assert list(elsewhere.glob("__pycache__/shop_rules*.pyc"))


def test_copying_and_pickling_objects_change_no_digest(shop):
    """Python then notes in the class which slots its objects have."""

    def made():
        return shop.load().Other(0.75)

    before = code_digest(type(made()))
    for use in (copy.copy, copy.deepcopy, lambda thing: pickle.dumps(thing, protocol=2)):
        use(made())
        assert code_digest(type(made())) == before is not None
    (shop.folder / "shop_plain.py").write_text("class Plain:\n    def select(self, contexts):\n        return 0, 1\n")
    plain = shop.load("shop_plain").Plain
    before = code_digest(plain)
    copy.deepcopy(plain())
    assert "__slotnames__" in vars(plain) and code_digest(plain) == before is not None


def test_classes_of_one_name_and_code_differ_by_their_module(shop):
    (shop.folder / "shop_twin.py").write_text(RULES)
    assert code_digest(shop.load("shop_twin").Rule) not in {None, shop.digest()}


class Mine(NamedTuple):
    scale: float = 1.0


def _local() -> type:
    class Local(NamedTuple):
        scale: float = 1.0

    return Local


def _of_main(name: str) -> Callable[[], type]:
    def make() -> type:
        made = NamedTuple("made", [("scale", float)])  # noqa: UP014 (the class form leaves no choice of the module)
        made.__module__ = name
        return made

    return make


@pytest.mark.parametrize(
    "make",
    [lambda: fc.BradleyTerry, lambda: fc.MLE, _local, *map(_of_main, ("__main__", "__mp_main__", "nowhere", "os"))],
    ids=["ours", "ours too", "local", "__main__", "__mp_main__", "nowhere", "not in its module"],
)
def test_what_another_process_would_not_find_has_no_digest(make):
    assert code_digest(Mine) is not None
    assert code_digest(make()) is None


def test_a_class_that_was_replaced_has_no_digest(shop):
    old = shop.load().Rule
    assert code_digest(old) is not None
    shop.load()
    assert code_digest(old) is None


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("shop_rules", "GAIN = 2.0", "class Two:\n    def __radd__(self, x):\n        return x + 2.0\n\nGAIN = Two()"),
        ("shop_rules", "TABLE = np.array([1.0, 2.0, 3.0])", "TABLE = np.array([GAIN, None])"),
        ("shop_rules", "GAIN = 2.0", "GAIN = [2.0]\nGAIN.append(GAIN)"),
        ("shop_rules", "GAIN = 2.0", "GAIN = {(1, 2)}"),
        ("shop_helpers", "LIMIT = 3.0", "from numba.extending import overload\n\nLIMIT = 3.0"),
        (
            "shop_helpers",
            "LIMIT = 3.0",
            "import numba as nb\n\n@nb.extending.register_jitable\ndef f():\n    pass\n\nLIMIT = 3.0",
        ),
        ("shop_deeper", "BASE = 4.0", "def f():\n    from numba.core import types\n\nBASE = 4.0"),
    ],
    ids=["object", "array of objects", "endless list", "set of tuples", "overload", "attribute", "core"],
)
def test_what_cannot_be_read_leaves_no_digest(shop, module, old, new):
    assert shop.digest() is not None
    shop.edit(module, old, new)
    assert shop.digest() is None


def test_a_users_module_that_is_called_as_one_of_pythons_is_the_users(shop, monkeypatch):
    """Nobody imports Python's own ``this`` by accident: it prints a poem."""
    (shop.folder / "this.py").write_text("BASE = 4.0\n\ndef rise(x):\n    return x + BASE\n")
    shop.edit("shop_deeper", "BASE = 4.0", "from this import rise\nBASE = 4.0")
    shop.edit("shop_deeper", "x + BASE", "rise(x)")
    monkeypatch.delitem(sys.modules, "this", raising=False)
    before = shop.digest()
    monkeypatch.setattr(sys.modules["this"], "BASE", 5.0)
    assert code_digest(sys.modules["shop_rules"].Rule) not in {None, before}
    monkeypatch.delitem(sys.modules, "this")
