"""Studies: the numbers of `simulate`, the same bytes whoever computes them, and nothing lost whatever happens."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from queue import Empty, SimpleQueue

import numpy as np
import pytest
from campaign.kills import alive_in_session
from conftest import rounds

import fastcolst as fc
from fastcolst import cli, streams
from fastcolst.experiments import cells as cutting
from fastcolst.experiments import executors, progress, store
from fastcolst.experiments.cells import Cell
from fastcolst.experiments.store import Manifest, Store

pytestmark = pytest.mark.either_lane

TESTS = Path(__file__).resolve().parent
CHILD = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])}
"""The environment of a process that imports the package under test."""
POLICIES = {
    "CoLSTIM": {"name": "CoLSTIM", "estimator": "sgd", "exploration_rounds": 10},
    "Random": fc.UniformPairs(),
}
SCENARIOS = {
    "hard": {"name": "hard", "n_arms": 6, "n_features": 3},
    "easy": fc.Scenario.easy(n_arms=4, n_features=2),
}
posix = pytest.mark.skipif(os.name != "posix", reason="POSIX signals and limits")


def small(**changes):
    horizon = rounds(400, 40)
    options = {"horizon": {"hard": horizon, "easy": horizon // 2}, "runs": 5, "seed": 3, "checkpoints": 4, **changes}
    return fc.Study(options.pop("policies", POLICIES), options.pop("scenarios", SCENARIOS), **options)


@pytest.fixture
def one_run_a_cell(monkeypatch):
    monkeypatch.setattr(cutting, "CELL_SECONDS", 1e-12)


def contents(folder):
    return {path.name: path.read_bytes() for path in (folder / "cells").iterdir()}


# --- the same numbers, the same bytes -----------------------------------------------------------------------


def test_a_study_has_the_numbers_of_simulate(tmp_path, one_run_a_cell):
    study = small()
    result = study.run(tmp_path, threads=2, progress=False)
    assert len(contents(tmp_path)) == 20 and result.missing == 0
    problems = {"hard": fc.Scenario.hard(n_arms=6, n_features=3), "easy": SCENARIOS["easy"]}
    table = result.to_pandas()
    for label, problem in problems.items():
        policies = {
            "CoLSTIM": fc.CoLSTIM(problem.n_features, estimator="sgd", exploration_rounds=10),
            "Random": fc.UniformPairs(),
        }
        wanted = fc.simulate(policies, problem, study.horizon[label], runs=5, rng=3, checkpoints=4)
        found = result.result(label)
        assert found.rounds.tolist() == wanted.rounds.tolist()
        for policy in policies:
            rows = table[(table.scenario == label) & (table.policy == policy)]
            for name in ("average_regret", "weak_regret", "self_duels"):
                array = getattr(wanted, name)[policy]
                assert getattr(found, name)[policy].tobytes() == array.tobytes()
                assert rows[name].to_numpy().tobytes() == array.ravel().tobytes()


def test_bytes_are_those_of_one_thread_for_threads_and_processes(tmp_path, one_run_a_cell):
    study = small()
    study.run(tmp_path / "one", threads=1, progress=False)
    study.run(tmp_path / "two", threads=2, progress=False)
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        study.run(tmp_path / "processes", executor=executor, progress=False)
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == contents(tmp_path / "processes")


@pytest.mark.parametrize(("threads", "seconds", "starts"), [
    (1, 99.0, 5),  # one for each run
    (2, 99.0, 5),
    (3, 99.0, 10),  # 15 cells in 6 tasks or more
    (6, 99.0, 15),
    (1, 2.0, 10),  # of policies that take a second each
    (1, 0.5, 15),
])  # fmt: skip
def test_rounds_are_drawn_once_for_the_policies_that_play_them_together(
    tmp_path, monkeypatch, one_run_a_cell, threads, seconds, starts
):
    policies, problem = {**POLICIES, "SS": fc.SelfSparring()}, fc.Scenario.hard(n_arms=6, n_features=3)
    monkeypatch.setattr(cutting, "_round_seconds", lambda recipe, problem: 1.0 / 20)
    monkeypatch.setattr(cutting, "TOGETHER_SECONDS", seconds)
    started, start = [], fc.Scenario.start
    monkeypatch.setattr(fc.Scenario, "start", lambda self, *run: started.append(run) or start(self, *run))
    study = small(policies=policies, scenarios={"hard": problem}, horizon=20)
    found = study.run(tmp_path, threads=threads, progress=False).result("hard")
    assert len(started) == starts
    for label, table in policies.items():
        policy = fc.CoLSTIM(3, estimator="sgd", exploration_rounds=10) if isinstance(table, dict) else table
        alone = fc.simulate({label: policy}, problem, horizon=20, runs=5, rng=3, checkpoints=4)
        assert found.average_regret[label].tobytes() == alone.average_regret[label].tobytes()


def test_every_cell_of_a_task_is_kept_when_an_interrupt_comes_while_they_are(tmp_path, monkeypatch, one_run_a_cell):
    added, add = [], Store.add

    def interrupted(self, cell, outcome):
        added.append(cell)
        if len(added) == 2:
            raise KeyboardInterrupt
        add(self, cell, outcome)

    monkeypatch.setattr(Store, "add", interrupted)
    study = small(policies={**POLICIES, "SS": fc.SelfSparring()}, runs=4)
    with pytest.raises(KeyboardInterrupt, match=r"cells are done and stay"):
        study.run(tmp_path, threads=1, progress=False)
    kept = contents(tmp_path)
    assert {"00000-00000-00000.parquet", "00000-00001-00000.parquet", "00000-00002-00000.parquet"} <= kept.keys()
    assert len(fc.load_study(tmp_path).seconds().policy.unique()) == 3
    monkeypatch.setattr(Store, "add", add)
    study.run(tmp_path, threads=1, progress=False)
    lines = (tmp_path / "timings.jsonl").read_text().splitlines()
    assert len({json.loads(line)["cell"] for line in lines}) == len(lines) == len(contents(tmp_path)) == 24


def test_a_folder_keeps_its_cut_when_cells_would_be_cut_otherwise_today(tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "CELL_SECONDS", 1e-12)
    study = small()
    study.run(tmp_path, progress=False)
    before = contents(tmp_path)
    assert len(before) == 20
    for name in sorted(before)[::3]:
        (tmp_path / "cells" / name).unlink()
    monkeypatch.setattr(cutting, "CELL_SECONDS", 1.0)
    assert study._manifest.block_runs == [[5, 5], [5, 5]]
    assert study.run(tmp_path, progress=False).missing == 0
    assert contents(tmp_path) == before


def test_who_is_much_faster_than_the_slowest_keeps_cells_of_its_own_size(monkeypatch):
    costs = {"MaxInP": 1.0, "CoLSTIM": 0.2, "UniformPairs": 0.1}
    monkeypatch.setattr(cutting, "_round_seconds", lambda recipe, problem: costs[recipe.cls.__name__] / 100)
    slow, middle = {"name": "MaxInP"}, POLICIES["CoLSTIM"]
    policies = {"fast": fc.UniformPairs(), "slow": slow, "also fast": fc.UniformPairs(), "middle": middle}
    study = fc.Study(policies, {"hard": SCENARIOS["hard"]}, horizon=100, runs=20)
    assert study._manifest.block_runs == [[10, 1, 10, 1]]
    parts = study._work.together(study._manifest.cells, 1)
    assert [[(c.policy, c.first_run, c.n_runs) for c in part] for part in parts[:3]] == [
        [(1, 0, 1), (3, 0, 1)], [(0, 0, 10), (2, 0, 10)], [(1, 1, 1), (3, 1, 1)],
    ]  # fmt: skip
    monkeypatch.setattr(cutting, "TOGETHER_NUMBERS", 3 * len(study._settings["hard"].rounds))
    assert max(map(len, study._work.together(study._manifest.cells, 1))) == 1


def test_no_line_of_seconds_stands_twice(tmp_path, one_run_a_cell):
    study = small()
    study.run(tmp_path, progress=False)
    before, lines = study.run(tmp_path).seconds(), (tmp_path / "timings.jsonl").read_bytes()
    (tmp_path / "timings.jsonl").write_bytes(lines + lines)
    assert study.run(tmp_path).seconds().equals(before)
    assert sorted((tmp_path / "timings.jsonl").read_bytes().splitlines()) == sorted(lines.splitlines())


def test_cells_take_a_second_or_so_and_depend_on_the_study_alone(tmp_path):
    study = fc.Study(POLICIES, SCENARIOS, horizon=100_000, runs=50)
    manifests = [study._manifest, study._manifest]
    assert manifests[0].block_runs == manifests[1].block_runs
    (hard, hard_random), (easy, easy_random) = manifests[0].block_runs
    assert 1 <= hard == hard_random < 50 and hard <= easy == easy_random <= 50
    (alone,), (_,) = fc.Study({"Random": POLICIES["Random"]}, SCENARIOS, horizon=100_000, runs=50)._manifest.block_runs
    assert alone > hard  # who is slow, CoLSTIM here, decides for those who play the same rounds
    cells = manifests[0].cells
    assert len({cell.name for cell in cells}) == len(cells)
    for s in range(2):
        for p in range(2):
            runs = [range(c.first_run, c.first_run + c.n_runs) for c in cells if (c.scenario, c.policy) == (s, p)]
            assert sorted(run for block in runs for run in block) == list(range(50))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # dask's own, of its own ends
def test_a_dask_cluster_gives_the_same_bytes_although_a_worker_is_killed(tmp_path, monkeypatch, one_run_a_cell):
    distributed = pytest.importorskip("distributed")
    study = small(horizon=60_000, scenarios={"hard": SCENARIOS["hard"]}, runs=12)
    study.run(tmp_path / "one", threads=1, progress=False)
    killed = []

    def kill_one(client):
        while len(list((tmp_path / "dask" / "cells").glob("*.parquet"))) < 3:
            time.sleep(0.01)
        killed.append(min(client.run(os.getpid).values()))
        os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setenv("PYTHONPATH", CHILD["PYTHONPATH"])
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        with pytest.raises(TypeError, match=r"client\.get_executor\(\)"):
            study.run(tmp_path / "dask", executor=client)
        killer = threading.Thread(target=kill_one, args=(client,))
        killer.start()
        study.run(tmp_path / "dask", executor=client.get_executor(), progress=False)
        killer.join()
    assert killed
    assert contents(tmp_path / "dask") == contents(tmp_path / "one")


def test_lokys_executor(tmp_path, one_run_a_cell):
    loky = pytest.importorskip("loky")
    study = small()
    executor = loky.ProcessPoolExecutor(2)
    try:
        study.run(tmp_path / "loky", executor=executor, progress=False)
    finally:
        executor.shutdown()
    study.run(tmp_path / "one", threads=1, progress=False)
    assert contents(tmp_path / "loky") == contents(tmp_path / "one")


class Hoarder:
    """An executor that computes the youngest task when it holds as many as it may, and remembers how many it held."""

    def __init__(self, workers):
        self._max_workers = workers
        self.most, self._held = 0, []

    def submit(self, function, *arguments):
        future = Future()
        self._held.append((future, function, arguments))
        self.most = max(self.most, len(self._held))
        threading.Timer(0.02, self._compute_one).start()
        return future

    def _compute_one(self):
        future, function, arguments = self._held.pop()
        future.set_result(function(*arguments))


def test_any_executor_in_any_order_and_few_tasks_at_a_time(tmp_path, one_run_a_cell):
    executor = Hoarder(workers=2)
    small().run(tmp_path / "hoarder", executor=executor, progress=False)
    small().run(tmp_path / "one", threads=1, progress=False)
    assert contents(tmp_path / "hoarder") == contents(tmp_path / "one")
    assert 2 <= executor.most <= 4


class OfTwoError(Exception):
    """One that cannot be read where it arrives: its constructor wants two arguments, and one is passed on."""

    def __init__(self, a, b):
        super().__init__("of two")


class FalseError(Exception):
    def __bool__(self):
        return False


class NoTruthValueError(Exception):
    def __bool__(self):
        raise RuntimeError("no truth value")


class NoNotesError(Exception):
    def add_note(self, note):
        raise TypeError("no notes")


class Raising:
    def __init__(self, n_arms=2, rng=None, *, kind=""):
        self.error = {"OfTwoError": lambda: OfTwoError(1, 2)}.get(kind, lambda: globals()[kind]("odd"))

    def select(self, contexts):
        raise self.error()

    def update(self, duel, first_won):
        raise AssertionError


class Wire:
    """An executor that sends its workers' errors as pools of processes do."""

    def submit(self, function, *arguments):
        future = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:  # noqa: BLE001
            try:
                arrived = pickle.loads(pickle.dumps(error))
            except Exception as lost:  # noqa: BLE001
                arrived = BrokenExecutor(lost)
            future.set_exception(arrived) if arrived else future.set_result(None)
        return future


