"""Worker pools of a sweep on this machine: threads and processes.

A pool is a generator of `Event`. It starts at the first ``next`` and stops all its jobs when it is closed.
"""

from __future__ import annotations

import itertools
import pickle
import signal
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING

from bentpipe.errors import BentpipeError
from bentpipe.execution.drawn import DrawnProfiles
from bentpipe.execution.interrupts import ctrl_c_deferred, ctrl_c_ignored
from bentpipe.execution.sweeps.remote import bare, pack, remotely
from bentpipe.execution.sweeps.swept import execute

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bentpipe.execution.sweeps.job import Job

POLL_S = 0.1
"""Interval between events of a pool while no job finishes [s]. Chosen here: unnoticeable."""


class ProcessGoneError(BentpipeError):
    """A worker process of this machine ended: exit code 1. Finished results are stored."""


@dataclass(frozen=True)
class Finished:
    """A finished job: its line, or the error of its Run."""

    number: int
    line: str | None
    error: Exception | None = None


@dataclass(frozen=True)
class Tick:
    """No job has finished; `shares` is the sum of the running jobs' shares done."""

    shares: float = 0.0


@dataclass(frozen=True)
class Message:
    """A message for the user, in one line."""

    text: str


Event = Finished | Tick | Message


class _StopRunError(Exception):
    """Raised inside the simulator's progress callback to stop a Run."""


def on_threads(jobs: Sequence[Job], threads: int) -> Iterator[Event]:
    """Run jobs on threads, which suffice because the simulator releases the GIL."""
    drawn = DrawnProfiles((threads + 1) * max(len(job.work.bases) for job in jobs))
    stop = threading.Event()
    shares: dict[int, float] = {}

    def one(number: int, job: Job) -> str:
        def on_share(share: float) -> None:
            if stop.is_set():
                raise _StopRunError
            shares[number] = share

        try:
            return execute(job, job.key, drawn, on_share)
        finally:
            shares.pop(number, None)

    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="sweep") as pool:
        try:
            with ctrl_c_deferred():
                waiting: dict[Future[str], int] = {pool.submit(one, i, job): i for i, job in enumerate(jobs)}
            while waiting:
                with ctrl_c_deferred():
                    finished, _ = wait(waiting, timeout=POLL_S, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield _finished(waiting.pop(future), future)
                yield Tick(sum(shares.copy().values()))
        finally:
            with ctrl_c_ignored():
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)


def on_processes(jobs: Sequence[Job], processes: int) -> Iterator[Event]:
    """Run jobs on processes: Python controllers hold the interpreter's lock.

    Raises:
        ProcessGoneError: A process ended, for example killed for lack of memory.
    """
    packed = {base.hash: pack(base) for job in jobs for base in job.work.bases}
    # Each has a fresh interpreter: a fork of a process with threads may hang.
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_ignore_ctrl_c)
    waiting: dict[Future[str], int] = {}
    ahead = iter(enumerate(jobs))
    try:
        while True:
            for i, job in itertools.islice(ahead, 2 * processes - len(waiting)):
                parcels = [packed[base.hash] for base in job.work.bases]
                with ctrl_c_deferred():
                    waiting[pool.submit(remotely, pickle.dumps(bare(job)), job.key, *parcels)] = i
            if not waiting:
                return
            with ctrl_c_deferred():
                finished, _ = wait(waiting, timeout=POLL_S, return_when=FIRST_COMPLETED)
            for future in finished:
                yield _finished(waiting.pop(future), future)
            yield Tick()
    except BrokenProcessPool:
        raise ProcessGoneError("a process of the sweep is gone (killed, perhaps for lack of memory)") from None
    finally:
        with ctrl_c_ignored():
            for future in waiting:
                future.cancel()
            for process in list((pool._processes or {}).values()):
                process.terminate()  # its job is no longer needed
            pool.shutdown(wait=True, cancel_futures=True)


def _ignore_ctrl_c() -> None:
    """Ignore Ctrl-C, which a terminal sends to all its processes; the parent ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _finished(number: int, future: Future[str]) -> Finished:
    error = future.exception()
    if error is None:
        return Finished(number, future.result())
    if isinstance(error, BrokenProcessPool) or not isinstance(error, Exception):
        raise error
    return Finished(number, None, error)
