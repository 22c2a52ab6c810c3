"""Simulation of a race whose Runs stay in memory."""

from __future__ import annotations

import os
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from bentpipe.errors import ControllerError, UserError
from bentpipe.execution import separate
from bentpipe.execution.drawn import DrawnProfiles, with_references
from bentpipe.execution.racing import POLL_S
from bentpipe.execution.service import check_service, warn_of_paths
from bentpipe.experiments import plugins
from bentpipe.runs import failed as failures
from bentpipe.runs import record
from bentpipe.runs.memory import MemoryRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe.runs.work import Work


class _StopRunError(Exception):
    """Raised inside the simulator's progress callback to stop a run."""


def simulate(
    work: Sequence[Work], *, jobs: int | None = None, on_progress: Callable[[float], None] = lambda _: None
) -> tuple[list[MemoryRun], tuple[failures.FailedRun, ...]]:
    """Simulate the planned Runs on threads; return them in order, and those that failed in a Python controller.

    Raises:
        UserError: A Run is impossible.
        ControllerError: All Runs failed in a Python controller.
    """
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs: {jobs}; expected at least 1")
    check_service(work)
    warn_of_paths(work)
    threads = jobs or len(os.sched_getaffinity(0))
    drawn = DrawnProfiles((threads + 1) * max(len(item.bases) for item in work))
    stop = threading.Event()
    shares = [0.0] * len(work)

    def run_one(number: int, item: Work) -> MemoryRun | failures.FailedRun:
        def on_share(share: float) -> None:
            if stop.is_set():
                raise _StopRunError
            shares[number] = share

        paths = drawn.take(item.bases, item.seed)
        experiment = with_references(item.experiment, paths)
        try:
            if controllers := list(plugins.python_controllers(experiment)):
                data: record.Data = separate.simulate(experiment, paths, controllers, on_share)
            else:
                data = plugins.simulate(experiment, paths, on_share)
        except ControllerError as error:  # a fault in the user's controller; the other Runs continue
            return failures.of_work(item, str(error))
        shares[number] = 1.0
        tables = record.tables(experiment.to_dict()["flows"], data)
        return MemoryRun(item.folder, record.run_record(item, experiment, paths, data), tables, item.bases)

    futures: list[Future[MemoryRun | failures.FailedRun]] = []
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="simulate") as pool:
        try:
            futures += [pool.submit(run_one, number, item) for number, item in enumerate(work)]
            waiting = set(futures)
            while waiting:
                finished, waiting = wait(waiting, timeout=POLL_S, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()
                on_progress(sum(shares) / len(work))
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
    results = [future.result() for future in futures]
    runs = [result for result in results if isinstance(result, MemoryRun)]
    failed = tuple(result for result in results if isinstance(result, failures.FailedRun))
    if not runs:
        raise ControllerError("; ".join(failures.by_scheme(failed)))
    return runs, failed