@pytest.mark.parametrize("kind", ["OfTwoError", "FalseError", "NoTruthValueError", "NoNotesError"])
def test_odd_errors_of_workers_arrive_with_what_they_say(tmp_path, kind):
    policy = {"name": f"{__name__}:Raising", "kind": kind}
    study = fc.Study({"raising": policy}, {"easy": SCENARIOS["easy"]}, horizon=20, runs=1, seed=1)
    with pytest.raises((RuntimeError, NoNotesError), match=r"of two|odd") as caught:
        study.run(tmp_path, executor=Wire(), progress=False)
    assert not isinstance(caught.value, BrokenExecutor)
    if kind != "NoNotesError":
        assert str(caught.value).startswith(kind)
        assert "policy 'raising', run 0" in "".join(caught.value.__notes__)


@posix
def test_an_executor_that_computes_in_submit_is_interrupted_there(tmp_path, one_run_a_cell):
    class Serial:
        computed = 0

        def submit(self, function, *arguments):
            if self.computed == 1:
                signal.raise_signal(signal.SIGINT)
            future = Future()
            future.set_result(function(*arguments))
            self.computed += 1
            return future

    serial = Serial()
    with pytest.raises(KeyboardInterrupt, match="interrupted: "):
        small().run(tmp_path / "serial", executor=serial, progress=False)
    assert serial.computed == 1


