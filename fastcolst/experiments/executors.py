"""Executors: cells are handed out to whoever computes them, and kept as they come back.

Workers compute and send back arrays; the process that was asked for the study alone writes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any

from fastcolst._callers import warn_caller
from fastcolst._checks import brief
from fastcolst._compile import uninterrupted
from fastcolst.experiments.cells import Cell, Outcome, Task, Work, compute_cells, warm
from fastcolst.experiments.progress import Progress
from fastcolst.experiments.simulation import POLL_SECONDS, note_to
from fastcolst.experiments.store import Store

__all__ = ["check_executor", "compute_cells_for", "leave_with_parent", "run_on", "run_on_threads"]

MODULES_WITH_LOCKS = ("concurrent.futures.", "loky.")
"""Modules whose executors hold locks in ``submit``, and do nothing there that takes long."""
TASKS_AHEAD = 256
"""Tasks handed out at once to an executor that does not say how many workers it has."""


def check_executor(executor: Any, threads: int | None) -> None:
    """Raise TypeError for what is no executor, and ValueError for threads beside one."""
    if executor is None:
        return
    if threads is not None:
        raise ValueError(f"threads is {brief(threads)}; with an executor, whose own workers count, None is wanted")
    if callable(getattr(executor, "get_executor", None)):
        raise TypeError("executor is a dask Client, not an executor; pass client.get_executor()")
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor is {brief(executor)}; None or an executor as in concurrent.futures is wanted")


def run_on_threads(work: Work, store: Store, missing: list[Cell], bar: Progress, workers: int) -> None:
    """Compute cells here, on so many threads, once everything is compiled."""
    for p, s in {cell.policy: cell.scenario for cell in missing}.items():
        (_, recipe), (_, setting) = work.recipes[p], work.settings[s]
        warm(recipe.build(setting.problem.n_features), bar.say)
    bar.start()
    stop = threading.Event()
    executor = ThreadPoolExecutor(workers, thread_name_prefix="fastcolst")
    try:
        run_on(executor, partial(compute_cells, stop=stop), work, store, missing, bar)
    finally:  # after Ctrl-C or an error: cells at work stop at their next chunk
        stop.set()
        executor.shutdown(wait=True, cancel_futures=True)


def run_on(
    executor: Any,
    compute: Callable[[Task], list[Outcome]],
    work: Work,
    store: Store,
    missing: list[Cell],
    bar: Progress,
) -> None:
    """Hand out cells, a bounded number of tasks at a time, and keep them as they come back.

    Cells are put together only where there are more of them than tasks that are handed out at once.
    """
    workers = getattr(executor, "_max_workers", None)
    ahead = 2 * workers if isinstance(workers, int) and workers > 0 else TASKS_AHEAD
    parts = iter(work.together(missing, ahead))
    waiting: dict[Future[list[Outcome]], list[Cell]] = {}
    finished: SimpleQueue[Future[list[Outcome]]] = SimpleQueue()
    warned: set[tuple[int, int]] = set()

    def hand_out(cells: list[Cell]) -> None:
        future = executor.submit(compute, work.task(cells))
        waiting[future] = cells  # first, so that it is called off whatever comes
        uninterrupted(future.add_done_callback, finished.put)

    try:
        while True:
            for cells in islice(parts, ahead - len(waiting)):
                _in_one_piece(executor, hand_out, cells)
            if not waiting:
                return
            future = _next(finished, bar)
            if (failure := future.exception()) is not None:  # `result` overlooks errors whose truth value is false
                raise failure
            found = list(zip(waiting[future], future.result(), strict=True))
            for cell, outcome in found:
                store.add(cell, outcome)
                bar.advance()
            del waiting[future]
            for cell, outcome in found:
                _warn_once(store, cell, outcome.trouble, warned)
    except BaseException as error:
        with contextlib.suppress(KeyboardInterrupt):  # a second one: what is not kept yet is computed again
            _give_up(executor, store, waiting)
        clearer = _clearer(error, store.state)
        if clearer is None:
            raise
        raise clearer from error


def _warn_once(store: Store, cell: Cell, trouble: str, warned: set[tuple[int, int]]) -> None:
    if trouble and (cell.scenario, cell.policy) not in warned:
        warned.add((cell.scenario, cell.policy))
        where = store.manifest.scenarios[cell.scenario]["label"], store.manifest.policies[cell.policy]
        warn_caller(f"scenario {where[0]!r}, policy {where[1]!r}: {trouble}")


def _in_one_piece(executor: Any, call: Callable[..., Any], *arguments: Any) -> None:
    """Call, with Ctrl-C held back for executors whose ``submit`` holds locks, which an interrupt would leave held.

    Those of others may wait, or compute, in ``submit``.
    """
    submit = getattr(type(executor), "submit", None)
    if str(getattr(submit, "__module__", None)).startswith(MODULES_WITH_LOCKS):
        uninterrupted(call, *arguments)
    else:
        call(*arguments)


def _next(finished: SimpleQueue[Future[list[Outcome]]], bar: Progress) -> Future[list[Outcome]]:
    while True:
        try:
            return finished.get(timeout=POLL_SECONDS)  # a wait without end would not see Ctrl-C everywhere
        except Empty:
            bar.show()


def _give_up(executor: Any, store: Store, waiting: Mapping[Future[list[Outcome]], list[Cell]]) -> None:
    """Call off what has not begun, and keep what was finished meanwhile."""
    for future in waiting:
        _in_one_piece(executor, future.cancel)
    with contextlib.suppress(OSError):
        missing = set(store.missing())  # of a task that the error interrupted some cells are there
        for future, cells in waiting.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                for cell, outcome in zip(cells, future.result(), strict=True):
                    if cell in missing:
                        store.add(cell, outcome)


def _clearer(error: BaseException, state: str) -> BaseException | None:
    """An error that says better what happened and what is left, if there is one; else a note to this one."""
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt(f"interrupted: {state}")
    if isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker":  # dask's
        return BrokenExecutor(f"a worker died ({error}): {state}")
    if not isinstance(error, OSError):  # the folder's own, which says it
        note_to(error, state)
    return None


# --- workers ------------------------------------------------------------------------------------------------


def compute_cells_for(process: int, task: Task) -> list[Outcome]:
    """Compute cells in a worker, which does not outlive the process that hands out the cells and started it."""
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid == process:
        leave_with_parent()
    try:
        return compute_cells(task)
    except Exception as error:  # noqa: BLE001 - raised below, without itself as its context
        sent = _sendable(error)
    raise sent


def _sendable(error: Exception) -> Exception:
    """The error, or one in its place that arrives.

    Executors take a worker for dead whose error cannot be read where it arrives, as of a class whose constructor wants
    other arguments than it passes on, and overlook an error whose truth value is false.
    """
    try:
        sent = pickle.dumps(error)
    except Exception:  # noqa: BLE001 - the executor says so
        return error
    with contextlib.suppress(Exception):
        pickle.loads(sent)  # noqa: S301 - made a line above
        if bool(error):
            return error
    where = "".join(traceback.format_tb(error.__traceback__))
    told = RuntimeError(f"{type(error).__name__}{error.args}, an error that cannot be sent as it is, from\n{where}")
    for note in getattr(error, "__notes__", ()):
        note_to(told, note)
    return told


_LEAVING: set[int] = set()
"""Processes that leave with their parents: this one, and those that it was forked from, whose threads it lacks."""


def leave_with_parent() -> None:
    """End this process as soon as the one that started it has ended; told once, and for good.

    A worker waits for tasks on a pipe that its siblings and itself hold open: of a parent that was killed it never
    hears. With the workers goes the last who uses the tracker of their semaphores, and it leaves too.
    """
    if os.getpid() in _LEAVING:
        return
    _LEAVING.add(os.getpid())
    threading.Thread(target=_end_with, args=(multiprocessing.parent_process(),), daemon=True).start()


def _end_with(parent: Any) -> None:
    if parent.sentinel is not None:
        parent.join()
    else:  # loky's workers have none
        while os.getppid() == parent.pid:
            time.sleep(POLL_SECONDS)
    os._exit(1)  # whatever the other threads are at: nobody wants it any more
