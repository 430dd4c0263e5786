"""The benchmarks' own report: what was measured against its limit, as a Markdown table with machine and versions."""

from __future__ import annotations

import os
import platform

import numba
import numpy as np
import pytest

ROWS: list[tuple[str, str, str]] = []


@pytest.fixture
def report():
    """Note a figure and its limit for the table at the end, then hold the figure to it."""

    def note(what, figure, limit, unit="", *, at_least=False):
        ROWS.append(
            (
                what,
                f"{figure:.3g} {unit}".strip(),
                f"{'at least' if at_least else 'at most'} {limit:g} {unit}".strip(),
            )
        )
        assert figure >= limit if at_least else figure <= limit, f"{what}: {figure:.3g} {unit}, limit {limit:g}"

    return note


def pytest_terminal_summary(terminalreporter):
    if not ROWS:
        return
    write = terminalreporter.write_line
    write("")
    write("| What | Measured | Limit |")
    write("|---|---|---|")
    for row in ROWS:
        write("| " + " | ".join(row) + " |")
    write("")
    write(
        f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, "
        f"Numba {numba.__version__}, NumPy {np.__version__}; best of several"
    )