@pytest.mark.parametrize("executor", [Hoarder, object(), "threads"])
def test_what_is_no_executor_is_refused(tmp_path, executor):
    with pytest.raises(TypeError, match="executor is"):
        small().run(tmp_path / "x", executor=executor)
    with pytest.raises(ValueError, match="threads is 2"):
        small().run(tmp_path / "x", executor=Hoarder(1), threads=2)
    assert not (tmp_path / "x").exists()


# --- interrupted and resumed --------------------------------------------------------------------------------


def test_resuming_computes_only_what_is_missing(tmp_path, monkeypatch, one_run_a_cell):
    study = small()
    study.run(tmp_path, progress=False)
    before = contents(tmp_path)
    lost = [name for name in sorted(before) if name.startswith("00000-") and name[12:17] in ("00001", "00003")]
    for name in lost:
        (tmp_path / "cells" / name).unlink()
    (tmp_path / "cells" / ".00000-00000-00000.parquet.0123456789abcdef.tmp").write_bytes(b"half")
    computed = []
    compute = executors.compute_cells
    monkeypatch.setattr(executors, "compute_cells", lambda task, stop: computed.append(task) or compute(task, stop))
    assert fc.load_study(tmp_path).missing == 4
    study.run(tmp_path, threads=1, progress=False)
    assert [(task.scenario, list(task.recipes), task.runs) for task in computed] == [
        ("hard", ["CoLSTIM", "Random"], range(1, 2)),
        ("hard", ["CoLSTIM", "Random"], range(3, 4)),
    ]
    assert contents(tmp_path) == before
    study.run(tmp_path, progress=False)
    assert len(computed) == 2


KILLED = """
import signal, sys, tempfile
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
sys.path.insert(0, {tests!r})
from test_studies import SCENARIOS, cutting, long_study, small
with tempfile.TemporaryDirectory() as warm:
    small(horizon=10, runs=1, scenarios={{"hard": SCENARIOS["hard"]}}).run(warm, progress=False)
cutting.CELL_SECONDS = 1e-12
print("ready", flush=True)
long_study().run({folder!r}, threads=2, progress=False)
"""


def long_study():
    return small(horizon=rounds(40_000, 60), runs=rounds(60, 8), scenarios={"hard": SCENARIOS["hard"]})


@posix
def test_kill_9_at_any_moment_loses_nothing(tmp_path, one_run_a_cell):
    """FASTCOLST_KILLS says at how many moments; each is drawn within what one computation takes."""
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    start = time.monotonic()
    long_study().run(whole, threads=2, progress=False)
    duration = time.monotonic() - start
    moments, kept = np.random.default_rng(2), {}
    kills = int(os.environ.get("FASTCOLST_KILLS", "3"))
    for _ in range(kills):
        code = KILLED.format(tests=str(TESTS), folder=str(folder))
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=CHILD)
        assert process.stdout.readline() == b"ready\n"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moments.uniform(0.0, 2.0 * duration / kills))
        process.kill()
        process.communicate()
        for path in folder.glob("cells/*.parquet"):
            kept.setdefault(path.name, path.stat())
        if (folder / "manifest.json").exists():
            assert fc.load_study(folder).missing == len(contents(whole)) - len(kept)
            assert not kept or len(fc.load_study(folder).to_pandas()) > 0  # whatever has its name is whole
    result = long_study().run(folder, progress=False)
    assert contents(folder) == contents(whole) and result.missing == 0
    for name, status in kept.items():  # never written again
        now = (folder / "cells" / name).stat()
        assert (now.st_ino, now.st_mtime_ns) == (status.st_ino, status.st_mtime_ns)
    assert result.seconds().seconds.notna().all()
    sys.stdout.write(f"{kills} kills; {len(kept)} of {len(contents(whole))} cells were done before the last resume\n")


@posix
def test_ctrl_c_keeps_what_is_done_and_says_how_much(tmp_path):
    folder = tmp_path / "study"
    code = KILLED.format(tests=str(TESTS), folder=str(folder))
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=CHILD, text=True
    )
    assert process.stdout.readline() == "ready\n"
    while process.poll() is None and len(list(folder.glob("cells/*.parquet"))) < 2:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    done = len(list(folder.glob("cells/*.parquet")))
    assert f"KeyboardInterrupt: interrupted: {done} of " in errors and "resume (--resume) to go on" in errors
    assert not list(folder.glob("cells/.*"))


BY_PROCESSES = """
import sys
sys.path.insert(0, {tests!r})
from test_studies import cutting, long_study
cutting.CELL_SECONDS = 1e-12
if {kind!r} == "processes":
    from fastcolst.cli.commands import _executor
    with _executor("processes", 2) as executor:
        long_study().run({folder!r}, executor=executor, progress=False)
elif {kind!r} == "loky":
    import loky
    long_study().run({folder!r}, executor=loky.ProcessPoolExecutor(2), progress=False)
else:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context
    with ProcessPoolExecutor(2, get_context({kind!r})) as executor:
        long_study().run({folder!r}, executor=executor, progress=False)
"""


@posix
@pytest.mark.parametrize(
    "kind",
    ["processes", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("spawn", "fork", "forkserver", "loky"))],
)
def test_workers_leave_when_their_parent_is_killed(tmp_path, kind, one_run_a_cell):
    pytest.importorskip("psutil")
    if kind == "loky":
        pytest.importorskip("loky")
    folder = tmp_path / "killed"
    code = BY_PROCESSES.format(tests=str(TESTS), folder=str(folder), kind=kind)
    process = subprocess.Popen([sys.executable, "-c", code], env=CHILD, start_new_session=True)
    while process.poll() is None and len(list(folder.glob("cells/*.parquet"))) < 2:
        time.sleep(0.01)
    assert len(alive_in_session(process.pid)) >= 3
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20.0
    while alive_in_session(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = alive_in_session(process.pid)
    for one in left:
        one.kill()
    assert not left
    long_study().run(folder, progress=False)
    long_study().run(tmp_path / "whole", progress=False)
    assert contents(folder) == contents(tmp_path / "whole")


class Deadly:
    """A problem whose run 2 kills its worker."""

    n_arms, n_features = 4, 2

    def start(self, entropy, run):
        if run == 2:
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGKILL)
        return SCENARIOS["easy"].start(entropy, run)


@posix
def test_a_dead_worker_is_told_and_the_finished_cells_stay(tmp_path, one_run_a_cell):
    study = small(scenarios={"deadly": Deadly()}, policies={"Random": fc.UniformPairs()}, horizon=50)
    told = pytest.raises(BrokenExecutor, match=r"a worker died .* 2 of 5 cells are done and stay in .*resume")
    with ProcessPoolExecutor(1, get_context("spawn")) as executor, told:
        study.run(tmp_path, executor=executor, progress=False)
    assert len(contents(tmp_path)) == 2 and fc.load_study(tmp_path).missing == 3
    assert "3 of 5 cells are missing" in fc.load_study(tmp_path).summary()


