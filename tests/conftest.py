"""What every test file may use: whether kernels are compiled, rounds scaled to that, a table, the real data."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # idle threads spin, and slow the other test process down

import hypothesis
import numba
import numpy as np
import pytest
from sandbox import Sandbox, Tiny

JIT = not numba.config.DISABLE_JIT
"""False where kernels run as plain Python, some hundred times slower."""

# Compilation happens in an example's first call, hence no deadlines.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("nojit", deadline=None, derandomize=True, max_examples=10)
_PROFILE = "nojit" if not JIT else "ci" if os.environ.get("CI") else "default"
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or _PROFILE)


def rounds(jit: int, nojit: int) -> int:
    """How many rounds to play: `jit` with compiled kernels, `nojit` with interpreted ones."""
    return jit if JIT else nojit


def everyday(in_cover: bool) -> Any:
    """Marks of a case that is compiled every day if it is in a test's cover, and interpreted if not.

    The others, whose compilation takes seconds each, are compiled with the slow tests.
    """
    return pytest.mark.either_lane if in_cover else pytest.mark.slow if JIT else ()


FITTED = ("baseball", "citations", "flatlizards", "train_choice")
"""Folders of the real data with published fits, reference_fit.json by R and reference_mp.json with forty digits."""


def comparison_counts(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contrasts (m, d), wins (m,) and trials (m,) of one of those folders."""
    rows = np.genfromtxt(folder / "difference_vectors.csv", delimiter=",", skip_header=1)
    return rows[:, 2:], rows[:, 0], rows[:, 1]


TABLE = """a_speed,b_price,outcome,a_price,b_speed,city,year
1.0,2.0,1,3.0,0.5,Oslo,1990
2.0,1.0,0,1.0,1.5,Rome,1991
0.1,0.2,0.5,0.3,0.4,Rome,1992
4.0,1.0,1,,2.0,Oslo,1993
5.0,1.0,,2.0,2.0,,1994
6.0,1.0,7,2.0,2.0,Rome,1995
7.0,1.0,abandoned,2.0,2.0,Rome,1996
8.0,3.0,1,2.0,1.0,Rome,1997
"""
"""A log of things with a speed and a price: rows with draws, gaps and outcomes that mean nothing among them."""
CONTRASTS = [[0.5, 1.0], [0.5, 0.0], [7.0, -1.0]]
"""Speed and price, in file order, of its rows that are decisive and complete."""
STATED = {"coding": "unit", "drop_unknown": True}
"""What has to be said of its outcomes: what they mean, and that the two that mean nothing may be left out."""


def pytest_configure(config: pytest.Config) -> None:
    if not JIT:
        # Kernels let numbers overflow and look at the outcome; as plain Python on NumPy scalars they also warn.
        config.addinivalue_line("filterwarnings", "ignore:.* encountered in :RuntimeWarning:fastcolst")
        np.seterr(over="ignore")  # where a test has filters of its own


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.option.markexpr:
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
    if JIT:
        return
    for item in items:
        for name in ("jit", "long"):
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=f"marked {name!r}, and NUMBA_DISABLE_JIT=1"))


@pytest.fixture
def full(request: pytest.FixtureRequest) -> bool:
    """Whether slow tests were asked for; what a test does less of in its everyday version is then done in full."""
    return "slow" in request.config.option.markexpr.replace("not slow", "")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and published fits: $FASTCOLST_SHARED, or `shared` beside the repository."""
    named = os.environ.get("FASTCOLST_SHARED")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"real data is not here: no folder {folder.name!r} beside the repository")
    return folder


@pytest.fixture
def write_log(tmp_path: Path) -> Callable[..., Path]:
    """Write a table as CSV text, in any of the formats for tables."""

    def write_log(text: str, extension: str = ".csv") -> Path:
        path = tmp_path / f"log{extension}"
        if extension == ".parquet":
            pandas = pytest.importorskip("pandas")
            pytest.importorskip("pyarrow")
            csv = tmp_path / "as_text.csv"
            csv.write_text(text)
            pandas.read_csv(csv).to_parquet(path)
        elif extension.endswith(".gz"):
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)
        return path

    return write_log


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


@pytest.fixture
def tiny(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tiny]:
    monkeypatch.syspath_prepend(sandbox.modules)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(sandbox.cache))
    monkeypatch.delenv("FASTCOLST_PLAIN_NUMBA", raising=False)
    package = Tiny(sandbox)
    yield package
    package.forget()
