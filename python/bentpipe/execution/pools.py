"""Worker pools: threads of this process, each Run of a Python controller in a process of its own.

A pool is a generator of `Event`. It starts at the first ``next`` and stops all its Runs when it is closed. The pool on
other machines is `bentpipe.execution.cluster`.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from bentpipe.errors import BentpipeError
from bentpipe.execution.interrupts import ctrl_c_deferred, ctrl_c_ignored
from bentpipe.execution.rows import QUEUED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bentpipe.execution.rows import GiveRows

R = TypeVar("R")


class ClusterError(BentpipeError):
    """The scheduler or all workers of a cluster are gone: exit code 1. Finished results are stored."""

    code = "cluster_gone"


POLL_S = 0.1
"""Interval between events of a pool while no Run finishes [s]. Chosen here: unnoticeable."""


@dataclass(frozen=True)
class Finished(Generic[R]):
    """A finished Run: its result, or its error."""

    number: int
    result: R | None
    error: Exception | None = None


@dataclass(frozen=True)
class Tick:
    """No Run has finished; `shares` are the shares done of the Runs in progress, by their numbers."""

    shares: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """A message for the user, in one line."""

    text: str


@dataclass(frozen=True)
class Rows:
    """Rows of a Run in progress, as lines of JSON. Those of a finished Run come before its `Finished`."""

    lines: bytes


Event = Finished[R] | Tick | Message | Rows

OnShare = Callable[[float], None]
"""Called by a Run with its share done, 0 to 1; it may raise to stop the Run."""

Tell = Callable[[str], None]
"""Called by a Run with a message for the user, in one line."""


@dataclass(frozen=True)
class Reports:
    """The ways in which a Run reports to its pool while it goes on."""

    share: OnShare
    message: Tell
    rows: GiveRows


class _StopRunError(Exception):
    """Raised inside the simulator's progress callback to stop a Run."""


def on_threads(run: Callable[[int, Reports], R], count: int, threads: int) -> Iterator[Event[R]]:
    """Run the Runs 0 … `count` − 1 on threads, which suffice because the simulator releases the GIL.

    `run` makes one of them; an exception from it is delivered as the Run's error.
    """
    stop = threading.Event()
    shares: dict[int, float] = {}
    messages: queue.SimpleQueue[str] = queue.SimpleQueue()
    rows: queue.Queue[bytes] = queue.Queue(QUEUED)

    def give_rows(lines: bytes, *, wait: bool) -> bool:
        while not stop.is_set():
            try:
                rows.put(lines, block=wait, timeout=POLL_S)
            except queue.Full:
                if not wait:
                    return False
            else:
                return True
        raise _StopRunError

    def one(number: int) -> R:
        def on_share(share: float) -> None:
            if stop.is_set():
                raise _StopRunError
            shares[number] = share

        on_share(0.0)
        try:
            return run(number, Reports(on_share, messages.put, give_rows))
        except KeyboardInterrupt:  # Polars catches a Ctrl-C during its work and raises it in this thread
            stop.set()
            raise

    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="run") as pool:
        try:
            with ctrl_c_deferred():
                waiting: dict[Future[R], int] = {pool.submit(one, number): number for number in range(count)}
            while waiting:
                with ctrl_c_deferred():
                    finished, _ = wait(waiting, timeout=POLL_S, return_when=FIRST_COMPLETED)
                while not messages.empty():
                    yield Message(messages.get())
                for _ in range(rows.qsize()):  # those that follow wait: simulations may be faster than their reader
                    yield Rows(rows.get())
                for future in finished:
                    number = waiting.pop(future)
                    shares.pop(number, None)  # not before: the share done may not go down
                    if not isinstance(future.exception(), _StopRunError):  # a Ctrl-C of another thread stopped it
                        yield _finished(number, future)
                yield Tick(shares.copy())
        finally:
            with ctrl_c_ignored():
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)


def _finished(number: int, future: Future[R]) -> Finished[R]:
    error = future.exception()
    if error is None:
        return Finished(number, future.result())
    if not isinstance(error, Exception):
        raise error
    return Finished(number, None, error)
