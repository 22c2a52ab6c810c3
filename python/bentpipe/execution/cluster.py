"""Worker pool on a Dask cluster, with its handling of lost workers and of a lost scheduler."""

from __future__ import annotations

import logging
import queue
import re
import time
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.execution.pools import POLL_S, ClusterError, Event, Finished, Message, Tick
from bentpipe.execution.remote import bare, pack, remotely

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from distributed import Client, Future

    from bentpipe.execution.job import Job
    from bentpipe.runs.work import Base

CONNECT_S = 10.0
"""Longest wait for a scheduler [s]. Chosen here: a LAN takes milliseconds."""

NO_WORKER_S = 30.0
"""Longest time without any worker [s]. Chosen here: a nanny that restarts a worker takes a few seconds."""

_ADDRESS = re.compile(r"(?:(?:tcp|tls|ucx|ws|wss)://)?(?:\[[^\]]+\]|[^:/\s]+):[0-9]{1,5}/?\Z|inproc://\S+\Z")

CHECK_S = 1.0
"""Interval between checks of the workers [s]."""

AHEAD = 2
"""Jobs submitted per thread of the cluster: one running and one waiting."""


def on_cluster(jobs: Sequence[Job], address: str) -> Iterator[Event[str]]:
    """Run jobs on the workers of a Dask scheduler.

    A lost worker is reported (`Message`), and its Runs go to the others.

    Raises:
        UserError: No scheduler answers at `address`, `distributed` is not installed, or a worker has another bentpipe.
        ClusterError: The scheduler, or the last worker for `NO_WORKER_S`, is gone.
    """
    with _quiet(), _connected(address) as client:
        yield from _Cluster(client, address, jobs).events()


class _Cluster:
    """One sweep on one scheduler."""

    def __init__(self, client: Client, address: str, jobs: Sequence[Job]) -> None:
        self._client, self._address, self._jobs = client, address, jobs
        self._finished: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._out: dict[Any, tuple[int, Future[Any]]] = {}
        self._next = 0
        self._parcels: dict[str, Future[bytes]] = {}
        self._workers: dict[str, int] = {}
        self._checked = float("-inf")
        self._alone_since: float | None = None

    def events(self) -> Iterator[Event[str]]:
        """Submit jobs as workers become free."""
        try:
            while self._next < len(self._jobs) or self._out:
                yield from self._check_workers()
                self._submit()
                try:
                    future = self._finished.get(timeout=POLL_S)
                except queue.Empty:
                    yield Tick()
                    continue
                yield self._event(future)
        finally:
            for _, future in self._out.values():
                future.release()

    def _check_workers(self) -> Iterator[Event[str]]:
        """Report lost workers; at most once a second."""
        now = time.monotonic()
        if now - self._checked < CHECK_S:
            return
        self._checked = now
        workers = self._threads_by_worker()
        gone = self._workers.keys() - workers.keys()
        self._workers = workers
        left = f"{len(workers)} left, they do its Runs" if workers else "none is left"
        for worker in sorted(gone):
            yield Message(f"the worker {worker} is gone; {left}")
        if workers:
            self._alone_since = None
            return
        self._alone_since = now if self._alone_since is None else self._alone_since
        if now - self._alone_since > NO_WORKER_S:
            raise ClusterError(f"{self._address}: no worker for {NO_WORKER_S:g} s (start one: dask worker …)")

    def _threads_by_worker(self) -> dict[str, int]:
        """Return the number of threads of each worker, from the scheduler."""
        from distributed import TimeoutError as DaskTimeoutError

        if self._client.status != "running":
            raise self._scheduler_gone()
        try:
            scheduler: Any = self._client.scheduler
            threads: dict[str, int] = self._client.sync(scheduler.ncores, callback_timeout=CONNECT_S)
        except (OSError, DaskTimeoutError, TimeoutError, AttributeError, RuntimeError) as error:
            raise self._scheduler_gone() from error
        return dict(threads)

    def _scheduler_gone(self) -> ClusterError:
        return ClusterError(f"{self._address}: the scheduler is gone")

    def _submit(self) -> None:
        import cloudpickle  # a dependency of Dask; it also pickles functions of a script

        most = max(1, AHEAD * sum(self._workers.values()))
        while self._next < len(self._jobs) and len(self._out) < most:
            number, job = self._next, self._jobs[self._next]
            parcels = [self._parcel(base) for base in job.work.bases]
            packed = cloudpickle.dumps(bare(job))
            named = f"bentpipe-run-{job.key}"
            future = self._client.submit(remotely, packed, job.key, *parcels, key=named, priority=-number)
            self._out[future.key] = (number, future)
            future.add_done_callback(self._finished.put)
            self._next += 1

    def _parcel(self, base: Base) -> Future[bytes]:
        """Return a Profile on the cluster, as a task, so that Dask recomputes it if its worker is lost."""
        if base.hash not in self._parcels:
            packed, key = pack(base), f"bentpipe-profile-{base.hash}-{base.role}-{base.label}"
            self._parcels[base.hash] = self._client.submit(bytes, packed, key=key)
        return self._parcels[base.hash]

    def _event(self, future: Future[Any]) -> Event[str]:
        from distributed import TimeoutError as DaskTimeoutError

        number, _ = self._out[future.key]
        if self._client.status != "running" or future.status == "cancelled":
            raise self._scheduler_gone()
        if future.status == "lost":
            return self._await_again(future)
        if future.status == "finished":
            try:
                line: str = future.result(timeout=CONNECT_S)
            except (TimeoutError, DaskTimeoutError):
                return self._await_again(future)
            except (OSError, CancelledError) as gone:  # results come through the scheduler
                raise self._scheduler_gone() from gone
            del self._out[future.key]
            return Finished(number, line)
        del self._out[future.key]
        try:
            error = future.exception(timeout=CONNECT_S)
        except (TimeoutError, DaskTimeoutError, OSError, CancelledError) as gone:
            raise self._scheduler_gone() from gone
        if type(error).__name__ == "KilledWorker":
            raise ClusterError(f"{self._address}: workers that ran {self._jobs[number].name} ended, again and again")
        return Finished(number, None, error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def _await_again(self, future: Future[Any]) -> Tick:
        """Wait for a result that was lost with its worker: Dask repeats the Run on another one."""
        future.add_done_callback(self._finished.put)
        return Tick()


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    try:
        from distributed import Client
    except ImportError:
        raise UserError("distributed is not installed", where="on", hint="pip install 'bentpipe[cluster]'") from None
    if not _ADDRESS.match(address):
        raise UserError(
            f"{address}: no address of a scheduler", where="on", expected="for example tcp://127.0.0.1:8786"
        )
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False, name="bentpipe")
    except (OSError, ValueError, TimeoutError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"{address}: no scheduler answers ({reason})", where="on", hint="`dask scheduler`, which starts one"
        ) from None
    try:
        yield client
    finally:
        client.close(timeout=1.0)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Dask's loggers: they print tracebacks of errors that a sweep reports in one line."""
    with suppress(ImportError):
        import distributed  # noqa: F401 - `_connected` reports a failure; the import sets the loggers' levels
    loggers = [logging.getLogger(name) for name in [*logging.root.manager.loggerDict] if _is_dasks(name)]
    before = [(logger, logger.level) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in before:
            logger.setLevel(level)


def _is_dasks(logger: str) -> bool:
    return logger.partition(".")[0] == "distributed"