class Spoiled:
    """A problem whose run 1 shows contexts that are not finite."""

    n_arms, n_features = 4, 2

    def start(self, entropy, run):
        source = SCENARIOS["easy"].start(entropy, run)
        if run == 1:
            source.theta[:] = np.nan
            fill = source.next_chunk

            def spoil(n_rounds):
                chunk = fill(n_rounds)
                chunk.contexts[:] = np.nan
                return chunk

            source.next_chunk = spoil
        return source


def test_a_failing_cell_is_named_and_the_others_stay(tmp_path, one_run_a_cell):
    policies = {"CoLSTIM": fc.CoLSTIM(2, estimator="sgd"), "Random": fc.UniformPairs()}
    study = small(scenarios={"spoiled": Spoiled()}, policies=policies, horizon=50)
    with pytest.raises(ValueError, match="scenario 'spoiled', policy 'CoLSTIM', run 1, round 1") as caught:
        study.run(tmp_path, threads=1, progress=False)
    assert "cells are done and stay" in caught.value.__notes__[0]
    assert "00000-00000-00000.parquet" in contents(tmp_path)


@posix
@pytest.mark.long  # the scaled-down study is too small to fill the disk
def test_a_full_disk_gives_one_clear_error_and_finished_cells_stay(tmp_path, one_run_a_cell):
    """RLIMIT_FSIZE stands in for the disk: the file of timings outgrows it after some cells."""
    folder = tmp_path / "study"
    code = (
        "import resource, sys\n"
        f"sys.path.insert(0, {str(TESTS)!r})\n"
        "from test_studies import cutting, long_study\n"
        "cutting.CELL_SECONDS = 1e-12\n"
        f"study, folder = long_study(), {str(folder)!r}\n"
        "import fastcolst as fc\n"
        "for policy in study._recipes.values():\n"
        "    policy.build(3).warm_play()\n"  # the compile cache may write more
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4200, 4200))\n"
        "try:\n"
        "    study.run(folder, threads=1, progress=False)\n"
        "except OSError as error:\n"
        "    print(type(error).__name__, error.errno, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=CHILD, check=True)
    kept = contents(folder)
    assert done.stdout.startswith(("OSError 27 ", "OSError 28 ")), done
    assert f"({len(kept)} of " in done.stdout and str(folder) in done.stdout and len(kept) > 0
    long_study().run(folder, progress=False)
    long_study().run(tmp_path / "whole", progress=False)
    assert contents(folder) == contents(tmp_path / "whole")
    assert {name: contents(folder)[name] for name in kept} == kept


def test_a_process_is_told_once_to_leave_with_its_parent_and_a_fork_of_it_anew(monkeypatch):
    ended: SimpleQueue[object] = SimpleQueue()
    monkeypatch.setattr(executors, "_LEAVING", set())
    monkeypatch.setattr(executors, "_end_with", ended.put)
    for process in (7, 7, 8, 7):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        executors.leave_with_parent()
    assert [ended.get(timeout=10.0) for _ in range(2)] == [None, None]
    assert executors._LEAVING == {7, 8}
    with pytest.raises(Empty):
        ended.get(timeout=0.1)


def test_an_unwritable_folder_is_told_before_anything_is_computed(tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "compute_cells", None)
    (tmp_path / "file").write_text("x")
    for name in ("file", "file/below", "file/below/more"):
        with pytest.raises(OSError, match=r"file") as caught:
            small().run(tmp_path / name)
        assert caught.value.errno in (errno.ENOTDIR, errno.EEXIST)


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("x")
    with pytest.raises(FileExistsError, match="something other than a study"):
        small().run(tmp_path)
    with pytest.raises(FileExistsError, match="not empty; resume"):
        small().run(tmp_path, resume=False)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_one_process_at_a_time(tmp_path):
    pytest.importorskip("fcntl")
    small().run(tmp_path, progress=False)
    with store.locked(tmp_path / ".lock"), pytest.raises(BlockingIOError, match="another process"):
        small().run(tmp_path)


def test_another_study_is_refused_with_the_difference(tmp_path, monkeypatch):
    small().run(tmp_path, progress=False)
    changed = {**POLICIES, "CoLSTIM": {**POLICIES["CoLSTIM"], "ridge": 2.0}}
    for study, message in (
        (small(seed=4), r"seed: 3, now 4"),
        (small(runs=6, seed=4), r"runs: 5, now 6; seed: 3, now 4"),
        (small(policies=changed), r"policy\['CoLSTIM'\]\.ridge: 0\.0, now 2\.0"),
        (small(policies={"Random": fc.UniformPairs()}), r"policy: \['CoLSTIM', 'Random'\], now \['Random'\]"),
        (small(checkpoints=3), r"scenario\['hard'\]\.checkpoints: 4, now 3"),
    ):
        with pytest.raises(ValueError, match=f"holds another study: {message}"):
            study.run(tmp_path)
    monkeypatch.setattr(store, "__version__", "9.9")
    with pytest.raises(ValueError, match=r"fastcolst: '0.*', now '9\.9'"):
        small().run(tmp_path)


def test_cells_of_other_random_streams_are_refused_with_both_versions(tmp_path, monkeypatch):
    small().run(tmp_path, progress=False)
    monkeypatch.setattr(store, "STREAM_VERSION", streams.STREAM_VERSION + 1)
    with pytest.raises(ValueError, match=rf"holds another study: streams: {streams.STREAM_VERSION}, now "):
        small().run(tmp_path)


def test_a_manifest_that_tells_no_version_of_the_streams_is_of_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "STREAM_VERSION", 1)
    result = small().run(tmp_path, progress=False)
    path = tmp_path / "manifest.json"
    content = json.loads(path.read_text())
    assert content.pop("streams") == 1
    path.write_bytes(store.seal(json.dumps({**content, "digest": "sha256:"}, indent=1).encode()))
    again = fc.load_study(tmp_path)
    assert again.missing == 0 and again.result("hard").settings["versions"].endswith(", streams 1")
    assert again.result("hard").same_numbers(result.result("hard"))
    monkeypatch.setattr(store, "STREAM_VERSION", 2)
    with pytest.raises(ValueError, match="holds another study: streams: 1, now 2"):
        small().run(tmp_path)


def test_a_scan_of_many_cells_is_linear(tmp_path):
    """One look into the folder, however many cells: no file is opened, none is looked at by itself."""
    study = fc.Study({"Random": fc.UniformPairs()}, {"easy": SCENARIOS["easy"]}, 10)
    manifest = study._manifest
    manifest = manifest._replace(study={**manifest.study, "runs": 10_000}, block_runs=[[1]])
    (tmp_path / "cells").mkdir()
    for cell in manifest.cells[:100]:
        (tmp_path / "cells" / cell.name).touch()
    seen, counting = Counter(), []
    sys.addaudithook(lambda event, _: counting and seen.update([event]))
    counting.append(True)
    missing = Store(tmp_path, manifest, resume=True).missing()
    counting.clear()
    assert len(missing) == 9_900 and seen["os.scandir"] == 1
    assert not any(seen[event] for event in ("open", "os.listdir", "os.remove", "os.rename"))


# --- studies as data ----------------------------------------------------------------------------------------

