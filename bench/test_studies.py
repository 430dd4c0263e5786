"""What studies promise: little overhead at cells of a second, a quick start with ten thousand of them."""

from __future__ import annotations

import time

import pytest

import fastcolst as fc
from fastcolst.experiments import cells as cutting
from fastcolst.experiments.cells import compute_cells
from fastcolst.experiments.store import Manifest, Store

POLICY = {"CoLSTIM": {"name": "CoLSTIM", "estimator": "sgd"}}
SCENARIO = {"hard": {"name": "hard", "n_arms": 50, "n_features": 10}}


def test_overhead_at_cells_of_a_second(benchmark, report, tmp_path, monkeypatch):
    """Against the same tasks in a plain loop, in processor seconds of the process: both on one thread."""
    monkeypatch.setattr(cutting, "_block_runs", lambda recipe, setting, runs: 1)
    study = fc.Study(POLICY, SCENARIO, horizon=200_000, runs=4, seed=1)
    fc.Study(POLICY, SCENARIO, horizon=100).run(tmp_path / "warm", progress=False)
    work = study._work
    cells = study._manifest.cells

    def plain():
        for cell in cells:
            compute_cells(work.task([cell]))

    folders = iter(range(100))

    def through_the_study():
        study.run(tmp_path / str(next(folders)), threads=1, progress=False)

    def seconds(function, clock):
        start = clock()
        function()
        return clock() - start

    processor = min(seconds(through_the_study, time.process_time) for _ in range(2))
    alone = min(seconds(plain, time.process_time) for _ in range(2))
    benchmark.pedantic(through_the_study, rounds=1)
    report("seconds of a study's cell", alone / len(cells), 3.0, "s")
    report("overhead of a study at such cells", 100.0 * (processor / alone - 1.0), 3.0, "%")


@pytest.mark.parametrize("runs", [1])
def test_ten_thousand_cells_start_at_once(benchmark, report, tmp_path, runs):
    policies = {f"CoLSTIM {i}": {"name": "CoLSTIM", "estimator": "sgd", "width_scale": 0.1 * i} for i in range(100)}
    scenarios = {f"hard {i}": {"name": "hard", "n_arms": 5 + i, "n_features": 3} for i in range(100)}
    fc.Study(POLICY, SCENARIO, horizon=100).run(tmp_path / "warm", progress=False)

    class StartedError(Exception):
        pass

    class Refusing:
        def submit(self, *_):
            raise StartedError

    def start(folder):
        begin = time.perf_counter()
        study = fc.Study(policies, scenarios, horizon=1_000, runs=runs)
        with pytest.raises(StartedError):
            study.run(folder, executor=Refusing(), progress=False)
        return time.perf_counter() - begin

    report("start of a study of 10,000 cells", start(tmp_path / "new"), 5.0, "s")
    cells = Manifest.read(tmp_path / "new").cells
    assert len(cells) == 10_000
    for cell in cells[:-1]:
        (tmp_path / "new" / "cells" / cell.name).touch()
    benchmark.pedantic(start, args=(tmp_path / "new",), rounds=1)
    report("resuming it with 9,999 cells done", benchmark.stats.stats.min, 5.0, "s")

    def scan(n):
        folder = tmp_path / f"scan{n}"
        (folder / "cells").mkdir(parents=True)
        study = fc.Study(POLICY, SCENARIO, horizon=100)
        manifest = study._manifest
        manifest = manifest._replace(study={**manifest.study, "runs": n}, block_runs=[[1]])
        for cell in manifest.cells:
            (folder / "cells" / cell.name).touch()
        store = Store(folder, manifest, resume=True)
        best = []
        for _ in range(5):
            begin = time.perf_counter()
            assert not store.missing()
            best.append(time.perf_counter() - begin)
        return min(best) / n

    report("scan of a cell: 20,000 cells over 5,000", scan(20_000) / scan(5_000), 1.5, "times")
