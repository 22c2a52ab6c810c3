"""Who runs the jobs of a sweep on this machine.

Whoever it is, a crew is a generator of `Event`: it begins with the first ``next`` and stops all it began when it is
closed.
"""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.runs.ctrl_c import deaf_to_ctrl_c
from bentpipe.runs.drawn import DrawnProfiles
from bentpipe.sweeps.swept import execute

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bentpipe.sweeps.job import Job

POLL_S = 0.1
"""How often a crew looks up although nothing is finished [s]. Chosen here: unnoticeable."""


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
        waiting: dict[Future[str], int] = {pool.submit(one, i, job): i for i, job in enumerate(jobs)}
        try:
            while waiting:
                finished, _ = wait(waiting, timeout=POLL_S, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield _told(waiting.pop(future), future)
                yield Tick(sum(shares.copy().values()))
        finally:
            with deaf_to_ctrl_c():
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)


def _told(number: int, future: Future[str]) -> Finished:
    error = future.exception()
    if error is None:
        return Finished(number, future.result())
    if not isinstance(error, Exception):
        raise error
    return Finished(number, None, error)