TOML = """
horizon = 30
runs = 2
seed = 7
checkpoints = 3

[[policy]]
name = "CoLSTIM"
comparison = {name = "thurstone", sigma = [1.0, 2.0]}
estimator = ["sgd", {name = "sgd", learning_rate = 0.1}]

[[policy]]
name = "UniformPairs"
label = "Random"

[[scenario]]
name = ["easy", "hard"]
n_arms = [3, 5]
n_features = 2

[[scenario]]
label = "mine"
horizon = 12
theta = [1.0, 0.5]
contexts = [[1.0, 0.0], [0.5, 0.2], [0.0, 1.0]]
comparison = "thurstone"

[[scenario]]
name = "file"
path = "data.npz"
checkpoints = [5, 30]
"""


@pytest.fixture
def toml(tmp_path):
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "data.npz", X=rng.normal(size=(6, 3, 2)), score=rng.normal(size=(6, 3)), maximize=False)
    (tmp_path / "study.toml").write_text(TOML)
    return tmp_path / "study.toml"


def test_a_toml_file_is_a_study(toml):
    study = fc.Study.from_toml(toml)
    assert list(study.policies) == [
        "CoLSTIM comparison=thurstone(sigma=1.0), estimator=sgd",
        "CoLSTIM comparison=thurstone(sigma=1.0), estimator=sgd(learning_rate=0.1)",
        "CoLSTIM comparison=thurstone(sigma=2.0), estimator=sgd",
        "CoLSTIM comparison=thurstone(sigma=2.0), estimator=sgd(learning_rate=0.1)",
        "Random",
    ]
    grid = [f"{name} n_arms={n}" for name in ("easy", "hard") for n in (3, 5)]
    assert list(study.scenarios) == [*grid, "mine", "data"]
    assert study.horizon == {**dict.fromkeys([*grid, "data"], 30), "mine": 12}
    recipe = study._recipes["CoLSTIM comparison=thurstone(sigma=2.0), estimator=sgd(learning_rate=0.1)"]
    assert repr(recipe.build(2)) == repr(fc.CoLSTIM(2, comparison=fc.Thurstone(2.0), estimator=fc.SGD(0.1)))
    problems = {label: setting.problem for label, setting in study._settings.items()}
    assert repr(problems["hard n_arms=5"]) == repr(fc.Scenario.hard(n_arms=5, n_features=2))
    contexts = [[1.0, 0.0], [0.5, 0.2], [0.0, 1.0]]
    assert repr(problems["mine"]) == repr(fc.Scenario(theta=[1, 0.5], contexts=contexts, comparison="thurstone"))
    assert problems["data"].maximize is False and study._settings["data"].rounds.tolist() == [5, 30]
    again = json.loads(json.dumps(study.to_dict()))
    assert fc.Study.from_dict(again) == study and fc.Study.from_dict(again).to_dict() == study.to_dict()


def test_objects_and_tables_are_the_same_study_and_repr_builds_it():
    policies = {"a": fc.CoLSTIM(3, estimator=fc.MLE(tolerance=1e-2), comparison="exponential"), "b": fc.UniformPairs()}
    scenarios = {"x": fc.Scenario.medium(n_arms=4, n_features=3)}
    study = fc.Study(policies, scenarios, horizon=20, runs=3)
    tables = fc.Study(
        {
            "a": {
                "name": "CoLSTIM",
                "estimator": {"name": "mle", "tolerance": 1e-2},
                "comparison": {"name": "exponential"},
            },
            "b": {"name": "UniformPairs"},
        },
        {"x": {"name": "medium", "n_arms": 4, "n_features": 3}},
        {"x": 20},
        runs=3,
    )
    assert study == tables and study != small()
    assert eval(repr(study), {name: getattr(fc, name) for name in fc.__all__}) == study  # noqa: S307 - made a line above
    assert fc.Study.from_dict(study.to_dict()) == study


def test_data_are_known_by_what_they_are(toml, tmp_path):
    study = fc.Study.from_toml(toml)
    saved = study.to_dict()
    rng = np.random.default_rng(2)
    np.savez(tmp_path / "data.npz", X=rng.normal(size=(6, 3, 2)), score=rng.normal(size=(6, 3)))
    with pytest.raises(ValueError, match=r"scenario 'data': .*sha256 differs"):
        fc.Study.from_dict(saved)
    assert fc.Study.from_toml(toml) != study


def test_how_people_answer_about_data_is_part_of_the_table(toml, tmp_path):
    """Of a "file" scenario: a grid, which comes back; what is left out leaves the table as it always was."""
    data = {"name": "file", "path": str(tmp_path / "data.npz"), "comparison": ["thurstone", "exponential"], "scale": 3}
    study = fc.Study.from_dict({"horizon": 10, "policy": [{"name": "UniformPairs"}], "scenario": [data]})
    problems = [setting.problem for setting in study._settings.values()]
    assert [problem.comparison for problem in problems] == [fc.Thurstone(), fc.ExponentialNoise()]
    assert [problem.scale for problem in problems] == [3.0, 3.0]
    assert fc.Study.from_dict(json.loads(json.dumps(study.to_dict()))) == study
    plain = next(table for table in fc.Study.from_toml(toml).to_dict()["scenario"] if table["label"] == "data")
    assert set(plain) == {"label", "horizon", "checkpoints", "name", "path", "maximize", "sha256"}


