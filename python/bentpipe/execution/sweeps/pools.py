"""Who runs the jobs of a sweep on this machine.

Whoever it is, a pool is a generator of `Event`: it begins with the first ``next`` and stops all it began when it is
closed.
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
from bentpipe.execution.interrupts import ctrl_c_held_back, deaf_to_ctrl_c
from bentpipe.execution.sweeps.remote import bare, pack, remotely
from bentpipe.execution.sweeps.swept import execute

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bentpipe.execution.sweeps.job import Job

POLL_S = 0.1
"""How often a pool looks up although nothing is finished [s]. Chosen here: unnoticeable."""


class ProcessGoneError(BentpipeError):
    """A process of this machine that ran jobs ended: exit code 1. What was finished is kept."""


@dataclass(frozen=True)
class Finished:
    """A job is done: its line, or what its Run failed of."""

    number: int
    line: str | None
    error: Exception | None = None


@dataclass(frozen=True)
class Tick:
    """Nothing is finished; the jobs under way have together done what `shares` of one job are."""

    shares: float = 0.0


@dataclass(frozen=True)
class Said:
    """What the user should hear, in one line."""

    text: str


Event = Finished | Tick | Said


class _StopRunError(Exception):
    """Raised inside the simulator's progress callback to end a Run early."""


def on_threads(jobs: Sequence[Job], threads: int) -> Iterator[Event]:
    """This machine's cores: the simulator releases the GIL."""
    drawn = DrawnProfiles((threads + 1) * max(len(job.work.bases) for job in jobs))
    stop = threading.Event()
    shares: dict[int, float] = {}

    def one(number: int, job: Job) -> str:
        def heard(share: float) -> None:
            if stop.is_set():
                raise _StopRunError
            shares[number] = share

        try:
            return execute(job, job.key, drawn, heard)
        finally:
            shares.pop(number, None)

    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="sweep") as pool:
        try:
            with ctrl_c_held_back():
                waiting: dict[Future[str], int] = {pool.submit(one, i, job): i for i, job in enumerate(jobs)}
            while waiting:
                with ctrl_c_held_back():
                    finished, _ = wait(waiting, timeout=POLL_S, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield _told(waiting.pop(future), future)
                yield Tick(sum(shares.copy().values()))
        finally:
            with deaf_to_ctrl_c():
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)


def on_processes(jobs: Sequence[Job], processes: int) -> Iterator[Event]:
    """A process for each core: for controllers in Python, which hold the interpreter's lock.

    Raises `ProcessGoneError` where one of them is gone: killed, say, for want of memory.
    """
    packed = {base.hash: pack(base) for job in jobs for base in job.work.bases}
    # A fresh interpreter each: a fork of a process with threads may hang.
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_deaf)
    waiting: dict[Future[str], int] = {}
    ahead = iter(enumerate(jobs))
    try:
        while True:
            for i, job in itertools.islice(ahead, 2 * processes - len(waiting)):
                parcels = [packed[base.hash] for base in job.work.bases]
                with ctrl_c_held_back():
                    waiting[pool.submit(remotely, pickle.dumps(bare(job)), job.key, *parcels)] = i
            if not waiting:
                return
            with ctrl_c_held_back():
                finished, _ = wait(waiting, timeout=POLL_S, return_when=FIRST_COMPLETED)
            for future in finished:
                yield _told(waiting.pop(future), future)
            yield Tick()
    except BrokenProcessPool:
        raise ProcessGoneError("a process of the sweep is gone (killed, perhaps for want of memory)") from None
    finally:
        with deaf_to_ctrl_c():
            for future in waiting:
                future.cancel()
            for process in list((pool._processes or {}).values()):
                process.terminate()  # what it is at is not asked for any more
            pool.shutdown(wait=True, cancel_futures=True)


def _deaf() -> None:
    """Ctrl-C reaches all processes of a terminal; the one that started these says what becomes of them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _told(number: int, future: Future[str]) -> Finished:
    error = future.exception()
    if error is None:
        return Finished(number, future.result())
    if isinstance(error, BrokenProcessPool) or not isinstance(error, Exception):
        raise error
    return Finished(number, None, error)
