"""What is told of compiling: one line for each wait, and nothing where all came from the cache."""

from __future__ import annotations

import gc
import logging
import re
import sys
import threading
import time

import numpy as np
import pytest

from fastcolst._compile.compile_log import Compiled, _Watch


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.name == "fastcolst"]
    caplog.clear()
    return found


@pytest.mark.jit
def test_a_kernel_is_told_of_when_it_is_compiled_and_not_when_it_was_kept(tiny, caplog):
    caplog.set_level(logging.INFO, "fastcolst")
    assert tiny.climb() == (7.0, True)
    (line,) = told(caplog)
    assert re.fullmatch(r"compiled 1 kernel in \d+\.\d s; later processes load them from the cache", line)
    assert tiny.climb() == (7.0, False)
    assert told(caplog) == []


@pytest.mark.jit
def test_one_wait_is_one_line(tiny, caplog):
    caplog.set_level(logging.INFO, "fastcolst")
    module = tiny.load()
    compiler = sys.modules["tiny._compile"]
    with compiler.one_line():
        module.climb(module.Hill(2.0), 3.0)
        with compiler.one_line():
            thread = threading.Thread(target=module.entry, args=(np.arange(3.0), 2))
            thread.start()
            thread.join()
        assert told(caplog) == []
    (line,) = told(caplog)
    assert line.startswith("compiled 2 kernels in ")
    found = compiler.so_far()
    assert (found.compiled, found.kept, found.loaded) == (2, 2, 0) and found.seconds > 0
    with compiler.one_line():
        module.climb(module.Hill(3.0), 4.0)
    assert told(caplog) == [] and compiler.so_far()[:3] == found[:3]


@pytest.mark.jit
def test_what_is_not_kept_is_told_as_such(tiny, caplog):
    caplog.set_level(logging.INFO, "fastcolst")
    module = tiny.load()
    sys.modules["tiny._compile.cache"].SOURCES = None
    with pytest.warns(RuntimeWarning, match="its sources cannot be seen"):
        module.climb(module.Hill(2.0), 3.0)
    (line,) = told(caplog)
    assert line.endswith("; every process compiles 1 of them")


@pytest.mark.jit
def test_a_simulation_is_told_in_one_line_and_again_not_at_all(sandbox):
    code = """
import logging
import fastcolst as fc
answer = []
handler = logging.Handler()
handler.emit = lambda record: answer.append(record.getMessage())
logging.getLogger("fastcolst").addHandler(handler)
logging.getLogger("fastcolst").setLevel("INFO")
policies, scenario = {"random": fc.UniformPairs()}, fc.Scenario.hard(n_arms=3, n_features=2)
made = len(answer)
fc.simulate(policies, scenario, 50, runs=2, threads=2, rng=1)
answer = [made, answer[made:]]
"""
    sandbox.install()
    first, second = (sandbox.run("fastcolst", code)["answer"] for _ in range(2))
    made, lines = first
    assert made == 1 and len(lines) == 1 and lines[0].startswith("compiled ")  # the policy's handle, and the simulation
    assert second == [0, []]


def test_the_time_of_threads_that_wait_for_another_counts_once():
    watch = _Watch()

    def wait() -> None:
        with watch.compiling():
            time.sleep(0.2)

    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.2 <= watch.seconds < 0.8 and watch.at_work == 0


def test_no_garbage_is_collected_while_anybody_compiles():
    watch, seen = _Watch(), [gc.isenabled()]
    with watch.compiling():
        seen.append(gc.isenabled())
        with watch.compiling():
            pass
        seen.append(gc.isenabled())
    seen.append(gc.isenabled())
    assert seen == [True, False, False, True]
    gc.disable()  # as a service may, which wants it to stay so
    try:
        with watch.compiling():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_child_of_a_process_that_compiles_collects_garbage():
    watch = _Watch()
    with watch.compiling():
        watch.forget()
        assert gc.isenabled() and watch.at_work == 0
        watch.at_work = 1  # as in the parent


def test_counts_read_as_a_sentence():
    count = Compiled(compiled=5, kept=3, loaded=1, seconds=14.26)
    assert str(count) == "compiled 5 kernels in 14.3 s; every process compiles 2 of them"
    assert str(count.since(Compiled(compiled=4, kept=2))).startswith("compiled 1 kernel in 14.3 s; later processes")