def table(kind, **changes):
    data = {
        "horizon": 10,
        "policy": [{"name": "CoLSTIM", "estimator": "sgd"}],
        "scenario": [{"name": "easy", "n_arms": 3, "n_features": 2}],
    }
    if kind == "study":
        return {**data, **changes}
    changed = {**data[kind][0], **changes}
    return {**data, kind: [{key: value for key, value in changed.items() if value is not None}]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (table("study", horison=3), r"^study: unknown key 'horison'; known are horizon, runs, seed, checkpoints, s"),
        (table("study", policy=[]), r"^study: policy is \[\]; at least one table \[\[policy\]\]"),
        (table("policy", ridg=1, x=2), r"^policy 'CoLSTIM': unknown keys 'ridg', 'x'; known are name, n_arms, hor"),
        (table("policy", n_features=2), r"^policy 'CoLSTIM': unknown key 'n_features'"),
        (table("policy", name="Colstim"), r"^policy table 1 \('Colstim'\): name is 'Colstim'; known are CoLSTIM, Doub"),
        (table("policy", name=None), r"^policy table 1 \(None\): name is missing"),
        (table("policy", ridge=[]), r"^policy table 1 \('CoLSTIM'\): ridge is an empty list"),
        (table("policy", ridge=-1.0), r"^policy 'CoLSTIM': ridge is -1.0"),
        (table("policy", estimator={"name": "sgd", "rate": 1}), r"^policy 'CoLSTIM', estimator: unknown key 'rate'; k"),
        (table("policy", estimator={"name": "x"}), r"^policy 'CoLSTIM', estimator: name is 'x'; known are sgd, mle"),
        (table("policy", estimator={"name": "sgd", "decay": 7}), r"^policy 'CoLSTIM', estimator: SGD: decay is 7"),
        (table("policy", n_arms=9), r"^policy 'CoLSTIM': .*n_arms=9; the problem has 3"),
        (table("policy", label=3), r"label is 3; a text"),
        (table("scenario", n_arm=1), r"^scenario 'easy': unknown key 'n_arm'; known are name, n_arms, n_features, c"),
        (table("scenario", name="cube"), r"^scenario table 1 \('cube'\): name is 'cube'; known are easy, medium, hard"),
        (table("scenario", n_arms=0), r"^scenario 'easy': n_arms is 0"),
        (table("scenario", horizon=0), r"^scenario 'easy': horizon is 0"),
        (table("scenario", checkpoints=[20]), r"^scenario 'easy': checkpoints is \[20\]"),
        (table("scenario", comparison={"name": "thurstone", "s": 1}), r"^scenario 'easy', comparison: unknown key 's'"),
        ({**table("study", horizon=5), "seed": 1.5}, r"^seed is 1.5"),
        ({**table("study"), "runs": 0}, r"^runs is 0"),
        (table("scenario", name="file", n_arms=None, n_features=None), r"^scenario 'file': path is missing"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(data, message):
    with pytest.raises(ValueError, match=message) as caught:
        fc.Study.from_dict(data)
    assert "\n" not in str(caught.value)


def test_labels_must_differ_and_horizons_be_given(tmp_path):
    data = table("study")
    data["scenario"] *= 2
    with pytest.raises(ValueError, match="the label 'easy' is taken"):
        fc.Study.from_dict(data)
    with pytest.raises(ValueError, match="scenario 'easy': horizon is missing"):
        fc.Study.from_dict({key: value for key, value in table("study").items() if key != "horizon"})
    with pytest.raises(ValueError, match="horizon has no entry for it: 'x'"):
        fc.Study(POLICIES, SCENARIOS, {"x": 10})
    with pytest.raises(ValueError, match="policies is"):
        fc.Study([], SCENARIOS, 10)
    (tmp_path / "bad.toml").write_text("horizon = ")
    with pytest.raises(ValueError, match="is no TOML"):
        fc.Study.from_toml(tmp_path / "bad.toml")


# --- results ------------------------------------------------------------------------------------------------


def test_tables_tell_what_varies(toml, tmp_path):
    result = fc.Study.from_toml(toml).run(tmp_path / "out", progress=False)
    frame = result.to_pandas()
    first = ["scenario", "policy", "run", "round", "average_regret", "weak_regret", "self_duels"]
    assert list(frame.columns[:7]) == first
    assert set(frame.columns[7:]) == {"scenario_n_arms", "policy_comparison", "policy_estimator"}
    assert set(frame[frame.scenario == "hard n_arms=5"].scenario_n_arms) == {5}
    assert frame[frame.policy == "Random"].policy_estimator.isna().all()
    assert len(frame) == 5 * 2 * (4 * 3 + 3 + 2)
    seconds = result.seconds()
    assert list(seconds.columns) == ["scenario", "policy", "run", "seconds"] and len(seconds) == 5 * 6 * 2
    assert (seconds.seconds >= 0).all()
    loaded = fc.load_study(tmp_path / "out")
    assert loaded.study == result.study == fc.Study.from_toml(toml)
    assert loaded.to_pandas().equals(frame)
    summary = loaded.summary()
    assert summary.startswith("easy n_arms=3: 30 rounds, 2 runs, seed 7\n") and "missing" not in summary
    with pytest.raises(ValueError, match="scenario is 'x'; there are"):
        loaded.result("x")


def test_xarray_has_nan_where_there_is_nothing(tmp_path, one_run_a_cell):
    pytest.importorskip("xarray")
    result = small().run(tmp_path, progress=False)
    (tmp_path / "cells" / Cell(0, 1, 4, 4, 1).name).unlink()
    data = result.to_xarray()
    assert dict(data.sizes) == {"scenario": 2, "policy": 2, "run": 5, "round": len(data["round"])}
    frame = result.to_pandas()
    assert int(data.average_regret.notnull().sum()) == len(frame)
    for row in frame.iloc[::7].itertuples():
        place = {"scenario": row.scenario, "policy": row.policy, "run": row.run, "round": row.round}
        assert float(data.weak_regret.sel(place)) == row.weak_regret
    assert np.isnan(data.self_duels.sel(scenario="hard", policy="Random", run=4)).all()
    assert result.result("hard").runs == 4


def test_polars_has_the_same_table(tmp_path):
    pytest.importorskip("polars")
    result = small().run(tmp_path, progress=False)
    assert result.to_polars().to_dict(as_series=False) == result.to_pandas().to_dict("list")


@pytest.mark.parametrize("name", ["xarray", "polars"])
def test_an_optional_package_that_is_missing_is_named(tmp_path, monkeypatch, name):
    result = small().run(tmp_path, progress=False)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"StudyResult.to_{name} needs {name}: pip install {name}"):
        getattr(result, f"to_{name}")()


def test_damage_is_found_when_a_cell_is_read(tmp_path, one_run_a_cell):
    result = small().run(tmp_path, progress=False)
    first, second = sorted((tmp_path / "cells").iterdir())[:2]
    data = first.read_bytes()
    first.write_bytes(data[: len(data) // 2])
    with pytest.raises(fc.FileFormatError, match=rf"{first.name}.*is damaged.*resume the study to compute it anew"):
        result.to_pandas()
    first.write_bytes(second.read_bytes())
    with pytest.raises(fc.FileFormatError, match=rf"{first.name}.*another study"):
        result.to_pandas()
    for text in ("{", "[]", '{"format_version": 99}'):
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(fc.FileFormatError, match="no manifest"):
            fc.load_study(tmp_path)
    with pytest.raises(FileNotFoundError):
        fc.load_study(tmp_path / "nowhere")


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def some_bits(data, number):
    """Of every part of a file, its ends included."""
    return [0, 8 * len(data) - 1, *np.random.default_rng(len(data)).integers(8 * len(data), size=number).tolist()]


def test_no_flipped_bit_of_a_cell_goes_unnoticed(tmp_path, capsys, one_run_a_cell):
    """Neither those of the numbers nor those that readers of Parquet pass over."""
    result = small(checkpoints=20).run(tmp_path, progress=False)
    whole = contents(tmp_path)
    path = tmp_path / "cells" / Cell(0, 0, 2, 2, 1).name
    for bit in some_bits(whole[path.name], 200):
        path.write_bytes(flipped(whole[path.name], bit))
        with pytest.raises(fc.FileFormatError, match=path.name):
            result.result("hard")
    capsys.readouterr()
    small(checkpoints=20).run(tmp_path, progress=False)
    assert capsys.readouterr().err == (
        f"fastcolst: 1 cell is damaged or of an earlier version, and computed anew: ['{path.name}']\n"
    )
    assert contents(tmp_path) == whole


def test_a_cell_counts_in_the_file_and_the_study_alone_that_it_was_written_for(tmp_path, capsys, one_run_a_cell):
    small().run(tmp_path / "one", progress=False)
    whole = contents(tmp_path / "one")
    small(seed=4).run(tmp_path / "other", progress=False)
    (first, second, third, fourth), cells = sorted(whole)[:4], tmp_path / "one" / "cells"
    (cells / first).write_bytes(whole[second])
    (cells / second).write_bytes((tmp_path / "other" / "cells" / second).read_bytes())
    (cells / third).write_bytes(b"")
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(cells / fourth)  # a cell is a table that any reader knows
    assert list(frame) == [
        "scenario", "policy", "run", "round", "average_regret", "weak_regret", "self_duels"
    ]  # fmt: skip
    frame.to_parquet(cells / fourth)  # as an earlier version would write it: without a digest
    for name in (first, second, third, fourth):
        with pytest.raises(fc.FileFormatError, match=name):
            fc.load_study(tmp_path / "one").results()
        (cells / name).rename(tmp_path / name)
    for name in (first, second, third, fourth):
        (tmp_path / name).rename(cells / name)
    capsys.readouterr()
    assert small().run(tmp_path / "one", progress=False).missing == 0
    assert capsys.readouterr().err.startswith("fastcolst: 4 cells are damaged or of an earlier version, and computed ")
    assert contents(tmp_path / "one") == whole


def test_no_flipped_bit_of_a_manifest_gives_other_numbers(tmp_path, one_run_a_cell):
    study = small()
    whole = study.run(tmp_path, progress=False).to_pandas()
    path = tmp_path / "manifest.json"
    data = path.read_bytes()
    for bit in some_bits(data, 200):
        path.write_bytes(flipped(data, bit))
        for use in (fc.load_study, partial(study.run, progress=False)):
            with pytest.raises(fc.FileFormatError, match=r"manifest\.json"):
                use(tmp_path)
    path.write_bytes(data)
    assert fc.load_study(tmp_path).to_pandas().equals(whole)


def test_no_flipped_bit_of_timings_gives_other_seconds(tmp_path, one_run_a_cell):
    result = small().run(tmp_path, progress=False)
    whole = result.seconds()
    path = tmp_path / "timings.jsonl"
    data = path.read_bytes()
    for bit in some_bits(data, 200):
        path.write_bytes(flipped(data, bit))
        seconds = fc.load_study(tmp_path).seconds()
        assert 1 <= seconds.seconds.isna().sum() <= 2
        assert (seconds.seconds.isna() | (seconds.seconds == whole.seconds)).all()
    lines = data.splitlines()
    path.write_bytes(b"\n".join([*lines[1:], b"[" * 100_000]))
    cell = next(cell for cell in result._cells() if cell.name == json.loads(lines[0])["cell"])
    policy, loaded = result.policies[cell.policy], fc.load_study(tmp_path).result(result.scenarios[cell.scenario])
    assert np.isnan(loaded.seconds[policy]).sum() == 1
    assert any(line.startswith(policy) and line.endswith(" -") for line in loaded.summary().splitlines())


def test_a_study_of_the_first_format_is_computed_anew(tmp_path, capsys, one_run_a_cell):
    study = small()
    study.run(tmp_path, progress=False)
    whole, manifest = contents(tmp_path), (tmp_path / "manifest.json").read_bytes()
    earlier = {key: value for key, value in json.loads(manifest).items() if key != "digest"}
    (tmp_path / "manifest.json").write_text(json.dumps({**earlier, "format_version": 1}))
    for name in whole:
        (tmp_path / "cells" / name).write_bytes(b"PAR1, and no digest")
    with pytest.raises(fc.FileFormatError, match=r"version is 1, and 2 is wanted; .* computed anew when it is resumed"):
        fc.load_study(tmp_path)
    with pytest.raises(ValueError, match="holds another study: seed: 3, now 4"):
        small(seed=4).run(tmp_path, progress=False)
    capsys.readouterr()
    study.run(tmp_path, progress=False)
    assert capsys.readouterr().err.startswith("fastcolst: 20 cells are damaged or of an earlier version, and computed ")
    assert contents(tmp_path) == whole and (tmp_path / "manifest.json").read_bytes() == manifest


def test_torn_lines_of_timings_do_not_matter(tmp_path, one_run_a_cell):
    result = small().run(tmp_path, progress=False)
    whole = result.seconds()
    with (tmp_path / "timings.jsonl").open("ab") as file:
        file.write(b'{"cell": "00000-000')
    (tmp_path / "cells" / Cell(1, 1, 4, 4, 1).name).unlink()
    small().run(tmp_path, progress=False)
    again = result.seconds()
    assert again.seconds.notna().all() and again.iloc[:-1].equals(whole.iloc[:-1])


def test_a_cell_that_is_computed_anew_leaves_no_older_seconds_behind(tmp_path, one_run_a_cell):
    """Else they would be taken for its own when the line of these is damaged."""
    small().run(tmp_path, progress=False)
    path, cell = tmp_path / "timings.jsonl", tmp_path / "cells" / Cell(1, 1, 4, 4, 1).name
    cell.write_bytes(b"damaged")
    result = small().run(tmp_path, progress=False)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 20 and cell.name.encode() in lines[-1]
    path.write_bytes(b"".join(lines[:-1]))
    assert np.isnan(result.seconds().seconds.iloc[-1])


def test_a_policy_that_only_explores_says_so_once(tmp_path, one_run_a_cell):
    scenario = fc.Scenario(theta=[1.0, 1.0], contexts=[[1.0, 0.0], [1.0, 1.0]])  # a constant feature
    policies = {"Random": fc.UniformPairs(), "CoLSTIM": fc.CoLSTIM(2, estimator="sgd"), "SS": fc.SelfSparring()}
    study = fc.Study(policies, {"flat": scenario}, 40, runs=3)
    with pytest.warns(
        UserWarning, match="scenario 'flat', policy 'CoLSTIM': CoLSTIM still explores after 40"
    ) as caught:
        study.run(tmp_path, threads=1, progress=False)
    assert len(caught) == 1 and caught[0].filename == __file__


# --- progress and the command line --------------------------------------------------------------------------


def test_progress_is_plain_lines_or_a_bar(tmp_path, monkeypatch, capsys, one_run_a_cell):
    small().run(tmp_path / "quiet", progress=False)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress.Progress, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(cutting, "_WARM", set())
    small().run(tmp_path / "lines", threads=1)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("fastcolst: preparing ") and sum("preparing" in line for line in lines) == 1
    assert lines[-1].startswith("fastcolst: 20 of 20 cells, ") and lines[-1].endswith(" cells/s, 0:00 left")
    assert any(line.startswith("fastcolst: 7 of 20 cells, ") for line in lines)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    small().run(tmp_path / "bar")
    assert "20/20" in capsys.readouterr().err
    assert progress.clock(59.6) == "1:00" and progress.clock(3725) == "1:02:05"


TEN_LINES = '[[policy]]\nname = "UniformPairs"\n[[scenario]]\nname = "easy"\nn_arms = 3\nn_features = 2\n'


def test_the_command_line_computes_a_study_and_draws_it(tmp_path, capsys):
    file, out = tmp_path / "study.toml", tmp_path / "out"
    file.write_text("horizon = 50\nruns = 3\n" + TEN_LINES)
    command = ["study", str(file), "--out", str(out), "--no-progress"]
    assert cli.main(command) == 0
    printed = capsys.readouterr()
    assert "easy: 50 rounds, 3 runs, seed 0" in printed.out and f"wrote {out / 'regret.png'}" in printed.out
    assert printed.err == "" and (out / "regret.png").stat().st_size > 1000
    assert cli.main(command) == 2
    assert (
        capsys.readouterr().err
        == f"fastcolst: error: {out}: the folder is not empty; resume (--resume), or choose another one\n"
    )
    assert cli.main([*command, "--resume", "--threads", "1"]) == 0
    file.write_text("horizon = 60\nruns = 3\n" + TEN_LINES)
    capsys.readouterr()
    assert cli.main([*command, "--resume"]) == 2
    assert "scenario['easy'].horizon: 50, now 60" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--executor", "mpi"], "'mpi'; threads, processes or dask:ADDRESS is wanted"),
        (["--executor", "dask:"], "'dask:'; threads"),
        (["--executor", "dask:127.0.0.1:1", "--threads", "2"], "a dask cluster has its own workers"),
        (["--threads", "0"], "threads is 0"),
    ],
)
def test_a_wrong_option_is_named(tmp_path, capsys, options, message):
    file = tmp_path / "study.toml"
    file.write_text("horizon = 50\n" + TEN_LINES)
    assert cli.main(["study", str(file), "--out", str(tmp_path / "out"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_command_line_on_processes(tmp_path, capsys):
    file = tmp_path / "study.toml"
    file.write_text("horizon = 50\n" + TEN_LINES)
    assert cli.main(["study", str(file), "--out", str(tmp_path / "two"), "--executor", "processes"]) == 0
    assert cli.main(["study", str(file), "--out", str(tmp_path / "one"), "--threads", "1"]) == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


README = TESTS.parent / "README.md"


@pytest.mark.long
def test_the_readmes_ten_lines_give_a_figure(tmp_path, capsys):
    toml = README.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    assert len([line for line in toml.splitlines() if line]) <= 10
    (tmp_path / "study.toml").write_text(toml)
    assert cli.main(["study", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out"), "--no-progress"]) == 0
    assert (tmp_path / "out" / "regret.png").exists()


@pytest.mark.parametrize(("amounts", "message"), [
    ({"runs": 10**11}, r"^runs is 100000000000; that makes 1,\d{3},\d{3} cells, and at most 1,000,000 are wanted"),
    ({"runs": 10**6, "horizon": 10**5, "checkpoints": 10**5}, r"^runs is 1000000; that makes 200,000,000,000 rows of"),
    ({"horizon": 10**13, "checkpoints": 10**13}, r"^scenario 'hard': checkpoints are 10,000,000,000,000; at most 1,0"),
    ({"checkpoints": range(1, 10**15)}, r"^scenario 'hard': checkpoints are 999,999,999,999,999; at most 1,000,000 "),
    ({"horizon": 10**400}, r"^scenario 'hard': horizon is 10+\.\.\.0+; a whole number"),
])  # fmt: skip
def test_more_than_anyone_can_wait_for_or_keep_is_refused(amounts, message):
    with pytest.raises(ValueError, match=message):
        fc.Study(**{"policies": {"Random": fc.UniformPairs()}, "scenarios": SCENARIOS, "horizon": 20, **amounts})


@pytest.mark.parametrize(("runs", "block_runs", "message"), [
    (10**13, [[1, 1], [1, 1]], r"runs is 10000000000000; that makes 40,000,000,000,000 cells, and at most 1,000,000 "),
    (10**13, [[10**13] * 2] * 2, r"runs is 10000000000000; that makes 160,000,000,000,000 rows of results, and at mo"),
    (10**300, [[1, 10**300], [7, 1]], r"runs is 10+; that makes [\d,]+ cells"),
    (5, [[1, 1], [1, 0.5]], "labels, rounds and runs do not fit together"),
    (5, [[1, 1], [1, -1]], "labels, rounds and runs do not fit together"),
])  # fmt: skip
def test_a_manifest_that_asks_for_absurd_amounts_is_refused_with_the_number(tmp_path, runs, block_runs, message):
    """Also a manifest whose digest fits it: whoever wrote it."""
    small().run(tmp_path, threads=1, progress=False)
    manifest = Manifest.read(tmp_path)
    manifest._replace(study={**manifest.study, "runs": runs}, block_runs=block_runs).write(tmp_path)
    for use in (fc.load_study, partial(small().run, progress=False)):
        with pytest.raises(fc.FileFormatError, match=rf"manifest\.json' is no manifest of a study: {message}"):
            use(tmp_path)
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(fc.FileFormatError, match=r"manifest\.json' is no manifest of a study"):
        fc.load_study(tmp_path)


@pytest.mark.parametrize("spoil", [
    {"study": None}, {"study": {"runs": "x"}}, {"study": {"runs": -1}}, {"block_runs": 3}, {"block_runs": []},
    {"scenarios": None}, {"scenarios": [{"label": "easy", "horizon": 20, "rounds": None}]}, {"policies": None},
    {"policies": ["one too few"]},
])  # fmt: skip
def test_a_manifest_that_was_changed_is_one_error(tmp_path, spoil):
    study = small()
    study.run(tmp_path, threads=1, progress=False)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **spoil}))
    for use in (fc.load_study, partial(study.run, progress=False)):
        with pytest.raises(fc.FileFormatError, match="no manifest of a study"):
            use(tmp_path)


@pytest.mark.parametrize("seconds", ["null", "[-1.0]", "[1.0, 2.0, 3.0, 4.0, 5.0]"])
def test_a_line_of_seconds_without_a_digest_counts_as_missing(tmp_path, seconds):
    result = small().run(tmp_path, threads=1, progress=False)
    cell = result._cells()[0]
    (tmp_path / "timings.jsonl").write_text(f'{{"cell": "{cell.name}", "seconds": {seconds}}}\n')
    loaded = fc.load_study(tmp_path)
    assert loaded.seconds()["seconds"].isna().all()
    assert "easy" in loaded.summary()


def test_a_manifest_that_was_left_half_written_is_swept_away(tmp_path):
    (tmp_path / ".manifest.json.0123456789abcdef.tmp").write_text('{"format')
    small().run(tmp_path, progress=False)
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]


# --- what is no file, and what is not ours ------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
@pytest.mark.parametrize("name", ["manifest.json", "timings.jsonl", "cells/00000-00000-00000.parquet"])
def test_pipes_and_devices_are_refused_and_not_waited_for(tmp_path, name):
    study = small()
    study.run(tmp_path, progress=False)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(fc.FileFormatError, match="is no regular file"):
        fc.load_study(tmp_path).results()
    if name.startswith("cells"):
        study.run(tmp_path, progress=False)
        assert (tmp_path / name).is_file()


def test_a_folder_with_cells_of_somebody_else_is_left_alone(tmp_path):
    mine = tmp_path / "cells" / "measurements.tmp"
    mine.parent.mkdir()
    mine.write_text("of a year")
    with pytest.raises(OSError, match="something other than a study"):
        small().run(tmp_path, progress=False)
    assert mine.read_text() == "of a year"
