"""The report of the benchmarks: what a round costs in each of the ways to have one, beside what others take for it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import measures
import numpy as np
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[1]

Row = tuple[str, str, str, str, str]
"""What, ours, the yardstick, their ratio, the limit of that ratio or of the figure itself."""

HEAD: Row = ("What", "A round of ours", "Beside", "Ratio", "Limit")


def per_round(seconds: float) -> str:
    """Seconds in a unit that leaves few digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def rows_of(found: Iterable[measures.Measure], turns: int) -> list[Row]:
    """Take measures."""
    rows = []
    for measure in found:
        taken = measures.take(measure, turns)
        limit = "" if measure.limit is None else f"{measure.limit:.3g}"
        beside = f"{measure.yardstick}: {per_round(taken.theirs)}"
        rows.append((measure.what, per_round(taken.ours), beside, f"{taken.ratio:.3g}", limit))
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    return rows


def in_new_process(code: str, **environment: str) -> list[float]:
    """The numbers that a program prints last."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, **environment}
    )
    return [float(number) for number in done.stdout.splitlines()[-1].split()]


def processes(repeats: int) -> list[tuple[str, str, str]]:
    """What a process takes: import, first uses, memory and threads; figures and their limits."""
    from test_speed import FIRST_SELECT, SIMULATION, SIX_LINES

    timed = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"
    numba, ours = (
        min(in_new_process(timed.format(names))[0] for _ in range(5))
        for names in ("numba", "fastcolst; fastcolst.CoLSTIM")
    )
    rows = [("import fastcolst over import numba", f"{ours / numba:.2f} ({ours:.2f} s)", "1.3")]
    in_new_process(FIRST_SELECT)
    warm = min(in_new_process(FIRST_SELECT + "print(time.process_time())")[0] for _ in range(5))
    rows.append(("process start to the end of the first choice, warm cache, SGD", f"{warm:.2f} s", ""))

    def cold(program: str) -> Any:
        found = []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as folder:
                found.append(in_new_process(program, NUMBA_CACHE_DIR=folder))
        return np.min(found, axis=0)

    first = {name: cold(SIX_LINES.replace("sys.argv[1]", repr(name))) for name in ("mle", "sgd")}
    rows += [
        ("first use of the exact estimate, nothing in the cache", f"{first['mle'][0]:.1f} s", "7.5"),
        ("first use of SGD", f"{first['sgd'][0]:.1f} s", "4"),
        ("first simulation with the exact estimate", f"{cold(SIMULATION)[0]:.1f} s", "9"),
        ("a further combination", f"{first['mle'][1]:.1f} s", "4"),
    ]
    long = (
        "import re, time, fastcolst as fc\n"
        "fc.simulate({'CoLSTIM': fc.CoLSTIM(10, estimator='sgd')}, fc.Scenario.hard(), 1000, rng=1)\n"
        "t = time.process_time()\n"
        "fc.simulate({'CoLSTIM': fc.CoLSTIM(10, estimator='sgd')}, fc.Scenario.hard(), 10**7, rng=1)\n"
        "seconds = time.process_time() - t\n"
        "print(seconds, int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) / 1024)"
    )
    seconds, megabytes = in_new_process(long)
    rows += [
        ("10,000,000 simulated rounds, SGD", f"{seconds:.1f} s", "25"),
        ("memory of that process at most", f"{megabytes:.0f} MB", "250"),
    ]
    if len(os.sched_getaffinity(0)) > 1:
        rows.append(
            ("8 runs on 2 threads beside 1 thread, times as fast", f"{gain_of_threads(repeats + 2):.2f}", "1.85")
        )
    for row in rows:
        print("  ".join(row), file=sys.stderr, flush=True)
    return rows


def gain_of_threads(repeats: int) -> float:
    """Elapsed time of eight runs on one thread over that on two, each the least of several."""
    import fastcolst as fc

    policies, problem = {"CoLSTIM": fc.CoLSTIM(measures.D, estimator="sgd")}, fc.Scenario.hard()
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(repeats):
        for threads, elapsed in seconds.items():
            start = time.perf_counter()
            fc.simulate(policies, problem, 20_000, runs=8, rng=1, threads=threads)
            elapsed.append(time.perf_counter() - start)
    return min(seconds[1]) / min(seconds[2])


TARGETS = {
    "this processor": {},
    "any with AVX2": {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+bmi,+bmi2,+sse4.2,+popcnt,+lzcnt",
    },
    "any x86-64": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
}
"""What kernels may be compiled for, by the settings of Numba."""

SIMULATED = """
import sys, time, fastcolst as fc
estimator, n_features, rounds = {estimator!r}, {n_features}, {rounds}
policy, scenario = {{"CoLSTIM": fc.CoLSTIM(n_features, estimator=estimator)}}, fc.Scenario.hard(n_features=n_features)
seconds = []
for repeat in range(8):
    start = time.process_time()
    fc.simulate(policy, scenario, rounds, rng=1, threads=1)
    seconds.append((time.process_time() - start) / rounds)
print(min(seconds))
"""


def targets(repeats: int) -> list[tuple[str, ...]]:
    """Seconds of a simulated round, n = 50, compiled for this processor and for simpler ones."""
    rows = []
    for estimator, n_features, rounds in (
        ("sgd", 10, 20_000),
        ("mle", 10, 20_000),
        ("sgd", 50, 5_000),
        ("mle", 50, 5_000),
    ):
        program = SIMULATED.format(estimator=estimator, n_features=n_features, rounds=rounds)
        least = dict.fromkeys(TARGETS, np.inf)
        for _ in range(repeats):
            for target, settings in TARGETS.items():
                least[target] = min(least[target], *in_new_process(program, **settings))
        own, *others = least.values()
        slower = (f"{per_round(other)}, {other / own:.2f} times" for other in others)
        rows.append((f"{estimator}, d = {n_features}", per_round(own), *slower))
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    return rows


def growth(turns: int) -> dict[str, dict[str, dict[int, float]]]:
    """Microseconds of a simulated round against n, d and T, by estimator."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for name, estimator, value, measure in measures.scaling():
        found.setdefault(name, {}).setdefault(estimator, {})[value] = 1e6 * measures.take(measure, turns).ours
        print(name, value, estimator, f"{found[name][estimator][value]:.2f} us", file=sys.stderr, flush=True)
    return found


def draw(found: dict[str, dict[str, dict[int, float]]], path: Path) -> None:
    """One panel for each of n, d and T."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.2), layout="constrained")
    words = {"n": "arms n (d = 10)", "d": "features d (n = 50)", "T": "rounds T (n = 50, d = 10)"}
    for axes, (name, lines) in zip(figure.subplots(1, len(found), sharey=True), found.items(), strict=True):
        for estimator, points in lines.items():
            axes.loglog(list(points), list(points.values()), "o-", label=estimator)
        axes.set_xlabel(words[name])
        axes.grid(alpha=0.3, which="both")
    figure.axes[0].set_ylabel("microseconds of a simulated round")
    figure.axes[0].legend(frameon=False)
    figure.savefig(path, dpi=150)


def machine() -> str:
    """What it ran on."""
    git = shutil.which("git")
    commit = git and subprocess.run(
        [git, "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    packages = ("fastcolst", "numba", "numpy", "scipy")
    return (
        f"{_processor()}, {os.cpu_count()} processors, Python {platform.python_version()}, "
        f"{', '.join(f'{name} {version(name)}' for name in packages)}, "
        f"commit {(commit and commit.stdout.strip()) or 'unknown'}, "
        f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, load {os.getloadavg()[0]:.1f}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


SECTIONS: dict[str, tuple[str, Callable[[], Iterable[measures.Measure]]]] = {
    "rounds": ("A round", measures.rounds),
    "prices": ("The exact estimate beside SGD", measures.prices),
    "many": ("Many features", measures.many_features),
    "bound": ("Many arms that stay", measures.bound_arms),
    "refits": ("Beside fitting anew", measures.refits),
}

MORE_TURNS = {"many": 9, "bound": 12}
"""Turns of these sections for one of any other: many features take 64 rounds a turn and 5,000 are promised, bound arms
take one."""

PARTS = [*SECTIONS, "growth", "processes", "targets"]


def main(arguments: Sequence[str]) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("command", choices=["report"])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("bench-report"), help="where to write")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="these parts alone")
    parser.add_argument("--turns", type=int, default=9, help="how often each figure is taken")
    options = parser.parse_args(arguments)
    wanted = options.only or PARTS
    options.folder.mkdir(parents=True, exist_ok=True)
    text, kept = ["# What a round costs", machine(), measures.__doc__ or ""], {}
    with threadpool_limits(1):
        for name, (title, found) in SECTIONS.items():
            if name in wanted:
                kept[name] = rows_of(found(), options.turns * MORE_TURNS.get(name, 1))
                text += [f"## {title}", table(HEAD, kept[name])]
        if "growth" in wanted:
            grown = growth(max(options.turns // 3, 1))
            kept["growth"] = grown
            draw(grown, options.folder / "growth.png")
            rows = [
                (f"{name} = {value:,}", *(f"{lines[e][value]:.2f}" for e in lines))
                for name, lines in grown.items()
                for value in next(iter(lines.values()))
            ]
            text += ["## Growth", "![Rounds against n, d and T](growth.png)", table(("us a round", "sgd", "mle"), rows)]
    if "processes" in wanted:
        kept["processes"] = processes(max(options.turns // 4, 1))
        text += ["## Processes", table(("What", "Figure", "Limit"), kept["processes"])]
    if "targets" in wanted:
        kept["targets"] = targets(max(options.turns // 3, 1))
        text += ["## Simpler processors", table(("A simulated round, n = 50", *TARGETS), kept["targets"])]
    (options.folder / "report.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")
    (options.folder / "report.json").write_text(json.dumps({"machine": text[1], **kept}, indent=1) + "\n", "utf-8")
    print(f"{options.folder / 'report.md'}")
    return 0
